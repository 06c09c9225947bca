/* Comparisons and boolean algebra.
 *
 * An integer comparison is a statement about one difference: a <= b is 0 <= b - a. The difference is divided by what
 * its coefficients share and written back with positive coefficients on both sides, so all spellings of a comparison
 * meet in one node. Where the difference leaves int64 the comparison stays as written. Floats are never rearranged, and
 * their < and <= have no complement (NaN). AND and OR are flat and ordered, NOT sits at the leaves. */
#include "sym/internal.h"

#include <stdlib.h>

static cr_sym plain(cr_env *env, cr_sym_kind kind, cr_sym a, cr_sym b) {
    if (!a || !b) return NULL;
    if (cr__is_opaque(a) || cr__is_opaque(b)) return cr__opaque(env, CR_TYPE_BOOL);
    cr_sym pair[2] = {a, b};
    return cr__intern(env, kind, CR_TYPE_BOOL, 0, NULL, pair, 2);
}

/* difference = right - left with the coefficients of both sides positive. */
static bool sides(cr_env *env, cr_sym difference, cr_sym *left, cr_sym *right) {
    cr__poly l, r;
    cr__poly_init(&l);
    cr__poly_init(&r);
    for (size_t i = 0; i < cr__term_count(difference); i++) {
        int64_t c = cr__coef_at(difference, i);
        if (c > 0) cr__poly_term(&r, cr__term_at(difference, i), c);
        else if (c == INT64_MIN) l.overflow = true;
        else cr__poly_term(&l, cr__term_at(difference, i), -c);
    }
    *left = cr__poly_take(env, &l);
    *right = cr__poly_take(env, &r);
    return *left && *right;
}

/* 0 <= d */
static cr_sym nonnegative(cr_env *env, cr_sym d) {
    cr_sym left, right;
    if (!d || cr__is_opaque(d)) return d;
    if (d->kind == CR_SYM_INTEGER) return env->truth[d->constant >= 0];
    uint64_t g = cr__content(d, false);
    if (g <= INT64_MAX) d = cr__scale_down(env, d, (int64_t)g); /* 0 <= g*x + c  =  0 <= x + floor(c/g) */
    if (!d || !sides(env, d, &left, &right)) return NULL;
    int64_t c = cr__constant_of(d);
    if (c == INT64_MIN) return plain(env, CR_SYM_LE, env->zero, d); /* its negation does not exist */
    if (left->kind == CR_SYM_INTEGER) return plain(env, CR_SYM_LE, cr_sym_int(env, -c), right);
    if (right->kind == CR_SYM_INTEGER) return plain(env, CR_SYM_LE, left, cr_sym_int(env, c));
    if (c == -1) return plain(env, CR_SYM_LT, left, right);
    if (c >= 0) return plain(env, CR_SYM_LE, left, cr__linear(env, right, 1, c));
    return plain(env, CR_SYM_LE, cr__linear(env, left, 1, -c), right);
}

/* x % d == v. All residues are asked as "== 0", with a positive first coefficient. False: *out is not set. */
static bool divisible(cr_env *env, cr_sym mod, int64_t v, bool negate, cr_sym *out) {
    int64_t d = mod->operand[1]->constant;
    *out = env->truth[negate];
    if (v < 0 || v >= d) return true;
    cr_sym x = cr__linear(env, mod->operand[0], 1, -v);
    if (x && cr__is_opaque(x)) return false;
    if (x && cr__coef_at(x, 0) < 0) x = cr__linear(env, x, -1, 0);
    cr_sym rest = cr__mod(env, x, mod->operand[1]);
    if (rest && rest->kind != CR_SYM_MOD) return false;
    *out = plain(env, negate ? CR_SYM_NE : CR_SYM_EQ, rest, env->zero);
    return true;
}

