/* Any bytes as a zip archive: either one error, or members that lie inside, are found by name, and can be read.
 *
 * Mutation seldom gets past checksums and lengths that must agree. An input that begins with 'Z' is therefore a recipe:
 * an archive is made from it, right in all its fields, and then a few of its bytes are changed. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* memmem */
#endif
#include "archive/zip.h"
#include "../unit/zip_maker.h"

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void die(const char *what) {
    fprintf(stderr, "%s: %s\n", what, cr_error_message());
    abort();
}

static bool refused(cr_status status) { return status == CR_EFORMAT || status == CR_EUNSUPPORTED; }

static uint32_t sum(const uint8_t *p, size_t n) {
    uint32_t s = 0;
    for (size_t i = 0; i < n; i++) s += p[i];
    return s;
}

static void read_members(cr_zip *zip, size_t size, int depth);

static void read_member(cr_zip *zip, const cr_zip_member *m, size_t size, int depth) {
    if (m->offset > size || m->packed > size - m->offset) die("a member outside the file");
    if (cr_zip_find(zip, m->name) != m) die("a member that is not found by its name");
    char *text = NULL;
    uint8_t *bytes = NULL;
    cr_status read = cr_zip_read(zip, m, 1 << 20, &text), check = cr_zip_check(zip, m);
    if ((read && !refused(read)) || (check && !refused(check))) die("reading a member fails in another way");
    if (!check && read && m->size <= 1 << 20) die("a member that is fine but cannot be read");
    if (!read) {
        uint32_t unused = sum((uint8_t *)text, (size_t)m->size + 1);
        if (text[m->size]) die("no NUL behind the text");
        if (cr_crc32(0, text, (size_t)m->size) != m->crc) die("a text with another checksum");
        (void)unused;
    }
    cr_free(text);
    if (m->deflated) return;
    if (cr_zip_borrow(zip, m, &bytes)) die("a stored member that cannot be borrowed");
    cr_zip *inner = NULL;
    if (depth < 2 && !cr_zip_open_memory(bytes, (size_t)m->size, zip, &inner)) {
        read_members(inner, (size_t)m->size, depth + 1);
        cr_zip_release(inner);
    }
}

static void read_members(cr_zip *zip, size_t size, int depth) {
    for (size_t i = 0; i < cr_zip_count(zip) && i < 50; i++) read_member(zip, cr_zip_at(zip, i), size, depth);
}

typedef struct { const uint8_t *at, *end; } recipe;

static unsigned next(recipe *r) { return r->at < r->end ? *r->at++ : 0; }

/* Members of every form with data from the recipe; then changed bytes, as many as are left, at a place each. */
static maker cook(recipe r) {
    static char names[MAKER_MEMBERS][8];
    maker_entry entries[MAKER_MEMBERS];
    unsigned flags = next(&r), count = flags % 6;
    for (unsigned i = 0; i < count; i++) {
        snprintf(names[i], sizeof names[i], "m%u/%u", i % 2, i);
        size_t size = next(&r) % 64;
        if (size > (size_t)(r.end - r.at)) size = (size_t)(r.end - r.at);
        entries[i] = (maker_entry){names[i], (const char *)r.at, size, (int)next(&r) & 15};
        if ((entries[i].form & (MAKER_DESCRIPTOR | MAKER_BARE_DESCRIPTOR)) ==
            (MAKER_DESCRIPTOR | MAKER_BARE_DESCRIPTOR))
            entries[i].form &= ~MAKER_BARE_DESCRIPTOR;
        r.at += size < (size_t)(r.end - r.at) ? size : (size_t)(r.end - r.at);
    }
    maker m = maker_build(entries, count, flags & 64, flags & 128 ? "comment" : "");
    cr_zip *zip = NULL;
    if (cr_zip_open_memory(m.at, m.n, NULL, &zip)) {
        /* Data that end like a descriptor begins, before one that has no signature: refused, to see a moved one. */
        if (!memmem(m.at, m.n, "PK\x07\x08", 4) || !strstr(cr_error_message(), "the record behind its data"))
            die("an archive that is right is refused");
        return m;
    }
    for (size_t i = 0; i < count; i++) {
        char *text = NULL;
        if (cr_zip_read(zip, cr_zip_at(zip, i), 1 << 20, &text) || memcmp(text, entries[i].data, entries[i].size))
            die("a member reads differently");
        cr_free(text);
    }
    cr_zip_release(zip);
    while (r.at < r.end) {
        size_t place = next(&r) << 8;
        place |= next(&r);
        m.at[place % m.n] = (uint8_t)next(&r);
    }
    return m;
}

static void run(const uint8_t *data, size_t size) {
    cr_zip *zip = NULL;
    cr_status status = cr_zip_open_memory(data, size, NULL, &zip);
    if (status && !refused(status)) die("opening fails in another way");
    if (status) return;
    read_members(zip, size, 0);
    cr_zip_release(zip);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size && data[0] == 'Z') {
        maker m = cook((recipe){data + 1, data + size});
        run(m.at, m.n);
        free(m.at);
    } else {
        run(data, size);
    }
    return 0;
}
