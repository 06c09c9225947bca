/* rules_rnn.c: packed sequences. How many rows and steps there are depends on the lengths' values. */
#include "ops/rules.h"

static const char *op_name(const cr_rule *r) { return r->op->schema.name; }

static cr_status require_row(const cr_rule *r, int i) {
    const cr_meta *m = cr_rule_meta(r, i);
    if (m->rank == 1 && m->dtype == CR_I64) return CR_OK;
    return CR_FAIL(CR_ERUNTIME, "%s: '%s' must be one row of int64, not %d dims of %s", op_name(r),
                   r->op->schema.params[i].name, m->rank, cr_dtype_aten(m->dtype));
}

cr_status shape_pack_padded(cr_rule *r) {
    const cr_meta *m = cr_rule_meta(r, 0), *lengths = cr_rule_meta(r, 1);
    bool batch_first = cr_rule_bool(r, 2);
    CR_TRY(require_row(r, 1));
    if (m->rank < 2)
        return CR_FAIL(CR_ERUNTIME, "%s: the input must have dims of time and batch, got %d dims", op_name(r), m->rank);
    CR_TRY(cr_dim_require(r->env, lengths->size[0], CR_GT, 0, "number of lengths"));
    CR_TRY(cr_dim_require(r->env, lengths->size[0], CR_EQ, m->size[batch_first ? 0 : 1], "number of lengths"));
    cr_dim size[CR_MAX_RANK], steps;
    size[0] = cr_rule_count(r, 0, INT64_MAX);
    steps = cr_rule_count(r, 1, INT64_MAX);
    for (int d = 2; d < m->rank; d++) size[d - 1] = m->size[d];
    CR_TRY(cr_rule_add_dense(r, r->result, m->rank - 1, size));
    return cr_rule_add_dense(r, CR_I64, 1, &steps);
}

cr_status shape_pack_padded_backward(cr_rule *r) {
    cr_dim size[CR_MAX_RANK];
    int rank;
    const cr_meta *grad = cr_rule_meta(r, 0);
    CR_TRY(require_row(r, 2));
    CR_TRY(cr_rule_ints(r, 1, 0, CR_MAX_RANK, size, &rank));
    if (rank < 2) return CR_FAIL(CR_ERUNTIME, "%s: input_size must have dims of time and batch", op_name(r));
    CR_TRY(cr_rule_require_rank(r, 0, rank - 1, rank - 1));
    for (int d = 0; d < rank; d++)
        CR_TRY(cr_dim_require(r->env, size[d], CR_GE, 0, "_pack_padded_sequence_backward: input_size"));
    for (int d = 2; d < rank; d++)
        CR_TRY(cr_dim_require(r->env, grad->size[d - 1], CR_EQ, size[d],
                              "_pack_padded_sequence_backward: the gradient's rows must have input_size"));
    if (!cr_rule_bool(r, 3)) return cr_rule_add_dense(r, r->result, rank, size);
    /* laid out as (time, batch, ...) all the same */
    int order[CR_MAX_RANK] = { 1, 0 };
    for (int d = 2; d < rank; d++) order[d] = d;
    CR_TRY(cr_rule_add_dense(r, r->result, rank, size));
    cr_strides_permuted(r->env, rank, r->out[0].meta.size, order, r->out[0].meta.stride);
    return CR_OK;
}

cr_status shape_pad_packed(cr_rule *r) {
    const cr_meta *m = cr_rule_meta(r, 0), *sizes = cr_rule_meta(r, 1);
    bool batch_first = cr_rule_bool(r, 2);
    int64_t total = r->arg[4].u.i;
    CR_TRY(require_row(r, 1));
    if (m->rank < 1) return CR_FAIL(CR_ERUNTIME, "%s: the data must have a dim of rows", op_name(r));
    cr_dim steps = sizes->size[0], batch = cr_rule_count(r, 0, INT64_MAX), size[CR_MAX_RANK];
    CR_TRY(cr_dim_require(r->env, steps, CR_GT, 0, "number of batch_sizes"));
    if (total > 0) {
        if (cr_dim_known(r->env, steps, CR_GT, total) == CR_YES)
            return CR_FAIL(CR_ERUNTIME, "%s: total_length %lld is shorter than the longest sequence", op_name(r),
                           (long long)total);
        CR_TRY(cr_dim_require(r->env, steps, CR_LE, total, "length of the longest sequence"));
        steps = total;
    }
    size[batch_first ? 1 : 0] = steps;
    size[batch_first ? 0 : 1] = batch;
    for (int d = 1; d < m->rank; d++) size[d + 1] = m->size[d];
    int order[CR_MAX_RANK] = { batch_first ? 1 : 0, batch_first ? 0 : 1 };
    for (int d = 2; d <= m->rank; d++) order[d] = d;
    CR_TRY(cr_rule_add_dense(r, r->result, m->rank + 1, size));
    cr_strides_permuted(r->env, m->rank + 1, r->out[0].meta.size, order, r->out[0].meta.stride);
    return cr_rule_add_dense(r, CR_I64, 1, &batch);
}
