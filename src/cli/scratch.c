/* scratch.c: libraries for this process alone: compiled in a temporary folder, opened, and gone from the disk at
 * once. */
#include "cli/verify.h"

static cr_status emit(const cr_lowered *l, const cr_emit_options *given, cr_library **out) {
    cr_workshop shop;
    const char *path = NULL;
    cr_emit_options options = *given;
    options.weights = CR_WEIGHTS_INSIDE;
    CR_TRY(cr__workshop_open(&shop));
    cr_status status = cr__workshop_file(&shop, "model.so", &path);
    if (!status) status = cr_emit_library(l, path, &options);
    if (!status) status = cr_library_open(path, out);
    cr__workshop_close(&shop);
    return status;
}

cr_status scratch_library(cr_program *const *programs, size_t n, const cr_emit_options *options, double *seconds,
                          cr_library **out) {
    double begin = cli_seconds();
    cr_lowered *lowered = NULL;
    cr_lower_options lower = { 0 };
    cr_status status = cr_build_lowering(options->target, &lower);
    if (!status) status = cr_lower(programs, n, &lower, &lowered);
    if (!status) status = emit(lowered, options, out);
    cr_lowered_release(lowered);
    if (seconds) *seconds = cli_seconds() - begin;
    return status;
}
