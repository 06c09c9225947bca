/* torch_file.c: torch.save files for Python: read as values by the restricted reader of archive/pickle.h, which runs
 * nothing of the file, and written around a pickle that _serialization.py makes. */
#include "archive/pickle.h"
#include "python/tensor.h"

#include <stdio.h>

/* ---- reading ---- */

typedef struct reader {
    cr_torch_file *file;
    cr_storage **storages; /* by index; NULL: not read yet */
    PyObject *parameter;   /* cresset.nn.Parameter */
    bool mapped;           /* storages may lie on the file */
} reader;

static void release_file(void *user, void *data) {
    (void)data;
    cr_torch_release(user);
}

/* A copy, or where it may be the mapped bytes, if they are aligned. */
static cr_status storage_of(reader *r, const cr_pickle_storage *s, cr_storage **out) {
    cr_storage **known = &r->storages[s->index];
    if (!*known) {
        cr_zip *zip = cr_torch_zip(r->file);
        const cr_zip_member *m = cr_torch_member(r->file, s);
        uint8_t *data = NULL;
        if (r->mapped && !m->deflated) CR_TRY(cr_zip_borrow(zip, m, &data));
        if (data && m->size && (uintptr_t)data % 16 == 0) {
            CR_TRY(cr_storage_wrap(data, (int64_t)m->size, release_file, r->file, known));
            cr_torch_retain(r->file);
        } else {
            char *copy = NULL;
            CR_TRY(cr_zip_read(zip, m, m->size, &copy));
            cr_status status = cr_storage_create((int64_t)m->size, known);
            if (!status && m->size) memcpy((*known)->data, copy, (size_t)m->size);
            cr_free(copy);
            CR_TRY(status);
        }
    }
    *out = *known;
    return CR_OK;
}

static cr_status tensor_of(reader *r, const cr_pickle_tensor *p, cr_tensor **out) {
    cr_storage *s = NULL;
    cr_meta m;
    if (p->rank > CR_MAX_RANK)
        return CR_FAIL(CR_EUNSUPPORTED, "a tensor of %d dimensions; at most %d are supported", p->rank, CR_MAX_RANK);
    CR_TRY(storage_of(r, p->storage, &s));
    cr_meta_init(&m, p->dtype, (cr_device){ CR_CPU, -1 });
    m.rank = (uint8_t)p->rank;
    m.offset = p->offset;
    m.storage = s->id;
    for (int d = 0; d < p->rank; d++) {
        m.size[d] = p->size[d];
        m.stride[d] = p->stride[d];
    }
    m.flags = (uint8_t)((p->conj ? CR_META_CONJ : 0) | (p->neg ? CR_META_NEG : 0));
    return cr_tensor_on(s, &m, NULL, NULL, out);
}

static PyObject *make_tensor(reader *r, const cr_pickle_tensor *p) {
    cr_tensor *t = NULL;
    cr_status status = tensor_of(r, p, &t);
    PyObject *o = status ? cr_py_raise(status) : cr_py_wrap(t);
    if (o && p->is_parameter) {
        PyObject *made = PyObject_CallFunction(r->parameter, "OO", o, p->requires_grad ? Py_True : Py_False);
        Py_SETREF(o, made);
    } else if (o && p->requires_grad && PyObject_SetAttrString(o, "requires_grad", Py_True)) {
        Py_CLEAR(o);
    }
    return o;
}

static PyObject *make(reader *r, const cr_pickle *p);

static PyObject *make_list(reader *r, const cr_pickle *p) {
    PyObject *list = PyList_New(p->n);
    for (uint32_t i = 0; list && i < p->n; i++) {
        PyObject *item = make(r, p->u.items[i]);
        if (!item) Py_CLEAR(list);
        else PyList_SET_ITEM(list, i, item);
    }
    return list;
}

/* A value of a Python class out of the list of its items. */
static PyObject *made_by(const char *module, const char *name, PyObject *items, PyObject *extra) {
    PyObject *home = items ? PyImport_ImportModule(module) : NULL,
             *class = home ? PyObject_GetAttrString(home, name) : NULL;
    PyObject *o = class ? PyObject_CallFunctionObjArgs(class, items, extra, NULL) : NULL;
    Py_XDECREF(home);
    Py_XDECREF(class);
    Py_XDECREF(items);
    return o;
}

