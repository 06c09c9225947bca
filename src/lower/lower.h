/* lower.h: exported programs, and graphs as they are, as the tables of a compiled model.
 *
 *     cr_lowered *l;
 *     CR_TRY(cr_lower(&program, 1, NULL, &l)); -- runs the passes, plans memory, makes steps
 *     l->model ...                             -- run here, or printed as C by src/emit
 *     cr_lowered_release(l);
 *
 * Everything that the interpreter runs lowers: what has no better way calls its runtime kernel. CR_EUNSUPPORTED lists
 * all ops that have no way at all, with the user's source lines. */
#ifndef CR_LOWER_H
#define CR_LOWER_H

#include "export/program.h"
#include "export/train.h"
#include "passes/passes.h"
#include "runtime/rt_model.h"

/* A stretch of the weights: bytes at `data`, which stay valid as long as the lowered programs. */
typedef struct cr_weight { const void *data; uint64_t offset, bytes; } cr_weight;

/* An input of a method that is a live weight: a tensor that is read, and perhaps written, where it lies in each run. */
typedef struct cr_live_input { int32_t method, input; cr_tensor *tensor; } cr_live_input;

typedef struct cr_lowered {
    cr_arena arena;            /* all tables */
    rt_library library;        /* api and model */
    rt_model model;
    const cr_weight *weights;  /* by offset; gaps are zero */
    size_t nweights;
    cr_program **programs;     /* retained */
    size_t nprograms;
    CR_VEC(cr_tensor *) made;  /* constants that lowering made; owned */
    CR_VEC(cresset_op_need) needs; /* custom operators that steps call */
    CR_VEC(cr_graph *) graphs; /* after all passes: they own the constants that passes made */
    CR_VEC(cr_live_input) live; /* of graphs that were lowered as they are; tensors retained */
    CR_VEC(struct cr_row_kernel *) kernels; /* loops of RT_STEP_ROWS steps (lower/rows.h), in the arena */
} cr_lowered;

/* after: who watches the passes (cr_pipeline_options); NULL: nobody. names: of the methods, one per program; NULL: the
 * programs' own. */
typedef struct cr_lower_options {
    cr_status (*after)(void *user, const cr_pass *pass, const cr_graph *g, double seconds);
    void *user;
    const char *const *names;
    const cr_fuse_limits *fuse; /* the target's (emit/target.h); NULL: cr_fuse_processor */
    /* the first programs are its own: the library trains. NULL: it does not */
    const cr_training *train;
} cr_lower_options;
/* The programs become the methods of one model, in order; weights with the same bytes are stored once, and buffers of
 * one name that some method changes are one buffer. CR_EVALUE: such a buffer differs between methods, or two methods
 * have one name. `options` may be NULL. */
CR_NODISCARD cr_status cr_lower(cr_program *const *programs, size_t n, const cr_lower_options *options,
                                cr_lowered **out);
/* A graph as it is: its placeholders, in order, are the inputs of a method, its outputs the results. What it writes to
 * placeholders it writes to the caller's memory. No values reach the tables: one that changes between runs, as the
 * weights of a model in training do, needs no lowering anew, and none is folded, packed or stored. */
typedef struct cr_lower_graph {
    cr_graph *graph;        /* retained; must not be edited any more */
    const char *name;       /* of the method; NULL: "forward" */
    cr_tensor *const *live; /* one per placeholder: the tensor that it is in every run, or NULL; NULL: none is */
} cr_lower_graph;
/* The graphs become the methods of one model, in order; options->names is not read. CR_EVALUE: a live tensor of another
 * dtype, rank or sizes than its placeholder, or two methods of one name. */
CR_NODISCARD cr_status cr_lower_graphs(const cr_lower_graph *graphs, size_t n, const cr_lower_options *options,
                                       cr_lowered **out);
/* Fills in those of a method's inputs that are live, as their tensors are now: before every run. `inputs`: one per
 * placeholder. */
void cr_lowered_bind(const cr_lowered *l, int32_t method, cresset_value *inputs);
void cr_lowered_release(cr_lowered *l); /* NULL is legal */
/* All weights in one block of l->model.weight_bytes bytes; free with cr_free. */
CR_NODISCARD cr_status cr_lowered_weights(const cr_lowered *l, uint8_t **out);

#endif
