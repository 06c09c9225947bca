/* resume.c: going on with a call in the middle of its function.
 *
 * The function is called under the hook with the call's own arguments; the frame that CPython makes for it gets locals,
 * stack and instruction pointer, and runs plain from there. The hook is taken away before that: what the rest of the
 * function calls runs as it always does. */
#define Py_BUILD_CORE 1
#include "capture/hook.h"

#include "capture/entry.h"

typedef struct resumption { PyCodeObject *code; cr_state state; bool taken, collects; } resumption;

static bool see(cr_activation *a, PyThreadState *thread, cr_frame *frame, int throwflag, PyObject **result) {
    resumption *r = a->user;
    if (r->taken || cr_frame_code(frame) != r->code || throwflag) return false;
    r->taken = true;
    cr_hook_end(a);
    if (r->collects) PyGC_Enable();
    *result = cr_state_enter(&r->state, thread, frame, 0);
    return true;
}

PyObject *cr_resume(PyObject *function, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames, PyObject **values,
                    int count, int depth, int at) {
    resumption r = { .code = (PyCodeObject *)PyFunction_GET_CODE(function),
                     .state = { .slots = values, .count = count, .depth = depth, .at = at } };
    cr_activation activation;
    r.collects = PyGC_Disable(); /* until the frame is there: a finalizer might call the same function */
    cr_hook_begin(&activation, see, &r);
    PyObject *result = PyObject_Vectorcall(function, args, (size_t)nargs, kwnames);
    if (!r.taken) { /* it did not get as far as a frame */
        cr_hook_end(&activation);
        if (r.collects) PyGC_Enable();
        cr_state_dispose(&r.state);
    }
    return result;
}

bool cr_is_traced(void) { return cr_thread_is_traced(PyThreadState_Get()); }
