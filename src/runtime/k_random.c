/* k_random.c: in-place fills with numbers of one distribution: uniform, integers, normal and what derives from them.
 *
 * Every fill is a drawing function that writes the next n numbers of its distribution in one type of its own; the walk
 * puts them where the tensor's memory order wants them and converts. Which words of the stream make up a number is
 * PyTorch's choice and cannot be changed here. Multiply-adds are fused where PyTorch's AVX2 and AVX-512 kernels fuse
 * them (its plain x86 kernels round twice: see docs/random.md). */
#include "runtime/kernels.h"
#include "runtime/rt_box_muller.h"
#include "runtime/rt_random.h"
#include "runtime/rt_walk.h"

#include <float.h>

enum { CHUNK = 512 }; /* numbers drawn at a time: 4 KB on the stack */

typedef struct fill fill;
struct fill {
    rt_generator *g;
    void (*draw)(fill *f, void *out, int64_t n); /* n <= CHUNK numbers of type `drawn` */
    int drawn, dtype;
    double a, b;     /* parameters; meaning by distribution */
    float a_f32, b_f32;
    uint64_t range;  /* integers: number of values, 0 for 2^64 */
    int64_t base;
};

static int fill_run(void *user, int64_t n, char *const *p, const int64_t *stride) {
    fill *f = user;
    int64_t bytes = rt_itemsize(f->dtype);
    bool direct = f->drawn == f->dtype && (n == 1 || stride[0] == bytes);
    union { double f64[CHUNK]; float f32[CHUNK]; int64_t i64[CHUNK]; } buffer;
    for (int64_t done = 0; done < n; done += CHUNK) {
        int64_t count = n - done < CHUNK ? n - done : CHUNK;
        char *to = p[0] + done * stride[0];
        f->draw(f, direct ? (void *)to : &buffer, count);
        if (!direct) rt_convert(f->dtype, to, stride[0] / bytes, f->drawn, &buffer, 1, count);
    }
    return RT_OK;
}

static int real_dtype(int dtype) {
    return dtype == RT_C32 ? RT_F16 : dtype == RT_C64 ? RT_F32 : dtype == RT_C128 ? RT_F64 : dtype;
}

static int fill_view(fill *f, const rt_view *out) {
    rt_walk walk;
    rt_walk_init(&walk, 1, &out, 1, true);
    f->dtype = real_dtype(out->dtype);
    rt_generator_lock(f->g);
    int code = rt_walk_run(&walk, fill_run, f);
    rt_generator_unlock(f->g);
    return code;
}

/* ---- uniform ---- */

static void draw_uniform_f32(fill *f, void *out, int64_t n) {
    float *x = out, from = f->a_f32, width = f->b_f32 - f->a_f32, to = f->b_f32;
    uint32_t word[CHUNK];
    rt__words(f->g, word, n);
    for (int64_t i = 0; i < n; i++) x[i] = (float)(word[i] & 0xffffffu) * 0x1p-24f;
    if (from == 0 && width == 1) return;
    for (int64_t i = 0; i < n; i++) {
        x[i] = fmaf(x[i], width, from);
        if (x[i] == to) x[i] = from; /* rounding may reach the excluded end */
    }
}

static void draw_uniform_f64(fill *f, void *out, int64_t n) {
    double *x = out, from = f->a, width = f->b - f->a, to = f->b;
    for (int64_t i = 0; i < n; i++) x[i] = rt__unit(f->g);
    if (from == 0 && width == 1) return;
    for (int64_t i = 0; i < n; i++) {
        x[i] = fma(x[i], width, from);
        if (x[i] == to) x[i] = from;
    }
}

static inline float round_to(int dtype, float x) {
    return dtype == RT_F16 ? rt_f16_to_f32(rt_f32_to_f16(x)) : dtype == RT_BF16 ? rt_bf16_to_f32(rt_f32_to_bf16(x)) : x;
}

