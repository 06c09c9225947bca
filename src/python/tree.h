/* tree.h: pytrees on the Python side (tree.c), for the files that show specs of programs. */
#ifndef CR_PY_TREE_H
#define CR_PY_TREE_H

#include "python/py.h"
#include "trace/tree.h"

int cr_py_tree_init(PyObject *module);
/* The TreeSpec (cresset.utils._pytree) of a spec of an archive; None for NULL. Its methods do the rest:
 * flatten(value, root) gives the leaves or a ValueError naming the place; unflatten(leaves); paths(root). Types nobody
 * has registered become structures of that name; nothing is imported and nothing of the archive is called. */
PyObject *cr_py_tree_wrap(const cr_tree *t);

#endif
