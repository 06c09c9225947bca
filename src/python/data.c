/* data.c: tensors out of Python data: cresset.tensor(nested lists, numbers, arrays), as_tensor, _rebuild_tensor.
 *
 * Nested sequences are read twice: once for the sizes (from first elements) and the dtype (from all of them, unless it
 * was given), once to store the elements, which finds sequences of the wrong length. A tensor inside a sequence counts
 * as its one element. Objects that can hand over memory (tensors, NumPy arrays, DLPack) are copied whole instead. */
#include "python/tensor.h"

#include <math.h>

static const cr_device cpu = { CR_CPU, -1 };

/* ---- looking ---- */

static bool is_text(PyObject *o) { return PyUnicode_Check(o) || PyBytes_Check(o); }
static bool is_sequence(PyObject *o) {
    return PySequence_Check(o) && !cr_py_is_tensor(o) && !is_text(o) && !cr_py_is_numpy_scalar(o);
}

static int find_sizes(PyObject *o, int *rank, int64_t *size) {
    *rank = 0;
    PyObject *at = Py_NewRef(o);
    while (is_sequence(at)) {
        if (cr_py_is_ndarray(at)) { /* a 0-d array has no length */
            PyObject *ndim = PyObject_GetAttrString(at, "ndim");
            long n = ndim ? PyLong_AsLong(ndim) : -1;
            Py_XDECREF(ndim);
            if (n < 0) goto fail;
            if (!n) break;
        }
        Py_ssize_t n = PySequence_Size(at);
        if (n < 0) goto fail;
        if (*rank == CR_MAX_RANK) {
            PyErr_Format(PyExc_ValueError, "too many dimensions '%s': at most %d are supported", Py_TYPE(at)->tp_name,
                         CR_MAX_RANK);
            goto fail;
        }
        size[(*rank)++] = n;
        if (!n) break;
        PyObject *first = PySequence_GetItem(at, 0);
        Py_DECREF(at);
        at = first;
        if (!at) return -1;
    }
    if (is_text(at)) {
        PyErr_Format(*rank ? PyExc_ValueError : PyExc_TypeError,
                     *rank ? "too many dimensions '%s'" : "tensor(): invalid data type '%s'", Py_TYPE(at)->tp_name);
        goto fail;
    }
    Py_DECREF(at);
    return 0;
fail:
    Py_DECREF(at);
    return -1;
}

static int numpy_dtype(PyObject *o) { /* of a NumPy scalar, by its type's name */
    const char *name = Py_TYPE(o)->tp_name + 6;
    int dtype;
    if (!strncmp(name, "bool", 4)) return CR_BOOL;
    if (!strcmp(name, "longlong") || !strcmp(name, "long") || !strcmp(name, "intc"))
        return !strcmp(name, "intc") ? CR_I32 : CR_I64;
    if (!strcmp(name, "ulonglong") || !strcmp(name, "ulong") || !strcmp(name, "uintc"))
        return !strcmp(name, "uintc") ? CR_U32 : CR_U64;
    return cr_dtype_find(name, &dtype) ? dtype : -1;
}

/* The dtype of every element promoted; *dtype is -1 before the first. */
static int find_dtype(PyObject *o, int depth, int *dtype) {
    int found;
    if (is_sequence(o) && depth < CR_MAX_RANK && !(cr_py_is_ndarray(o) && PySequence_Size(o) < 0)) {
        PyObject *fast = PySequence_Fast(o, "not a sequence");
        if (!fast) return -1;
        int failed = 0;
        for (Py_ssize_t i = 0; !failed && i < PySequence_Fast_GET_SIZE(fast); i++)
            failed = find_dtype(PySequence_Fast_GET_ITEM(fast, i), depth + 1, dtype);
        Py_DECREF(fast);
        return failed;
    }
    PyErr_Clear(); /* a 0-d array's missing length */
    if (PyFloat_CheckExact(o)) found = cr_default_dtype();
    else if (PyLong_CheckExact(o)) found = CR_I64;
    else if (PyBool_Check(o)) found = CR_BOOL;
    else if (cr_py_is_tensor(o)) found = cr_py_tensor_of(o)->meta.dtype;
    else if (cr_py_is_numpy_scalar(o)) found = numpy_dtype(o);
    else if (PyFloat_Check(o)) found = cr_default_dtype();
    else if (PyComplex_Check(o)) found = cr_dtype_to_complex(cr_default_dtype());
    else if (PyIndex_Check(o)) found = CR_I64;
    else found = -1;
    if (found < 0) {
        PyErr_Format(PyExc_RuntimeError, "could not infer dtype of %s", Py_TYPE(o)->tp_name);
        return -1;
    }
    *dtype = *dtype < 0 ? found : cr_promote_types(*dtype, found);
    if (*dtype >= 0) return 0;
    PyErr_SetString(PyExc_RuntimeError, "the elements' dtypes have no common dtype; give one");
    return -1;
}

