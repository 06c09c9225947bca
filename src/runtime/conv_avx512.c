/* conv_avx512.c: the loops of packed convolutions on 32 registers of 64 bytes: tiles of 14 pixels by 32 channels. */
#include "runtime/conv_isa.h"

#if defined(__AVX512F__) && defined(__FMA__)
#define VECTOR 64
#define ROWS1 14
#define ROWS2 14
#define PIXELS 8
#include "runtime/conv_tile.h"
#include "runtime/conv_winograd.h"

static const conv_isa table = { { ROWS1, ROWS2 }, tile, finish, block, most, sum, patches, weights, results };
const conv_isa *const conv_avx512 = &table;
#elif defined(__x86_64__)
const conv_isa *const conv_avx512 = NULL;
#endif
