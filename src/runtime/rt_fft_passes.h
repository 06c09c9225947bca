/* rt_fft_passes.h: the passes of a transform. A template without a guard: rt_fft_set.h includes it for each dtype, with
 * T, FN and W (a vector of WIDE numbers) defined.
 *
 * A transform of length n is one pass per factor (Stockham's order, so nothing is ever permuted): a pass of radix r
 * reads r numbers m = n' / r apart, combines them, turns them and writes them side by side, n' being what is left of n.
 * Real and imaginary parts lie in separate arrays [n][batch], so that the innermost loop is plain arithmetic along the
 * batch (and, in later passes, along what earlier ones have finished). The last pass turns nothing. */

typedef struct FN(parts) {
    T *re, *im;
} FN(parts); /* [n][batch] each */

/* x[q + s * (p + m * k)] for k in 0..r-1 becomes y[q + s * (r * p + j)], turned by twiddle[j * p * step]. */
typedef struct FN(pass) {
    int64_t m, s, step;
    const T *cosine, *sine; /* of 2 pi k / n, n of them */
    int64_t n;
    fft_ahead *ahead;
} FN(pass);

/* Bodies of the passes work on N: one number, or a vector of neighbours. IN: number k of an input, a = s * m apart. */
#define IN(N, x, k) (*(const N *)((x) + q + (k) * a))
#define OUT(N, y, j) (*(N *)((y) + q + (j) * s))
/* Output j of the pass, turned. */
#define PUT(N, j, u, v)                                 \
    do {                                                \
        N re_##j = (u), im_##j = (v), was_##j = re_##j; \
        if (!last) {                                    \
            re_##j = re_##j * c[j] - im_##j * d[j];     \
            im_##j = was_##j * d[j] + im_##j * c[j];    \
        }                                               \
        OUT(N, yr, j) = re_##j;                         \
        OUT(N, yi, j) = im_##j;                         \
    } while (0)
/* A pass of radix r: pointers to the inputs and outputs, the turns, and its body along the batch. Batches of whole
 * vectors are the usual case, and loops over few of them: the compiler's own vectors would spend half of the time on
 * finding out where they begin and end. */
#define PASS(r, BODY)                                                                                           \
    static inline __attribute__((always_inline)) void FN(pass##r)(const FN(pass) * f, FN(parts) x, FN(parts) y, \
                                                                  bool last) {                                  \
        int64_t s = f->s, m = f->m, a = s * m;                                                                  \
        for (int64_t p = 0; p < m; p++) {                                                                       \
            T c[r], d[r];                                                                                       \
            fetch_ahead(f->ahead);                                                                              \
            for (int j = 1; j < r; j++) c[j] = f->cosine[j * p * f->step], d[j] = -f->sine[j * p * f->step];    \
            const T *xr = x.re + s * p, *xi = x.im + s * p;                                                     \
            T *restrict yr = y.re + s * r * p, *restrict yi = y.im + s * r * p;                                 \
            if (s % WIDE == 0)                                                                                  \
                for (int64_t q = 0; q < s; q += WIDE) { BODY(W) }                                               \
            else                                                                                                \
                INDEPENDENT for (int64_t q = 0; q < s; q++) { BODY(T) }                                         \
        }                                                                                                       \
    }

#define BODY2(N)                                                                  \
    N ar = IN(N, xr, 0), ai = IN(N, xi, 0), br = IN(N, xr, 1), bi = IN(N, xi, 1); \
    OUT(N, yr, 0) = ar + br;                                                      \
    OUT(N, yi, 0) = ai + bi;                                                      \
    PUT(N, 1, ar - br, ai - bi);
PASS(2, BODY2)

#define BODY3(N)                                                                                     \
    const T half = (T)0.5, root = (T)0.86602540378443864676;                                         \
    N ar = IN(N, xr, 0), ai = IN(N, xi, 0), br = IN(N, xr, 1), bi = IN(N, xi, 1), cr = IN(N, xr, 2); \
    N ci = IN(N, xi, 2);                                                                             \
    N tr = br + cr, ti = bi + ci, ur = ar - half * tr, ui = ai - half * ti, vr = root * (br - cr);   \
    N vi = root * (bi - ci);                                                                         \
    OUT(N, yr, 0) = ar + tr;                                                                         \
    OUT(N, yi, 0) = ai + ti;                                                                         \
    PUT(N, 1, ur + vi, ui - vr);                                                                     \
    PUT(N, 2, ur - vi, ui + vr);
