/* path.c: the forward part of a joint graph: a recorded graph again, with everything on a gradient path in ops that
 * have derivatives.
 *
 * A value is *live* if a gradient can flow from it back to a primal that wants one. A call of live values whose op has
 * no derivative is written as what stands for it on a gradient path (.train, .decomp), each part of which meets the
 * same question; any other call is copied, with the metas it had where its arguments are what they were. */
#include "autograd/regions.h"

#include "graph/writes.h"
#include "ops/formula.h"
#include "passes/passes.h"

#include <stdio.h>

/* What the old graph's values are in the new one. A region that is inlined has a scope of its own. */
typedef struct scope {
    cr__path *p;
    const cr_graph *from;
    cr_arg *map;             /* per value of `from` */
    bool *same;              /* per value of `from`: the new one has the same meta */
    const cr_origin *origin; /* of nodes that have none of their own */
} scope;

/* ---- what a gradient flows through ---- */

bool cr__path_is_live(const cr__path *p, const cr_arg *a) {
    for (uint32_t i = 0; a->kind == CR_ARG_LIST && i < a->n; i++)
        if (cr__path_is_live(p, &a->u.list[i])) return true;
    return a->kind == CR_ARG_VALUE && (size_t)a->u.i < p->live.n && p->live.at[a->u.i];
}

cr_status cr__path_grow(cr__path *p) {
    size_t n = cr_graph_value_count(p->to);
    CR_TRY(cr_vec_reserve(&p->live, n));
    for (; p->live.n < n; p->live.n++) p->live.at[p->live.n] = false;
    return CR_OK;
}

/* needs[i]: argument i wants a gradient. *live: the call has one for such an argument. */
static cr_status find_needs(const cr__path *p, const cr_op *op, const cr_arg *args, uint16_t n, bool *needs,
                            bool *live) {
    uint64_t mask = 0;
    for (uint16_t i = 0; i < n; i++)
        mask |= (uint64_t)(needs[i] = p->grad && cr__path_is_live(p, &args[i])) << i;
    *live = false;
    return mask ? cr_grad_reaches(op, mask, live) : CR_OK;
}

/* A gradient reaches the arguments of the call: which of its results can bring one? */
static cr_status mark(cr__path *p, const cr_node *node) {
    for (uint32_t v = node->first; v < node->first + node->nvalues; v++) {
        const cr_value *value = cr_graph_value(p->to, v);
        bool flows;
        CR_TRY(cr_grad_comes_back(node->op, value->ret, value->meta, &flows));
        p->live.at[v] = flows;
    }
    return CR_OK;
}

/* Does the op have to be written as others, where it is on a gradient path? */
static cr_status must_expand(const cr_op *op, bool *yes) {
    const cr_row *row = op->base->row;
    bool direct;
    CR_TRY(cr_grad_is_direct(op, &direct));
    *yes = row->train || (!direct && (row->decomp || row->decomp_fn));
    *yes = *yes && !(op->tags & (CR_TAG_HIGHER_ORDER | CR_TAG_CUSTOM));
    return CR_OK;
}

static cr_status expand(cr__path *p, const cr_op *op, const cr_arg *args, const bool *needs, cr_arg *results) {
    cr_arg plain[CR_MAX_PARAMS], made[16] = { { 0 } };
    size_t n = cr_result_count(op);
    if (n > CR_COUNT(made)) return CR_FAIL(CR_EUNSUPPORTED, "%s has more than %zu results", op->name, CR_COUNT(made));
    CR_TRY(cr_graph_plain_args(p->to, args, op->schema.nparams, plain));
    cr_status status = cr_train_expand(&p->emitter, op, plain, needs, made);
    if (status) return cr_error_context(status, "decomposing %s", op->name);
    for (size_t i = 0; i < n && !status; i++) status = cr_graph_keep_arg(p->to, &made[i], &results[i]);
    cr_results_release(made, n);
    return status;
}

