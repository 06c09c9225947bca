/* target_cpu.c: what processors have in common: C as the language of kernels, memory that everybody reads and writes
 * where it lies, kernels that are called through a table of functions by instruction set; and the processors of which
 * we know no more than that. */
#include "emit/elf.h"
#include "emit/emit.h"

#include <elf.h>

const cr_isa cr__isa_portable = { .name = "portable", .level = "RT_ISA_PORTABLE", .loops = "base" };
const cr_isa *const cr__isas_portable[] = { &cr__isa_portable, NULL };
const cr_space cr__memory_host = { .section = CR_ELF_SECTION, .alignment = 64 };

static const char *const flags[] = {
    "-std=gnu11",
    "-O1",
    "-fPIC",
    "-fvisibility=hidden",
    "-ffunction-sections",
    "-fdata-sections",
    "-fno-asynchronous-unwind-tables",
    "-w",
    NULL,
};
/* Products and sums stay apart, so that the bits are the interpreter's. */
static const char *const kernel_flags[] = {
    "-fexpensive-optimizations", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-Wno-psabi", NULL,
};
static const char *const link_flags[] = {
    "-shared",
    "-Wl,--gc-sections",
    "-Wl,--build-id=none",
    "-Wl,-z,noexecstack",
    "-Wl,-z,noseparate-code",
    "-s",
    "-lm",
    "-lpthread",
    NULL,
};
const cr_language cr__language_c = {
    .suffix = ".c",
    .vocabulary = "runtime/rt_rows_vector.h",
    .flags = flags,
    .kernel_flags = kernel_flags,
    .link_flags = link_flags,
    .print_kernels = cr__emit_rows,
    .find_compiler = cr__find_c_compiler,
};

const cr_target cr_target_riscv = {
    CR__CPU,
    .name = "riscv64",
    .triples = "riscv64-",
    .macro = "__riscv",
    .machine = EM_RISCV,
    .isas = cr__isas_portable,
#if defined(__riscv)
    .is_here = true,
#endif
};
const cr_target cr_target_other = { CR__CPU, .name = "generic", .isas = cr__isas_portable, .is_here = true };
const cr_target cr_target_source = { CR__CPU, .name = "source", .flags_decide = true, .isas = cr__isas_portable };

/* Kernels are declared once, however many steps call them. */
void cr__cpu_print_launches(cr_str *out, const cr_build *b, char (*names)[CR_ROW_NAME], size_t n, bool apart) {
    if (!n) return;
    cr_str_add(out, "#define ROWS(name)");
    for (int i = 0; i < (apart ? b->nisas : 1); i++)
        cr_str_addf(out, " [%s] = name##_%s,", b->isas[i]->level, b->isas[i]->name);
    cr_str_add(out, "\n");
    for (size_t i = 0; i < n; i++) {
        bool known = false;
        for (size_t j = 0; j < i; j++) known |= !strcmp(names[i], names[j]);
        if (known) continue;
        cr_str_add(out, "extern rt_rows_fn");
        for (int k = 0; k < (apart ? b->nisas : 1); k++)
            cr_str_addf(out, "%s %s_%s", k ? "," : "", names[i], b->isas[k]->name);
        cr_str_add(out, ";\n");
    }
}
