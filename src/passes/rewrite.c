/* rewrite.c: the walk that rules share.
 *
 * The new graph is written in the old one's order. A call that no rule takes is copied with the metas it had, which is
 * cheap; only where an argument's meta came out otherwise is it inferred again, so that strides and aliasing stay true.
 * What a result shares with an argument it goes on sharing.
 *
 * Uses: each call of the new graph counts how often its values are used by calls that are themselves used, plus the
 * uses that old calls not yet reached will make. A call that a rule left without users gives back what it used, at
 * once, so that "has one user" means what a reader of the finished graph would say. */
#include "graph/writes.h"
#include "ops/view.h"
#include "passes/internal.h"

typedef struct made_node { uint32_t live; bool held; } made_node;           /* per node of the new graph */
typedef struct made_value { uint32_t uses; bool unstable; } made_value;     /* per value of the new graph */

struct cr_rewriter {
    cr_emitter emitter; /* first: what rules call through it they call by cr_rewrite_op */
    const cr_graph *from;
    cr_graph *to;
    cr__walk walk;
    cr_arg *map;       /* per value of `from` */
    uint32_t *uses;    /* per value of `from` */
    bool *needed;      /* per node id of `from` */
    cr_writes writes;  /* of `from` */
    cr_map constants;  /* storage and layout of a tensor -> value of `to` + 1 */
    CR_VEC(made_node) nodes;
    CR_VEC(made_value) values;
    cr_arena arena;    /* lists while a call is looked at */
};

void *cr_rewrite_user(const cr_rewriter *w) { return w->walk.user; }
cr_graph *cr_rewrite_graph(const cr_rewriter *w) { return w->to; }
const cr_graph *cr_rewrite_source(const cr_rewriter *w) { return w->from; }

/* ---- calls that serve every size ---- */

cr_status cr__call_or_copy(cr_graph *g, const cr_op *op, const cr_arg *args, bool may_copy, uint32_t *made) {
    cr_status status = cr_graph_call(g, op, args, made);
    if (!status || status == CR_ENOMEM || !may_copy || !cr_view_takes_sizes(op)) return status;
    return cr_graph_call(g, cr_op_find("aten::reshape"), args, made);
}

cr_status cr__emit_general(cr_emitter *e, const cr_op *op, const cr_arg *args, cr_arg *results) {
    cr_status status = e->call(e, op, args, results);
    if (!status || status == CR_ENOMEM || !cr_env_is_general(e->env) || !cr_view_takes_sizes(op)) return status;
    return e->call(e, cr_op_find("aten::reshape"), args, results);
}

/* ---- what is written ---- */

bool cr__rewrite_writes(const cr_rewriter *w, uint32_t value) { return cr_writes_to(&w->writes, value); }

/* Is its memory written after the value was made? One that the last write made, or that was made later, never
 * changes. */
static bool is_unstable(const cr_rewriter *w, uint32_t value) {
    return cr_writes_after(&w->writes, value, cr_graph_value(w->from, value)->node);
}

static bool any_unstable(const cr_rewriter *w, const cr_arg *args, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (args[i].kind == CR_ARG_LIST && any_unstable(w, args[i].u.list, args[i].n)) return true;
        if (args[i].kind == CR_ARG_VALUE && is_unstable(w, (uint32_t)args[i].u.i)) return true;
    }
    return false;
}

static bool is_stable(const cr_rewriter *w, const cr_node *node) {
    if (!w->writes.all.n) return true;
    if (any_unstable(w, node->args, node->nargs)) return false;
    for (uint32_t i = 0; i < node->nvalues; i++)
        if (is_unstable(w, node->first + i)) return false;
    return true;
}

/* ---- what is needed ---- */

static void need_value(void *user, uint32_t value) {
    cr_rewriter *w = user;
    w->needed[cr_graph_value(w->from, value)->node] = true;
}

