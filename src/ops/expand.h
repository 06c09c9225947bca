/* expand.h: decompositions in C as a run of calls.
 *
 * The first failure ends a run: later calls do nothing, so code reads like the formula it stands for. Results of calls
 * belong to the run until it ends.
 *
 *     cr__run r = { .e = e };
 *     cr_arg y = CR_RUN(&r, "mul.Tensor", x, CR_RUN(&r, "sigmoid", x));
 *     return cr__run_finish(&r, 1, &y, results); */
#ifndef CR_EXPAND_H
#define CR_EXPAND_H

#include "ops/formula.h"

typedef struct cr__run {
    cr_emitter *e;
    cr_status status;
    CR_VEC(cr_arg) made;
} cr__run;

/* Calls an op by its full name; arguments after the given ones take their defaults. The results, one per return, are
 * valid until the next call; their values live as long as the run. */
const cr_arg *cr__run_call(cr__run *r, const char *name, int n, const cr_arg *given);
/* The first result of an aten op. */
#define CR_RUN(r, name, ...) \
    (*cr__run_call((r), "aten::" name, (int)CR_COUNT(((cr_arg[]){ __VA_ARGS__ })), (cr_arg[]){ __VA_ARGS__ }))
/* Gives back what was made since there were `mark` values, but for those in `kept`. */
void cr__run_trim(cr__run *r, size_t mark, int nkept, const cr_arg *kept);
/* Ends the run: these values become the caller's, all others are given back. A value that is no result of the run (an
 * argument handed through) is passed through aten::alias first. */
CR_NODISCARD cr_status cr__run_finish(cr__run *r, int n, const cr_arg *values, cr_arg *results);
/* The meta of a tensor; an empty one once the run has failed. */
const cr_meta *cr__run_meta(cr__run *r, const cr_arg *a);
/* Item i of a list argument. */
cr_arg cr__run_item(cr__run *r, const cr_arg *list, uint32_t i);

#endif
