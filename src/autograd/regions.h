/* regions.h: derivatives of calls with bodies (cond, while_loop, map, scan, autograd.Function), for path.c and
 * differentiate.c.
 *
 * A body is a recorded functional graph, so it has a joint graph of its own, and nested bodies have theirs. The forward
 * part calls the region as it was, or with more results where the backward needs what happened in each step; the
 * backward part calls a region whose bodies are the backward parts:
 *
 * - cond: the branch that was taken, on the operands and gradients. It computes again what it needs of the forward, and
 *   draws again from the state that the generator had (replay.c).
 * - map, scan: from the last slice to the first. What is saved of each step (one minimum cut of the body's joint graph
 *   says what) is stacked by the forward; gradients of what all steps share are carried and added to.
 * - while_loop: the forward counts its steps; the backward repeats that many as a scan, and goes back along it. Where
 *   they draw, the scan carries the generator's state, beginning with the forward's, and puts it back after each step.
 * - associative_scan: a scan from its first slice on.
 * - cresset::function: its backward was recorded with it, and takes its place. */
#ifndef CR_AUTOGRAD_REGIONS_H
#define CR_AUTOGRAD_REGIONS_H

#include "autograd/path.h"

/* What the backward of a step reads of the forward: a value of the body's joint graph. */
typedef struct cr__kept {
    uint32_t value;
    int32_t primal; /* it is that input of the body; -1: none */
    cr_arg stack;   /* of all steps, where the forward made one; NONE: the operand itself */
} cr__kept;

struct cr__region {
    uint32_t node;         /* the call, in the joint graph */
    const cr_op *op;
    uint8_t kind;          /* cr_region_kind */
    cr_graph *body[2];     /* as they were recorded; borrowed */
    cr_arg *operands;      /* what the bodies take, in order */
    uint32_t noperands;
    bool *wrt;             /* per operand: does a gradient flow back to it? */
    cr_arg *results;       /* values, in order */
    uint32_t nresults;
    bool *live;            /* per result: can it bring a gradient? */
    cr_arg condition;      /* COND */
    cr_arg state;          /* COND, WHILE: the generator's state before, where a body draws; else NONE */
    uint32_t ncarried, nslices; /* the first operands */
    bool *saved;           /* SCAN: per value of the body's joint graph */
    CR_VEC(cr__kept) kept; /* SCAN: numbers, then tensors, as the body's backward part takes them */
    cr_arg counter;        /* WHILE: how many steps there were, a tensor */
};

/* Has the call a derivative by its bodies? */
bool cr__region_derives(const cr_op *op);
/* Calls the region in the joint graph; `args` are values of it. The region is kept in p->regions. */
CR_NODISCARD cr_status cr__region_forward(cr__path *p, const cr_graph *from, const cr_node *node, const cr_arg *args,
                                          cr__region **out);
/* grads: per result, NONE where there is none. made: per operand, likewise. */
CR_NODISCARD cr_status cr__region_backward(cr__path *p, cr__region *r, const cr_arg *grads, cr_arg *made);
void cr__region_release(cr__region *r);

/* ---- shared by region.c and sweep.c ---- */
CR_NODISCARD cr_status cr__sweep_forward(cr__path *p, cr__region *r);
CR_NODISCARD cr_status cr__sweep_backward(cr__path *p, cr__region *r, const cr_arg *grads, cr_arg *made);
CR_NODISCARD cr_status cr__loop_forward(cr__path *p, cr__region *r);
CR_NODISCARD cr_status cr__loop_backward(cr__path *p, cr__region *r, const cr_arg *grads, cr_arg *made);
CR_NODISCARD cr_status cr__fold_forward(cr__path *p, cr__region *r);
/* Which results can bring a gradient for r->wrt. What is carried takes its gradient along: wrt grows by it. */
CR_NODISCARD cr_status cr__region_flows(cr__region *r, const cr_graph *body);
/* A placeholder like value `v` of `from`, with memory of its own. */
CR_NODISCARD cr_status cr__mirror(cr_graph *to, const cr_graph *from, uint32_t v, cr_arg *out);
/* The last step of a body: results are dense, with memory of their own; what nobody reads goes. */
CR_NODISCARD cr_status cr__body_finish(cr_graph *g, cr_arg *outputs, size_t n, const char *name, cr_graph **out);
/* Appends a call of a region, whose bodies become the joint graph's. */
CR_NODISCARD cr_status cr__region_call(cr__path *p, const cr_op *op, const cr_arg *args, cr_graph *const *bodies,
                                       size_t nbodies, uint32_t *node);
CR_NODISCARD cr_status cr__zeros_like(cr_emitter *e, const cr_arg *a, cr_arg *out);
/* The i-th placeholder's value. */
uint32_t cr__input_value(const cr_graph *g, uint32_t i);

#endif
