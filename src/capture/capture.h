/* capture.h: the parts of bytecode capture, each of which adds its functions to cresset._C. */
#ifndef CR_CAPTURE_H
#define CR_CAPTURE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

int cr_decode_init(PyObject *module);
int cr_reentry_init(PyObject *module);

#endif
