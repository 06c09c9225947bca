/* expand_factor.c: products of reflectors as ops that have derivatives. */
#include "ops/expand.h"
#include "ops/rules.h"

/* The reflectors of a call: v(k) is zero above row k, one in it, and column k of the input below. */
typedef struct reflectors {
    cr_arg input, tau, at, kind;
    int dtype;
    int64_t count;
    bool flip;
} reflectors;

static cr_status find_reflectors(cr__run *r, const cr_op *op, const cr_arg *args, bool flip, reflectors *out) {
    const cr_meta *a = cr__run_meta(r, &args[0]), *t = cr__run_meta(r, &args[1]);
    if (r->status) return r->status;
    if (a->rank < 2 || t->rank < 1)
        return r->status = CR_FAIL(CR_ERUNTIME, "%s: expected matrices and a vector for each", op->schema.name);
    if (!cr_dim_is_plain(t->size[t->rank - 1]))
        return r->status = CR_FAIL(CR_ENOTIMPL, "%s: the number of reflectors must be known", op->schema.name);
    *out = (reflectors){ args[0],
                         args[1],
                         CR_RUN(r, "arange", cr_arg_int(a->size[a->rank - 2])),
                         cr_arg_dtype(a->dtype),
                         a->dtype,
                         t->size[t->rank - 1],
                         flip };
    return r->status;
}

static cr_arg conjugate(cr__run *r, int dtype, cr_arg x) {
    return rt_is_complex(dtype) ? CR_RUN(r, "conj_physical", x) : x;
}

/* q becomes H(k) q, H(k) = 1 - tau[k] v v^H, or with `flip` H(k)^H q. */
static cr_arg reflect(cr__run *r, const reflectors *f, int64_t k, cr_arg q) {
    cr_arg minus_one = cr_arg_int(-1), minus_two = cr_arg_int(-2);
    cr_arg below = CR_RUN(r, "gt.Scalar", f->at, cr_arg_int(k)), here = CR_RUN(r, "eq.Scalar", f->at, cr_arg_int(k));
    cr_arg own = CR_RUN(r, "to.dtype", here, f->kind),
           column = CR_RUN(r, "select.int", f->input, minus_one, cr_arg_int(k));
    cr_arg v = CR_RUN(r, "where.self", below, column, own);
    cr_arg row = conjugate(r, f->dtype, CR_RUN(r, "unsqueeze", v, minus_two));
    cr_arg tau = CR_RUN(r, "select.int", f->tau, minus_one, cr_arg_int(k));
    cr_arg factor = CR_RUN(r, "unsqueeze", f->flip ? conjugate(r, f->dtype, tau) : tau, minus_one);
    cr_arg left = CR_RUN(r, "unsqueeze", CR_RUN(r, "mul.Tensor", v, factor), minus_one);
    return CR_RUN(r, "sub.Tensor", q, CR_RUN(r, "mul.Tensor", left, CR_RUN(r, "matmul", row, q)));
}

/* Q q, or with `flip` Q^H q: Q = H(0) H(1) ..., so the last reflector comes first, or last. */
static cr_arg reflect_all(cr__run *r, const reflectors *f, cr_arg q) {
    for (int64_t step = 0; step < f->count && !r->status; step++) {
        size_t mark = r->made.n;
        q = reflect(r, f, f->flip ? step : f->count - 1 - step, q);
        cr__run_trim(r, mark, 1, &q);
    }
    return q;
}

static cr_arg by_columns(cr__run *r, cr_arg q) { /* like the kernels' results */
    cr_arg minus_one = cr_arg_int(-1), minus_two = cr_arg_int(-2);
    cr_arg turned = CR_RUN(r, "contiguous", CR_RUN(r, "transpose.int", q, minus_two, minus_one));
    return CR_RUN(r, "transpose.int", turned, minus_two, minus_one);
}

cr_status expand_householder(cr_emitter *e, const cr_op *op, const cr_arg *args, cr_arg *results) { /* input, tau */
    cr__run r = { .e = e };
    reflectors f = { .count = 0 };
    cr_arg size[CR_MAX_RANK], out = { 0 };
    if (!find_reflectors(&r, op, args, false, &f)) {
        const cr_meta *a = cr__run_meta(&r, &args[0]);
        int rank = a->rank;
        for (int d = 0; d < rank; d++) size[d] = cr_arg_int(a->size[d]);
        cr_arg one = CR_RUN(&r, "eye.m", size[rank - 2], size[rank - 1], f.kind);
        out = by_columns(&r, reflect_all(&r, &f, CR_RUN(&r, "expand", one, cr_arg_list(size, (size_t)rank))));
    }
    return cr__run_finish(&r, 1, &out, results);
}

/* self, input2 (tau), input3, left, transpose: from the right, y = x Q is y^H = Q^H x^H. */
cr_status expand_ormqr(cr_emitter *e, const cr_op *op, const cr_arg *args, cr_arg *results) {
    cr__run r = { .e = e };
    reflectors f = { .count = 0 };
    bool left = args[3].u.i != 0, transpose = args[4].u.i != 0;
    cr_arg minus_one = cr_arg_int(-1), minus_two = cr_arg_int(-2), x = args[2];
    if (!find_reflectors(&r, op, args, transpose == left, &f)) {
        if (!left) x = conjugate(&r, f.dtype, CR_RUN(&r, "transpose.int", x, minus_two, minus_one));
        x = reflect_all(&r, &f, x);
        if (!left) x = conjugate(&r, f.dtype, CR_RUN(&r, "transpose.int", x, minus_two, minus_one));
        if (!f.count) x = CR_RUN(&r, "clone", x);
        x = by_columns(&r, x);
    }
    return cr__run_finish(&r, 1, &x, results);
}

cr_status expand_sum_to_size(cr_emitter *e, const cr_op *op, const cr_arg *args, cr_arg *results) { /* self, size */
    cr__run r = { .e = e };
    const cr_meta *m = cr__run_meta(&r, &args[0]);
    cr_arg dims[CR_MAX_RANK];
    int lead = m->rank - (int)args[1].n, n = 0;
    (void)op;
    for (int d = 0; d < m->rank && !r.status; d++) {
        bool one = d < lead, same = false;
        if (!one) r.status = cr_dim_decide(e->env, args[1].u.list[d - lead].u.i, CR_EQ, 1, &one);
        if (!r.status && one && d >= lead) r.status = cr_dim_decide(e->env, m->size[d], CR_EQ, 1, &same);
        if (one && !same) dims[n++] = cr_arg_int(d);
    }
    cr_arg out = n ? CR_RUN(&r, "sum.dim_IntList", args[0], cr_arg_list(dims, (size_t)n), cr_arg_bool(true)) : args[0];
    if (lead > 0) out = CR_RUN(&r, "view", out, args[1]);
    return cr__run_finish(&r, 1, &out, results);
}
