/* internal.h: nodes and what tensors carry, shared by the files of src/autograd. */
#ifndef CR_AUTOGRAD_INTERNAL_H
#define CR_AUTOGRAD_INTERNAL_H

#include "autograd/autograd.h"
#include "ops/formula.h"

enum { CR__MAX_RESULTS = 16 }; /* of an op */
typedef cr_grad_edge cr__edge; /* node NULL: no gradient is wanted */
/* A tensor argument or result of the call: where its gradient goes (arguments), and what is kept of it. */
typedef struct cr__slot {
    cr__edge edge;
    uint64_t version;
    uint32_t shape; /* where in the node's block, in words; 0: there is a tensor */
    bool kept;
    bool packed; /* hooks have it (extra->packed); here is a fake with its meta */
} cr__slot;
/* The meta of a tensor that is not kept. Most derivatives never ask for it: it becomes a fake when one does. */
typedef struct cr__shape {
    uint8_t dtype, rank, flags;
    cr_device device;
    cr_dim offset;
    cr_dim dims[]; /* sizes, then strides */
} cr__shape;
typedef struct cr__node_hook {
    uint32_t result;
    cr_grad_hook hook;
} cr__node_hook;
typedef struct cr__keeper {
    uint32_t result;
    cr_tensor *tensor;
} cr__keeper; /* weak: a result that retains its grad */

typedef struct cr__packed cr__packed;
/* What few nodes have. */
typedef struct cr__extra {
    CR_VEC(cr_node_hook) before, after;
    cr_node_note note;
    cr__packed **packed; /* per argument and result slot; NULL entries: not kept, or kept here */
} cr__extra;

struct cr_grad_node {
    int64_t refs; /* atomic */
    const cr_op *op; /* NULL: the sink of a leaf, or a function */
    const cr_node_vtable *table; /* of a function: args and results are fakes with the metas of its tensors, results a
                                  * block of their own */
    void *user;
    uint32_t bytes; /* of its block */
    bool holds; /* tensors, lists, texts or such of its own, among arguments and results */
    uint64_t order; /* later nodes have more; 0: sinks, whose place among the others is each walk's (engine.c) */
    int lock; /* atomic: of hooks, keepers and what is saved */
    uint16_t nargs, nresults;
    uint32_t nslots, nouts; /* tensors among the arguments and among the results, lists opened */
    bool walked; /* what was saved is gone */
    bool underived; /* there is no derivative: a walk that comes here fails */
    bool special; /* atomic: it has hooks, keepers or an `extra`, or has had some */
    uint64_t borrowed; /* a bit per argument that is a leaf and held by its sink, so not once more */
    uint16_t singles; /* a bit per result that is one tensor ... */
    uint16_t read_metas; /* ... and per such one whose meta the derivative reads */
    cr_arg *args, *results; /* as cr_grad_expand wants them: aliases of what is kept, else tensors that are NULL and
                             * have a shape. All this follows the node, in its block */
    cr__slot *slots, *outs;
    cr_tensor *leaf; /* of a sink, which the leaf owns; whoever holds the sink holds the leaf (cr_tensor_retain_end) */
    CR_VEC(cr__node_hook) hooks;
    CR_VEC(cr__keeper) keepers;
    cr__extra *extra; /* under `lock` where several threads may look */
    void *shown; /* borrowed: the front end's object */
    cr_grad_node *next_dead; /* while freed or traversed */
    uint64_t walk, place; /* of the walk that marks nodes (engine.c), and of no other */
};

/* cr_tensor.autograd; NULL for most tensors. All of it, and the tensor's node, are under the tensor's lock. */
typedef struct cr__autograd {
    cr_tensor *grad;
    cr_grad_node *sink; /* atomic pointer, made once; owned */
    bool retains;
    CR_VEC(cr_grad_hook) hooks, after; /* of a leaf */
} cr__autograd;

