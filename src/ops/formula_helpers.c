/* formula_helpers.c: the words of the formula language that are no ops. Most answer questions about dtypes and sizes,
 * so they cost nothing at run time and save no tensor for backward; a few (unreduce, conj, real) stand for the ops that
 * a real, already reduced or 0-d operand does not need. One table row each; docs/formulas.md lists them for readers. */
#include "ops/formula_eval.h"

#include <math.h>

typedef cr_status helper_fn(fx *x, const cr_fnode *node, const fval *args, int n, fval *out);

static cr_status refuse(fx *x, const cr_fnode *node, const char *wanted) {
    return cr__fx_fail(x, node, CR_EFORMAT, "%s() takes %s", node->name, wanted);
}

/* Dtype, rank and sizes of a tensor, or of a number standing in a tensor slot. *known = false while only names are
 * asked and the tensor is computed. */
static cr_status look(fx *x, const cr_fnode *node, const fval *v, cr_meta *scratch, const cr_meta **out, bool *known) {
    *known = true;
    if (cr_arg_is_number(&v->a) || v->a.kind == CR_ARG_SYM) {
        cr_meta_init(scratch, cr_arg_number_dtype(&v->a), (cr_device){ CR_CPU, -1 });
        *out = scratch;
        return CR_OK;
    }
    CR_TRY(cr__fx_meta(x, v, out));
    if (*out) return CR_OK;
    *known = false;
    return v->opaque ? CR_OK : refuse(x, node, "a tensor");
}
#define LOOK(i)                                                                                                        \
    const cr_meta *m = NULL;                                                                                           \
    cr_meta scratch;                                                                                                   \
    bool known;                                                                                                        \
    CR_TRY(look(x, node, &args[i], &scratch, &m, &known));                                                             \
    if (!known) return *out = (fval){ .opaque = true }, CR_OK

static cr_status give(fval *out, cr_arg a) {
    *out = cr__fval(a);
    return CR_OK;
}

static cr_status take_int(fx *x, const cr_fnode *node, const fval *v, int64_t *out) {
    if ((v->a.kind != CR_ARG_INT && v->a.kind != CR_ARG_BOOL) || !cr_dim_is_plain(v->a.u.i))
        return refuse(x, node, "a plain integer there");
    *out = v->a.u.i;
    return CR_OK;
}

static cr_status rank_(fx *x, const cr_fnode *node, const fval *args, int n, fval *out) {
    (void)n;
    LOOK(0);
    return give(out, cr_arg_int(m->rank));
}

static cr_status size_(fx *x, const cr_fnode *node, const fval *args, int n, fval *out) {
    (void)n;
    LOOK(0);
    int64_t d = 0;
    int dim;
    CR_TRY(take_int(x, node, &args[1], &d));
    CR_TRY(cr_wrap_dim(d, m->rank, &dim));
    return give(out, cr_arg_int(m->rank ? m->size[dim] : 1));
}

static cr_status dims_list(fx *x, const cr_dim *dims, int n, fval *out) {
    cr_arg *items = cr__fx_list(x, (size_t)n);
    if (!items) return CR_ENOMEM;
    for (int i = 0; i < n; i++) items[i] = cr_arg_int(dims[i]);
    return give(out, cr_arg_list(items, (size_t)n));
}

static cr_status sizes_(fx *x, const cr_fnode *node, const fval *args, int n, fval *out) {
    (void)n;
    LOOK(0);
    return dims_list(x, m->size, m->rank, out);
}

static cr_status strides_(fx *x, const cr_fnode *node, const fval *args, int n, fval *out) {
    (void)n;
    LOOK(0);
    return dims_list(x, m->stride, m->rank, out);
}

static cr_status offset_(fx *x, const cr_fnode *node, const fval *args, int n, fval *out) {
    (void)n;
    LOOK(0);
    return give(out, cr_arg_int(m->offset));
}

static cr_status numel_(fx *x, const cr_fnode *node, const fval *args, int n, fval *out) {
    (void)n;
    LOOK(0);
    return give(out, cr_arg_int(cr_meta_numel(x->e->env, m)));
}

static cr_status dtype_(fx *x, const cr_fnode *node, const fval *args, int n, fval *out) {
    (void)n;
    LOOK(0);
    return give(out, cr_arg_dtype(m->dtype));
}

