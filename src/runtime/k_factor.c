/* k_factor.c: factorisations of dense matrices and what is solved with them.
 *
 * Every kernel takes stacks of matrices, copies them row by row into f64 (or complex f64) scratch, works on one matrix
 * at a time, and copies the results into whatever strides and dtype they have. Pivots are counted from 1 and `info` is
 * the first pivot (from 1) that failed, as LAPACK has them, because PyTorch hands both to the user. */
#include "runtime/kernels.h"
#include "runtime/rt_stack.h"

#include <math.h>
#include <string.h>

static inline double size_d(double x) { return fabs(x); }
static inline double size_z(zdouble x) { return fabs(creal(x)) + fabs(cimag(x)); } /* what LAPACK compares pivots by */
static inline double conj_d(double x) { return x; }
static inline zdouble conj_z(zdouble x) { return conj(x); }
static inline double real_d(double x) { return x; }
static inline double real_z(zdouble x) { return creal(x); }

#define DEFINE_FACTORS(T, s)                                                                                           \
    /* a (m x n) becomes its L (below the diagonal, which is all ones) and U; row i was swapped with pivot[i] - 1. */  \
    static int32_t lu_##s(T *a, int64_t m, int64_t n, int32_t *pivot) {                                                \
        int32_t info = 0;                                                                                              \
        for (int64_t k = 0; k < (m < n ? m : n); k++) {                                                                \
            int64_t best = k;                                                                                          \
            for (int64_t i = k + 1; i < m; i++)                                                                        \
                if (size_##s(a[i * n + k]) > size_##s(a[best * n + k])) best = i;                                      \
            pivot[k] = (int32_t)best + 1;                                                                              \
            if (a[best * n + k] == 0) {                                                                                \
                if (!info) info = (int32_t)k + 1;                                                                      \
                continue;                                                                                              \
            }                                                                                                          \
            for (int64_t j = 0; j < n && best != k; j++) {                                                             \
                T swap = a[k * n + j];                                                                                 \
                a[k * n + j] = a[best * n + j];                                                                        \
                a[best * n + j] = swap;                                                                                \
            }                                                                                                          \
            for (int64_t i = k + 1; i < m; i++) {                                                                      \
                T f = a[i * n + k] /= a[k * n + k];                                                                    \
                if (f == 0) continue;                                                                                  \
                for (int64_t j = k + 1; j < n; j++) a[i * n + j] -= f * a[k * n + j];                                  \
            }                                                                                                          \
        }                                                                                                              \
        return info;                                                                                                   \
    }                                                                                                                  \
    /* x (n x k) becomes the solution of op(t) x = x, where t is a triangle of `a`; flip: its conjugate transpose. */  \
    static void triangle_##s(const T *a, int64_t n, T *x, int64_t k, bool upper, bool unit, bool flip) {               \
        bool down = upper == flip; /* first row first */                                                               \
        for (int64_t step = 0; step < n; step++) {                                                                     \
            int64_t i = down ? step : n - 1 - step;                                                                    \
            for (int64_t p = down ? 0 : i + 1; p < (down ? i : n); p++) {                                              \
                T f = flip ? conj_##s(a[p * n + i]) : a[i * n + p];                                                    \
                for (int64_t j = 0; j < k; j++) x[i * k + j] -= f * x[p * k + j];                                      \
            }                                                                                                          \
            if (unit) continue;                                                                                        \
            T d = flip ? conj_##s(a[i * n + i]) : a[i * n + i];                                                        \
            for (int64_t j = 0; j < k; j++) x[i * k + j] /= d;                                                         \
        }                                                                                                              \
    }                                                                                                                  \
    static void swap_rows_##s(T *x, int64_t n, int64_t k, const int32_t *pivot, bool back) {                           \
        for (int64_t step = 0; step < n; step++) {                                                                     \
            int64_t i = back ? n - 1 - step : step, with = pivot[i] - 1;                                               \
            for (int64_t j = 0; j < k && with != i; j++) {                                                             \
                T swap = x[i * k + j];                                                                                 \
                x[i * k + j] = x[with * k + j];                                                                        \
                x[with * k + j] = swap;                                                                                \
            }                                                                                                          \
        }                                                                                                              \
    }                                                                                                                  \
    /* A x = x from A's LU, or with `flip` A^H x = x. */                                                               \
    static void lu_solve_##s(const T *lu, const int32_t *pivot, int64_t n, T *x, int64_t k, bool flip) {               \
        if (!flip) swap_rows_##s(x, n, k, pivot, false);                                                               \
        triangle_##s(lu, n, x, k, flip, !flip, flip);                                                                  \
        triangle_##s(lu, n, x, k, !flip, flip, flip);                                                                  \
        if (flip) swap_rows_##s(x, n, k, pivot, true);                                                                 \
    }                                                                                                                  \
    /* The lower triangle of a becomes L with L L^H = a. */                                                            \
    static int32_t cholesky_##s(T *a, int64_t n) {                                                                     \
        for (int64_t j = 0; j < n; j++) {                                                                              \
            double d = real_##s(a[j * n + j]);                                                                         \
            for (int64_t p = 0; p < j; p++) d -= real_##s(a[j * n + p] * conj_##s(a[j * n + p]));                      \
            a[j * n + j] = d;                                                                                          \
            if (!(d > 0)) return (int32_t)j + 1;                                                                       \
            a[j * n + j] = sqrt(d);                                                                                    \
            for (int64_t i = j + 1; i < n; i++) {                                                                      \
                for (int64_t p = 0; p < j; p++) a[i * n + j] -= a[i * n + p] * conj_##s(a[j * n + p]);                 \
                a[i * n + j] /= a[j * n + j];                                                                          \
            }                                                                                                          \
        }                                                                                                              \
        return 0;                                                                                                      \
    }                                                                                                                  \
    /* a (m x n) becomes R and, below the diagonal, the reflectors whose factors are tau. */                           \
    static void reflect_##s(T *a, int64_t m, int64_t n, T *tau) {                                                      \
        for (int64_t k = 0; k < (m < n ? m : n); k++) {                                                                \
            double rest = 0;                                                                                           \
            T alpha = a[k * n + k];                                                                                    \
            for (int64_t i = k + 1; i < m; i++) rest += real_##s(a[i * n + k] * conj_##s(a[i * n + k]));               \
            tau[k] = 0;                                                                                                \
            if (rest == 0 && real_##s(alpha) == alpha) continue;                                                       \
            double beta = sqrt(real_##s(alpha * conj_##s(alpha)) + rest);                                              \
            if (real_##s(alpha) >= 0) beta = -beta;                                                                    \
            tau[k] = (beta - alpha) / beta;                                                                            \
            for (int64_t i = k + 1; i < m; i++) a[i * n + k] /= alpha - beta;                                          \
            a[k * n + k] = beta;                                                                                       \
            for (int64_t j = k + 1; j < n; j++) {                                                                      \
                T sum = a[k * n + j];                                                                                  \
                for (int64_t i = k + 1; i < m; i++) sum += conj_##s(a[i * n + k]) * a[i * n + j];                      \
                sum *= conj_##s(tau[k]);                                                                               \
                a[k * n + j] -= sum;                                                                                   \
                for (int64_t i = k + 1; i < m; i++) a[i * n + j] -= a[i * n + k] * sum;                                \
            }                                                                                                          \
        }                                                                                                              \
    }                                                                                                                  \
    /* q (m x n): the first n columns of the product of k reflectors, which lie below the diagonal of a (m x n). */    \
    static void product_##s(const T *a, int64_t m, int64_t n, const T *tau, int64_t k, T *q) {                         \
        for (int64_t i = 0; i < m; i++)                                                                                \
            for (int64_t j = 0; j < n; j++) q[i * n + j] = i == j;                                                     \
        for (int64_t r = k - 1; r >= 0; r--)                                                                           \
            for (int64_t j = 0; j < n; j++) {                                                                          \
                T sum = q[r * n + j];                                                                                  \
                for (int64_t i = r + 1; i < m; i++) sum += conj_##s(a[i * n + r]) * q[i * n + j];                      \
                sum *= tau[r];                                                                                         \
                q[r * n + j] -= sum;                                                                                   \
                for (int64_t i = r + 1; i < m; i++) q[i * n + j] -= a[i * n + r] * sum;                                \
            }                                                                                                          \
    }
DEFINE_FACTORS(double, d)
DEFINE_FACTORS(zdouble, z)

/* ---- kernels ---- */

static int singular(const rt_ctx *ctx, const char *what, int64_t batch, int64_t count, int32_t info) {
    if (count == 1) return rt_fail(ctx, RT_ERUNTIME, "%s: the matrix is singular: pivot %d is zero", what, (int)info);
    return rt_fail(ctx, RT_ERUNTIME, "%s: matrix %lld of the batch is singular: pivot %d is zero", what,
                   (long long)batch, (int)info);
}

/* LU of all matrices of `v` (m x n), in place in *lu; *pivot has min(m, n) a matrix, *info one. */
static int factor_all(stack *s, const rt_view *v, char **lu, int32_t **pivot, int32_t **info) {
    int64_t m = v->size[v->rank - 2], n = v->size[v->rank - 1], k = m < n ? m : n, count = batches(v, 2);
    int code = load(s, v, NULL, 2, s->dtype, lu);
    if (code) return code;
    *pivot = take(s, count * k, sizeof **pivot);
    *info = *pivot ? take(s, count, sizeof **info) : NULL;
    if (!*info) return RT_ENOMEM;
    for (int64_t b = 0; b < count; b++) {
        char *a = *lu + b * m * n * s->item;
        (*info)[b] = s->dtype == RT_F64 ? lu_d((double *)a, m, n, *pivot + b * k)
                                        : lu_z((zdouble *)a, m, n, *pivot + b * k);
    }
    return RT_OK;
}

int rt_k_lu_factor(const rt_ctx *ctx, const rt_call *c) { /* A, pivot, check_errors -> LU, pivots, info */
    const rt_view *v = rt_arg_view(c, 0);
    stack s = open_stack(ctx, v->dtype);
    char *lu;
    int32_t *pivot, *info;
    int code = factor_all(&s, v, &lu, &pivot, &info);
    for (int64_t b = 0; b < batches(v, 2) && !code && rt_arg_int(c, 2); b++)
        if (info[b]) code = singular(ctx, "linalg.lu_factor_ex", b, batches(v, 2), info[b]);
    if (!code) code = store(&s, &c->out[0], lu, s.dtype);
    if (!code) code = store(&s, &c->out[1], pivot, RT_I32);
    if (!code) code = store(&s, &c->out[2], info, RT_I32);
    return close_stack(&s, code);
}

/* det -> result, LU, pivots; slogdet -> sign, logabsdet, LU, pivots. */
static int determinant(const rt_ctx *ctx, const rt_call *c, bool logarithm) {
    rt_view turned = *rt_arg_view(c, 0), *v = &turned;
    stack s = open_stack(ctx, v->dtype);
    int64_t n = v->size[v->rank - 1], count = batches(v, 2);
    if (rt_is_contiguous(v) && s.dtype == RT_F64) { /* PyTorch factors the transpose where that lies right for LAPACK */
        int64_t stride = v->stride[v->rank - 1];
        v->stride[v->rank - 1] = v->stride[v->rank - 2];
        v->stride[v->rank - 2] = stride;
    }
    char *lu, *value = NULL;
    double *size = NULL;
    int32_t *pivot, *info;
    int code = factor_all(&s, v, &lu, &pivot, &info);
    if (!code && !((value = take(&s, count, s.item)) && (size = take(&s, count, sizeof *size)))) code = RT_ENOMEM;
    for (int64_t b = 0; b < count && !code; b++) {
        zdouble product = 1;
        double sum = 0;
        for (int64_t i = 0; i < n; i++) {
            int64_t at = b * n * n + i * n + i;
            zdouble d = s.dtype == RT_F64 ? ((double *)lu)[at] : ((zdouble *)lu)[at];
            if (logarithm) {
                sum += log(cabs(d));
                d = d == 0 ? 0 : d / cabs(d);
            }
            product *= d;
            if (pivot[b * n + i] != i + 1) product = -product;
        }
        if (s.dtype == RT_F64) ((double *)value)[b] = creal(product);
        else ((zdouble *)value)[b] = product;
        size[b] = sum;
    }
    if (!code) code = store(&s, &c->out[0], value, s.dtype);
    if (!code && logarithm) code = store(&s, &c->out[1], size, RT_F64);
    if (!code) code = store(&s, &c->out[1 + logarithm], lu, s.dtype);
    if (!code) code = store(&s, &c->out[2 + logarithm], pivot, RT_I32);
    return close_stack(&s, code);
}
int rt_k_linalg_det(const rt_ctx *ctx, const rt_call *c) { return determinant(ctx, c, false); }
int rt_k_linalg_slogdet(const rt_ctx *ctx, const rt_call *c) { return determinant(ctx, c, true); }

static void transpose_into(const stack *s, const char *from, char *to, int64_t rows, int64_t columns, bool conjugate) {
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) {
            if (s->dtype == RT_F64) ((double *)to)[j * rows + i] = ((const double *)from)[i * columns + j];
            else
                ((zdouble *)to)[j * rows + i] = conjugate ? conj(((const zdouble *)from)[i * columns + j])
                                                          : ((const zdouble *)from)[i * columns + j];
        }
}

