/* conv_image.c: padded, phase-split copies of inputs; see conv_image.h. */
#include "runtime/conv_image.h"

#include <string.h>

enum { IMAGE_BYTES = 24 * 1024 * 1024, SLACK = 2 * RT_PANEL_BYTES };

rt_view conv_view5(const rt_view *x) {
    rt_view y = { .p = x->p, .rank = 5, .dtype = x->dtype, .size = { x->size[0], x->size[1], 1, 1, 1 } };
    y.stride[0] = x->stride[0];
    y.stride[1] = x->stride[1];
    for (int d = 2; d < x->rank; d++) {
        y.size[d + 5 - x->rank] = x->size[d];
        y.stride[d + 5 - x->rank] = x->stride[d];
    }
    return y;
}

bool conv_folds(const rt_view *x, int64_t *step) {
    int64_t expected = -1;
    *step = 1;
    for (int d = 4; d >= 2; d--) {
        if (x->size[d] == 1) continue;
        if (expected < 0) *step = x->stride[d];
        else if (x->stride[d] != expected) return false;
        expected = x->stride[d] * x->size[d];
    }
    return true;
}

rt_conv rt_conv_of(const rt_view *x, const rt_view *w, const rt_view *y, const rt_arg *stride, const rt_arg *padding,
                   const rt_arg *dilation, int64_t groups) {
    rt_conv v = { .n = x->size[0], .c = x->size[1], .o = y->size[1], .groups = groups };
    rt_view x5 = conv_view5(x), w5 = conv_view5(w), y5 = conv_view5(y);
    int rank = x->rank - 2;
    for (int d = 0; d < RT_CONV_DIMS; d++) {
        v.in[d] = x5.size[d + 2];
        v.kernel[d] = w5.size[d + 2];
        v.out[d] = y5.size[d + 2];
        int at = d - (RT_CONV_DIMS - rank);
        bool used = at >= 0;
        v.stride[d] = used && stride->n ? stride->u.ints[at < (int)stride->n ? at : 0] : 1;
        v.padding[d] = used && padding->n ? padding->u.ints[at < (int)padding->n ? at : 0] : 0;
        v.dilation[d] = used && dilation->n ? dilation->u.ints[at < (int)dilation->n ? at : 0] : 1;
    }
    return v;
}

int conv_image_plan(const rt_ctx *ctx, const rt_conv *v, int compute, conv_image *image, int64_t **tap, void **memory) {
    int64_t taps = v->kernel[0] * v->kernel[1] * v->kernel[2], channels = v->c / v->groups;
    int64_t lines = v->kernel[0] + v->kernel[1] + v->kernel[2];
    int64_t *table = *memory = rt_scratch(ctx, (size_t)((taps * channels + 2 * lines) * 8));
    if (!table) return rt_fail(ctx, RT_ENOMEM, "out of memory for the taps of a convolution");
    *image = (conv_image){ .compute = compute, .item = rt_itemsize(compute) };
    *tap = table;
    int64_t *place[RT_CONV_DIMS]; /* the phase of each tap */
    table += taps * channels;
    image->plane = 1;
    for (int d = 0; d < RT_CONV_DIMS; d++) {
        image->start[d] = table;
        place[d] = table + v->kernel[d];
        table += 2 * v->kernel[d];
        image->step[d] = v->stride[d];
        image->extent[d] = v->out[d] + (v->kernel[d] - 1) * v->dilation[d] / v->stride[d];
        image->phases[d] = 0;
        for (int64_t t = 0; t < v->kernel[d]; t++) {
            int64_t remainder = t * v->dilation[d] % v->stride[d], phase = 0;
            while (phase < image->phases[d] && image->start[d][phase] != remainder - v->padding[d]) phase++;
            if (phase == image->phases[d]) image->start[d][image->phases[d]++] = remainder - v->padding[d];
            place[d][t] = phase;
        }
        image->plane *= image->extent[d];
    }
    image->channel = image->phases[0] * image->phases[1] * image->phases[2] * image->plane;
    int64_t *to = *tap;
    for (int64_t c = 0; c < channels; c++)
        for (int64_t z = 0; z < v->kernel[0]; z++)
            for (int64_t y = 0; y < v->kernel[1]; y++)
                for (int64_t x = 0; x < v->kernel[2]; x++) {
                    int64_t phase = (place[0][z] * image->phases[1] + place[1][y]) * image->phases[2] + place[2][x];
                    int64_t dz = z * v->dilation[0] / v->stride[0], dy = y * v->dilation[1] / v->stride[1];
                    int64_t dx = x * v->dilation[2] / v->stride[2];
                    *to++ = c * image->channel + phase * image->plane +
                            (dz * image->extent[1] + dy) * image->extent[2] + dx;
                }
    return RT_OK;
}

