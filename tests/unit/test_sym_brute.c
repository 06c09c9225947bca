/* src/sym against brute force: random expressions, random assignments.
 *
 * A tree is built twice, as a canonical expression and as a plain tree that is evaluated without any rewriting. For
 * every assignment that the facts allow and where the plain tree is defined: the canonical form, its simplified form
 * and the expression with the values put in give the plain value; ranges and congruences contain it; answers are never
 * wrong (unknown is allowed, and counted). For every expression: both texts read back to the same pointer.
 * CRESSET_FULL=1 runs a million pairs. */
#include "sym/internal.h"
#include "check.h"

#include <math.h>
#include <stdlib.h>

typedef __int128 wide;

/* ---- random numbers ---- */
static uint64_t seed = 1;
static uint64_t random64(void) {
    seed += 0x9e3779b97f4a7c15u;
    uint64_t z = (seed ^ seed >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}
static int64_t between(int64_t lo, int64_t hi) { return lo + (int64_t)(random64() % (uint64_t)(hi - lo + 1)); }
static bool chance(int percent) { return between(0, 99) < percent; }

/* ---- the symbols ---- */
enum { S0, S1, S2, U0, U1, B0, F0, SYMBOLS };
static const struct { const char *name; cr_sym_type type; int64_t lo, hi; int64_t from, to; } symbols[SYMBOLS] = {
    [S0] = {"s0", CR_TYPE_INT, 2, INT64_MAX, 2, 40},  [S1] = {"s1", CR_TYPE_INT, 0, 30, 0, 30},
    [S2] = {"s2", CR_TYPE_INT, 1, 8, 1, 8},           [U0] = {"u0", CR_TYPE_INT, -7, 5, -7, 5},
    [U1] = {"u1", CR_TYPE_INT, INT64_MIN, INT64_MAX, -50, 50},
    [B0] = {"b0", CR_TYPE_BOOL, 0, 1, 0, 1},          [F0] = {"f0", CR_TYPE_FLOAT, 0, 0, -9, 9},
};
typedef struct { int64_t i[SYMBOLS]; } assignment;
static double float_value(int64_t i) { return (double)i * 0.375; }

/* ---- plain trees ---- */
typedef struct { bool defined; wide i; double f; } value;
typedef struct tree { int op; cr_sym_type type; struct tree *a, *b, *c; int64_t constant; double real; } tree;
enum { OP_INT = 1000, OP_REAL, OP_TRUTH, OP_SYMBOL, OP_SUB, OP_NEG, OP_GT, OP_GE };
static tree pool[4096];
static size_t pool_used;

static tree *new_tree(int op, cr_sym_type type) {
    tree *t = &pool[pool_used++];
    *t = (tree){.op = op, .type = type};
    return t;
}

static tree *random_int(int depth);
static tree *random_float(int depth);
static tree *random_bool(int depth);

static tree *binary(int op, cr_sym_type type, tree *a, tree *b) {
    tree *t = new_tree(op, type);
    t->a = a, t->b = b;
    return t;
}

static tree *constant(int64_t value) {
    tree *t = new_tree(OP_INT, CR_TYPE_INT);
    t->constant = value;
    return t;
}

static tree *random_int(int depth) {
    static const int common[] = {CR_SYM_ADD,      CR_SYM_ADD,      OP_SUB,     OP_SUB,     CR_SYM_MUL, CR_SYM_MUL,
                                 CR_SYM_FLOORDIV, CR_SYM_FLOORDIV, CR_SYM_MOD, CR_SYM_MOD, CR_SYM_MIN, CR_SYM_MAX};
    static const int rare[] = {CR_SYM_CEILDIV, CR_SYM_TRUNCDIV, CR_SYM_CMOD,  CR_SYM_ABS,   CR_SYM_WHERE, CR_SYM_POW,
                               CR_SYM_FLOOR,   CR_SYM_CEIL,     CR_SYM_TRUNC, CR_SYM_ROUND, OP_NEG,
                               CR_SYM_BITAND, CR_SYM_BITOR};
    if (depth == 0 || chance(12)) {
        if (chance(40)) return constant(chance(80) ? between(-6, 8) : between(-40, 40));
        tree *t = new_tree(OP_SYMBOL, CR_TYPE_INT);
        t->constant = between(S0, U1);
        return t;
    }
    int op = chance(75) ? common[between(0, CR_COUNT(common) - 1)] : rare[between(0, CR_COUNT(rare) - 1)];
    tree *t = new_tree(op, CR_TYPE_INT);
    switch (op) {
    case OP_NEG:
    case CR_SYM_ABS: t->a = random_int(depth - 1); return t;
    case CR_SYM_FLOOR:
    case CR_SYM_CEIL:
    case CR_SYM_TRUNC:
    case CR_SYM_ROUND: t->a = random_float(depth - 1); return t;
    case CR_SYM_WHERE:
        t->a = random_bool(depth - 1), t->b = random_int(depth - 1), t->c = random_int(depth - 1);
        return t;
    case CR_SYM_POW:
        t->a = random_int(depth - 1), t->b = chance(80) ? constant(between(0, 4)) : random_int(0);
        return t;
    default: break;
    }
    t->a = random_int(depth - 1);
    bool divides =
        op == CR_SYM_FLOORDIV || op == CR_SYM_MOD || op == CR_SYM_CEILDIV || op == CR_SYM_TRUNCDIV || op == CR_SYM_CMOD;
    t->b = divides && chance(70) ? constant(chance(85) ? between(1, 8) : between(-8, 8)) : random_int(depth - 1);
    return t;
}

static tree *random_float(int depth) {
    static const int ops[] = {CR_SYM_ADD,     OP_SUB,         CR_SYM_MUL,  CR_SYM_TRUEDIV, CR_SYM_TRUEDIV,
                              CR_SYM_TOFLOAT, CR_SYM_TOFLOAT, CR_SYM_SQRT, CR_SYM_MIN,     CR_SYM_MAX,
                              OP_NEG,         CR_SYM_ABS,     CR_SYM_WHERE};
    if (depth == 0 || chance(12)) {
        tree *t = new_tree(chance(50) ? OP_REAL : OP_SYMBOL, CR_TYPE_FLOAT);
        t->constant = F0;
        t->real = (double)between(-20, 20) / 8;
        return t;
    }
    int op = ops[between(0, CR_COUNT(ops) - 1)];
    tree *t = new_tree(op, CR_TYPE_FLOAT);
    if (op == CR_SYM_TOFLOAT) t->a = random_int(depth - 1);
    else if (op == CR_SYM_TRUEDIV) t->a = random_int(depth - 1), t->b = random_int(depth - 1);
    else if (op == CR_SYM_WHERE)
        t->a = random_bool(depth - 1), t->b = random_float(depth - 1), t->c = random_float(depth - 1);
    else t->a = random_float(depth - 1);
    if (op == CR_SYM_ADD || op == OP_SUB || op == CR_SYM_MUL || op == CR_SYM_MIN || op == CR_SYM_MAX)
        t->b = random_float(depth - 1);
    return t;
}

static tree *random_bool(int depth) {
    static const int comparisons[] = {CR_SYM_EQ, CR_SYM_NE, CR_SYM_LT, CR_SYM_LE, OP_GT, OP_GE};
    if (depth == 0 && chance(50)) {
        tree *t = new_tree(chance(30) ? OP_TRUTH : OP_SYMBOL, CR_TYPE_BOOL);
        t->constant = t->op == OP_TRUTH ? between(0, 1) : B0;
        return t;
    }
    int below = depth ? depth - 1 : 0;
    if (chance(60) || depth == 0) {
        int op = comparisons[between(0, 5)];
        if (chance(12))
            return binary(op, CR_TYPE_BOOL, random_float(below), chance(50) ? random_int(below) : random_float(below));
        if (chance(6) && op <= CR_SYM_NE) return binary(op, CR_TYPE_BOOL, random_bool(below), random_bool(below));
        return binary(op, CR_TYPE_BOOL, random_int(below), random_int(below));
    }
    if (chance(25)) return binary(CR_SYM_NOT, CR_TYPE_BOOL, random_bool(below), NULL);
    return binary(chance(50) ? CR_SYM_AND : CR_SYM_OR, CR_TYPE_BOOL, random_bool(below), random_bool(below));
}

static const wide LIMIT = (wide)1 << 62;
static value of_int(wide i) { return (value){i < LIMIT && i > -LIMIT, i, 0}; }
static value of_float(double f) { return (value){true, 0, f}; }
static value of_bool(bool b) { return (value){true, b, 0}; }
static const value undefined = {false, 0, 0};

static wide floor_div(wide a, wide b) {
    wide q = a / b;
    return q * b != a && (a < 0) != (b < 0) ? q - 1 : q;
}

static value evaluate(const tree *t, const assignment *at);

static value evaluate_int(const tree *t, value a, value b) {
    wide power = 1;
    switch (t->op) {
    case CR_SYM_ADD: return of_int(a.i + b.i);
    case OP_SUB: return of_int(a.i - b.i);
    case OP_NEG: return of_int(-a.i);
    case CR_SYM_MUL: return of_int(a.i * b.i);
    case CR_SYM_MIN: return a.i < b.i ? a : b;
    case CR_SYM_MAX: return a.i > b.i ? a : b;
    case CR_SYM_ABS: return of_int(a.i < 0 ? -a.i : a.i);
    case CR_SYM_BITAND: return of_int(a.i & b.i);
    case CR_SYM_BITOR: return of_int(a.i | b.i);
    case CR_SYM_FLOOR: return fabs(a.f) < 1e18 ? of_int((wide)floor(a.f)) : undefined;
    case CR_SYM_CEIL: return fabs(a.f) < 1e18 ? of_int((wide)ceil(a.f)) : undefined;
    case CR_SYM_TRUNC: return fabs(a.f) < 1e18 ? of_int((wide)trunc(a.f)) : undefined;
    case CR_SYM_ROUND: return fabs(a.f) < 1e18 ? of_int((wide)nearbyint(a.f)) : undefined;
    case CR_SYM_POW:
        if (b.i < 0 || b.i > 200) return undefined;
        for (wide i = 0; i < b.i; i++) {
            power *= a.i;
            if (power >= LIMIT || power <= -LIMIT) return undefined;
        }
        return of_int(power);
    default: break;
    }
    if (b.i == 0) return undefined;
    switch (t->op) {
    case CR_SYM_FLOORDIV: return of_int(floor_div(a.i, b.i));
    case CR_SYM_CEILDIV: return of_int(-floor_div(-a.i, b.i));
    case CR_SYM_MOD: return of_int(a.i - b.i * floor_div(a.i, b.i));
    case CR_SYM_TRUNCDIV: return of_int(a.i / b.i);
    case CR_SYM_CMOD: return of_int(a.i % b.i);
    default: abort();
    }
}

static value evaluate_float(const tree *t, value a, value b) {
    switch (t->op) {
    case CR_SYM_ADD: return of_float(a.f + b.f);
    case OP_SUB: return of_float(a.f - b.f);
    case OP_NEG: return of_float(-a.f);
    case CR_SYM_MUL: return of_float(a.f * b.f);
    case CR_SYM_ABS: return of_float(fabs(a.f));
    case CR_SYM_MIN: return of_float(b.f < a.f ? b.f : a.f);
    case CR_SYM_MAX: return of_float(b.f > a.f ? b.f : a.f);
    case CR_SYM_SQRT: return a.f < 0 ? undefined : of_float(sqrt(a.f));
    case CR_SYM_TOFLOAT: return of_float((double)a.i);
    case CR_SYM_TRUEDIV: /* a double holds both exactly, or the case is left to test_sym */
        if (b.i == 0 || a.i > 1LL << 53 || a.i < -(1LL << 53) || b.i > 1LL << 53 || b.i < -(1LL << 53))
            return undefined;
        return of_float((double)a.i / (double)b.i);
    default: abort();
    }
}

static value evaluate_bool(const tree *t, value a, value b) {
    bool real = t->a->type == CR_TYPE_FLOAT || t->b->type == CR_TYPE_FLOAT;
    double x = t->a->type == CR_TYPE_FLOAT ? a.f : (double)a.i, y = t->b->type == CR_TYPE_FLOAT ? b.f : (double)b.i;
    int64_t exact = (int64_t)1 << 53;
    if (real && ((t->a->type == CR_TYPE_INT && (a.i > exact || a.i < -exact)) ||
                 (t->b->type == CR_TYPE_INT && (b.i > exact || b.i < -exact))))
        return undefined;
    switch (t->op) {
    case CR_SYM_EQ: return of_bool(real ? x == y : a.i == b.i);
    case CR_SYM_NE: return of_bool(real ? x != y : a.i != b.i);
    case CR_SYM_LT: return of_bool(real ? x < y : a.i < b.i);
    case CR_SYM_LE: return of_bool(real ? x <= y : a.i <= b.i);
    case OP_GT: return of_bool(real ? x > y : a.i > b.i);
    case OP_GE: return of_bool(real ? x >= y : a.i >= b.i);
    default: abort();
    }
}

static value evaluate(const tree *t, const assignment *at) {
    if (t->op == OP_INT) return of_int(t->constant);
    if (t->op == OP_REAL) return of_float(t->real);
    if (t->op == OP_TRUTH) return of_bool(t->constant);
    if (t->op == OP_SYMBOL) {
        int64_t i = at->i[t->constant];
        return t->constant == F0 ? of_float(float_value(i)) : of_int(i);
    }
    value a = evaluate(t->a, at), b = t->b ? evaluate(t->b, at) : a;
    if (t->op == CR_SYM_WHERE) return a.defined ? (a.i ? b : evaluate(t->c, at)) : undefined;
    if (t->op == CR_SYM_AND || t->op == CR_SYM_OR) { /* one operand may decide alone */
        bool decisive = t->op == CR_SYM_OR;
        if ((a.defined && (a.i != 0) == decisive) || (b.defined && (b.i != 0) == decisive)) return of_bool(decisive);
        return a.defined && b.defined ? of_bool(!decisive) : undefined;
    }
    if (!a.defined || !b.defined) return undefined;
    if (t->op == CR_SYM_NOT) return of_bool(!a.i);
    return t->type == CR_TYPE_INT     ? evaluate_int(t, a, b)
           : t->type == CR_TYPE_FLOAT ? evaluate_float(t, a, b)
                                      : evaluate_bool(t, a, b);
}

/* ---- the same tree through the constructors ---- */

static cr_sym build(cr_env *env, const tree *t) {
    if (t->op == OP_INT) return cr_sym_int(env, t->constant);
    if (t->op == OP_REAL) return cr_sym_float(env, t->real);
    if (t->op == OP_TRUTH) return cr_sym_bool(env, t->constant);
    if (t->op == OP_SYMBOL) return cr_sym_find_symbol(env, symbols[t->constant].name);
    cr_sym a = build(env, t->a), b = t->b ? build(env, t->b) : NULL, c = t->c ? build(env, t->c) : NULL;
    if (t->op == OP_SUB) return cr_sym_sub(env, a, b);
    if (t->op == OP_NEG) return cr_sym_neg(env, a);
    if (t->op == OP_GT) return cr_sym_compare(env, a, CR_GT, b);
    if (t->op == OP_GE) return cr_sym_compare(env, a, CR_GE, b);
    return cr_sym_make(env, (cr_sym_kind)t->op, a, b, c);
}

static bool lookup(void *user, cr_sym symbol, cr_sym_value *out) {
    const assignment *at = user;
    for (int k = 0; k < SYMBOLS; k++) {
        if (strcmp(symbols[k].name, cr_sym_name(symbol)) != 0) continue;
        *out = (cr_sym_value){.type = symbols[k].type, .i = at->i[k], .f = float_value(at->i[k])};
        return true;
    }
    return false;
}

typedef struct { cr_env *env; const assignment *at; } put_values;
static cr_sym put_value(void *user, cr_sym symbol) {
    put_values *p = user;
    cr_sym_value v;
    lookup((void *)p->at, symbol, &v);
    if (v.type == CR_TYPE_FLOAT) return cr_sym_float(p->env, v.f);
    return v.type == CR_TYPE_INT ? cr_sym_int(p->env, v.i) : cr_sym_bool(p->env, v.i);
}

static cr_env *environment(void) {
    cr_env *env = NULL;
    if (cr_env_create(&env)) abort();
    for (int k = 0; k < SYMBOLS; k++)
        cr_sym_symbol(env, symbols[k].name, symbols[k].type, symbols[k].lo, symbols[k].hi);
    return env;
}

/* ---- counts ---- */
static int64_t pairs, wrong, opaque, unknown, decided, undefined_pairs, facts_learned, facts_refused;

static void report(const char *what, cr_sym e, const assignment *at) {
    wrong++;
    if (wrong > 20) return;
    cr_str text = {0};
    cr_sym_print(e, &text);
    CHECK_FAILED("%s: %s at s0=%d s1=%d s2=%d u0=%d u1=%d b0=%d f0=%g", what, cr_str_get(&text), (int)at->i[S0],
                 (int)at->i[S1], (int)at->i[S2], (int)at->i[U0], (int)at->i[U1], (int)at->i[B0],
                 float_value(at->i[F0]));
    cr_str_dispose(&text);
}

static bool equal_values(cr_sym_type type, const cr_sym_value *got, value want) {
    if (type != CR_TYPE_FLOAT) return got->i == (int64_t)want.i;
    return got->f == want.f || (isnan(got->f) && isnan(want.f));
}

static void check_value(const char *what, cr_sym original, cr_sym e, const assignment *at, value want) {
    cr_sym_value got;
    if (cr__is_opaque(e)) return;
    if (!cr__eval(e, lookup, (void *)at, &got, NULL, NULL)) {
        report(what, original, at);
        return;
    }
    if ((cr_sym_type)e->type != (cr_sym_type)original->type || !equal_values((cr_sym_type)e->type, &got, want))
        report(what, original, at);
}

static void check_pair(cr_env *env, const tree *t, cr_sym e, const assignment *at) {
    value want = evaluate(t, at);
    pairs++;
    if (!want.defined) {
        undefined_pairs++;
        return;
    }
    check_value("evaluation", e, e, at, want);
    check_value("simplified", e, cr_sym_simplify(env, e), at, want);
    if (pairs % 7 == 0) {
        put_values put = {env, at};
        cr_sym folded = cr_sym_substitute(env, e, put_value, &put);
        if (!cr__is_opaque(folded) && folded->kind != CR_SYM_INTEGER && folded->kind != CR_SYM_REAL &&
            folded->kind != CR_SYM_TRUTH)
            report("substitution leaves no constant", e, at);
        check_value("substitution", e, folded, at, want);
    }
    if (cr__is_opaque(e)) return;
    if (e->type == CR_TYPE_INT) {
        cr_range r = cr_sym_range(env, e);
        if (want.i < r.lo || want.i > r.hi) report("range", e, at);
        cr__congruence c = cr__sym_congruence(env, e);
        if (c.modulus ? (want.i - c.residue) % c.modulus != 0 : want.i != c.residue) report("congruence", e, at);
    }
    if (e->type == CR_TYPE_BOOL) {
        cr_tri truth = cr_sym_truth(env, e);
        if (truth == CR_UNKNOWN) unknown++;
        else decided++;
        if (truth != CR_UNKNOWN && (truth == CR_YES) != (want.i != 0)) report("truth", e, at);
    }
}

static void check_texts(cr_env *env, cr_sym e) {
    static const assignment none = {{0}};
    cr_str text = {0}, again = {0};
    cr_sym back = NULL;
    cr_sym_print(e, &text);
    if (cr_sym_parse(env, cr_str_get(&text), true, &back) || back != e) report("infix text", e, &none);
    cr_str_dispose(&text);
    cr_sym_print_srepr(e, &text);
    if (cr_sym_parse_srepr(env, cr_str_get(&text), true, &back) || back != e) report("srepr text", e, &none);
    if (chance(5)) { /* the order of terms depends on no environment */
        cr_env *other = environment();
        if (cr_sym_parse_srepr(other, cr_str_get(&text), true, &back)) report("srepr text elsewhere", e, &none);
        else cr_sym_print_srepr(back, &again);
        if (strcmp(cr_str_get(&text), cr_str_get(&again)) != 0) report("order of terms", e, &none);
        cr_env_release(other);
    }
    cr_str_dispose(&text);
    cr_str_dispose(&again);
}

enum { FACTS = 3, ASSIGNMENTS = 8 };

/* One environment with a few facts, several expressions, several assignments each that the facts allow. */
static void round_of_checks(void) {
    cr_env *env = environment();
    const tree *facts[FACTS];
    size_t fact_count = 0;
    pool_used = 0;
    for (int k = 0; k < FACTS; k++) {
        if (chance(40)) continue;
        const tree *fact = random_bool((int)between(1, 2));
        cr_status status = cr__env_learn(env, build(env, fact));
        if (status == CR_OK) facts[fact_count++] = fact, facts_learned++;
        else facts_refused++;
        if (status && status != CR_EVALUE) CHECK_OK(status);
        /* A refused fact must contradict the others: no assignment satisfies all of them. */
        for (int tries = 0; status && tries < 200; tries++) {
            assignment at;
            bool all = true;
            for (int i = 0; i < SYMBOLS; i++) at.i[i] = between(symbols[i].from, symbols[i].to);
            for (size_t i = 0; i <= fact_count && all; i++) {
                value v = evaluate(i < fact_count ? facts[i] : fact, &at);
                all = v.defined && v.i;
            }
            if (all) report("refused fact", build(env, fact), &at);
        }
    }
    size_t mark = pool_used;
    for (int k = 0; k < 6; k++) {
        pool_used = mark;
        int depth = (int)between(1, 5);
        tree *t = chance(45) ? random_bool(depth) : chance(80) ? random_int(depth) : random_float(depth);
        cr_sym e = build(env, t);
        if (cr__is_opaque(e)) opaque++;
        if (e != build(env, t)) report("interning", e, &(assignment){{0}});
        check_texts(env, e);
        for (int n = 0; n < ASSIGNMENTS; n++) {
            assignment at;
            bool allowed = false;
            for (int tries = 0; tries < 60 && !allowed; tries++) {
                allowed = true;
                for (int i = 0; i < SYMBOLS; i++) at.i[i] = between(symbols[i].from, symbols[i].to);
                for (size_t i = 0; i < fact_count && allowed; i++) {
                    value v = evaluate(facts[i], &at);
                    allowed = v.defined && v.i;
                }
            }
            if (allowed) check_pair(env, t, e, &at);
        }
    }
    cr_env_release(env);
}

int main(void) {
    const char *full = getenv("CRESSET_FULL"), *start = getenv("CRESSET_SEED");
    int64_t want = full && strcmp(full, "0") != 0 ? 1000000 : 20000;
    seed = start ? (uint64_t)atoll(start) : 1;
    while (pairs < want) round_of_checks();
    CHECK_EQ(wrong, 0);
    CHECK(decided > 0 && facts_learned > 0 && opaque * 20 < pairs);
    printf("pairs %lld\nwrong %lld\nundefined %lld\nopaque expressions %lld\ndecided %lld\nunknown %lld\nfacts "
           "%lld\nrefused facts %lld\n",
           (long long)pairs, (long long)wrong, (long long)undefined_pairs, (long long)opaque, (long long)decided,
           (long long)unknown, (long long)facts_learned, (long long)facts_refused);
    return check_summary();
}
