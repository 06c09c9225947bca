/* sources.c: see sources.h. */
#include "emit/sources.h"

#include <ctype.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- what a model defines itself ---- */

static bool begins(const char *text, const char *with) { return !strncmp(text, with, strlen(with)); }

/* Functions and tables that begin their line, as the choices of a model do (choices.c). */
static cr_status find_own(const char *text, cr_map *out) {
    for (const char *line = text; *line;) {
        size_t n = strcspn(line, "\n"), at = strcspn(line, "([=\n");
        bool whole = isalpha((unsigned char)*line) && !begins(line, "static ") && !begins(line, "extern ");
        if (whole && at < n && (memchr(line, '{', n) || memchr(line, '=', n))) {
            while (at && line[at - 1] == ' ') at--;
            size_t from = at;
            while (from && (isalnum((unsigned char)line[from - 1]) || line[from - 1] == '_')) from--;
            CR_TRY(cr_map_put(out, line + from, at - from, 1));
        }
        line += n + (line[n] == '\n');
    }
    return CR_OK;
}

/* ---- flags ---- */

static const struct {
    const char *files, *flags[8];
} flag_rows[] = {
#define FLAGS(files, ...) { files, { __VA_ARGS__ } },
#include "runtime/flags.inc"
#undef FLAGS
};

/* "gemm*.c conv.c": is one of the patterns the file's? */
static bool is_among(const char *patterns, const char *file) {
    for (const char *at = patterns; *at;) {
        char one[64];
        size_t n = strcspn(at, " ");
        snprintf(one, sizeof one, "%.*s", (int)n, at);
        if (!fnmatch(one, file, 0)) return true;
        at += n + (at[n] == ' ');
    }
    return false;
}

size_t cr__source_flags(const char *file, bool gcc, const char **out) {
    static const char release[] = "release:", gcc_only[] = "gcc:";
    size_t n = 0;
    for (size_t i = 0; i < CR_COUNT(flag_rows); i++) {
        if (!is_among(flag_rows[i].files, file)) continue;
        for (const char *const *flag = flag_rows[i].flags; *flag; flag++) {
            if (!begins(*flag, gcc_only)) out[n++] = *flag + (begins(*flag, release) ? strlen(release) : 0);
            else if (gcc) out[n++] = *flag + strlen(gcc_only);
        }
    }
    return n;
}

bool cr__source_is_fused(const char *file) {
    const char *flags[CR_SOURCE_FLAGS];
    bool fused = false;
    for (size_t i = cr__source_flags(file, false, flags); i--;) fused |= !strcmp(flags[i], "-ffp-contract=fast");
    return fused;
}

/* ---- the index ---- */

typedef struct row {
    const char *file, *symbol;
    bool defines;
} row;
typedef CR_VEC(row) rows;

/* "...[rt_pool.c.o]: rt_pool_create T 10 35": file, symbol, letter. */
static cr_status read_index(cr_arena *arena, const cr_toolchain *t, rows *out) {
    char *path = NULL, *text = NULL;
    CR_TRY(cr__path_in(t->home, "index", &path));
    cr_status status = cr_file_read(path, &text, NULL);
    if (status && status != CR_ENOMEM)
        status = CR_FAIL(CR_ETOOLCHAIN, "%s, the list of the runtime's symbols, cannot be read: install Cresset again",
                         path);
    cr_free(path);
    CR_TRY(status);
    for (char *line = text; !status && *line;) {
        size_t n = strcspn(line, "\n");
        char *open = memchr(line, '[', n), *shut = open ? memchr(open, ']', n - (size_t)(open - line)) : NULL;
        char *name = shut && shut - open > 3 ? shut + 3 : NULL,
             *space = name && name < line + n ? memchr(name, ' ', n - (size_t)(name - line)) : NULL;
        char letter = space ? space[1] : 0;
        if (letter &&
            (!islower((unsigned char)letter) || strchr("wvu", letter))) { /* others are known in their file alone */
            row r = { cr_arena_strndup(arena, open + 1, (size_t)(shut - open - 3)),
                      cr_arena_strndup(arena, name, (size_t)(space - name)), !strchr("Uw", letter) };
            status = r.file && r.symbol ? cr_vec_push(out, r) : CR_ENOMEM;
        }
        line += n + (line[n] == '\n');
    }
    cr_free(text);
    return status;
}

