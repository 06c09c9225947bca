/* rt_eig_loops.h: steps of rt_eig.h that real and complex matrices share. A template, which k_eig.c includes after
 * rt_reflect.h: T is double or zdouble, N(name) gives the functions their names, CONJ and SIZE (a norm of one number)
 * are what they say. */

static void N(swap)(T *a, int64_t n, int64_t i, int64_t j) {
    for (int64_t k = 0; k < n; k++) {
        T x = a[k * n + i];
        a[k * n + i] = a[k * n + j];
        a[k * n + j] = x;
    }
    for (int64_t k = 0; k < n; k++) {
        T x = a[i * n + k];
        a[i * n + k] = a[j * n + k];
        a[j * n + k] = x;
    }
}

/* Is row (or column) i zero in columns (rows) low..high, but for the diagonal? */
static bool N(alone)(const T *a, int64_t n, int64_t i, int64_t low, int64_t high, bool column) {
    for (int64_t k = low; k <= high; k++)
        if (k != i && a[column ? k * n + i : i * n + k] != 0) return false;
    return true;
}

/* Rows that are alone go to the end and columns to the front, where their eigenvalues are on the diagonal; what is
 * left is low..high. at[i]: what position i was swapped with. */
static void N(isolate)(T *a, int64_t n, balance *b) {
    b->low = 0, b->high = n - 1;
    for (int64_t i = b->high; i >= 0; i--) {
        if (!N(alone)(a, n, i, 0, b->high, false)) continue;
        b->at[b->high] = i;
        if (i != b->high) N(swap)(a, n, i, b->high);
        if (!b->high) return; /* a triangle */
        i = b->high--; /* and from the end again */
    }
    for (int64_t i = b->low; i <= b->high; i++) {
        if (!N(alone)(a, n, i, b->low, b->high, true)) continue;
        b->at[b->low] = i;
        if (i != b->low) N(swap)(a, n, i, b->low);
        i = b->low++;
    }
}

/* Rows and columns of about the same size: a becomes D^-1 a D. */
static void N(even)(T *a, int64_t n, balance *b) {
    enum { MOST = 400 }; /* 2^400: nothing overflows by it */
    for (bool again = true; again;) {
        again = false;
        for (int64_t i = b->low; i <= b->high; i++) {
            double column = 0, row = 0;
            for (int64_t k = b->low; k <= b->high; k++) {
                column = hypot(column, SIZE(a[k * n + i]));
                row = hypot(row, SIZE(a[i * n + k]));
            }
            if (column == 0 || row == 0) continue;
            double ratio = row / column;
            if (ratio == 0 || !isfinite(ratio)) continue;
            int power = (int)lrint(log2(ratio) / 2);
            if (abs(power + b->power[i]) > MOST) continue;
            double factor = ldexp(1, power);
            if (!power || column * factor + row / factor >= 0.95 * (column + row)) continue;
            b->power[i] += power;
            again = true;
            for (int64_t k = 0; k < n; k++) a[i * n + k] /= factor;
            for (int64_t k = 0; k < n; k++) a[k * n + i] *= factor;
        }
    }
}

/* v, sums: room for a row each. */
static void N(hessenberg)(T *a, T *q, int64_t n, int64_t low, int64_t high, T *v, T *sums) {
    for (int64_t i = 0; q && i < n; i++)
        for (int64_t j = 0; j < n; j++) q[i * n + j] = i == j;
    for (int64_t k = low; k + 2 <= high; k++) {
        int64_t rows = high - k;
        T tau;
        for (int64_t i = 0; i < rows; i++) v[i] = a[(k + 1 + i) * n + k];
        double beta = N(reflection)(v, rows, &tau);
        N(reflect_rows)(a + (k + 1) * n + k + 1, rows, n - k - 1, n, v, CONJ(tau), sums);
        N(reflect_columns)(a + k + 1, high + 1, rows, n, v, tau);
        if (q) N(reflect_rows)(q + (k + 1) * n, rows, n, n, v, CONJ(tau), sums);
        for (int64_t i = 1; i <= rows; i++) a[(k + i) * n + k] = i == 1 ? beta : 0;
    }
}