static PyObject *make_dict(reader *r, const cr_pickle *p) {
    const char *class = p->kind == CR_PICKLE_COUNTER ? "Counter" : "OrderedDict";
    PyObject *dict = p->kind == CR_PICKLE_DICT ? PyDict_New() : made_by("collections", class, PyList_New(0), NULL);
    if (p->kind == CR_PICKLE_DEFAULT_DICT) {
        PyObject *factory = Py_NewRef(Py_None);
        if (p->u.factory)
            Py_SETREF(factory, made_by("operator", "attrgetter", PyUnicode_FromString(p->u.factory), NULL));
        if (factory && p->u.factory) {
            PyObject *builtins = PyImport_ImportModule("builtins");
            Py_SETREF(factory, builtins ? PyObject_CallOneArg(factory, builtins) : NULL);
            Py_XDECREF(builtins);
        }
        Py_XSETREF(dict, factory ? made_by("collections", "defaultdict", factory, NULL) : NULL);
    }
    for (uint32_t i = 0; dict && i + 1 < p->n; i += 2) {
        PyObject *key = make(r, p->u.items[i]), *value = key ? make(r, p->u.items[i + 1]) : NULL;
        if (!value || PyObject_SetItem(dict, key, value)) Py_CLEAR(dict);
        Py_XDECREF(key);
        Py_XDECREF(value);
    }
    return dict;
}

static PyObject *make_deque(reader *r, const cr_pickle *p) {
    PyObject *most = p->u.maxlen >= 0 ? PyLong_FromLongLong(p->u.maxlen) : Py_NewRef(Py_None);
    PyObject *o = most ? made_by("collections", "deque", make_list(r, p), most) : NULL;
    Py_XDECREF(most);
    return o;
}

/* torch.NAME is cresset.NAME. */
static PyObject *named(const char *name) {
    PyObject *package = PyImport_ImportModule("cresset"), *o = package ? PyObject_GetAttrString(package, name) : NULL;
    Py_XDECREF(package);
    return o;
}

static PyObject *make(reader *r, const cr_pickle *p) {
    switch ((cr_pickle_kind)p->kind) {
    case CR_PICKLE_NONE: return Py_NewRef(Py_None);
    case CR_PICKLE_BOOL: return PyBool_FromLong(p->u.b);
    case CR_PICKLE_INT: return PyLong_FromLongLong(p->u.i);
    case CR_PICKLE_FLOAT: return PyFloat_FromDouble(p->u.f);
    case CR_PICKLE_COMPLEX: return PyComplex_FromDoubles(p->u.c[0], p->u.c[1]);
    case CR_PICKLE_STRING: return PyUnicode_FromStringAndSize(p->u.s, p->n);
    case CR_PICKLE_BYTES: return PyBytes_FromStringAndSize(p->u.s, p->n);
    case CR_PICKLE_TUPLE: return made_by("builtins", "tuple", make_list(r, p), NULL);
    case CR_PICKLE_LIST: return make_list(r, p);
    case CR_PICKLE_SIZE: return made_by("cresset", "Size", make_list(r, p), NULL);
    case CR_PICKLE_SET: return made_by("builtins", "set", make_list(r, p), NULL);
    case CR_PICKLE_FROZENSET: return made_by("builtins", "frozenset", make_list(r, p), NULL);
    case CR_PICKLE_DEQUE: return make_deque(r, p);
    case CR_PICKLE_DICT:
    case CR_PICKLE_ORDERED_DICT:
    case CR_PICKLE_DEFAULT_DICT:
    case CR_PICKLE_COUNTER: return make_dict(r, p);
    case CR_PICKLE_DTYPE: return named(rt_dtype_name(p->u.dtype));
    case CR_PICKLE_DEVICE: return made_by("cresset", "device", PyUnicode_FromString(p->u.s), NULL);
    case CR_PICKLE_LAYOUT:
    case CR_PICKLE_FORMAT: return named(p->u.s);
    case CR_PICKLE_TENSOR: return make_tensor(r, p->u.tensor);
    default:
        return PyErr_Format(PyExc_NotImplementedError, "the file holds %s outside a tensor; save tensors instead",
                            cr_pickle_kind_name(p->kind));
    }
}