static cr_status find_needed(cr_rewriter *w) {
    CR_VEC(uint32_t) order = { 0 };
    cr_status status = CR_OK;
    uint32_t most = 0;
    for (uint32_t n = cr_graph_first(w->from); n != CR_NO_NODE; n = cr_graph_next(w->from, n)) {
        CR_TRY_OUT(cr_vec_push(&order, n));
        most = CR_MAX(most, n);
    }
    w->needed = cr_arena_calloc(&w->arena, most + 1, sizeof *w->needed);
    if (!w->needed) CR_TRY_OUT(CR_ENOMEM);
    for (size_t i = order.n; i-- > 0;) {
        const cr_node *node = cr_graph_node(w->from, order.at[i]);
        bool *needed = &w->needed[order.at[i]];
        *needed |= node->kind == CR_NODE_OUTPUT || (node->kind == CR_NODE_CALL && !cr_node_is_pure(w->from, node));
        if (!*needed) continue;
        cr_args_visit_values(node->args, node->nargs, need_value, w);
    }
    /* Uses by what goes do not count. */
    w->uses = cr_arena_calloc(&w->arena, cr_graph_value_count(w->from) + 1, sizeof *w->uses);
    if (!w->uses) status = CR_ENOMEM;
out:
    cr_vec_dispose(&order);
    return status;
}

static void count_use(void *user, uint32_t value) { ((uint32_t *)user)[value]++; }

static void count_uses(cr_rewriter *w) {
    for (uint32_t n = cr_graph_first(w->from); n != CR_NO_NODE; n = cr_graph_next(w->from, n))
        if (w->needed[n])
            cr_args_visit_values(cr_graph_node(w->from, n)->args, cr_graph_node(w->from, n)->nargs, count_use, w->uses);
}

/* ---- uses in the new graph ---- */

static cr_status make_room(cr_rewriter *w, uint32_t node) {
    size_t values = cr_graph_value_count(w->to);
    CR_TRY(cr_vec_reserve(&w->values, values));
    CR_TRY(cr_vec_reserve(&w->nodes, node + 1u));
    for (; w->values.n < values; w->values.n++) w->values.at[w->values.n] = (made_value){ 0 };
    for (; w->nodes.n <= node; w->nodes.n++) w->nodes.at[w->nodes.n] = (made_node){ 0 };
    return CR_OK;
}

static void use_one(void *user, uint32_t value);
static void drop_one(void *user, uint32_t value);

static void use(cr_rewriter *w, uint32_t value, uint32_t n) {
    uint32_t id = cr_graph_value(w->to, value)->node;
    if (value >= w->values.n || id >= w->nodes.n || !n) return;
    const cr_node *node = cr_graph_node(w->to, id);
    bool first = !w->nodes.at[id].live && !w->nodes.at[id].held;
    w->values.at[value].uses += n;
    w->nodes.at[id].live += n;
    if (first) cr_args_visit_values(node->args, node->nargs, use_one, w);
}

static void drop(cr_rewriter *w, uint32_t value, uint32_t n) {
    uint32_t id = cr_graph_value(w->to, value)->node;
    if (value >= w->values.n || id >= w->nodes.n || !n) return;
    const cr_node *node = cr_graph_node(w->to, id);
    w->values.at[value].uses -= n;
    w->nodes.at[id].live -= n;
    if (!w->nodes.at[id].live && !w->nodes.at[id].held) cr_args_visit_values(node->args, node->nargs, drop_one, w);
}

static void use_one(void *user, uint32_t value) { use(user, value, 1); }
static void drop_one(void *user, uint32_t value) { drop(user, value, 1); }

/* A node was just made. One with effects stays, used or not. */
static cr_status note_made(cr_rewriter *w, uint32_t node) {
    CR_TRY(make_room(w, node));
    const cr_node *made = cr_graph_node(w->to, node);
    if (made->kind != CR_NODE_CALL || cr_node_is_pure(w->to, made)) return CR_OK;
    if (!w->nodes.at[node].live) cr_args_visit_values(made->args, made->nargs, use_one, w);
    w->nodes.at[node].held = true;
    return CR_OK;
}

