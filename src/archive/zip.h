/* zip.h: zip archives, read from mapped memory and written in one pass.
 *
 * Opening reads the central directory and the local headers alone, so that its cost does not depend on the size of the
 * members. Everything in them is checked there: bounds, zip64, local headers that agree, no two members of one name, no
 * overlaps and no gaps, names that stay inside ("..", absolute paths, backslashes, control characters and bad UTF-8 are
 * refused). A stored member's bytes are borrowed from the mapping; a deflated one is inflated on request, to its
 * declared size and not a byte more.
 *
 *     cr_zip *zip;
 *     CR_TRY(cr_zip_open("m.pt2", &zip));
 *     const cr_zip_member *m = cr_zip_find(zip, "m/models/model.json");
 *     CR_TRY(cr_zip_read(zip, m, 1 << 30, &text));
 *
 * A reader is refcounted and, once open, may be used from many threads. The mapping is private and writable: writing to
 * a borrowed member changes this process's copy of those pages only, never the file. As with any mapped file, nobody
 * may shorten the file while it is open (replacing it by rename is fine). */
#ifndef CR_ZIP_H
#define CR_ZIP_H

#include "base/base.h"

typedef struct cr_zip cr_zip;
typedef struct cr_zip_member {
    const char *name;    /* UTF-8, as stored; ends with '/' when it is a folder (size 0) */
    uint64_t size;       /* uncompressed */
    uint64_t packed;     /* bytes in the file */
    uint64_t offset;     /* of the data in the file */
    uint64_t header;     /* of the local header in the file */
    uint32_t crc;
    bool deflated;   /* else stored */
    bool descriptor; /* sizes and checksum stand once more behind the data */
} cr_zip_member;

/* CR_EIO: cannot be opened; CR_EFORMAT: not a zip, or damaged (the message names the member and what is wrong);
 * CR_EUNSUPPORTED: an encrypted member, another compression than deflate, an archive in several files. */
CR_NODISCARD cr_status cr_zip_open(const char *path, cr_zip **out);
/* On bytes that somebody else owns (a zip in a zip); `owner` (may be NULL) is retained as long as the reader lives. */
CR_NODISCARD cr_status cr_zip_open_memory(const void *data, size_t size, cr_zip *owner, cr_zip **out);
/* On a copy of the bytes. */
CR_NODISCARD cr_status cr_zip_open_copy(const void *data, size_t size, cr_zip **out);
void cr_zip_retain(cr_zip *zip);
void cr_zip_release(cr_zip *zip); /* NULL is legal */
size_t cr_zip_count(const cr_zip *zip);
const cr_zip_member *cr_zip_at(const cr_zip *zip, size_t i);              /* in the order of the directory */
const cr_zip_member *cr_zip_find(const cr_zip *zip, const char *name);    /* NULL: absent, no error */
uint64_t cr_zip_size(const cr_zip *zip);                                  /* of the whole file */

/* Errors of these name the member; the caller says of which file. */
/* The bytes of a stored member, borrowed from the mapping (alive as long as the reader). No checksum is computed.
 * CR_EFORMAT when it is deflated: use cr_zip_read. */
CR_NODISCARD cr_status cr_zip_borrow(cr_zip *zip, const cr_zip_member *m, uint8_t **out);
/* A copy, inflated when needed, checksum verified. *out: m->size bytes and a NUL, free with cr_free. CR_EFORMAT: larger
 * than `limit`, damaged data, wrong checksum. */
CR_NODISCARD cr_status cr_zip_read(cr_zip *zip, const cr_zip_member *m, uint64_t limit, char **out);
/* The checksum alone, without a copy, of what the file holds (not of pages that this process has written to).
 * CR_EFORMAT naming the member when it differs. */
CR_NODISCARD cr_status cr_zip_check(cr_zip *zip, const cr_zip_member *m);
/* The stored member whose data are exactly the `size` bytes at `data` in memory, provided that this process has not
 * written to them: then the file has the same bytes. NULL: none, or nobody can tell. *in: the archive of the member,
 * which may be one that `zip` lies in. */
const cr_zip_member *cr_zip_find_unchanged(const cr_zip *zip, const void *data, uint64_t size, const cr_zip **in);
uint32_t cr_crc32(uint32_t crc, const void *data, size_t size); /* zip's; start with 0 */

/* ---- writing: members in order, stored, streamed; nothing is visible under `path` before cr_zip_writer_finish ---- */
typedef struct cr_zip_writer cr_zip_writer;
/* Members' data start at multiples of `alignment` (1, or a power of two up to 4096; padding goes to the extra
 * field). */
CR_NODISCARD cr_status cr_zip_writer_create(const char *path, uint32_t alignment, cr_zip_writer **out);
/* To whatever takes bytes in order (a member of another archive, a file object of Python's) instead of a file: then
 * size and checksum of a member must be known before its data, so only cr_zip_writer_add and cr_zip_writer_copy are
 * possible. */
CR_NODISCARD cr_status cr_zip_writer_create_on(cr_sink sink, uint32_t alignment, cr_zip_writer **out);
/* Called again and again while data are written, at least every 64 MB; anything but CR_OK ends the writing with it. */
void cr_zip_writer_set_step(cr_zip_writer *w, cr_status (*step)(void *user), void *user);
CR_NODISCARD cr_status cr_zip_writer_begin(cr_zip_writer *w, const char *name);
CR_NODISCARD cr_status cr_zip_writer_write(cr_zip_writer *w, const void *data, size_t size); /* any number of times */
CR_NODISCARD cr_status cr_zip_writer_end(cr_zip_writer *w);
/* begin + write + end. */
CR_NODISCARD cr_status cr_zip_writer_add(cr_zip_writer *w, const char *name, const void *data, size_t size);
/* A stored member of another archive as the file has it, with the checksum it has there: damage stays visible as
 * damage. Its bytes pass by this process's memory. */
CR_NODISCARD cr_status cr_zip_writer_copy(cr_zip_writer *w, const char *name, const cr_zip *zip,
                                          const cr_zip_member *m);
uint32_t cr_zip_writer_last_crc(const cr_zip_writer *w); /* of the member that ended last */
/* Writes the directory, syncs and renames to `path`. The writer is gone afterwards, also on failure (the temporary
 * too). */
CR_NODISCARD cr_status cr_zip_writer_finish(cr_zip_writer *w);
void cr_zip_writer_abandon(cr_zip_writer *w); /* NULL is legal; removes the temporary */

#endif