/* d == 0 (or != 0) */
static cr_sym zero(cr_env *env, cr_sym d, bool negate) {
    cr_sym_kind kind = negate ? CR_SYM_NE : CR_SYM_EQ;
    cr_sym left, right;
    if (d->kind == CR_SYM_INTEGER) return env->truth[(d->constant == 0) != negate];
    uint64_t g = cr__content(d, false);
    int64_t c = cr__constant_of(d);
    if (g <= INT64_MAX) {
        if (c % (int64_t)g != 0) return env->truth[negate];
        d = cr__scale_down(env, d, cr__coef_at(d, 0) < 0 ? -(int64_t)g : (int64_t)g);
        if (!d) return NULL;
        if (cr__is_opaque(d)) return cr__opaque(env, CR_TYPE_BOOL);
    }
    c = cr__constant_of(d);
    cr_sym only = cr__term_at(d, 0);
    if (cr__term_count(d) == 1 && cr__coef_at(d, 0) == 1 && only->kind == CR_SYM_MOD && c != INT64_MIN &&
        only->operand[1]->kind == CR_SYM_INTEGER && only->operand[1]->constant > 0) {
        cr_sym condition;
        if (divisible(env, only, -c, negate, &condition)) return condition;
    }
    if (!sides(env, d, &right, &left)) return NULL; /* positive terms on the left: Eq(s0, 5) */
    if (right->kind == CR_SYM_INTEGER && c != INT64_MIN) return plain(env, kind, left, cr_sym_int(env, -c));
    if (c == INT64_MIN) return plain(env, kind, d, env->zero);
    return c >= 0 ? plain(env, kind, cr__linear(env, left, 1, c), right)
                  : plain(env, kind, left, cr__linear(env, right, 1, -c));
}

/* An integer against a float constant, exactly, as Python compares: 2.5 has integers on both sides of it. NULL: b is
 * not such a constant. */
static cr_sym against_real(cr_env *env, cr_sym a, cr_cmp cmp, double b) {
    int64_t below;
    bool whole;
    if (b != b) return env->truth[cmp == CR_NE];
    if (b >= 0x1p63) return env->truth[cmp == CR_LT || cmp == CR_LE || cmp == CR_NE];
    if (b < -0x1p63) return env->truth[cmp == CR_GT || cmp == CR_GE || cmp == CR_NE];
    if (!cr__round_apply(CR_SYM_FLOOR, b, &below)) return NULL;
    whole = (double)below == b;
    if (!whole) {
        if (cmp == CR_EQ || cmp == CR_NE) return env->truth[cmp == CR_NE];
        cmp = cmp == CR_LT || cmp == CR_LE ? CR_LE : CR_GT; /* x < 2.5 = x <= 2 */
    }
    return cr_sym_compare(env, a, cmp, cr_sym_int(env, below));
}

static cr_cmp swapped(cr_cmp cmp) {
    static const cr_cmp table[] = {
        [CR_EQ] = CR_EQ, [CR_NE] = CR_NE, [CR_LT] = CR_GT, [CR_LE] = CR_GE, [CR_GT] = CR_LT, [CR_GE] = CR_LE};
    return table[cmp];
}

static cr_sym compare_bools(cr_env *env, cr_sym a, bool negate, cr_sym b) {
    if (cr__is_opaque(a) || cr__is_opaque(b)) return cr__opaque(env, CR_TYPE_BOOL);
    if (a->kind == CR_SYM_TRUTH) return (a->constant != 0) != negate ? b : cr__not(env, b);
    if (b->kind == CR_SYM_TRUTH) return (b->constant != 0) != negate ? a : cr__not(env, a);
    cr_sym not_a = cr__not(env, a);
    if (!not_a) return NULL;
    if (a == b) return env->truth[!negate];
    if (not_a == b) return env->truth[negate];
    if (cr__order(b, a) < 0) return plain(env, negate ? CR_SYM_NE : CR_SYM_EQ, b, a);
    return plain(env, negate ? CR_SYM_NE : CR_SYM_EQ, a, b);
}

