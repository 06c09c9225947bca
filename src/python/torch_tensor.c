/* torch_tensor.c: reads and makes PyTorch's tensors; see torch_tensor.h. */
#include "python/torch_tensor.h"

/* Offsets into the object, the structure it points to, and the storage that one points to. */
typedef struct layout {
    bool found;
    int64_t impl;                         /* in the object: the structure */
    int64_t keys, rank, sizes, dtype, storage, offset; /* in the structure */
    int64_t data;                         /* in the storage */
    int64_t counter, version;             /* in the structure: the counter of writes, or NULL; in that one */
    uint64_t plain;                       /* the bits of `keys` that tensors may have which are just memory */
    int8_t dtypes[64];                    /* by torch's number; -1: unknown */
} layout;
enum { INLINE_RANK = 5 };                 /* up to here sizes and strides lie in the structure */

static struct { /* once: told when torch is first used */
    PyObject *tensor, *parameter;         /* the classes; NULL: torch was not told of */
    PyObject *capsule, *empty;
    const dl_exchange *exchange;          /* of the capsule; NULL: there is none, or it is not to be used */
    PyObject *dtypes[CR_DTYPE_COUNT];
    PyObject *is_neg, *is_conj, *resolve_neg, *resolve_conj, *detach, *clone, *version, *is_inference; /* names */
    layout layout;
} torch;

/* ---- reading ---- */

static bool is_plain_class(PyObject *o) {
    return (PyObject *)Py_TYPE(o) == torch.tensor || (PyObject *)Py_TYPE(o) == torch.parameter;
}

/* Nothing is called: false where the tensor is anything but memory. */
static bool read_found(PyObject *o, cresset_value *out) {
    const layout *l = &torch.layout;
    const char *impl = *(char *const *)((char *)o + l->impl);
    if (!impl || *(const uint64_t *)(impl + l->keys) & ~l->plain) return false;
    uint64_t rank = *(const uint64_t *)(impl + l->rank);
    int dtype = l->dtypes[*(const uint16_t *)(impl + l->dtype) & 63];
    const char *storage = *(char *const *)(impl + l->storage);
    if (dtype < 0 || rank > CR_MAX_RANK || !storage) return false;
    const int64_t *sizes = rank <= INLINE_RANK ? (const int64_t *)(impl + l->sizes)
                                               : *(const int64_t *const *)(impl + l->sizes);
    char *data = *(char *const *)(storage + l->data);
    out->struct_size = sizeof *out;
    out->kind = CRESSET_TENSOR;
    out->dtype = dtype;
    out->rank = (int32_t)rank;
    out->size = sizes;
    out->stride = sizes + (rank <= INLINE_RANK ? INLINE_RANK : rank);
    out->data = data ? data + *(const int64_t *)(impl + l->offset) * rt_itemsize(dtype) : NULL;
    return true;
}

static int asks(PyObject *o, PyObject *name) {
    PyObject *answer = PyObject_CallMethodNoArgs(o, name);
    int yes = answer ? PyObject_IsTrue(answer) : -1;
    Py_XDECREF(answer);
    return yes;
}

/* The elements as they are meant, where a minus or a conjugation is still to be carried out. */
static int resolve(PyObject *o, PyObject *question, PyObject *answer, PyObject **kept) {
    int lazy = asks(*kept ? *kept : o, question);
    if (lazy <= 0) return lazy;
    PyObject *made = PyObject_CallMethodNoArgs(*kept ? *kept : o, answer);
    if (!made) return -1;
    Py_XSETREF(*kept, made);
    return 0;
}

static int value_of(const dl_tensor *d, cresset_value *out) {
    int dtype = cr_dl_dtype(d->dtype);
    if (d->device.type != DL_CPU || dtype < 0 || d->ndim > CR_MAX_RANK) {
        PyErr_Format(PyExc_TypeError,
                     "a tensor is on device type %d, of element type (code %d, %d bits), with %d dimensions: only "
                     "tensors on the CPU, of known types and at most %d dimensions can be taken",
                     d->device.type, d->dtype.code, d->dtype.bits, d->ndim, CR_MAX_RANK);
        return -1;
    }
    *out = (cresset_value){ .struct_size = sizeof *out, .kind = CRESSET_TENSOR, .dtype = dtype, .rank = d->ndim,
                            .size = d->shape, .stride = d->strides,
                            .data = d->data ? (char *)d->data + d->byte_offset : NULL };
    return 0;
}

