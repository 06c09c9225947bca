/* Any bytes as a zip archive: either one error, or members that lie inside, are found by name, and can be read. */
#include "archive/zip.h"

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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    cr_zip *zip = NULL;
    cr_status status = cr_zip_open_memory(data, size, NULL, &zip);
    if (status && !refused(status)) die("opening fails in another way");
    if (status) return 0;
    read_members(zip, size, 0);
    cr_zip_release(zip);
    return 0;
}
