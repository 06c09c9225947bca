/* Min, max, absolute value, bits, where; and the conversions between integers and bools that where gives.
 *
 * Integer min and max are flat, ordered lists without duplicates; of two operands that differ by a constant one goes.
 * Float min and max stay pairs as written: with NaN they neither commute nor associate. */
#include "sym/internal.h"

#include <stdlib.h>

static bool keep_first(cr_sym_kind kind, cr_sym a, cr_sym b) { /* same terms: which of the two wins */
    int64_t x = cr__constant_of(a), y = cr__constant_of(b);
    return kind == CR_SYM_MAX ? x >= y : x <= y;
}

static int by_order(const void *a, const void *b) { return cr__order(*(const cr_sym *)a, *(const cr_sym *)b); }

static bool contains(const cr_sym *operands, size_t n, cr_sym e) {
    for (size_t i = 0; i < n; i++)
        if (operands[i] == e) return true;
    return false;
}

/* Removes operands that another one makes redundant whatever the values are; returns the new count. */
static size_t thin(cr_sym_kind kind, cr_sym *operands, size_t n) {
    cr_sym_kind dual = kind == CR_SYM_MAX ? CR_SYM_MIN : CR_SYM_MAX;
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        bool drop = false;
        for (size_t k = 0; k < n && !drop; k++) {
            if (k == i || !operands[k]) continue;
            if (operands[k] == operands[i]) drop = k < i;
            else if (cr__same_terms(operands[k], operands[i])) drop = keep_first(kind, operands[k], operands[i]);
            else drop = operands[i]->kind == dual && contains(operands[i]->operand, operands[i]->n, operands[k]);
        }
        if (drop) operands[i] = NULL;
    }
    for (size_t i = 0; i < n; i++)
        if (operands[i]) operands[kept++] = operands[i];
    return kept;
}

static cr_sym float_minmax(cr_env *env, cr_sym_kind kind, const cr_sym *operands, size_t n) {
    cr_sym result = cr__as_float(env, operands[0]);
    for (size_t i = 1; i < n; i++) result = cr__float_binary(env, kind, result, cr__as_float(env, operands[i]));
    return result;
}

cr_sym cr__minmax(cr_env *env, cr_sym_kind kind, const cr_sym *operands, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!operands[i]) return NULL;
    for (size_t i = 0; i < n; i++)
        if (operands[i]->type == CR_TYPE_FLOAT) return float_minmax(env, kind, operands, n);
    CR_VEC(cr_sym) list = {0};
    cr_sym result = NULL;
    for (size_t i = 0; i < n; i++) {
        cr_sym e = cr__as_int(env, operands[i]);
        bool nested = e && e->kind == kind;
        if (!e || cr_vec_reserve(&list, list.n + (nested ? e->n : 1))) goto out;
        if (cr__is_opaque(e)) {
            result = e;
            goto out;
        }
        if (nested)
            for (size_t k = 0; k < e->n; k++) list.at[list.n++] = e->operand[k];
        else list.at[list.n++] = e;
    }
    list.n = thin(kind, list.at, list.n);
    qsort(list.at, list.n, sizeof *list.at, by_order);
    /* The constant comes first: Max(1, u0). The order puts it last, because its degree is the lowest. */
    if (list.n > 1 && list.at[list.n - 1]->kind == CR_SYM_INTEGER) {
        cr_sym constant = list.at[list.n - 1];
        memmove(list.at + 1, list.at, (list.n - 1) * sizeof *list.at);
        list.at[0] = constant;
    }
    result = list.n == 1 ? list.at[0] : cr__intern(env, kind, CR_TYPE_INT, 0, NULL, list.at, list.n);
out:
    if (!result) cr__fail(env);
    cr_vec_dispose(&list);
    return result;
}

cr_sym cr__abs(cr_env *env, cr_sym a) {
    if (!a) return NULL;
    if (a->type == CR_TYPE_FLOAT) return cr__float_binary(env, CR_SYM_ABS, a, NULL);
    a = cr__as_int(env, a);
    if (!a || cr__is_opaque(a)) return a;
    if (a->kind == CR_SYM_INTEGER) {
        if (a->constant == INT64_MIN) return cr__opaque(env, CR_TYPE_INT);
        return a->constant < 0 ? cr_sym_int(env, -a->constant) : a;
    }
    if (a->kind == CR_SYM_ABS) return a;
    /* |g*x| = |g| * |x|, and the first coefficient is positive. */
    uint64_t g = cr__content(a, true);
    if (g > INT64_MAX) return cr__opaque(env, CR_TYPE_INT);
    a = cr__scale_down(env, a, cr__coef_at(a, 0) < 0 ? -(int64_t)g : (int64_t)g);
    if (!a || cr__is_opaque(a)) return a;
    cr_sym inner = a->kind == CR_SYM_ABS ? a : cr__intern(env, CR_SYM_ABS, CR_TYPE_INT, 0, NULL, &a, 1);
    return cr__linear(env, inner, (int64_t)g, 0);
}

