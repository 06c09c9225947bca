/* rules_view.c: views. A rule starts from the argument's own meta and changes sizes, strides and offset; no data moves.
 *
 * Where a question about symbolic sizes decides the shape of the result, the answer is a guard when the sizes have
 * example values, and a term (min, max) or the general case when they have none. */
#include "ops/rules.h"
#include "sym/shape.h"

/* A view of argument 0 with its geometry, to be changed by the caller. */
static cr_status begin(cr_rule *r, cr_out **out) {
    *out = cr_rule_add_view(r, 0);
    return *out ? CR_OK : CR_ENOMEM;
}

static cr_status same_as_argument(cr_rule *r) {
    cr_out *out;
    CR_TRY(begin(r, &out));
    out->same = true;
    return CR_OK;
}

static const char *op_name(const cr_rule *r) { return r->op->schema.name; }

/* Decides by facts, else by example values with a guard; CR_UNKNOWN when neither tells, or where every size is to be
 * served. */
static cr_status ask(cr_rule *r, cr_dim a, cr_cmp cmp, cr_dim b, cr_tri *answer) {
    *answer = cr_dim_known(r->env, a, cmp, b);
    int64_t example;
    if (*answer != CR_UNKNOWN || cr_env_serves_all_sizes(r->env) || !cr_dim_hint(r->env, a, &example) ||
        !cr_dim_hint(r->env, b, &example))
        return CR_OK;
    bool yes;
    CR_TRY(cr_dim_decide(r->env, a, cmp, b, &yes));
    *answer = yes ? CR_YES : CR_NO;
    return CR_OK;
}

static cr_status fail_shape(cr_rule *r, const char *text, int rank, const cr_dim *size, const cr_meta *m) {
    return cr_rule_fail_shapes(r, "shape", rank, size, text, m);
}

/* ---- reshaping ---- */

/* A size that is a number of the program: at its example it is -1, another negative one (an error), or a size. */
static cr_status settle_size(cr_rule *r, cr_dim size, cr_tri *negative, bool *missing) {
    int64_t example;
    bool yes = true;
    *negative = cr_dim_known(r->env, size, CR_LT, 0);
    *missing = cr_dim_known(r->env, size, CR_EQ, -1) == CR_YES;
    if (*negative == CR_UNKNOWN && cr_dim_hint(r->env, size, &example)) {
        *missing = example == -1;
        CR_TRY(*missing ? cr_dim_decide(r->env, size, CR_EQ, -1, &yes) : cr_dim_decide(r->env, size, CR_LT, 0, &yes));
        *negative = yes ? CR_YES : CR_NO;
    }
    return CR_OK;
}

/* Replaces one -1 in `size` so that the product becomes `numel`, and checks the product. */
static cr_status infer_size(cr_rule *r, const cr_meta *m, cr_dim numel, int rank, cr_dim *size) {
    int missing = -1;
    cr_dim product = 1;
    for (int i = 0; i < rank; i++) {
        cr_tri negative;
        bool open;
        CR_TRY(settle_size(r, size[i], &negative, &open));
        if (open) {
            if (missing >= 0) return fail_shape(r, "has more than one -1; for a tensor of shape", rank, size, m);
            missing = i;
        } else if (negative == CR_YES) {
            return fail_shape(r, "has a negative size; for a tensor of shape", rank, size, m);
        } else {
            product = cr_dim_mul(r->env, product, size[i]);
        }
    }
    if (missing < 0) {
        if (cr_dim_known(r->env, product, CR_EQ, numel) == CR_NO)
            return fail_shape(r, "is invalid for a tensor of shape", rank, size, m);
        return cr_dim_require(r->env, product, CR_EQ, numel, "number of elements");
    }
    if (cr_dim_known(r->env, product, CR_EQ, 0) == CR_YES) {
        if (cr_dim_known(r->env, numel, CR_EQ, 0) == CR_YES)
            return fail_shape(r, "leaves -1 undetermined for the empty tensor of shape", rank, size, m);
        return fail_shape(r, "is invalid for a tensor of shape", rank, size, m);
    }
    cr_dim rest = cr_dim_mod(r->env, numel, product);
    if (cr_dim_known(r->env, rest, CR_EQ, 0) == CR_NO)
        return fail_shape(r, "is invalid for a tensor of shape", rank, size, m);
    CR_TRY(cr_dim_require(r->env, rest, CR_EQ, 0, "number of elements"));
    size[missing] = cr_dim_floordiv(r->env, numel, product);
    return CR_OK;
}

