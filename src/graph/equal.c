/* equal.c: do two graphs say the same?
 *
 * Both are walked in order; ids may differ (erased nodes leave gaps), so the k-th live value of one stands for the k-th
 * of the other. Storages are compared by what they share: the first value on the same storage must be the same one.
 * Sizes of different environments are compared by their text. */
#include "graph/internal.h"

typedef struct comparison {
    const cr_graph *a, *b;
    uint32_t *to_b;   /* value of a -> value of b */
    cr_map storages;  /* storage of a -> storage of b */
    cr_map reverse;
    cr_str *where;
    bool failed;      /* memory ran out: not equal, and nothing better to say */
} comparison;

static bool differ(comparison *c, const char *format, ...) CR_PRINTF(2, 3);
static bool differ(comparison *c, const char *format, ...) {
    va_list args;
    va_start(args, format);
    if (c->where && !c->where->n) cr_str_addv(c->where, format, args);
    va_end(args);
    return false;
}

bool cr__arg_equal(const cr_arg *a, const cr_arg *b) {
    if (a->kind != b->kind) return false;
    switch ((cr_arg_kind)a->kind) {
    case CR_ARG_NONE: return true;
    case CR_ARG_FLOAT: return !memcmp(&a->u.f, &b->u.f, sizeof a->u.f) || (a->u.f != a->u.f && b->u.f != b->u.f);
    case CR_ARG_COMPLEX: return !memcmp(a->u.c, b->u.c, 2 * sizeof(double));
    case CR_ARG_STR: return a->n == b->n && !memcmp(a->u.s, b->u.s, a->n);
    case CR_ARG_DEVICE: return a->u.device.type == b->u.device.type && a->u.device.index == b->u.device.index;
    case CR_ARG_LIST:
        if (a->n != b->n) return false;
        for (uint32_t i = 0; i < a->n; i++)
            if (!cr__arg_equal(&a->u.list[i], &b->u.list[i])) return false;
        return true;
    case CR_ARG_TENSOR: return a->u.t == b->u.t;
    case CR_ARG_META: return a->u.meta == b->u.meta;
    case CR_ARG_GENERATOR: return a->u.generator == b->u.generator;
    case CR_ARG_GRAPH: return a->u.graph == b->u.graph;
    case CR_ARG_SYM: return a->u.sym == b->u.sym;
    default: return a->u.i == b->u.i;
    }
}

static bool same_text(comparison *c, cr_sym a, cr_sym b) {
    if (a == b) return true;
    if (!a || !b || c->a->env == c->b->env) return false; /* one environment: equal construction gives one pointer */
    cr_str x, y;
    cr_str_init(&x);
    cr_str_init(&y);
    cr_sym_print(a, &x);
    cr_sym_print(b, &y);
    bool same = !x.failed && !y.failed && !strcmp(cr_str_get(&x), cr_str_get(&y));
    c->failed |= x.failed || y.failed;
    cr_str_dispose(&x);
    cr_str_dispose(&y);
    return same;
}

static bool same_dim(comparison *c, cr_dim a, cr_dim b) {
    if (cr_dim_is_plain(a) || cr_dim_is_plain(b)) return a == b;
    return same_text(c, cr_dim_sym(c->a->env, a), cr_dim_sym(c->b->env, b));
}

static bool same_geometry(comparison *c, const cr_meta *a, const cr_meta *b) {
    bool same = a->dtype == b->dtype && a->rank == b->rank && a->flags == b->flags &&
                a->device.type == b->device.type && same_dim(c, a->offset, b->offset);
    for (int d = 0; same && d < a->rank; d++)
        same = same_dim(c, a->size[d], b->size[d]) && same_dim(c, a->stride[d], b->stride[d]);
    return same;
}

static bool pair_storages(comparison *c, uint64_t a, uint64_t b) {
    uint64_t found;
    if (cr_map_find(&c->storages, &a, sizeof a, &found)) return found == b;
    if (cr_map_find(&c->reverse, &b, sizeof b, NULL)) return false;
    if (cr_map_put(&c->storages, &a, sizeof a, b) || cr_map_put(&c->reverse, &b, sizeof b, a)) c->failed = true;
    return !c->failed;
}

static bool same_value(comparison *c, uint32_t a, uint32_t b) {
    const cr_value *x = c->a->values.at[a], *y = c->b->values.at[b];
    c->to_b[a] = b;
    if (strcmp(x->name, y->name)) return differ(c, "value %%%s is named %%%s", x->name, y->name);
    if (x->type != y->type || x->hidden != y->hidden || x->ret != y->ret || !x->meta != !y->meta)
        return differ(c, "value %%%s is of another kind", x->name);
    if (!same_text(c, x->expr, y->expr)) return differ(c, "value %%%s has another expression", x->name);
    if (!x->meta) return true;
    if (!same_geometry(c, x->meta, y->meta))
        return differ(c, "value %%%s has another dtype, size, stride, offset or device", x->name);
    if (!pair_storages(c, x->meta->storage, y->meta->storage))
        return differ(c, "value %%%s shares memory with another value", x->name);
    return true;
}

