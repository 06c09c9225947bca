/* conv_packed.h: two-dimensional f32 convolutions whose weights were packed beforehand, on channels-last activations.
 *
 * Packed weights, made by cresset::pack_conv once, when a model is compiled:
 *   dense      [groups][panels][taps * channels of a group][16]    taps by rows, as a channels-last image has them
 *   depthwise  [blocks][taps][16]                                  one channel in and out per group
 * Channels past the end are zero. conv_packed.c has the kernels; conv_dense.c,
 * conv_winograd.c and conv_depthwise.c one strategy each. The
 * order in which an output's terms are added depends on the sizes alone. */
#ifndef CRESSET_CONV_PACKED_H
#define CRESSET_CONV_PACKED_H

#include "runtime/conv_isa.h"

/* An image whose channels are dense; strides in floats. */
typedef struct conv_pixels { float *p; int64_t image, row, pixel; } conv_pixels;

typedef struct conv_job {
    const conv_isa *isa;
    int64_t n, c, h, w, o, out_h, out_w, groups;
    int64_t kernel_h, kernel_w, stride_h, stride_w, padding_h, padding_w, dilation_h, dilation_w;
    conv_pixels x, y, residual; /* residual.p NULL: none */
    const float *packed, *bias; /* bias: readable up to the end of the last panel of the last group */
    int act; /* conv_act, or CONV_ACT_COUNT + rt_act */
} conv_job;

static inline bool conv_is_depthwise(int64_t c, int64_t o, int64_t groups) {
    return groups > 1 && groups == c && o == c;
}
static inline int64_t conv_round_up(int64_t n) { return (n + CONV_LANES - 1) / CONV_LANES * CONV_LANES; }

/* y = act(y + residual) on a tile of whole panels; residual may be NULL. */
void conv_finish(const conv_job *job, float *y, int64_t y_row, const float *residual, int64_t residual_row,
                 int64_t rows, int64_t cols);

int conv_dense(const rt_ctx *ctx, const conv_job *job);
int conv_depthwise(const rt_ctx *ctx, const conv_job *job);
/* Outputs of a tile's side with which a dense convolution is fastest as Winograd's; 0: not that way. From sizes
 * alone. */
int conv_winograd_tile(const conv_job *job);
int conv_winograd(const rt_ctx *ctx, const conv_job *job, int m);

#endif
