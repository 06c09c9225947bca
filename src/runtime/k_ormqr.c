/* k_ormqr.c: a matrix times the orthogonal one that reflectors make, without making it. */
#include "runtime/kernels.h"
#include "runtime/rt_stack.h"

typedef struct ormqr_work {
    const stack *s;
    const char *a, *tau; /* m x wide; k numbers */
    char *x, *row;       /* m x n; n numbers */
    int64_t m, n, k, wide;
    bool flip; /* Q^H x, not Q x */
} ormqr_work;

/* x becomes (1 - tau v v^H) x; v is zero above row r, one in it, and column r of a below. */
static void reflect_real(const double *a, int64_t wide, double tau, double *x, int64_t m, int64_t n, int64_t r,
                         double *row) {
    for (int64_t j = 0; j < n; j++) row[j] = x[r * n + j];
    for (int64_t i = r + 1; i < m; i++)
        for (int64_t j = 0; j < n; j++) row[j] += a[i * wide + r] * x[i * n + j];
    for (int64_t j = 0; j < n; j++) x[r * n + j] -= tau * row[j];
    for (int64_t i = r + 1; i < m; i++)
        for (int64_t j = 0; j < n; j++) x[i * n + j] -= tau * a[i * wide + r] * row[j];
}
static void reflect_complex(const zdouble *a, int64_t wide, zdouble tau, zdouble *x, int64_t m, int64_t n, int64_t r,
                            zdouble *row) {
    for (int64_t j = 0; j < n; j++) row[j] = x[r * n + j];
    for (int64_t i = r + 1; i < m; i++)
        for (int64_t j = 0; j < n; j++) row[j] += conj(a[i * wide + r]) * x[i * n + j];
    for (int64_t j = 0; j < n; j++) x[r * n + j] -= tau * row[j];
    for (int64_t i = r + 1; i < m; i++)
        for (int64_t j = 0; j < n; j++) x[i * n + j] -= tau * a[i * wide + r] * row[j];
}

static int ormqr_one(const void *arg, int64_t i) {
    const ormqr_work *w = arg;
    int64_t item = w->s->item;
    const char *a = w->a + i * w->m * w->wide * item, *tau = w->tau + i * w->k * item;
    char *x = w->x + i * w->m * w->n * item, *row = w->row + i * w->n * item;
    for (int64_t step = 0; step < w->k; step++) { /* Q = H(0) H(1) ...: the last comes first */
        int64_t r = w->flip ? step : w->k - 1 - step;
        if (w->s->dtype == RT_F64) {
            reflect_real((const double *)a, w->wide, ((const double *)tau)[r], (double *)x, w->m, w->n, r,
                         (double *)row);
            continue;
        }
        zdouble t = ((const zdouble *)tau)[r];
        reflect_complex((const zdouble *)a, w->wide, w->flip ? conj(t) : t, (zdouble *)x, w->m, w->n, r,
                        (zdouble *)row);
    }
    return RT_OK;
}

static void conjugate(const stack *s, char *x, int64_t count) {
    for (int64_t i = 0; s->dtype == RT_C128 && i < count; i++) ((zdouble *)x)[i] = conj(((zdouble *)x)[i]);
}

/* From the right, y = x Q is y^H = Q^H x^H. */
RT_KERNEL(rt_k_ormqr) { /* self, input2 (tau), input3, left, transpose */
    const rt_view *v = rt_arg_view(c, 0), *t = rt_arg_view(c, 1), *out = &c->out[0];
    bool left = rt_arg_int(c, 3), transpose = rt_arg_int(c, 4);
    rt_view from = left ? *rt_arg_view(c, 2) : turned_view(rt_arg_view(c, 2)), to = left ? *out : turned_view(out);
    stack s = open_stack(ctx, v->dtype);
    int64_t m = to.size[to.rank - 2], n = to.size[to.rank - 1], count = full_batches(&to, 2);
    char *a = NULL, *tau = NULL, *x = NULL, *row = count ? take_room(&s, count * n, s.item) : NULL;
    if (!count) return RT_OK;
    int code = row ? load_stack(&s, v, NULL, 2, s.dtype, &a) : RT_ENOMEM;
    if (!code) code = load_stack(&s, t, NULL, 1, s.dtype, &tau);
    if (!code) code = load_stack(&s, &from, NULL, 2, s.dtype, &x);
    if (!code && !left) conjugate(&s, x, rt_numel(&to));
    ormqr_work w = { &s, a, tau, x, row, m, n, t->size[t->rank - 1], v->size[v->rank - 1], transpose == left };
    if (!code) code = for_matrices(&s, count, m * n, ormqr_one, &w);
    if (!code && !left) conjugate(&s, x, rt_numel(&to));
    if (!code) code = store_stack(&s, &to, x, s.dtype);
    return close_stack(&s, code);
}
