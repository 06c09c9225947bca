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
        bool same = got == rounded && signbit(got) == signbit(rounded),
             edge = isinf(rounded) != isinf(got) && fabs(want) > 3.4e38 && fabsf(got) > 3.4e38f;
        w->wrong += !same && !edge && !(rounded == 0 && fabsf(got) <= 1e-44f && signbit(got) == signbit(rounded));
        return;
    }
    int exponent;
    frexp(want, &exponent);
    double error = fabs((double)got - want) / ldexp(1, (exponent < -125 ? -125 : exponent) - 24);
    if (error > w->error) w->error = error, w->at = x;
}

#define SWEEP(name, limit)                                                                                     \
    static void name##_(void) {                                                                                \
        worst w = { 0 };                                                                                       \
        static const float specials[] = { 0.0f,   -0.0f,   1.0f,      -1.0f,         INFINITY, -INFINITY, NAN, \
                                          1e-45f, -1e-45f, 88.72284f, 3.4028235e38f, 0.5f,     -0.5f };        \
        for (size_t i = 0; i < sizeof specials / sizeof *specials; i++)                                        \
            if (!(fabsf(specials[i]) > (limit)) && !(isnan(specials[i]) && (limit) < INFINITY))                \
                compare(&w, specials[i], rt_##name##_f32(specials[i]), name((double)specials[i]));             \
        for (uint64_t u = 0; u < (1ull << 32); u += STEP) {                                                    \
            float x = rt__float_of((int32_t)u);                                                                \
            if (fabsf(x) <= (limit)) compare(&w, x, rt_##name##_f32(x), name((double)x));                      \
        }                                                                                                      \
        CHECK_EQ(w.wrong, 0);                                                                                  \
        if (w.error > 2.5)                                                                                     \
            CHECK_FAILED("%s(%a) is off by %.2f units of the last place", #name, (double)w.at, w.error);       \
        else check_count(true);                                                                                \
    }
SWEEP(exp, INFINITY)
SWEEP(exp2, INFINITY) SWEEP(expm1, INFINITY) SWEEP(tanh, INFINITY) SWEEP(log, INFINITY) SWEEP(log2, INFINITY)
    SWEEP(log10, INFINITY) SWEEP(log1p, INFINITY) SWEEP(erf, INFINITY) SWEEP(sin, RT_SIN_RANGE) SWEEP(cos, RT_SIN_RANGE)
        SWEEP(tan, RT_SIN_RANGE) SWEEP(asin, INFINITY) SWEEP(acos, INFINITY) SWEEP(atan, INFINITY)
            SWEEP(atanh, INFINITY) SWEEP(sinh, RT_SINH_RANGE) SWEEP(cosh, RT_SINH_RANGE) SWEEP(asinh, INFINITY)
                SWEEP(acosh, INFINITY)

                    static bool same_bits(float a, float b) {
    return rt__bits_of(a) == rt__bits_of(b) || (isnan(a) && isnan(b));
}

/* Exact functions of two floats give libm's bits; the angle and the power are held to what the others are held to. */
static void pair(worst *angle, worst *power, float a, float b) {
    compare(angle, a, rt_atan2_f32(a, b), atan2(a, b));
    if (rt__pow_known(a, b)) compare(power, a, rt__pow_known_f32(a, b), pow(a, b));
    float next = rt_nextafter_f32(a, b);
    if (!same_bits(next, nextafterf(a, b))) CHECK_FAILED("nextafter(%a, %a) is %a", (double)a, (double)b, (double)next);
    if (!rt__fmod_near(a, b)) return;
    float rest = rt_fmod_f32(a, b);
    if (!same_bits(rest, fmodf(a, b))) CHECK_FAILED("fmod(%a, %a) is %a", (double)a, (double)b, (double)rest);
}
static const float corners[] = { 0.0f,           -0.0f,          1.0f,     -1.0f,     1e-45f,  -1e-45f, 0x1p-126f,
                                 1.1754942e-38f, 0.1f,           3.0f,     -7.0f,     0x1p24f, 0x1p27f, 16777215.0f,
                                 3.4028235e38f,  -3.4028235e38f, INFINITY, -INFINITY, NAN };
enum { CORNERS = sizeof corners / sizeof *corners };

static void pairs(void) {
    worst angle = { 0 }, power = { 0 };
    for (int i = 0; i < CORNERS; i++)
        for (int k = 0; k < CORNERS; k++) pair(&angle, &power, corners[i], corners[k]);
    uint64_t state = 1;
    for (int i = 0; i < 2000000; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        uint32_t high = (uint32_t)(state >> 32), low = high * 2654435761u ^ (uint32_t)state;
        /* Any two floats, then two whose exponents are near each other. */
        float a = rt__float_of((int32_t)high), b = rt__float_of((int32_t)low);
        float near = rt__float_of((int32_t)((high & 0x7f800000u) ^ (low & 0x8dffffffu)));
        pair(&angle, &power, a, b);
        pair(&angle, &power, a, near);
        pair(&angle, &power, 0.5f + (float)(high & 0xffffff) * 0x1p-22f, (float)(int32_t)low * 0x1p-24f);
        pair(&angle, &power, (float)(int32_t)high * 0x1p-28f, (float)(low & 63) - 31.0f);
        pair(&angle, &power, near * 8.0f * (float)(low & 63), near);
    }
    CHECK_EQ(angle.wrong + power.wrong, 0);
    if (power.error > 2.5) CHECK_FAILED("pow(%a, ...) is off by %.2f units", (double)power.at, power.error);
    if (angle.error > 2.5) CHECK_FAILED("atan2(%a, ...) is off by %.2f units", (double)angle.at, angle.error);
}

static void parts(void) {
    for (uint64_t u = 0; u < (1ull << 32); u += STEP) {
        float x = u < CORNERS * (uint64_t)STEP ? corners[u / STEP] : rt__float_of((int32_t)u);
        int exponent = 0;
        float mantissa = frexpf(x, &exponent), want = isfinite(x) ? (float)exponent : 0;
        if (!same_bits(rt_mantissa_f32(x), mantissa) || rt_exponent_f32(x) != want)
            CHECK_FAILED("frexp(%a) is %a, %g", (double)x, (double)rt_mantissa_f32(x), (double)rt_exponent_f32(x));
    }
    check_count(true);
}

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
    RUN(tan_);
    RUN(asin_);
    RUN(acos_);
    RUN(atan_);
    RUN(atanh_);
    RUN(sinh_);
    RUN(cosh_);
    RUN(asinh_);
    RUN(acosh_);
    RUN(pairs);
    RUN(parts);
    RUN(sigmoids);
    return check_summary();
}
