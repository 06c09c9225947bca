/* gemm_blocked.c: large products, by packed panels and register tiles.
 *
 * A product is cut into units, each a block of rows and panels of one batch entry, and a unit is computed by one
 * thread:
 *
 *     for each block of k:  pack B's block (it fits the L2 cache)
 *         for each group of rows (their part of A fits, too):  for each tile: sums += rows of A * panels of B
 *
 * A few columns past the last whole panel would fill one with mostly nothing; they are computed as dot products with
 * the rows of A that are at hand anyway. A is read in place when its rows are dense and of the compute type, else its
 * part is packed, too. B is read in place when there are only a few rows to multiply it with. What several units would
 * pack alike is packed once before, by all threads. What the next block reads, and what the next tile writes, is
 * brought nearer while this one is computed. Each element of C adds its terms in the order of k whatever the cut, so
 * the cut may follow the thread count. */
#include "runtime/gemm_isa.h"

#include <string.h>

enum {
    K_WHOLE = 1280, K_BLOCK = 1024,       /* up to K_WHOLE k is not cut */
    B_BLOCK_BYTES = 640 * 1024,           /* of B's block */
    A_BLOCK_BYTES = 192 * 1024,           /* of A's part */
    LEAST_WORK = 128 * 1024,              /* products in a unit worth a thread */
    PACK_GRAIN = 16 * 1024,               /* numbers worth one when they are packed */
    LEAST_ROWS = 32,                      /* of a unit, when rows are cut */
    FEW_ROWS = 16,                        /* so few that packing B does not pay */
    EDGE_PART = 4, EDGE_LEAST_K = 64,     /* columns past a panel are an edge up to width / EDGE_PART */
    STREAM_K = 128, STREAM_ROWS = 256,    /* of a block of B that is read while the one before is used; of A then */
    STREAM_PANELS = 48, STREAM_WHOLE = 64, STREAM_LEAST = 12, /* of such a block; up to WHOLE it is not cut */
    AHEAD_GROUPS = 3,                     /* of panels, in whose time the next rows of A can come */
    FAR_BYTES = 1024 * 1024, FAR_K = 32,  /* of a result that is in no near cache; terms that give time to fetch it */
    SHARED_BYTES = 64 * 1024 * 1024,      /* at most, for what is packed once */
    MOST_TILE_ROWS = 8, MOST_TILE_PANELS = 3
};

typedef struct job {
    const rt_gemm_args *g;
    const gemm_kind *kind;
    int compute, most_panels;
    int64_t item, width;
    int64_t k_block, k_blocks, panels;
    int64_t unit_rows, unit_panels, row_units, panel_units;
    int64_t group_rows;
    int64_t edge; /* columns past the last whole panel that are dot products; the others are all in panels */
    bool a_in_place, b_in_place, c_in_place, b_streams, c_is_far;
    /* Packed once, or before the call; NULL: by each unit. */
    const char *packed_a, *packed_b;
    int64_t packed_b_batch;
    /* Offsets in a slot. */
    size_t a_at, edge_at, edge_sums_at, sums_at;
    gemm_slots slots;
} job;

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t ratio_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
static int64_t round_up(int64_t a, int64_t to) { return ratio_up(a, to) * to; }

/* Part `at` of `parts` nearly equal parts of n. */
static int64_t part_begin(int64_t n, int64_t parts, int64_t at) { return n / parts * at + least(at, n % parts); }

/* ---- one unit ---- */

/* What the block after this one reads: `left` pieces of dense memory, `pieces` of them a row. Each tile of this block
 * brings one nearer, so that reading a weight costs no time of its own. */
typedef struct coming { const char *at; int64_t step, bytes, row, pieces, piece, left; } coming;

typedef struct unit {
    job *s;
    int64_t batch, i0, i1, p0, p1; /* rows and panels */
    bool goes_on;                  /* the same thread has the panels after these, too */
    coming coming;
    char *slot;
} unit;

typedef struct b_source { const char *at; int64_t first, row, panel; } b_source; /* `at`: panel `first` */

