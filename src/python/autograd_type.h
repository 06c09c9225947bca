/* autograd_type.h: the tape as Python sees it: getters and methods of cresset.Tensor, and what autograd_type.c and
 * node_type.c need of each other. */
#ifndef CR_PY_AUTOGRAD_TYPE_H
#define CR_PY_AUTOGRAD_TYPE_H

#include "autograd/autograd.h"
#include "python/py.h"

PyObject *cr_py_grad_fn(PyObject *self, void *unused);
PyObject *cr_py_output_nr(PyObject *self, void *unused);
PyObject *cr_py_register_hook(PyObject *self, PyObject *fn);
PyObject *cr_py_register_hook_after(PyObject *self, PyObject *fn);
PyObject *cr_py_retain_grad(PyObject *self, PyObject *unused);

/* Python objects that the tape holds: given up under the GIL, shown to Python's collector. */
void cr_py_release_user(void *user);
int cr_py_traverse_user(void *user, cr_visit *visit, void *arg);

/* A handle with a number of its own; both may be NULL and be set later. */
PyObject *cr_py_handle_new(cr_grad_node *node, PyObject *tensor);
uint64_t cr_py_handle_id(PyObject *handle);

int cr_py_anomaly_init(PyObject *module);
int cr_py_saved_init(PyObject *module);
int cr_py_watch_init(PyObject *module);
int cr_py_nodes_init(PyObject *module);
/* The node of a Node; borrowed. NULL without an exception: it is none; with one: a function that recorded nothing. */
cr_grad_node *cr_py_node_of(PyObject *o);
/* The object of a node: of a function its context, else a Node, one as long as it lives. Takes over the reference. */
PyObject *cr_py_node_wrap(cr_grad_node *node);

#endif
