/* cut.h: a joint graph cut in two at values that are saved, for aot.c. */
#ifndef CR_AUTOGRAD_CUT_H
#define CR_AUTOGRAD_CUT_H

#include "autograd/partition.h"

typedef struct cr_cut {
    cr_graph *forward;        /* (primals) -> (results, saved tensors that are no primals, states, saved numbers) */
    uint32_t nsaved, nnumbers;
    uint32_t nmade;           /* saved tensors that the forward part gives besides its results */
    int32_t *primal;          /* per saved tensor: the primal that it is; -1: none */
    int32_t *result;          /* per saved tensor: the result in whose memory it lies, after cr__cut_share; -1: none */
    bool *given;              /* per saved tensor: the forward part gives it as one of `nmade` */
} cr_cut;
void cr_cut_dispose(cr_cut *c);
/* The forward part gives each tensor once: saved ones that are among its results are taken from there, so that a write
 * to a result is a write to what was saved, whatever the compiler makes of the graph. */
CR_NODISCARD cr_status cr__cut_share(cr_cut *c, uint32_t nresults);
/* saved: per value of the joint graph. drawn: per node, is it drawn again from a state that counts as one more saved
 * tensor? NULL: none is. */
CR_NODISCARD cr_status cr__cut_forward(const cr_joint *j, const bool *saved, const bool *drawn, cr_cut *out);
/* (saved numbers, saved tensors, states, tangents) -> one gradient per primal, NONE where none is due. CR_EVALUE: it
 * needs a value that was neither saved nor can be computed again. */
CR_NODISCARD cr_status cr__cut_backward(const cr_joint *j, const bool *saved, const bool *drawn, cr_graph **out);
/* An input of a part, in a memory of its own: two that shared one in the joint graph need not when the part runs, code
 * that was made of the other part gives them apart. */
CR_NODISCARD cr_status cr__cut_placeholder(cr_graph *to, const cr_value *value, uint32_t *made);
/* The node's values as they are in `to`: views lie in the memory of what they show there. map: per value of `from`. */
CR_NODISCARD cr_status cr__cut_values(const cr_graph *from, const cr_node *node, cr_graph *to, const cr_arg *map,
                                      cr_value **out);
/* Sets the bits of the forward part's values that gradients are computed from; with `metas`, of those too whose sizes
 * alone are read. */
CR_NODISCARD cr_status cr__cut_reads(const cr_joint *j, bool metas, bool *reads);
/* Adds what the backward part needs besides to compute again what is not saved: primals, and what must not be computed
 * twice. */
CR_NODISCARD cr_status cr__cut_complete(const cr_joint *j, const bool *drawn, bool *saved);
/* Sets the bits of the values that the partition saves and of nodes that it draws again (drawn NULL: none may be), and
 * of what cr__cut_complete adds. What it saves of the
 * backward part's own, because no tangent is needed for it, is computed there. */
CR_NODISCARD cr_status cr__cut_choose(const cr_joint *j, const cr_partition_options *how, bool *drawn, bool *saved);

/* ---- replay.c ---- */
/* The generator's state; with `state` it goes on from there, and *out is where it was. */
CR_NODISCARD cr_status cr__random_state(cr_graph *g, const cr_arg *state, cr_arg *out);
/* A placeholder for the state that the value of that name was drawn from. */
CR_NODISCARD cr_status cr__state_input(cr_graph *g, const char *drawn, cr_arg *out);

#endif
