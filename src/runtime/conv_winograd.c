/* conv_winograd.c: 3x3 convolutions without stride as Winograd's F(4x4, 3x3) or F(2x2, 3x3), where that is faster.
 *
 * The weights are transformed in every call: that costs 3 to 20 % of it, no more than reading up to four times as many from memory, and
 * the artifact does not grow. Then, for a block of tiles: their patches are transformed to v[position][tile][channel], each position is
 * a product with its own weights, s[position][tile][output], and the sums are transformed back to pixels. Transformed weights never
 * leave a core's cache: where all of them fit there, a thread transforms them for itself and takes blocks of few tiles through all
 * of it (many threads that read what a few have just written would wait for each other's caches longer than that takes); otherwise
 * all threads share the tiles of each step, and the weights of a pair of panels are transformed by the thread that multiplies with
 * them.
 *
 * Tiles at the border read a padded copy and write through one. What a value that is not finite reaches is its whole tile, not only
 * its neighbours; relative errors are about 1e-6 (m = 4) and 3e-7 (m = 2) of the largest value in the tile. */
#include "runtime/conv_packed.h"
#include "runtime/gemm_isa.h"

#include <string.h>

enum { MOST_SIDE = 6, PAD = 5 * CONV_LANES, OWN_TILES = 14, LEAST_OWN_TILES = 6, MOST_SHARED = 1 << 19, OWN_WEIGHTS = 1280 * 1024,
       MOVE_GRAIN = 16 * 1024, PRODUCT_GRAIN = 64 * 1024 /* numbers to transform, products: about a microsecond */ };

typedef struct plan {
    const conv_job *job;
    int m, n;                        /* outputs and inputs of a tile's side */
    int64_t tiles_h, tiles_w, tiles; /* of an image; of all */
    int64_t panels, wide, pairs;     /* panels of a pair */
    int64_t block;                   /* tiles of a block */
    int64_t u_pos, v_pos, s_pos;     /* floats from position to position */
    float *v, *s;                    /* of a block, where they are shared */
    int64_t first, last, splits;     /* the shared block; how often its products are split */
    size_t u_at, v_at, s_at, flag_at; /* floats into a slot, whose beginning is for borders */
    gemm_slots slots;
} plan;

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t ratio_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* Rough cycles: products at 90 % of two multiply-adds of 16 a cycle, transforms by the numbers they move. */
static double cost(const conv_job *job, int m) {
    double n = m + 2, tiles = (double)(job->n * ratio_up(job->out_h, m) * ratio_up(job->out_w, m));
    double c = (double)job->c, o = (double)job->o;
    return n * n * (tiles * c * o / 29 + tiles * (c + o) / 16 * 6 + c * o / 16 * 8);
}

int conv_winograd_tile(const conv_job *job) {
    bool fits = job->kernel_h == 3 && job->kernel_w == 3 && job->stride_h == 1 && job->stride_w == 1 && job->dilation_h == 1 &&
                job->dilation_w == 1 && job->groups == 1 && job->c % CONV_LANES == 0 && job->o % CONV_LANES == 0 && job->c >= 32 && job->o >= 32;
    if (!fits) return 0;
    double direct = (double)(job->n * job->out_h * job->out_w) * 9 * (double)job->c * (double)job->o / 26;
    double two = cost(job, 2), four = cost(job, 4);
    if ((two < four ? two : four) > 0.85 * direct) return 0;
    return four < two ? 4 : 2;
}

/* ---- the steps ---- */

/* Panels [first, first + panels) of the weights. */
static void weights_run(const plan *p, int64_t first, int64_t panels, float *u) {
    const conv_job *job = p->job;
    int64_t panel = job->c * CONV_LANES;
    for (int64_t i = 0; i < panels; i++)
        job->isa->weights(p->m, job->packed + (first + i) * 9 * panel, panel, job->c, u + i * panel, p->u_pos);
}

static void tile_place(const plan *p, int64_t tile, int64_t *image, int64_t *y, int64_t *x) {
    int64_t per_image = p->tiles_h * p->tiles_w, rest = tile % per_image;
    *image = tile / per_image;
    *y = rest / p->tiles_w * p->m;
    *x = rest % p->tiles_w * p->m;
}

/* Tile number `tile` to place `at` of a block. */
static void patch_run(const plan *p, int64_t tile, float *border, float *v, int64_t at) {
    const conv_job *job = p->job;
    int64_t image, y, x;
    tile_place(p, tile, &image, &y, &x);
    y -= job->padding_h;
    x -= job->padding_w;
    const float *from = job->x.p + image * job->x.image + y * job->x.row + x * job->x.pixel;
    if (y >= 0 && x >= 0 && y + p->n <= job->h && x + p->n <= job->w) {
        job->isa->patches(p->m, from, job->x.row, job->x.pixel, job->c, v + at * job->c, p->v_pos);
        return;
    }
    for (int64_t i = 0; i < p->n; i++)
        for (int64_t j = 0; j < p->n; j++) {
            bool in = y + i >= 0 && y + i < job->h && x + j >= 0 && x + j < job->w;
            float *to = border + (i * p->n + j) * job->c;
            if (in) memcpy(to, from + i * job->x.row + j * job->x.pixel, (size_t)job->c * 4);
            else memset(to, 0, (size_t)job->c * 4);
        }
    job->isa->patches(p->m, border, p->n * job->c, job->c, job->c, v + at * job->c, p->v_pos);
}

