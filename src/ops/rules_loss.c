/* rules_loss.c: results of losses that have kernels, and what composite losses refuse before they are decomposed. */
#include "ops/rules.h"

static const char *op_name(const cr_rule *r) { return r->op->schema.name; }

static int64_t reduction_of(const cr_rule *r) { return r->arg[cr__rule_param(r, "reduction")].u.i; }

/* Backward forms have the gradient first and the input second. */
cr_status dtype_second(cr_rule *r) {
    r->common = r->result = cr_rule_meta(r, 1)->dtype;
    return CR_OK;
}

cr_status shape_second(cr_rule *r) {
    const cr_meta *m = cr_rule_meta(r, 1);
    return cr_rule_add_dense(r, r->result, m->rank, m->size);
}

static cr_status require_equal_sizes(cr_rule *r, const cr_meta *a, const cr_meta *b, cr_status code, const char *what) {
    bool same = a->rank == b->rank;
    for (int d = 0; same && d < a->rank; d++) CR_TRY(cr_dim_decide(r->env, a->size[d], CR_EQ, b->size[d], &same));
    return same ? CR_OK : CR_FAIL(code, "%s: %s must have the sizes of the input", op_name(r), what);
}

/* ---- binary cross entropy ---- */

static cr_status require_broadcast(cr_rule *r, const cr_meta *m, const cr_meta *self) {
    for (int d = 0; d < m->rank; d++) {
        int at = self->rank - m->rank + d;
        bool one;
        if (at < 0)
            return CR_FAIL(CR_ERUNTIME, "%s: target and weight must not have more dims than the input", op_name(r));
        if (cr_dim_known(r->env, m->size[d], CR_EQ, self->size[at]) == CR_YES) continue;
        CR_TRY(cr_dim_repeats(r->env, m->size[d], self->size[at], &one));
        if (!one) CR_TRY(cr_dim_require(r->env, m->size[d], CR_EQ, self->size[at], "size of target or weight"));
    }
    return CR_OK;
}

cr_status shape_bce(cr_rule *r) {
    const cr_meta *self = cr_rule_meta(r, 0), *target = cr_rule_meta(r, 1), *weight = cr_rule_meta(r, 2);
    if (target->dtype != self->dtype)
        return CR_FAIL(CR_ERUNTIME, "%s: the target must be %s as the input is, not %s", op_name(r),
                       cr_dtype_aten(self->dtype), cr_dtype_aten(target->dtype));
    CR_TRY(require_broadcast(r, target, self));
    if (weight) CR_TRY(require_broadcast(r, weight, self));
    return reduction_of(r) == 0 ? shape_like(r) : cr_rule_add_dense(r, r->result, 0, NULL);
}

/* ---- negative log likelihood ---- */

static cr_status check_weight(cr_rule *r, const cr_meta *self, int class_dim) {
    const cr_meta *weight = cr_rule_meta(r, cr__rule_param(r, "weight"));
    if (!weight) return CR_OK;
    if (weight->rank != 1)
        return CR_FAIL(CR_ERUNTIME, "%s: the weight must have one dim, one number for each class", op_name(r));
    return cr_dim_require(r->env, weight->size[0], CR_EQ, self->size[class_dim], "number of class weights");
}

static cr_status check_nll_dtypes(const cr_rule *r, const cr_meta *self, const cr_meta *target) {
    int i = cr__rule_param(r, "weight");
    const cr_meta *weight = i >= 0 ? cr_rule_meta(r, i) : NULL;
    if (target->dtype != CR_I64 && target->dtype != CR_U8)
        return CR_FAIL(CR_ERUNTIME, "%s: expected int64 or uint8 targets, not %s", op_name(r),
                       cr_dtype_name(target->dtype));
    if (weight && weight->dtype != self->dtype)
        return CR_FAIL(CR_ERUNTIME, "%s: expected weights of %s as the input is, not %s", op_name(r),
                       cr_dtype_name(self->dtype), cr_dtype_name(weight->dtype));
    return CR_OK;
}

