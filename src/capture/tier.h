/* tier.h: native code for a captured graph, made while the interpreter of graphs already serves.
 *
 * A thread of its own lowers the graph, compiles it and loads it; from then on cr_tier_get gives it. The thread touches
 * no Python and nothing of the capture's: it gets the graph as text. */
#ifndef CR_TIER_H
#define CR_TIER_H

#include "cresset/compile.h"
#include "graph/graph.h"

typedef struct cr_tier cr_tier; /* refcounted (atomically): the entry's and the thread's */
CR_NODISCARD cr_status cr_tier_start(const cr_graph *g, cr_tier **out);
void cr_tier_release(cr_tier *t); /* NULL is legal; does not wait */
cr_native *cr_tier_get(const cr_tier *t); /* NULL: not yet, or never; borrowed */
/* It will not be used any more, for this reason: what it gives is not what the graph says. */
void cr_tier_drop(cr_tier *t, const char *reason);
void cr_tier_wait(cr_tier *t); /* until it is built or has failed */
/* "native", "building", or why there is none; the caller copies it. */
const char *cr_tier_state(const cr_tier *t);

#endif
