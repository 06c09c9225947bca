/* verify.c: what holds for every graph, and further properties that passes need or establish.
 *
 * The first part is what the interpreter and all other readers rely on without looking: order, ids, arguments, counts.
 * The other properties are independent of each other. An error names the graph, the node and the property. */
#include "graph/internal.h"
#include "graph/writes.h"

typedef struct verifier {
    cr_graph *g;
    uint32_t node;     /* being looked at */
    bool *defined;     /* by value: made by a node before this one */
    uint32_t *written; /* by value: the "after" value that has taken its place; CR_NO_VALUE: none */
    bool layout;       /* strides and offsets are compared, too */
} verifier;

static cr_status broken(const verifier *v, const char *property, const char *format, ...) CR_PRINTF(3, 4);
static cr_status broken(const verifier *v, const char *property, const char *format, ...) {
    const cr_graph *g = v->g;
    cr_str text;
    cr_str_init(&text);
    cr_str_addf(&text, "graph%s%s is not %s: ", *g->name ? " " : "", g->name, property);
    if (v->node != CR_NO_NODE) {
        const cr_node *node = g->nodes.at[v->node];
        if (node->kind == CR_NODE_OUTPUT) cr_str_add(&text, "return: ");
        else if (node->nvalues && node->first < g->values.n)
            cr_str_addf(&text, "%%%s%s%s: ", g->values.at[node->first]->name, node->op ? " = " : "",
                        node->op ? node->op->name : "");
        else if (node->op) cr_str_addf(&text, "%s: ", node->op->name);
    }
    va_list args;
    va_start(args, format);
    cr_str_addv(&text, format, args);
    va_end(args);
    cr_status status = CR_FAIL(CR_EVALUE, "%s", cr_str_get(&text));
    cr_str_dispose(&text);
    return status;
}

/* ---- well-formed ---- */

static cr_status check_use(verifier *v, const cr_arg *a) {
    const cr_graph *g = v->g;
    if (a->kind == CR_ARG_LIST) {
        for (uint32_t i = 0; i < a->n; i++) CR_TRY(check_use(v, &a->u.list[i]));
    } else if (a->kind == CR_ARG_GRAPH) {
        for (size_t i = 0; i < g->subgraphs.n; i++)
            if (g->subgraphs.at[i] == a->u.graph) return CR_OK;
        return broken(v, "well-formed", "an argument is a graph that is no subgraph of this one");
    } else if (a->kind == CR_ARG_VALUE) {
        if (a->u.i < 0 || (size_t)a->u.i >= g->values.n || g->values.at[a->u.i]->node == CR_NO_NODE)
            return broken(v, "well-formed", "an argument names value %lld, which does not exist", (long long)a->u.i);
        const cr_value *used = g->values.at[a->u.i];
        if (!v->defined[a->u.i]) return broken(v, "well-formed", "%%%s is used before it is defined", used->name);
        if (v->written[a->u.i] != CR_NO_VALUE)
            return broken(v, "well-formed", "%%%s is used after it was written; its name is %%%s from there on",
                          used->name, g->values.at[v->written[a->u.i]]->name);
        if (a->type != used->type)
            return broken(v, "well-formed", "%%%s changed its type after it was used", used->name);
    } else if (a->kind == CR_ARG_TENSOR || a->kind == CR_ARG_META || a->kind == CR_ARG_SYM ||
               (a->kind == CR_ARG_INT && !cr_dim_is_plain(a->u.i))) {
        return broken(v, "well-formed", "an argument is neither a value nor a constant");
    }
    return CR_OK;
}

