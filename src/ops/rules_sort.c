/* rules_sort.c: results of sorts, selections and scans along one dimension. */
#include "ops/rules.h"

static cr_status wrapped_dim(cr_rule *r, int *dim) {
    int i = cr__rule_param(r, "dim");
    return cr_wrap_dim(cr_rule_int(r, i), cr_rule_meta(r, 0)->rank, dim);
}

/* cumsum and the like: argument 0's sizes, dense. */
cr_status shape_scan(cr_rule *r) {
    int dim;
    const cr_meta *m = cr_rule_meta(r, 0);
    CR_TRY(wrapped_dim(r, &dim));
    return cr_rule_add_dense(r, r->result, m->rank, m->size);
}

/* grad, input, dim, output: all of one shape. */
cr_status shape_cumprod_backward(cr_rule *r) {
    const cr_meta *grad = cr_rule_meta(r, 0);
    for (int i = 1; i < 4; i += 2) {
        const cr_meta *m = cr_rule_meta(r, i);
        if (m->rank != grad->rank)
            return CR_FAIL(CR_ERUNTIME, "cumprod_backward: grad has %d dimensions, %s %d", grad->rank,
                           r->op->schema.params[i].name, m->rank);
        for (int d = 0; d < m->rank; d++)
            CR_TRY(cr_dim_require(r->env, m->size[d], CR_EQ, grad->size[d],
                                  "cumprod_backward: grad, input and output must have one shape"));
    }
    return shape_scan(r);
}

static cr_status add_like(cr_rule *r, int dtype, const cr_meta *m, cr_memory_format format) {
    cr_out *out = cr_rule_add(r);
    if (!out) return CR_ENOMEM;
    out->meta.dtype = (uint8_t)dtype;
    return cr_meta_set_dense(r->env, &out->meta, m->rank, m->size, format);
}

/* cummax, cummin: dense values and indices. */
cr_status shape_scan_index(cr_rule *r) {
    const cr_meta *m = cr_rule_meta(r, 0);
    int dim;
    CR_TRY(wrapped_dim(r, &dim));
    CR_TRY(add_like(r, r->result, m, CR_CONTIGUOUS));
    return add_like(r, CR_I64, m, CR_CONTIGUOUS);
}

/* sort: values and indices keep the strides of a dense input. */
cr_status shape_sort(cr_rule *r) {
    int dim;
    CR_TRY(wrapped_dim(r, &dim));
    CR_TRY(shape_like(r));
    CR_TRY(shape_like(r));
    r->out[1].meta.dtype = CR_I64;
    return CR_OK;
}

cr_status shape_topk(cr_rule *r) {
    const cr_meta *m = cr_rule_meta(r, 0);
    cr_dim size[CR_MAX_RANK], k = cr_rule_int(r, 1);
    int dim;
    CR_TRY(wrapped_dim(r, &dim));
    memcpy(size, m->size, m->rank * sizeof *size);
    CR_TRY(cr_dim_require(r->env, k, CR_GE, 0, "topk: k must not be negative"));
    CR_TRY(cr_dim_require(r->env, k, CR_LE, m->rank ? size[dim] : 1,
                          "topk: k is larger than the dimension; pass a smaller k"));
    if (m->rank) size[dim] = k;
    CR_TRY(cr_rule_add_dense(r, r->result, m->rank, size));
    return cr_rule_add_dense(r, CR_I64, m->rank, size);
}

/* median, mode, kthvalue: one of the elements along dim. */
cr_status shape_select_index(cr_rule *r) {
    const cr_meta *m = cr_rule_meta(r, 0);
    cr_dim size[CR_MAX_RANK];
    int dim, rank = 0;
    bool keepdim = cr_rule_bool(r, cr__rule_param(r, "keepdim")), empty = false;
    CR_TRY(wrapped_dim(r, &dim));
    if (m->rank) CR_TRY(cr_dim_assume(r->env, m->size[dim], CR_EQ, 0, false, &empty));
    if (empty)
        return CR_FAIL(CR_EINDEX, "%s: expected reduction dim %d to have non-zero size", r->op->schema.name, dim);
    int k = cr__rule_param(r, "k");
    if (k >= 0) {
        CR_TRY(cr_dim_require(r->env, cr_rule_int(r, k), CR_GE, 1, "kthvalue: k counts from 1"));
        CR_TRY(cr_dim_require(r->env, cr_rule_int(r, k), CR_LE, m->rank ? m->size[dim] : 1,
                              "kthvalue: k is larger than the dimension"));
    }
    for (int d = 0; d < m->rank; d++)
        if (d != dim || keepdim) size[rank++] = d == dim ? 1 : m->size[d];
    CR_TRY(cr_rule_add_dense(r, r->result, rank, size));
    return cr_rule_add_dense(r, CR_I64, rank, size);
}

