/* formula_grad.c: derivatives from .grad texts, and what they save.
 *
 * What every derivative needs is done here, once: clauses of one target add up; each value is summed (or expanded) to
 * its argument's shape, made real for a real argument and cast to its dtype; undefined gradients drop out. The saved
 * set comes from the same walk with nothing emitted, so it cannot drift from what an expansion reads. */
#include "ops/formula_eval.h"

static bool differentiable(const cr_meta *m) {
    return m && (cr_dtype_is_floating(m->dtype) || cr_dtype_is_complex(m->dtype));
}

static cr_status emit_sizes(fx *x, const cr_fnode *node, const char *name, const cr_meta *to, fval *v) {
    cr_arg *size = cr__fx_list(x, to->rank);
    if (!size) return CR_ENOMEM;
    for (int i = 0; i < to->rank; i++) size[i] = cr_arg_int(to->size[i]);
    fval args[2] = { *v, cr__fval(cr_arg_list(size, to->rank)) };
    return cr__fx_call_name(x, node, name, args, 2, v);
}

/* How the gradient's sizes compare with the argument's, dim by dim from the right. */
static cr_status compare_sizes(fx *x, const cr_fnode *node, const cr_meta *from, const cr_meta *to, uint32_t *summed,
                               bool *expand) {
    cr_env *env = x->e->env;
    int lead = from->rank - to->rank;
    *summed = lead > 0 ? (1u << lead) - 1 : 0;
    *expand = lead < 0;
    for (int i = 0; i < to->rank; i++) {
        int k = i + lead;
        if (k < 0) continue;
        cr_dim have = from->size[k], want = to->size[i];
        bool same, one;
        if (cr_dim_known(env, have, CR_EQ, want) == CR_YES) continue;
        if (cr_dim_known(env, want, CR_EQ, 1) == CR_YES) {
            *summed |= 1u << k;
            continue;
        }
        if (cr_dim_known(env, have, CR_EQ, 1) == CR_YES) {
            *expand = true;
            continue;
        }
        CR_TRY(cr_dim_decide(env, have, CR_EQ, want, &same));
        if (same) continue;
        CR_TRY(cr_dim_decide(env, want, CR_EQ, 1, &one));
        if (one) {
            *summed |= 1u << k;
            continue;
        }
        CR_TRY(cr_dim_decide(env, have, CR_EQ, 1, &one));
        if (!one) {
            cr_str a, b;
            cr_str_init(&a);
            cr_str_init(&b);
            cr_shape_print(env, from->rank, from->size, &a);
            cr_shape_print(env, to->rank, to->size, &b);
            cr_status status = cr__fx_fail(x, node, CR_ERUNTIME,
                                           "a gradient of shape %s does not fit the argument's %s", cr_str_get(&a),
                                           cr_str_get(&b));
            cr_str_dispose(&a);
            cr_str_dispose(&b);
            return status;
        }
        *expand = true;
    }
    return CR_OK;
}

static bool fits_already(const cr_meta *from, const cr_meta *to) {
    return from->dtype == to->dtype && from->rank == to->rank &&
           !memcmp(from->size, to->size, (size_t)to->rank * sizeof *to->size);
}

