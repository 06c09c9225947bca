/* amalgam.c: a model as one C file (and a header) that needs nothing of ours: the tables, the row kernels, what they
 * use of the runtime, and small weights as an array.
 *
 * The runtime's files become *pieces* of one translation unit, of which the model's needs remain (prune.h). What each
 * expects of its own unit is arranged by the preprocessor:
 *   - system headers come once, at the top; headers of the runtime with a guard come once, before the file that first
 *     includes them; those without one are templates and come wherever they are included;
 *   - macros of a file are undefined at its end;
 *   - a name of file scope that two files define is defined as NAME__PIECE around each of them;
 *   - what would be a symbol gets the model's name in front, so that two models link into one program.
 * Products use registers of 16 bytes, which every processor has; row kernels as wide ones as the compiler is told to
 * use. */
#define _GNU_SOURCE
#include "emit/prune.h"
#include "emit/sources.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_INSIDE = 4 << 20 };

typedef struct maker {
    const cr_toolchain *tools;
    cr_arena arena;
    cr_map systems, headers; /* what has been taken in: "<math.h>", "runtime/rt.h" */
    CR_VEC(cr_piece) pieces; /* the model is the last */
    cr_map symbols;          /* that they define */
    cr_map names, macros;    /* of headers, in what stays of them */
} maker;

/* ---- taking text in ---- */

static cr_status read_file(const maker *m, const char *name, char **out) {
    char *path = NULL;
    CR_TRY(cr__path_in(m->tools->include, name, &path));
    cr_status status = cr_file_read(path, out, NULL);
    cr_free(path);
    return status;
}

static bool is_guarded(const char *text) {
    for (const char *at = text; (at = strstr(at, "#ifndef CRESSET_")); at++)
        if ((at == text || at[-1] == '\n') && strstr(at, "_H\n") && strcspn(at, "\n") < 64) return true;
    return false;
}

static const char *word_after(const char *line, const char *directive, size_t *n) {
    while (*line == ' ') line++;
    if (*line++ != '#') return NULL;
    while (*line == ' ') line++;
    size_t length = strlen(directive);
    if (strncmp(line, directive, length) || (line[length] != ' ' && line[length] != '\t')) return NULL;
    line += length + strspn(line + length, " \t");
    *n = strcspn(line, " \t\n(");
    return line;
}

static cr_status take_in(maker *m, const char *text, cr_str *out);
static cr_status add_piece(maker *m, const char *file, bool is_header, const char *text);

/* Two words that only files which include <complex.h> may find defined. */
static const char complex_words[] = "#define complex _Complex\n#define I _Complex_I\n";

static cr_status include(maker *m, const char *name, size_t n, cr_str *out) {
    char file[200], *text = NULL;
    if (name[0] == '<') {
        if (!strncmp(name, "<complex.h>", 11)) cr_str_add(out, complex_words);
        return cr_map_put(&m->systems, name, n, 1);
    }
    if (n < 3 || n - 2 >= sizeof file) return CR_OK;
    memcpy(file, name + 1, n - 2);
    file[n - 2] = 0;
    if (cr_map_find_str(&m->headers, file, NULL)) return CR_OK;
    CR_TRY(read_file(m, file, &text));
    cr_status status = is_guarded(text) ? cr_map_put_str(&m->headers, file, 1) : take_in(m, text, out);
    if (!status && is_guarded(text)) status = add_piece(m, file, true, text);
    cr_free(text);
    return status;
}

/* Copies the text with its includes resolved. */
static cr_status take_in(maker *m, const char *text, cr_str *out) {
    for (const char *line = text; *line;) {
        size_t n = strcspn(line, "\n"), word;
        const char *name = word_after(line, "include", &word);
        if (name) CR_TRY(include(m, name, 2 + strcspn(name + 1, "\">\n"), out));
        else if (!(name = word_after(line, "define", &word)) || word != 11 || strncmp(name, "_GNU_SOURCE", 11))
            cr_str_addn(out, line, n + (line[n] == '\n'));
        line += n + (line[n] == '\n');
    }
    return cr_str_status(out);
}

