/* k_scan.c: running sums, products and extremes along one dimension, and the way back from running products.
 *
 * The scanned dimension is brought to the end and each row is scanned in the compute class (rt_reduce.h), in order, so
 * results do not depend on the thread count. */
#include "runtime/kernels.h"
#include "runtime/rt_reduce.h"

#include <complex.h>
#include <math.h>

typedef void scan_fn(const void *x, int64_t n, void *out, int64_t *index);

#define SCAN(name, T, acc_t, op, start)                                                                                \
    static void name(const void *p, int64_t n, void *out, int64_t *index) {                                            \
        (void)index;                                                                                                   \
        const T *x = p;                                                                                                \
        T *y = out;                                                                                                    \
        acc_t s = start;                                                                                               \
        for (int64_t i = 0; i < n; i++) s = s op (acc_t)x[i], y[i] = (T)s;                                             \
    }
/* f32 accumulates in f64, as PyTorch does; low precision arrives as f32 */
SCAN(sum_f32, float, double, +, 0)
SCAN(sum_f64, double, double, +, 0)
SCAN(sum_i64, uint64_t, uint64_t, +, 0)
SCAN(sum_c64, float _Complex, double _Complex, +, 0)
SCAN(sum_c128, double _Complex, double _Complex, +, 0)
SCAN(prod_f32, float, double, *, 1)
SCAN(prod_f64, double, double, *, 1)
SCAN(prod_i64, uint64_t, uint64_t, *, 1)
SCAN(prod_c64, float _Complex, double _Complex, *, 1)
SCAN(prod_c128, double _Complex, double _Complex, *, 1)

/* The last of equal extremes counts, and NaN wins from where it first appears. */
#define EXTREME(name, T, better)                                                                                       \
    static void name(const void *p, int64_t n, void *out, int64_t *index) {                                            \
        const T *x = p;                                                                                                \
        T *y = out, best = n ? x[0] : 0;                                                                               \
        int64_t at = 0;                                                                                                \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            if (x[i] != x[i] || (best == best && x[i] better best)) best = x[i], at = i;                               \
            y[i] = best;                                                                                               \
            index[i] = at;                                                                                             \
        }                                                                                                              \
    }
EXTREME(max_f32, float, >=)
EXTREME(max_f64, double, >=)
EXTREME(max_i64, int64_t, >=)
EXTREME(min_f32, float, <=)
EXTREME(min_f64, double, <=)
EXTREME(min_i64, int64_t, <=)

#define LOG_SUM_EXP(name, T)                                                                                           \
    static void name(const void *p, int64_t n, void *out, int64_t *index) {                                            \
        (void)index;                                                                                                   \
        const T *x = p;                                                                                                \
        T *y = out;                                                                                                    \
        double s = -INFINITY;                                                                                          \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            double a = x[i], top = a > s ? a : s, low = a > s ? s : a;                                                 \
            if (a != a || s != s) s = NAN;                                                                             \
            else if (!isinf(top) || low != top) s = top + log1p(exp(low - top));                                       \
            y[i] = (T)s;                                                                                               \
        }                                                                                                              \
    }
LOG_SUM_EXP(log_sum_exp_f32, float)
LOG_SUM_EXP(log_sum_exp_f64, double)

static void log_sum_exp_c128(const void *p, int64_t n, void *out, int64_t *index) {
    (void)index;
    const double _Complex *x = p;
    double _Complex *y = out, s = -INFINITY;
    for (int64_t i = 0; i < n; i++) {
        double _Complex a = x[i], top = creal(a) > creal(s) ? a : s, low = creal(a) > creal(s) ? s : a;
        s = isinf(creal(low)) && creal(low) < 0 ? top : top + clog(1 + cexp(low - top));
        y[i] = s;
    }
}

