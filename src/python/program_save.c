/* program_save.c: exported programs written from Python: to a path, or to the write() of a file object. Long writing
 * looks for signals now and then, so that Ctrl-C ends it and leaves nothing behind. */
#include "python/program.h"

/* ---- calling back ---- */

/* Runs without the lock of the interpreter. */
static cr_status write_to(void *user, const void *data, size_t size) {
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *bytes = PyBytes_FromStringAndSize(data, (Py_ssize_t)size),
             *taken = bytes ? PyObject_CallOneArg(user, bytes) : NULL;
    bool failed = !taken;
    if (taken && PyLong_Check(taken) && PyLong_AsSsize_t(taken) != (Py_ssize_t)size) { /* a raw file may take less */
        failed = true;
        if (!PyErr_Occurred())
            PyErr_Format(PyExc_OSError, "write() took %S of %zu bytes; give a buffered file object", taken, size);
    }
    Py_XDECREF(bytes);
    Py_XDECREF(taken);
    PyGILState_Release(state);
    return failed ? CR_EPYTHON : CR_OK;
}

/* ---- options ---- */

typedef struct options {
    cr_save_options o;
    struct cr_extra_file *extra;
    struct cr_opset *opset;
    struct cr_class *classes;
} options;

static void options_dispose(options *v) {
    PyMem_Free(v->extra);
    PyMem_Free(v->opset);
    PyMem_Free(v->classes);
}

/* The dicts must stay as they are while they are used. */
static int options_fill(options *v, PyObject *extra, PyObject *opset, PyObject *classes) {
    PyObject *key, *value;
    Py_ssize_t at = 0;
    v->extra = PyMem_Calloc((size_t)PyDict_GET_SIZE(extra) + 1, sizeof *v->extra);
    v->opset = PyMem_Calloc((size_t)PyDict_GET_SIZE(opset) + 1, sizeof *v->opset);
    v->classes = PyMem_Calloc((size_t)PyDict_GET_SIZE(classes) + 1, sizeof *v->classes);
    if (!v->extra || !v->opset || !v->classes) return PyErr_NoMemory(), -1;
    while (PyDict_Next(extra, &at, &key, &value)) {
        struct cr_extra_file *f = &v->extra[v->o.nextra];
        char *data;
        Py_ssize_t size;
        if (!(f->name = PyUnicode_AsUTF8(key)) || PyBytes_AsStringAndSize(value, &data, &size)) return -1;
        f->data = data;
        f->size = (size_t)size;
        v->o.nextra++;
    }
    at = 0;
    while (PyDict_Next(opset, &at, &key, &value)) {
        struct cr_opset *o = &v->opset[v->o.nopset];
        o->version = PyLong_AsLongLong(value);
        if ((o->version == -1 && PyErr_Occurred()) || !(o->domain = PyUnicode_AsUTF8(key))) return -1;
        v->o.nopset++;
    }
    at = 0;
    while (PyDict_Next(classes, &at, &key, &value)) {
        struct cr_class *c = &v->classes[v->o.nclasses];
        if (!(c->name = PyUnicode_AsUTF8(key)) || (value != Py_None && !(c->path = PyUnicode_AsUTF8(value)))) return -1;
        v->o.nclasses++;
    }
    v->o.extra = v->extra;
    v->o.opset = v->opset;
    v->o.classes = v->classes;
    v->o.step = cr_py_look_for_signals;
    return 0;
}

static PyObject *save(PyObject *unused, PyObject *args) {
    PyObject *program, *to, *extra, *opset, *classes, *path = NULL;
    int absolute_paths;
    options v = { .o = { .struct_size = sizeof v.o } };
    (void)unused;
    if (!PyArg_ParseTuple(args, "OOO!O!pO!:_save_program", &program, &to, &PyDict_Type, &extra, &PyDict_Type, &opset,
                          &absolute_paths, &PyDict_Type, &classes))
        return NULL;
    v.o.absolute_paths = absolute_paths;
    cr_program *p = cr_py_program_get(program);
    if (!p) return PyErr_Format(PyExc_TypeError, "_save_program() takes a program, not %s", Py_TYPE(program)->tp_name);
    bool callable = PyCallable_Check(to);
    if ((!callable && !PyUnicode_FSConverter(to, &path)) || options_fill(&v, extra, opset, classes)) {
        Py_XDECREF(path);
        options_dispose(&v);
        return NULL;
    }
    PyThreadState *thread = PyEval_SaveThread();
    cr_status status = callable ? cr_program_save_to(p, (cr_sink){ write_to, to }, &v.o)
                                : cr_program_save(p, PyBytes_AS_STRING(path), &v.o);
    PyEval_RestoreThread(thread);
    Py_XDECREF(path);
    options_dispose(&v);
    if (status) return cr_py_raise(status);
    Py_RETURN_NONE;
}

static PyObject *json(PyObject *unused, PyObject *program) {
    cr_program *p = cr_py_program_get(program);
    (void)unused;
    if (!p) return PyErr_Format(PyExc_TypeError, "_program_json() takes a program, not %s", Py_TYPE(program)->tp_name);
    cr_str text;
    cr_str_init(&text);
    cr_status status = cr_program_print_json(p, NULL, &text);
    if (!status) return cr_py_text(&text);
    cr_str_dispose(&text);
    return cr_py_raise(status);
}

static PyMethodDef functions[] = {
    { "_save_program", save, METH_VARARGS,
      "_save_program(program, path or write, extra_files, opset_version, absolute_paths, classes): writes a .pt2 "
      "archive. classes: {registered name: path or None}." },
    { "_program_json", json, METH_O, "_program_json(program): the text of its models/NAME.json." },
    { NULL, NULL, 0, NULL },
};

int cr_py_program_save_init(PyObject *module) { return PyModule_AddFunctions(module, functions); }
