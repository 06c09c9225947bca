/* rt_post_base.c: the epilogue loops, compiled for every processor. */
#define POST_TABLE rt__post_base
#include "runtime/rt_post_loops.h"
