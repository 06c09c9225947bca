/* native_type.c: compiled programs for Python: _compile_programs (exported programs to a library) and _Native (one
 * running instance of a library). The GIL is released while code is built, loaded and run. The call structure around
 * the flat lists is written in Python: cresset/_aot.py. */
#include "python/program.h"
#include "python/tree.h"

#include "cresset/compile.h"
#include "emit/emit.h"
#include "runtime/rt_random.h"

/* ---- building ---- */

/* Each item is (name, program). */
static int read_programs(PyObject *list, cr_program **out, const char **names, size_t n) {
    for (size_t i = 0; i < n; i++) {
        PyObject *o;
        if (!PyArg_ParseTuple(PySequence_Fast_GET_ITEM(list, (Py_ssize_t)i), "sO:_compile_programs", &names[i], &o))
            return -1;
        out[i] = cr_py_program_get(o);
        if (!out[i]) {
            PyErr_Format(PyExc_TypeError, "expected an exported program, not %s", Py_TYPE(o)->tp_name);
            return -1;
        }
        for (size_t k = 0; k < i; k++)
            if (out[k] == out[i]) {
                PyErr_SetString(PyExc_ValueError, "a program was given twice");
                return -1;
            }
    }
    return 0;
}

static PyObject *compile(PyObject *unused, PyObject *args, PyObject *kwargs) {
    static char *keywords[] = { "programs", "path", "weights", "cc", "target", "train", NULL };
    PyObject *given, *path = NULL, *list = NULL, *result = NULL;
    const char *weights = "inside", *cc = NULL, *target = NULL, *train = NULL;
    (void)unused;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO&|szzz:_compile_programs", keywords, &given,
                                     PyUnicode_FSConverter, &path, &weights, &cc, &target, &train))
        return NULL;
    cr_program **programs = NULL;
    const char **names = NULL;
    cr_compile_options options = { .struct_size = sizeof options,
                                   .weights = strcmp(weights, "beside") ? CR_WEIGHTS_INSIDE : CR_WEIGHTS_BESIDE,
                                   .cc = cc,
                                   .target = target,
                                   .train = train };
    list = PySequence_Fast(given, "programs must be a list");
    size_t n = list ? (size_t)PySequence_Fast_GET_SIZE(list) : 0;
    if (!list) goto out;
    if (strcmp(weights, "beside") && strcmp(weights, "inside")) {
        PyErr_Format(PyExc_ValueError, "weights is 'inside' or 'beside', not '%s'", weights);
        goto out;
    }
    programs = PyMem_Calloc(n + 1, sizeof *programs);
    names = PyMem_Calloc(n + 1, sizeof *names);
    if (!programs || !names) PyErr_NoMemory();
    if (!programs || !names || read_programs(list, programs, names, n)) goto out;
    options.methods = names;
    if (cr_emit_kind_of(PyBytes_AS_STRING(path)) != CR_EMIT_LIBRARY) {
        PyErr_Format(PyExc_ValueError, "aot_compile makes a shared library: end '%s' in .so", PyBytes_AS_STRING(path));
        goto out;
    }
    PyThreadState *thread = PyEval_SaveThread();
    cr_status status = cr_compile(programs, n, PyBytes_AS_STRING(path), &options, NULL);
    PyEval_RestoreThread(thread);
    result = status ? cr_py_raise(status) : Py_NewRef(Py_None);
out:
    PyMem_Free(programs);
    PyMem_Free(names);
    Py_XDECREF(list);
    Py_DECREF(path);
    return result;
}

/* ---- instances ---- */

typedef struct py_native {
    PyObject_HEAD cr_native *native;
    uint64_t seeding;
} py_native;

static cr_native *native_of(PyObject *o) { return ((py_native *)o)->native; }

