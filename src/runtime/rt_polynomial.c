/* rt_polynomial.c: orthogonal polynomials of degree n (cut to an integer; negative: 0).
 *
 * Recurrences in double; Chebyshev polynomials of a high degree by their trigonometric forms. A block usually has one
 * degree, and a low one: then all of its elements take a step of the recurrence together, in loops that become vector
 * code and give the bits of one element after the other. */
#include "runtime/rt_special.h"

#include <math.h>
#include <stdint.h>

/* of a recurrence that has no closed form: beyond, the answer is NaN and not hours away */
enum { MOST_STEPS = 1 << 20 };

static int64_t order_of(double degree) { return degree > -1 && degree < 9223372036854775808.0 ? (int64_t)degree : -1; }

/* p0 = 1, p1 given, p(k+1) = 2x p(k) - p(k-1): Chebyshev polynomials of all four kinds differ in p1 only. */
static double chebyshev(double x, int64_t n, double p1) {
    if (n == 0) return 1;
    double before = 1, p = p1;
    for (int64_t k = 1; k < n && !isnan(p); k++) {
        double next = 2 * x * p - before;
        before = p, p = next;
    }
    return p;
}
static double sign_power(double x, int64_t n) { return x > 0 || n % 2 == 0 ? 1 : -1; }

/* Outside of [-1, 1] and of a high degree: hyperbolic functions of t = acosh |x|. What exceeds the range is NaN, as it
 * is after all the steps. */
static int is_high(double x, int64_t n) { return n > 4096 && fabs(x) > 1; }
static double in_range(double value) { return isinf(value) ? NAN : value; }

double rt_chebyshev_t_f64(double x, double degree) {
    int64_t n = order_of(degree);
    if (n < 0) return 0;
    if (fabs(x) == 1) return sign_power(x, n);
    if (is_high(x, n)) return in_range(sign_power(x, n) * cosh((double)n * acosh(fabs(x))));
    return n > 6 && fabs(x) < 1 ? cos((double)n * acos(x)) : chebyshev(x, n, x);
}
double rt_chebyshev_u_f64(double x, double degree) {
    int64_t n = order_of(degree);
    double next = (double)n + 1;
    if (n < 0) return 0;
    if (fabs(x) == 1) return sign_power(x, n) * next;
    if (is_high(x, n)) return in_range(sign_power(x, n) * sinh(next * acosh(fabs(x))) / sinh(acosh(fabs(x))));
    if (n <= 8 || fabs(x) >= 1) return chebyshev(x, n, 2 * x);
    double t = acos(x);
    return sin(t) != 0 ? sin(next * t) / sin(t) : next * cos(next * t) / x;
}

/* V of x and W of -x are the same up to a sign. */
static double high_v(double t, int64_t n) { return cosh(((double)n + 0.5) * t) / cosh(t / 2); }
static double high_w(double t, int64_t n) { return sinh(((double)n + 0.5) * t) / sinh(t / 2); }

double rt_chebyshev_v_f64(double x, double degree) {
    int64_t n = order_of(degree);
    double ends = 2 * (double)n + 1;
    if (n < 0) return 0;
    if (fabs(x) == 1) return x > 0 ? 1 : sign_power(x, n) * ends;
    if (is_high(x, n)) return in_range(sign_power(x, n) * (x > 0 ? high_v : high_w)(acosh(fabs(x)), n));
    if (n <= 8 || fabs(x) >= 1) return chebyshev(x, n, 2 * x - 1);
    double t = acos(x);
    return sin(t / 2) != 1 ? cos(((double)n + 0.5) * t) / cos(t / 2) : n % 2 == 0 ? ends : -ends;
}
double rt_chebyshev_w_f64(double x, double degree) {
    int64_t n = order_of(degree);
    double ends = 2 * (double)n + 1;
    if (n < 0) return 0;
    if (fabs(x) == 1) return x > 0 ? ends : sign_power(x, n);
    if (is_high(x, n)) return in_range(sign_power(x, n) * (x > 0 ? high_w : high_v)(acosh(fabs(x)), n));
    if (n <= 8 || fabs(x) >= 1) return chebyshev(x, n, 2 * x + 1);
    double t = acos(x);
    return cos(t / 2) != 1 ? sin(((double)n + 0.5) * t) / sin(t / 2) : x > 0 ? ends : sign_power(x, n);
}
double rt_hermite_h_f64(double x, double degree) { /* leaves the range of numbers soon */
    int64_t n = order_of(degree);
    if (n < 0) return 0;
    double before = 0, p = 1;
    for (int64_t k = 0; k < n && !isnan(p); k++) {
        double next = 2 * x * p - 2 * (double)k * before;
        before = p, p = next;
    }
    return p;
}
double rt_hermite_he_f64(double x, double degree) {
    int64_t n = order_of(degree);
    if (n < 0) return 0;
    double before = 0, p = 1;
    for (int64_t k = 0; k < n && !isnan(p); k++) {
        double next = x * p - (double)k * before;
        before = p, p = next;
    }
    return p;
}
double rt_laguerre_l_f64(double x, double degree) {
    int64_t n = order_of(degree);
    if (n < 0) return 0;
    if (x == 0) return 1;
    if (n > MOST_STEPS) return NAN;
    double before = 0, p = 1;
    for (int64_t k = 0; k < n && !isnan(p); k++) {
        double next = (((double)(2 * k + 1) - x) * p - (double)k * before) / (double)(k + 1);
        before = p, p = next;
    }
    return p;
}
double rt_legendre_p_f64(double x, double degree) {
    int64_t n = order_of(degree);
    if (n < 0) return 0;
    if (fabs(x) == 1) return sign_power(x, n);
    if (n > MOST_STEPS) return NAN;
    double before = 0, p = 1;
    for (int64_t k = 0; k < n && !isnan(p); k++) {
        double next = ((double)(2 * k + 1) * x * p - (double)k * before) / (double)(k + 1);
        before = p, p = next;
    }
    return p;
}

