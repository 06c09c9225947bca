/* k_lstsq.c: least squares. Reflectors solve them where a bound of the matrix's condition says that it has full rank,
 * as nearly all have; singular values solve the others, those too small left out. */
#include "runtime/gemm.h"
#include "runtime/kernels.h"
#include "runtime/rt_factor.h"
#include "runtime/rt_stack.h"

#include <string.h>

typedef struct squares {
    const stack *s;
    const rt_view *self;
    char *a, *b, *x; /* of each matrix (A b), or A^H where it is wide; b; the solution, n x k */
    double *condition;
    int64_t m, n, k; /* self is m x n, b has k columns */
} squares;

static int solve_one(const void *arg, int64_t i) {
    const squares *w = arg;
    const stack *s = w->s;
    int64_t m = w->m, n = w->n, k = w->k, row = k * s->item, wide = n + k;
    const rt_factor_loops *f = rt_factor(s->dtype);
    char *x = w->x + i * n * row;
    const char *b = w->b + i * m * row;
    if (m < n) {
        memcpy(x, b, (size_t)(m * row));
        return f->least_squares(s->ctx, w->a + i * m * n * s->item, n, m, x, k, &w->condition[i]);
    }
    char *both = rt_scratch(s->ctx, (size_t)(m * wide * s->item));
    if (!both) return RT_ENOMEM;
    for (int64_t r = 0; r < m; r++) {
        memcpy(both + r * wide * s->item, w->a + (i * m + r) * n * s->item, (size_t)(n * s->item));
        memcpy(both + (r * wide + n) * s->item, b + r * row, (size_t)row);
    }
    int code = f->least_squares(s->ctx, both, m, n, NULL, k, &w->condition[i]);
    for (int64_t r = 0; r < n && !code; r++)
        memcpy(x + r * row, both + (r * wide + n) * s->item, (size_t)row);
    rt_scratch_free(s->ctx, both);
    return code;
}

/* Matrix i of a view, as one of two dimensions. */
static rt_view matrix_at(const rt_view *v, int64_t i) {
    int last = v->rank - 2;
    int64_t offset = 0;
    for (int d = last - 1; d >= 0; d--) {
        offset += i % v->size[d] * v->stride[d];
        i /= v->size[d];
    }
    char *p = (char *)v->p + offset * rt_itemsize(v->dtype);
    return (rt_view){ p, { v->size[last], v->size[last + 1] }, { v->stride[last], v->stride[last + 1] }, 2, v->dtype };
}

static void conjugate(const stack *s, char *x, int64_t n) {
    for (int64_t i = 0; i < n && s->dtype == RT_C128; i++) ((zdouble *)x)[i] = conj(((zdouble *)x)[i]);
}

static void scale(const stack *s, char *x, int64_t n, double by) {
    for (int64_t i = 0; i < n * s->item / 4 && s->dtype == RT_F32; i++) ((float *)x)[i] = (float)(((float *)x)[i] * by);
    for (int64_t i = 0; i < n * s->item / 8 && s->dtype != RT_F32; i++) ((double *)x)[i] *= by;
}

/* x = V (U^H b / values), for the values that are above `part` of the largest; counts them. */
static int from_factors(const squares *w, char *u, const double *values, char *vh, double part, int64_t i,
                        int64_t *rank) {
    const stack *s = w->s;
    int64_t m = w->m, n = w->n, k = w->k, least = m < n ? m : n, row = k * s->item;
    char *inner = rt_scratch(s->ctx, (size_t)(least * row));
    if (!inner) return RT_ENOMEM;
    conjugate(s, u, m * least);
    conjugate(s, vh, least * n);
    rt_gemm_args g = rt_gemm_plain(s->dtype, least, k, m, u, w->b + i * m * row, inner);
    g.a_row = 1, g.a_col = least;
    int code = rt_gemm(s->ctx, &g);
    *rank = 0;
    for (int64_t r = 0; r < least; r++) {
        bool counts = values[r] > part * values[0];
        *rank += counts;
        if (counts) scale(s, inner + r * row, k, 1 / values[r]);
        else memset(inner + r * row, 0, (size_t)row);
    }
    g = rt_gemm_plain(s->dtype, n, k, least, vh, inner, w->x + i * n * row);
    g.a_row = 1, g.a_col = n;
    if (!code) code = rt_gemm(s->ctx, &g);
    rt_scratch_free(s->ctx, inner);
    return code;
}

