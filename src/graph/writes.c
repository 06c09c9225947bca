/* writes.c: see writes.h. */
#include "graph/writes.h"

/* ---- one call ---- */

bool cr_op_writes(const cr_op *op) {
    for (uint16_t i = 0; i < op->schema.nparams; i++)
        if (op->schema.params[i].writes) return true;
    return false;
}

/* Where statistics stand among the arguments: (..., running_mean, running_var, training, ...); what has no `training`
 * always writes them. */
static uint16_t statistics_at(const cr_op *op) {
    uint16_t i = 0;
    while (i + 1 < op->schema.nparams && strcmp(op->schema.params[i].name, "running_mean")) i++;
    return i;
}

bool cr_op_updates_statistics(const cr_op *op, const cr_arg *args) {
    if (!(op->base->tags & CR_TAG_STATISTICS)) return false;
    uint16_t mean = statistics_at(op), var = mean + 1, training = mean + 2;
    if (args[mean].kind == CR_ARG_NONE && args[var].kind == CR_ARG_NONE) return false;
    return args[training].kind != CR_ARG_BOOL || args[training].u.i;
}

static bool updates_statistics(const cr_node *node) { return cr_op_updates_statistics(node->op, node->args); }

bool cr_graph_writes(const cr_graph *g) {
    for (uint32_t n = cr_graph_first(g); n != CR_NO_NODE; n = cr_graph_next(g, n))
        if (cr_graph_node(g, n)->kind == CR_NODE_CALL && cr_node_writes(cr_graph_node(g, n))) return true;
    return false;
}

static bool region_writes(const cr_node *node) {
    if (!(node->op->tags & CR_TAG_HIGHER_ORDER)) return false;
    for (uint16_t i = 0; i < node->nargs; i++)
        if (node->args[i].kind == CR_ARG_GRAPH && cr_graph_writes(node->args[i].u.graph)) return true;
    return false;
}

bool cr_node_writes(const cr_node *node) {
    return cr_op_writes(node->op) || updates_statistics(node) || region_writes(node);
}

typedef struct visit { const cr_graph *g; const cr_node *node; cr_write_fn *fn; void *user; } visit;

static cr_status see(const visit *v, const cr_arg *a, int kinds) {
    for (uint32_t i = 0; a->kind == CR_ARG_LIST && i < a->n; i++) CR_TRY(see(v, &a->u.list[i], kinds));
    if (a->kind != CR_ARG_VALUE || cr_graph_value(v->g, (uint32_t)a->u.i)->type != CR_T_TENSOR) return CR_OK;
    return v->fn(v->user, v->node, (uint32_t)a->u.i, kinds);
}

static int kinds_of(const cr_op *op) {
    if (op->base->tags & CR_TAG_METADATA) return CR_WRITE_META;
    return op->variant == CR_INPLACE && (op->base->tags & CR_TAG_INPLACE_VIEW) ? CR_WRITE_META : CR_WRITE_DATA;
}

typedef CR_VEC(cr_arg) operands;

/* Everything after the bodies, flattened: what their placeholders are, in order. */
static cr_status collect(const cr_arg *a, operands *out) {
    if (a->kind != CR_ARG_LIST) return cr_vec_push(out, *a);
    for (uint32_t i = 0; i < a->n; i++) CR_TRY(collect(&a->u.list[i], out));
    return CR_OK;
}

static cr_status collect_operands(const cr_node *node, operands *out) {
    uint16_t first = node->nargs;
    while (first && node->args[first - 1].kind != CR_ARG_GRAPH) first--;
    for (uint16_t i = first; i < node->nargs; i++) CR_TRY(collect(&node->args[i], out));
    return CR_OK;
}

