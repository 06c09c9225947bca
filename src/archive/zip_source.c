/* zip_source.c: which member of a mapped archive some bytes in memory are, and whether they still are what the file
 * holds.
 *
 * The mapping is private: a page that this process has written to is its own, and the kernel says so in
 * /proc/self/pagemap, where such a page is no page of a file. A page that was never touched, or that only was read, is
 * the file's. Where the kernel does not tell, the answer is that nobody knows, and the caller reads memory. */
#include "archive/zip_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

enum { ENTRIES = CR_LIMIT(1024, 2) };
#define PAGE_PRESENT ((uint64_t)1 << 63)
#define PAGE_SWAPPED ((uint64_t)1 << 62)
#define PAGE_OF_FILE ((uint64_t)1 << 61)

static bool is_files(const uint64_t *entries, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (entries[i] & PAGE_SWAPPED || ((entries[i] & PAGE_PRESENT) && !(entries[i] & PAGE_OF_FILE))) return false;
    return true;
}

/* Are all pages of [data, data + size) the file's? */
static bool unchanged(const void *data, uint64_t size) {
    uint64_t entries[ENTRIES], page = (uint64_t)sysconf(_SC_PAGESIZE), first = (uintptr_t)data / page,
                               last = ((uintptr_t)data + size - 1) / page;
    int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    bool same = fd >= 0;
    while (same && first <= last) {
        size_t n = (size_t)CR_MIN(last - first + 1, (uint64_t)ENTRIES);
        ssize_t got = pread(fd, entries, n * sizeof *entries, (off_t)(first * sizeof *entries));
        if (got < 0 && errno == EINTR) continue;
        if (got != (ssize_t)(n * sizeof *entries)) same = false;
        else same = is_files(entries, n);
        first += n;
    }
    if (fd >= 0) close(fd);
    return same;
}

const cr_zip_member *cr_zip_find_unchanged(const cr_zip *zip, const void *data, uint64_t size, const cr_zip **in) {
    const uint8_t *at = data;
    for (; zip && size; zip = zip->owner) {
        if (zip->fd < 0 || at < zip->data || (uint64_t)(at - zip->data) >= zip->size) continue;
        uint64_t offset = (uint64_t)(at - zip->data);
        for (size_t i = 0; i < zip->n; i++) {
            const cr_zip_member *m = &zip->members[i];
            if (m->offset != offset || m->size != size || m->deflated) continue;
            *in = zip;
            return unchanged(data, size) ? m : NULL;
        }
        return NULL;
    }
    return NULL;
}
