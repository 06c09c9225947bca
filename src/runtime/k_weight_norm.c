/* k_weight_norm.c: a weight as lengths and a direction: w = v * (g / |v|), for every slice of v along its first or last
 * dimension, and the derivative.
 *
 * Slices are rows of memory, or columns of it, which are taken WIDTH at a time. Sums are in f64. */
#include "runtime/kernels.h"
#include "runtime/rt_wide.h"

#include <math.h>

enum { WIDTH = 64, LANES = 8 };

typedef struct slices {
    const void *v, *w; /* dense; w: the gradient of the result, or NULL: forward */
    void *out;         /* dense: the result, or the gradient of v */
    const double *g, *norms; /* of every slice; norms: backward only */
    double *lengths;   /* forward: |v|; backward: the gradient of g */
    int64_t n, m;      /* slices, and elements of each */
    bool columns;
} slices;

#define DEFINE_SLICES(T)                                                                                     \
    RT_INLINE double sum_row_##T(const T *x, const T *y, int64_t n) {                                        \
        double lane[LANES] = { 0 }, sum = 0;                                                                 \
        int64_t i = 0;                                                                                       \
        for (; i + LANES <= n; i += LANES)                                                                   \
            for (int k = 0; k < LANES; k++) lane[k] += (double)x[i + k] * (double)y[i + k];                  \
        for (; i < n; i++) sum += (double)x[i] * (double)y[i];                                               \
        for (int k = 0; k < LANES; k++) sum += lane[k];                                                      \
        return sum;                                                                                          \
    }                                                                                                        \
    /* out = (first - second * slope) * scale; forward: v * scale */                                         \
    RT_INLINE void write_##T(const slices *s, const T *v, const T *w, T *out, int64_t n, T scale, T slope) { \
        if (!s->w)                                                                                           \
            for (int64_t i = 0; i < n; i++) out[i] = v[i] * scale;                                           \
        else                                                                                                 \
            for (int64_t i = 0; i < n; i++) out[i] = (w[i] - v[i] * slope) * scale;                          \
    }                                                                                                        \
    RT_INLINE int rows_##T##_body(void *arg, int64_t begin, int64_t end) {                                   \
        const slices *s = arg;                                                                               \
        for (int64_t i = begin; i < end; i++) {                                                              \
            const T *v = (const T *)s->v + i * s->m, *w = s->w ? (const T *)s->w + i * s->m : v;             \
            coefficients by = coefficients_of(s, i, sum_row_##T(v, w, s->m));                                \
            write_##T(s, v, w, (T *)s->out + i * s->m, s->m, (T)by.scale, (T)by.slope);                      \
        }                                                                                                    \
        return RT_OK;                                                                                        \
    }                                                                                                        \
    RT_INLINE int columns_##T##_body(void *arg, int64_t begin, int64_t end) { /* groups of WIDTH columns */  \
        const slices *s = arg;                                                                               \
        for (int64_t group = begin; group < end; group++) {                                                  \
            int64_t first = group * WIDTH, n = s->n - first < WIDTH ? s->n - first : WIDTH;                  \
            const T *v = (const T *)s->v + first, *w = s->w ? (const T *)s->w + first : v;                   \
            double sum[WIDTH] = { 0 };                                                                       \
            T scale[WIDTH], slope[WIDTH], *out = (T *)s->out + first;                                        \
            for (int64_t j = 0; j < s->m; j++)                                                               \
                for (int64_t i = 0; i < n; i++) sum[i] += (double)v[j * s->n + i] * (double)w[j * s->n + i]; \
            for (int64_t i = 0; i < n; i++) {                                                                \
                coefficients by = coefficients_of(s, first + i, sum[i]);                                     \
                scale[i] = (T)by.scale, slope[i] = (T)by.slope;                                              \
            }                                                                                                \
            for (int64_t j = 0; j < s->m; j++, v += s->n, w += s->n, out += s->n)                            \
                for (int64_t i = 0; i < n; i++) out[i] = (s->w ? w[i] - v[i] * slope[i] : v[i]) * scale[i];  \
        }                                                                                                    \
        return RT_OK;                                                                                        \
    }

