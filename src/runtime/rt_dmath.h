/* rt_dmath.h: functions of doubles that must become vector code: no calls, no branches.
 *
 * Powers are 2^(b log2 a), with about 15 binary digits more than a double has until the last addition, so that powers
 * that are doubles come out as these. A number is kept as the sum of one with 26 binary digits, whose products are
 * exact, and a rest. No header is needed: emitted row kernels have none. */
#ifndef CRESSET_RT_DMATH_H
#define CRESSET_RT_DMATH_H

typedef __UINT64_TYPE__ rt__u64;
static inline double rt__double_of(rt__u64 i) { union { rt__u64 i; double f; } x = { i }; return x.f; }
static inline rt__u64 rt__bits_of_f64(double f) { union { double f; rt__u64 i; } x = { f }; return x.i; }
static inline double rt__short_f64(double x) { return rt__double_of(rt__bits_of_f64(x) & 0xfffffffff8000000u); }
/* The nearest whole number, for |x| <= 2^51; the sum alone has it in its last bits. */
#define RT__WHOLE 6755399441055744.0
static inline double rt__whole_f64(double x) { return (x + RT__WHOLE) - RT__WHOLE; }
static inline double rt__power_of_2_f64(double n) {
    return rt__double_of(rt__bits_of_f64(n + (RT__WHOLE + 1023)) << 52); /* -1022 <= n <= 1023 */
}

/* *high + *low = log2 of a, which is normal and above 0. */
static inline void rt__log2_parts(double a, double *high, double *low) {
    const rt__u64 bits = rt__bits_of_f64(a);
    double m = rt__double_of((bits & 0xfffffffffffffu) | 0x3ff0000000000000u);
    double n = rt__double_of((bits >> 52) | 0x4330000000000000u) - (0x1p52 + 1023);
    /* m between sqrt(1/2) and sqrt(2), so that the logarithm of numbers near 1 keeps its digits */
    n = m > 1.4142135623730951 ? n + 1 : n;
    m = m > 1.4142135623730951 ? 0.5 * m : m;
    /* s = (m - 1) / (m + 1); log m = 2 (s + s^3 / 3 + ...) */
    double u = m - 1, v = 1 / (m + 1), s = u * v, sh = rt__short_f64(s);
    double dh = rt__short_f64(m + 1), dl = m - (dh - 1), sl = v * ((u - sh * dh) - sh * dl);
    double z = s * s, zh = sh * sh;
    /* 3 / 5 + 3 / 7 z + ... to 3e-18, the halves side by side */
    double z2 = z * z, z4 = z2 * z2;
    double q0 = (0x1.3333333333333p-1 + 0x1.b6db6db6db7b4p-2 * z) +
                (0x1.555555552fc41p-2 + 0x1.1745d19c1f28fp-2 * z) * z2;
    double q1 = (0x1.d89d60943a82dp-3 + 0x1.99a5341ab7aa7p-3 * z) +
                (0x1.679cb97760752p-3 + 0x1.682bdc1b45fa4p-3 * z) * z2;
    double q = q0 + q1 * z4;
    double r = z2 * q + sl * (sh + s), th = rt__short_f64(3 + zh + r), tl = r - ((th - 3) - zh);
    double ph = sh * th, pl = sl * th + tl * s, p = rt__short_f64(ph + pl), rest = pl - (p - ph);
    /* times 2 / (3 log 2) */
    double h = 0x1.ec709d8000000p-1 * p, l = 0x1.0e80ff5d27f05p-27 * p + rest * 0x1.ec709dc3a03fdp-1;
    *high = rt__short_f64((h + l) + n);
    *low = l - ((*high - n) - h);
}

static inline int rt__pow_near_f64(double a, double b) {
    return (__builtin_fabs(a) >= 0x1p-1022) & (__builtin_fabs(a) < __builtin_inf()) & (__builtin_fabs(b) <= 0x1p50);
}
/* a^b for those. */
static inline double rt_pow_f64(double a, double b) {
    double lh, ll, bh = rt__short_f64(b);
    rt__log2_parts(__builtin_fabs(a), &lh, &ll);
    double low = (b - bh) * lh + b * ll, high = bh * lh, y = high + low;
    int far = (y > 1100) | (y < -1100);
    high = far ? __builtin_copysign(1100, y) : high;
    low = far ? 0 : low;
    /* 2^y = 2^n e^x, x + after what is left of y times log 2 */
    double n = rt__whole_f64(high + low), part = high - n, t = rt__short_f64(part + low);
    double u = t * 0x1.62e42f8000000p-1, v = (low - (t - part)) * 0x1.62e42fefa39efp-1 + t * 0x1.be8e7bcd5e4f2p-27;
    double x = u + v, after = v - (x - u);
    /* (e^x - 1 - x) / x^2 to 2e-18 */
    double x2 = x * x, x4 = x2 * x2;
    double p0 = (0.5 + 0x1.5555555555557p-3 * x) + (0x1.5555555555556p-5 + 0x1.11111111100bep-7 * x) * x2;
    double p1 = (0x1.6c16c16c162c3p-10 + 0x1.a01a01abf85abp-13 * x) +
                (0x1.a01a01a6e1e2ap-16 + 0x1.71de01fdbf9cap-19 * x) * x2;
    double p2 = (0x1.27e4db46cddd1p-22 + 0x1.af4e554377204p-26 * x) + 0x1.1f7340dbc337ep-29 * x2;
    double p = p0 + (p1 + p2 * x4) * x4;
    double sum = 1 + x, e = sum + ((x - (sum - 1)) + (x2 * p + (after + after * x))), half = rt__whole_f64(0.5 * n);
    double size = e * rt__power_of_2_f64(half) * rt__power_of_2_f64(n - half);
    double turns = rt__whole_f64(b), pairs = rt__whole_f64(0.5 * b);
    double below = turns == b ? pairs == 0.5 * b ? size : -size : __builtin_nan("");
    return a < 0 ? below : size;
}

#endif
