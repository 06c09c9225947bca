/* rt_sums.c: sums of many floats that lose little: halves are added, down to parts of 256 that sixteen lanes share. */
#include "runtime/rt_reduce.h"

/* Lanes are vectors of 16 bytes, which every x86-64 and aarch64 has. */
#define PAIRWISE(name, T)                                                           \
    typedef T name##_lanes __attribute__((vector_size(16), aligned(1), may_alias)); \
    T name(const T *x, int64_t n) {                                                 \
        enum { EACH = 16 / sizeof(T), VECTORS = sizeof(T) };                        \
        if (n > 256) {                                                              \
            int64_t half = n / 2 / 128 * 128;                                       \
            return name(x, half) + name(x + half, n - half);                        \
        }                                                                           \
        union {                                                                     \
            name##_lanes vector[VECTORS];                                           \
            T lane[16];                                                             \
        } sum = { .lane = { 0 } };                                                  \
        T total = 0;                                                                \
        int64_t i = 0;                                                              \
        name##_lanes v[VECTORS] = { { 0 } };                                        \
        for (; i + 16 <= n; i += 16)                                                \
            _Pragma("GCC unroll 8") for (int k = 0; k < VECTORS; k++)               \
                v[k] += *(const name##_lanes *)(x + i + k * EACH);                  \
        for (int k = 0; k < VECTORS; k++) sum.vector[k] = v[k];                     \
        for (; i < n; i++) total += x[i];                                           \
        for (int step = 8; step; step /= 2)                                         \
            for (int k = 0; k < step; k++) sum.lane[k] += sum.lane[k + step];       \
        return sum.lane[0] + total;                                                 \
    }
PAIRWISE(rt_sum_f32, float)
PAIRWISE(rt_sum_f64, double)
