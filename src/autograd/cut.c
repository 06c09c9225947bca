/* cut.c: a joint graph cut in two at values that are saved between its parts.
 *
 * What the backward part reads and nobody saved is computed again there. Another backward of the same forward part, for
 * other tangents, is cut at the same values: forward parts of one graph have the same ids. */
#include "autograd/cut.h"

#include "autograd/path.h"
#include "graph/writes.h"

typedef struct cutter {
    const cr_joint *j;
    cr_graph *from, *to;
    const bool *saved; /* per value of the joint graph */
    const bool *drawn; /* per node; NULL: none */
    cr_arg *states;    /* per node that is drawn again: the state before it */
    bool *needed;      /* per node */
    cr_arg *map;       /* per value; NONE: not there */
    CR_VEC(uint32_t) stack;
    cr_status status;
} cutter;

static bool is_tensor(const cr_graph *g, uint32_t v) { return cr_graph_value(g, v)->type == CR_T_TENSOR; }

/* ---- what is read ---- */

typedef struct marks { const cr_joint *j; bool *saved; } marks;

static void mark(void *user, uint32_t v) {
    marks *m = user;
    const cr_node *node = cr_graph_node(m->j->graph, cr_graph_value(m->j->graph, v)->node);
    if (cr_graph_value(m->j->graph, v)->node < m->j->forward_nodes && node->kind != CR_NODE_GET_ATTR)
        m->saved[v] = true;
}

/* ---- copying ---- */

static cr_status map_arg(cutter *c, const cr_arg *from, cr_arg *to) {
    *to = *from;
    if (from->kind == CR_ARG_VALUE) {
        *to = c->map[from->u.i];
        if (to->kind == CR_ARG_NONE)
            return CR_FAIL(CR_EVALUE, "%%%s was not saved for the backward part",
                           cr_graph_value(c->from, (uint32_t)from->u.i)->name);
        to->given = from->given;
    } else if (from->kind == CR_ARG_LIST) {
        cr_arg *items = cr_graph_alloc(c->to, (from->n + 1u) * sizeof *items);
        if (!items) return CR_ENOMEM;
        for (uint32_t i = 0; i < from->n; i++) CR_TRY(map_arg(c, &from->u.list[i], &items[i]));
        to->u.list = items;
    } else if (from->kind == CR_ARG_GRAPH) {
        for (size_t i = 0; i < cr_graph_subgraph_count(c->to); i++)
            if (cr_graph_subgraph(c->to, i) == from->u.graph) return CR_OK;
        return cr_graph_add_subgraph(c->to, from->u.graph);
    }
    return CR_OK;
}

cr_status cr__cut_values(const cr_graph *from, const cr_node *node, cr_graph *to, const cr_arg *map, cr_value **out) {
    cr_value *values = *out = cr_graph_alloc(to, (node->nvalues + 1u) * sizeof *values);
    if (!values) return CR_ENOMEM;
    for (uint32_t i = 0; i < node->nvalues; i++) {
        uint32_t shown = cr__value_shows(from, node->first + i);
        values[i] = *cr_graph_value(from, node->first + i);
        if (shown == CR_NO_VALUE || map[shown].kind != CR_ARG_VALUE) continue;
        cr_meta *meta = cr_graph_alloc(to, sizeof *meta);
        if (!meta) return CR_ENOMEM;
        cr_meta_copy(meta, values[i].meta);
        meta->storage = cr_graph_value(to, (uint32_t)map[shown].u.i)->meta->storage;
        values[i].meta = meta;
    }
    return CR_OK;
}

cr_status cr__cut_placeholder(cr_graph *to, const cr_value *value, uint32_t *made) {
    cr_meta meta;
    if (value->type != CR_T_TENSOR)
        return cr_graph_placeholder_number(to, value->name, (cr_type)value->type, value->expr, made);
    cr_meta_copy(&meta, value->meta);
    meta.storage = 0;
    return cr_graph_placeholder(to, value->name, &meta, made);
}

static bool is_drawn(const cutter *c, uint32_t n) { return c->drawn && n < c->j->forward_nodes && c->drawn[n]; }

