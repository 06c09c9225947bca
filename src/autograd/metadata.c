/* metadata.c: what a program does to its inputs, and what its results are. See aot.h.
 *
 * A tensor of the program is a chain of values: the one that made it, then one "x after" for each write to it. A view
 * is a call away from the tensor it was taken of. Followed back from a result, that leads to its *root*: an input, a
 * constant, or a tensor that the program made, which the compiled code gives. The calls on the way are copied, as they
 * were recorded, into the epilogue's graph. */
#include "autograd/aot.h"

#include "autograd/internal.h"
#include "autograd/path.h"
#include "graph/writes.h"
#include "ops/formula.h"

typedef struct finder {
    const cr_recorded *r;
    cr_graph *g;          /* lists of arguments go to its arena */
    cr_metadata *m;
    uint32_t *from;       /* per value: the value it is, or is a view of; itself: a root */
    bool *needed;         /* per node: the epilogue calls it again */
    int32_t *input_of;    /* per value: its placeholder's index; -1 */
    cr_arg *map;          /* per value: what it is in the epilogue's graph; NONE: not there (yet) */
    cr_writes writes;
} finder;

static const cr_node *maker(const finder *f, uint32_t v) { return cr_graph_node(f->g, cr_graph_value(f->g, v)->node); }

static bool is_tensor(const finder *f, const cr_arg *a) {
    return a->kind == CR_ARG_VALUE && cr_graph_value(f->g, (uint32_t)a->u.i)->meta;
}

/* ---- chains ---- */

/* The argument whose memory the value shows; CR_NO_VALUE: none. */
static uint32_t shared_argument(const finder *f, const cr_node *node, const cr_value *v) {
    for (uint16_t i = 0; i < node->nargs; i++) {
        const cr_arg *items = node->args[i].kind == CR_ARG_LIST ? node->args[i].u.list : &node->args[i];
        for (uint32_t k = 0; k < (node->args[i].kind == CR_ARG_LIST ? node->args[i].n : 1); k++) {
            if (!is_tensor(f, &items[k])) continue;
            if (cr_graph_value(f->g, (uint32_t)items[k].u.i)->meta->storage == v->meta->storage)
                return (uint32_t)items[k].u.i;
        }
    }
    return CR_NO_VALUE;
}

static void find_chains(finder *f) {
    int32_t inputs = 0;
    for (uint32_t v = 0; v < cr_graph_value_count(f->g); v++) f->from[v] = v, f->input_of[v] = -1;
    for (uint32_t n = cr_graph_first(f->g); n != CR_NO_NODE; n = cr_graph_next(f->g, n)) {
        const cr_node *node = cr_graph_node(f->g, n);
        if (node->kind == CR_NODE_PLACEHOLDER) f->input_of[node->first] = inputs++;
        for (uint32_t v = node->first; node->kind == CR_NODE_CALL && v < node->first + node->nvalues; v++) {
            const cr_value *value = cr_graph_value(f->g, v);
            uint32_t of = value->meta ? shared_argument(f, node, value) : CR_NO_VALUE;
            if (of != CR_NO_VALUE) f->from[v] = of;
        }
    }
}

/* Does the step from `v` to f->from[v] have to be taken again? A write of data leaves the tensor what it is. */
static bool is_step(const finder *f, uint32_t v) {
    const cr_node *node = maker(f, v);
    bool same = node->op->variant != CR_FUNCTIONAL && !(node->op->base->tags & (CR_TAG_INPLACE_VIEW | CR_TAG_METADATA));
    return !same;
}

static uint32_t root_of(const finder *f, uint32_t v) {
    while (f->from[v] != v) v = f->from[v];
    return v;
}

static bool is_detach(const cr_node *node) { return !strcmp(node->op->base->name, "aten::detach"); }

/* ---- what may be written ---- */

/* What eager code would know of each value when its node has run. */
typedef struct history {
    bool *required; /* gradients */
    uint8_t *view;  /* CR_VIEW_* */
    bool *family;   /* of a root: it or a view of it requires gradients */
} history;