static PyObject *native_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = { "path", "threads", "weights", NULL };
    PyObject *path = NULL, *weights = NULL;
    int threads = 0;
    cr_library *library = NULL;
    cr_native *native = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&|iO&:_Native", names, PyUnicode_FSConverter, &path, &threads,
                                     PyUnicode_FSConverter, &weights)) {
        Py_XDECREF(path);
        return NULL;
    }
    PyThreadState *thread = PyEval_SaveThread();
    cr_status status = cr_library_open(PyBytes_AS_STRING(path), &library);
    if (!status) status = cr_native_create(library, threads, weights ? PyBytes_AS_STRING(weights) : NULL, &native);
    cr_library_release(library);
    PyEval_RestoreThread(thread);
    Py_DECREF(path);
    Py_XDECREF(weights);
    if (status) return cr_py_raise(status);
    py_native *o = PyObject_New(py_native, type);
    if (!o) {
        cr_native_release(native);
        return NULL;
    }
    o->native = native;
    o->seeding = 0;
    return (PyObject *)o;
}

static void native_dealloc(PyObject *self) {
    cr_native *native = native_of(self);
    PyThreadState *thread = PyEval_SaveThread(); /* its threads are waited for */
    cr_native_release(native);
    PyEval_RestoreThread(thread);
    PyObject_Free(self);
}

/* After cresset.manual_seed the next call starts from that seed, as an eager one would. */
static void follow_seed(py_native *self) {
    if (self->seeding == cr_py_last_seeding.count) return;
    self->seeding = cr_py_last_seeding.count;
    cr_native_seed(self->native, cr_py_last_seeding.seed);
}

/* Goes on where the default generator is, which goes on where the call ended. Nobody else draws meanwhile: the caller
 * has the GIL. */
static cr_status run_drawing(cr_native *native, int method, const cr_arg *inputs, size_t n, cr_arg *results,
                             size_t nresults) {
    unsigned char state[RT_GENERATOR_STATE_BYTES];
    char message[256] = "";
    rt_ctx ctx = cr_kernel_ctx(message, sizeof message);
    rt_generator *g = cr_default_generator();
    if (!g) return CR_ENOMEM;
    rt_generator_get_state(g, state);
    CR_TRY(cr_native_set_random(native, state, sizeof state));
    CR_TRY(cr_native_run(native, method, inputs, n, results, nresults));
    cr_status status = cr_native_get_random(native, state, sizeof state);
    if (!status && rt_generator_set_state(&ctx, g, state, sizeof state)) status = CR_FAIL(CR_ERUNTIME, "%s", message);
    if (status) cr_results_release(results, nresults);
    return status;
}

static PyObject *native_run(PyObject *self, PyObject *args) {
    int method, draws = 0;
    PyObject *leaves, *items = NULL, *o = NULL;
    cr_arg *inputs = NULL;
    cr_py_frame f;
    cr_py_frame_init(&f);
    if (!PyArg_ParseTuple(args, "iO|p:run", &method, &leaves, &draws)) goto out;
    const cresset_api *api = cr_library_api(cr_native_library(native_of(self)));
    if (method < 0 || method >= api->nmethods) {
        PyErr_Format(PyExc_ValueError, "there is no method %d, the library has %d", method, api->nmethods);
        goto out;
    }
    items = PySequence_Fast(leaves, "run() takes the list of the flat inputs");
    size_t n = items ? (size_t)PySequence_Fast_GET_SIZE(items) : 0, nresults = (size_t)api->methods[method].noutputs;
    if (!items) goto out;
    inputs = PyMem_Calloc(n + nresults + 1, sizeof *inputs);
    if (!inputs) {
        PyErr_NoMemory();
        goto out;
    }
    for (size_t i = 0; i < n; i++)
        if (cr_py_leaf(&f, PySequence_Fast_GET_ITEM(items, (Py_ssize_t)i), &inputs[i])) goto out;
    cr_status status;
    if (draws) {
        status = run_drawing(native_of(self), method, inputs, n, inputs + n, nresults);
    } else {
        follow_seed((py_native *)self);
        PyThreadState *thread = PyEval_SaveThread();
        status = cr_native_run(native_of(self), method, inputs, n, inputs + n, nresults);
        PyEval_RestoreThread(thread);
    }
    if (status && PyErr_Occurred()) goto out; /* an operator written in Python raised it */
    o = status ? cr_py_raise(status) : cr_py_results_list(NULL, inputs + n, nresults);
out:
    cr_py_frame_dispose(&f);
    PyMem_Free(inputs);
    Py_XDECREF(items);
    return o;
}

