/* k_unique.c: the different elements of a tensor, or its different slices along one dimension.
 *
 * Both are one problem: n rows of `width` keys (rt_order.h), ordered by a stable sort of their positions (or left in
 * place for unique_consecutive) and cut where a row differs from the one before. A NaN differs from everything, itself
 * included. The count phase does the same work without results. */
#include "runtime/kernels.h"
#include "runtime/rt_order.h"

#include <string.h>

typedef struct rows {
    uint64_t *keys;    /* NULL: rows that stay in place are compared as they are */
    const char *flat;
    int64_t *order, *spare, n, width;
    int dtype;
} rows;

static bool ordered(const rows *r, int64_t a, int64_t b) { /* row a does not come after row b */
    const uint64_t *x = r->keys + a * r->width, *y = r->keys + b * r->width;
    for (int64_t i = 0; i < r->width; i++)
        if (x[i] != y[i]) return x[i] < y[i];
    return true;
}

/* Numbers that differ from themselves are in no two rows alike; zeros of either sign are one. */
#define SAME(T)                                                                                                        \
    static bool same_##T(const T *x, const T *y, int64_t n) {                                                          \
        bool same = true;                                                                                              \
        for (int64_t i = 0; i < n && same; i++) same = x[i] == y[i];                                                   \
        return same;                                                                                                   \
    }
SAME(float)
SAME(double)

static bool compares_plainly(int dtype) { return dtype == RT_F32 || dtype == RT_F64 || rt_is_integer(dtype); }

static bool same_plainly(const rows *r, int64_t a, int64_t b) {
    int64_t bytes = r->width * rt_itemsize(r->dtype);
    const void *x = r->flat + a * bytes, *y = r->flat + b * bytes;
    if (r->dtype == RT_F32) return same_float(x, y, r->width);
    return r->dtype == RT_F64 ? same_double(x, y, r->width) : !memcmp(x, y, (size_t)bytes);
}

static bool same(const rows *r, int64_t a, int64_t b) {
    if (!r->keys) return same_plainly(r, a, b);
    const uint64_t *x = r->keys + a * r->width, *y = r->keys + b * r->width;
    for (int64_t i = 0; i < r->width; i++)
        if (x[i] != y[i] || rt_order_is_nan(r->dtype, x[i], false)) return false;
    return true;
}

static void merge_sort(rows *r) {
    int64_t *from = r->order, *to = r->spare, n = r->n;
    for (int64_t width = 1; width < n; width *= 2) {
        for (int64_t i = 0; i < n; i += 2 * width) {
            int64_t mid = i + width < n ? i + width : n, end = i + 2 * width < n ? i + 2 * width : n, a = i, b = mid;
            for (int64_t k = i; k < end; k++)
                to[k] = a < mid && (b >= end || ordered(r, from[a], from[b])) ? from[a++] : from[b++];
        }
        int64_t *swap = from;
        from = to;
        to = swap;
    }
    r->order = from;
    r->spare = to;
}

/* Rows of one key: the keys themselves are sorted. */
static int sort(const rt_ctx *ctx, rows *r) {
    if (r->width != 1) {
        merge_sort(r);
        return RT_OK;
    }
    rt_pair *pairs = rt_scratch(ctx, (size_t)(2 * r->n) * sizeof *pairs);
    if (!pairs) return RT_ENOMEM;
    for (int64_t i = 0; i < r->n; i++) pairs[i] = (rt_pair){ r->keys[i], i };
    rt_order_sort(pairs, pairs + r->n, r->n, rt_order_bits(r->dtype));
    for (int64_t i = 0; i < r->n; i++) r->order[i] = pairs[i].at;
    rt_scratch_free(ctx, pairs);
    return RT_OK;
}

/* The rows along `dim` (-1: every element is one) first, as keys where they are to be ordered. */
static int open_rows(const rt_ctx *ctx, const rt_view *self, int dim, bool sorted, rows *r, rt_view *front,
                     void **memory) {
    int64_t numel = rt_numel(self);
    bool keyed = sorted || !compares_plainly(self->dtype);
    *front = *self;
    if (dim >= 0) {
        memmove(front->size + 1, self->size, (size_t)dim * sizeof *front->size);
        memmove(front->stride + 1, self->stride, (size_t)dim * sizeof *front->stride);
        front->size[0] = self->size[dim];
        front->stride[0] = self->stride[dim];
    }
    r->n = dim >= 0 ? self->size[dim] : numel;
    r->width = r->n ? numel / r->n : 0;
    r->dtype = self->dtype;
    rt_view turned = *front;
    int code = rt_contiguous(ctx, &turned, self->dtype, front, &memory[0]);
    if (code) return code;
    memory[1] = rt_scratch(ctx, (size_t)((keyed ? numel : 0) + 2 * r->n) * sizeof(uint64_t));
    if (!memory[1]) return RT_ENOMEM;
    r->flat = front->p;
    r->keys = keyed ? memory[1] : NULL;
    r->order = (int64_t *)memory[1] + (keyed ? numel : 0);
    r->spare = r->order + r->n;
    if (keyed) rt_order_keys(self->dtype, front->p, 1, numel, r->keys);
    for (int64_t i = 0; i < r->n; i++) r->order[i] = i;
    return RT_OK;
}

