/* workshop.c: a temporary folder for what goes to and comes from the compiler. In TMPDIR, not beside the result: only
 * the finished result is written there. A signal that ends the process removes it, too (cr_temporary_add). A process
 * that was killed cannot: the next workshop of this user does, which sees by their locks which folders are still in
 * use. */
#define _GNU_SOURCE
#include "emit/emit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define PREFIX "cresset-work-"
enum { YOUNG_SECONDS = 60 }; /* may be between its making and its lock */

cr_status cr__path_in(const char *folder, const char *name, char **out) {
    cr_str path;
    cr_str_init(&path);
    cr_str_addf(&path, "%s/%s", folder, name);
    cr_status status = cr_str_take(&path, out);
    cr_str_dispose(&path);
    return status;
}

cr_status cr__path_beside(const char *path, const char *suffix, char **out) {
    const char *dot = strrchr(path, '.'), *slash = strrchr(path, '/');
    cr_str text;
    cr_str_init(&text);
    cr_str_addn(&text, path, dot && (!slash || dot > slash) ? (size_t)(dot - path) : strlen(path));
    cr_str_add(&text, suffix);
    cr_status status = cr_str_take(&text, out);
    cr_str_dispose(&text);
    return status;
}

/* Removes what is in a folder that nobody works in any more; false: somebody does, or it is not ours. */
static bool empty_folder(int place, const char *name) {
    struct stat st;
    int fd = openat(place, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    bool dead = fd >= 0 && !fstat(fd, &st) && st.st_uid == geteuid() && time(NULL) - st.st_mtime > YOUNG_SECONDS &&
                !flock(fd, LOCK_EX | LOCK_NB);
    DIR *d = dead ? fdopendir(fd) : NULL;
    if (!d) {
        if (fd >= 0) close(fd);
        return false;
    }
    for (struct dirent *e; (e = readdir(d));)
        if (strcmp(e->d_name, ".") && strcmp(e->d_name, "..")) unlinkat(dirfd(d), e->d_name, 0);
    closedir(d);
    return true;
}

static void sweep(const char *tmp) {
    DIR *d = opendir(tmp);
    if (!d) return;
    for (struct dirent *e; (e = readdir(d));)
        if (!strncmp(e->d_name, PREFIX, strlen(PREFIX)) && empty_folder(dirfd(d), e->d_name))
            unlinkat(dirfd(d), e->d_name, AT_REMOVEDIR);
    closedir(d);
}

cr_status cr__workshop_open(cr_workshop *w) {
    const char *given = getenv("TMPDIR"), *tmp = given && *given ? given : "/tmp";
    *w = (cr_workshop){ .note = -1, .lock = -1 };
    CR_TRY(cr__path_in(tmp, PREFIX "XXXXXX", &w->folder));
    sweep(tmp);
    if (mkdtemp(w->folder)) {
        w->note = cr_temporary_add(w->folder);
        w->lock = open(w->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (w->lock >= 0) (void)!flock(w->lock, LOCK_EX | LOCK_NB);
        return CR_OK;
    }
    cr_status status = CR_FAIL(CR_EIO, "cannot make a temporary folder %s: %s; set TMPDIR to a folder with room",
                               w->folder, strerror(errno));
    cr_free(w->folder);
    w->folder = NULL;
    return status;
}

cr_status cr__workshop_file(cr_workshop *w, const char *name, const char **out) {
    char *path = NULL;
    CR_TRY(cr__path_in(w->folder, name, &path));
    if (cr_vec_reserve(&w->files, w->files.n + 1)) {
        cr_free(path);
        return CR_ENOMEM;
    }
    w->files.at[w->files.n].note = cr_temporary_add(path);
    *out = w->files.at[w->files.n++].path = path;
    return CR_OK;
}

cr_status cr__workshop_write(cr_workshop *w, const char *name, const void *data, size_t size, const char **out) {
    cr_file_writer *writer = NULL;
    CR_TRY(cr__workshop_file(w, name, out));
    CR_TRY(cr_file_writer_create(*out, &writer));
    cr_file_writer_hurry(writer);
    cr_status status = cr_file_writer_write(writer, data, size);
    if (!status) return cr_file_writer_finish(writer);
    cr_file_writer_abandon(writer);
    return status;
}

void cr__workshop_close(cr_workshop *w) {
    for (size_t i = 0; i < w->files.n; i++) {
        unlink(w->files.at[i].path);
        cr_temporary_drop(w->files.at[i].note);
        cr_free(w->files.at[i].path);
    }
    cr_vec_dispose(&w->files);
    if (w->folder) rmdir(w->folder);
    if (w->folder && w->lock >= 0) close(w->lock);
    cr_temporary_drop(w->note);
    cr_free(w->folder);
    *w = (cr_workshop){ .note = -1, .lock = -1 };
}
