/* k_sort.c: sort, topk, kthvalue, median, mode along one dimension.
 *
 * Each row becomes (key, position) pairs (rt_order.h): the whole row sorted, its first k, or the one at a position. Of
 * equal elements the earlier comes first. Values are fetched from the row by position, so they move bit for bit. */
#include "runtime/kernels.h"
#include "runtime/rt_order.h"

#include <string.h>

/* What is taken from a row: `pick` finds it among the row's pairs, which it may move, and brings it to the front;
 * returns how many. */
typedef struct job {
    int64_t (*pick)(const struct job *job, rt_pair *pairs);
    int dim, bits;
    bool descending, ignore_nan;
    int64_t k, n, step, room; /* n: elements of a row, `step` apart; room: pairs that a row needs */
    const rt_view *self, *values, *indices;
    const rt_ctx *ctx;
} job;

static int64_t pick_all(const job *j, rt_pair *pairs) {
    rt_order_sort(pairs, pairs + j->n, j->n, j->bits);
    return j->n;
}

/* For short rows; of others the first k are found without a pair for each element (rt_order_first). */
static int64_t pick_first(const job *j, rt_pair *pairs) {
    pick_all(j, pairs);
    return j->k;
}

static int64_t pick_kth(const job *j, rt_pair *pairs) {
    pairs[0] = rt_order_nth(pairs, pairs + j->n, j->n, j->k - 1, j->bits);
    return 1;
}

/* The lower median; the first NaN is the median unless NaNs are ignored. */
static int64_t pick_median(const job *j, rt_pair *pairs) {
    int64_t numbers = j->n;
    for (int64_t i = 0; i < j->n; i++) numbers -= rt_order_is_nan(j->self->dtype, pairs[i].key, false);
    bool nan = numbers < j->n && (!j->ignore_nan || !numbers);
    pairs[0] = rt_order_nth(pairs, pairs + j->n, j->n, nan ? numbers : (numbers - 1) / 2, j->bits);
    return 1;
}

