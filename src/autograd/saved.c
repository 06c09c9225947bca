/* saved.c: what a node saved, as its derivative finds it: checked against later writes, with its history when gradients
 * are recorded, and brought back from wherever hooks have put it. Making and saving are save.c's. */
#include "autograd/internal.h"

#include <stdio.h>

/* ---- hooks that keep saved values elsewhere ---- */

/* Shared by the node and by a walk that opens it. */
struct cr__packed {
    int64_t refs; /* atomic */
    const cr_saved_table *table;
    void *object;
};

static void packed_release(cr__packed *p) {
    if (!p || __atomic_sub_fetch(&p->refs, 1, __ATOMIC_ACQ_REL)) return;
    cr__collect_drop(p->table->traverse);
    p->table->release(p->object);
    cr_free(p);
}

static cr_status pack(const cr_saved_hooks *hooks, cr_tensor *t, cr__packed **out) {
    cr_ambient *ambient = cr_ambient_get();
    cr__packed *p = cr_calloc(1, sizeof *p);
    if (!p) return CR_ENOMEM;
    bool grad = ambient->grad;
    ambient->grad = false;
    cr_status status = hooks->table->pack(hooks->user, t, &p->object);
    ambient->grad = grad;
    if (status) {
        cr_free(p);
        return status;
    }
    p->refs = 1;
    p->table = hooks->table;
    cr__collect_add(p->table->traverse);
    *out = p;
    return CR_OK;
}

typedef struct packing { const cr_saved_hooks *hooks; cr__slot *slots; cr__packed **at; uint32_t i; } packing;

/* The hook gets the tensor that the call was made with, and a fake with its meta stays. given NULL: what is kept. */
static cr_status pack_args(packing *to, const cr_arg *given, cr_arg *args, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (args[i].kind == CR_ARG_LIST)
            CR_TRY(pack_args(to, given ? given[i].u.list : NULL, (cr_arg *)args[i].u.list, args[i].n)); /* our own */
        if (args[i].kind != CR_ARG_TENSOR) continue;
        uint32_t slot = to->i++;
        cr_tensor *shape;
        if (!to->slots[slot].kept) continue;
        CR_TRY(cr__shape_of(args[i].u.t, &shape));
        cr_status status = pack(to->hooks, given ? given[i].u.t : args[i].u.t, &to->at[slot]);
        if (status) {
            cr_tensor_release(shape);
            return status;
        }
        cr_tensor_release(args[i].u.t);
        args[i].u.t = shape;
        to->slots[slot].packed = true;
    }
    return CR_OK;
}

cr_status cr__saved_pack(const cr_saved_hooks *hooks, cr_grad_node *n, const cr_arg *args, const cr_arg *results,
                         bool written) {
    if (!cr__keeps_something(n)) return CR_OK;
    cr__extra *extra = cr__extra_of(n);
    if (!extra || !(extra->packed = cr_calloc(n->nslots + (size_t)n->nouts + 1, sizeof *extra->packed)))
        return CR_ENOMEM;
    n->holds = true;
    for (; n->borrowed; n->borrowed &= n->borrowed - 1) /* all go the same way now */
        cr_tensor_retain(n->args[__builtin_ctzll(n->borrowed)].u.t);
    packing in = { hooks, n->slots, extra->packed, 0 }, out = { hooks, n->outs, extra->packed + n->nslots, 0 };
    if (written) CR_TRY(pack_args(&in, NULL, n->args, 1)); /* the copy from before */
    CR_TRY(pack_args(&in, args + written, n->args + written, n->nargs - (size_t)written));
    return pack_args(&out, results, n->results, n->nresults);
}

static void packed_free(const cr_grad_node *n, cr__packed **packed) {
    for (size_t i = 0; packed && i < n->nslots + (size_t)n->nouts; i++) packed_release(packed[i]);
    cr_free(packed);
}

void cr__packed_free(cr_grad_node *n) { packed_free(n, n->extra->packed); }

int cr__packed_traverse(const cr_grad_node *n, cr_visit *visit, void *arg) {
    cr__packed **packed = n->extra->packed;
    for (size_t i = 0; packed && i < n->nslots + (size_t)n->nouts; i++) {
        int stop = packed[i] && packed[i]->table->traverse
                       ? packed[i]->table->traverse(packed[i]->object, visit, arg)
                       : 0;
        if (stop) return stop;
    }
    return 0;
}

