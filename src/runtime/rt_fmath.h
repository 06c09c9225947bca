/* rt_fmath.h: float functions as straight-line code, so that loops over them become vector code on any instruction set.
 *
 * No calls, no branches, no fused operations: the bits are the same in every build. Results are within 2.5 units of the
 * last place (tests/unit/test_fmath.c holds them to that over the whole range); NaN, infinities, signed zeros and
 * subnormal numbers come out as libm's. Coefficients are minimax fits of our own (relative error in the comments). */
#ifndef CRESSET_RT_FMATH_H
#define CRESSET_RT_FMATH_H

#include <math.h>
#include <stdint.h>

static inline float rt__float_of(int32_t i) { union { int32_t i; float f; } x = { i }; return x.f; }
static inline int32_t rt__bits_of(float f) { union { float f; int32_t i; } x = { f }; return x.i; }
/* To the nearest integer, |a| < 2^22: the sum has no bits left for a fraction. */
static inline float rt__round(float a) { return (a + 12582912.0f) - 12582912.0f; }
/* -126 <= n <= 127. Integers wrap here and below: what NaN makes of them does not matter, NaN comes through anyway. */
static inline float rt__power_of_2(uint32_t n) { return rt__float_of((int32_t)((n + 127) << 23)); }

/* ---- exponentials: x = n log 2 + r, e^x = 2^n e^r ---- */

/* r with |r| <= log(2)/2; log 2 in two pieces, the first short enough that n times it is exact. */
static inline float rt__reduce_exp(float x, float *n) {
    *n = rt__round(x * 1.44269504f);
    return (x - *n * 0.693359375f) + *n * 2.12194440e-4f;
}
/* (e^r - 1 - r) / r^2 to 3e-10. */
static inline float rt__exp_tail(float r) {
    return ((((1.991706611e-4f * r + 1.394310414e-3f) * r + 8.333268166e-3f) * r + 4.16663291e-2f) * r + 0.1666666684f) * r + 0.5f;
}
/* p 2^n for -252 <= n <= 254: two factors, so that neither leaves the range before the product does. */
static inline float rt__scale(float p, int32_t n) {
    int32_t half = n >> 1;
    return p * rt__power_of_2((uint32_t)half) * rt__power_of_2((uint32_t)n - (uint32_t)half);
}

static inline float rt_exp_f32(float x) {
    float n, y = x > 89.0f ? 89.0f : x;
    y = y < -104.0f ? -104.0f : y;
    float r = rt__reduce_exp(y, &n);
    return rt__scale(r * r * rt__exp_tail(r) + r + 1.0f, (int32_t)n);
}
/* The same numbers for -80 <= x <= 80, where one factor is enough. NaN gives anything. */
static inline float rt__exp_near_0(float x) {
    float n, r = rt__reduce_exp(x, &n);
    return (r * r * rt__exp_tail(r) + r + 1.0f) * rt__power_of_2((uint32_t)(int32_t)n);
}
static inline float rt_exp2_f32(float x) {
    float y = x > 129.0f ? 129.0f : x;
    y = y < -151.0f ? -151.0f : y;
    float n = rt__round(y), r = (y - n) * 0.693147181f;
    return rt__scale(r * r * rt__exp_tail(r) + r + 1.0f, (int32_t)n);
}
/* 2^n (e^r - 1) + (2^n - 1), halved on the way: 2^128 is no float. */
static inline float rt_expm1_f32(float x) {
    float n, y = x > 89.0f ? 89.0f : x;
    y = y < -18.0f ? -18.0f : y;
    float r = rt__reduce_exp(y, &n), small = r * r * rt__exp_tail(r) + r, t = rt__power_of_2((uint32_t)(int32_t)n - 1);
    float result = 2.0f * (t * small + (t - 0.5f));
    return x == 0 ? x : result;
}
static inline float rt_sigmoid_f32(float x) { return 1.0f / (1.0f + rt_exp_f32(-x)); }
/* (e^2x - 1) / (e^2x + 1), odd by construction. */
static inline float rt_tanh_f32(float x) {
    float size = fabsf(x), y = size > 10.0f ? 10.0f : size, e = rt_expm1_f32(2.0f * y);
    return copysignf(e / (e + 2.0f), x);
}

/* ---- logarithms: x = 2^e m, sqrt(1/2) <= m < sqrt(2) ---- */

