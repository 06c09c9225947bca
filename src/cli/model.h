/* model.h: an exported program, or a method of a compiled library, as the commands see it. */
#ifndef CR_CLI_MODEL_H
#define CR_CLI_MODEL_H

#include "cli/cli.h"
#include "cresset/compile.h"

typedef struct model {
    cr_archive *archive; /* of an archive, else NULL */
    cr_program *program;
    cr_library *library; /* of a compiled library, else NULL */
    int32_t method;      /* of the library */
    cr_signature *signature;
} model;

/* Registers the operators of --op-library, where that is given. */
CR_NODISCARD cr_status cli_load_ops(const cli_call *call);
/* An archive or a compiled library. `name`: which program or method, NULL: the only one, "model" or "forward". `flags`:
 * CR_LOAD_*, for archives. */
CR_NODISCARD cr_status model_open(model *m, const char *path, const char *name, int flags);
void model_dispose(model *m);

/* The range of a size that is not fixed, "2 to 64", "at least 2". */
void model_add_range(int64_t min, int64_t max, cr_str *out);
/* "[2, 3]" */
void model_add_sizes(int rank, const int64_t *size, cr_str *out);

#endif
