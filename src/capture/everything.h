/* everything.h: a dispatcher for every code object whose frames are shown: for tests (everything.c) and for
 * `with optimize(...)` (block.c). */
#ifndef CR_EVERYTHING_H
#define CR_EVERYTHING_H

#define Py_BUILD_CORE 1
#include "capture/hook.h"

#include "base/base.h"
#include "capture/dispatch.h"

typedef struct cr_dispatchers {
    cr_dispatcher like; /* how each is made; borrowed objects */
    cr_map by_code;     /* code -> place in `all` */
    CR_VEC(cr_dispatcher *) all;
} cr_dispatchers;
/* Borrowed; NULL: exception. */
cr_dispatcher *cr_dispatchers_get(cr_dispatchers *d, PyCodeObject *code);
void cr_dispatchers_dispose(cr_dispatchers *d);
/* Why a frame is none that could be carried; NULL: it may be. */
const char *cr_frame_why_not(const cr_frame *frame, int throwflag);

#endif