static void draw_uniform_small(fill *f, void *out, int64_t n) {
    float *x = out, from = f->a_f32, width = f->b_f32 - f->a_f32;
    float first = round_to(f->dtype, from), end = round_to(f->dtype, f->b_f32);
    uint32_t word[CHUNK];
    rt__words(f->g, word, n);
    for (int64_t i = 0; i < n; i++) x[i] = (float)(word[i] & 0xffffffu) * 0x1p-24f;
    for (int64_t i = 0; i < n && !(from == 0 && width == 1); i++) x[i] = fmaf(x[i], width, from);
    for (int64_t i = 0; i < n; i++) {
        x[i] = round_to(f->dtype, x[i]);
        if (x[i] == end) x[i] = first;
    }
}

static double largest(int dtype) {
    return dtype == RT_F16 ? 65504.0 : dtype == RT_BF16 ? 0x1.fep127 : dtype == RT_F32 ? FLT_MAX : DBL_MAX;
}

static int uniform_fill(const rt_ctx *ctx, const rt_view *out, double from, double to, rt_generator *g) {
    int dtype = real_dtype(out->dtype);
    if (dtype != RT_F16 && dtype != RT_BF16 && dtype != RT_F32 && dtype != RT_F64)
        return rt_fail(ctx, RT_ENOTIMPL, "uniform_ fills float tensors only, not %s", rt_dtype_name(out->dtype));
    double max = largest(dtype);
    if (!(from >= -max && from <= max))
        return rt_fail(ctx, RT_ERUNTIME, "uniform_: from=%g is out of bounds for the tensor's dtype", from);
    if (!(to >= -max && to <= max))
        return rt_fail(ctx, RT_ERUNTIME, "uniform_: to=%g is out of bounds for the tensor's dtype", to);
    if (!(from <= to))
        return rt_fail(ctx, RT_ERUNTIME, "uniform_ expects from <= to, but found from=%g > to=%g", from, to);
    if (!(to - from <= max))
        return rt_fail(ctx, RT_ERUNTIME,
                       "uniform_ expects to - from to fit the tensor's dtype, but found from=%g and to=%g", from, to);
    fill f = { .g = g, .a = from, .b = to, .a_f32 = (float)from, .b_f32 = (float)to, .drawn = RT_F32 };
    f.draw = dtype == RT_F64 ? draw_uniform_f64 : dtype == RT_F32 ? draw_uniform_f32 : draw_uniform_small;
    if (dtype == RT_F64) f.drawn = RT_F64;
    return fill_view(&f, out);
}

int rt_k_uniform(const rt_ctx *ctx, const rt_call *c) {
    return uniform_fill(ctx, c->out, rt_arg_float(c, 1), rt_arg_float(c, 2), rt_call_generator(c));
}

int rt_k_rand(const rt_ctx *ctx, const rt_call *c) {
    return uniform_fill(ctx, c->out, 0, 1, rt_call_generator(c));
}

/* ---- normal ---- */

static void draw_normal(fill *f, void *out, int64_t n) {
    double *x = out;
    for (int64_t i = 0; i < n; i++) x[i] = fma(rt__normal(f->g), f->b, f->a);
}

static void draw_log_normal(fill *f, void *out, int64_t n) {
    double *x = out;
    for (int64_t i = 0; i < n; i++) x[i] = exp(fma(rt__normal(f->g), f->b, f->a));
}

static void units_f32(rt_generator *g, float *x, int64_t n) {
    uint32_t word[CHUNK];
    for (int64_t done = 0; done < n; done += CHUNK) {
        int64_t count = n - done < CHUNK ? n - done : CHUNK;
        rt__words(g, word, count);
        for (int64_t i = 0; i < count; i++) x[done + i] = (float)(word[i] & 0xffffffu) * 0x1p-24f;
    }
}