/* `rows` rows of `bytes` bytes, `row` bytes apart, shared by `tiles` tiles of k terms. */
static coming coming_of(const char *at, int64_t row, int64_t rows, int64_t bytes, int64_t tiles, int64_t k) {
    int64_t pieces = most(rows > 0 ? tiles / rows : 1, 1), each = ratio_up(bytes, pieces);
    return (coming){ at, ratio_up(each, k), each, row, pieces, 0, rows * pieces };
}

/* Of B, when it is packed from far away: the same panels' next terms, or the first of the next panels. */
static coming b_coming(const unit *u, int64_t k0, int64_t k1, int64_t tiles) {
    const job *s = u->s;
    const rt_gemm_args *g = s->g;
    bool same = k1 < g->k;
    int64_t k = same ? k1 : 0, p = same ? u->p0 : u->p1;
    int64_t panels = same ? u->p1 - u->p0 : u->goes_on ? least(s->unit_panels, s->panels - u->p1) : 0;
    const char *at = (const char *)g->b + (u->batch * g->b_batch + k * g->b_row + p * s->width) * s->item;
    return coming_of(at, g->b_row * s->item, panels ? least(k1 - k0, g->k - k) : 0, panels * RT_PANEL_BYTES, tiles,
                     k1 - k0);
}

/* Of A, rows from i on. */
static coming a_coming(const unit *u, const char *a, int64_t a_row, int64_t i, int64_t k, int64_t tiles) {
    int64_t rows = least(u->s->group_rows, u->i1 - i);
    return coming_of(a, a_row * u->s->item, rows, k * u->s->item, tiles, k);
}

static gemm_ahead ahead_take(coming *c) {
    if (c->left <= 0) return (gemm_ahead){ c->at, 0 };
    gemm_ahead lines = { c->at + c->piece * c->bytes, c->step };
    c->left--;
    if (++c->piece == c->pieces) {
        c->piece = 0;
        c->at += c->row;
    }
    return lines;
}

/* Lines that the next tile writes, which have to come here first. */
static void lines_fetch(const char *at, int64_t row, int64_t rows, int64_t bytes) {
    for (int64_t r = 0; r < rows; r++)
        for (int64_t b = 0; b < bytes; b += 64) __builtin_prefetch(at + r * row + b, 1, 2);
}

/* Tiles of rows [i, i_end) by panels [p, p + panels), whose terms k0..k1 are at hand. */
static void tiles_run(unit *u, int64_t i, int64_t i_end, int64_t p, int panels, const char *a, int64_t a_row,
                      b_source b, int64_t k0, int64_t k1) {
    job *s = u->s;
    const rt_gemm_args *g = s->g;
    _Alignas(64) char buffer[MOST_TILE_ROWS * MOST_TILE_PANELS * RT_PANEL_BYTES];
    int64_t j = p * s->width, cols = least(panels * s->width, g->n - j), sums_row = (u->p1 - u->p0) * s->width;
    bool last = k1 == g->k, direct = s->c_in_place && cols == panels * s->width;
    int64_t count = ratio_up(i_end - i, s->kind->rows[panels - 1]), rows_all = i_end - i;
    b.at += (p - b.first) * b.panel * s->item;
    for (int64_t t = 0; t < count; t++) {
        int64_t r0 = part_begin(rows_all, count, t), rows = part_begin(rows_all, count, t + 1) - r0;
        char *sums = u->slot + s->sums_at + ((i + r0 - u->i0) * sums_row + (p - u->p0) * s->width) * s->item;
        char *out = sums;
        int64_t out_row = sums_row;
        if (last) {
            out = direct ? (char *)g->c + (u->batch * g->c_batch + (i + r0) * g->c_row + j) * s->item : buffer;
            out_row = direct ? g->c_row : panels * s->width;
        }
        if (direct && last && s->c_is_far && t + 1 < count)
            lines_fetch(out + rows * out_row * s->item, out_row * s->item, rows, panels * RT_PANEL_BYTES);
        s->kind->tile((int)rows, panels, k1 - k0, a + r0 * a_row * s->item, a_row, b.at, b.row, b.panel,
                      k0 ? sums : NULL, sums_row, out, out_row, ahead_take(&u->coming));
        if (last) gemm_finish(g, s->kind, s->compute, out, out_row, direct, u->batch, i + r0, rows, j, cols);
    }
}

