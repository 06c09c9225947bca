/* graph.c: life, reading, building and editing of graphs.
 *
 * Nodes and values are numbered and never move between ids; order is a doubly linked list through node ids, so
 * inserting and erasing are cheap and ids stay valid. Uses are recomputed when asked, never maintained. */
#include "graph/internal.h"

#include <stdio.h>

/* ---- life ---- */

cr_status cr_graph_create(cr_env *env, cr_graph **out) {
    CR_TRY(cr_ops_init());
    CR_TRY(cr_region_ops_init());
    cr_graph *g = cr_calloc(1, sizeof *g);
    if (!g) return CR_ENOMEM;
    if (env) {
        cr_env_retain(env);
    } else {
        cr_status status = cr_env_create(&env);
        if (status) return cr_free(g), status;
    }
    g->refs = 1;
    g->name = "";
    g->first = g->last = g->output = g->insert = CR_NO_NODE;
    cr_arena_init(&g->arena);
    cr_map_init(&g->names);
    cr_map_init(&g->stems);
    g->env = env;
    *out = g;
    return CR_OK;
}

void cr_graph_retain(cr_graph *g) { __atomic_add_fetch(&g->refs, 1, __ATOMIC_RELAXED); }

void cr_graph_release(cr_graph *g) {
    if (!g || __atomic_sub_fetch(&g->refs, 1, __ATOMIC_ACQ_REL)) return;
    for (size_t i = 0; i < g->constants.n; i++) cr_tensor_release(g->constants.at[i].tensor);
    for (size_t i = 0; i < g->subgraphs.n; i++) cr_graph_release(g->subgraphs.at[i]);
    cr_vec_dispose(&g->nodes);
    cr_vec_dispose(&g->values);
    cr_vec_dispose(&g->constants);
    cr_vec_dispose(&g->subgraphs);
    cr_map_dispose(&g->names);
    cr_map_dispose(&g->stems);
    cr_arena_dispose(&g->arena);
    cr_env_release(g->env);
    cr_free(g);
}

cr_env *cr_graph_env(const cr_graph *g) { return g->env; }
const char *cr_graph_name(const cr_graph *g) { return g->name; }

cr_status cr_graph_set_name(cr_graph *g, const char *name) {
    char *copy = cr_arena_strdup(&g->arena, name);
    if (!copy) return CR_ENOMEM;
    g->name = copy;
    return CR_OK;
}

void *cr_graph_alloc(cr_graph *g, size_t size) { return cr_arena_alloc(&g->arena, size); }

/* ---- reading ---- */

static uint32_t skip_dead(const cr_graph *g, uint32_t n) {
    while (n != CR_NO_NODE && g->nodes.at[n]->dead) n = g->nodes.at[n]->next;
    return n;
}

uint32_t cr_graph_first(const cr_graph *g) { return skip_dead(g, g->first); }
uint32_t cr_graph_next(const cr_graph *g, uint32_t node) { return skip_dead(g, g->nodes.at[node]->next); }
const cr_node *cr_graph_node(const cr_graph *g, uint32_t node) { return g->nodes.at[node]; }
const cr_value *cr_graph_value(const cr_graph *g, uint32_t value) { return g->values.at[value]; }
uint32_t cr_graph_value_count(const cr_graph *g) { return (uint32_t)g->values.n; }
uint32_t cr_graph_node_count(const cr_graph *g) { return g->live; }
uint32_t cr_graph_node_limit(const cr_graph *g) { return (uint32_t)g->nodes.n; }
uint32_t cr_graph_output(const cr_graph *g) { return g->output; }

uint32_t cr_graph_find(const cr_graph *g, const char *name) {
    uint64_t found;
    return cr_map_find_str(&g->names, name, &found) ? (uint32_t)(found - 1) : CR_NO_VALUE;
}

void cr_args_visit_values(const cr_arg *args, size_t n, void (*fn)(void *user, uint32_t value), void *user) {
    for (size_t i = 0; i < n; i++) {
        if (args[i].kind == CR_ARG_VALUE) fn(user, (uint32_t)args[i].u.i);
        else if (args[i].kind == CR_ARG_LIST) cr_args_visit_values(args[i].u.list, args[i].n, fn, user);
    }
}

static void count_use(void *user, uint32_t value) { ((uint32_t *)user)[value]++; }

