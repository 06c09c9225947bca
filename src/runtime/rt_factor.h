/* rt_factor.h: factors of one dense matrix of f32, f64 or complex f64 (`dtype`: RT_F32, RT_F64 or RT_C128).
 *
 * Matrices are halved until a part is small; the rest of the work is products (gemm.h). Negative results are -code of
 * an rt error, which only scratch memory has. */
#ifndef CRESSET_RT_FACTOR_H
#define CRESSET_RT_FACTOR_H

#include "runtime/rt.h"

typedef struct rt_factor_loops {
    /* a (m x n; columns dense, ld apart) becomes its L (below the diagonal, which is all ones) and U; row i was swapped
     * with pivot[i] - 1. Returns the first pivot (from 1) that is zero, or 0. */
    int32_t (*lu)(const rt_ctx *ctx, void *a, int64_t ld, int64_t m, int64_t n, int32_t *pivot);
    /* x (n x k, rows dense) becomes the solution of op(t) x = x, where t is a triangle of the n x n elements that are
     * `row` and `col` apart; flip: its conjugate transpose. */
    int (*solve_triangle)(const rt_ctx *ctx, const void *t, int64_t row, int64_t col, int64_t n, void *x, int64_t k,
                          bool upper, bool unit, bool flip);
    /* Rows of x (n x k) as the pivots say, or back. */
    void (*swap_rows)(void *x, int64_t n, int64_t k, const int32_t *pivot, bool back);
    /* The lower triangle of a (n x n, rows ld apart) becomes L with L L^H = a. Returns the order of the first minor
     * that is not positive, or 0. */
    int32_t (*cholesky)(const rt_ctx *ctx, void *a, int64_t ld, int64_t n);
    /* x (n x n, column by column) becomes the inverse of the matrix whose lu and pivots those are. */
    int (*lu_inverse)(const rt_ctx *ctx, const void *lu, int64_t n, const int32_t *pivot, void *x);
    /* x (n x n) becomes the inverse of L L^H; l, of whose rows the lower triangle counts, is used up. */
    int (*cholesky_inverse)(const rt_ctx *ctx, void *l, int64_t n, void *x);
    /* a (m x n, rows dense) becomes Q^H a, whose first k <= min(m, n) columns are R and, below the diagonal, the
     * reflectors of Q; tau: their factors. */
    int (*reflect)(const rt_ctx *ctx, void *a, int64_t m, int64_t n, int64_t k, void *tau);
    /* For A (m x n, m >= n). z NULL: a is (A b), b with k columns, which in the first n rows become the solution of
     * A x = b with the least error. Else a is A, and the first n rows of z (m x k) b: z becomes the least solution of
     * A^H z = b. *condition is not below A's; nothing else is worth anything where it is large. */
    int (*least_squares)(const rt_ctx *ctx, void *a, int64_t m, int64_t n, void *z, int64_t k, double *condition);
    /* q (m x n): the first n columns of the product of k reflectors, which lie below the diagonal of a (m x n). */
    int (*reflector_product)(const rt_ctx *ctx, const void *a, int64_t m, int64_t n, const void *tau, int64_t k,
                             void *q);
    /* a (n x n, Hermitian, both triangles) becomes Q t Q^H with a real tridiagonal t: d has its diagonal, e (n numbers)
     * what is beside it. The reflectors of Q lie in the columns of a, from below the diagonal on; tau: n numbers. */
    int (*tridiagonal)(const rt_ctx *ctx, void *a, int64_t n, double *d, double *e, void *tau);
    /* The rows of z (count x n) are multiplied by that Q. */
    int (*reflect_vectors)(const rt_ctx *ctx, const void *a, int64_t n, const void *tau, void *z, int64_t count);
    /* d becomes the eigenvalues of such a t, smallest first, e nothing, and the rows of z (f64, n x n, or NULL) the
     * vectors. RT_FACTOR_ENDLESS: no convergence. */
    int (*tridiagonal_eigen)(const rt_ctx *ctx, double *d, double *e, int64_t n, double *z);
} rt_factor_loops;
enum { RT_FACTOR_ENDLESS = -1 };

const rt_factor_loops *rt_factor(int dtype);
const rt_factor_loops *rt__factor_loops_base(int dtype);
const rt_factor_loops *rt__factor_loops_avx2(int dtype);
const rt_factor_loops *rt__factor_loops_avx512(int dtype);

#endif
