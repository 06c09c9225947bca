/* Shape environments: lines, sizes, questions about data, the solver of Dims; memory that runs out anywhere. */
#include "sym/shape.h"
#include "check.h"

static cr_env *env;

static void begin(void) { CHECK_OK(cr_env_create(&env)); }
static void finish(void) {
    cr_env_release(env);
    env = NULL;
}

static cr_sym parse(const char *text) {
    cr_sym e = NULL;
    CHECK_OK(cr_sym_parse(env, text, true, &e));
    return e;
}

static cr_status line_seven(void *user, cr_arena *arena, cr_user_line *out) {
    *out = (cr_user_line){.file = cr_arena_strdup(arena, "model.py"), .line = 7, .text = user};
    return CR_OK;
}

static cr_sym named(const char *symbol, const char *source, const char *name, int64_t value) {
    cr_sym s = cr_sym_symbol(env, symbol, CR_TYPE_INT, 2, INT64_MAX);
    CHECK_OK(cr_env_set_hint(env, s, value));
    CHECK_OK(cr_shape_add(env, &(cr_size){ .promise = CR_SIZE_NAMED,
                                           .source = source,
                                           .name = name,
                                           .root = name,
                                           .scale = 1,
                                           .lo = 0,
                                           .hi = INT64_MAX,
                                           .value = value,
                                           .symbol = s }));
    return s;
}

static void guard(const char *text) { CHECK_OK(cr_env_add_cond(env, CR_COND_GUARD, parse(text), "")); }

/* ---- the solver ---- */

/* b (example `value`) with a condition: the names in question, and the fixes. */
static void check_one(const char *condition, int64_t value, const char *names, const char *fixes) {
    cr_verdict v;
    begin();
    named("s77", "L['x'].size()[0]", "b", value);
    guard(condition);
    CHECK_OK(cr_shape_solve(env, 0, &v));
    CHECK_STR(cr_str_get(&v.names), names);
    CHECK_STR(cr_str_get(&v.fixes), fixes);
    cr_verdict_dispose(&v);
    finish();
}

static void one_dimension(void) {
    check_one("s77 >= 2", 4, "", "");
    check_one("s77 > 3", 4, "b", "b = Dim('b', min=4)\n");
    check_one("s77 < 9", 4, "b", "b = Dim('b', max=8)\n");
    check_one("Eq(s77, 4)", 4, "b", "b = 4\n");
    check_one("Eq(s77//2, 2)", 4, "b", "b = Dim('b', min=4, max=5)\n");
    check_one("Eq(Mod(s77, 2), 0)", 4, "b", "_b = Dim('_b', min=1)\nb = 2*_b\n");
    check_one("Eq(Mod(s77, 3), 1)", 4, "b", "_b = Dim('_b', min=2)\nb = 3*_b - 2\n");
    check_one("Ne(s77, 9)", 4, "b", "b = Dim('b', max=8)\n");
    check_one("Ne(s77, 9)", 12, "b", "b = Dim('b', min=10)\n");
    check_one("Eq(s77*s77, 16)", 4, "b", "b = 4\n");
    check_one("s77*s77 < 100", 4, "b", "b = Dim('b', max=9)\n");
    check_one("Eq(Mod(s77*s77, 3), 1)", 4, "b", "b = Dim('b', min=4, max=5)\n"); /* two residue classes */
    check_one("Eq(Mod(s77, 1000), 4)", 4, "b", "b = 4\n");                       /* beyond what is tried */
}

