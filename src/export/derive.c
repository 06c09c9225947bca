/* derive.c: a program with another graph.
 *
 * State, example inputs, specs and texts stay the old program's, which the new one keeps alive; placeholders are the
 * same in the same order. What the new graph gives beyond the old outputs are new values of placeholders: they go to
 * the front, as PyTorch has them, with rows of the signature that say whose they are. */
#include "export/internal.h"
#include "sym/shape.h"

#include <stdio.h>

cr_output_spec cr__mutation_of(const cr_input_spec *in) {
    cr_output_spec s = { .kind = CR_OUTPUT_INPUT_MUTATION, .target = in->name };
    if (in->kind == CR_INPUT_PARAMETER) s.kind = CR_OUTPUT_PARAMETER_MUTATION;
    if (in->kind == CR_INPUT_BUFFER) s.kind = CR_OUTPUT_BUFFER_MUTATION;
    if (in->kind != CR_INPUT_USER) s.target = in->target;
    return s;
}

static const char *value_name(const cr_program *q, const cr_arg *a) {
    return a->kind == CR_ARG_VALUE ? cr__shown_name(q->graph, (uint32_t)a->u.i) : NULL;
}

static cr_status set_outputs(cr_program *q, const cr_program *p, const uint32_t *mutated, size_t nmutated) {
    const cr_node *output = cr_graph_node(q->graph, cr_graph_output(q->graph));
    size_t n = output->nargs, old = n - nmutated;
    if (n < nmutated || old != p->noutputs)
        return CR_FAIL(CR_EVALUE, "the graph gives %zu results and %zu new values, the program has %zu results", old,
                       nmutated, p->noutputs);
    cr_output_spec *specs = cr_arena_calloc(&q->arena, n + 1, sizeof *specs);
    cr_arg *args = cr_arena_calloc(&q->arena, n + 1, sizeof *args);
    if (!specs || !args) return CR_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        bool is_new = i < nmutated;
        args[i] = output->args[is_new ? old + i : i - nmutated];
        specs[i] = is_new ? cr__mutation_of(&p->inputs[mutated[i]]) : p->outputs[i - nmutated];
        specs[i].name = value_name(q, &args[i]);
    }
    q->outputs = specs, q->noutputs = n;
    return cr_graph_set_output(q->graph, args, n);
}

/* A program with another graph, which keeps the old one alive, and everything of it. */
static cr_status begin(cr_program *p, cr_graph *graph, cr_program **out) {
    cr_program *q;
    CR_TRY(cr__program_create_on(p, &q));
    cr_graph_release(q->graph);
    cr_graph_retain(q->graph = graph);
    q->example_problem = p->example_problem, q->out_spec = p->out_spec;
    q->unsupported = p->unsupported, q->nunsupported = p->nunsupported;
    q->schema_major = p->schema_major, q->schema_minor = p->schema_minor, q->opset = p->opset;
    cr_module_call *calls = cr_arena_calloc(&q->arena, p->ncalls + 1, sizeof *calls);
    for (size_t i = 0; calls && i < p->ncalls; i++) {
        calls[i] = p->calls[i];
        if (calls[i].in_spec) cr_tree_retain(calls[i].in_spec);
        if (calls[i].out_spec) cr_tree_retain(calls[i].out_spec);
    }
    q->calls = calls, q->ncalls = calls ? p->ncalls : 0;
    if (!calls) return cr_program_release(q), CR_ENOMEM;
    *out = q;
    return CR_OK;
}

/* Does a call of the graph give this symbol, as a size or as a number? */
static bool introduces(const cr_graph *g, cr_sym symbol) {
    cr_env *env = cr_graph_env(g);
    for (uint32_t i = 0; i < cr_graph_value_count(g); i++) {
        const cr_value *v = cr_graph_value(g, i);
        if (v->node == CR_NO_NODE) continue;
        if (v->expr == symbol) return true;
        for (int d = 0; v->meta && d < v->meta->rank; d++)
            if (!cr_dim_is_plain(v->meta->size[d]) && cr_dim_sym(env, v->meta->size[d]) == symbol) return true;
    }
    for (size_t i = 0; i < cr_graph_subgraph_count(g); i++)
        if (introduces(cr_graph_subgraph(g, i), symbol)) return true;
    return false;
}