static cr_status path_call(cr_emitter *e, const cr_op *op, const cr_arg *args, cr_arg *results) {
    cr__path *p = (cr__path *)(void *)e;
    bool needs[CR_MAX_PARAMS], live, expands = false;
    CR_TRY(find_needs(p, op, args, op->schema.nparams, needs, &live));
    if (live) CR_TRY(must_expand(op, &expands));
    if (expands) return expand(p, op, args, needs, results);
    uint32_t before = cr_graph_node_limit(p->to);
    CR_TRY(p->append->call(p->append, op, args, results));
    CR_TRY(cr__path_grow(p));
    /* the call is the last node: those before it compute symbolic arguments */
    uint32_t made = cr_graph_node_limit(p->to) - 1;
    return live && made >= before ? mark(p, cr_graph_node(p->to, made)) : CR_OK;
}

static cr_status path_meta(cr_emitter *e, const cr_arg *arg, const cr_meta **out) {
    cr__path *p = (cr__path *)(void *)e;
    return p->append->meta(p->append, arg, out);
}

static void path_release(cr_emitter *e, cr_arg *results, size_t n) {
    (void)e, (void)results, (void)n; /* values belong to the graph */
}

/* ---- arguments ---- */

static cr_status map_arg(scope *s, const cr_arg *from, cr_arg *to) {
    *to = *from;
    if (from->kind == CR_ARG_VALUE) {
        *to = s->map[from->u.i];
        to->given = from->given;
    } else if (from->kind == CR_ARG_LIST) {
        cr_arg *items = cr_graph_alloc(s->p->to, (from->n + 1u) * sizeof *items);
        if (!items) return CR_ENOMEM;
        for (uint32_t i = 0; i < from->n; i++) CR_TRY(map_arg(s, &from->u.list[i], &items[i]));
        to->u.list = items;
    } else if (from->kind == CR_ARG_GRAPH) {
        for (size_t i = 0; i < cr_graph_subgraph_count(s->p->to); i++)
            if (cr_graph_subgraph(s->p->to, i) == from->u.graph) return CR_OK;
        return cr_graph_add_subgraph(s->p->to, from->u.graph);
    }
    return CR_OK;
}

typedef struct sameness { const scope *s; bool all; } sameness;
static void see_same(void *user, uint32_t value) {
    sameness *x = user;
    x->all &= x->s->same[value];
}

/* ---- nodes ---- */

static void bind(scope *s, uint32_t value, cr_arg to, bool same) {
    s->map[value] = to;
    s->same[value] = same;
}

/* Results, flattened, become what the node's visible values are. */
static cr_status bind_results(scope *s, const cr_node *node, const cr_arg *results, size_t n, uint32_t *at) {
    for (size_t i = 0; i < n; i++) {
        if (results[i].kind == CR_ARG_LIST) {
            CR_TRY(bind_results(s, node, results[i].u.list, results[i].n, at));
            continue;
        }
        if (*at >= node->first + node->nvalues)
            return CR_FAIL(CR_EVALUE, "%s gives more results than its node has", node->op->name);
        cr_arg to = results[i];
        if (to.kind == CR_ARG_SYM || (to.kind == CR_ARG_INT && !cr_dim_is_plain(to.u.i)))
            CR_TRY(cr_graph_value_for(s->p->to,
                                      to.kind == CR_ARG_SYM ? to.u.sym : cr_dim_sym(cr_graph_env(s->p->to), to.u.i),
                                      &to));
        bind(s, (*at)++, to, false);
    }
    return cr__path_grow(s->p);
}

/* What an expansion made goes on under the names of what it stands for, where those are free. */
static cr_status keep_names(scope *s, const cr_node *node) {
    for (uint32_t i = 0; i < node->nvalues; i++) {
        const cr_arg *to = &s->map[node->first + i];
        const cr_value *old = cr_graph_value(s->from, node->first + i);
        if (to->kind != CR_ARG_VALUE || cr_graph_find(s->p->to, old->name) != CR_NO_VALUE) continue;
        const cr_node *maker = cr_graph_node(s->p->to, cr_graph_value(s->p->to, (uint32_t)to->u.i)->node);
        if (maker->kind == CR_NODE_CALL) CR_TRY(cr_graph_rename(s->p->to, (uint32_t)to->u.i, old->name));
    }
    return CR_OK;
}

