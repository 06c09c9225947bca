/* emit.h: from a lowered model to files that others link.
 *
 *     cr_emit_options o = { .weights = CR_WEIGHTS_INSIDE };
 *     CR_TRY(cr_emit(lowered, "libmodel.so", &o));
 *
 * Files appear whole or not at all: everything is written beside and renamed. */
#ifndef CR_EMIT_H
#define CR_EMIT_H

#include "cresset/compile.h"
#include "emit/target.h"

typedef struct cr_emit_options {
    cr_weights_place weights;
    const char *cc;          /* the C compiler; NULL: CRESSET_CC, then cc, gcc, clang; of a triple: TRIPLE-gcc */
    const char *target;      /* see cr_build_parse */
    const char *name;        /* of the model, in the api; NULL: its first method's */
    bool random;             /* the api has get_random and set_random, also of a library that does not train */
} cr_emit_options;

/* All need libc, libm and threads only. Weights beside: PATH with .weights for its suffix. CR_EVALUE: the suffix is
 * none of these. CR_ETOOLCHAIN: no compiler, or what it said. */
CR_NODISCARD cr_status cr_emit(const cr_lowered *l, const char *path, const cr_emit_options *options);

/* Each of these alone. */
CR_NODISCARD cr_status cr_emit_archive(const cr_lowered *l, const char *path, const cr_emit_options *options);
CR_NODISCARD cr_status cr_emit_source(const cr_lowered *l, const char *path, const cr_emit_options *options);
CR_NODISCARD cr_status cr_emit_library(const cr_lowered *l, const char *path, const cr_emit_options *options);

/* The C text of the tables. Needs runtime/rt_model.h and a definition of cresset_weights (see cr_weights_head). Row
 * kernels go to `kernels`, a unit that is compiled once for each instruction set of the target with
 * -DCR_ROWS(name)=name_ISA; empty when there are none. NULL: they follow the tables, for whatever the file is compiled
 * for. */
CR_NODISCARD cr_status cr_emit_c(const cr_lowered *l, const cr_emit_options *options, const cr_build *build,
                                 cr_str *out, cr_str *kernels);

/* ---- running (loader.c) ---- */
/* As cr_native_run, of inputs and results as abi.h has them: no tensors are made of those. Results are the instance's
 * memory until they are taken (the value is then none) or given back. */
CR_NODISCARD cr_status cr_native_run_values(cr_native *n, int32_t method, const cresset_value *inputs, size_t ninputs,
                                            cresset_value *results, size_t nresults);
CR_NODISCARD cr_status cr_native_take(cr_native *n, cresset_value *result, cr_arg *out);
void cr_native_give_back(cr_native *n, cresset_value *results, size_t nresults);
/* The instance's generator as the bytes of torch.get_rng_state(). CR_EVALUE: emitted without `random`, or no state. */
CR_NODISCARD cr_status cr_native_get_random(cr_native *n, void *bytes, size_t room);
CR_NODISCARD cr_status cr_native_set_random(cr_native *n, const void *bytes, size_t size);

/* ---- toolchain ---- */
typedef struct cr_toolchain { char *cc, *home, *include, *archive; } cr_toolchain;
/* The compiler and where the runtime's archive and sources are installed. CR_ETOOLCHAIN saying where they were looked
 * for. */
CR_NODISCARD cr_status cr_toolchain_open(const char *cc, const cr_build *build, cr_toolchain *out);
void cr_toolchain_close(cr_toolchain *t);
/* The compiler's path. Caller frees. */
CR_NODISCARD cr_status cr_toolchain_find(const char *cc, char **out);
/* A program as the shell would find it; *out NULL: there is none. Caller frees. */
CR_NODISCARD cr_status cr_toolchain_program(const char *name, char **out);
/* Where the runtime is installed: a folder with libcresset_rt.a and src/. CR_ETOOLCHAIN. */
CR_NODISCARD cr_status cr_toolchain_home(char **out);
/* Runs a program without a shell; its standard error becomes the message when it fails. argv ends with NULL. */
CR_NODISCARD cr_status cr_toolchain_run(const char *const *argv);
/* The same for many, as many at a time as there are processors. The first failure is reported; all have ended then. */
CR_NODISCARD cr_status cr_toolchain_run_all(const char *const *const *argvs, size_t n);

/* ---- internal to src/emit ---- */
/* cr__language_c's. */
CR_NODISCARD cr_status cr__find_c_compiler(const char *given, const char *triple, char **out);
CR_NODISCARD cr_status cr__emit_rows(const cr_lowered *l, cr_str *out, char (*names)[CR_ROW_NAME]);
/* A C string literal of any bytes. */
void cr__c_string(cr_str *out, const char *text, size_t n);
/* The name of a model in a file of that path: "libdigits.a" -> "digits". */
void cr__stem(const char *path, char out[64]);
/* The header of a model with an entry of its own name. */
CR_NODISCARD cr_status cr__print_c_header(const cr_toolchain *t, const char *stem, cr_str *out);
/* FOLDER/NAME; caller frees. */
CR_NODISCARD cr_status cr__path_in(const char *folder, const char *name, char **out);
/* PATH with `suffix` for its own. */
CR_NODISCARD cr_status cr__path_beside(const char *path, const char *suffix, char **out);

/* A folder for intermediate files, removed with everything that was named in it. */
typedef struct cr_workshop {
    char *folder;
    int note, lock;
    CR_VEC(struct {
        char *path;
        int note;
    })
    files;
} cr_workshop;
CR_NODISCARD cr_status cr__workshop_open(cr_workshop *w);
/* a path in it, borrowed */
CR_NODISCARD cr_status cr__workshop_file(cr_workshop *w, const char *name, const char **out);
CR_NODISCARD cr_status cr__workshop_write(cr_workshop *w, const char *name, const void *data, size_t size,
                                          const char **out);
void cr__workshop_close(cr_workshop *w);

/* Objects of those files of the runtime that a model with this text needs, compiled for a target that the archive is
 * not for. *objects: free with cr_free; the names in it are the workshop's. */
CR_NODISCARD cr_status cr__build_runtime(const cr_toolchain *t, const cr_build *build, const char *text,
                                         cr_workshop *shop, const char ***objects, size_t *n);

/* The head of every block of weights: 64 bytes that say whose they are. */
typedef struct cr_weights_head { char magic[8], id[56]; } cr_weights_head;
/* Tells two models apart: a digest of the weights' bytes and places and of the methods' constants. */
void cr__weights_head(const cr_lowered *l, cr_weights_head *out);
CR_NODISCARD cr_status cr__weights_write(const cr_lowered *l, cr_file_writer *w); /* without the head */
/* PATH.weights: head and weights; the caller finishes the writer. */
CR_NODISCARD cr_status cr__weights_beside(const cr_lowered *l, const char *path, const cr_weights_head *head,
                                          cr_file_writer **out);

#endif
