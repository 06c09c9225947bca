/* rules_norm.c: results of softmax and of layer, group and batch normalisation. */
#include "ops/rules.h"

#include <stdio.h>

/* Parameters have the input's dtype, or f32 beside a low-precision input; statistics then are f32. */
static cr_status statistics_dtype(cr_rule *r, const int *params, int n, int *dtype) {
    const cr_meta *x = cr_rule_meta(r, 0);
    *dtype = x->dtype;
    for (int i = 0; i < n; i++) {
        const cr_meta *p = cr_rule_meta(r, params[i]);
        if (!p || p->dtype == x->dtype) continue;
        bool mixed = p->dtype == CR_F32 && (x->dtype == CR_BF16 || x->dtype == CR_F16);
        if (!mixed)
            return CR_FAIL(CR_ERUNTIME,
                           "%s: argument '%s' is %s, the input %s; they must be equal (or float32 beside a "
                           "half-precision input)",
                           r->op->schema.name, r->op->schema.params[params[i]].name, cr_dtype_aten(p->dtype),
                           cr_dtype_aten(x->dtype));
        *dtype = CR_F32;
    }
    return CR_OK;
}

static cr_status require_channels(cr_rule *r, int param, cr_dim channels) {
    const cr_meta *p = cr_rule_meta(r, param);
    if (!p) return CR_OK;
    const char *name = r->op->schema.params[param].name;
    if (p->rank != 1)
        return CR_FAIL(CR_ERUNTIME, "%s: argument '%s' must have one dimension, not %d", r->op->schema.name, name,
                       p->rank);
    char what[128];
    snprintf(what, sizeof what, "%s: argument '%s' must have one element a channel", r->op->schema.name, name);
    return cr_dim_require(r->env, p->size[0], CR_EQ, channels, what);
}

cr_status shape_softmax(cr_rule *r) { /* self, dim, half_to_float */
    const cr_meta *m = cr_rule_meta(r, 0);
    int dim;
    CR_TRY(cr_wrap_dim(cr_rule_int(r, 1), m->rank, &dim));
    if (cr_rule_bool(r, 2))
        return CR_FAIL(CR_ERUNTIME, "%s: half_to_float is not supported on CPU; pass dtype=float32 to softmax instead",
                       r->op->schema.name);
    return cr_rule_add_dense(r, r->result, m->rank, m->size);
}

cr_status shape_softmax_backward(cr_rule *r) { /* grad_output, output, dim, input_dtype */
    const cr_meta *g = cr_rule_meta(r, 0), *y = cr_rule_meta(r, 1);
    int dim;
    CR_TRY(cr_wrap_dim(cr_rule_int(r, 2), g->rank, &dim));
    if (g->rank != y->rank)
        return CR_FAIL(CR_ERUNTIME, "%s: grad_output and output must have the same shape", r->op->schema.name);
    for (int d = 0; d < g->rank; d++)
        CR_TRY(
            cr_dim_require(r->env, g->size[d], CR_EQ, y->size[d], "grad_output and output must have the same shape"));
    return cr_rule_add_dense(r, r->result, g->rank, g->size);
}

/* input, normalized_shape, and tensors of that shape from parameter 2 on, `params` of them. *out: its dimensions;
 * `few`: the error of an input that has not so many. */
