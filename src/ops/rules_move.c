/* rules_move.c: results of joins, flips, repeats, padding and triangles. */
#include "ops/rules.h"

#include <stdio.h>

cr_status cr__rule_add_format(cr_rule *r, const cr_meta *like, int rank, const cr_dim *size) {
    cr_out *out = cr_rule_add(r);
    if (!out) return CR_ENOMEM;
    cr_memory_format format = cr_meta_suggest_format(r->env, like);
    if ((format == CR_CHANNELS_LAST && rank != 4) || (format == CR_CHANNELS_LAST_3D && rank != 5))
        format = CR_CONTIGUOUS;
    return cr_meta_set_dense(r->env, &out->meta, rank, size, format);
}

/* ---- cat ---- */

static bool skipped(cr_env *env, const cr_meta *m) {
    return m->rank == 1 && cr_dim_known(env, m->size[0], CR_EQ, 0) == CR_YES;
}

cr_status dtype_cat(cr_rule *r) {
    cr_promotion p = CR_PROMOTION_INIT;
    const cr_arg *list = &r->arg[0];
    if (!list->n) return CR_FAIL(CR_EVALUE, "%s: expected a non-empty list of tensors", r->op->schema.name);
    for (uint32_t i = 0; i < list->n; i++) CR_TRY(cr_promotion_add(&p, cr_arg_meta(&list->u.list[i])));
    CR_TRY(cr_promotion_result(&p, &r->result));
    r->common = r->result;
    return CR_OK;
}

cr_status shape_cat(cr_rule *r) {
    const cr_arg *list = &r->arg[0];
    const cr_meta *first = NULL;
    cr_memory_format format = CR_CONTIGUOUS;
    cr_dim size[CR_MAX_RANK], total = 0;
    int dim = 0;
    for (uint32_t i = 0; i < list->n; i++) {
        const cr_meta *m = cr_arg_meta(&list->u.list[i]);
        if (!m->rank)
            return CR_FAIL(CR_ERUNTIME, "%s: tensor %u is 0-d and cannot be joined; .reshape(1) it", r->op->schema.name,
                           i);
        cr_memory_format own = cr_meta_suggest_format(r->env, m);
        if (!i) format = own;
        else if (own != format) format = CR_CONTIGUOUS;
        if (skipped(r->env, m)) continue;
        if (!first) {
            first = m;
            memcpy(size, m->size, m->rank * sizeof *size);
            CR_TRY(cr_wrap_dim(cr_rule_int(r, 1), m->rank, &dim));
        }
        if (m->rank != first->rank)
            return CR_FAIL(CR_ERUNTIME,
                           "%s: tensors must have the same number of dimensions; tensor 0 has %d, tensor %u has %d",
                           r->op->schema.name, first->rank, i, m->rank);
        for (int d = 0; d < m->rank; d++) {
            if (d == dim) continue;
            char what[128];
            snprintf(what, sizeof what, "%s: sizes must match except in dimension %d (tensor %u, dimension %d)",
                     r->op->schema.name, dim, i, d);
            CR_TRY(cr_dim_require(r->env, m->size[d], CR_EQ, size[d], what));
        }
        total = cr_dim_add(r->env, total, m->size[dim]);
    }
    cr_out *out = cr_rule_add(r);
    if (!out) return CR_ENOMEM;
    out->meta.device = cr_arg_meta(&list->u.list[0])->device;
    if (!first) {
        CR_TRY(cr_wrap_dim(cr_rule_int(r, 1), 1, &dim));
        return cr_meta_set_dense(r->env, &out->meta, 1, (cr_dim[]){ 0 }, CR_CONTIGUOUS);
    }
    size[dim] = total;
    if ((format == CR_CHANNELS_LAST && first->rank != 4) || (format == CR_CHANNELS_LAST_3D && first->rank != 5))
        format = CR_CONTIGUOUS;
    return cr_meta_set_dense(r->env, &out->meta, first->rank, size, format);
}

/* ---- flip, roll, repeat, triangles ---- */

cr_status shape_flip(cr_rule *r) {
    uint32_t mask;
    const cr_meta *m = cr_rule_meta(r, 0);
    if (r->arg[1].n) CR_TRY(cr_rule_dims(r, 1, m->rank, false, &mask));
    return shape_like(r);
}

