/* cache_pack.c: the cache's entries that a process used, packed for another one.
 *
 * magic, SHA-256 of what follows, then for each entry its name (64 digits), its size (8 bytes, little-endian) and its
 * bytes. A key is made of everything that can change the result, so entries of another compiler or release are never
 * asked for: they only take room. */
#include "emit/cache.h"

#include <pthread.h>

enum { NAME = 64, DIGEST = 32, HEAD = 8 + DIGEST };
static const char magic[8] = { 'C', 'R', 'S', 'T', 'P', 'A', 'K', '1' };

typedef struct name { char text[NAME + 1]; } name;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static CR_VEC(name) used; /* under the lock; each once, for the life of the process */

void cr__cache_note(const cr_key *key) {
    name n;
    memcpy(n.text, key->name, sizeof n.text);
    pthread_mutex_lock(&lock);
    size_t i = 0;
    while (i < used.n && strcmp(used.at[i].text, n.text)) i++;
    if (i == used.n && cr_vec_push(&used, n)) { /* without memory it is not packed */
    }
    pthread_mutex_unlock(&lock);
}

static bool name_at(size_t i, cr_key *out) {
    pthread_mutex_lock(&lock);
    bool there = i < used.n;
    if (there) memcpy(out->name, used.at[i].text, sizeof out->name);
    pthread_mutex_unlock(&lock);
    return there;
}

static void add_size(cr_str *out, uint64_t size) {
    for (int i = 0; i < 8; i++) cr_str_addc(out, (char)(size >> (8 * i)));
}

static uint64_t read_size(const uint8_t *at) {
    uint64_t size = 0;
    for (int i = 0; i < 8; i++) size |= (uint64_t)at[i] << (8 * i);
    return size;
}

static void digest_of(const void *data, size_t size, uint8_t out[DIGEST]) {
    cr_sha256 h;
    cr_sha256_init(&h);
    cr_sha256_add(&h, data, size);
    cr_sha256_end(&h, out);
}

cr_status cr_cache_pack(cr_str *out, size_t *count) {
    cr_str body;
    cr_key key;
    uint8_t *data, digest[DIGEST];
    size_t size;
    *count = 0;
    cr_str_init(&body);
    for (size_t i = 0; name_at(i, &key); i++) {
        if (!cr_cache_get(&key, &data, &size)) continue; /* it was evicted */
        cr_str_addn(&body, key.name, NAME);
        add_size(&body, size);
        cr_str_addn(&body, (const char *)data, size);
        cr_free(data);
        ++*count;
    }
    digest_of(cr_str_get(&body), body.n, digest);
    if (*count) {
        cr_str_addn(out, magic, sizeof magic);
        cr_str_addn(out, (const char *)digest, sizeof digest);
        cr_str_addn(out, cr_str_get(&body), body.n);
    }
    out->failed |= body.failed;
    cr_str_dispose(&body);
    return cr_str_status(out);
}

/* One entry at `at`; NULL: it does not fit into what is left. Otherwise where the next one is. */
static const uint8_t *next_entry(const uint8_t *at, const uint8_t *end, cr_key *key, uint64_t *size) {
    if ((size_t)(end - at) < NAME + 8) return NULL;
    memcpy(key->name, at, NAME);
    key->name[NAME] = 0;
    *size = read_size(at + NAME);
    if (strspn(key->name, "0123456789abcdef") != NAME) return NULL;
    return *size <= (uint64_t)(end - at) - NAME - 8 ? at + NAME + 8 + *size : NULL;
}

cr_status cr_cache_unpack(const void *data, size_t size, size_t *count) {
    const uint8_t *bytes = data, *end = bytes + size, *at, *next;
    uint8_t digest[DIGEST];
    cr_key key;
    uint64_t n;
    *count = 0;
    if (size < HEAD || memcmp(bytes, magic, sizeof magic))
        return CR_FAIL(CR_EFORMAT, "these bytes are no cache artifacts: expected what save_cache_artifacts() gives");
    digest_of(bytes + HEAD, size - HEAD, digest);
    if (memcmp(digest, bytes + 8, DIGEST))
        return CR_FAIL(CR_EFORMAT, "the cache artifacts are damaged: save them again");
    for (at = bytes + HEAD; at < end; at = next)
        if (!(next = next_entry(at, end, &key, &n)))
            return CR_FAIL(CR_EFORMAT, "the cache artifacts are damaged: an entry does not fit");
    for (at = bytes + HEAD; at < end; at = next, ++*count) {
        next = next_entry(at, end, &key, &n);
        cr_cache_put(&key, at + NAME + 8, n);
    }
    return CR_OK;
}