/* format(x): the memory format that x's strides suggest for a like-shaped result. */
static cr_status format_(fx *x, const cr_fnode *node, const fval *args, int n, fval *out) {
    (void)n;
    LOOK(0);
    return give(out, (cr_arg){ .kind = CR_ARG_FORMAT,
                               .given = 1,
                               .u.i = cr_meta_suggest_format(x->e ? x->e->env : NULL, m) });
}

/* is_contiguous(x): is it row-major without gaps, for all that is known? */
static cr_status is_contiguous_(fx *x, const cr_fnode *node, const fval *args, int n, fval *out) {
    (void)n;
    LOOK(0);
    return give(out, cr_arg_bool(cr_meta_is_contiguous(x->e ? x->e->env : NULL, m, CR_CONTIGUOUS) == CR_YES));
}

/* order(x): the dims from the one that moves farthest in memory to the nearest. */
static cr_status order_(fx *x, const cr_fnode *node, const fval *args, int n, fval *out) {
    (void)n;
    LOOK(0);
    cr_env *env = x->e ? x->e->env : NULL;
    cr_arg *items = cr__fx_list(x, m->rank);
    if (!items) return CR_ENOMEM;
    for (int d = 0; d < m->rank; d++) {
        int at = d;
        while (at > 0 && cr_dim_known(env, m->stride[items[at - 1].u.i], CR_LT, m->stride[d]) == CR_YES)
            items[at] = items[at - 1], at--;
        items[at] = cr_arg_int(d);
    }
    return give(out, cr_arg_list(items, m->rank));
}

static cr_status device_(fx *x, const cr_fnode *node, const fval *args, int n, fval *out) {
    (void)n;
    LOOK(0);
    return give(out, (cr_arg){ .kind = CR_ARG_DEVICE, .given = 1, .u.device = m->device });
}

/* Questions about a dtype also take the dtype itself. */
static cr_status dtype_of(fx *x, const cr_fnode *node, const fval *v, int *dtype, bool *known) {
    const cr_meta *m;
    cr_meta scratch;
    *known = true;
    if (v->a.kind == CR_ARG_DTYPE) {
        *dtype = (int)v->a.u.i;
        return CR_OK;
    }
    CR_TRY(look(x, node, v, &scratch, &m, known));
    if (*known) *dtype = m->dtype;
    return CR_OK;
}
#define DTYPE_HELPER(name, result)                                                                                     \
    static cr_status name(fx *x, const cr_fnode *node, const fval *args, int n, fval *out) {                          \
        int dtype = 0;                                                                                                 \
        bool known;                                                                                                    \
        (void)n;                                                                                                       \
        CR_TRY(dtype_of(x, node, &args[0], &dtype, &known));                                                           \
        if (!known) return *out = (fval){ .opaque = true }, CR_OK;                                                     \
        return give(out, result);                                                                                      \
    }
DTYPE_HELPER(is_complex_, cr_arg_bool(cr_dtype_is_complex(dtype)))
DTYPE_HELPER(is_float_, cr_arg_bool(cr_dtype_is_floating(dtype)))
DTYPE_HELPER(is_integral_, cr_arg_bool(cr_dtype_is_integral(dtype)))
DTYPE_HELPER(to_real_, cr_arg_dtype(cr_dtype_to_real(dtype)))
DTYPE_HELPER(to_complex_, cr_arg_dtype(cr_dtype_to_complex(dtype)))
/* What a low-precision op computes in: decompositions say so in the IR and round once at the end. */
DTYPE_HELPER(wide_, cr_arg_dtype(dtype == CR_F16 || dtype == CR_BF16 ? CR_F32 : dtype == CR_C32 ? CR_C64 : dtype))
/* What an integer becomes where a floating result is due. */
DTYPE_HELPER(floating_, cr_arg_dtype(cr_dtype_is_integral(dtype) ? cr_default_dtype() : dtype))

