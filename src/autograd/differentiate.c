/* differentiate.c: the walk back along a recorded graph. See joint.h.
 *
 * path.c has written the forward part, in ops that have derivatives. From its last node to its first, a call whose
 * results have gradients gets the text of its derivative appended; what that gives is added to the gradients of its
 * arguments. Both are arrays by value id: a graph needs no second record of itself. */
#include "autograd/regions.h"

#include "ops/formula.h"

#include <stdio.h>

typedef struct walker {
    cr__path path;
    const cr_op *add;
    cr_arg *sum;       /* per value of the forward part; NONE: no gradient has come yet */
    uint32_t *came;    /* per value: the number of the last gradient that came to it */
    uint32_t gradients; /* so far */
    cr_arena arena;    /* lists of results and their gradients */
} walker;

void cr_joint_dispose(cr_joint *j) {
    cr_graph_release(j->graph);
    cr_free(j->tangent_of);
    cr_free(j->finished);
    cr_vec_dispose(&j->checkpoints);
    cr_vec_dispose(&j->histories);
    *j = (cr_joint){ .graph = NULL };
}

/* ---- sums ---- */

static cr_status add_to(walker *w, const cr_arg *value, const cr_arg *grad) {
    if (grad->kind == CR_ARG_NONE || !cr__path_is_live(&w->path, value)) return CR_OK;
    if (value->kind == CR_ARG_LIST) {
        if (grad->kind != CR_ARG_LIST || grad->n != value->n)
            return CR_FAIL(CR_EVALUE, "the gradient of a list must be a list of as many tensors");
        for (uint32_t i = 0; i < value->n; i++) CR_TRY(add_to(w, &value->u.list[i], &grad->u.list[i]));
        return CR_OK;
    }
    cr_arg *sum = &w->sum[value->u.i];
    w->came[value->u.i] = ++w->gradients;
    if (sum->kind == CR_ARG_NONE) return *sum = *grad, CR_OK;
    if (!w->add && !(w->add = cr_op_find("aten::add.Tensor")))
        return CR_FAIL(CR_ENOTFOUND, "there is no op 'aten::add.Tensor'");
    cr_arg args[3] = { *sum, *grad, cr_arg_int(1) };
    args[2].given = CR_GIVEN_DEFAULT;
    return w->path.append->call(w->path.append, w->add, args, sum);
}

/* ---- one node ---- */

static cr_arg *list(walker *w, uint32_t n) { return cr_arena_calloc(&w->arena, n + 1u, sizeof(cr_arg)); }

/* The results of the call and their gradients, one per return: a Tensor[] is a LIST with NONE entries. */
static cr_status gather(walker *w, const cr_node *node, cr_arg *results, cr_arg *grads, bool *any) {
    const cr_schema *s = &node->op->schema;
    uint32_t at = node->first, end = node->first + node->nvalues;
    *any = false;
    for (uint16_t r = 0; r < s->nreturns; r++) {
        uint32_t n = 0;
        bool some = false;
        while (at + n < end && cr_graph_value(w->path.to, at + n)->ret == r) n++;
        cr_arg *values = list(w, n), *sums = list(w, n);
        if (!values || !sums) return CR_ENOMEM;
        for (uint32_t k = 0; k < n; k++, at++) {
            const cr_value *v = cr_graph_value(w->path.to, at);
            values[k] = v->type == CR_T_TENSOR && !v->meta ? cr_arg_none() : cr__value_arg(w->path.to, at);
            sums[k] = w->sum[at];
            some |= sums[k].kind != CR_ARG_NONE;
        }
        bool one = !s->returns[r].list;
        results[r] = one ? (n ? values[0] : cr_arg_none()) : cr_arg_list(values, n);
        grads[r] = !some ? cr_arg_none() : one ? sums[0] : cr_arg_list(sums, n);
        *any |= some;
    }
    return CR_OK;
}

static bool has_gradient(const walker *w, const cr_node *node) {
    for (uint32_t i = 0; i < node->nvalues; i++)
        if (w->sum[node->first + i].kind != CR_ARG_NONE) return true;
    return false;
}

static cr_status walk_region(walker *w, cr__region *r) {
    cr_arg *grads = list(w, r->nresults), *made = list(w, r->noperands);
    if (!grads || !made) return CR_ENOMEM;
    for (uint32_t i = 0; i < r->nresults; i++) grads[i] = w->sum[r->results[i].u.i];
    CR_TRY(cr_graph_set_origin(w->path.to, &cr_graph_node(w->path.to, r->node)->origin));
    cr_status status = cr__region_backward(&w->path, r, grads, made);
    if (status) return cr_error_context(status, "%s", r->op->schema.name);
    for (uint32_t i = 0; i < r->noperands; i++) CR_TRY(add_to(w, &r->operands[i], &made[i]));
    return CR_OK;
}

