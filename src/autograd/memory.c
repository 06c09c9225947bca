/* memory.c: calls that give tensors other memory, in terms of those that compiled programs can make.
 *
 *     resize_      to what fits in the tensor's memory: a view of it, in place; to more, of a tensor that the program
 *                  made and has no views of: a new tensor that begins with the old elements
 *     set_         of a tensor that the program made, or of a view: it shows the other's memory from then on
 *     op(out=t)    the op, and t.copy_ of its results
 *
 * What cannot be said so stays as it is, and is refused when the program is looked at (metadata.c): an input that gets
 * other memory, and what requires grad. Values keep their ids; those of calls that are gone are no longer used. */
#include "autograd/aot_internal.h"

#include "autograd/internal.h"
#include "autograd/path.h"

typedef struct settler {
    const cr_graph *from;     /* as recorded: what values are */
    cr_tensor *const *inputs; /* per placeholder */
    cr_graph *g;              /* the copy that is edited */
    bool *required;           /* per value of `from`: it may require grad */
} settler;

static const cr_meta *meta_of(const cr_graph *g, const cr_arg *a) {
    return a->kind == CR_ARG_VALUE ? cr_graph_value(g, (uint32_t)a->u.i)->meta : NULL;
}

static bool is_concrete(const cr_meta *m) {
    bool plain = m && cr_dim_is_plain(m->offset);
    for (int d = 0; plain && d < m->rank; d++) plain = cr_dim_is_plain(m->size[d]) && cr_dim_is_plain(m->stride[d]);
    return plain;
}

static bool is_settled(const cr_op *op) {
    return op->base->tags & CR_TAG_METADATA || (op->variant == CR_OUT && op->base != op);
}

/* ---- what is known of values ---- */

typedef struct marks {
    const bool *required;
    bool any;
} marks;
static void see_required(void *user, uint32_t v) { ((marks *)user)->any |= ((marks *)user)->required[v]; }

static bool needs_grad(const settler *s, const cr_node *node) {
    marks m = { s->required, false };
    cr_args_visit_values(node->args, node->nargs, see_required, &m);
    return m.any;
}

/* More than really do: what an integer came from counts, too. */
static void find_required(settler *s) {
    uint32_t inputs = 0;
    for (uint32_t n = cr_graph_first(s->from); n != CR_NO_NODE; n = cr_graph_next(s->from, n)) {
        const cr_node *node = cr_graph_node(s->from, n);
        if (node->kind == CR_NODE_PLACEHOLDER) {
            const cr_tensor *t = s->inputs[inputs++];
            s->required[node->first] = t && cr_tensor_requires_grad(t);
        }
        bool stops = node->kind != CR_NODE_CALL || !strcmp(node->op->base->name, "aten::detach");
        bool any = !stops && needs_grad(s, node);
        for (uint32_t i = 0; i < node->nvalues && any; i++) s->required[node->first + i] = true;
    }
}

/* The value before it was written to or reshaped in place: what made the tensor. */
static uint32_t tensor_of(const cr_graph *g, uint32_t v) {
    for (;;) {
        const cr_node *node = cr_graph_node(g, cr_graph_value(g, v)->node);
        bool itself = node->kind == CR_NODE_CALL &&
                      (cr_graph_value(g, v)->hidden || node->op->variant != CR_FUNCTIONAL ||
                       node->op->base->tags & CR_TAG_METADATA);
        if (!itself) return v;
        const cr_schema *of = &node->op->schema;
        uint16_t ret = cr_graph_value(g, v)->ret, first = node->op->variant == CR_OUT ? of->nparams - of->nreturns : 0;
        uint16_t at = cr_graph_value(g, v)->hidden ? ret : (uint16_t)(first + ret);
        if (at >= node->nargs || node->args[at].kind != CR_ARG_VALUE) return v;
        v = (uint32_t)node->args[at].u.i;
    }
}

static bool is_input(const cr_graph *g, uint32_t v) {
    return cr_graph_node(g, cr_graph_value(g, tensor_of(g, v))->node)->kind == CR_NODE_PLACEHOLDER;
}

