/* call.h: the working state of one op call, shared by call.c and its helpers. Internal to src/ops. */
#ifndef CR_CALL_H
#define CR_CALL_H

#include "ops/op.h"

typedef struct cr_call_frame {
    const cr_op *op, *base;
    const cr_arg *given;       /* as the caller passed them */
    cr_arg args[CR_MAX_PARAMS]; /* of the functional op; numbers in tensor slots are 0-d tensors */
    cr_rule rule;
    cr_tensor **outs;          /* owned references, one per rule output (NULL: none or a number) */
    cr_tensor **targets;       /* borrowed: where in-place and out variants must leave result i */
    int nouts;
    cr_tensor *temps[4];       /* owned: wrapped numbers */
    int ntemps;
    bool fake;
    cr_env *env;
    const rt_arg *kernel_args;
    int64_t count[RT_MAX_RANK];
    cr_arena arena;
    size_t used;
    _Alignas(16) char bytes[CR_LIMIT(4096, 64)];
} cr_call_frame;

/* A runtime code and message as a status. */
cr_status cr__kernel_status(int code, const char *op, const char *message);
/* rt_copy between tensors. */
cr_status cr__copy_tensor(cr_tensor *to, const cr_tensor *from);

/* The tensors that the schema marks as written, in lists too, have a new version. */
void cr__bump_written(const cr_schema *s, const cr_arg *args);

cr_status cr_scalar_run(const cr_op *op, int common, const cr_arg *args, const rt_view *out, int nout);

#endif
