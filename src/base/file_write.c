/* Files written so that readers see the old file or the whole new one.
 *
 * The bytes go to a temporary in the same folder (rename does not cross file systems), which is synced before it takes
 * the path's name. Where the file system can, the temporary has no name until then, so that even a process that is
 * killed leaves nothing behind; to replace an older file it gets a name of its own for the moment before the rename.
 * Elsewhere it has that name from the start, and is removed on every failure. After a failed write the writer only
 * waits to be finished or abandoned: the first failure is the one that finishing reports. */
#define _GNU_SOURCE /* copy_file_range, renameat2, O_TMPFILE */
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
    bool hurry, named; /* named: the temporary has its name */
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

/* The next name for the temporary, noted for a signal that ends the process. */
static cr_status name_temporary(cr_file_writer *w) {
    static _Atomic unsigned serial;
    cr_str_dispose(&w->temporary);
    cr_temporary_drop(w->note);
    w->note = -1;
    cr_str_addf(&w->temporary, "%s.tmp.%ld.%u", w->path, (long)getpid(), atomic_fetch_add(&serial, 1));
    CR_TRY(cr_str_status(&w->temporary));
    w->note = cr_temporary_add(cr_str_get(&w->temporary));
    return CR_OK;
}

/* A file without a name in the folder of the path; -1 where there is no such thing. */
static int open_nameless(cr_file_writer *w) {
    char *slash = strrchr(w->path, '/');
    char *after = slash == w->path ? slash + 1 : slash, kept = slash ? *after : 0;
    if (access("/proc/self/fd", X_OK)) return -1; /* through which it gets its name */
    if (slash) *after = 0;
    int fd = cr__open_file(slash ? w->path : ".", O_WRONLY | O_TMPFILE, 0666);
    if (slash) *after = kept;
    return fd;
}

static int give_name(const cr_file_writer *w, const char *name) {
    char from[64];
    snprintf(from, sizeof from, "/proc/self/fd/%d", w->fd);
    return linkat(AT_FDCWD, from, AT_FDCWD, name, AT_SYMLINK_FOLLOW) ? errno : 0;
}

cr_status cr_file_writer_create(const char *path, cr_file_writer **out) {
    struct stat info;
    /* A rename would put a plain file where the device or pipe was. */
    if (!stat(path, &info) && !S_ISREG(info.st_mode))
        return S_ISDIR(info.st_mode) ? cr__fail_errno("write", path, EISDIR)
                                     : CR_FAIL(CR_EIO, "cannot write '%s': it is not a regular file", path);
    cr_file_writer *w = cr_alloc(sizeof *w);
    if (!w) return CR_ENOMEM;
    w->fd = w->note = -1;
    w->reason = 0;
    w->hurry = w->named = false;
    w->position = w->buffered = 0;
    w->temporary = (cr_str){0};
    cr_status status = CR_OK;
    w->path = cr_strdup(path);
    CR_TRY_OUT(w->path ? CR_OK : CR_ENOMEM);
    w->fd = open_nameless(w);
    if (w->fd < 0) {
        do { /* a leftover of a killed process with our id may hold the name */
            CR_TRY_OUT(name_temporary(w));
            w->fd = cr__open_file(cr_str_get(&w->temporary), O_WRONLY | O_CREAT | O_EXCL, 0666);
        } while (w->fd < 0 && errno == EEXIST);
        w->named = w->fd >= 0;
    }
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

static cr_status status_of(const cr_file_writer *w) {
    return w->reason ? cr__fail_errno("write", w->path, w->reason) : CR_OK;
}

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
static bool is_no_kernel_copy(int reason) {
    return reason == EXDEV || reason == EINVAL || reason == ENOSYS || reason == EOPNOTSUPP || reason == EBADF ||
           reason == EPERM;
}

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

cr_status cr_file_writer_copy(cr_file_writer *w, int fd, uint64_t offset, uint64_t size, cr_status (*step)(void *user),
                              void *user) {
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
            return CR_FAIL(CR_EIO, "cannot write '%s': the file its bytes come from ends %llu bytes too early", w->path,
                           (unsigned long long)(size - done));
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

void cr_file_writer_private(cr_file_writer *w) {
    if (fchmod(w->fd, 0600) && !w->reason) w->reason = errno;
}

void cr_file_writer_abandon(cr_file_writer *w) {
    if (!w) return;
    if (w->fd >= 0) close(w->fd);
    if (w->named) unlink(cr_str_get(&w->temporary));
    cr_temporary_drop(w->note);
    cr_str_dispose(&w->temporary);
    cr_free(w->path);
    cr_free(w);
}

/* A rename over an older file makes some file systems (ext4) write all of the new one to the disk first. In a hurry the
 * two change places instead, as atomically, and the older one goes. */
static int replace(const cr_file_writer *w) {
#ifdef RENAME_EXCHANGE
    const char *made = cr_str_get(&w->temporary);
    struct stat old;
    if (w->hurry && !lstat(w->path, &old) && S_ISREG(old.st_mode) &&
        !renameat2(AT_FDCWD, made, AT_FDCWD, w->path, RENAME_EXCHANGE)) {
        unlink(made);
        return 0;
    }
#endif
    return rename(cr_str_get(&w->temporary), w->path);
}

/* 0 or an errno. A path that nobody has yet is taken directly. */
static int take_name(cr_file_writer *w) {
    if (!w->named) {
        int reason = give_name(w, w->path);
        if (reason != EEXIST) return reason;
        do {
            if (name_temporary(w)) return ENOMEM;
            reason = give_name(w, cr_str_get(&w->temporary));
        } while (reason == EEXIST);
        if (reason) return reason;
        w->named = true;
    }
    if (replace(w)) return errno;
    w->named = false;
    return 0;
}

cr_status cr_file_writer_finish(cr_file_writer *w) {
    flush(w);
    /* EINVAL: a file system that cannot sync. */
    if (!w->reason && !w->hurry && fsync(w->fd) && errno != EINVAL) w->reason = errno;
    if (!w->reason) {
        if (w->named) { /* what close says of a nameless file comes too late; it was synced */
            int closed = close(w->fd);
            w->fd = -1; /* gone, whatever it says */
            if (closed && errno != EINTR) w->reason = errno;
        }
        if (!w->reason) w->reason = take_name(w);
    }
    char *done = w->reason || w->hurry ? NULL : w->path;
    cr_status status = status_of(w);
    if (done) sync_folder_of(done);
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

cr_status cr_str_save(const cr_str *s, const char *path) {
    CR_TRY(cr_str_status(s));
    return cr_file_write_atomic(path, cr_str_get(s), s->n);
}
