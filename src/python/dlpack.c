/* dlpack.c: tensors to and from other libraries through DLPack, without copying.
 *
 * dlpack.h has the structures; the form before versions is known here alone. A capsule is taken exactly once: the
 * consumer renames it and calls the producer's deleter when it is done. */
#include "python/dlpack.h"
#include "python/tensor.h"

enum {
    DL_INT = 0,
    DL_UINT = 1,
    DL_FLOAT = 2,
    DL_BFLOAT = 4,
    DL_COMPLEX = 5,
    DL_BOOL = 6,
    DL_FLOAT8_E4M3FN = 10,
    DL_FLOAT8_E4M3FNUZ = 11,
    DL_FLOAT8_E5M2 = 12,
    DL_FLOAT8_E5M2FNUZ = 13,
    DL_FLOAT8_E8M0FNU = 14,
};
enum { DL_READ_ONLY = 1, DL_COPIED = 2 };
typedef struct dl_managed { dl_tensor tensor; void *context; void (*deleter)(struct dl_managed *); } dl_managed;

static const dl_dtype dtypes[CR_DTYPE_COUNT] = {
    [CR_U8] = { DL_UINT, 8, 1 },
    [CR_I8] = { DL_INT, 8, 1 },
    [CR_I16] = { DL_INT, 16, 1 },
    [CR_I32] = { DL_INT, 32, 1 },
    [CR_I64] = { DL_INT, 64, 1 },
    [CR_F16] = { DL_FLOAT, 16, 1 },
    [CR_F32] = { DL_FLOAT, 32, 1 },
    [CR_F64] = { DL_FLOAT, 64, 1 },
    [CR_C32] = { DL_COMPLEX, 32, 1 },
    [CR_C64] = { DL_COMPLEX, 64, 1 },
    [CR_C128] = { DL_COMPLEX, 128, 1 },
    [CR_BOOL] = { DL_BOOL, 8, 1 },
    [CR_BF16] = { DL_BFLOAT, 16, 1 },
    [CR_U16] = { DL_UINT, 16, 1 },
    [CR_U32] = { DL_UINT, 32, 1 },
    [CR_U64] = { DL_UINT, 64, 1 },
    [CR_F8E4M3FN] = { DL_FLOAT8_E4M3FN, 8, 1 },
    [CR_F8E5M2] = { DL_FLOAT8_E5M2, 8, 1 },
    [CR_F8E4M3FNUZ] = { DL_FLOAT8_E4M3FNUZ, 8, 1 },
    [CR_F8E5M2FNUZ] = { DL_FLOAT8_E5M2FNUZ, 8, 1 },
    [CR_F8E8M0FNU] = { DL_FLOAT8_E8M0FNU, 8, 1 },
};

/* ---- export ---- */

/* One block holds the managed structure, the tensor it keeps and the geometry. */
typedef struct exported {
    union { dl_managed plain; dl_versioned versioned; } u;
    cr_tensor *tensor;
    int64_t shape[CR_MAX_RANK], strides[CR_MAX_RANK];
} exported;

static void free_exported(exported *e) { /* consumers call this from any thread, so no Python here */
    cr_tensor_release(e->tensor);
    cr_free(e);
}
static void delete_plain(dl_managed *m) { free_exported((exported *)m->context); }
static void delete_versioned(dl_versioned *m) { free_exported((exported *)m->context); }

static void destroy_capsule(PyObject *capsule) { /* runs the deleter only when nobody has taken the capsule */
    if (PyCapsule_IsValid(capsule, "dltensor")) {
        dl_managed *m = PyCapsule_GetPointer(capsule, "dltensor");
        if (m->deleter) m->deleter(m);
    } else if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
        dl_versioned *m = PyCapsule_GetPointer(capsule, "dltensor_versioned");
        if (m->deleter) m->deleter(m);
    }
}

