/* k_gather.c: gather and scatters along one dimension, take and put.
 *
 * An index tensor of the same rank says, for each of its positions, which element along `dim` is meant. Scatters run in
 * order on one thread: with repeated indices the last write wins, as PyTorch's single-threaded order gives. */
#include "runtime/kernels.h"
#include "runtime/rt_index.h"

#include <math.h>
#include <string.h>

enum { ASSIGN, ADD, MULTIPLY, MAXIMUM, MINIMUM };

typedef struct walk {
    rt_view self, index, src; /* rank >= 1; src unused for gathers (src is then the result) */
    int dim, mode;
    const char *value;        /* one element, instead of src */
    const rt_ctx *ctx;
} walk;

static rt_view at_least_1d(const rt_view *v) {
    rt_view out = *v;
    if (!out.rank) out.rank = 1, out.size[0] = 1, out.stride[0] = 1;
    return out;
}

static int64_t index_at(const rt_view *index, int64_t offset) {
    return index->dtype == RT_I32 ? ((const int32_t *)index->p)[offset] : ((const int64_t *)index->p)[offset];
}

/* Visits every position of the index with the element addresses on both sides. */
static int each(const walk *w, int (*visit)(const walk *w, char *self, char *other)) {
    int64_t at[RT_MAX_RANK] = { 0 }, item = rt_itemsize(w->self.dtype);
    if (!rt_numel(&w->index)) return RT_OK;
    int rank = w->index.rank;
    for (;;) {
        int64_t self = 0, index = 0, src = 0;
        for (int d = 0; d < rank; d++) {
            index += at[d] * w->index.stride[d];
            src += at[d] * w->src.stride[d];
            if (d != w->dim) self += at[d] * w->self.stride[d];
        }
        for (int64_t i = 0; i < w->index.size[rank - 1]; i++) { /* the last dimension, without recomputing the rest */
            int64_t k = index_at(&w->index, index + i * w->index.stride[rank - 1]);
            if (k < 0 || k >= w->self.size[w->dim])
                return rt_fail(w->ctx, RT_ERUNTIME, "index %lld is out of bounds for dimension %d with size %lld",
                               (long long)k, w->dim, (long long)w->self.size[w->dim]);
            int64_t offset = self + k * w->self.stride[w->dim] +
                             (rank - 1 != w->dim ? i * w->self.stride[rank - 1] : 0);
            int code = visit(w, (char *)w->self.p + offset * item,
                             w->value ? (char *)w->value
                                      : (char *)w->src.p + (src + i * w->src.stride[rank - 1]) * item);
            if (code) return code;
        }
        int d = rank - 2;
        while (d >= 0 && ++at[d] == w->index.size[d]) at[d--] = 0;
        if (d < 0) return RT_OK;
    }
}

static int read_element(const walk *w, char *self, char *other) {
    memcpy(other, self, (size_t)rt_itemsize(w->self.dtype));
    return RT_OK;
}

int rt_k_gather(const rt_ctx *ctx, const rt_call *c) { /* self, dim, index, sparse_grad */
    const rt_view *self = rt_arg_view(c, 0);
    walk w = { .self = at_least_1d(self),
               .index = at_least_1d(rt_arg_view(c, 2)),
               .src = at_least_1d(&c->out[0]),
               .dim = rt_arg_dim(c, 1, self->rank),
               .ctx = ctx };
    return each(&w, read_element);
}

/* W: the type in which products are taken; those of integers wrap around. */
#define COMBINE(T, W)                                                                                                  \
    {                                                                                                                  \
        T a = *(T *)self, b = *(const T *)other;                                                                       \
        if (w->mode == MULTIPLY) a = (T)((W)a * (W)b);                                                                 \
        else if (w->mode == MAXIMUM) a = b > a || b != b ? b : a;                                                      \
        else a = b < a || b != b ? b : a;                                                                              \
        *(T *)self = a;                                                                                                \
        return RT_OK;                                                                                                  \
    }

