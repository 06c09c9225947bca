/* rt_block_avx2.c: the vectorisable instruction loops, compiled for AVX2. */
#define RT_LOOPS_FAST rt__block_avx2
#define RT_LOOP(name) rt__avx2_##name
#include "runtime/rt_block_loops.h"
