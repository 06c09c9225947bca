/* device_type.c: cresset.device, an immutable (type, index) pair. */
#include "python/py.h"

typedef struct device_object { PyObject_HEAD cr_device device; } device_object;

static PyObject *plain_cpu; /* once: what nearly every tensor answers */

static PyObject *device_make(cr_device device) {
    device_object *o = PyObject_New(device_object, &cr_py_device_type);
    if (o) o->device = device;
    return (PyObject *)o;
}

PyObject *cr_py_device_wrap(cr_device device) {
    if (device.type == CR_CPU && device.index < 0) return Py_NewRef(plain_cpu);
    return device_make(device);
}

int cr_py_device_read(PyObject *o, cr_device *out) {
    if (Py_IS_TYPE(o, &cr_py_device_type)) {
        *out = ((device_object *)o)->device;
        return 0;
    }
    if (!PyUnicode_Check(o)) return 1;
    const char *text = PyUnicode_AsUTF8(o);
    if (!text) return -1;
    cr_status status = cr_device_parse(text, out);
    return status ? cr_py_fail(status) : 0;
}

static PyObject *type_text(cr_device d) {
    cr_str s;
    cr_str_init(&s);
    cr_device_print((cr_device){ d.type, -1 }, &s);
    return cr_py_text(&s);
}

static PyObject *device_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    (void)type;
    static char *names[] = { "type", "index", NULL };
    PyObject *what = NULL, *index = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|O:device", names, &what, &index)) return NULL;
    cr_device d;
    int r = cr_py_device_read(what, &d);
    if (r < 0) return NULL;
    if (r > 0)
        return PyErr_Format(PyExc_TypeError, "device(): argument 'type' must be a str or a device, not %s",
                            Py_TYPE(what)->tp_name);
    if (index == Py_None) return cr_py_device_wrap(d);
    if (d.index >= 0)
        return PyErr_Format(PyExc_RuntimeError, "device(): the text '%S' has an index already; leave out 'index'",
                            what);
    long i = PyLong_AsLong(index);
    if (i == -1 && PyErr_Occurred()) return NULL;
    if (i < 0 || i > 127) return PyErr_Format(PyExc_RuntimeError, "device(): index must be 0 to 127, not %ld", i);
    d.index = (int8_t)i;
    return device_make(d);
}

static PyObject *device_repr(PyObject *self) {
    cr_device d = ((device_object *)self)->device;
    PyObject *type = type_text(d);
    if (!type) return NULL;
    PyObject *text = d.index < 0 ? PyUnicode_FromFormat("device(type='%U')", type)
                                 : PyUnicode_FromFormat("device(type='%U', index=%d)", type, d.index);
    Py_DECREF(type);
    return text;
}

static PyObject *device_str(PyObject *self) {
    cr_str s;
    cr_str_init(&s);
    cr_device_print(((device_object *)self)->device, &s);
    return cr_py_text(&s);
}

static PyObject *device_compare(PyObject *a, PyObject *b, int op) {
    if ((op != Py_EQ && op != Py_NE) || !Py_IS_TYPE(b, &cr_py_device_type)) Py_RETURN_NOTIMPLEMENTED;
    cr_device x = ((device_object *)a)->device, y = ((device_object *)b)->device;
    return PyBool_FromLong((x.type == y.type && x.index == y.index) == (op == Py_EQ));
}

static Py_hash_t device_hash(PyObject *self) {
    cr_device d = ((device_object *)self)->device;
    return ((Py_hash_t)d.type << 8 | (uint8_t)d.index) + 1;
}

static PyObject *get_type(PyObject *self, void *unused) {
    (void)unused;
    return type_text(((device_object *)self)->device);
}

static PyObject *get_index(PyObject *self, void *unused) {
    (void)unused;
    cr_device d = ((device_object *)self)->device;
    if (d.index < 0) Py_RETURN_NONE;
    return PyLong_FromLong(d.index);
}

static PyObject *reduce(PyObject *self, PyObject *unused) {
    (void)unused;
    PyObject *text = device_str(self);
    return text ? Py_BuildValue("O(N)", &cr_py_device_type, text) : NULL;
}

/* What was there before each `with device(...)` that this thread is in: None or a device, in a list of the thread's. */
static PyObject *outer_places(void) {
    PyObject *dict = PyThreadState_GetDict(), *list = dict ? PyDict_GetItemString(dict, "cresset.device") : NULL;
    if (list || !dict) return Py_XNewRef(list);
    list = PyList_New(0);
    if (list && PyDict_SetItemString(dict, "cresset.device", list)) Py_CLEAR(list);
    return list;
}

static PyObject *enter(PyObject *self, PyObject *unused) {
    (void)unused;
    cr_ambient *a = cr_ambient_get();
    PyObject *list = outer_places(), *before = a->placed ? cr_py_device_wrap(a->place) : Py_NewRef(Py_None);
    int failed = !list || !before || PyList_Append(list, before);
    Py_XDECREF(list);
    Py_XDECREF(before);
    if (failed) return NULL;
    a->placed = true;
    a->place = ((device_object *)self)->device;
    return Py_NewRef(self);
}

static PyObject *leave(PyObject *self, PyObject *exception) {
    (void)self;
    (void)exception;
    cr_ambient *a = cr_ambient_get();
    PyObject *list = outer_places();
    Py_ssize_t n = list ? PyList_GET_SIZE(list) : 0;
    if (!n) {
        Py_XDECREF(list);
        return PyErr_Format(PyExc_RuntimeError, "device.__exit__(): no `with device(...)` is entered on this thread");
    }
    PyObject *before = PyList_GET_ITEM(list, n - 1);
    a->placed = before != Py_None;
    if (a->placed) a->place = ((device_object *)before)->device;
    int failed = PyList_SetSlice(list, n - 1, n, NULL);
    Py_DECREF(list);
    if (failed) return NULL;
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = { { "__reduce__", reduce, METH_NOARGS, NULL },
                                 { "__enter__", enter, METH_NOARGS, "Until the end of the block, functions make "
                                                                    "tensors here that are not told where." },
                                 { "__exit__", leave, METH_VARARGS, NULL },
                                 { NULL, NULL, 0, NULL } };
static PyGetSetDef attributes[] = {
    { "type", get_type, NULL, "\"cpu\", \"cuda\", ...", NULL },
    { "index", get_index, NULL, "The device's number, or None.", NULL },
    { NULL, NULL, NULL, NULL, NULL },
};

PyTypeObject cr_py_device_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "cresset.device",
    .tp_basicsize = sizeof(device_object),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "device(type, index=None): where a tensor's memory is.",
    .tp_new = device_new,
    .tp_repr = device_repr,
    .tp_str = device_str,
    .tp_richcompare = device_compare,
    .tp_hash = device_hash,
    .tp_methods = methods,
    .tp_getset = attributes,
};

int cr_py_device_init(PyObject *module) {
    if (PyType_Ready(&cr_py_device_type)) return -1;
    plain_cpu = device_make((cr_device){ CR_CPU, -1 });
    return plain_cpu ? PyModule_AddObjectRef(module, "device", (PyObject *)&cr_py_device_type) : -1;
}
