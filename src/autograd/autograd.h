/* autograd.h: the eager tape: tensors remember the call that made them, and a backward walk turns gradients of results
 * into gradients of arguments.
 *
 *     CR_TRY(cr_autograd_init());                                    -- once: cr_call records from here on
 *     CR_TRY(cr_autograd_require(x, true));
 *     ... y = f(x) with grad mode on (cr_ambient.grad) ...
 *     CR_TRY(cr_autograd_backward(&(cr_backward){ .roots = &y, .nroots = 1 }));
 *     cr_autograd_grad(x)                                            -- d y / d x
 *
 * A *node* is one call: its op, what its derivative reads (by the formula, never more), and an edge per tensor argument
 * to the node that made it. Derivatives are the op table's .grad texts (cr_grad_expand); an op without one is recorded
 * as the calls of its decomposition. A saved value remembers its version: a walk that finds another fails, naming op
 * and versions. A view has no node of its own once its root was written to: it is read off the root again when next
 * asked (edge_of).
 *
 * Nodes are refcounted and hold no tensor that holds them: an argument is saved as an alias, a result likewise. Whoever
 * uses a node was recorded after it, so `order` sorts any walk. Nothing recurses, not even freeing a chain of nodes.
 * Threads: tensors and nodes may be shared by walks on several threads; a walk runs on the thread that asks for it. */
#ifndef CR_AUTOGRAD_H
#define CR_AUTOGRAD_H

#include "ops/op.h"

typedef struct cr_grad_node cr_grad_node;

/* Makes cr_call record what requires grad. Once for the process; a second time does nothing. */
CR_NODISCARD cr_status cr_autograd_init(void);

/* ---- what a tensor knows ---- */
/* Of a leaf: its flag. CR_ERUNTIME for other dtypes than floating and complex ones, and to take it off a result. */
CR_NODISCARD cr_status cr_autograd_require(cr_tensor *t, bool required);
/* Is it no result of a recorded call? */
bool cr_autograd_is_leaf(cr_tensor *t);
/* The node that made it, owned; NULL for a leaf. *result: which of its results it is. CR_ENOMEM and such: see status.
 */
CR_NODISCARD cr_status cr_autograd_fn(cr_tensor *t, cr_grad_node **node, uint32_t *result);
cr_tensor *cr_autograd_grad(const cr_tensor *t); /* borrowed; NULL: none */
/* Takes over `grad` (NULL: none). CR_ERUNTIME: another shape, dtype or device. */
CR_NODISCARD cr_status cr_autograd_set_grad(cr_tensor *t, cr_tensor *grad);
/* A result keeps its gradient, too. CR_ERUNTIME: it requires none. */
CR_NODISCARD cr_status cr_autograd_retain_grad(cr_tensor *t);
bool cr_autograd_retains_grad(const cr_tensor *t);

/* Objects of a language with a garbage collector, as its traversal meets them (cr_autograd_traverse). Not 0: stop. */
typedef int cr_visit(void *object, void *arg);

/* ---- hooks ---- */
/* Sees the whole gradient of a tensor before it goes on; *out: another one to go on with (owned), NULL: the same. */
typedef struct cr_grad_hook {
    cr_status (*call)(void *user, cr_tensor *grad, cr_tensor **out);
    void (*release)(void *user); /* when the tensor or its node goes, or the hook is removed */
    void *user;
    uint64_t id; /* not 0, and larger than those of hooks that were registered before */
    int (*traverse)(void *user, cr_visit *visit, void *arg); /* what `user` holds; NULL: nothing to collect */
} cr_grad_hook;
/* Adds the hook, in order of registration. Takes over `user`, also on failure. CR_ERUNTIME: the tensor requires no
 * grad. *node: where it is kept when the tensor is a result (owned), else NULL: with the tensor itself. */
CR_NODISCARD cr_status cr_autograd_hook(cr_tensor *t, const cr_grad_hook *hook, cr_grad_node **node);
/* The same for a leaf whose .grad was just added to: `grad` is the leaf, *out stays NULL. CR_ERUNTIME: it is none. */
CR_NODISCARD cr_status cr_autograd_hook_after(cr_tensor *leaf, const cr_grad_hook *hook);
/* Removes it from where one of the functions here has put it; nothing when it is gone. */
void cr_autograd_unhook(cr_tensor *t, cr_grad_node *node, uint64_t id);
/* Sees a whole node: all gradients that have arrived (per result), before it runs (made NULL) or after it (made: what
 * goes on, per argument). NULL entries: no gradient. It may exchange entries of `made`, before the node runs those of
 * `grads`; whoever puts one there hands a reference over. */
