/* rt_fft.h: discrete Fourier transforms of lengths that are products of small primes, in f64 (f32 data gains its last
 * digit and loses little time). The sign of the exponent is minus; an inverse transform is one of exchanged real and
 * imaginary parts, exchanged again. */
#ifndef CRESSET_RT_FFT_H
#define CRESSET_RT_FFT_H

#include <stdint.h>

typedef struct fft_lines { double *re, *im; } fft_lines; /* [n][batch] each */

/* Transforms `batch` lines in x, with y of the same size to work in. Returns which of the two holds the result.
 * `table`: n cosines of 2 pi k / n, then n sines. */
fft_lines rt__fft_transform(int64_t n, int nfactors, const int *factor, const double *table, int64_t batch, fft_lines x,
                            fft_lines y);
fft_lines rt__fft_transform_base(int64_t n, int nfactors, const int *factor, const double *table, int64_t batch,
                                 fft_lines x, fft_lines y);
fft_lines rt__fft_transform_avx2(int64_t n, int nfactors, const int *factor, const double *table, int64_t batch,
                                 fft_lines x, fft_lines y);

#endif
