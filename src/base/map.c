/* Hash map from bytes to a 64-bit value: open addressing, linear probing, at most three quarters full.
 *
 * Removing shifts the following entries back instead of leaving a mark, so a lookup ends at the first empty slot and
 * probe chains never decay. Keys of up to 16 bytes (pointers, short names) live in the slot itself. */
#include "base/base.h"

enum { INLINE_KEY = 16, FIRST_CAP = CR_LIMIT(8, 2) };
#define OCCUPIED 0x80000000u

struct cr_map_slot {
    uint32_t tag; /* OCCUPIED + 31 bits of the hash; 0 = empty */
    uint32_t len;
    union { unsigned char bytes[INLINE_KEY]; unsigned char *heap; } key;
    uint64_t value;
};

static inline uint64_t mix(uint64_t a, uint64_t b) {
    __uint128_t product = (__uint128_t)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Folded 64x64 products over 8-byte words; the length goes in last, so "a" and "a\0" differ. */
uint64_t cr_hash(const void *data, size_t len, uint64_t seed) {
    const uint64_t k0 = 0x9e3779b97f4a7c15u, k1 = 0xd6e8feb86659fd93u;
    const unsigned char *p = data;
    uint64_t h = seed ^ k0, word;
    size_t left = len;
    for (; left >= 8; p += 8, left -= 8) {
        memcpy(&word, p, 8);
        h = mix(h ^ word, k1) + k0;
    }
    if (left) {
        word = 0;
        memcpy(&word, p, left);
        h = mix(h ^ word, k1) + k0;
    }
    h ^= len;
    return mix(h ^ (h >> 29), k1) ^ (h >> 32);
}

void cr_map_init(cr_map *m) { *m = (cr_map){0}; }

static const unsigned char *slot_key(const struct cr_map_slot *s) {
    return s->len <= INLINE_KEY ? s->key.bytes : s->key.heap;
}

void cr_map_dispose(cr_map *m) {
    for (size_t i = 0; i < m->cap; i++)
        if (m->slots[i].tag && m->slots[i].len > INLINE_KEY) cr_free(m->slots[i].key.heap);
    cr_free(m->slots);
    *m = (cr_map){0};
}

static uint32_t tag_of(const void *key, size_t len) { return (uint32_t)cr_hash(key, len, 0) | OCCUPIED; }

/* The slot of `key`, or the empty slot where it would go. The map has at least one empty slot. */
static struct cr_map_slot *slot_find(const cr_map *m, const void *key, size_t len, uint32_t tag) {
    for (size_t i = tag & (m->cap - 1);; i = (i + 1) & (m->cap - 1)) {
        struct cr_map_slot *s = &m->slots[i];
        if (!s->tag) return s;
        if (s->tag == tag && s->len == len && (len == 0 || memcmp(slot_key(s), key, len) == 0)) return s;
    }
}

bool cr_map_find(const cr_map *m, const void *key, size_t len, uint64_t *value) {
    if (!m->n) return false;
    const struct cr_map_slot *s = slot_find(m, key, len, tag_of(key, len));
    if (!s->tag) return false;
    if (value) *value = s->value;
    return true;
}

static cr_status map_grow(cr_map *m) {
    cr_map bigger = {.n = m->n, .cap = m->cap ? m->cap * 2 : FIRST_CAP};
    /* The home of an entry comes from its 31-bit tag; beyond 2^30 slots chains would grow, and 32 GiB are spent. */
    if (bigger.cap > (size_t)1 << 30) return CR_FAIL(CR_ENOMEM, "too large");
    bigger.slots = cr_calloc(bigger.cap, sizeof *bigger.slots);
    if (!bigger.slots) return CR_ENOMEM;
    for (size_t i = 0; i < m->cap; i++) {
        if (!m->slots[i].tag) continue;
        size_t at = m->slots[i].tag & (bigger.cap - 1);
        while (bigger.slots[at].tag) at = (at + 1) & (bigger.cap - 1);
        bigger.slots[at] = m->slots[i];
    }
    cr_free(m->slots);
    *m = bigger;
    return CR_OK;
}

cr_status cr_map_put(cr_map *m, const void *key, size_t len, uint64_t value) {
    if (len > UINT32_MAX) return CR_FAIL(CR_EVALUE, "a map key of %zu bytes is longer than 4 GiB", len);
    uint32_t tag = tag_of(key, len);
    if (m->cap) {
        struct cr_map_slot *s = slot_find(m, key, len, tag);
        if (s->tag) {
            s->value = value;
            return CR_OK;
        }
    }
    if ((m->n + 1) * 4 > m->cap * 3) CR_TRY(map_grow(m));
    struct cr_map_slot fresh = {.tag = tag, .len = (uint32_t)len, .value = value};
    unsigned char *bytes = fresh.key.bytes;
    if (len > INLINE_KEY) {
        bytes = fresh.key.heap = cr_alloc(len);
        if (!bytes) return CR_ENOMEM;
    }
    if (len) memcpy(bytes, key, len);
    *slot_find(m, key, len, tag) = fresh;
    m->n++;
    return CR_OK;
}

bool cr_map_remove(cr_map *m, const void *key, size_t len) {
    if (!m->n) return false;
    struct cr_map_slot *found = slot_find(m, key, len, tag_of(key, len));
    if (!found->tag) return false;
    if (found->len > INLINE_KEY) cr_free(found->key.heap);
    size_t mask = m->cap - 1, hole = (size_t)(found - m->slots);
    for (size_t i = (hole + 1) & mask; m->slots[i].tag; i = (i + 1) & mask) {
        /* An entry may move back into the hole only if its home is not between the hole and itself. */
        size_t home = m->slots[i].tag & mask;
        if (((i - home) & mask) < ((i - hole) & mask)) continue;
        m->slots[hole] = m->slots[i];
        hole = i;
    }
    m->slots[hole] = (struct cr_map_slot){0};
    m->n--;
    return true;
}

bool cr_map_next(const cr_map *m, size_t *i, const void **key, size_t *len, uint64_t *value) {
    while (*i < m->cap) {
        const struct cr_map_slot *s = &m->slots[(*i)++];
        if (!s->tag) continue;
        if (key) *key = slot_key(s);
        if (len) *len = s->len;
        if (value) *value = s->value;
        return true;
    }
    return false;
}
