/* expand_quantile.c: quantiles: sorted rows, read at places between their elements. */
#include "ops/expand.h"
#include "ops/rules.h"

enum { SELF, Q, DIM, KEEPDIM, INTERPOLATION };

static bool is_called(const cr_arg *a, const char *name) { return !strcmp(a->u.s, name); }

cr_status check_quantile(cr_rule *r) { /* self, q, dim, keepdim, interpolation; q is a tensor or a number */
    static const char *const ways[] = { "linear", "lower", "higher", "midpoint", "nearest" };
    const char *name = r->op->schema.name;
    const cr_meta *m = cr_rule_meta(r, SELF), *q = cr_rule_meta(r, Q);
    bool known = false, empty = false;
    int dim = 0;
    CR_TRY(cr_dim_decide(r->env, cr_meta_numel(r->env, m), CR_EQ, 0, &empty));
    if (empty) return CR_FAIL(CR_ERUNTIME, "%s: the tensor must not be empty", name);
    if (m->dtype != CR_F32 && m->dtype != CR_F64)
        return CR_FAIL(CR_ERUNTIME, "%s: the tensor must be float32 or float64, not %s", name, rt_dtype_name(m->dtype));
    if (q && q->rank > 1)
        return CR_FAIL(CR_ERUNTIME, "%s: q must be a number or a vector, it has %d dimensions", name, q->rank);
    if (q && q->dtype != m->dtype)
        return CR_FAIL(CR_ERUNTIME, "%s: q must have the tensor's dtype %s, not %s", name, rt_dtype_name(m->dtype),
                       rt_dtype_name(q->dtype));
    if (!q && r->arg[Q].kind == CR_ARG_FLOAT && !(r->arg[Q].u.f >= 0 && r->arg[Q].u.f <= 1))
        return CR_FAIL(CR_ERUNTIME, "%s: q must be between 0 and 1, got %g", name, r->arg[Q].u.f);
    for (int i = 0; i < 5; i++) known |= is_called(&r->arg[INTERPOLATION], ways[i]);
    if (!known)
        return CR_FAIL(CR_ERUNTIME, "%s: interpolation must be linear, lower, higher, midpoint or nearest, not '%s'",
                       name, r->arg[INTERPOLATION].u.s);
    if (cr_rule_has(r, DIM)) CR_TRY(cr_wrap_dim(cr_rule_int(r, DIM), m->rank, &dim));
    cr_dim row = !cr_rule_has(r, DIM) ? cr_meta_numel(r->env, m) : m->rank ? m->size[dim] : 1;
    if (cr_dim_known(r->env, row, CR_GT, 1 << 24) == CR_YES)
        return CR_FAIL(CR_ERUNTIME, "%s: the tensor is too large: at most 2^24 elements are sorted", name);
    return dtype_same(r);
}

/* Places in rows of n elements: the last one where a row holds NaN; or, NaN left out, in what remains of it. */
static cr_arg places(cr__run *r, cr_arg sorted, cr_arg q, cr_dim n, bool skip_nan) {
    cr_arg nan = CR_RUN(r, "isnan", sorted), last = cr_arg_int(-1), first = cr_arg_int(0), dims = cr_arg_list(&last, 1);
    cr_dim top = cr_dim_sub(r->e->env, n, 1);
    if (!skip_nan) {
        cr_arg any = CR_RUN(r, "any.dim", nan, last, cr_arg_bool(true));
        cr_arg end = CR_RUN(r, "full_like", q, cr_arg_int(top));
        return CR_RUN(r, "where.self", any, end, CR_RUN(r, "mul.Scalar", q, cr_arg_int(top)));
    }
    cr_arg count = CR_RUN(r, "sum.dim_IntList", CR_RUN(r, "logical_not", nan), dims, cr_arg_bool(true));
    return CR_RUN(r, "clamp_min", CR_RUN(r, "mul.Tensor", q, CR_RUN(r, "sub.Scalar", count, cr_arg_int(1))), first);
}

/* Rows to sort along the last dimension. */
static cr_arg rows_of(cr__run *r, const cr_arg *args, int rank, int dim) {
    cr_arg one = cr_arg_int(-1), last = cr_arg_int(-1);
    if (args[DIM].kind == CR_ARG_NONE || !rank) return CR_RUN(r, "reshape", args[SELF], cr_arg_list(&one, 1));
    if (dim == rank - 1) return args[SELF];
    return CR_RUN(r, "transpose.int", CR_RUN(r, "unsqueeze", args[SELF], last), cr_arg_int(dim), last);
}

