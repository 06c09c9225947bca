/* Straight-line float functions against libm's doubles: a sample of all bit patterns, specials included. */
#include "check.h"

#include "runtime/rt_fmath.h"

enum { STEP = 20011 }; /* a prime: every exponent and all kinds of mantissas are met */

typedef struct worst { double error; float at; int wrong; } worst;

static void compare(worst *w, float x, float got, double want) {
    float rounded = (float)want;
    if (isnan(rounded) || isnan(got)) {
        w->wrong += isnan(rounded) != isnan(got);
        return;
    }
    if (rounded == 0 || isinf(rounded) || isinf(got)) { /* one step around overflow is within the promise */
        bool same = got == rounded && signbit(got) == signbit(rounded), edge = isinf(rounded) != isinf(got) && fabs(want) > 3.4e38 && fabsf(got) > 3.4e38f;
        w->wrong += !same && !edge && !(rounded == 0 && fabsf(got) <= 1e-44f && signbit(got) == signbit(rounded));
        return;
    }
    int exponent;
    frexp(want, &exponent);
    double error = fabs((double)got - want) / ldexp(1, (exponent < -125 ? -125 : exponent) - 24);
    if (error > w->error) w->error = error, w->at = x;
}

#define SWEEP(name, limit)                                                                                             \
    static void name##_(void) {                                                                                        \
        worst w = { 0 };                                                                                               \
        static const float specials[] = { 0.0f, -0.0f, 1.0f, -1.0f, INFINITY, -INFINITY, NAN, 1e-45f, -1e-45f, 88.72284f, 3.4028235e38f, 0.5f, -0.5f }; \
        for (size_t i = 0; i < sizeof specials / sizeof *specials; i++)                                                \
            if (!(fabsf(specials[i]) > (limit)) && !(isnan(specials[i]) && (limit) < INFINITY)) compare(&w, specials[i], rt_##name##_f32(specials[i]), name((double)specials[i])); \
        for (uint64_t u = 0; u < (1ull << 32); u += STEP) {                                                            \
            float x = rt__float_of((int32_t)u);                                                                        \
            if (fabsf(x) <= (limit)) compare(&w, x, rt_##name##_f32(x), name((double)x));                              \
        }                                                                                                              \
        CHECK_EQ(w.wrong, 0);                                                                                          \
        if (w.error > 2.5) CHECK_FAILED("%s(%a) is off by %.2f units of the last place", #name, (double)w.at, w.error); \
        else check_count(true);                                                                                        \
    }
SWEEP(exp, INFINITY) SWEEP(exp2, INFINITY) SWEEP(expm1, INFINITY) SWEEP(tanh, INFINITY) SWEEP(log, INFINITY) SWEEP(log2, INFINITY)
SWEEP(log10, INFINITY) SWEEP(log1p, INFINITY) SWEEP(erf, INFINITY) SWEEP(sin, RT_SIN_RANGE) SWEEP(cos, RT_SIN_RANGE)

static void sigmoids(void) {
    CHECK_FLOAT(rt_sigmoid_f32(0), 0.5);
    CHECK_FLOAT(rt_sigmoid_f32(-INFINITY), 0);
    CHECK_FLOAT(rt_sigmoid_f32(INFINITY), 1);
    CHECK_FLOAT(rt_sigmoid_f32(NAN), NAN);
    CHECK_NEAR(rt_log_sigmoid_f32(-100), -100, 1e-5);
    CHECK_NEAR(rt_log_sigmoid_f32(0), -0.69314718, 1e-7);
}

int main(void) {
    RUN(exp_);
    RUN(exp2_);
    RUN(expm1_);
    RUN(tanh_);
    RUN(log_);
    RUN(log2_);
    RUN(log10_);
    RUN(log1p_);
    RUN(erf_);
    RUN(sin_);
    RUN(cos_);
    RUN(sigmoids);
    return check_summary();
}