static cr_status normalized_dims(cr_rule *r, int params, cr_status few, int *out) {
    const cr_meta *x = cr_rule_meta(r, 0);
    cr_dim shape[CR_MAX_RANK];
    int n;
    char what[96];
    CR_TRY(cr_rule_ints(r, 1, 0, CR_MAX_RANK, shape, &n));
    if (n < 1) return CR_FAIL(CR_ERUNTIME, "%s: normalized_shape must name at least one dimension", r->op->schema.name);
    if (x->rank < n)
        return CR_FAIL(few, "%s: normalized_shape has %d dimensions, the input only %d", r->op->schema.name, n,
                       x->rank);
    snprintf(what, sizeof what, "%s: the input's last sizes must equal normalized_shape", r->op->schema.name);
    for (int i = 0; i < n; i++) CR_TRY(cr_dim_require(r->env, x->size[x->rank - n + i], CR_EQ, shape[i], what));
    for (int param = 2; param < 2 + params; param++) {
        const cr_meta *p = cr_rule_meta(r, param);
        if (!p) continue;
        snprintf(what, sizeof what, "%s: argument '%s' must have the shape normalized_shape", r->op->schema.name,
                 r->op->schema.params[param].name);
        if (p->rank != n) return CR_FAIL(CR_ERUNTIME, "%s", what);
        for (int i = 0; i < n; i++) CR_TRY(cr_dim_require(r->env, p->size[i], CR_EQ, shape[i], what));
    }
    *out = n;
    return CR_OK;
}

cr_status check_rms_norm(cr_rule *r) { /* input, normalized_shape, weight, eps */
    int n;
    return normalized_dims(r, 1, CR_EVALUE, &n);
}

cr_status shape_layer_norm(cr_rule *r) { /* input, normalized_shape, weight, bias, eps */
    const cr_meta *x = cr_rule_meta(r, 0);
    cr_dim stats[CR_MAX_RANK];
    int n, dtype;
    CR_TRY(normalized_dims(r, 2, CR_ERUNTIME, &n));
    CR_TRY(statistics_dtype(r, (int[]){ 2, 3 }, 2, &dtype));
    for (int d = 0; d < x->rank; d++) stats[d] = d < x->rank - n ? x->size[d] : 1;
    CR_TRY(cr_rule_add_dense(r, x->dtype, x->rank, x->size));
    CR_TRY(cr_rule_add_dense(r, dtype, x->rank, stats));
    return cr_rule_add_dense(r, dtype, x->rank, stats);
}

cr_status shape_group_norm(cr_rule *r) { /* input, weight, bias, N, C, HxW, group, eps */
    const cr_meta *x = cr_rule_meta(r, 0);
    cr_dim groups = cr_rule_int(r, 6), stats[] = { cr_rule_int(r, 3), groups };
    int dtype;
    cr_dim total = cr_dim_mul(r->env, cr_dim_mul(r->env, cr_rule_int(r, 3), cr_rule_int(r, 4)), cr_rule_int(r, 5));
    for (int i = 3; i < 6; i++)
        CR_TRY(cr_dim_require(r->env, cr_rule_int(r, i), CR_GE, 0,
                              "native_group_norm: N, C and HxW must not be negative"));
    CR_TRY(cr_dim_require(r->env, cr_meta_numel(r->env, x), CR_EQ, total,
                          "native_group_norm: the input must have N * C * HxW elements"));
    CR_TRY(cr_dim_require(r->env, groups, CR_GT, 0, "group_norm: the number of groups must be positive"));
    CR_TRY(cr_dim_require(r->env, cr_dim_mod(r->env, cr_rule_int(r, 4), groups), CR_EQ, 0,
                          "group_norm: the number of channels must be divisible by the number of groups"));
    CR_TRY(require_channels(r, 1, cr_rule_int(r, 4)));
    CR_TRY(require_channels(r, 2, cr_rule_int(r, 4)));
    CR_TRY(statistics_dtype(r, (int[]){ 1, 2 }, 2, &dtype));
    CR_TRY(cr__rule_add_format(r, x, x->rank, x->size));
    CR_TRY(cr_rule_add_dense(r, dtype, 2, stats));
    return cr_rule_add_dense(r, dtype, 2, stats);
}