/* The arguments fit the schema: binding them again accepts them. */
static cr_status check_schema(verifier *v, const cr_node *node) {
    const cr_schema *s = &node->op->schema;
    if (node->nargs != s->nparams)
        return broken(v, "well-formed", "%d arguments for %d parameters", node->nargs, s->nparams);
    cr_keyword keywords[CR_MAX_PARAMS];
    cr_binding binding;
    cr_arena arena;
    uint16_t positional = s->npositional, n = 0;
    for (uint16_t i = positional; i < s->nparams; i++)
        if (node->args[i].given || node->args[i].kind != CR_ARG_NONE)
            keywords[n++] = (cr_keyword){ s->params[i].name, node->args[i] };
    cr_arena_init(&arena);
    cr_status status = cr_bind(node->op, true, node->args, positional, keywords, n, &arena, &binding);
    cr_arena_dispose(&arena);
    return !status || status == CR_ENOMEM ? status : broken(v, "well-formed", "%s", cr_error_message());
}

static uint32_t count_written(const cr_graph *g, const cr_arg *a) {
    uint32_t n = 0;
    if (a->kind == CR_ARG_VALUE) return g->values.at[a->u.i]->type == CR_T_TENSOR;
    for (uint32_t i = 0; a->kind == CR_ARG_LIST && i < a->n; i++) n += count_written(g, &a->u.list[i]);
    return n;
}

/* Visible results in the order of the returns, then one hidden one per written argument. */
static cr_status check_results(verifier *v, const cr_node *node) {
    const cr_graph *g = v->g;
    const cr_schema *s = &node->op->schema;
    uint32_t at = node->first, end = node->first + node->nvalues;
    for (uint16_t r = 0; r < s->nreturns; r++) {
        uint32_t n = 0;
        for (; at < end && !g->values.at[at]->hidden && g->values.at[at]->ret == r; at++) n++;
        if (!s->returns[r].list && n != 1) return broken(v, "well-formed", "%u values for result %d", n, r);
    }
    for (uint16_t k = 0; s->varargs_returns && at < end && !g->values.at[at]->hidden; at++, k++)
        if (g->values.at[at]->ret != k)
            return broken(v, "well-formed", "result %d is numbered %d", k, g->values.at[at]->ret);
    for (uint16_t p = 0; p < s->nparams; p++) {
        if (!s->params[p].writes) continue;
        for (uint32_t n = count_written(g, &node->args[p]); n; n--, at++)
            if (at == end || !g->values.at[at]->hidden || g->values.at[at]->ret != p)
                return broken(v, "well-formed", "argument '%s' is written, and no hidden value says what it is after",
                              s->params[p].name);
    }
    return at == end ? CR_OK : broken(v, "well-formed", "%u results more than it gives", end - at);
}

static void mark_written(verifier *v, const cr_arg *a, uint32_t *hidden) {
    if (a->kind == CR_ARG_VALUE && v->g->values.at[a->u.i]->type == CR_T_TENSOR) v->written[a->u.i] = (*hidden)++;
    for (uint32_t i = 0; a->kind == CR_ARG_LIST && i < a->n; i++) mark_written(v, &a->u.list[i], hidden);
}

static cr_status check_call(verifier *v, const cr_node *node) {
    if (!node->op) return broken(v, "well-formed", "a call without an op");
    CR_TRY(check_schema(v, node));
    CR_TRY(check_results(v, node));
    uint32_t hidden = node->first;
    while (hidden < node->first + node->nvalues && !v->g->values.at[hidden]->hidden) hidden++;
    for (uint16_t p = 0; p < node->nargs; p++)
        if (node->op->schema.params[p].writes) mark_written(v, &node->args[p], &hidden);
    return CR_OK;
}

