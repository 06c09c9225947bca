/* rt_convert.c: any dtype to any dtype, with PyTorch's results.
 *
 * All pairs as loops of their own would be 441 functions. Instead a block of elements goes through three stages, each a
 * small table: load (dtype to the class that holds it exactly), cast (class to class), store (class to dtype). Stages
 * that change nothing work on the caller's memory, so float to double or float to half is one pass. The rounding
 * happens once: every source is exact in its class, and a cast rounds to the precision the store keeps, except that
 * half, bfloat16 and float8 are reached through float, as PyTorch does.
 *
 * Floats outside the range of an integer type have no value in C. We give what x86 gives: the smallest integer of 32
 * bits (targets of up to 32 signed bits, and u16) or of 64 bits, cut to the target. */
#include "runtime/rt.h"

#include <string.h>

enum { BLOCK = 256 };

/* What a block is held as. The last three are targets only: integers by the rule above, and truth values; they are held
 * as int64. */
enum { IN_I64, IN_U64, IN_F32, IN_F64, IN_C64, IN_C128, SOURCE_CLASSES, TO_I32 = SOURCE_CLASSES, TO_BOOL, CLASSES };

enum { BLOCK_BYTES = BLOCK * 16 };

static inline uint32_t bits_of(float f) {
    union { float f; uint32_t u; } x = { f };
    return x.u;
}
static inline float float_of(uint32_t u) {
    union { uint32_t u; float f; } x = { u };
    return x.f;
}

/* ---- numbers of 16 bits ---- */

/* Written as selects between three candidates, not branches, so that loops over it become vector code. */
static inline float f16_decode(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, magnitude = h & 0x7fff;
    uint32_t normal = (magnitude << 13) + (112u << 23);
    uint32_t special = (magnitude << 13) | 0x7f800000;
    uint32_t tiny = bits_of((float)(int32_t)magnitude * 0x1p-24f); /* a multiple of the smallest half */
    return float_of(sign | (magnitude >= 0x7c00 ? special : magnitude >= 0x0400 ? normal : tiny));
}

static inline uint16_t f16_encode(float f) {
    uint32_t u = bits_of(f), a = u & 0x7fffffff;
    uint32_t normal = (a + 0xfff + ((a >> 13) & 1) - (112u << 23)) >> 13;
    uint32_t tiny = bits_of(float_of(a) + 0.5f) - bits_of(0.5f); /* the last bit of 0.5f weighs 2^-24, as here */
    uint32_t special = a > 0x7f800000 ? 0x7e00 : 0x7c00;
    return (uint16_t)((u >> 16 & 0x8000) | (a >= 0x47800000 ? special : a >= 0x38800000 ? normal : tiny));
}

static inline uint16_t bf16_encode(float f) {
    uint32_t u = bits_of(f);
    uint32_t rounded = (u + 0x7fff + (u >> 16 & 1)) >> 16;
    return (uint16_t)((u & 0x7fffffff) > 0x7f800000 ? 0x7fc0 : rounded);
}

float rt_f16_to_f32(uint16_t h) { return f16_decode(h); }
uint16_t rt_f32_to_f16(float f) { return f16_encode(f); }
uint16_t rt_f32_to_bf16(float f) { return bf16_encode(f); }

/* ---- numbers of 8 bits ---- */

/* `fnuz` formats have no infinity, one zero, and their NaN where minus zero would be; too large becomes NaN. `fn` has
 * no infinity either, but there PyTorch saturates. */
typedef struct f8_format { uint8_t mantissa, bias, largest, overflow, nan; bool one_zero, has_inf; } f8_format;
static const f8_format f8_e4m3fn = { 3, 7, 0x7e, 0x7e, 0x7f, false, false };
static const f8_format f8_e5m2 = { 2, 15, 0x7b, 0x7c, 0x7f, false, true };
static const f8_format f8_e4m3fnuz = { 3, 8, 0x7f, 0x80, 0x80, true, false };
static const f8_format f8_e5m2fnuz = { 2, 16, 0x7f, 0x80, 0x80, true, false };

static float f8_decode(const f8_format *t, uint8_t v) {
    uint32_t magnitude = v & 0x7f, sign = (uint32_t)(v & 0x80) << 24;
    if (t->one_zero ? v == 0x80 : magnitude > t->largest) {
        if (t->has_inf && magnitude == t->overflow) return float_of(sign | 0x7f800000);
        return float_of(sign | 0x7fc00000);
    }
    int shift = 23 - t->mantissa;
    if (magnitude >> t->mantissa) return float_of(sign | ((magnitude << shift) + ((127u - t->bias) << 23)));
    float unit = float_of((uint32_t)(128 - t->bias - t->mantissa) << 23);
    return float_of(sign | bits_of((float)magnitude * unit));
}

