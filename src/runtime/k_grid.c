/* k_grid.c: an image or volume read at places that a grid names, between -1 and 1 along each axis, and the derivatives.
 *
 * A place becomes a few taps: offsets into one channel, weights, and the weights' slopes along each axis of the grid.
 * All modes and paddings differ only in how taps are made; reading, spreading a gradient over the taps and the gradient
 * of the grid are loops over taps and channels. Taps outside (padding with zeros) are left out. */
#include "runtime/kernels.h"

#include <math.h>
#include <string.h>

enum { LINEAR, NEAREST, CUBIC };
enum { ZEROS, BORDER, REFLECTION };
enum { MAX_TAPS = 16, MAX_AXES = 3 };

typedef struct sampler {
    const void *input, *grid, *grad; /* contiguous, in the work dtype */
    void *out, *grad_grid;
    int64_t batch, channels, in, places; /* elements of a channel, places per image */
    int64_t size[MAX_AXES];              /* of the input: x (innermost) first */
    int axes, mode, padding;
    bool align, wide;
} sampler;

#define DEFINE_SAMPLER(T, FLOOR, FABS, FMOD, ROUND)                                                                    \
    typedef struct taps_##T {                                                                                          \
        int n;                                                                                                         \
        int64_t offset[MAX_TAPS];                                                                                      \
        T weight[MAX_TAPS], slope[MAX_AXES][MAX_TAPS], step[MAX_AXES];                                                 \
    } taps_##T;                                                                                                        \
    /* Positions far outside become one that is outside for sure, and that an integer can hold. */                     \
    static T tame_##T(T x) { return x > -1e9 && x < 1e9 ? x : (T)-100; }                                               \
    static T unnormalized_##T(const sampler *s, T x, int64_t n, T *slope) {                                            \
        if (s->axes == 2) {                                                                                            \
            *slope = s->align ? (T)(n - 1) / 2 : (T)n / 2;                                                             \
            return s->align ? (x + 1) * *slope : (x + 1) * *slope - (T)0.5;                                            \
        }                                                                                                              \
        *slope = s->align ? (T)(n - 1) / 2 : (T)n / 2;                                                                 \
        return s->align ? (x + 1) / 2 * (T)(n - 1) : ((x + 1) * (T)n - 1) / 2;                                         \
    }                                                                                                                  \
    /* Beyond the border nothing changes; the zero keeps its sign in volumes only, as PyTorch's kernels have it. */    \
    static T clipped_##T(const sampler *s, T x, int64_t n, T *slope) {                                                 \
        if (x > 0 && x < (T)(n - 1)) return x;                                                                         \
        *slope = s->axes == 3 ? *slope * 0 : 0;                                                                        \
        return !(x > 0) ? 0 : (T)(n - 1);                                                                              \
    }                                                                                                                  \
    static T reflected_##T(const sampler *s, T x, int64_t n, T *slope) {                                               \
        T low = s->align ? 0 : (T)-0.5, span = s->align ? (T)(n - 1) : (T)n;                                           \
        if (span <= 0) return *slope = 0, (T)0;                                                                        \
        T far = x - low, sign = 1;                                                                                     \
        if (far < 0) far = -far, sign = -1;                                                                            \
        T extra = FMOD(far, span), flips = FLOOR(far / span);                                                          \
        bool odd = FMOD(flips, 2) != 0;                                                                                \
        *slope *= odd ? -sign : sign;                                                                                  \
        return odd ? span - extra + low : extra + low;                                                                 \
    }                                                                                                                  \
    static T padded_##T(const sampler *s, T x, int64_t n, T *slope) {                                                  \
        if (s->padding == REFLECTION) x = reflected_##T(s, x, n, slope);                                               \
        if (s->padding != ZEROS) x = clipped_##T(s, x, n, slope);                                                      \
        return tame_##T(x);                                                                                            \
    }                                                                                                                  \
    static T near_cubic_##T(T x) { return ((T)1.25 * x - (T)2.25) * x * x + 1; }                                       \
    static T far_cubic_##T(T x) { return (((T)-0.75 * x + (T)3.75) * x - 6) * x + 3; }                                 \
    static void cubic_##T(T t, T *weight, T *slope) {                                                                  \
        T x[4] = { t + 1, t, 1 - t, 2 - t };                                                                           \
        weight[0] = far_cubic_##T(x[0]), weight[1] = near_cubic_##T(x[1]);                                             \
        weight[2] = near_cubic_##T(x[2]), weight[3] = far_cubic_##T(x[3]);                                             \
        slope[0] = ((T)-2.25 * x[0] + (T)7.5) * x[0] - 6, slope[1] = ((T)3.75 * x[1] - (T)4.5) * x[1];                 \
        slope[2] = -((T)3.75 * x[2] - (T)4.5) * x[2], slope[3] = -(((T)-2.25 * x[3] + (T)7.5) * x[3] - 6);             \
    }                                                                                                                  \
    /* The taps along one axis: positions (or -1 outside), weights, slopes by position; `step`: positions per unit */  \
    static int axis_##T(const sampler *s, T at, int64_t n, int64_t *from, T *weight, T *slope, T *step) {              \
        T d, x = unnormalized_##T(s, at, n, &d);                                                                       \
        int count = s->mode == LINEAR ? 2 : s->mode == NEAREST ? 1 : 4;                                                \
        int64_t first;                                                                                                 \
        if (s->mode == CUBIC) {                                                                                        \
            x = tame_##T(x);                                                                                           \
            T low = FLOOR(x), one;                                                                                     \
            cubic_##T(x - low, weight, slope);                                                                         \
            for (int k = 0; k < 4; k++) {                                                                              \
                one = 1;                                                                                               \
                from[k] = (int64_t)padded_##T(s, low - 1 + (T)k, n, &one);                                             \
            }                                                                                                          \
        } else {                                                                                                       \
            x = padded_##T(s, x, n, &d);                                                                               \
            first = (int64_t)(s->mode == NEAREST ? ROUND(x) : FLOOR(x));                                               \
            from[0] = first;                                                                                           \
            weight[0] = 1, slope[0] = 0;                                                                               \
            if (s->mode == LINEAR) {                                                                                   \
                from[1] = first + 1;                                                                                   \
                weight[1] = x - (T)first, weight[0] = 1 - weight[1];                                                   \
                slope[0] = -1, slope[1] = 1;                                                                           \
            }                                                                                                          \
        }                                                                                                              \
        for (int k = 0; k < count; k++)                                                                                \
            if (from[k] < 0 || from[k] >= n) from[k] = -1;                                                             \
        *step = d;                                                                                                     \
        return count;                                                                                                  \
    }                                                                                                                  \
    static void place_##T(const sampler *s, const T *grid, taps_##T *t) {                                              \
        int64_t from[MAX_AXES][4];                                                                                     \
        T weight[MAX_AXES][4], slope[MAX_AXES][4];                                                                     \
        int count = 1;                                                                                                 \
        for (int a = 0; a < s->axes; a++)                                                                              \
            count = axis_##T(s, grid[a], s->size[a], from[a], weight[a], slope[a], &t->step[a]);                       \
        t->n = 0;                                                                                                      \
        int64_t total = s->axes == 3 ? (int64_t)count * count * count : (int64_t)count * count;                        \
        for (int64_t k = 0; k < total; k++) {                                                                          \
            int at[MAX_AXES] = { (int)(k % count), (int)(k / count % count), (int)(k / count / count) };               \
            int64_t offset = 0;                                                                                        \
            bool outside = false;                                                                                      \
            for (int a = s->axes - 1; a >= 0; a--) {                                                                   \
                outside |= from[a][at[a]] < 0;                                                                         \
                offset = offset * s->size[a] + from[a][at[a]];                                                         \
            }                                                                                                          \
            if (outside) continue;                                                                                     \
            T w = 1;                                                                                                   \
            for (int a = 0; a < s->axes; a++) w *= weight[a][at[a]];                                                   \
            for (int a = 0; a < s->axes; a++) {                                                                        \
                T along = slope[a][at[a]];                                                                             \
                for (int o = 0; o < s->axes; o++)                                                                      \
                    if (o != a) along *= weight[o][at[o]];                                                             \
                t->slope[a][t->n] = along;                                                                             \
            }                                                                                                          \
            t->offset[t->n] = offset;                                                                                  \
            t->weight[t->n++] = w;                                                                                     \
        }                                                                                                              \
    }                                                                                                                  \
    static int read_##T(void *arg, int64_t begin, int64_t end) { /* places of all images */                            \
        const sampler *s = arg;                                                                                        \
        taps_##T t;                                                                                                    \
        for (int64_t i = begin; i < end; i++) {                                                                        \
            int64_t image = i / s->places;                                                                             \
            const T *in = (const T *)s->input + image * s->channels * s->in;                                           \
            T *out = (T *)s->out + image * s->channels * s->places + i % s->places;                                    \
            place_##T(s, (const T *)s->grid + i * s->axes, &t);                                                        \
            for (int64_t c = 0; c < s->channels; c++, in += s->in, out += s->places) {                                 \
                T sum = 0;                                                                                             \
                for (int k = 0; k < t.n; k++) sum += t.weight[k] * in[t.offset[k]];                                    \
                *out = sum;                                                                                            \
            }                                                                                                          \
        }                                                                                                              \
        return RT_OK;                                                                                                  \
    }                                                                                                                  \
    static int spread_##T(void *arg, int64_t begin, int64_t end) { /* whole images, so that no element is shared */    \
        const sampler *s = arg;                                                                                        \
        taps_##T t;                                                                                                    \
        for (int64_t i = begin * s->places; i < end * s->places; i++) {                                                \
            int64_t image = i / s->places;                                                                             \
            const T *in = (const T *)s->input + image * s->channels * s->in;                                           \
            const T *grad = (const T *)s->grad + image * s->channels * s->places + i % s->places;                      \
            T *out = s->out ? (T *)s->out + image * s->channels * s->in : NULL, slope[MAX_AXES] = { 0 };               \
            place_##T(s, (const T *)s->grid + i * s->axes, &t);                                                        \
            for (int64_t c = 0; c < s->channels; c++, in += s->in, grad += s->places) {                                \
                for (int k = 0; k < t.n; k++) {                                                                        \
                    if (out) out[t.offset[k]] += t.weight[k] * *grad;                                                  \
                    for (int a = 0; a < s->axes; a++) slope[a] += t.slope[a][k] * in[t.offset[k]] * *grad;             \
                }                                                                                                      \
                if (out) out += s->in;                                                                                 \
            }                                                                                                          \
            for (int a = 0; a < s->axes; a++)                                                                          \
                ((T *)s->grad_grid)[i * s->axes + a] = s->mode == NEAREST ? 0 : slope[a] * t.step[a];                  \
        }                                                                                                              \
        return RT_OK;                                                                                                  \
    }
