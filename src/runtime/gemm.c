/* gemm.c: chooses how a product is computed, and finishes its tiles.
 *
 * Few rows against long dense columns: dot products, no packing (gemm_thin.c). Few columns: the same, transposed. All
 * else: packed panels and register tiles (gemm_blocked.c). Complex products are real ones of twice the size
 * (gemm_complex.c). Floats with packed weights: gemm_packed.c. Every strategy ends in gemm_finish, the one place that
 * knows alpha, beta, the addend and the dtype of the result. */
#include "runtime/gemm_isa.h"
#include "runtime/rt_pool.h"

#include <stdlib.h>
#include <string.h>

static const gemm_isa *isa_choose(void) {
#if defined(__x86_64__)
    uint32_t has = rt_cpu();
    if ((has & RT_CPU_AVX512) && gemm_avx512) return gemm_avx512;
    if ((has & RT_CPU_AVX2) && gemm_avx2) return gemm_avx2;
#endif
    return &gemm_portable;
}

RT_CHOICE const gemm_isa *gemm_isa_get(void) {
    static _Atomic(const gemm_isa *) chosen;
    const gemm_isa *isa = atomic_load_explicit(&chosen, memory_order_relaxed);
    if (!isa) {
        isa = isa_choose();
        atomic_store_explicit(&chosen, isa, memory_order_relaxed);
    }
    return isa;
}

const char *rt_gemm_isa_name(void) { return gemm_isa_get()->name; }

int rt_gemm_compute_dtype(int dtype) {
    switch (dtype) {
    case RT_F64: return RT_F64;
    case RT_I64: case RT_U64: return RT_U64;
    case RT_U8: case RT_I8: case RT_I16: case RT_U16: case RT_I32: case RT_U32: return RT_U32;
    default: return rt_is_float(dtype) ? RT_F32 : -1;
    }
}

RT_CHOICE const gemm_kind *gemm_f64_get(void) {
#if defined(__x86_64__)
    const gemm_isa *isa = gemm_isa_get();
    if (isa == gemm_avx512) return gemm_f64_avx512;
    if (isa == gemm_avx2) return gemm_f64_avx2;
#endif
    return &gemm_f64_portable;
}

RT_CHOICE const gemm_kind *gemm_integer_get(int compute) { return compute == RT_U32 ? &gemm_u32 : &gemm_u64; }

const gemm_kind *gemm_kind_get(int compute) {
    switch (compute) {
    case RT_U32:
    case RT_U64: return gemm_integer_get(compute);
    case RT_F64: return gemm_f64_get();
    default: return &gemm_isa_get()->f32;
    }
}

/* ---- finishing ---- */

bool gemm_can_finish_in_c(const rt_gemm_args *g, int compute) {
    bool reads_c = !gemm_is_zero(g->beta) && (!g->d || g->d == g->c);
    bool same_type = compute == g->dtype || (compute == RT_U32 && g->dtype == RT_I32) ||
                     (compute == RT_U64 && g->dtype == RT_I64);
    return same_type && g->c_col == 1 && !reads_c;
}

/* Integers wrap; the scalars are integers by then. */
static void blend_integers(int compute, void *row, int64_t n, rt_scalar alpha, const void *d, int64_t d_step,
                           rt_scalar beta) {
    if (compute == RT_U32) {
        uint32_t *y = row, a = (uint32_t)alpha.i, b = (uint32_t)beta.i;
        const uint32_t *x = d;
        for (int64_t j = 0; j < n; j++) y[j] = a * y[j] + (x ? b * x[j * d_step] : 0);
    } else {
        uint64_t *y = row, a = (uint64_t)alpha.i, b = (uint64_t)beta.i;
        const uint64_t *x = d;
        for (int64_t j = 0; j < n; j++) y[j] = a * y[j] + (x ? b * x[j * d_step] : 0);
    }
}

enum { FINISH_COLS = 64 };

