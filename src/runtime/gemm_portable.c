/* gemm_portable.c: the inner loops on registers of 16 bytes, which every processor we know has; and those of integers,
 * whose terms wrap: unsigned, so that wrapping is defined, and all signed results are the same bits. */
#define VECTOR 16
#if defined(__aarch64__)
#define ROWS1 6
#else
#define ROWS1 2 /* 16 registers: 8 sums, 4 of B, and products before they are added */
#endif
#define ROWS2 0
#define ROWS3 0
#define DOT_COLS 2
#include "runtime/gemm_loops.h"
#define T uint32_t
#define NAME(x) gemm_##x##_u32
#include "runtime/gemm_tile.h"
#undef T
#undef NAME
#define T uint64_t
#define NAME(x) gemm_##x##_u64
#include "runtime/gemm_tile.h"

const gemm_isa gemm_portable = GEMM_ISA("portable");
const gemm_kind gemm_f64_portable = GEMM_KIND(f64);
const gemm_kind gemm_u32 = { .rows = { ROWS1, ROWS2, ROWS3 }, .tile = gemm_tile_u32, .taps = gemm_taps_u32 };
const gemm_kind gemm_u64 = { .rows = { ROWS1, ROWS2, ROWS3 }, .tile = gemm_tile_u64, .taps = gemm_taps_u64 };
