/* k_ldl.c: symmetric and Hermitian matrices that need not be positive: L D L^T with blocks of one or two on D's
 * diagonal (Bunch and Kaufman), and systems solved with it.
 *
 * LD, pivots and info are what LAPACK's sytrf and hetrf leave of the lower triangle, because PyTorch hands them to the
 * user: a pivot p > 0 says that rows k and p were swapped and D has a number there, p < 0, twice, that rows k + 1 and
 * -p were and D has a block. Columns of L that are done are not swapped any more. Matrices are f64 or complex f64,
 * column by column: each column of L is one run of memory. */
#include "runtime/kernels.h"
#include "runtime/rt_stack.h"

#include <math.h>
#include <string.h>

/* One matrix: at(i, j), i >= j. Real numbers are complex ones without an imaginary part. */
typedef struct ldl {
    double *x;
    int64_t n;
    int parts;
    bool hermitian;
} ldl;

static zdouble at(const ldl *m, int64_t i, int64_t j) {
    const double *p = m->x + (j * m->n + i) * m->parts;
    return m->parts == 1 ? p[0] : p[0] + p[1] * I;
}
static void put(const ldl *m, int64_t i, int64_t j, zdouble v) {
    double *p = m->x + (j * m->n + i) * m->parts;
    p[0] = creal(v);
    if (m->parts == 2) p[1] = cimag(v);
}
static zdouble other(const ldl *m, zdouble v) { return m->hermitian ? conj(v) : v; } /* at(j, i) of at(i, j) */
static zdouble on_diagonal(const ldl *m, zdouble v) { return m->hermitian ? creal(v) : v; }
static double size_of(zdouble v) { return fabs(creal(v)) + fabs(cimag(v)); }

/* The largest of column j below row `from - 1`; *where: its row, the first of several. */
static double largest(const ldl *m, int64_t j, int64_t from, int64_t *where) {
    double most = 0;
    *where = from;
    for (int64_t i = from; i < m->n; i++)
        if (size_of(at(m, i, j)) > most) most = size_of(at(m, i, j)), *where = i;
    return most;
}

/* The row to pivot with at k, and whether with a block of two. */
static int64_t choose_pivot(const ldl *m, int64_t k, int *step, bool *zero) {
    const double alpha = (1 + sqrt(17.0)) / 8;
    int64_t row = k, unused;
    double own = size_of(on_diagonal(m, at(m, k, k))), column = k + 1 < m->n ? largest(m, k, k + 1, &row) : 0;
    *step = 1;
    *zero = own == 0 && column == 0;
    if (*zero || own >= alpha * column) return k;
    double along = row + 1 < m->n ? largest(m, row, row + 1, &unused) : 0;
    for (int64_t j = k; j < row; j++) along = fmax(along, size_of(at(m, row, j)));
    if (own >= alpha * column * (column / along)) return k;
    if (size_of(on_diagonal(m, at(m, row, row))) < alpha * along) *step = 2;
    return row;
}

static void swap(const ldl *m, int64_t i, int64_t j, int64_t k, int64_t l, bool flip) {
    zdouble a = at(m, i, j), b = at(m, k, l);
    put(m, i, j, flip ? other(m, b) : b);
    put(m, k, l, flip ? other(m, a) : a);
}

/* Rows and columns a < b of what is left from column k on. */
static void swap_rows_and_columns(const ldl *m, int64_t k, int64_t a, int64_t b) {
    for (int64_t i = b + 1; i < m->n; i++) swap(m, i, a, i, b, false);
    for (int64_t j = a + 1; j < b; j++) swap(m, j, a, b, j, true);
    put(m, b, a, other(m, at(m, b, a)));
    swap(m, a, a, b, b, false);
    if (a > k) swap(m, a, k, b, k, false); /* the second of a block */
}

/* to becomes to - w from: numbers of one or two parts side by side. */
static void subtract(double *restrict to, const double *restrict from, zdouble w, int64_t count, int parts) {
    double re = creal(w), im = cimag(w);
    for (int64_t i = 0; parts == 1 && i < count; i++) to[i] -= re * from[i];
    for (int64_t i = 0; parts == 2 && i < count; i++) {
        double a = from[2 * i], b = from[2 * i + 1];
        to[2 * i] -= re * a - im * b;
        to[2 * i + 1] -= re * b + im * a;
    }
}
/* Column j from the diagonal on, less w times column k. */
static void subtract_column(const ldl *m, int64_t j, zdouble w, int64_t k) {
    subtract(m->x + (j * m->n + j) * m->parts, m->x + (k * m->n + j) * m->parts, w, m->n - j, m->parts);
}

static void eliminate_one(const ldl *m, int64_t k) {
    zdouble d = on_diagonal(m, at(m, k, k));
    put(m, k, k, d);
    for (int64_t j = k + 1; j < m->n; j++) {
        subtract_column(m, j, other(m, at(m, j, k)) / d, k);
        put(m, j, j, on_diagonal(m, at(m, j, j)));
    }
    for (int64_t j = k + 1; j < m->n; j++) put(m, j, k, at(m, j, k) / d);
}