/* What the value is a view of, at last. */
static uint32_t root_of(const cr_graph *g, uint32_t v) {
    for (uint32_t of = v; of != CR_NO_VALUE;) {
        const cr_node *node = cr_graph_node(g, cr_graph_value(g, v = of)->node);
        of = CR_NO_VALUE;
        for (uint16_t i = 0; node->kind == CR_NODE_CALL && i < node->nargs && of == CR_NO_VALUE; i++) {
            const cr_meta *m = meta_of(g, &node->args[i]);
            if (m && m->storage == cr_graph_value(g, v)->meta->storage) of = (uint32_t)node->args[i].u.i;
        }
    }
    return v;
}

typedef struct memory {
    bool alone;    /* one tensor that the program made is all that lies there */
    int64_t bytes; /* -1: unknown */
} memory;

/* The memory that the value lies in, before the node is called; of an input, no more of it than the input shows. */
static cr_status memory_of(const settler *s, uint32_t v, uint32_t node, memory *out) {
    const cr_graph *g = s->from;
    uint64_t storage = cr_graph_value(g, v)->meta->storage;
    uint32_t root = tensor_of(g, v), whole = root_of(g, v);
    *out = (memory){ .alone = cr_graph_node(g, cr_graph_value(g, root)->node)->kind == CR_NODE_CALL };
    for (uint32_t n = cr_graph_first(g); n != node && n != CR_NO_NODE; n = cr_graph_next(g, n)) {
        const cr_node *at = cr_graph_node(g, n);
        for (uint32_t k = at->first; k < at->first + at->nvalues; k++) {
            const cr_meta *m = cr_graph_value(g, k)->meta;
            int64_t bytes = 0;
            if (!m || m->storage != storage || root_of(g, k) != whole) continue;
            if (!is_concrete(m)) return out->bytes = -1, CR_OK;
            CR_TRY(cr_meta_bytes(m, &bytes));
            out->bytes = CR_MAX(out->bytes, bytes); /* what lay there once has room */
            out->alone &= tensor_of(g, k) == root;
        }
    }
    return CR_OK;
}

/* ---- calls ---- */

static cr_status call(settler *s, const char *name, const cr_arg *args, size_t n, cr_arg *out) {
    return cr_emit_call(cr_graph_emitter(s->g), name, args, n, out);
}

/* size, stride, offset of a meta, as as_strided takes them; memory of the graph's. */
static cr_status geometry(settler *s, const cr_meta *m, cr_arg *out) {
    cr_arg *items = cr_graph_alloc(s->g, (2u * m->rank + 1u) * sizeof *items);
    if (!items) return CR_ENOMEM;
    for (int d = 0; d < m->rank; d++) items[d] = cr_arg_int(m->size[d]), items[m->rank + d] = cr_arg_int(m->stride[d]);
    out[0] = cr_arg_list(items, m->rank);
    out[1] = cr_arg_list(items + m->rank, m->rank);
    out[2] = cr_arg_int(m->offset);
    return CR_OK;
}

/* Calls an op that writes its first argument; what was the result and "after" of node `n` is that of this call. */
static cr_status write_instead(settler *s, uint32_t n, uint32_t result, uint32_t after, const char *name,
                               const cr_arg *args) {
    const cr_op *op = cr_op_find(name);
    uint32_t made;
    if (!op) return CR_FAIL(CR_ENOTFOUND, "there is no op '%s'", name);
    cr_arg all[CR_MAX_PARAMS];
    for (uint16_t i = 0; i < op->schema.nparams; i++)
        all[i] = args[i].kind == CR_ARG_NONE && i ? op->schema.params[i].fallback : args[i];
    CR_TRY(cr_graph_call(s->g, op, all, &made));
    uint32_t first = cr_graph_node(s->g, made)->first, count = cr_graph_node(s->g, made)->nvalues;
    CR_TRY(cr_graph_replace(s->g, result, cr__value_arg(s->g, first), n));
    return cr_graph_replace(s->g, after, cr__value_arg(s->g, first + count - 1), n);
}

static bool same_sizes(const cr_meta *a, const cr_meta *b) {
    bool same = a->rank == b->rank;
    for (int d = 0; same && d < a->rank; d++) same = a->size[d] == b->size[d];
    return same;
}