static cr_status copy_node(cutter *c, const cr_node *node) {
    cr_arg args[CR_MAX_PARAMS];
    cr_value *values;
    uint32_t id;
    if (node->kind == CR_NODE_GET_ATTR) {
        if (!cr_graph_constant(c->to, node->target))
            CR_TRY(cr_graph_add_constant(c->to, node->target, cr_graph_constant(c->from, node->target)));
        CR_TRY(cr_graph_get_attr(c->to, node->target, &id));
        c->map[node->first] = cr__value_arg(c->to, id);
        return CR_OK;
    }
    for (uint16_t i = 0; i < node->nargs; i++) CR_TRY(map_arg(c, &node->args[i], &args[i]));
    CR_TRY(cr_graph_set_origin(c->to, &node->origin));
    CR_TRY(cr__cut_values(c->from, node, c->to, c->map, &values));
    CR_TRY(cr_graph_call_with(c->to, node->op, args, values, node->nvalues, &id));
    for (uint32_t i = 0; i < node->nvalues; i++)
        if (c->map[node->first + i].kind == CR_ARG_NONE)
            c->map[node->first + i] = cr__value_arg(c->to, cr_graph_node(c->to, id)->first + i);
    return CR_OK;
}

static cr_status add_placeholder(cutter *c, uint32_t v) {
    uint32_t made;
    CR_TRY(cr__cut_placeholder(c->to, cr_graph_value(c->from, v), &made));
    c->map[v] = cr__value_arg(c->to, made);
    return CR_OK;
}

static const char *name_of(const cutter *c, uint32_t n) {
    return cr_graph_value(c->from, cr_graph_node(c->from, n)->first)->name;
}

/* The forward part notes the state before it draws; the backward part draws from that, and goes on where it was. */
static cr_status copy_drawing(cutter *c, uint32_t n, bool again) {
    const cr_node *node = cr_graph_node(c->from, n);
    cr_arg was;
    CR_TRY(cr_graph_set_origin(c->to, &node->origin));
    CR_TRY(cr__random_state(c->to, again ? &c->states[n] : NULL, &was));
    CR_TRY(copy_node(c, node));
    if (again) return cr__random_state(c->to, &was, &was);
    c->states[n] = was;
    return CR_OK;
}

/* ---- what is needed ---- */

static void need(void *user, uint32_t v) {
    cutter *c = user;
    uint32_t n = cr_graph_value(c->from, v)->node;
    if (c->needed[n] || c->map[v].kind != CR_ARG_NONE || c->status) return;
    c->needed[n] = true;
    c->status = cr_vec_push(&c->stack, n);
}

static cr_status need_all(cutter *c) {
    while (c->stack.n && !c->status) {
        const cr_node *node = cr_graph_node(c->from, c->stack.at[--c->stack.n]);
        if (node->kind == CR_NODE_CALL) cr_args_visit_values(node->args, node->nargs, need, c);
    }
    return c->status;
}

/* ---- the parts ---- */

static cr_status begin(cutter *c, cr_graph **out) {
    uint32_t nodes = cr_graph_node_limit(c->from);
    for (uint32_t v = 0; v < cr_graph_value_count(c->from); v++) c->map[v] = cr_arg_none();
    memset(c->needed, 0, nodes * sizeof *c->needed);
    CR_TRY(cr_graph_create(cr_graph_env(c->from), out));
    c->to = *out;
    return CR_OK;
}

/* Sees the saved values in order: tensors or numbers. */
static cr_status each_saved(cutter *c, bool tensors, cr_status (*fn)(cutter *c, uint32_t v)) {
    for (uint32_t n = cr_graph_first(c->from); n != CR_NO_NODE; n = cr_graph_next(c->from, n)) {
        const cr_node *node = cr_graph_node(c->from, n);
        for (uint32_t v = node->first; v < node->first + node->nvalues && n < c->j->forward_nodes; v++)
            if (c->saved[v] && is_tensor(c->from, v) == tensors) CR_TRY(fn(c, v));
    }
    return CR_OK;
}

static cr_status need_saved(cutter *c, uint32_t v) { return need(c, v), c->status; }

/* States are saved tensors, behind the others. */
static void give_states(cutter *c, cr_cut *out, cr_arg *args, size_t *k) {
    for (uint32_t n = cr_graph_first(c->from); n != CR_NO_NODE; n = cr_graph_next(c->from, n)) {
        if (!is_drawn(c, n)) continue;
        out->primal[out->nsaved] = out->result[out->nsaved] = -1;
        out->given[out->nsaved++] = true;
        out->nmade++;
        args[(*k)++] = c->states[n];
    }
}

