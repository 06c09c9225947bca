/* rt_fft_passes.h: the passes of a transform, compiled once for each instruction set by a file that names
 * FFT_TRANSFORM.
 *
 * A transform of length n is one pass per prime factor (Stockham's order, so nothing is ever permuted): a pass of radix
 * r reads r numbers m = n' / r apart, combines them, turns them and writes them side by side, n' being what is left of
 * n. Real and imaginary parts lie in separate arrays [n][batch], so that the innermost loop is plain arithmetic along
 * the batch (and, in later passes, along what earlier ones have finished). */
#include "runtime/rt_fft.h"

#if defined(__clang__)
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#endif

/* x[q + s * (p + m * k)] for k in 0..r-1 becomes y[q + s * (r * p + j)], turned by twiddle[j * p * step]. */
typedef struct fft_pass {
    int64_t m, s, step;
    const double *cosine, *sine; /* of 2 pi k / n, n of them */
    int64_t n;
} fft_pass;

static void fft_pass2(const fft_pass *f, fft_lines x, fft_lines y) {
    int64_t s = f->s, m = f->m;
    for (int64_t p = 0; p < m; p++) {
        double c = f->cosine[p * f->step], d = -f->sine[p * f->step];
        const double *ar = x.re + s * p, *ai = x.im + s * p, *br = ar + s * m, *bi = ai + s * m;
        double *restrict ur = y.re + s * 2 * p, *restrict ui = y.im + s * 2 * p, *restrict vr = ur + s,
                         *restrict vi = ui + s;
        INDEPENDENT for (int64_t q = 0; q < s; q++) {
            double tr = ar[q] - br[q], ti = ai[q] - bi[q];
            ur[q] = ar[q] + br[q];
            ui[q] = ai[q] + bi[q];
            vr[q] = tr * c - ti * d;
            vi[q] = tr * d + ti * c;
        }
    }
}

static void fft_pass3(const fft_pass *f, fft_lines x, fft_lines y) {
    const double half = 0.5, root = 0.86602540378443864676;
    int64_t s = f->s, m = f->m;
    for (int64_t p = 0; p < m; p++) {
        double c1 = f->cosine[p * f->step], d1 = -f->sine[p * f->step], c2 = f->cosine[2 * p * f->step],
               d2 = -f->sine[2 * p * f->step];
        const double *xr = x.re + s * p, *xi = x.im + s * p;
        double *restrict yr = y.re + s * 3 * p, *restrict yi = y.im + s * 3 * p;
        INDEPENDENT for (int64_t q = 0; q < s; q++) {
            double ar = xr[q], ai = xi[q], br = xr[q + s * m], bi = xi[q + s * m], cr = xr[q + 2 * s * m],
                   ci = xi[q + 2 * s * m];
            double tr = br + cr, ti = bi + ci, ur = ar - half * tr, ui = ai - half * ti, vr = root * (br - cr),
                   vi = root * (bi - ci);
            yr[q] = ar + tr;
            yi[q] = ai + ti;
            double gr = ur + vi, gi = ui - vr, hr = ur - vi, hi = ui + vr;
            yr[q + s] = gr * c1 - gi * d1;
            yi[q + s] = gr * d1 + gi * c1;
            yr[q + 2 * s] = hr * c2 - hi * d2;
            yi[q + 2 * s] = hr * d2 + hi * c2;
        }
    }
}

static void fft_pass4(const fft_pass *f, fft_lines x, fft_lines y) {
    int64_t s = f->s, m = f->m;
    for (int64_t p = 0; p < m; p++) {
        int64_t t = p * f->step;
        double c1 = f->cosine[t], d1 = -f->sine[t], c2 = f->cosine[2 * t], d2 = -f->sine[2 * t], c3 = f->cosine[3 * t],
               d3 = -f->sine[3 * t];
        const double *xr = x.re + s * p, *xi = x.im + s * p;
        double *restrict yr = y.re + s * 4 * p, *restrict yi = y.im + s * 4 * p;
        INDEPENDENT for (int64_t q = 0; q < s; q++) {
            double ar = xr[q], ai = xi[q], br = xr[q + s * m], bi = xi[q + s * m];
            double cr = xr[q + 2 * s * m], ci = xi[q + 2 * s * m], dr = xr[q + 3 * s * m], di = xi[q + 3 * s * m];
            double er = ar + cr, ei = ai + ci, gr = ar - cr, gi = ai - ci, hr = br + dr, hi = bi + di, kr = bi - di,
                   ki = dr - br;
            yr[q] = er + hr;
            yi[q] = ei + hi;
            double ur = gr + kr, ui = gi + ki, vr = er - hr, vi = ei - hi, wr = gr - kr, wi = gi - ki;
            yr[q + s] = ur * c1 - ui * d1;
            yi[q + s] = ur * d1 + ui * c1;
            yr[q + 2 * s] = vr * c2 - vi * d2;
            yi[q + 2 * s] = vr * d2 + vi * c2;
            yr[q + 3 * s] = wr * c3 - wi * d3;
            yi[q + 3 * s] = wr * d3 + wi * c3;
        }
    }
}

