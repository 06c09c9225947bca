/* k_norm_backward.c: the derivative of batch normalisation.
 *
 * With h = (x - mean) * rstd, what goes to x is (g - mean(g) - h * mean(g * h)) * rstd * weight, less both means where
 * the statistics were given. Memory is [outer][channels][inner] (inner is 1 for channels last): a channel is a number
 * of runs, or one column of many. Sums are taken in their own class over short stretches, then in f64. */
#include "runtime/kernels.h"
#include "runtime/rt_reduce.h"

#include <math.h>
#include <string.h>

enum { STRETCH = 256, VECTORS = 4, WIDTH = 16 };

typedef struct backward {
    const void *g, *x; /* dense */
    void *dx;          /* dense, or NULL */
    const double *weight, *mean, *rstd;
    double *sums, *dots; /* of every channel: g, and g * (x - mean) */
    int64_t outer, channels, inner;
    bool train;
} backward;

/* dx = g * scale - (x - mean) * slope - shift */
typedef struct coefficients { double scale, slope, shift; } coefficients;
static coefficients coefficients_of(const backward *w, int64_t c) {
    double n = (double)(w->outer * w->inner), r = w->rstd[c], u = w->weight ? r * w->weight[c] : r;
    if (!w->train) return (coefficients){ u, 0, 0 };
    return (coefficients){ u, w->dots[c] * r * r / n * u, w->sums[c] / n * u };
}

