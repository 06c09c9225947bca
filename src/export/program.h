/* program.h: an exported program, and a module that runs it.
 *
 * A *program* is a lifted graph (its placeholders are parameters, buffers, constants, then user inputs), a *signature*
 * that says what each placeholder and output is, the state by name, value ranges of the symbols, guards, and the call
 * structure `(args, kwargs) -> results` as pytree specs. It is immutable apart from the values of its tensors,
 * refcounted, and may be shared by threads.
 *
 * A *module* is one running instance: it owns the plan and the state that runs mutate.
 *
 *     cr_program *p;  cr_module *m;
 *     CR_TRY(cr_program_load("model.pt2", NULL, 0, &p));
 *     CR_TRY(cr_module_create(p, CR_MODULE_SHARED, &m));
 *     CR_TRY(cr_module_run(m, inputs, n, results, cr_module_result_count(m)));   -- flat user inputs, flat user outputs
 */
#ifndef CR_PROGRAM_H
#define CR_PROGRAM_H

#include "archive/zip.h"
#include "cresset/program.h"
#include "graph/graph.h"
#include "passes/passes.h"
#include "trace/tree.h"

#include <pthread.h>

/* ---- signature ---- */
typedef enum cr_input_kind {
    CR_INPUT_USER, CR_INPUT_PARAMETER, CR_INPUT_BUFFER, CR_INPUT_TENSOR_CONSTANT, CR_INPUT_CUSTOM_OBJECT, CR_INPUT_TOKEN
} cr_input_kind;
typedef struct cr_input_spec {
    uint8_t kind;
    bool persistent;        /* buffers */
    const char *name;       /* of the placeholder */
    const char *target;     /* PARAMETER, BUFFER, CONSTANT: the state's name ("layer.weight"); else NULL */
    /* a user input that is a number, text or None and was specialised: its value; else CR_ARG_NONE with is_constant
     * false */
    cr_arg constant;
    bool is_constant;
} cr_input_spec;
typedef enum cr_output_kind {
    CR_OUTPUT_USER, CR_OUTPUT_LOSS, CR_OUTPUT_BUFFER_MUTATION, CR_OUTPUT_PARAMETER_MUTATION, CR_OUTPUT_INPUT_MUTATION,
    CR_OUTPUT_GRADIENT_TO_PARAMETER, CR_OUTPUT_GRADIENT_TO_INPUT, CR_OUTPUT_TOKEN
} cr_output_kind;
typedef struct cr_output_spec {
    uint8_t kind;
    const char *name;       /* of the value, or NULL for a constant output */
    const char *target;     /* the state's or the user input's name; NULL for user outputs */
} cr_output_spec;
typedef struct cr_symbol_range { const char *symbol; cr_range range; } cr_symbol_range;
/* An input or output of a submodule's call: a value of the graph, or, where `name` is NULL, a constant. */
typedef struct cr_call_value { const char *name; uint8_t type; /* cr_type */ cr_arg constant; } cr_call_value;
typedef struct cr_module_call {
    const char *fqn;
    cr_tree *in_spec, *out_spec;            /* NULL: no signature kept */
    const char *const *forward_arg_names; size_t nnames;
    const cr_call_value *inputs, *outputs; size_t ninputs, noutputs; /* flat; of the root: none */
} cr_module_call;

struct cr_program {           /* read only */
    int64_t refs;             /* atomic */
    cr_arena arena;           /* texts and arrays below */
    cr_graph *graph;
    const cr_input_spec *inputs;   size_t ninputs;   /* in placeholder order */
    const cr_output_spec *outputs; size_t noutputs;
    const cr_named_tensor *state;  size_t nstate;    /* parameters and persistent buffers */
    const cr_named_tensor *constants; size_t nconstants; /* lifted constants, non-persistent buffers */
    const cr_symbol_range *ranges; size_t nranges;
    const char *const *guards;     size_t nguards;   /* Python texts, as saved */
    const cr_module_call *calls;   size_t ncalls;    /* [0] is the root */
    cr_tree *in_spec, *out_spec;                     /* of the root; in_spec describes (args, kwargs) */
    const cr_arg *example;         size_t nexample;  /* flat example inputs, or 0; tensors are owned by the program */
    const char *name, *torch_version, *dialect;      /* "model", "2.13.0+cpu", "TRAINING" */
    int schema_major, schema_minor;
    int64_t opset;                                   /* of aten; 0: not given */
    /* ops without a row: "ns::op.overload", each once; nodes keep them as opaque calls */
    const char *const *unsupported; size_t nunsupported;
    const char *example_problem;                     /* why the archive's example inputs cannot be read; NULL: none */
    cr_zip *archive;                                 /* NULL: not from a file */
    struct cr_program *base;                         /* whose texts and tensors these are, retained; NULL: its own */
    const char *metadata;                            /* of the graph module, a JSON object; NULL: empty */
    cr_map names;                                    /* private: name -> cr_named_tensor of state or constants */
    cr_map exprs;                                    /* private: cr_sym -> its text in the archive */
    CR_VEC(cr_tensor *) replaced;                    /* private: other tensors than the base's, retained */
    pthread_mutex_t lock;                            /* private: cr_program_lock */
};
/* Held by runs that write the program's own state, and while the graph's symbols are worked with: programs that come
 * from one another share both. */
pthread_mutex_t *cr_program_lock(const cr_program *p);
/* ---- loading ---- */
/* As cr_program_load_from. */
CR_NODISCARD cr_status cr_program_load_zip(cr_zip *zip, const char *name, int flags, cr_program **out);
/* {"range_constraints": ..., "graph": ...}: what importers of other graphs write, with the schema's words. Nothing is
 * said of state or of the call structure; an op without a row is CR_EUNSUPPORTED. */