static bool is_mask(cr_sym e) {
    return e->kind == CR_SYM_INTEGER && e->constant > 0 && e->constant < INT64_MAX &&
           !(e->constant & (e->constant + 1));
}

/* 0 and -1 are all bits clear and all bits set: one of them is neutral, the other absorbs. The lowest bits are a
 * remainder, which is known better than bits are. */
cr_sym cr__bits(cr_env *env, cr_sym_kind kind, cr_sym a, cr_sym b) {
    int64_t neutral = kind == CR_SYM_BITAND ? -1 : 0, absorbing = ~neutral;
    a = cr__as_int(env, a), b = cr__as_int(env, b);
    if (!a || !b) return NULL;
    if (a->type != CR_TYPE_INT || b->type != CR_TYPE_INT || cr__is_opaque(a) || cr__is_opaque(b))
        return cr__opaque(env, CR_TYPE_INT);
    if (a == b || cr__is_const(b, neutral) || cr__is_const(a, absorbing)) return a;
    if (cr__is_const(a, neutral) || cr__is_const(b, absorbing)) return b;
    if (a->kind == CR_SYM_INTEGER && b->kind == CR_SYM_INTEGER)
        return cr_sym_int(env, kind == CR_SYM_BITAND ? a->constant & b->constant : a->constant | b->constant);
    if (kind == CR_SYM_BITAND && is_mask(b)) return cr__mod(env, a, cr_sym_int(env, b->constant + 1));
    if (kind == CR_SYM_BITAND && is_mask(a)) return cr__mod(env, b, cr_sym_int(env, a->constant + 1));
    bool swap = cr__order(b, a) < 0;
    cr_sym pair[2] = {swap ? b : a, swap ? a : b};
    return cr__intern(env, kind, CR_TYPE_INT, 0, NULL, pair, 2);
}

cr_sym cr__bits_differ(cr_env *env, cr_sym a, cr_sym b) {
    return cr_sym_sub(env, cr__bits(env, CR_SYM_BITOR, a, b), cr__bits(env, CR_SYM_BITAND, a, b));
}

cr_sym cr__where(cr_env *env, cr_sym c, cr_sym a, cr_sym b) {
    c = cr__as_bool(env, c);
    if (!c || !a || !b) return NULL;
    if (c->kind == CR_SYM_TRUTH && a->type == b->type) return c->constant ? a : b;
    if (a->type == CR_TYPE_BOOL && b->type == CR_TYPE_BOOL) {
        cr_sym yes[2] = {c, a}, no[2] = {cr__not(env, c), b}, both[2];
        both[0] = cr__junction(env, CR_SYM_AND, yes, 2);
        both[1] = cr__junction(env, CR_SYM_AND, no, 2);
        return cr__junction(env, CR_SYM_OR, both, 2);
    }
    bool real = a->type == CR_TYPE_FLOAT || b->type == CR_TYPE_FLOAT;
    a = real ? cr__as_float(env, a) : cr__as_int(env, a);
    b = real ? cr__as_float(env, b) : cr__as_int(env, b);
    if (!a || !b) return NULL;
    cr_sym_type type = (cr_sym_type)a->type;
    if (cr__is_opaque(a) || cr__is_opaque(b) || cr__is_opaque(c)) return cr__opaque(env, type);
    if (c->kind == CR_SYM_TRUTH) return c->constant ? a : b;
    if (a == b) return a;
    cr_sym other = cr__not(env, c); /* of a condition and its negation the smaller one stays */
    if (!other) return NULL;
    bool swap = cr__order(other, c) < 0;
    cr_sym operands[3] = {swap ? other : c, swap ? b : a, swap ? a : b};
    return cr__intern(env, CR_SYM_WHERE, type, 0, NULL, operands, 3);
}

cr_sym cr__as_int(cr_env *env, cr_sym e) {
    if (!e || e->type != CR_TYPE_BOOL) return e;
    return cr__where(env, e, env->one, env->zero);
}

cr_sym cr__as_bool(cr_env *env, cr_sym e) {
    if (!e || e->type == CR_TYPE_BOOL) return e;
    return cr_sym_compare(env, e, CR_NE, e->type == CR_TYPE_INT ? env->zero : cr_sym_float(env, 0.0));
}
