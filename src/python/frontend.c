/* frontend.c: the front ends there are, and the questions that everybody asks them: whose object is this, is it a
 * tensor, which one? Python's side (cresset.export) asks the same through _kind, _is_tensor, _module_tables and
 * _resolve. */
#include "python/py.h"

static const cr_frontend *const frontends[] = { &cr_frontend_cresset, &cr_frontend_torch };
static size_t count = 1; /* process: those that are there */

const cr_frontend *cr_frontend_at(size_t i) { return i < count ? frontends[i] : NULL; }

void cr_frontends_look(void) {
    static PyObject *name; /* once */
    PyObject *modules = PyImport_GetModuleDict();
    if (count == CR_COUNT(frontends) || (!name && !(name = PyUnicode_InternFromString("torch")))) return PyErr_Clear();
    PyObject *torch = PyDict_GetItemWithError(modules, name);
    PyObject *version = torch ? PyObject_GetAttrString(torch, "__version__") : NULL;
    PyObject *ours = version ? PyImport_ImportModule("cresset._torch") : NULL;
    PyObject *done = ours ? PyObject_CallMethod(ours, "prepare", NULL) : NULL;
    if (done == Py_True) count = CR_COUNT(frontends);
    Py_XDECREF(version);
    Py_XDECREF(ours);
    Py_XDECREF(done);
    PyErr_Clear(); /* without it torch's programs run plain */
}

static cr_kind kind_of(PyObject *o, const cr_frontend **owner) {
    for (size_t i = 0; i < count; i++) {
        cr_kind kind = frontends[i]->kind(o);
        if (kind == CR_KIND_OTHER) continue;
        *owner = frontends[i];
        return kind;
    }
    *owner = NULL;
    return CR_KIND_OTHER;
}

const cr_frontend *cr_frontend_of(PyObject *o) {
    const cr_frontend *owner;
    kind_of(o, &owner);
    return owner;
}

bool cr_frontend_is_tensor(PyObject *o) {
    const cr_frontend *owner;
    return Py_IS_TYPE(o, cr_frontend_cresset.tensor_type) || cr_kind_is_tensor(kind_of(o, &owner));
}

static bool is_own_tensor(PyObject *o) {
    const cr_frontend *owner;
    if (Py_IS_TYPE(o, cr_frontend_cresset.tensor_type)) return true;
    return cr_kind_is_tensor(kind_of(o, &owner)) && !owner->borrow;
}

bool cr_frontend_is_array(PyObject *o) {
    if (is_own_tensor(o) || PyLong_Check(o) || PyFloat_Check(o) || PyUnicode_Check(o)) return false;
    return o != Py_None && PyObject_HasAttrString(o, "__dlpack__");
}

cr_tensor *cr_frontend_tensor(cr_py_frame *f, PyObject *o) {
    cr_arg a;
    return is_own_tensor(o) && !cr_py_convert(f, o, &a) ? a.u.t : NULL;
}

cr_tensor *cr_frontend_need(cr_py_frame *f, PyObject *o, const char *format) {
    cr_tensor *t = cr_frontend_tensor(f, o);
    if (!t && !PyErr_Occurred()) PyErr_Format(PyExc_TypeError, format, Py_TYPE(o)->tp_name);
    return t;
}

PyObject *cr_find_mark(PyObject *tensor, const char *name) {
    PyObject **dict = _PyObject_GetDictPtr(tensor);
    PyObject *mark = dict && *dict ? PyDict_GetItemString(*dict, name) : NULL;
    PyErr_Clear();
    return mark;
}

uint32_t cr_marked_sizes(PyObject *tensor, const char *name) {
    PyObject *mark = cr_find_mark(tensor, name), *dim;
    PyObject *iterator = mark && PyAnySet_CheckExact(mark) ? PyObject_GetIter(mark) : NULL;
    uint32_t bits = 0;
    while (iterator && (dim = PyIter_Next(iterator))) {
        long number = PyLong_CheckExact(dim) ? PyLong_AsLong(dim) : -1;
        if (number >= 0 && number < 32) bits |= 1u << number;
        Py_DECREF(dim);
    }
    Py_XDECREF(iterator);
    PyErr_Clear();
    return bits;
}

cr_env *cr_frontend_env(PyObject *tuple) {
    cr_env *env = NULL;
    cr_py_frame f;
    cr_py_frame_init(&f);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple) && !env; i++) {
        const cr_tensor *t = cr_frontend_tensor(&f, PyTuple_GET_ITEM(tuple, i));
        if (t) env = t->env;
        PyErr_Clear(); /* whoever reads it next says what is wrong */
    }
    cr_py_frame_dispose(&f);
    return env;
}

/* ---- what one call holds ---- */

int cr_py_frame_keep(cr_py_frame *f, PyObject *o) {
    if (!f->kept && !(f->kept = PyList_New(0))) return -1;
    return PyList_Append(f->kept, o);
}

/* ---- Python's side ---- */

static PyObject *kind(PyObject *module, PyObject *o) {
    static const char *const names[] = {
        [CR_KIND_TENSOR] = "tensor", [CR_KIND_PARAMETER] = "parameter", [CR_KIND_MODULE] = "module"
    };
    const cr_frontend *owner;
    (void)module;
    cr_kind found = kind_of(o, &owner);
    return found == CR_KIND_OTHER ? Py_NewRef(Py_None) : PyUnicode_InternFromString(names[found]);
}

static PyObject *is_tensor(PyObject *module, PyObject *o) {
    (void)module;
    return PyBool_FromLong(is_own_tensor(o));
}

static PyObject *module_tables(PyObject *module, PyObject *o) {
    const cr_frontend *owner;
    Py_ssize_t n = 0;
    (void)module;
    if (kind_of(o, &owner) != CR_KIND_MODULE)
        return PyErr_Format(PyExc_TypeError, "expected a module, not %s", Py_TYPE(o)->tp_name);
    while (owner->tables[n]) n++;
    PyObject *names = PyTuple_New(n);
    for (Py_ssize_t i = 0; names && i < n; i++) {
        PyObject *name = PyUnicode_InternFromString(owner->tables[i]);
        if (name) PyTuple_SET_ITEM(names, i, name);
        else Py_CLEAR(names);
    }
    return names;
}

static PyObject *resolve(PyObject *module, PyObject *callable) {
    (void)module;
    for (size_t i = 0; i < count; i++) {
        PyObject *name = frontends[i]->resolve(callable);
        if (name || PyErr_Occurred()) return name;
    }
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    { "_kind", kind, METH_O,
      "_kind(object): 'tensor', 'parameter' or 'module' of whatever library; None: something else." },
    { "_is_tensor", is_tensor, METH_O,
      "_is_tensor(object): is it a tensor (or parameter) that calls here take as it is?" },
    { "_module_tables", module_tables, METH_O,
      "_module_tables(module): names of the tables in its __dict__: parameters, buffers, modules, names of buffers "
      "that are not saved." },
    { "_resolve", resolve, METH_O,
      "_resolve(callable): the name of the op it stands for, 'aten::add.Tensor' or, for all overloads, 'aten::add'; "
      "None: it is none." },
    { NULL, NULL, 0, NULL },
};

int cr_py_frontend_init(PyObject *module) { return PyModule_AddFunctions(module, functions); }
