/* gemm_complex.c: a complex product as a real one of twice the size.
 *
 *     | re C |   | re A  -im A |   | re B |
 *     | im C | = | im A   re A | * | im B |
 *
 * with the rows and columns of the two parts interleaved, so that a row of A becomes two rows in one pass. Batch
 * entries follow each other; the real product inside uses the threads. */
#include "runtime/gemm_isa.h"

typedef struct job {
    const rt_gemm_args *g;
    int work, real; /* dtypes: complex64 over float, or complex128 over double */
    int64_t item;   /* bytes of `real` */
    char *a, *b, *c, *line, *addend;
} job;

/* The loops of this file, for float and double. */
#define LOOPS(T, name)                                                                                                 \
    static void mirror_##name(T *top, T *bottom, int64_t n) {                                                          \
        for (int64_t k = 0; k < n; k++) {                                                                              \
            bottom[2 * k] = top[2 * k + 1];                                                                            \
            bottom[2 * k + 1] = top[2 * k];                                                                            \
            top[2 * k + 1] = -top[2 * k + 1];                                                                          \
        }                                                                                                              \
    }                                                                                                                  \
    static void split_##name(T *re, T *im, const T *x, int64_t n) {                                                    \
        for (int64_t j = 0; j < n; j++) re[j] = x[2 * j], im[j] = x[2 * j + 1];                                        \
    }                                                                                                                  \
    static void join_##name(T *y, const T *re, const T *im, int64_t n) {                                               \
        for (int64_t j = 0; j < n; j++) y[2 * j] = re[j], y[2 * j + 1] = im[j];                                        \
    }                                                                                                                  \
    static void scale_##name(T *y, int64_t n, T re, T im) {                                                            \
        for (int64_t j = 0; j < n; j++) {                                                                              \
            T r = y[2 * j] * re - y[2 * j + 1] * im, i = y[2 * j] * im + y[2 * j + 1] * re;                            \
            y[2 * j] = r, y[2 * j + 1] = i;                                                                            \
        }                                                                                                              \
    }                                                                                                                  \
    static void add_##name(T *y, const T *x, int64_t n) {                                                              \
        for (int64_t j = 0; j < 2 * n; j++) y[j] += x[j];                                                              \
    }
LOOPS(float, f)
LOOPS(double, d)
#define EITHER(s, call, ...) ((s)->real == RT_F64 ? call##_d(__VA_ARGS__) : call##_f(__VA_ARGS__))

static void factors_fill(job *s, int64_t batch) {
    const rt_gemm_args *g = s->g;
    int64_t from = rt_itemsize(g->dtype);
    for (int64_t i = 0; i < g->m; i++) {
        void *top = s->a + 2 * i * 2 * g->k * s->item, *bottom = s->a + (2 * i + 1) * 2 * g->k * s->item;
        rt_convert(s->work, top, 1, g->dtype, (const char *)g->a + (batch * g->a_batch + i * g->a_row) * from, g->a_col,
                   g->k);
        EITHER(s, mirror, top, bottom, g->k);
    }
    for (int64_t k = 0; k < g->k; k++) {
        void *re = s->b + 2 * k * g->n * s->item, *im = s->b + (2 * k + 1) * g->n * s->item;
        rt_convert(s->work, s->line, 1, g->dtype, (const char *)g->b + (batch * g->b_batch + k * g->b_row) * from,
                   g->b_col, g->n);
        EITHER(s, split, re, im, (void *)s->line, g->n);
    }
}

static void result_store(job *s, int64_t batch) {
    const rt_gemm_args *g = s->g;
    int64_t item = rt_itemsize(g->dtype);
    double ar = gemm_real(g->alpha), br = gemm_real(g->beta);
    for (int64_t i = 0; i < g->m; i++) {
        void *line = s->line, *addend = s->addend;
        void *re = s->c + 2 * i * g->n * s->item, *im = s->c + (2 * i + 1) * g->n * s->item;
        EITHER(s, join, line, re, im, g->n);
        if (!gemm_is_one(g->alpha)) EITHER(s, scale, line, g->n, ar, g->alpha.im);
        char *c = (char *)g->c + (batch * g->c_batch + i * g->c_row) * item;
        if (!gemm_is_zero(g->beta)) {
            const char *d = g->d ? (const char *)g->d + (batch * g->d_batch + i * g->d_row) * item : c;
            rt_convert(s->work, addend, 1, g->dtype, d, g->d ? g->d_col : g->c_col, g->n);
            if (!gemm_is_one(g->beta)) EITHER(s, scale, addend, g->n, br, g->beta.im);
            EITHER(s, add, line, addend, g->n);
        }
        rt_convert(g->dtype, c, g->c_col, s->work, line, 1, g->n);
    }
}

RT_CHOICE int gemm_complex(const rt_ctx *ctx, const rt_gemm_args *g) {
    if (g->pack_b || g->packed_b)
        return rt_fail(ctx, RT_ENOTIMPL, "matrix product: complex dtypes cannot be packed ahead");
    job s = { .g = g, .work = g->dtype == RT_C128 ? RT_C128 : RT_C64 };
    s.real = s.work == RT_C128 ? RT_F64 : RT_F32;
    s.item = rt_itemsize(s.real);
    int64_t k = g->k > 0 ? g->k : 0, a = 4 * g->m * k, b = 2 * k * g->n, c = 2 * g->m * g->n, line = 2 * g->n;
    char *memory = rt_scratch(ctx, (size_t)((a + b + c + 2 * line) * s.item));
    if (!memory) return rt_fail(ctx, RT_ENOMEM, "out of memory for a complex matrix product");
    s.a = memory;
    s.b = s.a + a * s.item;
    s.c = s.b + b * s.item;
    s.line = s.c + c * s.item;
    s.addend = s.line + line * s.item;
    int code = RT_OK;
    for (int64_t batch = 0; batch < g->batch && !code; batch++) {
        factors_fill(&s, batch);
        rt_gemm_args real = rt_gemm_plain(s.real, 2 * g->m, g->n, 2 * k, s.a, s.b, s.c);
        code = rt_gemm(ctx, &real);
        if (!code) result_store(&s, batch);
    }
    rt_scratch_free(ctx, memory);
    return code;
}
