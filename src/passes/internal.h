/* internal.h: what the files of src/passes share beyond passes.h. */
#ifndef CR_PASSES_INTERNAL_H
#define CR_PASSES_INTERNAL_H

#include "passes/passes.h"

/* Sees each placeholder of the graph; a value in *out takes its place, CR_ARG_NONE: it stays. */
typedef cr_status cr__placeholder_fn(cr_rewriter *w, size_t index, const cr_node *node, cr_arg *out);
/* A walk with more to say than a rule. Zero fields: as in cr_rewrite. */
typedef struct cr__walk {
    cr_rewrite_fn *rule;
    void *user;
    cr__placeholder_fn *place;
    /* the rule is shown unstable calls, too: it deals with writes itself */
    bool all;
    /* values are found again by their names: what is inferred anew has its own, not the first that is free */
    bool named;
    /* for subgraphs, instead of the same rule */
    cr_status (*body)(void *user, const cr_graph *g, cr_graph **out);
    cr_status (*finish)(cr_rewriter *w, cr_arg *more, size_t *n);    /* further outputs, at most one per placeholder */
} cr__walk;
CR_NODISCARD cr_status cr__rewrite_walk(const cr_graph *g, const cr__walk *walk, cr_graph **out);
/* What an old value is in the new graph now; binding it again holds for the uses to come. */
cr_arg cr__rewrite_mapped(const cr_rewriter *w, uint32_t value);
void cr__rewrite_bind(cr_rewriter *w, uint32_t value, cr_arg to);
/* Does a node of the old graph write to the old value's memory? */
bool cr__rewrite_writes(const cr_rewriter *w, uint32_t value);

/* CR_HOLDS_SETTLED: no write is left that functionalize would write otherwise. (functionalize.c) */
CR_NODISCARD cr_status cr__check_settled(const cr_graph *g);

/* What a body of the caller's own takes: the values among the arguments, in order, lists included. The array is the
 * graph's. */
CR_NODISCARD cr_status cr__body_inputs(cr_graph *g, const cr_arg *args, size_t n, cr_arg **out, size_t *count);

/* cr_graph_call, except that a view that the strides or some sizes do not allow becomes a reshape where it may copy. */
CR_NODISCARD cr_status cr__call_or_copy(cr_graph *g, const cr_op *op, const cr_arg *args, bool may_copy,
                                        uint32_t *made);
/* The same through an emitter whose environment is general (cr_env_set_general). */
CR_NODISCARD cr_status cr__emit_general(cr_emitter *e, const cr_op *op, const cr_arg *args, cr_arg *results);

/* What packed kernels call an activation that they compute on the way out; NULL: it is none. (pack_products.c) */
const char *cr__activation(const cr_op *op, const cr_arg *args);

/* Runs the op on real tensors, whatever surrounds the caller. Results are owned: cr_results_release. */
CR_NODISCARD cr_status cr__evaluate(const cr_op *op, const cr_arg *args, cr_arg *results);

/* ---- layouts (layout.c) ---- */
/* The same strides for certain; with `ones`, wherever there is more than one element. */
bool cr__same_strides(cr_env *env, const cr_meta *a, const cr_meta *b, bool ones);
/* Is it plain or channels-last, without gaps? */
bool cr__layout_can_restore(cr_env *env, const cr_meta *was);
/* `made` in the layout that `was` has: itself (*same), a view, or a copy. */
CR_NODISCARD cr_status cr__layout_restore(cr_rewriter *w, cr_arg made, const cr_meta *was, cr_arg *out, bool *same);
/* Numbers are drawn in the memory order of what the op reads: *arg where that is in the order of `was`, else a copy
 * which is. */
CR_NODISCARD cr_status cr__layout_for_draws(cr_rewriter *w, const cr_meta *was, cr_arg *arg);
/* The functional form of an op that fills its first argument with random numbers, drawn in that argument's memory order
 * also where the functional form itself is row-major. */
CR_NODISCARD cr_status cr__layout_draw(cr_rewriter *w, const cr_op *op, const cr_arg *args, cr_arg *results);
/* What a call of the new graph gives in another layout and without other change; NULL: it does something else.
 * (channels_last.c) */
const cr_arg *cr__layout_restored(cr_rewriter *w, const cr_node *node);

#endif
