/* rt_index.h: the engine under x[i, :, j]: integer index tensors for some dimensions, slabs along the others.
 *
 * A plan holds one offset per position of the broadcast index shape and one per element of a slab; reading, writing and
 * accumulating are then the same double loop. Masks are turned into positions first. */
#ifndef CRESSET_RT_INDEX_H
#define CRESSET_RT_INDEX_H

#include "runtime/rt.h"

typedef struct rt_index_plan {
    const rt_ctx *ctx;
    int64_t *at;        /* element offset in self of each index position */
    int64_t npositions;
    rt_view slab;       /* self without the indexed dimensions */
    int rank;           /* of the index shape */
    int64_t size[RT_MAX_RANK];
    int before;         /* slab dimensions before the index dimensions in the result; 0 when indices are not adjacent */
    void *scratch[2 * RT_MAX_RANK + 2];
    int nscratch;
} rt_index_plan;

/* indices[i] (NULL: whole dimension) for dimension i, where a mask of rank k counts for k dimensions. RT_EINDEX when an
 * index is out of range: the message names index, dimension and size. Close the plan in any case. */
int rt_index_open(rt_index_plan *plan, const rt_ctx *ctx, const rt_view *self, const rt_view *const *indices, int n);
void rt_index_close(rt_index_plan *plan);
/* How often a mask is true. */
int64_t rt_count_true(const rt_view *mask);
/* rows of positions of non-zero elements: out is int64[count, rank] contiguous memory. */
int rt_nonzero(const rt_ctx *ctx, const rt_view *v, int64_t *out);

enum { RT_INDEX_READ, RT_INDEX_WRITE, RT_INDEX_ADD };
/* `base`: memory of self. `values` has the result's shape (broadcast it first). READ fills values; WRITE and ADD change
 * self. */
int rt_index_run(rt_index_plan *plan, const rt_view *self, const rt_view *values, int mode);
/* A view of `v` broadcast to the plan's result shape. */
int rt_broadcast_to(const rt_ctx *ctx, const rt_view *v, int rank, const int64_t *size, rt_view *out);
/* The result's shape. */
int rt_index_shape(const rt_index_plan *plan, int64_t *size);

/* acc[i] += x[i] for one element of `dtype`, wrapping integers; low precision rounds once. */
void rt_add_element(int dtype, void *acc, const void *x);

#endif