/* What it includes goes before it. file: NULL for the model. */
static cr_status add_piece(maker *m, const char *file, bool is_header, const char *text) {
    cr_piece p = { .is_header = is_header };
    cr_str_init(&p.text);
    cr_map_init(&p.names);
    cr_map_init(&p.macros);
    if (file && !(p.file = cr_arena_strdup(&m->arena, file))) return CR_ENOMEM;
    cr_status status = take_in(m, text, &p.text);
    if (is_header && strstr(cr_str_get(&p.text), complex_words)) cr_str_add(&p.text, "#undef complex\n#undef I\n");
    if (!status) status = cr_str_status(&p.text);
    if (!status) status = cr_vec_push(&m->pieces, p);
    if (status) cr_str_dispose(&p.text);
    return status;
}

static cr_status add_file(maker *m, const char *file) {
    char *text = NULL, name[160];
    snprintf(name, sizeof name, "runtime/%.120s", file);
    CR_TRY(read_file(m, name, &text));
    cr_status status = add_piece(m, file, false, text);
    cr_free(text);
    return status;
}

/* ---- names ---- */

typedef CR_VEC(char *) lines;

static int by_text(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* The map's keys for which `wanted` holds, in order: the same text every time. */
typedef bool wanted_fn(const maker *m, size_t piece, const char *name, size_t n);
static cr_status keys_of(const maker *m, const cr_map *map, wanted_fn *wanted, size_t piece, lines *out) {
    const void *key;
    size_t n;
    uint64_t value;
    for (size_t i = 0; cr_map_next(map, &i, &key, &n, &value);) {
        if (wanted && !wanted(m, piece, key, n)) continue;
        char *copy = cr_strndup(key, n);
        if (!copy) return CR_ENOMEM;
        cr_status status = cr_vec_push(out, copy);
        if (status) cr_free(copy);
        CR_TRY(status);
    }
    if (out->n) qsort(out->at, out->n, sizeof *out->at, by_text);
    return CR_OK;
}

static void lines_dispose(lines *l) {
    for (size_t i = 0; i < l->n; i++) cr_free(l->at[i]);
    cr_vec_dispose(l);
}

static bool is_letter(char c) { return isalnum((unsigned char)c) || c == '_'; }

/* Does the text itself have the word? Else a macro makes it. */
static bool has_word(const cr_str *text, const char *name, size_t n) {
    for (const char *at = text->at, *end = at + text->n; (at = memmem(at, (size_t)(end - at), name, n)); at++)
        if ((at == text->at || !is_letter(at[-1])) && (at + n == end || !is_letter(at[n]))) return true;
    return false;
}

/* Must the file call it otherwise, because a header (the model's case) or another file has that name? Of the files, one
 * may keep it: best one whose macros make it, and make other names of it, which a new definition would not reach. */
static bool is_twice(const maker *m, size_t piece, const char *name, size_t n) {
    size_t keeper = SIZE_MAX, count = 0;
    bool made = false;
    for (size_t i = 0; i < m->pieces.n; i++) {
        const cr_piece *p = &m->pieces.at[i];
        if (p->is_header || !cr_map_find(&p->names, name, n, NULL)) continue;
        if (!count++ || (!made && !has_word(&p->text, name, n))) {
            keeper = i;
            made = !has_word(&p->text, name, n);
        }
    }
    if (piece == m->pieces.n - 1 && cr_map_find(&m->names, name, n, NULL)) return true;
    return count > 1 && piece != keeper;
}

static bool is_left_over(const maker *m, size_t piece, const char *name, size_t n) {
    (void)piece;
    return cr_map_find(&m->macros, name, n, NULL);
}

/* Before and after the text of a file: names that others have, too, macros that headers left, macros of its own. */
static cr_status print_names(const maker *m, size_t piece, bool after, cr_str *out) {
    const cr_piece *p = &m->pieces.at[piece];
    lines twice = { 0 }, macros = { 0 };
    bool model = !p->file;
    cr_status status = keys_of(m, &p->names, is_twice, piece, &twice);
    if (!status && after) status = keys_of(m, &p->macros, NULL, piece, &macros);
    if (!status && !after && model) status = keys_of(m, &p->macros, is_left_over, piece, &macros);
    if (!status && !after && model) status = keys_of(m, &p->names, is_left_over, piece, &macros);
    for (size_t i = 0; i < macros.n && !status; i++) cr_str_addf(out, "#undef %s\n", macros.at[i]);
    for (size_t i = 0; i < twice.n && !status; i++) {
        if (after) cr_str_addf(out, "#undef %s\n", twice.at[i]);
        else cr_str_addf(out, "#define %s %s__%zu\n", twice.at[i], twice.at[i], piece);
    }
    lines_dispose(&twice);
    lines_dispose(&macros);
    return status;
}

static cr_status print_piece(const maker *m, size_t piece, cr_str *out) {
    const cr_piece *p = &m->pieces.at[piece];
    bool own = !p->is_header, fused = own && p->file && cr__source_is_fused(p->file);
    if (!p->text.n) return CR_OK;
    cr_str_addf(out, "\n/* ---- %s ---- */\n", p->file ? p->file : "the model");
    if (fused) cr_str_add(out, "RT_FUSED_BEGIN\n");
    if (own) CR_TRY(print_names(m, piece, false, out));
    cr_str_addn(out, cr_str_get(&p->text), p->text.n);
    if (own) CR_TRY(print_names(m, piece, true, out));
    if (fused) cr_str_add(out, "RT_FUSED_END\n");
    return cr_str_status(out);
}

/* ---- the head of the file ---- */

static const char pragmas[] =
    "#define _GNU_SOURCE\n"
    "#if defined(__clang__)\n"
    "#pragma STDC FP_CONTRACT OFF\n"
    "#pragma clang diagnostic ignored \"-Wpass-failed\" /* loops that are only vectorised at -O2 */\n"
    "#define RT_FUSED_BEGIN _Pragma(\"STDC FP_CONTRACT ON\")\n"
    "#define RT_FUSED_END _Pragma(\"STDC FP_CONTRACT OFF\")\n"
    "#else /* products and sums are fused in matrix products only */\n"
    "#pragma GCC optimize (\"fp-contract=off\", \"no-math-errno\", \"no-trapping-math\")\n"
    "#define RT_FUSED_BEGIN _Pragma(\"GCC push_options\") _Pragma(\"GCC optimize (\\\"fp-contract=fast\\\")\")\n"
    "#define RT_FUSED_END _Pragma(\"GCC pop_options\")\n"
    "#if defined(__SANITIZE_ADDRESS__) /* whose frames the guard moves: wide vectors in them lose their alignment */\n"
    "#pragma GCC optimize (\"no-stack-protector\")\n"
    "#endif\n"
    "#endif\n"
    "#pragma GCC diagnostic ignored \"-Wunused-function\" /* functions and tables come in families */\n"
    "#pragma GCC diagnostic ignored \"-Wunused-const-variable\"\n"
    "#pragma GCC diagnostic ignored \"-Wpsabi\" /* vectors are passed between functions of this file only */\n";

static cr_status print_systems(const maker *m, cr_str *out) {
    lines names = { 0 };
    cr_status status = keys_of(m, &m->systems, NULL, 0, &names);
    for (size_t i = 0; i < names.n && !status; i++) cr_str_addf(out, "#include %s\n", names.at[i]);
    lines_dispose(&names);
    cr_str_add(out, "#undef complex\n#undef I\n");
    for (const cr_target *const *t = cr_targets; *t; t++)
        if ((*t)->isas[1])
            cr_str_addf(out,
                        "#undef %s /* the loops for its instruction sets need flags of their own and are not here */\n",
                        (*t)->macro);
    return status;
}

/* Symbols get the model's name in front. */
static cr_status print_symbols(const maker *m, const char *stem, cr_str *out) {
    lines names = { 0 };
    cr_status status = keys_of(m, &m->symbols, NULL, 0, &names);
    cr_str_addf(out, "#define cresset_model cresset_model_%s\n#define cresset_weights %s_cresset_weights\n", stem,
                stem);
    for (size_t i = 0; i < names.n && !status; i++)
        if (strcmp(names.at[i], "cresset_model"))
            cr_str_addf(out, "#define %s %s_%s\n", names.at[i], stem, names.at[i]);
    lines_dispose(&names);
    return status;
}

/* ---- weights ---- */

static void print_weights(const cr_lowered *l, bool inside, cr_str *out) {
    cr_weights_head head;
    cr__weights_head(l, &head);
    uint64_t bytes = inside ? l->model.weight_bytes : 0, at = 0;
    cr_str_addf(out, "\nconst uint8_t cresset_weights[%llu] __attribute__((aligned(%d))) =\n  ",
                (unsigned long long)(sizeof head + bytes), cr_target_source.memory->alignment);
    cr__c_string(out, (const char *)&head, sizeof head);
    for (size_t i = 0; inside && i < l->nweights; i++) {
        const cr_weight *w = &l->weights[i];
        static const char zeros[64];
        for (; at < w->offset; at += CR_MIN(w->offset - at, (uint64_t)sizeof zeros)) {
            cr_str_add(out, "\n  ");
            cr__c_string(out, zeros, (size_t)CR_MIN(w->offset - at, (uint64_t)sizeof zeros));
        }
        for (uint64_t k = 0; k < w->bytes; k += 64) {
            cr_str_add(out, "\n  ");
            cr__c_string(out, (const char *)w->data + k, (size_t)CR_MIN(w->bytes - k, (uint64_t)64));
        }
        at = w->offset + w->bytes;
    }
    cr_str_add(out, ";\n");
}

/* ---- the files ---- */

/* "libdigits.c" -> "digits"; what no identifier may have becomes '_'. */
void cr__stem(const char *path, char out[64]) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path, *dot = strrchr(name, '.');
    if (!strncmp(name, "lib", 3) && name[3] && name + 3 != dot) name += 3;
    size_t n = dot && dot > name ? (size_t)(dot - name) : strlen(name);
    n = CR_MIN(n, (size_t)60);
    size_t k = 0;
    if (isdigit((unsigned char)*name)) out[k++] = '_';
    for (size_t i = 0; i < n; i++) out[k++] = isalnum((unsigned char)name[i]) ? name[i] : '_';
    out[k] = 0;
}