static void finish_row(const rt_gemm_args *g, const gemm_kind *kind, int compute, char *row, bool in_c,
                       int64_t batch, int64_t i, int64_t j, int64_t cols) {
    _Alignas(64) char converted[FINISH_COLS * 8];
    bool adds = !gemm_is_zero(g->beta);
    int64_t item = rt_itemsize(g->dtype), d_step = 0;
    const void *d = NULL;
    if (adds) {
        const char *base = g->d ? g->d : g->c;
        int64_t d_row = g->d ? g->d_row : g->c_row, d_col = g->d ? g->d_col : g->c_col;
        int64_t d_batch = g->d ? g->d_batch : g->c_batch;
        d = base + (batch * d_batch + i * d_row + j * d_col) * item;
        d_step = d_col;
        bool native = compute == g->dtype;
        if (!native || d_col > 1) {
            rt_convert(compute, converted, 1, g->dtype, d, d_col, cols);
            d = converted;
            d_step = 1;
        }
    }
    if (adds || !gemm_is_one(g->alpha)) {
        if (kind->blend) kind->blend(row, cols, gemm_real(g->alpha), d, d_step, gemm_real(g->beta));
        else blend_integers(compute, row, cols, g->alpha, d, d_step, g->beta);
    }
    if (in_c) return;
    void *c = (char *)g->c + (batch * g->c_batch + i * g->c_row + j * g->c_col) * item;
    rt_convert(g->dtype, c, g->c_col, compute, row, 1, cols);
}

/* Is C its own addend, so that the sums may be added to where they go? */
static bool adds_to_c(const rt_gemm_args *g, const gemm_kind *kind, int compute) {
    bool own = !g->d || (g->d == g->c && g->d_row == g->c_row && g->d_col == 1 && g->d_batch == g->c_batch);
    return own && kind->blend && compute == g->dtype && g->c_col == 1 && !gemm_is_zero(g->beta);
}

void gemm_finish(const rt_gemm_args *g, const gemm_kind *kind, int compute, void *tile, int64_t tile_row, bool in_c,
                 int64_t batch, int64_t i, int64_t rows, int64_t j, int64_t cols) {
    bool turned = g->c_row == 1 && g->c_col != 1 && g->dtype == RT_F32; /* rows of the tile are columns of memory */
    if (in_c && gemm_is_zero(g->beta) && gemm_is_one(g->alpha)) return;
    int64_t item = rt_itemsize(compute);
    if (!in_c && adds_to_c(g, kind, compute)) {
        for (int64_t r = 0; r < rows; r++)
            kind->blend((char *)g->c + (batch * g->c_batch + (i + r) * g->c_row + j) * item, cols, gemm_real(g->beta),
                        (char *)tile + r * tile_row * item, 1, gemm_real(g->alpha));
        return;
    }
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < cols; c += FINISH_COLS)
            finish_row(g, kind, compute, (char *)tile + (r * tile_row + c) * item, in_c || turned, batch, i + r, j + c,
                       cols - c < FINISH_COLS ? cols - c : FINISH_COLS);
    if (turned && !in_c)
        rt_gemm_pack_rows(RT_F32, (float *)g->c + batch * g->c_batch + i + j * g->c_col, g->c_col, RT_F32, tile, 1,
                          tile_row, cols, rows);
}

/* ---- scratch per thread ---- */

/* A slot ends with a cache line for its flag: threads that take slots at the same time do not meet. */
enum { SLOT_FLAG = 64 };

static atomic_flag *slot_flag(const gemm_slots *slots, char *slot) {
    return (atomic_flag *)(void *)(slot + slots->size - SLOT_FLAG);
}

int gemm_slots_init(const rt_ctx *ctx, gemm_slots *slots, size_t size) {
    slots->size = ((size + 63) & ~(size_t)63) + SLOT_FLAG;
    slots->count = rt__pool_seats(ctx->pool);
    slots->memory = rt_scratch(ctx, slots->size * (size_t)slots->count);
    if (!slots->memory) return rt_fail(ctx, RT_ENOMEM, "out of memory for the blocks of a matrix product");
    for (int i = 0; i < slots->count; i++) atomic_flag_clear(slot_flag(slots, slots->memory + slots->size * (size_t)i));
    return RT_OK;
}

void gemm_slots_dispose(const rt_ctx *ctx, gemm_slots *slots) { rt_scratch_free(ctx, slots->memory); }

char *gemm_slot_take(gemm_slots *slots) {
    for (int i = rt__pool_place() % slots->count;; i = (i + 1) % slots->count) {
        char *slot = slots->memory + slots->size * (size_t)i;
        if (!atomic_flag_test_and_set_explicit(slot_flag(slots, slot), memory_order_acquire)) return slot;
    }
}

void gemm_slot_give(gemm_slots *slots, char *slot) {
    atomic_flag_clear_explicit(slot_flag(slots, slot), memory_order_release);
}

