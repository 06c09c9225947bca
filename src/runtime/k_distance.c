/* k_distance.c: p-norm distances between rows: of two sets (cdist) and within one (pdist), and their derivatives.
 *
 * Everything is a loop over pairs of rows. A distance is a sum of |a - b|^p in eight lanes, so that it vectorises
 * without changing what is added to what between machines. The derivative of |a - b| along a coordinate is zero where
 * it has none. Euclidean distances of many rows are |a|^2 + |b|^2 - 2ab, by one matrix product; pairs so close that too
 * few digits would be left are computed by their differences after all. Rows of a few numbers are taken many at a
 * time. */
#include "runtime/gemm.h"
#include "runtime/kernels.h"
#include "runtime/rt_wide.h"

#include <math.h>
#include <string.h>

enum { LANES = 8, FEW = 32, STRETCH = 128 };
enum { ZERO, ONE, TWO, MANY, OTHER }; /* which p: the norms with their own formula */

static int kind_of(double p) { return p == 0 ? ZERO : p == 1 ? ONE : p == 2 ? TWO : isinf(p) ? MANY : OTHER; }

#define SUM_LANES(T, term)                                                                                             \
    for (; k + LANES <= n; k += LANES)                                                                                 \
        for (int l = 0; l < LANES; l++) {                                                                              \
            T d = a[k + l] - b[k + l];                                                                                 \
            lane[l] += term;                                                                                           \
        }                                                                                                              \
    for (int l = 0; k < n; k++, l++) {                                                                                 \
        T d = a[k] - b[k];                                                                                             \
        lane[l] += term;                                                                                               \
    }                                                                                                                  \
    for (int l = 0; l < LANES; l++) sum += lane[l];

#define DEFINE_DISTANCE(T, FABS, SQRT, POW)                                                                \
    static T distance_##T(int kind, T p, const T *a, const T *b, int64_t n) {                              \
        T lane[LANES] = { 0 }, sum = 0;                                                                    \
        int64_t k = 0;                                                                                     \
        switch (kind) {                                                                                    \
        case ZERO: SUM_LANES(T, (d != 0)) return sum;                                                      \
        case ONE: SUM_LANES(T, FABS(d)) return sum;                                                        \
        case TWO: SUM_LANES(T, d *d) return SQRT(sum);                                                     \
        case MANY:                                                                                         \
            for (; k < n; k++) {                                                                           \
                T d = FABS(a[k] - b[k]);                                                                   \
                if (d > sum || d != d) sum = d;                                                            \
            }                                                                                              \
            return sum;                                                                                    \
        default: SUM_LANES(T, POW(FABS(d), p)) return POW(sum, 1 / p);                                     \
        }                                                                                                  \
    }                                                                                                      \
    static T factor_##T(int kind, T p, T grad, T dist) {                                                   \
        return kind == TWO ? grad / dist : kind == OTHER ? grad / POW(dist, p - 1) : grad;                 \
    }                                                                                                      \
    /* What a difference d along one coordinate adds to the derivative. */                                 \
    static T slope_at_##T(int kind, T p, T factor, T dist, T d) {                                          \
        T s = (T)(d > 0) - (T)(d < 0);                                                                     \
        if (kind == TWO) return factor * d;                                                                \
        if (kind == ONE) return factor * s;                                                                \
        if (kind == MANY) return FABS(d) == dist ? factor * s : 0;                                         \
        return d == 0 ? 0 : factor * s * POW(FABS(d), p - 1);                                              \
    }                                                                                                      \
    /* to += grad * (derivative of the distance `dist` in a); from gets the opposite */                    \
    static void slope_##T(int kind, T p, T grad, T dist, const T *a, const T *b, double *to, double *from, \
                          int64_t n) {                                                                     \
        T factor = factor_##T(kind, p, grad, dist);                                                        \
        if (kind == ZERO || dist == 0) return;                                                             \
        for (int64_t k = 0; k < n; k++) {                                                                  \
            T g = slope_at_##T(kind, p, factor, dist, a[k] - b[k]);                                        \
            to[k] += g;                                                                                    \
            from[k] -= g;                                                                                  \
        }                                                                                                  \
    }
DEFINE_DISTANCE(float, fabsf, sqrtf, powf)
DEFINE_DISTANCE(double, fabs, sqrt, pow)

typedef struct pairs {
    const void *a, *b, *grad, *dist;
    void *out;
    int64_t rows, others, width; /* rows of `a` and `b` in one batch, and their length */
    double p;
    int kind;
    bool wide;
} pairs;

