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

/* ---- reading many places at once: to the nearest or linearly, without reflection ----
 *
 * Positions, taps and sums are loops over the places of a block, which become vector code. A tap outside reads the
 * first element and hides it. An axis has fewer than FAR places here, so that whole positions are exact and a number of
 * 32 bits. */
enum { BLOCK = 128, FAR = 4000000 };
#define INLINE static inline __attribute__((always_inline))

#define DEFINE_BLOCKS(T, I, NAME, ATTRIBUTE, WHOLE)                                                                    \
    /* Positions along an axis: where the first tap is, and the weight of the second. */                               \
    ATTRIBUTE static void positions_##NAME(const sampler *s, int axis, const T *grid, int n, int32_t *restrict first,  \
                                           T *restrict second) {                                                       \
        T places = (T)s->size[axis], slope = (s->align ? places - 1 : places) / 2, shift = s->align ? 0 : (T)0.5;      \
        T x[BLOCK], top = places - 1;                                                                                  \
        for (int i = 0; i < n; i++) x[i] = (grid[i * s->axes + axis] + 1) * slope - shift;                             \
        if (s->padding == BORDER)                                                                                      \
            for (int i = 0; i < n; i++) x[i] = !(x[i] > 0) ? 0 : x[i] < top ? x[i] : top;                              \
        for (int i = 0; i < n; i++) x[i] = x[i] > -FAR && x[i] < FAR ? x[i] : (T)-100;                                 \
        if (s->mode == NEAREST)                                                                                        \
            for (int i = 0; i < n; i++) first[i] = (int32_t)((x[i] + WHOLE) - WHOLE), second[i] = 0;                   \
        else                                                                                                           \
            for (int i = 0; i < n; i++) {                                                                              \
                int32_t cut = (int32_t)x[i], low = cut - (x[i] < (T)cut);                                              \
                first[i] = low, second[i] = x[i] - (T)low;                                                             \
            }                                                                                                          \
    }                                                                                                                  \
    ATTRIBUTE INLINE void make_taps_##NAME(const sampler *s, int axes, int count, int n,                               \
                                           int32_t (*restrict first)[BLOCK], T (*restrict second)[BLOCK],              \
                                           int32_t (*restrict offset)[BLOCK], I (*restrict inside)[BLOCK],             \
                                           T (*restrict weight)[BLOCK]) {                                              \
        const uint32_t sx = (uint32_t)s->size[0], sy = (uint32_t)s->size[1];                                           \
        const uint32_t sz = axes == 3 ? (uint32_t)s->size[2] : 1;                                                      \
        for (int k = 0; k < count; k++) {                                                                              \
            const int x = k & 1, y = k >> 1 & 1, z = k >> 2;                                                           \
            for (int i = 0; i < n; i++) {                                                                              \
                uint32_t at = axes == 3 ? (uint32_t)(first[2][i] + z) : 0;                                             \
                uint32_t row = (uint32_t)(first[1][i] + y), column = (uint32_t)(first[0][i] + x);                      \
                bool in = (at < sz) & (row < sy) & (column < sx);                                                      \
                uint32_t to = (at * sy + row) * sx + column;                                                           \
                offset[k][i] = in ? (int32_t)to : 0, inside[k][i] = -(I)in;                                            \
            }                                                                                                          \
            for (int i = 0; i < n; i++) {                                                                              \
                T w = x ? second[0][i] : 1 - second[0][i];                                                             \
                w *= y ? second[1][i] : 1 - second[1][i];                                                              \
                weight[k][i] = axes == 3 ? w * (z ? second[2][i] : 1 - second[2][i]) : w;                              \
            }                                                                                                          \
        }                                                                                                              \
    }                                                                                                                  \
    ATTRIBUTE INLINE void add_taps_##NAME(const T *restrict in, int count, int n, int32_t (*restrict offset)[BLOCK],   \
                                          I (*restrict inside)[BLOCK], T (*restrict weight)[BLOCK], T *restrict out) { \
        for (int i = 0; i < n; i++) {                                                                                  \
            T sum = 0;                                                                                                 \
            for (int k = 0; k < count; k++) {                                                                          \
                I bits;                                                                                                \
                T x = in[offset[k][i]];                                                                                \
                memcpy(&bits, &x, sizeof x);                                                                           \
                bits &= inside[k][i];                                                                                  \
                memcpy(&x, &bits, sizeof x);                                                                           \
                sum += weight[k][i] * x;                                                                               \
            }                                                                                                          \
            out[i] = sum;                                                                                              \
        }                                                                                                              \
    }                                                                                                                  \
    ATTRIBUTE static int NAME(void *arg, int64_t begin, int64_t end) { /* places of all images */                      \
        const sampler *s = arg;                                                                                        \
        int count = s->mode == NEAREST ? 1 : 1 << s->axes;                                                             \
        int32_t first[MAX_AXES][BLOCK], offset[8][BLOCK];                                                              \
        T second[MAX_AXES][BLOCK], weight[8][BLOCK];                                                                   \
        I inside[8][BLOCK];                                                                                            \
        for (int64_t i = begin, n; i < end; i += n) {                                                                  \
            int64_t image = i / s->places, at = i % s->places;                                                         \
            n = s->places - at < end - i ? s->places - at : end - i;                                                   \
            if (n > BLOCK) n = BLOCK;                                                                                  \
            const T *grid = (const T *)s->grid + i * s->axes, *in = (const T *)s->input + image * s->channels * s->in; \
            T *out = (T *)s->out + image * s->channels * s->places + at;                                               \
            for (int a = 0; a < s->axes; a++) positions_##NAME(s, a, grid, (int)n, first[a], second[a]);               \
            if (s->axes == 2) make_taps_##NAME(s, 2, count, (int)n, first, second, offset, inside, weight);            \
            else make_taps_##NAME(s, 3, count, (int)n, first, second, offset, inside, weight);                         \
            for (int64_t c = 0; c < s->channels; c++, in += s->in, out += s->places) {                                 \
                if (count == 1) add_taps_##NAME(in, 1, (int)n, offset, inside, weight, out);                           \
                else if (count == 4) add_taps_##NAME(in, 4, (int)n, offset, inside, weight, out);                      \
                else add_taps_##NAME(in, 8, (int)n, offset, inside, weight, out);                                      \
            }                                                                                                          \
        }                                                                                                              \
        return RT_OK;                                                                                                  \
    }
DEFINE_BLOCKS(float, int32_t, blocks_float, , 12582912.0f)
DEFINE_BLOCKS(double, int64_t, blocks_double, , 6755399441055744.0)
#if defined(__x86_64__)
DEFINE_BLOCKS(float, int32_t, blocks_float_avx2, __attribute__((target("avx2"))), 12582912.0f)
DEFINE_BLOCKS(double, int64_t, blocks_double_avx2, __attribute__((target("avx2"))), 6755399441055744.0)
#endif

static int (*reader_of(const sampler *s))(void *, int64_t, int64_t) {
    bool blocks = s->mode != CUBIC && s->padding != REFLECTION && s->in && s->in <= INT32_MAX;
    for (int a = 0; a < s->axes; a++) blocks &= s->size[a] < FAR;
    if (!blocks) return s->wide ? read_double : read_float;
#if defined(__x86_64__)
    if (rt_cpu() & RT_CPU_AVX2) return s->wide ? blocks_double_avx2 : blocks_float_avx2;
#endif
    return s->wide ? blocks_double : blocks_float;
}

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
        code = rt_parallel_work(ctx, s.batch * s.places, s.channels, 2048, reader_of(&s), &s);
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