DEFINE_SAMPLER(float, floorf, fabsf, fmodf, nearbyintf)
DEFINE_SAMPLER(double, floor, fabs, fmod, nearbyint)

/* `at`: where input and grid are among the arguments; mode, padding and align_corners follow. */
static int open_sampler(sampler *s, const rt_ctx *ctx, const rt_call *c, int at, void **scratch) {
    const rt_view *input = rt_arg_view(c, at), *grid = rt_arg_view(c, at + 1);
    rt_view dense = { 0 };
    *s = (sampler){ .batch = input->size[0],
                    .channels = input->size[1],
                    .in = 1,
                    .places = 1,
                    .axes = input->rank - 2,
                    .mode = (int)rt_arg_int(c, at + 2),
                    .padding = (int)rt_arg_int(c, at + 3),
                    .align = rt_arg_int(c, at + 4),
                    .wide = input->dtype == RT_F64 };
    for (int a = 0; a < s->axes; a++) {
        s->size[a] = input->size[input->rank - 1 - a];
        s->in *= s->size[a];
        s->places *= grid->size[1 + a];
    }
    int code = rt_contiguous(ctx, input, s->wide ? RT_F64 : RT_F32, &dense, &scratch[0]);
    s->input = dense.p;
    if (!code) code = rt_contiguous(ctx, grid, s->wide ? RT_F64 : RT_F32, &dense, &scratch[1]);
    s->grid = dense.p;
    return code;
}