static void block_f64(double *x, double mean, double std) {
    for (int i = 0; i < 8; i++) {
        double radius = sqrt(-2 * log(1 - x[i])), angle = 2.0 * 3.141592653589793 * x[i + 8];
        x[i] = fma(radius * cos(angle), std, mean);
        x[i + 8] = fma(radius * sin(angle), std, mean);
    }
}

/* n >= 16 numbers in a row, made 16 at a time from 16 uniform ones. When n is no multiple of 16, the last 16 are made
 * again from fresh words, over what was there. */
static void normal_row(rt_generator *g, int dtype, void *out, int64_t n, double mean, double std) {
    int64_t whole = n & ~(int64_t)15;
    if (dtype == RT_F32) {
        float *x = out;
        units_f32(g, x, n);
        rt__box_muller_f32(x, whole / 16, (float)mean, (float)std);
        if (whole == n) return;
        units_f32(g, x + n - 16, 16);
        rt__box_muller_f32(x + n - 16, 1, (float)mean, (float)std);
    } else if (dtype == RT_F64) {
        double *x = out;
        for (int64_t i = 0; i < n; i++) x[i] = rt__unit(g);
        for (int64_t i = 0; i < whole; i += 16) block_f64(x + i, mean, std);
        if (whole == n) return;
        for (int64_t i = n - 16; i < n; i++) x[i] = rt__unit(g);
        block_f64(x + n - 16, mean, std);
    } else { /* f16, bf16: blocks in f32; here the words of an incomplete block are never drawn */
        uint16_t *x = out;
        float buffer[CHUNK];
        for (int64_t done = 0; done < whole; done += CHUNK) {
            int64_t count = whole - done < CHUNK ? whole - done : CHUNK;
            units_f32(g, buffer, count);
            rt__box_muller_f32(buffer, count / 16, (float)mean, (float)std);
            rt_convert(dtype, x + done, 1, RT_F32, buffer, 1, count);
        }
        if (whole == n) return;
        units_f32(g, buffer, 16);
        rt__box_muller_f32(buffer, 1, (float)mean, (float)std);
        rt_convert(dtype, x + n - 16, 1, RT_F32, buffer, 1, 16);
    }
}

/* In blocks where `as` is contiguous, else in pairs: the memory that the numbers are drawn for. */
static int normal_fill_as(const rt_ctx *ctx, const rt_view *out, const rt_view *as, double mean, double std,
                          rt_generator *g) {
    int dtype = real_dtype(out->dtype);
    if (!(std >= 0)) return rt_fail(ctx, RT_ERUNTIME, "normal expects std >= 0.0, but found std %g", std);
    if (rt_numel(out) == 0) return RT_OK; /* of any dtype */
    if (dtype != RT_F16 && dtype != RT_BF16 && dtype != RT_F32 && dtype != RT_F64)
        return rt_fail(ctx, RT_ENOTIMPL, "normal_ fills float tensors only, not %s", rt_dtype_name(out->dtype));
    bool complex = rt_is_complex(out->dtype);
    if (complex) std /= sqrt(2.0); /* the two halves share the variance */
    int64_t n = rt_numel(out) * (complex ? 2 : 1);
    if (n >= 16 && rt_is_contiguous(as) && rt_is_contiguous(out)) {
        rt_generator_lock(g);
        normal_row(g, dtype, out->p, n, mean, std);
        rt_generator_unlock(g);
        return RT_OK;
    }
    fill f = { .g = g, .draw = draw_normal, .drawn = RT_F64, .a = mean, .b = std };
    return fill_view(&f, out);
}

static int normal_fill(const rt_ctx *ctx, const rt_view *out, double mean, double std, rt_generator *g) {
    return normal_fill_as(ctx, out, out, mean, std, g);
}

int rt_k_normal(const rt_ctx *ctx, const rt_call *c) {
    return normal_fill(ctx, c->out, rt_arg_float(c, 1), rt_arg_float(c, 2), rt_call_generator(c));
}

