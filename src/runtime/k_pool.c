/* k_pool.c: max and average pooling in one to three dimensions, plain and adaptive, and their backward forms.
 *
 * Every window is a box of positions: per dimension a first and last position (and a step, for dilation), known from
 * the output index alone. Rows of the result take a whole row of the image for each tap, so that loops run along
 * memory; one loop serves all ranks, where missing dimensions have size 1. Planes run in parallel. Where the channels
 * of float pixels are dense and no indices are wanted, whole pixels are compared or added, image rows in parallel. */
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
    struct span *across;                      /* of every output of a row */
} pool;

/* Positions that one output looks at along one dimension, `step` apart; area: how many count for an average. */
typedef struct span { int64_t from, to, step; double area; } span;

static __attribute__((noinline)) span span_of(const pool *p, int d, int64_t o) {
    if (p->adaptive) {
        span s = { o * p->in[d] / p->out[d], ((o + 1) * p->in[d] + p->out[d] - 1) / p->out[d], 1, 0 };
        s.area = (double)(s.to - s.from);
        return s;
    }
    int64_t from = o * p->stride[d] - p->padding[d], to = from + (p->kernel[d] - 1) * p->dilation[d] + 1;
    int64_t padded = to < p->in[d] + p->padding[d] ? to : p->in[d] + p->padding[d];
    double with_pad = (double)(padded - from);
    if (from < 0) from += (-from + p->dilation[d] - 1) / p->dilation[d] * p->dilation[d];
    if (to > p->in[d]) to = p->in[d];
    return (span){ from, to, p->dilation[d], p->include_pad ? with_pad : (double)(to - from) };
}

static int open_spans(pool *p, const rt_ctx *ctx) {
    p->ctx = ctx;
    p->across = rt_scratch(ctx, (size_t)(p->out[2] + 1) * sizeof *p->across);
    if (!p->across) return RT_ENOMEM;
    for (int64_t i = 0; i < p->out[2]; i++) p->across[i] = span_of(p, 2, i);
    return RT_OK;
}

static double area_of(const pool *p, double rows, int64_t o) {
    return p->divisor ? (double)p->divisor : rows * p->across[o].area;
}

/* Rows of a plane's result, `row` numbers them; and of each the rows of the image that it looks at, which begin at
 * `line`. */
#define EACH_ROW(p, row, deep, tall)                                                                                   \
    for (int64_t row = 0; row < (p)->out[0] * (p)->out[1]; row++)                                                      \
        for (span deep = span_of(p, 0, row / (p)->out[1]), tall = span_of(p, 1, row % (p)->out[1]), *once = &deep;     \
             once; once = NULL)
#define EACH_LINE(p, deep, tall, line)                                                                  \
    for (int64_t z = (deep).from; z < (deep).to; z += (deep).step)                                      \
        for (int64_t y_ = (tall).from, line; line = (z * (p)->in[1] + y_) * (p)->in[2], y_ < (tall).to; \
             y_ += (tall).step)

/* Taps of a row: tap k of output o is at o * stride + shift, for the outputs [first, end). Adaptive windows have
 * none. */
typedef struct tap { int64_t shift, first, end; } tap;

static __attribute__((noinline)) int64_t first_tap(const pool *p) { /* the first that any output finds inside */
    int64_t short_of = p->padding[2] - (p->out[2] - 1) * p->stride[2];
    return short_of > 0 ? (short_of + p->dilation[2] - 1) / p->dilation[2] : 0;
}

static __attribute__((noinline)) bool tap_of(const pool *p, int64_t k, tap *t) {
    int64_t shift = k * p->dilation[2] - p->padding[2], stride = p->stride[2];
    if (k >= p->kernel[2] || shift >= p->in[2]) return false;
    t->shift = shift;
    t->first = shift < 0 ? (-shift + stride - 1) / stride : 0;
    t->end = (p->in[2] - 1 - shift) / stride + 1;
    if (t->end > p->out[2]) t->end = p->out[2];
    return true;
}

/* For the outputs o of a row and the places `at` of the line that they look at, the statement, in the window's
 * order. To find the taps takes longer than a few outputs do. */
