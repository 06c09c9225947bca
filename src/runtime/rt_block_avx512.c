/* rt_block_avx512.c: the vectorisable instruction loops, compiled for AVX-512. */
#define RT_LOOPS_FAST rt__block_avx512
#define RT_LOOP(name) rt__avx512_##name
#include "runtime/rt_block_loops.h"
