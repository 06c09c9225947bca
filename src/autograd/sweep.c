/* sweep.c: derivatives of loops: map, scan, associative_scan and while_loop. See regions.h. */
#include "autograd/regions.h"

#include "autograd/cut.h"
#include "graph/writes.h"

/* A placeholder of dense memory with the sizes of the value, without its first `sliced` dimensions. */
static cr_status dense(cr_graph *g, const cr_value *v, int sliced, cr_arg *out) {
    cr_meta meta;
    uint32_t made;
    cr_meta_init(&meta, v->meta->dtype, v->meta->device);
    CR_TRY(cr_meta_set_dense(cr_graph_env(g), &meta, v->meta->rank - sliced, v->meta->size + sliced, CR_CONTIGUOUS));
    CR_TRY(cr_graph_placeholder(g, v->name, &meta, &made));
    *out = cr__value_arg(g, made);
    return CR_OK;
}

/* ---- what is saved of each step ---- */

/* Numbers, then tensors, as cr__cut_backward takes them. */
static cr_status list_kept(cr__region *r, const cr_joint *j) {
    for (int tensors = 0; tensors < 2; tensors++) {
        int32_t place = 0;
        for (uint32_t n = cr_graph_first(j->graph); n != CR_NO_NODE; n = cr_graph_next(j->graph, n)) {
            const cr_node *node = cr_graph_node(j->graph, n);
            bool primal = node->kind == CR_NODE_PLACEHOLDER && n < j->forward_nodes;
            for (uint32_t v = node->first; v < node->first + node->nvalues && n < j->forward_nodes; v++) {
                if (!r->saved[v] || (cr_graph_value(j->graph, v)->type == CR_T_TENSOR) != (bool)tensors) continue;
                if (!tensors && !primal)
                    return CR_FAIL(CR_ENOTIMPL, "%s: its derivative needs the number %%%s, which a step reads from "
                                                "data; compute it before, or keep it in a tensor",
                                   r->op->name, cr_graph_value(j->graph, v)->name);
                CR_TRY(cr_vec_push(&r->kept, ((cr__kept){ v, primal ? place : -1, cr_arg_none() })));
            }
            place += primal;
        }
    }
    return CR_OK;
}

static cr_status choose_kept(cr__path *p, cr__region *r, const cr_joint *j) {
    cr_partition_options how = { .kind = CR_PARTITION_MIN_CUT, .budget = 1 };
    r->saved = cr_graph_alloc(p->to, (cr_graph_value_count(j->graph) + 1u) * sizeof *r->saved);
    if (!r->saved) return CR_ENOMEM;
    memset(r->saved, 0, cr_graph_value_count(j->graph) * sizeof *r->saved);
    CR_TRY(cr__cut_choose(j, &how, NULL, r->saved));
    return list_kept(r, j);
}

/* ---- there ---- */

static bool is_carried(const cr__region *r, const cr__kept *k) {
    return k->primal >= 0 && (uint32_t)k->primal < r->ncarried;
}
static bool is_slice(const cr__region *r, const cr__kept *k) {
    return k->primal >= 0 && (uint32_t)k->primal >= r->ncarried && (uint32_t)k->primal < r->ncarried + r->nslices;
}

/* The body with what is kept of a step behind its results: what it computes, then what was carried into it. */
static cr_status widen(cr__region *r, cr_cut *cut, const char *name) {
    cr_graph *g = cut->forward;
    const cr_node *output = cr_graph_node(g, cr_graph_output(g));
    size_t n = output->nargs;
    cr_arg *outputs = cr_graph_alloc(g, (n + r->ncarried + 1) * sizeof *outputs);
    if (!outputs) return CR_ENOMEM;
    memcpy(outputs, output->args, n * sizeof *outputs);
    for (size_t i = 0; i < r->kept.n; i++) {
        const cr__kept *k = &r->kept.at[i];
        if (!is_carried(r, k)) continue;
        outputs[n] = cr__value_arg(g, cr__input_value(g, (uint32_t)k->primal));
        CR_TRY(cr_emit_call(cr_graph_emitter(g), "aten::clone", &outputs[n], 1, &outputs[n]));
        n++;
    }
    CR_TRY(cr_graph_set_output(g, outputs, n));
    return cr_graph_set_name(g, name);
}

