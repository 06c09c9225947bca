/* eval_patterns.c: the instructions of `match`. */
#include "capture/evaluate.h"

#include "python/py.h"

#define HANDLER(name) int cr_do_##name(cr_capture *c, cr_call_frame *f, const cr_instruction *i)

static PyTypeObject *class_of(PyObject *value) {
    return cr_is_token(value) ? Py_TYPE(cr_real(value)) : cr_class_of_open(value);
}

static int has_flag(cr_call_frame *f, unsigned long flag) {
    PyObject *subject = cr_peek(f, 1);
    return cr_push(f, PyBool_FromLong(PyType_HasFeature(class_of(subject), flag))), 0;
}
HANDLER(MATCH_MAPPING) { return (void)c, (void)i, has_flag(f, Py_TPFLAGS_MAPPING); }
HANDLER(MATCH_SEQUENCE) { return (void)c, (void)i, has_flag(f, Py_TPFLAGS_SEQUENCE); }

/* A name or key twice in a pattern is an error of its own, which CPython raises. */
static int refuse_twice(cr_capture *c, PyObject *a, Py_ssize_t na, PyObject *b) {
    PyObject *seen = PySet_New(NULL);
    int failed = seen ? 0 : -1;
    for (Py_ssize_t k = 0; !failed && k < na + PyTuple_GET_SIZE(b); k++)
        failed = PySet_Add(seen, k < na ? PyTuple_GET_ITEM(a, k) : PyTuple_GET_ITEM(b, k - na));
    if (!failed && PySet_GET_SIZE(seen) != na + PyTuple_GET_SIZE(b))
        failed = cr_break(c, "a pattern has something twice");
    Py_XDECREF(seen);
    return failed;
}

/* Stack: the subject, the keys. On top: what it has under them, or None. */
HANDLER(MATCH_KEYS) {
    (void)i;
    PyObject *keys = cr_peek(f, 1), *subject = cr_operand(c, cr_peek(f, 2)), *found = NULL;
    Py_ssize_t n = PyTuple_GET_SIZE(keys);
    if (!subject || refuse_twice(c, NULL, 0, keys)) return Py_XDECREF(subject), -1;
    if (!PyDict_CheckExact(subject)) {
        Py_DECREF(subject);
        return cr_break(c, "keys of an object of class %s are matched", class_of(cr_peek(f, 2))->tp_name);
    }
    found = PyTuple_New(n);
    for (Py_ssize_t k = 0; found && k < n; k++) {
        PyObject *value = PyDict_GetItemWithError(subject, PyTuple_GET_ITEM(keys, k));
        if (value) PyTuple_SET_ITEM(found, k, Py_NewRef(value));
        else Py_SETREF(found, PyErr_Occurred() ? NULL : Py_NewRef(Py_None));
        if (found == Py_None) break;
    }
    Py_DECREF(subject);
    return found ? cr_push(f, found), 0 : -1;
}

/* Attributes number [0, n) by position: the names are the class's. New reference: a tuple; NULL: break. */
static PyObject *positional_names(cr_capture *c, cr_call_frame *f, PyObject *type, Py_ssize_t n) {
    PyObject *key = PyUnicode_InternFromString("__match_args__"), *names = NULL;
    int has = key ? cr_look_up(c, f, type, key, &names) : -1;
    Py_XDECREF(key);
    if (has == 1 && PyTuple_CheckExact(names) && PyTuple_GET_SIZE(names) >= n) return names;
    Py_XDECREF(names);
    if (has >= 0) cr_break(c, "a class without enough __match_args__ is matched by position");
    return NULL;
}

/* Appends an attribute of the subject. 1; 0: it has none; -1. */
static int take(cr_capture *c, cr_call_frame *f, PyObject *subject, PyObject *name, PyObject *found) {
    PyObject *value = NULL;
    if (!PyUnicode_CheckExact(name)) return cr_break(c, "__match_args__ holds something else than names");
    PyObject *key = Py_NewRef(name);
    PyUnicode_InternInPlace(&key);
    int has = cr_look_up(c, f, subject, key, &value);
    Py_DECREF(key);
    if (has == 1 && PyList_Append(found, value)) has = -1;
    Py_XDECREF(value);
    return has;
}

/* 1: `found` has the attributes; 0: no match; -1. */
static int match(cr_capture *c, cr_call_frame *f, PyObject *subject, PyObject *type, Py_ssize_t n, PyObject *names,
                 PyObject *found) {
    PyObject *real = cr_is_token(type) ? cr_real(type) : type, *positions = NULL;
    if (!PyType_Check(real)) return cr_break(c, "something that is no class is matched");
    int is = c->plain ? PyObject_IsInstance(subject, type) : cr_is_subclass(c, class_of(subject), type);
    if (is < 1) return is;
    if (n == 1 && PyType_HasFeature((PyTypeObject *)real, _Py_TPFLAGS_MATCH_SELF)) {
        if (PyList_Append(found, subject)) return -1;
    } else if (n) {
        if (!(positions = positional_names(c, f, type, n))) return -1;
        if (refuse_twice(c, positions, n, names)) return Py_DECREF(positions), -1;
        for (Py_ssize_t k = 0; is == 1 && k < n; k++)
            is = take(c, f, subject, PyTuple_GET_ITEM(positions, k), found);
        Py_DECREF(positions);
    }
    for (Py_ssize_t k = 0; is == 1 && k < PyTuple_GET_SIZE(names); k++)
        is = take(c, f, subject, PyTuple_GET_ITEM(names, k), found);
    return is;
}

/* Stack: the subject, the class, names of attributes. In their place: the attributes, or None. */
HANDLER(MATCH_CLASS) {
    PyObject *names = cr_pop(f), *type = cr_pop(f), *subject = cr_pop(f), *found = PyList_New(0), *result = NULL;
    if (found) {
        int is = match(c, f, subject, type, i->arg, names, found);
        if (is >= 0) result = is ? PyList_AsTuple(found) : Py_NewRef(Py_None);
    }
    Py_XDECREF(found);
    Py_DECREF(names);
    Py_DECREF(type);
    Py_DECREF(subject);
    return result ? cr_push(f, result), 0 : -1;
}
