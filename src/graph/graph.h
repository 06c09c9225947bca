/* graph.h: the IR. One graph, from capture to code.
 *
 * A graph is an ordered list of nodes; a node has results, each a *value* with its own name, type and meta. Arguments
 * name values, never nodes (CR_ARG_VALUE, u.i = value id), and are normalised to the op's schema: one per parameter,
 * defaults filled in, `given` remembering how each was passed. A symbolic integer argument is a constant or a value
 * whose meta is an expression, never a bare expression. A Tensor[] result is n values of one return.
 *
 * A node that writes an argument has, after its visible results, one *hidden* result per written argument: "x after".
 * Later uses of x name that value. This keeps one meta per value true even after t_() or resize_().
 *
 * Everything lives in the graph's arena and dies with it; the graph owns one handle table (constant tensors,
 * environment, subgraphs). Refcounted; a graph that nobody edits may be read from many threads.
 *
 *     graph(%x: f32[2, s0], %w: f32[3, s0]) {
 *       %y: f32[2, 3] = aten.linear(%x, %w)
 *       %z: f32[3, 2](1, 3) of %y = aten.transpose.int(%y, 0, 1)
 *       return %z
 *     } */
#ifndef CR_GRAPH_H
#define CR_GRAPH_H

#include "cresset/graph.h"
#include "ops/op.h"

#define CR_NO_NODE UINT32_MAX
#define CR_NO_VALUE UINT32_MAX

typedef enum cr_node_kind { CR_NODE_PLACEHOLDER, CR_NODE_CALL, CR_NODE_GET_ATTR, CR_NODE_OUTPUT } cr_node_kind;

typedef struct cr_value {
    const char *name;     /* without '%'; unique in its graph */
    uint32_t node;        /* who makes it */
    uint16_t ret;         /* which schema return it belongs to (hidden: which parameter was written) */
    uint8_t type;         /* cr_type: TENSOR, INT, FLOAT, BOOL, SCALAR, ... */
    bool hidden;
    const cr_meta *meta;  /* tensors; NULL when unknown */
    cr_sym expr;          /* INT, FLOAT, BOOL values: of the graph's environment; a fresh symbol when unknown */
} cr_value;

/* Where a node came from; NULL when unknown. Kept by passes. no_grad: it was recorded while grad mode was off (programs
 * that are exported have regions instead). */
typedef struct cr_origin {
    const char *stack_trace, *module_stack, *source_fn;
    bool no_grad;
    bool data; /* it is x.data: what is written to its result counts as no write of x */
    uint8_t policy; /* what a selective checkpoint says of the call: a cr_policy */
} cr_origin;

/* What an archive says of a node beyond what the IR needs, so that writing it gives the same again. It belongs to that
 * node alone: copies of the graph have it, nodes that a pass makes have none. */
typedef struct cr_archived {
    const char *target;                /* the archive's, where another op stands for it here; NULL: the op's own */
    const char *metadata;              /* a JSON object: what there is beside the origin; NULL: nothing */
    /* it is called inside with_effects: the token that is taken and the one that is given; NULL: it is not */
    const char *token, *next_token;
    /* of the arguments as they were given, where they are not the parameters'; NULL: they are */
    const char *const *arg_names;
    uint32_t nargs;
    /* CALL: a region op that gives one tensor, not a tuple; OUTPUT: the graph returns its output itself */
    bool single;
    bool none;                         /* CALL: "nothing" is written as a result that is None */
    bool implied;                      /* made by reading another node: not written */
} cr_archived;

typedef struct cr_node {
    uint8_t kind;         /* cr_node_kind */
    bool dead;            /* erased; skipped by iteration */
    uint16_t nargs;
    uint32_t first, nvalues; /* its values are first .. first + nvalues - 1 */
    uint32_t prev, next;
    const cr_op *op;      /* CALL */
    /* PLACEHOLDER and GET_ATTR: the name; CALL with several results: what Python calls the tuple, where known */
    const char *target;
    cr_arg *args;         /* CALL: one per parameter; OUTPUT: the results, any shape of lists */
    cr_origin origin;
    const cr_archived *archived; /* NULL: nothing */
} cr_node;

