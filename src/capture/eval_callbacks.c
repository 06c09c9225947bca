/* eval_callbacks.c: what C code calls of the program's: the key of sorted(), the function of map(), __next__ of an
 * object that it goes through; functools.partial, which calls in its turn; operator.itemgetter and its like.
 *
 * C code gets an object in their place; calling that evaluates the function. It lives no longer than the capture. */
#include "capture/evaluate.h"

#include "python/py.h"

#include <string.h>

typedef struct callback { PyObject_HEAD cr_capture *capture; PyObject *function; } callback;

static void callback_dealloc(PyObject *self) {
    Py_XDECREF(((callback *)self)->function);
    PyObject_Free(self);
}

static PyObject *callback_call(PyObject *self, PyObject *args, PyObject *kwargs) {
    callback *b = (callback *)self;
    cr_capture *c = b->capture;
    Py_ssize_t n = PyTuple_GET_SIZE(args), nkw = kwargs ? PyDict_GET_SIZE(kwargs) : 0, k = 0;
    PyObject *result = NULL, *names = nkw ? PyTuple_New(nkw) : NULL, *key, *value;
    PyObject **values = PyMem_Malloc((size_t)(n + nkw + 1) * sizeof *values);
    if (!values || (nkw && !names)) PyErr_NoMemory();
    else {
        for (; k < n; k++) values[k] = PyTuple_GET_ITEM(args, k);
        for (Py_ssize_t at = 0; nkw && PyDict_Next(kwargs, &at, &key, &value); values[k++] = value)
            PyTuple_SET_ITEM(names, k - n, Py_NewRef(key));
        result = cr_call_now(c, c->frame, b->function, values, n, names);
    }
    PyMem_Free(values);
    Py_XDECREF(names);
    return result ? result : cr_fail_in_c(c);
}

PyTypeObject cr_callback_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "cresset._C._Callback",
    .tp_basicsize = sizeof(callback),
    .tp_dealloc = callback_dealloc,
    .tp_call = callback_call,
    .tp_flags = Py_TPFLAGS_DEFAULT,
};

bool cr_may_be_called(PyObject *value) {
    PyObject *real = cr_is_token(value) ? cr_real(value) : value;
    return PyCallable_Check(real) && !cr_is_tensor_value(value);
}

PyObject *cr_callback_new(cr_capture *c, PyObject *function) {
    callback *b = PyObject_New(callback, &cr_callback_type);
    if (!b) return NULL;
    b->capture = c;
    b->function = Py_NewRef(function);
    return (PyObject *)b;
}

/* ---- iterators in Python ---- */

typedef struct iterator { PyObject_HEAD cr_capture *capture; PyObject *object; } iterator;

static void iterator_dealloc(PyObject *self) {
    Py_XDECREF(((iterator *)self)->object);
    PyObject_Free(self);
}

static PyObject *iterator_next(PyObject *self) {
    iterator *it = (iterator *)self;
    cr_capture *c = it->capture;
    PyObject *item = NULL;
    int r = cr_call_special_now(c, c->frame, it->object, "__next__", NULL, 0, &item);
    if (!r) return item;
    if (r < 0 && cr_catch(c, PyExc_StopIteration)) return NULL;
    return cr_fail_in_c(c);
}

PyTypeObject cr_iterator_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "cresset._C._Iterator",
    .tp_basicsize = sizeof(iterator),
    .tp_dealloc = iterator_dealloc,
    .tp_iter = PyObject_SelfIter,
    .tp_iternext = iterator_next,
    .tp_flags = Py_TPFLAGS_DEFAULT,
};

PyObject *cr_iterator_new(cr_capture *c, PyObject *object) {
    PyObject *hint = PyUnicode_InternFromString("__length_hint__");
    bool asks = hint && _PyType_Lookup(Py_TYPE(cr_real(object)), hint);
    Py_XDECREF(hint);
    if (asks) return cr_break(c, "an iterator has __length_hint__()"), NULL;
    iterator *it = PyObject_New(iterator, &cr_iterator_type);
    if (!it) return NULL;
    it->capture = c;
    it->object = Py_NewRef(object);
    return (PyObject *)it;
}

