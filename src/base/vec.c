/* Growth of CR_VEC arrays: by half, at least eight items, with the byte count checked.
 *
 * The macros hand over the address of a `T *` as `void **`; memcpy reads and writes it, because a plain access
 * through `void **` would break the aliasing rules. */
#include "base/grow.h"

cr_status cr__vec_grow(void **at, size_t *cap, size_t want, size_t item) {
    size_t next = cr_grown(*cap, want, CR_LIMIT(8, 1));
    size_t bytes;
    void *old, *grown;
    if (cr_mul_overflow(next, item, &bytes) || bytes > PTRDIFF_MAX) return CR_FAIL(CR_ENOMEM, "too large");
    memcpy(&old, at, sizeof old);
    grown = cr_realloc(old, bytes);
    if (!grown) return CR_ENOMEM;
    memcpy(at, &grown, sizeof grown);
    *cap = next;
    return CR_OK;
}
