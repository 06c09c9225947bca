/* tensor.h: the Python object of a cresset.Tensor, for the files that make up Cresset's own library: the type, its
 * methods, attributes and operators, data in and out. Whatever serves tensors of any library asks frontend.h instead;
 * tools/lint.py looks that it does not include this.
 *
 * An object holds one reference to a cr_tensor; the tensor's `python` field is the borrowed way back, so that one
 * tensor is one Python object for as long as that object lives. */
#ifndef CR_PY_TENSOR_H
#define CR_PY_TENSOR_H

#include "python/py.h"

typedef struct cr_py_tensor {
    PyObject_HEAD cr_tensor *tensor; /* owned; never NULL once visible */
    PyObject *dict, *weakrefs;
} cr_py_tensor;
extern PyTypeObject *cr_py_tensor_type;
static inline bool cr_py_is_tensor(PyObject *o) {
    return Py_IS_TYPE(o, cr_py_tensor_type) || PyType_IsSubtype(Py_TYPE(o), cr_py_tensor_type);
}
static inline cr_tensor *cr_py_tensor_of(PyObject *o) { return ((cr_py_tensor *)o)->tensor; }
/* The Python object of a tensor; consumes the caller's reference to `t`, also on failure. */
PyObject *cr_py_wrap(cr_tensor *t);
/* A new object of a subclass for a tensor that has none yet; consumes the reference. */
PyObject *cr_py_wrap_as(PyTypeObject *type, cr_tensor *t);
extern PyMethodDef cr_py_tensor_methods[]; /* tensor_methods.c: what is not simply an op */
extern PyGetSetDef cr_py_tensor_attributes[]; /* tensor_attributes.c */
extern PyNumberMethods cr_py_tensor_number; /* operators.c */
PyObject *cr_py_tensor_richcompare(PyObject *a, PyObject *b, int op);
PyObject *cr_py_tensor_getitem(PyObject *self, PyObject *index); /* index.c */
int cr_py_tensor_setitem(PyObject *self, PyObject *index, PyObject *value);
extern PyBufferProcs cr_py_tensor_buffer; /* buffer.c */
PyObject *cr_py_tensor_dlpack(PyObject *self, PyObject *const *args, Py_ssize_t nargs,
                              PyObject *kwnames); /* dlpack.c */
PyObject *cr_py_tensor_dlpack_device(PyObject *self, PyObject *unused);

#endif