static cr_status promote_(fx *x, const cr_fnode *node, const fval *args, int n, fval *out) {
    cr_promotion p = CR_PROMOTION_INIT;
    for (int i = 0; i < n; i++) {
        if (args[i].a.kind == CR_ARG_DTYPE) {
            cr_promotion_add_dtype(&p, (int)args[i].a.u.i, false);
            continue;
        }
        LOOK(i);
        if (m == &scratch) cr_promotion_add_dtype(&p, m->dtype, true);
        else CR_TRY(cr_promotion_add(&p, m));
    }
    int dtype;
    CR_TRY(cr_promotion_result(&p, &dtype));
    return give(out, cr_arg_dtype(dtype));
}

static cr_status len_(fx *x, const cr_fnode *node, const fval *args, int n, fval *out) {
    (void)n;
    if (args[0].opaque) return *out = (fval){ .opaque = true }, CR_OK;
    if (args[0].a.kind != CR_ARG_LIST) return refuse(x, node, "a list");
    return give(out, cr_arg_int(args[0].a.n));
}

static cr_status range_(fx *x, const cr_fnode *node, const fval *args, int n, fval *out) {
    int64_t begin = 0, end = 0, count;
    CR_TRY(take_int(x, node, &args[n - 1], &end));
    if (n == 2) CR_TRY(take_int(x, node, &args[0], &begin));
    if (cr_sub_overflow(end, begin, &count) || count > 1 << 20) return refuse(x, node, "at most a million numbers");
    count = CR_MAX(count, 0);
    cr_arg *items = cr__fx_list(x, (size_t)count);
    if (!items) return CR_ENOMEM;
    for (int64_t i = 0; i < count; i++) items[i] = cr_arg_int(begin + i);
    return give(out, cr_arg_list(items, (size_t)count));
}

/* The integers of a list argument, or of the arguments themselves. */
static cr_status ints_of(fx *x, const cr_fnode *node, const fval *args, int n, const cr_arg **items, uint32_t *count) {
    if (n == 1 && args[0].a.kind == CR_ARG_LIST) {
        *items = args[0].a.u.list;
        *count = args[0].a.n;
    } else {
        cr_arg *list = cr__fx_list(x, (size_t)n);
        if (!list) return CR_ENOMEM;
        for (int i = 0; i < n; i++) list[i] = args[i].a;
        *items = list;
        *count = (uint32_t)n;
    }
    for (uint32_t i = 0; i < *count; i++)
        if ((*items)[i].kind != CR_ARG_INT) return refuse(x, node, "integers");
    return CR_OK;
}

static cr_status prod_(fx *x, const cr_fnode *node, const fval *args, int n, fval *out) {
    const cr_arg *items;
    uint32_t count;
    CR_TRY(ints_of(x, node, args, n, &items, &count));
    cr_dim product = 1;
    for (uint32_t i = 0; i < count; i++) product = cr_dim_mul(x->e->env, product, items[i].u.i);
    if (product == CR_DIM_OVERFLOW)
        return cr__fx_fail(x, node, CR_EOVERFLOW, "this product leaves the range of 64 bits");
    return give(out, cr_arg_int(product));
}

static cr_status extreme(fx *x, const cr_fnode *node, const fval *args, int n, bool largest, fval *out) {
    bool floats = false;
    for (int i = 0; i < n; i++) floats |= args[i].a.kind == CR_ARG_FLOAT;
    if (floats) {
        double best = 0;
        for (int i = 0; i < n; i++) {
            double v = args[i].a.kind == CR_ARG_FLOAT ? args[i].a.u.f : (double)args[i].a.u.i;
            if (!cr_arg_is_number(&args[i].a) || (args[i].a.kind == CR_ARG_INT && !cr_dim_is_plain(args[i].a.u.i)))
                return refuse(x, node, "plain numbers");
            if (!i || (largest ? v > best : v < best)) best = v;
        }
        return give(out, cr_arg_float(best));
    }
    const cr_arg *items;
    uint32_t count;
    CR_TRY(ints_of(x, node, args, n, &items, &count));
    if (!count) return refuse(x, node, "at least one integer");
    cr_dim best = items[0].u.i;
    for (uint32_t i = 1; i < count; i++)
        best = largest ? cr_dim_max(x->e->env, best, items[i].u.i) : cr_dim_min(x->e->env, best, items[i].u.i);
    return give(out, cr_arg_int(best));
}
static cr_status max_(fx *x, const cr_fnode *node, const fval *args, int n, fval *out) {
    return extreme(x, node, args, n, true, out);
}
static cr_status min_(fx *x, const cr_fnode *node, const fval *args, int n, fval *out) {
    return extreme(x, node, args, n, false, out);
}