static uint8_t f8_encode(const f8_format *t, float f) {
    uint32_t u = bits_of(f), a = u & 0x7fffffff, sign = u >> 24 & 0x80, code;
    int shift = 23 - t->mantissa;
    if (a > 0x7f800000) return (uint8_t)(t->one_zero ? t->nan : sign | t->nan);
    if (a >= (uint32_t)(128 - t->bias) << 23) {
        code = ((a + (1u << (shift - 1)) - 1 + (a >> shift & 1)) >> shift) - ((127u - t->bias) << t->mantissa);
    } else {
        float magic = float_of((uint32_t)(128 - t->bias - t->mantissa + 23) << 23); /* its last bit is the unit here */
        code = bits_of(float_of(a) + magic) - bits_of(magic);
    }
    if (code > t->largest) return (uint8_t)(t->one_zero ? t->overflow : sign | t->overflow);
    return (uint8_t)(t->one_zero && !code ? 0 : sign | code);
}

/* e8m0: a power of two, 2^(v-127). The sign is lost; halfway goes up, except from the smallest. */
static float f8_e8m0_decode(uint8_t v) {
    return float_of(v == 0xff ? 0x7fc00000 : v == 0 ? 0x00400000 : (uint32_t)v << 23);
}
static uint8_t f8_e8m0_encode(float f) {
    uint32_t u = bits_of(f), exponent = u >> 23 & 0xff, rest = u & 0x7fffff;
    if (exponent == 0xff) return 0xff;
    return (uint8_t)(exponent + (rest > 0x400000 || (rest == 0x400000 && exponent > 0)));
}

/* ---- stage 1: load ---- */

/* Runs `statement` for i in [0, n). The full block with unit stride gets a constant count, which is what makes -O2
 * vectorise. */
#define EACH(n, stride, statement)                                                                                     \
    if ((n) == BLOCK && (stride) == 1) {                                                                               \
        const int64_t s = 1;                                                                                           \
        for (int64_t i = 0; i < BLOCK; i++) { (void)s; statement; }                                                    \
    } else {                                                                                                           \
        const int64_t s = (stride);                                                                                    \
        for (int64_t i = 0; i < (n); i++) { (void)s; statement; }                                                      \
    }

typedef void load_fn(void *restrict out, const void *restrict src, int64_t stride, int64_t n);
#define LOAD(id, T, HELD, expr)                                                                                        \
    static void load_##id(void *restrict out, const void *restrict src, int64_t stride, int64_t n) {                   \
        const T *restrict x = src;                                                                                     \
        HELD *restrict y = out;                                                                                        \
        EACH(n, stride, y[i] = expr(x[i * s]))                                                                         \
    }
#define LOAD_PAIR(id, T, HELD, expr)                                                                                   \
    static void load_##id(void *restrict out, const void *restrict src, int64_t stride, int64_t n) {                   \
        const T *restrict x = src;                                                                                     \
        HELD *restrict y = out;                                                                                        \
        EACH(n, stride, (y[2 * i] = expr(x[2 * i * s]), y[2 * i + 1] = expr(x[2 * i * s + 1])))                        \
    }
