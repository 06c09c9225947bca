/* region_check.c: what a region hands to its bodies is what these declare.
 *
 * Readers of a body go by its placeholders: native code is made for their dtypes, sizes and strides. The interpreter
 * runs a body on the operands as they are. Where the two differ, an op that reads memory as it lies (as_strided) gives
 * one number here and another there, so such a graph is refused. Slices of `xs` are compared without strides: tracers
 * describe a slice as its dense copy. Carried values are compared as they enter. */
#include "graph/internal.h"

/* input: next placeholder */
typedef struct visit { const cr_graph *g, *body; const cr_node *node; uint32_t input; size_t at; } visit;

static cr_status differs(const visit *v, const cr_value *operand, const cr_value *input, const char *what) {
    cr_str have, want;
    cr_str_init(&have);
    cr_str_init(&want);
    if (operand->meta) cr_meta_print(v->g->env, operand->meta, &have);
    else cr_str_add(&have, "a number");
    if (input->meta) cr_meta_print(v->body->env, input->meta, &want);
    else cr_str_add(&want, "a number");
    cr_status status = CR_FAIL(CR_EVALUE,
                               "%s: operand %zu, %%%s, is %s, but input %%%s of its body %s is declared as %s: their "
                               "%s differ; export the program again",
                               v->node->op->name, v->at, operand->name, cr_str_get(&have), input->name, v->body->name,
                               cr_str_get(&want), what);
    cr_str_dispose(&have);
    cr_str_dispose(&want);
    return status;
}

/* True only where it is certain, for every value of the symbols. */
static bool unequal(const visit *v, cr_dim a, cr_dim b) {
    if (cr_dim_is_plain(a) && cr_dim_is_plain(b)) return a != b;
    return v->g->env == v->body->env && cr_dim_known(v->g->env, a, CR_EQ, b) == CR_NO;
}

static cr_status compare(const visit *v, const cr_value *operand, const cr_value *input, int sliced) {
    const cr_meta *x = operand->meta, *y = input->meta;
    bool dense = sliced;
    if (!x || !y)
        return !x != !y && (operand->type == CR_T_TENSOR) != (input->type == CR_T_TENSOR)
                   ? differs(v, operand, input, "kinds")
                   : CR_OK;
    if (x->dtype != y->dtype) return differs(v, operand, input, "dtypes");
    if (x->rank != y->rank + sliced) return differs(v, operand, input, "numbers of dimensions");
    for (int d = 0; d < y->rank; d++) {
        if (unequal(v, x->size[d + sliced], y->size[d])) return differs(v, operand, input, "sizes");
        dense |= y->size[d] == 0; /* no elements: strides mean nothing */
    }
    for (int d = 0; d < y->rank && !dense; d++)
        if (y->size[d] != 1 && x->size[d] != 1 && unequal(v, x->stride[d], y->stride[d]))
            return differs(v, operand, input, "strides");
    return CR_OK;
}

/* The operands of one list against the placeholders that follow. */
static cr_status compare_list(visit *v, const cr_arg *list, int sliced) {
    for (uint32_t i = 0; list->kind == CR_ARG_LIST && i < list->n; i++, v->at++) {
        const cr_node *node = v->input == CR_NO_NODE ? NULL : cr_graph_node(v->body, v->input);
        if (!node || node->kind != CR_NODE_PLACEHOLDER)
            return CR_FAIL(CR_EVALUE, "%s: its body %s takes %zu inputs, and there are more operands",
                           v->node->op->name, v->body->name, v->at);
        const cr_arg *a = &list->u.list[i];
        if (a->kind == CR_ARG_VALUE)
            CR_TRY(compare(v, cr_graph_value(v->g, (uint32_t)a->u.i), cr_graph_value(v->body, node->first), sliced));
        v->input = cr_graph_next(v->body, v->input);
    }
    return CR_OK;
}

static cr_status check_body(const cr_graph *g, const cr_node *node, const cr_graph *body) {
    const cr_schema *s = &node->op->schema;
    visit v = { g, body, node, cr_graph_first(body), 0 };
    bool twice = !strcmp(node->op->name, "higher_order::associative_scan"); /* combine_fn takes two slices of each */
    bool function = cr_op_facts(node->op)->region.kind == CR_REGION_FUNCTION; /* its body takes gradients of results */
    for (uint16_t p = function ? 2 : 0; p < s->nparams; p++) {
        bool sliced = !strcmp(s->params[p].name, "xs");
        for (int k = 0; k < (sliced && twice ? 2 : 1); k++) CR_TRY(compare_list(&v, &node->args[p], sliced));
    }
    if (v.input != CR_NO_NODE && cr_graph_node(body, v.input)->kind == CR_NODE_PLACEHOLDER)
        return CR_FAIL(CR_EVALUE, "%s: its body %s takes more inputs than the %zu operands that there are",
                       node->op->name, body->name, v.at);
    return CR_OK;
}

cr_status cr_graph_check_regions(const cr_graph *g) {
    for (uint32_t n = g->subgraphs.n ? cr_graph_first(g) : CR_NO_NODE; n != CR_NO_NODE; n = cr_graph_next(g, n)) {
        const cr_node *node = cr_graph_node(g, n);
        if (node->kind != CR_NODE_CALL || !node->op || !(node->op->tags & CR_TAG_HIGHER_ORDER)) continue;
        for (uint16_t p = 0; p < node->nargs; p++)
            if (node->args[p].kind == CR_ARG_GRAPH) CR_TRY(check_body(g, node, node->args[p].u.graph));
    }
    return CR_OK;
}
