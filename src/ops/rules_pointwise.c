/* rules_pointwise.c: dtypes and shapes of pointwise ops.
 *
 * All tensor arguments promote together, and so do the number arguments that stand for an operand (`other`, `exponent`,
 * the bounds of clamp ...); numbers that only steer the op (`alpha`, `negative_slope`) do not, they must fit the
 * result. Every output has the broadcast shape and the one layout that PyTorch's iterator gives. */
#include "ops/rules.h"

#include <math.h>

/* ---- promotion ---- */

/* A number in one of these parameters is an operand. */
static bool is_operand(const cr_param *p) {
    static const char *const names[] = { "self", "other", "exponent", "min", "max", "x", "n" };
    if (p->type != CR_T_SCALAR) return false;
    for (size_t i = 0; i < CR_COUNT(names); i++)
        if (!strcmp(p->name, names[i])) return true;
    return false;
}

static const char *c_type(int dtype) {
    switch (dtype) {
    case CR_U8: return "uint8_t";
    case CR_I8: return "int8_t";
    case CR_I16: return "int16_t";
    case CR_I32: return "int";
    case CR_I64: return "int64_t";
    default: return cr_dtype_name(dtype);
    }
}

/* Can the number be stored in the dtype? Fractions may be cut, but nothing may leave the range. */
static bool number_fits(const cr_arg *a, int dtype) {
    double lo, hi, v;
    if (dtype == CR_BOOL) return true;
    if (a->kind == CR_ARG_COMPLEX) return cr_dtype_is_complex(dtype) || a->u.c[1] == 0;
    if (!rt_is_integer(dtype) || (a->kind == CR_ARG_INT && !cr_dim_is_plain(a->u.i))) return true;
    if (a->kind == CR_ARG_INT && dtype == CR_I64) return true;
    int bits = (int)rt_itemsize(dtype) * 8;
    v = a->kind == CR_ARG_FLOAT ? a->u.f : (double)a->u.i;
    hi = rt_is_unsigned(dtype) ? ldexp(1, bits) : ldexp(1, bits - 1);
    /* a negative integer wraps into an unsigned type */
    lo = a->kind == CR_ARG_FLOAT && rt_is_unsigned(dtype) ? 0 : -hi;
    return v >= lo && v < hi;
}

static cr_status check_fits(const cr_rule *r, int i, int dtype) {
    const cr_arg *a = &r->arg[i];
    if (!cr_arg_is_number(a) || number_fits(a, dtype)) return CR_OK;
    return CR_FAIL(CR_ERUNTIME, "%s: '%s': value cannot be converted to type %s without overflow", r->op->schema.name,
                   r->op->schema.params[i].name, c_type(dtype));
}

/* An integer beside floating elements changes nothing: most numbers are these (alpha=1), and names need not be read. */
static bool cannot_matter(const cr_promotion *p, const cr_arg *a) {
    return a->kind == CR_ARG_INT && p->dim >= 0 && (cr_dtype_is_floating(p->dim) || cr_dtype_is_complex(p->dim));
}

/* From argument `first` on. */
static cr_status promote_from(cr_rule *r, int first) {
    const cr_schema *s = &r->op->schema;
    cr_promotion p = CR_PROMOTION_INIT;
    for (int i = first; i < r->nargs; i++) {
        const cr_meta *m = cr_rule_meta(r, i);
        if (m) CR_TRY(cr_promotion_add(&p, m));
        else if (cr_arg_is_number(&r->arg[i]) && !cannot_matter(&p, &r->arg[i]) && is_operand(&s->params[i]))
            cr_promotion_add_dtype(&p, cr_arg_number_dtype(&r->arg[i]), true);
    }
    CR_TRY(cr_promotion_result(&p, &r->common));
    r->result = r->common;
    for (int i = first; i < r->nargs; i++)
        if (s->params[i].type == CR_T_SCALAR && cr_arg_is_number(&r->arg[i]) && !number_fits(&r->arg[i], r->common) &&
            !is_operand(&s->params[i]))
            CR_TRY(check_fits(r, i, r->common));
    return CR_OK;
}

cr_status dtype_promote(cr_rule *r) {
    const cr_meta *m = cr_rule_meta(r, 0);
    if (r->nargs == 1 && m) {
        r->common = r->result = m->dtype;
        return CR_OK;
    }
    return promote_from(r, 0);
}

