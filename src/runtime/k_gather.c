/* k_gather.c: gather and scatters along one dimension, take and put.
 *
 * An index tensor of the same rank says, for each of its positions, which element along `dim` is meant. Positions that
 * differ elsewhere than in `dim` meet different elements, so threads share those; along `dim` scatters go in order:
 * with repeated indices the last write wins, whatever the number of threads. */
#include "runtime/kernels.h"
#include "runtime/rt_index.h"

#include <math.h>
#include <string.h>

enum { READ, ASSIGN, ADD, MULTIPLY, MAXIMUM, MINIMUM, COUNT };

/* Lines of the index along one axis: `dim` itself, or another one and then all of dim in turn. */
typedef struct gather_lines {
    rt_view self, index, src; /* rank >= 1; READ: src is the result */
    int dim, mode, axis;
    const char *value; /* one element, instead of src */
    int64_t parts;     /* of a line, where dim is not the axis */
    uint32_t cpu;      /* rt_cpu() */
    const rt_ctx *ctx;
} gather_lines;

static rt_view at_least_1d(const rt_view *v) {
    rt_view out = *v;
    if (!out.rank) out.rank = 1, out.size[0] = 1, out.stride[0] = 1;
    return out;
}

/* W: the type in which products are taken; those of integers wrap around. */
#define COMBINE_WITH(T, combined)                                                                       \
    {                                                                                                   \
        int64_t i = 0;                                                                                  \
        T *restrict y = (T *)self;                                                                      \
        const T *restrict x = (const T *)src;                                                           \
        if (!at && step == 1 && from == 1) /* in steps of eight, which the compiler makes vectors of */ \
            for (; i + 8 <= n; i += 8)                                                                  \
                for (int k = 0; k < 8; k++) {                                                           \
                    T a = y[i + k], b = x[i + k];                                                       \
                    y[i + k] = (T)(combined);                                                           \
                }                                                                                       \
        for (; i < n; i++) {                                                                            \
            T *to = y + (at ? at[i] : 0) + i * step, a = *to, b = x[i * from];                          \
            *to = (T)(combined);                                                                        \
        }                                                                                               \
    }
#define COMBINE(T, W)                                                                                                  \
    {                                                                                                                  \
        if (mode == MULTIPLY) COMBINE_WITH(T, (W)a * (W)b)                                                             \
        else if (mode == MAXIMUM) COMBINE_WITH(T, b > a || b != b ? b : a)                                             \
        else COMBINE_WITH(T, b < a || b != b ? b : a)                                                                  \
        return RT_OK;                                                                                                  \
    }
#define COMPLEX_PRODUCTS(T)                                                                                            \
    {                                                                                                                  \
        if (mode != MULTIPLY) break;                                                                                   \
        COMBINE_WITH(T, a * b)                                                                                         \
        return RT_OK;                                                                                                  \
    }

static float combine_floats(int mode, float a, float b) {
    return mode == MULTIPLY ? a * b : mode == MAXIMUM ? (b > a || b != b ? b : a) : (b < a || b != b ? b : a);
}
static uint16_t combine_halves(int mode, uint16_t a, uint16_t b) {
    return rt_f32_to_f16(combine_floats(mode, rt_f16_to_f32(a), rt_f16_to_f32(b)));
}
static uint16_t combine_bfloats(int mode, uint16_t a, uint16_t b) {
    return rt_f32_to_bf16(combine_floats(mode, rt_bf16_to_f32(a), rt_bf16_to_f32(b)));
}

/* Products of dense runs, by vectors as wide as there are: many factors soon give numbers too small to be normal, for
 * which the processor takes a hundred times as long, whatever the width. The result is how many were taken. */
typedef float floats __attribute__((vector_size(64), aligned(4), may_alias));
#define MULTIPLY_RUN(name, attribute)                                                \
    attribute static int64_t name(float *y, const float *x, int64_t n) {             \
        int64_t i = 0;                                                               \
        for (; i + 16 <= n; i += 16) *(floats *)(y + i) *= *(const floats *)(x + i); \
        return i;                                                                    \
    }
MULTIPLY_RUN(multiply_run, )
#if defined(__x86_64__)
MULTIPLY_RUN(multiply_run_avx2, __attribute__((target("avx2"))))
MULTIPLY_RUN(multiply_run_avx512, __attribute__((target("avx512f"))))
#else
#define multiply_run_avx2 multiply_run
#define multiply_run_avx512 multiply_run
#endif

