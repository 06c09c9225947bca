/* check.h: is all of a file sound?
 *
 *     static void tell(void *user, int kind, const char *what, const char *text) {
 *         int *problems = (int *)user;
 *         if (kind == CR_CHECK_PROBLEM) ++*problems;
 *         printf("%s: %s\n", what, text);
 *     }
 *     int main(void) {
 *         int problems = 0;
 *         cr_check_options options = { sizeof options, tell, NULL, &problems };
 *         if (cr_check_file("model.pt2", &options)) return fprintf(stderr, "%s\n", cr_error_message()), 1;
 *         return problems != 0;
 *     }
 *
 * Checksums first, member by member, so that one damaged weight does not hide another; then each program is loaded and
 * verified as a whole: graph against its schemas and shapes, signature against the graph, state against both. Ops that
 * cannot be run here are told of, but nothing is wrong with the file for that. */
#ifndef CRESSET_CHECK_H
#define CRESSET_CHECK_H

#include "cresset/status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { CR_CHECK_FACT, CR_CHECK_PROBLEM };
typedef struct cr_check_options {
    size_t struct_size; /* sizeof(cr_check_options) */
    /* A fact ("checksums", "12 of 12 right") or a problem ("", one line that says what is wrong). */
    void (*tell)(void *user, int kind, const char *what, const char *text);
    void (*progress)(void *user, uint64_t bytes, uint64_t total); /* may be NULL */
    void *user;
} cr_check_options;
/* Archives (.pt2), .npz, .npy and .safetensors, by the name's ending. Fails only when the examination itself cannot
 * go on: CR_EIO, CR_ENOMEM. */
CR_API CR_NODISCARD cr_status cr_check_file(const char *path, const cr_check_options *options);

#ifdef __cplusplus
}
#endif
#endif