static cr_status check_node(verifier *v, bool *body) {
    const cr_graph *g = v->g;
    const cr_node *node = g->nodes.at[v->node];
    uint64_t found;
    for (uint16_t i = 0; i < node->nargs; i++) CR_TRY(check_use(v, &node->args[i]));
    if (node->first + (uint64_t)node->nvalues > g->values.n) return broken(v, "well-formed", "its values do not exist");
    switch ((cr_node_kind)node->kind) {
    case CR_NODE_PLACEHOLDER:
        if (*body) return broken(v, "well-formed", "an input after other nodes");
        break;
    case CR_NODE_GET_ATTR:
        if (!node->target || !cr_graph_constant(g, node->target))
            return broken(v, "well-formed", "there is no constant '%s'", node->target ? node->target : "");
        break;
    case CR_NODE_CALL: CR_TRY(check_call(v, node)); break;
    case CR_NODE_OUTPUT:
        if (cr_graph_next(g, v->node) != CR_NO_NODE) return broken(v, "well-formed", "there are nodes after it");
        break;
    }
    *body |= node->kind != CR_NODE_PLACEHOLDER;
    if (node->kind != CR_NODE_CALL && node->kind != CR_NODE_OUTPUT && node->nvalues != 1)
        return broken(v, "well-formed", "%u values, not one", node->nvalues);
    for (uint32_t i = node->first; i < node->first + node->nvalues; i++) {
        const cr_value *value = g->values.at[i];
        if (value->node != v->node) return broken(v, "well-formed", "value %%%s belongs to another node", value->name);
        if (!cr_map_find_str(&g->names, value->name, &found) || found != i + 1)
            return broken(v, "well-formed", "the name %%%s is not its own", value->name);
        v->defined[i] = true;
    }
    return CR_OK;
}

static cr_status check_shape(verifier *v) {
    const cr_graph *g = v->g;
    bool body = false;
    uint32_t output = CR_NO_NODE;
    for (v->node = cr_graph_first(g); v->node != CR_NO_NODE; v->node = cr_graph_next(g, v->node)) {
        CR_TRY(check_node(v, &body));
        if (g->nodes.at[v->node]->kind == CR_NODE_OUTPUT) output = v->node;
    }
    if (output == CR_NO_NODE || output != g->output)
        return broken(v, "well-formed", "it has no output; end it with cr_graph_set_output");
    return CR_OK;
}

/* ---- metas ---- */

/* Equal where both are known, at the hints too; what depends on data alone is not compared. */
static bool dims_agree(cr_env *env, cr_dim a, cr_dim b) {
    int64_t x, y;
    if (a == b) return true;
    cr_tri known = cr_dim_known(env, a, CR_EQ, b);
    if (known != CR_UNKNOWN) return known == CR_YES;
    return !cr_dim_hint(env, a, &x) || !cr_dim_hint(env, b, &y) || x == y;
}

static bool metas_agree(cr_env *env, const cr_meta *a, const cr_meta *b, bool layout) {
    if (a->dtype != b->dtype || a->rank != b->rank || a->device.type != b->device.type ||
        (layout && !dims_agree(env, a->offset, b->offset)))
        return false;
    for (int d = 0; d < a->rank; d++)
        if (!dims_agree(env, a->size[d], b->size[d]) || (layout && !dims_agree(env, a->stride[d], b->stride[d])))
            return false;
    return true;
}

static cr_status check_meta(verifier *v, const cr_value *have, const cr_value *want) {
    cr_env *env = v->g->env;
    if (have->type != want->type) return broken(v, "typed", "%%%s has another type than the op gives", have->name);
    if (have->type != CR_T_TENSOR || (!have->meta && !want->meta)) return CR_OK;
    if (have->meta && want->meta && metas_agree(env, have->meta, want->meta, v->layout)) return CR_OK;
    if (!have->meta) return broken(v, "typed", "%%%s has no meta", have->name);
    cr_str x, y;
    cr_str_init(&x);
    cr_str_init(&y);
    cr_meta_print(env, have->meta, &x);
    if (want->meta) cr_meta_print(env, want->meta, &y);
    else cr_str_add(&y, "undefined");
    cr_status status = broken(v, "typed", "%%%s is %s, the op gives %s", have->name, cr_str_get(&x), cr_str_get(&y));
    cr_str_dispose(&x);
    cr_str_dispose(&y);
    return status;
}

