/* Divisibility: what an expression leaves when divided by some number.
 *
 * e = residue + modulus * k. Facts enter as known remainders (x % 4 == 0 is kept as "the term x % 4 equals 0"), and
 * sums, products and divisions carry them on. Moduli too large to multiply safely are forgotten. */
#include "sym/internal.h"

typedef __int128 wide;
enum { LARGEST_BITS = 40 };

static const cr__congruence nothing = {1, 0};

static wide magnitude(wide a) { return a < 0 ? -a : a; }

static cr__congruence normal(wide modulus, wide residue) {
    modulus = magnitude(modulus);
    if (modulus >> LARGEST_BITS) return nothing;
    if (modulus == 0) {
        if (magnitude(residue) >> LARGEST_BITS) return nothing;
        return (cr__congruence){0, (int64_t)residue};
    }
    residue %= modulus;
    return (cr__congruence){(int64_t)modulus, (int64_t)(residue < 0 ? residue + modulus : residue)};
}

static wide wide_gcd(wide a, wide b) {
    a = magnitude(a), b = magnitude(b);
    while (b) {
        wide rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static cr__congruence add(cr__congruence a, cr__congruence b) {
    return normal(wide_gcd(a.modulus, b.modulus), (wide)a.residue + b.residue);
}

static cr__congruence multiply(cr__congruence a, cr__congruence b) {
    wide mixed = wide_gcd((wide)a.modulus * b.residue, (wide)b.modulus * a.residue);
    return normal(wide_gcd(mixed, (wide)a.modulus * b.modulus), (wide)a.residue * b.residue);
}

/* Either of the two: the modulus must divide their difference. */
static cr__congruence join(cr__congruence a, cr__congruence b) {
    return normal(wide_gcd(wide_gcd(a.modulus, b.modulus), (wide)a.residue - b.residue), a.residue);
}

static cr__congruence of_sum(cr_env *env, cr_sym e) {
    cr__congruence r = normal(0, e->constant);
    for (size_t i = 0; i < e->n && r.modulus != 1; i++) {
        /* A coefficient may be larger than any modulus kept; its own divisors still count. */
        cr__congruence c = normal(0, e->u.coefficients[i]);
        if (c.modulus) c = normal(e->u.coefficients[i] & -(uint64_t)e->u.coefficients[i], 0);
        r = add(r, multiply(c, cr__sym_congruence(env, e->operand[i])));
    }
    return r;
}

static cr__congruence structural(cr_env *env, cr_sym e) {
    cr__congruence a, r = nothing;
    int64_t d;
    switch ((cr_sym_kind)e->kind) {
    case CR_SYM_INTEGER: return normal(0, e->constant);
    case CR_SYM_ADD: return of_sum(env, e);
    case CR_SYM_MUL:
        r = normal(0, 1);
        for (size_t i = 0; i < e->n; i++) r = multiply(r, cr__sym_congruence(env, e->operand[i]));
        return r;
    case CR_SYM_POW:
        if (!cr__is_power(e) || e->operand[1]->constant > 64) return nothing;
        a = cr__sym_congruence(env, e->operand[0]);
        r = normal(0, 1);
        for (int64_t i = 0; i < e->operand[1]->constant; i++) r = multiply(r, a);
        return r;
    case CR_SYM_FLOORDIV: /* (m*k + r) // d = (m/d)*k + r//d when d divides m */
        if (!cr_sym_is_int(e->operand[1], &d) || d <= 0) return nothing;
        a = cr__sym_congruence(env, e->operand[0]);
        if (a.modulus % d != 0) return nothing;
        return normal(a.modulus / d, cr__floordiv64(a.residue, d));
    case CR_SYM_MOD:
        if (!cr_sym_is_int(e->operand[1], &d) || d <= 0) return nothing;
        a = cr__sym_congruence(env, e->operand[0]);
        if (a.modulus % d == 0) return normal(0, cr__mod64(a.residue, d));
        return normal(wide_gcd(a.modulus, d), a.residue);
    case CR_SYM_MIN:
    case CR_SYM_MAX:
    case CR_SYM_WHERE:
        r = cr__sym_congruence(env, e->operand[e->n - 1]);
        for (size_t i = e->kind == CR_SYM_WHERE; i + 1 < e->n; i++) r = join(r, cr__sym_congruence(env, e->operand[i]));
        return r;
    default: return nothing;
    }
}

cr__congruence cr__sym_congruence(cr_env *env, cr_sym e) {
    if (e->type != CR_TYPE_INT || cr__is_opaque(e)) return nothing;
    cr__congruence best = structural(env, e);
    if (best.modulus == 0) return best;
    for (size_t i = 0; i < env->replaced.n; i++) {
        cr_sym known = env->replaced.at[i];
        int64_t m, v, off;
        if (known->kind != CR_SYM_MOD || !cr_sym_is_int(known->operand[1], &m) || !cr_sym_is_int(known->equal, &v))
            continue;
        if (m <= best.modulus || !cr__same_terms(known->operand[0], e)) continue;
        if (cr_sub_overflow(cr__constant_of(e), cr__constant_of(known->operand[0]), &off)) continue;
        best = normal(m, (wide)v + off);
    }
    return best;
}
