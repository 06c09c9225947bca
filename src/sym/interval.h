/* interval.h: intervals with 128-bit ends, between range.c and shift.c. */
#ifndef CR_SYM_INTERVAL_H
#define CR_SYM_INTERVAL_H

#include "sym/sym.h"

typedef __int128 wide;
typedef struct interval { wide lo, hi; } interval;
#define INFINITE ((wide)1 << 120)

interval cr__interval(cr_range r);
cr_range cr__interval_range(interval r);
interval cr__interval_add(interval a, interval b);
interval cr__interval_mul(interval a, interval b);
interval cr__interval_power(interval a, int64_t n); /* n >= 1 */
interval cr__interval_meet(interval a, interval b);

/* shift.c: a bound of the polynomial `sum`, sharp when its symbols are bounded below (or above) and the polynomial has
 * one sign once they start at zero: (a - 1)*(b - 1) >= 0 for a, b >= 1. */
interval cr__interval_shifted(cr_env *env, cr_sym sum);

#endif
