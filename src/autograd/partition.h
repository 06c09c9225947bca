/* partition.h: a joint graph becomes a forward and a backward graph.
 *
 *     cr_parts parts;
 *     CR_TRY(cr_partition(&joint, NULL, &parts));    -- NULL: the minimum cut at budget 1
 *     parts.forward    -- (primals) -> (results, saved tensors, states of the generator, saved numbers)
 *     parts.backward   -- (saved numbers, saved tensors, states, tangents) -> gradients, NONE where none is due
 *     cr_parts_dispose(&parts);
 *
 * What the backward part reads of the forward part's values is either saved between them or computed again. Saving
 * costs bytes, computing again costs time, and one minimum cut (mincut.c) finds the choice with the least
 *
 *     time to compute again + lambda * bytes saved
 *
 * over all choices. Prices are in price.c. A larger lambda saves less and computes more: budgets below 1 are found by
 * raising it, so that the curve of bytes over budgets can only rise. Sizes that are symbols count as their hints.
 *
 * Random numbers are computed again, too: from the generator's state before they were drawn, which is saved instead of
 * them (replay.c). */
#ifndef CR_PARTITION_H
#define CR_PARTITION_H

#include "autograd/joint.h"

typedef enum cr_partitioner {
    CR_PARTITION_MIN_CUT,
    CR_PARTITION_DEFAULT, /* saves whatever the forward part computes and the backward part reads */
} cr_partitioner;

/* What the user wants of one node (checkpoint regions and their policies). */
typedef enum cr_policy {
    CR_POLICY_FREE,
    CR_POLICY_RECOMPUTE, /* its results are not saved, unless they could not be computed again */
    CR_POLICY_SAVE,      /* its results are not computed again */
} cr_policy;

typedef struct cr_partition_options {
    cr_partitioner kind;
    double budget; /* activation_memory_budget: the fraction of the bytes at 1 that may be saved, 0 to 1 */
    /* A cr_policy per node id of the joint graph, before what its checkpoint regions say; NULL: all free. */
    const uint8_t *policy;
    bool keep_draws; /* what was drawn is saved, and never drawn again */
    /* The caller may write to inputs before the backward part runs: of those without a gradient, only ones that
     * derivatives read are saved, as a tape would save them. */
    bool inputs_change;
} cr_partition_options;

/* One saved value, or one node that is computed again. Texts live as long as the parts. */
typedef struct cr_saved_value {
    const char *name, *op;
    int64_t bytes;
    bool input;
} cr_saved_value; /* input: 0 bytes */
typedef struct cr_recomputed {
    const char *name, *op;
    int64_t bytes, flops;
} cr_recomputed;

typedef struct cr_parts {
    cr_graph *forward, *backward;
    /* forward: its last outputs; backward: its first placeholders, numbers first. Order is the same in both. */
    uint32_t nresults, nsaved, nnumbers; /* states are among the saved */
    cr_arena arena;
    CR_VEC(cr_saved_value) saved;     /* tensors, in order */
    CR_VEC(uint32_t) drawn;           /* nodes of the joint graph that are drawn again, in order of their states */
    CR_VEC(cr_recomputed) recomputed; /* in the order of the joint graph; views and numbers are left out */
    int64_t saved_bytes;              /* inputs are not counted, storages once */
    int64_t forward_flops, backward_flops, recomputed_flops; /* backward: what is computed again is part of it */
    double seconds;                                          /* that computing again takes, as priced */
} cr_parts;

/* CR_EVALUE: a budget outside of [0, 1], or a forward result that depends on a tangent. On failure *out is empty. */
CR_NODISCARD cr_status cr_partition(const cr_joint *joint, const cr_partition_options *options, cr_parts *out);
void cr_parts_dispose(cr_parts *p);
/* What is saved and what is computed again, in bytes and FLOPs. */
void cr_parts_report(const cr_parts *p, cr_str *out);
void cr_parts_report_json(const cr_parts *p, cr_str *out);

/* ---- internal to src/autograd ---- */
/* price.c */
typedef struct cr_price {
    int64_t flops;       /* of products, convolutions and attention */
    int64_t picoseconds; /* to compute it again */
    bool never;          /* it must not be: another run may give another answer, or has an effect */
    bool draws;          /* random numbers: it is drawn again from the state that the generator had, which is saved */
} cr_price;
void cr__node_price(const cr_graph *g, const cr_node *node, cr_price *out);
int64_t cr__value_bytes(const cr_graph *g, uint32_t value); /* of its own memory; numbers have 8 */
/* The argument of its node whose memory the value shares; CR_NO_VALUE: it has its own. */
uint32_t cr__value_shows(const cr_graph *g, uint32_t value);
bool cr__value_is_view(const cr_graph *g, uint32_t value);

/* mincut.c: the largest flow through a network, and the smallest cut. Caller-owned. */
typedef struct cr_flow_pipe {
    uint32_t to, next;
    int64_t left;
} cr_flow_pipe;
typedef struct cr_flow {
    CR_VEC(cr_flow_pipe) edges; /* in pairs: there and back */
    uint32_t nnodes;
    uint32_t *first, *level, *at, *path; /* one block */
} cr_flow;
CR_NODISCARD cr_status cr_flow_init(cr_flow *f, uint32_t nnodes);
void cr_flow_dispose(cr_flow *f);
CR_NODISCARD cr_status cr_flow_edge(cr_flow *f, uint32_t from, uint32_t to, int64_t capacity);
/* Sum of the flow; afterwards cr_flow_needs tells the sides. */
int64_t cr_flow_run(cr_flow *f, uint32_t source, uint32_t sink);
/* Is the node on the sink's side of the smallest cut that lies nearest to the sink? */
static inline bool cr_flow_needs(const cr_flow *f, uint32_t node) { return f->level[node] != UINT32_MAX; }

/* parts.c */
typedef struct cr__choice {
    const cr_joint *joint;
    /* Per node: depends on a tangent; some forward result or effect needs it; the backward part computes it, too. */
    const bool *tangent, *forward, *again;
    const bool *saved;     /* per value */
    const cr_price *price; /* per node */
    const int64_t *bytes;  /* per value */
} cr__choice;
CR_NODISCARD cr_status cr__parts_build(const cr__choice *c, cr_parts *out);

#endif
