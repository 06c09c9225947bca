/* core.c: a graph in PyTorch's core dialect: functional, and made of the ops of a table.
 *
 * The order is that of PyTorch: composite ops become what they consist of, so that every view is known as one; then writes become
 * values, those to placeholders further outputs; what an in-place op stood for is decomposed after that. Names are given at the end, by
 * what is called, as a fresh recording would: add, add_1, getitem. */
#include "passes/internal.h"

#include <stdio.h>

/* ---- names ---- */

static cr_status name_values(cr_graph *g, const cr_node *node) {
    const cr_schema *s = &node->op->schema;
    bool parts = s->nreturns > 1 || s->varargs_returns || (s->nreturns == 1 && s->returns[0].list);
    for (uint32_t i = 0; i < node->nvalues; i++) {
        const cr_value *v = cr_graph_value(g, node->first + i);
        if (!v->hidden) CR_TRY(cr_graph_rename(g, node->first + i, parts ? "getitem" : s->name));
    }
    return CR_OK;
}

/* Names that are in the way go first, so that every value finds its own free. */
cr_status cr__graph_name_by_op(cr_graph *g) {
    char away[32];
    uint32_t k = 0;
    for (uint32_t n = cr_graph_first(g); n != CR_NO_NODE; n = cr_graph_next(g, n)) {
        const cr_node *node = cr_graph_node(g, n);
        for (uint32_t i = 0; node->kind == CR_NODE_CALL && i < node->nvalues; i++) {
            snprintf(away, sizeof away, "__%u", k++);
            CR_TRY(cr_graph_rename(g, node->first + i, away));
        }
    }
    for (uint32_t n = cr_graph_first(g); n != CR_NO_NODE; n = cr_graph_next(g, n))
        if (cr_graph_node(g, n)->kind == CR_NODE_CALL) CR_TRY(name_values(g, cr_graph_node(g, n)));
    return CR_OK;
}

/* ---- the dialect ---- */

/* The first round leaves plain views alone. */
static bool stop_at_views(const cr_op *op, void *user) {
    const cr_decomposition *how = user;
    return cr__is_plain_view(op) || how->stop(op, how->user);
}

static cr_status body_of_others(void *user, const cr_op *op, const cr_graph *g, const cr_arg *args, cr_graph **out) {
    const cr_decomposition *how = user;
    return cr__is_plain_view(op) ? CR_OK : how->body(how->user, op, g, args, out);
}

cr_status cr_pass_core(cr_pass_run *run, const cr_graph *g, const cr_decomposition *how, cr_graph **out) {
    cr_decomposition rest = *how, first = { stop_at_views, &rest, how->core, true, how->body ? body_of_others : NULL };
    cr_graph *views = NULL, *functional = NULL, *all = NULL;
    cr_status status;
    rest.keep_writes = true;
    CR_TRY_OUT(cr_pass_decompose_as(g, &first, &views));
    CR_TRY_OUT(cr_pass_functionalize(run, views, &functional));
    CR_TRY_OUT(cr_pass_decompose_as(functional, &rest, &all));
    CR_TRY_OUT(cr_pass_dce(run, all, out));
    status = cr__graph_name_by_op(*out);
    if (status) cr_graph_release(*out), *out = NULL;
out:
    cr_graph_release(views);
    cr_graph_release(functional);
    cr_graph_release(all);
    return status;
}
