/* target.c: which target, and what of it. */
#include "emit/emit.h"

#include <stdio.h>
#include <string.h>

const cr_target *const cr_targets[] = { &cr_target_x86, &cr_target_arm64, &cr_target_riscv, &cr_target_other, NULL };

const cr_target *cr_target_here(void) {
    const cr_target *const *t = cr_targets;
    while (!(*t)->is_here) t++;
    return *t;
}

static const cr_target *of_triple(const char *triple) {
    const cr_target *const *t = cr_targets;
    while ((*t)->triples && strncmp(triple, (*t)->triples, strlen((*t)->triples))) t++;
    return *t;
}

bool cr__target_has(const cr_target *t, const cr_isa *isa) {
    for (const cr_isa *const *i = t->isas; *i; i++)
        if (*i == isa) return true;
    return false;
}

const cr_isa *cr__isa_of_file(const char *file) {
    for (const cr_target *const *t = cr_targets; *t; t++)
        for (const cr_isa *const *i = (*t)->isas; *i; i++)
            if ((*i)->files && strstr(file, (*i)->files)) return *i;
    return NULL;
}

/* ---- builds ---- */

static void take_all(cr_build *b) {
    for (const cr_isa *const *i = b->target->isas; *i; i++) b->isas[b->nisas++] = *i;
}

/* The widest that this machine has. */
static void take_best(cr_build *b) {
    uint32_t cpu = rt_cpu();
    b->nisas = 1;
    for (const cr_isa *const *i = b->target->isas; *i; i++)
        if (!((*i)->needs & ~cpu)) b->isas[0] = *i;
    b->needs = b->isas[0]->needs;
    if (b->needs) snprintf(b->name, sizeof b->name, "%s+%s", b->target->name, b->isas[0]->name);
}

/* Letters, digits, '_', '.' and '-': it becomes part of a program's name. */
static bool is_triple(const char *text) {
    return strchr(text, '-') && text[0] != '-' && strlen(text) < sizeof((cr_build *)0)->name &&
           text[strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-")] == 0;
}

static void begin(cr_build *out, const cr_target *t, const char *name) {
    *out = (cr_build){ .target = t };
    snprintf(out->name, sizeof out->name, "%s", name);
}

void cr_build_source(cr_build *out) {
    begin(out, &cr_target_source, cr_target_source.name);
    take_all(out);
}

cr_status cr_build_parse(const char *text, cr_build *out) {
    const cr_target *here = cr_target_here();
    begin(out, here, here->name);
    if (!text || !*text || !strcmp(text, "multi")) take_all(out);
    else if (!strcmp(text, "native")) take_best(out);
    else if (is_triple(text)) {
        begin(out, of_triple(text), text);
        out->triple = text;
        take_all(out);
    } else
        return CR_FAIL(CR_EVALUE, "there is no target '%s': use multi, native, or a triple such as aarch64-linux-gnu",
                       text);
    return CR_OK;
}

cr_status cr_build_lowering(const char *text, cr_lower_options *out) {
    cr_build b;
    CR_TRY(cr_build_parse(text, &b));
    out->fuse = b.target->fuse;
    return CR_OK;
}
