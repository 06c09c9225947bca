/* k_softmax.c: softmax and log-softmax along one dimension, and their backward forms.
 *
 * Rows are brought to the end in f32 or f64. The row's maximum is subtracted first, so nothing overflows; a row of
 * minus infinities gives NaN, as in PyTorch. */
#include "runtime/gemm_isa.h"
#include "runtime/kernels.h"
#include "runtime/rt_reduce.h"

#include <math.h>
#include <string.h>

typedef void row_fn(const void *a, const void *b, int64_t n, void *out);

#define MAXIMUM(T, x, n, top)                                                                                          \
    T top = -INFINITY;                                                                                                 \
    for (int64_t i = 0; i < n; i++) top = (x)[i] > top || (x)[i] != (x)[i] ? (x)[i] : top

#define FORWARD(T, suffix, expT, logT)                                                                                 \
    static void softmax_##suffix(const void *a, const void *b, int64_t n, void *out) {                                 \
        (void)b;                                                                                                       \
        const T *x = a;                                                                                                \
        T *y = out;                                                                                                    \
        MAXIMUM(T, x, n, top);                                                                                         \
        for (int64_t i = 0; i < n; i++) y[i] = expT(x[i] - top);                                                       \
        T s = rt_sum_##suffix(y, n);                                                                                   \
        for (int64_t i = 0; i < n; i++) y[i] /= s;                                                                     \
    }                                                                                                                  \
    static void log_softmax_##suffix(const void *a, const void *b, int64_t n, void *out) {                             \
        (void)b;                                                                                                       \
        const T *x = a;                                                                                                \
        T *y = out;                                                                                                    \
        MAXIMUM(T, x, n, top);                                                                                         \
        for (int64_t i = 0; i < n; i++) y[i] = expT(x[i] - top);                                                       \
        T s = logT(rt_sum_##suffix(y, n));                                                                             \
        for (int64_t i = 0; i < n; i++) y[i] = x[i] - top - s;                                                         \
    }
/* a: gradient, b: result */
#define BACKWARD(T, suffix)                                                                                            \
    static void softmax_backward_##suffix(const void *a, const void *b, int64_t n, void *out) {                        \
        const T *g = a, *r = b;                                                                                        \
        T *y = out;                                                                                                    \
        for (int64_t i = 0; i < n; i++) y[i] = g[i] * r[i];                                                            \
        T s = rt_sum_##suffix(y, n);                                                                                   \
        for (int64_t i = 0; i < n; i++) y[i] = (g[i] - s) * r[i];                                                      \
    }
FORWARD(double, f64, exp, log)
BACKWARD(float, f32)
BACKWARD(double, f64)

static void log_softmax_backward_f64(const void *a, const void *b, int64_t n, void *out) {
    const double *g = a, *r = b;
    double *y = out, s = rt_sum_f64(g, n);
    for (int64_t i = 0; i < n; i++) y[i] = g[i] - exp(r[i]) * s;
}
static void log_softmax_backward_part(const float *g, const float *r, int64_t n, float s, float *y) {
    for (int64_t i = 0; i < n; i++) y[i] = g[i] - expf(r[i]) * s;
}

/* f32 forward, the common case: the exponentials of a row by the loops of the instruction set, which attention uses,
 * too. Their sums are of single precision, so a long row adds up in blocks. */
enum { BLOCK = 1024 };
static double exps_of_row(const float *x, int64_t n, float *y, double *top) {
    const gemm_kind *kind = gemm_kind_get(RT_F32);
    double sum = 0;
    *top = kind->most(x, n);
    if (y != x) memcpy(y, x, (size_t)n * sizeof *y);
    for (int64_t i = 0; i < n; i += BLOCK) sum += kind->exps(y + i, n - i < BLOCK ? n - i : BLOCK, 1, *top);
    return sum;
}
typedef float four __attribute__((vector_size(16), aligned(4), may_alias));
static void softmax_row(const void *a, const void *b, int64_t n, void *out) {
    double top, sum = exps_of_row(a, n, out, &top);
    float *y = out, s = (float)sum;
    int64_t i = 0;
    (void)b;
    for (; i + 4 <= n; i += 4) *(four *)(y + i) /= s; /* divisions one by one would take most of the time */
    for (; i < n; i++) y[i] /= s;
}
static void log_softmax_row(const void *a, const void *b, int64_t n, void *out) {
    double top, sum = exps_of_row(a, n, out, &top);
    const float *x = a;
    float *y = out, t = (float)top, s = (float)log(sum);
    int64_t i = 0;
    (void)b;
    for (; i + 4 <= n; i += 4) *(four *)(y + i) = *(const four *)(x + i) - t - s;
    for (; i < n; i++) y[i] = x[i] - t - s;
}