/* Old value `v` is `to` from here on. */
static void bind(cr_rewriter *w, uint32_t v, cr_arg to) {
    w->map[v] = to;
    if (to.kind == CR_ARG_VALUE) use(w, (uint32_t)to.u.i, w->uses[v]);
}

cr_arg cr__rewrite_mapped(const cr_rewriter *w, uint32_t value) { return w->map[value]; }
void cr__rewrite_bind(cr_rewriter *w, uint32_t value, cr_arg to) { bind(w, value, to); }

static cr_arg value_arg(const cr_graph *g, uint32_t v) {
    return (cr_arg){ .kind = CR_ARG_VALUE, .given = 1, .type = cr_graph_value(g, v)->type, .u.i = v };
}

/* ---- what rules ask ---- */

const cr_meta *cr_rewrite_meta(const cr_rewriter *w, const cr_arg *a) {
    return a->kind == CR_ARG_VALUE ? cr_graph_value(w->to, (uint32_t)a->u.i)->meta : NULL;
}

static bool reads_unstable(const cr_rewriter *w, const cr_arg *args, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (args[i].kind == CR_ARG_LIST && reads_unstable(w, args[i].u.list, args[i].n)) return true;
        if (args[i].kind == CR_ARG_VALUE && w->values.at[args[i].u.i].unstable) return true;
    }
    return false;
}

const cr_node *cr_rewrite_producer(const cr_rewriter *w, const cr_arg *a, const char *name) {
    if (a->kind != CR_ARG_VALUE) return NULL;
    const cr_node *node = cr_graph_node(w->to, cr_graph_value(w->to, (uint32_t)a->u.i)->node);
    if (node->kind != CR_NODE_CALL || (name && !cr_op_is(node->op, name))) return NULL;
    if (cr_graph_value(w->to, (uint32_t)a->u.i)->hidden || w->values.at[a->u.i].unstable) return NULL;
    return reads_unstable(w, node->args, node->nargs) ? NULL : node;
}

uint32_t cr_rewrite_index(const cr_rewriter *w, const cr_arg *a) {
    return (uint32_t)a->u.i - cr_graph_node(w->to, cr_graph_value(w->to, (uint32_t)a->u.i)->node)->first;
}

bool cr_rewrite_single(const cr_rewriter *w, const cr_arg *a) {
    return a->kind == CR_ARG_VALUE && w->nodes.at[cr_graph_value(w->to, (uint32_t)a->u.i)->node].live <= 1;
}

bool cr_rewrite_used(const cr_rewriter *w, const cr_node *node, uint32_t i) { return w->uses[node->first + i]; }

cr_tensor *cr_rewrite_constant(const cr_rewriter *w, const cr_arg *a) {
    if (a->kind != CR_ARG_VALUE || w->values.at[a->u.i].unstable) return NULL;
    const cr_node *node = cr_graph_node(w->to, cr_graph_value(w->to, (uint32_t)a->u.i)->node);
    if (node->kind != CR_NODE_GET_ATTR) return NULL;
    cr_tensor *t = cr_graph_constant(w->to, node->target);
    return cr_tensor_is_fake(t) ? NULL : t;
}

/* ---- what rules make ---- */

/* The same memory seen the same way is the same constant. */
typedef struct constant_key {
    uint64_t storage;
    int64_t what, offset, size[CR_MAX_RANK], stride[CR_MAX_RANK];
} constant_key;

static constant_key key_of(const cr_tensor *t) {
    constant_key k = { .storage = t->storage->id,
                       .what = t->meta.dtype | t->meta.rank << 8 | t->meta.flags << 16,
                       .offset = t->meta.offset };
    for (int d = 0; d < t->meta.rank; d++) k.size[d] = t->meta.size[d], k.stride[d] = t->meta.stride[d];
    return k;
}

