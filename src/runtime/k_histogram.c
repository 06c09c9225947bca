/* k_histogram.c: how many elements fall into each of equal bins.
 *
 * A bin is found by one division, not by search, so which side of an edge an element lands on hangs on rounding: every
 * step is rounded to the tensor's dtype (exact in double first, since one operation on f32 numbers or narrower rounds
 * the same through f64). Counts are whole numbers until the end. */
#include "runtime/kernels.h"

#include <math.h>
#include <string.h>

static double round_to(int dtype, double x) {
    if (dtype == RT_F64) return x;
    if (dtype == RT_F16) return rt_f16_to_f32(rt_f32_to_f16((float)x));
    if (dtype == RT_BF16) return rt_bf16_to_f32(rt_f32_to_bf16((float)x));
    return (float)x;
}

int rt_k_histc(const rt_ctx *ctx, const rt_call *c) { /* self, bins, min, max */
    const rt_view *self = rt_arg_view(c, 0), *out = &c->out[0];
    int dtype = self->dtype;
    if (dtype != RT_F64 && dtype != RT_F32 && dtype != RT_F16 && dtype != RT_BF16)
        return rt_fail(ctx, RT_ENOTIMPL, "histc: not implemented for %s; convert the tensor to a floating dtype",
                       rt_dtype_name(dtype));
    int64_t bins = rt_arg_int(c, 1), n = rt_numel(self);
    double low = rt_arg_float(c, 2), high = rt_arg_float(c, 3);
    rt_view flat;
    void *scratch = NULL;
    int code = rt_contiguous(ctx, self, RT_F64, &flat, &scratch);
    if (code) return code;
    const double *x = flat.p;
    if (low == high && n) {
        low = high = x[0];
        for (int64_t i = 1; i < n && low == low; i++) {
            if (!(x[i] >= low)) low = x[i];
            if (!(x[i] <= high)) high = x[i];
        }
    }
    if (low == high && isfinite(low)) low -= 1, high += 1;
    if (!isfinite(low) || !isfinite(high)) {
        rt_scratch_free(ctx, scratch);
        return rt_fail(ctx, RT_ERUNTIME, "histc: the range of bins [%g, %g] must be finite; pass min and max", low,
                       high);
    }
    int64_t *count = rt_scratch(ctx, (size_t)bins * sizeof *count);
    if (!count) {
        rt_scratch_free(ctx, scratch);
        return RT_ENOMEM;
    }
    memset(count, 0, (size_t)bins * sizeof *count);
    low = round_to(dtype, low);
    high = round_to(dtype, high);
    double span = round_to(dtype, high - low), many = round_to(dtype, (double)bins);
    for (int64_t i = 0; i < n; i++) {
        if (!(x[i] >= low && x[i] <= high)) continue;
        double at = round_to(dtype, round_to(dtype, round_to(dtype, x[i] - low) * many) / span);
        int64_t bin = at >= 0 && at < (double)bins ? (int64_t)at : bins - 1;
        count[bin]++;
    }
    rt_view counts = rt_view_contiguous(count, RT_I64, 1, &bins);
    code = rt_copy(ctx, out, &counts);
    rt_scratch_free(ctx, count);
    rt_scratch_free(ctx, scratch);
    return code;
}
