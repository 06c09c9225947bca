/* gemm_avx2.c: the inner loops on 16 registers of 32 bytes: tiles of 6 rows by 16 floats, or 8 doubles. */
#include "runtime/gemm_isa.h"

#if defined(__AVX2__) && defined(__FMA__)
#define VECTOR 32
#define ROWS1 6
#define ROWS2 0
#define ROWS3 0
#define DOT_COLS 2
#include "runtime/gemm_loops.h"

static const gemm_isa table = GEMM_ISA("avx2");
const gemm_isa *const gemm_avx2 = &table;
static const gemm_kind f64 = GEMM_KIND(f64);
const gemm_kind *const gemm_f64_avx2 = &f64;
#elif defined(__x86_64__)
const gemm_isa *const gemm_avx2 = NULL;
const gemm_kind *const gemm_f64_avx2 = NULL;
#endif