static bool find_constant(const cr_rewriter *w, const cr_tensor *t, cr_arg *out) {
    constant_key key = key_of(t);
    uint64_t found;
    if (!cr_map_find(&w->constants, &key, sizeof key, &found)) return false;
    *out = value_arg(w->to, (uint32_t)found - 1);
    return true;
}

static cr_status get_attr(cr_rewriter *w, const char *target, cr_tensor *t, cr_arg *out) {
    constant_key key = key_of(t);
    uint32_t v;
    CR_TRY(cr_graph_get_attr(w->to, target, &v));
    CR_TRY(note_made(w, cr_graph_value(w->to, v)->node));
    *out = value_arg(w->to, v);
    return cr_map_put(&w->constants, &key, sizeof key, (uint64_t)v + 1);
}

/* The old graph's constants keep their names, also those that are still to come. */
static bool is_taken(const cr_rewriter *w, const char *target, const cr_tensor *t, bool old) {
    const cr_tensor *now = cr_graph_constant(w->to, target);
    return now ? now != t : !old && cr_graph_constant(w->from, target);
}

static cr_status add_constant(cr_rewriter *w, const char *name, cr_tensor *t, bool old, cr_arg *out) {
    const char *target = cr_arena_strdup(&w->arena, name);
    for (int k = 1; target && is_taken(w, target, t, old); k++) target = cr_arena_printf(&w->arena, "%s_%d", name, k);
    if (!target) return CR_ENOMEM;
    if (!cr_graph_constant(w->to, target)) CR_TRY(cr_graph_add_constant(w->to, target, t));
    return get_attr(w, target, t, out);
}

cr_status cr_rewrite_add_constant(cr_rewriter *w, const char *name, cr_tensor *t, cr_arg *out) {
    return find_constant(w, t, out) ? CR_OK : add_constant(w, name, t, false, out);
}

cr_status cr_rewrite_op(cr_rewriter *w, const cr_op *op, const cr_arg *args, cr_arg *results) {
    cr_emitter *e = cr_graph_emitter(w->to);
    uint32_t before = cr_graph_value_count(w->to), last = 0;
    CR_TRY(cr__emit_general(e, op, args, results));
    for (uint32_t v = before; v < cr_graph_value_count(w->to); v++) {
        uint32_t node = cr_graph_value(w->to, v)->node;
        if (v > before && node == last) continue;
        CR_TRY(note_made(w, last = node));
    }
    return CR_OK;
}

static cr_status emitter_call(cr_emitter *e, const cr_op *op, const cr_arg *args, cr_arg *results) {
    return cr_rewrite_op((cr_rewriter *)(void *)e, op, args, results);
}

static cr_status emitter_meta(cr_emitter *e, const cr_arg *arg, const cr_meta **out) {
    *out = cr_rewrite_meta((cr_rewriter *)(void *)e, arg);
    return CR_OK;
}

static void emitter_release(cr_emitter *e, cr_arg *results, size_t n) {
    (void)e, (void)results, (void)n; /* values belong to the graph */
}

cr_emitter *cr_rewrite_emitter(cr_rewriter *w) { return &w->emitter; }

cr_status cr_rewrite_call(cr_rewriter *w, const char *name, const cr_arg *args, size_t n, cr_arg *out) {
    return cr_emit_call(&w->emitter, name, args, n, out);
}

