/* state.c: entering a frame in the middle, with locals, stack and instruction pointer given.
 *
 * This is what ends every capture that does not reach the end of its function: CPython goes on in the user's own frame,
 * so that tracebacks, locals(), sys._getframe and handlers are its own. The frame's slots are overwritten first and the
 * old references dropped afterwards: what runs then (a destructor) sees a whole frame. */
#define Py_BUILD_CORE 1
#include "capture/hook.h"

#include <string.h>

int cr_state_take(cr_state *s, PyThreadState *thread, cr_frame *frame, int depth) {
    int count = cr_frame_slot_count(frame), top = count + depth;
    PyObject **from = cr_frame_slots(frame);
    *s = (cr_state){ .count = count, .depth = depth, .at = cr_frame_at(frame) };
    if (!(s->slots = PyMem_Malloc(((size_t)top + 1) * sizeof *s->slots))) return PyErr_NoMemory(), -1;
    memcpy(s->slots, from, (size_t)top * sizeof *from);
    memset(from, 0, (size_t)top * sizeof *from);
    s->handled = Py_XNewRef(*cr_thread_handled(thread));
    return 0;
}

void cr_state_dispose(cr_state *s) {
    for (int i = 0; s->slots && i < s->count + s->depth; i++) Py_XDECREF(s->slots[i]);
    PyMem_Free(s->slots);
    Py_CLEAR(s->handled);
    s->slots = NULL;
}

int cr_state_put(cr_state *s, PyThreadState *thread, cr_frame *frame) {
    enum { SMALL = 64 };
    PyObject **to = cr_frame_slots(frame), *small[SMALL];
    int before = cr_frame_top(frame), after = s->count + s->depth;
    PyObject **old = before <= SMALL ? small : PyMem_Malloc((size_t)before * sizeof *old);
    if (!old) return PyErr_NoMemory(), -1;
    memcpy(old, to, (size_t)before * sizeof *old);
    memcpy(to, s->slots, (size_t)after * sizeof *to);
    cr_frame_set_top(frame, after);
    cr_frame_set_at(frame, s->at);
    /* Inside a handler the thread handles our exception; what it handled before lies on the frame's stack, from where
     * POP_EXCEPT puts it back. */
    if (s->handled) Py_XSETREF(*cr_thread_handled(thread), s->handled);
    s->handled = NULL;
    s->count = s->depth = 0;
    cr_state_dispose(s);
    for (int i = 0; i < before; i++) Py_XDECREF(old[i]);
    if (old != small) PyMem_Free(old);
    return 0;
}

PyObject *cr_state_enter(cr_state *s, PyThreadState *thread, cr_frame *frame, int throwflag) {
    if (!cr_state_put(s, thread, frame)) return _PyEval_EvalFrameDefault(thread, frame, throwflag);
    cr_state_dispose(s);
    return _PyEval_EvalFrameDefault(thread, frame, 1);
}