/* Sums, makes real, casts and expands so that *v has the argument's shape and dtype. */
static cr_status fit(fx *x, const cr_fnode *node, const cr_meta *argument, fval *v) {
    cr_meta to;
    const cr_meta *from;
    CR_TRY(cr__fx_meta(x, v, &from));
    if (!from) return cr__fx_fail(x, node, CR_EFORMAT, "a derivative must be a tensor");
    if (fits_already(from, argument)) return CR_OK;
    cr_meta_copy(&to, argument); /* emitting may move the emitter's metas */
    uint32_t summed;
    bool expand, complex = cr_dtype_is_complex(from->dtype);
    int dtype = from->dtype, rank = from->rank;
    CR_TRY(compare_sizes(x, node, from, &to, &summed, &expand));
    if (summed) {
        cr_arg *dims = cr__fx_list(x, CR_MAX_RANK);
        size_t n = 0;
        if (!dims) return CR_ENOMEM;
        for (int d = 0; d < rank; d++)
            if (summed >> d & 1) dims[n++] = cr_arg_int(d);
        /* only leading dims: no view afterwards */
        bool drop = rank > to.rank && summed == (1u << (rank - to.rank)) - 1;
        fval args[3] = { *v, cr__fval(cr_arg_list(dims, n)), cr__fval(cr_arg_bool(!drop)) };
        CR_TRY(cr__fx_call_name(x, node, "aten::sum.dim_IntList", args, 3, v));
        if (rank > to.rank && !drop) CR_TRY(emit_sizes(x, node, "aten::view", &to, v));
    }
    if (complex && !cr_dtype_is_complex(to.dtype)) {
        CR_TRY(cr__fx_call_name(x, node, "aten::real", v, 1, v));
        dtype = cr_dtype_to_real(dtype);
    }
    if (dtype != to.dtype) {
        const cr_op *op = cr_op_find("aten::_to_copy");
        cr_keyword keyword = { "dtype", cr_arg_dtype(to.dtype) };
        if (!op) return cr__fx_fail(x, node, CR_ENOTFOUND, "there is no op 'aten::_to_copy'");
        CR_TRY(cr__fx_call(x, node, op, true, v, 1, &keyword, 1, v));
    }
    return expand ? emit_sizes(x, node, "aten::expand", &to, v) : CR_OK;
}

typedef struct gradients {
    cr_arg sum[CR_MAX_PARAMS];  /* per parameter; LISTs in the arena for Tensor[] */
    bool wanted[CR_MAX_PARAMS]; /* per parameter: needed, and something with a floating dtype */
    bool zero[CR_MAX_PARAMS];   /* per parameter: a clause said `zero` */
} gradients;

/* Adds one clause's value to the gradient of `argument`. */
static cr_status add_one(fx *x, const cr_fnode *node, const cr_arg *argument, fval v, cr_arg *sum) {
    const cr_meta *m;
    fval as_value = cr__fval(*argument);
    if (!v.opaque && v.a.kind == CR_ARG_NONE) return CR_OK;
    CR_TRY(cr__fx_meta(x, &as_value, &m));
    if (!differentiable(m)) return CR_OK;
    cr__fx_note(x, &v, true);
    if (x->saved) return CR_OK;
    if (cr__fval_is_number(&v)) { /* a constant: as a tensor of the argument's shape */
        fval pair[2];
        CR_TRY(cr__fx_zeros(x, node, m, &pair[0]));
        pair[1] = v;
        CR_TRY(cr__fx_call_name(x, node, "aten::add.Tensor", pair, 2, &v));
    }
    CR_TRY(fit(x, node, m, &v));
    if (sum->kind != CR_ARG_NONE) {
        fval pair[2] = { cr__fval(*sum), v };
        CR_TRY(cr__fx_call_name(x, node, "aten::add.Tensor", pair, 2, &v));
    }
    *sum = v.a;
    return CR_OK;
}

static cr_status add_to(fx *x, const cr_fnode *node, int p, fval v, gradients *g) {
    const cr_arg *argument = &x->args[p];
    if (v.zero) {
        g->zero[p] = true;
        return CR_OK;
    }
    if (!v.opaque && v.a.kind == CR_ARG_NONE) return CR_OK;
    if (!x->op->schema.params[p].list) return add_one(x, node, argument, v, &g->sum[p]);
    if (v.opaque) return CR_OK;
    if (v.a.kind != CR_ARG_LIST || v.a.n != argument->n)
        return cr__fx_fail(x, node, CR_EFORMAT, "the derivative of '%s' must be a list of %u tensors",
                           x->op->schema.params[p].name, argument->n);
    cr_arg *items = (cr_arg *)g->sum[p].u.list; /* of our arena */
    for (uint32_t i = 0; i < argument->n; i++)
        CR_TRY(add_one(x, node, &argument->u.list[i], (fval){ .a = v.a.u.list[i], .space = v.space, .slot = v.slot },
                       &items[i]));
    return CR_OK;
}

