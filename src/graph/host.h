/* host.h: ops that have no row, carried out by whoever embeds the library.
 *
 * A graph holds such a call as `cresset::opaque(target, names, args)`: a program with it can be read, printed, changed
 * and written. It runs where the host (the Python package, a program in C) has the op. Nothing is known of it but what
 * the call shows, so it is held to the least that passes rely on: it writes to none of its arguments, and its results
 * are memory of their own; a call that does otherwise fails. Native code refuses it by name.
 *
 *     static const cr_host host = { has, call };
 *     cr_host_set(&host); */
#ifndef CR_HOST_H
#define CR_HOST_H

#include "ops/op.h"

typedef struct cr_host {
    /* Is there an op of this full name, "ns::name.overload" ("ns::name" for the default one)? */
    bool (*has)(const char *target);
    /* Carries it out. names[i]: the keyword of args[i]; empty: positional. Real tensors in, real tensors out; when one
     * is fake
     * (`fake`), fakes of `env` out. *results: a LIST of what the op gives, owned as cr_call's results are. */
    cr_status (*call)(const char *target, const cr_arg *names, const cr_arg *args, uint32_t n, bool fake, cr_env *env,
                      cr_arg *results);
} cr_host;
/* The process has one host, which must outlive it; NULL: none (so at first). */
void cr_host_set(const cr_host *host);
/* Can the host carry it out? */
bool cr_host_has(const char *target);
/* The .decomp_fn of cresset::opaque. CR_ENOTIMPL naming the op where the host has none of that name. */
cr_status cr__expand_opaque(cr_emitter *e, const cr_op *op, const cr_arg *given, cr_arg *results);

#endif
