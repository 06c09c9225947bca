/* k_index.c: advanced indexing, selection and masks. Along-one-dimension gathers and scatters are in k_gather.c. */
#include "runtime/kernels.h"
#include "runtime/rt_index.h"

#include <string.h>

/* Values in self's dtype, broadcast to the plan's result shape. */
static int prepare_values(const rt_ctx *ctx, const rt_index_plan *plan, const rt_view *values, int dtype, rt_view *out,
                          void **scratch) {
    int64_t size[RT_MAX_RANK];
    int rank = rt_index_shape(plan, size);
    rt_view cast = *values;
    *scratch = NULL;
    if (values->dtype != dtype) {
        int code = rt_contiguous(ctx, values, dtype, &cast, scratch);
        if (code) return code;
    }
    rt_view v = cast;
    while (v.rank > rank && v.size[0] == 1) { /* PyTorch drops leading ones of the values */
        memmove(v.size, v.size + 1, (size_t)(v.rank - 1) * sizeof *v.size);
        memmove(v.stride, v.stride + 1, (size_t)(v.rank - 1) * sizeof *v.stride);
        v.rank--;
    }
    return rt_broadcast_to(ctx, &v, rank, size, out);
}

static int read_at(const rt_ctx *ctx, const rt_view *self, const rt_view *const *indices, int n, bool wraps,
                   const rt_view *out) {
    rt_index_plan plan;
    int code = rt_index_open(&plan, ctx, self, indices, n, wraps);
    if (!code) code = rt_index_run(&plan, self, out, RT_INDEX_READ);
    rt_index_close(&plan);
    return code;
}

int rt_k_index(const rt_ctx *ctx, const rt_call *c) { /* self, indices */
    const rt_arg *indices = &c->arg[1];
    if (c->phase == RT_COUNT) {
        int at = 0;
        for (uint32_t i = 0; i < indices->n && at < RT_MAX_RANK; i++) {
            const rt_view *v = indices->u.views[i];
            bool mask = v && (v->dtype == RT_BOOL || v->dtype == RT_U8);
            int code = mask ? rt_count_true(ctx, v, &c->count[at++]) : RT_OK;
            if (code) return code;
        }
        return RT_OK;
    }
    return read_at(ctx, rt_arg_view(c, 0), indices->u.views, (int)indices->n, true, &c->out[0]);
}

static int put(const rt_ctx *ctx, const rt_view *self, const rt_view *const *indices, int n, bool wraps,
               const rt_view *values, int mode) {
    rt_index_plan plan;
    rt_view broadcast;
    void *scratch = NULL;
    int code = rt_index_open(&plan, ctx, self, indices, n, wraps);
    if (!code) code = prepare_values(ctx, &plan, values, self->dtype, &broadcast, &scratch);
    if (!code) code = rt_index_run(&plan, self, &broadcast, mode);
    rt_scratch_free(ctx, scratch);
    rt_index_close(&plan);
    return code;
}

int rt_k_index_put(const rt_ctx *ctx, const rt_call *c) { /* self (as out[0]), indices, values, accumulate */
    int mode = rt_arg_int(c, 3) ? RT_INDEX_ADD : RT_INDEX_WRITE;
    return put(ctx, &c->out[0], c->arg[1].u.views, (int)c->arg[1].n, true, rt_arg_view(c, 2), mode);
}

static rt_view at_least_1d(const rt_view *v) {
    rt_view out = *v;
    if (!out.rank) out.rank = 1, out.size[0] = 1, out.stride[0] = 1;
    return out;
}

/* One index tensor for dimension `dim`. A 0-d index counts as one element. */
static int along(const rt_ctx *ctx, const rt_view *self, int dim, const rt_view *index, bool wraps,
                 const rt_view *values, int mode) {
    rt_view flat = at_least_1d(index), whole = at_least_1d(self);
    const rt_view *indices[RT_MAX_RANK] = { NULL };
    indices[dim] = &flat;
    if (mode == RT_INDEX_READ) return read_at(ctx, &whole, indices, dim + 1, wraps, values);
    return put(ctx, &whole, indices, dim + 1, wraps, values, mode);
}

/* These do not wrap negative indices; index_fill does. */
int rt_k_index_select(const rt_ctx *ctx, const rt_call *c) { /* self, dim, index */
    const rt_view *self = rt_arg_view(c, 0);
    rt_view out = at_least_1d(&c->out[0]);
    return along(ctx, self, rt_arg_dim(c, 1, self->rank), rt_arg_view(c, 2), false, &out, RT_INDEX_READ);
}
static int update_along(const rt_ctx *ctx, const rt_call *c, const rt_view *source, int mode) {
    const rt_view *self = &c->out[0];
    rt_view values = at_least_1d(source);
    return along(ctx, self, rt_arg_dim(c, 1, self->rank), rt_arg_view(c, 2), false, &values, mode);
}
int rt_k_index_copy(const rt_ctx *ctx, const rt_call *c) { /* self, dim, index, source */
    return update_along(ctx, c, rt_arg_view(c, 3), RT_INDEX_WRITE);
}

