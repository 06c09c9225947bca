/* rt_math.h: what one operation does to one element. The only place where pointwise numbers are made: the block
 * evaluator and emitted loops use the same bodies, so both give the same bits. Functions of libm are named here only;
 * where a float version is straight-line code (rt_fmath.h), loops use that. Results follow PyTorch on NaN, infinities,
 * signed zeros, integer wrap-around and the signs of divisions.
 *
 * Bodies that loops should vectorise are written as selects without branches or calls. */
#ifndef CRESSET_RT_MATH_H
#define CRESSET_RT_MATH_H

#include "runtime/rt.h"
#include "runtime/rt_dmath.h"
#include "runtime/rt_fspecial.h"

#include <complex.h>
#include <math.h>
#include <stdint.h>

#undef complex /* a name of ours */
#undef I

typedef struct rt_c64 { float re, im; } rt_c64;
typedef struct rt_c128 { double re, im; } rt_c128;

/* ---- integers: arithmetic wraps ---- */
static inline int64_t rt_add_i64(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }
static inline int64_t rt_sub_i64(int64_t a, int64_t b) { return (int64_t)((uint64_t)a - (uint64_t)b); }
static inline int64_t rt_mul_i64(int64_t a, int64_t b) { return (int64_t)((uint64_t)a * (uint64_t)b); }
static inline uint64_t rt_add_u64(uint64_t a, uint64_t b) { return a + b; }
static inline uint64_t rt_sub_u64(uint64_t a, uint64_t b) { return a - b; }
static inline uint64_t rt_mul_u64(uint64_t a, uint64_t b) { return a * b; }
static inline int64_t rt_neg_i64(int64_t a) { return (int64_t)(0 - (uint64_t)a); }
static inline int64_t rt_abs_i64(int64_t a) { return a < 0 ? rt_neg_i64(a) : a; }

/* Divisions by zero are refused before these run; -1 is special because INT64_MIN / -1 traps. */
static inline int64_t rt_truncdiv_i64(int64_t a, int64_t b) { return b == -1 ? rt_neg_i64(a) : a / b; }
static inline int64_t rt_fmod_i64(int64_t a, int64_t b) { return b == -1 ? 0 : a % b; }
static inline int64_t rt_floordiv_i64(int64_t a, int64_t b) {
    if (b == -1) return rt_neg_i64(a);
    int64_t q = a / b;
    return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}
