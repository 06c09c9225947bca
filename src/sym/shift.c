/* Bounds of a polynomial by moving its symbols to zero.
 *
 * Multiplied out, (a - 1)*(b - 1) is a*b - a - b + 1, and interval arithmetic no longer sees its sign. Written in
 * x = a - 1 >= 0 and y = b - 1 >= 0 it is x*y, and does. Each factor with a finite lower end is replaced by lower end +
 * x (or upper end - x), the polynomial is multiplied out again, and the monomials are bounded one by one. Small
 * polynomials only: everything is in fixed arrays, and what does not fit is simply not bounded. */
#include "sym/internal.h"
#include "sym/interval.h"

enum { BASES = 6, MONOMIALS = 64 };
typedef struct { wide c; uint8_t exponent[BASES]; } monomial;
typedef struct {
    size_t n, bases;
    cr_sym base[BASES];
    interval range[BASES];
    monomial at[MONOMIALS];
} polynomial;

static bool poly_add(polynomial *p, const monomial *m) {
    if (m->c == 0) return true;
    for (size_t i = 0; i < p->n; i++) {
        if (memcmp(p->at[i].exponent, m->exponent, sizeof m->exponent)) continue;
        if (cr_add_overflow(p->at[i].c, m->c, &p->at[i].c)) return false;
        if (p->at[i].c == 0) p->at[i] = p->at[--p->n];
        return true;
    }
    if (p->n == MONOMIALS) return false;
    p->at[p->n++] = *m;
    return true;
}

static bool read_factor(polynomial *p, cr_sym e, monomial *m) {
    int64_t k = 1;
    if (cr__is_power(e)) k = e->operand[1]->constant, e = e->operand[0];
    if (k > 8) return false;
    size_t i = 0;
    while (i < p->bases && p->base[i] != e) i++;
    if (i == BASES) return false;
    if (i == p->bases) p->base[p->bases++] = e;
    m->exponent[i] = (uint8_t)(m->exponent[i] + k);
    return m->exponent[i] <= 8;
}

static bool read_sum(polynomial *p, cr_sym sum) {
    monomial constant = {.c = sum->constant};
    if (!poly_add(p, &constant)) return false;
    for (size_t i = 0; i < sum->n; i++) {
        cr_sym t = sum->operand[i];
        monomial m = {.c = sum->u.coefficients[i]};
        if (t->kind != CR_SYM_MUL && !read_factor(p, t, &m)) return false;
        for (size_t k = 0; t->kind == CR_SYM_MUL && k < t->n; k++)
            if (!read_factor(p, t->operand[k], &m)) return false;
        if (!poly_add(p, &m)) return false;
    }
    return true;
}

/* Replaces base b by origin + direction * x in every monomial: the binomial theorem. */
static bool move_base(polynomial *p, size_t b, wide origin, int direction) {
    polynomial moved = {.n = 0};
    for (size_t i = 0; i < p->n; i++) {
        unsigned k = p->at[i].exponent[b];
        monomial m = p->at[i];
        wide choose = 1, power = 1; /* C(k, j) and origin^j, for x^(k-j) */
        for (unsigned j = 0; j <= k; j++) {
            wide c;
            m.exponent[b] = (uint8_t)(k - j);
            if (cr_mul_overflow(p->at[i].c, choose, &c) || cr_mul_overflow(c, power, &c)) return false;
            m.c = direction < 0 && (k - j) % 2 ? -c : c;
            if (!poly_add(&moved, &m) || cr_mul_overflow(power, origin, &power)) return false;
            choose = choose * (k - j) / (j + 1);
        }
    }
    p->n = moved.n;
    memcpy(p->at, moved.at, moved.n * sizeof *moved.at);
    return true;
}

interval cr__interval_shifted(cr_env *env, cr_sym sum) {
    interval result = {-INFINITE, INFINITE};
    polynomial p = {.n = 0};
    if (!read_sum(&p, sum)) return result;
    for (size_t b = 0; b < p.bases; b++) {
        interval r = cr__interval(cr_sym_range(env, p.base[b]));
        bool from_below = r.lo > -INFINITE, from_above = !from_below && r.hi < INFINITE;
        p.range[b] = r;
        if (!from_below && !from_above) continue;
        if (!move_base(&p, b, from_below ? r.lo : r.hi, from_below ? 1 : -1)) return result;
        p.range[b].lo = 0;
        p.range[b].hi = from_below && r.hi < INFINITE ? r.hi - r.lo : INFINITE;
    }
    result = (interval){0, 0};
    for (size_t i = 0; i < p.n; i++) {
        /* Coefficients beyond 2^119 would be read as infinite. */
        if (p.at[i].c >= INFINITE / 2 || p.at[i].c <= -INFINITE / 2) return (interval){-INFINITE, INFINITE};
        interval m = {p.at[i].c, p.at[i].c};
        for (size_t b = 0; b < p.bases; b++)
            if (p.at[i].exponent[b]) m = cr__interval_mul(m, cr__interval_power(p.range[b], p.at[i].exponent[b]));
        result = cr__interval_add(result, m);
    }
    return result;
}