static int combine_half(const walk *w, char *self, const char *other) {
    bool bf = w->self.dtype == RT_BF16;
    uint16_t *s = (uint16_t *)self;
    uint16_t o = *(const uint16_t *)other;
    float a = bf ? rt_bf16_to_f32(*s) : rt_f16_to_f32(*s), b = bf ? rt_bf16_to_f32(o) : rt_f16_to_f32(o);
    a = w->mode == MULTIPLY ? a * b : w->mode == MAXIMUM ? (b > a || b != b ? b : a) : (b < a || b != b ? b : a);
    *s = bf ? rt_f32_to_bf16(a) : rt_f32_to_f16(a);
    return RT_OK;
}

static int write_element(const walk *w, char *self, char *other) {
    if (w->mode == ASSIGN) {
        memcpy(self, other, (size_t)rt_itemsize(w->self.dtype));
        return RT_OK;
    }
    if (w->mode == ADD) {
        rt_add_element(w->self.dtype, self, other);
        return RT_OK;
    }
    switch (w->self.dtype) {
    case RT_BOOL:
        *self = w->mode == MAXIMUM ? *self | *other : *self & *other;
        return RT_OK;
    case RT_U8: COMBINE(uint8_t, uint64_t)
    case RT_I8: COMBINE(int8_t, uint64_t)
    case RT_I16: COMBINE(int16_t, uint64_t)
    case RT_I32: COMBINE(int32_t, uint64_t)
    case RT_I64: COMBINE(int64_t, uint64_t)
    case RT_F32: COMBINE(float, float)
    case RT_F64: COMBINE(double, double)
    case RT_C64: if (w->mode == MULTIPLY) { *(float _Complex *)self *= *(float _Complex *)other; return RT_OK; } break;
    case RT_C128:
        if (w->mode == MULTIPLY) {
            *(double _Complex *)self *= *(double _Complex *)other;
            return RT_OK;
        }
        break;
    case RT_F16:
    case RT_BF16: return combine_half(w, self, other);
    default: break;
    }
    return rt_fail(w->ctx, RT_ENOTIMPL, "this reduction has no kernel for dtype %d", w->self.dtype);
}