static PyObject *names_of(const cresset_value_info *values, int32_t n) {
    PyObject *list = PyList_New(n);
    for (int32_t i = 0; list && i < n; i++) {
        PyObject *name = PyUnicode_FromString(values[i].name);
        if (!name) Py_CLEAR(list);
        else PyList_SET_ITEM(list, i, name);
    }
    return list;
}

static PyObject *native_methods(PyObject *self, PyObject *unused) {
    const cresset_api *api = cr_library_api(cr_native_library(native_of(self)));
    (void)unused;
    PyObject *list = PyList_New(api->nmethods);
    for (int32_t i = 0; list && i < api->nmethods; i++) {
        const cresset_method_info *m = &api->methods[i];
        PyObject *one = Py_BuildValue("(sNNss)", m->name, names_of(m->inputs, m->ninputs),
                                      names_of(m->outputs, m->noutputs), m->in_spec, m->out_spec);
        if (!one) Py_CLEAR(list);
        else PyList_SET_ITEM(list, i, one);
    }
    return list;
}

static PyObject *native_take_state(PyObject *self, PyObject *other) {
    const cresset_api *api = cr_library_api(cr_native_library(native_of(self)));
    cr_module *module = cr_py_module_get(other);
    if (!module)
        return PyErr_Format(PyExc_TypeError, "expected the module of an exported program, not %s",
                            Py_TYPE(other)->tp_name);
    for (int32_t i = 0; i < api->nstate; i++) {
        cr_tensor *t = api->state[i].is_mutable ? cr_module_tensor(module, api->state[i].name) : NULL;
        cr_status status = t ? cr_native_set_state(native_of(self), api->state[i].name, t->storage->data,
                                                   (size_t)t->storage->bytes)
                             : CR_OK;
        if (status) return cr_py_raise(status);
    }
    Py_RETURN_NONE;
}

static PyObject *native_seed(PyObject *self, PyObject *seed) {
    uint64_t value = PyLong_AsUnsignedLongLongMask(seed);
    if (PyErr_Occurred()) return NULL;
    ((py_native *)self)->seeding = cr_py_last_seeding.count;
    cr_native_seed(native_of(self), value);
    Py_RETURN_NONE;
}

/* ---- training ---- */

static PyObject *native_save(PyObject *self, PyObject *args) {
    PyObject *path = NULL;
    int what = CRESSET_SAVE_ALL;
    if (!PyArg_ParseTuple(args, "O&|i:save", PyUnicode_FSConverter, &path, &what)) return NULL;
    PyThreadState *thread = PyEval_SaveThread();
    cr_status status = cr_native_save(native_of(self), PyBytes_AS_STRING(path), what);
    PyEval_RestoreThread(thread);
    Py_DECREF(path);
    return status ? cr_py_raise(status) : Py_NewRef(Py_None);
}

static PyObject *native_load(PyObject *self, PyObject *args) {
    PyObject *path = NULL;
    if (!PyArg_ParseTuple(args, "O&:load", PyUnicode_FSConverter, &path)) return NULL;
    follow_seed((py_native *)self); /* what the file says of the generator comes after a seed that was given */
    PyThreadState *thread = PyEval_SaveThread();
    cr_status status = cr_native_load(native_of(self), PyBytes_AS_STRING(path));
    PyEval_RestoreThread(thread);
    Py_DECREF(path);
    return status ? cr_py_raise(status) : Py_NewRef(Py_None);
}

