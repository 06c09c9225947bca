/* eval_signature.c: inspect.signature() of Python functions, as far as programs ask how many arguments one takes, or
 * whether it has one of a name.
 *
 * The real function goes through ids and objects that nobody guards. What it tells of a plain function is in the code,
 * which is guarded, unless the function carries another's signature: that it does not is guarded, too. */
#include "capture/evaluate.h"

#include "python/py.h"

/* A signature; or its parameters, of which nothing but the names is known. */
typedef struct signature_value { PyObject_HEAD PyObject *names; } signature_value;

static PyObject *names_of(PyObject *o) { return ((signature_value *)o)->names; }

static void signature_dealloc(PyObject *o) {
    Py_XDECREF(names_of(o));
    PyObject_Free(o);
}

static Py_ssize_t count_names(PyObject *o) { return PyTuple_GET_SIZE(names_of(o)); }

static int has_name(PyObject *o, PyObject *name) { return PySequence_Contains(names_of(o), name); }

static PyTypeObject signature_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "cresset._C._Signature",
    .tp_basicsize = sizeof(signature_value),
    .tp_dealloc = signature_dealloc,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
};

static PySequenceMethods parameters_sequence = { .sq_length = count_names, .sq_contains = has_name };
static PyTypeObject parameters_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "cresset._C._Parameters",
    .tp_basicsize = sizeof(signature_value),
    .tp_dealloc = signature_dealloc,
    .tp_as_sequence = &parameters_sequence,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
};

static PyObject *new_value(PyTypeObject *type, PyObject *names) { /* takes them over */
    if (!names || PyType_Ready(type)) return Py_XDECREF(names), NULL;
    signature_value *v = PyObject_New(signature_value, type);
    if (v) v->names = names;
    else Py_DECREF(names);
    return (PyObject *)v;
}

int cr_signature_attribute(cr_capture *c, PyObject *value, PyObject *name, PyObject **out) {
    if (!Py_IS_TYPE(value, &signature_type) || PyUnicode_CompareWithASCIIString(name, "parameters"))
        return cr_break(c, "the attribute '%U' of a signature is read", name);
    return (*out = new_value(&parameters_type, Py_NewRef(names_of(value)))) ? 1 : -1;
}

bool cr_is_signature(PyObject *value) {
    return Py_IS_TYPE(value, &signature_type) || Py_IS_TYPE(value, &parameters_type);
}

static bool is_text(PyObject *o, const char *text) {
    return o && PyUnicode_Check(o) && !PyUnicode_CompareWithASCIIString(o, text);
}

static bool asks_for_signature(PyObject *function) {
    const PyFunctionObject *f = (PyFunctionObject *)function;
    return is_text(f->func_qualname, "signature") && is_text(f->func_module, "inspect");
}

/* 1: it carries no other signature, which is guarded; 0: it does; -1. */
static int is_plain(cr_capture *c, cr_call_frame *f, PyObject *function) {
    static const char *const names[] = { "__wrapped__", "__signature__", "_partialmethod", "__partialmethod__" };
    for (size_t i = 0; i < CR_COUNT(names); i++) {
        PyObject *name = PyUnicode_InternFromString(names[i]), *found = NULL;
        int has = name ? cr_look_up(c, f, function, name, &found) : -1;
        Py_XDECREF(name);
        Py_XDECREF(found);
        if (has) return has < 0 ? -1 : 0;
    }
    return 1;
}

int cr_call_signature(cr_capture *c, cr_call_frame *f, PyObject *token, const cr_arguments *a) {
    if (!asks_for_signature(cr_real(token)) || a->n != 1 || a->kwnames) return 1;
    bool bound = PyMethod_Check(a->at[0]);
    PyObject *function = bound ? PyMethod_GET_FUNCTION(a->at[0]) : a->at[0];
    if (!cr_is_token(function) || !PyFunction_Check(cr_real(function))) return 1;
    PyObject *object = PyFunction_GET_CODE(cr_real(function)), *own = PyFunction_GET_CODE(cr_real(token));
    const PyCodeObject *code = (PyCodeObject *)object;
    int plain = bound && !code->co_argcount ? 0 : is_plain(c, f, function);
    if (plain < 1) return plain < 0 ? -1 : 1;
    if (cr_guard_object(&c->guards, cr_source_of(token), CR_HOLDS_CODE, own) ||
        cr_guard_object(&c->guards, cr_source_of(function), CR_HOLDS_CODE, object))
        return -1;
    int n = code->co_argcount + code->co_kwonlyargcount + !!(code->co_flags & CO_VARARGS) +
            !!(code->co_flags & CO_VARKEYWORDS);
    PyObject *all = PyCode_GetVarnames((PyCodeObject *)object);
    PyObject *value = all ? new_value(&signature_type, PyTuple_GetSlice(all, bound, n)) : NULL;
    Py_XDECREF(all);
    return value ? cr_push(f, value), 0 : -1;
}