/* self[at[i] + i * step] takes src[i * from], in order; at = NULL: zeros. */
static int combine(const gather_lines *w, void *self, int64_t step, const int64_t *at, const void *src, int64_t from,
                   int64_t n) {
    int mode = w->mode, dtype = w->self.dtype;
    if (!at && step == 1 && from == 1 && mode == MULTIPLY && dtype == RT_F32) {
        int64_t done = (w->cpu & RT_CPU_AVX512 ? multiply_run_avx512
                        : w->cpu & RT_CPU_AVX2 ? multiply_run_avx2
                                               : multiply_run)(self, src, n);
        self = (float *)self + done, src = (const float *)src + done, n -= done;
    }
    switch (dtype) {
    case RT_BOOL: COMBINE_WITH(uint8_t, mode == MAXIMUM ? a | b : a & b) return RT_OK;
    case RT_U8: COMBINE(uint8_t, uint64_t)
    case RT_I8: COMBINE(int8_t, uint64_t)
    case RT_I16: COMBINE(int16_t, uint64_t)
    case RT_I32: COMBINE(int32_t, uint64_t)
    case RT_I64: COMBINE(int64_t, uint64_t)
    case RT_F32: COMBINE(float, float)
    case RT_F64: COMBINE(double, double)
    case RT_C64: COMPLEX_PRODUCTS(float _Complex)
    case RT_C128: COMPLEX_PRODUCTS(double _Complex)
    case RT_F16: COMBINE_WITH(uint16_t, combine_halves(mode, a, b)) return RT_OK;
    case RT_BF16: COMBINE_WITH(uint16_t, combine_bfloats(mode, a, b)) return RT_OK;
    default: break;
    }
    return rt_fail(w->ctx, RT_ENOTIMPL, "this reduction has no kernel for %s", rt_dtype_name(dtype));
}

static int visit_block(const gather_lines *w, char *self, int64_t step, const int64_t *at, char *src, int64_t from,
                       int64_t n) {
    int64_t item = rt_itemsize(w->self.dtype);
    static const int64_t one = 1;
    switch (w->mode) {
    case READ: rt_pick(item, src, from, self, step, at, n); return RT_OK;
    case ASSIGN: rt_put(item, self, step, at, src, from, n); return RT_OK;
    case ADD: rt_add_at(w->self.dtype, self, step, at, src, from, n); return RT_OK;
    case COUNT: rt_add_at(RT_I64, self, step, at, &one, 0, n); return RT_OK;
    default: return combine(w, self, step, at, src, from, n);
    }
}

static int out_of_bounds(const gather_lines *w, int64_t index) {
    return rt_fail(w->ctx, RT_ERUNTIME, "index %lld is out of bounds for dimension %d with size %lld", (long long)index,
                   w->dim, (long long)w->self.size[w->dim]);
}

/* `n` positions along the axis, from these elements of self, index and src on. */
static int visit_line(const gather_lines *w, int64_t self, int64_t index, int64_t src, int64_t n) {
    int64_t item = rt_itemsize(w->self.dtype), index_item = rt_itemsize(w->index.dtype), at[RT_INDEX_BLOCK], bad;
    int64_t step = w->axis == w->dim ? 0 : w->self.stride[w->axis], size = w->self.size[w->dim];
    int64_t index_step = w->index.stride[w->axis], from = w->value ? 0 : w->src.stride[w->axis];
    bool same = !index_step && w->axis != w->dim; /* one index for all of the line */
    for (int64_t i = 0, count; i < n; i += count) {
        count = same ? n : n - i < RT_INDEX_BLOCK ? n - i : RT_INDEX_BLOCK;
        const char *x = (const char *)w->index.p + (index + i * index_step) * index_item;
        if (!rt_index_load(w->index.dtype, x, index_step, same ? 1 : count, size, false, w->self.stride[w->dim], at,
                           &bad))
            return out_of_bounds(w, bad);
        char *to = (char *)w->self.p + (self + i * step + (same ? at[0] : 0)) * item;
        char *other = w->value ? (char *)w->value : (char *)w->src.p + (src + i * from) * item;
        int code = visit_block(w, to, step, same ? NULL : at, other, from, count);
        if (code) return code;
    }
    return RT_OK;
}

enum { LINE_PART = 2048 };

