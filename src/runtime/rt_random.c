/* rt_random.c: the Mersenne Twister MT19937 (Matsumoto, Nishimura 1998) behind every random op, and its saved form.
 *
 * Invariant: 1 <= left <= 624 and next + left <= 625 between calls, so that no draw reads past the words. PyTorch's own
 * states keep next + left == 625, or 1 and 0 right after seeding; we keep both numbers so that states round-trip. */
#include "runtime/rt_random.h"

#include <math.h>
#include <string.h>

static void seed_locked(rt_generator *g, uint64_t seed) {
    g->seed = seed;
    uint32_t w = g->word[0] = (uint32_t)seed;
    for (uint32_t i = 1; i < RT_MT_WORDS; i++) w = g->word[i] = 1812433253u * (w ^ w >> 30) + i;
    g->left = 1;
    g->next = 0;
    g->has_normal = g->has_normal_f32 = false;
    g->normal = 0;
    g->normal_f32 = 0;
}

void rt_generator_init(rt_generator *g, uint64_t seed) {
    pthread_mutex_init(&g->lock, NULL);
    seed_locked(g, seed);
}

void rt_generator_dispose(rt_generator *g) {
    pthread_mutex_destroy(&g->lock);
}

void rt_generator_manual_seed(rt_generator *g, uint64_t seed) {
    rt_generator_lock(g);
    seed_locked(g, seed);
    rt_generator_unlock(g);
}

uint64_t rt_generator_initial_seed(rt_generator *g) {
    rt_generator_lock(g);
    uint64_t seed = g->seed;
    rt_generator_unlock(g);
    return seed;
}

static inline uint32_t mix(uint32_t a, uint32_t b, uint32_t far) {
    uint32_t both = (a & 0x80000000u) | (b & 0x7fffffffu);
    return far ^ both >> 1 ^ (-(b & 1) & 0x9908b0dfu);
}

void rt__twist(rt_generator *g) {
    enum { N = RT_MT_WORDS, M = 397 };
    uint32_t *w = g->word;
    for (int i = 0; i < N - M; i++) w[i] = mix(w[i], w[i + 1], w[i + M]);
    for (int i = N - M; i < N - 1; i++) w[i] = mix(w[i], w[i + 1], w[i + M - N]);
    w[N - 1] = mix(w[N - 1], w[0], w[M - 1]);
    g->left = N;
    g->next = 0;
}

void rt__words(rt_generator *g, uint32_t *out, int64_t n) {
    while (n > 0) {
        if (g->left == 1) {
            rt__twist(g);
            g->left = RT_MT_WORDS + 1;
        }
        int32_t take = n < g->left - 1 ? (int32_t)n : g->left - 1;
        for (int32_t i = 0; i < take; i++) out[i] = rt__temper(g->word[g->next + (uint32_t)i]);
        g->next += (uint32_t)take;
        g->left -= take;
        out += take;
        n -= take;
    }
}

uint32_t rt_generator_random32(rt_generator *g) {
    rt_generator_lock(g);
    uint32_t w = rt__word(g);
    rt_generator_unlock(g);
    return w;
}

uint64_t rt_generator_random64(rt_generator *g) {
    rt_generator_lock(g);
    uint64_t w = rt__word64(g);
    rt_generator_unlock(g);
    return w;
}

double rt__normal(rt_generator *g) {
    if (g->has_normal) {
        g->has_normal = false;
        return g->normal;
    }
    double turn = rt__unit(g), tail = rt__unit(g);
    double radius = sqrt(-2.0 * log1p(-tail)), angle = 2.0 * 3.141592653589793 * turn;
    g->normal = radius * sin(angle);
    g->has_normal = true;
    return radius * cos(angle);
}

/* ---- saved states ---- */

/* Where each field lies in the 5056 bytes. Words take eight bytes each; the gaps are zero. */
enum {
    AT_SEED = 0, AT_LEFT = 8, AT_SEEDED = 12, AT_NEXT = 16, AT_WORDS = 24, AT_NORMAL = AT_WORDS + 8 * RT_MT_WORDS + 8,
    AT_HAS_NORMAL = AT_NORMAL + 16, AT_NORMAL_F32 = AT_HAS_NORMAL + 8, AT_HAS_NORMAL_F32 = AT_NORMAL_F32 + 4
};
_Static_assert(AT_HAS_NORMAL_F32 + 4 == RT_GENERATOR_STATE_BYTES, "state layout");

