/* gemm_loops.h: all inner loops of one instruction set, and its tables. Included once a file with these set:
 *   VECTOR, ROWS1, ROWS2, ROWS3, DOT_COLS   see gemm_tile.h
 * and left for the file: GEMM_ISA(NAME) and GEMM_KIND(K), the initialisers of gemm_isa and gemm_kind. */
#include "runtime/gemm_isa.h"

#include <math.h>
#include <string.h>

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
#undef INT
#undef NAME
#undef WITH_DOT

#define GEMM_KIND(K)                                                                                                   \
    { .rows = { ROWS1, ROWS2, ROWS3 }, .tile = gemm_tile_##K, .dot = gemm_dot_##K, .blend = gemm_blend_##K,            \
      .taps = gemm_taps_##K, .most = gemm_most_##K, .exps = gemm_exps_##K }
#define GEMM_ISA(NAME) { .name = NAME, .gather = gather, .f32 = GEMM_KIND(f32), .panels = gemm_panels_f32 }
