/* walk.h: the state of a backward walk, shared by engine.c, which goes node by node, and segment.c, which takes many of
 * them at once as one graph. */
#ifndef CR_AUTOGRAD_WALK_H
#define CR_AUTOGRAD_WALK_H

#include "autograd/internal.h"

typedef struct cr__pending {
    cr_grad_node *node; /* retained */
    cr_tensor **grads; /* per tensor result; owned; NULL: none yet */
    uint64_t order;
    bool queued, needed;
    bool hooked; /* the hooks of its results have run */
    uint32_t member; /* of the segment that is being looked at, from 1 on; 0: none */
} cr__pending;
typedef struct cr__captured {
    cr__edge edge;
    cr_tensor *grad;
} cr__captured;
typedef struct cr__walk {
    const cr_backward *b;
    bool marks; /* places are written into the nodes; else they are in `index` */
    cr_map index; /* node -> place in `all` */
    cr_arena arena; /* of `grads` */
    CR_VEC(cr__pending) all;
    CR_VEC(size_t) heap; /* of places */
    cr__captured *captures; /* per input */
    uint64_t number;
    cr_grad_node *at; /* borrowed */
    cr_map reached; /* of cr_autograd_will_run: all nodes that a gradient may come to; empty until it is asked */
    struct cr__walk *outer; /* the one that this one runs inside of */
    struct cr_walk_graphs *graphs; /* NULL: node by node */
    struct cr_walk_graphs *held; /* the same, retained as long as the walk lasts */
    bool told; /* of this walk was said that it is captured */
} cr__walk;

CR_NODISCARD cr_status cr__walk_place(cr__walk *w, cr_grad_node *node, size_t *out); /* made when absent */
CR_NODISCARD cr_status cr__walk_push(cr__walk *w, size_t place); /* a gradient has come */
void cr__walk_drop(cr__walk *w); /* those that are no longer `queued` leave the heap */
bool cr__walk_wants(const cr__walk *w, const cr__edge *e);
/* What others see of a node that a gradient has come to, before it runs: results that retain it, and inputs. */
CR_NODISCARD cr_status cr__walk_show(cr__walk *w, const cr__pending *p);

/* One node: the gradients in the shape of the results, borrowed (`items` has room for all); what the derivative gave,
 * one for each tensor among the arguments, each with a reference. */
void cr__walk_shape(const cr_grad_node *n, cr_tensor *const *grads, const cr_arg *results, cr_arg *items, cr_arg *out);
void cr__walk_gather(const cr_grad_node *n, const cr_arg *args, cr_arg *made, cr_tensor **each);

/* Takes as many of the next nodes as can be one graph; *taken false: none, and nothing was done. (segment.c) */
CR_NODISCARD cr_status cr__segment_run(cr__walk *w, bool *taken);
/* Is it in the way only because of the hooks of its results? Once they have run, it is as good as any other. */
bool cr__segment_waits(const cr__pending *p);
void cr__segment_leave(cr__walk *w);
void cr__segment_choose(cr__walk *w); /* w->graphs: those of this thread, where the walk may use them */

#endif
