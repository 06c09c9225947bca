/* k_sort.c: sort, topk, kthvalue, median, mode along one dimension.
 *
 * Each row becomes (key, position) pairs, where the key is an unsigned number that orders as the dtype does: NaN after
 * everything, -0 equal to 0, complement for descending. A stable merge sort then serves every op; values are fetched
 * from the row by position, so they move bit for bit. */
#include "runtime/kernels.h"
#include "runtime/rt_reduce.h"

#include <string.h>

typedef struct pair { uint64_t key; int64_t at; } pair;

static uint64_t key_of_float(double f) {
    union { double f; uint64_t u; } x = { f == 0 ? 0.0 : f };
    if (f != f) return UINT64_MAX;
    return x.u >> 63 ? ~x.u : x.u | (uint64_t)1 << 63;
}

/* Keys of n elements of a compute class (rt_compute_dtype), plain or complemented. */
static void make_keys(int compute, const void *x, int64_t n, bool descending, pair *out) {
    uint64_t flip = descending ? UINT64_MAX : 0;
    for (int64_t i = 0; i < n; i++) {
        uint64_t key;
        if (compute == RT_F32) key = key_of_float(((const float *)x)[i]);
        else if (compute == RT_F64) key = key_of_float(((const double *)x)[i]);
        else if (compute == RT_U64) key = ((const uint64_t *)x)[i];
        else key = ((const uint64_t *)x)[i] ^ (uint64_t)1 << 63;
        out[i] = (pair){ key ^ flip, i };
    }
}

static void insertion_sort(pair *a, int64_t n) {
    for (int64_t i = 1; i < n; i++) {
        pair x = a[i];
        int64_t j = i;
        for (; j && a[j - 1].key > x.key; j--) a[j] = a[j - 1];
        a[j] = x;
    }
}

/* Stable; `spare` has room for n. The result is in `a`. */
static void merge_sort(pair *a, pair *spare, int64_t n) {
    enum { RUN = 24 };
    for (int64_t i = 0; i < n; i += RUN) insertion_sort(a + i, n - i < RUN ? n - i : RUN);
    pair *from = a, *to = spare;
    for (int64_t width = RUN; width < n; width *= 2) {
        for (int64_t i = 0; i < n; i += 2 * width) {
            int64_t mid = i + width < n ? i + width : n, end = i + 2 * width < n ? i + 2 * width : n, l = i, r = mid;
            for (int64_t k = i; k < end; k++) to[k] = l < mid && (r >= end || from[l].key <= from[r].key) ? from[l++] : from[r++];
        }
        pair *swap = from;
        from = to;
        to = swap;
    }
    if (from != a) memcpy(a, from, (size_t)n * sizeof *a);
}

/* What to take from a sorted row. Positions go to `pick`, `count` of them. */
typedef struct job {
    int64_t (*choose)(const pair *sorted, int64_t n, const struct job *job, int64_t *pick);
    int compute, dim;
    bool descending, nan_median;
    int64_t k;
    const rt_view *self, *values, *indices;
    const char *rows;
    int64_t n, item;
    const rt_ctx *ctx;
} job;

static int64_t choose_first(const pair *sorted, int64_t n, const job *j, int64_t *pick) {
    int64_t count = j->k < n ? j->k : n;
    for (int64_t i = 0; i < count; i++) pick[i] = sorted[i].at;
    return count;
}

static int64_t choose_kth(const pair *sorted, int64_t n, const job *j, int64_t *pick) {
    (void)n;
    pick[0] = sorted[j->k - 1].at;
    return 1;
}

/* The lower median; a NaN is the median unless NaNs are ignored. */
static int64_t choose_median(const pair *sorted, int64_t n, const job *j, int64_t *pick) {
    bool floats = j->compute == RT_F32 || j->compute == RT_F64;
    int64_t numbers = n;
    while (floats && numbers && sorted[numbers - 1].key == UINT64_MAX) numbers--;
    if (numbers < n && (!j->nan_median || !numbers)) pick[0] = sorted[numbers].at;
    else pick[0] = sorted[(numbers - 1) / 2].at;
    return 1;
}

