/* bench.h: what the files of `cresset bench` share. A contender is anything that can be told "make n calls" and says
 * how long one took: the interpreter, native code, or a peer in a Python of its own (bench_peers.c). */
#ifndef CR_CLI_BENCH_H
#define CR_CLI_BENCH_H

#include "cli/arrays.h"

/* ---- peers ---- */
typedef struct peers peers;
/* NULL ends it. */
extern const char *const peer_names[];
/* Starts Python ($CRESSET_PYTHON, else python3) on the archive. `names`: those wanted, in order. A Python that is not
 * there is no failure: then every peer is missing. */
CR_NODISCARD cr_status peers_start(const char *path, const char *const *names, size_t n, int threads, peers **out);
/* Waits until peer i can be called. *missing: NULL, or why it cannot (borrowed). */
CR_NODISCARD cr_status peers_prepare(peers *p, size_t i, const char **missing);
/* Seconds a call, of `calls` in a row. CR_ERUNTIME: Python is gone. */
CR_NODISCARD cr_status peers_time(peers *p, size_t i, uint64_t calls, double *seconds);
void peers_stop(peers *p); /* NULL is legal */

#endif