/* ---- what a text mentions ---- */

/* Identifiers outside of string literals; the text is ours and has no other ones that would matter. */
static cr_status find_words(const char *text, cr_map *out) {
    for (const char *at = text; *at;) {
        if (*at == '"') {
            for (at++; *at && *at != '"'; at++)
                if (*at == '\\' && at[1]) at++;
            if (*at) at++;
            continue;
        }
        size_t n = strspn(at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789");
        if (n) CR_TRY(cr_map_put(out, at, n, 1));
        at += n ? n : 1;
    }
    return CR_OK;
}

static bool is_for(const char *file, const cr_target *target) {
    const cr_isa *isa = cr__isa_of_file(file);
    return !isa || cr__target_has(target, isa);
}

static int by_text(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

static cr_status collect(const rows *all, const cr_map *files, cr_sources *out) {
    for (size_t i = 0; i < all->n; i++) {
        const row *r = &all->at[i];
        if (!cr_map_find_str(files, r->file, NULL)) continue;
        if (!i || strcmp(all->at[i - 1].file, r->file)) CR_TRY(cr_vec_push(&out->files, r->file));
    }
    if (out->files.n) qsort(out->files.at, out->files.n, sizeof *out->files.at, by_text);
    return CR_OK;
}

/* Until no row asks for a file that is not there yet. */
static cr_status close_over(const rows *all, cr_map *needed, const cr_map *own, const cr_target *target,
                            cr_map *files) {
    for (bool again = true; again;) {
        again = false;
        for (size_t i = 0; i < all->n; i++) {
            const row *r = &all->at[i];
            bool there = cr_map_find_str(files, r->file, NULL);
            if (!r->defines && there && !cr_map_find_str(needed, r->symbol, NULL)) {
                CR_TRY(cr_map_put_str(needed, r->symbol, 1));
                again = true;
            }
            if (!r->defines || there || !is_for(r->file, target)) continue;
            if (!cr_map_find_str(needed, r->symbol, NULL) || cr_map_find_str(own, r->symbol, NULL)) continue;
            CR_TRY(cr_map_put_str(files, r->file, 1));
            again = true;
        }
    }
    return CR_OK;
}

cr_status cr__sources_find(const cr_toolchain *t, const char *text, const cr_target *target, cr_sources *out) {
    rows all = { 0 };
    cr_map needed, own, files;
    *out = (cr_sources){ 0 };
    cr_arena_init(&out->arena);
    cr_map_init(&needed);
    cr_map_init(&own);
    cr_map_init(&files);
    cr_status status = read_index(&out->arena, t, &all);
    if (!status) status = find_words(text, &needed);
    if (!status) status = find_own(text, &own);
    static const char *const functions[] = { "rt_api_create",    "rt_api_destroy",   "rt_api_run", "rt_api_release",
                                             "rt_api_get_state", "rt_api_set_state", "rt_api_seed" };
    /* RT_API_FUNCTIONS names them */
    for (size_t i = 0; !status && i < CR_COUNT(functions); i++) status = cr_map_put_str(&needed, functions[i], 1);
    if (!status) status = close_over(&all, &needed, &own, target, &files);
    if (!status) status = collect(&all, &files, out);
    cr_map_dispose(&needed);
    cr_map_dispose(&own);
    cr_map_dispose(&files);
    cr_vec_dispose(&all);
    if (status) cr__sources_dispose(out);
    return status;
}

void cr__sources_dispose(cr_sources *s) {
    cr_vec_dispose(&s->files);
    cr_arena_dispose(&s->arena);
}
