/* library.c: tables, runtime and weights in one shared library.
 *
 * The compiler and the linker make a *skeleton*: everything but the weights, with room for 64 bytes (cr_weights_head)
 * where they will be. It depends on the program alone, not on the values of its weights, so that a model trained
 * further finds it in the cache. The result is the skeleton with those 64 bytes filled in and, inside, the section made
 * longer (elf.h). A linker that lays the section out differently gets the weights through the assembler instead,
 * slowly. */
#include "emit/cache.h"
#include "emit/elf.h"
#include "emit/emit.h"

#include <stdio.h>
#include <stdlib.h>

/* Part of every key: raise it when the same text would become another library. */
static const char version[] = "1";

/* What the compiler is given. */
typedef struct source {
    cr_str tables, kernels;
    const cr_build *build;
} source;
typedef struct skeleton { uint8_t *bytes; size_t size; } skeleton;

/* ---- compiling ---- */

static const char exports[] = "{ global: cresset_model; local: *; };\n";

/* The arguments of one run of the compiler. */
typedef CR_VEC(const char *) words;

static cr_status add_words(words *w, const char *const *at, size_t n) {
    for (size_t i = 0; i < n; i++) CR_TRY(cr_vec_push(w, at[i]));
    return CR_OK;
}

/* A list that ends with NULL. */
static cr_status add_list(words *w, const char *const *at) {
    while (*at) CR_TRY(cr_vec_push(w, *at++));
    return CR_OK;
}

/* What compiles one object; `isa`: row kernels for that instruction set, whose name is part of theirs. */
static cr_status compile_words(const cr_toolchain *t, const cr_language *language, const char *text, const cr_isa *isa,
                               const char *object, cr_str *suffix, words *w) {
    const char *const rest[] = { "-I", t->include, "-c", text, "-o", object };
    CR_TRY(cr_vec_push(w, t->cc));
    CR_TRY(add_list(w, language->flags));
    if (isa) {
        cr_str_addf(suffix, "-DCR_ROWS(name)=name##_%s", isa->name);
        CR_TRY(cr_str_status(suffix));
        CR_TRY(add_list(w, language->kernel_flags));
        CR_TRY(add_list(w, isa->flags));
        CR_TRY(cr_vec_push(w, cr_str_get(suffix)));
    }
    CR_TRY(add_words(w, rest, CR_COUNT(rest)));
    return cr_vec_push(w, NULL);
}

enum { MAX_OBJECTS = CR_MOST_ISAS + 1 };
/* The tables, and the kernels once for each instruction set: as many compilers at once as there are processors. */
static cr_status compile_objects(const cr_toolchain *t, const source *s, cr_workshop *shop, const char **objects,
                                 int *n) {
    const cr_language *language = s->build->target->language;
    const char *tables = NULL, *kernels = NULL;
    words w[MAX_OBJECTS] = { { 0 } };
    cr_str suffix[MAX_OBJECTS];
    const char *const *argvs[MAX_OBJECTS];
    char unit[32];
    cr_status status = CR_OK;
    snprintf(unit, sizeof unit, "kernels%s", language->suffix);
    for (int i = 0; i < MAX_OBJECTS; i++) cr_str_init(&suffix[i]);
    *n = s->kernels.n ? 1 + s->build->nisas : 1;
    CR_TRY_OUT(cr__workshop_write(shop, "model.c", cr_str_get(&s->tables), s->tables.n, &tables));
    if (s->kernels.n) CR_TRY_OUT(cr__workshop_write(shop, unit, cr_str_get(&s->kernels), s->kernels.n, &kernels));
    for (int i = 0; i < *n; i++) { /* the widest first: it takes longest */
        const cr_isa *isa = i < *n - 1 ? s->build->isas[*n - 2 - i] : NULL;
        char name[32];
        snprintf(name, sizeof name, "%s.o", isa ? isa->name : "model");
        CR_TRY_OUT(cr__workshop_file(shop, name, &objects[i]));
        CR_TRY_OUT(compile_words(t, language, isa ? kernels : tables, isa, objects[i], &suffix[i], &w[i]));
        argvs[i] = w[i].at;
    }
    CR_TRY_OUT(cr_toolchain_run_all(argvs, (size_t)*n));
out:
    for (int i = 0; i < MAX_OBJECTS; i++) {
        cr_vec_dispose(&w[i]);
        cr_str_dispose(&suffix[i]);
    }
    return status;
}

