/* conv_dense.c: packed convolutions as products of image rows and panels, without any copy of the image.
 *
 * A tile is up to 14 neighbouring pixels of one output row by 32 output channels. For such a tile, the taps of one
 * kernel row that lie inside the image for all of its pixels are one run of terms (conv_isa.h). The few taps that are
 * outside for some pixels are added afterwards to the others alone, so that padding costs nothing. A 1x1 convolution
 * without stride is one long row. The work is cut into units of some tiles by a pair of panels; where the weights are
 * large, the tiles of a pair follow each other and the next pair is fetched ahead, else all pairs of a few tiles. */
#include "runtime/conv_packed.h"

#include <string.h>

enum { MOST_RUNS = 64, MOST_ROWS = 14, MOST_PANELS = 2 };
enum { SMALL_WEIGHTS = 512 * 1024, UNIT_TERMS = 1 << 18, GRAIN_TERMS = 1 << 16, GROUP_TILES = 4 };

typedef struct plan {
    const conv_job *job;
    int64_t channels, outs;             /* of a group */
    int64_t k, panels, pairs;           /* terms; panels and pairs of panels of a group */
    int64_t row_tiles, tiles;           /* tiles of an output row; all tiles */
    int64_t tile_rows, longer;          /* pixels of a tile; so many tiles of a row have one more */
    int64_t unit_tiles, units_per_pair; /* tiles of a unit */
    bool by_pairs;                      /* the order of units: pairs outside, tiles inside */
    bool plain, one_call;               /* 1x1 without padding; all taps of a tile fit in one call */
} plan;

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

/* Taps t with 0 <= at + t * dilation < size. */
static void inside(int64_t at, int64_t dilation, int64_t size, int64_t taps, int64_t *from, int64_t *to) {
    *from = at < 0 ? (-at + dilation - 1) / dilation : 0;
    *to = at < size ? least(taps, (size - 1 - at) / dilation + 1) : 0;
    if (*to < *from) *to = *from;
}

typedef struct tile_at { int64_t image, y, x, rows, group, panel, panels; } tile_at;

/* The terms of taps [kx0, kx1) for pixels [first, first + rows) of the tile. */
static void add_taps(const plan *p, const tile_at *t, conv_tile *tile, int64_t first, int64_t rows, int64_t ky0,
                     int64_t ky1, int64_t kx0, int64_t kx1) {
    const conv_job *job = p->job;
    conv_run run[MOST_RUNS];
    /* Changed in place: a copy of the struct would wait for the stores of the tile before. */
    float *const out = tile->out;
    tile->in += first * tile->in_row;
    tile->out += first * tile->out_row;
    tile->run = run;
    int64_t runs = 0;
    bool joined = job->dilation_w == 1 && job->groups == 1 && job->x.pixel == p->channels;
    int64_t width = job->dilation_w * job->x.pixel, taps = joined ? kx1 - kx0 : 1;
    const float *weights = job->packed + (t->group * p->panels + t->panel) * p->k * CONV_LANES;
    const float *image = job->x.p + t->image * job->x.image + t->group * p->channels +
                         ((t->x + first) * job->stride_w - job->padding_w) * job->x.pixel;
    for (int64_t ky = ky0; ky < ky1; ky++) {
        int64_t y = t->y * job->stride_h - job->padding_h + ky * job->dilation_h;
        for (int64_t kx = kx0; kx < kx1; kx += taps) {
            if (runs == MOST_RUNS) {
                tile->runs = runs;
                job->isa->tile((int)rows, (int)t->panels, tile);
                runs = 0;
                tile->in = tile->out;
                tile->in_row = tile->out_row;
            }
            run[runs++] = (conv_run){ image + y * job->x.row + kx * width,
                                      weights + (ky * job->kernel_w + kx) * p->channels * CONV_LANES,
                                      taps * p->channels };
        }
    }
    tile->runs = runs;
    job->isa->tile((int)rows, (int)t->panels, tile);
    tile->in = tile->out = out;
    tile->in_row = tile->out_row;
}

