/* k_multinomial.c: choices among categories, and permutations.
 *
 * Without replacement, categories race: each draws a waiting time and the best weight over time wins. With replacement,
 * each sample is looked up in the running sums of the weights. Sums and quotients are rounded to the precision PyTorch
 * holds them in, since a category's border decides samples next to it. */
#include "runtime/kernels.h"
#include "runtime/rt_random.h"
#include "runtime/rt_select.h"
#include "runtime/rt_walk.h"

#include <math.h>
#include <string.h>

static bool plain_float(int dtype) { return dtype == RT_F16 || dtype == RT_BF16 || dtype == RT_F32 || dtype == RT_F64; }

/* A result of f32 or f64 arithmetic as a tensor of the dtype holds it. */
static inline double held(int dtype, double x) {
    if (dtype == RT_F64) return x;
    float f = (float)x;
    return dtype == RT_F16 ? rt_f16_to_f32(rt_f32_to_f16(f)) : dtype == RT_BF16 ? rt_bf16_to_f32(rt_f32_to_bf16(f)) : f;
}

static inline double load(int dtype, const char *p) {
    double x;
    if (dtype == RT_F32) return (double)*(const float *)(const void *)p;
    rt_convert(RT_F64, &x, 1, dtype, p, 1, 1);
    return x;
}

/* ---- permutations ---- */

enum { CHUNK = 256 };

/* Numbers of one size, exchanged without knowing their type. */
#define SHUFFLE(T)                                                                                                     \
    do {                                                                                                               \
        T *x = out->p;                                                                                                 \
        if (n < UINT32_MAX / 20) { /* one word each is even enough */                                                  \
            for (int64_t i = 0; i < n - 1; i++) {                                                                      \
                int64_t j = i + rt__word(g) % (n - i);                                                                 \
                T t = x[i * stride];                                                                                   \
                x[i * stride] = x[j * stride];                                                                         \
                x[j * stride] = t;                                                                                     \
            }                                                                                                          \
        } else {                                                                                                       \
            for (int64_t i = 0; i < n; i++) {                                                                          \
                int64_t j = (int64_t)(rt__word64(g) % (uint64_t)(i + 1));                                              \
                T t = x[i * stride];                                                                                   \
                x[i * stride] = x[j * stride];                                                                         \
                x[j * stride] = t;                                                                                     \
            }                                                                                                          \
        }                                                                                                              \
    } while (0)

int rt_k_randperm(const rt_ctx *ctx, const rt_call *c) {
    const rt_view *out = c->out;
    int64_t n = out->size[0], stride = out->stride[0], bytes = rt_itemsize(out->dtype);
    if (rt_is_complex(out->dtype) || out->dtype == RT_BOOL)
        return rt_fail(ctx, RT_ENOTIMPL, "randperm does not fill tensors of %s", rt_dtype_name(out->dtype));
    int64_t exact = out->dtype == RT_F16   ? 2049
                    : out->dtype == RT_U8  ? 256
                    : out->dtype == RT_I8  ? 128
                    : out->dtype == RT_I16 ? 32768
                    : out->dtype == RT_F32 ? (1 << 24) + 1
                    : out->dtype == RT_F64 ? (INT64_C(1) << 53) + 1
                                           : INT64_MAX;
    if (n > exact)
        return rt_fail(ctx, RT_ERUNTIME,
                       "randperm: %lld numbers do not fit the result's dtype, which holds %lld exactly", (long long)n,
                       (long long)exact);
    rt_generator *g = rt_call_generator(c);
    rt_generator_lock(g);
    for (int64_t done = 0; done < n; done += CHUNK) {
        int64_t number[CHUNK], count = n - done < CHUNK ? n - done : CHUNK;
        for (int64_t i = 0; i < count; i++) number[i] = done + i;
        rt_convert(out->dtype, (char *)out->p + done * stride * bytes, stride, RT_I64, number, 1, count);
    }
    switch (bytes) {
        case 1: SHUFFLE(uint8_t); break;
        case 2: SHUFFLE(uint16_t); break;
        case 4: SHUFFLE(uint32_t); break;
        case 8: SHUFFLE(uint64_t); break;
    }
    rt_generator_unlock(g);
    return RT_OK;
}