int conv_image_alloc(const rt_ctx *ctx, conv_image *image, int64_t channels, int64_t wanted) {
    image->channels = channels;
    image->picture = channels * image->channel;
    int64_t bytes = image->picture * image->item, fit = bytes ? IMAGE_BYTES / bytes : wanted;
    image->pictures = fit < wanted ? fit : wanted;
    if (image->pictures < 1) image->pictures = 1;
    image->data = rt_scratch(ctx, (size_t)(image->pictures * bytes + SLACK));
    if (!image->data) return rt_fail(ctx, RT_ENOMEM, "out of memory for the padded input of a convolution");
    memset(image->data + image->pictures * bytes, 0, SLACK);
    return RT_OK;
}

/* ---- filling ---- */

typedef struct filling { const conv_image *image; const rt_view *x; int64_t first; } filling;

/* Elements e of a phase with 0 <= start + e * step < size: [*from, *to). */
static void inside(int64_t start, int64_t step, int64_t size, int64_t extent, int64_t *from, int64_t *to) {
    int64_t a = start < 0 ? (-start + step - 1) / step : 0, b = start < size ? (size - start + step - 1) / step : 0;
    if (a > extent) a = extent;
    if (b > extent) b = extent;
    *from = a;
    *to = b > a ? b : a;
}

static void row_fill(const conv_image *image, char *to, const char *x, int dtype, int64_t x_stride, int64_t n) {
    if (dtype != image->compute) {
        rt_convert(image->compute, to, 1, dtype, x, x_stride, n);
    } else if (x_stride == 1) {
        memcpy(to, x, (size_t)(n * image->item));
    } else if (image->item == 4) {
        for (int64_t i = 0; i < n; i++) memcpy(to + 4 * i, x + 4 * i * x_stride, 4);
    } else {
        for (int64_t i = 0; i < n; i++) memcpy(to + 8 * i, x + 8 * i * x_stride, 8);
    }
}

static void phase_fill(const conv_image *image, char *to, const char *x, const rt_view *v, const int64_t *start) {
    int64_t from[RT_CONV_DIMS], until[RT_CONV_DIMS], bytes = rt_itemsize(v->dtype), item = image->item;
    bool whole = true;
    for (int d = 0; d < RT_CONV_DIMS; d++) {
        inside(start[d], image->step[d], v->size[d + 2], image->extent[d], &from[d], &until[d]);
        whole = whole && from[d] == 0 && until[d] == image->extent[d];
    }
    if (!whole) memset(to, 0, (size_t)(image->plane * item));
    if (from[2] == until[2]) return;
    for (int64_t z = from[0]; z < until[0]; z++)
        for (int64_t y = from[1]; y < until[1]; y++) {
            const char *at = x + ((start[0] + z * image->step[0]) * v->stride[2] +
                                  (start[1] + y * image->step[1]) * v->stride[3] +
                                  (start[2] + from[2] * image->step[2]) * v->stride[4]) * bytes;
            char *row = to + ((z * image->extent[1] + y) * image->extent[2] + from[2]) * item;
            row_fill(image, row, at, v->dtype, v->stride[4] * image->step[2], until[2] - from[2]);
        }
}