enum when_not_a_view { REFUSE, INSIST, COPY }; /* INSIST: there is no other op to try; hints may decide */

static cr_status reshape_to(cr_rule *r, int rank, cr_dim *size, enum when_not_a_view otherwise) {
    const cr_meta *m = cr_rule_meta(r, 0);
    cr_dim stride[CR_MAX_RANK];
    bool possible;
    CR_TRY(infer_size(r, m, cr_meta_numel(r->env, m), rank, size));
    /* The op is recorded, not what it was at the example: a run decides anew whether it is a view, passes ask again. */
    bool general = cr_env_is_general(r->env);
    if (otherwise == COPY && cr_shape_is_tracing(r->env)) cr_env_set_general(r->env, true);
    cr_status status = cr_view_strides(r->env, m, rank, size, stride, &possible);
    cr_env_set_general(r->env, general);
    CR_TRY(status);
    if (!possible && otherwise == INSIST && cr_env_set_general(r->env, false)) {
        status = cr_view_strides(r->env, m, rank, size, stride, &possible);
        cr_env_set_general(r->env, true);
        CR_TRY(status);
    }
    if (!possible && otherwise != COPY)
        return fail_shape(r,
                          "is not a view of the tensor's memory (its strides do not allow it); use reshape. Its shape "
                          "is",
                          rank, size, m);
    if (!possible) CR_TRY(cr_meta_assume_large(r->env, m, CR_UNKNOWN)); /* of 0 or 1 rows it would be a view */
    if (!possible) return cr_rule_add_dense(r, m->dtype, rank, size);
    cr_out *out;
    CR_TRY(begin(r, &out));
    out->meta.rank = (uint8_t)rank;
    memcpy(out->meta.size, size, (size_t)rank * sizeof *size);
    memcpy(out->meta.stride, stride, (size_t)rank * sizeof *stride);
    return CR_OK;
}

static cr_status reshape_arg(cr_rule *r, enum when_not_a_view otherwise) {
    cr_dim size[CR_MAX_RANK];
    int rank;
    CR_TRY(cr_rule_ints(r, 1, 0, CR_MAX_RANK, size, &rank));
    return reshape_to(r, rank, size, otherwise);
}

static cr_status reshape_like(cr_rule *r, enum when_not_a_view otherwise) {
    const cr_meta *other = cr_rule_meta(r, 1);
    cr_dim size[CR_MAX_RANK];
    memcpy(size, other->size, other->rank * sizeof *size);
    return reshape_to(r, other->rank, size, otherwise);
}

cr_status shape_view(cr_rule *r) { return reshape_arg(r, REFUSE); }
cr_status shape_reshape(cr_rule *r) { return reshape_arg(r, COPY); }
cr_status shape_view_as(cr_rule *r) { return reshape_like(r, INSIST); }
cr_status shape_reshape_as(cr_rule *r) { return reshape_like(r, COPY); }

cr_status shape_flatten(cr_rule *r) {
    const cr_meta *m = cr_rule_meta(r, 0);
    int from, to, rank = 0;
    CR_TRY(cr_wrap_dim(cr_rule_int(r, 1), m->rank, &from));
    CR_TRY(cr_wrap_dim(cr_rule_int(r, 2), m->rank, &to));
    if (from > to) return CR_FAIL(CR_ERUNTIME, "flatten: start_dim %d comes after end_dim %d", from, to);
    if (m->rank && from == to) return same_as_argument(r);
    cr_dim size[CR_MAX_RANK], joined = 1;
    for (int i = from; i <= to && i < m->rank; i++) joined = cr_dim_mul(r->env, joined, m->size[i]);
    for (int i = 0; i < from; i++) size[rank++] = m->size[i];
    size[rank++] = joined;
    for (int i = to + 1; i < m->rank; i++) size[rank++] = m->size[i];
    return reshape_to(r, rank, size, COPY);
}

