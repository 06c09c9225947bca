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

/* ---- hooks ---- */
/* Sees the whole gradient of a tensor before it goes on; *out: another one to go on with (owned), NULL: the same. */
typedef struct cr_grad_hook {
    cr_status (*call)(void *user, cr_tensor *grad, cr_tensor **out);
    void (*release)(void *user); /* when the tensor or its node goes, or the hook is removed */
    void *user;
    uint64_t id;
} cr_grad_hook;
/* Adds the hook, in order of registration. Takes over `user`, also on failure. CR_ERUNTIME: the tensor requires no
 * grad. *node: where it is kept when the tensor is a result (owned), else NULL: with the tensor itself. */
CR_NODISCARD cr_status cr_autograd_hook(cr_tensor *t, const cr_grad_hook *hook, cr_grad_node **node);
/* Removes it from where cr_autograd_hook has put it; nothing when it is gone. */
void cr_autograd_unhook(cr_tensor *t, cr_grad_node *node, uint64_t id);

/* ---- nodes ---- */
void cr_grad_node_retain(cr_grad_node *n);
void cr_grad_node_release(cr_grad_node *n);
const cr_op *cr_grad_node_op(const cr_grad_node *n); /* NULL: it puts a leaf's gradient into place */
cr_tensor *cr_grad_node_leaf(const cr_grad_node *n); /* of such a node; borrowed */
uint32_t cr_grad_node_edges(const cr_grad_node *n); /* how many tensor arguments it had */
cr_grad_node *cr_grad_node_edge(const cr_grad_node *n, uint32_t i, uint32_t *result); /* borrowed; NULL: no gradient */

/* ---- the walk (engine.c) ---- */
typedef struct cr_backward {
    cr_tensor *const *roots;
    cr_tensor *const *grads; /* per root, NULL entries (or NULL): 1, which only a root of one element may have */
    size_t nroots;
    cr_tensor *const *inputs; /* NULL: every leaf; else only what leads to these is computed */
    size_t ninputs;
    cr_tensor **found; /* with `inputs`: their gradients, owned, NULL where nothing flows; NULL: they are added to
                        * the inputs' .grad instead */
    bool keep; /* saved values stay for another walk */
    bool graph; /* gradients are recorded, too (implies keep) */
} cr_backward;
/* CR_ERUNTIME with PyTorch's reasons: nothing requires grad, a graph that was walked, a saved value that was written,
 * sizes. CR_ENOTIMPL naming an op without a derivative. On failure *found is released. */
CR_NODISCARD cr_status cr_autograd_backward(const cr_backward *b);

#endif
