/* rt_factor_loops.h: a template without a guard: rt_factor_set.h includes it once for each dtype, with T, NAME, DTYPE,
 * CONJ, REAL, REAL_T, SQRT, SQUARE, PIVOT_SIZE and PAIRED defined, which this ends. */

static inline factor_matrix NAME(part)(const T *p, int64_t row, int64_t col) {
    return (factor_matrix){ (void *)p, row, col };
}

/* ---- triangles: t (n x n) and x (n x k) by their strides ---- */

enum { NAME(CHUNK) = 32 };

static void NAME(solve_rows)(const T *t, int64_t row, int64_t col, int64_t n, T *x, int64_t xr, int64_t k, bool lower,
                             bool unit) {
    for (int64_t step = 0; step < n; step++) {
        int64_t i = lower ? step : n - 1 - step;
        T *restrict y = x + i * xr;
        for (int64_t p = lower ? 0 : i + 1; p < (lower ? i : n); p++) {
            T f = t[i * row + p * col];
            const T *z = x + p * xr;
            INDEPENDENT for (int64_t j = 0; j < k; j++) y[j] -= f * z[j];
        }
        if (unit) continue;
        T d = t[i * row + i * col];
        INDEPENDENT for (int64_t j = 0; j < k; j++) y[j] /= d;
    }
}

typedef struct NAME(triangle) {
    const T *t;
    int64_t row, col, n;
    T *x;
    int64_t xr, xc, k;
    bool lower, unit;
} NAME(triangle);

/* Chunks of columns. Those of rows that are not dense are copied. */
static int NAME(solve_chunks)(void *arg, int64_t begin, int64_t end) {
    const NAME(triangle) *w = arg;
    T chunk[FACTOR_SMALL * NAME(CHUNK)];
    int64_t n = w->n, xr = w->xr, xc = w->xc, last = end * NAME(CHUNK) < w->k ? end * NAME(CHUNK) : w->k,
            first = begin * NAME(CHUNK);
    if (xc == 1) {
        NAME(solve_rows)(w->t, w->row, w->col, n, w->x + first, xr, last - first, w->lower, w->unit);
        return RT_OK;
    }
    for (; first < last; first += NAME(CHUNK)) {
        int64_t count = last - first < NAME(CHUNK) ? last - first : NAME(CHUNK);
        T *part = w->x + first * xc;
        for (int64_t j = 0; j < count; j++)
            for (int64_t i = 0; i < n; i++) chunk[i * NAME(CHUNK) + j] = part[i * xr + j * xc];
        NAME(solve_rows)(w->t, w->row, w->col, n, chunk, NAME(CHUNK), count, w->lower, w->unit);
        for (int64_t j = 0; j < count; j++)
            for (int64_t i = 0; i < n; i++) part[i * xr + j * xc] = chunk[i * NAME(CHUNK) + j];
    }
    return RT_OK;
}

static int NAME(solve)(const rt_ctx *ctx, const T *t, int64_t row, int64_t col, int64_t n, T *x, int64_t xr, int64_t xc,
                       int64_t k, bool lower, bool unit) {
    if (n <= FACTOR_SMALL) {
        NAME(triangle) w = { t, row, col, n, x, xr, xc, k, lower, unit };
        return rt_parallel_work(ctx, (k + NAME(CHUNK) - 1) / NAME(CHUNK), NAME(CHUNK) * n * n / 8, 2048,
                                NAME(solve_chunks), &w);
    }
    int64_t half = n / 2, rest = n - half;
    const T *corner = t + half * (row + col), *side = t + half * (lower ? row : col);
    T *below = x + half * xr, *first = lower ? x : below, *second = lower ? below : x;
    int code = NAME(solve)(ctx, lower ? t : corner, row, col, lower ? half : rest, first, xr, xc, k, lower, unit);
    if (!code)
        code = subtract_product(ctx, DTYPE, lower ? rest : half, k, lower ? half : rest, NAME(part)(side, row, col),
                                NAME(part)(first, xr, xc), NAME(part)(second, xr, xc), false);
    if (!code)
        code = NAME(solve)(ctx, lower ? corner : t, row, col, lower ? rest : half, second, xr, xc, k, lower, unit);
    return code;
}