typedef struct scans { scan_fn *f32, *f64, *i64, *c64, *c128; } scans;
static const scans sums = { sum_f32, sum_f64, sum_i64, sum_c64, sum_c128 };
static const scans prods = { prod_f32, prod_f64, prod_i64, prod_c64, prod_c128 };
static const scans maxima = { max_f32, max_f64, max_i64, NULL, NULL };
static const scans minima = { min_f32, min_f64, min_i64, NULL, NULL };
static const scans log_sums = { log_sum_exp_f32, log_sum_exp_f64, NULL, NULL, log_sum_exp_c128 };

typedef struct work { scan_fn *scan; const char *in; char *out; int64_t *index; int64_t n, item; } work;

static int run_rows(void *arg, int64_t begin, int64_t end) {
    const work *w = arg;
    for (int64_t r = begin; r < end; r++)
        w->scan(w->in + r * w->n * w->item, w->n, w->out + r * w->n * w->item, w->index ? w->index + r * w->n : NULL);
    return RT_OK;
}

static int scan(const rt_ctx *ctx, const rt_call *c, const scans *kinds, int dtype) {
    const rt_view *self = rt_arg_view(c, 0);
    int dim = rt_arg_dim(c, 1, self->rank), compute = rt_compute_dtype(dtype);
    if (compute == RT_C64 && !kinds->c64) compute = RT_C128;
    scan_fn *f = compute == RT_F32    ? kinds->f32
                 : compute == RT_F64  ? kinds->f64
                 : compute == RT_C64  ? kinds->c64
                 : compute == RT_C128 ? kinds->c128
                                      : kinds->i64;
    int64_t numel = rt_numel(self);
    if (!numel) return RT_OK;
    if (!f) return rt_fail(ctx, RT_ENOTIMPL, "this scan has no kernel for dtype %s", rt_dtype_name(dtype));
    rt_view in = rt_view_last(self, dim), out = rt_view_last(&c->out[0], dim), flat, rounded = in;
    void *rounded_scratch = NULL, *in_scratch = NULL;
    int code = RT_OK;
    if (dtype != self->dtype && dtype != compute) code = rt_contiguous(ctx, &in, dtype, &rounded, &rounded_scratch);
    if (!code) code = rt_contiguous(ctx, &rounded, compute, &flat, &in_scratch);
    void *result = code ? NULL : rt_scratch(ctx, (size_t)(numel * rt_itemsize(compute)));
    int64_t *index = code || c->nout < 2 ? NULL : rt_scratch(ctx, (size_t)numel * sizeof *index);
    if (!code && (!result || (c->nout > 1 && !index))) code = RT_ENOMEM;
    if (!code) {
        int64_t n = self->rank ? self->size[dim] : 1;
        work w = { f, flat.p, result, index, n, rt_itemsize(compute) };
        code = rt_parallel_work(ctx, numel / n, n, 16384, run_rows, &w);
    }
    if (!code) {
        rt_view from = rt_view_contiguous(result, compute, out.rank, out.size);
        code = rt_copy(ctx, &out, &from);
    }
    if (!code && index) {
        rt_view to = rt_view_last(&c->out[1], dim), from = rt_view_contiguous(index, RT_I64, to.rank, to.size);
        code = rt_copy(ctx, &to, &from);
    }
    rt_scratch_free(ctx, index);
    rt_scratch_free(ctx, result);
    rt_scratch_free(ctx, in_scratch);
    rt_scratch_free(ctx, rounded_scratch);
    return code;
}

int rt_k_cumsum(const rt_ctx *ctx, const rt_call *c) { return scan(ctx, c, &sums, c->out[0].dtype); }
int rt_k_cumprod(const rt_ctx *ctx, const rt_call *c) { return scan(ctx, c, &prods, c->out[0].dtype); }
int rt_k_cummax(const rt_ctx *ctx, const rt_call *c) { return scan(ctx, c, &maxima, rt_arg_view(c, 0)->dtype); }
int rt_k_cummin(const rt_ctx *ctx, const rt_call *c) { return scan(ctx, c, &minima, rt_arg_view(c, 0)->dtype); }
int rt_k_logcumsumexp(const rt_ctx *ctx, const rt_call *c) { return scan(ctx, c, &log_sums, rt_arg_view(c, 0)->dtype); }

