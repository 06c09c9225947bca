/* region.c: derivatives of calls with bodies: what they share, cond, and functions with a backward of their own. See
 * regions.h; loops are in sweep.c. */
#include "autograd/regions.h"

#include "autograd/cut.h"
#include "graph/writes.h"
#include "passes/passes.h"

/* ---- small things ---- */

uint32_t cr__input_value(const cr_graph *g, uint32_t i) {
    uint32_t n = cr_graph_first(g);
    while (i--) n = cr_graph_next(g, n);
    return cr_graph_node(g, n)->first;
}

cr_status cr__mirror(cr_graph *to, const cr_graph *from, uint32_t v, cr_arg *out) {
    const cr_value *value = cr_graph_value(from, v);
    cr_meta meta;
    uint32_t made;
    if (value->type != CR_T_TENSOR) {
        CR_TRY(cr_graph_placeholder_number(to, value->name, (cr_type)value->type, value->expr, &made));
    } else {
        cr_meta_copy(&meta, value->meta);
        meta.storage = 0;
        meta.flags &= (uint8_t)~CR_META_REQUIRES_GRAD;
        CR_TRY(cr_graph_placeholder(to, value->name, &meta, &made));
    }
    *out = cr__value_arg(to, made);
    return CR_OK;
}

cr_status cr__zeros_like(cr_emitter *e, const cr_arg *a, cr_arg *out) {
    cr_arg args[6] = { *a, cr_arg_none(), cr_arg_none(), cr_arg_none(), cr_arg_none(), cr__arg(CR_ARG_FORMAT, 0) };
    args[5].u.i = CR_CONTIGUOUS;
    return cr_emit_call(e, "aten::zeros_like", args, 6, out);
}

static cr_status dense_copy(cr_graph *g, cr_arg *a) {
    cr_arg args[2] = { *a, cr__arg(CR_ARG_FORMAT, 0) };
    args[1].u.i = CR_CONTIGUOUS;
    return cr_emit_call(cr_graph_emitter(g), "aten::clone", args, 2, a);
}

static bool has_storage(const cr_graph *g, const cr_arg *a, uint64_t storage) {
    const cr_meta *m = a->kind == CR_ARG_VALUE ? cr_graph_value(g, (uint32_t)a->u.i)->meta : NULL;
    return m && m->storage == storage;
}

static bool is_own(const cr_graph *g, const cr_meta *m, const cr_arg *before, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (has_storage(g, &before[i], m->storage)) return false;
    for (uint32_t id = cr_graph_first(g); id != CR_NO_NODE; id = cr_graph_next(g, id)) {
        const cr_node *node = cr_graph_node(g, id);
        if (node->kind != CR_NODE_PLACEHOLDER && node->kind != CR_NODE_GET_ATTR) continue;
        const cr_meta *o = cr_graph_value(g, node->first)->meta;
        if (o && o->storage == m->storage) return false;
    }
    return cr_meta_is_contiguous(cr_graph_env(g), m, CR_CONTIGUOUS) == CR_YES;
}

cr_status cr__body_finish(cr_graph *g, cr_arg *outputs, size_t n, const char *name, cr_graph **out) {
    CR_TRY(cr_graph_set_origin(g, NULL));
    for (size_t i = 0; i < n; i++) {
        const cr_meta *m = outputs[i].kind == CR_ARG_VALUE ? cr_graph_value(g, (uint32_t)outputs[i].u.i)->meta : NULL;
        if (m && !is_own(g, m, outputs, i)) CR_TRY(dense_copy(g, &outputs[i]));
    }
    CR_TRY(cr_graph_set_output(g, outputs, n));
    CR_TRY(cr_pass_dce(g, out));
    return cr_graph_set_name(*out, name);
}

static cr_status own_body(cr_graph *g, cr_graph *body) {
    for (size_t i = 0; i < cr_graph_subgraph_count(g); i++)
        if (cr_graph_subgraph(g, i) == body) return CR_OK;
    return cr_graph_add_subgraph(g, body);
}

cr_status cr__region_call(cr__path *p, const cr_op *op, const cr_arg *args, cr_graph *const *bodies, size_t nbodies,
                          uint32_t *node) {
    for (size_t i = 0; i < nbodies; i++) CR_TRY(own_body(p->to, bodies[i]));
    CR_TRY(cr_graph_call(p->to, op, args, node));
    return cr__path_grow(p);
}

static cr_status flows_once(cr__region *r, const cr_graph *body, bool *grown) {
    cr_joint j;
    *grown = false;
    CR_TRY(cr_differentiate(body, &(cr_differentiation){ .wrt = r->wrt }, &j));
    for (uint32_t i = 0; i < j.ntangents; i++) {
        uint32_t result = j.tangent_of[i];
        if (result < r->nresults) r->live[result] = true;
        if (result >= r->ncarried || r->wrt[result]) continue;
        r->wrt[result] = *grown = true;
    }
    cr_joint_dispose(&j);
    return CR_OK;
}