PASS(3, BODY3)

#define BODY4(N)                                                                                                      \
    N ar = IN(N, xr, 0), ai = IN(N, xi, 0), br = IN(N, xr, 1), bi = IN(N, xi, 1);                                     \
    N cr = IN(N, xr, 2), ci = IN(N, xi, 2), dr = IN(N, xr, 3), di = IN(N, xi, 3);                                     \
    N er = ar + cr, ei = ai + ci, gr = ar - cr, gi = ai - ci, hr = br + dr, hi = bi + di, kr = bi - di, ki = dr - br; \
    OUT(N, yr, 0) = er + hr;                                                                                          \
    OUT(N, yi, 0) = ei + hi;                                                                                          \
    PUT(N, 1, gr + kr, gi + ki);                                                                                      \
    PUT(N, 2, er - hr, ei - hi);                                                                                      \
    PUT(N, 3, gr - kr, gi - ki);
PASS(4, BODY4)

#define BODY5(N)                                                                                                      \
    const T c1 = (T)0.30901699437494742410, s1 = (T)0.95105651629515357212;                                           \
    const T c2 = (T)-0.80901699437494742410, s2 = (T)0.58778525229247312917;                                          \
    N ar = IN(N, xr, 0), ai = IN(N, xi, 0), pr = IN(N, xr, 1), pi = IN(N, xi, 1), qr = IN(N, xr, 2);                  \
    N qi = IN(N, xi, 2);                                                                                              \
    N rr = IN(N, xr, 3), ri = IN(N, xi, 3), tr = IN(N, xr, 4), ti = IN(N, xi, 4);                                     \
    N er = pr + tr, ei = pi + ti, gr = qr + rr, gi = qi + ri, hr = pr - tr, hi = pi - ti, kr = qr - rr, ki = qi - ri; \
    N ur = ar + c1 * er + c2 * gr, ui = ai + c1 * ei + c2 * gi, vr = ar + c2 * er + c1 * gr;                          \
    N vi = ai + c2 * ei + c1 * gi;                                                                                    \
    N br = s1 * hr + s2 * kr, bi = s1 * hi + s2 * ki, zr = s2 * hr - s1 * kr, zi = s2 * hi - s1 * ki;                 \
    OUT(N, yr, 0) = ar + er + gr;                                                                                     \
    OUT(N, yi, 0) = ai + ei + gi;                                                                                     \
    PUT(N, 1, ur + bi, ui - br);                                                                                      \
    PUT(N, 2, vr + zi, vi - zr);                                                                                      \
    PUT(N, 3, vr - zi, vi + zr);                                                                                      \
    PUT(N, 4, ur - bi, ui + br);
PASS(5, BODY5)