void cr_graph_count_uses(const cr_graph *g, uint32_t *counts) {
    memset(counts, 0, g->values.n * sizeof *counts);
    for (uint32_t n = cr_graph_first(g); n != CR_NO_NODE; n = cr_graph_next(g, n))
        cr_args_visit_values(g->nodes.at[n]->args, g->nodes.at[n]->nargs, count_use, counts);
}

/* ---- copying arguments into the arena ---- */

static bool has_subgraph(const cr_graph *g, const cr_graph *sub) {
    for (size_t i = 0; i < g->subgraphs.n; i++)
        if (g->subgraphs.at[i] == sub) return true;
    return false;
}

static cr_status copy_arg(cr_graph *g, const cr_arg *from, cr_arg *to) {
    *to = *from;
    cr_arg *items = NULL;
    switch ((cr_arg_kind)from->kind) {
    case CR_ARG_LIST:
        CR_TRY(cr__args_copy(g, from->u.list, from->n, &items));
        to->u.list = items;
        return CR_OK;
    case CR_ARG_STR:
        to->u.s = cr_arena_strndup(&g->arena, from->u.s, from->n);
        return to->u.s ? CR_OK : CR_ENOMEM;
    case CR_ARG_COMPLEX:
        to->u.c = cr_arena_copy(&g->arena, from->u.c, 2 * sizeof(double));
        return to->u.c ? CR_OK : CR_ENOMEM;
    case CR_ARG_VALUE:
        if (from->u.i < 0 || (size_t)from->u.i >= g->values.n || g->values.at[from->u.i]->node == CR_NO_NODE)
            return CR_FAIL(CR_EVALUE, "an argument names value %lld, which this graph does not have",
                           (long long)from->u.i);
        to->type = g->values.at[from->u.i]->type;
        return CR_OK;
    case CR_ARG_TENSOR:
    case CR_ARG_META:
        return CR_FAIL(CR_EVALUE, "a graph's arguments are values; add the tensor as a constant and read it with "
                                  "get_attr");
    case CR_ARG_SYM:
        return CR_FAIL(CR_EVALUE, "a graph's arguments are values; make one of the expression with cr_graph_value_for");
    case CR_ARG_INT:
        if (cr_dim_is_plain(from->u.i)) return CR_OK;
        return CR_FAIL(CR_EVALUE, "a symbolic integer argument is a value; make one with cr_graph_value_for");
    case CR_ARG_GENERATOR:
        return CR_FAIL(CR_EUNSUPPORTED, "a generator object cannot be part of a graph; leave it out and seed the "
                                        "default one");
    case CR_ARG_GRAPH:
        if (has_subgraph(g, from->u.graph)) return CR_OK;
        return CR_FAIL(CR_EVALUE, "graph '%s' is not a subgraph of this one; add it with cr_graph_add_subgraph first",
                       cr_graph_name(from->u.graph));
    default: return CR_OK;
    }
}

cr_status cr__args_copy(cr_graph *g, const cr_arg *args, size_t n, cr_arg **out) {
    cr_arg *copy = cr_arena_alloc(&g->arena, n * sizeof *copy);
    if (!copy) return CR_ENOMEM;
    for (size_t i = 0; i < n; i++) CR_TRY(copy_arg(g, &args[i], &copy[i]));
    *out = copy;
    return CR_OK;
}

/* ---- names ---- */

static bool name_char(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           (unsigned char)c >= 0x80;
}

/* The wish with odd characters replaced, numbered when it is taken. The numbers already tried are remembered, so that a
 * thousand nodes of one op do not each try a thousand names. */
static cr_status unique_name(cr_graph *g, const char *wish, const char **out) {
    char *name = cr_arena_strdup(&g->arena, *wish ? wish : "v");
    if (!name) return CR_ENOMEM;
    for (char *c = name; *c; c++)
        if (!name_char(*c)) *c = '_';
    const char *stem = name;
    if (cr_map_find_str(&g->names, name, NULL)) {
        uint64_t k = 0;
        cr_map_find_str(&g->stems, stem, &k);
        do {
            name = cr_arena_printf(&g->arena, "%s_%llu", stem, (unsigned long long)++k);
            if (!name) return CR_ENOMEM;
        } while (cr_map_find_str(&g->names, name, NULL));
        CR_TRY(cr_map_put_str(&g->stems, stem, k));
    }
    *out = name;
    return CR_OK;
}