/* ---- versions and histories ---- */

bool cr__keeps_something(const cr_grad_node *n) {
    for (uint32_t i = 0; i < n->nslots; i++)
        if (n->slots[i].kept) return true;
    for (uint32_t i = 0; i < n->nouts; i++)
        if (n->outs[i].kept) return true;
    return false;
}

static cr_status stale(const cr_grad_node *n, const cr_tensor *t, uint64_t expected, bool result) {
    cr_str shape;
    cr_str_init(&shape);
    cr_shape_print(NULL, t->meta.rank, t->meta.size, &shape);
    cr_status status = CR_FAIL(CR_ERUNTIME,
                               "one of the variables needed for gradient computation has been modified by an inplace "
                               "operation: %s of %s, a %s tensor of shape %s, is at version %llu; expected version "
                               "%llu instead. "
                               "Write to a copy (.clone()), or after backward()",
                               result ? "a result" : "an argument", n->op->name, cr_dtype_name(t->meta.dtype),
                               cr_str_get(&shape), (unsigned long long)cr_tensor_version(t),
                               (unsigned long long)expected);
    cr_str_dispose(&shape);
    return status;
}

cr_status cr_autograd_alias(cr_tensor *t, cr_grad_edge history, cr_tensor **out) {
    CR_TRY(cr_tensor_on(t->storage, &t->meta, NULL, t->env, out));
    (*out)->trace = t->trace;
    cr_status status = cr_tensor_share_version(*out, t);
    if (!status) {
        cr_grad_node_retain(history.node);
        status = cr__autograd_set_fn(*out, history.node, history.result);
    }
    if (status) cr_tensor_release(*out);
    return status;
}

/* A saved tensor as the derivative sees it: with its history when gradients are recorded. */
static cr_status unpack_tensor(const cr_grad_node *n, const cr__slot *slot, const cr__edge *history, cr_tensor *t,
                               bool graph, cr_tensor **out) {
    if (slot->shape) return cr__shape_open(n, slot, out);
    if (slot->packed) return cr_tensor_retain(*out = t), CR_OK; /* open_packed */
    if (slot->kept && cr_tensor_version(t) != slot->version)
        return stale(n, t, slot->version, slot >= n->outs && slot < n->outs + n->nouts);
    bool has_own = cr_ambient_get()->transforms && cr_tensor_requires_grad(t); /* it is the argument itself */
    if (!graph || !slot->kept || !history->node || has_own) return cr_tensor_retain(*out = t), CR_OK;
    return cr_autograd_alias(t, *history, out);
}

/* to: as cr_results_release wants it. history NULL: each has its slot's edge (arguments); else it is that node's
 * result. */
static cr_status unpack(const cr_grad_node *n, cr__slot *slots, uint32_t *at, cr_grad_node *maker, const cr_arg *from,
                        bool graph, cr_arg *to) {
    *to = *from;
    if (from->kind == CR_ARG_TENSOR) {
        uint32_t i = (*at)++;
        cr__edge history = maker ? (cr__edge){ maker, i } : slots[i].edge;
        if (maker && from->u.t && cr_dtype_is_integral(from->u.t->meta.dtype)) history.node = NULL;
        cr_status status = unpack_tensor(n, &slots[i], &history, from->u.t, graph, &to->u.t);
        if (status) *to = cr_arg_none();
        return status;
    }
    if (from->kind == CR_ARG_COMPLEX) {
        double *copy = cr_alloc(2 * sizeof *copy);
        if (!copy) return *to = cr_arg_none(), CR_ENOMEM;
        memcpy(copy, from->u.c, 2 * sizeof *copy);
        to->u.c = copy;
        return CR_OK;
    }
    if (from->kind != CR_ARG_LIST) return CR_OK;
    cr_arg *items = cr_calloc(from->n + 1u, sizeof *items);
    if (!items) return *to = cr_arg_none(), CR_ENOMEM;
    to->u.list = items;
    for (uint32_t i = 0; i < from->n; i++) CR_TRY(unpack(n, slots, at, maker, &from->u.list[i], graph, &items[i]));
    return CR_OK;
}

