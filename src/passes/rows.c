/* rows.c: which nodes row kernels can hold. See rows.h. */
#include "passes/rows.h"

#include "ops/view.h"

/* Instructions with a vector form (runtime/rt_rows_vector.h), by the class of their operands. */
static const struct { const char *class, *names; } vectors[] = {
    { "f32", " add sub mul div neg abs sqrt rsqrt fma max min fmax fmin floor ceil trunc round frac truncdiv sign "
             "copysign isnan isinf isfinite signbit to_b to_i64 to_f64 eq ne lt le gt ge select exp exp2 expm1 log "
             "log2 log10 log1p tanh erf gelu gelu_slope sigmoid log_sigmoid sin cos pow narrow_bf16 " },
    { "f64", " add sub mul div neg abs sqrt rsqrt max min isnan to_b to_i64 to_f32 eq ne lt le gt ge select exp exp2 "
             "expm1 log log2 log10 log1p tanh erf gelu gelu_slope pow " },
    { "i64", " add sub mul neg abs max min and or xor not sign to_b to_f32 to_f64 eq ne lt le gt ge select " },
    { "b", " add mul and or xor not eq ne max min to_f32 to_f64 to_i64 select " },
};

bool cr_rows_has(int op) {
    char word[32] = " ";
    size_t n = strlen(rt_block_op_name(op));
    if (n > sizeof word - 3) return false;
    memcpy(word + 1, rt_block_op_name(op), n);
    memcpy(word + 1 + n, " ", 2);
    for (size_t i = 0; i < CR_COUNT(vectors); i++) /* the class of the operands is what rt_block_find takes */
        for (int class = 0; class < RT_CLASS_COUNT; class++)
            if (!strcmp(rt_class_name(class), vectors[i].class) && strstr(vectors[i].names, word) &&
                rt_block_find(rt_block_op_name(op), class) == op)
                return true;
    return false;
}

bool cr_rows_dtype(int dtype) {
    return dtype == CR_F32 || dtype == CR_F64 || dtype == CR_I64 || dtype == CR_I32 || dtype == CR_BOOL ||
           dtype == CR_BF16 || dtype == CR_U8;
}

static const cr_meta *meta_of(const cr_graph *g, const cr_arg *a) {
    if (a->kind != CR_ARG_VALUE) return NULL;
    const cr_value *v = cr_graph_value(g, (uint32_t)a->u.i);
    return v->type == CR_T_TENSOR ? v->meta : NULL;
}

static bool plain_meta(const cr_meta *meta) {
    return meta && cr_rows_dtype(meta->dtype) && meta->rank <= CR_ROWS_MAX_RANK &&
           !(meta->flags & (CR_META_CONJ | CR_META_NEG)) && meta->device.type == CR_CPU;
}

/* ---- pointwise ---- */

/* The node's arguments as rules take them: tensors as metas, numbers as numbers. False: a number that only a run
 * knows. */
static bool rule_args(const cr_graph *g, const cr_node *node, cr_arg *out) {
    for (uint16_t i = 0; i < node->nargs; i++) {
        const cr_arg *a = &node->args[i];
        out[i] = *a;
        if (a->kind == CR_ARG_LIST || a->kind == CR_ARG_GRAPH) return false; /* no pointwise op takes one */
        if (a->kind != CR_ARG_VALUE) continue;
        const cr_value *v = cr_graph_value(g, (uint32_t)a->u.i);
        if (v->type == CR_T_TENSOR) {
            if (!v->meta) return false;
            out[i] = (cr_arg){ .kind = CR_ARG_META, .given = a->given, .u.meta = v->meta };
        } else {
            if (!v->expr) return false;
            out[i] = cr_number_arg(cr_graph_env(g), v->expr);
        }
        if (out[i].kind == CR_ARG_SYM || (out[i].kind == CR_ARG_INT && !cr_dim_is_plain(out[i].u.i))) return false;
    }
    return true;
}

