/* k_blocks.c: sliding blocks of an image as columns (im2col), and columns added back into an image (col2im). */
#include "runtime/kernels.h"
#include "runtime/rt_index.h"

#include <string.h>

/* One row of columns for every channel and tap: where its runs of pixels lie. */
typedef struct block_rows {
    const rt_view *image, *columns;
    const int64_t *kernel, *dilation, *padding, *stride;
    int64_t rows, cols;
    int lead;
    bool add;
} block_rows;

/* The outputs [*begin, *end) of `count` whose tap `from + i * stride` lies in [0, size). */
static void inside(int64_t from, int64_t stride, int64_t size, int64_t count, int64_t *begin, int64_t *end) {
    *begin = from < 0 ? (-from + stride - 1) / stride : 0;
    *end = from >= size ? 0 : (size - 1 - from) / stride + 1;
    if (*end > count) *end = count;
    if (*begin > *end) *begin = *end;
}

/* Line k: tap k % area of channel k / area. */
static void run_tap(const block_rows *b, int64_t n, int64_t k) {
    static const double zero[2] = { 0, 0 };
    const rt_view *image = b->image, *columns = b->columns;
    int d = b->lead;
    int64_t area = b->kernel[0] * b->kernel[1], item = rt_itemsize(image->dtype), h = image->size[d + 1];
    int64_t left = k % b->kernel[1] * b->dilation[1] - b->padding[1], begin, end, step = columns->stride[d + 1];
    inside(left, b->stride[1], image->size[d + 2], b->cols, &begin, &end);
    char *column = (char *)columns->p + ((d ? n * columns->stride[0] : 0) + k * columns->stride[d]) * item;
    char *plane = (char *)image->p + ((d ? n * image->stride[0] : 0) + k / area * image->stride[d]) * item;
    int64_t pixel_step = b->stride[1] * image->stride[d + 2];
    for (int64_t y = 0; y < b->rows; y++, column += b->cols * step * item) {
        int64_t iy = y * b->stride[0] - b->padding[0] + k % area / b->kernel[1] * b->dilation[0];
        bool outside = iy < 0 || iy >= h;
        int64_t first = outside ? b->cols : begin, last = outside ? b->cols : end;
        int64_t x = left + first * b->stride[1];
        char *pixels = first < last ? plane + (iy * image->stride[d + 1] + x * image->stride[d + 2]) * item : plane;
        char *to = column + first * step * item;
        if (b->add) {
            rt_add_run(image->dtype, pixels, pixel_step, to, step, last - first);
            continue;
        }
        rt_copy_run(item, column, step, zero, 0, first);
        rt_copy_run(item, to, step, pixels, pixel_step, last - first);
        rt_copy_run(item, column + last * step * item, step, zero, 0, b->cols - last);
    }
}

/* Channels, numbered through the batch: taps of one meet the same pixels, those of two do not. */
static int run_channels(void *arg, int64_t from, int64_t to) {
    const block_rows *b = arg;
    int64_t channels = b->image->size[b->lead], area = b->kernel[0] * b->kernel[1];
    for (int64_t i = from; i < to; i++)
        for (int64_t k = 0; k < area; k++) run_tap(b, i / channels, i % channels * area + k);
    return RT_OK;
}

/* `at`: position of kernel_size; dilation, padding, stride follow. image: (batch,) channels, height, width. */
static int run(const rt_ctx *ctx, const rt_call *c, int at, const rt_view *image, const rt_view *columns, bool add) {
    const int64_t *arg[4];
    for (int i = 0; i < 4; i++) arg[i] = c->arg[at + i].u.ints;
    block_rows b = { image, columns, arg[0], arg[1], arg[2], arg[3], 0, 0, image->rank - 3, add };
    int d = b.lead;
    int64_t h = image->size[d + 1], w = image->size[d + 2], channels = (d ? image->size[0] : 1) * image->size[d];
    b.rows = (h + 2 * b.padding[0] - b.dilation[0] * (b.kernel[0] - 1) - 1) / b.stride[0] + 1;
    b.cols = (w + 2 * b.padding[1] - b.dilation[1] * (b.kernel[1] - 1) - 1) / b.stride[1] + 1;
    return rt_parallel_work(ctx, channels, b.kernel[0] * b.kernel[1] * b.rows * b.cols, 8192, run_channels, &b);
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