static int visit_lines(void *arg, int64_t begin, int64_t end) {
    const gather_lines *w = arg;
    const rt_view *index = &w->index;
    for (int64_t line = begin; line < end; line++) {
        int64_t self = 0, at = 0, src = 0, rest = line / w->parts, first = line % w->parts * LINE_PART;
        for (int d = index->rank - 1; d >= 0; d--) {
            if (d == w->axis || d == w->dim) continue;
            int64_t i = rest % index->size[d];
            rest /= index->size[d];
            self += i * w->self.stride[d], at += i * index->stride[d], src += i * w->src.stride[d];
        }
        int64_t n = index->size[w->axis];
        int code = RT_OK;
        if (w->axis == w->dim) {
            code = visit_line(w, self, at, src, n);
        } else {
            self += first * w->self.stride[w->axis], at += first * index->stride[w->axis];
            src += first * w->src.stride[w->axis];
            if (n > first + LINE_PART) n = first + LINE_PART;
            for (int64_t k = 0; k < index->size[w->dim] && !code; k++)
                code = visit_line(w, self, at + k * index->stride[w->dim], src + k * w->src.stride[w->dim], n - first);
        }
        if (code) return code;
    }
    return RT_OK;
}

/* Short rows along the last dimension, all of them dense: a block of rows at a time. */
static bool has_short_rows(const gather_lines *w) {
    int last = w->index.rank - 1;
    bool same = w->dim == last && w->index.size[last] < 16 && rt_is_contiguous(&w->index) && rt_is_contiguous(&w->self);
    for (int d = 0; d < last; d++) same = same && w->self.size[d] == w->index.size[d];
    return same && (w->value || rt_is_contiguous(&w->src));
}

static int visit_short_rows(void *arg, int64_t begin, int64_t end) {
    const gather_lines *w = arg;
    int last = w->index.rank - 1;
    int64_t n = w->index.size[last], size = w->self.size[last], at[RT_INDEX_BLOCK], rows = RT_INDEX_BLOCK / n, bad;
    int64_t item = rt_itemsize(w->self.dtype), index_item = rt_itemsize(w->index.dtype);
    for (int64_t row = begin; row < end; row += rows) {
        int64_t count = end - row < rows ? end - row : rows;
        const char *x = (const char *)w->index.p + row * n * index_item;
        if (!rt_index_load(w->index.dtype, x, 1, count * n, size, false, 1, at, &bad)) return out_of_bounds(w, bad);
        for (int64_t r = 1, i = n; r < count; r++)
            for (int64_t k = 0; k < n; k++) at[i++] += r * size;
        char *other = w->value ? (char *)w->value : (char *)w->src.p + row * n * item;
        int code = visit_block(w, (char *)w->self.p + row * size * item, 0, at, other, w->value ? 0 : 1, count * n);
        if (code) return code;
    }
    return RT_OK;
}

/* Along the last dimension, unless it is short: then along the longest. */
static int each(gather_lines *w) {
    const rt_view *index = &w->index;
    int64_t n = rt_numel(index);
    if (!n) return RT_OK;
    w->cpu = rt_cpu();
    if (has_short_rows(w)) {
        int64_t length = index->size[index->rank - 1];
        return rt_parallel_work(w->ctx, n / length, length, 4096, visit_short_rows, w);
    }
    w->axis = index->rank - 1;
    for (int d = 0; d < index->rank && index->size[index->rank - 1] < 16; d++)
        if (index->size[d] > index->size[w->axis]) w->axis = d;
    int64_t length = index->size[w->axis], deep = w->axis == w->dim ? 1 : index->size[w->dim];
    w->parts = w->axis == w->dim ? 1 : (length + LINE_PART - 1) / LINE_PART;
    int64_t lines = n / length / deep * w->parts;
    return rt_parallel_work(w->ctx, lines, n / lines, 4096, visit_lines, w);
}

int rt_k_gather(const rt_ctx *ctx, const rt_call *c) { /* self, dim, index, sparse_grad */
    const rt_view *self = rt_arg_view(c, 0);
    gather_lines w = { .self = at_least_1d(self),
                       .index = at_least_1d(rt_arg_view(c, 2)),
                       .src = at_least_1d(&c->out[0]),
                       .dim = rt_arg_dim(c, 1, self->rank),
                       .mode = READ,
                       .ctx = ctx };
    return each(&w);
}

/* out[0] holds self already. */
static int scatter_as_is(const rt_ctx *ctx, const rt_call *c, const rt_view *self, const rt_view *src,
                         const char *value, int mode) {
    gather_lines w = { .self = at_least_1d(self), .index = at_least_1d(rt_arg_view(c, 2)),
                       .dim = rt_arg_dim(c, 1, self->rank), .mode = mode, .value = value, .ctx = ctx };
    w.src = src ? at_least_1d(src) : w.index;
    return each(&w);
}

