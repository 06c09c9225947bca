/* rt_random.h: generators of random numbers that equal PyTorch's CPU generator for the same seed.
 *
 * One generator is a Mersenne Twister of 32-bit words plus one normal number kept for later (the polar method makes two
 * at a time). Everything random on the CPU is made from these words in a fixed order; docs/random.md says which op
 * takes how many. A generator may be shared between threads: a call holds the lock from its first draw to its last, so
 * that concurrent calls get disjoint stretches of the stream.
 *
 *     rt_generator g;
 *     rt_generator_init(&g, 42);
 *     uint32_t w = rt_generator_random32(&g);
 *     rt_generator_dispose(&g); */
#ifndef CRESSET_RT_RANDOM_H
#define CRESSET_RT_RANDOM_H

#include "runtime/rt.h"

#include <pthread.h>

enum { RT_MT_WORDS = 624, RT_GENERATOR_STATE_BYTES = 5056 };
/* What a fresh generator starts from when nobody gave a seed. */
#define RT_GENERATOR_DEFAULT_SEED UINT64_C(67280421310721)

struct rt_generator {
    pthread_mutex_t lock;
    uint64_t seed;               /* as given; only its low 32 bits reach the twister */
    uint32_t word[RT_MT_WORDS];  /* untempered */
    int32_t left;                /* words until the next twist, plus one: 1 means "twist first". next + left <= 625 */
    uint32_t next;               /* index of the next word */
    bool has_normal, has_normal_f32;
    double normal;               /* the second number of a pair, mean 0 and deviation 1; valid when has_normal */
    float normal_f32;            /* only carried along in states: no CPU op makes or uses one */
};

void rt_generator_init(rt_generator *g, uint64_t seed);
void rt_generator_dispose(rt_generator *g);
/* Starts over from `seed`, forgetting a kept normal number. */
void rt_generator_manual_seed(rt_generator *g, uint64_t seed);
/* The seed of the last init, manual_seed or set_state. */
uint64_t rt_generator_initial_seed(rt_generator *g);
/* The state as the bytes of torch.get_rng_state(): RT_GENERATOR_STATE_BYTES of them, little-endian. */
void rt_generator_get_state(rt_generator *g, void *bytes);
/* Takes such bytes. RT_ERUNTIME (and the generator unchanged) when the size or the position in them is impossible. */
int rt_generator_set_state(const rt_ctx *ctx, rt_generator *g, const void *bytes, size_t size);
uint32_t rt_generator_random32(rt_generator *g);
uint64_t rt_generator_random64(rt_generator *g); /* two words, the first one high */

/* The generator of calls that name none. Lives as long as the process. */
rt_generator *rt_generator_default(void);
/* The generator argument of a call, wherever the schema has it. Ops that draw but whose schema has no such argument
 * (dropout, rand_like) may be given one after their last argument; without it they use the default one. */
rt_generator *rt_call_generator(const rt_call *c);

static inline void rt_generator_lock(rt_generator *g) { pthread_mutex_lock(&g->lock); }
static inline void rt_generator_unlock(rt_generator *g) { pthread_mutex_unlock(&g->lock); }

/* ---- drawing; the caller holds the lock ---- */
/* The next n words of the stream. */
void rt__words(rt_generator *g, uint32_t *out, int64_t n);
void rt__twist(rt_generator *g);
static inline uint32_t rt__temper(uint32_t y) {
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c5680u;
    y ^= (y << 15) & 0xefc60000u;
    return y ^ (y >> 18);
}
static inline uint32_t rt__word(rt_generator *g) {
    if (--g->left == 0) rt__twist(g);
    return rt__temper(g->word[g->next++]);
}
static inline uint64_t rt__word64(rt_generator *g) {
    uint64_t high = rt__word(g);
    return high << 32 | rt__word(g);
}
/* Uniform in [0, 1): the low 53 bits of two words, or the low 24 of one. */
static inline double rt__unit(rt_generator *g) { return (double)(rt__word64(g) & ((UINT64_C(1) << 53) - 1)) * 0x1p-53; }
static inline float rt__unit_f32(rt_generator *g) { return (float)(rt__word(g) & 0xffffffu) * 0x1p-24f; }
/* One normal number by the polar method in double precision; makes two and keeps the second. */
double rt__normal(rt_generator *g);

#endif
