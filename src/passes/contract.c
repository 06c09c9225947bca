/* contract.c: what holds of a graph between passes, bit by bit, and whether it does.
 *
 * A pass says in its row of pipeline.c which bits it needs, gives and ends. That passes stand in an order in which each
 * finds what it needs is checked whenever a pipeline runs; that the graphs are as promised, after every pass of debug
 * builds. A bit is here only if one function can tell. */
#include "graph/writes.h"
#include "passes/internal.h"
#include "passes/rows.h"

typedef cr_status check_fn(const cr_graph *g, const cr_node *node);

static cr_status broken(const cr_graph *g, const cr_node *node, const char *what) {
    const char *name = node->nvalues ? cr_graph_value(g, node->first)->name : "";
    return CR_FAIL(CR_EVALUE, "%s%s%s: %s", node->op->name, *name ? " -> %" : "", name, what);
}

/* ---- one call at a time ---- */

static cr_status check_kernels(const cr_graph *g, const cr_node *node) {
    if (cr_op_facts(node->op)->region.kind == CR_REGION_MARKS) return broken(g, node, "only marks its body");
    return cr_stop_at_kernels(node->op, NULL) ? CR_OK : broken(g, node, "is no kernel, text or view; it decomposes");
}

static cr_status check_panels(const cr_graph *g, const cr_node *node) {
    if (!cr_op_is(node->op, "cresset::pack_panels") || node->args[0].kind != CR_ARG_VALUE) return CR_OK;
    const cr_node *maker = cr_graph_node(g, cr_graph_value(g, (uint32_t)node->args[0].u.i)->node);
    const cr_tensor *t = maker->kind == CR_NODE_GET_ATTR ? cr_graph_constant(g, maker->target) : NULL;
    return t && !cr_tensor_is_fake(t) ? broken(g, node, "packs a constant") : CR_OK;
}

/* A region's body is one kernel's work: its axes fit together. */
static cr_status check_fused(const cr_graph *g, const cr_node *node) {
    if (cr_op_facts(node->op)->region.kind != CR_REGION_ROWS) return CR_OK;
    const cr_graph *body = node->args[0].u.graph;
    uint32_t nodes[CR_ROWS_MAX_NODES];
    int n = 0;
    for (uint32_t id = cr_graph_first(body); id != CR_NO_NODE; id = cr_graph_next(body, id)) {
        const cr_node *call = cr_graph_node(body, id);
        if (call->kind != CR_NODE_CALL || !call->nvalues || cr_graph_value(body, call->first)->type != CR_T_TENSOR)
            continue; /* numbers are computed before the loops */
        if (n == CR_ROWS_MAX_NODES) return broken(g, node, "has more calls than a row kernel holds");
        nodes[n++] = id;
    }
    cr_rows_domain *domain = cr_alloc(sizeof *domain);
    size_t bytes = (cr_graph_value_count(body) + 1u) * sizeof(int16_t);
    int16_t *local = cr_alloc(bytes);
    if (local) memset(local, -1, bytes);
    cr_status status = !domain || !local                                     ? CR_ENOMEM
                       : cr_rows_analyse(body, nodes, n, local, domain) ? CR_OK
                                                                             : broken(g, node, "is no single kernel");
    cr_free(domain);
    cr_free(local);
    return status;
}

static cr_status check_calls(const cr_graph *g, check_fn *check) {
    for (uint32_t id = cr_graph_first(g); id != CR_NO_NODE; id = cr_graph_next(g, id))
        if (cr_graph_node(g, id)->kind == CR_NODE_CALL) CR_TRY(check(g, cr_graph_node(g, id)));
    return CR_OK;
}

/* ---- whole graphs ---- */

static cr_status kernels(const cr_graph *g) { return check_calls(g, check_kernels); }
static cr_status panels(const cr_graph *g) { return check_calls(g, check_panels); }
static cr_status fused(const cr_graph *g) { return check_calls(g, check_fused); }
static cr_status core(const cr_graph *g) { return cr_graph_verify(g, CR_VERIFY_CORE); }
static cr_status functional(const cr_graph *g) { return cr_graph_verify(g, CR_VERIFY_FUNCTIONAL); }

static cr_status live(const cr_graph *g) {
    uint32_t *uses = cr_calloc(cr_graph_value_count(g) + 1u, sizeof *uses);
    cr_status status = uses ? CR_OK : CR_ENOMEM;
    if (uses) cr_graph_count_uses(g, uses);
    for (uint32_t id = cr_graph_first(g); id != CR_NO_NODE && !status; id = cr_graph_next(g, id)) {
        const cr_node *node = cr_graph_node(g, id);
        bool used = node->kind != CR_NODE_CALL || !cr_node_is_pure(g, node);
        for (uint32_t i = 0; i < node->nvalues && !used; i++) used = uses[node->first + i] != 0;
        if (!used) status = broken(g, node, "is used by nothing and does nothing");
    }
    cr_free(uses);
    return status;
}

typedef struct contract {
    uint32_t bit;
    const char *name;
    bool bodies; /* are to be checked, too */
    cr_status (*check)(const cr_graph *g);
} contract;
static const contract contracts[] = {
    { CR_HOLDS_KERNELS, "kernels", true, kernels },
    { CR_HOLDS_CORE, "core", false, core }, /* the verifier goes into bodies itself */
    { CR_HOLDS_FUNCTIONAL, "functional", false, functional },
    { CR_HOLDS_SETTLED, "settled", true, cr__check_settled },
    { CR_HOLDS_LIVE, "live", false, live },
    { CR_HOLDS_PANELS, "panels", true, panels },
    { CR_HOLDS_FUSED, "fused", true, fused },
};

static cr_status check(const cr_graph *g, size_t i) {
    CR_TRY(contracts[i].check(g));
    for (size_t k = 0; contracts[i].bodies && k < cr_graph_subgraph_count(g); k++)
        CR_TRY(check(cr_graph_subgraph(g, k), i));
    return CR_OK;
}

cr_status cr_contract_check(const cr_graph *g, uint32_t bits) {
    for (size_t i = 0; i < CR_COUNT(contracts); i++) {
        cr_status status = bits & contracts[i].bit ? check(g, i) : CR_OK;
        if (status) return cr_error_context(status, "the graph is not '%s'", contracts[i].name);
    }
    return CR_OK;
}

void cr_contract_print(uint32_t bits, cr_str *out) {
    const char *between = "";
    for (size_t i = 0; i < CR_COUNT(contracts); i++) {
        if (!(bits & contracts[i].bit)) continue;
        cr_str_addf(out, "%s%s", between, contracts[i].name);
        between = ", ";
    }
}