#define DEFINE_BACKWARD(T)                                                                                             \
    typedef T lanes_##T __attribute__((vector_size(16), aligned(1), may_alias));                                       \
    static void add_run_##T(const T *g, const T *x, int64_t n, T mean, double *sum, double *dot) {                     \
        enum { EACH = 16 / sizeof(T) };                                                                                \
        for (int64_t at = 0, many; at < n; at += many, g += many, x += many) {                                         \
            lanes_##T s[VECTORS] = { { 0 } }, d[VECTORS] = { { 0 } };                                                  \
            T rest = 0, product = 0;                                                                                   \
            int64_t i = 0;                                                                                             \
            many = n - at < STRETCH ? n - at : STRETCH;                                                                \
            for (; i + VECTORS * EACH <= many; i += VECTORS * EACH)                                                    \
                _Pragma("GCC unroll 4") for (int k = 0; k < VECTORS; k++) {                                            \
                    lanes_##T y = *(const lanes_##T *)(g + i + k * EACH);                                              \
                    s[k] += y, d[k] += y * (*(const lanes_##T *)(x + i + k * EACH) - mean);                            \
                }                                                                                                      \
            for (; i < many; i++) rest += g[i], product += g[i] * (x[i] - mean);                                       \
            lanes_##T a = (s[0] + s[1]) + (s[2] + s[3]), b = (d[0] + d[1]) + (d[2] + d[3]);                            \
            for (unsigned k = 0; k < EACH; k++) rest += a[k], product += b[k];                                         \
            *sum += rest, *dot += product;                                                                             \
        }                                                                                                              \
    }                                                                                                                  \
    static int runs_##T(void *arg, int64_t begin, int64_t end) { /* channels */                                        \
        const backward *w = arg;                                                                                       \
        int64_t step = w->channels * w->inner, n = w->inner;                                                           \
        for (int64_t c = begin; c < end; c++) {                                                                        \
            const T *g = (const T *)w->g + c * n, *x = (const T *)w->x + c * n;                                        \
            T mean = (T)w->mean[c];                                                                                    \
            w->sums[c] = w->dots[c] = 0;                                                                               \
            for (int64_t o = 0; o < w->outer; o++)                                                                     \
                add_run_##T(g + o * step, x + o * step, n, mean, &w->sums[c], &w->dots[c]);                            \
            if (!w->dx) continue;                                                                                      \
            coefficients by = coefficients_of(w, c);                                                                   \
            T scale = (T)by.scale, slope = (T)by.slope, shift = (T)by.shift;                                           \
            for (int64_t o = 0; o < w->outer; o++, g += step, x += step) {                                             \
                T *restrict dx = (T *)w->dx + c * n + o * step;                                                        \
                if (w->train)                                                                                          \
                    for (int64_t i = 0; i < n; i++) dx[i] = g[i] * scale - (x[i] - mean) * slope - shift;              \
                else                                                                                                   \
                    for (int64_t i = 0; i < n; i++) dx[i] = g[i] * scale;                                              \
            }                                                                                                          \
        }                                                                                                              \
        return RT_OK;                                                                                                  \
    }                                                                                                                  \
    /* Channels [first, first + n) of rows; n is at most WIDTH. */                                                     \
    static void add_columns_##T(const backward *w, int64_t first, int n) {                                             \
        T mean[WIDTH];                                                                                                 \
        for (int k = 0; k < n; k++) mean[k] = (T)w->mean[first + k], w->sums[first + k] = w->dots[first + k] = 0;      \
        for (int64_t o = 0, many; o < w->outer; o += many) {                                                           \
            T s[WIDTH] = { 0 }, d[WIDTH] = { 0 };                                                                      \
            many = w->outer - o < STRETCH ? w->outer - o : STRETCH;                                                    \
            for (int64_t i = o; i < o + many; i++) {                                                                   \
                int64_t at = i * w->channels + first;                                                                  \
                const T *g = (const T *)w->g + at, *x = (const T *)w->x + at;                                          \
                for (int k = 0; k < n; k++) s[k] += g[k], d[k] += g[k] * (x[k] - mean[k]);                             \
            }                                                                                                          \
            for (int k = 0; k < n; k++) w->sums[first + k] += s[k], w->dots[first + k] += d[k];                        \
        }                                                                                                              \
    }                                                                                                                  \
    static int columns_##T(void *arg, int64_t begin, int64_t end) { /* groups of channels */                           \
        const backward *w = arg;                                                                                       \
        for (int64_t group = begin; group < end; group++) {                                                            \
            int64_t first = group * WIDTH, left = w->channels - first;                                                 \
            int n = left < WIDTH ? (int)left : WIDTH;                                                                  \
            T scale[WIDTH], slope[WIDTH], shift[WIDTH], mean[WIDTH];                                                   \
            add_columns_##T(w, first, n);                                                                              \
            for (int k = 0; k < n; k++) {                                                                              \
                coefficients by = coefficients_of(w, first + k);                                                       \
                scale[k] = (T)by.scale, slope[k] = (T)by.slope, shift[k] = (T)by.shift;                                \
                mean[k] = (T)w->mean[first + k];                                                                       \
            }                                                                                                          \
            for (int64_t i = 0; w->dx && i < w->outer; i++) {                                                          \
                int64_t at = i * w->channels + first;                                                                  \
                const T *g = (const T *)w->g + at, *x = (const T *)w->x + at;                                          \
                T *restrict dx = (T *)w->dx + at;                                                                      \
                if (w->train)                                                                                          \
                    for (int k = 0; k < n; k++) dx[k] = g[k] * scale[k] - (x[k] - mean[k]) * slope[k] - shift[k];      \
                else                                                                                                   \
                    for (int k = 0; k < n; k++) dx[k] = g[k] * scale[k];                                               \
            }                                                                                                          \
        }                                                                                                              \
        return RT_OK;                                                                                                  \
    }
DEFINE_BACKWARD(float)
DEFINE_BACKWARD(double)

/* Dimensions in the order of memory: the channels' go last. */
static rt_view channels_last(const rt_view *v) {
    rt_view turned = *v;
    for (int d = 2; d < v->rank; d++) turned.size[d - 1] = v->size[d], turned.stride[d - 1] = v->stride[d];
    turned.size[v->rank - 1] = v->size[1], turned.stride[v->rank - 1] = v->stride[1];
    return turned;
}

static int params(const rt_ctx *ctx, const rt_view *v, const double **p, void **scratch) {
    rt_view flat = { 0 };
    int code = v ? rt_contiguous(ctx, v, RT_F64, &flat, scratch) : RT_OK;
    *p = flat.p;
    return code;
}

