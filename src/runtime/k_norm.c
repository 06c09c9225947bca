/* k_norm.c: layer, group and batch normalisation, forward.
 *
 * All three are "normalise segments, then scale and shift by channel": statistics in f64 for f32 inputs would cost
 * nothing in accuracy we need, so rows are summed pairwise in their own class and the variance takes a second pass.
 * Backward forms are decompositions in the op table. */
#include "runtime/kernels.h"
#include "runtime/rt_reduce.h"
#include "runtime/rt_wide.h"

#include <math.h>

/* The squares of n numbers less m, added up. Sixteen sums side by side, because each waits for its last addition. */
#define SQUARES(T, suffix)                                                                        \
    RT_INLINE double squares_##suffix(const T *x, int64_t n, double m) {                          \
        double s[16] = { 0 };                                                                     \
        int64_t i = 0;                                                                            \
        for (; i + 16 <= n; i += 16)                                                              \
            for (int k = 0; k < 16; k++) s[k] += ((double)x[i + k] - m) * ((double)x[i + k] - m); \
        for (; i < n; i++) s[0] += ((double)x[i] - m) * ((double)x[i] - m);                       \
        for (int step = 8; step; step /= 2)                                                       \
            for (int k = 0; k < step; k++) s[k] += s[k + step];                                   \
        return s[0];                                                                              \
    }
SQUARES(float, f32)
SQUARES(double, f64)

RT_INLINE double squares(int compute, const void *x, int64_t n, double m) {
    return compute == RT_F32 ? squares_f32(x, n, m) : squares_f64(x, n, m);
}
static double sum(int compute, const void *x, int64_t n) {
    return compute == RT_F32 ? (double)rt_sum_f32(x, n) : rt_sum_f64(x, n);
}

/* Mean and 1/sqrt(var + eps) of n numbers. */
RT_INLINE void statistics(int compute, const void *x, int64_t n, double eps, double *mean, double *rstd) {
    *mean = sum(compute, x, n) / (double)n;
    *rstd = 1 / sqrt(squares(compute, x, n, *mean) / (double)n + eps);
}

/* y = x * scale + shift over n numbers. */
#define AFFINE(T, suffix)                                                           \
    RT_INLINE void affine_##suffix(const T *x, int64_t n, T scale, T shift, T *y) { \
        for (int64_t i = 0; i < n; i++) y[i] = x[i] * scale + shift;                \
    }
AFFINE(float, f32)
AFFINE(double, f64)

RT_INLINE void affine(int compute, const void *x, int64_t n, double scale, double shift, void *y) {
    if (compute == RT_F32) affine_f32(x, n, (float)scale, (float)shift, y);
    else affine_f64(x, n, scale, shift, y);
}

/* y = (x - mean) * scale + shift: exactly `shift` where a segment holds one number many times. */
#define CENTRED(T, suffix)                                                                   \
    RT_INLINE void centred_##suffix(const T *x, int64_t n, T mean, T scale, T shift, T *y) { \
        for (int64_t i = 0; i < n; i++) y[i] = (x[i] - mean) * scale + shift;                \
    }
CENTRED(float, f32)
CENTRED(double, f64)

RT_INLINE void centred(int compute, const void *x, int64_t n, double mean, double scale, double shift, void *y) {
    if (compute == RT_F32) centred_f32(x, n, (float)mean, (float)scale, (float)shift, y);
    else centred_f64(x, n, mean, scale, shift, y);
}

/* Everything a forward pass works with, as contiguous memory of one compute class. */
typedef struct norm {
    const rt_ctx *ctx;
    int compute;
    int64_t item, numel;
    rt_view x;          /* contiguous */
    const double *weight, *bias; /* per channel or element; NULL: 1 and 0 */
    double *mean, *rstd;
    char *y;
    void *scratch[6];
    int nscratch;
    int64_t rows, n, channels, inner, groups;
    double eps;
} norm;

static void *norm_alloc(norm *w, int64_t bytes) {
    void *p = rt_scratch(w->ctx, (size_t)bytes);
    if (p) w->scratch[w->nscratch++] = p;
    return p;
}

static void norm_free(norm *w) {
    for (int i = 0; i < w->nscratch; i++) rt_scratch_free(w->ctx, w->scratch[i]);
}

/* An optional parameter as doubles. */
static int read_param(norm *w, const rt_view *v, const double **out) {
    *out = NULL;
    if (!v) return RT_OK;
    rt_view flat;
    void *scratch = NULL;
    int code = rt_contiguous(w->ctx, v, RT_F64, &flat, &scratch);
    if (scratch) w->scratch[w->nscratch++] = scratch;
    *out = flat.p;
    return code;
}