cr_status cr_rewrite_result(cr_rewriter *w, const cr_node *node, uint32_t i, cr_arg value) {
    if (i >= node->nvalues) return CR_FAIL(CR_EVALUE, "%s has %u results", node->op->name, node->nvalues);
    if (value.kind == CR_ARG_SYM || (value.kind == CR_ARG_INT && !cr_dim_is_plain(value.u.i))) {
        uint32_t before = cr_graph_value_count(w->to);
        CR_TRY(cr_graph_value_for(w->to,
                                  value.kind == CR_ARG_SYM ? value.u.sym : cr_dim_sym(cr_graph_env(w->to), value.u.i),
                                  &value));
        for (uint32_t v = before; v < cr_graph_value_count(w->to); v++)
            CR_TRY(note_made(w, cr_graph_value(w->to, v)->node));
    }
    bind(w, node->first + i, value);
    return CR_OK;
}

/* ---- copying ---- */

static cr_status map_arg(cr_rewriter *w, const cr_arg *from, cr_arg *to) {
    *to = *from;
    if (from->kind == CR_ARG_VALUE) {
        *to = w->map[from->u.i];
        to->given = from->given;
    } else if (from->kind == CR_ARG_LIST) {
        cr_arg *items = cr_arena_alloc(&w->arena, (from->n + 1) * sizeof *items);
        if (!items) return CR_ENOMEM;
        for (uint32_t i = 0; i < from->n; i++) CR_TRY(map_arg(w, &from->u.list[i], &items[i]));
        to->u.list = items;
    } else if (from->kind == CR_ARG_GRAPH) {
        cr_graph *sub = NULL;
        CR_TRY(w->walk.body ? w->walk.body(w->walk.user, from->u.graph, &sub)
                            : cr__rewrite_walk(from->u.graph, &w->walk, &sub));
        cr_status status = cr_graph_add_subgraph(w->to, sub); /* holds it from here on */
        cr_graph_release(sub);
        CR_TRY(status);
        to->u.graph = sub;
    }
    return CR_OK;
}

/* Is the new argument, seen from outside, what the old one was? */
static bool same_arg(const cr_rewriter *w, const cr_arg *from, const cr_arg *to) {
    cr_env *env = cr_graph_env(w->to);
    if (from->kind == CR_ARG_LIST) {
        for (uint32_t i = 0; i < from->n; i++)
            if (!same_arg(w, &from->u.list[i], &to->u.list[i])) return false;
        return true;
    }
    if (from->kind != CR_ARG_VALUE) return true;
    const cr_value *old = cr_graph_value(w->from, (uint32_t)from->u.i);
    if (to->kind != CR_ARG_VALUE)
        return to->kind == CR_ARG_NONE ? !old->meta && old->type == CR_T_TENSOR
                                       : to->kind == CR_ARG_INT && old->expr == cr_dim_sym(env, to->u.i);
    const cr_value *new = cr_graph_value(w->to, (uint32_t)to->u.i);
    if (!old->meta || !new->meta) return old->meta == new->meta && old->expr == new->expr;
    return old->meta->flags == new->meta->flags && cr_meta_equal(env, old->meta, new->meta);
}

/* The new storage of what shared `storage` with an argument; the same number when it shared none. */
static bool find_storage(const cr_rewriter *w, const cr_arg *from, const cr_arg *to, size_t n, uint64_t storage,
                         uint64_t *out) {
    for (size_t i = 0; i < n; i++) {
        if (from[i].kind == CR_ARG_LIST && find_storage(w, from[i].u.list, to[i].u.list, from[i].n, storage, out))
            return true;
        if (from[i].kind != CR_ARG_VALUE || to[i].kind != CR_ARG_VALUE) continue;
        const cr_meta *old = cr_graph_value(w->from, (uint32_t)from[i].u.i)->meta,
                      *new = cr_graph_value(w->to, (uint32_t)to[i].u.i)->meta;
        if (old && new && old->storage == storage) return *out = new->storage, true;
    }
    return false;
}

