/* check.c: whether a program is what an exporter may hand out, beyond being well-formed.
 *
 * Later tools rely on it: calls say which module they belong to, inputs and outputs say nothing of the kind,
 * placeholders carry the prefix of what they are, and the ops are those of the dialect. */
#include "export/internal.h"
#include "graph/writes.h"

static cr_status violated(const char *node, const char *what) { return CR_FAIL(CR_EVALUE, "node '%s' %s", node, what); }

static const char *node_name(const cr_graph *g, uint32_t n) {
    const cr_node *node = cr_graph_node(g, n);
    if (node->kind == CR_NODE_OUTPUT) return "output";
    if (node->target && (node->kind != CR_NODE_CALL || cr__has_parts(node) || !node->nvalues)) return node->target;
    return node->nvalues ? cr_graph_value(g, node->first)->name : node->op->name;
}

static cr_status check_op(const cr_graph *g, uint32_t n, const char *dialect) {
    const cr_node *node = cr_graph_node(g, n);
    if (!strcmp(node->op->name, "cresset::opaque"))
        return CR_FAIL(CR_EVALUE, "node '%s' calls %s, which is no op of the %s dialect", node_name(g, n),
                       node->args[0].u.s, dialect);
    if (strcmp(dialect, "TRAINING")) {
        if (cr_op_writes(node->op))
            return CR_FAIL(CR_EVALUE,
                           "node '%s' calls %s, which writes its argument; the %s dialect has functional ops only",
                           node_name(g, n), node->op->name, dialect);
    }
    return CR_OK;
}

static cr_status check_graph(const cr_graph *g, const char *dialect, bool top) {
    for (uint32_t n = cr_graph_first(g); n != CR_NO_NODE; n = cr_graph_next(g, n)) {
        const cr_node *node = cr_graph_node(g, n);
        const cr_origin *origin = &node->origin;
        if (node->kind == CR_NODE_PLACEHOLDER || node->kind == CR_NODE_OUTPUT) {
            if (origin->module_stack)
                return violated(node_name(g, n), "is an input or output and has nn_module_stack metadata, which only "
                                                 "calls have");
            if (origin->stack_trace)
                return violated(node_name(g, n), "is an input or output and has a stack trace, which only calls have");
            continue;
        }
        if (top && !origin->module_stack)
            return violated(node_name(g, n), "has no nn_module_stack metadata: it is not known which module calls it");
        if (node->kind == CR_NODE_CALL) CR_TRY(check_op(g, n, dialect));
    }
    for (size_t i = 0; i < cr_graph_subgraph_count(g); i++)
        CR_TRY(check_graph(cr_graph_subgraph(g, i), dialect, false));
    return CR_OK;
}

static cr_status check_prefixes(const cr_program *p) {
    static const char *const prefixes[] = {
        [CR_INPUT_PARAMETER] = "p_",       [CR_INPUT_BUFFER] = "b_",   [CR_INPUT_TENSOR_CONSTANT] = "c_",
        [CR_INPUT_CUSTOM_OBJECT] = "obj_", [CR_INPUT_TOKEN] = "token", [CR_INPUT_USER] = ""
    };
    for (size_t i = 0; i < p->ninputs; i++) {
        const char *prefix = prefixes[p->inputs[i].kind];
        if (p->inputs[i].name && strncmp(p->inputs[i].name, prefix, strlen(prefix)))
            return CR_FAIL(CR_EVALUE, "node '%s' stands for '%s'; its name must begin with '%s'", p->inputs[i].name,
                           p->inputs[i].target ? p->inputs[i].target : "", prefix);
    }
    return CR_OK;
}

cr_status cr_program_check(const cr_program *p) {
    CR_TRY(cr_program_verify(p));
    CR_TRY(check_prefixes(p));
    return check_graph(p->graph, *p->dialect ? p->dialect : "TRAINING", true);
}