void cr__lock(int *lock);
void cr__unlock(int *lock);
cr__autograd *cr__autograd_of(cr_tensor *t); /* made when absent; NULL: out of memory */
static inline cr__autograd *cr__autograd_get(const cr_tensor *t) { return t->autograd; }
static inline cr_grad_node *cr__fn(const cr_tensor *t) { return t->fn; }
/* The tensor is this result from now on; takes over the reference to the node. */
cr_status cr__autograd_set_fn(cr_tensor *t, cr_grad_node *fn, uint32_t result);
static inline void cr__require_grad(cr_tensor *t) {
    if (t->meta.flags & CR_META_REQUIRES_GRAD) return;
    t->meta.flags |= CR_META_REQUIRES_GRAD;
    cr_tensor_changed(t);
}
static inline void cr__node_retain(cr_grad_node *n) {
    if (n->leaf) cr_tensor_retain_end(n->leaf);
    else __atomic_add_fetch(&n->refs, 1, __ATOMIC_RELAXED);
}
/* Where a gradient of the tensor goes; the node is owned. node NULL: it requires none. */
CR_NODISCARD cr_status cr__edge_make(cr_tensor *t, cr__edge *out);
CR_NODISCARD static inline cr_status cr__edge_of(cr_tensor *t, cr__edge *out) {
    *out = (cr__edge){ NULL, 0 };
    if (t->base) return cr__edge_make(t, out);
    if (!(t->meta.flags & CR_META_REQUIRES_GRAD)) return CR_OK;
    cr__autograd *a = t->fn ? NULL : __atomic_load_n(&t->autograd, __ATOMIC_ACQUIRE);
    cr_grad_node *node = a ? __atomic_load_n(&a->sink, __ATOMIC_ACQUIRE) : t->fn;
    if (!node) return cr__edge_make(t, out);
    cr__node_retain(node);
    *out = (cr__edge){ node, a ? 0 : t->result };
    return CR_OK;
}
/* A node for a call that was made, or could have been: nothing runs. What the derivative reads is kept, of everything
 * else the meta. `before`, where not NULL, is the first argument as it was before the call wrote to it. Edges come from
 * the arguments. */
CR_NODISCARD cr_status cr__node_create(const cr_op *op, const cr_arg *args, const cr_arg *results,
                                       const cr_saved *saved, cr_tensor *before, cr_grad_node **out);
/* A block of that many bytes, the fixed ones zero. NULL: out of memory. */
static inline cr_grad_node *cr__node_alloc(size_t fixed, size_t bytes) {
    cr_grad_node *n = bytes <= UINT32_MAX ? cr_small_alloc(bytes) : NULL;
    if (!n) return NULL;
    memset(n, 0, fixed);
    n->bytes = (uint32_t)bytes;
    return n;
}
/* CR_ERUNTIME: made in inference mode. */
CR_NODISCARD cr_status cr__check_saved(const cr_tensor *t);
/* The order of a node with these edges: after all nodes that they lead to, and after all that this thread has made.
 * Between two there is room for the sinks of a node. */
#define CR__ORDER_BITS 16
uint64_t cr__node_order(const cr__slot *slots, uint32_t n);
/* Has a leaf ever had a hook? Only then can be seen when it gets its gradient. Atomic. */
extern bool cr__leaf_hooks;
/* A fake with the tensor's meta; with that of a slot's shape. */
CR_NODISCARD cr_status cr__shape_of(const cr_tensor *t, cr_tensor **out);
CR_NODISCARD cr_status cr__shape_open(const cr_grad_node *n, const cr__slot *slot, cr_tensor **out);
/* The view became the result of `node`: its root is another tensor now, and the view is read off it when asked next. */
CR_NODISCARD cr_status cr__attach_view(cr_tensor *v, cr_grad_node *node);
/* The gradients of a function's inputs, each fitted to its input; owned. */
CR_NODISCARD cr_status cr__function_call(cr_grad_node *n, cr_tensor *const *grads, cr_tensor **out);
void cr__extra_free(cr_grad_node *n);
cr__extra *cr__extra_of(cr_grad_node *n); /* made when absent; NULL: out of memory */

