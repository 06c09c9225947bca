/* k_fractional.c: max pooling over windows whose starts are drawn (fractional_max_pool2d, 3d).
 *
 * Window i of a dimension starts at trunc((i + u) * alpha) - trunc(u * alpha), where alpha stretches the windows over
 * the input; the last one ends with it. Every step is rounded to the dtype of u, as PyTorch does. */
#include "runtime/kernels.h"

#include <math.h>

enum { DIMS = 3 };

typedef struct fractional {
    const rt_ctx *ctx;
    const rt_view *drawn;                             /* [images][channels][spatial] */
    const void *x;                                    /* dense */
    void *y;
    int64_t *index, *starts;                          /* starts: of every plane, dimension after dimension */
    int64_t in[DIMS], out[DIMS], kernel[DIMS], channels;
    int sample[DIMS];                                 /* which drawn number is a dimension's; -1: none */
} fractional;

static double round_to(int dtype, double x) {
    if (dtype == RT_F64) return x;
    if (dtype == RT_F16) return rt_f16_to_f32(rt_f32_to_f16((float)x));
    if (dtype == RT_BF16) return rt_bf16_to_f32(rt_f32_to_bf16((float)x));
    return (float)x;
}

static void find_starts(const fractional *p, int64_t plane, int64_t *to) {
    const rt_view *v = p->drawn;
    for (int d = 0; d < DIMS; to += p->out[d++]) {
        int64_t room = p->in[d] - p->kernel[d], n = p->out[d];
        double u = 0, alpha = 0;
        if (p->sample[d] >= 0) {
            int64_t at = plane / p->channels * v->stride[0] + plane % p->channels * v->stride[1] +
                         p->sample[d] * v->stride[2];
            rt_convert(RT_F64, &u, 1, v->dtype, (const char *)v->p + at * rt_itemsize(v->dtype), 1, 1);
            alpha = n > 1 ? round_to(v->dtype, round_to(v->dtype, (double)room) / round_to(v->dtype, (double)(n - 1)))
                          : 0;
        }
        double begin = trunc(round_to(v->dtype, u * alpha));
        for (int64_t i = 0; i < n; i++) {
            double at = trunc(round_to(v->dtype, round_to(v->dtype, (double)i + u) * alpha)) - begin;
            /* numbers that are not between 0 and 1 must not lead outside */
            to[i] = i == n - 1 || !(at < (double)room) ? room : at > 0 ? (int64_t)at : 0;
        }
    }
}

#define DEFINE_PLANES(T)                                                                                               \
    static int planes_##T(void *arg, int64_t begin, int64_t end) {                                                     \
        const fractional *p = arg;                                                                                     \
        int64_t room = p->in[0] * p->in[1] * p->in[2], n = p->out[0] * p->out[1] * p->out[2];                          \
        int64_t each = p->out[0] + p->out[1] + p->out[2];                                                              \
        for (int64_t plane = begin; plane < end; plane++) {                                                            \
            int64_t *deep = p->starts + plane * each, *tall = deep + p->out[0], *wide = tall + p->out[1];              \
            const T *x = (const T *)p->x + plane * room;                                                               \
            find_starts(p, plane, deep);                                                                               \
            for (int64_t o = 0; o < n; o++) {                                                                          \
                int64_t z = deep[o / p->out[2] / p->out[1]], y = tall[o / p->out[2] % p->out[1]];                      \
                int64_t first = (z * p->in[1] + y) * p->in[2] + wide[o % p->out[2]], top = first;                      \
                T most = -INFINITY;                                                                                    \
                for (int64_t a = 0; a < p->kernel[0]; a++)                                                             \
                    for (int64_t b = 0; b < p->kernel[1]; b++)                                                         \
                        for (int64_t c = 0; c < p->kernel[2]; c++) {                                                   \
                            int64_t at = first + (a * p->in[1] + b) * p->in[2] + c;                                    \
                            if ((x[at] > most) | (x[at] != x[at])) most = x[at], top = at;                             \
                        }                                                                                              \
                ((T *)p->y)[plane * n + o] = most, p->index[plane * n + o] = top;                                      \
            }                                                                                                          \
        }                                                                                                              \
        return RT_OK;                                                                                                  \
    }
DEFINE_PLANES(float)
DEFINE_PLANES(double)

/* self, kernel_size, output_size, random_samples; the samples of images name the width first, of volumes the depth */
static int pool(const rt_ctx *ctx, const rt_call *c, int spatial) {
    const rt_view *self = rt_arg_view(c, 0), *out = &c->out[0], *list = &c->out[1];
    int64_t numel = rt_numel(out), planes = 1;
    if (!numel) return RT_OK;
    int work = self->dtype == RT_F64 ? RT_F64 : RT_F32, lead = self->rank - spatial;
    fractional p = { .ctx = ctx, .drawn = rt_arg_view(c, 3), .channels = self->size[lead - 1] };
    for (int d = 0; d < lead; d++) planes *= self->size[d];
    for (int d = 0; d < DIMS; d++) {
        int at = d - (DIMS - spatial);
        p.in[d] = at < 0 ? 1 : self->size[lead + at];
        p.out[d] = at < 0 ? 1 : out->size[lead + at];
        p.kernel[d] = at < 0 ? 1 : c->arg[1].u.ints[at];
        p.sample[d] = at < 0 ? -1 : spatial == 2 ? 1 - at : at;
    }
    rt_view dense = { 0 };
    void *scratch[4] = { NULL };
    bool direct = out->dtype == work && rt_is_contiguous(out), listed = rt_is_contiguous(list);
    int code = rt_contiguous(ctx, self, work, &dense, &scratch[0]);
    p.x = dense.p;
    p.starts = scratch[1] = rt_scratch(ctx, (size_t)(planes * (p.out[0] + p.out[1] + p.out[2])) * sizeof *p.starts);
    if (!direct) scratch[2] = rt_scratch(ctx, (size_t)(numel * rt_itemsize(work)));
    if (!listed) scratch[3] = rt_scratch(ctx, (size_t)numel * sizeof *p.index);
    p.y = direct ? out->p : scratch[2], p.index = listed ? list->p : scratch[3];
    if (!code && (!p.starts || !p.y || !p.index)) code = RT_ENOMEM;
    int64_t each = numel / planes * p.kernel[0] * p.kernel[1] * p.kernel[2];
    if (!code) code = rt_parallel_work(ctx, planes, each, 1024, work == RT_F64 ? planes_double : planes_float, &p);
    if (!code && !direct) {
        rt_view made = rt_view_contiguous(p.y, work, out->rank, out->size);
        code = rt_copy(ctx, out, &made);
    }
    if (!code && !listed) {
        rt_view made = rt_view_contiguous(p.index, RT_I64, list->rank, list->size);
        code = rt_copy(ctx, list, &made);
    }
    for (int i = 0; i < 4; i++) rt_scratch_free(ctx, scratch[i]);
    return code;
}

RT_KERNEL(rt_k_fractional_pool2d) { return pool(ctx, c, 2); }
RT_KERNEL(rt_k_fractional_pool3d) { return pool(ctx, c, 3); }
