/* rt_factor_avx2.c: factorisations, compiled for AVX2. */
#define FACTOR_TABLE rt__factor_loops_avx2
#include "runtime/rt_factor_set.h"
