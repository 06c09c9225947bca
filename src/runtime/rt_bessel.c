/* rt_bessel.c: Bessel functions and Airy's Ai.
 *
 * Modified functions: power series of positive terms where the argument is small, the asymptotic series where its terms
 * fall below the last bit before they grow, Steed's continued fraction for K between. J and Y of order 0 and 1 are
 * libm's. Ai by Taylor series at integers near 0, Ai(x) = sqrt(x/3)/pi K_1/3(2/3 x^(3/2)) and the asymptotic
 * series beyond. */
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

/* Ai and its derivative at -9, -8, ... 9. */
static const double airy[][2] = {
    { -0.022133721547341403674, -0.97566398092633159471 },  { -0.052705050356386202622, 0.93556093819830655103 },
    { 0.18428083525050563728, -0.77100816841012654773 },    { -0.32914517362982310523, 0.34593548728134289493 },
    { 0.35076100902411431979, 0.32719281855444313679 },     { -0.070265532949289515099, -0.7906285753685813803 },
    { -0.37881429367765807435, 0.31458376921659881365 },    { 0.22740742820168557599, 0.61825902074169104141 },
    { 0.5355608832923521188, -0.010160567116645209395 },    { 0.35502805388781723926, -0.25881940379280679841 },
    { 0.13529241631288141552, -0.15914744129679321279 },    { 0.034924130423274379135, -0.053090384433653631704 },
    { 0.0065911393574607191443, -0.011912976705951318474 }, { 0.00095156385120480187362, -0.0019586409502041789001 },
    { 0.00010834442813607441735, -0.000247413890868462476 }, { 9.9476943602528895702e-6, -0.000024765200397034954754 },
    { 7.4921288639971670808e-7, -2.0081508947387919912e-6 }, { 4.6922076160992316256e-8, -1.3414392979067865743e-7 },
    { 2.4711684308724898433e-9, -7.4806413896589464128e-9 },
};

/* The Taylor series at the nearest integer n, by y'' = x y: (k+2)(k+1) c[k+2] = n c[k] + c[k-1]. */
static double airy_near(double x) {
    double n = nearbyint(x), h = x - n, c0 = airy[(int)n + 9][0], c1 = airy[(int)n + 9][1], c2 = n * c0 / 2;
    double least = epsilon / 16 * (fabs(c0) + fabs(c1)), value = c0 + h * (c1 + h * c2), power = h * h;
    for (int k = 1; k < 60; k++) {
        double c3 = (n * c1 + c0) / ((k + 2.0) * (k + 1.0));
        power *= h;
        value += c3 * power;
        c0 = c1, c1 = c2, c2 = c3;
        if (fabs(c3 * power) < least && fabs(c1 * power) < least) break;
    }
    return value;
}

double rt_airy_ai_f64(double x) {
    if (!isfinite(x)) return NAN;
    if (x > -9.5 && x < 9.5) return airy_near(x);
    if (x > 0) {
        double root = sqrt(x), zeta = 2 * x * root / 3, unused;
        if (zeta > 745) return 0;
        return sqrt(x / 3) / pi * k_fraction(zeta, 1.0 / 3, &unused) * exp(-zeta);
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
