/* k_factor.c: factorisations of dense matrices and what is solved with them.
 *
 * Every kernel takes stacks of matrices, copies them into scratch (rt_stack.h; LU column by column, all others row by
 * row), works on one matrix at a time, and copies the results into whatever strides and dtype they have. Pivots are
 * counted from 1 and `info` is the first pivot (from 1) that failed, as LAPACK has them, because PyTorch hands both to
 * the user. */
#include "runtime/kernels.h"
#include "runtime/rt_factor.h"
#include "runtime/rt_stack.h"

#include <math.h>
#include <string.h>

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
    int32_t info = rt_factor(w->s->dtype)->lu(w->s->ctx, w->lu + i * w->m * w->n * w->s->item, w->m, w->m, w->n,
                                              w->pivot + i * k);
    w->info[i] = info;
    return info < 0 ? -info : RT_OK;
}

/* LU of all matrices of `v` (m x n), column by column in *lu, which is the memory of `out` (or NULL) where that lies
 * so; *pivot has min(m, n) a matrix, *info one. */
static int factor_all(stack *s, const rt_view *v, const rt_view *out, char **lu, int32_t **pivot, int32_t **info) {
    int64_t m = v->size[v->rank - 2], n = v->size[v->rank - 1], k = m < n ? m : n, count = batches(v, 2);
    rt_view turned = turned_view(v), to = turned_view(out ? out : v);
    bool direct = out && out->dtype == s->dtype && rt_is_contiguous(&to);
    int code = direct ? rt_copy(s->ctx, &to, &turned) : load_stack(s, &turned, NULL, 2, s->dtype, lu);
    if (direct) *lu = to.p;
    if (code) return code;
    *pivot = take_room(s, count * k, sizeof **pivot);
    *info = *pivot ? take_room(s, count, sizeof **info) : NULL;
    if (!*info) return RT_ENOMEM;
    lu_work w = { s, *lu, *pivot, *info, m, n };
    return for_matrices(s, count, m * n, lu_one, &w);
}

static int store_lu(stack *s, const rt_view *out, char *lu) {
    rt_view turned = turned_view(out);
    return out->p == lu ? RT_OK : store_stack(s, &turned, lu, s->dtype);
}

int rt_k_lu_factor(const rt_ctx *ctx, const rt_call *c) { /* A, pivot, check_errors -> LU, pivots, info */
    const rt_view *v = rt_arg_view(c, 0);
    stack s = open_stack_of(ctx, v);
    char *lu;
    int32_t *pivot, *info;
    int code = factor_all(&s, v, &c->out[0], &lu, &pivot, &info);
    for (int64_t b = 0; b < batches(v, 2) && !code && rt_arg_int(c, 2); b++)
        if (info[b]) code = singular(ctx, "linalg.lu_factor_ex", b, batches(v, 2), info[b]);
    if (!code) code = store_lu(&s, &c->out[0], lu);
    if (!code) code = store_stack(&s, &c->out[1], pivot, RT_I32);
    if (!code) code = store_stack(&s, &c->out[2], info, RT_I32);
    return close_stack(&s, code);
}

/* det -> result, LU, pivots; slogdet -> sign, logabsdet, LU, pivots. */
static int determinant(const rt_ctx *ctx, const rt_call *c, bool logarithm) {
    rt_view turned = *rt_arg_view(c, 0), *v = &turned;
    stack s = open_stack_of(ctx, v);
    int64_t n = v->size[v->rank - 1], count = batches(v, 2);
    bool real = s.dtype != RT_C128;
    if (rt_is_contiguous(v) && real) { /* PyTorch factors the transpose where that lies right for LAPACK */
        turned = turned_view(v);
    }
    char *lu;
    zdouble *value = NULL;
    double *size = NULL;
    int32_t *pivot, *info;
    int code = factor_all(&s, v, &c->out[1 + logarithm], &lu, &pivot, &info);
    if (!code && !((value = take_room(&s, count, sizeof *value)) && (size = take_room(&s, count, sizeof *size))))
        code = RT_ENOMEM;
    for (int64_t b = 0; b < count && !code; b++) {
        zdouble product = 1;
        double sum = 0;
        for (int64_t i = 0; i < n; i++) {
            int64_t at = b * n * n + i * n + i;
            zdouble d = s.dtype == RT_F32 ? ((float *)lu)[at] : real ? ((double *)lu)[at] : ((zdouble *)lu)[at];
            if (logarithm) {
                sum += log(cabs(d));
                d = d == 0 ? 0 : d / cabs(d);
            }
            product *= d;
            if (pivot[b * n + i] != i + 1) product = -product;
        }
        value[b] = product;
        size[b] = sum;
    }
    if (!code) code = store_stack(&s, &c->out[0], value, RT_C128);
    if (!code && logarithm) code = store_stack(&s, &c->out[1], size, RT_F64);
    if (!code) code = store_lu(&s, &c->out[1 + logarithm], lu);
    if (!code) code = store_stack(&s, &c->out[2 + logarithm], pivot, RT_I32);
    return close_stack(&s, code);
}
int rt_k_linalg_det(const rt_ctx *ctx, const rt_call *c) { return determinant(ctx, c, false); }
int rt_k_linalg_slogdet(const rt_ctx *ctx, const rt_call *c) { return determinant(ctx, c, true); }

