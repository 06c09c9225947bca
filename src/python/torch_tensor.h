/* torch_tensor.h: PyTorch's tensors, read and made without linking PyTorch.
 *
 * Everything is told by Python (cresset/_torch/crossing.py) once torch is imported: types, the capsule of DLPack's C
 * functions, a function that allocates, and where in a tensor's memory its numbers lie, if that was found out and
 * verified. Three ways of reading, of which the last always works: by the offsets found (6 ns), by DLPack's C functions
 * (50 ns and the question for a lazy minus), by __dlpack__ (microseconds). All of it runs under the GIL. */
#ifndef CR_PY_TORCH_TENSOR_H
#define CR_PY_TORCH_TENSOR_H

#include "python/dlpack.h"
#include "python/py.h"

#include "cresset/abi.h"

/* A tensor as compiled models take it. Sizes, strides and data are borrowed from the object, or from *kept (a new
 * reference, NULL where there is none): a copy without lazy bits. 0; -1: exception, when it is no plain strided
 * tensor on the CPU. */
int cr_torch_read(PyObject *o, cresset_value *out, PyObject **kept);
/* The same by the offsets found, without calling anything; false: they do not say all of it. */
bool cr_torch_peek(PyObject *o, cresset_value *out);
/* Is its memory what its elements are, without a minus or conjugation to be carried out? Never fails. */
bool cr_torch_is_plain(PyObject *o);
/* How often it was written, by what counts that; 0 of inference tensors, which do not. -1: exception. */
int cr_torch_version(PyObject *o, uint64_t *out);
PyObject *cr_torch_detached(PyObject *o); /* another tensor on the same memory. NULL: exception */
/* A tensor of ours on memory that is somebody else's, who must outlive it. And is it such a one? */
CR_NODISCARD cr_status cr_torch_tensor(const cresset_value *v, cr_tensor **out);
bool cr_torch_is_borrowed(const cr_tensor *t);
/* Memory of torch's own, not filled; `sizes` and `strides` are tuples. NULL: exception. */
PyObject *cr_torch_empty(PyObject *sizes, PyObject *strides, int dtype);
/* A tensor of ours as one of torch's, on the same memory, which then cannot be resized. NULL: exception. */
PyObject *cr_torch_give(cr_tensor *t);
PyObject *cr_torch_dtype(int dtype); /* torch's object; borrowed; NULL: torch has none */
PyObject *cr_torch_numbers(const int64_t *at, int n); /* a tuple: sizes, strides */
int cr_py_torch_tensor_init(PyObject *module);
int cr_py_torch_graph_init(PyObject *module); /* torch_graph.c */
int cr_py_torch_sizes_init(PyObject *module); /* torch_sizes.c */
int cr_py_torch_parts_init(PyObject *module); /* torch_parts.c */
int cr_py_torch_function_init(PyObject *module); /* torch_function.c */
int cr_py_torch_frontend_init(PyObject *module); /* frontend_torch.c */

#endif
