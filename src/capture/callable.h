/* callable.h: what cresset.compile returns: an object in C that looks like the function, checks guards itself and runs
 * what was captured; no frame and no hook on a hit. */
#ifndef CR_CALLABLE_H
#define CR_CALLABLE_H

#include "capture/entry.h"

bool cr_is_callable(PyObject *o);
PyObject *cr_callable_wrapped(PyObject *o); /* the function or method it was made of; borrowed */

#endif