/* One system from LU. From the right, x A = b is A^H x^H = b^H. */
static void solve_one(const stack *s, const char *lu, const int32_t *pivot, int64_t n, char *x, int64_t rows,
                      int64_t columns, bool left, bool flip, char *turned) {
    char *at = x;
    int64_t k = columns;
    if (!left) {
        transpose_into(s, x, turned, rows, columns, true);
        at = turned, k = rows, flip = !flip;
    }
    if (s->dtype == RT_F64) lu_solve_d((const double *)lu, pivot, n, (double *)at, k, flip);
    else lu_solve_z((const zdouble *)lu, pivot, n, (zdouble *)at, k, flip);
    if (!left) transpose_into(s, turned, x, columns, rows, true);
}

/* Solves with the factors of A, which are repeated for the batches of the result: B, n x k each, or vectors. */
static int solve_all(stack *s, const rt_view *out, const rt_view *b, bool vector, const rt_view *factors,
                     const char *lu, const int32_t *pivot, bool left, bool flip) {
    int dims = vector ? 1 : 2;
    rt_view lead = batch_of(out, dims);
    int64_t n = factors->size[factors->rank - 1], rows = vector ? n : out->size[out->rank - 2],
            columns = vector ? 1 : out->size[out->rank - 1];
    char *x, *turned = take(s, rows * columns, s->item);
    if (!turned) return RT_ENOMEM;
    int code = load(s, b, &lead, dims, s->dtype, &x);
    if (code) return code;
    for (int64_t i = 0; i < full_batches(out, dims); i++) {
        int64_t from = 0, rest = i, step = 1;
        for (int d = lead.rank - 1, own = factors->rank - 3; d >= 0; d--, own--) {
            int64_t at = rest % lead.size[d];
            rest /= lead.size[d];
            if (own < 0) continue;
            if (factors->size[own] != 1) from += at * step;
            step *= factors->size[own];
        }
        solve_one(s, lu + from * n * n * s->item, pivot + from * n, n, x + i * rows * columns * s->item, rows, columns,
                  left, flip, turned);
    }
    return store(s, out, x, s->dtype);
}

