/* rt_factor_divide.h: a part of rt_factor_set.h: eigenvalues and vectors of a real symmetric tridiagonal matrix, by
 * halves. Two halves without the number that couples them, once they are diagonal, are a diagonal matrix plus
 * rho z z^T; its eigenvalues are the roots of a rational function between its diagonal numbers, and its vectors follow
 * from them. Numbers whose part of z is nothing, or which are equal, stay as they are (deflation). Vectors are
 * orthogonal because z is made anew from the roots (Gu and Eisenstat). Small parts are done by implicit QL steps. */
enum { DIVIDE_SMALL = 24, QL_STEPS = 80, SECULAR_STEPS = 100 }; /* QL: per eigenvalue; two are usual */

/* ---- QL ---- */

/* Rows a and b become c a - s b and s a + c b. */
static void rotate_rows(double *restrict a, double *restrict b, int64_t n, double c, double s) {
    INDEPENDENT for (int64_t i = 0; i < n; i++) {
        double x = a[i], y = b[i];
        a[i] = c * x - s * y;
        b[i] = s * x + c * y;
    }
}

/* One implicit QL step on rows lo..hi of the tridiagonal matrix (d, e). The rows of z turn with it. */
static void ql_step(double *d, double *e, int64_t lo, int64_t hi, double *z, int64_t ld, int64_t n) {
    double g = (d[lo + 1] - d[lo]) / (2 * e[lo]), r = hypot(g, 1), s = 1, c = 1, moved = 0;
    g = d[hi] - d[lo] + e[lo] / (g + copysign(r, g));
    for (int64_t i = hi - 1; i >= lo; i--) {
        double f = s * e[i], b = c * e[i];
        r = sqrt(f * f + g * g);
        if (i + 1 < hi || r == 0) e[i + 1] = r;
        if (r == 0) { /* it fell apart early */
            d[i + 1] -= moved;
            e[hi] = 0;
            return;
        }
        s = f / r;
        c = g / r;
        g = d[i + 1] - moved;
        r = (d[i] - g) * s + 2 * c * b;
        moved = s * r;
        d[i + 1] = g + moved;
        g = c * r - b;
        if (z) rotate_rows(z + i * ld, z + (i + 1) * ld, n, c, s);
    }
    d[lo] -= moved;
    e[lo] = g;
}

/* d becomes the eigenvalues, smallest first; the rows of z (or NULL) turn with them. False: no convergence. */
static bool ql(double *d, double *e, int64_t n, double *z, int64_t ld) {
    double most = 0;
    if (n) e[n - 1] = 0;
    for (int64_t i = 0; i < n; i++) most = fmax(most, fmax(fabs(d[i]), fabs(e[i])));
    /* Steps over large numbers round small ones away, so that what couples those may never become smaller than this. */
    double nothing = fmax(most * DBL_EPSILON / 2, DBL_MIN);
    for (int64_t lo = 0; lo < n; lo++)
        for (int steps = 0;; steps++) {
            int64_t hi = lo;
            while (hi < n - 1 && fabs(e[hi]) > DBL_EPSILON * (fabs(d[hi]) + fabs(d[hi + 1])) && fabs(e[hi]) > nothing)
                hi++;
            if (hi == lo) break;
            if (steps == QL_STEPS) return false;
            ql_step(d, e, lo, hi, z, ld, n);
        }
    for (int64_t i = 0; i < n; i++) {
        int64_t least = i;
        for (int64_t j = i + 1; j < n; j++)
            if (d[j] < d[least]) least = j;
        if (least == i) continue;
        double swap = d[i];
        d[i] = d[least];
        d[least] = swap;
        for (int64_t k = 0; k < n && z; k++) {
            swap = z[i * ld + k];
            z[i * ld + k] = z[least * ld + k];
            z[least * ld + k] = swap;
        }
    }
    return true;
}

/* ---- the roots ---- */

/* 1 / rho + sum of z[j] / (d[j] - x): k of them, d ascending, z squared. */
typedef struct secular {
    const double *d, *z;
    int64_t k;
    double rho;
} secular;

/* The sum of z / delta and of z / delta^2 over [from, to), side by side as vectors. */
static void secular_sums(const double *z, const double *delta, int64_t from, int64_t to, double *sum, double *slope) {
    enum { LANES = 8 };
    double a[LANES] = { 0 }, b[LANES] = { 0 };
    int64_t j = from;
    for (; j + LANES <= to; j += LANES) INDEPENDENT for (int l = 0; l < LANES; l++) {
            double t = z[j + l] / delta[j + l];
            a[l] += t;
            b[l] += t / delta[j + l];
        }
    for (; j < to; j++) a[0] += z[j] / delta[j], b[0] += z[j] / delta[j] / delta[j];
    for (int half = LANES / 2; half; half /= 2)
        for (int l = 0; l < half; l++) a[l] += a[l + half], b[l] += b[l + half];
    *sum = a[0];
    *slope = b[0];
}

