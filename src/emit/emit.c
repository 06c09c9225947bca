/* emit.c: which kind of file, by its suffix. */
#include "emit/emit.h"

static bool ends_with(const char *path, const char *suffix) {
    size_t n = strlen(path), m = strlen(suffix);
    return n > m && !strcmp(path + n - m, suffix);
}

/* "libm.so", and "libm.so.1.2" as linkers number them */
static bool is_library(const char *path) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path, *so = strstr(name, ".so");
    return so && so > name && strspn(so + 3, ".0123456789") == strlen(so + 3);
}

cr_emit_kind cr_emit_kind_of(const char *path) {
    if (ends_with(path, ".c")) return CR_EMIT_SOURCE;
    return ends_with(path, ".a") ? CR_EMIT_ARCHIVE : is_library(path) ? CR_EMIT_LIBRARY : CR_EMIT_UNKNOWN;
}

cr_status cr_emit(const cr_lowered *l, const char *path, const cr_emit_options *options) {
    switch (cr_emit_kind_of(path)) {
    case CR_EMIT_SOURCE: return cr_emit_source(l, path, options);
    case CR_EMIT_ARCHIVE: return cr_emit_archive(l, path, options);
    case CR_EMIT_LIBRARY: return cr_emit_library(l, path, options);
    default:
        return CR_FAIL(CR_EVALUE,
                       "cannot tell what '%s' is to be: end it in .so (shared library), .a (static archive) or .c (C "
                       "source)",
                       path);
    }
}
