/* options.c: structs of options that grow from release to release. */
#include "base/base.h"

cr_status cr_options_read(const char *what, const void *given, void *out, size_t known) {
    size_t size = 0;
    memset(out, 0, known);
    if (given) memcpy(&size, given, sizeof size);
    if (given && size < sizeof size)
        return CR_FAIL(CR_EVALUE, "%s.struct_size is %zu; set it to sizeof(%s)", what, size, what);
    if (given) memcpy(out, given, CR_MIN(size, known));
    return CR_OK;
}
