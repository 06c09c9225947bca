/* storage_type.c: cresset.UntypedStorage, the memory that tensors share.
 *
 * A storage has one Python object at a time (a table of weak references finds it), so that pickling two tensors on one
 * storage writes its bytes once and the copies share memory again. */
#include "python/py.h"

#include <structmember.h>

typedef struct storage_object { PyObject_HEAD cr_storage *storage; PyObject *weakrefs; } storage_object;

static PyObject *known; /* process: storage id -> weak reference */

static cr_storage *of(PyObject *self) { return ((storage_object *)self)->storage; }

PyObject *cr_py_storage_wrap(cr_storage *s) {
    if (!known && !(known = PyDict_New())) return NULL;
    PyObject *key = PyLong_FromUnsignedLongLong(s->id);
    if (!key) return NULL;
    PyObject *reference = PyDict_GetItemWithError(known, key), *found = reference ? cr_py_weak_target(reference) : NULL;
    if (found) return Py_DECREF(key), found;
    storage_object *o = PyErr_Occurred() ? NULL : (storage_object *)cr_py_storage_type.tp_alloc(&cr_py_storage_type, 0);
    if (o) {
        cr_storage_retain(s);
        o->storage = s;
        reference = PyWeakref_NewRef((PyObject *)o, NULL);
        if (!reference || PyDict_SetItem(known, key, reference)) Py_CLEAR(o);
        Py_XDECREF(reference);
    }
    Py_DECREF(key);
    return (PyObject *)o;
}

static void storage_dealloc(PyObject *self) {
    storage_object *o = (storage_object *)self;
    if (o->weakrefs) PyObject_ClearWeakRefs(self);
    if (o->storage) {
        PyObject *key = PyLong_FromUnsignedLongLong(o->storage->id);
        if (!key || PyDict_DelItem(known, key)) PyErr_Clear();
        Py_XDECREF(key);
        cr_storage_release(o->storage);
    }
    Py_TYPE(self)->tp_free(self);
}

static PyObject *nbytes(PyObject *self, PyObject *unused) {
    (void)unused;
    return PyLong_FromLongLong(of(self)->bytes);
}
static Py_ssize_t length(PyObject *self) { return (Py_ssize_t)of(self)->bytes; }

static PyObject *data_ptr(PyObject *self, PyObject *unused) {
    (void)unused;
    return PyLong_FromVoidPtr(of(self)->data);
}

static PyObject *resize(PyObject *self, PyObject *size) {
    int64_t bytes;
    if (cr_py_int64(size, "resize_()", &bytes)) return NULL;
    if (bytes < of(self)->bytes)
        return PyErr_Format(PyExc_RuntimeError,
                            "resize_(): %lld bytes are less than the storage has (%lld); tensors on it would end "
                            "outside of it",
                            (long long)bytes, (long long)of(self)->bytes);
    cr_status status = cr_storage_resize(of(self), bytes);
    return status ? cr_py_raise(status) : Py_NewRef(self);
}

static PyObject *reduce(PyObject *self, PyObject *unused) {
    (void)unused;
    cr_storage *s = of(self);
    if (s->fake) return PyErr_Format(PyExc_RuntimeError, "pickle: a fake tensor has no elements");
    PyObject *module = PyImport_ImportModule("cresset._C"),
             *rebuild = module ? PyObject_GetAttrString(module, "_rebuild_storage") : NULL;
    Py_XDECREF(module);
    return rebuild ? Py_BuildValue("N(y#)", rebuild, s->data ? s->data : "", (Py_ssize_t)s->bytes) : NULL;
}

static PyObject *rebuild(PyObject *module, PyObject *data) {
    (void)module;
    Py_buffer view;
    if (PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)) return NULL;
    cr_storage *s = NULL;
    cr_status status = cr_storage_create(view.len, &s);
    if (!status && view.len) memcpy(s->data, view.buf, (size_t)view.len);
    PyBuffer_Release(&view);
    if (status) return cr_py_raise(status);
    PyObject *o = cr_py_storage_wrap(s);
    cr_storage_release(s);
    return o;
}

cr_storage *cr_py_storage_of(PyObject *o) { return Py_IS_TYPE(o, &cr_py_storage_type) ? of(o) : NULL; }

static PyMethodDef methods[] = {
    { "nbytes", nbytes, METH_NOARGS, "The number of bytes." },
    { "size", nbytes, METH_NOARGS, "The number of bytes." },
    { "data_ptr", data_ptr, METH_NOARGS, "The address of the first byte." },
    { "resize_", resize, METH_O, "resize_(bytes): grows the memory; what is there stays." },
    { "__reduce__", reduce, METH_NOARGS, NULL },
    { NULL, NULL, 0, NULL },
};
static PySequenceMethods as_sequence = { .sq_length = length };

PyTypeObject cr_py_storage_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "cresset.UntypedStorage",
    .tp_basicsize = sizeof(storage_object),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "The memory that tensors share: x.untyped_storage().",
    .tp_dealloc = storage_dealloc,
    .tp_weaklistoffset = offsetof(storage_object, weakrefs),
    .tp_as_sequence = &as_sequence,
    .tp_methods = methods,
};

static PyMethodDef functions[] = { { "_rebuild_storage", rebuild, METH_O, NULL }, { NULL, NULL, 0, NULL } };

int cr_py_storage_init(PyObject *module) {
    if (PyType_Ready(&cr_py_storage_type) ||
        PyModule_AddObjectRef(module, "UntypedStorage", (PyObject *)&cr_py_storage_type))
        return -1;
    return PyModule_AddFunctions(module, functions);
}