typedef struct cr_node_hook {
    cr_status (*call)(void *user, cr_tensor **made, uint32_t nmade, cr_tensor **grads, uint32_t ngrads);
    void (*release)(void *user);
    void *user;
    uint64_t id;
    int (*traverse)(void *user, cr_visit *visit, void *arg);
} cr_node_hook;
/* Takes over `user`, also on failure. */
CR_NODISCARD cr_status cr_grad_node_hook(cr_grad_node *n, bool before, const cr_node_hook *hook);

/* ---- nodes ---- */
/* A result of a node: where a gradient enters it. */
typedef struct cr_grad_edge { cr_grad_node *node; uint32_t result; } cr_grad_edge;
/* Where the gradient of a tensor goes: its node, or the one that fills a leaf's .grad; owned. node NULL: it requires
 * none. */
CR_NODISCARD cr_status cr_autograd_edge(cr_tensor *t, cr_grad_edge *out);
void cr_grad_node_retain(cr_grad_node *n);
void cr_grad_node_release(cr_grad_node *n);
const cr_op *cr_grad_node_op(const cr_grad_node *n); /* NULL: it puts a leaf's gradient into place, or is a function */
void cr_grad_node_name(const cr_grad_node *n, cr_str *out); /* "MulBackward0", "AccumulateGrad", a function's own */
uint32_t cr_grad_node_results(const cr_grad_node *n); /* how many tensor results */
uint64_t cr_grad_node_order(const cr_grad_node *n); /* later ones have more; UINT64_MAX: of a leaf */
/* Two words for the front end: the object that shows the node (borrowed), and one that the node owns. */
void **cr_grad_node_shown(cr_grad_node *n);
typedef struct cr_node_note {
    void *object;
    void (*release)(void *object);
    int (*traverse)(void *object, cr_visit *visit, void *arg);
} cr_node_note;
/* Keeps the object with the node, in place of the one before. Takes it over, also on failure. */
CR_NODISCARD cr_status cr_grad_node_keep(cr_grad_node *n, const cr_node_note *note);
void *cr_grad_node_kept(const cr_grad_node *n); /* the object; borrowed; NULL: none */
cr_tensor *cr_grad_node_leaf(const cr_grad_node *n); /* of such a node; borrowed */
uint32_t cr_grad_node_edges(const cr_grad_node *n); /* how many tensor arguments it had */
cr_grad_node *cr_grad_node_edge(const cr_grad_node *n, uint32_t i, uint32_t *result); /* borrowed; NULL: no gradient */

/* What an op's node keeps of its parameter, or of "result", "result1": as the derivative reads it, owned as
 * cr_results_release wants it (a text: the node's). CR_ENOTFOUND: nothing of that name; CR_ERUNTIME as a walk says. */
CR_NODISCARD cr_status cr_grad_node_saved(cr_grad_node *n, const char *name, cr_arg *out);

/* ---- saved values elsewhere ---- */
/* While cr_ambient.saved is set, every tensor that a node would keep goes through pack(), and comes back by unpack()
 * when the derivative reads it. Nothing is checked against writes then. */
typedef struct cr_saved_table {
    cr_status (*pack)(void *user, cr_tensor *t, void **packed); /* grad mode is off */
    cr_status (*unpack)(void *packed, cr_tensor **out); /* owned */
    void (*release)(void *packed);
    int (*traverse)(void *packed, cr_visit *visit, void *arg);
} cr_saved_table;
typedef struct cr_saved_hooks {
    const cr_saved_table *table;
    void *user;
    struct cr_saved_hooks *outer; /* the front end's: the ones that are in force again afterwards */
} cr_saved_hooks;

/* Does the tensor depend on a leaf by another way than through these nodes? */
CR_NODISCARD cr_status cr_autograd_depends(cr_tensor *t, cr_grad_node *const *nodes, size_t n, bool *yes);

/* ---- functions with a backward of their own (function.c) ---- */
/*     CR_TRY(cr_autograd_function(&table, user, inputs, 2, &node));       -- before it runs: where gradients go
 *     ... y = f(inputs) with grad mode off ...
 *     CR_TRY(cr_autograd_results(node, 1));
 *     CR_TRY(cr_autograd_result(node, 0, y, false));                      -- y is result 0 of the node */
