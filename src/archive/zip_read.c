/* The bytes of members: borrowed, copied, inflated, checked.
 *
 * Opening has proved that a member's packed bytes lie inside the file; here only their content can be wrong. zlib
 * inflates with memory from the library's own allocator, into exactly the declared size. */
#include "archive/zip.h"
#include "archive/zip_internal.h"

#include <zlib.h>

enum { CHUNK = 1 << 18 }; /* stays in the second-level cache between reading and summing */

cr_status cr_zip_borrow(cr_zip *zip, const cr_zip_member *m, uint8_t **out) {
    if (m->deflated) return cr__zip_fail(m, CR_EFORMAT, "it is deflated and cannot be mapped: store it (zip -0)");
    *out = (uint8_t *)(uintptr_t)(zip->data + m->offset);
    return CR_OK;
}

static voidpf zlib_alloc(voidpf user, uInt count, uInt size) {
    (void)user;
    return cr_calloc(count, size);
}

static void zlib_free(voidpf user, voidpf p) {
    (void)user;
    cr_free(p);
}

static cr_status checksum_compare(const cr_zip_member *m, uint32_t crc) {
    if (crc == m->crc) return CR_OK;
    return cr__zip_fail(m, CR_EFORMAT, "its data are damaged: checksum %08x, expected %08x", crc, m->crc);
}

/* Inflates the whole member, `room` bytes at a time to `to` (the same place again when `again`), and sums it up. */
static cr_status inflate_member(const cr_zip *zip, const cr_zip_member *m, uint8_t *to, size_t room, bool again,
                                uint32_t *crc) {
    z_stream stream = {.zalloc = zlib_alloc, .zfree = zlib_free};
    int code = inflateInit2(&stream, -MAX_WBITS);
    if (code != Z_OK) return CR_FAIL(CR_ENOMEM, "inflate");
    const uint8_t *from = zip->data + m->offset;
    uint64_t left = m->packed, made = 0;
    cr_status status = CR_OK;
    while (code != Z_STREAM_END) {
        if (!stream.avail_in && left) {
            stream.next_in = (z_const Bytef *)(uintptr_t)from;
            stream.avail_in = (uInt)CR_MIN(left, (uint64_t)1 << 30);
            from += stream.avail_in;
            left -= stream.avail_in;
        }
        uint8_t extra, *at = to + (again ? 0 : made);
        size_t step = (size_t)CR_MIN(CR_MIN(m->size - made, (uint64_t)room), (uint64_t)1 << 30);
        /* At the declared size one byte more is offered: the stream must end without taking it. */
        stream.next_out = step ? at : &extra;
        stream.avail_out = step ? (uInt)step : 1;
        size_t offered = stream.avail_out;
        code = inflate(&stream, Z_NO_FLUSH);
        size_t got = offered - stream.avail_out;
        if (code == Z_MEM_ERROR) {
            status = CR_FAIL(CR_ENOMEM, "inflate");
            break;
        }
        if (!step && got) {
            status = cr__zip_fail(m, CR_EFORMAT, "it inflates to more than the declared %llu bytes",
                                  (unsigned long long)m->size);
            break;
        }
        *crc = cr_crc32(*crc, at, step ? got : 0);
        made += step ? got : 0;
        if (code == Z_STREAM_END) break;
        if (code != Z_OK || (!got && !stream.avail_in && !left)) {
            status = cr__zip_fail(m, CR_EFORMAT, "its deflated data are damaged%s%s after %llu bytes",
                                  stream.msg ? ": " : "", stream.msg ? stream.msg : "", (unsigned long long)made);
            break;
        }
    }
    if (!status && made != m->size)
        status = cr__zip_fail(m, CR_EFORMAT, "it inflates to %llu bytes, %llu were declared",
                              (unsigned long long)made, (unsigned long long)m->size);
    if (!status && (stream.avail_in || left))
        status = cr__zip_fail(m, CR_EFORMAT, "%llu bytes follow its deflated data",
                              (unsigned long long)(stream.avail_in + left));
    inflateEnd(&stream);
    return status;
}

cr_status cr_zip_read(cr_zip *zip, const cr_zip_member *m, uint64_t limit, char **out) {
    if (m->size > limit || m->size >= SIZE_MAX)
        return cr__zip_fail(m, CR_EFORMAT, "%llu bytes, more than the %llu that are accepted here",
                            (unsigned long long)m->size, (unsigned long long)limit);
    char *copy = cr_alloc((size_t)m->size + 1);
    if (!copy) return CR_ENOMEM;
    uint32_t crc = 0;
    cr_status status = CR_OK;
    if (m->deflated) {
        CR_TRY_OUT(inflate_member(zip, m, (uint8_t *)copy, (size_t)m->size, false, &crc));
    } else {
        memcpy(copy, zip->data + m->offset, (size_t)m->size);
        crc = cr_crc32(0, copy, (size_t)m->size);
    }
    CR_TRY_OUT(checksum_compare(m, crc));
    copy[m->size] = 0;
    *out = copy;
    copy = NULL;
out:
    cr_free(copy);
    return status;
}

cr_status cr_zip_check(cr_zip *zip, const cr_zip_member *m) {
    uint32_t crc = 0;
    cr_status status = CR_OK;
    uint8_t *chunk = m->deflated || zip->fd >= 0 ? cr_alloc(CHUNK) : NULL;
    if (!chunk && (m->deflated || zip->fd >= 0)) return CR_ENOMEM;
    if (m->deflated) {
        CR_TRY_OUT(inflate_member(zip, m, chunk, CHUNK, true, &crc));
    } else {
        for (uint64_t done = 0; done < m->size;) {
            size_t step = (size_t)CR_MIN(m->size - done, (uint64_t)CHUNK);
            const uint8_t *p;
            CR_TRY_OUT(cr__zip_bytes(zip, m->offset + done, step, chunk, &p));
            crc = cr_crc32(crc, p, step);
            done += step;
        }
    }
    CR_TRY_OUT(checksum_compare(m, crc));
out:
    cr_free(chunk);
    return status;
}
