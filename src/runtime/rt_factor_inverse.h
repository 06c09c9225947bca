/* rt_factor_inverse.h: a part of the template rt_factor_loops.h: inverses of triangles and of what is factored, and
 * least squares by reflectors. Matrices lie row by row. */

/* Row i of the inverse is made of the rows above it. */
static void NAME(invert_small)(T *x, int64_t ld, int64_t n) {
    T f[2 * FACTOR_SMALL];
    for (int64_t i = 0; i < n; i++) {
        T *restrict y = x + i * ld, d = 1 / y[i];
        for (int64_t p = 0; p < i; p++) f[p] = y[p], y[p] = 0;
        for (int64_t p = 0; p < i; p++) {
            T by = f[p];
            const T *z = x + p * ld;
            INDEPENDENT for (int64_t j = 0; j <= p; j++) y[j] -= by * z[j];
        }
        for (int64_t j = 0; j < i; j++) y[j] *= d;
        y[i] = d;
    }
}

/* The lower triangle of x becomes its inverse; above it are zeros. room: n * n / 4 numbers. */
static int NAME(invert_part)(const rt_ctx *ctx, T *x, int64_t ld, int64_t n, T *room) {
    if (n <= 2 * FACTOR_SMALL) {
        NAME(invert_small)(x, ld, n);
        return RT_OK;
    }
    int64_t half = n / 2, rest = n - half;
    T *low = x + half * ld, *corner = low + half;
    factor_matrix side = NAME(part)(low, ld, 1), inner = NAME(part)(room, half, 1);
    int code = NAME(invert_part)(ctx, x, ld, half, room);
    if (!code) code = NAME(invert_part)(ctx, corner, ld, rest, room);
    if (!code) code = product(ctx, DTYPE, rest, half, half, side, NAME(part)(x, ld, 1), inner, 1, false);
    return code ? code : product(ctx, DTYPE, rest, half, rest, NAME(part)(corner, ld, 1), inner, side, -1, false);
}

static int NAME(invert_triangle)(const rt_ctx *ctx, T *x, int64_t n) {
    if (n <= 2 * FACTOR_SMALL) return NAME(invert_part)(ctx, x, n, n, NULL);
    T *room = rt_scratch(ctx, (size_t)((n + 1) * (n + 1) / 4) * sizeof *room);
    int code = room ? NAME(invert_part)(ctx, x, n, n, room) : RT_ENOMEM;
    rt_scratch_free(ctx, room);
    return code;
}

/* The columns of lu, which has A's, are rows here: the inverse of U, then of L from its other side, then the swaps. */
static int NAME(lu_inverse)(const rt_ctx *ctx, const void *lu, int64_t n, const int32_t *pivot, void *made) {
    T *x = made;
    for (int64_t i = 0; i < n; i++) {
        memcpy(x + i * n, (const T *)lu + i * n, (size_t)(i + 1) * sizeof *x);
        memset(x + i * n + i + 1, 0, (size_t)(n - i - 1) * sizeof *x);
    }
    int code = NAME(invert_triangle)(ctx, x, n);
    if (!code) code = NAME(solve)(ctx, lu, n, 1, n, x, n, 1, n, false, true);
    NAME(swap_rows)(x, n, n, pivot, true);
    return code;
}

/* to = w^H w of a lower triangle w; turned: its conjugate. */
static int NAME(square_triangle)(const rt_ctx *ctx, const T *w, const T *turned, int64_t ld, int64_t n, T *to) {
    factor_matrix x = NAME(part)(w, ld, 1), xh = NAME(part)(turned, 1, ld);
    if (n <= 4 * FACTOR_SMALL) return product(ctx, DTYPE, n, n, n, xh, x, NAME(part)(to, ld, 1), 1, false);
    int64_t half = n / 2, rest = n - half, low = half * ld, corner = low + half;
    x = NAME(part)(w + low, ld, 1);
    int code = NAME(square_triangle)(ctx, w, turned, ld, half, to);
    if (!code) code = NAME(square_triangle)(ctx, w + corner, turned + corner, ld, rest, to + corner);
    if (!code)
        code = product(ctx, DTYPE, half, half, rest, NAME(part)(turned + low, 1, ld), x, NAME(part)(to, ld, 1), 1,
                       true);
    if (!code)
        code = product(ctx, DTYPE, rest, half, rest, NAME(part)(turned + corner, 1, ld), x,
                       NAME(part)(to + low, ld, 1), 1, false);
    for (int64_t i = 0; i < rest && !code; i++)
        for (int64_t j = 0; j < half; j++) to[j * ld + half + i] = CONJ(to[low + i * ld + j]);
    return code;
}

