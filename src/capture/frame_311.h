/* frame_311.h: frames of CPython 3.11, behind the accessors that every version has a header for.
 *
 * A frame is one array: locals, cells and free variables, then the stack. `prev_instr` is the unit *before* the one
 * that runs next, so a frame is entered at unit k with prev_instr = k - 1. The caller of the evaluator clears the
 * frame, whatever was written into it meanwhile. */
#ifndef CR_FRAME_311_H
#define CR_FRAME_311_H

#ifndef Py_BUILD_CORE
#error "frame_311.h: define Py_BUILD_CORE before the first include"
#endif
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <frameobject.h>

#include <internal/pycore_frame.h>
#include <internal/pycore_interp.h>

#include <stdbool.h>

typedef struct _PyInterpreterFrame cr_frame;

static inline PyCodeObject *cr_frame_code(const cr_frame *f) { return f->f_code; }
/* Where locals, cells and free variables begin; the stack is behind them. */
static inline PyObject **cr_frame_slots(cr_frame *f) { return f->localsplus; }
static inline int cr_frame_slot_count(const cr_frame *f) { return f->f_code->co_nlocalsplus; }
/* How many slots and stack entries there are. Known only while the frame does not run. */
static inline int cr_frame_top(const cr_frame *f) { return f->stacktop; }
static inline void cr_frame_set_top(cr_frame *f, int top) { f->stacktop = top; }
/* The unit that runs next. */
static inline int cr_frame_at(const cr_frame *f) { return (int)(f->prev_instr - _PyCode_CODE(f->f_code)) + 1; }
static inline void cr_frame_set_at(cr_frame *f, int unit) { f->prev_instr = _PyCode_CODE(f->f_code) + unit - 1; }
/* The exception that the thread is handling: part of the state inside a handler. */
static inline PyObject **cr_thread_handled(PyThreadState *thread) { return &thread->exc_info->exc_value; }

#endif
