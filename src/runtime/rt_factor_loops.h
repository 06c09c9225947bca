/* rt_factor_loops.h: a template without a guard: rt_factor.c includes it once for each dtype, with T, NAME, DTYPE,
 * CONJ, REAL, PIVOT_SIZE and PAIRED defined, which this ends. */

static inline factor_matrix NAME(part)(const T *p, int64_t row, int64_t col) {
    return (factor_matrix){ (void *)p, row, col };
}

/* ---- triangles: t (n x n) and x (n x k) by their strides ---- */

static void NAME(solve_small)(const T *t, int64_t row, int64_t col, int64_t n, T *x, int64_t xr, int64_t xc, int64_t k,
                              bool lower, bool unit) {
    for (int64_t step = 0; step < n; step++) {
        int64_t i = lower ? step : n - 1 - step;
        for (int64_t p = lower ? 0 : i + 1; p < (lower ? i : n); p++) {
            T f = t[i * row + p * col];
            if (xc == 1)
                for (int64_t j = 0; j < k; j++) x[i * xr + j] -= f * x[p * xr + j];
            else
                for (int64_t j = 0; j < k; j++) x[i * xr + j * xc] -= f * x[p * xr + j * xc];
        }
        if (unit) continue;
        T d = t[i * row + i * col];
        for (int64_t j = 0; j < k; j++) x[i * xr + j * xc] /= d;
    }
}