static cr_status run_clause(fx *x, const cr_fstatement *clause, gradients *g) {
    const int8_t *targets = clause->targets;
    bool any = false;
    for (int i = 0; i < clause->nnames; i++) any |= g->wanted[targets[i]];
    if (!any) return CR_OK;
    x->clause = clause;
    for (int k = 0; k < clause->nvalues; k++) {
        const cr_fnode *node = clause->values[k];
        bool undefined, one_each = clause->nvalues == clause->nnames;
        fval v;
        if (one_each && !g->wanted[targets[k]]) continue;
        CR_TRY(cr__fx_undefined(x, node, &undefined));
        if (undefined) continue;
        CR_TRY(cr__fx_eval(x, node, &v));
        if (one_each) {
            CR_TRY(add_to(x, node, targets[k], v, g));
        } else {
            if (!v.opaque && (v.a.kind != CR_ARG_LIST || v.a.n != clause->nnames))
                return cr__fx_fail(x, node, CR_EFORMAT, "%d targets need a call with %d results", clause->nnames,
                                   clause->nnames);
            for (int i = 0; i < clause->nnames; i++)
                if (g->wanted[targets[i]])
                    CR_TRY(add_to(x, node, targets[i], v.opaque ? v : cr__fval(v.a.u.list[i]), g));
        }
    }
    x->clause = NULL;
    return CR_OK;
}

/* A gradient that outlives the expansion: handed over where the expansion owns it, else another reference. */
static cr_status hand_out(fx *x, const cr_arg *from, cr_arg *to) {
    for (size_t i = x->owned.n; from->kind == CR_ARG_TENSOR && i-- > 0;) {
        cr_arg *own = &x->owned.at[i];
        if (own->kind != CR_ARG_TENSOR || own->u.t != from->u.t) continue;
        *to = *own;
        *own = cr_arg_none();
        return CR_OK;
    }
    return cr__copy_out(from, to);
}

/* Fills what only `zero` was said about and hands everything out. */
static cr_status finish_gradients(fx *x, gradients *g, cr_arg *out) {
    const cr_schema *s = &x->op->schema;
    for (int p = 0; p < s->nparams; p++) {
        bool list = s->params[p].list;
        uint32_t n = list ? x->args[p].n : 1;
        cr_arg *sums = list ? (cr_arg *)g->sum[p].u.list : &g->sum[p];
        bool any = false;
        for (uint32_t i = 0; g->wanted[p] && i < n; i++) {
            fval argument = cr__fval(list ? x->args[p].u.list[i] : x->args[p]), zeros;
            const cr_meta *m;
            CR_TRY(cr__fx_meta(x, &argument, &m));
            if (sums[i].kind == CR_ARG_NONE && g->zero[p] && differentiable(m)) {
                CR_TRY(cr__fx_zeros(x, NULL, m, &zeros));
                sums[i] = zeros.a;
            }
            any |= sums[i].kind != CR_ARG_NONE;
        }
        if (!any) continue;
        cr_status status = hand_out(x, &g->sum[p], &out[p]);
        if (status) {
            cr_results_release(out, (size_t)p);
            return status;
        }
    }
    return CR_OK;
}

static cr_status find_wanted(fx *x, gradients *g, bool *any) {
    const cr_schema *s = &x->op->schema;
    *any = false;
    for (int p = 0; p < s->nparams; p++) {
        g->sum[p] = cr_arg_none();
        g->wanted[p] = g->zero[p] = false;
        if (!x->needs[p] || s->params[p].type != CR_T_TENSOR) continue;
        bool list = x->args[p].kind == CR_ARG_LIST;
        for (uint32_t i = 0; i < (list ? x->args[p].n : 1); i++) {
            fval v = cr__fval(list ? x->args[p].u.list[i] : x->args[p]);
            const cr_meta *m;
            CR_TRY(cr__fx_meta(x, &v, &m));
            g->wanted[p] |= differentiable(m);
        }
        if (g->wanted[p] && list) {
            cr_arg *items = cr__fx_list(x, x->args[p].n);
            if (!items) return CR_ENOMEM;
            g->sum[p] = cr_arg_list(items, x->args[p].n);
        }
        *any |= g->wanted[p];
    }
    return CR_OK;
}

