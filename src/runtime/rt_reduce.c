/* rt_reduce.c: rows or columns out of any strided input, one result each. See rt_reduce.h. */
#include "runtime/rt_reduce.h"

#include <string.h>

int rt_compute_dtype(int dtype) {
    if (dtype == RT_F64 || dtype == RT_C64 || dtype == RT_C128 || dtype == RT_U64) return dtype;
    if (dtype == RT_C32) return RT_C64;
    return rt_is_float(dtype) ? RT_F32 : RT_I64;
}

uint32_t rt_arg_dims(const rt_call *c, int i, int rank) {
    uint32_t all = rank ? (uint32_t)((1ull << rank) - 1) : 1u, mask = 0;
    if (i < 0 || c->arg[i].kind == RT_ARG_NONE) return all;
    if (c->arg[i].kind == RT_ARG_INT) return 1u << rt_arg_dim(c, i, rank);
    for (uint32_t k = 0; k < c->arg[i].n; k++) {
        int64_t d = c->arg[i].u.ints[k];
        mask |= 1u << (d < 0 ? d + (rank ? rank : 1) : d);
    }
    return c->arg[i].n ? mask : all;
}

rt_view rt_view_last(const rt_view *v, int dim) {
    rt_view out = *v;
    for (int d = dim; d + 1 < v->rank; d++) {
        out.size[d] = v->size[d + 1];
        out.stride[d] = v->stride[d + 1];
    }
    if (v->rank) {
        out.size[v->rank - 1] = v->size[dim];
        out.stride[v->rank - 1] = v->stride[dim];
    }
    return out;
}

/* ---- walking: kept dimensions number the results, reduced ones the elements of a row ---- */

typedef struct axes { int64_t size[RT_MAX_RANK], stride[RT_MAX_RANK], count; int rank; } axes;

/* The dimensions of `in` whose bit in the mask is `bit`, neighbours that walk on evenly made one. */
static axes axes_of(const rt_view *in, uint32_t mask, unsigned bit) {
    axes a = { .count = 1 };
    for (int d = 0; d < in->rank; d++) {
        if ((mask >> d & 1) != bit) continue;
        a.count *= in->size[d];
        if (in->size[d] == 1) continue;
        bool even = a.rank && a.stride[a.rank - 1] == in->stride[d] * in->size[d];
        int to = even ? a.rank - 1 : a.rank++;
        a.size[to] = even ? a.size[to] * in->size[d] : in->size[d];
        a.stride[to] = in->stride[d];
    }
    if (!a.rank) a.size[0] = 1, a.stride[0] = 1, a.rank = 1;
    return a;
}

/* Where element number i is, in elements; *run: how many follow it evenly, itself included. */
static int64_t axes_at(const axes *a, int64_t i, int64_t *run) {
    int last = a->rank - 1;
    if (!last) {
        *run = a->size[0] - i;
        return i * a->stride[0];
    }
    int64_t at = i % a->size[last], offset = at * a->stride[last];
    *run = a->size[last] - at;
    for (int d = last - 1; d >= 0; d--) {
        i /= a->size[d + 1];
        offset += i % a->size[d] * a->stride[d];
    }
    return offset;
}

enum { CHUNK = 1024, BLOCK = 32 * CHUNK, WIDTH = 64, TALL = 32, TALL_BLOCK = 4096, SHORT_ROW = 24 };

typedef struct work {
    const rt_reduction *r;
    const char *in;
    int dtype;
    int64_t item;
    axes kept, row;
    char *out;
    int64_t *index, out_item;
    rt_folded *states; /* blocks of every result, or NULL: one block, finished at once */
    int64_t blocks, block;
    int64_t groups; /* columns: groups of adjacent results in the last kept axis */
} work;

static void fold_elements(const work *w, rt_folded *s, const void *x, int64_t n) {
    w->r->reducer->fold(s, x, n, w->r->param);
    s->n += n;
}

static void done(const work *w, int64_t result, int64_t block, const rt_folded *s) {
    if (w->states) w->states[result * w->blocks + block] = *s;
    else w->r->reducer->finish(s, w->out + result * w->out_item, w->index ? w->index + result : NULL, w->r->param);
}

/* One block of one row. */
static void fold_row(const work *w, int64_t result, int64_t begin, int64_t end, rt_folded *s) {
    _Alignas(64) char buffer[CHUNK * 16];
    int64_t run;
    const char *base = w->in + axes_at(&w->kept, result, &run) * w->item;
    bool direct = w->dtype == w->r->compute && (w->row.stride[w->row.rank - 1] == 1 || end - begin == 1);
    for (int64_t i = begin; i < end;) {
        const char *x = base + axes_at(&w->row, i, &run) * w->item;
        if (run > end - i) run = end - i;
        if (direct && run >= CHUNK / 16) {
            fold_elements(w, s, x, run);
            i += run;
            continue;
        }
        /* short runs are gathered first: a fold of few elements costs as much as one of many */
        int64_t filled = 0, out_item = rt_itemsize(w->r->compute);
        while (i < end && filled < CHUNK) {
            x = base + axes_at(&w->row, i, &run) * w->item;
            if (run > end - i) run = end - i;
            if (run > CHUNK - filled) run = CHUNK - filled;
            rt_convert(w->r->compute, buffer + filled * out_item, 1, w->dtype, x, w->row.stride[w->row.rank - 1], run);
            filled += run;
            i += run;
        }
        fold_elements(w, s, buffer, filled);
    }
}