static int NAME(solve)(const rt_ctx *ctx, const T *t, int64_t row, int64_t col, int64_t n, T *x, int64_t xr, int64_t xc,
                       int64_t k, bool lower, bool unit) {
    if (n <= FACTOR_SMALL) {
        NAME(solve_small)(t, row, col, n, x, xr, xc, k, lower, unit);
        return RT_OK;
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
static int NAME(solve_triangle)(const rt_ctx *ctx, const T *a, int64_t n, T *x, int64_t k, bool upper, bool unit,
                                bool flip) {
    if (flip) NAME(conjugate)(x, k, n, k);
    int code = NAME(solve)(ctx, a, flip ? 1 : n, flip ? n : 1, n, x, k, 1, k, upper == flip, unit);
    if (flip) NAME(conjugate)(x, k, n, k);
    return code;
}

/* ---- LU ---- */

static void NAME(swap_rows)(T *x, int64_t ld, int64_t n, int64_t k, const int32_t *pivot, bool back) {
    for (int64_t step = 0; step < n; step++) {
        int64_t i = back ? n - 1 - step : step, with = pivot[i] - 1;
        for (int64_t j = 0; j < k && with != i; j++) {
            T swap = x[i * ld + j];
            x[i * ld + j] = x[with * ld + j];
            x[with * ld + j] = swap;
        }
    }
}

static int32_t NAME(lu_small)(T *a, int64_t ld, int64_t m, int64_t n, int32_t *pivot) {
    int32_t info = 0;
    for (int64_t k = 0; k < (m < n ? m : n); k++) {
        int64_t best = k;
        for (int64_t i = k + 1; i < m; i++)
            if (PIVOT_SIZE(a[i * ld + k]) > PIVOT_SIZE(a[best * ld + k])) best = i;
        pivot[k] = (int32_t)best + 1;
        if (a[best * ld + k] == 0) {
            if (!info) info = (int32_t)k + 1;
            continue;
        }
        for (int64_t j = 0; j < n && best != k; j++) {
            T swap = a[k * ld + j];
            a[k * ld + j] = a[best * ld + j];
            a[best * ld + j] = swap;
        }
        for (int64_t i = k + 1; i < m; i++) {
            T f = a[i * ld + k] /= a[k * ld + k];
            if (f == 0) continue;
            for (int64_t j = k + 1; j < n; j++) a[i * ld + j] -= f * a[k * ld + j];
        }
    }
    return info;
}

/* The left half, then what it leaves of the right one. */
static int32_t NAME(factor_lu)(const rt_ctx *ctx, T *a, int64_t ld, int64_t m, int64_t n, int32_t *pivot) {
    int64_t least = m < n ? m : n, half = least / 2, small = m > 1024 ? FACTOR_SMALL / 4 : FACTOR_SMALL;
    if (least <= small && n <= 4 * FACTOR_SMALL) return NAME(lu_small)(a, ld, m, n, pivot);
    if (least <= small) half = least;
    int32_t info = half == least ? NAME(lu_small)(a, ld, m, half, pivot) : NAME(factor_lu)(ctx, a, ld, m, half, pivot),
            later;
    if (info < 0) return info;
    T *right = a + half, *low = a + half * ld, *rest = low + half;
    NAME(swap_rows)(right, ld, half, n - half, pivot, false);
    int code = NAME(solve)(ctx, a, ld, 1, half, right, ld, 1, n - half, true, true);
    if (!code)
        code = subtract_product(ctx, DTYPE, m - half, n - half, half, NAME(part)(low, ld, 1), NAME(part)(right, ld, 1),
                                NAME(part)(rest, ld, 1), false);
    if (code) return -code;
    if (half == least) return info;
    later = NAME(factor_lu)(ctx, rest, ld, m - half, n - half, pivot + half);
    if (later < 0) return later;
    NAME(swap_rows)(low, ld, least - half, half, pivot + half, false);
    for (int64_t i = half; i < least; i++) pivot[i] += (int32_t)half;
    return info ? info : later ? later + (int32_t)half : 0;
}

/* ---- Cholesky ---- */

static int32_t NAME(cholesky_small)(T *a, int64_t ld, int64_t n) {
    for (int64_t j = 0; j < n; j++) {
        double d = REAL(a[j * ld + j]);
        for (int64_t p = 0; p < j; p++) d -= REAL(a[j * ld + p] * CONJ(a[j * ld + p]));
        a[j * ld + j] = d;
        if (!(d > 0)) return (int32_t)j + 1;
        a[j * ld + j] = sqrt(d);
        for (int64_t i = j + 1; i < n; i++) {
            for (int64_t p = 0; p < j; p++) a[i * ld + j] -= a[i * ld + p] * CONJ(a[j * ld + p]);
            a[i * ld + j] /= a[j * ld + j];
        }
    }
    return 0;
}

/* The rows below the first half solve x L^H = a: its transpose, L conjugated for the while, is a plain triangle. */
static int32_t NAME(factor_cholesky)(const rt_ctx *ctx, T *a, int64_t ld, int64_t n) {
    if (n <= 2 * FACTOR_SMALL) return NAME(cholesky_small)(a, ld, n);
    int64_t half = n / 2, rest = n - half;
    int32_t info = NAME(factor_cholesky)(ctx, a, ld, half);
    if (info) return info;
    T *low = a + half * ld, *corner = low + half, *turned = rt_scratch(ctx, (size_t)(rest * half) * sizeof *turned);
    if (!turned) return -RT_ENOMEM;
    NAME(conjugate)(a, ld, half, half);
    int code = NAME(solve)(ctx, a, ld, 1, half, low, 1, ld, rest, true, false);
    NAME(conjugate)(a, ld, half, half);
    for (int64_t i = 0; i < rest; i++)
        for (int64_t j = 0; j < half; j++) turned[i * half + j] = CONJ(low[i * ld + j]);
    if (!code)
        code = subtract_product(ctx, DTYPE, rest, rest, half, NAME(part)(low, ld, 1), NAME(part)(turned, 1, half),
                                NAME(part)(corner, ld, 1), false);
    rt_scratch_free(ctx, turned);
    if (code) return -code;
    info = NAME(factor_cholesky)(ctx, corner, ld, rest);
    return info > 0 ? info + (int32_t)half : info;
}

/* ---- reflectors ---- */

/* Columns [0, n) of a panel, whose rows are ld apart; sums: room for n. */
static void NAME(reflect_panel)(T *a, int64_t ld, int64_t m, int64_t n, T *tau, T *sums) {
    for (int64_t k = 0; k < (m < n ? m : n); k++) {
        double rest = 0;
        T alpha = a[k * ld + k];
        for (int64_t i = k + 1; i < m; i++) rest += REAL(a[i * ld + k] * CONJ(a[i * ld + k]));
        tau[k] = 0;
        if (rest == 0 && REAL(alpha) == alpha) continue;
        double beta = sqrt(REAL(alpha * CONJ(alpha)) + rest);
        if (REAL(alpha) >= 0) beta = -beta;
        tau[k] = (beta - alpha) / beta;
        for (int64_t i = k + 1; i < m; i++) a[i * ld + k] /= alpha - beta;
        a[k * ld + k] = beta;
        for (int64_t j = k + 1; j < n; j++) sums[j] = a[k * ld + j];
        for (int64_t i = k + 1; i < m; i++) {
            T f = CONJ(a[i * ld + k]);
            for (int64_t j = k + 1; j < n; j++) sums[j] += f * a[i * ld + j];
        }
        for (int64_t j = k + 1; j < n; j++) sums[j] *= CONJ(tau[k]), a[k * ld + j] -= sums[j];
        for (int64_t i = k + 1; i < m; i++) {
            T f = a[i * ld + k];
            for (int64_t j = k + 1; j < n; j++) a[i * ld + j] -= f * sums[j];
        }
    }
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
static int NAME(apply_reflectors)(const rt_ctx *ctx, NAME(reflectors) * r, T *c, int64_t ld, int64_t m, int64_t n,
                                  bool adjoint) {
    int64_t count = r->count;
    if (!n) return RT_OK;
    T *w = r->w, *scaled = w + FACTOR_PANEL * n, *t = r->inner;
    for (int64_t i = 0; i < count; i++)
        for (int64_t j = 0; j < count; j++)
            t[i * count + j] = adjoint ? CONJ(r->t[j * count + i]) : r->t[i * count + j];
    int code = subtract_product(ctx, DTYPE, count, n, m, NAME(part)(r->turned, 1, count), NAME(part)(c, ld, 1),
                                NAME(part)(w, n, 1), true);
    if (!code)
        code = subtract_product(ctx, DTYPE, count, n, count, NAME(part)(t, count, 1), NAME(part)(w, n, 1),
                                NAME(part)(scaled, n, 1), true);
    if (!code)
        code = subtract_product(ctx, DTYPE, m, n, count, NAME(part)(r->v, count, 1), NAME(part)(scaled, n, 1),
                                NAME(part)(c, ld, 1), false);
    return code;
}

static int NAME(reflect)(const rt_ctx *ctx, T *a, int64_t m, int64_t n, T *tau) {
    int64_t least = m < n ? m : n;
    NAME(reflectors) r;
    T *room = NAME(reflector_room)(ctx, &r, m, n);
    int code = room ? RT_OK : RT_ENOMEM;
    for (int64_t k = 0; k < least && !code; k += FACTOR_PANEL) {
        int64_t count = least - k < FACTOR_PANEL ? least - k : FACTOR_PANEL, rows = m - k, after = n - k - count;
        T *panel = a + k * n + k;
        if (least <= FACTOR_PANEL) count = n, after = 0; /* one panel is all of it */
        NAME(reflect_panel)(panel, n, rows, count, tau + k, r.w);
        if (after > 0) code = NAME(open_reflectors)(ctx, &r, panel, n, rows, count, tau + k);
        if (after > 0 && !code) code = NAME(apply_reflectors)(ctx, &r, panel + count, n, rows, after, true);
    }
    rt_scratch_free(ctx, room);
    return code;
}

static int NAME(reflector_product)(const rt_ctx *ctx, const T *a, int64_t m, int64_t n, const T *tau, int64_t k, T *q) {
    NAME(reflectors) r;
    T *room = NAME(reflector_room)(ctx, &r, m, n);
    int code = room ? RT_OK : RT_ENOMEM;
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) q[i * n + j] = i == j;
    for (int64_t first = (k - 1) / FACTOR_PANEL * FACTOR_PANEL; first >= 0 && k && !code; first -= FACTOR_PANEL) {
        int64_t count = k - first < FACTOR_PANEL ? k - first : FACTOR_PANEL, at = first * n + first;
        code = NAME(open_reflectors)(ctx, &r, a + at, n, m - first, count, tau + first);
        if (!code) code = NAME(apply_reflectors)(ctx, &r, q + at, n, m - first, n - first, false);
    }
    rt_scratch_free(ctx, room);
    return code;
}

#undef T
#undef NAME
#undef DTYPE
#undef CONJ
#undef REAL
#undef PIVOT_SIZE
#undef PAIRED
