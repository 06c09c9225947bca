/* rules_fft.c: results of the core transforms. Transformed dims end up innermost in memory, in the order of their
 * strides, which is how PyTorch's library leaves them. */
#include "ops/rules.h"

static const char *op_name(const cr_rule *r) { return r->op->schema.name; }

static cr_status check_dtype(const cr_rule *r, const cr_meta *m, bool complex) {
    int wide = complex ? CR_C128 : CR_F64, narrow = complex ? CR_C64 : CR_F32;
    if (m->dtype == wide || m->dtype == narrow) return CR_OK;
    return CR_FAIL(CR_ERUNTIME, "%s: expected %s or %s, got %s; convert with .to(dtype)", op_name(r),
                   cr_dtype_name(narrow), cr_dtype_name(wide), cr_dtype_name(m->dtype));
}

/* The transformed dims in the order given; CR_ERUNTIME when one repeats. */
static cr_status read_dims(cr_rule *r, const cr_meta *m, int *dims, int *n) {
    const cr_arg *list = &r->arg[1];
    uint32_t seen = 0;
    *n = (int)list->n;
    if (*n > m->rank)
        return CR_FAIL(CR_ERUNTIME, "%s: %d dims to transform, but the tensor has %d", op_name(r), *n, m->rank);
    for (int i = 0; i < *n; i++) {
        CR_TRY(cr_wrap_dim(list->u.list[i].u.i, m->rank, &dims[i]));
        if (seen >> dims[i] & 1) return CR_FAIL(CR_ERUNTIME, "%s: dim %d appears more than once", op_name(r), dims[i]);
        seen |= 1u << dims[i];
        CR_TRY(cr_dim_require(r->env, m->size[dims[i]], CR_GE, 1, "size of a transformed dim"));
    }
    /* PyTorch's library has no plan for that */
    if (*n && cr_dim_known(r->env, cr_meta_numel(r->env, m), CR_EQ, 0) == CR_YES)
        return CR_FAIL(CR_ERUNTIME, "%s: there is nothing to transform; expected a batch that is not empty",
                       op_name(r));
    return CR_OK;
}

/* Largest stride first; equal or unknown ones keep their order. */
static void sort_by_stride(cr_rule *r, const cr_meta *m, int *dims, int n) {
    for (int i = 1; i < n; i++) {
        int d = dims[i], at = i;
        for (; at && cr_dim_known(r->env, m->stride[dims[at - 1]], CR_LT, m->stride[d]) == CR_YES; at--)
            dims[at] = dims[at - 1];
        dims[at] = d;
    }
}

static cr_status add_transformed(cr_rule *r, int dtype, const int *dims, int n, bool last_stays, int last,
                                 cr_dim last_size) {
    const cr_meta *m = cr_rule_meta(r, 0);
    int order[CR_MAX_RANK], count = 0;
    uint32_t transformed = 0;
    for (int i = 0; i < n; i++) transformed |= 1u << dims[i];
    for (int d = 0; d < m->rank; d++)
        if (!(transformed >> d & 1)) order[count++] = d;
    sort_by_stride(r, m, order, count);
    memcpy(order + count, dims, (size_t)n * sizeof *dims);
    sort_by_stride(r, m, order + count, n - last_stays);
    cr_out *out = cr_rule_add(r);
    if (!out) return CR_ENOMEM;
    out->meta.dtype = (uint8_t)dtype;
    out->meta.rank = m->rank;
    memcpy(out->meta.size, m->size, m->rank * sizeof *m->size);
    if (last >= 0) out->meta.size[last] = last_size;
    cr_strides_permuted(r->env, m->rank, out->meta.size, order, out->meta.stride);
    return CR_OK;
}

cr_status shape_fft_c2c(cr_rule *r) {
    const cr_meta *m = cr_rule_meta(r, 0);
    int dims[CR_MAX_RANK], n;
    CR_TRY(read_dims(r, m, dims, &n));
    if (n || m->dtype != CR_C32) CR_TRY(check_dtype(r, m, true));
    return n ? add_transformed(r, m->dtype, dims, n, false, -1, 0) : shape_like(r);
}

cr_status shape_fft_r2c(cr_rule *r) {
    const cr_meta *m = cr_rule_meta(r, 0);
    int dims[CR_MAX_RANK], n;
    CR_TRY(check_dtype(r, m, false));
    CR_TRY(read_dims(r, m, dims, &n));
    if (!n) return CR_FAIL(CR_ERUNTIME, "%s: at least one dim must be transformed", op_name(r));
    int last = dims[n - 1];
    cr_dim size = m->size[last];
    if (cr_rule_bool(r, 3)) size = cr_dim_add(r->env, cr_dim_floordiv(r->env, size, 2), 1);
    return add_transformed(r, cr_dtype_to_complex(m->dtype), dims, n, true, last, size);
}

cr_status shape_fft_c2r(cr_rule *r) {
    const cr_meta *m = cr_rule_meta(r, 0);
    int dims[CR_MAX_RANK], n;
    cr_dim size = cr_rule_int(r, 3);
    CR_TRY(check_dtype(r, m, true));
    CR_TRY(read_dims(r, m, dims, &n));
    if (!n) return CR_FAIL(CR_ERUNTIME, "%s: at least one dim must be transformed", op_name(r));
    int last = dims[n - 1];
    CR_TRY(cr_dim_require(r->env, size, CR_GE, 1, "last_dim_size"));
    CR_TRY(cr_dim_require(r->env, m->size[last], CR_EQ, cr_dim_add(r->env, cr_dim_floordiv(r->env, size, 2), 1),
                          "half of last_dim_size"));
    return add_transformed(r, cr_dtype_to_real(m->dtype), dims, n, true, last, size);
}

/* fftfreq, rfftfreq: dtype= must hold fractions, and arange has no complex kernel. */
cr_status check_fft_freq(cr_rule *r) {
    const cr_arg *dtype = &r->arg[cr__rule_param(r, "dtype")];
    if (r->arg[0].u.i < 0)
        return CR_FAIL(CR_ERUNTIME, "%s: n must not be negative, got %lld", op_name(r), (long long)r->arg[0].u.i);
    if (dtype->kind == CR_ARG_NONE || cr_dtype_is_floating((int)dtype->u.i)) return CR_OK;
    return CR_FAIL(cr_dtype_is_complex((int)dtype->u.i) ? CR_ENOTIMPL : CR_ERUNTIME,
                   "%s: dtype must be floating point, not %s", op_name(r), cr_dtype_name((int)dtype->u.i));
}

cr_status check_window(cr_rule *r) {
    const cr_arg *dtype = &r->arg[cr__rule_param(r, "dtype")];
    if (r->arg[0].u.i < 0)
        return CR_FAIL(CR_ERUNTIME, "%s: the length must not be negative, got %lld", op_name(r),
                       (long long)r->arg[0].u.i);
    if (dtype->kind == CR_ARG_NONE || cr_dtype_is_floating((int)dtype->u.i)) return CR_OK;
    if (cr_dtype_is_complex((int)dtype->u.i) && r->arg[0].u.i <= 1) return CR_OK;
    return CR_FAIL(CR_ERUNTIME, "%s: dtype must be floating point, not %s", op_name(r), cr_dtype_name((int)dtype->u.i));
}
