/* rt_factor.c: see rt_factor.h. The loops over small parts are in rt_factor_loops.h, once for each dtype. */
#include "runtime/rt_factor.h"

#include "runtime/gemm.h"

#include <complex.h>
#include <math.h>
#include <string.h>

enum { FACTOR_SMALL = 16, FACTOR_PANEL = 32 };

/* A matrix by its element strides. */
typedef struct factor_matrix { void *p; int64_t row, col; } factor_matrix;

/* c (m x n) -= a b, or with `fresh` c = a b. */
static int subtract_product(const rt_ctx *ctx, int dtype, int64_t m, int64_t n, int64_t k, factor_matrix a,
                            factor_matrix b, factor_matrix c, bool fresh) {
    static const rt_scalar minus = { RT_ARG_INT, -1, -1, 0 };
    rt_gemm_args g = rt_gemm_plain(dtype, m, n, k, a.p, b.p, c.p);
    g.a_row = a.row, g.a_col = a.col, g.b_row = b.row, g.b_col = b.col, g.c_row = c.row, g.c_col = c.col;
    if (!fresh) g.alpha = minus, g.beta = rt_gemm_one, g.d = c.p, g.d_row = c.row, g.d_col = c.col;
    return m && n ? rt_gemm(ctx, &g) : RT_OK;
}

#define T double
#define NAME(x) x##_d
#define DTYPE RT_F64
#define CONJ(x) (x)
#define REAL(x) (x)
#define PIVOT_SIZE(x) fabs(x)
#define PAIRED false
#include "runtime/rt_factor_loops.h"

#define T double _Complex
#define NAME(x) x##_z
#define DTYPE RT_C128
#define CONJ(x) conj(x)
#define REAL(x) creal(x)
#define PIVOT_SIZE(x) (fabs(creal(x)) + fabs(cimag(x))) /* what LAPACK compares pivots by */
#define PAIRED true
#include "runtime/rt_factor_loops.h"

int32_t rt_lu(const rt_ctx *ctx, int dtype, void *a, int64_t ld, int64_t m, int64_t n, int32_t *pivot) {
    return dtype == RT_F64 ? factor_lu_d(ctx, a, ld, m, n, pivot) : factor_lu_z(ctx, a, ld, m, n, pivot);
}

int rt_solve_triangle(const rt_ctx *ctx, int dtype, const void *a, int64_t n, void *x, int64_t k, bool upper, bool unit,
                      bool flip) {
    if (dtype == RT_F64) return solve_triangle_d(ctx, a, n, x, k, upper, unit, flip);
    return solve_triangle_z(ctx, a, n, x, k, upper, unit, flip);
}

void rt_swap_rows(int dtype, void *x, int64_t n, int64_t k, const int32_t *pivot, bool back) {
    if (dtype == RT_F64) swap_rows_d(x, k, n, k, pivot, back);
    else swap_rows_z(x, k, n, k, pivot, back);
}

int32_t rt_cholesky(const rt_ctx *ctx, int dtype, void *a, int64_t n) {
    return dtype == RT_F64 ? factor_cholesky_d(ctx, a, n, n) : factor_cholesky_z(ctx, a, n, n);
}

int rt_reflect(const rt_ctx *ctx, int dtype, void *a, int64_t m, int64_t n, void *tau) {
    return dtype == RT_F64 ? reflect_d(ctx, a, m, n, tau) : reflect_z(ctx, a, m, n, tau);
}

int rt_reflector_product(const rt_ctx *ctx, int dtype, const void *a, int64_t m, int64_t n, const void *tau, int64_t k,
                         void *q) {
    if (dtype == RT_F64) return reflector_product_d(ctx, a, m, n, tau, k, q);
    return reflector_product_z(ctx, a, m, n, tau, k, q);
}
