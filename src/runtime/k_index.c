/* k_index.c: advanced indexing, selection and masks. Along-one-dimension gathers and scatters are in k_gather.c. */
#include "runtime/kernels.h"
#include "runtime/rt_index.h"

#include <string.h>

/* Values in self's dtype, broadcast to the plan's result shape. */
static int prepare_values(const rt_ctx *ctx, const rt_index_plan *plan, const rt_view *values, int dtype, rt_view *out,
                          void **scratch) {
    int64_t size[RT_MAX_RANK];
    int rank = rt_index_shape(plan, size);
    rt_view cast = *values;
    *scratch = NULL;
    if (values->dtype != dtype) {
        int code = rt_contiguous(ctx, values, dtype, &cast, scratch);
        if (code) return code;
    }
    rt_view v = cast;
    while (v.rank > rank && v.size[0] == 1) { /* PyTorch drops leading ones of the values */
        memmove(v.size, v.size + 1, (size_t)(v.rank - 1) * sizeof *v.size);
        memmove(v.stride, v.stride + 1, (size_t)(v.rank - 1) * sizeof *v.stride);
        v.rank--;
    }
    return rt_broadcast_to(ctx, &v, rank, size, out);
}

int rt_k_index(const rt_ctx *ctx, const rt_call *c) { /* self, indices */
    const rt_arg *indices = &c->arg[1];
    if (c->phase == RT_COUNT) {
        int at = 0;
        for (uint32_t i = 0; i < indices->n && at < RT_MAX_RANK; i++) {
            const rt_view *v = indices->u.views[i];
            if (v && (v->dtype == RT_BOOL || v->dtype == RT_U8)) c->count[at++] = rt_count_true(v);
        }
        return RT_OK;
    }
    rt_index_plan plan;
    int code = rt_index_open(&plan, ctx, rt_arg_view(c, 0), indices->u.views, (int)indices->n);
    if (!code) code = rt_index_run(&plan, rt_arg_view(c, 0), &c->out[0], RT_INDEX_READ);
    rt_index_close(&plan);
    return code;
}

static int put(const rt_ctx *ctx, const rt_view *self, const rt_view *const *indices, int n, const rt_view *values,
               bool accumulate) {
    rt_index_plan plan;
    rt_view broadcast;
    void *scratch = NULL;
    int code = rt_index_open(&plan, ctx, self, indices, n);
    if (!code) code = prepare_values(ctx, &plan, values, self->dtype, &broadcast, &scratch);
    if (!code) code = rt_index_run(&plan, self, &broadcast, accumulate ? RT_INDEX_ADD : RT_INDEX_WRITE);
    rt_scratch_free(ctx, scratch);
    rt_index_close(&plan);
    return code;
}

int rt_k_index_put(const rt_ctx *ctx, const rt_call *c) { /* self (as out[0]), indices, values, accumulate */
    return put(ctx, &c->out[0], c->arg[1].u.views, (int)c->arg[1].n, rt_arg_view(c, 2), rt_arg_int(c, 3));
}

/* One index tensor for dimension `dim`. A 0-d index counts as one element. */
static int along(const rt_ctx *ctx, const rt_view *self, int dim, const rt_view *index, const rt_view *values,
                 int mode) {
    const rt_view *indices[RT_MAX_RANK] = { NULL };
    rt_view flat = *index, whole = *self, vals = *values;
    if (!flat.rank) flat.rank = 1, flat.size[0] = 1, flat.stride[0] = 1;
    if (!whole.rank) whole.rank = 1, whole.size[0] = 1, whole.stride[0] = 1;
    if (!vals.rank) vals.rank = 1, vals.size[0] = 1, vals.stride[0] = 1;
    for (int64_t i = 0; i < flat.size[0]; i++) { /* these ops do not wrap negative indices */
        int64_t at = flat.dtype == RT_I64 ? ((const int64_t *)flat.p)[i * flat.stride[0]]
                                          : ((const int32_t *)flat.p)[i * flat.stride[0]];
        if (at < 0 || at >= whole.size[dim])
            return rt_fail(ctx, RT_EINDEX, "index %lld is out of range for dimension %d with size %lld", (long long)at,
                           dim, (long long)whole.size[dim]);
    }
    indices[dim] = &flat;
    if (mode == RT_INDEX_READ) {
        rt_index_plan plan;
        int code = rt_index_open(&plan, ctx, &whole, indices, dim + 1);
        if (!code) code = rt_index_run(&plan, &whole, &vals, mode);
        rt_index_close(&plan);
        return code;
    }
    return put(ctx, &whole, indices, dim + 1, &vals, mode == RT_INDEX_ADD);
}

