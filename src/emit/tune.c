/* tune.c: with how many threads a compiled graph is quickest on this machine, found out by running it. */
#include "emit/tier.h"

#include "cresset/process.h"

#include <string.h>
#include <time.h>

enum { RUNS = 5 };

typedef struct trial {
    cr_arg *inputs, *results;
    size_t n, nresults;
} trial;

/* A tensor of zeros, laid out as the graph says; false: its sizes are open, or there is no memory. */
static bool make_zeros(const cr_meta *m, cr_arg *out) {
    int64_t bytes = 0;
    for (int d = 0; d < m->rank; d++)
        if (!cr_dim_is_plain(m->size[d]) || !cr_dim_is_plain(m->stride[d])) return false;
    cr_tensor *t = NULL;
    if (!cr_dim_is_plain(m->offset) || cr_meta_bytes(m, &bytes) || cr_tensor_create(m, &t)) return false;
    if (t->storage->bytes) memset(t->storage->data, 0, (size_t)t->storage->bytes);
    *out = (cr_arg){ .kind = CR_ARG_TENSOR, .u.t = t };
    return true;
}

static bool prepare(trial *t, const cr_graph *g) {
    t->nresults = cr_graph_result_count(g);
    for (uint32_t n = cr_graph_first(g); n != CR_NO_NODE; n = cr_graph_next(g, n))
        t->n += cr_graph_node(g, n)->kind == CR_NODE_PLACEHOLDER;
    t->inputs = cr_calloc(t->n + 1, sizeof *t->inputs);
    t->results = cr_calloc(t->nresults + 1, sizeof *t->results);
    if (!t->inputs || !t->results) return false;
    size_t i = 0;
    for (uint32_t n = cr_graph_first(g); n != CR_NO_NODE; n = cr_graph_next(g, n)) {
        const cr_node *node = cr_graph_node(g, n);
        if (node->kind != CR_NODE_PLACEHOLDER) continue;
        const cr_meta *m = cr_graph_value(g, node->first)->meta;
        if (!m || !make_zeros(m, &t->inputs[i++])) return false;
    }
    return true;
}

static void dispose(trial *t) {
    for (size_t i = 0; t->inputs && i < t->n; i++)
        if (t->inputs[i].kind == CR_ARG_TENSOR) cr_tensor_release(t->inputs[i].u.t);
    cr_free(t->inputs);
    cr_free(t->results);
}

/* The shortest of a few runs, in seconds; below 0: it fails on such inputs. */
static double time_of(const trial *t, cr_native *native) {
    double best = -1;
    for (int k = 0; k < RUNS; k++) {
        struct timespec begin, end;
        clock_gettime(CLOCK_MONOTONIC, &begin);
        if (cr_native_run(native, 0, t->inputs, t->n, t->results, t->nresults)) return -1;
        clock_gettime(CLOCK_MONOTONIC, &end);
        cr_results_release(t->results, t->nresults);
        double seconds = (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) * 1e-9;
        if (k && (best < 0 || seconds < best)) best = seconds; /* the first one makes its memory */
    }
    return best;
}

/* 1, 2, 4, ... and all of them, in turn. */
int cr_native_tune(const cr_graph *g, cr_library *library) {
    trial t = { .n = 0 };
    int all = cr_num_threads(), found = 0;
    double best = -1;
    /* on zeros a loop may never end, and a branch say nothing of the other */
    bool runs = !cr_graph_subgraph_count(g) && prepare(&t, g);
    for (int threads = 1; runs && threads < 2 * all; threads *= 2) {
        cr_native *native = NULL;
        int count = CR_MIN(threads, all);
        runs = !cr_native_create(library, count, NULL, &native);
        double seconds = runs ? time_of(&t, native) : -1;
        if (seconds >= 0 && (best < 0 || seconds < best)) best = seconds, found = count;
        cr_native_release(native);
    }
    dispose(&t);
    return found;
}
