/* aot.c: from a recorded program to code: functional, differentiated, cut, compiled. See aot.h. */
#include "autograd/aot_internal.h"

#include "autograd/internal.h"
#include "autograd/path.h"
#include "graph/writes.h"
#include "ops/formula.h"
#include "passes/passes.h"

/* ---- life ---- */

static void code_release(cr_aot_code *c) {
    if (c->release) c->release(c->code);
    *c = (cr_aot_code){ .code = NULL };
}

void cr_aot_retain(cr_aot *a) { __atomic_add_fetch(&a->refs, 1, __ATOMIC_RELAXED); }

void cr_aot_release(cr_aot *a) {
    if (!a || __atomic_sub_fetch(&a->refs, 1, __ATOMIC_ACQ_REL)) return;
    code_release(&a->forward);
    for (size_t i = 0; i < a->backwards.n; i++) {
        code_release(&a->backwards.at[i]->code);
        cr_graph_release(a->backwards.at[i]->graph);
        cr__twice_dispose(a->backwards.at[i]);
        cr_free(a->backwards.at[i]->defined);
        cr_free(a->backwards.at[i]);
    }
    cr_vec_dispose(&a->backwards);
    cr_vec_dispose(&a->sources);
    cr_vec_dispose(&a->edges);
    cr_vec_dispose(&a->updates);
    cr_plan_release(a->epilogue);
    cr_plan_release(a->replay);
    cr_free(a->is_input);
    cr_cut_dispose(&a->cut);
    cr_graph_release(a->functional);
    cr_joint_dispose(&a->joint);
    cr_metadata_dispose(&a->meta);
    cr_free(a->wrt);
    cr_free(a->through);
    cr_free(a->saved);
    cr_free(a->drawn);
    cr_free(a->again);
    cr_vec_dispose(&a->stale);
    if (a->compiler.release) a->compiler.release(a->compiler.user);
    cr_free(a);
}

const cr_metadata *cr_aot_metadata(const cr_aot *a) { return &a->meta; }
const cr_joint *cr_aot_joint(const cr_aot *a) { return a->joint.graph ? &a->joint : NULL; }
cr_graph *cr_aot_functional(const cr_aot *a) { return a->functional; }

/* ---- the interpreter ---- */

static cr_status interpret(void *code, const cr_arg *inputs, size_t n, cr_arg *results, size_t nresults) {
    return cr_plan_run(code, inputs, n, results, nresults);
}
static void stop_interpreting(void *code) { cr_plan_release(code); }

cr_status cr_aot_interpret(cr_graph *g, cr_aot_code *out) {
    cr_plan *plan;
    CR_TRY(cr_plan_create(g, &plan));
    *out = (cr_aot_code){ interpret, stop_interpreting, plan };
    return CR_OK;
}

static cr_status compile(cr_aot *a, cr_aot_role role, cr_graph *g, cr_aot_code *out) {
    *out = (cr_aot_code){ .code = NULL };
    if (!a->compiler.compile) return cr_aot_interpret(g, out);
    return a->compiler.compile(a->compiler.user, role, g, out);
}

/* ---- inputs that share memory ---- */

static cr_tensor *root_of(cr_tensor *t) { return t->base ? t->base : t; }

/* Of the inputs that lie in the memory of input `i`, the tensor that they are parts of. The root of one that requires
 * grad goes before others: those are parts of it without history. */
static cr_tensor *common_root(const cr_recorded *r, uint32_t n, uint32_t i) {
    cr_tensor *first = root_of(r->inputs[i]);
    for (uint32_t k = i; k < n; k++) {
        cr_tensor *t = r->inputs[k];
        if (t && t->storage == first->storage && cr_tensor_requires_grad(t)) return root_of(t);
    }
    return first;
}

typedef struct merger {
    cr_aot *a;
    const cr_recorded *r;
    cr_graph *g;
    uint32_t *place; /* per input: its placeholder's node */
    uint32_t *whole; /* per input: the placeholder's node of which it is a part; CR_NO_NODE: it is its own */
    uint32_t *part;  /* per input: the value that it is then */
    uint32_t first;  /* the first node that is no placeholder */
    CR_VEC(cr__source) added;
} merger;