/* A body with other placeholders than there are operands (numbers that it takes besides) may write any of them. */
static cr_status visit_body(const visit *v, const cr_graph *body, const operands *in, cr_sharing sharing) {
    cr_writes inner;
    size_t placeholders = 0, i = 0;
    for (uint32_t n = cr_graph_first(body); n != CR_NO_NODE; n = cr_graph_next(body, n))
        placeholders += cr_graph_node(body, n)->kind == CR_NODE_PLACEHOLDER;
    cr_status status = cr_writes_find(body, sharing, &inner);
    for (uint32_t n = cr_graph_first(body); !status && n != CR_NO_NODE && inner.all.n && placeholders == in->n;
         n = cr_graph_next(body, n)) {
        const cr_node *node = cr_graph_node(body, n);
        if (node->kind != CR_NODE_PLACEHOLDER) continue;
        int kinds = cr_writes_to(&inner, node->first);
        if (kinds) status = see(v, &in->at[i], kinds);
        i++;
    }
    for (; !status && inner.all.n && placeholders != in->n && i < in->n; i++)
        status = see(v, &in->at[i], CR_WRITE_DATA);
    cr_writes_dispose(&inner);
    return status;
}

static cr_status visit_bodies(const visit *v, cr_sharing sharing) {
    operands in = { 0 };
    cr_status status = collect_operands(v->node, &in);
    for (uint16_t i = 0; i < v->node->nargs && !status; i++)
        if (v->node->args[i].kind == CR_ARG_GRAPH) status = visit_body(v, v->node->args[i].u.graph, &in, sharing);
    cr_vec_dispose(&in);
    return status;
}

cr_status cr_node_visit_writes(const cr_graph *g, const cr_node *node, cr_sharing sharing, cr_write_fn *fn,
                               void *user) {
    visit v = { g, node, fn, user };
    const cr_schema *s = &node->op->schema;
    for (uint16_t i = 0; i < s->nparams && i < node->nargs; i++)
        if (s->params[i].writes) CR_TRY(see(&v, &node->args[i], kinds_of(node->op)));
    if (updates_statistics(node)) {
        uint16_t mean = statistics_at(node->op);
        CR_TRY(see(&v, &node->args[mean], CR_WRITE_DATA));
        CR_TRY(see(&v, &node->args[mean + 1], CR_WRITE_DATA));
    }
    return region_writes(node) ? visit_bodies(&v, sharing) : CR_OK;
}

/* ---- who shares memory ---- */

static uint32_t stand_in(uint32_t *memory, uint32_t v) {
    while (memory[v] != v) v = memory[v] = memory[memory[v]];
    return v;
}

typedef struct sharing { const cr_graph *g; uint32_t *memory, with; } sharing;

static void share(void *user, uint32_t value) {
    sharing *s = user;
    if (cr_graph_value(s->g, value)->type == CR_T_TENSOR)
        s->memory[stand_in(s->memory, value)] = stand_in(s->memory, s->with);
}

static cr_status share_by_storage(sharing *s) {
    cr_map first;
    cr_map_init(&first);
    cr_status status = CR_OK;
    for (uint32_t v = 0; v < cr_graph_value_count(s->g) && !status; v++) {
        const cr_value *value = cr_graph_value(s->g, v);
        uint64_t storage = value->node != CR_NO_NODE && value->meta ? value->meta->storage : 0, found;
        if (!storage) continue;
        s->with = v;
        if (cr_map_find(&first, &storage, sizeof storage, &found)) share(s, (uint32_t)found);
        else status = cr_map_put(&first, &storage, sizeof storage, v);
    }
    cr_map_dispose(&first);
    return status;
}

/* May a result be the argument, or a view of it? */
static bool may_share(const cr_op *op, uint16_t param, uint16_t ret) {
    const cr_schema *s = &op->schema;
    if (op->base->tags & (CR_TAG_SHARES | CR_TAG_HIGHER_ORDER)) return true;
    if ((op->base->tags & CR_TAG_VIEW) && !param) return true;
    const cr_param *p = &s->params[param], *r = ret < s->nreturns ? &s->returns[ret] : NULL;
    return r && p->alias && (p->alias == r->alias || p->alias_wild || r->alias_also);
}