/* ---- functools.partial: made here it is one that holds values ---- */

enum { FUNCTION = sizeof(PyObject), ARGUMENTS = FUNCTION + sizeof(void *), KEYWORDS = ARGUMENTS + sizeof(void *) };

bool cr_is_partial_type(const PyTypeObject *type) { return !strcmp(type->tp_name, "functools.partial"); }

int cr_make_partial(cr_call_frame *f, PyTypeObject *type, const cr_arguments *a) {
    PyObject *made = PyObject_Vectorcall((PyObject *)type, a->at, (size_t)a->n, a->kwnames);
    return made ? cr_push(f, made), 0 : -1;
}

PyObject *cr_part_of_partial(PyObject *partial, int k) {
    return cr_read_now(CR_READ_FIELD, partial, NULL, k == 0 ? FUNCTION : k == 1 ? ARGUMENTS : KEYWORDS);
}

/* Its part, as a value. New reference. */
static PyObject *part_of(cr_capture *c, PyObject *partial, int offset) {
    if (!cr_is_token(partial)) return Py_NewRef(cr_read_now(CR_READ_FIELD, partial, NULL, offset));
    PyObject *value = cr_wrap_read(c, CR_READ_FIELD, cr_source_of(partial), cr_real(partial), NULL, offset);
    if (value && offset == KEYWORDS) Py_SETREF(value, cr_operand(c, value));
    return value;
}

int cr_call_partial(cr_capture *c, cr_call_frame *f, PyObject *partial, const cr_arguments *a) {
    PyObject *function = part_of(c, partial, FUNCTION), *args = function ? part_of(c, partial, ARGUMENTS) : NULL;
    PyObject *kwargs = args ? part_of(c, partial, KEYWORDS) : NULL, *all = NULL, *key, *names = NULL;
    PyObject **values = NULL, *value;
    int r = -1;
    if (!kwargs || !PyTuple_CheckExact(args) || !PyDict_CheckExact(kwargs) || !(all = PyDict_Copy(kwargs))) goto out;
    for (Py_ssize_t k = 0; a->kwnames && k < PyTuple_GET_SIZE(a->kwnames); k++)
        if (PyDict_SetItem(all, PyTuple_GET_ITEM(a->kwnames, k), a->at[a->n + k])) goto out;
    Py_ssize_t n = PyTuple_GET_SIZE(args), nkw = PyDict_GET_SIZE(all), k = 0;
    names = nkw ? PyTuple_New(nkw) : NULL;
    values = PyMem_Malloc((size_t)(n + a->n + nkw + 1) * sizeof *values);
    if (!values || (nkw && !names)) goto out;
    for (Py_ssize_t i = 0; i < n; i++) values[k++] = PyTuple_GET_ITEM(args, i);
    for (Py_ssize_t i = 0; i < a->n; i++) values[k++] = a->at[i];
    for (Py_ssize_t p = 0, i = 0; PyDict_Next(all, &p, &key, &value); i++) {
        if (!PyUnicode_CheckExact(key)) goto out;
        PyTuple_SET_ITEM(names, i, Py_NewRef(key));
        values[k++] = value;
    }
    r = cr_call_value(c, f, function, values, n + a->n, names);
out:
    if (r < 0 && !PyErr_Occurred() && !c->reason) cr_break(c, "a functools.partial is called that was changed");
    PyMem_Free(values);
    Py_XDECREF(names);
    Py_XDECREF(all);
    Py_XDECREF(function);
    Py_XDECREF(args);
    Py_XDECREF(kwargs);
    return r;
}

/* ---- operator.itemgetter, attrgetter, methodcaller: what they were made with never changes ---- */

bool cr_is_getter_type(const PyTypeObject *type) {
    return !strcmp(type->tp_name, "operator.itemgetter") || !strcmp(type->tp_name, "operator.attrgetter") ||
           !strcmp(type->tp_name, "operator.methodcaller");
}