cr_status cr_rows_program(const cr_graph *g, const cr_node *node, const cr_scalar_program **out) {
    cr_arg args[CR_MAX_PARAMS];
    cr_rule rule;
    *out = NULL;
    if (!rule_args(g, node, args))
        return CR_FAIL(CR_EUNSUPPORTED, "%s: an argument that row kernels do not take", node->op->name);
    cr_status status = cr_rule_run(&rule, node->op, cr_graph_env(g), args, NULL);
    if (!status)
        status = rule.nout == 1 && rule.out[0].same ? CR_FAIL(CR_EUNSUPPORTED, "%s gives its argument", node->op->name)
                                                    : cr_scalar_get(node->op, rule.common, rule.arg, out);
    cr_rule_dispose(&rule);
    return status;
}

/* May a value of `dtype` be what an input port of the program reads? */
static bool port_fits(const rt_port *port, int dtype) {
    int class = rt_class_of(dtype), own = rt_class_dtype(port->class);
    if (!cr_rows_dtype(dtype)) return false;
    if (port->class == RT_CLASS_U64 || port->class == RT_CLASS_C64 || port->class == RT_CLASS_C128) return false;
    if (class != port->class) {
        char name[16] = "to_";
        strcat(name, rt_class_name(port->class));
        int op = rt_block_find(name, class);
        if (op < 0 || !cr_rows_has(op)) return false;
    }
    return port->round == own || port->round == dtype || port->class == RT_CLASS_B || (port->flags & RT_PORT_WIDE);
}

static bool program_fits(const cr_graph *g, const cr_node *node) {
    const cr_scalar_program *p;
    if (cr_rows_program(g, node, &p)) return cr_error_release(cr_error_take()), false;
    if (p->program.nout != 1) return false;
    for (int i = 0; i < p->program.ninstr; i++)
        if (!cr_rows_has(p->program.code[i].op)) return false;
    for (int i = 0; i < p->program.nin; i++) {
        const cr_meta *meta = meta_of(g, &node->args[p->input[i]]);
        if (meta && !port_fits(&p->program.in[i], meta->dtype)) return false;
        if (!meta && p->program.in[i].class > RT_CLASS_I64) return false;
        /* A number keeps its digits; whether a tensor does depends on how many elements it has. */
        if (meta && (p->program.in[i].flags & RT_PORT_WIDE) && meta->dtype != p->program.in[i].round) return false;
    }
    for (int i = 0; i < p->program.nconstants; i++)
        if (p->program.constant[i].class > RT_CLASS_I64) return false;
    rt_port result = { .class = (uint8_t)rt_class_of(cr_graph_value(g, node->first)->meta->dtype),
                       .round = (uint8_t)rt_class_dtype(rt_class_of(cr_graph_value(g, node->first)->meta->dtype)) };
    return port_fits(&result, rt_class_dtype(p->program.out[0].class));
}

/* ---- dimensions ---- */

static int wrap(int64_t d, int rank) { return (int)(d < 0 ? d + rank : d); }

uint32_t cr_rows_dims(const cr_graph *g, const cr_node *node, bool *kept) {
    const cr_reduction *r = &cr_op_facts(node->op)->reduce;
    const cr_meta *meta = meta_of(g, &node->args[0]);
    uint32_t all = (1u << meta->rank) - 1, mask = 0;
    const cr_arg *dims = r->dim ? &node->args[r->dim] : NULL;
    *kept = r->keepdim && node->args[r->keepdim].u.i;
    if (!dims || dims->kind == CR_ARG_NONE || (dims->kind == CR_ARG_LIST && !dims->n)) return all;
    if (r->kind == CR_REDUCE_LAYER_NORM) return all & ~((1u << (meta->rank - (int)dims->n)) - 1);
    if (dims->kind == CR_ARG_INT) return meta->rank ? 1u << wrap(dims->u.i, meta->rank) : 0;
    for (uint32_t i = 0; i < dims->n; i++)
        if (meta->rank) mask |= 1u << wrap(dims->u.list[i].u.i, meta->rank);
    return mask;
}

/* Dimensions of more than one element in order: the same on both sides? Then a view only adds and removes others. */
static bool same_but_ones(const cr_graph *g, const cr_meta *in, const cr_meta *out, int8_t *from) {
    cr_env *env = cr_graph_env(g);
    int i = 0;
    for (int d = 0; d < out->rank; d++) {
        from[d] = -1;
        if (cr_dim_known(env, out->size[d], CR_EQ, 1) == CR_YES) continue;
        while (i < in->rank && cr_dim_known(env, in->size[i], CR_EQ, 1) == CR_YES) i++;
        if (i == in->rank || cr_dim_known(env, in->size[i], CR_EQ, out->size[d]) != CR_YES) return false;
        from[d] = (int8_t)i++;
    }
    while (i < in->rank && cr_dim_known(env, in->size[i], CR_EQ, 1) == CR_YES) i++;
    return i == in->rank;
}

