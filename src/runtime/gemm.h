/* gemm.h: matrix products for kernels. C = alpha * A * B + beta * D, any strides, any dtype.
 *
 *     rt_gemm_args g = rt_gemm_plain(RT_F32, m, n, k, a, b, c);     row-major, alpha 1, beta 0
 *     g.b_row = 1, g.b_col = k;                                     B is the transpose of a row-major [n, k]
 *     g.d = bias, g.d_col = 1, g.beta = rt_gemm_one;                one bias for all rows: d_row stays 0
 *     int code = rt_gemm(ctx, &g);
 *
 * f16, bf16 and float8 are widened to float, summed in float and rounded once. Integers wrap. The order in which one
 * element's terms are added depends on sizes and strides only, never on the number of threads. */
#ifndef CRESSET_GEMM_H
#define CRESSET_GEMM_H

#include "runtime/rt.h"
#include "runtime/rt_post.h"

/* Fills panels with B[k0..k1) x [n0..n1) of batch entry `batch`, in the compute dtype (rt_gemm_compute_dtype). A panel
 * is RT_PANEL_BYTES wide: element (k, n) goes to panel (n - n0) / width, row k - k0, column (n - n0) % width; panels
 * are `panel` elements apart. n0 is a multiple of the width; columns past n1 in the last panel may hold anything.
 * Called from several threads at once. */
typedef void rt_gemm_pack_fn(void *arg, int64_t batch, int64_t k0, int64_t k1, int64_t n0, int64_t n1, void *panels,
                             int64_t panel);
enum { RT_PANEL_BYTES = 64 };

/* Fills rows [i0, i1) of A's columns [k0, k1), of batch entry `batch`, in the compute dtype, dense and `row` apart.
 * Called from several threads at once. */
typedef void rt_gemm_rows_fn(void *arg, int64_t batch, int64_t i0, int64_t i1, int64_t k0, int64_t k1, void *rows,
                             int64_t row);

typedef struct rt_gemm_args {
    int32_t dtype; /* of A, B, C and D */
    int64_t m, n, k, batch;
    /* Element strides: one row further, one column further, one batch entry further. */
    const void *a;
    int64_t a_row, a_col, a_batch;
    const void *b;
    int64_t b_row, b_col, b_batch;
    void *c;
    int64_t c_row, c_col, c_batch;
    /* The addend. NULL: C itself. Not read when beta is 0. May be C, but must not overlap it otherwise. */
    const void *d;
    int64_t d_row, d_col, d_batch;
    rt_scalar alpha, beta;
    /* Where B comes from, when not from `b`: from panels made by rt_gemm_pack_b before (one batch entry for all), or
     * from a function. Neither works for complex dtypes. */
    const void *packed_b;
    rt_gemm_pack_fn *pack_b;
    void *pack_arg;
    /* Where A comes from, when not from `a`. Only with pack_b. */
    rt_gemm_rows_fn *rows_a;
    void *rows_arg;
    /* What becomes of the sums before they are stored (with their row and column in C), or NULL. Only for f32 with
     * packed_b, batch 1, alpha 1, beta 0. */
    const rt_post *post;
} rt_gemm_args;

static const rt_scalar rt_gemm_zero = { RT_ARG_INT, 0, 0, 0 }, rt_gemm_one = { RT_ARG_INT, 1, 1, 0 };

/* All matrices dense and row-major, one batch entry, alpha 1, beta 0. */
rt_gemm_args rt_gemm_plain(int dtype, int64_t m, int64_t n, int64_t k, const void *a, const void *b, void *c);

/* RT_EDTYPE for bool, which has no product. RT_ENOMEM. */
int rt_gemm(const rt_ctx *ctx, const rt_gemm_args *args);

/* What the terms of a product of `dtype` are held in: RT_F32, RT_F64, RT_U32 (narrow integers), RT_U64. -1: no such
 * product. Complex products have none of their own either. */
int rt_gemm_compute_dtype(int dtype);

/* Packed B for rt_gemm_args.packed_b: bytes, and the packing itself (from args' b, b_row, b_col, dtype, n, k). */
int64_t rt_gemm_packed_bytes(int dtype, int64_t n, int64_t k);
void rt_gemm_pack_b(const rt_gemm_args *args, void *packed);

/* Moves a matrix of `dtype` into dense rows of `compute` elements, `row` apart: what a packing function needs for parts
 * that are plain memory. */
void rt_gemm_pack_rows(int compute, void *out, int64_t row, int dtype, const void *x, int64_t x_row, int64_t x_col,
                       int64_t rows, int64_t cols);

/* The instruction set the products use: "portable", "avx2" or "avx512". The environment variable CRESSET_ISA, read
 * once, can choose a lower one than the processor has. */
const char *rt_gemm_isa_name(void);

/* Do the leading dimensions of v (all but the last) step as one? *row is that step. */
static inline bool rt_rows_fold(const rt_view *v, int64_t *row) {
    int64_t expected = -1;
    *row = 0;
    for (int d = v->rank - 2; d >= 0; d--) {
        if (v->size[d] == 1) continue;
        if (expected < 0) *row = v->stride[d];
        else if (v->stride[d] != expected) return false;
        expected = v->stride[d] * v->size[d];
    }
    return true;
}

#endif