static int by_values(const squares *w, double part, int64_t i, int64_t *rank) {
    const stack *s = w->s;
    int64_t m = w->m, n = w->n, least = m < n ? m : n, of_u[2] = { m, least }, of_vh[2] = { least, n };
    double *values = rt_scratch(s->ctx, (size_t)(least * 8 + (m + n) * least * s->item));
    if (!values) return RT_ENOMEM;
    char *u = (char *)(values + least), *vh = u + m * least * s->item;
    rt_view a = matrix_at(w->self, i);
    rt_view out[3] = { rt_view_contiguous(u, s->dtype, 2, of_u), rt_view_contiguous(values, RT_F64, 1, &least),
                       rt_view_contiguous(vh, s->dtype, 2, of_vh) };
    rt_arg arg[4] = { { .kind = RT_ARG_VIEW, .u.view = &a },
                      { .kind = RT_ARG_INT, .u.i = 0 },
                      { .kind = RT_ARG_INT, .u.i = 1 },
                      { .kind = RT_ARG_NONE } };
    rt_call call = { .arg = arg, .out = out, .nargs = 4, .nout = 3 };
    int code = rt_k_linalg_svd(s->ctx, &call);
    if (!code) code = from_factors(w, u, values, vh, part, i, rank);
    rt_scratch_free(s->ctx, values);
    return code;
}

/* Singular values that are not above this part of the largest count as nothing. */
static double least_part(const rt_call *c, int64_t m, int64_t n) {
    int dtype = rt_arg_view(c, 0)->dtype;
    double precision = dtype == RT_F64 || dtype == RT_C128 ? 0x1p-52 : 0x1p-23;
    return rt_arg_is_none(c, 2) || rt_arg_int(c, 3) ? precision * (double)(m < n ? n : m) : rt_arg_float(c, 2);
}

/* self (.. x m x n), b (.. x m x k), rcond, full (any value above 0 counts) -> x (.. x n x k), rank */
int rt_k_lstsq(const rt_ctx *ctx, const rt_call *c) {
    const rt_view *self = rt_arg_view(c, 0), *b = rt_arg_view(c, 1);
    stack s = open_stack_of(ctx, self);
    squares w = { .s = &s, .self = self, .m = self->size[self->rank - 2], .n = self->size[self->rank - 1],
                  .k = b->size[b->rank - 1] };
    int64_t count = batches(self, 2), *rank = NULL;
    if (!rt_numel(self) || !w.k) { /* nothing is solved, and the rank is 0 then; a batch may be immense */
        static const double zero;
        rt_view nothing = { .p = (void *)&zero, .dtype = RT_F64 };
        int code = rt_numel(&c->out[0]) ? rt_copy(ctx, &c->out[0], &nothing) : RT_OK;
        return code || !rt_numel(&c->out[1]) ? code : rt_copy(ctx, &c->out[1], &nothing);
    }
    rt_view turned = turned_view(self);
    int code = load_stack(&s, w.m < w.n ? &turned : self, NULL, 2, s.dtype, &w.a);
    if (!code && w.m < w.n) conjugate(&s, w.a, rt_numel(self));
    if (!code) code = load_stack(&s, b, NULL, 2, s.dtype, &w.b);
    if (!code && !((w.x = take_room(&s, count * w.n * w.k, s.item)) &&
                   (w.condition = take_room(&s, count, sizeof *w.condition)) &&
                   (rank = take_room(&s, count, sizeof *rank))))
        code = RT_ENOMEM;
    if (!code) code = for_matrices(&s, count, w.m * w.n, solve_one, &w);
    double part = least_part(c, w.m, w.n);
    for (int64_t i = 0; i < count && !code; i++) {
        rank[i] = w.m < w.n ? w.m : w.n;
        if (!(2 * part * w.condition[i] < 1)) code = by_values(&w, rt_arg_int(c, 3) ? 0 : part, i, &rank[i]);
    }
    if (!code) code = store_stack(&s, &c->out[0], w.x, s.dtype);
    if (!code) code = store_stack(&s, &c->out[1], rank, RT_I64);
    return close_stack(&s, code);
}