/* to (columns x rows) becomes the conjugate transpose of from. */
static int transpose_into(const stack *s, const char *from, char *to, int64_t rows, int64_t columns) {
    rt_view x = { (void *)from, { columns, rows }, { 1, columns }, 2, s->dtype };
    int64_t size[2] = { columns, rows };
    rt_view y = rt_view_contiguous(to, s->dtype, 2, size);
    int code = rt_copy(s->ctx, &y, &x);
    for (int64_t i = 0; i < rows * columns && s->dtype == RT_C128; i++) ((zdouble *)to)[i] = conj(((zdouble *)to)[i]);
    return code;
}

/* A x = x from A's LU, or with `flip` A^H x = x. */
static int lu_solve(const stack *s, const char *lu, const int32_t *pivot, int64_t n, char *x, int64_t k, bool flip) {
    const rt_factor_loops *f = rt_factor(s->dtype);
    if (!flip) f->swap_rows(x, n, k, pivot, false);
    int code = f->solve_triangle(s->ctx, lu, 1, n, n, x, k, flip, !flip, flip);
    if (!code) code = f->solve_triangle(s->ctx, lu, 1, n, n, x, k, !flip, flip, flip);
    if (flip) f->swap_rows(x, n, k, pivot, true);
    return code;
}

/* One system from LU. From the right, x A = b is A^H x^H = b^H. */
static int solve_one(const stack *s, const char *lu, const int32_t *pivot, int64_t n, char *x, int64_t rows,
                     int64_t columns, bool left, bool flip, char *turned) {
    if (left) return lu_solve(s, lu, pivot, n, x, columns, flip);
    int code = transpose_into(s, x, turned, rows, columns);
    if (!code) code = lu_solve(s, lu, pivot, n, turned, rows, !flip);
    return code ? code : transpose_into(s, turned, x, columns, rows);
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
    stack s = open_stack_of(ctx, a);
    char *lu;
    int32_t *pivot, *info;
    int code = factor_all(&s, a, &c->out[1], &lu, &pivot, &info);
    for (int64_t i = 0; i < batches(a, 2) && !code && rt_arg_int(c, 3); i++)
        if (info[i]) code = singular(ctx, "linalg.solve", i, batches(a, 2), info[i]);
    if (!code) code = solve_all(&s, &c->out[0], b, is_vector(a, b), a, lu, pivot, rt_arg_int(c, 2), false);
    if (!code) code = store_lu(&s, &c->out[1], lu);
    if (!code) code = store_stack(&s, &c->out[2], pivot, RT_I32);
    if (!code) code = store_stack(&s, &c->out[3], info, RT_I32);
    return close_stack(&s, code);
}

