/* k_bag_backward.c: derivatives of embedding bags (k_bag.c): what goes to the rows, and what to the samples' weights.
 *
 * Threads share the columns of the rows' gradients: terms are added in the order of their indices, in f32 (f64 for
 * f64), and rounded once. */
#include "runtime/kernels.h"

#include <string.h>

enum { MEAN = 1, MAX = 2 };

typedef struct bag_sums {
    const void *grad;                   /* [bags][width], dense */
    const int64_t *index, *bag, *largest;
    const double *share;                /* of every index */
    void *sums;                         /* [rows][width] */
    int64_t n, bags, width, padding;
    const int64_t *size;                /* of every bag; MAX only */
} bag_sums;

#define DEFINE_SUMS(T)                                                                                                 \
    static int add_rows_##T(void *arg, int64_t begin, int64_t end) {                                                   \
        const bag_sums *w = arg;                                                                                       \
        for (int64_t i = 0; i < w->n; i++) {                                                                           \
            if (w->index[i] == w->padding) continue;                                                                   \
            T *restrict to = (T *)w->sums + w->index[i] * w->width, share = (T)w->share[i];                            \
            const T *restrict from = (const T *)w->grad + w->bag[i] * w->width;                                        \
            for (int64_t k = begin; k < end; k++) to[k] += from[k] * share;                                            \
        }                                                                                                              \
        return RT_OK;                                                                                                  \
    }                                                                                                                  \
    static int add_largest_##T(void *arg, int64_t begin, int64_t end) {                                                \
        const bag_sums *w = arg;                                                                                       \
        for (int64_t b = 0; b < w->bags; b++)                                                                          \
            for (int64_t k = begin; w->size[b] && k < end; k++)                                                        \
                ((T *)w->sums)[w->largest[b * w->width + k] * w->width + k] += ((const T *)w->grad)[b * w->width + k]; \
        return RT_OK;                                                                                                  \
    }                                                                                                                  \
    static double dot_##T(const void *a, const void *b, int64_t n) {                                                   \
        T sum[8] = { 0 };                                                                                              \
        int64_t i = 0;                                                                                                 \
        for (; i + 8 <= n; i += 8)                                                                                     \
            for (int k = 0; k < 8; k++) sum[k] += ((const T *)a)[i + k] * ((const T *)b)[i + k];                       \
        for (; i < n; i++) sum[0] += ((const T *)a)[i] * ((const T *)b)[i];                                            \
        return (double)(((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7])));            \
    }
DEFINE_SUMS(float)
DEFINE_SUMS(double)

static int check_below(const rt_ctx *ctx, const char *what, const int64_t *at, int64_t n, int64_t limit) {
    for (int64_t i = 0; i < n; i++)
        if (at[i] < 0 || at[i] >= limit)
            return rt_fail(ctx, RT_EINDEX, "%s %lld is out of range for %lld rows", what, (long long)at[i],
                           (long long)limit);
    return RT_OK;
}

/* An argument as dense numbers of `dtype`; scratch[*n] is the caller's to free. */
static int dense(const rt_ctx *ctx, const rt_view *v, int dtype, const void **p, void **scratch) {
    rt_view view = { 0 };
    int code = rt_contiguous(ctx, v, dtype, &view, scratch);
    *p = view.p;
    return code;
}

/* What each index counts: its weight, by how many share the row and the bag. */
static int find_shares(const rt_ctx *ctx, const bag_sums *w, int64_t rows, const double *each, bool by_frequency,
                       const int64_t *sizes, double *share) {
    int64_t *times = by_frequency ? rt_scratch(ctx, (size_t)rows * sizeof *times) : NULL;
    if (by_frequency && !times) return RT_ENOMEM;
    if (times) {
        memset(times, 0, (size_t)rows * sizeof *times);
        for (int64_t i = 0; i < w->n; i++) times[w->index[i]]++;
    }
    for (int64_t i = 0; i < w->n; i++) {
        share[i] = each ? each[i] : 1;
        if (times) share[i] /= (double)times[w->index[i]];
        if (sizes && sizes[w->bag[i]] > 1) share[i] /= (double)sizes[w->bag[i]];
    }
    rt_scratch_free(ctx, times);
    return RT_OK;
}

/* grad, indices, offset2bag, bag_size, maximum_indices, num_weights, scale_grad_by_freq, mode, per_sample_weights,
 * padding_idx */
