/* rt_fft_base.c: the loops of transforms, compiled for any machine. */
#define FFT_SET(name) name##_base
#define FFT_BYTES 16
#include "runtime/rt_fft_set.h"
