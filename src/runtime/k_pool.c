/* k_pool.c: max and average pooling in one to three dimensions, plain and adaptive, and their backward forms.
 *
 * Every window is a box of positions: per dimension a first and last position (and a step, for dilation), known from
 * the output index alone. One loop over boxes serves all ranks; missing dimensions have size 1. Planes run in parallel.
 * Where the channels of float pixels are dense and no indices are wanted, whole pixels are compared or added, image
 * rows in parallel. */
#include "runtime/conv_isa.h"
#include "runtime/kernels.h"
#include "runtime/rt_math.h"
#include "runtime/rt_reduce.h"

#include <math.h>
#include <string.h>

enum { DIMS = 3 };

typedef struct pool {
    const rt_ctx *ctx;
    int64_t in[DIMS], out[DIMS];              /* depth, height, width */
    int64_t kernel[DIMS], stride[DIMS], padding[DIMS], dilation[DIMS];
    int spatial;
    bool adaptive, include_pad;
    int64_t divisor;                          /* 0: the window's own size */
    int64_t planes;
    const void *x;
    void *y;
    int64_t *index;
} pool;

typedef struct box { int64_t from[DIMS], to[DIMS], step[DIMS]; double area; } box;

/* Positions that output (o[0], o[1], o[2]) looks at. */
static box window(const pool *p, const int64_t *o) {
    box b;
    b.area = 1;
    for (int d = 0; d < DIMS; d++) {
        b.step[d] = p->adaptive ? 1 : p->dilation[d];
        if (p->adaptive) {
            b.from[d] = o[d] * p->in[d] / p->out[d];
            b.to[d] = ((o[d] + 1) * p->in[d] + p->out[d] - 1) / p->out[d];
            b.area *= (double)(b.to[d] - b.from[d]);
            continue;
        }
        int64_t from = o[d] * p->stride[d] - p->padding[d], to = from + (p->kernel[d] - 1) * p->dilation[d] + 1;
        int64_t padded = to < p->in[d] + p->padding[d] ? to : p->in[d] + p->padding[d];
        double with_pad = (double)(padded - from);
        if (from < 0) from += (-from + p->dilation[d] - 1) / p->dilation[d] * p->dilation[d];
        if (to > p->in[d]) to = p->in[d];
        b.from[d] = from;
        b.to[d] = to;
        b.area *= p->include_pad ? with_pad : (double)(to - from);
    }
    if (p->divisor) b.area = (double)p->divisor;
    return b;
}

#define EACH(p, o)                                                                                                     \
    for (int64_t o[DIMS] = { 0 }; o[0] < (p)->out[0]; o[0]++)                                                          \
        for (o[1] = 0; o[1] < (p)->out[1]; o[1]++)                                                                     \
            for (o[2] = 0; o[2] < (p)->out[2]; o[2]++)
#define INSIDE(p, b, at)                                                                             \
    for (int64_t z = (b).from[0]; z < (b).to[0]; z += (b).step[0])                                   \
        for (int64_t y = (b).from[1]; y < (b).to[1]; y += (b).step[1])                               \
            for (int64_t x = (b).from[2], at = (z * (p)->in[1] + y) * (p)->in[2] + x; x < (b).to[2]; \
                 x += (b).step[2], at += (b).step[2])

static int64_t volume(const int64_t *n) { return n[0] * n[1] * n[2]; }

/* How many positions a window looks at; a kernel may be far larger than the image. */
static int64_t window_volume(const pool *p) {
    int64_t n = 1;
    for (int d = 0; d < DIMS; d++) n *= p->kernel[d] < p->in[d] ? p->kernel[d] : p->in[d];
    return n;
}

#define MAX_POOL(name, T, lowest)                                                                                      \
    static int name(void *arg, int64_t begin, int64_t end) {                                                           \
        const pool *p = arg;                                                                                           \
        for (int64_t plane = begin; plane < end; plane++) {                                                            \
            const T *in = (const T *)p->x + plane * volume(p->in);                                                     \
            int64_t k = plane * volume(p->out);                                                                        \
            EACH(p, o) {                                                                                               \
                box b = window(p, o);                                                                                  \
                int64_t best = (b.from[0] * p->in[1] + b.from[1]) * p->in[2] + b.from[2];                              \
                T top = lowest;                                                                                        \
                INSIDE(p, b, at) if (in[at] > top || in[at] != in[at]) top = in[at], best = at;                        \
                ((T *)p->y)[k] = top;                                                                                  \
                if (p->index) p->index[k] = best;                                                                      \
                k++;                                                                                                   \
            }                                                                                                          \
        }                                                                                                              \
        return RT_OK;                                                                                                  \
    }
MAX_POOL(max_f32, float, -INFINITY)
MAX_POOL(max_f64, double, -INFINITY)
MAX_POOL(max_i64, int64_t, INT64_MIN)

