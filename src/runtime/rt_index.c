/* rt_index.c: advanced indexing; see rt_index.h.
 *
 * Positions are the elements of the index shape, a slab what one of them selects. Long dense runs of a slab are moved
 * position by position; else every element of the slab is moved for all positions in turn. Threads share slabs when
 * self is written, so that of equal positions the last one wins whatever their number. */
#include "runtime/rt_index.h"

#include <string.h>

enum { RUN = 16 }; /* elements of a slab that are worth a loop of their own */

static void *plan_alloc(rt_index_plan *p, size_t size) {
    void *m = rt_scratch(p->ctx, size);
    if (m) p->scratch[p->nscratch++] = m;
    return m;
}

void rt_index_close(rt_index_plan *p) {
    for (int i = 0; i < p->nscratch; i++) rt_scratch_free(p->ctx, p->scratch[i]);
    p->nscratch = 0;
}

/* ---- what the indices say: `dims` dimensions from `dim` on, in self's sizes and strides ---- */

typedef struct index_part { rt_view values; int dim, dims; bool offsets; } index_part; /* offsets: elements, checked */

static int push_offsets(void *user, int64_t first, int64_t n, const int64_t *at) {
    memcpy((int64_t *)user + first, at, (size_t)n * sizeof *at);
    return RT_OK;
}

/* The true elements' offsets as a vector. */
static int spell_out(rt_index_plan *p, const rt_view *self, const rt_view *v, index_part *part) {
    rt_view dims = { .p = self->p, .rank = v->rank, .dtype = self->dtype };
    memcpy(dims.size, v->size, sizeof dims.size);
    memcpy(dims.stride, self->stride + part->dim, (size_t)v->rank * sizeof *dims.stride);
    rt_mask mask;
    int code = rt_mask_open(&mask, p->ctx, v, &dims);
    int64_t *at = code ? NULL : plan_alloc(p, (size_t)(mask.count + 1) * sizeof *at);
    if (!code && !at) code = RT_ENOMEM;
    if (!code) code = rt_mask_each(&mask, push_offsets, at);
    part->values = (rt_view){ .p = at, .size = { mask.count }, .stride = { 1 }, .rank = 1, .dtype = RT_I64 };
    part->offsets = true;
    rt_mask_close(&mask);
    return code;
}

int rt_broadcast_to(const rt_ctx *ctx, const rt_view *v, int rank, const int64_t *size, rt_view *out) {
    if (v->rank > rank)
        return rt_fail(ctx, RT_ERUNTIME, "a value of %d dimensions cannot be broadcast to %d", v->rank, rank);
    *out = (rt_view){ .p = v->p, .rank = rank, .dtype = v->dtype };
    for (int d = 0; d < rank; d++) {
        int from = d - (rank - v->rank);
        int64_t n = from < 0 ? 1 : v->size[from];
        if (n != size[d] && n != 1)
            return rt_fail(ctx, RT_ERUNTIME, "size %lld at dimension %d cannot be broadcast to %lld", (long long)n, d,
                           (long long)size[d]);
        out->size[d] = size[d];
        out->stride[d] = from < 0 || n == 1 ? 0 : v->stride[from];
    }
    return RT_OK;
}

/* ---- positions ---- */

typedef struct index_sum {
    const rt_index_plan *plan;
    const rt_view *self;
    const index_part *part;
    int nparts;
    bool wraps;
} index_sum;

/* Offsets of positions [begin, end): what every part adds, block by block along the last dimension of the index
 * shape. */
static int sum_offsets(void *arg, int64_t begin, int64_t end) {
    const index_sum *s = arg;
    const rt_index_plan *p = s->plan;
    int last = p->rank - 1;
    int64_t width = p->rank ? p->size[last] : 1, block[RT_INDEX_BLOCK], bad;
    for (int k = 0; k < s->nparts; k++) {
        const index_part *part = &s->part[k];
        const rt_view *v = &part->values;
        int64_t size = s->self->size[part->dim], step = s->self->stride[part->dim], item = rt_itemsize(v->dtype);
        for (int64_t i = begin, n; i < end; i += n) {
            int64_t rest = i / width, offset = p->rank ? i % width * v->stride[last] : 0;
            for (int d = last - 1; d >= 0; rest /= p->size[d--]) offset += rest % p->size[d] * v->stride[d];
            n = width - i % width < end - i ? width - i % width : end - i;
            if (n > RT_INDEX_BLOCK) n = RT_INDEX_BLOCK;
            const void *x = (const char *)v->p + offset * item;
            int64_t stride = p->rank ? v->stride[last] : 0, *to = k ? block : p->at + i;
            if (part->offsets)
                for (int64_t j = 0; j < n; j++) to[j] = ((const int64_t *)x)[j * stride];
            else if (!rt_index_load(v->dtype, x, stride, n, size, s->wraps, step, to, &bad))
                return rt_fail(p->ctx, RT_EINDEX, "index %lld is out of bounds for dimension %d with size %lld",
                               (long long)bad, part->dim, (long long)size);
            if (k)
                for (int64_t j = 0; j < n; j++) p->at[i + j] += block[j];
        }
    }
    return RT_OK;
}