/* In the place of input `i`: the part of `whole` that it is. */
static cr_status take_part(merger *m, uint32_t i, cr_arg whole, bool apart) {
    uint32_t old = cr_graph_node(m->g, m->place[i])->first;
    const cr_meta *meta = cr_graph_value(m->g, old)->meta;
    cr_arg size[CR_MAX_RANK], stride[CR_MAX_RANK], part = whole;
    if (meta->dtype != cr_graph_value(m->g, (uint32_t)whole.u.i)->meta->dtype)
        return CR_FAIL(CR_EUNSUPPORTED, "inputs that share memory have different dtypes, and one of them is written; "
                                        "clone() one of them");
    if (apart && cr_tensor_requires_grad(m->r->inputs[i]))
        return CR_FAIL(CR_EUNSUPPORTED, "inputs that share memory have different histories, and one of them is "
                                        "written; clone() one of them");
    for (int d = 0; d < meta->rank; d++) size[d] = cr_arg_int(meta->size[d]), stride[d] = cr_arg_int(meta->stride[d]);
    cr_graph_insert_before(m->g, m->first);
    cr_emitter *e = cr_graph_emitter(m->g);
    if (apart) CR_TRY(cr_emit_call(e, "aten::detach", &whole, 1, &part));
    cr_arg args[] = { part, cr_arg_list(size, meta->rank), cr_arg_list(stride, meta->rank), cr_arg_int(meta->offset) };
    CR_TRY(cr_emit_call(e, "aten::as_strided", args, 4, &part));
    uint32_t made = cr_graph_value(m->g, (uint32_t)part.u.i)->node;
    cr_graph_insert_before(m->g, CR_NO_NODE);
    CR_TRY(cr_graph_replace(m->g, old, part, made));
    m->part[i] = (uint32_t)part.u.i;
    m->a->meta.inputs[i].detached = apart;
    return CR_OK;
}

/* One input of the code for all that lie in one written memory. */
static cr_status merge(merger *m, uint32_t i) {
    uint32_t n = m->a->meta.ninputs, members = 0, at = CR_NO_VALUE;
    cr_tensor *root = common_root(m->r, n, i);
    for (uint32_t k = 0; k < n; k++) {
        members += m->r->inputs[k] && m->r->inputs[k]->storage == root->storage;
        if (m->r->inputs[k] == root) at = cr_graph_node(m->g, m->place[k])->first;
    }
    if (members == 1) return CR_OK;
    cr__source source = { i, true, true };
    if (at == CR_NO_VALUE) {
        cr_meta meta;
        cr_meta_copy(&meta, &root->meta);
        meta.flags = 0;
        meta.storage = cr_graph_value(m->g, cr_graph_node(m->g, m->place[i])->first)->meta->storage;
        CR_TRY(cr_graph_placeholder(m->g, "base", &meta, &at));
        CR_TRY(cr_vec_push(&m->added, source));
    }
    cr_arg whole = cr__value_arg(m->g, at);
    for (uint32_t k = 0; k < n; k++) {
        cr_tensor *t = m->r->inputs[k];
        if (!t || t->storage != root->storage || t == root) continue;
        if (root_of(t) != root && m->a->meta.inputs[k].mixed && cr_tensor_requires_grad(root))
            return CR_FAIL(CR_EUNSUPPORTED, "input %u shares memory with one that requires grad, without its history, "
                                            "and other tensors are written to it; clone() it",
                           k);
        m->whole[k] = cr_graph_value(m->g, at)->node;
        CR_TRY(take_part(m, k, whole, root_of(t) != root));
    }
    return CR_OK;
}

