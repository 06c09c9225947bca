/* verify.h: compiled code against the interpreter, on the same inputs. */
#ifndef CR_CLI_VERIFY_H
#define CR_CLI_VERIFY_H

#include "cli/arrays.h"
#include "emit/emit.h"

/* Runs method `method` of the library at `path` and its program on the archive's example inputs, or random ones. A line
 * about each output goes to `out`: its largest error. CR_ERUNTIME when one is too large: the message has the first node
 * that differs, with the user's source line (programs that end earlier are compiled with `options` to find it). */
CR_NODISCARD cr_status verify_method(model *m, const char *path, int32_t method, const cr_emit_options *options,
                                     cr_str *out);

/* Compiles programs to a library that is open and has no file any more (scratch.c). *seconds, where not NULL: how long
 * it took. */
CR_NODISCARD cr_status scratch_library(cr_program *const *programs, size_t n, const cr_emit_options *options,
                                       double *seconds, cr_library **out);

#endif
