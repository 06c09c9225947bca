/* simplify.c: calls that change nothing go.
 *
 * A rule may replace a value only by one of the same dtype, sizes and layout, element by element the same bits for
 * every input there is: x * 1, but not x + 0 (it makes +0 of -0), not x - x, not x * 0 (NaN). The one exception to
 * "same layout" says so. Views are told apart by their metas alone: same memory, same meta, same tensor. */
#include "ops/view.h"
#include "passes/internal.h"

typedef cr_status rule_fn(cr_rewriter *w, const cr_node *node, const cr_arg *args, bool *done);

static const cr_meta *old_meta(const cr_rewriter *w, const cr_node *node, uint32_t i) {
    return cr_graph_value(cr_rewrite_source(w), node->first + i)->meta;
}

/* dtype, sizes and strides; those of dimensions of size 1 say nothing. */
static bool same_layout(cr_env *env, const cr_meta *a, const cr_meta *b) {
    uint8_t lazy = CR_META_CONJ | CR_META_NEG;
    if (!a || !b || a->dtype != b->dtype || a->rank != b->rank || (a->flags & lazy) != (b->flags & lazy) ||
        a->device.type != b->device.type)
        return false;
    for (int d = 0; d < a->rank; d++)
        if (a->size[d] != b->size[d] ||
            (a->stride[d] != b->stride[d] && cr_dim_known(env, a->size[d], CR_EQ, 1) != CR_YES))
            return false;
    return true;
}

/* The call's only result is `value`, if that looks the same. */
static cr_status same_as(cr_rewriter *w, const cr_node *node, const cr_arg *value, bool *done) {
    if (node->nvalues != 1 || value->kind != CR_ARG_VALUE) return CR_OK;
    if (!same_layout(cr_graph_env(cr_rewrite_graph(w)), old_meta(w, node, 0), cr_rewrite_meta(w, value))) return CR_OK;
    *done = true;
    return cr_rewrite_result(w, node, 0, *value);
}

/* ---- numbers ---- */

enum { LOOK_AT = 1 << 16 }; /* elements of a constant that are looked at */

static bool is_exactly(rt_scalar s, double number) {
    if (s.kind == RT_ARG_INT) return (double)s.i == number && (int64_t)number == s.i && !__builtin_signbit(number);
    return s.kind == RT_ARG_FLOAT && s.f == number && !__builtin_signbit(s.f) == !__builtin_signbit(number);
}

/* Every element of the constant is this number, the sign of zero included. */
static bool all_equal(const cr_tensor *t, double number) {
    int64_t index[CR_MAX_RANK] = { 0 }, n = 1;
    for (int d = 0; d < t->meta.rank; d++)
        if (cr_mul_overflow(n, t->meta.size[d], &n) || n > LOOK_AT) return false;
    for (int64_t i = 0; i < n; i++) {
        rt_scalar s;
        if (cr_tensor_item(t, index, &s) || !is_exactly(s, number)) return false;
        for (int d = t->meta.rank - 1; d >= 0 && ++index[d] == t->meta.size[d]; d--) index[d] = 0;
    }
    return n > 0;
}

/* Is the argument this number everywhere: a number, a constant of integers or bools, or a call that fills? An integer
 * zero counts as +0. Constants of floats are not looked at: what a program is compiled to must not depend on the values
 * of its weights. */
static bool is_number(const cr_rewriter *w, const cr_arg *a, double number) {
    if (a->kind == CR_ARG_INT || a->kind == CR_ARG_BOOL)
        return (a->kind == CR_ARG_BOOL || cr_dim_is_plain(a->u.i)) && (double)a->u.i == number &&
               !__builtin_signbit(number);
    if (a->kind == CR_ARG_FLOAT) return a->u.f == number && !__builtin_signbit(a->u.f) == !__builtin_signbit(number);
    const cr_tensor *t = cr_rewrite_constant(w, a);
    if (t) return cr_dtype_is_integral(t->meta.dtype) && all_equal(t, number);
    const cr_node *maker = cr_rewrite_producer(w, a, NULL);
    int fill = maker ? cr_op_facts(maker->op)->fill : CR_FILL_NONE;
    if (fill == CR_FILL_ZEROS || fill == CR_FILL_ONES)
        return (fill == CR_FILL_ONES ? 1 : 0) == number && !__builtin_signbit(number);
    if (fill >= CR_FILL_FROM) {
        const cr_arg *value = &maker->args[fill - CR_FILL_FROM];
        return cr_arg_is_number(value) && value->kind != CR_ARG_COMPLEX && is_number(w, value, number);
    }
    return false;
}

static bool is_real(const cr_rewriter *w, const cr_arg *a) {
    const cr_meta *m = cr_rewrite_meta(w, a);
    return m && !cr_dtype_is_complex(m->dtype);
}