/* Room for a result: its own memory where that will do, else scratch that close_result copies from. */
static int open_result(const rt_ctx *ctx, const rt_view *out, bool wide, void **p, void **scratch) {
    int dtype = wide ? RT_F64 : RT_F32;
    size_t bytes = (size_t)(rt_numel(out) * rt_itemsize(dtype));
    *p = out->dtype == dtype && rt_is_contiguous(out) ? out->p : (*scratch = rt_scratch(ctx, bytes));
    if (!*p && bytes) return RT_ENOMEM;
    if (bytes) memset(*p, 0, bytes);
    return RT_OK;
}
static int close_result(const rt_ctx *ctx, const rt_view *out, bool wide, void *scratch) {
    if (!scratch) return RT_OK;
    rt_view from = rt_view_contiguous(scratch, wide ? RT_F64 : RT_F32, out->rank, out->size);
    return rt_copy(ctx, out, &from);
}

/* input, grid, interpolation_mode, padding_mode, align_corners */
int rt_k_grid_sampler(const rt_ctx *ctx, const rt_call *c) {
    sampler s;
    void *scratch[3] = { NULL };
    int code = open_sampler(&s, ctx, c, 0, scratch);
    if (!code) code = open_result(ctx, &c->out[0], s.wide, &s.out, &scratch[2]);
    if (!code)
        code = rt_parallel_work(ctx, s.batch * s.places, s.channels, 2048, s.wide ? read_double : read_float, &s);
    if (!code) code = close_result(ctx, &c->out[0], s.wide, scratch[2]);
    for (int i = 0; i < 3; i++) rt_scratch_free(ctx, scratch[i]);
    return code;
}

