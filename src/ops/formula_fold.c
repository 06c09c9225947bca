/* formula_fold.c: what operators mean on everything that is no tensor: integers (sizes, so possibly symbolic), floats,
 * complex numbers, truth values, strings, dtypes and lists. All of it is settled while a formula is expanded. A
 * comparison of symbolic sizes may guard; a symbolic float stays a symbol. */
#include "ops/formula_eval.h"

#include <math.h>

/* Without an environment a number below all sizes is just that number. */
static bool is_symbolic(const fx *x, const cr_arg *a) {
    return x->e->env && (a->kind == CR_ARG_SYM || (a->kind == CR_ARG_INT && !cr_dim_is_plain(a->u.i)));
}
static bool is_whole(const cr_arg *a) { return a->kind == CR_ARG_INT || a->kind == CR_ARG_BOOL; }
static double real_of(const cr_arg *a) {
    return a->kind == CR_ARG_FLOAT ? a->u.f : a->kind == CR_ARG_COMPLEX ? a->u.c[0] : (double)a->u.i;
}
static double imaginary_of(const cr_arg *a) { return a->kind == CR_ARG_COMPLEX ? a->u.c[1] : 0; }

static cr_sym sym_of(cr_env *env, const cr_arg *a) {
    switch (a->kind) {
    case CR_ARG_SYM: return a->u.sym;
    case CR_ARG_FLOAT: return cr_sym_float(env, a->u.f);
    case CR_ARG_BOOL: return cr_sym_bool(env, a->u.i != 0);
    default: return cr_dim_sym(env, a->u.i);
    }
}

static cr_status take_sym(fx *x, const cr_fnode *node, cr_sym e, fval *out) {
    if (!e) return CR_FAIL(CR_ENOMEM, "out of memory");
    if (cr_sym_type_of(e) == CR_TYPE_INT) {
        *out = cr__fval(cr_arg_int(cr_dim_of(x->e->env, e)));
        if (out->a.u.i == CR_DIM_OVERFLOW)
            return cr__fx_fail(x, node, CR_EOVERFLOW, "integer arithmetic leaves the range of 64 bits");
        return CR_OK;
    }
    *out = cr__fval((cr_arg){ .kind = CR_ARG_SYM, .given = 1, .u.sym = e });
    return CR_OK;
}

static cr_status take_dim(fx *x, const cr_fnode *node, cr_dim d, fval *out) {
    if (d == CR_DIM_OVERFLOW) {
        if (x->e->env && cr_env_failed(x->e->env)) {
            cr_env_recover(x->e->env);
            return CR_FAIL(CR_ENOMEM, "out of memory");
        }
        return cr__fx_fail(x, node, CR_EOVERFLOW, "integer arithmetic divides by zero or leaves the range of 64 bits");
    }
    *out = cr__fval(cr_arg_int(d));
    return CR_OK;
}

static int compare_of(int kind) {
    switch (kind) {
    case CR_F_EQ: return CR_EQ;
    case CR_F_NE: return CR_NE;
    case CR_F_LT: return CR_LT;
    case CR_F_LE: return CR_LE;
    case CR_F_GT: return CR_GT;
    case CR_F_GE: return CR_GE;
    default: return -1;
    }
}

static cr_status refuse(fx *x, const cr_fnode *node) {
    return cr__fx_fail(x, node, CR_EFORMAT, "'%s' has no meaning for these operands", cr_fkind_text(node->kind));
}

static bool compare_floats(cr_cmp cmp, double a, double b) {
    switch (cmp) {
    case CR_EQ: return a == b;
    case CR_NE: return a != b;
    case CR_LT: return a < b;
    case CR_LE: return a <= b;
    case CR_GT: return a > b;
    default: return a >= b;
    }
}

static cr_status compare_numbers(fx *x, const cr_fnode *node, cr_cmp cmp, const cr_arg *a, const cr_arg *b, bool *yes) {
    if (is_whole(a) && is_whole(b)) return cr_dim_decide(x->e->env, a->u.i, cmp, b->u.i, yes);
    if (a->kind == CR_ARG_COMPLEX || b->kind == CR_ARG_COMPLEX) {
        if (cmp != CR_EQ && cmp != CR_NE) return refuse(x, node);
        *yes = (real_of(a) == real_of(b) && imaginary_of(a) == imaginary_of(b)) == (cmp == CR_EQ);
        return CR_OK;
    }
    if (!is_symbolic(x, a) && !is_symbolic(x, b)) {
        *yes = compare_floats(cmp, real_of(a), real_of(b));
        return CR_OK;
    }
    cr_env *env = x->e->env;
    cr_sym condition = cr_sym_compare(env, sym_of(env, a), cmp, sym_of(env, b));
    return cr_sym_decide(env, condition, yes);
}

