/* rules_bag.c: results of embedding bags, and what they and their derivatives refuse. */
#include "ops/rules.h"

static const char *op_name(const cr_rule *r) { return r->op->schema.name; }

/* Row numbers and where bags begin are int32 or int64; int32 counts give way to int64. */
static cr_status read_positions(cr_rule *r, int at, int *dtype) {
    *dtype = CR_I32;
    for (int i = at; i < at + 2; i++) {
        const cr_meta *m = cr_rule_meta(r, i);
        if (m->dtype != CR_I32 && m->dtype != CR_I64)
            return CR_FAIL(CR_ERUNTIME, "%s: %s must have dtype int32 or int64, got %s", op_name(r),
                           r->op->schema.params[i].name, rt_dtype_name(m->dtype));
        if (m->rank != 1)
            return CR_FAIL(CR_ERUNTIME, "%s: %s must have one dimension, got %d", op_name(r),
                           r->op->schema.params[i].name, m->rank);
        if (m->dtype == CR_I64) *dtype = CR_I64;
    }
    return CR_OK;
}

static cr_status check_weights(cr_rule *r, const cr_meta *weight, const cr_meta *each, cr_dim n, int64_t mode) {
    if (!each) return CR_OK;
    if (mode)
        return CR_FAIL(CR_ERUNTIME, "%s: per_sample_weights are for sums only (mode 0), not for mode %lld", op_name(r),
                       (long long)mode);
    if (each->dtype != weight->dtype)
        return CR_FAIL(CR_ERUNTIME, "%s: per_sample_weights must have dtype %s, got %s", op_name(r),
                       rt_dtype_name(weight->dtype), rt_dtype_name(each->dtype));
    if (each->rank != 1)
        return CR_FAIL(CR_ERUNTIME, "%s: per_sample_weights must have one dimension, got %d", op_name(r), each->rank);
    return cr_dim_require(r->env, each->size[0], CR_EQ, n, "embedding_bag: there must be a weight for each index");
}

static bool is_unit(cr_rule *r, cr_dim stride) { return cr_dim_known(r->env, stride, CR_EQ, 1) == CR_YES; }

/* weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights, include_last_offset, padding_idx */
cr_status shape_embedding_bag(cr_rule *r) {
    const cr_meta *weight = cr_rule_meta(r, 0), *indices = cr_rule_meta(r, 1), *offsets = cr_rule_meta(r, 2),
                  *each = cr_rule_meta(r, 6);
    int64_t mode = r->arg[4].u.i;
    bool last = cr_rule_bool(r, 7), forward_only = strstr(op_name(r), "forward_only");
    int kind;
    if (weight->rank != 2)
        return CR_FAIL(CR_ERUNTIME, "%s: weight must have two dimensions, got %d", op_name(r), weight->rank);
    if (weight->dtype != CR_F16 && weight->dtype != CR_BF16 && weight->dtype != CR_F32 && weight->dtype != CR_F64)
        return CR_FAIL(CR_ERUNTIME, "%s: weight must have a floating dtype, got %s", op_name(r),
                       rt_dtype_name(weight->dtype));
    CR_TRY(read_positions(r, 1, &kind));
    if (mode < 0 || mode > 2)
        return CR_FAIL(CR_ERUNTIME, "%s: mode must be 0 (sum), 1 (mean) or 2 (max), got %lld", op_name(r),
                       (long long)mode);
    CR_TRY(check_weights(r, weight, each, indices->size[0], mode));
    cr_dim bags = offsets->size[0];
    if (last) {
        CR_TRY(cr_dim_require(r->env, bags, CR_GE, 1,
                              "embedding_bag: with include_last_offset there must be at least one offset"));
        bags = cr_dim_sub(r->env, bags, 1);
    }
    /* Sums of narrow dtypes along straight memory do without offset2bag. */
    bool unpadded;
    CR_TRY(cr_dim_decide(r->env, cr_rule_int(r, 8), CR_LT, 0, &unpadded));
    bool fast = weight->dtype != CR_F64 && is_unit(r, weight->stride[1]) && unpadded &&
                (!each || is_unit(r, each->stride[0]));
    bool listed = mode || !fast;
    cr_dim counted = forward_only && !mode ? offsets->size[0] : bags, size[2] = { bags, weight->size[1] },
           largest[2] = { counted, weight->size[1] };
    CR_TRY(cr_rule_add_dense(r, weight->dtype, 2, size));
    cr_dim listed_size = listed ? indices->size[0] : 0;
    CR_TRY(cr_rule_add_dense(r, kind, 1, &listed_size));
    CR_TRY(cr_rule_add_dense(r, kind, 1, &counted));
    return cr_rule_add_dense(r, kind, mode == 2 ? 2 : 1, largest);
}

cr_status check_bag_padding(cr_rule *r) { /* ..., padding_idx */
    const cr_meta *weight = cr_rule_meta(r, 0);
    if (r->arg[8].kind != CR_ARG_NONE && weight->rank == 2) {
        CR_TRY(cr_dim_require(r->env, r->arg[8].u.i, CR_LT, weight->size[0],
                              "embedding_bag: padding_idx must be a row of the weight"));
        CR_TRY(cr_dim_require(r->env, cr_dim_add(r->env, r->arg[8].u.i, weight->size[0]), CR_GE, 0,
                              "embedding_bag: padding_idx must be a row of the weight"));
    }
    return dtype_same(r);
}

