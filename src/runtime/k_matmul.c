/* k_matmul.c: the ops that are one matrix product: mm, bmm, addmm, baddbmm, mv, addmv, dot, vdot, linear.
 *
 * Each only says where the factors, the addend and the result lie; strides cost nothing, so views such as a transposed
 * weight are never copied. */
#include "runtime/gemm.h"
#include "runtime/kernels.h"

#include <string.h>

/* The product of views [.., m, k] and [.., k, n] of equal rank 2 or 3 into out. */
static rt_gemm_args product_of(const rt_view *a, const rt_view *b, const rt_view *out) {
    int r = a->rank - 2, s = b->rank - 2, t = out->rank - 2;
    rt_gemm_args g = rt_gemm_plain(out->dtype, a->size[r], b->size[s + 1], a->size[r + 1], a->p, b->p, out->p);
    g.a_row = a->stride[r], g.a_col = a->stride[r + 1];
    g.b_row = b->stride[s], g.b_col = b->stride[s + 1];
    g.c_row = out->stride[t], g.c_col = out->stride[t + 1];
    if (r == 1) {
        g.batch = out->size[0];
        g.a_batch = a->stride[0];
        g.b_batch = b->stride[0];
        g.c_batch = out->stride[0];
    }
    return g;
}

/* Step of `v`, broadcast to `out`, along out's dimension d. */
static int64_t broadcast_stride(const rt_view *v, const rt_view *out, int d) {
    int at = d - (out->rank - v->rank);
    return at < 0 || v->size[at] == 1 ? 0 : v->stride[at];
}

static void add(rt_gemm_args *g, const rt_view *addend, const rt_view *out, rt_scalar beta, rt_scalar alpha) {
    int r = out->rank;
    g->d = addend->p;
    g->d_row = broadcast_stride(addend, out, r - 2);
    g->d_col = broadcast_stride(addend, out, r - 1);
    if (r == 3) g->d_batch = broadcast_stride(addend, out, 0);
    g->alpha = alpha;
    g->beta = beta;
}

/* mm(self, mat2), bmm(self, mat2) */
RT_KERNEL(rt_k_mm) {
    rt_gemm_args g = product_of(rt_arg_view(c, 0), rt_arg_view(c, 1), &c->out[0]);
    return rt_gemm(ctx, &g);
}
RT_KERNEL(rt_k_bmm) { return rt_k_mm(ctx, c); }

/* Rows `from` to `to` of a matrix. */
static rt_view rows_of(const rt_view *v, int64_t from, int64_t to) {
    rt_view rows = *v;
    rows.size[0] = to - from;
    if (rows.p) rows.p = (char *)rows.p + from * v->stride[0] * rt_itemsize(v->dtype);
    return rows;
}

static int64_t offset_at(const rt_view *offs, int64_t i) {
    const char *at = (const char *)offs->p + i * offs->stride[0] * rt_itemsize(offs->dtype);
    int32_t narrow;
    int64_t wide;
    if (offs->dtype == RT_I32) return memcpy(&narrow, at, sizeof narrow), narrow;
    return memcpy(&wide, at, sizeof wide), wide;
}

/* grouped_mm_fallback(input, weight, offs): the rows up to offs[i] that no group before had are multiplied by
 * weight[i]; those after the last are 0. */
RT_KERNEL(rt_k_grouped_mm) {
    const rt_view *input = rt_arg_view(c, 0), *weight = rt_arg_view(c, 1), *offs = rt_arg_view(c, 2), *out = &c->out[0];
    int64_t start = 0;
    int code = rt_fill(ctx, out, (rt_scalar){ .kind = RT_ARG_INT });
    for (int64_t i = 0; i < weight->size[0] && !code; i++) {
        int64_t end = offset_at(offs, i);
        if (end < 0 || end > input->size[0])
            return rt_fail(ctx, RT_EINDEX, "grouped_mm_fallback: offs[%lld] is %lld, and there are %lld rows",
                           (long long)i, (long long)end, (long long)input->size[0]);
        if (end > start) {
            rt_view matrix = { .p = weight->p,
                               .dtype = weight->dtype,
                               .rank = 2,
                               .size = { weight->size[1], weight->size[2] },
                               .stride = { weight->stride[1], weight->stride[2] } };
            if (matrix.p) matrix.p = (char *)matrix.p + i * weight->stride[0] * rt_itemsize(weight->dtype);
            rt_view rows = rows_of(input, start, end), result = rows_of(out, start, end);
            rt_gemm_args g = product_of(&rows, &matrix, &result);
            code = rt_gemm(ctx, &g);
        }
        start = end;
    }
    return code;
}