int rt_k_index_add(const rt_ctx *ctx, const rt_call *c) { /* self, dim, index, source, alpha */
    const rt_view *source = rt_arg_view(c, 3);
    rt_scalar alpha = rt_arg_scalar(c, 4);
    bool one = (alpha.kind == RT_ARG_INT && alpha.i == 1) || (alpha.kind == RT_ARG_FLOAT && alpha.f == 1);
    rt_view scaled = *source;
    void *scratch = NULL;
    int code = RT_OK;
    if (!one) {
        int wide = rt_is_complex(source->dtype) ? RT_C128 : rt_is_float(source->dtype) ? RT_F64 : RT_I64;
        int64_t n = rt_numel(source);
        scratch = rt_scratch(ctx, (size_t)(n * rt_itemsize(wide)));
        if (!scratch) return RT_ENOMEM;
        scaled = rt_view_contiguous(scratch, wide, source->rank, source->size);
        code = rt_copy(ctx, &scaled, source);
        for (int64_t i = 0; i < n && !code; i++) {
            if (wide == RT_F64) ((double *)scratch)[i] *= alpha.kind == RT_ARG_INT ? (double)alpha.i : alpha.f;
            else if (wide == RT_I64)
                ((uint64_t *)scratch)[i] *= (uint64_t)(alpha.kind == RT_ARG_INT ? alpha.i : (int64_t)alpha.f);
            else {
                double _Complex a = alpha.kind == RT_ARG_INT ? (double)alpha.i : alpha.f;
                __imag__ a = alpha.im;
                ((double _Complex *)scratch)[i] *= a;
            }
        }
    }
    if (!code) code = update_along(ctx, c, &scaled, RT_INDEX_ADD);
    rt_scratch_free(ctx, scratch);
    return code;
}

static int index_fill(const rt_ctx *ctx, const rt_call *c, const rt_view *value) {
    const rt_view *self = &c->out[0];
    return along(ctx, self, rt_arg_dim(c, 1, self->rank), rt_arg_view(c, 2), true, value, RT_INDEX_WRITE);
}
int rt_k_index_fill_tensor(const rt_ctx *ctx, const rt_call *c) { return index_fill(ctx, c, rt_arg_view(c, 3)); }
int rt_k_index_fill_scalar(const rt_ctx *ctx, const rt_call *c) { /* self, dim, index, value */
    double storage[2];
    rt_view value = rt_view_contiguous(storage, c->out[0].dtype, 0, NULL);
    int code = rt_fill_number(ctx, &value, rt_arg_scalar(c, 3));
    return code ? code : index_fill(ctx, c, &value);
}

int rt_k_embedding(const rt_ctx *ctx, const rt_call *c) { /* weight, indices, padding_idx, scale_grad_by_freq, sparse */
    const rt_view *indices = rt_arg_view(c, 1);
    return read_at(ctx, rt_arg_view(c, 0), &indices, 1, false, &c->out[0]);
}

/* Columns of the sums are shared by threads: rows of gradients are added in the order of their indices. */
typedef struct embedding_sums {
    int dtype;
    char *sums;
    const char *grad;
    const int64_t *at, *counts; /* counts: a row's share is divided by how often it occurs, or NULL */
    int64_t n, width, padding;
} embedding_sums;

static int add_gradients(void *arg, int64_t begin, int64_t end) {
    const embedding_sums *w = arg;
    int64_t item = rt_itemsize(w->dtype);
    for (int64_t i = 0; i < w->n; i++) {
        if (w->at[i] == w->padding) continue;
        char *sums = w->sums + (w->at[i] * w->width + begin) * item;
        const char *grad = w->grad + (i * w->width + begin) * item;
        if (!w->counts) {
            rt_add_run(w->dtype, sums, 1, grad, 1, end - begin);
            continue;
        }
        double share = 1.0 / (double)w->counts[w->at[i]];
        for (int64_t k = 0; k < end - begin; k++) {
            if (w->dtype == RT_F64) ((double *)sums)[k] += ((const double *)grad)[k] * share;
            else if (w->dtype == RT_C128) ((double _Complex *)sums)[k] += ((const double _Complex *)grad)[k] * share;
            else ((uint64_t *)sums)[k] += (uint64_t)(int64_t)((double)((const int64_t *)grad)[k] * share);
        }
    }
    return RT_OK;
}

