/* rt_fft.h: discrete Fourier transforms of lines, in the dtype of their numbers (f32 or f64). The sign of the exponent
 * is minus; an inverse transform is one of exchanged real and imaginary parts, exchanged again.
 *
 * k_fft.c makes plans and shares lines between threads; the arithmetic is in rt_fft_passes.h and rt_fft_lines.h,
 * compiled for each dtype and instruction set. Tables of a plan hold numbers of its dtype. */
#ifndef CRESSET_RT_FFT_H
#define CRESSET_RT_FFT_H

#include "runtime/rt.h"

enum { FFT_MOST_FACTORS = 64, FFT_BLOCK = 32, FFT_FETCHED = 1 << 15 };

/* What is needed for one length. */
typedef struct fft_plan {
    int dtype; /* RT_F32 or RT_F64 */
    int64_t n;
    int factor[FFT_MOST_FACTORS], nfactors; /* -1: see `inner` */
    void *table;                            /* n cosines of 2 pi k / n, then n sines */
    /* A single line is the matrix [first->n][second->n], whose columns are transformed, turned by 2 pi i k / n (a
     * matrix of cosines, one of sines), transposed and transformed again. NULL where n is too short or has no such
     * factors. width: columns that are transformed at a time, 0 for all of them. */
    struct fft_plan *first, *second;
    int64_t width;
    void *turns;
    /* Bluestein, for a large prime factor: a longer transform of a power of two, the chirp (n cosines and n sines) and
     * its transform (inner->n real and as many imaginary parts). */
    struct fft_plan *inner;
    void *chirp, *filter;
} fft_plan;

/* All lines of a tensor along one dimension; strides in complex or real numbers, as the side has them. */
typedef struct fft_axis {
    const rt_ctx *ctx;
    const rt_view *in, *out;
    const fft_plan *plan;
    int dim;
    int64_t n, out_n; /* length, and how many numbers are written of it */
    /* The other half of real numbers' transform is the conjugate. Where their number is even, neighbours become one
     * complex number, the transform is half as long, and `ends` (cosines and sines of 2 pi k / n, n / 2 of each) makes
     * of it the whole one. */
    bool inverse, from_real, to_real, paired;
    const void *ends;
    double scale;
    int64_t lines, block;           /* block: lines that are transformed together */
    int order[RT_MAX_RANK], norder; /* the other dims, closest in memory last */
} fft_axis;

/* Lines [first, first + count) of the axis, count <= block. memory: rt__fft_room(plan, block) numbers. */
typedef void rt_fft_lines_fn(const fft_axis *a, void *memory, int64_t first, int64_t count);
/* The filter of a plan, n' real parts and then as many imaginary ones, is transformed. memory: rt__fft_room(inner, 1)
 * numbers. */
typedef void rt_fft_filter_fn(const fft_plan *p, void *memory);

/* Numbers in each of the four parts of a block's memory, whole cache lines; behind them is room for a few columns. */
static inline int64_t rt__fft_part(const fft_plan *p, int64_t block) {
    return (((p->inner ? p->inner->n : p->n) + 1) * block + 15) / 16 * 16;
}
static inline int64_t rt__fft_room(const fft_plan *p, int64_t block) {
    const fft_plan *line = p->inner ? p->inner : p;
    int64_t rows = !line->width ? 0 : line->first->n > line->second->n ? line->first->n : line->second->n;
    return 4 * (rt__fft_part(p, block) + rows * line->width);
}

#define FFT_DECLARE(set)                                              \
    rt_fft_lines_fn rt__fft_lines_f32_##set, rt__fft_lines_f64_##set; \
    rt_fft_filter_fn rt__fft_filter_f32_##set, rt__fft_filter_f64_##set;
FFT_DECLARE(base)
FFT_DECLARE(avx2)
FFT_DECLARE(avx512)

#endif
