/* rows.h: what can be part of a row kernel, and over which loops. Shared by the pass that forms groups (fuse.c) and by
 * the lowering that turns a group into loops (lower/rows.h).
 *
 * A group has a *domain*: a set of axes. Every dimension of every value in it is one of these axes, or has one element.
 * Axes are found by unification: a pointwise op ties the dimensions it aligns, a view renames them, a reduction ends
 * some. All reductions of a group end the same axes, which are then a row's. */
#ifndef CR_PASSES_ROWS_H
#define CR_PASSES_ROWS_H

#include "graph/graph.h"
#include "ops/scalar.h"

typedef enum cr_rows_kind {
    CR_ROWS_NONE,      /* stays outside */
    CR_ROWS_POINTWISE, /* a block program, all of whose instructions row kernels have */
    CR_ROWS_COPY,      /* clone, a cast */
    CR_ROWS_REDUCE,    /* sum, mean, amax, amin */
    CR_ROWS_NORM,      /* softmax, layer_norm, var: decomposes to the kinds above */
    CR_ROWS_VIEW,      /* a renaming of dimensions */
    /* cat([-x[h:], x[:h]], -1): the halves of a row exchanged, as in rotary embeddings; a way to load x */
    CR_ROWS_ROTATE,
    CR_ROWS_PART,      /* a slice or negation that is part of one; only fuse.c says so */
} cr_rows_kind;
enum { CR_ROWS_MAX_NODES = 64, CR_ROWS_MAX_VALUES = 160, CR_ROWS_MAX_AXES = 8, CR_ROWS_MAX_RANK = 8 };

/* The kind of a call; CR_ROWS_NONE also on a failure inside (the op then reports it elsewhere). */
cr_rows_kind cr_rows_kind_of(const cr_graph *g, const cr_node *node);
/* The program of a POINTWISE node; borrowed, for the life of the process. */
CR_NODISCARD cr_status cr_rows_program(const cr_graph *g, const cr_node *node, const cr_scalar_program **out);
/* The dimensions that a REDUCE or NORM node ends or works along, as bits; *kept: the result has them with one
 * element. */
uint32_t cr_rows_dims(const cr_graph *g, const cr_node *node, bool *kept);
/* VIEW: for each dimension of the result the input's, or -1. */
bool cr_rows_view(const cr_graph *g, const cr_node *node, int8_t *from);
/* ROTATE: the tensor behind it, and the nodes that are part of it (two slices and a negation). */
uint32_t cr_rows_rotated(const cr_graph *g, const cr_node *node, uint32_t parts[3]);
/* Is there a vector form of a block instruction? */
bool cr_rows_has(int block_op);
/* A dtype that kernels load and store. */
bool cr_rows_dtype(int dtype);

typedef struct cr_rows_domain {
    int naxes;
    cr_dim size[CR_ROWS_MAX_AXES];
    uint32_t reduced;                     /* axes, as bits */
    int nvalues;
    uint32_t value[CR_ROWS_MAX_VALUES];   /* the group's tensors, operands included */
    int8_t axis[CR_ROWS_MAX_VALUES][CR_ROWS_MAX_RANK]; /* -1: one element */
} cr_rows_domain;
/* Can these nodes (in graph order) be one kernel? `local`: one number per value of the graph, all -1, and left so. */
bool cr_rows_analyse(const cr_graph *g, const uint32_t *nodes, int n, int16_t *local, cr_rows_domain *out);

#endif
