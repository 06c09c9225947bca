/* conv_depthwise.c: packed convolutions with one channel a group: nothing to share between outputs but the image.
 *
 * A unit is 16 channels of a band of output rows. The input rows of the band are copied to a padded image of 16
 * channels, which stays in the nearest cache: every tap is then one load, and no tap needs a test. */
#include "runtime/conv_packed.h"
#include "runtime/gemm_isa.h"

#include <string.h>

enum { BAND_BYTES = 48 * 1024, LEAST_BAND = 2 };

typedef struct plan {
    const conv_job *job;
    int64_t blocks, band, bands;  /* blocks of channels; output rows of a band */
    int64_t width, height;        /* of the padded image */
    gemm_slots slots;
} plan;

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

static void copy_pixels(float *to, const float *x, int64_t pixel, int64_t n, int64_t channels) {
    if (channels == CONV_LANES) {
        for (int64_t i = 0; i < n; i++) memcpy(to + i * CONV_LANES, x + i * pixel, CONV_LANES * 4);
        return;
    }
    memset(to, 0, (size_t)n * CONV_LANES * 4);
    for (int64_t i = 0; i < n; i++) memcpy(to + i * CONV_LANES, x + i * pixel, (size_t)channels * 4);
}

/* Rows [top, top + rows) of the image, which may lie outside, and `left` pixels before each. */
static void image_fill(const plan *p, float *image, const float *x, int64_t top, int64_t rows, int64_t channels) {
    const conv_job *job = p->job;
    int64_t left = job->padding_w, inner = least(job->w, p->width - left);
    for (int64_t r = 0; r < rows; r++, image += p->width * CONV_LANES) {
        if (top + r < 0 || top + r >= job->h || inner <= 0) {
            memset(image, 0, (size_t)(p->width * CONV_LANES) * 4);
            continue;
        }
        memset(image, 0, (size_t)(left * CONV_LANES) * 4);
        copy_pixels(image + left * CONV_LANES, x + (top + r) * job->x.row, job->x.pixel, inner, channels);
        memset(image + (left + inner) * CONV_LANES, 0, (size_t)((p->width - left - inner) * CONV_LANES) * 4);
    }
}

static void unit_run(const plan *p, float *slot, int64_t picture, int64_t block, int64_t first, int64_t last) {
    const conv_job *job = p->job;
    int64_t c = block * CONV_LANES, channels = least(CONV_LANES, job->c - c);
    float *image = slot, *line = image + p->width * p->height * CONV_LANES, *shortcut = line + job->out_w * CONV_LANES;
    int64_t top = first * job->stride_h - job->padding_h;
    int64_t rows = (last - 1 - first) * job->stride_h + (job->kernel_h - 1) * job->dilation_h + 1;
    image_fill(p, image, job->x.p + picture * job->x.image + c, top, rows, channels);
    bool whole = channels == CONV_LANES;
    conv_block b = { .w = job->packed + block * job->kernel_h * job->kernel_w * CONV_LANES, .bias = job->bias + c,
                     .x_row = p->width * CONV_LANES, .kernel_h = job->kernel_h, .kernel_w = job->kernel_w,
                     .stride = job->stride_w, .dilation_h = job->dilation_h, .dilation_w = job->dilation_w,
                     .y_pixel = whole ? job->y.pixel : CONV_LANES, .count = job->out_w };
    for (int64_t y = first; y < last; y++) {
        float *to = job->y.p + picture * job->y.image + y * job->y.row + c;
        b.x = image + (y - first) * job->stride_h * b.x_row;
        b.y = whole ? to : line;
        job->isa->block(&b);
        const float *residual = job->residual.p;
        int64_t residual_row = job->residual.pixel;
        if (residual) residual += picture * job->residual.image + y * job->residual.row + c;
        if (residual && !whole) {
            copy_pixels(shortcut, residual, residual_row, job->out_w, channels);
            residual = shortcut;
            residual_row = CONV_LANES;
        }
        conv_finish(job, b.y, b.y_pixel, residual, residual_row, job->out_w, CONV_LANES);
        for (int64_t i = 0; !whole && i < job->out_w; i++)
            memcpy(to + i * job->y.pixel, line + i * CONV_LANES, (size_t)channels * 4);
    }
}

static int units_run(void *arg, int64_t begin, int64_t end) {
    plan *p = arg;
    char *slot = gemm_slot_take(&p->slots);
    for (int64_t at = begin; at < end; at++) {
        int64_t block = at % p->blocks, rest = at / p->blocks;
        int64_t first = rest % p->bands * p->band;
        unit_run(p, (float *)(void *)slot, rest / p->bands, block, first, least(first + p->band, p->job->out_h));
    }
    gemm_slot_give(&p->slots, slot);
    return RT_OK;
}

int conv_depthwise(const rt_ctx *ctx, const conv_job *job) {
    plan p = { .job = job, .blocks = conv_round_up(job->c) / CONV_LANES };
    p.width = (job->out_w - 1) * job->stride_w + (job->kernel_w - 1) * job->dilation_w + 1;
    p.width = most(p.width, job->padding_w); /* where the whole kernel may lie in the padding */
    int64_t reach = (job->kernel_h - 1) * job->dilation_h + 1;
    int64_t fit = BAND_BYTES / (p.width * CONV_LANES * 4);
    p.band = least(most((fit - reach) / job->stride_h + 1, most(LEAST_BAND, reach / job->stride_h)), job->out_h);
    p.bands = (job->out_h + p.band - 1) / p.band;
    p.band = (job->out_h + p.bands - 1) / p.bands;
    p.bands = (job->out_h + p.band - 1) / p.band;
    p.height = (p.band - 1) * job->stride_h + reach;
    int code = gemm_slots_init(ctx, &p.slots, (size_t)((p.width * p.height + 2 * job->out_w) * CONV_LANES) * 4);
    if (code) return code;
    int64_t work = p.band * job->out_w * CONV_LANES * (job->kernel_h * job->kernel_w + 4);
    code = rt_parallel_work(ctx, job->n * p.bands * p.blocks, work, 32 * 1024, units_run, &p);
    gemm_slots_dispose(ctx, &p.slots);
    return code;
}
