/* rt_mask.c: which elements are not zero. See rt_index.h.
 *
 * A block of elements becomes bytes of 0 and 1 first; then positions are written for all of them, each over the last
 * one that was no hit, which costs the same for every mask. */
#include "runtime/rt_index.h"
#include "runtime/rt_wide.h"

#include <string.h>

enum { CHUNK_POSITIONS = 1 << 15 };

/* Truth of n <= RT_INDEX_BLOCK elements. Whole blocks are vector loops. */
#define TRUTHS(T, per, one)                                                                                            \
    {                                                                                                                  \
        const T *x = p;                                                                                                \
        if (n == RT_INDEX_BLOCK && stride == 1)                                                                        \
            for (int i = 0; i < RT_INDEX_BLOCK; i++) {                                                                 \
                const T *v = &x[i * (per)];                                                                            \
                out[i] = (one);                                                                                        \
            }                                                                                                          \
        else                                                                                                           \
            for (int64_t i = 0; i < n; i++) {                                                                          \
                const T *v = &x[i * stride * (per)];                                                                   \
                out[i] = (one);                                                                                        \
            }                                                                                                          \
        return;                                                                                                        \
    }

RT_INLINE void truths(int dtype, const void *p, int64_t stride, int64_t n, uint8_t *out) {
    switch (dtype) {
    case RT_F32: TRUTHS(uint32_t, 1, v[0] << 1 != 0) /* without the sign of zero */
    case RT_F64: TRUTHS(uint64_t, 1, v[0] << 1 != 0)
    case RT_C64: TRUTHS(uint32_t, 2, (v[0] | v[1]) << 1 != 0)
    case RT_C128: TRUTHS(uint64_t, 2, (v[0] | v[1]) << 1 != 0)
    case RT_F16:
    case RT_BF16: TRUTHS(uint16_t, 1, (v[0] & 0x7fff) != 0)
    case RT_C32: TRUTHS(uint16_t, 2, ((v[0] | v[1]) & 0x7fff) != 0)
    default: break;
    }
    switch (rt_itemsize(dtype)) {
    case 1: TRUTHS(uint8_t, 1, v[0] != 0)
    case 2: TRUTHS(uint16_t, 1, v[0] != 0)
    case 4: TRUTHS(uint32_t, 1, v[0] != 0)
    default: TRUTHS(uint64_t, 1, v[0] != 0)
    }
}

/* Bytes of 0 and 1 added up, a word of them at a time. */
RT_INLINE int64_t count_bytes(const uint8_t *x, int64_t n) {
    int64_t i = 0, count = 0;
    for (; i + 64 <= n; i += 64) {
        uint64_t sum = 0, word;
        for (int k = 0; k < 8; k++) memcpy(&word, x + i + 8 * k, 8), sum += word;
        count += (int64_t)(sum * UINT64_C(0x0101010101010101) >> 56);
    }
    for (; i < n; i++) count += x[i];
    return count;
}

/* A place in the view, and beside it: positions are numbered row by row. */
typedef struct mask_place { int64_t index[RT_MAX_RANK], offset, with; } mask_place;

static mask_place place_of(const rt_mask *m, int64_t position) {
    const rt_view *v = &m->view;
    mask_place p = { .offset = 0 };
    for (int d = v->rank - 1; d >= 0; d--) {
        p.index[d] = position % v->size[d];
        p.offset += p.index[d] * v->stride[d];
        p.with += p.index[d] * m->with[d];
        position /= v->size[d];
    }
    return p;
}

/* On by n positions of the last dimension, which has so many left. */
static void step_on(const rt_mask *m, mask_place *p, int64_t n) {
    const rt_view *v = &m->view;
    int d = v->rank - 1;
    p->index[d] += n;
    p->offset += n * v->stride[d];
    p->with += n * m->with[d];
    for (; d > 0 && p->index[d] == v->size[d]; d--) {
        p->offset += v->stride[d - 1] - v->size[d] * v->stride[d];
        p->with += m->with[d - 1] - v->size[d] * m->with[d];
        p->index[d] = 0;
        p->index[d - 1]++;
    }
}

/* How many positions of one row follow, at most a block and up to `end`. */
static int64_t run_length(const rt_view *v, const mask_place *p, int64_t at, int64_t end) {
    int64_t n = v->size[v->rank - 1] - p->index[v->rank - 1];
    if (n > end - at) n = end - at;
    return n < RT_INDEX_BLOCK ? n : RT_INDEX_BLOCK;
}

static int64_t chunks_of(const rt_mask *m) { return (rt_numel(&m->view) + CHUNK_POSITIONS - 1) / CHUNK_POSITIONS; }

static int64_t chunk_end(const rt_mask *m, int64_t chunk) {
    int64_t n = rt_numel(&m->view), end = (chunk + 1) * CHUNK_POSITIONS;
    return end < n ? end : n;
}

