/* torch_weights.h: inputs of a graph on PyTorch's tensors that native code is made with (emit/frozen.h). */
#ifndef CR_PY_TORCH_WEIGHTS_H
#define CR_PY_TORCH_WEIGHTS_H

#include "python/torch_tensor.h"

#include "emit/tier.h"

typedef struct cr_torch_weights {
    cr_graph *graph; /* NULL: no input is a weight */
    cr_tier_ways ways;
    uint32_t n;      /* inputs */
    uint8_t *is;     /* of each input */
    PyObject *held;  /* tuple: what keeps the memory of those that were taken */
} cr_torch_weights;
/* `which`: a tuple of inputs' numbers. -1: exception. */
int cr_torch_weights_init(cr_torch_weights *w, cr_graph *graph, cr_tier_ways ways, PyObject *which);
void cr_torch_weights_dispose(cr_torch_weights *w);
/* Native code with the weights of these inputs as they are now: *tier, in the place of the one before. -1: exception.
 */
int cr_torch_weights_start(cr_torch_weights *w, PyObject *const *inputs, cr_tier **tier);
/* Is the tier's native code made with what the inputs are now? `values`: theirs. */
bool cr_torch_weights_hold(const cr_torch_weights *w, const cr_tier *tier, PyObject *const *inputs,
                           const cresset_value *values);

#endif