static bool is_whole(const cr_rewriter *w, const cr_arg *a) {
    const cr_meta *m = cr_rewrite_meta(w, a);
    return m && cr_dtype_is_integral(m->dtype) && m->dtype != CR_BOOL;
}

/* ---- arithmetic ---- */

/* x * 1 = 1 * x = x, also for NaN, infinities and -0. (A complex factor 1 has an imaginary part that infinity
 * meets.) */
static cr_status mul_one(cr_rewriter *w, const cr_node *node, const cr_arg *args, bool *done) {
    if (is_real(w, &args[0]) && is_number(w, &args[1], 1)) CR_TRY(same_as(w, node, &args[0], done));
    if (!*done && is_real(w, &args[1]) && is_number(w, &args[0], 1)) CR_TRY(same_as(w, node, &args[1], done));
    return CR_OK;
}

static cr_status div_one(cr_rewriter *w, const cr_node *node, const cr_arg *args, bool *done) {
    return is_real(w, &args[0]) && is_number(w, &args[1], 1) ? same_as(w, node, &args[0], done) : CR_OK;
}

/* x + 0 = x for integers; for floats the zero must be -0, the only one that leaves -0 alone. */
static cr_status add_zero(cr_rewriter *w, const cr_node *node, const cr_arg *args, bool *done) {
    bool plain = node->nargs < 3 || is_number(w, &args[2], 1);
    for (int i = 0; plain && i < 2 && !*done; i++) {
        const cr_arg *x = &args[i], *zero = &args[1 - i];
        if (!is_real(w, x) || !(is_number(w, zero, -0.0) || (is_whole(w, x) && is_number(w, zero, 0)))) continue;
        CR_TRY(same_as(w, node, x, done));
    }
    return CR_OK;
}

/* x - 0 = x, -0 included. */
static cr_status sub_zero(cr_rewriter *w, const cr_node *node, const cr_arg *args, bool *done) {
    bool plain = node->nargs < 3 || is_number(w, &args[2], 1);
    return plain && is_real(w, &args[0]) && is_number(w, &args[1], 0) ? same_as(w, node, &args[0], done) : CR_OK;
}

static cr_status pow_one(cr_rewriter *w, const cr_node *node, const cr_arg *args, bool *done) {
    return is_real(w, &args[0]) && is_number(w, &args[1], 1) ? same_as(w, node, &args[0], done) : CR_OK;
}

/* f(f(x)) = x */
static cr_status involution(cr_rewriter *w, const cr_node *node, const cr_arg *args, bool *done) {
    const cr_node *inner = cr_rewrite_producer(w, &args[0], node->op->name);
    return inner ? same_as(w, node, &inner->args[0], done) : CR_OK;
}

/* !!x = x where x is a bool. */
static cr_status double_not(cr_rewriter *w, const cr_node *node, const cr_arg *args, bool *done) {
    const cr_node *inner = cr_rewrite_producer(w, &args[0], node->op->name);
    const cr_meta *m = inner ? cr_rewrite_meta(w, &inner->args[0]) : NULL;
    return m && m->dtype == CR_BOOL ? same_as(w, node, &inner->args[0], done) : CR_OK;
}

/* f(f(x)) = f(x) */
static cr_status idempotent(cr_rewriter *w, const cr_node *node, const cr_arg *args, bool *done) {
    return cr_rewrite_producer(w, &args[0], node->op->name) ? same_as(w, node, &args[0], done) : CR_OK;
}

/* where(all true, a, b) = a */
static cr_status where_known(cr_rewriter *w, const cr_node *node, const cr_arg *args, bool *done) {
    if (is_number(w, &args[0], 1)) return same_as(w, node, &args[1], done);
    return is_number(w, &args[0], 0) ? same_as(w, node, &args[2], done) : CR_OK;
}

/* ---- copies and casts ---- */

static cr_status copy_of_same(cr_rewriter *w, const cr_node *node, const cr_arg *args, bool *done) {
    const cr_arg *from = args[0].kind == CR_ARG_LIST && args[0].n == 1 ? &args[0].u.list[0] : &args[0];
    return same_as(w, node, from, done);
}

/* Does every value of `from` survive in `to`? Largest power of two below which integers are exact, and bits of the
 * exponent. */
static bool holds_all(int from, int to) {
    static const struct { uint8_t dtype, digits, exponent; bool is_signed; } kinds[] = {
        { CR_U8, 8, 0, false },  { CR_I8, 7, 0, true },   { CR_I16, 15, 0, true },
        { CR_I32, 31, 0, true }, { CR_I64, 63, 0, true }, { CR_F16, 11, 5, true },
        { CR_BF16, 8, 8, true }, { CR_F32, 24, 8, true }, { CR_F64, 53, 11, true },
    };
    size_t a = 0, b = 0, n = CR_COUNT(kinds);
    while (a < n && kinds[a].dtype != from) a++;
    while (b < n && kinds[b].dtype != to) b++;
    if (b == n) return false;
    if (from == CR_BOOL) return true;
    return a < n && kinds[b].digits >= kinds[a].digits && kinds[b].exponent >= kinds[a].exponent &&
           kinds[b].is_signed >= kinds[a].is_signed;
}