static cr_status walk_node(walker *w, const cr_node *node) {
    const cr_schema *s = &node->op->schema;
    cr_arg args[CR_MAX_PARAMS], results[16], grads[16], made[CR_MAX_PARAMS];
    bool needs[CR_MAX_PARAMS], any;
    cr_graph *to = w->path.to;
    if (!has_gradient(w, node)) return CR_OK;
    if (s->varargs_returns)
        return CR_FAIL(CR_ENOTIMPL, "%s has no derivative here; compute its results from tensors that require no grad",
                       node->op->name);
    if (s->nreturns > CR_COUNT(results))
        return CR_FAIL(CR_EUNSUPPORTED, "%s has more than %zu results", node->op->name, CR_COUNT(results));
    CR_TRY(gather(w, node, results, grads, &any));
    for (uint16_t i = 0; i < s->nparams; i++) {
        needs[i] = cr__path_is_live(&w->path, &node->args[i]);
        made[i] = cr_arg_none();
    }
    CR_TRY(cr_graph_plain_args(to, node->args, s->nparams, args));
    CR_TRY(cr_graph_set_origin(to, &node->origin));
    CR_TRY(cr_grad_expand(w->path.append, node->op, args, results, grads, needs, made));
    cr_status status = CR_OK;
    for (uint16_t i = 0; i < s->nparams && !status; i++)
        if (needs[i]) status = add_to(w, &node->args[i], &made[i]);
    cr_results_release(made, s->nparams);
    return status;
}

static cr__region *region_of(const walker *w, uint32_t node) {
    for (size_t i = 0; i < w->path.regions.n; i++)
        if (w->path.regions.at[i]->node == node) return w->path.regions.at[i];
    return NULL;
}

static cr_status walk_back(walker *w, uint32_t last) {
    for (uint32_t n = last, before; n != CR_NO_NODE; n = before) {
        const cr_node *node = cr_graph_node(w->path.to, n);
        before = node->prev;
        if (node->kind != CR_NODE_CALL || n >= w->path.joint->forward_nodes) continue;
        cr__region *region = region_of(w, n);
        if (region && !has_gradient(w, node)) continue;
        cr_status status = region ? walk_region(w, region) : walk_node(w, node);
        if (status)
            return node->nvalues ? cr_error_context(status, "the derivative of %%%s",
                                                    cr_graph_value(w->path.to, node->first)->name)
                                 : status;
    }
    return CR_OK;
}

/* ---- tangents ---- */

/* Of the result's sizes and dtype, laid out as it is where that has no gaps: what comes in otherwise is copied. */
static cr_status add_tangent(walker *w, uint32_t result, const cr_arg *value) {
    cr_joint *j = w->path.joint;
    const cr_meta *of = cr_graph_value(w->path.to, (uint32_t)value->u.i)->meta;
    char name[32];
    cr_meta meta;
    uint32_t made;
    cr_meta_copy(&meta, of);
    meta.offset = 0;
    meta.storage = 0;
    meta.flags = 0;
    cr_layout_like(cr_graph_env(w->path.to), of, &meta);
    snprintf(name, sizeof name, "tangents_%u", j->ntangents + 1);
    CR_TRY(cr_graph_placeholder(w->path.to, name, &meta, &made));
    j->tangent_of[j->ntangents++] = result;
    cr_arg tangent = cr__value_arg(w->path.to, made);
    return add_to(w, value, &tangent);
}

static cr_status add_tangents(walker *w, const cr_differentiation *how, const cr_arg *outputs) {
    for (uint32_t i = 0; i < w->path.joint->nforward; i++)
        if (cr__path_is_live(&w->path, &outputs[i]) && (!how->through || how->through[i]))
            CR_TRY(add_tangent(w, i, &outputs[i]));
    return CR_OK;
}

/* ---- the whole ---- */

static cr_status finish(walker *w, cr_arg *outputs, bool histories) {
    cr_joint *j = w->path.joint;
    uint32_t i = 0;
    for (uint32_t n = cr_graph_first(w->path.to); i < j->nprimals; n = cr_graph_next(w->path.to, n), i++) {
        uint32_t v = cr_graph_node(w->path.to, n)->first;
        outputs[j->nforward + i] = w->sum[v];
        j->finished[i] = w->came[v];
    }
    CR_TRY(cr_graph_set_origin(w->path.to, NULL));
    CR_TRY(cr_graph_set_output(w->path.to, outputs, j->nforward + (size_t)j->nprimals));
    return histories ? CR_OK : cr__drop_histories(w->path.to, j);
}

cr_status cr__stand_in(cr_graph *g, uint32_t value, cr_arg by, uint32_t after) {
    const cr_meta *from = cr_graph_value(g, value)->meta;
    const cr_meta *to = by.kind == CR_ARG_VALUE ? cr_graph_value(g, (uint32_t)by.u.i)->meta : NULL;
    uint64_t storage = from && to && from->storage != to->storage ? from->storage : 0;
    for (uint32_t n = cr_graph_next(g, after); storage && n != CR_NO_NODE; n = cr_graph_next(g, n))
        for (uint32_t v = cr_graph_node(g, n)->first, end = v + cr_graph_node(g, n)->nvalues; v < end; v++) {
            const cr_meta *m = cr_graph_value(g, v)->meta;
            if (!m || m->storage != storage) continue;
            cr_meta moved;
            cr_meta_copy(&moved, m);
            moved.storage = to->storage;
            CR_TRY(cr_graph_set_meta(g, v, &moved));
        }
    return cr_graph_replace(g, value, by, after);
}