/* Dimensions that are repeated have no element of their own in the input. */
static bool expanded(const cr_graph *g, const cr_meta *in, const cr_meta *out, int8_t *from) {
    cr_env *env = cr_graph_env(g);
    for (int d = 0; d < out->rank; d++) {
        int k = d - (out->rank - in->rank);
        bool repeated = k < 0 || (cr_dim_known(env, in->size[k], CR_EQ, 1) == CR_YES &&
                                  cr_dim_known(env, out->size[d], CR_EQ, 1) != CR_YES);
        if (!repeated && cr_dim_known(env, in->size[k], CR_EQ, out->size[d]) != CR_YES) return false;
        from[d] = (int8_t)(repeated ? -1 : k);
    }
    return true;
}

bool cr_rows_view(const cr_graph *g, const cr_node *node, int8_t *from) {
    const cr_meta *in = meta_of(g, &node->args[0]), *out = cr_graph_value(g, node->first)->meta;
    int order[CR_MAX_RANK];
    switch (cr_op_view(node->op)) {
    case CR_VIEW_PERMUTE:
        if (!cr_view_order(node->op, node->args, in->rank, order)) return false;
        break;
    case CR_VIEW_SAME:
        if (in->storage != out->storage || !cr_meta_equal(cr_graph_env(g), in, out)) return false;
        for (int d = 0; d < out->rank; d++) order[d] = d;
        break;
    case CR_VIEW_EXPAND: return expanded(g, in, out, from);
    case CR_VIEW_RESHAPE: case CR_VIEW_ONES: return same_but_ones(g, in, out, from);
    default: return false;
    }
    for (int d = 0; d < out->rank; d++) from[d] = (int8_t)order[d];
    return true;
}

/* ---- halves exchanged ---- */

static const cr_node *made_by(const cr_graph *g, const cr_arg *a, const char *name) {
    if (a->kind != CR_ARG_VALUE) return NULL;
    const cr_node *node = cr_graph_node(g, cr_graph_value(g, (uint32_t)a->u.i)->node);
    return node->kind == CR_NODE_CALL && !strcmp(node->op->name, name) ? node : NULL;
}

/* x[..., from:to] of the last dimension. */
static bool is_half(const cr_graph *g, const cr_node *slice, int64_t from, int64_t to) {
    const cr_meta *x = meta_of(g, &slice->args[0]);
    if (!x || !x->rank || slice->args[1].kind != CR_ARG_INT || wrap(slice->args[1].u.i, x->rank) != x->rank - 1)
        return false;
    int64_t begin = slice->args[2].kind == CR_ARG_INT    ? slice->args[2].u.i
                    : slice->args[2].kind == CR_ARG_NONE ? 0
                                                         : -1;
    int64_t end = slice->args[3].kind == CR_ARG_INT    ? slice->args[3].u.i
                  : slice->args[3].kind == CR_ARG_NONE ? INT64_MAX
                                                       : -1;
    return begin == from && (end == to || (to == x->size[x->rank - 1] && end > to)) &&
           slice->args[4].kind == CR_ARG_INT && slice->args[4].u.i == 1;
}

