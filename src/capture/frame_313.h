/* frame_313.h: frames of CPython 3.13. `instr_ptr` is the unit that runs next. */
#ifndef CR_FRAME_313_H
#define CR_FRAME_313_H

static inline PyCodeObject *cr_frame_code(const cr_frame *f) { return (PyCodeObject *)f->f_executable; }
/* The unit that runs next. */
static inline int cr_frame_at(const cr_frame *f) { return (int)(f->instr_ptr - _PyCode_CODE(cr_frame_code(f))); }
/* The one that runs. */
static inline int cr_frame_running(const cr_frame *f) { return cr_frame_at(f); }
static inline void cr_frame_set_at(cr_frame *f, int unit) { f->instr_ptr = _PyCode_CODE(cr_frame_code(f)) + unit; }
static inline void cr_frame_set_running(cr_frame *f, int unit) { cr_frame_set_at(f, unit); }

static inline cr_frame *cr_thread_frame(PyThreadState *thread) { return thread->current_frame; }
static inline void cr_thread_set_frame(PyThreadState *thread, cr_frame *f) { thread->current_frame = f; }

#endif