cr_status shape_unflatten(cr_rule *r) {
    const cr_meta *m = cr_rule_meta(r, 0);
    cr_dim parts[CR_MAX_RANK], size[CR_MAX_RANK];
    int dim, n, rank = 0;
    CR_TRY(cr_wrap_dim(cr_rule_int(r, 1), m->rank, &dim));
    CR_TRY(cr_rule_ints(r, 2, 0, CR_MAX_RANK, parts, &n));
    if (!n) return CR_FAIL(CR_ERUNTIME, "unflatten: sizes must not be empty");
    if (m->rank + n - 1 > CR_MAX_RANK)
        return CR_FAIL(CR_ERUNTIME, "unflatten: a tensor has at most %d dimensions", CR_MAX_RANK);
    cr_dim whole = m->rank ? m->size[dim] : 1;
    CR_TRY(infer_size(r, m, whole, n, parts));
    for (int i = 0; i < dim; i++) size[rank++] = m->size[i];
    for (int i = 0; i < n; i++) size[rank++] = parts[i];
    for (int i = dim + 1; i < m->rank; i++) size[rank++] = m->size[i];
    return reshape_to(r, rank, size, INSIST);
}

cr_status shape_ravel(cr_rule *r) {
    const cr_meta *m = cr_rule_meta(r, 0);
    cr_dim size = cr_meta_numel(r->env, m);
    CR_TRY(cr_meta_assume_large(r->env, m, cr_meta_is_contiguous(r->env, m, CR_CONTIGUOUS)));
    if (cr_meta_is_contiguous(r->env, m, CR_CONTIGUOUS) != CR_YES) return cr_rule_add_dense(r, m->dtype, 1, &size);
    return reshape_to(r, 1, &size, COPY);
}

/* ---- adding and dropping dimensions of size 1 ---- */

static void insert_dim(cr_env *env, cr_meta *m, int at) {
    cr_dim stride = at < m->rank ? cr_dim_mul(env, m->size[at], m->stride[at]) : 1;
    memmove(m->size + at + 1, m->size + at, (size_t)(m->rank - at) * sizeof *m->size);
    memmove(m->stride + at + 1, m->stride + at, (size_t)(m->rank - at) * sizeof *m->stride);
    m->size[at] = 1;
    m->stride[at] = stride;
    m->rank++;
}

static void remove_dim(cr_meta *m, int at) {
    m->rank--;
    memmove(m->size + at, m->size + at + 1, (size_t)(m->rank - at) * sizeof *m->size);
    memmove(m->stride + at, m->stride + at + 1, (size_t)(m->rank - at) * sizeof *m->stride);
}

cr_status shape_unsqueeze(cr_rule *r) {
    const cr_meta *m = cr_rule_meta(r, 0);
    int dim;
    cr_out *out;
    CR_TRY(cr_wrap_dim(cr_rule_int(r, 1), m->rank + 1, &dim));
    if (m->rank == CR_MAX_RANK)
        return CR_FAIL(CR_ERUNTIME, "unsqueeze: a tensor has at most %d dimensions", CR_MAX_RANK);
    CR_TRY(begin(r, &out));
    insert_dim(r->env, &out->meta, dim);
    return CR_OK;
}

static cr_status at_least(cr_rule *r, int want) {
    if (cr_rule_meta(r, 0)->rank >= want) return same_as_argument(r);
    cr_out *out;
    CR_TRY(begin(r, &out));
    while (out->meta.rank < want) insert_dim(r->env, &out->meta, out->meta.rank == 2 ? 2 : 0);
    return CR_OK;
}
cr_status shape_atleast_1d(cr_rule *r) { return at_least(r, 1); }
cr_status shape_atleast_2d(cr_rule *r) { return at_least(r, 2); }
cr_status shape_atleast_3d(cr_rule *r) { return at_least(r, 3); }

/* Drops the dims of `mask` whose size is 1. A size of which nothing is known counts as not 1. */
static cr_status squeeze(cr_rule *r, uint32_t mask) {
    cr_out *out;
    CR_TRY(begin(r, &out));
    for (int d = out->meta.rank - 1; d >= 0; d--) {
        bool one = false;
        if (mask >> d & 1) CR_TRY(cr_dim_assume(r->env, out->meta.size[d], CR_EQ, 1, false, &one));
        if (one) remove_dim(&out->meta, d);
    }
    return CR_OK;
}

cr_status shape_squeeze(cr_rule *r) { return squeeze(r, UINT32_MAX); }

cr_status shape_squeeze_dims(cr_rule *r) {
    uint32_t mask;
    CR_TRY(cr_rule_dims(r, 1, cr_rule_meta(r, 0)->rank, false, &mask));
    return squeeze(r, mask);
}