/* ---- storing ---- */

static int overflow(int dtype) {
    PyErr_Format(PyExc_RuntimeError, "value cannot be converted to %s without overflow", cr_dtype_name(dtype));
    return -1;
}

static int store_integer(int dtype, char *p, PyObject *o) {
    if (PyFloat_Check(o) && !isfinite(PyFloat_AS_DOUBLE(o))) return overflow(dtype);
    PyObject *number = PyNumber_Long(o);
    if (!number) return -1;
    int over;
    int64_t value = PyLong_AsLongLongAndOverflow(number, &over);
    uint64_t wide = over > 0 && dtype == CR_U64 ? PyLong_AsUnsignedLongLong(number) : (uint64_t)value;
    Py_DECREF(number);
    if (PyErr_Occurred()) {
        PyErr_Clear();
        return overflow(dtype);
    }
    if (over && !(over > 0 && dtype == CR_U64)) {
        PyErr_Format(PyExc_ValueError, "%R does not fit in 64 bits", o);
        return -1;
    }
    int bits = 8 * (int)rt_itemsize(dtype);
    if (dtype != CR_U64 && bits < 64) {
        int64_t limit = (int64_t)1 << (rt_is_unsigned(dtype) ? bits : bits - 1);
        /* Negative numbers wrap into unsigned dtypes. */
        if (value >= limit || (rt_is_unsigned(dtype) ? value <= -limit : value < -limit)) return overflow(dtype);
    }
    memcpy(p, &wide, (size_t)rt_itemsize(dtype)); /* little-endian, as every machine we run on */
    return 0;
}
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "store_integer writes the low bytes first");

static int store(int dtype, char *p, PyObject *o) {
    PyObject *number = NULL;
    int failed = -1;
    if (cr_py_is_tensor(o)) {
        if (!cr_tensor_is_fake(cr_py_tensor_of(o)) && cr_py_numel(cr_py_tensor_of(o)) != 1) {
            PyErr_SetString(PyExc_ValueError, "only one element tensors can be converted to Python scalars");
            return -1;
        }
        number = PyObject_CallMethod(o, "item", NULL);
        if (!number) return -1;
        o = number;
    }
    if (dtype == CR_BOOL) {
        int truth = PyObject_IsTrue(o);
        *p = (char)(truth == 1);
        failed = truth < 0 ? -1 : 0;
    } else if (cr_dtype_is_complex(dtype)) {
        Py_complex c = PyComplex_AsCComplex(o);
        if (c.real != -1 || !PyErr_Occurred()) {
            rt_convert(dtype, p, 1, CR_C128, &c, 1, 1);
            failed = 0;
        }
    } else if (cr_dtype_is_floating(dtype)) {
        double value = PyFloat_AsDouble(o);
        if (value != -1 || !PyErr_Occurred()) {
            if (dtype == CR_F32) *(float *)p = (float)value;
            else rt_convert(dtype, p, 1, CR_F64, &value, 1, 1);
            failed = 0;
        }
    } else if (PyComplex_Check(o)) {
        PyErr_SetString(PyExc_TypeError, "must be real number, not complex");
    } else {
        failed = store_integer(dtype, p, o);
    }
    Py_XDECREF(number);
    return failed;
}