static void eliminate_two(const ldl *m, int64_t k) {
    zdouble below = at(m, k + 1, k), size = m->hermitian ? cabs(below) : below, turn = below / size;
    put(m, k, k, on_diagonal(m, at(m, k, k)));
    put(m, k + 1, k + 1, on_diagonal(m, at(m, k + 1, k + 1)));
    zdouble d1 = at(m, k + 1, k + 1) / size, d2 = at(m, k, k) / size, scale = 1 / (d1 * d2 - 1) / size;
    for (int64_t j = k + 2; j < m->n; j++) {
        zdouble a = at(m, j, k), b = at(m, j, k + 1);
        zdouble u = scale * (d1 * a - turn * b), v = scale * (d2 * b - other(m, turn) * a);
        subtract_column(m, j, other(m, u), k);
        subtract_column(m, j, other(m, v), k + 1);
        put(m, j, k, u);
        put(m, j, k + 1, v);
        put(m, j, j, on_diagonal(m, at(m, j, j)));
    }
}

typedef struct factor_work {
    const stack *s;
    char *x;
    int32_t *pivot, *info;
    int64_t n;
    bool hermitian;
} factor_work;

static ldl matrix_of(const stack *s, const char *x, int64_t i, int64_t n, bool hermitian) {
    return (ldl){ (double *)(x + i * n * n * s->item), n, s->dtype == RT_C128 ? 2 : 1,
                  hermitian && s->dtype == RT_C128 };
}

static int factor_one(const void *arg, int64_t i) {
    const factor_work *w = arg;
    ldl m = matrix_of(w->s, w->x, i, w->n, w->hermitian);
    int32_t *pivot = w->pivot + i * w->n, *info = &w->info[i];
    int step;
    *info = 0;
    for (int64_t k = 0; k < w->n; k += step) {
        bool zero;
        int64_t row = choose_pivot(&m, k, &step, &zero), last = k + step - 1;
        if (row > last) swap_rows_and_columns(&m, k, last, row);
        if (zero && !*info) *info = (int32_t)(k + 1);
        if (zero) put(&m, k, k, on_diagonal(&m, at(&m, k, k)));
        else if (step == 1) eliminate_one(&m, k);
        else eliminate_two(&m, k);
        for (int64_t j = k; j <= last; j++) pivot[j] = (int32_t)(step == 1 ? row + 1 : -(row + 1));
    }
    for (int64_t j = 1; j < w->n; j++) /* above the diagonal */
        memset(m.x + j * w->n * m.parts, 0, (size_t)(j * m.parts) * sizeof *m.x);
    return RT_OK;
}

RT_KERNEL(rt_k_ldl_factor) { /* self, hermitian, check_errors -> LD, pivots, info */
    const rt_view *v = rt_arg_view(c, 0), turned = turned_view(v), to = turned_view(&c->out[0]);
    stack s = open_stack(ctx, v->dtype);
    int64_t n = v->size[v->rank - 1], count = batches(v, 2);
    char *x = NULL;
    int32_t *pivot = take_room(&s, count * n, sizeof *pivot), *info = pivot ? take_room(&s, count, sizeof *info) : NULL;
    int code = info ? load_stack(&s, &turned, NULL, 2, s.dtype, &x) : RT_ENOMEM;
    factor_work w = { &s, x, pivot, info, n, rt_arg_int(c, 1) };
    if (!code) code = for_matrices(&s, count, n * n, factor_one, &w);
    for (int64_t b = 0; b < count && !code && rt_arg_int(c, 2); b++)
        if (info[b])
            code = rt_fail(ctx, RT_ERUNTIME, "linalg.ldl_factor: matrix %lld is singular: D has a zero at %d",
                           (long long)b, (int)info[b]);
    if (!code) code = store_stack(&s, &to, x, s.dtype);
    if (!code) code = store_stack(&s, &c->out[1], pivot, RT_I32);
    if (!code) code = store_stack(&s, &c->out[2], info, RT_I32);
    return close_stack(&s, code);
}

/* ---- systems ---- */

/* x (n x k, rows dense) of one system. */
typedef struct sides {
    double *x;
    int64_t k;
    int parts;
} sides;

