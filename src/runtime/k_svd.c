/* k_svd.c: singular values and vectors, and least squares with them. Reflections make the matrix bidiagonal and real;
 * implicit QR steps (shifted, or without a shift where that keeps small values exact) make it diagonal; the vectors are
 * reflected back. A wide matrix is worked on as its conjugate transpose. It is scaled by a power of two first, so that
 * no square overflows or vanishes. Matrices of f32 that are not small have a shorter way. */
#include "runtime/gemm.h"
#include "runtime/kernels.h"
#include "runtime/rt_factor.h"
#include "runtime/rt_stack.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "runtime/rt_reflect.h"

enum { MOST_SWEEPS = 60 }; /* per singular value; two are usual */

/* ---- the bidiagonal middle ---- */

/* A block of it, seen from the end where its numbers are larger. Its mirror image is its transpose, so the sides change
 * places. */
typedef struct block { double *d, *e, *left, *right; int64_t lo, hi, n; bool forward; } block;

static double *diagonal(const block *b, int64_t i) { return &b->d[b->forward ? b->lo + i : b->hi - i]; }
static double *above(const block *b, int64_t i) { return &b->e[b->forward ? b->lo + i : b->hi - i - 1]; }

/* Rows i and i + 1 of z become c x + s y and c y - s x. */
static void turn(const block *b, double *z, int64_t i, double c, double s) {
    if (!z) return;
    double *x = z + (b->forward ? b->lo + i : b->hi - i) * b->n, *y = b->forward ? x + b->n : x - b->n;
    for (int64_t k = 0; k < b->n; k++) {
        double p = x[k], q = y[k];
        x[k] = c * p + s * q;
        y[k] = c * q - s * p;
    }
}

/* c f + s g = the result, c g - s f = 0 */
static double rotation(double f, double g, double *c, double *s) {
    if (g == 0) return *c = 1, *s = 0, f;
    if (f == 0) return *c = 0, *s = 1, g;
    double r = copysign(hypot(f, g), f);
    *c = f / r;
    *s = g / r;
    return r;
}

/* The smaller singular value of (f g; 0 h). */
static double smaller_value(double f, double g, double h) {
    double a = fabs(f), b = fabs(g), c = fabs(h), low = fmin(a, c), high = fmax(a, c);
    if (low == 0) return 0;
    if (b < high) {
        double as = 1 + low / high, at = (high - low) / high, au = b / high * (b / high);
        return low * (2 / (sqrt(as * as + au) + sqrt(at * at + au)));
    }
    double au = high / b;
    if (au == 0) return low * high / b;
    double as = 1 + low / high, at = (high - low) / high;
    return 2 * (low * au / (sqrt(1 + as * au * (as * au)) + sqrt(1 + at * au * (at * au))));
}

static void plain_sweep(const block *b) {
    double c = 1, s = 0, old_c = 1, old_s = 0, r;
    int64_t last = b->hi - b->lo;
    for (int64_t i = 0; i < last; i++) {
        r = rotation(*diagonal(b, i) * c, *above(b, i), &c, &s);
        if (i) *above(b, i - 1) = old_s * r;
        *diagonal(b, i) = rotation(old_c * r, *diagonal(b, i + 1) * s, &old_c, &old_s);
        turn(b, b->right, i, c, s);
        turn(b, b->left, i, old_c, old_s);
    }
    double h = *diagonal(b, last) * c;
    *diagonal(b, last) = h * old_c;
    *above(b, last - 1) = h * old_s;
}

static void shifted_sweep(const block *b, double shift) {
    double first = *diagonal(b, 0), f = (fabs(first) - shift) * (copysign(1, first) + shift / first), g = *above(b, 0),
           c, s;
    int64_t last = b->hi - b->lo;
    for (int64_t i = 0; i < last; i++) {
        double r = rotation(f, g, &c, &s), *d = diagonal(b, i), *e = above(b, i), *next = diagonal(b, i + 1);
        if (i) *above(b, i - 1) = r;
        f = c * *d + s * *e;
        *e = c * *e - s * *d;
        g = s * *next;
        *next *= c;
        turn(b, b->right, i, c, s);
        *d = rotation(f, g, &c, &s);
        f = c * *e + s * *next;
        *next = c * *next - s * *e;
        if (i + 1 < last) {
            g = s * *above(b, i + 1);
            *above(b, i + 1) *= c;
        }
        turn(b, b->left, i, c, s);
    }
    *above(b, last - 1) = f;
}

