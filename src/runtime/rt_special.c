/* rt_special.c: gamma and error function families.
 *
 * Series and continued fractions with positive terms, or recurrences into a region where an asymptotic series ends
 * below the last bit. No fitted coefficients: every number below has a meaning. */
#include "runtime/rt_special.h"

#include <math.h>
#include <stdint.h>

static const double pi = 3.14159265358979323846, epsilon = 0x1p-53;

/* Bernoulli numbers B2, B4, ... B16. */
static const double bernoulli[] = { 1.0 / 6,  -1.0 / 30,     1.0 / 42, -1.0 / 30,
                                    5.0 / 66, -691.0 / 2730, 7.0 / 6,  -3617.0 / 510 };
enum { BERNOULLI = sizeof bernoulli / sizeof *bernoulli };

/* ---- gamma family ---- */

double rt_lgamma_f64(double x) {
    int sign;
    return lgamma_r(x, &sign);
}

double rt_digamma_f64(double x) {
    if (x == 0) return copysign(INFINITY, -x);
    double result = 0;
    if (x < 0) { /* psi(1 - x) - psi(x) = pi / tan(pi x), with the whole part of x taken out before the tangent */
        double whole;
        double part = modf(x, &whole);
        if (part == 0) return NAN;
        result = -pi / tan(pi * part);
        x = 1 - x;
    }
    while (x < 12) result -= 1 / x, x += 1;
    double sum = 0, power = 1 / (x * x);
    for (int k = BERNOULLI; k-- > 0;) sum = (sum + bernoulli[k] / (2 * k + 2)) * power;
    return result + log(x) - 0.5 / x - sum;
}

/* sum over k of (q + k)^-s: directly while q + k < 10 + s, then by Euler and Maclaurin, whose terms fall by then. */
double rt_zeta_f64(double s, double q) {
    /* In PyTorch's order: at a pole even NaN makes an infinity. */
    if (s == 1) return INFINITY;
    if (s < 1) return NAN;
    if (q <= 0) {
        if (q == floor(q)) return INFINITY;
        if (s != floor(s)) return NAN; /* a power of a negative number */
    }
    if (isnan(s) || isnan(q) || isinf(q)) return NAN;
    if (q < -64) { /* the terms down to 0 are those of another zeta function, up to a sign */
        double f = q - floor(q), sign = fmod(s, 2) == 0 ? 1 : -1;
        return rt_zeta_f64(s, f) + sign * (rt_zeta_f64(s, 1 - f) - rt_zeta_f64(s, 1 - q));
    }
    double sum = 0, far = 10 + s;
    /* Far from 0 the first terms already end below the last bit of the sum. */
    do {
        double term = pow(q, -s);
        sum += term;
        q += 1;
        if (q > 1 && !(fabs(term) > epsilon * fabs(sum) / 64)) return sum;
    } while (q < far);
    double tail = pow(q, -s), factor = s, power = tail / q;
    sum += tail * q / (s - 1) + tail / 2;
    double factorial = 2;
    for (int k = 0; k < BERNOULLI; k++) {
        double term = bernoulli[k] * factor * power / factorial;
        sum += term;
        if (fabs(term) < epsilon * fabs(sum)) break;
        factor *= (s + 2 * k + 1) * (s + 2 * k + 2);
        power /= q * q;
        factorial *= (2 * k + 3) * (2 * k + 4);
    }
    return sum;
}

/* `sine`: of pi x, rounded as the caller's type rounds it, which decides how tall the poles at negative integers
 * are. */
static double trigamma(double x, double sine) {
    double sign = 1, result = 0;
    if (x < 0.5) { /* psi1(x) + psi1(1 - x) = (pi / sin(pi x))^2 */
        double s = pi / sine;
        result = -s * s;
        sign = -1;
        x = 1 - x;
    }
    while (x < 12) result += 1 / (x * x), x += 1;
    double sum = 0, power = 1 / (x * x);
    for (int k = BERNOULLI; k-- > 0;) sum = (sum + bernoulli[k]) * power;
    return sign * (result + 1 / x + power / 2 + sum / x);
}

