/* collect.c: hooks and notes of whole nodes, and what a garbage collector sees of the tape.
 *
 * Objects of the front end hang on nodes (hooks, functions, notes), and nodes on tensors, which are objects again. A
 * collector that counts references may follow only what its object alone holds: a node with one reference, whose holder
 * was reached the same way. */
#include "autograd/internal.h"

int64_t cr__collectable;

/* ---- hooks and notes ---- */

cr__extra *cr__extra_of(cr_grad_node *n) {
    if (!n->extra) n->extra = cr_calloc(1, sizeof *n->extra);
    __atomic_store_n(&n->special, true, __ATOMIC_RELAXED);
    return n->extra;
}

cr_status cr_grad_node_hook(cr_grad_node *n, bool before, const cr_node_hook *hook) {
    cr__lock(&n->lock);
    cr__extra *extra = cr__extra_of(n);
    cr_status status = !extra   ? CR_ENOMEM
                       : before ? cr_vec_push(&extra->before, *hook)
                                : cr_vec_push(&extra->after, *hook);
    cr__unlock(&n->lock);
    if (n->leaf) __atomic_store_n(&cr__leaf_hooks, true, __ATOMIC_RELAXED);
    if (status) hook->release(hook->user);
    else cr__collect_add(hook->traverse);
    return status;
}

static void release_note(const cr_node_note *note) {
    if (!note->object) return;
    cr__collect_drop(note->traverse);
    note->release(note->object);
}

cr_status cr_grad_node_keep(cr_grad_node *n, const cr_node_note *note) {
    cr_node_note old = { NULL, NULL, NULL };
    cr__lock(&n->lock);
    cr__extra *extra = cr__extra_of(n);
    if (extra) {
        old = extra->note;
        extra->note = *note;
    }
    cr__unlock(&n->lock);
    cr__collect_add(note->traverse);
    release_note(extra ? &old : note);
    return extra ? CR_OK : CR_ENOMEM;
}

void *cr_grad_node_kept(const cr_grad_node *n) { return n->extra ? n->extra->note.object : NULL; }

void **cr_grad_node_shown(cr_grad_node *n) { return &n->shown; }

static void release_hooks(cr_node_hook *hooks, size_t n) {
    for (size_t i = 0; i < n; i++) {
        cr__collect_drop(hooks[i].traverse);
        hooks[i].release(hooks[i].user);
    }
}

void cr__extra_free(cr_grad_node *n) {
    cr__extra *extra = n->extra;
    if (!extra) return;
    release_hooks(extra->before.at, extra->before.n);
    release_hooks(extra->after.at, extra->after.n);
    release_note(&extra->note);
    cr__packed_free(n);
    cr_vec_dispose(&extra->before);
    cr_vec_dispose(&extra->after);
    cr_free(extra);
}

/* ---- what only this tensor or node holds ---- */

#define VISIT(...)                                                                                                     \
    do {                                                                                                               \
        int stop_ = (__VA_ARGS__);                                                                                     \
        if (stop_) return stop_;                                                                                       \
    } while (0)

static int visit_hooks(const cr_grad_hook *hooks, size_t n, cr_visit *visit, void *arg) {
    for (size_t i = 0; i < n; i++)
        if (hooks[i].traverse) VISIT(hooks[i].traverse(hooks[i].user, visit, arg));
    return 0;
}

static int visit_node_hooks(const cr_node_hook *hooks, size_t n, cr_visit *visit, void *arg) {
    for (size_t i = 0; i < n; i++)
        if (hooks[i].traverse) VISIT(hooks[i].traverse(hooks[i].user, visit, arg));
    return 0;
}

static int visit_node(cr_grad_node *n, cr_visit *visit, void *arg) {
    if (n->table && n->table->traverse) VISIT(n->table->traverse(n->user, visit, arg));
    for (size_t i = 0; i < n->hooks.n; i++) VISIT(visit_hooks(&n->hooks.at[i].hook, 1, visit, arg));
    if (!n->extra) return 0;
    VISIT(visit_node_hooks(n->extra->before.at, n->extra->before.n, visit, arg));
    VISIT(visit_node_hooks(n->extra->after.at, n->extra->after.n, visit, arg));
    VISIT(cr__packed_traverse(n, visit, arg));
    const cr_node_note *note = &n->extra->note;
    return note->object && note->traverse ? note->traverse(note->object, visit, arg) : 0;
}

static bool is_only(const int64_t *refs) { return __atomic_load_n(refs, __ATOMIC_ACQUIRE) == 1; }
static bool is_held_once(const cr_grad_node *n) { return n->leaf ? cr_tensor_ends(n->leaf) == 1 : is_only(&n->refs); }

int cr_grad_node_traverse(cr_grad_node *n, cr_visit *visit, void *arg) {
    cr_grad_node *todo = n;
    if (!n || !__atomic_load_n(&cr__collectable, __ATOMIC_RELAXED) || !is_held_once(n)) return 0;
    n->next_dead = NULL;
    while ((n = todo)) {
        todo = n->next_dead;
        VISIT(visit_node(n, visit, arg));
        for (uint32_t i = 0; i < n->nslots; i++) {
            cr_grad_node *next = n->slots[i].edge.node;
            if (!next || !is_held_once(next)) continue;
            next->next_dead = todo;
            todo = next;
        }
    }
    return 0;
}

int cr_autograd_traverse(cr_tensor *t, cr_visit *visit, void *arg) {
    if (!__atomic_load_n(&cr__collectable, __ATOMIC_RELAXED)) return 0;
    for (; t && is_only(&t->refs); t = t->base) {
        cr__autograd *a = cr__autograd_get(t);
        VISIT(cr_grad_node_traverse(cr__fn(t), visit, arg));
        if (!a) continue;
        VISIT(visit_hooks(a->hooks.at, a->hooks.n, visit, arg));
        VISIT(visit_hooks(a->after.at, a->after.n, visit, arg));
        if (a->grad && is_only(&a->grad->refs)) VISIT(cr_grad_node_traverse(cr__fn(a->grad), visit, arg));
    }
    return 0;
}

void cr_autograd_clear(cr_tensor *t) {
    if ((!t->fn && !t->autograd) || !is_only(&t->refs)) return;
    t->meta.flags &= (uint8_t)~CR_META_REQUIRES_GRAD;
    cr_tensor_changed(t);
    cr__autograd_free(t);
}
