/* channels_last.c: between convolutions, images stay channels-last.
 *
 * Packed convolutions give channels-last results, and pack_conv.c restores after each what the exported program had.
 * Here a value may have a *twin*: the same numbers in another layout, already computed. An op that does not care about
 * layouts is called on the twins of its arguments; its result then is the twin of what the program asked for, which
 * becomes a copy of it or, for views, the view it was. Nobody uses most of these copies: the walk that follows drops
 * them, and what is left are conversions at the borders of convolution regions. Outputs are never twins, so their
 * strides stay the program's. */
#include "graph/writes.h"
#include "ops/view.h"
#include "passes/internal.h"

typedef struct twin_key { const cr_graph *g; uint64_t value; } twin_key;
typedef struct twins { cr_map map; } twins; /* value of the new graph -> twin + 1 */

/* ---- twins ---- */

static bool twin_of(cr_rewriter *w, const cr_arg *a, cr_arg *out) {
    const twins *t = cr_rewrite_user(w);
    twin_key key = { cr_rewrite_graph(w), (uint64_t)a->u.i };
    uint64_t found;
    if (a->kind != CR_ARG_VALUE || !cr_map_find(&t->map, &key, sizeof key, &found)) return false;
    *out = *a;
    out->u.i = (int64_t)found - 1;
    return true;
}

static cr_status twin_set(cr_rewriter *w, const cr_arg *plain, const cr_arg *twin) {
    twins *t = cr_rewrite_user(w);
    twin_key key = { cr_rewrite_graph(w), (uint64_t)plain->u.i };
    return cr_map_put(&t->map, &key, sizeof key, (uint64_t)twin->u.i + 1);
}

enum { MOST_ITEMS = 64 };
typedef struct call { cr_arg args[CR_MAX_PARAMS], items[MOST_ITEMS]; uint32_t nitems; bool any; } call;

/* The arguments, twins where there are some. */
static bool with_twins(cr_rewriter *w, const cr_node *node, const cr_arg *args, call *c) {
    c->any = false;
    c->nitems = 0;
    for (uint16_t i = 0; i < node->nargs; i++) {
        c->args[i] = args[i];
        if (twin_of(w, &args[i], &c->args[i])) c->any = true;
        if (args[i].kind != CR_ARG_LIST) continue;
        if (c->nitems + args[i].n > MOST_ITEMS) return false;
        cr_arg *items = &c->items[c->nitems];
        c->nitems += args[i].n;
        for (uint32_t k = 0; k < args[i].n; k++) {
            items[k] = args[i].u.list[k];
            if (twin_of(w, &args[i].u.list[k], &items[k])) c->any = true;
        }
        c->args[i].u.list = items;
    }
    return c->any;
}

/* ---- ops ---- */

/* Kernels that read any strides well and whose result does not depend on them. */
static bool is_neutral(const cr_op *op) {
    bool any = (op->tags & CR_TAG_ANY_LAYOUT) || op->base->row->scalar;
    return any && op->variant == CR_FUNCTIONAL && cr_op_is_pure(op);
}

/* Calls by which layouts are restored: a copy, or other strides where they say nothing. */
static bool is_copy(const cr_op *op) { return cr_op_facts(op)->copy == CR_COPY_PLAIN && !(op->tags & CR_TAG_VIEW); }
static bool is_restrided(const cr_op *op) { return cr_op_view(op) == CR_VIEW_STRIDED; }

/* A view that is one of whatever lies differently, too. */
static bool is_moving_view(const cr_op *op) {
    cr_view_kind kind = cr_op_view(op);
    return kind != CR_VIEW_NONE && kind != CR_VIEW_SAME && kind != CR_VIEW_STRIDED && cr_view_never_copies(op);
}

/* A view to another shape that the twin's strides allow. */
static cr_status can_view(cr_rewriter *w, const cr_node *node, const call *c, bool *can) {
    cr_dim size[CR_MAX_RANK], stride[CR_MAX_RANK];
    *can = true;
    if (cr_op_view(node->op) != CR_VIEW_RESHAPE) return CR_OK;
    const cr_meta *was = cr_graph_value(cr_rewrite_source(w), node->first)->meta;
    memcpy(size, was->size, was->rank * sizeof *size);
    return cr_view_strides(cr_graph_env(cr_rewrite_graph(w)), cr_rewrite_meta(w, &c->args[0]), was->rank, size, stride,
                           can);
}

/* One result: what the program asked for, and `made` as its twin where that is something else. */
static cr_status bind_view(cr_rewriter *w, const cr_node *node, uint32_t i, cr_arg plain, cr_arg made) {
    cr_env *env = cr_graph_env(cr_rewrite_graph(w));
    const cr_meta *a = cr_rewrite_meta(w, &plain), *b = cr_rewrite_meta(w, &made);
    if (cr__same_strides(env, a, b, false)) return cr_rewrite_result(w, node, i, made);
    CR_TRY(twin_set(w, &plain, &made));
    return cr_rewrite_result(w, node, i, plain);
}