/* Two passes of radix 4 over the even and the odd inputs, and one of radix 2 over both. */
#define BODY8(N)                                                                                               \
    const T root = (T)0.70710678118654752440;                                                                  \
    N x0r = IN(N, xr, 0), x0i = IN(N, xi, 0), x1r = IN(N, xr, 1), x1i = IN(N, xi, 1), x2r = IN(N, xr, 2);      \
    N x2i = IN(N, xi, 2), x3r = IN(N, xr, 3), x3i = IN(N, xi, 3), x4r = IN(N, xr, 4), x4i = IN(N, xi, 4);      \
    N x5r = IN(N, xr, 5), x5i = IN(N, xi, 5), x6r = IN(N, xr, 6), x6i = IN(N, xi, 6), x7r = IN(N, xr, 7);      \
    N x7i = IN(N, xi, 7), ar = x0r + x4r, ai = x0i + x4i, br = x0r - x4r, bi = x0i - x4i;                      \
    N cr = x2r + x6r, ci = x2i + x6i, dr = x2i - x6i, di = x6r - x2r;                                          \
    N er = x1r + x5r, ei = x1i + x5i, gr = x1r - x5r, gi = x1i - x5i;                                          \
    N hr = x3r + x7r, hi = x3i + x7i, kr = x3i - x7i, ki = x7r - x3r;                                          \
    N e0r = ar + cr, e0i = ai + ci, e1r = br + dr, e1i = bi + di, e2r = ar - cr, e2i = ai - ci;                \
    N e3r = br - dr, e3i = bi - di, o0r = er + hr, o0i = ei + hi, t1r = gr + kr, t1i = gi + ki;                \
    N o2r = ei - hi, o2i = hr - er, t3r = gr - kr, t3i = gi - ki;                                              \
    N o1r = root * (t1r + t1i), o1i = root * (t1i - t1r), o3r = root * (t3i - t3r), o3i = -root * (t3r + t3i); \
    OUT(N, yr, 0) = e0r + o0r;                                                                                 \
    OUT(N, yi, 0) = e0i + o0i;                                                                                 \
    PUT(N, 1, e1r + o1r, e1i + o1i);                                                                           \
    PUT(N, 2, e2r + o2r, e2i + o2i);                                                                           \
    PUT(N, 3, e3r + o3r, e3i + o3i);                                                                           \
    PUT(N, 4, e0r - o0r, e0i - o0i);                                                                           \
    PUT(N, 5, e1r - o1r, e1i - o1i);                                                                           \
    PUT(N, 6, e2r - o2r, e2i - o2i);                                                                           \
    PUT(N, 7, e3r - o3r, e3i - o3i);
PASS(8, BODY8)

#undef IN
#undef OUT
#undef PUT
#undef PASS
#undef BODY2
#undef BODY3
#undef BODY4
#undef BODY5
#undef BODY8

/* Any radix: r * r multiplications. Sines of 2 pi j k / r are among the twiddles, since r divides n. */
static void FN(pass_any)(const FN(pass) * f, int64_t r, FN(parts) x, FN(parts) y) {
    int64_t s = f->s, m = f->m, apart = f->n / r;
    for (int64_t p = 0; p < m; p++) {
        const T *xr = x.re + s * p, *xi = x.im + s * p;
        for (int64_t j = 0; j < r; j++) {
            T *restrict yr = y.re + s * (r * p + j), *restrict yi = y.im + s * (r * p + j);
            INDEPENDENT for (int64_t q = 0; q < s; q++) yr[q] = xr[q], yi[q] = xi[q];
            for (int64_t k = 1; k < r; k++) {
                T c = f->cosine[j * k % r * apart], d = -f->sine[j * k % r * apart];
                const T *ar = xr + s * m * k, *ai = xi + s * m * k;
                INDEPENDENT for (int64_t q = 0; q < s; q++) {
                    yr[q] += ar[q] * c - ai[q] * d;
                    yi[q] += ar[q] * d + ai[q] * c;
                }
            }
            T c = f->cosine[j * p * f->step], d = -f->sine[j * p * f->step];
            INDEPENDENT for (int64_t q = 0; q < s; q++) {
                T t = yr[q];
                yr[q] = t * c - yi[q] * d;
                yi[q] = t * d + yi[q] * c;
            }
        }
    }
}

#define EITHER(pass) f.m == 1 ? FN(pass)(&f, x, y, true) : FN(pass)(&f, x, y, false)
/* Transforms `batch` lines in x, with y of the same size to work in. Returns which of the two holds the result. */
static FN(parts) FN(columns)(const fft_plan *plan, int64_t batch, FN(parts) x, FN(parts) y, fft_ahead *ahead) {
    const T *table = plan->table;
    FN(pass) f = { plan->n, batch, 1, table, table + plan->n, plan->n, ahead };
    for (int i = 0; i < plan->nfactors; i++) {
        int r = plan->factor[i];
        f.m /= r;
        if (r == 8) EITHER(pass8);
        else if (r == 4) EITHER(pass4);
        else if (r == 2) EITHER(pass2);
        else if (r == 3) EITHER(pass3);
        else if (r == 5) EITHER(pass5);
        else FN(pass_any)(&f, r, x, y);
        f.s *= r;
        f.step *= r;
        FN(parts) swap = x;
        x = y;
        y = swap;
    }
    return x;
}
#undef EITHER