cr_status cr__print_c_header(const cr_toolchain *t, const char *stem, cr_str *out) {
    char *path = NULL, *abi = NULL;
    CR_TRY(cr__path_in(t->include, "cresset/abi.h", &path));
    cr_status status = cr_file_read(path, &abi, NULL);
    cr_free(path);
    CR_TRY(status);
    cr_str_addf(out,
                "/* The model %s: cresset_model_%s stands for cresset_model below. */\n%s\n#ifdef __cplusplus\nextern "
                "\"C\"\n#endif\nconst cresset_api *cresset_model_%s(uint32_t major);\n",
                stem, stem, abi, stem);
    cr_free(abi);
    return cr_str_status(out);
}

static cr_status add_all(const cr_map *from, cr_map *to) {
    const void *key;
    size_t n;
    uint64_t value;
    for (size_t i = 0; cr_map_next(from, &i, &key, &n, &value);) CR_TRY(cr_map_put(to, key, n, 1));
    return CR_OK;
}

/* The pieces, and what stays of them. */
static cr_status gather(maker *m, const cr_sources *s, const cr_str *model) {
    for (size_t i = 0; i < s->files.n; i++) CR_TRY(add_file(m, s->files.at[i]));
    CR_TRY(add_piece(m, NULL, false, cr_str_get(model)));
    CR_TRY(cr__prune(m->pieces.at, m->pieces.n, "cresset_model", &m->symbols));
    for (size_t i = 0; i < m->pieces.n; i++) {
        if (!m->pieces.at[i].is_header) continue;
        CR_TRY(add_all(&m->pieces.at[i].names, &m->names));
        CR_TRY(add_all(&m->pieces.at[i].macros, &m->macros));
    }
    return CR_OK;
}

