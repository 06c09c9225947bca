/* rt_pool.h: what rt_ctx.c needs of the pool beyond rt.h. */
#ifndef CRESSET_RT_POOL_H
#define CRESSET_RT_POOL_H

#include "runtime/rt.h"

/* The seat of the running thread in the pool it works for; 0 for a thread that is no worker. */
int rt__pool_place(void);
/* Threads that may run a loop at the same time, the caller with them; 1 for NULL. */
int rt__pool_seats(const rt_pool *pool);

/* The id of this process (rt_process.c): another in the child of a fork. Any thread. */
long rt__process(void);

/* True when a failure about to be written to `error` may be: always outside a parallel run that uses that buffer,
 * and for the first failure inside one. Records that failure's code as the run's result. Any thread. */
bool rt__pool_claims_failure(rt_pool *pool, const char *error, int code);

/* A block of at least `size` bytes that was kept from the same allocator, or NULL. Any thread. */
void *rt__pool_take_block(const rt_ctx *ctx, size_t size);
/* Keeps a block that is no longer used; false when it should be freed instead. */
bool rt__pool_keep_block(const rt_ctx *ctx, void *block, size_t size);

#endif