cr_status cr_graph_rename(cr_graph *g, uint32_t value, const char *name) {
    cr_value *v = g->values.at[value];
    if (!strcmp(v->name, name)) return CR_OK;
    const char *fresh = NULL;
    CR_TRY(unique_name(g, name, &fresh));
    CR_TRY(cr_map_put_str(&g->names, fresh, value + 1));
    cr_map_remove(&g->names, v->name, strlen(v->name));
    v->name = fresh;
    return CR_OK;
}

/* ---- nodes ---- */

void cr_graph_insert_before(cr_graph *g, uint32_t node) { g->insert = node; }

cr_status cr_graph_set_origin(cr_graph *g, const cr_origin *origin) {
    const cr_origin none = { .no_grad = false };
    if (!origin) origin = &none;
    g->origin.no_grad = origin->no_grad;
    g->origin.data = origin->data;
    g->origin.policy = origin->policy;
    const char *const from[] = { origin->stack_trace, origin->module_stack, origin->source_fn };
    const char **const to[] = { &g->origin.stack_trace, &g->origin.module_stack, &g->origin.source_fn };
    for (size_t i = 0; i < CR_COUNT(from); i++) {
        if (from[i] && *to[i] && !strcmp(from[i], *to[i])) continue; /* neighbours share their texts */
        *to[i] = from[i] ? cr_arena_strdup(&g->arena, from[i]) : NULL;
        if (from[i] && !*to[i]) return CR_ENOMEM;
    }
    return CR_OK;
}

static cr_status keep_text(cr_graph *g, const char **text) {
    return *text && !(*text = cr_arena_strdup(&g->arena, *text)) ? CR_ENOMEM : CR_OK;
}

cr_status cr_graph_set_archived(cr_graph *g, uint32_t node, const cr_archived *saved) {
    g->nodes.at[node]->archived = NULL;
    if (!saved) return CR_OK;
    cr_archived *copy = cr_arena_copy(&g->arena, saved, sizeof *saved);
    if (!copy) return CR_ENOMEM;
    const char **const texts[] = { &copy->target, &copy->metadata, &copy->token, &copy->next_token };
    for (size_t i = 0; i < CR_COUNT(texts); i++) CR_TRY(keep_text(g, texts[i]));
    if (saved->arg_names) {
        const char **names = cr_arena_copy(&g->arena, saved->arg_names, saved->nargs * sizeof *names);
        if (!names) return CR_ENOMEM;
        for (uint32_t i = 0; i < saved->nargs; i++) CR_TRY(keep_text(g, &names[i]));
        copy->arg_names = names;
    }
    g->nodes.at[node]->archived = copy;
    return CR_OK;
}

static void link_before(cr_graph *g, uint32_t node, uint32_t before) {
    cr_node *n = g->nodes.at[node];
    n->next = before;
    n->prev = before == CR_NO_NODE ? g->last : g->nodes.at[before]->prev;
    *(n->prev == CR_NO_NODE ? &g->first : &g->nodes.at[n->prev]->next) = node;
    *(before == CR_NO_NODE ? &g->last : &g->nodes.at[before]->prev) = node;
    g->live++;
}

/* A node with its values. The values' names are wishes; their metas are copied. On failure nothing is visible. */
static cr_status add_node(cr_graph *g, cr_node node, const cr_value *values, size_t n, uint32_t *out) {
    uint32_t id = (uint32_t)g->nodes.n, first = (uint32_t)g->values.n;
    CR_TRY(cr_vec_reserve(&g->nodes, g->nodes.n + 1));
    CR_TRY(cr_vec_reserve(&g->values, g->values.n + n));
    cr_node *mine = cr_arena_alloc(&g->arena, sizeof *mine);
    cr_value *kept = cr_arena_alloc(&g->arena, n * sizeof *kept); /* side by side: callers take them as an array */
    if (!mine || !kept) return CR_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        cr_value v = values[i];
        v.node = id;
        if (v.meta) {
            cr_meta *copy = cr_arena_copy(&g->arena, v.meta, sizeof *v.meta);
            if (!copy) goto failed;
            if (!copy->storage) copy->storage = cr__fresh_storage();
            v.meta = copy;
        }
        if (!v.expr && (v.type == CR_T_INT || v.type == CR_T_FLOAT || v.type == CR_T_BOOL)) {
            v.expr = cr_unknown_number(g->env, (cr_type)v.type);
            if (!v.expr) goto failed;
        }
        if (unique_name(g, v.name, &v.name) || cr_map_put_str(&g->names, v.name, g->values.n + 1)) goto failed;
        kept[i] = v;
        g->values.at[g->values.n++] = &kept[i];
    }
    node.first = first;
    node.nvalues = (uint32_t)n;
    /* inputs and outputs come from nowhere */
    if (node.kind == CR_NODE_CALL || node.kind == CR_NODE_GET_ATTR) node.origin = g->origin;
    node.prev = node.next = CR_NO_NODE;
    *mine = node;
    g->nodes.at[g->nodes.n++] = mine;
    link_before(g, id, g->insert != CR_NO_NODE ? g->insert : g->output);
    *out = id;
    return CR_OK;
