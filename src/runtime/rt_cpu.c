/* rt_cpu.c: which instruction sets may be used: what the processor has, less what CRESSET_ISA (portable, avx2, avx512: no
 * more than that) takes away. */
#include "runtime/rt.h"

#include <stdlib.h>
#include <string.h>

static uint32_t detect(void) {
    uint32_t has = 0;
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) has |= RT_CPU_AVX2;
    if ((has & RT_CPU_AVX2) && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
        has |= RT_CPU_AVX512;
#endif
    return has;
}

uint32_t rt_cpu(void) {
    const char *most = getenv("CRESSET_ISA");
    uint32_t has = detect();
    if (most && !strcmp(most, "portable")) return 0;
    if (most && !strcmp(most, "avx2")) return has & RT_CPU_AVX2;
    return has;
}
