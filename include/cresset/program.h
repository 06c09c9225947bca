/* program.h: exported programs (.pt2): loading, looking, running, saving.
 *
 *     cr_program *program;
 *     cr_module *module;
 *     cr_tensor *image;
 *     const int64_t size[] = { 1, 8, 8 };
 *     if (cr_program_load("model.pt2", NULL, 0, &program)) return fail(cr_error_message());
 *     if (cr_module_create(program, CR_MODULE_SHARED, &module)) return fail(cr_error_message());
 *     if (cr_tensor_from(CR_F32, 3, size, pixels, &image)) return fail(cr_error_message());
 *     cr_arg in = cr_arg_tensor(image), out[2];
 *     if (cr_module_run(module, &in, 1, out, 2)) return fail(cr_error_message());
 *     const int64_t *digit = (const int64_t *)cr_tensor_data(out[0].u.t);
 *     printf("a %d\n", (int)*digit);
 *     cr_results_release(out, 2);
 *     cr_tensor_release(image);
 *     cr_module_release(module);
 *     cr_program_release(program);
 *
 * A *program* is immutable apart from the values of its tensors, refcounted, and may be shared by threads. A *module*
 * is one running instance: runs of one module that change buffers wait for each other, others run at the same time.
 *
 * An archive is data, not code: loading executes nothing of it, and damage is an error (CR_EFORMAT with member and
 * field). Stable: everything here; structs that callers fill begin with their size, so that later releases can add to
 * them. */
#ifndef CRESSET_PROGRAM_H
#define CRESSET_PROGRAM_H

#include "cresset/signature.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- archives ---- */
typedef struct cr_archive cr_archive; /* refcounted; readable from many threads */
CR_API CR_NODISCARD cr_status cr_archive_open(const char *path, cr_archive **out);
/* From bytes, which are copied first: `data` may go away. */
CR_API CR_NODISCARD cr_status cr_archive_open_memory(const void *data, size_t size, cr_archive **out);
CR_API void cr_archive_retain(cr_archive *a);
CR_API void cr_archive_release(cr_archive *a); /* NULL is legal */
CR_API uint64_t cr_archive_size(const cr_archive *a); /* bytes */
/* Its programs, in order. */
CR_API size_t cr_archive_program_count(const cr_archive *a);
CR_API const char *cr_archive_program_name(const cr_archive *a, size_t i); /* NULL past the last */
/* The users' own files in it ("notes.txt"), and packages of AOTInductor's compiled code, which is not run here. */
CR_API size_t cr_archive_extra_count(const cr_archive *a);
CR_API const char *cr_archive_extra_name(const cr_archive *a, size_t i);
/* A copy with a NUL behind it; free with cr_free. CR_ENOTFOUND. */
CR_API CR_NODISCARD cr_status cr_archive_extra(cr_archive *a, const char *name, void **data, size_t *size);
CR_API size_t cr_archive_package_count(const cr_archive *a);
CR_API const char *cr_archive_package_name(const cr_archive *a, size_t i);

/* ---- loading ---- */
typedef struct cr_program cr_program;
enum {
    CR_LOAD_CHECK = 1, /* verify every checksum, weights included */
    CR_LOAD_META = 2   /* weights get shapes only, nothing of them is touched: for looking, not for running */
};
/* Reads a .pt2 of either layout. `name`: which program of the archive; NULL: the only one, or "model". CR_EFORMAT
 * names member and field; CR_EUNSUPPORTED a script object, another schema major, another byte order; CR_ENOTFOUND
 * `name`, listing those there are. An op that does not exist here is no error yet: cr_program_op lists it,
 * cr_module_create refuses it. */
CR_API CR_NODISCARD cr_status cr_program_load(const char *path, const char *name, int flags, cr_program **out);
CR_API CR_NODISCARD cr_status cr_program_load_from(cr_archive *a, const char *name, int flags, cr_program **out);
/* cr_archive_open_memory and cr_program_load_from. */
CR_API CR_NODISCARD cr_status cr_program_load_memory(const void *data, size_t size, const char *name, int flags,
                                                     cr_program **out);
CR_API void cr_program_retain(cr_program *p);
CR_API void cr_program_release(cr_program *p); /* NULL is legal */