/* Dims as a mask: one integer, a list, or none and [] for all of them. */
static cr_status dims_mask(fx *x, const cr_fnode *node, const fval *v, int rank, uint32_t *mask) {
    uint32_t all = rank ? (uint32_t)((1ull << rank) - 1) : 1;
    *mask = 0;
    if (v->a.kind == CR_ARG_NONE || (v->a.kind == CR_ARG_LIST && !v->a.n)) {
        *mask = all;
        return CR_OK;
    }
    const cr_arg *items = v->a.kind == CR_ARG_LIST ? v->a.u.list : &v->a;
    uint32_t count = v->a.kind == CR_ARG_LIST ? v->a.n : 1;
    for (uint32_t i = 0; i < count; i++) {
        int d;
        if (items[i].kind != CR_ARG_INT || !cr_dim_is_plain(items[i].u.i))
            return refuse(x, node, "dims as plain integers");
        CR_TRY(cr_wrap_dim(items[i].u.i, rank, &d));
        *mask |= 1u << d;
    }
    return CR_OK;
}

static cr_status take_rank(fx *x, const cr_fnode *node, const fval *v, int *rank) {
    int64_t r = 0;
    CR_TRY(take_int(x, node, v, &r));
    if (r < 0 || r > CR_MAX_RANK) return refuse(x, node, "a rank there");
    *rank = (int)r;
    return CR_OK;
}

/* dims(dim, rank): sorted, non-negative. */
static cr_status dims_(fx *x, const cr_fnode *node, const fval *args, int n, fval *out) {
    (void)n;
    int rank, count = 0;
    uint32_t mask;
    cr_dim dims[CR_MAX_RANK];
    CR_TRY(take_rank(x, node, &args[1], &rank));
    CR_TRY(dims_mask(x, node, &args[0], rank, &mask));
    for (int d = 0; d < rank; d++)
        if (mask >> d & 1) dims[count++] = d;
    return dims_list(x, dims, count, out);
}

/* rest(dims, rank): the dims of 0 .. rank - 1 that are not in the list, in order. */
static cr_status rest_(fx *x, const cr_fnode *node, const fval *args, int n, fval *out) {
    (void)n;
    int rank, count = 0;
    uint32_t mask = 0;
    cr_dim dims[CR_MAX_RANK];
    CR_TRY(take_rank(x, node, &args[1], &rank));
    if (args[0].a.kind != CR_ARG_LIST) return refuse(x, node, "a list of dims and a rank");
    if (args[0].a.n) CR_TRY(dims_mask(x, node, &args[0], rank, &mask));
    for (int d = 0; d < rank; d++)
        if (!(mask >> d & 1)) dims[count++] = d;
    return dims_list(x, dims, count, out);
}

/* count(x, dim): the elements that a reduction over dim joins. */
static cr_status count_(fx *x, const cr_fnode *node, const fval *args, int n, fval *out) {
    LOOK(0);
    uint32_t mask;
    fval all = cr__fval(cr_arg_none());
    CR_TRY(dims_mask(x, node, n > 1 ? &args[1] : &all, m->rank, &mask));
    cr_dim product = 1;
    for (int d = 0; d < m->rank; d++)
        if (mask >> d & 1) product = cr_dim_mul(x->e->env, product, m->size[d]);
    return give(out, cr_arg_int(product));
}

static cr_status wrap_(fx *x, const cr_fnode *node, const fval *args, int n, fval *out) {
    (void)n;
    int64_t d = 0;
    int rank, dim;
    CR_TRY(take_int(x, node, &args[0], &d));
    CR_TRY(take_rank(x, node, &args[1], &rank));
    CR_TRY(cr_wrap_dim(d, rank, &dim));
    return give(out, cr_arg_int(dim));
}

/* is_known(n): a number while expanding; a symbolic size is none, and a question about it would narrow it. */
static cr_status is_known_(fx *x, const cr_fnode *node, const fval *args, int n, fval *out) {
    (void)x, (void)node, (void)n;
    return give(out, cr_arg_bool(!args[0].opaque && args[0].a.kind == CR_ARG_INT && cr_dim_is_plain(args[0].a.u.i)));
}

