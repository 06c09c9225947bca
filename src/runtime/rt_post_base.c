/* rt_post_base.c: the epilogue loops, compiled for every processor. */
#define POST_TABLE rt__post_base
#define POST(name) rt__post_base_##name
#include "runtime/rt_post_loops.h"
