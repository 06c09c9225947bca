/* archive.c: what is in a .pt2 besides the program that is loaded from it. */
#include "api/api.h"

struct cr_archive {
    int64_t refs; /* atomic */
    cr_zip *zip;
    const char *path; /* for messages; NULL in memory */
    cr_arena arena;
    const char *const *programs;
    size_t nprograms;
    CR_VEC(const char *) extra, packages; /* below extra/ (borrowed from the zip), folders below data/aotinductor/ */
};

static bool starts(const char *text, const char *beginning) { return !strncmp(text, beginning, strlen(beginning)); }

/* extra/NAME below the top folder; extra_files/NAME without one in the layout of PyTorch 2.1 to 2.6. */
static const char *extra_name(const char *member) {
    const char *slash = strchr(member, '/');
    const char *below = slash && !starts(member, "extra_files/") ? slash + 1 : member;
    if (starts(below, "extra/")) return below + strlen("extra/");
    return starts(below, "extra_files/") ? below + strlen("extra_files/") : NULL;
}

static cr_status add_package(cr_archive *a, const char *member) {
    const char *slash = strchr(member, '/'), *folder = "data/aotinductor/";
    if (!slash || !starts(slash + 1, folder)) return CR_OK;
    const char *name = slash + 1 + strlen(folder);
    char *package = cr_arena_strndup(&a->arena, name, strcspn(name, "/"));
    if (!package) return CR_ENOMEM;
    for (size_t i = 0; i < a->packages.n; i++)
        if (!strcmp(a->packages.at[i], package)) return CR_OK;
    return cr_vec_push(&a->packages, package);
}

static cr_status list(cr_archive *a, const char *path) {
    if (path && !(a->path = cr_arena_strdup(&a->arena, path))) return CR_ENOMEM;
    CR_TRY(cr_program_list(a->zip, &a->arena, &a->programs, &a->nprograms));
    for (size_t i = 0; i < cr_zip_count(a->zip); i++) {
        const char *member = cr_zip_at(a->zip, i)->name, *extra = extra_name(member);
        if (extra) CR_TRY(cr_vec_push(&a->extra, extra));
        CR_TRY(add_package(a, member));
    }
    return CR_OK;
}

/* Takes over the reference. */
static cr_status wrap(cr_zip *zip, const char *path, cr_archive **out) {
    cr_archive *a = cr_calloc(1, sizeof *a);
    if (!a) return cr_zip_release(zip), CR_ENOMEM;
    a->refs = 1;
    a->zip = zip;
    cr_arena_init(&a->arena);
    cr_status status = list(a, path);
    if (status) cr_archive_release(a);
    else *out = a;
    return status;
}

cr_status cr_archive_open(const char *path, cr_archive **out) {
    cr_zip *zip;
    CR_TRY(cr_zip_open(path, &zip));
    return wrap(zip, path, out);
}

cr_status cr_archive_open_memory(const void *data, size_t size, cr_archive **out) {
    cr_zip *zip;
    CR_TRY(cr_zip_open_copy(data, size, &zip));
    return wrap(zip, NULL, out);
}

void cr_archive_retain(cr_archive *a) { __atomic_add_fetch(&a->refs, 1, __ATOMIC_RELAXED); }

void cr_archive_release(cr_archive *a) {
    if (!a || __atomic_sub_fetch(&a->refs, 1, __ATOMIC_ACQ_REL)) return;
    cr_vec_dispose(&a->extra);
    cr_vec_dispose(&a->packages);
    cr_arena_dispose(&a->arena);
    cr_zip_release(a->zip);
    cr_free(a);
}

uint64_t cr_archive_size(const cr_archive *a) { return cr_zip_size(a->zip); }

size_t cr_archive_program_count(const cr_archive *a) { return a->nprograms; }

const char *cr_archive_program_name(const cr_archive *a, size_t i) { return i < a->nprograms ? a->programs[i] : NULL; }

size_t cr_archive_extra_count(const cr_archive *a) { return a->extra.n; }

const char *cr_archive_extra_name(const cr_archive *a, size_t i) { return i < a->extra.n ? a->extra.at[i] : NULL; }

size_t cr_archive_package_count(const cr_archive *a) { return a->packages.n; }

const char *cr_archive_package_name(const cr_archive *a, size_t i) {
    return i < a->packages.n ? a->packages.at[i] : NULL;
}

cr_status cr_archive_extra(cr_archive *a, const char *name, void **data, size_t *size) {
    for (size_t i = 0; i < cr_zip_count(a->zip); i++) {
        const cr_zip_member *m = cr_zip_at(a->zip, i);
        const char *found = extra_name(m->name);
        char *copy;
        if (!found || strcmp(found, name)) continue;
        CR_TRY(cr_zip_read(a->zip, m, m->size, &copy));
        *data = copy;
        *size = m->size;
        return CR_OK;
    }
    return CR_FAIL(CR_ENOTFOUND, "the archive has no extra file '%s'", name);
}

/* ---- loading ---- */

cr_status cr_program_load_from(cr_archive *a, const char *name, int flags, cr_program **out) {
    cr_status status = cr_program_load_zip(a->zip, name, flags, out);
    return status && a->path ? cr_error_context(status, "%s", a->path) : status;
}

cr_status cr_program_load_memory(const void *data, size_t size, const char *name, int flags, cr_program **out) {
    cr_archive *a;
    CR_TRY(cr_archive_open_memory(data, size, &a));
    cr_status status = cr_program_load_from(a, name, flags, out);
    cr_archive_release(a);
    return status;
}
