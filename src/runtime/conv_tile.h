/* conv_tile.h: the inner loops of conv_isa.h, written once. Included with VECTOR (bytes of a register), ROWS1 and ROWS2
 * (the largest tile of 1 and 2 panels; 0: none) and PIXELS (of a depthwise tile) set.
 *
 * Only vector extensions. A product `x * vector` of a float becomes a broadcast and fused multiply-adds; all loops over
 * a tile are unrolled, so that its sums stay in registers. */
#include "runtime/conv_isa.h"

#if defined(__clang__)
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 32")
#endif
/* Keeps the compiler from deriving a pointer from another one, which would take a register for each multiple of the
 * stride. */
#define HIDE(pointer) __asm__("" : "+r"(pointer))
#define INLINE static inline __attribute__((always_inline))

enum { LANES = VECTOR / 4, PER_PANEL = 64 / VECTOR };
typedef float vec __attribute__((vector_size(VECTOR)));
typedef float vec_at __attribute__((vector_size(VECTOR), aligned(4), may_alias));
typedef int32_t ivec __attribute__((vector_size(VECTOR)));

/* ---- products ---- */

/* NaN stays: no comparison with it is true. */
INLINE vec at_least_0(vec x) { return (vec)((ivec)x & ~(ivec)(x < (vec){ 0 })); }
INLINE vec at_most_6(vec x) {
    const vec six = (vec){ 0 } + 6.0f;
    ivec over = (ivec)(x > six);
    return (vec)(((ivec)x & ~over) | ((ivec)six & over));
}

INLINE void tile_of(const int rows, const int panels, const conv_tile *t) {
    enum { VECS = (ROWS2 ? 2 : 1) * PER_PANEL };
    const int vecs = panels * PER_PANEL;
    vec sum[ROWS1][VECS];
    UNROLL for (int i = 0; i < rows; i++) {
        UNROLL for (int j = 0; j < vecs; j++) {
            sum[i][j] = *(const vec_at *)(t->in + i * t->in_row + j * LANES);
        }
    }
    const char *ahead = t->ahead;
    const int64_t ahead_step = t->ahead_step, a_row = t->a_row, panel = t->panel;
    for (int64_t r = 0; r < t->runs; r++) {
        const float *b = t->run[r].b, *end = b + t->run[r].k * CONV_LANES;
        const float *a = t->run[r].a, *a5 = a + 5 * a_row, *a10 = a5 + 5 * a_row;
        HIDE(a5);
        HIDE(a10);
        for (; b < end; b += CONV_LANES, a++, a5++, a10++) {
            vec row[VECS];
            UNROLL for (int p = 0; p < panels; p++) {
                UNROLL for (int j = 0; j < PER_PANEL; j++)
                    row[p * PER_PANEL + j] = *(const vec_at *)(b + p * panel + j * LANES);
            }
            __builtin_prefetch(ahead, 0, 2);
            ahead += ahead_step;
            UNROLL for (int i = 0; i < rows; i++) {
                float x = i < 5 ? a[i * a_row] : i < 10 ? a5[(i - 5) * a_row] : a10[(i - 10) * a_row];
                UNROLL for (int j = 0; j < vecs; j++) sum[i][j] += x * row[j];
            }
        }
    }
    if (t->residual) {
        UNROLL for (int i = 0; i < rows; i++) {
            UNROLL for (int j = 0; j < vecs; j++)
                sum[i][j] += *(const vec_at *)(t->residual + i * t->residual_row + j * LANES);
        }
    }
    if (t->relu) {
        UNROLL for (int i = 0; i < rows; i++) {
            UNROLL for (int j = 0; j < vecs; j++) sum[i][j] = at_least_0(sum[i][j]);
        }
    }
    UNROLL for (int i = 0; i < rows; i++) {
        UNROLL for (int j = 0; j < vecs; j++) *(vec_at *)(t->out + i * t->out_row + j * LANES) = sum[i][j];
    }
}