/* What the tape calls its root: nothing beyond detach(). */
static uint32_t tape_root(const finder *f, uint32_t v) {
    while (f->from[v] != v && !is_detach(maker(f, v))) v = f->from[v];
    return v;
}

static bool any_required(const finder *f, const history *h, const cr_arg *args, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (args[i].kind == CR_ARG_LIST && any_required(f, h, args[i].u.list, args[i].n)) return true;
        if (is_tensor(f, &args[i]) && h->required[args[i].u.i]) return true;
    }
    return false;
}

/* A view that eager code refuses to write to while gradients are recorded: one of several, or made without them. A view
 * requires grad when its root does, however it was made: one that was made without of a leaf that is itself a view, of
 * what requires none, is written as if it were detached. */
static cr_status check_inplace(const finder *f, const history *h, const cr_node *node) {
    bool memory = node->op->base->tags & CR_TAG_METADATA;
    if ((node->op->variant != CR_INPLACE && !memory) || node->origin.no_grad || !is_tensor(f, &node->args[0]))
        return CR_OK;
    uint32_t v = (uint32_t)node->args[0].u.i, root = tape_root(f, v);
    cr_tensor *input = f->input_of[root] >= 0 ? f->r->inputs[f->input_of[root]] : NULL;
    bool leaf = input && cr_tensor_requires_grad(input) && cr_autograd_is_leaf(input);
    bool apart = input && input->base && !cr_tensor_requires_grad(input->base);
    bool needs = any_required(f, h, node->args, node->nargs) || (h->view[v] && h->family[root] && !apart);
    if (needs) CR_TRY(cr__refuse_view(node->op->schema.name, h->view[v], false));
    if (needs && memory && !cr__is_set(node->op)) return cr__refuse_resize(node->op);
    return h->required[v] && leaf ? cr__refuse_leaf(node->op, root != v) : CR_OK;
}

static cr_status see_result(const finder *f, history *h, const cr_node *node, uint32_t v, bool needs) {
    const cr_value *value = cr_graph_value(f->g, v);
    bool view = f->from[v] != v, list = node->op->schema.nreturns && node->op->schema.returns[0].list, flows = false;
    if (!value->meta || (view && is_detach(node))) return CR_OK;
    if (cr__is_differentiable(value->meta)) CR_TRY(cr_grad_flows(node->op->base, value->ret, value->meta, &flows));
    h->required[v] = needs && flows && !node->origin.no_grad;
    if (view) h->view[v] = h->view[f->from[v]];
    if (view && node->op->variant == CR_FUNCTIONAL)
        h->view[v] |= (uint8_t)((node->origin.no_grad ? CR_VIEW_NO_GRAD : 0) | (list ? CR_VIEW_ONE_OF_MANY : 0));
    else if (view) h->required[v] |= h->required[f->from[v]]; /* written without: it is what it was */
    h->family[tape_root(f, v)] |= h->required[v];
    return CR_OK;
}

static cr_status check_views(const finder *f, cr_arena *arena) {
    size_t n = cr_graph_value_count(f->g) + 1u;
    history h = { cr_arena_calloc(arena, n, sizeof *h.required), cr_arena_calloc(arena, n, sizeof *h.view),
                  cr_arena_calloc(arena, n, sizeof *h.family) };
    if (!h.required || !h.view || !h.family) return CR_ENOMEM;
    for (uint32_t id = cr_graph_first(f->g); id != CR_NO_NODE; id = cr_graph_next(f->g, id)) {
        const cr_node *node = cr_graph_node(f->g, id);
        if (node->kind == CR_NODE_PLACEHOLDER) {
            const cr_tensor *t = f->r->inputs[f->input_of[node->first]];
            h.required[node->first] = h.family[node->first] = t && cr_tensor_requires_grad(t);
        }
        if (node->kind != CR_NODE_CALL) continue;
        CR_TRY(check_inplace(f, &h, node));
        bool needs = any_required(f, &h, node->args, node->nargs);
        for (uint32_t v = node->first; v < node->first + node->nvalues; v++)
            CR_TRY(see_result(f, &h, node, v, needs));
    }
    return CR_OK;
}

