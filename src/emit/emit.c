/* emit.c: which kind of file, by its suffix. */
#include "emit/emit.h"

static bool ends_with(const char *path, const char *suffix) {
    size_t n = strlen(path), m = strlen(suffix);
    return n > m && !strcmp(path + n - m, suffix);
}

cr_status cr_emit(const cr_lowered *l, const char *path, const cr_emit_options *options) {
    if (ends_with(path, ".c")) return cr_emit_source(l, path, options);
    return ends_with(path, ".a") ? cr_emit_archive(l, path, options) : cr_emit_library(l, path, options);
}
