/* convert.c: Python objects as cr_arg kinds.
 *
 * Conversion never looks at a schema: an object has one kind, and binding (src/ops/bind.c) decides what fits where. The
 * commonest kinds come first; nothing is allocated for calls without long lists. Converted arguments borrow from their
 * objects, which the caller keeps alive for the call. */
#include "python/py.h"

int cr_py_int64(PyObject *o, const char *what, int64_t *out) {
    PyObject *number = PyLong_Check(o) ? Py_NewRef(o) : PyNumber_Index(o);
    if (!number) return -1;
    int overflow = 0;
    long long value = PyLong_AsLongLongAndOverflow(number, &overflow);
    Py_DECREF(number);
    if (overflow) {
        PyErr_Format(PyExc_OverflowError, "%s: %R does not fit in 64 bits", what, o);
        return -1;
    }
    if (value == -1 && PyErr_Occurred()) return -1;
    *out = value;
    return 0;
}

static bool is_numpy(PyObject *o) { return !strncmp(Py_TYPE(o)->tp_name, "numpy.", 6); }
bool cr_py_is_ndarray(PyObject *o) {
    for (PyTypeObject *t = Py_TYPE(o); t; t = t->tp_base)
        if (!strcmp(t->tp_name, "numpy.ndarray")) return true;
    return false;
}
bool cr_py_is_numpy_scalar(PyObject *o) {
    return is_numpy(o) && Py_TYPE(o)->tp_as_number && Py_TYPE(o)->tp_as_number->nb_float && !cr_py_is_ndarray(o);
}

#if defined(__SANITIZE_ADDRESS__) /* which sees the end of each list only if nothing comes after it */
enum { POOLED = 0 };
#else
enum { POOLED = 1 };
#endif

static cr_arg *pool_take(cr_py_frame *f, size_t n) {
    if (POOLED && f->used + n <= CR_COUNT(f->pool)) {
        cr_arg *items = &f->pool[f->used];
        f->used += (uint32_t)n;
        return items;
    }
    cr_arg *items = cr_arena_alloc(&f->arena, n * sizeof *items);
    if (!items) cr_py_fail(CR_ENOMEM);
    return items;
}

static int set_int(cr_py_frame *f, PyObject *o, cr_arg *out) {
    int64_t value;
    if (cr_py_int64(o, "argument", &value)) return -1;
    const cr_call_mode *mode = cr_dim_is_plain(value) ? NULL : &cr_ambient_get()->mode;
    if (mode && (mode->fake || mode->recorder)) { /* such numbers stand for expressions there */
        PyErr_Format(PyExc_OverflowError, "%R: an integer below -2^62 cannot be part of a graph", o);
        return -1;
    }
    if (value > f->work) f->work = value; /* arange(n), zeros(n): a big number is likely a size */
    *out = cr_arg_int(value);
    return 0;
}

static int set_complex(cr_py_frame *f, double real, double imaginary, cr_arg *out) {
    double *parts = (double *)pool_take(f, 1);
    if (!parts) return -1;
    parts[0] = real;
    parts[1] = imaginary;
    *out = (cr_arg){ .kind = CR_ARG_COMPLEX, .given = CR_GIVEN_POSITIONAL, .u.c = parts };
    return 0;
}
_Static_assert(sizeof(cr_arg) == 2 * sizeof(double), "a complex number takes the room of one argument");

