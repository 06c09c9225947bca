/* rt_block_base.c: the vectorisable instruction loops for any machine. */
#define RT_LOOPS_FAST rt__block_base
#include "runtime/rt_block_loops.h"
