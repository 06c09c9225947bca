/* lower.h: exported programs as the tables of a compiled model.
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
#include "passes/passes.h"
#include "runtime/rt_model.h"

/* A stretch of the weights: bytes at `data`, which stay valid as long as the lowered programs. */
typedef struct cr_weight { const void *data; uint64_t offset, bytes; } cr_weight;

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
    CR_VEC(struct cr_row_kernel *) kernels; /* loops of RT_STEP_ROWS steps (lower/rows.h), in the arena */
} cr_lowered;

/* after: who watches the passes (cr_pipeline_options); NULL: nobody. names: of the methods, one per program; NULL: the
 * programs' own. */
typedef struct cr_lower_options {
    cr_status (*after)(void *user, const cr_pass *pass, const cr_graph *g, double seconds);
    void *user;
    const char *const *names;
    const cr_fuse_limits *fuse; /* the target's (emit/target.h); NULL: cr_fuse_processor */
} cr_lower_options;
/* The programs become the methods of one model, in order; weights with the same bytes are stored once, and buffers of
 * one name that some method changes are one buffer. CR_EVALUE: such a buffer differs between methods, or two methods
 * have one name. `options` may be NULL. */
CR_NODISCARD cr_status cr_lower(cr_program *const *programs, size_t n, const cr_lower_options *options,
                                cr_lowered **out);
void cr_lowered_release(cr_lowered *l); /* NULL is legal */
/* All weights in one block of l->model.weight_bytes bytes; free with cr_free. */
CR_NODISCARD cr_status cr_lowered_weights(const cr_lowered *l, uint8_t **out);

#endif
