/* rt_post_loops.h: the loops of one instruction set. Included once by each rt_post_*.c, which defines POST_TABLE, the
 * table's name, and POST, a loop's. Plain loops: the compiler makes vectors of them. */
#include "runtime/rt_fmath.h"
#include "runtime/rt_post.h"

#if defined(__clang__)
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#endif

/* As max(x, 0) and min(x, 6) of block programs: NaN stays. */
static inline float rt__clamp6(float x) {
    float y = x > 0.0f || x != x ? x : 0.0f;
    return y < 6.0f || y != y ? y : 6.0f;
}

#define X(name, ...)                                                                                                   \
    void POST(act_##name)(float *tile, int64_t row, int64_t rows, const float *bias, int64_t n) {                      \
        for (int64_t r = 0; r < rows; r++) {                                                                           \
            float *y = tile + r * row;                                                                                 \
            if (bias) {                                                                                                \
                INDEPENDENT for (int64_t i = 0; i < n; i++) {                                                          \
                    const float a = y[i] + bias[i];                                                                    \
                    y[i] = (__VA_ARGS__);                                                                              \
                }                                                                                                      \
            } else {                                                                                                   \
                INDEPENDENT for (int64_t i = 0; i < n; i++) {                                                          \
                    const float a = y[i];                                                                              \
                    y[i] = (__VA_ARGS__);                                                                              \
                }                                                                                                      \
            }                                                                                                          \
        }                                                                                                              \
    }
RT_ACTS(X)
#undef X

void POST(blend)(float *y, const float *scale, const float *residual, int64_t n) {
    if (scale && residual) {
        INDEPENDENT for (int64_t i = 0; i < n; i++) y[i] = y[i] * scale[i] + residual[i];
    } else if (scale) {
        INDEPENDENT for (int64_t i = 0; i < n; i++) y[i] = y[i] * scale[i];
    } else if (residual) {
        INDEPENDENT for (int64_t i = 0; i < n; i++) y[i] = y[i] + residual[i];
    }
}

void POST(hide)(float *x, const uint8_t *mask, int64_t n) {
    INDEPENDENT for (int64_t i = 0; i < n; i++) {
        const float a = x[i];
        x[i] = mask[i] ? a : -INFINITY;
    }
}

void POST(lstm)(const float *x, int64_t x_gate, const float *z, int64_t z_gate, int64_t n, float *c, float *h) {
    const float *xf = x + x_gate, *xg = x + 2 * x_gate, *xo = x + 3 * x_gate;
    const float *zf = z + z_gate, *zg = z + 2 * z_gate, *zo = z + 3 * z_gate;
    INDEPENDENT for (int64_t i = 0; i < n; i++) {
        float in = rt_sigmoid_f32(x[i] + z[i]), forget = rt_sigmoid_f32(xf[i] + zf[i]);
        float cell = forget * c[i] + in * rt_tanh_f32(xg[i] + zg[i]);
        c[i] = cell;
        h[i] = rt_sigmoid_f32(xo[i] + zo[i]) * rt_tanh_f32(cell);
    }
}

void POST(gru)(const float *x, int64_t x_gate, const float *z, int64_t z_gate, int64_t n, const float *before,
               float *h) {
    const float *xu = x + x_gate, *xn = x + 2 * x_gate, *zu = z + z_gate, *zn = z + 2 * z_gate;
    INDEPENDENT for (int64_t i = 0; i < n; i++) {
        float reset = rt_sigmoid_f32(x[i] + z[i]), update = rt_sigmoid_f32(xu[i] + zu[i]);
        float fresh = rt_tanh_f32(xn[i] + reset * zn[i]);
        h[i] = (before[i] - fresh) * update + fresh;
    }
}

#define X(name, ...) POST(act_##name),
RT_CHOICE const rt_post_isa POST_TABLE = { { RT_ACTS(X) }, POST(blend), POST(hide), POST(lstm), POST(gru) };
#undef X
