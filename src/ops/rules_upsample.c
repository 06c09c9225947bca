/* rules_upsample.c: results of resampling, and the forms that take factors instead of sizes. */
#include "ops/rules.h"

#include <stdio.h>

static cr_status require_image(cr_rule *r, const cr_meta *m, int spatial) {
    if (m->rank != spatial + 2)
        return CR_FAIL(CR_ERUNTIME, "%s: expected a tensor of %d dimensions (batch, channels, %d more), got %d",
                       r->op->schema.name, spatial + 2, spatial, m->rank);
    for (int d = 1; d < m->rank; d++)
        CR_TRY(cr_dim_require(r->env, m->size[d], CR_GT, 0, "resampling: all sizes but the batch must be positive"));
    return CR_OK;
}

static cr_status output_sizes(cr_rule *r, int spatial, cr_dim *size) {
    int n;
    CR_TRY(cr_rule_ints(r, 1, 0, CR_MAX_RANK, size, &n));
    if (n != spatial)
        return CR_FAIL(CR_ERUNTIME, "%s: output_size must have %d entries, it has %d", r->op->schema.name, spatial, n);
    for (int d = 0; d < n; d++)
        CR_TRY(cr_dim_require(r->env, size[d], CR_GT, 0, "resampling: output sizes must be positive"));
    return CR_OK;
}

cr_status shape_upsample(cr_rule *r) { /* self, output_size, ... */
    const cr_meta *m = cr_rule_meta(r, 0);
    int spatial = r->op->schema.params[1].list_size;
    cr_dim size[CR_MAX_RANK];
    CR_TRY(output_sizes(r, spatial, size + 2));
    CR_TRY(require_image(r, m, spatial));
    size[0] = m->size[0];
    size[1] = m->size[1];
    return cr__rule_add_format(r, m, m->rank, size);
}

cr_status shape_upsample_backward(cr_rule *r) { /* grad_output, output_size, input_size, ... */
    const cr_meta *g = cr_rule_meta(r, 0);
    int spatial = r->op->schema.params[1].list_size, n;
    cr_dim size[CR_MAX_RANK], output[CR_MAX_RANK];
    CR_TRY(output_sizes(r, spatial, output + 2));
    CR_TRY(cr_rule_ints(r, 2, 0, CR_MAX_RANK, size, &n));
    if (n != spatial + 2)
        return CR_FAIL(CR_ERUNTIME, "%s: input_size must have %d entries, it has %d", r->op->schema.name, spatial + 2,
                       n);
    if (g->rank != n)
        return CR_FAIL(CR_ERUNTIME, "%s: grad_output must have %d dimensions, it has %d", r->op->schema.name, n,
                       g->rank);
    output[0] = size[0];
    output[1] = size[1];
    for (int d = 0; d < n; d++) {
        CR_TRY(cr_dim_require(r->env, g->size[d], CR_EQ, output[d],
                              "resampling: grad_output must have the sizes of the result"));
        if (d) CR_TRY(cr_dim_require(r->env, size[d], CR_GT, 0, "resampling: input sizes must be positive"));
    }
    /* whatever grad_output's format */
    bool dense = spatial == 3 ? strstr(r->op->schema.name, "nearest") : strstr(r->op->schema.name, "bicubic");
    return dense ? cr_rule_add_dense(r, r->result, n, size) : cr__rule_add_format(r, g, n, size);
}

/* size * factor, cut to an integer. */
static cr_dim scaled(cr_env *env, cr_dim size, double factor) {
    if (cr_dim_is_plain(size)) return (cr_dim)((double)size * factor);
    if (factor == (double)(int64_t)factor) return cr_dim_mul(env, size, (cr_dim)factor);
    cr_sym wide = cr_sym_make(env, CR_SYM_TOFLOAT, cr_dim_sym(env, size), NULL, NULL);
    return cr_dim_of(env, cr_sym_make(env, CR_SYM_TRUNC,
                                      cr_sym_make(env, CR_SYM_MUL, wide, cr_sym_float(env, factor), NULL), NULL, NULL));
}

/* input, output_size, [align_corners,] scale_factors */
cr_status expand_upsample_vec(cr_emitter *e, const cr_op *op, const cr_arg *args, cr_arg *results) {
    bool aligned = op->schema.nparams == 4;
    const cr_arg *output = &args[1], *factors = &args[aligned ? 3 : 2];
    char name[128];
    snprintf(name, sizeof name, "aten::%s", op->schema.name);
    const cr_op *plain = cr_op_find(name);
    const cr_meta *m = NULL;
    if (!plain) return CR_FAIL(CR_ENOTFOUND, "there is no op '%s'", name);
    CR_TRY(e->meta(e, &args[0], &m));
    int spatial = plain->schema.params[1].list_size, at = aligned ? 3 : 2;
    if ((output->kind == CR_ARG_NONE) == (factors->kind == CR_ARG_NONE))
        return CR_FAIL(CR_ERUNTIME, "%s: give exactly one of output_size and scale_factors", op->schema.name);
    const cr_arg *given = output->kind == CR_ARG_NONE ? factors : output;
    if (m->rank != spatial + 2 || given->n != (uint32_t)spatial)
        return CR_FAIL(CR_ERUNTIME, "%s: expected a tensor of %d dimensions and %d sizes or factors, got %d and %u",
                       op->schema.name, spatial + 2, spatial, m->rank, given->n);
    cr_arg items[3], call[CR_MAX_PARAMS];
    call[0] = args[0];
    call[1] = *output;
    if (aligned) call[2] = args[2];
    for (int i = 0; i < spatial; i++) {
        call[at + i] = cr_arg_none();
        if (given != factors) continue;
        const cr_arg *f = &factors->u.list[i];
        double factor = f->kind == CR_ARG_FLOAT ? f->u.f : (double)f->u.i;
        items[i] = cr_arg_int(scaled(e->env, m->size[2 + i], factor));
        call[at + i] = cr_arg_float(factor);
    }
    if (given == factors) call[1] = cr_arg_list(items, (size_t)spatial);
    return e->call(e, plain, call, results);
}
