/* memory.h: the library's heap.
 *
 *     char *text = cr_strdup("mine until cr_free");
 *     if (!text) return fail(cr_error_message());
 *     cr_free(text);
 *
 * What the library hands out as plain memory ("free with cr_free") comes from here, and only cr_free takes it back.
 * Objects (tensors, programs, ...) have release functions of their own. Callable from any thread. */
#ifndef CRESSET_MEMORY_H
#define CRESSET_MEMORY_H

#include "cresset/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* NULL on failure, with the last error set to CR_ENOMEM. cr_alloc(0) returns a unique pointer. */
CR_API void *cr_alloc(size_t size);
CR_API void *cr_calloc(size_t count, size_t size); /* zeroed; the product is checked */
CR_API void *cr_realloc(void *p, size_t size);     /* on failure `p` stays valid */
CR_API void cr_free(void *p);                      /* NULL is legal */
CR_API char *cr_strdup(const char *s);
CR_API char *cr_strndup(const char *s, size_t n);
/* Tensors' memory that was freed is kept for the next request of its size; this gives all of it back to the system. */
CR_API void cr_block_trim(void);

/* For tests of programs that embed the library. cr_alloc_fail_at(n): the nth request from now (1: the next) fails,
 * later ones succeed; 0 turns it off. cr_alloc_count: requests so far in this process. cr_alloc_live: blocks not yet
 * freed. */
CR_API void cr_alloc_fail_at(int64_t n);
CR_API int64_t cr_alloc_count(void);
CR_API int64_t cr_alloc_live(void);

#ifdef __cplusplus
}
#endif
#endif