static int set_list(cr_py_frame *f, PyObject *o, cr_arg *out) {
    bool is_list = PyList_Check(o);
    Py_ssize_t n = is_list ? PyList_GET_SIZE(o) : PyTuple_GET_SIZE(o);
    cr_arg *items = pool_take(f, (size_t)n);
    if (!items) return -1;
    int64_t product = 1;
    for (Py_ssize_t i = 0; i < n; i++) {
        if (is_list && i >= PyList_GET_SIZE(o)) { /* an item's __index__ may have changed the list */
            PyErr_SetString(PyExc_RuntimeError, "list changed size during conversion");
            return -1;
        }
        PyObject *item = is_list ? PyList_GET_ITEM(o, i) : PyTuple_GET_ITEM(o, i);
        if (Py_EnterRecursiveCall(" while converting a list")) return -1;
        int r = cr_py_convert(f, item, &items[i]);
        Py_LeaveRecursiveCall();
        if (r) return r;
        if (items[i].kind == CR_ARG_TENSOR) f->has_lists = true;
        if (items[i].kind == CR_ARG_INT && __builtin_mul_overflow(product, items[i].u.i, &product)) product = INT64_MAX;
    }
    if (product > f->work) f->work = product;
    *out = (cr_arg){ .kind = CR_ARG_LIST, .given = CR_GIVEN_POSITIONAL, .n = (uint32_t)n, .u.list = items };
    return 0;
}

static int set_numpy_scalar(cr_py_frame *f, PyObject *o, cr_arg *out) {
    const char *name = Py_TYPE(o)->tp_name + 6;
    if (!strncmp(name, "bool", 4)) {
        *out = cr_arg_bool(PyObject_IsTrue(o) == 1);
        return 0;
    }
    if (!strncmp(name, "complex", 7) || !strncmp(name, "clongdouble", 11)) {
        Py_complex c = PyComplex_AsCComplex(o);
        if (c.real == -1 && PyErr_Occurred()) return -1;
        return set_complex(f, c.real, c.imag, out);
    }
    if (PyIndex_Check(o) &&
        (strstr(name, "int") || strstr(name, "long") || !strcmp(name, "byte") || !strcmp(name, "short")) &&
        strcmp(name, "longdouble"))
        return set_int(f, o, out);
    if (strncmp(name, "float", 5) && strcmp(name, "longdouble") && strcmp(name, "double") && strcmp(name, "half"))
        return 1;
    double value = PyFloat_AsDouble(o);
    if (value == -1 && PyErr_Occurred()) return -1;
    *out = cr_arg_float(value);
    return 0;
}

int cr_py_convert_slow(cr_py_frame *f, PyObject *o, cr_arg *out) {
    PyTypeObject *type = Py_TYPE(o);
    if (type == &PyLong_Type) return set_int(f, o, out);
    if (type == &PyFloat_Type) {
        *out = cr_arg_float(PyFloat_AS_DOUBLE(o));
        return 0;
    }
    if (o == Py_None) {
        *out = cr_arg_none();
        out->given = CR_GIVEN_POSITIONAL;
        return 0;
    }
    if (type == &PyBool_Type) {
        *out = cr_arg_bool(o == Py_True);
        return 0;
    }
    if (PyTuple_Check(o) || PyList_Check(o)) return set_list(f, o, out);
    const cr_frontend *fe;
    for (size_t i = 0; (fe = cr_frontend_at(i)); i++) {
        int r = fe->read(f, o, out);
        if (r <= 0) return r;
    }
    if (PyUnicode_Check(o)) {
        Py_ssize_t n;
        const char *text = PyUnicode_AsUTF8AndSize(o, &n);
        if (!text) return -1;
        *out = (cr_arg){ .kind = CR_ARG_STR, .given = CR_GIVEN_POSITIONAL, .n = (uint32_t)n, .u.s = text };
        return 0;
    }
    if (cr_py_sym_read(o, out) || cr_py_graph_read(o, out)) return 0;
    if (cr_py_is_numpy_scalar(o)) return set_numpy_scalar(f, o, out);
    if (PyComplex_Check(o)) {
        Py_complex c = PyComplex_AsCComplex(o);
        return set_complex(f, c.real, c.imag, out);
    }
    if (PyFloat_Check(o)) {
        *out = cr_arg_float(PyFloat_AS_DOUBLE(o));
        return 0;
    }
    if (PyIndex_Check(o) && !cr_py_is_ndarray(o)) return set_int(f, o, out);
    return 1;
}
