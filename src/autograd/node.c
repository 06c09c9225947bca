/* node.c: nodes, and what tensors carry of them.
 *
 * Invariant: a node holds no tensor that holds the node. Arguments and results are saved as aliases (same memory, same
 * version count, no autograd of their own); a leaf owns its sink, and whoever holds a sink holds its leaf. */
#include "autograd/internal.h"

#include <sched.h>

void cr__lock(int *lock) {
    while (__atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE)) sched_yield();
}
void cr__unlock(int *lock) { __atomic_store_n(lock, 0, __ATOMIC_RELEASE); }

/* ---- life of nodes ---- */

/* Together: a thread's own is a call away in a shared library. */
static _Thread_local struct own {
    cr_grad_node *dead; /* freed one after the other: a chain of nodes is as long as the program ran */
    bool freeing;
    uint64_t order; /* of the last node that the thread made */
} own;

uint64_t cr__node_order(const cr__slot *slots, uint32_t n) {
    uint64_t *last = &own.order, latest = *last;
    for (uint32_t i = 0; i < n; i++) /* other threads' nodes may be later than ours */
        if (slots[i].edge.node && slots[i].edge.node->order > latest) latest = slots[i].edge.node->order;
    return *last = latest + ((uint64_t)1 << CR__ORDER_BITS);
}

void cr_grad_node_retain(cr_grad_node *n) { cr__node_retain(n); }

static void free_texts(const cr_arg *args, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (args[i].kind == CR_ARG_STR) cr_free((void *)args[i].u.s);
        if (args[i].kind == CR_ARG_LIST) free_texts(args[i].u.list, args[i].n);
    }
}

static void forget_tensors(cr_arg *args, size_t n) {
    for (size_t i = 0; args && i < n; i++) {
        if (args[i].kind == CR_ARG_LIST) forget_tensors((cr_arg *)args[i].u.list, args[i].n); /* our own */
        if (args[i].kind != CR_ARG_TENSOR) continue;
        cr_tensor_release(args[i].u.t);
        args[i] = cr_arg_none();
    }
}

void cr__node_forget(cr_grad_node *n) {
    cr__args_drop(n->args, n->borrowed);
    n->borrowed = 0;
    forget_tensors(n->args, n->nargs);
    forget_tensors(n->results, n->nresults);
}

static void release_hook(const cr_grad_hook *hook) {
    cr__collect_drop(hook->traverse);
    hook->release(hook->user);
}

/* What others have hung on the node. */
static void special_free(cr_grad_node *n) {
    for (size_t i = 0; i < n->hooks.n; i++) release_hook(&n->hooks.at[i].hook);
    cr_vec_dispose(&n->hooks);
    cr_vec_dispose(&n->keepers);
    cr__extra_free(n);
}

static void node_free(cr_grad_node *n) {
    if (n->holds) {
        free_texts(n->args, n->nargs);
        cr__args_drop(n->args, n->borrowed);
        cr_results_release(n->args, n->nargs);
        if (n->results) cr_results_release(n->results, n->nresults);
    }
    for (uint32_t i = 0; i < n->nslots; i++) {
        cr_grad_node *to = n->slots[i].edge.node;
        if (!to) continue;
        if (to->leaf && !__atomic_load_n(&to->special, __ATOMIC_RELAXED)) cr_tensor_release_end(to->leaf);
        else cr_grad_node_release(to);
    }
    if (n->special) special_free(n);
    if (n->table) {
        cr__collect_drop(n->table->traverse);
        n->table->release(n->user);
        cr_free(n->results);
    }
    cr_small_free(n, n->bytes);
}

/* A leaf is used again and again, and its sink stays; but what hangs on it goes when nobody holds it any more. */
static void sink_release(cr_grad_node *n) {
    cr_tensor *leaf = n->leaf;
    if (!__atomic_load_n(&n->special, __ATOMIC_RELAXED)) {
        cr_tensor_release_end(leaf);
        return;
    }
    cr_tensor_retain(leaf);
    if (!cr_tensor_release_end(leaf)) {
        cr__lock(&n->lock);
        cr_grad_node old = *n;
        bool gone = !cr_tensor_ends(leaf);
        if (gone) {
            memset(&n->hooks, 0, sizeof n->hooks);
            memset(&n->keepers, 0, sizeof n->keepers);
            n->extra = NULL;
            __atomic_store_n(&n->special, false, __ATOMIC_RELAXED);
        }
        cr__unlock(&n->lock);
        if (gone) special_free(&old);
    }
    cr_tensor_release(leaf);
}

