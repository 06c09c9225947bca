/* reentry.c: `_C._reenter(fn, args, kwargs, n, entered, depths, error=None)`, through which tests enter frames in the
 * middle.
 *
 * The function runs under CPython until it is about to carry out its n-th instruction. There its state is taken away
 * and its frame abandoned: an exception ends it that none of its handlers sees. Then the function is called again, and
 * the new frame entered with that state: the result must be what it is without all this. CPython itself tells where a
 * frame is, so nothing of ours carries out instructions here. With `error`, the frame is entered by raising it. */
#define Py_BUILD_CORE 1
#include "capture/capture.h"
#include "capture/decode.h"
#include "capture/hook.h"

typedef struct reentry {
    PyCodeObject *code;
    const cr_code *instructions;
    PyObject *depths; /* unit -> entries on the stack: a frame that runs does not tell */
    cr_frame *frame;  /* the one we watch; NULL: not seen yet */
    long left;        /* instructions until it is taken */
    bool taken, entered;
    cr_state state;
    PyObject *handlers; /* the code's exception table, while it has none */
    PyObject *before; /* what the thread handled when the frame began; borrowed from the thread */
    PyObject *error;
} reentry;

/* May a frame be entered there? Not between a prefix and its instruction. */
static bool is_beginning(const cr_code *c, int unit) {
    for (int32_t i = 0; i < c->count; i++)
        if (c->at[i].at == unit) return true;
    return false;
}

/* Before an instruction of the frame that we watch: takes its state when it is the one. -1: the frame is to be left. */
static int see_instruction(reentry *r, PyThreadState *thread, int unit) {
    if (!is_beginning(r->instructions, unit) || r->left-- > 0) return 0;
    PyObject *key = PyLong_FromLong(unit), *depth = key ? PyDict_GetItemWithError(r->depths, key) : NULL;
    Py_XDECREF(key);
    if (!depth) return PyErr_Occurred() ? -1 : (PyErr_Format(PyExc_ValueError, "no depth of unit %d", unit), -1);
    if (cr_state_take(&r->state, thread, r->frame, (int)PyLong_AsLong(depth))) return -1;
    r->state.at = unit;
    r->taken = true;
    r->handlers = r->code->co_exceptiontable;
    r->code->co_exceptiontable = PyBytes_FromStringAndSize(NULL, 0); /* a constant of CPython's: none fails */
    PyErr_SetString(PyExc_RuntimeError, "the frame is left");
    return -1;
}

/* ---- watching a frame: a tracing function, or sys.monitoring, which is quicker and came with 3.12 ---- */

#if PY_VERSION_HEX < 0x030C0000
static int on_event(PyObject *self, PyFrameObject *object, int what, PyObject *unused) {
    reentry *r = PyCapsule_GetPointer(self, NULL);
    (void)unused;
    if (!r || r->taken || object->f_frame != r->frame) return 0;
    object->f_trace_opcodes = 1;
    return what == PyTrace_OPCODE ? see_instruction(r, PyThreadState_Get(), cr_frame_running(r->frame)) : 0;
}

static int watch(reentry *r, PyObject *capsule) {
    (void)r;
    PyEval_SetTrace(on_event, capsule);
    return 0;
}
static void watch_no_more(reentry *r) {
    (void)r;
    PyEval_SetTrace(NULL, NULL);
}
#else
enum { TOOL = 4 };

static PyObject *on_instruction(PyObject *self, PyObject *args) {
    reentry *r = PyCapsule_GetPointer(self, NULL);
    PyThreadState *thread = PyThreadState_Get();
    (void)args;
    if (!r || r->taken || cr_thread_frame(thread) != r->frame) Py_RETURN_NONE;
    if (see_instruction(r, thread, cr_frame_running(r->frame))) return NULL;
    Py_RETURN_NONE;
}
static PyMethodDef instruction_callback = { "_on_instruction", on_instruction, METH_VARARGS, NULL };

