/* writes.h: what a graph writes. The one answer for passes, lowering, modules, bodies of regions and differentiation.
 *
 *     cr_writes w;
 *     CR_TRY(cr_writes_find(g, CR_SHARING_KNOWN, &w));
 *     if (cr_writes_to(&w, value)) ...         -- some node of the graph writes to the value's memory
 *     cr_writes_dispose(&w);
 *
 * A call writes what its schema marks (a!), custom operators included; the running statistics of the norms that update
 * them while they train, which their schemas do not mark (CR_TAG_STATISTICS); and, if it is a region, the operands
 * whose placeholders its body writes. Memory is what counts: a write through one view is a write to all that share
 * it. */
#ifndef CR_WRITES_H
#define CR_WRITES_H

#include "graph/graph.h"

/* Who shares memory with whom. */
typedef enum cr_sharing {
    CR_SHARING_KNOWN,   /* the metas' storages say it: graphs that were recorded, inferred or made by passes */
    /* as soon as an op may hand on an argument's memory, too: archives do not say what shares memory */
    CR_SHARING_POSSIBLE,
} cr_sharing;

/* elements; sizes, strides or storage of the tensor itself (t_, resize_, set_) */
enum { CR_WRITE_DATA = 1, CR_WRITE_META = 2 };

/* One written argument of one call. Of a call that writes several values there are several. */
typedef struct cr_write { uint32_t node, value; uint8_t kinds; } cr_write;

typedef struct cr_writes {
    CR_VEC(cr_write) all;  /* in the order of the nodes */
    uint32_t *place;       /* per node id: its place in that order, from 1 on; NULL: nothing is written */
    uint32_t *memory;      /* per value: the value that stands for all that share its memory */
    uint32_t *last;        /* per such value: place of the last node that writes it; 0: none */
    uint8_t *kinds;        /* per such value */
} cr_writes;

/* Linear in the graph; next to nothing where it writes nothing. The graph must not be edited while the answer is used.
 * On failure (CR_ENOMEM) *out is empty; disposing of it is legal either way. */
CR_NODISCARD cr_status cr_writes_find(const cr_graph *g, cr_sharing sharing, cr_writes *out);
void cr_writes_dispose(cr_writes *w);

/* Does some node write the value's memory? The kinds of all such writes, 0: never. */
static inline int cr_writes_to(const cr_writes *w, uint32_t value) { return w->place ? w->kinds[w->memory[value]] : 0; }
/* Does a node that comes after `node` write it? */
static inline bool cr_writes_after(const cr_writes *w, uint32_t value, uint32_t node) {
    return w->place && w->last[w->memory[value]] > w->place[node];
}

/* ---- one call ---- */
/* By its schema alone, arguments unseen. */
bool cr_op_writes(const cr_op *op);
/* By these arguments, though the schema does not mark it. */
bool cr_op_updates_statistics(const cr_op *op, const cr_arg *args);
/* Does any call of the graph? */
bool cr_graph_writes(const cr_graph *g);
/* Anything: marked, statistics, or memory of its own or an operand's inside a region. */
bool cr_node_writes(const cr_node *node);
/* Sees each tensor value whose memory the call writes, lists included. */
typedef cr_status cr_write_fn(void *user, const cr_node *node, uint32_t value, int kinds);
CR_NODISCARD cr_status cr_node_visit_writes(const cr_graph *g, const cr_node *node, cr_sharing sharing, cr_write_fn *fn,
                                            void *user);

/* Nothing is written, drawn, checked or found out: the same arguments give the same results. Of a call: sizes that
 * depend on data are known for this one (index by integers). */
bool cr_op_is_pure(const cr_op *op);
bool cr_node_is_pure(const cr_graph *g, const cr_node *node);
/* It draws random numbers, and is pure but for that: from the same state of the generator it gives the same results. */
bool cr_node_only_draws(const cr_graph *g, const cr_node *node);
/* The first op that draws, in the graph or in a body of its regions; NULL: none. */
const cr_op *cr_graph_draws(const cr_graph *g);

#endif