static cr_status check_versions(const cr_grad_node *n, const cr__slot *slots, uint32_t *at, const cr_arg *args,
                                size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (args[i].kind == CR_ARG_LIST) CR_TRY(check_versions(n, slots, at, args[i].u.list, args[i].n));
        if (args[i].kind != CR_ARG_TENSOR) continue;
        const cr__slot *slot = &slots[(*at)++];
        if (slot->kept && cr_tensor_version(args[i].u.t) != slot->version)
            return stale(n, args[i].u.t, slot->version, slots == n->outs);
    }
    return CR_OK;
}

bool cr__saved_is_unread(const cr_grad_node *n, uint16_t result) {
    return (n->singles >> result & 1) && !(n->read_metas >> result & 1) && !n->results[result].u.t;
}

/* Fakes where the node has shapes; the lists are ours. */
static cr_status open_shapes(const cr_grad_node *n, const cr__slot *slots, uint32_t *at, cr_arg *args, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (args[i].kind == CR_ARG_LIST) CR_TRY(open_shapes(n, slots, at, (cr_arg *)args[i].u.list, args[i].n));
        if (args[i].kind != CR_ARG_TENSOR) continue;
        const cr__slot *slot = &slots[(*at)++];
        if (slot->shape) CR_TRY(cr__shape_open(n, slot, &args[i].u.t));
    }
    return CR_OK;
}

static void hand_over(cr_arg *from, size_t n, cr_arg *to) {
    for (size_t i = 0; i < n; i++) {
        to[i] = from[i];
        if (from[i].kind != CR_ARG_STR) from[i] = cr_arg_none(); /* texts stay the node's */
    }
}

static cr_status refuse_walked(const cr_grad_node *n) {
    return CR_FAIL(CR_ERUNTIME,
                   "trying to backward through the graph a second time: what %s saved was freed by the first "
                   "backward(). Specify retain_graph=True there",
                   n->op->name);
}

/* What is read for the last time, without a reference more. */
static cr_status take_all(cr_grad_node *n, cr_arg *args, uint64_t *lent, cr_arg *results) {
    uint32_t slot = 0, out = 0;
    if (n->walked) return refuse_walked(n);
    CR_TRY(check_versions(n, n->slots, &slot, n->args, n->nargs));
    CR_TRY(check_versions(n, n->outs, &out, n->results, n->nresults));
    n->walked = true;
    *lent = n->borrowed;
    n->borrowed = 0;
    hand_over(n->args, n->nargs, args);
    slot = out = 0;
    CR_TRY(open_shapes(n, n->slots, &slot, args, n->nargs));
    for (uint16_t i = 0; i < n->nresults; i++) {
        bool unread = cr__saved_is_unread(n, i);
        hand_over(&n->results[i], 1, &results[i]);
        if (unread) results[i] = cr_arg_none(), out++;
        else CR_TRY(open_shapes(n, n->outs, &out, &results[i], 1));
    }
    return CR_OK;
}

/* every: also what is not read, so that slots can be counted. */
static cr_status unpack_all(cr_grad_node *n, bool graph, bool every, cr_arg *args, cr_arg *results) {
    uint32_t slot = 0, out = 0;
    if (n->walked) return refuse_walked(n);
    for (uint16_t i = 0; i < n->nargs; i++) CR_TRY(unpack(n, n->slots, &slot, NULL, &n->args[i], graph, &args[i]));
    for (uint16_t i = 0; i < n->nresults; i++) {
        if (!every && cr__saved_is_unread(n, i)) out++;
        else CR_TRY(unpack(n, n->outs, &out, n, &n->results[i], graph, &results[i]));
    }
    return CR_OK;
}

/* A copy to open without the lock: hooks may take as long as they like. */
static cr_status hold_packed(const cr_grad_node *n, cr__packed ***out) {
    size_t count = n->nslots + (size_t)n->nouts;
    *out = NULL;
    if (!n->extra || !n->extra->packed) return CR_OK;
    if (!(*out = cr_calloc(count + 1, sizeof **out))) return CR_ENOMEM;
    for (size_t i = 0; i < count; i++)
        if (((*out)[i] = n->extra->packed[i])) __atomic_add_fetch(&(*out)[i]->refs, 1, __ATOMIC_RELAXED);
    return CR_OK;
}

