/* save.c: making nodes: what of a call is kept for its derivative. What the formula reads is an alias with its version;
 * of everything else there is the meta, so that the derivative sees shapes and nothing else is held. */
#include "autograd/internal.h"

uint32_t cr__count_tensors(const cr_arg *args, size_t n) {
    uint32_t count = 0;
    for (size_t i = 0; i < n; i++) {
        if (args[i].kind == CR_ARG_TENSOR) count++;
        else if (args[i].kind == CR_ARG_LIST) count += cr__count_tensors(args[i].u.list, args[i].n);
    }
    return count;
}

cr_status cr__shape_of(const cr_tensor *t, cr_tensor **out) {
    cr_meta meta;
    cr_meta_copy(&meta, &t->meta);
    meta.flags &= (uint8_t)~CR_META_REQUIRES_GRAD;
    return t->env ? cr_tensor_create_fake(t->env, &meta, out) : cr_tensor_shape(&meta, out);
}

/* ---- metas ---- */

static uint32_t shape_words(const cr_meta *m) { return (uint32_t)(sizeof(cr__shape) / 8) + 2u * m->rank; }

static void shape_write(const cr_meta *m, cr__shape *to) {
    *to = (cr__shape){ m->dtype, m->rank, (uint8_t)(m->flags & ~CR_META_REQUIRES_GRAD), m->device, m->offset };
    for (int d = 0; d < m->rank; d++) {
        to->dims[d] = m->size[d];
        to->dims[m->rank + d] = m->stride[d];
    }
}

cr_status cr__shape_open(const cr_grad_node *n, const cr__slot *slot, cr_tensor **out) {
    const cr__shape *from = (const cr__shape *)((const uint64_t *)n + slot->shape);
    cr_meta meta = { .dtype = from->dtype, .rank = from->rank, .flags = from->flags, .device = from->device };
    meta.offset = from->offset;
    memcpy(meta.size, from->dims, from->rank * sizeof *meta.size);
    memcpy(meta.stride, from->dims + from->rank, from->rank * sizeof *meta.stride);
    return cr_tensor_shape(&meta, out);
}

/* ---- one argument ---- */

cr_status cr__check_saved(const cr_tensor *t) {
    if (!t->inference) return CR_OK;
    return CR_FAIL(CR_ERUNTIME, "inference tensors cannot be saved for backward: do not compute gradients with what "
                                "was "
                                "made in inference mode. .clone() it first, or make it inside of no_grad()");
}

typedef struct saver {
    cr_grad_node *node;
    cr__slot *slot; /* the next one */
    uint32_t word; /* of the node's block, where the next shape goes */
    uint64_t bit; /* of the argument; 0: a result, or inside of a list */
    uint64_t borrowed; /* of the node */
    bool edges;
    const cr_storage *written;
} saver;
/* A node is made for every call: its arguments are gone through with the saver in registers. */
#define INLINE static inline __attribute__((always_inline))

/* What no sink holds. */
static cr_status save_held(cr_grad_node *n, cr_tensor *t, bool leaf, bool edge, cr_tensor **out) {
    n->holds = true;
    *out = t;
    /* where calls are recorded, the recorder knows this argument and no alias of it */
    if (leaf || (edge && cr_ambient_get()->transforms)) return cr_tensor_retain(t), CR_OK;
    CR_TRY(cr_tensor_alias(t, out));
    (*out)->trace = t->trace;
    return CR_OK;
}

INLINE cr_status save_tensor(saver *s, cr_tensor *t, cr__slot *slot, cr_tensor **out) {
    if (t->inference) return cr__check_saved(t);
    slot->version = cr_tensor_version(t) - (t->storage == s->written); /* the call itself wrote over it */
    slot->kept = true;
    /* a leaf is held by its sink anyway, and nothing can give it a history while it requires grad */
    bool leaf = slot->edge.node && slot->edge.node->leaf == t;
    if (!leaf || !s->bit) return save_held(s->node, t, leaf, s->edges, out);
    *out = t;
    s->borrowed |= s->bit;
    return CR_OK;
}

INLINE cr_status save_slot(saver *s, cr_tensor *t, bool keep, cr_tensor **out) {
    cr__slot *slot = s->slot++;
    *out = NULL;
    if (s->edges) CR_TRY(cr__edge_of(t, &slot->edge));
    if (keep) return save_tensor(s, t, slot, out);
    if (t->env) { /* its sizes are symbols, which a shape does not hold */
        s->node->holds = true;
        return cr__shape_of(t, out);
    }
    shape_write(&t->meta, (cr__shape *)((uint64_t *)s->node + s->word));
    slot->shape = s->word;
    s->word += shape_words(&t->meta);
    return CR_OK;
}

static cr_status save_object(saver *s, const cr_arg *a, bool keep, cr_arg *to);

/* *to: owned as cr_results_release expects, and texts as node.c frees them; NONE when it fails. */
INLINE cr_status save_arg(saver *s, const cr_arg *a, bool keep, cr_arg *to) {
    *to = *a;
    if (a->kind != CR_ARG_TENSOR) {
        saver apart = *s;
        cr_status status = save_object(&apart, a, keep, to);
        *s = apart;
        return status;
    }
    cr_status status = save_slot(s, a->u.t, keep, &to->u.t);
    if (status) *to = cr_arg_none();
    return status;
}

