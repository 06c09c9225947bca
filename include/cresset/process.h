/* process.h: what holds for the whole process: threads, instructions, random numbers, unfinished files.
 *
 *     if (cr_environment_check()) return fail(cr_error_message());
 *     if (cr_set_num_threads(2)) return fail(cr_error_message());
 *     cr_manual_seed(7);
 *     printf("%d threads, %s\n", cr_num_threads(), cr_isa_used());
 *
 * Nothing here has to be called: the library starts by itself, with as many threads as the process may use. Callable
 * from any thread; what is changed holds for calls that begin afterwards. */
#ifndef CRESSET_PROCESS_H
#define CRESSET_PROCESS_H

#include "cresset/text.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Whether the environment's settings (CRESSET_NUM_THREADS, CRESSET_ISA) can be followed: CR_EVALUE names the one that
 * cannot. Programs ask once at their start; what cannot be followed is otherwise taken as not set (threads) or as
 * "portable" (instructions). */
CR_API CR_NODISCARD cr_status cr_environment_check(void);

/* Threads that interpreted calls compute with, and the default of compiled models. CR_EVALUE when n < 1. */
CR_API int cr_num_threads(void);
CR_API CR_NODISCARD cr_status cr_set_num_threads(int n);

/* The instruction set that the library's own loops use here: "portable", "avx2", "avx512". */
CR_API const char *cr_isa_used(void);

/* What this machine's processor has of what the library looks for: "avx2 fma", or nothing. */
CR_API void cr_processor_describe(cr_str *out);

/* Seeds the default generator, which random ops of interpreted calls draw from: torch.manual_seed. A compiled model
 * has one of its own (cr_native_seed). */
CR_API void cr_manual_seed(uint64_t seed);

/* Removes the temporary files of writes that are under way. Safe in a signal handler, and meant for one that ends the
 * process: files that are written appear whole or not at all, and this leaves no traces of the latter. */
CR_API void cr_temporaries_remove(void);

#ifdef __cplusplus
}
#endif
#endif