int rt_k_index_select(const rt_ctx *ctx, const rt_call *c) { /* self, dim, index */
    const rt_view *self = rt_arg_view(c, 0);
    return along(ctx, self, rt_arg_dim(c, 1, self->rank), rt_arg_view(c, 2), &c->out[0], RT_INDEX_READ);
}
int rt_k_index_copy(const rt_ctx *ctx, const rt_call *c) { /* self, dim, index, source */
    return along(ctx, &c->out[0], rt_arg_dim(c, 1, c->out[0].rank), rt_arg_view(c, 2), rt_arg_view(c, 3),
                 RT_INDEX_WRITE);
}

int rt_k_index_add(const rt_ctx *ctx, const rt_call *c) { /* self, dim, index, source, alpha */
    const rt_view *source = rt_arg_view(c, 3);
    rt_scalar alpha = rt_arg_scalar(c, 4);
    bool one = (alpha.kind == RT_ARG_INT && alpha.i == 1) || (alpha.kind == RT_ARG_FLOAT && alpha.f == 1);
    rt_view scaled = *source;
    void *scratch = NULL;
    int code = RT_OK;
    if (!one) {
        int wide = rt_is_complex(source->dtype) ? RT_C128 : rt_is_float(source->dtype) ? RT_F64 : RT_I64;
        int64_t n = rt_numel(source);
        scratch = rt_scratch(ctx, (size_t)(n * rt_itemsize(wide)));
        if (!scratch) return RT_ENOMEM;
        scaled = rt_view_contiguous(scratch, wide, source->rank, source->size);
        code = rt_copy(ctx, &scaled, source);
        for (int64_t i = 0; i < n && !code; i++) {
            if (wide == RT_F64) ((double *)scratch)[i] *= alpha.kind == RT_ARG_INT ? (double)alpha.i : alpha.f;
            else if (wide == RT_I64)
                ((uint64_t *)scratch)[i] *= (uint64_t)(alpha.kind == RT_ARG_INT ? alpha.i : (int64_t)alpha.f);
            else {
                double _Complex a = alpha.kind == RT_ARG_INT ? (double)alpha.i : alpha.f;
                __imag__ a = alpha.im;
                ((double _Complex *)scratch)[i] *= a;
            }
        }
    }
    if (!code)
        code = along(ctx, &c->out[0], rt_arg_dim(c, 1, c->out[0].rank), rt_arg_view(c, 2), &scaled, RT_INDEX_ADD);
    rt_scratch_free(ctx, scratch);
    return code;
}

static int index_fill(const rt_ctx *ctx, const rt_call *c, const rt_view *value) {
    const rt_view *self = &c->out[0];
    int dim = rt_arg_dim(c, 1, self->rank);
    const rt_view *indices[RT_MAX_RANK] = { NULL };
    rt_view index = *rt_arg_view(c, 2), whole = *self;
    if (!index.rank) index.rank = 1, index.size[0] = 1, index.stride[0] = 1;
    if (!whole.rank) whole.rank = 1, whole.size[0] = 1, whole.stride[0] = 1;
    indices[dim] = &index;
    return put(ctx, &whole, indices, dim + 1, value, false);
}
int rt_k_index_fill_tensor(const rt_ctx *ctx, const rt_call *c) { return index_fill(ctx, c, rt_arg_view(c, 3)); }
int rt_k_index_fill_scalar(const rt_ctx *ctx, const rt_call *c) { /* self, dim, index, value */
    double storage[2];
    rt_view value = rt_view_contiguous(storage, c->out[0].dtype, 0, NULL);
    int code = rt_fill_number(ctx, &value, rt_arg_scalar(c, 3));
    return code ? code : index_fill(ctx, c, &value);
}