#define DEFINE_RUNS(T)                                                                                              \
    static int between_##T(void *arg, int64_t begin, int64_t end) { /* rows of all batches */                       \
        const pairs *q = arg;                                                                                       \
        for (int64_t i = begin; i < end; i++) {                                                                     \
            const T *a = (const T *)q->a + i * q->width, *b = (const T *)q->b + i / q->rows * q->others * q->width; \
            T *out = (T *)q->out + i * q->others;                                                                   \
            for (int64_t j = 0; j < q->others; j++)                                                                 \
                out[j] = distance_##T(q->kind, (T)q->p, a, b + j * q->width, q->width);                             \
        }                                                                                                           \
        return RT_OK;                                                                                               \
    }                                                                                                               \
    /* Shares of a few pairs are added in their own class, then in f64. */                                          \
    static void add_slopes_##T(int kind, T p, T factor, T dist, const T *restrict a, const T *restrict b,           \
                               T *restrict to, int64_t n) {                                                         \
        if (kind == TWO)                                                                                            \
            for (int64_t k = 0; k < n; k++) to[k] += factor * (a[k] - b[k]);                                        \
        else if (kind == ONE)                                                                                       \
            for (int64_t k = 0; k < n; k++) to[k] += factor * ((T)(a[k] > b[k]) - (T)(a[k] < b[k]));                \
        else                                                                                                        \
            for (int64_t k = 0; k < n; k++) to[k] += slope_at_##T(kind, p, factor, dist, a[k] - b[k]);              \
    }                                                                                                               \
    static int between_backward_##T(void *arg, int64_t begin, int64_t end) {                                        \
        const pairs *q = arg;                                                                                       \
        T p = (T)q->p, sums[STRETCH];                                                                               \
        for (int64_t i = begin; i < end; i++) {                                                                     \
            const T *a = (const T *)q->a + i * q->width, *b = (const T *)q->b + i / q->rows * q->others * q->width; \
            const T *grad = (const T *)q->grad + i * q->others, *dist = (const T *)q->dist + i * q->others;         \
            double *out = (double *)q->out + i * q->width;                                                          \
            for (int64_t first = 0; first < q->others && q->kind != ZERO; first += FEW)                             \
                for (int64_t at = 0; at < q->width; at += STRETCH) {                                                \
                    int64_t n = q->width - at < STRETCH ? q->width - at : STRETCH;                                  \
                    int64_t last = first + FEW < q->others ? first + FEW : q->others;                               \
                    for (int64_t k = 0; k < n; k++) sums[k] = 0;                                                    \
                    for (int64_t j = first; j < last; j++)                                                          \
                        if (dist[j] != 0)                                                                           \
                            add_slopes_##T(q->kind, p, factor_##T(q->kind, p, grad[j], dist[j]), dist[j], a + at,   \
                                           b + j * q->width + at, sums, n);                                         \
                    for (int64_t k = 0; k < n; k++) out[at + k] += sums[k];                                         \
                }                                                                                                   \
        }                                                                                                           \
        return RT_OK;                                                                                               \
    }                                                                                                               \
    static int within_##T(void *arg, int64_t begin,                                                                 \
                          int64_t end) { /* rows; row i has the pairs (i, i + 1), (i, i + 2), ... */                \
        const pairs *q = arg;                                                                                       \
        const T *a = q->a;                                                                                          \
        for (int64_t i = begin; i < end; i++) {                                                                     \
            T *out = (T *)q->out + i * (2 * q->rows - i - 1) / 2;                                                   \
            for (int64_t j = i + 1; j < q->rows; j++)                                                               \
                *out++ = distance_##T(q->kind, (T)q->p, a + i * q->width, a + j * q->width, q->width);              \
        }                                                                                                           \
        return RT_OK;                                                                                               \
    }                                                                                                               \
    static void within_backward_##T(const pairs *q) {                                                               \
        const T *a = q->a, *grad = q->grad, *dist = q->dist;                                                        \
        double *out = q->out;                                                                                       \
        for (int64_t i = 0, at = 0; i < q->rows; i++)                                                               \
            for (int64_t j = i + 1; j < q->rows; j++, at++)                                                         \
                slope_##T(q->kind, (T)q->p, grad[at], dist[at], a + i * q->width, a + j * q->width,                 \
                          out + i * q->width, out + j * q->width, q->width);                                        \
    }
DEFINE_RUNS(float)
DEFINE_RUNS(double)