/* Every value of the node is this one from there on. */
static cr_status be_instead(settler *s, uint32_t n, cr_arg value) {
    uint32_t first = cr_graph_node(s->g, n)->first, count = cr_graph_node(s->g, n)->nvalues;
    for (uint32_t i = 0; i < count; i++) CR_TRY(cr__stand_in(s->g, first + i, value, n));
    return CR_OK;
}

static cr_status settle_resize(settler *s, uint32_t n, bool *done) {
    const cr_node *node = cr_graph_node(s->g, n);
    const cr_meta *after = cr_graph_value(s->from, node->first)->meta;
    uint32_t self = (uint32_t)cr_graph_node(s->from, n)->args[0].u.i, first = node->first;
    int64_t need;
    memory in;
    if (!is_concrete(after)) return CR_OK;
    if (same_sizes(after, cr_graph_value(s->from, self)->meta) && node->args[2].kind == CR_ARG_NONE)
        return *done = true, be_instead(s, n, node->args[0]);
    CR_TRY(cr_meta_bytes(after, &need));
    CR_TRY(memory_of(s, self, n, &in));
    cr_arg args[5] = { node->args[0] }, made, flat, size[1], stride[1] = { cr_arg_int(1) };
    CR_TRY(geometry(s, after, args + 1));
    *done = need <= in.bytes;
    if (*done) return write_instead(s, n, first, first + node->nvalues - 1, "aten::as_strided_", args);
    if (in.bytes < 0 || !in.alone || after->offset || cr_meta_is_contiguous(NULL, after, CR_CONTIGUOUS) != CR_YES)
        return CR_OK;
    *done = true;
    size[0] = cr_arg_int(in.bytes / (int64_t)cr_dtype_size(after->dtype));
    CR_TRY(call(s, "aten::new_empty", args, 2, &made));
    cr_arg part[] = { args[0], cr_arg_list(size, 1), cr_arg_list(stride, 1), cr_arg_int(0) };
    if (in.bytes) {
        CR_TRY(call(s, "aten::as_strided", part, 4, &flat));
        cr_arg put[] = { made, flat, part[1], part[2], part[3] };
        CR_TRY(call(s, "aten::as_strided_scatter", put, 5, &made));
    }
    return be_instead(s, n, made);
}

static cr_status settle_set(settler *s, uint32_t n, bool *done) {
    const cr_node *node = cr_graph_node(s->g, n);
    const cr_meta *after = cr_graph_value(s->from, node->first)->meta;
    const cr_meta *source = node->nargs > 1 ? meta_of(s->g, &node->args[1]) : NULL;
    if (is_input(s->from, (uint32_t)cr_graph_node(s->from, n)->args[0].u.i) || !source || !is_concrete(after) ||
        source->dtype != after->dtype)
        return CR_OK;
    cr_arg part[4], made;
    cr_origin origin = node->origin;
    bool whole = node->nargs == 2;
    origin.data = true; /* versions are each tensor's own */
    CR_TRY(cr_graph_set_origin(s->g, &origin));
    CR_TRY(call(s, "aten::detach", &node->args[1], 1, &made));
    CR_TRY(geometry(s, after, part + 1));
    part[0] = made;
    if (!whole) CR_TRY(call(s, "aten::as_strided", part, 4, &made));
    return *done = true, be_instead(s, n, made);
}

/* ---- results that are written to tensors ---- */

static const cr_arg *find_by_name(const cr_node *node, const char *name) {
    for (uint16_t i = 0; i < node->nargs; i++)
        if (!strcmp(node->op->schema.params[i].name, name)) return &node->args[i];
    return NULL;
}

/* One tensor that gets a result: written where it has its sizes, else it is that result, in its dtype. */
static cr_status give_out(settler *s, uint32_t n, uint16_t i, cr_arg made) {
    const cr_node *node = cr_graph_node(s->g, n), *old = cr_graph_node(s->from, n);
    uint16_t at = (uint16_t)(node->nargs - node->op->schema.nreturns + i);
    const cr_meta *before = meta_of(s->from, &old->args[at]), *to = cr_graph_value(s->from, node->first + i)->meta;
    uint32_t result = node->first + i, after = node->first + node->op->schema.nreturns + i;
    cr_arg args[3] = { node->args[at], made };
    if (same_sizes(before, to)) return write_instead(s, n, result, after, "aten::copy_", args);
    bool same = meta_of(s->g, &made)->dtype == to->dtype;
    cr_arg as[] = { made, cr_arg_dtype(to->dtype) };
    CR_TRY(call(s, same ? "aten::clone" : "aten::_to_copy", as, same ? 1 : 2, &made));
    CR_TRY(cr__stand_in(s->g, result, made, n));
    return cr__stand_in(s->g, after, made, n);
}

