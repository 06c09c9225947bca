/* gemm_avx2.c: the inner loops on 16 registers of 32 bytes: tiles of 6 rows by 16 floats, or 8 doubles. */
#include "runtime/gemm_isa.h"

#include <math.h>
#include <string.h>

#if defined(__AVX2__) && defined(__FMA__)
#define VECTOR 32
#define ROWS1 6
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

static const gemm_isa table = { "avx2",
                                gather,
                                { { ROWS1, ROWS2, ROWS3 },
                                  gemm_tile_f32,
                                  gemm_dot_f32,
                                  gemm_blend_f32,
                                  gemm_taps_f32,
                                  gemm_most_f32,
                                  gemm_exps_f32 },
                                gemm_panels_f32 };
const gemm_isa *const gemm_avx2 = &table;
static const gemm_kind f64 = { { ROWS1, ROWS2, ROWS3 }, gemm_tile_f64, gemm_dot_f64, gemm_blend_f64,
                               gemm_taps_f64,           gemm_most_f64, gemm_exps_f64 };
const gemm_kind *const gemm_f64_avx2 = &f64;
#elif defined(__x86_64__)
const gemm_isa *const gemm_avx2 = NULL;
const gemm_kind *const gemm_f64_avx2 = NULL;
#endif
