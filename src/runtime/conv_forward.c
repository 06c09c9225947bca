/* conv_forward.c: y = conv(x, w), one product per group:
 *
 *     y[o, p] = sum over (c, t) of w[o, (c, t)] * image[(c, t), p]
 *
 * Weights are read in place; the right factor is packed from the padded image (conv_image.h) panel by panel, straight
 * into the blocks of the product, so it never exists as a whole. A 1x1 kernel needs no image: x is the factor. One
 * input channel per group makes no product worth the name: conv_planes.c. */
#include "runtime/conv_image.h"

typedef struct job {
    const rt_conv *v;
    const rt_view *x, *w, *bias; /* w: dense */
    rt_view y;                   /* rank 5 */
    rt_scalar alpha, beta;
    int64_t y_step, k;           /* k: terms of one output */
    conv_image image;
    int64_t *tap, *tap_bytes;
    int64_t group, first;        /* first picture in the image */
} job;

static void panels_pack(void *arg, int64_t batch, int64_t k0, int64_t k1, int64_t n0, int64_t n1, void *panels,
                        int64_t panel) {
    const job *s = arg;
    const conv_image *image = &s->image;
    int64_t channels = s->v->c / s->v->groups;
    const char *data = image->data + (batch * image->picture + s->group * channels * image->channel) * image->item;
    conv_image_pack(image, data, s->tap_bytes, s->v->out, k0, k1, n0, n1, panels, panel);
}

/* The product of one group and `count` pictures from `first`, but for its right factor. */
static rt_gemm_args product_of(const job *s, int64_t group, int64_t first, int64_t count) {
    const rt_conv *v = s->v;
    int64_t item = rt_itemsize(s->y.dtype), m = v->o / v->groups, o = group * m;
    int64_t n = v->out[0] * v->out[1] * v->out[2];
    char *y = (char *)s->y.p + (first * s->y.stride[0] + o * s->y.stride[1]) * item;
    rt_gemm_args g = rt_gemm_plain(s->y.dtype, m, n, s->k, (const char *)s->w->p + o * s->k * item, NULL, y);
    g.batch = count;
    g.c_row = s->y.stride[1];
    g.c_col = s->y_step;
    g.c_batch = s->y.stride[0];
    g.alpha = s->alpha;
    g.beta = s->beta;
    if (s->bias) {
        g.d = (const char *)s->bias->p + o * s->bias->stride[0] * item;
        g.d_row = s->bias->stride[0];
        g.beta = rt_gemm_one;
    }
    return g;
}

static int pointwise(const rt_ctx *ctx, const job *s, int64_t x_step) {
    const rt_conv *v = s->v;
    int code = RT_OK;
    for (int64_t group = 0; group < v->groups && !code; group++) {
        rt_gemm_args g = product_of(s, group, 0, v->n);
        g.b = (const char *)s->x->p + group * (v->c / v->groups) * s->x->stride[1] * rt_itemsize(s->x->dtype);
        g.b_row = s->x->stride[1];
        g.b_col = x_step;
        g.b_batch = s->x->stride[0];
        code = rt_gemm(ctx, &g);
    }
    return code;
}

static int by_image(const rt_ctx *ctx, job *s, int compute) {
    const rt_conv *v = s->v;
    void *memory = NULL;
    int code = conv_image_plan(ctx, v, compute, &s->image, &s->tap, &memory);
    if (!code) code = conv_image_alloc(ctx, &s->image, v->c, v->n);
    if (code) goto out;
    s->tap_bytes = rt_scratch(ctx, (size_t)s->k * 8);
    if (!s->tap_bytes) {
        code = rt_fail(ctx, RT_ENOMEM, "out of memory for the taps of a convolution");
        goto out;
    }
    for (int64_t k = 0; k < s->k; k++) s->tap_bytes[k] = s->tap[k] * s->image.item;
    for (s->first = 0; s->first < v->n && !code; s->first += s->image.pictures) {
        int64_t count = v->n - s->first < s->image.pictures ? v->n - s->first : s->image.pictures;
        code = conv_image_fill(ctx, &s->image, s->x, s->first, count);
        if (!code && v->c == v->groups) {
            conv_planes planes = { &s->image, s->tap, v->out, s->w, s->k, v->o, v->o / v->groups, 1, count,
                                   product_of(s, 0, s->first, count) };
            code = conv_planes_run(ctx, &planes);
            continue;
        }
        for (s->group = 0; s->group < v->groups && !code; s->group++) {
            rt_gemm_args g = product_of(s, s->group, s->first, count);
            g.pack_b = panels_pack;
            g.pack_arg = s;
            code = rt_gemm(ctx, &g);
        }
    }
out:
    rt_scratch_free(ctx, s->tap_bytes);
    rt_scratch_free(ctx, s->image.data);
    rt_scratch_free(ctx, memory);
    return code;
}

static int run(const rt_ctx *ctx, job *s) {
    const rt_conv *v = s->v;
    int compute = rt_gemm_compute_dtype(s->y.dtype);
    if (compute < 0) return rt_fail(ctx, RT_EDTYPE, "convolution: no product of dtype number %d", (int)s->y.dtype);
    s->k = v->c / v->groups * v->kernel[0] * v->kernel[1] * v->kernel[2];
    rt_view x5 = conv_view5(s->x);
    int64_t x_step;
    bool plain = conv_folds(&x5, &x_step);
    for (int d = 0; d < RT_CONV_DIMS; d++)
        plain = plain && v->kernel[d] == 1 && v->stride[d] == 1 && v->padding[d] == 0 && v->in[d] == v->out[d];
    return plain ? pointwise(ctx, s, x_step) : by_image(ctx, s, compute);
}

int rt_conv_forward(const rt_ctx *ctx, const rt_conv *v, const rt_view *x, const rt_view *w, const rt_view *bias,
                    const rt_view *y, rt_scalar alpha, rt_scalar beta) {
    if (rt_numel(y) == 0) return RT_OK;
    job s = { .v = v, .x = x, .bias = bias, .alpha = alpha, .beta = beta, .y = conv_view5(y) };
    rt_view dense, result;
    void *w_copy = NULL, *y_copy = NULL;
    int code = rt_contiguous(ctx, w, w->dtype, &dense, &w_copy);
    if (code) return code;
    s.w = &dense;
    if (!conv_folds(&s.y, &s.y_step)) {
        y_copy = rt_scratch(ctx, (size_t)(rt_numel(y) * rt_itemsize(y->dtype)));
        if (!y_copy) {
            code = rt_fail(ctx, RT_ENOMEM, "out of memory for the result of a convolution");
            goto out;
        }
        result = rt_view_contiguous(y_copy, y->dtype, y->rank, y->size);
        s.y = conv_view5(&result);
        s.y_step = 1;
        if (!gemm_is_zero(beta)) code = rt_copy(ctx, &result, y);
    }
    if (!code) code = run(ctx, &s);
    if (!code && y_copy) code = rt_copy(ctx, y, &result);
out:
    rt_scratch_free(ctx, y_copy);
    rt_scratch_free(ctx, w_copy);
    return code;
}
