/* passes.h: graph passes. Each takes a graph it does not change and gives a new one over the same environment. What a
 * size had to be for a decision is in the environment's conditions afterwards. docs/passes.md says what each pass does.
 *
 * A pass that replaces nodes is a *rule*: a function that sees every call in order, with its arguments already in terms
 * of the new graph, and either leaves it (it is copied) or says what its results are. The walk around it (rewrite.c)
 * drops what nothing needs, keeps names and origins, and infers again only where an argument came out otherwise than it
 * was.
 *
 *     static cr_status double_negation(cr_rewriter *w, const cr_node *node, const cr_arg *args, bool *done) {
 *         if (!cr_op_is(node->op, "aten::neg")) return CR_OK;
 *         const cr_node *inner = cr_rewrite_producer(w, &args[0], "aten::neg");
 *         if (!inner) return CR_OK;
 *         *done = true;
 *         return cr_rewrite_result(w, node, 0, inner->args[0]);
 *     }
 *     CR_TRY(cr_rewrite(g, double_negation, NULL, &out));
 *
 * Writes: a value whose storage some node of the graph writes to is *unstable*. A rule is not even shown a call that
 * has such an argument or result, and cr_rewrite_producer does not look through one, so that rules need not think of
 * mutation. */
#ifndef CR_PASSES_H
#define CR_PASSES_H

#include "graph/graph.h"

/* ---- what holds of a graph (contract.c) ---- */
enum {
    CR_HOLDS_KERNELS = 1 << 0,    /* every call runs as it stands: a kernel, a text or a view; no region only marks */
    CR_HOLDS_CORE = 1 << 1,       /* ops within the core ATen set */
    CR_HOLDS_FUNCTIONAL = 1 << 2, /* nothing is written */
    CR_HOLDS_SETTLED = 1 << 3,    /* what is written has no functional form, or belongs to the caller */
    CR_HOLDS_LIVE = 1 << 4,       /* every call is used, or does something */
    CR_HOLDS_PANELS = 1 << 5,     /* no constant is packed in a run */
    CR_HOLDS_FUSED = 1 << 6,      /* the body of every cresset::rows is one kernel's work */
};
/* CR_EVALUE naming the bit and the node. */
CR_NODISCARD cr_status cr_contract_check(const cr_graph *g, uint32_t bits);
void cr_contract_print(uint32_t bits, cr_str *out); /* "kernels, live" */

/* ---- passes ---- */
/* What a pass gives: one graph as a rule, several where it cuts one apart. Owned. */
typedef CR_VEC(cr_graph *) cr_graphs;
void cr_graphs_dispose(cr_graphs *g);
/* `letter` is what `--dump` calls it. A pass needs some bits, and gives and ends others; the rest stay as they are. It
 * has one of the two functions. `options` is its own struct, see below; NULL: as by default. */
struct cr_pass {
    char letter;
    const char *name;
    uint32_t needs, gives, ends; /* CR_HOLDS_* */
    cr_status (*plain)(const cr_graph *g, cr_graph **out);
    cr_status (*run)(const cr_graph *g, void *options, cr_graphs *out); /* appends */
};
CR_NODISCARD cr_status cr_pass_apply(const cr_pass *pass, const cr_graph *g, void *options, cr_graphs *out);
/* The same of a pass that gives one graph. CR_EVALUE: it gave several. */
CR_NODISCARD cr_status cr_pass_apply_one(const cr_pass *pass, const cr_graph *g, void *options, cr_graph **out);

/* ---- pipelines ---- */
/* Who watches, and what single passes are told. Zero is a good start. */
typedef struct cr_pipeline_options {
    const struct cr_pass_option { const char *pass; void *options; } *options;
    size_t noptions;
    uint32_t holds; /* of the graph, to begin with */
    bool verify;    /* the graph and its bits after every pass; debug builds do so anyway */
    /* Called for each graph that a pass gives, with the seconds the pass took; NULL: nobody. A failure ends it. */
    cr_status (*after)(void *user, const cr_pass *pass, const cr_graph *g, double seconds);
    void *user;
} cr_pipeline_options;
/* Each pass on every graph that those before it gave. CR_EVALUE: a pass needs what none before it gives, or broke what
 * it promises. */