int cr_make_getter(cr_capture *c, cr_call_frame *f, PyTypeObject *type, const cr_arguments *a) {
    Py_ssize_t total = a->n + (a->kwnames ? PyTuple_GET_SIZE(a->kwnames) : 0);
    for (Py_ssize_t k = 0; k < total; k++)
        if (!cr_is_constant(a->at[k])) return cr_break(c, "an %s is made of no constants", type->tp_name);
    PyObject *made = PyObject_Vectorcall((PyObject *)type, a->at, (size_t)a->n, a->kwnames);
    return made ? cr_push(f, made), 0 : -1;
}

static PyObject *item(cr_capture *c, cr_call_frame *f, PyObject *value, PyObject *key) {
    static const cr_instruction subscript;
    int top = f->top;
    cr_push(f, Py_NewRef(value));
    cr_push(f, Py_NewRef(key));
    if (cr_do_BINARY_SUBSCR(c, f, &subscript) || (c->frame != f && cr_run_until(c, f))) return NULL;
    return f->top == top + 1 ? cr_pop(f) : NULL;
}

/* `a.b.c` of a value. */
static PyObject *attribute(cr_capture *c, cr_call_frame *f, PyObject *value, PyObject *path) {
    PyObject *dot = PyUnicode_FromString("."), *names = dot ? PyUnicode_Split(path, dot, -1) : NULL;
    Py_XDECREF(dot);
    if (!names) return NULL;
    Py_INCREF(value);
    for (Py_ssize_t k = 0; value && k < PyList_GET_SIZE(names); k++) {
        PyObject *name = Py_NewRef(PyList_GET_ITEM(names, k)), *next = NULL;
        PyUnicode_InternInPlace(&name);
        if (!cr_look_up(c, f, value, name, &next)) cr_missing(c, value, name);
        Py_DECREF(name);
        Py_SETREF(value, next);
    }
    Py_DECREF(names);
    return value;
}

static PyObject *method(cr_capture *c, cr_call_frame *f, PyObject *value, PyObject *parts) {
    PyObject *bound = attribute(c, f, value, PyTuple_GET_ITEM(parts, 0));
    PyObject *const *args = ((PyTupleObject *)parts)->ob_item + 1;
    PyObject *result = bound ? cr_call_now(c, f, bound, args, PyTuple_GET_SIZE(parts) - 1, NULL) : NULL;
    Py_XDECREF(bound);
    return result;
}

int cr_call_getter(cr_capture *c, cr_call_frame *f, PyObject *getter, const cr_arguments *a) {
    PyObject *real = cr_is_token(getter) ? cr_real(getter) : getter, *result = NULL;
    if (cr_is_token(getter) && cr_guard_object(&c->guards, cr_source_of(getter), CR_HOLDS_IS, real)) return -1;
    PyObject *reduced = PyObject_CallMethod(real, "__reduce__", NULL);
    PyObject *parts = reduced ? PyTuple_GET_ITEM(reduced, 1) : NULL;
    const char *name = Py_TYPE(real)->tp_name;
    bool usual = parts && PyTuple_GET_ITEM(reduced, 0) == (PyObject *)Py_TYPE(real) && cr_is_constant(parts);
    if (!usual || a->n != 1 || a->kwnames) {
        Py_XDECREF(reduced);
        return PyErr_Occurred() ? -1 : cr_break(c, "an object of class %s is called", name);
    }
    Py_ssize_t n = PyTuple_GET_SIZE(parts);
    PyObject *(*get)(cr_capture *, cr_call_frame *, PyObject *, PyObject *) = strstr(name, "item") ? item : attribute;
    if (strstr(name, "method")) result = method(c, f, a->at[0], parts);
    else if (n == 1) result = get(c, f, a->at[0], PyTuple_GET_ITEM(parts, 0));
    else result = PyTuple_New(n);
    for (Py_ssize_t k = 0; n > 1 && !strstr(name, "method") && result && k < n; k++) {
        PyObject *one = get(c, f, a->at[0], PyTuple_GET_ITEM(parts, k));
        if (one) PyTuple_SET_ITEM(result, k, one);
        else Py_CLEAR(result);
    }
    Py_DECREF(reduced);
    return result ? cr_push(f, result), 0 : -1;
}
