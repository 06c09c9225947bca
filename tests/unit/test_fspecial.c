/* Special functions of floats as straight-line code (rt_fspecial.h) against those of doubles: a sample of all bit
 * patterns and what is special. */
#include "check.h"

#include "runtime/rt_fspecial.h"
#include "runtime/rt_special.h"

enum { STEP = 20011 }; /* a prime: every exponent and all kinds of mantissas are met */
static const float specials[] = { 0.0f, -0.0f, 1.0f, -1.0f, 0.5f, -0.5f, 2.0f, -2.0f, 3.0f, 8.0f, 16.0f, 90.0f, 1e-45f,
    -1e-45f, 1e-38f, -8388608.0f, -16777216.0f, 3.4028235e38f, -3.4028235e38f, INFINITY, -INFINITY, NAN };
enum { SPECIALS = sizeof specials / sizeof *specials };

typedef float single(float x);
typedef double wide(double x);
typedef struct worst { double error; float at; int wrong; float wrong_at; } worst;

/* Errors in units of the last place of the result, or of `floor` where the result is smaller: close to a zero. */
static void compare(worst *w, float x, float got, double want, double floor) {
    float rounded = (float)want;
    if (isnan(rounded) || isnan(got) || isinf(rounded) || isinf(got)) {
        bool same = isnan(rounded) ? isnan(got) : got == rounded, edge = fabs(want) > 3.4e38 && fabsf(got) > 3.4e38f;
        if (!same && !edge) w->wrong++, w->wrong_at = x;
        return;
    }
    if (x == 0 && want == 0 && signbit(rounded) != signbit(got)) w->wrong++, w->wrong_at = x;
    int exponent;
    frexp(fmax(fabs(want), floor), &exponent);
    double error = fabs((double)got - want) / ldexp(1, (exponent < -125 ? -125 : exponent) - 24);
    if (error > w->error) w->error = error, w->at = x;
}

static void hold(const char *name, single *f, wide *g, double limit, double floor) {
    worst w = { 0 };
    for (int i = 0; i < SPECIALS; i++) compare(&w, specials[i], f(specials[i]), g((double)specials[i]), floor);
    for (uint64_t u = 0; u < (1ull << 32); u += STEP) {
        float x = rt__float_of((int32_t)u);
        compare(&w, x, f(x), g((double)x), floor);
    }
    if (w.wrong) CHECK_FAILED("%s(%a) is of another kind, and %d more", name, (double)w.wrong_at, w.wrong - 1);
    if (w.error > limit) CHECK_FAILED("%s(%a) is off by %.2f units", name, (double)w.at, w.error);
    else check_count(true);
}

static double gelu(double x) { return isinf(x) && x < 0 ? NAN : x * 0.5 * erfc(-x * 0.70710678118654752440); }
static double gelu_slope(double x) {
    return 0.5 * erfc(-x * 0.70710678118654752440) + x * (0.39894228040143267794 * exp(-0.5 * x * x));
}

static void error_functions(void) {
    hold("erfc", rt_erfc_f32, erfc, 6, 0);
    hold("log_ndtr", rt_log_ndtr_f32, rt_log_ndtr_f64, 6, 0);
    hold("erfinv", rt_erfinv_f32, rt_erfinv_f64, 4, 0);
    hold("ndtri", rt_ndtri_f32, rt_ndtri_f64, 6, 0);
}
static void bessel_functions(void) {
    hold("i0", rt_i0_f32, rt_i0_f64, 5, 0);
    hold("i0e", rt_i0e_f32, rt_i0e_f64, 5, 0);
    hold("i1", rt_i1_f32, rt_i1_f64, 5, 0);
    hold("i1e", rt_i1e_f32, rt_i1e_f64, 5, 0);
}
static void gamma_functions(void) {
    hold("lgamma", rt_lgamma_f32, rt_lgamma_f64, 1, 1e-5);
    hold("digamma", rt_digamma_f32, rt_digamma_f64, 1, 1e-5);
    for (uint64_t u = 1; u < 0x7f800000; u += STEP) {
        float x = rt__float_of((int32_t)u), near = rt__lgamma_near(x), all = rt_lgamma_f32(x);
        if (near != all) CHECK_FAILED("lgamma(%a) is %a or %a", (double)x, (double)near, (double)all);
    }
}
/* Held to what one rounding of 1 + erf(x) costs: the tail left of 0 has fewer digits. */
static void gelus(void) {
    hold("gelu", rt_gelu_f32, gelu, 4, 1);
    hold("gelu_slope", rt_gelu_slope_f32, gelu_slope, 4, 0.5);
}
static void lengths(void) {
    for (int i = 0; i < SPECIALS; i++)
        for (int k = 0; k < SPECIALS; k++) {
            float a = specials[i], b = specials[k], got = rt_hypot_f32(a, b), want = hypotf(a, b);
            if (!(got == want || (isnan(got) && isnan(want)) || fabsf(got - want) <= 0x1p-23f * want))
                CHECK_FAILED("hypot(%a, %a) is %a", (double)a, (double)b, (double)got);
        }
    check_count(true);
}

/* A block of one degree has the bits of its elements one by one, and so has one of several degrees. */
#define POLYNOMIAL(name)                                                                                               \
    for (int degree = -1; degree < 70; degree += degree < 10 ? 1 : 27) {                                               \
        float x[100], d[100], out[100];                                                                                \
        for (int i = 0; i < 100; i++) x[i] = i < SPECIALS ? specials[i] : (float)(i - 60) / 16, d[i] = (float)degree;  \
        for (int mixed = 0; mixed < 2; mixed++) {                                                                      \
            if (mixed) d[50] += 1;                                                                                     \
            rt_##name##_block_f32(100, out, x, d);                                                                     \
            for (int i = 0; i < 100; i++) {                                                                            \
                float want = (float)rt_##name##_f64((double)x[i], (double)d[i]);                                       \
                if (!(out[i] == want || (isnan(out[i]) && isnan(want))))                                               \
                    CHECK_FAILED(#name "(%g, %g) is %g, not %g", (double)x[i], (double)d[i], (double)out[i],           \
                                 (double)want);                                                                        \
            }                                                                                                          \
        }                                                                                                              \
    }
static void polynomials(void) {
#define X(name) POLYNOMIAL(name)
    RT_SPECIAL_POLYNOMIALS(X)
#undef X
    check_count(true);
}
static void airy(void) {
    static const double known[][2] = {
        { -9.75, 0.252624762596343356 }, { -8.25, -0.254536320996560647 },
        { -0.5, 0.475728091610539589 }, { 0.5, 0.23169360648083349 },
        { 3.5, 0.00258409878698963496 }, { 6.75, 1.45581274457887587e-6 },
        { 9.25, 1.15350415572834016e-9 }, { 9.75, 2.43863213572284708e-10 },
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        CHECK_NEAR(rt_airy_ai_f64(known[i][0]) / known[i][1], 1, 4e-14);
}

int main(void) {
    RUN(error_functions);
    RUN(bessel_functions);
    RUN(gamma_functions);
    RUN(gelus);
    RUN(lengths);
    RUN(polynomials);
    RUN(airy);
    return check_summary();
}
