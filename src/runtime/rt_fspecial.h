/* rt_fspecial.h: special functions of single floats as straight-line code, so that block loops over them become vector
 * code on any instruction set. What a function of doubles costs a call for (rt_special.c, rt_bessel.c, libm) is here a
 * few polynomials; where a difference would cancel, they are evaluated in double.
 *
 * Within 6 units of the last place (tests/unit/test_fspecial.c), except close to zeros that are not at 0, where the
 * absolute error is of that order. Coefficients are minimax fits of our own, relative errors in the comments. */
#ifndef CRESSET_RT_FSPECIAL_H
#define CRESSET_RT_FSPECIAL_H

#include "runtime/rt_fmath.h"

/* ---- error functions ---- */

/* e^(y^2) erfc(y), 0 <= y, to 6e-9 up to 10 and to 2e-5 beyond: all coefficients positive, nothing cancels. */
static inline float rt__erfcx(float y) {
    float z = y * y;
    float p = (3.279859136e-2f * z + 0.7316249304f) * z + 1.0f + y * (0.2292287061f * z + 1.238430276f);
    float even = (0.4063237014f * z + 2.402274706f) * z + 1.0f;
    return p / (even + y * ((5.813329086e-2f * z + 1.325407394f) * z + 2.366810021f));
}
/* e^(-k x^2) erfcx(y), k = 1 or 1/2. The square is the exact square of x's upper half and a small rest: rounded at once
 * it would cost digits. */
static inline float rt__erfc_tail(float x, float k, float y) {
    float high = rt__float_of((int32_t)((uint32_t)rt__bits_of(x) & 0xfffff000u));
    uint32_t n;
    float r = rt__reduce_exp_f32(-k * high * high, &n) + k * (high - x) * (high + x);
    return rt__scale_f32((rt__exp_rest_f32(r) + 1.0f) * rt__erfcx(y), (int32_t)n);
}
static inline float rt_erfc_f32(float x) {
    float size = fabsf(x), y = size > 10.1f ? 10.1f : size, tail = rt__erfc_tail(y, 1.0f, y);
    return x < 0 ? 2.0f - tail : tail;
}
/* log(erfc(-x / sqrt 2) / 2). */
static inline float rt_log_ndtr_f32(float x) {
    float low = x < -1 ? -x : 1.0f, part = (low < 1e4f ? low : 1e4f) * 0.707106781f;
    float below = rt__log_near_f32(0.5f * rt__erfcx(part)) - 0.5f * low * low;
    float size = fabsf(x), y = size > 14.3f ? 14.3f : size, tail = 0.5f * rt__erfc_tail(y, 0.5f, y * 0.707106781f);
    return x < -1 ? below : rt__log1p_near_f32(x < 0 ? tail - 1.0f : -tail);
}

/* erf^-1(y) / y as a function of w = -log(1 - y^2), to 1.9e-8 for w <= 16.7. */
static inline float rt__erfinv_near(float w) {
    float z = w * w, even = (6.469370171e-4f * z + 5.989498668e-2f) * z + 0.8862269422f;
    float odd = (2.378447136e-5f * z + 7.808132767e-3f) * z + 0.3076969724f;
    float below = (1.775647566e-4f * z + 3.219230918e-2f) * z + 1.0f;
    return (even + w * odd) / (below + w * ((1.250962118e-6f * z + 1.908168919e-3f) * z + 8.539998463e-2f));
}
/* And for 15.2 <= w <= 105, from s = sqrt(w), to 1.3e-8. */
static inline float rt__erfinv_far(float s) {
    float u = 1.0f / s;
    float p = ((-8.883495208f * u + 12.60558568f) * u - 8.461859469f) * u + 3.907816596f;
    return s * (((p * u - 1.126471276f) * u - 3.295481658e-2f) * u + 1.000442304f);
}
static inline float rt_erfinv_f32(float y) {
    float size = fabsf(y), inside = y * rt__erfinv_near(-rt__log_near_f32((1.0f - size) * (1.0f + size)));
    return size < 1 ? inside : size == 1 ? copysignf(INFINITY, y) : NAN;
}
/* sqrt(2) erf^-1(2p - 1), where 1 - (2p - 1)^2 = 4p (1 - p) keeps the digits of a small p. */
static inline float rt_ndtri_f32(float p) {
    float y = 2.0f * p - 1.0f, w = -rt_log_f32(4.0f * p * (1.0f - p)), far = rt__erfinv_far(sqrtf(w > 16 ? w : 16.0f));
    float inside = 1.41421356f * y * (w < 16 ? rt__erfinv_near(w) : far);
    return !(p >= 0 && p <= 1) ? NAN : p == 0 || p == 1 ? copysignf(INFINITY, y) : inside;
}

