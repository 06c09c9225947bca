/* indexing.h: x[...] and x[...] = v as ops.
 *
 * The Python binding, capture and graph code hand over a list of index items; what comes out are calls of select,
 * slice, unsqueeze, index, index_put_, copy_ and fill_ through an emitter, in PyTorch's order. Nothing here knows
 * Python.
 *
 *     cr_index items[] = { cr_index_int(0), cr_index_slice(1, INT64_MAX, 2) };        -- x[0, 1::2]
 *     CR_TRY(cr_index_get(cr_exec_emitter(), &x, items, 2, &y)); */
#ifndef CR_INDEXING_H
#define CR_INDEXING_H

#include "ops/op.h"

typedef enum cr_index_kind {
    CR_INDEX_INT, CR_INDEX_SLICE, CR_INDEX_NEWAXIS, CR_INDEX_ELLIPSIS, CR_INDEX_BOOL, CR_INDEX_TENSOR
} cr_index_kind;
typedef struct cr_index {
    uint8_t kind;
    cr_dim start, stop, step; /* SLICE, as Python's; an open end is 0 or INT64_MAX. INT and BOOL: start is the value */
    cr_arg value; /* TENSOR: a tensor argument of the emitter; INT: when not NONE, the argument that stands for
                                 the number (a graph value) instead of `start` */
} cr_index;
static inline cr_index cr_index_int(cr_dim at) { return (cr_index){ .kind = CR_INDEX_INT, .start = at }; }
static inline cr_index cr_index_slice(cr_dim start, cr_dim stop, cr_dim step) {
    return (cr_index){ .kind = CR_INDEX_SLICE, .start = start, .stop = stop, .step = step };
}
static inline cr_index cr_index_newaxis(void) { return (cr_index){ .kind = CR_INDEX_NEWAXIS }; }
static inline cr_index cr_index_ellipsis(void) { return (cr_index){ .kind = CR_INDEX_ELLIPSIS }; }
static inline cr_index cr_index_bool(bool b) { return (cr_index){ .kind = CR_INDEX_BOOL, .start = b }; }
static inline cr_index cr_index_tensor(cr_arg tensor) { return (cr_index){ .kind = CR_INDEX_TENSOR, .value = tensor }; }

/* More items than any tensor has dimensions, newaxes included. */
enum { CR_MAX_INDEX = 64 };

/* x[items]. The result is the caller's (released through the emitter); it is always a new tensor, a view where it can
 * be. CR_EINDEX: a number out of range, too many items, a mask or index of the wrong shape or dtype. CR_EVALUE: a step
 * < 1. */
CR_NODISCARD cr_status cr_index_get(cr_emitter *e, const cr_arg *self, const cr_index *items, size_t n, cr_arg *result);
/* x[items] = value: a number or a tensor. CR_ERUNTIME when the value does not broadcast to the selected elements. */
CR_NODISCARD cr_status cr_index_set(cr_emitter *e, const cr_arg *self, const cr_index *items, size_t n,
                                    const cr_arg *value);

#endif
