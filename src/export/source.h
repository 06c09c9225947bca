/* source.h: where in the user's program a node comes from. */
#ifndef CR_EXPORT_SOURCE_H
#define CR_EXPORT_SOURCE_H

#include "graph/graph.h"

/* Pieces of the stack trace's text; not NUL-terminated. */
typedef struct cr__frame {
    const char *path, *line, *function, *code;
    int path_length, line_length, function_length, code_length;
} cr__frame;
/* The innermost frame; with `users`, the innermost one outside of PyTorch's own files where there is one. */
bool cr__source_frame(const cr_origin *origin, bool users, cr__frame *out);

#endif
