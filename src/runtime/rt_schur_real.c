/* rt_schur_real.c: eigenvalues of real Hessenberg matrices. Two shifts at a time, which are real or conjugates, keep
 * all numbers real: reflections of three rows push what the shifts change along the subdiagonal and off its end, and
 * the subdiagonal's last number or two go to zero, cubically in the end. */
#include "runtime/rt_eig.h"

#include <float.h>
#include <math.h>

typedef struct schur {
    double *h, *q;
    int64_t n, low, high;
    double least; /* below it, numbers are nothing */
} schur;

static double *at(const schur *s, int64_t i, int64_t j) { return s->h + i * s->n + j; }

/* Is the number left of row k's diagonal nothing beside its neighbours? */
static bool negligible(const schur *s, int64_t k) {
    double side = fabs(*at(s, k, k - 1)), d = *at(s, k, k), gap = *at(s, k - 1, k - 1) - d;
    double sum = fabs(*at(s, k - 1, k - 1)) + fabs(d);
    if (side <= s->least) return true;
    if (sum == 0) {
        if (k - 2 >= s->low) sum += fabs(*at(s, k - 1, k - 2));
        if (k + 1 <= s->high) sum += fabs(*at(s, k + 1, k));
    }
    if (side > DBL_EPSILON * sum) return false;
    /* A graded matrix has small values that this number may still change. */
    double other = fabs(*at(s, k - 1, k)), more = fmax(side, other), less = fmin(side, other);
    double far = fmax(fabs(d), fabs(gap)), near = fmin(fabs(d), fabs(gap)), all = far + more;
    return less * (more / all) <= fmax(s->least, DBL_EPSILON * (near * (far / all)));
}

/* Rows k.. of h (columns from..to) and of q, and columns k.. of h (rows first..last), by the reflection v, tau of
 * `count` rows. */
static void reflect(const schur *s, int64_t k, int count, const double *v, double tau, int64_t from, int64_t to,
                    int64_t first, int64_t last) {
    int64_t n = s->n;
    for (int pass = 0; pass < 2; pass++) {
        double *a = pass ? s->q : s->h, *x = a + k * n, *y = x + n, *z = y + n;
        if (!a) continue;
        int64_t begin = pass ? 0 : from, end = pass ? n : to + 1;
        if (count == 2) {
            for (int64_t j = begin; j < end; j++) {
                double f = tau * (x[j] + v[1] * y[j]);
                x[j] -= f;
                y[j] -= f * v[1];
            }
        } else {
            for (int64_t j = begin; j < end; j++) {
                double f = tau * (x[j] + v[1] * y[j] + v[2] * z[j]);
                x[j] -= f;
                y[j] -= f * v[1];
                z[j] -= f * v[2];
            }
        }
    }
    for (int64_t i = first; i <= last; i++) {
        double *x = at(s, i, k), f = tau * (x[0] + v[1] * x[1] + (count == 3 ? v[2] * x[2] : 0));
        for (int c = 0; c < count; c++) x[c] -= f * v[c];
    }
}

/* v becomes (1, ...), the reflection that leaves its first number alone, which is returned. */
static double reflection(double *v, int count, double *tau) {
    double rest = count == 3 ? hypot(v[1], v[2]) : fabs(v[1]);
    if (rest == 0) {
        double alpha = v[0];
        *tau = 0;
        v[0] = 1;
        return alpha;
    }
    double beta = -copysign(hypot(v[0], rest), v[0]), scale = v[0] - beta;
    *tau = (beta - v[0]) / beta;
    for (int c = 1; c < count; c++) v[c] /= scale;
    v[0] = 1;
    return beta;
}

/* The values of the last two rows, or, when those lead nowhere, others: a sum and a difference each. */
typedef struct shifts { double real[2], imag; } shifts;

static shifts choose(const schur *s, int64_t begin, int64_t end, int64_t tries) {
    double a = *at(s, end - 1, end - 1), b = *at(s, end - 1, end), c = *at(s, end, end - 1), d = *at(s, end, end);
    if (tries % 10 == 0) {
        bool front = tries % 20 != 0;
        int64_t k = front ? begin : end - 2;
        double size = fabs(*at(s, k + 1, k)) + fabs(*at(s, k + 2, k + 1));
        a = d = 0.75 * size + *at(s, front ? begin : end, front ? begin : end);
        b = -0.4375 * size;
        c = size;
    }
    double size = fabs(a) + fabs(b) + fabs(c) + fabs(d);
    if (size == 0) return (shifts){ { 0, 0 }, 0 };
    a /= size, b /= size, c /= size, d /= size;
    double half = (a + d) / 2, det = (a - half) * (d - half) - b * c, root = sqrt(fabs(det));
    if (det >= 0) return (shifts){ { half * size, half * size }, root * size };
    double one = half + root, other = half - root, nearer = fabs(one - d) <= fabs(other - d) ? one : other;
    return (shifts){ { nearer * size, nearer * size }, 0 };
}