static void secular_distances(const secular *s, double origin, double at, double *delta) {
    INDEPENDENT for (int64_t j = 0; j < s->k; j++) delta[j] = (s->d[j] - origin) - at;
}

/* The root of c x^2 - a x + b that a step goes to. */
static double quadratic(double a, double b, double c) {
    double root = sqrt(fabs(a * a - 4 * b * c));
    if (c == 0) return b / a;
    return a <= 0 ? (a - root) / (2 * c) : 2 * b / (a + root);
}

/* Where the next step leads from `at`: both neighbours' poles are kept, the others' sum is a constant and a slope. */
static double secular_step(const secular *s, int64_t i, bool left, const double *delta, double w, double slope) {
    double step;
    if (i == s->k - 1) { /* beyond the last pole */
        double own = slope * delta[i] * delta[i], rest = w - own / delta[i];
        step = rest > 0 ? delta[i] + own / rest : -w / slope;
    } else {
        double x = delta[i], y = delta[i + 1], gap = s->d[i + 1] - s->d[i];
        double c = left ? w - y * slope + gap * s->z[i] / (x * x) : w - x * slope - gap * s->z[i + 1] / (y * y);
        step = quadratic((x + y) * w - x * y * slope, x * y * w, c);
    }
    return !(w * step < 0) ? -w / slope : step;
}

/* Root i, between d[i] and the next one. delta[j] becomes d[j] - root, exact to the last digits. */
static double secular_root(const secular *s, int64_t i, double *delta) {
    const double *d = s->d, *z = s->z, one = 1 / s->rho;
    double low = 0, high = 0, at, sum, slope, origin = d[i];
    bool left = true, last = i == s->k - 1;
    if (last) {
        for (int64_t j = 0; j < s->k; j++) high += z[j];
        high *= s->rho * (1 + 8 * DBL_EPSILON);
        secular_distances(s, origin, high, delta);
        secular_sums(z, delta, 0, s->k - 1, &sum, &slope);
        at = z[i] / (one + sum);
    } else {
        double gap = d[i + 1] - d[i], a, b, c;
        secular_distances(s, origin, gap / 2, delta);
        double x = z[i] / delta[i], y = z[i + 1] / delta[i + 1];
        secular_sums(z, delta, 0, i, &sum, &slope);
        c = one + sum;
        secular_sums(z, delta, i + 2, s->k, &sum, &slope);
        c += sum;
        left = c + x + y >= 0;
        if (left) {
            a = c * gap + z[i] + z[i + 1], b = z[i] * gap, high = gap / 2;
            at = a > 0 ? 2 * b / (a + sqrt(fabs(a * a - 4 * b * c))) : (a - sqrt(fabs(a * a - 4 * b * c))) / (2 * c);
        } else {
            a = c * gap - z[i] - z[i + 1], b = z[i + 1] * gap, low = -gap / 2, origin = d[i + 1];
            at = a < 0 ? 2 * b / (a - sqrt(fabs(a * a + 4 * b * c))) : -(a + sqrt(fabs(a * a + 4 * b * c))) / (2 * c);
        }
    }
    for (int steps = 0;; steps++) {
        if (!(at > low && at < high)) at = low == 0 ? high / 16 : high == 0 ? low / 16 : (low + high) / 2;
        secular_distances(s, origin, at, delta);
        if (at == low || at == high) break;
        double before, after, before_slope, after_slope;
        secular_sums(z, delta, 0, i + 1, &before, &before_slope);
        secular_sums(z, delta, i + 1, s->k, &after, &after_slope);
        double w = one + before + after;
        if (fabs(w) <= DBL_EPSILON * (8 * (after - before) + one) || steps == SECULAR_STEPS) break;
        if (w < 0) low = at;
        else high = at;
        at += steps % 8 == 7 ? INFINITY : secular_step(s, i, left, delta, w, before_slope + after_slope);
    }
    return origin + at;
}

/* ---- two halves ---- */

typedef struct merge {
    secular s;
    double *delta, *root;
} merge; /* delta: k x k, a row for each root */

static int find_roots(void *arg, int64_t begin, int64_t end) {
    const merge *m = arg;
    for (int64_t i = begin; i < end; i++) m->root[i] = secular_root(&m->s, i, m->delta + i * m->s.k);
    return RT_OK;
}

