/* k_reduce.c: sum, prod, mean, extremes, any/all, variance, norms, logsumexp along dimensions.
 *
 * Each reducer is a row function per compute class (rt_reduce.h); a kernel picks the class from dtypes. NaN wins in
 * extremes, and the first extreme's position counts, as in PyTorch. */
#include "runtime/kernels.h"
#include "runtime/rt_reduce.h"

#include <complex.h>
#include <math.h>
#include <string.h>

#define ROW(name) static void name(const void *p, int64_t n, void *out, int64_t *index, const double *param)
#define UNUSED (void)n, (void)index, (void)param

typedef float _Complex c64;
typedef double _Complex c128;

/* ---- sums and products ---- */

ROW(sum_f32) { UNUSED; *(float *)out = rt_sum_f32(p, n); }
ROW(sum_f64) { UNUSED; *(double *)out = rt_sum_f64(p, n); }

ROW(sum_i64) {
    UNUSED;
    const uint64_t *x = p;
    uint64_t s = 0;
    for (int64_t i = 0; i < n; i++) s += x[i];
    *(uint64_t *)out = s;
}

#define COMPLEX_SUM(name, T, real)                                                                                     \
    ROW(name) {                                                                                                        \
        UNUSED;                                                                                                        \
        const T *x = p;                                                                                                \
        real re[8] = { 0 }, im[8] = { 0 };                                                                             \
        for (int64_t i = 0; i < n; i++) re[i & 7] += __real__ x[i], im[i & 7] += __imag__ x[i];                        \
        for (int k = 1; k < 8; k++) re[0] += re[k], im[0] += im[k];                                                    \
        __real__ *(T *)out = re[0];                                                                                    \
        __imag__ *(T *)out = im[0];                                                                                    \
    }
COMPLEX_SUM(sum_c64, c64, float)
COMPLEX_SUM(sum_c128, c128, double)

/* Complex products are written out: C's operator rescues infinities from NaN, PyTorch's does not. */
#define COMPLEX_PRODUCT(name, T)                                                                                       \
    ROW(name) {                                                                                                        \
        UNUSED;                                                                                                        \
        const T *x = p;                                                                                                \
        double re = 1, im = 0;                                                                                         \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            double a = __real__ x[i], b = __imag__ x[i], r = re * a - im * b;                                          \
            im = re * b + im * a;                                                                                      \
            re = r;                                                                                                    \
        }                                                                                                              \
        __real__ *(T *)out = re;                                                                                       \
        __imag__ *(T *)out = im;                                                                                       \
    }
COMPLEX_PRODUCT(prod_c64, c64)
COMPLEX_PRODUCT(prod_c128, c128)

#define PRODUCT(name, T)                                                                                               \
    ROW(name) {                                                                                                        \
        UNUSED;                                                                                                        \
        const T *x = p;                                                                                                \
        T s = 1;                                                                                                       \
        for (int64_t i = 0; i < n; i++) s *= x[i];                                                                     \
        *(T *)out = s;                                                                                                 \
    }
PRODUCT(prod_f32, float)
PRODUCT(prod_f64, double)
PRODUCT(prod_i64, uint64_t)

#define MEAN(cls, T)                                                                                                   \
    ROW(mean_##cls) {                                                                                                  \
        sum_##cls(p, n, out, index, param);                                                                            \
        *(T *)out /= (T)n;                                                                                             \
    }
MEAN(f32, float)
MEAN(f64, double)
MEAN(c64, c64)
MEAN(c128, c128)

#define NANSUM(name, T, wide)                                                                                          \
    ROW(name) {                                                                                                        \
        UNUSED;                                                                                                        \
        const T *x = p;                                                                                                \
        wide s = 0;                                                                                                    \
        for (int64_t i = 0; i < n; i++) s += x[i] == x[i] ? x[i] : (T)0;                                               \
        *(T *)out = (T)s;                                                                                              \
    }
NANSUM(nansum_f32, float, double)
NANSUM(nansum_f64, double, double)
NANSUM(nansum_c64, c64, c128)
NANSUM(nansum_c128, c128, c128)

/* ---- extremes ---- */

#define EXTREME(name, T, better)                                                                                       \
    ROW(name) {                                                                                                        \
        (void)param;                                                                                                   \
        const T *x = p;                                                                                                \
        T best = x[0];                                                                                                 \
        int64_t at = 0;                                                                                                \
        for (int64_t i = 1; i < n && best == best; i++)                                                                \
            if (x[i] better best || x[i] != x[i]) best = x[i], at = i;                                                 \
        *(T *)out = best;                                                                                              \
        if (index) *index = at;                                                                                        \
    }
