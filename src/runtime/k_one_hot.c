/* k_one_hot.c: class numbers as rows of zeros with one 1. */
#include "runtime/kernels.h"

int rt_k_one_hot(const rt_ctx *ctx, const rt_call *c) { /* self, num_classes */
    const rt_view *self = rt_arg_view(c, 0);
    int64_t n = rt_numel(self), classes = rt_arg_int(c, 1), top = -1;
    rt_view flat;
    void *scratch = NULL;
    int code = rt_contiguous(ctx, self, RT_I64, &flat, &scratch);
    if (code) return code;
    const int64_t *x = flat.p;
    for (int64_t i = 0; i < n && !code; i++) {
        if (x[i] > top) top = x[i];
        if (x[i] < 0) code = rt_fail(ctx, RT_ERUNTIME, "one_hot: class %lld is negative", (long long)x[i]);
        else if (x[i] == INT64_MAX)
            code = rt_fail(ctx, RT_ERUNTIME, "one_hot: class %lld is beyond what a size can be", (long long)x[i]);
        else if (classes != -1 && x[i] >= classes)
            code = rt_fail(ctx, RT_ERUNTIME, "one_hot: class %lld must be less than num_classes (%lld)",
                           (long long)x[i], (long long)classes);
    }
    if (!code && c->phase == RT_COUNT) c->count[0] = classes == -1 ? top + 1 : classes;
    if (!code && c->phase == RT_FILL) {
        const rt_view *out = &c->out[0];
        code = rt_fill(ctx, out, (rt_scalar){ .kind = RT_ARG_INT });
        for (int64_t i = 0; i < n && !code; i++) {
            int64_t at = x[i] * out->stride[out->rank - 1], rest = i;
            for (int d = out->rank - 2; d >= 0; d--) {
                at += rest % out->size[d] * out->stride[d];
                rest /= out->size[d];
            }
            ((int64_t *)out->p)[at] = 1;
        }
    }
    rt_scratch_free(ctx, scratch);
    return code;
}