static cr_sym compare_floats(cr_env *env, cr_sym a, cr_cmp cmp, cr_sym b) {
    if (!a || !b) return NULL;
    if (cr__is_opaque(a) || cr__is_opaque(b)) return cr__opaque(env, CR_TYPE_BOOL);
    if (cmp == CR_GT || cmp == CR_GE) return compare_floats(env, b, swapped(cmp), a);
    if (a->kind == CR_SYM_REAL && b->kind == CR_SYM_REAL) {
        double x = a->u.real, y = b->u.real;
        return env->truth[cmp == CR_EQ ? x == y : cmp == CR_NE ? x != y : cmp == CR_LT ? x < y : x <= y];
    }
    if (a == b && cmp == CR_LT) return env->truth[0];
    if ((cmp == CR_EQ || cmp == CR_NE) && cr__order(b, a) < 0) return compare_floats(env, b, cmp, a);
    static const cr_sym_kind kinds[] = {
        [CR_EQ] = CR_SYM_EQ, [CR_NE] = CR_SYM_NE, [CR_LT] = CR_SYM_LT, [CR_LE] = CR_SYM_LE};
    return plain(env, kinds[cmp], a, b);
}

cr_sym cr_sym_compare(cr_env *env, cr_sym a, cr_cmp cmp, cr_sym b) {
    if (!a || !b) return NULL;
    if (a->type == CR_TYPE_BOOL && b->type == CR_TYPE_BOOL && (cmp == CR_EQ || cmp == CR_NE))
        return compare_bools(env, a, cmp == CR_NE, b);
    a = cr__as_int(env, a), b = cr__as_int(env, b);
    if (!a || !b) return NULL;
    if (a->type == CR_TYPE_FLOAT || b->type == CR_TYPE_FLOAT) {
        cr_sym exact = NULL;
        if (a->type == CR_TYPE_INT && !cr__is_opaque(a) && b->kind == CR_SYM_REAL)
            exact = against_real(env, a, cmp, b->u.real);
        else if (b->type == CR_TYPE_INT && !cr__is_opaque(b) && a->kind == CR_SYM_REAL)
            exact = against_real(env, b, swapped(cmp), a->u.real);
        return exact ? exact : compare_floats(env, cr__as_float(env, a), cmp, cr__as_float(env, b));
    }
    if (cr__is_opaque(a) || cr__is_opaque(b)) return cr__opaque(env, CR_TYPE_BOOL);
    if (cmp == CR_GT || cmp == CR_GE) return cr_sym_compare(env, b, swapped(cmp), a);
    if (a->kind == CR_SYM_INTEGER && b->kind == CR_SYM_INTEGER) {
        int64_t x = a->constant, y = b->constant;
        return env->truth[cmp == CR_EQ ? x == y : cmp == CR_NE ? x != y : cmp == CR_LT ? x < y : x <= y];
    }
    cr_sym d = cr_sym_sub(env, b, a);
    if (d && !cr__is_opaque(d)) {
        if (cmp == CR_EQ || cmp == CR_NE) d = zero(env, d, cmp == CR_NE);
        else if (cmp == CR_LE) d = nonnegative(env, d);
        else d = cr__constant_of(d) == INT64_MIN ? cr__opaque(env, CR_TYPE_BOOL)
                                                 : nonnegative(env, cr__linear(env, d, 1, -1));
    }
    if (!d || !cr__is_opaque(d)) return d;
    static const cr_sym_kind kinds[] = {
        [CR_EQ] = CR_SYM_EQ, [CR_NE] = CR_SYM_NE, [CR_LT] = CR_SYM_LT, [CR_LE] = CR_SYM_LE};
    if ((cmp == CR_EQ || cmp == CR_NE) && cr__order(b, a) < 0) return plain(env, kinds[cmp], b, a);
    return plain(env, kinds[cmp], a, b);
}

/* ---- boolean algebra ---- */