EXTREME(max_f32, float, >)
EXTREME(max_f64, double, >)
EXTREME(max_i64, int64_t, >)
EXTREME(max_u64, uint64_t, >)
EXTREME(min_f32, float, <)
EXTREME(min_f64, double, <)
EXTREME(min_i64, int64_t, <)
EXTREME(min_u64, uint64_t, <)

/* ---- truth: rows are bool already ---- */

ROW(any_b) { UNUSED; *(uint8_t *)out = n && memchr(p, 1, (size_t)n) != NULL; }
ROW(all_b) { UNUSED; *(uint8_t *)out = !(n && memchr(p, 0, (size_t)n)); }

ROW(count_b) {
    UNUSED;
    const uint8_t *x = p;
    int64_t s = 0;
    for (int64_t i = 0; i < n; i++) s += x[i];
    *(int64_t *)out = s;
}

/* ---- variance: two passes, exact mean first. param[0]: correction; param[1]: 1 for the square root ---- */

static double spread(double squares, int64_t n, const double *param) {
    double divisor = (double)n - param[0];
    double v = squares / (divisor > 0 ? divisor : 0.0);
    return param[1] != 0 ? sqrt(v) : v;
}

#define VARIANCE(name, T)                                                                                              \
    ROW(name) {                                                                                                        \
        (void)index;                                                                                                   \
        const T *x = p;                                                                                                \
        double mean = 0, squares = 0;                                                                                  \
        for (int64_t i = 0; i < n; i++) mean += x[i];                                                                  \
        mean /= (double)n;                                                                                             \
        for (int64_t i = 0; i < n; i++) squares += (x[i] - mean) * (x[i] - mean);                                      \
        *(T *)out = n ? (T)spread(squares, n, param) : (T)NAN;                                                         \
    }
VARIANCE(var_f32, float)
VARIANCE(var_f64, double)

#define COMPLEX_VARIANCE(name, T, real)                                                                                \
    ROW(name) {                                                                                                        \
        (void)index;                                                                                                   \
        const T *x = p;                                                                                                \
        c128 mean = 0;                                                                                                 \
        double squares = 0;                                                                                            \
        for (int64_t i = 0; i < n; i++) mean += x[i];                                                                  \
        mean /= (double)n;                                                                                             \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            c128 d = x[i] - mean;                                                                                      \
            squares += __real__ d * __real__ d + __imag__ d * __imag__ d;                                              \
        }                                                                                                              \
        *(real *)out = n ? (real)spread(squares, n, param) : (real)NAN;                                                \
    }
COMPLEX_VARIANCE(var_c64, c64, float)
COMPLEX_VARIANCE(var_c128, c128, double)

/* ---- norms over absolute values. param[0]: the order ---- */

#define NORM(name, T, real, magnitude)                                                                                 \
    ROW(name) {                                                                                                        \
        (void)index;                                                                                                   \
        const T *x = p;                                                                                                \
        double order = param[0], s = order == INFINITY ? 0 : order == -INFINITY ? INFINITY : 0;                        \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            double a = magnitude(x[i]);                                                                                \
            if (order == 2) s += a * a;                                                                                \
            else if (order == 1) s += a;                                                                               \
            else if (order == 0) s += a != 0;                                                                          \
            else if (order == INFINITY) s = a > s || a != a ? a : s;                                                   \
            else if (order == -INFINITY) s = a < s || a != a ? a : s;                                                  \
            else s += pow(a, order);                                                                                   \
            if (isinf(order) && s != s) break;                                                                         \
        }                                                                                                              \
        bool rooted = order != 1 && order != 0 && !isinf(order);                                                       \
        *(real *)out = (real)(order == 2 ? sqrt(s) : rooted ? pow(s, 1 / order) : s);                                  \
    }
NORM(norm_f32, float, float, fabs)
NORM(norm_f64, double, double, fabs)
NORM(norm_c64, c64, float, cabs)
NORM(norm_c128, c128, double, cabs)

/* param[0]: the dtype to round intermediate results to. PyTorch computes half precision in steps; so do we. */
static float stepped(double x, int dtype) {
    if (dtype == RT_F16) return rt_f16_to_f32(rt_f32_to_f16((float)x));
    return dtype == RT_BF16 ? rt_bf16_to_f32(rt_f32_to_bf16((float)x)) : (float)x;
}

#define LOGSUMEXP(name, T, expT, logT, step)                                                                                 \
    ROW(name) {                                                                                                        \
        UNUSED;                                                                                                        \
        const T *x = p;                                                                                                \
        T top = -INFINITY;                                                                                             \
        for (int64_t i = 0; i < n; i++)                                                                                \
            if (x[i] > top || x[i] != x[i]) {                                                                          \
                top = x[i];                                                                                            \
                if (top != top) break;                                                                                 \
            }                                                                                                          \
        T shift = isinf(top) ? 0 : top;                                                                                \
        double s = 0;                                                                                                  \
        for (int64_t i = 0; i < n; i++) s += step(expT(step(x[i] - shift, *param)), *param);                           \
        *(T *)out = step(logT(step(s, *param)), *param) + shift;                                                       \
    }