static void name_stacks(const cr__path *p, cr__region *r) {
    uint32_t at = cr_graph_node(p->to, r->node)->first;
    for (uint32_t i = 0; i < r->nresults; i++) r->results[i] = cr__value_arg(p->to, at++);
    for (int carried = 0; carried < 2; carried++)
        for (size_t i = 0; i < r->kept.n; i++) {
            cr__kept *k = &r->kept.at[i];
            if (carried ? is_carried(r, k) : k->primal < 0) k->stack = cr__value_arg(p->to, at++);
        }
}

/* The operands as the op's lists: map(body, xs, others), scan(body, carried, xs, others). */
static cr_status call_sweep(cr__path *p, const cr__region *r, const char *op, cr_graph *body, uint32_t *node) {
    cr_arg args[4] = { cr__arg(CR_ARG_GRAPH, 0) };
    uint32_t shared = r->ncarried + r->nslices;
    int n = 1;
    args[0].u.graph = body;
    const cr_op *found = cr_op_find(op);
    if (!found) return CR_FAIL(CR_ENOTFOUND, "there is no op '%s'", op);
    if (cr_op_facts(found)->region.carried) args[n++] = cr_arg_list(r->operands, r->ncarried);
    args[n++] = cr_arg_list(r->operands + r->ncarried, r->nslices);
    args[n] = cr_arg_list(r->operands + shared, r->noperands - shared);
    return cr__region_call(p, found, args, &body, 1, node);
}

/* r->wrt says what gradients are due; results and their liveness are found out. */
static cr_status sweep(cr__path *p, cr__region *r, const char *op, const char *name) {
    cr_joint j;
    cr_cut cut = { .forward = NULL };
    CR_TRY(cr_differentiate(r->body[0], &(cr_differentiation){ .wrt = r->wrt }, &j));
    cr_status status = choose_kept(p, r, &j);
    if (!status) status = cr__cut_forward(&j, r->saved, NULL, &cut);
    cr_joint_dispose(&j);
    if (!status) status = widen(r, &cut, name);
    if (!status) status = call_sweep(p, r, op, cut.forward, &r->node);
    cr_cut_dispose(&cut);
    if (!status) name_stacks(p, r);
    return status;
}

cr_status cr__sweep_forward(cr__path *p, cr__region *r) {
    CR_TRY(cr__region_flows(r, r->body[0]));
    return sweep(p, r, r->op->name, cr_graph_name(r->body[0]));
}

/* ---- and back ---- */

/* One step back: (gradients of what is carried, gradients of what is shared so far; what is kept of the step, gradients
 * of its results; what is shared) -> (carried, so far, gradients of slices). */
typedef struct step_back {
    cr__path *p;
    cr__region *r;
    cr_joint joint;
    cr_graph *part;          /* the backward part of the body */
    const cr_node *gradients; /* its results: one per operand */
    cr_graph *graph;
    cr_arg *given;           /* per placeholder of `part` */
    cr_arg *carried, *sums;  /* per operand: the placeholder of its gradient */
    CR_VEC(cr_arg) first, slices, shared; /* operands of the call */
    bool turned;             /* from the last slice on */
} step_back;

static void step_dispose(step_back *s) {
    cr_joint_dispose(&s->joint);
    cr_graph_release(s->part);
    cr_graph_release(s->graph);
    cr_vec_dispose(&s->first);
    cr_vec_dispose(&s->slices);
    cr_vec_dispose(&s->shared);
}

static bool is_due(const step_back *s, uint32_t operand) {
    return s->r->wrt[operand] && s->gradients->args[operand].kind != CR_ARG_NONE;
}

static cr_status open_part(step_back *s, const cr_arg *grads) {
    cr__region *r = s->r;
    bool *through = cr_graph_alloc(s->p->to, (r->nresults + 1u) * sizeof *through);
    if (!through) return CR_ENOMEM;
    for (uint32_t i = 0; i < r->nresults; i++)
        through[i] = grads[i].kind == CR_ARG_VALUE || (i < r->ncarried && r->wrt[i]);
    CR_TRY(cr_differentiate(r->body[0], &(cr_differentiation){ .wrt = r->wrt, .through = through }, &s->joint));
    CR_TRY(cr__cut_backward(&s->joint, r->saved, NULL, &s->part));
    s->gradients = cr_graph_node(s->part, cr_graph_output(s->part));
    for (uint32_t i = 0; i < r->ncarried; i++) s->turned |= r->wrt[i];
    CR_TRY(cr_graph_create(cr_graph_env(s->p->to), &s->graph));
    size_t n = r->kept.n + s->joint.ntangents + 1u;
    s->given = cr_graph_alloc(s->graph, n * sizeof *s->given);
    s->carried = cr_graph_alloc(s->graph, (r->noperands + 1u) * sizeof *s->carried);
    s->sums = cr_graph_alloc(s->graph, (r->noperands + 1u) * sizeof *s->sums);
    return s->given && s->carried && s->sums ? CR_OK : CR_ENOMEM;
}