static void result_run(const plan *p, int64_t tile, float *border, const float *s, int64_t at) {
    const conv_job *job = p->job;
    int64_t image, y, x;
    tile_place(p, tile, &image, &y, &x);
    int64_t rows = least(p->m, job->out_h - y), cols = least(p->m, job->out_w - x);
    bool whole = rows == p->m && cols == p->m, in_registers = whole && job->act <= CONV_RELU;
    float *to = job->y.p + image * job->y.image + y * job->y.row + x * job->y.pixel;
    const float *residual = job->residual.p ? job->residual.p + image * job->residual.image + y * job->residual.row + x * job->residual.pixel : NULL;
    conv_result r = { .bias = job->bias, .channels = job->o, .y = whole ? to : border, .row = whole ? job->y.row : p->m * job->o,
                      .pixel = whole ? job->y.pixel : job->o };
    if (in_registers) {
        r.residual = residual;
        r.residual_row = job->residual.row;
        r.residual_pixel = job->residual.pixel;
        r.relu = job->act == CONV_RELU;
    }
    job->isa->results(p->m, s + at * job->o, p->s_pos, &r);
    if (in_registers) return;
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; !whole && j < cols; j++) memcpy(to + i * job->y.row + j * job->y.pixel, r.y + i * r.row + j * r.pixel, (size_t)job->o * 4);
        conv_finish(job, to + i * job->y.row, job->y.pixel, residual ? residual + i * job->residual.row : NULL, job->residual.pixel, cols, job->o);
    }
}

/* Position `pos` of tiles [first, last) times panels [panel, panel + panels), whose weights are at u. */
static void product_run(const plan *p, int64_t pos, int64_t panel, int64_t panels, const float *u, const float *v, float *s, int64_t first, int64_t last) {
    static const float zeros[2 * CONV_LANES];
    const conv_job *job = p->job;
    int64_t rows = job->isa->rows[panels - 1], blocks = ratio_up(last - first, rows), each = (last - first) / blocks, longer = (last - first) % blocks;
    for (int64_t i = 0, at = first; i < blocks; i++) {
        int64_t n = each + (i < longer);
        conv_run run = { v + pos * p->v_pos + at * job->c, u, job->c };
        conv_tile t = { .run = &run, .runs = 1, .a_row = job->c, .panel = job->c * CONV_LANES, .in = zeros,
                        .out = s + pos * p->s_pos + at * job->o + panel * CONV_LANES, .out_row = job->o, .ahead = (const char *)u };
        job->isa->tile((int)n, (int)panels, &t);
        at += n;
    }
}

/* ---- a thread of its own for few tiles ---- */

static int own_blocks(void *arg, int64_t begin, int64_t end) {
    plan *p = arg;
    float *slot = (float *)(void *)gemm_slot_take(&p->slots), *u = slot + p->u_at, *v = slot + p->v_at, *s = slot + p->s_at;
    int64_t panel_size = p->job->c * CONV_LANES;
    bool *has_weights = (bool *)(void *)(slot + p->flag_at);
    if (!*has_weights) weights_run(p, 0, p->panels, u);
    *has_weights = true;
    for (int64_t b = begin; b < end; b++) {
        int64_t first = b * p->block, last = least(first + p->block, p->tiles);
        for (int64_t t = first; t < last; t++) patch_run(p, t, slot, v, t - first);
        for (int64_t pos = 0; pos < p->n * p->n; pos++)
            for (int64_t panel = 0; panel < p->panels; panel += p->wide)
                product_run(p, pos, panel, least(p->wide, p->panels - panel), u + pos * p->u_pos + panel * panel_size, v, s, 0, last - first);
        for (int64_t t = first; t < last; t++) result_run(p, t, slot, s, t - first);
    }
    gemm_slot_give(&p->slots, (char *)slot);
    return RT_OK;
}

/* ---- all threads for all tiles ---- */

static int shared_patches(void *arg, int64_t begin, int64_t end) {
    plan *p = arg;
    float *slot = (float *)(void *)gemm_slot_take(&p->slots);
    for (int64_t t = begin; t < end; t++) patch_run(p, p->first + t, slot, p->v, t);
    gemm_slot_give(&p->slots, (char *)slot);
    return RT_OK;
}

