/* k_histogram.c: how many elements fall into each of equal bins (histc), and between edges that are given, in one
 * dimension or several.
 *
 * Of equal bins one is found by one division, not by search, so which side of an edge an element lands on hangs on
 * rounding: every step is rounded to the tensor's dtype (exact in double first, since one operation on f32 numbers or
 * narrower rounds the same through f64). Counts are whole numbers until the end. */
#include "runtime/kernels.h"
#include "runtime/rt_search.h"

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

/* ---- edges ---- */

enum { PART = 4096 }; /* elements whose bins a thread finds at a time */
typedef struct edges {
    const rt_view *x; /* dense, of its own dtype */
    const double *edge, *weight; /* weight: or NULL */
    int32_t *bin, *found; /* of each part the bins of what is inside, and how many these are */
    double *share;        /* their weights, or NULL */
    int64_t n, bins;
} edges;

/* Bins of up to PART elements; where only few of them are inside, nothing else is written. */
static void find_part(const edges *e, int64_t part, const double *x, int64_t n) {
    double low = e->edge[0], high = e->edge[e->bins], among[RT_SEARCH_LANES];
    int64_t at[RT_SEARCH_LANES], lanes = 0, found = 0;
    int32_t *bin = e->bin + part * PART;
    for (int64_t i = 0; i < n; i++) {
        bool inside = x[i] >= low && x[i] <= high;
        among[lanes] = x[i];
        if (inside && e->share) e->share[part * PART + found + lanes] = e->weight[part * PART + i];
        lanes += inside;
        if (lanes < RT_SEARCH_LANES && i + 1 < n) continue;
        rt_search_not_above(e->edge, e->bins + 1, among, lanes, at);
        for (int64_t k = 0; k < lanes; k++) { /* the last edge belongs to its bin */
            int64_t b = at[k] - 1;
            bin[found++] = (int32_t)(b < 0 ? 0 : b < e->bins ? b : e->bins - 1);
        }
        lanes = 0;
    }
    e->found[part] = (int32_t)found;
}

static int find_bins(void *arg, int64_t begin, int64_t end) { /* parts */
    const edges *e = arg;
    _Alignas(64) double x[PART];
    for (int64_t part = begin; part < end; part++) {
        int64_t left = e->n - part * PART, n = left < PART ? left : PART, item = rt_itemsize(e->x->dtype);
        rt_convert(RT_F64, x, 1, e->x->dtype, (const char *)e->x->p + part * PART * item, 1, n);
        find_part(e, part, x, n);
    }
    return RT_OK;
}

RT_KERNEL(rt_k_histogram_bins) { /* self, bins, weight, density */
    const rt_view *given = rt_arg_view(c, 0), *bins = rt_arg_view(c, 1), *weight = rt_arg_view(c, 2);
    rt_view self = { 0 }, edge = { 0 }, each = { 0 };
    void *scratch[7] = { NULL };
    int code = rt_contiguous(ctx, given, given->dtype, &self, &scratch[0]);
    if (!code) code = rt_contiguous(ctx, bins, RT_F64, &edge, &scratch[1]);
    if (!code && weight) code = rt_contiguous(ctx, weight, RT_F64, &each, &scratch[2]);
    edges e = { .x = &self, .edge = edge.p, .weight = each.p, .n = rt_numel(given), .bins = bins->size[0] - 1 };
    int64_t parts = (e.n + PART - 1) / PART;
    e.bin = scratch[3] = rt_scratch(ctx, (size_t)(parts * PART) * sizeof *e.bin);
    e.found = scratch[4] = rt_scratch(ctx, (size_t)parts * sizeof *e.found);
    if (weight) e.share = scratch[5] = rt_scratch(ctx, (size_t)(parts * PART) * sizeof *e.share);
    double *sums = scratch[6] = rt_scratch(ctx, (size_t)e.bins * sizeof *sums), total = 0;
    if (!code && (!e.bin || !e.found || (weight && !e.share) || !sums)) code = RT_ENOMEM;
    if (!code && e.bins > INT32_MAX)
        code = rt_fail(ctx, RT_ERUNTIME, "histogram: no more than %d bins, got %lld", INT32_MAX, (long long)e.bins);
    if (!code) code = rt_parallel_work(ctx, parts, PART, 512, find_bins, &e);
    if (!code) {
        memset(sums, 0, (size_t)e.bins * sizeof *sums);
        for (int64_t part = 0; part < parts; part++)
            for (int64_t i = part * PART, last = i + e.found[part]; i < last; i++)
                sums[e.bin[i]] += weight ? e.share[i] : 1;
        for (int64_t k = 0; k < e.bins; k++) total += sums[k];
        for (int64_t k = 0; rt_arg_int(c, 3) && k < e.bins; k++) sums[k] /= total * (e.edge[k + 1] - e.edge[k]);
        rt_view hist = rt_view_contiguous(sums, RT_F64, 1, &e.bins);
        code = rt_copy(ctx, &c->out[0], &hist);
    }
    if (!code) code = rt_copy(ctx, &c->out[1], bins);
    for (size_t i = 0; i < sizeof scratch / sizeof *scratch; i++) rt_scratch_free(ctx, scratch[i]);
    return code;
}