failed:
    while (g->values.n > first) {
        const char *name = g->values.at[--g->values.n]->name;
        cr_map_remove(&g->names, name, strlen(name));
    }
    cr_env_recover(g->env);
    return CR_ENOMEM;
}

static cr_status add_source(cr_graph *g, cr_node_kind kind, const char *target, const char *name, cr_value value,
                            uint32_t *out) {
    cr_node node = { .kind = (uint8_t)kind, .target = cr_arena_strdup(&g->arena, target) };
    if (!node.target) return CR_ENOMEM;
    value.name = name;
    uint32_t id;
    CR_TRY(add_node(g, node, &value, 1, &id));
    *out = g->nodes.at[id]->first;
    return CR_OK;
}

/* Placeholders stay together at the front whatever the insertion point is. */
static cr_status add_placeholder(cr_graph *g, const char *name, cr_value value, uint32_t *out) {
    bool only = g->last == CR_NO_NODE ||
                (!g->nodes.at[g->last]->dead && g->nodes.at[g->last]->kind == CR_NODE_PLACEHOLDER);
    uint32_t insert = g->insert, at = only ? CR_NO_NODE : cr_graph_first(g);
    while (at != CR_NO_NODE && g->nodes.at[at]->kind == CR_NODE_PLACEHOLDER) at = cr_graph_next(g, at);
    g->insert = at;
    cr_status status = add_source(g, CR_NODE_PLACEHOLDER, name, name, value, out);
    g->insert = insert;
    return status;
}

cr_status cr_graph_placeholder(cr_graph *g, const char *name, const cr_meta *meta, uint32_t *value) {
    return add_placeholder(g, name, (cr_value){ .type = CR_T_TENSOR, .meta = meta }, value);
}

cr_status cr_graph_placeholder_number(cr_graph *g, const char *name, cr_type type, cr_sym expr, uint32_t *value) {
    return add_placeholder(g, name, (cr_value){ .type = (uint8_t)type, .expr = expr }, value);
}

cr_status cr_graph_add_constant(cr_graph *g, const char *target, cr_tensor *t) {
    for (size_t i = 0; i < g->constants.n; i++)
        if (!strcmp(g->constants.at[i].target, target))
            return CR_FAIL(CR_EVALUE, "the graph has a constant '%s' already", target);
    char *copy = cr_arena_strdup(&g->arena, target);
    if (!copy) return CR_ENOMEM;
    CR_TRY(cr_vec_push(&g->constants, (graph_constant){ copy, t }));
    cr_tensor_retain(t);
    return CR_OK;
}

cr_tensor *cr_graph_constant(const cr_graph *g, const char *target) {
    for (size_t i = 0; i < g->constants.n; i++)
        if (!strcmp(g->constants.at[i].target, target)) return g->constants.at[i].tensor;
    return NULL;
}

const char *cr_graph_constant_at(const cr_graph *g, size_t i, cr_tensor **t) {
    if (i >= g->constants.n) return NULL;
    *t = g->constants.at[i].tensor;
    return g->constants.at[i].target;
}

cr_status cr_graph_get_attr(cr_graph *g, const char *target, uint32_t *value) {
    const cr_tensor *t = cr_graph_constant(g, target);
    if (!t) return CR_FAIL(CR_ENOTFOUND, "the graph has no constant '%s'; add it with cr_graph_add_constant", target);
    return add_source(g, CR_NODE_GET_ATTR, target, target, (cr_value){ .type = CR_T_TENSOR, .meta = &t->meta }, value);
}