static void NAME(conjugate)(T *x, int64_t ld, int64_t rows, int64_t cols) {
    for (int64_t i = 0; i < rows && PAIRED; i++)
        for (int64_t j = 0; j < cols; j++) x[i * ld + j] = CONJ(x[i * ld + j]);
}

/* With `flip`, conj(x) is the solution for the plain transpose. */
static int NAME(solve_triangle)(const rt_ctx *ctx, const void *t, int64_t row, int64_t col, int64_t n, void *x,
                                int64_t k, bool upper, bool unit, bool flip) {
    if (flip) NAME(conjugate)(x, k, n, k);
    int code = NAME(solve)(ctx, t, flip ? col : row, flip ? row : col, n, x, k, 1, k, upper == flip, unit);
    if (flip) NAME(conjugate)(x, k, n, k);
    return code;
}

/* ---- LU: columns lie dense, ld apart ---- */

typedef struct NAME(swaps) { T *x; int64_t ld, n, k; const int32_t *pivot; } NAME(swaps);

/* Four columns at a time. */
static int NAME(swap_columns)(void *arg, int64_t begin, int64_t end) {
    const NAME(swaps) *w = arg;
    int64_t j = begin * 4, last = end * 4 < w->k ? end * 4 : w->k, ld = w->ld;
    for (; j < last; j += 4) {
        int64_t columns = last - j < 4 ? last - j : 4;
        T *x = w->x + j * ld;
        for (int64_t i = 0; i < w->n; i++) {
            int64_t with = w->pivot[i] - 1;
            for (int64_t c = 0; c < columns && with != i; c++) {
                T swap = x[c * ld + i];
                x[c * ld + i] = x[c * ld + with];
                x[c * ld + with] = swap;
            }
        }
    }
    return RT_OK;
}

static void NAME(swap_in_columns)(const rt_ctx *ctx, T *x, int64_t ld, int64_t n, int64_t k, const int32_t *pivot) {
    NAME(swaps) w = { x, ld, n, k, pivot };
    rt_parallel_work(ctx, (k + 3) / 4, 4 * n, 1024, NAME(swap_columns), &w);
}

static void NAME(swap_rows)(void *all, int64_t n, int64_t k, const int32_t *pivot, bool back) {
    for (int64_t step = 0; step < n; step++) {
        int64_t i = back ? n - 1 - step : step, with = pivot[i] - 1;
        T *restrict x = (T *)all + i * k, *restrict y = (T *)all + with * k;
        for (int64_t j = 0; j < k && with != i; j++) {
            T swap = x[j];
            x[j] = y[j];
            y[j] = swap;
        }
    }
}

/* Where the largest of x[0..n) is, the first of equal ones. */
static int64_t NAME(largest)(const T *x, int64_t n) {
    enum { LANES = 32 };
    REAL_T lane[LANES], most = PIVOT_SIZE(x[0]);
    if (!(most == most)) return 0;
    for (int l = 0; l < LANES; l++) lane[l] = most;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        INDEPENDENT for (int l = 0; l < LANES; l++) {
            REAL_T size = PIVOT_SIZE(x[i + l]);
            lane[l] = size > lane[l] ? size : lane[l];
        }
    for (int l = 0; l < LANES; l++) most = lane[l] > most ? lane[l] : most;
    for (; i < n; i++) most = PIVOT_SIZE(x[i]) > most ? PIVOT_SIZE(x[i]) : most;
    for (i = 0; i < n && PIVOT_SIZE(x[i]) != most;) i++;
    return i;
}

