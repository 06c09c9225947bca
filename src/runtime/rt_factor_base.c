/* rt_factor_base.c: factorisations, compiled for any machine. */
#define FACTOR_TABLE rt__factor_loops_base
#include "runtime/rt_factor_set.h"