typedef struct opening { const cr__slot *slots; cr_grad_node *maker; cr__packed **at; uint32_t i; bool graph; } opening;

static cr_status open_packed(opening *from, cr_arg *args, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (args[i].kind == CR_ARG_LIST) CR_TRY(open_packed(from, (cr_arg *)args[i].u.list, args[i].n)); /* our own */
        if (args[i].kind != CR_ARG_TENSOR) continue;
        uint32_t slot = from->i++;
        cr_tensor *t = NULL, *shown = NULL;
        if (!from->at[slot]) continue;
        CR_TRY(from->at[slot]->table->unpack(from->at[slot]->object, &t));
        cr__edge history = from->maker ? (cr__edge){ from->maker, slot } : from->slots[slot].edge;
        bool plain = !from->graph || !history.node || cr_dtype_is_integral(t->meta.dtype);
        cr_status status = plain ? CR_OK : cr_autograd_alias(t, history, &shown);
        if (!plain) cr_tensor_release(t);
        if (status) return status;
        cr_tensor_release(args[i].u.t);
        args[i].u.t = plain ? t : shown;
    }
    return CR_OK;
}

cr_status cr__saved_open(cr_grad_node *n, bool graph, bool forget, cr_arg *args, uint64_t *lent, cr_arg *results) {
    cr__packed **packed, **gone = NULL;
    bool last = forget && cr__keeps_something(n);
    *lent = 0;
    cr__lock(&n->lock);
    cr_status status = hold_packed(n, &packed);
    if (!status && last && !graph && !packed) status = take_all(n, args, lent, results);
    else if (!status) status = unpack_all(n, graph, packed, args, results);
    if (!status && last && !n->walked) {
        n->walked = true;
        cr__node_forget(n);
        if (n->extra) {
            gone = n->extra->packed;
            n->extra->packed = NULL;
        }
    }
    cr__unlock(&n->lock);
    packed_free(n, gone);
    if (!status && packed) {
        opening in = { n->slots, NULL, packed, 0, graph }, out = { n->outs, n, packed + n->nslots, 0, graph };
        status = open_packed(&in, args, n->nargs);
        if (!status) status = open_packed(&out, results, n->nresults);
    }
    packed_free(n, packed);
    return status;
}

/* ---- by name ---- */

/* "self" of _saved_self: a parameter, or a result as the formulas call it. */
static cr_arg *find_saved(const cr_grad_node *n, const char *name, cr_arg *args, cr_arg *results) {
    const cr_schema *s = &n->op->schema;
    for (uint16_t i = 0; i < n->nargs; i++)
        if (!strcmp(s->params[i].name, name)) return &args[i];
    for (uint16_t i = 0; i < n->nresults; i++) {
        char numbered[24];
        snprintf(numbered, sizeof numbered, "result%u", (unsigned)i);
        if (!strcmp(name, numbered) || (n->nresults == 1 && !strcmp(name, "result")))
            return cr__saved_is_unread(n, i) ? NULL : &results[i];
    }
    return NULL;
}

cr_status cr_grad_node_saved(cr_grad_node *n, const char *name, cr_arg *out) {
    cr_arg args[CR_MAX_PARAMS] = { { 0 } }, results[CR__MAX_RESULTS] = { { 0 } };
    if (!n->op) return CR_FAIL(CR_ENOTFOUND, "%s saves nothing by name", cr__node_name(n));
    uint64_t lent;
    cr_status status = cr__saved_open(n, true, false, args, &lent, results);
    cr_arg *found = status ? NULL : find_saved(n, name, args, results);
    if (!status && (!found || (found->kind == CR_ARG_TENSOR && cr_tensor_is_fake(found->u.t))))
        status = CR_FAIL(CR_ENOTFOUND, "%s saves nothing called '%s'", cr__node_name(n), name);
    if (!status) {
        *out = *found;
        *found = cr_arg_none();
    }
    cr_results_release(args, n->nargs);
    cr_results_release(results, n->nresults);
    return status;
}