/* The index shape grows by broadcasting from the right. */
static void join_shape(rt_index_plan *p, const rt_view *v) {
    for (int k = 0; k < v->rank; k++) {
        int from_right = v->rank - 1 - k;
        while (p->rank <= from_right) {
            memmove(p->size + 1, p->size, (size_t)p->rank * sizeof *p->size);
            p->size[0] = 1;
            p->rank++;
        }
        int64_t *size = &p->size[p->rank - 1 - from_right];
        if (*size == 1) *size = v->size[k];
    }
}

int rt_index_open(rt_index_plan *p, const rt_ctx *ctx, const rt_view *self, const rt_view *const *indices, int n,
                  bool wraps) {
    index_part parts[RT_MAX_RANK];
    bool used[RT_MAX_RANK] = { false };
    int dim = 0, nparts = 0, first = -1, last = -1, gaps = 0, code = RT_OK;
    *p = (rt_index_plan){ .ctx = ctx, .npositions = 1 };
    for (int i = 0; i < n; i++) {
        const rt_view *v = indices[i];
        if (!v) {
            dim++;
            continue;
        }
        bool mask = v->dtype == RT_BOOL || v->dtype == RT_U8;
        index_part *part = &parts[nparts++];
        *part = (index_part){ .values = *v, .dim = dim, .dims = mask ? v->rank : 1 };
        if (mask && (code = spell_out(p, self, v, part))) return code;
        if (first < 0) first = dim;
        else if (dim > last + 1) gaps++;
        dim += part->dims;
        last = dim - 1;
        for (int d = part->dim; d < dim; d++) used[d] = true;
        join_shape(p, &part->values);
    }
    p->before = gaps || first < 0 ? 0 : first;
    for (int d = 0; d < p->rank; d++) p->npositions *= p->size[d];
    p->slab = (rt_view){ .p = self->p, .dtype = self->dtype };
    for (int d = 0; d < self->rank; d++) {
        if (used[d]) continue;
        p->slab.size[p->slab.rank] = self->size[d];
        p->slab.stride[p->slab.rank++] = self->stride[d];
    }
    for (int k = 0; k < nparts; k++) {
        rt_view broadcast;
        if (rt_broadcast_to(ctx, &parts[k].values, p->rank, p->size, &broadcast))
            return rt_fail(ctx, RT_EINDEX,
                           "the index tensors cannot be broadcast together (a mask counts as a vector of its true "
                           "elements)");
        parts[k].values = broadcast;
    }
    if (nparts == 1 && parts[0].offsets) { /* one mask: its offsets are the plan's */
        p->at = parts[0].values.p;
        return RT_OK;
    }
    p->at = plan_alloc(p, (size_t)(p->npositions + 1) * sizeof *p->at);
    if (!p->at) return RT_ENOMEM;
    if (!nparts) p->at[0] = 0;
    index_sum s = { p, self, parts, nparts, wraps };
    return rt_parallel_work(ctx, p->npositions, nparts, 8192, sum_offsets, &s);
}

int rt_index_shape(const rt_index_plan *p, int64_t *size) {
    int rank = 0;
    for (int d = 0; d < p->before; d++) size[rank++] = p->slab.size[d];
    for (int d = 0; d < p->rank; d++) size[rank++] = p->size[d];
    for (int d = p->before; d < p->slab.rank; d++) size[rank++] = p->slab.size[d];
    return rank;
}

/* ---- moving ---- */

/* Dimensions of two views at once; neighbours that both step through as one are one. The last one is the inner one. */
typedef struct index_axes { int64_t size[RT_MAX_RANK], a[RT_MAX_RANK], b[RT_MAX_RANK], count; int rank; } index_axes;

static void push_axis(index_axes *x, int64_t size, int64_t a, int64_t b) {
    x->count *= size;
    if (size == 1) return;
    bool joins = x->rank && x->a[x->rank - 1] == size * a && x->b[x->rank - 1] == size * b;
    int at = joins ? x->rank - 1 : x->rank++;
    x->size[at] = joins ? x->size[at] * size : size;
    x->a[at] = a;
    x->b[at] = b;
}

static void close_axes(index_axes *x) {
    if (!x->rank) x->size[0] = 1, x->a[0] = x->b[0] = 0, x->rank = 1;
}

/* Offsets of element number i, and how many follow it evenly, itself included. */
static int64_t axes_place(const index_axes *x, int64_t i, int64_t *a, int64_t *b) {
    int last = x->rank - 1;
    int64_t run = x->size[last] - i % x->size[last];
    *a = *b = 0;
    for (int d = last; d >= 0; d--) {
        int64_t k = i % x->size[d];
        i /= x->size[d];
        *a += k * x->a[d];
        *b += k * x->b[d];
    }
    return run;
}

