/* k_softmax.c: softmax and log-softmax along one dimension, and their backward forms.
 *
 * Rows are brought to the end in f32 or f64. The row's maximum is subtracted first, so nothing overflows; a row of
 * minus infinities gives NaN, as in PyTorch. */
#include "runtime/gemm_isa.h"
#include "runtime/kernels.h"
#include "runtime/rt_fmath.h"
#include "runtime/rt_reduce.h"
#include "runtime/rt_wide.h"

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
BACKWARD(double, f64)

static void log_softmax_backward_f64(const void *a, const void *b, int64_t n, void *out) {
    const double *g = a, *r = b;
    double *y = out, s = rt_sum_f64(g, n);
    for (int64_t i = 0; i < n; i++) y[i] = g[i] - exp(r[i]) * s;
}

/* ---- f32, the common case: rows of n elements next to each other ---- */

typedef struct work {
    row_fn *row;
    const char *a, *b;
    char *out;
    int64_t n, item;
} work;
typedef int rows_fn(void *arg, int64_t begin, int64_t end);

static int run_rows(void *arg, int64_t begin, int64_t end) {
    const work *w = arg;
    for (int64_t r = begin; r < end; r++) {
        int64_t at = r * w->n * w->item;
        w->row(w->a + at, w->b ? w->b + at : NULL, w->n, w->out + at);
    }
    return RT_OK;
}

/* Rows no longer than SHORT are worked on in blocks, so that the loops with exponentials and divisions are long. */
enum { BLOCK = 1024, SHORT = 32 };

/* The exponentials of a long row by the loops of the instruction set, which attention uses, too. Their sums are of
 * single precision, so it adds up in blocks. */
static double exps_of_row(const float *x, int64_t n, float *y, double *top) {
    const gemm_kind *kind = gemm_kind_get(RT_F32);
    double sum = 0;
    *top = kind->most(x, n);
    if (y != x) memcpy(y, x, (size_t)n * sizeof *y);
    for (int64_t i = 0; i < n; i += BLOCK) sum += kind->exps(y + i, n - i < BLOCK ? n - i : BLOCK, 1, *top);
    return sum;
}
RT_INLINE void softmax_row(const float *x, int64_t n, bool logarithm, float *y) {
    double top, sum = exps_of_row(x, n, y, &top);
    float t = (float)top, s = logarithm ? (float)log(sum) : (float)sum;
    if (logarithm)
        for (int64_t i = 0; i < n; i++) y[i] = x[i] - t - s;
    else
        for (int64_t i = 0; i < n; i++) y[i] /= s;
}

/* `rows` short rows: what is subtracted from every element, then what it is divided by or what is subtracted, too. */
RT_INLINE void softmax_block(const float *x, int64_t rows, int64_t n, bool logarithm, float *y) {
    float less[BLOCK], exps[BLOCK], sums[BLOCK];
    int64_t count = rows * n;
    for (int64_t at = 0; at < count; at += n) {
        float top = x[at];
        for (int64_t i = 1; i < n; i++) top = x[at + i] > top ? x[at + i] : top;
        for (int64_t i = 0; i < n; i++) less[at + i] = top;
    }
    for (int64_t i = 0; i < count; i++) exps[i] = rt_exp_f32(x[i] - less[i]);
    for (int64_t at = 0; at < count; at += n) {
        float sum = exps[at];
        for (int64_t i = 1; i < n; i++) sum += exps[at + i];
        for (int64_t i = 0; i < n; i++) sums[at + i] = sum;
    }
    if (logarithm)
        for (int64_t i = 0; i < count; i++) y[i] = x[i] - less[i] - rt_log_f32(sums[i]);
    else
        for (int64_t i = 0; i < count; i++) y[i] = exps[i] / sums[i];
}
RT_INLINE int softmax_of_rows(const work *w, int64_t begin, int64_t end, bool logarithm) {
    const float *x = (const float *)(const void *)w->a;
    float *y = (float *)(void *)w->out;
    int64_t n = w->n, many = n <= SHORT ? BLOCK / n : 1;
    for (int64_t r = begin; r < end; r += many)
        if (n > SHORT) softmax_row(x + r * n, n, logarithm, y + r * n);
        else softmax_block(x + r * n, end - r < many ? end - r : many, n, logarithm, y + r * n);
    return RT_OK;
}
RT_INLINE int softmax_rows_body(void *arg, int64_t begin, int64_t end) {
    return softmax_of_rows(arg, begin, end, false);
}
RT_INLINE int log_softmax_rows_body(void *arg, int64_t begin, int64_t end) {
    return softmax_of_rows(arg, begin, end, true);
}
RT_WIDE(softmax_rows)
RT_WIDE(log_softmax_rows)

