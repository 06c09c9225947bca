/* conv_packed.c: the kernels cresset::pack_conv and cresset::conv_packed: arguments, and operands in other layouts.
 *
 * An operand that is not channels-last is copied into one that is; inside a model that happens to its input alone. */
#include "runtime/conv_packed.h"
#include "runtime/gemm.h"
#include "runtime/kernels.h"
#include "runtime/rt_post.h"

#include <string.h>

/* ---- packing ---- */

static void pack_panels(const float *w, float *out, int64_t outs, int64_t channels, int64_t taps) {
    for (int64_t o = 0; o < outs; o += CONV_LANES) {
        for (int64_t t = 0; t < taps; t++)
            for (int64_t c = 0; c < channels; c++, out += CONV_LANES)
                for (int64_t l = 0; l < CONV_LANES; l++)
                    out[l] = o + l < outs ? w[((o + l) * channels + c) * taps + t] : 0;
    }
}

int rt_k_pack_conv(const rt_ctx *ctx, const rt_call *c) { /* weight, groups */
    const rt_view *given = rt_arg_view(c, 0);
    int64_t groups = rt_arg_int(c, 1), o = given->size[0], channels = given->size[1],
            taps = given->size[2] * given->size[3];
    rt_view w;
    void *scratch;
    if (!rt_numel(&c->out[0])) return RT_OK; /* however many groups of nothing there are */
    int code = rt_contiguous(ctx, given, RT_F32, &w, &scratch);
    if (code) return code;
    float *out = c->out[0].p;
    const float *from = w.p;
    if (conv_is_depthwise(channels * groups, o, groups)) {
        pack_panels(from, out, o, 1, taps);
    } else {
        int64_t outs = o / groups, size = conv_round_up(outs) * channels * taps;
        for (int64_t g = 0; g < groups; g++)
            pack_panels(from + g * outs * channels * taps, out + g * size, outs, channels, taps);
    }
    rt_scratch_free(ctx, scratch);
    return RT_OK;
}

/* ---- operands ---- */

typedef struct moving { const rt_view *x; float *to; bool back; } moving;

/* Image rows between any strides and dense channels-last ones. */
static int rows_move(void *arg, int64_t begin, int64_t end) {
    const moving *m = arg;
    const rt_view *x = m->x;
    int64_t c = x->size[1], h = x->size[2], w = x->size[3];
    for (int64_t at = begin; at < end; at++) {
        float *dense = m->to + at * w * c, *other = (float *)x->p + at / h * x->stride[0] + at % h * x->stride[2];
        if (m->back)
            for (int64_t i = 0; i < w; i++)
                for (int64_t j = 0; j < c; j++) other[i * x->stride[3] + j * x->stride[1]] = dense[i * c + j];
        else rt_gemm_pack_rows(RT_F32, dense, c, RT_F32, other, x->stride[3], x->stride[1], w, c);
    }
    return RT_OK;
}

static bool has_dense_channels(const rt_view *x) { return x->stride[1] == 1 || x->size[1] == 1; }

static conv_pixels dense_pixels(const rt_view *x, float *p) {
    return (conv_pixels){ p, x->size[2] * x->size[3] * x->size[1], x->size[3] * x->size[1], x->size[1] };
}

/* x as it is, or (when *copy is set afterwards) room for a copy, filled when `reads`. */
static int as_pixels(const rt_ctx *ctx, const rt_view *x, bool reads, conv_pixels *out, float **copy) {
    *copy = NULL;
    if (has_dense_channels(x)) {
        *out = (conv_pixels){ x->p, x->stride[0], x->stride[2], x->stride[3] };
        return RT_OK;
    }
    *copy = rt_scratch(ctx, (size_t)rt_numel(x) * 4);
    if (!*copy) return rt_fail(ctx, RT_ENOMEM, "out of memory for the channels-last copy of an image");
    *out = dense_pixels(x, *copy);
    moving m = { x, *copy, false };
    return reads ? rt_parallel_work(ctx, x->size[0] * x->size[2], x->size[1] * x->size[3], 4096, rows_move, &m) : RT_OK;
}