/* The structure and what it describes, but for what versions add. */
static exported *describe(cr_tensor *t, bool versioned) {
    exported *e = cr_calloc(1, sizeof *e);
    if (!e) return NULL;
    dl_tensor *d = versioned ? &e->u.versioned.tensor : &e->u.plain.tensor;
    const cr_meta *m = &t->meta;
    cr_tensor_retain(t);
    e->tensor = t;
    for (int i = 0; i < m->rank; i++) {
        e->shape[i] = m->size[i];
        /* as PyTorch: some consumers check strides of single elements */
        e->strides[i] = m->size[i] < 2 ? 1 : m->stride[i];
    }
    d->data = t->storage->data ? (char *)t->storage->data + m->offset * rt_itemsize(m->dtype) : NULL;
    d->device = (dl_device){ DL_CPU, 0 };
    d->ndim = m->rank;
    d->dtype = dtypes[m->dtype];
    d->shape = e->shape;
    d->strides = e->strides;
    return e;
}

dl_versioned *cr_dl_export(cr_tensor *t, bool copied) {
    exported *e = describe(t, true);
    if (!e) return NULL;
    e->u.versioned.version.major = 1;
    e->u.versioned.context = e;
    e->u.versioned.deleter = delete_versioned;
    e->u.versioned.flags = (t->storage->readonly ? DL_READ_ONLY : 0) | (copied ? DL_COPIED : 0);
    return &e->u.versioned;
}

static PyObject *export(cr_tensor *t, bool versioned, bool copied) {
    exported *e;
    if (versioned) {
        dl_versioned *v = cr_dl_export(t, copied);
        e = v ? v->context : NULL;
    } else if ((e = describe(t, false))) {
        e->u.plain.context = e;
        e->u.plain.deleter = delete_plain;
    }
    if (!e) return cr_py_raise(CR_ENOMEM);
    PyObject *capsule = PyCapsule_New(e, versioned ? "dltensor_versioned" : "dltensor", destroy_capsule);
    if (!capsule) free_exported(e);
    return capsule;
}

PyObject *cr_py_tensor_dlpack(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames) {
    PyObject *version = NULL, *device = NULL, *copy = NULL;
    if (nargs > 1) return PyErr_Format(PyExc_TypeError, "__dlpack__() takes its arguments by name");
    for (Py_ssize_t i = 0; kwnames && i < PyTuple_GET_SIZE(kwnames); i++) {
        PyObject *name = PyTuple_GET_ITEM(kwnames, i), *value = args[nargs + i];
        if (!PyUnicode_CompareWithASCIIString(name, "max_version")) version = value;
        else if (!PyUnicode_CompareWithASCIIString(name, "dl_device")) device = value;
        else if (!PyUnicode_CompareWithASCIIString(name, "copy")) copy = value;
        else if (PyUnicode_CompareWithASCIIString(name, "stream"))
            return PyErr_Format(PyExc_TypeError, "__dlpack__() got an unexpected keyword argument '%U'", name);
    }
    int major = 0, minor = 0, type = DL_CPU, id = 0;
    if (version && version != Py_None && !PyArg_ParseTuple(version, "ii", &major, &minor)) return NULL;
    if (device && device != Py_None && !PyArg_ParseTuple(device, "ii", &type, &id)) return NULL;
    if (type != DL_CPU)
        return PyErr_Format(PyExc_BufferError, "__dlpack__(): a CPU tensor cannot be given out on device type %d",
                            type);
    cr_tensor *t = cr_py_tensor_of(self);
    if (t->storage->fake) return PyErr_Format(PyExc_BufferError, "__dlpack__(): a fake tensor has no memory");
    if (t->meta.flags & CR_META_REQUIRES_GRAD)
        return PyErr_Format(PyExc_BufferError, "__dlpack__(): the tensor requires grad; use .detach() first");
    if (t->meta.flags & (CR_META_CONJ | CR_META_NEG))
        return PyErr_Format(PyExc_BufferError, "__dlpack__(): the tensor is conjugated or negated; use .resolve_conj() "
                                               "or .resolve_neg() first");
    if (major < 1 && t->storage->readonly)
        return PyErr_Format(PyExc_BufferError, "__dlpack__(): read-only memory needs DLPack 1.0 (max_version=(1, 0)); "
                                               ".clone() the tensor");
    if (copy == Py_True) {
        static const cr_op *clone;
        cr_arg a = cr_arg_tensor(t);
        cr_tensor *made = NULL;
        cr_status status = cr_py_call_tensor(&clone, "aten::clone", &a, 1, &made);
        if (status) return cr_py_raise(status);
        PyObject *capsule = export(made, major >= 1, true);
        cr_tensor_release(made);
        return capsule;
    }
    return export(t, major >= 1, false);
}

