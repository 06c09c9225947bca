/* compile.h: exported programs to native code that needs only libc, and such code loaded and run.
 *
 *     cr_program *program;
 *     cr_library *library;
 *     cr_native *model;
 *     if (cr_program_load("model.pt2", NULL, 0, &program)) return fail(cr_error_message());
 *     if (cr_compile(&program, 1, "libmodel.so", NULL, NULL)) return fail(cr_error_message());
 *     if (cr_library_open("./libmodel.so", &library)) return fail(cr_error_message());
 *     if (cr_native_create(library, 0, NULL, &model)) return fail(cr_error_message());
 *     printf("%s for %s\n", cr_library_api(library)->name, cr_library_api(library)->target);
 *     cr_native_release(model);
 *     cr_library_release(library);
 *     cr_program_release(program);
 *
 * A compiled model is called through abi.h by programs that have nothing of Cresset; the functions here do the same
 * with tensors. Compiling needs a C compiler (CR_ETOOLCHAIN says what was looked for). Any number of threads may
 * compile, load and run at the same time. A library is code: opening one that somebody else made runs what they
 * wrote.
 *
 * Stable: everything here, and libraries that were compiled before (abi.h has versions of its own). The set of
 * targets and instruction sets grows; options and reports begin with their size, so that later releases can add to
 * them. */
#ifndef CRESSET_COMPILE_H
#define CRESSET_COMPILE_H

#include "cresset/graph.h"
#include "cresset/program.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- what for ---- */
/* Processors that code can be made for, besides triples ("aarch64-linux-gnu") for which there is a cross compiler:
 * "multi" (any processor of this machine's kind, the default), "native" (processors like this one). NULL past the
 * last. */
CR_API const char *cr_target_at(size_t i);
/* Instruction sets that code for processors like this one is made for, the widest last: "portable", "avx2", ... */
CR_API const char *cr_isa_at(size_t i);

/* ---- compiling ---- */
typedef enum cr_weights_place { CR_WEIGHTS_INSIDE, CR_WEIGHTS_BESIDE } cr_weights_place;

enum {
    CR_STAGE_PASS,    /* a pass has ended */
    CR_STAGE_WRITE,   /* code is printed, compiled and written: `what` is the file */
    CR_STAGE_COMPARE, /* cr_compile_verify runs both sides */
    CR_STAGE_SEARCH   /* it looks for the first node that differs: `left` of `total` */
};
typedef struct cr_progress {
    size_t struct_size;
    int32_t stage;
    const char *what;       /* the pass's name, or the file; "" else */
    const cr_pass *pass;    /* CR_STAGE_PASS: the pass, the graph after it (borrowed for this call), how long it took */
    const cr_graph *graph;
    double seconds;
    size_t left, total;
} cr_progress;

typedef struct cr_compile_options {
    size_t struct_size;        /* sizeof(cr_compile_options) */
    const char *target;        /* see cr_target_at; NULL: "multi" */
    const char *cc;            /* the C compiler; NULL: CRESSET_CC, then cc, gcc, clang; of a triple: TRIPLE-gcc */
    const char *name;          /* of the model; NULL: its first method's */
    const char *const *methods; /* names of the methods, one per program; NULL: the programs' own */
    int32_t weights;           /* cr_weights_place; in a file beside: PATH with .weights for its suffix */
    /* Told what is done, in order, on the calling thread. Anything but CR_OK ends the work with it, and nothing is
     * written: `return CR_FAIL(CR_ERUNTIME, "stopped by the user")`. The programs are held meanwhile: do not run or
     * compile them in it. While the C compiler runs nobody is told. NULL: nobody. */
    cr_status (*progress)(void *user, const cr_progress *progress);
    void *user;
    /* The library trains: the first program gives a loss, and becomes the methods "step", "backward" and "update" with
     * this optimizer ("adamw,weight_decay=0.1,clip_norm=1"; abi.h: cresset_train_info; docs/training.md). The others
     * (an eval program, for one) share its parameters by name. `methods` then names the others, from its second entry
     * on. NULL: it does not. */
    const char *train;
} cr_compile_options;

/* What a compilation came to. */
typedef struct cr_compiled {
    size_t struct_size; /* sizeof(cr_compiled), before the call */
    int32_t methods, steps;
    uint64_t weight_bytes, file_bytes;
    double seconds;
} cr_compiled;

/* The programs become the methods of one model, in order; weights with the same bytes are stored once, and buffers of
 * one name that some method changes are one buffer. What is written follows from the suffix: .so (also .so.1.2), .a,
 * or .c with a header beside it; files appear whole or not at all. `path` NULL: only the passes run, for who watches
 * them. `options` and `out` may be NULL. CR_EVALUE: another suffix, an unknown target, methods that do not fit
 * together; CR_EUNSUPPORTED lists all ops that have no native form, with the user's source lines; CR_ETOOLCHAIN: no
 * compiler, or what it said. */
CR_API CR_NODISCARD cr_status cr_compile(cr_program *const *programs, size_t n, const char *path,
                                         const cr_compile_options *options, cr_compiled *out);