int rt_k_normal_strided(const rt_ctx *ctx, const rt_call *c) {
    rt_view as = *c->out;
    for (int d = 0; d < as.rank; d++) as.stride[d] = c->arg[1].u.ints[d];
    return normal_fill_as(ctx, c->out, &as, rt_arg_float(c, 2), rt_arg_float(c, 3), rt_call_generator(c));
}

int rt_k_normal_float_float(const rt_ctx *ctx, const rt_call *c) {
    return normal_fill(ctx, c->out, rt_arg_float(c, 0), rt_arg_float(c, 1), rt_call_generator(c));
}

int rt_k_randn(const rt_ctx *ctx, const rt_call *c) {
    return normal_fill(ctx, c->out, 0, 1, rt_call_generator(c));
}

/* ---- integers ---- */

static void draw_integer(fill *f, void *out, int64_t n) {
    int64_t *x = out;
    uint64_t range = f->range, base = (uint64_t)f->base;
    if (range == 0) {
        for (int64_t i = 0; i < n; i++) x[i] = (int64_t)(rt__word64(f->g) + base);
    } else if (range >= UINT64_C(1) << 28) { /* one word would favour small numbers visibly */
        for (int64_t i = 0; i < n; i++) x[i] = (int64_t)(rt__word64(f->g) % range + base);
    } else {
        uint32_t word[CHUNK], small = (uint32_t)range;
        rt__words(f->g, word, n);
        for (int64_t i = 0; i < n; i++) x[i] = (int64_t)(word[i] % small + base);
    }
}

/* As draw_integer, but one word even for long ranges. */
static void draw_word(fill *f, void *out, int64_t n) {
    int64_t *x = out;
    for (int64_t i = 0; i < n; i++) x[i] = (int64_t)(rt__word(f->g) % f->range);
}

/* What random ops need to know of a dtype: the largest integer (of floats: the largest up to which all integers exist),
 * and the digits of floats. */
static bool integer_limits(int dtype, int64_t *low, int64_t *high, int *digits) {
    static const struct { int64_t low, high; int digits; } limit[RT_DTYPE_COUNT] = {
        [RT_U8] = { 0, UINT8_MAX, 0 }, [RT_I8] = { INT8_MIN, INT8_MAX, 0 }, [RT_I16] = { INT16_MIN, INT16_MAX, 0 },
        [RT_I32] = { INT32_MIN, INT32_MAX, 0 }, [RT_I64] = { INT64_MIN, INT64_MAX, 0 }, [RT_BOOL] = { 0, 1, 0 },
        [RT_U16] = { 0, UINT16_MAX, 0 }, [RT_U32] = { 0, UINT32_MAX, 0 }, [RT_U64] = { 0, INT64_MAX, 0 },
        [RT_F16] = { -2048, 2048, 11 }, [RT_BF16] = { -256, 256, 8 }, [RT_F32] = { -(1 << 24), 1 << 24, 24 },
        [RT_F64] = { -(INT64_C(1) << 53), INT64_C(1) << 53, 53 },
    };
    *low = limit[dtype].low, *high = limit[dtype].high, *digits = limit[dtype].digits;
    return *high != 0;
}

/* An integer as the dtype would store it. */
static int64_t through(int dtype, int64_t i) {
    double stored;
    int64_t back;
    rt_convert(dtype, &stored, 1, RT_I64, &i, 1, 1);
    rt_convert(RT_I64, &back, 1, dtype, &stored, 1, 1);
    return back;
}

/* Distance between neighbouring numbers of a float dtype at |i|. */
static int64_t spacing(int64_t i, int digits) {
    uint64_t magnitude = i < 0 ? -(uint64_t)i : (uint64_t)i;
    int log2 = magnitude ? 63 - __builtin_clzll(magnitude) : 0;
    return log2 - digits + 1 >= 0 ? (int64_t)(UINT64_C(1) << (log2 - digits + 1)) : 0;
}