static cr_status dense_input(step_back *s, const cr_arg *value, bool sliced, cr_arg *out) {
    return dense(s->graph, cr_graph_value(s->p->to, (uint32_t)value->u.i), sliced, out);
}

static cr_status call_1(cr__path *p, const char *name, const cr_arg *args, size_t n, cr_arg *out) {
    return cr_emit_call(p->append, name, args, n, out);
}

static cr_status flip(cr__path *p, const cr_arg *a, cr_arg *out) {
    const cr_arg zero = cr_arg_int(0);
    return call_1(p, "aten::flip", (cr_arg[]){ *a, cr_arg_list(&zero, 1) }, 2, out);
}

/* Dense, as the body carries it. */
static cr_status dense_grad(cr__path *p, const cr_arg *grad, cr_arg *out) {
    const cr_meta *m = cr_graph_value(p->to, (uint32_t)grad->u.i)->meta;
    cr_arg format = cr__arg(CR_ARG_FORMAT, 0);
    format.u.i = CR_CONTIGUOUS;
    if (cr_meta_is_contiguous(cr_graph_env(p->to), m, CR_CONTIGUOUS) == CR_YES) return *out = *grad, CR_OK;
    return call_1(p, "aten::clone", (cr_arg[]){ *grad, format }, 2, out);
}

static cr_status add_carried(step_back *s, const cr_arg *grads) {
    cr__region *r = s->r;
    cr_arg first;
    for (uint32_t i = 0; i < r->ncarried; i++) {
        if (!r->wrt[i]) continue;
        CR_TRY(grads[i].kind == CR_ARG_VALUE ? dense_grad(s->p, &grads[i], &first)
                                             : cr__zeros_like(s->p->append, &r->results[i], &first));
        CR_TRY(cr_vec_push(&s->first, first));
        CR_TRY(dense_input(s, &first, false, &s->carried[i]));
    }
    for (uint32_t i = r->ncarried + r->nslices; i < r->noperands; i++) {
        if (!is_due(s, i)) continue;
        CR_TRY(cr__zeros_like(s->p->append, &r->operands[i], &first));
        CR_TRY(cr_vec_push(&s->first, first));
        CR_TRY(dense_input(s, &first, false, &s->sums[i]));
    }
    return CR_OK;
}

static cr_status add_slice(step_back *s, cr_arg stack, cr_arg *out) {
    if (s->turned) CR_TRY(flip(s->p, &stack, &stack));
    CR_TRY(cr_vec_push(&s->slices, stack));
    return dense_input(s, &stack, true, out);
}

/* Placeholders in the order in which the region hands operands in: carried, slices, shared. */
static cr_status add_inputs(step_back *s, const cr_arg *grads) {
    cr__region *r = s->r;
    CR_TRY(add_carried(s, grads));
    for (size_t i = 0; i < r->kept.n; i++) {
        const cr__kept *k = &r->kept.at[i];
        if (k->stack.kind != CR_ARG_NONE) CR_TRY(add_slice(s, k->stack, &s->given[i]));
        else if (is_slice(r, k)) CR_TRY(add_slice(s, r->operands[k->primal], &s->given[i]));
    }
    for (uint32_t i = 0; i < s->joint.ntangents; i++) {
        uint32_t of = s->joint.tangent_of[i];
        if (of < r->ncarried) s->given[r->kept.n + i] = s->carried[of];
        else CR_TRY(add_slice(s, grads[of], &s->given[r->kept.n + i]));
    }
    if (!s->slices.n) {
        cr_arg unused;
        CR_TRY(add_slice(s, r->operands[r->ncarried], &unused)); /* says how many steps there were */
    }
    for (size_t i = 0; i < r->kept.n; i++) {
        const cr__kept *k = &r->kept.at[i];
        if (k->primal < 0 || (uint32_t)k->primal < r->ncarried + r->nslices) continue;
        const cr_arg *operand = &r->operands[k->primal];
        s->given[i] = *operand;
        if (operand->kind != CR_ARG_VALUE) continue;
        CR_TRY(cr__mirror(s->graph, s->p->to, (uint32_t)operand->u.i, &s->given[i]));
        CR_TRY(cr_vec_push(&s->shared, *operand));
    }
    return CR_OK;
}