uint32_t cr_rows_rotated(const cr_graph *g, const cr_node *node, uint32_t parts[3]) {
    if (strcmp(node->op->name, "aten::cat")) return CR_NO_VALUE;
    const cr_arg *list = &node->args[0];
    const cr_meta *out = cr_graph_value(g, node->first)->meta;
    if (list->kind != CR_ARG_LIST || list->n != 2 || !out || !out->rank || node->args[1].kind != CR_ARG_INT)
        return CR_NO_VALUE;
    cr_dim n = out->size[out->rank - 1];
    if (wrap(node->args[1].u.i, out->rank) != out->rank - 1 || !cr_dim_is_plain(n) || n < 2 || n % 2 ||
        out->dtype != CR_F32)
        return CR_NO_VALUE;
    const cr_node *neg = made_by(g, &list->u.list[0], "aten::neg"),
                  *low = made_by(g, &list->u.list[1], "aten::slice.Tensor");
    const cr_node *high = neg ? made_by(g, &neg->args[0], "aten::slice.Tensor") : NULL;
    if (!low || !high || low->args[0].kind != CR_ARG_VALUE || high->args[0].kind != CR_ARG_VALUE ||
        low->args[0].u.i != high->args[0].u.i)
        return CR_NO_VALUE;
    const cr_meta *x = meta_of(g, &low->args[0]);
    if (!plain_meta(x) || x->dtype != CR_F32 || x->rank != out->rank || x->size[x->rank - 1] != n ||
        !is_half(g, low, 0, n / 2) || !is_half(g, high, n / 2, n))
        return CR_NO_VALUE;
    if (cr_dim_known(cr_graph_env(g), x->stride[x->rank - 1], CR_EQ, 1) != CR_YES) return CR_NO_VALUE;
    parts[0] = cr_graph_value(g, neg->first)->node, parts[1] = cr_graph_value(g, low->first)->node,
    parts[2] = cr_graph_value(g, high->first)->node;
    return (uint32_t)low->args[0].u.i;
}

/* ---- kinds ---- */

static bool never_empty(const cr_graph *g, const cr_node *node) {
    bool kept;
    const cr_meta *meta = meta_of(g, &node->args[0]);
    uint32_t dims = cr_rows_dims(g, node, &kept);
    for (int d = 0; d < meta->rank; d++)
        if ((dims >> d & 1) && cr_dim_known(cr_graph_env(g), meta->size[d], CR_NE, 0) != CR_YES) return false;
    return true;
}

static bool reduction_fits(const cr_graph *g, const cr_node *node, cr_rows_kind kind) {
    const cr_meta *in = meta_of(g, &node->args[0]);
    if (!plain_meta(in) || !in->rank || (in->dtype != CR_F32 && in->dtype != CR_BF16)) return false;
    for (uint32_t i = 0; i < node->nvalues; i++) {
        const cr_value *v = cr_graph_value(g, node->first + i);
        if (v->hidden || v->type != CR_T_TENSOR || !plain_meta(v->meta) || v->meta->dtype != in->dtype) return false;
    }
    /* where each node rounds is the kernel's own business */
    if (kind == CR_ROWS_NORM && in->dtype != CR_F32) return false;
    for (int i = 1; i < node->nargs; i++) { /* weights of a norm */
        const cr_meta *more = meta_of(g, &node->args[i]);
        if (more && (!plain_meta(more) || more->dtype != in->dtype)) return false;
    }
    cr_reduce_kind how = (cr_reduce_kind)cr_op_facts(node->op)->reduce.kind;
    return how == CR_REDUCE_SUM || how == CR_REDUCE_MEAN || never_empty(g, node);
}

/* What the row alone says. */
static cr_rows_kind kind_by_row(const cr_op *op) {
    const cr_row *facts = cr_op_facts(op);
    if (facts->reduce.kind) return facts->reduce.kind <= CR_REDUCE_MIN ? CR_ROWS_REDUCE : CR_ROWS_NORM;
    if (facts->copy && !(op->tags & CR_TAG_VIEW)) return CR_ROWS_COPY;
    return facts->view ? CR_ROWS_VIEW : facts->scalar ? CR_ROWS_POINTWISE : CR_ROWS_NONE;
}

