/* save.c: making nodes: what of a call is kept for its derivative. What the formula reads is an alias with its version;
 * of everything else there is a fake with the meta, so that the derivative sees shapes and nothing else is held. */
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

cr_status cr__check_saved(const cr_tensor *t) {
    if (!t->inference) return CR_OK;
    return CR_FAIL(CR_ERUNTIME, "inference tensors cannot be saved for backward: do not compute gradients with what "
                                "was "
                                "made in inference mode. .clone() it first, or make it inside of no_grad()");
}

static cr_status save_tensor(cr_tensor *t, bool keep, bool argument, cr__slot *slot, cr_tensor **out) {
    if (!keep) return cr__shape_of(t, out);
    CR_TRY(cr__check_saved(t));
    slot->version = cr_tensor_version(t);
    slot->kept = true;
    /* a leaf is held by its sink anyway, and nothing can give it a history while it requires grad; where calls are
     * recorded, the recorder knows this argument and no alias of it */
    bool itself = (slot->edge.node && slot->edge.node->leaf) || (argument && cr_ambient_get()->transforms);
    if (itself) return cr_tensor_retain(*out = t), CR_OK;
    CR_TRY(cr_tensor_alias(t, out));
    (*out)->trace = t->trace;
    return CR_OK;
}

typedef struct saver { cr__slot *slots; uint32_t at; bool edges; const cr_storage *written; } saver;

/* *to: owned as cr_results_release expects, and texts as node.c frees them; NONE when it fails. */
static cr_status save_arg(saver *s, const cr_arg *a, bool keep, cr_arg *to) {
    *to = *a;
    switch ((cr_arg_kind)a->kind) {
    case CR_ARG_TENSOR: {
        cr__slot *slot = &s->slots[s->at++];
        cr_status status = s->edges ? cr__edge_of(a->u.t, &slot->edge) : CR_OK;
        if (!status) status = save_tensor(a->u.t, keep, s->edges, slot, &to->u.t);
        if (!status && keep && a->u.t->storage == s->written) slot->version--; /* the call itself wrote over it */
        if (status) *to = cr_arg_none();
        return status;
    }
    case CR_ARG_LIST: {
        cr_arg *items = cr_calloc(a->n + 1u, sizeof *items);
        if (!items) return *to = cr_arg_none(), CR_ENOMEM;
        to->u.list = items;
        for (uint32_t i = 0; i < a->n; i++) CR_TRY(save_arg(s, &a->u.list[i], keep, &items[i]));
        return CR_OK;
    }
    case CR_ARG_STR: {
        char *copy = cr_alloc(a->n + 1u);
        if (!copy) return *to = cr_arg_none(), CR_ENOMEM;
        memcpy(copy, a->u.s, a->n);
        copy[a->n] = 0;
        to->u.s = copy;
        return CR_OK;
    }
    case CR_ARG_COMPLEX: {
        double *copy = cr_alloc(2 * sizeof *copy);
        if (!copy) return *to = cr_arg_none(), CR_ENOMEM;
        memcpy(copy, a->u.c, 2 * sizeof *copy);
        to->u.c = copy;
        return CR_OK;
    }
    case CR_ARG_GENERATOR: *to = cr_arg_none(); return CR_OK; /* what was drawn is a result */
    default: return CR_OK;
    }
}

static cr_status save_all(cr_grad_node *n, const cr_arg *args, const cr_arg *results, uint64_t keep_args,
                          uint64_t keep_results, cr_tensor *before) {
    saver in = { .slots = n->slots, .edges = true, .written = before ? args[0].u.t->storage : NULL };
    saver out = { .slots = n->outs };
    for (uint16_t i = 0; i < n->nargs; i++) {
        bool own = before && !i;
        CR_TRY(save_arg(&in, &args[i], !own && i < 64 && (keep_args >> i & 1), &n->args[i]));
        if (!own) continue;
        cr_tensor_release(n->args[0].u.t);
        cr_tensor_retain(n->args[0].u.t = before);
        n->slots[0].version = cr_tensor_version(before);
        n->slots[0].kept = keep_args & 1;
    }
    for (uint16_t i = 0; i < n->nresults; i++)
        CR_TRY(save_arg(&out, &results[i], keep_results >> i & 1, &n->results[i]));
    return CR_OK;
}

uint64_t cr__node_order(void) {
    static uint64_t last; /* atomic */
    return __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED) << CR__ORDER_BITS;
}

cr_status cr__node_create(const cr_op *op, const cr_arg *args, const cr_arg *results, uint64_t keep_args,
                          uint64_t keep_results, cr_tensor *before, cr_grad_node **out) {
    const cr_schema *s = &op->schema;
    uint32_t nslots = cr__count_tensors(args, s->nparams), nouts = cr__count_tensors(results, s->nreturns);
    size_t nargs = s->nparams + (size_t)s->nreturns;
    cr_grad_node *n;
    size_t bytes = sizeof *n + nargs * sizeof *n->args + (nslots + (size_t)nouts) * sizeof *n->slots;
    n = cr_alloc(bytes); /* not cr_calloc: the C library keeps freed blocks at hand for malloc alone */
    if (!n) return CR_ENOMEM;
    memset(n, 0, bytes);
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
    cr_status status = save_all(n, args, results, keep_args, keep_results, before);
    n->order = cr__node_order(); /* after the nodes of views that were read off just now */
    if (!status && __atomic_load_n(&cr__anomaly_on, __ATOMIC_RELAXED)) status = cr__anomaly_made(n);
    if (status) cr_grad_node_release(n);
    else *out = n;
    return status;
}