static cr_status finish_step(step_back *s, cr_graph **out) {
    cr__region *r = s->r;
    cr_emitter *e = cr_graph_emitter(s->graph);
    cr_arg *grads = cr_graph_alloc(s->graph, (r->noperands + 1u) * sizeof *grads);
    cr_arg *outputs = cr_graph_alloc(s->graph, (r->noperands + 1u) * sizeof *outputs);
    size_t n = 0;
    if (!grads || !outputs) return CR_ENOMEM;
    CR_TRY(cr__graph_inline(s->graph, s->part, s->given, grads));
    for (uint32_t i = 0; i < r->ncarried; i++) {
        if (!r->wrt[i]) continue;
        if (is_due(s, i)) outputs[n++] = grads[i];
        else CR_TRY(cr__zeros_like(e, &s->carried[i], &outputs[n++]));
    }
    for (uint32_t i = r->ncarried + r->nslices; i < r->noperands; i++)
        if (is_due(s, i))
            CR_TRY(cr_emit_call(e, "aten::add.Tensor", (cr_arg[]){ s->sums[i], grads[i] }, 2, &outputs[n++]));
    for (uint32_t i = r->ncarried; i < r->ncarried + r->nslices; i++)
        if (is_due(s, i)) outputs[n++] = grads[i];
    return cr__body_finish(s->graph, outputs, n, "backward_body", out);
}

static cr_status call_back(step_back *s, cr_graph *body, cr_arg *made) {
    cr__region *r = s->r;
    uint32_t node;
    const cr_op *scan = cr_op_find("higher_order::scan");
    if (!scan) return CR_FAIL(CR_ENOTFOUND, "there is no op 'higher_order::scan'");
    cr_arg args[4] = { cr__arg(CR_ARG_GRAPH, 0), cr_arg_list(s->first.at, s->first.n),
                       cr_arg_list(s->slices.at, s->slices.n), cr_arg_list(s->shared.at, s->shared.n) };
    args[0].u.graph = body;
    CR_TRY(cr__region_call(s->p, scan, args, &body, 1, &node));
    uint32_t at = cr_graph_node(s->p->to, node)->first;
    for (uint32_t i = 0; i < r->ncarried; i++)
        if (r->wrt[i]) made[i] = cr__value_arg(s->p->to, at++);
    for (uint32_t i = r->ncarried + r->nslices; i < r->noperands; i++)
        if (is_due(s, i)) made[i] = cr__value_arg(s->p->to, at++);
    for (uint32_t i = r->ncarried; i < r->ncarried + r->nslices; i++) {
        if (!is_due(s, i)) continue;
        made[i] = cr__value_arg(s->p->to, at++);
        if (s->turned) CR_TRY(flip(s->p, &made[i], &made[i]));
    }
    return CR_OK;
}

cr_status cr__sweep_backward(cr__path *p, cr__region *r, const cr_arg *grads, cr_arg *made) {
    step_back s = { .p = p, .r = r };
    cr_graph *body = NULL;
    bool any = false;
    cr_status status = open_part(&s, grads);
    for (uint32_t i = 0; i < r->noperands && !status; i++) any |= r->wrt[i] && (i < r->ncarried || is_due(&s, i));
    if (!status && any) status = add_inputs(&s, grads);
    if (!status && any) status = finish_step(&s, &body);
    if (!status && any) status = call_back(&s, body, made);
    cr_graph_release(body);
    step_dispose(&s);
    return status;
}

/* ---- while_loop ---- */

/* A body again, with one more input: in front of the others, or behind the first `at`. state not NULL: before it there
 * is one of the generator's state, which the body draws from. */
