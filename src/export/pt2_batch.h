/* pt2_batch.h: torch.vmap inside an archive (pt2_batch.c). The reader tells what enters and leaves a vmap, and hands
 * over the calls whose arguments have batch dimensions. */
#ifndef CR_PT2_BATCH_H
#define CR_PT2_BATCH_H

#include "graph/graph.h"

enum { CR_BATCH_LEVELS = 16 };

typedef struct cr__batching {
    CR_VEC(uint32_t) levels;          /* value -> its levels, a bit each; values beyond the end have none */
    cr_dim size[CR_BATCH_LEVELS];
    bool different[CR_BATCH_LEVELS];  /* random numbers differ from example to example */
    int depth;                        /* levels around what is read now */
    cr_graph *graph;                  /* of the call being rewritten */
    cr_arg room[2 * CR_MAX_RANK];     /* a list that it makes */
} cr__batching;

void cr__batch_dispose(cr__batching *b);
/* The levels of an argument, lists included. */
uint32_t cr__batch_levels(const cr__batching *b, const cr_arg *a);
CR_NODISCARD cr_status cr__batch_mark(cr__batching *b, uint32_t value, uint32_t levels);
CR_NODISCARD cr_status cr__batch_enter(cr__batching *b, const cr_arg *size, const char *randomness);
CR_NODISCARD cr_status cr__batch_leave(cr__batching *b);
/* Would a random op inside draw for each example? */
bool cr__batch_draws_differently(const cr__batching *b);
/* x with the level's batch dimension moved in front of the example's; without it, at `dim`. */
CR_NODISCARD cr_status cr__batch_add(cr__batching *b, cr_graph *g, const cr_arg *x, int64_t dim, int64_t level,
                                     cr_arg *out);
CR_NODISCARD cr_status cr__batch_remove(cr__batching *b, cr_graph *g, const cr_arg *x, int64_t level,
                                        const cr_arg *size, int64_t dim, cr_arg *out, uint32_t *left);
/* The call for all examples at once. Results have the levels of all arguments together. */
CR_NODISCARD cr_status cr__batch_call(cr__batching *b, cr_graph *g, const cr_op *op, const cr_arg *args,
                                      cr_arg *results);

#endif
