/* pipeline.c: which passes native code goes through, in which order, and how passes are run. docs/passes.md says in
 * words what the bits of each row say. */
#include "passes/internal.h"

#include <time.h>

static cr_status decompose(const cr_graph *g, cr_graph **out) {
    return cr_pass_decompose(g, cr_stop_at_kernels, NULL, out);
}

cr_status cr_pass_dce(const cr_graph *g, cr_graph **out) { return cr_rewrite(g, NULL, NULL, out); }

/* ---- passes with options ---- */

static cr_status add(cr_graphs *out, cr_graph *made) {
    cr_status status = cr_vec_push(out, made);
    if (status) cr_graph_release(made);
    return status;
}

static cr_status freeze(const cr_graph *g, void *options, cr_graphs *out) {
    cr_freeze_options none = { .n = 0 };
    cr_graph *made = NULL;
    CR_TRY(cr_pass_freeze(g, options ? options : &none, &made));
    return add(out, made);
}

static cr_status functionalize(const cr_graph *g, void *options, cr_graphs *out) {
    cr_functionalize_options none = { .mutated = NULL };
    cr_graph *made = NULL;
    CR_TRY(cr_pass_functionalize(g, options ? options : &none, &made));
    return add(out, made);
}

static cr_status fuse(const cr_graph *g, void *options, cr_graphs *out) {
    cr_graph *made = NULL;
    CR_TRY(cr_pass_fuse(g, options, &made));
    return add(out, made);
}

enum { KERNELS = CR_HOLDS_KERNELS, SETTLED = CR_HOLDS_SETTLED, LIVE = CR_HOLDS_LIVE, PANELS = CR_HOLDS_PANELS,
       FUSED = CR_HOLDS_FUSED };

/* What a rule leaves unused stays until the next walk: most passes end LIVE. */
static const cr_pass passes[] = {
    { 'n', "recurrent", 0, 0, LIVE, .plain = cr_pass_recurrent },
    { 'd', "decompose", 0, KERNELS, LIVE, .plain = decompose },
    { 'z', "freeze", KERNELS, 0, LIVE, .run = freeze },
    { 'f', "functionalize", KERNELS, SETTLED, LIVE, .run = functionalize },
    { 's', "simplify", 0, 0, LIVE, .plain = cr_pass_simplify },
    { 'c', "cse", SETTLED, 0, LIVE, .plain = cr_pass_cse },
    { 'k', "fold", SETTLED, 0, LIVE, .plain = cr_pass_fold },
    { 'r', "recompose", KERNELS | SETTLED, 0, LIVE, .plain = cr_pass_recompose },
    { 'a', "attention", KERNELS | SETTLED, 0, LIVE, .plain = cr_pass_attention }, /* finds it */
    { 's', "simplify", 0, 0, LIVE, .plain = cr_pass_simplify },
    { 'a', "attention", KERNELS | SETTLED, 0, LIVE, .plain = cr_pass_attention }, /* tells it what that has shown */
    { 'b', "affine", KERNELS | SETTLED, 0, LIVE, .plain = cr_pass_affine },
    { 'p', "pack_products", KERNELS | SETTLED, PANELS, LIVE, .plain = cr_pass_pack_products },
    { 'x', "dce", 0, LIVE, 0, .plain = cr_pass_dce },
    { 'v', "pack_conv", KERNELS | SETTLED | LIVE, LIVE, 0, .plain = cr_pass_pack_conv }, /* counts uses */
    { 'l', "channels_last", KERNELS | SETTLED, LIVE, 0, .plain = cr_pass_channels_last },
    { 'u', "fuse", KERNELS | SETTLED, FUSED, LIVE, .run = fuse },
};

const cr_pass *cr_pass_at(size_t i) { return i < CR_COUNT(passes) ? &passes[i] : NULL; }

const cr_pass *cr_pass_find(const char *name) {
    for (size_t i = 0; i < CR_COUNT(passes); i++)
        if (!strcmp(passes[i].name, name)) return &passes[i];
    return NULL;
}

void cr_graphs_dispose(cr_graphs *g) {
    for (size_t i = 0; i < g->n; i++) cr_graph_release(g->at[i]);
    cr_vec_dispose(g);
}

/* ---- running one ---- */

/* Whatever checking asks of the environment is forgotten. */
static cr_status verify(const cr_graph *g, uint32_t holds) {
    cr_env_trial trial = cr_env_begin_trial(cr_graph_env(g));
    cr_status status = cr_graph_verify(g, CR_VERIFY_SHAPE);
    if (!status) status = cr_contract_check(g, holds);
    cr_env_end_trial(cr_graph_env(g), trial);
    return status;
}