/* There and back through a type that holds every value. */
static cr_status cast_chain(cr_rewriter *w, const cr_node *node, const cr_arg *args, bool *done) {
    CR_TRY(copy_of_same(w, node, args, done));
    const cr_node *inner = *done ? NULL : cr_rewrite_producer(w, &args[0], NULL);
    if (!inner || cr_op_facts(inner->op)->copy != CR_COPY_CAST) return CR_OK;
    const cr_meta *base = cr_rewrite_meta(w, &inner->args[0]), *wide = cr_rewrite_meta(w, &args[0]);
    return base && wide && holds_all(base->dtype, wide->dtype) ? same_as(w, node, &inner->args[0], done) : CR_OK;
}

/* copy(x, y) is y, if that needs no conversion. */
static cr_status copy_functional(cr_rewriter *w, const cr_node *node, const cr_arg *args, bool *done) {
    return same_as(w, node, &args[1], done);
}

static cr_status dropout(cr_rewriter *w, const cr_node *node, const cr_arg *args, bool *done) {
    bool off = (args[2].kind == CR_ARG_BOOL && !args[2].u.i) || (args[1].kind == CR_ARG_FLOAT && args[1].u.f == 0);
    return off ? same_as(w, node, &args[0], done) : CR_OK;
}

static cr_status native_dropout(cr_rewriter *w, const cr_node *node, const cr_arg *args, bool *done) {
    bool off = args[2].kind == CR_ARG_BOOL && !args[2].u.i;
    if (!off || cr_rewrite_used(w, node, 1) ||
        !same_layout(cr_graph_env(cr_rewrite_graph(w)), old_meta(w, node, 0), cr_rewrite_meta(w, &args[0])))
        return CR_OK;
    *done = true;
    return cr_rewrite_result(w, node, 0, args[0]);
}

/* What it asserts was seen to when the graph was made. */
static cr_status assert_metadata(cr_rewriter *w, const cr_node *node, const cr_arg *args, bool *done) {
    (void)w, (void)args;
    *done = !node->nvalues;
    return CR_OK;
}

static cr_status assert_true(cr_rewriter *w, const cr_node *node, const cr_arg *args, bool *done) {
    (void)w;
    *done = !node->nvalues &&
            (args[0].kind == CR_ARG_BOOL || (args[0].kind == CR_ARG_INT && cr_dim_is_plain(args[0].u.i))) &&
            args[0].u.i;
    return CR_OK;
}

/* ---- views ---- */

/* A permutation of a permutation is one, or nothing. A copy between two that undo each other only changed the layout,
 * which what follows does not depend on: this is the exception to "same layout". */
static cr_status permutation_chain(cr_rewriter *w, const cr_node *node, const cr_arg *args, bool *done) {
    const cr_meta *meta = cr_rewrite_meta(w, &args[0]);
    const cr_node *inner = cr_rewrite_producer(w, &args[0], NULL), *copy = NULL;
    int outer[CR_MAX_RANK], first[CR_MAX_RANK], both[CR_MAX_RANK];
    if (inner && cr_op_facts(inner->op)->copy == CR_COPY_PLAIN && cr_rewrite_single(w, &args[0])) {
        copy = inner;
        inner = cr_rewrite_producer(w, &copy->args[0], NULL);
    }
    if (!inner || !meta || !cr_view_order(node->op, args, meta->rank, outer) ||
        !cr_view_order(inner->op, inner->args, meta->rank, first))
        return CR_OK;
    bool nothing = true;
    for (int d = 0; d < meta->rank; d++) {
        both[d] = first[outer[d]];
        nothing &= both[d] == d;
    }
    if (!nothing && copy) return CR_OK;
    cr_arg result = inner->args[0], dims[CR_MAX_RANK];
    for (int d = 0; d < meta->rank; d++) dims[d] = cr_arg_int(both[d]);
    if (!nothing)
        CR_TRY(cr_rewrite_call(w, "aten::permute", (cr_arg[]){ inner->args[0], cr_arg_list(dims, meta->rank) }, 2,
                               &result));
    *done = true;
    return cr_rewrite_result(w, node, 0, result);
}

static bool only_reshapes(const cr_op *op) {
    return cr_op_view(op) == CR_VIEW_RESHAPE || cr_op_view(op) == CR_VIEW_ONES;
}

