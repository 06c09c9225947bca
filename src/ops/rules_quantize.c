/* rules_quantize.c: rounding to a grid: where the grid comes from, and which values of it are legal. */
#include "ops/rules.h"

static const char *op_name(const cr_rule *r) { return r->op->schema.name; }

/* The rounded tensor, and where it was inside the grid. */
static cr_status add_rounded(cr_rule *r) {
    CR_TRY(shape_like(r));
    CR_TRY(shape_like(r));
    r->out[1].meta.dtype = CR_BOOL;
    return CR_OK;
}

static cr_status check_range(cr_rule *r, int at) { /* quant_min, quant_max */
    int64_t low = cr_rule_int(r, at), high = cr_rule_int(r, at + 1);
    if (low <= high) return CR_OK;
    return CR_FAIL(CR_ERUNTIME, "%s: quant_min (%lld) must not be above quant_max (%lld)", op_name(r), (long long)low,
                   (long long)high);
}

cr_status shape_fake_quantize(cr_rule *r) { /* self, scale, zero_point, quant_min, quant_max */
    CR_TRY(check_range(r, 3));
    if (cr_rule_int(r, 2) < cr_rule_int(r, 3) || cr_rule_int(r, 2) > cr_rule_int(r, 4))
        return CR_FAIL(CR_ERUNTIME, "%s: zero_point must be between quant_min and quant_max, got %lld", op_name(r),
                       (long long)cr_rule_int(r, 2));
    return add_rounded(r);
}

/* self, scale, zero_point, fake_quant_enabled, quant_min, quant_max */
cr_status shape_fake_quantize_tensor(cr_rule *r) {
    CR_TRY(check_range(r, 4));
    for (int i = 1; i <= 3; i++) {
        const cr_meta *m = cr_rule_meta(r, i);
        CR_TRY(cr_dim_require(r->env, cr_meta_numel(r->env, m), CR_EQ, 1,
                              "fake_quantize: scale, zero_point and fake_quant_enabled have one element each"));
        if (cr_dtype_is_complex(m->dtype))
            return CR_FAIL(CR_ERUNTIME, "%s: %s must be real", op_name(r), r->op->schema.params[i].name);
    }
    return add_rounded(r);
}

cr_status shape_fake_quantize_channel(cr_rule *r) { /* self, scale, zero_point, axis, quant_min, quant_max */
    const cr_meta *self = cr_rule_meta(r, 0), *scale = cr_rule_meta(r, 1), *zero = cr_rule_meta(r, 2);
    int64_t axis = cr_rule_int(r, 3);
    if (scale->dtype != CR_F32)
        return CR_FAIL(CR_ERUNTIME, "%s: scale must be float32, not %s", op_name(r), rt_dtype_name(scale->dtype));
    if (zero->dtype != CR_I32 && zero->dtype != CR_F32 && zero->dtype != CR_F16)
        return CR_FAIL(CR_ERUNTIME, "%s: zero_point must be int32, float32 or float16, not %s", op_name(r),
                       rt_dtype_name(zero->dtype));
    if (scale->rank != 1 || zero->rank != 1)
        return CR_FAIL(CR_ERUNTIME, "%s: scale and zero_point must be vectors, they have %d and %d dimensions",
                       op_name(r), scale->rank, zero->rank);
    CR_TRY(check_range(r, 4));
    if (axis < 0) return CR_FAIL(CR_ERUNTIME, "%s: axis must not be negative, got %lld", op_name(r), (long long)axis);
    if (axis >= self->rank)
        return CR_FAIL(CR_EINDEX, "%s: axis %lld is outside of the tensor's %d dimensions", op_name(r), (long long)axis,
                       self->rank);
    CR_TRY(cr_dim_require(r->env, scale->size[0], CR_EQ, zero->size[0],
                          "fake_quantize: scale and zero_point must have the same size"));
    CR_TRY(cr_dim_require(r->env, scale->size[0], CR_EQ, self->size[axis],
                          "fake_quantize: there must be a scale for each channel along axis"));
    return add_rounded(r);
}

cr_status check_fake_quantize_backward(cr_rule *r) { /* grad, mask */
    const cr_meta *grad = cr_rule_meta(r, 0), *mask = cr_rule_meta(r, 1);
    if (mask->dtype != CR_BOOL)
        return CR_FAIL(CR_ERUNTIME, "%s: mask must be bool, not %s", op_name(r), rt_dtype_name(mask->dtype));
    CR_TRY(cr_dim_require(r->env, cr_meta_numel(r->env, grad), CR_EQ, cr_meta_numel(r->env, mask),
                          "fake_quantize: mask and grad must have the same size"));
    return dtype_same(r);
}

cr_status check_int_mm(cr_rule *r) { /* self, mat2 */
    const cr_meta *a = cr_rule_meta(r, 0), *b = cr_rule_meta(r, 1);
    if (a->rank != 2 || b->rank != 2)
        return CR_FAIL(CR_ERUNTIME, "%s: expected two matrices, got %d and %d dimensions", op_name(r), a->rank,
                       b->rank);
    if ((a->dtype != CR_I8 && a->dtype != CR_U8) || b->dtype != CR_I8)
        return CR_FAIL(CR_ERUNTIME, "%s: expected an int8 or uint8 and an int8 matrix, got %s and %s", op_name(r),
                       rt_dtype_name(a->dtype), rt_dtype_name(b->dtype));
    CR_TRY(cr_dim_require(r->env, a->size[1], CR_EQ, b->size[0],
                          "_int_mm: the columns of self must be as many as the rows of mat2"));
    return dtype_same(r);
}

cr_status shape_int_mm(cr_rule *r) {
    return cr_rule_add_dense(r, CR_I32, 2, (cr_dim[]){ cr_rule_meta(r, 0)->size[0], cr_rule_meta(r, 1)->size[1] });
}
