/* Products and powers of integers.
 *
 * A monomial is a product of powers: factors b^k ordered by b, k a positive constant. Sums are multiplied out while
 * that stays small (polynomials then have one form); a product that would grow too large keeps its sums as factors. */
#include "sym/internal.h"

typedef struct { cr_sym base; int64_t exponent; } factor;
enum { MAX_FACTORS = 32 };
typedef struct { size_t n; bool overflow; factor at[MAX_FACTORS]; } monomial;

static factor factor_of(cr_sym e) {
    if (cr__is_power(e)) return (factor){e->operand[0], e->operand[1]->constant};
    return (factor){e, 1};
}

/* m *= b^k, keeping the order of bases. */
static void monomial_times(monomial *m, factor f) {
    size_t i = 0;
    while (i < m->n && cr__order(m->at[i].base, f.base) < 0) i++;
    if (i < m->n && m->at[i].base == f.base) {
        if (cr_add_overflow(m->at[i].exponent, f.exponent, &m->at[i].exponent)) m->overflow = true;
        return;
    }
    if (m->n == MAX_FACTORS) {
        m->overflow = true;
        return;
    }
    memmove(m->at + i + 1, m->at + i, (m->n - i) * sizeof *m->at);
    m->at[i] = f;
    m->n++;
}

static void monomial_times_term(monomial *m, cr_sym term) {
    if (term->kind != CR_SYM_MUL) monomial_times(m, factor_of(term));
    else
        for (size_t i = 0; i < term->n; i++) monomial_times(m, factor_of(term->operand[i]));
}

static cr_sym pow_node(cr_env *env, cr_sym a, cr_sym b) {
    cr_sym pair[2] = {a, b};
    return b ? cr__intern(env, CR_SYM_POW, CR_TYPE_INT, 0, NULL, pair, 2) : NULL;
}

static cr_sym monomial_take(cr_env *env, const monomial *m) {
    cr_sym operands[MAX_FACTORS];
    if (m->overflow) return cr__opaque(env, CR_TYPE_INT);
    if (m->n == 0) return env->one;
    for (size_t i = 0; i < m->n; i++) {
        operands[i] = m->at[i].base;
        if (m->at[i].exponent == 1) continue;
        operands[i] = pow_node(env, m->at[i].base, cr_sym_int(env, m->at[i].exponent));
        if (!operands[i]) return NULL;
        if (cr__is_opaque(operands[i])) return operands[i];
    }
    return m->n == 1 ? operands[0] : cr__intern(env, CR_SYM_MUL, CR_TYPE_INT, 0, NULL, operands, m->n);
}

static cr_sym mono_multiply(cr_env *env, cr_sym a, cr_sym b) {
    monomial m = {.n = 0};
    monomial_times_term(&m, a);
    monomial_times_term(&m, b);
    return monomial_take(env, &m);
}

cr_sym cr__mono_divide(cr_env *env, cr_sym term, cr_sym by, bool *divides) {
    monomial m = {.n = 0}, d = {.n = 0};
    *divides = false;
    monomial_times_term(&m, term);
    monomial_times_term(&d, by);
    if (m.overflow || d.overflow) return NULL;
    for (size_t i = 0; i < d.n; i++) {
        size_t k = 0;
        while (k < m.n && m.at[k].base != d.at[i].base) k++;
        if (k == m.n || m.at[k].exponent < d.at[i].exponent) return NULL;
        m.at[k].exponent -= d.at[i].exponent;
        if (m.at[k].exponent) continue;
        m.n--;
        memmove(m.at + k, m.at + k + 1, (m.n - k) * sizeof *m.at);
    }
    *divides = true;
    return monomial_take(env, &m);
}

cr_sym cr__mono_common(cr_env *env, cr_sym a, cr_sym b) {
    monomial x = {.n = 0}, y = {.n = 0}, common = {.n = 0};
    monomial_times_term(&x, a);
    monomial_times_term(&y, b);
    if (x.overflow || y.overflow) return env->one;
    for (size_t i = 0; i < x.n; i++)
        for (size_t k = 0; k < y.n; k++)
            if (x.at[i].base == y.at[k].base)
                monomial_times(&common, (factor){x.at[i].base, CR_MIN(x.at[i].exponent, y.at[k].exponent)});
    return monomial_take(env, &common);
}

static size_t parts(cr_sym e) { return cr__term_count(e) + (cr__constant_of(e) != 0); }

/* a * b, multiplied out. */
static void expand(cr_env *env, cr__poly *p, cr_sym a, cr_sym b) {
    int64_t ca = cr__constant_of(a), cb = cr__constant_of(b), c;
    for (size_t i = 0; i < cr__term_count(a); i++) {
        for (size_t k = 0; k < cr__term_count(b); k++) {
            if (cr_mul_overflow(cr__coef_at(a, i), cr__coef_at(b, k), &c)) {
                p->overflow = true;
                return;
            }
            cr_sym product = mono_multiply(env, cr__term_at(a, i), cr__term_at(b, k));
            if (product && cr__is_opaque(product)) p->overflow = true;
            else cr__poly_term(p, product, c);
        }
    }
    for (size_t i = 0; i < cr__term_count(a) && cb; i++) {
        if (cr_mul_overflow(cr__coef_at(a, i), cb, &c)) p->overflow = true;
        else cr__poly_term(p, cr__term_at(a, i), c);
    }
    for (size_t k = 0; k < cr__term_count(b) && ca; k++) {
        if (cr_mul_overflow(cr__coef_at(b, k), ca, &c)) p->overflow = true;
        else cr__poly_term(p, cr__term_at(b, k), c);
    }
    if (cr_mul_overflow(ca, cb, &c)) p->overflow = true;
    else cr__poly_constant(p, c);
}

