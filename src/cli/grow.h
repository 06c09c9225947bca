/* grow.h: the few containers of the tool, over the C API's heap. */
#ifndef CR_CLI_GROW_H
#define CR_CLI_GROW_H

#include "cresset/memory.h"

#define CLI_COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define CLI_MIN(a, b) ((a) < (b) ? (a) : (b))
#define CLI_MAX(a, b) ((a) > (b) ? (a) : (b))

/* A growing array: `CLI_VEC(int) v = { 0 }; CR_TRY(cli_push(&v, 3)); cli_vec_dispose(&v);` */
#define CLI_VEC(T)     \
    struct {           \
        T *at;         \
        size_t n, cap; \
    }
static inline cr_status cli_grow(void **at, size_t *cap, size_t n, size_t item) {
    if (n < *cap) return CR_OK;
    void *more = cr_realloc(*at, 2 * (n + 4) * item);
    if (!more) return CR_ENOMEM;
    *at = more;
    *cap = 2 * (n + 4);
    return CR_OK;
}
/* Assigns after growing, so a failed push changes nothing. */
#define cli_room(v) cli_grow((void **)&(v)->at, &(v)->cap, (v)->n, sizeof *(v)->at)
#define cli_push(v, ...) (cli_room(v) ? CR_ENOMEM : ((void)((v)->at[(v)->n++] = (__VA_ARGS__)), CR_OK))
#define cli_vec_dispose(v) (cr_free((v)->at), (v)->at = NULL, (v)->n = (v)->cap = 0)

#endif
