/* rt_optim_loops.h: the loops of one instruction set. Included once by each rt_optim_*.c, which defines OPTIM, a loop's
 * name. Options are constants inside of a loop, so that the compiler makes vectors without branches. */
#include "runtime/rt_optim.h"

#include <math.h>

#if defined(__clang__)
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#endif
#define INLINE static inline __attribute__((always_inline))

/* Calls `loop` with the options as constants. */
#define WITH_DECAY(loop, ...)                                                                                          \
    {                                                                                                                  \
        if (o->decay == RT_DECAY_GRADIENT) loop(o, t, n, RT_DECAY_GRADIENT, ##__VA_ARGS__);                            \
        else loop(o, t, n, RT_DECAY_NONE, ##__VA_ARGS__);                                                              \
    }
#define WITH_ANY_DECAY(loop, ...)                                                                                      \
    if (o->decay == RT_DECAY_WEIGHT) loop(o, t, n, RT_DECAY_WEIGHT, ##__VA_ARGS__);                                    \
    else WITH_DECAY(loop, ##__VA_ARGS__)

#define LOOPS(T, F, K)                                                                                                 \
    INLINE T decayed_##K(T g, T p, T weight, rt_decay decay) {                                                         \
        return decay == RT_DECAY_GRADIENT ? fma##F(p, weight, g) : g;                                                  \
    }                                                                                                                  \
                                                                                                                       \
    INLINE void sgd_##K(const rt_optim *o, void *const *t, int64_t n, rt_decay decay, bool moves, bool first,          \
                        bool nesterov) {                                                                               \
        T *p = t[0], *buffer = t[2];                                                                                   \
        const T *grad = t[1];                                                                                          \
        const T sign = (T)o->sign, weight = (T)o->weight, rate = (T)o->rate, momentum = (T)o->momentum;                \
        const T undamped = (T)o->undamped;                                                                             \
        INDEPENDENT for (int64_t i = 0; i < n; i++) {                                                                  \
            T g = decayed_##K(sign * grad[i], p[i], weight, decay);                                                    \
            if (moves) {                                                                                               \
                const T b = first ? g : fma##F(g, undamped, buffer[i] * momentum);                                     \
                buffer[i] = b;                                                                                         \
                g = nesterov ? fma##F(b, momentum, g) : b;                                                             \
            }                                                                                                          \
            p[i] = fma##F(g, rate, p[i]);                                                                              \
        }                                                                                                              \
    }                                                                                                                  \
                                                                                                                       \
    void OPTIM(sgd_##K)(const rt_optim *o, void *const t[RT_OPTIM_TENSORS], int64_t n) {                               \
        if (!o->has_momentum) WITH_DECAY(sgd_##K, false, false, false)                                                 \
        else if (o->is_first && o->nesterov) WITH_DECAY(sgd_##K, true, true, true)                                     \
        else if (o->is_first) WITH_DECAY(sgd_##K, true, true, false)                                                   \
        else if (o->nesterov) WITH_DECAY(sgd_##K, true, false, true)                                                   \
        else WITH_DECAY(sgd_##K, true, false, false)                                                                   \
    }                                                                                                                  \
                                                                                                                       \
    INLINE void adam_##K(const rt_optim *o, void *const *t, int64_t n, rt_decay decay, bool amsgrad, bool slow) {      \
        T *p = t[0], *mean = t[2], *square = t[3], *most = t[4];                                                       \
        const T *grad = t[1];                                                                                          \
        const T sign = (T)o->sign, weight = (T)o->weight, rate = (T)o->rate, w = (T)o->mean, beta2 = (T)o->square;     \
        const T rest = (T)(1 - o->square), root = (T)o->root, eps = (T)o->eps;                                         \
        INDEPENDENT for (int64_t i = 0; i < n; i++) {                                                                  \
            const T g = decayed_##K(sign * grad[i], p[i], weight, decay), x = p[i];                                    \
            const T m = slow ? fma##F(w, g - mean[i], mean[i]) : fma##F(w - 1, g - mean[i], g);                        \
            T v = fma##F(rest * g, g, square[i] * beta2);                                                              \
            mean[i] = m;                                                                                               \
            square[i] = v;                                                                                             \
            if (amsgrad) most[i] = v = most[i] > v || most[i] != most[i] ? most[i] : v;                                \
            const T by = sqrt##F(v) / root + eps;                                                                      \
            p[i] = (decay == RT_DECAY_WEIGHT ? x * weight : x) + rate * m / by;                                        \
        }                                                                                                              \
    }                                                                                                                  \
                                                                                                                       \
    void OPTIM(adam_##K)(const rt_optim *o, void *const t[RT_OPTIM_TENSORS], int64_t n) {                              \
        const bool slow = o->mean < 0.5 && o->mean > -0.5; /* as lerp: from the nearer end */                          \
        if (o->amsgrad && slow) { WITH_ANY_DECAY(adam_##K, true, true) }                                               \
        else if (o->amsgrad) { WITH_ANY_DECAY(adam_##K, true, false) }                                                 \
        else if (slow) { WITH_ANY_DECAY(adam_##K, false, true) }                                                       \
        else { WITH_ANY_DECAY(adam_##K, false, false) }                                                                \
    }                                                                                                                  \
                                                                                                                       \
    INLINE void adagrad_##K(const rt_optim *o, void *const *t, int64_t n, rt_decay decay) {                            \
        T *p = t[0], *sum = t[2];                                                                                      \
        const T *grad = t[1];                                                                                          \
        const T sign = (T)o->sign, weight = (T)o->weight, rate = (T)o->rate, eps = (T)o->eps;                          \
        INDEPENDENT for (int64_t i = 0; i < n; i++) {                                                                  \
            const T g = decayed_##K(sign * grad[i], p[i], weight, decay), s = fma##F(g, g, sum[i]);                    \
            sum[i] = s;                                                                                                \
            p[i] = p[i] + rate * g / (sqrt##F(s) + eps);                                                               \
        }                                                                                                              \
    }                                                                                                                  \
                                                                                                                       \
    void OPTIM(adagrad_##K)(const rt_optim *o, void *const t[RT_OPTIM_TENSORS], int64_t n) {                           \
        WITH_DECAY(adagrad_##K)                                                                                        \
    }

LOOPS(float, f, f32)
LOOPS(double, , f64)