double rt_polygamma_f64(double n, double x) {
    if (n == 0) return rt_digamma_f64(x);
    if (n == 1) return trigamma(x, sin(pi * x));
    return (fmod(n, 2) == 0 ? -1 : 1) * exp(rt_lgamma_f64(n + 1)) * rt_zeta_f64(n + 1, x);
}

float rt_polygamma_f32(float n, float x) {
    return (float)(n == 1 ? trigamma((double)x, (double)sinf((float)pi * x)) : rt_polygamma_f64((double)n, (double)x));
}

/* log(x / a) - mu for mu = (x - a) / a: near 0 by its series, because the difference cancels. */
static double log_excess(double a, double x, double mu) {
    if (fabs(mu) >= 0.1) return fabs(mu) < 0.4 ? log1p(mu) - mu : log(x / a) - mu;
    double core = 0, term = -mu * mu;
    for (int k = 2; k < 40; k++) {
        core += term / k;
        if (fabs(term) < epsilon * fabs(core)) break;
        term *= -mu;
    }
    return core;
}

/* x^a e^-x / Gamma(a + 1). For large a by Stirling's series, with a log(x/a) - (x - a) taken together: each alone
 * would lose the digits of a. */
static double gamma_density(double a, double x) {
    if (a < 20) return exp(a * log(x) - x - rt_lgamma_f64(a + 1));
    double power = 1 / (a * a), sum = 0;
    for (int k = BERNOULLI; k-- > 0;) sum = sum * power + bernoulli[k] / ((2 * k + 1) * (2 * k + 2));
    return exp(a * log_excess(a, x, (x - a) / a) - sum / a) / sqrt(2 * pi * a);
}

/* P or Q for large a, where the series takes sqrt(a) terms: Temme's expansion, whose second term is the last that a
 * double sees from a = 10^6 on. */
static double gamma_uniform(double a, double x, int upper) {
    double mu = (x - a) / a, core = -log_excess(a, x, mu), eta = copysign(sqrt(2 * core), mu);
    double c = fabs(eta) < 0.01 ? -1.0 / 3 + eta * (1.0 / 12 - eta * (2.0 / 135 - eta / 864)) : 1 / mu - 1 / eta;
    double rest = exp(-a * core) / sqrt(2 * pi) / sqrt(a) * c, sign = upper ? 1 : -1;
    return erfc(sign * eta * sqrt(a / 2)) / 2 + sign * rest;
}

/* P by its series: x^a e^-x / Gamma(a+1) * (1 + x/(a+1) + x^2/((a+1)(a+2)) + ...). */
static double gamma_series(double a, double x) {
    double sum = 1, term = 1;
    for (int k = 1; k < 100000; k++) {
        term *= x / (a + k);
        sum += term;
        if (term < epsilon * sum) break;
    }
    return sum * gamma_density(a, x);
}

/* Q by Lentz's form of the continued fraction, for x > a + 1. */
static double gamma_fraction(double a, double x) {
    double b = x + 1 - a, c = 1e300, d = 1 / b, h = d;
    for (int k = 1; k < 100000; k++) {
        double an = -k * (k - a);
        b += 2;
        d = an * d + b;
        c = b + an / c;
        if (fabs(d) < 1e-300) d = 1e-300;
        if (fabs(c) < 1e-300) c = 1e-300;
        d = 1 / d;
        double delta = c * d;
        h *= delta;
        if (fabs(delta - 1) < epsilon) break;
    }
    return gamma_density(a, x) * a * h;
}

/* Q for small a and x, where 1 - P would cancel: 1 - x^a / Gamma(a+1) stays exact through expm1, the rest is a
 * series. */
static double gamma_small(double a, double x) {
    double sum = 0, term = 1;
    for (int k = 1; k < 1000; k++) {
        term *= -x / k;
        double step = term / (a + k);
        sum += step;
        if (fabs(step) < epsilon * fabs(sum)) break;
    }
    double logs = a * log(x) - rt_lgamma_f64(1 + a);
    return -expm1(logs) - exp(logs) * a * sum;
}

