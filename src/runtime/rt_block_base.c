/* rt_block_base.c: the vectorisable instruction loops for any machine. */
#define RT_LOOPS_FAST rt__block_base
#define RT_LOOP(name) rt__base_##name
#include "runtime/rt_block_loops.h"