cr_rows_kind cr_rows_kind_of(const cr_graph *g, const cr_node *node) {
    if (node->kind != CR_NODE_CALL || node->op->variant != CR_FUNCTIONAL ||
        (node->op->tags & (CR_TAG_RANDOM | CR_TAG_ASSERT | CR_TAG_HIGHER_ORDER)) || !node->nvalues)
        return CR_ROWS_NONE;
    uint32_t parts[3];
    if (cr_rows_rotated(g, node, parts) != CR_NO_VALUE)
        return plain_meta(cr_graph_value(g, node->first)->meta) ? CR_ROWS_ROTATE : CR_ROWS_NONE;
    cr_rows_kind kind = kind_by_row(node->op);
    if (kind == CR_ROWS_NONE) return kind;
    const cr_value *first = cr_graph_value(g, node->first);
    if (first->hidden || first->type != CR_T_TENSOR || !plain_meta(first->meta)) return CR_ROWS_NONE;
    if (kind == CR_ROWS_REDUCE || kind == CR_ROWS_NORM) return reduction_fits(g, node, kind) ? kind : CR_ROWS_NONE;
    if (node->nvalues != 1) return CR_ROWS_NONE;
    if (kind == CR_ROWS_POINTWISE) return program_fits(g, node) ? kind : CR_ROWS_NONE;
    const cr_meta *in = meta_of(g, &node->args[0]);
    if (!plain_meta(in)) return CR_ROWS_NONE;
    if (kind == CR_ROWS_VIEW) {
        int8_t from[CR_ROWS_MAX_RANK];
        return cr_rows_view(g, node, from) ? kind : CR_ROWS_NONE;
    }
    int class = rt_class_of(first->meta->dtype);
    rt_port as = { .class = (uint8_t)class, .round = (uint8_t)rt_class_dtype(class) };
    return port_fits(&as, in->dtype) ? kind : CR_ROWS_NONE;
}

/* ---- axes ---- */

enum { ELEMENTS = CR_ROWS_MAX_VALUES * CR_ROWS_MAX_RANK };
typedef struct unify {
    const cr_graph *g;
    cr_env *env;
    int16_t *local;
    cr_rows_domain *d;
    int16_t parent[ELEMENTS];
    bool reduced[ELEMENTS], outside[CR_ROWS_MAX_VALUES];
} unify;

static int find(unify *u, int e) {
    while (u->parent[e] != e) e = u->parent[e] = u->parent[u->parent[e]];
    return e;
}

static int element(const unify *u, uint32_t v, int d) { return u->local[v] * CR_ROWS_MAX_RANK + d; }
static bool is_one(const unify *u, cr_dim size) { return cr_dim_known(u->env, size, CR_EQ, 1) == CR_YES; }

static void tie(unify *u, int a, int b) {
    a = find(u, a), b = find(u, b);
    if (a == b) return;
    u->parent[b] = (int16_t)a;
    u->reduced[a] |= u->reduced[b];
}

static bool add_value(unify *u, uint32_t v, bool outside) {
    if (u->local[v] >= 0) return true;
    if (u->d->nvalues == CR_ROWS_MAX_VALUES) return false;
    u->outside[u->d->nvalues] = outside;
    u->local[v] = (int16_t)u->d->nvalues;
    u->d->value[u->d->nvalues++] = v;
    return true;
}

/* The node's tensors: operands from outside have axes, too. */
static bool add_values(unify *u, const cr_node *node) {
    for (uint16_t i = 0; i < node->nargs; i++) {
        const cr_meta *m = meta_of(u->g, &node->args[i]);
        if (m && (!plain_meta(m) || !add_value(u, (uint32_t)node->args[i].u.i, true))) return false;
    }
    for (uint32_t i = 0; i < node->nvalues; i++)
        if (!add_value(u, node->first + i, false)) return false;
    return true;
}

static const cr_meta *meta(const unify *u, uint32_t v) { return cr_graph_value(u->g, v)->meta; }

/* Dimensions of value v and of the node's result that lie at the same distance from the last one are one axis, unless
 * broadcast. */
static bool tie_aligned(unify *u, uint32_t v, uint32_t result) {
    const cr_meta *in = meta(u, v), *out = meta(u, result);
    for (int d = 0; d < in->rank; d++) {
        int k = d + out->rank - in->rank;
        if (is_one(u, in->size[d])) continue;
        if (cr_dim_known(u->env, in->size[d], CR_EQ, out->size[k]) != CR_YES) return false;
        tie(u, element(u, v, d), element(u, result, k));
    }
    return true;
}