/* By the capsule of __dlpack__: the tensor that holds it becomes *kept. */
static int read_capsule(PyObject *o, cresset_value *out, PyObject **kept) {
    PyObject *alone = PyObject_CallMethodNoArgs(o, torch.detach);
    cr_tensor *t = alone ? cr_py_dlpack_import(alone, Py_None, Py_None) : NULL;
    Py_XDECREF(alone);
    if (!t) return -1;
    rt_view v = cr_tensor_view(t);
    *out = (cresset_value){ .struct_size = sizeof *out, .kind = CRESSET_TENSOR, .dtype = v.dtype, .rank = v.rank,
                            .data = v.p, .size = t->meta.size, .stride = t->meta.stride };
    PyObject *holder = cr_frontend_wrap(t);
    if (!holder) return -1;
    Py_XSETREF(*kept, holder);
    return 0;
}

static int read_public(PyObject *o, cresset_value *out, PyObject **kept) {
    if (resolve(o, torch.is_neg, torch.resolve_neg, kept) || resolve(o, torch.is_conj, torch.resolve_conj, kept))
        return -1;
    if (*kept) o = *kept;
    if (!torch.exchange) return read_capsule(o, out, kept);
    dl_tensor d;
    return torch.exchange->read(o, &d) ? -1 : value_of(&d, out);
}

static bool is_empty(const cresset_value *v) {
    for (int d = 0; d < v->rank; d++)
        if (!v->size[d]) return true;
    return false;
}

static int read_any(PyObject *o, cresset_value *out, PyObject **kept) {
    if (torch.layout.found && read_found(o, out)) return 0;
    return read_public(o, out, kept);
}

/* Elements at odd addresses: a copy has them where kernels may read them. */
static int read_aligned(PyObject *o, cresset_value *out, PyObject **kept) {
    if (read_any(o, out, kept)) return -1;
    if (!((uintptr_t)out->data & (uintptr_t)(CR_MIN(rt_itemsize(out->dtype), 8) - 1)) || is_empty(out)) return 0;
    PyObject *copy = PyObject_CallMethodNoArgs(o, torch.clone), *more = NULL;
    if (!copy) return -1;
    Py_XSETREF(*kept, copy);
    int failed = read_any(copy, out, &more);
    if (more) Py_SETREF(*kept, more);
    return failed;
}

int cr_torch_read(PyObject *o, cresset_value *out, PyObject **kept) {
    *kept = NULL;
    if (!is_plain_class(o)) {
        PyErr_Format(PyExc_TypeError, "expected a torch.Tensor, not a %s: subclasses of tensors cannot be taken",
                     Py_TYPE(o)->tp_name);
        return -1;
    }
    if (!read_aligned(o, out, kept)) {
        if (out->data || is_empty(out)) return 0;
        PyErr_SetString(PyExc_TypeError, "a tensor has no memory: its storage was freed, or it stands for zeros");
    }
    Py_CLEAR(*kept);
    return -1;
}

bool cr_torch_peek(PyObject *o, cresset_value *out) {
    return torch.layout.found && is_plain_class(o) && read_found(o, out) && (out->data || is_empty(out));
}

bool cr_torch_is_plain(PyObject *o) {
    cresset_value v;
    if (!is_plain_class(o)) return false;
    if (torch.layout.found) return read_found(o, &v);
    bool plain = asks(o, torch.is_neg) == 0 && asks(o, torch.is_conj) == 0;
    PyErr_Clear();
    return plain;
}

int cr_torch_version(PyObject *o, uint64_t *out) {
    *out = 0;
    if (torch.layout.found && is_plain_class(o)) {
        const char *impl = *(char *const *)((char *)o + torch.layout.impl);
        const char *counter = *(char *const *)(impl + torch.layout.counter);
        if (counter) *out = *(const uint32_t *)(counter + torch.layout.version);
        return 0;
    }
    int uncounted = asks(o, torch.is_inference);
    if (uncounted) return uncounted < 0 ? -1 : 0;
    PyObject *number = PyObject_GetAttr(o, torch.version);
    if (number) *out = PyLong_AsUnsignedLongLong(number);
    Py_XDECREF(number);
    return PyErr_Occurred() ? -1 : 0;
}

