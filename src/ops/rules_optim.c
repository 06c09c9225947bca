/* rules_optim.c: what the fused steps of optimizers take: lists of equal length, in which the tensors at one place
 * belong to one parameter. They have no results, so that a rule only checks. */
#include "ops/rules.h"

#include <stdio.h>

static bool is_named(const cr_rule *r, int i, const char *name) { return !strcmp(r->op->schema.params[i].name, name); }

/* Lists that an option leaves empty. */
static bool may_be_empty(const cr_rule *r, int i) {
    return is_named(r, i, "momentum_buffer_list") || (is_named(r, i, "max_exp_avg_sqs") &&
                                                      !cr_rule_bool(r, cr__rule_param(r, "amsgrad")));
}

static cr_status require_one_element(const cr_rule *r, const char *what, const cr_meta *m) {
    bool real = cr_dtype_is_floating(m->dtype);
    if (real && cr_dim_known(r->env, cr_meta_numel(r->env, m), CR_EQ, 1) == CR_YES) return CR_OK;
    return CR_FAIL(CR_ERUNTIME, "%s: %s must be floating point tensors of one element each", r->op->schema.name, what);
}

static cr_status require_writable(const cr_rule *r, const char *list, uint32_t k, const cr_arg *a) {
    const cr_meta *m = cr_arg_meta(a);
    if (cr_meta_self_overlap(m) == CR_YES)
        return CR_FAIL(CR_ERUNTIME,
                       "%s: more than one element of %s[%u] refers to a single memory location (an expanded tensor?); "
                       ".clone() it before writing",
                       r->op->schema.name, list, k);
    if (a->kind == CR_ARG_TENSOR && a->u.t->storage && a->u.t->storage->readonly)
        return CR_FAIL(CR_ERUNTIME, "%s: %s[%u] is read-only memory; .clone() it first", r->op->schema.name, list, k);
    return CR_OK;
}

/* The tensor at place k of a list is of the parameter's dtype and sizes. */
static cr_status require_alike(const cr_rule *r, const char *list, uint32_t k, const cr_meta *m, const cr_meta *p) {
    if (m->dtype != p->dtype)
        return CR_FAIL(CR_ERUNTIME, "%s: %s[%u] is %s, but the parameter is %s", r->op->schema.name, list, k,
                       cr_dtype_name(m->dtype), cr_dtype_name(p->dtype));
    bool same = m->rank == p->rank;
    char what[160];
    snprintf(what, sizeof what, "%s: %s[%u] must have the parameter's sizes", r->op->schema.name, list, k);
    for (int d = 0; same && d < p->rank; d++) {
        same = cr_dim_known(r->env, m->size[d], CR_EQ, p->size[d]) != CR_NO;
        if (same) CR_TRY(cr_dim_require(r->env, m->size[d], CR_EQ, p->size[d], what));
    }
    return same ? CR_OK : CR_FAIL(CR_ERUNTIME, "%s", what);
}

static cr_status require_list(cr_rule *r, int i, bool writes) {
    const cr_arg *list = &r->arg[i], *params = &r->arg[0];
    const char *name = r->op->schema.params[i].name;
    if (!list->n && may_be_empty(r, i)) return CR_OK;
    if (list->n != params->n)
        return CR_FAIL(CR_ERUNTIME, "%s: %s has %u tensors, but there are %u parameters", r->op->schema.name, name,
                       list->n, params->n);
    for (uint32_t k = 0; k < list->n; k++) {
        const cr_meta *m = cr_arg_meta(&list->u.list[k]), *p = cr_arg_meta(&params->u.list[k]);
        if (is_named(r, i, "state_steps")) {
            CR_TRY(require_one_element(r, name, m));
            continue;
        }
        CR_TRY(require_alike(r, name, k, m, p));
        if (p->dtype != CR_F32 && p->dtype != CR_F64 && p->dtype != CR_F16 && p->dtype != CR_BF16)
            return CR_FAIL(CR_ENOTIMPL, "\"%s\" not implemented for '%s': the parameters must be floating point",
                           r->op->schema.name, cr_dtype_aten(p->dtype));
        if (writes) CR_TRY(require_writable(r, name, k, &list->u.list[k]));
    }
    return CR_OK;
}

cr_status shape_fused_optimizer(cr_rule *r) {
    const cr_schema *s = &r->op->schema;
    bool scaled = cr_rule_has(r, cr__rule_param(r, "grad_scale")); /* then gradients are divided by it where they are */
    for (int i = 0; i < s->nparams; i++) {
        if (s->params[i].list) CR_TRY(require_list(r, i, !is_named(r, i, "grads") || scaled));
        else if (s->params[i].type == CR_T_TENSOR && cr_rule_has(r, i))
            CR_TRY(require_one_element(r, s->params[i].name, cr_rule_meta(r, i)));
    }
    return CR_OK;
}
