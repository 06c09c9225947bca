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
    CR_VEC(cr_node *) nodes;   /* in the arena: what cr_graph_node and cr_graph_value give stays where it is */
    CR_VEC(cr_value *) values;
    CR_VEC(graph_constant) constants; /* each holds one reference */
    CR_VEC(cr_graph *) subgraphs;     /* likewise */
    cr_map names;                     /* value name -> id + 1 */
    cr_map stems;                     /* a wish that was taken -> the last number given to it */
    uint32_t first, last, output, insert; /* nodes; insert: new nodes go before it */
    uint32_t live;
    cr_origin origin;
    cr_emitter emitter;
};

/* The args deep-copied into g's arena (lists, strings and complex numbers included). */
cr_status cr__args_copy(cr_graph *g, const cr_arg *args, size_t n, cr_arg **out);
/* Same kinds and contents, without `given`; lists by item, values by id, graphs by identity. */
bool cr__arg_equal(const cr_arg *a, const cr_arg *b);
/* The results that a call of these arguments gives, hidden ones included; names are wishes. All in `arena`. */
cr_status cr__infer(cr_graph *g, const cr_op *op, const cr_arg *args, cr_arena *arena, cr_value **values, size_t *n);
/* A storage identity for a value that shares memory with no other. */
uint64_t cr__fresh_storage(void);
/* CR_ENOMEM when an expression could not be made since the last call. */
static inline cr_status cr__env_status(cr_env *env) {
    if (!cr_env_failed(env)) return CR_OK;
    cr_env_recover(env);
    return CR_FAIL(CR_ENOMEM, "out of memory");
}
/* A tensor as constants are printed: its type, and its elements when there are not too many. */
void cr__print_tensor(cr_env *env, const cr_tensor *t, cr_str *out);

/* number.c: arithmetic on numbers and symbols. region.c: ops with subgraphs. */
CR_NODISCARD cr_status cr__number_ops_init(void);
/* Registers those rows that no family of the table has; rows[n]. */
CR_NODISCARD cr_status cr__register_rows(const cr_row *rows, size_t n);
/* The plan of a subgraph: of the plan that runs now on this thread, or a new one. Owned by the caller. */
cr_status cr__plan_of(cr_graph *sub, cr_plan **out);
/* The body's results on these operands by its own metas; *done stays false where that cannot be. results: one per
 * output. */
/* what a body over `env` calls the number; NULL: unknown */
cr_sym cr__body_number(const cr_plan *p, cr_env *env, size_t input);
cr_status cr__body_infer(const cr_plan *p, cr_env *env, const cr_arg *inputs, size_t n, cr_arg *results, bool *done);

#endif