/* B is a vector (or a stack of them) where it has one dimension, or the sizes of A but the last. */
static bool is_vector(const rt_view *a, const rt_view *b) {
    if (b->rank == 1) return true;
    if (a->rank - 1 != b->rank) return false;
    for (int d = 0; d < b->rank; d++)
        if (a->size[d] != b->size[d]) return false;
    return true;
}

int rt_k_solve_ex(const rt_ctx *ctx, const rt_call *c) { /* A, B, left, check_errors -> result, LU, pivots, info */
    const rt_view *a = rt_arg_view(c, 0), *b = rt_arg_view(c, 1);
    stack s = open_stack(ctx, a->dtype);
    char *lu;
    int32_t *pivot, *info;
    int code = factor_all(&s, a, &lu, &pivot, &info);
    for (int64_t i = 0; i < batches(a, 2) && !code && rt_arg_int(c, 3); i++)
        if (info[i]) code = singular(ctx, "linalg.solve", i, batches(a, 2), info[i]);
    if (!code) code = solve_all(&s, &c->out[0], b, is_vector(a, b), a, lu, pivot, rt_arg_int(c, 2), false);
    if (!code) code = store(&s, &c->out[1], lu, s.dtype);
    if (!code) code = store(&s, &c->out[2], pivot, RT_I32);
    if (!code) code = store(&s, &c->out[3], info, RT_I32);
    return close_stack(&s, code);
}

