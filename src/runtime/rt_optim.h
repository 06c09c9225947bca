/* rt_optim.h: one step of an optimizer over dense elements.
 *
 * Each operation rounds as the op that the plain step calls for it (fused multiply-add where add, addcmul and lerp have
 * it), so that a fused step has the bits of a plain one. The numbers are rounded to the elements' width once. Memory of
 * different tensors does not overlap. */
#ifndef CRESSET_RT_OPTIM_H
#define CRESSET_RT_OPTIM_H

#include "runtime/rt.h"

enum { RT_OPTIM_TENSORS = 5 }; /* a parameter, its gradient and up to three states */

/* What decays: nothing, the gradient (which then draws to zero), or the parameter itself. */
typedef enum rt_decay { RT_DECAY_NONE, RT_DECAY_GRADIENT, RT_DECAY_WEIGHT } rt_decay;

typedef struct rt_optim {
    double sign;             /* -1: up the gradient */
    rt_decay decay;
    double weight;           /* GRADIENT: the decay; WEIGHT: what the parameter is multiplied by */
    double rate;             /* of the step, with its sign: added to the parameter */
    bool has_momentum, is_first, nesterov, amsgrad;
    double momentum, undamped; /* SGD: undamped = 1 - dampening */
    double mean, square, root, eps; /* Adam: 1 - beta1, beta2, the root's divisor */
} rt_optim;

/* t: the parameter, the gradient, the states in the order of the op's schema; n elements of each. */
typedef void rt_optim_fn(const rt_optim *o, void *const t[RT_OPTIM_TENSORS], int64_t n);
rt_optim_fn rt__optim_sgd_f32_base, rt__optim_sgd_f64_base, rt__optim_adam_f32_base, rt__optim_adam_f64_base,
    rt__optim_adagrad_f32_base, rt__optim_adagrad_f64_base;
rt_optim_fn rt__optim_sgd_f32_avx2, rt__optim_sgd_f64_avx2, rt__optim_adam_f32_avx2, rt__optim_adam_f64_avx2,
    rt__optim_adagrad_f32_avx2, rt__optim_adagrad_f64_avx2;

#endif
