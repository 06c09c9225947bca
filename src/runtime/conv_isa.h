/* conv_isa.h: the inner loops of packed convolutions, one table per instruction set, all reading the same packed
 * weights.
 *
 * Activations are channels-last: the channels of a pixel are dense. Weights are panels of 16 output channels, in which
 * row k = (tap, input channel) holds the 16 numbers that multiply that input; so a run of neighbouring taps in one
 * image row is one run of k in the image and in the panel. f32 only. */
#ifndef CRESSET_CONV_ISA_H
#define CRESSET_CONV_ISA_H

#include "runtime/rt.h"

enum { CONV_LANES = 16 }; /* channels of a panel and of a depthwise block */

/* What is done to a finished sum: enumerator, the name in the op's `act` argument, an expression of vectors x. Dearer
 * ones are rt_post.h's, numbered from CONV_ACT_COUNT on. */
#define CONV_ACTS(X)                                                                                                   \
    X(NONE, "none", x)                                                                                                 \
    X(RELU, "relu", at_least_0(x))                                                                                     \
    X(RELU6, "relu6", at_most_6(at_least_0(x)))                                                                        \
    X(HARDSIGMOID, "hardsigmoid", at_most_6(at_least_0(x + 3.0f)) * (1.0f / 6.0f))                                     \
    X(HARDSWISH, "hardswish", x *at_most_6(at_least_0(x + 3.0f)) * (1.0f / 6.0f))                                      \
    X(GELU, "gelu", gelu_of(x))
typedef enum conv_act {
#define X(ID, name, text) CONV_##ID,
    CONV_ACTS(X)
#undef X
    CONV_ACT_COUNT
} conv_act;

/* k terms: row i of the tile reads a[i * a_row + 0..k), panel p of the weights reads rows b + p * panel + 16 *
 * (0..k). */
typedef struct conv_run { const float *a, *b; int64_t k; } conv_run;

/* A tile of `rows` pixels by `panels` panels: out = in + all runs in order, then + residual (may be NULL) and where
 * `relu` no less than 0; in_row 0 repeats one row (the bias). `ahead`: weights of a later tile, of which one line is
 * fetched into the cache with every term, `ahead_step` bytes further each time. */
typedef struct conv_tile {
    const conv_run *run;
    int64_t runs, a_row, panel;
    const float *in;
    int64_t in_row;
    float *out;
    int64_t out_row;
    const float *residual;
    int64_t residual_row, relu;
    const char *ahead;
    int64_t ahead_step;
} conv_tile;
typedef void conv_tile_fn(int rows, int panels, const conv_tile *tile);

/* y[i][j] = act(y[i][j] + residual[i][j]), i < rows, j < cols, a multiple of 16; act is a conv_act; residual may be
 * NULL. */
typedef void conv_finish_fn(float *y, int64_t y_row, const float *residual, int64_t residual_row, int64_t rows,
                            int64_t cols, int act);

/* Depthwise, one block of 16 channels: x is a padded image of pixels of 16 floats, `x_row` floats from row to row; the
 * weights are [kernel_h][kernel_w][16]. Writes `count` neighbouring pixels, `y_pixel` floats apart; `bias` has 16
 * numbers. */
typedef struct conv_block {
    const float *x, *w, *bias;
    /* dilation_h: rows of x; stride and dilation_w: pixels */
    int64_t x_row, kernel_h, kernel_w, stride, dilation_h, dilation_w;
    float *y;
    int64_t y_pixel, count;
} conv_block;
typedef void conv_block_fn(const conv_block *b);

/* y[j] = the larger of y[j] and x[j], NaN wins; y[j] += x[j]; y[j] *= scale. For pooling over whole pixels. */
typedef void conv_most_fn(float *y, const float *x, int64_t n);
typedef void conv_sum_fn(float *y, const float *x, int64_t n);

/* Winograd's transforms (conv_winograd.h), m = 2 or 4, n = m + 2. Transformed numbers are `pos` floats apart.
 * patches: n x n pixels of `channels` floats, a multiple of 16. weights: `count` times 16 weights of 9 taps, `tap`
 * floats apart. results: m x m pixels: y = transformed back + bias (+ residual), where `relu` no less than 0. */
typedef void conv_patches_fn(int m, const float *x, int64_t row, int64_t pixel, int64_t channels, float *v,
                             int64_t pos);
typedef void conv_weights_fn(int m, const float *w, int64_t tap, int64_t count, float *u, int64_t pos);
typedef struct conv_result {
    const float *bias, *residual;
    int64_t channels, residual_row, residual_pixel, relu;
    float *y;
    int64_t row, pixel;
} conv_result;
typedef void conv_results_fn(int m, const float *s, int64_t pos, const conv_result *r);

typedef struct conv_isa {
    int rows[2]; /* the largest tile of 1 and 2 panels; 0: no such tile */
    conv_tile_fn *tile;
    conv_finish_fn *finish;
    conv_block_fn *block;
    conv_most_fn *most;
    conv_sum_fn *sum;
    conv_patches_fn *patches;
    conv_weights_fn *weights;
    conv_results_fn *results;
} conv_isa;

extern const conv_isa conv_portable;
#if defined(__x86_64__)
extern const conv_isa *const conv_avx2, *const conv_avx512; /* NULL when not compiled for that set */
#endif
/* The table that belongs to the products' choice. */
const conv_isa *conv_isa_get(void);

#endif