#define AVG_POOL(name, T, acc, add)                                \
    static int name(void *arg, int64_t begin, int64_t end) {       \
        const pool *p = arg;                                       \
        for (int64_t plane = begin; plane < end; plane++) {        \
            const T *in = (const T *)p->x + plane * volume(p->in); \
            T *out = (T *)p->y + plane * volume(p->out);           \
            EACH(p, o) {                                           \
                box b = window(p, o);                              \
                acc s = 0;                                         \
                INSIDE(p, b, at) s = add(s, in[at]);               \
                *out++ = (T)(s / (acc)b.area);                     \
            }                                                      \
        }                                                          \
        return RT_OK;                                              \
    }
#define PLUS(a, b) ((a) + (b))
AVG_POOL(avg_f32, float, double, PLUS)
AVG_POOL(avg_f64, double, double, PLUS)
AVG_POOL(avg_i64, int64_t, int64_t, rt_add_i64)

/* y (the input's gradient) += x (the output's gradient) spread over the window */
static int avg_backward(void *arg, int64_t begin, int64_t end) {
    const pool *p = arg;
    for (int64_t plane = begin; plane < end; plane++) {
        const double *grad = (const double *)p->x + plane * volume(p->out);
        double *to = (double *)p->y + plane * volume(p->in);
        EACH(p, o) {
            box b = window(p, o);
            double share = *grad++ / b.area;
            INSIDE(p, b, at) to[at] += share;
        }
    }
    return RT_OK;
}

static int max_backward(void *arg, int64_t begin, int64_t end) {
    const pool *p = arg;
    int64_t n = volume(p->out), room = volume(p->in);
    for (int64_t plane = begin; plane < end; plane++) {
        double *to = (double *)p->y + plane * room;
        for (int64_t i = plane * n; i < (plane + 1) * n; i++) {
            int64_t at = p->index[i];
            if (at < 0 || at >= room)
                return rt_fail(p->ctx, RT_ERUNTIME, "index %lld is out of bounds: a plane has %lld elements",
                               (long long)at, (long long)room);
            to[at] += ((const double *)p->x)[i];
        }
    }
    return RT_OK;
}

/* ---- reading arguments: `spatial` trailing dimensions are pooled ---- */

static void read_sizes(pool *p, const rt_view *in, const rt_view *out, int spatial) {
    p->planes = 1;
    p->spatial = spatial;
    for (int d = 0; d < in->rank - spatial; d++) p->planes *= in->size[d];
    for (int d = 0; d < DIMS; d++) {
        int from = in->rank - DIMS + d;
        p->in[d] = d < DIMS - spatial ? 1 : in->size[from];
        p->out[d] = d < DIMS - spatial ? 1 : out->size[from];
        p->kernel[d] = p->stride[d] = p->dilation[d] = 1;
        p->padding[d] = 0;
    }
}

static int64_t list_at(const rt_arg *a, int i, int64_t fallback) {
    return a->n ? a->u.ints[a->n == 1 ? 0 : i] : fallback;
}

/* kernel, stride (empty: the kernel), padding; dilation where `dilation` >= 0 */
static void read_window(pool *p, const rt_call *c, int kernel, int dilation, int spatial) {
    for (int i = 0; i < spatial; i++) {
        int d = DIMS - spatial + i;
        p->kernel[d] = list_at(&c->arg[kernel], i, 1);
        p->stride[d] = list_at(&c->arg[kernel + 1], i, p->kernel[d]);
        p->padding[d] = list_at(&c->arg[kernel + 2], i, 0);
        if (dilation >= 0) p->dilation[d] = list_at(&c->arg[dilation], i, 1);
    }
}

/* ---- whole pixels: channels-last floats ---- */

typedef struct pixels { const pool *p; const rt_view *x, *y; bool max; } pixels;

static int pixel_rows(void *arg, int64_t begin, int64_t end) {
    const pixels *s = arg;
    const pool *p = s->p;
    const conv_isa *isa = conv_isa_get();
    int64_t channels = s->x->size[1], bytes = channels * 4;
    for (int64_t at = begin; at < end; at++) {
        int64_t n = at / p->out[1], o[DIMS] = { 0, at % p->out[1], 0 };
        const float *image = (const float *)s->x->p + n * s->x->stride[0];
        float *to = (float *)s->y->p + n * s->y->stride[0] + o[1] * s->y->stride[2];
        for (; o[2] < p->out[2]; o[2]++, to += s->y->stride[3]) {
            box b = window(p, o);
            bool first = true;
            for (int64_t y = b.from[1]; y < b.to[1]; y += b.step[1])
                for (int64_t x = b.from[2]; x < b.to[2]; x += b.step[2], first = false) {
                    const float *pixel = image + y * s->x->stride[2] + x * s->x->stride[3];
                    if (first) memcpy(to, pixel, (size_t)bytes);
                    else if (s->max) isa->most(to, pixel, channels);
                    else isa->sum(to, pixel, channels);
                }
            float scale = (float)b.area;
            /* nothing of the image inside */
            for (int64_t j = 0; first && j < channels; j++) to[j] = s->max ? -INFINITY : 0;
            for (int64_t j = 0; !s->max && j < channels; j++) to[j] /= scale;
        }
    }
    return RT_OK;
}

