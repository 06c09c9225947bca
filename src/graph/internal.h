/* internal.h: the graph's own structure, shared by the files of src/graph. */
#ifndef CR_GRAPH_INTERNAL_H
#define CR_GRAPH_INTERNAL_H

#include "graph/graph.h"

typedef struct graph_constant { const char *target; cr_tensor *tensor; } graph_constant;

struct cr_graph {
    int64_t refs; /* atomic */
    cr_arena arena;
    cr_env *env;
    const char *name;
    CR_VEC(cr_node) nodes;
    CR_VEC(cr_value) values;
    CR_VEC(graph_constant) constants; /* each holds one reference */
    CR_VEC(cr_graph *) subgraphs;     /* likewise */
    cr_map names;                     /* value name -> id + 1 */
    uint32_t first, last, output, insert; /* nodes; insert: new nodes go before it */
    uint32_t live;
    cr_origin origin;
    cr_emitter emitter;
};

/* The args deep-copied into g's arena (lists, strings and complex numbers included). */
cr_status cr__args_copy(cr_graph *g, const cr_arg *args, size_t n, cr_arg **out);
/* A copy of `arg` with values replaced by what stands for them while rules run: a META, or an INT with the symbolic size. */
cr_status cr__arg_resolve(const cr_graph *g, cr_arena *arena, const cr_arg *arg, cr_arg *out);
/* A storage identity for a value that shares memory with no other. */
uint64_t cr__fresh_storage(void);
/* Does this row have results that follow from subgraphs (higher_order ops)? Filled in by region.c. */
typedef cr_status cr_region_rule(cr_graph *g, const cr_op *op, const cr_arg *args, cr_value *values, size_t *n, size_t max);
typedef cr_status cr_region_run(const cr_op *op, const cr_arg *args, cr_arg *results, size_t *n, size_t max);
typedef struct cr_region { const cr_op *op; cr_region_rule *rule; cr_region_run *run; } cr_region;
const cr_region *cr__region_find(const cr_op *op);

#endif
