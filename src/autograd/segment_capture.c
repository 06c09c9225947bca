/* segment_capture.c: a segment of a walk recorded as a graph: every derivative on fakes, in the walk's order. See
 * walk_graphs.h. */
#include "autograd/segment.h"

#include "passes/passes.h"
#include "trace/trace.h"

#include <stdio.h>

typedef struct recording {
    cr__segment *s;
    cr__entry *e;
    cr_trace *trace;
    cr_fakes fakes;
    cr_tensor **grads;   /* of all members; owned; NULL: none */
    bool offsets;        /* where tensors begin is part of the structure */
    bool *sent;          /* per gradient: the segment has added to it */
    size_t number;       /* where the numbers of what is being opened are */
    unsigned named;      /* inputs so far */
} recording;

void cr__entry_release(cr__entry *e) {
    if (!e || __atomic_sub_fetch(&e->refs, 1, __ATOMIC_ACQ_REL)) return;
    if (e->code.release) e->code.release(e->code.code);
    for (size_t i = 0; i < e->programs.n; i++) cr_aot_release(e->programs.at[i]);
    cr_vec_dispose(&e->programs);
    cr_vec_dispose(&e->symbols);
    cr_vec_dispose(&e->results);
    cr_free(e->dims);
    cr_free(e->ranges);
    cr_free(e->visited);
    cr_env_release(e->env);
    cr_free(e);
}

cr_status cr__entry_create(const cr__segment *s, cr__entry **out) {
    cr__entry *e = cr_calloc(1, sizeof *e);
    if (!e) return CR_ENOMEM;
    e->refs = 1;
    e->nnumbers = s->numbers.n;
    e->dims = cr_calloc(s->numbers.n + 1, sizeof *e->dims);
    e->ranges = cr_calloc(CR__MOST_SYMBOLS, sizeof *e->ranges);
    e->visited = cr_calloc(s->run + 1, sizeof *e->visited);
    cr_status status = e->dims && e->ranges && e->visited ? cr_env_create(&e->env) : CR_ENOMEM;
    if (status) return cr__entry_release(e), status;
    if (s->numbers.n) memcpy(e->dims, s->numbers.at, s->numbers.n * sizeof *e->dims);
    *out = e;
    return CR_OK;
}

/* ---- symbols ---- */

/* One for all numbers that were equal before, and are now. */
static cr_status open_numbers(recording *r, const bool *open, const int64_t *from) {
    struct { int64_t before, now; cr_dim dim; } known[CR__MOST_SYMBOLS];
    cr__entry *e = r->e;
    for (size_t i = 0; open && i < e->nnumbers; i++) {
        size_t k = 0;
        if (!open[i]) continue;
        int64_t now = r->s->numbers.at[i];
        while (k < e->symbols.n && (known[k].before != from[i] || known[k].now != now)) k++;
        if (k == CR__MOST_SYMBOLS) return CR_FAIL(CR_EUNSUPPORTED, "more than %d of its sizes change", (int)k);
        if (k == e->symbols.n) {
            char name[24];
            snprintf(name, sizeof name, "s%zu", k);
            cr_sym symbol = cr_sym_symbol(e->env, name, CR_TYPE_INT, 2, INT64_MAX);
            if (!symbol) return CR_ENOMEM;
            CR_TRY(cr_env_set_hint(e->env, symbol, now));
            CR_TRY(cr_vec_push(&e->symbols, symbol));
            CR_TRY(cr_trace_input_number(r->trace, name, CR_T_INT, symbol));
            known[k].before = from[i];
            known[k].now = now;
            known[k].dim = cr_dim_of(e->env, symbol);
        }
        e->dims[i] = known[k].dim;
    }
    return CR_OK;
}

/* ---- fakes ---- */

/* A fake of the tensor, whose numbers are the next ones; owned. */
static cr_status fake_of(recording *r, const cr_tensor *t, cr_tensor **out) {
    cr_dim *dims = r->e->dims + r->number;
    int rank = t->meta.rank;
    CR_TRY(cr_fake_sized(&r->fakes, t, dims, out));
    (*out)->meta.flags &= (uint8_t)~CR_META_REQUIRES_GRAD;
    if (!r->offsets) (*out)->meta.offset = 0; /* nobody may know */
    for (int d = 0; d < rank; d++) dims[rank + d] = (*out)->meta.stride[d];
    r->number += 2u * (size_t)rank;
    return CR_OK;
}

static cr_status fake_input(recording *r, const char *what, const cr_tensor *t, cr_tensor **out) {
    char name[40];
    CR_TRY(fake_of(r, t, out));
    snprintf(name, sizeof name, "%s_%u", what, r->named++);
    cr_status status = cr_trace_input(r->trace, name, *out);
    if (status) cr_tensor_release(*out);
    else r->e->ninputs++;
    return status;
}

