/* reentry.c: `_C._reenter(fn, args, kwargs, n, entered, error=None)`, through which tests enter frames in the middle.
 *
 * The function runs under CPython until it is about to carry out its n-th instruction. There its state is taken away,
 * the frame made to return, and the same frame entered again with that state: the result must be what it is without all
 * this. A tracing function may move a frame's instruction pointer and stack, so nothing of ours carries out
 * instructions here. With `error`, the frame is entered by raising it. */
#define Py_BUILD_CORE 1
#include "capture/capture.h"
#include "capture/decode.h"
#include "capture/hook.h"

typedef struct reentry {
    PyCodeObject *code;
    const cr_code *instructions;
    cr_frame *frame;  /* the one we watch; NULL: not seen yet */
    long left;        /* instructions until it is taken */
    bool taken;
    cr_state state;
    PyObject *before; /* what the thread handled when the frame began; borrowed from the thread */
    PyObject *error;
} reentry;

/* A unit that returns whatever lies on the stack; -1: there is none. */
static int find_return(const cr_code *c) {
    for (int32_t i = 0; i < c->count; i++)
        if (c->at[i].id == CR_I_RETURN_VALUE) return c->at[i].own;
    return -1;
}

/* May a frame be entered there? Not between a prefix and its instruction. */
static bool is_beginning(const cr_code *c, int unit) {
    for (int32_t i = 0; i < c->count; i++)
        if (c->at[i].at == unit) return true;
    return false;
}

/* Before each instruction of the frame that we watch. */
static int on_event(PyObject *self, PyFrameObject *object, int what, PyObject *unused) {
    reentry *r = PyCapsule_GetPointer(self, NULL);
    cr_frame *frame = object->f_frame;
    (void)unused;
    if (!r || r->taken || frame != r->frame) return 0;
    object->f_trace_opcodes = 1;
    if (what != PyTrace_OPCODE) return 0;
    /* prev_instr is the instruction itself while it is traced */
    int at = cr_frame_at(frame) - 1;
    if (!is_beginning(r->instructions, at) || r->left-- > 0) return 0;
    PyThreadState *thread = PyThreadState_Get();
    if (cr_state_take(&r->state, thread, frame)) return -1;
    r->state.at = at;
    r->taken = true;
    cr_frame_slots(frame)[cr_frame_slot_count(frame)] = Py_NewRef(Py_None);
    cr_frame_set_top(frame, cr_frame_slot_count(frame) + 1);
    cr_frame_set_at(frame, find_return(r->instructions) + 1); /* which is the unit before, while it is traced */
    return 0;
}

/* Puts back what the thread handled when the frame began: it returned from within a handler. */
static void leave_handler(reentry *r, PyThreadState *thread) {
    PyObject **handled = cr_thread_handled(thread);
    if (*handled == r->before) Py_CLEAR(r->state.handled);
    else Py_XSETREF(*handled, Py_XNewRef(r->before));
}

static bool see(cr_activation *a, PyThreadState *thread, cr_frame *frame, int throwflag, PyObject **result) {
    reentry *r = a->user;
    if (r->frame || cr_frame_code(frame) != r->code) return false;
    r->frame = frame;
    r->before = *cr_thread_handled(thread);
    PyObject *capsule = PyCapsule_New(r, NULL, NULL);
    if (!capsule) return *result = NULL, true;
    PyEval_SetTrace(on_event, capsule);
    *result = cr_hook_pass(a, thread, frame, throwflag);
    PyEval_SetTrace(NULL, NULL);
    Py_DECREF(capsule);
    if (!r->taken) return true;
    Py_XDECREF(*result);
    leave_handler(r, thread);
    if (r->error) PyErr_SetObject((PyObject *)Py_TYPE(r->error), r->error);
    *result = cr_state_enter(&r->state, thread, frame, r->error != NULL);
    return true;
}

static PyObject *reenter(PyObject *module, PyObject *args) {
    PyObject *fn, *given, *keywords, *entered, *error = Py_None;
    cr_activation activation;
    reentry r = { .left = 0 };
    (void)module;
    if (!PyArg_ParseTuple(args, "O!O!O!lO!|O:_reenter", &PyFunction_Type, &fn, &PyTuple_Type, &given, &PyDict_Type,
                          &keywords, &r.left, &PyList_Type, &entered, &error))
        return NULL;
    r.code = (PyCodeObject *)PyFunction_GET_CODE(fn);
    r.error = error == Py_None ? NULL : error;
    if (!(r.instructions = cr_code_get(r.code))) return NULL;
    if (find_return(r.instructions) < 0) return PyErr_Format(PyExc_ValueError, "%R never returns", fn);
    cr_hook_begin(&activation, see, &r);
    PyObject *result = PyObject_Call(fn, given, keywords);
    cr_hook_end(&activation);
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    if (r.taken && PyList_Append(entered, Py_True)) Py_CLEAR(result);
    else PyErr_Restore(type, value, trace);
    return result;
}

static PyObject *hook_is_set(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    _PyFrameEvalFunction set = _PyInterpreterState_GetEvalFrameFunc(PyInterpreterState_Get());
    return PyBool_FromLong(set != _PyEval_EvalFrameDefault);
}

static PyMethodDef functions[] = {
    { "_reenter", reenter, METH_VARARGS,
      "_reenter(fn, args, kwargs, n, entered, error=None): fn(*args, **kwargs), its frame left and entered again "
      "before its n-th instruction; `entered` gets an item when there was one." },
    { "_hook_is_set", hook_is_set, METH_NOARGS, "Is a frame hook set, ours or another's?" },
    { NULL, NULL, 0, NULL },
};

int cr_reentry_init(PyObject *module) { return PyModule_AddFunctions(module, functions); }
