/* rt_floats.c: the largest, the smallest and the product of many floats, by the widest vectors there are.
 *
 * Four vectors of lanes, so that none waits for its last step. */
#include "runtime/rt_reduce.h"

#include <math.h>
#include <stdatomic.h>

/* Elements of x where the mask is set, else of y. */
#define PICK(mask, x, y) ((vector)(((mask_of)(x) & (mask)) | ((mask_of)(y) & ~(mask))))
#define LOAD(p) (*(const loaded *)(p))
#define VECTORS(bytes)                                                               \
    typedef float vector __attribute__((vector_size(bytes)));                        \
    typedef float loaded __attribute__((vector_size(bytes), aligned(4), may_alias)); \
    enum { N = (bytes) / (int)sizeof(float) }

/* NaN where there is one, else the first that no other is better than; lanes are looked at in order. */
#define BEST(name, better, bytes, attribute)                                                         \
    attribute static float name(const float *x, int64_t n) {                                         \
        VECTORS(bytes);                                                                              \
        typedef int32_t mask_of __attribute__((vector_size(bytes)));                                 \
        float best = x[0];                                                                           \
        int64_t i = 0;                                                                               \
        if (n >= 4 * N) {                                                                            \
            vector a[4] = { LOAD(x), LOAD(x), LOAD(x), LOAD(x) };                                    \
            mask_of nan = { 0 };                                                                     \
            for (; i + 4 * N <= n; i += 4 * N) _Pragma("GCC unroll 4") for (int k = 0; k < 4; k++) { \
                    vector next = LOAD(x + i + k * N);                                               \
                    a[k] = PICK(next better a[k], next, a[k]);                                       \
                    nan |= next != next;                                                             \
                }                                                                                    \
            for (int k = 1; k < 4; k++) a[0] = PICK(a[k] better a[0], a[k], a[0]);                   \
            for (int k = 0; k < N; k++) {                                                            \
                if (nan[k]) return NAN;                                                              \
                best = a[0][k] better best ? a[0][k] : best;                                         \
            }                                                                                        \
        }                                                                                            \
        for (; i < n; i++) best = ((x[i] better best) | (x[i] != x[i])) ? x[i] : best;               \
        return best;                                                                                 \
    }
#define PRODUCT(name, bytes, attribute)                                                          \
    attribute static float name(const float *x, int64_t n) {                                     \
        VECTORS(bytes);                                                                          \
        float total = 1;                                                                         \
        int64_t i = 0;                                                                           \
        if (n >= 4 * N) {                                                                        \
            vector a[4] = { LOAD(x), LOAD(x + N), LOAD(x + 2 * N), LOAD(x + 3 * N) };            \
            for (i = 4 * N; i + 4 * N <= n; i += 4 * N)                                          \
                _Pragma("GCC unroll 4") for (int k = 0; k < 4; k++) a[k] *= LOAD(x + i + k * N); \
            a[0] = (a[0] * a[1]) * (a[2] * a[3]);                                                \
            for (int k = 0; k < N; k++) total *= a[0][k];                                        \
        }                                                                                        \
        for (; i < n; i++) total *= x[i];                                                        \
        return total;                                                                            \
    }
#define SET(set, bytes, attribute)            \
    BEST(largest_##set, >, bytes, attribute)  \
    BEST(smallest_##set, <, bytes, attribute) \
    PRODUCT(product_##set, bytes, attribute)

SET(base, 16, )
#if defined(__x86_64__)
SET(avx2, 32, __attribute__((target("avx2"))))

/* Asked once: rows may be short. */
static bool has_avx2(void) {
    static atomic_int known; /* 1: no, 2: yes */
    int is = atomic_load_explicit(&known, memory_order_relaxed);
    if (!is) {
        is = rt_cpu() & RT_CPU_AVX2 ? 2 : 1;
        atomic_store_explicit(&known, is, memory_order_relaxed);
    }
    return is == 2;
}
#else
#define largest_avx2 largest_base
#define smallest_avx2 smallest_base
#define product_avx2 product_base
static bool has_avx2(void) { return false; }
#endif

enum { FEW = 32 }; /* fewer are not worth the question */
float rt_largest_f32(const float *x, int64_t n) { return (n >= FEW && has_avx2() ? largest_avx2 : largest_base)(x, n); }
float rt_smallest_f32(const float *x, int64_t n) {
    return (n >= FEW && has_avx2() ? smallest_avx2 : smallest_base)(x, n);
}
float rt_product_f32(const float *x, int64_t n) { return (n >= FEW && has_avx2() ? product_avx2 : product_base)(x, n); }
