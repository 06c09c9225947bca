/* rt_order.c: keys, a radix sort and a radix selection over them. See rt_order.h.
 *
 * The selection of few of many keeps a bound: elements are looked at in chunks, and a chunk without a key below the
 * bound, which is nearly every one after the first few thousand, costs a compare an element. */
#include "runtime/rt_order.h"

#include <string.h>

enum { CHUNK = 64, FEW = 32 };

int rt_order_bits(int dtype) { return rt_itemsize(dtype) > 4 || dtype == RT_U32 ? 64 : 32; }

/* The class that a dtype's keys are made of. */
static int key_class(int dtype) {
    if (rt_is_float(dtype)) return dtype == RT_F64 ? RT_F64 : RT_F32;
    if (dtype == RT_U64) return RT_U64;
    return rt_order_bits(dtype) == 64 ? RT_I64 : RT_I32;
}

static inline uint32_t key_f32(uint32_t u) {
    u = u << 1 ? u : 0;
    uint32_t key = u ^ (u >> 31 ? UINT32_MAX : UINT32_C(1) << 31);
    return (u & INT32_MAX) > UINT32_C(0x7f800000) ? UINT32_MAX : key;
}

static inline uint64_t key_f64(uint64_t u) {
    u = u << 1 ? u : 0;
    uint64_t key = u ^ (u >> 63 ? UINT64_MAX : UINT64_C(1) << 63);
    return (u & INT64_MAX) > UINT64_C(0x7ff0000000000000) ? UINT64_MAX : key;
}

/* Elements of a key class become keys in place; STEP at a time, so that the inner loops have a fixed length. */
enum { STEP = 8 };
#define EACH_KEY(key)                     \
    for (int64_t i = 0; i < n; i += STEP) \
        for (int k = 0; k < STEP; k++) x[i + k] = (key)

static void keys_32(int class, uint32_t *x, int64_t n, uint32_t flip) {
    if (class == RT_F32) EACH_KEY(key_f32(x[i + k]) ^ flip);
    else EACH_KEY(x[i + k] ^ UINT32_C(1) << 31 ^ flip);
}

static void keys_64(int class, uint64_t *x, int64_t n, uint64_t flip) {
    uint64_t sign = class == RT_I64 ? UINT64_C(1) << 63 : 0;
    if (class == RT_F64) EACH_KEY(key_f64(x[i + k]) ^ flip);
    else EACH_KEY(x[i + k] ^ sign ^ flip);
}

bool rt_order_is_nan(int dtype, uint64_t key, bool descending) {
    uint64_t nan = rt_order_bits(dtype) == 32 ? UINT32_MAX : UINT64_MAX;
    return rt_is_float(dtype) && key == (descending ? 0 : nan);
}

typedef union chunk { uint32_t narrow[CHUNK]; uint64_t wide[CHUNK]; } chunk;

/* Keys of up to CHUNK elements; behind them up to the next STEP, or with `whole` to the end, those of zeros. */
static void load(int dtype, const char *x, int64_t stride, int64_t n, bool descending, bool whole, chunk *out) {
    int class = key_class(dtype);
    int64_t padded = whole ? CHUNK : (n + STEP - 1) / STEP * STEP, item = rt_itemsize(class);
    if (n < padded) memset((char *)out + n * item, 0, (size_t)((padded - n) * item));
    if (class == dtype && stride == 1) memcpy(out, x, (size_t)(n * item));
    else rt_convert(class, out, 1, dtype, x, stride, n);
    if (rt_order_bits(dtype) == 32) keys_32(class, out->narrow, padded, descending ? UINT32_MAX : 0);
    else keys_64(class, out->wide, padded, descending ? UINT64_MAX : 0);
}

static inline uint64_t chunk_key(const chunk *c, bool wide, int i) { return wide ? c->wide[i] : c->narrow[i]; }

/* Chunk after chunk of keys goes to `pairs`, or without positions to `plain`. */
static void each_key(int dtype, const void *x, int64_t stride, int64_t n, int64_t first, bool descending,
                     rt_pair *pairs, uint64_t *plain) {
    chunk keys;
    bool wide = rt_order_bits(dtype) == 64;
    int64_t item = rt_itemsize(dtype);
    for (int64_t i = 0; i < n; i += CHUNK) {
        int count = n - i < CHUNK ? (int)(n - i) : CHUNK;
        load(dtype, (const char *)x + i * stride * item, stride, count, descending, false, &keys);
        if (pairs)
            for (int k = 0; k < count; k++) pairs[i + k] = (rt_pair){ chunk_key(&keys, wide, k), first + i + k };
        else
            for (int k = 0; k < count; k++) plain[i + k] = chunk_key(&keys, wide, k);
    }
}

void rt_order_pairs(int dtype, const void *x, int64_t stride, int64_t n, int64_t first, bool descending, rt_pair *out) {
    each_key(dtype, x, stride, n, first, descending, out, NULL);
}

void rt_order_keys(int dtype, const void *x, int64_t stride, int64_t n, uint64_t *out) {
    each_key(dtype, x, stride, n, 0, false, NULL, out);
}

