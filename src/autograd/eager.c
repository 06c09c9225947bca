/* eager.c: programs that no functional code stands for are called as they were recorded, call by call on the eager
 * tape: what they do is what eager code does, because it is what eager code does. See aot.h. */
#include "autograd/aot_internal.h"

cr_status cr_aot_replay(const cr_recorded *r, const char *why, cr_aot **out) {
    cr_aot *a = cr_calloc(1, sizeof *a);
    uint32_t n = (uint32_t)cr_graph_result_count(r->graph);
    if (!a) return CR_ENOMEM;
    a->refs = 1;
    a->meta.ninputs = (uint32_t)cr_graph_input_count(r->graph);
    a->meta.noutputs = n;
    a->is_input = cr_alloc((n + 1u) * sizeof *a->is_input);
    a->meta.why = cr_alloc(strlen(why) + 1);
    cr_status status = a->is_input && a->meta.why ? CR_OK : CR_ENOMEM;
    if (!status) memcpy(a->meta.why, why, strlen(why) + 1);
    for (uint32_t i = 0; i < n && !status; i++) a->is_input[i] = r->is_input ? r->is_input[i] : -1;
    if (!status) status = cr_region_ops_init();
    if (!status) status = cr_plan_create(r->graph, &a->replay);
    if (status) return cr_aot_release(a), status;
    *out = a;
    return CR_OK;
}

cr_status cr__aot_run_replay(cr_aot *a, const cr_arg *inputs, size_t n, cr_arg *results) {
    CR_TRY(cr_plan_run(a->replay, inputs, n, results, a->meta.noutputs));
    for (uint32_t i = 0; i < a->meta.noutputs; i++) {
        if (a->is_input[i] < 0) continue;
        cr_results_release(&results[i], 1);
        results[i] = inputs[a->is_input[i]];
        cr_tensor_retain(results[i].u.t);
    }
    return CR_OK;
}