/* grad_output, indices, num_weights, padding_idx, scale_grad_by_freq. f32 is summed as it is, as PyTorch does. */
int rt_k_embedding_backward(const rt_ctx *ctx, const rt_call *c) {
    const rt_view *out = &c->out[0];
    int64_t rows = out->size[0], width = out->size[1];
    bool shares = rt_arg_int(c, 4);
    int wide = rt_is_complex(out->dtype) ? RT_C128 : rt_is_float(out->dtype) ? RT_F64 : RT_I64;
    if (!shares && out->dtype == RT_F32) wide = RT_F32;
    bool direct = out->dtype == wide && rt_is_contiguous(out);
    size_t bytes = (size_t)(rows * width * rt_itemsize(wide));
    embedding_sums w = { .dtype = wide, .width = width, .padding = rt_arg_int(c, 3) };
    rt_view grad, index;
    void *grad_scratch = NULL, *index_scratch = NULL, *sums = NULL;
    int64_t *counts = NULL;
    int code = rt_contiguous(ctx, rt_arg_view(c, 0), wide, &grad, &grad_scratch);
    if (!code) code = rt_contiguous(ctx, rt_arg_view(c, 1), RT_I64, &index, &index_scratch);
    if (!code && !direct && !(sums = rt_scratch(ctx, bytes))) code = RT_ENOMEM;
    if (!code && !(counts = rt_scratch(ctx, (size_t)rows * sizeof *counts))) code = RT_ENOMEM;
    if (!code) {
        w.n = rt_numel(&index), w.at = index.p, w.grad = grad.p, w.sums = direct ? out->p : sums;
        w.counts = shares ? counts : NULL;
        rt_view table = rt_view_contiguous(w.sums, wide, 2, out->size); /* large: all threads clear it */
        code = rt_fill(ctx, &table, (rt_scalar){ .kind = RT_ARG_INT });
        memset(counts, 0, (size_t)rows * sizeof *counts);
        for (int64_t i = 0; i < w.n && !code; i++) {
            if (w.at[i] < 0 || w.at[i] >= rows)
                code = rt_fail(ctx, RT_EINDEX, "index %lld is out of range for %lld rows", (long long)w.at[i],
                               (long long)rows);
            else counts[w.at[i]]++;
        }
    }
    if (!code) code = rt_parallel_work(ctx, width, w.n, 16384, add_gradients, &w);
    if (!code && !direct) {
        rt_view from = rt_view_contiguous(sums, wide, 2, out->size);
        code = rt_copy(ctx, out, &from);
    }
    rt_scratch_free(ctx, counts);
    rt_scratch_free(ctx, sums);
    rt_scratch_free(ctx, index_scratch);
    rt_scratch_free(ctx, grad_scratch);
    return code;
}

/* ---- masks ---- */

typedef struct place_list { const rt_view *self, *out; } place_list;

/* Indices first + gap[i] along a dimension of `size` become to[i * step], within it; gap[i] says how many times they
 * went beyond its end. Gaps are ascending and below a block's length. */
static void wrap_places(int64_t first, int64_t size, int64_t n, uint32_t *gap, int64_t *to, int64_t step) {
    if (gap[n - 1] < size - first) { /* the usual case: a block within one row */
        for (int64_t i = 0; i < n; i++) to[i * step] = first + gap[i], gap[i] = 0;
        return;
    }
    if (size >= RT_INDEX_BLOCK) {
        for (int64_t i = 0; i < n; i++) {
            bool over = gap[i] >= size - first;
            to[i * step] = first + gap[i] - (over ? size : 0), gap[i] = over;
        }
        return;
    }
    uint64_t by = (UINT64_C(1) << 32) / (uint64_t)size + 1; /* exact below two blocks */
    for (int64_t i = 0; i < n; i++) {
        uint32_t at = (uint32_t)first + gap[i], over = (uint32_t)(at * by >> 32);
        to[i * step] = at - over * (uint32_t)size, gap[i] = over;
    }
}

static int list_places(void *user, int64_t first, int64_t n, const int64_t *at) {
    const place_list *l = user;
    const rt_view *self = l->self, *out = l->out;
    int64_t position = at[0];
    uint32_t gap[RT_INDEX_BLOCK];
    for (int64_t i = 0; i < n; i++) gap[i] = (uint32_t)(at[i] - position);
    for (int d = self->rank - 1; d >= 0; d--) {
        int64_t *column = (int64_t *)out->p + first * out->stride[0] + d * out->stride[1];
        wrap_places(position % self->size[d], self->size[d], n, gap, column, out->stride[0]);
        position /= self->size[d];
    }
    return RT_OK;
}