/* The same to memory: the bytes of the file with this suffix (".so", ".a", ".c"); free with cr_free. Weights are
 * inside. */
CR_API CR_NODISCARD cr_status cr_compile_memory(cr_program *const *programs, size_t n, const char *suffix,
                                                const cr_compile_options *options, void **data, size_t *size);

/* What a path would become. */
typedef enum cr_emit_kind { CR_EMIT_UNKNOWN, CR_EMIT_LIBRARY, CR_EMIT_ARCHIVE, CR_EMIT_SOURCE } cr_emit_kind;
CR_API cr_emit_kind cr_emit_kind_of(const char *path);

/* ---- loading and running: both refcounted, usable from many threads ---- */
typedef struct cr_library cr_library;
typedef struct cr_native cr_native; /* an instance: weights, state, threads */

/* Compiled for this process alone: loaded, and nothing of it stays on the disk. */
CR_API CR_NODISCARD cr_status cr_compile_load(cr_program *const *programs, size_t n, const cr_compile_options *options,
                                              cr_library **out);
/* Does the file begin as shared libraries do? False as well when it cannot be read. */
CR_API bool cr_library_is(const char *path);
/* CR_EIO: it cannot be read; CR_EFORMAT: no shared library, damaged, or not one of ours; CR_EUNSUPPORTED: made for
 * another processor or another version of the interface. */
CR_API CR_NODISCARD cr_status cr_library_open(const char *path, cr_library **out);
CR_API void cr_library_retain(cr_library *lib);
CR_API void cr_library_release(cr_library *lib); /* NULL is legal */
/* Descriptions of methods and state; no weights are needed for it. */
CR_API const cresset_api *cr_library_api(const cr_library *lib);
CR_API const char *cr_library_path(const cr_library *lib);
/* A method by name; NULL: the only one, or the first when it is called "forward". CR_ENOTFOUND lists those there
 * are. */
CR_API CR_NODISCARD cr_status cr_library_method(const cr_library *lib, const char *name, int32_t *out);
CR_API CR_NODISCARD cr_status cr_library_signature(cr_library *lib, int32_t method, cr_signature **out);

/* threads: 0: as many as the process may use. weights: a path, or NULL for the library's own or the file beside it.
 * CR_EIO: the weights are missing or another model's; CR_EUNSUPPORTED: the processor lacks instructions. */
CR_API CR_NODISCARD cr_status cr_native_create(cr_library *lib, int threads, const char *weights, cr_native **out);
CR_API void cr_native_retain(cr_native *n);
CR_API void cr_native_release(cr_native *n); /* NULL is legal */
CR_API cr_library *cr_native_library(const cr_native *n);
CR_API void cr_native_seed(cr_native *n, uint64_t seed);
/* As abi.h's profile; false: the library was made before there was one. */
CR_API bool cr_native_profile(cr_native *n, void (*step)(void *user, int32_t method, int32_t step, const char *origin,
                                                         double seconds), void *user);
/* As cr_module_run: the library checks every input first. CR_ERUNTIME: an input of another kind, dtype, rank or size,
 * or the model failed. Results are owned (cr_results_release): their memory is the instance's, nothing is copied, and
 * they keep it alive; a text among them lives as long as the library. */
CR_API CR_NODISCARD cr_status cr_native_run(cr_native *n, int32_t method, const cr_arg *inputs, size_t ninputs,
                                            cr_arg *results, size_t nresults);
/* Copies a parameter or buffer out of the instance (cr_library_api(lib)->state lists those that are there), or a
 * buffer that the model changes into it: all bytes of its storage. CR_EVALUE: there is none of that name, or of
 * another size. */
CR_API CR_NODISCARD cr_status cr_native_get_state(cr_native *n, const char *name, void *data, size_t room);
CR_API CR_NODISCARD cr_status cr_native_set_state(cr_native *n, const char *name, const void *data, size_t size);

/* Of a library that trains (cresset_api.train): its weights, or everything that training goes on from, to a safetensors
 * file that is there whole or not at all, and back. `what`: CRESSET_SAVE_WEIGHTS or CRESSET_SAVE_ALL. CR_EVALUE: it
 * does not train, or the file cannot be written; CR_EIO: the file cannot be read, is damaged or another model's. */
CR_API CR_NODISCARD cr_status cr_native_save(cr_native *n, const char *path, int32_t what);
CR_API CR_NODISCARD cr_status cr_native_load(cr_native *n, const char *path);

/* ---- is it right? ---- */
/* Runs a method of a library and the program that it was compiled from on the program's example inputs, or random
 * ones. A line about each output goes to `report`: its largest error. CR_ERUNTIME when one is too large: the message
 * has the first node that differs, with the user's source line (programs that end earlier are compiled with `options`
 * to find it). */
CR_API CR_NODISCARD cr_status cr_compile_verify(cr_program *p, cr_library *lib, int32_t method,
                                                const cr_compile_options *options, cr_str *report);

#ifdef __cplusplus
}
#endif
#endif
