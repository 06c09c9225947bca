/* unsupported.c: all there is of capture on a CPython that it has no tables for (CMakeLists.txt chooses). Everything
 * else works there; cresset.compile says so when it is called. */
#include "python/py.h"

int cr_capture_init(PyObject *module) {
    (void)module;
    return 0;
}