/* [from, to), or [from, largest of the dtype] without `to`. */
static int random_range(const rt_ctx *ctx, const rt_view *out, int64_t from, bool has_to, int64_t to, rt_generator *g) {
    int64_t low, high;
    int digits, dtype = out->dtype;
    if (!integer_limits(dtype, &low, &high, &digits))
        return rt_fail(ctx, RT_ENOTIMPL, "random_ fills bool, integer and float tensors, not %s", rt_dtype_name(dtype));
    if (has_to && from >= to)
        return rt_fail(ctx, RT_ERUNTIME, "random_ expects 'from' to be less than 'to', but got from=%lld >= to=%lld",
                       (long long)from, (long long)to);
    fill f = { .g = g, .draw = draw_integer, .drawn = RT_I64 };
    if (!has_to && from == INT64_MIN) { /* all 64 bits */
        if (dtype != RT_I64 && dtype != RT_F64 && dtype != RT_F32 && dtype != RT_BF16)
            return rt_fail(ctx, RT_ERUNTIME,
                           "random_ over all 64 bits fills int64, float64, float32 and bfloat16 tensors only, "
                           "not %s",
                           rt_dtype_name(dtype));
        return fill_view(&f, out);
    }
    if (digits) { /* keep clear of numbers that rounding would carry across an end */
        int64_t next = from < INT64_MAX ? through(dtype, from + 1) : from;
        if (next < from) from = (int64_t)((uint64_t)next + (uint64_t)spacing(from + 1, digits));
        if (has_to) {
            int64_t last = through(dtype, to - 1);
            if (last >= to) to = (int64_t)((uint64_t)last - (uint64_t)spacing(to - 1, digits));
        }
        if (from >= (has_to ? to : high))
            return rt_fail(ctx, RT_ERUNTIME, "random_: no number of the tensor's dtype from %lld below %lld",
                           (long long)from, (long long)(has_to ? to : high));
    }
    int64_t last = has_to ? to - 1 : high;
    if (digits) {
        double max = largest(dtype);
        if ((double)from < -max || (double)from > max || (double)last < -max || (double)last > max)
            return rt_fail(ctx, RT_ERUNTIME, "random_: [%lld, %lld] is out of bounds for the tensor's dtype",
                           (long long)from, (long long)last);
    } else if (dtype == RT_U64 && !has_to) { /* its largest number is no int64 */
        return rt_fail(ctx, RT_ERUNTIME, "random_: 'to' has to be given for uint64 tensors");
    } else if (from < low || from > high || last < low || last > high) {
        return rt_fail(ctx, RT_ERUNTIME, "random_: %s=%lld is out of bounds [%lld, %lld] of the tensor's dtype",
                       from < low || from > high ? "from" : "to - 1",
                       (long long)(from < low || from > high ? from : last), (long long)low, (long long)high);
    }
    f.base = from;
    f.range = (uint64_t)last - (uint64_t)from + 1;
    return fill_view(&f, out);
}

int rt_k_random(const rt_ctx *ctx, const rt_call *c) {
    int64_t low, high;
    int digits, dtype = c->out->dtype;
    if (rt_numel(c->out) == 0) return RT_OK; /* of any dtype */
    if (!integer_limits(dtype, &low, &high, &digits) || dtype == RT_U16 || dtype == RT_U32 || dtype == RT_U64)
        return rt_fail(ctx, RT_ENOTIMPL, "random_ without bounds is not implemented for %s; give bounds",
                       rt_dtype_name(dtype));
    fill f = { .g = rt_call_generator(c), .draw = draw_word, .drawn = RT_I64, .range = (uint64_t)high + 1 };
    if (dtype == RT_I64 || dtype == RT_F64) f.draw = draw_integer;
    return fill_view(&f, c->out);
}

