/* rt_fft_avx512.c: the loops of transforms, compiled for AVX-512. */
#define FFT_SET(name) name##_avx512
#include "runtime/rt_fft_set.h"