CR_NODISCARD cr_status cr_pipeline_run(const cr_pass *passes, size_t n, const cr_pipeline_options *o, const cr_graph *g,
                                       cr_graphs *out);
/* All passes that native code goes through: cr_pass_at. */
CR_NODISCARD cr_status cr_pipeline_native(const cr_pipeline_options *o, const cr_graph *g, cr_graph **out);

/* ---- options of single passes ---- */
typedef struct cr_freeze_options {
    /* One per placeholder: the tensor that it is in every run, or NULL. The graph may write to it all the same: freeze
     * then leaves the placeholder where it is, and puts NULL here. `names`: as the constants are to be called. */
    cr_tensor **tensors;
    const char *const *names;
    size_t n;
} cr_freeze_options;
typedef struct cr_functionalize_options {
    /* NULL: writes to placeholders stay in place, which is what native code wants. Otherwise (room for one per
     * placeholder) they become further outputs, at the end; mutated[i] is the placeholder whose new value the i-th of
     * them is. */
    uint32_t *mutated;
    size_t nmutated;
    /* By the calls that PyTorch makes for it, for graphs that are shown to users; custom operators that write get
     * copies to write. */
    bool replay;
    /* The graph is to be differentiated: a write that no history sees (in no_grad, through detach) gives other data to
     * a value that keeps its history, cresset::with_data; parts of inputs by as_strided are written, too. */
    bool histories;
} cr_functionalize_options;
/* What one row kernel may hold: src/emit has the numbers of each target. */
typedef struct cr_fuse_limits {
    int streams;     /* tensors that it reads */
    int results;     /* that it writes */
    int ports;       /* of both */
    int work;        /* nodes, norms counting as 9 */
    int64_t small;   /* elements that are not worth a kernel */
    int64_t one_row; /* elements of a row that is all there is, which threads cannot share */
} cr_fuse_limits;
extern const cr_fuse_limits cr_fuse_processor; /* of processors, and where nobody says */

/* ---- single passes: the pipeline's, and those with arguments of their own ---- */
/* Placeholders of which o->tensors has the tensor become constants unless the graph writes to that memory; the others
 * stay, in order. */
CR_NODISCARD cr_status cr_pass_freeze(const cr_graph *g, cr_freeze_options *o, cr_graph **out);
/* In-place ops and writes through views become functional ones: slice_scatter, select_scatter and the like put what was
 * written into the whole, and views of it are taken anew. Memory that is written in a way without a functional form
 * stays as it is, with all its views. */
CR_NODISCARD cr_status cr_pass_functionalize(const cr_graph *g, cr_functionalize_options *o, cr_graph **out);
/* Calls that nothing needs go; what writes, draws random numbers, checks or finds a size from data stays. */
CR_NODISCARD cr_status cr_pass_dce(const cr_graph *g, cr_graph **out);
/* Calls of the same op with the same arguments become one. */
CR_NODISCARD cr_status cr_pass_cse(const cr_graph *g, cr_graph **out);
/* Calls that change nothing go: no-op views, casts and copies, chains of views and permutations, identities of
 * arithmetic that hold for every value (NaN, infinities and the sign of zero included), dropout in eval. */
CR_NODISCARD cr_status cr_pass_simplify(const cr_graph *g, cr_graph **out);
/* Calls on constants become constants, unless the result is larger than what it is made of and than 64 KB. */
CR_NODISCARD cr_status cr_pass_fold(const cr_graph *g, cr_graph **out);
/* What scales and shifts the channels of a convolution or linear with constant weights (batch norm in eval, constants)
 * becomes part of the weights. */