static cr_status print_all(const maker *m, const char *stem, const cr_lowered *l, bool inside, cr_str *out) {
    cr_str_addf(out,
                "/* %s: a model that `cresset compile` made, with what it uses of the runtime. Build: cc -O2 %s.c -c; "
                "link "
                "with -lm -lpthread.\n * How to call it: %s.h. */\n",
                stem, stem, stem);
    cr_str_add(out, pragmas);
    CR_TRY(print_systems(m, out));
    CR_TRY(print_symbols(m, stem, out));
    cr_str_add(out, "struct cresset_api;\n__attribute__((visibility(\"default\"))) const struct cresset_api "
                    "*cresset_model(uint32_t major);\n#pragma GCC visibility push(hidden)\n");
    for (size_t i = 0; i < m->pieces.n; i++) CR_TRY(print_piece(m, i, out));
    print_weights(l, inside, out);
    cr_str_add(out, "#pragma GCC visibility pop\n");
    return cr_str_status(out);
}

static void maker_init(maker *m, const cr_toolchain *t) {
    *m = (maker){ .tools = t };
    cr_arena_init(&m->arena);
    cr_map *const maps[] = { &m->systems, &m->headers, &m->symbols, &m->names, &m->macros };
    for (size_t i = 0; i < CR_COUNT(maps); i++) cr_map_init(maps[i]);
}