/* ---- entry ---- */

rt_gemm_args rt_gemm_plain(int dtype, int64_t m, int64_t n, int64_t k, const void *a, const void *b, void *c) {
    return (rt_gemm_args){ .dtype = dtype, .m = m, .n = n, .k = k, .batch = 1, .a = a, .a_row = k, .a_col = 1,
                           .b = b, .b_row = n, .b_col = 1, .c = c, .c_row = n, .c_col = 1,
                           .alpha = rt_gemm_one, .beta = rt_gemm_zero };
}

/* No terms: beta * D, or zero, through the same finish as all others. */
static void without_terms(const rt_gemm_args *g, const gemm_kind *kind, int compute) {
    _Alignas(64) char zeros[FINISH_COLS * 8];
    for (int64_t b = 0; b < g->batch; b++)
        for (int64_t i = 0; i < g->m; i++)
            for (int64_t j = 0; j < g->n; j += FINISH_COLS) {
                memset(zeros, 0, sizeof zeros);
                gemm_finish(g, kind, compute, zeros, 0, false, b, i, 1, j,
                            g->n - j < FINISH_COLS ? g->n - j : FINISH_COLS);
            }
}

static rt_gemm_args transposed(const rt_gemm_args *g) {
    rt_gemm_args t = *g;
    t.m = g->n, t.n = g->m;
    t.a = g->b, t.a_row = g->b_col, t.a_col = g->b_row, t.a_batch = g->b_batch;
    t.b = g->a, t.b_row = g->a_col, t.b_col = g->a_row, t.b_batch = g->a_batch;
    t.c_row = g->c_col, t.c_col = g->c_row;
    t.d_row = g->d_col, t.d_col = g->d_row;
    return t;
}

/* x W' where W has many more rows than x: W's are read where they lie if it stands on the left, and what is turned
 * instead of W, x and the result, is smaller. */
static bool turns(const rt_gemm_args *g) {
    bool plain = g->dtype == RT_F32 && g->batch == 1 && g->b_row == 1 && g->b_col != 1 && g->c_col == 1;
    bool reads_c = !gemm_is_zero(g->beta) && (!g->d || g->d == g->c);
    return plain && !reads_c && g->m > 16 && g->n >= 64 && g->n * g->k > 2 * g->m * (g->k + g->n);
}

int rt_gemm(const rt_ctx *ctx, const rt_gemm_args *args) {
    const rt_gemm_args *g = args;
    if (g->m <= 0 || g->n <= 0 || g->batch <= 0) return RT_OK;
    if (rt_is_complex(g->dtype)) return gemm_complex(ctx, g);
    int compute = rt_gemm_compute_dtype(g->dtype);
    if (compute < 0 || !gemm_kind_get(compute)->tile)
        return rt_fail(ctx, RT_EDTYPE, "matrix product: no product of dtype number %d", (int)g->dtype);
    if (g->k <= 0 && !g->post) {
        without_terms(g, gemm_kind_get(compute), compute);
        return RT_OK;
    }
    bool plain = g->batch == 1 && gemm_is_one(g->alpha) && gemm_is_zero(g->beta);
    if ((g->packed_b || g->post) && g->dtype == RT_F32 && plain) return gemm_packed(ctx, g);
    if (gemm_is_thin(g, compute)) return gemm_thin(ctx, g, compute);
    if (!g->pack_b && !g->packed_b) {
        rt_gemm_args t = transposed(g);
        if (gemm_is_thin(&t, compute)) return gemm_thin(ctx, &t, compute);
        if ((g->n <= 4 && g->m > 16) || turns(g)) return gemm_blocked(ctx, &t, compute);
    }
    return gemm_blocked(ctx, g, compute);
}

int64_t rt_gemm_packed_bytes(int dtype, int64_t n, int64_t k) {
    int64_t width = RT_PANEL_BYTES / rt_itemsize(rt_gemm_compute_dtype(dtype));
    return (n + width - 1) / width * k * RT_PANEL_BYTES;
}

void rt_gemm_pack_b(const rt_gemm_args *g, void *packed) {
    int compute = rt_gemm_compute_dtype(g->dtype);
    gemm_pack_panels(g, compute, 0, 0, g->k, 0, g->n, packed, g->k * (RT_PANEL_BYTES / rt_itemsize(compute)));
}
