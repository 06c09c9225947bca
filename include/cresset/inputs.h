/* inputs.h: arguments of a run by name, checked before the program sees them.
 *
 *     cr_program *program;
 *     cr_signature *s;
 *     cr_inputs *in;
 *     const cr_arg *args;
 *     size_t n;
 *     if (cr_program_load("model.pt2", NULL, 0, &program)) return fail(cr_error_message());
 *     if (cr_program_signature(program, &s)) return fail(cr_error_message());
 *     if (cr_inputs_create(s, &in)) return fail(cr_error_message());
 *     if (cr_inputs_set_file(in, "image", "images.npy")) return fail(cr_error_message());
 *     if (cr_inputs_args(in, &args, &n)) return fail(cr_error_message());
 *     cr_inputs_release(in);
 *     cr_signature_release(s);
 *     cr_program_release(program);
 *
 * Every message has the input's name, what was expected and what came: which is missing or unknown, dtype, rank,
 * fixed sizes, ranges of dynamic ones, sizes that must agree with another input's. What is set replaces what was
 * there; inputs that the export fixed need not be given. One thread at a time. */
#ifndef CRESSET_INPUTS_H
#define CRESSET_INPUTS_H

#include "cresset/program.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cr_inputs cr_inputs;
/* The signature is retained. */
CR_API CR_NODISCARD cr_status cr_inputs_create(cr_signature *s, cr_inputs **out);
CR_API void cr_inputs_release(cr_inputs *in); /* NULL is legal */

/* CR_ENOTFOUND: no input of that name; the message lists those there are. A tensor is retained and used as it is; of
 * a list or text nothing is accepted but what the export fixed. */
CR_API CR_NODISCARD cr_status cr_inputs_set(cr_inputs *in, const char *name, const cr_arg *value);
/* A .npy file. NumPy has no bfloat16, float8 or complex32: an input of such a dtype comes as float32 (complex64) and is
 * rounded to nearest, or as its raw bytes. */
CR_API CR_NODISCARD cr_status cr_inputs_set_file(cr_inputs *in, const char *name, const char *path);
/* Every array of a .npz file, by name. */
CR_API CR_NODISCARD cr_status cr_inputs_set_npz(cr_inputs *in, const char *path);
/* The example inputs that the archive holds. CR_EVALUE: it holds none, or they cannot be read. */
CR_API CR_NODISCARD cr_status cr_inputs_set_example(cr_inputs *in, const cr_program *program);
/* Normal numbers for floats; for integers, numbers from 0 to the example's largest (or 1). Sizes are the example's,
 * else the least that the ranges allow and that are neither 0 nor 1. `program` may be NULL: there is no example. */
CR_API CR_NODISCARD cr_status cr_inputs_set_random(cr_inputs *in, const cr_program *program, uint64_t seed);

/* All of them, in order, for cr_module_run or cr_native_run: borrowed until the next change. CR_ENOTFOUND: some are
 * missing, and the message names all of those; CR_EVALUE: one does not fit. */
CR_API CR_NODISCARD cr_status cr_inputs_args(cr_inputs *in, const cr_arg **args, size_t *n);

#ifdef __cplusplus
}
#endif
#endif