/* Rows [i0, i1) of A, terms k0..k1, as dense rows `row` apart. */
static void a_pack(const job *s, int64_t batch, int64_t i0, int64_t i1, int64_t k0, int64_t k1, void *to, int64_t row) {
    const rt_gemm_args *g = s->g;
    int64_t from = rt_itemsize(g->dtype);
    if (g->rows_a) g->rows_a(g->rows_arg, batch, i0, i1, k0, k1, to, row);
    else
        rt_gemm_pack_rows(s->compute, to, row, g->dtype,
                          (const char *)g->a + (batch * g->a_batch + i0 * g->a_row + k0 * g->a_col) * from, g->a_row,
                          g->a_col, i1 - i0, k1 - k0);
}

/* Where the unit's B of k0..k1 is, packing it when it has to. A partial panel at the end is always packed: tiles read
 * whole panels. */
static b_source b_prepare(unit *u, int64_t k0, int64_t k1, b_source *last) {
    job *s = u->s;
    const rt_gemm_args *g = s->g;
    int64_t j0 = u->p0 * s->width, j1 = least(u->p1 * s->width, g->n), panel = (k1 - k0) * s->width;
    if (s->packed_b) {
        int64_t whole = g->k * s->width;
        return *last = (b_source){ s->packed_b + (u->batch * s->packed_b_batch + k0 * s->width) * s->item, 0, s->width,
                                   whole };
    }
    if (!s->b_in_place) {
        gemm_pack_panels(g, s->compute, u->batch, k0, k1, j0, j1, u->slot, panel);
        return *last = (b_source){ u->slot, u->p0, s->width, panel };
    }
    if (j1 % s->width) {
        gemm_pack_panels(g, s->compute, u->batch, k0, k1, j1 / s->width * s->width, j1, u->slot, panel);
        *last = (b_source){ u->slot, u->p1 - 1, s->width, panel };
    }
    const char *at = (const char *)g->b + (u->batch * g->b_batch + k0 * g->b_row + j0) * s->item;
    return (b_source){ at, u->p0, g->b_row, s->width };
}

/* The edge columns of B, each dense along k. Where B lies in panels, they are the first columns of the last one. */
static void edge_prepare(unit *u, int64_t k0, int64_t k1) {
    job *s = u->s;
    const rt_gemm_args *g = s->g;
    char *to = u->slot + s->edge_at;
    int64_t panel = (k1 - k0) * s->width;
    const char *from = to + s->edge * (k1 - k0) * s->item;
    if (s->packed_b) {
        from = s->packed_b + (u->batch * s->packed_b_batch + s->panels * g->k * s->width + k0 * s->width) * s->item;
    } else {
        gemm_pack_panels(g, s->compute, u->batch, k0, k1, s->panels * s->width, g->n, (char *)from, panel);
    }
    rt_gemm_pack_rows(s->compute, to, k1 - k0, s->compute, from, 1, s->width, s->edge, k1 - k0);
}

static void edge_run(unit *u, int64_t i, int64_t i_end, const char *a, int64_t a_row, int64_t k0, int64_t k1) {
    job *s = u->s;
    const rt_gemm_args *g = s->g;
    _Alignas(64) char buffer[GEMM_DOT_ROWS * RT_PANEL_BYTES];
    for (int64_t r = i; r < i_end; r += GEMM_DOT_ROWS) {
        int rows = (int)least(GEMM_DOT_ROWS, i_end - r);
        char *sums = u->slot + s->edge_sums_at + (r - u->i0) * s->edge * s->item;
        s->kind->dot(rows, s->edge, k1 - k0, a + (r - i) * a_row * s->item, a_row, u->slot + s->edge_at, k1 - k0,
                     buffer, s->edge);
        if (k0) s->kind->blend(buffer, rows * s->edge, 1, sums, 1, 1);
        if (k1 == g->k)
            gemm_finish(g, s->kind, s->compute, buffer, s->edge, false, u->batch, r, rows, s->panels * s->width,
                        s->edge);
        else memcpy(sums, buffer, (size_t)(rows * s->edge * s->item));
    }
}

