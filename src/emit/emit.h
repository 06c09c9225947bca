/* emit.h: from a lowered model to files that others link.
 *
 *     cr_emit_options o = { .weights = CR_WEIGHTS_INSIDE };
 *     CR_TRY(cr_emit_library(lowered, "libmodel.so", &o));
 *
 * Files appear whole or not at all: everything is written beside and renamed. */
#ifndef CR_EMIT_H
#define CR_EMIT_H

#include "lower/lower.h"

typedef enum cr_weights_place { CR_WEIGHTS_INSIDE, CR_WEIGHTS_BESIDE } cr_weights_place;
typedef struct cr_emit_options {
    cr_weights_place weights;
    const char *cc;          /* the C compiler; NULL: CRESSET_CC, then cc, gcc, clang */
    const char *name;        /* of the model, in the api; NULL: its first method's */
    const char *id;          /* digest of the model; NULL: computed */
} cr_emit_options;

/* The C text of the tables. Needs runtime/rt_model.h; weights are the symbol cresset_weights when inside. */
CR_NODISCARD cr_status cr_emit_c(const cr_lowered *l, const cr_emit_options *options, cr_str *out);
/* A digest of the weights and sizes, 32 digits: a library and a file of weights that belong together have the same. */
CR_NODISCARD cr_status cr_emit_id(const cr_lowered *l, char out[33]);
/* A shared library that needs libc, libm and threads only. Weights beside: PATH with .weights for its suffix. CR_ETOOLCHAIN: no compiler, or what it said. */
CR_NODISCARD cr_status cr_emit_library(const cr_lowered *l, const char *path, const cr_emit_options *options);

/* ---- toolchain ---- */
/* The compiler's path; CR_ETOOLCHAIN saying where it was looked for. Caller frees. */
CR_NODISCARD cr_status cr_toolchain_find(const char *cc, char **out);
/* Where the runtime's archive and headers are installed: a folder with libcresset_rt.a and include/. CR_ETOOLCHAIN. */
CR_NODISCARD cr_status cr_toolchain_home(char **out);
/* Runs a program without a shell; its standard error becomes the message when it fails. argv ends with NULL. */
CR_NODISCARD cr_status cr_toolchain_run(const char *const *argv);

/* internal: a C string literal of any bytes */
void cr__c_string(cr_str *out, const char *text, size_t n);

#endif