int rt_k_embedding(const rt_ctx *ctx, const rt_call *c) { /* weight, indices, padding_idx, scale_grad_by_freq, sparse */
    const rt_view *indices = rt_arg_view(c, 1);
    rt_index_plan plan;
    int code = rt_index_open(&plan, ctx, rt_arg_view(c, 0), &indices, 1);
    if (!code) code = rt_index_run(&plan, rt_arg_view(c, 0), &c->out[0], RT_INDEX_READ);
    rt_index_close(&plan);
    return code;
}

/* sums[row] += scale * grad, in the wide class of the dtype */
static void add_row(int wide, void *sums, const void *grad, int64_t width, double scale) {
    if (wide == RT_F64)
        for (int64_t k = 0; k < width; k++) ((double *)sums)[k] += ((const double *)grad)[k] * scale;
    else if (wide == RT_C128)
        for (int64_t k = 0; k < width; k++) ((double _Complex *)sums)[k] += ((const double _Complex *)grad)[k] * scale;
    else
        for (int64_t k = 0; k < width; k++)
            ((uint64_t *)sums)[k] += (uint64_t)(int64_t)((double)((const int64_t *)grad)[k] * scale);
}

/* grad_output, indices, num_weights, padding_idx, scale_grad_by_freq */
int rt_k_embedding_backward(const rt_ctx *ctx, const rt_call *c) {
    const rt_view *out = &c->out[0];
    int64_t rows = out->size[0], width = out->size[1], padding = rt_arg_int(c, 3);
    int wide = rt_is_complex(out->dtype) ? RT_C128 : rt_is_float(out->dtype) ? RT_F64 : RT_I64;
    int64_t item = rt_itemsize(wide);
    rt_view grad, index;
    void *grad_scratch = NULL, *index_scratch = NULL;
    char *sums = NULL;
    int64_t *counts = NULL;
    int code = rt_contiguous(ctx, rt_arg_view(c, 0), wide, &grad, &grad_scratch);
    if (!code) code = rt_contiguous(ctx, rt_arg_view(c, 1), RT_I64, &index, &index_scratch);
    if (!code) {
        sums = rt_scratch(ctx, (size_t)(rows * width * item));
        counts = rt_scratch(ctx, (size_t)rows * sizeof *counts);
        if (!sums || !counts) code = RT_ENOMEM;
    }
    if (!code) {
        int64_t n = rt_numel(&index);
        const int64_t *at = index.p;
        memset(sums, 0, (size_t)(rows * width * item));
        memset(counts, 0, (size_t)rows * sizeof *counts);
        for (int64_t i = 0; i < n && !code; i++) {
            if (at[i] < 0 || at[i] >= rows)
                code = rt_fail(ctx, RT_EINDEX, "index %lld is out of range for %lld rows", (long long)at[i],
                               (long long)rows);
            else counts[at[i]]++;
        }
        for (int64_t i = 0; i < n && !code; i++)
            if (at[i] != padding)
                add_row(wide, sums + at[i] * width * item, (const char *)grad.p + i * width * item, width,
                        rt_arg_int(c, 4) ? 1.0 / (double)counts[at[i]] : 1.0);
    }
    if (!code) {
        rt_view from = rt_view_contiguous(sums, wide, 2, out->size);
        code = rt_copy(ctx, out, &from);
    }
    rt_scratch_free(ctx, counts);
    rt_scratch_free(ctx, sums);
    rt_scratch_free(ctx, index_scratch);
    rt_scratch_free(ctx, grad_scratch);
    return code;
}

/* ---- masks ---- */

int rt_k_nonzero(const rt_ctx *ctx, const rt_call *c) { /* self */
    const rt_view *self = rt_arg_view(c, 0);
    if (c->phase == RT_COUNT) {
        c->count[0] = rt_count_true(self);
        return RT_OK;
    }
    const rt_view *out = &c->out[0];
    int64_t *rows = rt_scratch(ctx, (size_t)(rt_numel(out) + 1) * sizeof *rows);
    if (!rows) return RT_ENOMEM;
    rt_nonzero(ctx, self, rows);
    rt_view from = rt_view_contiguous(rows, RT_I64, 2, out->size);
    int code = rt_copy(ctx, out, &from);
    rt_scratch_free(ctx, rows);
    return code;
}

