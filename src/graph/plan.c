/* plan.c: preparing a graph for execution: the order of steps, which values die where, what inputs must be like.
 *
 * Everything that could go wrong once for all runs goes wrong here; in particular no run constructs an expression of
 * the graph's environment, which belongs to one thread. */
#include "graph/plan.h"

/* ---- lifetimes ---- */

typedef struct last_uses { uint32_t *last, step; } last_uses;

static void see_use(void *user, uint32_t value) {
    last_uses *u = user;
    u->last[value] = u->step;
}

/* last[v]: the step after which v is not needed; CR_NO_VALUE for what the output holds and for values of no step. */
static void find_last_uses(const cr_plan *p, uint32_t *last) {
    const cr_graph *g = p->graph;
    last_uses u = { last, 0 };
    memset(last, 0xff, g->values.n * sizeof *last);
    for (size_t i = 0; i < p->ninputs; i++) last[p->inputs[i]] = 0;
    for (u.step = 0; u.step < p->nsteps; u.step++) {
        const cr_node *node = g->nodes.at[p->steps[u.step].node];
        for (uint32_t v = 0; v < node->nvalues; v++) last[node->first + v] = u.step;
        cr_args_visit_values(node->args, node->nargs, see_use, &u);
    }
    u.step = CR_NO_VALUE;
    cr_args_visit_values(g->nodes.at[g->output]->args, g->nodes.at[g->output]->nargs, see_use, &u);
}

static cr_status plan_lifetimes(cr_plan *p) {
    size_t values = p->graph->values.n;
    uint32_t *last = cr_alloc((values + 1) * sizeof *last), *count = cr_calloc(p->nsteps + 1, sizeof *count);
    p->dead = cr_arena_alloc(&p->arena, (values + 1) * sizeof *p->dead);
    if (!last || !count || !p->dead) {
        cr_free(last);
        cr_free(count);
        return CR_ENOMEM;
    }
    find_last_uses(p, last);
    for (size_t v = 0; v < values; v++)
        if (last[v] < p->nsteps) count[last[v]]++;
    uint32_t end = 0;
    for (size_t i = 0; i < p->nsteps; i++) {
        uint32_t n = count[i];
        count[i] = end;
        p->steps[i].dead_end = end += n;
    }
    for (size_t v = 0; v < values; v++)
        if (last[v] < p->nsteps) p->dead[count[last[v]]++] = (uint32_t)v;
    cr_free(last);
    cr_free(count);
    return CR_OK;
}

static cr_status plan_steps(cr_plan *p) {
    const cr_graph *g = p->graph;
    p->steps = cr_arena_alloc(&p->arena, g->live * sizeof *p->steps);
    p->inputs = cr_arena_alloc(&p->arena, g->live * sizeof *p->inputs);
    if (!p->steps || !p->inputs) return CR_ENOMEM;
    for (uint32_t n = cr_graph_first(g); n != CR_NO_NODE; n = cr_graph_next(g, n)) {
        const cr_node *node = g->nodes.at[n];
        if (node->kind == CR_NODE_PLACEHOLDER) p->inputs[p->ninputs++] = node->first;
        else if (node->kind != CR_NODE_OUTPUT) p->steps[p->nsteps++] = (plan_step){ .node = n };
    }
    return CR_OK;
}

/* ---- symbols ---- */

static cr_status add_symbol(cr_plan *p, cr_sym s) {
    for (size_t i = 0; i < p->symbols.n; i++)
        if (p->symbols.at[i].symbol == s) return CR_OK;
    return cr_vec_push(&p->symbols, (plan_symbol){ s, cr_sym_range(p->graph->env, s) });
}

static cr_status add_symbols(cr_plan *p, cr_sym e) {
    if (cr_sym_kind_of(e) == CR_SYM_SYMBOL) return add_symbol(p, e);
    for (size_t i = 0; i < cr_sym_operand_count(e); i++) CR_TRY(add_symbols(p, cr_sym_operand(e, i)));
    return CR_OK;
}