static void several_dimensions(void) {
    cr_verdict v;
    begin();
    cr_env_set_user_line(env, line_seven, "z = x + y");
    named("s1", "L['x'].size()[0]", "a", 4);
    named("s2", "L['y'].size()[0]", "b", 9);
    named("s3", "L['z'].size()[0]", "c", 13);
    guard("Eq(s2, 2*s1 + 1)");
    guard("Eq(s3, s1 + s2)");
    guard("s2 < 30");
    CHECK_OK(cr_shape_solve(env, 0, &v));
    CHECK_STR(cr_str_get(&v.names), "a, b, c");
    CHECK_STR(cr_str_get(&v.fixes), "a = Dim('a', max=14)\nb = 2*a + 1\nc = 3*a + 1\n");
    CHECK(strstr(cr_str_get(&v.reasons), "b = L['y'].size()[0] is always 2*a + 1, where a = L['x'].size()[0]"));
    CHECK(strstr(cr_str_get(&v.reasons), "(model.py:7: z = x + y)"));
    cr_verdict_dispose(&v);
    finish();

    begin(); /* what a Dim cannot say stays a guard */
    named("s1", "L['x'].size()[0]", "a", 4);
    named("s2", "L['y'].size()[0]", "b", 3);
    named("s3", "L['z'].size()[0]", "c", 12);
    guard("Eq(s3, s1*s2)");
    CHECK_OK(cr_shape_solve(env, 0, &v));
    CHECK_STR(cr_str_get(&v.names), "");
    cr_verdict_dispose(&v);
    CHECK_OK(cr_shape_solve(env, CR_SOLVE_DEFER, &v));
    CHECK_EQ(v.deferred.n, 1);
    cr_verdict_dispose(&v);
    finish();
}

static void derived(void) {
    cr_verdict v;
    begin(); /* x has 2*k elements: evenness is promised, at least 8 is not */
    cr_sym k = cr_sym_symbol(env, "s0", CR_TYPE_INT, 2, INT64_MAX),
           x = cr_sym_symbol(env, "s1", CR_TYPE_INT, 2, INT64_MAX);
    CHECK_OK(cr_env_set_hint(env, k, 5));
    CHECK_OK(cr_env_set_hint(env, x, 10));
    CHECK_OK(cr_shape_add(env, &(cr_size){ .promise = CR_SIZE_NAMED,
                                           .source = "x",
                                           .name = "2*k",
                                           .root = "k",
                                           .scale = 2,
                                           .lo = 0,
                                           .hi = INT64_MAX,
                                           .value = 10,
                                           .symbol = x }));
    CHECK_ERROR(cr_shape_solve(env, 0, &v), CR_EVALUE, "the root 'k' of a derived size was not added");
    CHECK_OK(cr_shape_add(env, &(cr_size){ .promise = CR_SIZE_ROOT,
                                           .source = "k",
                                           .name = "k",
                                           .root = "k",
                                           .scale = 1,
                                           .lo = 2,
                                           .hi = INT64_MAX,
                                           .value = 5,
                                           .symbol = k }));
    guard("Eq(s1, 2*s0)");
    guard("Eq(Mod(s1, 2), 0)");
    CHECK_OK(cr_shape_solve(env, 0, &v));
    CHECK_STR(cr_str_get(&v.names), "");
    cr_verdict_dispose(&v);
    guard("s1 >= 8");
    CHECK_OK(cr_shape_solve(env, 0, &v));
    CHECK_STR(cr_str_get(&v.fixes), "k = Dim('k', min=4)\n");
    cr_verdict_dispose(&v);
    finish();
}