/* ---- writes ---- */

/* Is no history to see what is written to `v`? */
static bool is_hidden(const finder *f, const cr_node *by, uint32_t v) {
    bool hidden = by->origin.no_grad;
    for (; f->from[v] != v && !hidden; v = f->from[v]) {
        const cr_node *node = maker(f, v);
        hidden = is_detach(node) || (node->op->variant == CR_FUNCTIONAL && node->origin.no_grad);
    }
    return hidden;
}

/* Does a write to `v` count as one of its root? */
static bool is_counted(const finder *f, uint32_t v) {
    for (; f->from[v] != v; v = f->from[v])
        if (maker(f, v)->origin.data) return false;
    return true;
}

/* Is it the root itself after writes, not a view of it? */
static bool is_itself(const finder *f, uint32_t v) {
    while (f->from[v] != v && maker(f, v)->op->variant != CR_FUNCTIONAL) v = f->from[v];
    return f->from[v] == v;
}

static const cr_tensor *tensor_root(const cr_tensor *t) { return t->base ? t->base : t; }

static cr_status note_write(finder *f, const cr_write *w) {
    uint32_t root = root_of(f, w->value);
    const cr_node *node = cr_graph_node(f->g, w->node);
    int32_t at = f->input_of[root];
    if (w->kinds & CR_WRITE_META && node->op->base->tags & CR_TAG_METADATA)
        return CR_FAIL(CR_EUNSUPPORTED, "%s changes the memory of a tensor, which compiled programs cannot do; call it "
                                        "outside of the compiled function",
                       node->op->name);
    if (at < 0) return CR_OK;
    for (uint16_t i = 0; i < node->nargs && !node->origin.no_grad; i++)
        f->m->inputs[at].mixed |= !node->op->schema.params[i].writes && is_tensor(f, &node->args[i]);
    /* all that share the memory see it */
    for (uint32_t i = 0; i < f->m->ninputs; i++) {
        const cr_tensor *t = f->r->inputs[i], *x = f->r->inputs[at];
        if (!t || t->storage != x->storage || !(w->kinds & CR_WRITE_DATA)) continue;
        cr_aot_input *in = &f->m->inputs[i];
        if (!(in->writes & CR_WRITE_DATA)) in->hidden = true;
        in->writes |= CR_WRITE_DATA;
        in->hidden &= is_hidden(f, node, w->value) || tensor_root(t) != tensor_root(x);
        in->bumps += is_counted(f, w->value);
    }
    if (!(w->kinds & CR_WRITE_META) || !is_itself(f, w->value)) return CR_OK;
    f->m->inputs[at].writes |= CR_WRITE_META;
    f->m->any_meta = true;
    f->needed[w->node] = true;
    return CR_OK;
}

static cr_status find_inputs(finder *f) {
    for (uint32_t i = 0; i < f->m->ninputs; i++) {
        cr_tensor *t = f->r->inputs[i];
        f->m->inputs[i].base = -1;
        f->m->inputs[i].requires_grad = t && cr_tensor_requires_grad(t);
        f->m->inputs[i].leaf = t && cr_autograd_is_leaf(t);
    }
    for (size_t i = 0; i < f->writes.all.n; i++) CR_TRY(note_write(f, &f->writes.all.at[i]));
    return CR_OK;
}

/* ---- outputs ---- */

static cr_status root_index(finder *f, uint32_t value, int32_t *out) {
    for (size_t i = 0; i < f->m->roots.n; i++)
        if (f->m->roots.at[i] == value) return *out = (int32_t)i, CR_OK;
    *out = (int32_t)f->m->roots.n;
    return cr_vec_push(&f->m->roots, value);
}

