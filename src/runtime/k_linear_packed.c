/* k_linear_packed.c: weights into panels, and linear layers on them with bias, activation, scale and residual at the
 * end of each tile (gemm_packed.c).
 *
 * Panels [p, k, 16]: column j of group g of the weight is panel g * panels_of_a_group + j / 16, lane j % 16; lanes past
 * the end of a group are zero. */
#include "runtime/gemm.h"
#include "runtime/kernels.h"

#include <string.h>

enum { WIDTH = RT_PANEL_BYTES / 4 };

typedef struct packing { rt_gemm_args g; char *out; int64_t groups, panels; } packing;

static int panels_pack(void *arg, int64_t begin, int64_t end) {
    const packing *w = arg;
    int64_t each = w->g.n / w->groups, panel = w->g.k * WIDTH;
    for (int64_t at = begin; at < end; at++) {
        int64_t first = at / w->panels * each, j = at % w->panels * WIDTH;
        rt_gemm_args g = w->g;
        g.b = (const float *)g.b + (first + j) * g.b_col;
        g.n = each - j < WIDTH ? each - j : WIDTH;
        rt_gemm_pack_b(&g, w->out + at * panel * 4);
    }
    return RT_OK;
}

/* pack_panels(weight, transposed, groups): weight [n, k], or [k, n] when transposed. */
RT_KERNEL(rt_k_pack_panels) {
    const rt_view *w = rt_arg_view(c, 0);
    int n = rt_arg_int(c, 1) ? 1 : 0;
    const rt_view *out = &c->out[0];
    if (!rt_numel(out)) return RT_OK;
    packing p = { .groups = rt_arg_int(c, 2), .out = out->p };
    p.g = rt_gemm_plain(RT_F32, 0, w->size[n], w->size[!n], NULL, w->p, NULL);
    p.g.b_col = w->stride[n], p.g.b_row = w->stride[!n];
    p.panels = out->size[0] / p.groups;
    void *dense = NULL;
    if (!rt_is_contiguous(out)) {
        dense = rt_scratch(ctx, (size_t)rt_numel(out) * 4);
        if (!dense) return rt_fail(ctx, RT_ENOMEM, "out of memory for packed weights");
        p.out = dense;
    }
    int code = rt_parallel_work(ctx, out->size[0], p.g.k * WIDTH, 64 * 1024, panels_pack, &p);
    if (!code && dense) {
        rt_view made = rt_view_contiguous(dense, RT_F32, out->rank, out->size);
        code = rt_copy(ctx, out, &made);
    }
    rt_scratch_free(ctx, dense);
    return code;
}

/* Is the last dimension dense, and do the others step as one? *row is that step. */
static bool folds(const rt_view *v, int64_t *row) {
    bool dense = v->size[v->rank - 1] <= 1 || v->stride[v->rank - 1] == 1;
    return dense && rt_rows_fold(v, row);
}

/* v, broadcast to `like`, as rows `*row` apart; a copy in *scratch where it does not lie like that. */
static int rows_of(const rt_ctx *ctx, const rt_view *v, const rt_view *like, const float **p, int64_t *row,
                   void **scratch) {
    rt_view wide = *like;
    wide.p = v->p;
    for (int d = 0; d < like->rank; d++) {
        int at = d - (like->rank - v->rank);
        wide.stride[d] = at < 0 || v->size[at] == 1 ? 0 : v->stride[at];
    }
    if (!folds(&wide, row)) {
        rt_view dense;
        int code = rt_contiguous(ctx, &wide, RT_F32, &dense, scratch);
        if (code) return code;
        wide.p = dense.p;
        *row = like->size[like->rank - 1];
    }
    *p = wide.p;
    return RT_OK;
}