int rt_k_random_from(const rt_ctx *ctx, const rt_call *c) {
    bool has_to = !rt_arg_is_none(c, 2);
    return random_range(ctx, c->out, rt_arg_int(c, 1), has_to, has_to ? rt_arg_int(c, 2) : 0, rt_call_generator(c));
}

int rt_k_random_to(const rt_ctx *ctx, const rt_call *c) {
    return random_range(ctx, c->out, 0, true, rt_arg_int(c, 1), rt_call_generator(c));
}

int rt_k_randint(const rt_ctx *ctx, const rt_call *c) {
    return random_range(ctx, c->out, 0, true, rt_arg_int(c, 0), rt_call_generator(c));
}

int rt_k_randint_low(const rt_ctx *ctx, const rt_call *c) {
    return random_range(ctx, c->out, rt_arg_int(c, 0), true, rt_arg_int(c, 1), rt_call_generator(c));
}

int rt_k_randint_like(const rt_ctx *ctx, const rt_call *c) {
    return random_range(ctx, c->out, 0, true, rt_arg_int(c, 1), rt_call_generator(c));
}

int rt_k_randint_like_low(const rt_ctx *ctx, const rt_call *c) {
    return random_range(ctx, c->out, rt_arg_int(c, 1), true, rt_arg_int(c, 2), rt_call_generator(c));
}

int rt_k_randint_like_tensor(const rt_ctx *ctx, const rt_call *c) {
    const rt_view *high = rt_arg_view(c, 1);
    if (high->rank != 0)
        return rt_fail(ctx, RT_ERUNTIME, "randint_like expects 'high' to be a 0-d tensor, but it has %d dims",
                       high->rank);
    int64_t to;
    rt_convert(RT_I64, &to, 1, high->dtype, high->p, 1, 1);
    return random_range(ctx, c->out, 0, true, to, rt_call_generator(c));
}

/* ---- one number from one uniform number ---- */

static void draw_exponential(fill *f, void *out, int64_t n) {
    double *x = out, scale = -1.0 / f->a;
    for (int64_t i = 0; i < n; i++) x[i] = scale * log1p(-rt__unit(f->g));
}

static void draw_cauchy(fill *f, void *out, int64_t n) {
    double *x = out;
    for (int64_t i = 0; i < n; i++) x[i] = fma(f->b, tan(3.141592653589793 * (rt__unit(f->g) - 0.5)), f->a);
}

static void draw_geometric(fill *f, void *out, int64_t n) {
    double *x = out, miss = log1p(-f->a);
    for (int64_t i = 0; i < n; i++) x[i] = ceil(log(rt__unit(f->g)) / miss);
}

static int derived(const rt_ctx *ctx, const rt_call *c, const char *name, void (*draw)(fill *, void *, int64_t),
                   double a, double b) {
    int dtype = c->out->dtype;
    if (rt_numel(c->out) == 0 && draw != draw_cauchy) return RT_OK; /* of any dtype */
    bool whole = draw == draw_geometric && ((dtype >= RT_U8 && dtype <= RT_I64));
    if (!whole && dtype != RT_F16 && dtype != RT_BF16 && dtype != RT_F32 && dtype != RT_F64)
        return rt_fail(ctx, RT_ENOTIMPL, "%s does not fill tensors of %s", name, rt_dtype_name(dtype));
    fill f = { .g = rt_call_generator(c), .draw = draw, .drawn = RT_F64, .a = a, .b = b };
    return fill_view(&f, c->out);
}

int rt_k_exponential(const rt_ctx *ctx, const rt_call *c) {
    double rate = rt_arg_float(c, 1);
    if (!(rate > 0)) return rt_fail(ctx, RT_ERUNTIME, "exponential_ expects lambda > 0.0, but found lambda=%g", rate);
    return derived(ctx, c, "exponential_", draw_exponential, rate, 0);
}