static zdouble N(sum)(const T *row, const zdouble *x, int64_t from, int64_t to) {
    zdouble sum = 0;
    for (int64_t k = from; k < to; k++) sum += row[k] * x[k];
    return sum;
}

/* x (n numbers) becomes the vector of the triangle t for `value`, of which the first `known` (one or two, from `at`
 * on) are there. Values that are equal leave a zero on the diagonal: the least number that changes something stands
 * for it, and x grows, so it is made small again on the way. */
static void N(substitute)(const T *t, int64_t n, zdouble value, zdouble *x, int64_t at, int64_t known) {
    double least = fmax(DBL_EPSILON * norm(value), DBL_MIN * (double)n / DBL_EPSILON);
    int64_t end = at + known;
    for (int64_t i = end; i < n; i++) x[i] = 0;
    for (int64_t i = at - 1; i >= 0; i--) {
        bool pair = i && t[i * n + i - 1] != 0;
        zdouble below = -N(sum)(t + i * n, x, i + 1, end), d = t[i * n + i] - value;
        if (!pair) {
            shrink(x, i + 1, end, &below, NULL, 1, norm(below));
            x[i] = below / (norm(d) < least ? least : d);
        } else {
            zdouble above = -N(sum)(t + (i - 1) * n, x, i + 1, end), a = t[(i - 1) * n + i - 1] - value;
            zdouble b = t[(i - 1) * n + i], c = t[i * n + i - 1];
            shrink(x, i + 1, end, &below, &above, 1, fmax(norm(below), norm(above)));
            if (norm(c) > norm(a)) { /* the larger one divides */
                zdouble swap = a;
                a = c, c = swap;
                swap = b, b = d, d = swap;
                swap = above, above = below, below = swap;
            }
            zdouble f = c / a, rest = d - f * b;
            double least_rest = fmax(least, DBL_EPSILON * (norm(d) + norm(b)));
            x[i] = (below - f * above) / (norm(rest) < least_rest ? least_rest : rest);
            x[i - 1] = (above - b * x[i]) / a;
            i--;
        }
        double most = fmax(norm(x[i]), pair ? norm(x[i + 1]) : 0);
        shrink(x, i, end, NULL, NULL, 1e6, most);
    }
}

/* The vector in the coordinates of the matrix. */
static void N(turn)(const T *q, int64_t n, const zdouble *x, int64_t end, zdouble *v) {
    for (int64_t i = 0; i < n; i++) v[i] = 0;
    for (int64_t k = 0; k < end; k++)
        for (int64_t i = 0; i < n; i++) v[i] += x[k] * CONJ(q[k * n + i]);
}

/* values (n) and, as rows, vectors (n x n) or NULL; a, q and room (2n) are used up. */
static int N(eigen)(T *a, T *q, T *room, int64_t n, zdouble *values, zdouble *vectors, zdouble *x, balance *b) {
    N(isolate)(a, n, b);
    N(even)(a, n, b);
    N(hessenberg)(a, q, n, b->low, b->high, room, room + n);
    int code = N(schur)(a, q, n, b->low, b->high, values);
    if (code || !vectors) return code;
    for (int64_t i = n - 1; i >= 0; i--) {
        bool pair = i && a[i * n + i - 1] != 0;
        int64_t at = pair ? i - 1 : i;
        zdouble *v = vectors + at * n;
        x[i] = pair ? a[i * n + i - 1] : 1;
        if (pair) x[at] = values[at] - a[i * n + i];
        N(substitute)(a, n, values[at], x, at, pair ? 2 : 1);
        N(turn)(q, n, x, i + 1, v);
        restore(v, n, b);
        unit(v, n, sizeof(T) == sizeof(zdouble) || pair);
        for (int64_t k = 0; pair && k < n; k++) v[n + k] = conj(v[k]);
        i = at;
    }
    return RT_OK;
}
