/* graph.c: life, reading, building and editing of graphs.
 *
 * Nodes and values are numbered and never move between ids; order is a doubly linked list through node ids, so inserting
 * and erasing are cheap and ids stay valid. Uses are recomputed when asked, never maintained. */
#include "graph/internal.h"

#include <ctype.h>
#include <stdio.h>

/* ---- life ---- */

cr_status cr_graph_create(cr_env *env, cr_graph **out) {
    CR_TRY(cr_ops_init());
    CR_TRY(cr_region_ops_init());
    cr_graph *g = cr_calloc(1, sizeof *g);
    if (!g) return CR_ENOMEM;
    g->refs = 1;
    g->name = "";
    g->first = g->last = g->output = g->insert = CR_NO_NODE;
    cr_arena_init(&g->arena);
    cr_map_init(&g->names);
    if (env) cr_env_retain(env);
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

/* ---- reading ---- */

static uint32_t skip_dead(const cr_graph *g, uint32_t n) {
    while (n != CR_NO_NODE && g->nodes.at[n].dead) n = g->nodes.at[n].next;
    return n;
}

uint32_t cr_graph_first(const cr_graph *g) { return skip_dead(g, g->first); }
uint32_t cr_graph_next(const cr_graph *g, uint32_t node) { return skip_dead(g, g->nodes.at[node].next); }
const cr_node *cr_graph_node(const cr_graph *g, uint32_t node) { return &g->nodes.at[node]; }
const cr_value *cr_graph_value(const cr_graph *g, uint32_t value) { return &g->values.at[value]; }
uint32_t cr_graph_value_count(const cr_graph *g) { return (uint32_t)g->values.n; }
uint32_t cr_graph_node_count(const cr_graph *g) { return g->live; }
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
        cr_args_visit_values(g->nodes.at[n].args, g->nodes.at[n].nargs, count_use, counts);
}

/* ---- copying arguments into the arena ---- */

static cr_status copy_arg(cr_graph *g, const cr_arg *from, cr_arg *to) {
    *to = *from;
    if (from->kind == CR_ARG_LIST) {
        cr_arg *items = NULL;
        CR_TRY(cr__args_copy(g, from->u.list, from->n, &items));
        to->u.list = items;
    } else if (from->kind == CR_ARG_STR) {
        to->u.s = cr_arena_strndup(&g->arena, from->u.s, from->n);
        if (!to->u.s) return CR_ENOMEM;
    } else if (from->kind == CR_ARG_COMPLEX) {
        to->u.c = cr_arena_copy(&g->arena, from->u.c, 2 * sizeof(double));
        if (!to->u.c) return CR_ENOMEM;
    } else if (from->kind == CR_ARG_VALUE) {
        if (from->u.i < 0 || (size_t)from->u.i >= g->values.n || g->values.at[from->u.i].node == CR_NO_NODE)
            return CR_FAIL(CR_EVALUE, "an argument names value %lld, which this graph does not have", (long long)from->u.i);
        to->pad = g->values.at[from->u.i].type;
    } else if (from->kind == CR_ARG_TENSOR || from->kind == CR_ARG_META) {
        return CR_FAIL(CR_EVALUE, "a graph's arguments are values; add the tensor as a constant and read it with get_attr");
    }
    return CR_OK;
}

cr_status cr__args_copy(cr_graph *g, const cr_arg *args, size_t n, cr_arg **out) {
    cr_arg *copy = cr_arena_alloc(&g->arena, n * sizeof *copy);
    if (!copy) return CR_ENOMEM;
    for (size_t i = 0; i < n; i++) CR_TRY(copy_arg(g, &args[i], &copy[i]));
    *out = copy;
    return CR_OK;
}

/* ---- names ---- */

static char *clean_name(cr_graph *g, const char *wish) {
    char *name = cr_arena_strdup(&g->arena, *wish ? wish : "v");
    for (char *c = name; c && *c; c++)
        if (!isalnum((unsigned char)*c) && *c != '_' && (unsigned char)*c < 0x80) *c = '_';
    return name;
}

static cr_status unique_name(cr_graph *g, const char *wish, const char **out) {
    char *name = clean_name(g, wish);
    if (!name) return CR_ENOMEM;
    const char *stem = name;
    for (unsigned k = 1; cr_map_find_str(&g->names, name, NULL); k++) {
        name = cr_arena_printf(&g->arena, "%s_%u", stem, k);
        if (!name) return CR_ENOMEM;
    }
    *out = name;
    return CR_OK;
}

