/* Writing zip archives: stored members, streamed.
 *
 * A member's size and checksum are known only after its data, so its local header is written with room for 64-bit sizes
 * (a padding field of the same length until they are needed) and patched when the member ends. No data descriptors, no
 * time stamps: the same members give the same bytes. The directory is gathered in memory as it will be written.
 *
 * A sink cannot be patched: there the size and the checksum come first, which takes data that are in memory or in
 * another archive. */
#include "archive/zip.h"
#include "archive/zip_internal.h"

#include <stdio.h>

enum {
    PADDING = 0x4246,      /* the id of padding that PyTorch's own writer uses */
    WIDE_FIELD = 20,       /* id, length, two 64-bit sizes */
    VERSION = 45,          /* the first version with 64-bit sizes */
    FIRST_DAY = 1 << 5 | 1, /* 1980-01-01, the format's earliest date */
    CHUNK = 1 << 18,        /* stays in the second-level cache between summing and writing */
    STEP = 1 << 24          /* bytes between two looks at whether to go on */
};

struct cr_zip_writer {
    cr_file_writer *file; /* NULL: the sink */
    cr_sink sink;
    uint64_t at; /* bytes the sink has taken */
    cr_status (*step)(void *user);
    void *step_user;
    uint64_t since; /* bytes since the last step */
    char *path;
    uint32_t alignment;
    uint64_t wide_from; /* numbers from here on take 64 bits */
    cr_map names;
    cr_str directory;
    uint64_t count;
    bool open, broken; /* broken: a call has failed, finishing must too */
    /* the open member */
    char *name;
    uint8_t *local;
    size_t local_size;
    uint64_t header, size;
    uint32_t crc;
    bool known;       /* header, size and crc were right from the beginning */
    uint64_t written; /* of a known member */
};

typedef struct { uint8_t *at; } cursor;

static void put16(cursor *c, uint64_t v) { *c->at++ = (uint8_t)v, *c->at++ = (uint8_t)(v >> 8); }
static void put32(cursor *c, uint64_t v) { put16(c, v), put16(c, v >> 16); }
static void put64(cursor *c, uint64_t v) { put32(c, v), put32(c, v >> 32); }
static uint64_t narrow(const cr_zip_writer *w, uint64_t v) { return v >= w->wide_from ? UINT32_MAX : v; }

static cr_status broken(cr_zip_writer *w, cr_status status) {
    if (status) w->broken = true;
    return status;
}

static uint64_t position(const cr_zip_writer *w) { return w->file ? cr_file_writer_position(w->file) : w->at; }

static cr_status put(cr_zip_writer *w, const void *data, size_t size) {
    if (w->file) return cr_file_writer_write(w->file, data, size);
    CR_TRY(w->sink.write(w->sink.user, data, size));
    w->at += size;
    return CR_OK;
}

static cr_status step(void *user) {
    cr_zip_writer *w = user;
    w->since = 0;
    return w->step ? w->step(w->step_user) : CR_OK;
}

void cr_zip_writer_set_step(cr_zip_writer *w, cr_status (*fn)(void *user), void *user) {
    w->step = fn;
    w->step_user = user;
}

static cr_status create(const char *path, cr_sink sink, uint32_t alignment, cr_zip_writer **out) {
    if (alignment == 0 || alignment > 4096 || (alignment & (alignment - 1)))
        return CR_FAIL(CR_EVALUE, "alignment %u of zip members is not a power of two up to 4096", alignment);
    cr_zip_writer *w = cr_calloc(1, sizeof *w);
    if (!w) return CR_ENOMEM;
    cr_status status;
    w->alignment = alignment;
    w->wide_from = UINT32_MAX;
    w->sink = sink;
    w->path = cr_strdup(path ? path : "the archive");
    CR_TRY_OUT(w->path ? CR_OK : CR_ENOMEM);
    if (path) CR_TRY_OUT(cr_file_writer_create(path, &w->file));
    *out = w;
    w = NULL;
out:
    cr_zip_writer_abandon(w);
    return status;
}

cr_status cr_zip_writer_create(const char *path, uint32_t alignment, cr_zip_writer **out) {
    return create(path, (cr_sink){ NULL, NULL }, alignment, out);
}
cr_status cr_zip_writer_create_on(cr_sink sink, uint32_t alignment, cr_zip_writer **out) {
    return create(NULL, sink, alignment, out);
}

void cr__zip_writer_wide_from(cr_zip_writer *w, uint64_t from) { w->wide_from = from; }

static void member_clear(cr_zip_writer *w) {
    cr_free(w->name);
    cr_free(w->local);
    w->name = NULL;
    w->local = NULL;
    w->open = false;
}

/* What a local header and an entry of the directory say alike of the member. */
static void put_member(cursor *c, const cr_zip_writer *w, bool wide, size_t name) {
    put16(c, wide ? VERSION : 20);
    put16(c, ZIP_FLAG_UTF8);
    put16(c, ZIP_STORED);
    put16(c, 0);
    put16(c, FIRST_DAY);
    put32(c, w->crc);
    put32(c, narrow(w, w->size));
    put32(c, narrow(w, w->size));
    put16(c, name);
}

