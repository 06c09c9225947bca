/* k_quantize.c: numbers rounded to a grid of integers, and back: what a quantised model would have computed.
 *
 * x becomes scale * (q - zero), where q = clamp(round(x / scale) + zero, low, high); the mask says where q was inside.
 * All in f32 as PyTorch does it (f64 for f64 inputs), because neighbours of halves would land on another q
 * otherwise. */
#include "runtime/kernels.h"

#include <math.h>

/* narrow: q passes through an int64. shifted: the zero of the grid lies between its points, so it is added before
 * rounding. */
typedef struct grid { double scale, zero, low, high; bool narrow, shifted; } grid;

#define DEFINE_ROUND(T, nearest)                                                                                       \
    static void round_##T(const T *x, int64_t n, const grid *g, T *y, uint8_t *mask) {                                 \
        float scale = (float)g->scale, zero = (float)g->zero;                                                          \
        T inverse = 1.0f / scale, low = (T)g->low, high = (T)g->high;                                                  \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            T q = g->shifted ? nearest(x[i] * inverse + zero) : nearest(x[i] * inverse) + zero;                        \
            if (g->narrow) q = q < (T)0x1p63 && q >= (T)-0x1p63 ? (T)(int64_t)q : (T)-0x1p63;                          \
            mask[i] = q >= low && q <= high;                                                                           \
            q = q >= low ? q <= high ? q : high : low;                                                                 \
            y[i] = (q - zero) * scale;                                                                                 \
        }                                                                                                              \
    }
DEFINE_ROUND(float, nearbyintf)
DEFINE_ROUND(double, nearbyint)

typedef struct job {
    const grid *grids;
    int64_t channels, inner; /* element i has channel i / inner % channels */
    int dtype;
    const char *x;
    char *y;
    uint8_t *mask;
} job;

static int round_rows(void *arg, int64_t begin, int64_t end) {
    const job *j = arg;
    for (int64_t row = begin; row < end; row++) {
        const grid *g = &j->grids[row % j->channels];
        int64_t at = row * j->inner;
        if (j->dtype == RT_F64) round_double((const double *)j->x + at, j->inner, g, (double *)j->y + at, j->mask + at);
        else round_float((const float *)j->x + at, j->inner, g, (float *)j->y + at, j->mask + at);
    }
    return RT_OK;
}

static int fake_quantize(const rt_ctx *ctx, const rt_call *c, const grid *grids, int64_t channels, int axis) {
    const rt_view *self = rt_arg_view(c, 0);
    int dtype = self->dtype == RT_F64 ? RT_F64 : RT_F32;
    int64_t n = rt_numel(self), inner = 1;
    rt_view x, y;
    void *copied = NULL, *room = rt_scratch(ctx, (size_t)(n * (rt_itemsize(dtype) + 1)));
    int code = room ? rt_contiguous(ctx, self, dtype, &x, &copied) : RT_ENOMEM;
    for (int d = axis + 1; d < self->rank; d++) inner *= self->size[d];
    if (!code && n) {
        uint8_t *mask = (uint8_t *)room + n * rt_itemsize(dtype);
        job j = {
            .grids = grids, .channels = channels, .inner = inner, .dtype = dtype, .x = x.p, .y = room, .mask = mask
        };
        if (channels == 1 && inner > 4096 && inner % 1024 == 0) j.inner = 1024; /* rows to split over threads */
        code = rt_parallel_work(ctx, n / j.inner, j.inner, 16384, round_rows, &j);
        y = rt_view_contiguous(room, dtype, self->rank, self->size);
        if (!code) code = rt_copy(ctx, &c->out[0], &y);
        y = rt_view_contiguous(mask, RT_BOOL, self->rank, self->size);
        if (!code) code = rt_copy(ctx, &c->out[1], &y);
    }
    rt_scratch_free(ctx, copied);
    rt_scratch_free(ctx, room);
    return code;
}

/* The grid's lowest and highest value are arguments `at` and the next. */
static grid grid_of(const rt_call *c, int at, double scale, double zero) {
    return (
        grid){ .scale = scale, .zero = zero, .low = (double)rt_arg_int(c, at), .high = (double)rt_arg_int(c, at + 1) };
}

int rt_k_fake_quantize(const rt_ctx *ctx, const rt_call *c) { /* self, scale, zero_point, quant_min, quant_max */
    grid g = grid_of(c, 3, rt_arg_float(c, 1), (double)rt_arg_int(c, 2));
    return fake_quantize(ctx, c, &g, 1, -1);
}

static double only(const rt_view *v) {
    double x = 0;
    rt_convert(RT_F64, &x, 1, v->dtype, v->p, 1, 1);
    return x;
}

/* self, scale, zero_point, fake_quant_enabled, quant_min, quant_max */
int rt_k_fake_quantize_tensor(const rt_ctx *ctx, const rt_call *c) {
    grid g = grid_of(c, 4, only(rt_arg_view(c, 1)), trunc(only(rt_arg_view(c, 2))));
    if (fabs(only(rt_arg_view(c, 3))) >= 1) return fake_quantize(ctx, c, &g, 1, -1);
    int code = rt_copy(ctx, &c->out[0], rt_arg_view(c, 0));
    return code ? code : rt_fill(ctx, &c->out[1], (rt_scalar){ RT_ARG_INT, 1, 0, 0 });
}

/* self, scale, zero_point, axis, quant_min, quant_max */
int rt_k_fake_quantize_channel(const rt_ctx *ctx, const rt_call *c) {
    const rt_view *scale = rt_arg_view(c, 1), *zero = rt_arg_view(c, 2);
    int64_t n = scale->size[0];
    grid *grids = rt_scratch(ctx, (size_t)n * sizeof *grids);
    int code = grids ? RT_OK : RT_ENOMEM;
    for (int64_t i = 0; i < n && !code; i++) {
        rt_view s = *scale, z = *zero;
        s.p = (char *)s.p + i * s.stride[0] * rt_itemsize(s.dtype);
        z.p = (char *)z.p + i * z.stride[0] * rt_itemsize(z.dtype);
        grids[i] = grid_of(c, 4, only(&s), only(&z));
        grids[i].narrow = true;
        grids[i].shifted = z.dtype != RT_I32;
        if (z.dtype == RT_I32 && (grids[i].zero < grids[i].low || grids[i].zero > grids[i].high))
            code = rt_fail(ctx, RT_ERUNTIME,
                           "fake_quantize_per_channel_affine: zero_point must be between quant_min and quant_max, got "
                           "%g for channel %lld",
                           grids[i].zero, (long long)i);
    }
    if (!code) code = fake_quantize(ctx, c, grids, n, rt_arg_dim(c, 3, rt_arg_view(c, 0)->rank));
    rt_scratch_free(ctx, grids);
    return code;
}
