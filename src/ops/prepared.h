/* prepared.h: a pointwise call that is made again and again on arguments of the same metas, its rule run once.
 *
 * What a rule decides follows from the op, the metas, the numbers and the default dtype. Who has made sure that these
 * are what they were, and that nobody records, maps, casts or watches, needs no more than memory for the result and the
 * program that fills it. */
#ifndef CR_PREPARED_H
#define CR_PREPARED_H

#include "ops/op.h"

typedef struct cr_prepared {
    const cr_op *op;    /* NULL: the call is none of these */
    int common;         /* dtype that inputs are cast to */
    int default_dtype;  /* of the process, when it was prepared */
    cr_meta result;
} cr_prepared;
/* `args`: metas or tensors in tensor parameters (numbers there: 0-d tensors, CR_META_WRAPPED), all sizes plain. Leaves
 * out->op NULL where the op has no pointwise text or the call would fail. */
void cr_prepare(const cr_op *op, const cr_arg *args, cr_prepared *out);
static inline bool cr_is_prepared(const cr_prepared *p) { return p->op && p->default_dtype == cr_default_dtype(); }
/* On tensors of the metas that it was prepared for. */
CR_NODISCARD cr_status cr_prepared_run(const cr_prepared *p, const cr_arg *args, cr_arg *result);

#endif