#define WHOLE(x, dtype) (x)
LOGSUMEXP(logsumexp_f32, float, expf, log, stepped)
LOGSUMEXP(logsumexp_f64, double, exp, log, WHOLE)

#define COMPLEX_LOGSUMEXP(name, T)                                                                                     \
    ROW(name) {                                                                                                        \
        UNUSED;                                                                                                        \
        const T *x = p;                                                                                                \
        double top = -INFINITY;                                                                                        \
        for (int64_t i = 0; i < n; i++)                                                                                \
            if (__real__ x[i] > top) top = __real__ x[i];                                                              \
        double shift = isinf(top) ? 0 : top;                                                                           \
        c128 s = 0;                                                                                                    \
        for (int64_t i = 0; i < n; i++) s += cexp((c128)x[i] - shift);                                                 \
        *(T *)out = (T)(clog(s) + shift);                                                                              \
    }
COMPLEX_LOGSUMEXP(logsumexp_c64, c64)
COMPLEX_LOGSUMEXP(logsumexp_c128, c128)

/* ---- choosing by class ---- */

typedef struct rows { rt_row_fn *f32, *f64, *i64, *u64, *c64, *c128; } rows;

static rt_row_fn *choose(const rows *r, int compute) {
    switch (compute) {
    case RT_F32: return r->f32;
    case RT_F64: return r->f64;
    case RT_I64: return r->i64;
    case RT_U64: return r->u64 ? r->u64 : r->i64;
    case RT_C64: return r->c64;
    case RT_C128: return r->c128;
    default: return NULL;
    }
}

static const rows sum_rows = { sum_f32, sum_f64, sum_i64, NULL, sum_c64, sum_c128 };
static const rows prod_rows = { prod_f32, prod_f64, prod_i64, NULL, prod_c64, prod_c128 };
static const rows mean_rows = { mean_f32, mean_f64, NULL, NULL, mean_c64, mean_c128 };
static const rows nansum_rows = { nansum_f32, nansum_f64, sum_i64, NULL, nansum_c64, nansum_c128 };
static const rows max_rows = { max_f32, max_f64, max_i64, max_u64, NULL, NULL };
static const rows min_rows = { min_f32, min_f64, min_i64, min_u64, NULL, NULL };
static const rows var_rows = { var_f32, var_f64, NULL, NULL, var_c64, var_c128 };
static const rows norm_rows = { norm_f32, norm_f64, NULL, NULL, norm_c64, norm_c128 };
static const rows logsumexp_rows = { logsumexp_f32, logsumexp_f64, NULL, NULL, logsumexp_c64, logsumexp_c128 };

/* Inputs are cast to `dtype` (the result's, or their own), then computed in its class. */
static int run(const rt_ctx *ctx, const rt_call *c, int dims, const rows *r, int dtype, const double *param, const rt_view *out, const rt_view *index) {
    const rt_view *in = rt_arg_view(c, 0);
    int compute = rt_compute_dtype(dtype);
    rt_row_fn *row = choose(r, compute);
    if (!rt_numel(out ? out : index)) return RT_OK;
    if (!row) return rt_fail(ctx, RT_ENOTIMPL, "this reduction has no kernel for dtype %d", dtype);
    bool to_real = r == &var_rows || r == &norm_rows;
    int result = !to_real ? compute : compute == RT_C64 ? RT_F32 : compute == RT_C128 ? RT_F64 : compute;
    rt_reduction reduction = { row, compute, result, param, out, index };
    void *scratch = NULL;
    rt_view cast;
    /* a real output type narrower than the input (sum of f64 into f32) rounds first, as PyTorch casts before summing */
    bool narrows = dtype != in->dtype && rt_itemsize(dtype) < rt_itemsize(compute) && !to_real;
    if (narrows) {
        int code = rt_contiguous(ctx, in, dtype, &cast, &scratch);
        if (code) return code;
        in = &cast;
    }
    int code = rt_reduce(ctx, in, rt_arg_dims(c, dims, in->rank), &reduction);
    rt_scratch_free(ctx, scratch);
    return code;
}

#define OVER_OUT(name, r, dims)                                                                                        \
    int name(const rt_ctx *ctx, const rt_call *c) { return run(ctx, c, dims, &r, c->out[0].dtype, NULL, &c->out[0], NULL); }
#define OVER_IN(name, r, dims)                                                                                         \
    int name(const rt_ctx *ctx, const rt_call *c) { return run(ctx, c, dims, &r, rt_arg_view(c, 0)->dtype, NULL, &c->out[0], NULL); }
