/* rt_fft_avx2.c: the loops of transforms, compiled for AVX2. */
#define FFT_SET(name) name##_avx2
#define FFT_BYTES 32
#include "runtime/rt_fft_set.h"
