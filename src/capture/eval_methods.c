/* eval_methods.c: operators, comparisons, items and texts of objects whose class answers in Python.
 *
 * CPython's algorithm: the left one's method, the right one's reflected method (first, where its class is a subclass
 * that overrides it), and what NotImplemented leads to. The methods are inlined and run to their end at once, because
 * what comes next depends on what they give. */
#include "capture/evaluate.h"

#include "python/py.h"

#include <string.h>

/* Calls a special method in Python of a value. 1: *out; 0: it has none, or gave NotImplemented; -1. */
static int try_method(cr_capture *c, cr_call_frame *f, PyObject *self, const char *name, PyObject *other,
                      PyObject **out) {
    if (!cr_is_token(self)) return 0;
    int r = cr_call_special_now(c, f, self, name, &other, 1, out);
    if (r) return r < 0 ? -1 : 0;
    if (*out != Py_NotImplemented) return 1;
    Py_CLEAR(*out);
    return 0;
}

static PyTypeObject *class_of(PyObject *value) { return Py_TYPE(cr_is_token(value) ? cr_real(value) : value); }

static bool overrides(PyObject *b, PyObject *a, const char *name) {
    PyObject *key = PyUnicode_InternFromString(name);
    bool is = key && class_of(a) != class_of(b) && PyType_IsSubtype(class_of(b), class_of(a)) &&
              _PyType_Lookup(class_of(b), key) != _PyType_Lookup(class_of(a), key);
    Py_XDECREF(key);
    return is;
}

/* ---- operators ---- */

static const char *const names[] = { /* the order of CPython's NB_* */
    "add", "and", "floordiv", "lshift", "matmul", "mul", "mod", "or", "pow", "rshift", "sub", "truediv", "xor",
};

int cr_operator_by_method(cr_capture *c, cr_call_frame *f, int op, PyObject *a, PyObject *b, PyObject **out) {
    char name[24], reflected[24];
    int count = (int)CR_COUNT(names), r = 0;
    if (c->plain || (!cr_is_token(a) && !cr_is_token(b)) || op >= 2 * count) return 0;
    if (op >= count) {
        PyOS_snprintf(name, sizeof name, "__i%s__", names[op - count]);
        if ((r = try_method(c, f, a, name, b, out))) return r;
    }
    PyOS_snprintf(name, sizeof name, "__%s__", names[op % count]);
    PyOS_snprintf(reflected, sizeof reflected, "__r%s__", names[op % count]);
    bool first = overrides(b, a, reflected);
    if (first && (r = try_method(c, f, b, reflected, a, out))) return r;
    if ((r = try_method(c, f, a, name, b, out))) return r;
    return first || class_of(a) == class_of(b) ? 0 : try_method(c, f, b, reflected, a, out);
}

int cr_unary_by_method(cr_capture *c, cr_call_frame *f, const char *name, PyObject *value, PyObject **out) {
    if (c->plain || !cr_is_token(value)) return 0;
    int r = cr_call_special_now(c, f, value, name, NULL, 0, out);
    return r < 0 ? -1 : r ? 0 : 1;
}

/* ---- comparisons ---- */

static const char *const comparisons[] = { "__lt__", "__le__", "__eq__", "__ne__", "__gt__", "__ge__" };
static int const reflections[] = { Py_GT, Py_GE, Py_EQ, Py_NE, Py_LT, Py_LE };

/* Is it left to the object's identity whether it equals another? */
static bool goes_by_identity(PyObject *value) {
    if (cr_is_token(value)) return class_of(value)->tp_richcompare == PyBaseObject_Type.tp_richcompare;
    return false;
}
static bool never_equals_objects(PyObject *value) { /* nor compares itself with them */
    return cr_is_plain_constant(value) || value == Py_None || PyBool_Check(value);
}

/* object.__ne__ asks __eq__ in Python. 1: *out; 0: no such; -1. */
static int unequal_by_equal(cr_capture *c, cr_call_frame *f, PyObject *a, PyObject *b, PyObject **out) {
    int r = try_method(c, f, a, "__eq__", b, out);
    if (r < 1) return r;
    int truth = cr_truth(c, *out);
    Py_SETREF(*out, truth < 0 ? NULL : PyBool_FromLong(!truth));
    return truth < 0 ? -1 : 1;
}

