/* rt_map.c: see rt_map.h. */
#include "runtime/rt_map.h"

#include "runtime/rt_index.h"

#include <string.h>

int rt_map_open(rt_map *map, const rt_ctx *ctx, int rank, const int64_t *size) {
    int64_t total = 0;
    for (int d = 0; d < rank; d++) total += size[d];
    *map = (rt_map){ .rank = rank, .scratch = rt_scratch(ctx, (size_t)(total + 1) * sizeof(int64_t)) };
    if (!map->scratch) return RT_ENOMEM;
    int64_t *at = map->scratch;
    for (int d = 0; d < rank; d++) {
        map->table[d] = at;
        at += size[d];
    }
    return RT_OK;
}

void rt_map_close(rt_map *map, const rt_ctx *ctx) { rt_scratch_free(ctx, map->scratch); }

typedef struct walk {
    const rt_map *map;
    const rt_view *v;
    char *other;
    const void *fill;
    int64_t item;
    bool add;
} walk;

/* Rows of the innermost dimension; `row` numbers the positions of all the others. */
static int run_rows(void *arg, int64_t begin, int64_t end) {
    const walk *w = arg;
    const rt_view *v = w->v;
    int last = v->rank - 1;
    size_t item = (size_t)w->item;
    for (int64_t row = begin; row < end; row++) {
        int64_t rest = row, mine = 0, theirs = 0;
        bool filled = false;
        for (int d = last - 1; d >= 0; d--) {
            int64_t i = rest % v->size[d];
            rest /= v->size[d];
            mine += i * v->stride[d];
            if (w->map->table[d][i] == RT_MAP_FILL) filled = true;
            else theirs += w->map->table[d][i];
        }
        const int64_t *table = w->map->table[last];
        for (int64_t i = 0; i < v->size[last]; i++) {
            char *a = (char *)v->p + (mine + i * v->stride[last]) * w->item;
            bool fill = filled || table[i] == RT_MAP_FILL;
            if (w->add) {
                if (!fill) rt_add_element(v->dtype, w->other + (theirs + table[i]) * w->item, a);
            } else {
                memcpy(a, fill ? w->fill : w->other + (theirs + table[i]) * w->item, item);
            }
        }
    }
    return RT_OK;
}

static int run(const rt_ctx *ctx, walk *w) {
    int64_t n = rt_numel(w->v);
    if (!n) return RT_OK;
    if (!w->v->rank) {
        if (w->add) rt_add_element(w->v->dtype, w->other, w->v->p);
        else memcpy(w->v->p, w->other, (size_t)w->item);
        return RT_OK;
    }
    int64_t rows = n / w->v->size[w->v->rank - 1];
    if (w->add) return run_rows(w, 0, rows); /* several positions may add to one element */
    return rt_parallel_work(ctx, rows, w->v->size[w->v->rank - 1], 8192, run_rows, w);
}

int rt_map_read(const rt_ctx *ctx, const rt_map *map, const rt_view *out, const void *src, const void *fill) {
    walk w = { map, out, (char *)src, fill, rt_itemsize(out->dtype), false };
    return run(ctx, &w);
}

int rt_map_add(const rt_ctx *ctx, const rt_map *map, const rt_view *in, void *dst) {
    walk w = { map, in, dst, NULL, rt_itemsize(in->dtype), true };
    return run(ctx, &w);
}