/* ---- expanding ---- */

static cr_status expand_to(cr_rule *r, int rank, const cr_dim *size) {
    const cr_meta *m = cr_rule_meta(r, 0);
    cr_out *out;
    if (rank < m->rank) return fail_shape(r, "has fewer dimensions than the tensor of shape", rank, size, m);
    CR_TRY(begin(r, &out));
    cr_meta *o = &out->meta;
    o->rank = (uint8_t)rank;
    for (int i = rank - 1; i >= 0; i--) {
        int d = i - (rank - m->rank);
        cr_dim have = d >= 0 ? m->size[d] : 1;
        cr_dim stride = d >= 0                    ? m->stride[d]
                        : m->rank && i + 1 < rank ? cr_dim_mul(r->env, o->size[i + 1], o->stride[i + 1])
                                                  : 0;
        cr_dim want = size[i];
        if (cr_dim_known(r->env, want, CR_EQ, -1) == CR_YES) {
            if (d < 0) return fail_shape(r, "has -1 for a new dimension of the tensor of shape", rank, size, m);
            want = have;
        }
        if (cr_dim_known(r->env, want, CR_LT, 0) == CR_YES)
            return fail_shape(r, "has a negative size; for the tensor of shape", rank, size, m);
        o->size[i] = want;
        o->stride[i] = stride;
        if (cr_dim_known(r->env, have, CR_EQ, want) == CR_YES) continue;
        bool one;
        CR_TRY(cr_dim_repeats(r->env, have, want, &one));
        if (one) {
            o->stride[i] = 0;
            continue;
        }
        if (cr_dim_known(r->env, have, CR_EQ, want) == CR_NO)
            return fail_shape(r, "does not match, in a dimension that is not 1, the tensor of shape", rank, size, m);
        CR_TRY(cr_dim_require(r->env, have, CR_EQ, want, "expanded size"));
    }
    return CR_OK;
}

cr_status shape_expand(cr_rule *r) {
    cr_dim size[CR_MAX_RANK];
    int rank;
    CR_TRY(cr_rule_ints(r, 1, 0, CR_MAX_RANK, size, &rank));
    return expand_to(r, rank, size);
}

cr_status shape_expand_as(cr_rule *r) {
    const cr_meta *other = cr_rule_meta(r, 1);
    return expand_to(r, other->rank, other->size);
}

/* ---- reordering ---- */

static void take_dim(cr_meta *o, int to, const cr_meta *m, int from) {
    o->size[to] = m->size[from];
    o->stride[to] = m->stride[from];
}

cr_status shape_permute(cr_rule *r) {
    const cr_meta *m = cr_rule_meta(r, 0);
    const cr_arg *dims = &r->arg[1];
    cr_out *out;
    uint32_t seen = 0;
    if (dims->n != m->rank)
        return CR_FAIL(CR_ERUNTIME, "permute: %u dims were given for a tensor of %d dimensions", dims->n, m->rank);
    CR_TRY(begin(r, &out));
    for (int i = 0; i < m->rank; i++) {
        int d;
        CR_TRY(cr_wrap_dim(dims->u.list[i].u.i, m->rank, &d));
        if (seen >> d & 1) return CR_FAIL(CR_ERUNTIME, "permute: dim %d appears more than once", d);
        seen |= 1u << d;
        take_dim(&out->meta, i, m, d);
    }
    return CR_OK;
}

static cr_status swap_dims(cr_rule *r, int64_t first, int64_t second) {
    const cr_meta *m = cr_rule_meta(r, 0);
    int a, b;
    cr_out *out;
    CR_TRY(cr_wrap_dim(first, m->rank, &a));
    CR_TRY(cr_wrap_dim(second, m->rank, &b));
    CR_TRY(begin(r, &out));
    if (!m->rank) return CR_OK;
    take_dim(&out->meta, a, m, b);
    take_dim(&out->meta, b, m, a);
    return CR_OK;
}

cr_status shape_transpose(cr_rule *r) { return swap_dims(r, cr_rule_int(r, 1), cr_rule_int(r, 2)); }

