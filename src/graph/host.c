/* host.c: calls of ops without a row. What the host does is not trusted: writes are seen by the versions of the
 * arguments, shared memory by the storages of the results. */
#include "graph/host.h"

#include "ops/custom.h"

static const cr_host *current;

void cr_host_set(const cr_host *host) { __atomic_store_n(&current, host, __ATOMIC_RELEASE); }

bool cr_host_has(const char *target) {
    const cr_host *host = __atomic_load_n(&current, __ATOMIC_ACQUIRE);
    return host && host->has(target);
}

/* ---- what it may not do ---- */

typedef CR_VEC(uint64_t) versions;

/* The versions of all tensors among the arguments, in order; with `check`, they must be those that were noted. */
static cr_status see_versions(const cr_arg *a, versions *v, size_t *at, const char *check) {
    for (uint32_t i = 0; a->kind == CR_ARG_LIST && i < a->n; i++) CR_TRY(see_versions(&a->u.list[i], v, at, check));
    if (a->kind != CR_ARG_TENSOR) return CR_OK;
    uint64_t now = cr_tensor_version(a->u.t);
    if (!check) return cr_vec_push(v, now);
    return v->at[(*at)++] == now ? CR_OK
                                 : CR_FAIL(CR_EUNSUPPORTED,
                                           "%s wrote to one of its arguments, which an op that this program knows only "
                                           "by name must not; load the "
                                           "program where the op is registered, so that it knows what the op writes",
                                           check);
}

static cr_status check_fresh(const char *target, const cr_arg *args, const cr_arg *results, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        if (results[i].kind != CR_ARG_TENSOR) continue;
        if (cr_args_find_shared(args, 1, results[i].u.t) || cr_args_find_shared(results, i, results[i].u.t))
            return CR_FAIL(CR_EUNSUPPORTED,
                           "%s: result %u shares memory with an argument or another result, which a program that knows "
                           "the op only by name "
                           "cannot follow; return a copy: y.clone()",
                           target, i);
    }
    return CR_OK;
}

/* ---- calls ---- */

static cr_status call_host(const cr_host *host, const cr_arg *given, bool fake, cr_env *env, cr_arg *results) {
    const char *target = given[0].u.s;
    versions before = { 0 };
    size_t at = 0;
    cr_status status = see_versions(&given[2], &before, &at, NULL);
    if (!status) status = host->call(target, given[1].u.list, given[2].u.list, given[2].n, fake, env, results);
    if (!status) {
        status = see_versions(&given[2], &before, &at, target);
        if (!status) status = check_fresh(target, &given[2], results->u.list, results->n);
        if (status) cr_results_release(results, 1);
    }
    cr_vec_dispose(&before);
    return status;
}

cr_status cr__expand_opaque(cr_emitter *e, const cr_op *op, const cr_arg *given, cr_arg *results) {
    const cr_host *host = __atomic_load_n(&current, __ATOMIC_ACQUIRE);
    const char *target = given[0].kind == CR_ARG_STR ? given[0].u.s : "?";
    if (!host || !host->has(target))
        return CR_FAIL(CR_ENOTIMPL, "there is no implementation of %s; register one of that name (docs/custom-ops.md)",
                       target);
    if (given[1].n != given[2].n)
        return CR_FAIL(CR_EVALUE, "%s: %u names for %u arguments of %s", op->name, given[1].n, given[2].n, target);
    cr_call_mode *mode = &cr_ambient_get()->mode, saved = *mode;
    cr_env *env = e->env ? e->env : saved.env;
    bool fake = cr_args_have_fake(&given[2], 1, &env) || saved.fake;
    if (fake) {
        mode->fake = true;
        mode->env = env;
        mode->recorder = NULL;
    }
    cr_status status = call_host(host, given, fake, env, results);
    *mode = saved;
    return status;
}