/* The result whose object the value is, among those before `n`; -1: none. */
static int32_t find_output(const finder *f, uint32_t value, uint32_t n) {
    const cr_node *output = cr_graph_node(f->g, cr_graph_output(f->g));
    for (uint32_t i = 0; i < n; i++)
        if (output->args[i].kind == CR_ARG_VALUE && (uint32_t)output->args[i].u.i == value) return (int32_t)i;
    return -1;
}

/* What the value is after steps that change nothing: its tensor's first value, or that after the last t_(). */
static uint32_t object_of(const finder *f, uint32_t v) {
    while (f->from[v] != v && !is_step(f, v)) v = f->from[v];
    return v;
}

static cr_status find_output_kind(finder *f, uint32_t i, const cr_arg *a) {
    cr_aot_output *o = &f->m->outputs[i];
    *o = (cr_aot_output){ .kind = CR_AOT_NUMBER, .of = -1, .replayed = -1 };
    if (f->r->is_input && f->r->is_input[i] >= 0) {
        o->kind = CR_AOT_IS_INPUT;
        o->of = f->r->is_input[i];
        return CR_OK;
    }
    if (a->kind != CR_ARG_VALUE)
        return CR_FAIL(CR_EVALUE, "result %u is neither a tensor nor a number of the graph", i);
    uint32_t v = (uint32_t)a->u.i;
    int32_t same = find_output(f, v, i);
    if (same >= 0) {
        o->kind = CR_AOT_IS_OUTPUT;
        o->of = same;
        return CR_OK;
    }
    if (!is_tensor(f, a)) return root_index(f, v, &o->of);
    uint32_t object = object_of(f, v);
    if (f->from[object] != object || maker(f, object)->kind != CR_NODE_CALL) return CR_OK; /* find_views */
    o->kind = CR_AOT_FRESH;
    return root_index(f, object, &o->of);
}

/* The nodes between the value and its root. */
static void need_steps(finder *f, uint32_t v, bool *many) {
    for (; f->from[v] != v; v = f->from[v]) {
        if (!is_step(f, v)) continue;
        const cr_node *node = maker(f, v);
        f->needed[cr_graph_value(f->g, v)->node] = true;
        *many |= node->op->schema.nreturns && node->op->schema.returns[0].list;
    }
}

static cr_status find_view(finder *f, uint32_t i, const cr_arg *a) {
    cr_aot_output *o = &f->m->outputs[i];
    uint32_t v = (uint32_t)a->u.i, root = root_of(f, v);
    need_steps(f, v, &o->one_of_many);
    o->kind = CR_AOT_CONSTANT;
    o->of = f->input_of[root];
    if (o->of >= 0) return o->kind = CR_AOT_OF_INPUT, CR_OK;
    if (maker(f, root)->kind != CR_NODE_CALL) return CR_OK;
    o->kind = CR_AOT_OF_INTERMEDIATE;
    for (uint32_t k = 0; k < f->m->noutputs; k++)
        if (f->m->outputs[k].kind == CR_AOT_FRESH && f->m->roots.at[f->m->outputs[k].of] == root) {
            o->kind = CR_AOT_OF_OUTPUT;
            o->of = (int32_t)k;
            return CR_OK;
        }
    return root_index(f, root, &o->of);
}

static cr_status find_outputs(finder *f) {
    const cr_node *output = cr_graph_node(f->g, cr_graph_output(f->g));
    for (uint32_t i = 0; i < f->m->noutputs; i++) CR_TRY(find_output_kind(f, i, &output->args[i]));
    f->m->nresults = (uint32_t)f->m->roots.n;
    for (uint32_t i = 0; i < f->m->noutputs; i++) {
        const cr_aot_output *o = &f->m->outputs[i];
        if (o->kind == CR_AOT_NUMBER && is_tensor(f, &output->args[i])) CR_TRY(find_view(f, i, &output->args[i]));
    }
    return CR_OK;
}

/* ---- the epilogue's graph ---- */

