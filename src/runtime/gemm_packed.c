/* gemm_packed.c: C = post(A B) in f32 where B was packed into panels before: the linear layers of a compiled model.
 *
 * All of k is summed in one go, so a tile is finished when it leaves the registers: it is stored, and the epilogue
 * (rt_post.h) runs over it while it is in the nearest cache. Threads share the columns first, because then each reads
 * its own part of B, which usually comes from main memory; rows are cut so that every thread has as much to do, in a
 * few units that follow each other on the same panels. A group of two or three panels meets all rows of a block of A
 * before the next group, whose lines are brought nearer meanwhile; so are the next rows of A, which other cores have
 * just written.
 *
 * Each element adds its terms in the order of k in one chain, whatever the cut, so the cut may follow the thread
 * count. */
#include "runtime/gemm_isa.h"

#include <string.h>

enum { WIDTH = RT_PANEL_BYTES / 4, MOST_ROWS = 8, MOST_PANELS = 3, LEAST_WORK = 64 * 1024, LEAST_ROWS = 16,
       BOUND_ROWS = 8, /* with fewer, reading B is what takes the time */
       A_BLOCK_BYTES = 8 * 1024 * 1024, UNITS_PER_THREAD = 4 };

typedef struct job {
    const rt_gemm_args *g;
    gemm_panels_fn *tile;
    const int *most_rows;
    const float *a;
    int64_t a_row;
    int64_t panels, panel, panel_units, row_units, block_rows;
    int most_panels;
} job;

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t ratio_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
/* Part `at` of `parts` nearly equal parts of n. */
static int64_t part_begin(int64_t n, int64_t parts, int64_t at) { return n / parts * at + least(at, n % parts); }

/* Rows [i0, i1) by panels [p, p + wide). `next`: the panels after these; `new_rows`: A's rows were not used before. */
static void group_run(const job *s, int64_t i0, int64_t i1, int64_t p, int wide, const float *next, int64_t next_wide,
                      bool new_rows) {
    const rt_gemm_args *g = s->g;
    const float *b = (const float *)g->packed_b + p * s->panel;
    int64_t j = p * WIDTH, cols = least(wide * WIDTH, g->n - j), all = i1 - i0;
    int64_t count = ratio_up(all, s->most_rows[wide - 1]);
    bool direct = g->c_col == 1 && cols == wide * WIDTH;
    _Alignas(64) float buffer[MOST_ROWS * MOST_PANELS * WIDTH];
    for (int64_t t = 0; t < count; t++) {
        int64_t i = i0 + part_begin(all, count, t), rows = i0 + part_begin(all, count, t + 1) - i;
        float *c = (float *)g->c + i * g->c_row + j * g->c_col, *out = direct ? c : buffer;
        int64_t out_row = direct ? g->c_row : wide * WIDTH;
        /* A tile brings k lines nearer: a panel, or twice as many rows as it has itself. */
        bool rows_soon = new_rows && t % 2 == 0 && t + 1 < count;
        int64_t panel = new_rows ? t / 2 : t;
        const float *soon = rows_soon ? s->a + (i + rows) * s->a_row : panel < next_wide ? next + panel * s->panel : b;
        s->tile((int)rows, wide, g->k, s->a + i * s->a_row, s->a_row, b, s->panel, (const char *)soon, out, out_row);
        if (g->post) rt_post_run(g->post, out, out_row, i, rows, j, cols);
        if (!direct)
            for (int64_t r = 0; r < rows; r++)
                rt_convert(RT_F32, c + r * g->c_row, g->c_col, RT_F32, buffer + r * out_row, 1, cols);
    }
}