/* inverse(dims): the permutation that undoes this one. */
static cr_status inverse_(fx *x, const cr_fnode *node, const fval *args, int n, fval *out) {
    const cr_arg *items;
    uint32_t count, seen = 0;
    cr_dim inverse[CR_MAX_RANK];
    CR_TRY(ints_of(x, node, args, n, &items, &count));
    if (count > CR_MAX_RANK) return refuse(x, node, "a permutation of dims");
    for (uint32_t i = 0; i < count; i++) {
        int d;
        if (!cr_dim_is_plain(items[i].u.i)) return refuse(x, node, "a permutation of dims");
        CR_TRY(cr_wrap_dim(items[i].u.i, (int)count, &d));
        if (seen >> d & 1) return refuse(x, node, "a permutation of dims");
        seen |= 1u << d;
        inverse[d] = i;
    }
    return dims_list(x, inverse, (int)count, out);
}

static cr_status reversed_(fx *x, const cr_fnode *node, const fval *args, int n, fval *out) {
    (void)n;
    const cr_arg *a = &args[0].a;
    if (a->kind != CR_ARG_LIST) return refuse(x, node, "a list");
    cr_arg *items = cr__fx_list(x, a->n);
    if (!items) return CR_ENOMEM;
    for (uint32_t i = 0; i < a->n; i++) items[i] = a->u.list[a->n - 1 - i];
    return give(out, cr_arg_list(items, a->n));
}

/* broadcast(sizes, sizes, ...) */
static cr_status broadcast_(fx *x, const cr_fnode *node, const fval *args, int n, fval *out) {
    int rank = 0;
    cr_dim size[CR_MAX_RANK], other[CR_MAX_RANK];
    for (int i = 0; i < n; i++) {
        const cr_arg *a = &args[i].a;
        if (a->kind != CR_ARG_LIST || a->n > CR_MAX_RANK) return refuse(x, node, "lists of sizes");
        for (uint32_t k = 0; k < a->n; k++) {
            if (a->u.list[k].kind != CR_ARG_INT) return refuse(x, node, "lists of sizes");
            other[k] = a->u.list[k].u.i;
        }
        CR_TRY(cr_broadcast(x->e->env, &rank, size, (int)a->n, other));
    }
    return dims_list(x, size, rank, out);
}

#define MATH_HELPER(name, function, symbol)                                                                      \
    static cr_status name(fx *x, const cr_fnode *node, const fval *args, int n, fval *out) {                     \
        (void)n;                                                                                                 \
        const cr_arg *a = &args[0].a;                                                                            \
        cr_env *env = x->e->env;                                                                                 \
        bool size = a->kind == CR_ARG_INT && !cr_dim_is_plain(a->u.i);                                           \
        if (env && (symbol) && (size || (a->kind == CR_ARG_SYM && cr_sym_type_of(a->u.sym) == CR_TYPE_FLOAT))) { \
            cr_sym e = size ? cr_sym_make(env, CR_SYM_TOFLOAT, cr_dim_sym(env, a->u.i), NULL, NULL) : a->u.sym;  \
            if (!(e = cr_sym_make(env, (symbol), e, NULL, NULL))) return CR_FAIL(CR_ENOMEM, "out of memory");    \
            return give(out, (cr_arg){ .kind = CR_ARG_SYM, .given = 1, .u.sym = e });                            \
        }                                                                                                        \
        if (!cr_arg_is_number(a) || a->kind == CR_ARG_COMPLEX || a->kind == CR_ARG_SYM || size)                  \
            return refuse(x, node, "a real number");                                                             \
        return give(out, cr_arg_float(function(a->kind == CR_ARG_FLOAT ? a->u.f : (double)a->u.i)));             \
    }
MATH_HELPER(sqrt_, sqrt, CR_SYM_SQRT)
MATH_HELPER(exp_, exp, 0)
MATH_HELPER(log_, log, 0)
MATH_HELPER(lgamma_, lgamma, 0)