/* Equality of anything that has no order: strings, dtypes, formats, none, lists of those. */
static cr_status equal(fx *x, const cr_fnode *node, const cr_arg *a, const cr_arg *b, bool *yes) {
    if (cr_arg_is_number(a) && cr_arg_is_number(b)) return compare_numbers(x, node, CR_EQ, a, b, yes);
    *yes = false;
    if (a->kind != b->kind) return CR_OK;
    switch (a->kind) {
    case CR_ARG_NONE: *yes = true; return CR_OK;
    case CR_ARG_STR: *yes = !strcmp(a->u.s, b->u.s); return CR_OK;
    case CR_ARG_DTYPE: case CR_ARG_LAYOUT: case CR_ARG_FORMAT: *yes = a->u.i == b->u.i; return CR_OK;
    case CR_ARG_DEVICE:
        *yes = a->u.device.type == b->u.device.type && a->u.device.index == b->u.device.index;
        return CR_OK;
    case CR_ARG_LIST:
        if (a->n != b->n) return CR_OK;
        *yes = true;
        for (uint32_t i = 0; *yes && i < a->n; i++) CR_TRY(equal(x, node, &a->u.list[i], &b->u.list[i], yes));
        return CR_OK;
    default: return refuse(x, node);
    }
}

static cr_status fold_whole(fx *x, const cr_fnode *node, cr_dim a, cr_dim b, fval *out) {
    cr_env *env = x->e->env;
    switch (node->kind) {
    case CR_F_ADD: return take_dim(x, node, cr_dim_add(env, a, b), out);
    case CR_F_SUB: return take_dim(x, node, cr_dim_sub(env, a, b), out);
    case CR_F_MUL: return take_dim(x, node, cr_dim_mul(env, a, b), out);
    case CR_F_FLOORDIV: return take_dim(x, node, cr_dim_floordiv(env, a, b), out);
    case CR_F_MOD: return take_dim(x, node, cr_dim_mod(env, a, b), out);
    default: break;
    }
    if (env && (!cr_dim_is_plain(a) || !cr_dim_is_plain(b))) {
        if (node->kind == CR_F_DIV)
            return take_sym(x, node, cr_sym_make(env, CR_SYM_TRUEDIV, cr_dim_sym(env, a), cr_dim_sym(env, b), NULL),
                            out);
        if (node->kind == CR_F_POW)
            return take_sym(x, node, cr_sym_make(env, CR_SYM_POW, cr_dim_sym(env, a), cr_dim_sym(env, b), NULL), out);
        return refuse(x, node);
    }
    switch (node->kind) {
    case CR_F_DIV:
        if (!b) return cr__fx_fail(x, node, CR_EVALUE, "division by zero");
        *out = cr__fval(cr_arg_float((double)a / (double)b));
        return CR_OK;
    case CR_F_POW: {
        if (b < 0) {
            *out = cr__fval(cr_arg_float(pow((double)a, (double)b)));
            return CR_OK;
        }
        cr_dim power = 1, base = a;
        while (b && power != CR_DIM_OVERFLOW && base != CR_DIM_OVERFLOW) {
            if (b & 1) power = cr_dim_mul(env, power, base);
            if (b >>= 1) base = cr_dim_mul(env, base, base);
        }
        if (base == CR_DIM_OVERFLOW) power = CR_DIM_OVERFLOW;
        return take_dim(x, node, power, out);
    }
    case CR_F_BITAND: return take_dim(x, node, a & b, out);
    case CR_F_BITOR: return take_dim(x, node, a | b, out);
    case CR_F_SHL: case CR_F_SHR:
        if (b < 0 || b > 62) return cr__fx_fail(x, node, CR_EVALUE, "a shift by %lld", (long long)b);
        return node->kind == CR_F_SHL ? take_dim(x, node, cr_dim_mul(env, a, (int64_t)1 << b), out)
                                      : take_dim(x, node, a >> b, out);
    default: return refuse(x, node);
    }
}

static double python_mod(double a, double b) {
    double r = fmod(a, b);
    return r && (r < 0) != (b < 0) ? r + b : r;
}