RT_KERNEL(rt_k_embedding_bag_dense_backward) {
    const rt_view *grad = rt_arg_view(c, 0), *factors = rt_arg_view(c, 8), *out = &c->out[0], *bags = rt_arg_view(c, 3);
    int64_t rows = out->size[0], mode = rt_arg_int(c, 7);
    int work = grad->dtype == RT_F64 ? RT_F64 : RT_F32;
    bool direct = out->dtype == work && rt_is_contiguous(out), largest = mode == MAX;
    bag_sums w = { .n = rt_numel(rt_arg_view(c, 1)),
                   .bags = grad->size[0],
                   .width = grad->size[1],
                   .padding = rt_arg_int(c, 9) };
    void *scratch[8] = { NULL };
    const void *each = NULL, *index = NULL, *bag = NULL, *size = NULL, *top = NULL;
    size_t bytes = (size_t)(rows * w.width * rt_itemsize(work));
    int code = dense(ctx, grad, work, &w.grad, &scratch[0]);
    if (!code) code = dense(ctx, rt_arg_view(c, 1), RT_I64, &index, &scratch[1]);
    if (!code) code = dense(ctx, rt_arg_view(c, 2), RT_I64, &bag, &scratch[2]);
    if (!code && mode) code = dense(ctx, bags, RT_I64, &size, &scratch[3]);
    if (!code && largest) code = dense(ctx, rt_arg_view(c, 4), RT_I64, &top, &scratch[4]);
    if (!code && factors && !largest) code = dense(ctx, factors, RT_F64, &each, &scratch[5]);
    if (code) goto out;
    w.index = index, w.bag = bag, w.largest = top, w.size = size;
    if (largest) {
        code = check_below(ctx, "maximum index", w.largest, w.bags * w.width, rows);
    } else {
        code = check_below(ctx, "index", w.index, w.n, rows);
        if (!code) code = check_below(ctx, "bag", w.bag, w.n, w.bags);
        if (!code && mode == MEAN) code = check_below(ctx, "bag", w.bag, w.n, bags->size[0]);
    }
    if (!code && !(w.share = scratch[6] = rt_scratch(ctx, (size_t)w.n * sizeof *w.share))) code = RT_ENOMEM;
    if (!code && !largest)
        code = find_shares(ctx, &w, rows, each, rt_arg_int(c, 6), mode == MEAN ? size : NULL, scratch[6]);
    if (!code && !direct && !(scratch[7] = rt_scratch(ctx, bytes))) code = RT_ENOMEM;
    if (code) goto out;
    w.sums = direct ? out->p : scratch[7];
    if (bytes) memset(w.sums, 0, bytes);
    bool wide = work == RT_F64;
    if (largest) code = rt_parallel_work(ctx, w.width, w.bags, 4096, wide ? add_largest_double : add_largest_float, &w);
    else code = rt_parallel_work(ctx, w.width, w.n, 16384, wide ? add_rows_double : add_rows_float, &w);
    if (!code && !direct) {
        rt_view sums = rt_view_contiguous(w.sums, work, 2, out->size);
        code = rt_copy(ctx, out, &sums);
    }
out:
    for (int i = 0; i < 8; i++) rt_scratch_free(ctx, scratch[i]);
    return code;
}

typedef struct bag_weights {
    const char *grad, *weight; /* dense */
    const int64_t *index, *bag;
    double *result;
    int64_t width, padding;
    bool wide;
} bag_weights;

static int multiply_rows(void *arg, int64_t begin, int64_t end) {
    const bag_weights *w = arg;
    int64_t row = w->width * (w->wide ? 8 : 4);
    for (int64_t i = begin; i < end; i++) {
        const char *a = w->grad + w->bag[i] * row, *b = w->weight + w->index[i] * row;
        if (w->index[i] == w->padding) w->result[i] = 0;
        else w->result[i] = w->wide ? dot_double(a, b, w->width) : dot_float(a, b, w->width);
    }
    return RT_OK;
}

/* The bag of every index: as many offsets as are not beyond it, less one. */
static int find_bags(const rt_ctx *ctx, const int64_t *offset, int64_t offsets, int64_t n, int64_t *bag) {
    if (n) memset(bag, 0, (size_t)n * sizeof *bag);
    for (int64_t b = 0; b < offsets; b++) {
        if (offset[b] < 0 || offset[b] > n)
            return rt_fail(ctx, RT_EINDEX, "offset %lld is out of range for %lld indices", (long long)offset[b],
                           (long long)n);
        if (offset[b] < n) bag[offset[b]]++;
    }
    for (int64_t i = 0, before = -1; i < n; i++) before = bag[i] += before;
    return RT_OK;
}

/* grad, weight, indices, offsets, offset2bag, mode, padding_idx */
RT_KERNEL(rt_k_embedding_bag_weights_backward) {
    const rt_view *grad = rt_arg_view(c, 0), *weight = rt_arg_view(c, 1), *listed = rt_arg_view(c, 4);
    int64_t n = rt_numel(rt_arg_view(c, 2));
    bag_weights w = { .width = grad->size[1], .padding = rt_arg_int(c, 6), .wide = grad->dtype == RT_F64 };
    int work = w.wide ? RT_F64 : RT_F32;
    void *scratch[6] = { NULL };
    const void *from = NULL, *rows = NULL, *index = NULL, *bag = NULL;
    int64_t *found = NULL;
    int code = dense(ctx, grad, work, &from, &scratch[0]);
    if (!code) code = dense(ctx, weight, work, &rows, &scratch[1]);
    if (!code) code = dense(ctx, rt_arg_view(c, 2), RT_I64, &index, &scratch[2]);
    if (!code) code = dense(ctx, listed->size[0] == n ? listed : rt_arg_view(c, 3), RT_I64, &bag, &scratch[3]);
    if (!code && !(w.result = scratch[4] = rt_scratch(ctx, (size_t)n * sizeof *w.result))) code = RT_ENOMEM;
    if (!code && listed->size[0] != n) {
        if (!(found = scratch[5] = rt_scratch(ctx, (size_t)n * sizeof *found))) code = RT_ENOMEM;
        if (!code) code = find_bags(ctx, bag, rt_numel(rt_arg_view(c, 3)), n, found);
        bag = found;
    }
    if (!code) code = check_below(ctx, "index", index, n, weight->size[0]);
    if (!code) code = check_below(ctx, "bag", bag, n, grad->size[0]);
    if (!code) {
        w.grad = from, w.weight = rows, w.index = index, w.bag = bag;
        code = rt_parallel_work(ctx, n, w.width, 8192, multiply_rows, &w);
    }
    if (!code) {
        rt_view result = rt_view_contiguous(w.result, RT_F64, 1, &n);
        code = rt_copy(ctx, &c->out[0], &result);
    }
    for (int i = 0; i < 6; i++) rt_scratch_free(ctx, scratch[i]);
    return code;
}