static void unit_run(unit *u) {
    job *s = u->s;
    const rt_gemm_args *g = s->g;
    for (int64_t k0 = 0; k0 < g->k; k0 += s->k_block) {
        int64_t k1 = least(k0 + s->k_block, g->k);
        b_source last, b = b_prepare(u, k0, k1, &last);
        /* Panels in groups of equal size; one that is only part of B goes alone when it lies elsewhere. */
        bool has_edge = s->edge && u->p1 == s->panels;
        if (has_edge) edge_prepare(u, k0, k1);
        bool alone = s->b_in_place && least(u->p1 * s->width, g->n) % s->width;
        int64_t panels = u->p1 - u->p0 - alone, groups = ratio_up(panels, s->most_panels);
        u->coming = s->b_streams ? b_coming(u, k0, k1, groups * ((u->i1 - u->i0) / MOST_TILE_ROWS))
                                 : (coming){ .at = g->c };
        for (int64_t i = u->i0; i < u->i1; i += s->group_rows) {
            int64_t i_end = least(i + s->group_rows, u->i1), a_row = g->a_row;
            const char *a;
            if (s->packed_a) {
                a = s->packed_a + ((u->batch * g->m + i) * g->k + k0) * s->item;
                a_row = g->k;
            } else if (s->a_in_place) {
                a = (const char *)g->a + (u->batch * g->a_batch + i * g->a_row + k0) * s->item;
            } else {
                a_row = k1 - k0;
                a_pack(s, u->batch, i, i_end, k0, k1, u->slot + s->a_at, a_row);
                a = u->slot + s->a_at;
            }
            if (!s->b_streams && groups >= AHEAD_GROUPS && (s->packed_a || s->a_in_place))
                u->coming = a_coming(u, a + (i_end - i) * a_row * s->item, a_row, i_end, k1 - k0,
                                     groups * ((i_end - i) / MOST_TILE_ROWS));
            for (int64_t q = 0; q < groups; q++) {
                int64_t p = u->p0 + part_begin(panels, groups, q);
                tiles_run(u, i, i_end, p, (int)(u->p0 + part_begin(panels, groups, q + 1) - p), a, a_row, b, k0, k1);
            }
            if (alone) tiles_run(u, i, i_end, u->p1 - 1, 1, a, a_row, last, k0, k1);
            if (has_edge) edge_run(u, i, i_end, a, a_row, k0, k1);
        }
    }
}

static int units_run(void *arg, int64_t begin, int64_t end) {
    job *s = arg;
    unit u = { .s = s, .slot = gemm_slot_take(&s->slots) };
    for (int64_t at = begin; at < end; at++) {
        int64_t panel_unit = at % s->panel_units, rest = at / s->panel_units;
        int64_t row_unit = rest % s->row_units;
        u.batch = rest / s->row_units;
        u.p0 = panel_unit * s->unit_panels;
        u.p1 = least(u.p0 + s->unit_panels, s->panels);
        u.i0 = row_unit * s->unit_rows;
        u.i1 = least(u.i0 + s->unit_rows, s->g->m);
        u.goes_on = at + 1 < end && panel_unit + 1 < s->panel_units;
        unit_run(&u);
    }
    gemm_slot_give(&s->slots, u.slot);
    return RT_OK;
}

/* ---- packing ahead ---- */

typedef struct packing { job *s; char *out; int64_t per_batch; } packing;

static int panels_pack(void *arg, int64_t begin, int64_t end) {
    packing *w = arg;
    job *s = w->s;
    const rt_gemm_args *g = s->g;
    int64_t whole = g->k * s->width;
    for (int64_t at = begin; at < end; at++) {
        int64_t panels = s->panels + (s->edge > 0), p = at % panels, batch = at / panels;
        gemm_pack_panels(g, s->compute, batch, 0, g->k, p * s->width, least((p + 1) * s->width, g->n),
                         w->out + (batch * w->per_batch + p * whole) * s->item, whole);
    }
    return RT_OK;
}