static cr_status insert_input(const cr_graph *body, uint32_t at, cr_graph **out, cr_arg *added, cr_arg *state,
                              cr_arg *outputs) {
    cr_graph *g;
    cr_meta meta;
    uint32_t n = (uint32_t)cr_graph_input_count(body), made;
    CR_TRY(cr_graph_create(cr_graph_env(body), out));
    g = *out;
    cr_arg *given = cr_graph_alloc(g, (n + 1u) * sizeof *given);
    if (!given) return CR_ENOMEM;
    cr_meta_init(&meta, CR_I64, (cr_device){ 0 });
    for (uint32_t i = 0; i <= n; i++) {
        if (i == at && state) CR_TRY(cr__state_input(g, "step", state));
        if (i == at) {
            CR_TRY(cr_graph_placeholder(g, "step", &meta, &made));
            *added = cr__value_arg(g, made);
        }
        if (i < n) CR_TRY(cr__mirror(g, body, cr__input_value(body, i), &given[i]));
    }
    if (!state) return cr__graph_inline(g, body, given, outputs);
    cr_arg was; /* where the generator goes on afterwards: it is put back as a step of this body leaves it */
    CR_TRY(cr__random_state(g, state, &was));
    CR_TRY(cr__graph_inline(g, body, given, outputs));
    return cr__random_state(g, &was, state);
}

static cr_status counted(cr__region *r, int k, cr_graph **made) {
    const cr_graph *body = r->body[k];
    size_t n = cr_graph_result_count(body);
    cr_arg *outputs = cr_calloc(n + 2, sizeof *outputs), counter, one = cr_arg_int(1);
    cr_status status = outputs ? insert_input(body, 0, made, &counter, NULL, outputs + k) : CR_ENOMEM;
    if (!status && k)
        status = cr_emit_call(cr_graph_emitter(*made), "aten::add.Scalar", (cr_arg[]){ counter, one }, 2, &outputs[0]);
    if (!status) status = cr_graph_set_output(*made, outputs, n + (size_t)k);
    if (!status) status = cr_graph_set_name(*made, cr_graph_name(body));
    cr_free(outputs);
    return status;
}

static cr_status call_counted(cr__path *p, cr__region *r, cr_graph *const *bodies) {
    cr_arg *carried = cr_graph_alloc(p->to, (r->ncarried + 1u) * sizeof *carried);
    cr_arg args[4] = { cr__arg(CR_ARG_GRAPH, 0), cr__arg(CR_ARG_GRAPH, 0) };
    if (!carried) return CR_ENOMEM;
    CR_TRY(call_1(p, "aten::full", (cr_arg[]){ cr_arg_list(NULL, 0), cr_arg_int(0), cr_arg_dtype(CR_I64) }, 3,
                  &carried[0]));
    memcpy(carried + 1, r->operands, r->ncarried * sizeof *carried);
    args[0].u.graph = bodies[0], args[1].u.graph = bodies[1];
    args[2] = cr_arg_list(carried, r->ncarried + 1u);
    args[3] = cr_arg_list(r->operands + r->ncarried, r->noperands - r->ncarried);
    CR_TRY(cr__region_call(p, r->op, args, bodies, 2, &r->node));
    uint32_t at = cr_graph_node(p->to, r->node)->first;
    r->counter = cr__value_arg(p->to, at);
    for (uint32_t i = 0; i < r->nresults; i++) r->results[i] = cr__value_arg(p->to, ++at);
    return CR_OK;
}

cr_status cr__loop_forward(cr__path *p, cr__region *r) {
    cr_graph *bodies[2] = { NULL, NULL };
    for (uint32_t i = 0; i < r->ncarried; i++)
        if (r->operands[i].kind != CR_ARG_VALUE || r->operands[i].type != CR_T_TENSOR)
            return CR_FAIL(CR_ENOTIMPL, "%s has a derivative where it carries tensors alone, and value %u that it "
                                        "carries is a number; carry it as a tensor",
                           r->op->name, i);
    const cr_op *drawing = cr_graph_draws(r->body[0]);
    if (drawing)
        return CR_FAIL(CR_ENOTIMPL, "%s: its condition draws random numbers by %s, and its derivative repeats the "
                                    "steps without it; draw them in the body, and carry them to the condition",
                       r->op->name, drawing->name);
    CR_TRY(cr__region_flows(r, r->body[1]));
    if (cr_graph_draws(r->body[1])) CR_TRY(cr__random_state(p->to, NULL, &r->state));
    cr_status status = counted(r, 0, &bodies[0]);
    if (!status) status = counted(r, 1, &bodies[1]);
    if (!status) status = call_counted(p, r, bodies);
    cr_graph_release(bodies[0]);
    cr_graph_release(bodies[1]);
    return status;
}

