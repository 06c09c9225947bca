/* cse.c: calls of the same op with the same arguments become one.
 *
 * Only pure calls on values that nobody writes to (the walk sees to the latter). Numbers are compared by their bits:
 * 0.0 and -0.0 are different arguments. How an argument was passed makes no difference. */
#include "graph/writes.h"
#include "passes/passes.h"

typedef struct calls { cr_map by_key; } calls; /* op, graph and arguments -> node of the new graph + 1 */

static void add_bytes(cr_str *key, const void *data, size_t n) { cr_str_addn(key, data, n); }

/* false: an argument that is compared by nothing (a generator, a graph). */
static bool add_arg(cr_str *key, const cr_arg *a) {
    uint8_t kind = a->kind;
    add_bytes(key, &kind, sizeof kind);
    switch ((cr_arg_kind)a->kind) {
    case CR_ARG_NONE: return true;
    case CR_ARG_LIST:
        add_bytes(key, &a->n, sizeof a->n);
        for (uint32_t i = 0; i < a->n; i++)
            if (!add_arg(key, &a->u.list[i])) return false;
        return true;
    case CR_ARG_STR:
        add_bytes(key, &a->n, sizeof a->n);
        add_bytes(key, a->u.s, a->n);
        return true;
    case CR_ARG_COMPLEX: add_bytes(key, a->u.c, 2 * sizeof *a->u.c); return true;
    case CR_ARG_DEVICE: add_bytes(key, &a->u.device, sizeof a->u.device); return true;
    case CR_ARG_VALUE:
    case CR_ARG_INT:
    case CR_ARG_FLOAT:
    case CR_ARG_BOOL:
    case CR_ARG_DTYPE:
    case CR_ARG_LAYOUT:
    case CR_ARG_FORMAT: add_bytes(key, &a->u.i, sizeof a->u.i); return true;
    default: return false;
    }
}

static cr_status merge(cr_rewriter *w, const cr_node *node, const cr_arg *args, cr_str *key, bool *done) {
    calls *all = cr_rewrite_user(w);
    const cr_graph *to = cr_rewrite_graph(w);
    uint64_t found;
    add_bytes(key, &to, sizeof to);
    add_bytes(key, &node->op, sizeof node->op);
    for (uint16_t i = 0; i < node->nargs; i++)
        if (!add_arg(key, &args[i])) return CR_OK;
    CR_TRY(cr_str_status(key));
    /* the walk is about to make it: the next value is its first */
    if (!cr_map_find(&all->by_key, key->at, key->n, &found))
        return cr_map_put(&all->by_key, key->at, key->n, (uint64_t)cr_graph_value_count(to) + 1);
    const cr_node *same = cr_graph_node(to, cr_graph_value(to, (uint32_t)found - 1)->node);
    if (same->kind != CR_NODE_CALL || same->op != node->op || same->nvalues != node->nvalues) return CR_OK;
    *done = true;
    for (uint32_t i = 0; i < node->nvalues; i++) {
        const cr_value *v = cr_graph_value(to, same->first + i);
        bool undefined = v->type == CR_T_TENSOR && !v->meta;
        cr_arg value = { .kind = CR_ARG_VALUE, .given = 1, .type = v->type, .u.i = same->first + i };
        CR_TRY(cr_rewrite_result(w, node, i, undefined ? cr_arg_none() : value));
    }
    return CR_OK;
}

static cr_status rule(cr_rewriter *w, const cr_node *node, const cr_arg *args, bool *done) {
    if (!cr_node_is_pure(cr_rewrite_source(w), node) || !node->nvalues) return CR_OK;
    cr_str key;
    cr_str_init(&key);
    cr_status status = merge(w, node, args, &key, done);
    cr_str_dispose(&key);
    return status;
}

cr_status cr_pass_cse(const cr_graph *g, cr_graph **out) {
    calls all;
    cr_map_init(&all.by_key);
    cr_status status = cr_rewrite(g, rule, &all, out);
    cr_map_dispose(&all.by_key);
    return status;
}
