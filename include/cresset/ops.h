/* ops.h: ATen's operators by name.
 *
 *     const int64_t size[] = { 2, 3 };
 *     cr_tensor *x;
 *     cr_arg sum;
 *     if (cr_tensor_fake(CR_F32, 2, size, &x)) return fail(cr_error_message());
 *     cr_arg args[] = { cr_arg_tensor(x), cr_arg_int(1) };
 *     cr_keyword keep = { "keepdim", cr_arg_bool(true) };
 *     if (cr_op_call("aten::sum", args, 2, &keep, 1, CR_CALL_FAKE, &sum, 1)) return fail(cr_error_message());
 *     printf("%s\n", cr_op_schema(cr_op_find("aten::sum.dim_IntList")));
 *     cr_results_release(&sum, 1);
 *     cr_tensor_release(x);
 *
 * Ops live as long as the process. Callable from any thread. Operators of your own: library.h. */
#ifndef CRESSET_OPS_H
#define CRESSET_OPS_H

#include "cresset/arg.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cr_op cr_op;
/* The table is built on first use. CR_ENOMEM, or CR_EFORMAT when a row is malformed (a damaged library). */
CR_API CR_NODISCARD cr_status cr_ops_init(void);
CR_API size_t cr_op_count(void);
CR_API const cr_op *cr_op_at(size_t i);
/* By full name "aten::add.Tensor", "aten.add.Tensor", "aten::relu" or "aten.relu.default"; NULL when absent. */
CR_API const cr_op *cr_op_find(const char *name);
CR_API const char *cr_op_name(const cr_op *op);    /* "aten::relu" */
CR_API const char *cr_op_schema(const cr_op *op);  /* "aten::relu(Tensor self) -> Tensor" */
CR_API size_t cr_op_result_count(const cr_op *op); /* a Tensor[] is one result */

typedef struct cr_keyword { const char *name; cr_arg value; } cr_keyword;
enum { CR_CALL_REAL = 0, CR_CALL_FAKE = 1 /* results have no data, whatever the arguments are */ };
/* Calls an op as Python would: "aten::add" picks the overload that fits, "aten::add.Tensor" is that one; missing
 * arguments get their defaults, numbers become tensors where the schema asks for them. One fake tensor makes the call
 * fake. CR_ENOTFOUND: no such op; CR_ETYPE lists what was given and the overloads that exist; CR_EVALUE: `nresults`
 * is not the op's; CR_EDATADEP: a fake call of an op that gives a number out of data; else what the op says
 * (CR_ERUNTIME, CR_EINDEX, ...). Results are owned: cr_results_release. */
CR_API CR_NODISCARD cr_status cr_op_call(const char *name, const cr_arg *args, size_t nargs, const cr_keyword *keywords,
                                         size_t nkeywords, int flags, cr_arg *results, size_t nresults);

#ifdef __cplusplus
}
#endif
#endif
