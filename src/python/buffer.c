/* buffer.c: the buffer protocol, both ways; NumPy arrays cross through it without NumPy being imported here.
 *
 * Export: a view on the tensor's memory that keeps the tensor alive. Import: a storage over the exporter's memory that
 * gives the buffer back when its last reference goes, on whichever thread that happens. Read-only memory stays
 * read-only. */
#include "python/tensor.h"

/* One letter of the struct module for each dtype; NULL: other languages have no name for it. */
static const char *const formats[CR_DTYPE_COUNT] = {
    [CR_U8] = "B",  [CR_I8] = "b",   [CR_I16] = "h",   [CR_I32] = "i",  [CR_I64] = "q", [CR_F16] = "e", [CR_F32] = "f",
    [CR_F64] = "d", [CR_C64] = "Zf", [CR_C128] = "Zd", [CR_BOOL] = "?", [CR_U16] = "H", [CR_U32] = "I", [CR_U64] = "Q",
};

/* ---- export ---- */

static int get_buffer(PyObject *self, Py_buffer *view, int flags) {
    cr_tensor *t = cr_py_tensor_of(self);
    const cr_meta *m = &t->meta;
    view->obj = NULL;
    if (t->storage->fake) {
        PyErr_SetString(PyExc_BufferError, "a fake tensor has no memory");
        return -1;
    }
    if (!formats[m->dtype]) {
        PyErr_Format(PyExc_TypeError,
                     "%s has no counterpart outside of cresset; convert the tensor first, for instance with .float()",
                     cr_dtype_name(m->dtype));
        return -1;
    }
    if (m->flags & (CR_META_CONJ | CR_META_NEG | CR_META_REQUIRES_GRAD)) {
        PyErr_SetString(PyExc_BufferError, "the memory of a conjugated, negated or gradient-requiring tensor cannot be "
                                           "shared; use .detach(), .resolve_conj() or .resolve_neg()");
        return -1;
    }
    if ((flags & PyBUF_WRITABLE) && t->storage->readonly) {
        PyErr_SetString(PyExc_BufferError, "the tensor's memory is read-only");
        return -1;
    }
    bool contiguous = cr_meta_is_contiguous(NULL, m, CR_CONTIGUOUS) == CR_YES;
    bool wants_c = (flags & PyBUF_C_CONTIGUOUS) == PyBUF_C_CONTIGUOUS || !(flags & PyBUF_STRIDES);
    bool wants_f = (flags & PyBUF_F_CONTIGUOUS) == PyBUF_F_CONTIGUOUS;
    if ((wants_c && !contiguous) || (wants_f && m->rank > 1)) {
        PyErr_SetString(PyExc_BufferError, "the tensor's elements are not in the order that is asked for; use "
                                           ".contiguous()");
        return -1;
    }
    Py_ssize_t *shape = m->rank ? PyMem_New(Py_ssize_t, 2 * m->rank) : NULL;
    if (m->rank && !shape) {
        PyErr_NoMemory();
        return -1;
    }
    int64_t item = rt_itemsize(m->dtype);
    for (int d = 0; d < m->rank; d++) {
        shape[d] = (Py_ssize_t)m->size[d];
        shape[m->rank + d] = (Py_ssize_t)(m->stride[d] * item);
    }
    static char nothing[16]; /* process: the address of no elements */
    view->buf = t->storage->data ? (char *)t->storage->data + m->offset * item : nothing;
    view->obj = Py_NewRef(self);
    view->len = (Py_ssize_t)(cr_py_numel(t) * item);
    view->itemsize = (Py_ssize_t)item;
    view->readonly = t->storage->readonly;
    view->ndim = m->rank;
    view->format = flags & PyBUF_FORMAT ? (char *)formats[m->dtype] : NULL;
    view->shape = flags & PyBUF_ND ? shape : NULL;
    view->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES && m->rank ? shape + m->rank : NULL;
    view->suboffsets = NULL;
    view->internal = shape;
    return 0;
}

static void release_buffer(PyObject *self, Py_buffer *view) {
    (void)self;
    PyMem_Free(view->internal);
}

PyBufferProcs cr_py_tensor_buffer = { get_buffer, release_buffer };

/* ---- import ---- */

static void give_back(void *user, void *data) {
    (void)data;
    if (!Py_IsInitialized()) return; /* the interpreter took its memory with it */
    PyGILState_STATE state = PyGILState_Ensure();
    Py_buffer *view = user;
    PyBuffer_Release(view);
    PyMem_Free(view);
    PyGILState_Release(state);
}

