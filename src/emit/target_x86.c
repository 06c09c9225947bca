/* target_x86.c: x86-64: 16-byte registers always, 32 and 64 where the processor has them. */
#include "emit/target.h"

#include <elf.h>

static const cr_isa avx2 = {
    .name = "avx2", .level = "RT_ISA_AVX2", .loops = "avx2", .files = "_avx2.c", .needs = RT_CPU_AVX2,
    .flags = { "-mavx2", "-mfma", "-mf16c" },
};
static const cr_isa avx512 = {
    .name = "avx512", .level = "RT_ISA_AVX512", .loops = "avx512", .files = "_avx512.c",
    .needs = RT_CPU_AVX2 | RT_CPU_AVX512,
    .flags = { "-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mfma", "-mf16c" },
};
static const cr_isa *const isas[] = { &cr__isa_portable, &avx2, &avx512, NULL };

#if defined(__x86_64__)
static void describe(cr_str *out) {
    __builtin_cpu_init();
#define FEATURE(name) \
    if (__builtin_cpu_supports(name)) cr_str_add(out, " " name);
    FEATURE("avx2") FEATURE("fma") FEATURE("avx512f") FEATURE("avx512bw") FEATURE("avx512dq") FEATURE("avx512vl")
#undef FEATURE
}
#endif

const cr_target cr_target_x86 = {
    CR__CPU, .name = "x86-64", .triples = "x86_64-", .macro = "__x86_64__", .machine = EM_X86_64, .isas = isas,
#if defined(__x86_64__)
    .is_here = true, .describe = describe,
#endif
};
