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
    CR_TRY(cr_dim_require(r->env, k, CR_LE, m->rank ? size[dim] : 1, "topk: k is larger than the dimension; pass a smaller k"));
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
    if (empty) return CR_FAIL(CR_EINDEX, "%s: expected reduction dim %d to have non-zero size", r->op->schema.name, dim);
    int k = cr__rule_param(r, "k");
    if (k >= 0) {
        CR_TRY(cr_dim_require(r->env, cr_rule_int(r, k), CR_GE, 1, "kthvalue: k counts from 1"));
        CR_TRY(cr_dim_require(r->env, cr_rule_int(r, k), CR_LE, m->rank ? m->size[dim] : 1, "kthvalue: k is larger than the dimension"));
    }
    for (int d = 0; d < m->rank; d++)
        if (d != dim || keepdim) size[rank++] = d == dim ? 1 : m->size[d];
    CR_TRY(cr_rule_add_dense(r, r->result, rank, size));
    return cr_rule_add_dense(r, CR_I64, rank, size);
}