/* A view with the batch sizes of `like`: dimensions it lacks or has once are repeated. */
static rt_view broadcast_batch(const rt_view *v, const rt_view *like) {
    rt_view out = *v;
    out.rank = like->rank;
    for (int d = 0; d < like->rank; d++) {
        int from = d - (like->rank - v->rank);
        bool matrix = d >= like->rank - 2;
        out.size[d] = like->size[d];
        out.stride[d] = 0;
        if (from < 0) continue;
        if (matrix) out.size[d] = v->size[from];
        if (v->size[from] == out.size[d]) out.stride[d] = v->stride[from];
    }
    return out;
}

/* Runs over contiguous copies (where needed) of up to four inputs; the result is copied into place. */
typedef struct work {
    void *scratch[5];
    rt_view result;
    int n;
    int dtype;
} work;

static int take(work *w, const rt_ctx *ctx, const rt_view *v, const void **p) {
    rt_view dense;
    int code = rt_contiguous(ctx, v, w->dtype, &dense, &w->scratch[w->n]);
    if (!code) w->n++, *p = dense.p;
    return code;
}

/* Gradients are summed in f64: a row gets a share from every other one. */
static int open_result(work *w, const rt_ctx *ctx, const rt_view *out, int dtype, void **p) {
    size_t bytes = (size_t)(rt_numel(out) * rt_itemsize(dtype));
    if (out->dtype == dtype && rt_is_contiguous(out)) {
        *p = out->p;
    } else {
        *p = w->scratch[w->n++] = rt_scratch(ctx, bytes);
        if (!*p) return RT_ENOMEM;
    }
    if (bytes) memset(*p, 0, bytes);
    w->result = rt_view_contiguous(*p, dtype, out->rank, out->size);
    return RT_OK;
}

static int finish(work *w, const rt_ctx *ctx, const rt_view *out, int code) {
    if (!code && w->result.p != out->p) code = rt_copy(ctx, out, &w->result);
    for (int i = 0; i < 5; i++) rt_scratch_free(ctx, w->scratch[i]);
    return code;
}

static int64_t grain(const pairs *q) { return 1 + 16384 / (q->others * q->width + 1); }

/* ---- euclidean distances by a product ---- */

enum { FEW_ROWS = 25, NEAR = 64 }; /* NEAR: how many times shorter than its rows' lengths a squared distance may be */

typedef struct squares { const pairs *q; void *a, *b; } squares; /* squared lengths of all rows */

#define DEFINE_SQUARES(T, SQRT)                                                                                        \
    static int square_rows_##T(const void *x, int64_t rows, int64_t width, T *to) {                                    \
        for (int64_t i = 0; i < rows; i++) {                                                                           \
            const T *a = (const T *)x + i * width;                                                                     \
            double lane[LANES] = { 0 }, sum = 0;                                                                       \
            for (int64_t k = 0; k < width; k++) lane[k % LANES] += (double)a[k] * (double)a[k];                        \
            for (int l = 0; l < LANES; l++) sum += lane[l];                                                            \
            to[i] = (T)sum;                                                                                            \
        }                                                                                                              \
        return RT_OK;                                                                                                  \
    }                                                                                                                  \
    /* Rows of -2ab become distances. */                                                                               \
    static int finish_##T(void *arg, int64_t begin, int64_t end) {                                                     \
        const squares *s = arg;                                                                                        \
        const pairs *q = s->q;                                                                                         \
        for (int64_t i = begin; i < end; i++) {                                                                        \
            int64_t other = i / q->rows * q->others;                                                                   \
            T own = ((const T *)s->a)[i], *out = (T *)q->out + i * q->others;                                          \
            const T *theirs = (const T *)s->b + other, *a = (const T *)q->a + i * q->width;                            \
            for (int64_t j = 0; j < q->others; j++) {                                                                  \
                T both = own + theirs[j], square = out[j] + both;                                                      \
                if (square * NEAR > both && both < (T)1e30) out[j] = SQRT(square);                                     \
                else out[j] = distance_##T(TWO, 2, a, (const T *)q->b + (other + j) * q->width, q->width);             \
            }                                                                                                          \
        }                                                                                                              \
        return RT_OK;                                                                                                  \
    }
DEFINE_SQUARES(float, sqrtf)
DEFINE_SQUARES(double, sqrt)