static cr_status float_(fx *x, const cr_fnode *node, const fval *args, int n, fval *out) {
    (void)n;
    const cr_arg *a = &args[0].a;
    cr_env *env = x->e->env;
    if (env && a->kind == CR_ARG_INT && !cr_dim_is_plain(a->u.i)) {
        cr_sym e = cr_sym_make(env, CR_SYM_TOFLOAT, cr_dim_sym(env, a->u.i), NULL, NULL);
        return e ? give(out, (cr_arg){ .kind = CR_ARG_SYM, .given = 1, .u.sym = e })
                 : CR_FAIL(CR_ENOMEM, "out of memory");
    }
    if (a->kind == CR_ARG_FLOAT) return give(out, *a);
    if (a->kind != CR_ARG_INT && a->kind != CR_ARG_BOOL) return refuse(x, node, "a number");
    return give(out, cr_arg_float((double)a->u.i));
}

static cr_status int_(fx *x, const cr_fnode *node, const fval *args, int n, fval *out) {
    (void)n;
    const cr_arg *a = &args[0].a;
    if (a->kind == CR_ARG_INT || a->kind == CR_ARG_BOOL) return give(out, cr_arg_int(a->u.i));
    if (a->kind == CR_ARG_SYM)
        return give(out, cr_arg_int(cr_dim_of(x->e->env, cr_sym_make(x->e->env, CR_SYM_TRUNC, a->u.sym, NULL, NULL))));
    if (a->kind != CR_ARG_FLOAT || !(fabs(a->u.f) < 4e18)) return refuse(x, node, "a number in the range of integers");
    return give(out, cr_arg_int((int64_t)a->u.f));
}

/* ---- ops that may not be needed ---- */

static cr_status call_op(fx *x, const cr_fnode *node, const char *name, const fval *arg, fval *out) {
    return cr__fx_call_name(x, node, name, arg, 1, out);
}

static cr_status conj_(fx *x, const cr_fnode *node, const fval *args, int n, fval *out) {
    (void)n;
    const cr_arg *a = &args[0].a;
    const cr_meta *m;
    if (a->kind == CR_ARG_COMPLEX) {
        double *c = cr_arena_alloc(&x->arena, 2 * sizeof *c);
        if (!c) return CR_ENOMEM;
        c[0] = a->u.c[0], c[1] = -a->u.c[1];
        return give(out, (cr_arg){ .kind = CR_ARG_COMPLEX, .given = 1, .u.c = c });
    }
    CR_TRY(cr__fx_meta(x, &args[0], &m));
    if (m ? !cr_dtype_is_complex(m->dtype) : cr__fval_is_number(&args[0])) {
        *out = args[0];
        return CR_OK;
    }
    return call_op(x, node, "aten::conj_physical", &args[0], out);
}

static cr_status real_(fx *x, const cr_fnode *node, const fval *args, int n, fval *out) {
    (void)n;
    const cr_meta *m;
    if (args[0].a.kind == CR_ARG_COMPLEX) return give(out, cr_arg_float(args[0].a.u.c[0]));
    CR_TRY(cr__fx_meta(x, &args[0], &m));
    if (m ? !cr_dtype_is_complex(m->dtype) : cr__fval_is_number(&args[0])) {
        *out = args[0];
        return CR_OK;
    }
    return call_op(x, node, "aten::real", &args[0], out);
}

/* unreduce(x, dim, keepdim, rank): puts back the dims that a reduction of a rank-`rank` tensor dropped, with size 1. A
 * 0-d tensor broadcasts as it is. */
static cr_status unreduce_(fx *x, const cr_fnode *node, const fval *args, int n, fval *out) {
    (void)n;
    bool keep;
    int rank;
    uint32_t mask;
    const cr_meta *m;
    CR_TRY(cr__fold_truth(x, node, &args[2], &keep));
    CR_TRY(take_rank(x, node, &args[3], &rank));
    CR_TRY(dims_mask(x, node, &args[1], rank, &mask));
    CR_TRY(cr__fx_meta(x, &args[0], &m));
    *out = args[0];
    if (keep || (m && !m->rank)) return CR_OK;
    for (int d = 0; d < rank; d++) {
        if (!(mask >> d & 1)) continue;
        fval pair[2] = { *out, cr__fval(cr_arg_int(d)) };
        CR_TRY(cr__fx_call_name(x, node, "aten::unsqueeze", pair, 2, out));
    }
    return CR_OK;
}