cr_status shape_t(cr_rule *r) {
    int rank = cr_rule_meta(r, 0)->rank;
    if (rank > 2)
        return CR_FAIL(CR_ERUNTIME, "t: expected a tensor of at most 2 dimensions, got %d; use transpose or permute",
                       rank);
    return swap_dims(r, 0, rank < 2 ? 0 : 1);
}

cr_status shape_numpy_T(cr_rule *r) {
    const cr_meta *m = cr_rule_meta(r, 0);
    cr_out *out;
    CR_TRY(begin(r, &out));
    for (int i = 0; i < m->rank; i++) take_dim(&out->meta, i, m, m->rank - 1 - i);
    return CR_OK;
}

cr_status shape_mT(cr_rule *r) {
    int rank = cr_rule_meta(r, 0)->rank;
    if (rank == 1)
        return CR_FAIL(CR_ERUNTIME, "%s: expected a matrix or a batch of matrices, got a 1-dimensional tensor",
                       op_name(r));
    return swap_dims(r, rank ? -2 : 0, rank ? -1 : 0);
}

/* order[i]: which dimension comes to place i. The arguments are ints or lists of them. */
cr_status cr__movedim_order(int rank, const cr_arg *from, const cr_arg *to, int *order) {
    uint32_t n = from->kind == CR_ARG_LIST ? from->n : 1, count = to->kind == CR_ARG_LIST ? to->n : 1;
    const cr_arg *source = from->kind == CR_ARG_LIST ? from->u.list : from,
                 *target = to->kind == CR_ARG_LIST ? to->u.list : to;
    if (n != count) return CR_FAIL(CR_ERUNTIME, "movedim: %u source dims but %u destination dims", n, count);
    uint32_t moved = 0, taken = 0;
    for (int i = 0; i < rank; i++) order[i] = -1;
    for (uint32_t i = 0; i < n; i++) {
        int a, b;
        CR_TRY(cr_wrap_dim(source[i].u.i, rank, &a));
        CR_TRY(cr_wrap_dim(target[i].u.i, rank, &b));
        if ((moved >> a & 1) || (taken >> b & 1)) return CR_FAIL(CR_ERUNTIME, "movedim: a dim appears more than once");
        moved |= 1u << a;
        taken |= 1u << b;
        if (rank) order[b] = a;
    }
    for (int i = 0, next = 0; i < rank; i++) {
        if (order[i] >= 0) continue;
        while (moved >> next & 1) next++;
        order[i] = next++;
    }
    return CR_OK;
}

cr_status shape_movedim(cr_rule *r) {
    const cr_meta *m = cr_rule_meta(r, 0);
    int order[CR_MAX_RANK];
    CR_TRY(cr__movedim_order(m->rank, &r->arg[1], &r->arg[2], order));
    cr_out *out;
    CR_TRY(begin(r, &out));
    for (int i = 0; i < m->rank; i++) take_dim(&out->meta, i, m, order[i]);
    return CR_OK;
}

/* ---- parts ---- */

/* Is the sign only known when the program runs? */
static bool sign_unknown(cr_rule *r, cr_dim at) {
    int64_t hint;
    return cr_dim_known(r->env, at, CR_LT, 0) == CR_UNKNOWN && !cr_dim_hint(r->env, at, &hint);
}

/* at, or at + size where it is negative: decided when the program runs. */
static cr_dim wrapped_later(cr_rule *r, cr_dim at, cr_dim size) {
    cr_sym given = cr_dim_sym(r->env, at), negative = cr_sym_compare(r->env, given, CR_LT, cr_sym_int(r->env, 0));
    return cr_dim_of(r->env, cr_sym_make(r->env, CR_SYM_WHERE, negative,
                                         cr_dim_sym(r->env, cr_dim_add(r->env, at, size)), given));
}

/* Brings a start or end into [0, size], counting negative ones from the end. */
static cr_status clamp_index(cr_rule *r, cr_dim at, cr_dim size, cr_dim *out) {
    bool negative;
    cr_tri answer;
    if (r->env && sign_unknown(r, at)) {
        *out = cr_dim_max(r->env, 0, cr_dim_min(r->env, size, wrapped_later(r, at, size)));
        return CR_OK;
    }
    CR_TRY(cr_dim_assume(r->env, at, CR_LT, 0, false, &negative));
    if (negative) {
        at = cr_dim_add(r->env, at, size);
        CR_TRY(ask(r, at, CR_LT, 0, &answer));
        if (answer == CR_YES) at = 0;
        else if (answer == CR_UNKNOWN) at = cr_dim_max(r->env, at, 0);
        *out = at;
        return CR_OK;
    }
    /* at most: the size where both are equal may be the smallest one allowed */
    CR_TRY(ask(r, at, CR_LE, size, &answer));
    *out = answer == CR_YES ? at : answer == CR_NO ? size : cr_dim_min(r->env, at, size);
    return CR_OK;
}