/* Rows that are folded at once, where they lie. */
static int run_dense_rows(void *arg, int64_t begin, int64_t end) {
    const work *w = arg;
    for (int64_t i = begin; i < end; i++) {
        int64_t run;
        rt_folded s = { 0 };
        fold_elements(w, &s, w->in + axes_at(&w->kept, i, &run) * w->item, w->row.count);
        done(w, i, 0, &s);
    }
    return RT_OK;
}

static int run_rows(void *arg, int64_t begin, int64_t end) {
    const work *w = arg;
    for (int64_t i = begin; i < end; i++) {
        int64_t result = i / w->blocks, block = i % w->blocks, from = block * w->block, to = from + w->block;
        rt_folded s = { 0 };
        fold_row(w, result, from, to < w->row.count ? to : w->row.count, &s);
        done(w, result, block, &s);
    }
    return RT_OK;
}

#define TRANSPOSE(T)                                                                                                   \
    for (int64_t r = 0; r < rows; r++)                                                                                 \
        for (int c = 0; c < width; c++) ((T *)to)[c * TALL + r] = ((const T *)from)[r * width + c];                    \
    break

/* rows x width elements to columns that are TALL elements apart. */
static void transpose(void *to, const void *from, int64_t rows, int width, int64_t item) {
    typedef struct wide { uint64_t part[2]; } wide;
    switch (item) {
    case 1: TRANSPOSE(uint8_t);
    case 2: TRANSPOSE(uint16_t);
    case 4: TRANSPOSE(uint32_t);
    case 8: TRANSPOSE(uint64_t);
    default: TRANSPOSE(wide);
    }
}

#define GATHER(T)                                                                                                      \
    for (int64_t r = 0; r < rows; r++)                                                                                 \
        for (int c = 0; c < width; c++) ((T *)to)[r * width + c] = ((const T *)x)[r * step + c * apart];               \
    return

/* rows x width elements, `step` and `apart` from each other: of few a conversion costs as much as of many. */
static void gather(const work *w, void *to, const char *x, int64_t rows, int64_t step, int width, int64_t apart) {
    int compute = w->r->compute;
    if (w->dtype == RT_F32 && compute == RT_F32) { GATHER(float); }
    if (w->dtype == RT_F64 && compute == RT_F64) { GATHER(double); }
    for (int64_t r = 0, item = rt_itemsize(compute); r < rows; r++)
        rt_convert(compute, (char *)to + r * width * item, 1, w->dtype, x + r * step * w->item, apart, width);
}

/* Elements [begin, end) of `width` columns next to each other. */
static void fold_columns(const work *w, const char *base, int width, int64_t begin, int64_t end, rt_folded *s) {
    _Alignas(64) char rows[TALL * WIDTH * 16], columns[TALL * WIDTH * 16];
    int64_t item = rt_itemsize(w->r->compute), run;
    int64_t apart = w->kept.stride[w->kept.rank - 1];
    bool whole = w->r->reducer->columns && !w->index, direct = whole && apart == 1 && w->dtype == w->r->compute;
    for (int64_t i = begin; i < end;) {
        const char *x = base + axes_at(&w->row, i, &run) * w->item;
        int64_t step = w->row.stride[w->row.rank - 1], count = run < end - i ? run : end - i;
        if (!direct) {
            if (count > TALL) count = TALL;
            gather(w, rows, x, count, step, width, apart);
            if (!whole) transpose(columns, rows, count, width, item);
        }
        if (whole) w->r->reducer->columns(s, width, direct ? x : rows, direct ? step : width, count, w->r->param);
        else
            for (int c = 0; c < width; c++) fold_elements(w, &s[c], columns + c * TALL * item, count);
        i += count;
    }
}

static int run_columns(void *arg, int64_t begin, int64_t end) {
    const work *w = arg;
    int64_t adjacent = w->kept.size[w->kept.rank - 1], run;
    for (int64_t i = begin; i < end; i++) {
        int64_t group = i / w->blocks, block = i % w->blocks, from = block * w->block, to = from + w->block;
        int64_t first = group / w->groups * adjacent + group % w->groups * WIDTH,
                left = adjacent - group % w->groups * WIDTH;
        int width = left < WIDTH ? (int)left : WIDTH;
        rt_folded s[WIDTH] = { { 0 } };
        fold_columns(w, w->in + axes_at(&w->kept, first, &run) * w->item, width, from,
                     to < w->row.count ? to : w->row.count, s);
        for (int c = 0; c < width; c++) done(w, first + c, block, &s[c]);
    }
    return RT_OK;
}