#define SAME(v) (v)
#define TRUTH(v) ((v) != 0)
LOAD(u8, uint8_t, int64_t, SAME)
LOAD(i8, int8_t, int64_t, SAME)
LOAD(i16, int16_t, int64_t, SAME)
LOAD(i32, int32_t, int64_t, SAME)
LOAD(i64, int64_t, int64_t, SAME)
LOAD(u16, uint16_t, int64_t, SAME)
LOAD(u32, uint32_t, int64_t, SAME)
LOAD(b8, uint8_t, int64_t, TRUTH)
LOAD(f16, uint16_t, float, f16_decode)
LOAD(bf16, uint16_t, float, rt_bf16_to_f32)
LOAD(f32, float, float, SAME)
LOAD(f64, double, double, SAME)
#define F8_E4M3FN(v) f8_decode(&f8_e4m3fn, v)
#define F8_E5M2(v) f8_decode(&f8_e5m2, v)
#define F8_E4M3FNUZ(v) f8_decode(&f8_e4m3fnuz, v)
#define F8_E5M2FNUZ(v) f8_decode(&f8_e5m2fnuz, v)
LOAD(f8e4m3fn, uint8_t, float, F8_E4M3FN)
LOAD(f8e5m2, uint8_t, float, F8_E5M2)
LOAD(f8e4m3fnuz, uint8_t, float, F8_E4M3FNUZ)
LOAD(f8e5m2fnuz, uint8_t, float, F8_E5M2FNUZ)
LOAD(f8e8m0fnu, uint8_t, float, f8_e8m0_decode)
LOAD_PAIR(c32, uint16_t, float, f16_decode)
LOAD_PAIR(c64, float, float, SAME)
LOAD_PAIR(c128, double, double, SAME)
/* Integers on their way to a float: exact in float or double, and these vectorise where int64 to float does not. */
LOAD(u8_f32, uint8_t, float, SAME)
LOAD(i8_f32, int8_t, float, SAME)
LOAD(i16_f32, int16_t, float, SAME)
LOAD(u16_f32, uint16_t, float, SAME)
LOAD(b8_f32, uint8_t, float, TRUTH)
LOAD(i32_f64, int32_t, double, SAME)

/* ---- stage 2: cast ---- */

static inline int64_t to_i32(double x) { return x > -0x1.00000002p31 && x < 0x1p31 ? (int32_t)x : INT32_MIN; }
static inline int64_t to_i64(double x) { return x >= -0x1p63 && x < 0x1p63 ? (int64_t)x : INT64_MIN; }
static inline int64_t to_u64(double x) {
    if (x >= 0x1p63) return x < 0x1p64 ? (int64_t)(uint64_t)x : 0;
    return to_i64(x);
}

typedef void cast_fn(void *restrict out, const void *restrict in, int64_t n);
#define CAST(from, IN, to, OUT, expr)                                                                                  \
    static void cast_##from##_##to(void *restrict out, const void *restrict in, int64_t n) {                           \
        const IN *restrict x = in;                                                                                     \
        OUT *restrict y = out;                                                                                         \
        EACH(n, 1, y[i] = (OUT)(expr))                                                                                 \
    }
#define CAST_PAIR(from, IN, to, OUT, re, im)                                                                           \
    static void cast_##from##_##to(void *restrict out, const void *restrict in, int64_t n) {                           \
        const IN *restrict x = in;                                                                                     \
        OUT *restrict y = out;                                                                                         \
        EACH(n, 1, (y[2 * i] = (OUT)(re), y[2 * i + 1] = (OUT)(im)))                                                   \
    }
#define CASTS_TO_INTEGER(from, IN, v, nonzero)                                                                         \
    CAST(from, IN, i32, int64_t, to_i32(v)) CAST(from, IN, i64, int64_t, to_i64(v))                                    \
    CAST(from, IN, u64, int64_t, to_u64(v)) CAST(from, IN, bool, int64_t, nonzero)
CASTS_TO_INTEGER(f32, float, x[i], x[i] != 0)
CASTS_TO_INTEGER(f64, double, x[i], x[i] != 0)
CASTS_TO_INTEGER(c64, float, x[2 * i], x[2 * i] != 0 || x[2 * i + 1] != 0)
CASTS_TO_INTEGER(c128, double, x[2 * i], x[2 * i] != 0 || x[2 * i + 1] != 0)
CAST(i64, int64_t, bool, int64_t, x[i] != 0)
CAST(i64, int64_t, f32, float, x[i])
CAST(i64, int64_t, f64, double, x[i])
CAST(u64, uint64_t, f32, float, x[i])
CAST(u64, uint64_t, f64, double, x[i])
CAST(f32, float, f64, double, x[i])
CAST(f64, double, f32, float, x[i])
CAST(c64, float, f32, float, x[2 * i])
CAST(c64, float, f64, double, x[2 * i])
CAST(c128, double, f32, float, x[2 * i])
CAST(c128, double, f64, double, x[2 * i])
CAST_PAIR(i64, int64_t, c64, float, x[i], 0)
CAST_PAIR(i64, int64_t, c128, double, x[i], 0)
CAST_PAIR(u64, uint64_t, c64, float, x[i], 0)
CAST_PAIR(u64, uint64_t, c128, double, x[i], 0)
CAST_PAIR(f32, float, c64, float, x[i], 0)
CAST_PAIR(f32, float, c128, double, x[i], 0)
CAST_PAIR(f64, double, c64, float, x[i], 0)
CAST_PAIR(f64, double, c128, double, x[i], 0)
CAST_PAIR(c64, float, c128, double, x[2 * i], x[2 * i + 1])
CAST_PAIR(c128, double, c64, float, x[2 * i], x[2 * i + 1])