CR_NODISCARD cr_status cr_graph_from_json(const char *text, size_t size, cr_graph **out);
/* The programs of an archive, in order; names live in `arena`. */
CR_NODISCARD cr_status cr_program_list(cr_zip *zip, cr_arena *arena, const char *const **names, size_t *n);
/* A member below the top folder ("extra/notes.txt"), NULL when absent. */
const cr_zip_member *cr_pt2_find(const cr_zip *zip, const char *path);
/* ---- building ---- */
/* The names that PyTorch's tracer gives to the calls of a graph as it was recorded. Made before nodes are dropped or
 * moved:
 * those that stay keep their names. */
typedef struct cr_names cr_names;
CR_NODISCARD cr_status cr_names_create(const cr_graph *g, cr_names **out);
void cr_names_free(cr_names *m);
/* Puts a recorded graph in the order that exported programs have: sizes are what they turned out to be, every symbol is
 * read off an input once, at the beginning, and numbers follow from those; what nobody uses of this, and copies of
 * literals that nobody uses, go. With `asserts`, what must hold of data becomes assertions; with `guards` too, so do
 * conditions on sizes. `names` follows; `root`: the module stack of the program itself. */
CR_NODISCARD cr_status cr_program_arrange(cr_graph *g, cr_names *names, const char *root, bool asserts, bool guards);
/* Where the gradient mode was set while the graph was recorded: nodes from `node` on have it. */
typedef struct cr_grad_mark { uint32_t node; bool enabled; } cr_grad_mark;
/* The guards as conditions of the graph's environment, for what derives code from the graph; a run compares them with
 * its inputs. */
CR_NODISCARD cr_status cr_program_state_guards(const cr_program *p);
/* Parts with another mode than `outer` become bodies of wrap_with_set_grad_enabled. Before cr_program_arrange; `root`:
 * the module stack of the program itself. */
CR_NODISCARD cr_status cr_program_wrap_grad_modes(cr_graph *g, cr_names *names, const cr_grad_mark *marks, size_t n,
                                                  bool outer, const char *root);
/* What a program is made of. Everything is copied or retained; `names` of outputs come from the graph. The graph's
 * placeholders are in the order of `inputs` and get their names; it must not be edited afterwards. calls[0] is the root
 * and has both specs. */
typedef struct cr_program_parts {
    cr_graph *graph;
    const cr_input_spec *inputs;      size_t ninputs;
    const cr_output_spec *outputs;    size_t noutputs;
    const cr_named_tensor *state;     size_t nstate;
    const cr_named_tensor *constants; size_t nconstants;
    const cr_symbol_range *ranges;    size_t nranges;
    const char *const *guards;        size_t nguards;
    const cr_module_call *calls;      size_t ncalls;
    const cr_arg *example;            size_t nexample; /* flat; tensors, numbers, texts, None */
    const char *name, *dialect, *torch_version;        /* NULL: "model", "TRAINING", "" */
    const cr_names *names;                             /* NULL: made from the graph */
    int flags;
} cr_program_parts;
enum { CR_BUILD_KEEP_NAMES = 1 /* values keep the names they have in the graph; else they get PyTorch's */ };
/* CR_EVALUE, CR_EFORMAT: the parts do not fit each other. On failure the graph's names may have changed. */
CR_NODISCARD cr_status cr_program_build(const cr_program_parts *parts, cr_program **out);

/* ---- saving ---- */
/* The text of models/NAME.json. */
CR_NODISCARD cr_status cr_program_print_json(const cr_program *p, const cr_save_options *options, cr_str *out);

/* As cr_program_verify, and what programs promise that an exporter made here: every call of the graph says which
 * module it belongs to, inputs and outputs do not, placeholders' names begin as their kinds ask, the ops are those of
 * the dialect. CR_EVALUE naming the node. */
CR_NODISCARD cr_status cr_program_check(const cr_program *p);
/* Where an op of `unsupported` is first called; NULL: unknown. */
const cr_origin *cr_program_origin(const cr_program *p, const char *unsupported);
/* The program up to a node, whose tensors become the results (mutations at the end go): for comparing ways of running
 * it. Callers hold no lock; the graph's environment is shared. */
bool cr_program_can_end_at(const cr_program *p, uint32_t node);
CR_NODISCARD cr_status cr_program_prefix(cr_program *p, uint32_t node, cr_program **out);
/* The same program with another graph: the same placeholders in the same order, the same outputs, and after those
 * `nmutated` new values of the placeholders whose indices `mutated` has; these become the first outputs, with their
 * rows of the signature. `graph` is retained. `dialect` NULL: the same. */
CR_NODISCARD cr_status cr_program_derive(cr_program *p, cr_graph *graph, const uint32_t *mutated, size_t nmutated,
                                         const char *dialect, cr_program **out);
/* run_decompositions(): the program in the core dialect, or in the ops at which `how` stops. Functional: mutated state
 * and inputs are outputs. */
CR_NODISCARD cr_status cr_program_decompose(cr_program *p, const cr_decomposition *how, cr_program **out);

/* ---- running ---- */
/* cr_module_run on other tensors than the program's: one for each input that is a parameter, a buffer or a constant, in
 * their order. */
CR_NODISCARD cr_status cr_module_run_on(cr_module *m, cr_tensor *const *state, size_t nstate, const cr_arg *inputs,
                                        size_t ninputs, cr_arg *results, size_t nresults);

#endif
