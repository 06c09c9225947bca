/* frame.h: frames of the CPython that this is built for, behind accessors that are the same for all.
 *
 * A frame is one array: locals, cells and free variables, then the stack. Who clears it differs (up to 3.11 the caller
 * of the evaluator, later the evaluator itself), so a frame that was seen is always given to CPython in the end. */
#ifndef CR_FRAME_H
#define CR_FRAME_H

#ifndef Py_BUILD_CORE
#error "frame.h: define Py_BUILD_CORE before the first include"
#endif
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <frameobject.h>

#include <internal/pycore_frame.h>
#include <internal/pycore_interp.h>

#include <stdbool.h>

typedef struct _PyInterpreterFrame cr_frame;

#if PY_VERSION_HEX < 0x030D0000
#include "capture/frame_311.h"
#else
#include "capture/frame_313.h"
#endif

/* Where locals, cells and free variables begin; the stack is behind them. */
static inline PyObject **cr_frame_slots(cr_frame *f) { return f->localsplus; }
static inline int cr_frame_slot_count(const cr_frame *f) { return cr_frame_code(f)->co_nlocalsplus; }
/* How many slots and stack entries there are. Known only while the frame does not run. */
static inline int cr_frame_top(const cr_frame *f) { return f->stacktop; }
static inline void cr_frame_set_top(cr_frame *f, int top) { f->stacktop = top; }
/* The frame that runs. */
static inline cr_frame *cr_thread_frame(PyThreadState *thread) {
#if PY_VERSION_HEX < 0x030D0000
    return thread->cframe->current_frame;
#else
    return thread->current_frame;
#endif
}
#if PY_VERSION_HEX < 0x030C0000
#define CR_FRAME_STEPS 1 /* single instructions can be carried out in a frame from outside (step.c) */
/* Between link and unlink the frame is the thread's current one, carrying out the instruction at `unit`: what is called
 * meanwhile sees it so. How much is on its stack is not known meanwhile. */
static inline void cr_frame_link(cr_frame *f, PyThreadState *thread, int unit) {
    cr_frame_set_at(f, unit + 1);
    f->stacktop = -1;
    f->is_entry = true;
    f->previous = thread->cframe->current_frame;
    thread->cframe->current_frame = f;
}
static inline void cr_frame_unlink(cr_frame *f, PyThreadState *thread, int top) {
    thread->cframe->current_frame = f->previous;
    f->stacktop = top;
}
/* The function whose frame it is; borrowed. */
static inline PyObject *cr_frame_function(const cr_frame *f) { return (PyObject *)f->f_func; }
/* Does somebody wait for the evaluator: a signal, another thread? */
static inline bool cr_thread_is_asked(const PyThreadState *thread) {
    return _Py_atomic_load_relaxed(&thread->interp->ceval.eval_breaker);
}
#else
#define CR_FRAME_STEPS 0
#endif
/* The exception that the thread is handling: part of the state inside a handler. */
static inline PyObject **cr_thread_handled(PyThreadState *thread) { return &thread->exc_info->exc_value; }

#if PY_VERSION_HEX < 0x030C0000
/* Does somebody watch this thread's frames (sys.settrace, sys.setprofile)? */
static inline bool cr_thread_is_traced(const PyThreadState *thread) { return thread->cframe->use_tracing; }
/* Would a few hundred more calls through C end in a RecursionError? */
static inline bool cr_thread_is_deep(const PyThreadState *thread) { return (void)thread, false; }
#else
/* sys.settrace, sys.setprofile, or a tool of sys.monitoring. */
static inline bool cr_thread_is_traced(const PyThreadState *thread) {
    for (size_t i = 0; i < sizeof thread->interp->monitors.tools; i++)
        if (thread->interp->monitors.tools[i]) return true;
    return thread->c_tracefunc || thread->c_profilefunc;
}
static inline bool cr_thread_is_deep(const PyThreadState *thread) { return thread->c_recursion_remaining < 700; }
#endif

#endif