typedef struct filling { int dtype, rank; const int64_t *size; char *p; int64_t item; } filling;

static int fill(filling *f, PyObject *o, int d) {
    if (d == f->rank) {
        if (store(f->dtype, f->p, o)) return -1;
        f->p += f->item;
        return 0;
    }
    PyObject *fast = PySequence_Fast(o, "not a sequence");
    if (!fast) return -1;
    Py_ssize_t n = PySequence_Fast_GET_SIZE(fast);
    int failed = 0;
    if (n != f->size[d]) {
        PyErr_Format(PyExc_ValueError, "expected sequence of length %lld at dim %d (got %zd)", (long long)f->size[d], d,
                     n);
        failed = -1;
    }
    for (Py_ssize_t i = 0; !failed && i < n; i++) {
        if (i >= PySequence_Fast_GET_SIZE(fast)) {
            PyErr_SetString(PyExc_RuntimeError, "a list changed size while it was read");
            failed = -1;
            break;
        }
        PyObject *item = PySequence_Fast_GET_ITEM(fast, i);
        if (d + 1 == f->rank && f->dtype == CR_F32 && PyFloat_CheckExact(item)) {
            *(float *)f->p = (float)PyFloat_AS_DOUBLE(item);
            f->p += sizeof(float);
        } else {
            failed = fill(f, item, d + 1);
        }
    }
    Py_DECREF(fast);
    return failed;
}

static cr_tensor *from_sequence(PyObject *data, int dtype) {
    int rank;
    int64_t size[CR_MAX_RANK];
    if (find_sizes(data, &rank, size)) return NULL;
    if (dtype < 0 && find_dtype(data, 0, &dtype)) return NULL;
    if (dtype < 0) dtype = cr_default_dtype();
    cr_meta meta;
    cr_meta_init(&meta, dtype, cpu);
    cr_tensor *t = NULL;
    cr_status status = cr_meta_set_dense(NULL, &meta, rank, size, CR_CONTIGUOUS);
    if (!status) status = cr_tensor_create(&meta, &t);
    if (status) {
        cr_py_raise(status);
        return NULL;
    }
    t->inference = cr_ambient_get()->inference;
    filling f = { dtype, rank, size, t->storage->data, rt_itemsize(dtype) };
    if (fill(&f, data, 0)) {
        cr_tensor_release(t);
        return NULL;
    }
    return t;
}

/* ---- objects that own memory ---- */

/* 0: *out is a tensor on the object's memory; 1: the object has none to offer; -1: exception. */
static int from_memory(PyObject *data, cr_tensor **out) {
    if (cr_py_is_tensor(data)) {
        *out = cr_py_tensor_of(data);
        cr_tensor_retain(*out);
        return 0;
    }
    if (cr_py_is_ndarray(data)) {
        *out = cr_py_buffer_import(data);
        return *out ? 0 : -1;
    }
    if (PyList_Check(data) || PyTuple_Check(data) || PyFloat_Check(data) || PyLong_Check(data) ||
        cr_py_is_numpy_scalar(data))
        return 1;
    PyObject *method = PyObject_GetAttrString(data, "__dlpack__");
    if (!method) {
        PyErr_Clear();
        return 1;
    }
    Py_DECREF(method);
    *out = cr_py_dlpack_import(data, Py_None, Py_None);
    return *out ? 0 : -1;
}

/* A fresh dense copy in the given dtype (-1: the tensor's own). Consumes `t`. */
static cr_tensor *copy_of(cr_tensor *t, int dtype) {
    static const cr_op *to;
    cr_arg a[] = { cr_arg_tensor(t), cr_arg_dtype(dtype < 0 ? t->meta.dtype : dtype), cr_arg_bool(false),
                   cr_arg_bool(true) };
    cr_tensor *copy = NULL;
    cr_status status = cr_py_call_tensor(&to, "aten::to.dtype", a, 4, &copy);
    cr_tensor_release(t);
    if (status) cr_py_raise(status);
    return copy;
}