/* The rows of delta become vectors of length 1; z (with its signs) is made anew. */
static void make_vectors(const merge *m, double *z, double *made) {
    int64_t k = m->s.k;
    const double *d = m->s.d;
    for (int64_t j = 0; j < k; j++) made[j] = 1;
    for (int64_t i = 0; i < k; i++) {
        const double *row = m->delta + i * k;
        INDEPENDENT for (int64_t j = 0; j < i; j++) made[j] *= row[j] / (d[j] - d[i]);
        made[i] *= row[i];
        INDEPENDENT for (int64_t j = i + 1; j < k; j++) made[j] *= row[j] / (d[j] - d[i]);
    }
    for (int64_t j = 0; j < k; j++) z[j] = copysign(sqrt(fabs(made[j])), z[j]);
    for (int64_t i = 0; i < k; i++) {
        double *row = m->delta + i * k;
        INDEPENDENT for (int64_t j = 0; j < k; j++) row[j] = z[j] / row[j];
        double by = sqrt(square_sum_d(row, k));
        INDEPENDENT for (int64_t j = 0; j < k; j++) row[j] /= by;
    }
}

/* Where a vector is not zero: in the first half's columns, in both, in the second's; or it has been dealt with. */
enum { IN_FIRST, IN_BOTH, IN_SECOND, SETTLED };

typedef struct
    halves { /* n numbers each; z is n x n within rows ld apart, `first` rows and columns are the first half */
    double *d, *z, *weight, *kept_d, *kept_z, *root;
    int64_t *order, *kept, n, first, ld;
    char *where;
} halves;

/* Which eigenvalues take part; returns how many, ascending in h->kept. */
static int64_t deflate(halves *h, double rho) {
    double most = 0, least;
    int64_t k = 0, n = h->n, open = -1;
    for (int64_t i = 0; i < n; i++) most = fmax(most, fmax(fabs(h->d[i]), fabs(h->weight[i])));
    least = 8 * DBL_EPSILON * most;
    for (int64_t at = 0; at < n; at++) {
        int64_t i = h->order[at];
        if (rho * fabs(h->weight[i]) <= least) {
            h->where[i] = SETTLED;
            continue;
        }
        if (open >= 0) { /* equal neighbours: one of them gets all of their part */
            double both = hypot(h->weight[i], h->weight[open]), c = h->weight[i] / both, s = -h->weight[open] / both;
            if (fabs((h->d[i] - h->d[open]) * c * s) <= least) {
                double x = h->d[open], y = h->d[i];
                h->weight[i] = both;
                rotate_rows(h->z + open * h->ld, h->z + i * h->ld, n, c, -s);
                h->d[open] = x * c * c + y * s * s;
                h->d[i] = x * s * s + y * c * c;
                if (h->where[i] != h->where[open]) h->where[i] = IN_BOTH;
                h->where[open] = SETTLED;
                k--;
            }
        }
        h->kept[k++] = open = i;
    }
    return k;
}

/* `order` of two ascending runs, the second beginning at `first`. */
static void merge_order(const double *d, int64_t first, int64_t n, int64_t *order) {
    for (int64_t a = 0, b = first, at = 0; at < n; at++) order[at] = b == n || (a < first && d[a] <= d[b]) ? a++ : b++;
}

/* The kept vectors by where they are not zero (w: k rows), multiplied by the new ones; `made`: k x n. */
static int multiply_kept(const rt_ctx *ctx, const halves *h, int64_t k, const double *vectors, double *sorted,
                         double *w, double *made) {
    int64_t count[3] = { 0 }, at[3], n = h->n;
    for (int64_t j = 0; j < k; j++) count[(int)h->where[h->kept[j]]]++;
    at[0] = 0, at[1] = count[0], at[2] = count[0] + count[1];
    for (int64_t j = 0; j < k; j++) {
        int64_t to = at[(int)h->where[h->kept[j]]]++;
        memcpy(w + to * n, h->z + h->kept[j] * h->ld, (size_t)n * sizeof *w);
        for (int64_t i = 0; i < k; i++) sorted[i * k + to] = vectors[i * k + j];
    }
    int64_t both = count[0] + count[1], second = k - count[0], rest = n - h->first;
    int code = subtract_product(ctx, RT_F64, k, h->first, both, part_d(sorted, k, 1), part_d(w, n, 1),
                                part_d(made, n, 1), true);
    if (code) return code;
    return subtract_product(ctx, RT_F64, k, rest, second, part_d(sorted + count[0], k, 1),
                            part_d(w + count[0] * n + h->first, n, 1), part_d(made + h->first, n, 1), true);
}

