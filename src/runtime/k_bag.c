/* k_bag.c: sums, means and maxima of embedding rows, bag by bag.
 *
 * A bag is the run of indices from its offset to the next one; the last ends with the indices. Rows are added in the
 * order of their indices, in f32 (f64 for f64), and rounded once. */
#include "runtime/kernels.h"

#include <string.h>

enum { SUM, MEAN, MAX };

typedef struct bags {
    const rt_view *weight, *out;
    const int64_t *index, *offset;
    const double *each; /* a factor for every index, or NULL */
    int64_t n, count, width, padding, mode;
    int64_t *largest, *kept; /* [count][width], [count]: rows that are no padding */
    bool wide;
    const rt_ctx *ctx;
} bags;

#define DEFINE_BAG(T)                                                                                                 \
    static void bag_##T(const bags *b, int64_t bag, T *row, T *sum) {                                                 \
        const rt_view *w = b->weight;                                                                                 \
        int dtype = sizeof(T) == 8 ? RT_F64 : RT_F32;                                                                 \
        int64_t begin = b->offset[bag], end = bag + 1 < b->count ? b->offset[bag + 1] : b->n, kept = 0,               \
                item = rt_itemsize(w->dtype);                                                                         \
        int64_t *largest = b->largest ? b->largest + bag * b->width : NULL;                                           \
        for (int64_t k = 0; k < b->width; k++) sum[k] = 0;                                                            \
        for (int64_t i = begin; i < end; i++) {                                                                       \
            if (b->index[i] == b->padding) continue;                                                                  \
            rt_convert(dtype, row, 1, w->dtype, (const char *)w->p + b->index[i] * w->stride[0] * item, w->stride[1], \
                       b->width);                                                                                     \
            if (b->mode == MAX) {                                                                                     \
                for (int64_t k = 0; k < b->width; k++)                                                                \
                    if (!kept || row[k] > sum[k]) sum[k] = row[k], largest[k] = b->index[i];                          \
            } else if (b->each) {                                                                                     \
                for (int64_t k = 0; k < b->width; k++) sum[k] += row[k] * (T)b->each[i];                              \
            } else {                                                                                                  \
                for (int64_t k = 0; k < b->width; k++) sum[k] += row[k];                                              \
            }                                                                                                         \
            kept++;                                                                                                   \
        }                                                                                                             \
        if (b->mode == MEAN && kept)                                                                                  \
            for (int64_t k = 0; k < b->width; k++) sum[k] /= (T)kept;                                                 \
        b->kept[bag] = kept;                                                                                          \
        rt_convert(b->out->dtype, (char *)b->out->p + bag * b->out->stride[0] * rt_itemsize(b->out->dtype),           \
                   b->out->stride[1], dtype, sum, 1, b->width);                                                       \
    }
DEFINE_BAG(float)
DEFINE_BAG(double)

static int run_bags(void *arg, int64_t begin, int64_t end) {
    const bags *b = arg;
    size_t item = b->wide ? sizeof(double) : sizeof(float), bytes = (size_t)b->width * item;
    char *scratch = rt_scratch(b->ctx, 2 * bytes);
    if (!scratch) return RT_ENOMEM;
    for (int64_t i = begin; i < end; i++) {
        if (b->wide) bag_double(b, i, (double *)scratch, (double *)(scratch + bytes));
        else bag_float(b, i, (float *)scratch, (float *)(scratch + bytes));
    }
    rt_scratch_free(b->ctx, scratch);
    return RT_OK;
}

