/* conv_winograd.h: the transforms of Winograd's convolution F(m x m, 3 x 3), m = 2 or 4, on vectors of channels.
 * Included by the conv_*.c files after conv_tile.h, whose vector types it uses.
 *
 * m x m outputs of a 3x3 convolution are n x n products of a transformed patch (n = m + 2) and transformed weights,
 * transformed back: 2.25 or 4 times fewer products. Points 0, 1, -1 (2, -2), infinity. Each two-dimensional transform
 * is the one-dimensional one of all rows, then of all columns. Number p = row * n + column of a transformed patch lies
 * `pos` floats after number p - 1. */

enum { WINOGRAD_MOST = 6 };

/* Patch: n numbers to n. */
INLINE void patch_line(const int m, const vec *d, int step, vec *o) {
    if (m == 4) {
        vec even = d[4 * step] - 4.0f * d[2 * step], odd = d[3 * step] - 4.0f * d[step];
        vec even2 = d[4 * step] - d[2 * step], odd2 = 2.0f * (d[3 * step] - d[step]);
        o[0] = 4.0f * d[0] - 5.0f * d[2 * step] + d[4 * step];
        o[1] = even + odd;
        o[2] = even - odd;
        o[3] = even2 + odd2;
        o[4] = even2 - odd2;
        o[5] = 4.0f * d[step] - 5.0f * d[3 * step] + d[5 * step];
    } else {
        o[0] = d[0] - d[2 * step];
        o[1] = d[step] + d[2 * step];
        o[2] = d[2 * step] - d[step];
        o[3] = d[step] - d[3 * step];
    }
}

/* Weights: 3 numbers to n. */
INLINE void weight_line(const int m, const vec *g, int step, vec *o) {
    vec sum = g[0] + g[2 * step], middle = g[step], last = g[2 * step];
    if (m == 4) {
        vec fine = g[0] * (1.0f / 24.0f) + last * (1.0f / 6.0f), half = middle * (1.0f / 12.0f);
        o[0] = g[0] * 0.25f;
        o[1] = (sum + middle) * (-1.0f / 6.0f);
        o[2] = (sum - middle) * (-1.0f / 6.0f);
        o[3] = fine + half;
        o[4] = fine - half;
        o[5] = last;
    } else {
        o[0] = g[0];
        o[1] = (sum + middle) * 0.5f;
        o[2] = (sum - middle) * 0.5f;
        o[3] = last;
    }
}

/* Result: n numbers to m. */
INLINE void result_line(const int m, const vec *s, int step, vec *o) {
    vec plus = s[step] + s[2 * step], minus = s[step] - s[2 * step];
    if (m == 4) {
        vec plus2 = s[3 * step] + s[4 * step], minus2 = s[3 * step] - s[4 * step];
        o[0] = s[0] + plus + plus2;
        o[1] = minus + 2.0f * minus2;
        o[2] = plus + 4.0f * plus2;
        o[3] = minus + 8.0f * minus2 + s[5 * step];
    } else {
        o[0] = s[0] + plus;
        o[1] = minus - s[3 * step];
    }
}

/* All rows of a square of `given`, then the columns: a square of `made`. */
#define TRANSFORM(m, line, in, given, made, out)                                                                       \
    do {                                                                                                               \
        vec part[WINOGRAD_MOST * WINOGRAD_MOST];                                                                       \
        UNROLL for (int r = 0; r < (given); r++) line(m, (in) + r * (given), 1, part + r * (made));                    \
        UNROLL for (int c = 0; c < (made); c++) {                                                                      \
            vec column[WINOGRAD_MOST];                                                                                 \
            line(m, part + c, made, column);                                                                           \
            UNROLL for (int r = 0; r < (made); r++) (out)[r * (made) + c] = column[r];                                 \
        }                                                                                                              \
    } while (0)

INLINE void patches_of(const int m, const float *x, int64_t row, int64_t pixel, int64_t channels, float *v,
                       int64_t pos) {
    const int n = m + 2;
    for (int64_t c = 0; c < channels; c += LANES) {
        vec d[WINOGRAD_MOST * WINOGRAD_MOST], o[WINOGRAD_MOST * WINOGRAD_MOST];
        UNROLL for (int i = 0; i < n; i++) {
            UNROLL for (int j = 0; j < n; j++) d[i * n + j] = *(const vec_at *)(x + i * row + j * pixel + c);
        }
        TRANSFORM(m, patch_line, d, n, n, o);
        UNROLL for (int p = 0; p < n * n; p++) *(vec_at *)(v + p * pos + c) = o[p];
    }
}

INLINE void weights_of(const int m, const float *w, int64_t tap, int64_t count, float *u, int64_t pos) {
    const int n = m + 2;
    for (int64_t k = 0; k < count * CONV_LANES; k += LANES) {
        vec g[9], o[WINOGRAD_MOST * WINOGRAD_MOST];
        UNROLL for (int t = 0; t < 9; t++) g[t] = *(const vec_at *)(w + t * tap + k);
        TRANSFORM(m, weight_line, g, 3, n, o);
        UNROLL for (int p = 0; p < n * n; p++) *(vec_at *)(u + p * pos + k) = o[p];
    }
}

INLINE void results_of(const int m, const float *s, int64_t pos, const conv_result *r) {
    const int n = m + 2;
    for (int64_t c = 0; c < r->channels; c += LANES) {
        vec d[WINOGRAD_MOST * WINOGRAD_MOST], o[WINOGRAD_MOST * WINOGRAD_MOST], part[WINOGRAD_MOST * WINOGRAD_MOST];
        UNROLL for (int p = 0; p < n * n; p++) d[p] = *(const vec_at *)(s + p * pos + c);
        UNROLL for (int i = 0; i < n; i++) result_line(m, d + i * n, 1, part + i * m);
        UNROLL for (int j = 0; j < m; j++) {
            vec column[WINOGRAD_MOST];
            result_line(m, part + j, m, column);
            UNROLL for (int i = 0; i < m; i++) o[i * m + j] = column[i];
        }
        vec bias = *(const vec_at *)(r->bias + c);
        UNROLL for (int i = 0; i < m; i++) {
            UNROLL for (int j = 0; j < m; j++) {
                vec y = o[i * m + j] + bias;
                if (r->residual) y += *(const vec_at *)(r->residual + i * r->residual_row + j * r->residual_pixel + c);
                *(vec_at *)(r->y + i * r->row + j * r->pixel + c) = r->relu ? at_least_0(y) : y;
            }
        }
    }
}
#undef TRANSFORM

static void patches(int m, const float *x, int64_t row, int64_t pixel, int64_t channels, float *v, int64_t pos) {
    if (m == 4) patches_of(4, x, row, pixel, channels, v, pos);
    else patches_of(2, x, row, pixel, channels, v, pos);
}
static void weights(int m, const float *w, int64_t tap, int64_t count, float *u, int64_t pos) {
    if (m == 4) weights_of(4, w, tap, count, u, pos);
    else weights_of(2, w, tap, count, u, pos);
}
static void results(int m, const float *s, int64_t pos, const conv_result *r) {
    if (m == 4) results_of(4, s, pos, r);
    else results_of(2, s, pos, r);
}