enum { FEW_OUTPUTS = 8 };
#define EACH_TAP(p, o, at, ...)                                                                                      \
    if ((p)->adaptive || (p)->out[2] < FEW_OUTPUTS) {                                                                \
        for (int64_t o = 0; o < (p)->out[2]; o++)                                                                    \
            for (int64_t at = (p)->across[o].from; at < (p)->across[o].to; at += (p)->across[o].step) {              \
                __VA_ARGS__;                                                                                         \
            }                                                                                                        \
    } else {                                                                                                         \
        tap t;                                                                                                       \
        for (int64_t k = first_tap(p); tap_of(p, k, &t); k++) {                                                      \
            for (int64_t o = t.first, at = o * (p)->stride[2] + t.shift; o < t.end; o++, at += (p)->stride[2]) {     \
                __VA_ARGS__;                                                                                         \
            }                                                                                                        \
        }                                                                                                            \
    }

static int64_t volume(const int64_t *n) { return n[0] * n[1] * n[2]; }

/* How many positions a window looks at; a kernel may be far larger than the image. */
static int64_t window_volume(const pool *p) {
    int64_t n = 1;
    for (int d = 0; d < DIMS; d++) n *= p->kernel[d] < p->in[d] ? p->kernel[d] : p->in[d];
    return n;
}

/* top[i] becomes the larger of itself and x[i * stride]; NaN counts as the largest. */
#define LARGER(a, b) ((((a) > (b)) | ((a) != (a))) ? (a) : (b))
#define TAKE_LARGER(name, T)                                                               \
    static void name(T *restrict top, const T *restrict x, int64_t n, int64_t stride) {    \
        for (int64_t i = 0; i < n; i++) top[i] = LARGER(x[i * stride], top[i]);            \
    }
TAKE_LARGER(larger_f64, double)
TAKE_LARGER(larger_i64, int64_t)

typedef float four __attribute__((vector_size(16), aligned(4)));
typedef int32_t mask __attribute__((vector_size(16)));
/* Without branches, which nothing would foresee. */
static void larger_f32(float *restrict top, const float *restrict x, int64_t n, int64_t stride) {
    int64_t i = 0;
    if (stride == 1) {
        conv_isa_get()->most(top, x, n);
        return;
    }
    for (; i + 4 <= n; i += 4) {
        const float *at = x + i * stride;
        four v = { at[0], at[stride], at[2 * stride], at[3 * stride] }, old = *(four *)(top + i);
        mask take = (v > old) | (v != v);
        *(four *)(top + i) = (four)(((mask)v & take) | ((mask)old & ~take));
    }
    for (; i < n; i++) top[i] = LARGER(x[i * stride], top[i]);
}

/* The same with places: where[i] becomes at + i * stride where x's is taken. Numbers of 32 bits stand in the row of 64
 * until it is finished (widen). */
typedef int32_t place __attribute__((may_alias));
typedef int32_t places __attribute__((vector_size(16), aligned(4), may_alias));
static void larger_at_f32(float *restrict top, place *restrict where, const float *restrict x, int64_t n,
                          int64_t stride, int32_t at) {
    int32_t step = (int32_t)stride;
    mask here = { at, at + step, at + 2 * step, at + 3 * step };
    int64_t i = 0;
    for (; i + 4 <= n; i += 4, here += 4 * step) {
        const float *from = x + i * stride;
        four v = { from[0], from[stride], from[2 * stride], from[3 * stride] }, old = *(four *)(top + i);
        mask take = (v > old) | (v != v), was = *(places *)(where + i);
        *(four *)(top + i) = (four)(((mask)v & take) | ((mask)old & ~take));
        *(places *)(where + i) = (here & take) | (was & ~take);
    }
    for (; i < n; i++) {
        float v = x[i * stride];
        bool take = (v > top[i]) | (v != v);
        top[i] = take ? v : top[i];
        where[i] = take ? at + (int32_t)i * step : where[i];
    }
}

static void widen(int64_t *index, int64_t n) {
    for (int64_t i = n - 1; i >= 0; i--) index[i] = ((const place *)index)[i];
}