static bool is_row_major(const cr_rewriter *w, const cr_meta *m) {
    return m && cr_meta_is_contiguous(cr_graph_env(cr_rewrite_graph(w)), m, CR_CONTIGUOUS) == CR_YES;
}

/* Reshapes of a row-major tensor are one view of it, or the tensor itself. */
static cr_status view_chain(cr_rewriter *w, const cr_node *node, const cr_arg *args, bool *done) {
    const cr_meta *result = old_meta(w, node, 0);
    cr_arg root = args[0], sizes[CR_MAX_RANK];
    const cr_node *inner;
    if (!is_row_major(w, result)) return CR_OK;
    while ((inner = cr_rewrite_producer(w, &root, NULL)) && only_reshapes(inner->op) &&
           is_row_major(w, cr_rewrite_meta(w, &inner->args[0])))
        root = inner->args[0];
    const cr_meta *from = cr_rewrite_meta(w, &root);
    if (root.u.i == args[0].u.i || !is_row_major(w, from)) return CR_OK;
    CR_TRY(same_as(w, node, &root, done));
    if (*done) return CR_OK;
    const cr_arg *list = cr_view_takes_sizes(node->op) && args[1].kind == CR_ARG_LIST ? &args[1] : NULL;
    cr_arg made, all = list ? *list : cr_arg_list(sizes, result->rank);
    for (int d = 0; d < result->rank; d++) {
        if (!list && !cr_dim_is_plain(result->size[d])) return CR_OK;
        sizes[d] = cr_arg_int(result->size[d]);
    }
    CR_TRY(cr_rewrite_call(w, "aten::view", (cr_arg[]){ root, all }, 2, &made));
    *done = true;
    return cr_rewrite_result(w, node, 0, made);
}

/* The same memory seen the same way. */
static cr_status view_of_same(cr_rewriter *w, const cr_node *node, const cr_arg *args, bool *done) {
    const cr_graph *g = cr_rewrite_source(w);
    if (node->nvalues != 1 || node->args[0].kind != CR_ARG_VALUE) return CR_OK;
    const cr_meta *from = cr_graph_value(g, (uint32_t)node->args[0].u.i)->meta, *to = old_meta(w, node, 0),
                  *now = cr_rewrite_meta(w, &args[0]);
    if (!from || !to || !now || from->storage != to->storage || from->offset != to->offset) return CR_OK;
    return same_layout(cr_graph_env(g), from, now) ? same_as(w, node, &args[0], done) : CR_OK;
}

/* ---- all of them ---- */

static rule_fn *const by_role[CR_ROLE_COUNT] = {
    [CR_ROLE_ADD] = add_zero, [CR_ROLE_SUB] = sub_zero, [CR_ROLE_MUL] = mul_one,
    [CR_ROLE_DIV] = div_one,  [CR_ROLE_POW] = pow_one,  [CR_ROLE_DROPOUT] = dropout,
};
static rule_fn *const by_law[CR_LAW_COUNT] = {
    [CR_LAW_IDENTITY] = copy_of_same,
    [CR_LAW_INVOLUTION] = involution,
    [CR_LAW_BOOL_INVOLUTION] = double_not,
    [CR_LAW_IDEMPOTENT] = idempotent,
};
static const struct { const char *op; rule_fn *rule; } by_name[] = {
    { "aten::where.self", where_known }, { "aten::cat", copy_of_same },
    { "aten::repeat", copy_of_same },    { "aten::copy", copy_functional },
    { "aten::native_dropout", native_dropout },
};

/* The rule for what is known of the op; NULL: there is none. */
static rule_fn *rule_for(const cr_op *op) {
    const cr_row *facts = cr_op_facts(op);
    if (facts->role && by_role[facts->role]) return by_role[facts->role];
    if (facts->law) return by_law[facts->law];
    if (facts->copy) return facts->copy == CR_COPY_CAST ? cast_chain : copy_of_same;
    if (facts->check == CR_CHECK_TRUTH) return assert_true;
    if (facts->check == CR_CHECK_METAS) return assert_metadata;
    if (facts->view == CR_VIEW_PERMUTE) return permutation_chain;
    if (only_reshapes(op)) return view_chain;
    for (size_t i = 0; i < CR_COUNT(by_name); i++)
        if (cr_op_is(op, by_name[i].op)) return by_name[i].rule;
    return NULL;
}

static cr_status rule(cr_rewriter *w, const cr_node *node, const cr_arg *args, bool *done) {
    rule_fn *own = rule_for(node->op);
    if (node->op->tags & CR_TAG_VIEW) CR_TRY(view_of_same(w, node, args, done));
    return *done || !own ? CR_OK : own(w, node, args, done);
}

cr_status cr_pass_simplify(const cr_graph *g, cr_graph **out) {
    return cr_rewrite(g, rule, NULL, out);
}