static bool is_constant(const cr_formula *f, int result) { return f->constants >> result & 1; }

static bool node_uses(const cr_fnode *node, int result) {
    if (node->kind == CR_F_NAME) return node->space == CR_FSPACE_RESULT && node->slot == result;
    if (node->kind == CR_F_CALL && node->helper && node->helper->metas) return false;
    for (int i = 0; i < node->nkids; i++)
        if (node->kids[i] && node_uses(node->kids[i], result)) return true;
    return false;
}

static bool formula_uses_result(const cr_formula *f, int result) {
    for (int i = 0; i < f->n; i++)
        for (int k = 0; k < f->statements[i].nvalues; k++)
            if (node_uses(f->statements[i].values[k], result)) return true;
    return false;
}

/* Marks which gradients are given; those of constants are dropped. But when the formula itself computes with a constant
 * and a gradient comes back to it, then that is the derivative of the derivative, and dropping it would be wrong. */
static cr_status find_given(fx *x, const bool *given, bool *is, bool *any) {
    *any = false;
    bool all = true;
    for (int i = 0; i < x->op->schema.nreturns; i++) {
        is[i] = given ? given[i] : cr__fx_given(x, i);
        if (x->f && is_constant(x->f, i)) {
            if (is[i] && formula_uses_result(x->f, i))
                return CR_FAIL(CR_ENOTIMPL,
                               "%s treats its result%d as a constant, so it has no second derivative; its .grad must "
                               "handle grad%d",
                               x->op->name, i, i);
            is[i] = false;
        }
        *any |= is[i];
        all &= is[i];
    }
    x->given = is;
    x->some_undefined = !all;
    return CR_OK;
}

static cr_status run_grad_fn(fx *x, gradients *g) {
    const cr_schema *s = &x->op->schema;
    size_t n = 2u * (s->nparams + (size_t)s->nreturns);
    cr_arg *all = cr__fx_list(x, n), *made = cr__fx_list(x, s->nparams);
    if (!all || !made) return CR_ENOMEM;
    CR_TRY(cr__fx_reserve(x, s->nparams));
    memcpy(all, x->args, s->nparams * sizeof *all);
    if (x->results) memcpy(all + s->nparams, x->results, s->nreturns * sizeof *all);
    memcpy(all + s->nparams + s->nreturns, x->grads, s->nreturns * sizeof *all);
    for (int p = 0; p < s->nparams; p++) all[n - s->nparams + (size_t)p] = cr_arg_bool(g->wanted[p]);
    CR_TRY(x->op->row->grad_fn(x->e, x->op, all, made));
    memcpy(x->owned.at + x->owned.n, made, s->nparams * sizeof *made);
    x->owned.n += s->nparams;
    for (int p = 0; p < s->nparams; p++)
        if (g->wanted[p]) CR_TRY(add_to(x, NULL, p, cr__fval(made[p]), g));
    return CR_OK;
}

/* The shared part of cr_grad_expand and cr_formula_saved: everything over the functional op. */
static cr_status run_grad(fx *x, const cr_op_formulas *formulas, const bool *given, cr_arg *out) {
    bool is[CR__MAX_RESULTS], any_given, any_wanted;
    gradients g;
    if (x->op->schema.nreturns > CR__MAX_RESULTS)
        return CR_FAIL(CR_EUNSUPPORTED, "%s has more than %d results", x->op->name, CR__MAX_RESULTS);
    CR_TRY(find_given(x, given, is, &any_given));
    CR_TRY(find_wanted(x, &g, &any_wanted));
    if (!any_given || !any_wanted) return CR_OK;
    if (x->saved) {
        for (int p = 0; p < x->op->schema.nparams && p < 64; p++)
            if (g.wanted[p]) x->saved->arg_metas |= (uint64_t)1 << p;
        /* C code or a recomputed forward: anything */
        if (!formulas->has_grad) x->saved->args = x->saved->results = UINT64_MAX;
    }
    if (formulas->has_grad) {
        for (int i = 0; i < x->f->n; i++)
            if (x->f->statements[i].kind == CR_FS_CLAUSE) CR_TRY(run_clause(x, &x->f->statements[i], &g));
    } else if (x->saved) {
        return CR_OK;
    } else if (x->op->row->grad_fn) {
        CR_TRY(run_grad_fn(x, &g));
    } else if (formulas->has_decomp || x->op->row->decomp_fn) {
        return cr__reverse_decomp(x->e, x->op, x->args, x->grads, g.wanted, out);
    } else {
        return CR_FAIL(CR_ENOTIMPL, "%s has no derivative", x->op->name);
    }
    return x->saved ? CR_OK : finish_gradients(x, &g, out);
}

