/* k_dropout.c: coin flips and the ops that multiply by them.
 *
 * A flip with probability p is "uniform number below p". Uniform numbers are integers k times 2^-53 (or 2^-24), so the
 * test is done exactly on k against p * 2^53 rounded up. Dropouts draw their noise in the memory order of their input,
 * the order of the noise tensor that PyTorch allocates like it, and then multiply with the rounding steps that
 * PyTorch's chain of ops has: every constant below is rounded where a tensor of the input's dtype would have held
 * it. */
#include "runtime/kernels.h"
#include "runtime/rt_random.h"
#include "runtime/rt_walk.h"

#include <math.h>
#include <string.h>

enum { CHUNK = 256 };

static inline uint64_t limit53(double p) { return (uint64_t)ceil(p * 0x1p53); }
static inline uint32_t limit24(float p) { return (uint32_t)ceilf(p * 0x1p24f); }

/* n <= CHUNK flips; `limit` is limit53(p). */
static void flips(rt_generator *g, uint8_t *out, int64_t n, uint64_t limit) {
    uint32_t word[2 * CHUNK];
    rt__words(g, word, 2 * n);
    for (int64_t i = 0; i < n; i++) {
        uint64_t k = (uint64_t)(word[2 * i] & 0x1fffffu) << 32 | word[2 * i + 1];
        out[i] = k < limit;
    }
}

static bool holds_flips(int dtype) {
    return dtype <= RT_I64 || dtype == RT_BOOL || dtype == RT_F16 || dtype == RT_BF16 || dtype == RT_F32 ||
           dtype == RT_F64;
}

typedef struct coin { const rt_ctx *ctx; rt_generator *g; int dtype, p_dtype; uint64_t limit; } coin;

static int coin_run(void *user, int64_t n, char *const *p, const int64_t *stride) {
    const coin *k = user;
    uint8_t flip[CHUNK];
    int64_t bytes = rt_itemsize(k->dtype);
    for (int64_t done = 0; done < n; done += CHUNK) {
        int64_t count = n - done < CHUNK ? n - done : CHUNK;
        flips(k->g, flip, count, k->limit);
        rt_convert(k->dtype, p[0] + done * stride[0], stride[0] / bytes, RT_U8, flip, 1, count);
    }
    return RT_OK;
}

int rt_k_bernoulli_float(const rt_ctx *ctx, const rt_call *c) {
    const rt_view *out = c->out;
    double p = rt_arg_float(c, 1);
    if (!(p >= 0 && p <= 1)) return rt_fail(ctx, RT_ERUNTIME, "bernoulli_ expects p to be in [0, 1], but got p=%g", p);
    if (rt_numel(out) == 0) return RT_OK; /* of any dtype */
    if (!holds_flips(out->dtype))
        return rt_fail(ctx, RT_ENOTIMPL, "bernoulli_ does not fill tensors of %s", rt_dtype_name(out->dtype));
    coin k = { ctx, rt_call_generator(c), out->dtype, 0, limit53(p) };
    rt_walk walk;
    rt_walk_init(&walk, 1, &out, 1, false);
    rt_generator_lock(k.g);
    int code = rt_walk_run(&walk, coin_run, &k);
    rt_generator_unlock(k.g);
    return code;
}

/* One coin per element: probabilities in f64 take 53 bits of the stream, all others 24. */
static int coins_run(void *user, int64_t n, char *const *p, const int64_t *stride) {
    const coin *k = user;
    uint8_t flip[CHUNK];
    double chance[CHUNK];
    int64_t bytes = rt_itemsize(k->dtype), p_bytes = rt_itemsize(k->p_dtype);
    for (int64_t done = 0; done < n; done += CHUNK) {
        int64_t count = n - done < CHUNK ? n - done : CHUNK;
        rt_convert(RT_F64, chance, 1, k->p_dtype, p[1] + done * stride[1], stride[1] / p_bytes, count);
        for (int64_t i = 0; i < count; i++) {
            if (!(chance[i] >= 0 && chance[i] <= 1))
                return rt_fail(k->ctx, RT_ERUNTIME, "bernoulli expects all probabilities to be in [0, 1], but found %g",
                               chance[i]);
            if (k->p_dtype == RT_F64) flip[i] = (rt__word64(k->g) & ((UINT64_C(1) << 53) - 1)) < limit53(chance[i]);
            else flip[i] = (rt__word(k->g) & 0xffffffu) < limit24((float)chance[i]);
        }
        rt_convert(k->dtype, p[0] + done * stride[0], stride[0] / bytes, RT_U8, flip, 1, count);
    }
    return RT_OK;
}