/* Sums and products of half precision are formed in f32 and rounded once, at the end. */
static int scatter(const rt_ctx *ctx, const rt_call *c, const rt_view *src, const char *value, int mode) {
    const rt_view *out = &c->out[0];
    if ((out->dtype != RT_F16 && out->dtype != RT_BF16) || (mode != ADD && mode != MULTIPLY))
        return scatter_as_is(ctx, c, out, src, value, mode);
    void *sums = rt_scratch(ctx, (size_t)(rt_numel(out) + 1) * sizeof(float)), *copied = NULL;
    if (!sums) return RT_ENOMEM;
    rt_view wide = rt_view_contiguous(sums, RT_F32, out->rank, out->size), wide_src;
    float number = 0;
    int code = rt_copy(ctx, &wide, out);
    if (!code && src) code = rt_contiguous(ctx, src, RT_F32, &wide_src, &copied);
    if (value) rt_convert(RT_F32, &number, 1, out->dtype, value, 1, 1);
    if (!code) code = scatter_as_is(ctx, c, &wide, src ? &wide_src : NULL, value ? (const char *)&number : NULL, mode);
    if (!code) code = rt_copy(ctx, out, &wide);
    rt_scratch_free(ctx, copied);
    rt_scratch_free(ctx, sums);
    return code;
}

static int mode_of(const rt_call *c, int i) {
    const char *name = c->arg[i].u.str;
    if (!strcmp(name, "add") || !strcmp(name, "sum") || !strcmp(name, "mean")) return ADD;
    if (!strcmp(name, "multiply") || !strcmp(name, "prod")) return MULTIPLY;
    return !strcmp(name, "amax") ? MAXIMUM : MINIMUM;
}

static int scatter_value(const rt_ctx *ctx, const rt_call *c, int mode) {
    double storage[2];
    rt_view one = rt_view_contiguous(storage, c->out[0].dtype, 0, NULL);
    int code = rt_fill_number(ctx, &one, rt_arg_scalar(c, 3));
    return code ? code : scatter(ctx, c, NULL, (const char *)storage, mode);
}

/* self, dim, index, src */
int rt_k_scatter_src(const rt_ctx *ctx, const rt_call *c) { return scatter(ctx, c, rt_arg_view(c, 3), NULL, ASSIGN); }
int rt_k_scatter_value(const rt_ctx *ctx, const rt_call *c) { return scatter_value(ctx, c, ASSIGN); }
int rt_k_scatter_reduce_src(const rt_ctx *ctx, const rt_call *c) {
    return scatter(ctx, c, rt_arg_view(c, 3), NULL, mode_of(c, 4));
}
int rt_k_scatter_reduce_value(const rt_ctx *ctx, const rt_call *c) { return scatter_value(ctx, c, mode_of(c, 4)); }
int rt_k_scatter_add(const rt_ctx *ctx, const rt_call *c) { return scatter(ctx, c, rt_arg_view(c, 3), NULL, ADD); }

/* ---- scatter_reduce: include_self = false starts touched elements from the reduction's identity; mean divides ---- */

static rt_scalar identity(int mode, int dtype) {
    bool floats = rt_is_float(dtype) || rt_is_complex(dtype);
    if (mode == ADD) return floats ? (rt_scalar){ RT_ARG_FLOAT, 0, 0.0, 0 } : (rt_scalar){ RT_ARG_INT, 0, 0, 0 };
    if (mode == MULTIPLY) return floats ? (rt_scalar){ RT_ARG_FLOAT, 0, 1.0, 0 } : (rt_scalar){ RT_ARG_INT, 1, 0, 0 };
    if (floats) return (rt_scalar){ RT_ARG_FLOAT, 0, mode == MAXIMUM ? -INFINITY : INFINITY, 0 };
    if (dtype == RT_BOOL) return (rt_scalar){ RT_ARG_INT, mode != MAXIMUM, 0, 0 };
    int bits = (int)rt_itemsize(dtype) * 8;
    int64_t top = dtype == RT_U8 ? 255 : (int64_t)(((uint64_t)1 << (bits - 1)) - 1),
            low = dtype == RT_U8 ? 0 : -top - 1;
    return (rt_scalar){ RT_ARG_INT, mode == MAXIMUM ? low : top, 0, 0 };
}

