/* rt_gemm against a triple loop: all dtypes, strides, sizes, scalars, addends; equal bits for any number of threads. */
#include "check.h"
#include "every_isa.h"
#include "runtime/gemm.h"

#include <complex.h>

static char message[128];
static rt_ctx ctx;
static uint64_t seed = 7;

static uint64_t draw(uint64_t below) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (seed >> 33) % below;
}

/* A matrix (batch of them) in memory of its own, in one of four layouts; `value` and `whole` are its elements as
 * numbers that are easy to compute with (filled by `read`). */
typedef struct matrix { void *p; int64_t row, col, batch, elements; double complex *value; uint64_t *whole; } matrix;

static matrix matrix_new(int dtype, int64_t rows, int64_t cols, int64_t batch, int layout) {
    matrix x = { 0 };
    if (layout == 0) x.row = cols, x.col = 1;                 /* row-major */
    else if (layout == 1) x.row = 1, x.col = rows;            /* column-major */
    else if (layout == 2) x.row = 2 * cols + 3, x.col = 2;    /* gaps everywhere */
    else x.row = cols + 5, x.col = 1;                         /* rows apart */
    x.batch = (rows + 2) * (2 * cols + 5) + 1;
    if (layout == 1) x.batch = rows * cols;
    x.elements = batch * x.batch + 1;
    x.p = malloc((size_t)(x.elements * rt_itemsize(dtype)));
    for (int64_t i = 0; i < x.elements; i++) {
        /* Small multiples of 1/4 for low precision, so that products are exact there. */
        double v[2] = { (double)(int)draw(17) - 8, (double)(int)draw(17) - 8 };
        if (dtype == RT_F32 || dtype == RT_F64 || dtype == RT_C64 || dtype == RT_C128)
            for (int q = 0; q < 2; q++) v[q] += (double)draw(1000) / 1000;
        if (dtype == RT_I32 || dtype == RT_I64) v[0] *= 1e8 + 1;
        rt_convert(dtype, (char *)x.p + i * rt_itemsize(dtype), 1, RT_C128, v, 1, 1);
    }
    return x;
}

static void matrix_read(matrix *x, int dtype) {
    if (!x->p) return;
    x->value = malloc((size_t)x->elements * sizeof *x->value);
    x->whole = malloc((size_t)x->elements * sizeof *x->whole);
    rt_convert(RT_C128, x->value, 1, dtype, x->p, 1, x->elements);
    rt_convert(RT_I64, x->whole, 1, dtype, x->p, 1, x->elements);
}

static void matrix_free(matrix *x) { free(x->p), free(x->value), free(x->whole); }

static int64_t offset(const matrix *x, int64_t b, int64_t i, int64_t j) {
    return b * x->batch + i * x->row + j * x->col;
}
static double complex at(const matrix *x, int64_t b, int64_t i, int64_t j) { return x->value[offset(x, b, i, j)]; }
static uint64_t whole_at(const matrix *x, int64_t b, int64_t i, int64_t j) { return x->whole[offset(x, b, i, j)]; }

static double precision(int dtype) {
    switch (dtype) {
    case RT_F64: case RT_C128: return 1e-13;
    case RT_F16: case RT_C32: return 1e-3;
    case RT_BF16: return 1e-2;
    default: return 2e-6;
    }
}

typedef struct problem {
    int dtype;
    int64_t m, n, k, batch;
    int la, lb, lc, ld; /* layouts; ld: -1 no addend, -2 C itself, -3 one row for all, -4 one column for all */
    bool packed;
    rt_scalar alpha, beta;
} problem;

static void solve(const problem *q, int threads, matrix *a, matrix *b, matrix *c, matrix *d) {
    rt_gemm_args g = rt_gemm_plain(q->dtype, q->m, q->n, q->k, a->p, b->p, c->p);
    g.batch = q->batch;
    g.a_row = a->row, g.a_col = a->col, g.a_batch = a->batch;
    g.b_row = b->row, g.b_col = b->col, g.b_batch = b->batch;
    g.c_row = c->row, g.c_col = c->col, g.c_batch = c->batch;
    g.alpha = q->alpha;
    if (q->ld != -1) {
        g.beta = q->beta;
        if (q->ld != -2) g.d = d->p, g.d_row = d->row, g.d_col = d->col, g.d_batch = d->batch;
    }
    void *packed = NULL;
    if (q->packed) {
        packed = aligned_alloc(64, (size_t)rt_gemm_packed_bytes(q->dtype, q->n, q->k) + 64);
        rt_gemm_pack_b(&g, packed);
        g.packed_b = packed;
    }
    rt_pool *pool = rt_pool_create(threads);
    ctx = rt_ctx_plain(pool, message, sizeof message);
    CHECK_EQ(rt_gemm(&ctx, &g), RT_OK);
    rt_pool_release(pool);
    free(packed);
}

