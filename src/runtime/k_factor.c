/* k_factor.c: factorisations of dense matrices and what is solved with them.
 *
 * Every kernel takes stacks of matrices, copies them row by row into f64 (or complex f64) scratch, works on one matrix
 * at a time, and copies the results into whatever strides and dtype they have. Pivots are counted from 1 and `info` is
 * the first pivot (from 1) that failed, as LAPACK has them, because PyTorch hands both to the user. */
#include "runtime/kernels.h"
#include "runtime/rt_factor.h"
#include "runtime/rt_stack.h"

#include <math.h>
#include <string.h>

/* Matrices of a stack are shared by threads: body(work, i) for each. A result below 0 is -code of an error. */
typedef struct each_matrix { int (*body)(const void *work, int64_t i); const void *work; } each_matrix;

static int run_matrices(void *arg, int64_t begin, int64_t end) {
    const each_matrix *e = arg;
    int code = RT_OK;
    for (int64_t i = begin; i < end && !code; i++) code = e->body(e->work, i);
    return code;
}

/* elements: of one matrix. */
static int for_matrices(const stack *s, int64_t count, int64_t elements, int (*body)(const void *, int64_t),
                        const void *work) {
    each_matrix e = { body, work };
    return rt_parallel_work(s->ctx, count, 8 * elements, 16384, run_matrices, &e);
}

/* ---- kernels ---- */

static int singular(const rt_ctx *ctx, const char *what, int64_t batch, int64_t count, int32_t info) {
    if (count == 1) return rt_fail(ctx, RT_ERUNTIME, "%s: the matrix is singular: pivot %d is zero", what, (int)info);
    return rt_fail(ctx, RT_ERUNTIME, "%s: matrix %lld of the batch is singular: pivot %d is zero", what,
                   (long long)batch, (int)info);
}

typedef struct lu_work { const stack *s; char *lu; int32_t *pivot, *info; int64_t m, n; } lu_work;

static int lu_one(const void *arg, int64_t i) {
    const lu_work *w = arg;
    int64_t k = w->m < w->n ? w->m : w->n;
    int32_t info = rt_lu(w->s->ctx, w->s->dtype, w->lu + i * w->m * w->n * w->s->item, w->n, w->m, w->n,
                         w->pivot + i * k);
    w->info[i] = info;
    return info < 0 ? -info : RT_OK;
}

/* LU of all matrices of `v` (m x n), in place in *lu; *pivot has min(m, n) a matrix, *info one. */
static int factor_all(stack *s, const rt_view *v, char **lu, int32_t **pivot, int32_t **info) {
    int64_t m = v->size[v->rank - 2], n = v->size[v->rank - 1], k = m < n ? m : n, count = batches(v, 2);
    int code = load_stack(s, v, NULL, 2, s->dtype, lu);
    if (code) return code;
    *pivot = take_room(s, count * k, sizeof **pivot);
    *info = *pivot ? take_room(s, count, sizeof **info) : NULL;
    if (!*info) return RT_ENOMEM;
    lu_work w = { s, *lu, *pivot, *info, m, n };
    return for_matrices(s, count, m * n, lu_one, &w);
}