/* The objects of the model, then the runtime: its archive, or what was compiled of it for another processor. */
static cr_status gather(const cr_toolchain *t, const source *s, cr_workshop *shop, words *out) {
    const char *own[MAX_OBJECTS], **runtime = NULL;
    size_t nruntime = 0;
    int n = 0;
    CR_TRY(compile_objects(t, s, shop, own, &n));
    CR_TRY(add_words(out, own, (size_t)n));
    if (!s->build->triple) return cr_vec_push(out, t->archive);
    CR_TRY(cr__build_runtime(t, s->build, cr_str_get(&s->tables), shop, &runtime, &nruntime));
    cr_status status = add_words(out, runtime, nruntime);
    cr_free(runtime);
    return status;
}

/* `weights`: the assembler's text that holds them, or NULL: their section gets a segment to be grown. */
static cr_status link_library(const cr_toolchain *t, const source *s, const words *objects, const char *weights,
                              const char *script, const char *library) {
    words w = { 0 };
    cr_str place, versions;
    cr_str_init(&place);
    cr_str_init(&versions);
    cr_str_addf(&place, "-Wl,--section-start=%s=0x%x", s->build->target->memory->section, CR_ELF_WEIGHTS_AT);
    cr_str_addf(&versions, "-Wl,--version-script=%s", script);
    const char *const rest[] = { "-o", library, cr_str_get(&versions), weights ? weights : cr_str_get(&place) };
    cr_status status = cr_str_status(&place);
    if (!status) status = cr_str_status(&versions);
    if (!status) status = cr_vec_push(&w, t->cc);
    if (!status) status = add_words(&w, objects->at, objects->n);
    if (!status) status = add_words(&w, rest, CR_COUNT(rest));
    if (!status) status = add_list(&w, s->build->target->language->link_flags);
    if (!status) status = cr_vec_push(&w, NULL);
    if (!status) status = cr_toolchain_run(w.at);
    cr_vec_dispose(&w);
    cr_str_dispose(&place);
    cr_str_dispose(&versions);
    return status;
}

static cr_status build(const cr_toolchain *t, const source *s, const char *assembly, cr_workshop *shop,
                       const char **library) {
    const char *script = NULL;
    words objects = { 0 };
    CR_TRY(cr__workshop_write(shop, "exports", exports, sizeof exports - 1, &script));
    CR_TRY(cr__workshop_file(shop, "model.so", library));
    cr_status status = gather(t, s, shop, &objects);
    if (!status) status = link_library(t, s, &objects, assembly, script, *library);
    cr_vec_dispose(&objects);
    return status;
}

/* The words that row kernels are written in are part of what they say. */
static cr_status add_words_of_kernels(cr_key *key, const cr_toolchain *t, const cr_language *language) {
    char *path = NULL;
    CR_TRY(cr__path_in(t->include, language->vocabulary, &path));
    cr_key_file(key, path);
    cr_free(path);
    return CR_OK;
}

static cr_status skeleton_key(cr_key *key, const cr_toolchain *t, const source *s) {
    cr_key_init(key);
    cr_key_text(key, version);
    cr_key_text(key, s->build->name);
    const cr_language *language = s->build->target->language;
    const char *const *const lists[] = { language->flags, language->kernel_flags, language->link_flags };
    for (size_t i = 0; i < CR_COUNT(lists); i++)
        for (const char *const *at = lists[i]; *at; at++) cr_key_text(key, *at);
    cr_key_file(key, t->cc);
    cr_key_file(key, t->archive);
    cr_key_add(key, cr_str_get(&s->tables), s->tables.n);
    cr_key_add(key, cr_str_get(&s->kernels), s->kernels.n);
    if (s->kernels.n) CR_TRY(add_words_of_kernels(key, t, language));
    cr_key_end(key);
    return CR_OK;
}

static cr_status make_skeleton(const cr_toolchain *t, const source *s, skeleton *out) {
    cr_key key;
    cr_workshop shop;
    const char *library = NULL;
    CR_TRY(skeleton_key(&key, t, s));
    if (cr_cache_get(&key, &out->bytes, &out->size)) return CR_OK;
    CR_TRY(cr__workshop_open(&shop));
    cr_status status = build(t, s, NULL, &shop, &library);
    if (!status) status = cr_file_read(library, (char **)&out->bytes, &out->size);
    cr__workshop_close(&shop);
    if (!status) cr_cache_put(&key, out->bytes, out->size);
    return status;
}