/* grad_output, input, grid, interpolation_mode, padding_mode, align_corners, output_mask */
int rt_k_grid_sampler_backward(const rt_ctx *ctx, const rt_call *c) {
    sampler s;
    rt_view grad;
    void *scratch[5] = { NULL };
    bool wanted = c->arg[6].u.ints[0]; /* the gradient of the grid is always given, as in PyTorch */
    const rt_view *grid_out = &c->out[1];
    int code = open_sampler(&s, ctx, c, 1, scratch);
    if (!code) code = rt_contiguous(ctx, rt_arg_view(c, 0), s.wide ? RT_F64 : RT_F32, &grad, &scratch[2]);
    if (!code && wanted) code = open_result(ctx, &c->out[0], s.wide, &s.out, &scratch[3]);
    if (!code) code = open_result(ctx, grid_out, s.wide, &s.grad_grid, &scratch[4]);
    if (!code) {
        s.grad = grad.p;
        code = rt_parallel_for(ctx, s.batch, 1, s.wide ? spread_double : spread_float, &s);
    }
    if (!code && wanted) code = close_result(ctx, &c->out[0], s.wide, scratch[3]);
    if (!code) code = close_result(ctx, grid_out, s.wide, scratch[4]);
    for (int i = 0; i < 5; i++) rt_scratch_free(ctx, scratch[i]);
    return code;
}
