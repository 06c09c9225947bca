/* rt_cpu.c: which instruction sets may be used: what the processor has, less what CRESSET_ISA (portable, avx2, avx512:
 * no more than that) takes away. */
#include "runtime/rt.h"

#include <stdlib.h>
#include <string.h>

static uint32_t detect(void) {
    uint32_t has = 0;
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) has |= RT_CPU_AVX2;
    if ((has & RT_CPU_AVX2) && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        has |= RT_CPU_AVX512;
#endif
    return has;
}

/* What CRESSET_ISA may say, and what it leaves. */
static const struct { const char *name; uint32_t leaves; } limits[] = {
    { "", RT_CPU_AVX2 | RT_CPU_AVX512 },
    { "portable", 0 },
    { "avx2", RT_CPU_AVX2 },
    { "avx512", RT_CPU_AVX2 | RT_CPU_AVX512 },
};

static int limit_find(void) {
    const char *most = getenv("CRESSET_ISA");
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        if (!strcmp(most ? most : "", limits[i].name)) return (int)i;
    return -1;
}

bool rt_cpu_limit_is_known(void) { return limit_find() >= 0; }

uint32_t rt_cpu(void) {
    int limit = limit_find();
    return limit < 0 ? 0 : detect() & limits[limit].leaves;
}
