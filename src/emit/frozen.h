/* frozen.h: weights as they were when native code was made of a graph: the copies that it is made with, and what tells
 * whether the weights are still the same.
 *
 * What shows that a weight is another: its address, dtype, sizes or strides, its version count. Writes that leave no
 * such trace (p.data.add_(), NumPy, fused optimizers) are looked for in samples of its memory: all of a small weight,
 * 32 words spread over a large one. Who freezes promises not to write single elements of large weights that way. */
#ifndef CR_FROZEN_H
#define CR_FROZEN_H

#include "cresset/abi.h"
#include "graph/graph.h"

typedef struct cr_frozen_input {
    cresset_value value; /* kind CRESSET_NONE: the input is none */
    uint64_t version;
    cr_storage *storage; /* held meanwhile, so that its memory is not given to others; NULL: the caller sees to it */
} cr_frozen_input;

typedef struct cr_frozen cr_frozen;
/* One weight for each input of the graph; those of open sizes stay inputs. *out NULL: none is left. */
CR_NODISCARD cr_status cr_frozen_take(const cr_graph *g, const cr_frozen_input *weights, size_t n, cr_frozen **out);
void cr_frozen_release(cr_frozen *f); /* NULL is legal */
bool cr_frozen_has(const cr_frozen *f, size_t input);
/* Is it what was taken? */
bool cr_frozen_holds(const cr_frozen *f, size_t input, const cresset_value *now, uint64_t version);
/* The graph with constants in the place of its weights; afterwards the copies are the constants' alone. */
CR_NODISCARD cr_status cr_frozen_apply(cr_frozen *f, const cr_graph *g, cr_graph **out);
/* Inputs of `bytes` each, without the weights: how many. */
size_t cr_frozen_leave(const cr_frozen *f, const void *inputs, size_t bytes, void *others);

#endif