/* x -= the sum of f[k] a[k], four columns at a time. */
static void NAME(subtract_columns)(T *restrict x, const T *a, int64_t ld, const T *f, int64_t count, int64_t n) {
    int64_t k = 0;
    for (; k + 4 <= count; k += 4) {
        const T *b = a + k * ld, *c = b + ld, *d = c + ld, *e = d + ld;
        T p = f[k], q = f[k + 1], r = f[k + 2], s = f[k + 3];
        INDEPENDENT for (int64_t i = 0; i < n; i++) x[i] = x[i] - p * b[i] - q * c[i] - r * d[i] - s * e[i];
    }
    for (; k < count; k++) {
        const T *b = a + k * ld;
        T p = f[k];
        INDEPENDENT for (int64_t i = 0; i < n; i++) x[i] -= p * b[i];
    }
}

/* Column after column: what those to the left make of it, then its pivot. */
static int32_t NAME(lu_small)(T *a, int64_t ld, int64_t m, int64_t n, int32_t *pivot) {
    int32_t info = 0;
    for (int64_t j = 0; j < n; j++) {
        T *x = a + j * ld;
        int64_t done = j < m ? j : m;
        NAME(swap_columns)(&(NAME(swaps)){ x, ld, done, 1, pivot }, 0, 1);
        for (int64_t k = 1; k < done; k++) {
            T sum = x[k];
            for (int64_t p = 0; p < k; p++) sum -= x[p] * a[p * ld + k];
            x[k] = sum;
        }
        if (done == m) continue;
        NAME(subtract_columns)(x + done, a + done, ld, x, done, m - done);
        int64_t best = j + NAME(largest)(x + j, m - j);
        pivot[j] = (int32_t)best + 1;
        if (x[best] == 0) {
            if (!info) info = (int32_t)j + 1;
            continue;
        }
        for (int64_t k = 0; k <= j && best != j; k++) {
            T swap = a[k * ld + j];
            a[k * ld + j] = a[k * ld + best];
            a[k * ld + best] = swap;
        }
        T d = x[j];
        INDEPENDENT for (int64_t i = j + 1; i < m; i++) x[i] /= d;
    }
    return info;
}

/* The left half, then what it leaves of the right one. */
static int32_t NAME(factor_lu)(const rt_ctx *ctx, void *all, int64_t ld, int64_t m, int64_t n, int32_t *pivot) {
    T *a = all;
    int64_t least = m < n ? m : n, half = least / 2;
    if (least <= FACTOR_SMALL && n <= 4 * FACTOR_SMALL) return NAME(lu_small)(a, ld, m, n, pivot);
    if (least <= FACTOR_SMALL) half = least;
    int32_t info = half == least ? NAME(lu_small)(a, ld, m, half, pivot) : NAME(factor_lu)(ctx, a, ld, m, half, pivot),
            later;
    if (info < 0) return info;
    T *right = a + half * ld, *low = a + half, *rest = right + half;
    NAME(swap_in_columns)(ctx, right, ld, half, n - half, pivot);
    int code = NAME(solve)(ctx, a, 1, ld, half, right, 1, ld, n - half, true, true);
    if (!code)
        code = subtract_product(ctx, DTYPE, m - half, n - half, half, NAME(part)(low, 1, ld), NAME(part)(right, 1, ld),
                                NAME(part)(rest, 1, ld), false);
    if (code) return -code;
    if (half == least) return info;
    later = NAME(factor_lu)(ctx, rest, ld, m - half, n - half, pivot + half);
    if (later < 0) return later;
    NAME(swap_in_columns)(ctx, low, ld, least - half, half, pivot + half);
    for (int64_t i = half; i < least; i++) pivot[i] += (int32_t)half;
    return info ? info : later ? later + (int32_t)half : 0;
}

/* ---- Cholesky ---- */

/* Column after column of the lower triangle, and what each leaves of the rows below. */
static int32_t NAME(cholesky_small)(T *a, int64_t ld, int64_t n) {
    T column[2 * FACTOR_SMALL];
    for (int64_t j = 0; j < n; j++) {
        REAL_T d = REAL(a[j * ld + j]);
        a[j * ld + j] = d;
        if (!(d > 0)) return (int32_t)j + 1;
        d = SQRT(d);
        a[j * ld + j] = d;
        for (int64_t i = j + 1; i < n; i++) {
            T x = a[i * ld + j] /= d;
            column[i] = CONJ(x);
            T *restrict row = a + i * ld;
            INDEPENDENT for (int64_t p = j + 1; p <= i; p++) row[p] -= x * column[p];
        }
    }
    return 0;
}

