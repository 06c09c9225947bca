/* rt_reduce.h: the engine under every reduction along dimensions.
 *
 * The reduced dimensions are brought to the end, the input becomes rows of the compute class (no copy when it already
 * is), and a row function turns each row of n elements into one result. Rows run in parallel; how rows are split never
 * changes a row's result, so bits do not depend on the thread count. */
#ifndef CRESSET_RT_REDUCE_H
#define CRESSET_RT_REDUCE_H

#include "runtime/rt.h"

/* x: n contiguous elements; out: one result; index: one position or NULL; param: the caller's numbers. */
typedef void rt_row_fn(const void *x, int64_t n, void *out, int64_t *index, const double *param);

typedef struct rt_reduction {
    rt_row_fn *row;
    int compute;       /* dtype of the rows */
    int result;        /* dtype the row function writes */
    const double *param;
    const rt_view *out; /* NULL: not wanted */
    const rt_view *index; /* i64; NULL: not wanted */
} rt_reduction;

/* mask: a bit per reduced dimension of `in`. out and index have the kept dimensions (with or without ones), in order. */
int rt_reduce(const rt_ctx *ctx, const rt_view *in, uint32_t mask, const rt_reduction *r);
/* The mask of a dims argument: absent or empty = all (as rules decided); INT or INTS. */
uint32_t rt_arg_dims(const rt_call *c, int i, int rank);
/* The dtype to compute in: f32 for low-precision floats, i64 (or u64) for integers and bool, complex kept (c32: c64). */
int rt_compute_dtype(int dtype);

/* The view with dimension `dim` moved to the end. */
rt_view rt_view_last(const rt_view *v, int dim);

/* Pairwise sums: error grows with log n. */
float rt_sum_f32(const float *x, int64_t n);
double rt_sum_f64(const double *x, int64_t n);

#endif