static void sweep(block *b) {
    b->forward = fabs(b->d[b->lo]) >= fabs(b->d[b->hi]);
    if (!b->forward) {
        double *swap = b->left;
        b->left = b->right;
        b->right = swap;
    }
    int64_t last = b->hi - b->lo;
    double first = fabs(*diagonal(b, 0)),
           shift = smaller_value(*diagonal(b, last - 1), *above(b, last - 1), *diagonal(b, last));
    bool zero = false;
    for (int64_t i = b->lo; i <= b->hi; i++) zero |= b->d[i] == 0;
    if (zero || shift * shift < DBL_EPSILON * first * first) plain_sweep(b);
    else shifted_sweep(b, shift);
}

/* d becomes the singular values, largest first; the rows of left and right (or NULL) the vectors. False: no
 * convergence. */
static bool singular_values(double *d, double *e, int64_t n, double *left, double *right, double *row) {
    int64_t hi = n - 1;
    double most = 0;
    for (int64_t i = 0; i < n; i++) most = fmax(most, fmax(fabs(d[i]), i < n - 1 ? fabs(e[i]) : 0));
    double nothing = most * DBL_EPSILON * 0x1p-52; /* far below what the reflections have rounded away */
    for (int64_t sweeps = 0; hi > 0; sweeps++) {
        for (int64_t i = 0; i < hi; i++)
            if (fabs(e[i]) <= DBL_EPSILON * (fabs(d[i]) + fabs(d[i + 1])) || fabs(e[i]) <= nothing) e[i] = 0;
        while (hi > 0 && e[hi - 1] == 0) hi--;
        if (!hi) break;
        int64_t lo = hi - 1;
        while (lo > 0 && e[lo - 1] != 0) lo--;
        if (sweeps > MOST_SWEEPS * n) return false;
        sweep(&(block){ .d = d, .e = e, .left = left, .right = right, .lo = lo, .hi = hi, .n = n });
    }
    for (int64_t i = 0; i < n; i++) {
        if (signbit(d[i])) {
            d[i] = -d[i];
            for (int64_t k = 0; k < n && right; k++) right[i * n + k] = -right[i * n + k];
        }
    }
    for (int64_t i = 0; i < n; i++) {
        int64_t largest = i;
        for (int64_t j = i + 1; j < n; j++)
            if (d[j] > d[largest]) largest = j;
        if (largest == i) continue;
        double value = d[i], *side[2] = { left, right };
        d[i] = d[largest];
        d[largest] = value;
        for (int k = 0; k < 2 && left; k++) {
            memcpy(row, side[k] + i * n, (size_t)n * sizeof *row);
            memcpy(side[k] + i * n, side[k] + largest * n, (size_t)n * sizeof *row);
            memcpy(side[k] + largest * n, row, (size_t)n * sizeof *row);
        }
    }
    return true;
}

/* ---- whole matrices ---- */

typedef struct svd { /* room for one matrix, m x n with m >= n, and its factors */
    stack *s;
    int64_t m, n, wide; /* wide: columns of u, n or m */
    bool vectors;
    double *d, *e, *left, *right, *row;
    char *a, *u, *v, *left_reflections, *left_tau, *right_reflections, *right_tau, *sums;
} svd;

