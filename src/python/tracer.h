/* tracer.h: a _Tracer (tracer.c) whose program a capture evaluates (capture/strict.c) in the place of CPython. */
#ifndef CR_PY_TRACER_H
#define CR_PY_TRACER_H

#include "python/origin.h"
#include "trace/trace.h"

bool cr_py_tracer_check(PyObject *o);
cr_trace *cr_py_tracer_trace(PyObject *tracer);           /* borrowed, as its origins */
cr_py_origins *cr_py_tracer_origins(PyObject *tracer);
/* From begin to end the calls of this thread are recorded, as those of `fn`. */
typedef struct cr_py_recording { void *outer; uint64_t ambient; } cr_py_recording;
cr_py_recording cr_py_tracer_begin(PyObject *tracer, PyObject *fn);
void cr_py_tracer_end(PyObject *tracer, cr_py_recording before);
int cr_py_tracer_enter(PyObject *tracer, PyObject *module); /* -1: exception; cr_py_origins_leave() ends it */

#endif