/* What was opened becomes fakes, in place; numbers what they are in this graph. */
static cr_status fake_args(recording *r, const cr__slot *slots, uint32_t *at, cr_arg *args, size_t n) {
    for (size_t i = 0; i < n; i++) {
        cr_arg *items = (cr_arg *)args[i].u.list; /* our own */
        if (args[i].kind == CR_ARG_LIST) CR_TRY(fake_args(r, slots, at, items, args[i].n));
        if (args[i].kind == CR_ARG_INT) {
            cr_dim d = r->e->dims[r->number++];
            if (!cr_dim_is_plain(d)) args[i] = cr_number_arg(r->e->env, cr_dim_sym(r->e->env, d));
        }
        if (args[i].kind != CR_ARG_TENSOR) continue;
        cr_tensor *real = args[i].u.t, *fake;
        CR_TRY(slots[(*at)++].kept ? fake_input(r, "saved", real, &fake) : fake_of(r, real, &fake));
        args[i].u.t = fake;
        cr_tensor_release(real);
    }
    return CR_OK;
}

/* ---- one node ---- */

static cr_status send(recording *r, const cr__edge *e, cr_tensor *grad) {
    size_t place;
    CR_TRY(cr__walk_place(r->s->w, e->node, &place));
    uint32_t member = r->s->w->all.at[place].member;
    if (!member) return CR_FAIL(CR_ERUNTIME, "a gradient goes to a node that is not known");
    uint32_t at = r->s->members.at[member - 1].grad + e->result;
    cr_tensor *sum = grad;
    if (r->grads[at]) {
        const cr_op *op = cr_op_find("aten::add.Tensor");
        cr_arg args[3] = { cr_arg_tensor(r->grads[at]), cr_arg_tensor(grad), op->schema.params[2].fallback }, made;
        CR_TRY(cr_call(op, args, &made));
        sum = made.u.t;
        cr_tensor_release(r->grads[at]);
    } else {
        cr_tensor_retain(sum);
    }
    r->grads[at] = sum;
    r->sent[at] = true;
    return CR_OK;
}

static cr_status send_all(recording *r, const cr_grad_node *n, cr_tensor *const *each) {
    for (uint32_t i = 0; i < n->nslots; i++)
        if (each[i] && cr__walk_wants(r->s->w, &n->slots[i].edge)) CR_TRY(send(r, &n->slots[i].edge, each[i]));
    return CR_OK;
}

static cr_status expand(recording *r, cr_grad_node *n, cr_tensor *const *grads, cr_arg *args, cr_arg *results,
                        cr_tensor **each) {
    cr_arg given[CR__MAX_RESULTS], made[CR_MAX_PARAMS], *items = cr_calloc(n->nouts + 1u, sizeof *items);
    bool needs[CR_MAX_PARAMS];
    uint32_t slot = 0;
    if (!items) return CR_ENOMEM;
    for (uint16_t p = 0; p < n->nargs; p++) {
        uint32_t tensors = cr__count_tensors(&args[p], 1);
        made[p] = cr_arg_none();
        needs[p] = false;
        for (uint32_t k = 0; k < tensors; k++) needs[p] |= cr__walk_wants(r->s->w, &n->slots[slot++].edge);
    }
    cr__walk_shape(n, grads, results, items, given);
    cr_status status = cr_grad_expand(cr_exec_emitter(), n->op, args, results, given, needs, made);
    if (!status) cr__walk_gather(n, args, made, each);
    cr_results_release(made, n->nargs);
    cr_free(items);
    return status;
}

static cr_status record_op(recording *r, cr_grad_node *n, cr_tensor *const *grads, cr_tensor **each) {
    cr_arg args[CR_MAX_PARAMS] = { { 0 } }, results[CR__MAX_RESULTS] = { { 0 } };
    uint64_t lent;
    uint32_t slot = 0, out = 0;
    cr_status status = cr__saved_open(n, false, false, args, &lent, results);
    if (!status) status = fake_args(r, n->slots, &slot, args, n->nargs);
    for (uint16_t i = 0; i < n->nresults && !status; i++) {
        if (results[i].kind == CR_ARG_NONE && n->singles >> i & 1) out++; /* nobody reads it */
        else status = fake_args(r, n->outs, &out, &results[i], 1);
    }
    if (!status) status = expand(r, n, grads, args, results, each);
    cr_results_release(args, n->nargs);
    cr_results_release(results, n->nresults);
    return status;
}

