/* Attention against scores, softmax and product written out: masks, causal, shared heads, layouts, dtypes; rows that
 * see nothing give zeros; equal bits for any number of threads. */
#include "check.h"
#include "every_isa.h"
#include "runtime/kernels.h"

static char message[128];
static uint64_t seed = 11;

static int64_t draw(int64_t below) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((seed >> 33) % (uint64_t)below);
}

typedef struct tensor { rt_view v; double *value; } tensor; /* [heads, rows, cols] */

static tensor tensor_new(int dtype, int64_t heads, int64_t rows, int64_t cols, bool rows_first) {
    int64_t n = heads * rows * cols;
    tensor t = { { .rank = 3, .dtype = dtype, .size = { heads, rows, cols } }, malloc((size_t)(n + 1) * 8) };
    t.v.stride[2] = 1;
    t.v.stride[1] = rows_first ? heads * cols : cols;
    t.v.stride[0] = rows_first ? cols : rows * cols;
    t.v.p = malloc((size_t)((n + 1) * rt_itemsize(dtype)));
    for (int64_t i = 0; i < n; i++) {
        int64_t at = i / (rows * cols) * t.v.stride[0] + i / cols % rows * t.v.stride[1] + i % cols;
        char *p = (char *)t.v.p + at * rt_itemsize(dtype);
        double x = (double)(draw(2001) - 1000) / 500;
        rt_convert(dtype, p, 1, RT_F64, &x, 1, 1);
        rt_convert(RT_F64, &t.value[i], 1, dtype, p, 1, 1);
    }
    return t;
}

static double get(const tensor *t, int64_t h, int64_t i, int64_t j) {
    double x;
    const char *p = (const char *)t->v.p + (h * t->v.stride[0] + i * t->v.stride[1] + j) * rt_itemsize(t->v.dtype);
    rt_convert(RT_F64, &x, 1, t->v.dtype, p, 1, 1);
    return x;
}
static void tensor_free(tensor *t) { free(t->v.p), free(t->value); }

typedef struct problem {
    int dtype, mask;
    int64_t heads, shared, rows, keys, depth, value;
    bool causal, rows_first;
} problem;
enum { MASK_NONE, MASK_BOOL, MASK_FLOAT };

static void solve(const problem *q) {
    tensor query = tensor_new(q->dtype, q->heads, q->rows, q->depth, q->rows_first);
    tensor key = tensor_new(q->dtype, q->shared, q->keys, q->depth, q->rows_first);
    tensor value = tensor_new(q->dtype, q->shared, q->keys, q->value, q->rows_first);
    tensor out = tensor_new(q->dtype, q->heads, q->rows, q->value, q->rows_first);
    tensor mask = tensor_new(q->mask == MASK_BOOL ? RT_BOOL : RT_F32, 1, q->rows, q->keys, false);
    if (q->mask == MASK_BOOL)
        for (int64_t i = 0; i < q->rows * q->keys; i++) /* row 1 sees nothing */
            mask.value[i] = ((uint8_t *)mask.v.p)[i] = i / q->keys != 1 && draw(3) > 0;
    rt_arg args[8] = { { RT_ARG_VIEW, 0, { .view = &query.v } }, { RT_ARG_VIEW, 0, { .view = &key.v } },
                       { RT_ARG_VIEW, 0, { .view = &value.v } },
                       { q->mask ? RT_ARG_VIEW : RT_ARG_NONE, 0, { .view = &mask.v } }, { RT_ARG_FLOAT, 0, { .f = 0 } },
                       { RT_ARG_INT, 0, { .i = q->causal } }, { RT_ARG_NONE, 0, { 0 } },
                       { RT_ARG_INT, 0, { .i = q->heads != q->shared } } };
    rt_call call = { .arg = args, .out = &out.v, .nargs = 8, .nout = 1 };
    size_t bytes = (size_t)(rt_numel(&out.v) * rt_itemsize(q->dtype));
    void *first = malloc(bytes + 1);
    for (int threads = 1; threads <= 2; threads++) {
        rt_pool *pool = rt_pool_create(threads);
        rt_ctx ctx = rt_ctx_plain(pool, message, sizeof message);
        CHECK_EQ(rt_k_sdpa(&ctx, &call), RT_OK);
        if (threads == 1) memcpy(first, out.v.p, bytes);
        rt_pool_release(pool);
    }
    CHECK(memcmp(first, out.v.p, bytes) == 0);

    double *weight = malloc((size_t)(q->keys + 1) * 8), worst = 0;
    for (int64_t h = 0; h < q->heads; h++)
        for (int64_t i = 0; i < q->rows; i++) {
            int64_t kv = h / (q->heads / q->shared);
            double most = -INFINITY, total = 0;
            for (int64_t j = 0; j < q->keys; j++) {
                double s = 0;
                for (int64_t e = 0; e < q->depth; e++)
                    s += query.value[(h * q->rows + i) * q->depth + e] * key.value[(kv * q->keys + j) * q->depth + e];
                s /= sqrt((double)q->depth);
                double m = q->mask ? mask.value[i * q->keys + j] : 0;
                if (q->mask == MASK_FLOAT) s += m;
                if ((q->mask == MASK_BOOL && m == 0) || (q->causal && j > i)) s = -INFINITY;
                weight[j] = s;
                most = s > most ? s : most;
            }
            for (int64_t j = 0; j < q->keys; j++) total += weight[j] = most == -INFINITY ? 0 : exp(weight[j] - most);
            for (int64_t e = 0; e < q->value; e++) {
                double sum = 0;
                for (int64_t j = 0; j < q->keys; j++) sum += weight[j] * value.value[(kv * q->keys + j) * q->value + e];
                if (total > 0) sum /= total;
                double error = fabs(sum - get(&out, h, i, e));
                if (!(error <= worst)) worst = error;
            }
        }
    double limit = q->dtype == RT_F64 ? 1e-13 : q->dtype == RT_BF16 ? 1e-2 : q->dtype == RT_F16 ? 1e-3 : 3e-6;
    if (!(worst <= limit))
        CHECK_FAILED("dtype %d mask %d heads %d/%d rows %d keys %d depth %d value %d causal %d: error %g", q->dtype,
                     q->mask, (int)q->heads, (int)q->shared, (int)q->rows, (int)q->keys, (int)q->depth, (int)q->value,
                     q->causal, worst);
    else CHECK(true);
    free(weight), free(first);
    tensor_free(&query), tensor_free(&key), tensor_free(&value), tensor_free(&out), tensor_free(&mask);
}

