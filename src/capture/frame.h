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
#if PY_VERSION_HEX >= 0x030D0000
#include <internal/pycore_ceval.h>
#endif

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
/* Somebody may look at its locals even when it has returned. */
static inline bool cr_frame_is_kept(const cr_frame *f) { return f->frame_obj && Py_REFCNT(f->frame_obj) > 1; }
/* The exception that the thread is handling: part of the state inside a handler. */
static inline PyObject **cr_thread_handled(PyThreadState *thread) { return &thread->exc_info->exc_value; }

#if PY_VERSION_HEX < 0x030C0000
enum { CR_FRAME_CLEARS = 0 }; /* the evaluator clears a frame that returns: from 3.12 on */
/* The function whose frame it is; borrowed. */
static inline PyObject *cr_frame_function(const cr_frame *f) { return (PyObject *)f->f_func; }
/* How many frames of Python the thread may still enter; counted up or down. */
static inline int *cr_thread_room(PyThreadState *thread) { return &thread->recursion_remaining; }
/* Would a few hundred more calls through C end in a RecursionError? */
static inline bool cr_thread_is_deep(const PyThreadState *thread) { return (void)thread, false; }
/* Does somebody watch this thread's frames (sys.settrace, sys.setprofile)? */
static inline bool cr_thread_is_traced(const PyThreadState *thread) { return thread->cframe->use_tracing; }
static inline bool cr_code_is_watched(const PyThreadState *thread, const PyCodeObject *code) {
    return (void)thread, (void)code, false;
}
/* Does somebody wait for the evaluator: a signal, another thread? */
static inline bool cr_thread_is_asked(const PyThreadState *thread) {
    return _Py_atomic_load_relaxed(&thread->interp->ceval.eval_breaker);
}
#else
enum { CR_FRAME_CLEARS = 1 };
static inline PyObject *cr_frame_function(const cr_frame *f) { return f->f_funcobj; }
static inline int *cr_thread_room(PyThreadState *thread) { return &thread->py_recursion_remaining; }
static inline bool cr_thread_is_deep(const PyThreadState *thread) { return thread->c_recursion_remaining < 700; }
static inline bool cr_has_tools(const uint8_t *tools, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (tools[i]) return true;
    return false;
}
/* sys.settrace, sys.setprofile, or a tool of sys.monitoring. */
static inline bool cr_thread_is_traced(const PyThreadState *thread) {
    return cr_has_tools(thread->interp->monitors.tools, sizeof thread->interp->monitors.tools) ||
           thread->c_tracefunc || thread->c_profilefunc;
}
/* Has the code instructions that tell a tool, be it one that has gone since the code last began? */
static inline bool cr_code_is_watched(const PyThreadState *thread, const PyCodeObject *code) {
    const _PyCoMonitoringData *own = code->_co_monitoring;
    if (!own) return false;
#if PY_VERSION_HEX < 0x030D0000
    bool current = code->_co_instrumentation_version == thread->interp->monitoring_version;
#else
    bool current = code->_co_instrumentation_version == (thread->eval_breaker & ~_PY_EVAL_EVENTS_MASK);
#endif
    return !current || cr_has_tools(own->local_monitors.tools, sizeof own->local_monitors.tools);
}
/* ... or the collector? */
static inline bool cr_thread_is_asked(const PyThreadState *thread) {
#if PY_VERSION_HEX < 0x030D0000
    return _Py_atomic_load_relaxed(&thread->interp->ceval.eval_breaker);
#else
    return thread->eval_breaker & _PY_EVAL_EVENTS_MASK;
#endif
}
#endif

/* Between link and unlink the frame is the thread's current one, carrying out the instruction at `unit`: what is called
 * meanwhile sees it so. How much is on its stack is not known meanwhile. */
static inline void cr_frame_link(cr_frame *f, PyThreadState *thread, int unit) {
    cr_frame_set_running(f, unit);
    f->stacktop = -1;
#if PY_VERSION_HEX < 0x030C0000
    f->is_entry = true;
#endif
    f->previous = cr_thread_frame(thread);
    cr_thread_set_frame(thread, f);
}
static inline void cr_frame_unlink(cr_frame *f, PyThreadState *thread, int top) {
    cr_thread_set_frame(thread, f->previous);
    f->stacktop = top;
}

#endif
