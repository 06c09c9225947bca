/* autocast.h: what mixed precision does to the arguments of an op. */
#ifndef CR_AUTOCAST_H
#define CR_AUTOCAST_H

#include "ops/op.h"

/* The dtype that eligible floating-point arguments of `op` are cast to in a region of `lower`; -1: they stay as they
 * are. `widest`: the widest dtype among those arguments. */
int cr_autocast_dtype(const cr_op *op, int lower, int widest);
/* Are tensors of this dtype cast at all? */
static inline bool cr_autocast_eligible(int dtype) { return dtype == CR_F32 || dtype == CR_F16 || dtype == CR_BF16; }
/* cr_call while autocast is on. *done false: the op has no policy, nothing happened. */
CR_NODISCARD cr_status cr__autocast_call(const cr_op *op, const cr_arg *args, cr_arg *results, bool *done);

#endif