static void tile_run(const plan *p, const tile_at *t, const char *ahead, int64_t ahead_step) {
    const conv_job *job = p->job;
    _Alignas(64) float own[MOST_ROWS * MOST_PANELS * CONV_LANES], shortcut[MOST_ROWS * MOST_PANELS * CONV_LANES];
    int64_t first = t->panel * CONV_LANES, channel = t->group * p->outs + first, cols = t->panels * CONV_LANES;
    int64_t there = least(cols, p->outs - first), pixel = t->image;
    float *y = job->y.p + pixel * job->y.image + t->y * job->y.row + t->x * job->y.pixel + channel;
    const float *residual = job->residual.p;
    if (residual)
        residual += pixel * job->residual.image + t->y * job->residual.row + t->x * job->residual.pixel + channel;
    int64_t residual_row = job->residual.pixel;
    bool in_registers = job->act <= CONV_RELU;
    conv_tile tile = { .a_row = job->stride_w * job->x.pixel, .panel = p->k * CONV_LANES, .in = job->bias + channel,
                       .out = y, .out_row = job->y.pixel, .ahead = ahead, .ahead_step = ahead_step };
    if (there < cols) { /* the last panel has fewer channels than the registers */
        tile.out = own;
        tile.out_row = cols;
        for (int64_t i = 0; residual && i < t->rows; i++) {
            memset(shortcut + i * cols, 0, (size_t)cols * 4);
            memcpy(shortcut + i * cols, residual + i * residual_row, (size_t)there * 4);
        }
        if (residual) residual = shortcut;
        residual_row = cols;
    }
    int64_t ky0 = 0, ky1 = 1, kx0 = 0, kx1 = 1, last0 = 0, last1 = 1;
    if (!p->plain) {
        inside(t->y * job->stride_h - job->padding_h, job->dilation_h, job->h, job->kernel_h, &ky0, &ky1);
        inside(t->x * job->stride_w - job->padding_w, job->dilation_w, job->w, job->kernel_w, &kx0, &kx1);
        inside((t->x + t->rows - 1) * job->stride_w - job->padding_w, job->dilation_w, job->w, job->kernel_w, &last0,
               &last1);
    }
    /* Taps that all pixels have; the first call also sets the tile to the bias, with or without terms. */
    bool whole = kx0 == last0 && kx1 == last1 && p->one_call && in_registers;
    if (whole) {
        tile.residual = residual;
        tile.residual_row = residual_row;
        tile.relu = job->act == CONV_RELU;
    }
    int64_t all0 = most(kx0, last0), all1 = least(kx1, last1);
    if (all1 <= all0) all0 = all1 = 0;
    add_taps(p, t, &tile, 0, t->rows, ky0, ky1, all0, all1);
    if (!whole) {
        for (int64_t kx = 0; kx < job->kernel_w && t->rows > 1; kx++) {
            if (kx >= all0 && kx < all1) continue;
            /* Pixels of the tile for which this tap is inside: x * stride >= low, x * stride <= high. */
            int64_t low = job->padding_w - kx * job->dilation_w, high = job->w - 1 + low;
            int64_t from = low > 0 ? (low + job->stride_w - 1) / job->stride_w : 0,
                    to = high < 0 ? 0 : high / job->stride_w + 1;
            from = most(from - t->x, 0);
            to = least(to - t->x, t->rows);
            if (from < to) add_taps(p, t, &tile, from, to - from, ky0, ky1, kx, kx + 1);
        }
        conv_finish(job, tile.out, tile.out_row, residual, residual_row, t->rows, cols);
    }
    for (int64_t i = 0; there < cols && i < t->rows; i++)
        memcpy(y + i * job->y.pixel, own + i * cols, (size_t)there * 4);
}

static void pair_run(const plan *p, int64_t pair, int64_t first, int64_t last) {
    const conv_job *job = p->job;
    tile_at t = { .group = pair / p->pairs };
    int64_t per_pair = (p->panels + p->pairs - 1) / p->pairs;
    t.panel = pair % p->pairs * per_pair;
    t.panels = least(per_pair, p->panels - t.panel);
    const char *ahead = (const char *)job->packed;
    int64_t step = 0, bytes = p->k * t.panels * CONV_LANES * 4;
    bool fetches = p->by_pairs && pair + 1 < p->pairs * job->groups;
    if (fetches) step = bytes / (p->k * (last - first)) + 1;
    int64_t row = first / p->row_tiles, q = first % p->row_tiles;
    t.image = row / job->out_h;
    t.y = row % job->out_h;
    for (int64_t at = first; at < last; at++) {
        t.x = q * p->tile_rows + least(q, p->longer);
        t.rows = p->tile_rows + (q < p->longer);
        if (fetches)
            ahead = (const char *)(job->packed + (t.group * p->panels + t.panel) * p->k * CONV_LANES) + bytes +
                    (at - first) * step * p->k;
        tile_run(p, &t, ahead, step);
        if (++q == p->row_tiles) {
            q = 0;
            if (++t.y == job->out_h) t.y = 0, t.image++;
        }
    }
}

