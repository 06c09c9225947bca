/* block.c: `with optimize(backend):`: functions of the program that are called inside of the block, on its thread, are
 * captured as if each had been compiled.
 *
 * The frame hook shows each new frame; those of the standard library and of the package run as they are, nn's modules
 * apart, which are what the program calls. What was captured is kept with the object, for the next block. */
#include "capture/everything.h"

#include "capture/capture.h"
#include "python/py.h"

typedef struct block {
    PyObject_HEAD
    PyObject *weakrefs;
    cr_dispatchers by_code;
    PyObject *backend, *unsupported, *folder; /* folder: the package's own, with a slash at its end */
    cr_activation activation;
    unsigned long thread; /* that has begun it; 0: nobody */
    long paused;          /* a backend works: what it calls is not the program's */
} block;

static PyTypeObject block_type;

static bool is_of_package(const block *b, const PyCodeObject *code) {
    const char *file = PyUnicode_AsUTF8(code->co_filename), *folder = PyUnicode_AsUTF8(b->folder);
    if (!file || !folder) return PyErr_Clear(), true;
    size_t n = strlen(folder);
    return !strncmp(file, folder, n) && strncmp(file + n, "nn/modules/", 11);
}

static bool see(cr_activation *a, PyThreadState *thread, cr_frame *frame, int throwflag, PyObject **result) {
    block *b = a->user;
    PyCodeObject *code = cr_frame_code(frame);
    PyObject *reason = NULL;
    if (b->paused || cr_frame_why_not(frame, throwflag) || code->co_flags & CO_GENERATOR) return false;
    if (is_of_package(b, code) || !cr_is_program_frame(code, cr_frame_function(frame))) return false;
    Py_INCREF(b); /* the block may end in there */
    cr_dispatcher *d = cr_dispatchers_get(&b->by_code, code);
    bool done = d && cr_carry_frame(d, thread, frame, result, &reason);
    if (!d) PyErr_Clear();
    if (!done && reason && b->unsupported != Py_None) {
        PyErr_Format(b->unsupported,
                     "%U\n  optimize(nopython=True) asks for one graph of each function that is called in the block; "
                     "without it, such calls run plain",
                     reason);
        *result = _PyEval_EvalFrameDefault(thread, frame, 1); /* raises it, where the frame begins */
        done = true;
    }
    Py_XDECREF(reason);
    Py_DECREF(b);
    return done;
}

static PyObject *block_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = { "backend", "unsupported", "limit", "dynamic", "ways", "folder", NULL };
    PyObject *backend, *unsupported, *folder;
    Py_ssize_t limit;
    unsigned dynamic, ways;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOnIIU:_Block", names, &backend, &unsupported, &limit, &dynamic,
                                     &ways, &folder))
        return NULL;
    block *b = (block *)type->tp_alloc(type, 0);
    if (!b) return NULL;
    b->backend = Py_NewRef(backend);
    b->unsupported = Py_NewRef(unsupported);
    b->folder = Py_NewRef(folder);
    b->by_code.like = (cr_dispatcher){ .backend = backend, .unsupported = unsupported, .limit = limit,
                                       .dynamic = dynamic, .ways = ways };
    cr_map_init(&b->by_code.by_code);
    return (PyObject *)b;
}

static void block_dealloc(PyObject *self) {
    block *b = (block *)self;
    if (b->weakrefs) PyObject_ClearWeakRefs(self);
    cr_dispatchers_dispose(&b->by_code);
    Py_CLEAR(b->backend);
    Py_CLEAR(b->unsupported);
    Py_CLEAR(b->folder);
    Py_TYPE(self)->tp_free(self);
}

static PyObject *block_begin(PyObject *self, PyObject *unused) {
    block *b = (block *)self;
    (void)unused;
    if (b->thread) return PyErr_Format(PyExc_RuntimeError, "this block has begun already");
    b->thread = PyThread_get_thread_ident();
    Py_INCREF(self); /* until it ends */
    cr_hook_begin_block(&b->activation, see, b);
    Py_RETURN_NONE;
}

static PyObject *block_end(PyObject *self, PyObject *unused) {
    block *b = (block *)self;
    (void)unused;
    if (!b->thread) Py_RETURN_NONE;
    if (b->thread != PyThread_get_thread_ident())
        return PyErr_Format(PyExc_RuntimeError, "'with optimize(...)' ends on another thread than it began on; leave "
                                                "it where it was entered");
    cr_hook_end_block(&b->activation);
    b->thread = 0;
    Py_DECREF(self);
    Py_RETURN_NONE;
}

static PyObject *block_pause(PyObject *self, PyObject *by) {
    long n = PyLong_AsLong(by);
    if (n == -1 && PyErr_Occurred()) return NULL;
    ((block *)self)->paused += n;
    Py_RETURN_NONE;
}

static PyObject *block_reset(PyObject *self, PyObject *unused) {
    cr_dispatchers *d = &((block *)self)->by_code;
    (void)unused;
    for (size_t i = 0; i < d->all.n; i++)
        cr_dispatcher_forget(d->all.at[i]); /* they themselves stay: frames may be running by them */
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    { "begin", block_begin, METH_NOARGS, "From here on functions that this thread calls are captured." },
    { "end", block_end, METH_NOARGS, "As it was before; nothing where it has ended." },
    { "pause", block_pause, METH_O, "pause(1), pause(-1): nothing is captured in between." },
    { "_reset", block_reset, METH_NOARGS, "Forgets what was captured." },
    { NULL, NULL, 0, NULL },
};
static PyTypeObject block_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "cresset._C._Block",
    .tp_basicsize = sizeof(block),
    .tp_weaklistoffset = offsetof(block, weakrefs),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "_Block(backend, unsupported, limit, dynamic, ways, folder): what `with optimize(...)` begins and ends.",
    .tp_new = block_new,
    .tp_dealloc = block_dealloc,
    .tp_methods = methods,
};

/* _plain(on), _run_only(on): compiled functions of this thread run plain; use what was captured. They nest. */
static PyObject *plain(PyObject *module, PyObject *on) {
    (void)module;
    if (on == Py_True) cr_plain_begin();
    else cr_plain_end();
    Py_RETURN_NONE;
}

static PyObject *run_only(PyObject *module, PyObject *on) {
    (void)module;
    if (on == Py_True) cr_run_only_begin();
    else cr_run_only_end();
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    { "_plain", plain, METH_O, "_plain(True), _plain(False): compiled functions of this thread run plain in between." },
    { "_run_only", run_only, METH_O, "The same: they use what was captured before and capture nothing." },
    { NULL, NULL, 0, NULL },
};

int cr_block_init(PyObject *module) {
    if (PyType_Ready(&block_type) || PyModule_AddObjectRef(module, "_Block", (PyObject *)&block_type)) return -1;
    return PyModule_AddFunctions(module, functions);
}
