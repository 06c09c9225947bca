/* page.h: what a graph looks like, as one HTML page that needs nothing else.
 *
 *     cr_program *program;
 *     if (cr_program_load("model.pt2", NULL, CR_LOAD_META, &program)) return fail(cr_error_message());
 *     cr_str page;
 *     cr_str_init(&page);
 *     cr_status status = cr_program_page(program, "model.pt2", NULL, 0, &page);
 *     if (status || cr_str_save(&page, "model.html")) return fail(cr_error_message());
 *     cr_str_dispose(&page);
 *     cr_program_release(program);
 *
 * The page loads nothing from elsewhere, and texts of an archive are shown as texts: none of them becomes markup or
 * code. Stable: the functions; what pages look like and what data they hold changes with every release. */
#ifndef CRESSET_PAGE_H
#define CRESSET_PAGE_H

#include "cresset/program.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What native code took for a node, by the origin that cr_native_profile gives ("aten::add -> add (net.py:3)"). */
typedef struct cr_page_time { const char *origin; double seconds; } cr_page_time;
/* The graph of a program: nodes by module with types, sizes of weights, source lines, and the times that are known
 * (`times` may be NULL). `out` is appended to. */
CR_API CR_NODISCARD cr_status cr_program_page(const cr_program *p, const char *title, const cr_page_time *times,
                                              size_t ntimes, cr_str *out);
/* The page around data of another kind: a JSON object that its script knows ("kind": "explain"). */
CR_API CR_NODISCARD cr_status cr_page_write(const char *title, const char *json, cr_str *out);

#ifdef __cplusplus
}
#endif
#endif
