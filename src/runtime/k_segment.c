/* k_segment.c: reductions of runs of slices along one axis (segment_reduce), and their gradients.
 *
 * Runs are given by their lengths or by where they begin and end. With leading axes each row has its own. Every run is
 * checked against the data before anything is read; slices outside of all runs belong to none. Sums are kept in the
 * width that PyTorch keeps them in: the tensor's own for f32 and f64, f32 for halves. */
#include "runtime/kernels.h"

#include <math.h>
#include <string.h>

enum { SUM, MEAN, MAXIMUM, MINIMUM, PRODUCT };

static int kind_of(const char *name) {
    if (!strcmp(name, "sum")) return SUM;
    if (!strcmp(name, "mean")) return MEAN;
    if (!strcmp(name, "prod")) return PRODUCT;
    return strstr(name, "max") ? MAXIMUM : MINIMUM;
}

/* data: [rows, length, inner]; results: [rows, runs, inner]; bounds: [rows, runs + 1]. */
typedef struct segments {
    int64_t rows, length, inner, runs, *bounds;
    int kind;
    bool started; /* with an initial value */
    double initial;
} segments;

static double initial_of(int kind) {
    return kind == PRODUCT ? 1 : kind == MAXIMUM ? -INFINITY : kind == MINIMUM ? INFINITY : 0;
}

/* Lengths or offsets as where each run begins, and the last one ends. */
static int read_bounds(const rt_ctx *ctx, const rt_view *given, bool offsets, bool whole, segments *s) {
    rt_view flat;
    void *scratch = NULL;
    int code = rt_contiguous(ctx, given, RT_I64, &flat, &scratch);
    if (code) return code;
    s->bounds = rt_scratch(ctx, (size_t)(s->rows * (s->runs + 1) + 1) * sizeof *s->bounds);
    if (!s->bounds) code = RT_ENOMEM;
    for (int64_t r = 0; r < s->rows && !code; r++) {
        const int64_t *from = (const int64_t *)flat.p + r * (offsets ? s->runs + 1 : s->runs);
        int64_t *to = s->bounds + r * (s->runs + 1), at = 0;
        for (int64_t k = 0; k <= s->runs && !code; k++) {
            to[k] = offsets ? from[k] : at;
            if (to[k] < (k ? to[k - 1] : 0) || to[k] > s->length)
                code = rt_fail(ctx, RT_ERUNTIME,
                               "segment_reduce: run %lld of row %lld ends at %lld; runs go forward from 0 to the %lld "
                               "slices of the data",
                               (long long)k, (long long)r, (long long)to[k], (long long)s->length);
            if (offsets || k == s->runs) continue;
            if (from[k] < 0 || from[k] > s->length)
                code = rt_fail(ctx, RT_ERUNTIME,
                               "segment_reduce: lengths[%lld] is %lld; lengths are from 0 to the %lld slices of the "
                               "data",
                               (long long)k, (long long)from[k], (long long)s->length);
            else at += from[k];
        }
        if (!code && whole && at != s->length)
            code = rt_fail(ctx, RT_ERUNTIME,
                           "segment_reduce: the lengths of row %lld add up to %lld and the data has %lld slices; "
                           "unsafe=True leaves slices out",
                           (long long)r, (long long)at, (long long)s->length);
    }
    rt_scratch_free(ctx, scratch);
    return code;
}

#define DEFINE(T)                                                                                                      \
    static void reduce_##T(const segments *s, const T *data, T *out) {                                                 \
        for (int64_t r = 0; r < s->rows; r++)                                                                          \
            for (int64_t k = 0; k < s->runs; k++) {                                                                    \
                const int64_t *b = s->bounds + r * (s->runs + 1) + k;                                                  \
                for (int64_t i = 0; i < s->inner; i++) {                                                               \
                    T sum = (T)s->initial;                                                                             \
                    for (int64_t j = b[0]; j < b[1]; j++) {                                                            \
                        T x = data[(r * s->length + j) * s->inner + i];                                                \
                        if (s->kind == PRODUCT) sum *= x;                                                              \
                        else if (s->kind == MAXIMUM) sum = x != x || x > sum ? x : sum;                                \
                        else if (s->kind == MINIMUM) sum = x != x || x < sum ? x : sum;                                \
                        else sum += x;                                                                                 \
                    }                                                                                                  \
                    if (s->kind == MEAN && b[1] > b[0]) sum /= (T)(b[1] - b[0]);                                       \
                    if (s->kind == MEAN && b[1] == b[0] && !s->started) sum = (T)NAN;                                  \
                    out[(r * s->runs + k) * s->inner + i] = sum;                                                       \
                }                                                                                                      \
            }                                                                                                          \
    }                                                                                                                  \
    /* The product of all but slice `but`. */                                                                          \
    static T others_##T(const segments *s, const T *data, int64_t begin, int64_t end, int64_t but) {                   \
        T product = (T)s->initial;                                                                                     \
        for (int64_t j = begin; j < end; j++)                                                                          \
            if (j != but) product *= data[j * s->inner];                                                               \
        return product;                                                                                                \
    }                                                                                                                  \
    static void spread_##T(const segments *s, const T *grad, const T *result, const T *data, T *out) {                 \
        for (int64_t r = 0; r < s->rows; r++)                                                                          \
            for (int64_t k = 0; k < s->runs; k++) {                                                                    \
                const int64_t *b = s->bounds + r * (s->runs + 1) + k;                                                  \
                for (int64_t i = 0; i < s->inner; i++) {                                                               \
                    int64_t at = (r * s->runs + k) * s->inner + i, ties = 0;                                           \
                    const T *x = data + r * s->length * s->inner + i;                                                  \
                    T *to = out + r * s->length * s->inner + i, g = grad[at], y = result[at];                          \
                    bool extreme = s->kind == MAXIMUM || s->kind == MINIMUM;                                           \
                    for (int64_t j = b[0]; j < b[1] && extreme; j++)                                                   \
                        ties += x[j * s->inner] != x[j * s->inner] || x[j * s->inner] == y;                            \
                    for (int64_t j = b[0]; j < b[1]; j++) {                                                            \
                        T v = x[j * s->inner];                                                                         \
                        if (extreme) to[j * s->inner] = v != v || v == y ? g / (T)ties : 0;                            \
                        else if (s->kind == MEAN) to[j * s->inner] = g / (T)(b[1] - b[0]);                             \
                        else if (s->kind == SUM) to[j * s->inner] = g;                                                 \
                        else if (v != v || v == 0) to[j * s->inner] = g * others_##T(s, x, b[0], b[1], j);             \
                        else to[j * s->inner] = g * y / v;                                                             \
                    }                                                                                                  \
                }                                                                                                      \
            }                                                                                                          \
    }