static cr_status refuse_integers(cr_rule *r) {
    const cr_meta *grad = cr_rule_meta(r, 0);
    if (!rt_is_float(grad->dtype))
        return CR_FAIL(CR_ERUNTIME, "%s: the gradient must have a floating dtype, got %s", op_name(r),
                       rt_dtype_name(grad->dtype));
    return dtype_same(r);
}

/* grad, indices, offsets, offset2bag, bag_size, maximum_indices, num_weights, scale_grad_by_freq, mode, sparse, ... */
cr_status check_bag_backward(cr_rule *r) {
    int kind;
    if (cr_rule_bool(r, 9))
        return CR_FAIL(CR_ENOTIMPL, "%s: sparse gradients are not supported; pass sparse=False", op_name(r));
    CR_TRY(read_positions(r, 1, &kind));
    return refuse_integers(r);
}

cr_status check_bag_dense_backward(cr_rule *r) { return refuse_integers(r); }

cr_status check_bag_weights_backward(cr_rule *r) { /* grad, weight, indices, offsets, offset2bag, mode, padding_idx */
    int kind;
    CR_TRY(read_positions(r, 2, &kind));
    if (r->arg[5].u.i)
        return CR_FAIL(CR_ERUNTIME, "%s: per_sample_weights are for sums only (mode 0), not for mode %lld", op_name(r),
                       (long long)r->arg[5].u.i);
    return refuse_integers(r);
}

static cr_status require_positions(cr_rule *r, int i) {
    const cr_meta *m = cr_rule_meta(r, i);
    if (m->dtype == CR_I32 || m->dtype == CR_I64) return CR_OK;
    return CR_FAIL(CR_ERUNTIME, "%s: %s must have dtype int32 or int64, got %s", op_name(r),
                   r->op->schema.params[i].name, rt_dtype_name(m->dtype));
}

/* grad, indices, offset2bag, bag_size, maximum_indices, num_weights, scale_grad_by_freq, mode, per_sample_weights, ...
 * Bags' sizes are looked at for means and maxima only. */
cr_status shape_bag_dense_backward(cr_rule *r) {
    const cr_meta *grad = cr_rule_meta(r, 0), *indices = cr_rule_meta(r, 1);
    int64_t mode = r->arg[7].u.i;
    CR_TRY(cr_rule_require_rank(r, 0, 2, 2));
    for (int i = 1; i <= 2 + (mode != 0) + (mode == 2); i++) CR_TRY(require_positions(r, i));
    CR_TRY(cr_rule_require_rank(r, 1, 1, 1));
    CR_TRY(cr_rule_require_sizes(r, 2, 1, indices->size));
    if (mode) CR_TRY(cr_rule_require_rank(r, 3, 1, 1));
    if (mode == 2) {
        CR_TRY(cr_rule_require_sizes(r, 3, 1, grad->size));
        CR_TRY(cr_rule_require_sizes(r, 4, 2, grad->size));
    }
    if (cr_rule_meta(r, 8)) CR_TRY(cr_rule_require_sizes(r, 8, 1, indices->size));
    CR_TRY(cr_dim_require(r->env, cr_rule_int(r, 5), CR_GE, 0, "_embedding_bag_dense_backward: num_weights"));
    return cr_rule_add_dense(r, r->result, 2, (cr_dim[]){ cr_rule_int(r, 5), grad->size[1] });
}

cr_status shape_bag_weights_backward(cr_rule *r) { /* grad, weight, indices, offsets, offset2bag, mode, padding_idx */
    const cr_meta *grad = cr_rule_meta(r, 0);
    for (int i = 0; i < 2; i++) CR_TRY(cr_rule_require_rank(r, i, 2, 2));
    CR_TRY(cr_rule_require_rank(r, 4, 1, 1));
    CR_TRY(require_positions(r, 4));
    CR_TRY(cr_dim_require(r->env, cr_rule_meta(r, 1)->size[1], CR_EQ, grad->size[1],
                          "embedding_bag: the gradient must be as wide as the weight"));
    return cr_rule_add_dense(r, r->result, 1, cr_rule_meta(r, 2)->size);
}

cr_status check_embedding_renorm(cr_rule *r) { /* self, indices, max_norm, norm_type */
    const cr_meta *self = cr_rule_meta(r, 0), *indices = cr_rule_meta(r, 1);
    if (self->rank != 2)
        return CR_FAIL(CR_ERUNTIME, "embedding_renorm: self must have two dimensions, got %d", self->rank);
    if (indices->dtype != CR_I32 && indices->dtype != CR_I64)
        return CR_FAIL(CR_ERUNTIME, "embedding_renorm: indices must have dtype int32 or int64, got %s",
                       rt_dtype_name(indices->dtype));
    return dtype_same(r);
}