static int by_product(const rt_ctx *ctx, pairs *q, int64_t batch) {
    int dtype = q->wide ? RT_F64 : RT_F32;
    int64_t item = rt_itemsize(dtype), rows = batch * q->rows, others = batch * q->others;
    rt_gemm_args g = rt_gemm_plain(dtype, q->rows, q->others, q->width, q->a, q->b, q->out);
    g.b_row = 1, g.b_col = q->width;
    g.batch = batch, g.a_batch = q->rows * q->width, g.b_batch = q->others * q->width, g.c_batch = q->rows * q->others;
    g.alpha = (rt_scalar){ RT_ARG_INT, -2, -2, 0 };
    char *room = rt_scratch(ctx, (size_t)((rows + others) * item));
    if (!room) return RT_ENOMEM;
    squares s = { q, room, room + rows * item };
    if (q->wide) square_rows_double(q->a, rows, q->width, s.a), square_rows_double(q->b, others, q->width, s.b);
    else square_rows_float(q->a, rows, q->width, s.a), square_rows_float(q->b, others, q->width, s.b);
    int code = rt_gemm(ctx, &g);
    if (!code) code = rt_parallel_work(ctx, rows, q->others, 2048, q->wide ? finish_double : finish_float, &s);
    rt_scratch_free(ctx, room);
    return code;
}

/* ---- rows of a few numbers ---- */

/* Points of two or three coordinates: BLOCK of the other rows side by side, which lie by columns. A sum has less than
 * LANES terms, in their order, as distance() adds them. */
enum { BLOCK = 64 };

typedef struct narrow {
    const pairs *q;
    void *columns;
} narrow;