/* How many steps there were, as that many slices. */
static cr_status steps_of(cr__path *p, const cr__region *r, cr_arg *out) {
    cr_arg number, none;
    CR_TRY(call_1(p, "aten::_local_scalar_dense", &r->counter, 1, &number));
    CR_TRY(cr_emit_call(p->append, "aten::sym_constrain_range_for_size", &number, 1, &none));
    return call_1(p, "aten::arange", &number, 1, out);
}

/* The loop once more, as a scan that keeps what its backward reads. Where a step draws, it carries the generator's
 * state, behind what the loop carries. */
static cr_status repeat(cr__path *p, const cr__region *r, cr__region *again, cr_graph **body) {
    bool draws = r->state.kind == CR_ARG_VALUE;
    uint32_t ncarried = r->ncarried + draws, n = r->noperands + draws + 1;
    cr_arg unused, state, *outputs = cr_graph_alloc(p->to, (r->nresults + 2u) * sizeof *outputs);
    *again = (cr__region){ .op = r->op, .kind = CR_REGION_SCAN, .noperands = n, .ncarried = ncarried, .nslices = 1,
                           .nresults = r->nresults + draws };
    again->operands = cr_graph_alloc(p->to, n * sizeof *again->operands);
    again->wrt = cr_graph_alloc(p->to, n * sizeof *again->wrt);
    again->live = cr_graph_alloc(p->to, (again->nresults + 1u) * sizeof *again->live);
    again->results = cr_graph_alloc(p->to, (again->nresults + 1u) * sizeof *again->results);
    if (!outputs || !again->operands || !again->wrt || !again->live || !again->results) return CR_ENOMEM;
    memcpy(again->live, r->live, r->nresults * sizeof *again->live);
    if (draws) again->live[r->nresults] = false;
    for (uint32_t i = 0, k = 0; i < n; i++) {
        bool added = i >= r->ncarried && i <= ncarried;
        again->wrt[i] = !added && r->wrt[k];
        if (i == ncarried) CR_TRY(steps_of(p, r, &again->operands[i]));
        else again->operands[i] = added ? r->state : r->operands[k];
        k += !added;
    }
    CR_TRY(insert_input(r->body[1], r->ncarried, body, &unused, draws ? &state : NULL, outputs));
    if (draws) outputs[r->nresults] = state;
    CR_TRY(cr_graph_set_output(*body, outputs, again->nresults));
    again->body[0] = *body;
    return sweep(p, again, "higher_order::scan", cr_graph_name(r->body[1]));
}

cr_status cr__loop_backward(cr__path *p, cr__region *r, const cr_arg *grads, cr_arg *made) {
    cr__region again;
    cr_graph *body = NULL;
    cr_arg *all = cr_graph_alloc(p->to, (r->noperands + 3u) * sizeof *all);
    cr_arg *given = cr_graph_alloc(p->to, (r->nresults + 1u) * sizeof *given);
    if (!all || !given) return CR_ENOMEM;
    for (uint32_t i = 0; i < r->noperands + 3u; i++) all[i] = cr_arg_none();
    memcpy(given, grads, r->nresults * sizeof *given);
    given[r->nresults] = cr_arg_none();
    cr_status status = repeat(p, r, &again, &body);
    if (!status) status = cr__sweep_backward(p, &again, given, all);
    uint32_t added = again.noperands - r->noperands; /* behind what is carried */
    for (uint32_t i = 0; i < r->noperands && !status; i++) made[i] = all[i < r->ncarried ? i : i + added];
    cr_vec_dispose(&again.kept);
    cr_graph_release(body);
    return status;
}

/* ---- associative_scan ---- */

/* The body on dense slices. It gives what it carries on twice: as the next step's, and as a slice of the result. */
static cr_status carrying(const cr_graph *body, uint32_t n, cr_graph **out) {
    uint32_t inputs = (uint32_t)cr_graph_input_count(body);
    CR_TRY(cr_graph_create(cr_graph_env(body), out));
    cr_arg *given = cr_graph_alloc(*out, (inputs + 1u) * sizeof *given);
    cr_arg *outputs = cr_graph_alloc(*out, (2u * n + 1) * sizeof *outputs);
    if (!given || !outputs) return CR_ENOMEM;
    for (uint32_t i = 0; i < inputs; i++) {
        uint32_t v = cr__input_value(body, i);
        CR_TRY(i < 2 * n ? dense(*out, cr_graph_value(body, v), 0, &given[i]) : cr__mirror(*out, body, v, &given[i]));
    }
    CR_TRY(cr__graph_inline(*out, body, given, outputs));
    for (uint32_t i = 0; i < n; i++)
        CR_TRY(cr_emit_call(cr_graph_emitter(*out), "aten::clone", &outputs[i], 1, &outputs[n + i]));
    CR_TRY(cr_graph_set_output(*out, outputs, 2u * n));
    return cr_graph_set_name(*out, cr_graph_name(body));
}

