/* rt_post_avx2.c: the epilogue loops, compiled for AVX2. */
#define POST_TABLE rt__post_avx2
#define POST(name) rt__post_avx2_##name
#include "runtime/rt_post_loops.h"