static cr_status copy_call(scope *s, const cr_node *node, const cr_arg *args, bool live) {
    sameness same = { s, true };
    uint32_t id;
    cr_args_visit_values(node->args, node->nargs, see_same, &same);
    /* What a size from data is called must not change, and does not depend on layouts. */
    same.all |= (node->op->tags & CR_TAG_HIGHER_ORDER) || !cr_node_is_pure(s->from, node);
    if (same.all)
        CR_TRY(cr_graph_call_with(s->p->to, node->op, args, cr_graph_value(s->from, node->first), node->nvalues, &id));
    else CR_TRY(cr_graph_call(s->p->to, node->op, args, &id));
    const cr_node *copy = cr_graph_node(s->p->to, id);
    if (copy->nvalues != node->nvalues)
        return CR_FAIL(CR_EVALUE, "%s gives %u results here, its node has %u", node->op->name, copy->nvalues,
                       node->nvalues);
    CR_TRY(cr__path_grow(s->p));
    for (uint32_t i = 0; i < node->nvalues; i++) {
        const cr_value *v = cr_graph_value(s->p->to, copy->first + i);
        bool undefined = v->type == CR_T_TENSOR && !v->meta;
        bind(s, node->first + i, undefined ? cr_arg_none() : cr__value_arg(s->p->to, copy->first + i), same.all);
    }
    if (live) CR_TRY(mark(s->p, copy));
    return same.all ? CR_OK : keep_names(s, node);
}

static cr_status walk(scope *s);

/* The placeholders of s->from stand for the operands. */
static cr_status enter(scope *s, const cr_arg *operands, size_t count, const char *what) {
    uint32_t n = cr_graph_value_count(s->from);
    size_t k = 0;
    s->map = cr_graph_alloc(s->p->to, (n + 1) * sizeof *s->map);
    s->same = cr_graph_alloc(s->p->to, (n + 1) * sizeof *s->same);
    if (!s->map || !s->same) return CR_ENOMEM;
    for (uint32_t id = cr_graph_first(s->from); id != CR_NO_NODE; id = cr_graph_next(s->from, id)) {
        const cr_node *place = cr_graph_node(s->from, id);
        if (place->kind != CR_NODE_PLACEHOLDER) continue;
        if (k >= count) return CR_FAIL(CR_EVALUE, "%s: its body takes more inputs", what);
        bind(s, place->first, operands[k++], false);
    }
    return CR_OK;
}

/* The body's nodes take the region's place, in the mode that it says. */
static cr_status inline_region(scope *s, const cr_node *node, const cr_arg *args) {
    const cr_graph *body = NULL;
    const cr_arg *operands = NULL;
    cr__path *p = s->p;
    for (uint16_t i = 0; i < node->nargs; i++) {
        if (args[i].kind == CR_ARG_GRAPH) body = args[i].u.graph;
        else if (args[i].kind == CR_ARG_LIST) operands = &args[i];
    }
    if (!body) return CR_FAIL(CR_EVALUE, "%s has no body", node->op->name);
    uint8_t marks = cr_op_facts(node->op)->region.mark;
    uint32_t at = node->first, first = cr_graph_node_limit(p->to);
    scope inner = { .p = p, .from = body, .origin = node->origin.stack_trace ? &node->origin : s->origin };
    CR_TRY(enter(&inner, operands ? operands->u.list : NULL, operands ? operands->n : 0, node->op->name));
    bool before = p->grad;
    if (marks == CR_MARK_GRAD) p->grad = args[0].u.i != 0;
    cr_status status = walk(&inner);
    p->grad = before;
    if (status) return cr_error_context(status, "%s", node->op->name);
    const cr_node *output = cr_graph_node(body, cr_graph_output(body));
    for (uint16_t i = 0; i < output->nargs; i++) {
        cr_arg result;
        CR_TRY(map_arg(&inner, &output->args[i], &result));
        CR_TRY(bind_results(s, node, &result, 1, &at));
    }
    cr_checkpoint nodes = { first, cr_graph_node_limit(p->to) };
    return marks == CR_MARK_CHECKPOINT && p->joint ? cr_vec_push(&p->joint->checkpoints, nodes) : CR_OK;
}