static int bernoulli_with(const rt_ctx *ctx, const rt_view *out, const rt_view *p, rt_generator *g) {
    if (rt_numel(out) == 0) return RT_OK; /* of any dtype */
    if (!holds_flips(out->dtype))
        return rt_fail(ctx, RT_ENOTIMPL, "bernoulli does not fill tensors of %s", rt_dtype_name(out->dtype));
    if (p->dtype != RT_F16 && p->dtype != RT_BF16 && p->dtype != RT_F32 && p->dtype != RT_F64)
        return rt_fail(ctx, RT_ENOTIMPL, "bernoulli expects float probabilities, not %s", rt_dtype_name(p->dtype));
    coin k = { ctx, g, out->dtype, p->dtype, 0 };
    rt_walk walk;
    rt_walk_init(&walk, 2, (const rt_view *[]){ out, p }, 2, false);
    rt_generator_lock(g);
    int code = rt_walk_run(&walk, coins_run, &k);
    rt_generator_unlock(g);
    return code;
}

int rt_k_bernoulli(const rt_ctx *ctx, const rt_call *c) {
    return bernoulli_with(ctx, c->out, rt_arg_view(c, 0), rt_call_generator(c));
}

int rt_k_bernoulli_tensor(const rt_ctx *ctx, const rt_call *c) {
    return bernoulli_with(ctx, c->out, rt_arg_view(c, 1), rt_call_generator(c));
}

/* ---- multiplying by noise ---- */

/* A number as a tensor of the dtype holds it. */
static double held(int dtype, double x) {
    double memory = 0, back;
    rt_convert(dtype, &memory, 1, RT_F64, &x, 1, 1);
    rt_convert(RT_F64, &back, 1, dtype, &memory, 1, 1);
    return back;
}

/* A factor or divisor given to an op on tensors of the dtype: f64 keeps it, all others take it in f32. (A summand is
 * rounded to the dtype itself.) */
static double given(int dtype, double x) { return dtype == RT_F64 ? x : (double)(float)x; }

/* One operation of a chain on tensors of `dtype`. f32 results from f64 arithmetic on f32 numbers are what f32
 * arithmetic gives for + - * / (53 > 2 * 24 + 1), so one precision serves all. */
static double step(int dtype, double x) { return held(dtype, dtype == RT_F64 ? x : (double)(float)x); }

/* result = input * factor + shift, with a factor and a shift for dropped elements and for kept ones. */
typedef struct noise {
    rt_generator *g;
    int dtype;
    uint64_t limit;        /* of keeping */
    double factor[2], shift[2]; /* [dropped, kept] */
    bool has_shift, has_mask, drawn;
} noise;

typedef union block { double f64[2 * CHUNK]; float f32[2 * CHUNK]; } block; /* room for complex numbers */

#define APPLY(T, x)                                                                                                    \
    do {                                                                                                               \
        T factor[2] = { (T)k->factor[0], (T)k->factor[1] }, shift[2] = { (T)k->shift[0], (T)k->shift[1] };             \
        for (int64_t i = 0; i < count; i++) {                                                                          \
            int flip = kept[one ? 0 : i >> parts];                                                                     \
            T y = (x)[i] * factor[flip];                                                                               \
            if (k->has_shift) y += shift[flip];                                                                        \
            (x)[i] = y;                                                                                                \
        }                                                                                                              \
    } while (0)

static inline float round_to(int dtype, float x) {
    return dtype == RT_F16 ? rt_f16_to_f32(rt_f32_to_f16(x)) : dtype == RT_BF16 ? rt_bf16_to_f32(rt_f32_to_bf16(x)) : x;
}

/* Smaller types in f32: the product of two is exact there, and storing rounds it; before a sum it is rounded here.
 * `one`: all have the first flip. */
static void apply(const noise *k, block *b, const uint8_t *kept, int64_t count, bool one) {
    int parts = rt_is_complex(k->dtype); /* both halves of a complex number share a flip */
    count <<= parts;
    if (k->dtype == RT_F64 || k->dtype == RT_C128) {
        APPLY(double, b->f64);
    } else if (k->dtype == RT_F32 || k->dtype == RT_C64 || !k->has_shift) {
        APPLY(float, b->f32);
    } else {
        for (int64_t i = 0; i < count; i++)
            b->f32[i] = round_to(k->dtype, b->f32[i] * (float)k->factor[kept[one ? 0 : i]]) +
                        (float)k->shift[kept[one ? 0 : i]];
    }
}