static int channels_fill(void *arg, int64_t begin, int64_t end) {
    const filling *f = arg;
    const conv_image *image = f->image;
    int64_t bytes = rt_itemsize(f->x->dtype);
    for (int64_t at = begin; at < end; at++) {
        int64_t picture = at / image->channels, channel = at % image->channels;
        const char *x = (const char *)f->x->p +
                        ((f->first + picture) * f->x->stride[0] + channel * f->x->stride[1]) * bytes;
        char *to = image->data + at * image->channel * image->item;
        for (int64_t a = 0; a < image->phases[0]; a++)
            for (int64_t b = 0; b < image->phases[1]; b++)
                for (int64_t c = 0; c < image->phases[2]; c++, to += image->plane * image->item) {
                    int64_t start[RT_CONV_DIMS] = { image->start[0][a], image->start[1][b], image->start[2][c] };
                    phase_fill(image, to, x, f->x, start);
                }
    }
    return RT_OK;
}

int conv_image_fill(const rt_ctx *ctx, const conv_image *image, const rt_view *x, int64_t first, int64_t count) {
    rt_view x5 = conv_view5(x);
    filling f = { image, &x5, first };
    int64_t grain = 16 * 1024 / (image->channel + 1) + 1;
    return rt_parallel_for(ctx, count * image->channels, grain, channels_fill, &f);
}

/* ---- places ---- */

int64_t conv_image_at(const conv_image *image, const int64_t *out, int64_t p) {
    int64_t x = p % out[2], rest = p / out[2];
    return (rest / out[1] * image->extent[1] + rest % out[1]) * image->extent[2] + x;
}

int conv_image_pieces(const conv_image *image, const int64_t *out, int64_t p0, int64_t p1, gemm_piece *pieces) {
    int count = 0;
    int64_t end = -1; /* where the last piece ends */
    for (int64_t p = p0; p < p1;) {
        int64_t n = out[2] - p % out[2], at = conv_image_at(image, out, p) * image->item;
        if (n > p1 - p) n = p1 - p;
        if (at == end) {
            pieces[count - 1].bytes += (int32_t)(n * image->item);
        } else {
            pieces[count++] = (gemm_piece){ at, (int32_t)((p - p0) * image->item), (int32_t)(n * image->item) };
        }
        end = at + n * image->item;
        p += n;
    }
    return count;
}

/* Some taps of all panels before the next taps: neighbouring panels read the same lines of the image. */
enum { PACK_TAPS = 36, PACK_PANELS = 24, PACK_PIECES = RT_PANEL_BYTES / 4 };

void conv_image_pack(const conv_image *image, const char *data, const int64_t *tap_bytes, const int64_t *grid,
                     int64_t k0, int64_t k1, int64_t n0, int64_t n1, void *panels, int64_t panel) {
    int64_t width = RT_PANEL_BYTES / image->item;
    gemm_gather_fn *gather = gemm_isa_get()->gather;
    gemm_piece pieces[PACK_PANELS][PACK_PIECES];
    int counts[PACK_PANELS];
    for (int64_t first = n0; first < n1; first += PACK_PANELS * width) {
        int64_t count = (n1 - first + width - 1) / width;
        if (count > PACK_PANELS) count = PACK_PANELS;
        for (int64_t q = 0; q < count; q++) {
            int64_t p = first + q * width;
            counts[q] = conv_image_pieces(image, grid, p, p + width < n1 ? p + width : n1, pieces[q]);
        }
        for (int64_t k = k0; k < k1; k += PACK_TAPS)
            for (int64_t q = 0; q < count; q++) {
                char *to = (char *)panels + (((first - n0) / width + q) * panel + (k - k0) * width) * image->item;
                gather(to, k1 - k < PACK_TAPS ? k1 - k : PACK_TAPS, data, tap_bytes + k, pieces[q], counts[q]);
            }
    }
}
