/* plain.c: graphs as they are become methods.
 *
 * A plain graph is lowered as a program whose signature says nothing: every placeholder is an input, every output a
 * result. What makes a weight live is left to the host: it hands over the tensor's memory with each run, as it is then,
 * so that what trains, moves or replaces weights between runs is seen by the next one. */
#include "lower/tables.h"

static size_t count_inputs(const cr_graph *g) {
    size_t n = 0;
    for (uint32_t id = cr_graph_first(g); id != CR_NO_NODE; id = cr_graph_next(g, id))
        n += cr_graph_node(g, id)->kind == CR_NODE_PLACEHOLDER;
    return n;
}

/* Symbolic sizes are checked when a run binds them. */
static cr_status check_live(const cr_value *v, const cr_tensor *t) {
    const cr_meta *m = v->type == CR_T_TENSOR ? v->meta : NULL;
    bool fits = m && m->dtype == t->meta.dtype && m->rank == t->meta.rank && !cr_tensor_is_fake(t);
    for (int d = 0; fits && d < m->rank; d++) fits = !cr_dim_is_plain(m->size[d]) || m->size[d] == t->meta.size[d];
    if (fits) return CR_OK;
    return CR_FAIL(CR_EVALUE, "the live tensor for '%s' has other sizes or another dtype than the graph, or no data",
                   v->name);
}

static cr_status add_live(cr_lowered *l, int32_t method, int32_t input, const cr_value *v, cr_tensor *t) {
    CR_TRY(check_live(v, t));
    CR_TRY(cr_vec_push(&l->live, (cr_live_input){ method, input, t }));
    cr_tensor_retain(t);
    return CR_OK;
}

static cr_status sign_inputs(cr_lowered *l, const cr_lower_graph *from, int32_t method, cr_program *p) {
    p->ninputs = count_inputs(from->graph);
    cr_input_spec *specs = cr_arena_calloc(&l->arena, p->ninputs + 1, sizeof *specs);
    if (!specs) return CR_ENOMEM;
    int32_t i = 0;
    for (uint32_t id = cr_graph_first(from->graph); id != CR_NO_NODE; id = cr_graph_next(from->graph, id)) {
        const cr_node *node = cr_graph_node(from->graph, id);
        if (node->kind != CR_NODE_PLACEHOLDER) continue;
        specs[i] = (cr_input_spec){ .kind = CR_INPUT_USER, .name = node->target };
        cr_tensor *t = from->live ? from->live[i] : NULL;
        if (t) CR_TRY(add_live(l, method, i, cr_graph_value(from->graph, node->first), t));
        i++;
    }
    p->inputs = specs;
    return CR_OK;
}

/* The graph as a program of the arena's: nobody retains or releases it. */
static cr_status sign(cr_lowered *l, const cr_lower_graph *from, int32_t method, cr_program **out) {
    if (cr_graph_output(from->graph) == CR_NO_NODE) return CR_FAIL(CR_EVALUE, "the graph has no output yet");
    cr_program *p = cr_arena_calloc(&l->arena, 1, sizeof *p);
    size_t n = cr_graph_node(from->graph, cr_graph_output(from->graph))->nargs;
    cr_output_spec *results = cr_arena_calloc(&l->arena, n + 1, sizeof *results); /* zero: a user's */
    if (!p || !results) return CR_ENOMEM;
    p->graph = from->graph;
    p->name = from->name ? from->name : "forward";
    p->outputs = results, p->noutputs = n;
    *out = p;
    return sign_inputs(l, from, method, p);
}

static cr_status lower(cr_lowered *l, const cr_lower_graph *graphs, size_t n, const cr_lower_options *options) {
    cr_lower_options how = options ? *options : (cr_lower_options){ .names = NULL };
    cr_program **programs = cr_arena_calloc(&l->arena, n, sizeof *programs);
    const char **names = cr_arena_calloc(&l->arena, n, sizeof *names);
    if (!programs || !names) return CR_ENOMEM;
    CR_TRY(cr_region_ops_init());
    for (size_t i = 0; i < n; i++) {
        CR_TRY(cr_vec_push(&l->graphs, graphs[i].graph));
        cr_graph_retain(graphs[i].graph);
        CR_TRY(sign(l, &graphs[i], (int32_t)i, &programs[i]));
        names[i] = programs[i]->name;
    }
    how.names = names;
    return cr__lower(l, programs, n, &how);
}

cr_status cr_lower_graphs(const cr_lower_graph *graphs, size_t n, const cr_lower_options *options, cr_lowered **out) {
    cr_lowered *l;
    if (!n) return CR_FAIL(CR_EVALUE, "there is no graph to lower");
    CR_TRY(cr__lowered_create(&l));
    cr_status status = lower(l, graphs, n, options);
    if (status) return cr_lowered_release(l), status;
    *out = l;
    return CR_OK;
}

void cr_lowered_bind(const cr_lowered *l, int32_t method, cresset_value *inputs) {
    for (size_t i = 0; i < l->live.n; i++) {
        const cr_live_input *live = &l->live.at[i];
        if (live->method != method) continue;
        const cr_tensor *t = live->tensor;
        inputs[live->input] = (cresset_value){ .struct_size = sizeof *inputs,
                                               .kind = CRESSET_TENSOR,
                                               .dtype = t->meta.dtype,
                                               .rank = t->meta.rank,
                                               .data = cr_tensor_view(t).p,
                                               .size = t->meta.size,
                                               .stride = t->meta.stride };
    }
}
