/* rt_block_calls.c: instruction loops whose bodies call functions, and integer divisions. */
#define RT_LOOPS_CALLS rt__block_calls
#define RT_LOOP(name) rt__calls_##name
#include "runtime/rt_block_loops.h"
