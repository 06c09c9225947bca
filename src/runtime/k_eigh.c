/* k_eigh.c: eigenvalues and eigenvectors of Hermitian matrices. Reflections make the matrix tridiagonal and real,
 * implicit QL steps with Wilkinson's shift make it diagonal; the vectors of the middle are then reflected back. A
 * matrix is scaled by a power of two first, so that no square overflows or vanishes. */
#include "runtime/kernels.h"
#include "runtime/rt_stack.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "runtime/rt_reflect.h"

enum { MOST_STEPS = 80 }; /* per eigenvalue; two are usual */

/* Rows a and b become c a - s b and s a + c b. */
static void rotate(double *a, double *b, int64_t n, double c, double s) {
    for (int64_t i = 0; i < n; i++) {
        double x = a[i], y = b[i];
        a[i] = c * x - s * y;
        b[i] = s * x + c * y;
    }
}

/* One implicit QL step on rows lo..hi of the tridiagonal matrix (d, e). The rows of z turn with it. */
static void ql_step(double *d, double *e, int64_t lo, int64_t hi, double *z, int64_t n) {
    double g = (d[lo + 1] - d[lo]) / (2 * e[lo]), r = hypot(g, 1), s = 1, c = 1, moved = 0;
    g = d[hi] - d[lo] + e[lo] / (g + copysign(r, g));
    for (int64_t i = hi - 1; i >= lo; i--) {
        double f = s * e[i], b = c * e[i];
        r = hypot(f, g);
        if (i + 1 < hi || r == 0) e[i + 1] = r;
        if (r == 0) { /* it fell apart early */
            d[i + 1] -= moved;
            e[hi] = 0;
            return;
        }
        s = f / r;
        c = g / r;
        g = d[i + 1] - moved;
        r = (d[i] - g) * s + 2 * c * b;
        moved = s * r;
        d[i + 1] = g + moved;
        g = c * r - b;
        if (z) rotate(z + i * n, z + (i + 1) * n, n, c, s);
    }
    d[lo] -= moved;
    e[lo] = g;
}

/* d becomes the eigenvalues, e (n numbers) nothing, and the rows of z the vectors. False: no convergence. */
static bool diagonalize(double *d, double *e, int64_t n, double *z) {
    if (n) e[n - 1] = 0;
    for (int64_t lo = 0; lo < n; lo++)
        for (int steps = 0;; steps++) {
            int64_t hi = lo;
            while (hi < n - 1 && fabs(e[hi]) > DBL_EPSILON * (fabs(d[hi]) + fabs(d[hi + 1])) && fabs(e[hi]) > DBL_MIN)
                hi++;
            if (hi == lo) break;
            if (steps == MOST_STEPS) return false;
            ql_step(d, e, lo, hi, z, n);
        }
    return true;
}

/* Smallest first. */
static void sort_rows(double *d, double *z, int64_t n, double *row) {
    for (int64_t i = 0; i < n; i++) {
        int64_t least = i;
        for (int64_t j = i + 1; j < n; j++)
            if (d[j] < d[least]) least = j;
        if (least == i) continue;
        double swap = d[i];
        d[i] = d[least];
        d[least] = swap;
        if (!z) continue;
        memcpy(row, z + i * n, (size_t)n * sizeof *row);
        memcpy(z + i * n, z + least * n, (size_t)n * sizeof *row);
        memcpy(z + least * n, row, (size_t)n * sizeof *row);
    }
}

/* The triangle that counts is repeated in the other; returns the power of two that the matrix was divided by, NAN for
 * what is not finite. */
static double prepare(const stack *s, char *a, int64_t n, bool upper) {
    double most = 0;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j <= i; j++) {
            int64_t from = upper ? j * n + i : i * n + j, to = upper ? i * n + j : j * n + i;
            zdouble x;
            if (s->dtype == RT_F64) {
                double *m = (double *)a;
                x = m[to] = m[from];
            } else {
                zdouble *m = (zdouble *)a;
                if (i == j) m[from] = creal(m[from]);
                x = m[from];
                m[to] = conj(x);
            }
            double size = fmax(fabs(creal(x)), fabs(cimag(x)));
            if (!isfinite(creal(x)) || !isfinite(cimag(x))) return NAN;
            if (size > most) most = size;
        }
    if (most == 0) return 1;
    int power = 0;
    frexp(most, &power);
    double scale = ldexp(1, power - 1);
    int64_t parts = n * n * (s->item / 8);
    for (int64_t i = 0; i < parts; i++) ((double *)a)[i] /= scale;
    return scale;
}