typedef struct window { cr_dim start, length; } window;

static cr_status slice_window(cr_rule *r, const cr_arg *first, const cr_arg *last, cr_dim size, window *out) {
    cr_dim start = 0, end = size;
    cr_tri answer;
    if (first->kind != CR_ARG_NONE) CR_TRY(clamp_index(r, first->u.i, size, &start));
    if (last->kind != CR_ARG_NONE && last->u.i != INT64_MAX) CR_TRY(clamp_index(r, last->u.i, size, &end));
    CR_TRY(ask(r, end, CR_LT, start, &answer));
    out->start = start;
    out->length = answer == CR_YES ? 0 : cr_dim_sub(r->env, end, start);
    if (answer == CR_UNKNOWN) out->length = cr_dim_max(r->env, out->length, 0);
    return CR_OK;
}

static void cut(cr_env *env, cr_meta *m, int dim, cr_dim start, cr_dim length) {
    m->offset = cr_dim_add(env, m->offset, cr_dim_mul(env, start, m->stride[dim]));
    m->size[dim] = length;
}

static cr_status need_dims(cr_rule *r, int64_t d, int *dim) {
    const cr_meta *m = cr_rule_meta(r, 0);
    if (!m->rank)
        return CR_FAIL(CR_ERUNTIME, "%s: expected a tensor with at least one dimension, got a 0-d tensor", op_name(r));
    return cr_wrap_dim(d, m->rank, dim);
}

/* self, then dim, start, end, step from argument `at` on: slice, slice_scatter. */
static cr_status slice_meta(cr_rule *r, int at, cr_meta *o) {
    int dim;
    window w;
    if (!o->rank) return CR_FAIL(CR_EINDEX, "%s: a 0-d tensor cannot be sliced", op_name(r));
    CR_TRY(cr_wrap_dim(cr_rule_int(r, at), o->rank, &dim));
    cr_dim step = cr_rule_int(r, at + 3);
    if (cr_dim_known(r->env, step, CR_LE, 0) == CR_YES)
        return CR_FAIL(CR_ERUNTIME, "%s: step must be positive", op_name(r));
    CR_TRY(cr_dim_require(r->env, step, CR_GT, 0, "step"));
    CR_TRY(slice_window(r, &r->arg[at + 1], &r->arg[at + 2], o->size[dim], &w));
    if (cr_dim_known(r->env, step, CR_EQ, 1) != CR_YES) w.length = cr_dim_ceildiv(r->env, w.length, step);
    cut(r->env, o, dim, w.start, w.length);
    o->stride[dim] = cr_dim_mul(r->env, o->stride[dim], step);
    return CR_OK;
}

cr_status shape_slice(cr_rule *r) {
    cr_out *out;
    CR_TRY(begin(r, &out));
    return slice_meta(r, 1, &out->meta);
}

/* An index into a dimension, made non-negative. */
static cr_status wrap_index(cr_rule *r, cr_dim index, int dim, cr_dim size, cr_dim *out) {
    bool negative;
    if (cr_dim_known(r->env, index, CR_GE, size) == CR_YES ||
        cr_dim_known(r->env, cr_dim_add(r->env, index, size), CR_LT, 0) == CR_YES) {
        cr_str at, have;
        cr_str_init(&at);
        cr_str_init(&have);
        cr_dim_print(r->env, index, &at);
        cr_dim_print(r->env, size, &have);
        cr_status s = CR_FAIL(CR_EINDEX, "%s: index %s is out of range for dimension %d of size %s", op_name(r),
                              cr_str_get(&at), dim, cr_str_get(&have));
        cr_str_dispose(&at);
        cr_str_dispose(&have);
        return s;
    }
    if (r->env && sign_unknown(r, index)) {
        CR_TRY(cr_dim_require(r->env, cr_dim_add(r->env, index, size), CR_GE, 0, "index"));
        CR_TRY(cr_dim_require(r->env, index, CR_LT, size, "index"));
        *out = sign_unknown(r, index) ? wrapped_later(r, index, size) : index;
        return CR_OK;
    }
    CR_TRY(cr_dim_assume(r->env, index, CR_LT, 0, false, &negative));
    if (negative) CR_TRY(cr_dim_require(r->env, cr_dim_add(r->env, index, size), CR_GE, 0, "index"));
    else CR_TRY(cr_dim_require(r->env, index, CR_LT, size, "index"));
    *out = negative ? cr_dim_add(r->env, index, size) : index;
    return CR_OK;
}

