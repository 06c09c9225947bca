/* zip_maker.h: zips made by hand for the tests, with a record's place known so that single fields can be broken.
 *
 * It shares no code with src/archive: a mistake of the writer there cannot hide one of the reader. */
#ifndef ZIP_MAKER_H
#define ZIP_MAKER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { MAKER_MEMBERS = 16 };
/* What a member looks like, or'ed. */
enum { MAKER_DEFLATED = 1, MAKER_DESCRIPTOR = 2, MAKER_ZIP64 = 4, MAKER_BARE_DESCRIPTOR = 8 };
typedef struct maker_entry {
    const char *name, *data;
    size_t size;
    int form;
} maker_entry;
typedef struct maker {
    uint8_t *at;
    size_t n, cap;
    size_t local[MAKER_MEMBERS], data[MAKER_MEMBERS], packed[MAKER_MEMBERS], central[MAKER_MEMBERS], directory, end64,
        locator, end;
} maker;

static inline void maker_bytes(maker *m, const void *data, size_t n) {
    if (m->n + n > m->cap) m->at = realloc(m->at, m->cap = (m->n + n) * 2);
    if (n) memcpy(m->at + m->n, data, n);
    m->n += n;
}

static inline void maker_number(maker *m, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; i++) maker_bytes(m, &(uint8_t){(uint8_t)(value >> 8 * i)}, 1);
}

/* Overwrites a field. */
static inline void maker_put(maker *m, size_t at, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; i++) m->at[at + (size_t)i] = (uint8_t)(value >> 8 * i);
}

static inline uint8_t *maker_deflate(const void *data, size_t n, size_t *packed) {
    z_stream z = {0};
    deflateInit2(&z, 9, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
    size_t room = n + n / 100 + 64;
    uint8_t *to = malloc(room);
    z.next_in = (z_const Bytef *)(uintptr_t)data;
    z.avail_in = (uInt)n;
    z.next_out = to;
    z.avail_out = (uInt)room;
    deflate(&z, Z_FINISH);
    *packed = room - z.avail_out;
    deflateEnd(&z);
    return to;
}

/* Writes members, directory and end record (zip64 ones, too, when `zip64`) with an archive comment. */
static inline maker maker_build(const maker_entry *entries, size_t count, bool zip64, const char *comment) {
    maker m = {0};
    for (size_t i = 0; i < count; i++) {
        const maker_entry *e = &entries[i];
        uint8_t *deflated = e->form & MAKER_DEFLATED ? maker_deflate(e->data, e->size, &m.packed[i]) : NULL;
        if (!deflated) m.packed[i] = e->size;
        bool later = e->form & (MAKER_DESCRIPTOR | MAKER_BARE_DESCRIPTOR), wide = e->form & MAKER_ZIP64;
        uint32_t crc = (uint32_t)crc32(0, (const Bytef *)e->data, (uInt)e->size);
        m.local[i] = m.n;
        maker_number(&m, 0x04034b50, 4);
        maker_number(&m, wide ? 45 : 20, 2);
        maker_number(&m, later ? 0x808 : 0x800, 2);
        maker_number(&m, e->form & MAKER_DEFLATED ? 8 : 0, 2);
        maker_number(&m, 0, 4);
        maker_number(&m, later ? 0 : crc, 4);
        maker_number(&m, wide ? UINT32_MAX : later ? 0 : m.packed[i], 4);
        maker_number(&m, wide ? UINT32_MAX : later ? 0 : e->size, 4);
        maker_number(&m, strlen(e->name), 2);
        maker_number(&m, wide ? 20 : 0, 2);
        maker_bytes(&m, e->name, strlen(e->name));
        if (wide)
            maker_number(&m, 1, 2), maker_number(&m, 16, 2), maker_number(&m, later ? 0 : e->size, 8),
                maker_number(&m, later ? 0 : m.packed[i], 8);
        m.data[i] = m.n;
        maker_bytes(&m, deflated ? (void *)deflated : (const void *)e->data, m.packed[i]);
        free(deflated);
        if (e->form & MAKER_DESCRIPTOR) maker_number(&m, 0x08074b50, 4);
        if (later)
            maker_number(&m, crc, 4), maker_number(&m, m.packed[i], wide ? 8 : 4),
                maker_number(&m, e->size, wide ? 8 : 4);
    }
    m.directory = m.n;
    for (size_t i = 0; i < count; i++) {
        const maker_entry *e = &entries[i];
        bool later = e->form & (MAKER_DESCRIPTOR | MAKER_BARE_DESCRIPTOR), wide = e->form & MAKER_ZIP64;
        m.central[i] = m.n;
        maker_number(&m, 0x02014b50, 4);
        maker_number(&m, 20, 2);
        maker_number(&m, 20, 2);
        maker_number(&m, later ? 0x808 : 0x800, 2);
        maker_number(&m, e->form & MAKER_DEFLATED ? 8 : 0, 2);
        maker_number(&m, 0, 4);
        maker_number(&m, crc32(0, (const Bytef *)e->data, (uInt)e->size), 4);
        maker_number(&m, wide ? UINT32_MAX : m.packed[i], 4);
        maker_number(&m, wide ? UINT32_MAX : e->size, 4);
        maker_number(&m, strlen(e->name), 2);
        maker_number(&m, wide ? 28 : 0, 2);
        maker_number(&m, 0, 2);
        maker_number(&m, 0, 2);
        maker_number(&m, 0, 2);
        maker_number(&m, 0, 4);
        maker_number(&m, wide ? UINT32_MAX : m.local[i], 4);
        maker_bytes(&m, e->name, strlen(e->name));
        if (wide)
            maker_number(&m, 1, 2), maker_number(&m, 24, 2), maker_number(&m, e->size, 8),
                maker_number(&m, m.packed[i], 8), maker_number(&m, m.local[i], 8);
    }
    size_t size = m.n - m.directory;
    if (zip64) {
        m.end64 = m.n;
        maker_number(&m, 0x06064b50, 4);
        maker_number(&m, 44, 8);
        maker_number(&m, 45, 2);
        maker_number(&m, 45, 2);
        maker_number(&m, 0, 4);
        maker_number(&m, 0, 4);
        maker_number(&m, count, 8);
        maker_number(&m, count, 8);
        maker_number(&m, size, 8);
        maker_number(&m, m.directory, 8);
        m.locator = m.n;
        maker_number(&m, 0x07064b50, 4);
        maker_number(&m, 0, 4);
        maker_number(&m, m.end64, 8);
        maker_number(&m, 1, 4);
    }
    m.end = m.n;
    maker_number(&m, 0x06054b50, 4);
    maker_number(&m, 0, 4);
    maker_number(&m, zip64 ? UINT16_MAX : count, 2);
    maker_number(&m, zip64 ? UINT16_MAX : count, 2);
    maker_number(&m, zip64 ? UINT32_MAX : size, 4);
    maker_number(&m, zip64 ? UINT32_MAX : m.directory, 4);
    maker_number(&m, strlen(comment), 2);
    maker_bytes(&m, comment, strlen(comment));
    return m;
}

#endif