void cr_grad_node_release(cr_grad_node *n) {
    if (!n) return;
    if (n->leaf) {
        sink_release(n);
        return;
    }
    if (__atomic_load_n(&n->refs, __ATOMIC_ACQUIRE) != 1 && __atomic_sub_fetch(&n->refs, 1, __ATOMIC_ACQ_REL)) return;
    struct own *mine = &own;
    if (mine->freeing) {
        n->next_dead = mine->dead;
        mine->dead = n;
        return;
    }
    mine->freeing = true;
    node_free(n);
    while ((n = mine->dead)) {
        mine->dead = n->next_dead;
        node_free(n);
    }
    mine->freeing = false;
}

const cr_op *cr_grad_node_op(const cr_grad_node *n) { return n->op; }
uint32_t cr_grad_node_results(const cr_grad_node *n) { return n->nouts; }
void cr_grad_node_name(const cr_grad_node *n, cr_str *out) {
    bool upper = true;
    if (!n->op) {
        cr_str_add(out, cr__node_name(n));
        return;
    }
    for (const char *c = n->op->schema.name; *c; c++) { /* "add_" -> "AddBackward0" */
        if (*c == '_' && c != n->op->schema.name) {
            upper = true;
            continue;
        }
        cr_str_addc(out, upper && *c >= 'a' && *c <= 'z' ? (char)(*c - 'a' + 'A') : *c);
        upper = *c == '_';
    }
    cr_str_add(out, "Backward0");
}
uint64_t cr_grad_node_order(const cr_grad_node *n) { return n->leaf ? UINT64_MAX : n->order >> CR__ORDER_BITS; }
const char *cr__node_name(const cr_grad_node *n) {
    return n->op ? n->op->name : n->table ? n->table->name(n->user) : "AccumulateGrad";
}
cr_tensor *cr_grad_node_leaf(const cr_grad_node *n) { return n->leaf; }
uint32_t cr_grad_node_edges(const cr_grad_node *n) { return n->nslots; }
cr_grad_node *cr_grad_node_edge(const cr_grad_node *n, uint32_t i, uint32_t *result) {
    *result = n->slots[i].edge.result;
    return n->slots[i].edge.node;
}

/* ---- what a tensor carries ---- */

