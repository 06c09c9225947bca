/* freeze.c: parameters and buffers that no run changes become constants of the graph.
 *
 * Who freezes knows which placeholders those may be (a program's signature says so); a graph that writes to one in
 * place says otherwise. From here on "constant" is one thing for every pass: a get_attr node on a real tensor, whose
 * memory is the archive's own until something is computed from it. */
#include "passes/internal.h"

/* Tensors that share memory with one that is written change with it. */
static void keep_written(cr_rewriter *w) {
    cr_pass_run *run = cr__rewrite_run(w);
    const cr_graph *g = cr_rewrite_source(w);
    size_t i = 0;
    for (uint32_t n = cr_graph_first(g); n != CR_NO_NODE && i < run->nfrozen; n = cr_graph_next(g, n)) {
        const cr_node *node = cr_graph_node(g, n);
        if (node->kind != CR_NODE_PLACEHOLDER) continue;
        const cr_storage *written = run->frozen[i] && cr__rewrite_writes(w, node->first) ? run->frozen[i]->storage
                                                                                         : NULL;
        for (size_t k = 0; written && k < run->nfrozen; k++)
            if (run->frozen[k] && run->frozen[k]->storage == written) run->frozen[k] = NULL;
        i++;
    }
}

static cr_status place(cr_rewriter *w, size_t index, const cr_node *node, cr_arg *out) {
    const cr_pass_run *run = cr__rewrite_run(w);
    if (!index) keep_written(w);
    if (index >= run->nfrozen || !run->frozen[index]) return CR_OK;
    return cr_rewrite_add_constant(w, run->names && run->names[index] ? run->names[index] : node->target,
                                   run->frozen[index], out);
}

static cr_status body(cr_pass_run *run, const cr_graph *g, cr_graph **out) {
    return cr_rewrite(run, g, NULL, NULL, out);
}

cr_status cr_pass_freeze(cr_pass_run *run, const cr_graph *g, cr_graph **out) {
    return cr__rewrite_walk(run, g, &(cr__walk){ .place = place, .body = body }, out);
}
