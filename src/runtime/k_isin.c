/* k_isin.c: which elements are among given ones: those are sorted once, then every element is looked for. */
#include "runtime/kernels.h"
#include "runtime/rt_order.h"

typedef struct among {
    const rt_view *elements; /* dense */
    const uint64_t *keys;    /* ascending, no NaN and none twice */
    char *found;             /* dense truth values */
    int64_t n, many;
} among;

enum { PART = 512 };

static int look_up(void *arg, int64_t begin, int64_t end) { /* parts */
    const among *a = arg;
    uint64_t key[PART];
    int64_t item = rt_itemsize(a->elements->dtype);
    for (int64_t part = begin; part < end; part++) {
        int64_t first = part * PART, n = a->n - first < PART ? a->n - first : PART;
        rt_order_keys(a->elements->dtype, (const char *)a->elements->p + first * item, 1, n, key);
        for (int64_t i = 0; i < n; i++) {
            int64_t at = 0, left = a->many; /* the last key that is not above, without a branch on what is compared */
            while (left > 1) {
                int64_t half = left / 2;
                at += half & -(int64_t)(a->keys[at + half] <= key[i]);
                left -= half;
            }
            a->found[first + i] = a->many && a->keys[at] == key[i];
        }
    }
    return RT_OK;
}

/* Sorted, without what equals nothing; returns how many are left. */
static int64_t sort_keys(int dtype, const rt_view *tests, rt_pair *pairs, uint64_t *keys) {
    int64_t n = rt_numel(tests), many = 0;
    rt_order_pairs(dtype, tests->p, 1, n, 0, false, pairs);
    rt_order_sort(pairs, pairs + n, n, rt_order_bits(dtype));
    for (int64_t i = 0; i < n; i++)
        if (!rt_order_is_nan(dtype, pairs[i].key, false) && (!many || keys[many - 1] != pairs[i].key))
            keys[many++] = pairs[i].key;
    return many;
}

RT_KERNEL(rt_k_isin) { /* elements, test_elements: of one dtype that has an order */
    rt_view elements = { 0 }, tests = { 0 };
    const rt_view *out = &c->out[0];
    int dtype = rt_arg_view(c, 0)->dtype;
    int64_t n = rt_numel(rt_arg_view(c, 1));
    void *scratch[5] = { NULL };
    int code = rt_contiguous(ctx, rt_arg_view(c, 0), dtype, &elements, &scratch[0]);
    if (!code) code = rt_contiguous(ctx, rt_arg_view(c, 1), dtype, &tests, &scratch[1]);
    among a = { .elements = &elements, .n = rt_numel(out) };
    scratch[2] = rt_scratch(ctx, (size_t)(2 * n) * sizeof(rt_pair));
    scratch[3] = rt_scratch(ctx, (size_t)n * sizeof(uint64_t));
    bool direct = rt_is_contiguous(out);
    if (!direct) scratch[4] = rt_scratch(ctx, (size_t)a.n);
    if (!code && (!scratch[2] || !scratch[3] || (!direct && !scratch[4]))) code = RT_ENOMEM;
    if (!code) {
        a.keys = scratch[3], a.found = direct ? out->p : scratch[4];
        a.many = sort_keys(dtype, &tests, scratch[2], scratch[3]);
        code = rt_parallel_work(ctx, (a.n + PART - 1) / PART, PART, 512, look_up, &a);
    }
    if (!code && !direct) {
        rt_view found = rt_view_contiguous(a.found, RT_BOOL, out->rank, out->size);
        code = rt_copy(ctx, out, &found);
    }
    for (int i = 0; i < 5; i++) rt_scratch_free(ctx, scratch[i]);
    return code;
}