/* Row first[k] of `front` becomes row k of the values, whose dimension `dim` is the rows. */
static int store_values(const rt_ctx *ctx, const rt_view *front, int dim, const int64_t *first, int64_t count,
                        int64_t width, const rt_view *out) {
    rt_view from, to = *out;
    size_t bytes = (size_t)(width * rt_itemsize(front->dtype));
    if (dim >= 0) {
        memmove(to.size + 1, out->size, (size_t)dim * sizeof *to.size);
        memmove(to.stride + 1, out->stride, (size_t)dim * sizeof *to.stride);
        to.size[0] = out->size[dim];
        to.stride[0] = out->stride[dim];
    }
    bool direct = rt_is_contiguous(&to);
    char *chosen = direct ? to.p : rt_scratch(ctx, (size_t)count * bytes);
    if (!chosen && (!direct || count)) return RT_ENOMEM;
    for (int64_t k = 0; k < count && bytes; k++)
        memcpy(chosen + (size_t)k * bytes, (const char *)front->p + (size_t)first[k] * bytes, bytes);
    if (direct) return RT_OK;
    from = rt_view_contiguous(chosen, front->dtype, to.rank, to.size);
    int code = rt_copy(ctx, &to, &from);
    rt_scratch_free(ctx, chosen);
    return code;
}

static int unique(const rt_ctx *ctx, const rt_call *c, int dim, bool sorted) {
    const rt_view *self = rt_arg_view(c, 0);
    if (self->dtype == RT_C32 || self->dtype == RT_C64 || self->dtype == RT_C128)
        return rt_fail(ctx, RT_ENOTIMPL,
                       "not implemented for complex numbers, which have no order; use view_as_real and unique_dim");
    rows r;
    rt_view front;
    void *memory[2] = { NULL }, *numbers = NULL;
    int code = open_rows(ctx, self, dim, sorted, &r, &front, memory);
    if (!code && sorted) code = sort(ctx, &r);
    int64_t count = 0;
    if (code) goto out;
    if (c->phase == RT_COUNT) {
        for (int64_t i = 0; i < r.n; i++) count += !i || !same(&r, r.order[i - 1], r.order[i]);
        c->count[0] = count;
    } else if (!(numbers = rt_scratch(ctx, (size_t)(3 * r.n) * sizeof(int64_t)))) {
        code = RT_ENOMEM;
    } else {
        int64_t *first = numbers, *counts = first + r.n, *inverse = counts + r.n;
        for (int64_t i = 0; i < r.n; i++) {
            if (!i || !same(&r, r.order[i - 1], r.order[i])) first[count] = r.order[i], counts[count++] = 0;
            counts[count - 1]++;
            inverse[r.order[i]] = count - 1;
        }
        code = store_values(ctx, &front, dim, first, count, r.width, &c->out[0]);
        rt_view from = rt_view_contiguous(inverse, RT_I64, c->out[1].rank, c->out[1].size);
        if (!code && rt_numel(&c->out[1])) code = rt_copy(ctx, &c->out[1], &from);
        from = rt_view_contiguous(counts, RT_I64, c->out[2].rank, c->out[2].size);
        if (!code && rt_numel(&c->out[2])) code = rt_copy(ctx, &c->out[2], &from);
    }
out:
    rt_scratch_free(ctx, numbers);
    for (int i = 0; i < 2; i++) rt_scratch_free(ctx, memory[i]);
    return code;
}

/* self, sorted, return_inverse, return_counts */
int rt_k_unique2(const rt_ctx *ctx, const rt_call *c) { return unique(ctx, c, -1, true); }
int rt_k_unique_dim(const rt_ctx *ctx, const rt_call *c) { /* self, dim, sorted, return_inverse, return_counts */
    return unique(ctx, c, rt_arg_dim(c, 1, rt_arg_view(c, 0)->rank), true);
}
int rt_k_unique_consecutive(const rt_ctx *ctx, const rt_call *c) { /* self, return_inverse, return_counts, dim */
    return unique(ctx, c, rt_arg_is_none(c, 3) ? -1 : rt_arg_dim(c, 3, rt_arg_view(c, 0)->rank), false);
}
