/* expand_lstsq.c: least squares: a kernel where no singular values are wanted, else by these. The drivers of LAPACK
 * differ in what they give back, and the default one leaves residuals out. */
#include "ops/expand.h"
#include "ops/rules.h"

enum { SELF, B, RCOND, DRIVER };

static bool is_vector(const cr_env *env, const cr_meta *a, const cr_meta *b) {
    (void)env;
    return b->rank == a->rank - 1;
}

static bool is_driver(const cr_arg *a, const char *name) { return a->kind == CR_ARG_STR && !strcmp(a->u.s, name); }

cr_status check_lstsq(cr_rule *r) { /* self, b, rcond, driver */
    const cr_meta *a = cr_rule_meta(r, SELF), *b = cr_rule_meta(r, B);
    static const char *const drivers[] = { "gels", "gelsy", "gelsd", "gelss" };
    bool known = !cr_rule_has(r, DRIVER);
    if (a->rank < 2)
        return CR_FAIL(CR_ERUNTIME, "linalg_lstsq: self must have at least two dimensions, got %d", a->rank);
    if (b->rank < 1) return CR_FAIL(CR_ERUNTIME, "linalg_lstsq: b must have at least one dimension");
    if (!rt_is_float(a->dtype) && !rt_is_complex(a->dtype))
        return CR_FAIL(CR_ERUNTIME, "linalg_lstsq: self must be floating or complex, got %s", rt_dtype_name(a->dtype));
    if (a->dtype != b->dtype)
        return CR_FAIL(CR_ERUNTIME, "linalg_lstsq: self and b must have the same dtype, got %s and %s",
                       rt_dtype_name(a->dtype), rt_dtype_name(b->dtype));
    if (b->rank > a->rank || a->rank - b->rank > 1)
        return CR_FAIL(CR_ERUNTIME, "linalg_lstsq: b must have as many dimensions as self, or one less, got %d and %d",
                       b->rank, a->rank);
    bool vector = is_vector(r->env, a, b);
    CR_TRY(cr_dim_require(r->env, a->size[a->rank - 2], CR_EQ, b->size[b->rank - (vector ? 1 : 2)],
                          "linalg_lstsq: self and b must have as many rows"));
    for (size_t i = 0; i < CR_COUNT(drivers) && cr_rule_has(r, DRIVER); i++)
        known |= is_driver(&r->arg[DRIVER], drivers[i]);
    if (!known)
        return CR_FAIL(CR_ERUNTIME, "linalg_lstsq: driver must be gels, gelsy, gelsd or gelss, not '%s'",
                       r->arg[DRIVER].u.s);
    return dtype_same(r);
}

static cr_arg adjoint(cr__run *r, cr_arg x) {
    cr_arg y = CR_RUN(r, "transpose.int", x, cr_arg_int(-2), cr_arg_int(-1));
    return cr_dtype_is_complex(cr__run_meta(r, &x)->dtype) ? CR_RUN(r, "conj_physical", y) : y;
}

/* The first n of `rows` rows, column by column, as LAPACK leaves them in the place of b. */
static cr_arg laid_out(cr__run *r, cr_arg x, cr_dim n, cr_dim rows) {
    cr_arg pad[4] = { cr_arg_int(0), cr_arg_int(0), cr_arg_int(0), cr_arg_int(cr_dim_sub(r->e->env, rows, n)) };
    if (cr_dim_known(r->e->env, rows, CR_EQ, n) != CR_YES) x = CR_RUN(r, "constant_pad_nd", x, cr_arg_list(pad, 4));
    cr_arg flipped = CR_RUN(r, "transpose.int", x, cr_arg_int(-2), cr_arg_int(-1));
    cr_arg dense = CR_RUN(r, "clone", flipped, (cr_arg){ .kind = CR_ARG_FORMAT, .given = 1, .u.i = CR_CONTIGUOUS });
    return CR_RUN(r, "narrow", CR_RUN(r, "transpose.int", dense, cr_arg_int(-2), cr_arg_int(-1)), cr_arg_int(-2),
                  cr_arg_int(0), cr_arg_int(n));
}

static bool same_batches(cr_env *env, const cr_meta *a, const cr_meta *b, bool vector) {
    bool same = true;
    for (int d = 0; d < a->rank - 2 && same; d++)
        same = cr_dim_known(env, a->size[d], CR_EQ, b->size[d]) == CR_YES;
    return same && b->rank == a->rank - vector;
}

typedef struct solved { cr_arg x, rank, values, full; } solved;

/* LAPACK's own least value where none is given: the precision times the larger side */
static double least_part(const cr_arg *rcond, int dtype) {
    bool wide = dtype == CR_F64 || dtype == CR_C128;
    return rcond->kind == CR_ARG_FLOAT ? rcond->u.f : wide ? 0x1p-52 : 0x1p-23;
}

