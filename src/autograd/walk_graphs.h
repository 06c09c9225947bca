/* walk_graphs.h: walks back that are captured while they run, and compiled (compiled autograd).
 *
 *     CR_TRY(cr_walk_graphs_create(&table, user, true, 8, &graphs));
 *     before = cr_walk_graphs_use(graphs);               -- this thread's walks, from here on
 *     ... cr_autograd_backward ...
 *     cr_walk_graphs_use(before);
 *
 * A walk is cut at what only Python can say (hooks, functions with a backward of their own, saved values that hooks
 * have put elsewhere) and at leaves with hooks. What lies between is a *segment*: its derivatives, the sums of
 * gradients and the backward parts of compiled programs are recorded on fakes, in the order in which the walk would
 * come to them, and become one graph: (numbers, gradients that have come, saved tensors) -> gradients that go on. A
 * graph is found again by everything it was recorded from: ops, constants, edges, which gradients have come, dtypes,
 * sizes and strides; sizes that differ between two walks become symbols. Saved values are opened, checked and
 * forgotten as ever, and leaves are filled node by node. Walks that record gradients, look for anomalies, run under
 * vmap or are recorded themselves go node by node. */
#ifndef CR_WALK_GRAPHS_H
#define CR_WALK_GRAPHS_H

#include "autograd/aot.h"

typedef struct cr_walk_graphs cr_walk_graphs; /* refcounted (atomically); any number of threads may use one */
typedef struct cr_walk_table {
    /* inputs: an example, borrowed. */
    cr_status (*compile)(void *user, cr_graph *g, const cr_arg *inputs, size_t n, cr_aot_code *out);
    void (*captured)(void *user);               /* a walk has met a segment that is new; once a walk. May be NULL */
    void (*plain)(void *user, const char *why); /* a walk goes on node by node. May be NULL */
    void (*release)(void *user);
} cr_walk_table;
/* limit: graphs of one structure with other sizes. dynamic: sizes that changed become symbols. Takes over `user`, also
 * on failure. */
CR_NODISCARD cr_status cr_walk_graphs_create(const cr_walk_table *table, void *user, bool dynamic, uint32_t limit,
                                             cr_walk_graphs **out);
void cr_walk_graphs_retain(cr_walk_graphs *g);
void cr_walk_graphs_release(cr_walk_graphs *g); /* NULL is legal */
void cr_walk_graphs_forget(cr_walk_graphs *g);  /* all that was compiled */
/* Of this thread from now on; takes the reference over. NULL: none. What it was before, owned. */
cr_walk_graphs *cr_walk_graphs_use(cr_walk_graphs *g);

#endif
