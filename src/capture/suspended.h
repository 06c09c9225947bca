/* suspended.h: what a compiled generator or coroutine function gives. */
#ifndef CR_SUSPENDED_H
#define CR_SUSPENDED_H

#include "capture/dispatch.h"

/* Of `def` with yield, or of `async def` without: no asynchronous generator, nothing marked by types.coroutine. */
bool cr_is_suspended_code(const PyCodeObject *code);
/* Takes over a generator or coroutine and gives an object that stands before it, whose body is captured between yields
 * by a dispatcher that somebody owns; else the generator itself. NULL (given, or out of memory): exception. */
PyObject *cr_suspended_new(cr_dispatcher *d, PyObject *generator);
bool cr_is_suspended_coroutine(const PyObject *o); /* does it stand before a coroutine? */

#endif