/* A root is an input of the epilogue, or a constant. */
static cr_status add_root(finder *f, uint32_t v) {
    cr_graph *e = f->m->epilogue;
    const cr_node *node = maker(f, v);
    uint32_t made;
    int32_t root;
    if (f->map[v].kind != CR_ARG_NONE) return CR_OK;
    if (node->kind == CR_NODE_GET_ATTR) {
        if (!cr_graph_constant(e, node->target))
            CR_TRY(cr_graph_add_constant(e, node->target, cr_graph_constant(f->g, node->target)));
        CR_TRY(cr_graph_get_attr(e, node->target, &made));
    } else {
        CR_TRY(root_index(f, v, &root));
        CR_TRY(cr_vec_push(&f->m->needed, (uint32_t)root));
        CR_TRY(cr_graph_placeholder(e, cr_graph_value(f->g, v)->name, cr_graph_value(f->g, v)->meta, &made));
    }
    f->map[v] = cr__value_arg(e, made);
    return CR_OK;
}

typedef cr_status visit_fn(finder *f, const cr_arg *a);
static cr_status visit(finder *f, const cr_arg *a, visit_fn *fn) {
    for (uint32_t i = 0; a->kind == CR_ARG_LIST && i < a->n; i++) CR_TRY(visit(f, &a->u.list[i], fn));
    return a->kind == CR_ARG_LIST ? CR_OK : fn(f, a);
}

static cr_status see_root(finder *f, const cr_arg *a) {
    return is_tensor(f, a) ? add_root(f, root_of(f, (uint32_t)a->u.i)) : CR_OK;
}

static bool is_symbolic(const cr_arg *a) { return a->kind == CR_ARG_INT && !cr_dim_is_plain(a->u.i); }

static cr_status number_value(finder *f, const cr_arg *a, cr_arg *out) {
    cr_graph *e = f->m->epilogue;
    CR_TRY(cr_graph_value_for(e, cr_dim_sym(cr_graph_env(e), a->u.i), out));
    out->given = a->given;
    return CR_OK;
}

static cr_status see_number(finder *f, const cr_arg *a) {
    cr_arg value;
    return is_symbolic(a) ? number_value(f, a, &value) : CR_OK;
}

static cr_status visit_needed(finder *f, visit_fn *fn) {
    for (uint32_t n = cr_graph_first(f->g); n != CR_NO_NODE; n = cr_graph_next(f->g, n)) {
        const cr_node *node = cr_graph_node(f->g, n);
        cr_arg plain[CR_MAX_PARAMS];
        if (!f->needed[n]) continue;
        CR_TRY(cr_graph_plain_args(f->g, node->args, node->nargs, plain));
        for (uint16_t i = 0; i < node->nargs; i++) CR_TRY(visit(f, &plain[i], fn));
    }
    return CR_OK;
}

/* The tensor that the value was there: writes of data change nothing of what it is. */
static cr_arg replayed(const finder *f, uint32_t v) {
    while (f->map[v].kind == CR_ARG_NONE && f->from[v] != v) v = f->from[v];
    return f->map[v];
}

static cr_status replayed_arg(finder *f, const cr_arg *from, cr_arg *to) {
    *to = *from;
    if (is_symbolic(from)) return number_value(f, from, to);
    if (is_tensor(f, from)) *to = replayed(f, (uint32_t)from->u.i);
    to->given = from->given;
    if (from->kind != CR_ARG_LIST) return CR_OK;
    cr_arg *items = cr_graph_alloc(f->m->epilogue, (from->n + 1u) * sizeof *items);
    if (!items) return CR_ENOMEM;
    for (uint32_t i = 0; i < from->n; i++) CR_TRY(replayed_arg(f, &from->u.list[i], &items[i]));
    to->u.list = items;
    return CR_OK;
}

