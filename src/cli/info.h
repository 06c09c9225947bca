/* info.h: what the files of `cresset info` share: inputs, outputs and sizes as text and as JSON (info_parts.c), and
 * what a compiled library says of itself (info_library.c). */
#ifndef CR_CLI_INFO_H
#define CR_CLI_INFO_H

#include "cli/model.h"

typedef struct tally { size_t count; int64_t elements, bytes; } tally;
void info_count(tally *t, int dtype, int rank, const int64_t *size);

/* Inputs, outputs and dynamic sizes. */
void info_add_interface(const model *m, cr_str *out);
void info_add_tally(const char *title, const tally *t, cr_str *out);
void info_add_names(const char *title, const char *const *names, size_t n, cr_str *out);

void info_json_interface(cr_json_writer *w, const model *m);
void info_json_pair(cr_json_writer *w, const char *key, const char *s);
void info_json_names(cr_json_writer *w, const char *key, const char *const *names, size_t n);
void info_json_tally(cr_json_writer *w, const char *key, const tally *t);
void info_json_sizes(cr_json_writer *w, int rank, const int64_t *size);

/* One method, or all when name is NULL. check: an instance is made, which finds and checks the weights. CR_EVALUE: a
 * library has no graph to print. */
CR_NODISCARD cr_status info_library(const char *path, const char *name, bool graph, bool json, bool check, cr_str *out);

#endif