cr_status cr_graph_rename(cr_graph *g, uint32_t value, const char *name) {
    cr_value *v = &g->values.at[value];
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

void cr_graph_set_origin(cr_graph *g, const cr_origin *origin) {
    g->origin = (cr_origin){ NULL, NULL, NULL };
    if (!origin) return;
    if (origin->stack_trace) g->origin.stack_trace = cr_arena_strdup(&g->arena, origin->stack_trace);
    if (origin->module_stack) g->origin.module_stack = cr_arena_strdup(&g->arena, origin->module_stack);
    if (origin->source_fn) g->origin.source_fn = cr_arena_strdup(&g->arena, origin->source_fn);
}

static void link_before(cr_graph *g, uint32_t node, uint32_t before) {
    cr_node *n = &g->nodes.at[node];
    n->next = before;
    n->prev = before == CR_NO_NODE ? g->last : g->nodes.at[before].prev;
    *(n->prev == CR_NO_NODE ? &g->first : &g->nodes.at[n->prev].next) = node;
    *(before == CR_NO_NODE ? &g->last : &g->nodes.at[before].prev) = node;
    g->live++;
}

/* A node with its values. The values' names are wishes; their metas are copied. On failure nothing is visible. */
static cr_status add_node(cr_graph *g, cr_node node, const cr_value *values, size_t n, uint32_t *out) {
    uint32_t id = (uint32_t)g->nodes.n, first = (uint32_t)g->values.n;
    CR_TRY(cr_vec_reserve(&g->nodes, g->nodes.n + 1));
    CR_TRY(cr_vec_reserve(&g->values, g->values.n + n));
    for (size_t i = 0; i < n; i++) {
        cr_value v = values[i];
        v.node = id;
        if (v.meta) {
            v.meta = cr_arena_copy(&g->arena, v.meta, sizeof *v.meta);
            if (!v.meta) goto failed;
        }
        if (unique_name(g, v.name, &v.name) || cr_map_put_str(&g->names, v.name, g->values.n + 1)) goto failed;
        g->values.at[g->values.n++] = v;
    }
    node.first = first;
    node.nvalues = (uint32_t)n;
    node.origin = g->origin;
    node.prev = node.next = CR_NO_NODE;
    g->nodes.at[g->nodes.n++] = node;
    link_before(g, id, g->insert != CR_NO_NODE ? g->insert : g->output);
    *out = id;
    return CR_OK;
failed:
    while (g->values.n > first) {
        const char *name = g->values.at[--g->values.n].name;
        cr_map_remove(&g->names, name, strlen(name));
    }
    return CR_ENOMEM;
}

static cr_status add_source(cr_graph *g, cr_node_kind kind, const char *target, const char *name, cr_value value, uint32_t *out) {
    cr_node node = { .kind = (uint8_t)kind, .target = cr_arena_strdup(&g->arena, target) };
    if (!node.target) return CR_ENOMEM;
    value.name = name;
    uint32_t id;
    CR_TRY(add_node(g, node, &value, 1, &id));
    *out = g->nodes.at[id].first;
    return CR_OK;
}

/* Placeholders stay together at the front whatever the insertion point is. */
static cr_status add_placeholder(cr_graph *g, const char *name, cr_value value, uint32_t *out) {
    uint32_t insert = g->insert, at = cr_graph_first(g);
    while (at != CR_NO_NODE && g->nodes.at[at].kind == CR_NODE_PLACEHOLDER) at = cr_graph_next(g, at);
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
        if (!strcmp(g->constants.at[i].target, target)) return CR_FAIL(CR_EVALUE, "the graph has a constant '%s' already", target);
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
        for (size_t i = 0; i < g->subgraphs.n; i++) clash |= g->subgraphs.at[i] != sub && !strcmp(g->subgraphs.at[i]->name, name);
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

cr_status cr_graph_call_with(cr_graph *g, const cr_op *op, const cr_arg *args, const cr_value *values, size_t n, uint32_t *out) {
    cr_node node = { .kind = CR_NODE_CALL, .op = op, .nargs = op->schema.nparams };
    CR_TRY(cr__args_copy(g, args, op->schema.nparams, &node.args));
    return add_node(g, node, values, n, out);
}

cr_status cr__arg_resolve(const cr_graph *g, cr_arena *arena, const cr_arg *arg, cr_arg *out) {
    *out = *arg;
    if (arg->kind == CR_ARG_LIST) {
        cr_arg *items = cr_arena_alloc(arena, arg->n * sizeof *items);
        if (!items) return CR_ENOMEM;
        for (uint32_t i = 0; i < arg->n; i++) CR_TRY(cr__arg_resolve(g, arena, &arg->u.list[i], &items[i]));
        out->u.list = items;
    } else if (arg->kind == CR_ARG_VALUE) {
        const cr_value *v = &g->values.at[arg->u.i];
        out->kind = CR_ARG_NONE;
        if (v->type == CR_T_TENSOR) {
            if (!v->meta) return CR_FAIL(CR_EVALUE, "value '%s' has no meta, so results that depend on it cannot be inferred", v->name);
            out->kind = CR_ARG_META;
            out->u.meta = v->meta;
        } else if (v->type == CR_T_INT && v->expr) {
            out->kind = CR_ARG_INT;
            out->u.i = cr_dim_of(g->env, v->expr);
        } else if (v->expr) {
            out->kind = CR_ARG_SYM;
            out->u.sym = v->expr;
        } else {
            return CR_FAIL(CR_EDATADEP, "value '%s' has no known value or expression here", v->name);
        }
    }
    return CR_OK;
}

/* A result's name as PyTorch forms it: the op's name, a trailing underscore kept. */
static cr_value result_value(const cr_op *op, const cr_out *out, cr_env *env, uint16_t ret) {
    cr_value v = { .name = op->schema.name, .ret = ret };
    if (out->scalar) {
        v.type = out->scalar == CR_ARG_INT ? CR_T_INT : out->scalar == CR_ARG_BOOL ? CR_T_BOOL : out->scalar == CR_ARG_FLOAT ? CR_T_FLOAT : CR_T_SCALAR;
        if (out->scalar == CR_ARG_INT && env) v.expr = cr_dim_sym(env, out->number);
    } else {
        v.type = CR_T_TENSOR;
        v.meta = out->none ? NULL : &out->meta;
    }
    return v;
}

uint64_t cr__fresh_storage(void) {
    static _Atomic uint64_t last = (uint64_t)1 << 63; /* above the ids of real storages */
    return ++last;
}

/* Storage identity of each result: shared with the aliased argument, fresh otherwise. */
static void give_storages(cr_rule *r) {
    for (int i = 0; i < r->nout; i++) {
        cr_out *out = &r->out[i];
        out->meta.storage = out->alias >= 0 ? cr_rule_meta(r, out->alias)->storage : cr__fresh_storage();
    }
}

/* Results of a call on metas. Composite rows run their decomposition on fake tensors of those metas. */
static cr_status infer_composite(const cr_op *op, cr_env *env, const cr_arg *args, cr_arena *arena, cr_rule *r);

static cr_status infer(const cr_op *op, cr_env *env, const cr_arg *args, cr_arena *arena, cr_rule *r) {
    const cr_row *row = op->row;
    bool has_rule = row->shape || row->scalar || row->kernel;
    if (!has_rule && (row->decomp || row->decomp_fn)) return infer_composite(op, env, args, arena, r);
    CR_TRY(cr_rule_run(r, op, env, args, NULL));
    give_storages(r);
    return CR_OK;
}

typedef struct faked { cr_tensor *tensor; const cr_meta *meta; } faked;
typedef struct fakes { CR_VEC(faked) at; } fakes;

static cr_status fake_arg(fakes *f, cr_env *env, cr_arena *arena, const cr_arg *from, cr_arg *to) {
    *to = *from;
    if (from->kind == CR_ARG_META) {
        cr_tensor *t = NULL;
        CR_TRY(cr_tensor_create_fake(env, from->u.meta, &t));
        if (cr_vec_push(&f->at, (faked){ t, from->u.meta })) {
            cr_tensor_release(t);
            return CR_ENOMEM;
        }
        t->meta.flags = from->u.meta->flags;
        *to = cr_arg_tensor(t);
        to->given = from->given;
    } else if (from->kind == CR_ARG_LIST) {
        cr_arg *items = cr_arena_alloc(arena, from->n * sizeof *items);
        if (!items) return CR_ENOMEM;
        for (uint32_t i = 0; i < from->n; i++) CR_TRY(fake_arg(f, env, arena, &from->u.list[i], &items[i]));
        to->u.list = items;
    }
    return CR_OK;
}

static cr_status collect_result(cr_rule *r, const fakes *f, const cr_arg *result) {
    if (result->kind == CR_ARG_LIST) {
        for (uint32_t i = 0; i < result->n; i++) CR_TRY(collect_result(r, f, &result->u.list[i]));
        return CR_OK;
    }
    cr_out *out = cr_rule_add(r);
    if (!out) return CR_ENOMEM;
    if (result->kind != CR_ARG_TENSOR) {
        out->none = result->kind == CR_ARG_NONE;
        out->scalar = out->none ? 0 : result->kind;
        out->number = result->u.i;
        return CR_OK;
    }
    cr_meta_copy(&out->meta, &result->u.t->meta);
    out->meta.flags = 0;
    out->meta.storage = cr__fresh_storage();
    for (size_t i = 0; i < f->at.n; i++)
        if (f->at.at[i].tensor->storage == result->u.t->storage) out->meta.storage = f->at.at[i].meta->storage;
    return CR_OK;
}

static cr_status infer_composite(const cr_op *op, cr_env *env, const cr_arg *args, cr_arena *arena, cr_rule *r) {
    fakes f = { { 0 } };
    cr_arg inputs[CR_MAX_PARAMS], results[16] = { { 0 } };
    uint16_t n = op->schema.nparams;
    cr_status status = CR_OK;
    r->op = op->base;
    r->env = env;
    r->arg = args;
    r->nargs = n;
    r->result = -1;
    r->out = r->inline_out;
    r->nout = 0;
    r->out_cap = CR_INLINE_OUTS;
    for (uint16_t i = 0; i < n && !status; i++) status = fake_arg(&f, env, arena, &args[i], &inputs[i]);
    cr_ambient *ambient = cr_ambient_get(), saved = *ambient;
    *ambient = (cr_ambient){ .fake = true, .depth = saved.depth + 1, .env = env };
    if (!status) status = cr_call(op, inputs, results);
    *ambient = saved;
    for (uint16_t i = 0; i < op->schema.nreturns && !status; i++) status = collect_result(r, &f, &results[i]);
    cr_results_release(results, op->schema.nreturns);
    for (size_t i = 0; i < f.at.n; i++) cr_tensor_release(f.at.at[i].tensor);
    cr_vec_dispose(&f.at);
    return status;
}

/* Visible results from the rule, then "x after" for each written argument. */
static cr_status call_values(cr_graph *g, const cr_op *op, const cr_arg *args, const cr_rule *r, cr_value *values, size_t max, size_t *n) {
    const cr_schema *s = &op->schema;
    size_t count = 0;
    int at = 0;
    for (uint16_t i = 0; i < s->nreturns; i++) {
        int m = s->returns[i].list ? r->nout - at - (s->nreturns - 1 - i) : 1;
        for (int k = 0; k < m && at < r->nout; k++, at++) {
            if (count == max) return CR_FAIL(CR_ERUNTIME, "%s: more than %zu results", op->name, max);
            values[count++] = result_value(op, &r->out[at], g->env, i);
        }
    }
    for (uint16_t i = 0; i < s->nparams; i++) {
        if (!s->params[i].writes || args[i].kind != CR_ARG_VALUE) continue;
        if (count == max) return CR_FAIL(CR_ERUNTIME, "%s: more than %zu results", op->name, max);
        const cr_value *before = &g->values.at[args[i].u.i];
        const cr_meta *after = before->meta;
        bool metadata = (op->base->tags & (CR_TAG_METADATA | CR_TAG_INPLACE_VIEW)) && !i;
        values[count++] = (cr_value){ .name = before->name, .ret = i, .type = CR_T_TENSOR, .hidden = true, .meta = metadata && r->nout ? &r->out[0].meta : after };
    }
    *n = count;
    return CR_OK;
}

/* An in-place or out result *is* its target: same meta, whatever the functional rule said about layout. */
static void aim_results(const cr_graph *g, const cr_op *op, const cr_arg *args, cr_rule *r) {
    if (op->variant == CR_FUNCTIONAL || (op->base->tags & (CR_TAG_METADATA | CR_TAG_INPLACE_VIEW))) return;
    for (int i = 0; i < r->nout && i < op->schema.nreturns; i++) {
        const cr_arg *target = op->variant == CR_INPLACE ? &args[0] : &args[op->schema.nparams - op->schema.nreturns + i];
        if (target->kind == CR_ARG_VALUE && g->values.at[target->u.i].meta) cr_meta_copy(&r->out[i].meta, g->values.at[target->u.i].meta);
    }
}

cr_status cr_graph_call(cr_graph *g, const cr_op *op, const cr_arg *args, uint32_t *node) {
    enum { MAX_VALUES = 256 };
    cr_value *values = NULL;
    cr_arena arena;
    cr_arena_init(&arena);
    cr_rule rule;
    rule.out = rule.inline_out;
    size_t n = 0;
    cr_status status = CR_OK;
    values = cr_arena_alloc(&arena, MAX_VALUES * sizeof *values);
    if (!values) { status = CR_ENOMEM; goto out; }
    const cr_region *region = cr__region_find(op);
    if (region) {
        CR_TRY_OUT(region->rule(g, op, args, values, &n, MAX_VALUES));
    } else {
        cr_arg resolved[CR_MAX_PARAMS];
        for (uint16_t i = 0; i < op->base->schema.nparams; i++) {
            const cr_param *p = &op->base->schema.params[i];
            const cr_arg *given = &args[i];
            if (op->variant == CR_OUT) {
                given = &p->fallback;
                for (uint16_t k = 0; k < op->schema.nparams; k++)
                    if (!strcmp(op->schema.params[k].name, p->name)) given = &args[k];
            }
            CR_TRY_OUT(cr__arg_resolve(g, &arena, given, &resolved[i]));
        }
        CR_TRY_OUT(infer(op->base, g->env, resolved, &arena, &rule));
        aim_results(g, op, args, &rule);
        CR_TRY_OUT(call_values(g, op, args, &rule, values, MAX_VALUES, &n));
    }
    CR_TRY_OUT(cr_graph_call_with(g, op, args, values, n, node));
out:
    cr_rule_dispose(&rule);
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
    g->nodes.at[g->output].args = copy;
    g->nodes.at[g->output].nargs = (uint16_t)n;
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
    for (; n != CR_NO_NODE; n = cr_graph_next(g, n)) replace_in(g->nodes.at[n].args, g->nodes.at[n].nargs, from, copy);
    return CR_OK;
}

cr_status cr_graph_set_args(cr_graph *g, uint32_t node, const cr_arg *args, size_t n) {
    cr_node *target = &g->nodes.at[node];
    if (target->kind == CR_NODE_CALL && n != target->op->schema.nparams)
        return CR_FAIL(CR_EVALUE, "%s takes %d arguments, not %zu", target->op->name, target->op->schema.nparams, n);
    cr_arg *copy = NULL;
    CR_TRY(cr__args_copy(g, args, n, &copy));
    target = &g->nodes.at[node];
    target->args = copy;
    target->nargs = (uint16_t)n;
    return CR_OK;
}

cr_status cr_graph_set_meta(cr_graph *g, uint32_t value, const cr_meta *meta) {
    cr_meta *copy = NULL;
    if (meta && !(copy = cr_arena_copy(&g->arena, meta, sizeof *meta))) return CR_ENOMEM;
    g->values.at[value].meta = copy;
    return CR_OK;
}

cr_status cr_graph_erase(cr_graph *g, uint32_t node) {
    cr_node *dead = &g->nodes.at[node];
    uint32_t *uses = cr_alloc((g->values.n + 1) * sizeof *uses);
    if (!uses) return CR_ENOMEM;
    cr_graph_count_uses(g, uses);
    for (uint32_t i = 0; i < dead->nvalues; i++)
        if (uses[dead->first + i]) {
            cr_free(uses);
            return CR_FAIL(CR_EVALUE, "value '%s' is still used; replace its uses before erasing its node", g->values.at[dead->first + i].name);
        }
    cr_free(uses);
    for (uint32_t i = 0; i < dead->nvalues; i++) {
        cr_value *v = &g->values.at[dead->first + i];
        cr_map_remove(&g->names, v->name, strlen(v->name));
        v->node = CR_NO_NODE;
    }
    dead->dead = true;
    g->live--;
    if (g->insert == node) g->insert = cr_graph_next(g, node);
    return CR_OK;
}