int rt_k_cauchy(const rt_ctx *ctx, const rt_call *c) {
    double median = rt_arg_float(c, 1), sigma = rt_arg_float(c, 2);
    if (!(sigma > 0)) return rt_fail(ctx, RT_ERUNTIME, "cauchy_ expects sigma > 0.0, but found sigma=%g", sigma);
    return derived(ctx, c, "cauchy_", draw_cauchy, median, sigma);
}

int rt_k_log_normal(const rt_ctx *ctx, const rt_call *c) {
    double mean = rt_arg_float(c, 1), std = rt_arg_float(c, 2);
    if (!(std > 0)) return rt_fail(ctx, RT_ERUNTIME, "log_normal_ expects std > 0.0, but found std=%g", std);
    return derived(ctx, c, "log_normal_", draw_log_normal, mean, std);
}

int rt_k_geometric(const rt_ctx *ctx, const rt_call *c) {
    double p = rt_arg_float(c, 1);
    if (!(p > 0 && p < 1)) return rt_fail(ctx, RT_ERUNTIME, "geometric_ expects p to be in (0, 1), but got p=%g", p);
    return derived(ctx, c, "geometric_", draw_geometric, p, 0);
}

/* ---- normal with tensors for mean or deviation ---- */

typedef struct combine { int out, other, common, through; bool multiply; } combine;

static int combine_run(void *user, int64_t n, char *const *p, const int64_t *stride) {
    enum { BLOCK = 64 };
    const combine *k = user;
    union { double f64[2 * BLOCK]; float f32[2 * BLOCK]; } a, b;
    _Alignas(16) char t[16 * BLOCK]; /* of the common dtype: each operand and result is rounded to it */
    int compute = k->common == RT_F16 || k->common == RT_BF16 ? RT_F32 : k->common == RT_C32 ? RT_C64 : k->common;
    bool single = compute == RT_F32 || compute == RT_C64;
    int64_t out_bytes = rt_itemsize(k->out), other_bytes = rt_itemsize(k->other);
    for (int64_t done = 0; done < n; done += BLOCK) {
        int64_t count = n - done < BLOCK ? n - done : BLOCK, m = count * (rt_is_complex(compute) ? 2 : 1);
        char *to = p[0] + done * stride[0];
        rt_convert(compute, &a, 1, k->out, to, stride[0] / out_bytes, count);
        rt_convert(k->through, t, 1, k->other, p[1] + done * stride[1], stride[1] / other_bytes, count);
        rt_convert(compute, &b, 1, k->through, t, 1, count);
        for (int64_t i = 0; i < m; i++) {
            int64_t j = k->multiply && m != count ? i & ~(int64_t)1 : i; /* a real deviation scales both halves */
            if (single) a.f32[i] = k->multiply ? a.f32[i] * b.f32[j] : a.f32[i] + b.f32[j];
            else a.f64[i] = k->multiply ? a.f64[i] * b.f64[j] : a.f64[i] + b.f64[j];
        }
        rt_convert(k->common, t, 1, compute, &a, 1, count);
        rt_convert(k->out, to, stride[0] / out_bytes, k->common, t, 1, count);
    }
    return RT_OK;
}

/* out *= other, or out += other, with PyTorch's promotion: a 0-d tensor of the same class does not widen the result. */
static int combine_with(const rt_view *out, const rt_view *other, bool multiply) {
    int a = out->dtype, b = other->dtype, common = a;
    bool counts = other->rank > 0 || out->rank == 0;
    if (rt_is_complex(a)) {
        if (counts && (b == RT_F64 || b == RT_C128)) common = RT_C128;
        else if (counts && a == RT_C32 && (b == RT_F32 || b == RT_C64 || b == RT_BF16)) common = RT_C64;
    } else if (rt_is_float(b) && counts && a != b) {
        common = a == RT_F64 || b == RT_F64 ? RT_F64 : RT_F32;
    }
    rt_walk walk;
    combine k = { a, b, common, common, multiply };
    /* A product takes a single number in f32 even where the tensors have less; a sum does not. */
    if (multiply && (common == RT_F16 || common == RT_BF16) && rt_numel(other) == 1) k.through = RT_F32;
    rt_walk_init(&walk, 2, (const rt_view *[]){ out, other }, 1, false);
    return rt_walk_run(&walk, combine_run, &k);
}