static int watch(reentry *r, PyObject *capsule) {
    PyObject *monitoring = PySys_GetObject("monitoring"), *events = NULL, *event = NULL, *done = NULL;
    PyObject *callback = PyCFunction_New(&instruction_callback, capsule);
    if (callback && monitoring) events = PyObject_GetAttrString(monitoring, "events");
    if (events) event = PyObject_GetAttrString(events, "INSTRUCTION");
    if (event && (done = PyObject_CallMethod(monitoring, "use_tool_id", "is", TOOL, "cresset"))) {
        Py_SETREF(done, PyObject_CallMethod(monitoring, "register_callback", "iOO", TOOL, event, callback));
        if (done) Py_SETREF(done, PyObject_CallMethod(monitoring, "set_local_events", "iOO", TOOL, r->code, event));
    }
    Py_XDECREF(events);
    Py_XDECREF(event);
    Py_XDECREF(callback);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

static void watch_no_more(reentry *r) {
    PyObject *monitoring = PySys_GetObject("monitoring"), *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    Py_XDECREF(PyObject_CallMethod(monitoring, "set_local_events", "iOi", TOOL, r->code, 0));
    Py_XDECREF(PyObject_CallMethod(monitoring, "free_tool_id", "i", TOOL));
    PyErr_Restore(type, value, trace);
}
#endif

/* ---- the first frame is left, the second is entered ---- */

/* Puts back what the thread handled when the frame began: it was left within a handler. */
static void leave_handler(reentry *r, PyThreadState *thread) {
    PyObject **handled = cr_thread_handled(thread);
    if (*handled == r->before) Py_CLEAR(r->state.handled);
    else Py_XSETREF(*handled, Py_XNewRef(r->before));
}

static bool see_first(cr_activation *a, PyThreadState *thread, cr_frame *frame, int throwflag, PyObject **result) {
    reentry *r = a->user;
    if (r->frame || cr_frame_code(frame) != r->code) return false;
    r->frame = frame;
    r->before = *cr_thread_handled(thread);
    *result = cr_hook_pass(a, thread, frame, throwflag);
    if (r->handlers) Py_SETREF(r->code->co_exceptiontable, r->handlers);
    r->handlers = NULL;
    return true;
}

static bool see_second(cr_activation *a, PyThreadState *thread, cr_frame *frame, int throwflag, PyObject **result) {
    reentry *r = a->user;
    (void)throwflag;
    if (r->entered || cr_frame_code(frame) != r->code) return false;
    r->entered = true;
    if (r->error) PyErr_SetObject((PyObject *)Py_TYPE(r->error), r->error);
    *result = cr_state_enter(&r->state, thread, frame, r->error != NULL);
    return true;
}

static PyObject *run(reentry *r, PyObject *fn, PyObject *args, PyObject *keywords) {
    PyObject *capsule = PyCapsule_New(r, NULL, NULL), *result = NULL;
    cr_activation activation;
    if (!capsule) return NULL;
    cr_hook_begin(&activation, see_first, r);
    if (!watch(r, capsule)) {
        result = PyObject_Call(fn, args, keywords);
        watch_no_more(r);
    }
    cr_hook_end(&activation);
    Py_DECREF(capsule);
    if (!r->taken || result) return result;
    PyErr_Clear();
    leave_handler(r, PyThreadState_Get());
    cr_hook_begin(&activation, see_second, r);
    result = PyObject_Call(fn, args, keywords);
    cr_hook_end(&activation);
    return result;
}

static PyObject *reenter(PyObject *module, PyObject *args) {
    PyObject *fn, *given, *keywords, *entered, *error = Py_None;
    reentry r = { .left = 0 };
    (void)module;
    if (!PyArg_ParseTuple(args, "O!O!O!lO!O!|O:_reenter", &PyFunction_Type, &fn, &PyTuple_Type, &given, &PyDict_Type,
                          &keywords, &r.left, &PyList_Type, &entered, &PyDict_Type, &r.depths, &error))
        return NULL;
    r.code = (PyCodeObject *)PyFunction_GET_CODE(fn);
    r.error = error == Py_None ? NULL : error;
    if (!(r.instructions = cr_code_get(r.code))) return NULL;
    PyObject *result = run(&r, fn, given, keywords), *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    if (r.taken && PyList_Append(entered, Py_True)) Py_CLEAR(result);
    else PyErr_Restore(type, value, trace);
    return result;
}

static PyObject *hook_is_set(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    return PyBool_FromLong(cr_hook_is_set());
}

static PyMethodDef functions[] = {
    { "_reenter", reenter, METH_VARARGS,
      "_reenter(fn, args, kwargs, n, entered, depths, error=None): fn(*args, **kwargs), its frame left and entered "
      "again before its n-th instruction; `entered` gets an item when there was one." },
    { "_hook_is_set", hook_is_set, METH_NOARGS,
      "Is our frame hook set? torch.compile leaves its own where a backend has failed." },
    { NULL, NULL, 0, NULL },
};

int cr_reentry_init(PyObject *module) { return PyModule_AddFunctions(module, functions); }
