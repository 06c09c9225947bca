/* eval_copies.c: copy.deepcopy() of what is known to the bottom: numbers, texts, functions, classes, and lists, tuples,
 * dicts and sets of those. The real one goes by addresses, which nobody guards. Tensors and objects are not copied
 * here: theirs is code of their classes. */
#include "capture/evaluate.h"

#include "python/py.h"

typedef struct copying {
    cr_capture *c;
    PyObject *known; /* dict: address -> copy */
    int depth;
    bool unknown;    /* there is something else in it */
} copying;

static PyObject *copy_of(copying *w, PyObject *value);

/* Itself, in a copy. */
static bool is_atom(PyObject *value) {
    PyObject *real = cr_is_token(value) && !cr_is_made(value) ? cr_real(value) : value;
    return cr_is_plain_constant(value) || cr_is_held_constant(value) || cr_is_open(value) || PyRange_Check(value) ||
           PyFunction_Check(real) || (PyType_Check(real) && Py_IS_TYPE(real, &PyType_Type));
}

static int fill_list(copying *w, PyObject *from, PyObject *to) {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(from); i++) {
        PyObject *item = copy_of(w, PyList_GET_ITEM(from, i));
        int failed = !item || PyList_Append(to, item);
        Py_XDECREF(item);
        if (failed) return -1;
    }
    return 0;
}

static int fill_dict(copying *w, PyObject *from, PyObject *to) {
    PyObject *key, *value;
    for (Py_ssize_t at = 0; PyDict_Next(from, &at, &key, &value);) {
        PyObject *item = cr_is_constant(key) ? copy_of(w, value) : NULL;
        w->unknown |= !cr_is_constant(key);
        int failed = !item || PyDict_SetItem(to, key, item);
        Py_XDECREF(item);
        if (failed) return -1;
    }
    return 0;
}

/* A tuple whose items are their own copies is its own, too. */
static PyObject *copy_tuple(copying *w, PyObject *tuple) {
    bool same = true;
    PyObject *made = PyTuple_New(PyTuple_GET_SIZE(tuple));
    for (Py_ssize_t i = 0; made && i < PyTuple_GET_SIZE(tuple); i++) {
        PyObject *item = copy_of(w, PyTuple_GET_ITEM(tuple, i));
        same &= item == PyTuple_GET_ITEM(tuple, i);
        if (item) PyTuple_SET_ITEM(made, i, item);
        else Py_CLEAR(made);
    }
    if (made && same) Py_SETREF(made, Py_NewRef(tuple));
    return made;
}

static PyObject *copy_container(copying *w, PyObject *value, PyObject *address) {
    if (PyTuple_CheckExact(value)) return copy_tuple(w, value);
    if (PyAnySet_CheckExact(value)) {
        if (!cr_is_constant(value)) return w->unknown = true, NULL;
        return PyFrozenSet_CheckExact(value) ? PyFrozenSet_New(value) : PySet_New(value);
    }
    bool list = PyList_CheckExact(value);
    if (!list && !PyDict_CheckExact(value)) return w->unknown = true, NULL;
    PyObject *made = list ? PyList_New(0) : PyDict_New();
    /* known before its items are copied, which may hold it */
    if (made && (PyDict_SetItem(w->known, address, made) || (list ? fill_list : fill_dict)(w, value, made)))
        Py_CLEAR(made);
    return made;
}

/* New reference; NULL: an exception, or unknown. */
static PyObject *copy_of(copying *w, PyObject *value) {
    if (is_atom(value)) return Py_NewRef(value);
    bool outside = cr_is_token(value) && !cr_is_made(value) && PyDict_CheckExact(cr_real(value));
    if (++w->depth > CR_MAX_NESTING || (cr_is_token(value) && !outside)) return w->unknown = true, NULL;
    PyObject *operand = outside ? cr_operand(w->c, value) : Py_NewRef(value);
    PyObject *address = operand ? PyLong_FromVoidPtr(operand) : NULL;
    PyObject *made = address ? Py_XNewRef(PyDict_GetItemWithError(w->known, address)) : NULL;
    if (address && !made && !PyErr_Occurred() && (made = copy_container(w, operand, address)) &&
        PyDict_SetItem(w->known, address, made))
        Py_CLEAR(made);
    Py_XDECREF(address);
    Py_XDECREF(operand);
    w->depth--;
    return made;
}

static bool is_text(PyObject *o, const char *text) {
    return o && PyUnicode_Check(o) && !PyUnicode_CompareWithASCIIString(o, text);
}

int cr_call_deepcopy(cr_capture *c, cr_call_frame *f, PyObject *token, const cr_arguments *a) {
    const PyFunctionObject *function = (PyFunctionObject *)cr_real(token);
    if (!is_text(function->func_module, "copy") || !is_text(function->func_qualname, "deepcopy") || a->n != 1 ||
        a->kwnames || c->plain)
        return 1;
    copying w = { .c = c, .known = PyDict_New() };
    PyObject *made = w.known ? copy_of(&w, a->at[0]) : NULL;
    Py_XDECREF(w.known);
    if (!made) return w.unknown ? 1 : -1;
    if (cr_guard_object(&c->guards, cr_source_of(token), CR_HOLDS_CODE, function->func_code))
        return Py_DECREF(made), -1;
    return cr_push(f, made), 0;
}