/* ---- life ---- */
/* `env` is retained; NULL: a fresh one is made. */
CR_NODISCARD cr_status cr_graph_create(cr_env *env, cr_graph **out);
const char *cr_graph_name(const cr_graph *g); /* "" for a main graph */
CR_NODISCARD cr_status cr_graph_set_name(cr_graph *g, const char *name);

/* ---- reading: `for (uint32_t n = cr_graph_first(g); n != CR_NO_NODE; n = cr_graph_next(g, n))` ---- */
uint32_t cr_graph_first(const cr_graph *g);
uint32_t cr_graph_next(const cr_graph *g, uint32_t node);
/* Both stay where they are as long as the graph, whatever is added to it. */
const cr_node *cr_graph_node(const cr_graph *g, uint32_t node);
const cr_value *cr_graph_value(const cr_graph *g, uint32_t value);
uint32_t cr_graph_value_count(const cr_graph *g); /* ids are below this; erased ones have node == CR_NO_NODE */
uint32_t cr_graph_node_limit(const cr_graph *g);  /* ids are below this; new nodes take the next ones */
uint32_t cr_graph_find(const cr_graph *g, const char *name); /* value by name; CR_NO_VALUE */
uint32_t cr_graph_output(const cr_graph *g); /* the output node; CR_NO_NODE while building */
/* How often each value is used, counted afresh: counts[value_count]. */
void cr_graph_count_uses(const cr_graph *g, uint32_t *counts);
/* Calls fn on every value id that `args` mention, lists included. */
void cr_args_visit_values(const cr_arg *args, size_t n, void (*fn)(void *user, uint32_t value), void *user);

/* The right side of a node's line: "aten.add.Tensor(%x, 1)", "return %y"; nothing for an input. */
void cr_graph_print_node(const cr_graph *g, const cr_node *node, cr_str *out);

/* Memory that lives as long as the graph, for what is about to be put into it. NULL: out of memory. */
void *cr_graph_alloc(cr_graph *g, size_t size);

/* ---- building: nodes go before the insertion point (the end, at first) ---- */
void cr_graph_insert_before(cr_graph *g, uint32_t node); /* CR_NO_NODE: at the end (before the output node) */
/* of the nodes made from now on; NULL: none */
CR_NODISCARD cr_status cr_graph_set_origin(cr_graph *g, const cr_origin *origin);
/* `name` is a wish; it is made unique by _1, _2, ... and its odd characters become '_'. */
CR_NODISCARD cr_status cr_graph_placeholder(cr_graph *g, const char *name, const cr_meta *meta, uint32_t *value);
CR_NODISCARD cr_status cr_graph_placeholder_number(cr_graph *g, const char *name, cr_type type, cr_sym expr,
                                                   uint32_t *value);
/* A constant tensor of the handle table (retained), reachable as `target`. */
CR_NODISCARD cr_status cr_graph_add_constant(cr_graph *g, const char *target, cr_tensor *t);
cr_tensor *cr_graph_constant(const cr_graph *g, const char *target); /* borrowed; NULL when absent */
/* The i-th constant's name, and the tensor (borrowed); NULL past the last. */
const char *cr_graph_constant_at(const cr_graph *g, size_t i, cr_tensor **t);
CR_NODISCARD cr_status cr_graph_get_attr(cr_graph *g, const char *target, uint32_t *value);
CR_NODISCARD cr_status cr_graph_add_subgraph(cr_graph *g, cr_graph *sub); /* retained; its name is made unique */
size_t cr_graph_subgraph_count(const cr_graph *g);
cr_graph *cr_graph_subgraph(const cr_graph *g, size_t i); /* borrowed */
/* Appends a call: the op's rule gives the results' metas. `args` may hold values, numbers, lists, strings, graphs. They
 * are copied. *node: its visible results are the node's values in order. */
CR_NODISCARD cr_status cr_graph_call(cr_graph *g, const cr_op *op, const cr_arg *args, uint32_t *node);
/* As cr_graph_call with the results given (reading archives, recording): `values` has names (wishes), types, metas,
 * returns and hidden marks filled in. */
