/* k_view.c: kernels that only move elements: copies, reshapes that cannot be views, writes into a part of the result.
 *
 * A part is described by the same arguments as the view it would be; parts are windows on out[0] here, and rt_copy does
 * the work. */
#include "runtime/kernels.h"
#include "runtime/rt_index.h"

#include <string.h>

/* ---- copying, with care for a source that shares memory with the result ---- */

typedef struct span { uintptr_t begin, end; } span;

static span span_of(const rt_view *v) {
    int64_t last = 0;
    for (int i = 0; i < v->rank; i++) last += (v->size[i] - 1) * v->stride[i];
    uintptr_t begin = (uintptr_t)v->p;
    return (span){ begin, begin + (uintptr_t)((last + 1) * rt_itemsize(v->dtype)) };
}

/* Every place of the span holds one element? */
static bool is_dense(const rt_view *v) {
    span s = span_of(v);
    if ((int64_t)(s.end - s.begin) != rt_numel(v) * rt_itemsize(v->dtype)) return false;
    for (int i = 0; i < v->rank; i++)
        if (v->size[i] > 1 && !v->stride[i]) return false;
    return true;
}

static bool same_places(const rt_view *a, const rt_view *b) {
    if (a->p != b->p || a->dtype != b->dtype || a->rank != b->rank) return false;
    for (int i = 0; i < a->rank; i++)
        if (a->size[i] != b->size[i] || (a->size[i] > 1 && a->stride[i] != b->stride[i])) return false;
    return true;
}

static int copy_into(const rt_ctx *ctx, const rt_view *dst, const rt_view *src) {
    if (!rt_numel(dst) || !rt_numel(src) || same_places(dst, src)) return RT_OK;
    span d = span_of(dst), s = span_of(src);
    if (d.begin >= s.end || s.begin >= d.end) return rt_copy(ctx, dst, src);
    if (is_dense(dst) && is_dense(src))
        return rt_fail(ctx, RT_ERUNTIME,
                       "some elements of the source and of the written-to tensor refer to a single memory location; "
                       "clone() the source first");
    /* The elements may or may not coincide: read all before writing any. */
    void *p = rt_scratch(ctx, (size_t)(rt_numel(src) * rt_itemsize(src->dtype)));
    if (!p) return RT_ENOMEM;
    rt_view copy = rt_view_contiguous(p, src->dtype, src->rank, src->size);
    int code = rt_copy(ctx, &copy, src);
    if (!code) code = rt_copy(ctx, dst, &copy);
    rt_scratch_free(ctx, p);
    return code;
}

/* clone(self), _to_copy(self), ...: argument 0 in the result's dtype and layout. */
RT_KERNEL(rt_k_copy_self) { return copy_into(ctx, &c->out[0], rt_arg_view(c, 0)); }

/* copy(self, src): the result starts as self. */
RT_KERNEL(rt_k_copy) { return copy_into(ctx, &c->out[0], rt_arg_view(c, 1)); }

/* reshape(self, ...): the elements in row-major order under another shape. */
RT_KERNEL(rt_k_reshape) {
    const rt_view *out = &c->out[0], *self = rt_arg_view(c, 0);
    if (!rt_numel(out)) return RT_OK;
    if (rt_is_contiguous(out)) {
        rt_view dst = rt_view_contiguous(out->p, out->dtype, self->rank, self->size);
        return rt_copy(ctx, &dst, self);
    }
    rt_view flat;
    void *scratch;
    int code = rt_contiguous(ctx, self, self->dtype, &flat, &scratch);
    if (code) return code;
    rt_view src = rt_view_contiguous(flat.p, flat.dtype, out->rank, out->size);
    code = rt_copy(ctx, out, &src);
    rt_scratch_free(ctx, scratch);
    return code;
}

RT_KERNEL(rt_k_nothing) {
    (void)ctx;
    (void)c;
    return RT_OK;
}

/* ---- parts: arguments from position `at` on say which ---- */

static void drop_dim(rt_view *v, int d) {
    v->rank--;
    memmove(v->size + d, v->size + d + 1, (size_t)(v->rank - d) * sizeof *v->size);
    memmove(v->stride + d, v->stride + d + 1, (size_t)(v->rank - d) * sizeof *v->stride);
}

static void advance(rt_view *v, int64_t elements) { v->p = (char *)v->p + elements * rt_itemsize(v->dtype); }

static rt_view part_select(const rt_call *c, int at, rt_view v) {
    int d = rt_arg_dim(c, at, v.rank);
    int64_t i = rt_arg_int(c, at + 1);
    advance(&v, (i < 0 ? i + v.size[d] : i) * v.stride[d]);
    drop_dim(&v, d);
    return v;
}

static int64_t slice_end(const rt_call *c, int at, int64_t size, int64_t fallback) {
    if (rt_arg_is_none(c, at)) return fallback;
    int64_t i = rt_arg_int(c, at);
    if (i < 0) i += size;
    return i < 0 ? 0 : i > size ? size : i;
}

static rt_view part_slice(const rt_call *c, int at, rt_view v) {
    int d = rt_arg_dim(c, at, v.rank);
    int64_t size = v.size[d], step = rt_arg_int(c, at + 3);
    int64_t start = slice_end(c, at + 1, size, 0), end = slice_end(c, at + 2, size, size);
    int64_t length = end > start ? end - start : 0;
    advance(&v, start * v.stride[d]);
    v.size[d] = length / step + (length % step != 0);
    v.stride[d] *= step;
    return v;
}

