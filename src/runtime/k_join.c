/* k_join.c: cat, flip, roll, repeat, padding, triangles: movement of runs and boxes. */
#include "runtime/kernels.h"
#include "runtime/rt_box.h"
#include "runtime/rt_index.h"

#include <string.h>

int rt_k_cat(const rt_ctx *ctx, const rt_call *c) { /* tensors, dim */
    const rt_view *out = &c->out[0];
    int dim = rt_arg_dim(c, 1, out->rank);
    int64_t at = 0, item = rt_itemsize(out->dtype);
    rt_view part = *out;
    for (uint32_t i = 0; i < c->arg[0].n; i++) {
        const rt_view *v = c->arg[0].u.views[i];
        if (v->rank == 1 && !v->size[0] && out->rank != 1) continue; /* an empty vector joins anything */
        part.size[dim] = v->size[dim];
        part.p = (char *)out->p + at * out->stride[dim] * item;
        at += v->size[dim];
        int code = rt_numel(v) ? rt_copy(ctx, &part, v) : RT_OK;
        if (code) return code;
    }
    return RT_OK;
}

/* Nothing below is done for results without elements: their other sizes may be immense. */
int rt_k_flip(const rt_ctx *ctx, const rt_call *c) { /* self, dims */
    const rt_view *self = rt_arg_view(c, 0), *out = &c->out[0];
    bool turned[RT_MAX_RANK] = { false };
    rt_box_map map = { 0 };
    if (!rt_numel(out)) return RT_OK;
    for (uint32_t k = 0; k < c->arg[1].n && out->rank; k++) {
        int64_t d = c->arg[1].u.ints[k];
        turned[d < 0 ? d + self->rank : d] = true;
    }
    for (int d = 0; d < out->rank; d++)
        rt_box_map_push(&map, d, out->size[d], turned[d] ? out->size[d] - 1 : 0, turned[d] ? -1 : 1);
    return rt_box_map_read(ctx, &map, out, self, NULL);
}

int rt_k_roll(const rt_ctx *ctx, const rt_call *c) { /* self, shifts, dims (not empty: the flat case decomposes) */
    const rt_view *self = rt_arg_view(c, 0), *out = &c->out[0];
    rt_box_map map = { 0 };
    if (!rt_numel(out)) return RT_OK;
    for (int d = 0; d < out->rank; d++) {
        int64_t shift = 0, n = out->size[d];
        for (uint32_t k = 0; k < c->arg[2].n; k++) {
            int64_t dim = c->arg[2].u.ints[k] < 0 ? c->arg[2].u.ints[k] + self->rank : c->arg[2].u.ints[k];
            if (dim == d) shift = (shift + c->arg[1].u.ints[k] % n + n) % n;
        }
        rt_box_map_push(&map, d, shift, n - shift, 1);
        rt_box_map_push(&map, d, n - shift, 0, 1);
    }
    return rt_box_map_read(ctx, &map, out, self, NULL);
}

/* Every dimension is two: how often, which reads the same again, and self's own. */
int rt_k_repeat(const rt_ctx *ctx, const rt_call *c) { /* self, repeats */
    const rt_view *self = rt_arg_view(c, 0), *out = &c->out[0];
    rt_box box = { .dst = out->p, .src = self->p, .dtype = out->dtype };
    if (!rt_numel(out)) return RT_OK;
    int lead = out->rank - self->rank;
    for (int d = 0; d < out->rank; d++) {
        int64_t own = d < lead ? 1 : self->size[d - lead];
        box.size[box.rank] = out->size[d] / own;
        box.to[box.rank] = own * out->stride[d];
        box.from[box.rank++] = 0;
        box.size[box.rank] = own;
        box.to[box.rank] = out->stride[d];
        box.from[box.rank++] = d < lead ? 0 : self->stride[d - lead];
    }
    return rt_box_copy(ctx, &box);
}

/* ---- padding: pairs (before, after) from the last dimension on ---- */

enum { PAD_CONSTANT, PAD_REFLECT, PAD_REPLICATE, PAD_CIRCULAR };

/* Where the positions before self (or behind it) begin to read, the first of them being `i` relative to self. */
static rt_box_run pad_run(int mode, bool behind, int64_t i, int64_t n) {
    if (mode == PAD_REPLICATE) return (rt_box_run){ .at = behind ? n - 1 : 0, .step = 0 };
    if (mode == PAD_REFLECT) return (rt_box_run){ .at = behind ? 2 * (n - 1) - i : -i, .step = -1 };
    if (mode == PAD_CIRCULAR) return (rt_box_run){ .at = behind ? i - n : i + n, .step = 1 };
    return (rt_box_run){ .at = RT_BOX_FILL };
}

static int64_t clamp(int64_t x, int64_t low, int64_t high) { return x < low ? low : x > high ? high : x; }