/* The rows below the first half solve x L^H = a: its transpose, L conjugated for the while, is a plain triangle. */
static int32_t NAME(factor_cholesky)(const rt_ctx *ctx, void *all, int64_t ld, int64_t n) {
    T *a = all;
    if (n <= 2 * FACTOR_SMALL) return NAME(cholesky_small)(a, ld, n);
    int64_t half = n / 2, rest = n - half;
    int32_t info = NAME(factor_cholesky)(ctx, a, ld, half);
    if (info) return info;
    T *low = a + half * ld, *corner = low + half, *turned = low;
    if (PAIRED && !(turned = rt_scratch(ctx, (size_t)(rest * half) * sizeof *turned))) return -RT_ENOMEM;
    int64_t apart = PAIRED ? half : ld;
    NAME(conjugate)(a, ld, half, half);
    int code = NAME(solve)(ctx, a, ld, 1, half, low, 1, ld, rest, true, false);
    NAME(conjugate)(a, ld, half, half);
    for (int64_t i = 0; i < rest && PAIRED; i++)
        for (int64_t j = 0; j < half; j++) turned[i * half + j] = CONJ(low[i * ld + j]);
    if (!code)
        code = subtract_product(ctx, DTYPE, rest, rest, half, NAME(part)(low, ld, 1), NAME(part)(turned, 1, apart),
                                NAME(part)(corner, ld, 1), false);
    if (PAIRED) rt_scratch_free(ctx, turned);
    if (code) return -code;
    info = NAME(factor_cholesky)(ctx, corner, ld, rest);
    return info > 0 ? info + (int32_t)half : info;
}

/* ---- reflectors ---- */

/* x^H y: sums that are side by side, so that the compiler may add them as vectors. */
static T NAME(dot)(const T *x, const T *y, int64_t n) {
    enum { LANES = 32 };
    T lane[LANES] = { 0 }, sum = 0;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) INDEPENDENT for (int l = 0; l < LANES; l++) lane[l] += CONJ(x[i + l]) * y[i + l];
    for (; i < n; i++) sum += CONJ(x[i]) * y[i];
    for (int half = LANES / 2; half; half /= 2)
        for (int l = 0; l < half; l++) lane[l] += lane[l + half];
    return sum + lane[0];
}

static double NAME(square_sum)(const T *x, int64_t n) {
    double part[8] = { 0 };
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (int l = 0; l < 8; l++) part[l] += SQUARE(x[i + l]);
    for (; i < n; i++) part[0] += SQUARE(x[i]);
    return ((part[0] + part[1]) + (part[2] + part[3])) + ((part[4] + part[5]) + (part[6] + part[7]));
}

/* x[0] becomes beta and the rest of x that of the reflector (1, ...); returns its factor. */
static T NAME(make_reflector)(T *x, int64_t n) {
    double rest = NAME(square_sum)(x + 1, n - 1);
    T alpha = x[0];
    if (rest == 0 && REAL(alpha) == alpha) return 0;
    double beta = sqrt(SQUARE(alpha) + rest);
    if (REAL(alpha) >= 0) beta = -beta;
    T by = (T)(alpha - beta);
    INDEPENDENT for (int64_t i = 1; i < n; i++) x[i] /= by;
    x[0] = (T)beta;
    /* of the vector as it was rounded, where that is all: the reflection is one whatever the rounding did */
    return PAIRED ? (T)((beta - alpha) / beta) : (T)(2 / (1 + NAME(square_sum)(x + 1, n - 1)));
}

/* Columns [0, n) of a panel of m rows, ld apart, of which `made` get reflectors. They are worked on as dense columns;
 * room: m * n. */