cr_status cr_grad_expand(cr_emitter *e, const cr_op *op, const cr_arg *args, const cr_arg *results, const cr_arg *grads,
                         const bool *needs, cr_arg *grad_out) {
    const cr_op *base = op->base;
    const cr_op_formulas *formulas;
    cr_arg local[CR_MAX_PARAMS], made[CR_MAX_PARAMS];
    bool local_needs[CR_MAX_PARAMS];
    CR_TRY(cr_op_formulas_get(base, &formulas));
    if (cr__expansion_depth >= CR__MAX_EXPANSION_DEPTH)
        return CR_FAIL(CR_ERUNTIME, "the derivative of %s does not end (it comes back to itself)", op->name);
    cr__functional_args(op, args, local);
    for (int i = 0; i < base->schema.nparams; i++) {
        int at = op == base || op->variant == CR_INPLACE ? i : cr__find_param(op, base->schema.params[i].name);
        local_needs[i] = at >= 0 && needs[at];
        made[i] = cr_arg_none();
    }
    cr__expansion_depth++;
    fx x;
    cr_status status = cr__fx_begin(&x, e, base, formulas->has_grad ? &formulas->grad : NULL, local);
    x.results = results;
    x.grads = grads;
    x.needs = local_needs;
    if (!status) status = run_grad(&x, formulas, NULL, made);
    cr__fx_end(&x);
    cr__expansion_depth--;
    if (status) return status;
    for (int i = 0; i < op->schema.nparams; i++) {
        int at = op == base || op->variant == CR_INPLACE ? i : cr__find_param(base, op->schema.params[i].name);
        grad_out[i] = at >= 0 ? made[at] : cr_arg_none();
    }
    return CR_OK;
}

cr_status cr_formula_saved(cr_emitter *e, const cr_op *op, const cr_arg *args, const cr_arg *results, const bool *needs,
                           const bool *given, cr_saved *out) {
    const cr_op *base = op->base;
    const cr_op_formulas *formulas;
    cr_arg local[CR_MAX_PARAMS];
    bool local_needs[CR_MAX_PARAMS];
    cr_saved saved = { 0 };
    CR_TRY(cr_op_formulas_get(base, &formulas));
    cr__functional_args(op, args, local);
    for (int i = 0; i < base->schema.nparams; i++) {
        int at = op == base || op->variant == CR_INPLACE ? i : cr__find_param(op, base->schema.params[i].name);
        local_needs[i] = at >= 0 && needs[at];
    }
    fx x;
    cr_status status = cr__fx_begin(&x, e ? e : cr_exec_emitter(), base, formulas->has_grad ? &formulas->grad : NULL,
                                    local);
    x.results = results;
    x.needs = local_needs;
    x.saved = &saved;
    if (!status) status = run_grad(&x, formulas, given, NULL);
    cr__fx_end(&x);
    if (status) return status;
    uint64_t params = base->schema.nparams < 64 ? ((uint64_t)1 << base->schema.nparams) - 1 : UINT64_MAX;
    uint64_t returns = ((uint64_t)1 << base->schema.nreturns) - 1;
    saved.args &= params, saved.results &= returns;
    saved.arg_metas &= params & ~saved.args, saved.result_metas &= returns & ~saved.results;
    *out = saved;
    return CR_OK;
}

