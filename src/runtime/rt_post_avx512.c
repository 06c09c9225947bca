/* rt_post_avx512.c: the epilogue loops, compiled for AVX-512. */
#define POST_TABLE rt__post_avx512
#define POST(name) rt__post_avx512_##name
#include "runtime/rt_post_loops.h"
