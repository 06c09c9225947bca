/* prune.h: of the C text of a model and its runtime, what the model uses. Internal to src/emit. */
#ifndef CR_EMIT_PRUNE_H
#define CR_EMIT_PRUNE_H

#include "base/base.h"

/* A header or file of what becomes one C file. */
typedef struct cr_piece {
    const char *file;     /* "runtime/rt.h", "rt_pool.c"; NULL: the model */
    bool is_header;       /* what it defines is everybody's; else its statics, types and macros are its own */
    cr_str text;          /* in: all of it, in the order of compilation; out: what stays; nothing: it is not needed */
    cr_map names, macros; /* out: names of file scope that it defines for itself, and its macros */
} cr_piece;

/* Leaves what `root` needs. A function or table of the model (the last piece) stands for those of the same name in
 * other files. symbols: names with external linkage that are defined in what stays. */
CR_NODISCARD cr_status cr__prune(cr_piece *pieces, size_t n, const char *root, cr_map *symbols);

#endif
