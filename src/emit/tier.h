/* tier.h: native code for a graph, made while the interpreter of graphs already serves.
 *
 * A thread of its own lowers the graph, compiles it and loads it; from then on it runs. The thread touches no Python
 * and nothing that others hold: it gets the graph as text. */
#ifndef CR_TIER_H
#define CR_TIER_H

#include "cresset/compile.h"
#include "graph/graph.h"

typedef struct cr_tier cr_tier; /* refcounted (atomically): the entry's and the thread's */
CR_NODISCARD cr_status cr_tier_start(const cr_graph *g, cr_tier **out);
void cr_tier_retain(cr_tier *t);
void cr_tier_release(cr_tier *t); /* NULL is legal; does not wait */
/* Does the graph draw random numbers? Native code has a generator of its own, whose state must then be put in and out
 * (emit.h): cr_tier_run does not. */
bool cr_tier_draws(const cr_graph *g);
/* Runs the graph: native code if it is there, else (and where that lays its results out otherwise: then for good) the
 * plan. `t` NULL: the plan. As cr_plan_run. */
CR_NODISCARD cr_status cr_tier_run(cr_tier *t, const cr_graph *g, cr_plan *plan, const cr_arg *inputs, size_t n,
                                   cr_arg *results, size_t nresults);
cr_native *cr_tier_get(const cr_tier *t); /* NULL: not yet, or never; borrowed */
void cr_tier_wait(cr_tier *t); /* until it is built or has failed */
/* "native", "building", or why there is none; the caller copies it. */
const char *cr_tier_state(const cr_tier *t);

#endif