/* NULL: the same bits. Integers keep theirs (the store cuts them). */
static cast_fn *const casts[SOURCE_CLASSES][CLASSES] = {
    [IN_I64] = { NULL, NULL, cast_i64_f32, cast_i64_f64, cast_i64_c64, cast_i64_c128, NULL, cast_i64_bool },
    [IN_U64] = { NULL, NULL, cast_u64_f32, cast_u64_f64, cast_u64_c64, cast_u64_c128, NULL, cast_i64_bool },
    [IN_F32] = { cast_f32_i64, cast_f32_u64, NULL, cast_f32_f64, cast_f32_c64, cast_f32_c128, cast_f32_i32,
                 cast_f32_bool },
    [IN_F64] = { cast_f64_i64, cast_f64_u64, cast_f64_f32, NULL, cast_f64_c64, cast_f64_c128, cast_f64_i32,
                 cast_f64_bool },
    [IN_C64] = { cast_c64_i64, cast_c64_u64, cast_c64_f32, cast_c64_f64, NULL, cast_c64_c128, cast_c64_i32,
                 cast_c64_bool },
    [IN_C128] = { cast_c128_i64, cast_c128_u64, cast_c128_f32, cast_c128_f64, cast_c128_c64, NULL, cast_c128_i32,
                  cast_c128_bool },
};

/* ---- stage 3: store ---- */

typedef void store_fn(void *restrict dst, const void *restrict in, int64_t stride, int64_t n);
#define STORE(id, T, HELD, expr)                                                                                       \
    static void store_##id(void *restrict dst, const void *restrict in, int64_t stride, int64_t n) {                   \
        const HELD *restrict x = in;                                                                                   \
        T *restrict y = dst;                                                                                           \
        EACH(n, stride, y[i * s] = (T)expr(x[i]))                                                                      \
    }
#define STORE_PAIR(id, T, HELD, expr)                                                                                  \
    static void store_##id(void *restrict dst, const void *restrict in, int64_t stride, int64_t n) {                   \
        const HELD *restrict x = in;                                                                                   \
        T *restrict y = dst;                                                                                           \
        EACH(n, stride, (y[2 * i * s] = expr(x[2 * i]), y[2 * i * s + 1] = expr(x[2 * i + 1])))                        \
    }
STORE(1, uint8_t, int64_t, SAME)
STORE(2, uint16_t, int64_t, SAME)
STORE(4, uint32_t, int64_t, SAME)
STORE(8, int64_t, int64_t, SAME)
STORE(f16, uint16_t, float, f16_encode)
STORE(bf16, uint16_t, float, bf16_encode)
STORE(f32, float, float, SAME)
STORE(f64, double, double, SAME)
#define F8_FROM_E4M3FN(v) f8_encode(&f8_e4m3fn, v)
#define F8_FROM_E5M2(v) f8_encode(&f8_e5m2, v)
#define F8_FROM_E4M3FNUZ(v) f8_encode(&f8_e4m3fnuz, v)
#define F8_FROM_E5M2FNUZ(v) f8_encode(&f8_e5m2fnuz, v)
STORE(f8e4m3fn, uint8_t, float, F8_FROM_E4M3FN)
STORE(f8e5m2, uint8_t, float, F8_FROM_E5M2)
STORE(f8e4m3fnuz, uint8_t, float, F8_FROM_E4M3FNUZ)
STORE(f8e5m2fnuz, uint8_t, float, F8_FROM_E5M2FNUZ)
STORE(f8e8m0fnu, uint8_t, float, f8_e8m0_encode)
STORE_PAIR(c32, uint16_t, float, f16_encode)
STORE_PAIR(c64, float, float, SAME)
STORE_PAIR(c128, double, double, SAME)

/* ---- one row per dtype ---- */

typedef struct format {
    load_fn *load;
    store_fn *store;
    uint8_t source, target; /* classes */
    bool plain;             /* memory is laid out as the class holds it */
    load_fn *load_float;    /* when the target is a float and this is better */
    uint8_t source_float;
} format;

