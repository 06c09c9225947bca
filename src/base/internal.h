/* internal.h: what the files of src/base share with each other and with nobody else. */
#ifndef CR_BASE_INTERNAL_H
#define CR_BASE_INTERNAL_H

#include "base/base.h"

/* cr_alloc without setting the last error: the error records themselves come from it. */
void *cr__alloc_quiet(size_t size);
/* Makes out of memory the last error; allocates nothing. */
void cr__error_out_of_memory(void);

#endif
