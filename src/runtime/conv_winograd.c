/* conv_winograd.c: 3x3 convolutions without stride as Winograd's F(4x4, 3x3) or F(2x2, 3x3), where that is faster.
 *
 * The weights are transformed in every call: that costs 3 to 20 % of it, no more than reading up to four times as many
 * from memory, and the artifact does not grow. Then, for a block of tiles: their patches are transformed to
 * v[position][tile][channel], each position is a product with its own weights, s[position][tile][output], and the sums
 * are transformed back to pixels.
 *
 * A unit is a block of tiles by a group of panels, and one thread does all steps of it in its own memory: what one core
 * writes and another reads, or writes next, costs more than doing some transforms twice. Patches are transformed once a
 * group, weights once a block, so the numbers of blocks and groups are chosen by what that costs each thread. Where all
 * transformed weights fit in a core's cache, they stay there for all blocks of a thread; else a pair of panels at a
 * time.
 *
 * Tiles at the border read a padded copy and write through one. What a value that is not finite reaches is its whole
 * tile, not only its neighbours; relative errors are about 1e-6 (m = 4) and 3e-7 (m = 2) of the largest value in the
 * tile. */
#include "runtime/conv_packed.h"
#include "runtime/gemm_isa.h"

#include <string.h>

enum {
    PAD = 5 * CONV_LANES,
    KEPT_TILES = 14,
    LEAST_KEPT_TILES = 6,
    MOST_PATCHES = 1 << 19 /* floats */,
    KEPT_WEIGHTS = 1280 * 1024,
    PRODUCT_GRAIN = 64 * 1024 /* products: about a microsecond */
};

typedef struct plan {
    const conv_job *job;
    int m, n;                        /* outputs and inputs of a tile's side */
    int64_t tiles_h, tiles_w, tiles; /* of an image; of all */
    int64_t panels, wide;            /* panels of a product */
    int64_t block, blocks;           /* tiles of a block */
    int64_t group, groups, step;     /* panels of a group; panels whose weights are there at a time */
    bool keeps;                      /* a thread's weights stay for its next block */
    int64_t u_pos, v_pos, s_pos;     /* floats from position to position */
    size_t u_at, v_at, s_at, state_at; /* floats into a slot, whose beginning is for borders */
    gemm_slots slots;
} plan;

/* What a slot holds: the block whose patches, the first panel whose weights; -1: none. */
typedef struct state { int64_t block, weights; } state;

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t ratio_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* Rough cycles: products at 90 % of two multiply-adds of 16 a cycle, transforms by the numbers they move. */
static double tiles_cost(const conv_job *job, int m, double tiles, double outputs) {
    return (double)((m + 2) * (m + 2)) * tiles * (double)job->c * outputs / 29;
}
static double moves_cost(int m, double tiles, double channels) {
    return (double)((m + 2) * (m + 2)) * tiles * channels / 16 * 6;
}
static double weights_cost(const conv_job *job, int m, double outputs) {
    return (double)((m + 2) * (m + 2)) * (double)job->c * outputs / 16 * 8;
}

static double cost(const conv_job *job, int m) {
    double tiles = (double)(job->n * ratio_up(job->out_h, m) * ratio_up(job->out_w, m)), o = (double)job->o;
    return tiles_cost(job, m, tiles, o) + moves_cost(m, tiles, (double)job->c + o) + weights_cost(job, m, o);
}

