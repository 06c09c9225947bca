/* cr_sym_make: every operator by kind, from one table; and rebuilding a node over other operands. */
#include "sym/internal.h"

static cr_sym make_min(cr_env *env, cr_sym a, cr_sym b) { return cr__minmax(env, CR_SYM_MIN, (cr_sym[]){a, b}, 2); }
static cr_sym make_max(cr_env *env, cr_sym a, cr_sym b) { return cr__minmax(env, CR_SYM_MAX, (cr_sym[]){a, b}, 2); }
static cr_sym make_and(cr_env *env, cr_sym a, cr_sym b) { return cr__junction(env, CR_SYM_AND, (cr_sym[]){a, b}, 2); }
static cr_sym make_or(cr_env *env, cr_sym a, cr_sym b) { return cr__junction(env, CR_SYM_OR, (cr_sym[]){a, b}, 2); }
static cr_sym make_eq(cr_env *env, cr_sym a, cr_sym b) { return cr_sym_compare(env, a, CR_EQ, b); }
static cr_sym make_ne(cr_env *env, cr_sym a, cr_sym b) { return cr_sym_compare(env, a, CR_NE, b); }
static cr_sym make_lt(cr_env *env, cr_sym a, cr_sym b) { return cr_sym_compare(env, a, CR_LT, b); }
static cr_sym make_le(cr_env *env, cr_sym a, cr_sym b) { return cr_sym_compare(env, a, CR_LE, b); }
static cr_sym make_floor(cr_env *env, cr_sym a) { return cr__round(env, CR_SYM_FLOOR, a); }
static cr_sym make_ceil(cr_env *env, cr_sym a) { return cr__round(env, CR_SYM_CEIL, a); }
static cr_sym make_trunc(cr_env *env, cr_sym a) { return cr__round(env, CR_SYM_TRUNC, a); }
static cr_sym make_bitand(cr_env *env, cr_sym a, cr_sym b) { return cr__bits(env, CR_SYM_BITAND, a, b); }
static cr_sym make_bitor(cr_env *env, cr_sym a, cr_sym b) { return cr__bits(env, CR_SYM_BITOR, a, b); }
static cr_sym make_round(cr_env *env, cr_sym a) { return cr__round(env, CR_SYM_ROUND, a); }

static const struct {
    cr_sym (*unary)(cr_env *, cr_sym);
    cr_sym (*binary)(cr_env *, cr_sym, cr_sym);
} makers[] = {
    [CR_SYM_ADD] = {.binary = cr_sym_add},
    [CR_SYM_MUL] = {.binary = cr_sym_mul},
    [CR_SYM_POW] = {.binary = cr__pow},
    [CR_SYM_FLOORDIV] = {.binary = cr__floordiv},
    [CR_SYM_MOD] = {.binary = cr__mod},
    [CR_SYM_CEILDIV] = {.binary = cr__ceildiv},
    [CR_SYM_TRUNCDIV] = {.binary = cr__truncdiv},
    [CR_SYM_CMOD] = {.binary = cr__cmod},
    [CR_SYM_MIN] = {.binary = make_min},
    [CR_SYM_MAX] = {.binary = make_max},
    [CR_SYM_ABS] = {.unary = cr__abs},
    [CR_SYM_BITAND] = {.binary = make_bitand},
    [CR_SYM_BITOR] = {.binary = make_bitor},
    [CR_SYM_TRUEDIV] = {.binary = cr__truediv},
    [CR_SYM_TOFLOAT] = {.unary = cr__as_float},
    [CR_SYM_FLOOR] = {.unary = make_floor},
    [CR_SYM_CEIL] = {.unary = make_ceil},
    [CR_SYM_TRUNC] = {.unary = make_trunc},
    [CR_SYM_ROUND] = {.unary = make_round},
    [CR_SYM_SQRT] = {.unary = cr__sqrt},
    [CR_SYM_EQ] = {.binary = make_eq},
    [CR_SYM_NE] = {.binary = make_ne},
    [CR_SYM_LT] = {.binary = make_lt},
    [CR_SYM_LE] = {.binary = make_le},
    [CR_SYM_AND] = {.binary = make_and},
    [CR_SYM_OR] = {.binary = make_or},
    [CR_SYM_NOT] = {.unary = cr__not},
};

cr_sym cr_sym_make(cr_env *env, cr_sym_kind kind, cr_sym a, cr_sym b, cr_sym c) {
    if (kind == CR_SYM_WHERE) return a && b && c ? cr__where(env, a, b, c) : NULL;
    if ((size_t)kind >= CR_COUNT(makers) || !a) return NULL;
    if (makers[kind].unary) return makers[kind].unary(env, a);
    return makers[kind].binary && b ? makers[kind].binary(env, a, b) : NULL;
}

cr_sym cr__rebuild(cr_env *env, cr_sym e, const cr_sym *operands) {
    cr_sym_kind kind = (cr_sym_kind)e->kind;
    bool integers = e->type == CR_TYPE_INT;
    for (size_t i = 0; i < e->n; i++)
        if (!operands[i]) return NULL;
    if (e->n == 0) return e;
    if (kind == CR_SYM_ADD && integers) {
        cr_sym sum = cr_sym_int(env, e->constant);
        cr__poly p;
        for (size_t i = 0; i < e->n; i++)
            if (operands[i]->type != CR_TYPE_INT) goto general;
        cr__poly_init(&p);
        cr__poly_constant(&p, e->constant);
        for (size_t i = 0; i < e->n; i++) cr__poly_add(&p, operands[i], e->u.coefficients[i]);
        return cr__poly_take(env, &p);
    general: /* a float was put in for an integer */
        for (size_t i = 0; i < e->n; i++)
            sum = cr_sym_add(env, sum, cr_sym_mul(env, cr_sym_int(env, e->u.coefficients[i]), operands[i]));
        return sum;
    }
    if (kind == CR_SYM_MIN || kind == CR_SYM_MAX) return cr__minmax(env, kind, operands, e->n);
    if (kind == CR_SYM_AND || kind == CR_SYM_OR) return cr__junction(env, kind, operands, e->n);
    if (kind == CR_SYM_MUL) {
        bool all = integers;
        for (size_t i = 0; i < e->n; i++) all &= operands[i]->type != CR_TYPE_FLOAT;
        if (all) return cr__product(env, operands, e->n);
        cr_sym product = operands[0];
        for (size_t i = 1; i < e->n; i++) product = cr_sym_mul(env, product, operands[i]);
        return product;
    }
    return cr_sym_make(env, kind, operands[0], e->n > 1 ? operands[1] : NULL, e->n > 2 ? operands[2] : NULL);
}