static void judge(const problem *q, const matrix *a, const matrix *b, const matrix *c, const matrix *before,
                  const matrix *d) {
    int wrong = 0;
    double worst = 0;
    bool integer = rt_is_integer(q->dtype), adds = q->ld != -1;
    for (int64_t e = 0; e < q->batch; e++)
        for (int64_t i = 0; i < q->m; i++)
            for (int64_t j = 0; j < q->n; j++) {
                const matrix *addend = q->ld == -2 ? before : d;
                if (integer) {
                    uint64_t sum = 0;
                    for (int64_t k = 0; k < q->k; k++)
                        sum += whole_at(a, e, i, k) * whole_at(b, e, k, j);
                    sum *= (uint64_t)q->alpha.i;
                    if (adds && q->beta.i) sum += (uint64_t)q->beta.i * whole_at(addend, e, i, j);
                    int64_t want, raw = (int64_t)sum;
                    uint64_t narrow;
                    rt_convert(q->dtype, &narrow, 1, RT_I64, &raw, 1, 1);
                    rt_convert(RT_I64, &want, 1, q->dtype, &narrow, 1, 1);
                    wrong += want != (int64_t)whole_at(c, e, i, j);
                    continue;
                }
                double complex sum = 0;
                double size = 1;
                for (int64_t k = 0; k < q->k; k++) {
                    double complex term = at(a, e, i, k) * at(b, e, k, j);
                    sum += term;
                    size += cabs(term);
                }
                sum *= q->alpha.f + q->alpha.im * I;
                size *= fabs(q->alpha.f) + fabs(q->alpha.im);
                if (adds && (q->beta.f != 0 || q->beta.im != 0)) {
                    double complex term = (q->beta.f + q->beta.im * I) * at(addend, e, i, j);
                    sum += term;
                    size += cabs(term);
                }
                double error = cabs(sum - at(c, e, i, j)) / (size + 1e-30);
                if (!(error <= worst)) worst = error;
            }
    if (wrong || !(worst <= precision(q->dtype)))
        CHECK_FAILED("dtype %d m %d n %d k %d batch %d layouts %d %d %d %d packed %d alpha %g beta %g: %d wrong, error "
                     "%g",
                     q->dtype, (int)q->m, (int)q->n, (int)q->k, (int)q->batch, q->la, q->lb, q->lc, q->ld, q->packed,
                     q->alpha.f, q->beta.f, wrong, worst);
    else CHECK(true);
}

static void run_problem(const problem *q, bool compare_threads) {
    matrix a = matrix_new(q->dtype, q->m, q->k, q->batch, q->la), b = matrix_new(q->dtype, q->k, q->n, q->batch, q->lb);
    matrix c = matrix_new(q->dtype, q->m, q->n, q->batch, q->lc), d = { 0 };
    if (q->packed) b.batch = 0;
    size_t bytes = (size_t)(c.elements * rt_itemsize(q->dtype));
    matrix before = c, again = c;
    before.p = malloc(bytes);
    again.p = malloc(bytes);
    if (q->ld == -1) memset(c.p, 0xff, bytes); /* NaN or -1: must not matter */
    memcpy(before.p, c.p, bytes);
    memcpy(again.p, c.p, bytes);
    if (q->ld >= 0) d = matrix_new(q->dtype, q->m, q->n, q->batch, q->ld);
    if (q->ld == -3) d = matrix_new(q->dtype, 1, q->n, 1, 0), d.row = d.batch = 0;
    if (q->ld == -4) d = matrix_new(q->dtype, q->m, 1, 1, 0), d.row = 1, d.col = d.batch = 0;
    solve(q, 1, &a, &b, &c, &d);
    matrix *all[] = { &a, &b, &c, &d, &before };
    for (int i = 0; i < 5; i++) matrix_read(all[i], q->dtype);
    judge(q, &a, &b, &c, &before, &d);
    if (compare_threads) {
        int threads = 2 + (int)draw(3);
        solve(q, threads, &a, &b, &again, &d);
        if (memcmp(c.p, again.p, bytes))
            CHECK_FAILED("dtype %d m %d n %d k %d batch %d: %d threads give other bits", q->dtype, (int)q->m, (int)q->n,
                         (int)q->k, (int)q->batch, threads);
        else CHECK(true);
    }
    for (int i = 0; i < 5; i++) matrix_free(all[i]);
    free(again.p);
}

