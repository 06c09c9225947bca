/* target.c: what compiled code may assume of the processor. */
#include "emit/emit.h"

#include <stdio.h>
#include <string.h>

static const cr_isa portable = { "portable", 0, { NULL } };
static const cr_isa avx2 = { "avx2", RT_CPU_AVX2, { "-mavx2", "-mfma", "-mf16c", NULL } };
static const cr_isa avx512 = { "avx512",
                               RT_CPU_AVX2 | RT_CPU_AVX512,
                               { "-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mfma", "-mf16c", NULL } };

#if defined(__x86_64__)
static const char *const here = "x86-64";
#elif defined(__aarch64__)
static const char *const here = "aarch64";
#else
static const char *const here = "generic";
#endif

static void take_all(cr_target *t) {
    t->isas[t->nisas++] = &portable;
    if (!t->is_x86) return;
    t->isas[t->nisas++] = &avx2;
    t->isas[t->nisas++] = &avx512;
}

/* Letters, digits, '_', '.' and '-': it becomes part of a program's name. */
static bool is_triple(const char *text) {
    return strchr(text, '-') && text[0] != '-' && strlen(text) < sizeof ((cr_target *)0)->name &&
           text[strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-")] == 0;
}

cr_status cr_target_parse_source(cr_target *out) {
    *out = (cr_target){ .name = "source", .is_source = true, .isas = { &portable }, .nisas = 1 };
    return CR_OK;
}

cr_status cr_target_parse(const char *text, cr_target *out) {
    bool x86 = !strcmp(here, "x86-64");
    *out = (cr_target){ .is_x86 = x86 };
    snprintf(out->name, sizeof out->name, "%s", here);
    if (!text || !*text || !strcmp(text, "multi")) {
        take_all(out);
    } else if (!strcmp(text, "native")) {
        uint32_t cpu = rt_cpu();
        const cr_isa *best = cpu & RT_CPU_AVX512 ? &avx512 : cpu & RT_CPU_AVX2 ? &avx2 : &portable;
        out->isas[out->nisas++] = best;
        out->needs = best->needs;
        if (best->needs) snprintf(out->name, sizeof out->name, "%s+%s", here, best->name);
    } else if (is_triple(text)) {
        out->triple = text;
        out->is_x86 = !strncmp(text, "x86_64-", 7);
        snprintf(out->name, sizeof out->name, "%s", text);
        take_all(out);
    } else
        return CR_FAIL(CR_EVALUE, "there is no target '%s': use multi, native, or a triple such as aarch64-linux-gnu",
                       text);
    return CR_OK;
}
