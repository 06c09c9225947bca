/* aot.h: a recorded program compiled ahead of time, forward and backward, and called in its place.
 *
 *     CR_TRY(cr_aot_create(&recorded, &compiler, &aot));       -- graphs, what is shared and written, code
 *     CR_TRY(cr_aot_call(aot, inputs, n, results, NULL));      -- as the program itself, on the eager tape
 *     cr_aot_release(aot);
 *
 * The code that a compiler makes is functional: (inputs) -> (new values of inputs that were written, results, roots of
 * results that are views). What else the program did, an epilogue does, on the caller's tensors and through the eager
 * tape: new values are copied back, ops that change a tensor's sizes or strides are called again, views are taken of
 * the inputs, results and roots by the calls that took them, and a result that is an input is that object. All of it is
 * known from the recorded graph alone, by storages and "x after" values: cr_metadata_print shows it. */
#ifndef CR_AOT_H
#define CR_AOT_H

#include "autograd/partition.h"

/* ---- what a program does to its inputs, and what its results are (metadata.c) ---- */
typedef struct cr_aot_input {
    uint8_t writes;  /* CR_WRITE_DATA, CR_WRITE_META (graph/writes.h) */
    bool hidden;     /* its data are written only in no_grad, or through detach(): no history sees it */
    bool requires_grad, leaf;
    bool mixed;      /* other tensors are part of what is written to it */
    uint16_t bumps;  /* how often its version count goes up by writes of data */
    int32_t base;    /* the input of the compiled code of which it is a part; -1: it is one itself */
    bool detached;   /* ... of which it is a part without history */
} cr_aot_input;
typedef enum cr_aot_kind {
    CR_AOT_FRESH,           /* the code's result `of` */
    CR_AOT_IS_INPUT,        /* the very input `of` */
    CR_AOT_IS_OUTPUT,       /* the very result `of`, an earlier one */
    CR_AOT_OF_INPUT,        /* a view of input `of` */
    CR_AOT_OF_OUTPUT,       /* a view of result `of` */
    CR_AOT_OF_INTERMEDIATE, /* a view of what the code gives as its result `of`, and nobody else */
    CR_AOT_CONSTANT,        /* a tensor of the program's own, or a view of it */
    CR_AOT_NUMBER,          /* the code's result `of`, a number */
    CR_AOT_KIND_COUNT
} cr_aot_kind;
typedef struct cr_aot_output {
    uint8_t kind;    /* cr_aot_kind */
    bool one_of_many; /* of a call with several views (unbind, split) */
    int32_t of;
    int32_t replayed; /* which result of the epilogue's graph it is; -1: none */
} cr_aot_output;

typedef struct cr_metadata {
    cr_aot_input *inputs;
    cr_aot_output *outputs;
    uint32_t ninputs, noutputs;
    CR_VEC(uint32_t) roots; /* values of the recorded graph that the code gives: results, then roots of views */
    uint32_t nresults;      /* how many of them are results (FRESH, NUMBER) */
    uint16_t *bumps;        /* per root: how often its version count goes up by writes of data */
    cr_graph *epilogue;     /* (inputs, roots that it needs) -> views; writes sizes and strides. NULL: nothing to do */
    CR_VEC(uint32_t) needed; /* the roots among its inputs: indices into `roots` */
    bool any_meta;          /* some call changes sizes or strides of an input */
    char *why;              /* why the program runs as it was recorded, and nothing more is known; NULL: compiled */
} cr_metadata;
/* What a front end has recorded. Borrowed. */
typedef struct cr_recorded {
    cr_graph *graph;            /* as recorded; a placeholder for each distinct input */
    cr_tensor *const *inputs;   /* per placeholder; NULL: a number */
    const int32_t *is_input;    /* per output: the input that it is; -1: none */
    bool no_grad;               /* it is called with grad mode off: nothing is differentiated */
} cr_recorded;
/* The recorded graph with calls that give tensors other memory (resize_, set_, out=) written otherwise, as far as that
 * can be; NULL: it has none. CR_ERUNTIME: out= where gradients are recorded. (memory.c) */
CR_NODISCARD cr_status cr_settle_memory(const cr_graph *g, cr_tensor *const *inputs, cr_graph **out);
/* CR_EUNSUPPORTED naming an op (set_, resize_) that stayed. */
CR_NODISCARD cr_status cr_metadata_find(const cr_recorded *r, cr_metadata *out);
void cr_metadata_dispose(cr_metadata *m);
void cr_metadata_print(const cr_metadata *m, cr_str *out);