static cr_status select_meta(cr_rule *r, int at, cr_meta *o) {
    int dim;
    cr_dim index = 0;
    if (!o->rank) return CR_FAIL(CR_EINDEX, "%s: a 0-d tensor cannot be indexed; use item()", op_name(r));
    CR_TRY(cr_wrap_dim(cr_rule_int(r, at), o->rank, &dim));
    CR_TRY(wrap_index(r, cr_rule_int(r, at + 1), dim, o->size[dim], &index));
    cut(r->env, o, dim, index, 1);
    remove_dim(o, dim);
    return CR_OK;
}

cr_status shape_select(cr_rule *r) {
    cr_out *out;
    CR_TRY(begin(r, &out));
    return select_meta(r, 1, &out->meta);
}

cr_status shape_narrow(cr_rule *r) {
    const cr_meta *m = cr_rule_meta(r, 0);
    int dim;
    cr_dim start = cr_rule_int(r, 2), length = cr_rule_int(r, 3);
    cr_out *out;
    CR_TRY(need_dims(r, cr_rule_int(r, 1), &dim));
    cr_dim size = m->size[dim];
    if (cr_dim_known(r->env, length, CR_LT, 0) == CR_YES)
        return CR_FAIL(CR_ERUNTIME, "narrow: length must not be negative");
    CR_TRY(cr_dim_require(r->env, length, CR_GE, 0, "length"));
    bool negative;
    if (cr_dim_known(r->env, start, CR_GT, size) == CR_YES ||
        cr_dim_known(r->env, cr_dim_add(r->env, start, size), CR_LT, 0) == CR_YES)
        return CR_FAIL(CR_EINDEX, "narrow: start is out of range for dimension %d", dim);
    CR_TRY(cr_dim_assume(r->env, start, CR_LT, 0, false, &negative));
    if (negative) start = cr_dim_add(r->env, start, size);
    CR_TRY(cr_dim_require(r->env, start, CR_GE, 0, "start"));
    cr_dim stop = cr_dim_add(r->env, start, length);
    if (cr_dim_known(r->env, stop, CR_GT, size) == CR_YES)
        return CR_FAIL(CR_ERUNTIME, "narrow: start plus length goes beyond the size of dimension %d", dim);
    CR_TRY(cr_dim_require(r->env, stop, CR_LE, size, "start + length"));
    CR_TRY(begin(r, &out));
    cut(r->env, &out->meta, dim, start, length);
    return CR_OK;
}

static cr_status diagonal_meta(cr_rule *r, int at, cr_meta *o) {
    int a, b;
    const int64_t beyond = (int64_t)1 << 61; /* any size; what is further away is as empty */
    int64_t offset = CR_MAX(CR_MIN(cr_rule_int(r, at), beyond), -beyond);
    CR_TRY(cr_wrap_dim(cr_rule_int(r, at + 1), o->rank, &a));
    CR_TRY(cr_wrap_dim(cr_rule_int(r, at + 2), o->rank, &b));
    if (a == b || o->rank < 2) return CR_FAIL(CR_ERUNTIME, "%s: the two dims must differ, both are %d", op_name(r), a);
    cr_dim rows = cr_dim_add(r->env, o->size[a], offset < 0 ? offset : 0);
    cr_dim columns = cr_dim_sub(r->env, o->size[b], offset > 0 ? offset : 0);
    cr_tri shorter = cr_dim_known(r->env, rows, CR_LE, columns); /* no decision: one program serves both */
    cr_dim length = shorter == CR_YES ? rows : shorter == CR_NO ? columns : cr_dim_min(r->env, rows, columns);
    cr_tri negative = cr_dim_known(r->env, length, CR_LT, 0);
    if (negative == CR_YES) length = 0;
    else if (negative == CR_UNKNOWN) length = cr_dim_max(r->env, length, 0);
    if (cr_dim_known(r->env, length, CR_EQ, 0) != CR_YES) {
        cr_dim skip = offset >= 0 ? cr_dim_mul(r->env, offset, o->stride[b])
                                  : cr_dim_mul(r->env, -offset, o->stride[a]);
        o->offset = cr_dim_add(r->env, o->offset, skip);
    }
    cr_dim stride = cr_dim_add(r->env, o->stride[a], o->stride[b]);
    remove_dim(o, CR_MAX(a, b));
    remove_dim(o, CR_MIN(a, b));
    o->size[o->rank] = length;
    o->stride[o->rank++] = stride;
    return CR_OK;
}