static cr_status build_forward(cutter *c, cr_cut *out) {
    const cr_node *output = cr_graph_node(c->from, cr_graph_output(c->from));
    uint32_t primal = 0;
    CR_TRY(begin(c, &out->forward));
    for (uint32_t n = cr_graph_first(c->from); primal < c->j->nprimals; n = cr_graph_next(c->from, n), primal++)
        CR_TRY(add_placeholder(c, cr_graph_node(c->from, n)->first));
    cr_args_visit_values(output->args, c->j->nforward, need, c);
    CR_TRY(each_saved(c, true, need_saved));
    CR_TRY(each_saved(c, false, need_saved));
    for (uint32_t n = cr_graph_first(c->from); n != CR_NO_NODE; n = cr_graph_next(c->from, n)) {
        const cr_node *node = cr_graph_node(c->from, n);
        if (n >= c->j->forward_nodes || node->kind != CR_NODE_CALL || cr_node_is_pure(c->from, node)) continue;
        if (!c->needed[n]) CR_TRY(cr_vec_push(&c->stack, n));
        c->needed[n] = true; /* random numbers are drawn, and checks made, as by the program */
    }
    CR_TRY(need_all(c));
    for (uint32_t n = cr_graph_first(c->from); n != CR_NO_NODE; n = cr_graph_next(c->from, n))
        if (c->needed[n] && n < c->j->forward_nodes)
            CR_TRY(is_drawn(c, n) ? copy_drawing(c, n, false) : copy_node(c, cr_graph_node(c->from, n)));
    size_t most = cr_graph_value_count(c->from) + (size_t)cr_graph_node_limit(c->from) + 1;
    cr_arg *args = cr_graph_alloc(c->to, (c->j->nforward + most) * sizeof *args);
    out->primal = cr_alloc(most * sizeof *out->primal);
    out->result = cr_alloc(most * sizeof *out->result);
    out->given = cr_calloc(most, sizeof *out->given);
    if (!args || !out->primal || !out->result || !out->given) return CR_ENOMEM;
    size_t k = 0;
    for (uint32_t i = 0; i < c->j->nforward; i++) CR_TRY(map_arg(c, &output->args[i], &args[k++]));
    for (int tensors = 1; tensors >= 0; tensors--) {
        if (!tensors) give_states(c, out, args, &k);
        for (uint32_t n = cr_graph_first(c->from), place = 0; n != CR_NO_NODE; n = cr_graph_next(c->from, n), place++) {
            const cr_node *node = cr_graph_node(c->from, n);
            for (uint32_t v = node->first; v < node->first + node->nvalues && n < c->j->forward_nodes; v++) {
                if (!c->saved[v] || is_tensor(c->from, v) != (bool)tensors) continue;
                bool primal = tensors && node->kind == CR_NODE_PLACEHOLDER; /* the caller has it already */
                if (tensors) {
                    out->result[out->nsaved] = -1;
                    out->given[out->nsaved] = !primal;
                    out->primal[out->nsaved++] = primal ? (int32_t)place : -1;
                } else {
                    out->nnumbers++;
                }
                out->nmade += tensors && !primal;
                if (!primal) args[k++] = c->map[v];
            }
        }
    }
    CR_TRY(cr_graph_set_origin(c->to, NULL));
    return cr_graph_set_output(c->to, args, k);
}

static cr_status build_backward(cutter *c, cr_graph **out) {
    const cr_node *output = cr_graph_node(c->from, cr_graph_output(c->from));
    cr_arg *args;
    uint32_t i = 0;
    CR_TRY(begin(c, out));
    CR_TRY(each_saved(c, false, add_placeholder));
    CR_TRY(each_saved(c, true, add_placeholder));
    for (uint32_t n = cr_graph_first(c->from); n != CR_NO_NODE; n = cr_graph_next(c->from, n))
        if (is_drawn(c, n)) CR_TRY(cr__state_input(c->to, name_of(c, n), &c->states[n]));
    for (uint32_t n = cr_graph_first(c->from); i < c->j->nprimals + c->j->ntangents; n = cr_graph_next(c->from, n), i++)
        if (i >= c->j->nprimals) CR_TRY(add_placeholder(c, cr_graph_node(c->from, n)->first));
    cr_args_visit_values(output->args + c->j->nforward, c->j->nprimals, need, c);
    CR_TRY(need_all(c));
    for (uint32_t n = cr_graph_first(c->from); n != CR_NO_NODE; n = cr_graph_next(c->from, n)) {
        const cr_node *node = cr_graph_node(c->from, n);
        if (!c->needed[n] || node->kind == CR_NODE_PLACEHOLDER) continue;
        if (is_drawn(c, n)) {
            CR_TRY(copy_drawing(c, n, true));
            continue;
        }
        if (n < c->j->forward_nodes && node->kind == CR_NODE_CALL && !cr_node_is_pure(c->from, node))
            return CR_FAIL(CR_EVALUE, "%s would be called again by the backward part", node->op->name);
        CR_TRY(copy_node(c, node));
    }
    if (!(args = cr_graph_alloc(c->to, (c->j->nprimals + 1u) * sizeof *args))) return CR_ENOMEM;
    for (i = 0; i < c->j->nprimals; i++) CR_TRY(map_arg(c, &output->args[c->j->nforward + i], &args[i]));
    CR_TRY(cr_graph_set_origin(c->to, NULL));
    return cr_graph_set_output(c->to, args, c->j->nprimals);
}

