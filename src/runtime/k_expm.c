/* k_expm.c: exponentials of matrices: the matrix is halved until it is small, its Taylor polynomial of degree 16 is
 * summed with six products, and the result is squared as often as the matrix was halved. */
#include "runtime/kernels.h"
#include "runtime/rt_stack.h"

#include <math.h>
#include <string.h>

enum { MOST_HALVINGS = 1100 };

#define DEFINE_EXPM(T, s)                                                                                              \
    static void multiply_##s(const T *a, const T *b, T *to, int64_t n) {                                               \
        memset(to, 0, (size_t)(n * n) * sizeof *to);                                                                   \
        for (int64_t i = 0; i < n; i++)                                                                                \
            for (int64_t k = 0; k < n; k++) {                                                                          \
                T f = a[i * n + k], *row = to + i * n;                                                                 \
                for (int64_t j = 0; j < n; j++) row[j] += f * b[k * n + j];                                            \
            }                                                                                                          \
    }                                                                                                                  \
    /* room: five matrices. The result is written over x. */                                                           \
    static void exponential_##s(T *x, int64_t n, int halvings, T *room) {                                              \
        int64_t all = n * n;                                                                                           \
        T *x2 = room, *x3 = x2 + all, *x4 = x3 + all, *p = x4 + all, *q = p + all;                                     \
        double c[17] = { 1 };                                                                                          \
        for (int k = 1; k <= 16; k++) c[k] = c[k - 1] / k;                                                             \
        for (int64_t i = 0; i < all; i++) x[i] = x[i] * ldexp(1, -halvings);                                           \
        multiply_##s(x, x, x2, n);                                                                                     \
        multiply_##s(x2, x, x3, n);                                                                                    \
        multiply_##s(x2, x2, x4, n);                                                                                   \
        for (int64_t i = 0; i < all; i++) q[i] = c[16] * x4[i];                                                        \
        for (int part = 3; part >= 0; part--) {                                                                        \
            if (part < 3) multiply_##s(p, x4, q, n);                                                                   \
            const double *f = c + 4 * part;                                                                            \
            for (int64_t i = 0; i < all; i++) p[i] = q[i] + (f[1] * x[i] + f[2] * x2[i] + f[3] * x3[i]);               \
            for (int64_t i = 0; i < n; i++) p[i * n + i] += f[0];                                                      \
        }                                                                                                              \
        for (int k = 0; k < halvings; k++) {                                                                           \
            multiply_##s(p, p, q, n);                                                                                  \
            T *swap = p;                                                                                               \
            p = q;                                                                                                     \
            q = swap;                                                                                                  \
        }                                                                                                              \
        memcpy(x, p, (size_t)all * sizeof *x);                                                                         \
    }
DEFINE_EXPM(double, d)
DEFINE_EXPM(zdouble, z)

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

int rt_k_matrix_exp(const rt_ctx *ctx, const rt_call *c) { /* self */
    const rt_view *v = rt_arg_view(c, 0);
    if (!rt_numel(v)) return RT_OK; /* of a batch that may be immense */
    stack s = open_stack(ctx, v->dtype);
    int64_t n = v->size[v->rank - 1], count = batches(v, 2);
    char *a = NULL, *room = take(&s, 5 * n * n, s.item);
    int code = room ? load(&s, v, NULL, 2, s.dtype, &a) : RT_ENOMEM;
    for (int64_t b = 0; b < count && !code; b++) {
        char *one = a + b * n * n * s.item;
        double norm = norm_of(&s, one, n);
        int halvings = 0;
        if (!isfinite(norm)) {
            for (int64_t i = 0; i < n * n * s.item / 8; i++) ((double *)one)[i] = NAN;
            continue;
        }
        while (ldexp(norm, -halvings) > 0.5 && halvings < MOST_HALVINGS) halvings++;
        if (s.dtype == RT_F64) exponential_d((double *)one, n, halvings, (double *)room);
        else exponential_z((zdouble *)one, n, halvings, (zdouble *)room);
    }
    if (!code) code = store(&s, &c->out[0], a, s.dtype);
    return close_stack(&s, code);
}