static void insertion_sort(rt_pair *a, int64_t n) {
    for (int64_t i = 1; i < n; i++) {
        rt_pair x = a[i];
        int64_t j = i;
        for (; j && a[j - 1].key > x.key; j--) a[j] = a[j - 1];
        a[j] = x;
    }
}

enum { DIGIT = 11, BUCKETS = 1 << DIGIT };

void rt_order_sort(rt_pair *a, rt_pair *spare, int64_t n, int bits) {
    if (n <= FEW) {
        insertion_sort(a, n);
        return;
    }
    int digit = n < BUCKETS ? 8 : DIGIT;
    uint64_t mask = (UINT64_C(1) << digit) - 1;
    rt_pair *from = a, *to = spare;
    uint64_t differing = 0;
    for (int64_t i = 1; i < n; i++) differing |= a[i].key ^ a[0].key;
    for (int shift = 0; shift < bits; shift += digit) {
        if (!(differing >> shift & mask)) continue;
        int64_t at[BUCKETS] = { 0 };
        for (int64_t i = 0; i < n; i++) at[from[i].key >> shift & mask]++;
        for (int64_t b = 0, sum = 0; b <= (int64_t)mask; b++) {
            int64_t count = at[b];
            at[b] = sum;
            sum += count;
        }
        for (int64_t i = 0; i < n; i++) to[at[from[i].key >> shift & mask]++] = from[i];
        rt_pair *swap = from;
        from = to;
        to = swap;
    }
    if (from != a) memcpy(a, from, (size_t)n * sizeof *a);
}

rt_pair rt_order_nth(rt_pair *a, rt_pair *spare, int64_t n, int64_t k, int bits) {
    for (int shift = bits; n > FEW && shift > 0;) {
        int digit = shift < DIGIT ? shift : DIGIT;
        shift -= digit;
        uint64_t mask = (UINT64_C(1) << digit) - 1;
        int64_t at[BUCKETS] = { 0 }, kept = 0;
        for (int64_t i = 0; i < n; i++) at[a[i].key >> shift & mask]++;
        uint64_t bucket = 0;
        for (; k >= at[bucket]; bucket++) k -= at[bucket];
        if (at[bucket] == n) continue;
        for (int64_t i = 0; i < n; i++)
            if ((a[i].key >> shift & mask) == bucket) spare[kept++] = a[i];
        rt_pair *swap = a;
        a = spare;
        spare = swap;
        n = kept;
    }
    if (n <= FEW) insertion_sort(a, n);
    return a[k];
}

/* How many pairs are gathered before the k smallest of them are kept. */
static int64_t gathered(int64_t n, int64_t k) {
    int64_t most = k < n / 8 ? 4 * k + 4 * CHUNK : n;
    return most < n ? most : n;
}

int64_t rt_order_room(int64_t n, int64_t k) { return 3 * (gathered(n, k) + CHUNK); }

/* Keeps the k smallest of the n pairs at `a`, in the order they have, and gives the largest key that is left. */
static uint64_t keep_smallest(rt_pair *a, int64_t n, int64_t k, rt_pair *spare, int bits) {
    memcpy(spare, a, (size_t)n * sizeof *a);
    rt_pair last = rt_order_nth(spare, spare + n, n, k - 1, bits);
    int64_t kept = 0;
    for (int64_t i = 0; i < n; i++)
        if (a[i].key < last.key || (a[i].key == last.key && a[i].at <= last.at)) a[kept++] = a[i];
    return last.key;
}

static bool any_below(const chunk *c, bool wide, uint64_t bound) {
    int any = 0;
    if (wide)
        for (int i = 0; i < CHUNK; i++) any |= c->wide[i] < bound;
    else
        for (int i = 0; i < CHUNK; i++) any |= c->narrow[i] < (uint32_t)bound;
    return any;
}

void rt_order_first(int dtype, const void *x, int64_t stride, int64_t n, int64_t k, bool descending, rt_pair *room) {
    int bits = rt_order_bits(dtype);
    bool wide = bits == 64;
    int64_t limit = gathered(n, k), held = 0, item = rt_itemsize(dtype);
    rt_pair *spare = room + limit + CHUNK;
    uint64_t bound = UINT64_MAX;
    chunk keys;
    for (int64_t i = 0; i < n; i += CHUNK) {
        int count = n - i < CHUNK ? (int)(n - i) : CHUNK;
        load(dtype, (const char *)x + i * stride * item, stride, count, descending, true, &keys);
        bool bounded = bound != UINT64_MAX;
        if (bounded && !any_below(&keys, wide, bound)) continue;
        for (int j = 0; j < count; j++) {
            uint64_t key = chunk_key(&keys, wide, j);
            if (!bounded || key < bound) room[held++] = (rt_pair){ key, i + j };
        }
        if (held >= limit && held > k && i + count < n) {
            bound = keep_smallest(room, held, k, spare, bits);
            held = k;
        }
    }
    if (held > k) keep_smallest(room, held, k, spare, bits);
    rt_order_sort(room, spare, k, bits);
}
