/* Whole files: mapped and read. */
#include "base/base.h"
#include "base/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* One read call of the kernel takes at most 2^31 - 4096 bytes; smaller steps also end sooner on a signal. */
enum { STEP = 1 << 30 };

cr_status cr__fail_errno(const char *verb, const char *path, int reason) {
    return CR_FAIL_SYSTEM(reason, "cannot %s '%s': %s", verb, path, strerror(reason));
}

int cr__open_file(const char *path, int flags, mode_t mode) {
    int fd;
    do fd = open(path, flags | O_CLOEXEC, mode);
    while (fd < 0 && errno == EINTR);
    return fd;
}

/* Opens for reading and gives the size; folders are refused here, because opening one succeeds. */
static cr_status open_for_reading(const char *path, int flags, int *fd, struct stat *info) {
    *fd = cr__open_file(path, O_RDONLY | flags, 0);
    if (*fd < 0) return cr__fail_errno("open", path, errno);
    int reason = fstat(*fd, info) ? errno : S_ISDIR(info->st_mode) ? EISDIR : 0;
    if (!reason) return CR_OK;
    close(*fd);
    return cr__fail_errno("open", path, reason);
}

/* O_NONBLOCK: a pipe that nobody writes to is refused, not waited for; it changes nothing for regular files.
 * MAP_NORESERVE: most pages of a private mapping are never written, so no swap is set aside for all of them. */
static cr_status map_file(cr_mapping *m, const char *path, int protection, int *out) {
    int fd;
    struct stat info;
    CR_TRY(open_for_reading(path, O_NONBLOCK, &fd, &info));
    cr_status status = CR_OK;
    if (!S_ISREG(info.st_mode)) {
        status = CR_FAIL(CR_EIO, "cannot map '%s': it is not a regular file; copy it to one", path);
    } else if (info.st_size == 0) {
        *m = (cr_mapping){.data = (const uint8_t *)""};
    } else {
        void *at = mmap(NULL, (size_t)info.st_size, protection, MAP_PRIVATE | MAP_NORESERVE, fd, 0);
        if (at == MAP_FAILED) status = cr__fail_errno("map", path, errno);
        else *m = (cr_mapping){.data = at, .size = (size_t)info.st_size, .impl = at};
    }
    if (out && !status) *out = fd;
    else close(fd);
    return status;
}

cr_status cr_mapping_open(cr_mapping *m, const char *path) { return map_file(m, path, PROT_READ, NULL); }

cr_status cr_mapping_open_private(cr_mapping *m, const char *path, int *fd) {
    return map_file(m, path, PROT_READ | PROT_WRITE, fd);
}

void cr_mapping_close(cr_mapping *m) {
    if (m->impl) munmap(m->impl, m->size);
    *m = (cr_mapping){0};
}

cr_status cr_file_read(const char *path, char **out, size_t *size) {
    int fd;
    struct stat info;
    CR_TRY(open_for_reading(path, 0, &fd, &info));
    cr_status status = CR_OK;
    CR_VEC(char) text = {0};
    /* The stated size is only a first guess: pipes and /proc files state none, and files grow. One byte more than
     * the guess lets the read that finds the end need no second buffer. */
    CR_TRY_OUT(cr_vec_reserve(&text, (info.st_size > 0 ? (size_t)info.st_size : 0) + 2));
    for (;;) {
        CR_TRY_OUT(cr_vec_reserve(&text, text.n + 2));
        ssize_t got = read(fd, text.at + text.n, CR_MIN(text.cap - text.n - 1, (size_t)STEP));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) {
            status = cr__fail_errno("read", path, errno);
            goto out;
        }
        if (got == 0) break;
        text.n += (size_t)got;
    }
    text.at[text.n] = 0;
    *out = text.at;
    if (size) *size = text.n;
    text.at = NULL;
out:
    cr_free(text.at);
    close(fd);
    return status;
}
