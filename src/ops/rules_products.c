/* rules_products.c: results of products on packed weights (products.inc). All of it is float32. */
#include "ops/rules.h"
#include "runtime/rt_post.h"

#include <stdio.h>

enum { WIDTH = 16 }; /* columns of a panel */

static const char *op_name(const cr_rule *r) { return r->op->schema.name; }

cr_status dtype_packed(cr_rule *r) {
    for (int i = 0; i < r->nargs; i++) {
        const cr_meta *m = cr_rule_meta(r, i);
        if (m && m->dtype != CR_F32)
            return CR_FAIL(CR_ERUNTIME, "%s: '%s' must be float32, not %s", op_name(r), r->op->schema.params[i].name,
                           cr_dtype_aten(m->dtype));
    }
    r->common = r->result = CR_F32;
    return CR_OK;
}

static cr_dim panels_of(cr_env *env, cr_dim n) { return cr_dim_floordiv(env, cr_dim_add(env, n, WIDTH - 1), WIDTH); }

cr_status shape_pack_panels(cr_rule *r) { /* weight, transposed, groups */
    CR_TRY(cr_rule_require_rank(r, 0, 2, 2));
    const cr_meta *w = cr_rule_meta(r, 0);
    int n = cr_rule_bool(r, 1) ? 1 : 0;
    int64_t groups = r->arg[2].u.i;
    if (groups < 1) return CR_FAIL(CR_EVALUE, "pack_panels: groups must be positive, got %lld", (long long)groups);
    cr_dim each = cr_dim_floordiv(r->env, w->size[n], groups);
    CR_TRY(cr_dim_require(r->env, cr_dim_mul(r->env, each, groups), CR_EQ, w->size[n],
                          "pack_panels: the columns must divide into the groups"));
    cr_dim size[3] = { cr_dim_mul(r->env, panels_of(r->env, each), groups), w->size[!n], WIDTH };
    return cr_rule_add_dense(r, CR_F32, 3, size);
}

/* Panels of n columns in each of `groups` groups, for inputs of size k. */
static cr_status require_panels(cr_rule *r, int i, cr_dim n, int64_t groups, cr_dim k) {
    cr_dim size[3] = { cr_dim_mul(r->env, panels_of(r->env, n), groups), k, WIDTH };
    return cr_rule_require_sizes(r, i, 3, size);
}

/* Argument i broadcasts to the result. */
static cr_status require_broadcasts(cr_rule *r, int i, int rank, const cr_dim *size) {
    const cr_meta *m = cr_rule_meta(r, i);
    if (!m) return CR_OK;
    cr_dim both[CR_MAX_RANK];
    int n = rank;
    memcpy(both, size, (size_t)rank * sizeof *size);
    CR_TRY(cr_broadcast(r->env, &n, both, m->rank, m->size));
    if (n != rank)
        return CR_FAIL(CR_ERUNTIME, "%s: '%s' has more dimensions than the result", op_name(r),
                       r->op->schema.params[i].name);
    for (int d = 0; d < n; d++)
        CR_TRY(
            cr_dim_require(r->env, both[d], CR_EQ, size[d], "linear_packed: an operand must broadcast to the result"));
    return CR_OK;
}

cr_status shape_linear_packed(cr_rule *r) { /* input, panels, n, bias, act, scale, residual */
    const cr_meta *x = cr_rule_meta(r, 0), *bias = cr_rule_meta(r, 3);
    if (!x->rank) return CR_FAIL(CR_ERUNTIME, "linear_packed: the input must have at least one dimension");
    int64_t n = r->arg[2].u.i;
    if (n < 0) return CR_FAIL(CR_EVALUE, "linear_packed: n must not be negative, got %lld", (long long)n);
    if (rt_act_find(r->arg[4].u.s) < 0)
        return CR_FAIL(CR_EVALUE, "linear_packed: no activation is called '%s'", r->arg[4].u.s);
    CR_TRY(require_panels(r, 1, n, 1, x->size[x->rank - 1]));
    if (bias) {
        cr_dim size = n;
        CR_TRY(cr_rule_require_sizes(r, 3, 1, &size));
    }
    cr_dim size[CR_MAX_RANK];
    memcpy(size, x->size, (size_t)x->rank * sizeof *size);
    size[x->rank - 1] = n;
    CR_TRY(require_broadcasts(r, 5, x->rank, size));
    CR_TRY(require_broadcasts(r, 6, x->rank, size));
    return cr_rule_add_dense(r, CR_F32, x->rank, size);
}

cr_status shape_embedding_packed(cr_rule *r) { /* panels, indices, n */
    const cr_meta *p = cr_rule_meta(r, 0), *indices = cr_rule_meta(r, 1);
    cr_dim size[CR_MAX_RANK];
    if (p->dtype != CR_F32)
        return CR_FAIL(CR_ERUNTIME, "embedding_packed: the panels must be float32, not %s", cr_dtype_aten(p->dtype));
    if (indices->dtype != CR_I64 && indices->dtype != CR_I32)
        return CR_FAIL(CR_ERUNTIME, "embedding_packed: the indices must be int32 or int64, not %s",
                       cr_dtype_aten(indices->dtype));
    if (indices->rank + 1 > CR_MAX_RANK)
        return CR_FAIL(CR_ERUNTIME, "embedding_packed: the indices have too many dimensions");
    CR_TRY(require_panels(r, 0, r->arg[2].u.i, 1, p->rank == 3 ? p->size[1] : 0));
    memcpy(size, indices->size, indices->rank * sizeof *size);
    size[indices->rank] = p->size[1];
    return cr_rule_add_dense(r, CR_F32, indices->rank + 1, size);
}

/* `states`: h and perhaps c follow the input, then w_ih, w_hh, b_ih, b_hh, reverse, batch_first. */
static cr_status shape_rnn_packed(cr_rule *r, int states, int64_t gates) {
    int w = 1 + states;
    CR_TRY(cr_rule_require_rank(r, 0, 3, 3));
    CR_TRY(cr_rule_require_rank(r, 1, 2, 2));
    const cr_meta *x = cr_rule_meta(r, 0), *h = cr_rule_meta(r, 1);
    bool batch_first = cr_rule_bool(r, w + 5);
    cr_dim batch = x->size[!batch_first], hidden = h->size[1];
    for (int i = 1; i <= states; i++) CR_TRY(cr_rule_require_sizes(r, i, 2, (cr_dim[]){ batch, hidden }));
    CR_TRY(require_panels(r, w, hidden, gates, x->size[2]));
    CR_TRY(require_panels(r, w + 1, hidden, gates, hidden));
    for (int i = w + 2; i < w + 4; i++) {
        if (!cr_rule_has(r, i)) continue;
        cr_dim size = cr_dim_mul(r->env, hidden, gates);
        CR_TRY(cr_rule_require_sizes(r, i, 1, &size));
    }
    CR_TRY(cr_rule_add_dense(r, CR_F32, 3, (cr_dim[]){ x->size[0], x->size[1], hidden }));
    for (int i = 0; i < states; i++) CR_TRY(cr_rule_add_dense(r, CR_F32, 2, (cr_dim[]){ batch, hidden }));
    return CR_OK;
}
cr_status shape_lstm_packed(cr_rule *r) { return shape_rnn_packed(r, 2, 4); }
cr_status shape_gru_packed(cr_rule *r) { return shape_rnn_packed(r, 1, 3); }
