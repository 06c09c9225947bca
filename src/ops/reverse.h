/* reverse.h: a small tape over emitter calls, and the reverse walk along it.
 *
 * A tape is an emitter around another one: it carries calls out there and remembers those that watched values flow
 * through. cr_tape_backward walks back, expanding each op's derivative into any emitter; into the tape's own, and the
 * derivative can be differentiated again. It serves ops without a .grad text (their decomposition is differentiated)
 * and the tests that hold every formula against finite differences; eager autograd is built elsewhere on the same
 * formulas.
 *
 *     cr_tape tape;
 *     cr_tape_init(&tape, cr_exec_emitter());
 *     CR_TRY(cr_tape_watch(&tape, &x));
 *     CR_TRY(tape.emitter.call(&tape.emitter, op, args, results));
 *     CR_TRY(cr_tape_backward(&tape, cr_exec_emitter(), results, seeds, 1, &x, 1, &grad));
 *
 * Values are told apart by identity (tensor address, graph value). Caller-owned; one thread. */
#ifndef CR_REVERSE_H
#define CR_REVERSE_H

#include "ops/formula.h"

typedef struct cr_tape_record { const cr_op *op; cr_arg *args, *results; } cr_tape_record;
typedef struct cr_tape {
    cr_emitter emitter;  /* first: the tape is an emitter. Its results: cr_results_release, as exec's */
    cr_emitter *inner;
    CR_VEC(cr_tape_record) records;
    CR_VEC(cr_arg) watched;
    cr_map live;         /* values that depend on watched ones */
    bool recomputes;     /* a second run of a forward pass: random numbers would differ, so they are refused */
} cr_tape;
void cr_tape_init(cr_tape *tape, cr_emitter *inner);
void cr_tape_dispose(cr_tape *tape);
/* From now on, calls that use this tensor (or a tensor of this list) are remembered. Anything else is ignored. */
CR_NODISCARD cr_status cr_tape_watch(cr_tape *tape, const cr_arg *value);
/* Gradients of `wrt` for seeds `grads` (NONE: zero) on `outs`. grad_out: NONE where nothing flows; a LIST for a LIST;
 * cr_results_release. A value that occurs twice in `wrt` gets its whole gradient at its first place. */
CR_NODISCARD cr_status cr_tape_backward(cr_tape *tape, cr_emitter *into, const cr_arg *outs, const cr_arg *grads,
                                        size_t nouts, const cr_arg *wrt, size_t nwrt, cr_arg *grad_out);

/* cr_grad_expand on tensors: one op's gradients, computed now. */
CR_NODISCARD cr_status cr_reverse(const cr_op *op, const cr_arg *args, const cr_arg *results,
                                         const cr_arg *grads, const bool *needs, cr_arg *grad_out);
/* Runs the op and walks back: results and gradients of one call. Unlike a cr_call and a cr_reverse, a composite op is
 * not computed twice, so that it may draw random numbers. */
CR_NODISCARD cr_status cr_reverse_call(const cr_op *op, const cr_arg *args, const cr_arg *grads,
                                              const bool *needs, cr_arg *results, cr_arg *grad_out);
/* Second order. With g = the gradients of the needed arguments for seeds `grads`, and s = sum over p of <g[p],
 * weights[p]>:
 * the gradients of s with respect to the arguments (grad_args, nparams) and to the seeds (grad_seeds, nreturns). Runs
 * the forward pass itself. Everything handed out: cr_results_release. */
CR_NODISCARD cr_status cr_reverse_twice(const cr_op *op, const cr_arg *args, const cr_arg *grads,
                                               const bool *needs, const cr_arg *weights, cr_arg *grad_args,
                                               cr_arg *grad_seeds);

#endif