static inline int64_t rt_remainder_i64(int64_t a, int64_t b) {
    if (b == -1) return 0;
    int64_t r = a % b;
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
static inline uint64_t rt_pow_u64(uint64_t a, uint64_t n) {
    uint64_t r = 1;
    for (; n; n >>= 1, a *= a)
        if (n & 1) r *= a;
    return r;
}
/* A negative power of an integer is 0, but for 1 and -1. */
static inline int64_t rt_pow_i64(int64_t a, int64_t n) {
    if (n >= 0) return (int64_t)rt_pow_u64((uint64_t)a, (uint64_t)n);
    return a == 1 ? 1 : a == -1 ? (n & 1 ? -1 : 1) : 0;
}
/* A count outside [0, bits) shifts everything out. Narrower types need no width here: their values are extended to 64
 * bits at load and cut at store, so shifting out of 64 bits and out of theirs gives the same. */
static inline uint64_t rt_shl_u64(uint64_t a, uint64_t n) { return n < 64 ? a << (n & 63) : 0; }
static inline uint64_t rt_shr_u64(uint64_t a, uint64_t n) { return n < 64 ? a >> (n & 63) : 0; }
static inline int64_t rt_shl_i64(int64_t a, int64_t n) { return (int64_t)rt_shl_u64((uint64_t)a, (uint64_t)n); }
static inline int64_t rt_shr_i64(int64_t a, int64_t n) { return a >> ((uint64_t)n < 64 ? n : 63); }
static inline uint64_t rt_gcd_u64(uint64_t a, uint64_t b) {
    while (b) {
        uint64_t r = a % b;
        a = b, b = r;
    }
    return a;
}
static inline int64_t rt_gcd_i64(int64_t a, int64_t b) {
    return (int64_t)rt_gcd_u64((uint64_t)rt_abs_i64(a), (uint64_t)rt_abs_i64(b));
}
static inline uint64_t rt_lcm_u64(uint64_t a, uint64_t b) { uint64_t g = rt_gcd_u64(a, b); return g ? a / g * b : 0; }
static inline int64_t rt_lcm_i64(int64_t a, int64_t b) {
    int64_t g = rt_gcd_i64(a, b);
    return g ? rt_abs_i64(rt_mul_i64(rt_truncdiv_i64(a, g), b)) : 0;
}

/* ---- reals: one text for both widths ---- */
static inline float rt_sign_f32(float a) { return (float)(a > 0) - (float)(a < 0); }
static inline double rt_sign_f64(double a) { return (double)(a > 0) - (double)(a < 0); }

#define RT_REAL_MATH(K, T, F)                                                                                          \
    /* Python's //: the quotient from an exact remainder, then snapped to the integer it means. */                     \
    static inline T rt__floordiv_of_##K(T a, T b, T r) { /* r = fmod(a, b) */                                          \
        T q = (a - r) / b;                                                                                             \
        q = r != 0 && (b < 0) != (r < 0) ? q - 1 : q;                                                                  \
        T down = floor##F(q), near = q - down > (T)0.5 ? down + 1 : down;                                              \
        return b == 0 ? a / b : q == 0 ? copysign##F(0, a / b) : near;                                                 \
    }                                                                                                                  \
    static inline T rt__remainder_of_##K(T b, T r) { return r != 0 && (b < 0) != (r < 0) ? r + b : r; }                \
    static inline T rt_floordiv_##K(T a, T b) { return rt__floordiv_of_##K(a, b, fmod##F(a, b)); }                     \
    static inline T rt_remainder_##K(T a, T b) { return rt__remainder_of_##K(b, fmod##F(a, b)); }                      \
    static inline T rt_angle_##K(T a) { return isnan(a) ? a : a < 0 ? (T)3.14159265358979323846 : 0; }
RT_REAL_MATH(f32, float, f)
RT_REAL_MATH(f64, double, )
static inline double rt_logaddexp_f64(double a, double b) {
    return isinf(a) && a == b ? a : (a < b ? b : a) + log1p(exp(-fabs(a - b)));
}
static inline double rt_logaddexp2_f64(double a, double b) {
    return isinf(a) && a == b ? a : (a < b ? b : a) + log1p(exp2(-fabs(a - b))) * 1.4426950408889634074;
}
static inline double rt_xlogy_f64(double a, double b) { return isnan(b) ? b : a == 0 ? 0 : a * log(b); }
static inline double rt_xlog1py_f64(double a, double b) { return isnan(b) ? b : a == 0 ? 0 : a * log1p(b); }
static inline double rt_entr_f64(double a) { return isnan(a) ? a : a > 0 ? -a * log(a) : a == 0 ? 0 : -INFINITY; }
static inline double rt_mantissa_f64(double a) { int e; return frexp(a, &e); }
static inline double rt_exponent_f64(double a) { int e; frexp(a, &e); return isfinite(a) ? e : 0; }
#undef RT_REAL_MATH

static inline double rt_sigmoid_f64(double a) { return 1 / (1 + exp(-a)); }
static inline double rt_gelu_f64(double a) { return a * 0.5 * (1 + erf(a * 0.7071067811865476)); }
static inline double rt_gelu_slope_f64(double a) {
    return 0.5 * (1 + erf(a * 0.7071067811865476)) + a * (0.3989422804014327 * exp(a * a * -0.5));
}
static inline double rt_log_sigmoid_f64(double a) { return (a < 0 ? a : 0) - log1p(exp(-fabs(a))); }

/* sin(pi x) / (pi x) with the rounded product in both places: whole numbers give tiny values, not 0, as in PyTorch. */
static inline float rt_sinc_f32(float a) {
    float x = a * (float)3.14159265358979323846;
    return a == 0 ? 1 : sinf(x) / x;
}
static inline double rt_sinc_f64(double a) { double x = a * 3.14159265358979323846; return a == 0 ? 1 : sin(x) / x; }

