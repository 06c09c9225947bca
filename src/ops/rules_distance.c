/* rules_distance.c: results of distances between rows. */
#include "ops/rules.h"

static const char *op_name(const cr_rule *r) { return r->op->schema.name; }

static cr_status check_floating(cr_rule *r, int i) {
    const cr_meta *m = cr_rule_meta(r, i);
    if (rt_is_float(m->dtype)) return CR_OK;
    return CR_FAIL(CR_ERUNTIME, "%s: %s must have a floating dtype, got %s", op_name(r), r->op->schema.params[i].name,
                   rt_dtype_name(m->dtype));
}

static cr_status check_order(cr_rule *r, int i) {
    const cr_arg *a = &r->arg[i];
    double p = a->kind == CR_ARG_FLOAT ? a->u.f : (double)a->u.i;
    if (p >= 0) return CR_OK;
    return CR_FAIL(CR_ERUNTIME, "%s: p must not be negative, got %g", op_name(r), p);
}

/* x1 and x2 at `at`; `size` becomes the batch sizes and those of the matrix of distances. */
static cr_status two_sets(cr_rule *r, int at, int *rank, cr_dim *size) {
    const cr_meta *a = cr_rule_meta(r, at), *b = cr_rule_meta(r, at + 1);
    for (int i = at; i < at + 2; i++) {
        CR_TRY(check_floating(r, i));
        if (cr_rule_meta(r, i)->rank < 2)
            return CR_FAIL(CR_ERUNTIME, "%s: %s must have at least two dimensions, got %d", op_name(r),
                           r->op->schema.params[i].name, cr_rule_meta(r, i)->rank);
    }
    if (a->dtype != b->dtype)
        return CR_FAIL(CR_ERUNTIME, "%s: x1 and x2 must have the same dtype, got %s and %s", op_name(r),
                       rt_dtype_name(a->dtype), rt_dtype_name(b->dtype));
    CR_TRY(cr_dim_require(r->env, a->size[a->rank - 1], CR_EQ, b->size[b->rank - 1],
                          "cdist: the rows of x1 and x2 must have the same length"));
    *rank = a->rank - 2;
    memcpy(size, a->size, (size_t)*rank * sizeof *size);
    CR_TRY(cr_broadcast(r->env, rank, size, b->rank - 2, b->size));
    size[(*rank)++] = a->size[a->rank - 2];
    size[(*rank)++] = b->size[b->rank - 2];
    return CR_OK;
}

static cr_status check_mode(cr_rule *r, int i) {
    const cr_arg *mode = &r->arg[i];
    if (mode->kind == CR_ARG_NONE || (mode->u.i >= 0 && mode->u.i <= 2)) return CR_OK;
    return CR_FAIL(CR_ERUNTIME, "%s: compute_mode must be 0, 1 or 2, got %lld", op_name(r), (long long)mode->u.i);
}

/* Half precision is for Euclidean distances of many rows, where PyTorch takes products instead of differences. */
static cr_status check_half(cr_rule *r, cr_dim rows, cr_dim others) {
    const cr_meta *m = cr_rule_meta(r, 0);
    int64_t mode = r->arg[3].kind == CR_ARG_NONE ? 0 : r->arg[3].u.i;
    double p = r->arg[2].kind == CR_ARG_FLOAT ? r->arg[2].u.f : (double)r->arg[2].u.i;
    if (m->dtype == CR_F32 || m->dtype == CR_F64) return CR_OK;
    bool many = false;
    CR_TRY(cr_dim_decide(r->env, rows, CR_GT, 25, &many));
    if (!many) CR_TRY(cr_dim_decide(r->env, others, CR_GT, 25, &many));
    if (p == 2 && (mode == 1 || (mode == 0 && many))) return CR_OK;
    return CR_FAIL(CR_ENOTIMPL, "%s: not implemented for '%s' on CPU; convert the input with .to(dtype) first",
                   op_name(r), cr_dtype_aten(m->dtype));
}

cr_status check_cdist(cr_rule *r) { /* x1, x2, p, compute_mode */
    cr_dim size[CR_MAX_RANK];
    int rank;
    CR_TRY(two_sets(r, 0, &rank, size));
    return dtype_same(r);
}

cr_status shape_cdist(cr_rule *r) { /* x1, x2, p, compute_mode */
    cr_dim size[CR_MAX_RANK];
    int rank;
    CR_TRY(two_sets(r, 0, &rank, size));
    CR_TRY(check_order(r, 2));
    CR_TRY(check_mode(r, 3));
    CR_TRY(check_half(r, size[rank - 2], size[rank - 1]));
    return cr_rule_add_dense(r, r->result, rank, size);
}

cr_status shape_cdist_backward(cr_rule *r) { /* grad, x1, x2, p, cdist */
    const cr_meta *x = cr_rule_meta(r, 1);
    cr_dim size[CR_MAX_RANK];
    int rank;
    CR_TRY(two_sets(r, 1, &rank, size));
    for (int i = 0; i < 5; i += 4) {
        const cr_meta *m = cr_rule_meta(r, i);
        if (m->rank != rank)
            return CR_FAIL(CR_ERUNTIME, "%s: %s must have %d dimensions, got %d", op_name(r),
                           r->op->schema.params[i].name, rank, m->rank);
        for (int d = 0; d < rank; d++)
            CR_TRY(cr_dim_require(r->env, m->size[d], CR_EQ, size[d],
                                  "cdist_backward: gradient and distances must have the sizes of the distances"));
    }
    size[rank - 1] = x->size[x->rank - 1];
    return cr_rule_add_dense(r, x->dtype, rank, size);
}

static cr_status one_set(cr_rule *r, int at) {
    const cr_meta *m = cr_rule_meta(r, at);
    if (m->rank != 2)
        return CR_FAIL(CR_ERUNTIME, "%s: %s must have two dimensions, got %d", op_name(r),
                       r->op->schema.params[at].name, m->rank);
    CR_TRY(check_floating(r, at));
    return check_order(r, at + 1);
}

static cr_dim pair_count(cr_rule *r, cr_dim n) {
    return cr_dim_floordiv(r->env, cr_dim_mul(r->env, n, cr_dim_sub(r->env, n, 1)), 2);
}

cr_status shape_pdist(cr_rule *r) { /* self, p */
    CR_TRY(one_set(r, 0));
    cr_dim n = pair_count(r, cr_rule_meta(r, 0)->size[0]);
    return cr_rule_add_dense(r, r->result, 1, &n);
}

cr_status shape_pdist_backward(cr_rule *r) { /* grad, self, p, pdist */
    const cr_meta *self = cr_rule_meta(r, 1);
    CR_TRY(one_set(r, 1));
    cr_dim n = pair_count(r, self->size[0]);
    for (int i = 0; i < 4; i += 3) {
        const cr_meta *m = cr_rule_meta(r, i);
        if (m->rank != 1)
            return CR_FAIL(CR_ERUNTIME, "%s: %s must have one dimension, got %d", op_name(r),
                           r->op->schema.params[i].name, m->rank);
        CR_TRY(cr_dim_require(r->env, m->size[0], CR_EQ, n,
                              "pdist_backward: gradient and distances must have an entry for each pair of rows"));
    }
    return cr_rule_add_dense(r, self->dtype, 2, self->size);
}