/* The tangent in the dtype and layout that the program was differentiated for; owned. */
static cr_status lay_out(cr_tensor *grad, const cr_tensor *as, cr_tensor **out) {
    const cr_meta *have = &grad->meta, *want = &as->meta;
    bool same = have->dtype == want->dtype && !(have->flags & (CR_META_CONJ | CR_META_NEG));
    for (int d = 0; same && d < want->rank; d++)
        same = cr_dim_known(as->env, have->stride[d], CR_EQ, want->stride[d]) == CR_YES ||
               cr_dim_known(as->env, want->size[d], CR_EQ, 1) == CR_YES;
    if (same) return cr_tensor_retain(*out = grad), CR_OK;
    if (have->flags & (CR_META_CONJ | CR_META_NEG) || cr_meta_is_contiguous(as->env, want, CR_CONTIGUOUS) != CR_YES)
        return CR_FAIL(CR_EUNSUPPORTED, "a compiled program gets a gradient that is laid out otherwise than it "
                                        "expects");
    cr_tensor *cast = NULL;
    cr_arg to[] = { cr_arg_tensor(grad), { .kind = CR_ARG_DTYPE, .u.i = want->dtype } };
    CR_TRY(cr_call_1("aten::to.dtype", to, 2, &cast));
    cr_arg dense[] = { cr_arg_tensor(cast), { .kind = CR_ARG_FORMAT, .u.i = CR_CONTIGUOUS } };
    cr_status status = cr_call_1("aten::clone", dense, 2, out);
    cr_tensor_release(cast);
    return status;
}

/* Saved values and tangents as fakes: all that the graph of the backward part takes. inputs: owned. */
static cr_status program_inputs(recording *r, const cr__inlined *p, cr_tensor *const *grads, cr_arg *inputs,
                                size_t *n) {
    const cr_aot *a = p->aot;
    for (uint32_t i = 0; i < a->cut.nnumbers; i++) {
        cr_arg *number = &inputs[(*n)++];
        *number = p->numbers[i];
        if (number->kind != CR_ARG_INT) continue;
        cr_dim d = r->e->dims[r->number++];
        if (!cr_dim_is_plain(d)) *number = cr_number_arg(r->e->env, cr_dim_sym(r->e->env, d));
    }
    for (uint32_t i = 0; i < a->cut.nsaved; i++) {
        cr_tensor *fake;
        CR_TRY(fake_input(r, "saved", p->saved[i], &fake));
        inputs[(*n)++] = cr_arg_tensor(fake);
    }
    for (uint32_t i = 0; i < a->joint.ntangents; i++) {
        cr_tensor *shape, *as, *laid = NULL;
        CR_TRY(cr_tensor_shape(&p->tangents[i], &shape));
        cr_status status = fake_of(r, shape, &as);
        cr_tensor_release(shape);
        CR_TRY(status);
        if (grads[i]) status = lay_out(grads[i], as, &laid);
        cr_tensor_release(as);
        CR_TRY(status);
        if (laid) inputs[(*n)++] = cr_arg_tensor(laid);
    }
    return CR_OK;
}

static cr_status run_program(recording *r, const cr__inlined *p, cr_graph *g, cr_tensor *const *grads,
                             cr_tensor **each) {
    const cr_aot *a = p->aot;
    size_t n = 0, room = (size_t)a->cut.nnumbers + a->cut.nsaved + a->joint.ntangents;
    cr_arg *inputs = cr_calloc(room + a->joint.nprimals + 1, sizeof *inputs);
    if (!inputs) return CR_ENOMEM;
    cr_arg *results = inputs + room;
    cr_status status = program_inputs(r, p, grads, inputs, &n);
    if (!status) status = cr_graph_run(g, inputs, n, results, a->joint.nprimals);
    for (size_t i = 0; i < a->edges.n && !status; i++) {
        cr_arg *made = &results[a->edges.at[i]];
        each[i] = made->kind == CR_ARG_TENSOR ? made->u.t : NULL;
        *made = cr_arg_none();
    }
    cr_results_release(results, a->joint.nprimals);
    cr_results_release(inputs, n);
    cr_free(inputs);
    return status;
}

static cr_status record_program(recording *r, cr_grad_node *n, const cr__inlined *p, cr_tensor *const *grads,
                                cr_tensor **each) {
    cr__backward *part;
    bool *defined = cr_calloc(p->aot->joint.ntangents + 1u, sizeof *defined), any = false;
    if (!defined) return CR_ENOMEM;
    for (uint32_t i = 0; i < p->aot->joint.ntangents; i++) any |= defined[i] = grads[i] != NULL;
    cr_trace_end(r->trace); /* compiling is no part of the program */
    cr_status status = cr__aot_check_saved(n);
    if (!status) status = cr__aot_backward(p->aot, defined, false, &part);
    cr_trace_begin(r->trace, true);
    cr_free(defined);
    if (status) return status;
    if (!any || part->stale || !part->graph) return CR_FAIL(CR_EUNSUPPORTED, "a compiled program has no backward part");
    CR_TRY(cr_vec_push(&r->e->programs, p->aot));
    cr_aot_retain(p->aot);
    return run_program(r, p, part->graph, grads, each);
}