static int format_dtype(const char *format, Py_ssize_t itemsize) {
    if (!format) return itemsize == 1 ? CR_U8 : -1;
    if (*format == '<' || *format == '=' || *format == '@' || *format == '|') format++;
    else if (*format == '>' || *format == '!')
        return itemsize > 1 ? -2 : format[1] == '?' ? CR_BOOL : format[1] == 'b' ? CR_I8 : CR_U8;
    for (int d = 0; d < CR_DTYPE_COUNT; d++)
        if (formats[d] && !strcmp(formats[d], format) && rt_itemsize(d) == itemsize) return d;
    if (strlen(format) == 1 && strchr("lnqi", *format)) return itemsize == 8 ? CR_I64 : CR_I32; /* C's long */
    if (strlen(format) == 1 && strchr("LNQI", *format)) return itemsize == 8 ? CR_U64 : CR_U32;
    return -1;
}

static int read_geometry(const Py_buffer *view, cr_meta *m) {
    if (view->len && (uintptr_t)view->buf % (uintptr_t)CR_MIN(view->itemsize, 8)) {
        PyErr_SetString(PyExc_ValueError, "the array's memory is not aligned to its element's size; copy the array "
                                          "first (array.copy())");
        return -1;
    }
    for (int d = 0; d < view->ndim; d++) {
        m->size[d] = view->shape[d];
        Py_ssize_t step = view->strides ? view->strides[d] : 0;
        m->stride[d] = 1;
        if (step >= 0 && step % view->itemsize == 0) m->stride[d] = step / view->itemsize;
        else if (view->shape[d] > 1) {
            PyErr_Format(PyExc_ValueError, "a stride of the array is %s; copy the array first (array.copy())",
                         step < 0 ? "negative, which tensors cannot have" : "not a multiple of its element's size");
            return -1;
        }
    }
    return 0;
}

/* A tensor on `view`'s memory from `offset` bytes on; consumes the view. */
static cr_tensor *tensor_on(Py_buffer *view, const cr_meta *m, void *data) {
    int64_t bytes = 0;
    cr_storage *storage = NULL;
    cr_tensor *t = NULL;
    cr_status status = cr_meta_bytes(m, &bytes);
    if (!status) status = cr_storage_wrap(data, bytes, give_back, view, &storage);
    if (status) {
        PyBuffer_Release(view);
        PyMem_Free(view);
        cr_py_raise(status);
        return NULL;
    }
    storage->readonly = view->readonly;
    status = cr_tensor_on(storage, m, NULL, NULL, &t);
    cr_storage_release(storage);
    if (status) cr_py_raise(status);
    return t;
}

static Py_buffer *view_of(PyObject *o, int flags) {
    Py_buffer *view = PyMem_Malloc(sizeof *view);
    if (!view) {
        PyErr_NoMemory();
        return NULL;
    }
    if (PyObject_GetBuffer(o, view, flags | PyBUF_WRITABLE)) {
        PyErr_Clear();
        if (PyObject_GetBuffer(o, view, flags)) {
            PyMem_Free(view);
            return NULL;
        }
        view->readonly = 1;
    }
    return view;
}

static cr_tensor *refuse_view(Py_buffer *view) {
    PyBuffer_Release(view);
    PyMem_Free(view);
    return NULL;
}

cr_tensor *cr_py_buffer_import(PyObject *o) {
    Py_buffer *view = view_of(o, PyBUF_STRIDES | PyBUF_FORMAT);
    if (!view) {
        if (PyErr_ExceptionMatches(PyExc_MemoryError)) return NULL;
        PyErr_Clear();
        PyObject *dtype = PyObject_GetAttrString(o, "dtype"); /* arrays of dates and such export nothing */
        PyErr_Clear();
        PyErr_Format(PyExc_TypeError, "can't convert an array of type %S", dtype ? dtype : (PyObject *)Py_TYPE(o));
        Py_XDECREF(dtype);
        return NULL;
    }
    int dtype = format_dtype(view->format, view->itemsize);
    if (dtype == -2)
        PyErr_SetString(PyExc_ValueError, "the array's byte order is not this machine's; convert it first "
                                          "(array.astype(array.dtype.newbyteorder('=')))");
    else if (dtype < 0)
        PyErr_Format(PyExc_TypeError,
                     "can't convert an array with elements of format '%s'; the supported types are float64, float32, "
                     "float16, complex128, complex64, int64, int32, int16, int8, uint64, uint32, uint16, uint8 and "
                     "bool",
                     view->format ? view->format : "?");
    else if (view->ndim > CR_MAX_RANK)
        PyErr_Format(PyExc_ValueError, "the array has %d dimensions; at most %d are supported", view->ndim,
                     CR_MAX_RANK);
    if (PyErr_Occurred()) return refuse_view(view);
    cr_meta m;
    cr_meta_init(&m, dtype, (cr_device){ CR_CPU, -1 });
    m.rank = (uint8_t)view->ndim;
    if (read_geometry(view, &m)) return refuse_view(view);
    return tensor_on(view, &m, view->buf);
}

