/* tier.c: building native code beside the program that runs. */
#include "emit/tier.h"

#include "emit/emit.h"
#include "graph/writes.h"
#include "lower/lower.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

struct cr_tier {
    int refs;          /* atomic */
    char *text;        /* the graph */
    cr_native *native; /* atomic; set once */
    int state;         /* atomic: BUILDING, then one of the others */
    char reason[256];  /* written before the state says FAILED */
    char shown[64];    /* written before it says READY */
    cr_tier_ways ways;
    cr_frozen *frozen; /* NULL: none */
    uint32_t changes;  /* how often its predecessors were made anew, as weights had changed */
};
enum { BUILDING, READY, FAILED };
enum { MOST_CHANGES = 4, FEW = 64 };

static int state_of(const cr_tier *t) { return __atomic_load_n(&t->state, __ATOMIC_ACQUIRE); }

void cr_tier_release(cr_tier *t) {
    if (!t || __atomic_sub_fetch(&t->refs, 1, __ATOMIC_ACQ_REL)) return;
    cr_native_release(t->native);
    cr_frozen_release(t->frozen);
    cr_free(t->text);
    cr_free(t);
}

void cr_tier_retain(cr_tier *t) { __atomic_add_fetch(&t->refs, 1, __ATOMIC_RELAXED); }

cr_native *cr_tier_get(const cr_tier *t) { return state_of(t) == READY ? t->native : NULL; }
const cr_frozen *cr_tier_frozen(const cr_tier *t) { return t->frozen; }

/* It will not be used any more, for this reason. */
static void drop(cr_tier *t, const char *reason) {
    snprintf(t->reason, sizeof t->reason, "%s", reason);
    __atomic_store_n(&t->state, FAILED, __ATOMIC_RELEASE); /* the library stays until the tier goes: it may run */
}

const char *cr_tier_state(const cr_tier *t) {
    switch (state_of(t)) {
    case BUILDING: return "building";
    case READY: return t->shown;
    default: return t->reason;
    }
}

/* ---- running ---- */

bool cr_tier_draws(const cr_graph *g) {
    for (uint32_t n = cr_graph_first(g); n != CR_NO_NODE; n = cr_graph_next(g, n)) {
        const cr_node *node = cr_graph_node(g, n);
        if (node->kind != CR_NODE_CALL) continue;
        if (!node->op->row) return true;
    }
    return cr_graph_draws(g) != NULL;
}

/* Is the result what the graph says: dtype, sizes, strides? Symbolic ones are as they come. */
static bool fits(const cr_graph *g, const cr_arg *want, const cr_arg *got) {
    const cr_meta *w = want->kind == CR_ARG_VALUE ? cr_graph_value(g, (uint32_t)want->u.i)->meta : NULL;
    if (!w || got->kind != CR_ARG_TENSOR) return !w && got->kind != CR_ARG_TENSOR;
    const cr_meta *m = &got->u.t->meta;
    bool same = m->dtype == w->dtype && m->rank == w->rank;
    for (int d = 0; same && d < m->rank; d++)
        same = (!cr_dim_is_plain(w->size[d]) || m->size[d] == w->size[d]) &&
               (!cr_dim_is_plain(w->stride[d]) || m->stride[d] == w->stride[d]);
    return same;
}

/* Without the weights. */
static cr_status run_frozen(const cr_tier *t, const cr_arg *inputs, size_t n, cr_arg *results, size_t nresults) {
    cr_arg few[FEW], *others = n > FEW ? cr_alloc(n * sizeof *others) : few;
    if (!others) return CR_ENOMEM;
    size_t left = cr_frozen_leave(t->frozen, inputs, sizeof *inputs, others);
    cr_status status = cr_native_run(t->native, 0, others, left, results, nresults);
    if (others != few) cr_free(others);
    return status;
}

cr_status cr_tier_run(cr_tier *t, const cr_graph *g, cr_plan *plan, const cr_arg *inputs, size_t n, cr_arg *results,
                      size_t nresults) {
    if (!t || state_of(t) != READY) return cr_plan_run(plan, inputs, n, results, nresults);
    CR_TRY(t->frozen ? run_frozen(t, inputs, n, results, nresults)
                     : cr_native_run(t->native, 0, inputs, n, results, nresults));
    const cr_node *output = cr_graph_node(g, cr_graph_output(g));
    bool all = true;
    for (size_t i = 0; all && i < nresults; i++) all = fits(g, &output->args[i], &results[i]);
    if (all) return CR_OK;
    cr_results_release(results, nresults);
    drop(t, "no native code: its results are laid out otherwise");
    return cr_plan_run(plan, inputs, n, results, nresults);
}

