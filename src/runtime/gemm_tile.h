/* gemm_tile.h: the inner loops, written once. Included with these set:
 *   T          element type                    NAME(x)  its names
 *   VECTOR     bytes of one register           ROWS1, ROWS2, ROWS3  largest tile of 1, 2, 3 panels; 0: no such tile
 *   WITH_DOT   floating point: also the dot and blend loops, and INT, the integer as wide as T
 *   WITH_GATHER  once: the loop that moves bytes
 *   WITH_PANELS  once: tiles over panels packed before the call
 *
 * tile: one row of the tile at a time is a broadcast element of A times the row of B: only vector extensions, no
 * intrinsics; `x * vector` becomes broadcast and fused multiply-add. All loops over the tile are unrolled, so that the
 * accumulators stay in registers. */

#if defined(__clang__)
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 32")
#endif

enum { NAME(lanes) = VECTOR / sizeof(T), NAME(width) = 64 / sizeof(T), NAME(per_panel) = 64 / VECTOR };
typedef T NAME(vec) __attribute__((vector_size(VECTOR)));
typedef T NAME(vec_at) __attribute__((vector_size(VECTOR), aligned(sizeof(T)), may_alias));

static inline __attribute__((always_inline)) void NAME(tile_of)(const int rows, const int panels, int64_t k,
                                                                const T *a, int64_t a_row, const T *b, int64_t b_row,
                                                                int64_t panel, const T *in, int64_t in_row, T *out,
                                                                int64_t out_row, gemm_ahead ahead) {
    enum { VECS = (ROWS3 ? 3 : ROWS2 ? 2 : 1) * NAME(per_panel) };
    const int vecs = panels * NAME(per_panel);
    NAME(vec) sum[ROWS1][VECS];
    UNROLL for (int i = 0; i < rows; i++) {
        UNROLL for (int j = 0; j < vecs; j++) {
            if (in) sum[i][j] = *(const NAME(vec_at) *)(in + i * in_row + j * NAME(lanes));
            else sum[i][j] = (NAME(vec)){ 0 };
        }
    }
    for (int64_t at = 0; at < k; at++) {
        NAME(vec) row[VECS];
        __builtin_prefetch(ahead.at, 0, 2);
        ahead.at += ahead.step;
        UNROLL for (int p = 0; p < panels; p++) {
            UNROLL for (int j = 0; j < NAME(per_panel); j++)
                row[p * NAME(per_panel) + j] = *(const NAME(vec_at) *)(b + p * panel + j * NAME(lanes));
        }
        UNROLL for (int i = 0; i < rows; i++) {
            T x = a[i * a_row];
            UNROLL for (int j = 0; j < vecs; j++) sum[i][j] += x * row[j];
        }
        a++;
        b += b_row;
    }
    UNROLL for (int i = 0; i < rows; i++) {
        UNROLL for (int j = 0; j < vecs; j++) *(NAME(vec_at) *)(out + i * out_row + j * NAME(lanes)) = sum[i][j];
    }
}

