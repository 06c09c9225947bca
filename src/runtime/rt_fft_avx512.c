/* rt_fft_avx512.c: the loops of transforms, compiled for AVX-512. */
#define FFT_SET(name) name##_avx512
#define FFT_BYTES 64
#include "runtime/rt_fft_set.h"