static cr_status settle_out(settler *s, uint32_t n, bool *done) {
    const cr_node *node = cr_graph_node(s->g, n), *old = cr_graph_node(s->from, n);
    const cr_op *op = node->op, *base = op->base;
    uint16_t nreturns = op->schema.nreturns, first = (uint16_t)(node->nargs - nreturns);
    cr_arg args[CR_MAX_PARAMS];
    uint32_t made;
    if (node->nvalues != 2u * nreturns) return CR_OK;
    for (uint16_t i = 0; i < nreturns; i++) {
        const cr_meta *before = meta_of(s->from, &old->args[first + i]);
        const cr_meta *to = cr_graph_value(s->from, old->first + i)->meta;
        if (!before || !to || op->schema.returns[i].list) return CR_OK;
        memory in;
        CR_TRY(memory_of(s, (uint32_t)old->args[first + i].u.i, n, &in));
        if (!same_sizes(before, to) && !in.alone) return CR_OK;
    }
    for (uint16_t i = 0; i < base->schema.nparams; i++) {
        const cr_arg *given = find_by_name(node, base->schema.params[i].name);
        args[i] = given ? *given : base->schema.params[i].fallback;
        if (cr_out_decides(op, i, given)) args[i] = cr_arg_dtype(meta_of(s->from, &old->args[first])->dtype);
    }
    CR_TRY(cr_graph_call(s->g, base, args, &made));
    for (uint16_t i = 0; i < nreturns; i++)
        CR_TRY(give_out(s, n, i, cr__value_arg(s->g, cr_graph_node(s->g, made)->first + i)));
    return *done = true, CR_OK;
}

/* ---- the whole ---- */

static cr_status settle(settler *s) {
    find_required(s);
    for (uint32_t n = cr_graph_first(s->g), next; n != CR_NO_NODE; n = next) {
        const cr_node *node = cr_graph_node(s->g, n);
        bool done = false;
        next = cr_graph_next(s->g, n);
        if (node->kind != CR_NODE_CALL || !is_settled(node->op)) continue;
        bool writes = node->op->variant == CR_OUT, needs = needs_grad(s, cr_graph_node(s->from, n));
        if (needs && writes && !node->origin.no_grad) return cr__refuse_out(node->op);
        if (needs && !writes) continue;
        cr_graph_insert_before(s->g, n);
        CR_TRY(cr_graph_set_origin(s->g, &node->origin));
        CR_TRY(writes                 ? settle_out(s, n, &done)
               : cr__is_set(node->op) ? settle_set(s, n, &done)
                                      : settle_resize(s, n, &done));
        if (done) CR_TRY(cr_graph_erase(s->g, n));
    }
    cr_graph_insert_before(s->g, CR_NO_NODE);
    return cr_graph_set_origin(s->g, NULL);
}

cr_status cr_settle_memory(const cr_graph *g, cr_tensor *const *inputs, cr_graph **out) {
    bool any = false;
    *out = NULL;
    for (uint32_t n = cr_graph_first(g); n != CR_NO_NODE && !any; n = cr_graph_next(g, n))
        any = cr_graph_node(g, n)->kind == CR_NODE_CALL && is_settled(cr_graph_node(g, n)->op);
    if (!any) return CR_OK;
    settler s = { .from = g, .inputs = inputs };
    s.required = cr_calloc(cr_graph_value_count(g) + 1u, sizeof *s.required);
    cr_status status = s.required ? cr_graph_copy(g, &s.g) : CR_ENOMEM;
    if (!status) status = settle(&s);
    cr_free(s.required);
    if (status) cr_graph_release(s.g);
    else *out = s.g;
    return status;
}