static int units_run(void *arg, int64_t begin, int64_t end) {
    const job *s = arg;
    const rt_gemm_args *g = s->g;
    for (int64_t at = begin; at < end; at++) {
        int64_t pu = at / s->row_units, ru = at % s->row_units;
        int64_t p0 = part_begin(s->panels, s->panel_units, pu), p1 = part_begin(s->panels, s->panel_units, pu + 1);
        int64_t i0 = part_begin(g->m, s->row_units, ru), i1 = part_begin(g->m, s->row_units, ru + 1);
        int64_t groups = ratio_up(p1 - p0, s->most_panels), blocks = ratio_up(i1 - i0, s->block_rows);
        for (int64_t block = 0; block < blocks; block++) {
            int64_t r0 = i0 + part_begin(i1 - i0, blocks, block), r1 = i0 + part_begin(i1 - i0, blocks, block + 1);
            for (int64_t q = 0; q < groups; q++) {
                int64_t p = p0 + part_begin(p1 - p0, groups, q), after = p0 + part_begin(p1 - p0, groups, q + 1);
                bool ends = q + 1 == groups && block + 1 == blocks; /* what is next is another unit's */
                int64_t next = q + 1 < groups || ends ? after : p0;
                int64_t next_wide = ends && ru + 1 < s->row_units ? 0 : least(s->most_panels, s->panels - next);
                group_run(s, r0, r1, p, (int)(after - p), (const float *)g->packed_b + next * s->panel, next_wide,
                          q == 0);
            }
        }
    }
    return RT_OK;
}

static int64_t work_of(const rt_gemm_args *g) { return most(g->m, BOUND_ROWS) * g->n * g->k; }

/* Work of the thread that has most, in rows by panels, when panels go in groups of `wide` and rows in `row_units`
 * parts. */
static int64_t longest(const job *s, int threads, int64_t panel_units, int64_t row_units) {
    int64_t unit = ratio_up(s->panels, panel_units) * ratio_up(s->g->m, row_units);
    return ratio_up(panel_units * row_units, threads) * unit;
}

/* Groups of three panels or of two, and as many parts of the rows as even out what the threads get; of equals the one
 * with more units, up to a few a thread, so that a thread that is late can be helped. */
static void cut(job *s, int threads) {
    const rt_gemm_args *g = s->g;
    s->most_panels = s->most_rows[2] ? 3 : s->most_rows[1] ? 2 : 1;
    s->panel_units = s->row_units = 1;
    s->block_rows = most(A_BLOCK_BYTES / (4 * most(g->k, 1)) / MOST_ROWS * MOST_ROWS, 2 * MOST_ROWS);
    int64_t wanted = least((int64_t)threads * UNITS_PER_THREAD, work_of(g) / LEAST_WORK); /* worth a thread each */
    if (threads < 2 || wanted < 2) return;
    int64_t best = INT64_MAX;
    for (int wide = s->most_panels; wide >= (s->most_panels > 1 ? 2 : 1); wide--) {
        int64_t panel_units = least(ratio_up(s->panels, wide), wanted);
        int64_t most_row_units = least(2 * wanted / panel_units, most(g->m / LEAST_ROWS, 1));
        for (int64_t row_units = 1; row_units <= most_row_units; row_units *= 2) {
            int64_t time = longest(s, threads, panel_units, row_units), units = panel_units * row_units;
            bool few = s->panel_units * s->row_units < wanted;
            if (time > best || (time == best && !(few && units > s->panel_units * s->row_units))) continue;
            best = time;
            s->panel_units = panel_units;
            s->row_units = row_units;
        }
    }
}

int gemm_packed(const rt_ctx *ctx, const rt_gemm_args *g) {
    const gemm_isa *isa = gemm_isa_get();
    job s = { .g = g, .tile = isa->panels, .most_rows = isa->f32.rows, .a = g->a, .a_row = g->a_row,
              .panels = ratio_up(g->n, WIDTH), .panel = g->k * WIDTH };
    void *dense = NULL;
    if (g->a_col != 1 && g->k > 1) {
        dense = rt_scratch(ctx, (size_t)(g->m * g->k) * 4);
        if (!dense) return rt_fail(ctx, RT_ENOMEM, "out of memory for the rows of a matrix product");
        rt_gemm_pack_rows(RT_F32, dense, g->k, RT_F32, g->a, g->a_row, g->a_col, g->m, g->k);
        s.a = dense;
        s.a_row = g->k;
    }
    cut(&s, rt_pool_threads(ctx->pool));
    int64_t units = s.panel_units * s.row_units;
    int code = rt_parallel_work(ctx, units, work_of(g) / units, LEAST_WORK, units_run, &s);
    rt_scratch_free(ctx, dense);
    return code;
}
