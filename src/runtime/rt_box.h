/* rt_box.h: moves of whole boxes of elements, by steps that may also be negative or 0.
 *
 * Flips, rolls, repeats and padding are a few boxes each, and each box is a copy by rt_copy.c's loops and threads. A
 * map says, dimension by dimension, which run of a result's positions reads which run of the source's. */
#ifndef CRESSET_RT_BOX_H
#define CRESSET_RT_BOX_H

#include "runtime/rt.h"

enum { RT_BOX_RANK = 2 * RT_MAX_RANK, RT_BOX_RUNS = 3 };

/* dst[sum of i * to] and src[sum of i * from], steps in elements of `dtype`. No element of dst is met twice in a
 * copy. */
typedef struct rt_box {
    char *dst;
    const char *src;
    int64_t size[RT_BOX_RANK], to[RT_BOX_RANK], from[RT_BOX_RANK];
    int rank, dtype;
} rt_box;

int rt_box_copy(const rt_ctx *ctx, const rt_box *box);

/* `count` positions of the result read the source at `at`, at + step, ...; at = RT_BOX_FILL: they are the fill
 * element. */
#define RT_BOX_FILL INT64_MIN
typedef struct rt_box_run { int64_t count, at, step; } rt_box_run;
typedef struct rt_box_map {
    int nruns[RT_MAX_RANK];
    rt_box_run run[RT_MAX_RANK][RT_BOX_RUNS];
} rt_box_map;

/* Adds a run behind those of dimension d; one without positions is left out. */
void rt_box_map_push(rt_box_map *map, int d, int64_t count, int64_t at, int64_t step);
/* out[i] = self[map(i)], two views of one rank and dtype. `fill`: one element, or NULL when no run fills. */
int rt_box_map_read(const rt_ctx *ctx, const rt_box_map *map, const rt_view *out, const rt_view *self,
                    const void *fill);
/* self[map(i)] += in[i], in the order of i; no run fills. */
int rt_box_map_add(const rt_ctx *ctx, const rt_box_map *map, const rt_view *in, const rt_view *self);

#endif
