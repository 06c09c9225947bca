/* amalgam.c: a model as one C file (and a header) that needs nothing of ours: the tables, the row kernels, the files of
 * the runtime that they need, and small weights as an array.
 *
 * The files become *parts* of one translation unit. What each expects of its own unit is arranged by the preprocessor:
 *   - system headers come once, at the top; headers of the runtime with a guard come once, before the part that first
 *     includes them; those without one are templates and come wherever they are included;
 *   - macros of a part are undefined at its end;
 *   - a name of file scope that two parts define is defined as NAME__PART around each of them: those that the text
 *     shows, and those that macros make, which the index knows from the compiler;
 *   - what would be a symbol gets the model's name in front, so that two models link into one program.
 * Products use registers of 16 bytes, which every processor has; row kernels as wide ones as the compiler is told to
 * use. */
#include "emit/sources.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_INSIDE = 4 << 20 };

typedef struct part { const char *file; cr_str text; cr_map names, macros; } part; /* names: of file scope */
typedef struct maker {
    const cr_toolchain *tools;
    cr_map systems, headers;  /* what has been taken in: "<math.h>", "runtime/rt.h" */
    cr_str shared;            /* text of guarded headers that the next part needs first */
    cr_map words;             /* all words of such headers */
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
    cr_status status = CR_OK;
    if (!is_guarded(text)) status = take_in(m, text, out);
    else {
        cr_str body;
        cr_str_init(&body);
        status = cr_map_put_str(&m->headers, file, 1);
        if (!status) status = take_in(m, text, &body); /* what it includes goes before it */
        if (!status) cr_str_addf(&m->shared, "\n/* ---- %s ---- */\n", file);
        if (!status) cr_str_addn(&m->shared, cr_str_get(&body), body.n);
        if (!status && strstr(cr_str_get(&body), complex_words)) cr_str_add(&m->shared, "#undef complex\n#undef I\n");
        cr_str_dispose(&body);
    }
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

/* ---- names of file scope ---- */

/* A reader of tokens: words and single characters; comments, literals and directives are passed over. */
typedef struct reader { const char *at; char word[96]; char sign; part *p; } reader;

static const char *skip_directive(const char *at) {
    while (*at && *at != '\n') at += at[0] == '\\' && at[1] ? 2 : 1;
    return at;
}

static cr_status next_token(reader *r) {
    for (;;) {
        const char *a = r->at;
        size_t n = 0;
        if (*a == '#') { /* only ever the beginning of a line: inside expressions it stands in directives */
            const char *name = word_after(a, "define", &n);
            r->at = skip_directive(a);
            if (name) CR_TRY(cr_map_put(&r->p->macros, name, n, 1));
        } else if (a[0] == '/' && a[1] == '*') {
            const char *end = strstr(a + 2, "*/");
            r->at = end ? end + 2 : a + strlen(a);
        } else if (a[0] == '/' && a[1] == '/') r->at = a + strcspn(a, "\n");
        else if (*a == '"' || *a == '\'') {
            for (r->at = a + 1; *r->at && *r->at != *a; r->at++)
                if (*r->at == '\\' && r->at[1]) r->at++;
            if (*r->at) r->at++;
            r->word[0] = 0, r->sign = '"';
            return CR_OK;
        } else if (isspace((unsigned char)*a)) r->at++;
        else {
            for (n = 0; isalnum((unsigned char)a[n]) || a[n] == '_'; n++) {
            }
            snprintf(r->word, sizeof r->word, "%.*s", (int)(n < sizeof r->word ? n : 0), a);
            r->sign = n ? 'w' : *a;
            r->at = n ? a + n : *a ? a + 1 : a;
            return CR_OK;
        }
    }
}

static cr_status note(part *p, const char *name) {
    return *name && !isdigit((unsigned char)*name) ? cr_map_put_str(&p->names, name, 1) : CR_OK;
}

/* Passes over a bracketed stretch whose opening has been read; of an enum the names in it are noted. */
static cr_status pass_over(reader *r, char open, char shut, bool is_enum) {
    int depth = 1;
    bool first = is_enum;
    while (depth) {
        CR_TRY(next_token(r));
        if (!r->sign) return CR_OK;
        if (r->sign == 'w' && first && depth == 1) CR_TRY(note(r->p, r->word));
        first = is_enum && r->sign == ',' && depth == 1;
        if (r->sign == open || (is_enum && r->sign == '(')) depth++;
        if (r->sign == shut || (is_enum && r->sign == ')')) depth--;
    }
    return CR_OK;
}

/* One declaration or definition of file scope: tags, enumerators, and what `static` or `typedef` declares. */
static cr_status declaration(reader *r, bool *more) {
    bool own = false, is_type = false, done = false, value = false;
    char last[96] = "", before[96] = "";
    for (*more = true;;) {
        CR_TRY(next_token(r));
        if (!r->sign) return *more = false, CR_OK;
        if (r->sign == 'w') {
            if (!strcmp(r->word, "static") || !strcmp(r->word, "INLINE")) own = true;
            if (!strcmp(r->word, "typedef")) own = is_type = true;
            memcpy(before, last, sizeof before);
            memcpy(last, r->word, sizeof last);
            continue;
        }
        bool attribute = !strcmp(last, "__attribute__") || !strcmp(last, "_Alignas") || !strcmp(last, "_Static_assert");
        if (r->sign == '(') {
            /* a function, or a typedef of one; a pointer to one has its name inside */
            if (own && !done && !value && !attribute && *last) {
                const char *inner = r->at;
                while (isspace((unsigned char)*inner)) inner++;
                if (*inner == '*') {
                    CR_TRY(next_token(r));
                    CR_TRY(next_token(r));
                    memcpy(last, r->word, sizeof last);
                }
                CR_TRY(note(r->p, last));
                done = true;
            }
            CR_TRY(pass_over(r, '(', ')', false));
            if (attribute) memcpy(last, before, sizeof last);
        } else if (r->sign == '{') {
            bool is_enum = !strcmp(last, "enum") || !strcmp(before, "enum"),
                 tagged = !strcmp(before, "struct") || !strcmp(before, "union") || !strcmp(before, "enum");
            bool aggregate = is_enum || tagged || !strcmp(last, "struct") || !strcmp(last, "union");
            if (tagged && !done && !value) CR_TRY(note(r->p, last));
            CR_TRY(pass_over(r, '{', '}', is_enum && !value));
            *last = *before = 0;
            if (!aggregate && !value) return CR_OK; /* a function's body */
        } else if (r->sign == '[' || r->sign == '=' || r->sign == ',' || r->sign == ';') {
            if (own && !done && !value && *last && (!is_type || r->sign != '=')) CR_TRY(note(r->p, last));
            if (r->sign == '[') {
                CR_TRY(pass_over(r, '[', ']', false));
                done = true;
            }
            if (r->sign == '=') value = true;
            if (r->sign == ',') done = value = false;
            if (r->sign == ';') return CR_OK;
            if (r->sign == ']' || r->sign == '[') *last = 0;
        }
    }
}

static cr_status find_names(part *p) {
    reader r = { .at = cr_str_get(&p->text), .p = p };
    for (bool more = true; more;) CR_TRY(declaration(&r, &more));
    return CR_OK;
}

/* ---- parts ---- */

static cr_status make_part(maker *m, part *p, const char *text, cr_str *out_shared) {
    m->shared.n = 0;
    CR_TRY(take_in(m, text, &p->text));
    cr_str_addn(out_shared, cr_str_get(&m->shared), m->shared.n);
    CR_TRY(cr_str_status(out_shared));
    CR_TRY(cr__words_of(cr_str_get(out_shared), &m->words));
    return find_names(p);
}

/* Names that macros make: static symbols of the file that no header has. */
static cr_status add_statics(const maker *m, const cr_sources *s, part *p) {
    for (size_t i = 0; p->file && i < s->statics.n; i++)
        if (!strcmp(s->statics.at[i].file, p->file) && !cr_map_find_str(&m->words, s->statics.at[i].name, NULL))
            CR_TRY(note(p, s->statics.at[i].name));
    return CR_OK;
}

static bool is_shared(const part *parts, size_t n, size_t self, const char *name, size_t length) {
    for (size_t i = 0; i < n; i++)
        if (i != self && cr_map_find(&parts[i].names, name, length, NULL)) return true;
    return false;
}

static int by_text(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* "#define NAME NAME__3" for every name that another part has, too; `undefine`: the end of that, and of the part's
 * macros. */
static cr_status print_names(const part *parts, size_t n, size_t self, const cr_map *words, bool undefine,
                             cr_str *out) {
    CR_VEC(char *) lines = { 0 };
    const void *key;
    size_t length;
    uint64_t value;
    cr_status status = CR_OK;
    for (int which = 0; which < 2 && !status; which++) {
        const cr_map *map = which ? &parts[self].macros : &parts[self].names;
        if (which && !undefine) break;
        for (size_t i = 0; !status && cr_map_next(map, &i, &key, &length, &value);) {
            char line[260];
            bool model = !parts[self].file; /* of which all names are, but those that fields have, too */
            if (!which && (model ? cr_map_find(words, key, length, NULL) : !is_shared(parts, n, self, key, length)))
                continue;
            if (undefine) snprintf(line, sizeof line, "#undef %.*s\n", (int)length, (const char *)key);
            else
                snprintf(line, sizeof line, "#define %.*s %.*s__%zu\n", (int)length, (const char *)key, (int)length,
                         (const char *)key, self);
            char *copy = cr_strdup(line);
            status = copy ? cr_vec_push(&lines, copy) : CR_ENOMEM;
            if (status) cr_free(copy);
        }
    }
    if (lines.n) qsort(lines.at, lines.n, sizeof *lines.at, by_text); /* the same text every time */
    for (size_t i = 0; i < lines.n; i++) {
        if (!i || strcmp(lines.at[i], lines.at[i - 1])) cr_str_add(out, lines.at[i]);
    }
    for (size_t i = 0; i < lines.n; i++) cr_free(lines.at[i]);
    cr_vec_dispose(&lines);
    return status;
}

static void print_part(const part *parts, size_t n, size_t self, const cr_map *words, cr_str *out, cr_status *status) {
    const char *flags[CR_SOURCE_FLAGS];
    const char *file = parts[self].file;
    bool fused = file && cr__source_flags(file, flags) > 1 && !strcmp(flags[1], "-ffp-contract=fast");
    cr_str_addf(out, "\n/* ---- %s ---- */\n", file ? file : "the model");
    if (fused) cr_str_add(out, "RT_FUSED_BEGIN\n");
    if (!file && !*status) *status = print_names(parts, n, self, words, true, out); /* macros that headers left */
    if (!*status) *status = print_names(parts, n, self, words, false, out);
    cr_str_addn(out, cr_str_get(&parts[self].text), parts[self].text.n);
    if (!*status) *status = print_names(parts, n, self, words, true, out);
    if (fused) cr_str_add(out, "RT_FUSED_END\n");
}

/* ---- the head of the file ---- */

static const char pragmas[] =
    "#define _GNU_SOURCE\n"
    "#if defined(__clang__)\n"
    "#pragma STDC FP_CONTRACT OFF\n"
    "#define RT_FUSED_BEGIN _Pragma(\"STDC FP_CONTRACT ON\")\n"
    "#define RT_FUSED_END _Pragma(\"STDC FP_CONTRACT OFF\")\n"
    "#else /* products and sums are fused in matrix products only */\n"
    "#pragma GCC optimize (\"fp-contract=off\", \"no-math-errno\", \"no-trapping-math\")\n"
    "#define RT_FUSED_BEGIN _Pragma(\"GCC push_options\") _Pragma(\"GCC optimize (\\\"fp-contract=fast\\\")\")\n"
    "#define RT_FUSED_END _Pragma(\"GCC pop_options\")\n"
    "#endif\n";

static cr_status print_systems(const maker *m, cr_str *out) {
    CR_VEC(char *) names = { 0 };
    const void *key;
    size_t length;
    uint64_t value;
    cr_status status = CR_OK;
    for (size_t i = 0; !status && cr_map_next(&m->systems, &i, &key, &length, &value);) {
        char *copy = cr_strndup(key, length);
        status = copy ? cr_vec_push(&names, copy) : CR_ENOMEM;
        if (status) cr_free(copy);
    }
    if (names.n) qsort(names.at, names.n, sizeof *names.at, by_text);
    for (size_t i = 0; i < names.n; i++) {
        cr_str_addf(out, "#include %s\n", names.at[i]);
        cr_free(names.at[i]);
    }
    cr_vec_dispose(&names);
    cr_str_add(out, "#undef complex\n#undef I\n");
    for (const cr_target *const *t = cr_targets; *t; t++)
        if ((*t)->isas[1])
            cr_str_addf(out,
                        "#undef %s /* the loops for its instruction sets need flags of their own and are not here */\n",
                        (*t)->macro);
    return status;
}

/* Symbols get the model's name in front; those of row kernels stand on lines of their own in the text. */
static void print_symbols(const cr_sources *s, const char *stem, const char *text, cr_str *out) {
    cr_str_addf(out, "#define cresset_model cresset_model_%s\n#define cresset_weights %s_cresset_weights\n", stem,
                stem);
    for (size_t i = 0; i < s->symbols.n; i++)
        if (!i || strcmp(s->symbols.at[i], s->symbols.at[i - 1]))
            cr_str_addf(out, "#define %s %s_%s\n", s->symbols.at[i], stem, s->symbols.at[i]);
    for (size_t i = 0; cr__choice_names[i]; i++)
        if (cr__defines_choice(text, cr__choice_names[i])) {
            bool known = bsearch(&cr__choice_names[i], s->symbols.at, s->symbols.n, sizeof *s->symbols.at, by_text);
            if (!known) cr_str_addf(out, "#define %s %s_%s\n", cr__choice_names[i], stem, cr__choice_names[i]);
            cr_str_addf(out, "#define RT_OWN_%s 1\n", cr__choice_names[i]);
        }
    static const char rows[] = "extern rt_rows_fn ";
    for (const char *at = text; (at = strstr(at, rows));) {
        at += sizeof rows - 1;
        for (size_t n; (n = strcspn(at, ",;\n")); at += n + (at[n] == ',') + strspn(at + n + (at[n] == ','), " ")) {
            cr_str_addf(out, "#define %.*s %s_%.*s\n", (int)n, at, stem, (int)n, at);
            if (at[n] != ',') break;
        }
    }
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

static void dispose_part(part *p) {
    cr_str_dispose(&p->text);
    cr_map_dispose(&p->names);
    cr_map_dispose(&p->macros);
}

static cr_status print_all(maker *m, const cr_sources *s, const cr_str *model, const char *stem, const cr_lowered *l,
                           bool inside, cr_str *out) {
    size_t n = s->files.n + 1;
    part *parts = cr_calloc(n, sizeof *parts);
    cr_str *shared = cr_calloc(n, sizeof *shared);
    cr_status status = parts && shared ? CR_OK : CR_ENOMEM;
    for (size_t i = 0; i < n && !status; i++) {
        char *text = NULL, name[160];
        if (i < n - 1) {
            parts[i].file = s->files.at[i];
            snprintf(name, sizeof name, "runtime/%.120s", parts[i].file);
            status = read_file(m, name, &text);
        }
        if (!status) status = make_part(m, &parts[i], text ? text : cr_str_get(model), &shared[i]);
        cr_free(text);
    }
    for (size_t i = 0; i < n && !status; i++) status = add_statics(m, s, &parts[i]);
    if (!status) {
        cr_str_addf(out,
                    "/* %s: a model that `cresset compile` made, with the runtime it needs. Build: cc -O2 %s.c -c; "
                    "link with -lm -lpthread.\n * How to call it: %s.h. */\n",
                    stem, stem, stem);
        cr_str_add(out, pragmas);
        status = print_systems(m, out);
        print_symbols(s, stem, cr_str_get(model), out);
        cr_str_add(out, "struct cresset_api;\n__attribute__((visibility(\"default\"))) const struct cresset_api "
                        "*cresset_model(uint32_t major);\n#pragma GCC visibility push(hidden)\n");
    }
    for (size_t i = 0; i < n && !status; i++) {
        cr_str_addn(out, cr_str_get(&shared[i]), shared[i].n);
        print_part(parts, n, i, &m->words, out, &status);
    }
    if (!status) print_weights(l, inside, out);
    cr_str_add(out, "#pragma GCC visibility pop\n");
    for (size_t i = 0; i < n; i++) {
        if (parts) dispose_part(&parts[i]);
        if (shared) cr_str_dispose(&shared[i]);
    }
    cr_free(parts);
    cr_free(shared);
    return status ? status : cr_str_status(out);
}

static cr_status print_source(const cr_toolchain *t, const cr_lowered *l, const cr_emit_options *o, const char *stem,
                              bool inside, cr_str *out) {
    cr_build build;
    cr_sources sources = { 0 };
    cr_str model;
    cr_emit_options options = *o;
    maker m = { .tools = t };
    options.weights = inside ? CR_WEIGHTS_INSIDE : CR_WEIGHTS_BESIDE;
    cr_build_source(&build);
    cr_str_init(&model);
    cr_map_init(&m.systems);
    cr_map_init(&m.headers);
    cr_map_init(&m.words);
    cr_str_init(&m.shared);
    cr_status status = cr_emit_c(l, &options, &build, &model, NULL);
    if (!status) status = cr__sources_find(t, cr_str_get(&model), build.target, &sources);
    if (!status) status = print_all(&m, &sources, &model, stem, l, inside, out);
    cr__sources_dispose(&sources);
    cr_str_dispose(&model);
    cr_str_dispose(&m.shared);
    cr_map_dispose(&m.systems);
    cr_map_dispose(&m.headers);
    cr_map_dispose(&m.words);
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