cr_status cr__region_flows(cr__region *r, const cr_graph *body) {
    bool grown = true;
    while (grown) CR_TRY(flows_once(r, body, &grown));
    return CR_OK;
}

/* ---- cond ---- */

static cr_status cond_forward(cr__path *p, const cr_graph *from, cr__region *r, const cr_node *node,
                              const cr_arg *args) {
    for (int k = 0; k < 2; k++) {
        CR_TRY(cr__region_flows(r, r->body[k]));
        CR_TRY(own_body(p->to, r->body[k]));
    }
    bool draws = cr_graph_draws(r->body[0]) || cr_graph_draws(r->body[1]);
    if (draws) CR_TRY(cr__random_state(p->to, NULL, &r->state));
    CR_TRY(cr_graph_call_with(p->to, node->op, args, cr_graph_value(from, node->first), node->nvalues, &r->node));
    return cr__path_grow(p);
}

typedef struct branch {
    cr_graph *graph;
    cr_arg *inputs; /* placeholders: per operand (constants: themselves), then per result that has a gradient */
    cr_arg *outputs; /* of the joint graph, in it */
    cr_arg was; /* where the generator was before it was put back to draw again */
    cr_joint joint;
} branch;

static void branch_dispose(branch *b) {
    cr_joint_dispose(&b->joint);
    cr_graph_release(b->graph);
}

/* The body's joint graph on the operands and the gradients that there are. */
static cr_status branch_open(cr__path *p, const cr__region *r, const cr_graph *body, const cr_arg *grads, branch *b) {
    bool *through = cr_graph_alloc(p->to, (r->nresults + 1u) * sizeof *through);
    cr_arg *given = cr_graph_alloc(p->to, (r->noperands + r->nresults + 1u) * sizeof *given);
    if (!through || !given) return CR_ENOMEM;
    for (uint32_t i = 0; i < r->nresults; i++) through[i] = grads[i].kind == CR_ARG_VALUE;
    CR_TRY(cr_differentiate(body, &(cr_differentiation){ .wrt = r->wrt, .through = through }, &b->joint));
    CR_TRY(cr_graph_create(cr_graph_env(p->to), &b->graph));
    b->inputs = cr_graph_alloc(b->graph, (r->noperands + r->nresults + 1u) * sizeof *b->inputs);
    b->outputs = cr_graph_alloc(b->graph, (r->nresults + r->noperands + 1u) * sizeof *b->outputs);
    if (!b->inputs || !b->outputs) return CR_ENOMEM;
    for (uint32_t i = 0; i < r->noperands + r->nresults; i++) {
        const cr_arg *a = i < r->noperands ? &r->operands[i] : &grads[i - r->noperands];
        b->inputs[i] = *a;
        if (a->kind == CR_ARG_VALUE) CR_TRY(cr__mirror(b->graph, p->to, (uint32_t)a->u.i, &b->inputs[i]));
        if (i < r->noperands) given[i] = b->inputs[i];
    }
    if (r->state.kind == CR_ARG_VALUE) {
        CR_TRY(cr__mirror(b->graph, p->to, (uint32_t)r->state.u.i, &b->was));
        CR_TRY(cr__random_state(b->graph, &b->was, &b->was));
    }
    for (uint32_t i = 0; i < b->joint.ntangents; i++)
        given[r->noperands + i] = b->inputs[r->noperands + b->joint.tangent_of[i]];
    return cr__graph_inline(b->graph, b->joint.graph, given, b->outputs);
}

/* Gradients that one branch has and the other has not are zeros there. */
static cr_status branch_close(const cr__region *r, branch *b, const bool *due, const char *name, cr_graph **out) {
    cr_arg *made = cr_graph_alloc(b->graph, (r->noperands + 1u) * sizeof *made);
    size_t n = 0;
    if (!made) return CR_ENOMEM;
    for (uint32_t i = 0; i < r->noperands; i++) {
        if (!due[i]) continue;
        made[n] = b->outputs[b->joint.nforward + i];
        if (made[n].kind == CR_ARG_NONE)
            CR_TRY(cr__zeros_like(cr_graph_emitter(b->graph), &b->inputs[i], &made[n]));
        n++;
    }
    if (r->state.kind == CR_ARG_VALUE) CR_TRY(cr__random_state(b->graph, &b->was, &b->was));
    return cr__body_finish(b->graph, made, n, name, out);
}

