/* loader.h: libraries that `cresset compile` made, opened and run in this process.
 *
 *     cr_library *lib;  cr_native *model;
 *     CR_TRY(cr_library_open("libmodel.so", &lib));
 *     cr_library_api(lib)->methods[0].inputs ...                        -- descriptions, no weights needed
 *     CR_TRY(cr_native_create(lib, 0, NULL, &model));                   -- an instance: weights, state, threads
 *     CR_TRY(cr_native_run(model, 0, inputs, n, results, nresults));    -- flat inputs, flat outputs
 *
 * Both are refcounted and may be used from many threads. A result's memory belongs to the instance that made it and
 * keeps it alive; nothing is copied. A library is code: opening one that somebody else made runs what they wrote. */
#ifndef CR_LOADER_H
#define CR_LOADER_H

#include "cresset/abi.h"
#include "ops/op.h"

typedef struct cr_library cr_library;
typedef struct cr_native cr_native;

/* Does the file begin as shared libraries do? False as well when it cannot be read. */
bool cr_library_is(const char *path);
/* CR_EIO: it cannot be read; CR_EFORMAT: no shared library, damaged, or not one of ours; CR_EUNSUPPORTED: made for
 * another processor or another version of the interface. */
CR_NODISCARD cr_status cr_library_open(const char *path, cr_library **out);
void cr_library_retain(cr_library *lib);
void cr_library_release(cr_library *lib); /* NULL is legal */
const cresset_api *cr_library_api(const cr_library *lib);
const char *cr_library_path(const cr_library *lib);
/* A method by name; NULL: the only one, or the first when it is called "forward". CR_ENOTFOUND lists those there
 * are. */
CR_NODISCARD cr_status cr_library_method(const cr_library *lib, const char *name, int32_t *out);

/* threads: 0: as many as the process may use. weights: a path, or NULL for the library's own or the file beside it.
 * CR_EIO: the weights are missing or another model's; CR_EUNSUPPORTED: the processor lacks instructions. */
CR_NODISCARD cr_status cr_native_create(cr_library *lib, int threads, const char *weights, cr_native **out);
void cr_native_retain(cr_native *n);
void cr_native_release(cr_native *n); /* NULL is legal */
cr_library *cr_native_library(const cr_native *n);
void cr_native_seed(cr_native *n, uint64_t seed);
/* As abi.h's profile; false: the library was made before there was one. */
bool cr_native_profile(cr_native *n,
                       void (*step)(void *user, int32_t method, int32_t step, const char *origin, double seconds),
                       void *user);
/* As cr_module_run: the library checks every input first. CR_ERUNTIME: an input of another kind, dtype, rank or
 * size, or the model failed. Results are owned: cr_results_release; a text among them lives as long as the library. */
CR_NODISCARD cr_status cr_native_run(cr_native *n, int32_t method, const cr_arg *inputs, size_t ninputs,
                                     cr_arg *results, size_t nresults);
/* Sets a buffer that the model changes: all bytes of its storage. CR_EVALUE: there is none of that name, or of another
 * size. */
CR_NODISCARD cr_status cr_native_set_state(cr_native *n, const char *name, const void *data, size_t size);

#endif
