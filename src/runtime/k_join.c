/* k_join.c: cat, flip, roll, repeat, padding, triangles: data movement whose source position is known per dimension. */
#include "runtime/kernels.h"
#include "runtime/rt_map.h"

#include <string.h>

int rt_k_cat(const rt_ctx *ctx, const rt_call *c) { /* tensors, dim */
    const rt_view *out = &c->out[0];
    int dim = rt_arg_dim(c, 1, out->rank);
    int64_t at = 0, item = rt_itemsize(out->dtype);
    for (uint32_t i = 0; i < c->arg[0].n; i++) {
        const rt_view *v = c->arg[0].u.views[i];
        if (v->rank == 1 && !v->size[0] && out->rank != 1) continue; /* an empty vector joins anything */
        rt_view part = *out;
        part.size[dim] = v->size[dim];
        part.p = (char *)out->p + at * out->stride[dim] * item;
        at += v->size[dim];
        int code = rt_numel(v) ? rt_copy(ctx, &part, v) : RT_OK;
        if (code) return code;
    }
    return RT_OK;
}

/* Tables that read position i of self at i. */
static void identity(rt_map *map, const rt_view *self, const rt_view *out) {
    for (int d = 0; d < out->rank; d++)
        for (int64_t i = 0; i < out->size[d]; i++) map->table[d][i] = i * self->stride[d];
}

/* Nothing below is done for results without elements: their other sizes may be immense, and tables are made of all of
 * them. */
int rt_k_flip(const rt_ctx *ctx, const rt_call *c) { /* self, dims */
    const rt_view *self = rt_arg_view(c, 0), *out = &c->out[0];
    rt_map map;
    if (!rt_numel(out)) return RT_OK;
    int code = rt_map_open(&map, ctx, out->rank, out->size);
    if (code) return code;
    identity(&map, self, out);
    for (uint32_t k = 0; k < c->arg[1].n && out->rank; k++) {
        int64_t d = c->arg[1].u.ints[k] < 0 ? c->arg[1].u.ints[k] + self->rank : c->arg[1].u.ints[k];
        for (int64_t i = 0; i < out->size[d]; i++) map.table[d][i] = (out->size[d] - 1 - i) * self->stride[d];
    }
    code = rt_map_read(ctx, &map, out, self->p, NULL);
    rt_map_close(&map, ctx);
    return code;
}

int rt_k_roll(const rt_ctx *ctx, const rt_call *c) { /* self, shifts, dims (not empty: the flat case decomposes) */
    const rt_view *self = rt_arg_view(c, 0), *out = &c->out[0];
    rt_map map;
    if (!rt_numel(out)) return RT_OK;
    int code = rt_map_open(&map, ctx, out->rank, out->size);
    if (code) return code;
    identity(&map, self, out);
    for (int d = 0; d < out->rank; d++) {
        int64_t shift = 0, n = out->size[d];
        for (uint32_t k = 0; k < c->arg[2].n; k++) {
            int64_t dim = c->arg[2].u.ints[k] < 0 ? c->arg[2].u.ints[k] + self->rank : c->arg[2].u.ints[k];
            if (dim == d && n) shift = (shift + c->arg[1].u.ints[k] % n + n) % n;
        }
        for (int64_t i = 0; i < n; i++) map.table[d][i] = (i + n - shift) % n * self->stride[d];
    }
    code = rt_map_read(ctx, &map, out, self->p, NULL);
    rt_map_close(&map, ctx);
    return code;
}

int rt_k_repeat(const rt_ctx *ctx, const rt_call *c) { /* self, repeats */
    const rt_view *self = rt_arg_view(c, 0), *out = &c->out[0];
    rt_map map;
    if (!rt_numel(out)) return RT_OK;
    int code = rt_map_open(&map, ctx, out->rank, out->size);
    if (code) return code;
    int lead = out->rank - self->rank;
    for (int d = 0; d < out->rank; d++)
        for (int64_t i = 0; i < out->size[d]; i++)
            map.table[d][i] = d < lead ? 0 : i % self->size[d - lead] * self->stride[d - lead];
    code = rt_map_read(ctx, &map, out, self->p, NULL);
    rt_map_close(&map, ctx);
    return code;
}

/* ---- padding: pairs (before, after) from the last dimension on ---- */

enum { PAD_CONSTANT, PAD_REFLECT, PAD_REPLICATE, PAD_CIRCULAR };

