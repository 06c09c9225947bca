/* program.h: what the files of exported programs (program_type.c) and compiled ones (native_type.c) share. */
#ifndef CR_PY_PROGRAM_H
#define CR_PY_PROGRAM_H

#include "export/program.h"
#include "python/py.h"

/* Borrowed; NULL when it is no such object (no exception). */
cr_program *cr_py_program_get(PyObject *o);
cr_module *cr_py_module_get(PyObject *o);
PyObject *cr_py_program_new(cr_program *p); /* consumes the reference */
/* The kinds' names in Python ("USER_INPUT"); -1: there is no such kind. */
int cr_py_input_kind(const char *name);
int cr_py_output_kind(const char *name);
/* A leaf of a call: what ops take, and arrays of others through DLPack without copying. The frame keeps what was made
 * here. -1: exception. */
int cr_py_leaf(cr_py_frame *f, PyObject *o, cr_arg *out);
/* The names that a _Tracer has given to the nodes; NULL for any other object, and before it has finished. Borrowed. */
cr_names *cr_py_tracer_names(PyObject *o);
/* Flat results as a list; consumes them. */
PyObject *cr_py_results_list(cr_env *env, cr_arg *results, size_t n);

/* Program._decompose(table, record); None, or NULL with an exception. */
PyObject *cr_py_decompose(cr_program *p, PyObject *args, cr_program **out);

#endif