static cr_status call_branches(cr__path *p, cr__region *r, const cr_arg *grads, const bool *due, cr_graph *const *made,
                               cr_arg *out) {
    cr_arg *operands = cr_graph_alloc(p->to, (r->noperands + r->nresults + 2u) * sizeof *operands);
    uint32_t n = 0, node;
    if (!operands) return CR_ENOMEM;
    for (uint32_t i = 0; i < r->noperands; i++)
        if (r->operands[i].kind == CR_ARG_VALUE) operands[n++] = r->operands[i];
    for (uint32_t i = 0; i < r->nresults; i++)
        if (grads[i].kind == CR_ARG_VALUE) operands[n++] = grads[i];
    if (r->state.kind == CR_ARG_VALUE) operands[n++] = r->state;
    cr_arg yes = cr__arg(CR_ARG_GRAPH, 0), no = yes;
    yes.u.graph = made[0], no.u.graph = made[1];
    CR_TRY(cr__region_call(p, r->op, (cr_arg[]){ r->condition, yes, no, cr_arg_list(operands, n) }, made, 2, &node));
    uint32_t at = cr_graph_node(p->to, node)->first;
    for (uint32_t i = 0; i < r->noperands; i++)
        if (due[i]) out[i] = cr__value_arg(p->to, at++);
    return CR_OK;
}

static cr_status cond_backward(cr__path *p, cr__region *r, const cr_arg *grads, cr_arg *made) {
    branch b[2] = { { 0 }, { 0 } };
    cr_graph *graphs[2] = { NULL, NULL };
    bool *due = cr_graph_alloc(p->to, (r->noperands + 1u) * sizeof *due), any = false;
    cr_status status = due ? CR_OK : CR_ENOMEM;
    for (int k = 0; k < 2 && !status; k++) status = branch_open(p, r, r->body[k], grads, &b[k]);
    for (uint32_t i = 0; i < r->noperands && !status; i++) {
        due[i] = b[0].outputs[b[0].joint.nforward + i].kind != CR_ARG_NONE ||
                 b[1].outputs[b[1].joint.nforward + i].kind != CR_ARG_NONE;
        any |= due[i];
    }
    for (int k = 0; k < 2 && !status && any; k++)
        status = branch_close(r, &b[k], due, k ? "false_backward" : "true_backward", &graphs[k]);
    if (!status && any) status = call_branches(p, r, grads, due, graphs, made);
    for (int k = 0; k < 2; k++) {
        cr_graph_release(graphs[k]);
        branch_dispose(&b[k]);
    }
    return status;
}

/* ---- functions with a backward of their own ---- */

/* function(backward, inputs, results, operands): the results as they are, until the joint graph is finished. */
static cr_status function_forward(cr__path *p, const cr_graph *from, cr__region *r, const cr_node *node,
                                  const cr_arg *args) {
    CR_TRY(own_body(p->to, r->body[0]));
    CR_TRY(cr_graph_call_with(p->to, node->op, args, cr_graph_value(from, node->first), node->nvalues, &r->node));
    for (uint32_t i = 0; i < r->nresults; i++)
        r->live[i] = cr__is_differentiable(cr_graph_value(from, node->first + i)->meta);
    return cr__path_grow(p);
}

static cr_status function_backward(cr__path *p, cr__region *r, const cr_arg *grads, cr_arg *made) {
    const cr_node *node = cr_graph_node(p->to, r->node);
    const cr_arg *others = &node->args[3];
    uint32_t n = 0;
    cr_arg *given = cr_graph_alloc(p->to, (r->nresults + others->n + 1u) * sizeof *given);
    if (!given) return CR_ENOMEM;
    for (uint32_t i = 0; i < r->nresults; i++) {
        if (!cr_graph_value(p->to, node->first + i)->meta) continue;
        given[n] = grads[i];
        if (grads[i].kind == CR_ARG_NONE) CR_TRY(cr__zeros_like(p->append, &r->results[i], &given[n]));
        n++;
    }
    for (uint32_t i = 0; i < others->n; i++) given[n++] = others->u.list[i];
    return cr__graph_inline(p->to, r->body[0], given, made);
}

/* ---- all of them ---- */

bool cr__region_derives(const cr_op *op) {
    cr_region_kind kind = cr_op_facts(op)->region.kind;
    return kind == CR_REGION_COND || kind == CR_REGION_WHILE || kind == CR_REGION_SCAN || kind == CR_REGION_FOLD ||
           kind == CR_REGION_FUNCTION;
}