static void fft_pass5(const fft_pass *f, fft_lines x, fft_lines y) {
    const double c1 = 0.30901699437494742410, s1 = 0.95105651629515357212, c2 = -0.80901699437494742410,
                 s2 = 0.58778525229247312917;
    int64_t s = f->s, m = f->m;
    for (int64_t p = 0; p < m; p++) {
        const double *xr = x.re + s * p, *xi = x.im + s * p;
        double *restrict yr = y.re + s * 5 * p, *restrict yi = y.im + s * 5 * p, c[5], d[5];
        for (int j = 1; j < 5; j++) c[j] = f->cosine[j * p * f->step], d[j] = -f->sine[j * p * f->step];
        INDEPENDENT for (int64_t q = 0; q < s; q++) {
            double ar = xr[q], ai = xi[q], pr = xr[q + s * m], pi = xi[q + s * m], qr = xr[q + 2 * s * m],
                   qi = xi[q + 2 * s * m];
            double rr = xr[q + 3 * s * m], ri = xi[q + 3 * s * m], tr = xr[q + 4 * s * m], ti = xi[q + 4 * s * m];
            double er = pr + tr, ei = pi + ti, gr = qr + rr, gi = qi + ri, hr = pr - tr, hi = pi - ti, kr = qr - rr,
                   ki = qi - ri;
            double ur = ar + c1 * er + c2 * gr, ui = ai + c1 * ei + c2 * gi, vr = ar + c2 * er + c1 * gr,
                   vi = ai + c2 * ei + c1 * gi;
            double br = s1 * hr + s2 * kr, bi = s1 * hi + s2 * ki, zr = s2 * hr - s1 * kr, zi = s2 * hi - s1 * ki;
            yr[q] = ar + er + gr;
            yi[q] = ai + ei + gi;
            double or[4] = { ur + bi, vr + zi, vr - zi, ur - bi }, oi[4] = { ui - br, vi - zr, vi + zr, ui + br };
            for (int j = 1; j < 5; j++) {
                yr[q + j * s] = or[j - 1] * c[j] - oi[j - 1] * d[j];
                yi[q + j * s] = or[j - 1] * d[j] + oi[j - 1] * c[j];
            }
        }
    }
}

/* Any radix: r * r multiplications. Sines of 2 pi j k / r are among the twiddles, since r divides n. */
static void fft_pass_any(const fft_pass *f, int64_t r, fft_lines x, fft_lines y) {
    int64_t s = f->s, m = f->m, apart = f->n / r;
    for (int64_t p = 0; p < m; p++) {
        const double *xr = x.re + s * p, *xi = x.im + s * p;
        for (int64_t j = 0; j < r; j++) {
            double *restrict yr = y.re + s * (r * p + j), *restrict yi = y.im + s * (r * p + j);
            INDEPENDENT for (int64_t q = 0; q < s; q++) yr[q] = xr[q], yi[q] = xi[q];
            for (int64_t k = 1; k < r; k++) {
                double c = f->cosine[j * k % r * apart], d = -f->sine[j * k % r * apart];
                const double *ar = xr + s * m * k, *ai = xi + s * m * k;
                INDEPENDENT for (int64_t q = 0; q < s; q++) {
                    yr[q] += ar[q] * c - ai[q] * d;
                    yi[q] += ar[q] * d + ai[q] * c;
                }
            }
            double c = f->cosine[j * p * f->step], d = -f->sine[j * p * f->step];
            INDEPENDENT for (int64_t q = 0; q < s; q++) {
                double t = yr[q];
                yr[q] = t * c - yi[q] * d;
                yi[q] = t * d + yi[q] * c;
            }
        }
    }
}

/* Transforms `batch` lines in x, with y of the same size to work in. Returns which of the two holds the result. */
fft_lines FFT_TRANSFORM(int64_t n, int nfactors, const int *factor, const double *table, int64_t batch, fft_lines x,
                        fft_lines y) {
    fft_pass f = { .m = n, .s = batch, .step = 1, .cosine = table, .sine = table + n, .n = n };
    for (int i = 0; i < nfactors; i++) {
        int r = factor[i];
        f.m /= r;
        if (r == 4) fft_pass4(&f, x, y);
        else if (r == 2) fft_pass2(&f, x, y);
        else if (r == 3) fft_pass3(&f, x, y);
        else if (r == 5) fft_pass5(&f, x, y);
        else fft_pass_any(&f, r, x, y);
        f.s *= r;
        f.step *= r;
        fft_lines swap = x;
        x = y;
        y = swap;
    }
    return x;
}
