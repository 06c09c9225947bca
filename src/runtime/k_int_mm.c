/* k_int_mm.c: products of matrices of bytes, summed modulo 2^32.
 *
 * Newer processors multiply four unsigned bytes by four signed ones and add all to a 32-bit lane in one instruction
 * (VNNI). For it, rows of self become unsigned (int8: each number is 128 more, for which the sums begin that much
 * lower), and mat2 panels of 64 columns in which four terms of a column lie together. Elsewhere both are widened to 16
 * bits, and rows are multiplied by columns. */
#include "runtime/kernels.h"

#include <string.h>

enum {
    PANEL = 64, /* columns whose sums a tile has in registers */
    TILE = 6,   /* rows of them */
    ROWS = 48,  /* of a unit of work; a multiple of TILE */
    FOUR = 4,   /* terms that are added at once */
};
typedef struct job {
    rt_view a, b, out;
    void *rows, *columns; /* self and mat2, packed; each row or column has `terms` places */
    int32_t *begin;       /* what the sums of a panel's columns begin with */
    int64_t m, n, k, terms;
} job;

static inline int64_t up_to(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }
static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static void store(const job *j, const int32_t *tile, int64_t width, int64_t row, int64_t rows, int64_t column) {
    int64_t columns = least(width, j->n - column), step = j->out.stride[1];
    for (int64_t i = 0; i < rows; i++, tile += width) {
        int32_t *to = (int32_t *)j->out.p + (row + i) * j->out.stride[0] + column * step;
        for (int64_t c = 0; c < columns; c++) to[c * step] = tile[c];
    }
}

#if defined(__x86_64__)
#define VNNI __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")))
typedef int32_t lanes __attribute__((vector_size(64), aligned(4)));

VNNI static inline lanes add_products(lanes sum, lanes bytes, lanes signed_bytes) {
    __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(bytes), "v"(signed_bytes));
    return sum;
}

/* TILE rows times a panel. */
VNNI static void multiply_tile(const uint8_t *rows, const int8_t *panel, const int32_t *begin, int64_t terms,
                               int32_t *to) {
    lanes sum[TILE][FOUR];
    for (int i = 0; i < TILE; i++)
        for (int v = 0; v < FOUR; v++) sum[i][v] = *(const lanes *)(begin + 16 * v);
    for (int64_t t = 0; t < terms; t += FOUR, panel += PANEL * FOUR) {
        lanes b[FOUR];
        for (int v = 0; v < FOUR; v++) b[v] = *(const lanes *)(const void *)(panel + 64 * v);
#pragma GCC unroll 6
        for (int i = 0; i < TILE; i++) {
            int32_t four;
            memcpy(&four, rows + i * terms + t, sizeof four);
            lanes a = (lanes){ 0 } + four;
            for (int v = 0; v < FOUR; v++) sum[i][v] = add_products(sum[i][v], a, b[v]);
        }
    }
    for (int i = 0; i < TILE; i++)
        for (int v = 0; v < FOUR; v++) *(lanes *)(to + i * PANEL + 16 * v) = sum[i][v];
}

/* Units are blocks of rows of one panel after the other. */
VNNI static int multiply_panels(void *arg, int64_t begin, int64_t end) {
    const job *j = arg;
    int64_t blocks = (j->m + ROWS - 1) / ROWS;
    for (int64_t unit = begin; unit < end; unit++) {
        int64_t panel = unit / blocks, from = unit % blocks * ROWS, to = least(from + ROWS, j->m);
        for (int64_t row = from; row < to; row += TILE) {
            int32_t tile[TILE * PANEL];
            multiply_tile((const uint8_t *)j->rows + row * j->terms,
                          (const int8_t *)j->columns + panel * PANEL * j->terms, j->begin + panel * PANEL, j->terms,
                          tile);
            store(j, tile, PANEL, row, least(to - row, TILE), panel * PANEL);
        }
    }
    return RT_OK;
}