/* The sum of a block's own row for each of its elements. */
RT_INLINE void sums_of_short_rows(const float *x, int64_t count, int64_t n, float *sums) {
    for (int64_t at = 0; at < count; at += n) {
        float sum = 0;
        for (int64_t i = 0; i < n; i++) sum += x[at + i];
        for (int64_t i = 0; i < n; i++) sums[at + i] = sum;
    }
}
RT_INLINE int log_softmax_backward_rows_body(void *arg, int64_t begin, int64_t end) {
    const work *w = arg;
    const float *g = (const float *)(const void *)w->a, *r = (const float *)(const void *)w->b;
    float *y = (float *)(void *)w->out, sums[BLOCK];
    int64_t n = w->n, many = n <= SHORT ? BLOCK / n : 1;
    for (int64_t row = begin; row < end; row += many) {
        int64_t first = row * n, last = (end - row < many ? end : row + many) * n;
        float sum = 0;
        if (n <= SHORT) sums_of_short_rows(g + first, last - first, n, sums);
        else sum = rt_sum_f32(g + first, n);
        if (n <= SHORT)
            for (int64_t i = first; i < last; i++) y[i] = g[i] - rt_exp_f32(r[i]) * sums[i - first];
        else
            for (int64_t i = first; i < last; i++) y[i] = g[i] - rt_exp_f32(r[i]) * sum;
    }
    return RT_OK;
}
RT_WIDE(log_softmax_backward_rows)

RT_INLINE int softmax_backward_rows_body(void *arg, int64_t begin, int64_t end) {
    const work *w = arg;
    const float *g = (const float *)(const void *)w->a, *r = (const float *)(const void *)w->b;
    float *y = (float *)(void *)w->out, products[BLOCK], sums[BLOCK];
    int64_t n = w->n, many = n <= SHORT ? BLOCK / n : 1;
    for (int64_t row = begin; row < end; row += many) {
        int64_t first = row * n, last = (end - row < many ? end : row + many) * n;
        if (n <= SHORT) {
            for (int64_t i = first; i < last; i++) products[i - first] = g[i] * r[i];
            sums_of_short_rows(products, last - first, n, sums);
            for (int64_t i = first; i < last; i++) y[i] = (g[i] - sums[i - first]) * r[i];
            continue;
        }
        for (int64_t i = first; i < last; i++) y[i] = g[i] * r[i];
        float sum = rt_sum_f32(y + first, n);
        for (int64_t i = first; i < last; i++) y[i] = (g[i] - sum) * r[i];
    }
    return RT_OK;
}
RT_WIDE(softmax_backward_rows)

/* Along another dimension than the last: columns of dense f32 memory, a block of neighbours at a time, narrow enough
 * that a block's elements are still near when they are read again. */
enum { COLUMNS = 256, FEW_COLUMNS = 32, NEAR = 1 << 17 /* elements */ };
typedef struct column_work {
    const float *in;
    float *out;
    int64_t n, inner, width, blocks;
    bool logarithm;
} column_work;