/* ---- cumprod_backward ---- */

/* One row, y = cumprod(x): result[i] = sum over k >= i of g[k] * dy[k]/dx[i], with conjugates. Up to the first zero of
 * x that is (sum of g * y) / x; at it, the product without it, up to the second zero; behind it, nothing. */
#define CUMPROD_BACKWARD(name, T, conjugate)                                                                           \
    static void name(const T *g, const T *x, const T *y, int64_t n, T *out) {                                          \
        int64_t zero = 0;                                                                                              \
        while (zero < n && x[zero] != 0) zero++;                                                                       \
        T sum = 0;                                                                                                     \
        for (int64_t i = zero; i-- > 0;) sum += g[i] * conjugate(y[i]), out[i] = sum / conjugate(x[i]);                \
        for (int64_t i = zero; i < n; i++) out[i] = 0;                                                                 \
        if (zero == n) return;                                                                                         \
        T product = zero ? y[zero - 1] : 1;                                                                            \
        sum = g[zero] * conjugate(product);                                                                            \
        for (int64_t i = zero + 1; i < n && x[i] != 0; i++) product *= x[i], sum += g[i] * conjugate(product);         \
        out[zero] = sum;                                                                                               \
    }
CUMPROD_BACKWARD(cumprod_backward_f64, double, )
CUMPROD_BACKWARD(cumprod_backward_c128, double _Complex, conj)

typedef struct back_work { const void *g, *x, *y; void *out; int64_t n; bool paired; } back_work;

static int run_back(void *arg, int64_t begin, int64_t end) {
    const back_work *w = arg;
    for (int64_t r = begin * w->n; r < end * w->n; r += w->n) {
        if (w->paired)
            cumprod_backward_c128((const double _Complex *)w->g + r, (const double _Complex *)w->x + r,
                                  (const double _Complex *)w->y + r, w->n, (double _Complex *)w->out + r);
        else
            cumprod_backward_f64((const double *)w->g + r, (const double *)w->x + r, (const double *)w->y + r, w->n,
                                 (double *)w->out + r);
    }
    return RT_OK;
}

/* cumprod_backward(grad, input, dim, output) */
RT_KERNEL(rt_k_cumprod_backward) {
    static const int places[3] = { 0, 1, 3 };
    const rt_view *input = rt_arg_view(c, 1);
    bool paired = rt_is_complex(c->out[0].dtype);
    int dim = rt_arg_dim(c, 2, input->rank), dtype = paired ? RT_C128 : RT_F64, code = RT_OK;
    int64_t numel = rt_numel(input), n = input->rank ? input->size[dim] : 1;
    void *scratch[3] = { NULL, NULL, NULL };
    rt_view flat[3], to = rt_view_last(&c->out[0], dim);
    if (!numel) return RT_OK;
    for (int i = 0; i < 3 && !code; i++) {
        rt_view v = rt_view_last(rt_arg_view(c, places[i]), dim);
        code = rt_contiguous(ctx, &v, dtype, &flat[i], &scratch[i]);
    }
    void *result = code ? NULL : rt_scratch(ctx, (size_t)(numel * rt_itemsize(dtype)));
    if (!code && !result) code = RT_ENOMEM;
    if (!code) {
        back_work w = { flat[0].p, flat[1].p, flat[2].p, result, n, paired };
        code = rt_parallel_work(ctx, numel / n, n, 16384, run_back, &w);
    }
    if (!code) {
        rt_view from = rt_view_contiguous(result, dtype, to.rank, to.size);
        code = rt_copy(ctx, &to, &from);
    }
    rt_scratch_free(ctx, result);
    for (int i = 0; i < 3; i++) rt_scratch_free(ctx, scratch[i]);
    return code;
}
