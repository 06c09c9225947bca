/* rt_post.h: what happens to the sums of a product between the tile and the store.
 *
 *     y = act(sum + bias) * scale + residual
 *
 * Each step rounds as the op of that name does (no fused operations, the polynomials of rt_fmath.h), so that a fused
 * activation has the bits of a separate one. Runs on tiles that are still in the nearest cache. f32 only. */
#ifndef CRESSET_RT_POST_H
#define CRESSET_RT_POST_H

#include "runtime/rt.h"

/* name, expression in a. */
#define RT_ACTS(X)                                                                                                     \
    X(none, a)                                                                                                         \
    X(relu, 0.0f > a ? 0.0f : a)                                                                                       \
    X(gelu, rt_gelu_f32(a))                                                                                            \
    X(gelu_tanh, 0.5f * a * (1.0f + rt_tanh_f32(0.7978845608028654f * (a + 0.044715f * a * a * a))))                   \
    X(silu, a / (1.0f + rt_exp_f32(-a)))                                                                               \
    X(sigmoid, rt_sigmoid_f32(a))                                                                                      \
    X(tanh, rt_tanh_f32(a))                                                                                            \
    X(hardswish, a * rt__clamp6(a + 3.0f) / 6.0f)                                                                      \
    X(hardsigmoid, rt__clamp6(a + 3.0f) / 6.0f)
typedef enum rt_act {
#define X(name, ...) RT_ACT_##name,
    RT_ACTS(X)
#undef X
    RT_ACT_COUNT
} rt_act;
/* By name ("gelu_tanh"); -1: no such activation. */
int rt_act_find(const char *name);

/* Zero: nothing to do. Rows of `scale` and `residual` may be 0 apart (one row for all); their columns are dense. */
typedef struct rt_post {
    const float *bias;
    int act; /* rt_act */
    const float *scale;
    int64_t scale_row;
    const float *residual;
    int64_t residual_row;
} rt_post;
static inline bool rt_post_is_empty(const rt_post *p) { return !p->bias && !p->act && !p->scale && !p->residual; }

/* Rows [i, i + rows) and columns [j, j + cols) of the result, at `tile`, whose rows are `tile_row` apart. */
void rt_post_run(const rt_post *p, float *tile, int64_t tile_row, int64_t i, int64_t rows, int64_t j, int64_t cols);

/* ---- for rt_post.c: one table per instruction set ---- */
/* y = act(y + bias) for `rows` rows of n elements, `row` apart; bias may be NULL. */
typedef void rt_act_fn(float *y, int64_t row, int64_t rows, const float *bias, int64_t n);
/* y[j] = y[j] * scale[j] + residual[j]; either may be NULL. */
typedef void rt_blend_fn(float *y, const float *scale, const float *residual, int64_t n);
/* Attention: x[j] = -inf where mask[j] is 0. */
typedef void rt_hide_fn(float *x, const uint8_t *mask, int64_t n);
/* The gates of recurrent cells (k_rnn.c), n units of one sequence. x and z: what the input and the state before give
 * for each gate, gates x_gate and z_gate apart: in, forget, cell, out, or reset, update, new. */
typedef void rt_lstm_fn(const float *x, int64_t x_gate, const float *z, int64_t z_gate, int64_t n, float *c, float *h);
typedef void rt_gru_fn(const float *x, int64_t x_gate, const float *z, int64_t z_gate, int64_t n, const float *before,
                       float *h);
typedef struct rt_post_isa {
    rt_act_fn *act[RT_ACT_COUNT];
    rt_blend_fn *blend;
    rt_hide_fn *hide;
    rt_lstm_fn *lstm;
    rt_gru_fn *gru;
} rt_post_isa;
extern const rt_post_isa rt__post_base, rt__post_avx2, rt__post_avx512;
const rt_post_isa *rt__post_get(void);

#endif