static int32_t symbol_index(const cr_plan *p, cr_sym e) {
    for (size_t i = 0; i < p->symbols.n; i++)
        if (p->symbols.at[i].symbol == e) return (int32_t)i;
    return -1;
}

static cr_status add_check(cr_plan *p, uint32_t input, int dim, cr_sym e) {
    plan_check check = { .input = input, .dim = dim, .expr = e, .symbol = -1 };
    if (cr_sym_is_int(e, &check.plain)) check.expr = NULL;
    else {
        CR_TRY(add_symbols(p, e));
        check.symbol = symbol_index(p, e);
    }
    return cr_vec_push(&p->checks, check);
}

static cr_status plan_checks(cr_plan *p) {
    cr_env *env = p->graph->env;
    for (size_t i = 0; i < p->ninputs; i++) {
        const cr_value *v = p->graph->values.at[p->inputs[i]];
        if (v->expr && v->type != CR_T_BOOL) CR_TRY(add_check(p, (uint32_t)i, -1, v->expr));
        for (int d = 0; v->meta && d < v->meta->rank; d++) {
            cr_sym e = cr_dim_sym(env, v->meta->size[d]);
            if (!e) return CR_FAIL(CR_ENOMEM, "out of memory");
            CR_TRY(add_check(p, (uint32_t)i, d, e));
        }
    }
    return cr__env_status(env);
}

static cr_status plan_conds(cr_plan *p) {
    const cr_env *env = p->graph->env;
    for (size_t i = 0; i < cr_env_cond_count(env); i++) CR_TRY(cr_vec_push(&p->conds, cr_env_cond(env, i)));
    return CR_OK;
}

/* ---- plans of one call ---- */

/* One op on the plan's inputs that gives the plan's result, of known sizes and without a word about gradients: such a
 * plan is run without a frame. */
static bool is_one_call(const cr_plan *p) {
    const cr_graph *g = p->graph;
    const cr_node *node = p->nsteps == 1 ? g->nodes.at[p->steps[0].node] : NULL, *output = g->nodes.at[g->output];
    if (!node || node->kind != CR_NODE_CALL || p->symbols.n || p->conds.n || g->subgraphs.n) return false;
    if (!node->op->base->row || node->nvalues != 1 || cr_result_count(node->op) != 1 ||
        node->op->schema.returns[0].list || node->origin.no_grad || node->origin.data)
        return false;
    if (output->nargs != 1 || output->args[0].kind != CR_ARG_VALUE || output->args[0].u.i != node->first) return false;
    for (uint32_t i = 0; i < p->ninputs; i++) {
        const cr_value *v = g->values.at[p->inputs[i]];
        if (p->inputs[i] != i || v->type != CR_T_TENSOR || !v->meta) return false;
    }
    for (uint16_t i = 0; i < node->nargs; i++) {
        const cr_arg *a = &node->args[i];
        if (a->kind == CR_ARG_SYM || a->kind == CR_ARG_GRAPH) return false;
        for (uint32_t k = 0; a->kind == CR_ARG_LIST && k < a->n; k++)
            if (a->u.list[k].kind == CR_ARG_VALUE || a->u.list[k].kind == CR_ARG_LIST) return false;
    }
    return true;
}

/* x + 1: every call would make a tensor of the 1, and always the same. */
static cr_status wrap_numbers(cr_plan *p, const cr_op *op) {
    for (uint16_t i = 0; i < op->schema.nparams; i++) {
        cr_arg *a = &p->direct[i];
        bool plain = cr_arg_is_number(a) && (a->kind != CR_ARG_INT || cr_dim_is_plain(a->u.i));
        if (op->schema.params[i].type != CR_T_TENSOR || !plain) continue;
        cr_tensor *t;
        CR_TRY(cr_tensor_scalar(cr_arg_number_dtype(a), cr_arg_scalar(a), &t));
        t->meta.flags |= CR_META_WRAPPED;
        a->kind = CR_ARG_TENSOR;
        a->u.t = t;
    }
    return CR_OK;
}