/* Results of log-softmax are at most 0, but anybody may hand over others: e^80 is far from where the loops end. */
static void log_softmax_backward_row(const void *a, const void *b, int64_t n, void *out) {
    const gemm_kind *kind = gemm_kind_get(RT_F32);
    const float *g = a, *r = b;
    float *y = out, s = rt_sum_f32(g, n), exps[BLOCK];
    for (int64_t i = 0; i < n; i += BLOCK) {
        int64_t count = n - i < BLOCK ? n - i : BLOCK;
        if (kind->most(r + i, count) > 80) {
            log_softmax_backward_part(g + i, r + i, count, s, y + i);
            continue;
        }
        memcpy(exps, r + i, (size_t)count * sizeof *exps);
        kind->exps(exps, count, 1, 0);
        for (int64_t k = 0; k < count; k++) y[i + k] = g[i + k] - exps[k] * s;
    }
}

/* Along another dimension than the last: columns of dense f32 memory, a block of neighbours at a time. */
enum { COLUMNS = 256 };
typedef struct column_work { const float *in; float *out; int64_t n, inner, blocks; bool logarithm; } column_work;

static int run_columns(void *arg, int64_t begin, int64_t end) {
    const column_work *w = arg;
    const gemm_kind *kind = gemm_kind_get(RT_F32);
    float top[COLUMNS], exps[COLUMNS];
    double sum[COLUMNS];
    for (int64_t unit = begin; unit < end; unit++) {
        int64_t first = unit % w->blocks * COLUMNS, at = unit / w->blocks * w->n * w->inner + first;
        int64_t width = w->inner - first < COLUMNS ? w->inner - first : COLUMNS;
        const float *x = w->in + at;
        float *y = w->out + at;
        memcpy(top, x, (size_t)width * sizeof *top);
        for (int64_t r = 1; r < w->n; r++)
            for (int64_t c = 0; c < width; c++) top[c] = x[r * w->inner + c] > top[c] ? x[r * w->inner + c] : top[c];
        for (int64_t c = 0; c < width; c++) sum[c] = 0;
        for (int64_t r = 0; r < w->n; r++) {
            float *to = w->logarithm ? exps : y + r * w->inner;
            for (int64_t c = 0; c < width; c++) to[c] = x[r * w->inner + c] - top[c];
            kind->exps(to, width, 1, 0);
            for (int64_t c = 0; c < width; c++) sum[c] += to[c];
        }
        for (int64_t c = 0; c < width; c++) exps[c] = w->logarithm ? logf((float)sum[c]) : (float)sum[c];
        for (int64_t r = 0; r < w->n; r++)
            for (int64_t c = 0; c < width; c++) {
                float *to = y + r * w->inner + c;
                *to = w->logarithm ? x[r * w->inner + c] - top[c] - exps[c] : *to / exps[c];
            }
    }
    return RT_OK;
}

static bool goes_by_columns(const rt_view *self, const rt_view *out, int dim, int64_t *inner) {
    *inner = 1;
    for (int d = dim + 1; d < self->rank; d++) *inner *= self->size[d];
    return *inner >= 16 && self->dtype == RT_F32 && out->dtype == RT_F32 && rt_is_contiguous(self) &&
           rt_is_contiguous(out);
}

typedef struct work { row_fn *row; const char *a, *b; char *out; int64_t n, item; } work;