/* linear_packed(input, panels, n, bias, act, scale, residual): act(input w' + bias) * scale + residual */
RT_KERNEL(rt_k_linear_packed) {
    const rt_view *input = rt_arg_view(c, 0), *panels = rt_arg_view(c, 1), *bias = rt_arg_view(c, 3);
    const rt_view *scale = rt_arg_view(c, 5), *residual = rt_arg_view(c, 6), *out = &c->out[0];
    int64_t all = rt_numel(out), n = out->size[out->rank - 1], k = panels->size[1];
    if (!all) return RT_OK;
    rt_post post = { .act = rt_act_find(c->arg[4].u.str) };
    if (post.act < 0) return rt_fail(ctx, RT_EVALUE, "linear_packed: no activation is called '%s'", c->arg[4].u.str);
    void *copies[5] = { 0 }, *result = NULL;
    const float *a = NULL, *b = panels->p;
    int64_t a_row, c_row, none;
    rt_view shape = *input, dense = *out;
    int code = rows_of(ctx, input, &shape, &a, &a_row, &copies[0]);
    if (!code && !rt_is_contiguous(panels)) {
        code = rt_contiguous(ctx, panels, RT_F32, &shape, &copies[1]);
        b = shape.p;
    }
    if (!code && bias) {
        shape = rt_view_contiguous(NULL, RT_F32, 1, &n);
        code = rows_of(ctx, bias, &shape, &post.bias, &none, &copies[2]);
    }
    if (!code && scale) code = rows_of(ctx, scale, out, &post.scale, &post.scale_row, &copies[3]);
    if (!code && residual) code = rows_of(ctx, residual, out, &post.residual, &post.residual_row, &copies[4]);
    if (!code && !folds(out, &c_row)) {
        result = rt_scratch(ctx, (size_t)all * 4);
        if (!result) code = rt_fail(ctx, RT_ENOMEM, "out of memory for the result of linear_packed");
        dense = rt_view_contiguous(result, RT_F32, out->rank, out->size);
        c_row = n;
    }
    if (!code) {
        rt_gemm_args g = rt_gemm_plain(RT_F32, all / n, n, k, a, NULL, dense.p);
        g.a_row = a_row, g.c_row = c_row;
        g.packed_b = b;
        g.post = &post;
        code = rt_gemm(ctx, &g);
    }
    if (!code && result) code = rt_copy(ctx, out, &dense);
    for (int i = 0; i < 5; i++) rt_scratch_free(ctx, copies[i]);
    rt_scratch_free(ctx, result);
    return code;
}

typedef struct gathering { const rt_view *panels, *indices, *out; int64_t n, k; const rt_ctx *ctx; } gathering;

static int rows_gather(void *arg, int64_t begin, int64_t end) {
    const gathering *w = arg;
    for (int64_t at = begin; at < end; at++) {
        int64_t from = 0, to = 0, rest = at, row;
        for (int d = w->indices->rank - 1; d >= 0; d--) {
            int64_t i = rest % w->indices->size[d];
            rest /= w->indices->size[d];
            from += i * w->indices->stride[d];
            to += i * w->out->stride[d];
        }
        const char *index = (const char *)w->indices->p + from * rt_itemsize(w->indices->dtype);
        row = w->indices->dtype == RT_I32 ? *(const int32_t *)(const void *)index
                                          : *(const int64_t *)(const void *)index;
        if (row < 0 || row >= w->n)
            return rt_fail(w->ctx, RT_EINDEX, "index %lld is out of bounds for dimension 0 with size %lld",
                           (long long)row, (long long)w->n);
        const rt_view *p = w->panels;
        const float *x = (const float *)p->p + row / WIDTH * p->stride[0] + row % WIDTH * p->stride[2];
        rt_convert(RT_F32, (float *)w->out->p + to, w->out->stride[w->indices->rank], RT_F32, x, p->stride[1], w->k);
    }
    return RT_OK;
}

/* embedding_packed(panels, indices, n): rows of the weight that the panels were made of; they are its columns there. */
RT_KERNEL(rt_k_embedding_packed) {
    gathering w = {
        rt_arg_view(c, 0), rt_arg_view(c, 1), &c->out[0], rt_arg_int(c, 2), rt_arg_view(c, 0)->size[1], ctx
    };
    return rt_parallel_work(ctx, rt_numel(w.indices), w.k, 4 * 1024, rows_gather, &w);
}