static bool tie_reduced(unify *u, const cr_node *node) {
    uint32_t in = (uint32_t)node->args[0].u.i;
    bool kept;
    uint32_t dims = cr_rows_dims(u->g, node, &kept);
    const cr_meta *m = meta(u, in);
    cr_reduce_kind how = (cr_reduce_kind)cr_op_facts(node->op)->reduce.kind;
    bool statistics = how == CR_REDUCE_LAYER_NORM;
    bool whole = statistics || how == CR_REDUCE_SOFTMAX || how == CR_REDUCE_LOG_SOFTMAX;
    for (uint32_t i = 0; i < node->nvalues; i++) {
        uint32_t out = node->first + i;
        bool full = whole && !i, keeps = kept || (statistics && i);
        int k = 0;
        for (int d = 0; d < m->rank; d++) {
            bool ends = dims >> d & 1;
            if (ends && !full) {
                k += keeps;
                continue;
            }
            if (!is_one(u, m->size[d])) tie(u, element(u, in, d), element(u, out, k));
            k++;
        }
    }
    for (int d = 0; d < m->rank; d++)
        if (dims >> d & 1) u->reduced[find(u, element(u, in, d))] = true;
    return true;
}

static bool tie_node(unify *u, const cr_node *node, cr_rows_kind kind) {
    if (!add_values(u, node)) return false;
    if (kind == CR_ROWS_REDUCE || kind == CR_ROWS_NORM) {
        for (uint16_t i = 1; i < node->nargs; i++)
            if (node->args[i].kind == CR_ARG_VALUE && meta_of(u->g, &node->args[i]) &&
                !tie_aligned(u, (uint32_t)node->args[i].u.i, node->first))
                return false;
        return tie_reduced(u, node);
    }
    if (kind == CR_ROWS_VIEW) {
        int8_t from[CR_ROWS_MAX_RANK];
        uint32_t in = (uint32_t)node->args[0].u.i;
        /* of something outside: stays there, and costs nothing */
        if (u->outside[u->local[in]] || !cr_rows_view(u->g, node, from)) return false;
        for (int d = 0; d < meta(u, node->first)->rank; d++)
            if (from[d] >= 0) tie(u, element(u, in, from[d]), element(u, node->first, d));
        return true;
    }
    if (kind == CR_ROWS_ROTATE) { /* a load of x: not of what this kernel computes */
        uint32_t parts[3], x = cr_rows_rotated(u->g, node, parts);
        return add_value(u, x, true) && u->outside[u->local[x]] && tie_aligned(u, x, node->first);
    }
    for (uint16_t i = 0; i < node->nargs; i++)
        if (meta_of(u->g, &node->args[i]) && !tie_aligned(u, (uint32_t)node->args[i].u.i, node->first)) return false;
    return true;
}

/* Is the node a part of a rotation among these? */
static bool is_part(const cr_graph *g, const uint32_t *nodes, int n, uint32_t node) {
    uint32_t parts[3];
    for (int i = 0; i < n; i++) {
        const cr_node *cat = cr_graph_node(g, nodes[i]);
        if (cr_rows_rotated(g, cat, parts) == CR_NO_VALUE) continue;
        if (parts[0] == node || parts[1] == node || parts[2] == node) return true;
    }
    return false;
}

/* Axes of the same size that no value has both of run in one loop: x * rsqrt(mean(x * x)) has one axis for both x. */
static bool together(unify *u, int a, int b) {
    for (int v = 0; v < u->d->nvalues; v++) {
        bool one = false, other = false;
        const cr_meta *m = meta(u, u->d->value[v]);
        for (int d = 0; m && d < m->rank; d++) {
            if (is_one(u, m->size[d])) continue;
            int e = find(u, v * CR_ROWS_MAX_RANK + d);
            one |= e == a, other |= e == b;
        }
        if (one && other) return true;
    }
    return false;
}

static cr_dim size_of(const unify *u, int e) {
    return meta(u, u->d->value[e / CR_ROWS_MAX_RANK])->size[e % CR_ROWS_MAX_RANK];
}

/* The classes that are left, at most a few; -1: too many. */
static int classes(unify *u, int16_t *out) {
    int n = 0;
    for (int v = 0; v < u->d->nvalues; v++) {
        const cr_meta *m = meta(u, u->d->value[v]);
        for (int d = 0; m && d < m->rank; d++) {
            if (is_one(u, m->size[d])) continue;
            int e = find(u, v * CR_ROWS_MAX_RANK + d), k = 0;
            while (k < n && out[k] != e) k++;
            if (k < n) continue;
            if (n == 2 * CR_ROWS_MAX_AXES) return -1;
            out[n++] = (int16_t)e;
        }
    }
    return n;
}