static int compare(cr_capture *c, cr_call_frame *f, int op, PyObject *a, PyObject *b, PyObject **out) {
    PyObject *function = NULL;
    int own = cr_is_token(a) ? cr_class_special(c, a, comparisons[op], &function) : 0;
    Py_XDECREF(function);
    if (own < 0) return -1;
    return op == Py_NE && !own ? unequal_by_equal(c, f, a, b, out) : try_method(c, f, a, comparisons[op], b, out);
}

int cr_compare_by_method(cr_capture *c, cr_call_frame *f, int op, PyObject *a, PyObject *b, PyObject **out) {
    int r;
    if (c->plain || (!cr_is_token(a) && !cr_is_token(b))) return 0;
    if (cr_is_tensor_value(a) || cr_is_tensor_value(b)) return 0;
    bool first = overrides(b, a, comparisons[reflections[op]]);
    if (first && (r = compare(c, f, reflections[op], b, a, out))) return r;
    if ((r = compare(c, f, op, a, b, out))) return r;
    if (!first && (r = compare(c, f, reflections[op], b, a, out))) return r;
    if (op != Py_EQ && op != Py_NE) return 0;
    PyObject *method = NULL;
    for (int k = 0; k < 2; k++) { /* a class whose __eq__ has given NotImplemented, or that has none of its own */
        PyObject *value = k ? b : a;
        int has = cr_is_token(value) ? cr_class_special(c, value, "__eq__", &method) : 0;
        Py_CLEAR(method);
        if (has < 0) return -1;
        if (!has && !goes_by_identity(value) && !never_equals_objects(value)) return 0;
    }
    bool same = a == b;
    if (!same && cr_guard_differ(c, a, b)) return -1;
    *out = PyBool_FromLong(same == (op == Py_EQ));
    return 1;
}

/* ---- items ---- */

int cr_contains_by_method(cr_capture *c, cr_call_frame *f, PyObject *container, PyObject *item, int *found) {
    PyObject *answer = NULL;
    if (c->plain || !cr_is_token(container)) return 0;
    int r = cr_call_special_now(c, f, container, "__contains__", &item, 1, &answer);
    if (r) return r < 0 ? -1 : 0;
    *found = cr_truth(c, answer);
    Py_DECREF(answer);
    return *found < 0 ? -1 : 1;
}

int cr_set_item_by_method(cr_capture *c, cr_call_frame *f, PyObject *container, PyObject *key, PyObject *value) {
    PyObject *args[2] = { key, value };
    if (c->plain || !cr_is_token(container)) return 1;
    int r = cr_call_special(c, f, container, value ? "__setitem__" : "__delitem__", args, value ? 2 : 1);
    if (r == 0 && c->frame != f) c->frame->instead = CR_DELETED;
    return r;
}

/* ---- texts ---- */

/* An exception's, by its class in C: of its arguments. */
static PyObject *exception_text(cr_capture *c, PyObject *token, bool as_repr) {
    PyObject *real = cr_real(token), *args = PyObject_GetAttrString(real, "args");
    PyTypeObject *base = cr_class_in_c(Py_TYPE(real));
    PyObject *text = NULL;
    if (args && cr_is_constant(args)) text = as_repr ? base->tp_repr(real) : base->tp_str(real);
    else if (args) cr_break(c, "the text of an exception is asked for whose arguments are no constants");
    Py_XDECREF(args);
    return text;
}

PyObject *cr_text(cr_capture *c, cr_call_frame *f, PyObject *value, bool as_repr) {
    PyObject *text = NULL;
    if (c->plain || cr_is_constant(value)) return as_repr ? PyObject_Repr(value) : PyObject_Str(value);
    for (int k = as_repr; cr_is_token(value) && k < 2; k++) {
        int r = cr_call_special_now(c, f, value, k ? "__repr__" : "__str__", NULL, 0, &text);
        if (r < 0) return NULL;
        if (!r && PyUnicode_CheckExact(text)) return text;
        if (!r) return Py_DECREF(text), cr_break(c, "a text is asked for that is none"), NULL;
        if (cr_is_made(value) && PyExceptionInstance_Check(cr_real(value))) return exception_text(c, value, as_repr);
        if (!cr_has_special_of_object(value, "__str__")) break; /* object's asks for repr(), a class in C does not */
    }
    PyTypeObject *meta = cr_is_token(value) && PyType_Check(cr_real(value)) ? Py_TYPE(cr_real(value)) : NULL;
    if (meta && meta->tp_repr == PyType_Type.tp_repr && meta->tp_str == PyType_Type.tp_str)
        return PyObject_Repr(cr_real(value)); /* a class, which is guarded with its version */
    return cr_break(c, "the text of something that is no constant is asked for"), NULL;
}
