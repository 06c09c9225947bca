/* library.h: operators of your own, written in C, for programs that embed Cresset (link with libcresset).
 *
 *     static int shape(cresset_op_call *call) {                         // what the result looks like: also when sizes are not known yet
 *         const cresset_value *x = &call->args[0];
 *         call->results[0].dtype = x->dtype;
 *         call->results[0].rank = 1;
 *         call->results[0].size[0] = call->add(call, x->size[0], 1);
 *         return CRESSET_OK;
 *     }
 *     static int run(cresset_op_call *call) {                           // fills the results, which are row-major
 *         float *y = call->results[0].data; ...
 *     }
 *     cresset_op_info op = { .struct_size = sizeof op, .schema = "mylib::extended(Tensor x, float last) -> Tensor", .shape = shape, .run = run };
 *     char message[256];
 *     if (cresset_register_op(&op, message, sizeof message)) return fail(message);
 *
 * From then on graphs, archives, the interpreter and Python (cresset.ops.mylib.extended) know the op. Schemas may have tensors, optional tensors, ints, floats, bools and
 * texts as arguments, and tensors as results; an argument marked (a!) is written in place. Functions may be called from several threads at a time.
 * Compiling a model with such an op to native code is refused: the library that comes out could not find the function. */
#ifndef CRESSET_LIBRARY_H
#define CRESSET_LIBRARY_H

#include "cresset/abi.h"

#ifdef __cplusplus
extern "C" {
#endif

#ifndef CRESSET_LIBRARY_API
#define CRESSET_LIBRARY_API __attribute__((visibility("default")))
#endif

enum { CRESSET_OP_MAX_RANK = 16, CRESSET_OP_MAX_ARGS = 40, CRESSET_OP_MAX_RESULTS = 8 };

typedef struct cresset_op_result {
    int32_t dtype, rank;                 /* written by `shape` */
    int64_t size[CRESSET_OP_MAX_RANK];
    void *data;                          /* in `run`: memory for the result, row-major */
} cresset_op_result;

typedef struct cresset_op_call {
    size_t struct_size;
    const char *op;                      /* "mylib::extended" */
    const cresset_value *args;           /* one per parameter, defaults filled in; an optional tensor that is not there is CRESSET_NONE. In `shape`, tensors have no data */
    int32_t nargs;
    cresset_op_result *results;
    int32_t nresults;
    void *user;                          /* of the info */
    char *message;                       /* where a function that fails says why */
    size_t room;
    /* In `shape`, a size may be unknown: a number of the library's own, to be handed on or computed with, never looked at. */
    int64_t (*add)(struct cresset_op_call *call, int64_t a, int64_t b);
    int64_t (*subtract)(struct cresset_op_call *call, int64_t a, int64_t b);
    int64_t (*multiply)(struct cresset_op_call *call, int64_t a, int64_t b);
    int64_t (*divide)(struct cresset_op_call *call, int64_t a, int64_t b); /* rounds down */
    void *owner;                         /* the library's */
} cresset_op_call;

typedef struct cresset_op_info {
    size_t struct_size;
    const char *schema;                  /* copied */
    int (*shape)(cresset_op_call *call); /* both return CRESSET_OK or another code of abi.h, with a message */
    int (*run)(cresset_op_call *call);
    void *user;
} cresset_op_info;

/* CRESSET_BAD_ARGUMENT with a message: a malformed schema, a type that is not supported here, a name that is taken. */
CRESSET_LIBRARY_API int cresset_register_op(const cresset_op_info *info, char *message, size_t room);

#ifdef __cplusplus
}
#endif

#endif