static cr_status check_nll(cr_rule *r, const cr_meta *self, const cr_meta *target) {
    if (self->rank < 1 || self->rank > 2)
        return CR_FAIL(CR_ERUNTIME, "%s: the input must have 1 or 2 dims, not %d", op_name(r), self->rank);
    if (target->rank > 1)
        return CR_FAIL(CR_ERUNTIME, "%s: the target must have 0 or 1 dims, not %d", op_name(r), target->rank);
    if (self->rank == 1 && target->rank == 1 && cr_dim_known(r->env, target->size[0], CR_EQ, 1) == CR_NO)
        return CR_FAIL(CR_EVALUE, "%s: an input without batch takes one target", op_name(r));
    if (self->rank == 2 && target->rank == 0)
        return CR_FAIL(CR_ERUNTIME, "%s: a batch takes one target for each of its rows", op_name(r));
    if (self->rank == 2 || target->rank == 1)
        CR_TRY(cr_dim_require(r->env, self->size[0], CR_EQ, target->size[0], "number of targets"));
    CR_TRY(check_weight(r, self, self->rank - 1));
    return check_nll_dtypes(r, self, target);
}

static cr_status check_nll2d(cr_rule *r, const cr_meta *self, const cr_meta *target) {
    if (target->rank != 3)
        return CR_FAIL(CR_ERUNTIME, "%s: the target must have 3 dims (batch and place), not %d", op_name(r),
                       target->rank);
    if (self->rank != 4)
        return CR_FAIL(CR_ERUNTIME, "%s: the input must have 4 dims (batch, class and place), not %d", op_name(r),
                       self->rank);
    CR_TRY(check_weight(r, self, 1));
    for (int d = 0; d < 3; d++)
        CR_TRY(cr_dim_require(r->env, self->size[d ? d + 1 : 0], CR_EQ, target->size[d], "size of the target"));
    return check_nll_dtypes(r, self, target);
}

static cr_status add_loss(cr_rule *r, int rank, const cr_dim *size) {
    CR_TRY(cr_rule_add_dense(r, r->result, rank, size));
    return cr_rule_add_dense(r, r->result, 0, NULL); /* total_weight */
}

cr_status shape_nll(cr_rule *r) {
    const cr_meta *self = cr_rule_meta(r, 0);
    CR_TRY(check_nll(r, self, cr_rule_meta(r, 1)));
    return reduction_of(r) == 0 && self->rank == 2 ? add_loss(r, 1, self->size) : add_loss(r, 0, NULL);
}

cr_status shape_nll2d(cr_rule *r) {
    const cr_meta *target = cr_rule_meta(r, 1);
    CR_TRY(check_nll2d(r, cr_rule_meta(r, 0), target));
    return reduction_of(r) == 0 ? add_loss(r, 3, target->size) : add_loss(r, 0, NULL);
}

/* The gradient is one number, or as many as the targets when nothing was reduced. */
static cr_status check_gradient(cr_rule *r, const cr_meta *target, bool batch) {
    const cr_meta *grad = cr_rule_meta(r, 0);
    if (reduction_of(r) == 0 && batch) return require_equal_sizes(r, grad, target, CR_ERUNTIME, "the gradient");
    if (grad->rank > 1)
        return CR_FAIL(CR_ERUNTIME, "%s: the gradient of a reduced loss must be one number", op_name(r));
    return cr_dim_require(r->env, cr_meta_numel(r->env, grad), CR_EQ, 1,
                          "nll_loss_backward: elements of the gradient of a reduced loss");
}

/* Of a mean: what it was divided by. */
static cr_status check_total_weight(cr_rule *r) {
    cr_dim n = cr_meta_numel(r->env, cr_rule_meta(r, cr__rule_param(r, "total_weight")));
    return cr_dim_require(r->env, n, CR_EQ, 1, "nll_loss_backward: total_weight must be one number");
}

cr_status shape_nll_backward(cr_rule *r) {
    const cr_meta *self = cr_rule_meta(r, 1), *target = cr_rule_meta(r, 2);
    CR_TRY(check_nll(r, self, target));
    CR_TRY(check_total_weight(r));
    CR_TRY(check_gradient(r, target, self->rank == 2));
    return shape_second(r);
}

cr_status shape_nll2d_backward(cr_rule *r) {
    CR_TRY(check_nll2d(r, cr_rule_meta(r, 1), cr_rule_meta(r, 2)));
    CR_TRY(check_total_weight(r));
    CR_TRY(check_gradient(r, cr_rule_meta(r, 2), true));
    return shape_second(r);
}

