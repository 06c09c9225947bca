/* ops.c: a library of operators: one of them, which lets no element be further from 0 than a limit, and counts those
 * that were.
 *
 *     cc -shared -fPIC -O2 -I include examples/custom_op/ops.c -o libops.so
 *     cresset compile model.pt2 -o libmodel.so --op-library ./libops.so
 *     cresset run libmodel.so --random --op-library ./libops.so
 */
#include "cresset/library.h"

#include <stdio.h>

/* What the results look like. Sizes may be unknown here: they are handed on, never looked at. */
static int shape(cresset_op_call *call) {
    const cresset_value *x = &call->args[0];
    call->results[0].dtype = x->dtype;
    call->results[0].rank = x->rank;
    for (int d = 0; d < x->rank; d++) call->results[0].size[d] = x->size[d];
    call->results[1].dtype = CRESSET_I64;
    call->results[1].rank = 0;
    return CRESSET_OK;
}

/* Fills the results, which are row-major; arguments may have any strides. Exported: the program in host.c gives it to
 * the model itself. */
int clipped(cresset_op_call *call) {
    const cresset_value *x = &call->args[0];
    double limit = call->args[1].number;
    if (x->dtype != CRESSET_F32 || limit < 0) {
        if (call->message)
            snprintf(call->message, call->room, "x must be float32 and the limit not negative, which is %g", limit);
        return CRESSET_RUN_FAILED;
    }
    const float *from = x->data;
    float *to = call->results[0].data;
    int64_t *count = call->results[1].data, n = 1, index[CRESSET_OP_MAX_RANK] = { 0 };
    for (int d = 0; d < x->rank; d++) n *= x->size[d];
    *count = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t at = 0;
        for (int d = 0; d < x->rank; d++) at += index[d] * x->stride[d];
        float value = from[at], cut = value > limit ? (float)limit : value < -limit ? (float)-limit : value;
        *count += cut != value;
        to[i] = cut;
        for (int d = x->rank - 1; d >= 0 && ++index[d] == x->size[d]; d--) index[d] = 0;
    }
    return CRESSET_OK;
}

static const cresset_op_info ops[] = {
    { .struct_size = sizeof ops[0],
      .schema = "example::clipped(Tensor x, float limit) -> (Tensor, Tensor)",
      .shape = shape,
      .run = clipped },
    { 0 },
};

CRESSET_LIBRARY_API const cresset_op_info *cresset_ops(uint32_t major) {
    return major == CRESSET_ABI_MAJOR ? ops : NULL;
}