/* The next bfloat16: bit patterns of one sign are ordered like integers, and a step weighs 1 << 16 in the float. */
static inline float rt_nextafter_bf16(float a, float b) {
    union { float f; int32_t i; } x = { a };
    if (isnan(a) || isnan(b)) return NAN;
    if (a == b) return b;
    if (a == 0) {
        x.i = 0x00010000;
        return copysignf(x.f, b);
    }
    x.i += (a < b) == (a > 0) ? 0x10000 : -0x10000;
    return x.f;
}

static inline float rt_nextafter_f16(float a, float b) {
    if (isnan(a) || isnan(b)) return NAN;
    if (a == b) return b;
    if (a == 0) return copysignf(0x1p-24f, b);
    return rt_f16_to_f32((uint16_t)(rt_f32_to_f16(a) + ((a < b) == (a > 0) ? 1 : -1)));
}

/* ---- complex numbers: the plain formulas, not C's, which repair infinities at the price of a branch ---- */
#define RT_COMPLEX_MATH(K, T, R, F)                                                                              \
    static inline T rt_make_##K(R re, R im) { return (T){ re, im }; }                                            \
    static inline R _Complex rt_to_##K(T a) {                                                                    \
        union {                                                                                                  \
            R part[2];                                                                                           \
            R _Complex z;                                                                                        \
        } x = { { a.re, a.im } };                                                                                \
        return x.z;                                                                                              \
    }                                                                                                            \
    static inline T rt_of_##K(R _Complex z) { return (T){ creal##F(z), cimag##F(z) }; }                          \
    static inline T rt_add_##K(T a, T b) { return (T){ a.re + b.re, a.im + b.im }; }                             \
    static inline T rt_sub_##K(T a, T b) { return (T){ a.re - b.re, a.im - b.im }; }                             \
    static inline T rt_mul_##K(T a, T b) { return (T){ a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re }; } \
    static inline T rt_scale_##K(T a, R s) { return (T){ a.re * s, a.im * s }; }                                 \
    /* Smith's division: the larger part of the divisor is scaled out. */                                        \
    static inline T rt_div_##K(T a, T b) {                                                                       \
        if (fabs##F(b.re) >= fabs##F(b.im)) {                                                                    \
            if (b.re == 0 && b.im == 0) return (T){ a.re / fabs##F(b.re), a.im / fabs##F(b.im) };                \
            R ratio = b.im / b.re, scale = 1 / (b.re + b.im * ratio);                                            \
            return (T){ (a.re + a.im * ratio) * scale, (a.im - a.re * ratio) * scale };                          \
        }                                                                                                        \
        R ratio = b.re / b.im, scale = 1 / (b.re * ratio + b.im);                                                \
        return (T){ (a.re * ratio + a.im) * scale, (a.im * ratio - a.re) * scale };                              \
    }                                                                                                            \
    static inline T rt_exp_##K(T a) { return rt_of_##K(cexp##F(rt_to_##K(a))); }                                 \
    static inline T rt_log_##K(T a) { return rt_of_##K(clog##F(rt_to_##K(a))); }                                 \
    static inline T rt_pow_##K(T a, T b) { return rt_of_##K(cpow##F(rt_to_##K(a), rt_to_##K(b))); }              \
    static inline T rt_sqrt_##K(T a) { return rt_of_##K(csqrt##F(rt_to_##K(a))); }                               \
    static inline T rt_sin_##K(T a) { return rt_of_##K(csin##F(rt_to_##K(a))); }                                 \
    static inline T rt_cos_##K(T a) { return rt_of_##K(ccos##F(rt_to_##K(a))); }                                 \
    static inline T rt_tan_##K(T a) { return rt_of_##K(ctan##F(rt_to_##K(a))); }                                 \
    static inline T rt_asin_##K(T a) { return rt_of_##K(casin##F(rt_to_##K(a))); }                               \
    static inline T rt_acos_##K(T a) { return rt_of_##K(cacos##F(rt_to_##K(a))); }                               \
    static inline T rt_atan_##K(T a) { return rt_of_##K(catan##F(rt_to_##K(a))); }                               \
    static inline T rt_sinh_##K(T a) { return rt_of_##K(csinh##F(rt_to_##K(a))); }                               \
    static inline T rt_cosh_##K(T a) { return rt_of_##K(ccosh##F(rt_to_##K(a))); }                               \
    static inline T rt_tanh_##K(T a) { return rt_of_##K(ctanh##F(rt_to_##K(a))); }                               \
    static inline T rt_asinh_##K(T a) { return rt_of_##K(casinh##F(rt_to_##K(a))); }                             \
    static inline T rt_acosh_##K(T a) { return rt_of_##K(cacosh##F(rt_to_##K(a))); }                             \
    static inline T rt_atanh_##K(T a) { return rt_of_##K(catanh##F(rt_to_##K(a))); }                             \
    static inline T rt_exp2_##K(T a) { return rt_exp_##K(rt_scale_##K(a, (R)0.69314718055994530942)); }          \
    static inline T rt_log2_##K(T a) {                                                                           \
        T l = rt_log_##K(a);                                                                                     \
        return (T){ l.re / (R)0.69314718055994530942, l.im / (R)0.69314718055994530942 };                        \
    }                                                                                                            \
    static inline T rt_log10_##K(T a) {                                                                          \
        T l = rt_log_##K(a);                                                                                     \
        return (T){ l.re / (R)2.30258509299404568402, l.im / (R)2.30258509299404568402 };                        \
    }                                                                                                            \
    static inline T rt_sigmoid_##K(T a) {                                                                        \
        T e = rt_exp_##K((T){ -a.re, -a.im });                                                                   \
        return rt_div_##K((T){ 1, 0 }, (T){ 1 + e.re, e.im });                                                   \
    }                                                                                                            \
    static inline T rt_expm1_##K(T a) {                                                                          \
        R half = sin##F(a.im / 2), e = exp##F(a.re);                                                             \
        return (T){ expm1##F(a.re) * cos##F(a.im) - 2 * half * half, e * sin##F(a.im) };                         \
    }                                                                                                            \
    /* log|1+z| from |1+z|^2 - 1 = x(2+x) + y^2, which does not cancel near 0. */                                \
    static inline T rt_log1p_##K(T a) {                                                                          \
        R im = atan2##F(a.im, 1 + a.re), m = a.re * (2 + a.re) + a.im * a.im;                                    \
        if (fabs##F(a.re) < (R)0.5 && fabs##F(a.im) < (R)0.5) return (T){ log1p##F(m) / 2, im };                 \
        return (T){ log##F(hypot##F(1 + a.re, a.im)), im };                                                      \
    }                                                                                                            \
    static inline T rt_sgn_##K(T a) {                                                                            \
        R size = hypot##F(a.re, a.im);                                                                           \
        return size == 0 ? (T){ 0, 0 } : (T){ a.re / size, a.im / size };                                        \
    }                                                                                                            \
    static inline T rt_sinc_##K(T a) {                                                                           \
        T x = rt_scale_##K(a, (R)3.14159265358979323846);                                                        \
        return a.re == 0 && a.im == 0 ? (T){ 1, 0 } : rt_div_##K(rt_sin_##K(x), x);                              \
    }                                                                                                            \
    /* The operand with the larger real part leads. */                                                           \
    static inline T rt_logaddexp_##K(T a, T b) {                                                                 \
        T high = a.re < b.re ? b : a, low = a.re < b.re ? a : b;                                                 \
        if (isnan(a.re) || isnan(a.im) || isnan(b.re) || isnan(b.im)) return (T){ (R)NAN, (R)NAN };              \
        if (isinf(high.re) && high.re == low.re)                                                                 \
            return high.re < 0 ? high : rt_log_##K(rt_add_##K(rt_exp_##K(high), rt_exp_##K(low)));               \
        return rt_add_##K(high, rt_log1p_##K(rt_exp_##K(rt_sub_##K(low, high))));                                \
    }                                                                                                            \
    static inline T rt_xlogy_##K(T a, T b) {                                                                     \
        if (isnan(b.re) || isnan(b.im)) return (T){ (R)NAN, (R)NAN };                                            \
        if (a.re == 0 && a.im == 0) return (T){ 0, 0 };                                                          \
        return rt_mul_##K(a, rt_log_##K(b));                                                                     \
    }
RT_COMPLEX_MATH(c64, rt_c64, float, f)
RT_COMPLEX_MATH(c128, rt_c128, double, )
#undef RT_COMPLEX_MATH

#endif