CR_NODISCARD cr_status cr_pass_affine(const cr_graph *g, cr_graph **out);
/* What archives have in pieces becomes one op again: linear with constant weights, silu and gelu. */
CR_NODISCARD cr_status cr_pass_recompose(const cr_graph *g, cr_graph **out);
/* softmax(q k' + mask) v becomes scaled_dot_product_attention; masks that say nothing or "causal", and keys that are
 * repeated for groups of heads, are told to it in its own words. */
CR_NODISCARD cr_status cr_pass_attention(const cr_graph *g, cr_graph **out);
/* f32 convolutions in two dimensions with constant weights run on packed weights, with the activation and addition that
 * follow. */
CR_NODISCARD cr_status cr_pass_pack_conv(const cr_graph *g, cr_graph **out);
/* Images stay channels-last between packed convolutions; outputs keep their strides. */
CR_NODISCARD cr_status cr_pass_channels_last(const cr_graph *g, cr_graph **out);
/* LSTM and GRU layers in f32 become cresset::lstm_packed and gru_packed on weights that are packed where they stand. */
CR_NODISCARD cr_status cr_pass_recurrent(const cr_graph *g, cr_graph **out);
/* Products with constant weights become cresset::linear_packed, with what follows them (bias, activation, factor,
 * addend) inside. */
CR_NODISCARD cr_status cr_pass_pack_products(const cr_graph *g, cr_graph **out);
/* Pointwise chains, sums, norms and softmax that share their loops become regions, cresset::rows(body, operands): one
 * kernel each. */
CR_NODISCARD cr_status cr_pass_fuse(const cr_graph *g, const cr_fuse_limits *limits, cr_graph **out);
/* Composite ops become the ops they consist of, down to those for which `stop` says true; regions that only mark their
 * body (set_grad_enabled, checkpoints) are inlined; subgraphs are decomposed, too. In-place forms of a composite op,
 * and all out forms that resize nothing, become the functional form and a copy_ for each result. Names, origins and the
 * order of placeholders and outputs stay. CR_EUNSUPPORTED naming an op without a row. */
typedef bool cr_stop_fn(const cr_op *op, void *user);
CR_NODISCARD cr_status cr_pass_decompose(const cr_graph *g, cr_stop_fn *stop, void *user, cr_graph **out);
/* The symbols that this node introduced: what its expansion finds out from data is called the same
 * (cr_call_mode.known). */
void cr_node_introduces(const cr_graph *g, const cr_node *node, cr_known_symbols *known);
/* How to decompose, with everything that can be said about it. */
typedef struct cr_decomposition {
    cr_stop_fn *stop;
    void *user;      /* of stop and body */
    bool core;        /* `.core` texts go before `.decomp` ones */
    bool keep_writes; /* in-place forms stay, for functionalize */
    /* A body of the caller's own for this op. Its placeholders are the values (tensors and symbolic numbers) among the
     * arguments, in order and in lists, its outputs the op's results. *out stays NULL where there is none. NULL: nobody
     * has any. */
    cr_status (*body)(void *user, const cr_op *op, const cr_graph *g, const cr_arg *args, cr_graph **out);
} cr_decomposition;
CR_NODISCARD cr_status cr_pass_decompose_as(const cr_graph *g, const cr_decomposition *how, cr_graph **out);
/* The graph as run_decompositions() gives it: functional, with o->mutated as for functionalize, in the ops at which
 * `how` stops. */
CR_NODISCARD cr_status cr_pass_core(const cr_graph *g, const cr_decomposition *how,
                                    cr_functionalize_options *o, cr_graph **out);
/* What must hold of numbers that depend on data (the environment's asserts, and the ranges of their symbols) becomes
 * comparisons and _assert_scalar calls behind the nodes after which it can be checked; in bodies, too. The graph itself
 * is changed. */
