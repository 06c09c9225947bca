/* freeze.c: parameters and buffers that no run changes become constants of the graph.
 *
 * Who freezes knows which placeholders those may be (a program's signature says so); a graph that writes to one in
 * place says otherwise. From here on "constant" is one thing for every pass: a get_attr node on a real tensor, whose
 * memory is the archive's own until something is computed from it. */
#include "passes/internal.h"

/* Tensors that share memory with one that is written change with it. */
static void keep_written(cr_rewriter *w) {
    cr_freeze_options *o = cr_rewrite_user(w);
    const cr_graph *g = cr_rewrite_source(w);
    size_t i = 0;
    for (uint32_t n = cr_graph_first(g); n != CR_NO_NODE && i < o->n; n = cr_graph_next(g, n)) {
        const cr_node *node = cr_graph_node(g, n);
        if (node->kind != CR_NODE_PLACEHOLDER) continue;
        const cr_storage *written = o->tensors[i] && cr__rewrite_writes(w, node->first) ? o->tensors[i]->storage
                                                                                         : NULL;
        for (size_t k = 0; written && k < o->n; k++)
            if (o->tensors[k] && o->tensors[k]->storage == written) o->tensors[k] = NULL;
        i++;
    }
}

static cr_status place(cr_rewriter *w, size_t index, const cr_node *node, cr_arg *out) {
    const cr_freeze_options *o = cr_rewrite_user(w);
    if (!index) keep_written(w);
    if (index >= o->n || !o->tensors[index]) return CR_OK;
    return cr_rewrite_add_constant(w, o->names && o->names[index] ? o->names[index] : node->target,
                                   o->tensors[index], out);
}

static cr_status body(void *user, const cr_graph *g, cr_graph **out) {
    (void)user;
    return cr_pass_dce(g, out);
}

cr_status cr_pass_freeze(const cr_graph *g, cr_freeze_options *o, cr_graph **out) {
    return cr__rewrite_walk(g, &(cr__walk){ .user = o, .place = place, .body = body }, out);
}
