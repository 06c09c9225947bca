/* rt_fft_passes.h: the passes of a transform. A template without a guard: rt_fft_set.h includes it for each dtype, with
 * T and FN defined.
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
} FN(pass);

/* Output j of the pass, turned. */
#define PUT(j, a, b)                                                   \
    do {                                                               \
        T re_##j = (a), im_##j = (b);                                  \
        yr[q + j * s] = last ? re_##j : re_##j * c[j] - im_##j * d[j]; \
        yi[q + j * s] = last ? im_##j : re_##j * d[j] + im_##j * c[j]; \
    } while (0)
/* The rows of a pass: pointers to the inputs and outputs, and the turns. */
#define ROWS(r)                                                                                          \
    int64_t s = f->s, m = f->m, a = s * m;                                                               \
    for (int64_t p = 0; p < m; p++) {                                                                    \
        T c[r], d[r];                                                                                    \
        for (int j = 1; j < r; j++) c[j] = f->cosine[j * p * f->step], d[j] = -f->sine[j * p * f->step]; \
        const T *xr = x.re + s * p, *xi = x.im + s * p;                                                  \
        T *restrict yr = y.re + s * r * p, *restrict yi = y.im + s * r * p;                              \
        INDEPENDENT for (int64_t q = 0; q < s; q++) {

static inline __attribute__((always_inline)) void FN(pass2)(const FN(pass) * f, FN(parts) x, FN(parts) y, bool last) {
    ROWS(2)
    T ar = xr[q], ai = xi[q], br = xr[q + a], bi = xi[q + a];
    yr[q] = ar + br;
    yi[q] = ai + bi;
    PUT(1, ar - br, ai - bi);
}
    }
}

static inline __attribute__((always_inline)) void FN(pass3)(const FN(pass) * f, FN(parts) x, FN(parts) y, bool last) {
    const T half = (T)0.5, root = (T)0.86602540378443864676;
    ROWS(3)
    T ar = xr[q], ai = xi[q], br = xr[q + a], bi = xi[q + a], cr = xr[q + 2 * a], ci = xi[q + 2 * a];
    T tr = br + cr, ti = bi + ci, ur = ar - half * tr, ui = ai - half * ti, vr = root * (br - cr),
      vi = root * (bi - ci);
    yr[q] = ar + tr;
    yi[q] = ai + ti;
    PUT(1, ur + vi, ui - vr);
    PUT(2, ur - vi, ui + vr);
}
    }
}

static inline __attribute__((always_inline)) void FN(pass4)(const FN(pass) * f, FN(parts) x, FN(parts) y, bool last) {
    ROWS(4)
    T ar = xr[q], ai = xi[q], br = xr[q + a], bi = xi[q + a];
    T cr = xr[q + 2 * a], ci = xi[q + 2 * a], dr = xr[q + 3 * a], di = xi[q + 3 * a];
    T er = ar + cr, ei = ai + ci, gr = ar - cr, gi = ai - ci, hr = br + dr, hi = bi + di, kr = bi - di, ki = dr - br;
    yr[q] = er + hr;
    yi[q] = ei + hi;
    PUT(1, gr + kr, gi + ki);
    PUT(2, er - hr, ei - hi);
    PUT(3, gr - kr, gi - ki);
}
    }
}

static inline __attribute__((always_inline)) void FN(pass5)(const FN(pass) * f, FN(parts) x, FN(parts) y, bool last) {
    const T c1 = (T)0.30901699437494742410, s1 = (T)0.95105651629515357212, c2 = (T)-0.80901699437494742410,
            s2 = (T)0.58778525229247312917;
    ROWS(5)
    T ar = xr[q], ai = xi[q], pr = xr[q + a], pi = xi[q + a], qr = xr[q + 2 * a], qi = xi[q + 2 * a];
    T rr = xr[q + 3 * a], ri = xi[q + 3 * a], tr = xr[q + 4 * a], ti = xi[q + 4 * a];
    T er = pr + tr, ei = pi + ti, gr = qr + rr, gi = qi + ri, hr = pr - tr, hi = pi - ti, kr = qr - rr, ki = qi - ri;
    T ur = ar + c1 * er + c2 * gr, ui = ai + c1 * ei + c2 * gi, vr = ar + c2 * er + c1 * gr,
      vi = ai + c2 * ei + c1 * gi;
    T br = s1 * hr + s2 * kr, bi = s1 * hi + s2 * ki, zr = s2 * hr - s1 * kr, zi = s2 * hi - s1 * ki;
    yr[q] = ar + er + gr;
    yi[q] = ai + ei + gi;
    PUT(1, ur + bi, ui - br);
    PUT(2, vr + zi, vi - zr);
    PUT(3, vr - zi, vi + zr);
    PUT(4, ur - bi, ui + br);
}
}
}

/* Two passes of radix 4 over the even and the odd inputs, and one of radix 2 over both. */
static inline __attribute__((always_inline)) void FN(pass8)(const FN(pass) * f, FN(parts) x, FN(parts) y, bool last) {
    const T root = (T)0.70710678118654752440;
    ROWS(8)
    T ar = xr[q] + xr[q + 4 * a], ai = xi[q] + xi[q + 4 * a], br = xr[q] - xr[q + 4 * a], bi = xi[q] - xi[q + 4 * a];
    T cr = xr[q + 2 * a] + xr[q + 6 * a], ci = xi[q + 2 * a] + xi[q + 6 * a], dr = xi[q + 2 * a] - xi[q + 6 * a],
      di = xr[q + 6 * a] - xr[q + 2 * a];
    T er = xr[q + a] + xr[q + 5 * a], ei = xi[q + a] + xi[q + 5 * a], gr = xr[q + a] - xr[q + 5 * a],
      gi = xi[q + a] - xi[q + 5 * a];
    T hr = xr[q + 3 * a] + xr[q + 7 * a], hi = xi[q + 3 * a] + xi[q + 7 * a], kr = xi[q + 3 * a] - xi[q + 7 * a],
      ki = xr[q + 7 * a] - xr[q + 3 * a];
    T e0r = ar + cr, e0i = ai + ci, e1r = br + dr, e1i = bi + di, e2r = ar - cr, e2i = ai - ci, e3r = br - dr,
      e3i = bi - di;
    T o0r = er + hr, o0i = ei + hi, t1r = gr + kr, t1i = gi + ki, o2r = ei - hi, o2i = hr - er, t3r = gr - kr,
      t3i = gi - ki;
    T o1r = root * (t1r + t1i), o1i = root * (t1i - t1r), o3r = root * (t3i - t3r), o3i = -root * (t3r + t3i);
    yr[q] = e0r + o0r;
    yi[q] = e0i + o0i;
    PUT(1, e1r + o1r, e1i + o1i);
    PUT(2, e2r + o2r, e2i + o2i);
    PUT(3, e3r + o3r, e3i + o3i);
    PUT(4, e0r - o0r, e0i - o0i);
    PUT(5, e1r - o1r, e1i - o1i);
    PUT(6, e2r - o2r, e2i - o2i);
    PUT(7, e3r - o3r, e3i - o3i);
}
    }
}
#undef ROWS
#undef PUT

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
static FN(parts) FN(columns)(const fft_plan *plan, int64_t batch, FN(parts) x, FN(parts) y) {
    const T *table = plan->table;
    FN(pass) f = { .m = plan->n, .s = batch, .step = 1, .cosine = table, .sine = table + plan->n, .n = plan->n };
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
