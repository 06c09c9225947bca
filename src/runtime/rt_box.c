/* rt_box.c: see rt_box.h. Copies of boxes are in rt_copy.c. */
#include "runtime/rt_box.h"

#include "runtime/rt_index.h"

void rt_box_map_push(rt_box_map *map, int d, int64_t count, int64_t at, int64_t step) {
    if (count > 0) map->run[d][map->nruns[d]++] = (rt_box_run){ count, at, step };
}

typedef struct box_mapping {
    const rt_ctx *ctx;
    const rt_box_map *map;
    const rt_view *mapped, *self;
    const void *fill;
    int lead; /* of a sum: leading dimensions whose positions threads share */
    const int32_t *place; /* of a sum with short rows of floats: where in self's row each element goes, or NULL */
} box_mapping;

/* ---- reading: every combination of runs is a box ---- */

/* The dimensions from d on are the result's, read from one element. */
static int fill_rest(const box_mapping *m, rt_box *box, int d) {
    for (int k = d; k < box->rank; k++) box->size[k] = m->mapped->size[k], box->to[k] = m->mapped->stride[k];
    for (int k = 0; k < box->rank; k++) box->from[k] = 0;
    box->src = m->fill;
    return rt_box_copy(m->ctx, box);
}

/* mine, theirs: where the runs chosen so far begin, in elements of the result and of self. */
static int each_box(const box_mapping *m, rt_box *box, int d, int64_t mine, int64_t theirs) {
    int64_t item = rt_itemsize(box->dtype);
    box->dst = (char *)m->mapped->p + mine * item;
    box->src = (const char *)m->self->p + theirs * item;
    if (d == box->rank) return rt_box_copy(m->ctx, box);
    for (int i = 0; i < m->map->nruns[d]; i++) {
        const rt_box_run *r = &m->map->run[d][i];
        int code;
        box->size[d] = r->count;
        box->to[d] = m->mapped->stride[d];
        box->from[d] = r->step * m->self->stride[d];
        if (r->at == RT_BOX_FILL) {
            rt_box filled = *box;
            filled.dst = (char *)m->mapped->p + mine * item;
            code = fill_rest(m, &filled, d + 1);
        } else {
            code = each_box(m, box, d + 1, mine, theirs + r->at * m->self->stride[d]);
        }
        if (code) return code;
        mine += r->count * m->mapped->stride[d];
    }
    return RT_OK;
}

int rt_box_map_read(const rt_ctx *ctx, const rt_box_map *map, const rt_view *out, const rt_view *self,
                    const void *fill) {
    box_mapping m = { ctx, map, out, self, fill, 0, NULL };
    rt_box box = { .rank = out->rank, .dtype = out->dtype };
    return each_box(&m, &box, 0, 0, 0);
}

/* ---- adding: row by row, because sums depend on their order ---- */

enum { SHORT_ROW = 64 }; /* a call for each of a row's runs would cost more than its sums */

/* The innermost row, element by element. */
static void add_places(const box_mapping *m, int64_t mine, int64_t theirs) {
    int64_t n = m->mapped->size[m->mapped->rank - 1], step = m->mapped->stride[m->mapped->rank - 1];
    if (m->self->dtype == RT_F32) {
        float *to = (float *)m->self->p + theirs;
        const float *from = (const float *)m->mapped->p + mine;
        for (int64_t i = 0; i < n; i++) to[m->place[i]] += from[i * step];
    } else {
        double *to = (double *)m->self->p + theirs;
        const double *from = (const double *)m->mapped->p + mine;
        for (int64_t i = 0; i < n; i++) to[m->place[i]] += from[i * step];
    }
}

static bool find_places(const box_mapping *m, int32_t *place) {
    int last = m->mapped->rank - 1;
    int64_t n = 0, stride = m->self->stride[last];
    if (m->mapped->size[last] > SHORT_ROW || (m->self->dtype != RT_F32 && m->self->dtype != RT_F64)) return false;
    if (m->self->size[last] * stride > INT32_MAX) return false;
    for (int k = 0; k < m->map->nruns[last]; k++) {
        const rt_box_run *r = &m->map->run[last][k];
        for (int64_t i = 0; i < r->count; i++) place[n++] = (int32_t)((r->at + i * r->step) * stride);
    }
    return true;
}

static void add_rows(const box_mapping *m, int d, int64_t mine, int64_t theirs) {
    if (m->place && d == m->mapped->rank - 1) {
        add_places(m, mine, theirs);
        return;
    }
    int64_t stride = m->mapped->stride[d], other = m->self->stride[d], item = rt_itemsize(m->self->dtype);
    for (int k = 0; k < m->map->nruns[d]; k++) {
        const rt_box_run *r = &m->map->run[d][k];
        if (d == m->mapped->rank - 1)
            rt_add_run(m->self->dtype, (char *)m->self->p + (theirs + r->at * other) * item, r->step * other,
                       (const char *)m->mapped->p + mine * item, stride, r->count);
        else
            for (int64_t i = 0; i < r->count; i++)
                add_rows(m, d + 1, mine + i * stride, theirs + (r->at + i * r->step) * other);
        mine += r->count * stride;
    }
}

/* Positions [begin, end) of the leading dimensions. */
static int add_leading(void *arg, int64_t begin, int64_t end) {
    const box_mapping *m = arg;
    for (int64_t i = begin; i < end; i++) {
        int64_t rest = i, mine = 0, theirs = 0;
        for (int d = m->lead - 1; d >= 0; d--) {
            const rt_box_run *r = &m->map->run[d][0];
            mine += rest % r->count * m->mapped->stride[d];
            theirs += (r->at + rest % r->count * r->step) * m->self->stride[d];
            rest /= r->count;
        }
        add_rows(m, m->lead, mine, theirs);
    }
    return RT_OK;
}

int rt_box_map_add(const rt_ctx *ctx, const rt_box_map *map, const rt_view *in, const rt_view *self) {
    box_mapping m = { ctx, map, in, self, NULL, 0, NULL };
    int32_t place[SHORT_ROW];
    int64_t leading = 1;
    if (!in->rank) {
        rt_add_run(self->dtype, self->p, 1, in->p, 1, 1);
        return RT_OK;
    }
    while (m.lead < in->rank - 1 && map->nruns[m.lead] == 1 && map->run[m.lead][0].step)
        leading *= map->run[m.lead++][0].count;
    m.place = find_places(&m, place) ? place : NULL;
    return rt_parallel_work(ctx, leading, rt_numel(in) / leading, 8192, add_leading, &m);
}
