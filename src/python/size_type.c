/* size_type.c: cresset.Size, the tuple that x.shape is. Slices, sums and repeats of it are Sizes again. */
#include "python/py.h"

PyObject *cr_py_dim(cr_env *env, cr_dim d) {
    return cr_dim_is_plain(d) ? PyLong_FromLongLong(d) : cr_py_sym_new(env, cr_arg_int(d));
}

PyObject *cr_py_size_new(cr_env *env, int rank, const cr_dim *size) {
    PyObject *t = PyTuple_Type.tp_alloc(&cr_py_size_type, rank);
    if (!t) return NULL;
    for (int d = 0; d < rank; d++) {
        PyObject *item = cr_py_dim(env, size[d]);
        if (!item) {
            Py_DECREF(t);
            return NULL;
        }
        PyTuple_SET_ITEM(t, d, item);
    }
    return t;
}

/* A Size with the items of a tuple; consumes the tuple (NULL passes through). */
static PyObject *from_tuple(PyObject *tuple) {
    if (!tuple || !PyTuple_CheckExact(tuple)) return tuple;
    Py_ssize_t n = PyTuple_GET_SIZE(tuple);
    PyObject *t = PyTuple_Type.tp_alloc(&cr_py_size_type, n);
    for (Py_ssize_t i = 0; t && i < n; i++) PyTuple_SET_ITEM(t, i, Py_NewRef(PyTuple_GET_ITEM(tuple, i)));
    Py_DECREF(tuple);
    return t;
}

static PyObject *size_type_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    PyObject *t = PyTuple_Type.tp_new(type, args, kwargs);
    for (Py_ssize_t i = 0; t && i < PyTuple_GET_SIZE(t); i++) {
        PyObject *item = PyTuple_GET_ITEM(t, i);
        cr_arg symbolic;
        if (PyLong_Check(item) || cr_py_sym_read(item, &symbolic)) continue;
        PyObject *number = PyIndex_Check(item) ? PyNumber_Index(item) : NULL;
        if (!number) {
            PyErr_Clear();
            PyErr_Format(PyExc_TypeError, "Size() takes an iterable of int (item %zd is '%s')", i,
                         Py_TYPE(item)->tp_name);
            Py_CLEAR(t);
            break;
        }
        PyTuple_SET_ITEM(t, i, number); /* nobody else has seen this tuple yet */
        Py_DECREF(item);
    }
    return t;
}

static PyObject *size_repr(PyObject *self) {
    PyObject *list = PySequence_List(self);
    PyObject *text = list ? PyUnicode_FromFormat("cresset.Size(%R)", list) : NULL;
    Py_XDECREF(list);
    return text;
}

static PyObject *size_subscript(PyObject *self, PyObject *key) {
    return from_tuple(PyTuple_Type.tp_as_mapping->mp_subscript(self, key));
}
static PyObject *size_repeat(PyObject *self, Py_ssize_t n) {
    return from_tuple(PyTuple_Type.tp_as_sequence->sq_repeat(self, n));
}

/* As a number's sum it is asked for (tuple + Size) too. */
static PyObject *size_add(PyObject *a, PyObject *b) {
    if (!PyTuple_Check(a) || !PyTuple_Check(b)) Py_RETURN_NOTIMPLEMENTED;
    return from_tuple(PyTuple_Type.tp_as_sequence->sq_concat(a, b));
}

static PyObject *size_numel(PyObject *self, PyObject *unused) {
    (void)unused;
    PyObject *product = PyLong_FromLong(1);
    for (Py_ssize_t i = 0; product && i < PyTuple_GET_SIZE(self); i++) {
        PyObject *next = PyNumber_Multiply(product, PyTuple_GET_ITEM(self, i));
        Py_DECREF(product);
        product = next;
    }
    return product;
}

static PyObject *size_reduce(PyObject *self, PyObject *unused) {
    (void)unused;
    PyObject *items = PySequence_List(self);
    return items ? Py_BuildValue("O(N)", &cr_py_size_type, items) : NULL;
}

static PyMethodDef methods[] = {
    { "numel", size_numel, METH_NOARGS, "The number of elements of a tensor of this size." },
    { "__reduce__", size_reduce, METH_NOARGS, NULL },
    { NULL, NULL, 0, NULL },
};
static PySequenceMethods as_sequence = { .sq_repeat = size_repeat };
static PyMappingMethods as_mapping = { .mp_subscript = size_subscript };
static PyNumberMethods as_number = { .nb_add = size_add };

PyTypeObject cr_py_size_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "cresset.Size",
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "Size(iterable): the size of a tensor, a tuple of ints.",
    .tp_new = size_type_new,
    .tp_repr = size_repr,
    .tp_as_sequence = &as_sequence,
    .tp_as_mapping = &as_mapping,
    .tp_as_number = &as_number,
    .tp_methods = methods,
};

int cr_py_size_init(PyObject *module) {
    cr_py_size_type.tp_base = &PyTuple_Type;
    if (PyType_Ready(&cr_py_size_type)) return -1;
    return PyModule_AddObjectRef(module, "Size", (PyObject *)&cr_py_size_type);
}