static cr_status check_multilabel(cr_rule *r, int first) { /* self, target */
    const cr_meta *self = cr_rule_meta(r, first), *target = cr_rule_meta(r, first + 1);
    if (self->rank > 2)
        return CR_FAIL(CR_ERUNTIME, "%s: the input must have at most 2 dims, not %d", op_name(r), self->rank);
    CR_TRY(require_equal_sizes(r, target, self, CR_ERUNTIME, "the target"));
    if (target->dtype != CR_I64)
        return CR_FAIL(CR_ERUNTIME, "%s: the target must be int64, not %s", op_name(r), cr_dtype_aten(target->dtype));
    return CR_OK;
}

cr_status shape_multilabel(cr_rule *r) {
    const cr_meta *self = cr_rule_meta(r, 0), *target = cr_rule_meta(r, 1);
    CR_TRY(check_multilabel(r, 0));
    CR_TRY(reduction_of(r) == 0 && self->rank == 2 ? cr_rule_add_dense(r, r->result, 1, self->size)
                                                   : cr_rule_add_dense(r, r->result, 0, NULL));
    return cr_rule_add_dense(r, r->result, target->rank, target->size);
}

cr_status shape_multilabel_backward(cr_rule *r) { /* grad_output, self, target, reduction, is_target */
    const cr_meta *grad = cr_rule_meta(r, 0), *self = cr_rule_meta(r, 1);
    CR_TRY(check_multilabel(r, 1));
    CR_TRY(cr_rule_require_sizes(r, 4, self->rank, self->size));
    cr_dim rows = reduction_of(r) == 0 && self->rank == 2 ? self->size[0] : 1;
    if (grad->rank) CR_TRY(cr_rule_require_sizes(r, 0, 1, &rows));
    return shape_second(r);
}

/* ---- connectionist temporal classification ---- */

/* How many lengths an argument gives: numbers, or a tensor of one dim. */
static cr_status require_lengths(cr_rule *r, int i, cr_dim batch) {
    const cr_meta *m = cr_rule_meta(r, i);
    if (m && (m->rank != 1 || !cr_dtype_is_integral(m->dtype)))
        return CR_FAIL(CR_ERUNTIME, "%s: '%s' must be one row of integers", op_name(r), r->op->schema.params[i].name);
    return cr_dim_require(r->env, m ? m->size[0] : (cr_dim)r->arg[i].n, CR_EQ, batch, r->op->schema.params[i].name);
}

cr_status check_ctc_lengths(cr_rule *r) {
    for (int i = 2; i < 4; i++)
        if (!cr_dtype_is_integral(cr_rule_meta(r, i)->dtype))
            return CR_FAIL(CR_ERUNTIME, "%s: '%s' must be integers", op_name(r), r->op->schema.params[i].name);
    return CR_OK;
}

static cr_status check_ctc(cr_rule *r, int first) { /* log_probs, targets, input_lengths, target_lengths */
    const cr_meta *p = cr_rule_meta(r, first), *t = cr_rule_meta(r, first + 1);
    if (p->rank != 3)
        return CR_FAIL(CR_ERUNTIME, "%s: log_probs must have 3 dims (time, batch, class), not %d", op_name(r), p->rank);
    if (t->rank != 1 && t->rank != 2)
        return CR_FAIL(CR_ERUNTIME, "%s: the targets must have 1 or 2 dims, not %d", op_name(r), t->rank);
    if (t->dtype != CR_I32 && t->dtype != CR_I64)
        return CR_FAIL(CR_ERUNTIME, "%s: the targets must be int32 or int64, not %s", op_name(r),
                       cr_dtype_aten(t->dtype));
    cr_dim blank = cr_rule_int(r, cr__rule_param(r, "blank"));
    CR_TRY(cr_dim_require(r->env, blank, CR_GE, 0, "ctc_loss: blank must be one of the classes"));
    CR_TRY(cr_dim_require(r->env, blank, CR_LT, p->size[2], "ctc_loss: blank must be one of the classes"));
    CR_TRY(require_lengths(r, first + 2, p->size[1]));
    CR_TRY(require_lengths(r, first + 3, p->size[1]));
    return t->rank == 2 ? cr_dim_require(r->env, t->size[0], CR_EQ, p->size[1], "number of target rows") : CR_OK;
}