static int rows_pack(void *arg, int64_t begin, int64_t end) {
    packing *w = arg;
    job *s = w->s;
    const rt_gemm_args *g = s->g;
    int64_t blocks = ratio_up(g->m, MOST_TILE_ROWS);
    for (int64_t at = begin; at < end; at++) {
        int64_t i = at % blocks * MOST_TILE_ROWS, batch = at / blocks;
        a_pack(s, batch, i, least(i + MOST_TILE_ROWS, g->m), 0, g->k, w->out + (batch * g->m + i) * g->k * s->item,
               g->k);
    }
    return RT_OK;
}

/* ---- the cut ---- */

/* A weight that is used once, by few rows: its own rows come in long runs, a few at a time, and while a block of them
 * is multiplied, the next one is on its way. Each thread has one part of the columns then. Not where there is an edge,
 * whose dot products would depend on the threads by their blocks of k. */
static void cut_stream(job *s, int threads) {
    const rt_gemm_args *g = s->g;
    int64_t each = ratio_up(s->panels, threads), most_panels = s->panels <= STREAM_WHOLE ? s->panels : STREAM_PANELS;
    bool dense = s->compute == g->dtype && g->b_col == 1 && !g->pack_b && !g->packed_b && g->batch == 1 && !s->edge;
    if (!dense || g->m <= FEW_ROWS || g->m > STREAM_ROWS || g->k <= 2 * STREAM_K || each < STREAM_LEAST) return;
    s->b_streams = true;
    s->k_blocks = ratio_up(g->k, STREAM_K);
    s->k_block = round_up(ratio_up(g->k, s->k_blocks), 8);
    s->unit_panels = least(each, most_panels);
}

static void cut_rows(job *s, int64_t wanted) {
    const rt_gemm_args *g = s->g;
    int64_t row_units = 1;
    if (!s->b_streams && g->batch * s->panel_units < wanted) {
        int64_t per_unit = most(s->unit_panels * s->width * g->k, 1);
        int64_t rows = most(most(ratio_up(g->m * g->batch * s->panel_units, wanted), LEAST_ROWS),
                            LEAST_WORK / per_unit);
        row_units = ratio_up(g->m, rows);
    }
    s->unit_rows = round_up(ratio_up(g->m, row_units), MOST_TILE_ROWS);
    s->row_units = ratio_up(g->m, s->unit_rows);
    int64_t fit_rows = A_BLOCK_BYTES / (s->k_block * s->item);
    s->group_rows = most(fit_rows / MOST_TILE_ROWS * MOST_TILE_ROWS, 2 * MOST_TILE_ROWS);
}

static void cut(job *s, int threads) {
    const rt_gemm_args *g = s->g;
    s->k_blocks = g->k <= K_WHOLE ? 1 : ratio_up(g->k, K_BLOCK);
    s->k_block = s->k_blocks == 1 ? g->k : round_up(ratio_up(g->k, s->k_blocks), 8);
    s->panels = ratio_up(g->n, s->width);
    int64_t past = g->n % s->width;
    if (s->kind->dot && past && past <= s->width / EDGE_PART && s->panels > 1 && g->k >= EDGE_LEAST_K) {
        s->edge = past;
        s->panels--;
    }
    s->most_panels = s->kind->rows[2] ? MOST_TILE_PANELS : s->kind->rows[1] ? 2 : 1;

    int64_t fit = B_BLOCK_BYTES / (s->k_block * RT_PANEL_BYTES);
    s->unit_panels = least(s->panels, most(fit / s->most_panels * s->most_panels, s->most_panels));
    int64_t wanted = threads > 1 ? 4 * (int64_t)threads : 1;
    bool tall = g->m >= 4 * g->n && g->m >= wanted * LEAST_ROWS; /* rows are enough, and then each is read once */
    if (!tall && g->batch * ratio_up(s->panels, s->unit_panels) < wanted) {
        int64_t per_panel = most(g->m * s->width * g->k, 1), worth = ratio_up(LEAST_WORK, per_panel);
        int64_t each = most(ratio_up(s->panels * g->batch, wanted), worth);
        s->unit_panels = least(s->unit_panels, round_up(each, s->most_panels));
    }
    cut_stream(s, threads);
    s->panel_units = ratio_up(s->panels, s->unit_panels);
    cut_rows(s, wanted);
}