/* ---- looking ---- */
CR_API CR_NODISCARD cr_status cr_program_signature(const cr_program *p, cr_signature **out);
CR_API const char *cr_program_name(const cr_program *p);          /* "model" */
CR_API const char *cr_program_torch_version(const cr_program *p); /* "2.13.0+cpu"; NULL: not known */
CR_API const char *cr_program_dialect(const cr_program *p);       /* "TRAINING", "ATEN"; NULL: not known */
CR_API const char *cr_program_metadata(const cr_program *p);      /* a JSON object; NULL: empty */
CR_API void cr_program_schema_version(const cr_program *p, int *major, int *minor);
CR_API size_t cr_program_guard_count(const cr_program *p);
CR_API const char *cr_program_guard(const cr_program *p, size_t i); /* Python text; NULL past the last */
/* Has it example inputs, one for each input? */
CR_API bool cr_program_has_example(const cr_program *p);
/* Why they cannot be read; NULL: they can, or there are none. */
CR_API const char *cr_program_example_problem(const cr_program *p);
/* The lifted graph, borrowed: placeholders are parameters, buffers, constants, then the inputs. graph.h */
CR_API struct cr_graph *cr_program_graph(const cr_program *p);
/* As `print(ep)` shows it. */
CR_API void cr_program_print(const cr_program *p, cr_str *out);

/* An op that it calls. In the order of frequency, most frequent first. */
typedef struct cr_op_use {
    const char *name;     /* "aten::linear" */
    size_t count;         /* calls, subgraphs included */
    size_t order;         /* its number where they are counted by their first calls */
    bool is_known;        /* false: it has no row here, and a module cannot be made */
    const char *source;   /* of an unknown one: where it is called first, "net.py:12: y = f(x)"; NULL: unknown */
} cr_op_use;
typedef struct cr_op_uses cr_op_uses; /* caller-owned */
CR_API CR_NODISCARD cr_status cr_program_ops(const cr_program *p, cr_op_uses **out);
CR_API size_t cr_op_uses_count(const cr_op_uses *u);
/* NULL past the last; borrowed from `u` and the program. */
CR_API const cr_op_use *cr_op_uses_at(const cr_op_uses *u, size_t i);
CR_API void cr_op_uses_free(cr_op_uses *u); /* NULL is legal */

/* ---- weights ---- */
/* A parameter, buffer or constant. Tied names share one tensor or one storage. */
typedef struct cr_named_tensor {
    const char *name;
    cr_tensor *tensor;
    bool is_parameter, persistent; /* a persistent one is in state_dict() */
} cr_named_tensor;
CR_API size_t cr_program_state_count(const cr_program *p);    /* parameters and persistent buffers */
CR_API const cr_named_tensor *cr_program_state(const cr_program *p, size_t i); /* borrowed; NULL past the last */
CR_API size_t cr_program_constant_count(const cr_program *p); /* lifted constants, non-persistent buffers */
CR_API const cr_named_tensor *cr_program_constant(const cr_program *p, size_t i);
/* State or constant by name; borrowed; NULL: absent. Writing to it changes what later runs compute with. */
CR_API cr_tensor *cr_program_tensor(const cr_program *p, const char *name);
/* The program with these tensors instead of its own of the same names (`name` and `tensor` are read; tensors are
 * retained). `p` and what was made of it stay as they are. CR_ENOTFOUND: there is none of that name; CR_EVALUE: one
 * of another dtype, sizes or strides. */
CR_API CR_NODISCARD cr_status cr_program_with_tensors(cr_program *p, const cr_named_tensor *others, size_t n,
                                                      cr_program **out);
/* State to a .safetensors file, and from one that has exactly this state. CR_ENOTFOUND names a tensor that is
 * missing, CR_EVALUE one that is too many or of another dtype or shape: nothing has changed then. CR_EVALUE as well:
 * tensors that share memory were given different values. */
CR_API CR_NODISCARD cr_status cr_program_save_state(const cr_program *p, const char *path);
CR_API CR_NODISCARD cr_status cr_program_load_state(cr_program *p, const char *path);