int rt_k_lu_solve(const rt_ctx *ctx, const rt_call *c) { /* LU, pivots, B, left, adjoint */
    const rt_view *a = rt_arg_view(c, 0);
    stack s = open_stack(ctx, a->dtype);
    char *lu, *pivots;
    int64_t n = a->size[a->rank - 1];
    int code = load(&s, a, NULL, 2, s.dtype, &lu);
    if (!code) code = load(&s, rt_arg_view(c, 1), NULL, 1, RT_I32, &pivots);
    for (int64_t i = 0; !code && i < batches(a, 2) * n; i++)
        if (((int32_t *)pivots)[i] < 1 || ((int32_t *)pivots)[i] > n)
            code = rt_fail(ctx, RT_ERUNTIME, "linalg.lu_solve: pivots must be between 1 and %lld, got %d", (long long)n,
                           (int)((int32_t *)pivots)[i]);
    if (!code)
        code = solve_all(&s, &c->out[0], rt_arg_view(c, 2), false, a, lu, (int32_t *)pivots, rt_arg_int(c, 3),
                         rt_arg_int(c, 4));
    return close_stack(&s, code);
}

int rt_k_inv_ex(const rt_ctx *ctx, const rt_call *c) { /* A, check_errors -> inverse, info */
    const rt_view *a = rt_arg_view(c, 0);
    stack s = open_stack(ctx, a->dtype);
    int64_t n = a->size[a->rank - 1], count = batches(a, 2);
    char *lu, *x = NULL;
    int32_t *pivot, *info;
    int code = factor_all(&s, a, &lu, &pivot, &info);
    for (int64_t b = 0; b < count && !code && rt_arg_int(c, 1); b++)
        if (info[b]) code = singular(ctx, "linalg.inv", b, count, info[b]);
    if (!code && !(x = take(&s, count * n * n, s.item))) code = RT_ENOMEM;
    for (int64_t b = 0; b < count && !code; b++) {
        char *one = x + b * n * n * s.item;
        memset(one, 0, (size_t)(n * n * s.item));
        for (int64_t i = 0; i < n; i++) *(double *)(one + (i * n + i) * s.item) = 1;
        solve_one(&s, lu + b * n * n * s.item, pivot + b * n, n, one, n, n, true, false, NULL);
    }
    if (!code) code = store(&s, &c->out[0], x, s.dtype);
    if (!code) code = store(&s, &c->out[1], info, RT_I32);
    return close_stack(&s, code);
}