cr_status shape_roll(cr_rule *r) { /* self, shifts, dims */
    const cr_meta *m = cr_rule_meta(r, 0);
    if (!r->arg[1].n) return CR_FAIL(CR_ERUNTIME, "%s: shifts must not be empty", r->op->schema.name);
    if (r->arg[1].n != r->arg[2].n)
        return CR_FAIL(CR_ERUNTIME, "%s: shifts and dims must have equally many entries, got %u and %u",
                       r->op->schema.name, r->arg[1].n, r->arg[2].n);
    bool stays = false; /* PyTorch joins two parts; where one is empty, they do not agree on channels last */
    for (uint32_t i = 0; i < r->arg[2].n; i++) {
        int dim = 0;
        CR_TRY(cr_wrap_dim(r->arg[2].u.list[i].u.i, m->rank, &dim));
        cr_dim size = m->size[dim];
        if (cr_dim_known(r->env, size, CR_GT, 0) != CR_YES) continue;
        cr_dim by = cr_dim_mod(r->env, r->arg[1].u.list[i].u.i, size);
        stays = stays || cr_dim_known(r->env, by, CR_EQ, 0) == CR_YES;
    }
    if (stays) return cr_rule_add_dense(r, r->result, m->rank, m->size);
    return cr__rule_add_format(r, m, m->rank, m->size);
}

cr_status shape_repeat(cr_rule *r) {
    const cr_meta *m = cr_rule_meta(r, 0);
    cr_dim times[CR_MAX_RANK], size[CR_MAX_RANK];
    int n;
    CR_TRY(cr_rule_ints(r, 1, 0, CR_MAX_RANK, times, &n));
    if (n < m->rank)
        return CR_FAIL(CR_ERUNTIME,
                       "%s: repeats must have at least one entry a dimension: the tensor has %d, repeats %d",
                       r->op->schema.name, m->rank, n);
    for (int d = 0; d < n; d++) {
        CR_TRY(cr_dim_require(r->env, times[d], CR_GE, 0, "repeat: counts must not be negative"));
        size[d] = cr_dim_mul(r->env, times[d], d < n - m->rank ? 1 : m->size[d - (n - m->rank)]);
    }
    return cr_rule_add_dense(r, r->result, n, size);
}

cr_status shape_triangle(cr_rule *r) {
    const cr_meta *m = cr_rule_meta(r, 0);
    if (m->rank < 2)
        return CR_FAIL(CR_ERUNTIME, "%s: the input must have at least two dimensions, not %d", r->op->schema.name,
                       m->rank);
    return cr_rule_add_dense(r, r->result, m->rank, m->size);
}

/* ---- padding ---- */

cr_status shape_constant_pad(cr_rule *r) { /* self, pad, value */
    const cr_meta *m = cr_rule_meta(r, 0);
    cr_dim pad[2 * CR_MAX_RANK], size[CR_MAX_RANK];
    int n;
    CR_TRY(cr_rule_ints(r, 1, 0, 2 * CR_MAX_RANK, pad, &n));
    if (n % 2 || n / 2 > m->rank)
        return CR_FAIL(CR_ERUNTIME,
                       "%s: pad must have an even number of entries, at most two a dimension; got %d for %d dimensions",
                       r->op->schema.name, n, m->rank);
    if (!n) return shape_like(r);
    memcpy(size, m->size, m->rank * sizeof *size);
    for (int i = 0; i < n / 2; i++) {
        cr_dim *s = &size[m->rank - 1 - i];
        *s = cr_dim_add(r->env, cr_dim_add(r->env, *s, pad[2 * i]), pad[2 * i + 1]);
        CR_TRY(cr_dim_require(r->env, *s, CR_GE, 0, "constant_pad_nd: the padded size must not be negative"));
    }
    if (r->arg[2].kind == CR_ARG_COMPLEX && !cr_dtype_is_complex(r->result))
        return CR_FAIL(CR_ERUNTIME, "%s: a real tensor cannot be padded with a complex number", r->op->schema.name);
    return cr__rule_add_format(r, m, m->rank, size);
}