/* Results go straight to `out` where that is dense memory of the class that is computed in. */
static int norm_begin(norm *w, const rt_ctx *ctx, const rt_view *x, const rt_view *out, int64_t nstats) {
    w->ctx = ctx;
    w->compute = rt_compute_dtype(x->dtype);
    if (w->compute != RT_F32 && w->compute != RT_F64)
        return rt_fail(ctx, RT_ENOTIMPL, "normalisation needs a floating dtype");
    w->item = rt_itemsize(w->compute);
    w->numel = rt_numel(x);
    void *scratch = NULL;
    int code = rt_contiguous(ctx, x, w->compute, &w->x, &scratch);
    if (scratch) w->scratch[w->nscratch++] = scratch;
    if (code) return code;
    w->y = out->dtype == w->compute && rt_is_contiguous(out) ? out->p : norm_alloc(w, w->numel * w->item);
    w->mean = norm_alloc(w, 2 * nstats * (int64_t)sizeof *w->mean);
    w->rstd = w->mean ? w->mean + nstats : NULL;
    return (w->y || !w->numel) && w->mean ? RT_OK : RT_ENOMEM;
}

static int store(norm *w, const rt_view *out, int dtype, void *p) {
    if (!out || !out->p || out->p == p || !rt_numel(out)) return RT_OK;
    rt_view from = rt_view_contiguous(p, dtype, out->rank, out->size);
    return rt_copy(w->ctx, out, &from);
}

/* ---- layer norm: rows of n elements, weight and bias by element ---- */

/* One row, in double: (x - mean) * rstd * weight + bias. The common forms have loops of their own. */
#define LAYER_ROW(T, suffix)                                                                           \
    RT_INLINE void layer_row_##suffix(const T *x, int64_t n, double m, double s, const double *weight, \
                                      const double *bias, T *y) {                                      \
        if (weight && bias)                                                                            \
            for (int64_t i = 0; i < n; i++) y[i] = (T)(((double)x[i] - m) * s * weight[i] + bias[i]);  \
        else if (weight)                                                                               \
            for (int64_t i = 0; i < n; i++) y[i] = (T)(((double)x[i] - m) * s * weight[i]);            \
        else                                                                                           \
            for (int64_t i = 0; i < n; i++) y[i] = (T)(((double)x[i] - m) * s + (bias ? bias[i] : 0)); \
    }
LAYER_ROW(float, f32)
LAYER_ROW(double, f64)

RT_INLINE int layer_rows_body(void *arg, int64_t begin, int64_t end) {
    norm *w = arg;
    for (int64_t r = begin; r < end; r++) {
        const char *x = (const char *)w->x.p + r * w->n * w->item;
        char *y = w->y + r * w->n * w->item;
        statistics(w->compute, x, w->n, w->eps, &w->mean[r], &w->rstd[r]);
        if (w->compute == RT_F32)
            layer_row_f32((const float *)(const void *)x, w->n, w->mean[r], w->rstd[r], w->weight, w->bias,
                          (float *)(void *)y);
        else
            layer_row_f64((const double *)(const void *)x, w->n, w->mean[r], w->rstd[r], w->weight, w->bias,
                          (double *)(void *)y);
    }
    return RT_OK;
}
RT_WIDE(layer_rows)

int rt_k_layer_norm(const rt_ctx *ctx, const rt_call *c) { /* input, normalized_shape, weight, bias, eps */
    const rt_view *x = rt_arg_view(c, 0);
    norm w = { .eps = rt_arg_float(c, 4), .n = 1 };
    for (int d = x->rank - (int)c->arg[1].n; d < x->rank; d++) w.n *= x->size[d];
    int64_t numel = rt_numel(x);
    w.rows = w.n ? numel / w.n : rt_numel(&c->out[1]);
    if (!w.n) { /* statistics of nothing: mean 0, variance 0 over no elements */
        rt_scalar zero = { RT_ARG_FLOAT, 0, 0.0, 0 }, nan = { RT_ARG_FLOAT, 0, NAN, 0 };
        int code = rt_fill(ctx, &c->out[1], zero);
        return code ? code : rt_fill(ctx, &c->out[2], nan);
    }
    int code = norm_begin(&w, ctx, x, &c->out[0], w.rows);
    if (!code) code = read_param(&w, rt_arg_view(c, 2), &w.weight);
    if (!code) code = read_param(&w, rt_arg_view(c, 3), &w.bias);
    if (!code) code = rt_parallel_work(ctx, w.rows, w.n, 8192, RT_WIDEST(layer_rows), &w);
    if (!code) code = store(&w, &c->out[0], w.compute, w.y);
    if (!code) code = store(&w, &c->out[1], RT_F64, w.mean);
    if (!code) code = store(&w, &c->out[2], RT_F64, w.rstd);
    norm_free(&w);
    return code;
}