int rt_k_cholesky_ex(const rt_ctx *ctx, const rt_call *c) { /* self, upper, check_errors -> L, info */
    const rt_view *a = rt_arg_view(c, 0);
    stack s = open_stack(ctx, a->dtype);
    int64_t n = a->size[a->rank - 1], count = batches(a, 2);
    bool upper = rt_arg_int(c, 1);
    char *x, *turned = take(&s, n * n, s.item);
    int32_t *info = turned ? take(&s, count, sizeof *info) : NULL;
    int code = info ? load(&s, a, NULL, 2, s.dtype, &x) : RT_ENOMEM;
    for (int64_t b = 0; b < count && !code; b++) {
        char *one = x + b * n * n * s.item, *at = one;
        if (upper) transpose_into(&s, one, at = turned, n, n, true);
        info[b] = s.dtype == RT_F64 ? cholesky_d((double *)at, n) : cholesky_z((zdouble *)at, n);
        if (upper) transpose_into(&s, turned, one, n, n, true);
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < n; j++)
                if (upper ? j < i : j > i) memset(one + (i * n + j) * s.item, 0, (size_t)s.item);
        if (info[b] && rt_arg_int(c, 2))
            code = rt_fail(ctx, RT_ERUNTIME,
                           "linalg.cholesky: matrix %lld is not positive-definite: its leading minor of order %d is "
                           "not",
                           (long long)b, (int)info[b]);
    }
    if (!code) code = store(&s, &c->out[0], x, s.dtype);
    if (!code) code = store(&s, &c->out[1], info, RT_I32);
    return close_stack(&s, code);
}

