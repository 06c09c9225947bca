/* rt_fft_lines.h: lines of a tensor, read, transformed and written. A template like rt_fft_passes.h, after it; V is a
 * vector of 8 numbers, SHUFFLE8 chooses among those of two. */

/* ---- one line ---- */

/* The rows of an 8 x 8 matrix become its columns: neighbours, pairs, fours. */
static inline __attribute__((always_inline)) void FN(transpose8)(V *v) {
    V w[8];
    for (int i = 0; i < 8; i += 2) {
        w[i] = SHUFFLE8(v[i], v[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
        w[i + 1] = SHUFFLE8(v[i], v[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
    }
    for (int i = 0; i < 8; i += 4)
        for (int k = 0; k < 2; k++) {
            v[i + 2 * k] = SHUFFLE8(w[i + k], w[i + 2 + k], 0, 1, 8, 9, 4, 5, 12, 13);
            v[i + 2 * k + 1] = SHUFFLE8(w[i + k], w[i + 2 + k], 2, 3, 10, 11, 6, 7, 14, 15);
        }
    for (int i = 0; i < 4; i++) {
        w[i] = SHUFFLE8(v[i], v[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
        w[i + 4] = SHUFFLE8(v[i], v[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    }
    for (int i = 0; i < 8; i++) v[i] = w[i];
}

static inline void FN(turn_one)(FN(parts) x, FN(parts) y, const T *c, const T *s, int64_t from, int64_t to) {
    T re = x.re[from], im = x.im[from];
    y.re[to] = re * *c + im * *s;
    y.im[to] = im * *c - re * *s;
}

/* Columns [first, first + width) of a line's matrix, which x holds (rows x width), turned by the plan's angles and
 * written as rows. */
static void FN(turn)(const fft_plan *p, int64_t first, int64_t width, FN(parts) x, FN(parts) y, fft_ahead *ahead) {
    int64_t rows = p->first->n, columns = p->second->n, i = 0;
    const T *c = (const T *)p->turns + first, *s = c + p->n;
    y.re += first * rows, y.im += first * rows;
    for (; i + 8 <= rows; i += 8) {
        int64_t j = 0;
        for (; j + 8 <= width; j += 8) {
            V re[8], im[8];
            fetch_ahead(ahead);
            for (int k = 0; k < 8; k++) {
                int64_t at = (i + k) * width + j, angle = (i + k) * columns + j;
                V a = *(const V *)(x.re + at), b = *(const V *)(x.im + at), u = *(const V *)(c + angle),
                  v = *(const V *)(s + angle);
                re[k] = a * u + b * v;
                im[k] = b * u - a * v;
            }
            FN(transpose8)(re);
            FN(transpose8)(im);
            for (int k = 0; k < 8; k++) {
                *(V *)(y.re + (j + k) * rows + i) = re[k];
                *(V *)(y.im + (j + k) * rows + i) = im[k];
            }
        }
        for (; j < width; j++)
            for (int64_t k = i; k < i + 8; k++)
                FN(turn_one)(x, y, c + k * columns + j, s + k * columns + j, k * width + j, j * rows + k);
    }
    for (; i < rows; i++)
        for (int64_t j = 0; j < width; j++)
            FN(turn_one)(x, y, c + i * columns + j, s + i * columns + j, i * width + j, j * rows + i);
}

/* Rows of `width` numbers, `from` and `to` apart. */
static void FN(copy_rows)(const T *x, int64_t from, T *y, int64_t to, int64_t rows, int64_t width) {
    for (int64_t i = 0; i < rows; i++) memcpy(y + i * to, x + i * from, (size_t)width * sizeof(T));
}

/* Transforms the columns of a matrix, as many at a time as the plan says: rows that are a power of two apart would
 * push each other out of the cache. The result is turned into the rows of `to`, or lies there as in `from`. */
static void FN(matrix)(const fft_plan *p, bool turned, FN(parts) from, FN(parts) to, T *small,
                       fft_ahead *ahead) {
    const fft_plan *half = turned ? p->first : p->second;
    int64_t rows = half->n, columns = p->n / rows, room = rows * p->width;
    FN(parts) a = { small, small + room }, b = { small + 2 * room, small + 3 * room };
    for (int64_t j = 0; j < columns; j += p->width) {
        int64_t width = columns - j < p->width ? columns - j : p->width;
        FN(copy_rows)(from.re + j, columns, a.re, width, rows, width);
        FN(copy_rows)(from.im + j, columns, a.im, width, rows, width);
        FN(parts) z = FN(columns)(half, width, a, b, ahead);
        if (turned) FN(turn)(p, j, width, z, to, ahead);
        else {
            FN(copy_rows)(z.re, width, to.re + j, columns, rows, width);
            FN(copy_rows)(z.im, width, to.im + j, columns, rows, width);
        }
    }
}

static FN(parts) FN(bluestein)(const fft_plan *p, int64_t batch, FN(parts) x, FN(parts) y, T *small, fft_ahead *ahead);

/* Transforms `batch` lines in x; returns which of x and y holds the result. */
static FN(parts) FN(transform)(const fft_plan *p, int64_t batch, FN(parts) x, FN(parts) y, T *small,
                               fft_ahead *ahead) {
    if (p->inner) return FN(bluestein)(p, batch, x, y, small, ahead);
    if (!p->first || batch > 1) return FN(columns)(p, batch, x, y, ahead);
    if (p->width) {
        FN(matrix)(p, true, x, y, small, ahead);
        FN(matrix)(p, false, y, x, small, ahead);
        return x;
    }
    FN(parts) z = FN(columns)(p->first, p->second->n, x, y, ahead), other = z.re == x.re ? y : x;
    FN(turn)(p, 0, p->second->n, z, other, ahead);
    return FN(columns)(p->second, p->first->n, other, z, ahead);
}

static FN(parts) FN(swapped)(FN(parts) x, bool swap) { return swap ? (FN(parts)){ x.im, x.re } : x; }

/* Number k of every line times by[k], whose imaginary parts are `apart` behind. */
static void FN(multiply)(FN(parts) x, const T *by, int64_t apart, int64_t n, int64_t batch) {
    T *restrict re = x.re, *restrict im = x.im;
    if (batch == 1) {
        INDEPENDENT for (int64_t k = 0; k < n; k++) {
            T c = by[k], d = by[apart + k], t = re[k];
            re[k] = t * c - im[k] * d;
            im[k] = t * d + im[k] * c;
        }
        return;
    }
    for (int64_t k = 0; k < n; k++) {
        T c = by[k], d = by[apart + k];
        INDEPENDENT for (int64_t q = k * batch; q < (k + 1) * batch; q++) {
            T t = re[q];
            re[q] = t * c - im[q] * d;
            im[q] = t * d + im[q] * c;
        }
    }
}

/* exp(-i pi k^2 / n) turns the transform into a convolution with its own conjugate. */
static FN(parts) FN(bluestein)(const fft_plan *p, int64_t batch, FN(parts) x, FN(parts) y, T *small,
                               fft_ahead *ahead) {
    int64_t n = p->n, m = p->inner->n;
    FN(multiply)(x, p->chirp, n, n, batch);
    memset(x.re + n * batch, 0, (size_t)((m - n) * batch) * sizeof(T));
    memset(x.im + n * batch, 0, (size_t)((m - n) * batch) * sizeof(T));
    FN(parts) z = FN(transform)(p->inner, batch, x, y, small, ahead), other = z.re == x.re ? y : x;
    FN(multiply)(z, p->filter, m, m, batch);
    z = FN(transform)(p->inner, batch, FN(swapped)(z, true), FN(swapped)(other, true), small, ahead);
    z = FN(swapped)(z, true);
    FN(multiply)(z, p->chirp, n, n, batch);
    return z;
}

void FN(rt__fft_filter)(const fft_plan *p, void *memory) {
    int64_t m = p->inner->n;
    FN(parts) x = { p->filter, (T *)p->filter + m }, y = { memory, (T *)memory + m };
    FN(parts) made = FN(transform)(p->inner, 1, x, y, (T *)memory + 2 * m, &(fft_ahead){ NULL, NULL });
    T scale = (T)(1 / (double)m); /* of the two transforms that it stands between */
    for (int64_t k = 0; k < m; k++) {
        T re = made.re[k], im = made.im[k];
        x.re[k] = re * scale, x.im[k] = im * scale;
    }
}

/* ---- memory ---- */

/* Lines of any strides into the columns of [count][batch]: `step` numbers of T apart, imaginary parts `gap` behind the
 * real ones (0: there are none). */
static void FN(gather)(const T *from, const int64_t *offset, int64_t batch, int64_t step, int64_t gap, int64_t count,
                       FN(parts) x) {
    T *restrict re = x.re, *restrict im = x.im;
    if (batch == 1 && step == 2 && gap == 1) {
        from += offset[0];
        INDEPENDENT for (int64_t k = 0; k < count; k++) re[k] = from[2 * k], im[k] = from[2 * k + 1];
        return;
    }
    bool side_by_side = gap == 1;
    for (int64_t b = 1; b < batch; b++) side_by_side &= offset[b] == offset[b - 1] + 2;
    if (side_by_side) {
        for (int64_t k = 0; k < count; k++) {
            const T *row = from + offset[0] + k * step;
            INDEPENDENT for (int64_t b = 0; b < batch; b++) re[k * batch + b] = row[2 * b],
                                                                           im[k * batch + b] = row[2 * b + 1];
        }
        return;
    }
    for (int64_t k0 = 0; k0 < count; k0 += TILE) { /* a few rows at a time: both sides stay in cache */
        int64_t k1 = k0 + TILE < count ? k0 + TILE : count;
        for (int64_t b = 0; b < batch; b++) {
            const T *line = from + offset[b];
            for (int64_t k = k0; k < k1; k++) {
                re[k * batch + b] = line[k * step];
                im[k * batch + b] = gap ? line[k * step + gap] : 0;
            }
        }
    }
}

static void FN(scatter)(T *to, const int64_t *offset, int64_t batch, int64_t step, int64_t gap, int64_t count,
                        FN(parts) z, T scale) {
    const T *re = z.re, *im = z.im;
    if (batch == 1 && step == 2 && gap == 1) {
        T *restrict line = to + offset[0];
        INDEPENDENT for (int64_t k = 0; k < count; k++) line[2 * k] = re[k] * scale, line[2 * k + 1] = im[k] * scale;
        return;
    }
    if (batch == 1 && step == -2 && gap == 1) { /* from its end, so that memory is written in order */
        T *restrict line = to + offset[0] - 2 * (count - 1);
        INDEPENDENT for (int64_t k = 0; k < count; k++) {
            line[2 * k] = re[count - 1 - k] * scale;
            line[2 * k + 1] = im[count - 1 - k] * scale;
        }
        return;
    }
    bool side_by_side = gap == 1;
    for (int64_t b = 1; b < batch; b++) side_by_side &= offset[b] == offset[b - 1] + 2;
    if (side_by_side) {
        for (int64_t k = 0; k < count; k++) {
            T *restrict row = to + offset[0] + k * step;
            INDEPENDENT for (int64_t b = 0; b < batch; b++) row[2 * b] = re[k * batch + b] * scale,
                                                                    row[2 * b + 1] = im[k * batch + b] * scale;
        }
        return;
    }
    for (int64_t k0 = 0; k0 < count; k0 += TILE) {
        int64_t k1 = k0 + TILE < count ? k0 + TILE : count;
        for (int64_t b = 0; b < batch; b++) {
            T *line = to + offset[b];
            for (int64_t k = k0; k < k1; k++) {
                line[k * step] = re[k * batch + b] * scale;
                if (gap) line[k * step + gap] = im[k * batch + b] * scale;
            }
        }
    }
}

/* ---- real numbers ---- */

/* The half that is not stored, n numbers in all. */
static void FN(mirror)(FN(parts) x, int64_t n, int64_t batch) {
    for (int64_t b = 0; b < batch; b++) {
        x.im[b] = 0;
        if (n % 2 == 0) x.im[n / 2 * batch + b] = 0;
    }
    for (int64_t k = n / 2 + 1; k < n; k++)
        for (int64_t b = 0; b < batch; b++) {
            x.re[k * batch + b] = x.re[(n - k) * batch + b];
            x.im[k * batch + b] = -x.im[(n - k) * batch + b];
        }
}

/* Numbers k and m - k of every line, a and b, and the angle 2 pi k / (2 m). The middle one is a pair of itself, whose
 * results are equal. */
#define PAIRS(...)                                                                                                    \
    if (batch == 1) {                                                                                                 \
        T *ar = z.re, *ai = z.im, *br = z.re + m, *bi = z.im + m;                                                     \
        INDEPENDENT for (int64_t k = 1; k <= m / 2; k++) {                                                            \
            const T c = ends[k], s = ends[m + k];                                                                     \
            __VA_ARGS__(ar[k], ai[k], br[-k], bi[-k]);                                                                \
        }                                                                                                             \
    }                                                                                                                 \
    for (int64_t k = 1; k <= m / 2 && batch > 1; k++) {                                                               \
        const T c = ends[k], s = ends[m + k];                                                                         \
        T *ar = z.re + k * batch, *ai = z.im + k * batch, *br = z.re + (m - k) * batch, *bi = z.im + (m - k) * batch; \
        INDEPENDENT for (int64_t q = 0; q < batch; q++) __VA_ARGS__(ar[q], ai[q], br[q], bi[q]);                      \
    }

#define SPLIT(ar, ai, br, bi)                                                             \
    do {                                                                                  \
        T er = (ar + br) / 2, ei = (ai - bi) / 2, pr = (ai + bi) / 2, pi = (br - ar) / 2; \
        T tr = pr * c + pi * s, ti = pi * c - pr * s;                                     \
        ar = er + tr, ai = ei + ti, br = er - tr, bi = ti - ei;                           \
    } while (0)
/* The transform of n = 2 m real numbers from that of their m pairs: m + 1 numbers. */
static void FN(split_pairs)(FN(parts) z, int64_t m, int64_t batch, const T *ends) {
    for (int64_t q = 0; q < batch; q++) {
        T a = z.re[q], b = z.im[q];
        z.re[q] = a + b, z.im[q] = 0, z.re[m * batch + q] = a - b, z.im[m * batch + q] = 0;
    }
    PAIRS(SPLIT)
}

#define JOIN(ar, ai, br, bi)                                      \
    do {                                                          \
        T er = ar + br, ei = ai - bi, dr = ar - br, di = ai + bi; \
        T tr = dr * c - di * s, ti = dr * s + di * c;             \
        ar = er - ti, ai = ei + tr, br = er + ti, bi = tr - ei;   \
    } while (0)
/* The way back, all numbers doubled. */
static void FN(join_pairs)(FN(parts) z, int64_t m, int64_t batch, const T *ends) {
    for (int64_t q = 0; q < batch; q++) {
        T a = z.re[q], b = z.re[m * batch + q];
        z.re[q] = a + b, z.im[q] = a - b;
    }
    PAIRS(JOIN)
}
#undef PAIRS
#undef SPLIT
#undef JOIN

/* ---- a block of lines ---- */

/* What comes after a line that is transformed on its own. */
static fft_ahead FN(line_behind)(const fft_axis *a, int64_t first, int64_t batch) {
    int64_t next, bytes = (a->from_real ? a->n : 2 * (a->to_real ? a->n / 2 + 1 : a->n)) * (int64_t)sizeof(T);
    if (batch > 1 || first + 1 >= a->lines || a->in->stride[a->dim] != 1 || bytes > FFT_FETCHED)
        return (fft_ahead){ NULL, NULL };
    fft_offsets(a, a->in, first + 1, 1, &next);
    const char *from = (const char *)((const T *)a->in->p + next);
    return (fft_ahead){ from, from + bytes };
}

void FN(rt__fft_lines)(const fft_axis *a, void *memory, int64_t first, int64_t batch) {
    const fft_plan *p = a->plan;
    int64_t room = rt__fft_part(p, a->block), offset[FFT_BLOCK], n = p->n, stride = a->in->stride[a->dim];
    T *all = memory;
    FN(parts) x = { all, all + room }, y = { all + 2 * room, all + 3 * room }, in = FN(swapped)(x, a->inverse);
    fft_offsets(a, a->in, first, batch, offset);
    if (a->from_real && a->paired) FN(gather)(a->in->p, offset, batch, 2 * stride, stride, n, in);
    else if (a->from_real) FN(gather)(a->in->p, offset, batch, stride, 0, n, in);
    else FN(gather)(a->in->p, offset, batch, 2 * stride, 1, a->to_real ? a->n / 2 + 1 : n, in);
    fft_ahead ahead = FN(line_behind)(a, first, batch);
    if (a->to_real && a->paired) FN(join_pairs)(in, n, batch, a->ends);
    else if (a->to_real) FN(mirror)(in, n, batch);
    FN(parts) z = FN(swapped)(FN(transform)(p, batch, x, y, all + 4 * room, &ahead), a->inverse);
    if (a->from_real && a->paired) FN(split_pairs)(z, n, batch, a->ends);
    fft_offsets(a, a->out, first, batch, offset);
    stride = a->out->stride[a->dim];
    T scale = (T)a->scale;
    if (a->to_real && a->paired) FN(scatter)(a->out->p, offset, batch, 2 * stride, stride, n, z, scale);
    else if (a->to_real) FN(scatter)(a->out->p, offset, batch, stride, 0, n, z, scale);
    else FN(scatter)(a->out->p, offset, batch, 2 * stride, 1, a->paired ? n + 1 : a->out_n, z, scale);
    if (!a->from_real || !a->paired || a->out_n < a->n) return;
    for (int64_t i = batch; i < n * batch; i++) z.im[i] = -z.im[i]; /* the other half, from its end */
    FN(parts) rest = { z.re + batch, z.im + batch };
    FN(scatter)((T *)a->out->p + 2 * stride * (a->n - 1), offset, batch, -2 * stride, 1, n - 1, rest, scale);
}