static int check(const rt_ctx *ctx, const bags *b, int64_t offsets, int64_t rows) {
    if (offsets && b->offset[0])
        return rt_fail(ctx, RT_ERUNTIME, "embedding_bag: the first bag must begin at 0, not at %lld",
                       (long long)b->offset[0]);
    for (int64_t i = 1; i < offsets; i++)
        if (b->offset[i] < b->offset[i - 1])
            return rt_fail(ctx, RT_ERUNTIME, "embedding_bag: offsets must not decrease; %lld follows %lld",
                           (long long)b->offset[i], (long long)b->offset[i - 1]);
    if (offsets && b->offset[offsets - 1] > b->n)
        return rt_fail(ctx, RT_ERUNTIME, "embedding_bag: the last offset %lld is beyond the %lld indices",
                       (long long)b->offset[offsets - 1], (long long)b->n);
    for (int64_t i = 0; i < b->n; i++)
        if (b->index[i] < 0 || b->index[i] >= rows)
            return rt_fail(ctx, RT_ERUNTIME, "embedding_bag: index %lld is out of range for %lld rows",
                           (long long)b->index[i], (long long)rows);
    return RT_OK;
}

/* The results besides the rows. out[1] has no elements where it is not wanted. */
static int give_back(const rt_ctx *ctx, const rt_call *c, const bags *b, int64_t *bag_of) {
    int code = RT_OK;
    if (rt_numel(&c->out[1])) {
        int64_t bag = 0;
        for (int64_t i = 0; i < b->n; i++) {
            while (bag + 1 < b->count && b->offset[bag + 1] <= i) bag++;
            bag_of[i] = bag;
        }
        rt_view listed = rt_view_contiguous(bag_of, RT_I64, 1, &b->n);
        code = rt_copy(ctx, &c->out[1], &listed);
    }
    rt_view counts = rt_view_contiguous(b->kept, RT_I64, 1, &b->count);
    for (int k = 2; k < 4 && !code; k++) {
        if (b->mode == SUM) code = rt_fill(ctx, &c->out[k], (rt_scalar){ .kind = RT_ARG_INT });
        else if (k == 3 && b->mode == MAX) break;
        else code = rt_copy(ctx, &c->out[k], &counts);
    }
    if (code || b->mode != MAX) return code;
    rt_view largest = rt_view_contiguous(b->largest, RT_I64, 2, (int64_t[]){ b->count, b->width });
    return rt_copy(ctx, &c->out[3], &largest);
}

/* weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights, include_last_offset, padding_idx */
int rt_k_embedding_bag(const rt_ctx *ctx, const rt_call *c) {
    const rt_view *weight = rt_arg_view(c, 0), *factors = rt_arg_view(c, 6);
    bags b = { .weight = weight,
               .out = &c->out[0],
               .mode = rt_arg_int(c, 4),
               .padding = rt_arg_int(c, 8),
               .width = weight->size[1],
               .wide = weight->dtype == RT_F64,
               .ctx = ctx };
    rt_view index, offset, each;
    void *scratch[3] = { NULL }, *room = NULL;
    b.count = c->out[0].size[0];
    int code = rt_contiguous(ctx, rt_arg_view(c, 1), RT_I64, &index, &scratch[0]);
    if (!code) code = rt_contiguous(ctx, rt_arg_view(c, 2), RT_I64, &offset, &scratch[1]);
    if (!code && factors) code = rt_contiguous(ctx, factors, RT_F64, &each, &scratch[2]);
    if (!code) {
        b.n = index.size[0];
        b.index = index.p;
        b.offset = offset.p;
        b.each = factors ? each.p : NULL;
        code = check(ctx, &b, offset.size[0], weight->size[0]);
    }
    if (!code) {
        int64_t largest = b.mode == MAX ? b.count * b.width : 0;
        int64_t *numbers = room = rt_scratch(ctx, (size_t)(b.count + b.n + largest) * sizeof *numbers);
        if (!numbers) code = RT_ENOMEM;
        else {
            b.kept = numbers;
            b.largest = largest ? numbers + b.count + b.n : NULL;
            if (largest) memset(b.largest, 0, (size_t)largest * sizeof *numbers);
            code = rt_parallel_work(ctx, b.count, b.width * (1 + b.n / (b.count + 1)), 16384, run_bags, &b);
            if (!code) code = give_back(ctx, c, &b, numbers + b.count);
        }
    }
    rt_scratch_free(ctx, room);
    for (int i = 0; i < 3; i++) rt_scratch_free(ctx, scratch[i]);
    return code;
}