static cr_status cutter_init(cutter *c, cr_arena *arena) {
    c->map = cr_arena_alloc(arena, (cr_graph_value_count(c->from) + 1u) * sizeof *c->map);
    c->needed = cr_arena_alloc(arena, (cr_graph_node_limit(c->from) + 1u) * sizeof *c->needed);
    c->states = cr_arena_alloc(arena, (cr_graph_node_limit(c->from) + 1u) * sizeof *c->states);
    return c->map && c->needed && c->states ? CR_OK : CR_ENOMEM;
}

cr_status cr__cut_forward(const cr_joint *j, const bool *saved, const bool *drawn, cr_cut *out) {
    cutter c = { .j = j, .from = j->graph, .saved = saved, .drawn = drawn };
    cr_arena arena;
    *out = (cr_cut){ .forward = NULL };
    cr_arena_init(&arena);
    cr_status status = cutter_init(&c, &arena);
    if (!status) status = build_forward(&c, out);
    cr_vec_dispose(&c.stack);
    cr_arena_dispose(&arena);
    if (status) cr_cut_dispose(out);
    return status;
}

void cr_cut_dispose(cr_cut *c) {
    cr_graph_release(c->forward);
    cr_free(c->primal);
    cr_free(c->result);
    cr_free(c->given);
    *c = (cr_cut){ .forward = NULL };
}

static uint64_t storage_of(const cr_graph *g, const cr_arg *a) {
    const cr_meta *m = a->kind == CR_ARG_VALUE ? cr_graph_value(g, (uint32_t)a->u.i)->meta : NULL;
    return m ? m->storage : 0;
}

cr_status cr__cut_share(cr_cut *c, uint32_t nresults) {
    const cr_node *output = cr_graph_node(c->forward, cr_graph_output(c->forward));
    cr_arg *args = cr_graph_alloc(c->forward, (output->nargs + 1u) * sizeof *args);
    uint32_t n = nresults, at = nresults;
    if (!args) return CR_ENOMEM;
    memcpy(args, output->args, nresults * sizeof *args);
    for (uint32_t i = 0; i < c->nsaved; i++) {
        if (c->primal[i] >= 0) continue;
        const cr_arg *made = &output->args[at++];
        uint64_t memory = storage_of(c->forward, made);
        for (uint32_t k = 0; k < nresults && c->given[i]; k++) {
            bool same = args[k].kind == CR_ARG_VALUE && args[k].u.i == made->u.i;
            if (same || (memory && storage_of(c->forward, &args[k]) == memory)) c->result[i] = (int32_t)k;
            c->given[i] = !same;
        }
        if (c->given[i]) args[n++] = *made;
    }
    c->nmade = n - nresults;
    memcpy(args + n, output->args + at, c->nnumbers * sizeof *args);
    return cr_graph_set_output(c->forward, args, n + c->nnumbers);
}

cr_status cr__cut_backward(const cr_joint *j, const bool *saved, const bool *drawn, cr_graph **out) {
    cutter c = { .j = j, .from = j->graph, .saved = saved, .drawn = drawn };
    cr_arena arena;
    *out = NULL;
    cr_arena_init(&arena);
    cr_status status = cutter_init(&c, &arena);
    if (!status) status = build_backward(&c, out);
    cr_vec_dispose(&c.stack);
    cr_arena_dispose(&arena);
    if (status) {
        cr_graph_release(*out);
        *out = NULL;
    }
    return status;
}

/* Marks the nodes from which the gradients are computed, as far as c->map does not have their values. */
static cr_status need_gradients(cutter *c) {
    const cr_node *output = cr_graph_node(c->from, cr_graph_output(c->from));
    memset(c->needed, 0, cr_graph_node_limit(c->from) * sizeof *c->needed);
    cr_args_visit_values(output->args + c->j->nforward, c->j->nprimals, need, c);
    return need_all(c);
}

