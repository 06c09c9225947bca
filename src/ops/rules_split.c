/* rules_split.c: views that come as lists: split, chunk, unbind and their kin. How many there are must be a plain
 * number; how long each one is need not be. */
#include "ops/rules.h"

static const char *op_name(const cr_rule *r) { return r->op->schema.name; }

/* The number of results depends on it, so it must be a plain number: guards on the example value. */
static cr_status settle(cr_rule *r, cr_dim d, const char *what, int64_t *out) {
    int64_t example = d;
    if (!cr_dim_is_plain(d)) {
        if (!cr_dim_hint(r->env, d, &example))
            return CR_FAIL(CR_EDATADEP,
                           "%s: the number of results depends on %s, which is not known before the program runs",
                           op_name(r), what);
        CR_TRY(cr_dim_require(r->env, d, CR_EQ, example, what));
    }
    *out = example;
    return CR_OK;
}

static cr_status need_dims(cr_rule *r, int64_t d, int *dim) {
    const cr_meta *m = cr_rule_meta(r, 0);
    if (!m->rank)
        return CR_FAIL(CR_ERUNTIME, "%s: expected a tensor with at least one dimension, got a 0-d tensor", op_name(r));
    return cr_wrap_dim(d, m->rank, dim);
}

static cr_status add_part(cr_rule *r, int dim, cr_dim start, cr_dim length) {
    cr_out *out = cr_rule_add_view(r, 0);
    if (!out) return CR_ENOMEM;
    cr_meta *o = &out->meta;
    o->offset = cr_dim_add(r->env, o->offset, cr_dim_mul(r->env, start, o->stride[dim]));
    o->size[dim] = length;
    return CR_OK;
}

static cr_status split_evenly(cr_rule *r, int dim, cr_dim size) {
    const cr_meta *m = cr_rule_meta(r, 0);
    cr_dim whole = m->size[dim];
    int64_t count = 1;
    if (cr_dim_known(r->env, size, CR_LT, 0) == CR_YES)
        return CR_FAIL(CR_ERUNTIME, "%s: the size of a part must not be negative", op_name(r));
    if (cr_dim_known(r->env, size, CR_EQ, 0) == CR_YES) {
        if (cr_dim_known(r->env, whole, CR_EQ, 0) == CR_NO)
            return CR_FAIL(CR_ERUNTIME, "%s: parts of size 0 are possible only for a dimension of size 0", op_name(r));
        CR_TRY(cr_dim_require(r->env, whole, CR_EQ, 0, "size"));
        return add_part(r, dim, 0, 0);
    }
    CR_TRY(settle(r, cr_dim_ceildiv(r->env, whole, size), "the size of the dimension", &count));
    if (count < 1) count = 1;
    for (int64_t i = 0; i < count; i++) {
        cr_dim start = cr_dim_mul(r->env, i, size);
        CR_TRY(add_part(r, dim, start, i < count - 1 ? size : cr_dim_sub(r->env, whole, start)));
    }
    return CR_OK;
}

cr_status shape_split(cr_rule *r) {
    int dim;
    CR_TRY(need_dims(r, cr_rule_int(r, 2), &dim));
    return split_evenly(r, dim, cr_rule_int(r, 1));
}

cr_status shape_split_sizes(cr_rule *r) {
    const cr_meta *m = cr_rule_meta(r, 0);
    const cr_arg *sizes = &r->arg[1];
    int dim;
    cr_dim start = 0;
    CR_TRY(need_dims(r, cr_rule_int(r, 2), &dim));
    for (uint32_t i = 0; i < sizes->n; i++) {
        cr_dim size = sizes->u.list[i].u.i;
        if (cr_dim_known(r->env, size, CR_LT, 0) == CR_YES)
            return CR_FAIL(CR_ERUNTIME, "%s: the size of part %u is negative", op_name(r), i);
        CR_TRY(cr_dim_require(r->env, size, CR_GE, 0, "split size"));
        CR_TRY(add_part(r, dim, start, size));
        start = cr_dim_add(r->env, start, size);
    }
    if (cr_dim_known(r->env, start, CR_EQ, m->size[dim]) == CR_NO) {
        cr_str sum, whole;
        cr_str_init(&sum);
        cr_str_init(&whole);
        cr_dim_print(r->env, start, &sum);
        cr_dim_print(r->env, m->size[dim], &whole);
        cr_status s = CR_FAIL(CR_ERUNTIME, "%s: the sizes add up to %s, but dimension %d has size %s", op_name(r),
                              cr_str_get(&sum), dim, cr_str_get(&whole));
        cr_str_dispose(&sum);
        cr_str_dispose(&whole);
        return s;
    }
    return cr_dim_require(r->env, start, CR_EQ, m->size[dim], "sum of split sizes");
}

/* More parts than a tensor has slices are empty; nobody wants millions of those. */
static cr_status check_parts(cr_rule *r, cr_dim size, int64_t n) {
    if (n <= 1 << 20 || cr_dim_known(r->env, size, CR_GE, n) == CR_YES) return CR_OK;
    return CR_FAIL(CR_ERUNTIME, "%s: %lld parts are more than the dimension is long, and most of them would be empty",
                   op_name(r), (long long)n);
}