/* v: the first column of (h - shift)(h - other shift) from row k on, but for a factor. */
static void first_column(const schur *s, const shifts *f, int64_t k, double *v) {
    double a = *at(s, k, k), c = *at(s, k + 1, k), d = *at(s, k + 1, k + 1);
    double size = fabs(a - f->real[1]) + fabs(f->imag) + fabs(c);
    double part = c / size;
    v[0] = part * *at(s, k, k + 1) + (a - f->real[0]) * ((a - f->real[1]) / size) + f->imag * (f->imag / size);
    v[1] = part * (a + d - f->real[0] - f->real[1]);
    v[2] = part * *at(s, k + 2, k + 1);
    size = fabs(v[0]) + fabs(v[1]) + fabs(v[2]);
    for (int c3 = 0; size > 0 && c3 < 3; c3++) v[c3] /= size;
}

/* One step on rows begin..end, three at least. */
static void step(const schur *s, int64_t begin, int64_t end, int64_t tries) {
    shifts f = choose(s, begin, end, tries);
    int64_t k = end - 2, first = s->q ? 0 : begin, to = s->q ? s->n - 1 : end;
    double v[3], tau;
    for (;; k--) { /* two small numbers in a row are as good as a zero */
        first_column(s, &f, k, v);
        if (k == begin) break;
        double here = fabs(*at(s, k, k - 1)) * (fabs(v[1]) + fabs(v[2]));
        double beside = fabs(*at(s, k - 1, k - 1)) + fabs(*at(s, k, k)) + fabs(*at(s, k + 1, k + 1));
        if (here <= DBL_EPSILON * fabs(v[0]) * beside) break;
    }
    for (int64_t start = k; k < end; k++) {
        int count = end - k >= 2 ? 3 : 2;
        if (k > start)
            for (int c = 0; c < count; c++) v[c] = *at(s, k + c, k - 1);
        double beta = reflection(v, count, &tau);
        if (k > start) {
            *at(s, k, k - 1) = beta;
            for (int c = 1; c < count; c++) *at(s, k + c, k - 1) = 0;
        } else if (k > begin) {
            *at(s, k, k - 1) *= 1 - tau; /* what the reflection makes of it; below it stays nothing */
        }
        reflect(s, k, count, v, tau, k, to, first, k + 3 < end ? k + 3 : end);
    }
}

/* CMPLX() is not there with every compiler. */
static void put(zdouble *to, double real, double imaginary) {
    ((double *)to)[0] = real;
    ((double *)to)[1] = imaginary;
}

/* Rows k and k + 1 are a block of their own: real values make it a triangle. */
static void split(const schur *s, int64_t k, zdouble *values) {
    double a = *at(s, k, k), b = *at(s, k, k + 1), c = *at(s, k + 1, k), d = *at(s, k + 1, k + 1);
    double p = (a - d) / 2, size = fmax(fabs(p), fmax(fabs(b), fabs(c)));
    double q = p / size * (p / size) + b / size * (c / size), z = sqrt(fabs(q)) * size; /* c is not 0 */
    if (q < 0) {
        put(&values[k], d + p, z);
        put(&values[k + 1], d + p, -z);
        return;
    }
    z = p + copysign(z, p);
    double one = d + z, other = z != 0 ? d - b / z * c : one, r = hypot(z, c), cosine = z / r, sine = c / r;
    int64_t n = s->n, first = s->q ? 0 : s->low, last = s->q ? n : s->high + 1;
    for (int pass = 0; pass < 2; pass++) {
        double *x = (pass ? s->q : s->h) + k * n, *y = x + n;
        if (pass && !s->q) continue;
        for (int64_t j = pass ? 0 : k; j < (pass ? n : last); j++) {
            double u = x[j], w = y[j];
            x[j] = cosine * u + sine * w;
            y[j] = cosine * w - sine * u;
        }
    }
    for (int64_t i = first; i <= k + 1; i++) {
        double u = *at(s, i, k), w = *at(s, i, k + 1);
        *at(s, i, k) = cosine * u + sine * w;
        *at(s, i, k + 1) = cosine * w - sine * u;
    }
    *at(s, k + 1, k) = 0;
    values[k] = *at(s, k, k) = one;
    values[k + 1] = *at(s, k + 1, k + 1) = other;
}

int rt__schur_real(double *h, double *q, int64_t n, int64_t low, int64_t high, zdouble *values) {
    schur s = { h, q, n, low, high, DBL_MIN * ((double)n / DBL_EPSILON) };
    int64_t budget = 30 * (n < 10 ? 10 : n), tries = 0;
    for (int64_t i = 0; i < n; i++)
        if (i < low || i > high) values[i] = *at(&s, i, i);
    for (int64_t end = high; end >= low;) {
        int64_t begin = end;
        while (begin > low && !negligible(&s, begin)) begin--;
        if (begin > low) *at(&s, begin, begin - 1) = 0;
        if (end - begin >= 2) {
            if (!budget--) return RT_EIG_ENDLESS;
            step(&s, begin, end, ++tries);
            continue;
        }
        if (begin == end) values[end] = *at(&s, end, end);
        else split(&s, begin, values);
        end = begin - 1;
        tries = 0;
    }
    return RT_OK;
}