/* (loss of each sequence, log_alpha) */
cr_status shape_ctc(cr_rule *r) {
    const cr_meta *p = cr_rule_meta(r, 0);
    int64_t most = 0;
    cr_dim longest = 0;
    CR_TRY(check_ctc(r, 0));
    if (cr_rule_meta(r, 3)) {
        longest = cr_rule_count(r, 0, INT32_MAX);
    } else {
        for (uint32_t i = 0; i < r->arg[3].n; i++) most = CR_MAX(most, r->arg[3].u.list[i].u.i);
        longest = most;
    }
    cr_dim size[] = { p->size[1], p->size[0], cr_dim_add(r->env, cr_dim_mul(r->env, longest, 2), 1) };
    CR_TRY(cr_rule_add_dense(r, r->result, 1, size));
    return cr_rule_add_dense(r, r->result, 3, size);
}

/* The kernel looks whether log_alpha has room for the longest target. */
/* grad, log_probs, targets, input_lengths, target_lengths, neg_log_likelihood, log_alpha, ... */
cr_status shape_ctc_backward(cr_rule *r) {
    const cr_meta *p = cr_rule_meta(r, 1);
    CR_TRY(check_ctc(r, 1));
    static const int of_its_dtype[] = { 0, 5, 6 };
    for (size_t i = 0; i < CR_COUNT(of_its_dtype); i++) CR_TRY(cr_rule_require_dtype(r, of_its_dtype[i], p->dtype));
    if (cr_rule_meta(r, 0)->rank) CR_TRY(cr_rule_require_sizes(r, 0, 1, &p->size[1]));
    CR_TRY(cr_rule_require_sizes(r, 5, 1, &p->size[1]));
    CR_TRY(cr_rule_require_rank(r, 6, 3, 3));
    CR_TRY(cr_rule_require_sizes(r, 6, 3, (cr_dim[]){ p->size[1], p->size[0], cr_rule_meta(r, 6)->size[2] }));
    return shape_second(r);
}

/* ---- checks of composite losses ---- */

cr_status check_not_negative(cr_rule *r) {
    return r->arg[3].u.f >= 0 ? CR_OK
                              : CR_FAIL(CR_ERUNTIME, "%s: %s must not be negative, got %g", op_name(r),
                                        r->op->schema.params[3].name, r->arg[3].u.f);
}

cr_status check_positive(cr_rule *r) {
    return r->arg[3].u.f > 0 ? CR_OK
                             : CR_FAIL(CR_ERUNTIME, "%s: %s must be positive, got %g", op_name(r),
                                       r->op->schema.params[3].name, r->arg[3].u.f);
}

/* The gradient of a mean divides by the number of elements, in the tensor's dtype. */
cr_status check_mean_of_none(cr_rule *r) { /* grad_output, self, target, reduction */
    const cr_meta *self = cr_rule_meta(r, 1);
    r->common = r->result = self->dtype;
    if (r->arg[3].u.i != 1 || !cr_dtype_is_integral(self->dtype) ||
        cr_dim_known(r->env, cr_meta_numel(r->env, self), CR_EQ, 0) != CR_YES)
        return CR_OK;
    return CR_FAIL(CR_ERUNTIME,
                   "%s: the mean of no elements is no number of dtype %s; convert the tensors to a floating dtype",
                   op_name(r), cr_dtype_name(self->dtype));
}

cr_status check_nll_nd(cr_rule *r) {
    const cr_meta *self = cr_rule_meta(r, 0), *target = cr_rule_meta(r, 1);
    bool same = true;
    if (self->rank < 1) return CR_FAIL(CR_EVALUE, "%s: the input must have a dim of classes", op_name(r));
    if (self->rank == 1) return CR_OK;
    if (!target->rank) return CR_FAIL(CR_EINDEX, "%s: a batch takes one target for each of its rows", op_name(r));
    CR_TRY(cr_dim_decide(r->env, self->size[0], CR_EQ, target->size[0], &same));
    if (!same) return CR_FAIL(CR_EVALUE, "%s: input and target must have the same batch size", op_name(r));
    if (self->rank == 2 || self->rank == 4) return CR_OK;
    same = target->rank == self->rank - 1;
    for (int d = 1; same && d < target->rank; d++)
        CR_TRY(cr_dim_decide(r->env, self->size[d + 1], CR_EQ, target->size[d], &same));
    return same ? CR_OK
                : CR_FAIL(CR_ERUNTIME, "%s: the target must have the input's sizes without the dim of classes",
                          op_name(r));
}