static cr_status move_view(cr_rewriter *w, const cr_node *node, const cr_arg *args, const call *c, bool *done) {
    cr_arg plain = cr_arg_none(), made = cr_arg_none();
    bool can;
    CR_TRY(can_view(w, node, c, &can));
    if (!can) return CR_OK;
    CR_TRY(cr_rewrite_op(w, node->op, args, &plain));
    CR_TRY(cr_rewrite_op(w, node->op, c->args, &made));
    *done = true;
    if (made.kind != CR_ARG_LIST) return bind_view(w, node, 0, plain, made);
    for (uint32_t i = 0; i < made.n; i++) CR_TRY(bind_view(w, node, i, plain.u.list[i], made.u.list[i]));
    return CR_OK;
}

static cr_status compute(cr_rewriter *w, const cr_node *node, const call *c, bool *done) {
    cr_arg results[8] = { { 0 } };
    cr_env *env = cr_graph_env(cr_rewrite_graph(w));
    const cr_graph *from = cr_rewrite_source(w);
    if (node->nvalues > CR_COUNT(results) || node->nvalues != cr_result_count(node->op)) return CR_OK;
    for (uint32_t i = 0; i < node->nvalues; i++) {
        const cr_value *v = cr_graph_value(from, node->first + i);
        if (v->type != CR_T_TENSOR || !cr__layout_can_restore(env, v->meta)) return CR_OK;
    }
    CR_TRY(cr_rewrite_op(w, node->op, c->args, results));
    *done = true;
    for (uint32_t i = 0; i < node->nvalues; i++) {
        cr_arg plain;
        bool same;
        CR_TRY(cr__layout_restore(w, results[i], cr_graph_value(from, node->first + i)->meta, &plain, &same));
        if (!same) CR_TRY(twin_set(w, &plain, &results[i]));
        CR_TRY(cr_rewrite_result(w, node, i, plain));
    }
    return CR_OK;
}

const cr_arg *cr__layout_restored(cr_rewriter *w, const cr_node *node) {
    if (node->kind != CR_NODE_CALL) return NULL;
    if (is_copy(node->op)) return node->nargs > 1 && node->args[1].kind == CR_ARG_FORMAT ? &node->args[0] : NULL;
    if (!is_restrided(node->op)) return NULL;
    const cr_meta *to = cr_graph_value(cr_rewrite_graph(w), node->first)->meta,
                  *from = cr_rewrite_meta(w, &node->args[0]);
    cr_env *env = cr_graph_env(cr_rewrite_graph(w));
    if (!to || !from || to->rank != from->rank || cr_dim_known(env, to->offset, CR_EQ, from->offset) != CR_YES ||
        !cr__same_strides(env, to, from, true))
        return NULL;
    for (int d = 0; d < to->rank; d++)
        if (cr_dim_known(env, to->size[d], CR_EQ, from->size[d]) != CR_YES) return NULL;
    return &node->args[0];
}

/* A channels-last image in another layout: where twins begin. */
static cr_status begin(cr_rewriter *w, const cr_node *node, const cr_arg *args, bool *done) {
    cr_env *env = cr_graph_env(cr_rewrite_graph(w));
    cr_arg plain = cr_arg_none(), twin;
    CR_TRY(cr_rewrite_op(w, node->op, args, &plain));
    *done = true;
    CR_TRY(cr_rewrite_result(w, node, 0, plain));
    const cr_arg *from =
        cr__layout_restored(w, cr_graph_node(cr_rewrite_graph(w),
                                             cr_graph_value(cr_rewrite_graph(w), (uint32_t)plain.u.i)->node));
    if (!from) return CR_OK;
    if (!twin_of(w, from, &twin)) twin = *from;
    const cr_meta *x = cr_rewrite_meta(w, &twin);
    return x->rank == 4 && cr_meta_is_contiguous(env, x, CR_CHANNELS_LAST) == CR_YES ? twin_set(w, &plain, &twin)
                                                                                     : CR_OK;
}

static cr_status rule(cr_rewriter *w, const cr_node *node, const cr_arg *args, bool *done) {
    call c;
    if (is_copy(node->op) || is_restrided(node->op)) return begin(w, node, args, done);
    if (!with_twins(w, node, args, &c)) return CR_OK;
    if (is_moving_view(node->op)) return move_view(w, node, args, &c, done);
    return is_neutral(node->op) ? compute(w, node, &c, done) : CR_OK;
}

cr_status cr_pass_channels_last(const cr_graph *g, cr_graph **out) {
    twins t;
    cr_graph *doubled = NULL;
    cr_map_init(&t.map);
    cr_status status = cr_rewrite(g, rule, &t, &doubled);
    cr_map_dispose(&t.map);
    if (!status) status = cr_pass_dce(doubled, out);
    cr_graph_release(doubled);
    return status;
}
