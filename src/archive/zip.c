/* Opening zip archives: the directory and the local headers, all checked before anything is believed.
 *
 * The end record is found from the back; it leads to the central directory, which must fill exactly the bytes between
 * the last member and the end records; each entry leads to a local header, which must say the same as the entry. After
 * opening, every member's [offset, offset + packed) lies inside the file, shares no byte with another member's header
 * or data, and has a name of its own, so that readers of members check nothing again. A single changed bit in any of
 * these records is either seen here or in a field that nobody reads (times, attributes, padding). */
#include "archive/zip.h"
#include "archive/extents.h"
#include "archive/zip_internal.h"
#include "base/utf8.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

enum { LOCAL_GUESS = 512 }; /* bytes read at once of a local header: most names and paddings fit */

cr_status cr__zip_fail(const cr_zip_member *m, cr_status code, const char *format, ...) {
    char what[300], name[128];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    size_t n = m ? strlen(m->name) : 0;
    if (!m) name[0] = 0;
    else if (n < 100) snprintf(name, sizeof name, "member '%s': ", m->name);
    else snprintf(name, sizeof name, "member '...%.90s': ", m->name + n - 90); /* the end tells more than the folders */
    return cr_error_set(code, CR_WHERE, "%s%s", name, what);
}

cr_status cr__zip_bytes(const cr_zip *zip, uint64_t offset, size_t size, uint8_t *scratch, const uint8_t **out) {
    if (zip->fd < 0) {
        *out = zip->data + offset;
        return CR_OK;
    }
    for (size_t done = 0; done < size;) {
        ssize_t got = pread(zip->fd, scratch + done, size - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return CR_FAIL(CR_EIO, "cannot read '%s': %s", zip->path, strerror(errno));
        if (got == 0) return CR_FAIL(CR_EIO, "cannot read '%s': it became shorter while it was open", zip->path);
        done += (size_t)got;
    }
    *out = scratch;
    return CR_OK;
}

/* ---- names ---- */

const char *cr__zip_name_problem(const uint8_t *name, size_t n) {
    const uint8_t *end = name + n, *part = name;
    if (n == 0) return "an empty name";
    if (name[0] == '/') return "an absolute path";
    for (const uint8_t *p = name;;) {
        if (p == end || *p == '/') {
            size_t length = (size_t)(p - part);
            if (length == 0 && p < end) return "an empty folder name in the path";
            if (length && part[0] == '.' && (length == 1 || (length == 2 && part[1] == '.')))
                return "'.' or '..' in the path";
            if (p == end) return NULL;
            part = p + 1;
        }
        size_t step = cr__utf8_step(p, end);
        if (!step) return "a name that is not UTF-8";
        if (*p < 0x20 || *p == 0x7f) return "a control character in the name";
        if (*p == '\\') return "a backslash in the name";
        p += step;
    }
}

static uint32_t *slot_of(const cr_zip *zip, const char *name) {
    for (size_t i = cr_hash(name, strlen(name), zip->seed) & zip->index_mask;; i = (i + 1) & zip->index_mask) {
        uint32_t *slot = &zip->index[i];
        if (!*slot || !strcmp(zip->members[*slot - 1].name, name)) return slot;
    }
}

static cr_status index_build(cr_zip *zip) {
    size_t slots = 4;
    while (slots < zip->n * 2) slots *= 2;
    zip->index = cr_calloc(slots, sizeof *zip->index);
    if (!zip->index) return CR_ENOMEM;
    zip->index_mask = slots - 1;
    /* Differs between readers, so that nobody can prepare an archive whose names all collide. */
    uintptr_t seeds[2] = {(uintptr_t)zip, (uintptr_t)&seeds};
    zip->seed = cr_hash(seeds, sizeof seeds, (uint64_t)getpid());
    for (size_t i = 0; i < zip->n; i++) {
        uint32_t *slot = slot_of(zip, zip->members[i].name);
        if (*slot) return cr__zip_fail(&zip->members[i], CR_EFORMAT, "it is in the directory twice");
        *slot = (uint32_t)(i + 1);
    }
    return CR_OK;
}

/* ---- the end records ---- */

typedef struct {
    uint64_t offset, size, count, end;
} directory; /* end: where the first end record begins */

/* The last place where an end record's comment reaches exactly to the end of the file. */
static bool end_find(const cr_zip *zip, uint64_t *at) {
    if (zip->size < ZIP_END_SIZE) return false;
    uint64_t last = zip->size - ZIP_END_SIZE, first = last > UINT16_MAX ? last - UINT16_MAX : 0;
    for (uint64_t i = last + 1; i-- > first;) {
        const uint8_t *p = zip->data + i;
        if (p[0] == 'P' && zip_get32(p) == ZIP_END && zip_get16(p + 20) == last - i) {
            *at = i;
            return true;
        }
    }
    return false;
}

static cr_status end_read(const cr_zip *zip, directory *d) {
    uint64_t at;
    if (!end_find(zip, &at)) {
        bool begins = zip->size >= 4 && zip_get32(zip->data) == ZIP_LOCAL;
        return cr__zip_fail(NULL, CR_EFORMAT,
            begins ? "the archive is truncated, or something was appended: its directory is missing at the end"
                   : "not a zip archive: no directory at its end");
    }
    const uint8_t *p = zip->data + at;
    unsigned disk = zip_get16(p + 4), first_disk = zip_get16(p + 6);
    uint64_t here = zip_get16(p + 8);
    *d = (directory){.count = zip_get16(p + 10), .size = zip_get32(p + 12), .offset = zip_get32(p + 16), .end = at};
    const uint8_t *locator = at >= ZIP_LOCATOR64_SIZE ? p - ZIP_LOCATOR64_SIZE : NULL;
    if (locator && zip_get32(locator) == ZIP_LOCATOR64) {
        uint64_t end64 = zip_get64(locator + 8), room = at - ZIP_LOCATOR64_SIZE;
        if (end64 > room || room - end64 < ZIP_END64_SIZE)
            return cr__zip_fail(NULL, CR_EFORMAT, "the zip64 end record lies outside the file");
        const uint8_t *q = zip->data + end64;
        if (zip_get32(q) != ZIP_END64 || zip_get64(q + 4) != room - end64 - 12)
            return cr__zip_fail(NULL, CR_EFORMAT, "the zip64 end record is damaged");
        directory wide = {
            .count = zip_get64(q + 32), .size = zip_get64(q + 40), .offset = zip_get64(q + 48), .end = end64};
        if ((d->count != UINT16_MAX && d->count != wide.count) || (d->size != UINT32_MAX && d->size != wide.size) ||
            (d->offset != UINT32_MAX && d->offset != wide.offset))
            return cr__zip_fail(NULL, CR_EFORMAT, "the two end records describe different directories");
        if (disk == UINT16_MAX || disk == 0) disk = zip_get32(q + 16);
        if (first_disk == UINT16_MAX || first_disk == 0) first_disk = zip_get32(q + 20);
        if (zip_get32(locator + 4)) disk = zip_get32(locator + 4);
        here = zip_get64(q + 24);
        *d = wide;
    }
    if (disk || first_disk || here != d->count)
        return cr__zip_fail(NULL, CR_EUNSUPPORTED, "an archive in several files: join them first (zip -s 0)");
    if (d->size > d->end || d->offset > d->end - d->size)
        return cr__zip_fail(NULL, CR_EFORMAT, "the directory (%llu bytes at %llu) lies outside the file",
                            (unsigned long long)d->size, (unsigned long long)d->offset);
    if (d->offset + d->size != d->end)
        return cr__zip_fail(NULL, CR_EFORMAT, "%llu unexpected bytes between the directory and its end record",
                            (unsigned long long)(d->end - d->offset - d->size));
    if (d->count > d->size / ZIP_CENTRAL_SIZE || d->count >= UINT32_MAX)
        return cr__zip_fail(NULL, CR_EFORMAT, "%llu members cannot be in a directory of %llu bytes",
                            (unsigned long long)d->count, (unsigned long long)d->size);
    return CR_OK;
}

/* ---- entries ---- */

/* A field of the fixed part that says "see the zip64 field". */
typedef struct {
    uint64_t *value;
    bool wide;
} wide_field;

/* Fills the wide fields, in their order, from the zip64 extra field. */
static cr_status extra_read(const cr_zip_member *m, const uint8_t *extra, size_t n,
                            wide_field *fields, size_t count) {
    const uint8_t *at = extra, *end = extra + n;
    bool wanted = false;
    for (size_t i = 0; i < count; i++) wanted |= fields[i].wide;
    while (wanted && end - at >= 4) {
        size_t id = zip_get16(at), length = zip_get16(at + 2);
        at += 4;
        if (length > (size_t)(end - at)) break;
        if (id == ZIP_EXTRA64) {
            for (size_t i = 0; i < count; i++) {
                if (!fields[i].wide) continue;
                if (length < 8) return cr__zip_fail(m, CR_EFORMAT, "the zip64 sizes are incomplete");
                *fields[i].value = zip_get64(at);
                at += 8;
                length -= 8;
            }
            return CR_OK;
        }
        at += length;
    }
    return wanted ? cr__zip_fail(m, CR_EFORMAT, "the zip64 sizes are missing") : CR_OK;
}

/* One entry of the directory; *at goes past it. */
static cr_status entry_read(cr_zip *zip, const uint8_t **at, const uint8_t *end, size_t number, cr_zip_member *m,
                            uint16_t *flags) {
    const uint8_t *p = *at;
    if (end - p < ZIP_CENTRAL_SIZE || zip_get32(p) != ZIP_CENTRAL)
        return cr__zip_fail(NULL, CR_EFORMAT, "entry %zu of the directory is damaged", number);
    size_t name = zip_get16(p + 28), extra = zip_get16(p + 30), comment = zip_get16(p + 32);
    if ((size_t)(end - p) - ZIP_CENTRAL_SIZE < name + extra + comment)
        return cr__zip_fail(NULL, CR_EFORMAT, "entry %zu of the directory goes past its end", number);
    const uint8_t *text = p + ZIP_CENTRAL_SIZE;
    const char *problem = cr__zip_name_problem(text, name);
    if (problem) {
        cr_str shown = {0};
        cr_str_add_quoted(&shown, (const char *)text, CR_MIN(name, (size_t)60));
        cr_status status = cr_str_status(&shown);
        if (!status)
            status = cr__zip_fail(NULL, CR_EFORMAT, "member %s: refused: %s", cr_str_get(&shown), problem);
        cr_str_dispose(&shown);
        return status;
    }
    *m = (cr_zip_member){
        .crc = zip_get32(p + 16), .packed = zip_get32(p + 20), .size = zip_get32(p + 24), .header = zip_get32(p + 42)};
    m->name = cr_arena_strndup(&zip->names, (const char *)text, name);
    if (!m->name) return CR_ENOMEM;
    *flags = zip_get16(p + 8);
    unsigned method = zip_get16(p + 10);
    if (*flags & (ZIP_FLAG_ENCRYPTED | ZIP_FLAG_STRONG | ZIP_FLAG_MASKED))
        return cr__zip_fail(m, CR_EUNSUPPORTED, "it is encrypted; decrypt the archive first");
    if (*flags & ZIP_FLAG_PATCH) return cr__zip_fail(m, CR_EUNSUPPORTED, "it is a patch of another file");
    if (method != ZIP_STORED && method != ZIP_DEFLATED)
        return cr__zip_fail(m, CR_EUNSUPPORTED, "compression method %u; only stored and deflated members are read",
                            method);
    m->deflated = method == ZIP_DEFLATED;
    m->descriptor = *flags & ZIP_FLAG_DESCRIPTOR;
    uint64_t disk = zip_get16(p + 34);
    wide_field fields[] = {{&m->size, m->size == UINT32_MAX},
                           {&m->packed, m->packed == UINT32_MAX},
                           {&m->header, m->header == UINT32_MAX}};
    CR_TRY(extra_read(m, text + name, extra, fields, CR_COUNT(fields)));
    if (disk && disk != UINT16_MAX)
        return cr__zip_fail(m, CR_EUNSUPPORTED,
                            "it lies in another file of the archive: join them first (zip -s 0)");
    if (!m->deflated && m->size != m->packed)
        return cr__zip_fail(m, CR_EFORMAT, "stored with %llu bytes, but %llu bytes are declared",
                            (unsigned long long)m->packed, (unsigned long long)m->size);
    /* Deflate packs at best 1032 to 1; what claims more is a trap for those who allocate first. */
    if (m->deflated && m->size / 1032 > m->packed)
        return cr__zip_fail(m, CR_EFORMAT, "%llu bytes cannot come out of %llu deflated ones",
                            (unsigned long long)m->size, (unsigned long long)m->packed);
    if (text[name - 1] == '/' && m->size)
        return cr__zip_fail(m, CR_EFORMAT, "a folder with %llu bytes", (unsigned long long)m->size);
    *at = text + name + extra + comment;
    return CR_OK;
}

/* The local header must say what the directory says; gives the place of the data. `end` is where the directory
 * begins. */
static cr_status local_read(const cr_zip *zip, cr_zip_member *m, uint16_t flags, uint64_t end, uint8_t *scratch,
                            size_t room) {
    const uint8_t *p;
    uint64_t name = strlen(m->name);
    if (m->header > end || end - m->header < ZIP_LOCAL_SIZE + name)
        return cr__zip_fail(m, CR_EFORMAT, "its header at %llu lies outside the file",
                            (unsigned long long)m->header);
    size_t guess = (size_t)CR_MIN(CR_MAX((uint64_t)LOCAL_GUESS, ZIP_LOCAL_SIZE + name), end - m->header);
    CR_TRY(cr__zip_bytes(zip, m->header, CR_MIN(guess, room), scratch, &p));
    if (zip_get32(p) != ZIP_LOCAL)
        return cr__zip_fail(m, CR_EFORMAT, "there is no local header at %llu", (unsigned long long)m->header);
    size_t extra = zip_get16(p + 28), whole = ZIP_LOCAL_SIZE + (size_t)name + extra;
    if (zip_get16(p + 26) != name || memcmp(p + ZIP_LOCAL_SIZE, m->name, name))
        return cr__zip_fail(m, CR_EFORMAT, "its local header has another name");
    m->offset = m->header + whole;
    if (m->offset > end || end - m->offset < m->packed)
        return cr__zip_fail(m, CR_EFORMAT, "its %llu bytes at %llu go past the end of the data",
                            (unsigned long long)m->packed, (unsigned long long)m->offset);
    unsigned local_flags = zip_get16(p + 6), method = zip_get16(p + 8),
             told = ZIP_FLAG_ENCRYPTED | ZIP_FLAG_DESCRIPTOR | ZIP_FLAG_STRONG | ZIP_FLAG_MASKED;
    if ((local_flags & told) != (flags & told))
        return cr__zip_fail(m, CR_EFORMAT, "its local header has other flags than the directory");
    if (method != (m->deflated ? ZIP_DEFLATED : ZIP_STORED))
        return cr__zip_fail(m, CR_EFORMAT, "its local header says compression method %u, the directory %u", method,
                            m->deflated ? ZIP_DEFLATED : ZIP_STORED);
    uint32_t crc = zip_get32(p + 14);
    uint64_t packed = zip_get32(p + 18), size = zip_get32(p + 22);
    if (m->descriptor && !crc && (packed == 0 || packed == UINT32_MAX) && (size == 0 || size == UINT32_MAX))
        return CR_OK; /* told behind the data */
    wide_field fields[] = {{&size, size == UINT32_MAX}, {&packed, packed == UINT32_MAX}};
    if (fields[0].wide || fields[1].wide) {
        if (whole > guess) CR_TRY(cr__zip_bytes(zip, m->header, whole, scratch, &p));
        CR_TRY(extra_read(m, p + ZIP_LOCAL_SIZE + name, extra, fields, CR_COUNT(fields)));
    }
    if (crc != m->crc || packed != m->packed || size != m->size)
        return cr__zip_fail(m, CR_EFORMAT,
            "its local header says %llu bytes (%llu packed, checksum %08x), the directory %llu (%llu, %08x)",
            (unsigned long long)size, (unsigned long long)packed, crc, (unsigned long long)m->size,
            (unsigned long long)m->packed, m->crc);
    return CR_OK;
}

/* ---- how members lie ---- */

/* The record behind a member's data, which repeats checksum and sizes. Its signature is optional and its sizes have 4
 * or 8 bytes; which of the four it is shows in its length. */
static cr_status descriptor_check(const cr_zip *zip, const cr_zip_member *m, uint64_t length) {
    enum { BARE = 12, SIGNED = 16, BARE_WIDE = 20, SIGNED_WIDE = 24 };
    uint8_t scratch[4 + SIGNED_WIDE];
    const uint8_t *p;
    uint64_t at = m->offset + m->packed;
    if (length != BARE && length != SIGNED && length != BARE_WIDE && length != SIGNED_WIDE)
        return cr__zip_fail(m, CR_EFORMAT, "%llu unexpected bytes follow its data", (unsigned long long)length);
    CR_TRY(cr__zip_bytes(zip, at - 4, 4 + (size_t)length, scratch, &p)); /* a local header lies before any data */
    bool is_signed = length == SIGNED || length == SIGNED_WIDE, wide = length >= BARE_WIDE;
    const uint8_t *q = p + 4 + (is_signed ? 4 : 0);
    uint64_t packed = wide ? zip_get64(q + 4) : zip_get32(q + 4), size = wide ? zip_get64(q + 12) : zip_get32(q + 8);
    /* A signature just before a record without one: the data were taken to begin four bytes too late. */
    if (zip_get32(is_signed ? q - 4 : p) == ZIP_DESCRIPTOR ? is_signed : !is_signed)
        if (zip_get32(q) == m->crc && packed == m->packed && size == m->size) return CR_OK;
    return cr__zip_fail(m, CR_EFORMAT, "the record behind its data is damaged");
}

/* Members lie one after another, in whatever order the directory lists them, without gaps: a changed length of a local
 * header would move the data, and nothing else shows that. `end` is where the directory begins. */
static cr_status layout_check(const cr_zip *zip, uint64_t end) {
    cr__extent *extents = cr_alloc(zip->n * sizeof *extents);
    if (!extents) return CR_ENOMEM;
    for (size_t i = 0; i < zip->n; i++) {
        const cr_zip_member *m = &zip->members[i];
        extents[i] = (cr__extent){.begin = m->header, .end = m->offset + m->packed, .index = (uint32_t)i};
    }
    cr__extents_sort(extents, zip->n);
    cr_status status = CR_OK;
    for (size_t i = 0; i < zip->n && !status; i++) {
        const cr_zip_member *m = &zip->members[extents[i].index];
        uint64_t next = i + 1 < zip->n ? extents[i + 1].begin : end;
        if (extents[i].end > next)
            status = cr__zip_fail(&zip->members[extents[i + 1].index], CR_EFORMAT, "it overlaps member '%.100s'",
                                  m->name);
        else if (m->descriptor)
            status = descriptor_check(zip, m, next - extents[i].end);
        else if (extents[i].end < next)
            status = cr__zip_fail(m, CR_EFORMAT, "%llu unexpected bytes follow its data",
                                  (unsigned long long)(next - extents[i].end));
    }
    cr_free(extents);
    return status;
}

/* ---- opening and closing ---- */

static cr_status directory_read(cr_zip *zip) {
    enum { ROOM = ZIP_LOCAL_SIZE + 2 * UINT16_MAX };
    directory d = {0};
    CR_TRY(end_read(zip, &d));
    zip->members = cr_calloc(d.count, sizeof *zip->members);
    uint8_t *scratch = zip->fd < 0 ? NULL : cr_alloc(ROOM);
    if (!zip->members || (zip->fd >= 0 && !scratch)) {
        cr_free(scratch);
        return CR_ENOMEM;
    }
    const uint8_t *at = zip->data + d.offset, *end = at + d.size;
    cr_status status = CR_OK;
    for (; zip->n < d.count; zip->n++) {
        uint16_t flags = 0;
        cr_zip_member *m = &zip->members[zip->n];
        CR_TRY_OUT(entry_read(zip, &at, end, zip->n, m, &flags));
        CR_TRY_OUT(local_read(zip, m, flags, d.offset, scratch, ROOM));
    }
    if (at != end)
        status =
            cr__zip_fail(NULL, CR_EFORMAT, "%zu unexpected bytes at the end of the directory", (size_t)(end - at));
    if (!status) status = index_build(zip);
    if (!status) status = layout_check(zip, d.offset);
out:
    cr_free(scratch);
    return status;
}

cr_status cr_zip_open_memory(const void *data, size_t size, cr_zip *owner, cr_zip **out) {
    cr_zip *zip = cr_calloc(1, sizeof *zip);
    if (!zip) return CR_ENOMEM;
    zip->refs = 1;
    zip->fd = -1;
    zip->data = data;
    zip->size = size;
    if (owner) cr_zip_retain(owner);
    zip->owner = owner;
    cr_status status = directory_read(zip);
    if (status) cr_zip_release(zip);
    else *out = zip;
    return status;
}

cr_status cr_zip_open_copy(const void *data, size_t size, cr_zip **out) {
    void *copy = cr_alloc_aligned(64, size + 1); /* members keep their alignment */
    if (!copy) return CR_ENOMEM;
    memcpy(copy, data, size);
    cr_status status = cr_zip_open_memory(copy, size, NULL, out);
    if (status) cr_free(copy);
    else (*out)->copy = copy;
    return status;
}

cr_status cr_zip_open(const char *path, cr_zip **out) {
    cr_zip *zip = cr_calloc(1, sizeof *zip);
    if (!zip) return CR_ENOMEM;
    zip->refs = 1;
    zip->fd = -1;
    cr_status status;
    zip->path = cr_strdup(path);
    CR_TRY_OUT(zip->path ? CR_OK : CR_ENOMEM);
    CR_TRY_OUT(cr_mapping_open_private(&zip->mapping, path, &zip->fd));
    zip->data = zip->mapping.data;
    zip->size = zip->mapping.size;
    /* Headers lie far apart: reading ahead behind each would read most of a file that is not in memory yet. */
    (void)posix_fadvise(zip->fd, 0, 0, POSIX_FADV_RANDOM);
    status = directory_read(zip);
    if (status) {
        /* What the system refuses names the path already. */
        if (status != CR_EIO) status = cr_error_context(status, "%s", path);
        goto out;
    }
    (void)posix_fadvise(zip->fd, 0, 0, POSIX_FADV_NORMAL);
    *out = zip;
    zip = NULL;
out:
    cr_zip_release(zip);
    return status;
}

void cr_zip_retain(cr_zip *zip) { atomic_fetch_add_explicit(&zip->refs, 1, memory_order_relaxed); }

void cr_zip_release(cr_zip *zip) {
    if (!zip || atomic_fetch_sub(&zip->refs, 1) != 1) return;
    cr_mapping_close(&zip->mapping);
    cr_free(zip->copy);
    if (zip->fd >= 0) close(zip->fd);
    cr_zip_release(zip->owner);
    cr_free(zip->path);
    cr_free(zip->members);
    cr_free(zip->index);
    cr_arena_dispose(&zip->names);
    cr_free(zip);
}

size_t cr_zip_count(const cr_zip *zip) { return zip->n; }

const cr_zip_member *cr_zip_at(const cr_zip *zip, size_t i) { return &zip->members[i]; }

const cr_zip_member *cr_zip_find(const cr_zip *zip, const char *name) {
    uint32_t found = *slot_of(zip, name);
    return found ? &zip->members[found - 1] : NULL;
}

uint64_t cr_zip_size(const cr_zip *zip) { return zip->size; }