typedef struct cr_asserts {
    /* conditions of every kind that have a symbol without an example, assumptions too: nobody else checks them */
    bool data;
    /* conditions that hold at the hints become nodes as well: deferred runtime asserts instead of guards */
    bool guards;
    cr_status (*made)(void *user, cr_graph *g, uint32_t node); /* sees every new node, in order; may be NULL */
    void *user;
} cr_asserts;
CR_NODISCARD cr_status cr_pass_asserts(cr_graph *g, const cr_asserts *how);
/* Stops at everything that a kernel, a pointwise text or a view computes: what runs without further ado. */
bool cr_stop_at_kernels(const cr_op *op, void *user);
/* Stops at the core ATen set, and at ops outside it that have no decomposition here: PyTorch's
 * core_aten_decompositions(). */
bool cr_stop_at_core(const cr_op *op, void *user);

/* ---- rewriting: what rules are made of ---- */
typedef struct cr_rewriter cr_rewriter;
/* `node`: of the old graph. `args`: its arguments in the new one (values, numbers, lists). Sets *done when it has given
 * every visible result that is used. The calls that it makes are the new graph's from then on; what it did not need
 * dies later. */
typedef cr_status cr_rewrite_fn(cr_rewriter *w, const cr_node *node, const cr_arg *args, bool *done);
/* `user` is the rule's own. Subgraphs are rewritten by the same rule, each in a walk of its own, with the same
 * `user`. */
CR_NODISCARD cr_status cr_rewrite(const cr_graph *g, cr_rewrite_fn *rule, void *user, cr_graph **out);
void *cr_rewrite_user(const cr_rewriter *w);
cr_graph *cr_rewrite_graph(const cr_rewriter *w); /* the new graph, as far as it is */
const cr_graph *cr_rewrite_source(const cr_rewriter *w); /* the old one */

static inline bool cr_op_is(const cr_op *op, const char *name) { return !strcmp(op->name, name); }
static inline bool cr_arg_is_int(const cr_arg *a, int64_t i) { return a->kind == CR_ARG_INT && a->u.i == i; }
/* The meta of a tensor value of the new graph, else NULL. */
const cr_meta *cr_rewrite_meta(const cr_rewriter *w, const cr_arg *a);
/* The call that makes the value; NULL when it is no call, another op (`name` NULL: any), or one that may not be looked
 * through because something it reads is written to. Its arguments are the new graph's. */
const cr_node *cr_rewrite_producer(const cr_rewriter *w, const cr_arg *a, const char *name);
/* Which of its node's results the value is. */
uint32_t cr_rewrite_index(const cr_rewriter *w, const cr_arg *a);
/* Does the call being rewritten alone use it (counting what is still to come)? Only whether a rewrite pays depends on
 * this. */
bool cr_rewrite_single(const cr_rewriter *w, const cr_arg *a);
/* The tensor behind a value that is a constant (borrowed); NULL: it is none. */
cr_tensor *cr_rewrite_constant(const cr_rewriter *w, const cr_arg *a);
/* A constant of the new graph for the tensor, which is retained; `name` is a wish. The same memory seen the same way
 * gives the same value. */
CR_NODISCARD cr_status cr_rewrite_add_constant(cr_rewriter *w, const char *name, cr_tensor *t, cr_arg *out);
/* Appends a call by its full name: `n` leading arguments, the others default; its first result. */
CR_NODISCARD cr_status cr_rewrite_call(cr_rewriter *w, const char *op, const cr_arg *args, size_t n, cr_arg *out);
/* The same with all arguments and all results (as a cr_emitter gives them). */
CR_NODISCARD cr_status cr_rewrite_op(cr_rewriter *w, const cr_op *op, const cr_arg *args, cr_arg *results);
/* The same as an emitter, for what is written against one (ops/view.h). */
cr_emitter *cr_rewrite_emitter(cr_rewriter *w);
/* The i-th value of the old node is this from here on: a value of the new graph, or a number for a number. */
CR_NODISCARD cr_status cr_rewrite_result(cr_rewriter *w, const cr_node *node, uint32_t i, cr_arg value);
/* Is the i-th value of the old node used at all? */
bool cr_rewrite_used(const cr_rewriter *w, const cr_node *node, uint32_t i);
#endif
