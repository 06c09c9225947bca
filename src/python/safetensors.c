/* safetensors.c: safetensors files for Python: written from a dict of tensors, read as tensors on the mapped file. */
#include "archive/safetensors.h"
#include "python/tensor.h"

/* ---- writing ---- */

typedef struct table {
    cr_safetensor *entries;
    cr_tensor **tensors;  /* borrowed from the dict, which is kept as it is */
    const char **metadata;
    size_t n;
    void *copy;           /* of the one that is being written, where its elements do not lie in order */
} table;

static void table_dispose(table *t) {
    PyMem_Free(t->entries);
    PyMem_Free(t->tensors);
    PyMem_Free(t->metadata);
    cr_free(t->copy);
}

static int add_tensor(table *t, PyObject *key, PyObject *value) {
    const char *name = PyUnicode_Check(key) ? PyUnicode_AsUTF8(key) : NULL;
    if (!name)
        return PyErr_Occurred()
                   ? -1
                   : (PyErr_Format(PyExc_TypeError, "a tensor's name is a text, not %s", Py_TYPE(key)->tp_name), -1);
    if (!cr_py_is_tensor(value))
        return PyErr_Format(PyExc_TypeError, "'%s' is a tensor, not %s", name, Py_TYPE(value)->tp_name), -1;
    cr_tensor *x = cr_py_tensor_of(value);
    if (x->storage->fake) return PyErr_Format(PyExc_ValueError, "tensor '%s' has no data, only a shape", name), -1;
    rt_view v = cr_tensor_view(x);
    cr_safetensor *e = &t->entries[t->n];
    *e = (cr_safetensor){
        .name = name, .dtype = v.dtype, .rank = v.rank, .bytes = (uint64_t)(rt_numel(&v) * rt_itemsize(v.dtype))
    };
    memcpy(e->size, v.size, sizeof e->size);
    if (rt_is_contiguous(&v) && !(x->meta.flags & (CR_META_CONJ | CR_META_NEG))) e->data = v.p;
    t->tensors[t->n++] = x;
    return 0;
}

static int table_fill(table *t, PyObject *tensors, PyObject *metadata) {
    PyObject *key, *value;
    Py_ssize_t at = 0;
    size_t n = (size_t)PyDict_GET_SIZE(tensors), pairs = (size_t)PyDict_GET_SIZE(metadata), k = 0;
    t->entries = PyMem_Calloc(n + 1, sizeof *t->entries);
    t->tensors = PyMem_Calloc(n + 1, sizeof *t->tensors);
    t->metadata = PyMem_Calloc(2 * pairs + 1, sizeof *t->metadata);
    if (!t->entries || !t->tensors || !t->metadata) return PyErr_NoMemory(), -1;
    while (PyDict_Next(tensors, &at, &key, &value))
        if (add_tensor(t, key, value)) return -1;
    at = 0;
    while (PyDict_Next(metadata, &at, &key, &value)) {
        if (!PyUnicode_Check(key) || !PyUnicode_Check(value))
            return PyErr_SetString(PyExc_TypeError, "metadata are texts, keys and values"), -1;
        if (!(t->metadata[k++] = PyUnicode_AsUTF8(key)) || !(t->metadata[k++] = PyUnicode_AsUTF8(value))) return -1;
    }
    return 0;
}

static cr_status fill(void *user, size_t i, const void **data) {
    table *t = user;
    cr_tensor *dense = NULL;
    CR_TRY(cr_call_1("aten::contiguous", (cr_arg[]){ cr_arg_tensor(t->tensors[i]) }, 1, &dense));
    cr_free(t->copy);
    t->copy = cr_alloc((size_t)t->entries[i].bytes);
    if (t->copy) memcpy(t->copy, cr_tensor_view(dense).p, (size_t)t->entries[i].bytes);
    *data = t->copy;
    cr_tensor_release(dense);
    return t->copy ? CR_OK : CR_ENOMEM;
}

static cr_status gather(void *user, const void *data, size_t size) {
    cr_str_addn(user, data, size);
    return cr_str_status(user);
}