/* ---- modified Bessel functions of order 0 and 1: series in x^2/4 up to 8, then e^x / sqrt(x) times one in 1/x ---- */

/* I0 to 9e-9, 2 I1 / x to 2e-9. */
static inline float rt__i0_near(float z) {
    float p = ((1.498446144e-11f * z + 3.811264753e-10f) * z + 4.315870978e-8f) * z + 1.893791468e-6f;
    p = ((p * z + 6.963710755e-5f) * z + 1.735504232e-3f) * z + 2.777880485e-2f;
    return ((p * z + 0.2499991878f) * z + 1.000000224f) * z + 0.9999999911f;
}
static inline float rt__i1_near(float z) {
    float p = ((1.442023963e-12f * z + 4.593496635e-11f) * z + 5.301279017e-9f) * z + 2.718337931e-7f;
    p = ((p * z + 1.15959926e-5f) * z + 3.471470627e-4f) * z + 6.944585794e-3f;
    return ((p * z + 8.333320568e-2f) * z + 0.5000000417f) * z + 0.9999999979f;
}
/* sqrt(x) e^-x I(x) in u = 1/x, to 1e-8. */
static inline float rt__i0_far(float u) {
    float p = ((0.3884193821f * u - 1.400841128e-2f) * u + 3.380519275e-2f) * u + 2.789767846e-2f;
    return (p * u + 4.986961189e-2f) * u + 0.3989422768f;
}
static inline float rt__i1_far(float u) {
    float p = ((-0.4528892009f * u + 9.877678131e-3f) * u - 4.617918151e-2f) * u - 4.657448181e-2f;
    return (p * u - 0.1496054773f) * u + 0.3989422846f;
}
static inline float rt_i0e_f32(float x) {
    float size = fabsf(x), far = size > 8 ? size : 8.0f, near = size > 8 ? 8.0f : size, u = 1.0f / far;
    float below = rt__i0_near(0.25f * near * near) * rt__exp_near_0_f32(-near);
    return size > 8 ? rt__i0_far(u) * sqrtf(u) : below;
}
static inline float rt_i1e_f32(float x) {
    float size = fabsf(x), far = size > 8 ? size : 8.0f, near = size > 8 ? 8.0f : size, u = 1.0f / far;
    float below = 0.5f * near * rt__i1_near(0.25f * near * near) * rt__exp_near_0_f32(-near);
    float r = size > 8 ? rt__i1_far(u) * sqrtf(u) : below;
    return x < 0 ? -r : r;
}
/* e^x overflows before they do: e^(x - 4), whose argument is exact beyond 8. */
static inline float rt_i0_f32(float x) {
    float size = fabsf(x), far = size > 8 ? size : 8.0f, near = size > 8 ? 8.0f : size, u = 1.0f / far;
    float above = rt_exp_f32(far - 4.0f) * (54.5981500f * rt__i0_far(u) * sqrtf(u));
    return size > 8 ? above : rt__i0_near(0.25f * near * near);
}
static inline float rt_i1_f32(float x) {
    float size = fabsf(x), far = size > 8 ? size : 8.0f, near = size > 8 ? 8.0f : size, u = 1.0f / far;
    float above = rt_exp_f32(far - 4.0f) * (54.5981500f * rt__i1_far(u) * sqrtf(u));
    float below = 0.5f * near * rt__i1_near(0.25f * near * near);
    float r = size > 8 ? above : below;
    return x < 0 ? -r : r;
}

/* ---- gamma functions, in double ---- */

/* x = 2^e m, sqrt(1/2) <= m < sqrt(2), 0 < x < infinity. */
static inline double rt__split(float x, double *e) {
    int small = x < 0x1p-126f;
    uint32_t i = (uint32_t)rt__bits_of(small ? x * 0x1p23f : x);
    int32_t k = (int32_t)(i - 0x3f3504f3u) >> 23;
    *e = (double)(k - (small ? 23 : 0));
    return (double)rt__float_of((int32_t)(i - ((uint32_t)k << 23)));
}
/* log(x) to 2e-12, 0 < x < infinity, from f = (m - 1) / (m + 1): the series of atanh. */
static inline double rt__log_wide(float x) {
    double e, m = rt__split(x, &e), f = (m - 1) / (m + 1), z = f * f;
    double tail = (((((z * (1.0 / 13) + 1.0 / 11) * z + 1.0 / 9) * z + 1.0 / 7) * z + 1.0 / 5) * z + 1.0 / 3) * z;
    return e * 0.69314718055994530942 + 2 * (f + f * tail);
}
/* x less the nearest integer, |x| < 2^51. */
static inline double rt__from_integer(double x) { return x - ((x + 6755399441055744.0) - 6755399441055744.0); }
/* sin(pi f) / f and cos(pi f), |f| <= 1/2. */
static inline double rt__sin_pi(double z) {
    double p = ((4.474428761952974e-4 * z - 7.363984441559736e-3) * z + 8.21447952519046e-2) * z - 0.5992644353420977;
    return ((p * z + 2.550164036129836) * z - 5.167712779999723) * z + 3.14159265358979323846;
}
static inline double rt__cos_pi(double z) {
    double p = ((1.841139699460095e-3 * z - 2.577724392897664e-2) * z + 0.2353257235365952) * z - 1.335262357707433;
    return ((p * z + 4.058712110568166) * z - 4.934802200341206) * z + 1.0;
}