cr_status dtype_promote_float(cr_rule *r) {
    CR_TRY(dtype_promote(r));
    if (cr_dtype_is_integral(r->common)) r->common = r->result = cr_default_dtype();
    return CR_OK;
}

/* Two integers need not have a common dtype: only their floats meet. */
cr_status dtype_ldexp(cr_rule *r) {
    if (!cr_dtype_is_integral(cr_rule_meta(r, 0)->dtype) || !cr_dtype_is_integral(cr_rule_meta(r, 1)->dtype))
        return dtype_promote_float(r);
    r->common = r->result = cr_default_dtype();
    return CR_OK;
}

/* As promote, but there is no order among complex numbers. */
cr_status dtype_ordered(cr_rule *r) {
    CR_TRY(dtype_promote(r));
    if (cr_dtype_is_complex(r->common))
        return CR_FAIL(CR_ERUNTIME, "%s: not implemented for complex tensors; compare their abs()", r->op->schema.name);
    return CR_OK;
}

cr_status dtype_float_ordered(cr_rule *r) {
    CR_TRY(dtype_ordered(r));
    return dtype_promote_float(r);
}

/* Rounding and signs: PyTorch calls complex numbers not implemented here, not wrong. */
cr_status dtype_real(cr_rule *r) {
    CR_TRY(dtype_promote(r));
    if (cr_dtype_is_complex(r->common))
        return CR_FAIL(CR_ENOTIMPL, "%s: not supported for complex tensors; use real() and imag(), or sgn() for signs",
                       r->op->schema.name);
    return CR_OK;
}

cr_status dtype_compare(cr_rule *r) {
    CR_TRY(dtype_promote(r));
    r->result = CR_BOOL;
    return CR_OK;
}

cr_status dtype_compare_real(cr_rule *r) {
    CR_TRY(dtype_ordered(r));
    r->result = CR_BOOL;
    return CR_OK;
}

/* ---- arithmetic ---- */

static int find_param(const cr_rule *r, const char *name) {
    for (int i = 0; i < r->nargs; i++)
        if (!strcmp(r->op->schema.params[i].name, name)) return i;
    return -1;
}

/* add, sub, rsub: what `alpha` may be. */
cr_status dtype_add(cr_rule *r) {
    CR_TRY(dtype_promote(r));
    int i = find_param(r, "alpha");
    const cr_arg *alpha = i >= 0 ? &r->arg[i] : NULL;
    if (!alpha) return CR_OK;
    if (alpha->kind == CR_ARG_BOOL && r->common != CR_BOOL)
        return CR_FAIL(CR_ERUNTIME, "%s: a boolean alpha is only supported for boolean results, not %s",
                       r->op->schema.name, cr_dtype_aten(r->common));
    if (alpha->kind == CR_ARG_FLOAT && cr_dtype_is_integral(r->common))
        return CR_FAIL(CR_ERUNTIME, "%s: for integral tensors alpha must not be a floating-point number",
                       r->op->schema.name);
    if (alpha->kind == CR_ARG_COMPLEX && !cr_dtype_is_complex(r->common))
        return CR_FAIL(CR_ERUNTIME, "%s: for real tensors alpha must not be a complex number", r->op->schema.name);
    return CR_OK;
}

cr_status dtype_subtract(cr_rule *r) {
    int bools = 0;
    for (int i = 0; i < 2; i++) {
        const cr_meta *m = cr_rule_meta(r, i);
        bools += m ? m->dtype == CR_BOOL : r->arg[i].kind == CR_ARG_BOOL;
    }
    if (bools == 2)
        return CR_FAIL(CR_ERUNTIME, "%s: subtraction of two bool tensors is not supported; use ^ or logical_xor()",
                       r->op->schema.name);
    if (bools)
        return CR_FAIL(CR_ERUNTIME,
                       "%s: subtraction with a bool tensor is not supported; to invert a mask use ~ or logical_not()",
                       r->op->schema.name);
    return dtype_add(r);
}

cr_status dtype_negative(cr_rule *r) {
    CR_TRY(dtype_promote(r));
    if (r->common == CR_BOOL)
        return CR_FAIL(CR_ERUNTIME, "%s: negation of a bool tensor is not supported; use ~ or logical_not()",
                       r->op->schema.name);
    return CR_OK;
}