/* Rows of z and their numbers in ascending order; those that were settled come between the roots. w: room for z. */
static void sort_vectors(halves *h, double *w) {
    int64_t *order = h->order, n = h->n;
    for (int64_t i = 1; i < n; i++) { /* nearly sorted as they are */
        int64_t x = order[i], j = i;
        for (; j > 0 && h->d[x] < h->d[order[j - 1]]; j--) order[j] = order[j - 1];
        order[j] = x;
    }
    for (int64_t i = 0; i < n; i++) {
        h->kept_d[i] = h->d[order[i]];
        memcpy(w + i * n, h->z + order[i] * h->ld, (size_t)n * sizeof *w);
    }
    for (int64_t i = 0; i < n; i++) {
        h->d[i] = h->kept_d[i];
        memcpy(h->z + i * h->ld, w + i * n, (size_t)n * sizeof *w);
    }
}

/* The eigenvalues and vectors of the whole from those of both halves, which `rho` couples. room: 4 n^2 numbers. */
static int merge_halves(const rt_ctx *ctx, halves *h, double rho, double *room) {
    int64_t n = h->n, m = h->first;
    double *delta = room, *w = room + n * n, *made = w + n * n, *sorted = made + n * n, sign = rho < 0 ? -1 : 1;
    for (int64_t i = 0; i < n; i++) {
        h->where[i] = i < m ? IN_FIRST : IN_SECOND;
        h->weight[i] = (i < m ? h->z[i * h->ld + m - 1] : sign * h->z[i * h->ld + m]) * M_SQRT1_2;
    }
    merge_order(h->d, m, n, h->order);
    rho = 2 * fabs(rho);
    int64_t k = deflate(h, rho);
    for (int64_t j = 0; j < k; j++) {
        h->kept_d[j] = h->d[h->kept[j]];
        h->kept_z[j] = h->weight[h->kept[j]] * h->weight[h->kept[j]];
    }
    if (k) {
        merge g = { { h->kept_d, h->kept_z, k, rho }, delta, h->root };
        int code = rt_parallel_work(ctx, k, 16 * k, 4096, find_roots, &g);
        for (int64_t j = 0; j < k; j++) h->kept_z[j] = h->weight[h->kept[j]];
        make_vectors(&g, h->kept_z, made);
        if (!code) code = multiply_kept(ctx, h, k, delta, sorted, w, made);
        if (code) return code;
    }
    for (int64_t j = 0; j < k; j++) { /* a root's row has the place of the diagonal number before it */
        h->d[h->kept[j]] = h->root[j];
        memcpy(h->z + h->kept[j] * h->ld, made + j * n, (size_t)n * sizeof *made);
    }
    sort_vectors(h, w);
    return RT_OK;
}

/* rooms: arrays for the largest n. */
static int split_and_merge(const rt_ctx *ctx, const halves *rooms, double *d, double *e, int64_t n, double *z,
                           double *room) {
    int64_t first = n / 2, ld = rooms->ld;
    if (n <= DIVIDE_SMALL) {
        for (int64_t i = 0; i < n; i++) z[i * ld + i] = 1;
        return ql(d, e, n, z, ld) ? RT_OK : RT_FACTOR_ENDLESS;
    }
    double rho = e[first - 1];
    d[first - 1] -= fabs(rho);
    d[first] -= fabs(rho);
    int code = split_and_merge(ctx, rooms, d, e, first, z, room);
    if (!code) code = split_and_merge(ctx, rooms, d + first, e + first, n - first, z + first * (ld + 1), room);
    if (code) return code;
    halves h = *rooms;
    h.d = d, h.z = z, h.n = n, h.first = first;
    return merge_halves(ctx, &h, rho, room);
}

static int tridiagonal_eigen(const rt_ctx *ctx, double *d, double *e, int64_t n, double *z) {
    if (!z) return ql(d, e, n, NULL, 0) ? RT_OK : RT_FACTOR_ENDLESS;
    double *room = rt_scratch(ctx, (size_t)(4 * n * n + 7 * n) * sizeof *room);
    if (!room) return RT_ENOMEM;
    double *more = room + 4 * n * n;
    halves h = { .weight = more,
                 .kept_d = more + n,
                 .kept_z = more + 2 * n,
                 .root = more + 3 * n,
                 .order = (int64_t *)(more + 4 * n),
                 .kept = (int64_t *)(more + 5 * n),
                 .where = (char *)(more + 6 * n),
                 .ld = n };
    memset(z, 0, (size_t)(n * n) * sizeof *z);
    int code = split_and_merge(ctx, &h, d, e, n, z, room);
    rt_scratch_free(ctx, room);
    return code;
}