typedef struct index_move {
    const rt_index_plan *plan;
    char *self, *values;
    index_axes slab;      /* a: self, b: values */
    index_axes positions; /* b: values */
    int64_t item;
    int mode, dtype;
} index_move;

static void move_positions(const index_move *w, char *s, char *v, int64_t stride, const int64_t *at, int64_t n) {
    if (w->mode == RT_INDEX_READ) rt_pick(w->item, v, stride, s, 0, at, n);
    else if (w->mode == RT_INDEX_WRITE) rt_put(w->item, s, 0, at, v, stride, n);
    else rt_add_at(w->dtype, s, 0, at, v, stride, n);
}

/* Elements [begin, end) of the slab, each at all positions from `first` to `last`. */
static void move_elements(const index_move *w, int64_t begin, int64_t end, int64_t first, int64_t last) {
    for (int64_t k = begin; k < end; k++) {
        int64_t a, b, none, offset;
        axes_place(&w->slab, k, &a, &b);
        for (int64_t i = first, n; i < last; i += n) {
            n = axes_place(&w->positions, i, &none, &offset);
            if (n > last - i) n = last - i;
            move_positions(w, w->self + a * w->item, w->values + (b + offset) * w->item,
                           w->positions.b[w->positions.rank - 1], w->plan->at + i, n);
        }
    }
}

static int slab_range(void *arg, int64_t begin, int64_t end) {
    const index_move *w = arg;
    move_elements(w, begin, end, 0, w->positions.count);
    return RT_OK;
}

static int position_range(void *arg, int64_t begin, int64_t end) {
    const index_move *w = arg;
    move_elements(w, 0, w->slab.count, begin, end);
    return RT_OK;
}

/* Runs of a slab: elements [begin, end) of it at positions [first, last). */
static void move_runs(const index_move *w, int64_t begin, int64_t end, int64_t first, int64_t last) {
    int inner = w->slab.rank - 1;
    int64_t mine = w->slab.a[inner], theirs = w->slab.b[inner], a, b, none, offset, run;
    for (int64_t i = first; i < last; i++) {
        axes_place(&w->positions, i, &none, &offset);
        for (int64_t k = begin; k < end; k += run) {
            run = axes_place(&w->slab, k, &a, &b);
            if (run > end - k) run = end - k;
            char *s = w->self + (w->plan->at[i] + a) * w->item, *v = w->values + (b + offset) * w->item;
            if (w->mode == RT_INDEX_READ) rt_copy_run(w->item, v, theirs, s, mine, run);
            else if (w->mode == RT_INDEX_WRITE) rt_copy_run(w->item, s, mine, v, theirs, run);
            else rt_add_run(w->dtype, s, mine, v, theirs, run);
        }
    }
}

static int run_slab_range(void *arg, int64_t begin, int64_t end) {
    const index_move *w = arg;
    move_runs(w, begin, end, 0, w->positions.count);
    return RT_OK;
}

static int run_position_range(void *arg, int64_t begin, int64_t end) {
    const index_move *w = arg;
    move_runs(w, 0, w->slab.count, begin, end);
    return RT_OK;
}

int rt_index_run(rt_index_plan *p, const rt_view *self, const rt_view *values, int mode) {
    index_move w = { .plan = p, .self = self->p, .values = values->p, .item = rt_itemsize(self->dtype), .mode = mode,
                     .dtype = self->dtype, .slab = { .count = 1 }, .positions = { .count = 1 } };
    for (int d = 0; d < values->rank; d++) {
        bool indexed = d >= p->before && d < p->before + p->rank;
        int at = d < p->before ? d : d - p->rank; /* of the slab */
        push_axis(indexed ? &w.positions : &w.slab, values->size[d], indexed ? 0 : p->slab.stride[at],
                  values->stride[d]);
    }
    close_axes(&w.slab);
    close_axes(&w.positions);
    if (!w.slab.count || !w.positions.count) return RT_OK;
    int inner = w.slab.rank - 1;
    int64_t run = w.slab.size[inner], row = w.positions.size[w.positions.rank - 1];
    bool runs = w.slab.a[inner] == 1 && run >= RUN ? true : row < RUN && run > row;
    bool by_slab = mode != RT_INDEX_READ || w.positions.count < RUN || (!runs && w.slab.count >= RUN);
    if (by_slab)
        return rt_parallel_work(p->ctx, w.slab.count, w.positions.count, 8192, runs ? run_slab_range : slab_range, &w);
    return rt_parallel_work(p->ctx, w.positions.count, w.slab.count, 8192, runs ? run_position_range : position_range,
                            &w);
}
