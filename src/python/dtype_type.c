/* dtype_type.c: cresset.dtype, cresset.layout and cresset.memory_format.
 *
 * Each value is one immortal object, so `is` and `==` agree and pickling goes by name. The three types share one layout
 * (a number and a name) and one set of slots. */
#include "python/py.h"

#include <structmember.h>

typedef struct named { PyObject_HEAD int value; const char *name; } named;

static named *dtypes[CR_DTYPE_COUNT], *layouts[1], *formats[4]; /* once */

static PyObject *named_repr(PyObject *self) { return PyUnicode_FromFormat("cresset.%s", ((named *)self)->name); }

/* A string from __reduce__ means: the module's global of that name. */
static PyObject *named_reduce(PyObject *self, PyObject *unused) {
    (void)unused;
    return PyUnicode_FromString(((named *)self)->name);
}

static PyObject *itself(PyObject *self, PyObject *unused) {
    (void)unused;
    return Py_NewRef(self);
}

static PyObject *module_name(PyObject *self, void *unused) {
    (void)self, (void)unused;
    return PyUnicode_FromString("cresset");
}

#define NAMED_METHODS                                                                                                  \
    { "__reduce__", named_reduce, METH_NOARGS, NULL }, { "__copy__", itself, METH_NOARGS, NULL },                      \
    { "__deepcopy__", itself, METH_O, NULL }

static PyMethodDef named_methods[] = { NAMED_METHODS, { NULL, NULL, 0, NULL } };
static PyGetSetDef named_attributes[] = { { "__module__", module_name, NULL, NULL, NULL },
                                          { NULL, NULL, NULL, NULL, NULL } };

static PyObject *to_real(PyObject *self, PyObject *unused) {
    (void)unused;
    return cr_py_dtype_get(cr_dtype_to_real(((named *)self)->value));
}

static PyObject *to_complex(PyObject *self, PyObject *unused) {
    (void)unused;
    int d = ((named *)self)->value, c = cr_dtype_to_complex(d);
    if (!cr_dtype_is_complex(c))
        return PyErr_Format(PyExc_RuntimeError, "%s has no complex counterpart", cr_dtype_name(d));
    return cr_py_dtype_get(c);
}

static PyObject *dtype_floating(PyObject *self, void *unused) {
    (void)unused;
    return PyBool_FromLong(cr_dtype_is_floating(((named *)self)->value));
}

static PyObject *dtype_complex(PyObject *self, void *unused) {
    (void)unused;
    return PyBool_FromLong(cr_dtype_is_complex(((named *)self)->value));
}

static PyObject *dtype_signed(PyObject *self, void *unused) {
    (void)unused;
    int d = ((named *)self)->value;
    return PyBool_FromLong(!rt_is_unsigned(d) && d != CR_BOOL && d != CR_F8E8M0FNU);
}

static PyObject *dtype_itemsize(PyObject *self, void *unused) {
    (void)unused;
    return PyLong_FromLongLong(rt_itemsize(((named *)self)->value));
}

static PyMethodDef dtype_methods[] = {
    { "to_real", to_real, METH_NOARGS, "The real dtype of a complex one; others are themselves." },
    { "to_complex", to_complex, METH_NOARGS, "The complex dtype whose parts have this dtype." },
    NAMED_METHODS,
    { NULL, NULL, 0, NULL },
};
static PyGetSetDef dtype_attributes[] = {
    { "is_floating_point", dtype_floating, NULL, NULL, NULL },
    { "is_complex", dtype_complex, NULL, NULL, NULL },
    { "is_signed", dtype_signed, NULL, NULL, NULL },
    { "itemsize", dtype_itemsize, NULL, "Bytes of one element.", NULL },
    { "__module__", module_name, NULL, NULL, NULL },
    { NULL, NULL, NULL, NULL, NULL },
};

PyTypeObject cr_py_dtype_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "cresset.dtype",
    .tp_basicsize = sizeof(named),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "The type of a tensor's elements.",
    .tp_repr = named_repr,
    .tp_methods = dtype_methods,
    .tp_getset = dtype_attributes,
};
PyTypeObject cr_py_layout_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "cresset.layout",
    .tp_basicsize = sizeof(named),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_repr = named_repr,
    .tp_methods = named_methods,
    .tp_getset = named_attributes,
};
PyTypeObject cr_py_format_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "cresset.memory_format",
    .tp_basicsize = sizeof(named),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_repr = named_repr,
    .tp_methods = named_methods,
    .tp_getset = named_attributes,
};

PyObject *cr_py_dtype_get(int dtype) { return Py_NewRef((PyObject *)dtypes[dtype]); }
PyObject *cr_py_layout_get(int layout) { return Py_NewRef((PyObject *)layouts[layout]); }
PyObject *cr_py_format_get(int format) { return Py_NewRef((PyObject *)formats[format]); }

bool cr_py_dtype_read(PyObject *o, int *out) {
    if (Py_IS_TYPE(o, &cr_py_dtype_type)) *out = ((named *)o)->value;
    else if (o == (PyObject *)&PyFloat_Type) *out = CR_F64;
    else if (o == (PyObject *)&PyLong_Type) *out = CR_I64;
    else if (o == (PyObject *)&PyBool_Type) *out = CR_BOOL;
    else if (o == (PyObject *)&PyComplex_Type) *out = CR_C128;
    else return false;
    return true;
}

static bool read_named(PyObject *o, PyTypeObject *type, int *out) {
    if (!Py_IS_TYPE(o, type)) return false;
    *out = ((named *)o)->value;
    return true;
}
bool cr_py_format_read(PyObject *o, int *out) { return read_named(o, &cr_py_format_type, out); }
bool cr_py_layout_read(PyObject *o, int *out) { return read_named(o, &cr_py_layout_type, out); }

static int add_named(PyObject *module, PyTypeObject *type, int value, const char *name, named **slot) {
    named *o = PyObject_New(named, type);
    if (!o) return -1;
    o->value = value;
    o->name = name;
    *slot = o; /* the table's reference keeps it for ever */
    return PyModule_AddObjectRef(module, name, (PyObject *)o);
}

static const struct { const char *alias; int dtype; } aliases[] = {
    { "half", CR_F16 }, { "float", CR_F32 }, { "double", CR_F64 }, { "short", CR_I16 },   { "int", CR_I32 },
    { "long", CR_I64 }, { "chalf", CR_C32 }, { "cfloat", CR_C64 }, { "cdouble", CR_C128 },
};

int cr_py_dtypes_init(PyObject *module) {
    PyTypeObject *types[] = { &cr_py_dtype_type, &cr_py_layout_type, &cr_py_format_type };
    const char *names[] = { "dtype", "layout", "memory_format" };
    for (int i = 0; i < 3; i++)
        if (PyType_Ready(types[i]) || PyModule_AddObjectRef(module, names[i], (PyObject *)types[i])) return -1;
    for (int d = 0; d < CR_DTYPE_COUNT; d++)
        if (add_named(module, &cr_py_dtype_type, d, cr_dtype_name(d), &dtypes[d])) return -1;
    for (size_t i = 0; i < CR_COUNT(aliases); i++)
        if (PyModule_AddObjectRef(module, aliases[i].alias, (PyObject *)dtypes[aliases[i].dtype])) return -1;
    if (add_named(module, &cr_py_layout_type, 0, "strided", &layouts[0])) return -1;
    static const char *const format_names[] = { "contiguous_format", "preserve_format", "channels_last",
                                                "channels_last_3d" };
    for (int i = 0; i < 4; i++)
        if (add_named(module, &cr_py_format_type, i, format_names[i], &formats[i])) return -1;
    return 0;
}