cr_status dtype_positive(cr_rule *r) {
    CR_TRY(dtype_promote(r));
    if (r->common == CR_BOOL)
        return CR_FAIL(CR_ERUNTIME, "%s: the + operator on a bool tensor is not supported", r->op->schema.name);
    return CR_OK;
}

/* div: true division makes floats, the rounding modes keep integers. */
cr_status dtype_divide(cr_rule *r) {
    int i = find_param(r, "rounding_mode");
    const cr_arg *mode = i >= 0 ? &r->arg[i] : NULL;
    if (!mode || mode->kind == CR_ARG_NONE) return dtype_promote_float(r);
    if (strcmp(mode->u.s, "trunc") && strcmp(mode->u.s, "floor"))
        return CR_FAIL(CR_ERUNTIME, "div: rounding_mode must be one of None, 'trunc' or 'floor', not '%s'", mode->u.s);
    CR_TRY(dtype_promote(r));
    if (r->common == CR_BOOL || cr_dtype_is_complex(r->common))
        return CR_FAIL(CR_ENOTIMPL, "div: rounding_mode='%s' is not implemented for '%s'", mode->u.s,
                       cr_dtype_aten(r->common));
    return CR_OK;
}

cr_status dtype_power(cr_rule *r) {
    CR_TRY(dtype_promote(r));
    const cr_arg *e = &r->arg[1];
    bool negative = cr_arg_is_symbolic(r->env, e) ? cr_dim_known(r->env, e->u.i, CR_LT, 0) == CR_YES : e->u.i < 0;
    if (e->kind == CR_ARG_INT && cr_dtype_is_integral(r->common) && negative)
        return CR_FAIL(CR_ERUNTIME, "pow: integers to negative integer powers are not allowed; convert the base to a "
                                    "float first");
    return CR_OK;
}

cr_status dtype_float_power(cr_rule *r) {
    CR_TRY(dtype_promote(r));
    r->common = r->result = cr_dtype_is_complex(r->common) ? CR_C128 : CR_F64;
    return CR_OK;
}

cr_status dtype_addcdiv(cr_rule *r) {
    CR_TRY(dtype_promote(r));
    const cr_meta *a = cr_rule_meta(r, 1), *b = cr_rule_meta(r, 2);
    if (cr_dtype_is_integral(a->dtype) && cr_dtype_is_integral(b->dtype))
        return CR_FAIL(CR_ERUNTIME, "addcdiv: integer division is not supported; divide with true_divide or "
                                    "floor_divide and add");
    return CR_OK;
}

/* ---- one dtype for all ---- */

static cr_status check_same(const cr_rule *r, int i, int dtype) {
    const cr_meta *m = cr_rule_meta(r, i);
    if (!m || m->dtype == dtype) return CR_OK;
    return CR_FAIL(CR_ERUNTIME, "%s: expected dtype %s for '%s' but got dtype %s", r->op->schema.name,
                   cr_dtype_aten(dtype), r->op->schema.params[i].name, cr_dtype_aten(m->dtype));
}

cr_status dtype_lerp(cr_rule *r) {
    CR_TRY(dtype_same(r));
    CR_TRY(check_same(r, 1, r->common));
    const cr_meta *weight = cr_rule_meta(r, 2);
    return weight && weight->rank ? check_same(r, 2, r->common) : CR_OK;
}

cr_status dtype_all_same(cr_rule *r) {
    CR_TRY(dtype_same(r));
    for (int i = 1; i < r->nargs; i++) CR_TRY(check_same(r, i, r->common));
    return CR_OK;
}

cr_status check_prelu(cr_rule *r) { /* self, weight: one number, or one a channel */
    const cr_meta *x = cr_rule_meta(r, 0), *w = cr_rule_meta(r, 1);
    if (w->rank > 1)
        return CR_FAIL(CR_ERUNTIME, "prelu: weight must be a number or a vector, it has %d dimensions", w->rank);
    cr_dim n = cr_meta_numel(r->env, w);
    if (cr_dim_known(r->env, n, CR_EQ, 1) == CR_YES) return CR_OK;
    return cr_dim_require(r->env, n, CR_EQ, x->rank < 2 ? 1 : x->size[1],
                          "prelu: weight must have one element, or one a channel");
}

/* ---- choices ---- */

