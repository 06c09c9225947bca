/* tree_internal.h: what a TreeSpec is, for tree.c (the type, flattening, building, the registry) and tree_fit.c (a
 * value against a spec). */
#ifndef CR_PY_TREE_INTERNAL_H
#define CR_PY_TREE_INTERNAL_H

#include "python/tree.h"

enum { LEAF, TUPLE, LIST, DICT, ORDERED_DICT, DEFAULT_DICT, NAMEDTUPLE, DEQUE, CUSTOM, PLAIN };
/* What `type` and `extra` are:
 *   TUPLE, LIST             the type; NULL
 *   DICT, ORDERED_DICT      the type; a tuple of keys
 *   DEFAULT_DICT            the type; a tuple of keys, and the factory in `more`
 *   NAMEDTUPLE              collections.namedtuple; the class
 *   DEQUE                   the type; maxlen or None
 *   CUSTOM                  the type; the context
 *   PLAIN                   a class made for a name that nobody has registered; the context. `more`: tuple of field
 *   names */
typedef struct cr_py_spec {
    PyObject_VAR_HEAD
    PyObject *type, *extra, *more;
    Py_ssize_t nodes, leaves;
    uint8_t kind;
    PyObject *children[];
} spec;

#define SPEC(o) ((spec *)(o))

/* A registered type: this tuple. */
enum { FLATTEN, UNFLATTEN, SERIALIZED_NAME, TO_DUMPABLE, FROM_DUMPABLE, FLATTEN_WITH_KEYS, REGISTERED_FIELDS };

/* The kind of a value, -1 with an exception; *def: the registered functions of a CUSTOM one, borrowed. */
int cr__py_tree_kind(PyObject *o, PyObject **def);
/* What a registered type's flatten gives: a sequence of children and the context. New references. */
int cr__py_tree_call_flatten(PyObject *def, PyObject *o, PyObject **children, PyObject **context);
/* The keys of a dict as a tuple. */
PyObject *cr__py_tree_keys(PyObject *dict);
/* Names of the fields of a node that has some, a tuple; else NULL without an exception. */
PyObject *cr__py_tree_fields(const spec *s);
/* The last part of a type's name. */
const char *cr__py_tree_name(PyObject *type);

/* Where a walk stands: a chain on the C stack, whose outermost frame has the root's text. */
typedef struct place { const struct place *above; const spec *node; Py_ssize_t child; const char *root; } place;
void cr__py_tree_add_place(const place *at, cr_str *out);
/* Appends the leaves of `o` by the structure of `s`. `whole`: a leaf must not be a container; else whatever stands
 * there is taken. -1: ValueError "place: expected ..., got ...". */
int cr__py_tree_fit(const spec *s, PyObject *o, bool whole, PyObject *leaves, const place *at);

#endif
