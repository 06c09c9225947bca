/* results.c: what an op gave back, as Python objects.
 *
 * One result is itself, several are a tuple. Functions and methods whose schema names every result give a structure
 * with those fields (cresset.return_types.max: values, indices); its type is made once per op. Tensor[] results are a
 * tuple from functions and methods and a list from cresset.ops, as in PyTorch. */
#include "python/py.h"

#include <structmember.h>

static PyTypeObject **return_types; /* process: by op id */
static size_t return_type_count; /* process */
static PyObject *return_type_names; /* once: dict for cresset.return_types */

static PyObject *complex_object(const double *c) { return PyComplex_FromDoubles(c[0], c[1]); }

PyObject *cr_py_from_arg(cr_arg *a, bool lists) {
    PyObject *o = NULL;
    switch ((cr_arg_kind)a->kind) {
    case CR_ARG_TENSOR:
        o = cr_frontend_wrap(a->u.t);
        *a = cr_arg_none();
        return o;
    case CR_ARG_LIST: {
        o = lists ? PyList_New(a->n) : PyTuple_New(a->n);
        for (uint32_t i = 0; o && i < a->n; i++) {
            PyObject *item = cr_py_from_arg((cr_arg *)&a->u.list[i], lists);
            if (!item) Py_CLEAR(o);
            else if (lists) PyList_SET_ITEM(o, i, item);
            else PyTuple_SET_ITEM(o, i, item);
        }
        cr_results_release(a, 1);
        return o;
    }
    case CR_ARG_INT: o = cr_py_dim(cr_ambient_get()->mode.env, a->u.i); break;
    case CR_ARG_FLOAT: o = PyFloat_FromDouble(a->u.f); break;
    case CR_ARG_BOOL: o = PyBool_FromLong(a->u.i != 0); break;
    case CR_ARG_COMPLEX: o = complex_object(a->u.c); break;
    case CR_ARG_STR: o = PyUnicode_FromStringAndSize(a->u.s, a->n); break;
    case CR_ARG_DTYPE:
    case CR_ARG_LAYOUT:
    case CR_ARG_FORMAT:
    case CR_ARG_DEVICE: o = cr_frontend_cresset.show(a); break;
    case CR_ARG_NONE: o = Py_NewRef(Py_None); break;
    case CR_ARG_SYM: o = cr_py_sym_new(cr_ambient_get()->mode.env, *a); break;
    default: PyErr_Format(PyExc_NotImplementedError, "a result of argument kind %d has no Python object", a->kind);
    }
    cr_results_release(a, 1);
    return o;
}

/* cresset.return_types.max(
 * values=tensor(...),
 * indices=tensor(...)) */
static PyObject *structure_repr(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    PyObject *text = PyUnicode_FromFormat("%s(\n", type->tp_name);
    Py_ssize_t n = PyTuple_GET_SIZE(self);
    for (Py_ssize_t i = 0; text && i < n; i++) {
        PyObject *part = PyUnicode_FromFormat("%s=%R%s", type->tp_members[i].name, PyTuple_GET_ITEM(self, i),
                                              i + 1 < n ? ",\n" : ")");
        PyUnicode_Append(&text, part);
        Py_XDECREF(part);
    }
    return text;
}

static PyTypeObject *structure_make(const cr_op *op) {
    const cr_schema *s = &op->schema;
    PyStructSequence_Field fields[17] = { { NULL, NULL } };
    for (uint16_t i = 0; i < s->nreturns; i++) fields[i].name = s->returns[i].name;
    char *name = NULL;
    cr_str text;
    cr_str_init(&text);
    cr_str_addf(&text, "cresset.return_types.%s%s", s->name, op->variant == CR_OUT ? "_out" : "");
    if (cr_str_take(&text, &name)) { /* the type points to its name for ever */
        PyErr_NoMemory();
        return NULL;
    }
    PyStructSequence_Desc desc = { name, "Named results of an op.", fields, s->nreturns };
    PyTypeObject *type = PyStructSequence_NewType(&desc);
    if (!type) return NULL;
    type->tp_repr = structure_repr;
    const char *last = strrchr(name, '.') + 1;
    if (!PyDict_GetItemString(return_type_names, last) &&
        PyDict_SetItemString(return_type_names, last, (PyObject *)type))
        Py_CLEAR(type);
    return type;
}

/* The structure type of an op's results; NULL without an exception when they are a plain tuple. */
static PyTypeObject *structure_of(const cr_op *op) {
    const cr_schema *s = &op->schema;
    if (s->nreturns < 2 || s->nreturns > 16) return NULL;
    for (uint16_t i = 0; i < s->nreturns; i++)
        if (!s->returns[i].name[0]) return NULL;
    if (op->id >= return_type_count) {
        size_t n = CR_MAX((size_t)op->id + 1, cr_op_count());
        PyTypeObject **grown = PyMem_Realloc(return_types, n * sizeof *grown);
        if (!grown) {
            PyErr_NoMemory();
            return NULL;
        }
        memset(grown + return_type_count, 0, (n - return_type_count) * sizeof *grown);
        return_types = grown;
        return_type_count = n;
    }
    if (return_types[op->id]) return return_types[op->id];
    PyTypeObject *made = structure_make(op); /* Python may run meanwhile, and another thread make it, too */
    if (return_types[op->id]) Py_XDECREF(made);
    else return_types[op->id] = made;
    return return_types[op->id];
}

PyObject *cr_py_results(const cr_op *op, cr_arg *results, cr_py_form form) {
    uint16_t n = op->schema.nreturns;
    if (op->schema.varargs_returns) return cr_py_from_arg(&results[0], false); /* as many as there are */
    bool lists = form == CR_PY_PACKET || form == CR_PY_OVERLOAD;
    if (n == 1) return cr_py_from_arg(&results[0], lists);
    if (n == 0) Py_RETURN_NONE;
    PyTypeObject *type = lists ? NULL : structure_of(op);
    PyObject *o = PyErr_Occurred() ? NULL : type ? PyStructSequence_New(type) : PyTuple_New(n);
    for (uint16_t i = 0; o && i < n; i++) {
        PyObject *item = cr_py_from_arg(&results[i], lists);
        if (!item) Py_CLEAR(o);
        else if (type) PyStructSequence_SET_ITEM(o, i, item);
        else PyTuple_SET_ITEM(o, i, item);
    }
    if (!o) cr_results_release(results, n);
    return o;
}

int cr_py_results_init(PyObject *module) {
    return_type_names = PyDict_New();
    return return_type_names ? PyModule_AddObjectRef(module, "_return_types", return_type_names) : -1;
}
