/* emit.c: which kind of file, by its suffix. */
#include "emit/emit.h"

static bool ends_with(const char *path, const char *suffix) {
    size_t n = strlen(path), m = strlen(suffix);
    return n > m && !strcmp(path + n - m, suffix);
}

static cr_status write_source(const cr_lowered *l, const char *path, const cr_emit_options *o) {
    cr_target target;
    cr_str text;
    CR_TRY(cr_target_parse(o->target, &target));
    cr_str_init(&text);
    cr_status status = cr_emit_c(l, o, &target, &text, NULL);
    if (!status) status = cr_file_write_atomic(path, cr_str_get(&text), text.n);
    cr_str_dispose(&text);
    return status;
}

cr_status cr_emit(const cr_lowered *l, const char *path, const cr_emit_options *options) {
    return ends_with(path, ".c") ? write_source(l, path, options) : cr_emit_library(l, path, options);
}