static cr_status copy_as_it_was(cr_rewriter *w, const cr_node *node, const cr_arg *args, uint32_t *made) {
    cr_value *values = cr_arena_alloc(&w->arena, (node->nvalues + 1) * sizeof *values);
    if (!values) return CR_ENOMEM;
    for (uint32_t i = 0; i < node->nvalues; i++) {
        values[i] = *cr_graph_value(w->from, node->first + i);
        uint64_t storage;
        if (!values[i].meta || !find_storage(w, node->args, args, node->nargs, values[i].meta->storage, &storage) ||
            storage == values[i].meta->storage)
            continue;
        cr_meta *meta = cr_arena_copy(&w->arena, values[i].meta, sizeof *meta);
        if (!meta) return CR_ENOMEM;
        meta->storage = storage;
        values[i].meta = meta;
    }
    return cr_graph_call_with(w->to, node->op, args, values, node->nvalues, made);
}

/* What the walk itself has made may have taken a name that an old value has. */
static cr_status free_name(cr_rewriter *w, const char *name, uint32_t first) {
    uint32_t taken = w->walk.named ? cr_graph_find(w->to, name) : CR_NO_VALUE;
    if (taken == CR_NO_VALUE || cr_graph_value(w->to, taken)->node >= first) return CR_OK;
    const cr_node *maker = cr_graph_node(w->to, cr_graph_value(w->to, taken)->node);
    return maker->kind == CR_NODE_CALL ? cr_graph_rename(w->to, taken, "made") : CR_OK;
}

/* Results keep the names they had, where those are free. `first`: nodes from there on are made for this one. */
static cr_status keep_names(cr_rewriter *w, const cr_node *node, uint32_t first) {
    for (uint32_t i = 0; i < node->nvalues; i++) {
        const cr_arg *to = &w->map[node->first + i];
        const cr_value *old = cr_graph_value(w->from, node->first + i);
        if (to->kind != CR_ARG_VALUE || old->hidden) continue;
        CR_TRY(free_name(w, old->name, first));
        if (cr_graph_find(w->to, old->name) != CR_NO_VALUE) continue;
        const cr_value *new = cr_graph_value(w->to, (uint32_t)to->u.i);
        const cr_node *maker = cr_graph_node(w->to, new->node);
        /* no older node's name */
        bool own = (w->walk.named && new->node >= first) || cr_graph_find(w->from, new->name) == CR_NO_VALUE;
        if (maker->kind == CR_NODE_CALL && own) CR_TRY(cr_graph_rename(w->to, (uint32_t)to->u.i, old->name));
    }
    return CR_OK;
}

static cr_status copy_call(cr_rewriter *w, const cr_node *node, const cr_arg *args, bool stable) {
    bool same = true;
    uint32_t made;
    for (uint16_t i = 0; i < node->nargs && same; i++)
        same = node->args[i].kind != CR_ARG_GRAPH && same_arg(w, &node->args[i], &args[i]);
    /* What a size from data is called must not change, and does not depend on layouts. */
    same |= (node->op->tags & CR_TAG_HIGHER_ORDER) || (!cr_node_is_pure(w->from, node) && !cr_node_writes(node));
    /* A view of something that is laid out otherwise now may need a copy. Where the view is written to it must stay
     * one. */
    CR_TRY(same ? copy_as_it_was(w, node, args, &made) : cr__call_or_copy(w->to, node->op, args, stable, &made));
    CR_TRY(note_made(w, made));
    const cr_node *copy = cr_graph_node(w->to, made);
    if (copy->nvalues != node->nvalues)
        return CR_FAIL(CR_EVALUE, "%s gives %u results here, its node has %u", node->op->name, copy->nvalues,
                       node->nvalues);
    for (uint32_t i = 0; i < node->nvalues; i++) {
        const cr_value *v = cr_graph_value(w->to, copy->first + i);
        bind(w, node->first + i,
             v->type == CR_T_TENSOR && !v->meta ? cr_arg_none() : value_arg(w->to, copy->first + i));
        w->values.at[copy->first + i].unstable = is_unstable(w, node->first + i);
    }
    return same ? CR_OK : keep_names(w, node, made);
}