/* `training`: statistics are computed and saved; else the saved ones are empty. */
static cr_status batch_norm(cr_rule *r, bool has_running, bool training) {
    const cr_meta *x = cr_rule_meta(r, 0);
    int dtype;
    if (x->rank < 2)
        return CR_FAIL(CR_ERUNTIME, "%s: the input needs a batch and a channel dimension, it has %d",
                       r->op->schema.name, x->rank);
    cr_dim none = 0, channels = x->size[1];
    for (int param = 1; param < (has_running ? 5 : 3); param++) CR_TRY(require_channels(r, param, channels));
    CR_TRY(statistics_dtype(r, (int[]){ 1, 2, 3, 4 }, has_running ? 4 : 2, &dtype));
    CR_TRY(cr__rule_add_format(r, x, x->rank, x->size));
    CR_TRY(cr_rule_add_dense(r, dtype, 1, training ? &channels : &none));
    return cr_rule_add_dense(r, dtype, 1, training ? &channels : &none);
}

cr_status shape_batch_norm(cr_rule *r) { return batch_norm(r, true, cr_rule_bool(r, 5)); }
cr_status shape_batch_norm_no_stats(cr_rule *r) {
    if (!cr_rule_bool(r, 3))
        return CR_FAIL(CR_ERUNTIME, "%s: without running statistics those of the batch are needed; pass training=True",
                       r->op->schema.name);
    return batch_norm(r, false, true);
}
cr_status shape_batch_norm_no_training(cr_rule *r) { return batch_norm(r, true, false); }
cr_status shape_batch_norm_functional(cr_rule *r) {
    CR_TRY(batch_norm(r, true, cr_rule_bool(r, 5)));
    for (int param = 3; param < 5; param++) {
        const cr_meta *p = cr_rule_meta(r, param);
        CR_TRY(cr_rule_add_dense(r, p->dtype, 1, p->size));
    }
    return CR_OK;
}

/* grad_out, input, weight, running_mean, running_var, save_mean, save_invstd, train, eps, output_mask. Of the two pairs
 * of statistics the one that is used must be there. */
cr_status shape_batch_norm_backward(cr_rule *r) {
    const cr_meta *x = cr_rule_meta(r, 1), *weight = cr_rule_meta(r, 2);
    int used = cr_rule_bool(r, 7) ? 5 : 3, kind = weight ? weight->dtype : x->dtype;
    CR_TRY(cr_rule_require_rank(r, 1, 2, CR_MAX_RANK));
    CR_TRY(cr_rule_require_sizes(r, 0, x->rank, x->size));
    CR_TRY(require_channels(r, 2, x->size[1]));
    for (int i = used; i < used + 2; i++) {
        if (!cr_rule_meta(r, i))
            return CR_FAIL(CR_ERUNTIME, "%s: argument '%s' is missing; with train=%s it is needed", r->op->schema.name,
                           r->op->schema.params[i].name, used == 5 ? "True" : "False");
        CR_TRY(require_channels(r, i, x->size[1]));
    }
    CR_TRY(cr__rule_add_format(r, x, x->rank, x->size));
    for (int i = 0; i < 2; i++) CR_TRY(cr_rule_add_dense(r, kind, 1, &x->size[1]));
    for (int i = 0; i < 3; i++) r->out[i].none = !r->arg[9].u.list[i].u.i;
    return CR_OK;
}

/* ---- weights as lengths and directions ---- */

static cr_status weight_norm(cr_rule *r, int first, int dim) { /* v, g, ... */
    const cr_meta *v = cr_rule_meta(r, first), *g = cr_rule_meta(r, first + 1);
    int64_t d = r->arg[dim].u.i;
    if (!rt_is_float(v->dtype))
        return CR_FAIL(CR_ENOTIMPL, "%s: not implemented for '%s'; convert with .to(dtype) first", r->op->schema.name,
                       cr_dtype_aten(v->dtype));
    if (g->dtype != v->dtype)
        return CR_FAIL(CR_ERUNTIME, "%s: the lengths must have the weight's dtype %s, got %s", r->op->schema.name,
                       cr_dtype_aten(v->dtype), cr_dtype_aten(g->dtype));
    if (!v->rank || (d != 0 && d != v->rank - 1))
        return CR_FAIL(CR_ERUNTIME, "%s: dim must be the first or the last (0 or %d), got %lld", r->op->schema.name,
                       v->rank ? v->rank - 1 : 0, (long long)d);
    r->common = r->result = v->dtype;
    return cr_dim_require(r->env, cr_meta_numel(r->env, g), CR_EQ, v->size[d],
                          "weight_norm: there must be a length for each slice of the weight");
}
cr_status check_weight_norm(cr_rule *r) { return weight_norm(r, 0, 2); }                    /* v, g, dim */
/* grad_w, saved_v, saved_g, saved_norms, dim */
cr_status check_weight_norm_backward(cr_rule *r) { return weight_norm(r, 1, 4); }