cr_tensor *cr_py_data_tensor(PyObject *data, int dtype) {
    cr_tensor *t = NULL;
    int r = from_memory(data, &t);
    if (r < 0) return NULL;
    return r ? from_sequence(data, dtype) : copy_of(t, dtype);
}

/* ---- functions ---- */

static int read_options(PyObject *dtype_object, PyObject *device_object, const char *function, int *dtype,
                        cr_device *device) {
    *dtype = -1;
    const cr_ambient *ambient = cr_ambient_get();
    *device = ambient->placed ? ambient->place : cpu;
    if (dtype_object && dtype_object != Py_None && !cr_py_dtype_read(dtype_object, dtype)) {
        PyErr_Format(PyExc_TypeError, "%s(): argument 'dtype' must be cresset.dtype, not %s", function,
                     Py_TYPE(dtype_object)->tp_name);
        return -1;
    }
    if (device_object && device_object != Py_None) {
        int r = cr_py_device_read(device_object, device);
        if (r > 0)
            PyErr_Format(PyExc_TypeError, "%s(): argument 'device' must be a device or its name, not %s", function,
                         Py_TYPE(device_object)->tp_name);
        if (r) return -1;
    }
    if (device->type != CR_CPU && device->type != CR_META_DEVICE) {
        PyErr_Format(PyExc_RuntimeError, "%s(): tensors can only be made on the CPU or on 'meta'", function);
        return -1;
    }
    return 0;
}

/* Is there a symbolic number among the elements? Then the tensor is computed, not data: tensor([n, 2]). */
static int holds_symbol(PyObject *o, int depth) {
    if (cr_py_sym_env(o)) return 1;
    if ((!PyList_Check(o) && !PyTuple_Check(o)) || depth == CR_MAX_RANK) return 0;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); i++)
        if (holds_symbol(PySequence_Fast_GET_ITEM(o, i), depth + 1)) return 1;
    return 0;
}

/* Steals o, a new tensor on the CPU. */
static PyObject *on_device(PyObject *o, cr_device device) {
    if (!o || device.type == CR_CPU) return o;
    PyObject *place = cr_py_device_wrap(device), *moved = place ? PyObject_CallMethod(o, "to", "O", place) : NULL;
    Py_XDECREF(place);
    Py_DECREF(o);
    return moved;
}

static PyObject *tensor(PyObject *module, PyObject *args, PyObject *kwargs) {
    (void)module;
    static char *names[] = { "data", "dtype", "device", "requires_grad", "pin_memory", NULL };
    PyObject *data, *dtype_object = NULL, *device_object = NULL;
    int requires_grad = 0, pin = 0, dtype;
    cr_device device;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|$OOpp:tensor", names, &data, &dtype_object, &device_object,
                                     &requires_grad, &pin))
        return NULL;
    if (read_options(dtype_object, device_object, "tensor", &dtype, &device)) return NULL;
    if (pin)
        return PyErr_Format(PyExc_RuntimeError, "tensor(): pin_memory=True needs an accelerator, and there is none; "
                                                "leave it out");
    int symbolic = cr_ambient_get()->mode.fake ? holds_symbol(data, 0) : 0;
    cr_tensor *t = symbolic ? NULL : cr_py_data_tensor(data, dtype);
    PyObject *o = symbolic > 0 ? cr_py_sym_tensor(data, dtype_object ? dtype_object : Py_None)
                  : t          ? cr_py_wrap(t)
                               : NULL;
    cr_status status = o && t ? cr_py_fresh(t, true) : CR_OK;
    if (status) {
        Py_CLEAR(o);
        cr_py_raise(status);
    }
    o = on_device(o, device);
    if (o && requires_grad && PyObject_SetAttrString(o, "requires_grad", Py_True)) Py_CLEAR(o);
    return o;
}