cr_sym cr__not(cr_env *env, cr_sym a) {
    a = cr__as_bool(env, a);
    if (!a || cr__is_opaque(a)) return a;
    if (a->kind == CR_SYM_TRUTH) return env->truth[!a->constant];
    if (a->kind == CR_SYM_NOT) return a->operand[0];
    if (a->kind == CR_SYM_EQ || a->kind == CR_SYM_NE)
        return plain(env, a->kind == CR_SYM_EQ ? CR_SYM_NE : CR_SYM_EQ, a->operand[0], a->operand[1]);
    if ((a->kind == CR_SYM_LT || a->kind == CR_SYM_LE) && a->operand[0]->type == CR_TYPE_INT)
        return cr_sym_compare(env, a->operand[1], a->kind == CR_SYM_LT ? CR_LE : CR_LT, a->operand[0]);
    if (a->kind == CR_SYM_AND || a->kind == CR_SYM_OR) {
        cr_sym small[16], *negated = a->n <= 16 ? small : cr_alloc(a->n * sizeof *negated), result;
        if (!negated) return cr__fail(env);
        for (size_t i = 0; i < a->n; i++) negated[i] = cr__not(env, a->operand[i]);
        result = cr__junction(env, a->kind == CR_SYM_AND ? CR_SYM_OR : CR_SYM_AND, negated, a->n);
        if (negated != small) cr_free(negated);
        return result;
    }
    return cr__intern(env, CR_SYM_NOT, CR_TYPE_BOOL, 0, NULL, &a, 1);
}

static int by_order(const void *a, const void *b) { return cr__order(*(const cr_sym *)a, *(const cr_sym *)b); }

static bool contains(const cr_sym *operands, size_t n, cr_sym e) {
    for (size_t i = 0; i < n; i++)
        if (operands[i] == e) return true;
    return false;
}

cr_sym cr__junction(cr_env *env, cr_sym_kind kind, const cr_sym *operands, size_t n) {
    cr_sym_kind dual = kind == CR_SYM_AND ? CR_SYM_OR : CR_SYM_AND;
    cr_sym neutral = env->truth[kind == CR_SYM_AND], absorbing = env->truth[kind == CR_SYM_OR];
    CR_VEC(cr_sym) list = {0};
    cr_sym result = NULL;
    size_t kept = 0;
    bool opaque = false;
    for (size_t i = 0; i < n; i++) {
        cr_sym e = cr__as_bool(env, operands[i]);
        bool nested = e && e->kind == kind;
        if (!e || cr_vec_reserve(&list, list.n + (nested ? e->n : 1))) goto out;
        opaque |= cr__is_opaque(e);
        for (size_t k = 0; k < (nested ? e->n : 1); k++) {
            cr_sym part = nested ? e->operand[k] : e;
            if (part != neutral && !contains(list.at, list.n, part)) list.at[list.n++] = part;
        }
    }
    result = opaque ? cr__opaque(env, CR_TYPE_BOOL) : absorbing;
    if (opaque) goto out;
    for (size_t i = 0; i < list.n; i++) { /* a & ~a */
        cr_sym complement = cr__not(env, list.at[i]);
        if (!complement) result = NULL;
        if (!complement || list.at[i] == absorbing || contains(list.at, list.n, complement)) goto out;
    }
    for (size_t i = 0; i < list.n; i++) { /* a & (a | b) = a */
        bool drop = false;
        for (size_t k = 0; list.at[i]->kind == dual && !drop && k < list.n; k++)
            drop = k != i && contains(list.at[i]->operand, list.at[i]->n, list.at[k]);
        /* An absorbed operand contains a kept one, never the other way round: removing in place is safe. */
        if (!drop) list.at[kept++] = list.at[i];
    }
    list.n = kept;
    if (list.n) qsort(list.at, list.n, sizeof *list.at, by_order);
    result = list.n == 0 ? neutral
             : list.n == 1 ? list.at[0]
                           : cr__intern(env, kind, CR_TYPE_BOOL, 0, NULL, list.at, list.n);
out:
    if (!result) cr__fail(env);
    cr_vec_dispose(&list);
    return result;
}
