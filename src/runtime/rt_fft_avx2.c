/* rt_fft_avx2.c: the passes, compiled for AVX2. */
#define FFT_TRANSFORM rt__fft_transform_avx2
#include "runtime/rt_fft_passes.h"
