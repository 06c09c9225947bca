/* k_reduce.c: sum, prod, mean, extremes, any/all, variance, norms, logsumexp along dimensions.
 *
 * Each op is a table of reducers (rt_reduce.h), one for each class that it computes in; a kernel picks by dtype. NaN
 * wins in extremes, and the first extreme's position counts, as in PyTorch. Loops have sixteen lanes, which the
 * compiler turns into vectors, and partial results are kept in double. */
#include "runtime/kernels.h"
#include "runtime/rt_reduce.h"

#include <complex.h>
#include <math.h>
#include <string.h>

#define FOLD(name) static void name(rt_folded *s, const void *p, int64_t n, const double *param)
#define JOIN(name) static void name(rt_folded *s, const rt_folded *later, const double *param)
#define FINISH(name) static void name(const rt_folded *s, void *out, int64_t *index, const double *param)
#define UNUSED (void)param
#define UNUSED_INDEX (void)index, (void)param

typedef float _Complex c64;
typedef double _Complex c128;

/* Vectors of 16 bytes, which every x86-64 and aarch64 has: v_T of T, m_T what comparing them gives. */
#define VECTOR(T, I)                                                                                                   \
    typedef T v_##T __attribute__((vector_size(16), aligned(1), may_alias));                                           \
    typedef I m_##T __attribute__((vector_size(16)))
VECTOR(float, int32_t);
VECTOR(double, int64_t);
VECTOR(uint8_t, int8_t);
VECTOR(int8_t, int8_t);
VECTOR(int16_t, int16_t);
VECTOR(int32_t, int32_t);
VECTOR(int64_t, int64_t);
VECTOR(uint64_t, int64_t);
#define LOAD(T, p) (*(const v_##T *)(p))
#define LANES(T) ((int)(16 / sizeof(T)))
/* Elements of x where the mask is set, else of y. */
#define PICK(T, mask, x, y) ((v_##T)(((m_##T)(x) & (mask)) | ((m_##T)(y) & ~(mask))))

/* ---- sums, products, means. as.f[0]: the sum; as.f[0], as.f[1]: a complex one; as.u: modulo 2^64 ---- */

JOIN(add_f) { UNUSED; s->as.f[0] += later->as.f[0]; }
JOIN(add_c) { UNUSED; s->as.f[0] += later->as.f[0], s->as.f[1] += later->as.f[1]; }
JOIN(add_u) { UNUSED; s->as.u += later->as.u; }

#define TAKE(name, T, value)                                                                                           \
    FINISH(name) { UNUSED_INDEX; *(T *)out = (T)(value); }
TAKE(take_f32, float, s->as.f[0])
TAKE(take_f64, double, s->as.f[0])
TAKE(take_u64, uint64_t, s->as.u)
TAKE(mean_f32, float, s->as.f[0] / (double)s->n)
TAKE(mean_f64, double, s->as.f[0] / (double)s->n)

#define TAKE_COMPLEX(name, T, divisor)                                                                                 \
    FINISH(name) {                                                                                                     \
        UNUSED_INDEX;                                                                                                  \
        __real__ *(T *)out = s->as.f[0] / (divisor);                                                                   \
        __imag__ *(T *)out = s->as.f[1] / (divisor);                                                                   \
    }
TAKE_COMPLEX(take_c64, c64, 1)
TAKE_COMPLEX(take_c128, c128, 1)
TAKE_COMPLEX(mean_c64, c64, (double)s->n)
TAKE_COMPLEX(mean_c128, c128, (double)s->n)

FOLD(sum_f32) { UNUSED; s->as.f[0] += rt_sum_f32(p, n); }
FOLD(sum_f64) { UNUSED; s->as.f[0] += rt_sum_f64(p, n); }

FOLD(sum_i64) {
    UNUSED;
    const uint64_t *x = p;
    uint64_t total = 0;
    for (int64_t i = 0; i < n; i++) total += x[i];
    s->as.u += total;
}

/* Columns, four vectors of them at a time, then one by one: y begins as `zero`, takes each element x by `vector` (or
 * `single`) and goes into the state by `keep`. Up to 64 rows are taken before a sum goes into double. */