static void random_problems(void) {
    static const int dtypes[] = { RT_F32, RT_F32, RT_F64, RT_BF16, RT_F16 };
    static const int64_t rows[] = { 1, 3, 5, 20, 33, 70, 270 }, keys[] = { 0, 1, 17, 64, 255, 300, 520 };
    static const int64_t depths[] = { 1, 8, 32, 50, 64 };
    for (int round = 0; round < 60; round++) {
        problem q = { .dtype = dtypes[draw(5)], .mask = (int)draw(3), .heads = 1 + draw(3), .rows = rows[draw(7)],
                      .keys = keys[draw(7)], .depth = depths[draw(5)], .value = depths[draw(5)], .causal = draw(3) == 0,
                      .rows_first = draw(2) };
        q.shared = draw(2) ? q.heads : 1;
        solve(&q);
    }
}

static void nan_reaches_its_row_only(void) {
    float q[2 * 16], k[3 * 16], v[3 * 16], out[2 * 16];
    for (int i = 0; i < 32; i++) q[i] = 0.1f * (float)i;
    for (int i = 0; i < 48; i++) k[i] = 0.01f * (float)i, v[i] = (float)i;
    q[0] = NAN;
    rt_view vq = rt_view_contiguous(q, RT_F32, 2, (int64_t[]){ 2, 16 }),
            vk = rt_view_contiguous(k, RT_F32, 2, (int64_t[]){ 3, 16 });
    rt_view vv = rt_view_contiguous(v, RT_F32, 2, (int64_t[]){ 3, 16 }),
            vo = rt_view_contiguous(out, RT_F32, 2, (int64_t[]){ 2, 16 });
    rt_arg args[8] = { { RT_ARG_VIEW, 0, { .view = &vq } },
                       { RT_ARG_VIEW, 0, { .view = &vk } },
                       { RT_ARG_VIEW, 0, { .view = &vv } } };
    args[4].kind = RT_ARG_FLOAT, args[5].kind = args[7].kind = RT_ARG_INT;
    rt_call call = { .arg = args, .out = &vo, .nargs = 8, .nout = 1 };
    rt_ctx ctx = rt_ctx_plain(NULL, message, sizeof message);
    CHECK_EQ(rt_k_sdpa(&ctx, &call), RT_OK);
    for (int e = 0; e < 16; e++) CHECK(isnan(out[e]) && isfinite(out[16 + e]));
    vo.dtype = RT_I32;
    CHECK_EQ(rt_k_sdpa(&ctx, &call), RT_EDTYPE);
}

int main(int argc, char **argv) {
    (void)argc;
    if (every_isa(argv)) return every_isa_result();
    RUN(random_problems);
    RUN(nan_reaches_its_row_only);
    return check_summary();
}