/* The most frequent value, the smallest of several; its last position. */
static int64_t choose_mode(const pair *sorted, int64_t n, const job *j, int64_t *pick) {
    (void)j;
    int64_t best = 0, begin = 0;
    for (int64_t i = 1; i <= n; i++) {
        if (i < n && sorted[i].key == sorted[begin].key && sorted[i].key != UINT64_MAX) continue;
        if (i - begin > best) best = i - begin, pick[0] = sorted[i - 1].at;
        begin = i;
    }
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
    pair *pairs = rt_scratch(j->ctx, (size_t)j->n * (2 * sizeof *pairs + sizeof(int64_t)));
    if (!pairs) return RT_ENOMEM;
    int64_t *pick = (int64_t *)(pairs + 2 * j->n);
    int64_t item = rt_itemsize(j->self->dtype);
    bool flat = !j->values->rank || j->values->rank < j->self->rank; /* the dim was reduced away */
    int64_t value_step = flat ? 0 : j->values->stride[j->dim] * item, index_step = flat ? 0 : j->indices->stride[j->dim];
    int64_t self_step = j->self->rank ? j->self->stride[j->dim] * item : 0;
    for (int64_t r = begin; r < end; r++) {
        make_keys(j->compute, j->rows + r * j->n * j->item, j->n, j->descending, pairs);
        merge_sort(pairs, pairs + j->n, j->n);
        int64_t count = j->choose(pairs, j->n, j, pick);
        const char *from = row_address(j->self, j->dim, r);
        char *to = row_address(j->values, flat ? -1 : j->dim, r);
        int64_t *index = (int64_t *)row_address(j->indices, flat ? -1 : j->dim, r);
        for (int64_t i = 0; i < count; i++) {
            memcpy(to + i * value_step, from + pick[i] * self_step, (size_t)item);
            index[i * index_step] = pick[i];
        }
    }
    rt_scratch_free(j->ctx, pairs);
    return RT_OK;
}

static int run(const rt_ctx *ctx, job *j) {
    const rt_view *self = j->self;
    int64_t n = self->rank ? self->size[j->dim] : 1, numel = rt_numel(self);
    if (!numel || !rt_numel(j->values)) return RT_OK;
    rt_view ordered = *self, flat;
    int at = 0;
    for (int d = 0; d < self->rank; d++) {
        int to = d == j->dim ? self->rank - 1 : at++;
        ordered.size[to] = self->size[d];
        ordered.stride[to] = self->stride[d];
    }
    void *scratch = NULL;
    j->compute = rt_compute_dtype(self->dtype);
    int code = rt_contiguous(ctx, &ordered, j->compute, &flat, &scratch);
    if (code) return code;
    j->rows = flat.p;
    j->n = n;
    j->item = rt_itemsize(j->compute);
    j->ctx = ctx;
    code = rt_parallel_for(ctx, numel / n, 1 + 4096 / n, run_rows, j);
    rt_scratch_free(ctx, scratch);
    return code;
}

static job begin(const rt_call *c, int dim_arg) {
    const rt_view *self = rt_arg_view(c, 0);
    return (job){ .self = self, .dim = dim_arg < 0 ? 0 : rt_arg_dim(c, dim_arg, self->rank), .values = &c->out[0], .indices = &c->out[1] };
}

int rt_k_sort(const rt_ctx *ctx, const rt_call *c) { /* self, dim, descending */
    job j = begin(c, 1);
    j.choose = choose_first;
    j.k = INT64_MAX;
    j.descending = rt_arg_int(c, 2);
    return run(ctx, &j);
}
int rt_k_sort_stable(const rt_ctx *ctx, const rt_call *c) { /* self, stable, dim, descending */
    job j = begin(c, 2);
    j.choose = choose_first;
    j.k = INT64_MAX;
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
    j.nan_median = ignore_nan;
    return run(ctx, &j);
}
int rt_k_median_dim(const rt_ctx *ctx, const rt_call *c) { return median(ctx, c, false); }
int rt_k_nanmedian_dim(const rt_ctx *ctx, const rt_call *c) { return median(ctx, c, true); }
int rt_k_mode(const rt_ctx *ctx, const rt_call *c) { /* self, dim, keepdim */
    job j = begin(c, 1);
    j.choose = choose_mode;
    return run(ctx, &j);
}
