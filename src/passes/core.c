/* core.c: a graph in PyTorch's core dialect: functional, and made of the ops of a table.
 *
 * The order is that of PyTorch: composite ops become what they consist of, so that every view is known as one; then
 * writes become values, those to placeholders further outputs; what an in-place op stood for is decomposed after
 * that. */
#include "passes/internal.h"
#include "sym/shape.h"

static bool is_plain_view(const cr_op *op) {
    return op->variant == CR_FUNCTIONAL && (op->tags & CR_TAG_PLAIN_VIEW);
}

/* The first round leaves plain views alone. */
static bool stop_at_views(const cr_op *op, void *user) {
    const cr_decomposition *how = user;
    return is_plain_view(op) || how->stop(op, how->user);
}

static cr_status body_of_others(void *user, const cr_op *op, const cr_graph *g, const cr_arg *args, cr_graph **out) {
    const cr_decomposition *how = user;
    return is_plain_view(op) ? CR_OK : how->body(how->user, op, g, args, out);
}

cr_status cr_pass_core(const cr_graph *g, const cr_decomposition *how, cr_functionalize_options *o, cr_graph **out) {
    cr_decomposition rest = *how, first = { stop_at_views, &rest, how->core, true, how->body ? body_of_others : NULL };
    cr_graph *views = NULL, *functional = NULL, *all = NULL;
    cr_status status;
    cr_env *env = cr_graph_env(g);
    bool general = cr_env_set_general(env, true); /* which reshapes are views at the example decides nothing */
    cr_shape_set_traced(env, true);
    rest.keep_writes = true;
    CR_TRY_OUT(cr_pass_decompose_as(g, &first, &views));
    CR_TRY_OUT(cr_pass_functionalize(views, o, &functional));
    CR_TRY_OUT(cr_pass_decompose_as(functional, &rest, &all));
    status = cr_pass_dce(all, out);
out:
    cr_env_set_general(env, general);
    cr_shape_set_traced(env, false);
    cr_graph_release(views);
    cr_graph_release(functional);
    cr_graph_release(all);
    return status;
}