int rt_k_lu_factor(const rt_ctx *ctx, const rt_call *c) { /* A, pivot, check_errors -> LU, pivots, info */
    const rt_view *v = rt_arg_view(c, 0);
    stack s = open_stack(ctx, v->dtype);
    char *lu;
    int32_t *pivot, *info;
    int code = factor_all(&s, v, &lu, &pivot, &info);
    for (int64_t b = 0; b < batches(v, 2) && !code && rt_arg_int(c, 2); b++)
        if (info[b]) code = singular(ctx, "linalg.lu_factor_ex", b, batches(v, 2), info[b]);
    if (!code) code = store_stack(&s, &c->out[0], lu, s.dtype);
    if (!code) code = store_stack(&s, &c->out[1], pivot, RT_I32);
    if (!code) code = store_stack(&s, &c->out[2], info, RT_I32);
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
    if (!code && !((value = take_room(&s, count, s.item)) && (size = take_room(&s, count, sizeof *size))))
        code = RT_ENOMEM;
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
    if (!code) code = store_stack(&s, &c->out[0], value, s.dtype);
    if (!code && logarithm) code = store_stack(&s, &c->out[1], size, RT_F64);
    if (!code) code = store_stack(&s, &c->out[1 + logarithm], lu, s.dtype);
    if (!code) code = store_stack(&s, &c->out[2 + logarithm], pivot, RT_I32);
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

/* A x = x from A's LU, or with `flip` A^H x = x. */
static int lu_solve(const stack *s, const char *lu, const int32_t *pivot, int64_t n, char *x, int64_t k, bool flip) {
    if (!flip) rt_swap_rows(s->dtype, x, n, k, pivot, false);
    int code = rt_solve_triangle(s->ctx, s->dtype, lu, n, x, k, flip, !flip, flip);
    if (!code) code = rt_solve_triangle(s->ctx, s->dtype, lu, n, x, k, !flip, flip, flip);
    if (flip) rt_swap_rows(s->dtype, x, n, k, pivot, true);
    return code;
}

/* One system from LU. From the right, x A = b is A^H x^H = b^H. */
static int solve_one(const stack *s, const char *lu, const int32_t *pivot, int64_t n, char *x, int64_t rows,
                     int64_t columns, bool left, bool flip, char *turned) {
    if (left) return lu_solve(s, lu, pivot, n, x, columns, flip);
    transpose_into(s, x, turned, rows, columns, true);
    int code = lu_solve(s, lu, pivot, n, turned, rows, !flip);
    transpose_into(s, turned, x, columns, rows, true);
    return code;
}

typedef struct solve_work {
    const stack *s;
    const rt_view *factors;
    rt_view lead;
    const char *lu;
    const int32_t *pivot;
    char *x, *turned; /* turned: room for all of x, or NULL */
    int64_t n, rows, columns;
    bool left, flip;
} solve_work;

static int solve_matrix(const void *arg, int64_t i) {
    const solve_work *w = arg;
    int64_t from = 0, rest = i, step = 1, item = w->s->item, all = w->rows * w->columns * item;
    for (int d = w->lead.rank - 1, own = w->factors->rank - 3; d >= 0; d--, own--) {
        int64_t at = rest % w->lead.size[d];
        rest /= w->lead.size[d];
        if (own < 0) continue;
        if (w->factors->size[own] != 1) from += at * step;
        step *= w->factors->size[own];
    }
    return solve_one(w->s, w->lu + from * w->n * w->n * item, w->pivot + from * w->n, w->n, w->x + i * all, w->rows,
                     w->columns, w->left, w->flip, w->turned ? w->turned + i * all : NULL);
}

/* Solves with the factors of A, which are repeated for the batches of the result: B, n x k each, or vectors. */
static int solve_all(stack *s, const rt_view *out, const rt_view *b, bool vector, const rt_view *factors,
                     const char *lu, const int32_t *pivot, bool left, bool flip) {
    int dims = vector ? 1 : 2;
    rt_view lead = batch_of(out, dims);
    int64_t n = factors->size[factors->rank - 1], rows = vector ? n : out->size[out->rank - 2],
            columns = vector ? 1 : out->size[out->rank - 1];
    int64_t count = full_batches(out, dims);
    char *x, *turned = left ? NULL : take_room(s, count * rows * columns, s->item);
    if (!left && !turned) return RT_ENOMEM;
    int code = load_stack(s, b, &lead, dims, s->dtype, &x);
    solve_work w = { s, factors, lead, lu, pivot, x, turned, n, rows, columns, left, flip };
    if (!code) code = for_matrices(s, count, n * (n + columns + rows), solve_matrix, &w);
    return code ? code : store_stack(s, out, x, s->dtype);
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
    if (!code) code = store_stack(&s, &c->out[1], lu, s.dtype);
    if (!code) code = store_stack(&s, &c->out[2], pivot, RT_I32);
    if (!code) code = store_stack(&s, &c->out[3], info, RT_I32);
    return close_stack(&s, code);
}

int rt_k_lu_solve(const rt_ctx *ctx, const rt_call *c) { /* LU, pivots, B, left, adjoint */
    const rt_view *a = rt_arg_view(c, 0);
    stack s = open_stack(ctx, a->dtype);
    char *lu, *pivots;
    int64_t n = a->size[a->rank - 1];
    int code = load_stack(&s, a, NULL, 2, s.dtype, &lu);
    if (!code) code = load_stack(&s, rt_arg_view(c, 1), NULL, 1, RT_I32, &pivots);
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
    if (!code && !(x = take_room(&s, count * n * n, s.item))) code = RT_ENOMEM;
    if (!code) {
        memset(x, 0, (size_t)(count * n * n * s.item));
        for (int64_t b = 0; b < count; b++)
            for (int64_t i = 0; i < n; i++) *(double *)(x + (b * n * n + i * n + i) * s.item) = 1;
        solve_work w = { .s = &s,
                         .factors = a,
                         .lead = batch_of(a, 2),
                         .lu = lu,
                         .pivot = pivot,
                         .x = x,
                         .n = n,
                         .rows = n,
                         .columns = n,
                         .left = true };
        code = for_matrices(&s, count, 2 * n * n, solve_matrix, &w);
    }
    if (!code) code = store_stack(&s, &c->out[0], x, s.dtype);
    if (!code) code = store_stack(&s, &c->out[1], info, RT_I32);
    return close_stack(&s, code);
}

int rt_k_cholesky_ex(const rt_ctx *ctx, const rt_call *c) { /* self, upper, check_errors -> L, info */
    const rt_view *a = rt_arg_view(c, 0);
    stack s = open_stack(ctx, a->dtype);
    int64_t n = a->size[a->rank - 1], count = batches(a, 2);
    bool upper = rt_arg_int(c, 1);
    char *x, *turned = take_room(&s, n * n, s.item);
    int32_t *info = turned ? take_room(&s, count, sizeof *info) : NULL;
    int code = info ? load_stack(&s, a, NULL, 2, s.dtype, &x) : RT_ENOMEM;
    for (int64_t b = 0; b < count && !code; b++) {
        char *one = x + b * n * n * s.item, *at = one;
        if (upper) transpose_into(&s, one, at = turned, n, n, true);
        info[b] = rt_cholesky(ctx, s.dtype, at, n);
        if (info[b] < 0) return close_stack(&s, -info[b]);
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
    if (!code) code = store_stack(&s, &c->out[0], x, s.dtype);
    if (!code) code = store_stack(&s, &c->out[1], info, RT_I32);
    return close_stack(&s, code);
}

int rt_k_solve_triangular(const rt_ctx *ctx, const rt_call *c) { /* self, B, upper, left, unitriangular */
    const rt_view *out = &c->out[0];
    stack s = open_stack(ctx, out->dtype);
    rt_view lead = batch_of(out, 2);
    int64_t rows = out->size[out->rank - 2], columns = out->size[out->rank - 1];
    bool upper = rt_arg_int(c, 2), left = rt_arg_int(c, 3), unit = rt_arg_int(c, 4);
    int64_t n = left ? rows : columns, k = left ? columns : rows;
    char *a = NULL, *x = NULL, *turned = take_room(&s, rows * columns, s.item);
    int code = turned ? load_stack(&s, rt_arg_view(c, 0), &lead, 2, s.dtype, &a) : RT_ENOMEM;
    if (!code) code = load_stack(&s, rt_arg_view(c, 1), &lead, 2, s.dtype, &x);
    for (int64_t b = 0; b < full_batches(out, 2) && !code; b++) {
        char *one = x + b * rows * columns * s.item, *t = a + b * n * n * s.item, *at = one;
        if (!left) transpose_into(&s, one, at = turned, rows, columns, true);
        code = rt_solve_triangle(ctx, s.dtype, t, n, at, k, upper, unit, !left);
        if (!left) transpose_into(&s, turned, one, columns, rows, true);
    }
    if (!code) code = store_stack(&s, out, x, s.dtype);
    return close_stack(&s, code);
}

typedef struct reflect_work { const stack *s; char *a, *tau, *q; int64_t m, n, k; } reflect_work;

static int reflect_one(const void *arg, int64_t i) {
    const reflect_work *w = arg;
    int64_t at = i * w->m * w->n * w->s->item;
    char *tau = w->tau + i * w->k * w->s->item;
    if (!w->q) return rt_reflect(w->s->ctx, w->s->dtype, w->a + at, w->m, w->n, tau);
    return rt_reflector_product(w->s->ctx, w->s->dtype, w->a + at, w->m, w->n, tau, w->k, w->q + at);
}

int rt_k_geqrf(const rt_ctx *ctx, const rt_call *c) { /* self -> a, tau */
    const rt_view *v = rt_arg_view(c, 0);
    stack s = open_stack(ctx, v->dtype);
    int64_t m = v->size[v->rank - 2], n = v->size[v->rank - 1], k = m < n ? m : n;
    char *a = NULL, *tau = take_room(&s, batches(v, 2) * k, s.item);
    int code = tau ? load_stack(&s, v, NULL, 2, s.dtype, &a) : RT_ENOMEM;
    reflect_work w = { &s, a, tau, NULL, m, n, k };
    if (!code) code = for_matrices(&s, full_batches(v, 2), m * n, reflect_one, &w);
    if (!code) code = store_stack(&s, &c->out[0], a, s.dtype);
    if (!code) code = store_stack(&s, &c->out[1], tau, s.dtype);
    return close_stack(&s, code);
}

int rt_k_householder_product(const rt_ctx *ctx, const rt_call *c) { /* input, tau */
    const rt_view *v = rt_arg_view(c, 0), *t = rt_arg_view(c, 1);
    stack s = open_stack(ctx, v->dtype);
    int64_t m = v->size[v->rank - 2], n = v->size[v->rank - 1], k = t->size[t->rank - 1];
    char *a = NULL, *tau = NULL, *q = take_room(&s, rt_numel(v), s.item);
    int code = q ? load_stack(&s, v, NULL, 2, s.dtype, &a) : RT_ENOMEM;
    if (!code) code = load_stack(&s, t, NULL, 1, s.dtype, &tau);
    reflect_work w = { &s, a, tau, q, m, n, k };
    if (!code) code = for_matrices(&s, full_batches(v, 2), m * n, reflect_one, &w);
    if (!code) code = store_stack(&s, &c->out[0], q, s.dtype);
    return close_stack(&s, code);
}

/* LU_data, LU_pivots, unpack_data, unpack_pivots -> P, L, U */
int rt_k_lu_unpack(const rt_ctx *ctx, const rt_call *c) {
    const rt_view *v = rt_arg_view(c, 0);
    stack s = open_stack(ctx, v->dtype);
    int64_t m = v->size[v->rank - 2], n = v->size[v->rank - 1], k = m < n ? m : n, count = batches(v, 2);
    bool data = rt_arg_int(c, 2), pivots = rt_arg_int(c, 3);
    char *lu = NULL, *pivot = NULL, *p = NULL, *l = NULL, *u = NULL;
    int64_t *order = take_room(&s, m, sizeof *order);
    int code = order ? RT_OK : RT_ENOMEM;
    if (!code && data) code = load_stack(&s, v, NULL, 2, s.dtype, &lu);
    if (!code && data && !((l = take_room(&s, count * m * k, s.item)) && (u = take_room(&s, count * k * n, s.item))))
        code = RT_ENOMEM;
    if (!code && pivots) code = load_stack(&s, rt_arg_view(c, 1), NULL, 1, RT_I32, &pivot);
    if (!code && pivots && !(p = take_room(&s, count * m * m, sizeof(double)))) code = RT_ENOMEM;
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
    if (!code && pivots) code = store_stack(&s, &c->out[0], p, RT_F64);
    if (!code && data) code = store_stack(&s, &c->out[1], l, s.dtype);
    if (!code && data) code = store_stack(&s, &c->out[2], u, s.dtype);
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