/* ---- putting together ---- */

static cr_status write_grown(const cr_lowered *l, skeleton *s, const cr_elf_spot *spot, const cr_weights_head *head,
                             cr_file_writer *w) {
    static const char zeros[CR_ELF_MOST_ALIGNMENT];
    uint64_t offset = (s->size + spot->alignment - 1) / spot->alignment * spot->alignment;
    cr_elf_grow(s->bytes, spot, offset, sizeof *head + l->model.weight_bytes);
    CR_TRY(cr_file_writer_write(w, s->bytes, s->size));
    CR_TRY(cr_file_writer_write(w, zeros, (size_t)(offset - s->size)));
    CR_TRY(cr_file_writer_write(w, head, sizeof *head));
    return cr__weights_write(l, w);
}

static cr_status write_assembly(const cr_lowered *l, const cr_space *memory, const cr_weights_head *head,
                                cr_workshop *shop, const char **assembly) {
    const char *bytes = NULL;
    cr_file_writer *w = NULL;
    CR_TRY(cr__workshop_file(shop, "weights.bin", &bytes));
    CR_TRY(cr_file_writer_create(bytes, &w));
    cr_file_writer_hurry(w);
    cr_status status = cr_file_writer_write(w, head, sizeof *head);
    if (!status) status = cr__weights_write(l, w);
    if (status) cr_file_writer_abandon(w);
    else status = cr_file_writer_finish(w);
    CR_TRY(status);
    cr_str text;
    cr_str_init(&text);
    cr_str_addf(&text,
                ".section %s,\"a\",%%progbits\n.balign %d\n.globl cresset_weights\n.hidden cresset_weights\n"
                "cresset_weights:\n.incbin ",
                memory->section, memory->alignment);
    cr__c_string(&text, bytes, strlen(bytes));
    cr_str_add(&text, "\n.section .note.GNU-stack,\"\",%progbits\n");
    status = cr_str_status(&text);
    if (!status) status = cr__workshop_write(shop, "weights.S", cr_str_get(&text), text.n, assembly);
    cr_str_dispose(&text);
    return status;
}

static cr_status print_text(const cr_lowered *l, const cr_emit_options *o, source *s) {
    cr_str *out = &s->tables;
    CR_TRY(cr_emit_c(l, o, s->build, out, &s->kernels));
    const cr_space *memory = s->build->target->memory;
    cr_str_addf(out,
                "__attribute__((weak, visibility(\"hidden\"), section(\"%s\"), aligned(%d))) const "
                "uint8_t cresset_weights[64] = \"filled in later\";\n",
                memory->section, memory->alignment);
    return cr_str_status(out);
}

/* Links once more, with the weights in place of the 64 bytes (which the tables declare weak). */
static cr_status write_linked(const cr_lowered *l, const cr_toolchain *t, const source *s, const cr_weights_head *head,
                              cr_file_writer *w) {
    cr_workshop shop;
    const char *assembly = NULL, *library = NULL;
    cr_mapping file = { 0 };
    CR_TRY(cr__workshop_open(&shop));
    cr_status status = write_assembly(l, s->build->target->memory, head, &shop, &assembly);
    if (!status) status = build(t, s, assembly, &shop, &library);
    if (!status) status = cr_mapping_open(&file, library);
    if (!status) status = cr_file_writer_write(w, file.data, file.size);
    cr_mapping_close(&file);
    cr__workshop_close(&shop);
    return status;
}

/* CRESSET_LINKED_WEIGHTS=1: as with a linker that we do not know. */
static bool grows(const skeleton *s, cr_elf_spot *spot) {
    const char *linked = getenv("CRESSET_LINKED_WEIGHTS");
    return !(linked && *linked == '1') && cr_elf_find(s->bytes, s->size, spot);
}