int conv_winograd_tile(const conv_job *job) {
    bool fits = job->kernel_h == 3 && job->kernel_w == 3 && job->stride_h == 1 && job->stride_w == 1 &&
                job->dilation_h == 1 && job->dilation_w == 1 && job->groups == 1 && job->c % CONV_LANES == 0 &&
                job->o % CONV_LANES == 0 && job->c >= 32 && job->o >= 32;
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

/* The pixels of a tile, in panels [panel, panel + panels). */
static void result_run(const plan *p, int64_t tile, int64_t panel, int64_t panels, float *border, const float *s,
                       int64_t at) {
    const conv_job *job = p->job;
    int64_t channel = panel * CONV_LANES, channels = panels * CONV_LANES;
    int64_t image, y, x;
    tile_place(p, tile, &image, &y, &x);
    int64_t rows = least(p->m, job->out_h - y), cols = least(p->m, job->out_w - x);
    bool whole = rows == p->m && cols == p->m, in_registers = whole && job->act <= CONV_RELU;
    float *to = job->y.p + image * job->y.image + y * job->y.row + x * job->y.pixel + channel;
    const float *residual = job->residual.p;
    if (residual) residual += image * job->residual.image + y * job->residual.row + x * job->residual.pixel + channel;
    conv_result r = { .bias = job->bias + channel, .channels = channels, .y = whole ? to : border,
                      .row = whole ? job->y.row : p->m * channels, .pixel = whole ? job->y.pixel : channels };
    if (in_registers) {
        r.residual = residual;
        r.residual_row = job->residual.row;
        r.residual_pixel = job->residual.pixel;
        r.relu = job->act == CONV_RELU;
    }
    job->isa->results(p->m, s + at * p->step * CONV_LANES, p->s_pos, &r);
    if (in_registers) return;
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; !whole && j < cols; j++)
            memcpy(to + i * job->y.row + j * job->y.pixel, r.y + i * r.row + j * r.pixel, (size_t)channels * 4);
        conv_finish(job, to + i * job->y.row, job->y.pixel, residual ? residual + i * job->residual.row : NULL,
                    job->residual.pixel, cols, channels);
    }
}

/* Position `pos` of a block of tiles times panels whose weights are at u, to column `column` of s. */
static void product_run(const plan *p, int64_t pos, int64_t panels, const float *u, const float *v, float *s,
                        int64_t column, int64_t tiles) {
    static const float zeros[2 * CONV_LANES];
    const conv_job *job = p->job;
    int64_t rows = job->isa->rows[panels - 1], parts = ratio_up(tiles, rows), each = tiles / parts,
            longer = tiles % parts;
    int64_t s_row = p->step * CONV_LANES;
    for (int64_t i = 0, at = 0; i < parts; i++) {
        int64_t n = each + (i < longer);
        conv_run run = { v + pos * p->v_pos + at * job->c, u, job->c };
        conv_tile t = { .run = &run, .runs = 1, .a_row = job->c, .panel = job->c * CONV_LANES, .in = zeros,
                        .out = s + pos * p->s_pos + at * s_row + column, .out_row = s_row, .ahead = (const char *)u };
        job->isa->tile((int)n, (int)panels, &t);
        at += n;
    }
}

static void unit_run(const plan *p, float *slot, int64_t block, int64_t group) {
    float *u = slot + p->u_at, *v = slot + p->v_at, *s = slot + p->s_at;
    state *has = (state *)(void *)(slot + p->state_at);
    int64_t first = block * p->block, tiles = least(p->block, p->tiles - first), panel_size = p->job->c * CONV_LANES;
    for (int64_t t = 0; has->block != block && t < tiles; t++) patch_run(p, first + t, slot, v, t);
    has->block = block;
    int64_t end = least((group + 1) * p->group, p->panels);
    for (int64_t at = group * p->group; at < end; at += p->step) {
        int64_t panels = least(p->step, end - at);
        if (has->weights != at || !p->keeps) weights_run(p, at, panels, u);
        has->weights = at;
        for (int64_t pos = 0; pos < p->n * p->n; pos++)
            for (int64_t i = 0; i < panels; i += p->wide)
                product_run(p, pos, least(p->wide, panels - i), u + pos * p->u_pos + i * panel_size, v, s,
                            i * CONV_LANES, tiles);
        for (int64_t t = 0; t < tiles; t++) result_run(p, first + t, at, panels, slot, s, t);
    }
}

