/* suspended.h: what a compiled generator function gives. */
#ifndef CR_SUSPENDED_H
#define CR_SUSPENDED_H

#include "capture/dispatch.h"

/* Of `def` with yield, not of `async def`, where frames of generators are carried on: on CPython 3.11. On later
 * versions not all of CPython's own tests were run without this rule. */
bool cr_is_generator_code(const PyCodeObject *code);
enum { CR_CARRIES_GENERATORS = PY_VERSION_HEX < 0x030C0000 };
/* Takes over a generator and gives an object that stands before it, whose body is captured between yields by a
 * dispatcher that somebody owns; else the generator itself. NULL (given, or out of memory): exception. */
PyObject *cr_suspended_new(cr_dispatcher *d, PyObject *generator);

#endif
