/* scratch.c: libraries for this process alone: compiled in a temporary folder, opened, and gone from the disk at once. */
#define _GNU_SOURCE
#include "cli/verify.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static cr_status emit(const cr_lowered *l, const cr_emit_options *given, cr_library **out) {
    char folder[4000], path[4096];
    const char *place = getenv("TMPDIR");
    cr_emit_options options = *given;
    options.weights = CR_WEIGHTS_INSIDE;
    snprintf(folder, sizeof folder, "%s/cresset-XXXXXX", place && *place ? place : "/tmp");
    if (!mkdtemp(folder)) return CR_FAIL(CR_EIO, "cannot make a folder like %s: %s; set TMPDIR", folder, strerror(errno));
    snprintf(path, sizeof path, "%s/model.so", folder);
    cr_status status = cr_emit_library(l, path, &options);
    if (!status) status = cr_library_open(path, out);
    unlink(path);
    rmdir(folder);
    return status;
}

cr_status scratch_library(cr_program *const *programs, size_t n, const cr_emit_options *options, double *seconds, cr_library **out) {
    double begin = cli_seconds();
    cr_lowered *lowered = NULL;
    cr_status status = cr_lower(programs, n, NULL, &lowered);
    if (!status) status = emit(lowered, options, out);
    cr_lowered_release(lowered);
    if (seconds) *seconds = cli_seconds() - begin;
    return status;
}