cr_status dtype_where(cr_rule *r) {
    const cr_meta *condition = cr_rule_meta(r, 0);
    if (condition->dtype != CR_BOOL && condition->dtype != CR_U8)
        return CR_FAIL(CR_ERUNTIME,
                       "where: expected condition to be a boolean tensor, but got dtype %s; compare it with something "
                       "first",
                       cr_dtype_aten(condition->dtype));
    return promote_from(r, 1);
}

cr_status dtype_masked_fill(cr_rule *r) {
    CR_TRY(dtype_same(r));
    const cr_meta *mask = cr_rule_meta(r, 1), *value = cr_rule_meta(r, 2);
    if (mask->dtype != CR_BOOL)
        return CR_FAIL(CR_ERUNTIME, "masked_fill: the mask must be a boolean tensor, not %s",
                       cr_dtype_aten(mask->dtype));
    if (value && value->rank)
        return CR_FAIL(CR_ERUNTIME,
                       "masked_fill: the value must be a number or a 0-dimensional tensor, not a tensor of %d "
                       "dimensions",
                       value->rank);
    return check_fits(r, 2, r->common);
}

static cr_status check_bounds(const cr_rule *r) {
    for (int i = 1; i < r->nargs; i++)
        if (cr_rule_has(r, i)) return CR_OK;
    return CR_FAIL(CR_ERUNTIME, "%s: at least one of 'min' and 'max' must not be None", r->op->schema.name);
}

cr_status dtype_clamp(cr_rule *r) {
    CR_TRY(check_bounds(r));
    CR_TRY(dtype_promote(r));
    if (cr_dtype_is_complex(r->common))
        return CR_FAIL(CR_ENOTIMPL, "%s: not supported for complex types; clamp the real and imaginary parts",
                       r->op->schema.name);
    /* one bound is maximum or minimum */
    if (r->common == CR_BOOL && r->nargs == 3 && cr_rule_meta(r, 1) && cr_rule_meta(r, 2))
        return CR_FAIL(CR_ENOTIMPL, "%s: not implemented for 'Bool'; use logical_and and logical_or",
                       r->op->schema.name);
    for (int i = 1; i < r->nargs; i++) CR_TRY(check_fits(r, i, r->common));
    return CR_OK;
}

cr_status dtype_relu(cr_rule *r) {
    CR_TRY(dtype_promote(r));
    if (r->common == CR_BOOL) return CR_FAIL(CR_ERUNTIME, "%s: boolean inputs are not supported", r->op->schema.name);
    return CR_OK;
}

cr_status dtype_hardtanh(cr_rule *r) {
    CR_TRY(dtype_relu(r));
    if (rt_is_unsigned(r->common)) {
        for (int i = 1; i < 3; i++) {
            const cr_arg *a = &r->arg[i];
            if ((a->kind == CR_ARG_FLOAT ? a->u.f : (double)a->u.i) < 0)
                return CR_FAIL(CR_ERUNTIME, "hardtanh: cannot limit an unsigned type by negative numbers");
        }
    }
    return CR_OK;
}

cr_status dtype_gelu(cr_rule *r) {
    CR_TRY(dtype_promote(r));
    const cr_arg *kind = &r->arg[find_param(r, "approximate")];
    if (strcmp(kind->u.s, "none") && strcmp(kind->u.s, "tanh"))
        return CR_FAIL(CR_ERUNTIME, "%s: approximate must be 'none' or 'tanh', not '%s'", r->op->schema.name,
                       kind->u.s);
    return CR_OK;
}

cr_status dtype_celu(cr_rule *r) {
    CR_TRY(dtype_promote(r));
    const cr_arg *alpha = &r->arg[1];
    if ((alpha->kind == CR_ARG_FLOAT ? alpha->u.f : (double)alpha->u.i) == 0)
        return CR_FAIL(CR_ERUNTIME, "celu: ZeroDivisionError: alpha must not be 0");
    return CR_OK;
}

/* isclose compares in floats, but only tensors of one dtype. */
cr_status dtype_isclose(cr_rule *r) {
    CR_TRY(dtype_all_same(r));
    static const char *const names[] = { "rtol", "atol" };
    for (int i = 0; i < 2; i++)
        if (r->arg[2 + i].kind == CR_ARG_FLOAT && r->arg[2 + i].u.f < 0)
            return CR_FAIL(CR_ERUNTIME, "isclose: %s must be greater than or equal to zero, but got %g", names[i],
                           r->arg[2 + i].u.f);
    if (cr_dtype_is_integral(r->common)) r->common = CR_F64;
    r->result = CR_BOOL;
    return CR_OK;
}