static cr_status check_metas_of(verifier *v, const cr_node *node, cr_arena *arena) {
    const cr_graph *g = v->g;
    cr_value *values = NULL;
    size_t n = 0;
    if (node->kind == CR_NODE_PLACEHOLDER || node->kind == CR_NODE_GET_ATTR) {
        const cr_value *value = g->values.at[node->first];
        return value->type == CR_T_TENSOR && !value->meta && v->layout
                   ? broken(v, "typed", "%%%s has no meta", value->name)
                   : CR_OK;
    }
    /* nobody knows what an opaque call gives */
    if (node->kind != CR_NODE_CALL || !strcmp(node->op->name, "cresset::opaque")) return CR_OK;
    cr_status status = cr__infer(v->g, node->op, node->args, arena, &values, &n);
    if (status) return status == CR_ENOMEM ? status : broken(v, "typed", "%s", cr_error_message());
    if (n != node->nvalues) return broken(v, "typed", "%u results where the op gives %zu", node->nvalues, n);
    for (size_t i = 0; i < n; i++) CR_TRY(check_meta(v, g->values.at[node->first + i], &values[i]));
    return CR_OK;
}

static cr_status check_all_metas(verifier *v) {
    const cr_graph *g = v->g;
    for (v->node = cr_graph_first(g); v->node != CR_NO_NODE; v->node = cr_graph_next(g, v->node)) {
        cr_arena arena;
        cr_arena_init(&arena);
        cr_status status = check_metas_of(v, g->nodes.at[v->node], &arena);
        cr_arena_dispose(&arena);
        CR_TRY(status);
    }
    return CR_OK;
}

static cr_status check_metas(verifier *v) {
    cr_env_trial trial = cr_env_begin_trial(v->g->env);
    cr_status status = check_all_metas(v);
    cr_env_end_trial(v->g->env, trial);
    return status;
}

/* ---- functional, core ---- */

static bool is_core(const cr_op *op) {
    static const char *const namespaces[] = { "_operator", "torch", "math", "higher_order" };
    for (size_t i = 0; i < CR_COUNT(namespaces); i++)
        if (!strcmp(op->schema.ns, namespaces[i])) return true;
    return (op->tags & (CR_TAG_CORE | CR_TAG_ASSERT | CR_TAG_CUSTOM)) && op->variant == CR_FUNCTIONAL;
}

static cr_status check_ops(verifier *v, uint32_t properties) {
    const cr_graph *g = v->g;
    for (v->node = cr_graph_first(g); v->node != CR_NO_NODE; v->node = cr_graph_next(g, v->node)) {
        const cr_op *op = g->nodes.at[v->node]->op;
        if (!op) continue;
        if ((properties & CR_VERIFY_FUNCTIONAL) && cr_node_writes(g->nodes.at[v->node]))
            return broken(v, "functional", "it writes to an argument");
        if ((properties & CR_VERIFY_CORE) && !is_core(op))
            return broken(v, "core", "the op is not in the core set; decompose it");
    }
    return CR_OK;
}

cr_status cr_graph_verify(const cr_graph *g, uint32_t properties) {
    verifier v = { .g = (cr_graph *)g, .node = CR_NO_NODE }; /* inference may make symbols, it never edits the graph */
    size_t n = g->values.n + 1;
    cr_status status = CR_OK;
    v.defined = cr_calloc(n, sizeof *v.defined);
    v.written = cr_alloc(n * sizeof *v.written);
    if (!v.defined || !v.written) CR_TRY_OUT(CR_ENOMEM);
    memset(v.written, 0xff, n * sizeof *v.written);
    CR_TRY_OUT(check_shape(&v));
    CR_TRY_OUT(cr_graph_check_regions(g));
    for (size_t i = 0; i < g->subgraphs.n; i++) CR_TRY_OUT(cr_graph_verify(g->subgraphs.at[i], properties));
    v.layout = (properties & CR_VERIFY_METAS) != 0;
    if (properties & (CR_VERIFY_METAS | CR_VERIFY_SIZES)) CR_TRY_OUT(check_metas(&v));
    if (properties & (CR_VERIFY_FUNCTIONAL | CR_VERIFY_CORE)) CR_TRY_OUT(check_ops(&v, properties));
out:
    cr_free(v.defined);
    cr_free(v.written);
    return status;
}