static cr_status record_node(recording *r, size_t at) {
    cr__member *m = &r->s->members.at[at];
    cr_grad_node *n = m->node;
    cr_tensor **grads = &r->grads[m->grad];
    cr__inlined program;
    bool comes = false;
    for (uint32_t k = 0; k < n->nouts; k++) comes |= grads[k] != NULL;
    r->e->visited[at] = comes;
    if (!comes) return CR_OK;
    for (uint32_t k = 0; k < n->nouts && m->observed; k++)
        if (grads[k]) CR_TRY(cr_vec_push(&r->e->results, (cr__result){ (uint32_t)at, k }));
    cr_tensor **each = cr_calloc(n->nslots + 1u, sizeof *each);
    if (!each) return CR_ENOMEM;
    r->number = m->number;
    r->offsets = cr__segment_reads_offsets(n);
    cr_status status = !n->op && cr__aot_inlined(n, &program) ? record_program(r, n, &program, grads, each)
                                                             : record_op(r, n, grads, each);
    if (!status) status = send_all(r, n, each);
    for (uint32_t i = 0; i < n->nslots; i++) cr_tensor_release(each[i]);
    cr_free(each);
    return status;
}

/* ---- the whole ---- */

/* Gradients that have come already, in the order of the members. */
static cr_status add_grads(recording *r) {
    cr__segment *s = r->s;
    r->number = s->came;
    for (size_t i = 0; i < s->members.n; i++) {
        const cr__pending *p = &s->w->all.at[s->members.at[i].place];
        for (uint32_t k = 0; k < p->node->nouts; k++)
            if (p->grads[k]) CR_TRY(fake_input(r, "grad", p->grads[k], &r->grads[s->members.at[i].grad + k]));
    }
    return CR_OK;
}

static cr_status record_all(recording *r, const bool *open, const int64_t *from) {
    CR_TRY(open_numbers(r, open, from));
    r->e->ninputs = r->e->symbols.n;
    CR_TRY(add_grads(r));
    for (size_t i = 0; i < r->s->run; i++) CR_TRY(record_node(r, i));
    for (size_t i = r->s->run; i < r->s->members.n; i++) {
        const cr__member *m = &r->s->members.at[i];
        for (uint32_t k = 0; k < m->node->nouts; k++)
            if (r->sent[m->grad + k]) CR_TRY(cr_vec_push(&r->e->results, (cr__result){ (uint32_t)i, k }));
    }
    return CR_OK;
}

static cr_status finish(recording *r, cr_graph **out) {
    cr_graph *g = NULL;
    cr_arg *results = cr_calloc(r->e->results.n + 1, sizeof *results);
    if (!results) return CR_ENOMEM;
    for (size_t i = 0; i < r->e->results.n; i++) {
        const cr__result at = r->e->results.at[i];
        results[i] = cr_arg_tensor(r->grads[r->s->members.at[at.member].grad + at.result]);
    }
    cr_status status = cr_trace_finish(r->trace, results, r->e->results.n, &g);
    cr_free(results);
    if (!status) status = cr_graph_set_name(g, "backward");
    if (!status) status = cr_pass_dce(g, out);
    cr_graph_release(g);
    for (size_t i = 0; i < r->e->symbols.n && !status; i++)
        r->e->ranges[i] = cr_sym_range(r->e->env, r->e->symbols.at[i]);
    return status;
}

cr_status cr__segment_capture(cr__segment *s, const bool *open, const int64_t *from, cr__entry **out,
                              cr_graph **graph) {
    recording r = { .s = s };
    *graph = NULL;
    CR_TRY(cr__entry_create(s, &r.e));
    cr_fakes_init(&r.fakes, r.e->env);
    r.grads = cr_calloc(s->ngrads + 1u, sizeof *r.grads);
    r.sent = cr_calloc(s->ngrads + 1u, sizeof *r.sent);
    cr_status status = r.grads && r.sent ? cr_trace_create(r.e->env, &r.trace) : CR_ENOMEM;
    if (!status) {
        cr_trace_begin(r.trace, true);
        status = record_all(&r, open, from);
        cr_trace_end(r.trace);
    }
    if (!status) status = finish(&r, graph);
    for (uint32_t i = 0; r.grads && i < s->ngrads; i++) cr_tensor_release(r.grads[i]);
    cr_free(r.grads);
    cr_free(r.sent);
    cr_trace_release(r.trace);
    cr_fakes_dispose(&r.fakes);
    if (status) {
        cr_graph_release(*graph);
        *graph = NULL;
        cr__entry_release(r.e);
        return status;
    }
    *out = r.e;
    return CR_OK;
}