/* log Gamma(y), 0 < y: (y - 1) (y - 2) R(y) between 1/2 and 3, to 1e-10; one step below; Stirling's series above. */
static inline double rt__lgamma_right(float y) {
    double l = rt__log_wide(y), a = y < 0.5f ? (double)y + 1 : (double)y, u = (y < 3 ? a : 3.0) - 1.5;
    double p = ((4.0977710378169e-5 * u + 6.6307257591475e-3) * u + 9.2328708107143e-2) * u + 0.42074784719682;
    double q = ((2.1309674581222e-3 * u + 5.327821066661e-2) * u + 0.40617670556536) * u + 1.3108340975204;
    double ratio = ((p * u + 0.76583396658902) * u + 0.48312895051332) / ((q * u + 1.8872681117692) * u + 1);
    double below = (a - 1) * (a - 2) * ratio - (y < 0.5f ? l : 0.0);
    double v = 1 / (double)(y < 3 ? 3.0f : y), w = v * v;
    double series = ((4.8425341620227e-4 * w - 5.6207662925969e-4) * w + 7.9218190217767e-4) * w - 2.7777503470953e-3;
    double above = ((double)y - 0.5) * l - (double)y + 0.91893853320467274178 + (series * w + 8.3333333188171e-2) * v;
    return (y < 3 ? below : above) + 0.0; /* at 1 and 2 it is 0, not -0 */
}
/* 0 < x < infinity; rt_lgamma_f32 gives the same number there. */
static inline float rt__lgamma_near(float x) { return (float)rt__lgamma_right(x); }
/* Left of 0, Gamma(x) Gamma(-x) = -pi / (x sin(pi x)). */
static inline float rt_lgamma_f32(float x) {
    float size = fabsf(x);
    double f = rt__from_integer(size < 0x1p23f ? (double)size : 0.0);
    double sine = fabs(f) * rt__sin_pi(f * f) * 0x1p64; /* no subnormal float; what rounding loses is put back */
    float rounded = sine > 0 ? (float)sine : 1.0f;
    double l = rt__log_wide(rounded) + (sine - (double)rounded) / (double)rounded, right = rt__lgamma_right(size);
    double left = 45.5061494416859 - rt__log_wide(size) - l - right; /* log(2^64 pi) */
    left = sine > 0 ? left : (double)INFINITY;
    return x == 0 || size == INFINITY ? INFINITY : (float)(x < 0 ? left : right);
}
/* log(y) - 1/2y - ..., y = x + 6 where x < 6, less 1/x + ... + 1/(x + 5), which is the logarithmic derivative of their
 * product. Left of 0: psi(1 - x) - pi / tan(pi x). */
static inline float rt_digamma_f32(float x) {
    double d = x < 0 ? 1 - (double)x : (double)x, p = d, q = 1;
    for (int k = 1; k < 6; k++) q = q * (d + k) + p, p = p * (d + k);
    double steps = d < 6 ? q / p : 0.0, y = d < 6 ? d + 6 : d, v = 1 / y, w = v * v;
    float rounded = (float)y;
    double l = rt__log_wide(rounded);
    l = rounded < INFINITY ? l + (rounded < 1e7f ? (y - (double)rounded) * v : 0.0) : y;
    double series = ((-3.710609944629e-3 * w + 3.9580389268278e-3) * w - 8.3332414319798e-3) * w + 8.3333333074614e-2;
    double right = l - 0.5 * v - w * series - steps;
    double f = rt__from_integer(fabsf(x) < 0x1p23f ? (double)x : 0.0), z = f * f;
    double left = f == 0 ? (double)NAN : right - 3.14159265358979323846 * rt__cos_pi(z) / (f * rt__sin_pi(z));
    return x == 0 ? copysignf(INFINITY, -x) : (float)(x < 0 ? left : right);
}

#endif