#define DEFINE_NARROW(T, FABS, SQRT)                                                                                \
    static void by_columns_##T(const pairs *q, int64_t batch, T *to) {                                              \
        for (int64_t i = 0; i < batch; i++)                                                                         \
            for (int64_t j = 0; j < q->others; j++)                                                                 \
                for (int64_t k = 0; k < q->width; k++)                                                              \
                    to[(i * q->width + k) * q->others + j] = ((const T *)q->b)[(i * q->others + j) * q->width + k]; \
    }                                                                                                               \
    RT_INLINE void narrow_block_##T(const pairs *q, const T *a, const T *b, int n, T *out) {                        \
        T sum[BLOCK] = { 0 };                                                                                       \
        for (int64_t k = 0; k < q->width; k++, b += q->others) {                                                    \
            T own = a[k];                                                                                           \
            if (q->kind == TWO)                                                                                     \
                for (int l = 0; l < n; l++) sum[l] += (own - b[l]) * (own - b[l]);                                  \
            else if (q->kind == ONE)                                                                                \
                for (int l = 0; l < n; l++) sum[l] += FABS(own - b[l]);                                             \
            else                                                                                                    \
                for (int l = 0; l < n; l++) sum[l] += own - b[l] != 0;                                              \
        }                                                                                                           \
        for (int l = 0; l < n; l++) out[l] = q->kind == TWO ? SQRT(sum[l]) : sum[l];                                \
    }                                                                                                               \
    RT_INLINE int narrow_##T##_body(void *arg, int64_t begin, int64_t end) { /* rows of all batches */              \
        const narrow *w = arg;                                                                                      \
        const pairs *q = w->q;                                                                                      \
        for (int64_t i = begin; i < end; i++) {                                                                     \
            const T *a = (const T *)q->a + i * q->width;                                                            \
            const T *b = (const T *)w->columns + i / q->rows * q->others * q->width;                                \
            T *out = (T *)q->out + i * q->others;                                                                   \
            int64_t j = 0;                                                                                          \
            for (; j + BLOCK <= q->others; j += BLOCK) narrow_block_##T(q, a, b + j, BLOCK, out + j);               \
            if (j < q->others) narrow_block_##T(q, a, b + j, (int)(q->others - j), out + j);                        \
        }                                                                                                           \
        return RT_OK;                                                                                               \
    }                                                                                                               \
    RT_WIDE(narrow_##T)
DEFINE_NARROW(float, fabsf, sqrtf)
DEFINE_NARROW(double, fabs, sqrt)

static int by_columns(const rt_ctx *ctx, pairs *q, int64_t batch) {
    int64_t n = batch * q->others * q->width;
    narrow w = { q, rt_scratch(ctx, (size_t)(n * rt_itemsize(q->wide ? RT_F64 : RT_F32))) };
    if (!w.columns) return RT_ENOMEM;
    if (q->wide) by_columns_double(q, batch, w.columns);
    else by_columns_float(q, batch, w.columns);
    int code = rt_parallel_for(ctx, batch * q->rows, grain(q),
                               q->wide ? RT_WIDEST(narrow_double) : RT_WIDEST(narrow_float), &w);
    rt_scratch_free(ctx, w.columns);
    return code;
}

int rt_k_cdist(const rt_ctx *ctx, const rt_call *c) { /* x1, x2, p, compute_mode */
    const rt_view *out = &c->out[0];
    work w = { .dtype = out->dtype == RT_F64 ? RT_F64 : RT_F32 };
    rt_view a = broadcast_batch(rt_arg_view(c, 0), out), b = broadcast_batch(rt_arg_view(c, 1), out);
    pairs q = { .rows = a.size[a.rank - 2],
                .others = b.size[b.rank - 2],
                .width = a.size[a.rank - 1],
                .p = rt_arg_float(c, 2),
                .wide = w.dtype == RT_F64 };
    q.kind = kind_of(q.p);
    int code = take(&w, ctx, &a, &q.a);
    if (!code) code = take(&w, ctx, &b, &q.b);
    if (!code) code = open_result(&w, ctx, out, w.dtype, &q.out);
    int64_t numel = rt_numel(out);
    bool product = q.kind == TWO && q.width >= 4 * LANES && (q.rows > FEW_ROWS || q.others > FEW_ROWS);
    bool few = q.kind <= TWO && q.width < LANES && q.rows > 1 && q.others > 1;
    if (!code && numel && product) code = by_product(ctx, &q, numel / (q.rows * q.others));
    else if (!code && numel && few) code = by_columns(ctx, &q, numel / (q.rows * q.others));
    else if (!code && numel)
        code = rt_parallel_for(ctx, numel / q.others, grain(&q), q.wide ? between_double : between_float, &q);
    return finish(&w, ctx, out, code);
}

int rt_k_cdist_backward(const rt_ctx *ctx, const rt_call *c) { /* grad, x1, x2, p, cdist */
    const rt_view *out = &c->out[0];
    work w = { .dtype = out->dtype == RT_F64 ? RT_F64 : RT_F32 };
    rt_view a = broadcast_batch(rt_arg_view(c, 1), out), b = broadcast_batch(rt_arg_view(c, 2), out);
    pairs q = { .rows = a.size[a.rank - 2],
                .others = b.size[b.rank - 2],
                .width = a.size[a.rank - 1],
                .p = rt_arg_float(c, 3),
                .wide = w.dtype == RT_F64 };
    q.kind = kind_of(q.p);
    int code = take(&w, ctx, &a, &q.a);
    if (!code) code = take(&w, ctx, &b, &q.b);
    if (!code) code = take(&w, ctx, rt_arg_view(c, 0), &q.grad);
    if (!code) code = take(&w, ctx, rt_arg_view(c, 4), &q.dist);
    if (!code) code = open_result(&w, ctx, out, RT_F64, &q.out);
    if (!code && rt_numel(out))
        code = rt_parallel_for(ctx, rt_numel(out) / q.width, grain(&q),
                               q.wide ? between_backward_double : between_backward_float, &q);
    return finish(&w, ctx, out, code);
}

int rt_k_pdist(const rt_ctx *ctx, const rt_call *c) { /* self, p */
    const rt_view *self = rt_arg_view(c, 0), *out = &c->out[0];
    work w = { .dtype = out->dtype == RT_F64 ? RT_F64 : RT_F32 };
    pairs q = { .rows = self->size[0],
                .others = self->size[0] / 2,
                .width = self->size[1],
                .p = rt_arg_float(c, 1),
                .wide = w.dtype == RT_F64 };
    q.kind = kind_of(q.p);
    int code = take(&w, ctx, self, &q.a);
    if (!code) code = open_result(&w, ctx, out, w.dtype, &q.out);
    if (!code) code = rt_parallel_for(ctx, q.rows, grain(&q), q.wide ? within_double : within_float, &q);
    return finish(&w, ctx, out, code);
}

int rt_k_pdist_backward(const rt_ctx *ctx, const rt_call *c) { /* grad, self, p, pdist */
    const rt_view *self = rt_arg_view(c, 1), *out = &c->out[0];
    work w = { .dtype = out->dtype == RT_F64 ? RT_F64 : RT_F32 };
    pairs q = { .rows = self->size[0], .width = self->size[1], .p = rt_arg_float(c, 2), .wide = w.dtype == RT_F64 };
    q.kind = kind_of(q.p);
    int code = take(&w, ctx, self, &q.a);
    if (!code) code = take(&w, ctx, rt_arg_view(c, 0), &q.grad);
    if (!code) code = take(&w, ctx, rt_arg_view(c, 3), &q.dist);
    if (!code) code = open_result(&w, ctx, out, RT_F64, &q.out);
    if (!code && q.wide) within_backward_double(&q);
    if (!code && !q.wide) within_backward_float(&q);
    return finish(&w, ctx, out, code);
}
