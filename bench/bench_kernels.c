/* bench_kernels: products, convolutions and attention as a share of the machine's peak of fused multiply-add.
 *
 * Peak and kernel alternate in short rounds on the same threads (two, or as many as the first argument says); the row
 * compares the best round of each, which is what they reach when nobody else uses the machine. Prints rows as
 * bench/run.py reads them. */
#include "runtime/gemm.h"
#include "runtime/kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_THREADS = 16, LEAST_ROUNDS = 20 };
static int threads = 2;
static double most_seconds = 1.5;

static const char *only;
static char message[128];
static rt_ctx ctx;

/* One thread is judged by its own time, so that what else runs on the machine counts less. */
static double seconds(void) {
    struct timespec t;
    clock_gettime(threads == 1 ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- the peak: independent chains of multiply-add, nothing else ---- */

#if defined(__x86_64__)
#define CHAINS(op) op(0) op(1) op(2) op(3) op(4) op(5) op(6) op(7) op(8) op(9) op(10) op(11)
#define CLEAR(i) "vpxor %%xmm" #i ", %%xmm" #i ", %%xmm" #i "\n"
#define FMA512(i) "vfmadd231ps %%zmm14, %%zmm15, %%zmm" #i "\n"
#define FMA256(i) "vfmadd231ps %%ymm14, %%ymm15, %%ymm" #i "\n"
#define MULADD(i) "mulps %%xmm14, %%xmm" #i "\naddps %%xmm15, %%xmm" #i "\n"
#define TOUCHED                                                                                                      \
    "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm14", \
        "xmm15"
#define RUN_CHAINS(step)                                                                                  \
    __asm__ volatile(CHAINS(CLEAR) CLEAR(14) CLEAR(15) "1:\n" CHAINS(step) "dec %0\njnz 1b\nvzeroupper\n" \
                     : "+r"(n)                                                                            \
                     :                                                                                    \
                     : TOUCHED)
#define CLEAR_SSE(i) "xorps %%xmm" #i ", %%xmm" #i "\n"

/* Floating-point operations of n steps. */
static double chains_run(long n) {
    double count = (double)n * 12 * 2;
    const char *isa = rt_gemm_isa_name();
    if (!strcmp(isa, "avx512")) {
        RUN_CHAINS(FMA512);
        return count * 16;
    }
    if (!strcmp(isa, "avx2")) {
        RUN_CHAINS(FMA256);
        return count * 8;
    }
    __asm__ volatile(CHAINS(CLEAR_SSE) CLEAR_SSE(14) CLEAR_SSE(15) "1:\n" CHAINS(MULADD) "dec %0\njnz 1b\n"
                     : "+r"(n)
                     :
                     : TOUCHED);
    return count * 4;
}
#else
typedef float f32x4 __attribute__((vector_size(16)));
static double chains_run(long n) {
    f32x4 sum[12] = { { 0 } }, x = { 0 }, y = { 0 };
    for (long i = 0; i < n; i++)
        for (int k = 0; k < 12; k++) {
            sum[k] = sum[k] * x + y;
            __asm__ volatile("" : "+w"(sum[k]));
        }
    return (double)n * 12 * 2 * 4;
}
#endif

static double peak_work[MOST_THREADS];

/* Of one step on all threads. */
static double peak_step_operations(void) { return chains_run(1) * threads; }

static int peak_run(void *arg, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) peak_work[i] = chains_run(*(const long *)arg);
    return RT_OK;
}

/* Operations a second of all threads together, over `steps` steps. */
static double peak(long steps) {
    double begin = seconds();
    rt_parallel_for(&ctx, threads, 1, peak_run, &steps);
    double took = seconds() - begin, work = 0;
    for (int i = 0; i < threads; i++) work += peak_work[i];
    return work / took;
}

/* ---- one row ---- */

static void measure(const char *name, double operations, double goal, int (*run)(void *), void *arg) {
    if (only && !strstr(name, only)) return;
    double ours = 0, best_peak = 0, start = seconds();
    long steps = 100000;
    for (int r = 0; r < LEAST_ROUNDS || seconds() - start < most_seconds; r++) {
        double peak_now = peak(steps), begin = seconds();
        if (run(arg)) {
            fprintf(stderr, "%s: %s\n", name, message);
            exit(1);
        }
        double rate = operations / (seconds() - begin);
        ours = rate > ours ? rate : ours;
        best_peak = peak_now > best_peak ? peak_now : best_peak;
        /* Rounds of both take the same time, so that interruptions hit both alike. */
        steps = 1 + (long)(operations / ours * best_peak / peak_step_operations());
    }
    double ratio = ours / best_peak;
    printf("{\"name\": \"%s\", \"ours\": %.4g, \"peer\": %.4g, \"peer_name\": \"GFLOP/s peak\", \"ratio\": %.4g, "
           "\"goal\": %g, \"met\": %s}\n",
           name, ours * 1e-9, best_peak * 1e-9, ratio, goal, ratio >= goal ? "true" : "false");
    fflush(stdout);
}

static float *numbers(int64_t n) {
    float *x = aligned_alloc(64, (size_t)((n * 4 + 63) & ~(int64_t)63));
    if (!x) exit(1);
    for (int64_t i = 0; i < n; i++) x[i] = (float)(i * 37 % 101 - 50) / 64;
    return x;
}

/* ---- products ---- */

static int product_run(void *arg) { return rt_gemm(&ctx, arg); }

/* `transposed`: the weights of a linear layer, [n, k]. */
static void product(const char *name, int64_t m, int64_t n, int64_t k, bool transposed, bool packed, double goal) {
    float *a = numbers(m * k), *b = numbers(k * n), *c = numbers(m * n);
    void *panels = NULL;
    rt_gemm_args g = rt_gemm_plain(RT_F32, m, n, k, a, b, c);
    if (transposed) g.b_row = 1, g.b_col = k;
    if (packed) {
        panels = aligned_alloc(64, (size_t)rt_gemm_packed_bytes(RT_F32, n, k));
        if (!panels) exit(1);
        rt_gemm_pack_b(&g, panels);
        g.packed_b = panels;
    }
    measure(name, 2.0 * (double)(m * n * k), goal, product_run, &g);
    free(a), free(b), free(c), free(panels);
}

/* Weights from main memory, as a whole model sees them: packed copies that together exceed every cache take turns. */
enum { COLD_BYTES = 640 << 20 };
typedef struct cold { rt_gemm_args g; char *copies; int64_t bytes, count, at; rt_post post; } cold;

static int cold_run(void *arg) {
    cold *c = arg;
    c->g.packed_b = c->copies + c->at++ % c->count * c->bytes;
    return rt_gemm(&ctx, &c->g);
}

static char *cold_memory;

static void product_cold(const char *name, int64_t m, int64_t n, int64_t k, const char *act, double goal) {
    float *a = numbers(m * k), *b = numbers(k * n), *c = numbers(m * n), *bias = numbers(n);
    cold run = { .g = rt_gemm_plain(RT_F32, m, n, k, a, b, c), .bytes = rt_gemm_packed_bytes(RT_F32, n, k) };
    run.post = (rt_post){ .bias = bias, .act = rt_act_find(act) };
    run.g.post = &run.post;
    run.count = COLD_BYTES / run.bytes;
    run.copies = cold_memory;
    for (int64_t i = 0; i < run.count; i++) rt_gemm_pack_b(&run.g, run.copies + i * run.bytes);
    measure(name, 2.0 * (double)(m * n * k), goal, cold_run, &run);
    free(a), free(b), free(c), free(bias);
}

/* ---- convolutions ---- */

typedef struct layer { rt_view in, weight, out; rt_arg arg[9]; int64_t ones[2], pad[2], zeros[2]; } layer;

static int layer_run(void *arg) {
    layer *l = arg;
    rt_call call = { .arg = l->arg, .out = &l->out, .nargs = 9, .nout = 1 };
    return rt_k_convolution(&ctx, &call);
}

static void convolution(const char *name, int64_t c, int64_t o, int64_t side, int64_t kernel, int64_t groups,
                        double goal) {
    layer l = { .ones = { 1, 1 }, .pad = { kernel / 2, kernel / 2 } };
    l.in = rt_view_contiguous(numbers(c * side * side), RT_F32, 4, (int64_t[]){ 1, c, side, side });
    l.weight = rt_view_contiguous(numbers(o * c / groups * kernel * kernel), RT_F32, 4,
                                  (int64_t[]){ o, c / groups, kernel, kernel });
    l.out = rt_view_contiguous(numbers(o * side * side), RT_F32, 4, (int64_t[]){ 1, o, side, side });
    l.arg[0] = (rt_arg){ RT_ARG_VIEW, 0, { .view = &l.in } };
    l.arg[1] = (rt_arg){ RT_ARG_VIEW, 0, { .view = &l.weight } };
    l.arg[3] = l.arg[5] = (rt_arg){ RT_ARG_INTS, 2, { .ints = l.ones } };
    l.arg[4] = (rt_arg){ RT_ARG_INTS, 2, { .ints = l.pad } };
    l.arg[6] = (rt_arg){ RT_ARG_INT, 0, { .i = 0 } };
    l.arg[7] = (rt_arg){ RT_ARG_INTS, 2, { .ints = l.zeros } };
    l.arg[8] = (rt_arg){ RT_ARG_INT, 0, { .i = groups } };
    measure(name, 2.0 * (double)(o * side * side * (c / groups) * kernel * kernel), goal, layer_run, &l);
    free(l.in.p), free(l.weight.p), free(l.out.p);
}

/* ---- attention ---- */

typedef struct heads { rt_view q, k, v, out; rt_arg arg[8]; } heads;

static int heads_run(void *arg) {
    heads *h = arg;
    rt_call call = { .arg = h->arg, .out = &h->out, .nargs = 8, .nout = 1 };
    return rt_k_sdpa(&ctx, &call);
}

static void attention(const char *name, int64_t count, int64_t rows, int64_t depth, double goal) {
    int64_t size[4] = { 1, count, rows, depth }, n = count * rows * depth;
    heads h = { .q = rt_view_contiguous(numbers(n), RT_F32, 4, size),
                .k = rt_view_contiguous(numbers(n), RT_F32, 4, size),
                .v = rt_view_contiguous(numbers(n), RT_F32, 4, size),
                .out = rt_view_contiguous(numbers(n), RT_F32, 4, size) };
    const rt_view *views[3] = { &h.q, &h.k, &h.v };
    for (int i = 0; i < 3; i++) h.arg[i] = (rt_arg){ RT_ARG_VIEW, 0, { .view = views[i] } };
    h.arg[4].kind = RT_ARG_FLOAT;
    h.arg[5].kind = h.arg[7].kind = RT_ARG_INT;
    measure(name, 4.0 * (double)(count * rows * rows * depth), goal, heads_run, &h);
    free(h.q.p), free(h.k.p), free(h.v.p), free(h.out.p);
}

int main(int argc, char **argv) {
    if (argc > 1) threads = atoi(argv[1]);
    if (argc > 2) only = argv[2];
    if (threads < 1 || threads > MOST_THREADS) {
        fprintf(stderr, "usage: bench_kernels [threads, 1 to %d] [part of a row's name]\n", MOST_THREADS);
        return 2;
    }
    ctx = rt_ctx_plain(rt_pool_create(threads), message, sizeof message);
    product("product 1024x1024x1024", 1024, 1024, 1024, false, false, 0.5);
    product("linear 128x3072x768", 128, 3072, 768, true, false, 0.35);
    product("linear 128x3072x768, packed weights", 128, 3072, 768, true, true, 0.5);
    product("product 1024x1024x1024, packed", 1024, 1024, 1024, false, true, 0.8);
    cold_memory = aligned_alloc(64, COLD_BYTES);
    if (!cold_memory) return 1;
    product_cold("linear 128x768x768, packed, cold", 128, 768, 768, "none", 0.5);
    product_cold("linear 128x3072x768 gelu, packed, cold", 128, 3072, 768, "gelu", 0.5);
    product_cold("linear 128x768x3072, packed, cold", 128, 768, 3072, "none", 0.5);
    product_cold("linear 64x1024x1024 gelu, packed, cold", 64, 1024, 1024, "gelu", 0.5);
    product_cold("linear 197x1152x384, packed, cold", 197, 1152, 384, "none", 0.5);
    product_cold("linear 1x1024x1024, packed, cold", 1, 1024, 1024, "none", 0.02);
    free(cold_memory);
    convolution("conv 3x3 64@56", 64, 64, 56, 3, 1, 0.35);
    convolution("conv 3x3 128@28", 128, 128, 28, 3, 1, 0.35);
    convolution("conv 3x3 256@14", 256, 256, 14, 3, 1, 0.35);
    convolution("conv 3x3 512@7", 512, 512, 7, 3, 1, 0.35);
    convolution("conv 1x1 256@56 to 64", 256, 64, 56, 1, 1, 0.35);
    attention("attention 12 heads 512x64", 12, 512, 64, 0.25);
    rt_pool_release(ctx.pool);
    return 0;
}
