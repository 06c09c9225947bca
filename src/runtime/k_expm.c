/* k_expm.c: exponentials of matrices: the matrix is halved until it is small, its Taylor polynomial of degree 16 is
 * summed with six products, and the result is squared as often as the matrix was halved. */
#include "runtime/gemm.h"
#include "runtime/kernels.h"
#include "runtime/rt_stack.h"

#include <math.h>
#include <string.h>

enum { MOST_HALVINGS = 1100 };

enum { SMALL = 12 }; /* a product's own preparations take longer than these loops */

static void multiply_small(const double *a, const double *b, double *restrict to, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < n; j++) to[i * n + j] = 0;
        for (int64_t k = 0; k < n; k++)
            for (int64_t j = 0; j < n; j++) to[i * n + j] += a[i * n + k] * b[k * n + j];
    }
}

static int multiply(const stack *s, const double *a, const double *b, double *to, int64_t n) {
    if (n <= SMALL && s->dtype == RT_F64) {
        multiply_small(a, b, to, n);
        return RT_OK;
    }
    rt_gemm_args g = rt_gemm_plain(s->dtype, n, n, n, a, b, to);
    return rt_gemm(s->ctx, &g);
}

/* room: five matrices. The result is written over x. Factors are real: complex matrices are twice as many numbers. */
static int exponential(const stack *s, double *x, int64_t n, int halvings, double *room) {
    int64_t per = s->item / 8, all = n * n * per;
    double *x2 = room, *x3 = x2 + all, *x4 = x3 + all, *p = x4 + all, *q = p + all, c[17] = { 1 };
    for (int k = 1; k <= 16; k++) c[k] = c[k - 1] / k;
    for (int64_t i = 0; i < all; i++) x[i] = x[i] * ldexp(1, -halvings);
    int code = multiply(s, x, x, x2, n);
    if (!code) code = multiply(s, x2, x, x3, n);
    if (!code) code = multiply(s, x2, x2, x4, n);
    for (int64_t i = 0; i < all; i++) q[i] = c[16] * x4[i];
    for (int part = 3; part >= 0 && !code; part--) {
        if (part < 3) code = multiply(s, p, x4, q, n);
        const double *f = c + 4 * part;
        for (int64_t i = 0; i < all; i++) p[i] = q[i] + (f[1] * x[i] + f[2] * x2[i] + f[3] * x3[i]);
        for (int64_t i = 0; i < n; i++) p[(i * n + i) * per] += f[0];
    }
    for (int k = 0; k < halvings && !code; k++) {
        code = multiply(s, p, p, q, n);
        double *swap = p;
        p = q;
        q = swap;
    }
    memcpy(x, p, (size_t)all * sizeof *x);
    return code;
}

/* The largest sum of sizes in a row; NAN or infinite where an element is. */
static double norm_of(const stack *s, const char *a, int64_t n) {
    double most = 0;
    for (int64_t i = 0; i < n; i++) {
        double sum = 0;
        for (int64_t j = 0; j < n; j++)
            sum += s->dtype == RT_F64 ? fabs(((const double *)a)[i * n + j]) : cabs(((const zdouble *)a)[i * n + j]);
        if (!(sum <= most)) most = sum;
        if (isnan(most)) break;
    }
    return most;
}

typedef struct exp_work {
    const stack *s;
    char *a;
    int64_t n;
} exp_work;

static int exponential_one(const void *arg, int64_t i) {
    const exp_work *w = arg;
    int64_t n = w->n, all = n * n * w->s->item;
    char *one = w->a + i * all;
    double norm = norm_of(w->s, one, n);
    int halvings = 0;
    if (!isfinite(norm)) {
        for (int64_t k = 0; k < all / 8; k++) ((double *)one)[k] = NAN;
        return RT_OK;
    }
    while (ldexp(norm, -halvings) > 0.5 && halvings < MOST_HALVINGS) halvings++;
    double few[5 * SMALL * SMALL],
        *room = n <= SMALL && w->s->dtype == RT_F64 ? few : rt_scratch(w->s->ctx, (size_t)(5 * all));
    if (!room) return RT_ENOMEM;
    int code = exponential(w->s, (double *)one, n, halvings, room);
    if (room != few) rt_scratch_free(w->s->ctx, room);
    return code;
}

int rt_k_matrix_exp(const rt_ctx *ctx, const rt_call *c) { /* self */
    const rt_view *v = rt_arg_view(c, 0);
    if (!rt_numel(v)) return RT_OK; /* of a batch that may be immense */
    stack s = open_stack(ctx, v->dtype);
    int64_t n = v->size[v->rank - 1];
    char *a = NULL;
    int code = load_stack(&s, v, NULL, 2, s.dtype, &a);
    exp_work w = { &s, a, n };
    if (!code) code = for_matrices(&s, batches(v, 2), 8 * n * n, exponential_one, &w);
    if (!code) code = store_stack(&s, &c->out[0], a, s.dtype);
    return close_stack(&s, code);
}