/* ---- blocks ---- */

enum { CHUNK = 64, LOW = 64 };

/* The degree of all, if it is one and between 0 and `most`; -1. */
#define ORDER(K, T)                                                                                                    \
    static int64_t order_##K(int64_t n, const T *degree, int64_t most) {                                               \
        int64_t order = n ? order_of((double)degree[0]) : -1;                                                          \
        for (int64_t i = 1; i < n; i++)                                                                                \
            if (degree[i] != degree[0]) return -1;                                                                     \
        return order <= most ? order : -1;                                                                             \
    }
ORDER(f32, float)
ORDER(f64, double)

/* p(k+1) from x, p = p(k), q = p(k-1), k; p(0) = 1, p(-1) = 0. */
#define CHEBYSHEV(first) (k ? 2 * x * p - q : (first))
#define BLOCKS(X)                                                                                                      \
    X(chebyshev_t, 6, CHEBYSHEV(x)) X(chebyshev_u, 8, CHEBYSHEV(2 * x)) X(chebyshev_v, 8, CHEBYSHEV(2 * x - 1))        \
    X(chebyshev_w, 8, CHEBYSHEV(2 * x + 1)) X(hermite_h, LOW, 2 * x * p - 2 * (double)k * q)                           \
    X(hermite_he, LOW, x * p - (double)k * q)                                                                          \
    X(laguerre_l, LOW, (((double)(2 * k + 1) - x) * p - (double)k * q) / (double)(k + 1))                              \
    X(legendre_p, LOW, ((double)(2 * k + 1) * x * p - (double)k * q) / (double)(k + 1))
#define BLOCK(name, most, next, K, T)                                                                                  \
    void rt_##name##_block_##K(int64_t n, T *out, const T *xs, const T *degree) {                                      \
        int64_t order = order_##K(n, degree, most);                                                                    \
        if (order < 0) {                                                                                               \
            for (int64_t i = 0; i < n; i++) out[i] = (T)rt_##name##_f64((double)xs[i], (double)degree[i]);             \
            return;                                                                                                    \
        }                                                                                                              \
        for (int64_t at = 0; at < n; at += CHUNK) {                                                                    \
            double at_x[CHUNK], now[CHUNK], before[CHUNK];                                                             \
            int64_t count = n - at < CHUNK ? n - at : CHUNK;                                                           \
            for (int64_t i = 0; i < count; i++) at_x[i] = (double)xs[at + i], now[i] = 1, before[i] = 0;               \
            for (int64_t k = 0; k < order; k++)                                                                        \
                for (int64_t i = 0; i < count; i++) {                                                                  \
                    const double x = at_x[i], p = now[i], q = before[i];                                               \
                    (void)q;                                                                                           \
                    before[i] = p, now[i] = (next);                                                                    \
                }                                                                                                      \
            for (int64_t i = 0; i < count; i++) out[at + i] = (T)now[i];                                               \
        }                                                                                                              \
    }
#define X(name, most, next) BLOCK(name, most, next, f32, float) BLOCK(name, most, next, f64, double)
BLOCKS(X)
#undef X
