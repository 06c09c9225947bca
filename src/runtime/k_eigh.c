/* k_eigh.c: eigenvalues and eigenvectors of Hermitian matrices. Reflections make the matrix tridiagonal and real, whose
 * eigenvalues and vectors are found in f64 (rt_factor_divide.h); the vectors are then reflected back. A matrix is
 * scaled by a power of two first, so that no square overflows or vanishes. */
#include "runtime/kernels.h"
#include "runtime/rt_factor.h"
#include "runtime/rt_stack.h"

#include <math.h>
#include <string.h>

/* NAN where one of them is. */
static double larger(double most, double x) { return isnan(most) || fabs(x) <= most ? most : fabs(x); }

/* The triangle that counts is repeated in the other; returns the power of two that the matrix was divided by, NAN for
 * what is not finite. */
static double prepare(const stack *s, char *a, int64_t n, bool upper) {
    double most = 0;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j <= i; j++) {
            int64_t from = upper ? j * n + i : i * n + j, to = upper ? i * n + j : j * n + i;
            if (s->dtype == RT_F32) {
                most = larger(most, ((float *)a)[to] = ((float *)a)[from]);
            } else if (s->dtype == RT_F64) {
                most = larger(most, ((double *)a)[to] = ((double *)a)[from]);
            } else {
                zdouble *m = (zdouble *)a, x = i == j ? creal(m[from]) : m[from];
                m[to] = conj(x);
                m[from] = x;
                most = larger(larger(most, creal(x)), cimag(x));
            }
            if (!isfinite(most)) return NAN;
        }
    if (most == 0) return 1;
    int power = 0;
    frexp(most, &power);
    double scale = ldexp(1, power - 1);
    int64_t parts = n * n * (s->dtype == RT_C128 ? 2 : 1);
    for (int64_t i = 0; i < parts; i++) {
        if (s->dtype == RT_F32) ((float *)a)[i] = (float)(((float *)a)[i] / scale);
        else ((double *)a)[i] /= scale;
    }
    return scale;
}

typedef struct eigh_work {
    const stack *s;
    char *a, *vectors;
    double *d;
    int64_t n;
    bool upper;
} eigh_work;

/* d: the values; vectors (or NULL): as rows. */
static int eigh_one(const stack *s, char *a, int64_t n, double *d, char *vectors) {
    const rt_factor_loops *f = rt_factor(s->dtype);
    bool wide = vectors && s->dtype != RT_F64; /* vectors of the middle are f64 */
    int64_t squares = wide ? n * n : 0;
    double *e = rt_scratch(s->ctx, (size_t)((n + squares) * 8 + n * s->item)), *z = wide ? e + n : (double *)vectors;
    if (!e) return RT_ENOMEM;
    char *tau = (char *)(e + n + squares);
    int code = f->tridiagonal(s->ctx, a, n, d, e, tau);
    if (!code) code = f->tridiagonal_eigen(s->ctx, d, e, n, z);
    if (!code && wide) rt_convert(s->dtype, vectors, 1, RT_F64, z, 1, n * n);
    if (!code && vectors) code = f->reflect_vectors(s->ctx, a, n, tau, vectors, n);
    rt_scratch_free(s->ctx, e);
    return code;
}

static int eigh_matrix(const void *arg, int64_t i) {
    const eigh_work *w = arg;
    int64_t n = w->n, at = i * n * n * w->s->item;
    double scale = prepare(w->s, w->a + at, n, w->upper);
    if (isnan(scale))
        return rt_fail(w->s->ctx, RT_ERUNTIME,
                       "linalg.eigh: matrix %lld holds NaN or infinite numbers, so it has no eigenvalues",
                       (long long)i);
    int code = eigh_one(w->s, w->a + at, n, w->d + i * n, w->vectors ? w->vectors + at : NULL);
    if (code == RT_FACTOR_ENDLESS)
        return rt_fail(w->s->ctx, RT_ERUNTIME, "linalg.eigh: the algorithm did not converge for matrix %lld",
                       (long long)i);
    for (int64_t k = 0; k < n; k++) w->d[i * n + k] *= scale;
    return code;
}

int rt_k_linalg_eigh(const rt_ctx *ctx, const rt_call *c) { /* A, UPLO, compute_v -> eigenvalues, eigenvectors */
    const rt_view *v = rt_arg_view(c, 0);
    if (!rt_numel(v)) return RT_OK; /* of a batch that may be immense */
    stack s = open_stack_of(ctx, v);
    int64_t n = v->size[v->rank - 1], count = batches(v, 2);
    bool upper = c->arg[1].u.str[0] == 'U' || c->arg[1].u.str[0] == 'u', vectors = rt_arg_int(c, 2);
    char *a = NULL, *made = NULL;
    double *d = take_room(&s, count * n, sizeof *d);
    int code = d ? load_stack(&s, v, NULL, 2, s.dtype, &a) : RT_ENOMEM;
    if (!code && vectors && !(made = take_room(&s, count * n * n, s.item))) code = RT_ENOMEM;
    eigh_work w = { &s, a, made, d, n, upper };
    if (!code) code = for_matrices(&s, count, n * n * 8, eigh_matrix, &w);
    if (!code) code = store_stack(&s, &c->out[0], d, RT_F64);
    if (code || !vectors) return close_stack(&s, code);
    rt_view turned = turned_view(&c->out[1]);
    return close_stack(&s, store_stack(&s, &turned, made, s.dtype));
}
