/* rt_fmath.h: the functions of rt_fmath_text.h on single floats, and more that only block loops have, so that loops
 * over them become vector code on any instruction set. */
#ifndef CRESSET_RT_FMATH_H
#define CRESSET_RT_FMATH_H

#include <math.h>
#include <stdint.h>

#define RT_SIN_RANGE 1e6f

static inline float rt__float_of(int32_t i) { union { int32_t i; float f; } x = { i }; return x.f; }
static inline int32_t rt__bits_of(float f) { union { float f; int32_t i; } x = { f }; return x.i; }

#define V float
#define VI int32_t
#define VU uint32_t
#define VD double
#define FN(name) rt_##name##_f32
#define GT(a, b) ((a) > (b))
#define LT(a, b) ((a) < (b))
#define GE(a, b) ((a) >= (b))
#define EQ(a, b) ((a) == (b))
#define PICK(mask, a, b) ((mask) ? (a) : (b))
#define SPLAT(c) (c)
#define AS_INT(x) rt__bits_of(x)
#define AS_FLOAT(x) rt__float_of(x)
#define TO_INT(x) ((int32_t)(x))
#define TO_FLOAT(x) ((float)(x))
#define TO_DOUBLE(x) ((double)(x))
#define NARROW(x) ((float)(x))
#define ABS(x) fabsf(x)
#define COPYSIGN(a, b) copysignf(a, b)
#define ODD(i) ((i) & 1)
#define HALVES(i) ((i) & 2)
#include "runtime/rt_fmath_text.h"
#undef V
#undef VI
#undef VU
#undef VD
#undef FN
#undef GT
#undef LT
#undef GE
#undef EQ
#undef PICK
#undef SPLAT
#undef AS_INT
#undef AS_FLOAT
#undef TO_INT
#undef TO_FLOAT
#undef TO_DOUBLE
#undef NARROW
#undef ABS
#undef COPYSIGN
#undef ODD
#undef HALVES

/* ---- only on single floats: emitted row kernels have none of these ---- */

/* (atan(t) - t) / t^3 in z = t^2, 0 <= t <= 1, to 1.2e-8. */
static inline float rt__atan_tail(float z) {
    return (((((((-0.00250860924f * z + 0.0139966137f) * z - 0.0366704929f) * z + 0.0631823738f) * z -
            0.0868905237f) * z + 0.110420375f) * z - 0.142796164f) * z + 0.199997901f) * z - 0.333333321f;
}
/* The angle of (x, y): the quotient of the smaller by the larger, then the octant. */
static inline float rt_atan2_f32(float y, float x) {
    float across = fabsf(x), up = fabsf(y), low = across < up ? across : up, high = across < up ? up : across;
    float t = low == high ? (high > 0 ? 1.0f : 0.0f) : low / high, z = t * t, r = t + t * z * rt__atan_tail(z);
    r = across < up ? 1.57079633f - r : r;
    r = rt__bits_of(x) < 0 ? 3.14159265f - r : r;
    return x != x || y != y ? x + y : copysignf(r, y);
}
static inline float rt_atan_f32(float x) {
    float size = fabsf(x), t = size > 1 ? 1.0f / size : size, z = t * t, r = t + t * z * rt__atan_tail(z);
    return copysignf(size > 1 ? 1.57079633f - r : r, x);
}
/* asin(t) - t for |t| <= 1/2, z = t^2, to 4e-9 t^3. Beyond, asin(x) = pi/2 - 2 asin(sqrt((1 - x) / 2)). */
static inline float rt__asin_tail(float t, float z) {
    float p = ((0.0339210683f * z + 0.0170057939f) * z + 0.0311319181f) * z + 0.0445966253f;
    return t * z * ((p * z + 0.0750010316f) * z + 0.166666663f);
}
static inline float rt_asin_f32(float x) {
    float size = fabsf(x), z = size > 0.5f ? 0.5f * (1.0f - size) : x * x, t = size > 0.5f ? sqrtf(z) : size;
    float r = t + rt__asin_tail(t, z);
    return copysignf(size > 0.5f ? 1.57079633f - 2.0f * r : r, x);
}
static inline float rt_acos_f32(float x) {
    float size = fabsf(x), z = size > 0.5f ? 0.5f * (1.0f - size) : x * x, t = size > 0.5f ? sqrtf(z) : x;
    float r = t + rt__asin_tail(t, z), far = x < 0 ? 3.14159265f - 2.0f * r : 2.0f * r;
    return size > 0.5f ? far : 1.57079633f - r;
}
static inline float rt_atanh_f32(float x) {
    float size = fabsf(x);
    return copysignf(0.5f * rt_log1p_f32(2.0f * size / (1.0f - size)), x);
}
/* Beyond 2^12 the root is x itself, and its square no longer overflows unseen. */
static inline float rt_asinh_f32(float x) {
    float size = fabsf(x), near = rt_log1p_f32(size + size * size / (1.0f + sqrtf(size * size + 1.0f)));
    return copysignf(size > 4096 ? rt_log_f32(size) + 0.693147181f : near, x);
}
static inline float rt_acosh_f32(float x) {
    float t = x - 1.0f, near = rt_log1p_f32(t + sqrtf(2.0f * t + t * t));
    return x < 1 ? NAN : x > 4096 ? rt_log_f32(x) + 0.693147181f : near;
}
static inline int rt__pow_near(float a, float b) {
    return (fabsf(a) >= 0x1p-126f) & (fabsf(a) < INFINITY) & (fabsf(b) <= 0x1p21f);
}
/* Those, and powers of 0 and NaN, which whole tensors may be full of. */
static inline int rt__pow_known(float a, float b) {
    return rt__pow_near(a, b) | (((a == 0) | (a != a)) & (fabsf(b) <= 0x1p21f));
}
static inline float rt__pow_known_f32(float a, float b) {
    float size = fabsf(a), near = rt__pow_near_f32(size > 0 ? a : copysignf(1.0f, a), b); /* of -1: -1 for odd powers */
    float of_0 = b > 0 ? 0.0f : b == 0 ? 1.0f : INFINITY;
    return size > 0 ? near : a == 0 ? copysignf(of_0, near < 0 ? near : 1.0f) : b == 0 ? 1.0f : a;
}
static inline float rt_logaddexp_f32(float a, float b) {
    float sum = (a < b ? b : a) + rt__log1p_near_f32(rt_exp_f32(-fabsf(a - b)));
    return a == b && fabsf(a) == INFINITY ? a : sum;
}
static inline float rt_logaddexp2_f32(float a, float b) {
    float sum = (a < b ? b : a) + rt__log1p_near_f32(rt_exp2_f32(-fabsf(a - b))) * 1.44269504f;
    return a == b && fabsf(a) == INFINITY ? a : sum;
}
static inline float rt_xlogy_f32(float a, float b) { return b != b ? b : a == 0 ? 0 : a * rt_log_f32(b); }
static inline float rt_xlog1py_f32(float a, float b) { return b != b ? b : a == 0 ? 0 : a * rt_log1p_f32(b); }
static inline float rt_entr_f32(float a) { return a == 0 ? 0 : a < 0 ? -INFINITY : -a * rt_log_f32(a); }
/* |x| <= RT_SINH_RANGE, where e^x is a float; beyond, libm. */
#define RT_SINH_RANGE 88.0f
static inline float rt_sinh_f32(float x) {
    float e = rt_expm1_f32(fabsf(x));
    return copysignf(0.5f * (e + e / (e + 1.0f)), x);
}
static inline float rt_cosh_f32(float x) {
    float e = rt_exp_f32(fabsf(x));
    return 0.5f * e + 0.5f / e;
}
/* |x| <= RT_SIN_RANGE. (tan r - r) / r^3 to 6e-10, |r| <= 0.86, as the quadrant of a large x is rounded; in odd
 * quadrants -1 / tan r. */