static int open_svd(svd *w, stack *s, int64_t m, int64_t n, bool full, bool vectors) {
    int64_t tall = m < n ? n : m, low = m < n ? m : n, both = vectors ? low * low : 0;
    *w = (svd){ .s = s, .m = tall, .n = low, .wide = full ? tall : low, .vectors = vectors };
    bool ok = (w->d = take_room(s, 3 * low + 1, 8)) && (w->left = take_room(s, 2 * both, 8)) &&
              (w->a = take_room(s, tall * low, s->item)) &&
              (w->u = take_room(s, vectors ? tall * w->wide : 0, s->item)) && (w->v = take_room(s, both, s->item)) &&
              (w->left_reflections = take_room(s, low * tall, s->item)) &&
              (w->right_reflections = take_room(s, low * low, s->item)) &&
              (w->left_tau = take_room(s, 2 * low, s->item)) && (w->sums = take_room(s, tall, s->item));
    if (!ok) return RT_ENOMEM;
    w->e = w->d + low;
    w->row = w->e + low;
    w->right = w->left + both;
    w->right_tau = w->left_tau + low * s->item;
    return RT_OK;
}

/* The matrix (its conjugate transpose when it is wide) divided by a power of two, which is returned; NAN for what is
 * not finite. */
static double take_matrix(svd *w, const char *from, int64_t m, int64_t n) {
    int64_t parts = w->s->item / 8;
    const double *x = (const double *)from;
    double most = 0, *to = (double *)w->a;
    for (int64_t i = 0; i < m * n * parts; i++) {
        if (!isfinite(x[i])) return NAN;
        most = fmax(most, fabs(x[i]));
    }
    int power = 1;
    if (most > 0) frexp(most, &power);
    double scale = ldexp(1, power - 1);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++)
            for (int64_t p = 0; p < parts; p++) {
                int64_t at = m < n ? j * m + i : i * n + j;
                to[at * parts + p] = x[(i * n + j) * parts + p] / (m < n && p ? -scale : scale);
            }
    return scale;
}

/* The vectors of the middle as the columns of `to` (rows x columns), identity beyond them; then reflected. */
static void reflect_back(const svd *w, const double *z, char *to, int64_t rows, int64_t columns,
                         const char *reflections, int64_t apart, const char *tau, int64_t first) {
    bool real = w->s->dtype == RT_F64;
    int64_t n = w->n;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) {
            double x = i < n && j < n ? z[j * n + i] : i == j;
            if (real) ((double *)to)[i * columns + j] = x;
            else ((zdouble *)to)[i * columns + j] = x;
        }
    for (int64_t k = n - 1; k >= 0; k--) {
        int64_t from = k + first, rest = rows - from;
        if (rest <= 0) continue;
        if (real)
            reflect_rows_d((double *)to + from * columns, rest, columns, columns,
                           (const double *)reflections + k * apart, ((const double *)tau)[k], (double *)w->sums);
        else
            reflect_rows_z((zdouble *)to + from * columns, rest, columns, columns,
                           (const zdouble *)reflections + k * apart, ((const zdouble *)tau)[k], (zdouble *)w->sums);
    }
}

/* w->d, and the columns of w->u (m x wide) and w->v (n x n). */
static int svd_one(svd *w, const char *matrix, int64_t m, int64_t n, const char *what, int64_t batch) {
    const rt_ctx *ctx = w->s->ctx;
    int64_t low = w->n;
    double scale = take_matrix(w, matrix, m, n);
    if (isnan(scale))
        return rt_fail(ctx, RT_ERUNTIME, "%s: matrix %lld holds NaN or infinite numbers, so it has no singular values",
                       what, (long long)batch);
    memset(w->left_tau, 0, (size_t)(2 * low * w->s->item));
    if (w->s->dtype == RT_F64)
        bidiagonal_d((double *)w->a, w->m, low, w->d, w->e, (double *)w->left_reflections, (double *)w->left_tau,
                     (double *)w->right_reflections, (double *)w->right_tau, (double *)w->sums);
    else
        bidiagonal_z((zdouble *)w->a, w->m, low, w->d, w->e, (zdouble *)w->left_reflections, (zdouble *)w->left_tau,
                     (zdouble *)w->right_reflections, (zdouble *)w->right_tau, (zdouble *)w->sums);
    for (int side = 0; side < 2 && w->vectors; side++) {
        double *z = side ? w->right : w->left;
        memset(z, 0, (size_t)(low * low) * sizeof *z);
        for (int64_t i = 0; i < low; i++) z[i * low + i] = 1;
    }
    if (!singular_values(w->d, w->e, low, w->vectors ? w->left : NULL, w->vectors ? w->right : NULL, w->row))
        return rt_fail(ctx, RT_ERUNTIME, "%s: the algorithm did not converge for matrix %lld", what, (long long)batch);
    for (int64_t i = 0; i < low; i++) w->d[i] *= scale;
    if (!w->vectors) return RT_OK;
    reflect_back(w, w->left, w->u, w->m, w->wide, w->left_reflections, w->m, w->left_tau, 0);
    reflect_back(w, w->right, w->v, low, low, w->right_reflections, low, w->right_tau, 1);
    return RT_OK;
}