/* not_implemented(grad): a derivative that nobody has written. Better an error than a gradient that is silently
 * zero. */
static cr_status not_implemented_(fx *x, const cr_fnode *node, const fval *args, int n, fval *out) {
    (void)args, (void)n;
    if (x->saved) return *out = (fval){ .opaque = true }, CR_OK;
    return cr__fx_fail(x, node, CR_ENOTIMPL, "this derivative is not implemented");
}

/* cast(x, dtype): x itself when it has that dtype. */
static cr_status cast_(fx *x, const cr_fnode *node, const fval *args, int n, fval *out) {
    (void)n;
    const cr_meta *m;
    if (args[1].a.kind == CR_ARG_NONE) {
        *out = args[0];
        return CR_OK;
    }
    if (args[1].a.kind != CR_ARG_DTYPE && !args[1].opaque) return refuse(x, node, "a tensor and a dtype");
    CR_TRY(cr__fx_meta(x, &args[0], &m));
    if (m && m->dtype == args[1].a.u.i) {
        *out = args[0];
        return CR_OK;
    }
    const cr_op *op = cr_op_find("aten::_to_copy");
    if (!op) return cr__fx_fail(x, node, CR_ENOTFOUND, "cast() needs the op aten::_to_copy");
    cr_keyword dtype = { "dtype", args[1].opaque ? cr_arg_dtype(CR_F32) : args[1].a };
    return cr__fx_call(x, node, op, true, &args[0], 1, &dtype, 1, out);
}

static const cr__helper helpers[] = {
    { "rank", 1, 1, false, true, rank_ },
    { "size", 2, 2, false, true, size_ },
    { "sizes", 1, 1, false, true, sizes_ },
    { "strides", 1, 1, false, true, strides_ },
    { "offset", 1, 1, false, true, offset_ },
    { "numel", 1, 1, false, true, numel_ },
    { "count", 1, 2, false, true, count_ },
    { "dtype", 1, 1, false, true, dtype_ },
    { "device", 1, 1, false, true, device_ },
    { "format", 1, 1, false, true, format_ },
    { "is_contiguous", 1, 1, false, true, is_contiguous_ },
    { "order", 1, 1, false, true, order_ },
    { "is_complex", 1, 1, false, true, is_complex_ },
    { "is_float", 1, 1, false, true, is_float_ },
    { "is_integral", 1, 1, false, true, is_integral_ },
    { "to_real", 1, 1, false, true, to_real_ },
    { "to_complex", 1, 1, false, true, to_complex_ },
    { "wide", 1, 1, false, true, wide_ },
    { "floating", 1, 1, false, true, floating_ },
    { "promote", 1, 8, false, true, promote_ },
    { "len", 1, 1, false, true, len_ },
    { "range", 1, 2, true, false, range_ },
    { "prod", 1, 8, true, false, prod_ },
    { "max", 1, 8, true, false, max_ },
    { "min", 1, 8, true, false, min_ },
    { "dims", 2, 2, false, false, dims_ },
    { "rest", 2, 2, false, false, rest_ },
    { "wrap", 2, 2, false, false, wrap_ },
    { "is_known", 1, 1, true, false, is_known_ },
    { "inverse", 1, 1, true, false, inverse_ },
    { "reversed", 1, 1, true, false, reversed_ },
    { "broadcast", 1, 8, true, false, broadcast_ },
    { "sqrt", 1, 1, true, false, sqrt_ },
    { "exp", 1, 1, true, false, exp_ },
    { "log", 1, 1, true, false, log_ },
    { "lgamma", 1, 1, true, false, lgamma_ },
    { "float", 1, 1, true, false, float_ },
    { "int", 1, 1, true, false, int_ },
    { "conj", 1, 1, false, false, conj_ },
    { "real", 1, 1, false, false, real_ },
    { "unreduce", 4, 4, false, false, unreduce_ },
    { "cast", 2, 2, false, false, cast_ },
    { "not_implemented", 1, 1, false, false, not_implemented_ },
};

const cr__helper *cr__helper_find(const char *name) {
    for (size_t i = 0; i < CR_COUNT(helpers); i++)
        if (!strcmp(helpers[i].name, name)) return &helpers[i];
    return NULL;
}