bool cr__is_history(const cr_op *op) {
    return cr_op_facts(op)->region.kind == CR_REGION_FUNCTION || !strcmp(op->name, "cresset::with_data");
}

typedef struct dropped {
    cr_joint *joint;
    uint32_t data;
    cr_status status;
} dropped;

static void note_history(void *user, uint32_t v) {
    dropped *d = user;
    if (!d->status) d->status = cr_vec_push(&d->joint->histories, ((cr_history_of){ d->data, v }));
}

/* Whose history the data have: the second argument's, which are a function's inputs. */
static cr_status note_histories(cr_joint *j, const cr_node *node, const cr_arg *data) {
    dropped d = { j, (uint32_t)data->u.i, CR_OK };
    if (j && data->kind == CR_ARG_VALUE) cr_args_visit_values(&node->args[1], 1, note_history, &d);
    return d.status;
}

/* What gave a value other data without its history, or a backward of its own, has served: the data alone stay. */
cr_status cr__drop_histories(cr_graph *g, cr_joint *j) {
    for (uint32_t n = cr_graph_first(g), next; n != CR_NO_NODE; n = next) {
        const cr_node *node = cr_graph_node(g, n);
        next = cr_graph_next(g, n);
        if (node->kind != CR_NODE_CALL) continue;
        if (!cr__is_history(node->op)) continue;
        bool function = cr_op_facts(node->op)->region.kind == CR_REGION_FUNCTION;
        for (uint32_t i = 0; i < node->nvalues; i++) {
            cr_arg data = function ? node->args[2].u.list[i] : node->args[0];
            CR_TRY(note_histories(j, node, &data));
            CR_TRY(cr__stand_in(g, node->first + i, data, n));
        }
        CR_TRY(cr_graph_erase(g, n));
    }
    return CR_OK;
}

static uint32_t last_node(const cr_graph *g) {
    uint32_t last = CR_NO_NODE;
    for (uint32_t n = cr_graph_first(g); n != CR_NO_NODE; n = cr_graph_next(g, n)) last = n;
    return last;
}

static cr_status differentiate(walker *w, const cr_graph *g, const cr_differentiation *how) {
    cr_joint *j = w->path.joint;
    const cr_node *output = cr_graph_node(g, cr_graph_output(g));
    cr_arg *outputs = cr_graph_alloc(w->path.to, (output->nargs + cr_graph_input_count(g) + 1) * sizeof *outputs);
    if (!outputs) return CR_ENOMEM;
    CR_TRY(cr_graph_set_name(w->path.to, cr_graph_name(g)));
    CR_TRY(cr__path_copy(&w->path, g, how, outputs));
    j->nforward = output->nargs;
    j->forward_nodes = cr_graph_node_limit(w->path.to);
    j->tangent_of = cr_alloc((j->nforward + 1u) * sizeof *j->tangent_of);
    j->finished = cr_alloc((j->nprimals + 1u) * sizeof *j->finished);
    w->sum = cr_graph_alloc(w->path.to, (cr_graph_value_count(w->path.to) + 1u) * sizeof *w->sum);
    w->came = cr_arena_calloc(&w->arena, cr_graph_value_count(w->path.to) + 1u, sizeof *w->came);
    if (!j->tangent_of || !j->finished || !w->sum || !w->came) return CR_ENOMEM;
    for (uint32_t v = 0; v < cr_graph_value_count(w->path.to); v++) w->sum[v] = cr_arg_none();
    uint32_t last = last_node(w->path.to);
    CR_TRY(add_tangents(w, how, outputs));
    CR_TRY(walk_back(w, last));
    return finish(w, outputs, how->histories);
}

cr_status cr_differentiate(const cr_graph *g, const cr_differentiation *how, cr_joint *out) {
    const cr_differentiation all = { .wrt = NULL };
    *out = (cr_joint){ .graph = NULL };
    if (cr_graph_output(g) == CR_NO_NODE) return CR_FAIL(CR_EVALUE, "the graph has no output yet");
    CR_TRY(cr_region_ops_init());
    cr_status status = cr_graph_verify(g, CR_VERIFY_FUNCTIONAL);
    if (status) return cr_error_context(status, "only functional graphs are differentiated");
    CR_TRY(cr_graph_create(cr_graph_env(g), &out->graph));
    walker w = { .path = { .to = out->graph, .joint = out } };
    cr_arena_init(&w.arena);
    status = differentiate(&w, g, how ? how : &all);
    cr__path_dispose(&w.path);
    cr_arena_dispose(&w.arena);
    if (status) cr_joint_dispose(out);
    return status;
}
