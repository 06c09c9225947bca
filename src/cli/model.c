/* model.c: opens a program or a compiled library; see model.h. */
#include "cli/model.h"

#include "cresset/library.h"

cr_status cli_load_ops(const cli_call *call) {
    const char *path = cli_text(call, "op-library");
    char message[512] = "";
    if (!path || !cresset_load_ops(path, message, sizeof message)) return CR_OK;
    return CR_FAIL(CR_EVALUE, "%s", message);
}

static cr_status open_library(model *m, const char *path, const char *name) {
    CR_TRY(cr_library_open(path, &m->library));
    CR_TRY(cr_library_method(m->library, name, &m->method));
    return cr_library_signature(m->library, m->method, &m->signature);
}

static cr_status open_archive(model *m, const char *path, const char *name, int flags) {
    CR_TRY(cr_archive_open(path, &m->archive));
    CR_TRY(cr_program_load_from(m->archive, name, flags, &m->program));
    return cr_program_signature(m->program, &m->signature);
}

cr_status model_open(model *m, const char *path, const char *name, int flags) {
    *m = (model){ 0 };
    cr_status status = cr_library_is(path) ? open_library(m, path, name) : open_archive(m, path, name, flags);
    if (status == CR_ENOTFOUND) cli_hint("choose one with --name");
    if (status) model_dispose(m);
    return status;
}

void model_dispose(model *m) {
    cr_signature_release(m->signature);
    cr_library_release(m->library);
    cr_program_release(m->program);
    cr_archive_release(m->archive);
    *m = (model){ 0 };
}

void model_add_range(int64_t min, int64_t max, cr_str *out) {
    bool lo = min > INT64_MIN, hi = max < INT64_MAX;
    if (lo && hi) cr_str_addf(out, "%lld to %lld", (long long)min, (long long)max);
    else if (lo) cr_str_addf(out, "at least %lld", (long long)min);
    else if (hi) cr_str_addf(out, "at most %lld", (long long)max);
    else cr_str_add(out, "any");
}

void model_add_sizes(int rank, const int64_t *size, cr_str *out) {
    cr_str_addc(out, '[');
    for (int i = 0; i < rank; i++) cr_str_addf(out, "%s%lld", i ? ", " : "", (long long)size[i]);
    cr_str_addc(out, ']');
}
