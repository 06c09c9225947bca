/* k_counts.c: Poisson and binomial counts.
 *
 * The rejection methods compare a drawn number with a formula; which draws are rejected, and so all later numbers,
 * hangs on the last bits of those formulas. They are written with PyTorch's order of operations, unfused and in its
 * precision:
 * for f32 tensors some steps of the binomial are rounded to f32 (`r`), others are not. */
#include "runtime/kernels.h"
#include "runtime/rt_random.h"
#include "runtime/rt_walk.h"

#include <math.h>

/* glibc's and other libms' lgamma writes a global; the reentrant one does not. */
static double log_factorial(double k) {
    int sign;
    return lgamma_r(k + 1, &sign);
}

/* Hoermann's transformed rejection (PTRS, 1993) for large rates, products of uniform numbers for small ones. */
static double sample_poisson(double rate, rt_generator *g) {
    if (rate == 0) return 0;
    if (rate < 10) {
        double end = exp(-rate), product = 1;
        for (int64_t count = 0;; count++) {
            product *= rt__unit(g);
            if (!(product > end)) return (double)count;
        }
    }
    double log_rate = log(rate), b = 0.931 + 2.53 * sqrt(rate), a = -0.059 + 0.02483 * b;
    double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4), at_once = 0.9277 - 3.6224 / (b - 2);
    for (;;) {
        double u = rt__unit(g) - 0.5, v = rt__unit(g), us = 0.5 - fabs(u);
        double k = floor((2 * a / us + b) * u + rate + 0.43);
        if (us >= 0.07 && v <= at_once) return k;
        if (k < 0 || (us < 0.013 && v > us)) continue;
        if (log(v) + log(inverse_alpha) - log(a / (us * us) + b) <= -rate + k * log_rate - log_factorial(k)) return k;
    }
}

/* What Stirling's formula for log k! leaves out. */
static double stirling_rest(double k) {
    static const double small[] = {
        0.0810614667953272, 0.0413406959554092, 0.0276779256849983, 0.02079067210376509, 0.0166446911898211,
        0.0138761288230707, 0.0118967099458917, 0.0104112652619720, 0.00925546218271273, 0.00833056343336287,
    };
    if (k < 10) return small[k > 0 ? (int)k : 0];
    double square = (k + 1) * (k + 1);
    return (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / square) / square) / (k + 1);
}

static inline double r(bool single, double x) { return single ? (double)(float)x : x; }

/* Hoermann's transformed rejection for the binomial (BTRS, 1993); count * p >= 10 and p <= 0.5. */
static double binomial_rejection(bool f32, double count, double p, rt_generator *g) {
    double miss = r(f32, 1 - p), expected = r(f32, count * p), spread = r(f32, sqrt(r(f32, expected * miss)));
    double b = 1.15 + 2.53 * spread, a = -0.0873 + 0.0248 * b + 0.01 * p, centre = expected + 0.5;
    double at_once = 0.92 - 4.2 / b, odds = r(f32, p / miss), alpha = (2.83 + 5.1 / b) * spread;
    double after = r(f32, count + 1), mode = floor(r(f32, after * p));
    for (;;) {
        double u = rt__unit(g) - 0.5, v = rt__unit(g), us = 0.5 - fabs(u);
        double k = r(f32, floor((2 * a / us + b) * u + centre));
        if (k < 0 || k > count) continue;
        if (us >= 0.07 && v <= at_once) return k;
        double rest = r(f32, r(f32, count - k) + 1), above = r(f32, k + 1);
        v = log(v * alpha / (a / (us * us) + b));
        double bound = (mode + 0.5) * log((mode + 1) / (odds * (count - mode + 1))) +
                       after * log((count - mode + 1) / rest) + (k + 0.5) * log(odds * rest / above) +
                       stirling_rest(mode) + stirling_rest(count - mode) - stirling_rest(k) -
                       stirling_rest(r(f32, count - k));
        if (v <= bound) return k;
    }
}

