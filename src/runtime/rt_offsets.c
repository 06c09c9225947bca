/* rt_offsets.c: index values as element offsets, and the loops over elements at such offsets. See rt_index.h. */
#include "runtime/rt_index.h"

#include <string.h>

/* A value is outside when it, or what is left of the size behind it, is negative (counted from `low`): one bit, which
 * blocks of eight collect in vectors. */
#define LOAD_EACH(stride, place)                                   \
    for (; i + 8 <= n; i += 8)                                     \
        for (int k = 0; k < 8; k++) LOAD_ONE(i + k, stride, place) \
    for (; i < n; i++) LOAD_ONE(i, stride, place)
#define LOAD_ONE(i, stride, place)                               \
    {                                                            \
        uint64_t value = (uint64_t)x[(i) * (stride)];            \
        outside |= (value + low) | ((uint64_t)size - 1 - value); \
        at[i] = (int64_t)(place);                                \
    }
#define LOAD_INDICES(ID, T)                                                              \
    case RT_##ID: {                                                                      \
        const T *restrict x = index;                                                     \
        uint64_t low = wraps ? (uint64_t)size : 0, outside = 0;                          \
        int64_t i = 0;                                                                   \
        if (wraps) {                                                                     \
            LOAD_EACH(stride, (value + ((int64_t)value < 0 ? low : 0)) * (uint64_t)step) \
        } else if (stride == 1 && step == 1) {                                           \
            LOAD_EACH(1, value)                                                          \
        } else {                                                                         \
            LOAD_EACH(stride, value *(uint64_t)step)                                     \
        }                                                                                \
        if (!(outside >> 63)) return true;                                               \
        uint64_t all = (uint64_t)size + low;                                             \
        for (i = 0; (uint64_t)x[i * stride] + low < all;) i++;                           \
        *bad = (int64_t)x[i * stride];                                                   \
        return false;                                                                    \
    }

bool rt_index_load(int dtype, const void *index, int64_t stride, int64_t n, int64_t size, bool wraps, int64_t step,
                   int64_t *restrict at, int64_t *bad) {
    switch (dtype) {
        LOAD_INDICES(I64, int64_t) LOAD_INDICES(I32, int32_t) LOAD_INDICES(I16, int16_t) LOAD_INDICES(I8, int8_t)
        LOAD_INDICES(U8, uint8_t)
    default: break;
    }
    *bad = 0;
    return false;
}

typedef struct rt_wide_item { uint64_t half[2]; } rt_wide_item;
#define BY_ITEM(DO)                                                                                                    \
    switch (item) {                                                                                                    \
    case 1: DO(uint8_t); break;                                                                                        \
    case 2: DO(uint16_t); break;                                                                                       \
    case 4: DO(uint32_t); break;                                                                                       \
    case 8: DO(uint64_t); break;                                                                                       \
    default: DO(rt_wide_item); break;                                                                                  \
    }

#define PICK(T)                                                                                                        \
    {                                                                                                                  \
        const T *x = src;                                                                                              \
        T *y = dst;                                                                                                    \
        if (at)                                                                                                        \
            for (int64_t i = 0; i < n; i++) y[i * ds] = x[at[i] + i * ss];                                             \
        else                                                                                                           \
            for (int64_t i = 0; i < n; i++) y[i * ds] = x[i * ss];                                                     \
    }
void rt_pick(int64_t item, void *dst, int64_t ds, const void *src, int64_t ss, const int64_t *at, int64_t n) {
    if (!at && ds == 1 && ss == 1) {
        memcpy(dst, src, (size_t)(n * item));
        return;
    }
    BY_ITEM(PICK)
}

#define PUT(T)                                                                                                         \
    {                                                                                                                  \
        const T *x = src;                                                                                              \
        T *y = dst;                                                                                                    \
        for (int64_t i = 0; i < n; i++) y[at[i] + i * ds] = x[i * ss];                                                 \
    }
void rt_put(int64_t item, void *dst, int64_t ds, const int64_t *at, const void *src, int64_t ss, int64_t n) {
    if (!at) rt_pick(item, dst, ds, src, ss, NULL, n);
    else BY_ITEM(PUT)
}

static inline uint16_t add_halves(uint16_t a, uint16_t b) {
    return rt_f32_to_f16(rt_f16_to_f32(a) + rt_f16_to_f32(b));
}
static inline uint16_t add_bfloats(uint16_t a, uint16_t b) {
    return rt_f32_to_bf16(rt_bf16_to_f32(a) + rt_bf16_to_f32(b));
}

/* Dense runs in steps of eight, which the compiler makes vectors of. `per`: numbers of one element. */
#define ADD_WITH(ID, T, per, sum)                                                                        \
    case RT_##ID: {                                                                                      \
        const T *restrict x = src;                                                                       \
        T *restrict y = dst;                                                                             \
        int64_t i = 0;                                                                                   \
        if (!at && ds == 1 && ss == 1)                                                                   \
            for (; i + 8 <= n * (per); i += 8)                                                           \
                for (int k = 0; k < 8; k++) {                                                            \
                    T a = y[i + k], b = x[i + k];                                                        \
                    y[i + k] = (T)(sum);                                                                 \
                }                                                                                        \
        for (i /= (per); i < n; i++)                                                                     \
            for (int k = 0; k < (per); k++) {                                                            \
                T *to = &y[((at ? at[i] : 0) + i * ds) * (per) + k], a = *to, b = x[i * ss * (per) + k]; \
                *to = (T)(sum);                                                                          \
            }                                                                                            \
        return;                                                                                          \
    }

void rt_add_at(int dtype, void *dst, int64_t ds, const int64_t *at, const void *src, int64_t ss, int64_t n) {
    switch (dtype) {
        ADD_WITH(U8, uint8_t, 1, a + b) ADD_WITH(I8, uint8_t, 1, a + b) ADD_WITH(BOOL, uint8_t, 1, a | b)
        ADD_WITH(U16, uint16_t, 1, a + b) ADD_WITH(I16, uint16_t, 1, a + b)
        ADD_WITH(U32, uint32_t, 1, a + b) ADD_WITH(I32, uint32_t, 1, a + b)
        ADD_WITH(U64, uint64_t, 1, a + b) ADD_WITH(I64, uint64_t, 1, a + b)
        ADD_WITH(F32, float, 1, a + b) ADD_WITH(F64, double, 1, a + b)
        ADD_WITH(C64, float, 2, a + b) ADD_WITH(C128, double, 2, a + b)
        ADD_WITH(F16, uint16_t, 1, add_halves(a, b)) ADD_WITH(C32, uint16_t, 2, add_halves(a, b))
        ADD_WITH(BF16, uint16_t, 1, add_bfloats(a, b))
    default: return;
    }
}