/* The inputs of the code: those of the program that are left, then roots that were added. */
static cr_status place_sources(merger *m) {
    cr_aot *a = m->a;
    uint32_t *uses = cr_alloc((cr_graph_value_count(m->g) + 1u) * sizeof *uses);
    cr_status status = uses ? CR_OK : CR_ENOMEM;
    if (uses) cr_graph_count_uses(m->g, uses);
    for (uint32_t i = 0; i < a->meta.ninputs && !status; i++) {
        const cr_node *node = cr_graph_node(m->g, m->place[i]);
        bool gone = m->whole[i] != CR_NO_NODE && !uses[node->first]; /* its sizes may still be read off it */
        status = gone ? cr_graph_erase(m->g, m->place[i])
                      : cr_vec_push(&a->sources, ((cr__source){ i, false, m->r->inputs[i] }));
        if (!status && gone) status = cr_graph_rename(m->g, m->part[i], node->target);
    }
    for (size_t i = 0; i < m->added.n && !status; i++) status = cr_vec_push(&a->sources, m->added.at[i]);
    cr_free(uses);
    int32_t at = 0;
    for (uint32_t n = cr_graph_first(m->g); cr_graph_node(m->g, n)->kind == CR_NODE_PLACEHOLDER;
         n = cr_graph_next(m->g, n), at++)
        for (uint32_t i = 0; i < a->meta.ninputs; i++)
            if (m->whole[i] == n) a->meta.inputs[i].base = at;
    return status;
}

static cr_status merge_all(merger *m) {
    uint32_t i = 0, n = cr_graph_first(m->g);
    for (; cr_graph_node(m->g, n)->kind == CR_NODE_PLACEHOLDER; n = cr_graph_next(m->g, n)) {
        m->place[i] = n;
        m->whole[i++] = CR_NO_NODE;
    }
    m->first = n;
    for (i = 0; i < m->a->meta.ninputs; i++) {
        bool first = m->r->inputs[i] != NULL, written = false;
        for (uint32_t k = 0; k < m->a->meta.ninputs && first; k++) {
            bool same = m->r->inputs[k] && m->r->inputs[k]->storage == m->r->inputs[i]->storage;
            if (same && k < i) first = false;
            written |= same && m->a->meta.inputs[k].writes;
        }
        if (first && written) CR_TRY(merge(m, i));
    }
    return place_sources(m);
}

static cr_status merge_inputs(cr_aot *a, const cr_recorded *r, cr_graph *g) {
    merger m = { .a = a, .r = r, .g = g };
    m.place = cr_alloc((a->meta.ninputs + 1u) * sizeof *m.place);
    m.whole = cr_alloc((a->meta.ninputs + 1u) * sizeof *m.whole);
    m.part = cr_alloc((a->meta.ninputs + 1u) * sizeof *m.part);
    cr_status status = m.place && m.whole && m.part ? merge_all(&m) : CR_ENOMEM;
    cr_free(m.part);
    cr_free(m.place);
    cr_free(m.whole);
    cr_vec_dispose(&m.added);
    return status;
}

/* ---- a functional graph ---- */

static bool stop_everywhere(const cr_op *op, void *user) {
    (void)op, (void)user;
    return true;
}

cr_status cr__show_statistics(cr_graph **g) {
    bool any = false;
    cr_graph *shown;
    for (uint32_t n = cr_graph_first(*g); n != CR_NO_NODE; n = cr_graph_next(*g, n)) {
        const cr_node *node = cr_graph_node(*g, n);
        any |= node->kind == CR_NODE_CALL && cr_op_updates_statistics(node->op, node->args);
    }
    if (!any) return CR_OK;
    CR_TRY(cr_pass_decompose_as(*g, &(cr_decomposition){ .stop = stop_everywhere, .keep_writes = true }, &shown));
    cr_graph_release(*g);
    *g = shown;
    return CR_OK;
}

static bool shares(const cr_graph *g, const cr_arg *a, const cr_arg *others, size_t n) {
    const cr_meta *m = a->kind == CR_ARG_VALUE ? cr_graph_value(g, (uint32_t)a->u.i)->meta : NULL;
    for (size_t i = 0; m && i < n; i++) {
        const cr_meta *o = others[i].kind == CR_ARG_VALUE ? cr_graph_value(g, (uint32_t)others[i].u.i)->meta : NULL;
        if (o && o->storage == m->storage) return true;
    }
    return false;
}

