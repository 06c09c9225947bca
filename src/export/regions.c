/* regions.c: parts of a program that run with another gradient mode become bodies of wrap_with_set_grad_enabled.
 *
 * Every switch of the mode begins a part, also one that changes nothing; parts are numbered, and those whose mode
 * differs from the one the export began with are wrapped. A body takes what it uses from outside, in the order of first
 * use, and gives what is used after it. Names are PyTorch's: a body with one result lends the call that result's name,
 * the result itself is a `getitem`; several results keep their names. */
#include "export/internal.h"

typedef struct region {
    cr_graph *g, *sub;
    cr_names *names;
    uint32_t first, end;        /* its nodes; end: the one after */
    unsigned number;
    cr_map inside;              /* value of g -> value of sub + 1; placeholders included */
    CR_VEC(uint32_t) inputs, outputs; /* values of g */
    cr_status status;
} region;

static bool is_inside(const region *r, uint32_t value, uint32_t *to) {
    uint64_t found;
    if (!cr_map_find(&r->inside, &value, sizeof value, &found)) return false;
    *to = (uint32_t)(found - 1);
    return true;
}

static cr_status bind(region *r, uint32_t from, uint32_t to) {
    return cr_map_put(&r->inside, &from, sizeof from, to + 1u);
}

/* ---- the body ---- */

static void see_use(void *user, uint32_t value) {
    region *r = user;
    uint32_t to;
    if (r->status || is_inside(r, value, &to)) return;
    const cr_value *v = cr_graph_value(r->g, value);
    const char *name = cr__shown_name(r->g, value);
    r->status = v->type == CR_T_TENSOR ? cr_graph_placeholder(r->sub, name, v->meta, &to)
                                       : cr_graph_placeholder_number(r->sub, name, (cr_type)v->type, v->expr, &to);
    if (!r->status) r->status = bind(r, value, to);
    if (!r->status) r->status = cr_vec_push(&r->inputs, value);
}

static cr_status map_arg(region *r, const cr_arg *from, cr_arg *to) {
    *to = *from;
    if (from->kind == CR_ARG_VALUE) {
        uint32_t value;
        if (!is_inside(r, (uint32_t)from->u.i, &value))
            return CR_FAIL(CR_EVALUE, "a region uses '%s' before it is defined",
                           cr_graph_value(r->g, (uint32_t)from->u.i)->name);
        to->u.i = value;
    }
    if (from->kind == CR_ARG_GRAPH) {
        for (size_t i = 0; i < cr_graph_subgraph_count(r->sub); i++)
            if (cr_graph_subgraph(r->sub, i) == from->u.graph) return CR_OK;
        return cr_graph_add_subgraph(r->sub, from->u.graph);
    }
    if (from->kind != CR_ARG_LIST) return CR_OK;
    cr_arg *items = cr_graph_alloc(r->sub, (from->n + 1u) * sizeof *items);
    if (!items) return CR_ENOMEM;
    for (uint32_t i = 0; i < from->n; i++) CR_TRY(map_arg(r, &from->u.list[i], &items[i]));
    to->u.list = items;
    return CR_OK;
}

static cr_status copy_node(region *r, uint32_t n) {
    const cr_node *node = cr_graph_node(r->g, n);
    cr_arg args[CR_MAX_PARAMS];
    uint32_t made;
    cr_args_visit_values(node->args, node->nargs, see_use, r);
    CR_TRY(r->status);
    for (uint16_t k = 0; k < node->nargs; k++) CR_TRY(map_arg(r, &node->args[k], &args[k]));
    CR_TRY(cr_graph_set_origin(r->sub, &node->origin));
    CR_TRY(cr_graph_call_with(r->sub, node->op, args, cr_graph_value(r->g, node->first), node->nvalues, &made));
    if (node->target) CR_TRY(cr_graph_set_target(r->sub, made, node->target));
    for (uint32_t i = 0; i < node->nvalues; i++)
        CR_TRY(bind(r, node->first + i, cr_graph_node(r->sub, made)->first + i));
    return CR_OK;
}