/* `inner`: the tensor that is padded; `outer`: the padded one. */
static rt_box_map padding_map(const rt_arg *pad, int mode, const rt_view *inner, const rt_view *outer) {
    rt_box_map map = { 0 };
    for (int d = 0; d < outer->rank; d++) {
        int pair = outer->rank - 1 - d;
        int64_t before = (uint32_t)(2 * pair) < pad->n ? pad->u.ints[2 * pair] : 0, n = inner->size[d],
                size = outer->size[d];
        int64_t begin = clamp(before, 0, size), end = clamp(before + n, begin, size);
        rt_box_run front = pad_run(mode, false, -before, n), back = pad_run(mode, true, end - before, n);
        rt_box_map_push(&map, d, begin, front.at, front.step);
        rt_box_map_push(&map, d, end - begin, begin - before, 1);
        rt_box_map_push(&map, d, size - end, back.at, back.step);
    }
    return map;
}

static int pad(const rt_ctx *ctx, const rt_call *c, int mode, const void *fill) {
    const rt_view *self = rt_arg_view(c, 0), *out = &c->out[0];
    if (!rt_numel(out)) return RT_OK;
    rt_box_map map = padding_map(&c->arg[1], mode, self, out);
    return rt_box_map_read(ctx, &map, out, self, fill);
}

int rt_k_constant_pad(const rt_ctx *ctx, const rt_call *c) { /* self, pad, value */
    double storage[2];
    rt_view one = rt_view_contiguous(storage, c->out[0].dtype, 0, NULL);
    int code = rt_fill(ctx, &one, rt_arg_scalar(c, 2));
    return code ? code : pad(ctx, c, PAD_CONSTANT, storage);
}
/* self, padding */
int rt_k_reflection_pad(const rt_ctx *ctx, const rt_call *c) { return pad(ctx, c, PAD_REFLECT, NULL); }
int rt_k_replication_pad(const rt_ctx *ctx, const rt_call *c) { return pad(ctx, c, PAD_REPLICATE, NULL); }
int rt_k_circular_pad(const rt_ctx *ctx, const rt_call *c) { return pad(ctx, c, PAD_CIRCULAR, NULL); }

static int pad_backward(const rt_ctx *ctx, const rt_call *c, int mode) { /* grad_output, self, padding */
    const rt_view *grad = rt_arg_view(c, 0), *out = &c->out[0];
    int code = rt_fill(ctx, out, (rt_scalar){ RT_ARG_INT, 0, 0, 0 });
    if (code || !rt_numel(grad)) return code;
    rt_box_map map = padding_map(&c->arg[2], mode, out, grad);
    return rt_box_map_add(ctx, &map, grad, out);
}
int rt_k_reflection_pad_backward(const rt_ctx *ctx, const rt_call *c) { return pad_backward(ctx, c, PAD_REFLECT); }
int rt_k_replication_pad_backward(const rt_ctx *ctx, const rt_call *c) { return pad_backward(ctx, c, PAD_REPLICATE); }
int rt_k_circular_pad_backward(const rt_ctx *ctx, const rt_call *c) { return pad_backward(ctx, c, PAD_CIRCULAR); }

/* ---- triangles ---- */

/* Rows of matrices, numbered through all of them: the part that is kept is copied, the rest is zero. */
typedef struct triangles { rt_view self, out; int64_t diagonal; bool lower; } triangles;

static int triangle_rows(void *arg, int64_t begin, int64_t end) {
    const triangles *t = arg;
    const rt_view *out = &t->out, *self = &t->self;
    int last = out->rank - 1;
    int64_t cols = out->size[last], item = rt_itemsize(out->dtype), to = out->stride[last], from = self->stride[last];
    static const double zero[2] = { 0, 0 };
    for (int64_t row = begin; row < end; row++) {
        int64_t rest = row, mine = 0, theirs = 0;
        for (int d = last - 1; d >= 0; d--) {
            mine += rest % out->size[d] * out->stride[d];
            theirs += rest % out->size[d] * self->stride[d];
            rest /= out->size[d];
        }
        /* kept: below or from it on */
        int64_t edge = clamp(row % out->size[last - 1] + t->diagonal + t->lower, 0, cols);
        char *y = (char *)out->p + mine * item;
        const char *x = (const char *)self->p + theirs * item;
        int64_t kept = t->lower ? 0 : edge, none = t->lower ? edge : 0, n = t->lower ? edge : cols - edge;
        if (x != y) rt_copy_run(item, y + kept * to * item, to, x + kept * from * item, from, n);
        if (to == 1) memset(y + none * item, 0, (size_t)((cols - n) * item));
        else rt_copy_run(item, y + none * to * item, to, zero, 0, cols - n);
    }
    return RT_OK;
}

static int triangle(const rt_ctx *ctx, const rt_call *c, bool lower) { /* self, diagonal */
    triangles t = { *rt_arg_view(c, 0), c->out[0], rt_arg_int(c, 1), lower };
    int64_t n = rt_numel(&t.out);
    if (!n) return RT_OK;
    int64_t rows = t.out.size[t.out.rank - 2], cols = t.out.size[t.out.rank - 1];
    t.diagonal = clamp(t.diagonal, -rows, cols);
    return rt_parallel_work(ctx, n / cols, cols, 8192, triangle_rows, &t);
}
int rt_k_tril(const rt_ctx *ctx, const rt_call *c) { return triangle(ctx, c, true); }
int rt_k_triu(const rt_ctx *ctx, const rt_call *c) { return triangle(ctx, c, false); }