VNNI static int pack_rows(void *arg, int64_t begin, int64_t end) {
    const job *j = arg;
    uint8_t flip = j->a.dtype == RT_I8 ? 128 : 0;
    for (int64_t row = begin; row < end; row++) {
        uint8_t *to = (uint8_t *)j->rows + row * j->terms;
        const uint8_t *from = (const uint8_t *)j->a.p + row * j->a.stride[0];
        int64_t step = j->a.stride[1], n = row < j->m ? j->k : 0;
        memset(to + n, 0, (size_t)(j->terms - n));
        if (step == 1)
            for (int64_t t = 0; t < n; t++) to[t] = from[t] ^ flip;
        else
            for (int64_t t = 0; t < n; t++) to[t] = from[t * step] ^ flip;
    }
    return RT_OK;
}

/* Four rows of mat2 side by side. */
VNNI static void weave(int8_t *restrict to, const int8_t *restrict a, const int8_t *restrict b,
                       const int8_t *restrict c, const int8_t *restrict d) {
    for (int i = 0; i < PANEL; i++) to[4 * i] = a[i], to[4 * i + 1] = b[i], to[4 * i + 2] = c[i], to[4 * i + 3] = d[i];
}

VNNI static void pack_columns(const job *j, int64_t panel) {
    int8_t *to = (int8_t *)j->columns + panel * PANEL * j->terms;
    int64_t row = j->b.stride[0], column = j->b.stride[1], width = least(PANEL, j->n - panel * PANEL);
    const int8_t *from = (const int8_t *)j->b.p + panel * PANEL * column;
    if (width < PANEL || j->terms > j->k) memset(to, 0, (size_t)(PANEL * j->terms));
    for (int64_t t = 0; t < j->k; t += FOUR, to += PANEL * FOUR, from += FOUR * row) {
        int64_t terms = least(FOUR, j->k - t);
        if (column == 1 && width == PANEL && terms == FOUR) {
            weave(to, from, from + row, from + 2 * row, from + 3 * row);
        } else if (row == 1 && terms == FOUR) {
            for (int64_t i = 0; i < width; i++) memcpy(to + FOUR * i, from + i * column, FOUR);
        } else {
            for (int64_t i = 0; i < width; i++)
                for (int64_t f = 0; f < terms; f++) to[FOUR * i + f] = from[f * row + i * column];
        }
    }
    lanes sum[FOUR] = { { 0 } }, ones = (lanes){ 0 } + 0x01010101;
    const int8_t *at = (const int8_t *)j->columns + panel * PANEL * j->terms;
    for (int64_t t = 0; t < j->terms; t += FOUR, at += PANEL * FOUR)
        for (int v = 0; v < FOUR; v++)
            sum[v] = add_products(sum[v], ones, *(const lanes *)(const void *)(at + 64 * v));
    for (int v = 0; v < FOUR; v++)
        *(lanes *)(j->begin + panel * PANEL + 16 * v) = j->a.dtype == RT_I8 ? sum[v] * -128 : sum[v] * 0;
}

static int pack_panels(void *arg, int64_t begin, int64_t end) {
    for (int64_t panel = begin; panel < end; panel++) pack_columns(arg, panel);
    return RT_OK;
}

static bool has_vnni(void) { return (rt_cpu() & RT_CPU_AVX512) && __builtin_cpu_supports("avx512vnni"); }

static int multiply_bytes(const rt_ctx *ctx, job *j) {
    int64_t panels = (j->n + PANEL - 1) / PANEL, blocks = (j->m + ROWS - 1) / ROWS;
    j->terms = up_to(j->k, FOUR);
    j->rows = rt_scratch(ctx, (size_t)(up_to(j->m, TILE) * j->terms));
    j->columns = rt_scratch(ctx, (size_t)(panels * PANEL * j->terms));
    j->begin = rt_scratch(ctx, (size_t)(panels * PANEL) * sizeof *j->begin);
    int code = j->rows && j->columns && j->begin ? RT_OK : RT_ENOMEM;
    if (!code) code = rt_parallel_work(ctx, up_to(j->m, TILE), j->terms, 1 << 15, pack_rows, j);
    if (!code) code = rt_parallel_work(ctx, panels, PANEL * j->terms, 1 << 14, pack_panels, j);
    if (!code) code = rt_parallel_work(ctx, panels * blocks, ROWS * PANEL * j->terms, 1 << 17, multiply_panels, j);
    rt_scratch_free(ctx, j->begin);
    return code;
}
#endif