cr_status shape_chunk(cr_rule *r) {
    const cr_meta *m = cr_rule_meta(r, 0);
    int dim;
    int64_t chunks = cr_rule_int(r, 1);
    CR_TRY(need_dims(r, cr_rule_int(r, 2), &dim));
    if (chunks < 1)
        return CR_FAIL(CR_ERUNTIME, "chunk: the number of chunks must be at least 1, got %lld", (long long)chunks);
    if (cr_dim_known(r->env, m->size[dim], CR_EQ, 0) == CR_YES) {
        CR_TRY(check_parts(r, 0, chunks));
        for (int64_t i = 0; i < chunks; i++) CR_TRY(add_part(r, dim, 0, 0));
        return CR_OK;
    }
    return split_evenly(r, dim, cr_dim_ceildiv(r->env, m->size[dim], chunks));
}

static cr_status split_sections(cr_rule *r, int dim, cr_dim count) {
    const cr_meta *m = cr_rule_meta(r, 0);
    int64_t n;
    CR_TRY(settle(r, count, "the number of sections", &n));
    if (n < 1)
        return CR_FAIL(CR_ERUNTIME, "%s: the number of sections must be at least 1, got %lld", op_name(r),
                       (long long)n);
    CR_TRY(check_parts(r, m->size[dim], n));
    /* The first (size mod n) sections are one longer: section i starts at i * (size // n) + min(i, size mod n). */
    cr_dim each = cr_dim_floordiv(r->env, m->size[dim], n), longer = cr_dim_mod(r->env, m->size[dim], n), start = 0;
    for (int64_t i = 0; i < n; i++) {
        cr_dim end = cr_dim_add(r->env, cr_dim_mul(r->env, i + 1, each), cr_dim_min(r->env, i + 1, longer));
        CR_TRY(add_part(r, dim, start, cr_dim_sub(r->env, end, start)));
        start = end;
    }
    return CR_OK;
}

/* A cut position, clamped as a slice's ends are. */
static cr_status clamp_cut(cr_rule *r, cr_dim at, cr_dim size, cr_dim *out) {
    bool negative;
    CR_TRY(cr_dim_assume(r->env, at, CR_LT, 0, false, &negative));
    if (negative) at = cr_dim_add(r->env, at, size);
    *out = cr_dim_max(r->env, cr_dim_min(r->env, at, size), 0);
    return CR_OK;
}

static cr_status split_at(cr_rule *r, int dim, const cr_arg *cuts) {
    cr_dim size = cr_rule_meta(r, 0)->size[dim], start = 0;
    for (uint32_t i = 0; i <= cuts->n; i++) {
        cr_dim end = size;
        if (i < cuts->n) CR_TRY(clamp_cut(r, cuts->u.list[i].u.i, size, &end));
        CR_TRY(add_part(r, dim, start, cr_dim_max(r->env, cr_dim_sub(r->env, end, start), 0)));
        start = end;
    }
    return CR_OK;
}

cr_status shape_tensor_split(cr_rule *r) {
    int dim;
    CR_TRY(need_dims(r, cr_rule_int(r, 2), &dim));
    return r->arg[1].kind == CR_ARG_LIST ? split_at(r, dim, &r->arg[1]) : split_sections(r, dim, cr_rule_int(r, 1));
}

/* hsplit, vsplit, dsplit: along a fixed dimension, which must be there and divide evenly. */
static cr_status split_along(cr_rule *r, int least_rank, int dim) {
    const cr_meta *m = cr_rule_meta(r, 0);
    if (m->rank < least_rank)
        return CR_FAIL(CR_ERUNTIME, "%s: expected a tensor with at least %d dimensions, got %d", op_name(r), least_rank,
                       m->rank);
    if (r->arg[1].kind == CR_ARG_LIST) return split_at(r, dim, &r->arg[1]);
    int64_t n = cr_rule_int(r, 1);
    if (n < 1)
        return CR_FAIL(CR_ERUNTIME, "%s: the number of sections must be at least 1, got %lld", op_name(r),
                       (long long)n);
    cr_dim rest = cr_dim_mod(r->env, m->size[dim], n);
    if (cr_dim_known(r->env, rest, CR_EQ, 0) == CR_NO)
        return CR_FAIL(CR_ERUNTIME, "%s: the size of dimension %d is not divisible by %lld; tensor_split allows that",
                       op_name(r), dim, (long long)n);
    CR_TRY(cr_dim_require(r->env, rest, CR_EQ, 0, "size of the dimension"));
    return split_sections(r, dim, n);
}
cr_status shape_hsplit(cr_rule *r) { return split_along(r, 1, cr_rule_meta(r, 0)->rank == 1 ? 0 : 1); }
cr_status shape_vsplit(cr_rule *r) { return split_along(r, 2, 0); }
cr_status shape_dsplit(cr_rule *r) { return split_along(r, 3, 2); }

cr_status shape_unbind(cr_rule *r) {
    const cr_meta *m = cr_rule_meta(r, 0);
    int dim;
    int64_t n;
    if (!m->rank) return CR_FAIL(CR_EINDEX, "%s: a 0-d tensor has no dimension to take apart", op_name(r));
    CR_TRY(cr_wrap_dim(cr_rule_int(r, 1), m->rank, &dim));
    CR_TRY(settle(r, m->size[dim], "the size of the dimension", &n));
    for (int64_t i = 0; i < n; i++) {
        CR_TRY(add_part(r, dim, i, 1));
        cr_meta *o = &r->out[r->nout - 1].meta;
        o->rank--;
        memmove(o->size + dim, o->size + dim + 1, (size_t)(o->rank - dim) * sizeof *o->size);
        memmove(o->stride + dim, o->stride + dim + 1, (size_t)(o->rank - dim) * sizeof *o->stride);
    }
    return CR_OK;
}