static void share_by_op(sharing *s, const cr_node *node) {
    for (uint32_t k = 0; k < node->nvalues; k++) {
        const cr_value *v = cr_graph_value(s->g, node->first + k);
        if (v->type != CR_T_TENSOR) continue;
        s->with = node->first + k;
        for (uint16_t i = 0; i < node->nargs; i++)
            if (v->hidden ? v->ret == i : may_share(node->op, i, v->ret))
                cr_args_visit_values(&node->args[i], 1, share, s);
    }
}

static cr_status find_memory(const cr_graph *g, cr_sharing how, cr_writes *w) {
    uint32_t n = cr_graph_value_count(g);
    sharing s = { .g = g, .memory = w->memory };
    for (uint32_t v = 0; v < n; v++) w->memory[v] = v;
    CR_TRY(share_by_storage(&s));
    for (uint32_t k = cr_graph_first(g); how == CR_SHARING_POSSIBLE && k != CR_NO_NODE; k = cr_graph_next(g, k))
        if (cr_graph_node(g, k)->kind == CR_NODE_CALL) share_by_op(&s, cr_graph_node(g, k));
    for (uint32_t v = 0; v < n; v++) w->memory[v] = stand_in(w->memory, v);
    return CR_OK;
}

/* ---- a graph ---- */

typedef struct search { cr_writes *w; uint32_t node; } search;

static cr_status note_write(void *user, const cr_node *node, uint32_t value, int kinds) {
    search *s = user;
    (void)node;
    return cr_vec_push(&s->w->all, (cr_write){ s->node, value, (uint8_t)kinds });
}

static cr_status find_writes(const cr_graph *g, cr_sharing sharing, cr_writes *w) {
    for (uint32_t n = cr_graph_first(g); n != CR_NO_NODE; n = cr_graph_next(g, n)) {
        search s = { w, n };
        if (cr_graph_node(g, n)->kind == CR_NODE_CALL)
            CR_TRY(cr_node_visit_writes(g, cr_graph_node(g, n), sharing, note_write, &s));
    }
    return CR_OK;
}

static cr_status place_writes(const cr_graph *g, cr_sharing sharing, cr_writes *w) {
    uint32_t values = cr_graph_value_count(g), at = 0;
    w->place = cr_calloc(cr_graph_node_limit(g) + 1u, sizeof *w->place);
    w->memory = cr_alloc((values + 1u) * sizeof *w->memory);
    w->last = cr_calloc(values + 1u, sizeof *w->last);
    w->kinds = cr_calloc(values + 1u, sizeof *w->kinds);
    if (!w->place || !w->memory || !w->last || !w->kinds) return CR_ENOMEM;
    for (uint32_t n = cr_graph_first(g); n != CR_NO_NODE; n = cr_graph_next(g, n)) w->place[n] = ++at;
    CR_TRY(find_memory(g, sharing, w));
    for (size_t i = 0; i < w->all.n; i++) {
        uint32_t memory = w->memory[w->all.at[i].value];
        w->last[memory] = CR_MAX(w->last[memory], w->place[w->all.at[i].node]);
        w->kinds[memory] |= w->all.at[i].kinds;
    }
    return CR_OK;
}

cr_status cr_writes_find(const cr_graph *g, cr_sharing sharing, cr_writes *out) {
    *out = (cr_writes){ 0 };
    cr_status status = find_writes(g, sharing, out);
    if (!status && out->all.n) status = place_writes(g, sharing, out);
    if (status) cr_writes_dispose(out);
    return status;
}

void cr_writes_dispose(cr_writes *w) {
    cr_vec_dispose(&w->all);
    cr_free(w->place);
    cr_free(w->memory);
    cr_free(w->last);
    cr_free(w->kinds);
    *w = (cr_writes){ 0 };
}