static zdouble get_side(const sides *b, int64_t i, int64_t j) {
    const double *p = b->x + (i * b->k + j) * b->parts;
    return b->parts == 1 ? p[0] : p[0] + p[1] * I;
}
static void put_side(const sides *b, int64_t i, int64_t j, zdouble v) {
    double *p = b->x + (i * b->k + j) * b->parts;
    p[0] = creal(v);
    if (b->parts == 2) p[1] = cimag(v);
}
static void swap_sides(const sides *b, int64_t i, int64_t with) {
    for (int64_t j = 0; j < b->k && i != with; j++) {
        zdouble v = get_side(b, i, j);
        put_side(b, i, j, get_side(b, with, j));
        put_side(b, with, j, v);
    }
}
static void subtract_row(const sides *b, int64_t i, zdouble w, int64_t from) {
    subtract(b->x + i * b->k * b->parts, b->x + from * b->k * b->parts, w, b->k, b->parts);
}

static void solve_block(const ldl *m, const sides *b, int64_t k) {
    zdouble low = at(m, k + 1, k), high = other(m, low), d1 = at(m, k, k) / high, d2 = at(m, k + 1, k + 1) / low;
    zdouble by = d1 * d2 - 1;
    for (int64_t j = 0; j < b->k; j++) {
        zdouble u = get_side(b, k, j) / high, v = get_side(b, k + 1, j) / low;
        put_side(b, k, j, (d2 * u - v) / by);
        put_side(b, k + 1, j, (d1 * v - u) / by);
    }
}

static void solve(const ldl *m, const int32_t *pivot, const sides *b) {
    int64_t n = m->n, step;
    for (int64_t k = 0; k < n; k += step) { /* L D */
        step = pivot[k] > 0 ? 1 : 2;
        swap_sides(b, k + step - 1, (step == 1 ? pivot[k] : -(int64_t)pivot[k]) - 1);
        for (int64_t j = k; j < k + step; j++)
            for (int64_t i = k + step; i < n; i++) subtract_row(b, i, at(m, i, j), j);
        if (step == 2) solve_block(m, b, k);
        for (int64_t j = 0; j < b->k && step == 1; j++) put_side(b, k, j, get_side(b, k, j) / at(m, k, k));
    }
    for (int64_t k = n - 1; k >= 0; k -= step) { /* L^T */
        step = pivot[k] > 0 ? 1 : 2;
        for (int64_t j = k; j > k - step; j--)
            for (int64_t i = k + 1; i < n; i++) subtract_row(b, j, other(m, at(m, i, j)), i);
        swap_sides(b, k, (step == 1 ? pivot[k] : -(int64_t)pivot[k]) - 1);
    }
}

typedef struct solve_work {
    const stack *s;
    const char *ld, *pivot;
    char *x;
    int64_t n, k;
    bool hermitian;
} solve_work;

static int solve_one(const void *arg, int64_t i) {
    const solve_work *w = arg;
    ldl m = matrix_of(w->s, w->ld, i, w->n, w->hermitian);
    sides b = { (double *)(w->x + i * w->n * w->k * w->s->item), w->k, m.parts };
    solve(&m, (const int32_t *)w->pivot + i * w->n, &b);
    return RT_OK;
}

/* Rows that pivots name must be there, and blocks have two of them. */
static int check_pivots(const rt_ctx *ctx, const int32_t *pivot, int64_t count, int64_t n) {
    for (int64_t i = 0; i < count; i++)
        for (int64_t k = 0; k < n; k++) {
            int64_t p = pivot[i * n + k];
            if (!p || p > n || p < -n)
                return rt_fail(ctx, RT_ERUNTIME,
                               "linalg.ldl_solve: pivots must be between 1 and %lld or their negatives, "
                               "got %lld",
                               (long long)n, (long long)p);
            if (p < 0 && (k + 1 == n || pivot[i * n + k + 1] >= 0))
                return rt_fail(ctx, RT_ERUNTIME,
                               "linalg.ldl_solve: negative pivots must come in pairs, the one at %lld "
                               "is alone",
                               (long long)k);
            k += p < 0;
        }
    return RT_OK;
}

RT_KERNEL(rt_k_ldl_solve) { /* LD, pivots, B, hermitian */
    const rt_view *a = rt_arg_view(c, 0), *out = &c->out[0], turned = turned_view(a), lead = batch_of(out, 2);
    stack s = open_stack(ctx, a->dtype);
    int64_t n = a->size[a->rank - 1], count = full_batches(out, 2);
    char *ld = NULL, *pivot = NULL, *x = NULL;
    if (!count) return RT_OK;
    int code = load_stack(&s, &turned, &lead, 2, s.dtype, &ld);
    if (!code) code = load_stack(&s, rt_arg_view(c, 1), &lead, 1, RT_I32, &pivot);
    if (!code) code = load_stack(&s, rt_arg_view(c, 2), &lead, 2, s.dtype, &x);
    if (!code) code = check_pivots(ctx, (const int32_t *)pivot, count, n);
    solve_work w = { &s, ld, pivot, x, n, out->size[out->rank - 1], rt_arg_int(c, 3) };
    if (!code) code = for_matrices(&s, count, n * (n + w.k), solve_one, &w);
    if (!code) code = store_stack(&s, out, x, s.dtype);
    return close_stack(&s, code);
}