static int shared_products(void *arg, int64_t begin, int64_t end) {
    plan *p = arg;
    float *slot = (float *)(void *)gemm_slot_take(&p->slots), *u = slot + p->u_at;
    int64_t tiles = p->last - p->first;
    for (int64_t at = begin; at < end; at++) {
        int64_t panel = at / p->splits * p->wide, split = at % p->splits, panels = least(p->wide, p->panels - panel);
        if (split == 0 || at == begin) weights_run(p, panel, panels, u);
        for (int64_t pos = 0; pos < p->n * p->n; pos++)
            product_run(p, pos, panel, panels, u + pos * p->u_pos, p->v, p->s, tiles * split / p->splits, tiles * (split + 1) / p->splits);
    }
    gemm_slot_give(&p->slots, (char *)slot);
    return RT_OK;
}

static int shared_results(void *arg, int64_t begin, int64_t end) {
    plan *p = arg;
    float *slot = (float *)(void *)gemm_slot_take(&p->slots);
    for (int64_t t = begin; t < end; t++) result_run(p, p->first + t, slot, p->s, t);
    gemm_slot_give(&p->slots, (char *)slot);
    return RT_OK;
}

static int shared_run(const rt_ctx *ctx, plan *p) {
    for (p->first = 0; p->first < p->tiles; p->first += p->block) {
        p->last = least(p->first + p->block, p->tiles);
        p->splits = least(ratio_up(rt_pool_threads(ctx->pool), p->pairs), p->last - p->first);
        int64_t tiles = p->last - p->first, squares = (int64_t)p->n * p->n;
        int64_t products = squares * tiles / p->splits * p->wide * CONV_LANES * p->job->c;
        int code = rt_parallel_work(ctx, tiles, squares * p->job->c, MOVE_GRAIN, shared_patches, p);
        if (!code) code = rt_parallel_work(ctx, p->pairs * p->splits, products, PRODUCT_GRAIN, shared_products, p);
        if (!code) code = rt_parallel_work(ctx, tiles, squares * p->job->o, MOVE_GRAIN, shared_results, p);
        if (code) return code;
    }
    return RT_OK;
}

/* Tiles of a block that one thread takes through all steps: one block of registers, or less where that leaves every thread with
 * an equal number of blocks. */
static int64_t own_tiles(int64_t tiles, int threads) {
    int64_t rounds = ratio_up(tiles, (int64_t)threads * OWN_TILES), even = ratio_up(tiles, threads * rounds);
    return threads > 1 && even >= LEAST_OWN_TILES ? even : OWN_TILES;
}

int conv_winograd(const rt_ctx *ctx, const conv_job *job, int m) {
    plan p = { .job = job, .m = m, .n = m + 2, .tiles_h = ratio_up(job->out_h, m), .tiles_w = ratio_up(job->out_w, m) };
    int64_t squares = (int64_t)p.n * p.n;
    p.tiles = job->n * p.tiles_h * p.tiles_w;
    p.panels = job->o / CONV_LANES;
    p.wide = job->isa->rows[1] ? 2 : 1;
    p.pairs = ratio_up(p.panels, p.wide);
    bool own = squares * job->o * job->c * 4 <= OWN_WEIGHTS;
    p.u_pos = (own ? p.panels : p.wide) * job->c * CONV_LANES + PAD;
    p.block = own ? own_tiles(p.tiles, rt_pool_threads(ctx->pool)) : most(MOST_SHARED / (squares * most(job->c, job->o)), OWN_TILES);
    p.block = ratio_up(p.tiles, ratio_up(p.tiles, p.block));
    p.v_pos = p.block * job->c + PAD;
    p.s_pos = p.block * job->o + PAD;
    int64_t border = squares * most(job->c, job->o), u = squares * p.u_pos, v = squares * p.v_pos, s = squares * p.s_pos;
    p.u_at = (size_t)border;
    p.v_at = (size_t)(border + u);
    p.s_at = (size_t)(border + u + v);
    p.flag_at = (size_t)(border + u + v + s);
    float *shared = own ? NULL : rt_scratch(ctx, (size_t)(v + s) * 4);
    if (!own && !shared) return rt_fail(ctx, RT_ENOMEM, "out of memory for the transforms of a convolution");
    p.v = shared;
    p.s = shared ? shared + v : NULL;
    int code = gemm_slots_init(ctx, &p.slots, own ? (p.flag_at + CONV_LANES) * 4 : (size_t)(border + u) * 4);
    if (!code) {
        for (int i = 0; own && i < p.slots.count; i++) *(bool *)(void *)(p.slots.memory + p.slots.size * (size_t)i + p.flag_at * 4) = false;
        int64_t products = squares * p.block * job->c * job->o;
        code = own ? rt_parallel_work(ctx, ratio_up(p.tiles, p.block), products, PRODUCT_GRAIN, own_blocks, &p) : shared_run(ctx, &p);
        gemm_slots_dispose(ctx, &p.slots);
    }
    rt_scratch_free(ctx, shared);
    return code;
}
