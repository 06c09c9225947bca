/* walk_graphs.h: backward graphs that are captured at run time, as Python has them. */
#ifndef CR_PY_WALK_GRAPHS_H
#define CR_PY_WALK_GRAPHS_H

#include "python/py.h"

#include "autograd/walk_graphs.h"

cr_walk_graphs *cr_py_walk_graphs(PyObject *o); /* borrowed; NULL: it is no _WalkGraphs */
/* Something that can be called on a graph's inputs as code; retained. CR_ETYPE: it cannot. (aot_type.c) */
cr_status cr_py_code(PyObject *made, cr_aot_code *out);
int cr_py_walk_graphs_init(PyObject *module);

#endif
