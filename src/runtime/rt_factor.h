/* rt_factor.h: factors of one dense matrix in f64 or complex f64 (`dtype`: RT_F64 or RT_C128), rows `ld` elements
 * apart.
 *
 * Matrices are halved until a part is small; the rest of the work is products (gemm.h). Negative results are -code of
 * an rt error, which only scratch memory has. */
#ifndef CRESSET_RT_FACTOR_H
#define CRESSET_RT_FACTOR_H

#include "runtime/rt.h"

/* a (m x n) becomes its L (below the diagonal, which is all ones) and U; row i was swapped with pivot[i] - 1. Returns
 * the first pivot (from 1) that is zero, or 0. */
int32_t rt_lu(const rt_ctx *ctx, int dtype, void *a, int64_t ld, int64_t m, int64_t n, int32_t *pivot);
/* x (n x k, rows k apart) becomes the solution of op(t) x = x, where t is a triangle of a (n x n); flip: its conjugate
 * transpose. */
int rt_solve_triangle(const rt_ctx *ctx, int dtype, const void *a, int64_t n, void *x, int64_t k, bool upper, bool unit,
                      bool flip);
/* Rows of x (n x k) as the pivots say, or back. */
void rt_swap_rows(int dtype, void *x, int64_t n, int64_t k, const int32_t *pivot, bool back);
/* The lower triangle of a (n x n) becomes L with L L^H = a. Returns the order of the first minor that is not
 * positive. */
int32_t rt_cholesky(const rt_ctx *ctx, int dtype, void *a, int64_t n);
/* a (m x n) becomes R and, below the diagonal, the reflectors whose factors are tau. */
int rt_reflect(const rt_ctx *ctx, int dtype, void *a, int64_t m, int64_t n, void *tau);
/* q (m x n): the first n columns of the product of k reflectors, which lie below the diagonal of a (m x n). */
int rt_reflector_product(const rt_ctx *ctx, int dtype, const void *a, int64_t m, int64_t n, const void *tau, int64_t k,
                         void *q);

#endif