/* Cases beyond the largest tile are never reached; they repeat a small one instead of growing the code. */
#define TILE_CASE(r, p)                                                                                                \
    case (p) * 32 + (r):                                                                                               \
        if ((r) <= ROWS##p) tile_of((r) <= ROWS##p ? (r) : 1, ROWS##p ? (p) : 1, t);                                   \
        break;
#define TILE_CASES(p)                                                                                                  \
    TILE_CASE(1, p) TILE_CASE(2, p) TILE_CASE(3, p) TILE_CASE(4, p) TILE_CASE(5, p) TILE_CASE(6, p) TILE_CASE(7, p)    \
    TILE_CASE(8, p) TILE_CASE(9, p) TILE_CASE(10, p) TILE_CASE(11, p) TILE_CASE(12, p) TILE_CASE(13, p) TILE_CASE(14, p)

static void tile(int rows, int panels, const conv_tile *t) {
    switch (panels * 32 + rows) { TILE_CASES(1) TILE_CASES(2) }
}
#undef TILE_CASE
#undef TILE_CASES

/* ---- finishing ---- */

/* x (1/2 + t S(t^2)), t = x within 5.25, where S is half of erf(t / sqrt(2)) / t: minimax of our own in a variable from
 * -1 to 1; the error is below 2.1e-7 |x|. Below -5.25 the result is 0. */
INLINE vec gelu_of(vec x) {
    static const float s[] = { -0.000560954039f, 0.00145661307f, -0.00132634828f, 0.00186944276f, -0.00511998124f,
                               0.00907037687f,   -0.0129543869f, 0.0183259975f,   -0.0249949303f, 0.0320642628f,
                               -0.0397686325f,   0.0496438965f,  -0.0671266541f,  0.134659365f };
    const vec high = (vec){ 0 } + 5.25f, low = -high;
    ivec over = (ivec)(x > high), under = (ivec)(x < low);
    vec t = (vec)(((ivec)x & ~over & ~under) | ((ivec)high & over) | ((ivec)low & under));
    vec u = t * t * 0.0725623583f - 1.0f, sum = (vec){ 0 } + s[0];
    UNROLL for (int i = 1; i < 14; i++) sum = sum * u + s[i];
    return x * (vec)((ivec)(0.5f + t * sum) & ~under);
}

#define X(ID, name, text)                                                                                              \
    static void finish_##ID(float *y, int64_t y_row, const float *residual, int64_t residual_row, int64_t rows,       \
                            int64_t cols) {                                                                            \
        for (int64_t i = 0; i < rows; i++)                                                                             \
            for (int64_t j = 0; j < cols; j += LANES) {                                                                \
                vec x = *(const vec_at *)(y + i * y_row + j);                                                          \
                if (residual) x += *(const vec_at *)(residual + i * residual_row + j);                                 \
                *(vec_at *)(y + i * y_row + j) = text;                                                                 \
            }                                                                                                          \
    }
CONV_ACTS(X)
#undef X

static void finish(float *y, int64_t y_row, const float *residual, int64_t residual_row, int64_t rows, int64_t cols,
                   int act) {
    static void (*const all[])(float *, int64_t, const float *, int64_t, int64_t, int64_t) = {
#define X(ID, name, text) finish_##ID,
        CONV_ACTS(X)
#undef X
    };
    all[act](y, y_row, residual, residual_row, rows, cols);
}

/* ---- depthwise ---- */

/* A row of the kernel at a time: its weights stay in registers, every pixel is read once for all of its taps. */
INLINE void block_of(const int pixels, const int kernel_w, const int stride, const conv_block *b, const float *x0,
                     float *y) {
    UNROLL for (int part = 0; part < CONV_LANES; part += LANES) {
        vec sum[PIXELS];
        UNROLL for (int i = 0; i < pixels; i++) sum[i] = *(const vec_at *)(b->bias + part);
        const float *x = x0 + part, *w = b->w + part;
        for (int64_t ky = 0; ky < b->kernel_h; ky++, x += b->dilation_h * b->x_row, w += kernel_w * CONV_LANES) {
            vec tap[7];
            UNROLL for (int k = 0; k < kernel_w; k++) tap[k] = *(const vec_at *)(w + k * CONV_LANES);
            UNROLL for (int q = 0; q < (pixels - 1) * stride + kernel_w; q++) {
                vec in = *(const vec_at *)(x + q * CONV_LANES);
                UNROLL for (int i = 0; i < pixels; i++) {
                    if (q - i * stride >= 0 && q - i * stride < kernel_w) sum[i] += in * tap[q - i * stride];
                }
            }
        }
        UNROLL for (int i = 0; i < pixels; i++) *(vec_at *)(y + i * b->y_pixel + part) = sum[i];
    }
}

