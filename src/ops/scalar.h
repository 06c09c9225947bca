/* scalar.h: pointwise rows. A row's `.scalar` text is compiled to a block program (runtime/rt_block.h) per dtype and
 * per outcome of the text's static conditions; programs are kept for the life of the process.
 *
 *     "self + alpha * other"       tensors, and numbers (Scalar, float, int arguments) as constants
 *     "self > 0 ? self : 0"        a choice per element
 *     "alpha == 1 ? self + other : fma(other, alpha, self)"
 *                                  static: numbers compared with numbers, strings with strings, `x is none`, bool
 *                                  arguments, is_complex / is_float / is_integral / is_bool of a tensor (the common
 *                                  dtype) or of a number (how it was written), zero_dim(x) and holds_integers(x)
 *                                  (its own dtype) of a tensor
 *     "mask ? value : self"        a tensor used as a truth value is not promoted: any dtype, non-zero is true
 *     "self * wide(other)"         a lone number keeps its own precision instead of being rounded to the common dtype
 *     "self < narrow(other)"       a number argument, or an intermediate value, rounded to the common dtype
 *
 * Operators: + - * / // % ^ (power) ~ & | << >> comparisons, `and or !` on truth values. Calls are instructions by
 * name; real, imag, conj, sgn also take real operands. The computation runs in the class of the common dtype. */
#ifndef CR_SCALAR_H
#define CR_SCALAR_H

#include "ops/op.h"
#include "runtime/rt_block.h"

/* Fills `out` (views of the results). `args`: of the functional op, tensors concrete. Thread-safe. */
CR_NODISCARD cr_status cr_scalar_run(const cr_op *op, int common, const cr_arg *args, const rt_view *out, int nout);

/* The program behind a call: `input[i]` and `constant[i]` are the parameters that its ports read. Borrowed.
 * A number may be symbolic: the program then serves every value. CR_EUNSUPPORTED: no program does. */
typedef struct cr_scalar_program { rt_program program; const uint8_t *input, *constant; } cr_scalar_program;
CR_NODISCARD cr_status cr_scalar_get(const cr_op *op, int common, const cr_arg *args, const cr_scalar_program **out);

#endif