static cr_status write_library(const cr_lowered *l, const cr_toolchain *t, const source *text, skeleton *s, bool inside,
                               const cr_weights_head *head, cr_file_writer *w) {
    cr_elf_spot spot;
    if (inside && grows(s, &spot)) return write_grown(l, s, &spot, head, w);
    if (inside) return write_linked(l, t, text, head, w);
    if (!cr_elf_find_section(s->bytes, s->size, &spot) || spot.size < sizeof *head)
        return CR_FAIL(CR_ETOOLCHAIN,
                       "the linker of %s lost the section .cresset.weights; name another compiler with --cc", t->cc);
    memcpy(s->bytes + spot.bytes, head, sizeof *head);
    return cr_file_writer_write(w, s->bytes, s->size);
}

/* Both files are complete before either has its name; the weights go first: a library that is there finds them. */
static cr_status write_files(const cr_lowered *l, const cr_toolchain *t, const source *text, skeleton *s,
                             const char *path, cr_weights_place place) {
    cr_weights_head head;
    cr_file_writer *library = NULL, *weights = NULL;
    bool some = l->model.weight_bytes, apart = some && place == CR_WEIGHTS_BESIDE;
    cr__weights_head(l, &head);
    cr_status status = cr_file_writer_create(path, &library);
    if (!status) cr_file_writer_hurry(library);
    if (!status && apart) status = cr__weights_beside(l, path, &head, &weights);
    if (!status) status = write_library(l, t, text, s, some && !apart, &head, library);
    if (!status && weights) {
        status = cr_file_writer_finish(weights);
        weights = NULL;
    }
    if (!status) return cr_file_writer_finish(library);
    cr_file_writer_abandon(library);
    cr_file_writer_abandon(weights);
    return status;
}

/* ---- static archives ---- */

/* The compiler's companion: TRIPLE-ar beside TRIPLE-gcc, else along the PATH. */
static cr_status find_tool(const char *triple, const char *name, char **out) {
    cr_str text;
    cr_str_init(&text);
    cr_str_addf(&text, "%s%s%s", triple ? triple : "", triple ? "-" : "", name);
    cr_status status = cr_str_status(&text);
    if (!status) status = cr_toolchain_program(cr_str_get(&text), out);
    if (!status && !*out)
        status = CR_FAIL(CR_ETOOLCHAIN, "%s is not on the PATH; a static archive needs it (Debian: binutils)",
                         cr_str_get(&text));
    cr_str_dispose(&text);
    return status;
}

/* One object with everything, of which only the entry is visible. */
static cr_status merge(const cr_toolchain *t, const source *s, const char *entry, const char *assembly,
                       cr_workshop *shop, const char **out) {
    words objects = { 0 }, w = { 0 };
    char *objcopy = NULL;
    const char *whole = NULL;
    cr_str root, keep;
    cr_str_init(&root);
    cr_str_init(&keep);
    cr_status status = CR_OK;
    cr_str_addf(&root, "-Wl,-u,%s,-e,%s", entry, entry);
    cr_str_addf(&keep, "--keep-global-symbol=%s", entry);
    CR_TRY_OUT(cr_str_status(&root));
    CR_TRY_OUT(cr_str_status(&keep));
    CR_TRY_OUT(find_tool(s->build->triple, "objcopy", &objcopy));
    CR_TRY_OUT(cr__workshop_file(shop, "whole.o", &whole));
    CR_TRY_OUT(cr__workshop_file(shop, "model_only.o", out));
    CR_TRY_OUT(gather(t, s, shop, &objects));
    const char *const first[] = { t->cc, "-nostdlib", "-r", "-Wl,--gc-sections", cr_str_get(&root), "-o", whole };
    CR_TRY_OUT(add_words(&w, first, CR_COUNT(first)));
    CR_TRY_OUT(add_words(&w, objects.at, objects.n));
    if (assembly) CR_TRY_OUT(cr_vec_push(&w, assembly));
    CR_TRY_OUT(cr_vec_push(&w, NULL));
    CR_TRY_OUT(cr_toolchain_run(w.at));
    const char *const hide[] = { objcopy, cr_str_get(&keep), whole, *out, NULL };
    CR_TRY_OUT(cr_toolchain_run(hide));
out:
    cr_vec_dispose(&objects);
    cr_vec_dispose(&w);
    cr_str_dispose(&root);
    cr_str_dispose(&keep);
    cr_free(objcopy);
    return status;
}