/* A call that gave a plain number may give one that depends on data when it is made again (PyTorch knows more of some
 * ops); archives declare every symbol. */
static cr_status add_ranges(cr_program *q) {
    cr_env *env = cr_graph_env(q->graph);
    size_t n = env ? cr_env_unbacked_count(env) : 0;
    cr_symbol_range *ranges = cr_arena_calloc(&q->arena, q->nranges + n + 1, sizeof *ranges);
    if (!ranges) return CR_ENOMEM;
    if (q->nranges) memcpy(ranges, q->ranges, q->nranges * sizeof *ranges);
    size_t count = q->nranges;
    for (size_t i = 0; i < n; i++) {
        cr_sym symbol = cr_env_unbacked(env, i);
        if (cr__range_of(q, cr_sym_name(symbol)) || !introduces(q->graph, symbol)) continue;
        cr_range any = { INT64_MIN, INT64_MAX };
        const char *name = cr_arena_strdup(&q->arena, cr_sym_name(symbol));
        if (!name) return CR_ENOMEM;
        ranges[count++] = (cr_symbol_range){ name, cr_sym_type_of(symbol) == CR_TYPE_FLOAT
                                                       ? any
                                                       : cr_sym_range(env, symbol) };
    }
    q->ranges = ranges, q->nranges = count;
    return CR_OK;
}

cr_status cr_program_derive(cr_program *p, cr_graph *graph, const uint32_t *mutated, size_t nmutated,
                            const char *dialect, cr_program **out) {
    cr_program *q;
    CR_TRY(begin(p, graph, &q));
    bool named = !dialect || (q->dialect = cr_arena_strdup(&q->arena, dialect));
    cr_status status = named ? set_outputs(q, p, mutated, nmutated) : CR_ENOMEM;
    if (!status) status = add_ranges(q);
    if (status) cr_program_release(q);
    else *out = q;
    return status;
}

/* ---- other tensors ---- */

static void describe(const cr_meta *m, bool strides, cr_str *out) {
    cr_str_addf(out, "%s ", cr_dtype_name(m->dtype));
    cr_shape_print(NULL, m->rank, m->size, out);
    if (strides) cr_str_add(out, " with strides "), cr_shape_print(NULL, m->rank, m->stride, out);
}

static cr_status refuse_tensor(const char *name, const cr_meta *have, const cr_meta *want) {
    bool strides = have->dtype == want->dtype && have->rank == want->rank &&
                   !memcmp(have->size, want->size, want->rank * sizeof *want->size);
    cr_str is, was;
    cr_str_init(&is);
    cr_str_init(&was);
    describe(have, strides, &is);
    describe(want, strides, &was);
    cr_status status = CR_FAIL(CR_EVALUE,
                               "'%s' is %s; the program was exported with %s: convert the tensor, or export again",
                               name, cr_str_get(&is), cr_str_get(&was));
    cr_str_dispose(&is);
    cr_str_dispose(&was);
    return status;
}

static cr_status check_fit(const char *name, const cr_tensor *t, const cr_meta *want) {
    const cr_meta *have = &t->meta;
    bool same = !cr_tensor_is_fake(t) && have->dtype == want->dtype && have->rank == want->rank &&
                have->device.type == want->device.type;
    for (int d = 0; same && d < want->rank; d++)
        same = have->size[d] == want->size[d] && (want->size[d] < 2 || have->stride[d] == want->stride[d]);
    return same ? CR_OK : refuse_tensor(name, have, want);
}