/* ---- compilers ---- */
typedef enum cr_aot_role { CR_AOT_FORWARD, CR_AOT_BACKWARD, CR_AOT_INFERENCE } cr_aot_role;
typedef struct cr_aot_code {
    /* As cr_plan_run, with grad mode off: results are the caller's. */
    cr_status (*run)(void *code, const cr_arg *inputs, size_t n, cr_arg *results, size_t nresults);
    void (*release)(void *code);
    void *code;
} cr_aot_code;
typedef struct cr_aot_compiler {
    cr_status (*compile)(void *user, cr_aot_role role, cr_graph *g, cr_aot_code *out); /* NULL: the interpreter */
    cr_partition_options partition;
    void (*release)(void *user); /* NULL: nothing to do */
    void *user;
} cr_aot_compiler;
/* The interpreter, as a compiler. */
CR_NODISCARD cr_status cr_aot_interpret(cr_graph *g, cr_aot_code *out);

/* ---- compiled programs (aot.c, epilogue.c) ---- */
typedef struct cr_aot cr_aot;
/* Takes over compiler->user, also on failure. CR_EUNSUPPORTED: what is written has no functional form. Else as
 * cr_differentiate. */
CR_NODISCARD cr_status cr_aot_create(const cr_recorded *r, const cr_aot_compiler *compiler, cr_aot **out);
/* The program as it was recorded, on the eager tape: what stands for one that cr_aot_create refuses by CR_EUNSUPPORTED.
 * why: what it said. Inputs may lie in any way. */
CR_NODISCARD cr_status cr_aot_replay(const cr_recorded *r, const char *why, cr_aot **out);
void cr_aot_retain(cr_aot *a);
void cr_aot_release(cr_aot *a);
const cr_metadata *cr_aot_metadata(const cr_aot *a);
/* Of the first compilation; borrowed. NULL: nothing is differentiated, or the program is replayed. */
const cr_joint *cr_aot_joint(const cr_aot *a);
cr_graph *cr_aot_functional(const cr_aot *a); /* before it was differentiated; borrowed; NULL: it is replayed */
/* On tensors that are shared and require grad as those were with which it was made. One result per output
 * of the recorded graph, owned. Errors are those of the same program run eagerly. *wrote (NULL: nobody asks): it began
 * to write to the inputs; while it is false a call that failed may be made again in another way. */
CR_NODISCARD cr_status cr_aot_call(cr_aot *a, const cr_arg *inputs, size_t n, cr_arg *results, bool *wrote);

/* The name of a value that gradients are computed from although the recorded program writes over it later, which eager
 * code refuses in a walk back; NULL: there is none. `j` is of the program's functional form and owns the name. kept,
 * per placeholder, of a program that writes something: the walk reads it as the program leaves it, so that later writes
 * spoil it. CR_EUNSUPPORTED: it is written by x.data, which nobody counts. (stale.c) */
CR_NODISCARD cr_status cr_find_overwritten(cr_graph *recorded, const cr_joint *j, const char **out, bool *kept);
/* A recorded graph without its writes: further outputs, at the end, are new values of the placeholders mutated[i] (room
 * for one per placeholder). `histories`: it will be differentiated. *out is NULL where it writes nothing.
 * CR_EUNSUPPORTED: it has no such form. */
CR_NODISCARD cr_status cr_aot_functional_form(const cr_graph *recorded, bool histories, uint32_t *mutated, size_t *n,
                                              cr_graph **out);

/* ---- one graph, for callers that do the rest themselves (exporting.c) ---- */
typedef struct cr_aot_export {
    cr_graph *graph;   /* (inputs) -> (new values of inputs that are written, results, gradients that are due) */
    uint32_t *mutated; /* the inputs whose new values come first */
    uint32_t nmutated;
    bool *due;         /* per input: is its gradient among the results? */
    bool *live;        /* per result: can it bring a gradient? With a loss only. */
} cr_aot_export;
/* loss: which result has the tangent 1; -1: no gradients. wrt as cr_differentiate's. */
CR_NODISCARD cr_status cr_aot_export_graph(const cr_graph *recorded, const bool *wrt, int64_t loss, cr_aot_export *out);
void cr_aot_export_dispose(cr_aot_export *e);

#endif
