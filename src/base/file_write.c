/* Files written so that readers see the old file or the whole new one.
 *
 * The bytes go to a temporary in the same folder (rename does not cross file systems), which is synced before the rename
 * and removed on every failure. After a failed write the writer only waits to be finished or abandoned: the first
 * failure is the one that finishing reports. */
#define _GNU_SOURCE /* copy_file_range, renameat2 */
#include "base/base.h"
#include "base/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* One write call of the kernel takes at most 2^31 - 4096 bytes; smaller steps also end sooner on a signal. */
enum { STEP = 1 << 30, BUFFER = 1 << 16, COPY_STEP = 1 << 26 };

struct cr_file_writer {
    char *path;
    cr_str temporary;
    int fd, note, reason; /* note: for a signal that ends the process; reason: the errno of the first failure */
    bool hurry;
    uint64_t position;
    size_t buffered;
    char buffer[BUFFER];
};

static _Atomic int64_t writes, fail_at;

void cr_write_fail_at(int64_t n) { atomic_store(&fail_at, n ? atomic_load(&writes) + n : 0); }
int64_t cr_write_count(void) { return atomic_load(&writes); }

/* Counts a write; true: the one that has to fail. */
static bool fails(void) { return atomic_fetch_add(&writes, 1) + 1 == atomic_load(&fail_at); }

/* 0 or an errno. */
static int write_all(int fd, const char *data, size_t size) {
    while (size) {
        if (fails()) return ENOSPC;
        ssize_t put = write(fd, data, CR_MIN(size, (size_t)STEP));
        if (put < 0 && errno == EINTR) continue;
        if (put < 0) return errno;
        if (put == 0) return ENOSPC;
        data += put;
        size -= (size_t)put;
    }
    return 0;
}

/* After a rename the name itself has to reach the disk. Not every file system syncs folders; the file is whole
 * either way, so a failure here is none. Cuts `path` down to its folder. */
static void sync_folder_of(char *path) {
    char *slash = strrchr(path, '/');
    if (slash) slash[slash == path] = 0;
    int fd = cr__open_file(slash ? path : ".", O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0) return;
    (void)!fsync(fd);
    close(fd);
}

cr_status cr_file_writer_create(const char *path, cr_file_writer **out) {
    static _Atomic unsigned serial;
    struct stat info;
    /* A rename would put a plain file where the device or pipe was. */
    if (!stat(path, &info) && !S_ISREG(info.st_mode))
        return S_ISDIR(info.st_mode) ? cr__fail_errno("write", path, EISDIR)
                                     : CR_FAIL(CR_EIO, "cannot write '%s': it is not a regular file", path);
    cr_file_writer *w = cr_alloc(sizeof *w);
    if (!w) return CR_ENOMEM;
    w->fd = w->note = -1;
    w->reason = 0;
    w->hurry = false;
    w->position = w->buffered = 0;
    w->temporary = (cr_str){0};
    cr_status status = CR_OK;
    w->path = cr_strdup(path);
    CR_TRY_OUT(w->path ? CR_OK : CR_ENOMEM);
    do { /* a leftover of a killed process with our id may hold the name */
        cr_str_dispose(&w->temporary);
        cr_temporary_drop(w->note);
        w->note = -1;
        cr_str_addf(&w->temporary, "%s.tmp.%ld.%u", path, (long)getpid(), atomic_fetch_add(&serial, 1));
        CR_TRY_OUT(cr_str_status(&w->temporary));
        w->note = cr_temporary_add(cr_str_get(&w->temporary));
        w->fd = cr__open_file(cr_str_get(&w->temporary), O_WRONLY | O_CREAT | O_EXCL, 0666);
    } while (w->fd < 0 && errno == EEXIST);
    CR_TRY_OUT(w->fd < 0 ? cr__fail_errno("write", path, errno) : CR_OK);
    *out = w;
    w = NULL;
out:
    cr_file_writer_abandon(w);
    return status;
}

static void flush(cr_file_writer *w) {
    if (!w->reason) w->reason = write_all(w->fd, w->buffer, w->buffered);
    w->buffered = 0;
}

static cr_status status_of(const cr_file_writer *w) { return w->reason ? cr__fail_errno("write", w->path, w->reason) : CR_OK; }

cr_status cr_file_writer_write(cr_file_writer *w, const void *data, size_t size) {
    if (size > BUFFER - w->buffered) flush(w);
    if (size > BUFFER) {
        if (!w->reason) w->reason = write_all(w->fd, data, size);
    } else if (size) {
        memcpy(w->buffer + w->buffered, data, size);
        w->buffered += size;
    }
    w->position += size;
    return status_of(w);
}

/* Where the kernel does not copy between these two files, the bytes go through the buffer. */
static bool is_no_kernel_copy(int reason) { return reason == EXDEV || reason == EINVAL || reason == ENOSYS || reason == EOPNOTSUPP || reason == EBADF || reason == EPERM; }