cr_status cr_graph_add_subgraph(cr_graph *g, cr_graph *sub) {
    const char *wish = *sub->name ? sub->name : "body";
    char *name = cr_arena_strdup(&sub->arena, wish);
    for (unsigned k = 0, clash = 1; name && clash; k++) {
        clash = 0;
        for (size_t i = 0; i < g->subgraphs.n; i++)
            clash |= g->subgraphs.at[i] != sub && !strcmp(g->subgraphs.at[i]->name, name);
        if (clash) name = cr_arena_printf(&sub->arena, "%s_%u", wish, k + 1);
    }
    if (!name) return CR_ENOMEM;
    CR_TRY(cr_vec_push(&g->subgraphs, sub));
    sub->name = name;
    cr_graph_retain(sub);
    return CR_OK;
}

size_t cr_graph_subgraph_count(const cr_graph *g) { return g->subgraphs.n; }
cr_graph *cr_graph_subgraph(const cr_graph *g, size_t i) { return g->subgraphs.at[i]; }

/* ---- calls ---- */

/* Is an argument the parameter's default, so that leaving it out means the same? */
static bool is_default(const cr_param *p, const cr_arg *a) { return p->has_default && cr__arg_equal(a, &p->fallback); }

/* Makes `given` true to what it promises: what differs from its default was given, and so was everything before a
 * positional argument. Then the text, which leaves defaults out, reads back to the same arguments. */
static void settle_given(const cr_schema *s, cr_arg *args) {
    bool positional = false;
    for (uint16_t k = s->nparams; k-- > 0;) {
        const cr_param *p = &s->params[k];
        bool may_omit = is_default(p, &args[k]) || (p->optional && p->keyword_only && args[k].kind == CR_ARG_NONE);
        if (args[k].given == CR_GIVEN_DEFAULT && !may_omit)
            args[k].given = p->keyword_only ? CR_GIVEN_KEYWORD : CR_GIVEN_POSITIONAL;
        if (p->keyword_only && args[k].given == CR_GIVEN_POSITIONAL) args[k].given = CR_GIVEN_KEYWORD;
        if (positional && !p->keyword_only) args[k].given = CR_GIVEN_POSITIONAL;
        positional |= args[k].given == CR_GIVEN_POSITIONAL;
    }
}

/* `args` are the graph's already. */
static cr_status append_call(cr_graph *g, const cr_op *op, cr_arg *args, const cr_value *values, size_t n,
                             uint32_t *out) {
    settle_given(&op->schema, args);
    return add_node(g, (cr_node){ .kind = CR_NODE_CALL, .op = op, .nargs = op->schema.nparams, .args = args }, values,
                    n, out);
}

cr_status cr_graph_call_with(cr_graph *g, const cr_op *op, const cr_arg *args, const cr_value *values, size_t n,
                             uint32_t *out) {
    cr_arg *copy = NULL;
    CR_TRY(cr__args_copy(g, args, op->schema.nparams, &copy));
    return append_call(g, op, copy, values, n, out);
}

cr_status cr_graph_call(cr_graph *g, const cr_op *op, const cr_arg *args, uint32_t *node) {
    cr_arena arena;
    cr_arena_init(&arena);
    cr_value *values = NULL;
    size_t n = 0;
    cr_arg *copy = NULL;
    cr_status status = cr__args_copy(g, args, op->schema.nparams, &copy); /* refuses what a graph cannot hold */
    if (!status) status = cr__infer(g, op, copy, &arena, &values, &n);
    if (!status) status = append_call(g, op, copy, values, n, node);
    cr_arena_dispose(&arena);
    return status;
}

cr_status cr_graph_set_output(cr_graph *g, const cr_arg *args, size_t n) {
    if (n > UINT16_MAX) return CR_FAIL(CR_EVALUE, "a graph may have at most %d outputs, not %zu", UINT16_MAX, n);
    cr_arg *copy = NULL;
    CR_TRY(cr__args_copy(g, args, n, &copy));
    if (g->output == CR_NO_NODE) {
        uint32_t insert = g->insert, id;
        g->insert = CR_NO_NODE;
        cr_status status = add_node(g, (cr_node){ .kind = CR_NODE_OUTPUT }, NULL, 0, &id);
        g->insert = insert;
        CR_TRY(status);
        g->output = id;
    }
    g->nodes.at[g->output]->args = copy;
    g->nodes.at[g->output]->nargs = (uint16_t)n;
    return CR_OK;
}