static rt_view part_diagonal(const rt_call *c, int at, rt_view v) {
    int64_t offset = rt_arg_int(c, at);
    int a = rt_arg_dim(c, at + 1, v.rank), b = rt_arg_dim(c, at + 2, v.rank);
    int64_t rows = v.size[a] + (offset < 0 ? offset : 0), columns = v.size[b] - (offset > 0 ? offset : 0);
    int64_t length = rows < columns ? rows : columns, stride = v.stride[a] + v.stride[b];
    if (length < 0) length = 0;
    if (length) advance(&v, offset >= 0 ? offset * v.stride[b] : -offset * v.stride[a]);
    drop_dim(&v, a > b ? a : b);
    drop_dim(&v, a > b ? b : a);
    v.size[v.rank] = length;
    v.stride[v.rank++] = stride;
    return v;
}

/* Elements from the first one's place to the end of the last one; false: beyond 64 bits, or before the start. */
static bool reach_of(const rt_view *v, int64_t offset, int64_t *out) {
    int64_t reach = offset, span;
    bool fits = offset >= 0;
    *out = 0;
    for (int i = 0; i < v->rank; i++)
        if (!v->size[i]) return true;
    for (int i = 0; fits && i < v->rank; i++)
        fits = v->size[i] > 0 && v->stride[i] >= 0 && !__builtin_mul_overflow(v->size[i] - 1, v->stride[i], &span) &&
               !__builtin_add_overflow(reach, span, &reach);
    return fits && !__builtin_add_overflow(reach, 1, out);
}

static rt_view part_as_strided(const rt_call *c, int at, rt_view v) {
    v.rank = (int32_t)c->arg[at].n;
    for (int i = 0; i < v.rank; i++) {
        v.size[i] = c->arg[at].u.ints[i];
        v.stride[i] = c->arg[at + 1].u.ints[i];
    }
    if (v.p && !rt_arg_is_none(c, at + 2)) advance(&v, rt_arg_int(c, at + 2));
    return v;
}

#define SCATTER(name)                                                                                                  \
    RT_KERNEL(rt_k_##name##_scatter) {                                                                                 \
        rt_view part = part_##name(c, 2, c->out[0]);                                                                   \
        return copy_into(ctx, &part, rt_arg_view(c, 1));                                                               \
    }
SCATTER(select)
SCATTER(slice)
SCATTER(diagonal)

/* as_strided_scatter: places are those of self's memory, so the work is done in a copy of it, gaps included. */
RT_KERNEL(rt_k_as_strided_scatter) {
    const rt_view *self = rt_arg_view(c, 0), *src = rt_arg_view(c, 1);
    if (!rt_numel(self)) return RT_OK;
    span s = span_of(self);
    rt_view whole = *self, shape = part_as_strided(c, 2, (rt_view){ .dtype = self->dtype });
    int64_t reach, room = (int64_t)(s.end - s.begin) / rt_itemsize(self->dtype);
    if (!reach_of(&shape, rt_arg_is_none(c, 4) ? 0 : rt_arg_int(c, 4), &reach) || reach > room)
        return rt_fail(ctx, RT_ERUNTIME, "the part reaches beyond a tensor of %lld elements", (long long)room);
    whole.p = rt_scratch(ctx, (size_t)(s.end - s.begin));
    if (!whole.p) return RT_ENOMEM;
    rt_view part = part_as_strided(c, 2, whole);
    int code = rt_copy(ctx, &whole, self);
    if (!code && rt_numel(src)) code = rt_copy(ctx, &part, src);
    if (!code) code = rt_copy(ctx, &c->out[0], &whole);
    rt_scratch_free(ctx, whole.p);
    return code;
}

static int fill_zero(const rt_ctx *ctx, const rt_view *v) { return rt_fill(ctx, v, (rt_scalar){ .kind = RT_ARG_INT }); }

#define BACKWARD(name)                                                                                                 \
    RT_KERNEL(rt_k_##name##_backward) {                                                                                \
        int code = fill_zero(ctx, &c->out[0]);                                                                         \
        rt_view part = part_##name(c, 2, c->out[0]);                                                                   \
        return code ? code : rt_copy(ctx, &part, rt_arg_view(c, 0));                                                   \
    }
BACKWARD(select)
BACKWARD(slice)
BACKWARD(diagonal)

/* ---- unfold_backward: windows may overlap, so gradients add up ---- */

/* unfold_backward(grad_in, input_sizes, dim, size, step): element w of window k came from place k*step + w. */
RT_KERNEL(rt_k_unfold_backward) {
    const rt_view *out = &c->out[0], *grad = rt_arg_view(c, 0);
    int code = fill_zero(ctx, out);
    if (code || !rt_numel(grad)) return code;
    int dim = rt_arg_dim(c, 2, out->rank), last = grad->rank - 1;
    int64_t size = rt_arg_int(c, 3), step = rt_arg_int(c, 4), item = rt_itemsize(out->dtype);
    if (!out->rank) {
        rt_add_run(out->dtype, out->p, 0, grad->p, grad->stride[last], size);
        return RT_OK;
    }
    int64_t index[RT_MAX_RANK] = { 0 };
    for (;;) { /* over all of grad but its last dimension, the place in the window */
        int64_t to = 0, from = 0;
        for (int i = 0; i < last; i++) {
            to += index[i] * out->stride[i] * (i == dim ? step : 1);
            from += index[i] * grad->stride[i];
        }
        rt_add_run(out->dtype, (char *)out->p + to * item, out->stride[dim], (const char *)grad->p + from * item,
                   grad->stride[last], size);
        int d = last - 1;
        while (d >= 0 && ++index[d] == grad->size[d]) index[d--] = 0;
        if (d < 0) return RT_OK;
    }
}