/* Cases beyond the largest tile are never reached; they repeat a small one instead of growing the code. */
#define TILE_CASE(r, p)                                                                                                \
    case (p) * 32 + (r):                                                                                               \
        if ((r) <= ROWS##p)                                                                                            \
            NAME(tile_of)((r) <= ROWS##p ? (r) : 1, ROWS##p ? (p) : 1, k, a, a_row, b, b_row, panel, in, in_row, out,  \
                          out_row, ahead);                                                                             \
        break;
#define TILE_CASES(p)                                                                                                  \
    TILE_CASE(1, p) TILE_CASE(2, p) TILE_CASE(3, p) TILE_CASE(4, p) TILE_CASE(5, p) TILE_CASE(6, p) TILE_CASE(7, p)    \
    TILE_CASE(8, p)

static void NAME(tile)(int rows, int panels, int64_t k, const void *a, int64_t a_row, const void *b, int64_t b_row,
                       int64_t panel, const void *in, int64_t in_row, void *out, int64_t out_row, gemm_ahead ahead) {
    switch (panels * 32 + rows) { TILE_CASES(1) TILE_CASES(2) TILE_CASES(3) }
}
#undef TILE_CASE

#ifdef WITH_PANELS
/* A tile over panels that come from far away. While it runs, the rows of B that it needs next are asked for,
 * and one line for each k of what comes after it (`next`): the processor's own prefetching follows neither well. */
#define AHEAD(rows) ((rows) > 4 ? 12 : 48) /* rows of B; a low tile is through with one in a few cycles */
static inline __attribute__((always_inline)) void NAME(panels_of)(const int rows, const int panels, int64_t k,
                                                                  const T *a, int64_t a_row, const T *b, int64_t panel,
                                                                  const char *next, T *out, int64_t out_row) {
    enum { VECS = (ROWS3 ? 3 : ROWS2 ? 2 : 1) * NAME(per_panel) };
    const int vecs = panels * NAME(per_panel);
    NAME(vec) sum[ROWS1][VECS];
    UNROLL for (int i = 0; i < rows; i++) {
        UNROLL for (int j = 0; j < vecs; j++) sum[i][j] = (NAME(vec)){ 0 };
    }
    for (int64_t at = 0; at < k; at++) {
        NAME(vec) row[VECS];
        __builtin_prefetch(next, 0, 2);
        UNROLL for (int p = 0; p < panels; p++) {
            __builtin_prefetch(b + p * panel + AHEAD(rows) * NAME(width), 0, 3);
            UNROLL for (int j = 0; j < NAME(per_panel); j++)
                row[p * NAME(per_panel) + j] = *(const NAME(vec_at) *)(b + p * panel + j * NAME(lanes));
        }
        UNROLL for (int i = 0; i < rows; i++) {
            T x = a[i * a_row];
            UNROLL for (int j = 0; j < vecs; j++) sum[i][j] += x * row[j];
        }
        a++;
        b += NAME(width);
        next += 64;
    }
    UNROLL for (int i = 0; i < rows; i++) {
        UNROLL for (int j = 0; j < vecs; j++) *(NAME(vec_at) *)(out + i * out_row + j * NAME(lanes)) = sum[i][j];
    }
}

#define TILE_CASE(r, p)                                                                                                \
    case (p) * 32 + (r):                                                                                               \
        if ((r) <= ROWS##p)                                                                                            \
            NAME(panels_of)((r) <= ROWS##p ? (r) : 1, ROWS##p ? (p) : 1, k, a, a_row, b, panel, next, out, out_row);   \
        break;
static void NAME(panels)(int rows, int panels, int64_t k, const void *a, int64_t a_row, const void *b, int64_t panel,
                         const char *next, void *out, int64_t out_row) {
    switch (panels * 32 + rows) { TILE_CASES(1) TILE_CASES(2) TILE_CASES(3) }
}
#undef TILE_CASE
#undef AHEAD
#undef WITH_PANELS
#endif
#undef TILE_CASES

/* A few registers of the output at a time, all taps for them. */
static inline __attribute__((always_inline)) void NAME(taps_of)(const int deep, T *out, const T *image,
                                                                const int64_t *tap, const T *weight, int64_t taps) {
    NAME(vec) sum[4];
    UNROLL for (int d = 0; d < deep; d++) sum[d] = (NAME(vec)){ 0 };
    for (int64_t t = 0; t < taps; t++) {
        const T w = weight[t], *x = image + tap[t];
        UNROLL for (int d = 0; d < deep; d++) sum[d] += w * *(const NAME(vec_at) *)(x + d * NAME(lanes));
    }
    UNROLL for (int d = 0; d < deep; d++) *(NAME(vec_at) *)(out + d * NAME(lanes)) = sum[d];
}

static void NAME(taps)(void *out_, int64_t n, const void *image_, const int64_t *tap, const void *weight,
                       int64_t taps) {
    T *out = out_;
    const T *image = image_;
    int64_t j = 0;
    for (; j + 4 * NAME(lanes) <= n; j += 4 * NAME(lanes)) NAME(taps_of)(4, out + j, image + j, tap, weight, taps);
    for (; j + NAME(lanes) <= n; j += NAME(lanes)) NAME(taps_of)(1, out + j, image + j, tap, weight, taps);
    if (j < n && n >= NAME(lanes)) { /* the last register overlaps the one before */
        j = n - NAME(lanes);
        NAME(taps_of)(1, out + j, image + j, tap, weight, taps);
    } else if (j < n) {
        T rest[NAME(lanes)];
        NAME(taps_of)(1, rest, image + j, tap, weight, taps);
        for (int i = 0; j + i < n; i++) out[j + i] = rest[i];
    }
}

#ifdef WITH_GATHER
typedef char bytes_at __attribute__((vector_size(VECTOR), aligned(1), may_alias));

static void gather(char *out, int64_t rows, const char *image, const int64_t *row_at, const gemm_piece *pieces,
                   int count) {
    int64_t r = 0;
    if (count == 1) {
        for (; r < rows - 1; r++, out += 64) {
            const char *x = image + row_at[r] + pieces[0].from;
            UNROLL for (int v = 0; v < 64; v += VECTOR) *(bytes_at *)(out + v) = *(const bytes_at *)(x + v);
        }
    }
    for (; r < rows - 1; r++, out += 64) {
        const char *x = image + row_at[r];
        for (int i = 0; i < count; i++) {
            const char *from = x + pieces[i].from;
            char *to = out + pieces[i].to;
            UNROLL for (int v = 0; v < 64; v += VECTOR) *(bytes_at *)(to + v) = *(const bytes_at *)(from + v);
        }
    }
    for (int i = 0; i < count && rows > 0; i++)
        memcpy(out + pieces[i].to, image + row_at[r] + pieces[i].from, (size_t)pieces[i].bytes);
}
#undef WITH_GATHER
#endif

#ifdef WITH_DOT
/* Fewer than a register's worth of elements; the rest is zero and adds nothing. */
static inline NAME(vec) NAME(load_part)(const T *x, int64_t n) {
    NAME(vec) v = { 0 };
    for (int64_t i = 0; i < n; i++) v[i] = x[i];
    return v;
}

/* Halves are added until one element is left. */
static inline __attribute__((always_inline)) T NAME(total)(NAME(vec) v) {
    typedef T h8 __attribute__((vector_size(8 * sizeof(T)))),
        __attribute__((unused)) h4 __attribute__((vector_size(4 * sizeof(T))));
    typedef T h2 __attribute__((vector_size(2 * sizeof(T))));
    union {
        NAME(vec) all;
        h8 h8[(NAME(lanes) + 7) / 8];
        h4 h4[(NAME(lanes) + 3) / 4];
        h2 h2[NAME(lanes) / 2];
        T one[NAME(lanes)];
    } x = { v };
    if (NAME(lanes) > 8) x.h8[0] += x.h8[(NAME(lanes) + 7) / 8 - 1];
    if (NAME(lanes) > 4) x.h4[0] += x.h4[NAME(lanes) > 4];
    if (NAME(lanes) > 2) x.h2[0] += x.h2[NAME(lanes) > 2];
    return x.one[0] + x.one[1];
}

/* `deep` registers of k at once: what is left of the pipeline when rows * cols is small. */
static inline __attribute__((always_inline)) void NAME(dot_of)(const int rows, const int cols, const int deep,
                                                               int64_t k, const T *a, int64_t a_row, const T *b,
                                                               int64_t b_row, T *out, int64_t out_row) {
    NAME(vec) sum[4][4][4];
    UNROLL for (int i = 0; i < rows; i++)
        UNROLL for (int j = 0; j < cols; j++)
            UNROLL for (int d = 0; d < deep; d++) sum[i][j][d] = (NAME(vec)){ 0 };
    int64_t at = 0;
    for (; at + deep * NAME(lanes) <= k; at += deep * NAME(lanes)) {
        UNROLL for (int d = 0; d < deep; d++) {
            NAME(vec) x[4];
            UNROLL for (int i = 0; i < rows; i++) x[i] = *(const NAME(vec_at) *)(a + i * a_row + at + d * NAME(lanes));
            UNROLL for (int j = 0; j < cols; j++) {
                NAME(vec) y = *(const NAME(vec_at) *)(b + j * b_row + at + d * NAME(lanes));
                UNROLL for (int i = 0; i < rows; i++) sum[i][j][d] += x[i] * y;
            }
        }
    }
    for (; at < k; at += NAME(lanes)) {
        int64_t n = k - at < NAME(lanes) ? k - at : NAME(lanes);
        UNROLL for (int j = 0; j < cols; j++) {
            NAME(vec) y = NAME(load_part)(b + j * b_row + at, n);
            UNROLL for (int i = 0; i < rows; i++) sum[i][j][0] += NAME(load_part)(a + i * a_row + at, n) * y;
        }
    }
    UNROLL for (int i = 0; i < rows; i++) {
        UNROLL for (int j = 0; j < cols; j++) {
            UNROLL for (int d = 1; d < deep; d++) sum[i][j][0] += sum[i][j][d];
            out[i * out_row + j] = NAME(total)(sum[i][j][0]);
        }
    }
}

static void NAME(dot)(int rows, int64_t cols, int64_t k, const void *a_, int64_t a_row, const void *b_, int64_t b_row,
                      void *out_, int64_t out_row) {
    const T *a = a_, *b = b_;
    T *out = out_;
    int64_t j = 0;
    for (; j + DOT_COLS <= cols; j += DOT_COLS, b += DOT_COLS * b_row, out += DOT_COLS) {
        switch (rows) {
        case 1: NAME(dot_of)(1, DOT_COLS, 2, k, a, a_row, b, b_row, out, out_row); break;
        case 2: NAME(dot_of)(2, DOT_COLS, 1, k, a, a_row, b, b_row, out, out_row); break;
        case 3: NAME(dot_of)(3, DOT_COLS, 1, k, a, a_row, b, b_row, out, out_row); break;
        default: NAME(dot_of)(4, DOT_COLS, 1, k, a, a_row, b, b_row, out, out_row); break;
        }
    }
    for (; j < cols; j++, b += b_row, out++) {
        if (rows == 4) NAME(dot_of)(4, 1, 2, k, a, a_row, b, b_row, out, out_row);
        else
            for (int i = 0; i < rows; i++)
                NAME(dot_of)(1, 1, 4, k, a + i * a_row, a_row, b, b_row, out + i * out_row, 1);
    }
}

static void NAME(blend)(void *y_, int64_t n, double alpha_, const void *d_, int64_t d_step, double beta_) {
    T *y = y_;
    const T *d = d_;
    const T alpha = (T)alpha_, beta = (T)beta_;
    int64_t j = 0;
    if (!d) {
        for (; j + NAME(lanes) <= n; j += NAME(lanes)) *(NAME(vec_at) *)(y + j) *= alpha;
        for (; j < n; j++) y[j] *= alpha;
    } else if (d_step) {
        for (; j + NAME(lanes) <= n; j += NAME(lanes))
            *(NAME(vec_at) *)(y + j) = alpha * *(NAME(vec_at) *)(y + j) + beta * *(const NAME(vec_at) *)(d + j);
        for (; j < n; j++) y[j] = alpha * y[j] + beta * d[j];
    } else {
        const T add = beta * d[0];
        for (; j + NAME(lanes) <= n; j += NAME(lanes))
            *(NAME(vec_at) *)(y + j) = alpha * *(NAME(vec_at) *)(y + j) + add;
        for (; j < n; j++) y[j] = alpha * y[j] + add;
    }
}

typedef INT NAME(ints) __attribute__((vector_size(VECTOR)));

/* Where a comparison holds, x, else y. */
static inline NAME(vec) NAME(select)(NAME(ints) where, NAME(vec) x, NAME(vec) y) {
    return (NAME(vec))(((NAME(ints))x & where) | ((NAME(ints))y & ~where));
}

static double NAME(most)(const void *x_, int64_t n) {
    const T *x = x_;
    T part[NAME(lanes)], largest = -INFINITY;
    int64_t j = 0;
    if (n >= NAME(lanes)) {
        NAME(vec) m = *(const NAME(vec_at) *)x;
        m = NAME(select)(m == m, m, (NAME(vec)){ 0 } - INFINITY);
        for (j = NAME(lanes); j + NAME(lanes) <= n; j += NAME(lanes)) {
            NAME(vec) y = *(const NAME(vec_at) *)(x + j);
            m = NAME(select)(y > m, y, m);
        }
        *(NAME(vec_at) *)part = m;
        for (int i = 0; i < NAME(lanes); i++) largest = part[i] > largest ? part[i] : largest;
    }
    for (; j < n; j++) largest = x[j] > largest ? x[j] : largest;
    return largest;
}

/* exp(x) = 2^k * e^r, x = k ln 2 + r. Adding and taking away 1.5 * 2^23 (2^52) rounds to a whole number, which then
 * stands in the low bits of the sum. e^r - 1 - r is r^2 times a polynomial, fitted on |r| <= ln 2 / 2. */
static inline NAME(vec) NAME(exp)(NAME(vec) x) {
    if (sizeof(T) == 4) {
        NAME(vec) big = x * (T)1.44269504088896341 + (T)12582912, k = big - (T)12582912;
        NAME(vec) r = x - k * (T)0.693145751953125 - k * (T)1.42860682030941723e-6;
        NAME(vec) p = r * (T)1.393368816934526e-3 + (T)8.363205008208752e-3;
        p = p * r + (T)4.1666463017463684e-2;
        p = p * r + (T)0.16666576266288757;
        p = p * r + (T)0.5;
        p = p * r * r + r + (T)1;
        NAME(ints) exponent = (NAME(ints))big + (INT)(127 - 0x4b400000);
        return NAME(select)(x < (T)-87.3, (NAME(vec)){ 0 }, p * (NAME(vec))(exponent << 23));
    }
    T part[NAME(lanes)];
    *(NAME(vec_at) *)part = x;
    for (int i = 0; i < NAME(lanes); i++) part[i] = (T)exp((double)part[i]);
    return *(NAME(vec_at) *)part;
}

static double NAME(exps)(void *x_, int64_t n, double scale_, double shift_) {
    T *x = x_;
    const T scale = (T)scale_, shift = (T)shift_;
    NAME(vec) sum = { 0 };
    int64_t j = 0;
    for (; j + NAME(lanes) <= n; j += NAME(lanes)) {
        NAME(vec) y = NAME(exp)(scale * *(const NAME(vec_at) *)(x + j) - shift);
        *(NAME(vec_at) *)(x + j) = y;
        sum += y;
    }
    if (j < n) {
        T part[NAME(lanes)];
        for (int i = 0; i < NAME(lanes); i++) part[i] = j + i < n ? scale * x[j + i] - shift : -INFINITY;
        NAME(vec) y = NAME(exp)(*(const NAME(vec_at) *)part);
        *(NAME(vec_at) *)part = y;
        for (int i = 0; j + i < n; i++) x[j + i] = part[i];
        sum += y;
    }
    return NAME(total)(sum);
}
#endif

#undef UNROLL
