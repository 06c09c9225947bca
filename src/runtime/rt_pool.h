/* rt_pool.h: what rt_ctx.c needs of the pool beyond rt.h. */
#ifndef CRESSET_RT_POOL_H
#define CRESSET_RT_POOL_H

#include "runtime/rt.h"

/* True when a failure about to be written to `error` may be: always outside a parallel run that uses that buffer,
 * and for the first failure inside one. Records that failure's code as the run's result. Any thread. */
bool rt__pool_claims_failure(rt_pool *pool, const char *error, int code);

#endif