/* e = factor * primitive: the primitive part has no common divisor and a positive first coefficient. */
static cr_sym primitive(cr_env *env, cr_sym e, int64_t *content) {
    uint64_t g = cr__content(e, true);
    bool negative = cr__coef_at(e, 0) < 0;
    if (g > INT64_MAX) g = 1; /* all are INT64_MIN: its magnitude is no int64 */
    *content = negative ? -(int64_t)g : (int64_t)g;
    return cr__scale_down(env, e, *content);
}

cr_sym cr_sym_mul(cr_env *env, cr_sym a, cr_sym b) {
    if (!a || !b) return NULL;
    if (a->type == CR_TYPE_FLOAT || b->type == CR_TYPE_FLOAT)
        return cr__float_binary(env, CR_SYM_MUL, cr__as_float(env, a), cr__as_float(env, b));
    a = cr__as_int(env, a), b = cr__as_int(env, b);
    if (!a || !b) return NULL;
    if (cr__is_opaque(a) || cr__is_opaque(b)) return cr__opaque(env, CR_TYPE_INT);
    if (a->kind == CR_SYM_INTEGER) return cr__linear(env, b, a->constant, 0);
    if (b->kind == CR_SYM_INTEGER) return cr__linear(env, a, b->constant, 0);
    cr__poly p;
    cr__poly_init(&p);
    bool single = parts(a) == 1 || parts(b) == 1;
    if (parts(a) * parts(b) <= CR__MAX_EXPAND) {
        expand(env, &p, a, b);
        if (!p.overflow || p.failed || single) return cr__poly_take(env, &p);
        cr__poly_dispose(&p);
        cr__poly_init(&p);
    }
    int64_t ca, cb, c;
    a = primitive(env, a, &ca);
    b = primitive(env, b, &cb);
    if (!a || !b) return NULL;
    if (cr__is_opaque(a) || cr__is_opaque(b) || cr_mul_overflow(ca, cb, &c)) return cr__opaque(env, CR_TYPE_INT);
    cr_sym product = mono_multiply(env, a, b);
    if (!product) return NULL;
    if (cr__is_opaque(product)) return product;
    cr__poly_term(&p, product, c);
    return cr__poly_take(env, &p);
}

/* base^n for n >= 2; overflow is reported. */
static bool int_power(int64_t base, int64_t n, int64_t *out) {
    int64_t result = 1;
    if (base == 0 || base == 1 || base == -1) {
        *out = base == -1 && n % 2 == 0 ? 1 : base;
        return true;
    }
    for (; n; n--)
        if (cr_mul_overflow(result, base, &result)) return false; /* ends within 63 steps: |base| >= 2 */
    *out = result;
    return true;
}

static cr_sym pow_constant(cr_env *env, cr_sym a, int64_t n) {
    int64_t c;
    if (n == 0) return env->one;
    if (n == 1) return a;
    if (a->kind == CR_SYM_INTEGER)
        return int_power(a->constant, n, &c) ? cr_sym_int(env, c) : cr__opaque(env, CR_TYPE_INT);
    if (a->kind == CR_SYM_ADD && parts(a) == 1) {
        if (!int_power(a->u.coefficients[0], n, &c)) return cr__opaque(env, CR_TYPE_INT);
        return cr__linear(env, pow_constant(env, a->operand[0], n), c, 0);
    }
    if (a->kind == CR_SYM_ADD) {
        size_t terms = 1;
        for (int64_t i = 0; i < n && terms <= CR__MAX_EXPAND; i++) terms *= parts(a);
        if (terms > CR__MAX_EXPAND) return pow_node(env, a, cr_sym_int(env, n));
        cr_sym product = a;
        for (int64_t i = 1; i < n; i++) product = cr_sym_mul(env, product, a);
        return product;
    }
    monomial m = {.n = 0};
    monomial_times_term(&m, a);
    for (size_t i = 0; i < m.n; i++)
        if (cr_mul_overflow(m.at[i].exponent, n, &m.at[i].exponent)) m.overflow = true;
    return monomial_take(env, &m);
}

cr_sym cr__pow(cr_env *env, cr_sym a, cr_sym b) {
    if (!a || !b) return NULL;
    if (a->type == CR_TYPE_FLOAT || b->type == CR_TYPE_FLOAT)
        return cr__float_binary(env, CR_SYM_POW, cr__as_float(env, a), cr__as_float(env, b));
    a = cr__as_int(env, a), b = cr__as_int(env, b);
    if (!a || !b) return NULL;
    if (cr__is_opaque(a) || cr__is_opaque(b)) return cr__opaque(env, CR_TYPE_INT);
    /* A negative exponent is undefined here, not a float as in Python: an operator's type must not depend on values. */
    if (b->kind == CR_SYM_INTEGER && b->constant >= 0) return pow_constant(env, a, b->constant);
    if (cr__is_const(a, 1)) return a;
    return pow_node(env, a, b);
}