static int units_run(void *arg, int64_t begin, int64_t end) {
    const plan *p = arg;
    for (int64_t at = begin; at < end; at++) {
        if (p->by_pairs) {
            int64_t first = at % p->units_per_pair * p->unit_tiles;
            pair_run(p, at / p->units_per_pair, first, least(first + p->unit_tiles, p->tiles));
        } else {
            int64_t first = at * p->unit_tiles, last = least(first + p->unit_tiles, p->tiles);
            for (int64_t from = first; from < last; from += GROUP_TILES)
                for (int64_t pair = 0; pair < p->pairs * p->job->groups; pair++)
                    pair_run(p, pair, from, least(from + GROUP_TILES, last));
        }
    }
    return RT_OK;
}

/* One long row instead of an image, where nothing but the pixel itself matters. */
static bool folds(const conv_job *j, const conv_pixels *x, int64_t h, int64_t w) {
    return !x->p || (x->row == w * x->pixel && (j->n == 1 || x->image == h * x->row));
}
static conv_job fold(const conv_job *job) {
    conv_job j = *job;
    bool plain = j.kernel_h == 1 && j.kernel_w == 1 && j.stride_h == 1 && j.stride_w == 1 && !j.padding_h &&
                 !j.padding_w;
    if (!plain || !folds(job, &j.x, j.h, j.w) || !folds(job, &j.y, j.h, j.w) || !folds(job, &j.residual, j.h, j.w))
        return j;
    j.w = j.out_w = j.n * j.h * j.w;
    j.n = j.h = j.out_h = 1;
    return j;
}

/* Where pairs are shared: as many tiles to a unit as leave the thread that has most with least; of equals fewer tiles,
 * up to a few units a thread, so that a thread that is late can be helped. */
static int64_t tiles_of_unit(const plan *p, int64_t pairs, int threads) {
    int64_t best = p->tiles, longest = INT64_MAX, units = 0;
    for (int64_t cuts = 1; threads > 1 && cuts <= p->tiles && pairs * cuts < 8 * (int64_t)threads; cuts *= 2) {
        int64_t tiles = (p->tiles + cuts - 1) / cuts, count = pairs * ((p->tiles + tiles - 1) / tiles);
        int64_t most_of_one = (count + threads - 1) / threads * tiles;
        if (most_of_one > longest || (most_of_one == longest && units >= 2 * threads)) continue;
        best = tiles, longest = most_of_one, units = count;
    }
    return best;
}

int conv_dense(const rt_ctx *ctx, const conv_job *given) {
    conv_job job = fold(given);
    plan p = { .job = &job, .channels = job.c / job.groups, .outs = job.o / job.groups };
    p.k = job.kernel_h * job.kernel_w * p.channels;
    p.panels = conv_round_up(p.outs) / CONV_LANES;
    int64_t wide = job.isa->rows[1] ? 2 : 1, rows = job.isa->rows[wide - 1];
    p.pairs = (p.panels + wide - 1) / wide;
    p.row_tiles = (job.out_w + rows - 1) / rows;
    p.tiles = job.n * job.out_h * p.row_tiles;
    p.tile_rows = job.out_w / p.row_tiles;
    p.longer = job.out_w % p.row_tiles;
    p.plain = job.kernel_h == 1 && job.kernel_w == 1 && !job.padding_h && !job.padding_w;
    p.one_call = job.kernel_h * job.kernel_w <= MOST_RUNS;
    int64_t all_pairs = p.pairs * job.groups, weights = all_pairs * wide * p.k * CONV_LANES * 4;
    int64_t per_tile = most((job.out_w + p.row_tiles - 1) / p.row_tiles * wide * CONV_LANES * p.k, 1);
    p.by_pairs = weights > SMALL_WEIGHTS && job.groups == 1;
    if (p.by_pairs) {
        p.unit_tiles = tiles_of_unit(&p, all_pairs, rt_pool_threads(ctx->pool));
        p.units_per_pair = (p.tiles + p.unit_tiles - 1) / p.unit_tiles;
        return rt_parallel_work(ctx, all_pairs * p.units_per_pair, per_tile * p.unit_tiles, GRAIN_TERMS, units_run, &p);
    }
    p.unit_tiles = most(UNIT_TERMS / (per_tile * all_pairs), 1);
    int64_t units = (p.tiles + p.unit_tiles - 1) / p.unit_tiles;
    return rt_parallel_work(ctx, units, per_tile * all_pairs * p.unit_tiles, GRAIN_TERMS, units_run, &p);
}