/* ---- saving ---- */
typedef struct cr_save_options {
    size_t struct_size;       /* sizeof(cr_save_options) */
    const char *name;         /* of the program in the archive; NULL: "model", the one that PyTorch loads */
    const struct cr_extra_file { const char *name; const void *data; size_t size; } *extra; /* members extra/NAME */
    size_t nextra;
    const struct cr_opset { const char *domain; int64_t version; } *opset; /* "aten": else its own */
    size_t nopset;
    bool absolute_paths;      /* stack traces name source files as they were found, not shortened */
    cr_status (*step)(void *user); /* called while data are written; anything but CR_OK gives up with it; may be NULL */
    void *user;
    /* Classes of the call structure that Python finds elsewhere than their registered names say: "trial.Batch" is
     * "package.module.Batch". Example inputs are pickled with them; where a path is NULL, there are none. */
    const struct cr_class { const char *name, *path; } *classes;
    size_t nclasses;
} cr_save_options;
/* Writes a .pt2 as PyTorch 2.13 lays it out (schema 8.20): tied storages once, data aligned to 64 bytes. Atomic:
 * `path` has the old file or the whole new one. Weights are streamed; those that still are the unchanged members of
 * the archive they were loaded from go from file to file. `options` may be NULL. CR_EIO: full disk, no permission, a
 * folder; CR_EUNSUPPORTED: an op that exists here alone, a conjugated view; CR_EVALUE: a name of an extra file that
 * archives cannot have, weights without data, options of another size. */
CR_API CR_NODISCARD cr_status cr_program_save(const cr_program *p, const char *path, const cr_save_options *options);
/* The same to whatever takes the bytes in order. Nothing is undone on failure. */
CR_API CR_NODISCARD cr_status cr_program_save_to(const cr_program *p, cr_sink sink, const cr_save_options *options);
/* The archive that it was loaded from once more, member by member, with the values that its weights have now; the
 * layout of PyTorch 2.1 to 2.6 becomes today's. `step` is told the bytes that were written; it may be NULL.
 * CR_EVALUE: it was not loaded from an archive; CR_EUNSUPPORTED: weights that are kept as pickles. */
CR_API CR_NODISCARD cr_status cr_program_save_again(const cr_program *p, const char *path,
                                                    cr_status (*step)(void *user, uint64_t bytes), void *user);

/* The whole graph against the verifier, the signature against the graph, the state against the placeholders' shapes. */
CR_API CR_NODISCARD cr_status cr_program_verify(const cr_program *p);

/* ---- running ---- */
typedef struct cr_module cr_module; /* refcounted */
enum {
    CR_MODULE_SHARED = 0,   /* mutations write the program's own state, as PyTorch's ep.module() does */
    CR_MODULE_OWN_STATE = 1 /* buffers that runs mutate are copied first: instances do not see each other */
};
/* CR_EUNSUPPORTED: ops without a row, all of them named, each with the user's source line. */
CR_API CR_NODISCARD cr_status cr_module_create(cr_program *p, int flags, cr_module **out);
CR_API void cr_module_retain(cr_module *m);
CR_API void cr_module_release(cr_module *m); /* NULL is legal */
CR_API cr_program *cr_module_program(const cr_module *m); /* borrowed */
CR_API cr_tensor *cr_module_tensor(const cr_module *m, const char *name); /* this instance's; borrowed; NULL: absent */
CR_API bool cr_module_is_stateful(const cr_module *m);    /* do runs change parameters or buffers? */
CR_API size_t cr_module_input_count(const cr_module *m);  /* flat, constants included, as the signature has them */
CR_API size_t cr_module_result_count(const cr_module *m); /* flat outputs */
/* Inputs are checked by name before anything is written: kind, dtype, rank, sizes, ranges, specialised values,
 * guards. CR_ETYPE: another kind of value; CR_ERUNTIME: dtype, rank; CR_EGUARD: a size, a range, a specialised value,
 * a guard. (PyTorch's module fails with AssertionError where sizes, values and guards are concerned, and with whatever
 * the first op says of a dtype or rank, which may be nothing.) The message has the argument's name and path ("input
 * 'd_x' (args[0]['x'])"), what was expected and what came. Results are owned: cr_results_release. */
CR_API CR_NODISCARD cr_status cr_module_run(cr_module *m, const cr_arg *inputs, size_t ninputs, cr_arg *results,
                                            size_t nresults);

#ifdef __cplusplus
}
#endif
#endif