/* Elements divided by how many came together in them; integers round down. */
static int divide_by_counts(const rt_ctx *ctx, const rt_view *out, const int64_t *touched, bool include) {
    int64_t n = rt_numel(out);
    int wide = rt_is_complex(out->dtype) ? RT_C128 : rt_is_float(out->dtype) ? RT_F64 : RT_I64;
    bool direct = rt_is_contiguous(out) && (out->dtype == RT_F32 || out->dtype == wide);
    void *mixed = direct ? out->p : rt_scratch(ctx, (size_t)((n + 1) * rt_itemsize(wide)));
    if (!mixed && n) return RT_ENOMEM;
    if (direct) wide = out->dtype;
    rt_view all = rt_view_contiguous(mixed, wide, out->rank, out->size);
    int code = direct ? RT_OK : rt_copy(ctx, &all, out);
    for (int64_t i = 0; i < n && !code; i++) {
        int64_t count = touched[i] + (include ? 1 : 0);
        if (!touched[i] || count < 2) continue;
        if (wide == RT_F32) ((float *)mixed)[i] = (float)(((float *)mixed)[i] / (double)count);
        else if (wide == RT_F64) ((double *)mixed)[i] /= (double)count;
        else if (wide == RT_C128) ((double _Complex *)mixed)[i] /= (double)count;
        else {
            int64_t v = ((int64_t *)mixed)[i], q = v / count;
            ((int64_t *)mixed)[i] = q - (v % count != 0 && v < 0);
        }
    }
    if (!direct && !code) code = rt_copy(ctx, out, &all);
    if (!direct) rt_scratch_free(ctx, mixed);
    return code;
}

int rt_k_scatter_reduce(const rt_ctx *ctx, const rt_call *c) { /* self, dim, index, src, reduce, include_self */
    const rt_view *out = &c->out[0];
    int mode = mode_of(c, 4), code = RT_OK;
    bool include = rt_arg_int(c, 5), mean = !strcmp(c->arg[4].u.str, "mean");
    int64_t *touched = NULL;
    if (mean) {
        int64_t n = rt_numel(out);
        touched = rt_scratch(ctx, (size_t)(n + 1) * sizeof *touched);
        if (!touched) return RT_ENOMEM;
        memset(touched, 0, (size_t)n * sizeof *touched);
        rt_view counts = rt_view_contiguous(touched, RT_I64, out->rank, out->size);
        code = scatter_as_is(ctx, c, &counts, NULL, "", COUNT);
    }
    if (!code && !include) { /* touched elements forget self */
        double storage[2];
        rt_view one = rt_view_contiguous(storage, out->dtype, 0, NULL);
        code = rt_fill(ctx, &one, identity(mode, out->dtype));
        if (!code) code = scatter_as_is(ctx, c, out, NULL, (const char *)storage, ASSIGN);
    }
    if (!code) code = scatter(ctx, c, rt_arg_view(c, 3), NULL, mode);
    if (!code && mean) code = divide_by_counts(ctx, out, touched, include);
    rt_scratch_free(ctx, touched);
    return code;
}

/* A vector of positions along dim is a scatter whose index does not change along the others. */
int rt_k_index_reduce(const rt_ctx *ctx, const rt_call *c) { /* self, dim, index, source, reduce, include_self */
    const rt_view *out = &c->out[0], *source = rt_arg_view(c, 3);
    int dim = rt_arg_dim(c, 1, out->rank);
    rt_view flat, wide = *source;
    void *scratch = NULL;
    int code = rt_contiguous(ctx, rt_arg_view(c, 2), RT_I64, &flat, &scratch);
    int64_t n = code ? 0 : rt_numel(&flat), most = out->rank ? out->size[dim] : 1;
    for (int64_t i = 0; i < n && !code; i++) {
        int64_t at = ((const int64_t *)flat.p)[i];
        if (at < 0 || at >= most)
            code = rt_fail(ctx, RT_EINDEX, "index_reduce: index %lld is out of range for dimension %d with size %lld",
                           (long long)at, dim, (long long)most);
    }
    wide.p = flat.p;
    wide.dtype = RT_I64;
    for (int d = 0; d < wide.rank; d++) wide.stride[d] = d == dim;
    rt_arg args[6];
    memcpy(args, c->arg, sizeof args);
    args[2].u.view = &wide;
    rt_call call = *c;
    call.arg = args;
    int narrow = out->dtype, rare = narrow == RT_C32                                           ? RT_C64
                                    : narrow == RT_U16 || narrow == RT_U32 || narrow == RT_U64 ? RT_I64
                                                                                               : narrow;
    void *copied[2] = { NULL };
    rt_view whole, values;
    if (!code && rare != narrow) { /* products of these are reduced in a dtype that has loops for it */
        code = rt_contiguous(ctx, out, rare, &whole, &copied[0]);
        if (!code) code = rt_contiguous(ctx, source, rare, &values, &copied[1]);
        call.out = &whole;
        args[3].u.view = &values;
    }
    if (!code) code = rt_k_scatter_reduce(ctx, &call);
    if (!code && rare != narrow) code = rt_copy(ctx, out, &whole);
    for (int i = 0; i < 2; i++) rt_scratch_free(ctx, copied[i]);
    rt_scratch_free(ctx, scratch);
    return code;
}