static void hints(void) {
    cr_verdict v;
    begin();
    cr_sym a = cr_sym_symbol(env, "s1", CR_TYPE_INT, 2, INT64_MAX),
           b = cr_sym_symbol(env, "s2", CR_TYPE_INT, 2, INT64_MAX);
    CHECK_OK(cr_env_set_hint(env, a, 4));
    CHECK_OK(cr_env_set_hint(env, b, 4));
    CHECK_OK(cr_shape_add(env, &(cr_size){ .promise = CR_SIZE_AUTO,
                                           .source = "L['x'].size()[0]",
                                           .value = 4,
                                           .symbol = a,
                                           .hi = INT64_MAX }));
    CHECK_OK(cr_shape_add(env, &(cr_size){ .promise = CR_SIZE_DYNAMIC,
                                           .source = "L['y'].size()[0]",
                                           .value = 4,
                                           .symbol = b,
                                           .hi = INT64_MAX }));
    guard("Eq(s1, s2)");
    guard("Eq(Mod(s1, 2), 0)");
    CHECK_OK(cr_shape_solve(env, 0, &v));
    CHECK_STR(cr_str_get(&v.names), "");
    cr_verdict_dispose(&v);
    guard("Eq(s1, 4)");
    CHECK_OK(cr_shape_solve(env, 0, &v));
    CHECK_STR(cr_str_get(&v.names), "L['y'].size()[0]");
    CHECK_STR(cr_str_get(&v.fixes), "");
    CHECK(strstr(cr_str_get(&v.reasons), "must vary, but the program works with 4 alone"));
    cr_verdict_dispose(&v);
    CHECK_ERROR(cr_shape_add(env,
                             &(cr_size){
                                 .promise = CR_SIZE_NAMED, .source = "x", .name = "n", .root = "n", .scale = 0 }),
                CR_EVALUE, "a positive multiple");
    CHECK_ERROR(cr_shape_add(env, &(cr_size){ .promise = CR_SIZE_AUTO, .source = "x", .symbol = parse("s1 + s2") }),
                CR_EVALUE, "is a symbol");
    finish();
}

/* ---- texts ---- */

static void texts(void) {
    static const struct { const char *text, *python; } cases[] = {
        {"Eq(Mod(s1, 2), 0)", "(x % 2) == 0"},
        {"s1 >= 4", "x >= 4"},
        {"s1 < 3*s2", "x < (3*y)"},
        {"Eq(s1//2 + 1, s2)", "y == ((x // 2) + 1)"},
        {"Max(s1, 8) < s2", "max(8, x) < y"},
        {"(s1 > 3) | Eq(s2, 5)", "(y == 5) or (x >= 4)"},
        {"Ne(s1*s2, 12)", "(x*y) != 12"},
        {"u0 - s1 > -3", "x <= (u0 + 2)"},
    };
    begin();
    cr_sym s1 = cr_sym_symbol(env, "s1", CR_TYPE_INT, 2, INT64_MAX),
           s2 = cr_sym_symbol(env, "s2", CR_TYPE_INT, 2, INT64_MAX);
    cr_sym_unbacked(env, 0, INT64_MAX);
    CHECK_OK(cr_shape_add(env, &(cr_size){.promise = CR_SIZE_AUTO, .source = "x", .symbol = s1}));
    CHECK_OK(cr_shape_add(env, &(cr_size){.promise = CR_SIZE_AUTO, .source = "y", .symbol = s2}));
    for (size_t i = 0; i < CR_COUNT(cases); i++) {
        cr_str out = {0};
        cr_shape_text(env, parse(cases[i].text), &out);
        CHECK_STR(cr_str_get(&out), cases[i].python);
        cr_str_dispose(&out);
    }
    finish();
}

/* ---- data ---- */