int rt_k_solve_triangular(const rt_ctx *ctx, const rt_call *c) { /* self, B, upper, left, unitriangular */
    const rt_view *out = &c->out[0];
    stack s = open_stack(ctx, out->dtype);
    rt_view lead = batch_of(out, 2);
    int64_t rows = out->size[out->rank - 2], columns = out->size[out->rank - 1];
    bool upper = rt_arg_int(c, 2), left = rt_arg_int(c, 3), unit = rt_arg_int(c, 4);
    int64_t n = left ? rows : columns, k = left ? columns : rows;
    char *a = NULL, *x = NULL, *turned = take(&s, rows * columns, s.item);
    int code = turned ? load(&s, rt_arg_view(c, 0), &lead, 2, s.dtype, &a) : RT_ENOMEM;
    if (!code) code = load(&s, rt_arg_view(c, 1), &lead, 2, s.dtype, &x);
    for (int64_t b = 0; b < full_batches(out, 2) && !code; b++) {
        char *one = x + b * rows * columns * s.item, *t = a + b * n * n * s.item, *at = one;
        if (!left) transpose_into(&s, one, at = turned, rows, columns, true);
        if (s.dtype == RT_F64) triangle_d((double *)t, n, (double *)at, k, upper, unit, !left);
        else triangle_z((zdouble *)t, n, (zdouble *)at, k, upper, unit, !left);
        if (!left) transpose_into(&s, turned, one, columns, rows, true);
    }
    if (!code) code = store(&s, out, x, s.dtype);
    return close_stack(&s, code);
}

int rt_k_geqrf(const rt_ctx *ctx, const rt_call *c) { /* self -> a, tau */
    const rt_view *v = rt_arg_view(c, 0);
    stack s = open_stack(ctx, v->dtype);
    int64_t m = v->size[v->rank - 2], n = v->size[v->rank - 1], k = m < n ? m : n;
    char *a = NULL, *tau = take(&s, batches(v, 2) * k, s.item);
    int code = tau ? load(&s, v, NULL, 2, s.dtype, &a) : RT_ENOMEM;
    for (int64_t b = 0; b < full_batches(v, 2) && !code; b++) {
        if (s.dtype == RT_F64) reflect_d((double *)a + b * m * n, m, n, (double *)tau + b * k);
        else reflect_z((zdouble *)a + b * m * n, m, n, (zdouble *)tau + b * k);
    }
    if (!code) code = store(&s, &c->out[0], a, s.dtype);
    if (!code) code = store(&s, &c->out[1], tau, s.dtype);
    return close_stack(&s, code);
}

int rt_k_householder_product(const rt_ctx *ctx, const rt_call *c) { /* input, tau */
    const rt_view *v = rt_arg_view(c, 0), *t = rt_arg_view(c, 1);
    stack s = open_stack(ctx, v->dtype);
    int64_t m = v->size[v->rank - 2], n = v->size[v->rank - 1], k = t->size[t->rank - 1];
    char *a = NULL, *tau = NULL, *q = take(&s, rt_numel(v), s.item);
    int code = q ? load(&s, v, NULL, 2, s.dtype, &a) : RT_ENOMEM;
    if (!code) code = load(&s, t, NULL, 1, s.dtype, &tau);
    for (int64_t b = 0; b < full_batches(v, 2) && !code; b++) {
        int64_t at = b * m * n;
        if (s.dtype == RT_F64) product_d((double *)a + at, m, n, (double *)tau + b * k, k, (double *)q + at);
        else product_z((zdouble *)a + at, m, n, (zdouble *)tau + b * k, k, (zdouble *)q + at);
    }
    if (!code) code = store(&s, &c->out[0], q, s.dtype);
    return close_stack(&s, code);
}