static problem random_problem(int dtype, int64_t largest) {
    problem q = { .dtype = dtype, .batch = draw(3) == 0 ? 1 + (int64_t)draw(4) : 1 };
    q.m = 1 + (int64_t)draw((uint64_t)largest), q.n = 1 + (int64_t)draw((uint64_t)largest);
    q.k = 1 + (int64_t)draw((uint64_t)largest);
    if (draw(4) == 0) q.m = 1 + (int64_t)draw(5);
    if (draw(4) == 0) q.n = 1 + (int64_t)draw(5);
    q.la = (int)draw(4), q.lb = (int)draw(4), q.lc = (int)draw(4), q.ld = (int)draw(8) - 4;
    q.packed = !rt_is_complex(dtype) && draw(6) == 0;
    q.alpha = q.beta = (rt_scalar){ RT_ARG_INT, 1, 1, 0 };
    if (draw(2)) q.alpha = (rt_scalar){ RT_ARG_INT, 3, 3, 0 };
    if (draw(2)) q.beta = (rt_scalar){ RT_ARG_INT, -2, -2, 0 };
    if (!rt_is_integer(dtype) && draw(3) == 0) q.alpha = (rt_scalar){ RT_ARG_FLOAT, 0, 0.5, 0 };
    if (rt_is_complex(dtype) && draw(3) == 0) q.alpha = (rt_scalar){ RT_ARG_COMPLEX, 0, 0.5, -2 };
    if (rt_is_complex(dtype) && draw(3) == 0) q.beta = (rt_scalar){ RT_ARG_COMPLEX, 0, -1, 1 };
    return q;
}

static const int dtypes[] = { RT_F32, RT_F64, RT_BF16, RT_F16, RT_I8,   RT_U8,
                              RT_I16, RT_I32, RT_I64,  RT_C64, RT_C128, RT_C32 };
enum { DTYPES = sizeof dtypes / sizeof dtypes[0] };

static void small_problems(void) {
    for (int round = 0; round < 60; round++)
        for (int t = 0; t < DTYPES; t++) {
            problem q = random_problem(dtypes[t], 1 + (int64_t)draw(40));
            run_problem(&q, round % 4 == 0);
        }
}

static void larger_problems(void) {
    for (int round = 0; round < 8; round++)
        for (int t = 0; t < 2; t++) {
            problem q = random_problem(dtypes[t], 200);
            run_problem(&q, true);
        }
    /* Long sums, cut in blocks of k; many panels; tall; all with each layout of A and B. */
    static const int64_t sizes[][3] = { { 20, 50, 2600 }, { 5, 300, 1500 }, { 300, 20, 70 }, { 40, 49, 1400 },
                                        { 3, 200, 400 },  { 16, 97, 300 },  { 200, 3, 300 } };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int layouts = 0; layouts < 4; layouts++) {
            static const int some[] = { RT_F32, RT_F64, RT_BF16, RT_I32 };
            problem q = random_problem(some[(i + (size_t)layouts) % 4], 2);
            q.m = sizes[i][0], q.n = sizes[i][1], q.k = sizes[i][2];
            q.batch = 1;
            q.la = layouts & 1, q.lb = layouts >> 1;
            run_problem(&q, true);
        }
}

/* x W' with more rows of W than of x is turned around: every addend, also of sizes that fill no panel. */
static void few_rows_against_many(void) {
    static const int64_t sizes[][3] = { { 17, 150, 140 }, { 20, 320, 96 }, { 33, 1000, 131 }, { 64, 400, 1300 } };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int ld = -4; ld < 2; ld++)
            for (int la = 0; la < 2; la++) {
                problem q = { RT_F32, sizes[i][0], sizes[i][1], sizes[i][2], 1,           la,
                              1,      0,           ld,          false,       rt_gemm_one, rt_gemm_one };
                run_problem(&q, true);
            }
}

/* g W of a few rows g: W is read in blocks of rows, the next one while this one is used; with and without columns that
 * fill no panel. Its mirror g' x writes a result that is fetched before. */
static void weights_in_blocks(void) {
    static const int64_t sizes[][3] = { { 17, 200, 300 }, { 20, 1100, 270 }, { 18, 788, 390 }, { 30, 403, 300 },
                                        { 700, 380, 33 } };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int ld = -3; ld < 0; ld += 2)
            for (int t = 0; t < 2; t++) {
                problem q = { dtypes[t], sizes[i][0], sizes[i][1], sizes[i][2], 1,           sizes[i][0] > 256,
                              0,         0,           ld,          false,       rt_gemm_one, rt_gemm_one };
                run_problem(&q, true);
            }
}