static void data(void) {
    begin();
    cr_env_set_user_line(env, line_seven, "n = x.item()");
    cr_sym n = cr_sym_unbacked(env, INT64_MIN, INT64_MAX), size = cr_sym_unbacked_size(env, 100);
    CHECK_EQ(cr_sym_line(n).line, 7);
    CHECK(cr_env_is_size(size) && !cr_env_is_size(n) && cr_env_unbacked_count(env) == 2 &&
          cr_env_unbacked(env, 1) == size);
    CHECK_EQ(cr_sym_truth_oblivious(env, parse("Eq(u1, 1)")), CR_NO);
    CHECK_EQ(cr_sym_truth_oblivious(env, parse("u1 >= 2")), CR_YES);
    CHECK_EQ(cr_sym_truth_oblivious(env, parse("Eq(u1*3, 0)")), CR_NO);
    CHECK_EQ(cr_sym_truth_oblivious(env, parse("u1 > 5")), CR_UNKNOWN);
    CHECK_EQ(cr_sym_truth_oblivious(env, parse("Eq(u0, 1)")), CR_UNKNOWN);
    CHECK_EQ(cr_sym_truth(env, parse("u1 >= 2")), CR_UNKNOWN); /* asking taught nothing */
    CHECK_ERROR(cr_env_undecided(env, parse("u0 > 5")), CR_EDATADEP, "_check(n >= 6) or _check(n <= 5)");
    CHECK_ERROR(cr_env_undecided(env, n), CR_EDATADEP, "no fixed value of u0");

    bool yes = true;
    CHECK_OK(cr_dim_decide(env, cr_dim_of(env, size), CR_EQ, 1, &yes)); /* a rule's question, and what it assumed */
    CHECK(!yes && cr_env_cond_count(env) == 1 && cr_env_cond(env, 0).kind == CR_COND_ASSUMED);
    CHECK_EQ(cr_env_cond_line(env, 0).line, 7);
    CHECK_ERROR(cr_dim_decide(env, cr_dim_of(env, n), CR_EQ, 1, &yes), CR_EDATADEP, "model.py:7");

    CHECK_OK(cr_env_check(env, parse("u0 > 5"), "large"));
    CHECK_EQ(cr_env_cond(env, 1).kind, CR_COND_ASSERT);
    CHECK_OK(cr_env_check(env, parse("u0 > 3"), ""));
    CHECK_ERROR(cr_env_check(env, parse("u0 < 2"), "why"), CR_ERUNTIME, "this check fails: u0 <= 1: why");
    CHECK_OK(cr_env_mark_size(env, n));
    CHECK_ERROR(cr_env_mark_size(env, parse("u0 + u1")), CR_EVALUE, "only an integer symbol");
    CHECK_EQ(cr_env_cond_line(env, 99).line, 0);
    finish();
}

/* ---- memory that runs out anywhere ---- */

static cr_status solve_everything(void *unused) {
    static const char *const conditions[] = { "Eq(s2, 2*s1 + 1)", "Eq(Mod(s1, 3), 1)", "s1 < 100",
                                              "Ne(s3, 9)",        "Eq(s4, 7)",         "s1*s1 < 4000" };
    cr_env *e = NULL;
    cr_verdict v = {0};
    cr_status status = CR_OK;
    (void)unused;
    CR_TRY_OUT(cr_env_create(&e));
    cr_env_set_user_line(e, line_seven, "z = x + y");
    static const int64_t values[] = {4, 9, 5, 7};
    for (int i = 0; i < 4; i++) {
        char symbol[8] = {'s', (char)('1' + i)}, name[8] = {(char)('a' + i)};
        cr_sym s = cr_sym_symbol(e, symbol, CR_TYPE_INT, 2, INT64_MAX);
        CR_TRY_OUT(cr_env_set_hint(e, s, values[i]));
        CR_TRY_OUT(cr_shape_add(e, &(cr_size){ .promise = i == 3 ? CR_SIZE_DYNAMIC : CR_SIZE_NAMED,
                                               .source = symbol,
                                               .name = name,
                                               .root = name,
                                               .scale = 1,
                                               .hi = INT64_MAX,
                                               .value = values[i],
                                               .symbol = s }));
    }
    for (size_t i = 0; i < CR_COUNT(conditions); i++) {
        cr_sym c = NULL;
        CR_TRY_OUT(cr_sym_parse(e, conditions[i], true, &c));
        CR_TRY_OUT(cr_env_add_cond(e, CR_COND_GUARD, c, ""));
    }
    CR_TRY_OUT(cr_shape_solve(e, 0, &v));
    CHECK_STR(cr_str_get(&v.names), "a, b, c, s4");
    CHECK_STR(cr_str_get(&v.fixes), "a = 4\nc = Dim('c', max=8)\nb = 2*a + 1\n");
    cr_sym n = cr_sym_unbacked_size(e, INT64_MAX), c = cr_sym_compare(e, n, CR_GT, cr_sym_int(e, 5));
    cr_tri oblivious = cr_sym_truth_oblivious(e, c);
    (void)oblivious;
    status = cr_env_undecided(e, c);
    if (status == CR_EDATADEP) status = CR_OK;
    if (!status) status = cr_env_check(e, c, "more");
out:
    cr_verdict_dispose(&v);
    cr_env_release(e);
    return status;
}