/* LU_data, LU_pivots, unpack_data, unpack_pivots -> P, L, U */
int rt_k_lu_unpack(const rt_ctx *ctx, const rt_call *c) {
    const rt_view *v = rt_arg_view(c, 0);
    stack s = open_stack(ctx, v->dtype);
    int64_t m = v->size[v->rank - 2], n = v->size[v->rank - 1], k = m < n ? m : n, count = batches(v, 2);
    bool data = rt_arg_int(c, 2), pivots = rt_arg_int(c, 3);
    char *lu = NULL, *pivot = NULL, *p = NULL, *l = NULL, *u = NULL;
    int64_t *order = take(&s, m, sizeof *order);
    int code = order ? RT_OK : RT_ENOMEM;
    if (!code && data) code = load(&s, v, NULL, 2, s.dtype, &lu);
    if (!code && data && !((l = take(&s, count * m * k, s.item)) && (u = take(&s, count * k * n, s.item))))
        code = RT_ENOMEM;
    if (!code && pivots) code = load(&s, rt_arg_view(c, 1), NULL, 1, RT_I32, &pivot);
    if (!code && pivots && !(p = take(&s, count * m * m, sizeof(double)))) code = RT_ENOMEM;
    for (int64_t b = 0; b < count && !code && pivots; b++) {
        for (int64_t i = 0; i < m; i++) order[i] = i;
        for (int64_t i = 0; i < k && !code; i++) {
            int64_t with = (int64_t)((int32_t *)pivot)[b * k + i] - 1, swap = order[i];
            if (with < 0 || with >= m)
                code = rt_fail(ctx, RT_ERUNTIME, "lu_unpack: pivots must be between 1 and %lld, got %lld", (long long)m,
                               (long long)with + 1);
            else order[i] = order[with], order[with] = swap;
        }
        double *one = (double *)p + b * m * m;
        memset(one, 0, (size_t)(m * m) * sizeof *one);
        for (int64_t i = 0; i < m && !code; i++) one[order[i] * m + i] = 1;
    }
    for (int64_t b = 0; b < count && !code && data; b++)
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < n; j++) {
                const char *from = lu + ((b * m + i) * n + j) * s.item;
                char *low = j < k ? l + ((b * m + i) * k + j) * s.item : NULL,
                     *high = i < k ? u + ((b * k + i) * n + j) * s.item : NULL;
                if (low) memset(low, 0, (size_t)s.item);
                if (high) memset(high, 0, (size_t)s.item);
                if (low && i == j) *(double *)low = 1;
                if (low && i > j) memcpy(low, from, (size_t)s.item);
                if (high && i <= j) memcpy(high, from, (size_t)s.item);
            }
    if (!code && pivots) code = store(&s, &c->out[0], p, RT_F64);
    if (!code && data) code = store(&s, &c->out[1], l, s.dtype);
    if (!code && data) code = store(&s, &c->out[2], u, s.dtype);
    return close_stack(&s, code);
}

int rt_k_linalg_check_errors(const rt_ctx *ctx, const rt_call *c) { /* info, api_name, is_matrix */
    rt_view info;
    void *scratch = NULL;
    int code = rt_contiguous(ctx, rt_arg_view(c, 0), RT_I64, &info, &scratch);
    for (int64_t i = 0; !code && i < rt_numel(&info); i++) {
        long long at = ((const int64_t *)info.p)[i];
        if (at)
            code = rt_fail(ctx, RT_ERUNTIME, "%s: matrix %lld could not be factored: it failed at pivot %lld",
                           c->arg[1].u.str, (long long)i, at);
    }
    rt_scratch_free(ctx, scratch);
    return code;
}