/* ---- without VNNI: rows of 16-bit numbers by columns of them ---- */

/* 2^15 products of 255 * 128 are less than 2^31. */
#define WORDS(name, attribute)                                                                                         \
    attribute static int32_t name##_sum(const int16_t *restrict a, const int16_t *restrict b, int64_t n) {             \
        uint32_t sum = 0;                                                                                              \
        for (int64_t t = 0, many; t < n; t += many) {                                                                  \
            int32_t part = 0;                                                                                          \
            many = least(1 << 15, n - t);                                                                              \
            for (int64_t i = t; i < t + many; i++) part += (int32_t)a[i] * b[i];                                       \
            sum += (uint32_t)part;                                                                                     \
        }                                                                                                              \
        int32_t wrapped;                                                                                               \
        memcpy(&wrapped, &sum, sizeof sum);                                                                            \
        return wrapped;                                                                                                \
    }                                                                                                                  \
    attribute static int name(void *arg, int64_t begin, int64_t end) {                                                 \
        const job *j = arg;                                                                                            \
        for (int64_t first = 0; first < j->n; first += PANEL)                                                          \
            for (int64_t row = begin; row < end; row++) {                                                              \
                int32_t sums[PANEL];                                                                                   \
                int64_t width = least(PANEL, j->n - first);                                                            \
                const int16_t *a = (const int16_t *)j->rows + row * j->terms;                                          \
                const int16_t *b = (const int16_t *)j->columns + first * j->terms;                                     \
                for (int64_t c = 0; c < width; c++) sums[c] = name##_sum(a, b + c * j->terms, j->terms);               \
                store(j, sums, width, row, 1, first);                                                                  \
            }                                                                                                          \
        return RT_OK;                                                                                                  \
    }
WORDS(multiply_rows, )
#if defined(__x86_64__)
WORDS(multiply_rows_avx2, __attribute__((target("avx2"))))
#endif

static int multiply_words(const rt_ctx *ctx, job *j) {
    rt_view columns = j->b, rows, turned;
    columns.size[0] = j->n, columns.size[1] = j->k;
    columns.stride[0] = j->b.stride[1], columns.stride[1] = j->b.stride[0];
    j->terms = j->k;
    int code = rt_contiguous(ctx, &j->a, RT_I16, &rows, &j->rows);
    if (!code) code = rt_contiguous(ctx, &columns, RT_I16, &turned, &j->columns);
    int (*multiply)(void *, int64_t, int64_t) = multiply_rows;
#if defined(__x86_64__)
    if (rt_cpu() & RT_CPU_AVX2) multiply = multiply_rows_avx2;
#endif
    return code ? code : rt_parallel_work(ctx, j->m, j->n * j->k, 1 << 15, multiply, j);
}

/* self (int8 or uint8), mat2 (int8); int32 out */
RT_KERNEL(rt_k_int_mm) {
    job j = { .a = *rt_arg_view(c, 0), .b = *rt_arg_view(c, 1), .out = c->out[0] };
    j.m = j.a.size[0], j.k = j.a.size[1], j.n = j.b.size[1];
    if (!j.m || !j.n) return RT_OK;
    int code;
#if defined(__x86_64__)
    if (has_vnni()) code = multiply_bytes(ctx, &j);
    else
#endif
        code = multiply_words(ctx, &j);
    rt_scratch_free(ctx, j.rows);
    rt_scratch_free(ctx, j.columns);
    return code;
}