/* ---- functions ---- */

static PyObject *from_numpy(PyObject *module, PyObject *array) {
    (void)module;
    if (!cr_py_is_ndarray(array))
        return PyErr_Format(PyExc_TypeError, "from_numpy(): expected np.ndarray (got %s)", Py_TYPE(array)->tp_name);
    cr_tensor *t = cr_py_buffer_import(array);
    return t ? cr_py_wrap(t) : NULL;
}

static PyObject *frombuffer(PyObject *module, PyObject *args, PyObject *kwargs) {
    (void)module;
    static char *names[] = { "buffer", "dtype", "count", "offset", "requires_grad", NULL };
    PyObject *object, *dtype_object = Py_None;
    Py_ssize_t count = -1, offset = 0;
    int requires_grad = 0, dtype;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|$Onnp:frombuffer", names, &object, &dtype_object, &count, &offset,
                                     &requires_grad))
        return NULL;
    if (!cr_py_dtype_read(dtype_object, &dtype))
        return PyErr_Format(PyExc_TypeError, "frombuffer(): dtype must be a dtype, not %s",
                            Py_TYPE(dtype_object)->tp_name);
    Py_buffer *view = view_of(object, PyBUF_SIMPLE);
    if (!view) return NULL;
    Py_ssize_t item = (Py_ssize_t)rt_itemsize(dtype), left = view->len - offset;
    if (offset < 0 || left <= 0)
        PyErr_Format(PyExc_ValueError, "frombuffer(): offset (%zd) must be in a buffer of %zd bytes", offset,
                     view->len);
    else if (((uintptr_t)view->buf + (uintptr_t)offset) % (uintptr_t)CR_MIN(item, 8))
        PyErr_Format(PyExc_ValueError, "frombuffer(): offset %zd is not aligned to elements of %zd bytes", offset,
                     item);
    else if (count == 0 || count < -1)
        PyErr_Format(PyExc_ValueError, "frombuffer(): count must be positive or -1, not %zd", count);
    else if (count < 0 && left % item)
        PyErr_Format(PyExc_ValueError, "frombuffer(): %zd bytes are no whole number of elements of %zd bytes", left,
                     item);
    else if (count > 0 && count > left / item)
        PyErr_Format(PyExc_ValueError, "frombuffer(): %zd elements of %zd bytes do not fit in %zd bytes", count, item,
                     left);
    if (PyErr_Occurred()) {
        refuse_view(view);
        return NULL;
    }
    cr_meta m;
    cr_meta_init(&m, dtype, (cr_device){ CR_CPU, -1 });
    m.rank = 1;
    m.size[0] = count < 0 ? left / item : count;
    m.stride[0] = 1;
    cr_tensor *t = tensor_on(view, &m, (char *)view->buf + offset);
    PyObject *o = t ? cr_py_wrap(t) : NULL;
    if (o && requires_grad && PyObject_SetAttrString(o, "requires_grad", Py_True)) Py_CLEAR(o);
    return o;
}

static PyMethodDef functions[] = {
    { "from_numpy", from_numpy, METH_O, "from_numpy(array): a tensor on the array's memory." },
    { "frombuffer", (PyCFunction)(void (*)(void))frombuffer, METH_VARARGS | METH_KEYWORDS,
      "frombuffer(buffer, *, dtype, count=-1, offset=0): a 1-d tensor on a buffer's memory." },
    { NULL, NULL, 0, NULL },
};

int cr_py_buffer_init(PyObject *module) { return PyModule_AddFunctions(module, functions); }
