/* Facts, implications and suggested fixes against brute force.
 *
 * Implications: random facts of the kinds that shape programs state (residues, linear relations and bounds, quotients,
 * products, divisors, Max) about three sizes with examples; then random questions of the same kinds. Every assignment
 * of a box that satisfies the facts is kept, so that an answer YES or NO is wrong as soon as one of them says
 * otherwise; the same for ranges, congruences and simplified forms. Verdicts: random conditions on one named dimension.
 * Promises that the solver accepts hold for every value tried; a suggested bound, number or multiple satisfies every
 * condition at every value tried, and contains the example. CRESSET_FULL=1 asks a million questions. */
#include "sym/internal.h"
#include "check.h"

#include <stdlib.h>

static uint64_t seed = 7;
static uint64_t random64(void) {
    seed += 0x9e3779b97f4a7c15u;
    uint64_t z = (seed ^ seed >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}
static int64_t between(int64_t lo, int64_t hi) { return lo + (int64_t)(random64() % (uint64_t)(hi - lo + 1)); }

enum { SIZES = 3, LOW = 2, HIGH = 14, BOX = HIGH - LOW + 1, ALL = BOX * BOX * BOX, MAX_FACTS = 4 };
typedef struct { int64_t v[SIZES]; } point;

/* ---- statements ---- */

typedef enum {
    RESIDUE, LINEAR, BOUND, QUOTIENT, PRODUCT, PRODUCT_BOUND, DIFFERENT, LARGEST, DIVISOR, SCALED, KINDS
} kind;
typedef struct { kind kind; int i, j; int64_t a, b, c; bool negate; } statement;

static int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

static bool holds(const statement *s, const point *p) {
    int64_t x = p->v[s->i], y = p->v[s->j];
    bool r = false;
    switch (s->kind) {
    case RESIDUE: r = x % s->a == s->b; break;
    case LINEAR: r = x == s->a * y + s->b; break;
    case BOUND: r = s->a * x + s->b * y <= s->c; break;
    case QUOTIENT: r = floor_div(x + s->b, s->a) == s->c; break;
    case PRODUCT: r = x * y == s->c; break;
    case PRODUCT_BOUND: r = x * y <= s->c; break;
    case DIFFERENT: r = x != s->c; break;
    case LARGEST: r = (x > y ? x : y) < s->c; break;
    case DIVISOR: r = x % y == 0; break;
    default: r = s->a * x == s->b * y + s->c; break;
    }
    return r != s->negate;
}

static cr_sym build(cr_env *env, const statement *s, const cr_sym *size) {
    cr_sym x = size[s->i], y = size[s->j], a = cr_sym_int(env, s->a), b = cr_sym_int(env, s->b),
           c = cr_sym_int(env, s->c), r = NULL;
    switch (s->kind) {
    case RESIDUE: r = cr_sym_compare(env, cr_sym_mod(env, x, a), CR_EQ, b); break;
    case LINEAR: r = cr_sym_compare(env, x, CR_EQ, cr_sym_add(env, cr_sym_mul(env, a, y), b)); break;
    case BOUND: r = cr_sym_compare(env, cr_sym_add(env, cr_sym_mul(env, a, x), cr_sym_mul(env, b, y)), CR_LE, c); break;
    case QUOTIENT: r = cr_sym_compare(env, cr_sym_floordiv(env, cr_sym_add(env, x, b), a), CR_EQ, c); break;
    case PRODUCT: r = cr_sym_compare(env, cr_sym_mul(env, x, y), CR_EQ, c); break;
    case PRODUCT_BOUND: r = cr_sym_compare(env, cr_sym_mul(env, x, y), CR_LE, c); break;
    case DIFFERENT: r = cr_sym_compare(env, x, CR_NE, c); break;
    case LARGEST: r = cr_sym_compare(env, cr_sym_max(env, x, y), CR_LT, c); break;
    case DIVISOR: r = cr_sym_compare(env, cr_sym_mod(env, x, y), CR_EQ, cr_sym_int(env, 0)); break;
    default: r = cr_sym_compare(env, cr_sym_mul(env, a, x), CR_EQ, cr_sym_add(env, cr_sym_mul(env, b, y), c)); break;
    }
    return s->negate ? cr_sym_make(env, CR_SYM_NOT, r, NULL, NULL) : r;
}

/* A statement that holds at the example, if one of a few tries does. */
static statement random_statement(const point *example, bool one_size) {
    statement s;
    for (int tries = 0;; tries++) {
        s = (statement){ .kind = (kind)between(0, KINDS - 1),
                         .i = (int)between(0, SIZES - 1),
                         .j = (int)between(0, SIZES - 1) };
        if (one_size) s.i = s.j = 0;
        int64_t x = example->v[s.i], y = example->v[s.j];
        switch (s.kind) {
        case RESIDUE: s.a = between(2, 6), s.b = between(0, 2) ? x % s.a : between(0, s.a - 1); break;
        case LINEAR: s.a = between(1, 3), s.b = between(0, 2) ? x - s.a * y : between(-4, 4); break;
        case BOUND: s.a = between(-3, 3), s.b = between(-3, 3), s.c = s.a * x + s.b * y + between(0, 5); break;
        case QUOTIENT: s.a = between(2, 5), s.b = between(-2, 2), s.c = floor_div(x + s.b, s.a); break;
        case PRODUCT: s.c = x * y; break;
        case PRODUCT_BOUND: s.c = x * y + between(0, 9); break;
        case DIFFERENT: s.c = between(LOW, HIGH); break;
        case LARGEST: s.c = (x > y ? x : y) + between(1, 4); break;
        case DIVISOR: break;
        default: s.a = between(1, 4), s.b = between(1, 4), s.c = s.a * x - s.b * y; break;
        }
        s.negate = !holds(&s, example);
        if (!s.negate || between(0, 3) == 0 || tries == 5) return s;
    }
}

/* ---- implications ---- */

static int64_t questions, wrong, decided, unknown, learned, refused, accepted, fixed;

static void report(cr_env *env, const char *what, cr_sym e, const point *p) {
    cr_str text = {0};
    cr_sym_print(e, &text);
    for (size_t i = 0; i < cr_env_cond_count(env); i++) {
        cr_str_add(&text, i ? "; " : "   with ");
        cr_sym_print(cr_env_cond(env, i).condition, &text);
    }
    if (wrong++ < 10)
        CHECK_FAILED("%s: %s at %lld %lld %lld", what, cr_str_get(&text), (long long)p->v[0], (long long)p->v[1],
                     (long long)p->v[2]);
    cr_str_dispose(&text);
}

typedef struct { const cr_sym *size; const point *at; } binding;

static bool bound_value(void *user, cr_sym symbol, cr_sym_value *out) {
    const binding *b = user;
    for (int i = 0; i < SIZES; i++)
        if (b->size[i] == symbol) return *out = (cr_sym_value){.type = CR_TYPE_INT, .i = b->at->v[i]}, true;
    return false;
}

static void check_number(cr_env *env, cr_sym e, const cr_sym *size, const point *points, size_t n) {
    cr_range r = cr_sym_range(env, cr_sym_simplify(env, e));
    cr__congruence c = cr__sym_congruence(env, e);
    cr_sym simple = cr_sym_simplify(env, e);
    for (size_t k = 0; k < n; k++) {
        binding b = {size, &points[k]};
        cr_sym_value plain, simplified;
        if (!cr__eval(e, bound_value, &b, &plain, NULL, NULL)) continue;
        bool in = plain.i >= r.lo && plain.i <= r.hi;
        bool congruent = c.modulus == 0 ? plain.i == c.residue : (plain.i - c.residue) % c.modulus == 0;
        if (!in) report(env, "range", e, &points[k]);
        if (!congruent) report(env, "congruence", e, &points[k]);
        if (!cr__eval(simple, bound_value, &b, &simplified, NULL, NULL) || simplified.i != plain.i)
            report(env, "simplified", e, &points[k]);
    }
}

static void ask_round(int count) {
    static point points[ALL];
    cr_env *env = NULL;
    cr_sym size[SIZES];
    static const char *const names[] = {"s77", "s17", "s3"};
    point example;
    statement facts[MAX_FACTS];
    size_t nfacts = 0, n = 0;
    bool bounded = between(0, 1);
    CHECK_OK(cr_env_create(&env));
    for (int i = 0; i < SIZES; i++) {
        example.v[i] = between(LOW, HIGH);
        size[i] = cr_sym_symbol(env, names[i], CR_TYPE_INT, LOW, bounded ? HIGH : INT64_MAX);
        if (between(0, 3)) CHECK_OK(cr_env_set_hint(env, size[i], example.v[i]));
    }
    for (int64_t i = between(1, MAX_FACTS); i > 0; i--) {
        statement s = random_statement(&example, false);
        cr_status status = cr_env_add_cond(env, CR_COND_GUARD, build(env, &s, size), "");
        if (status == CR_OK) facts[nfacts++] = s, learned++;
        else refused++;
        if (status && holds(&s, &example))
            report(env, "a fact that holds at the example was refused", build(env, &s, size), &example);
    }
    for (int k = 0; k < ALL; k++) {
        point p = {{LOW + k % BOX, LOW + k / BOX % BOX, LOW + k / BOX / BOX}};
        bool all = true;
        for (size_t f = 0; f < nfacts && all; f++) all = holds(&facts[f], &p);
        if (all) points[n++] = p;
    }
    for (int q = 0; q < count; q++) {
        statement s = random_statement(&example, false);
        cr_sym c = build(env, &s, size);
        cr_tri answer = cr_sym_truth(env, c);
        questions++;
        if (answer == CR_UNKNOWN) unknown++;
        else decided++;
        for (size_t k = 0; k < n && answer != CR_UNKNOWN; k++)
            if (holds(&s, &points[k]) != (answer == CR_YES)) {
                report(env, answer == CR_YES ? "said YES" : "said NO", c, &points[k]);
                break;
            }
        if (q % 8 == 0 && c->n == 2 && c->operand[0]->type == CR_TYPE_INT) {
            check_number(env, c->operand[0], size, points, n);
            check_number(env, c->operand[1], size, points, n);
        }
    }
    CHECK(!cr_env_failed(env));
    cr_env_release(env);
}

/* ---- verdicts ---- */

/* The values that the fixes leave: scale * k + shift with k in lo..hi. */
typedef struct { int64_t lo, hi, scale, shift; } fix;

static fix read_fix(const char *text, bool *none) {
    fix f = {.lo = 0, .hi = INT64_MAX, .scale = 1};
    long long a, b;
    *none = !*text;
    const char *bounds = strstr(text, "Dim(");
    if (bounds) {
        const char *end = strchr(bounds, ')'), *min = strstr(bounds, "min="), *max = strstr(bounds, "max=");
        if (min && min < end) f.lo = strtoll(min + 4, NULL, 10);
        if (max && max < end) f.hi = strtoll(max + 4, NULL, 10);
    }
    const char *last = strstr(text, "\nb = ");
    last = last ? last + 1 : text;
    if (sscanf(last, "b = %lld*_b - %lld", &a, &b) == 2) f.scale = a, f.shift = -b;
    else if (sscanf(last, "b = %lld*_b", &a) == 1 && strchr(last, '*')) f.scale = a;
    else if (!strchr(last, '(') && sscanf(last, "b = %lld", &a) == 1) f.lo = f.hi = a;
    return f;
}

static void verdict_round(void) {
    cr_env *env = NULL;
    cr_verdict v;
    statement facts[2];
    size_t n = 0;
    point example = {{between(LOW, 40)}};
    CHECK_OK(cr_env_create(&env));
    cr_sym size[SIZES] = {cr_sym_symbol(env, "s77", CR_TYPE_INT, LOW, INT64_MAX)};
    CHECK_OK(cr_env_set_hint(env, size[0], example.v[0]));
    CHECK_OK(cr_shape_add(env, &(cr_size){ .promise = CR_SIZE_NAMED,
                                           .source = "x",
                                           .name = "b",
                                           .root = "b",
                                           .scale = 1,
                                           .hi = INT64_MAX,
                                           .value = example.v[0],
                                           .symbol = size[0] }));
    for (int64_t i = between(1, 2); i > 0; i--) {
        statement s = random_statement(&example, true);
        if (holds(&s, &example) && cr_env_add_cond(env, CR_COND_GUARD, build(env, &s, size), "") == CR_OK)
            facts[n++] = s;
    }
    CHECK_OK(cr_shape_solve(env, 0, &v));
    bool none, contains = false;
    fix f = read_fix(cr_str_get(&v.fixes), &none);
    if (none && v.names.n) report(env, "refused without a fix", size[0], &example);
    if (none) accepted++;
    else fixed++;
    for (int64_t k = f.lo; k <= CR_MIN(f.hi, 700); k++) {
        point p = {{f.scale * k + f.shift}};
        if (p.v[0] < 2) continue; /* 0 and 1 never vary */
        contains |= p.v[0] == example.v[0];
        for (size_t i = 0; i < n; i++)
            if (!holds(&facts[i], &p)) {
                report(env, none ? "accepted" : cr_str_get(&v.fixes), build(env, &facts[i], size), &p);
                k = 701;
                break;
            }
    }
    if (!contains) report(env, "the fix leaves the example out", size[0], &example);
    cr_verdict_dispose(&v);
    cr_env_release(env);
}

int main(void) {
    const char *other = getenv("CRESSET_SEED");
    bool full = getenv("CRESSET_FULL") != NULL;
    if (other) seed = strtoull(other, NULL, 10);
    for (int64_t target = full ? 1000000 : 20000; questions < target;) ask_round(40);
    for (int i = 0; i < (full ? 100000 : 3000); i++) verdict_round();
    CHECK_EQ(wrong, 0);
    CHECK(decided * 8 > questions && accepted > 0 && fixed > 0);
    printf("questions %lld\nwrong answers %lld\ndecided questions %lld\nundecided questions %lld\nstated facts "
           "%lld\nrefused statements %lld\nverdicts accepted %lld\nverdicts with a fix %lld\n",
           (long long)questions, (long long)wrong, (long long)decided, (long long)unknown, (long long)learned,
           (long long)refused, (long long)accepted, (long long)fixed);
    return check_summary();
}
