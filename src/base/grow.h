/* grow.h: how much room something that grows gets (vec.c, str.c). */
#ifndef CR_GROW_H
#define CR_GROW_H

#include "base/base.h"

/* For `want` entries where there was room for `cap`: half more. In the tiny build a short list gets just what it needs;
 * a long one would take quadratic time so. */
static inline size_t cr_grown(size_t cap, size_t want, size_t first) {
    size_t more = cap + 1 > CR_LIMIT(0, 256) ? cap + cap / 2 : 0;
    return CR_MAX(CR_MAX(more, want), first);
}

#endif
