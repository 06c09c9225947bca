/* autocast.h: what a region of mixed precision does to the arguments of an op. */
#ifndef CR_AUTOCAST_H
#define CR_AUTOCAST_H

#include "ops/op.h"

/* The dtype that eligible floating-point arguments of `op` are cast to in a region of `lower`; -1: they stay as they are.
 * `widest`: the widest dtype among those arguments. */
int cr__autocast_dtype(const cr_op *op, int lower, int widest);
/* Are tensors of this dtype cast at all? */
static inline bool cr__autocast_eligible(int dtype) { return dtype == CR_F32 || dtype == CR_F16 || dtype == CR_BF16; }

#endif