/* ---- edges of several dimensions ---- */

typedef struct grid {
    rt_view edge[RT_MAX_RANK];
    void *scratch[RT_MAX_RANK + 3];
    int dims, used;
} grid;

/* The bin of a point, or -1: it lies outside, or nowhere. */
static int64_t find_cell(const grid *g, const double *x) {
    int64_t cell = 0;
    for (int d = 0; d < g->dims; d++) {
        const double *edge = g->edge[d].p;
        int64_t bins = g->edge[d].size[0] - 1, at;
        if (!(x[d] >= edge[0] && x[d] <= edge[bins])) return -1;
        rt_search_not_above(edge, bins + 1, &x[d], 1, &at);
        at = at < 1 ? 0 : at > bins ? bins - 1 : at - 1;
        cell = cell * bins + at;
    }
    return cell;
}

/* Each number divided by what all are together, and by the room of its bin. */
static void make_density(const grid *g, double *sums, int64_t cells) {
    double total = 0;
    for (int64_t i = 0; i < cells; i++) total += sums[i];
    for (int64_t i = 0; i < cells; i++) {
        int64_t rest = i;
        double room = 1;
        for (int d = g->dims - 1; d >= 0; d--) {
            int64_t bins = g->edge[d].size[0] - 1, k = rest % bins;
            const double *edge = g->edge[d].p;
            room *= edge[k + 1] - edge[k];
            rest /= bins;
        }
        sums[i] /= total * room;
    }
}

RT_KERNEL(rt_k_histogramdd) { /* self, bins, weight, density */
    const rt_view *given = rt_arg_view(c, 0), *weight = rt_arg_view(c, 2), *out = &c->out[0];
    rt_view self = { 0 }, each = { 0 };
    grid g = { .dims = (int)c->arg[1].n };
    int64_t cells = rt_numel(out), points = g.dims ? rt_numel(given) / g.dims : 0;
    int code = rt_contiguous(ctx, given, RT_F64, &self, &g.scratch[g.used++]);
    if (!code && weight) code = rt_contiguous(ctx, weight, RT_F64, &each, &g.scratch[g.used++]);
    for (int d = 0; d < g.dims && !code; d++)
        code = rt_contiguous(ctx, c->arg[1].u.views[d], RT_F64, &g.edge[d], &g.scratch[g.used++]);
    double *sums = rt_scratch(ctx, (size_t)cells * sizeof *sums);
    if (!code && !sums) code = RT_ENOMEM;
    if (!code) {
        memset(sums, 0, (size_t)cells * sizeof *sums);
        for (int64_t i = 0; i < points; i++) {
            int64_t cell = find_cell(&g, (const double *)self.p + i * g.dims);
            if (cell >= 0) sums[cell] += weight ? ((const double *)each.p)[i] : 1;
        }
        if (rt_arg_int(c, 3)) make_density(&g, sums, cells);
        rt_view hist = rt_view_contiguous(sums, RT_F64, out->rank, out->size);
        code = rt_copy(ctx, out, &hist);
    }
    rt_scratch_free(ctx, sums);
    for (int i = 0; i < g.used; i++) rt_scratch_free(ctx, g.scratch[i]);
    return code;
}
