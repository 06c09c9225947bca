/* conv.h: convolutions of 1 to 3 dimensions, forward and the two partial derivatives of the same trilinear form
 *
 *     sum over n, o, p, c, t of  y[n,o,p] * w[o,c,t] * x[n, c, p * stride - padding + t * dilation]
 *
 * with respect to y (forward), x (the gradient of the input, which is also the transposed convolution) and w. Views: x
 * [n, c, in..], w [o, c / groups, kernel..], y [n, o, out..], any strides, one dtype that is not complex. Sizes are
 * trusted, except that x may be any size for rt_conv_input (output_padding). */
#ifndef CRESSET_CONV_H
#define CRESSET_CONV_H

#include "runtime/rt.h"

enum { RT_CONV_DIMS = 3 };

/* Fewer than 3 dimensions: leading ones with size 1, stride 1, no padding. */
typedef struct rt_conv {
    int64_t n, c, o, groups;
    int64_t in[RT_CONV_DIMS], out[RT_CONV_DIMS], kernel[RT_CONV_DIMS];
    int64_t stride[RT_CONV_DIMS], padding[RT_CONV_DIMS], dilation[RT_CONV_DIMS];
} rt_conv;

/* Fills the sizes from views of [n, c, in..], [o, c / groups, kernel..] and [n, o, out..]; lists of one number stand
 * for all dimensions. */
rt_conv rt_conv_of(const rt_view *x, const rt_view *w, const rt_view *y, const rt_arg *stride, const rt_arg *padding,
                   const rt_arg *dilation, int64_t groups);

/* y = alpha * conv(x, w) + beta * y + bias. bias: [o] or NULL (when beta is not 0 it must be NULL). */
int rt_conv_forward(const rt_ctx *ctx, const rt_conv *v, const rt_view *x, const rt_view *w, const rt_view *bias,
                    const rt_view *y, rt_scalar alpha, rt_scalar beta);
/* x = alpha * (the partial with respect to x) + beta * x + bias. bias: [c]. */
int rt_conv_input(const rt_ctx *ctx, const rt_conv *v, const rt_view *y, const rt_view *w, const rt_view *bias,
                  const rt_view *x, rt_scalar alpha, rt_scalar beta);
/* w = alpha * (the partial with respect to w) + beta * w. */
int rt_conv_weight(const rt_ctx *ctx, const rt_conv *v, const rt_view *y, const rt_view *x, const rt_view *w,
                   rt_scalar alpha, rt_scalar beta);

#endif
