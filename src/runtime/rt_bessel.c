/* rt_bessel.c: Bessel functions and Airy's Ai.
 *
 * Modified functions: power series of positive terms where the argument is small, the asymptotic series where its terms
 * fall below the last bit before they grow, Steed's continued fraction for K between. J and Y of order 0 and 1 are
 * libm's. Ai(x) = sqrt(x/3)/pi K_1/3(2/3 x^(3/2)) for positive x; for negative x Taylor steps of y'' = x y. */
#include "runtime/rt_special.h"

#include <math.h>

static const double pi = 3.14159265358979323846, epsilon = 0x1p-53;

/* ---- I ---- */

/* e^-x I_v(x), v = 0 or 1, x >= 0. */
static double i_scaled(double x, int order) {
    if (x < 20) {
        double quarter = x * x / 4, term = 1, sum = 1;
        for (int k = 1; term > epsilon * sum; k++) {
            term *= quarter / ((double)k * (k + order));
            sum += term;
        }
        return (order ? x / 2 * sum : sum) * exp(-x);
    }
    double term = 1, sum = 1;
    for (int k = 1; k < 60 && fabs(term) > epsilon; k++) {
        double odd = 2 * k - 1;
        term *= -(4.0 * order - odd * odd) / (8 * x * k);
        sum += term;
    }
    return sum / (sqrt(2 * pi) * sqrt(x)); /* the product under one root would overflow */
}
double rt_i0e_f64(double x) { return isinf(x) ? 0 : i_scaled(fabs(x), 0); }
double rt_i1e_f64(double x) {
    return isinf(x) ? copysign(0, x) : x < 0 ? -i_scaled(-x, 1) : x == 0 ? 0 : i_scaled(x, 1);
}
/* The exponential in two halves: it overflows later than its product with the rest. */
double rt_i0_f64(double x) { double e = exp(fabs(x) / 2); return i_scaled(fabs(x), 0) * e * e; }
double rt_i1_f64(double x) { double e = exp(fabs(x) / 2); return (x < 0 ? -1 : 1) * i_scaled(fabs(x), 1) * e * e; }

/* ---- K ---- */

/* e^x K_v(x) for x >= 1 by Temme's continued fraction: *k1 gets order v + 1. */
static double k_fraction(double x, double v, double *k1) {
    double a1 = 0.25 - v * v, a = -a1, b = 2 * (1 + x), d = 1 / b, delta = d, h = d;
    double q1 = 0, q2 = 1, q = a1, c = a1, s = 1 + q * delta;
    for (int i = 2; i < 10000; i++) {
        a -= 2 * (i - 1);
        c *= -a / i;
        double next = (q1 - b * q2) / a;
        q1 = q2, q2 = next;
        q += c * next;
        b += 2;
        d = 1 / (b + a * d);
        delta *= b * d - 1;
        h += delta;
        double step = q * delta;
        s += step;
        if (fabs(step) < epsilon * fabs(s)) break;
    }
    double k = sqrt(pi / (2 * x)) / s;
    *k1 = k * (v + x + 0.5 - a1 * h) / x;
    return k;
}

static const double euler = 0.57721566490153286061;

