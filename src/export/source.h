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

/* The path of the module that made the node ("encoder.layer.0"); *length 0: the root's, or none is known. */
const char *cr__source_module(const cr_origin *origin, int *length);

/* What of a file's path goes into files that others get: below the working folder, from site-packages on, or its name
 * alone; where a user keeps programs is nobody else's business. A relative path is as it is. *length: of what is
 * returned. */
const char *cr__shown_path(const char *folder, const char *path, int *length);
/* A stack trace with such paths. */
void cr__show_trace(const char *folder, const char *trace, cr_str *out);
/* The working folder; "" when it cannot be told. */
void cr__working_folder(char out[4096]);

#endif