/* Everything of the forward part counts as there. */
cr_status cr__cut_reads(const cr_joint *j, bool metas, bool *reads) {
    cutter c = { .j = j, .from = j->graph };
    marks m = { j, reads };
    cr_arena arena;
    cr_arena_init(&arena);
    cr_status status = cutter_init(&c, &arena);
    for (uint32_t v = 0; v < cr_graph_value_count(j->graph) && !status; v++)
        c.map[v] = cr_graph_value(j->graph, v)->node < j->forward_nodes ? cr_arg_int(0) : cr_arg_none();
    if (!status) status = need_gradients(&c);
    for (uint32_t n = cr_graph_first(j->graph); n != CR_NO_NODE && !status; n = cr_graph_next(j->graph, n)) {
        const cr_node *node = cr_graph_node(j->graph, n);
        bool number = node->nvalues && !is_tensor(j->graph, node->first);
        if (c.needed[n] && node->kind == CR_NODE_CALL && (metas || !number))
            cr_args_visit_values(node->args, node->nargs, mark, &m);
    }
    const cr_node *output = cr_graph_node(j->graph, cr_graph_output(j->graph));
    if (!status) cr_args_visit_values(output->args + j->nforward, j->nprimals, mark, &m);
    cr_vec_dispose(&c.stack);
    cr_arena_dispose(&arena);
    return status;
}

cr_status cr__cut_complete(const cr_joint *j, const bool *drawn, bool *saved) {
    cutter c = { .j = j, .from = j->graph, .drawn = drawn };
    cr_arena arena;
    cr_arena_init(&arena);
    cr_status status = cutter_init(&c, &arena);
    for (uint32_t v = 0; v < cr_graph_value_count(j->graph) && !status; v++)
        c.map[v] = saved[v] ? cr_arg_int(0) : cr_arg_none();
    if (!status) status = need_gradients(&c);
    for (uint32_t n = cr_graph_first(j->graph); n != CR_NO_NODE && !status; n = cr_graph_next(j->graph, n)) {
        const cr_node *node = cr_graph_node(j->graph, n);
        if (!c.needed[n] || n >= j->forward_nodes) continue;
        bool keep = node->kind == CR_NODE_PLACEHOLDER ||
                    (node->kind == CR_NODE_CALL && !cr_node_is_pure(j->graph, node) && !is_drawn(&c, n));
        for (uint32_t i = 0; i < node->nvalues && keep; i++) saved[node->first + i] = true;
    }
    cr_vec_dispose(&c.stack);
    cr_arena_dispose(&arena);
    return status;
}

/* ---- views ---- */

static void mark_result(void *user, uint32_t v) { ((bool *)user)[v] = true; }

/* Views of what is there anyway, primals and results, are taken again instead of being saved: they cost nothing, and a
 * later write to what they show is a write to what was saved. */
static cr_status save_roots(const cr_joint *j, bool *saved) {
    const cr_graph *g = j->graph;
    uint32_t n = cr_graph_value_count(g);
    const cr_node *output = cr_graph_node(g, cr_graph_output(g));
    bool *there = cr_calloc(n + 1u, sizeof *there);
    if (!there) return CR_ENOMEM;
    cr_args_visit_values(output->args, j->nforward, mark_result, there);
    for (uint32_t v = 0; v < n; v++) {
        uint32_t root = v;
        if (!saved[v]) continue;
        for (uint32_t of = v; of != CR_NO_VALUE; of = cr__value_shows(g, of)) root = of;
        bool primal = cr_graph_node(g, cr_graph_value(g, root)->node)->kind == CR_NODE_PLACEHOLDER;
        if (root == v || (!primal && !there[root])) continue;
        saved[v] = false;
        saved[root] = true;
    }
    cr_free(there);
    return cr__cut_complete(j, NULL, saved);
}

cr_status cr__cut_choose(const cr_joint *j, const cr_partition_options *how, bool *drawn, bool *saved) {
    cr_parts parts;
    cr_partition_options cut = *how;
    if (how->kind == CR_PARTITION_DEFAULT && !j->checkpoints.n) {
        CR_TRY(cr__cut_reads(j, true, saved));
        return save_roots(j, saved);
    }
    cut.keep_draws |= !drawn;
    cut.kind = CR_PARTITION_MIN_CUT; /* what checkpoint regions say is more than the default */
    CR_TRY(cr_partition(j, &cut, &parts));
    for (size_t i = 0; i < parts.saved.n; i++) {
        uint32_t v = cr_graph_find(j->graph, parts.saved.at[i].name);
        if (v != CR_NO_VALUE && cr_graph_value(j->graph, v)->node < j->forward_nodes) saved[v] = true;
    }
    for (size_t i = 0; i < parts.drawn.n; i++) drawn[parts.drawn.at[i]] = true;
    cr_parts_dispose(&parts);
    return cr__cut_complete(j, drawn, saved);
}