PyObject *cr_py_tensor_dlpack_device(PyObject *self, PyObject *unused) {
    (void)unused;
    cr_device d = cr_py_tensor_of(self)->meta.device;
    return Py_BuildValue("(ii)", d.type == CR_CUDA ? DL_CUDA : DL_CPU, CR_MAX(d.index, 0));
}

/* ---- import ---- */

static void done_plain(void *user, void *data) {
    (void)data;
    if (!Py_IsInitialized()) return; /* the interpreter, and perhaps the producer, are gone */
    dl_managed *m = user;
    PyGILState_STATE state = PyGILState_Ensure(); /* some producers' deleters touch Python objects */
    if (m->deleter) m->deleter(m);
    PyGILState_Release(state);
}
static void done_versioned(void *user, void *data) {
    (void)data;
    if (!Py_IsInitialized()) return;
    dl_versioned *m = user;
    PyGILState_STATE state = PyGILState_Ensure();
    if (m->deleter) m->deleter(m);
    PyGILState_Release(state);
}

int cr_dl_dtype(dl_dtype d) {
    for (int i = 0; i < CR_DTYPE_COUNT; i++)
        if (dtypes[i].bits && dtypes[i].code == d.code && dtypes[i].bits == d.bits && d.lanes == 1) return i;
    return -1;
}

static int read_meta(const dl_tensor *d, cr_meta *m) {
    int dtype = cr_dl_dtype(d->dtype);
    if (dtype < 0) {
        PyErr_Format(PyExc_BufferError,
                     "from_dlpack(): elements of DLPack type (code %d, %d bits, %d lanes) are not supported",
                     d->dtype.code, d->dtype.bits, d->dtype.lanes);
        return -1;
    }
    if (d->device.type != DL_CPU) {
        PyErr_Format(PyExc_RuntimeError, "from_dlpack(): the array is on device type %d; only CPU memory can be taken",
                     d->device.type);
        return -1;
    }
    if (d->ndim < 0 || d->ndim > CR_MAX_RANK) {
        PyErr_Format(PyExc_BufferError, "from_dlpack(): the array has %d dimensions; at most %d are supported", d->ndim,
                     CR_MAX_RANK);
        return -1;
    }
    cr_meta_init(m, dtype, (cr_device){ CR_CPU, -1 });
    cr_status status = cr_meta_set_dense(NULL, m, d->ndim, d->shape, CR_CONTIGUOUS);
    if (status) return cr_py_fail(status);
    for (int i = 0; d->strides && i < d->ndim; i++) {
        if (d->shape[i] > 1 && d->strides[i] < 0) {
            PyErr_SetString(PyExc_BufferError, "from_dlpack(): a stride is negative, which tensors cannot have; copy "
                                               "the array first");
            return -1;
        }
        if (d->strides[i] >= 0) m->stride[i] = d->strides[i];
    }
    char *data = (char *)d->data + d->byte_offset;
    if (cr_py_numel(&(cr_tensor){ .meta = *m }) && (uintptr_t)data % (uintptr_t)CR_MIN(rt_itemsize(dtype), 8)) {
        PyErr_SetString(PyExc_BufferError, "from_dlpack(): the memory is not aligned to its element's size; copy the "
                                           "array first");
        return -1;
    }
    return 0;
}

static cr_tensor *from_capsule(PyObject *capsule) {
    bool versioned = PyCapsule_IsValid(capsule, "dltensor_versioned");
    if (!versioned && !PyCapsule_IsValid(capsule, "dltensor")) {
        PyErr_SetString(PyExc_ValueError, "from_dlpack(): expected a DLPack capsule that nobody has taken yet; a "
                                          "capsule can be used only once");
        return NULL;
    }
    void *p = PyCapsule_GetPointer(capsule, versioned ? "dltensor_versioned" : "dltensor");
    dl_versioned *v = versioned ? p : NULL;
    if (v && v->version.major != 1) {
        PyErr_Format(PyExc_BufferError, "from_dlpack(): the array speaks DLPack %d.%d, 1.x is understood",
                     (int)v->version.major, (int)v->version.minor);
        return NULL;
    }
    const dl_tensor *d = v ? &v->tensor : &((dl_managed *)p)->tensor;
    cr_meta m;
    if (read_meta(d, &m)) return NULL;
    int64_t bytes;
    cr_storage *storage = NULL;
    cr_tensor *t = NULL;
    cr_status status = cr_meta_bytes(&m, &bytes);
    if (!status)
        status = cr_storage_wrap((char *)d->data + d->byte_offset, bytes, v ? done_versioned : done_plain, p, &storage);
    if (status) {
        cr_py_raise(status);
        return NULL;
    }
    storage->readonly = v && (v->flags & DL_READ_ONLY);
    PyCapsule_SetName(capsule, v ? "used_dltensor_versioned" : "used_dltensor"); /* ours from here on */
    status = cr_tensor_on(storage, &m, NULL, NULL, &t);
    cr_storage_release(storage);
    if (status) cr_py_raise(status);
    return t;
}