static void no_terms(void) {
    for (int t = 0; t < DTYPES; t++)
        for (int ld = -4; ld < 4; ld++) {
            problem q = random_problem(dtypes[t], 5);
            q.k = 0, q.packed = false, q.ld = ld;
            run_problem(&q, false);
        }
}

static void no_elements(void) {
    ctx = rt_ctx_plain(NULL, message, sizeof message);
    rt_gemm_args g = rt_gemm_plain(RT_F32, 0, 3, 4, NULL, NULL, NULL);
    CHECK_EQ(rt_gemm(&ctx, &g), RT_OK);
    g.m = 3, g.n = 0;
    CHECK_EQ(rt_gemm(&ctx, &g), RT_OK);
    g.n = 3, g.batch = 0;
    CHECK_EQ(rt_gemm(&ctx, &g), RT_OK);
    g.batch = 1, g.dtype = RT_BOOL;
    CHECK_EQ(rt_gemm(&ctx, &g), RT_EDTYPE);
}

/* Beta 0 does not read the addend, even when it is all NaN; alpha applies to infinite sums as written. */
static void zero_beta(void) {
    float a[2] = { 1, 2 }, b[2] = { 3, 4 }, c[1] = { NAN }, d[1] = { NAN };
    ctx = rt_ctx_plain(NULL, message, sizeof message);
    rt_gemm_args g = rt_gemm_plain(RT_F32, 1, 1, 2, a, b, c);
    g.d = d;
    CHECK_EQ(rt_gemm(&ctx, &g), RT_OK);
    CHECK_FLOAT(c[0], 11);
    g.beta = rt_gemm_one;
    CHECK_EQ(rt_gemm(&ctx, &g), RT_OK);
    CHECK(isnan(c[0]));
}

/* Product units are compiled to fuse multiply and add where the instruction set can; a build without it is half as fast
 * and would go unseen. -(1 + 2^-11) + (1 + 2^-12)^2 is 2^-24 when fused and 0 when the square is rounded first. */
static void multiply_add_is_fused(void) {
    if (!strcmp(rt_gemm_isa_name(), "portable")) return;
    enum { M = 20, N = 20, K = 2 };
    float a[M * K], b[K * N], c[M * N];
    for (int i = 0; i < M; i++) a[i * K] = -(1 + 0x1p-11f), a[i * K + 1] = 1 + 0x1p-12f;
    for (int j = 0; j < N; j++) b[j] = 1, b[N + j] = 1 + 0x1p-12f;
    ctx = rt_ctx_plain(NULL, message, sizeof message);
    rt_gemm_args g = rt_gemm_plain(RT_F32, M, N, K, a, b, c);
    CHECK_EQ(rt_gemm(&ctx, &g), RT_OK);
    for (int i = 0; i < M * N; i++) CHECK_FLOAT(c[i], 0x1p-24);
}

static void *no_alloc(void *user, size_t size) {
    int *left = user;
    return (*left)-- > 0 ? aligned_alloc(64, size) : NULL;
}
static void plain_free(void *user, void *p) {
    (void)user;
    free(p);
}

static void out_of_memory(void) {
    static float a[100 * 100], b[100 * 100], c[100 * 100];
    for (int layouts = 0; layouts < 4; layouts++) {
        int code = RT_ENOMEM, tries = 0;
        for (; code == RT_ENOMEM && tries < 20; tries++) {
            int left = tries;
            ctx = rt_ctx_plain(NULL, message, sizeof message);
            ctx.alloc = no_alloc, ctx.free = plain_free, ctx.user = &left;
            rt_gemm_args g = rt_gemm_plain(layouts < 3 ? RT_F32 : RT_C64, 60, 50, 40, a, b, c);
            if (layouts == 1) g.a_row = 1, g.a_col = 60;
            if (layouts == 2) g.m = 1, g.a_col = 2, g.b_row = 1, g.b_col = 40;
            code = rt_gemm(&ctx, &g);
        }
        CHECK_EQ(code, RT_OK);
        CHECK(tries > 1);
    }
}

int main(int argc, char **argv) {
    (void)argc;
    if (every_isa(argv)) return every_isa_result();
    printf("%s: ", rt_gemm_isa_name());
    RUN(small_problems);
    RUN(larger_problems);
    RUN(few_rows_against_many);
    RUN(weights_in_blocks);
    RUN(no_terms);
    RUN(no_elements);
    RUN(zero_beta);
    RUN(multiply_add_is_fused);
    RUN(out_of_memory);
    return check_summary();
}
