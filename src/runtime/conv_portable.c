/* conv_portable.c: the loops of packed convolutions on registers of 16 bytes; which table is used. */
#include "runtime/conv_isa.h"
#include "runtime/gemm_isa.h"

#define VECTOR 16
#if defined(__aarch64__)
#define ROWS1 6
#else
#define ROWS1 2 /* 16 registers: 8 sums, 4 of weights, and products before they are added */
#endif
#define ROWS2 0
#define PIXELS 4
#include "runtime/conv_tile.h"
#include "runtime/conv_winograd.h"

const conv_isa conv_portable = { { ROWS1, ROWS2 }, tile, finish, block, most, sum, patches, weights, results };

RT_CHOICE const conv_isa *conv_isa_get(void) {
#if defined(__x86_64__)
    const gemm_isa *products = gemm_isa_get();
    if (products == gemm_avx512 && conv_avx512) return conv_avx512;
    if (products == gemm_avx2 && conv_avx2) return conv_avx2;
#endif
    return &conv_portable;
}
