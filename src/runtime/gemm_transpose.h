/* gemm_transpose.h: four by four numbers of four bytes turned, in vector extensions: what packing is made of. */
#ifndef CRESSET_GEMM_TRANSPOSE_H
#define CRESSET_GEMM_TRANSPOSE_H

#include <stdint.h>

typedef uint32_t u32x4 __attribute__((vector_size(16), aligned(4), may_alias));
#if defined(__clang__)
#define SHUFFLE4(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
typedef uint32_t u32x4_index __attribute__((vector_size(16)));
#define SHUFFLE4(a, b, ...) __builtin_shuffle(a, b, (u32x4_index){ __VA_ARGS__ })
#endif

/* out[i * row + j] = x_j[i], i and j < 4. */
static inline void transpose4(uint32_t *out, int64_t row, const uint32_t *x0, const uint32_t *x1, const uint32_t *x2,
                              const uint32_t *x3) {
    u32x4 a = *(const u32x4 *)x0, b = *(const u32x4 *)x1, c = *(const u32x4 *)x2, d = *(const u32x4 *)x3;
    u32x4 ab = SHUFFLE4(a, b, 0, 4, 1, 5), cd = SHUFFLE4(c, d, 0, 4, 1, 5);
    *(u32x4 *)out = SHUFFLE4(ab, cd, 0, 1, 4, 5);
    *(u32x4 *)(out + row) = SHUFFLE4(ab, cd, 2, 3, 6, 7);
    ab = SHUFFLE4(a, b, 2, 6, 3, 7), cd = SHUFFLE4(c, d, 2, 6, 3, 7);
    *(u32x4 *)(out + 2 * row) = SHUFFLE4(ab, cd, 0, 1, 4, 5);
    *(u32x4 *)(out + 3 * row) = SHUFFLE4(ab, cd, 2, 3, 6, 7);
}

#endif