/* _load_torch(path, mapped): the value in a torch.save file. */
static PyObject *load(PyObject *unused, PyObject *args) {
    PyObject *target, *path = NULL, *o = NULL, *package;
    int mapped;
    (void)unused;
    if (!PyArg_ParseTuple(args, "Op:_load_torch", &target, &mapped) || !PyUnicode_FSConverter(target, &path))
        return NULL;
    reader r = { .mapped = mapped };
    PyThreadState *thread = PyEval_SaveThread();
    cr_status status = cr_torch_open_path(PyBytes_AS_STRING(path), &r.file);
    PyEval_RestoreThread(thread);
    Py_DECREF(path);
    if (status) return cr_py_raise(status);
    size_t n = cr_torch_storage_count(r.file);
    r.storages = cr_calloc(n + 1, sizeof *r.storages);
    package = PyImport_ImportModule("cresset.nn");
    r.parameter = package ? PyObject_GetAttrString(package, "Parameter") : NULL;
    if (!r.storages) PyErr_NoMemory();
    else if (r.parameter) o = make(&r, cr_torch_root(r.file));
    for (size_t i = 0; r.storages && i < n; i++) cr_storage_release(r.storages[i]);
    cr_free(r.storages);
    Py_XDECREF(package);
    Py_XDECREF(r.parameter);
    cr_torch_release(r.file);
    return o;
}

/* ---- writing ---- */

static cr_status write_members(cr_zip_writer *w, const char *name, const char *pickle, size_t size,
                               cr_storage *const *storages, size_t n) {
    const struct {
        const char *name, *text;
    } small[] = {
        { ".format_version", "1" }, { ".storage_alignment", "64" }, { "byteorder", "little" }, { "version", "3\n" }
    };
    char member[640];
    snprintf(member, sizeof member, "%s/data.pkl", name);
    CR_TRY(cr_zip_writer_add(w, member, pickle, size));
    for (size_t i = 0; i < CR_COUNT(small); i++) {
        snprintf(member, sizeof member, "%s/%s", name, small[i].name);
        CR_TRY(cr_zip_writer_add(w, member, small[i].text, strlen(small[i].text)));
    }
    for (size_t i = 0; i < n; i++) {
        snprintf(member, sizeof member, "%s/data/%zu", name, i);
        CR_TRY(cr_zip_writer_add(w, member, storages[i]->bytes ? storages[i]->data : "", (size_t)storages[i]->bytes));
    }
    return CR_OK;
}

/* _save_torch(path, name, pickle, tensors): the file, whose member data/N is the storage of tensor N. */
static PyObject *save(PyObject *unused, PyObject *args) {
    PyObject *target, *tensors, *path = NULL, *o = NULL;
    const char *name, *pickle;
    Py_ssize_t size;
    cr_zip_writer *w = NULL;
    (void)unused;
    if (!PyArg_ParseTuple(args, "Osy#O!:_save_torch", &target, &name, &pickle, &size, &PyList_Type, &tensors))
        return NULL;
    if (!PyUnicode_FSConverter(target, &path)) return NULL;
    size_t n = (size_t)PyList_GET_SIZE(tensors);
    cr_storage **storages = cr_calloc(n + 1, sizeof *storages);
    cr_status status = storages ? CR_OK : CR_ENOMEM;
    for (size_t i = 0; i < n && !status; i++) {
        cr_tensor *t = cr_py_tensor_of(PyList_GET_ITEM(tensors, (Py_ssize_t)i));
        if (t->storage->fake) status = CR_FAIL(CR_EVALUE, "save(): a tensor has no data, only a shape");
        storages[i] = t->storage;
    }
    PyThreadState *thread = PyEval_SaveThread();
    if (!status) status = cr_zip_writer_create(PyBytes_AS_STRING(path), 64, &w);
    if (!status) {
        status = write_members(w, name, pickle, (size_t)size, storages, n);
        if (status) cr_zip_writer_abandon(w);
        else status = cr_zip_writer_finish(w);
    }
    PyEval_RestoreThread(thread);
    o = status ? cr_py_raise(status) : Py_NewRef(Py_None);
    cr_free(storages);
    Py_DECREF(path);
    return o;
}

static PyMethodDef functions[] = {
    { "_load_torch", load, METH_VARARGS, "_load_torch(path, mapped): the value in a torch.save file." },
    { "_save_torch", save, METH_VARARGS, "_save_torch(path, name, pickle, tensors): writes a torch.save file." },
    { NULL, NULL, 0, NULL },
};

int cr_py_torch_file_init(PyObject *module) { return PyModule_AddFunctions(module, functions); }
