/* gemm_avx512.c: the inner loops on 32 registers of 64 bytes: tiles of 8 rows by 48 floats, or 24 doubles. */
#include "runtime/gemm_isa.h"

#if defined(__AVX512F__) && defined(__FMA__)
#define VECTOR 64
#define ROWS1 8
#define ROWS2 8
#define ROWS3 8
#define DOT_COLS 4
#include "runtime/gemm_loops.h"

static const gemm_isa table = GEMM_ISA("avx512");
const gemm_isa *const gemm_avx512 = &table;
static const gemm_kind f64 = GEMM_KIND(f64);
const gemm_kind *const gemm_f64_avx512 = &f64;
#elif defined(__x86_64__)
const gemm_isa *const gemm_avx512 = NULL;
const gemm_kind *const gemm_f64_avx512 = NULL;
#endif