PyObject *cr_torch_detached(PyObject *o) { return PyObject_CallMethodNoArgs(o, torch.detach); }

static void leave(void *user, void *data) { (void)user, (void)data; } /* somebody else's memory */

cr_status cr_torch_tensor(const cresset_value *v, cr_tensor **out) {
    cr_meta meta;
    int64_t bytes;
    cr_storage *storage = NULL;
    cr_meta_init(&meta, v->dtype, (cr_device){ CR_CPU, -1 });
    CR_TRY(cr_meta_set_dense(NULL, &meta, v->rank, v->size, CR_CONTIGUOUS));
    for (int d = 0; d < v->rank; d++) meta.stride[d] = v->stride[d];
    CR_TRY(cr_meta_bytes(&meta, &bytes));
    CR_TRY(cr_storage_wrap(v->data, bytes, leave, NULL, &storage));
    cr_status status = cr_tensor_on(storage, &meta, NULL, NULL, out);
    cr_storage_release(storage);
    return status;
}

bool cr_torch_is_borrowed(const cr_tensor *t) { return t->storage->dispose == leave; }

/* ---- making ---- */

PyObject *cr_torch_dtype(int dtype) { return torch.dtypes[dtype]; }

PyObject *cr_torch_empty(PyObject *sizes, PyObject *strides, int dtype) {
    PyObject *args[] = { sizes, strides, torch.dtypes[dtype] };
    return PyObject_Vectorcall(torch.empty, args, 3, NULL);
}

PyObject *cr_torch_give(cr_tensor *t) {
    void *object = NULL;
    if (torch.exchange) {
        dl_versioned *d = cr_dl_export(t, false);
        if (!d) return PyErr_NoMemory();
        return torch.exchange->object_of(d, &object) ? NULL : object;
    }
    cr_tensor_retain(t);
    PyObject *ours = cr_frontend_wrap(t), *module = ours ? PyImport_ImportModule("torch") : NULL;
    object = module ? PyObject_CallMethod(module, "from_dlpack", "O", ours) : NULL;
    Py_XDECREF(module);
    Py_XDECREF(ours);
    return object;
}

/* ---- Python's side ---- */

static int set_dtypes(PyObject *pairs) {
    PyObject *ours, *theirs;
    Py_ssize_t at = 0;
    while (PyDict_Next(pairs, &at, &ours, &theirs)) {
        int dtype;
        if (!cr_py_dtype_read(ours, &dtype)) return PyErr_SetString(PyExc_TypeError, "expected dtypes"), -1;
        Py_XSETREF(torch.dtypes[dtype], Py_NewRef(theirs));
    }
    return 0;
}

static int set_names(void) {
    static const struct { PyObject **at; const char *text; } names[] = {
        { &torch.is_neg, "is_neg" },         { &torch.is_conj, "is_conj" }, { &torch.resolve_neg, "resolve_neg" },
        { &torch.resolve_conj, "resolve_conj" }, { &torch.detach, "detach" },
        { &torch.clone, "clone" },           { &torch.version, "_version" }, { &torch.is_inference, "is_inference" },
    };
    for (size_t i = 0; i < CR_COUNT(names); i++)
        if (!*names[i].at && !(*names[i].at = PyUnicode_InternFromString(names[i].text))) return -1;
    return 0;
}