static void NAME(reflect_panel)(T *a, int64_t ld, int64_t m, int64_t n, int64_t made, T *tau, T *room) {
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) room[j * m + i] = a[i * ld + j];
    for (int64_t k = 0; k < made; k++) {
        T *x = room + k * m + k;
        int64_t rest = m - k;
        tau[k] = NAME(make_reflector)(x, rest);
        if (tau[k] == 0) continue;
        for (int64_t j = 1; j < n - k; j++) {
            T *restrict y = x + j * m, f = CONJ(tau[k]) * (y[0] + NAME(dot)(x + 1, y + 1, rest - 1));
            y[0] -= f;
            INDEPENDENT for (int64_t i = 1; i < rest; i++) y[i] -= f * x[i];
        }
    }
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) a[i * ld + j] = room[j * m + i];
}

/* Room for applying up to FACTOR_PANEL reflectors of m rows to n columns at once: (I - V t V^H) c. */
typedef struct NAME(reflectors) {
    T *v, *turned, *t, *inner, *w; /* m x count, the same conjugated; count x count twice; count x n twice */
    int64_t count;
} NAME(reflectors);

static T *NAME(reflector_room)(const rt_ctx *ctx, NAME(reflectors) *r, int64_t m, int64_t n) {
    int64_t p = FACTOR_PANEL, total = 2 * m * p + 2 * p * p + 2 * p * n;
    T *room = rt_scratch(ctx, (size_t)total * sizeof *room);
    if (!room) return NULL;
    r->v = room, r->turned = r->v + m * p, r->t = r->turned + m * p, r->inner = r->t + p * p, r->w = r->inner + p * p;
    return room;
}

/* V from below the diagonal of a panel, and t of its factors. */
static int NAME(open_reflectors)(const rt_ctx *ctx, NAME(reflectors) * r, const T *a, int64_t ld, int64_t m,
                                 int64_t count, const T *tau) {
    r->count = count;
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < count; j++) {
            T v = i > j ? a[i * ld + j] : i == j;
            r->v[i * count + j] = v;
            r->turned[i * count + j] = CONJ(v);
        }
    factor_matrix turned = NAME(part)(r->turned, 1, count), v = NAME(part)(r->v, count, 1);
    int code = subtract_product(ctx, DTYPE, count, count, m, turned, v, NAME(part)(r->inner, count, 1), true);
    memset(r->t, 0, (size_t)(count * count) * sizeof *r->t);
    for (int64_t j = 0; j < count; j++) {
        for (int64_t i = 0; i < j; i++) {
            T sum = 0;
            for (int64_t p = i; p < j; p++) sum += r->t[i * count + p] * r->inner[p * count + j];
            r->t[i * count + j] = -tau[j] * sum;
        }
        r->t[j * count + j] = tau[j];
    }
    return code;
}

/* c (m x n) = (I - V op(t) V^H) c; adjoint: op is the conjugate transpose. */
static int NAME(apply_reflectors)(const rt_ctx *ctx, NAME(reflectors) * r, factor_matrix c, int64_t m, int64_t n,
                                  bool adjoint) {
    int64_t count = r->count;
    if (!n) return RT_OK;
    T *w = r->w, *scaled = w + FACTOR_PANEL * n, *t = r->inner;
    for (int64_t i = 0; i < count; i++)
        for (int64_t j = 0; j < count; j++)
            t[i * count + j] = adjoint ? CONJ(r->t[j * count + i]) : r->t[i * count + j];
    int code = subtract_product(ctx, DTYPE, count, n, m, NAME(part)(r->turned, 1, count), c, NAME(part)(w, n, 1), true);
    if (!code)
        code = subtract_product(ctx, DTYPE, count, n, count, NAME(part)(t, count, 1), NAME(part)(w, n, 1),
                                NAME(part)(scaled, n, 1), true);
    if (!code)
        code = subtract_product(ctx, DTYPE, m, n, count, NAME(part)(r->v, count, 1), NAME(part)(scaled, n, 1), c,
                                false);
    return code;
}