/* Every result has memory of its own: a result that would be an input, or another result, is a copy. */
static cr_status separate(cr_graph *g, cr_arg *outputs, size_t n) {
    size_t inputs = cr_graph_input_count(g), i = 0;
    cr_arg *places = cr_graph_alloc(g, (inputs + 1) * sizeof *places);
    if (!places) return CR_ENOMEM;
    for (uint32_t id = cr_graph_first(g); i < inputs; id = cr_graph_next(g, id))
        places[i++] = cr__value_arg(g, cr_graph_node(g, id)->first);
    for (i = 0; i < n; i++)
        if (shares(g, &outputs[i], places, inputs) || shares(g, &outputs[i], outputs, i))
            CR_TRY(cr_emit_call(cr_graph_emitter(g), "aten::clone", &outputs[i], 1, &outputs[i]));
    return CR_OK;
}

/* What functionalize gives last goes first, without what turned out not to be written. */
static cr_status order_outputs(cr_aot *a, cr_graph *g, const uint32_t *mutated, size_t n) {
    const cr_node *output = cr_graph_node(g, cr_graph_output(g));
    size_t roots = a->meta.roots.n, k = 0;
    cr_arg *outputs = cr_graph_alloc(g, (output->nargs + 1u) * sizeof *outputs);
    if (!outputs) return CR_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        cr__source s = a->sources.at[mutated[i]];
        const cr_aot_input *in = &a->meta.inputs[s.input];
        uint32_t place = cr_graph_first(g);
        for (uint32_t j = 0; j < mutated[i]; j++) place = cr_graph_next(g, place);
        cr_arg value = output->args[roots + i];
        if (value.kind == CR_ARG_VALUE && (uint32_t)value.u.i == cr_graph_node(g, place)->first) continue;
        outputs[k++] = value;
        CR_TRY(cr_vec_push(&a->updates, ((cr__update){ mutated[i], in->hidden, in->bumps })));
    }
    for (size_t i = 0; i < roots; i++) outputs[k++] = output->args[i];
    CR_TRY(separate(g, outputs, k));
    return cr_graph_set_output(g, outputs, k);
}

static cr_status make_functional(cr_aot *a, const cr_recorded *r) {
    cr_graph *g, *functional;
    size_t n = a->meta.roots.n;
    CR_TRY(cr_graph_copy(r->graph, &g));
    cr_arg *roots = cr_graph_alloc(g, (n + 1) * sizeof *roots);
    uint32_t *mutated = cr_calloc(a->meta.ninputs * 2 + 1u, sizeof *mutated); /* roots may be added */
    cr_functionalize_options o = { .mutated = mutated, .histories = true };
    cr_status status = roots && mutated ? CR_OK : CR_ENOMEM;
    for (size_t i = 0; i < n && !status; i++) roots[i] = cr__value_arg(g, a->meta.roots.at[i]);
    if (!status) status = cr_graph_set_output(g, roots, n);
    if (!status) status = merge_inputs(a, r, g);
    if (!status) status = cr__show_statistics(&g);
    if (!status) status = cr_pass_functionalize(g, &o, &functional);
    if (!status) {
        a->functional = functional;
        status = cr_graph_verify(functional, CR_VERIFY_FUNCTIONAL);
        if (status)
            status = cr_error_context(status == CR_ENOMEM ? status : CR_EUNSUPPORTED,
                                      "this program writes memory in a way that has no functional form; write it with "
                                      "functional ops");
    }
    if (!status) status = order_outputs(a, a->functional, mutated, o.nmutated);
    cr_free(mutated);
    cr_graph_release(g);
    return status;
}

/* A new value cannot be copied to a tensor of which elements are one (expand): what is written lies beside them. */
static cr_status check_updates(const cr_aot *a, const cr_recorded *r) {
    for (size_t i = 0; i < a->updates.n; i++) {
        cr__source s = a->sources.at[a->updates.at[i].source];
        cr_tensor *t = r->inputs[s.input];
        if (cr_meta_self_overlap(&(s.root ? root_of(t) : t)->meta) == CR_YES)
            return CR_FAIL(CR_EUNSUPPORTED, "input %u is written, and some of its elements are one in memory (an "
                                            "expanded tensor?); clone() it",
                           s.input);
    }
    return CR_OK;
}