static cr_status replay(finder *f, const cr_node *node) {
    cr_arg plain[CR_MAX_PARAMS], args[CR_MAX_PARAMS];
    uint32_t id;
    cr_graph *e = f->m->epilogue;
    CR_TRY(cr_graph_plain_args(f->g, node->args, node->nargs, plain));
    for (uint16_t i = 0; i < node->nargs; i++) CR_TRY(replayed_arg(f, &plain[i], &args[i]));
    CR_TRY(cr_graph_set_origin(e, &node->origin));
    CR_TRY(cr_graph_call(e, node->op, args, &id));
    const cr_node *made = cr_graph_node(e, id);
    for (uint32_t i = 0; i < node->nvalues && i < made->nvalues; i++)
        f->map[node->first + i] = cr__value_arg(e, made->first + i);
    return CR_OK;
}

static cr_status copy_inputs(finder *f) {
    cr_graph *e = f->m->epilogue;
    for (uint32_t n = cr_graph_first(f->g); n != CR_NO_NODE; n = cr_graph_next(f->g, n)) {
        const cr_node *node = cr_graph_node(f->g, n);
        if (node->kind != CR_NODE_PLACEHOLDER) continue;
        const cr_value *v = cr_graph_value(f->g, node->first);
        uint32_t made;
        CR_TRY(v->meta ? cr_graph_placeholder(e, node->target, v->meta, &made)
                       : cr_graph_placeholder_number(e, node->target, (cr_type)v->type, v->expr, &made));
        f->map[node->first] = cr__value_arg(e, made);
    }
    return CR_OK;
}

static bool is_replayed(const cr_aot_output *o) {
    return o->kind == CR_AOT_OF_INPUT || o->kind == CR_AOT_OF_OUTPUT || o->kind == CR_AOT_OF_INTERMEDIATE ||
           o->kind == CR_AOT_CONSTANT;
}

static cr_status build_epilogue(finder *f) {
    const cr_node *output = cr_graph_node(f->g, cr_graph_output(f->g));
    cr_metadata *m = f->m;
    bool any = m->any_meta;
    uint32_t n = 0;
    for (uint32_t i = 0; i < m->noutputs; i++) any |= is_replayed(&m->outputs[i]);
    if (!any) return CR_OK;
    CR_TRY(cr_graph_create(cr_graph_env(f->g), &m->epilogue));
    cr_arg *outputs = cr_graph_alloc(m->epilogue, (m->noutputs + 1u) * sizeof *outputs);
    if (!outputs) return CR_ENOMEM;
    CR_TRY(copy_inputs(f));
    for (uint32_t i = 0; i < m->noutputs; i++)
        if (is_replayed(&m->outputs[i])) CR_TRY(see_root(f, &output->args[i]));
    CR_TRY(visit_needed(f, see_root));
    /* before anything is called: what changes sizes would change those that are read later */
    CR_TRY(visit_needed(f, see_number));
    for (uint32_t id = cr_graph_first(f->g); id != CR_NO_NODE; id = cr_graph_next(f->g, id))
        if (f->needed[id]) CR_TRY(replay(f, cr_graph_node(f->g, id)));
    for (uint32_t i = 0; i < m->noutputs; i++) {
        if (!is_replayed(&m->outputs[i])) continue;
        m->outputs[i].replayed = (int32_t)n;
        outputs[n++] = replayed(f, (uint32_t)output->args[i].u.i);
    }
    CR_TRY(cr_graph_set_origin(m->epilogue, NULL));
    return cr_graph_set_output(m->epilogue, outputs, n);
}

/* Writes to what the code gives were made when it gives them. */
static cr_status count_root_writes(finder *f) {
    if (!(f->m->bumps = cr_calloc(f->m->roots.n + 1, sizeof *f->m->bumps))) return CR_ENOMEM;
    for (size_t i = 0; i < f->writes.all.n; i++) {
        if (!(f->writes.all.at[i].kinds & CR_WRITE_DATA) || !is_counted(f, f->writes.all.at[i].value)) continue;
        uint32_t root = root_of(f, f->writes.all.at[i].value);
        for (size_t k = 0; k < f->m->roots.n; k++) f->m->bumps[k] += f->m->roots.at[k] == root;
    }
    return CR_OK;
}