DEFINE(float)
DEFINE(double)

static void shape_of(segments *s, const rt_view *data, int axis, const rt_view *given, bool offsets) {
    s->rows = s->inner = 1;
    for (int d = 0; d < axis; d++) s->rows *= data->size[d];
    for (int d = axis + 1; d < data->rank; d++) s->inner *= data->size[d];
    s->length = data->size[axis];
    s->runs = given->size[axis] - offsets;
}

static void start(const rt_call *c, int i, segments *s) {
    s->started = !rt_arg_is_none(c, i);
    s->initial = s->started ? rt_arg_float(c, i) : initial_of(s->kind);
}

/* Tensors as whole numbers of the dtype that is computed in; the result goes back through the last of them. */
static int compute(const rt_ctx *ctx, const rt_view *const *from, int n, const rt_view *out, segments *s) {
    int dtype = out->dtype == RT_F64 ? RT_F64 : RT_F32;
    rt_view in[3];
    void *copied[3] = { NULL }, *result = NULL;
    int code = RT_OK;
    for (int i = 0; i < n && !code; i++) code = rt_contiguous(ctx, from[i], dtype, &in[i], &copied[i]);
    if (!code && !(result = rt_scratch(ctx, (size_t)((rt_numel(out) + 1) * rt_itemsize(dtype))))) code = RT_ENOMEM;
    if (!code) {
        rt_view whole = rt_view_contiguous(result, dtype, out->rank, out->size);
        if (n == 3) memset(result, 0, (size_t)(rt_numel(out) * rt_itemsize(dtype)));
        if (n == 1 && dtype == RT_F64) reduce_double(s, in[0].p, result);
        else if (n == 1) reduce_float(s, in[0].p, result);
        else if (dtype == RT_F64) spread_double(s, in[0].p, in[1].p, in[2].p, result);
        else spread_float(s, in[0].p, in[1].p, in[2].p, result);
        code = rt_copy(ctx, out, &whole);
    }
    for (int i = 0; i < n; i++) rt_scratch_free(ctx, copied[i]);
    rt_scratch_free(ctx, result);
    return code;
}

int rt_k_segment_reduce(const rt_ctx *ctx, const rt_call *c) {
    /* data, reduce, lengths, indices, offsets, axis, unsafe, initial */
    const rt_view *data = rt_arg_view(c, 0), *offsets = rt_arg_view(c, 4);
    const rt_view *given = offsets ? offsets : rt_arg_view(c, 2);
    segments s = { .kind = kind_of(c->arg[1].u.str) };
    shape_of(&s, data, rt_arg_dim(c, 5, data->rank), given, offsets);
    start(c, 7, &s);
    int code = read_bounds(ctx, given, offsets, !offsets && !rt_arg_int(c, 6), &s);
    if (!code) code = compute(ctx, &data, 1, &c->out[0], &s);
    rt_scratch_free(ctx, s.bounds);
    return code;
}

int rt_k_segment_reduce_backward(const rt_ctx *ctx, const rt_call *c) {
    /* grad, output, data, reduce, lengths, offsets, axis, initial */
    const rt_view *all[] = { rt_arg_view(c, 0), rt_arg_view(c, 1), rt_arg_view(c, 2) }, *data = all[2];
    const rt_view *offsets = rt_arg_view(c, 5), *given = offsets ? offsets : rt_arg_view(c, 4);
    segments s = { .kind = kind_of(c->arg[3].u.str) };
    shape_of(&s, data, rt_arg_dim(c, 6, data->rank), given, offsets);
    start(c, 7, &s);
    int code = read_bounds(ctx, given, offsets, false, &s);
    if (!code) code = compute(ctx, all, 3, &c->out[0], &s);
    rt_scratch_free(ctx, s.bounds);
    return code;
}