static int NAME(reflect)(const rt_ctx *ctx, void *all, int64_t m, int64_t n, int64_t made, void *factors) {
    T *a = all, *tau = factors;
    NAME(reflectors) r;
    T *room = NAME(reflector_room)(ctx, &r, m, n);
    int code = room ? RT_OK : RT_ENOMEM;
    for (int64_t k = 0; k < made && !code; k += FACTOR_PANEL) {
        int64_t count = made - k < FACTOR_PANEL ? made - k : FACTOR_PANEL, rows = m - k, after = n - k - count;
        T *panel = a + k * n + k;
        bool whole = made <= FACTOR_PANEL && n <= 2 * FACTOR_PANEL; /* one panel is all of it */
        NAME(reflect_panel)(panel, n, rows, whole ? n : count, count, tau + k, r.v);
        if (after <= 0 || whole) continue;
        code = NAME(open_reflectors)(ctx, &r, panel, n, rows, count, tau + k);
        if (!code) code = NAME(apply_reflectors)(ctx, &r, NAME(part)(panel + count, n, 1), rows, after, true);
    }
    rt_scratch_free(ctx, room);
    return code;
}

/* The same for few numbers, one reflector after the other. */
static void NAME(product_small)(const T *a, int64_t m, int64_t n, const T *tau, int64_t k, T *q) {
    T sums[FACTOR_PANEL];
    for (int64_t i = k - 1; i >= 0; i--) {
        for (int64_t j = i; j < n; j++) sums[j] = q[i * n + j];
        for (int64_t r = i + 1; r < m; r++)
            for (int64_t j = i; j < n; j++) sums[j] += CONJ(a[r * n + i]) * q[r * n + j];
        for (int64_t j = i; j < n; j++) sums[j] *= tau[i], q[i * n + j] -= sums[j];
        for (int64_t r = i + 1; r < m; r++)
            for (int64_t j = i; j < n; j++) q[r * n + j] -= a[r * n + i] * sums[j];
    }
}

static int NAME(reflector_product)(const rt_ctx *ctx, const void *all, int64_t m, int64_t n, const void *factors,
                                   int64_t k, void *made) {
    const T *a = all, *tau = factors;
    T *q = made;
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) q[i * n + j] = i == j;
    if (n <= FACTOR_SMALL && m <= 4 * FACTOR_SMALL) {
        NAME(product_small)(a, m, n, tau, k, q);
        return RT_OK;
    }
    NAME(reflectors) r;
    T *room = NAME(reflector_room)(ctx, &r, m, n);
    int code = room ? RT_OK : RT_ENOMEM;
    for (int64_t first = (k - 1) / FACTOR_PANEL * FACTOR_PANEL; first >= 0 && k && !code; first -= FACTOR_PANEL) {
        int64_t count = k - first < FACTOR_PANEL ? k - first : FACTOR_PANEL, at = first * n + first;
        code = NAME(open_reflectors)(ctx, &r, a + at, n, m - first, count, tau + first);
        if (!code) code = NAME(apply_reflectors)(ctx, &r, NAME(part)(q + at, n, 1), m - first, n - first, false);
    }
    rt_scratch_free(ctx, room);
    return code;
}

#include "runtime/rt_factor_eigh.h"
#include "runtime/rt_factor_inverse.h"

static const rt_factor_loops NAME(loops) = { .lu = NAME(factor_lu),
                                             .solve_triangle = NAME(solve_triangle),
                                             .swap_rows = NAME(swap_rows),
                                             .cholesky = NAME(factor_cholesky),
                                             .lu_inverse = NAME(lu_inverse),
                                             .cholesky_inverse = NAME(cholesky_inverse),
                                             .least_squares = NAME(least_squares),
                                             .reflect = NAME(reflect),
                                             .reflector_product = NAME(reflector_product),
                                             .tridiagonal = NAME(tridiagonal),
                                             .reflect_vectors = NAME(reflect_vectors),
                                             .tridiagonal_eigen = tridiagonal_eigen };

#undef T
#undef NAME
#undef DTYPE
#undef CONJ
#undef REAL
#undef REAL_T
#undef SQRT
#undef SQUARE
#undef PIVOT_SIZE
#undef PAIRED
