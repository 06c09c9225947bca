/* rt_reduce.c: rows out of any strided input, one result a row. See rt_reduce.h. */
#include "runtime/rt_reduce.h"

#include <string.h>

int rt_compute_dtype(int dtype) {
    if (dtype == RT_F64 || dtype == RT_C64 || dtype == RT_C128 || dtype == RT_U64) return dtype;
    if (dtype == RT_C32) return RT_C64;
    return rt_is_float(dtype) ? RT_F32 : RT_I64;
}

uint32_t rt_arg_dims(const rt_call *c, int i, int rank) {
    uint32_t all = rank ? (uint32_t)((1ull << rank) - 1) : 1u, mask = 0;
    if (i < 0 || c->arg[i].kind == RT_ARG_NONE) return all;
    if (c->arg[i].kind == RT_ARG_INT) return 1u << rt_arg_dim(c, i, rank);
    for (uint32_t k = 0; k < c->arg[i].n; k++) {
        int64_t d = c->arg[i].u.ints[k];
        mask |= 1u << (d < 0 ? d + (rank ? rank : 1) : d);
    }
    return c->arg[i].n ? mask : all;
}

#define PAIRWISE(name, T)                                                                                              \
    T name(const T *x, int64_t n) {                                                                                    \
        if (n > 256) {                                                                                                 \
            int64_t half = n / 2 / 128 * 128;                                                                          \
            return name(x, half) + name(x + half, n - half);                                                           \
        }                                                                                                              \
        T lane[16] = { 0 }, total = 0;                                                                                 \
        int64_t i = 0;                                                                                                 \
        for (; i + 16 <= n; i += 16)                                                                                   \
            for (int k = 0; k < 16; k++) lane[k] += x[i + k];                                                          \
        for (; i < n; i++) total += x[i];                                                                              \
        for (int step = 8; step; step /= 2)                                                                            \
            for (int k = 0; k < step; k++) lane[k] += lane[k + step];                                                  \
        return lane[0] + total;                                                                                        \
    }
PAIRWISE(rt_sum_f32, float)
PAIRWISE(rt_sum_f64, double)

rt_view rt_view_last(const rt_view *v, int dim) {
    rt_view out = *v;
    for (int d = dim; d + 1 < v->rank; d++) {
        out.size[d] = v->size[d + 1];
        out.stride[d] = v->stride[d + 1];
    }
    if (v->rank) {
        out.size[v->rank - 1] = v->size[dim];
        out.stride[v->rank - 1] = v->stride[dim];
    }
    return out;
}

typedef struct work {
    const rt_reduction *r;
    const char *rows;
    char *out;
    int64_t *index;
    int64_t n, in_bytes, out_bytes;
} work;

static int run_rows(void *arg, int64_t begin, int64_t end) {
    const work *w = arg;
    for (int64_t i = begin; i < end; i++)
        w->r->row(w->rows + i * w->n * w->in_bytes, w->n, w->out + i * w->out_bytes, w->index ? w->index + i : NULL, w->r->param);
    return RT_OK;
}

/* Kept dimensions first, reduced ones last. */
static rt_view reorder(const rt_view *in, uint32_t mask, int64_t *rows, int64_t *n) {
    rt_view v = *in;
    int at = 0;
    *rows = *n = 1;
    for (int pass = 0; pass < 2; pass++)
        for (int d = 0; d < in->rank; d++) {
            if ((int)(mask >> d & 1) != pass) continue;
            v.size[at] = in->size[d];
            v.stride[at++] = in->stride[d];
            *(pass ? n : rows) *= in->size[d];
        }
    return v;
}

/* Where to write `rows` results of `dtype`: straight into the output when it allows, else into scratch. */
static int open_result(const rt_ctx *ctx, const rt_view *out, int dtype, int64_t rows, void **p, void **scratch) {
    *scratch = NULL;
    if (out && out->dtype == dtype && rt_is_contiguous(out)) {
        *p = out->p;
        return RT_OK;
    }
    *p = *scratch = rt_scratch(ctx, (size_t)(rows * rt_itemsize(dtype)));
    return *p ? RT_OK : RT_ENOMEM;
}

static int close_result(const rt_ctx *ctx, const rt_view *out, int dtype, void *scratch) {
    if (!scratch) return RT_OK;
    int code = RT_OK;
    if (out) {
        rt_view from = rt_view_contiguous(scratch, dtype, out->rank, out->size);
        code = rt_copy(ctx, out, &from);
    }
    rt_scratch_free(ctx, scratch);
    return code;
}

int rt_reduce(const rt_ctx *ctx, const rt_view *in, uint32_t mask, const rt_reduction *r) {
    work w = { .r = r, .in_bytes = rt_itemsize(r->compute), .out_bytes = rt_itemsize(r->result) };
    int64_t rows;
    rt_view ordered = reorder(in, mask, &rows, &w.n), flat;
    if (!rows) return RT_OK;
    void *in_scratch = NULL, *out_scratch = NULL, *index_scratch = NULL, *out = NULL, *index = NULL;
    int code = rt_contiguous(ctx, &ordered, r->compute, &flat, &in_scratch);
    if (!code) code = open_result(ctx, r->out, r->result, rows, &out, &out_scratch);
    if (!code && r->index) code = open_result(ctx, r->index, RT_I64, rows, &index, &index_scratch);
    if (!code) {
        w.rows = flat.p;
        w.out = out;
        w.index = index;
        code = rt_parallel_for(ctx, rows, 1 + 32768 / (w.n + 1), run_rows, &w);
    }
    if (!code) code = close_result(ctx, r->out, r->result, out_scratch), out_scratch = NULL;
    if (!code && r->index) code = close_result(ctx, r->index, RT_I64, index_scratch), index_scratch = NULL;
    rt_scratch_free(ctx, out_scratch);
    rt_scratch_free(ctx, index_scratch);
    rt_scratch_free(ctx, in_scratch);
    return code;
}