RT_INLINE int count_chunks_body(void *arg, int64_t begin, int64_t end) {
    const rt_mask *m = arg;
    const rt_view *v = &m->view;
    int64_t item = rt_itemsize(v->dtype);
    uint8_t flags[RT_INDEX_BLOCK];
    for (int64_t chunk = begin; chunk < end; chunk++) {
        int64_t to = chunk_end(m, chunk), count = 0;
        mask_place p = place_of(m, chunk * CHUNK_POSITIONS);
        for (int64_t at = chunk * CHUNK_POSITIONS, n; at < to; at += n, step_on(m, &p, n)) {
            n = run_length(v, &p, at, to);
            truths(v->dtype, (const char *)v->p + p.offset * item, v->stride[v->rank - 1], n, flags);
            count += count_bytes(flags, n);
        }
        m->first[chunk + 1] = count;
    }
    return RT_OK;
}
RT_WIDE(count_chunks)

/* Neighbouring dimensions that both sides step through as one are one: loops are longer than short rows. */
static void merge_dims(rt_mask *m, const rt_view *v, const int64_t *with) {
    rt_view *to = &m->view;
    to->rank = 0;
    for (int d = 0; d < v->rank; d++) {
        int64_t n = v->size[d];
        if (n == 1) continue;
        int last = to->rank - 1;
        bool joins = last >= 0 && to->stride[last] == n * v->stride[d] && m->with[last] == n * with[d];
        int at = joins ? last : to->rank++;
        to->size[at] = joins ? to->size[at] * n : n;
        to->stride[at] = v->stride[d];
        m->with[at] = with[d];
    }
    if (!to->rank) to->rank = 1, to->size[0] = 1;
}

int rt_mask_open(rt_mask *m, const rt_ctx *ctx, const rt_view *v, const rt_view *with) {
    *m = (rt_mask){ .ctx = ctx, .view = { .p = v->p, .dtype = v->dtype } };
    rt_view positions = rt_view_contiguous(NULL, RT_BOOL, v->rank, v->size);
    merge_dims(m, v, with ? with->stride : positions.stride);
    int64_t chunks = chunks_of(m);
    m->first = rt_scratch(ctx, (size_t)(chunks + 1) * sizeof *m->first);
    if (!m->first) return rt_fail(ctx, RT_ENOMEM, "out of memory for counting a mask");
    m->first[0] = 0;
    int code = rt_parallel_work(ctx, chunks, CHUNK_POSITIONS, 16384, RT_WIDEST(count_chunks), m);
    for (int64_t i = 0; i < chunks; i++) m->first[i + 1] += m->first[i];
    m->count = m->first[chunks];
    return code;
}

void rt_mask_close(rt_mask *m) {
    rt_scratch_free(m->ctx, m->first);
    m->first = NULL;
}

int rt_count_true(const rt_ctx *ctx, const rt_view *v, int64_t *count) {
    rt_mask m;
    int code = rt_mask_open(&m, ctx, v, NULL);
    *count = m.count;
    rt_mask_close(&m);
    return code;
}

typedef struct mask_walk { const rt_mask *mask; rt_mask_visit *visit; void *user; } mask_walk;

RT_INLINE int visit_chunks_body(void *arg, int64_t begin, int64_t end) {
    const mask_walk *w = arg;
    const rt_mask *m = w->mask;
    const rt_view *v = &m->view;
    int64_t item = rt_itemsize(v->dtype), unit = m->with[v->rank - 1], at[RT_INDEX_BLOCK + 1];
    uint8_t flags[RT_INDEX_BLOCK];
    for (int64_t chunk = begin; chunk < end; chunk++) {
        int64_t to = chunk_end(m, chunk), first = m->first[chunk];
        int64_t all = m->first[chunk + 1] < m->count ? m->first[chunk + 1] : m->count;
        mask_place p = place_of(m, chunk * CHUNK_POSITIONS);
        for (int64_t i = chunk * CHUNK_POSITIONS, n; i < to && first < all; i += n, step_on(m, &p, n)) {
            n = run_length(v, &p, i, to);
            truths(v->dtype, (const char *)v->p + p.offset * item, v->stride[v->rank - 1], n, flags);
            int64_t found = 0, offset = p.with;
            for (int64_t k = 0; k < n; k++, offset += unit) at[found] = offset, found += flags[k];
            if (found > all - first) found = all - first;
            int code = found ? w->visit(w->user, first, found, at) : RT_OK;
            if (code) return code;
            first += found;
        }
    }
    return RT_OK;
}
RT_WIDE(visit_chunks)

int rt_mask_each(const rt_mask *m, rt_mask_visit *visit, void *user) {
    mask_walk w = { m, visit, user };
    return rt_parallel_work(m->ctx, chunks_of(m), CHUNK_POSITIONS, 8192, RT_WIDEST(visit_chunks), &w);
}