/* searchsorted, bucketize: a position per value. The sequence has one row, or one for each row of the values. */
cr_status shape_search(cr_rule *r) {
    bool bucketize = cr__rule_param(r, "boundaries") >= 0;
    const char *name = r->op->schema.name;
    const cr_meta *rows = cr_rule_meta(r, bucketize), *values = cr_rule_meta(r, !bucketize);
    if (bucketize ? rows->rank != 1 : rows->rank < 1)
        return CR_FAIL(CR_ERUNTIME, "%s: expected a sequence of rank 1%s, found rank %d", name,
                       bucketize ? "" : " or more", rows->rank);
    if (rows->rank > 1) {
        if (rows->rank != values->rank)
            return CR_FAIL(CR_ERUNTIME,
                           "%s: the sequence has rank %d and the values %d; pass a 1-d sequence or equal ranks", name,
                           rows->rank, values->rank);
        for (int d = 0; d + 1 < rows->rank; d++)
            CR_TRY(cr_dim_require(r->env, rows->size[d], CR_EQ, values->size[d],
                                  "searchsorted: all dimensions of sequence and values but the last must match"));
    }
    int sorter = cr__rule_param(r, "sorter"), side = cr__rule_param(r, "side");
    if (sorter >= 0 && cr_rule_has(r, sorter)) {
        const cr_meta *order = cr_rule_meta(r, sorter);
        if (order->dtype != CR_I64) return CR_FAIL(CR_ERUNTIME, "%s: sorter must be an int64 tensor", name);
        if (order->rank != rows->rank) return CR_FAIL(CR_ERUNTIME, "%s: sorter must have the sequence's shape", name);
        for (int d = 0; d < rows->rank; d++)
            CR_TRY(cr_dim_require(r->env, order->size[d], CR_EQ, rows->size[d],
                                  "searchsorted: sorter must have the sequence's shape"));
    }
    if (side >= 0 && cr_rule_has(r, side)) {
        const char *text = r->arg[side].u.s;
        bool left = !strcmp(text, "left");
        if (!left && strcmp(text, "right"))
            return CR_FAIL(CR_ERUNTIME, "%s: side is 'left' or 'right', found '%s'", name, text);
        if (left && cr_rule_bool(r, cr__rule_param(r, "right")))
            return CR_FAIL(CR_ERUNTIME, "%s: side is 'left' but right is True; pass one of them", name);
    }
    return cr_rule_add_dense(r, cr_rule_bool(r, cr__rule_param(r, "out_int32")) ? CR_I32 : CR_I64, values->rank,
                             values->size);
}

/* unique: values, where each element went, how often each value occurs. Along a dim all three are always made. */
cr_status shape_unique(cr_rule *r) {
    const cr_meta *m = cr_rule_meta(r, 0);
    int at = cr__rule_param(r, "dim"), dim = -1;
    const cr_dim none = 0;
    cr_dim size[CR_MAX_RANK], numel = cr_meta_numel(r->env, m);
    bool empty;
    if (at >= 0 && cr_rule_has(r, at)) {
        if (!m->rank)
            return CR_FAIL(CR_EINDEX, "%s: dim is given, but the tensor has no dimensions", r->op->schema.name);
        CR_TRY(wrapped_dim(r, &dim));
        for (int d = 0; d < m->rank; d++) {
            if (d == dim) continue;
            CR_TRY(cr_dim_assume(r->env, m->size[d], CR_EQ, 0, false, &empty));
            if (empty)
                return CR_FAIL(CR_ERUNTIME, "%s: dimension %d has size 0, so slices along dim %d have no elements",
                               r->op->schema.name, d, dim);
        }
    }
    cr_range range = r->env && !r->count ? cr_sym_range(r->env, cr_dim_sym(r->env, dim >= 0 ? m->size[dim] : numel))
                                         : (cr_range){ 0, INT64_MAX };
    cr_dim count = cr_rule_count(r, 0, range.hi);
    if (dim < 0) {
        CR_TRY(cr_rule_add_dense(r, r->result, 1, &count));
        CR_TRY(cr_rule_bool(r, cr__rule_param(r, "return_inverse")) ? cr_rule_add_dense(r, CR_I64, m->rank, m->size)
                                                                    : cr_rule_add_dense(r, CR_I64, 1, &none));
        return cr_rule_add_dense(r, CR_I64, 1, cr_rule_bool(r, cr__rule_param(r, "return_counts")) ? &count : &none);
    }
    memcpy(size + 1, m->size, (size_t)dim * sizeof *size);
    for (int d = dim + 1; d < m->rank; d++) size[d] = m->size[d];
    size[0] = count; /* laid out slice by slice */
    CR_TRY(cr_rule_add_dense(r, r->result, m->rank, size));
    cr_meta *values = &r->out[0].meta;
    cr_dim stride = values->stride[0];
    for (int d = 0; d < dim; d++) values->size[d] = m->size[d], values->stride[d] = values->stride[d + 1];
    values->size[dim] = count;
    values->stride[dim] = stride;
    CR_TRY(cr_rule_add_dense(r, CR_I64, 1, &m->size[dim]));
    return cr_rule_add_dense(r, CR_I64, 1, &count);
}