/* ---- code ---- */

/* Leaves get their gradients, and hooks see them, as soon as eager code would have them; the others when their turn
 * comes, whatever the order here. */
static cr_status order_edges(cr_aot *a) {
    for (uint32_t i = 0; i < a->sources.n; i++) {
        if (!a->sources.at[i].tensor) continue;
        CR_TRY(cr_vec_push(&a->edges, i));
        for (size_t k = a->edges.n - 1; k && a->joint.finished[a->edges.at[k - 1]] > a->joint.finished[i]; k--) {
            a->edges.at[k] = a->edges.at[k - 1];
            a->edges.at[k - 1] = i;
        }
    }
    return CR_OK;
}

static cr_status differentiate(cr_aot *a, const cr_recorded *r) {
    size_t nresults = a->updates.n + a->meta.roots.n;
    a->wrt = cr_calloc(a->sources.n + 1, sizeof *a->wrt);
    a->through = cr_calloc(nresults + 1, sizeof *a->through);
    if (!a->wrt || !a->through) return CR_ENOMEM;
    for (size_t i = 0; i < a->sources.n; i++) {
        cr_tensor *t = r->inputs[a->sources.at[i].input];
        a->wrt[i] = t && !r->no_grad && cr_tensor_requires_grad(a->sources.at[i].root ? root_of(t) : t);
    }
    for (size_t i = 0; i < nresults; i++) a->through[i] = i >= a->updates.n || !a->updates.at[i].hidden;
    cr_differentiation how = { .wrt = a->wrt, .through = a->through };
    CR_TRY(cr_differentiate(a->functional, &how, &a->joint));
    if (a->joint.ntangents) return order_edges(a);
    cr_joint_dispose(&a->joint); /* nothing requires grad */
    return CR_OK;
}

/* The values of the forward part that the partition saves, and all numbers: they cost nothing, and another backward may
 * need others. */
static cr_status choose_saved(cr_aot *a) {
    const cr_graph *g = a->joint.graph;
    a->saved = cr_calloc(cr_graph_value_count(g) + 1u, sizeof *a->saved);
    a->drawn = cr_calloc(cr_graph_node_limit(g) + 1u, sizeof *a->drawn);
    if (!a->saved || !a->drawn) return CR_ENOMEM;
    cr_partition_options how = a->compiler.partition;
    how.inputs_change = true;
    CR_TRY(cr__cut_choose(&a->joint, &how, a->drawn, a->saved));
    for (uint32_t v = 0; v < cr_graph_value_count(g); v++) {
        const cr_value *value = cr_graph_value(g, v);
        a->saved[v] |= value->node < a->joint.forward_nodes && value->type != CR_T_TENSOR;
    }
    return CR_OK;
}

static cr_status compile_all(cr_aot *a, const cr_recorded *r) {
    cr_graph *plain;
    if (a->joint.graph) {
        CR_TRY(cr__stale_find(r->graph, &a->joint, &a->stale, NULL));
        CR_TRY(cr__stale_check(r->graph, &a->stale));
        CR_TRY(cr__twice_find(a));
        CR_TRY(choose_saved(a));
        CR_TRY(cr__cut_forward(&a->joint, a->saved, a->drawn, &a->cut));
        CR_TRY(cr__cut_share(&a->cut, a->joint.nforward));
        return compile(a, CR_AOT_FORWARD, a->cut.forward, &a->forward);
    }
    CR_TRY(cr_graph_copy(a->functional, &plain));
    cr_status status = cr__drop_histories(plain, NULL);
    if (!status) status = cr_pass_dce(plain, &a->cut.forward);
    cr_graph_release(plain);
    return status ? status : compile(a, CR_AOT_INFERENCE, a->cut.forward, &a->forward);
}

/* The joint graph for these tangents. */
static cr_status joint_of(cr_aot *a, const bool *defined, bool histories, cr_joint *out) {
    bool *through = cr_calloc(a->joint.nforward + 1u, sizeof *through);
    if (!through) return CR_ENOMEM;
    for (uint32_t i = 0; i < a->joint.ntangents; i++) through[a->joint.tangent_of[i]] = defined[i];
    cr_differentiation how = { .wrt = a->wrt, .through = through, .histories = histories };
    cr_status status = cr_differentiate(a->functional, &how, out);
    cr_free(through);
    return status;
}

