/* internal.h: what the files of src/tensor share with each other and with nobody else. */
#ifndef CR_TENSOR_INTERNAL_H
#define CR_TENSOR_INTERNAL_H

#include "tensor/tensor.h"

/* A fixed number of equal blocks in static memory, for objects that every op call makes and drops. A take or a give is
 * one compare-and-swap, any thread. Under the sanitizers and in the out-of-memory sweep there are no blocks, so that
 * each object is one that those tools can see. */
typedef struct cr__slab {
    uint64_t top;   /* atomic: change count << 32 | index of the first free block + 1 */
    uint32_t fresh; /* atomic: blocks never taken so far start here */
    uint32_t count, size;
    char *blocks;
    uint32_t *next; /* per block: index of the free block below + 1; atomic */
} cr__slab;
void *cr__slab_take(cr__slab *s); /* NULL: all taken */
bool cr__slab_give(cr__slab *s, void *p); /* false: not one of its blocks */

#if !defined(CR_TINY) && (defined(CR_OOM) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__))
#define CR__HAS_SLAB 0
#else
#define CR__HAS_SLAB 1
enum { CR__SLAB_COUNT = CR_LIMIT(512, 2) };
#endif

/* Layouts alone: values do not depend on them, so where facts do not tell, the layout is the one at the example sizes,
 * and nothing is guarded. CR_UNKNOWN: there is no example. */
cr_tri cr__dim_likely(cr_env *env, cr_dim a, cr_cmp cmp, cr_dim b);

#endif
