/* rt_map.h: results that read one source position per dimension: flip, roll, repeat, padding, nearest upsampling.
 *
 * table[d][i] is the element offset that position i of dimension d contributes to the source, or RT_MAP_FILL where the
 * result is the fill element. One loop serves them all, forwards (read) and backwards (add into the source). */
#ifndef CRESSET_RT_MAP_H
#define CRESSET_RT_MAP_H

#include "runtime/rt.h"

#define RT_MAP_FILL INT64_MIN

typedef struct rt_map {
    int64_t *table[RT_MAX_RANK]; /* in one scratch block */
    void *scratch;
    int rank;
} rt_map;

/* Room for tables of these sizes; fill them, run, close. */
int rt_map_open(rt_map *map, const rt_ctx *ctx, int rank, const int64_t *size);
void rt_map_close(rt_map *map, const rt_ctx *ctx);
/* out[i] = src[map(i)]; both of one dtype. `fill`: one element, or NULL when no position fills. */
int rt_map_read(const rt_ctx *ctx, const rt_map *map, const rt_view *out, const void *src, const void *fill);
/* dst[map(i)] += in[i]. */
int rt_map_add(const rt_ctx *ctx, const rt_map *map, const rt_view *in, void *dst);

#endif