/* out[0] holds self already. */
static int scatter_as_is(const rt_ctx *ctx, const rt_call *c, const rt_view *self, const rt_view *src,
                         const char *value, int mode) {
    walk w = { .self = at_least_1d(self),
               .index = at_least_1d(rt_arg_view(c, 2)),
               .dim = rt_arg_dim(c, 1, self->rank),
               .mode = mode,
               .value = value,
               .ctx = ctx };
    w.src = src ? at_least_1d(src) : w.index;
    return each(&w, write_element);
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

static int mark_one(const walk *w, char *self, char *other) {
    (void)w, (void)other;
    ++*(int64_t *)self;
    return RT_OK;
}

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

int rt_k_scatter_reduce(const rt_ctx *ctx, const rt_call *c) { /* self, dim, index, src, reduce, include_self */
    const rt_view *out = &c->out[0];
    int mode = mode_of(c, 4);
    bool include = rt_arg_int(c, 5), mean = !strcmp(c->arg[4].u.str, "mean");
    if (include && !mean) return scatter(ctx, c, rt_arg_view(c, 3), NULL, mode);
    int64_t n = rt_numel(out), *touched = rt_scratch(ctx, (size_t)(n + 1) * sizeof *touched);
    if (!touched) return RT_ENOMEM;
    memset(touched, 0, (size_t)n * sizeof *touched);
    rt_view counts = rt_view_contiguous(touched, RT_I64, out->rank, out->size);
    walk w = { .self = at_least_1d(&counts),
               .index = at_least_1d(rt_arg_view(c, 2)),
               .src = at_least_1d(rt_arg_view(c, 2)),
               .dim = rt_arg_dim(c, 1, out->rank),
               .value = "",
               .ctx = ctx };
    int code = each(&w, mark_one);
    int wide = rt_is_complex(out->dtype) ? RT_C128 : rt_is_float(out->dtype) ? RT_F64 : RT_I64;
    void *mixed = code ? NULL : rt_scratch(ctx, (size_t)((n + 1) * rt_itemsize(wide)));
    if (!code && !mixed) code = RT_ENOMEM;
    if (!code && !include) { /* touched elements forget self */
        double storage[2];
        rt_view one = rt_view_contiguous(storage, out->dtype, 0, NULL), flat;
        void *scratch = NULL;
        code = rt_fill(ctx, &one, identity(mode, out->dtype));
        if (!code) code = rt_contiguous(ctx, out, out->dtype, &flat, &scratch);
        int64_t item = rt_itemsize(out->dtype);
        for (int64_t i = 0; i < n && !code; i++)
            if (touched[i]) memcpy((char *)flat.p + i * item, storage, (size_t)item);
        if (!code && scratch) code = rt_copy(ctx, out, &flat);
        rt_scratch_free(ctx, scratch);
    }
    if (!code) code = scatter(ctx, c, rt_arg_view(c, 3), NULL, mode);
    if (!code && mean) {
        rt_view all = rt_view_contiguous(mixed, wide, out->rank, out->size);
        code = rt_copy(ctx, &all, out);
        for (int64_t i = 0; i < n && !code; i++) {
            int64_t count = touched[i] + (include ? 1 : 0);
            if (!touched[i] || count < 2) continue;
            if (wide == RT_F64) ((double *)mixed)[i] /= (double)count;
            else if (wide == RT_C128) ((double _Complex *)mixed)[i] /= (double)count;
            else {
                int64_t v = ((int64_t *)mixed)[i], q = v / count; /* integers round down */
                ((int64_t *)mixed)[i] = q - (v % count != 0 && v < 0);
            }
        }
        if (!code) code = rt_copy(ctx, out, &all);
    }
    rt_scratch_free(ctx, mixed);
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

static int64_t flat_offset(const rt_view *v, int64_t i) {
    int64_t offset = 0;
    for (int d = v->rank - 1; d >= 0; d--) {
        offset += i % v->size[d] * v->stride[d];
        i /= v->size[d];
    }
    return offset;
}

static int each_flat(const rt_ctx *ctx, const rt_view *self, const rt_view *index, const rt_view *other, int mode) {
    int64_t n = rt_numel(index), total = rt_numel(self), item = rt_itemsize(self->dtype);
    for (int64_t i = 0; i < n; i++) {
        int64_t k = index_at(index, flat_offset(index, i));
        if (k < -total || k >= total)
            return rt_fail(ctx, RT_EINDEX, "index %lld is out of range for a tensor of %lld elements", (long long)k,
                           (long long)total);
        char *a = (char *)self->p + flat_offset(self, k < 0 ? k + total : k) * item,
             *b = (char *)other->p + flat_offset(other, i) * item;
        if (mode == RT_INDEX_READ) memcpy(b, a, (size_t)item);
        else if (mode == RT_INDEX_WRITE) memcpy(a, b, (size_t)item);
        else rt_add_element(self->dtype, a, b);
    }
    return RT_OK;
}

/* self, index */
int rt_k_take(const rt_ctx *ctx, const rt_call *c) {
    return each_flat(ctx, rt_arg_view(c, 0), rt_arg_view(c, 1), &c->out[0], RT_INDEX_READ);
}
int rt_k_put(const rt_ctx *ctx, const rt_call *c) { /* self (as out[0]), index, source, accumulate */
    return each_flat(ctx, &c->out[0], rt_arg_view(c, 1), rt_arg_view(c, 2),
                     rt_arg_int(c, 3) ? RT_INDEX_ADD : RT_INDEX_WRITE);
}