static void put(uint8_t *bytes, int at, int size, uint64_t value) {
    for (int i = 0; i < size; i++) bytes[at + i] = (uint8_t)(value >> 8 * i);
}

static uint64_t take(const uint8_t *bytes, int at, int size) {
    uint64_t value = 0;
    for (int i = 0; i < size; i++) value |= (uint64_t)bytes[at + i] << 8 * i;
    return value;
}

void rt_generator_get_state(rt_generator *g, void *bytes) {
    uint8_t *b = bytes;
    memset(b, 0, RT_GENERATOR_STATE_BYTES);
    rt_generator_lock(g);
    put(b, AT_SEED, 8, g->seed);
    put(b, AT_LEFT, 4, (uint32_t)g->left);
    put(b, AT_SEEDED, 4, 1);
    put(b, AT_NEXT, 8, g->next);
    for (int i = 0; i < RT_MT_WORDS; i++) put(b, AT_WORDS + 8 * i, 4, g->word[i]);
    if (g->has_normal) {
        uint64_t bits;
        memcpy(&bits, &g->normal, 8);
        put(b, AT_NORMAL, 8, bits);
        put(b, AT_HAS_NORMAL, 4, 1);
    }
    if (g->has_normal_f32) {
        uint32_t bits;
        memcpy(&bits, &g->normal_f32, 4);
        put(b, AT_NORMAL_F32, 4, bits);
        put(b, AT_HAS_NORMAL_F32, 1, 1);
    }
    rt_generator_unlock(g);
}

int rt_generator_set_state(const rt_ctx *ctx, rt_generator *g, const void *bytes, size_t size) {
    if (size != RT_GENERATOR_STATE_BYTES)
        return rt_fail(ctx, RT_ERUNTIME, "a CPU generator state has %d bytes, this one has %zu",
                       RT_GENERATOR_STATE_BYTES, size);
    const uint8_t *b = bytes;
    int32_t left = (int32_t)(uint32_t)take(b, AT_LEFT, 4);
    uint64_t next = take(b, AT_NEXT, 8);
    bool seeded = take(b, AT_SEEDED, 4) != 0;
    /* Only the low half of `next` counts, as everywhere this format is read. */
    next &= UINT32_MAX;
    if (!seeded || left < 1 || left > RT_MT_WORDS || next > RT_MT_WORDS ||
        (left > 1 && next + (uint64_t)left > RT_MT_WORDS + 1))
        return rt_fail(ctx, RT_ERUNTIME,
                       "invalid mt19937 state: seeded is %d, %d words left after word %llu of %d; pass the bytes "
                       "of an earlier get_state unchanged",
                       seeded, left, (unsigned long long)next, RT_MT_WORDS);
    rt_generator_lock(g);
    g->seed = take(b, AT_SEED, 8);
    g->left = left;
    g->next = (uint32_t)next;
    for (int i = 0; i < RT_MT_WORDS; i++) g->word[i] = (uint32_t)take(b, AT_WORDS + 8 * i, 4);
    g->has_normal = take(b, AT_HAS_NORMAL, 4) != 0;
    uint64_t bits = take(b, AT_NORMAL, 8);
    memcpy(&g->normal, &bits, 8);
    g->has_normal_f32 = b[AT_HAS_NORMAL_F32] != 0;
    uint32_t bits_f32 = (uint32_t)take(b, AT_NORMAL_F32, 4);
    memcpy(&g->normal_f32, &bits_f32, 4);
    rt_generator_unlock(g);
    return RT_OK;
}

/* ---- which generator a call draws from ---- */

static rt_generator default_generator;
static pthread_once_t default_once = PTHREAD_ONCE_INIT;
static void default_init(void) { rt_generator_init(&default_generator, RT_GENERATOR_DEFAULT_SEED); }

rt_generator *rt_generator_default(void) {
    pthread_once(&default_once, default_init);
    return &default_generator;
}

rt_generator *rt_call_generator(const rt_call *c) {
    for (int i = c->nargs - 1; i >= 0; i--)
        if (c->arg[i].kind == RT_ARG_GENERATOR && c->arg[i].u.generator) return c->arg[i].u.generator;
    return rt_generator_default();
}
