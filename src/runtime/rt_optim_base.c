/* rt_optim_base.c: the optimizers' loops, compiled for every processor. */
#define OPTIM(name) rt__optim_##name##_base
#include "runtime/rt_optim_loops.h"
