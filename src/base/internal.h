/* internal.h: what the files of src/base share with each other and with nobody else. */
#ifndef CR_BASE_INTERNAL_H
#define CR_BASE_INTERNAL_H

#include "base/base.h"

#include <sys/types.h>

/* cr_alloc without setting the last error: the error records themselves come from it. */
void *cr__alloc_quiet(size_t size);
/* The two counts of one request and of one free, for memory that does not go through malloc now. False: this request is
 * the one that has to fail. */
bool cr__alloc_counts(size_t size);
void cr__alloc_uncounts(void);
/* Makes out of memory the last error; allocates nothing. */
void cr__error_out_of_memory(void);
/* CR_EIO "cannot VERB 'PATH': reason" of an errno; CR_ENOMEM when that was the reason. */
cr_status cr__fail_errno(const char *verb, const char *path, int reason);
/* open() that is repeated after a signal and does not leak into child processes. */
int cr__open_file(const char *path, int flags, mode_t mode);

#endif
