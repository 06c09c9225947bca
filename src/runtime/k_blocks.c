/* k_blocks.c: sliding blocks of an image as columns (im2col), and columns added back into an image (col2im). */
#include "runtime/kernels.h"
#include "runtime/rt_index.h"

#include <string.h>

/* `at`: position of kernel_size; dilation, padding, stride follow. image: (batch,) channels, height, width. */
static int run(const rt_ctx *ctx, const rt_call *c, int at, const rt_view *image, const rt_view *columns, bool add) {
    const int64_t *arg[4];
    for (int i = 0; i < 4; i++) arg[i] = c->arg[at + i].u.ints;
    const int64_t *kernel = arg[0], *dilation = arg[1], *padding = arg[2], *stride = arg[3];
    int d = image->rank - 3;
    int64_t batch = d ? image->size[0] : 1, channels = image->size[d], h = image->size[d + 1], w = image->size[d + 2];
    int64_t rows = (h + 2 * padding[0] - dilation[0] * (kernel[0] - 1) - 1) / stride[0] + 1;
    int64_t cols = (w + 2 * padding[1] - dilation[1] * (kernel[1] - 1) - 1) / stride[1] + 1;
    int64_t item = rt_itemsize(image->dtype), area = kernel[0] * kernel[1];
    (void)ctx;
    for (int64_t n = 0; n < batch; n++)
        for (int64_t k = 0; k < channels * area; k++)
            for (int64_t y = 0; y < rows; y++)
                for (int64_t x = 0; x < cols; x++) {
                    int64_t iy = y * stride[0] - padding[0] + k % area / kernel[1] * dilation[0],
                            ix = x * stride[1] - padding[1] + k % kernel[1] * dilation[1];
                    char *column = (char *)columns->p + ((d ? n * columns->stride[0] : 0) + k * columns->stride[d] +
                                                         (y * cols + x) * columns->stride[d + 1]) *
                                                            item;
                    bool inside = iy >= 0 && iy < h && ix >= 0 && ix < w;
                    char *pixel = (char *)image->p +
                                  (inside ? (d ? n * image->stride[0] : 0) + k / area * image->stride[d] +
                                                iy * image->stride[d + 1] + ix * image->stride[d + 2]
                                          : 0) *
                                      item;
                    if (add && inside) rt_add_element(image->dtype, pixel, column);
                    if (add) continue;
                    if (inside) memcpy(column, pixel, (size_t)item);
                    else memset(column, 0, (size_t)item);
                }
    return RT_OK;
}

int rt_k_im2col(const rt_ctx *ctx, const rt_call *c) { return run(ctx, c, 1, rt_arg_view(c, 0), &c->out[0], false); }

/* self, output_size, kernel_size, ...; sums in the wide class of the dtype */
int rt_k_col2im(const rt_ctx *ctx, const rt_call *c) {
    const rt_view *out = &c->out[0];
    int wide = out->dtype == RT_F16 || out->dtype == RT_BF16 ? RT_F32 : out->dtype;
    rt_view columns, image;
    void *scratch = NULL, *sums = rt_scratch(ctx, (size_t)(rt_numel(out) * rt_itemsize(wide)));
    if (!sums) return RT_ENOMEM;
    memset(sums, 0, (size_t)(rt_numel(out) * rt_itemsize(wide)));
    image = rt_view_contiguous(sums, wide, out->rank, out->size);
    int code = rt_contiguous(ctx, rt_arg_view(c, 0), wide, &columns, &scratch);
    if (!code) code = run(ctx, c, 2, &image, &columns, true);
    if (!code) code = rt_copy(ctx, out, &image);
    rt_scratch_free(ctx, scratch);
    rt_scratch_free(ctx, sums);
    return code;
}