static cr_status fold_floats(fx *x, const cr_fnode *node, double a, double b, fval *out) {
    double r;
    switch (node->kind) {
    case CR_F_ADD: r = a + b; break;
    case CR_F_SUB: r = a - b; break;
    case CR_F_MUL: r = a * b; break;
    case CR_F_DIV: r = a / b; break;
    case CR_F_FLOORDIV: r = floor(a / b); break;
    case CR_F_MOD: r = python_mod(a, b); break;
    case CR_F_POW: r = pow(a, b); break;
    default: return refuse(x, node);
    }
    *out = cr__fval(cr_arg_float(r));
    return CR_OK;
}

static cr_status fold_complex(fx *x, const cr_fnode *node, const cr_arg *a, const cr_arg *b, fval *out) {
    double ar = real_of(a), ai = imaginary_of(a), br = real_of(b), bi = imaginary_of(b),
           *c = cr_arena_alloc(&x->arena, 2 * sizeof *c);
    if (!c) return CR_ENOMEM;
    switch (node->kind) {
    case CR_F_ADD: c[0] = ar + br, c[1] = ai + bi; break;
    case CR_F_SUB: c[0] = ar - br, c[1] = ai - bi; break;
    case CR_F_MUL: c[0] = ar * br - ai * bi, c[1] = ar * bi + ai * br; break;
    case CR_F_DIV: {
        double n = br * br + bi * bi;
        c[0] = (ar * br + ai * bi) / n, c[1] = (ai * br - ar * bi) / n;
        break;
    }
    default: return refuse(x, node);
    }
    *out = cr__fval((cr_arg){ .kind = CR_ARG_COMPLEX, .given = 1, .u.c = c });
    return CR_OK;
}

static cr_status fold_symbolic(fx *x, const cr_fnode *node, const cr_arg *a, const cr_arg *b, fval *out) {
    static const struct {
        uint8_t kind, sym;
    } map[] = {
        { CR_F_ADD, CR_SYM_ADD }, { CR_F_MUL, CR_SYM_MUL }, { CR_F_DIV, CR_SYM_TRUEDIV }, { CR_F_POW, CR_SYM_POW }
    };
    cr_env *env = x->e->env;
    cr_sym l = sym_of(env, a), r = sym_of(env, b);
    if (l && cr_sym_type_of(l) == CR_TYPE_INT) l = cr_sym_make(env, CR_SYM_TOFLOAT, l, NULL, NULL);
    if (r && cr_sym_type_of(r) == CR_TYPE_INT) r = cr_sym_make(env, CR_SYM_TOFLOAT, r, NULL, NULL);
    if (node->kind == CR_F_SUB) return take_sym(x, node, cr_sym_sub(env, l, r), out);
    for (size_t i = 0; i < CR_COUNT(map); i++)
        if (map[i].kind == node->kind) return take_sym(x, node, cr_sym_make(env, map[i].sym, l, r, NULL), out);
    return refuse(x, node);
}

/* [a] + [b] joins, [a] * n repeats. */
static cr_status fold_lists(fx *x, const cr_fnode *node, const cr_arg *a, const cr_arg *b, fval *out) {
    if (node->kind == CR_F_ADD && a->kind == CR_ARG_LIST && b->kind == CR_ARG_LIST) {
        cr_arg *items = cr__fx_list(x, (size_t)a->n + b->n);
        if (!items) return CR_ENOMEM;
        if (a->n) memcpy(items, a->u.list, a->n * sizeof *items);
        if (b->n) memcpy(items + a->n, b->u.list, b->n * sizeof *items);
        *out = cr__fval(cr_arg_list(items, (size_t)a->n + b->n));
        return CR_OK;
    }
    if (node->kind == CR_F_MUL && a->kind == CR_ARG_LIST && b->kind == CR_ARG_INT && cr_dim_is_plain(b->u.i)) {
        int64_t times = CR_MAX(b->u.i, 0);
        if (a->n && times > (1 << 20) / (int64_t)a->n)
            return cr__fx_fail(x, node, CR_EVALUE, "a list of more than a million entries");
        cr_arg *items = cr__fx_list(x, (size_t)(a->n * times));
        if (!items) return CR_ENOMEM;
        for (int64_t i = 0; i < a->n * times; i++) items[i] = a->u.list[i % a->n];
        *out = cr__fval(cr_arg_list(items, (size_t)(a->n * times)));
        return CR_OK;
    }
    return refuse(x, node);
}

