/* rt_index.c: see rt_index.h. */
#include "runtime/rt_index.h"

#include <string.h>

static uint16_t add_halves(uint16_t a, uint16_t b) { return rt_f32_to_f16(rt_f16_to_f32(a) + rt_f16_to_f32(b)); }

void rt_add_element(int dtype, void *acc, const void *x) {
    uint16_t *half = acc;
    const uint16_t *other = x;
    switch (dtype) {
#define ADD(ID, T) case RT_##ID: *(T *)acc = (T)(*(T *)acc + *(const T *)x); return;
    ADD(U8, uint8_t) ADD(I8, int8_t) ADD(I16, int16_t) ADD(I32, uint32_t) ADD(I64, uint64_t)
    ADD(U16, uint16_t) ADD(U32, uint32_t) ADD(U64, uint64_t) ADD(F32, float) ADD(F64, double)
    ADD(C64, float _Complex) ADD(C128, double _Complex)
#undef ADD
    case RT_BOOL: *(uint8_t *)acc |= *(const uint8_t *)x; return;
    case RT_BF16: *half = rt_f32_to_bf16(rt_bf16_to_f32(*half) + rt_bf16_to_f32(*other)); return;
    case RT_F16: *half = add_halves(*half, *other); return;
    case RT_C32: half[0] = add_halves(half[0], other[0]), half[1] = add_halves(half[1], other[1]); return;
    default: return;
    }
}

/* Calls visit with the element offset of every position, row-major. */
static void each_offset(const rt_view *v, void (*visit)(void *user, int64_t offset, const int64_t *index), void *user) {
    int64_t index[RT_MAX_RANK] = { 0 }, offset = 0;
    if (!rt_numel(v)) return;
    for (;;) {
        visit(user, offset, index);
        int d = v->rank - 1;
        for (; d >= 0; d--) {
            offset += v->stride[d];
            if (++index[d] < v->size[d]) break;
            offset -= v->size[d] * v->stride[d];
            index[d] = 0;
        }
        if (d < 0) return;
    }
}

typedef struct truth { const rt_view *v; int64_t item, count; int64_t *out; } truth;

static bool is_true(const rt_view *v, int64_t item, int64_t offset) {
    const unsigned char *p = (const unsigned char *)v->p + offset * item;
    if (v->dtype == RT_F32) return *(const float *)p != 0;
    if (v->dtype == RT_F64) return *(const double *)p != 0;
    if (v->dtype == RT_C64) return ((const float *)p)[0] != 0 || ((const float *)p)[1] != 0;
    if (v->dtype == RT_C128) return ((const double *)p)[0] != 0 || ((const double *)p)[1] != 0;
    if (v->dtype == RT_F16 || v->dtype == RT_BF16) return *(const uint16_t *)p & 0x7fff;
    if (v->dtype == RT_C32) return (((const uint16_t *)p)[0] | ((const uint16_t *)p)[1]) & 0x7fff;
    for (int64_t i = 0; i < item; i++)
        if (p[i]) return true;
    return false;
}

static void count_one(void *user, int64_t offset, const int64_t *index) {
    truth *t = user;
    bool yes = is_true(t->v, t->item, offset);
    if (yes && t->out)
        for (int d = 0; d < t->v->rank; d++) t->out[t->count * t->v->rank + d] = index[d];
    t->count += yes;
}

int64_t rt_count_true(const rt_view *v) {
    truth t = { v, rt_itemsize(v->dtype), 0, NULL };
    each_offset(v, count_one, &t);
    return t.count;
}

int rt_nonzero(const rt_ctx *ctx, const rt_view *v, int64_t *out) {
    (void)ctx;
    truth t = { v, rt_itemsize(v->dtype), 0, out };
    each_offset(v, count_one, &t);
    return RT_OK;
}

static void *plan_alloc(rt_index_plan *p, size_t size) {
    void *m = rt_scratch(p->ctx, size);
    if (m) p->scratch[p->nscratch++] = m;
    return m;
}

void rt_index_close(rt_index_plan *p) {
    for (int i = 0; i < p->nscratch; i++) rt_scratch_free(p->ctx, p->scratch[i]);
    p->nscratch = 0;
}

