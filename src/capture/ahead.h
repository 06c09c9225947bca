/* ahead.h: a captured graph that is more than a function of its inputs: it writes to them, gives views of them, or
 * gradients are recorded. It is compiled ahead of time with its gradients (autograd/aot.h): the code itself is
 * functional, and what it did besides is done when the code has run. So code that fails has written nothing. */
#ifndef CR_AHEAD_H
#define CR_AHEAD_H

#include "emit/tier.h"

typedef struct cr_ahead cr_ahead; /* one owner; what it made for backwards lives as long as the tape needs it */
/* `inputs`: the tensors with which the graph was captured; `results`: how many it has. `ways`: code of each part is
 * made beside the program (tier.h); 0: the interpreter runs them. CR_EUNSUPPORTED: a write that has no functional
 * form. */
CR_NODISCARD cr_status cr_ahead_create(cr_graph *g, const cr_arg *inputs, size_t n, bool records,
                                       cr_tier_ways ways, cr_ahead **out);
void cr_ahead_release(cr_ahead *a); /* NULL is legal */
/* As the graph itself. Tensors must share memory and require grad as those did with which it was made. *wrote: the
 * code had run, and what it writes was being written. */
CR_NODISCARD cr_status cr_ahead_run(cr_ahead *a, const cr_arg *inputs, size_t n, cr_arg *results, bool *wrote);
cr_tier *cr_ahead_tier(const cr_ahead *a); /* of the forward part; NULL: none; borrowed */

#endif