/* ---- the walk ---- */

static void drop_mapped(cr_rewriter *w, const cr_arg *args, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (args[i].kind == CR_ARG_LIST) drop_mapped(w, args[i].u.list, args[i].n);
        else if (args[i].kind == CR_ARG_VALUE) drop(w, (uint32_t)args[i].u.i, 1);
    }
}

/* Numbers are drawn in memory order, so that no pass may change the layout of what a random op reads. Here, where every
 * pass comes by, and not in the passes that choose layouts: they need not know. What is written in place is no copy. */
static cr_status keep_drawn_order(cr_rewriter *w, const cr_node *node, cr_arg *args) {
    for (uint16_t i = 0; i < node->nargs; i++) {
        if (node->args[i].kind != CR_ARG_VALUE || node->op->schema.params[i].writes) continue;
        CR_TRY(cr__layout_for_draws(w, cr_graph_value(w->from, (uint32_t)node->args[i].u.i)->meta, &args[i]));
    }
    return CR_OK;
}

static cr_status walk_call(cr_rewriter *w, const cr_node *node) {
    cr_arg *mapped = cr_arena_alloc(&w->arena, (node->nargs + 1u) * sizeof *mapped), *args = mapped;
    bool done = false, stable = is_stable(w, node);
    if (!args) return CR_ENOMEM;
    for (uint16_t i = 0; i < node->nargs; i++) CR_TRY(map_arg(w, &node->args[i], &args[i]));
    if (cr_op_draws(node->op, node->args)) {
        if (!(args = cr_arena_copy(&w->arena, mapped, (node->nargs + 1u) * sizeof *args))) return CR_ENOMEM;
        CR_TRY(keep_drawn_order(w, node, args));
    }
    bool general = cr_env_is_general(cr_graph_env(w->to));
    cr_status status = CR_OK;
    cr_env_set_general(cr_graph_env(w->to), general && stable);
    uint32_t first = cr_graph_node_limit(w->to);
    if (w->walk.rule && (w->walk.all || stable)) status = w->walk.rule(w, node, args, &done);
    if (!status) status = done ? keep_names(w, node, first) : copy_call(w, node, args, stable);
    cr_env_set_general(cr_graph_env(w->to), general);
    CR_TRY(status);
    drop_mapped(w, mapped, node->nargs); /* the old call's own uses; its copy counts anew */
    return CR_OK;
}

static cr_status walk_get_attr(cr_rewriter *w, const cr_node *node) {
    cr_arg made;
    cr_tensor *t = cr_graph_constant(w->from, node->target);
    bool written = cr__rewrite_writes(w, node->first);
    if (written || !find_constant(w, t, &made)) {
        CR_TRY(add_constant(w, node->target, t, true, &made));
        constant_key key = key_of(t);
        if (written) cr_map_remove(&w->constants, &key, sizeof key); /* for nobody else */
        w->values.at[made.u.i].unstable = written;
    }
    bind(w, node->first, made);
    return CR_OK;
}

static cr_status walk(cr_rewriter *w) {
    for (uint32_t n = cr_graph_first(w->from); n != CR_NO_NODE; n = cr_graph_next(w->from, n)) {
        const cr_node *node = cr_graph_node(w->from, n);
        if (node->kind == CR_NODE_PLACEHOLDER || node->kind == CR_NODE_OUTPUT || !w->needed[n]) continue;
        CR_TRY(cr_graph_set_origin(w->to, &node->origin));
        cr_status status = node->kind == CR_NODE_GET_ATTR ? walk_get_attr(w, node) : walk_call(w, node);
        if (status)
            return node->nvalues ? cr_error_context(status, "%%%s", cr_graph_value(w->from, node->first)->name)
                                 : status;
    }
    return CR_OK;
}

