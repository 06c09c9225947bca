/* autograd_type.h: what the tensor type needs of autograd_type.c: getters and methods of cresset.Tensor. */
#ifndef CR_PY_AUTOGRAD_TYPE_H
#define CR_PY_AUTOGRAD_TYPE_H

#include "autograd/autograd.h"
#include "python/py.h"

PyObject *cr_py_grad_fn(PyObject *self, void *unused);
PyObject *cr_py_output_nr(PyObject *self, void *unused);
PyObject *cr_py_register_hook(PyObject *self, PyObject *fn);
PyObject *cr_py_retain_grad(PyObject *self, PyObject *unused);

#endif