static cr_status plan_direct(cr_plan *p) {
    if (!is_one_call(p)) return CR_OK;
    const cr_node *node = p->graph->nodes.at[p->steps[0].node];
    p->direct = cr_arena_alloc(&p->arena, (node->nargs + 1u) * sizeof *p->direct);
    if (!p->direct) return CR_ENOMEM;
    for (uint16_t i = 0; i < node->nargs; i++) p->direct[i] = node->args[i];
    if (!node->op->base->row->scalar || node->op->variant != CR_FUNCTIONAL) return CR_OK;
    CR_TRY(wrap_numbers(p, node->op));
    cr_arg metas[CR_MAX_PARAMS];
    for (uint16_t i = 0; i < node->nargs; i++) {
        metas[i] = p->direct[i];
        if (metas[i].kind != CR_ARG_VALUE) continue;
        metas[i].kind = CR_ARG_META;
        metas[i].u.meta = p->graph->values.at[p->direct[i].u.i]->meta;
    }
    cr_prepare(node->op, metas, &p->prepared);
    return CR_OK;
}

/* Of its arguments, only numbers are tensors. */
static void release_direct(cr_plan *p) {
    const cr_node *node = p->direct ? p->graph->nodes.at[p->steps[0].node] : NULL;
    for (uint16_t i = 0; node && i < node->nargs; i++)
        if (p->direct[i].kind == CR_ARG_TENSOR) cr_tensor_release(p->direct[i].u.t);
}

/* ---- life ---- */

static cr_status plan_create(cr_graph *g, bool inner, cr_plan **out) {
    cr_plan *p = cr_calloc(1, sizeof *p);
    if (!p) return CR_ENOMEM;
    p->refs = 1;
    p->graph = g;
    cr_graph_retain(g);
    cr_arena_init(&p->arena);
    cr_status status = CR_OK;
    CR_TRY_OUT(plan_steps(p));
    CR_TRY_OUT(plan_lifetimes(p));
    CR_TRY_OUT(plan_checks(p));
    if (!inner) CR_TRY_OUT(plan_conds(p));
    CR_TRY_OUT(plan_direct(p));
    for (size_t i = 0; i < g->subgraphs.n; i++) {
        cr_plan *child = NULL;
        CR_TRY_OUT(plan_create(g->subgraphs.at[i], true, &child));
        status = cr_vec_push(&p->children, child);
        if (status) {
            cr_plan_release(child);
            goto out;
        }
    }
    *out = p;
    return CR_OK;
out:
    cr_plan_release(p);
    return status;
}

cr_status cr_plan_create(cr_graph *g, cr_plan **out) {
    CR_TRY(cr_graph_verify(g, CR_VERIFY_SHAPE)); /* subgraphs included: runs rely on it */
    return plan_create(g, false, out);
}

void cr_plan_retain(cr_plan *p) { __atomic_add_fetch(&p->refs, 1, __ATOMIC_RELAXED); }

void cr_plan_release(cr_plan *p) {
    if (!p || __atomic_sub_fetch(&p->refs, 1, __ATOMIC_ACQ_REL)) return;
    for (size_t i = 0; i < p->children.n; i++) cr_plan_release(p->children.at[i]);
    release_direct(p);
    cr_vec_dispose(&p->children);
    cr_vec_dispose(&p->checks);
    cr_vec_dispose(&p->symbols);
    cr_vec_dispose(&p->conds);
    cr_arena_dispose(&p->arena);
    cr_graph_release(p->graph);
    cr_free(p);
}

size_t cr_plan_result_count(const cr_plan *p) { return p->graph->nodes.at[p->graph->output]->nargs; }

void cr_plan_set_inputs(cr_plan *p, const char *const *labels, cr_status (*check)(void *user, const cr_arg *inputs),
                        void *user) {
    p->labels = labels;
    p->check = check;
    p->check_user = user;
}