cr_status check_cross_entropy(cr_rule *r) {
    const cr_meta *self = cr_rule_meta(r, 0), *target = cr_rule_meta(r, 1);
    double smoothing = r->arg[5].u.f;
    bool same = self->rank == target->rank;
    for (int d = 0; same && d < self->rank; d++)
        CR_TRY(cr_dim_decide(r->env, self->size[d], CR_EQ, target->size[d], &same));
    if (smoothing > 1)
        return CR_FAIL(CR_ERUNTIME, "%s: label_smoothing must be between 0 and 1, got %g", op_name(r), smoothing);
    if (!same) return CR_OK;
    if (!cr_dtype_is_floating(target->dtype))
        return CR_FAIL(CR_ERUNTIME,
                       "%s: a target of the input's sizes holds probabilities and must be floating point, not %s",
                       op_name(r), cr_dtype_aten(target->dtype));
    if (cr_dim_known(r->env, r->arg[4].u.i, CR_GE, 0) == CR_YES)
        return CR_FAIL(CR_ERUNTIME, "%s: probabilities cannot be ignored by index", op_name(r));
    if (!self->rank) return CR_FAIL(CR_EINDEX, "%s: the input must have a dim of classes", op_name(r));
    return check_weight(r, self, self->rank == 1 ? 0 : 1);
}

cr_status check_cosine_similarity(cr_rule *r) {
    CR_TRY(dtype_promote(r));
    if (cr_dtype_is_floating(r->result)) return CR_OK;
    return CR_FAIL(CR_ERUNTIME, "%s: one of the inputs must be floating point; both together are %s", op_name(r),
                   cr_dtype_aten(r->result));
}

cr_status check_cosine_embedding(cr_rule *r) {
    const cr_meta *a = cr_rule_meta(r, 0), *target = cr_rule_meta(r, 2);
    if (target->rank > 1)
        return CR_FAIL(CR_ERUNTIME, "%s: the target must have 0 or 1 dims, not %d", op_name(r), target->rank);
    if (a->rank != target->rank + 1)
        return CR_FAIL(CR_ERUNTIME, "%s: a target of %d dims goes with inputs of %d, not %d", op_name(r), target->rank,
                       target->rank + 1, a->rank);
    return CR_OK;
}

cr_status check_triplet(cr_rule *r) {
    int a = cr_rule_meta(r, 0)->rank, p = cr_rule_meta(r, 1)->rank, n = cr_rule_meta(r, 2)->rank;
    if (a == p && p == n) return CR_OK;
    return CR_FAIL(CR_ERUNTIME, "%s: anchor, positive and negative must have as many dims, got %d, %d and %d",
                   op_name(r), a, p, n);
}

static cr_status multi_margin(cr_rule *r, int first) {
    const cr_meta *self = cr_rule_meta(r, first), *target = cr_rule_meta(r, first + 1),
                  *weight = cr_rule_meta(r, first + 4);
    cr_arg given = r->arg[first + 2];
    CR_TRY(cr_arg_settle(r->env, &given));
    rt_scalar p = cr_arg_scalar(&given);
    double order = p.kind == RT_ARG_FLOAT ? p.f : (double)p.i;
    if (order != 1 && order != 2) return CR_FAIL(CR_ERUNTIME, "%s: p must be 1 or 2, got %g", op_name(r), order);
    if (self->rank > 2)
        return CR_FAIL(CR_ERUNTIME, "%s: the input must have at most 2 dims, not %d", op_name(r), self->rank);
    if (self->rank && cr_dim_known(r->env, self->size[self->rank - 1], CR_EQ, 0) == CR_YES)
        return CR_FAIL(CR_ERUNTIME, "%s: the input has no classes", op_name(r));
    if (target->rank > 1)
        return CR_FAIL(CR_ERUNTIME, "%s: the target must have 0 or 1 dims, not %d", op_name(r), target->rank);
    CR_TRY(cr_dim_require(r->env, cr_meta_numel(r->env, target), CR_EQ, self->rank == 2 ? self->size[0] : 1,
                          "number of targets"));
    if (!weight) return CR_OK;
    return cr_dim_require(r->env, cr_meta_numel(r->env, weight), CR_EQ, self->rank ? self->size[self->rank - 1] : 1,
                          "number of class weights");
}
cr_status check_multi_margin(cr_rule *r) { return multi_margin(r, 0); }
cr_status check_multi_margin_backward(cr_rule *r) { return multi_margin(r, 1); }