typedef struct cr_node_vtable {
    const char *(*name)(const void *user);
    /* grads: per result, NULL where none has arrived. out: per input, owned; NULL: no gradient. Grad mode is on where a
     * graph of the gradients is asked for. Shapes and dtypes of what comes out are checked afterwards. */
    cr_status (*call)(void *user, cr_tensor *const *grads, cr_tensor **out);
    void (*forget)(void *user); /* what it saved may go: it was walked, and no graph is kept; NULL: nothing to do */
    void (*release)(void *user); /* with the node */
    int (*traverse)(void *user, cr_visit *visit, void *arg); /* NULL: nothing to collect */
} cr_node_vtable;
/* *out: a node with an edge per input; NULL when nothing is recorded (grad mode off, no input requires grad), and
 * `user` is the caller's then. Else the node owns `user`; on failure the caller keeps it. */
CR_NODISCARD cr_status cr_autograd_function(const cr_node_vtable *table, void *user, cr_tensor *const *inputs,
                                            uint32_t n, cr_grad_node **out);
CR_NODISCARD cr_status cr_autograd_results(cr_grad_node *n, uint32_t count); /* once: how many there are */
/* The tensor is that result from now on. written: it is an input that the function wrote to. CR_ERUNTIME: a leaf that
 * requires grad, or one of several results written through a view. */
CR_NODISCARD cr_status cr_autograd_result(cr_grad_node *n, uint32_t result, cr_tensor *t, bool written);
const cr_node_vtable *cr_grad_node_table(const cr_grad_node *n, void **user); /* NULL: no function */

/* The same memory and version count with that history: a saved tensor as a derivative sees it. */
CR_NODISCARD cr_status cr_autograd_alias(cr_tensor *t, cr_grad_edge history, cr_tensor **out);

/* ---- looking for errors (anomaly.c) ---- */
typedef struct cr_anomaly {
    bool check_nan; /* a derivative that makes NaNs fails */
    cr_status (*made)(cr_grad_node *n); /* just now, on this thread */
    void (*failed)(cr_grad_node *n); /* the walk is at it and about to give up */
} cr_anomaly;
void cr_autograd_set_anomaly(const cr_anomaly *a); /* for the process; NULL: off */
bool cr_autograd_anomaly(cr_anomaly *out); /* is it on? */

/* ---- garbage collection ---- */
/* What a tensor, or a node, alone holds: objects behind hooks, functions and notes of nodes that nobody else holds, and
 * so on along their edges. For collectors that find cycles by counting references; with nothing to find it costs one
 * load. Nothing recurses, nothing is allocated. */
int cr_autograd_traverse(cr_tensor *t, cr_visit *visit, void *arg);
int cr_grad_node_traverse(cr_grad_node *n, cr_visit *visit, void *arg);
/* Breaks the cycle: a tensor that only its object holds gives up node, gradient and hooks. */
void cr_autograd_clear(cr_tensor *t);

/* ---- the walk (engine.c) ---- */
typedef struct cr_backward {
    cr_tensor *const *roots; /* NULL entries: the one of `from` */
    const cr_grad_edge *from; /* per root; NULL: all are tensors */
    cr_tensor *const *grads; /* per root, NULL entries (or NULL): 1, which only a root of one element may have */
    size_t nroots;
    cr_tensor *const *inputs; /* NULL: every leaf; else only what leads to these is computed. NULL entries: of `to` */
    const cr_grad_edge *to; /* per input; NULL: all are tensors */
    size_t ninputs;
    cr_tensor **found; /* with `inputs`: their gradients, owned, NULL where nothing flows; NULL: they are added to
                        * the inputs' .grad instead */
    bool keep; /* saved values stay for another walk */
    bool graph; /* gradients are recorded, too (implies keep) */
} cr_backward;
/* CR_ERUNTIME with PyTorch's reasons: nothing requires grad, a graph that was walked, a saved value that was written,
 * sizes. CR_ENOTIMPL naming an op without a derivative. On failure *found is released. */
CR_NODISCARD cr_status cr_autograd_backward(const cr_backward *b);
/* Of the walk that runs on this thread: its number in the process, and the node it is at (borrowed). 0, NULL: none. */
uint64_t cr_autograd_walk(void);
cr_grad_node *cr_autograd_at(void);
bool cr_autograd_walk_has_inputs(void); /* is it asked for some gradients alone? */
/* Will that walk come to the node, or has it been there? */
CR_NODISCARD cr_status cr_autograd_will_run(cr_grad_node *n, bool *yes);

#endif