/* Views: input, result, and either a mask to write (has_mask) or flips to read (drawn: feature noise). */
static int noise_run(void *user, int64_t n, char *const *p, const int64_t *stride) {
    const noise *k = user;
    int compute = k->dtype == RT_C32 ? RT_C64 : k->dtype == RT_F64 || rt_is_complex(k->dtype) ? k->dtype : RT_F32;
    int64_t bytes = rt_itemsize(k->dtype);
    bool one = k->drawn && !stride[2];
    block x;
    uint8_t kept[CHUNK];
    for (int64_t done = 0; done < n; done += CHUNK) {
        int64_t count = n - done < CHUNK ? n - done : CHUNK;
        if (one) kept[0] = *(const uint8_t *)p[2];
        else if (k->drawn) rt_convert(RT_U8, kept, 1, RT_U8, p[2] + done * stride[2], stride[2], count);
        else flips(k->g, kept, count, k->limit);
        if (k->has_mask) rt_convert(RT_BOOL, p[2] + done * stride[2], stride[2], RT_U8, kept, 1, count);
        rt_convert(compute, &x, 1, k->dtype, p[0] + done * stride[0], stride[0] / bytes, count);
        apply(k, &x, kept, count, one);
        rt_convert(k->dtype, p[1] + done * stride[1], stride[1] / bytes, compute, &x, 1, count);
    }
    return RT_OK;
}

/* `third` is a mask to write, flips to read, or NULL. The input's strides alone decide the order. */
static int noise_apply(noise *k, const rt_view *in, const rt_view *out, const rt_view *third) {
    rt_walk walk;
    rt_walk_init(&walk, third ? 3 : 2, (const rt_view *[]){ in, out, third }, 1, false);
    k->dtype = in->dtype;
    rt_generator_lock(k->g);
    int code = rt_walk_run(&walk, noise_run, k);
    rt_generator_unlock(k->g);
    return code;
}

/* Rows of features whose flips are drawn: in and out dense. */
typedef struct features { noise *k; char *in, *out; uint8_t *flip; int64_t inner; } features;

static int feature_rows(void *arg, int64_t begin, int64_t end) {
    const features *f = arg;
    int64_t bytes = rt_itemsize(f->k->dtype), stride[] = { bytes, bytes, 0 };
    for (int64_t r = begin; r < end; r++) {
        int64_t at = r * f->inner * bytes;
        if (f->k->dtype == RT_F32 && !f->k->has_shift) {
            const float *x = (const float *)(const void *)(f->in + at);
            float *y = (float *)(void *)(f->out + at), factor = (float)f->k->factor[f->flip[r]];
            for (int64_t i = 0; i < f->inner; i++) y[i] = x[i] * factor;
            continue;
        }
        noise_run(f->k, f->inner, (char *[]){ f->in + at, f->out + at, (char *)f->flip + r }, stride);
    }
    return RT_OK;
}

static bool is_scaled(int dtype) { /* can numbers of this dtype be multiplied by 1 / (1 - p)? */
    return dtype == RT_F16 || dtype == RT_BF16 || dtype == RT_F32 || dtype == RT_F64 || rt_is_complex(dtype);
}

static int check_dropout(const rt_ctx *ctx, const rt_view *in, double p, const char *name, bool complex) {
    if (!(p >= 0 && p <= 1))
        return rt_fail(ctx, RT_ERUNTIME, "%s: the probability has to be between 0 and 1, but got %g", name, p);
    if (!is_scaled(in->dtype) || (rt_is_complex(in->dtype) && !complex))
        return rt_fail(ctx, RT_ENOTIMPL, "%s while training expects a float tensor, not %s", name,
                       rt_dtype_name(in->dtype));
    return RT_OK;
}

static int copy_unless_same(const rt_ctx *ctx, const rt_view *out, const rt_view *in) {
    return out->p == in->p ? RT_OK : rt_copy(ctx, out, in);
}

enum { PER_FEATURE = 1, ALPHA = 2 };