/* Parts of log(x): the exponent, and log(m) = f - (f^2/2 - s (f^2/2 + R)), s = f / (2 + f), as f minus *rest. */
static inline float rt__reduce_log(float x, float *e, float *rest) {
    float y = x < 1.17549435e-38f ? x * 8388608.0f : x;
    uint32_t i = (uint32_t)rt__bits_of(y);
    int32_t k = (int32_t)(i - 0x3f3504f3) >> 23;
    float f = rt__float_of((int32_t)(i - ((uint32_t)k << 23))) - 1.0f;
    *e = (float)(x < 1.17549435e-38f ? k - 23 : k);
    float s = f / (2.0f + f), z = s * s, half = 0.5f * f * f;
    float tail = 2.0f * z * (((0.1167244537f * z + 0.1427513688f) * z + 0.2000006344f) * z + 0.3333333327f); /* 6e-10 */
    *rest = half - s * (half + tail);
    return f;
}
/* What is not a positive finite number. */
static inline float rt__log_edges(float x, float result) {
    float outside = x == 0 ? -INFINITY : x < 0 ? NAN : x; /* infinity, NaN */
    return x > 0 && x < INFINITY ? result : outside;
}
static inline float rt_log_f32(float x) {
    float e, rest, f = rt__reduce_log(x, &e, &rest);
    return rt__log_edges(x, e * 0.693359375f + ((f - (rest + e * 2.12194440e-4f))));
}
static inline float rt_log2_f32(float x) {
    float e, rest, f = rt__reduce_log(x, &e, &rest), m = f - rest;
    /* log2(e) in two pieces, and log(m) with what its subtraction lost. */
    float lost = (f - m) - rest;
    return rt__log_edges(x, e + (m * 1.44269502f + (lost * 1.44269502f + m * 1.92596298e-8f)));
}
static inline float rt_log10_f32(float x) {
    float e, rest, f = rt__reduce_log(x, &e, &rest), m = f - rest, lost = (f - m) - rest;
    return rt__log_edges(x, e * 0.301025391f + (m * 0.434294492f + (lost * 0.434294492f + (e * 4.60503914e-6f - m * 1.01010111e-8f))));
}
/* log(u) + (x - (u - 1)) / u with u = 1 + x rounded: the second term is what the rounding lost. */
static inline float rt_log1p_f32(float x) {
    float u = 1.0f + x, e, rest, f = rt__reduce_log(u, &e, &rest), lost = (x - (u - 1.0f)) / u;
    float result = e * 0.693359375f + (f - (rest + e * 2.12194440e-4f - lost));
    result = fabsf(x) < 5.96046448e-8f ? x : result;
    return x > -1.0f && x < INFINITY ? result : x == -1.0f ? -INFINITY : x < -1.0f ? NAN : x;
}
static inline float rt_log_sigmoid_f32(float a) { return (a < 0 ? a : 0) - rt_log1p_f32(rt_exp_f32(-fabsf(a))); }

/* ---- the error function: x P(x^2) near 0, 1 - e^Q(|x|) beyond ---- */
static inline float rt_erf_f32(float x) {
    float size = fabsf(x), z = x * x;
    float near = x + x * ((((((8.362263465e-5f * z - 8.14146864e-4f) * z + 5.200988801e-3f) * z - 2.685941293e-2f) * z + 0.1128369648f) * z - 0.3761263386f) * z + 0.128379167f);
    float y = size > 4.0f ? 4.0f : size;
    float q = ((((((-2.157410679e-5f * y + 4.39947775e-4f) * y - 4.197323358e-3f) * y + 2.518757994e-2f) * y - 0.1083836687f) * y - 0.633254683f) * y - 1.129559495f) * y + 1.837061112e-4f;
    float far = copysignf(1.0f - rt__exp_near_0(q), x);
    return size < 0.92f ? near : size >= 0.92f ? far : x;
}

/* ---- sine and cosine, |x| <= RT_SIN_RANGE (beyond, pi/2 has too few bits: libm) ---- */
#define RT_SIN_RANGE 1e6f
/* The quadrant, and the rest reduced in double, where n times the first piece of pi/2 is exact. */
static inline float rt__reduce_sin(float x, int32_t *quadrant) {
    double n = ((double)x * 0.63661977236758134308 + 6755399441055744.0) - 6755399441055744.0;
    *quadrant = (int32_t)n;
    return (float)(((double)x - n * 1.57079632673412561417e+00) - n * 6.07710050650619224932e-11);
}
static inline float rt__sin_part(float r, float z) { /* 5e-12 */
    return r + r * z * (((2.717519243e-6f * z - 1.983925185e-4f) * z + 8.333329129e-3f) * z - 0.1666666664f);
}
static inline float rt__cos_part(float z) {
    return 1.0f - (0.5f * z - z * z * (((-2.720288708e-7f * z + 2.479943134e-5f) * z - 1.388888342e-3f) * z + 4.166666662e-2f));
}
static inline float rt_sin_f32(float x) {
    int32_t n;
    float r = rt__reduce_sin(x, &n), z = r * r, s = rt__sin_part(r, z), c = rt__cos_part(z), v = n & 1 ? c : s;
    return x == 0 ? x : n & 2 ? -v : v;
}
static inline float rt_cos_f32(float x) {
    int32_t n;
    float r = rt__reduce_sin(x, &n), z = r * r, s = rt__sin_part(r, z), c = rt__cos_part(z), v = n & 1 ? s : c;
    return ((uint32_t)n + 1) & 2 ? -v : v;
}

#endif
