/* rt_reflect_loops.h: matrices made narrow by reflections. A template, which rt_reflect.h includes: T is double or
 * zdouble, N(name) gives the functions their names, CONJ and REAL are what they say. Matrices lie row by row, so every
 * inner loop runs along a row.
 *
 * A reflection is H = I - tau v v^H with v[0] = 1; H^H turns the vector it was made from into (beta, 0, ...), beta
 * real. */

/* x becomes v; returns beta. */
static double N(reflection)(T *x, int64_t n, T *tau) {
    double rest = 0;
    T alpha = x[0];
    for (int64_t i = 1; i < n; i++) rest += REAL(x[i] * CONJ(x[i]));
    *tau = 0;
    x[0] = 1;
    if (rest == 0 && REAL(alpha) == alpha) return REAL(alpha);
    double beta = sqrt(REAL(alpha * CONJ(alpha)) + rest);
    if (REAL(alpha) >= 0) beta = -beta;
    *tau = (beta - alpha) / beta;
    T scale = 1 / (alpha - beta);
    for (int64_t i = 1; i < n; i++) x[i] *= scale;
    return beta;
}

/* a (rows x columns, `stride` apart) becomes (I - tau v v^H) a; `sums` has room for a row. */
static void N(reflect_rows)(T *a, int64_t rows, int64_t columns, int64_t stride, const T *v, T tau, T *sums) {
    if (tau == 0) return;
    for (int64_t c = 0; c < columns; c++) sums[c] = 0;
    for (int64_t r = 0; r < rows; r++) {
        T f = CONJ(v[r]);
        const T *row = a + r * stride;
        for (int64_t c = 0; c < columns; c++) sums[c] += f * row[c];
    }
    for (int64_t r = 0; r < rows; r++) {
        T f = tau * v[r], *row = a + r * stride;
        for (int64_t c = 0; c < columns; c++) row[c] -= f * sums[c];
    }
}

/* a becomes a (I - tau v v^H). */
static void N(reflect_columns)(T *a, int64_t rows, int64_t columns, int64_t stride, const T *v, T tau) {
    if (tau == 0) return;
    for (int64_t r = 0; r < rows; r++) {
        T *row = a + r * stride, part[4] = { 0 };
        int64_t c = 0;
        for (; c + 4 <= columns; c += 4)
            for (int k = 0; k < 4; k++) part[k] += row[c + k] * v[c + k];
        for (; c < columns; c++) part[0] += row[c] * v[c];
        T f = (part[0] + part[1] + part[2] + part[3]) * tau;
        for (c = 0; c < columns; c++) row[c] -= f * CONJ(v[c]);
    }
}

/* a (m x n, m >= n) becomes Q (d, e) P^H with a real upper bidiagonal middle; Q is the product of the reflections in
 * the rows of left (m apart), P of those in the rows of right (n apart). */
static inline void N(bidiagonal)(T *a, int64_t m, int64_t n, double *d, double *e, T *left, T *left_tau, T *right,
                                 T *right_tau, T *sums) {
    for (int64_t k = 0; k < n; k++) {
        T *x = left + k * m, *y = right + k * n;
        for (int64_t i = k; i < m; i++) x[i - k] = a[i * n + k];
        d[k] = N(reflection)(x, m - k, &left_tau[k]);
        int64_t rest = n - k - 1;
        if (!rest) break;
        N(reflect_rows)(a + k * n + k + 1, m - k, rest, n, x, CONJ(left_tau[k]), sums);
        for (int64_t j = 0; j < rest; j++) y[j] = CONJ(a[k * n + k + 1 + j]);
        e[k] = N(reflection)(y, rest, &right_tau[k]);
        N(reflect_columns)(a + (k + 1) * n + k + 1, m - k - 1, rest, n, y, right_tau[k]);
    }
}
