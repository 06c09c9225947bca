/* rt_optim_avx2.c: the optimizers' loops, compiled for AVX2. */
#define OPTIM(name) rt__optim_##name##_avx2
#include "runtime/rt_optim_loops.h"