/* ---- group norm: segments of (C / groups) * inner elements, weight and bias by channel ---- */

RT_INLINE int group_rows_body(void *arg, int64_t begin, int64_t end) {
    norm *w = arg;
    int64_t per_group = w->channels / w->groups;
    for (int64_t r = begin; r < end; r++) {
        int64_t at = r * per_group * w->inner * w->item;
        statistics(w->compute, (const char *)w->x.p + at, per_group * w->inner, w->eps, &w->mean[r], &w->rstd[r]);
        for (int64_t k = 0; k < per_group; k++) {
            int64_t channel = r % w->groups * per_group + k, offset = at + k * w->inner * w->item;
            double scale = w->rstd[r] * (w->weight ? w->weight[channel] : 1);
            centred(w->compute, (const char *)w->x.p + offset, w->inner, w->mean[r], scale,
                    w->bias ? w->bias[channel] : 0, w->y + offset);
        }
    }
    return RT_OK;
}
RT_WIDE(group_rows)

int rt_k_group_norm(const rt_ctx *ctx, const rt_call *c) { /* input, weight, bias, N, C, HxW, group, eps */
    const rt_view *x = rt_arg_view(c, 0);
    norm w = {
        .eps = rt_arg_float(c, 7), .channels = rt_arg_int(c, 4), .inner = rt_arg_int(c, 5), .groups = rt_arg_int(c, 6)
    };
    w.rows = rt_arg_int(c, 3) * w.groups;
    if (!rt_numel(x)) {
        rt_scalar zero = { RT_ARG_FLOAT, 0, 0.0, 0 }, nan = { RT_ARG_FLOAT, 0, NAN, 0 };
        int code = rt_fill(ctx, &c->out[1], zero);
        return code ? code : rt_fill(ctx, &c->out[2], nan);
    }
    int code = norm_begin(&w, ctx, x, &c->out[0], w.rows);
    if (!code) code = read_param(&w, rt_arg_view(c, 1), &w.weight);
    if (!code) code = read_param(&w, rt_arg_view(c, 2), &w.bias);
    if (!code) code = rt_parallel_work(ctx, w.rows, w.inner * w.channels / w.groups, 8192, RT_WIDEST(group_rows), &w);
    if (!code) code = store(&w, &c->out[0], w.compute, w.y);
    if (!code) code = store(&w, &c->out[1], RT_F64, w.mean);
    if (!code) code = store(&w, &c->out[2], RT_F64, w.rstd);
    norm_free(&w);
    return code;
}

/* ---- batch norm: statistics by channel over batch and space, given or computed ---- */

RT_INLINE int batch_statistics_body(void *arg, int64_t begin, int64_t end) {
    norm *w = arg;
    int64_t batch = w->rows, m = batch * w->inner;
    for (int64_t ch = begin; ch < end; ch++) {
        const char *first = (const char *)w->x.p + ch * w->inner * w->item;
        int64_t apart = w->channels * w->inner * w->item;
        double s = 0, q = 0;
        for (int64_t b = 0; b < batch; b++) s += sum(w->compute, first + b * apart, w->inner);
        double mean = s / (double)m;
        for (int64_t b = 0; b < batch; b++) q += squares(w->compute, first + b * apart, w->inner, mean);
        w->mean[ch] = mean;
        w->rstd[ch] = q / (double)m; /* the variance, until the running statistics are updated */
    }
    return RT_OK;
}
RT_WIDE(batch_statistics)

RT_INLINE int batch_apply_body(void *arg, int64_t begin, int64_t end) {
    norm *w = arg;
    for (int64_t r = begin; r < end; r++) {
        int64_t ch = r % w->channels, at = r * w->inner * w->item;
        double scale = w->rstd[ch] * (w->weight ? w->weight[ch] : 1);
        affine(w->compute, (const char *)w->x.p + at, w->inner, scale,
               (w->bias ? w->bias[ch] : 0) - w->mean[ch] * scale, w->y + at);
    }
    return RT_OK;
}
RT_WIDE(batch_apply)

/* Rows of channels ([batch, channels]): a channel is a column, so BATCH_COLUMNS of them are taken side by side. */
enum { BATCH_COLUMNS = 16 };