/* Fills w->local for what is known now. */
static void local_fill(cr_zip_writer *w) {
    cursor c = {w->local};
    size_t name = strlen(w->name), extra = w->local_size - ZIP_LOCAL_SIZE - name, padding = extra - WIDE_FIELD;
    bool wide = w->size >= w->wide_from;
    put32(&c, ZIP_LOCAL);
    put_member(&c, w, wide, name);
    put16(&c, extra);
    memcpy(c.at, w->name, name);
    c.at += name;
    put16(&c, wide ? ZIP_EXTRA64 : PADDING);
    put16(&c, WIDE_FIELD - 4);
    put64(&c, wide ? w->size : 0);
    put64(&c, wide ? w->size : 0);
    if (!padding) return;
    put16(&c, PADDING);
    put16(&c, padding - 4);
    memset(c.at, 0, padding - 4);
}

/* `known`: the member will have `size` bytes with the checksum `crc`. */
static cr_status member_begin(cr_zip_writer *w, const char *name, bool known, uint64_t size, uint32_t crc) {
    if (!known && !w->file)
        return CR_FAIL(CR_EVALUE, "member '%s': what is not written to a file needs members whose size is known", name);
    if (w->open) return CR_FAIL(CR_EVALUE, "member '%s' begins before '%s' has ended", name, w->name);
    size_t n = strlen(name);
    const char *problem = cr__zip_name_problem((const uint8_t *)name, n);
    if (!problem && name[n - 1] == '/') problem = "a folder";
    if (!problem && n > UINT16_MAX) problem = "a name of more than 65535 bytes";
    if (problem) return CR_FAIL(CR_EVALUE, "'%.100s' cannot name a member: %s", name, problem);
    if (cr_map_find_str(&w->names, name, NULL)) return CR_FAIL(CR_EVALUE, "member '%s' is written twice", name);
    CR_TRY(cr_map_put_str(&w->names, name, 0));
    w->header = position(w);
    w->local_size = ZIP_LOCAL_SIZE + n + WIDE_FIELD;
    /* A padding field is four bytes at least. */
    uint64_t data = w->header + w->local_size, padding = (0 - data) & (w->alignment - 1);
    while (padding && padding < 4) padding += w->alignment;
    w->local_size += (size_t)padding;
    w->name = cr_strdup(name);
    w->local = cr_alloc(w->local_size);
    if (!w->name || !w->local) {
        member_clear(w);
        return CR_ENOMEM;
    }
    w->size = size;
    w->crc = crc;
    w->known = known;
    w->written = 0;
    w->open = true;
    local_fill(w);
    return put(w, w->local, w->local_size);
}

cr_status cr_zip_writer_begin(cr_zip_writer *w, const char *name) {
    return broken(w, member_begin(w, name, false, 0, 0));
}

/* In pieces, so that what was summed is still in the cache when it is written, and a long member can be given up. */
static cr_status member_write(cr_zip_writer *w, const void *data, size_t size) {
    if (!w->open) return CR_FAIL(CR_EVALUE, "data without a member");
    for (const uint8_t *at = data; size;) {
        size_t n = CR_MIN(size, (size_t)CHUNK);
        if (!w->known) {
            w->crc = cr_crc32(w->crc, at, n);
            w->size += n;
        }
        w->written += n;
        CR_TRY(put(w, at, n));
        at += n;
        size -= n;
        w->since += n;
        if (w->since >= STEP) CR_TRY(step(w));
    }
    return CR_OK;
}

cr_status cr_zip_writer_write(cr_zip_writer *w, const void *data, size_t size) {
    return broken(w, member_write(w, data, size));
}

/* The member's line in the directory. */
static cr_status directory_add(cr_zip_writer *w) {
    uint8_t entry[ZIP_CENTRAL_SIZE], extra[4 + 24];
    cursor e = {extra + 4}, c = {entry};
    size_t name = strlen(w->name);
    if (w->size >= w->wide_from) put64(&e, w->size), put64(&e, w->size);
    if (w->header >= w->wide_from) put64(&e, w->header);
    size_t wide = (size_t)(e.at - extra) - 4;
    e.at = extra;
    put16(&e, ZIP_EXTRA64);
    put16(&e, wide);
    put32(&c, ZIP_CENTRAL);
    put16(&c, 3 << 8 | VERSION); /* made on Unix: the attributes below are its file mode */
    put_member(&c, w, wide, name);
    put16(&c, wide ? wide + 4 : 0);
    put16(&c, 0);
    put16(&c, 0);
    put16(&c, 0);
    put32(&c, (uint32_t)0100644 << 16);
    put32(&c, narrow(w, w->header));
    cr_str_addn(&w->directory, (const char *)entry, sizeof entry);
    cr_str_addn(&w->directory, w->name, name);
    if (wide) cr_str_addn(&w->directory, (const char *)extra, wide + 4);
    w->count++;
    return cr_str_status(&w->directory);
}