/* Positions `from` to `to` along a dimension, and one matrix of a stack. */
static rt_view part_of(const rt_view *v, int dim, int64_t from, int64_t to) {
    rt_view part = *v;
    part.size[dim] = to - from;
    if (part.p) part.p = (char *)part.p + from * v->stride[dim] * rt_itemsize(v->dtype);
    return part;
}
static rt_view matrix_of(const rt_view *v, int64_t i) {
    if (v->rank == 2) return *v;
    rt_view matrix = { .p = v->p, .dtype = v->dtype, .rank = 2, .size = { v->size[1], v->size[2] },
                       .stride = { v->stride[1], v->stride[2] } };
    if (matrix.p) matrix.p = (char *)matrix.p + i * v->stride[0] * rt_itemsize(v->dtype);
    return matrix;
}

/* grouped_mm(self, mat2, offs): what no group has is 0. */
RT_KERNEL(rt_k_groups) {
    const rt_view *a = rt_arg_view(c, 0), *b = rt_arg_view(c, 1), *out = &c->out[0];
    if (a->rank == 3 && b->rank == 3) return rt_k_mm(ctx, c);
    const rt_view *offs = rt_arg_view(c, 2);
    int64_t start = 0, most = a->rank == 3 ? b->size[1] : b->rank == 3 ? a->size[0] : a->size[1];
    int code = rt_fill(ctx, out, (rt_scalar){ .kind = RT_ARG_INT });
    for (int64_t i = 0; i < offs->size[0] && !code; i++) {
        int64_t end = offset_at(offs, i);
        if (end < 0 || end > most)
            return rt_fail(ctx, RT_ERUNTIME, "grouped_mm: offs[%lld] is %lld, and there are %lld to divide",
                           (long long)i, (long long)end, (long long)most);
        if (end > start) {
            rt_view left = matrix_of(a, i), right = matrix_of(b, i), result = matrix_of(out, i);
            if (a->rank == 3) right = part_of(b, 1, start, end), result = part_of(out, 1, start, end);
            else if (b->rank == 3) left = part_of(a, 0, start, end), result = part_of(out, 0, start, end);
            else left = part_of(a, 1, start, end), right = part_of(b, 0, start, end);
            rt_gemm_args g = product_of(&left, &right, &result);
            code = rt_gemm(ctx, &g);
        }
        start = end;
    }
    return code;
}

/* addmm(self, mat1, mat2, *, beta, alpha), baddbmm(self, batch1, batch2, *, beta, alpha) */
RT_KERNEL(rt_k_addmm) {
    rt_gemm_args g = product_of(rt_arg_view(c, 1), rt_arg_view(c, 2), &c->out[0]);
    add(&g, rt_arg_view(c, 0), &c->out[0], rt_arg_scalar(c, 3), rt_arg_scalar(c, 4));
    return rt_gemm(ctx, &g);
}
RT_KERNEL(rt_k_baddbmm) { return rt_k_addmm(ctx, c); }

/* A vector [n] as a matrix of one column. */
static rt_view as_column(const rt_view *v) {
    rt_view column = *v;
    column.rank = 2;
    if (v->rank == 0) column.size[0] = 1, column.stride[0] = 0; /* addmv's self may be one number */
    column.size[1] = 1;
    column.stride[1] = 1;
    return column;
}

/* mv(self, vec) */
RT_KERNEL(rt_k_mv) {
    rt_view vec = as_column(rt_arg_view(c, 1)), out = as_column(&c->out[0]);
    rt_gemm_args g = product_of(rt_arg_view(c, 0), &vec, &out);
    return rt_gemm(ctx, &g);
}

/* addmv(self, mat, vec, *, beta, alpha) */
RT_KERNEL(rt_k_addmv) {
    rt_view self = as_column(rt_arg_view(c, 0)), vec = as_column(rt_arg_view(c, 2)), out = as_column(&c->out[0]);
    rt_gemm_args g = product_of(rt_arg_view(c, 1), &vec, &out);
    add(&g, &self, &out, rt_arg_scalar(c, 3), rt_arg_scalar(c, 4));
    return rt_gemm(ctx, &g);
}

/* ---- dot ---- */

enum { DOT_CHUNK = 32 * 1024 };

