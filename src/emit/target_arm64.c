/* target_arm64.c: aarch64: registers of 16 bytes, which is what portable loops use. */
#include "emit/target.h"

#include <elf.h>

const cr_target cr_target_arm64 = {
    CR__CPU,
    .name = "aarch64",
    .triples = "aarch64-",
    .macro = "__aarch64__",
    .machine = EM_AARCH64,
    .isas = cr__isas_portable,
#if defined(__aarch64__)
    .is_here = true,
#endif
};
