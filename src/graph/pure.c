/* pure.c: which calls only give results. See writes.h. */
#include "graph/writes.h"
#include "runtime/kernels.h"

static bool gives_number(const cr_op *op) {
    for (uint16_t i = 0; i < op->schema.nreturns; i++)
        if (op->schema.returns[i].type != CR_T_TENSOR) return true;
    return false;
}

static bool is_pure(const cr_op *op, uint32_t allowed) {
    uint32_t effects = CR_TAG_RANDOM | CR_TAG_ASSERT | CR_TAG_METADATA | CR_TAG_DATA_DEPENDENT | CR_TAG_HIGHER_ORDER;
    if (((op->tags | op->base->tags) & effects & ~allowed) || cr_op_writes(op)) return false;
    rt_kernel *kernel = op->base->row->kernel;
    return !kernel || kernel == rt_k_nothing || !gives_number(op); /* item(): its symbol is used without naming it */
}

bool cr_op_is_pure(const cr_op *op) { return is_pure(op, 0); }

/* No size of its results was found out by the call: all are numbers, or expressions of symbols that have a hint. */
static bool sizes_known(const cr_graph *g, const cr_node *node) {
    cr_env *env = cr_graph_env(g);
    int64_t hint;
    for (uint32_t i = 0; i < node->nvalues; i++) {
        const cr_value *v = cr_graph_value(g, node->first + i);
        if (v->type != CR_T_TENSOR) return false;
        for (int d = 0; v->meta && d < v->meta->rank; d++)
            if (!cr_dim_is_plain(v->meta->size[d]) && !cr_env_hint(env, cr_dim_sym(env, v->meta->size[d]), &hint))
                return false;
    }
    return true;
}

static bool is_pure_but_draws(const cr_graph *g, const cr_node *node) {
    uint32_t allowed = CR_TAG_RANDOM;
    if (cr_node_writes(node)) return false;
    return is_pure(node->op, allowed) || (is_pure(node->op, allowed | CR_TAG_DATA_DEPENDENT) && sizes_known(g, node));
}

bool cr_node_is_pure(const cr_graph *g, const cr_node *node) {
    return !cr_op_draws(node->op, node->args) && is_pure_but_draws(g, node);
}

bool cr_node_only_draws(const cr_graph *g, const cr_node *node) {
    if (!cr_op_draws(node->op, node->args) || !is_pure_but_draws(g, node)) return false;
    return node->op->base->row->kernel != rt_k_random_state; /* which may move the generator anywhere */
}

const cr_op *cr_graph_draws(const cr_graph *g) {
    for (uint32_t n = cr_graph_first(g); n != CR_NO_NODE; n = cr_graph_next(g, n)) {
        const cr_node *node = cr_graph_node(g, n);
        if (node->kind == CR_NODE_CALL && cr_op_draws(node->op, node->args)) return node->op;
    }
    const cr_op *found = NULL;
    for (size_t i = 0; !found && i < cr_graph_subgraph_count(g); i++) found = cr_graph_draws(cr_graph_subgraph(g, i));
    return found;
}
