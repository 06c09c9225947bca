/* Products and powers of integers.
 *
 * A monomial is a product of powers: factors b^k ordered by b, k a positive constant. Sums among the factors are
 * multiplied out while that stays small (polynomials then have one form); otherwise they stay factors, without common
 * divisor and with a positive first coefficient. Which of the two is decided from all factors together, so the order in
 * which a product was written does not matter. */
#include "sym/internal.h"

typedef struct { cr_sym base; int64_t exponent; } factor;
enum { MAX_FACTORS = 32 };
typedef struct { size_t n; bool overflow; factor at[MAX_FACTORS]; } monomial;

static void monomial_init(monomial *m) { m->n = 0, m->overflow = false; } /* the factors need no clearing */

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

static size_t parts(cr_sym e) { return cr__term_count(e) + (cr__constant_of(e) != 0); }

/* The number of parts of sum^k multiplied out, before like ones are joined; capped just beyond the limit. */
static size_t expanded_parts(cr_sym sum, int64_t k) {
    size_t total = 1;
    for (; k > 0 && total <= CR__MAX_EXPAND; k--) total *= parts(sum);
    return total;
}

int64_t cr__times_written(cr_sym factor) {
    if (!cr__is_power(factor) || factor->operand[0]->kind != CR_SYM_ADD) return 1;
    int64_t k = factor->operand[1]->constant;
    return expanded_parts(factor->operand[0], k) <= CR__MAX_EXPAND ? k : 1;
}

/* The product as a node, nothing multiplied out. */
static cr_sym monomial_node(cr_env *env, const monomial *m) {
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

static cr_sym monomial_take(cr_env *env, const monomial *m);

static cr_sym mono_multiply(cr_env *env, cr_sym a, cr_sym b) {
    monomial m;
    monomial_init(&m);
    monomial_times_term(&m, a);
    monomial_times_term(&m, b);
    return monomial_take(env, &m);
}

/* p += a * b, multiplied out. */
static void expand(cr_env *env, cr__poly *p, cr_sym a, cr_sym b) {
    int64_t ca = cr__constant_of(a), cb = cr__constant_of(b), c;
    for (size_t i = 0; i < cr__term_count(a); i++) {
        for (size_t k = 0; k < cr__term_count(b) && !p->overflow; k++) {
            if (cr_mul_overflow(cr__coef_at(a, i), cr__coef_at(b, k), &c)) p->overflow = true;
            else cr__poly_add(p, mono_multiply(env, cr__term_at(a, i), cr__term_at(b, k)), c);
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

/* The product, multiplied out if it has sums and stays small. */
static cr_sym monomial_take(cr_env *env, const monomial *m) {
    monomial plain;
    monomial_init(&plain);
    size_t total = 1;
    for (size_t i = 0; i < m->n && !m->overflow; i++) {
        if (m->at[i].base->kind != CR_SYM_ADD) plain.at[plain.n++] = m->at[i];
        else if (total <= CR__MAX_EXPAND) total *= expanded_parts(m->at[i].base, m->at[i].exponent);
    }
    if (plain.n == m->n || m->overflow || total > CR__MAX_EXPAND) return monomial_node(env, m);
    cr_sym product = monomial_node(env, &plain);
    for (size_t i = 0; product && i < m->n; i++) {
        if (m->at[i].base->kind != CR_SYM_ADD) continue;
        for (int64_t k = 0; product && k < m->at[i].exponent; k++) {
            cr__poly p;
            cr__poly_init(&p);
            expand(env, &p, product, m->at[i].base);
            product = cr__poly_take(env, &p);
            if (product && cr__is_opaque(product)) return monomial_node(env, m); /* a coefficient left int64 */
        }
    }
    return product;
}

cr_sym cr__mono_divide(cr_env *env, cr_sym term, cr_sym by, bool *divides) {
    monomial m, d;
    monomial_init(&m);
    monomial_init(&d);
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
    monomial x, y, common;
    monomial_init(&x);
    monomial_init(&y);
    monomial_init(&common);
    monomial_times_term(&x, a);
    monomial_times_term(&y, b);
    if (x.overflow || y.overflow) return env->one;
    for (size_t i = 0; i < x.n; i++)
        for (size_t k = 0; k < y.n; k++)
            if (x.at[i].base == y.at[k].base)
                monomial_times(&common, (factor){x.at[i].base, CR_MIN(x.at[i].exponent, y.at[k].exponent)});
    return monomial_node(env, &common);
}

/* e = factor * primitive: the primitive part has no common divisor and a positive first coefficient. */
static cr_sym primitive(cr_env *env, cr_sym e, int64_t *content) {
    uint64_t g = cr__content(e, true);
    bool negative = cr__coef_at(e, 0) < 0;
    if (g > INT64_MAX) g = 1; /* all are INT64_MIN: its magnitude is no int64 */
    *content = negative ? -(int64_t)g : (int64_t)g;
    return cr__scale_down(env, e, *content);
}

cr_sym cr__product(cr_env *env, const cr_sym *factors, size_t n) {
    monomial m;
    int64_t c = 1, content;
    bool overflow = false, null = false;
    monomial_init(&m);
    for (size_t i = 0; i < n; i++) {
        cr_sym e = cr__as_int(env, factors[i]);
        if (!e) return NULL;
        if (cr__is_opaque(e)) return e;
        content = e->kind == CR_SYM_INTEGER ? e->constant : 1;
        if (e->kind == CR_SYM_ADD) {
            e = primitive(env, e, &content); /* a scaled term is its term, scaled */
            if (!e || cr__is_opaque(e)) return e;
        }
        if (e->kind == CR_SYM_ADD) monomial_times(&m, (factor){e, 1});
        else if (e->kind != CR_SYM_INTEGER) monomial_times_term(&m, e);
        null |= content == 0;
        overflow |= cr_mul_overflow(c, content, &c);
    }
    if (null) return env->zero;
    if (overflow) return cr__opaque(env, CR_TYPE_INT);
    return cr__linear(env, monomial_take(env, &m), c, 0);
}

cr_sym cr_sym_mul(cr_env *env, cr_sym a, cr_sym b) {
    if (!a || !b) return NULL;
    if (a->type == CR_TYPE_FLOAT || b->type == CR_TYPE_FLOAT)
        return cr__float_binary(env, CR_SYM_MUL, cr__as_float(env, a), cr__as_float(env, b));
    return cr__product(env, (cr_sym[]){a, b}, 2);
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
    int64_t content = 1;
    monomial m;
    monomial_init(&m);
    if (a->kind == CR_SYM_ADD) a = primitive(env, a, &content);
    if (!a || cr__is_opaque(a)) return a;
    if (!int_power(content, n, &c)) return cr__opaque(env, CR_TYPE_INT);
    if (a->kind == CR_SYM_ADD) monomial_times(&m, (factor){a, 1});
    else monomial_times_term(&m, a);
    for (size_t i = 0; i < m.n; i++)
        if (cr_mul_overflow(m.at[i].exponent, n, &m.at[i].exponent)) m.overflow = true;
    return cr__linear(env, monomial_take(env, &m), c, 0);
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