/* reflection and replication: 1-3 spatial dimensions after an optional batch and the channel. */
static cr_status spatial_pad(cr_rule *r, const cr_meta *m, int param, bool reflect, cr_dim *size) {
    cr_dim pad[6];
    int want = r->op->schema.params[param].list_size, spatial = want / 2;
    CR_TRY(cr_rule_exact_ints(r, param, want, pad));
    if (m->rank != spatial + 1 && m->rank != spatial + 2)
        return CR_FAIL(CR_ERUNTIME, "%s: expected an input of %d or %d dimensions, got %d", r->op->schema.name,
                       spatial + 1, spatial + 2, m->rank);
    memcpy(size, m->size, m->rank * sizeof *size);
    for (int d = m->rank == spatial + 2 ? 1 : 0; d < m->rank; d++) {
        bool empty;
        CR_TRY(cr_dim_assume(r->env, m->size[d], CR_EQ, 0, false, &empty));
        if (empty)
            return CR_FAIL(CR_ERUNTIME, "%s: every dimension but the batch must have elements", r->op->schema.name);
    }
    for (int i = 0; i < spatial; i++) {
        cr_dim *s = &size[m->rank - 1 - i];
        for (int k = 0; reflect && k < 2; k++)
            CR_TRY(cr_dim_require(r->env, pad[2 * i + k], CR_LT, *s,
                                  "reflection_pad: the padding must be smaller than the input"));
        *s = cr_dim_add(r->env, cr_dim_add(r->env, *s, pad[2 * i]), pad[2 * i + 1]);
        CR_TRY(cr_dim_require(r->env, *s, CR_GE, 1, "the padded size must be positive"));
    }
    return CR_OK;
}

static cr_status pad_result(cr_rule *r, bool reflect) {
    const cr_meta *m = cr_rule_meta(r, 0);
    cr_dim size[CR_MAX_RANK];
    CR_TRY(spatial_pad(r, m, 1, reflect, size));
    return cr__rule_add_format(r, m, m->rank, size);
}
cr_status shape_reflection_pad(cr_rule *r) { return pad_result(r, true); }
cr_status shape_replication_pad(cr_rule *r) { return pad_result(r, false); }

static cr_status pad_backward(cr_rule *r, bool reflect) { /* grad_output, self, padding */
    const cr_meta *grad = cr_rule_meta(r, 0), *m = cr_rule_meta(r, 1);
    cr_dim size[CR_MAX_RANK];
    CR_TRY(spatial_pad(r, m, 2, reflect, size));
    if (grad->rank != m->rank)
        return CR_FAIL(CR_ERUNTIME, "%s: grad_output has %d dimensions, self %d", r->op->schema.name, grad->rank,
                       m->rank);
    for (int d = 0; d < m->rank; d++)
        CR_TRY(cr_dim_require(r->env, grad->size[d], CR_EQ, size[d], "grad_output must have the padded shape"));
    return cr__rule_add_format(r, m, m->rank, m->size);
}
cr_status shape_reflection_pad_backward(cr_rule *r) { return pad_backward(r, true); }
cr_status shape_replication_pad_backward(cr_rule *r) { return pad_backward(r, false); }

/* circular: the last n/2 dimensions wrap around, each at most once. */
static cr_status circular_sizes(cr_rule *r, const cr_meta *m, int param, cr_dim *size) {
    cr_dim pad[2 * CR_MAX_RANK];
    int n;
    CR_TRY(cr_rule_ints(r, param, 0, 2 * CR_MAX_RANK, pad, &n));
    if (n % 2 || (m->rank != n / 2 + 2 && m->rank != n / 2 + 1))
        return CR_FAIL(CR_ERUNTIME, "%s: circular padding of %d entries needs an input of %d or %d dimensions, got %d",
                       r->op->schema.name, n, n / 2 + 1, n / 2 + 2, m->rank);
    memcpy(size, m->size, m->rank * sizeof *size);
    for (int i = 0; i < n / 2; i++) {
        cr_dim *s = &size[m->rank - 1 - i];
        for (int k = 0; k < 2; k++)
            CR_TRY(cr_dim_require(r->env, pad[2 * i + k], CR_LE, *s,
                                  "circular padding must not wrap around more than once"));
        *s = cr_dim_add(r->env, cr_dim_add(r->env, *s, pad[2 * i]), pad[2 * i + 1]);
        CR_TRY(cr_dim_require(r->env, *s, CR_GE, 0, "negative padding must leave something"));
    }
    return CR_OK;
}

cr_status shape_circular_pad(cr_rule *r) {
    const cr_meta *m = cr_rule_meta(r, 0);
    cr_dim size[CR_MAX_RANK];
    CR_TRY(circular_sizes(r, m, 1, size));
    return cr_rule_add_dense(r, r->result, m->rank, size);
}

cr_status shape_circular_pad_backward(cr_rule *r) {
    const cr_meta *m = cr_rule_meta(r, 1);
    cr_dim size[CR_MAX_RANK];
    CR_TRY(circular_sizes(r, m, 2, size));
    CR_TRY(cr_rule_require_sizes(r, 0, m->rank, size));
    return cr_rule_add_dense(r, r->result, m->rank, m->size);
}
