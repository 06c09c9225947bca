/* k_search.c: searchsorted and bucketize, a binary search per value.
 *
 * Sequence and values are brought to the dtype they promote to and then to its compute class, so there are three
 * comparisons. They are written negated: a NaN in the sequence is passed over, hence counts as large. */
#include "runtime/kernels.h"
#include "runtime/rt_reduce.h"

typedef struct search {
    const char *rows, *values;
    const int64_t *sorter; /* positions in each row in ascending order, or NULL */
    char *out;
    int64_t n, per_row;    /* length of a row; values per row */
    int compute;
    bool right, narrow;    /* narrow: int32 positions */
} search;

/* bool, integers, floats, complex */
static int category(int dtype) {
    if (dtype == RT_BOOL) return 0;
    if (dtype == RT_F16 || dtype == RT_BF16 || dtype == RT_F32 || dtype == RT_F64) return 2;
    return dtype == RT_C32 || dtype == RT_C64 || dtype == RT_C128 ? 3 : 1;
}

/* The dtype two tensors promote to: the higher category wins, then a tensor with dimensions, then the wider one. */
static int promote(const rt_view *a, const rt_view *b) {
    int x = a->dtype, y = b->dtype;
    if (x == y) return x;
    if (category(x) != category(y)) return category(x) > category(y) ? x : y;
    if (!a->rank != !b->rank) return a->rank ? x : y;
    if (rt_itemsize(x) != rt_itemsize(y)) return rt_itemsize(x) > rt_itemsize(y) ? x : y;
    return category(x) == 2 ? RT_F32 : RT_I16; /* f16 with bf16; u8 with i8 */
}

#define SEARCH(NAME, T)                                                                            \
    static int64_t NAME(const T *row, const int64_t *sorter, int64_t n, T value, bool right) {     \
        int64_t begin = 0, end = n;                                                                \
        while (begin < end) {                                                                      \
            int64_t mid = begin + (end - begin) / 2;                                               \
            T x = row[sorter ? sorter[mid] : mid];                                                 \
            if (right ? !(x > value) : !(x >= value)) begin = mid + 1;                             \
            else end = mid;                                                                        \
        }                                                                                          \
        return begin;                                                                              \
    }
SEARCH(search_f32, float)
SEARCH(search_f64, double)
SEARCH(search_i64, int64_t)

static int run_values(void *arg, int64_t begin, int64_t end) {
    const search *s = arg;
    for (int64_t i = begin; i < end; i++) {
        int64_t first = i / s->per_row * s->n, at;
        const int64_t *sorter = s->sorter ? s->sorter + first : NULL;
        if (s->compute == RT_F32)
            at = search_f32((const float *)s->rows + first, sorter, s->n, ((const float *)s->values)[i], s->right);
        else if (s->compute == RT_F64)
            at = search_f64((const double *)s->rows + first, sorter, s->n, ((const double *)s->values)[i], s->right);
        else at = search_i64((const int64_t *)s->rows + first, sorter, s->n, ((const int64_t *)s->values)[i], s->right);
        if (s->narrow) ((int32_t *)s->out)[i] = (int32_t)at;
        else ((int64_t *)s->out)[i] = at;
    }
    return RT_OK;
}

/* A dense copy in `common`, then in the compute class: the first step rounds. */
static int prepare(const rt_ctx *ctx, const rt_view *v, int common, int compute, rt_view *out, void **scratch) {
    rt_view rounded;
    void *first = NULL;
    int code = rt_contiguous(ctx, v, common, &rounded, &first);
    if (code) return code;
    code = rt_contiguous(ctx, &rounded, compute, out, scratch);
    if (!code && !*scratch) *scratch = first;
    else rt_scratch_free(ctx, first);
    return code;
}

static int run(const rt_ctx *ctx, const rt_view *rows, const rt_view *values, const rt_view *sorter, bool right,
               const rt_view *out) {
    int common = promote(rows, values);
    if (category(common) == 0 || category(common) == 3)
        return rt_fail(ctx, RT_ENOTIMPL,
                       "searchsorted: not implemented for bool and complex values; convert them to an ordered number "
                       "type");
    int64_t numel = rt_numel(values), n = rows->size[rows->rank - 1];
    search s = { .n = n,
                 .per_row = rows->rank == 1 ? numel : values->size[values->rank - 1],
                 .compute = rt_compute_dtype(common),
                 .right = right,
                 .narrow = out->dtype == RT_I32 };
    rt_view a, b, order, flat = rt_view_contiguous(NULL, out->dtype, out->rank, out->size);
    void *scratch[4] = { NULL };
    int code = prepare(ctx, rows, common, s.compute, &a, &scratch[0]);
    if (!code) code = prepare(ctx, values, common, s.compute, &b, &scratch[1]);
    if (!code && sorter) code = rt_contiguous(ctx, sorter, RT_I64, &order, &scratch[2]);
    if (!code && sorter) {
        s.sorter = order.p;
        for (int64_t i = 0, all = rt_numel(sorter); i < all && !code; i++)
            if (s.sorter[i] < 0 || s.sorter[i] >= n)
                code = rt_fail(ctx, RT_ERUNTIME, "searchsorted: sorter holds %lld, but the sequence has %lld elements",
                               (long long)s.sorter[i], (long long)n);
    }
    if (!code && numel) {
        flat.p = scratch[3] = rt_scratch(ctx, (size_t)(numel * rt_itemsize(out->dtype)));
        s.rows = a.p, s.values = b.p, s.out = flat.p;
        code = flat.p ? rt_parallel_for(ctx, numel, 1024, run_values, &s) : RT_ENOMEM;
        if (!code) code = rt_copy(ctx, out, &flat);
    }
    for (int i = 0; i < 4; i++) rt_scratch_free(ctx, scratch[i]);
    return code;
}

int rt_k_searchsorted(const rt_ctx *ctx, const rt_call *c) { /* sorted_sequence, self, out_int32, right, side, sorter */
    bool right = rt_arg_int(c, 3) || (!rt_arg_is_none(c, 4) && c->arg[4].u.str[0] == 'r');
    return run(ctx, rt_arg_view(c, 0), rt_arg_view(c, 1), rt_arg_view(c, 5), right, &c->out[0]);
}
int rt_k_bucketize(const rt_ctx *ctx, const rt_call *c) { /* self, boundaries, out_int32, right */
    return run(ctx, rt_arg_view(c, 1), rt_arg_view(c, 0), NULL, rt_arg_int(c, 3), &c->out[0]);
}