/* The region as its derivative needs it. */
static cr_status derive_region(scope *s, const cr_node *node, const cr_arg *args) {
    cr__region *r;
    CR_TRY(cr__region_forward(s->p, s->from, node, args, &r));
    for (uint32_t i = 0; i < node->nvalues; i++) {
        const cr_value *v = cr_graph_value(s->p->to, (uint32_t)r->results[i].u.i);
        bool undefined = v->type == CR_T_TENSOR && !v->meta;
        bind(s, node->first + i, undefined ? cr_arg_none() : r->results[i], false);
    }
    return CR_OK;
}

static cr_status walk_call(scope *s, const cr_node *node) {
    cr_arg args[CR_MAX_PARAMS], results[16] = { { 0 } };
    bool needs[CR_MAX_PARAMS], live, expands = false;
    for (uint16_t i = 0; i < node->nargs; i++) {
        if (node->args[i].kind == CR_ARG_GRAPH) args[i] = node->args[i]; /* another body may take its place */
        else CR_TRY(map_arg(s, &node->args[i], &args[i]));
    }
    CR_TRY(find_needs(s->p, node->op, args, node->nargs, needs, &live));
    if (cr_op_facts(node->op)->region.kind == CR_REGION_MARKS) return inline_region(s, node, args);
    if (live && cr__region_derives(node->op)) return derive_region(s, node, args);
    for (uint16_t i = 0; i < node->nargs; i++)
        if (args[i].kind == CR_ARG_GRAPH) CR_TRY(map_arg(s, &node->args[i], &args[i]));
    if (live) CR_TRY(must_expand(node->op, &expands));
    if (!expands) return copy_call(s, node, args, live);
    cr_known_symbols known, *before = cr_ambient_get()->mode.known;
    uint32_t at = node->first;
    cr_node_introduces(s->from, node, &known);
    cr_ambient_get()->mode.known = &known;
    cr_status status = expand(s->p, node->op, args, needs, results);
    cr_ambient_get()->mode.known = before;
    CR_TRY(status);
    CR_TRY(bind_results(s, node, results, cr_result_count(node->op), &at));
    return keep_names(s, node);
}

/* Bodies may call other tensors by the same name. */
static cr_status walk_constant(scope *s, const cr_node *node) {
    cr_graph *to = s->p->to;
    cr_tensor *t = cr_graph_constant(s->from, node->target);
    const char *name = node->target;
    char other[256];
    uint32_t v;
    for (unsigned k = 1; cr_graph_constant(to, name) && cr_graph_constant(to, name) != t; k++)
        snprintf(other, sizeof other, "%.240s_%u", node->target, k), name = other;
    if (!cr_graph_constant(to, name)) CR_TRY(cr_graph_add_constant(to, name, t));
    CR_TRY(cr_graph_get_attr(to, name, &v));
    bind(s, node->first, cr__value_arg(to, v), true);
    return cr__path_grow(s->p);
}

static cr_status walk(scope *s) {
    for (uint32_t n = cr_graph_first(s->from); n != CR_NO_NODE; n = cr_graph_next(s->from, n)) {
        const cr_node *node = cr_graph_node(s->from, n);
        if (node->kind == CR_NODE_PLACEHOLDER || node->kind == CR_NODE_OUTPUT) continue;
        bool own = node->origin.stack_trace || node->origin.module_stack || !s->origin;
        cr_origin origin = own ? node->origin : *s->origin;
        origin.policy = node->origin.policy;
        CR_TRY(cr_graph_set_origin(s->p->to, &origin));
        bool grad = s->p->grad;
        s->p->grad = grad && !node->origin.no_grad;
        cr_status status = node->kind == CR_NODE_GET_ATTR ? walk_constant(s, node) : walk_call(s, node);
        s->p->grad = grad;
        if (status && node->nvalues)
            return cr_error_context(status, "%%%s", cr_graph_value(s->from, node->first)->name);
        CR_TRY(status);
    }
    return CR_OK;
}

