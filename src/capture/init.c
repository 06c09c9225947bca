/* init.c: capture's part of cresset._C. */
#include "capture/capture.h"

#include "python/py.h"

int cr_capture_init(PyObject *module) {
    static int (*const parts[])(PyObject *) = { cr_decode_init, cr_reentry_init, cr_callable_init, cr_everything_init,
                                                cr_block_init, cr_disabled_init, cr_reordered_init, cr_strict_init };
    for (size_t i = 0; i < CR_COUNT(parts); i++)
        if (parts[i](module)) return -1;
    return 0;
}