/* ---- take and put: indices into the flattened tensor ---- */

typedef struct flat_lines { const rt_ctx *ctx; rt_view self, index, other; int mode; } flat_lines;

static int64_t flat_offset(const rt_view *v, int64_t i) {
    int64_t offset = 0;
    for (int d = v->rank - 1; d >= 0; d--) {
        offset += i % v->size[d] * v->stride[d];
        i /= v->size[d];
    }
    return offset;
}

/* Index and the other side are contiguous. */
static int visit_flat(void *arg, int64_t begin, int64_t end) {
    const flat_lines *w = arg;
    int64_t total = rt_numel(&w->self), item = rt_itemsize(w->self.dtype), index_item = rt_itemsize(w->index.dtype);
    int64_t at[RT_INDEX_BLOCK], bad;
    bool dense = rt_is_contiguous(&w->self);
    for (int64_t i = begin, n; i < end; i += n) {
        n = end - i < RT_INDEX_BLOCK ? end - i : RT_INDEX_BLOCK;
        if (!rt_index_load(w->index.dtype, (const char *)w->index.p + i * index_item, 1, n, total, true, 1, at, &bad))
            return rt_fail(w->ctx, RT_EINDEX, "index %lld is out of range for a tensor of %lld elements",
                           (long long)bad, (long long)total);
        for (int64_t k = 0; k < n && !dense; k++) at[k] = flat_offset(&w->self, at[k]);
        char *other = (char *)w->other.p + i * item;
        if (w->mode == RT_INDEX_READ) rt_pick(item, other, 1, w->self.p, 0, at, n);
        else if (w->mode == RT_INDEX_WRITE) rt_put(item, w->self.p, 0, at, other, 1, n);
        else rt_add_at(w->self.dtype, w->self.p, 0, at, other, 1, n);
    }
    return RT_OK;
}

int rt_k_take(const rt_ctx *ctx, const rt_call *c) { /* self, index */
    const rt_view *index = rt_arg_view(c, 1), *out = &c->out[0];
    flat_lines w = { ctx, *rt_arg_view(c, 0), *index, *out, RT_INDEX_READ };
    void *index_scratch = NULL, *scratch = NULL;
    int code = rt_contiguous(ctx, index, index->dtype, &w.index, &index_scratch);
    if (!code && !rt_is_contiguous(out)) {
        scratch = rt_scratch(ctx, (size_t)(rt_numel(out) * rt_itemsize(out->dtype)));
        w.other = rt_view_contiguous(scratch, out->dtype, out->rank, out->size);
        if (!scratch) code = RT_ENOMEM;
    }
    if (!code) code = rt_parallel_for(ctx, rt_numel(index), 4096, visit_flat, &w);
    if (!code && scratch) code = rt_copy(ctx, out, &w.other);
    rt_scratch_free(ctx, scratch);
    rt_scratch_free(ctx, index_scratch);
    return code;
}

int rt_k_put(const rt_ctx *ctx, const rt_call *c) { /* self (as out[0]), index, source, accumulate */
    const rt_view *index = rt_arg_view(c, 1), *source = rt_arg_view(c, 2);
    flat_lines w = { ctx, c->out[0], *index, *source, rt_arg_int(c, 3) ? RT_INDEX_ADD : RT_INDEX_WRITE };
    void *index_scratch = NULL, *scratch = NULL;
    int code = rt_contiguous(ctx, index, index->dtype, &w.index, &index_scratch);
    if (!code) code = rt_contiguous(ctx, source, source->dtype, &w.other, &scratch);
    if (!code) code = visit_flat(&w, 0, rt_numel(index)); /* in order: the last of equal places wins */
    rt_scratch_free(ctx, scratch);
    rt_scratch_free(ctx, index_scratch);
    return code;
}
