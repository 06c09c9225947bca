/* rt_factor_set.h: all factorisations for one instruction set. A file that includes it names FACTOR_TABLE. The loops
 * are in rt_factor_loops.h, once for each dtype. */
#include "runtime/rt_factor.h"

#include "runtime/gemm.h"

#include <complex.h>
#include <float.h>
#include <math.h>
#include <string.h>

#if defined(__clang__)
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#endif

enum { FACTOR_SMALL = 16, FACTOR_PANEL = 32 };

static int tridiagonal_eigen(const rt_ctx *ctx, double *d, double *e, int64_t n, double *z);

/* A matrix by its element strides. */
typedef struct factor_matrix { void *p; int64_t row, col; } factor_matrix;

/* c (m x n) = sign * a b, or with `adds` that is added. Where columns of c are dense, its transpose is made. */
static int product(const rt_ctx *ctx, int dtype, int64_t m, int64_t n, int64_t k, factor_matrix a, factor_matrix b,
                   factor_matrix c, int sign, bool adds) {
    if (c.col != 1 && c.row == 1) {
        factor_matrix swap = a;
        int64_t rows = m;
        a = (factor_matrix){ b.p, b.col, b.row }, b = (factor_matrix){ swap.p, swap.col, swap.row };
        c = (factor_matrix){ c.p, c.col, c.row }, m = n, n = rows;
    }
    rt_gemm_args g = rt_gemm_plain(dtype, m, n, k, a.p, b.p, c.p);
    g.a_row = a.row, g.a_col = a.col, g.b_row = b.row, g.b_col = b.col, g.c_row = c.row, g.c_col = c.col;
    g.alpha = (rt_scalar){ RT_ARG_INT, sign, sign, 0 };
    if (adds) g.beta = rt_gemm_one, g.d = c.p, g.d_row = c.row, g.d_col = c.col;
    return m && n ? rt_gemm(ctx, &g) : RT_OK;
}

/* c -= a b, or with `fresh` c = a b. */
static int subtract_product(const rt_ctx *ctx, int dtype, int64_t m, int64_t n, int64_t k, factor_matrix a,
                            factor_matrix b, factor_matrix c, bool fresh) {
    return product(ctx, dtype, m, n, k, a, b, c, fresh ? 1 : -1, !fresh);
}

#define T float
#define NAME(x) x##_f
#define DTYPE RT_F32
#define CONJ(x) (x)
#define REAL(x) (x)
#define REAL_T float
#define SQRT sqrtf
#define SQUARE(x) ((double)(x) * (double)(x))
#define PIVOT_SIZE(x) fabsf(x)
#define PAIRED false
#include "runtime/rt_factor_loops.h"

#define T double
#define NAME(x) x##_d
#define DTYPE RT_F64
#define CONJ(x) (x)
#define REAL(x) (x)
#define REAL_T double
#define SQRT sqrt
#define SQUARE(x) ((x) * (x))
#define PIVOT_SIZE(x) fabs(x)
#define PAIRED false
#include "runtime/rt_factor_loops.h"

#define T double _Complex
#define NAME(x) x##_z
#define DTYPE RT_C128
#define CONJ(x) conj(x)
#define REAL(x) creal(x)
#define REAL_T double
#define SQRT sqrt
#define SQUARE(x) (creal(x) * creal(x) + cimag(x) * cimag(x))
#define PIVOT_SIZE(x) (fabs(creal(x)) + fabs(cimag(x))) /* what LAPACK compares pivots by */
#define PAIRED true
#include "runtime/rt_factor_loops.h"

#include "runtime/rt_factor_divide.h"

const rt_factor_loops *FACTOR_TABLE(int dtype) {
    return dtype == RT_F32 ? &loops_f : dtype == RT_F64 ? &loops_d : &loops_z;
}