typedef struct lowest { int dtype; bool negative; } lowest;
static int lowest_run(void *user, int64_t n, char *const *p, const int64_t *stride) {
    enum { BLOCK = 256 };
    lowest *l = user;
    int64_t bytes = rt_itemsize(l->dtype);
    double x[BLOCK];
    for (int64_t done = 0; done < n && !l->negative; done += BLOCK) {
        int64_t count = n - done < BLOCK ? n - done : BLOCK;
        rt_convert(RT_F64, x, 1, l->dtype, p[0] + done * stride[0], stride[0] / bytes, count);
        for (int64_t i = 0; i < count; i++) l->negative |= !(x[i] >= 0);
    }
    return RT_OK;
}

static int check_deviations(const rt_ctx *ctx, const rt_view *std) {
    if (rt_is_complex(std->dtype))
        return rt_fail(ctx, RT_ERUNTIME, "normal expects a standard deviation that is not complex");
    rt_walk walk;
    lowest l = { std->dtype, false };
    rt_walk_init(&walk, 1, &std, 1, false);
    rt_walk_run(&walk, lowest_run, &l);
    return l.negative ? rt_fail(ctx, RT_ERUNTIME, "normal expects all elements of std >= 0.0") : RT_OK;
}

int rt_k_normal_tensor_float(const rt_ctx *ctx, const rt_call *c) {
    int code = normal_fill(ctx, c->out, 0, rt_arg_float(c, 1), rt_call_generator(c));
    return code ? code : combine_with(c->out, rt_arg_view(c, 0), false);
}

int rt_k_normal_float_tensor(const rt_ctx *ctx, const rt_call *c) {
    const rt_view *std = rt_arg_view(c, 1);
    double mean = rt_arg_float(c, 0), held[2]; /* the mean becomes a 0-d tensor of out's dtype */
    rt_convert(c->out->dtype, held, 1, RT_F64, &mean, 1, 1);
    rt_view mean_view = { .p = held, .dtype = c->out->dtype };
    int code = check_deviations(ctx, std);
    if (code) return code;
    code = normal_fill(ctx, c->out, 0, 1, rt_call_generator(c));
    if (code) return code;
    code = combine_with(c->out, std, true);
    return code ? code : combine_with(c->out, &mean_view, false);
}

int rt_k_normal_tensor_tensor(const rt_ctx *ctx, const rt_call *c) {
    int code = check_deviations(ctx, rt_arg_view(c, 1));
    if (code) return code;
    code = normal_fill(ctx, c->out, 0, 1, rt_call_generator(c));
    if (code) return code;
    code = combine_with(c->out, rt_arg_view(c, 1), true);
    return code ? code : combine_with(c->out, rt_arg_view(c, 0), false);
}

/* ---- the state itself ---- */

int rt_k_random_state(const rt_ctx *ctx, const rt_call *c) {
    rt_generator *g = rt_call_generator(c);
    const rt_view *given = c->arg[0].kind == RT_ARG_VIEW ? rt_arg_view(c, 0) : NULL;
    uint8_t next[RT_GENERATOR_STATE_BYTES]; /* the result may lie where the state that is given does */
    for (int64_t i = 0; given && i < RT_GENERATOR_STATE_BYTES; i++)
        next[i] = ((const uint8_t *)given->p)[i * given->stride[0]];
    rt_generator_get_state(g, c->out->p);
    return given ? rt_generator_set_state(ctx, g, next, sizeof next) : RT_OK;
}
