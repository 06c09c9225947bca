/* rt_reduce.h: the engine under every reduction along dimensions.
 *
 * Reduced elements are folded into a state per result. A long row is cut into blocks, whose states are joined in order;
 * rows, blocks and groups of adjacent columns run in parallel. How work is cut depends on shapes and strides alone, so
 * bits do not depend on the thread count. No copy of the input is made: what is not contiguous or has another dtype
 * goes through a small buffer. */
#ifndef CRESSET_RT_REDUCE_H
#define CRESSET_RT_REDUCE_H

#include "runtime/rt.h"

/* What has been folded so far: n elements, and what the reducer keeps of them. Zero is "nothing yet". */
typedef struct rt_folded {
    int64_t n, at; /* at: a position in the row */
    union { double f[4]; int64_t i; uint64_t u; } as;
} rt_folded;

typedef struct rt_reducer {
    /* Adds n >= 1 contiguous elements that stand at positions s->n and on; the engine counts s->n itself. */
    void (*fold)(rt_folded *s, const void *x, int64_t n, const double *param);
    /* Adds what was folded of later positions; neither side is empty. */
    void (*join)(rt_folded *s, const rt_folded *later, const double *param);
    /* One result; index: one position or NULL. s->n may be 0. */
    void (*finish)(const rt_folded *s, void *out, int64_t *index, const double *param);
    /* Optional, for reductions that want no index: as folding column by column x's `count` rows of `width` elements,
     * which are `step` apart; counts s->n. */
    void (*columns)(rt_folded *s, int width, const void *x, int64_t step, int64_t count, const double *param);
    /* Blocks of rows are four times as long: products become too small to be normal in each of them anew, and such
     * numbers take a processor a hundred times as long. */
    bool long_blocks;
} rt_reducer;

typedef struct rt_reduction {
    const rt_reducer *reducer;
    int compute; /* dtype that is folded */
    int result;  /* dtype that `finish` writes */
    const double *param;
    const rt_view *out;   /* NULL: not wanted */
    const rt_view *index; /* i64; NULL: not wanted */
} rt_reduction;

/* mask: a bit per reduced dimension of `in`. out and index have the kept dimensions (with or without ones), in
 * order. */
int rt_reduce(const rt_ctx *ctx, const rt_view *in, uint32_t mask, const rt_reduction *r);
/* The mask of a dims argument: absent or empty = all (as rules decided); INT or INTS. */
uint32_t rt_arg_dims(const rt_call *c, int i, int rank);
/* The dtype to compute in: f32 for low-precision floats, i64 (or u64) for integers and bool, complex kept (c32:
 * c64). */
int rt_compute_dtype(int dtype);

/* The view with dimension `dim` moved to the end. */
rt_view rt_view_last(const rt_view *v, int dim);

/* Pairwise sums: error grows with log n. */
float rt_sum_f32(const float *x, int64_t n);
double rt_sum_f64(const double *x, int64_t n);
/* Of n >= 1 floats (rt_floats.c): a NaN where there is one, else the largest, or smallest; the product. */
float rt_largest_f32(const float *x, int64_t n);
float rt_smallest_f32(const float *x, int64_t n);
float rt_product_f32(const float *x, int64_t n);

#endif
