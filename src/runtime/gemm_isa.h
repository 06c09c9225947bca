/* gemm_isa.h: what the files of the matrix product share: the inner loops, one table per instruction set (all sets read
 * the same packed panels), and the strategies built on them. */
#ifndef CRESSET_GEMM_ISA_H
#define CRESSET_GEMM_ISA_H

#include "runtime/gemm.h"

#include <stdatomic.h>

/* Memory that is wanted after a tile: with each of its k, the line at the address is brought nearer, `step` bytes
 * further each time; less than a line where the tiles of a block share the work. Any address will do; step 0 where
 * nothing is wanted. */
typedef struct gemm_ahead { const char *at; int64_t step; } gemm_ahead;

/* out[rows][panels * width] = in + A[rows][k] * B[k][panels * width]; `in` NULL counts as zero. Rows of A are dense and
 * `a_row` apart; row k of panel p of B is at b + p * panel + k * b_row. Each element adds its terms in the order of k,
 * so that the result does not depend on how a product was cut into tiles. */
typedef void gemm_tile_fn(int rows, int panels, int64_t k, const void *a, int64_t a_row, const void *b, int64_t b_row,
                          int64_t panel, const void *in, int64_t in_row, void *out, int64_t out_row, gemm_ahead ahead);

/* The same over whole packed panels, rows of B 64 bytes apart, with `k` lines from `next` brought nearer meanwhile
 * (what the caller wants after this tile; any address will do). */
typedef void gemm_panels_fn(int rows, int panels, int64_t k, const void *a, int64_t a_row, const void *b, int64_t panel,
                            const char *next, void *out, int64_t out_row);

/* out[i * out_row + j] = sum over k of a[i * a_row + k] * b[j * b_row + k], i < rows <= GEMM_DOT_ROWS, j < cols. */
typedef void gemm_dot_fn(int rows, int64_t cols, int64_t k, const void *a, int64_t a_row, const void *b, int64_t b_row,
                         void *out, int64_t out_row);
enum { GEMM_DOT_ROWS = 4 };

/* y[j] = alpha * y[j] + beta * d[j * d_step], d_step 0 or 1; d NULL: no addend. */
typedef void gemm_blend_fn(void *y, int64_t n, double alpha, const void *d, int64_t d_step, double beta);

/* For convolutions. gather: `rows` rows of 64 bytes from image + row_at[r] + piece.from (all in bytes), each row made
 * of pieces that are written whole 64 bytes at a time in ascending order, so that the next piece, and at last the next
 * row, covers what was too much; only the last row is written exactly. Reads up to 64 bytes past the last element.
 * taps: out[j] = sum over t of weight[t] * image[tap[t] + j], j < n, offsets in elements. */
typedef struct gemm_piece { int64_t from; int32_t to, bytes; } gemm_piece;
typedef void gemm_gather_fn(char *out, int64_t rows, const char *image, const int64_t *row_at, const gemm_piece *pieces,
                            int count);
typedef void gemm_taps_fn(void *out, int64_t n, const void *image, const int64_t *tap, const void *weight,
                          int64_t taps);

/* For attention. most: the largest of x[0..n), -inf for n = 0; NaNs are passed over. exps: x[j] = exp(scale * x[j] -
 * shift), where scale * x[j] <= shift or NaN; the result is their sum. Results below the smallest normal number become
 * 0. */
typedef double gemm_most_fn(const void *x, int64_t n);
typedef double gemm_exps_fn(void *x, int64_t n, double scale, double shift);

typedef struct gemm_kind {
    int rows[3]; /* largest tile of 1, 2 and 3 panels; 0: no such tile */
    gemm_tile_fn *tile;
    gemm_dot_fn *dot; /* this and blend: NULL for integers */
    gemm_blend_fn *blend;
    gemm_taps_fn *taps;
    gemm_most_fn *most; /* this and exps: NULL for integers */
    gemm_exps_fn *exps;
} gemm_kind;

typedef struct gemm_isa {
    const char *name;
    gemm_gather_fn *gather;
    gemm_kind f32;
    gemm_panels_fn *panels; /* f32; tiles as large as f32.rows says */
} gemm_isa;

extern const gemm_isa gemm_portable;
extern const gemm_kind gemm_f64_portable, gemm_u32, gemm_u64;
#if defined(__x86_64__)
extern const gemm_isa *const gemm_avx2, *const gemm_avx512; /* NULL when not compiled for that set */
extern const gemm_kind *const gemm_f64_avx2, *const gemm_f64_avx512;
#endif

const gemm_isa *gemm_isa_get(void);
/* Loops on f64; without any (tile is NULL) in a compiled model that has no f64. */
const gemm_kind *gemm_f64_get(void);
/* Loops on integers, RT_U32 or RT_U64; without any in a compiled model whose kernels take no integers. */
const gemm_kind *gemm_integer_get(int compute);
/* Loops for a compute dtype; the caller knows that it is one. */
const gemm_kind *gemm_kind_get(int compute);

/* A finished tile of sums (compute dtype, rows `tile_row` apart) of batch entry `batch`, rows from i and columns from
 * j:
 * alpha, the addend, and the store into C. `in_c`: the tile already lies in C. */
void gemm_finish(const rt_gemm_args *g, const gemm_kind *kind, int compute, void *tile, int64_t tile_row, bool in_c,
                 int64_t batch, int64_t i, int64_t rows, int64_t j, int64_t cols);
/* May gemm_finish be given tiles in C? Then sums go there without a detour. */
bool gemm_can_finish_in_c(const rt_gemm_args *g, int compute);

static inline bool gemm_is_zero(rt_scalar s) { return s.kind == RT_ARG_INT ? s.i == 0 : s.f == 0 && s.im == 0; }
static inline bool gemm_is_one(rt_scalar s) { return s.kind == RT_ARG_INT ? s.i == 1 : s.f == 1 && s.im == 0; }
static inline double gemm_real(rt_scalar s) { return s.kind == RT_ARG_INT ? (double)s.i : s.f; }

/* The strategies. Sizes are all positive. */
int gemm_blocked(const rt_ctx *ctx, const rt_gemm_args *g, int compute);
bool gemm_is_thin(const rt_gemm_args *g, int compute);
int gemm_thin(const rt_ctx *ctx, const rt_gemm_args *g, int compute);
/* f32 with packed B and alpha 1, beta 0, one batch entry. */
int gemm_packed(const rt_ctx *ctx, const rt_gemm_args *g);
int gemm_complex(const rt_ctx *ctx, const rt_gemm_args *g);

/* B[k0..k1) x [n0..n1) from memory, in panels; see rt_gemm_pack_fn. */
void gemm_pack_panels(const rt_gemm_args *g, int compute, int64_t batch, int64_t k0, int64_t k1, int64_t n0, int64_t n1,
                      void *panels, int64_t panel);

/* One of `count` pieces of scratch memory for each running thread, where possible the same one every time. */
typedef struct gemm_slots { char *memory; size_t size; int count; } gemm_slots;
int gemm_slots_init(const rt_ctx *ctx, gemm_slots *slots, size_t size);
void gemm_slots_dispose(const rt_ctx *ctx, gemm_slots *slots);
char *gemm_slot_take(gemm_slots *slots);
void gemm_slot_give(gemm_slots *slots, char *slot);

#endif