/* The first places as rows of out; *found: how many there are. */
static int list_all(const rt_ctx *ctx, const rt_view *self, const rt_view *out, int64_t *found) {
    place_list l = { self, out };
    rt_mask mask;
    int code = rt_mask_open(&mask, ctx, self, NULL);
    *found = mask.count;
    if (mask.count > out->size[0]) mask.count = out->size[0];
    if (!code) code = rt_mask_each(&mask, list_places, &l);
    rt_mask_close(&mask);
    return code;
}

int rt_k_nonzero(const rt_ctx *ctx, const rt_call *c) { /* self */
    const rt_view *self = rt_arg_view(c, 0);
    int64_t found;
    return c->phase == RT_COUNT ? rt_count_true(ctx, self, &c->count[0]) : list_all(ctx, self, &c->out[0], &found);
}

int rt_k_nonzero_static(const rt_ctx *ctx, const rt_call *c) { /* self, size, fill_value */
    rt_view rest = c->out[0];
    int64_t found;
    if (!rest.size[0]) return RT_OK;
    int code = list_all(ctx, rt_arg_view(c, 0), &c->out[0], &found);
    if (code || found >= rest.size[0]) return code;
    rest.p = (int64_t *)rest.p + found * rest.stride[0];
    rest.size[0] -= found;
    return rt_fill(ctx, &rest, rt_arg_scalar(c, 2));
}

/* self and mask broadcast together; the chosen elements in row-major order. */
static int common_shape(const rt_ctx *ctx, const rt_view *a, const rt_view *b, rt_view *wide_a, rt_view *wide_b) {
    int rank = a->rank > b->rank ? a->rank : b->rank;
    int64_t size[RT_MAX_RANK];
    for (int d = 0; d < rank; d++) {
        int i = d - (rank - a->rank), j = d - (rank - b->rank);
        int64_t m = i < 0 ? 1 : a->size[i], n = j < 0 ? 1 : b->size[j];
        size[d] = m == 1 ? n : m;
    }
    int code = rt_broadcast_to(ctx, a, rank, size, wide_a);
    return code ? code : rt_broadcast_to(ctx, b, rank, size, wide_b);
}

/* Elements that a mask chooses, on their way to or from a dense vector. */
typedef struct masked { const rt_view *self; char *vector; int64_t item; bool write; } masked;

static int move_chosen(void *user, int64_t first, int64_t n, const int64_t *at) {
    const masked *m = user;
    char *part = m->vector + first * m->item;
    if (m->write) rt_put(m->item, m->self->p, 0, at, part, 1, n);
    else rt_pick(m->item, part, 1, m->self->p, 0, at, n);
    return RT_OK;
}

/* The vector has room for `most` elements. */
static int chosen(const rt_ctx *ctx, rt_view self, rt_view where, void *vector, bool write, int64_t most) {
    rt_mask mask;
    masked m = { &self, vector, rt_itemsize(self.dtype), write };
    int code = rt_mask_open(&mask, ctx, &where, &self);
    if (!code && mask.count > most)
        code = rt_fail(ctx, RT_ERUNTIME, "the mask chooses %lld elements but source has only %lld",
                       (long long)mask.count, (long long)most);
    if (!code) code = rt_mask_each(&mask, move_chosen, &m);
    rt_mask_close(&mask);
    return code;
}

int rt_k_masked_select(const rt_ctx *ctx, const rt_call *c) { /* self, mask */
    const rt_view *out = &c->out[0];
    rt_view self, mask, flat = { 0 };
    int code = common_shape(ctx, rt_arg_view(c, 0), rt_arg_view(c, 1), &self, &mask);
    if (code) return code;
    if (c->phase == RT_COUNT) return rt_count_true(ctx, &mask, &c->count[0]);
    if (rt_is_contiguous(out)) return chosen(ctx, self, mask, out->p, false, out->size[0]);
    flat = rt_view_contiguous(rt_scratch(ctx, (size_t)(out->size[0] * rt_itemsize(out->dtype))), out->dtype, 1,
                              out->size);
    if (!flat.p) return RT_ENOMEM;
    code = chosen(ctx, self, mask, flat.p, false, out->size[0]);
    if (!code) code = rt_copy(ctx, out, &flat);
    rt_scratch_free(ctx, flat.p);
    return code;
}

int rt_k_masked_scatter(const rt_ctx *ctx, const rt_call *c) { /* self (as out[0]), mask, source */
    const rt_view *self = &c->out[0];
    rt_view mask, source;
    void *scratch = NULL;
    int code = rt_broadcast_to(ctx, rt_arg_view(c, 1), self->rank, self->size, &mask);
    if (!code) code = rt_contiguous(ctx, rt_arg_view(c, 2), self->dtype, &source, &scratch);
    if (!code) code = chosen(ctx, *self, mask, source.p, true, rt_numel(&source));
    rt_scratch_free(ctx, scratch);
    return code;
}
