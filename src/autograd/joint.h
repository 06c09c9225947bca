/* joint.h: a graph that computes results and their gradients, made from a recorded graph.
 *
 *     CR_TRY(cr_differentiate(g, NULL, &joint));           -- (primals, tangents) -> (results, gradients)
 *     CR_TRY(cr_partition(&joint, &how, &parts));          -- a forward and a backward graph (partition.h)
 *
 * A recorded functional graph is a tape: its nodes are walked backwards, with arrays indexed by value, and the op
 * table's .grad texts are written behind them. What has no text is decomposed before (by .train, else .decomp), where
 * it lies on a gradient path and nowhere else. Regions that only mark their body are inlined: nothing flows through one
 * that switches grad mode off, nor through detach; the others have derivatives by those of their bodies (regions.h).
 * Undefined stays undefined: no zeros are made for a result without a tangent. The joint graph is a recorded functional
 * graph itself, and may be differentiated again. */
#ifndef CR_JOINT_H
#define CR_JOINT_H

#include "graph/graph.h"

/* Nodes `first` up to (not with) `end`, by id: what a checkpoint region held, which the backward should compute again
 * instead of keeping it. */
typedef struct cr_checkpoint { uint32_t first, end; } cr_checkpoint;

/* A value of the forward part that has the history of another one: data written in no_grad(), or by detach(). */
typedef struct cr_history_of {
    uint32_t data, history;
} cr_history_of;

typedef struct cr_joint {
    cr_graph *graph;     /* functional. Placeholders: the primals, then the tangents. Outputs: the forward results, then
                          * one gradient per primal, CR_ARG_NONE where none is due */
    uint32_t nprimals, ntangents, nforward;
    uint32_t forward_nodes;         /* nodes with smaller ids are the forward's, but for the tangents' placeholders */
    uint32_t *tangent_of;           /* per tangent: the forward result that it is of */
    uint32_t *finished;             /* per primal: when a walk back has its whole gradient; later is more, 0: never */
    CR_VEC(cr_checkpoint) checkpoints;
    CR_VEC(cr_history_of) histories;
} cr_joint;
void cr_joint_dispose(cr_joint *j);

typedef struct cr_differentiation {
    const bool *wrt;     /* per primal: is its gradient due? NULL: of every one that has a floating or complex dtype */
    const bool *through; /* per result: has it a tangent, if a gradient flows through it? NULL: every one */
    bool no_grad;        /* outside of regions grad mode is off */
    bool histories;      /* what only differentiation looks at (path.h) stays: the joint is differentiated again */
} cr_differentiation;
/* `g` stays as it is; the joint graph has the same primals, and results of the same names. The forward part is the same
 * whatever `through` says. CR_EVALUE: the graph is not functional. CR_ENOTIMPL naming an op without a derivative. */
CR_NODISCARD cr_status cr_differentiate(const cr_graph *g, const cr_differentiation *how, cr_joint *out);

#endif
