/* rt_walk.h: visits the elements of views of one shape in the order in which PyTorch's iterators do.
 *
 * That order is by memory, not by index: dimensions are sorted by the strides of the views, first view first, smallest
 * stride innermost. Random ops draw in this order, so a transposed tensor gets the stream along its memory. */
#ifndef CRESSET_RT_WALK_H
#define CRESSET_RT_WALK_H

#include "runtime/rt.h"

enum { RT_WALK_VIEWS = 4, RT_WALK_DIMS = RT_MAX_RANK + 1 }; /* one more for the two halves of a complex number */

typedef struct rt_walk {
    char *p[RT_WALK_VIEWS];
    int64_t stride[RT_WALK_VIEWS][RT_WALK_DIMS]; /* bytes; dimension 0 is innermost */
    int64_t size[RT_WALK_DIMS];
    int nviews, ndims;
} rt_walk;

/* A walk over `out` and the other views, which are broadcast to out's shape (their shapes must fit). Only the first
 * `nkeys` views decide the order; with none it is index order. A complex `out` is walked as twice as many real numbers
 * when `halves`. */
void rt_walk_init(rt_walk *w, int nviews, const rt_view *const *views, int nkeys, bool halves);

/* One straight run: element i of view k is at p[k] + i * stride[k]. A non-zero result ends the walk. */
typedef int rt_run_fn(void *user, int64_t n, char *const *p, const int64_t *stride);
int rt_walk_run(const rt_walk *w, rt_run_fn *run, void *user);

#endif