cr_status shape_diagonal(cr_rule *r) {
    cr_out *out;
    CR_TRY(begin(r, &out));
    return diagonal_meta(r, 1, &out->meta);
}

static cr_status as_strided_meta(cr_rule *r, int at, cr_meta *o) {
    int rank, n;
    CR_TRY(cr_rule_ints(r, at, 0, CR_MAX_RANK, o->size, &rank));
    CR_TRY(cr_rule_ints(r, at + 1, 0, CR_MAX_RANK, o->stride, &n));
    if (n != rank) return CR_FAIL(CR_ERUNTIME, "%s: %d sizes but %d strides", op_name(r), rank, n);
    for (int i = 0; i < rank; i++) {
        if (cr_dim_known(r->env, o->size[i], CR_LT, 0) == CR_YES ||
            cr_dim_known(r->env, o->stride[i], CR_LT, 0) == CR_YES)
            return CR_FAIL(CR_ERUNTIME, "%s: sizes and strides must not be negative", op_name(r));
        CR_TRY(cr_dim_require(r->env, o->size[i], CR_GE, 0, "as_strided: size"));
        CR_TRY(cr_dim_require(r->env, o->stride[i], CR_GE, 0, "as_strided: stride"));
    }
    o->rank = (uint8_t)rank;
    if (cr_rule_has(r, at + 2)) o->offset = cr_rule_int(r, at + 2);
    if (cr_dim_known(r->env, o->offset, CR_LT, 0) == CR_YES)
        return CR_FAIL(CR_ERUNTIME, "%s: the storage offset must not be negative", op_name(r));
    return cr_dim_require(r->env, o->offset, CR_GE, 0, "as_strided: storage_offset");
}

cr_status shape_as_strided(cr_rule *r) {
    cr_out *out;
    CR_TRY(begin(r, &out));
    return as_strided_meta(r, 1, &out->meta);
}

cr_status shape_unfold(cr_rule *r) {
    cr_out *out;
    int dim;
    int64_t size = cr_rule_int(r, 2), step = cr_rule_int(r, 3);
    const cr_meta *m = cr_rule_meta(r, 0);
    CR_TRY(cr_wrap_dim(cr_rule_int(r, 1), m->rank, &dim));
    if (m->rank == CR_MAX_RANK) return CR_FAIL(CR_ERUNTIME, "unfold: a tensor has at most %d dimensions", CR_MAX_RANK);
    if (cr_dim_known(NULL, size, CR_LT, 0) == CR_YES || cr_dim_known(NULL, step, CR_LE, 0) == CR_YES)
        return CR_FAIL(CR_ERUNTIME, "unfold: size must be 0 or more and step at least 1, got %lld and %lld",
                       (long long)size, (long long)step);
    cr_dim whole = m->rank ? m->size[dim] : 1, stride = m->rank ? m->stride[dim] : 1;
    if (cr_dim_known(r->env, whole, CR_LT, size) == CR_YES)
        return CR_FAIL(CR_ERUNTIME, "unfold: a window of %lld is larger than dimension %d", (long long)size, dim);
    CR_TRY(cr_dim_require(r->env, size, CR_LE, whole, "size"));
    CR_TRY(begin(r, &out));
    cr_meta *o = &out->meta;
    if (m->rank) {
        o->size[dim] = cr_dim_add(r->env, cr_dim_floordiv(r->env, cr_dim_sub(r->env, whole, size), step), 1);
        o->stride[dim] = cr_dim_mul(r->env, stride, step);
    }
    o->size[o->rank] = size;
    o->stride[o->rank++] = stride;
    return CR_OK;
}
