/* zip_internal.h: records of the zip format, and what the reader's files share. */
#ifndef CR_ZIP_INTERNAL_H
#define CR_ZIP_INTERNAL_H

#include "archive/zip.h"

#include <stdatomic.h>

/* Signatures and fixed lengths of the records (APPNOTE 6.3). */
enum {
    ZIP_LOCAL = 0x04034b50,
    ZIP_LOCAL_SIZE = 30,
    ZIP_CENTRAL = 0x02014b50,
    ZIP_CENTRAL_SIZE = 46,
    ZIP_END = 0x06054b50,
    ZIP_END_SIZE = 22,
    ZIP_END64 = 0x06064b50,
    ZIP_END64_SIZE = 56,
    ZIP_LOCATOR64 = 0x07064b50,
    ZIP_LOCATOR64_SIZE = 20,
    ZIP_DESCRIPTOR = 0x08074b50,
    ZIP_EXTRA64 = 1, /* id of the extra field with 64-bit sizes */
    ZIP_FLAG_ENCRYPTED = 1 << 0,
    ZIP_FLAG_DESCRIPTOR = 1 << 3,
    ZIP_FLAG_PATCH = 1 << 5,
    ZIP_FLAG_STRONG = 1 << 6,
    ZIP_FLAG_UTF8 = 1 << 11,
    ZIP_FLAG_MASKED = 1 << 13,
    ZIP_STORED = 0,
    ZIP_DEFLATED = 8,
};

struct cr_zip {
    _Atomic int refs;
    cr_zip *owner; /* of the bytes, when they are a member of another archive */
    char *path;    /* for messages; NULL in memory */
    cr_mapping mapping;
    int fd; /* -1 in memory */
    void *copy; /* of the bytes; NULL: they are somebody else's, or mapped */
    const uint8_t *data;
    uint64_t size;
    cr_zip_member *members;
    size_t n;
    uint32_t *index; /* open-addressed: member number + 1 by hash of the name; 0 where a slot is empty */
    size_t index_mask;
    uint64_t seed;
    cr_arena names;
};

static inline uint16_t zip_get16(const uint8_t *p) { return (uint16_t)(p[0] | p[1] << 8); }
static inline uint32_t zip_get32(const uint8_t *p) { return (uint32_t)zip_get16(p) | (uint32_t)zip_get16(p + 2) << 16; }
static inline uint64_t zip_get64(const uint8_t *p) { return (uint64_t)zip_get32(p) | (uint64_t)zip_get32(p + 4) << 32; }

/* Bytes [offset, offset + size) of the file, which the caller has checked to be inside: where they lie in memory, or
 * read into `scratch`, because touching the mapping would make the pages around them resident, too. */
CR_NODISCARD cr_status cr__zip_bytes(const cr_zip *zip, uint64_t offset, size_t size, uint8_t *scratch,
                                     const uint8_t **out);
/* CR_FAIL with "member 'NAME': " in front (NULL: nothing). */
cr_status cr__zip_fail(const cr_zip_member *m, cr_status code, const char *format, ...)
    CR_PRINTF(3, 4);
/* Why a name is refused; NULL when it is fine. */
const char *cr__zip_name_problem(const uint8_t *name, size_t n);
/* For tests: numbers from `from` on are written with 64 bits, so that small archives have what large ones have. */
void cr__zip_writer_wide_from(cr_zip_writer *w, uint64_t from);

#endif