typedef struct rooms { double *e, *z, *row; char *reflections, *tau, *sums; } rooms;

/* d: the values; a: the vectors by columns, if asked for. False: no convergence. */
static bool eigh_one(const stack *s, char *a, int64_t n, bool vectors, double *d, const rooms *r) {
    bool real = s->dtype == RT_F64;
    if (real) tridiagonal_d((double *)a, n, d, r->e, (double *)r->reflections, (double *)r->tau, (double *)r->sums);
    else tridiagonal_z((zdouble *)a, n, d, r->e, (zdouble *)r->reflections, (zdouble *)r->tau, (zdouble *)r->sums);
    double *z = vectors ? r->z : NULL;
    if (z) memset(z, 0, (size_t)(n * n) * sizeof *z);
    for (int64_t i = 0; z && i < n; i++) z[i * n + i] = 1;
    if (!diagonalize(d, r->e, n, z)) return false;
    sort_rows(d, z, n, r->row);
    if (!z) return true;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) {
            if (real) ((double *)a)[j * n + i] = z[i * n + j];
            else ((zdouble *)a)[j * n + i] = z[i * n + j];
        }
    for (int64_t k = n - 2; k >= 0; k--) {
        int64_t at = (k + 1) * n, rest = n - k - 1;
        if (real)
            reflect_rows_d((double *)a + at, rest, n, n, (double *)r->reflections + k * n, ((double *)r->tau)[k],
                           (double *)r->sums);
        else
            reflect_rows_z((zdouble *)a + at, rest, n, n, (zdouble *)r->reflections + k * n, ((zdouble *)r->tau)[k],
                           (zdouble *)r->sums);
    }
    return true;
}

int rt_k_linalg_eigh(const rt_ctx *ctx, const rt_call *c) { /* A, UPLO, compute_v -> eigenvalues, eigenvectors */
    const rt_view *v = rt_arg_view(c, 0);
    if (!rt_numel(v)) return RT_OK; /* of a batch that may be immense */
    stack s = open_stack(ctx, v->dtype);
    int64_t n = v->size[v->rank - 1], count = batches(v, 2);
    bool upper = c->arg[1].u.str[0] == 'U' || c->arg[1].u.str[0] == 'u', vectors = rt_arg_int(c, 2);
    char *a = NULL;
    double *d = take_room(&s, count * n, sizeof *d);
    rooms r = { 0 };
    int code = load_stack(&s, v, NULL, 2, s.dtype, &a);
    if (!code && !(d && (r.e = take_room(&s, n, 8)) && (r.z = take_room(&s, vectors ? n * n : 0, 8)) &&
                   (r.row = take_room(&s, n, 8)) && (r.reflections = take_room(&s, n * n, s.item)) &&
                   (r.tau = take_room(&s, n, s.item)) && (r.sums = take_room(&s, n, s.item))))
        code = RT_ENOMEM;
    for (int64_t b = 0; b < count && !code; b++) {
        char *one = a + b * n * n * s.item;
        double scale = prepare(&s, one, n, upper);
        if (isnan(scale)) {
            code = rt_fail(ctx, RT_ERUNTIME,
                           "linalg.eigh: matrix %lld holds NaN or infinite numbers, so it has no eigenvalues",
                           (long long)b);
        } else if (!eigh_one(&s, one, n, vectors, d + b * n, &r)) {
            code = rt_fail(ctx, RT_ERUNTIME, "linalg.eigh: the algorithm did not converge for matrix %lld",
                           (long long)b);
        }
        for (int64_t i = 0; i < n && !code; i++) d[b * n + i] *= scale;
    }
    if (!code) code = store_stack(&s, &c->out[0], d, RT_F64);
    if (!code && vectors) code = store_stack(&s, &c->out[1], a, s.dtype);
    return close_stack(&s, code);
}
