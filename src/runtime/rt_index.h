/* rt_index.h: loops over elements that are found by number: x[i, :, j], gathers and scatters, masks.
 *
 * Index values are read a block at a time: checked, then turned into element offsets, so that the loops over elements
 * know nothing of dtypes of indices and check nothing. On that stands the engine of advanced indexing: a plan holds one
 * offset per position of the broadcast index shape, and slabs lie along the dimensions that are not indexed. */
#ifndef CRESSET_RT_INDEX_H
#define CRESSET_RT_INDEX_H

#include "runtime/rt.h"

/* ---- blocks of offsets (rt_offsets.c) ---- */

enum { RT_INDEX_BLOCK = 512 };
/* at[i] = index i (of `dtype`, `stride` elements apart) * step, for n of them. False when one is not in [0, size), or
 * with `wraps` not in [-size, size) where negative ones count from the end: *bad is the first such. */
bool rt_index_load(int dtype, const void *index, int64_t stride, int64_t n, int64_t size, bool wraps, int64_t step,
                   int64_t *at, int64_t *bad);
/* dst[i * ds] = src[at[i] + i * ss] for elements of `item` bytes. Here and below at = NULL stands for zeros. */
void rt_pick(int64_t item, void *dst, int64_t ds, const void *src, int64_t ss, const int64_t *at, int64_t n);
/* dst[at[i] + i * ds] = src[i * ss], in this order. */
void rt_put(int64_t item, void *dst, int64_t ds, const int64_t *at, const void *src, int64_t ss, int64_t n);
/* dst[at[i] + i * ds] += src[i * ss], in this order. Integers wrap, truths are or-ed, low precision rounds each
 * time. */
void rt_add_at(int dtype, void *dst, int64_t ds, const int64_t *at, const void *src, int64_t ss, int64_t n);
static inline void rt_copy_run(int64_t item, void *dst, int64_t ds, const void *src, int64_t ss, int64_t n) {
    rt_pick(item, dst, ds, src, ss, NULL, n);
}
static inline void rt_add_run(int dtype, void *dst, int64_t ds, const void *src, int64_t ss, int64_t n) {
    rt_add_at(dtype, dst, ds, NULL, src, ss, n);
}

/* ---- masks (rt_mask.c) ---- */

/* The elements of a view that are not zero, in row-major order. Counted by chunks, which threads then visit on their
 * own. */
typedef struct rt_mask {
    const rt_ctx *ctx;
    rt_view view;              /* dimensions merged, rank >= 1 */
    int64_t with[RT_MAX_RANK]; /* strides of what is walked beside it */
    int64_t count;             /* how many there are; made smaller by the caller: the first ones are visited */
    int64_t *first;            /* of every chunk of positions: how many there are before */
} rt_mask;
/* with: a view of the same sizes in which the elements are looked for, or NULL. */
int rt_mask_open(rt_mask *mask, const rt_ctx *ctx, const rt_view *v, const rt_view *with);
void rt_mask_close(rt_mask *mask);
/* n <= RT_INDEX_BLOCK elements from number `first` on, of a block of so many positions; at[i]: the element's offset in
 * `with`, without that its position, row by row. */
typedef int rt_mask_visit(void *user, int64_t first, int64_t n, const int64_t *at);
int rt_mask_each(const rt_mask *mask, rt_mask_visit *visit, void *user);
/* How many elements are not zero. */
int rt_count_true(const rt_ctx *ctx, const rt_view *v, int64_t *count);

/* ---- advanced indexing (rt_index.c) ---- */

typedef struct rt_index_plan {
    const rt_ctx *ctx;
    int64_t *at;        /* element offset in self of each index position */
    int64_t npositions;
    rt_view slab;       /* self without the indexed dimensions */
    int rank;           /* of the index shape */
    int64_t size[RT_MAX_RANK];
    int before;         /* slab dimensions before the index dimensions in the result; 0 when indices are not adjacent */
    void *scratch[RT_MAX_RANK + 2];
    int nscratch;
} rt_index_plan;

/* indices[i] (NULL: whole dimension) for dimension i, where a mask of rank k counts for k dimensions. RT_EINDEX when an
 * index is out of range: the message names index, dimension and size; negative ones are refused unless `wraps`. Close
 * the plan in any case. */
int rt_index_open(rt_index_plan *plan, const rt_ctx *ctx, const rt_view *self, const rt_view *const *indices, int n,
                  bool wraps);
void rt_index_close(rt_index_plan *plan);

enum { RT_INDEX_READ, RT_INDEX_WRITE, RT_INDEX_ADD };
/* `values` has the result's shape (broadcast it first). READ fills values; WRITE and ADD change self. */
int rt_index_run(rt_index_plan *plan, const rt_view *self, const rt_view *values, int mode);
/* A view of `v` broadcast to the plan's result shape. */
int rt_broadcast_to(const rt_ctx *ctx, const rt_view *v, int rank, const int64_t *size, rt_view *out);
/* The result's shape. */
int rt_index_shape(const rt_index_plan *plan, int64_t *size);

#endif