/* K0(x) = -(log(x/2) + gamma) I0(x) + sum (x^2/4)^k / k!^2 H_k, for x < 1. */
static double k0_series(double x) {
    double quarter = x * x / 4, term = 1, harmonic = 0, i0 = 1, sum = 0;
    for (int k = 1; k < 40; k++) {
        term *= quarter / ((double)k * k);
        harmonic += 1.0 / k;
        i0 += term;
        sum += term * harmonic;
        if (term < epsilon / 64) break;
    }
    return -(log(x / 2) + euler) * i0 + sum;
}
/* K1(x) = 1/x + log(x/2) I1(x) - x/4 sum (psi(k+1) + psi(k+2)) (x^2/4)^k / (k! (k+1)!). */
static double k1_series(double x) {
    double quarter = x * x / 4, term = 1, psi = -2 * euler + 1, i1 = 1, sum = psi;
    for (int k = 1; k < 40; k++) {
        term *= quarter / ((double)k * (k + 1));
        psi += 1.0 / k + 1.0 / (k + 1);
        i1 += term;
        sum += term * psi;
        if (term < epsilon / 64) break;
    }
    return 1 / x + x / 2 * (log(x / 2) * i1 - sum / 2);
}
static double k_any(double x, int order, int scaled) {
    if (isnan(x) || x < 0) return NAN;
    if (x == 0) return INFINITY;
    if (isinf(x)) return 0;
    if (x < 1) return (order ? k1_series(x) : k0_series(x)) * (scaled ? exp(x) : 1);
    double k1, k0;
    if (x > 0x1p60) k0 = k1 = sqrt(pi / 2) / sqrt(x); /* the first term is all, and the fraction would overflow */
    else k0 = k_fraction(x, 0, &k1);
    return (order ? k1 : k0) * (scaled ? 1 : exp(-x));
}
double rt_k0_f64(double x) { return k_any(x, 0, 0); }
double rt_k0e_f64(double x) { return k_any(x, 0, 1); }
double rt_k1_f64(double x) { return k_any(x, 1, 0); }
double rt_k1e_f64(double x) { return k_any(x, 1, 1); }

/* ---- J, Y ---- */

double rt_j0_f64(double x) { return isinf(x) ? NAN : j0(x); }
double rt_j1_f64(double x) { return isinf(x) ? NAN : j1(x); }
double rt_y0_f64(double x) { return isnan(x) || x < 0 || isinf(x) ? NAN : x == 0 ? -INFINITY : y0(x); }
double rt_y1_f64(double x) { return isnan(x) || x < 0 || isinf(x) ? NAN : x == 0 ? -INFINITY : y1(x); }
double rt_spherical_j0_f64(double x) { return isinf(x) ? 0 : fabs(x) < 1e-4 ? 1 - x * x / 6 : sin(x) / x; }

/* ---- Airy ---- */

/* Moves (y, y') of y'' = x y from x0 to x0 + h by the Taylor series at x0: (k+2)(k+1) c[k+2] = x0 c[k] + c[k-1]. */
static void airy_step(double x0, double h, double *y, double *slope) {
    double c0 = *y, c1 = *slope, c2 = x0 * c0 / 2;
    double value = c0 + h * (c1 + h * c2), derivative = c1 + 2 * h * c2, power = h * h;
    for (int k = 1; k < 60; k++) {
        double c3 = (x0 * c1 + c0) / ((k + 2.0) * (k + 1.0));
        derivative += (k + 2) * c3 * power;
        power *= h;
        value += c3 * power;
        c0 = c1, c1 = c2, c2 = c3;
        if (fabs(c3 * power) < epsilon / 256 && fabs(c1 * power) < epsilon / 256) break;
    }
    *y = value, *slope = derivative;
}

double rt_airy_ai_f64(double x) {
    if (!isfinite(x)) return NAN;
    if (x > 1.5) {
        double root = sqrt(x), zeta = 2 * x * root / 3, unused;
        if (zeta > 745) return 0;
        return sqrt(x / 3) / pi * k_fraction(zeta, 1.0 / 3, &unused) * exp(-zeta);
    }
    if (x > -9) {
        double y = 0.35502805388781723926, slope = -0.25881940379280679841, at = 0;
        while (at != x) {
            double h = fabs(x - at) <= 1 ? x - at : copysign(1, x - at);
            airy_step(at, h, &y, &slope);
            at += h;
        }
        return y;
    }
    /* Ai(-t) = (sin(zeta + pi/4) P - cos(zeta + pi/4) Q) / (sqrt(pi) t^(1/4)): the even and odd terms of one series. */
    double t = -x, zeta = 2 * t * sqrt(t) / 3, term = 1, p = 1, q = 0;
    for (int k = 1; k < 40; k++) {
        double next = term * (6 * k - 5) * (6 * k - 3) * (6 * k - 1) / (216 * k * (2 * k - 1) * zeta);
        if (next > term || next < epsilon / 4) break;
        term = next;
        if (k & 1) q += k & 2 ? -term : term;
        else p += k & 2 ? -term : term;
    }
    double s = sin(zeta), c = cos(zeta);
    return ((s + c) * p - (c - s) * q) / (sqrt(2 * pi) * sqrt(sqrt(t)));
}
