/* copy.c: a second graph with the same ids.
 *
 * Node and value ids stay what they were, erased ones included, so that what a pass knows by id holds for the copy too.
 * Nothing is shared but constant tensors and the environment. */
#include "graph/internal.h"

typedef struct copier { const cr_graph *from; cr_graph *to; } copier;

static cr_status copy_text(copier *c, const char *text, const char **out) {
    *out = text ? cr_arena_strdup(&c->to->arena, text) : NULL;
    return text && !*out ? CR_ENOMEM : CR_OK;
}

static cr_graph *copied_subgraph(const copier *c, const cr_graph *sub) {
    for (size_t i = 0; i < c->from->subgraphs.n; i++)
        if (c->from->subgraphs.at[i] == sub) return c->to->subgraphs.at[i];
    return NULL;
}

static void point_to_copies(const copier *c, cr_arg *args, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (args[i].kind == CR_ARG_GRAPH) args[i].u.graph = copied_subgraph(c, args[i].u.graph);
        /* the copy's own list */
        else if (args[i].kind == CR_ARG_LIST) point_to_copies(c, (cr_arg *)args[i].u.list, args[i].n);
    }
}

/* As cr__args_copy, which wants the values and subgraphs to be there already. */
static cr_status copy_args(copier *c, const cr_arg *args, size_t n, cr_arg **out) {
    cr_arg *copy = cr_arena_alloc(&c->to->arena, n * sizeof *copy);
    if (!copy) return CR_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        copy[i] = args[i];
        const cr_arg *a = &args[i];
        cr_arg *items = NULL;
        if (a->kind == CR_ARG_LIST) {
            CR_TRY(copy_args(c, a->u.list, a->n, &items));
            copy[i].u.list = items;
        } else if (a->kind == CR_ARG_STR && !(copy[i].u.s = cr_arena_strndup(&c->to->arena, a->u.s, a->n))) {
            return CR_ENOMEM;
        } else if (a->kind == CR_ARG_COMPLEX &&
                   !(copy[i].u.c = cr_arena_copy(&c->to->arena, a->u.c, 2 * sizeof(double)))) {
            return CR_ENOMEM;
        }
    }
    *out = copy;
    return CR_OK;
}

static cr_status copy_node(copier *c, const cr_node *from) {
    cr_node node = *from;
    node.args = NULL;
    if (!from->dead && from->nargs) {
        CR_TRY(copy_args(c, from->args, from->nargs, &node.args));
        point_to_copies(c, node.args, node.nargs);
    }
    if (from->dead) node.nargs = 0;
    CR_TRY(copy_text(c, from->target, &node.target));
    CR_TRY(copy_text(c, from->origin.stack_trace, &node.origin.stack_trace));
    CR_TRY(copy_text(c, from->origin.module_stack, &node.origin.module_stack));
    CR_TRY(copy_text(c, from->origin.source_fn, &node.origin.source_fn));
    node.archived = NULL;
    cr_node *kept = cr_arena_copy(&c->to->arena, &node, sizeof node);
    if (!kept) return CR_ENOMEM;
    CR_TRY(cr_vec_push(&c->to->nodes, kept));
    return from->archived ? cr_graph_set_archived(c->to, (uint32_t)c->to->nodes.n - 1, from->archived) : CR_OK;
}

static cr_status copy_value(copier *c, const cr_value *from, cr_value *kept) {
    cr_value v = *from;
    CR_TRY(copy_text(c, from->name, &v.name));
    if (from->meta && !(v.meta = cr_arena_copy(&c->to->arena, from->meta, sizeof *from->meta))) return CR_ENOMEM;
    if (from->node != CR_NO_NODE) CR_TRY(cr_map_put_str(&c->to->names, v.name, c->to->values.n + 1));
    *kept = v;
    return cr_vec_push(&c->to->values, kept);
}

static cr_status copy_tables(copier *c) {
    const cr_graph *from = c->from;
    for (size_t i = 0; i < from->constants.n; i++)
        CR_TRY(cr_graph_add_constant(c->to, from->constants.at[i].target, from->constants.at[i].tensor));
    for (size_t i = 0; i < from->subgraphs.n; i++) {
        cr_graph *sub = NULL;
        CR_TRY(cr_graph_copy(from->subgraphs.at[i], &sub));
        cr_status status = cr_vec_push(&c->to->subgraphs, sub); /* keeps its name: names are unique there as here */
        if (status) return cr_graph_release(sub), status;
    }
    cr_value *kept = cr_arena_alloc(&c->to->arena, from->values.n * sizeof *kept);
    if (!kept) return CR_ENOMEM;
    for (size_t i = 0; i < from->values.n; i++) CR_TRY(copy_value(c, from->values.at[i], &kept[i]));
    for (size_t i = 0; i < from->nodes.n; i++) CR_TRY(copy_node(c, from->nodes.at[i]));
    return CR_OK;
}

cr_status cr_graph_copy(const cr_graph *g, cr_graph **out) {
    copier c = { .from = g };
    CR_TRY(cr_graph_create(g->env, &c.to));
    cr_status status = cr_graph_set_name(c.to, g->name);
    if (!status) status = copy_tables(&c);
    if (status) return cr_graph_release(c.to), status;
    c.to->first = g->first;
    c.to->last = g->last;
    c.to->output = g->output;
    c.to->insert = g->insert;
    c.to->live = g->live;
    *out = c.to;
    return CR_OK;
}