/* ---- complex and real ---- */

static int real_of(int dtype) { return cr_dtype_is_complex(dtype) ? cr_dtype_to_real(dtype) : dtype; }

cr_status dtype_abs(cr_rule *r) {
    CR_TRY(dtype_promote(r));
    r->result = real_of(r->common);
    return CR_OK;
}

cr_status dtype_angle(cr_rule *r) {
    CR_TRY(dtype_promote_float(r));
    r->result = real_of(r->common);
    return CR_OK;
}

/* complex, polar: two real tensors of one dtype make a complex one. */
cr_status dtype_complex(cr_rule *r) {
    const cr_meta *a = cr_rule_meta(r, 0), *b = cr_rule_meta(r, 1);
    bool fits = a->dtype == CR_F16 || a->dtype == CR_F32 || a->dtype == CR_F64;
    if (!fits)
        return CR_FAIL(CR_ERUNTIME, "%s: expected two Half, Float or Double tensors but got %s and %s",
                       r->op->schema.name, cr_dtype_aten(a->dtype), cr_dtype_aten(b->dtype));
    CR_TRY(check_same(r, 1, a->dtype));
    r->common = a->dtype;
    r->result = cr_dtype_to_complex(a->dtype);
    return CR_OK;
}

/* ---- the rest ---- */

cr_status dtype_polygamma(cr_rule *r) {
    CR_TRY(dtype_promote_float(r));
    if (cr_dim_known(r->env, cr_rule_int(r, 0), CR_LT, 0) == CR_YES)
        return CR_FAIL(CR_ERUNTIME, "polygamma: n must not be negative");
    return CR_OK;
}

cr_status dtype_frexp(cr_rule *r) {
    CR_TRY(dtype_promote(r));
    if (!cr_dtype_is_floating(r->common))
        return CR_FAIL(CR_ERUNTIME, "frexp: only floating-point dtypes are supported, not %s",
                       cr_dtype_aten(r->common));
    return CR_OK;
}

/* ---- shapes ---- */

cr_status shape_broadcast(cr_rule *r) {
    const cr_meta *inputs[8];
    int n = 0, rank = 0;
    cr_dim size[CR_MAX_RANK];
    for (int i = 0; i < r->nargs; i++) {
        const cr_meta *m = cr_rule_meta(r, i);
        if (!m || n == (int)CR_COUNT(inputs)) continue;
        inputs[n++] = m;
        if (n == 1) {
            rank = m->rank;
            memcpy(size, m->size, m->rank * sizeof *size);
        } else {
            CR_TRY(cr_broadcast(r->env, &rank, size, m->rank, m->size));
        }
    }
    for (int k = 0; k < r->op->schema.nreturns; k++) {
        cr_out *out = cr_rule_add(r);
        if (!out) return CR_ENOMEM;
        out->meta.rank = (uint8_t)rank;
        memcpy(out->meta.size, size, (size_t)rank * sizeof *size);
        if (k == 0) cr_layout_pointwise(r->env, inputs, n, &out->meta);
        else memcpy(out->meta.stride, r->out[0].meta.stride, (size_t)rank * sizeof *size);
    }
    return CR_OK;
}

/* The same in row-major order whatever the inputs' strides. */
cr_status shape_broadcast_dense(cr_rule *r) {
    CR_TRY(shape_broadcast(r));
    for (int k = 0; k < r->nout; k++)
        cr_strides_contiguous(r->env, r->out[k].meta.rank, r->out[k].meta.size, r->out[k].meta.stride);
    return CR_OK;
}

cr_status shape_angle(cr_rule *r) {
    return cr_dtype_is_complex(r->common) ? shape_broadcast_dense(r) : shape_broadcast(r);
}

/* A real tensor is its own conjugate. */
cr_status shape_conj(cr_rule *r) { return cr_dtype_is_complex(r->common) ? shape_broadcast(r) : shape_same(r); }

/* mantissa and exponent */
cr_status shape_frexp(cr_rule *r) {
    CR_TRY(shape_broadcast(r));
    r->out[1].meta.dtype = CR_I32;
    return CR_OK;
}
