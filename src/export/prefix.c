/* prefix.c: the beginning of a program as a program: what a node computes becomes its result.
 *
 * That is how two ways of running a program are compared inside: not by watching a run, but by running less of it.
 * State, example inputs, specs and texts stay the whole program's, which the prefix keeps alive. */
#include "export/internal.h"

static bool is_shown(const cr_value *v) { return v->type == CR_T_TENSOR && v->meta && !v->hidden; }

bool cr_program_can_end_at(const cr_program *p, uint32_t node) {
    const cr_node *n = cr_graph_node(p->graph, node);
    for (uint32_t i = 0; n->kind == CR_NODE_CALL && i < n->nvalues; i++)
        if (is_shown(cr_graph_value(p->graph, n->first + i))) return true;
    return false;
}

/* Nodes after `last` go, from the end, so that none is still used. */
static cr_status erase_after(cr_graph *g, uint32_t last) {
    uint32_t at = last;
    for (uint32_t n = last; n != CR_NO_NODE; n = cr_graph_next(g, n)) at = n;
    while (at != last) {
        uint32_t before = cr_graph_node(g, at)->prev;
        if (cr_graph_node(g, at)->kind != CR_NODE_OUTPUT) CR_TRY(cr_graph_erase(g, at));
        at = before;
    }
    return CR_OK;
}

static cr_status cut_graph(cr_program *out, const cr_graph *whole, const char *name) {
    cr_graph_release(out->graph);
    out->graph = NULL;
    CR_TRY(cr_graph_copy(whole, &out->graph));
    uint32_t value = cr_graph_find(out->graph, name);
    if (value == CR_NO_VALUE) return CR_FAIL(CR_EVALUE, "the program has no value '%s'", name);
    uint32_t last = cr_graph_value(out->graph, value)->node;
    const cr_node *n = cr_graph_node(out->graph, last);
    cr_arg *args = cr_arena_calloc(&out->arena, n->nvalues + 1u, sizeof *args);
    cr_output_spec *specs = cr_arena_calloc(&out->arena, n->nvalues + 1u, sizeof *specs);
    if (!args || !specs) return CR_ENOMEM;
    for (uint32_t i = 0; i < n->nvalues; i++) {
        const cr_value *v = cr_graph_value(out->graph, n->first + i);
        if (!is_shown(v)) continue;
        args[out->noutputs] = (cr_arg){
            .kind = CR_ARG_VALUE, .given = CR_GIVEN_POSITIONAL, .type = v->type, .u.i = n->first + i
        };
        specs[out->noutputs++] = (cr_output_spec){ .kind = CR_OUTPUT_USER, .name = v->name };
    }
    out->outputs = specs;
    CR_TRY(cr_graph_set_output(out->graph, args, out->noutputs));
    return erase_after(out->graph, last);
}

cr_status cr_program_prefix(cr_program *p, uint32_t node, cr_program **out) {
    cr_program *q;
    if (!cr_program_can_end_at(p, node))
        return CR_FAIL(CR_EVALUE, "the node gives no tensor that a program could end with");
    const cr_node *n = cr_graph_node(p->graph, node);
    uint32_t first = n->first;
    while (!is_shown(cr_graph_value(p->graph, first))) first++;
    CR_TRY(cr__program_create_on(p, &q));
    cr_status status = cut_graph(q, p->graph, cr_graph_value(p->graph, first)->name);
    if (status) cr_program_release(q);
    else *out = q;
    return status;
}
