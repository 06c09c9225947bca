/* passes.h: graph passes. Each takes a graph it does not change and gives a new one over the same environment. What a size
 * had to be for a decision is in the environment's conditions afterwards. */
#ifndef CR_PASSES_H
#define CR_PASSES_H

#include "graph/graph.h"

/* Composite ops become the ops they consist of, down to those for which `stop` says true; regions that only mark their body
 * (set_grad_enabled, checkpoints) are inlined; subgraphs are decomposed, too. In-place and out forms of a composite op
 * become its functional form and a copy_. Names, origins and the order of placeholders and outputs stay. CR_EUNSUPPORTED
 * naming an op without a row. */
typedef bool cr_stop_fn(const cr_op *op, void *user);
CR_NODISCARD cr_status cr_pass_decompose(const cr_graph *g, cr_stop_fn *stop, void *user, cr_graph **out);
/* Stops at everything that a kernel, a pointwise text or a view computes: what runs without further ado. */
bool cr_stop_at_kernels(const cr_op *op, void *user);

#endif
