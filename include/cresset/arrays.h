/* arrays.h: files of named arrays: NumPy's .npy and .npz, and safetensors.
 *
 *     cr_arrays *file;
 *     cr_tensor *t;
 *     if (cr_arrays_open("images.npy", &file)) return fail(cr_error_message());
 *     if (cr_arrays_get(file, 0, &t)) return fail(cr_error_message());
 *     cr_arg value = cr_arg_tensor(t);
 *     const char *name = "images";
 *     if (cr_arrays_write("copy.npz", CR_ARRAYS_BY_NAME, &name, &value, 1)) return fail(cr_error_message());
 *     cr_tensor_release(t);
 *     cr_arrays_release(file);
 *
 * Nothing is unpickled, ever. A file is mapped, not read: opening checks its structure (an .npz's checksums, too),
 * and cr_arrays_get makes the tensor. Refcounted; readable from many threads once open. Errors name the file or the
 * array. */
#ifndef CRESSET_ARRAYS_H
#define CRESSET_ARRAYS_H

#include "cresset/arg.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cr_arrays cr_arrays;
/* By the name's ending: .npy (one array, called ""), .npz, .safetensors. CR_EVALUE: another ending;
 * CR_EIO, CR_EFORMAT. */
CR_API CR_NODISCARD cr_status cr_arrays_open(const char *path, cr_arrays **out);
CR_API void cr_arrays_retain(cr_arrays *a);
CR_API void cr_arrays_release(cr_arrays *a); /* NULL is legal */
CR_API size_t cr_arrays_count(const cr_arrays *a);
CR_API const char *cr_arrays_name(const cr_arrays *a, size_t i); /* borrowed; NULL past the last */
CR_API bool cr_arrays_find(const cr_arrays *a, const char *name, size_t *out);
/* A tensor of its own memory, row-major. CR_EUNSUPPORTED: raw elements (NumPy's '|V2'), which have no dtype. */
CR_API CR_NODISCARD cr_status cr_arrays_get(const cr_arrays *a, size_t i, cr_tensor **out);

/* Writes tensors and numbers (arrays without dimensions) under their names; a .npy takes one, and its name is not
 * kept. The file appears whole or not at all. NumPy has no bfloat16, float8 or complex32: in .npy and .npz they
 * become float32 (complex64), which holds their values exactly. CR_EVALUE: an ending that says nothing, a .npy of
 * several, a name twice; CR_EUNSUPPORTED: a value that is no array, a dtype that the format does not have. */
enum { CR_ARRAYS_BY_NAME, CR_ARRAYS_NPY, CR_ARRAYS_NPZ, CR_ARRAYS_SAFETENSORS };
CR_API CR_NODISCARD cr_status cr_arrays_write(const char *path, int format, const char *const *names,
                                              const cr_arg *values, size_t n);

#ifdef __cplusplus
}
#endif
#endif