typedef struct search { const region *r; uint8_t *used; } search;

static void see_outside(void *user, uint32_t value) { ((search *)user)->used[value] = 1; }

/* What later nodes use. A tensor that the body only wrote is known outside by the name it had. */
static cr_status find_outputs(region *r) {
    search s = { r, cr_calloc(cr_graph_value_count(r->g) + 1u, 1) };
    if (!s.used) return CR_ENOMEM;
    for (uint32_t n = r->end; n != CR_NO_NODE; n = cr_graph_next(r->g, n))
        cr_args_visit_values(cr_graph_node(r->g, n)->args, cr_graph_node(r->g, n)->nargs, see_outside, &s);
    cr_status status = CR_OK;
    for (uint32_t n = r->first; n != r->end && !status; n = cr_graph_next(r->g, n)) {
        const cr_node *node = cr_graph_node(r->g, n);
        for (uint32_t v = node->first; v < node->first + node->nvalues && !status; v++) {
            if (!s.used[v]) continue;
            uint32_t shown = cr_graph_value(r->g, v)->hidden ? cr__shown_value(r->g, v) : v;
            cr_arg before = { .kind = CR_ARG_VALUE, .given = CR_GIVEN_POSITIONAL, .type = CR_T_TENSOR, .u.i = shown };
            if (shown == v) status = cr_vec_push(&r->outputs, v);
            else status = cr_graph_replace(r->g, v, before, cr_graph_node(r->g, r->end)->prev);
        }
    }
    cr_free(s.used);
    return status;
}

static cr_status finish_body(region *r) {
    cr_arg *args = cr_graph_alloc(r->sub, (r->outputs.n + 1) * sizeof *args);
    if (!args) return CR_ENOMEM;
    for (size_t i = 0; i < r->outputs.n; i++) {
        uint32_t value;
        if (!is_inside(r, r->outputs.at[i], &value))
            return CR_FAIL(CR_EVALUE, "a region gives a value that it does not have");
        args[i] = (cr_arg){
            .kind = CR_ARG_VALUE,
            .given = CR_GIVEN_POSITIONAL,
            .type = cr_graph_value(r->sub, value)->type,
            .u.i = value
        };
    }
    CR_TRY(cr_graph_set_origin(r->sub, NULL));
    return cr_graph_set_output(r->sub, args, r->outputs.n);
}

/* ---- the call ---- */

static cr_status call_body(region *r, bool enabled, const char *root, uint32_t *node) {
    const cr_op *wrap = cr_op_find("higher_order::wrap_with_set_grad_enabled");
    if (!wrap) return CR_FAIL(CR_ENOTFOUND, "there is no op 'higher_order::wrap_with_set_grad_enabled'");
    cr_arg *items = cr_graph_alloc(r->g, (r->inputs.n + 1) * sizeof *items);
    cr_value *values = cr_graph_alloc(r->g, (r->outputs.n + 1) * sizeof *values);
    if (!items || !values) return CR_ENOMEM;
    for (size_t i = 0; i < r->inputs.n; i++)
        items[i] = (cr_arg){ .kind = CR_ARG_VALUE,
                             .given = CR_GIVEN_POSITIONAL,
                             .type = cr_graph_value(r->g, r->inputs.at[i])->type,
                             .u.i = r->inputs.at[i] };
    for (size_t i = 0; i < r->outputs.n; i++) {
        values[i] = *cr_graph_value(r->g, r->outputs.at[i]);
        values[i].ret = (uint16_t)i;
        values[i].hidden = false;
    }
    CR_TRY(cr_graph_add_subgraph(r->g, r->sub));
    cr_arg args[] = { cr_arg_bool(enabled),
                      { .kind = CR_ARG_GRAPH, .u.graph = r->sub },
                      { .kind = CR_ARG_LIST, .n = (uint32_t)r->inputs.n, .u.list = items } };
    for (size_t i = 0; i < CR_COUNT(args); i++) args[i].given = CR_GIVEN_POSITIONAL;
    cr_graph_insert_before(r->g, r->first);
    CR_TRY(cr_graph_set_origin(r->g, &(cr_origin){ NULL, root,
                                                   "wrap_with_set_grad_enabled;WrapWithSetGradEnabled.wrap_with_set_"
                                                   "grad_enabled", false, false, 0 }));
    CR_TRY(cr_graph_call_with(r->g, wrap, args, values, r->outputs.n, node));
    uint32_t first = cr_graph_node(r->g, *node)->first;
    for (size_t i = 0; i < r->outputs.n; i++) {
        cr_arg to = { .kind = CR_ARG_VALUE,
                      .given = CR_GIVEN_POSITIONAL,
                      .type = cr_graph_value(r->g, first + (uint32_t)i)->type,
                      .u.i = first + (uint32_t)i };
        CR_TRY(cr_graph_replace(r->g, r->outputs.at[i], to, *node));
    }
    return CR_OK;
}