/* ---- anomaly.c ---- */
extern int cr__anomaly_on; /* atomic */
CR_NODISCARD cr_status cr__anomaly_made(cr_grad_node *n);
/* After the node's derivative, which ended with `status`: another one where it made NaNs. */
CR_NODISCARD cr_status cr__anomaly_check(cr_grad_node *n, cr_status status, cr_tensor *const *made);

/* ---- saved values (saved.c) ---- */
/* The hooks get what the new node keeps of the call. written: over its first argument. */
CR_NODISCARD cr_status cr__saved_pack(const struct cr_saved_hooks *hooks, cr_grad_node *n, const cr_arg *args,
                                      const cr_arg *results, bool written);
bool cr__keeps_something(const cr_grad_node *n);
/* Arguments and results as the derivative reads them, owned as cr_results_release wants it, also on failure. graph:
 * with their histories. forget: the node gives up its own; *lent: arguments (a bit each) that still are the node's.
 * CR_ERUNTIME: it has, or one was written since. */
CR_NODISCARD cr_status cr__saved_open(cr_grad_node *n, bool graph, bool forget, cr_arg *args, uint64_t *lent,
                                      cr_arg *results);
/* The derivative does not look at that result, not even at its meta: it is opened as none. */
bool cr__saved_is_unread(const cr_grad_node *n, uint16_t result);
/* Forgets what somebody else holds: bits of `mask`. */
static inline void cr__args_drop(cr_arg *args, uint64_t mask) {
    for (; mask; mask &= mask - 1) args[__builtin_ctzll(mask)] = cr_arg_none();
}
void cr__packed_free(cr_grad_node *n);
int cr__packed_traverse(const cr_grad_node *n, cr_visit *visit, void *arg);
const char *cr__node_name(const cr_grad_node *n); /* for messages */
extern int64_t cr__collectable; /* atomic: hooks, functions and notes that a collector could find a cycle through */
static inline void cr__collect_add(bool some) {
    if (some) __atomic_add_fetch(&cr__collectable, 1, __ATOMIC_RELAXED);
}
static inline void cr__collect_drop(bool some) {
    if (some) __atomic_sub_fetch(&cr__collectable, 1, __ATOMIC_RELAXED);
}
/* The tensors that it holds of the call go; edges, hooks and all other arguments stay. */
void cr__node_forget(cr_grad_node *n);
/* views.c. A node that reads view `v` off its root, and one that is the root after `v` became the result of
 * `written`. */
CR_NODISCARD cr_status cr__node_of_view(cr_tensor *v, cr_grad_node **out);
CR_NODISCARD cr_status cr__node_of_root(cr_tensor *v, cr_grad_node *written, cr_grad_node **out);
/* May the view be written to, or be asked for its history after its root was (since)? CR_ERUNTIME: not as it was made.
 */
CR_NODISCARD cr_status cr__check_view(const char *op, const cr_tensor *v, bool since);
/* What else eager code says of writes, for programs that are compiled: to a leaf or a view of one, and of sizes. */
CR_NODISCARD cr_status cr__refuse_leaf(const cr_op *op, bool view);
CR_NODISCARD cr_status cr__refuse_resize(const cr_op *op);
CR_NODISCARD cr_status cr__refuse_out(const cr_op *op);
bool cr__is_set(const cr_op *op);
/* The same of what is known of a view, CR_VIEW_*. */
CR_NODISCARD cr_status cr__refuse_view(const char *op, uint8_t view, bool since);
/* Frees what the tensor carries. */
void cr__autograd_free(cr_tensor *t);
uint32_t cr__count_tensors(const cr_arg *args, size_t n);
/* mapped.c. The innermost vmap that maps a root or an input of the walk, NULL: none; and the walk between values. */
struct cr_vmap;
const struct cr_vmap *cr__backward_level(const cr_backward *b);
CR_NODISCARD cr_status cr__backward_mapped(const struct cr_vmap *v, const cr_backward *b);

#endif
