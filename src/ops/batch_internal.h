/* batch_internal.h: what the files of batch*.c share. A rule fills b->made with the results on values and says by
 * b->dim where the examples are in them; one that does not serve the arguments sets b->unfit. */
#ifndef CR_BATCH_INTERNAL_H
#define CR_BATCH_INTERNAL_H

#include "ops/batch.h"
#include "ops/expand.h"

enum { CR__BATCH_RESULTS = 16 };
typedef struct cr__batch {
    const cr_vmap *v;
    const cr_op *op;    /* functional */
    const cr_arg *args; /* of one example */
    cr_rule rule;       /* of one example: what the results must be */
    cr_emitter exec;    /* of the environment that sizes are expressions of */
    cr__run run;        /* calls on values; the first failure ends it */
    cr_arena arena;
    cr_arg made[CR__BATCH_RESULTS]; /* the run's */
    int dim[CR__BATCH_RESULTS];
    bool unfit, refused; /* refused: sizes depend on data */
} cr__batch;
typedef void cr__batch_rule(cr__batch *b);

/* Is the tensor mapped at the level that the call is carried out for? */
static inline bool cr__is_mapped(const cr__batch *b, const cr_arg *a) {
    return a->kind == CR_ARG_TENSOR && a->u.t->mapped && a->u.t->level == b->v->id;
}
/* n arguments in the call's memory; on failure the run has failed, and the memory is not to be written to. */
cr_arg *cr__batch_list(cr__batch *b, size_t n);
/* A list of the number of examples (where `first` is set) and the sizes of one. */
cr_arg cr__batch_sizes(cr__batch *b, bool first, const cr_meta *m);
/* The number of examples, for what is done as often: an expression is taken for what it is in this call, which is
 * guarded. -1: the run has failed. */
int64_t cr__batch_count(cr__batch *b);
/* The value with the examples first; one that is not mapped as it is. */
cr_arg cr__batch_front(cr__batch *b, const cr_arg *a);
/* The value with the examples first, repeated where it is not mapped; with dimensions of one element behind them until
 * one example has `rank` of them. */
cr_arg cr__batch_each(cr__batch *b, const cr_arg *a, int rank);
/* The same where examples may be left out, because dimensions of one element are repeated anyway. */
cr_arg cr__batch_aligned(cr__batch *b, const cr_arg *a, int rank);
/* Runs the op (NULL: b->op) on these arguments into b->made, examples first in all results. */
void cr__batch_run(cr__batch *b, const cr_op *op, const cr_arg *args);

cr__batch_rule cr__batch_pointwise, cr__batch_dims, cr__batch_leading, cr__batch_first, cr__batch_fold,
    cr__batch_channels, cr__batch_product, cr__batch_strided, cr__batch_convolution, cr__batch_convolution_backward,
    cr__batch_index, cr__batch_index_put, cr__batch_embedding, cr__batch_embedding_backward;

#endif