static inline float rt_tan_f32(float x) {
    int32_t n;
    float r = rt__reduce_sin_f32(x, &n), z = r * r, y = z * z;
    float even = ((-2.274628399e-3f * y + 7.430220862e-3f) * y + 5.391481421e-2f) * y + 0.333333249f;
    float odd = ((2.706664249e-3f * y + 6.703973045e-3f) * y + 2.224439685e-2f) * y + 0.1333369792f;
    float t = r + r * z * (even + z * odd);
    return x == 0 ? x : n & 1 ? -1.0f / t : t;
}
/* |x| <= RT_SIN_RANGE / 4: see rt_sinc_f32. */
static inline float rt_sinc_near(float x) {
    float y = x * 3.14159265f;
    return x == 0 ? 1.0f : rt_sin_f32(y) / y;
}
static inline float rt_hypot_f32(float a, float b) {
    double x = a, y = b;
    return fabsf(a) == INFINITY || fabsf(b) == INFINITY ? INFINITY : (float)sqrt(x * x + y * y);
}
/* Where fmod is one exact step in double: the quotient has at most 28 bits and lies no nearer to the next integer than
 * 2^-24, so its rounding does not reach it, and both the product and the difference have room. */
static inline int rt__fmod_near(float a, float b) {
    return (fabsf(a) <= 0x1p27f * fabsf(b)) & (fabsf(a) < INFINITY) & (fabsf(b) < INFINITY);
}
static inline float rt_fmod_f32(float a, float b) {
    double x = a, y = b;
    return copysignf((float)(x - trunc(x / y) * y), a);
}
static inline float rt_nextafter_f32(float a, float b) {
    uint32_t bits = (uint32_t)rt__bits_of(a), step = (a < b) == (a > 0) ? bits + 1 : bits - 1;
    float moved = a == 0 ? copysignf(1e-45f, b) : rt__float_of((int32_t)step);
    return a != a || b != b ? a + b : a == b ? b : moved;
}
/* Subnormal numbers are brought to normal ones first; 0, infinity and NaN are their own mantissas, of exponent 0. */
static inline float rt_mantissa_f32(float a) {
    int32_t bits = rt__bits_of(fabsf(a) < 0x1p-126f ? a * 0x1p25f : a);
    return a != 0 && fabsf(a) < INFINITY ? rt__float_of((bits & (int32_t)0x807fffff) | 0x3f000000) : a;
}
static inline float rt_exponent_f32(float a) {
    int small = fabsf(a) < 0x1p-126f;
    int32_t e = ((rt__bits_of(small ? a * 0x1p25f : a) >> 23) & 255) - (small ? 151 : 126);
    return a != 0 && fabsf(a) < INFINITY ? (float)e : 0;
}

#endif