/* Planes of floats whose places fit in 32 bits; the first position of an empty or lowest window is where it begins. */
static int max_at_f32(void *arg, int64_t begin, int64_t end) {
    const pool *p = arg;
    int64_t width = p->out[2];
    for (int64_t plane = begin; plane < end; plane++) {
        const float *in = (const float *)p->x + plane * volume(p->in);
        EACH_ROW(p, row, deep, tall) {
            int64_t first = plane * volume(p->out) + row * width, *index = p->index + first;
            float *top = (float *)p->y + first;
            place *where = (place *)index;
            for (int64_t i = 0; i < width; i++) top[i] = -INFINITY;
            for (int64_t i = 0; i < width; i++)
                where[i] = (int32_t)((deep.from * p->in[1] + tall.from) * p->in[2] + p->across[i].from);
            EACH_LINE(p, deep, tall, line) {
                tap t;
                for (int64_t k = first_tap(p); tap_of(p, k, &t); k++) {
                    int64_t at = line + t.first * p->stride[2] + t.shift;
                    if (t.first < t.end)
                        larger_at_f32(top + t.first, where + t.first, in + at, t.end - t.first, p->stride[2],
                                      (int32_t)at);
                }
            }
            widen(index, width);
        }
    }
    return RT_OK;
}

/* The first position of an empty or lowest window is where it begins. */
#define MAX_POOL(name, T, lowest, larger)                                                                         \
    static int name(void *arg, int64_t begin, int64_t end) {                                                       \
        const pool *p = arg;                                                                                       \
        int64_t width = p->out[2];                                                                                 \
        for (int64_t plane = begin; plane < end; plane++) {                                                        \
            const T *in = (const T *)p->x + plane * volume(p->in);                                                 \
            EACH_ROW(p, row, deep, tall) {                                                                         \
                int64_t first = plane * volume(p->out) + row * width, *index = p->index ? p->index + first : NULL; \
                T *top = (T *)p->y + first;                                                                        \
                for (int64_t i = 0; i < width; i++) top[i] = lowest;                                               \
                for (int64_t i = 0; i < width && index; i++)                                                       \
                    index[i] = (deep.from * p->in[1] + tall.from) * p->in[2] + p->across[i].from;                  \
                EACH_LINE(p, deep, tall, line) {                                                                   \
                    const T *x = in + line;                                                                        \
                    if (!index && !p->adaptive) {                                                                  \
                        tap t;                                                                                     \
                        for (int64_t k = first_tap(p); tap_of(p, k, &t); k++)                                      \
                            if (t.first < t.end)                                                                   \
                                larger(top + t.first, x + t.first * p->stride[2] + t.shift, t.end - t.first,       \
                                       p->stride[2]);                                                              \
                    } else if (!index) {                                                                           \
                        EACH_TAP(p, o, at, top[o] = LARGER(x[at], top[o]))                                         \
                    } else {                                                                                       \
                        EACH_TAP(p, o, at, if ((x[at] > top[o]) | (x[at] != x[at])) top[o] = x[at],                \
                                 index[o] = line + at)                                                             \
                    }                                                                                              \
                }                                                                                                  \
            }                                                                                                      \
        }                                                                                                          \
        return RT_OK;                                                                                              \
    }
MAX_POOL(max_f32, float, -INFINITY, larger_f32)
static int max_either_f32(void *arg, int64_t begin, int64_t end) {
    const pool *p = arg;
    const int64_t limit = 1 << 28; /* of places, with room for what a vector looks ahead */
    bool narrow = p->index && !p->adaptive && volume(p->in) < limit && p->stride[2] < limit;
    return narrow ? max_at_f32(arg, begin, end) : max_f32(arg, begin, end);
}
MAX_POOL(max_f64, double, -INFINITY, larger_f64)
MAX_POOL(max_i64, int64_t, INT64_MIN, larger_i64)