/* Columns (rows x columns) as they are, or as rows, conjugated. */
static void put_factor(const stack *s, const char *from, char *to, int64_t rows, int64_t columns, bool turned) {
    if (!turned) {
        memcpy(to, from, (size_t)(rows * columns * s->item));
        return;
    }
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) {
            if (s->dtype == RT_F64) ((double *)to)[j * rows + i] = ((const double *)from)[i * columns + j];
            else ((zdouble *)to)[j * rows + i] = conj(((const zdouble *)from)[i * columns + j]);
        }
}

/* ---- matrices of f32: by eigenvalues ----
 * In f64 the square of a matrix of f32 keeps all its digits, and what is lost of singular values is less than their own
 * rounding. Vectors of the one side are eigenvectors; those of the other are orthogonalized where values are small. */

enum { FEW_NUMBERS = 256 }; /* of a matrix: the steps above are as fast then */

typedef struct float_svd { /* all matrices are tall, m x n */
    const stack *s;
    double *a, *values, *u, *v; /* u: m x columns, v: as rows, or NULL */
    int64_t m, n, columns;
} float_svd;

static double *room_for(const stack *s, int64_t numbers) {
    return rt_scratch(s->ctx, (size_t)numbers * sizeof(double));
}

/* d: eigenvalues of g (n x n), rising; z (or NULL): vectors as rows. */
static int eigen(const stack *s, double *g, int64_t n, double *d, double *z) {
    const rt_factor_loops *f = rt_factor(RT_F64);
    double *e = room_for(s, 2 * n), *tau = e + n;
    if (!e) return RT_ENOMEM;
    int code = f->tridiagonal(s->ctx, g, n, d, e, tau);
    if (!code) code = f->tridiagonal_eigen(s->ctx, d, e, n, z);
    if (!code && z) code = f->reflect_vectors(s->ctx, g, n, tau, z, n);
    rt_scratch_free(s->ctx, e);
    return code;
}

/* The lengths of the columns of b (m x n). */
static void column_sizes(const double *b, int64_t m, int64_t n, double *size) {
    for (int64_t j = 0; j < n; j++) size[j] = 0;
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) size[j] += b[i * n + j] * b[i * n + j];
    for (int64_t j = 0; j < n; j++) size[j] = sqrt(size[j]);
}

static void swap_numbers(double *x, double *y, int64_t step, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        double swap = x[i * step];
        x[i * step] = y[i * step];
        y[i * step] = swap;
    }
}

/* u and the values from b = a v (m x n), by reflections: its columns are nearly orthogonal already. */
static int orthogonalize(const float_svd *w, double *b, double *values, double *u, double *v) {
    const rt_factor_loops *f = rt_factor(RT_F64);
    int64_t m = w->m, n = w->n, columns = w->columns;
    double *tau = room_for(w->s, n + (columns > n ? m * columns : 0)), *wide = columns > n ? tau + n : b;
    if (!tau) return RT_ENOMEM;
    int code = f->reflect(w->s->ctx, b, m, n, n, tau);
    for (int64_t i = 0; i < m && columns > n; i++) {
        memcpy(wide + i * columns, b + i * n, (size_t)n * sizeof *b);
        memset(wide + i * columns + n, 0, (size_t)(columns - n) * sizeof *b);
    }
    if (!code) code = f->reflector_product(w->s->ctx, wide, m, columns, tau, n, u);
    for (int64_t j = 0; j < n; j++) {
        double r = b[j * n + j];
        values[j] = fabs(r);
        for (int64_t i = 0; i < m && r < 0 && !code; i++) u[i * columns + j] = -u[i * columns + j];
    }
    for (int64_t j = 1; j < n && !code; j++) /* those that are nearly nothing may have changed places */
        for (int64_t i = j; i > 0 && values[i] > values[i - 1]; i--) {
            swap_numbers(&values[i], &values[i - 1], 1, 1);
            swap_numbers(u + i, u + i - 1, columns, m);
            swap_numbers(v + i * n, v + (i - 1) * n, 1, n);
        }
    rt_scratch_free(w->s->ctx, tau);
    return code;
}