static PyObject *ask(PyObject *o, PyObject *copy) {
    PyObject *method = PyObject_GetAttrString(o, "__dlpack__");
    if (!method) return NULL;
    PyObject *empty = PyTuple_New(0), *kwargs = Py_BuildValue("{s:(ii)}", "max_version", 1, 0), *capsule = NULL;
    if (empty && kwargs && (copy == Py_None || !PyDict_SetItemString(kwargs, "copy", copy)))
        capsule = PyObject_Call(method, empty, kwargs);
    if (!capsule && copy == Py_None && PyErr_ExceptionMatches(PyExc_TypeError)) { /* a producer from before 1.0 */
        PyErr_Clear();
        capsule = PyObject_CallNoArgs(method);
    }
    Py_XDECREF(empty);
    Py_XDECREF(kwargs);
    Py_DECREF(method);
    return capsule;
}

cr_tensor *cr_py_dlpack_import(PyObject *o, PyObject *device, PyObject *copy) {
    if (device && device != Py_None) {
        cr_device d;
        int r = cr_py_device_read(device, &d);
        if (r > 0)
            PyErr_Format(PyExc_TypeError, "from_dlpack(): device must be a device or its name, not %s",
                         Py_TYPE(device)->tp_name);
        if (r) return NULL;
        if (d.type != CR_CPU) {
            PyErr_SetString(PyExc_RuntimeError, "from_dlpack(): only the CPU is supported");
            return NULL;
        }
    }
    if (PyCapsule_CheckExact(o)) return from_capsule(o);
    PyObject *capsule = ask(o, copy ? copy : Py_None);
    if (!capsule) return NULL;
    cr_tensor *t = PyCapsule_CheckExact(capsule) ? from_capsule(capsule) : NULL;
    if (!t && !PyErr_Occurred())
        PyErr_Format(PyExc_TypeError, "__dlpack__() of %s gave no capsule", Py_TYPE(o)->tp_name);
    Py_DECREF(capsule);
    return t;
}

static PyObject *from_dlpack(PyObject *module, PyObject *args, PyObject *kwargs) {
    (void)module;
    static char *names[] = { "ext_tensor", "device", "copy", NULL };
    PyObject *o, *device = Py_None, *copy = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|$OO:from_dlpack", names, &o, &device, &copy)) return NULL;
    cr_tensor *t = cr_py_dlpack_import(o, device, copy);
    return t ? cr_py_wrap(t) : NULL;
}

static PyObject *to_dlpack(PyObject *module, PyObject *tensor) {
    (void)module;
    if (!cr_py_is_tensor(tensor))
        return PyErr_Format(PyExc_TypeError, "to_dlpack(): expected a Tensor, not %s", Py_TYPE(tensor)->tp_name);
    return cr_py_tensor_dlpack(tensor, NULL, 0, NULL);
}

static PyMethodDef functions[] = {
    { "from_dlpack", (PyCFunction)(void (*)(void))from_dlpack, METH_VARARGS | METH_KEYWORDS,
      "from_dlpack(x, *, device=None, copy=None): a tensor on the memory of another library's array." },
    { "to_dlpack", to_dlpack, METH_O, "to_dlpack(tensor): an unversioned DLPack capsule." },
    { NULL, NULL, 0, NULL },
};

int cr_py_dlpack_init(PyObject *module) { return PyModule_AddFunctions(module, functions); }