static bool has_pixels(const pool *p, const rt_view *x) {
    return p->spatial == 2 && x->rank == 4 && x->dtype == RT_F32 && x->stride[1] == 1 && x->size[1] > 1;
}

/* Forward: input rows in their class, results scattered to the output's layout. */
static int forward(const rt_ctx *ctx, const rt_call *c, pool *p, bool max) {
    const rt_view *self = rt_arg_view(c, 0), *out = &c->out[0];
    int64_t numel = rt_numel(out);
    if (!numel) return RT_OK;
    if (c->nout == 1 && has_pixels(p, self) && has_pixels(p, out)) {
        pixels s = { p, self, out, max };
        int64_t row = p->out[2] * self->size[1] *
                      (p->adaptive ? p->in[1] * p->in[2] / (p->out[1] * p->out[2]) + 1 : window_volume(p));
        return rt_parallel_work(ctx, self->size[0] * p->out[1], row, 16 * 1024, pixel_rows, &s);
    }
    int compute = rt_compute_dtype(self->dtype);
    if (compute != RT_F32 && compute != RT_F64 && compute != RT_I64)
        return rt_fail(ctx, RT_ENOTIMPL, "pooling has no kernel for dtype %s", rt_dtype_name(self->dtype));
    rt_view flat;
    void *scratch = NULL, *y = NULL;
    int code = rt_contiguous(ctx, self, compute, &flat, &scratch);
    if (!code && !(y = rt_scratch(ctx, (size_t)(numel * rt_itemsize(compute))))) code = RT_ENOMEM;
    if (!code && c->nout > 1 && !(p->index = rt_scratch(ctx, (size_t)numel * sizeof *p->index))) code = RT_ENOMEM;
    if (!code) {
        p->x = flat.p;
        p->y = y;
        int (*body)(void *, int64_t, int64_t) = max                 ? (compute == RT_F32   ? max_f32
                                                                       : compute == RT_F64 ? max_f64
                                                                                           : max_i64)
                                                : compute == RT_F32 ? avg_f32
                                                : compute == RT_F64 ? avg_f64
                                                                    : avg_i64;
        code = rt_parallel_work(ctx, p->planes, volume(p->out) * window_volume(p), 4096, body, p);
    }
    if (!code) {
        rt_view from = rt_view_contiguous(y, compute, out->rank, out->size);
        code = rt_copy(ctx, out, &from);
    }
    if (!code && p->index) {
        rt_view from = rt_view_contiguous(p->index, RT_I64, c->out[1].rank, c->out[1].size);
        code = rt_copy(ctx, &c->out[1], &from);
    }
    rt_scratch_free(ctx, p->index);
    rt_scratch_free(ctx, y);
    rt_scratch_free(ctx, scratch);
    return code;
}

/* self, kernel, stride, padding, dilation, ceil_mode */
static int max_pool(const rt_ctx *ctx, const rt_call *c, int spatial) {
    pool p = { 0 };
    read_sizes(&p, rt_arg_view(c, 0), &c->out[0], spatial);
    read_window(&p, c, 1, 4, spatial);
    return forward(ctx, c, &p, true);
}
int rt_k_max_pool1d(const rt_ctx *ctx, const rt_call *c) { return max_pool(ctx, c, 1); }
int rt_k_max_pool2d(const rt_ctx *ctx, const rt_call *c) { return max_pool(ctx, c, 2); }
int rt_k_max_pool3d(const rt_ctx *ctx, const rt_call *c) { return max_pool(ctx, c, 3); }

/* kernel, stride, padding, ceil_mode, count_include_pad, divisor_override? */
static void read_average(pool *p, const rt_call *c, int kernel, int spatial) {
    read_window(p, c, kernel, -1, spatial);
    p->include_pad = rt_arg_int(c, kernel + 4);
    p->divisor = spatial > 1 && !rt_arg_is_none(c, kernel + 5) ? rt_arg_int(c, kernel + 5) : 0;
}
static int avg_pool(const rt_ctx *ctx, const rt_call *c, int spatial) {
    pool p = { 0 };
    read_sizes(&p, rt_arg_view(c, 0), &c->out[0], spatial);
    read_average(&p, c, 1, spatial);
    return forward(ctx, c, &p, false);
}
int rt_k_avg_pool1d(const rt_ctx *ctx, const rt_call *c) { return avg_pool(ctx, c, 1); }
int rt_k_avg_pool2d(const rt_ctx *ctx, const rt_call *c) { return avg_pool(ctx, c, 2); }
int rt_k_avg_pool3d(const rt_ctx *ctx, const rt_call *c) { return avg_pool(ctx, c, 3); }

