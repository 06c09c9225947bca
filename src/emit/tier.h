/* tier.h: native code for a graph, made while the interpreter of graphs already serves.
 *
 * A thread of its own lowers the graph, compiles it and loads it; from then on it runs. The thread touches no Python
 * and nothing that others hold: it gets the graph as text. */
#ifndef CR_TIER_H
#define CR_TIER_H

#include "cresset/compile.h"
#include "emit/frozen.h"

typedef struct cr_tier cr_tier; /* refcounted (atomically): the entry's and the thread's */
/* How code is made and run, as one word: 0: it is interpreted. Above these bits: the number of threads, 0 for all. */
typedef unsigned cr_tier_ways;
enum {
    CR_TIER_NATIVE = 1,
    CR_TIER_OWN = 2,   /* for processors like this one, not for any of its kind */
    CR_TIER_TUNE = 4,  /* the number of threads is found out by running it */
    CR_TIER_WAIT = 8,  /* whoever starts it waits until it is built */
    CR_TIER_FREEZE = 16, /* it is made with weights as they are */
    CR_TIER_THREADS_AT = 8
};
CR_NODISCARD cr_status cr_tier_start(const cr_graph *g, cr_tier_ways ways, cr_tier **out);
/* `weights`: one per input (frozen.h), with which it is made. *t becomes that; where it was made with others before,
 * and these keep changing, it becomes code that takes them as inputs. */
CR_NODISCARD cr_status cr_tier_freeze(cr_tier **t, const cr_graph *g, cr_tier_ways ways,
                                      const cr_frozen_input *weights, size_t n);
/* The weights that it was made with, which are then no inputs of its native code; NULL: none. Borrowed. */
const cr_frozen *cr_tier_frozen(const cr_tier *t);
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
/* With how many threads is the library of a graph quickest? It is run on zeros of the graph's sizes. 0: nobody can
 * say, as sizes are open, there is a loop or a branch, inputs are no tensors, or it fails on those. (tune.c) */
int cr_native_tune(const cr_graph *g, cr_library *library);
/* "native" (with the number of threads, where that was chosen; with frozen weights), "building", or why there is none;
 * the caller copies it. */
const char *cr_tier_state(const cr_tier *t);

#endif
