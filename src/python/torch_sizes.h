/* torch_sizes.h: sizes and strides that are expressions of a graph's symbols, computed from the inputs of a call, and
 * those that depend on data from its results. */
#ifndef CR_PY_TORCH_SIZES_H
#define CR_PY_TORCH_SIZES_H

#include "python/torch_tensor.h"

#include "graph/graph.h"

enum { CR_TORCH_ITSELF = -1 }; /* in place of a dimension: a number among the inputs */
/* symbol = (what input `input`, or that result, has there - shift) / scale */
typedef struct cr_torch_symbol {
    cr_sym symbol;
    uint32_t input;
    bool of_result;
    int dim;
    int64_t scale, shift;
} cr_torch_symbol;
/* The values of a call: its inputs, and what gives its results, of a run that has ended; NULL: nothing. */
typedef struct cr_torch_call {
    const cresset_value *inputs;
    bool (*result)(const void *user, uint32_t at, cresset_value *out); /* false: it is nothing that has numbers */
    const void *user;
} cr_torch_call;
typedef struct cr_torch_sizes {
    cr_env *env; /* owned; NULL: of a graph without symbols */
    CR_VEC(cr_torch_symbol) symbols;
} cr_torch_sizes;

int cr_torch_sizes_init(cr_torch_sizes *s, const cr_graph *g); /* -1: exception; dispose of it either way */
void cr_torch_sizes_dispose(cr_torch_sizes *s);
/* An int, or the text of an expression of symbols that inputs and results give. *expr NULL: it is *plain. -1:
 * exception, NotImplementedError for a symbol that they do not give. */
int cr_torch_size_read(const cr_torch_sizes *s, PyObject *o, cr_sym *expr, int64_t *plain);
/* -1: exception, where it leaves 64 bits. */
int cr_torch_size_compute(const cr_torch_sizes *s, const cr_torch_call *call, cr_sym expr, int64_t *out);

#endif