static int units_run(void *arg, int64_t begin, int64_t end) {
    plan *p = arg;
    float *slot = (float *)(void *)gemm_slot_take(&p->slots);
    for (int64_t at = begin; at < end; at++) unit_run(p, slot, at / p->groups, at % p->groups);
    gemm_slot_give(&p->slots, (char *)slot);
    return RT_OK;
}

/* ---- the cut ---- */

/* One group, and blocks of as many tiles as a block of registers has, or fewer where that leaves every thread with an
 * equal number of them. */
static void cut_keeping(plan *p, int threads) {
    p->keeps = true;
    p->step = p->group = p->panels;
    int64_t rounds = ratio_up(p->tiles, (int64_t)threads * KEPT_TILES), even = ratio_up(p->tiles, threads * rounds);
    p->block = threads > 1 && even >= LEAST_KEPT_TILES ? even : KEPT_TILES;
}

/* Blocks and groups that leave the thread with most to do with least. */
static void cut_sharing(plan *p, int threads) {
    const conv_job *job = p->job;
    int64_t pairs = ratio_up(p->panels, p->wide), squares = (int64_t)p->n * p->n;
    int64_t least_blocks = ratio_up(p->tiles * squares * job->c, MOST_PATCHES),
            most_blocks = most(least_blocks, least(p->tiles, 2 * threads));
    double best = 0;
    p->step = p->wide;
    for (int64_t groups = 1; groups <= pairs; groups *= 2)
        for (int64_t blocks = least_blocks; blocks <= most_blocks; blocks++) {
            int64_t group = ratio_up(pairs, groups) * p->wide, block = ratio_up(p->tiles, blocks);
            double tiles = (double)block, outputs = (double)(group * CONV_LANES);
            double unit = tiles_cost(job, p->m, tiles, outputs) + moves_cost(p->m, tiles, (double)job->c + outputs) +
                          weights_cost(job, p->m, outputs);
            double time = unit * (double)ratio_up(blocks * groups, threads);
            if (best > 0 && time >= best) continue;
            best = time;
            p->group = group;
            p->block = block;
        }
}

int conv_winograd(const rt_ctx *ctx, const conv_job *job, int m) {
    plan p = { .job = job, .m = m, .n = m + 2, .tiles_h = ratio_up(job->out_h, m), .tiles_w = ratio_up(job->out_w, m) };
    int64_t squares = (int64_t)p.n * p.n;
    p.tiles = job->n * p.tiles_h * p.tiles_w;
    p.panels = job->o / CONV_LANES;
    p.wide = job->isa->rows[1] ? 2 : 1;
    if (squares * job->o * job->c * 4 <= KEPT_WEIGHTS) cut_keeping(&p, rt_pool_threads(ctx->pool));
    else cut_sharing(&p, rt_pool_threads(ctx->pool));
    p.blocks = ratio_up(p.tiles, p.block);
    p.block = ratio_up(p.tiles, p.blocks);
    p.groups = ratio_up(p.panels, p.group);
    p.u_pos = p.step * job->c * CONV_LANES + PAD;
    p.v_pos = p.block * job->c + PAD;
    p.s_pos = p.block * p.step * CONV_LANES + PAD;
    p.u_at = (size_t)(squares * most(job->c, p.step * CONV_LANES));
    p.v_at = p.u_at + (size_t)(squares * p.u_pos);
    p.s_at = p.v_at + (size_t)(squares * p.v_pos);
    p.state_at = p.s_at + (size_t)(squares * p.s_pos);
    int code = gemm_slots_init(ctx, &p.slots, p.state_at * 4 + sizeof(state));
    if (code) return code;
    for (int i = 0; i < p.slots.count; i++)
        *(state *)(void *)(p.slots.memory + p.slots.size * (size_t)i + p.state_at * 4) = (state){ -1, -1 };
    int64_t products = squares * p.block * job->c * p.group * CONV_LANES;
    code = rt_parallel_work(ctx, p.blocks * p.groups, products, PRODUCT_GRAIN, units_run, &p);
    gemm_slots_dispose(ctx, &p.slots);
    return code;
}
