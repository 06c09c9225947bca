/* library.h: operators of your own, written in C, for programs that embed Cresset (link with libcresset).
 *
 *     static int shape(cresset_op_call *call) {                 // the result's look, also when sizes are not known yet
 *         const cresset_value *x = &call->args[0];
 *         call->results[0].dtype = x->dtype;
 *         call->results[0].rank = 1;
 *         call->results[0].size[0] = call->add(call, x->size[0], 1);
 *         return CRESSET_OK;
 *     }
 *     static int run(cresset_op_call *call) {                   // fills the results, which are row-major
 *         const cresset_value *x = &call->args[0];
 *         const float *from = x->data;
 *         float *to = call->results[0].data;
 *         for (int64_t i = 0; i < x->size[0]; i++) to[i] = from[i * (x->stride ? x->stride[0] : 1)];
 *         to[x->size[0]] = (float)call->args[1].number;
 *         return CRESSET_OK;
 *     }
 *     int main(void) {
 *         cresset_op_info op = { .struct_size = sizeof op, .schema = "mylib::extended(Tensor x, float last) -> Tensor",
 *                                .shape = shape, .run = run };
 *         char message[256];
 *         if (cresset_register_op(&op, message, sizeof message)) return puts(message), 1;
 *         return cr_op_find("mylib::extended") == NULL;
 *     }
 *
 * From then on graphs, archives, the interpreter and Python (cresset.ops.mylib.extended) know the op. Schemas may have
 * tensors, optional tensors, ints, floats, bools and texts as arguments, and tensors as results; an argument marked
 * (a!) is written in place. Functions may be called from several threads at a time.
 *
 * Compiled models call such ops, too: a model that Cresset loads (cresset run, Python) takes the registered functions;
 * a program of your own gives `run` to the model in cresset_options.ops (abi.h).
 *
 * A shared library of operators has one symbol, which `cresset compile --op-library FILE`, cresset_load_ops and, in
 * Python, cresset.library.load_library look for:
 *
 *     static int shape(cresset_op_call *call);
 *     static int run(cresset_op_call *call);
 *     static const cresset_op_info ops[] = {
 *         { sizeof(cresset_op_info), "mylib::extended(Tensor x, float last) -> Tensor", shape, run, NULL },
 *         { 0, NULL, NULL, NULL, NULL }, // an entry of zeros ends the list
 *     };
 *     const cresset_op_info *cresset_ops(uint32_t major) { return major == CRESSET_ABI_MAJOR ? ops : NULL; }
 */
#ifndef CRESSET_LIBRARY_H
#define CRESSET_LIBRARY_H

#include "cresset/abi.h"

#ifdef __cplusplus
extern "C" {
#endif

#ifndef CRESSET_LIBRARY_API
#define CRESSET_LIBRARY_API __attribute__((visibility("default")))
#endif

typedef struct cresset_op_info {
    size_t struct_size;
    const char *schema;                  /* copied */
    int (*shape)(cresset_op_call *call); /* both return CRESSET_OK or another code of abi.h, with a message */
    int (*run)(cresset_op_call *call);
    void *user;
} cresset_op_info;

/* CRESSET_BAD_ARGUMENT with a message: a malformed schema, a type that is not supported here, a name that is taken. */
CRESSET_LIBRARY_API int cresset_register_op(const cresset_op_info *info, char *message, size_t room);

/* The one symbol of a library of operators: its table, ended by an entry without schema; NULL: made for another
 * version. */
const cresset_op_info *cresset_ops(uint32_t major);
/* Opens such a library, which stays loaded, and registers its operators. Again: nothing happens. It is code: opening
 * one that somebody else made runs what they wrote. CRESSET_BAD_ARGUMENT with a message: no such library, or an
 * operator was refused. */
CRESSET_LIBRARY_API int cresset_load_ops(const char *path, char *message, size_t room);

#ifdef __cplusplus
}
#endif

#endif
