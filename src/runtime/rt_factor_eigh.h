/* rt_factor_eigh.h: a part of the template rt_factor_loops.h: Hermitian matrices made tridiagonal, and vectors of the
 * tridiagonal matrix made those of the Hermitian one. */

/* Room for the reflectors of a panel, v, and what they do to the matrix, w: a[new] = a - v w^H - w v^H. Both lie as
 * rows of n numbers. */
typedef struct NAME(panel) {
    T *v, *w, *f, *p, *conjugate;
    int64_t n, first;
} NAME(panel);

/* x -= conj(f) times rows `count` of a, from column `from` on. */
static void NAME(subtract_rows)(T *x, const T *a, int64_t n, int64_t from, const T *f, int64_t count) {
    NAME(subtract_columns)(x + from, a + from, n, f, count, n - from);
}

/* Column c of the matrix as the panel's reflectors have left it, its reflector, and w for that. Reflectors made before
 * are `j`. */
static void NAME(reduce_column)(T *a, int64_t c, int64_t j, const NAME(panel) * r, double *d, double *e, T *tau) {
    int64_t n = r->n, from = c + 1;
    T *restrict v = r->v + j * n, *restrict w = r->w + j * n, *f = r->f, *p = r->p;
    for (int64_t i = c; i < n; i++) v[i] = CONJ(a[c * n + i]);
    for (int64_t k = 0; k < j; k++) f[k] = CONJ(r->w[k * n + c]);
    NAME(subtract_rows)(v, r->v, n, c, f, j);
    for (int64_t k = 0; k < j; k++) f[k] = CONJ(r->v[k * n + c]);
    NAME(subtract_rows)(v, r->w, n, c, f, j);
    d[c] = REAL(v[c]);
    *tau = NAME(make_reflector)(v + from, n - from);
    e[c] = REAL(v[from]);
    v[from] = 1;
    for (int64_t i = from; i < n; i++) w[i] = 0;
    if (*tau == 0) {
        for (int64_t i = from; i < n; i++) a[i * n + c] = 0;
        return;
    }
    for (int64_t i = from; i < n; i++) a[i * n + c] = v[i], p[i] = -CONJ(v[i]);
    NAME(subtract_columns)(w + from, a + from * n + from, n, p + from, n - from, n - from); /* a v, conjugated */
    for (int64_t i = from; i < n; i++) w[i] = CONJ(w[i]);
    for (int64_t k = 0; k < j; k++) f[k] = NAME(dot)(r->w + k * n + from, v + from, n - from);
    for (int64_t k = 0; k < j; k++) p[k] = NAME(dot)(r->v + k * n + from, v + from, n - from);
    NAME(subtract_rows)(w, r->v, n, from, f, j);
    NAME(subtract_rows)(w, r->w, n, from, p, j);
    for (int64_t i = from; i < n; i++) w[i] *= *tau;
    T sum = -*tau / 2 * NAME(dot)(w + from, v + from, n - from);
    INDEPENDENT for (int64_t i = from; i < n; i++) w[i] += sum * v[i];
}

/* a -= v w^H + w v^H below and right of the panel. */
static int NAME(reduce_rest)(const rt_ctx *ctx, T *a, const NAME(panel) * r, int64_t count) {
    int64_t n = r->n, from = r->first + count, rest = n - from;
    factor_matrix c = NAME(part)(a + from * n + from, n, 1);
    int code = RT_OK;
    for (int side = 0; side < 2 && !code; side++) {
        const T *left = (side ? r->w : r->v) + from, *right = (side ? r->v : r->w) + from;
        if (PAIRED) {
            for (int64_t i = 0; i < count; i++)
                for (int64_t j = 0; j < rest; j++) r->conjugate[i * n + j] = CONJ(right[i * n + j]);
            right = r->conjugate;
        }
        code = subtract_product(ctx, DTYPE, rest, rest, count, NAME(part)(left, 1, n), NAME(part)(right, n, 1), c,
                                false);
    }
    return code;
}

static int NAME(tridiagonal)(const rt_ctx *ctx, void *all, int64_t n, double *d, double *e, void *factors) {
    T *a = all, *tau = factors, *room = rt_scratch(ctx, (size_t)((3 * n + 1) * FACTOR_PANEL + n) * sizeof *room);
    if (!room) return RT_ENOMEM;
    int64_t all_rows = n * FACTOR_PANEL;
    NAME(panel)
    r = { .v = room,
          .w = room + all_rows,
          .conjugate = room + 2 * all_rows,
          .f = room + 3 * all_rows,
          .p = room + 3 * all_rows + FACTOR_PANEL,
          .n = n };
    int code = RT_OK;
    for (; r.first < n - 1 && !code; r.first += FACTOR_PANEL) {
        int64_t count = n - 1 - r.first < FACTOR_PANEL ? n - 1 - r.first : FACTOR_PANEL;
        for (int64_t j = 0; j < count; j++) NAME(reduce_column)(a, r.first + j, j, &r, d, e, &tau[r.first + j]);
        code = NAME(reduce_rest)(ctx, a, &r, count);
    }
    if (n) d[n - 1] = REAL(a[n * n - 1]);
    rt_scratch_free(ctx, room);
    return code;
}

static int NAME(reflect_vectors)(const rt_ctx *ctx, const void *all, int64_t n, const void *factors, void *vectors,
                                 int64_t count) {
    const T *a = (const T *)all + n, *tau = factors; /* the first reflector begins in the second row */
    T *z = vectors;
    NAME(reflectors) r;
    T *room = NAME(reflector_room)(ctx, &r, n, count);
    int code = room ? RT_OK : RT_ENOMEM;
    for (int64_t first = n > 1 ? (n - 2) / FACTOR_PANEL * FACTOR_PANEL : -1; first >= 0 && !code;
         first -= FACTOR_PANEL) {
        int64_t k = n - 1 - first < FACTOR_PANEL ? n - 1 - first : FACTOR_PANEL, m = n - 1 - first;
        code = NAME(open_reflectors)(ctx, &r, a + first * (n + 1), n, m, k, tau + first);
        if (!code) code = NAME(apply_reflectors)(ctx, &r, NAME(part)(z + 1 + first, 1, n), m, count, false);
    }
    rt_scratch_free(ctx, room);
    return code;
}