/* A fresh tensor with the state's elements. */
static PyObject *native_get_state(PyObject *self, PyObject *name) {
    const cresset_api *api = cr_library_api(cr_native_library(native_of(self)));
    const char *text = PyUnicode_AsUTF8(name);
    const cresset_state_info *info = NULL;
    for (int32_t i = 0; text && i < api->nstate; i++)
        if (!strcmp(api->state[i].name, text)) info = &api->state[i];
    if (!text) return NULL;
    if (!info) return PyErr_Format(PyExc_KeyError, "%s", text);
    cr_meta meta;
    cr_tensor *t = NULL;
    cr_meta_init(&meta, info->dtype, (cr_device){ CR_CPU, -1 });
    cr_status status = cr_meta_set_dense(NULL, &meta, info->rank, info->size, CR_CONTIGUOUS);
    if (!status) status = cr_tensor_create(&meta, &t);
    if (!status) status = cr_native_get_state(native_of(self), text, t->storage->data, (size_t)t->storage->bytes);
    if (!status) return cr_frontend_wrap(t);
    cr_tensor_release(t);
    return cr_py_raise(status);
}

/* None: the library does not train. */
static PyObject *native_training(PyObject *self, PyObject *unused) {
    const cresset_api *api = cr_library_api(cr_native_library(native_of(self)));
    const cresset_train_info *t = api->struct_size > offsetof(cresset_api, train) ? api->train : NULL;
    (void)unused;
    if (!t) Py_RETURN_NONE;
    PyObject *weights = PyDict_New(), *result = NULL;
    for (int32_t i = 0; weights && i < t->nweights; i++) {
        PyObject *state = PyUnicode_FromString(t->weights[i].state);
        if (!state || PyDict_SetItemString(weights, t->weights[i].name, state)) Py_CLEAR(weights);
        Py_XDECREF(state);
    }
    if (weights)
        result = Py_BuildValue("{sssisssN}", "optimizer", t->optimizer, "loss", t->loss, "counter", t->counter,
                               "weights", weights);
    return result;
}

static PyObject *get_path(PyObject *self, void *unused) {
    (void)unused;
    return PyUnicode_DecodeFSDefault(cr_library_path(cr_native_library(native_of(self))));
}

static PyMethodDef native_type_methods[] = {
    { "run", native_run, METH_VARARGS,
      "run(method, inputs, draws=False): flat inputs to flat outputs, both lists; draws: from the default "
      "generator." },
    { "methods", native_methods, METH_NOARGS, "[(name, input names, output names, in_spec, out_spec)]." },
    { "take_state", native_take_state, METH_O,
      "take_state(module): buffers that the model changes become copies of the module's." },
    { "manual_seed", native_seed, METH_O, "manual_seed(seed): seeds the instance's generator." },
    { "save", native_save, METH_VARARGS,
      "save(path, what): what a training library has learned, to a safetensors file." },
    { "load", native_load, METH_VARARGS, "load(path): reads such a file." },
    { "get_state", native_get_state, METH_O, "get_state(name): a copy of a parameter or buffer." },
    { "training", native_training, METH_NOARGS, "What a library that trains keeps, as a dictionary; None for others." },
    { NULL, NULL, 0, NULL },
};
static PyGetSetDef native_attributes[] = {
    { "path", get_path, NULL, "The library's file.", NULL },
    { NULL, NULL, NULL, NULL, NULL },
};
static PyTypeObject native_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "cresset._C._Native",
    .tp_basicsize = sizeof(py_native),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "_Native(path, threads=0, weights=None): an instance of a compiled library. Use it through "
              "cresset.aot_load.",
    .tp_new = native_new,
    .tp_dealloc = native_dealloc,
    .tp_methods = native_type_methods,
    .tp_getset = native_attributes,
};

static PyMethodDef functions[] = {
    { "_compile_programs", (PyCFunction)(void (*)(void))compile, METH_VARARGS | METH_KEYWORDS,
      "_compile_programs([(name, program)], path, weights='inside', cc=None, target=None): exported programs to a "
      "shared library." },
    { NULL, NULL, 0, NULL },
};

int cr_py_native_init(PyObject *module) {
    if (PyType_Ready(&native_type) || PyModule_AddFunctions(module, functions)) return -1;
    return PyModule_AddObjectRef(module, "_Native", (PyObject *)&native_type);
}