static int give(const rt_ctx *ctx, const rt_view *out, double *values, int64_t n) {
    rt_view from = rt_view_contiguous(values, RT_F64, 1, &n);
    return out->p ? rt_copy(ctx, out, &from) : RT_OK;
}

/* grad_out, input, weight?, running_mean?, running_var?, save_mean?, save_invstd?, train, eps, output_mask */
RT_KERNEL(rt_k_batch_norm_backward) {
    const rt_view *input = rt_arg_view(c, 1);
    int64_t channels = input->size[1];
    int work = rt_compute_dtype(input->dtype);
    bool last = input->rank > 2 && !rt_is_contiguous(input) && input->stride[1] == 1;
    bool train = rt_arg_int(c, 7);
    bool wanted = c->arg[9].u.ints[0];
    rt_view x = last ? channels_last(input) : *input, g = *rt_arg_view(c, 0), dx = { 0 }, dense_x, dense_g;
    if (last) g = channels_last(&g);
    if (wanted) dx = last ? channels_last(&c->out[0]) : c->out[0];
    if (work != RT_F32 && work != RT_F64)
        return rt_fail(ctx, RT_ENOTIMPL, "not implemented for %s; convert the tensors to a floating dtype",
                       rt_dtype_name(input->dtype));
    void *scratch[8] = { NULL };
    const double *spread = NULL;
    backward w = { .channels = channels, .outer = input->size[0], .inner = 1, .train = train };
    for (int d = 2; d < input->rank; d++) *(last ? &w.outer : &w.inner) *= input->size[d];
    bool direct = wanted && dx.dtype == work && rt_is_contiguous(&dx);
    int code = rt_contiguous(ctx, &x, work, &dense_x, &scratch[0]);
    if (!code) code = rt_contiguous(ctx, &g, work, &dense_g, &scratch[1]);
    if (!code) code = params(ctx, rt_arg_view(c, 2), &w.weight, &scratch[2]);
    if (!code) code = params(ctx, rt_arg_view(c, train ? 5 : 3), &w.mean, &scratch[3]);
    if (!code) code = params(ctx, rt_arg_view(c, train ? 6 : 4), &spread, &scratch[4]);
    double *room = scratch[5] = rt_scratch(ctx, (size_t)channels * 3 * sizeof *room);
    if (!code && !room) code = RT_ENOMEM;
    if (!code && wanted && !direct && !(scratch[6] = rt_scratch(ctx, (size_t)(rt_numel(&x) * rt_itemsize(work)))))
        code = RT_ENOMEM;
    if (!code) {
        w.g = dense_g.p, w.x = dense_x.p, w.dx = direct ? dx.p : scratch[6];
        w.sums = room, w.dots = room + channels, w.rstd = room + 2 * channels;
        for (int64_t i = 0; i < channels; i++)
            room[2 * channels + i] = train ? spread[i] : 1 / sqrt(spread[i] + rt_arg_float(c, 8));
        bool wide = work == RT_F64, columns = w.inner == 1 && channels > 1;
        if (columns) code = rt_parallel_work(ctx, (channels + WIDTH - 1) / WIDTH, w.outer * WIDTH, 8192,
                                             wide ? columns_double : columns_float, &w);
        else code = rt_parallel_work(ctx, channels, w.outer * w.inner, 8192, wide ? runs_double : runs_float, &w);
    }
    if (!code && wanted && !direct) {
        rt_view made = rt_view_contiguous(w.dx, work, dx.rank, dx.size);
        code = rt_copy(ctx, &dx, &made);
    }
    for (int64_t i = 0; i < channels && !code; i++) w.dots[i] *= w.rstd[i];
    if (!code && c->arg[9].u.ints[1]) code = give(ctx, &c->out[1], w.dots, channels);
    if (!code && c->arg[9].u.ints[2]) code = give(ctx, &c->out[2], w.sums, channels);
    for (int i = 0; i < 8; i++) rt_scratch_free(ctx, scratch[i]);
    return code;
}