/* One integer index per dimension: masks spelled out. Returns how many dimensions are covered. */
static int spell_out(rt_index_plan *p, const rt_view *const *indices, int n, rt_view *per_dim, bool *used, int *dims) {
    int d = 0;
    for (int i = 0; i < n; i++) {
        const rt_view *v = indices[i];
        if (!v) {
            used[d++] = false;
            continue;
        }
        if (v->dtype != RT_BOOL && v->dtype != RT_U8) {
            used[d] = true;
            per_dim[d++] = *v;
            continue;
        }
        int64_t count = rt_count_true(v);
        int64_t *positions = plan_alloc(p, (size_t)(count * v->rank + 1) * sizeof *positions);
        if (!positions) return RT_ENOMEM;
        rt_nonzero(p->ctx, v, positions);
        for (int k = 0; k < v->rank; k++) {
            used[d] = true;
            per_dim[d] = (rt_view){
                .p = positions + k, .size = { count }, .stride = { v->rank }, .rank = 1, .dtype = RT_I64
            };
            d++;
        }
    }
    *dims = d;
    return RT_OK;
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

typedef struct fill {
    int64_t *at;
    int64_t next;
    const rt_view *index;
    int64_t size, stride;
    int dim;
    int64_t bad;
} fill;

static void add_offset(void *user, int64_t offset, const int64_t *index) {
    (void)index;
    fill *f = user;
    int64_t i = f->index->dtype == RT_I64   ? ((const int64_t *)f->index->p)[offset]
                : f->index->dtype == RT_I32 ? ((const int32_t *)f->index->p)[offset]
                : f->index->dtype == RT_I16 ? ((const int16_t *)f->index->p)[offset]
                                            : ((const int8_t *)f->index->p)[offset];
    if (i < -f->size || i >= f->size) {
        if (f->bad == INT64_MIN) f->bad = i;
        i = 0;
    }
    f->at[f->next++] += (i < 0 ? i + f->size : i) * f->stride;
}

int rt_index_open(rt_index_plan *p, const rt_ctx *ctx, const rt_view *self, const rt_view *const *indices, int n) {
    rt_view per_dim[RT_MAX_RANK];
    bool used[RT_MAX_RANK] = { false };
    int dims = 0, first = -1, last = -1, gaps = 0;
    *p = (rt_index_plan){ .ctx = ctx };
    int code = spell_out(p, indices, n, per_dim, used, &dims);
    if (code) return code;
    for (int d = 0; d < dims; d++) {
        if (!used[d]) continue;
        if (first < 0) first = d;
        else if (d != last + 1) gaps++;
        last = d;
        for (int k = 0; k < per_dim[d].rank; k++) { /* the index shape, by broadcasting from the right */
            int from_right = per_dim[d].rank - 1 - k;
            while (p->rank <= from_right) {
                memmove(p->size + 1, p->size, (size_t)p->rank * sizeof *p->size);
                p->size[0] = 1;
                p->rank++;
            }
            int64_t *size = &p->size[p->rank - 1 - from_right];
            if (*size == 1) *size = per_dim[d].size[k];
        }
    }
    p->before = gaps || first < 0 ? 0 : first;
    p->npositions = 1;
    for (int d = 0; d < p->rank; d++) p->npositions *= p->size[d];
    p->at = plan_alloc(p, (size_t)(p->npositions + 1) * sizeof *p->at);
    if (!p->at) return RT_ENOMEM;
    memset(p->at, 0, (size_t)p->npositions * sizeof *p->at);
    p->slab = (rt_view){ .p = self->p, .dtype = self->dtype };
    for (int d = 0; d < self->rank; d++) {
        if (d >= dims || !used[d]) {
            p->slab.size[p->slab.rank] = self->size[d];
            p->slab.stride[p->slab.rank++] = self->stride[d];
            continue;
        }
        rt_view broadcast;
        if (rt_broadcast_to(ctx, &per_dim[d], p->rank, p->size, &broadcast))
            return rt_fail(ctx, RT_EINDEX,
                           "the index tensors cannot be broadcast together (a mask counts as a vector of its true "
                           "elements)");
        fill f = { p->at, 0, &broadcast, self->size[d], self->stride[d], d, INT64_MIN };
        each_offset(&broadcast, add_offset, &f);
        if (f.bad != INT64_MIN)
            return rt_fail(ctx, RT_EINDEX, "index %lld is out of bounds for dimension %d with size %lld",
                           (long long)f.bad, d, (long long)self->size[d]);
    }
    return RT_OK;
}

int rt_index_shape(const rt_index_plan *p, int64_t *size) {
    int rank = 0;
    for (int d = 0; d < p->before; d++) size[rank++] = p->slab.size[d];
    for (int d = 0; d < p->rank; d++) size[rank++] = p->size[d];
    for (int d = p->before; d < p->slab.rank; d++) size[rank++] = p->slab.size[d];
    return rank;
}

typedef struct offsets { int64_t *at; int64_t next; } offsets;
static void push_offset(void *user, int64_t offset, const int64_t *index) {
    (void)index;
    offsets *o = user;
    o->at[o->next++] = offset;
}

typedef struct walk {
    const rt_index_plan *plan;
    char *self, *values;
    const int64_t *value_at, *self_slab, *value_slab;
    int64_t slab, item;
    bool dense;
    int mode, dtype;
} walk;

static int run_positions(void *arg, int64_t begin, int64_t end) {
    const walk *w = arg;
    size_t item = (size_t)w->item;
    for (int64_t i = begin; i < end; i++) {
        char *s = w->self + w->plan->at[i] * w->item, *v = w->values + w->value_at[i] * w->item;
        if (w->dense && w->mode != RT_INDEX_ADD) {
            if (w->mode == RT_INDEX_READ) memcpy(v, s, item * (size_t)w->slab);
            else memcpy(s, v, item * (size_t)w->slab);
            continue;
        }
        for (int64_t k = 0; k < w->slab; k++) {
            char *a = s + w->self_slab[k] * w->item, *b = v + w->value_slab[k] * w->item;
            if (w->mode == RT_INDEX_READ) memcpy(b, a, item);
            else if (w->mode == RT_INDEX_WRITE) memcpy(a, b, item);
            else rt_add_element(w->dtype, a, b);
        }
    }
    return RT_OK;
}

int rt_index_run(rt_index_plan *p, const rt_view *self, const rt_view *values, int mode) {
    int64_t slab = rt_numel(&p->slab);
    if (!slab || !p->npositions) return RT_OK;
    rt_view value_index = { .p = values->p, .rank = p->rank, .dtype = values->dtype },
            value_slab = { .p = values->p, .rank = p->slab.rank, .dtype = values->dtype };
    for (int d = 0; d < values->rank; d++) {
        bool indexed = d >= p->before && d < p->before + p->rank;
        rt_view *v = indexed ? &value_index : &value_slab;
        int to = indexed ? d - p->before : d < p->before ? d : d - p->rank;
        v->size[to] = values->size[d];
        v->stride[to] = values->stride[d];
    }
    int64_t *room = plan_alloc(p, (size_t)(p->npositions + 2 * slab) * sizeof *room);
    if (!room) return RT_ENOMEM;
    offsets o = { room, 0 };
    each_offset(&value_index, push_offset, &o);
    o = (offsets){ room + p->npositions, 0 };
    each_offset(&p->slab, push_offset, &o);
    o = (offsets){ room + p->npositions + slab, 0 };
    each_offset(&value_slab, push_offset, &o);
    walk w = { p,
               self->p,
               values->p,
               room,
               room + p->npositions,
               room + p->npositions + slab,
               slab,
               rt_itemsize(self->dtype),
               rt_is_contiguous(&p->slab) && rt_is_contiguous(&value_slab),
               mode,
               self->dtype };
    /* writes keep their order: the last of equal positions wins */
    if (mode != RT_INDEX_READ) return run_positions(&w, 0, p->npositions);
    return rt_parallel_work(p->ctx, p->npositions, slab, 8192, run_positions, &w);
}