static int dropout(const rt_ctx *ctx, const rt_call *c, const char *name, int kind) {
    const rt_view *in = rt_arg_view(c, 0), *out = c->out;
    double p = rt_arg_float(c, 1);
    int d = in->dtype;
    if (!(p >= 0 && p <= 1)) return check_dropout(ctx, in, p, name, false);
    if (p == 0 || !rt_arg_int(c, 2) || rt_numel(in) == 0) return copy_unless_same(ctx, out, in);
    if (p == 1 && !is_scaled(d)) return rt_fill(ctx, out, (rt_scalar){ RT_ARG_INT, 0, 0, 0 });
    int code = p == 1 ? RT_OK : check_dropout(ctx, in, p, name, false);
    if (code) return code;
    noise k = { .g = rt_call_generator(c), .dtype = d, .limit = limit53(1 - p) };
    if (p == 1) { /* input * 0, without a draw */
        rt_walk walk;
        uint8_t none = 0;
        rt_view nothing = { .p = &none, .dtype = RT_U8 };
        k.drawn = true;
        rt_walk_init(&walk, 3, (const rt_view *[]){ in, out, &nothing }, 1, false);
        return rt_walk_run(&walk, noise_run, &k);
    }
    if (kind & ALPHA) {
        /* Dropped elements become the lower bound of SELU; a and b keep mean and variance. */
        const double alpha = 1.7580993408473766, a = 1.0 / sqrt((alpha * alpha * p + 1) * (1 - p));
        for (int kept = 0; kept < 2; kept++) {
            k.shift[kept] = step(d, step(d, (kept - 1) * given(d, alpha * a)) + held(d, alpha * a * p));
            k.factor[kept] = step(d, kept * given(d, a));
        }
        k.has_shift = true;
    } else {
        k.factor[1] = step(d, 1 / given(d, 1 - p));
    }
    if (!(kind & PER_FEATURE)) return noise_apply(&k, in, out, NULL);
    if (in->rank < 2)
        return rt_fail(ctx, RT_ERUNTIME, "%s expects a batch of features, at least 2 dimensions, but got %d", name,
                       in->rank);
    /* One flip for each of the first two dimensions, shared by all others. */
    int64_t rows = in->size[0] * in->size[1];
    uint8_t *flip = rt_scratch(ctx, (size_t)rows);
    if (!flip) return rt_fail(ctx, RT_ENOMEM, "%s: no memory for %lld flips", name, (long long)rows);
    rt_generator_lock(k.g);
    for (int64_t done = 0; done < rows; done += CHUNK)
        flips(k.g, flip + done, rows - done < CHUNK ? rows - done : CHUNK, k.limit);
    rt_generator_unlock(k.g);
    int64_t ones[RT_MAX_RANK];
    for (int i = 0; i < in->rank; i++) ones[i] = i < 2 ? in->size[i] : 1;
    rt_view flips_view = rt_view_contiguous(flip, RT_U8, in->rank, ones);
    k.drawn = true;
    if (rt_is_contiguous(in) && rt_is_contiguous(out)) {
        features f = { &k, in->p, out->p, flip, rt_numel(in) / rows };
        code = rt_parallel_work(ctx, rows, f.inner, 8192, feature_rows, &f);
    } else {
        code = noise_apply(&k, in, out, &flips_view);
    }
    rt_scratch_free(ctx, flip);
    return code;
}

int rt_k_dropout(const rt_ctx *ctx, const rt_call *c) { return dropout(ctx, c, "dropout", 0); }
int rt_k_feature_dropout(const rt_ctx *ctx, const rt_call *c) {
    return dropout(ctx, c, "feature_dropout", PER_FEATURE);
}
int rt_k_alpha_dropout(const rt_ctx *ctx, const rt_call *c) { return dropout(ctx, c, "alpha_dropout", ALPHA); }
int rt_k_feature_alpha_dropout(const rt_ctx *ctx, const rt_call *c) {
    return dropout(ctx, c, "feature_alpha_dropout", PER_FEATURE | ALPHA);
}

int rt_k_native_dropout(const rt_ctx *ctx, const rt_call *c) {
    const rt_view *in = rt_arg_view(c, 0), *out = &c->out[0], *mask = &c->out[1];
    double p = rt_arg_float(c, 1);
    if (rt_numel(in) == 0) return RT_OK;
    if (!rt_arg_is_none(c, 2) && !rt_arg_int(c, 2)) {
        int code = rt_fill(ctx, mask, (rt_scalar){ RT_ARG_INT, 1, 1, 0 });
        return code ? code : copy_unless_same(ctx, out, in);
    }
    int code = check_dropout(ctx, in, p, "native_dropout", true);
    if (code) return code;
    double keep = 1 - p;
    noise k = { .g = rt_call_generator(c), .limit = limit53(keep), .has_mask = true };
    k.factor[1] = held(rt_is_complex(in->dtype) ? RT_F64 : in->dtype, keep == 0 ? 0 : 1 / keep);
    return noise_apply(&k, in, out, mask);
}

