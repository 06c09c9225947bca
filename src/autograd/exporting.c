/* exporting.c: a recorded program as one functional graph without epilogue, with gradients of its loss on request. */
#include "autograd/aot.h"
#include "autograd/aot_internal.h"
#include "autograd/path.h"
#include "autograd/regions.h"
#include "passes/passes.h"

void cr_aot_export_dispose(cr_aot_export *e) {
    cr_graph_release(e->graph);
    cr_free(e->mutated);
    cr_free(e->due);
    cr_free(e->live);
    *e = (cr_aot_export){ .graph = NULL };
}

static cr_status functionalize(const cr_graph *recorded, cr_functionalize_options *o, cr_graph **out) {
    cr_graph *g;
    CR_TRY(cr_graph_copy(recorded, &g));
    cr_status status = cr__show_statistics(&g);
    if (!status) status = cr_pass_functionalize(g, o, out);
    cr_graph_release(g);
    CR_TRY(status);
    status = cr_graph_verify(*out, CR_VERIFY_FUNCTIONAL);
    if (!status) return CR_OK;
    cr_graph_release(*out);
    *out = NULL;
    return cr_error_context(status, "this program writes memory in a way that has no functional form; write it with "
                                    "functional ops");
}

static cr_status make_functional(const cr_graph *recorded, cr_aot_export *e, cr_graph **out) {
    cr_functionalize_options o = { .mutated = e->mutated, .histories = true };
    CR_TRY(functionalize(recorded, &o, out));
    e->nmutated = (uint32_t)o.nmutated;
    return CR_OK;
}

cr_status cr_aot_functional_form(const cr_graph *recorded, bool histories, uint32_t *mutated, size_t *n,
                                 cr_graph **out) {
    cr_functionalize_options o = { .mutated = mutated, .histories = histories };
    *n = 0;
    *out = NULL;
    if (!cr_graph_verify(recorded, CR_VERIFY_FUNCTIONAL)) return CR_OK;
    CR_TRY(functionalize(recorded, &o, out));
    *n = o.nmutated;
    return CR_OK;
}

/* The graph's inputs again; the tangent of the loss is 1. */
static cr_status add_inputs(cr_aot_export *e, const cr_graph *from, uint32_t n, const cr_graph *loss_of, uint32_t loss,
                            cr_arg *given) {
    for (uint32_t i = 0; i < n; i++) CR_TRY(cr__mirror(e->graph, from, cr__input_value(from, i), &given[i]));
    if (!loss_of) return CR_OK;
    const cr_arg *result = &cr_graph_node(loss_of, cr_graph_output(loss_of))->args[loss];
    const cr_meta *m = cr_graph_value(loss_of, (uint32_t)result->u.i)->meta;
    cr_arg size[CR_MAX_RANK];
    for (int d = 0; d < m->rank; d++) size[d] = cr_arg_int(m->size[d]);
    cr_arg args[] = { cr_arg_list(size, m->rank), cr_arg_float(1), cr_arg_dtype(m->dtype) };
    return cr_emit_call(cr_graph_emitter(e->graph), "aten::full", args, 3, &given[n]);
}

/* New values of inputs, results, gradients that are due. */
static cr_status order_outputs(cr_aot_export *e, const cr_arg *made, uint32_t nresults, uint32_t ngradients) {
    cr_arg *outputs = cr_graph_alloc(e->graph, (e->nmutated + nresults + ngradients + 1u) * sizeof *outputs);
    size_t n = 0;
    if (!outputs) return CR_ENOMEM;
    for (uint32_t i = 0; i < e->nmutated; i++) outputs[n++] = made[nresults + i];
    for (uint32_t i = 0; i < nresults; i++) outputs[n++] = made[i];
    for (uint32_t i = 0; i < ngradients; i++) {
        const cr_arg *grad = &made[nresults + e->nmutated + i];
        if ((e->due[i] = grad->kind != CR_ARG_NONE)) outputs[n++] = *grad;
    }
    return cr_graph_set_output(e->graph, outputs, n);
}

static cr_status write(cr_aot_export *e, const cr_graph *from, const cr_graph *loss_of, uint32_t loss, uint32_t ninputs,
                       uint32_t nresults) {
    cr_graph *clean;
    const cr_node *output = cr_graph_node(from, cr_graph_output(from));
    cr_arg *given = cr_calloc(cr_graph_input_count(from) + 1u, sizeof *given);
    cr_arg *made = cr_calloc(output->nargs + 1u, sizeof *made);
    cr_status status = given && made ? cr_graph_create(cr_graph_env(from), &e->graph) : CR_ENOMEM;
    if (!status) status = add_inputs(e, from, ninputs, loss_of, loss, given);
    if (!status) status = cr__graph_inline(e->graph, from, given, made);
    if (!status) status = order_outputs(e, made, nresults, output->nargs - nresults - e->nmutated);
    if (!status) status = cr__drop_histories(e->graph, NULL);
    if (!status) status = cr_pass_dce(e->graph, &clean);
    if (!status) {
        cr_graph_release(e->graph);
        e->graph = clean;
    }
    cr_free(given);
    cr_free(made);
    return status;
}

/* Which results can bring a gradient; then the loss alone has a tangent. */
static cr_status differentiate(const cr_graph *functional, const bool *wrt, int64_t loss, uint32_t nresults,
                               cr_aot_export *e, cr_joint *out) {
    bool *through = cr_calloc(cr_graph_result_count(functional) + 1, sizeof *through);
    cr_status status = through ? cr_differentiate(functional, &(cr_differentiation){ .wrt = wrt }, out) : CR_ENOMEM;
    for (uint32_t i = 0; !status && i < out->ntangents; i++)
        if (out->tangent_of[i] < nresults) e->live[out->tangent_of[i]] = true;
    if (!status) cr_joint_dispose(out);
    if (!status) through[loss] = true;
    if (!status) status = cr_differentiate(functional, &(cr_differentiation){ .wrt = wrt, .through = through }, out);
    cr_free(through);
    return status;
}

cr_status cr_aot_export_graph(const cr_graph *recorded, const bool *wrt, int64_t loss, cr_aot_export *out) {
    cr_graph *functional = NULL;
    cr_joint joint = { .graph = NULL };
    uint32_t inputs = (uint32_t)cr_graph_input_count(recorded), results = (uint32_t)cr_graph_result_count(recorded);
    *out = (cr_aot_export){ .mutated = cr_calloc(inputs + 1u, sizeof *out->mutated),
                            .due = cr_calloc(inputs + 1u, sizeof *out->due),
                            .live = cr_calloc(results + 1u, sizeof *out->live) };
    cr_status status = out->mutated && out->due && out->live ? CR_OK : CR_ENOMEM;
    if (!status) status = make_functional(recorded, out, &functional);
    if (!status && loss >= 0) status = differentiate(functional, wrt, loss, results, out, &joint);
    if (!status && joint.graph && joint.ntangents)
        status = write(out, joint.graph, functional, (uint32_t)loss, inputs, results);
    else if (!status) status = write(out, functional, NULL, 0, inputs, results);
    cr_joint_dispose(&joint);
    cr_graph_release(functional);
    if (status) cr_aot_export_dispose(out);
    return status;
}