typedef struct coefficients { double scale, slope; } coefficients;

/* From the sum of a slice's squares, or of its products with the gradient. */
RT_INLINE coefficients coefficients_of(const slices *s, int64_t i, double sum) {
    double norm = s->w ? s->norms[i] : sqrt(sum), along = s->w ? sum / norm : norm;
    s->lengths[i] = along;
    return (coefficients){ s->g[i] / norm, along / norm };
}

DEFINE_SLICES(float)
DEFINE_SLICES(double)
RT_WIDE(rows_float)
RT_WIDE(rows_double)
RT_WIDE(columns_float)
RT_WIDE(columns_double)

/* grad: the gradient of the result, and norms: what the forward form gave; or NULL both. out: two results. */
static int run(const rt_ctx *ctx, const rt_view *v, const rt_view *g, int64_t dim, const rt_view *grad,
               const rt_view *norms, const rt_view *out) {
    int work = v->dtype == RT_F64 ? RT_F64 : RT_F32;
    int64_t numel = rt_numel(v);
    rt_view dense = { 0 };
    void *scratch[6] = { NULL };
    slices s = { .n = v->size[dim], .columns = dim > 0 };
    s.m = s.n ? numel / s.n : 0;
    bool direct = out[0].dtype == work && rt_is_contiguous(&out[0]);
    int code = rt_contiguous(ctx, v, work, &dense, &scratch[0]);
    s.v = dense.p;
    if (!code && grad) code = rt_contiguous(ctx, grad, work, &dense, &scratch[1]), s.w = dense.p;
    if (!code) code = rt_contiguous(ctx, g, RT_F64, &dense, &scratch[2]), s.g = dense.p;
    if (!code && norms) code = rt_contiguous(ctx, norms, RT_F64, &dense, &scratch[3]), s.norms = dense.p;
    if (!code && !(s.lengths = scratch[4] = rt_scratch(ctx, (size_t)s.n * sizeof *s.lengths))) code = RT_ENOMEM;
    if (!code && !direct && !(scratch[5] = rt_scratch(ctx, (size_t)(numel * rt_itemsize(work))))) code = RT_ENOMEM;
    s.out = direct ? out[0].p : scratch[5];
    bool wide = work == RT_F64;
    if (!code && s.columns)
        code = rt_parallel_work(ctx, (s.n + WIDTH - 1) / WIDTH, s.m * WIDTH, 8192,
                                wide ? RT_WIDEST(columns_double) : RT_WIDEST(columns_float), &s);
    else if (!code)
        code = rt_parallel_work(ctx, s.n, s.m, 8192, wide ? RT_WIDEST(rows_double) : RT_WIDEST(rows_float), &s);
    if (!code && !direct) {
        rt_view made = rt_view_contiguous(s.out, work, out[0].rank, out[0].size);
        code = rt_copy(ctx, &out[0], &made);
    }
    if (!code) {
        rt_view lengths = rt_view_contiguous(s.lengths, RT_F64, out[1].rank, out[1].size);
        code = rt_copy(ctx, &out[1], &lengths);
    }
    for (int i = 0; i < 6; i++) rt_scratch_free(ctx, scratch[i]);
    return code;
}

RT_KERNEL(rt_k_weight_norm) { /* v, g, dim */
    return run(ctx, rt_arg_view(c, 0), rt_arg_view(c, 1), rt_arg_int(c, 2), NULL, NULL, c->out);
}

RT_KERNEL(rt_k_weight_norm_backward) { /* grad_w, saved_v, saved_g, saved_norms, dim */
    return run(ctx, rt_arg_view(c, 1), rt_arg_view(c, 2), rt_arg_int(c, 4), rt_arg_view(c, 0), rt_arg_view(c, 3),
               c->out);
}