static cr_status make_code(cr_aot *a, const cr_joint *j, const bool *defined, cr__backward *out) {
    cr_graph *g = NULL;
    CR_TRY(cr__stale_read(&a->stale, &a->joint, j, defined, &out->stale)); /* the forward part is the same */
    if (out->stale) return CR_OK;
    cr_status status = cr__cut_backward(j, a->saved, a->drawn, &g);
    if (!status) status = compile(a, CR_AOT_BACKWARD, g, &out->code);
    if (status) cr_graph_release(g);
    else out->graph = g;
    return status;
}

static cr_status make_backward(cr_aot *a, const bool *defined, cr__backward *out) {
    cr_joint other;
    bool all = true;
    for (uint32_t i = 0; i < a->joint.ntangents; i++) all &= defined[i];
    if (all) return make_code(a, &a->joint, defined, out);
    CR_TRY(joint_of(a, defined, false, &other));
    cr_status status = make_code(a, &other, defined, out);
    cr_joint_dispose(&other);
    return status;
}

static cr_status make_twice(cr_aot *a, cr__backward *of) {
    cr_joint joint;
    CR_TRY(joint_of(a, of->defined, true, &joint));
    cr_status status = cr__twice_graph(a, &joint, of);
    cr_joint_dispose(&joint);
    of->looked = !status;
    return status;
}

static cr_status find_backward(cr_aot *a, const bool *defined, cr__backward **out) {
    size_t bytes = a->joint.ntangents * sizeof *defined;
    for (size_t i = 0; i < a->backwards.n; i++)
        if (!memcmp(a->backwards.at[i]->defined, defined, bytes)) return *out = a->backwards.at[i], CR_OK;
    cr__backward *made = cr_calloc(1, sizeof *made);
    cr_status status = made && (made->defined = cr_alloc(bytes + 1)) ? CR_OK : CR_ENOMEM;
    if (!status) memcpy(made->defined, defined, bytes);
    if (!status) status = cr_vec_reserve(&a->backwards, a->backwards.n + 1);
    if (!status) status = make_backward(a, defined, made);
    if (status) {
        if (made) cr_free(made->defined);
        cr_free(made);
        return status;
    }
    *out = a->backwards.at[a->backwards.n++] = made;
    return CR_OK;
}

cr_status cr__aot_backward(cr_aot *a, const bool *defined, bool twice, cr__backward **out) {
    cr__backward *found = NULL;
    cr__lock(&a->lock);
    cr_status status = find_backward(a, defined, &found);
    if (!status && twice && !found->looked) status = make_twice(a, found);
    cr__unlock(&a->lock);
    *out = found;
    return status;
}

cr_status cr_aot_create(const cr_recorded *recorded, const cr_aot_compiler *compiler, cr_aot **out) {
    cr_aot *a = cr_calloc(1, sizeof *a);
    cr_recorded own = *recorded, *r = &own;
    cr_graph *settled = NULL;
    cr_status status = a ? CR_OK : CR_ENOMEM;
    if (!a) {
        if (compiler->release) compiler->release(compiler->user);
        return status;
    }
    a->refs = 1;
    a->compiler = *compiler;
    CR_TRY_OUT(cr_region_ops_init());
    CR_TRY_OUT(cr_settle_memory(recorded->graph, recorded->inputs, &settled));
    if (settled) own.graph = settled;
    CR_TRY_OUT(cr_metadata_find(r, &a->meta));
    CR_TRY_OUT(make_functional(a, r));
    CR_TRY_OUT(check_updates(a, r));
    CR_TRY_OUT(differentiate(a, r));
    CR_TRY_OUT(compile_all(a, r));
    if (a->meta.epilogue) CR_TRY_OUT(cr_plan_create(a->meta.epilogue, &a->epilogue));
out:
    cr_graph_release(settled);
    if (status) return cr_aot_release(a), status;
    *out = a;
    return CR_OK;
}
