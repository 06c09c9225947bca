/* twice.c: derivatives of compiled gradients. See aot.h.
 *
 * Where a graph of the gradients is asked for, the joint graph's gradients are a program of their own: compiled as any
 * other is, for the interpreter, and called with the inputs as they were when the first program was called, with their
 * histories. So it is one node again, whose gradients may be asked for a graph again. Where nobody asks, all that costs
 * is this: an input that gradients depend on lives as long as the node, and one that the program writes is copied
 * before. */
#include "autograd/aot_internal.h"

#include "autograd/internal.h"
#include "autograd/path.h"
#include "passes/passes.h"

static void mark_value(void *user, uint32_t v) { ((bool *)user)[v] = true; }

static bool is_concrete(const cr_meta *m) {
    bool plain = cr_dim_is_plain(m->offset);
    for (int d = 0; plain && d < m->rank; d++) plain = cr_dim_is_plain(m->size[d]) && cr_dim_is_plain(m->stride[d]);
    return plain;
}

/* Which values the joint graph's gradients are made of. */
static cr_status mark_made_of(const cr_joint *j, bool *marks) {
    const cr_node *output = cr_graph_node(j->graph, cr_graph_output(j->graph));
    CR_VEC(uint32_t) order = { 0 };
    cr_status status = CR_OK;
    cr_args_visit_values(output->args + j->nforward, output->nargs - j->nforward, mark_value, marks);
    for (uint32_t n = cr_graph_first(j->graph); n != CR_NO_NODE && !status; n = cr_graph_next(j->graph, n))
        status = cr_vec_push(&order, n);
    for (size_t i = order.n; i-- > 0 && !status;) {
        const cr_node *node = cr_graph_node(j->graph, order.at[i]);
        bool any = false;
        for (uint32_t k = 0; k < node->nvalues; k++) any |= marks[node->first + k];
        if (any && node->kind == CR_NODE_CALL) cr_args_visit_values(node->args, node->nargs, mark_value, marks);
    }
    cr_vec_dispose(&order);
    return status;
}

/* Has the program what only differentiation looks at, which the joint graph no longer shows? */
static bool has_histories(const cr_graph *g) {
    bool any = false;
    for (uint32_t n = cr_graph_first(g); n != CR_NO_NODE; n = cr_graph_next(g, n)) {
        const cr_node *node = cr_graph_node(g, n);
        any |= node->kind == CR_NODE_CALL && cr__is_history(node->op);
    }
    return any;
}

cr_status cr__twice_find(cr_aot *a) {
    const cr_joint *j = &a->joint;
    bool *marks = cr_calloc(cr_graph_value_count(j->graph) + 1u, sizeof *marks), known = !has_histories(a->functional);
    a->again = cr_calloc(j->nprimals + 1u, sizeof *a->again);
    cr_status status = marks && a->again ? mark_made_of(j, marks) : CR_ENOMEM;
    uint32_t n = cr_graph_first(j->graph);
    for (uint32_t i = 0; i < j->nprimals && !status; i++, n = cr_graph_next(j->graph, n)) {
        const cr_value *v = cr_graph_value(j->graph, cr_graph_node(j->graph, n)->first);
        a->again[i] = marks[cr_graph_node(j->graph, n)->first];
        known &= v->meta && is_concrete(v->meta);
    }
    /* symbols are known by the inputs' sizes */
    for (uint32_t i = 0; i < j->nprimals && !status && !known; i++) a->again[i] = true;
    cr_free(marks);
    return status;
}

/* ---- the graph ---- */

static bool draws(const cr_graph *g) {
    bool any = false;
    for (uint32_t n = cr_graph_first(g); n != CR_NO_NODE; n = cr_graph_next(g, n)) {
        const cr_node *node = cr_graph_node(g, n);
        any |= node->kind == CR_NODE_CALL && cr_op_draws(node->op, node->args);
    }
    return any;
}

/* The gradients that are due, alone. */
static cr_status give_gradients(const cr_joint *j, cr_graph *g, int32_t *place) {
    const cr_node *output = cr_graph_node(j->graph, cr_graph_output(j->graph));
    cr_arg *due = cr_graph_alloc(g, (j->nprimals + 1u) * sizeof *due);
    int32_t n = 0;
    if (!due) return CR_ENOMEM;
    for (uint32_t i = 0; i < j->nprimals; i++) {
        const cr_arg *made = &output->args[j->nforward + i];
        place[i] = made->kind == CR_ARG_VALUE ? n : -1;
        if (place[i] >= 0) due[n++] = *made;
    }
    return cr_graph_set_output(g, due, (size_t)n);
}

cr_status cr__twice_graph(const cr_aot *a, const cr_joint *j, cr__backward *part) {
    cr_graph *whole, *g = NULL;
    if (!part->place && !(part->place = cr_calloc(j->nprimals + 1u, sizeof *part->place))) return CR_ENOMEM;
    CR_TRY(cr_graph_copy(j->graph, &whole));
    cr_status status = give_gradients(j, whole, part->place);
    if (!status) status = cr_pass_dce(whole, &g);
    for (uint32_t i = 0, n = g ? cr_graph_first(g) : 0, next; i < j->nprimals && !status; i++, n = next) {
        next = cr_graph_next(g, n);
        if (!a->again[i]) status = cr_graph_erase(g, n);
    }
    if (!status && !draws(g)) cr_graph_retain(part->again = g);
    cr_graph_release(g);
    cr_graph_release(whole);
    return status;
}

void cr__twice_dispose(cr__backward *part) {
    for (size_t i = 0; i < part->twices.n; i++) {
        cr_free(part->twices.at[i].required);
        cr_aot_release(part->twices.at[i].aot);
    }
    cr_vec_dispose(&part->twices);
    cr_graph_release(part->again);
    cr_free(part->place);
}

