/* rt_cpu.c: which instruction sets may be used: what the processor has, less what CRESSET_ISA (portable, avx2, avx512:
 * no more than that) takes away. */
#include "runtime/rt.h"

#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
/* Asked of the processor itself: the compiler's own table of processors would be 5 KB of every model. */
enum { OF_A, OF_B, OF_C, OF_D }; /* registers of an answer */
static void ask(uint32_t question, uint32_t *answer) {
    __asm__("cpuid" : "=a"(answer[OF_A]), "=b"(answer[OF_B]), "=c"(answer[OF_C]), "=d"(answer[OF_D])
            : "a"(question), "c"(0));
}

static uint32_t detect(void) {
    const uint32_t basic = 1u << 12 | 1u << 27 | 1u << 28 | 1u << 29; /* of 1: FMA, OSXSAVE, AVX, F16C */
    const uint32_t avx2 = 1u << 5, avx512 = 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31; /* of 7: F, DQ, BW, VL */
    const uint32_t ymm = 0x06, zmm = 0xe6; /* registers that the system saves */
    uint32_t is[4], saved, high;
    ask(0, is);
    if (is[OF_A] < 7) return 0;
    ask(1, is);
    if ((is[OF_C] & basic) != basic) return 0;
    __asm__("xgetbv" : "=a"(saved), "=d"(high) : "c"(0));
    ask(7, is);
    if ((saved & ymm) != ymm || !(is[OF_B] & avx2)) return 0;
    return RT_CPU_AVX2 | ((saved & zmm) == zmm && (is[OF_B] & avx512) == avx512 ? RT_CPU_AVX512 : 0);
}
#else
static uint32_t detect(void) { return 0; }
#endif

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