static PyObject *as_tensor(PyObject *module, PyObject *args, PyObject *kwargs) {
    (void)module;
    static char *names[] = { "data", "dtype", "device", NULL };
    PyObject *data, *dtype_object = NULL, *device_object = NULL;
    int dtype;
    cr_device device;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|OO:as_tensor", names, &data, &dtype_object, &device_object))
        return NULL;
    if (read_options(dtype_object, device_object, "as_tensor", &dtype, &device)) return NULL;
    cr_tensor *t = NULL;
    int r = from_memory(data, &t);
    if (r < 0) return NULL;
    if (r) t = from_sequence(data, dtype);
    else if (dtype >= 0 && dtype != t->meta.dtype) t = copy_of(t, dtype);
    PyObject *o = t ? cr_py_wrap(t) : NULL;
    cr_status status = o && r ? cr_py_fresh(t, false) : CR_OK;
    if (status) {
        Py_CLEAR(o);
        cr_py_raise(status);
    }
    return on_device(o, device);
}

static int read_ints(PyObject *tuple, const char *what, int *n, int64_t *out) {
    if (!PyTuple_Check(tuple) || PyTuple_GET_SIZE(tuple) > CR_MAX_RANK) {
        PyErr_Format(PyExc_ValueError, "_rebuild_tensor(): %s must be a tuple of at most %d ints", what, CR_MAX_RANK);
        return -1;
    }
    *n = (int)PyTuple_GET_SIZE(tuple);
    for (int i = 0; i < *n; i++)
        if (cr_py_int64(PyTuple_GET_ITEM(tuple, i), what, &out[i])) return -1;
    return 0;
}

/* _rebuild_tensor(dtype name, storage, offset, sizes, strides, requires_grad): what pickles call. */
static PyObject *rebuild(PyObject *module, PyObject *args) {
    (void)module;
    const char *name;
    long long offset;
    PyObject *memory, *sizes, *strides;
    int requires_grad, dtype, rank, nstrides;
    if (!PyArg_ParseTuple(args, "sOLOOp", &name, &memory, &offset, &sizes, &strides, &requires_grad)) return NULL;
    cr_storage *storage = cr_py_storage_of(memory);
    if (!storage)
        return PyErr_Format(PyExc_TypeError, "_rebuild_tensor(): expected an UntypedStorage, not %s",
                            Py_TYPE(memory)->tp_name);
    if (!cr_dtype_find(name, &dtype))
        return PyErr_Format(PyExc_ValueError, "_rebuild_tensor(): there is no dtype '%s'", name);
    cr_meta meta;
    cr_meta_init(&meta, dtype, cpu);
    if (read_ints(sizes, "sizes", &rank, meta.size) || read_ints(strides, "strides", &nstrides, meta.stride))
        return NULL;
    bool sane = rank == nstrides && offset >= 0;
    for (int d = 0; sane && d < rank; d++) sane = meta.size[d] >= 0 && meta.stride[d] >= 0;
    if (!sane) {
        PyErr_SetString(PyExc_ValueError, "_rebuild_tensor(): sizes, strides and offset do not describe a tensor");
        return NULL;
    }
    meta.rank = (uint8_t)rank;
    meta.offset = offset;
    cr_tensor *t = NULL;
    cr_status status = cr_tensor_on(storage, &meta, NULL, NULL, &t);
    if (status) return cr_py_raise(status);
    PyObject *o = cr_py_wrap(t);
    if (o && requires_grad && PyObject_SetAttrString(o, "requires_grad", Py_True)) Py_CLEAR(o);
    return o;
}

static PyMethodDef functions[] = {
    { "tensor", (PyCFunction)(void (*)(void))tensor, METH_VARARGS | METH_KEYWORDS,
      "tensor(data, *, dtype=None, device=None, requires_grad=False): a tensor with a copy of the data." },
    { "as_tensor", (PyCFunction)(void (*)(void))as_tensor, METH_VARARGS | METH_KEYWORDS,
      "as_tensor(data, dtype=None, device=None): as tensor(), without copying where the data is an array already." },
    { "_rebuild_tensor", rebuild, METH_VARARGS, NULL },
    { NULL, NULL, 0, NULL },
};

int cr_py_data_init(PyObject *module) { return PyModule_AddFunctions(module, functions); }
