/* k_bins.c: how often each number occurs, and its inverse: each position as often as a number says. */
#include "runtime/kernels.h"

#include <string.h>

/* ---- bincount: parts of the numbers are looked at and counted by themselves ---- */

/* Neighbours are counted in tables of their own: an increment waits for the last one of the same bin. */
enum { LANES = 4, PART = 1 << 16, FEW_BINS = 1 << 12, TABLES_MOST = 1 << 19 /* counts in all tables */ };
typedef struct bins {
    const rt_ctx *ctx;
    const int64_t *x;
    int64_t n, part, count, lanes, *largest, *tables; /* largest: of each part */
} bins;

static int look_at_parts(void *arg, int64_t begin, int64_t end) {
    const bins *b = arg;
    for (int64_t p = begin; p < end; p++) {
        int64_t first = p * b->part, last = b->n - first < b->part ? b->n : first + b->part, most = -1, least = 0;
        for (int64_t i = first; i < last; i++) {
            most = b->x[i] > most ? b->x[i] : most;
            least = b->x[i] < least ? b->x[i] : least;
        }
        if (least < 0)
            return rt_fail(b->ctx, RT_ERUNTIME, "bincount: numbers must not be negative, got %lld", (long long)least);
        if (most == INT64_MAX)
            return rt_fail(b->ctx, RT_ERUNTIME, "bincount: %lld is too large a number", (long long)most);
        b->largest[p] = most;
    }
    return RT_OK;
}

static int count_parts(void *arg, int64_t begin, int64_t end) {
    const bins *b = arg;
    for (int64_t p = begin; p < end; p++) {
        int64_t first = p * b->part, last = b->n - first < b->part ? b->n : first + b->part, i = first;
        int64_t *table = b->tables + p * b->lanes * b->count;
        memset(table, 0, (size_t)(b->lanes * b->count) * sizeof *table);
        for (; b->lanes == LANES && i + LANES <= last; i += LANES)
            for (int k = 0; k < LANES; k++) table[k * b->count + b->x[i + k]]++;
        for (; i < last; i++) table[b->x[i]]++;
    }
    return RT_OK;
}

/* How many bins the numbers need; no fewer than b->count. */
static int find_bins(bins *b) {
    int64_t parts = (b->n + PART - 1) / PART;
    b->part = PART;
    if (!(b->largest = rt_scratch(b->ctx, (size_t)(parts + 1) * sizeof *b->largest))) return RT_ENOMEM;
    int code = rt_parallel_work(b->ctx, parts, PART, 8192, look_at_parts, b);
    for (int64_t p = 0; p < parts && !code; p++)
        if (b->largest[p] >= b->count) b->count = b->largest[p] + 1;
    rt_scratch_free(b->ctx, b->largest);
    return code;
}

/* Sums of the parts' tables; those of integers do not depend on how many there are. */
static int count_into(bins *b, int64_t *sums) {
    int64_t most = b->count ? TABLES_MOST / b->count : 1, parts = (b->n + PART - 1) / PART;
    b->lanes = b->count <= FEW_BINS ? LANES : 1;
    parts = parts > most / b->lanes ? most / b->lanes : parts;
    parts = parts > 1 ? parts : 1;
    b->part = (b->n + parts - 1) / parts;
    if (!(b->tables = rt_scratch(b->ctx, (size_t)(parts * b->lanes * b->count + 1) * sizeof *b->tables)))
        return RT_ENOMEM;
    int code = rt_parallel_work(b->ctx, parts, b->part + b->lanes * b->count, 4096, count_parts, b);
    if (!code && b->count) memset(sums, 0, (size_t)b->count * sizeof *sums);
    for (int64_t t = 0; t < parts * b->lanes && !code; t++)
        for (int64_t i = 0; i < b->count; i++) sums[i] += b->tables[t * b->count + i];
    rt_scratch_free(b->ctx, b->tables);
    return code;
}

int rt_k_bincount(const rt_ctx *ctx, const rt_call *c) { /* self, weights, minlength */
    const rt_view *weights = rt_arg_view(c, 1);
    rt_view self, each;
    void *scratch[3] = { NULL };
    bins b = { .ctx = ctx, .count = rt_arg_int(c, 2) };
    int code = rt_contiguous(ctx, rt_arg_view(c, 0), RT_I64, &self, &scratch[0]);
    if (!code) b.n = rt_numel(&self), b.x = self.p, code = find_bins(&b);
    if (code || c->phase == RT_COUNT) {
        if (!code) c->count[0] = b.count;
        rt_scratch_free(ctx, scratch[0]);
        return code;
    }
    const rt_view *out = &c->out[0];
    bool weighed = weights && b.n;
    if (weighed) code = rt_contiguous(ctx, weights, RT_F64, &each, &scratch[1]);
    if (!code && !(scratch[2] = rt_scratch(ctx, (size_t)b.count * 8))) code = RT_ENOMEM;
    if (!code && weighed) {
        double *sums = scratch[2];
        memset(sums, 0, (size_t)b.count * sizeof *sums);
        for (int64_t i = 0; i < b.n; i++) sums[b.x[i]] += ((const double *)each.p)[i];
    }
    if (!code && !weighed) code = count_into(&b, scratch[2]);
    if (!code) {
        rt_view sums = rt_view_contiguous(scratch[2], weighed ? RT_F64 : RT_I64, 1, &b.count);
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