cr_status cr_pass_apply(const cr_pass *pass, const cr_graph *g, void *options, cr_graphs *out) {
    cr_graph *made = NULL;
    cr_status status = pass->run ? pass->run(g, options, out) : pass->plain(g, &made);
    if (!status && !pass->run) status = add(out, made);
    return status ? cr_error_context(status, "pass %s", pass->name) : CR_OK;
}

cr_status cr_pass_apply_one(const cr_pass *pass, const cr_graph *g, void *options, cr_graph **out) {
    cr_graphs made = { 0 };
    cr_status status = cr_pass_apply(pass, g, options, &made);
    if (!status && made.n != 1)
        status = CR_FAIL(CR_EVALUE, "pass %s gives %zu graphs where one is asked for", pass->name, made.n);
    if (!status) cr_graph_retain(*out = made.at[0]);
    cr_graphs_dispose(&made);
    return status;
}

/* ---- running several ---- */

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static bool verifies(const cr_pipeline_options *o) {
#ifdef NDEBUG
    return o->verify;
#else
    (void)o;
    return true;
#endif
}

static void *options_of(const cr_pipeline_options *o, const char *pass) {
    for (size_t i = 0; i < o->noptions; i++)
        if (!strcmp(o->options[i].pass, pass)) return o->options[i].options;
    return NULL;
}

/* Does every pass find what it needs? */
static cr_status check_order(const cr_pass *all, size_t n, uint32_t holds) {
    for (size_t i = 0; i < n; i++) {
        uint32_t missing = all[i].needs & ~holds;
        if (missing) {
            cr_str names;
            cr_str_init(&names);
            cr_contract_print(missing, &names);
            cr_status status = CR_FAIL(CR_EVALUE, "pass %s needs a graph that is '%s'; no pass before it gives that",
                                       all[i].name, cr_str_get(&names));
            cr_str_dispose(&names);
            return status;
        }
        holds = (holds & ~all[i].ends) | all[i].gives;
    }
    return CR_OK;
}

static cr_status see(const cr_pipeline_options *o, const cr_pass *pass, const cr_graphs *made, uint32_t holds,
                     double time) {
    for (size_t i = 0; i < made->n; i++) {
        if (verifies(o)) {
            cr_status status = verify(made->at[i], holds);
            if (status) return cr_error_context(status, "after pass %s, which breaks its contract", pass->name);
        }
        if (o->after) CR_TRY(o->after(o->user, pass, made->at[i], time));
    }
    return CR_OK;
}

/* The pass on every graph there is; `now` becomes what it gives. */
static cr_status step(const cr_pipeline_options *o, const cr_pass *pass, cr_graphs *now, uint32_t holds) {
    cr_graphs made = { 0 };
    double start = seconds();
    cr_status status = CR_OK;
    for (size_t i = 0; i < now->n && !status; i++)
        status = cr_pass_apply(pass, now->at[i], options_of(o, pass->name), &made);
    cr_graphs_dispose(now);
    *now = made;
    return status ? status : see(o, pass, now, holds, seconds() - start);
}

cr_status cr_pipeline_run(const cr_pass *all, size_t n, const cr_pipeline_options *o, const cr_graph *g,
                          cr_graphs *out) {
    cr_graphs now = { 0 };
    uint32_t holds = o->holds;
    CR_TRY(check_order(all, n, holds));
    CR_TRY(cr_vec_push(&now, (cr_graph *)g));
    cr_graph_retain((cr_graph *)g);
    cr_status status = CR_OK;
    for (size_t i = 0; i < n && !status; i++) {
        holds = (holds & ~all[i].ends) | all[i].gives;
        status = step(o, &all[i], &now, holds);
    }
    if (status) return cr_graphs_dispose(&now), status;
    *out = now;
    return CR_OK;
}

cr_status cr_pipeline_native(const cr_pipeline_options *o, const cr_graph *g, cr_graph **out) {
    cr_env *env = cr_graph_env(g);
    cr_graphs made = { 0 };
    /* one library serves every size */
    bool general = cr_env_set_general(env, true), all_sizes = cr_env_set_all_sizes(env, true);
    cr_status status = cr_pipeline_run(passes, CR_COUNT(passes), o, g, &made);
    cr_env_set_general(env, general);
    cr_env_set_all_sizes(env, all_sizes);
    if (!status) cr_graph_retain(*out = made.at[0]); /* none of these passes gives several */
    cr_graphs_dispose(&made);
    return status;
}