static cr_status member_end(cr_zip_writer *w) {
    if (!w->open) return CR_FAIL(CR_EVALUE, "the end of a member that has not begun");
    cr_status status = CR_OK;
    if (w->known && w->written != w->size)
        status = CR_FAIL(CR_EVALUE, "member '%s' has %llu bytes, not %llu", w->name, (unsigned long long)w->written,
                         (unsigned long long)w->size);
    if (!w->known) {
        local_fill(w);
        status = cr_file_writer_patch(w->file, w->header, w->local, w->local_size);
    }
    if (!status) status = directory_add(w);
    member_clear(w);
    return status;
}

cr_status cr_zip_writer_end(cr_zip_writer *w) { return broken(w, member_end(w)); }

cr_status cr_zip_writer_add(cr_zip_writer *w, const char *name, const void *data, size_t size) {
    /* One pass over what is large, where it can be patched. */
    CR_TRY(w->file ? cr_zip_writer_begin(w, name)
                   : broken(w, member_begin(w, name, true, size, cr_crc32(0, data, size))));
    CR_TRY(cr_zip_writer_write(w, data, size));
    return cr_zip_writer_end(w);
}

static cr_status copy_pieces(cr_zip_writer *w, const cr_zip *zip, const cr_zip_member *m) {
    uint8_t *chunk = cr_alloc(CHUNK);
    cr_status status = chunk ? CR_OK : CR_ENOMEM;
    for (uint64_t done = 0; done < m->size && !status;) {
        size_t n = (size_t)CR_MIN(m->size - done, (uint64_t)CHUNK);
        const uint8_t *data;
        status = cr__zip_bytes(zip, m->offset + done, n, chunk, &data);
        if (!status) status = member_write(w, data, n);
        done += n;
    }
    cr_free(chunk);
    return status;
}

static cr_status member_copy(cr_zip_writer *w, const char *name, const cr_zip *zip, const cr_zip_member *m) {
    if (m->deflated) return CR_FAIL(CR_EVALUE, "member '%s' is deflated and cannot be copied as it is", m->name);
    CR_TRY(member_begin(w, name, true, m->size, m->crc));
    if (!w->file || zip->fd < 0) {
        CR_TRY(copy_pieces(w, zip, m));
    } else {
        CR_TRY(cr_file_writer_copy(w->file, zip->fd, m->offset, m->size, step, w));
        w->written = m->size;
        w->since += m->size;
        if (w->since >= STEP) CR_TRY(step(w));
    }
    return member_end(w);
}

cr_status cr_zip_writer_copy(cr_zip_writer *w, const char *name, const cr_zip *zip, const cr_zip_member *m) {
    return broken(w, member_copy(w, name, zip, m));
}

uint32_t cr_zip_writer_last_crc(const cr_zip_writer *w) { return w->crc; }

static cr_status directory_write(cr_zip_writer *w) {
    uint8_t ends[ZIP_END64_SIZE + ZIP_LOCATOR64_SIZE + ZIP_END_SIZE];
    cursor c = {ends};
    uint64_t offset = position(w), size = w->directory.n, count = w->count;
    CR_TRY(put(w, cr_str_get(&w->directory), w->directory.n));
    if (offset >= w->wide_from || size >= w->wide_from || count >= UINT16_MAX) {
        put32(&c, ZIP_END64);
        put64(&c, ZIP_END64_SIZE - 12);
        put16(&c, 3 << 8 | VERSION);
        put16(&c, VERSION);
        put64(&c, 0);
        put64(&c, count);
        put64(&c, count);
        put64(&c, size);
        put64(&c, offset);
        put32(&c, ZIP_LOCATOR64);
        put32(&c, 0);
        put64(&c, offset + size);
        put32(&c, 1);
    }
    put32(&c, ZIP_END);
    put32(&c, 0);
    put16(&c, CR_MIN(count, (uint64_t)UINT16_MAX));
    put16(&c, CR_MIN(count, (uint64_t)UINT16_MAX));
    put32(&c, narrow(w, size));
    put32(&c, narrow(w, offset));
    put16(&c, 0);
    return put(w, ends, (size_t)(c.at - ends));
}

cr_status cr_zip_writer_finish(cr_zip_writer *w) {
    cr_status status = CR_OK;
    if (w->broken) status = CR_FAIL(CR_EIO, "cannot write '%s': one of its members could not be written", w->path);
    else if (w->open) status = CR_FAIL(CR_EVALUE, "the archive ends before its member '%s'", w->name);
    if (!status) status = directory_write(w);
    if (!status && w->file) {
        status = cr_file_writer_finish(w->file);
        w->file = NULL;
    }
    cr_zip_writer_abandon(w);
    return status;
}

void cr_zip_writer_abandon(cr_zip_writer *w) {
    if (!w) return;
    cr_file_writer_abandon(w->file);
    member_clear(w);
    cr_map_dispose(&w->names);
    cr_str_dispose(&w->directory);
    cr_free(w->path);
    cr_free(w);
}