/* _torch_setup(tensor, parameter, capsule or None, empty, {dtype: torch's dtype}) */
static PyObject *setup(PyObject *module, PyObject *args) {
    PyObject *tensor, *parameter, *capsule, *empty, *dtypes;
    (void)module;
    if (!PyArg_ParseTuple(args, "OOOOO!:_torch_setup", &tensor, &parameter, &capsule, &empty, &PyDict_Type, &dtypes))
        return NULL;
    const dl_exchange *exchange = NULL;
    if (capsule != Py_None && !(exchange = PyCapsule_GetPointer(capsule, "dlpack_exchange_api"))) return NULL;
    if (exchange && exchange->version.major != 1) exchange = NULL;
    if (set_names() || set_dtypes(dtypes)) return NULL;
    torch.layout.found = false;
    torch.exchange = exchange;
    Py_XSETREF(torch.capsule, Py_NewRef(capsule));
    Py_XSETREF(torch.empty, Py_NewRef(empty));
    Py_XSETREF(torch.parameter, Py_NewRef(parameter));
    Py_XSETREF(torch.tensor, Py_NewRef(tensor));
    Py_RETURN_NONE;
}

/* _torch_layout(impl, keys, rank, sizes, dtype, storage, offset, data, counter, version, plain, {number: dtype}); no
 * arguments: the offsets are not used. */
static PyObject *set_layout(PyObject *module, PyObject *args) {
    PyObject *dtypes, *number, *dtype;
    Py_ssize_t at = 0;
    long long o[10];
    unsigned long long plain;
    (void)module;
    torch.layout.found = false;
    if (!PyTuple_GET_SIZE(args)) Py_RETURN_NONE;
    if (!PyArg_ParseTuple(args, "LLLLLLLLLLKO!:_torch_layout", &o[0], &o[1], &o[2], &o[3], &o[4], &o[5], &o[6],
                          &o[7], &o[8], &o[9], &plain, &PyDict_Type, &dtypes))
        return NULL;
    layout l = { true, o[0], o[1], o[2], o[3], o[4], o[5], o[6], o[7], o[8], o[9], plain, { 0 } };
    memset(l.dtypes, -1, sizeof l.dtypes);
    while (PyDict_Next(dtypes, &at, &number, &dtype)) {
        long index = PyLong_AsLong(number);
        int known;
        if (index < 0 || index >= (long)sizeof l.dtypes || !cr_py_dtype_read(dtype, &known))
            return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_ValueError, "%ld is no number of a dtype", index);
        l.dtypes[index] = (int8_t)known;
    }
    torch.layout = l;
    Py_RETURN_NONE;
}

PyObject *cr_torch_numbers(const int64_t *at, int n) {
    PyObject *o = PyTuple_New(n);
    for (int i = 0; o && i < n; i++) {
        PyObject *item = PyLong_FromLongLong(at[i]);
        if (item) PyTuple_SET_ITEM(o, i, item);
        else Py_CLEAR(o);
    }
    return o;
}

static PyObject *version_shown(PyObject *module, PyObject *o) {
    uint64_t version;
    (void)module;
    return cr_torch_version(o, &version) ? NULL : PyLong_FromUnsignedLongLong(version);
}

/* _torch_read(tensor): (address, dtype, sizes, strides, whether by the offsets), as calls read it. */
static PyObject *read_shown(PyObject *module, PyObject *o) {
    cresset_value v;
    PyObject *kept;
    (void)module;
    bool found = torch.layout.found && is_plain_class(o) && read_found(o, &v);
    if (cr_torch_read(o, &v, &kept)) return NULL;
    PyObject *result = Py_BuildValue("(KNNNO)", (unsigned long long)(uintptr_t)v.data, cr_py_dtype_get(v.dtype),
                                     cr_torch_numbers(v.size, v.rank), cr_torch_numbers(v.stride, v.rank),
                                     found ? Py_True : Py_False);
    Py_XDECREF(kept);
    return result;
}

static PyMethodDef functions[] = {
    { "_torch_setup", setup, METH_VARARGS,
      "_torch_setup(Tensor, Parameter, capsule, empty, dtypes): what is needed of torch." },
    { "_torch_layout", set_layout, METH_VARARGS, "_torch_layout(...): where in a tensor its numbers lie." },
    { "_torch_read", read_shown, METH_O, "_torch_read(tensor): (address, dtype, sizes, strides, by the layout)." },
    { "_torch_version", version_shown, METH_O, "_torch_version(tensor): how often it was written, as calls read it." },
    { NULL, NULL, 0, NULL },
};

int cr_py_torch_tensor_init(PyObject *module) { return PyModule_AddFunctions(module, functions); }