/* Sums of a row are kept in `acc` until they are divided. */
#define AVG_POOL(name, T, acc, add)                                                                                    \
    static int name(void *arg, int64_t begin, int64_t end) {                                                           \
        const pool *p = arg;                                                                                           \
        int64_t width = p->out[2];                                                                                     \
        acc *sum = rt_scratch(p->ctx, (size_t)(width + 1) * sizeof *sum);                                              \
        if (!sum) return RT_ENOMEM;                                                                                    \
        for (int64_t plane = begin; plane < end; plane++) {                                                            \
            const T *in = (const T *)p->x + plane * volume(p->in);                                                     \
            EACH_ROW(p, row, deep, tall) {                                                                             \
                T *out = (T *)p->y + plane * volume(p->out) + row * width;                                             \
                for (int64_t i = 0; i < width; i++) sum[i] = 0;                                                        \
                EACH_LINE(p, deep, tall, line) {                                                                       \
                    const T *x = in + line;                                                                            \
                    EACH_TAP(p, o, at, sum[o] = add(sum[o], x[at]))                                                    \
                }                                                                                                      \
                for (int64_t i = 0; i < width; i++) out[i] = (T)(sum[i] / (acc)area_of(p, deep.area * tall.area, i));  \
            }                                                                                                          \
        }                                                                                                              \
        rt_scratch_free(p->ctx, sum);                                                                                  \
        return RT_OK;                                                                                                  \
    }
#define PLUS(a, b) ((a) + (b))
AVG_POOL(avg_f32, float, double, PLUS)
AVG_POOL(avg_f64, double, double, PLUS)
AVG_POOL(avg_i64, int64_t, int64_t, rt_add_i64)

/* y (the input's gradient) += x (the output's gradient), spread over the window or where the maximum was. */
#define POOL_BACKWARD(T, average, maximum)                                                                             \
    static int average(void *arg, int64_t begin, int64_t end) {                                                        \
        const pool *p = arg;                                                                                           \
        int64_t width = p->out[2];                                                                                     \
        T *share = rt_scratch(p->ctx, (size_t)(width + 1) * sizeof *share);                                            \
        if (!share) return RT_ENOMEM;                                                                                  \
        for (int64_t plane = begin; plane < end; plane++) {                                                            \
            EACH_ROW(p, row, deep, tall) {                                                                             \
                const T *grad = (const T *)p->x + plane * volume(p->out) + row * width;                                \
                for (int64_t i = 0; i < width; i++) share[i] = (T)(grad[i] / area_of(p, deep.area * tall.area, i));    \
                EACH_LINE(p, deep, tall, line) {                                                                       \
                    T *to = (T *)p->y + plane * volume(p->in) + line;                                                  \
                    EACH_TAP(p, o, at, to[at] += share[o])                                                             \
                }                                                                                                      \
            }                                                                                                          \
        }                                                                                                              \
        rt_scratch_free(p->ctx, share);                                                                                \
        return RT_OK;                                                                                                  \
    }                                                                                                                  \
    static int maximum(void *arg, int64_t begin, int64_t end) {                                                        \
        const pool *p = arg;                                                                                           \
        int64_t n = volume(p->out), room = volume(p->in);                                                              \
        for (int64_t plane = begin; plane < end; plane++) {                                                            \
            T *to = (T *)p->y + plane * room;                                                                          \
            for (int64_t i = plane * n; i < (plane + 1) * n; i++) {                                                    \
                int64_t at = p->index[i];                                                                              \
                if (at < 0 || at >= room)                                                                              \
                    return rt_fail(p->ctx, RT_ERUNTIME, "index %lld is out of bounds: a plane has %lld elements",      \
                                   (long long)at, (long long)room);                                                    \
                to[at] += ((const T *)p->x)[i];                                                                        \
            }                                                                                                          \
        }                                                                                                              \
        return RT_OK;                                                                                                  \
    }
POOL_BACKWARD(float, average_back_f32, maximum_back_f32)
POOL_BACKWARD(double, average_back_f64, maximum_back_f64)