/* At most `size` bytes; how many, 0 at the end of the file, -1 and errno. */
static ssize_t copy_some(cr_file_writer *w, int fd, uint64_t offset, size_t size, bool *kernel) {
    if (fails()) return errno = ENOSPC, -1;
    if (*kernel) {
        off_t from = (off_t)offset;
        ssize_t done = copy_file_range(fd, &from, w->fd, NULL, size, 0);
        if (done >= 0 || !is_no_kernel_copy(errno)) return done;
        *kernel = false;
    }
    ssize_t got = pread(fd, w->buffer, CR_MIN(size, (size_t)BUFFER), (off_t)offset);
    if (got <= 0) return got;
    int reason = write_all(w->fd, w->buffer, (size_t)got);
    return reason ? (errno = reason, -1) : got;
}

cr_status cr_file_writer_copy(cr_file_writer *w, int fd, uint64_t offset, uint64_t size, cr_status (*step)(void *user), void *user) {
    bool kernel = true;
    uint64_t since = 0;
    flush(w);
    for (uint64_t done = 0; done < size && !w->reason;) {
        ssize_t put = copy_some(w, fd, offset + done, (size_t)CR_MIN(size - done, (uint64_t)COPY_STEP), &kernel);
        if (put < 0 && errno == EINTR) continue;
        if (put < 0) {
            w->reason = errno;
            break;
        }
        if (put == 0) {
            w->reason = EIO;
            return CR_FAIL(CR_EIO, "cannot write '%s': the file its bytes come from ends %llu bytes too early", w->path, (unsigned long long)(size - done));
        }
        done += (uint64_t)put;
        w->position += (uint64_t)put;
        since += (uint64_t)put;
        if (!step || since < COPY_STEP) continue;
        since = 0;
        CR_TRY(step(user));
    }
    return status_of(w);
}

uint64_t cr_file_writer_position(const cr_file_writer *w) { return w->position; }

cr_status cr_file_writer_patch(cr_file_writer *w, uint64_t offset, const void *data, size_t size) {
    uint64_t flushed = w->position - w->buffered;
    if (offset >= flushed) { /* has not left the buffer */
        memcpy(w->buffer + (offset - flushed), data, size);
        return status_of(w);
    }
    flush(w);
    for (size_t done = 0; done < size && !w->reason;) {
        if (fails()) {
            w->reason = ENOSPC;
            break;
        }
        ssize_t put = pwrite(w->fd, (const char *)data + done, size - done, (off_t)(offset + done));
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) w->reason = put < 0 ? errno : ENOSPC;
        else done += (size_t)put;
    }
    return status_of(w);
}

void cr_file_writer_hurry(cr_file_writer *w) { w->hurry = true; }

void cr_file_writer_abandon(cr_file_writer *w) {
    if (!w) return;
    if (w->fd >= 0) {
        close(w->fd);
        unlink(cr_str_get(&w->temporary));
    }
    cr_temporary_drop(w->note);
    cr_str_dispose(&w->temporary);
    cr_free(w->path);
    cr_free(w);
}

/* A rename over an older file makes some file systems (ext4) write all of the new one to the disk first. In a hurry the two
 * change places instead, as atomically, and the older one goes. */
static int take_name(const cr_file_writer *w) {
#ifdef RENAME_EXCHANGE
    const char *made = cr_str_get(&w->temporary);
    struct stat old;
    if (w->hurry && !lstat(w->path, &old) && S_ISREG(old.st_mode) && !renameat2(AT_FDCWD, made, AT_FDCWD, w->path, RENAME_EXCHANGE)) {
        unlink(made);
        return 0;
    }
#endif
    return rename(cr_str_get(&w->temporary), w->path);
}

cr_status cr_file_writer_finish(cr_file_writer *w) {
    flush(w);
    /* EINVAL: a file system that cannot sync. */
    if (!w->reason && !w->hurry && fsync(w->fd) && errno != EINVAL) w->reason = errno;
    if (!w->reason) {
        /* The descriptor is gone after close, whatever it says. */
        int closed = close(w->fd);
        if (closed && errno != EINTR) w->reason = errno;
        if (!w->reason && take_name(w)) w->reason = errno;
        if (w->reason) unlink(cr_str_get(&w->temporary));
        w->fd = -1;
        if (!w->reason && !w->hurry) sync_folder_of(w->temporary.at);
    }
    cr_status status = status_of(w);
    cr_file_writer_abandon(w);
    return status;
}

cr_status cr_file_write_atomic(const char *path, const void *data, size_t size) {
    cr_file_writer *w = NULL;
    CR_TRY(cr_file_writer_create(path, &w));
    cr_status status = cr_file_writer_write(w, data, size);
    if (!status) return cr_file_writer_finish(w);
    cr_file_writer_abandon(w);
    return status;
}