static bool number_axes(unify *u) {
    int16_t class[2 * CR_ROWS_MAX_AXES];
    cr_rows_domain *d = u->d;
    int n = classes(u, class);
    for (int a = 0; a < n; a++)
        for (int b = a + 1; b < n; b++)
            if (find(u, class[a]) == class[a] && find(u, class[b]) == class[b] &&
                cr_dim_known(u->env, size_of(u, class[a]), CR_EQ, size_of(u, class[b])) == CR_YES &&
                !together(u, class[a], class[b]))
                tie(u, class[a], class[b]);
    n = classes(u, class);
    if (n < 0 || n > CR_ROWS_MAX_AXES) return false;
    d->naxes = n;
    d->reduced = 0;
    for (int k = 0; k < n; k++) {
        d->size[k] = size_of(u, class[k]);
        if (u->reduced[class[k]]) d->reduced |= 1u << k;
    }
    for (int v = 0; v < d->nvalues; v++) {
        const cr_meta *m = meta(u, d->value[v]);
        uint32_t seen = 0;
        for (int i = 0; m && i < m->rank; i++) {
            d->axis[v][i] = -1;
            if (is_one(u, m->size[i])) continue;
            int e = find(u, v * CR_ROWS_MAX_RANK + i), k = 0;
            while (class[k] != e) k++;
            if (seen >> k & 1) return false; /* two dimensions in one loop */
            seen |= 1u << k;
            d->axis[v][i] = (int8_t)k;
        }
    }
    return true;
}

static uint32_t axes_of(const unify *u, uint32_t v) {
    uint32_t seen = 0;
    int k = u->local[v];
    for (int i = 0; i < meta(u, v)->rank; i++)
        if (u->d->axis[k][i] >= 0) seen |= 1u << u->d->axis[k][i];
    return seen;
}

/* Every value runs over all outer axes, and over the whole row or none of it. */
static bool rows_hold(const unify *u, const cr_graph *g, const uint32_t *nodes, int n) {
    const cr_rows_domain *d = u->d;
    uint32_t all = (1u << d->naxes) - 1, outer = all & ~d->reduced;
    for (int k = 0; k < n; k++) {
        const cr_node *node = cr_graph_node(g, nodes[k]);
        if (u->local[node->first] < 0) continue; /* a part of another */
        for (uint32_t i = 0; i < node->nvalues; i++) {
            uint32_t axes = axes_of(u, node->first + i), row = axes & d->reduced;
            if ((axes & outer) != outer || (row && row != d->reduced)) return false;
        }
        cr_rows_kind kind = cr_rows_kind_of(g, node);
        uint32_t in = (uint32_t)node->args[0].u.i;
        if (kind == CR_ROWS_REDUCE || kind == CR_ROWS_NORM) {
            bool kept;
            uint32_t dims = cr_rows_dims(g, node, &kept), ends = 0;
            for (int i = 0; i < meta(u, in)->rank; i++)
                if ((dims >> i & 1) && d->axis[u->local[in]][i] >= 0) ends |= 1u << d->axis[u->local[in]][i];
            if (ends != d->reduced) return false;
        }
    }
    return true;
}

bool cr_rows_analyse(const cr_graph *g, const uint32_t *nodes, int n, int16_t *local, cr_rows_domain *out) {
    unify u;
    u.g = g, u.env = cr_graph_env(g), u.local = local, u.d = out;
    out->nvalues = 0;
    bool good = n <= CR_ROWS_MAX_NODES;
    for (int i = 0; i < ELEMENTS; i++) u.parent[i] = (int16_t)i, u.reduced[i] = false;
    for (int i = 0; i < n && good; i++) {
        const cr_node *node = cr_graph_node(g, nodes[i]);
        if (!is_part(g, nodes, n, nodes[i])) good = tie_node(&u, node, cr_rows_kind_of(g, node));
    }
    good = good && number_axes(&u) && rows_hold(&u, g, nodes, n);
    for (int i = 0; i < out->nvalues; i++) local[out->value[i]] = -1;
    return good;
}