/* The most frequent value, the smallest of several; its last position. Every NaN is a value of its own. */
static int64_t pick_mode(const job *j, rt_pair *pairs) {
    pick_all(j, pairs);
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

/* Where a row begins in the three tensors, in elements: all dimensions but the row's, neighbours that all three step
 * through as one made one. */
enum { SELF, VALUES, INDICES, TENSORS };
typedef struct place {
    int64_t size[RT_MAX_RANK], at[RT_MAX_RANK], stride[TENSORS][RT_MAX_RANK], offset[TENSORS];
    int rank;
} place;

static bool is_flat(const job *j) { return j->values->rank < j->self->rank || !j->values->rank; }

static void place_push(place *p, int64_t size, const int64_t *stride) {
    bool joins = p->rank > 0;
    for (int t = 0; t < TENSORS && joins; t++) joins = p->stride[t][p->rank - 1] == size * stride[t];
    int to = joins ? p->rank - 1 : p->rank++;
    p->size[to] = joins ? p->size[to] * size : size;
    for (int t = 0; t < TENSORS; t++) p->stride[t][to] = stride[t];
}

static void place_open(place *p, const job *j, int64_t row) {
    *p = (place){ .rank = 0 };
    for (int d = 0; d < j->self->rank; d++) {
        int to = is_flat(j) && d > j->dim ? d - 1 : d; /* the dim was reduced away */
        if (d == j->dim || j->self->size[d] == 1) continue;
        place_push(p, j->self->size[d],
                   (int64_t[]){ j->self->stride[d], j->values->stride[to], j->indices->stride[to] });
    }
    if (!p->rank) p->size[p->rank++] = 1;
    for (int d = p->rank - 1; d >= 0; row /= p->size[d--]) {
        p->at[d] = row % p->size[d];
        for (int t = 0; t < TENSORS; t++) p->offset[t] += p->at[d] * p->stride[t][d];
    }
}

/* `rows` further along the last dimension, which has that many left. */
static void place_move(place *p, int64_t rows) {
    for (int d = p->rank - 1; d >= 0; d--, rows = 1) {
        p->at[d] += rows;
        for (int t = 0; t < TENSORS; t++) p->offset[t] += rows * p->stride[t][d];
        if (p->at[d] < p->size[d] || !d) return;
        for (int t = 0; t < TENSORS; t++) p->offset[t] -= p->size[d] * p->stride[t][d];
        p->at[d] = 0;
    }
}

static inline void copy_item(char *to, const char *from, int64_t item) {
    if (item == 4) memcpy(to, from, 4);
    else memcpy(to, from, (size_t)item);
}

/* What was picked of the row that begins `row` rows behind p, along the last dimension. */
static void give(const job *j, const place *p, int64_t row, const rt_pair *pairs, int64_t count) {
    int last = p->rank - 1;
    int64_t item = rt_itemsize(j->self->dtype), offset[TENSORS];
    for (int t = 0; t < TENSORS; t++) offset[t] = p->offset[t] + row * p->stride[t][last];
    const char *from = (const char *)j->self->p + offset[SELF] * item;
    char *to = (char *)j->values->p + offset[VALUES] * item;
    int64_t *index = (int64_t *)j->indices->p + offset[INDICES];
    bool flat = is_flat(j);
    int64_t value_step = flat ? 0 : j->values->stride[j->dim] * item,
            index_step = flat ? 0 : j->indices->stride[j->dim];
    for (int64_t i = 0; i < count; i++) {
        copy_item(to + i * value_step, from + pairs[i].at * j->step * item, item);
        index[i * index_step] = pairs[i].at;
    }
}

/* Short rows: the keys of `rows` neighbours at a time, position after position. */
enum { SHORT = 16, TOGETHER = 64 };
static void run_short_rows(const job *j, const place *p, int64_t rows) {
    uint64_t keys[SHORT][TOGETHER], flip = !j->descending ? 0 : j->bits == 32 ? UINT32_MAX : UINT64_MAX;
    int64_t item = rt_itemsize(j->self->dtype);
    const char *x = (const char *)j->self->p + p->offset[SELF] * item;
    for (int64_t i = 0; i < j->n; i++)
        rt_order_keys(j->self->dtype, x + i * j->step * item, p->stride[SELF][p->rank - 1], rows, keys[i]);
    for (int64_t r = 0; r < rows; r++) {
        rt_pair pairs[2 * SHORT];
        for (int64_t i = 0; i < j->n; i++) pairs[i] = (rt_pair){ keys[i][r] ^ flip, i };
        give(j, p, r, pairs, j->pick(j, pairs));
    }
}

static int run_rows(void *arg, int64_t begin, int64_t end) {
    const job *j = arg;
    rt_pair *pairs = j->n > SHORT ? rt_scratch(j->ctx, (size_t)j->room * sizeof *pairs) : NULL;
    if (j->n > SHORT && !pairs) return RT_ENOMEM;
    int64_t item = rt_itemsize(j->self->dtype), rows;
    place p;
    place_open(&p, j, begin);
    for (int64_t r = begin; r < end; r += rows, place_move(&p, rows)) {
        int64_t left = p.size[p.rank - 1] - p.at[p.rank - 1];
        const char *x = (const char *)j->self->p + p.offset[SELF] * item;
        rows = j->n > SHORT ? 1 : left < TOGETHER ? left : TOGETHER;
        rows = rows < end - r ? rows : end - r;
        if (j->n <= SHORT) {
            run_short_rows(j, &p, rows);
        } else if (j->pick == pick_first) {
            rt_order_first(j->self->dtype, x, j->step, j->n, j->k, j->descending, pairs);
            give(j, &p, 0, pairs, j->k);
        } else {
            rt_order_pairs(j->self->dtype, x, j->step, j->n, 0, j->descending, pairs);
            give(j, &p, 0, pairs, j->pick(j, pairs));
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
    bool few = j->pick == pick_first || j->pick == pick_kth;
    if (few && (j->k < 1 || j->k > j->n))
        return rt_fail(ctx, RT_ERUNTIME, "cannot take %lld of %lld elements", (long long)j->k, (long long)j->n);
    j->step = self->rank ? self->stride[j->dim] : 1;
    j->bits = rt_order_bits(self->dtype);
    j->room = j->pick == pick_first ? rt_order_room(j->n, j->k) : 2 * j->n;
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
    j.pick = pick_all;
    j.descending = rt_arg_int(c, 2);
    return run(ctx, &j);
}
int rt_k_sort_stable(const rt_ctx *ctx, const rt_call *c) { /* self, stable, dim, descending */
    job j = begin(c, 2);
    j.pick = pick_all;
    j.descending = rt_arg_int(c, 3);
    return run(ctx, &j);
}
int rt_k_topk(const rt_ctx *ctx, const rt_call *c) { /* self, k, dim, largest, sorted */
    job j = begin(c, 2);
    j.pick = pick_first;
    j.k = rt_arg_int(c, 1);
    j.descending = rt_arg_int(c, 3);
    return run(ctx, &j);
}
int rt_k_kthvalue(const rt_ctx *ctx, const rt_call *c) { /* self, k, dim, keepdim */
    job j = begin(c, 2);
    j.pick = pick_kth;
    j.k = rt_arg_int(c, 1);
    return run(ctx, &j);
}
static int median(const rt_ctx *ctx, const rt_call *c, bool ignore_nan) {
    job j = begin(c, 1);
    j.pick = pick_median;
    j.ignore_nan = ignore_nan;
    return run(ctx, &j);
}
int rt_k_median_dim(const rt_ctx *ctx, const rt_call *c) { return median(ctx, c, false); }
int rt_k_nanmedian_dim(const rt_ctx *ctx, const rt_call *c) { return median(ctx, c, true); }
int rt_k_mode(const rt_ctx *ctx, const rt_call *c) { /* self, dim, keepdim */
    job j = begin(c, 1);
    j.pick = pick_mode;
    return run(ctx, &j);
}
