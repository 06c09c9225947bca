/* gemm_thin.c: products with at most 16 rows whose columns of B are dense along k: a linear layer on few inputs, a
 * matrix times a vector. Packing B would cost more than using it, so each element of C is a dot product read straight
 * from memory, four rows by a few columns at a time.
 *
 * The columns are cut into chunks by the sizes alone: the last columns of a chunk are summed in another order than the
 * others, so the cut must not follow the number of threads. */
#include "runtime/gemm_isa.h"

enum { THIN_ROWS = 16, THIN_LEAST_K = 32, CHUNK_ELEMENTS = 16 * 1024, CHUNK_MOST = 256 };

bool gemm_is_thin(const rt_gemm_args *g, int compute) {
    return (compute == RT_F32 || compute == RT_F64) && !g->pack_b && !g->packed_b && g->m <= THIN_ROWS &&
           g->k >= THIN_LEAST_K && (g->b_row == 1 || g->n == 1) && (g->m == 1 || g->m <= g->n);
}

typedef struct job {
    const rt_gemm_args *g;
    const gemm_kind *kind;
    int compute;
    int64_t item, chunk, chunks;
    bool native;
    const char *a; /* dense rows of the compute type */
    int64_t a_row, a_batch;
    gemm_slots slots;
} job;

static void chunk_run(job *s, char *slot, int64_t batch, int64_t j, int64_t cols) {
    const rt_gemm_args *g = s->g;
    int64_t x_item = rt_itemsize(g->dtype), b_row = g->b_col;
    const char *b = (const char *)g->b + (batch * g->b_batch + j * g->b_col) * x_item;
    char *sums = slot;
    if (!s->native || (g->b_row != 1)) {
        char *dense = slot + GEMM_DOT_ROWS * CHUNK_MOST * s->item;
        for (int64_t c = 0; c < cols; c++)
            rt_convert(s->compute, dense + c * g->k * s->item, 1, g->dtype, b + c * g->b_col * x_item, g->b_row, g->k);
        b = dense;
        b_row = g->k;
    }
    for (int64_t i = 0; i < g->m; i += GEMM_DOT_ROWS) {
        int rows = (int)(g->m - i < GEMM_DOT_ROWS ? g->m - i : GEMM_DOT_ROWS);
        s->kind->dot(rows, cols, g->k, s->a + (batch * s->a_batch + i * s->a_row) * s->item, s->a_row, b, b_row, sums,
                     CHUNK_MOST);
        gemm_finish(g, s->kind, s->compute, sums, CHUNK_MOST, false, batch, i, rows, j, cols);
    }
}

static int run(void *arg, int64_t begin, int64_t end) {
    job *s = arg;
    char *slot = gemm_slot_take(&s->slots);
    for (int64_t at = begin; at < end; at++) {
        int64_t j = at % s->chunks * s->chunk;
        chunk_run(s, slot, at / s->chunks, j, s->g->n - j < s->chunk ? s->g->n - j : s->chunk);
    }
    gemm_slot_give(&s->slots, slot);
    return RT_OK;
}

int gemm_thin(const rt_ctx *ctx, const rt_gemm_args *g, int compute) {
    job s = { .g = g, .kind = gemm_kind_get(compute), .compute = compute, .item = rt_itemsize(compute) };
    s.native = compute == g->dtype;
    int64_t chunk = CHUNK_ELEMENTS / g->k / 4 * 4;
    s.chunk = chunk < 4 ? 4 : chunk > CHUNK_MOST ? CHUNK_MOST : chunk;
    s.chunks = (g->n + s.chunk - 1) / s.chunk;

    void *dense = NULL;
    s.a = g->a;
    s.a_row = g->a_row;
    s.a_batch = g->a_batch;
    if (!s.native || g->a_col != 1) {
        dense = rt_scratch(ctx, (size_t)(g->batch * g->m * g->k * s.item));
        if (!dense) return rt_fail(ctx, RT_ENOMEM, "out of memory for the rows of a matrix product");
        for (int64_t b = 0; b < g->batch; b++)
            rt_gemm_pack_rows(compute, (char *)dense + b * g->m * g->k * s.item, g->k, g->dtype,
                              (const char *)g->a + b * g->a_batch * rt_itemsize(g->dtype), g->a_row, g->a_col, g->m,
                              g->k);
        s.a = dense;
        s.a_row = g->k;
        s.a_batch = g->m * g->k;
    }
    bool converts = !s.native || g->b_row != 1;
    size_t size = (size_t)((GEMM_DOT_ROWS * CHUNK_MOST + (converts ? s.chunk * g->k : 0)) * s.item);
    int code = gemm_slots_init(ctx, &s.slots, size);
    if (!code) {
        int64_t work = s.chunk * g->k * g->m;
        code = rt_parallel_work(ctx, g->batch * s.chunks, work, 64 * 1024, run, &s);
        gemm_slots_dispose(ctx, &s.slots);
    }
    rt_scratch_free(ctx, dense);
    return code;
}