int rt_k_nonzero_static(const rt_ctx *ctx, const rt_call *c) { /* self, size, fill_value */
    const rt_view *self = rt_arg_view(c, 0), *out = &c->out[0];
    int64_t found = rt_count_true(self), size = out->size[0], rank = self->rank, fill = rt_arg_int(c, 2);
    int64_t n = found > size ? found : size;
    int64_t *rows = rt_scratch(ctx, (size_t)(n * rank + 1) * sizeof *rows);
    if (!rows) return RT_ENOMEM;
    rt_nonzero(ctx, self, rows);
    for (int64_t i = found * rank; i < size * rank; i++) rows[i] = fill;
    rt_view from = rt_view_contiguous(rows, RT_I64, 2, out->size);
    int code = rt_copy(ctx, out, &from);
    rt_scratch_free(ctx, rows);
    return code;
}

/* self and mask broadcast together; the chosen elements in row-major order. */
static int common_shape(const rt_ctx *ctx, const rt_view *a, const rt_view *b, rt_view *wide_a, rt_view *wide_b) {
    int rank = a->rank > b->rank ? a->rank : b->rank;
    int64_t size[RT_MAX_RANK];
    for (int d = 0; d < rank; d++) {
        int i = d - (rank - a->rank), j = d - (rank - b->rank);
        int64_t m = i < 0 ? 1 : a->size[i], n = j < 0 ? 1 : b->size[j];
        size[d] = m == 1 ? n : m;
    }
    int code = rt_broadcast_to(ctx, a, rank, size, wide_a);
    return code ? code : rt_broadcast_to(ctx, b, rank, size, wide_b);
}

int rt_k_masked_select(const rt_ctx *ctx, const rt_call *c) { /* self, mask */
    rt_view self, mask;
    int code = common_shape(ctx, rt_arg_view(c, 0), rt_arg_view(c, 1), &self, &mask);
    if (code) return code;
    if (c->phase == RT_COUNT) {
        c->count[0] = rt_count_true(&mask);
        return RT_OK;
    }
    if (!self.rank)
        return c->out[0].size[0] ? rt_copy(ctx, &(rt_view){ .p = c->out[0].p, .dtype = c->out[0].dtype }, &self)
                                 : RT_OK;
    rt_index_plan plan;
    const rt_view *indices = &mask;
    code = rt_index_open(&plan, ctx, &self, &indices, 1);
    if (!code) code = rt_index_run(&plan, &self, &c->out[0], RT_INDEX_READ);
    rt_index_close(&plan);
    return code;
}

int rt_k_masked_scatter(const rt_ctx *ctx, const rt_call *c) { /* self (as out[0]), mask, source */
    const rt_view *self = &c->out[0];
    rt_view mask, source, flat = *self;
    int code = rt_broadcast_to(ctx, rt_arg_view(c, 1), self->rank, self->size, &mask);
    if (code) return code;
    int64_t count = rt_count_true(&mask);
    void *scratch = NULL;
    if (rt_numel(rt_arg_view(c, 2)) < count)
        return rt_fail(ctx, RT_ERUNTIME, "the mask chooses %lld elements but source has only %lld", (long long)count,
                       (long long)rt_numel(rt_arg_view(c, 2)));
    code = rt_contiguous(ctx, rt_arg_view(c, 2), self->dtype, &source, &scratch);
    if (code) return code;
    source.rank = 1;
    source.size[0] = count;
    source.stride[0] = 1;
    if (!self->rank) {
        if (count) memcpy(self->p, source.p, (size_t)rt_itemsize(self->dtype));
    } else {
        rt_index_plan plan;
        const rt_view *indices = &mask;
        code = rt_index_open(&plan, ctx, &flat, &indices, 1);
        if (!code) code = rt_index_run(&plan, &flat, &source, RT_INDEX_WRITE);
        rt_index_close(&plan);
    }
    rt_scratch_free(ctx, scratch);
    return code;
}
