/* conv_avx2.c: the loops of packed convolutions on 16 registers of 32 bytes: tiles of 6 pixels by 16 channels. */
#include "runtime/conv_isa.h"

#if defined(__AVX2__) && defined(__FMA__)
#define VECTOR 32
#define ROWS1 6
#define ROWS2 0
#define PIXELS 4
#include "runtime/conv_tile.h"
#include "runtime/conv_winograd.h"

static const conv_isa table = { { ROWS1, ROWS2 }, tile, finish, block, most, sum, patches, weights, results };
const conv_isa *const conv_avx2 = &table;
#elif defined(__x86_64__)
const conv_isa *const conv_avx2 = NULL;
#endif