RT_INLINE void softmax_columns(const column_work *w, const float *x, int64_t width, float *y) {
    int64_t apart = w->inner;
    float top[COLUMNS], exps[COLUMNS];
    double sum[COLUMNS] = { 0 };
    memcpy(top, x, (size_t)width * sizeof *top);
    for (int64_t r = 1; r < w->n; r++)
        for (int64_t c = 0; c < width; c++) top[c] = x[r * apart + c] > top[c] ? x[r * apart + c] : top[c];
    for (int64_t r = 0; r < w->n; r++) {
        float *to = w->logarithm ? exps : y + r * apart;
        for (int64_t c = 0; c < width; c++) to[c] = rt_exp_f32(x[r * apart + c] - top[c]);
        for (int64_t c = 0; c < width; c++) sum[c] += (double)to[c];
    }
    for (int64_t c = 0; c < width; c++) exps[c] = (float)sum[c];
    if (w->logarithm)
        for (int64_t c = 0; c < width; c++) exps[c] = rt_log_f32(exps[c]);
    for (int64_t r = 0; r < w->n; r++)
        if (w->logarithm)
            for (int64_t c = 0; c < width; c++) y[r * apart + c] = x[r * apart + c] - top[c] - exps[c];
        else
            for (int64_t c = 0; c < width; c++) y[r * apart + c] /= exps[c];
}
RT_INLINE int run_columns_body(void *arg, int64_t begin, int64_t end) {
    const column_work *w = arg;
    for (int64_t unit = begin; unit < end; unit++) {
        int64_t first = unit % w->blocks * w->width, at = unit / w->blocks * w->n * w->inner + first;
        softmax_columns(w, w->in + at, w->inner - first < w->width ? w->inner - first : w->width, w->out + at);
    }
    return RT_OK;
}
RT_WIDE(run_columns)

static int64_t columns_at_once(int64_t n) {
    int64_t near = NEAR / n / FEW_COLUMNS * FEW_COLUMNS;
    return near > COLUMNS ? COLUMNS : near > FEW_COLUMNS ? near : FEW_COLUMNS;
}

static bool goes_by_columns(const rt_view *self, const rt_view *out, int dim, int64_t *inner) {
    *inner = 1;
    for (int d = dim + 1; d < self->rank; d++) *inner *= self->size[d];
    return *inner >= 16 && self->dtype == RT_F32 && out->dtype == RT_F32 && rt_is_contiguous(self) &&
           rt_is_contiguous(out);
}

/* f32_rows and f64: how rows of either class are worked on. */
static int run(const rt_ctx *ctx, const rt_view *a, const rt_view *b, int dim, const rt_view *out, rows_fn *f32_rows,
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
        work w = { f64, a_rows.p, b_rows.p, direct ? to.p : result, n, rt_itemsize(compute) };
        code = rt_parallel_work(ctx, numel / n, n, 4096, compute == RT_F32 ? f32_rows : run_rows, &w);
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

/* self, dim, half_to_float */
static int forward(const rt_ctx *ctx, const rt_call *c, bool logarithm, rows_fn *f32_rows, row_fn *f64) {
    const rt_view *self = rt_arg_view(c, 0), *out = &c->out[0];
    int dim = rt_arg_dim(c, 1, self->rank);
    int64_t inner, numel = rt_numel(out);
    if (!numel || !goes_by_columns(self, out, dim, &inner)) return run(ctx, self, NULL, dim, out, f32_rows, f64);
    column_work w = { self->p, out->p, self->size[dim], inner, columns_at_once(self->size[dim]), 0, logarithm };
    w.blocks = (inner + w.width - 1) / w.width;
    int64_t each = w.n * (inner < w.width ? inner : w.width);
    return rt_parallel_work(ctx, numel / (w.n * inner) * w.blocks, each, 4096, RT_WIDEST(run_columns), &w);
}
/* grad_output, output, dim, input_dtype */
static int backward(const rt_ctx *ctx, const rt_call *c, rows_fn *f32_rows, row_fn *f64) {
    const rt_view *grad = rt_arg_view(c, 0);
    return run(ctx, grad, rt_arg_view(c, 1), rt_arg_dim(c, 2, grad->rank), &c->out[0], f32_rows, f64);
}
int rt_k_softmax(const rt_ctx *ctx, const rt_call *c) {
    return forward(ctx, c, false, RT_WIDEST(softmax_rows), softmax_f64);
}
int rt_k_log_softmax(const rt_ctx *ctx, const rt_call *c) {
    return forward(ctx, c, true, RT_WIDEST(log_softmax_rows), log_softmax_f64);
}
int rt_k_softmax_backward(const rt_ctx *ctx, const rt_call *c) {
    return backward(ctx, c, RT_WIDEST(softmax_backward_rows), softmax_backward_f64);
}
int rt_k_log_softmax_backward(const rt_ctx *ctx, const rt_call *c) {
    return backward(ctx, c, RT_WIDEST(log_softmax_backward_rows), log_softmax_backward_f64);
}
