/* rt_recycle.h: memory that an instance keeps between its runs. */
#ifndef CRESSET_RT_RECYCLE_H
#define CRESSET_RT_RECYCLE_H

#include "runtime/rt.h"

typedef struct rt_recycler rt_recycler;
/* Over an allocator that gives 64-byte aligned blocks or NULL. NULL: out of memory. */
rt_recycler *rt_recycler_create(void *(*alloc)(void *, size_t), void (*free)(void *, void *), void *user);
/* Gives everything that is kept back. Blocks still in use must be freed before. */
void rt_recycler_release(rt_recycler *r);
/* As rt_ctx has them; `recycler` is the rt_recycler. Any thread, also in the child of a fork. */
void *rt_recycler_alloc(void *recycler, size_t size);
void rt_recycler_free(void *recycler, void *p);

#endif