cr_status shape_weight_norm(cr_rule *r) { /* v, g, dim -> the weight, and its slices' lengths */
    const cr_meta *v = cr_rule_meta(r, 0), *g = cr_rule_meta(r, 1);
    CR_TRY(cr_rule_add_dense(r, v->dtype, v->rank, v->size));
    return cr_rule_add_dense(r, rt_itemsize(v->dtype) < 4 ? CR_F32 : v->dtype, g->rank, g->size);
}

cr_status shape_weight_norm_backward(cr_rule *r) { /* grad_w, saved_v, saved_g, saved_norms, dim */
    const cr_meta *v = cr_rule_meta(r, 1), *g = cr_rule_meta(r, 2);
    CR_TRY(cr_rule_require_sizes(r, 0, v->rank, v->size));
    CR_TRY(cr_dim_require(r->env, cr_meta_numel(r->env, cr_rule_meta(r, 3)), CR_EQ, cr_meta_numel(r->env, g),
                          "weight_norm: there must be a norm for each length"));
    CR_TRY(cr_rule_add_dense(r, v->dtype, v->rank, v->size));
    return cr_rule_add_dense(r, g->dtype, g->rank, g->size);
}

/* ---- gated linear units ---- */

static cr_status halved(cr_rule *r, const cr_meta *m, int dim_at, int *dim) {
    if (!m->rank) return CR_FAIL(CR_ERUNTIME, "%s: a tensor without dimensions cannot be halved", r->op->schema.name);
    CR_TRY(cr_wrap_dim(r->arg[dim_at].u.i, m->rank, dim));
    if (!rt_is_float(m->dtype))
        return CR_FAIL(CR_ENOTIMPL, "%s: not implemented for '%s'; convert with .to(dtype) first", r->op->schema.name,
                       cr_dtype_aten(m->dtype));
    r->common = r->result = m->dtype;
    return cr_dim_require(r->env, cr_dim_mod(r->env, m->size[*dim], 2), CR_EQ, 0,
                          "glu: the dimension to halve must have an even size");
}
cr_status check_glu(cr_rule *r) { /* self, dim */
    int dim;
    return halved(r, cr_rule_meta(r, 0), 1, &dim);
}
cr_status check_glu_backward(cr_rule *r) { /* grad_output, self, dim */
    const cr_meta *g = cr_rule_meta(r, 0), *m = cr_rule_meta(r, 1);
    int dim = 0;
    CR_TRY(halved(r, m, 2, &dim));
    if (g->dtype != m->dtype)
        return CR_FAIL(CR_ERUNTIME, "glu_backward: the gradient must have dtype %s, got %s", cr_dtype_aten(m->dtype),
                       cr_dtype_aten(g->dtype));
    if (g->rank != m->rank)
        return CR_FAIL(CR_ERUNTIME, "glu_backward: the gradient must have %d dimensions, got %d", m->rank, g->rank);
    for (int d = 0; d < m->rank; d++)
        CR_TRY(cr_dim_require(r->env, g->size[d], CR_EQ, d == dim ? cr_dim_floordiv(r->env, m->size[d], 2) : m->size[d],
                              "glu_backward: the gradient must have the sizes of the result"));
    return CR_OK;
}
