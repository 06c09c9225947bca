/* rt_fft_base.c: the passes for any machine, and the choice between them and the others. */
#define FFT_TRANSFORM rt__fft_transform_base
#include "runtime/rt_fft_passes.h"

fft_lines rt__fft_transform(int64_t n, int nfactors, const int *factor, const double *table, int64_t batch, fft_lines x,
                            fft_lines y) {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2")) return rt__fft_transform_avx2(n, nfactors, factor, table, batch, x, y);
#endif
    return rt__fft_transform_base(n, nfactors, factor, table, batch, x, y);
}
