/* capture.h: the parts of capture that add functions to cresset._C. */
#ifndef CR_CAPTURE_H
#define CR_CAPTURE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

int cr_decode_init(PyObject *module);   /* decode.c: code as instructions */
int cr_reentry_init(PyObject *module);  /* reentry.c: entering frames in the middle, for tests */
int cr_everything_init(PyObject *module); /* everything.c: every function captured, for tests */
int cr_disabled_init(PyObject *module); /* disabled.c: what runs as it is */
int cr_block_init(PyObject *module);    /* block.c: with optimize(...) */
int cr_reordered_init(PyObject *module); /* eval_reordered.c: calls behind the graph */
int cr_strict_init(PyObject *module);   /* strict.c: export through capture */
int cr_callable_init(PyObject *module); /* callable.c: what compile() returns */

#endif