static int run_rows(void *arg, int64_t begin, int64_t end) {
    const work *w = arg;
    for (int64_t r = begin; r < end; r++) {
        int64_t at = r * w->n * w->item;
        w->row(w->a + at, w->b ? w->b + at : NULL, w->n, w->out + at);
    }
    return RT_OK;
}

static int run(const rt_ctx *ctx, const rt_view *a, const rt_view *b, int dim, const rt_view *out, row_fn *f32,
               row_fn *f64) {
    int64_t numel = rt_numel(out), n = out->rank ? out->size[dim] : 1;
    if (!numel) return RT_OK;
    int compute = rt_compute_dtype(a->dtype);
    if (compute != RT_F32 && compute != RT_F64) return rt_fail(ctx, RT_ENOTIMPL, "softmax needs a floating dtype");
    rt_view a_last = rt_view_last(a, dim), to = rt_view_last(out, dim), a_rows, b_rows = { .p = NULL };
    void *a_scratch = NULL, *b_scratch = NULL, *result = NULL;
    int code = rt_contiguous(ctx, &a_last, compute, &a_rows, &a_scratch);
    if (!code && b) {
        rt_view b_last = rt_view_last(b, dim);
        code = rt_contiguous(ctx, &b_last, compute, &b_rows, &b_scratch);
    }
    bool direct = to.dtype == compute && rt_is_contiguous(&to);
    if (!code && !direct && !(result = rt_scratch(ctx, (size_t)(numel * rt_itemsize(compute))))) code = RT_ENOMEM;
    if (!code) {
        work w = { compute == RT_F32 ? f32 : f64, a_rows.p, b_rows.p, direct ? to.p : result, n, rt_itemsize(compute) };
        code = rt_parallel_work(ctx, numel / n, n, 4096, run_rows, &w);
    }
    if (!code && !direct) {
        rt_view from = rt_view_contiguous(result, compute, to.rank, to.size);
        code = rt_copy(ctx, &to, &from);
    }
    rt_scratch_free(ctx, result);
    rt_scratch_free(ctx, b_scratch);
    rt_scratch_free(ctx, a_scratch);
    return code;
}

static int forward(const rt_ctx *ctx, const rt_call *c, row_fn *f32, row_fn *f64) { /* self, dim, half_to_float */
    const rt_view *self = rt_arg_view(c, 0), *out = &c->out[0];
    int dim = rt_arg_dim(c, 1, self->rank);
    int64_t inner, numel = rt_numel(out);
    if (!numel || !goes_by_columns(self, out, dim, &inner)) return run(ctx, self, NULL, dim, out, f32, f64);
    column_work w = {
        self->p, out->p, self->size[dim], inner, (inner + COLUMNS - 1) / COLUMNS, f32 == log_softmax_row
    };
    int64_t each = w.n * (inner < COLUMNS ? inner : COLUMNS);
    return rt_parallel_work(ctx, numel / (w.n * inner) * w.blocks, each, 4096, run_columns, &w);
}
/* grad_output, output, dim, input_dtype */
static int backward(const rt_ctx *ctx, const rt_call *c, row_fn *f32, row_fn *f64) {
    const rt_view *grad = rt_arg_view(c, 0);
    return run(ctx, grad, rt_arg_view(c, 1), rt_arg_dim(c, 2, grad->rank), &c->out[0], f32, f64);
}
int rt_k_softmax(const rt_ctx *ctx, const rt_call *c) { return forward(ctx, c, softmax_row, softmax_f64); }
int rt_k_log_softmax(const rt_ctx *ctx, const rt_call *c) { return forward(ctx, c, log_softmax_row, log_softmax_f64); }
int rt_k_softmax_backward(const rt_ctx *ctx, const rt_call *c) {
    return backward(ctx, c, softmax_backward_f32, softmax_backward_f64);
}
int rt_k_log_softmax_backward(const rt_ctx *ctx, const rt_call *c) {
    return backward(ctx, c, log_softmax_backward_row, log_softmax_backward_f64);
}