/* ---- the thread ---- */

static cr_status build_library(const cr_lowered *l, const cr_emit_options *options, cr_library **out) {
    cr_workshop shop;
    const char *path;
    CR_TRY(cr__workshop_open(&shop));
    cr_status status = cr__workshop_file(&shop, "libcaptured.so", &path);
    if (!status) status = cr_emit_library(l, path, options);
    if (!status) status = cr_library_open(path, out);
    cr__workshop_close(&shop);
    return status;
}

static cr_status freeze(cr_tier *t, cr_graph **g) {
    cr_graph *frozen;
    CR_TRY(cr_frozen_apply(t->frozen, *g, &frozen));
    cr_graph_release(*g);
    *g = frozen;
    return CR_OK;
}

static void show(cr_tier *t, int threads, bool tunes) {
    char chosen[32] = "";
    if (threads) snprintf(chosen, sizeof chosen, ", %s%d thread%s", tunes ? "tuned: " : "", threads,
                          threads > 1 ? "s" : "");
    snprintf(t->shown, sizeof t->shown, "native%s%s", chosen, t->frozen ? ", with frozen weights" : "");
}

static cr_status build(cr_tier *t) {
    cr_graph *g = NULL;
    cr_lowered *l = NULL;
    cr_library *library = NULL;
    CR_TRY(cr_graph_parse(NULL, t->text, &g)); /* with symbols of its own */
    cr_status status = t->frozen ? freeze(t, &g) : CR_OK;
    if (!status) status = cr_lower_graphs(&(cr_lower_graph){ .graph = g }, 1, NULL, &l);
    cr_emit_options options = { .weights = CR_WEIGHTS_INSIDE, .target = t->ways & CR_TIER_OWN ? "native" : NULL };
    if (!status) options.random = cr_tier_draws(g);
    if (!status) status = build_library(l, &options, &library);
    int threads = (int)(t->ways >> CR_TIER_THREADS_AT);
    bool tunes = !status && t->ways & CR_TIER_TUNE;
    if (tunes) threads = cr_native_tune(g, library);
    show(t, threads, tunes);
    if (!status) status = cr_native_create(library, threads, NULL, &t->native);
    cr_library_release(library);
    cr_lowered_release(l);
    cr_graph_release(g);
    return status;
}

static void *run(void *user) {
    cr_tier *t = user;
    cr_status status = build(t);
    if (status) snprintf(t->reason, sizeof t->reason, "no native code: %s", cr_error_message());
    __atomic_store_n(&t->state, status ? FAILED : READY, __ATOMIC_RELEASE);
    cr_tier_release(t);
    return NULL;
}

static void start_thread(cr_tier *t) {
    pthread_t thread;
    pthread_attr_t attributes;
    t->refs = 2;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, 8 << 20);
    if (pthread_create(&thread, &attributes, run, t)) {
        drop(t, "no native code: no thread can be started");
        t->refs = 1;
    }
    pthread_attr_destroy(&attributes);
}

/* `weights` NULL: it is made with none. */
static cr_status start(const cr_graph *g, cr_tier_ways ways, const cr_frozen_input *weights, size_t n, cr_tier **out) {
    cr_tier *t = cr_calloc(1, sizeof *t);
    cr_str text;
    if (!t) return CR_ENOMEM;
    t->refs = 1;
    t->ways = ways;
    cr_str_init(&text);
    cr_graph_print(g, CR_PRINT_PLAIN, &text);
    cr_status status = cr_str_take(&text, &t->text);
    cr_str_dispose(&text);
    if (!status && weights) status = cr_frozen_take(g, weights, n, &t->frozen);
    if (status) return cr_tier_release(t), status;
    start_thread(t);
    *out = t;
    return CR_OK;
}

cr_status cr_tier_start(const cr_graph *g, cr_tier_ways ways, cr_tier **out) { return start(g, ways, NULL, 0, out); }

cr_status cr_tier_freeze(cr_tier **t, const cr_graph *g, cr_tier_ways ways, const cr_frozen_input *weights, size_t n) {
    cr_tier *next;
    uint32_t changes = *t ? (*t)->changes + 1 : 0;
    CR_TRY(start(g, ways, changes > MOST_CHANGES ? NULL : weights, n, &next));
    next->changes = changes;
    cr_tier_release(*t);
    *t = next;
    return CR_OK;
}

void cr_tier_wait(cr_tier *t) {
    while (state_of(t) == BUILDING) {
        struct timespec pause = { 0, 2000000 };
        nanosleep(&pause, NULL);
    }
}
