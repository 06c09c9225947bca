/* rt_factor.c: the choice of the loops. */
#include "runtime/rt_factor.h"

const rt_factor_loops *rt_factor(int dtype) {
#if defined(__x86_64__)
    uint32_t has = rt_cpu();
    if (has & RT_CPU_AVX512) return rt__factor_loops_avx512(dtype);
    if (has & RT_CPU_AVX2) return rt__factor_loops_avx2(dtype);
#endif
    return rt__factor_loops_base(dtype);
}