/* ---- the whole ---- */

static cr_status find(finder *f, cr_arena *arena) {
    uint32_t values = cr_graph_value_count(f->g), nodes = cr_graph_node_limit(f->g);
    cr_metadata *m = f->m;
    m->ninputs = (uint32_t)cr_graph_input_count(f->g);
    m->noutputs = (uint32_t)cr_graph_result_count(f->g);
    m->inputs = cr_calloc(m->ninputs + 1u, sizeof *m->inputs);
    m->outputs = cr_calloc(m->noutputs + 1u, sizeof *m->outputs);
    f->from = cr_arena_alloc(arena, (values + 1u) * sizeof *f->from);
    f->input_of = cr_arena_alloc(arena, (values + 1u) * sizeof *f->input_of);
    f->map = cr_arena_calloc(arena, values + 1u, sizeof *f->map);
    f->needed = cr_arena_calloc(arena, nodes + 1u, sizeof *f->needed);
    if (!m->inputs || !m->outputs || !f->from || !f->input_of || !f->map || !f->needed) return CR_ENOMEM;
    find_chains(f);
    CR_TRY(cr_writes_find(f->g, CR_SHARING_KNOWN, &f->writes));
    if (!f->r->no_grad && f->writes.all.n) CR_TRY(check_views(f, arena));
    CR_TRY(find_inputs(f));
    CR_TRY(find_outputs(f));
    CR_TRY(build_epilogue(f));
    return count_root_writes(f);
}

cr_status cr_metadata_find(const cr_recorded *r, cr_metadata *out) {
    finder f = { .r = r, .g = r->graph, .m = out };
    cr_arena arena;
    *out = (cr_metadata){ .inputs = NULL };
    if (cr_graph_output(r->graph) == CR_NO_NODE) return CR_FAIL(CR_EVALUE, "the graph has no output yet");
    cr_arena_init(&arena);
    cr_status status = find(&f, &arena);
    cr_writes_dispose(&f.writes);
    cr_arena_dispose(&arena);
    if (status) cr_metadata_dispose(out);
    return status;
}

void cr_metadata_dispose(cr_metadata *m) {
    cr_free(m->inputs);
    cr_free(m->outputs);
    cr_free(m->bumps);
    cr_free(m->why);
    cr_vec_dispose(&m->roots);
    cr_vec_dispose(&m->needed);
    cr_graph_release(m->epilogue);
    *m = (cr_metadata){ .inputs = NULL };
}

void cr_metadata_print(const cr_metadata *m, cr_str *out) {
    static const char *const kinds[CR_AOT_KIND_COUNT] = {
        "fresh, of the code's", "is input", "is output", "view of input", "view of output", "view of the code's",
        "constant", "number, of the code's",
    };
    if (m->why) {
        cr_str_addf(out, "runs on the tape, as recorded: %s\n", m->why);
        return;
    }
    for (uint32_t i = 0; i < m->ninputs; i++) {
        const cr_aot_input *in = &m->inputs[i];
        cr_str_addf(out, "input %u:%s%s%s%s%s", i, in->requires_grad ? " requires grad" : "", in->leaf ? " leaf" : "",
                    in->writes & CR_WRITE_DATA ? " written" : "", in->writes & CR_WRITE_META ? " reshaped" : "",
                    in->writes & CR_WRITE_DATA && in->hidden ? " unseen" : "");
        if (in->bumps) cr_str_addf(out, " %u times", in->bumps);
        if (in->base >= 0) cr_str_addf(out, " part of the code's input %d", in->base);
        cr_str_add(out, "\n");
    }
    for (uint32_t i = 0; i < m->noutputs; i++) {
        const cr_aot_output *o = &m->outputs[i];
        cr_str_addf(out, "output %u: %s", i, kinds[o->kind]);
        if (o->of >= 0) cr_str_addf(out, " %d", o->of);
        cr_str_addf(out, "%s\n", o->one_of_many ? ", one of many" : "");
    }
}