cr_status expand_quantile(cr_emitter *e, const cr_op *op, const cr_arg *args, cr_arg *results) {
    cr__run r = { .e = e };
    const cr_meta *m = cr__run_meta(&r, &args[SELF]);
    bool all = args[DIM].kind == CR_ARG_NONE, keep = args[KEEPDIM].u.i != 0, numeric = cr_arg_is_number(&args[Q]);
    int rank = m->rank, dtype = m->dtype, dim = 0, outs = 0;
    if (!all) CR_TRY(cr_wrap_dim(args[DIM].u.i, rank, &dim));
    cr_arg out[CR_MAX_RANK + 1], one = cr_arg_int(-1), last = cr_arg_int(-1);
    for (int d = 0; d < rank; d++)
        if (keep || (!all && d != dim)) out[outs++] = all || d == dim ? cr_arg_int(1) : cr_arg_int(m->size[d]);
    bool listed = !numeric && cr__run_meta(&r, &args[Q])->rank > 0;
    cr_arg none = cr_arg_list(out, 0), q = numeric ? CR_RUN(&r, "full", none, args[Q], cr_arg_dtype(dtype)) : args[Q];
    if (!numeric) {
        cr_arg fits = CR_RUN(&r, "logical_and", CR_RUN(&r, "ge.Scalar", q, cr_arg_int(0)),
                             CR_RUN(&r, "le.Scalar", q, cr_arg_int(1)));
        cr_arg check[] = { CR_RUN(&r, "all", fits), cr_arg_str("quantile: q must be between 0 and 1") };
        cr__run_call(&r, "aten::_assert_async.msg", 2, check);
    }
    q = CR_RUN(&r, "reshape", q, cr_arg_list(&one, 1));
    cr_arg sorted = CR_RUN(&r, "sort", rows_of(&r, args, rank, dim));
    const cr_meta *s = cr__run_meta(&r, &sorted);
    cr_arg at = places(&r, sorted, q, s->rank ? s->size[s->rank - 1] : 1, !strcmp(op->schema.name, "nanquantile"));
    const cr_arg *way = &args[INTERPOLATION];
    if (is_called(way, "lower")) at = CR_RUN(&r, "floor", at);
    if (is_called(way, "higher")) at = CR_RUN(&r, "ceil", at);
    if (is_called(way, "nearest")) at = CR_RUN(&r, "round", at);
    cr_arg below = CR_RUN(&r, "to.dtype", at, cr_arg_dtype(CR_I64)), y = CR_RUN(&r, "gather", sorted, last, below);
    if (is_called(way, "linear") || is_called(way, "midpoint")) {
        cr_arg above = CR_RUN(&r, "gather", sorted, last,
                              CR_RUN(&r, "to.dtype", CR_RUN(&r, "ceil", at), cr_arg_dtype(CR_I64)));
        y = is_called(way, "midpoint") ? CR_RUN(&r, "lerp.Scalar", y, above, cr_arg_float(0.5))
                                       : CR_RUN(&r, "lerp.Tensor", y, above, CR_RUN(&r, "sub.Tensor", at, below));
    }
    if (listed) out[outs++] = cr_arg_int(cr__run_meta(&r, &q)->size[0]);
    y = CR_RUN(&r, "reshape", y, cr_arg_list(out, (size_t)outs));
    if (listed) y = CR_RUN(&r, "movedim.int", y, last, cr_arg_int(0));
    return cr__run_finish(&r, 1, &y, results);
}

cr_status check_vander(cr_rule *r) { /* x, N, increasing */
    const cr_meta *m = cr_rule_meta(r, 0);
    if (m->rank != 1) return CR_FAIL(CR_ERUNTIME, "vander: x must be a vector, it has %d dimensions", m->rank);
    if (cr_rule_has(r, 1))
        CR_TRY(cr_dim_require(r->env, cr_rule_int(r, 1), CR_GE, 0, "vander: N must not be negative"));
    return dtype_same(r);
}

cr_status check_linalg_vander(cr_rule *r) { /* x, N */
    const cr_meta *m = cr_rule_meta(r, 0);
    int t = m->dtype;
    bool taken = t == CR_F32 || t == CR_F64 || t == CR_C64 || t == CR_C128 || rt_is_integer(t);
    if (!taken)
        return CR_FAIL(CR_ERUNTIME, "linalg_vander: x must be floating, complex or integral, not %s", rt_dtype_name(t));
    cr_dim n = cr_rule_has(r, 1) ? cr_rule_int(r, 1) : m->rank ? m->size[m->rank - 1] : 0;
    CR_TRY(cr_dim_require(r->env, n, CR_GT, 1, "linalg_vander: N must be greater than 1"));
    return dtype_same(r);
}
