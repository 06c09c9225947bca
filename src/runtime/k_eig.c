/* k_eig.c: eigenvalues and eigenvectors of matrices that need not be Hermitian. Real matrices are worked on in real
 * numbers, so that their values are real or pairs of conjugates to the last bit. */
#include "runtime/kernels.h"
#include "runtime/rt_eig.h"
#include "runtime/rt_stack.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/rt_reflect.h"

typedef struct balance {
    int64_t low, high, *at;
    int *power;
} balance;

static double norm(zdouble x) { return fabs(creal(x)) + fabs(cimag(x)); }

/* x, and what is to be divided next, where the largest of them leaves no room to grow. */
static void shrink(zdouble *x, int64_t from, int64_t to, zdouble *a, zdouble *b, double limit, double most) {
    if (!(most > limit)) return;
    for (int64_t k = from; k < to; k++) x[k] /= most;
    if (a) *a /= most;
    if (b) *b /= most;
}

/* What balancing did to a vector's coordinates, undone. */
static void restore(zdouble *v, int64_t n, const balance *b) {
    for (int64_t i = b->low; i <= b->high; i++) v[i] *= ldexp(1, b->power[i]);
    for (int64_t k = 1; k <= n; k++) {
        int64_t i = k <= b->low ? b->low - k : k - 1, j = i < b->low || i > b->high ? b->at[i] : i;
        zdouble x = v[i];
        v[i] = v[j];
        v[j] = x;
    }
}

/* Norm 1, and where the phase is free the largest number real. */
static void unit(zdouble *v, int64_t n, bool free_phase) {
    double most = 0, sum = 0;
    int64_t at = 0;
    for (int64_t i = 0; i < n; i++) most = fmax(most, fmax(fabs(creal(v[i])), fabs(cimag(v[i]))));
    if (most == 0) return;
    for (int64_t i = 0; i < n; i++) {
        v[i] /= most;
        sum += creal(v[i]) * creal(v[i]) + cimag(v[i]) * cimag(v[i]);
        if (cabs(v[i]) > cabs(v[at])) at = i;
    }
    zdouble scale = free_phase ? conj(v[at]) / (cabs(v[at]) * sqrt(sum)) : 1 / sqrt(sum);
    for (int64_t i = 0; i < n; i++) v[i] = free_phase ? v[i] * scale : creal(v[i]) * creal(scale);
    if (free_phase) v[at] = creal(v[at]);
}

#define T double
#define N(name) name##_d
#define CONJ(x) (x)
#define SIZE(x) fabs(x)
#define schur_d rt__schur_real
#include "runtime/rt_eig_loops.h"
#undef T
#undef N
#undef CONJ
#undef SIZE
#define T zdouble
#define N(name) name##_z
#define CONJ(x) conj(x)
#define SIZE(x) cabs(x)
#define schur_z rt__schur_complex
#include "runtime/rt_eig_loops.h"
#undef T
#undef N
#undef CONJ
#undef SIZE

typedef struct eig_work {
    const stack *s;
    char *a;
    zdouble *values, *vectors;
    int64_t n;
} eig_work;

/* Numbers so large or small that their products are none are divided by a power of two first: returns it, or NAN for
 * what is not finite. */
static double prepare(double *a, int64_t parts) {
    double most = 0;
    for (int64_t i = 0; i < parts; i++) {
        if (!isfinite(a[i])) return NAN;
        most = fmax(most, fabs(a[i]));
    }
    if (most == 0 || (most > 1e-100 && most < 1e100)) return 1;
    int power = 0;
    frexp(most, &power);
    double scale = ldexp(1, power - 1);
    for (int64_t i = 0; i < parts; i++) a[i] /= scale;
    return scale;
}

static int eig_matrix(const void *arg, int64_t i) {
    const eig_work *w = arg;
    const rt_ctx *ctx = w->s->ctx;
    int64_t n = w->n, item = w->s->item;
    char *a = w->a + i * n * n * item;
    zdouble *values = w->values + i * n, *vectors = w->vectors ? w->vectors + i * n * n : NULL;
    double scale = prepare((double *)a, n * n * item / 8);
    if (isnan(scale))
        return rt_fail(ctx, RT_ERUNTIME,
                       "linalg.eig: matrix %lld holds NaN or infinite numbers, so it has no eigenvalues",
                       (long long)i);
    zdouble *x = rt_scratch(ctx, (size_t)(n * 16 + 2 * n * item + n * 16 + (vectors ? n * n * item : 0)));
    if (!x) return RT_ENOMEM;
    char *room = (char *)(x + n), *q = vectors ? room + 2 * n * item : NULL;
    int64_t *at = (int64_t *)(room + 2 * n * item + (vectors ? n * n * item : 0));
    balance b = { .at = at, .power = (int *)(at + n) };
    memset(at, 0, (size_t)n * 16);
    int code = item == 16 ? eigen_z((zdouble *)a, (zdouble *)q, (zdouble *)room, n, values, vectors, x, &b)
                          : eigen_d((double *)a, (double *)q, (double *)room, n, values, vectors, x, &b);
    rt_scratch_free(ctx, x);
    for (int64_t k = 0; k < n; k++) values[k] *= scale;
    if (code == RT_EIG_ENDLESS)
        return rt_fail(ctx, RT_ERUNTIME, "linalg.eig: the algorithm did not converge for matrix %lld", (long long)i);
    return code;
}

int rt_k_linalg_eig(const rt_ctx *ctx, const rt_call *c) { /* self -> eigenvalues (, eigenvectors) */
    const rt_view *v = rt_arg_view(c, 0);
    if (!rt_numel(v)) return RT_OK; /* of a batch that may be immense */
    stack s = open_stack(ctx, v->dtype);
    int64_t n = v->size[v->rank - 1], count = batches(v, 2);
    eig_work w = { .s = &s, .n = n, .values = take_room(&s, count * n, sizeof *w.values) };
    int code = w.values ? load_stack(&s, v, NULL, 2, s.dtype, &w.a) : RT_ENOMEM;
    if (!code && c->nout > 1 && !(w.vectors = take_room(&s, count * n * n, sizeof *w.vectors))) code = RT_ENOMEM;
    if (!code) code = for_matrices(&s, count, n * n * 16, eig_matrix, &w);
    if (!code) code = store_stack(&s, &c->out[0], w.values, RT_C128);
    if (code || !w.vectors) return close_stack(&s, code);
    rt_view turned = turned_view(&c->out[1]);
    return close_stack(&s, store_stack(&s, &turned, w.vectors, RT_C128));
}

/* self -> its real part. A loss that depends on the vectors' phases, which nobody chose, has an imaginary one. */
int rt_k_phaseless(const rt_ctx *ctx, const rt_call *c) {
    const rt_view *v = rt_arg_view(c, 0);
    stack s = open_stack(ctx, v->dtype);
    char *p = NULL;
    int code = load_stack(&s, v, NULL, 0, RT_C128, &p);
    const zdouble *x = (const zdouble *)p;
    int64_t n = rt_numel(v);
    for (int64_t i = 0; !code && i < n; i++)
        if (!(fabs(cimag(x[i])) <= 1e-2))
            code = rt_fail(ctx, RT_ERUNTIME,
                           "linalg.eig: the loss depends on the phases of the eigenvectors, which are not determined, "
                           "so it has no gradient; use what stays when a vector is multiplied by a phase");
    if (!code) code = store_stack(&s, &c->out[0], p, RT_C128);
    return close_stack(&s, code);
}
