/* Sums: constant + c1*t1 + c2*t2 + ..., terms in order, no zero coefficient, no term twice.
 *
 * A cr__poly is such a sum under construction. Coefficients are checked; a sum that leaves int64 becomes the opaque
 * term. Floats never come here: their addition does not associate. */
#include "sym/internal.h"

void cr__poly_init(cr__poly *p) {
    p->constant = 0;
    p->n = 0;
    p->cap = CR_COUNT(p->room);
    p->at = p->room;
    p->overflow = p->failed = false;
}

void cr__poly_dispose(cr__poly *p) {
    if (p->at != p->room) cr_free(p->at);
    p->at = p->room;
    p->n = 0;
}

static bool poly_grow(cr__poly *p) {
    size_t cap = p->cap * 2;
    cr__term *at = p->at == p->room ? cr_alloc(cap * sizeof *at) : cr_realloc(p->at, cap * sizeof *at);
    if (!at) {
        p->failed = true;
        return false;
    }
    if (p->at == p->room) memcpy(at, p->room, sizeof p->room);
    p->at = at;
    p->cap = cap;
    return true;
}

void cr__poly_constant(cr__poly *p, int64_t value) {
    if (cr_add_overflow(p->constant, value, &p->constant)) p->overflow = true;
}

void cr__poly_term(cr__poly *p, cr_sym term, int64_t coefficient) {
    if (!term) p->failed = true;
    if (p->failed || coefficient == 0) return;
    size_t lo = 0, hi = p->n;
    while (lo < hi) {
        size_t middle = (lo + hi) / 2;
        int order = cr__order(p->at[middle].t, term);
        if (order == 0) {
            if (cr_add_overflow(p->at[middle].c, coefficient, &p->at[middle].c)) p->overflow = true;
            if (p->at[middle].c == 0) {
                p->n--;
                memmove(p->at + middle, p->at + middle + 1, (p->n - middle) * sizeof *p->at);
            }
            return;
        }
        if (order < 0) lo = middle + 1;
        else hi = middle;
    }
    if (p->n == p->cap && !poly_grow(p)) return;
    memmove(p->at + lo + 1, p->at + lo, (p->n - lo) * sizeof *p->at);
    p->at[lo] = (cr__term){term, coefficient};
    p->n++;
}

void cr__poly_add(cr__poly *p, cr_sym e, int64_t factor) {
    int64_t scaled;
    if (!e) {
        p->failed = true;
        return;
    }
    if (cr__is_opaque(e) || cr_mul_overflow(cr__constant_of(e), factor, &scaled)) {
        p->overflow = true;
        return;
    }
    cr__poly_constant(p, scaled);
    size_t n = cr__term_count(e);
    for (size_t i = 0; i < n; i++) {
        if (cr_mul_overflow(cr__coef_at(e, i), factor, &scaled)) p->overflow = true;
        else cr__poly_term(p, cr__term_at(e, i), scaled);
    }
}

static const cr__term *poly_find(const cr__poly *p, cr_sym term) {
    for (size_t i = 0; i < p->n; i++)
        if (p->at[i].t == term) return &p->at[i];
    return NULL;
}

/* c*(a % b) + c*b*(a // b) = c*a: the one identity between the two division atoms. The quotient is built to learn
 * which atoms it has in canonical form. It is built of operands that are joined already, so building it need not join;
 * that keeps nested remainders from multiplying the work at every level. */
static void poly_join_divisions(cr_env *env, cr__poly *p) {
    if (env->joining || p->n < 2) return;
    env->joining = true;
    for (size_t i = 0; i < p->n && !p->overflow && !p->failed; i++) {
        cr_sym mod = p->at[i].t;
        if (mod->kind != CR_SYM_MOD || mod->type != CR_TYPE_INT) continue;
        int64_t c = p->at[i].c, wanted;
        cr_sym whole = cr_sym_mul(env, mod->operand[1], cr__floordiv(env, mod->operand[0], mod->operand[1]));
        if (!whole) {
            p->failed = true;
            break;
        }
        if (cr__is_opaque(whole) || cr__term_count(whole) == 0) continue;
        bool found = true;
        for (size_t k = 0; found && k < cr__term_count(whole); k++) {
            const cr__term *present = poly_find(p, cr__term_at(whole, k));
            found = present && !cr_mul_overflow(c, cr__coef_at(whole, k), &wanted) && present->c == wanted;
        }
        int64_t minus;
        if (!found || cr_sub_overflow((int64_t)0, c, &minus)) continue;
        cr__poly_add(p, whole, minus);
        cr__poly_term(p, mod, minus);
        cr__poly_add(p, mod->operand[0], c);
        i = (size_t)-1; /* the terms have moved; fewer divisions are left than before */
    }
    env->joining = false;
}