static int join_blocks(void *arg, int64_t begin, int64_t end) {
    const work *w = arg;
    for (int64_t result = begin; result < end; result++) {
        rt_folded *s = &w->states[result * w->blocks];
        for (int64_t b = 1; b < w->blocks; b++) {
            w->r->reducer->join(s, &s[b], w->r->param);
            s->n += s[b].n;
        }
        w->r->reducer->finish(s, w->out + result * w->out_item, w->index ? w->index + result : NULL, w->r->param);
    }
    return RT_OK;
}

/* Columns, when the elements of neighbouring results are neighbours and those of one result are not; or when rows are
 * so short that a fold of each would be nothing but the call. */
static bool by_columns(const work *w) {
    int64_t n = w->row.count, last = w->kept.rank - 1;
    bool adjacent = w->kept.stride[last] == 1 && w->row.stride[w->row.rank - 1] != 1;
    return n > 1 && w->kept.size[last] >= 4 && (adjacent || (n <= SHORT_ROW && w->r->reducer->columns && !w->index));
}

static int run_work(const rt_ctx *ctx, work *w) {
    bool columns = by_columns(w);
    int64_t last = w->kept.size[w->kept.rank - 1];
    w->block = columns ? TALL_BLOCK : w->r->reducer->long_blocks ? 4 * BLOCK : BLOCK;
    w->blocks = w->row.count ? (w->row.count + w->block - 1) / w->block : 1;
    w->groups = (last + WIDTH - 1) / WIDTH;
    int64_t tasks = (columns ? w->kept.count / last * w->groups : w->kept.count) * w->blocks;
    int64_t elements = (w->row.count < w->block ? w->row.count : w->block) *
                       (columns ? last < WIDTH ? last : WIDTH : 1);
    if (w->blocks > 1 && !(w->states = rt_scratch(ctx, (size_t)(w->kept.count * w->blocks) * sizeof *w->states)))
        return RT_ENOMEM;
    bool dense = w->blocks == 1 && w->row.rank == 1 && w->row.stride[0] == 1 && w->row.count &&
                 w->dtype == w->r->compute;
    int code = rt_parallel_work(ctx, tasks, elements, BLOCK,
                                columns ? run_columns
                                : dense ? run_dense_rows
                                        : run_rows,
                                w);
    if (!code && w->states) code = rt_parallel_work(ctx, w->kept.count, w->blocks, CHUNK, join_blocks, w);
    rt_scratch_free(ctx, w->states);
    return code;
}

/* Where to write `rows` results of `dtype`: straight into the output when it allows, else into scratch. */
static int open_result(const rt_ctx *ctx, const rt_view *out, int dtype, int64_t rows, void **p, void **scratch) {
    *scratch = NULL;
    if (out && out->dtype == dtype && rt_is_contiguous(out)) {
        *p = out->p;
        return RT_OK;
    }
    *p = *scratch = rt_scratch(ctx, (size_t)(rows * rt_itemsize(dtype)));
    return *p ? RT_OK : RT_ENOMEM;
}

static int close_result(const rt_ctx *ctx, const rt_view *out, int dtype, void *scratch) {
    if (!scratch) return RT_OK;
    int code = RT_OK;
    if (out) {
        rt_view from = rt_view_contiguous(scratch, dtype, out->rank, out->size);
        code = rt_copy(ctx, out, &from);
    }
    rt_scratch_free(ctx, scratch);
    return code;
}

int rt_reduce(const rt_ctx *ctx, const rt_view *in, uint32_t mask, const rt_reduction *r) {
    work w = { .r = r,
               .in = in->p,
               .dtype = in->dtype,
               .item = rt_itemsize(in->dtype),
               .out_item = rt_itemsize(r->result),
               .kept = axes_of(in, mask, 0),
               .row = axes_of(in, mask, 1) };
    if (!w.kept.count) return RT_OK;
    void *out_scratch = NULL, *index_scratch = NULL, *out = NULL, *index = NULL;
    int code = open_result(ctx, r->out, r->result, w.kept.count, &out, &out_scratch);
    if (!code && r->index) code = open_result(ctx, r->index, RT_I64, w.kept.count, &index, &index_scratch);
    if (!code) {
        w.out = out;
        w.index = index;
        code = run_work(ctx, &w);
    }
    if (!code) code = close_result(ctx, r->out, r->result, out_scratch), out_scratch = NULL;
    if (!code && r->index) code = close_result(ctx, r->index, RT_I64, index_scratch), index_scratch = NULL;
    rt_scratch_free(ctx, out_scratch);
    rt_scratch_free(ctx, index_scratch);
    return code;
}