/* _save_safetensors(path or None, tensors, metadata): None gives the bytes. */
static PyObject *save(PyObject *unused, PyObject *args) {
    PyObject *target, *tensors, *metadata, *path = NULL, *o = NULL;
    table t = { .n = 0 };
    cr_str bytes;
    (void)unused;
    if (!PyArg_ParseTuple(args, "OO!O!:_save_safetensors", &target, &PyDict_Type, &tensors, &PyDict_Type, &metadata))
        return NULL;
    cr_str_init(&bytes);
    if ((target != Py_None && !PyUnicode_FSConverter(target, &path)) || table_fill(&t, tensors, metadata)) goto out;
    cr_safetensors_source source = { .fill = fill, .step = cr_py_look_for_signals, .user = &t };
    const char *const *pairs = t.metadata[0] ? t.metadata : NULL;
    PyThreadState *thread = PyEval_SaveThread();
    cr_status status = path ? cr_safetensors_write_from(PyBytes_AS_STRING(path), t.entries, t.n, pairs, &source)
                            : cr_safetensors_write_to((cr_sink){ gather, &bytes }, t.entries, t.n, pairs, &source);
    PyEval_RestoreThread(thread);
    o = status ? cr_py_raise(status)
        : path ? Py_NewRef(Py_None)
               : PyBytes_FromStringAndSize(cr_str_get(&bytes), (Py_ssize_t)bytes.n);
out:
    cr_str_dispose(&bytes);
    table_dispose(&t);
    Py_XDECREF(path);
    return o;
}

/* ---- reading ---- */

static void release_file(void *user, void *data) {
    (void)data;
    cr_safetensors_release(user);
}

/* On the mapped bytes; a copy where they are not aligned to their elements. */
static cr_status tensor_of(cr_safetensors *file, const cr_safetensor *e, cr_tensor **out) {
    cr_storage *s = NULL;
    cr_meta m;
    bool aligned = (uintptr_t)e->data % (uintptr_t)rt_itemsize(e->dtype) == 0;
    if (aligned && e->bytes) {
        CR_TRY(cr_storage_wrap(e->data, (int64_t)e->bytes, release_file, file, &s));
        cr_safetensors_retain(file);
    } else {
        CR_TRY(cr_storage_create((int64_t)e->bytes, &s));
        if (e->bytes) memcpy(s->data, e->data, (size_t)e->bytes);
    }
    cr_meta_init(&m, e->dtype, (cr_device){ CR_CPU, -1 });
    cr_status status = cr_meta_set_dense(NULL, &m, e->rank, e->size, CR_CONTIGUOUS);
    m.storage = s->id;
    if (!status) status = cr_tensor_on(s, &m, NULL, NULL, out);
    cr_storage_release(s);
    return status;
}

static PyObject *file_tensors(cr_safetensors *file) {
    PyObject *dict = PyDict_New();
    for (size_t i = 0; dict && i < cr_safetensors_count(file); i++) {
        const cr_safetensor *e = cr_safetensors_at(file, i);
        cr_tensor *t = NULL;
        cr_status status = tensor_of(file, e, &t);
        PyObject *o = status ? cr_py_raise(status) : cr_py_wrap(t);
        if (!o || PyDict_SetItemString(dict, e->name, o)) Py_CLEAR(dict);
        Py_XDECREF(o);
    }
    return dict;
}

static PyObject *file_metadata(const cr_safetensors *file) {
    PyObject *dict = PyDict_New();
    for (size_t i = 0; dict && i < cr_safetensors_metadata_count(file); i++) {
        const char *key, *value;
        cr_safetensors_metadata(file, i, &key, &value);
        PyObject *o = PyUnicode_FromString(value);
        if (!o || PyDict_SetItemString(dict, key, o)) Py_CLEAR(dict);
        Py_XDECREF(o);
    }
    return dict;
}

/* _load_safetensors(path): (tensors, metadata), tensors in the order of their data. */
static PyObject *load(PyObject *unused, PyObject *target) {
    PyObject *path = NULL;
    cr_safetensors *file = NULL;
    (void)unused;
    if (!PyUnicode_FSConverter(target, &path)) return NULL;
    PyThreadState *thread = PyEval_SaveThread();
    cr_status status = cr_safetensors_open(PyBytes_AS_STRING(path), &file);
    PyEval_RestoreThread(thread);
    Py_DECREF(path);
    if (status) return cr_py_raise(status);
    PyObject *tensors = file_tensors(file), *metadata = tensors ? file_metadata(file) : NULL, *o = NULL;
    if (metadata) o = PyTuple_Pack(2, tensors, metadata);
    Py_XDECREF(tensors);
    Py_XDECREF(metadata);
    cr_safetensors_release(file);
    return o;
}

static PyMethodDef functions[] = {
    { "_save_safetensors", save, METH_VARARGS,
      "_save_safetensors(path or None, tensors, metadata): writes the file, or gives its bytes." },
    { "_load_safetensors", load, METH_O, "_load_safetensors(path): (tensors, metadata)." },
    { NULL, NULL, 0, NULL },
};

int cr_py_safetensors_init(PyObject *module) { return PyModule_AddFunctions(module, functions); }