/* A long dot product is a batch of chunks, so that threads can share it; their sums are added in order. */
static int dot_of(const rt_ctx *ctx, const rt_view *x, const rt_view *y, const rt_view *out) {
    int64_t n = x->size[0], chunks = n / DOT_CHUNK;
    rt_gemm_args g = rt_gemm_plain(out->dtype, 1, 1, n, x->p, y->p, out->p);
    g.a_col = x->stride[0];
    g.b_row = y->stride[0];
    if ((out->dtype != RT_F32 && out->dtype != RT_F64) || chunks < 2) return rt_gemm(ctx, &g);

    int64_t item = rt_itemsize(out->dtype);
    char *sums = rt_scratch(ctx, (size_t)((chunks + 1) * item));
    if (!sums) return rt_fail(ctx, RT_ENOMEM, "out of memory for the partial sums of dot");
    g.c = sums;
    g.k = DOT_CHUNK;
    g.batch = chunks;
    g.a_batch = DOT_CHUNK * g.a_col;
    g.b_batch = DOT_CHUNK * g.b_row;
    g.c_batch = 1;
    int code = rt_gemm(ctx, &g);
    if (!code) {
        g.a = (const char *)x->p + chunks * g.a_batch * item;
        g.b = (const char *)y->p + chunks * g.b_batch * item;
        g.c = sums + chunks * item;
        g.k = n - chunks * DOT_CHUNK;
        g.batch = 1;
        code = rt_gemm(ctx, &g);
    }
    double total = 0;
    for (int64_t i = 0; i <= chunks && !code; i++)
        total += out->dtype == RT_F32 ? (double)((float *)(void *)sums)[i] : ((double *)(void *)sums)[i];
    if (!code) rt_convert(out->dtype, out->p, 1, RT_F64, &total, 1, 1);
    rt_scratch_free(ctx, sums);
    return code;
}

/* dot(self, tensor) */
RT_KERNEL(rt_k_dot) { return dot_of(ctx, rt_arg_view(c, 0), rt_arg_view(c, 1), &c->out[0]); }

/* vdot(self, other): dot with self conjugated, which is a copy of it with the other sign on the imaginary parts. */
RT_KERNEL(rt_k_vdot) {
    const rt_view *x = rt_arg_view(c, 0);
    if (!rt_is_complex(x->dtype)) return rt_k_dot(ctx, c);
    int64_t n = x->size[0];
    int half = x->dtype == RT_C32 ? RT_F16 : x->dtype == RT_C64 ? RT_F32 : RT_F64;
    char *copy = rt_scratch(ctx, (size_t)(n * rt_itemsize(x->dtype)));
    if (!copy) return rt_fail(ctx, RT_ENOMEM, "out of memory for the conjugate in vdot");
    rt_view conjugate = rt_view_contiguous(copy, x->dtype, 1, x->size);
    int code = rt_copy(ctx, &conjugate, x);
    if (!code) {
        /* The sign is the top bit of the last byte of each imaginary part. */
        int64_t bytes = rt_itemsize(half);
        for (int64_t i = 0; i < n; i++) copy[(2 * i + 2) * bytes - 1] ^= (char)0x80;
        code = dot_of(ctx, &conjugate, rt_arg_view(c, 1), &c->out[0]);
    }
    rt_scratch_free(ctx, copy);
    return code;
}

/* ---- linear ---- */

/* linear(input, weight, bias): input [.., k], weight [n, k] (or [k], and then the result has no last dimension). */
RT_KERNEL(rt_k_linear) {
    const rt_view *weight = rt_arg_view(c, 1), *bias = rt_arg_view(c, 2);
    rt_view input = *rt_arg_view(c, 0), out = c->out[0];
    bool vector = weight->rank == 1;
    if (vector) out.size[out.rank] = 1, out.stride[out.rank] = 1, out.rank++;
    if (rt_numel(&out) == 0) return RT_OK;

    int64_t k = input.size[input.rank - 1], n = out.size[out.rank - 1], m = rt_numel(&out) / n, a_row, c_row;
    void *input_copy = NULL, *out_copy = NULL;
    rt_view result = out;
    int code = RT_OK;
    if (!rt_rows_fold(&input, &a_row)) {
        rt_view dense;
        code = rt_contiguous(ctx, &input, input.dtype, &dense, &input_copy);
        if (code) return code;
        input = dense;
        a_row = k;
    }
    if (!rt_rows_fold(&out, &c_row)) {
        out_copy = rt_scratch(ctx, (size_t)(m * n * rt_itemsize(out.dtype)));
        if (!out_copy) {
            rt_scratch_free(ctx, input_copy);
            return rt_fail(ctx, RT_ENOMEM, "out of memory for the result of linear");
        }
        result = rt_view_contiguous(out_copy, out.dtype, out.rank, out.size);
        c_row = n;
    }
    rt_gemm_args g = rt_gemm_plain(out.dtype, m, n, k, input.p, weight->p, result.p);
    g.a_row = a_row;
    g.a_col = input.stride[input.rank - 1];
    g.b_row = weight->stride[weight->rank - 1];
    g.b_col = vector ? 0 : weight->stride[0];
    g.c_row = c_row;
    g.c_col = result.stride[result.rank - 1];
    if (bias) {
        g.d = bias->p;
        g.d_col = bias->rank && bias->size[0] != 1 ? bias->stride[0] : 0;
        g.beta = rt_gemm_one;
    }
    code = rt_gemm(ctx, &g);
    if (!code && out_copy) code = rt_copy(ctx, &out, &result);
    rt_scratch_free(ctx, input_copy);
    rt_scratch_free(ctx, out_copy);
    return code;
}