cr__autograd *cr__autograd_of(cr_tensor *t) {
    void *known = __atomic_load_n(&t->autograd, __ATOMIC_ACQUIRE);
    if (known) return known;
    cr__autograd *made = cr_alloc(sizeof *made);
    if (!made) return NULL;
    *made = (cr__autograd){ .grad = NULL };
    if (__atomic_compare_exchange_n(&t->autograd, &known, made, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) return made;
    cr_free(made);
    return known;
}

static void drop_keeper(cr_grad_node *n, const cr_tensor *t) {
    cr__lock(&n->lock);
    for (size_t i = 0; i < n->keepers.n; i++)
        if (n->keepers.at[i].tensor == t) n->keepers.at[i--] = n->keepers.at[--n->keepers.n];
    cr__unlock(&n->lock);
}

static cr_status add_keeper(cr_grad_node *n, uint32_t result, cr_tensor *t) {
    cr__lock(&n->lock);
    cr_status status = cr_vec_push(&n->keepers, ((cr__keeper){ result, t }));
    __atomic_store_n(&n->special, true, __ATOMIC_RELAXED);
    cr__unlock(&n->lock);
    return status;
}

void cr__autograd_free(cr_tensor *t) {
    cr__autograd *a = cr__autograd_get(t);
    cr_grad_node *fn = cr__fn(t);
    if (a && a->retains && fn) drop_keeper(fn, t);
    t->fn = t->autograd = NULL;
    cr_grad_node_release(fn);
    if (!a) return;
    cr_tensor_release(a->grad);
    if (a->sink) node_free(a->sink);
    for (size_t i = 0; i < a->hooks.n; i++) release_hook(&a->hooks.at[i]);
    for (size_t i = 0; i < a->after.n; i++) release_hook(&a->after.at[i]);
    cr_vec_dispose(&a->hooks);
    cr_vec_dispose(&a->after);
    cr_free(a);
}

cr_status cr__autograd_set_fn(cr_tensor *t, cr_grad_node *fn, uint32_t result) {
    cr__autograd *a = cr__autograd_get(t);
    bool retains = a && a->retains, view = t->base; /* as in cr__edge_of */
    cr_status status = retains ? add_keeper(fn, result, t) : CR_OK;
    if (status) {
        cr_grad_node_release(fn);
        return status;
    }
    if (view) cr__lock(&t->lock);
    cr_grad_node *old = cr__fn(t);
    t->fn = fn;
    t->result = result;
    if (view) __atomic_store_n(&t->written, cr_tensor_version(t), __ATOMIC_RELAXED);
    if (view) cr__unlock(&t->lock);
    cr__require_grad(t);
    if (old && retains) drop_keeper(old, t);
    cr_grad_node_release(old);
    return CR_OK;
}

/* A view whose root was written to since its history was read off: does it need another one? A root that requires grad
 * since, without having been written to, is none of the view's history: as in PyTorch. */
static bool is_outdated(const cr_tensor *t) {
    if (!t->base || __atomic_load_n(&t->written, __ATOMIC_RELAXED) == cr_tensor_version(t)) return false;
    return t->fn || (t->base->meta.flags & CR_META_REQUIRES_GRAD);
}

static cr_status renew(cr_tensor *t) {
    cr_grad_node *fresh;
    CR_TRY(cr__check_view(NULL, t, true));
    CR_TRY(cr__node_of_view(t, &fresh));
    return cr__autograd_set_fn(t, fresh, 0);
}

static cr_status sink_make(cr_tensor *t, cr__autograd *a, cr_grad_node **out) {
    cr__lock(&t->lock);
    cr_grad_node *made = a->sink;
    if (!made && (made = cr__node_alloc(sizeof *made, sizeof *made))) {
        made->leaf = t;
        made->nouts = 1;
        __atomic_store_n(&a->sink, made, __ATOMIC_RELEASE);
    }
    cr__unlock(&t->lock);
    *out = made;
    return made ? CR_OK : CR_ENOMEM;
}

static cr_status sink_of(cr_tensor *t, cr_grad_node **out) {
    cr__autograd *a = cr__autograd_of(t);
    if (!a) return CR_ENOMEM;
    if (!(*out = __atomic_load_n(&a->sink, __ATOMIC_ACQUIRE))) CR_TRY(sink_make(t, a, out));
    cr_tensor_retain_end(t);
    return CR_OK;
}

cr_status cr__edge_make(cr_tensor *t, cr__edge *out) {
    if (!cr_tensor_requires_grad(t)) return CR_OK;
    if (is_outdated(t)) CR_TRY(renew(t));
    /* a view made without grad says that it requires some, as its root does, and none arrives: as in PyTorch */
    if (!(t->meta.flags & CR_META_REQUIRES_GRAD)) return CR_OK;
    bool view = t->base; /* read off its root by whoever asks, other threads too; else only writes change a history */
    if (view) cr__lock(&t->lock);
    *out = (cr__edge){ cr__fn(t), t->result };
    if (out->node) cr_grad_node_retain(out->node);
    if (view) cr__unlock(&t->lock);
    if (out->node) return CR_OK;
    out->result = 0;
    return sink_of(t, &out->node);
}

cr_status cr_autograd_edge(cr_tensor *t, cr_grad_edge *out) { return cr__edge_of(t, out); }

bool cr_autograd_is_leaf(cr_tensor *t) {
    return !cr_tensor_requires_grad(t) || (!is_outdated(t) && !t->fn);
}

cr_status cr_autograd_fn(cr_tensor *t, cr_grad_node **node, uint32_t *result) {
    cr__edge e;
    *node = NULL;
    *result = 0;
    if (cr_autograd_is_leaf(t)) return CR_OK;
    CR_TRY(cr__edge_of(t, &e));
    *node = e.node;
    *result = e.result;
    return CR_OK;
}

cr_status cr_autograd_require(cr_tensor *t, bool required) {
    if (t->mapped)
        return CR_FAIL(CR_ERUNTIME, "requires_grad_() is not supported inside of a function under vmap; use func.grad, "
                                    "vjp or jacrev there, or call it outside");
    if (!cr_autograd_is_leaf(t)) {
        if (required) return CR_OK;
        return CR_FAIL(CR_ERUNTIME, "you can only change requires_grad flags of leaf tensors; use .detach() for a "
                                    "tensor that "
                                    "does not require grad");
    }
    if (required && t->inference && !cr_ambient_get()->inference)
        return CR_FAIL(CR_ERUNTIME, "setting requires_grad=True on an inference tensor outside of inference mode is "
                                    "not "
                                    "allowed; .clone() it first");
    if (required && cr_dtype_is_integral(t->meta.dtype))
        return CR_FAIL(CR_ERUNTIME, "only tensors of floating point or complex dtype can require gradients, not %s",
                       cr_dtype_name(t->meta.dtype));
    cr_grad_node *old = cr__fn(t); /* of one that detach_() has detached */
    t->fn = NULL;
    cr_grad_node_release(old);
    t->meta.flags = (uint8_t)(required ? t->meta.flags | CR_META_REQUIRES_GRAD
                                       : t->meta.flags & ~CR_META_REQUIRES_GRAD);
    cr_tensor_changed(t);
    return CR_OK;
}

cr_tensor *cr_autograd_grad(const cr_tensor *t) {
    const cr__autograd *a = cr__autograd_get(t);
    return a ? a->grad : NULL;
}

cr_status cr_autograd_set_grad(cr_tensor *t, cr_tensor *grad) {
    const cr_meta *m = &t->meta, *g = grad ? &grad->meta : m;
    bool fits = m->rank == g->rank && m->dtype == g->dtype && m->device.type == g->device.type;
    for (int d = 0; fits && d < m->rank; d++) fits = cr_dim_known(t->env, m->size[d], CR_EQ, g->size[d]) == CR_YES;
    cr__autograd *a = fits && (grad || t->autograd) ? cr__autograd_of(t) : NULL;
    if (!fits || (grad && !a)) {
        cr_tensor_release(grad);
        return fits ? CR_ENOMEM
                    : CR_FAIL(CR_ERUNTIME, "grad must have the sizes, dtype and device of the tensor that it is "
                                           "assigned to");
    }
    if (!a) return CR_OK;
    cr__lock(&t->lock);
    cr_tensor *old = a->grad;
    a->grad = grad;
    cr__unlock(&t->lock);
    cr_tensor_release(old);
    return CR_OK;
}

bool cr_autograd_retains_grad(const cr_tensor *t) {
    const cr__autograd *a = cr__autograd_get(t);
    return a && a->retains;
}

cr_status cr_autograd_retain_grad(cr_tensor *t) {
    if (!cr_tensor_requires_grad(t))
        return CR_FAIL(CR_ERUNTIME, "can't retain_grad on Tensor that has requires_grad=False");
    if (cr_autograd_is_leaf(t) || cr_autograd_retains_grad(t)) return CR_OK;
    cr__edge e;
    cr__autograd *a = cr__autograd_of(t);
    if (!a) return CR_ENOMEM;
    CR_TRY(cr__edge_of(t, &e));
    cr_status status = add_keeper(e.node, e.result, t);
    if (!status) a->retains = true;
    cr_grad_node_release(e.node);
    return status;
}

/* ---- hooks ---- */

static cr_status add_hook(cr_tensor *leaf, bool after, const cr_grad_hook *hook) {
    cr__autograd *a = cr__autograd_of(leaf);
    if (!a) return CR_ENOMEM;
    cr__lock(&leaf->lock);
    cr_status status = after ? cr_vec_push(&a->after, *hook) : cr_vec_push(&a->hooks, *hook);
    cr__unlock(&leaf->lock);
    __atomic_store_n(&cr__leaf_hooks, true, __ATOMIC_RELAXED);
    return status;
}

static cr_status hooked(cr_status status, const cr_grad_hook *hook) {
    if (status) hook->release(hook->user);
    else cr__collect_add(hook->traverse);
    return status;
}

cr_status cr_autograd_hook(cr_tensor *t, const cr_grad_hook *hook, cr_grad_node **node) {
    cr__edge e = { NULL, 0 };
    cr_status status = CR_OK;
    *node = NULL;
    if (!cr_tensor_requires_grad(t)) {
        status = CR_FAIL(CR_ERUNTIME, "cannot register a hook on a tensor that doesn't require gradient");
    } else if (cr_autograd_is_leaf(t)) {
        status = add_hook(t, false, hook);
    } else if (!(status = cr__edge_of(t, &e))) {
        cr__lock(&e.node->lock);
        status = cr_vec_push(&e.node->hooks, ((cr__node_hook){ e.result, *hook }));
        __atomic_store_n(&e.node->special, true, __ATOMIC_RELAXED);
        cr__unlock(&e.node->lock);
        if (status) cr_grad_node_release(e.node);
        else *node = e.node;
    }
    return hooked(status, hook);
}

cr_status cr_autograd_hook_after(cr_tensor *leaf, const cr_grad_hook *hook) {
    cr_status status;
    if (!cr_tensor_requires_grad(leaf))
        status = CR_FAIL(CR_ERUNTIME, "cannot register a hook on a tensor that doesn't require gradient");
    else if (!cr_autograd_is_leaf(leaf))
        status = CR_FAIL(CR_ERUNTIME, "post accumulate grad hooks cannot be registered on non-leaf tensors; use "
                                      "register_hook() there");
    else status = add_hook(leaf, true, hook);
    return hooked(status, hook);
}

/* Takes entry i out of an array of n hooks; `size` and the hook inside of an entry at `at`. */
#define TAKE(vec, i)                                                                                                   \
    (memmove(&(vec)->at[i], &(vec)->at[(i) + 1], ((vec)->n - (i) - 1) * sizeof *(vec)->at), (vec)->n--)

static bool take_node_hook(cr_grad_node *n, uint64_t id, cr_grad_hook *out) {
    for (size_t i = 0; i < n->hooks.n; i++) {
        if (n->hooks.at[i].hook.id != id) continue;
        *out = n->hooks.at[i].hook;
        TAKE(&n->hooks, i);
        return true;
    }
    for (int before = 0; n->extra && before < 2; before++) {
        CR_VEC(cr_node_hook) *hooks = before ? (void *)&n->extra->before : (void *)&n->extra->after;
        for (size_t i = 0; i < hooks->n; i++) {
            if (hooks->at[i].id != id) continue;
            cr_node_hook h = hooks->at[i];
            *out = (cr_grad_hook){ .release = h.release, .user = h.user, .traverse = h.traverse };
            TAKE(hooks, i);
            return true;
        }
    }
    return false;
}

static bool take_leaf_hook(cr__autograd *a, uint64_t id, cr_grad_hook *out) {
    for (int after = 0; after < 2; after++) {
        CR_VEC(cr_grad_hook) *hooks = after ? (void *)&a->after : (void *)&a->hooks;
        for (size_t i = 0; i < hooks->n; i++) {
            if (hooks->at[i].id != id) continue;
            *out = hooks->at[i];
            TAKE(hooks, i);
            return true;
        }
    }
    return false;
}

void cr_autograd_unhook(cr_tensor *t, cr_grad_node *node, uint64_t id) {
    cr_grad_hook found;
    cr__autograd *a = node ? NULL : cr__autograd_get(t);
    int *lock = node ? &node->lock : a ? &t->lock : NULL;
    if (!lock) return;
    cr__lock(lock);
    bool any = node ? take_node_hook(node, id, &found) : take_leaf_hook(a, id, &found);
    cr__unlock(lock);
    if (any) release_hook(&found);
}