/* Jumps from success to success. */
static double binomial_jumps(bool f32, double count, double p, rt_generator *g) {
    double miss = f32 ? (double)log1pf((float)-p) : log1p(-p), reached = 0, successes = 0;
    for (;; successes = r(f32, successes + 1)) {
        reached += ceil(log(rt__unit(g)) / miss);
        if (reached > count) return successes;
    }
}

static double sample_binomial(bool f32, double count, double p, rt_generator *g) {
    if (count <= 0 || p <= 0) return 0;
    if (isnan(count) || isnan(p)) return NAN; /* PyTorch does not come back from a count that is none */
    if (p >= 1) return count;
    double rare = p <= 0.5 ? p : r(f32, 1.0 - p);
    double hits =
        r(f32, count * rare) >= 10.0 ? binomial_rejection(f32, count, rare, g) : binomial_jumps(f32, count, rare, g);
    return p <= 0.5 ? hits : r(f32, count - hits);
}

typedef struct counts { const rt_ctx *ctx; rt_generator *g; int dtype; } counts;

static int poisson_run(void *user, int64_t n, char *const *p, const int64_t *stride) {
    const counts *k = user;
    for (int64_t i = 0; i < n; i++) {
        double rate;
        rt_convert(RT_F64, &rate, 1, k->dtype, p[1] + i * stride[1], 1, 1);
        if (!(rate >= 0))
            return rt_fail(k->ctx, RT_ERUNTIME, "poisson expects rates that are not negative, but found %g", rate);
        double x = sample_poisson(rate, k->g);
        int64_t count; /* matters for infinite rates, which end as the smallest int64 */
        rt_convert(RT_I64, &count, 1, RT_F64, &x, 1, 1);
        rt_convert(k->dtype, p[0] + i * stride[0], 1, RT_I64, &count, 1, 1);
    }
    return RT_OK;
}

static int binomial_run(void *user, int64_t n, char *const *p, const int64_t *stride) {
    const counts *k = user;
    for (int64_t i = 0; i < n; i++) {
        double count, chance, x;
        rt_convert(RT_F64, &count, 1, k->dtype, p[1] + i * stride[1], 1, 1);
        rt_convert(RT_F64, &chance, 1, k->dtype, p[2] + i * stride[2], 1, 1);
        x = sample_binomial(k->dtype == RT_F32, count, chance, k->g);
        rt_convert(k->dtype, p[0] + i * stride[0], 1, RT_F64, &x, 1, 1);
    }
    return RT_OK;
}

static int draw_counts(const rt_ctx *ctx, const rt_call *c, int nviews, const rt_view *const *views, rt_run_fn *run) {
    counts k = { ctx, rt_call_generator(c), c->out->dtype };
    rt_walk walk;
    rt_walk_init(&walk, nviews, views, nviews, false);
    rt_generator_lock(k.g);
    int code = rt_walk_run(&walk, run, &k);
    rt_generator_unlock(k.g);
    return code;
}

int rt_k_poisson(const rt_ctx *ctx, const rt_call *c) {
    int d = c->out->dtype;
    if (d != RT_F16 && d != RT_BF16 && d != RT_F32 && d != RT_F64)
        return rt_fail(ctx, RT_ENOTIMPL, "poisson expects a float tensor, not %s", rt_dtype_name(d));
    return draw_counts(ctx, c, 2, (const rt_view *[]){ c->out, rt_arg_view(c, 0) }, poisson_run);
}

int rt_k_binomial(const rt_ctx *ctx, const rt_call *c) {
    const rt_view *count = rt_arg_view(c, 0), *p = rt_arg_view(c, 1);
    if (count->dtype != p->dtype)
        return rt_fail(ctx, RT_ERUNTIME, "binomial expects count and prob of one dtype, but found %s and %s",
                       rt_dtype_name(count->dtype), rt_dtype_name(p->dtype));
    if (count->dtype != RT_F32 && count->dtype != RT_F64)
        return rt_fail(ctx, RT_ENOTIMPL, "binomial expects float32 or float64 tensors, not %s",
                       rt_dtype_name(count->dtype));
    return draw_counts(ctx, c, 3, (const rt_view *[]){ c->out, count, p }, binomial_run);
}