/* The same of anything but a tensor. */
static cr_status save_object(saver *s, const cr_arg *a, bool keep, cr_arg *to) {
    switch ((cr_arg_kind)a->kind) {
    case CR_ARG_LIST: {
        cr_arg *items = cr_calloc(a->n + 1u, sizeof *items);
        s->node->holds = true;
        if (!items) return *to = cr_arg_none(), CR_ENOMEM;
        to->u.list = items;
        s->bit = 0;
        for (uint32_t i = 0; i < a->n; i++) CR_TRY(save_arg(s, &a->u.list[i], keep, &items[i]));
        return CR_OK;
    }
    case CR_ARG_STR: {
        char *copy = cr_alloc(a->n + 1u);
        s->node->holds = true;
        if (!copy) return *to = cr_arg_none(), CR_ENOMEM;
        memcpy(copy, a->u.s, a->n);
        copy[a->n] = 0;
        to->u.s = copy;
        return CR_OK;
    }
    case CR_ARG_COMPLEX: {
        double *copy = cr_alloc(2 * sizeof *copy);
        s->node->holds = true;
        if (!copy) return *to = cr_arg_none(), CR_ENOMEM;
        memcpy(copy, a->u.c, 2 * sizeof *copy);
        to->u.c = copy;
        return CR_OK;
    }
    case CR_ARG_GENERATOR: *to = cr_arg_none(); return CR_OK; /* what was drawn is a result */
    default: return CR_OK;
    }
}

/* The sink of a leaf that was used before; NULL: it is no leaf, or was not. */
static inline cr_grad_node *find_sink(const cr_tensor *t) {
    if (t->base || t->fn || !(t->meta.flags & CR_META_REQUIRES_GRAD)) return NULL;
    const cr__autograd *a = __atomic_load_n(&t->autograd, __ATOMIC_ACQUIRE);
    return a ? __atomic_load_n(&a->sink, __ATOMIC_ACQUIRE) : NULL;
}

static cr_status save_all(cr_grad_node *n, const cr_arg *args, const cr_arg *results, const cr_saved *saved,
                          uint32_t word, cr_tensor *before) {
    saver in = { .node = n, .slot = n->slots, .word = word, .edges = true };
    cr_status status = CR_OK;
    if (before) in.written = args[0].u.t->storage;
    for (uint16_t i = 0; i < n->nargs; i++) {
        bool own = before && !i;
        cr_tensor *t = args[i].u.t;
        in.bit = (uint64_t)1 << i;
        if (!before && args[i].kind == CR_ARG_TENSOR && (saved->args & in.bit) && !t->inference) {
            cr_grad_node *sink = find_sink(t); /* what save_arg does, of parameters: most of what is kept */
            if (sink) {
                cr_tensor_retain_end(t);
                n->args[i] = args[i];
                in.slot->edge.node = sink;
                in.slot->version = cr_tensor_version(t);
                in.slot++->kept = true;
                n->borrowed = in.borrowed |= in.bit;
                continue;
            }
        }
        status = save_arg(&in, &args[i], !own && (saved->args >> i & 1), &n->args[i]);
        n->borrowed = in.borrowed;
        if (status) return status;
        if (!own) continue;
        cr_tensor_retain(n->args[0].u.t = before);
        n->holds = true;
        n->slots[0].shape = 0;
        n->slots[0].version = cr_tensor_version(before);
        n->slots[0].kept = saved->args & 1;
    }
    saver out = { .node = n, .slot = n->outs, .word = in.word };
    for (uint16_t i = 0; i < n->nresults; i++) {
        CR_TRY(save_arg(&out, &results[i], saved->results >> i & 1, &n->results[i]));
        n->singles |= (uint16_t)((results[i].kind == CR_ARG_TENSOR) << i);
    }
    n->read_metas = (uint16_t)saved->result_metas;
    return CR_OK;
}

/* ---- nodes ---- */

/* How many tensors there are, and how many words their shapes take at most. */
static inline uint32_t measure(const cr_arg *args, size_t n, uint32_t *words) {
    uint32_t count = 0;
    for (size_t i = 0; i < n; i++) {
        if (args[i].kind == CR_ARG_TENSOR) {
            count++;
            *words += shape_words(&args[i].u.t->meta);
        } else if (args[i].kind == CR_ARG_LIST) {
            count += measure(args[i].u.list, args[i].n, words);
        }
    }
    return count;
}

cr_status cr__node_create(const cr_op *op, const cr_arg *args, const cr_arg *results, const cr_saved *saved,
                          cr_tensor *before, cr_grad_node **out) {
    const cr_schema *s = &op->schema;
    uint32_t words = 0, nslots = measure(args, s->nparams, &words), nouts = measure(results, s->nreturns, &words);
    size_t nargs = s->nparams + (size_t)s->nreturns;
    cr_grad_node *n;
    size_t fixed = sizeof *n + nargs * sizeof *n->args + (nslots + (size_t)nouts) * sizeof *n->slots;
    n = cr__node_alloc(fixed, fixed + words * 8u);
    if (!n) return CR_ENOMEM;
    n->refs = 1;
    n->op = op;
    n->nargs = s->nparams;
    n->nresults = s->nreturns;
    n->nslots = nslots;
    n->nouts = nouts;
    n->args = (cr_arg *)(n + 1); /* one block: a node is made for every call */
    n->results = n->args + n->nargs;
    n->slots = (cr__slot *)(n->results + n->nresults);
    n->outs = n->slots + nslots;
    cr_status status = save_all(n, args, results, saved, (uint32_t)(fixed / 8), before);
    n->order = cr__node_order(n->slots, nslots); /* after the nodes of views that were read off just now */
    if (!status && __atomic_load_n(&cr__anomaly_on, __ATOMIC_RELAXED)) status = cr__anomaly_made(n);
    if (status) cr_grad_node_release(n);
    else *out = n;
    return status;
}