/* ---- multinomial ---- */

/* Uniform numbers, drawn in the order of the weights' memory. */
static int draw_run(void *user, int64_t n, char *const *p, const int64_t *stride) {
    for (int64_t i = 0; i < n; i++) *(double *)(void *)(p[1] + i * stride[1]) = rt__unit(user);
    return RT_OK;
}

typedef struct table { const char *p; int64_t rows, columns, row_stride, column_stride; int dtype; } table;

static table table_of(const rt_view *v) {
    int64_t bytes = rt_itemsize(v->dtype);
    int last = v->rank - 1;
    return (table){v->p,
                   v->rank > 1 ? v->size[0] : 1,
                   v->size[last],
                   v->rank > 1 ? v->stride[0] * bytes : 0,
                   v->stride[last] * bytes,
                   v->dtype};
}

static inline double table_at(const table *t, int64_t row, int64_t column) {
    return load(t->dtype, t->p + row * t->row_stride + column * t->column_stride);
}

static inline int64_t *result_at(const rt_view *out, int64_t row, int64_t k) {
    int64_t at = out->rank > 1 ? row * out->stride[0] + k * out->stride[1] : k * out->stride[0];
    return (int64_t *)out->p + at;
}

/* Every category gets an exponential waiting time, of a uniform number; its weight over that time is its score. */
typedef struct race {
    table t;
    double *score;
} race;
static int race_rows(void *arg, int64_t begin, int64_t end) {
    const race *r = arg;
    int64_t columns = r->t.columns, row = begin / columns, column = begin % columns;
    for (int64_t i = begin; i < end; i++) {
        double wait = held(r->t.dtype, -1.0 * log1p(-r->score[i]));
        r->score[i] = held(r->t.dtype, table_at(&r->t, row, column) / wait);
        if (++column == columns) column = 0, row++;
    }
    return RT_OK;
}

/* One sample, or several different ones: the best scores win. */
static int choose_different(const rt_ctx *ctx, const rt_view *self, const rt_view *out, int64_t samples,
                            rt_generator *g) {
    table t = table_of(self);
    for (int64_t row = 0; row < t.rows; row++) {
        double sum = 0;
        for (int64_t j = 0; j < t.columns; j++) {
            double x = table_at(&t, row, j);
            if (!(x >= 0 && x < INFINITY))
                return rt_fail(ctx, RT_ERUNTIME,
                               "multinomial: the probability tensor contains inf, nan or a number < 0");
            sum += x;
        }
        if (!(sum > 0))
            return rt_fail(ctx, RT_ERUNTIME, "multinomial: invalid distribution, the probabilities sum to 0");
    }
    double *score = rt_scratch(ctx, (size_t)(t.rows * t.columns) * sizeof *score);
    rt_keyed *queue = rt_scratch(ctx, (size_t)t.columns * sizeof *queue);
    if (!score || !queue) {
        rt_scratch_free(ctx, score);
        rt_scratch_free(ctx, queue);
        return rt_fail(ctx, RT_ENOMEM, "multinomial: no memory for %lld scores", (long long)(t.rows * t.columns));
    }
    rt_view scores = rt_view_contiguous(score, RT_F64, self->rank, self->size);
    race r = { t, score };
    rt_walk walk;
    rt_walk_init(&walk, 2, (const rt_view *[]){ self, &scores }, 1, false);
    rt_generator_lock(g);
    rt_walk_run(&walk, draw_run, g);
    rt_generator_unlock(g);
    rt_parallel_for(ctx, t.rows * t.columns, 64, race_rows, &r);
    for (int64_t row = 0; row < t.rows; row++) {
        const double *x = score + row * t.columns;
        if (samples == 1) { /* the first of equal ones, and a NaN before all */
            int64_t best = 0;
            for (int64_t j = 1; j < t.columns && x[best] == x[best]; j++)
                if (!(x[j] <= x[best])) best = j;
            *result_at(out, row, 0) = best;
            continue;
        }
        for (int64_t j = 0; j < t.columns; j++) queue[j] = (rt_keyed){ x[j], j };
        rt_select_top(queue, t.columns, samples, false, true);
        for (int64_t k = 0; k < samples; k++) *result_at(out, row, k) = queue[k].index;
    }
    rt_scratch_free(ctx, queue);
    rt_scratch_free(ctx, score);
    return RT_OK;
}