static void NAME(square_small)(const T *w, int64_t n, T *to) {
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j <= i; j++) {
            T sum = 0;
            for (int64_t p = i; p < n; p++) sum += CONJ(w[p * n + i]) * w[p * n + j];
            to[i * n + j] = sum;
            to[j * n + i] = CONJ(sum);
        }
}

static int NAME(cholesky_inverse)(const rt_ctx *ctx, void *l, int64_t n, void *made) {
    T *x = l, *turned = x;
    for (int64_t i = 0; i < n; i++) memset(x + i * n + i + 1, 0, (size_t)(n - i - 1) * sizeof *x);
    if (n <= FACTOR_SMALL) {
        NAME(invert_small)(x, n, n);
        NAME(square_small)(x, n, made);
        return RT_OK;
    }
    if (PAIRED && !(turned = rt_scratch(ctx, (size_t)(n * n) * sizeof *turned))) return RT_ENOMEM;
    int code = NAME(invert_triangle)(ctx, x, n);
    for (int64_t i = 0; i < n * n && PAIRED; i++) turned[i] = CONJ(x[i]);
    if (!code) code = NAME(square_triangle)(ctx, x, turned, n, n, made);
    if (PAIRED) rt_scratch_free(ctx, turned);
    return code;
}

/* The size of r (n x n, rows ld apart) times that of its inverse, which its condition is not above; INFINITY where it
 * has none. */
static int NAME(condition)(const rt_ctx *ctx, const T *r, int64_t ld, int64_t n, double *found) {
    T *turned = rt_scratch(ctx, (size_t)(n * n) * sizeof *turned);
    if (!turned) return RT_ENOMEM;
    double size = 0;
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j <= i; j++) turned[i * n + j] = r[j * ld + i];
        memset(turned + i * n + i + 1, 0, (size_t)(n - i - 1) * sizeof *turned);
        size += NAME(square_sum)(turned + i * n, i + 1);
    }
    int code = NAME(invert_triangle)(ctx, turned, n);
    *found = sqrt(size) * sqrt(NAME(square_sum)(turned, n * n));
    if (!(*found < INFINITY)) *found = INFINITY;
    rt_scratch_free(ctx, turned);
    return code;
}

/* z (m x k) = Q z, of the reflectors in a (m x n, rows ld apart). */
static int NAME(reflect_back)(const rt_ctx *ctx, const T *a, int64_t ld, int64_t m, int64_t n, const T *tau, T *z,
                              int64_t k) {
    NAME(reflectors) r;
    T *room = NAME(reflector_room)(ctx, &r, m, k);
    int code = room ? RT_OK : RT_ENOMEM;
    for (int64_t first = (n - 1) / FACTOR_PANEL * FACTOR_PANEL; first >= 0 && !code; first -= FACTOR_PANEL) {
        int64_t count = n - first < FACTOR_PANEL ? n - first : FACTOR_PANEL;
        code = NAME(open_reflectors)(ctx, &r, a + first * (ld + 1), ld, m - first, count, tau + first);
        if (!code) code = NAME(apply_reflectors)(ctx, &r, NAME(part)(z + first * k, k, 1), m - first, k, false);
    }
    rt_scratch_free(ctx, room);
    return code;
}

static int NAME(least_squares)(const rt_ctx *ctx, void *both, int64_t m, int64_t n, void *other, int64_t k,
                               double *found) {
    T *a = both, *z = other;
    int64_t ld = z ? n : n + k;
    T *tau = rt_scratch(ctx, (size_t)n * sizeof *tau);
    if (!tau) return RT_ENOMEM;
    int code = NAME(reflect)(ctx, a, m, ld, n, tau);
    if (!code) code = NAME(condition)(ctx, a, ld, n, found);
    if (!code && !z) code = NAME(solve)(ctx, a, ld, 1, n, a + n, ld, 1, k, false, false);
    if (!code && z) code = NAME(solve_triangle)(ctx, a, ld, 1, n, z, k, true, false, true);
    if (!code && z) {
        memset(z + n * k, 0, (size_t)((m - n) * k) * sizeof *z);
        code = NAME(reflect_back)(ctx, a, ld, m, n, tau, z, k);
    }
    rt_scratch_free(ctx, tau);
    return code;
}
