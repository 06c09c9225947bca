/* rt_schur_complex.c: eigenvalues of complex Hessenberg matrices: one shift at a time, rotations of two rows. */
#include "runtime/rt_eig.h"

#include <float.h>
#include <math.h>

typedef struct schur {
    zdouble *h, *q;
    int64_t n, low, high;
    double least; /* below it, numbers are nothing */
} schur;

static zdouble *at(const schur *s, int64_t i, int64_t j) { return s->h + i * s->n + j; }
static double norm(zdouble x) { return fabs(creal(x)) + fabs(cimag(x)); }

/* As in rt_schur_real.c. */
static bool negligible(const schur *s, int64_t k) {
    double side = norm(*at(s, k, k - 1)), d = norm(*at(s, k, k)), gap = norm(*at(s, k - 1, k - 1) - *at(s, k, k));
    double sum = norm(*at(s, k - 1, k - 1)) + d;
    if (side <= s->least) return true;
    if (sum == 0) {
        if (k - 2 >= s->low) sum += norm(*at(s, k - 1, k - 2));
        if (k + 1 <= s->high) sum += norm(*at(s, k + 1, k));
    }
    if (side > DBL_EPSILON * sum) return false;
    double other = norm(*at(s, k - 1, k)), more = fmax(side, other), less = fmin(side, other);
    double far = fmax(d, gap), near = fmin(d, gap), all = far + more;
    return less * (more / all) <= fmax(s->least, DBL_EPSILON * (near * (far / all)));
}

/* (c, s; -conj(s), c) turns (f, g) into (the result, 0). */
static zdouble rotation(zdouble f, zdouble g, double *c, zdouble *s) {
    double df = cabs(f), dg = cabs(g), r = hypot(df, dg);
    if (dg == 0) return *c = 1, *s = 0, f;
    if (df == 0) return *c = 0, *s = conj(g) / dg, dg;
    *c = df / r;
    *s = f / df * (conj(g) / r);
    return f / df * r;
}

/* Of the last two rows' values the one nearer to the last number, or one that leads elsewhere. */
static zdouble choose(const schur *s, int64_t begin, int64_t end, int64_t tries) {
    if (tries % 10 == 0) {
        bool front = tries % 20 != 0;
        int64_t k = front ? begin : end - 1;
        return *at(s, front ? begin : end, front ? begin : end) + 0.75 * norm(*at(s, k + 1, k));
    }
    zdouble d = *at(s, end, end), p = (*at(s, end - 1, end - 1) - d) / 2;
    zdouble u = csqrt(*at(s, end - 1, end)) * csqrt(*at(s, end, end - 1));
    double size = fmax(norm(u), norm(p));
    if (norm(u) == 0) return d;
    zdouble y = size * csqrt(p / size * (p / size) + u / size * (u / size));
    if (creal(p) * creal(y) + cimag(p) * cimag(y) < 0) y = -y;
    return d - u * (u / (p + y));
}

static void turn_rows(zdouble *x, zdouble *y, int64_t count, double c, zdouble s) {
    zdouble t = conj(s);
    for (int64_t j = 0; j < count; j++) {
        zdouble u = x[j], w = y[j];
        x[j] = c * u + s * w;
        y[j] = c * w - t * u;
    }
}

static void step(const schur *s, int64_t begin, int64_t end, int64_t tries) {
    int64_t n = s->n, first = s->q ? 0 : begin, to = s->q ? n - 1 : end;
    zdouble f = *at(s, begin, begin) - choose(s, begin, end, tries), g = *at(s, begin + 1, begin), sine;
    double cosine;
    for (int64_t k = begin; k < end; k++) {
        zdouble r = rotation(f, g, &cosine, &sine), back = conj(sine);
        if (k > begin) *at(s, k, k - 1) = r, *at(s, k + 1, k - 1) = 0;
        turn_rows(at(s, k, k), at(s, k + 1, k), to - k + 1, cosine, sine);
        if (s->q) turn_rows(s->q + k * n, s->q + (k + 1) * n, n, cosine, sine);
        int64_t last = k + 2 < end ? k + 2 : end;
        for (int64_t i = first; i <= last; i++) {
            zdouble *x = at(s, i, k), u = x[0], w = x[1];
            x[0] = cosine * u + back * w;
            x[1] = cosine * w - sine * u;
        }
        if (k + 1 < end) f = *at(s, k + 1, k), g = *at(s, k + 2, k);
    }
}

int rt__schur_complex(zdouble *h, zdouble *q, int64_t n, int64_t low, int64_t high, zdouble *values) {
    schur s = { h, q, n, low, high, DBL_MIN * ((double)n / DBL_EPSILON) };
    int64_t budget = 30 * (n < 10 ? 10 : n), tries = 0;
    for (int64_t end = high; end >= low;) {
        int64_t begin = end;
        while (begin > low && !negligible(&s, begin)) begin--;
        if (begin > low) *at(&s, begin, begin - 1) = 0;
        if (begin < end) {
            if (!budget--) return RT_EIG_ENDLESS;
            step(&s, begin, end, ++tries);
            continue;
        }
        end--;
        tries = 0;
    }
    for (int64_t i = 0; i < n; i++) values[i] = *at(&s, i, i);
    return RT_OK;
}