/* The tensors of `all` with those of these names replaced, in q's memory. */
static cr_status replace_tensors(cr_program *q, const cr_named_tensor **all, size_t n, const cr_named_tensor *others,
                                 size_t nothers) {
    cr_named_tensor *copy = cr_arena_copy(&q->arena, *all, (n + 1) * sizeof *copy);
    if (!copy) return CR_ENOMEM;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < nothers; k++) {
            if (strcmp(copy[i].name, others[k].name)) continue;
            CR_TRY(check_fit(copy[i].name, others[k].tensor, &copy[i].tensor->meta));
            CR_TRY(cr_vec_push(&q->replaced, others[k].tensor));
            cr_tensor_retain(copy[i].tensor = others[k].tensor);
            CR_TRY(cr_map_put_str(&q->names, copy[i].name, (uint64_t)(uintptr_t)&copy[i]));
        }
    *all = copy;
    return CR_OK;
}

cr_status cr_program_with_tensors(cr_program *p, const cr_named_tensor *others, size_t n, cr_program **out) {
    cr_program *q;
    for (size_t i = 0; i < n; i++)
        if (!cr_program_tensor(p, others[i].name))
            return CR_FAIL(CR_ENOTFOUND, "the program has no parameter, buffer or constant '%s'", others[i].name);
    CR_TRY(begin(p, p->graph, &q));
    q->outputs = p->outputs, q->noutputs = p->noutputs;
    q->metadata = p->metadata;
    if (p->archive) cr_zip_retain(q->archive = p->archive);
    cr_status status = replace_tensors(q, &q->state, p->nstate, others, n);
    if (!status) status = replace_tensors(q, &q->constants, p->nconstants, others, n);
    if (status) cr_program_release(q);
    else *out = q;
    return status;
}

/* Parts of results that nobody takes have no name in Python; in archives they are called after the call. */
static cr_status name_unused(cr_graph *g) {
    char name[160];
    uint32_t *uses = cr_calloc(cr_graph_value_count(g) + 1, sizeof *uses);
    if (!uses) return CR_ENOMEM;
    cr_graph_count_uses(g, uses);
    cr_status status = CR_OK;
    for (uint32_t id = cr_graph_first(g); id != CR_NO_NODE && !status; id = cr_graph_next(g, id)) {
        const cr_node *node = cr_graph_node(g, id);
        if (node->kind != CR_NODE_CALL || node->op->schema.nreturns < 2) continue;
        for (uint32_t i = 0; i < node->nvalues && !status; i++) {
            if (uses[node->first + i] || cr_graph_value(g, node->first + i)->hidden) continue;
            snprintf(name, sizeof name, "%s_unused_%u", node->target ? node->target : node->op->schema.name, i);
            status = cr_graph_rename(g, node->first + i, name);
        }
    }
    cr_free(uses);
    return status;
}

/* As a fresh recording would: add, add_1, getitem. */
static cr_status name_values(cr_graph *graph) {
    for (size_t i = 0; i < cr_graph_subgraph_count(graph); i++) CR_TRY(name_values(cr_graph_subgraph(graph, i)));
    CR_TRY(cr__name_values(graph, NULL));
    return name_unused(graph);
}

cr_status cr_program_decompose(cr_program *p, const cr_decomposition *how, cr_program **out) {
    cr_graph *graph = NULL;
    cr_functionalize_options writes = { .replay = true };
    cr_status status;
    if (p->nunsupported)
        return CR_FAIL(CR_EUNSUPPORTED, "%s has no row here, so the program cannot be decomposed", p->unsupported[0]);
    if (!(writes.mutated = cr_calloc(p->ninputs + 1, sizeof *writes.mutated))) return CR_ENOMEM;
    pthread_mutex_lock(cr_program_lock(p));
    status = cr_pass_core(p->graph, how, &writes, &graph);
    pthread_mutex_unlock(cr_program_lock(p));
    if (!status) status = name_values(graph);
    if (!status) status = cr_program_derive(p, graph, writes.mutated, writes.nmutated, "ATEN", out);
    cr_graph_release(graph);
    cr_free(writes.mutated);
    return status;
}