/* Sums and quotients are rounded to f32 for all but f64. */
static inline double sum_held(int dtype, double x) { return dtype == RT_F64 ? x : (double)(float)x; }

static int choose_repeatedly(const rt_ctx *ctx, const rt_view *self, const rt_view *out, int64_t samples,
                             rt_generator *g) {
    table t = table_of(self);
    double *below =
        rt_scratch(ctx, (size_t)t.columns * sizeof *below); /* probability of this category or an earlier one */
    if (!below) return rt_fail(ctx, RT_ENOMEM, "multinomial: no memory for %lld categories", (long long)t.columns);
    int code = RT_OK;
    rt_generator_lock(g);
    for (int64_t row = 0; row < t.rows && !code; row++) {
        double sum = 0;
        for (int64_t j = 0; j < t.columns && !code; j++) {
            double x = table_at(&t, row, j);
            if (!(x >= 0) || x == INFINITY)
                code = rt_fail(ctx, RT_ERUNTIME, "multinomial: invalid distribution, entry %lld of row %lld is %g",
                               (long long)j, (long long)row, x);
            below[j] = sum = sum_held(t.dtype, sum + x);
        }
        if (!code && !(sum > 0))
            code = rt_fail(ctx, RT_ERUNTIME, "multinomial: invalid distribution, row %lld sums to 0", (long long)row);
        if (code) break;
        for (int64_t j = 0; j < t.columns; j++) below[j] = sum_held(t.dtype, below[j] / sum);
        below[t.columns - 1] = 1;
        for (int64_t k = 0; k < samples; k++) {
            double u = rt__unit(g);
            int64_t low = 0, high = t.columns;
            while (low < high) {
                int64_t middle = low + (high - low) / 2;
                if (below[middle] < u) low = middle + 1;
                else high = middle;
            }
            *result_at(out, row, k) = low;
        }
    }
    rt_generator_unlock(g);
    rt_scratch_free(ctx, below);
    return code;
}

int rt_k_multinomial(const rt_ctx *ctx, const rt_call *c) {
    const rt_view *self = rt_arg_view(c, 0), *out = c->out;
    int64_t samples = rt_arg_int(c, 1), categories = self->rank ? self->size[self->rank - 1] : 0;
    bool replacement = rt_arg_int(c, 2) != 0;
    if (self->rank < 1 || self->rank > 2)
        return rt_fail(ctx, RT_ERUNTIME, "multinomial expects 1 or 2 dimensions, but got %d", self->rank);
    if (!plain_float(self->dtype))
        return rt_fail(ctx, RT_ERUNTIME, "multinomial expects float probabilities, not %s", rt_dtype_name(self->dtype));
    if (samples <= 0)
        return rt_fail(ctx, RT_ERUNTIME, "multinomial cannot draw %lld samples, at least 1 is needed",
                       (long long)samples);
    if (!replacement && samples > categories)
        return rt_fail(ctx, RT_ERUNTIME,
                       "multinomial cannot draw %lld samples without replacement from %lld categories",
                       (long long)samples, (long long)categories);
    if (categories > 1 << 24)
        return rt_fail(ctx, RT_ERUNTIME, "multinomial: %lld categories, but at most 2^24 can be told apart",
                       (long long)categories);
    if (rt_numel(out) == 0) return RT_OK;
    if (categories == 0) return rt_fail(ctx, RT_ERUNTIME, "multinomial cannot draw from 0 categories");
    return (!replacement || samples == 1 ? choose_different : choose_repeatedly)(ctx, self, out, samples,
                                                                                 rt_call_generator(c));
}