static const format formats[RT_DTYPE_COUNT] = {
    [RT_U8] = { load_u8, store_1, IN_I64, IN_I64, false, load_u8_f32, IN_F32 },
    [RT_I8] = { load_i8, store_1, IN_I64, TO_I32, false, load_i8_f32, IN_F32 },
    [RT_I16] = { load_i16, store_2, IN_I64, TO_I32, false, load_i16_f32, IN_F32 },
    [RT_I32] = { load_i32, store_4, IN_I64, TO_I32, false, load_i32_f64, IN_F64 },
    [RT_I64] = { load_i64, store_8, IN_I64, IN_I64, true, NULL, 0 },
    [RT_F16] = { load_f16, store_f16, IN_F32, IN_F32, false, NULL, 0 },
    [RT_F32] = { load_f32, store_f32, IN_F32, IN_F32, true, NULL, 0 },
    [RT_F64] = { load_f64, store_f64, IN_F64, IN_F64, true, NULL, 0 },
    [RT_C32] = { load_c32, store_c32, IN_C64, IN_C64, false, NULL, 0 },
    [RT_C64] = { load_c64, store_c64, IN_C64, IN_C64, true, NULL, 0 },
    [RT_C128] = { load_c128, store_c128, IN_C128, IN_C128, true, NULL, 0 },
    [RT_BOOL] = { load_b8, store_1, IN_I64, TO_BOOL, false, load_b8_f32, IN_F32 },
    [RT_BF16] = { load_bf16, store_bf16, IN_F32, IN_F32, false, NULL, 0 },
    [RT_U16] = { load_u16, store_2, IN_I64, TO_I32, false, load_u16_f32, IN_F32 },
    [RT_U32] = { load_u32, store_4, IN_I64, IN_I64, false, NULL, 0 },
    [RT_U64] = { load_i64, store_8, IN_U64, IN_U64, true, NULL, 0 },
    [RT_F8E4M3FN] = { load_f8e4m3fn, store_f8e4m3fn, IN_F32, IN_F32, false, NULL, 0 },
    [RT_F8E5M2] = { load_f8e5m2, store_f8e5m2, IN_F32, IN_F32, false, NULL, 0 },
    [RT_F8E4M3FNUZ] = { load_f8e4m3fnuz, store_f8e4m3fnuz, IN_F32, IN_F32, false, NULL, 0 },
    [RT_F8E5M2FNUZ] = { load_f8e5m2fnuz, store_f8e5m2fnuz, IN_F32, IN_F32, false, NULL, 0 },
    [RT_F8E8M0FNU] = { load_f8e8m0fnu, store_f8e8m0fnu, IN_F32, IN_F32, false, NULL, 0 },
};

static bool is_float_class(int c) { return c >= IN_F32 && c <= IN_C128; }

void rt_convert(int dst_dtype, void *dst, int64_t dst_stride, int src_dtype, const void *src, int64_t src_stride,
                int64_t n) {
    int64_t dst_bytes = rt_itemsize(dst_dtype), src_bytes = rt_itemsize(src_dtype);
    if (n <= 0 || !dst_bytes || !src_bytes) return;
    if (dst_dtype == src_dtype && dst_stride == 1 && src_stride == 1) {
        memcpy(dst, src, (size_t)(n * dst_bytes));
        return;
    }
    const format *from = &formats[src_dtype], *to = &formats[dst_dtype];
    bool as_float = from->load_float && is_float_class(to->target);
    load_fn *load = as_float ? from->load_float : from->load;
    int source = as_float ? from->source_float : from->source;
    cast_fn *cast = casts[source][to->target];
    bool load_needed = !from->plain || src_stride != 1, store_needed = !to->plain || dst_stride != 1;
    if (!cast && !load_needed && !store_needed) store_needed = true; /* i64 to u64: something has to move the bits */

    _Alignas(64) char loaded[BLOCK_BYTES];
    _Alignas(64) char cast_to[BLOCK_BYTES];
    for (int64_t at = 0; at < n; at += BLOCK) {
        int64_t count = n - at < BLOCK ? n - at : BLOCK;
        const void *x = (const char *)src + at * src_stride * src_bytes;
        void *y = (char *)dst + at * dst_stride * dst_bytes;
        if (load_needed) {
            void *out = cast || store_needed ? loaded : y;
            load(out, x, src_stride, count);
            x = out;
        }
        if (cast) {
            void *out = store_needed ? cast_to : y;
            cast(out, x, count);
            x = out;
        }
        if (store_needed) to->store(y, x, dst_stride, count);
    }
}
