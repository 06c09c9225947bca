/* k_sort.c: sort, topk, kthvalue, median, mode along one dimension.
 *
 * Each row becomes (key, position) pairs (rt_order.h): the whole row sorted, its first k, or the one at a position. Of
 * equal elements the earlier comes first. Values are fetched from the row by position, so they move bit for bit. */
#include "runtime/kernels.h"
#include "runtime/rt_order.h"

#include <string.h>

/* What is taken from a row. Positions go to the front of `pairs`; returns how many. */
typedef struct job {
    int64_t (*choose)(const struct job *job, const char *row, rt_pair *pairs);
    int dim, bits;
    bool descending, ignore_nan;
    int64_t k, n, step, room; /* n: elements of a row, `step` apart; room: pairs that `choose` needs */
    const rt_view *self, *values, *indices;
    const rt_ctx *ctx;
} job;

static void load_row(const job *j, const char *row, rt_pair *pairs) {
    rt_order_pairs(j->self->dtype, row, j->step, j->n, 0, j->descending, pairs);
}

static int64_t choose_all(const job *j, const char *row, rt_pair *pairs) {
    load_row(j, row, pairs);
    rt_order_sort(pairs, pairs + j->n, j->n, j->bits);
    return j->n;
}

static int64_t choose_first(const job *j, const char *row, rt_pair *pairs) {
    rt_order_first(j->self->dtype, row, j->step, j->n, j->k, j->descending, pairs);
    return j->k;
}

static int64_t choose_kth(const job *j, const char *row, rt_pair *pairs) {
    load_row(j, row, pairs);
    pairs[0] = rt_order_nth(pairs, pairs + j->n, j->n, j->k - 1, j->bits);
    return 1;
}

/* The lower median; the first NaN is the median unless NaNs are ignored. */
static int64_t choose_median(const job *j, const char *row, rt_pair *pairs) {
    load_row(j, row, pairs);
    int64_t numbers = j->n;
    for (int64_t i = 0; i < j->n; i++) numbers -= rt_order_is_nan(j->self->dtype, pairs[i].key, false);
    bool nan = numbers < j->n && (!j->ignore_nan || !numbers);
    pairs[0] = rt_order_nth(pairs, pairs + j->n, j->n, nan ? numbers : (numbers - 1) / 2, j->bits);
    return 1;
}

/* The most frequent value, the smallest of several; its last position. Every NaN is a value of its own. */
static int64_t choose_mode(const job *j, const char *row, rt_pair *pairs) {
    choose_all(j, row, pairs);
    int64_t best = 0, begin = 0;
    rt_pair pick = pairs[0];
    for (int64_t i = 1; i <= j->n; i++) {
        bool same = i < j->n && pairs[i].key == pairs[begin].key;
        if (same && !rt_order_is_nan(j->self->dtype, pairs[i].key, false)) continue;
        if (i - begin > best) best = i - begin, pick = pairs[i - 1];
        begin = i;
    }
    pairs[0] = pick;
    return 1;
}

/* Address of row `r`, position 0, in a view whose dimension `dim` is the row. */
static char *row_address(const rt_view *v, int dim, int64_t r) {
    int64_t offset = 0;
    for (int d = v->rank - 1; d >= 0; d--) {
        if (d == dim) continue;
        offset += r % v->size[d] * v->stride[d];
        r /= v->size[d];
    }
    return (char *)v->p + offset * rt_itemsize(v->dtype);
}

static int run_rows(void *arg, int64_t begin, int64_t end) {
    const job *j = arg;
    rt_pair *pairs = rt_scratch(j->ctx, (size_t)j->room * sizeof *pairs);
    if (!pairs) return RT_ENOMEM;
    int64_t item = rt_itemsize(j->self->dtype);
    bool flat = !j->values->rank || j->values->rank < j->self->rank; /* the dim was reduced away */
    int64_t value_step = flat ? 0 : j->values->stride[j->dim] * item,
            index_step = flat ? 0 : j->indices->stride[j->dim];
    for (int64_t r = begin; r < end; r++) {
        const char *from = row_address(j->self, j->dim, r);
        int64_t count = j->choose(j, from, pairs);
        char *to = row_address(j->values, flat ? -1 : j->dim, r);
        int64_t *index = (int64_t *)row_address(j->indices, flat ? -1 : j->dim, r);
        for (int64_t i = 0; i < count; i++) {
            memcpy(to + i * value_step, from + pairs[i].at * j->step * item, (size_t)item);
            index[i * index_step] = pairs[i].at;
        }
    }
    rt_scratch_free(j->ctx, pairs);
    return RT_OK;
}

static int run(const rt_ctx *ctx, job *j) {
    const rt_view *self = j->self;
    int64_t numel = rt_numel(self);
    if (!numel || !rt_numel(j->values)) return RT_OK;
    j->n = self->rank ? self->size[j->dim] : 1;
    bool few = j->choose == choose_first || j->choose == choose_kth;
    if (few && (j->k < 1 || j->k > j->n))
        return rt_fail(ctx, RT_ERUNTIME, "cannot take %lld of %lld elements", (long long)j->k, (long long)j->n);
    j->step = self->rank ? self->stride[j->dim] : 1;
    j->bits = rt_order_bits(self->dtype);
    j->room = j->choose == choose_first ? rt_order_room(j->n, j->k) : 2 * j->n;
    j->ctx = ctx;
    return rt_parallel_work(ctx, numel / j->n, j->n, 4096, run_rows, j);
}

static job begin(const rt_call *c, int dim_arg) {
    const rt_view *self = rt_arg_view(c, 0);
    return (job){ .self = self,
                  .dim = dim_arg < 0 ? 0 : rt_arg_dim(c, dim_arg, self->rank),
                  .values = &c->out[0],
                  .indices = &c->out[1] };
}

int rt_k_sort(const rt_ctx *ctx, const rt_call *c) { /* self, dim, descending */
    job j = begin(c, 1);
    j.choose = choose_all;
    j.descending = rt_arg_int(c, 2);
    return run(ctx, &j);
}
int rt_k_sort_stable(const rt_ctx *ctx, const rt_call *c) { /* self, stable, dim, descending */
    job j = begin(c, 2);
    j.choose = choose_all;
    j.descending = rt_arg_int(c, 3);
    return run(ctx, &j);
}
int rt_k_topk(const rt_ctx *ctx, const rt_call *c) { /* self, k, dim, largest, sorted */
    job j = begin(c, 2);
    j.choose = choose_first;
    j.k = rt_arg_int(c, 1);
    j.descending = rt_arg_int(c, 3);
    return run(ctx, &j);
}
int rt_k_kthvalue(const rt_ctx *ctx, const rt_call *c) { /* self, k, dim, keepdim */
    job j = begin(c, 2);
    j.choose = choose_kth;
    j.k = rt_arg_int(c, 1);
    return run(ctx, &j);
}
static int median(const rt_ctx *ctx, const rt_call *c, bool ignore_nan) {
    job j = begin(c, 1);
    j.choose = choose_median;
    j.ignore_nan = ignore_nan;
    return run(ctx, &j);
}
int rt_k_median_dim(const rt_ctx *ctx, const rt_call *c) { return median(ctx, c, false); }
int rt_k_nanmedian_dim(const rt_ctx *ctx, const rt_call *c) { return median(ctx, c, true); }
int rt_k_mode(const rt_ctx *ctx, const rt_call *c) { /* self, dim, keepdim */
    job j = begin(c, 1);
    j.choose = choose_mode;
    return run(ctx, &j);
}
