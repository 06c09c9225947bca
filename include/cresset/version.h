/* version.h: which Cresset this is.
 *
 *     printf("headers of %s, library %s\n", CR_VERSION, cr_version());
 *     if (cr_version_number() < CR_VERSION_NUMBER) return fail("the library is older than the headers");
 *
 * Stable: names, types and meanings in include/cresset stay as they are within one interface number (CR_INTERFACE, the
 * number in libcresset.so.1); releases add. docs/compatibility.md has the whole promise. Callable from any thread. */
#ifndef CRESSET_VERSION_H
#define CRESSET_VERSION_H

#include "cresset/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define CR_VERSION_MAJOR 0
#define CR_VERSION_MINOR 1
#define CR_VERSION_PATCH 0
#define CR_VERSION "0.1.0"
#define CR_VERSION_NUMBER (CR_VERSION_MAJOR * 10000 + CR_VERSION_MINOR * 100 + CR_VERSION_PATCH)
/* A library with another number is another library: its file name and its symbols' versions (CRESSET_1) say so, too. */
#define CR_INTERFACE 1

/* Of the library that runs, which may be newer than the headers that a program was compiled with. */
CR_API const char *cr_version(void);
CR_API int cr_version_number(void);

#ifdef __cplusplus
}
#endif
#endif