INLINE void block_any(const int pixels, const conv_block *b, const float *x0, float *y) {
    UNROLL for (int part = 0; part < CONV_LANES; part += LANES) {
        vec sum[PIXELS];
        UNROLL for (int i = 0; i < pixels; i++) sum[i] = *(const vec_at *)(b->bias + part);
        const float *w = b->w + part;
        for (int64_t ky = 0; ky < b->kernel_h; ky++) {
            const float *x = x0 + part + ky * b->dilation_h * b->x_row;
            for (int64_t kx = 0; kx < b->kernel_w; kx++, w += CONV_LANES, x += b->dilation_w * CONV_LANES) {
                vec tap = *(const vec_at *)w;
                UNROLL for (int i = 0; i < pixels; i++)
                    sum[i] += *(const vec_at *)(x + i * b->stride * CONV_LANES) * tap;
            }
        }
        UNROLL for (int i = 0; i < pixels; i++) *(vec_at *)(y + i * b->y_pixel + part) = sum[i];
    }
}

#define BLOCK_LOOP(name, MANY, ONE)                                                                                    \
    static void name(const conv_block *b) {                                                                            \
        const int64_t step = b->stride * CONV_LANES;                                                                   \
        int64_t i = 0;                                                                                                 \
        for (; i + PIXELS <= b->count; i += PIXELS) MANY(b, b->x + i * step, b->y + i * b->y_pixel);                   \
        for (; i < b->count; i++) ONE(b, b->x + i * step, b->y + i * b->y_pixel);                                      \
    }
#define BLOCK_FIXED(k, s)                                                                                              \
    INLINE void many_##k##_##s(const conv_block *b, const float *x, float *y) { block_of(PIXELS, k, s, b, x, y); }     \
    INLINE void one_##k##_##s(const conv_block *b, const float *x, float *y) { block_of(1, k, s, b, x, y); }           \
    BLOCK_LOOP(block_##k##_##s, many_##k##_##s, one_##k##_##s)
BLOCK_FIXED(3, 1)
BLOCK_FIXED(3, 2)
BLOCK_FIXED(5, 1)
BLOCK_FIXED(5, 2)
BLOCK_FIXED(7, 1)
INLINE void many_any(const conv_block *b, const float *x, float *y) { block_any(PIXELS, b, x, y); }
INLINE void one_any(const conv_block *b, const float *x, float *y) { block_any(1, b, x, y); }
BLOCK_LOOP(block_rest, many_any, one_any)

static void block(const conv_block *b) {
    switch (b->dilation_w == 1 ? b->kernel_w * 4 + b->stride : 0) {
    case 3 * 4 + 1: block_3_1(b); break;
    case 3 * 4 + 2: block_3_2(b); break;
    case 5 * 4 + 1: block_5_1(b); break;
    case 5 * 4 + 2: block_5_2(b); break;
    case 7 * 4 + 1: block_7_1(b); break;
    default: block_rest(b);
    }
}

/* ---- pooling ---- */

#if defined(__clang__) /* makes vectors of these at -O2 */
#define VECTORISED
#else
#define VECTORISED __attribute__((optimize("O3")))
#endif

static VECTORISED void most(float *restrict y, const float *restrict x, int64_t n) {
    for (int64_t j = 0; j < n; j++) {
        float a = y[j], c = x[j];
        y[j] = c > a || c != c ? c : a;
    }
}

static VECTORISED void sum(float *restrict y, const float *restrict x, int64_t n) {
    for (int64_t j = 0; j < n; j++) y[j] += x[j];
}
