/* sources.h: which of the runtime's files a model needs, when its archive cannot be used (other processors, C output).
 *
 * lib/cresset/index lists the symbols that each file of the runtime defines and needs (`nm` of the archive, made with
 * it). From the names in a model's text follow the files that define them, the files those need, and so on. */
#ifndef CR_SOURCES_H
#define CR_SOURCES_H

#include "emit/emit.h"

typedef struct cr_static { const char *file, *name; } cr_static;
/* "rt_pool.c"; every symbol they define, both sorted; symbols of file scope alone. */
typedef struct cr_sources {
    cr_arena arena;
    CR_VEC(const char *) files, symbols;
    CR_VEC(cr_static) statics;
} cr_sources;

/* Files for the definitions that `text` mentions but does not make itself. Those for
 * instruction sets of other targets stay out. CR_ETOOLCHAIN: the index is missing. */
CR_NODISCARD cr_status cr__sources_find(const cr_toolchain *t, const char *text, const cr_target *target,
                                        cr_sources *out);
void cr__sources_dispose(cr_sources *s);
/* Does the text define this choice of the runtime (RT_CHOICE) itself? */
bool cr__defines_choice(const char *text, const char *name);
/* All words of a C text outside of its string literals. */
CR_NODISCARD cr_status cr__words_of(const char *text, cr_map *out);
/* All names of choices, ends with NULL. */
extern const char *const cr__choice_names[];
/* How a file of the runtime is compiled besides the common flags; as many as given back. */
size_t cr__source_flags(const char *file, const char **out);
enum { CR_SOURCE_FLAGS = 12 };

#endif