#define COLUMNS(name, T, zero, vector, single, keep)                                                                  \
    static void name(rt_folded *s, int width, const void *p, int64_t step, int64_t count, const double *param) {       \
        UNUSED;                                                                                                        \
        enum { FEW = 64, N = 16 / sizeof(T) };                                                                        \
        const T *first = p;                                                                                           \
        for (int64_t i = 0; i < count; i += FEW, first += FEW * step) {                                               \
            int64_t rows = count - i < FEW ? count - i : FEW;                                                         \
            int c = 0;                                                                                                \
            for (; c + 4 * N <= width; c += 4 * N) {                                                                  \
                T lane[4 * N];                                                                                        \
                for (int k = 0; k < 4 * N; k++) {                                                                     \
                    const rt_folded *t = s + c + k;                                                                   \
                    const T *x = first + c + k;                                                                       \
                    lane[k] = (zero);                                                                                 \
                    (void)t, (void)x;                                                                                 \
                }                                                                                                     \
                v_##T a = LOAD(T, lane), b = LOAD(T, lane + N), d = LOAD(T, lane + 2 * N), e = LOAD(T, lane + 3 * N); \
                const T *row = first + c;                                                                             \
                for (int64_t r = 0; r < rows; r++, row += step) {                                                     \
                    {                                                                                                 \
                        v_##T x = LOAD(T, row), y = a;                                                                \
                        a = (vector);                                                                                 \
                    }                                                                                                 \
                    {                                                                                                 \
                        v_##T x = LOAD(T, row + N), y = b;                                                            \
                        b = (vector);                                                                                 \
                    }                                                                                                 \
                    {                                                                                                 \
                        v_##T x = LOAD(T, row + 2 * N), y = d;                                                        \
                        d = (vector);                                                                                 \
                    }                                                                                                 \
                    {                                                                                                 \
                        v_##T x = LOAD(T, row + 3 * N), y = e;                                                        \
                        e = (vector);                                                                                 \
                    }                                                                                                 \
                }                                                                                                     \
                *(v_##T *)lane = a, *(v_##T *)(lane + N) = b, *(v_##T *)(lane + 2 * N) = d,                           \
                        *(v_##T *)(lane + 3 * N) = e;                                                                 \
                for (int k = 0; k < 4 * N; k++) {                                                                     \
                    rt_folded *t = s + c + k;                                                                         \
                    T y = lane[k];                                                                                    \
                    keep;                                                                                             \
                }                                                                                                     \
            }                                                                                                         \
            for (; c < width; c++) {                                                                                  \
                rt_folded *t = s + c;                                                                                 \
                const T *x = first + c;                                                                               \
                T y = (zero);                                                                                         \
                for (int64_t r = 0; r < rows; r++) {                                                                  \
                    T x = first[r * step + c];                                                                        \
                    y = (single);                                                                                     \
                }                                                                                                     \
                (void)x;                                                                                              \
                keep;                                                                                                 \
            }                                                                                                         \
            for (c = 0; c < width; c++) s[c].n += rows;                                                               \
        }                                                                                                             \
    }
COLUMNS(sum_columns_f32, float, 0, y + x, y + x, t->as.f[0] += y)
COLUMNS(sum_columns_f64, double, 0, y + x, y + x, t->as.f[0] += y)
COLUMNS(sum_columns_i64, uint64_t, 0, y + x, y + x, t->as.u += y)

#define COMPLEX_SUM(name, T)                                                                                           \
    FOLD(name) {                                                                                                       \
        UNUSED;                                                                                                        \
        const T *x = p;                                                                                                \
        double re[8] = { 0 }, im[8] = { 0 };                                                                           \
        for (int64_t i = 0; i < n; i++) re[i & 7] += __real__ x[i], im[i & 7] += __imag__ x[i];                        \
        for (int k = 1; k < 8; k++) re[0] += re[k], im[0] += im[k];                                                    \
        s->as.f[0] += re[0];                                                                                           \
        s->as.f[1] += im[0];                                                                                           \
    }
COMPLEX_SUM(sum_c64, c64)
COMPLEX_SUM(sum_c128, c128)

/* An empty product is 1. */
#define PRODUCT_COLUMNS(name, T, member) \
    COLUMNS(name##_columns, T, 1, y *x, y *x, t->as.member = (T)((t->n ? (T)t->as.member : 1) * y))
#define PRODUCT(name, T, member)                                                                      \
    FOLD(name) {                                                                                      \
        UNUSED;                                                                                       \
        enum { N = 16 / sizeof(T) };                                                                  \
        const T *x = p;                                                                               \
        T total = s->n ? (T)s->as.member : 1;                                                         \
        int64_t i = 0;                                                                                \
        if (n >= 4 * N) {                                                                             \
            v_##T a = LOAD(T, x), b = LOAD(T, x + N), c = LOAD(T, x + 2 * N), d = LOAD(T, x + 3 * N); \
            for (i = 4 * N; i + 4 * N <= n; i += 4 * N)                                               \
                a *= LOAD(T, x + i), b *= LOAD(T, x + i + N), c *= LOAD(T, x + i + 2 * N),            \
                    d *= LOAD(T, x + i + 3 * N);                                                      \
            a = (a * b) * (c * d);                                                                    \
            for (int k = 0; k < N; k++) total *= a[k];                                                \
        }                                                                                             \
        for (; i < n; i++) total *= x[i];                                                             \
        s->as.member = total;                                                                         \
    }                                                                                                 \
    PRODUCT_COLUMNS(name, T, member)
FOLD(prod_f32) {
    UNUSED;
    s->as.f[0] = (s->n ? (float)s->as.f[0] : 1) * rt_product_f32(p, n);
}
PRODUCT_COLUMNS(prod_f32, float, f[0])
PRODUCT(prod_f64, double, f[0])
PRODUCT(prod_i64, uint64_t, u)
JOIN(multiply_f32) { UNUSED; s->as.f[0] = (float)s->as.f[0] * (float)later->as.f[0]; }
JOIN(multiply_f64) { UNUSED; s->as.f[0] *= later->as.f[0]; }
JOIN(multiply_u) { UNUSED; s->as.u *= later->as.u; }
TAKE(product_f32, float, s->n ? s->as.f[0] : 1)
TAKE(product_f64, double, s->n ? s->as.f[0] : 1)
TAKE(product_u64, uint64_t, s->n ? s->as.u : 1)

/* Complex products are written out: C's operator rescues infinities from NaN, PyTorch's does not. */
static void multiply_by(rt_folded *s, double a, double b) {
    double re = s->as.f[0] * a - s->as.f[1] * b;
    s->as.f[1] = s->as.f[0] * b + s->as.f[1] * a;
    s->as.f[0] = re;
}
JOIN(multiply_c) { UNUSED; multiply_by(s, later->as.f[0], later->as.f[1]); }
#define COMPLEX_PRODUCT(cls)                                                                                           \
    FOLD(prod_##cls) {                                                                                                 \
        UNUSED;                                                                                                        \
        const cls *x = p;                                                                                              \
        if (!s->n) s->as.f[0] = 1, s->as.f[1] = 0;                                                                     \
        for (int64_t i = 0; i < n; i++) multiply_by(s, __real__ x[i], __imag__ x[i]);                                  \
    }                                                                                                                  \
    FINISH(product_##cls) {                                                                                            \
        UNUSED_INDEX;                                                                                                  \
        __real__ *(cls *)out = s->n ? s->as.f[0] : 1;                                                                  \
        __imag__ *(cls *)out = s->n ? s->as.f[1] : 0;                                                                  \
    }
COMPLEX_PRODUCT(c64)
COMPLEX_PRODUCT(c128)

/* Parts of up to 256 elements are summed in the dtype's own width, parts in double. */
#define NANSUM(name, T)                                                                                                \
    FOLD(name) {                                                                                                       \
        UNUSED;                                                                                                        \
        enum { N = 16 / sizeof(T), PART = 256 };                                                                       \
        const T *x = p;                                                                                                \
        double total = 0;                                                                                              \
        int64_t i = 0;                                                                                                 \
        while (i + 4 * N <= n) {                                                                                       \
            v_##T sum[4] = { { 0 } };                                                                                  \
            for (int64_t end = i + PART; i + 4 * N <= n && i < end; i += 4 * N)                                        \
                for (int k = 0; k < 4; k++) {                                                                          \
                    v_##T a = LOAD(T, x + i + k * N);                                                                  \
                    sum[k] += (v_##T)((m_##T)a & (a == a));                                                            \
                }                                                                                                      \
            sum[0] = (sum[0] + sum[1]) + (sum[2] + sum[3]);                                                            \
            for (int k = 0; k < N; k++) total += sum[0][k];                                                            \
        }                                                                                                              \
        for (; i < n; i++) total += x[i] == x[i] ? x[i] : (T)0;                                                        \
        s->as.f[0] += total;                                                                                           \
    }                                                                                                                  \
    COLUMNS(name##_columns, T, 0, y + (v_##T)((m_##T)x & (x == x)), x == x ? y + x : y, t->as.f[0] += y)
NANSUM(nansum_f32, float)
NANSUM(nansum_f64, double)

#define COMPLEX_NANSUM(name, T)                                                                                        \
    FOLD(name) {                                                                                                       \
        UNUSED;                                                                                                        \
        const T *x = p;                                                                                                \
        for (int64_t i = 0; i < n; i++)                                                                                \
            if (x[i] == x[i]) s->as.f[0] += __real__ x[i], s->as.f[1] += __imag__ x[i];                                \
    }
COMPLEX_NANSUM(nansum_c64, c64)
COMPLEX_NANSUM(nansum_c128, c128)

/* ---- extremes, at every dtype's own width. `at`: the first position; once a NaN is found, nothing is better ----
 * A part of up to 256 elements is searched for its position only when its extreme is better than the one so far. */

#define TAKE_BETTER(T, a, p, better)                                                                                   \
    {                                                                                                                  \
        v_##T next = LOAD(T, p);                                                                                       \
        a = PICK(T, next better a, next, a);                                                                           \
        nan |= next != next;                                                                                           \
    }
#define VECTOR_BEST(name, T, better)                                                                                   \
    static T name##_of(const T *x, int64_t n) {                                                                        \
        enum { N = 16 / sizeof(T) };                                                                                   \
        T best = x[0];                                                                                                 \
        int64_t i = 0;                                                                                                 \
        if (n >= 4 * N) {                                                                                              \
            v_##T a = LOAD(T, x), b = a, c = a, d = a;                                                                 \
            m_##T nan = { 0 };                                                                                         \
            for (; i + 4 * N <= n; i += 4 * N) {                                                                       \
                TAKE_BETTER(T, a, x + i, better)                                                                       \
                TAKE_BETTER(T, b, x + i + N, better)                                                                   \
                TAKE_BETTER(T, c, x + i + 2 * N, better)                                                               \
                TAKE_BETTER(T, d, x + i + 3 * N, better)                                                               \
            }                                                                                                          \
            a = PICK(T, b better a, b, a), c = PICK(T, d better c, d, c), a = PICK(T, c better a, c, a);               \
            for (int k = 0; k < N; k++) {                                                                              \
                if (nan[k]) return (T)NAN;                                                                             \
                best = a[k] better best ? a[k] : best;                                                                 \
            }                                                                                                          \
        }                                                                                                              \
        for (; i < n; i++) best = ((x[i] better best) | (x[i] != x[i])) ? x[i] : best;                                 \
        return best;                                                                                                   \
    }
/* Small integers: as many lanes as four vectors have, a loop that becomes the processor's own maximum. */
#define LANES_BEST(name, T, better)                                                                                    \
    static T name##_of(const T *x, int64_t n) {                                                                        \
        enum { N = 64 / sizeof(T) };                                                                                   \
        T lane[N], best = x[0];                                                                                        \
        int64_t i = 0;                                                                                                 \
        if (n >= N) {                                                                                                  \
            memcpy(lane, x, sizeof lane);                                                                              \
            for (i = N; i + N <= n; i += N)                                                                            \
                for (int k = 0; k < N; k++) lane[k] = x[i + k] better lane[k] ? x[i + k] : lane[k];                    \
            for (int k = 0; k < N; k++) best = lane[k] better best ? lane[k] : best;                                   \
        }                                                                                                              \
        for (; i < n; i++) best = x[i] better best ? x[i] : best;                                                      \
        return best;                                                                                                   \
    }
#define EXTREME(name, T, member, better)                                                                               \
    JOIN(name##_join) {                                                                                                \
        UNUSED;                                                                                                        \
        T a = (T)s->as.member, b = (T)later->as.member;                                                                \
        if (a != a || (!(b better a) && b == b)) return;                                                               \
        s->as.member = later->as.member;                                                                               \
        s->at = s->n + later->at;                                                                                      \
    }                                                                                                                  \
    /* only the value is wanted */                                                                                     \
    FOLD(name##_only) {                                                                                                \
        UNUSED;                                                                                                        \
        T best = (T)s->as.member, part = name##_of(p, n);                                                              \
        if (!s->n || (best == best && (part better best || part != part))) s->as.member = part;                        \
    }                                                                                                                  \
    FINISH(name##_take) {                                                                                              \
        (void)param;                                                                                                   \
        *(T *)out = (T)s->as.member;                                                                                   \
        if (index) *index = s->at;                                                                                     \
    }                                                                                                                  \
    COLUMNS(name##_columns, T, t->n ? (T)t->as.member : *x, PICK(T, (x better y) | (x != x), x, y),                    \
            ((x better y) | (x != x)) ? x : y, t->as.member = y)
/* With the first position. */
#define EXTREME_AT(name, T, member, better)                                                                            \
    FOLD(name) {                                                                                                       \
        UNUSED;                                                                                                        \
        enum { PART = 256 };                                                                                           \
        const T *x = p;                                                                                                \
        T best = (T)s->as.member;                                                                                      \
        bool any = s->n > 0;                                                                                           \
        for (int64_t i = 0; i < n && (!any || best == best); i += PART) {                                              \
            int64_t count = n - i < PART ? n - i : PART, at = i;                                                       \
            T part = name##_of(x + i, count);                                                                          \
            if (any && !(part better best) && part == part) continue;                                                  \
            while (x[at] != part && (part == part || x[at] == x[at])) at++;                                            \
            best = x[at];                                                                                              \
            s->at = s->n + at;                                                                                         \
            any = true;                                                                                                \
        }                                                                                                              \
        s->as.member = best;                                                                                           \
    }
#define WIDE_EXTREME(name, T, member, better)                                                                          \
    VECTOR_BEST(name, T, better) EXTREME(name, T, member, better) EXTREME_AT(name, T, member, better)
#define WIDE_EXTREMES(cls, T, member) WIDE_EXTREME(max_##cls, T, member, >) WIDE_EXTREME(min_##cls, T, member, <)
#define SMALL_EXTREME(name, T, better) LANES_BEST(name, T, better) EXTREME(name, T, i, better)
#define SMALL_EXTREMES(cls, T) SMALL_EXTREME(max_##cls, T, >) SMALL_EXTREME(min_##cls, T, <)
#define FLOAT_EXTREME(which, of, better)                                        \
    static float which##_f32_of(const float *x, int64_t n) { return of(x, n); } \
    EXTREME(which##_f32, float, f[0], better) EXTREME_AT(which##_f32, float, f[0], better)
FLOAT_EXTREME(max, rt_largest_f32, >)
FLOAT_EXTREME(min, rt_smallest_f32, <)
WIDE_EXTREMES(f64, double, f[0])
WIDE_EXTREMES(i64, int64_t, i)
WIDE_EXTREMES(u64, uint64_t, u)
SMALL_EXTREMES(u8, uint8_t)
SMALL_EXTREMES(i8, int8_t)
SMALL_EXTREMES(i16, int16_t)
SMALL_EXTREMES(i32, int32_t)

/* ---- truth of bytes. as.i: how many decide ---- */

JOIN(add_i) { UNUSED; s->as.i += later->as.i; }
FOLD(all_b) { UNUSED; s->as.i = s->as.i || memchr(p, 0, (size_t)n); }
FOLD(any_b) {
    UNUSED;
    const uint8_t *x = p;
    int64_t i = 0;
    for (; !s->as.i && i + 64 <= n; i += 64) {
        v_uint8_t any = LOAD(uint8_t, x + i) | LOAD(uint8_t, x + i + 16) | LOAD(uint8_t, x + i + 32) |
                        LOAD(uint8_t, x + i + 48);
        uint64_t words[2];
        memcpy(words, &any, sizeof words);
        s->as.i = (words[0] | words[1]) != 0;
    }
    for (; !s->as.i && i < n; i++) s->as.i = x[i] != 0;
}
COLUMNS(any_columns, uint8_t, 0, y | x, y | x, t->as.i += y != 0)
COLUMNS(all_columns, uint8_t, 0, y | (v_uint8_t)(x == 0), y | (x == 0), t->as.i += y != 0)
COLUMNS(count_columns, uint8_t, 0, y + x, y + x, t->as.i += y)
TAKE(take_any, uint8_t, s->as.i != 0)
TAKE(take_all, uint8_t, s->as.i == 0)
TAKE(take_count, int64_t, s->as.i)

FOLD(count_b) {
    UNUSED;
    const uint8_t *x = p;
    int64_t i = 0;
    while (i + 16 <= n) {
        uint8_t lane[16] = { 0 };
        for (int64_t end = i + 16 * 255; i + 16 <= n && i < end; i += 16)
            for (int k = 0; k < 16; k++) lane[k] += x[i + k];
        for (int k = 0; k < 16; k++) s->as.i += lane[k];
    }
    for (; i < n; i++) s->as.i += x[i];
}

/* ---- variance. as.f[0]: mean, as.f[1]: squared distances from it (as.f[2]: imaginary mean);
 * param[0]: correction; param[1]: 1 for the square root. Each part in two passes, parts as Chan, Golub and LeVeque
 * ---- */

JOIN(join_spread) {
    UNUSED;
    double n = (double)s->n, m = (double)later->n, re = later->as.f[0] - s->as.f[0], im = later->as.f[2] - s->as.f[2];
    s->as.f[1] += later->as.f[1] + (re * re + im * im) * (n * m / (n + m));
    s->as.f[0] += re * (m / (n + m));
    s->as.f[2] += im * (m / (n + m));
}

static double spread(const rt_folded *s, const double *param) {
    double divisor = (double)s->n - param[0];
    double v = s->as.f[1] / (divisor > 0 ? divisor : 0.0);
    return !s->n ? NAN : param[1] != 0 ? sqrt(v) : v;
}
FINISH(spread_f32) { (void)index; *(float *)out = (float)spread(s, param); }
FINISH(spread_f64) { (void)index; *(double *)out = spread(s, param); }

#define VARIANCE(name, T)                                                                    \
    FOLD(name) {                                                                             \
        const T *x = p;                                                                      \
        double lane[8] = { 0 }, squares[8] = { 0 }, mean = 0, total = 0;                     \
        int64_t i = 0;                                                                       \
        for (; i + 8 <= n; i += 8)                                                           \
            for (int k = 0; k < 8; k++) lane[k] += x[i + k];                                 \
        for (; i < n; i++) mean += x[i];                                                     \
        for (int k = 0; k < 8; k++) mean += lane[k];                                         \
        mean /= (double)n;                                                                   \
        for (i = 0; i + 8 <= n; i += 8)                                                      \
            for (int k = 0; k < 8; k++) squares[k] += (x[i + k] - mean) * (x[i + k] - mean); \
        for (; i < n; i++) total += (x[i] - mean) * (x[i] - mean);                           \
        for (int k = 0; k < 8; k++) total += squares[k];                                     \
        rt_folded part = { .n = n, .as.f = { mean, total } };                                \
        if (s->n) join_spread(s, &part, param);                                              \
        else s->as.f[0] = mean, s->as.f[1] = total;                                          \
    }
VARIANCE(var_f32, float)
VARIANCE(var_f64, double)

#define COMPLEX_VARIANCE(name, T)                                                       \
    FOLD(name) {                                                                        \
        const T *x = p;                                                                 \
        c128 mean = 0;                                                                  \
        double squares = 0;                                                             \
        for (int64_t i = 0; i < n; i++) mean += x[i];                                   \
        mean /= (double)n;                                                              \
        for (int64_t i = 0; i < n; i++) {                                               \
            c128 d = x[i] - mean;                                                       \
            squares += __real__ d * __real__ d + __imag__ d * __imag__ d;               \
        }                                                                               \
        rt_folded part = { .n = n, .as.f = { __real__ mean, squares, __imag__ mean } }; \
        if (s->n) join_spread(s, &part, param);                                         \
        else s->as = part.as;                                                           \
    }
COMPLEX_VARIANCE(var_c64, c64)
COMPLEX_VARIANCE(var_c128, c128)

/* ---- norms over absolute values. param[0]: the order ---- */

/* One more absolute value. */
static double norm_step(double sum, double a, double order) {
    if (order == 0) return sum + (a != 0);
    if (order == INFINITY) return a > sum || a != a ? a : sum;
    if (order == -INFINITY) return a < sum || a != a ? a : sum;
    return sum + pow(a, order);
}

/* Sums of |x| (order 1) or of squares, a part of 64 elements at a time in single precision; 0 where the part may have
 * left its range, so that double has to do it. */
enum { FLOAT_PART = 64 };
#define FLOAT_SUM(name, term)                                                                                          \
    static double name(const float *x) {                                                                               \
        const m_float sign = (m_float)(v_float){ -0.0f, -0.0f, -0.0f, -0.0f };                                         \
        v_float a = { 0 }, b = { 0 }, c = { 0 }, d = { 0 };                                                            \
        for (int i = 0; i < FLOAT_PART; i += 16) {                                                                     \
            { v_float y = LOAD(float, x + i); a += (term); }                                                           \
            { v_float y = LOAD(float, x + i + 4); b += (term); }                                                       \
            { v_float y = LOAD(float, x + i + 8); c += (term); }                                                       \
            { v_float y = LOAD(float, x + i + 12); d += (term); }                                                      \
        }                                                                                                              \
        a = (a + b) + (c + d);                                                                                         \
        (void)sign;                                                                                                    \
        double total = (a[0] + a[1]) + (a[2] + a[3]);                                                                  \
        return total > 0x1p-80 && total < 0x1p100 ? total : 0;                                                         \
    }
FLOAT_SUM(squares_part, y * y)
FLOAT_SUM(absolutes_part, (v_float)((m_float)y & ~sign))

/* How many elements from x on are done so; added to *total. */
static int64_t float_parts(const float *x, int64_t n, double order, double *total) {
    double (*sum)(const float *) = order == 2 ? squares_part : absolutes_part;
    int64_t i = 0;
    for (double part; i + FLOAT_PART <= n && (part = sum(x + i)) > 0; i += FLOAT_PART) *total += part;
    return i;
}
#define NO_PARTS(x, n, order, total) 0

#define NORM(name, T, magnitude, parts)                                                                          \
    FOLD(name) {                                                                                                 \
        const T *x = p;                                                                                          \
        double order = param[0], total = s->n ? s->as.f[0] : order == -INFINITY ? INFINITY : 0, lane[8] = { 0 }; \
        int64_t i = 0;                                                                                           \
        if (order == 2)                                                                                          \
            while (i + 8 <= n) {                                                                                 \
                i += parts(x + i, n - i, order, &total);                                                         \
                for (int64_t end = i + FLOAT_PART; i + 8 <= n && i < end; i += 8)                                \
                    for (int k = 0; k < 8; k++) lane[k] += magnitude(x[i + k]) * magnitude(x[i + k]);            \
            }                                                                                                    \
        else if (order == 1)                                                                                     \
            while (i + 8 <= n) {                                                                                 \
                i += parts(x + i, n - i, order, &total);                                                         \
                for (int64_t end = i + FLOAT_PART; i + 8 <= n && i < end; i += 8)                                \
                    for (int k = 0; k < 8; k++) lane[k] += magnitude(x[i + k]);                                  \
            }                                                                                                    \
        for (; i < n && !(isinf(order) && total != total); i++) {                                                \
            double a = magnitude(x[i]);                                                                          \
            total = order == 2 ? total + a * a : order == 1 ? total + a : norm_step(total, a, order);            \
        }                                                                                                        \
        if (order == 1 || order == 2)                                                                            \
            for (int k = 0; k < 8; k++) total += lane[k];                                                        \
        s->as.f[0] = total;                                                                                      \
    }
static inline double wide_abs(double x) { return fabs(x); }
NORM(norm_f32, float, wide_abs, float_parts)
NORM(norm_f64, double, wide_abs, NO_PARTS)
NORM(norm_c64, c64, cabs, NO_PARTS)
NORM(norm_c128, c128, cabs, NO_PARTS)

/* Squares of columns that are side by side are added side by side. */
#define NORM_COLUMNS(name, T, magnitude)                                                                               \
    static void name(rt_folded *s, int width, const void *p, int64_t step, int64_t count, const double *param) {       \
        enum { LANES = 8 };                                                                                            \
        const T *x = p;                                                                                                \
        double order = param[0];                                                                                       \
        int c = 0;                                                                                                     \
        for (; order == 2 && c + LANES <= width; c += LANES) {                                                         \
            double total[LANES];                                                                                       \
            for (int k = 0; k < LANES; k++) total[k] = s[c + k].n ? s[c + k].as.f[0] : 0;                              \
            for (int64_t r = 0; r < count; r++)                                                                        \
                for (int k = 0; k < LANES; k++)                                                                        \
                    total[k] += (double)x[r * step + c + k] * (double)x[r * step + c + k];                             \
            for (int k = 0; k < LANES; k++) s[c + k].as.f[0] = total[k], s[c + k].n += count;                          \
        }                                                                                                              \
        for (; c < width; c++) {                                                                                       \
            double total = s[c].n ? s[c].as.f[0] : order == -INFINITY ? INFINITY : 0;                                  \
            if (order == 2)                                                                                            \
                for (int64_t r = 0; r < count; r++) total += (double)x[r * step + c] * (double)x[r * step + c];        \
            else if (order == 1)                                                                                       \
                for (int64_t r = 0; r < count; r++) total += magnitude(x[r * step + c]);                               \
            else                                                                                                       \
                for (int64_t r = 0; r < count && !(isinf(order) && total != total); r++)                               \
                    total = norm_step(total, magnitude(x[r * step + c]), order);                                       \
            s[c].as.f[0] = total;                                                                                      \
            s[c].n += count;                                                                                           \
        }                                                                                                              \
    }
NORM_COLUMNS(norm_f32_columns, float, wide_abs)
NORM_COLUMNS(norm_f64_columns, double, wide_abs)

JOIN(join_norm) {
    double a = s->as.f[0], b = later->as.f[0];
    if (!isinf(param[0])) s->as.f[0] = a + b;
    else if (a == a) s->as.f[0] = norm_step(a, b, param[0]);
}

static double root(const rt_folded *s, double order) {
    double sum = s->n ? s->as.f[0] : order == -INFINITY ? INFINITY : 0;
    bool rooted = order != 1 && order != 0 && !isinf(order);
    return order == 2 ? sqrt(sum) : rooted ? pow(sum, 1 / order) : sum;
}
FINISH(root_f32) { (void)index; *(float *)out = (float)root(s, param[0]); }
FINISH(root_f64) { (void)index; *(double *)out = root(s, param[0]); }

/* ---- choosing by class ---- */

typedef struct rows { rt_reducer f32, f64, i64, u64, c64, c128; } rows;

static const rt_reducer *choose(const rows *r, int compute) {
    const rt_reducer *found = NULL;
    switch (compute) {
    case RT_F32: found = &r->f32; break;
    case RT_F64: found = &r->f64; break;
    case RT_U64: found = r->u64.fold ? &r->u64 : &r->i64; break;
    case RT_I64: found = &r->i64; break;
    case RT_C64: found = &r->c64; break;
    case RT_C128: found = &r->c128; break;
    }
    return found && found->fold ? found : NULL;
}

static const rows sum_rows = { .f32 = { sum_f32, add_f, take_f32, sum_columns_f32, false },
                               .f64 = { sum_f64, add_f, take_f64, sum_columns_f64, false },
                               .i64 = { sum_i64, add_u, take_u64, sum_columns_i64, false },
                               .c64 = { sum_c64, add_c, take_c64, NULL, false },
                               .c128 = { sum_c128, add_c, take_c128, NULL, false } };
static const rows mean_rows = { .f32 = { sum_f32, add_f, mean_f32, sum_columns_f32, false },
                                .f64 = { sum_f64, add_f, mean_f64, sum_columns_f64, false },
                                .c64 = { sum_c64, add_c, mean_c64, NULL, false },
                                .c128 = { sum_c128, add_c, mean_c128, NULL, false } };
static const rows prod_rows = { .f32 = { prod_f32, multiply_f32, product_f32, prod_f32_columns, true },
                                .f64 = { prod_f64, multiply_f64, product_f64, prod_f64_columns, true },
                                .i64 = { prod_i64, multiply_u, product_u64, prod_i64_columns, false },
                                .c64 = { prod_c64, multiply_c, product_c64, NULL, true },
                                .c128 = { prod_c128, multiply_c, product_c128, NULL, true } };
static const rows nansum_rows = { .f32 = { nansum_f32, add_f, take_f32, nansum_f32_columns, false },
                                  .f64 = { nansum_f64, add_f, take_f64, nansum_f64_columns, false },
                                  .i64 = { sum_i64, add_u, take_u64, sum_columns_i64, false },
                                  .c64 = { nansum_c64, add_c, take_c64, NULL, false },
                                  .c128 = { nansum_c128, add_c, take_c128, NULL, false } };
static const rows var_rows = { .f32 = { var_f32, join_spread, spread_f32, NULL, false },
                               .f64 = { var_f64, join_spread, spread_f64, NULL, false },
                               .c64 = { var_c64, join_spread, spread_f32, NULL, false },
                               .c128 = { var_c128, join_spread, spread_f64, NULL, false } };
static const rows norm_rows = { .f32 = { norm_f32, join_norm, root_f32, norm_f32_columns, false },
                                .f64 = { norm_f64, join_norm, root_f64, norm_f64_columns, false },
                                .c64 = { norm_c64, join_norm, root_f32, NULL, false },
                                .c128 = { norm_c128, join_norm, root_f64, NULL, false } };

/* Inputs are cast to `dtype` (the result's, or their own), then computed in its class. */
static int run(const rt_ctx *ctx, const rt_call *c, int dims, const rows *r, int dtype, const double *param,
               const rt_view *out) {
    const rt_view *in = rt_arg_view(c, 0);
    int compute = rt_compute_dtype(dtype);
    const rt_reducer *reducer = choose(r, compute);
    if (!rt_numel(out)) return RT_OK;
    if (!reducer) return rt_fail(ctx, RT_ENOTIMPL, "this reduction has no kernel for %s", rt_dtype_name(dtype));
    bool to_real = r == &var_rows || r == &norm_rows;
    int result = !to_real ? compute : compute == RT_C64 ? RT_F32 : compute == RT_C128 ? RT_F64 : compute;
    rt_reduction reduction = { reducer, compute, result, param, out, NULL };
    void *scratch = NULL;
    rt_view cast;
    /* a real output type narrower than the input (sum of f64 into f32) rounds first, as PyTorch casts before summing */
    bool narrows = dtype != in->dtype && rt_itemsize(dtype) < rt_itemsize(compute) && !to_real;
    if (narrows) {
        int code = rt_contiguous(ctx, in, dtype, &cast, &scratch);
        if (code) return code;
        in = &cast;
    }
    int code = rt_reduce(ctx, in, rt_arg_dims(c, dims, in->rank), &reduction);
    rt_scratch_free(ctx, scratch);
    return code;
}

/* Values are folded in the dtype's own width. A table for each kind of result, so that a model links only what it
 * uses. */
typedef struct extreme { int compute; rt_reducer reducer; } extreme;
#define EXTREME_ROW(DTYPE, which, cls, fold, columns) \
    [RT_##DTYPE] = { RT_##DTYPE, { fold, which##_##cls##_join, which##_##cls##_take, columns, false } }
#define VALUE_ROW(DTYPE, which, cls) EXTREME_ROW(DTYPE, which, cls, which##_##cls##_only, which##_##cls##_columns)
#define INDEX_ROW(DTYPE, which, cls) EXTREME_ROW(DTYPE, which, cls, which##_##cls, NULL)
#define VALUE_ROWS(which)                                                                                              \
    {                                                                                                                  \
        VALUE_ROW(F32, which, f32), VALUE_ROW(F64, which, f64), VALUE_ROW(BOOL, which, u8), VALUE_ROW(U8, which, u8),  \
        VALUE_ROW(I8, which, i8), VALUE_ROW(I16, which, i16), VALUE_ROW(I32, which, i32), VALUE_ROW(I64, which, i64),  \
        VALUE_ROW(U64, which, u64),                                                                                    \
    }
/* with positions: small integers become int64 first */
#define INDEX_ROWS(which) \
    { INDEX_ROW(F32, which, f32), INDEX_ROW(F64, which, f64), INDEX_ROW(I64, which, i64), INDEX_ROW(U64, which, u64), }
static const extreme largest[RT_DTYPE_COUNT] = VALUE_ROWS(max), smallest[RT_DTYPE_COUNT] = VALUE_ROWS(min);
static const extreme largest_at[RT_DTYPE_COUNT] = INDEX_ROWS(max), smallest_at[RT_DTYPE_COUNT] = INDEX_ROWS(min);

static int run_extreme(const rt_ctx *ctx, const rt_call *c, int dims, const extreme *rows, const rt_view *out,
                       const rt_view *index) {
    const rt_view *in = rt_arg_view(c, 0);
    if (!rt_numel(out ? out : index)) return RT_OK;
    const extreme *e = &rows[in->dtype];
    if (!e->reducer.fold) e = &rows[rt_compute_dtype(in->dtype)];
    if (!e->reducer.fold)
        return rt_fail(ctx, RT_ENOTIMPL, "this reduction has no kernel for %s", rt_dtype_name(in->dtype));
    rt_reduction reduction = { &e->reducer, e->compute, e->compute, NULL, out, index };
    return rt_reduce(ctx, in, rt_arg_dims(c, dims, in->rank), &reduction);
}

#define OVER_OUT(name, r, dims)                                                                                        \
    int name(const rt_ctx *ctx, const rt_call *c) { return run(ctx, c, dims, &r, c->out[0].dtype, NULL, &c->out[0]); }
OVER_OUT(rt_k_sum_all, sum_rows, -1)
OVER_OUT(rt_k_sum_dim, sum_rows, 1)
OVER_OUT(rt_k_prod_all, prod_rows, -1)
OVER_OUT(rt_k_prod_dim, prod_rows, 1)
OVER_OUT(rt_k_mean_all, mean_rows, -1)
OVER_OUT(rt_k_mean_dim, mean_rows, 1)
OVER_OUT(rt_k_nansum, nansum_rows, 1)

#define EXTREME_OP(name, dims, rows, out, index)                                                                       \
    int name(const rt_ctx *ctx, const rt_call *c) { return run_extreme(ctx, c, dims, rows, out, index); }
EXTREME_OP(rt_k_amax, 1, largest, &c->out[0], NULL)
EXTREME_OP(rt_k_amin, 1, smallest, &c->out[0], NULL)
EXTREME_OP(rt_k_max_all, -1, largest, &c->out[0], NULL)
EXTREME_OP(rt_k_min_all, -1, smallest, &c->out[0], NULL)
EXTREME_OP(rt_k_max_dim, 1, largest_at, &c->out[0], &c->out[1])
EXTREME_OP(rt_k_min_dim, 1, smallest_at, &c->out[0], &c->out[1])
EXTREME_OP(rt_k_argmax, 1, largest_at, NULL, &c->out[0])
EXTREME_OP(rt_k_argmin, 1, smallest_at, NULL, &c->out[0])

int rt_k_aminmax(const rt_ctx *ctx, const rt_call *c) {
    int code = run_extreme(ctx, c, 1, smallest, &c->out[0], NULL);
    return code ? code : run_extreme(ctx, c, 1, largest, &c->out[1], NULL);
}

static const rt_reducer any_reducer = { any_b, add_i, take_any, any_columns, false },
                        all_reducer = { all_b, add_i, take_all, all_columns, false },
                        count_reducer = { count_b, add_i, take_count, count_columns, false };

/* Bytes are looked at as they are; everything else becomes bool first. */
static int truth(const rt_ctx *ctx, const rt_call *c, int dims, const rt_reducer *reducer, int result) {
    const rt_view *in = rt_arg_view(c, 0);
    bool bytes = reducer != &count_reducer && (in->dtype == RT_U8 || in->dtype == RT_I8);
    rt_reduction r = { reducer, bytes ? in->dtype : RT_BOOL, result, NULL, &c->out[0], NULL };
    return rt_reduce(ctx, in, rt_arg_dims(c, dims, in->rank), &r);
}
int rt_k_any_all(const rt_ctx *ctx, const rt_call *c) { return truth(ctx, c, -1, &any_reducer, RT_BOOL); }
int rt_k_any_dim(const rt_ctx *ctx, const rt_call *c) { return truth(ctx, c, 1, &any_reducer, RT_BOOL); }
int rt_k_all_all(const rt_ctx *ctx, const rt_call *c) { return truth(ctx, c, -1, &all_reducer, RT_BOOL); }
int rt_k_all_dim(const rt_ctx *ctx, const rt_call *c) { return truth(ctx, c, 1, &all_reducer, RT_BOOL); }
int rt_k_count_nonzero(const rt_ctx *ctx, const rt_call *c) { return truth(ctx, c, 1, &count_reducer, RT_I64); }

/* var.correction(self, dim, *, correction, keepdim): an absent correction is 1. */
static int variance(const rt_ctx *ctx, const rt_call *c, double root) {
    double param[] = { rt_arg_is_none(c, 2) ? 1.0 : rt_arg_float(c, 2), root };
    return run(ctx, c, 1, &var_rows, rt_arg_view(c, 0)->dtype, param, &c->out[0]);
}
static int with_mean(const rt_ctx *ctx, const rt_call *c) {
    return run(ctx, c, 1, &mean_rows, c->out[1].dtype, NULL, &c->out[1]);
}
int rt_k_var(const rt_ctx *ctx, const rt_call *c) { return variance(ctx, c, 0); }
int rt_k_std(const rt_ctx *ctx, const rt_call *c) { return variance(ctx, c, 1); }
int rt_k_var_mean(const rt_ctx *ctx, const rt_call *c) {
    int code = variance(ctx, c, 0);
    return code ? code : with_mean(ctx, c);
}
int rt_k_std_mean(const rt_ctx *ctx, const rt_call *c) {
    int code = variance(ctx, c, 1);
    return code ? code : with_mean(ctx, c);
}

/* linalg_vector_norm(self, ord, dim, keepdim, *, dtype) */
int rt_k_vector_norm(const rt_ctx *ctx, const rt_call *c) {
    double order = rt_arg_float(c, 1);
    int dtype = rt_arg_is_none(c, 4) ? rt_arg_view(c, 0)->dtype : (int)rt_arg_int(c, 4);
    return run(ctx, c, 2, &norm_rows, dtype, &order, &c->out[0]);
}