static cr_status copy_placeholders(cr_rewriter *w) {
    size_t index = 0;
    for (uint32_t n = cr_graph_first(w->from); n != CR_NO_NODE; n = cr_graph_next(w->from, n)) {
        const cr_node *node = cr_graph_node(w->from, n);
        if (node->kind != CR_NODE_PLACEHOLDER) continue;
        const cr_value *v = cr_graph_value(w->from, node->first);
        cr_arg other = cr_arg_none();
        uint32_t made;
        if (w->walk.place) CR_TRY(w->walk.place(w, index++, node, &other));
        if (other.kind != CR_ARG_NONE) {
            bind(w, node->first, other);
            continue;
        }
        CR_TRY(v->type == CR_T_TENSOR
                   ? cr_graph_placeholder(w->to, node->target, v->meta, &made)
                   : cr_graph_placeholder_number(w->to, node->target, (cr_type)v->type, v->expr, &made));
        CR_TRY(note_made(w, cr_graph_value(w->to, made)->node));
        bind(w, node->first, value_arg(w->to, made));
        w->values.at[made].unstable = is_unstable(w, node->first);
    }
    return CR_OK;
}

static cr_status rewrite_into(cr_rewriter *w) {
    const cr_node *output = cr_graph_node(w->from, cr_graph_output(w->from));
    CR_TRY(cr_graph_set_name(w->to, cr_graph_name(w->from)));
    w->map = cr_arena_calloc(&w->arena, cr_graph_value_count(w->from) + 1, sizeof *w->map);
    if (!w->map) return CR_ENOMEM;
    CR_TRY(cr_writes_find(w->from, CR_SHARING_KNOWN, &w->writes));
    CR_TRY(find_needed(w));
    count_uses(w);
    CR_TRY(copy_placeholders(w));
    CR_TRY(walk(w));
    size_t more = 0;
    for (uint32_t n = cr_graph_first(w->from); n != CR_NO_NODE; n = cr_graph_next(w->from, n))
        more += cr_graph_node(w->from, n)->kind == CR_NODE_PLACEHOLDER;
    cr_arg *outputs = cr_arena_alloc(&w->arena, (output->nargs + more + 1) * sizeof *outputs);
    if (!outputs) return CR_ENOMEM;
    for (uint16_t i = 0; i < output->nargs; i++) CR_TRY(map_arg(w, &output->args[i], &outputs[i]));
    more = 0;
    if (w->walk.finish) CR_TRY(w->walk.finish(w, outputs + output->nargs, &more));
    CR_TRY(cr_graph_set_origin(w->to, NULL));
    CR_TRY(cr_graph_set_output(w->to, outputs, output->nargs + more));
    return cr_graph_set_archived(w->to, cr_graph_output(w->to), more ? NULL : output->archived); /* (x,) or x */
}

cr_status cr__rewrite_walk(const cr_graph *g, const cr__walk *walk, cr_graph **out) {
    cr_rewriter w = { .from = g, .walk = *walk };
    w.emitter = (cr_emitter){ emitter_call, emitter_meta, emitter_release, cr_graph_env(g) };
    if (cr_graph_output(g) == CR_NO_NODE) return CR_FAIL(CR_EVALUE, "the graph has no output yet");
    CR_TRY(cr_graph_create(cr_graph_env(g), &w.to));
    cr_arena_init(&w.arena);
    cr_map_init(&w.constants);
    cr_status status = rewrite_into(&w);
    cr_writes_dispose(&w.writes);
    cr_map_dispose(&w.constants);
    cr_vec_dispose(&w.nodes);
    cr_vec_dispose(&w.values);
    cr_arena_dispose(&w.arena);
    if (status) return cr_graph_release(w.to), status;
    *out = w.to;
    return CR_OK;
}

cr_status cr_rewrite(const cr_graph *g, cr_rewrite_fn *rule, void *user, cr_graph **out) {
    return cr__rewrite_walk(g, &(cr__walk){ .rule = rule, .user = user }, out);
}