#define WITH_INDEX(name, r)                                                                                            \
    int name(const rt_ctx *ctx, const rt_call *c) { return run(ctx, c, 1, &r, rt_arg_view(c, 0)->dtype, NULL, &c->out[0], &c->out[1]); }
#define ONLY_INDEX(name, r)                                                                                            \
    int name(const rt_ctx *ctx, const rt_call *c) { return run(ctx, c, 1, &r, rt_arg_view(c, 0)->dtype, NULL, NULL, &c->out[0]); }

OVER_OUT(rt_k_sum_all, sum_rows, -1)
OVER_OUT(rt_k_sum_dim, sum_rows, 1)
OVER_OUT(rt_k_prod_all, prod_rows, -1)
OVER_OUT(rt_k_prod_dim, prod_rows, 1)
OVER_OUT(rt_k_mean_all, mean_rows, -1)
OVER_OUT(rt_k_mean_dim, mean_rows, 1)
OVER_OUT(rt_k_nansum, nansum_rows, 1)
OVER_IN(rt_k_amax, max_rows, 1)
OVER_IN(rt_k_amin, min_rows, 1)
OVER_IN(rt_k_max_all, max_rows, -1)
OVER_IN(rt_k_min_all, min_rows, -1)
WITH_INDEX(rt_k_max_dim, max_rows)
WITH_INDEX(rt_k_min_dim, min_rows)
ONLY_INDEX(rt_k_argmax, max_rows)
ONLY_INDEX(rt_k_argmin, min_rows)

int rt_k_logsumexp(const rt_ctx *ctx, const rt_call *c) {
    double dtype = c->out[0].dtype;
    return run(ctx, c, 1, &logsumexp_rows, c->out[0].dtype, &dtype, &c->out[0], NULL);
}

int rt_k_aminmax(const rt_ctx *ctx, const rt_call *c) {
    int code = run(ctx, c, 1, &min_rows, rt_arg_view(c, 0)->dtype, NULL, &c->out[0], NULL);
    return code ? code : run(ctx, c, 1, &max_rows, rt_arg_view(c, 0)->dtype, NULL, &c->out[1], NULL);
}

static int truth(const rt_ctx *ctx, const rt_call *c, int dims, rt_row_fn *row, int result) {
    rt_reduction r = { row, RT_BOOL, result, NULL, &c->out[0], NULL };
    return rt_reduce(ctx, rt_arg_view(c, 0), rt_arg_dims(c, dims, rt_arg_view(c, 0)->rank), &r);
}
int rt_k_any_all(const rt_ctx *ctx, const rt_call *c) { return truth(ctx, c, -1, any_b, RT_BOOL); }
int rt_k_any_dim(const rt_ctx *ctx, const rt_call *c) { return truth(ctx, c, 1, any_b, RT_BOOL); }
int rt_k_all_all(const rt_ctx *ctx, const rt_call *c) { return truth(ctx, c, -1, all_b, RT_BOOL); }
int rt_k_all_dim(const rt_ctx *ctx, const rt_call *c) { return truth(ctx, c, 1, all_b, RT_BOOL); }
int rt_k_count_nonzero(const rt_ctx *ctx, const rt_call *c) { return truth(ctx, c, 1, count_b, RT_I64); }

/* var.correction(self, dim, *, correction, keepdim): an absent correction is 1. */
static int variance(const rt_ctx *ctx, const rt_call *c, double root) {
    double param[] = { rt_arg_is_none(c, 2) ? 1.0 : rt_arg_float(c, 2), root };
    return run(ctx, c, 1, &var_rows, rt_arg_view(c, 0)->dtype, param, &c->out[0], NULL);
}
static int with_mean(const rt_ctx *ctx, const rt_call *c) {
    return run(ctx, c, 1, &mean_rows, c->out[1].dtype, NULL, &c->out[1], NULL);
}
int rt_k_var(const rt_ctx *ctx, const rt_call *c) { return variance(ctx, c, 0); }
int rt_k_std(const rt_ctx *ctx, const rt_call *c) { return variance(ctx, c, 1); }
int rt_k_var_mean(const rt_ctx *ctx, const rt_call *c) {
    int code = variance(ctx, c, 0);
    return code ? code : with_mean(ctx, c);
}
int rt_k_std_mean(const rt_ctx *ctx, const rt_call *c) {
    int code = variance(ctx, c, 1);
    return code ? code : with_mean(ctx, c);
}

/* linalg_vector_norm(self, ord, dim, keepdim, *, dtype) */
int rt_k_vector_norm(const rt_ctx *ctx, const rt_call *c) {
    double order = rt_arg_float(c, 1);
    int dtype = rt_arg_is_none(c, 4) ? rt_arg_view(c, 0)->dtype : (int)rt_arg_int(c, 4);
    return run(ctx, c, 2, &norm_rows, dtype, &order, &c->out[0], NULL);
}