/* The lists of operands as one. */
static cr_status collect(cr__path *p, cr__region *r, const cr_node *node, const cr_arg *args) {
    const cr_region *facts = &cr_op_facts(node->op)->region;
    int last = r->kind == CR_REGION_FUNCTION ? facts->lists + 1 : node->nargs;
    for (int k = facts->lists; k < last; k++) r->noperands += args[k].kind == CR_ARG_LIST ? args[k].n : 0;
    r->operands = cr_graph_alloc(p->to, (r->noperands + 1u) * sizeof *r->operands);
    r->wrt = cr_graph_alloc(p->to, (r->noperands + 1u) * sizeof *r->wrt);
    if (!r->operands || !r->wrt) return CR_ENOMEM;
    uint32_t at = 0;
    for (int k = facts->lists; k < last; k++)
        for (uint32_t i = 0; args[k].kind == CR_ARG_LIST && i < args[k].n; i++, at++) {
            r->operands[at] = args[k].u.list[i];
            r->wrt[at] = cr__path_is_live(p, &args[k].u.list[i]);
        }
    for (int k = 0; k < CR_MIN(facts->ngraphs, 2); k++) r->body[k] = args[facts->graphs + k].u.graph;
    bool sweep = r->kind == CR_REGION_SCAN, carried = sweep && facts->carried;
    if (carried || r->kind == CR_REGION_WHILE) r->ncarried = args[facts->lists].n;
    if (sweep || r->kind == CR_REGION_FOLD) r->nslices = args[facts->lists + carried].n;
    return CR_OK;
}

static cr_status forward(cr__path *p, const cr_graph *from, const cr_node *node, const cr_arg *args, cr__region *r) {
    r->op = node->op;
    r->kind = cr_op_facts(node->op)->region.kind;
    r->nresults = node->nvalues;
    r->condition = args[0];
    r->state = cr_arg_none();
    CR_TRY(collect(p, r, node, args));
    r->live = cr_graph_alloc(p->to, (r->nresults + 1u) * sizeof *r->live);
    r->results = cr_graph_alloc(p->to, (r->nresults + 1u) * sizeof *r->results);
    if (!r->live || !r->results) return CR_ENOMEM;
    memset(r->live, 0, r->nresults * sizeof *r->live);
    if (r->kind == CR_REGION_WHILE) return cr__loop_forward(p, r);
    if (r->kind == CR_REGION_SCAN) return cr__sweep_forward(p, r);
    if (r->kind == CR_REGION_FOLD) return cr__fold_forward(p, r);
    CR_TRY(r->kind == CR_REGION_COND ? cond_forward(p, from, r, node, args) : function_forward(p, from, r, node, args));
    for (uint32_t i = 0; i < r->nresults; i++)
        r->results[i] = cr__value_arg(p->to, cr_graph_node(p->to, r->node)->first + i);
    return CR_OK;
}

/* Names and sizes from data stay what they were. */
static cr_status keep_values(cr__path *p, const cr_graph *from, const cr_node *node, const cr__region *r) {
    for (uint32_t i = 0; i < r->nresults; i++) {
        uint32_t v = (uint32_t)r->results[i].u.i;
        const cr_value *old = cr_graph_value(from, node->first + i), *now = cr_graph_value(p->to, v);
        p->live.at[v] = r->live[i];
        if (cr_graph_find(p->to, old->name) == CR_NO_VALUE) CR_TRY(cr_graph_rename(p->to, v, old->name));
        bool same = !old->meta || !now->meta || r->kind == CR_REGION_FOLD;
        for (int d = 0; !same && d < old->meta->rank; d++)
            if (cr_dim_known(cr_graph_env(p->to), old->meta->size[d], CR_EQ, now->meta->size[d]) != CR_YES) {
                CR_TRY(cr_graph_set_meta(p->to, v, old->meta));
                break;
            }
    }
    return CR_OK;
}

cr_status cr__region_forward(cr__path *p, const cr_graph *from, const cr_node *node, const cr_arg *args,
                             cr__region **out) {
    cr__region *r = cr_calloc(1, sizeof *r);
    cr_status status = r ? cr_vec_push(&p->regions, r) : CR_ENOMEM;
    if (status) return cr_free(r), status;
    *out = r;
    CR_TRY(forward(p, from, node, args, r));
    return keep_values(p, from, node, r);
}

cr_status cr__region_backward(cr__path *p, cr__region *r, const cr_arg *grads, cr_arg *made) {
    for (uint32_t i = 0; i < r->noperands; i++) made[i] = cr_arg_none();
    switch ((cr_region_kind)r->kind) {
    case CR_REGION_COND: return cond_backward(p, r, grads, made);
    case CR_REGION_WHILE: return cr__loop_backward(p, r, grads, made);
    case CR_REGION_FUNCTION: return function_backward(p, r, grads, made);
    default: return cr__sweep_backward(p, r, grads, made);
    }
}

void cr__region_release(cr__region *r) {
    cr_vec_dispose(&r->kept);
    cr_free(r);
}
