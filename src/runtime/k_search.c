/* k_search.c: searchsorted and bucketize, a binary search per value.
 *
 * Sequence and values are brought to the dtype they promote to and then to its compute class, so there are three
 * comparisons. They are written negated: a NaN in the sequence is passed over, hence counts as large. */
#include "runtime/kernels.h"
#include "runtime/rt_reduce.h"
#include "runtime/rt_search.h"

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

/* Eight values are looked for side by side, without a branch on what is compared: no processor would foresee it, and
 * the reads of one search are waited for while those of the others are under way. */
enum { LANES = RT_SEARCH_LANES };
#define SEARCH(NAME, T)                                                                                                \
    static void NAME(const search *s, int64_t first, int64_t value, int64_t lanes, int64_t *at) {                      \
        const T *row = (const T *)s->rows + first, *v = (const T *)s->values + value;                                  \
        const int64_t *sorter = s->sorter ? s->sorter + first : NULL;                                                  \
        int64_t left[LANES];                                                                                           \
        for (int64_t i = 0; i < lanes; i++) at[i] = 0, left[i] = s->n;                                                 \
        for (int64_t most = s->n; most; most /= 2) /* of all lanes */                                                  \
            for (int64_t i = 0; i < lanes; i++) {                                                                      \
                int64_t half = left[i] / 2, mid = at[i] + half, here = mid < s->n ? mid : s->n - 1;                    \
                T x = row[sorter ? sorter[here] : here];                                                               \
                bool before = s->right ? !(x > v[i]) : !(x >= v[i]);                                                   \
                int64_t passed = -(int64_t)((left[i] != 0) & before);                                                  \
                at[i] += (half + 1) & passed;                                                                          \
                left[i] = half - ((2 * half + 1 - left[i]) & passed);                                                  \
            }                                                                                                          \
    }
SEARCH(search_f32, float)
SEARCH(search_f64, double)
SEARCH(search_i64, int64_t)

void rt_search_not_above(const double *row, int64_t n, const double *values, int64_t lanes, int64_t *at) {
    search s = { .rows = (const char *)row, .values = (const char *)values, .n = n, .right = true };
    search_f64(&s, 0, 0, lanes, at);
}

static int run_values(void *arg, int64_t begin, int64_t end) {
    const search *s = arg;
    int64_t at[LANES];
    for (int64_t i = begin, lanes; i < end; i += lanes) {
        int64_t row = i / s->per_row, rest = (row + 1) * s->per_row - i, first = row * s->n;
        lanes = rest < end - i ? rest : end - i;
        if (lanes > LANES) lanes = LANES;
        if (s->compute == RT_F32) search_f32(s, first, i, lanes, at);
        else if (s->compute == RT_F64) search_f64(s, first, i, lanes, at);
        else search_i64(s, first, i, lanes, at);
        for (int64_t k = 0; k < lanes; k++) {
            if (s->narrow) ((int32_t *)s->out)[i + k] = (int32_t)at[k];
            else ((int64_t *)s->out)[i + k] = at[k];
        }
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