/* ---- editing ---- */

static void replace_in(cr_arg *args, size_t n, uint32_t from, cr_arg to) {
    for (size_t i = 0; i < n; i++) {
        if (args[i].kind == CR_ARG_VALUE && args[i].u.i == from) {
            uint8_t given = args[i].given;
            args[i] = to;
            args[i].given = given;
        } else if (args[i].kind == CR_ARG_LIST) {
            replace_in((cr_arg *)args[i].u.list, args[i].n, from, to); /* lists are the graph's own copies */
        }
    }
}

cr_status cr_graph_replace(cr_graph *g, uint32_t from, cr_arg to, uint32_t after) {
    cr_arg copy;
    CR_TRY(copy_arg(g, &to, &copy));
    uint32_t n = after == CR_NO_NODE ? cr_graph_first(g) : cr_graph_next(g, after);
    for (; n != CR_NO_NODE; n = cr_graph_next(g, n))
        replace_in(g->nodes.at[n]->args, g->nodes.at[n]->nargs, from, copy);
    return CR_OK;
}

cr_status cr_graph_set_target(cr_graph *g, uint32_t node, const char *target) {
    char *copy = cr_arena_strdup(&g->arena, target);
    if (!copy) return CR_ENOMEM;
    g->nodes.at[node]->target = copy;
    return CR_OK;
}

void cr_graph_move(cr_graph *g, uint32_t node, uint32_t before) {
    cr_node *n = g->nodes.at[node];
    if (node == before || n->next == before) return;
    *(n->prev == CR_NO_NODE ? &g->first : &g->nodes.at[n->prev]->next) = n->next;
    *(n->next == CR_NO_NODE ? &g->last : &g->nodes.at[n->next]->prev) = n->prev;
    g->live--; /* link_before counts it again */
    link_before(g, node, before);
}

cr_status cr_graph_set_args(cr_graph *g, uint32_t node, const cr_arg *args, size_t n) {
    cr_node *target = g->nodes.at[node];
    if (target->kind == CR_NODE_CALL && n != target->op->schema.nparams)
        return CR_FAIL(CR_EVALUE, "%s takes %d arguments, not %zu", target->op->name, target->op->schema.nparams, n);
    cr_arg *copy = NULL;
    CR_TRY(cr__args_copy(g, args, n, &copy));
    if (target->kind == CR_NODE_CALL) settle_given(&target->op->schema, copy);
    target->args = copy;
    target->nargs = (uint16_t)n;
    return CR_OK;
}

cr_status cr_graph_set_meta(cr_graph *g, uint32_t value, const cr_meta *meta) {
    cr_meta *copy = NULL;
    if (meta && !(copy = cr_arena_copy(&g->arena, meta, sizeof *meta))) return CR_ENOMEM;
    g->values.at[value]->meta = copy;
    return CR_OK;
}

void cr_graph_set_expr(cr_graph *g, uint32_t value, cr_sym expr) { g->values.at[value]->expr = expr; }

cr_status cr_graph_erase(cr_graph *g, uint32_t node) {
    cr_node *dead = g->nodes.at[node];
    uint32_t *uses = cr_alloc((g->values.n + 1) * sizeof *uses);
    if (!uses) return CR_ENOMEM;
    cr_graph_count_uses(g, uses);
    for (uint32_t i = 0; i < dead->nvalues; i++)
        if (uses[dead->first + i]) {
            cr_free(uses);
            return CR_FAIL(CR_EVALUE, "value '%s' is still used; replace its uses before erasing its node",
                           g->values.at[dead->first + i]->name);
        }
    cr_free(uses);
    for (uint32_t i = 0; i < dead->nvalues; i++) {
        cr_value *v = g->values.at[dead->first + i];
        cr_map_remove(&g->names, v->name, strlen(v->name));
        v->node = CR_NO_NODE;
    }
    dead->dead = true;
    g->live--;
    if (g->insert == node) g->insert = cr_graph_next(g, node);
    return CR_OK;
}