static solved by_singular_values(cr__run *r, const cr_arg *args, cr_arg b, cr_dim most_rows, bool plain) {
    cr_arg last = cr_arg_int(-1), over = cr_arg_list(&last, 1), zero = cr_arg_int(0), keep = cr_arg_bool(true);
    cr_arg factors[3] = { { 0 } }, svd[] = { args[SELF], cr_arg_bool(false) };
    double part = least_part(&args[RCOND], cr__run_meta(r, &args[SELF])->dtype);
    const cr_arg *found = cr__run_call(r, "aten::linalg_svd", 2, svd);
    if (!r->status) memcpy(factors, found, sizeof factors);
    cr_arg u = factors[0], s = factors[1], vh = factors[2];
    cr_arg limit = CR_RUN(r, "mul.Scalar", CR_RUN(r, "amax", s, over, keep), cr_arg_float(plain ? 0 : part));
    if (args[RCOND].kind != CR_ARG_FLOAT && !plain) limit = CR_RUN(r, "mul.Scalar", limit, cr_arg_int(most_rows));
    cr_arg counted = CR_RUN(r, "gt.Tensor", s, limit), rank = CR_RUN(r, "sum.dim_IntList", counted, over);
    cr_arg inverse = CR_RUN(r, "where.ScalarOther", counted, CR_RUN(r, "reciprocal", s), zero);
    cr_arg inner = CR_RUN(r, "mul.Tensor", CR_RUN(r, "unsqueeze", inverse, last),
                          CR_RUN(r, "matmul", adjoint(r, u), b));
    return (solved){ CR_RUN(r, "matmul", adjoint(r, vh), inner), rank, s, counted };
}

cr_status expand_lstsq(cr_emitter *e, const cr_op *op, const cr_arg *args, cr_arg *results) {
    cr__run r = { .e = e };
    (void)op;
    const cr_meta *m = cr__run_meta(&r, &args[SELF]), *given = cr__run_meta(&r, &args[B]);
    bool vector = is_vector(e->env, m, given), plain = is_driver(&args[DRIVER], "gels"), tall = false;
    bool valued = is_driver(&args[DRIVER], "gelsd") || is_driver(&args[DRIVER], "gelss"),
         same = same_batches(e->env, m, given, vector);
    int dtype = m->dtype, real = cr_dtype_to_real(dtype);
    cr_dim rows = m->size[m->rank - 2], n = m->size[m->rank - 1], most_rows = cr_dim_max(e->env, rows, n);
    if (!r.status) CR_TRY(cr_dim_decide(e->env, rows, CR_GT, n, &tall));
    cr_arg last = cr_arg_int(-1), zero = cr_arg_int(0), none = cr_arg_list(&zero, 1);
    cr_arg b = vector ? CR_RUN(&r, "unsqueeze", args[B], last) : args[B];
    solved s = { 0 };
    if (same && !valued) {
        cr_arg call[] = { args[SELF], b, args[RCOND], cr_arg_bool(plain) };
        const cr_arg *found = cr__run_call(&r, "cresset::lstsq", 4, call);
        if (!r.status) s.x = found[0], s.rank = found[1];
    } else {
        s = by_singular_values(&r, args, b, most_rows, plain);
    }
    cr_arg x = s.x, empty = CR_RUN(&r, "zeros", none, cr_arg_dtype(real)), residuals = empty;
    if (tall && (plain || valued)) {
        cr_arg off = CR_RUN(&r, "abs", CR_RUN(&r, "sub.Tensor", b, CR_RUN(&r, "matmul", args[SELF], x))),
               row = cr_arg_int(-2);
        residuals = CR_RUN(&r, "sum.dim_IntList", CR_RUN(&r, "mul.Tensor", off, off), cr_arg_list(&row, 1));
    }
    if (tall && valued) { /* PyTorch leaves them out otherwise, and a size that depends on data is no size */
        cr_arg check[] = { CR_RUN(&r, "all", s.full), cr_arg_str("linalg_lstsq: a matrix has not full rank, so there "
                                                                 "are no residuals; use driver='gelsy'") };
        cr__run_call(&r, "aten::_assert_async.msg", 2, check);
    }
    x = laid_out(&r, x, n, most_rows);
    cr_arg made[4] = { vector ? CR_RUN(&r, "squeeze.dim", x, last) : x, residuals,
                       plain ? CR_RUN(&r, "zeros", none, cr_arg_dtype(CR_I64)) : s.rank,
                       valued ? s.values : CR_RUN(&r, "zeros", none, cr_arg_dtype(real)) };
    return cr__run_finish(&r, 4, made, results);
}
