/* sources.h: which of the runtime's files a model needs, when its archive cannot be used (other processors, C output).
 *
 * lib/cresset/index lists the symbols that each file of the runtime defines and needs (`nm` of the archive, made with
 * it). From the names in a model's text follow the files that define them, the files those need, and so on. */
#ifndef CR_SOURCES_H
#define CR_SOURCES_H

#include "emit/emit.h"

typedef struct cr_sources {
    cr_arena arena;
    CR_VEC(const char *) files;
} cr_sources; /* "rt_pool.c"; sorted */

/* Files for the definitions that `text` mentions but does not make itself. Those for instruction sets of other targets
 * stay out. CR_ETOOLCHAIN: the index is missing. */
CR_NODISCARD cr_status cr__sources_find(const cr_toolchain *t, const char *text, const cr_target *target,
                                        cr_sources *out);
void cr__sources_dispose(cr_sources *s);
/* How a file of the runtime is compiled for release besides the common flags (runtime/flags.inc); as many as given
 * back. `gcc`: with flags that no other compiler knows. */
size_t cr__source_flags(const char *file, bool gcc, const char **out);
enum { CR_SOURCE_FLAGS = 20 };
bool cr__source_is_fused(const char *file); /* may it fuse multiply and add? */

#endif