/* u and v from a and the vectors in the rows of z, the last of which belongs to the largest value. */
static int float_vectors(const float_svd *w, const double *a, const double *z, double *values, double *u, double *v) {
    int64_t m = w->m, n = w->n;
    for (int64_t i = 0; i < n; i++) memcpy(v + i * n, z + (n - 1 - i) * n, (size_t)n * sizeof *v);
    double *b = room_for(w->s, m * n);
    if (!b) return RT_ENOMEM;
    rt_gemm_args g = rt_gemm_plain(RT_F64, m, n, n, a, v, b);
    g.b_row = 1, g.b_col = n;
    int code = rt_gemm(w->s->ctx, &g);
    column_sizes(b, m, n, values);
    bool good = w->columns == n;
    for (int64_t j = 0; j < n; j++) good &= values[j] > 1e-3 * values[0];
    if (!code && !good) code = orthogonalize(w, b, values, u, v);
    for (int64_t i = 0; i < m && !code && good; i++)
        for (int64_t j = 0; j < n; j++) u[i * n + j] = b[i * n + j] / values[j];
    for (int64_t j = 1; j < n && good; j++) values[j] = fmin(values[j], values[j - 1]);
    rt_scratch_free(w->s->ctx, b);
    return code;
}

static int float_svd_one(const void *arg, int64_t index) {
    const float_svd *w = arg;
    const stack *s = w->s;
    int64_t m = w->m, n = w->n;
    double *a = w->a + index * m * n, *values = w->values + index * n, most = 0;
    for (int64_t i = 0; i < m * n; i++) most = fabs(a[i]) > most || isnan(a[i]) ? fabs(a[i]) : most;
    if (!isfinite(most))
        return rt_fail(s->ctx, RT_ERUNTIME,
                       "linalg.svd: matrix %lld holds NaN or infinite numbers, so it has no singular values",
                       (long long)index);
    int power = 1;
    if (most > 0) frexp(most, &power);
    double scale = ldexp(1, power - 1), by = 1 / scale, *g = room_for(s, n * n * (w->u ? 2 : 1)),
           *z = w->u ? g + n * n : NULL;
    if (!g) return RT_ENOMEM;
    for (int64_t i = 0; i < m * n; i++) a[i] *= by;
    rt_gemm_args square = rt_gemm_plain(RT_F64, n, n, m, a, a, g);
    square.a_row = 1, square.a_col = n;
    int code = rt_gemm(s->ctx, &square);
    if (!code) code = eigen(s, g, n, values, z);
    for (int64_t i = 0; i < n / 2; i++) swap_numbers(&values[i], &values[n - 1 - i], 1, 1);
    for (int64_t i = 0; i < n; i++) values[i] = sqrt(fmax(values[i], 0));
    if (!code && z) code = float_vectors(w, a, z, values, w->u + index * m * w->columns, w->v + index * n * n);
    for (int64_t i = 0; i < n; i++) values[i] *= scale;
    rt_scratch_free(s->ctx, g);
    if (code == RT_FACTOR_ENDLESS)
        return rt_fail(s->ctx, RT_ERUNTIME, "linalg.svd: the algorithm did not converge for matrix %lld",
                       (long long)index);
    return code;
}

