/* rt_factor_avx512.c: factorisations, compiled for AVX-512. */
#define FACTOR_TABLE rt__factor_loops_avx512
#include "runtime/rt_factor_set.h"