static void maker_dispose(maker *m) {
    cr_map *const maps[] = { &m->systems, &m->headers, &m->symbols, &m->names, &m->macros };
    for (size_t i = 0; i < CR_COUNT(maps); i++) cr_map_dispose(maps[i]);
    for (size_t i = 0; i < m->pieces.n; i++) {
        cr_str_dispose(&m->pieces.at[i].text);
        cr_map_dispose(&m->pieces.at[i].names);
        cr_map_dispose(&m->pieces.at[i].macros);
    }
    cr_vec_dispose(&m->pieces);
    cr_arena_dispose(&m->arena);
}

static cr_status print_source(const cr_toolchain *t, const cr_lowered *l, const cr_emit_options *o, const char *stem,
                              bool inside, cr_str *out) {
    cr_build build;
    cr_sources sources = { 0 };
    cr_str model;
    cr_emit_options options = *o;
    maker m;
    options.weights = inside ? CR_WEIGHTS_INSIDE : CR_WEIGHTS_BESIDE;
    cr_build_source(&build);
    cr_str_init(&model);
    maker_init(&m, t);
    cr_status status = cr_emit_c(l, &options, &build, &model, NULL);
    if (!status) status = cr__sources_find(t, cr_str_get(&model), build.target, &sources);
    if (!status) status = gather(&m, &sources, &model);
    if (!status) status = print_all(&m, stem, l, inside, out);
    cr__sources_dispose(&sources);
    cr_str_dispose(&model);
    maker_dispose(&m);
    return status;
}

static cr_status start_file(const char *path, const cr_str *text, cr_file_writer **out) {
    CR_TRY(cr_file_writer_create(path, out));
    cr_file_writer_hurry(*out);
    return cr_file_writer_write(*out, cr_str_get(text), text->n);
}

static cr_status finish_file(cr_file_writer **w) {
    cr_file_writer *it = *w;
    *w = NULL;
    return it ? cr_file_writer_finish(it) : CR_OK;
}

cr_status cr_emit_source(const cr_lowered *l, const char *path, const cr_emit_options *o) {
    cr_toolchain tools = { 0 };
    cr_str text, header;
    cr_file_writer *files[3] = { NULL };
    cr_weights_head head;
    char stem[64], *beside = NULL;
    bool inside = o->weights == CR_WEIGHTS_INSIDE && l->model.weight_bytes <= MOST_INSIDE;
    if (o->target && *o->target && strcmp(o->target, "multi"))
        return CR_FAIL(CR_EVALUE, "C source is for every target: leave --target away, and give the flags to the "
                                  "compiler that compiles it");
    cr__stem(path, stem);
    cr_str_init(&text);
    cr_str_init(&header);
    cr_status status = cr_toolchain_home(&tools.home);
    if (!status) status = cr__path_in(tools.home, "src", &tools.include);
    if (!status) status = print_source(&tools, l, o, stem, inside, &text);
    if (!status) status = cr__print_c_header(&tools, stem, &header);
    if (!status) status = cr__path_beside(path, ".h", &beside);
    cr__weights_head(l, &head);
    if (!status && !inside && l->model.weight_bytes) status = cr__weights_beside(l, path, &head, &files[0]);
    if (!status) status = start_file(beside, &header, &files[1]);
    if (!status) status = start_file(path, &text, &files[2]);
    for (int i = 0; i < 3 && !status; i++) status = finish_file(&files[i]);
    for (int i = 0; i < 3; i++) cr_file_writer_abandon(files[i]);
    cr_free(beside);
    cr_str_dispose(&text);
    cr_str_dispose(&header);
    cr_toolchain_close(&tools);
    return status;
}