static int adaptive(const rt_ctx *ctx, const rt_call *c, int spatial, bool max) { /* self, output_size */
    pool p = { .adaptive = true };
    read_sizes(&p, rt_arg_view(c, 0), &c->out[0], spatial);
    return forward(ctx, c, &p, max);
}
int rt_k_adaptive_avg_pool2d(const rt_ctx *ctx, const rt_call *c) { return adaptive(ctx, c, 2, false); }
int rt_k_adaptive_avg_pool3d(const rt_ctx *ctx, const rt_call *c) { return adaptive(ctx, c, 3, false); }
int rt_k_adaptive_max_pool2d(const rt_ctx *ctx, const rt_call *c) { return adaptive(ctx, c, 2, true); }
int rt_k_adaptive_max_pool3d(const rt_ctx *ctx, const rt_call *c) { return adaptive(ctx, c, 3, true); }

/* Backward: gradients in f64, added up, then stored in the input's dtype and layout. */
static int backward(const rt_ctx *ctx, const rt_view *grad, const rt_view *index, const rt_view *out, pool *p) {
    int64_t numel = rt_numel(out);
    if (!numel) return RT_OK;
    rt_view flat, flat_index;
    void *scratch = NULL, *index_scratch = NULL, *y = NULL;
    int code = rt_contiguous(ctx, grad, RT_F64, &flat, &scratch);
    if (!code && index) {
        code = rt_contiguous(ctx, index, RT_I64, &flat_index, &index_scratch);
        p->index = flat_index.p;
    }
    if (!code && !(y = rt_scratch(ctx, (size_t)numel * sizeof(double)))) code = RT_ENOMEM;
    if (!code) {
        memset(y, 0, (size_t)numel * sizeof(double));
        p->ctx = ctx;
        p->x = flat.p;
        p->y = y;
        code = rt_parallel_work(ctx, p->planes, volume(p->in), 4096, index ? max_backward : avg_backward, p);
    }
    if (!code) {
        rt_view from = rt_view_contiguous(y, RT_F64, out->rank, out->size);
        code = rt_copy(ctx, out, &from);
    }
    rt_scratch_free(ctx, y);
    rt_scratch_free(ctx, index_scratch);
    rt_scratch_free(ctx, scratch);
    return code;
}

/* grad_output, self, kernel, ..., ceil_mode, indices */
static int max_pool_backward(const rt_ctx *ctx, const rt_call *c, int spatial) {
    pool p = { 0 };
    read_sizes(&p, &c->out[0], rt_arg_view(c, 0), spatial);
    return backward(ctx, rt_arg_view(c, 0), rt_arg_view(c, 7), &c->out[0], &p);
}
int rt_k_max_pool2d_backward(const rt_ctx *ctx, const rt_call *c) { return max_pool_backward(ctx, c, 2); }
int rt_k_max_pool3d_backward(const rt_ctx *ctx, const rt_call *c) { return max_pool_backward(ctx, c, 3); }

/* grad_output, self, kernel, stride, padding, ... */
static int avg_pool_backward(const rt_ctx *ctx, const rt_call *c, int spatial) {
    pool p = { 0 };
    read_sizes(&p, &c->out[0], rt_arg_view(c, 0), spatial);
    read_average(&p, c, 2, spatial);
    return backward(ctx, rt_arg_view(c, 0), NULL, &c->out[0], &p);
}
int rt_k_avg_pool2d_backward(const rt_ctx *ctx, const rt_call *c) { return avg_pool_backward(ctx, c, 2); }
int rt_k_avg_pool3d_backward(const rt_ctx *ctx, const rt_call *c) { return avg_pool_backward(ctx, c, 3); }

static int adaptive_backward(const rt_ctx *ctx, const rt_call *c, int spatial) { /* grad_output, self */
    pool p = { .adaptive = true };
    read_sizes(&p, &c->out[0], rt_arg_view(c, 0), spatial);
    return backward(ctx, rt_arg_view(c, 0), NULL, &c->out[0], &p);
}
int rt_k_adaptive_avg_pool2d_backward(const rt_ctx *ctx, const rt_call *c) { return adaptive_backward(ctx, c, 2); }
int rt_k_adaptive_avg_pool3d_backward(const rt_ctx *ctx, const rt_call *c) { return adaptive_backward(ctx, c, 3); }