static cr_status erase_nodes(region *r) {
    for (uint32_t n = r->end == CR_NO_NODE ? CR_NO_NODE : cr_graph_node(r->g, r->end)->prev, before; n != CR_NO_NODE;
         n = before) {
        before = cr_graph_node(r->g, n)->prev;
        if (!cr_graph_node(r->g, n)->dead) CR_TRY(cr_graph_erase(r->g, n));
        if (n == r->first) break;
    }
    return CR_OK;
}

static cr_status wrap_region(region *r, bool enabled, const char *root, uint32_t *node) {
    cr_str name;
    cr_str_init(&name);
    cr_str_addf(&name, "submod_%u", r->number);
    cr_status status = cr_str_status(&name);
    if (!status) status = cr_graph_create(cr_graph_env(r->g), &r->sub);
    if (!status) status = cr_graph_set_name(r->sub, cr_str_get(&name));
    cr_str_dispose(&name);
    CR_TRY(status);
    for (uint32_t n = r->first; n != r->end; n = cr_graph_next(r->g, n)) CR_TRY(copy_node(r, n));
    CR_TRY(find_outputs(r));
    CR_TRY(finish_body(r));
    CR_TRY(call_body(r, enabled, root, node));
    CR_TRY(cr__names_region(r->names, r->g, *node, r->outputs.at, r->outputs.n));
    return erase_nodes(r);
}

static cr_status wrap_part(cr_graph *g, cr_names *names, uint32_t first, uint32_t end, unsigned number, bool enabled,
                           const char *root) {
    region r = { .g = g, .names = names, .first = first, .end = end, .number = number };
    uint32_t node;
    cr_map_init(&r.inside);
    cr_status status = wrap_region(&r, enabled, root, &node);
    cr_map_dispose(&r.inside);
    cr_vec_dispose(&r.inputs);
    cr_vec_dispose(&r.outputs);
    cr_graph_release(r.sub);
    return status;
}

cr_status cr_program_wrap_grad_modes(cr_graph *g, cr_names *names, const cr_grad_mark *marks, size_t n, bool outer,
                                     const char *root) {
    CR_TRY(cr_region_ops_init());
    cr_status status = CR_OK;
    uint32_t at = cr_graph_first(g);
    while (at != CR_NO_NODE && cr_graph_node(g, at)->kind == CR_NODE_PLACEHOLDER) at = cr_graph_next(g, at);
    for (size_t i = 0; i < n && !status; i++) {
        if (marks[i].enabled == outer) continue;
        uint32_t first = at, end;
        while (first != CR_NO_NODE && first < marks[i].node && cr_graph_node(g, first)->kind != CR_NODE_OUTPUT)
            first = cr_graph_next(g, first);
        end = first;
        while (end != CR_NO_NODE && cr_graph_node(g, end)->kind != CR_NODE_OUTPUT &&
               (i + 1 == n || end < marks[i + 1].node))
            end = cr_graph_next(g, end);
        status = wrap_part(g, names, first, end, (unsigned)i + 1, marks[i].enabled, root);
        at = end;
    }
    cr_graph_insert_before(g, CR_NO_NODE);
    if (!status) status = cr_graph_set_origin(g, NULL);
    return status;
}