/* The program for inputs of which these require grad; retained. */
static cr_status find_program(cr__backward *part, const cr_arg *args, uint32_t n, cr_aot **out) {
    const cr_aot_compiler interpreter = { .partition = { .kind = CR_PARTITION_DEFAULT, .budget = 1 } };
    cr_tensor **inputs = cr_calloc(n + 1u, sizeof *inputs);
    cr__twice made = { .required = cr_calloc(n + 1u, sizeof *made.required) };
    cr_status status = inputs && made.required ? CR_OK : CR_ENOMEM;
    for (uint32_t i = 0; i < n && !status; i++) {
        inputs[i] = args[i].kind == CR_ARG_TENSOR ? args[i].u.t : NULL;
        made.required[i] = inputs[i] && cr_tensor_requires_grad(inputs[i]);
    }
    *out = NULL;
    for (size_t i = 0; i < part->twices.n && !status && !*out; i++)
        if (!memcmp(part->twices.at[i].required, made.required, n * sizeof *made.required))
            *out = part->twices.at[i].aot;
    if (!*out && !status) {
        const cr_recorded recorded = { .graph = part->again, .inputs = inputs };
        status = cr_vec_reserve(&part->twices, part->twices.n + 1);
        if (!status) status = cr_aot_create(&recorded, &interpreter, &made.aot);
        if (!status) {
            part->twices.at[part->twices.n++] = made;
            *out = made.aot;
            made.required = NULL;
        }
    }
    if (*out) cr_aot_retain(*out);
    cr_free(made.required);
    cr_free(inputs);
    return status;
}

/* ---- one call ---- */

cr_status cr__twice_keep(const cr_aot *a, const cr_arg *inputs, cr__primals *out) {
    uint32_t n = a->joint.nprimals;
    out->at = cr_calloc(n + 1u, sizeof *out->at);
    out->versions = cr_calloc(n + 1u, sizeof *out->versions);
    if (!out->at || !out->versions) return CR_ENOMEM;
    for (uint32_t i = 0; i < n; i++) {
        if (!a->again[i]) continue;
        cr_arg t = inputs[a->sources.at[i].input];
        if (a->sources.at[i].tensor) {
            t = cr_arg_tensor(cr__aot_source(a, inputs, i));
            bool written = cr__aot_is_updated(a, inputs, t.u.t);
            CR_TRY(cr__aot_call_1(written ? "aten::clone" : "aten::detach", &t, 1, false, &t.u.t));
        }
        out->at[i] = t;
    }
    return CR_OK;
}

void cr__twice_remember(const cr_aot *a, cr__primals *p) {
    for (uint32_t i = 0; i < a->joint.nprimals; i++)
        if (p->at[i].kind == CR_ARG_TENSOR) p->versions[i] = cr_tensor_version(p->at[i].u.t);
}

void cr__twice_release(const cr_aot *a, cr__primals *p) {
    if (p->at) cr_results_release(p->at, a->joint.nprimals);
    cr_free(p->at);
    cr_free(p->versions);
    *p = (cr__primals){ NULL, NULL };
}

/* The input as it was, with its history; owned. */
static cr_status primal(const cr_aot *a, const cr__primals *p, const cr_grad_node *node, uint32_t i, cr_arg *out) {
    *out = p->at[i];
    if (out->kind != CR_ARG_TENSOR) return CR_OK;
    cr_tensor *t = out->u.t;
    out->kind = CR_ARG_NONE;
    if (cr_tensor_version(t) != p->versions[i])
        return CR_FAIL(CR_ERUNTIME,
                       "one of the variables needed for gradient computation has been modified by an inplace "
                       "operation: input %u of a compiled function, of whose gradients a graph is asked for; clone() "
                       "it before it is written",
                       a->sources.at[i].input);
    cr_grad_edge edge = { NULL, 0 };
    for (uint32_t e = 0; e < a->edges.n; e++)
        if (a->edges.at[e] == i) edge.node = cr_grad_node_edge(node, e, &edge.result);
    if (edge.node) CR_TRY(cr_autograd_alias(t, edge, &out->u.t));
    else cr_tensor_retain(t);
    out->kind = CR_ARG_TENSOR;
    return CR_OK;
}

cr_status cr__twice_run(cr_aot *a, cr__backward *part, const cr__primals *p, const cr_grad_node *node,
                        cr_tensor *const *grads, cr_tensor **out) {
    uint32_t n = 0, most = a->joint.nprimals + a->joint.ntangents;
    cr_arg *args = cr_calloc(most + a->joint.nprimals + 1u, sizeof *args), *results = args + most;
    cr_aot *program = NULL;
    if (!args) return CR_ENOMEM;
    cr_status status = CR_OK;
    for (uint32_t i = 0; i < a->joint.nprimals && !status; i++)
        if (a->again[i]) status = primal(a, p, node, i, &args[n++]);
    for (uint32_t i = 0; i < a->joint.ntangents && !status; i++) {
        if (!grads[i]) continue;
        cr_tensor_retain(grads[i]);
        args[n++] = cr_arg_tensor(grads[i]);
    }
    if (!status) {
        cr__lock(&a->lock);
        status = find_program(part, args, n, &program);
        cr__unlock(&a->lock);
    }
    if (!status) status = cr_aot_call(program, args, n, results, NULL);
    for (size_t i = 0; i < a->edges.n && !status; i++) {
        int32_t place = part->place[a->edges.at[i]];
        out[i] = place >= 0 ? results[place].u.t : NULL;
    }
    cr_aot_release(program);
    cr_results_release(args, n);
    cr_free(args);
    return status;
}