/* ---- what any backward reads ---- */

static cr_status find_saved(const cr_op *op, const cr_arg *args, const cr_arg *results, const bool *needs,
                            uint32_t flows, cr_saved *out) {
    uint16_t n = op->base->schema.nreturns;
    *out = (cr_saved){ 0 };
    for (int only = -1; only < (n > 1 ? n : 0); only++) {
        bool given[CR__MAX_RESULTS] = { false };
        cr_saved saved;
        for (int i = 0; i < n; i++) given[i] = (flows >> i & 1) && (only < 0 || i == only);
        cr_status status = cr_formula_saved(NULL, op, args, results, needs, given, &saved);
        if (status == CR_ENOTIMPL) continue; /* the walk that asks for this one says so */
        CR_TRY(status);
        out->args |= saved.args;
        out->results |= saved.results;
        out->arg_metas |= saved.arg_metas;
        out->result_metas |= saved.result_metas;
    }
    return CR_OK;
}

_Static_assert(CR_MAX_PARAMS <= 48, "a key of the saved sets has a bit for each");

cr_status cr_grad_saved(const cr_op *op, const cr_arg *args, const cr_arg *results, uint64_t needs, uint32_t flows,
                        cr_saved *out) {
    const cr_op_formulas *formulas;
    CR_TRY(cr_op_formulas_get(op, &formulas));
    bool each[CR_MAX_PARAMS], fits = formulas->has_grad && formulas->grad.settled && flows < 1u << 16;
    const cr_saved *found = fits ? cr_saved_known(formulas, needs, flows) : NULL;
    if (found) return *out = *found, CR_OK;
    for (int i = 0; i < op->schema.nparams; i++) each[i] = needs >> i & 1;
    CR_TRY(find_saved(op, args, results, each, flows, out));
    if (!fits) return CR_OK;
    cr_saved_sets *known = (cr_saved_sets *)&formulas->sets; /* the one part that grows after the texts were read */
    if (__atomic_exchange_n(&known->busy, 1, __ATOMIC_ACQUIRE)) return CR_OK; /* somebody else writes: the next time */
    int n = known->n;
    if (n < (int)CR_COUNT(known->at)) {
        known->at[n].key = (uint64_t)flows << 48 | needs;
        known->at[n].saved = *out;
        __atomic_store_n(&known->n, n + 1, __ATOMIC_RELEASE);
    }
    __atomic_store_n(&known->busy, 0, __ATOMIC_RELEASE);
    return CR_OK;
}

cr_status cr_grad_is_direct(const cr_op *op, bool *yes) {
    const cr_op_formulas *formulas;
    CR_TRY(cr_op_formulas_get(op, &formulas));
    *yes = formulas->direct;
    return CR_OK;
}

cr_status cr_grad_reaches(const cr_op *op, uint64_t needs, bool *yes) {
    const cr_op_formulas *formulas;
    CR_TRY(cr_op_formulas_get(op, &formulas));
    *yes = cr_formulas_reach(formulas, needs);
    return CR_OK;
}

cr_status cr_grad_flows(const cr_op *op, int i, const cr_meta *result, bool *yes) {
    const cr_op_formulas *formulas;
    CR_TRY(cr_op_formulas_get(op, &formulas));
    *yes = differentiable(result) && !(formulas->has_grad && is_constant(&formulas->grad, i));
    return CR_OK;
}

cr_status cr_grad_uses_result(const cr_op *op, int i, bool *yes) {
    const cr_op_formulas *formulas;
    CR_TRY(cr_op_formulas_get(op, &formulas));
    *yes = formulas->has_grad && formula_uses_result(&formulas->grad, i);
    return CR_OK;
}

cr_status cr_grad_comes_back(const cr_op *op, int i, const cr_meta *result, bool *yes) {
    CR_TRY(cr_grad_flows(op, i, result, yes));
    if (*yes || !result || cr_dtype_is_integral(result->dtype)) return CR_OK;
    return cr_grad_uses_result(op, i, yes);
}