static int64_t pad_source(int mode, int64_t i, int64_t n) { /* i: position relative to self, may be outside [0, n) */
    if (i >= 0 && i < n) return i;
    if (mode == PAD_REPLICATE) return i < 0 ? 0 : n - 1;
    if (mode == PAD_REFLECT) return i < 0 ? -i : 2 * (n - 1) - i;
    if (mode == PAD_CIRCULAR) return i < 0 ? i + n : i - n;
    return RT_MAP_FILL;
}

/* `inner`: the tensor that is padded; `outer`: the padded one. Tables map outer positions to inner offsets. */
static int open_padding(rt_map *map, const rt_ctx *ctx, const rt_arg *pad, int mode, const rt_view *inner,
                        const rt_view *outer) {
    int code = rt_map_open(map, ctx, outer->rank, outer->size);
    if (code) return code;
    for (int d = 0; d < outer->rank; d++) {
        int pair = outer->rank - 1 - d;
        int64_t before = (uint32_t)(2 * pair) < pad->n ? pad->u.ints[2 * pair] : 0;
        for (int64_t i = 0; i < outer->size[d]; i++) {
            int64_t from = pad_source(mode, i - before, inner->size[d]);
            map->table[d][i] = from == RT_MAP_FILL ? RT_MAP_FILL : from * inner->stride[d];
        }
    }
    return RT_OK;
}

static int pad(const rt_ctx *ctx, const rt_call *c, int mode, const void *fill) {
    const rt_view *self = rt_arg_view(c, 0), *out = &c->out[0];
    rt_map map;
    if (!rt_numel(out)) return RT_OK;
    int code = open_padding(&map, ctx, &c->arg[1], mode, self, out);
    if (!code) code = rt_map_read(ctx, &map, out, self->p, fill);
    rt_map_close(&map, ctx);
    return code;
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
    rt_map map;
    if (code || !rt_numel(grad)) return code;
    code = open_padding(&map, ctx, &c->arg[2], mode, out, grad);
    if (!code) code = rt_map_add(ctx, &map, grad, out->p);
    rt_map_close(&map, ctx);
    return code;
}
int rt_k_reflection_pad_backward(const rt_ctx *ctx, const rt_call *c) { return pad_backward(ctx, c, PAD_REFLECT); }
int rt_k_replication_pad_backward(const rt_ctx *ctx, const rt_call *c) { return pad_backward(ctx, c, PAD_REPLICATE); }
int rt_k_circular_pad_backward(const rt_ctx *ctx, const rt_call *c) { return pad_backward(ctx, c, PAD_CIRCULAR); }

/* ---- triangles ---- */

static int triangle(const rt_ctx *ctx, const rt_call *c, bool lower) { /* self, diagonal */
    const rt_view *self = rt_arg_view(c, 0), *out = &c->out[0];
    int64_t diagonal = rt_arg_int(c, 1), rows = self->size[self->rank - 2], cols = self->size[self->rank - 1],
            item = rt_itemsize(out->dtype);
    int code = rt_copy(ctx, out, self);
    if (code || !rt_numel(out)) return code;
    diagonal = diagonal < -rows ? -rows : diagonal > cols ? cols : diagonal;
    int64_t batch = rt_numel(out) / (rows * cols), row_step = out->stride[out->rank - 2],
            col_step = out->stride[out->rank - 1];
    for (int64_t b = 0; b < batch; b++) {
        int64_t rest = b, base = 0;
        for (int d = out->rank - 3; d >= 0; d--) {
            base += rest % out->size[d] * out->stride[d];
            rest /= out->size[d];
        }
        for (int64_t i = 0; i < rows; i++) {
            int64_t edge = i + diagonal; /* lower keeps j <= edge, upper keeps j >= edge */
            int64_t from = lower ? (edge + 1 < 0 ? 0 : edge + 1) : 0, to = lower ? cols : (edge > cols ? cols : edge);
            for (int64_t j = from; j < to; j++)
                memset((char *)out->p + (base + i * row_step + j * col_step) * item, 0, (size_t)item);
        }
    }
    return RT_OK;
}
int rt_k_tril(const rt_ctx *ctx, const rt_call *c) { return triangle(ctx, c, true); }
int rt_k_triu(const rt_ctx *ctx, const rt_call *c) { return triangle(ctx, c, false); }