static int svd_of_floats(const rt_ctx *ctx, const rt_call *c) {
    const rt_view *v = rt_arg_view(c, 0);
    bool wide = v->size[v->rank - 2] < v->size[v->rank - 1], full = rt_arg_int(c, 1), vectors = rt_arg_int(c, 2);
    rt_view tall = wide ? turned_view(v) : *v;
    stack s = open_stack(ctx, v->dtype);
    int64_t m = tall.size[tall.rank - 2], n = tall.size[tall.rank - 1], count = batches(v, 2), columns = full ? m : n;
    float_svd w = { .s = &s, .m = m, .n = n, .columns = columns };
    char *a = NULL;
    int code = load_stack(&s, &tall, NULL, 2, RT_F64, &a);
    w.a = (double *)a;
    if (!code && !(w.values = take_room(&s, count * n, 8))) code = RT_ENOMEM;
    if (!code && vectors && !((w.u = take_room(&s, count * m * columns, 8)) && (w.v = take_room(&s, count * n * n, 8))))
        code = RT_ENOMEM;
    if (!code) code = for_matrices(&s, count, 8 * m * n, float_svd_one, &w);
    if (!code) code = store_stack(&s, &c->out[1], w.values, RT_F64);
    if (code || !vectors) return close_stack(&s, code);
    rt_view of_u = wide ? turned_view(&c->out[2]) : c->out[0], of_v = wide ? turned_view(&c->out[0]) : c->out[2];
    code = store_stack(&s, &of_u, w.u, RT_F64);
    return close_stack(&s, code ? code : store_stack(&s, &of_v, w.v, RT_F64));
}

int rt_k_linalg_svd(const rt_ctx *ctx, const rt_call *c) { /* A, full_matrices, compute_uv, driver -> U, S, Vh */
    const rt_view *v = rt_arg_view(c, 0);
    /* factors of what has no elements may be identities; a batch whose factors have none may be immense */
    bool any = false;
    for (int i = 0; i < 3; i++) any |= rt_numel(&c->out[i]) > 0;
    if (!any) return RT_OK;
    if (v->dtype == RT_F32 && v->size[v->rank - 2] * v->size[v->rank - 1] >= FEW_NUMBERS) return svd_of_floats(ctx, c);
    stack s = open_stack(ctx, v->dtype);
    int64_t m = v->size[v->rank - 2], n = v->size[v->rank - 1], k = m < n ? m : n, count = batches(v, 2);
    bool full = rt_arg_int(c, 1), vectors = rt_arg_int(c, 2), wide = m < n;
    int64_t tall = wide ? n : m, columns = full ? tall : k;
    svd w;
    char *a, *u = NULL, *vh = NULL;
    double *values = NULL;
    int code = load_stack(&s, v, NULL, 2, s.dtype, &a);
    if (!code) code = open_svd(&w, &s, m, n, full, vectors);
    int64_t of_tall = vectors ? count * tall * columns : 0, of_low = vectors ? count * k * k : 0;
    if (!code && !((values = take_room(&s, count * k, 8)) && (u = take_room(&s, wide ? of_low : of_tall, s.item)) &&
                   (vh = take_room(&s, wide ? of_tall : of_low, s.item))))
        code = RT_ENOMEM;
    for (int64_t b = 0; b < count && !code; b++) {
        code = svd_one(&w, a + b * m * n * s.item, m, n, "linalg.svd", b);
        if (code) break;
        memcpy(values + b * k, w.d, (size_t)k * sizeof *values);
        if (!vectors) continue;
        put_factor(&s, wide ? w.v : w.u, u + b * (wide ? k * k : tall * columns) * s.item, wide ? k : tall,
                   wide ? k : columns, false);
        put_factor(&s, wide ? w.u : w.v, vh + b * (wide ? tall * columns : k * k) * s.item, wide ? tall : k,
                   wide ? columns : k, true);
    }
    if (!code && vectors) code = store_stack(&s, &c->out[0], u, s.dtype);
    if (!code) code = store_stack(&s, &c->out[1], values, RT_F64);
    if (!code && vectors) code = store_stack(&s, &c->out[2], vh, s.dtype);
    return close_stack(&s, code);
}