static cr_status first_and_rest(cr__path *p, const cr_arg *x, cr_arg *first, cr_arg *rest) {
    const cr_arg zero = cr_arg_int(0);
    CR_TRY(cr_emit_call(&p->emitter, "aten::select.int", (cr_arg[]){ *x, zero, zero }, 3, first));
    cr_arg format = cr__arg(CR_ARG_FORMAT, 0);
    format.u.i = CR_CONTIGUOUS;
    CR_TRY(cr_emit_call(&p->emitter, "aten::clone", (cr_arg[]){ *first, format }, 2, first));
    return cr_emit_call(&p->emitter, "aten::slice.Tensor",
                        (cr_arg[]){ *x, zero, cr_arg_int(1), cr_arg_int(INT64_MAX) }, 4, rest);
}

static cr_status fold_as_scan(cr__path *p, cr__region *r, cr__region *as) {
    uint32_t n = r->nslices, others = r->noperands - n;
    as->kind = CR_REGION_SCAN;
    as->op = cr_op_find("higher_order::scan");
    as->ncarried = as->nslices = n;
    as->nresults = 2 * n;
    as->noperands = 2 * n + others;
    as->operands = cr_graph_alloc(p->to, (as->noperands + 1u) * sizeof *as->operands);
    as->wrt = cr_graph_alloc(p->to, (as->noperands + 1u) * sizeof *as->wrt);
    as->results = cr_graph_alloc(p->to, (as->nresults + 1u) * sizeof *as->results);
    as->live = cr_graph_alloc(p->to, (as->nresults + 1u) * sizeof *as->live);
    if (!as->op || !as->operands || !as->wrt || !as->results || !as->live) return CR_ENOMEM;
    memset(as->live, 0, as->nresults * sizeof *as->live);
    for (uint32_t i = 0; i < n; i++)
        CR_TRY(first_and_rest(p, &r->operands[i], &as->operands[i], &as->operands[n + i]));
    memcpy(as->operands + 2 * n, r->operands + n, others * sizeof *as->operands);
    for (uint32_t i = 0; i < as->noperands; i++) as->wrt[i] = cr__path_is_live(p, &as->operands[i]);
    CR_TRY(cr__sweep_forward(p, as));
    for (uint32_t i = 0; i < as->nresults; i++) p->live.at[as->results[i].u.i] = as->live[i];
    return CR_OK;
}

cr_status cr__fold_forward(cr__path *p, cr__region *r) {
    cr__region *as = cr_calloc(1, sizeof *as);
    cr_status status = as ? cr_vec_push(&p->regions, as) : CR_ENOMEM;
    uint32_t n = r->nslices;
    cr_graph *body;
    if (status) return cr_free(as), status;
    r->node = as->node = CR_NO_NODE;
    CR_TRY(carrying(r->body[0], n, &body));
    status = cr_vec_push(&p->bodies, body);
    if (status) return cr_graph_release(body), status;
    as->body[0] = body;
    CR_TRY(fold_as_scan(p, r, as));
    for (uint32_t i = 0; i < n; i++) {
        cr_arg parts[2], zero = cr_arg_int(0);
        CR_TRY(cr_emit_call(&p->emitter, "aten::unsqueeze", (cr_arg[]){ as->operands[i], zero }, 2, &parts[0]));
        parts[1] = as->results[n + i];
        cr_arg *list = cr_graph_alloc(p->to, sizeof parts);
        if (!list) return CR_ENOMEM;
        memcpy(list, parts, sizeof parts);
        CR_TRY(cr_emit_call(&p->emitter, "aten::cat", (cr_arg[]){ cr_arg_list(list, 2), zero }, 2, &r->results[i]));
        r->live[i] = cr__path_is_live(p, &r->results[i]);
    }
    return CR_OK;
}
