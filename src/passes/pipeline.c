/* pipeline.c: which passes native code goes through, in which order. docs/passes.md says what each needs and
 * establishes. */
#include "passes/passes.h"

#include <time.h>

static cr_status decompose(cr_pass_run *run, const cr_graph *g, cr_graph **out) {
    (void)run;
    return cr_pass_decompose(g, cr_stop_at_kernels, NULL, out);
}

cr_status cr_pass_dce(cr_pass_run *run, const cr_graph *g, cr_graph **out) {
    return cr_rewrite(run, g, NULL, NULL, out);
}

static const cr_pass passes[] = {
    { 'n', "recurrent", cr_pass_recurrent },
    { 'd', "decompose", decompose },
    { 'z', "freeze", cr_pass_freeze },
    { 'f', "functionalize", cr_pass_functionalize },
    { 's', "simplify", cr_pass_simplify },
    { 'c', "cse", cr_pass_cse },
    { 'k', "fold", cr_pass_fold },
    { 'r', "recompose", cr_pass_recompose },
    { 'a', "attention", cr_pass_attention }, /* finds it */
    { 's', "simplify", cr_pass_simplify },
    { 'a', "attention", cr_pass_attention }, /* tells it what simplifying has shown */
    { 'b', "affine", cr_pass_affine },
    { 'p', "pack_products", cr_pass_pack_products },
    { 'x', "dce", cr_pass_dce },
    { 'v', "pack_conv", cr_pass_pack_conv },
    { 'l', "channels_last", cr_pass_channels_last },
    { 'u', "fuse", cr_pass_fuse },
};

const cr_pass *cr_pass_at(size_t i) { return i < CR_COUNT(passes) ? &passes[i] : NULL; }

const cr_pass *cr_pass_find(const char *name) {
    for (size_t i = 0; i < CR_COUNT(passes); i++)
        if (!strcmp(passes[i].name, name)) return &passes[i];
    return NULL;
}

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static cr_status run_all(cr_pass_run *run, const cr_graph *g, cr_graph **out) {
    cr_graph *now = NULL;
    for (size_t i = 0; i < CR_COUNT(passes); i++) {
        double start = seconds();
        cr_graph *next = NULL;
        cr_status status = passes[i].run(run, now ? now : g, &next);
        cr_graph_release(now);
        if (status) return cr_error_context(status, "pass %s", passes[i].name);
        now = next;
        if (run->after) status = run->after(run->user, &passes[i], now, seconds() - start);
        if (status) return cr_graph_release(now), status;
    }
    *out = now;
    return CR_OK;
}

cr_status cr_pipeline_native(cr_pass_run *run, const cr_graph *g, cr_graph **out) {
    cr_env *env = cr_graph_env(g);
    /* one library serves every size */
    bool general = cr_env_set_general(env, true), all_sizes = cr_env_set_all_sizes(env, true);
    cr_status status = run_all(run, g, out);
    cr_env_set_general(env, general);
    cr_env_set_all_sizes(env, all_sizes);
    return status;
}