#define COLUMN_LOOPS(T, suffix)                                                                                \
    RT_INLINE void column_statistics_##suffix(norm *w, int64_t first, int n) {                                 \
        const T *x = (const T *)w->x.p + first;                                                                \
        double mean[BATCH_COLUMNS] = { 0 }, q[BATCH_COLUMNS] = { 0 };                                          \
        for (int64_t r = 0; r < w->rows; r++)                                                                  \
            for (int k = 0; k < n; k++) mean[k] += x[r * w->channels + k];                                     \
        for (int k = 0; k < n; k++) mean[k] /= (double)w->rows;                                                \
        for (int64_t r = 0; r < w->rows; r++)                                                                  \
            for (int k = 0; k < n; k++) {                                                                      \
                double d = x[r * w->channels + k] - mean[k];                                                   \
                q[k] += d * d;                                                                                 \
            }                                                                                                  \
        for (int k = 0; k < n; k++) w->mean[first + k] = mean[k], w->rstd[first + k] = q[k] / (double)w->rows; \
    }                                                                                                          \
    RT_INLINE void column_apply_##suffix(norm *w, int64_t first, int n, int64_t begin, int64_t end) {          \
        const T *x = (const T *)w->x.p + first;                                                                \
        T *y = (T *)w->y + first, scale[BATCH_COLUMNS], shift[BATCH_COLUMNS];                                  \
        for (int k = 0; k < n; k++) {                                                                          \
            double by = w->rstd[first + k] * (w->weight ? w->weight[first + k] : 1);                           \
            scale[k] = (T)by, shift[k] = (T)((w->bias ? w->bias[first + k] : 0) - w->mean[first + k] * by);    \
        }                                                                                                      \
        for (int64_t r = begin; r < end; r++)                                                                  \
            for (int k = 0; k < n; k++) y[r * w->channels + k] = x[r * w->channels + k] * scale[k] + shift[k]; \
    }
COLUMN_LOOPS(float, f32)
COLUMN_LOOPS(double, f64)

/* Whole groups have a count that is known, and loops without an end to look for. */
RT_INLINE int column_statistics_body(void *arg, int64_t begin, int64_t end) {
    norm *w = arg;
    for (int64_t first = begin * BATCH_COLUMNS; first < end * BATCH_COLUMNS && first < w->channels;
         first += BATCH_COLUMNS) {
        int64_t left = w->channels - first;
        int n = left < BATCH_COLUMNS ? (int)left : BATCH_COLUMNS;
        if (w->compute == RT_F64) column_statistics_f64(w, first, n);
        else if (n < BATCH_COLUMNS) column_statistics_f32(w, first, n);
        else column_statistics_f32(w, first, BATCH_COLUMNS);
    }
    return RT_OK;
}
RT_WIDE(column_statistics)

RT_INLINE int column_apply_body(void *arg, int64_t begin, int64_t end) {
    norm *w = arg;
    for (int64_t first = 0; first < w->channels; first += BATCH_COLUMNS) {
        int64_t left = w->channels - first;
        int n = left < BATCH_COLUMNS ? (int)left : BATCH_COLUMNS;
        if (w->compute == RT_F64) column_apply_f64(w, first, n, begin, end);
        else if (n < BATCH_COLUMNS) column_apply_f32(w, first, n, begin, end);
        else column_apply_f32(w, first, BATCH_COLUMNS, begin, end);
    }
    return RT_OK;
}
RT_WIDE(column_apply)

/* running = (1 - momentum) * running + momentum * batch */
static int update_running(const rt_ctx *ctx, const rt_view *running, const rt_view *target, const double *batch,
                          double momentum, double factor) {
    if (!running) return RT_OK;
    int64_t n = running->size[0];
    double *mixed = rt_scratch(ctx, (size_t)n * sizeof *mixed);
    if (!mixed) return RT_ENOMEM;
    rt_view as_double = rt_view_contiguous(mixed, RT_F64, 1, &n);
    int code = rt_copy(ctx, &as_double, running);
    for (int64_t i = 0; i < n; i++) mixed[i] = (1 - momentum) * mixed[i] + momentum * batch[i] * factor;
    if (!code) code = rt_copy(ctx, target, &as_double);
    rt_scratch_free(ctx, mixed);
    return code;
}

typedef struct batch_args {
    const rt_view *x, *weight, *bias, *running_mean, *running_var;
    const rt_view *new_mean, *new_var; /* where updated running statistics go; NULL: not updated */
    bool training;
    double momentum, eps;
    const rt_view *out, *save_mean, *save_rstd;
} batch_args;

