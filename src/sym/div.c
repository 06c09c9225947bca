/* Division of integers: // and % (Python's), ceil and truncated division, C's remainder.
 *
 * All of them first write n = d*q + r with as much as possible in q, because floor(n/d) = q + floor(r/d) and
 * n % d = r % d hold for every d != 0. Then what r and d have in common is cancelled. A node is left only for what
 * remains; ceil division is minus the floor of minus, so it has no node. Division by zero is undefined, so identities
 * need to hold for nonzero divisors only. */
#include "sym/internal.h"

int64_t cr__floordiv64(int64_t a, int64_t b) {
    int64_t q = a / b;
    return a % b != 0 && (a % b < 0) != (b < 0) ? q - 1 : q;
}

int64_t cr__mod64(int64_t a, int64_t b) {
    if (b == -1) return 0; /* INT64_MIN % -1 traps */
    int64_t r = a % b;
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

static cr_sym node(cr_env *env, cr_sym_kind kind, cr_sym a, cr_sym b) {
    if (!a || !b) return NULL;
    if (cr__is_opaque(a) || cr__is_opaque(b)) return cr__opaque(env, CR_TYPE_INT);
    cr_sym pair[2] = {a, b};
    return cr__intern(env, kind, CR_TYPE_INT, 0, NULL, pair, 2);
}

static bool is_single_term(cr_sym e) { return cr__term_count(e) == 1 && cr__constant_of(e) == 0; }

/* n divided by the polynomial d (two or more parts), if that leaves nothing; NULL with *exact = false otherwise (NULL
 * with *exact: out of memory). Ordinary long division by the first term; whether it ends at zero is checked, so the
 * order need not be a monomial order. */
static cr_sym divide_exactly(cr_env *env, cr_sym n, cr_sym d, bool *exact) {
    cr_sym rest = n, quotient = env->zero;
    *exact = false;
    for (int step = 0; step < 32; step++) {
        *exact = !rest || !quotient;
        if (*exact || cr__is_opaque(rest) || cr__is_opaque(quotient)) return NULL;
        if (cr__is_const(rest, 0)) {
            *exact = true;
            return quotient;
        }
        if (cr__term_count(rest) == 0 || cr__coef_at(rest, 0) % cr__coef_at(d, 0) != 0) return NULL;
        if (cr__coef_at(d, 0) == -1 && cr__coef_at(rest, 0) == INT64_MIN) return NULL;
        bool divides;
        cr_sym part = cr__mono_divide(env, cr__term_at(rest, 0), cr__term_at(d, 0), &divides);
        if (!divides) return NULL;
        if (part && cr__is_opaque(part)) return NULL;
        part = cr__linear(env, part, cr__coef_at(rest, 0) / cr__coef_at(d, 0), 0);
        quotient = cr_sym_add(env, quotient, part);
        rest = cr_sym_sub(env, rest, cr_sym_mul(env, part, d));
    }
    return NULL;
}

typedef struct { cr_sym q, r; } split;

/* n = d*q + r. A constant d > 0 takes whole multiples out of each coefficient, towards zero so that no sign changes
 * (ranges stay tight), and leaves the constant in [0, d). A d of one term takes out the terms it divides. */
static split divide(cr_env *env, cr_sym n, cr_sym d) {
    split whole = {env->zero, n};
    bool divides = false;
    if (cr__term_count(d) && !is_single_term(d)) {
        cr_sym q = divide_exactly(env, n, d, &divides);
        return divides ? (split){q, env->zero} : whole;
    }
    cr__poly q, r;
    cr__poly_init(&q);
    cr__poly_init(&r);
    int64_t k = d->kind == CR_SYM_INTEGER ? d->constant : cr__coef_at(d, 0);
    for (size_t i = 0; i < cr__term_count(n); i++) {
        cr_sym t = cr__term_at(n, i), part = t;
        int64_t c = cr__coef_at(n, i);
        divides = true;
        if (d->kind != CR_SYM_INTEGER) part = cr__mono_divide(env, t, cr__term_at(d, 0), &divides);
        if (!divides || (c == INT64_MIN && k == -1)) {
            cr__poly_term(&r, t, c);
        } else {
            if (part && cr__is_opaque(part)) q.overflow = true;
            else cr__poly_add(&q, part, c / k);
            cr__poly_term(&r, t, c % k);
        }
    }
    int64_t constant = cr__constant_of(n);
    if (d->kind == CR_SYM_INTEGER) {
        cr__poly_constant(&q, cr__floordiv64(constant, k));
        constant = cr__mod64(constant, k);
    }
    cr__poly_constant(&r, constant);
    return (split){cr__poly_take(env, &q), cr__poly_take(env, &r)};
}

/* Divides both by the monomial and the number they share; gives what was divided out. */
static cr_sym cancel(cr_env *env, cr_sym *n, cr_sym *d) {
    cr_sym common = env->one;
    if (cr__constant_of(*n) == 0 && cr__constant_of(*d) == 0 && cr__term_count(*n) && cr__term_count(*d)) {
        common = cr__term_at(*n, 0);
        for (size_t i = 1; common && common != env->one && i < cr__term_count(*n); i++)
            common = cr__mono_common(env, common, cr__term_at(*n, i));
        for (size_t i = 0; common && common != env->one && i < cr__term_count(*d); i++)
            common = cr__mono_common(env, common, cr__term_at(*d, i));
        if (!common) return NULL;
        if (common != env->one) {
            split a = divide(env, *n, common), b = divide(env, *d, common);
            if (!a.q || !b.q || !a.r || !b.r) return NULL;
            if (cr__is_const(a.r, 0) && cr__is_const(b.r, 0) && !cr__is_opaque(a.q) && !cr__is_opaque(b.q))
                *n = a.q, *d = b.q;
            else common = env->one;
        }
    }
    uint64_t g = cr__gcd(cr__content(*n, true), cr__content(*d, true));
    if (g > 1 && g <= INT64_MAX) {
        *n = cr__scale_down(env, *n, (int64_t)g);
        *d = cr__scale_down(env, *d, (int64_t)g);
        common = cr__linear(env, common, (int64_t)g, 0);
    }
    return common;
}

/* Both to integers, opaque spread. True: *out is the answer already. */
static bool prepare(cr_env *env, cr_sym_kind float_kind, cr_sym *a, cr_sym *b, cr_sym *out) {
    *out = NULL;
    if (!*a || !*b) return true;
    if ((*a)->type == CR_TYPE_FLOAT || (*b)->type == CR_TYPE_FLOAT) {
        *out = cr__float_binary(env, float_kind, cr__as_float(env, *a), cr__as_float(env, *b));
        return true;
    }
    *a = cr__as_int(env, *a), *b = cr__as_int(env, *b);
    if (!*a || !*b) return true;
    if (!cr__is_opaque(*a) && !cr__is_opaque(*b)) return false;
    *out = cr__opaque(env, CR_TYPE_INT);
    return true;
}

static cr_sym minus(cr_env *env, cr_sym e) { return cr__linear(env, e, -1, 0); }

/* r // d for a constant d > 1 and r as `divide` leaves it. */
static cr_sym floordiv_constant(cr_env *env, cr_sym r, int64_t d) {
    if (!r) return NULL;
    if (r->kind == CR_SYM_INTEGER) return env->zero; /* in [0, d) */
    /* floor((g*a + c) / (g*d)) = floor((a + floor(c/g)) / d) */
    int64_t g = (int64_t)cr__gcd(cr__content(r, false), (uint64_t)d);
    r = cr__scale_down(env, r, g);
    d /= g;
    if (!r) return NULL;
    if (cr__coef_at(r, 0) < 0) { /* floor(r/d) = -floor((d - 1 - r) / d) */
        return minus(env, floordiv_constant(env, cr__linear(env, r, -1, d - 1), d));
    }
    cr_sym inner = cr__term_at(r, 0);
    int64_t c = cr__constant_of(r), product;
    if (cr__term_count(r) == 1 && cr__coef_at(r, 0) == 1 && inner->kind == CR_SYM_FLOORDIV) {
        /* (a//b + c) // d = (a + c*b) // (b*d) for d > 0 */
        cr_sym a = inner->operand[0], b = inner->operand[1];
        if (b->kind != CR_SYM_INTEGER || !cr_mul_overflow(b->constant, d, &product)) {
            cr_sym n = cr__combine(env, a, 1, b, c), m = cr__linear(env, b, d, 0);
            if (!n || !m) return NULL;
            if (!cr__is_opaque(n) && !cr__is_opaque(m)) return cr__floordiv(env, n, m);
        }
    }
    return node(env, CR_SYM_FLOORDIV, r, cr_sym_int(env, d));
}

cr_sym cr__floordiv(cr_env *env, cr_sym a, cr_sym b) {
    cr_sym out;
    if (prepare(env, CR_SYM_FLOORDIV, &a, &b, &out)) return out;
    if (cr__is_const(b, 0)) return node(env, CR_SYM_FLOORDIV, a, b);
    if (cr__is_const(b, 1)) return a;
    if (cr__is_const(b, -1)) return minus(env, a);
    bool constant = b->kind == CR_SYM_INTEGER;
    if (constant ? b->constant < 0 : cr__coef_at(b, 0) < 0) {
        a = minus(env, a), b = minus(env, b);
        if (!a || !b || cr__is_opaque(a) || cr__is_opaque(b)) return !a || !b ? NULL : cr__opaque(env, CR_TYPE_INT);
    }
    split s = divide(env, a, b);
    if (!s.q || !s.r) return NULL;
    if (cr__is_opaque(s.q) || cr__is_opaque(s.r)) return cr__opaque(env, CR_TYPE_INT);
    if (constant) return cr_sym_add(env, s.q, floordiv_constant(env, s.r, b->constant));
    if (cr__is_const(s.r, 0)) return s.q;
    cr_sym common = cancel(env, &s.r, &b);
    if (!common || !s.r || !b) return NULL;
    /* What cancelling leaves is smaller, but may be a constant now or have another term in front. */
    cr_sym rest = common != env->one ? cr__floordiv(env, s.r, b) : node(env, CR_SYM_FLOORDIV, s.r, b);
    return cr_sym_add(env, s.q, rest);
}

/* c*(x % m) is congruent to c*x modulo d when d divides c*m: drops inner remainders. */
static cr_sym without_inner_mods(cr_env *env, cr_sym n, int64_t d) {
    for (size_t i = 0; n && !cr__is_opaque(n) && i < cr__term_count(n); i++) {
        cr_sym t = cr__term_at(n, i);
        if (t->kind != CR_SYM_MOD || t->type != CR_TYPE_INT || t->operand[1]->kind != CR_SYM_INTEGER) continue;
        __int128 product = (__int128)cr__coef_at(n, i) * t->operand[1]->constant;
        if (product % d != 0) continue;
        int64_t c = cr__coef_at(n, i);
        cr_sym plain = cr__combine(env, cr__combine(env, n, 1, t, -c), 1, t->operand[0], c);
        if (!plain || cr__is_opaque(plain)) return plain ? n : NULL;
        n = plain;
        i = (size_t)-1;
    }
    return n;
}

cr_sym cr__mod(cr_env *env, cr_sym a, cr_sym b) {
    cr_sym out;
    if (prepare(env, CR_SYM_MOD, &a, &b, &out)) return out;
    if (cr__is_const(b, 0)) return node(env, CR_SYM_MOD, a, b);
    bool constant = b->kind == CR_SYM_INTEGER;
    if (constant ? b->constant < 0 : cr__coef_at(b, 0) < 0) { /* the sign follows the divisor */
        cr_sym positive = cr__mod(env, minus(env, a), minus(env, b));
        return positive ? minus(env, positive) : NULL;
    }
    if (constant) a = without_inner_mods(env, a, b->constant);
    if (!a) return NULL;
    split s = divide(env, a, b);
    if (!s.q || !s.r) return NULL;
    if (cr__is_opaque(s.q) || cr__is_opaque(s.r)) return cr__opaque(env, CR_TYPE_INT);
    if (s.r->kind == CR_SYM_INTEGER && (constant || s.r->constant == 0)) return s.r;
    if (constant) { /* (g*x + c) % (g*d) = g * ((x + c//g) % d) + c % g */
        int64_t g = (int64_t)cr__gcd(cr__content(s.r, false), (uint64_t)b->constant), c = cr__constant_of(s.r);
        cr_sym inner = node(env, CR_SYM_MOD, cr__scale_down(env, s.r, g), cr_sym_int(env, b->constant / g));
        return cr__linear(env, inner, g, cr__mod64(c, g));
    }
    cr_sym common = cancel(env, &s.r, &b); /* (m*x) % (m*y) = m * (x % y) */
    if (!common || !s.r || !b) return NULL;
    cr_sym inner = common != env->one ? cr__mod(env, s.r, b) : node(env, CR_SYM_MOD, s.r, b);
    return cr_sym_mul(env, common, inner);
}

cr_sym cr__ceildiv(cr_env *env, cr_sym a, cr_sym b) {
    if (!a || !b) return NULL;
    return cr_sym_neg(env, cr__floordiv(env, cr_sym_neg(env, a), b));
}

/* Truncated division and its remainder: odd in the dividend, so the first coefficient is made positive. */
cr_sym cr__truncdiv(cr_env *env, cr_sym a, cr_sym b) {
    cr_sym out;
    if (prepare(env, CR_SYM_TRUNCDIV, &a, &b, &out)) return out;
    if (cr__is_const(b, 0)) return node(env, CR_SYM_TRUNCDIV, a, b);
    if (cr__is_const(b, 1)) return a;
    if (b->kind == CR_SYM_INTEGER ? b->constant < 0 : cr__coef_at(b, 0) < 0) {
        cr_sym positive = cr__truncdiv(env, a, minus(env, b));
        return positive ? minus(env, positive) : NULL;
    }
    if (a->kind == CR_SYM_INTEGER && b->kind == CR_SYM_INTEGER) return cr_sym_int(env, a->constant / b->constant);
    split s = divide(env, a, b);
    if (!s.q || !s.r) return NULL;
    if (cr__is_const(s.r, 0)) return s.q;
    cr_sym common = cancel(env, &a, &b);
    if (!common || !a || !b) return NULL;
    if (common != env->one) return cr__truncdiv(env, a, b);
    if (cr__term_count(a) ? cr__coef_at(a, 0) < 0 : a->constant < 0)
        return minus(env, node(env, CR_SYM_TRUNCDIV, minus(env, a), b));
    return node(env, CR_SYM_TRUNCDIV, a, b);
}

cr_sym cr__cmod(cr_env *env, cr_sym a, cr_sym b) {
    cr_sym out;
    if (prepare(env, CR_SYM_CMOD, &a, &b, &out)) return out;
    if (cr__is_const(b, 0)) return node(env, CR_SYM_CMOD, a, b);
    if (b->kind == CR_SYM_INTEGER ? b->constant < 0 : cr__coef_at(b, 0) < 0) {
        b = minus(env, b); /* the sign follows the dividend alone */
        if (!b || cr__is_opaque(b)) return b;
    }
    if (a->kind == CR_SYM_INTEGER && b->kind == CR_SYM_INTEGER) return cr_sym_int(env, a->constant % b->constant);
    split s = divide(env, a, b);
    if (!s.q || !s.r) return NULL;
    if (cr__is_const(s.r, 0)) return env->zero;
    cr_sym common = cancel(env, &a, &b); /* trunc(mx / my) = trunc(x / y) */
    if (!common || !a || !b) return NULL;
    cr_sym inner;
    if (common != env->one) inner = cr__cmod(env, a, b);
    else if (cr__term_count(a) ? cr__coef_at(a, 0) < 0 : a->constant < 0)
        inner = minus(env, node(env, CR_SYM_CMOD, minus(env, a), b));
    else inner = node(env, CR_SYM_CMOD, a, b);
    return cr_sym_mul(env, common, inner);
}
