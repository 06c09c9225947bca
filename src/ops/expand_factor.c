/* expand_factor.c: products of reflectors as ops that have derivatives. */
#include "ops/expand.h"
#include "ops/rules.h"

/* Q = H(0) H(1) ... with H(r) = 1 - tau[r] v v^H; v is zero above row r, one in it, and column r of the input below.
 * The last reflector comes first: each turns the columns found so far. */
cr_status expand_householder(cr_emitter *e, const cr_op *op, const cr_arg *args, cr_arg *results) { /* input, tau */
    cr__run r = { .e = e };
    const cr_meta *a = cr__run_meta(&r, &args[0]), *t = cr__run_meta(&r, &args[1]);
    if (r.status) return r.status;
    if (a->rank < 2 || t->rank < 1)
        return CR_FAIL(CR_ERUNTIME, "%s: expected matrices and a vector for each", op->schema.name);
    cr_dim m = a->size[a->rank - 2], n = a->size[a->rank - 1], count = t->size[t->rank - 1];
    int rank = a->rank, dtype = a->dtype;
    cr_arg size[CR_MAX_RANK];
    for (int d = 0; d < rank; d++) size[d] = cr_arg_int(a->size[d]);
    if (!cr_dim_is_plain(count))
        return CR_FAIL(CR_ENOTIMPL, "%s: the number of reflectors must be known", op->schema.name);
    cr_arg minus_one = cr_arg_int(-1), minus_two = cr_arg_int(-2), kind = cr_arg_dtype(dtype);
    cr_arg at = CR_RUN(&r, "arange", cr_arg_int(m)), one = CR_RUN(&r, "eye.m", cr_arg_int(m), cr_arg_int(n), kind);
    cr_arg q = CR_RUN(&r, "expand", one, cr_arg_list(size, (size_t)rank));
    for (int64_t k = count - 1; k >= 0 && !r.status; k--) {
        size_t mark = r.made.n;
        cr_arg below = CR_RUN(&r, "gt.Scalar", at, cr_arg_int(k)), here = CR_RUN(&r, "eq.Scalar", at, cr_arg_int(k));
        cr_arg own = CR_RUN(&r, "to.dtype", here, kind),
               column = CR_RUN(&r, "select.int", args[0], minus_one, cr_arg_int(k));
        cr_arg v = CR_RUN(&r, "where.self", below, column, own);
        cr_arg row = CR_RUN(&r, "unsqueeze", v, minus_two);
        if (rt_is_complex(dtype)) row = CR_RUN(&r, "conj_physical", row);
        cr_arg factor = CR_RUN(&r, "unsqueeze", CR_RUN(&r, "select.int", args[1], minus_one, cr_arg_int(k)), minus_one);
        cr_arg left = CR_RUN(&r, "unsqueeze", CR_RUN(&r, "mul.Tensor", v, factor), minus_one);
        cr_arg next = CR_RUN(&r, "sub.Tensor", q, CR_RUN(&r, "mul.Tensor", left, CR_RUN(&r, "matmul", row, q)));
        q = next;
        cr__run_trim(&r, mark, 1, &q);
    }
    cr_arg turned = CR_RUN(&r, "contiguous", CR_RUN(&r, "transpose.int", q, minus_two, minus_one));
    cr_arg out = CR_RUN(&r, "transpose.int", turned, minus_two, minus_one); /* column by column, like the kernel's */
    return cr__run_finish(&r, 1, &out, results);
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
