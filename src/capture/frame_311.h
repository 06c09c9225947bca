/* frame_311.h: frames of CPython 3.11 and 3.12. `prev_instr` is the unit *before* the one that runs next, so a frame is
 * entered at unit k with prev_instr = k - 1. */
#ifndef CR_FRAME_311_H
#define CR_FRAME_311_H

static inline PyCodeObject *cr_frame_code(const cr_frame *f) { return f->f_code; }
/* The unit that runs next. */
static inline int cr_frame_at(const cr_frame *f) { return (int)(f->prev_instr - _PyCode_CODE(f->f_code)) + 1; }
/* The one that runs. */
static inline int cr_frame_running(const cr_frame *f) { return cr_frame_at(f) - 1; }
static inline void cr_frame_set_at(cr_frame *f, int unit) { f->prev_instr = _PyCode_CODE(f->f_code) + unit - 1; }
static inline void cr_frame_set_running(cr_frame *f, int unit) { cr_frame_set_at(f, unit + 1); }

static inline cr_frame *cr_thread_frame(PyThreadState *thread) { return thread->cframe->current_frame; }
static inline void cr_thread_set_frame(PyThreadState *thread, cr_frame *f) { thread->cframe->current_frame = f; }

#endif
