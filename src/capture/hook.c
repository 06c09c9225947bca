/* hook.c: setting the frame hook, chaining to others, and giving way in deep recursion.
 *
 * While a hook is set, CPython stops inlining Python calls: each takes a C stack frame and more time. So the hook is on
 * only around a call that needs it, and past STACK_LIMIT of C stack it takes itself away for that subtree: code that
 * recurses 50,000 calls deep runs as it does without us.
 *
 * Chaining: each activation remembers what it found. It puts that back only if ours is still on top; else somebody set
 * a hook meanwhile that may chain to ours, and ours stays as a pass-through. Two hooks that each took the other for
 * "previous" would call each other for ever: a frame that comes back while it is being passed on goes to CPython. */
#define Py_BUILD_CORE 1
#include "capture/hook.h"

#include <pthread.h>

enum { STACK_LIMIT = 2 << 20 };

static _Thread_local cr_activation *current;
static _Thread_local cr_frame *in_flight; /* being passed on to another hook */
static _PyFrameEvalFunction beneath = _PyEval_EvalFrameDefault; /* process: for threads without an activation */

static PyObject *hook(PyThreadState *thread, cr_frame *frame, int throwflag);

bool cr_stack_is_short(void) {
    static _Thread_local char *middle; /* once */
    char here;
    if (middle) return &here < middle;
    pthread_attr_t attributes;
    void *lowest = NULL;
    size_t size = 0;
    if (pthread_getattr_np(pthread_self(), &attributes)) return false;
    if (!pthread_attr_getstack(&attributes, &lowest, &size)) middle = (char *)lowest + size / 2;
    pthread_attr_destroy(&attributes);
    return middle && &here < middle;
}

/* What a frame that nobody takes goes to: the first hook found that is not ours. */
static _PyFrameEvalFunction previous_of(const cr_activation *a) {
    for (; a; a = a->outer)
        if (a->previous != hook) return a->previous;
    return beneath;
}

PyObject *cr_hook_pass(cr_activation *a, PyThreadState *thread, cr_frame *frame, int throwflag) {
    _PyFrameEvalFunction next = previous_of(a);
    if (next == _PyEval_EvalFrameDefault) return next(thread, frame, throwflag);
    cr_frame *outer = in_flight;
    in_flight = frame;
    PyObject *result = next(thread, frame, throwflag);
    in_flight = outer;
    return result;
}

/* The subtree runs without a hook. */
static PyObject *run_unhooked(PyThreadState *thread, cr_frame *frame, int throwflag) {
    PyInterpreterState *interpreter = thread->interp;
    _PyInterpreterState_SetEvalFrameFunc(interpreter, _PyEval_EvalFrameDefault);
    PyObject *result = _PyEval_EvalFrameDefault(thread, frame, throwflag);
    if (_PyInterpreterState_GetEvalFrameFunc(interpreter) == _PyEval_EvalFrameDefault)
        _PyInterpreterState_SetEvalFrameFunc(interpreter, hook);
    return result;
}

static PyObject *hook(PyThreadState *thread, cr_frame *frame, int throwflag) {
    cr_activation *a = current;
    PyObject *result = NULL;
    char here;
    if (frame == in_flight) {
        in_flight = NULL;
        return _PyEval_EvalFrameDefault(thread, frame, throwflag);
    }
    if (!a) return cr_hook_pass(NULL, thread, frame, throwflag);
    if (a->stack - &here > STACK_LIMIT || cr_thread_is_deep(thread)) return run_unhooked(thread, frame, throwflag);
    return a->see(a, thread, frame, throwflag, &result) ? result : cr_hook_pass(a, thread, frame, throwflag);
}

void cr_hook_begin(cr_activation *a, cr_see_frame see, void *user) {
    PyInterpreterState *interpreter = PyInterpreterState_Get();
    *a = (cr_activation){ .outer = current, .see = see, .user = user, .stack = (char *)a };
    a->previous = _PyInterpreterState_GetEvalFrameFunc(interpreter);
    current = a;
    if (a->previous == hook) return;
    beneath = a->previous;
    _PyInterpreterState_SetEvalFrameFunc(interpreter, hook);
}

void cr_hook_end(cr_activation *a) {
    PyInterpreterState *interpreter = PyInterpreterState_Get();
    current = a->outer;
    if (a->previous != hook && _PyInterpreterState_GetEvalFrameFunc(interpreter) == hook)
        _PyInterpreterState_SetEvalFrameFunc(interpreter, a->previous);
}

void cr_hook_begin_block(cr_activation *a, cr_see_frame see, void *user) {
    cr_hook_begin(a, see, user);
    a->stack = __builtin_frame_address(0);
}

void cr_hook_end_block(cr_activation *a) {
    cr_activation *inner = current;
    if (inner == a) {
        cr_hook_end(a);
        return;
    }
    while (inner && inner->outer != a) inner = inner->outer;
    if (!inner) return;
    inner->outer = a->outer;
    if (a->previous != hook) inner->previous = a->previous; /* it is the one that puts it back now */
}

bool cr_hook_is_set(void) { return _PyInterpreterState_GetEvalFrameFunc(PyInterpreterState_Get()) == hook; }