cr_sym cr__poly_take(cr_env *env, cr__poly *p) {
    cr_sym result = NULL;
    poly_join_divisions(env, p);
    if (p->failed) {
        cr__fail(env);
    } else if (p->overflow) {
        result = cr__opaque(env, CR_TYPE_INT);
    } else if (p->n == 0) {
        result = cr_sym_int(env, p->constant);
    } else if (p->n == 1 && p->at[0].c == 1 && p->constant == 0) {
        result = p->at[0].t;
    } else {
        size_t n = p->n;
        cr_sym small_terms[16], *terms = n <= 16 ? small_terms : cr_alloc(n * sizeof *terms);
        int64_t small_factors[16], *factors = n <= 16 ? small_factors : cr_alloc(n * sizeof *factors);
        if (terms && factors) {
            for (size_t i = 0; i < n; i++) terms[i] = p->at[i].t, factors[i] = p->at[i].c;
            result = cr__intern(env, CR_SYM_ADD, CR_TYPE_INT, p->constant, factors, terms, n);
        } else {
            cr__fail(env);
        }
        if (n > 16) cr_free(terms), cr_free(factors);
    }
    cr__poly_dispose(p);
    return result;
}

uint64_t cr__gcd(uint64_t a, uint64_t b) {
    while (b) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

uint64_t cr__content(cr_sym e, bool with_constant) {
    uint64_t g = with_constant ? cr__magnitude(cr__constant_of(e)) : 0;
    for (size_t i = 0; i < cr__term_count(e); i++) g = cr__gcd(g, cr__magnitude(cr__coef_at(e, i)));
    return g;
}

cr_sym cr__linear(cr_env *env, cr_sym a, int64_t factor, int64_t constant) {
    if (!a) return NULL;
    cr__poly p;
    cr__poly_init(&p);
    cr__poly_add(&p, a, factor);
    cr__poly_constant(&p, constant);
    return cr__poly_take(env, &p);
}

cr_sym cr__combine(cr_env *env, cr_sym a, int64_t fa, cr_sym b, int64_t fb) {
    if (!a || !b) return NULL;
    cr__poly p;
    cr__poly_init(&p);
    cr__poly_add(&p, a, fa);
    cr__poly_add(&p, b, fb);
    return cr__poly_take(env, &p);
}

cr_sym cr__scale_down(cr_env *env, cr_sym e, int64_t by) {
    if (by < 0) e = cr__linear(env, e, -1, 0), by = -by; /* checked: the negation of a coefficient may not exist */
    if (!e || by == 1 || cr__is_opaque(e)) return e;
    cr__poly p;
    cr__poly_init(&p);
    for (size_t i = 0; i < cr__term_count(e); i++) cr__poly_term(&p, cr__term_at(e, i), cr__coef_at(e, i) / by);
    cr__poly_constant(&p, cr__floordiv64(cr__constant_of(e), by));
    return cr__poly_take(env, &p);
}

bool cr__same_terms(cr_sym a, cr_sym b) {
    if (cr__is_opaque(a) || cr__is_opaque(b) || cr__term_count(a) != cr__term_count(b)) return false;
    for (size_t i = 0; i < cr__term_count(a); i++)
        if (cr__term_at(a, i) != cr__term_at(b, i) || cr__coef_at(a, i) != cr__coef_at(b, i)) return false;
    return true;
}

/* ---- the public sums ---- */

static cr_sym sum(cr_env *env, cr_sym a, cr_sym b, int64_t fb) {
    if (!a || !b) return NULL;
    if (a->type == CR_TYPE_FLOAT || b->type == CR_TYPE_FLOAT) {
        a = cr__as_float(env, a), b = cr__as_float(env, b);
        if (fb < 0) b = cr__float_binary(env, CR_SYM_MUL, cr_sym_float(env, -1.0), b);
        return cr__float_binary(env, CR_SYM_ADD, a, b);
    }
    return cr__combine(env, cr__as_int(env, a), 1, cr__as_int(env, b), fb);
}

cr_sym cr_sym_add(cr_env *env, cr_sym a, cr_sym b) { return sum(env, a, b, 1); }

cr_sym cr_sym_sub(cr_env *env, cr_sym a, cr_sym b) { return sum(env, a, b, -1); }

cr_sym cr_sym_neg(cr_env *env, cr_sym a) {
    if (!a) return NULL;
    if (a->type == CR_TYPE_FLOAT) return cr__float_binary(env, CR_SYM_MUL, cr_sym_float(env, -1.0), a);
    return cr__linear(env, cr__as_int(env, a), -1, 0);
}