static void out_of_memory(void) { CHECK_OOM_SWEEP(solve_everything, NULL); }

static void trials(void) {
    begin();
    cr_sym a = named("s0", "L['x'].size()[0]", "a", 8), b = named("s1", "L['y'].size()[0]", "b", 8);
    bool yes;
    CHECK_OK(cr_dim_decide(env, cr_dim_of(env, a), CR_GE, 4, &yes));
    cr_env_trial outer = cr_env_begin_trial(env);
    CHECK_OK(cr_dim_require(env, cr_dim_of(env, a), CR_EQ, cr_dim_of(env, b), "equal"));
    cr_env_trial inner = cr_env_begin_trial(env);
    CHECK_OK(cr_dim_decide(env, cr_dim_of(env, b), CR_LT, 9, &yes));
    CHECK(cr_sym_range(env, a).hi == 8 && cr_env_cond_count(env) == 3);
    cr_env_end_trial(env, inner);
    CHECK(cr_sym_range(env, a).hi == INT64_MAX &&
          cr_dim_known(env, cr_dim_of(env, a), CR_EQ, cr_dim_of(env, b)) == CR_YES);
    cr_env_end_trial(env, outer);
    CHECK(cr_dim_known(env, cr_dim_of(env, a), CR_EQ, cr_dim_of(env, b)) == CR_UNKNOWN);
    CHECK(cr_env_cond_count(env) == 1 && cr_sym_range(env, a).lo == 4 && cr_sym_range(env, b).lo == 2);
    finish();
}

static void small_sizes(void) {
    begin();
    cr_sym a = named("s0", "L['x'].size()[0]", "a", 8);
    CHECK_OK(cr_shape_rely(env, parse("s0 + 1 > 0"), true)); /* of 0 and 1, too */
    CHECK(cr_env_cond_count(env) == 0);
    CHECK_OK(cr_shape_rely(env, parse("Eq(s0, 1)"), false));
    CHECK(cr_env_cond_count(env) == 1 && cr_env_cond(env, 0).kind == CR_COND_TRACED &&
          cr_env_cond(env, 0).condition == parse("Ne(s0, 1)"));
    cr_verdict v;
    CHECK_OK(cr_shape_solve(env, 0, &v)); /* a promise that begins at 0 says nothing about it */
    CHECK_STR(cr_str_get(&v.names), "");
    cr_verdict_dispose(&v);
    CHECK(cr_sym_simplify(env, parse("Max(s0, 2)")) == a);
    CHECK_OK(cr_shape_open(env));
    CHECK(cr_sym_simplify(env, parse("Max(s0, 2)")) != a && cr_sym_range(env, a).lo == 0);
    cr_shape_set_traced(env, true);
    CHECK(cr_sym_simplify(env, parse("Max(s0, 2)")) == a);
    cr_shape_set_traced(env, false);
    CHECK(cr_sym_range(env, a).lo == 0);
    finish();
}

int main(void) {
    RUN(one_dimension);
    RUN(several_dimensions);
    RUN(derived);
    RUN(hints);
    RUN(texts);
    RUN(data);
    RUN(trials);
    RUN(small_sizes);
    RUN(out_of_memory);
    return check_summary();
}
