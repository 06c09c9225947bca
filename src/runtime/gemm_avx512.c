/* gemm_avx512.c: the inner loops on 32 registers of 64 bytes: tiles of 8 rows by 48 floats, or 24 doubles. */
#include "runtime/gemm_isa.h"

#include <math.h>
#include <string.h>

#if defined(__AVX512F__) && defined(__FMA__)
#define VECTOR 64
#define ROWS1 8
#define ROWS2 8
#define ROWS3 8
#define DOT_COLS 4
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

static const gemm_isa table = { "avx512",
                                gather,
                                { { ROWS1, ROWS2, ROWS3 },
                                  gemm_tile_f32,
                                  gemm_dot_f32,
                                  gemm_blend_f32,
                                  gemm_taps_f32,
                                  gemm_most_f32,
                                  gemm_exps_f32 },
                                gemm_panels_f32 };
const gemm_isa *const gemm_avx512 = &table;
static const gemm_kind f64 = { { ROWS1, ROWS2, ROWS3 }, gemm_tile_f64, gemm_dot_f64, gemm_blend_f64,
                               gemm_taps_f64,           gemm_most_f64, gemm_exps_f64 };
const gemm_kind *const gemm_f64_avx512 = &f64;
#elif defined(__x86_64__)
const gemm_isa *const gemm_avx512 = NULL;
const gemm_kind *const gemm_f64_avx512 = NULL;
#endif