static int act_of(const rt_ctx *ctx, const rt_arg *name, int *out) {
    static const char *const names[] = {
#define X(ID, name, text) name,
        CONV_ACTS(X)
#undef X
    };
    for (int i = 0; i < CONV_ACT_COUNT; i++)
        if (!strcmp(name->u.str, names[i])) {
            *out = i;
            return RT_OK;
        }
    int other = rt_act_find(name->u.str);
    *out = CONV_ACT_COUNT + other;
    return other >= 0 ? RT_OK : rt_fail(ctx, RT_EVALUE, "conv_packed: no activation is called '%s'", name->u.str);
}

void conv_finish(const conv_job *job, float *y, int64_t y_row, const float *residual, int64_t residual_row,
                 int64_t rows, int64_t cols) {
    bool cheap = job->act < CONV_ACT_COUNT;
    if (residual || (cheap && job->act != CONV_NONE))
        job->isa->finish(y, y_row, residual, residual_row, rows, cols, cheap ? job->act : CONV_NONE);
    if (cheap) return;
    rt__post_get()->act[job->act - CONV_ACT_COUNT](y, y_row, rows, NULL, cols);
}

/* x, packed, bias, residual, out_channels, kernel, stride, padding, dilation, groups, act */
int rt_k_conv_packed(const rt_ctx *ctx, const rt_call *c) {
    const rt_view *x = rt_arg_view(c, 0), *packed = rt_arg_view(c, 1), *bias = rt_arg_view(c, 2),
                  *residual = rt_arg_view(c, 3);
    const rt_view *y = &c->out[0];
    const int64_t *kernel = c->arg[5].u.ints, *stride = c->arg[6].u.ints, *padding = c->arg[7].u.ints,
                  *dilation = c->arg[8].u.ints;
    if (rt_numel(y) == 0) return RT_OK;
    conv_job job = { .isa = conv_isa_get(), .n = x->size[0], .c = x->size[1], .h = x->size[2], .w = x->size[3],
                     .o = y->size[1], .out_h = y->size[2], .out_w = y->size[3], .groups = rt_arg_int(c, 9),
                     .kernel_h = kernel[0], .kernel_w = kernel[1], .stride_h = stride[0], .stride_w = stride[1],
                     .padding_h = padding[0], .padding_w = padding[1], .dilation_h = dilation[0],
                     .dilation_w = dilation[1], .packed = packed->p };
    float *x_copy = NULL, *y_copy = NULL, *residual_copy = NULL, *bias_copy = NULL;
    int code = act_of(ctx, &c->arg[10], &job.act);
    if (!code) code = as_pixels(ctx, x, true, &job.x, &x_copy);
    if (!code) code = as_pixels(ctx, y, false, &job.y, &y_copy);
    if (!code && residual) code = as_pixels(ctx, residual, true, &job.residual, &residual_copy);
    if (!code && bias && bias->stride[0] == 1 && job.o % CONV_LANES == 0 && job.o / job.groups % CONV_LANES == 0) {
        job.bias = bias->p;
    } else if (!code) {
        bias_copy = rt_scratch(ctx, (size_t)(job.o + 2 * CONV_LANES) * 4);
        if (!bias_copy) code = rt_fail(ctx, RT_ENOMEM, "out of memory for the bias of a convolution");
        else memset(bias_copy, 0, (size_t)(job.o + 2 * CONV_LANES) * 4);
        if (!code && bias) rt_convert(RT_F32, bias_copy, 1, RT_F32, bias->p, bias->stride[0], job.o);
        job.bias = bias_copy;
    }
    int side = conv_winograd_tile(&job);
    if (code) goto out;
    if (conv_is_depthwise(job.c, job.o, job.groups)) code = conv_depthwise(ctx, &job);
    else code = side ? conv_winograd(ctx, &job, side) : conv_dense(ctx, &job);
    if (!code && y_copy) {
        moving m = { y, y_copy, true };
        code = rt_parallel_work(ctx, y->size[0] * y->size[2], y->size[1] * y->size[3], 4096, rows_move, &m);
    }
out:
    rt_scratch_free(ctx, bias_copy);
    rt_scratch_free(ctx, residual_copy);
    rt_scratch_free(ctx, y_copy);
    rt_scratch_free(ctx, x_copy);
    return code;
}