static int batch_norm(const rt_ctx *ctx, const batch_args *a) {
    const rt_view *x = a->x;
    norm w = { .eps = a->eps, .channels = x->size[1], .rows = x->size[0], .inner = 1 };
    for (int d = 2; d < x->rank; d++) w.inner *= x->size[d];
    int code = norm_begin(&w, ctx, x, a->out, w.channels);
    if (!code) code = read_param(&w, a->weight, &w.weight);
    if (!code) code = read_param(&w, a->bias, &w.bias);
    int64_t m = w.rows * w.inner, groups = (w.channels + BATCH_COLUMNS - 1) / BATCH_COLUMNS;
    bool columns = w.inner == 1 && w.channels > 1;
    if (!code && a->training) {
        code = columns ? rt_parallel_work(ctx, groups, m * BATCH_COLUMNS, 8192, RT_WIDEST(column_statistics), &w)
                       : rt_parallel_work(ctx, w.channels, m, 8192, RT_WIDEST(batch_statistics), &w);
        if (!code && a->new_mean) code = update_running(ctx, a->running_mean, a->new_mean, w.mean, a->momentum, 1);
        if (!code && a->new_var)
            code = update_running(ctx, a->running_var, a->new_var, w.rstd, a->momentum, (double)m / (double)(m - 1));
    } else if (!code) {
        rt_view mean = rt_view_contiguous(w.mean, RT_F64, 1, &w.channels),
                var = rt_view_contiguous(w.rstd, RT_F64, 1, &w.channels);
        code = rt_copy(ctx, &mean, a->running_mean);
        if (!code) code = rt_copy(ctx, &var, a->running_var);
    }
    if (!code) {
        for (int64_t ch = 0; ch < w.channels; ch++) w.rstd[ch] = 1 / sqrt(w.rstd[ch] + w.eps);
        code = columns ? rt_parallel_work(ctx, w.rows, w.channels, 8192, RT_WIDEST(column_apply), &w)
                       : rt_parallel_work(ctx, w.rows * w.channels, w.inner, 8192, RT_WIDEST(batch_apply), &w);
    }
    if (!code) code = store(&w, a->out, w.compute, w.y);
    if (!code && a->training) code = store(&w, a->save_mean, RT_F64, w.mean);
    if (!code && a->training) code = store(&w, a->save_rstd, RT_F64, w.rstd);
    norm_free(&w);
    return code;
}

static batch_args batch_begin(const rt_call *c) {
    return (batch_args){ .x = rt_arg_view(c, 0),
                         .weight = rt_arg_view(c, 1),
                         .bias = rt_arg_view(c, 2),
                         .running_mean = rt_arg_view(c, 3),
                         .running_var = rt_arg_view(c, 4),
                         .out = &c->out[0],
                         .save_mean = &c->out[1],
                         .save_rstd = &c->out[2] };
}

/* input, weight, bias, running_mean, running_var, training, momentum, eps */
int rt_k_batch_norm(const rt_ctx *ctx, const rt_call *c) {
    batch_args a = batch_begin(c);
    a.training = rt_arg_int(c, 5);
    a.momentum = rt_arg_float(c, 6);
    a.eps = rt_arg_float(c, 7);
    a.new_mean = a.running_mean; /* written in place */
    a.new_var = a.running_var;
    return batch_norm(ctx, &a);
}
int rt_k_batch_norm_no_stats(const rt_ctx *ctx, const rt_call *c) { /* input, weight, bias, training, momentum, eps */
    batch_args a = batch_begin(c);
    a.running_mean = a.running_var = NULL;
    a.training = rt_arg_int(c, 3);
    a.eps = rt_arg_float(c, 5);
    return batch_norm(ctx, &a);
}
/* input, weight, bias, running_mean, running_var, momentum, eps */
int rt_k_batch_norm_no_training(const rt_ctx *ctx, const rt_call *c) {
    batch_args a = batch_begin(c);
    a.eps = rt_arg_float(c, 6);
    return batch_norm(ctx, &a);
}
/* as batch_norm; new statistics are outputs 3 and 4 */
int rt_k_batch_norm_functional(const rt_ctx *ctx, const rt_call *c) {
    batch_args a = batch_begin(c);
    a.training = rt_arg_int(c, 5);
    a.momentum = rt_arg_float(c, 6);
    a.eps = rt_arg_float(c, 7);
    a.new_mean = &c->out[3];
    a.new_var = &c->out[4];
    int code = batch_norm(ctx, &a);
    if (!code && !a.training) code = rt_copy(ctx, &c->out[3], a.running_mean);
    if (!code && !a.training) code = rt_copy(ctx, &c->out[4], a.running_var);
    return code;
}