static double gamma_incomplete(double a, double x, int upper) {
    /* In PyTorch's order: an end that decides alone does so whatever the other argument is, NaN included. */
    if (x < 0 || a < 0) return NAN;
    if (a == 0) return x > 0 ? !upper : NAN;
    if (x == 0) return upper;
    if (isinf(a)) return isinf(x) ? NAN : upper;
    if (isinf(x)) return !upper;
    if (isnan(a) || isnan(x)) return NAN;
    if (a > 1e6) return gamma_uniform(a, x, upper);
    if (x <= 1 || x <= a) {
        if (upper && x <= 1 && a < 2) return gamma_small(a, x);
        double p = gamma_series(a, x);
        return upper ? 1 - p : p;
    }
    if (x < a + 1) {
        double p = gamma_series(a, x);
        return upper ? 1 - p : p;
    }
    double q = gamma_fraction(a, x);
    return upper ? q : 1 - q;
}
double rt_igamma_f64(double a, double x) { return gamma_incomplete(a, x, 0); }
double rt_igammac_f64(double a, double x) { return gamma_incomplete(a, x, 1); }

/* ---- error function family ---- */

double rt_erfcx_f64(double x) {
    if (x < 25) { /* e^(x^2) erfc(x), with the rounding error of x^2 put back */
        double square = x * x, rest = fma(x, x, -square);
        if (x < -26.7) return INFINITY;
        return exp(square) * erfc(x) * (1 + rest);
    }
    double t = 1 / (x * x), sum = 1; /* 1 - 1/2x^2 + 1*3/4x^4 - 1*3*5/8x^6 ... over x sqrt(pi) */
    for (int k = 6; k > 0; k--) sum = 1 - (k - 0.5) * t * sum;
    return sum / (x * sqrt(pi));
}

double rt_log_ndtr_f64(double x) {
    double t = x * 0.70710678118654752440;
    return x < -1 ? log(rt_erfcx_f64(-t) / 2) - t * t : log1p(-erfc(t) / 2);
}

/* z > 0 with erfc(z) = y, for 0 < y < 1/2: Newton on the logarithm, whose derivative is -2 / (sqrt(pi) erfcx(z)). */
static double erfc_inverse(double y) {
    double l = log(y), z = sqrt(fmax(-l - 0.5 * log(fmax(-l, 1)) - 0.5, 0.1));
    for (int i = 0; i < 20; i++) {
        double scaled = rt_erfcx_f64(z);
        double step = (log(scaled) - z * z - l) * scaled * sqrt(pi) / 2;
        z += step;
        if (fabs(step) < 1e-11 * z) break; /* the next step would be its square */
    }
    return z;
}

/* Halley's step on erf is cubic: three from a guess of two digits. */
static double erf_inverse_central(double y) {
    double l = log1p(-y * y), k = 2 / (pi * 0.147) + l / 2;
    double z = copysign(sqrt(sqrt(k * k - l / 0.147) - k), y);
    for (int i = 0; i < 3; i++) {
        double error = (erf(z) - y) * exp(z * z) * sqrt(pi) / 2;
        z -= error / (1 + z * error);
    }
    return z;
}

double rt_erfinv_f64(double y) {
    double size = fabs(y);
    if (!(size <= 1)) return NAN;
    if (size == 1) return copysign(INFINITY, y);
    if (y == 0) return y;
    if (size < 1e-8) return y * (sqrt(pi) / 2);
    return size <= 0.5 ? erf_inverse_central(y) : copysign(erfc_inverse(1 - size), y);
}

double rt_ndtri_f64(double y) {
    static const double root2 = 1.41421356237309504880;
    if (!(y >= 0 && y <= 1)) return NAN;
    if (y == 0) return -INFINITY;
    if (y == 1) return INFINITY;
    if (y == 0.5) return 0;
    if (y < 0.25) return -root2 * erfc_inverse(2 * y);
    if (y > 0.75) return root2 * erfc_inverse(2 * (1 - y));
    return root2 * erf_inverse_central(2 * y - 1);
}