CR_NODISCARD cr_status cr_graph_call_with(cr_graph *g, const cr_op *op, const cr_arg *args, const cr_value *values,
                                          size_t n, uint32_t *node);
CR_NODISCARD cr_status cr_graph_set_output(cr_graph *g, const cr_arg *args, size_t n); /* once, or replaces */
/* An emitter whose call() appends to this graph: formulas and decompositions write graphs through it. */
cr_emitter *cr_graph_emitter(cr_graph *g);
/* Arguments as expansions compute with them: values that are numbers become the expressions they stand for. Lists are
 * the graph's. */
CR_NODISCARD cr_status cr_graph_plain_args(cr_graph *g, const cr_arg *args, size_t n, cr_arg *out);
/* Lists of what an expansion gives are the caller's, an emitter's belong to the graph: the same with the graph's. */
CR_NODISCARD cr_status cr_graph_keep_arg(cr_graph *g, const cr_arg *from, cr_arg *to);
/* A number's expression as the argument that stands for it: a plain number where it is constant. */
cr_arg cr_number_arg(cr_env *env, cr_sym e);
/* The value of a symbolic integer: finds one, or appends sym_size and arithmetic nodes. A constant gives a plain
 * INT. */
CR_NODISCARD cr_status cr_graph_value_for(cr_graph *g, cr_sym expr, cr_arg *out);

/* ---- editing ---- */
CR_NODISCARD cr_status cr_graph_rename(cr_graph *g, uint32_t value, const char *name);
/* Every use of `from` (in nodes after `after`, or everywhere with CR_NO_NODE) becomes `to`. */
CR_NODISCARD cr_status cr_graph_replace(cr_graph *g, uint32_t from, cr_arg to, uint32_t after);
CR_NODISCARD cr_status cr_graph_set_target(cr_graph *g, uint32_t node, const char *target);
/* Puts a node in front of another (CR_NO_NODE: last); what it uses must still be defined before it. */
void cr_graph_move(cr_graph *g, uint32_t node, uint32_t before);
CR_NODISCARD cr_status cr_graph_set_args(cr_graph *g, uint32_t node, const cr_arg *args, size_t n); /* copied */
CR_NODISCARD cr_status cr_graph_set_meta(cr_graph *g, uint32_t value, const cr_meta *meta); /* copied; NULL: unknown */
/* of a number: an equal expression of the graph's environment */
void cr_graph_set_expr(cr_graph *g, uint32_t value, cr_sym expr);
/* copied; NULL: none */
CR_NODISCARD cr_status cr_graph_set_archived(cr_graph *g, uint32_t node, const cr_archived *archived);
/* CR_EVALUE when a value of it is still used. */
CR_NODISCARD cr_status cr_graph_erase(cr_graph *g, uint32_t node);
/* A copy in which each of these placeholders (`which`: per placeholder) that shared memory with another lies in one of
 * its own, with what is made of it; NULL: none did. (inputs.c) */
CR_NODISCARD cr_status cr_graph_part_inputs(const cr_graph *g, const bool *which, cr_graph **out);

/* ---- text, verification, execution: cresset/graph.h ---- */
/* Part of CR_VERIFY_SHAPE, and done on loading: what regions hand to their bodies has the dtypes, sizes and strides
 * that the bodies declare. CR_EVALUE naming both. Of this graph, not of its subgraphs. */
CR_NODISCARD cr_status cr_graph_check_regions(const cr_graph *g);

/* How messages name the inputs, and a further check of them after their sizes and before the first step. Both may be
 * NULL; they must outlive the plan, and be set before it is shared. */
void cr_plan_set_inputs(cr_plan *p, const char *const *labels, cr_status (*check)(void *user, const cr_arg *inputs),
                        void *user);
/* Registers cond, while_loop, map, scan, associative_scan, wrap_with_set_grad_enabled and the other region ops of the
 * higher_order namespace, and the operator and sym_* functions. Called by everything here that needs them. */
CR_NODISCARD cr_status cr_region_ops_init(void);

#endif