int rt_k_lu_solve(const rt_ctx *ctx, const rt_call *c) { /* LU, pivots, B, left, adjoint */
    const rt_view *a = rt_arg_view(c, 0), turned = turned_view(a);
    stack s = open_stack_of(ctx, a);
    char *lu, *pivots;
    int64_t n = a->size[a->rank - 1];
    int code = load_stack(&s, &turned, NULL, 2, s.dtype, &lu);
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

static void put_one(const stack *s, char *x, int64_t at) {
    if (s->dtype == RT_F32) ((float *)x)[at] = 1;
    else *(double *)(x + at * s->item) = 1;
}

/* Room for a result of matrices that lie column by column: its own where it lies so, too. store_lu copies others. */
static char *result_room(stack *s, const rt_view *out) {
    rt_view turned = turned_view(out);
    if (out->dtype == s->dtype && rt_is_contiguous(&turned)) return out->p;
    return take_room(s, rt_numel(out), s->item);
}

typedef struct inverse_work { const stack *s; char *factor, *x; const int32_t *pivot; int64_t n; } inverse_work;

static int inverse_one(const void *arg, int64_t i) {
    const inverse_work *w = arg;
    int64_t at = i * w->n * w->n * w->s->item;
    const rt_factor_loops *f = rt_factor(w->s->dtype);
    return w->pivot ? f->lu_inverse(w->s->ctx, w->factor + at, w->n, w->pivot + i * w->n, w->x + at)
                    : f->cholesky_inverse(w->s->ctx, w->factor + at, w->n, w->x + at);
}

int rt_k_inv_ex(const rt_ctx *ctx, const rt_call *c) { /* A, check_errors -> inverse, info */
    const rt_view *a = rt_arg_view(c, 0);
    stack s = open_stack_of(ctx, a);
    int64_t n = a->size[a->rank - 1], count = batches(a, 2);
    char *lu, *x = NULL;
    int32_t *pivot, *info;
    int code = factor_all(&s, a, NULL, &lu, &pivot, &info);
    for (int64_t b = 0; b < count && !code && rt_arg_int(c, 1); b++)
        if (info[b]) code = singular(ctx, "linalg.inv", b, count, info[b]);
    if (!code && rt_numel(a) && !(x = result_room(&s, &c->out[0]))) code = RT_ENOMEM;
    inverse_work w = { &s, lu, x, pivot, n };
    if (!code && x) code = for_matrices(&s, count, 2 * n * n, inverse_one, &w);
    if (!code && x) code = store_lu(&s, &c->out[0], x);
    if (!code) code = store_stack(&s, &c->out[1], info, RT_I32);
    return close_stack(&s, code);
}

static bool is_zero(const stack *s, const char *x) {
    if (s->dtype == RT_F32) return *(const float *)x == 0;
    return *(const double *)x == 0 && (s->dtype == RT_F64 || ((const double *)x)[1] == 0);
}

/* Of an upper factor the transpose is a lower one, of the transposed matrix. */
int rt_k_cholesky_inverse(const rt_ctx *ctx, const rt_call *c) { /* self, upper */
    const rt_view *a = rt_arg_view(c, 0), *out = &c->out[0];
    bool upper = rt_arg_int(c, 1);
    rt_view from = upper ? turned_view(a) : *a;
    stack s = open_stack_of(ctx, a);
    int64_t n = a->size[a->rank - 1], count = full_batches(a, 2);
    if (!count) return RT_OK;
    char *l = NULL, *x = NULL;
    int code = load_stack(&s, &from, NULL, 2, s.dtype, &l);
    for (int64_t i = 0; i < count * n && !code; i++)
        if (is_zero(&s, l + (i * n + i % n) * s.item))
            code = rt_fail(ctx, RT_ERUNTIME, "cholesky_inverse: matrix %lld is singular: diagonal element %lld is zero",
                           (long long)(i / n), (long long)(i % n + 1));
    bool columns = upper || s.dtype != RT_C128; /* what is real is its own transpose */
    if (!code && !(x = columns ? result_room(&s, out) : take_room(&s, rt_numel(out), s.item))) code = RT_ENOMEM;
    inverse_work w = { &s, l, x, NULL, n };
    if (!code) code = for_matrices(&s, count, 2 * n * n, inverse_one, &w);
    if (!code) code = columns ? store_lu(&s, out, x) : store_stack(&s, out, x, s.dtype);
    return close_stack(&s, code);
}

typedef struct cholesky_work { const stack *s; char *x; int32_t *info; int64_t n; } cholesky_work;

static int cholesky_one(const void *arg, int64_t i) {
    const cholesky_work *w = arg;
    int64_t n = w->n, item = w->s->item;
    char *x = w->x + i * n * n * item;
    w->info[i] = rt_factor(w->s->dtype)->cholesky(w->s->ctx, x, n, n);
    for (int64_t k = 0; k < n; k++) memset(x + (k * n + k + 1) * item, 0, (size_t)((n - k - 1) * item));
    return w->info[i] < 0 ? -w->info[i] : RT_OK;
}

/* The upper factor of a Hermitian matrix is the conjugate of what its transpose has below. */
int rt_k_cholesky_ex(const rt_ctx *ctx, const rt_call *c) { /* self, upper, check_errors -> L, info */
    bool upper = rt_arg_int(c, 1);
    const rt_view *a = rt_arg_view(c, 0);
    rt_view from = upper ? turned_view(a) : *a, to = upper ? turned_view(&c->out[0]) : c->out[0];
    stack s = open_stack_of(ctx, a);
    int64_t n = a->size[a->rank - 1], count = batches(a, 2);
    char *x = NULL;
    int32_t *info = take_room(&s, count, sizeof *info);
    int code = info ? load_stack(&s, &from, NULL, 2, s.dtype, &x) : RT_ENOMEM;
    cholesky_work w = { &s, x, info, n };
    if (!code) code = for_matrices(&s, count, n * n, cholesky_one, &w);
    for (int64_t b = 0; b < count && !code && rt_arg_int(c, 2); b++)
        if (info[b])
            code = rt_fail(ctx, RT_ERUNTIME,
                           "linalg.cholesky: matrix %lld is not positive-definite: its leading minor of order %d is "
                           "not",
                           (long long)b, (int)info[b]);
    if (!code) code = store_stack(&s, &to, x, s.dtype);
    if (!code) code = store_stack(&s, &c->out[1], info, RT_I32);
    return close_stack(&s, code);
}

typedef struct triangle_work {
    const stack *s;
    const char *t;
    char *x;
    int64_t n, k;
    bool upper, unit, flip;
} triangle_work;

static int triangle_one(const void *arg, int64_t i) {
    const triangle_work *w = arg;
    int64_t n = w->n, item = w->s->item;
    return rt_factor(w->s->dtype)->solve_triangle(w->s->ctx, w->t + i * n * n * item, w->flip ? 1 : n, w->flip ? n : 1,
                                                  n, w->x + i * n * w->k * item, w->k, w->upper != w->flip, w->unit,
                                                  false);
}

/* From the right, x A = b is A^T x^T = b^T. */
int rt_k_solve_triangular(const rt_ctx *ctx, const rt_call *c) { /* self, B, upper, left, unitriangular */
    bool upper = rt_arg_int(c, 2), left = rt_arg_int(c, 3), unit = rt_arg_int(c, 4);
    const rt_view *self = rt_arg_view(c, 0), *out = &c->out[0];
    rt_view b = left ? *rt_arg_view(c, 1) : turned_view(rt_arg_view(c, 1)), to = left ? *out : turned_view(out);
    rt_view lead = batch_of(out, 2);
    stack s = open_stack_of(ctx, self);
    char *a = NULL, *x = NULL;
    int code = load_stack(&s, self, &lead, 2, s.dtype, &a);
    if (!code) code = load_stack(&s, &b, &lead, 2, s.dtype, &x);
    int64_t n = to.size[to.rank - 2], k = to.size[to.rank - 1];
    triangle_work w = { .s = &s, .t = a, .x = x, .n = n, .k = k, .upper = upper, .unit = unit, .flip = !left };
    if (!code) code = for_matrices(&s, full_batches(out, 2), n * (n + k), triangle_one, &w);
    if (!code) code = store_stack(&s, &to, x, s.dtype);
    return close_stack(&s, code);
}

typedef struct reflect_work { const stack *s; char *a, *tau, *q; int64_t m, n, k; } reflect_work;

static int reflect_one(const void *arg, int64_t i) {
    const reflect_work *w = arg;
    int64_t at = i * w->m * w->n * w->s->item;
    char *tau = w->tau + i * w->k * w->s->item;
    const rt_factor_loops *f = rt_factor(w->s->dtype);
    if (!w->q) return f->reflect(w->s->ctx, w->a + at, w->m, w->n, w->k, tau);
    return f->reflector_product(w->s->ctx, w->a + at, w->m, w->n, tau, w->k, w->q + at);
}

int rt_k_geqrf(const rt_ctx *ctx, const rt_call *c) { /* self -> a, tau */
    const rt_view *v = rt_arg_view(c, 0);
    stack s = open_stack_of(ctx, v);
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
    stack s = open_stack_of(ctx, v);
    int64_t m = v->size[v->rank - 2], n = v->size[v->rank - 1], k = t->size[t->rank - 1];
    char *a = NULL, *tau = NULL, *q = take_room(&s, rt_numel(v), s.item);
    int code = q ? load_stack(&s, v, NULL, 2, s.dtype, &a) : RT_ENOMEM;
    if (!code) code = load_stack(&s, t, NULL, 1, s.dtype, &tau);
    reflect_work w = { &s, a, tau, q, m, n, k };
    if (!code) code = for_matrices(&s, full_batches(v, 2), m * n, reflect_one, &w);
    if (!code) code = store_stack(&s, &c->out[0], q, s.dtype);
    return close_stack(&s, code);
}

/* Row i of a triangle: what is kept of `from` (count numbers), from `begin` to `end`, and zeros around it. */
static void put_row(char *to, const char *from, int64_t begin, int64_t end, int64_t count, int64_t item) {
    memset(to, 0, (size_t)(begin * item));
    memcpy(to + begin * item, from + begin * item, (size_t)((end - begin) * item));
    memset(to + end * item, 0, (size_t)((count - end) * item));
}

typedef struct unpack_work { const stack *s; const char *lu; char *l, *u; int64_t m, n; } unpack_work;

static int unpack_one(const void *arg, int64_t b) {
    const unpack_work *w = arg;
    int64_t m = w->m, n = w->n, k = m < n ? m : n, item = w->s->item;
    for (int64_t i = 0; i < m; i++) {
        const char *from = w->lu + (b * m + i) * n * item;
        put_row(w->l + (b * m + i) * k * item, from, 0, i < k ? i : k, k, item);
        if (i >= k) continue;
        put_one(w->s, w->l, (b * m + i) * k + i);
        put_row(w->u + (b * k + i) * n * item, from, i, n, n, item);
    }
    return RT_OK;
}

/* P has ones where row order[i] of the product is row i of the factors. */
static int unpack_pivots(const stack *s, const int32_t *pivot, int64_t m, int64_t k, char *p, int64_t *order) {
    for (int64_t i = 0; i < m; i++) order[i] = i;
    for (int64_t i = 0; i < k; i++) {
        int64_t with = (int64_t)pivot[i] - 1, swap = order[i];
        if (with < 0 || with >= m)
            return rt_fail(s->ctx, RT_ERUNTIME, "lu_unpack: pivots must be between 1 and %lld, got %lld", (long long)m,
                           (long long)with + 1);
        order[i] = order[with], order[with] = swap;
    }
    memset(p, 0, (size_t)(m * m * s->item));
    for (int64_t i = 0; i < m; i++) put_one(s, p, order[i] * m + i);
    return RT_OK;
}

/* LU_data, LU_pivots, unpack_data, unpack_pivots -> P, L, U */
int rt_k_lu_unpack(const rt_ctx *ctx, const rt_call *c) {
    const rt_view *v = rt_arg_view(c, 0);
    stack s = open_stack(ctx, v->dtype);
    if (v->dtype == RT_F32) s.dtype = RT_F32, s.item = 4; /* nothing is computed */
    int64_t m = v->size[v->rank - 2], n = v->size[v->rank - 1], k = m < n ? m : n, count = batches(v, 2);
    bool data = rt_arg_int(c, 2), pivots = rt_arg_int(c, 3);
    char *lu = NULL, *pivot = NULL, *p = NULL, *l = NULL, *u = NULL;
    int64_t *order = take_room(&s, m, sizeof *order);
    int code = order ? RT_OK : RT_ENOMEM;
    if (!code && data) code = load_stack(&s, v, NULL, 2, s.dtype, &lu);
    if (!code && data && !((l = take_room(&s, count * m * k, s.item)) && (u = take_room(&s, count * k * n, s.item))))
        code = RT_ENOMEM;
    if (!code && pivots) code = load_stack(&s, rt_arg_view(c, 1), NULL, 1, RT_I32, &pivot);
    if (!code && pivots && !(p = take_room(&s, count * m * m, s.item))) code = RT_ENOMEM;
    for (int64_t b = 0; b < count && !code && pivots; b++)
        code = unpack_pivots(&s, (const int32_t *)pivot + b * k, m, k, p + b * m * m * s.item, order);
    unpack_work w = { &s, lu, l, u, m, n };
    if (!code && data) code = for_matrices(&s, count, m * n / 8, unpack_one, &w);
    if (!code && pivots) code = store_stack(&s, &c->out[0], p, s.dtype);
    if (!code && data) code = store_stack(&s, &c->out[1], l, s.dtype);
    if (!code && data) code = store_stack(&s, &c->out[2], u, s.dtype);
    return close_stack(&s, code);
}

int rt_k_linalg_check_errors(const rt_ctx *ctx, const rt_call *c) { /* info, api_name, is_matrix */
    const rt_view *given = rt_arg_view(c, 0);
    bool usual = given->dtype == RT_I32;
    rt_view info;
    void *scratch = NULL;
    int code = rt_contiguous(ctx, given, usual ? RT_I32 : RT_I64, &info, &scratch);
    int64_t n = code ? 0 : rt_numel(&info), i = 0, at = 0;
    for (; usual && i + 64 <= n; i += 64) { /* nearly all are 0 */
        int32_t any = 0;
        for (int k = 0; k < 64; k++) any |= ((const int32_t *)info.p)[i + k];
        if (any) break;
    }
    for (; i < n && !at; i++) at = usual ? ((const int32_t *)info.p)[i] : ((const int64_t *)info.p)[i];
    if (at)
        code = rt_fail(ctx, RT_ERUNTIME, "%s: matrix %lld could not be factored: it failed at pivot %lld",
                       c->arg[1].u.str, (long long)(i - 1), (long long)at);
    rt_scratch_free(ctx, scratch);
    return code;
}
