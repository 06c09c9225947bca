/* gemm_portable.c: the inner loops on registers of 16 bytes, which every processor we know has; and those of integers,
 * whose terms wrap: unsigned, so that wrapping is defined, and all signed results are the same bits. */
#include "runtime/gemm_isa.h"

#include <math.h>
#include <string.h>

#define VECTOR 16
#if defined(__aarch64__)
#define ROWS1 6
#else
#define ROWS1 2 /* 16 registers: 8 sums, 4 of B, and products before they are added */
#endif
#define ROWS2 0
#define ROWS3 0
#define DOT_COLS 2
#define WITH_DOT
#define WITH_GATHER
#define WITH_PANELS
#define T float
#define INT int32_t
#define NAME(x) gemm_##x##_f32
#include "runtime/gemm_tile.h"
#undef T
#undef INT
#undef NAME
#define T double
#define INT int64_t
#define NAME(x) gemm_##x##_f64
#include "runtime/gemm_tile.h"
#undef T
#undef NAME
#undef WITH_DOT
#define T uint32_t
#define NAME(x) gemm_##x##_u32
#include "runtime/gemm_tile.h"
#undef T
#undef NAME
#define T uint64_t
#define NAME(x) gemm_##x##_u64
#include "runtime/gemm_tile.h"

const gemm_isa gemm_portable = { "portable",
                                 gather,
                                 { { ROWS1, ROWS2, ROWS3 },
                                   gemm_tile_f32,
                                   gemm_dot_f32,
                                   gemm_blend_f32,
                                   gemm_taps_f32,
                                   gemm_most_f32,
                                   gemm_exps_f32 },
                                 gemm_panels_f32 };
const gemm_kind gemm_f64_portable = { { ROWS1, ROWS2, ROWS3 }, gemm_tile_f64, gemm_dot_f64, gemm_blend_f64,
                                      gemm_taps_f64,           gemm_most_f64, gemm_exps_f64 };
const gemm_kind gemm_u32 = { { ROWS1, ROWS2, ROWS3 }, gemm_tile_u32, NULL, NULL, gemm_taps_u32, NULL, NULL };
const gemm_kind gemm_u64 = { { ROWS1, ROWS2, ROWS3 }, gemm_tile_u64, NULL, NULL, gemm_taps_u64, NULL, NULL };