/* One table for each kind, so that a model links only what it uses. */
typedef int pool_body(void *, int64_t, int64_t);
typedef struct pool_bodies { pool_body *f32, *f64, *i64; bool max; } pool_bodies;
static const pool_bodies largest = { max_either_f32, max_f64, max_i64, true };
static const pool_bodies averages = { avg_f32, avg_f64, avg_i64, false };

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
        int64_t n = at / p->out[1], row = at % p->out[1];
        span tall = span_of(p, 1, row);
        const float *image = (const float *)s->x->p + n * s->x->stride[0];
        float *to = (float *)s->y->p + n * s->y->stride[0] + row * s->y->stride[2];
        for (int64_t o = 0; o < p->out[2]; o++, to += s->y->stride[3]) {
            span wide = p->across[o];
            bool first = true;
            for (int64_t y = tall.from; y < tall.to; y += tall.step)
                for (int64_t x = wide.from; x < wide.to; x += wide.step, first = false) {
                    const float *pixel = image + y * s->x->stride[2] + x * s->x->stride[3];
                    if (first) memcpy(to, pixel, (size_t)bytes);
                    else if (s->max) isa->most(to, pixel, channels);
                    else isa->sum(to, pixel, channels);
                }
            float scale = (float)area_of(p, tall.area, o);
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
static int forward(const rt_ctx *ctx, const rt_call *c, pool *p, const pool_bodies *bodies) {
    const rt_view *self = rt_arg_view(c, 0), *out = &c->out[0];
    int64_t numel = rt_numel(out);
    if (!numel) return RT_OK;
    int code = open_spans(p, ctx);
    if (code) return code;
    if (c->nout == 1 && has_pixels(p, self) && has_pixels(p, out)) {
        pixels s = { p, self, out, bodies->max };
        int64_t row = p->out[2] * self->size[1] *
                      (p->adaptive ? p->in[1] * p->in[2] / (p->out[1] * p->out[2]) + 1 : window_volume(p));
        code = rt_parallel_work(ctx, self->size[0] * p->out[1], row, 16 * 1024, pixel_rows, &s);
        rt_scratch_free(ctx, p->across);
        return code;
    }
    int compute = rt_compute_dtype(self->dtype);
    rt_view flat;
    void *scratch = NULL, *y = NULL, *index = NULL;
    bool direct = out->dtype == compute && rt_is_contiguous(out);
    if (compute != RT_F32 && compute != RT_F64 && compute != RT_I64)
        code = rt_fail(ctx, RT_ENOTIMPL, "pooling has no kernel for dtype %s", rt_dtype_name(self->dtype));
    if (!code) code = rt_contiguous(ctx, self, compute, &flat, &scratch);
    if (!code && !direct && !(y = rt_scratch(ctx, (size_t)(numel * rt_itemsize(compute))))) code = RT_ENOMEM;
    if (!code && c->nout > 1) {
        bool listed = c->out[1].dtype == RT_I64 && rt_is_contiguous(&c->out[1]);
        p->index = listed ? c->out[1].p : (index = rt_scratch(ctx, (size_t)numel * sizeof *p->index));
        if (!p->index) code = RT_ENOMEM;
    }
    if (!code) {
        p->x = flat.p;
        p->y = direct ? out->p : y;
        pool_body *body = compute == RT_F32 ? bodies->f32 : compute == RT_F64 ? bodies->f64 : bodies->i64;
        code = rt_parallel_work(ctx, p->planes, volume(p->out) * window_volume(p), 4096, body, p);
    }
    if (!code && y) {
        rt_view from = rt_view_contiguous(y, compute, out->rank, out->size);
        code = rt_copy(ctx, out, &from);
    }
    if (!code && index) {
        rt_view from = rt_view_contiguous(index, RT_I64, c->out[1].rank, c->out[1].size);
        code = rt_copy(ctx, &c->out[1], &from);
    }
    rt_scratch_free(ctx, index);
    rt_scratch_free(ctx, y);
    rt_scratch_free(ctx, scratch);
    rt_scratch_free(ctx, p->across);
    return code;
}

/* self, kernel, stride, padding, dilation, ceil_mode */
static int max_pool(const rt_ctx *ctx, const rt_call *c, int spatial) {
    pool p = { 0 };
    read_sizes(&p, rt_arg_view(c, 0), &c->out[0], spatial);
    read_window(&p, c, 1, 4, spatial);
    return forward(ctx, c, &p, &largest);
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
    return forward(ctx, c, &p, &averages);
}
int rt_k_avg_pool1d(const rt_ctx *ctx, const rt_call *c) { return avg_pool(ctx, c, 1); }
int rt_k_avg_pool2d(const rt_ctx *ctx, const rt_call *c) { return avg_pool(ctx, c, 2); }
int rt_k_avg_pool3d(const rt_ctx *ctx, const rt_call *c) { return avg_pool(ctx, c, 3); }

/* self, output_size */
static int adaptive(const rt_ctx *ctx, const rt_call *c, int spatial, const pool_bodies *bodies) {
    pool p = { .adaptive = true };
    read_sizes(&p, rt_arg_view(c, 0), &c->out[0], spatial);
    return forward(ctx, c, &p, bodies);
}
int rt_k_adaptive_avg_pool2d(const rt_ctx *ctx, const rt_call *c) { return adaptive(ctx, c, 2, &averages); }
int rt_k_adaptive_avg_pool3d(const rt_ctx *ctx, const rt_call *c) { return adaptive(ctx, c, 3, &averages); }
int rt_k_adaptive_max_pool2d(const rt_ctx *ctx, const rt_call *c) { return adaptive(ctx, c, 2, &largest); }
int rt_k_adaptive_max_pool3d(const rt_ctx *ctx, const rt_call *c) { return adaptive(ctx, c, 3, &largest); }

/* Backward: gradients of other dtypes than f32 in f64, added up, then stored in the input's dtype and layout. */
static int backward(const rt_ctx *ctx, const rt_view *grad, const rt_view *index, const rt_view *out, pool *p) {
    int64_t numel = rt_numel(out);
    if (!numel) return RT_OK;
    bool single = out->dtype == RT_F32, direct = (single || out->dtype == RT_F64) && rt_is_contiguous(out);
    int dtype = single ? RT_F32 : RT_F64;
    size_t bytes = (size_t)(numel * rt_itemsize(dtype));
    rt_view flat, flat_index;
    void *scratch = NULL, *index_scratch = NULL, *y = NULL;
    int code = open_spans(p, ctx);
    if (!code) code = rt_contiguous(ctx, grad, dtype, &flat, &scratch);
    if (!code && index) {
        code = rt_contiguous(ctx, index, RT_I64, &flat_index, &index_scratch);
        p->index = flat_index.p;
    }
    if (!code && !direct && !(y = rt_scratch(ctx, bytes))) code = RT_ENOMEM;
    if (!code) {
        p->x = flat.p;
        p->y = direct ? out->p : y;
        memset(p->y, 0, bytes);
        pool_body *body = index    ? single ? maximum_back_f32 : maximum_back_f64
                          : single ? average_back_f32
                                   : average_back_f64;
        code = rt_parallel_work(ctx, p->planes, volume(p->in), 4096, body, p);
    }
    if (!code && !direct) {
        rt_view from = rt_view_contiguous(y, dtype, out->rank, out->size);
        code = rt_copy(ctx, out, &from);
    }
    rt_scratch_free(ctx, y);
    rt_scratch_free(ctx, index_scratch);
    rt_scratch_free(ctx, scratch);
    rt_scratch_free(ctx, p->across);
    return code;
}

/* grad_output, self, kernel, ..., ceil_mode, indices (argument `indices`) */
static int max_pool_backward(const rt_ctx *ctx, const rt_call *c, int spatial, int indices) {
    pool p = { 0 };
    read_sizes(&p, &c->out[0], rt_arg_view(c, 0), spatial);
    return backward(ctx, rt_arg_view(c, 0), rt_arg_view(c, indices), &c->out[0], &p);
}
int rt_k_max_pool2d_backward(const rt_ctx *ctx, const rt_call *c) { return max_pool_backward(ctx, c, 2, 7); }
int rt_k_max_pool3d_backward(const rt_ctx *ctx, const rt_call *c) { return max_pool_backward(ctx, c, 3, 7); }
/* grad_output, self, indices */
int rt_k_adaptive_max_pool2d_backward(const rt_ctx *ctx, const rt_call *c) { return max_pool_backward(ctx, c, 2, 2); }
int rt_k_adaptive_max_pool3d_backward(const rt_ctx *ctx, const rt_call *c) { return max_pool_backward(ctx, c, 3, 2); }
/* grad_output, self, kernel_size, output_size, indices */
int rt_k_fractional_pool2d_backward(const rt_ctx *ctx, const rt_call *c) { return max_pool_backward(ctx, c, 2, 4); }
int rt_k_fractional_pool3d_backward(const rt_ctx *ctx, const rt_call *c) { return max_pool_backward(ctx, c, 3, 4); }

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