int gemm_blocked(const rt_ctx *ctx, const rt_gemm_args *g, int compute) {
    job s = { .g = g, .kind = gemm_kind_get(compute), .compute = compute, .item = rt_itemsize(compute) };
    s.width = RT_PANEL_BYTES / s.item;
    cut(&s, rt_pool_threads(ctx->pool));
    bool native = compute == g->dtype || (compute == RT_U32 && g->dtype == RT_I32) ||
                  (compute == RT_U64 && g->dtype == RT_I64);
    s.a_in_place = native && g->a_col == 1 && !g->rows_a;
    s.b_in_place = native && g->b_col == 1 && !g->pack_b && !g->packed_b && g->m <= FEW_ROWS;
    s.c_in_place = gemm_can_finish_in_c(g, compute);
    s.packed_b = g->packed_b;

    int code = RT_OK;
    void *shared_a = NULL, *shared_b = NULL;
    bool one_b = g->batch > 1 && g->b_batch == 0 && !g->pack_b;
    int64_t b_panels = s.panels + (s.edge > 0), b_size = b_panels * s.width * g->k, b_copies = one_b ? 1 : g->batch;
    if (!s.packed_b && !s.b_in_place && (s.row_units > 1 || one_b) && b_size * b_copies * s.item <= SHARED_BYTES) {
        shared_b = rt_scratch(ctx, (size_t)(b_size * b_copies * s.item));
        if (!shared_b) goto no_memory;
        packing w = { &s, shared_b, b_size };
        code = rt_parallel_work(ctx, b_panels * b_copies, g->k * s.width, PACK_GRAIN, panels_pack, &w);
        if (code) goto out;
        s.packed_b = shared_b;
        s.packed_b_batch = one_b ? 0 : b_size;
    }
    if (!s.a_in_place && s.panel_units > 1 && g->batch * g->m * g->k * s.item <= SHARED_BYTES) {
        shared_a = rt_scratch(ctx, (size_t)(g->batch * g->m * g->k * s.item));
        if (!shared_a) goto no_memory;
        packing w = { &s, shared_a, 0 };
        int64_t blocks = ratio_up(g->m, MOST_TILE_ROWS) * g->batch;
        code = rt_parallel_work(ctx, blocks, g->k * MOST_TILE_ROWS, PACK_GRAIN, rows_pack, &w);
        if (code) goto out;
        s.packed_a = shared_a;
    }

    s.c_is_far = g->m * g->n * s.item >= FAR_BYTES && g->k >= FAR_K;
    int64_t own_panels = s.packed_b ? 0 : s.b_in_place ? 1 : s.unit_panels;
    s.a_at = (size_t)(own_panels * s.k_block * RT_PANEL_BYTES);
    int64_t a_rows = s.a_in_place || s.packed_a ? 0 : least(s.group_rows, s.unit_rows);
    s.edge_at = s.a_at + (size_t)round_up(a_rows * s.k_block * s.item, 64);
    int64_t edge_bytes = s.edge ? s.edge * s.k_block * s.item + (s.packed_b ? 0 : s.k_block * RT_PANEL_BYTES) : 0;
    s.edge_sums_at = s.edge_at + (size_t)round_up(edge_bytes, 64);
    s.sums_at = s.edge_sums_at + (size_t)round_up(s.k_blocks > 1 ? s.unit_rows * s.edge * s.item : 0, 64);
    int64_t sums = s.k_blocks > 1 ? s.unit_rows * s.unit_panels * RT_PANEL_BYTES : 0;
    code = gemm_slots_init(ctx, &s.slots, s.sums_at + (size_t)sums);
    if (code) goto out;
    int64_t work = s.unit_rows * s.unit_panels * s.width * g->k;
    code = rt_parallel_work(ctx, g->batch * s.row_units * s.panel_units, work, LEAST_WORK, units_run, &s);
    gemm_slots_dispose(ctx, &s.slots);
out:
    rt_scratch_free(ctx, shared_a);
    rt_scratch_free(ctx, shared_b);
    return code;
no_memory:
    code = rt_fail(ctx, RT_ENOMEM, "out of memory for the packed factors of a matrix product");
    goto out;
}