/* ---- randomised leaky ReLU: a slope drawn for each element that is not positive, in index order ---- */

typedef struct leaky { rt_generator *g; int dtype; double lower, upper, middle; bool training; } leaky;

/* A number of the dtype, and back; calls of rt_convert for single floats would take longest. */
static double read_number(int dtype, const char *p) {
    double x;
    if (dtype == RT_F32) return (double)*(const float *)p;
    rt_convert(RT_F64, &x, 1, dtype, p, 1, 1);
    return x;
}
static void write_number(int dtype, char *p, double x) {
    if (dtype == RT_F32) *(float *)p = (float)x;
    else rt_convert(dtype, p, 1, RT_F64, &x, 1, 1);
}

static int leaky_run(void *user, int64_t n, char *const *p, const int64_t *stride) {
    const leaky *k = user;
    if (!k->training && k->dtype == RT_F32) {
        float slope = (float)k->middle;
        for (int64_t i = 0; i < n; i++) {
            float x = *(const float *)(const void *)(p[1] + i * stride[1]);
            *(float *)(void *)(p[0] + i * stride[0]) = x > 0 ? x : x * slope;
        }
        return RT_OK;
    }
    for (int64_t i = 0; i < n; i++) {
        double x = read_number(k->dtype, p[1] + i * stride[1]), slope = 1;
        if (k->training ? x <= 0 : !(x > 0)) {
            slope = k->training ? given(k->dtype, rt__unit(k->g) * (k->upper - k->lower) + k->lower) : k->middle;
            x = k->dtype == RT_F32 ? x * slope : step(k->dtype, x * slope); /* stored as a float, once */
        }
        write_number(k->dtype, p[0] + i * stride[0], x);
        if (k->training) write_number(k->dtype, p[2] + i * stride[2], slope);
    }
    return RT_OK;
}

/* Nothing is drawn, and floats lie in rows. */
typedef struct fixed_slope { const float *in; float *out, slope; } fixed_slope;

static int fixed_slope_run(void *arg, int64_t begin, int64_t end) {
    const fixed_slope k = *(const fixed_slope *)arg;
    for (int64_t i = begin; i < end; i++) {
        float x = k.in[i], y = x * k.slope;
        k.out[i] = x > 0 ? x : y;
    }
    return RT_OK;
}

static int rrelu(const rt_ctx *ctx, const rt_call *c, const rt_view *drawn) {
    const rt_view *in = rt_arg_view(c, 0);
    double lower = rt_arg_float(c, 2), upper = rt_arg_float(c, 3);
    if (in->dtype != RT_F16 && in->dtype != RT_BF16 && in->dtype != RT_F32 && in->dtype != RT_F64)
        return rt_fail(ctx, RT_ENOTIMPL, "rrelu_with_noise expects a float tensor, not %s", rt_dtype_name(in->dtype));
    int d = in->dtype;
    leaky k = {rt_call_generator(c), d, given(d, lower), given(d, upper), given(d, (lower + upper) / 2),
               rt_arg_int(c, 4) != 0};
    if (k.training && d == RT_F16) return rt_fail(ctx, RT_ENOTIMPL, "rrelu_with_noise does not train in float16");
    if (k.training && !(k.lower <= k.upper))
        return rt_fail(ctx, RT_ERUNTIME, "rrelu_with_noise expects lower <= upper, but got %g > %g", lower, upper);
    if (!k.training && d == RT_F32 && rt_is_contiguous(in) && rt_is_contiguous(c->out)) {
        fixed_slope dense = { in->p, c->out->p, (float)k.middle };
        return rt_parallel_for(ctx, rt_numel(in), 16384, fixed_slope_run, &dense);
    }
    rt_walk walk;
    rt_walk_init(&walk, k.training ? 3 : 2, (const rt_view *[]){ c->out, in, drawn }, 0, false);
    rt_generator_lock(k.g);
    int code = rt_walk_run(&walk, leaky_run, &k);
    rt_generator_unlock(k.g);
    return code;
}

int rt_k_rrelu_with_noise(const rt_ctx *ctx, const rt_call *c) { return rrelu(ctx, c, rt_arg_view(c, 1)); }

int rt_k_rrelu_with_noise_functional(const rt_ctx *ctx, const rt_call *c) {
    int code = rt_copy(ctx, &c->out[1], rt_arg_view(c, 1));
    return code ? code : rrelu(ctx, c, &c->out[1]);
}