/* Copies a finished file, with the head of the weights in place of `mark` when they are elsewhere. */
static cr_status copy_archive(const char *from, const cr_weights_head *head, cr_file_writer *w) {
    static const char mark[] = "filled in later";
    char *bytes = NULL;
    size_t size = 0;
    CR_TRY(cr_file_read(from, &bytes, &size));
    for (size_t i = 0; head && i + sizeof *head <= size; i++)
        if (bytes[i] == 'f' && !memcmp(bytes + i, mark, sizeof mark)) memcpy(bytes + i, head, sizeof *head);
    cr_status status = cr_file_writer_write(w, bytes, size);
    cr_free(bytes);
    return status;
}

static cr_status build_archive(const cr_lowered *l, const cr_toolchain *t, const source *s, const char *entry,
                               const cr_weights_head *head, bool inside, cr_file_writer *w) {
    cr_workshop shop;
    const char *assembly = NULL, *object = NULL, *archive = NULL;
    char *ar = NULL;
    CR_TRY(cr__workshop_open(&shop));
    cr_status status = find_tool(s->build->triple, "ar", &ar);
    if (!status && inside) status = write_assembly(l, s->build->target->memory, head, &shop, &assembly);
    if (!status) status = merge(t, s, entry, assembly, &shop, &object);
    if (!status) status = cr__workshop_file(&shop, "model.a", &archive);
    const char *const words[] = { ar, "rcsD", archive, object, NULL };
    if (!status) status = cr_toolchain_run(words);
    if (!status) status = copy_archive(archive, inside ? NULL : head, w);
    cr_free(ar);
    cr__workshop_close(&shop);
    return status;
}

cr_status cr_emit_archive(const cr_lowered *l, const char *path, const cr_emit_options *o) {
    cr_build made;
    cr_toolchain tools;
    cr_weights_head head;
    cr_file_writer *files[3] = { NULL }; /* weights, header, archive */
    char stem[64], entry[96], *beside = NULL;
    source s = { .build = &made };
    cr_str header;
    CR_TRY(cr_build_parse(o->target, &made));
    CR_TRY(cr_toolchain_open(o->cc, &made, &tools));
    cr__stem(path, stem);
    snprintf(entry, sizeof entry, "cresset_model_%s", stem);
    bool some = l->model.weight_bytes, apart = some && o->weights == CR_WEIGHTS_BESIDE;
    cr__weights_head(l, &head);
    cr_str_init(&header);
    cr_str_init(&s.tables);
    cr_str_init(&s.kernels);
    cr_str_addf(&s.tables, "#define cresset_model %s\n", entry);
    cr_status status = print_text(l, o, &s);
    if (!status) status = cr__print_c_header(&tools, stem, &header);
    if (!status) status = cr__path_beside(path, ".h", &beside);
    if (!status && apart) status = cr__weights_beside(l, path, &head, &files[0]);
    if (!status) status = cr_file_writer_create(beside, &files[1]);
    if (!status) status = cr_file_writer_write(files[1], cr_str_get(&header), header.n);
    if (!status) status = cr_file_writer_create(path, &files[2]);
    for (int i = 0; i < 3 && !status; i++)
        if (files[i]) cr_file_writer_hurry(files[i]);
    if (!status) status = build_archive(l, &tools, &s, entry, &head, some && !apart, files[2]);
    for (int i = 0; i < 3; i++) {
        if (files[i] && !status) status = cr_file_writer_finish(files[i]);
        else cr_file_writer_abandon(files[i]);
    }
    cr_free(beside);
    cr_str_dispose(&header);
    cr_str_dispose(&s.tables);
    cr_str_dispose(&s.kernels);
    cr_toolchain_close(&tools);
    return status;
}

cr_status cr_emit_library(const cr_lowered *l, const char *path, const cr_emit_options *o) {
    cr_build made;
    cr_toolchain tools;
    skeleton s = { 0 };
    source text = { .build = &made };
    CR_TRY(cr_build_parse(o->target, &made));
    CR_TRY(cr_toolchain_open(o->cc, &made, &tools));
    cr_str_init(&text.tables);
    cr_str_init(&text.kernels);
    cr_status status = print_text(l, o, &text);
    if (!status) status = make_skeleton(&tools, &text, &s);
    if (!status) status = write_files(l, &tools, &text, &s, path, o->weights);
    cr_free(s.bytes);
    cr_str_dispose(&text.tables);
    cr_str_dispose(&text.kernels);
    cr_toolchain_close(&tools);
    return status;
}
