/* rt_walk.c: iteration in memory order, as rt_walk.h promises.
 *
 * The sort is a plain insertion sort over a relation that is not a total order (a stride of 0 compares equal to all),
 * so its steps are part of the contract: start from the last dimension, compare view by view, skip views where either
 * stride is 0, stop at the first dimension that is definitely faster. */
#include "runtime/rt_walk.h"

#include <string.h>

/* > 0: dimension a belongs outside of b. < 0: it is definitely faster than b. 0: undecided. */
static int outside(const rt_walk *w, int nkeys, int a, int b) {
    for (int k = 0; k < nkeys; k++) {
        int64_t sa = w->stride[k][a], sb = w->stride[k][b];
        if (sa == 0 || sb == 0) continue;
        if (sa != sb) return sa < sb ? -1 : 1;
        if (w->size[a] > w->size[b]) return 1;
    }
    return 0;
}

static void sort_dims(rt_walk *w, int nkeys) {
    int order[RT_WALK_DIMS];
    for (int i = 0; i < w->ndims; i++) order[i] = i;
    for (int i = 1; i < w->ndims; i++) {
        int moving = i;
        for (int j = i - 1; j >= 0; j--) {
            int side = outside(w, nkeys, order[j], order[moving]);
            if (side < 0) break;
            if (side == 0) continue;
            int d = order[j];
            order[j] = order[moving];
            order[moving] = d;
            moving = j;
        }
    }
    rt_walk was = *w;
    for (int i = 0; i < w->ndims; i++) {
        w->size[i] = was.size[order[i]];
        for (int k = 0; k < w->nviews; k++) w->stride[k][i] = was.stride[k][order[i]];
    }
}

/* Joins neighbouring dimensions that one stride covers in every view; drops dimensions of size 1. */
static void merge_dims(rt_walk *w) {
    int last = -1;
    for (int d = 0; d < w->ndims; d++) {
        if (w->size[d] == 1) continue;
        bool joins = last >= 0;
        for (int k = 0; joins && k < w->nviews; k++) joins = w->stride[k][last] * w->size[last] == w->stride[k][d];
        if (joins) {
            w->size[last] *= w->size[d];
            continue;
        }
        last++;
        w->size[last] = w->size[d];
        for (int k = 0; k < w->nviews; k++) w->stride[k][last] = w->stride[k][d];
    }
    w->ndims = last + 1;
    if (w->ndims == 0) {
        w->ndims = 1;
        w->size[0] = 1;
        for (int k = 0; k < w->nviews; k++) w->stride[k][0] = 0;
    }
}

void rt_walk_init(rt_walk *w, int nviews, const rt_view *const *views, int nkeys, bool halves) {
    const rt_view *out = views[0];
    memset(w, 0, sizeof *w);
    halves = halves && rt_is_complex(out->dtype);
    w->nviews = nviews;
    if (halves) w->size[w->ndims++] = 2;
    for (int d = out->rank - 1; d >= 0; d--) w->size[w->ndims++] = out->size[d];
    for (int k = 0; k < nviews; k++) {
        const rt_view *v = views[k];
        int64_t bytes = rt_itemsize(v->dtype);
        int at = 0;
        w->p[k] = v->p;
        if (halves) w->stride[k][at++] = bytes / 2;
        for (int d = v->rank - 1; d >= 0; d--, at++)
            w->stride[k][at] = v->size[d] == 1 && w->size[at] != 1 ? 0 : v->stride[d] * bytes;
    }
    sort_dims(w, nkeys);
    merge_dims(w);
}

int rt_walk_run(const rt_walk *w, rt_run_fn *run, void *user) {
    int64_t index[RT_WALK_DIMS] = { 0 }, stride[RT_WALK_VIEWS];
    char *p[RT_WALK_VIEWS];
    for (int d = 0; d < w->ndims; d++)
        if (w->size[d] == 0) return RT_OK;
    for (int k = 0; k < w->nviews; k++) {
        p[k] = w->p[k];
        stride[k] = w->stride[k][0];
    }
    for (;;) {
        int code = run(user, w->size[0], p, stride);
        if (code) return code;
        int d = 1;
        for (; d < w->ndims; d++) {
            for (int k = 0; k < w->nviews; k++) p[k] += w->stride[k][d];
            if (++index[d] < w->size[d]) break;
            for (int k = 0; k < w->nviews; k++) p[k] -= w->stride[k][d] * w->size[d];
            index[d] = 0;
        }
        if (d == w->ndims) return RT_OK;
    }
}