static size_t subgraph_index(const cr_graph *g, const cr_graph *sub) {
    size_t i = 0;
    while (i < g->subgraphs.n && g->subgraphs.at[i] != sub) i++;
    return i;
}

static bool same_args(comparison *c, const cr_arg *a, const cr_arg *b, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (a[i].kind != b[i].kind) return false;
        if (a[i].kind == CR_ARG_VALUE) {
            if (c->to_b[a[i].u.i] != (uint32_t)b[i].u.i) return false;
        } else if (a[i].kind == CR_ARG_GRAPH) {
            if (subgraph_index(c->a, a[i].u.graph) != subgraph_index(c->b, b[i].u.graph)) return false;
        } else if (a[i].kind == CR_ARG_LIST) {
            if (a[i].n != b[i].n || !same_args(c, a[i].u.list, b[i].u.list, a[i].n)) return false;
        } else if (!cr__arg_equal(&a[i], &b[i])) {
            return false;
        }
    }
    return true;
}

static bool same_node(comparison *c, const cr_node *a, const cr_node *b) {
    const char *name = a->nvalues                  ? c->a->values.at[a->first]->name
                       : a->kind == CR_NODE_OUTPUT ? "return"
                       : a->op                     ? a->op->name
                                                   : "?";
    if (a->kind != b->kind || a->op != b->op || a->nvalues != b->nvalues)
        return differ(c, "node '%s' is another op or has another number of results", name);
    if (a->kind == CR_NODE_GET_ATTR && (!a->target || !b->target || strcmp(a->target, b->target)))
        return differ(c, "node '%s' reads another constant", name);
    if (a->nargs != b->nargs || !same_args(c, a->args, b->args, a->nargs))
        return differ(c, "the arguments of node '%s' differ", name);
    for (uint16_t i = 0; a->kind == CR_NODE_CALL && i < a->nargs; i++)
        if (a->args[i].given != b->args[i].given)
            return differ(c, "argument %d of node '%s' is given in another way", i, name);
    for (uint32_t v = 0; v < a->nvalues; v++)
        if (!same_value(c, a->first + v, b->first + v)) return false;
    return true;
}

static bool same_tables(comparison *c) {
    const cr_graph *a = c->a, *b = c->b;
    if (strcmp(a->name, b->name)) return differ(c, "graph '%s' is named '%s'", a->name, b->name);
    if (a->constants.n != b->constants.n || a->subgraphs.n != b->subgraphs.n)
        return differ(c, "graph '%s' has other constants or subgraphs", a->name);
    for (size_t i = 0; i < a->constants.n; i++) {
        const graph_constant *x = &a->constants.at[i], *y = &b->constants.at[i];
        if (strcmp(x->target, y->target) || !same_geometry(c, &x->tensor->meta, &y->tensor->meta))
            return differ(c, "constant '%s' differs", x->target);
    }
    for (size_t i = 0; i < a->subgraphs.n; i++)
        if (!cr_graph_equal(a->subgraphs.at[i], b->subgraphs.at[i], c->where)) return false;
    return true;
}

bool cr_graph_equal(const cr_graph *a, const cr_graph *b, cr_str *where) {
    comparison c = { .a = a, .b = b, .where = where };
    cr_map_init(&c.storages);
    cr_map_init(&c.reverse);
    c.to_b = cr_alloc((a->values.n + 1) * sizeof *c.to_b);
    if (c.to_b) memset(c.to_b, 0xff, (a->values.n + 1) * sizeof *c.to_b); /* not seen yet */
    bool same = c.to_b && same_tables(&c);
    if (!c.to_b) c.failed = true;
    uint32_t x = cr_graph_first(a), y = cr_graph_first(b);
    while (same && x != CR_NO_NODE && y != CR_NO_NODE) {
        same = same_node(&c, a->nodes.at[x], b->nodes.at[y]);
        x = cr_graph_next(a, x);
        y = cr_graph_next(b, y);
    }
    if (same && x != y) same = differ(&c, "one of the graphs goes on where the other ends");
    if (c.failed) differ(&c, "out of memory");
    cr_map_dispose(&c.storages);
    cr_map_dispose(&c.reverse);
    cr_free(c.to_b);
    return same && !c.failed;
}