cr_status cr__fold_binary(fx *x, const cr_fnode *node, const fval *left, const fval *right, fval *out) {
    const cr_arg *a = &left->a, *b = &right->a;
    bool yes, numbers = cr__fval_is_number(left) && cr__fval_is_number(right);
    if (node->kind == CR_F_EQ || node->kind == CR_F_NE) {
        CR_TRY(numbers ? compare_numbers(x, node, CR_EQ, a, b, &yes) : equal(x, node, a, b, &yes));
        *out = cr__fval(cr_arg_bool(yes == (node->kind == CR_F_EQ)));
        return CR_OK;
    }
    if (!numbers) return fold_lists(x, node, a, b, out);
    if (compare_of(node->kind) >= 0) {
        CR_TRY(compare_numbers(x, node, (cr_cmp)compare_of(node->kind), a, b, &yes));
        *out = cr__fval(cr_arg_bool(yes));
        return CR_OK;
    }
    if (a->kind == CR_ARG_BOOL && b->kind == CR_ARG_BOOL && (node->kind == CR_F_BITAND || node->kind == CR_F_BITOR)) {
        *out = cr__fval(cr_arg_bool(node->kind == CR_F_BITAND ? a->u.i && b->u.i : a->u.i || b->u.i));
        return CR_OK;
    }
    if (is_whole(a) && is_whole(b)) return fold_whole(x, node, a->u.i, b->u.i, out);
    if (a->kind == CR_ARG_COMPLEX || b->kind == CR_ARG_COMPLEX)
        return is_symbolic(x, a) || is_symbolic(x, b) ? refuse(x, node) : fold_complex(x, node, a, b, out);
    if (is_symbolic(x, a) || is_symbolic(x, b)) return fold_symbolic(x, node, a, b, out);
    return fold_floats(x, node, real_of(a), real_of(b), out);
}

cr_status cr__fold_unary(fx *x, const cr_fnode *node, const fval *v, fval *out) {
    const cr_arg *a = &v->a;
    bool yes;
    switch (node->kind) {
    case CR_F_NEG:
        if (is_whole(a)) return take_dim(x, node, cr_dim_neg(x->e->env, a->u.i), out);
        if (a->kind == CR_ARG_FLOAT) {
            *out = cr__fval(cr_arg_float(-a->u.f));
            return CR_OK;
        }
        if (a->kind == CR_ARG_SYM) return take_sym(x, node, cr_sym_neg(x->e->env, a->u.sym), out);
        if (a->kind == CR_ARG_COMPLEX) {
            double *c = cr_arena_alloc(&x->arena, 2 * sizeof *c);
            if (!c) return CR_ENOMEM;
            c[0] = -a->u.c[0], c[1] = -a->u.c[1];
            *out = cr__fval((cr_arg){ .kind = CR_ARG_COMPLEX, .given = 1, .u.c = c });
            return CR_OK;
        }
        return refuse(x, node);
    case CR_F_NOT:
        CR_TRY(cr__fold_truth(x, node, v, &yes));
        *out = cr__fval(cr_arg_bool(!yes));
        return CR_OK;
    case CR_F_BITNOT:
        if (a->kind != CR_ARG_INT || !cr_dim_is_plain(a->u.i)) return refuse(x, node);
        return take_dim(x, node, ~a->u.i, out);
    default: return refuse(x, node);
    }
}

cr_status cr__fold_truth(fx *x, const cr_fnode *node, const fval *v, bool *out) {
    const cr_arg *a = &v->a;
    if (cr__fval_is_tensor(v))
        return cr__fx_fail(x, node, CR_EFORMAT,
                           "this condition is a tensor; only where(...) may depend on data, '?:' is settled while "
                           "expanding");
    switch (a->kind) {
    case CR_ARG_BOOL: *out = a->u.i != 0; return CR_OK;
    case CR_ARG_INT: return cr_dim_decide(x->e->env, a->u.i, CR_NE, 0, out);
    case CR_ARG_FLOAT: *out = a->u.f != 0; return CR_OK;
    case CR_ARG_LIST: *out = a->n != 0; return CR_OK;
    case CR_ARG_NONE: *out = false; return CR_OK;
    case CR_ARG_SYM:
        if (cr_sym_type_of(a->u.sym) == CR_TYPE_BOOL) {
            cr_tri truth = cr_sym_truth(x->e->env, a->u.sym);
            if (truth == CR_UNKNOWN)
                return cr__fx_fail(x, node, CR_EDATADEP, "this symbolic condition is not known here");
            *out = truth == CR_YES;
            return CR_OK;
        }
        break;
    default: break;
    }
    return cr__fx_fail(x, node, CR_EFORMAT, "a condition must be a truth value");
}
