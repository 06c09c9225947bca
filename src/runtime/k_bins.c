/* k_bins.c: how often each number occurs, and its inverse: each position as often as a number says. */
#include "runtime/kernels.h"

#include <string.h>

int rt_k_bincount(const rt_ctx *ctx, const rt_call *c) { /* self, weights, minlength */
    const rt_view *weights = rt_arg_view(c, 1);
    rt_view self, each;
    void *scratch[3] = { NULL };
    int64_t n = 0, bins = rt_arg_int(c, 2);
    int code = rt_contiguous(ctx, rt_arg_view(c, 0), RT_I64, &self, &scratch[0]);
    if (!code) n = rt_numel(&self);
    for (int64_t i = 0; i < n && !code; i++) {
        int64_t x = ((const int64_t *)self.p)[i];
        if (x < 0) code = rt_fail(ctx, RT_ERUNTIME, "bincount: numbers must not be negative, got %lld", (long long)x);
        else if (x == INT64_MAX) code = rt_fail(ctx, RT_ERUNTIME, "bincount: %lld is too large a number", (long long)x);
        else if (x >= bins) bins = x + 1;
    }
    if (code || c->phase == RT_COUNT) {
        if (!code) c->count[0] = bins;
        rt_scratch_free(ctx, scratch[0]);
        return code;
    }
    const rt_view *out = &c->out[0];
    bool weighed = weights && n;
    if (weighed) code = rt_contiguous(ctx, weights, RT_F64, &each, &scratch[1]);
    if (!code && !(scratch[2] = rt_scratch(ctx, (size_t)bins * 8))) code = RT_ENOMEM;
    if (!code) {
        if (bins) memset(scratch[2], 0, (size_t)bins * 8);
        for (int64_t i = 0; i < n; i++) {
            int64_t x = ((const int64_t *)self.p)[i];
            if (weighed) ((double *)scratch[2])[x] += ((const double *)each.p)[i];
            else ((int64_t *)scratch[2])[x]++;
        }
        rt_view sums = rt_view_contiguous(scratch[2], weighed ? RT_F64 : RT_I64, 1, &bins);
        code = rt_copy(ctx, out, &sums);
    }
    for (int i = 0; i < 3; i++) rt_scratch_free(ctx, scratch[i]);
    return code;
}

int rt_k_repeat_interleave(const rt_ctx *ctx, const rt_call *c) { /* repeats, output_size */
    rt_view repeats;
    void *scratch = NULL;
    int64_t total = 0, n = 0;
    int code = rt_contiguous(ctx, rt_arg_view(c, 0), RT_I64, &repeats, &scratch);
    if (!code) n = rt_numel(&repeats);
    for (int64_t i = 0; i < n && !code; i++) {
        int64_t times = ((const int64_t *)repeats.p)[i];
        if (times < 0)
            code = rt_fail(ctx, RT_ERUNTIME, "repeat_interleave: repeats must not be negative, got %lld",
                           (long long)times);
        else if (__builtin_add_overflow(total, times, &total))
            code = rt_fail(ctx, RT_ERUNTIME, "repeat_interleave: the repeats add up to too large a number");
    }
    if (!code && !rt_arg_is_none(c, 1) && rt_arg_int(c, 1) != total)
        code = rt_fail(ctx, RT_ERUNTIME, "repeat_interleave: output_size is %lld, but the repeats add up to %lld",
                       (long long)rt_arg_int(c, 1), (long long)total);
    if (!code && c->phase == RT_COUNT) c->count[0] = total;
    if (!code && c->phase == RT_FILL) {
        const rt_view *out = &c->out[0];
        int64_t at = 0, item = rt_itemsize(out->dtype);
        for (int64_t i = 0; i < n; i++)
            for (int64_t k = 0; k < ((const int64_t *)repeats.p)[i]; k++, at++) {
                char *to = (char *)out->p + at * out->stride[0] * item;
                if (item == 8) *(int64_t *)to = i;
                else *(int32_t *)to = (int32_t)i;
            }
    }
    rt_scratch_free(ctx, scratch);
    return code;
}