/* ---- the whole ---- */

static cr_status copy_primals(scope *s, const cr_differentiation *how) {
    cr__path *p = s->p;
    for (uint32_t n = cr_graph_first(s->from); n != CR_NO_NODE; n = cr_graph_next(s->from, n)) {
        const cr_node *node = cr_graph_node(s->from, n);
        if (node->kind != CR_NODE_PLACEHOLDER) continue;
        const cr_value *v = cr_graph_value(s->from, node->first);
        uint32_t made, i = p->joint->nprimals++;
        CR_TRY(v->type == CR_T_TENSOR
                   ? cr_graph_placeholder(p->to, node->target, v->meta, &made)
                   : cr_graph_placeholder_number(p->to, node->target, (cr_type)v->type, v->expr, &made));
        bind(s, node->first, cr__value_arg(p->to, made), true);
        CR_TRY(cr__path_grow(p));
        p->live.at[made] = cr__is_differentiable(v->meta) && (!how->wrt || how->wrt[i]);
    }
    return CR_OK;
}

cr_status cr__path_copy(cr__path *p, const cr_graph *from, const cr_differentiation *how, cr_arg *outputs) {
    const cr_node *output = cr_graph_node(from, cr_graph_output(from));
    uint32_t n = cr_graph_value_count(from);
    scope s = { .p = p, .from = from };
    p->append = cr_graph_emitter(p->to);
    p->emitter = (cr_emitter){ path_call, path_meta, path_release, cr_graph_env(p->to) };
    p->grad = !how->no_grad;
    s.map = cr_graph_alloc(p->to, (n + 1) * sizeof *s.map);
    s.same = cr_graph_alloc(p->to, (n + 1) * sizeof *s.same);
    if (!s.map || !s.same) return CR_ENOMEM;
    CR_TRY(copy_primals(&s, how));
    CR_TRY(walk(&s));
    for (uint16_t i = 0; i < output->nargs; i++) {
        if (output->args[i].kind == CR_ARG_LIST)
            return CR_FAIL(CR_EVALUE, "result %u is a list; a graph that is differentiated has its results side by "
                                      "side",
                           i);
        CR_TRY(map_arg(&s, &output->args[i], &outputs[i]));
    }
    return cr_graph_set_origin(p->to, NULL);
}

void cr__path_dispose(cr__path *p) {
    for (size_t i = 0; i < p->regions.n; i++) cr__region_release(p->regions.at[i]);
    for (size_t i = 0; i < p->bodies.n; i++) cr_graph_release(p->bodies.at[i]);
    cr_vec_dispose(&p->regions);
    cr_vec_dispose(&p->bodies);
    cr_vec_dispose(&p->live);
}

cr_status cr__graph_inline(cr_graph *to, const cr_graph *from, const cr_arg *inputs, cr_arg *outputs) {
    cr__path p = { .to = to };
    scope s = { .p = &p, .from = from };
    p.append = cr_graph_emitter(to);
    p.emitter = (cr_emitter){ path_call, path_meta, path_release, cr_graph_env(to) };
    cr_status status = enter(&s, inputs, cr_graph_input_count(from), "a body");
    if (!status) status = walk(&s);
    const cr_node *output = cr_graph_node(from, cr_graph_output(from));
    for (uint16_t i = 0; i < output->nargs && !status; i++) status = map_arg(&s, &output->args[i], &outputs[i]);
    if (!status) status = cr_graph_set_origin(to, NULL);
    cr__path_dispose(&p);
    return status;
}
