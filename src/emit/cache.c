/* cache.c: see cache.h.
 *
 * An entry is FOLDER/ab/REST-OF-THE-NAME: the bytes, then 48 bytes of trailer (magic, length, SHA-256 of the bytes).
 * Entries appear by rename, so a reader sees all of one or none, and the trailer tells whether what it saw is what was
 * written. Reading sets the file's time, which is what eviction goes by.
 *
 * What is read here becomes code, so it has to be this user's: a regular file (no link, no pipe) that nobody else may
 * write, in folders that nobody else may write. Anything else is as if it were not there. */
#define _GNU_SOURCE
#include "emit/cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { TRAILER = 48, DEFAULT_MB = 512, STALE_SECONDS = 3600 };
static const char magic[8] = { 'C', 'R', 'S', 'T', 'C', 'A', 'C', '1' };

/* ---- keys ---- */

void cr_key_init(cr_key *key) { cr_sha256_init(&key->digest); }

void cr_key_add(cr_key *key, const void *data, size_t size) {
    uint64_t n = size;
    cr_sha256_add(&key->digest, &n, sizeof n);
    cr_sha256_add(&key->digest, data, size);
}

void cr_key_text(cr_key *key, const char *text) { cr_key_add(key, text, strlen(text)); }

void cr_key_file(cr_key *key, const char *path) {
    struct stat st = { 0 };
    int64_t facts[3] = { -1, -1, -1 };
    if (!stat(path, &st)) facts[0] = st.st_size, facts[1] = st.st_mtim.tv_sec, facts[2] = st.st_mtim.tv_nsec;
    cr_key_text(key, path);
    cr_key_add(key, facts, sizeof facts);
}

void cr_key_end(cr_key *key) {
    uint8_t bytes[32];
    cr_sha256_end(&key->digest, bytes);
    for (int i = 0; i < 32; i++) snprintf(key->name + 2 * i, 3, "%02x", bytes[i]);
}

/* ---- where ---- */

/* Empty: there is no cache. */
static void find_folder(cr_str *out) {
    const char *given = getenv("CRESSET_CACHE"), *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (given && *given) {
        if (strcmp(given, "off")) cr_str_add(out, given);
    } else if (xdg && *xdg == '/') cr_str_addf(out, "%s/cresset", xdg);
    else if (home && *home == '/') cr_str_addf(out, "%s/.cache/cresset", home);
}

static bool make_folders(char *path) {
    for (char *at = path + 1;; at++) {
        if (*at && *at != '/') continue;
        char end = *at;
        *at = 0;
        bool made = !mkdir(path, 0700) || errno == EEXIST;
        *at = end;
        if (!end) return made;
    }
}

/* ---- whom to trust ---- */

static bool is_ours(const struct stat *st) { return st->st_uid == geteuid() && !(st->st_mode & (S_IWGRP | S_IWOTH)); }

/* A folder that only this user writes; -1: there is none. */
static int open_folder(int at, const char *path, int flags) {
    struct stat st;
    int fd = openat(at, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | flags);
    if (fd < 0 || (!fstat(fd, &st) && is_ours(&st))) return fd;
    close(fd);
    return -1;
}

/* The folder of entries that begin with these two digits. */
static int open_part(const char *root, const char *digits) {
    int folder = open_folder(AT_FDCWD, root, 0);
    if (folder < 0) return -1;
    int part = open_folder(folder, digits, O_NOFOLLOW);
    close(folder);
    return part;
}

/* The same from the key. */
static int open_part_of(const cr_key *key) {
    cr_str root;
    char digits[3] = { key->name[0], key->name[1], 0 };
    cr_str_init(&root);
    find_folder(&root);
    int part = root.n && !root.failed ? open_part(cr_str_get(&root), digits) : -1;
    cr_str_dispose(&root);
    return part;
}

/* The entry's path, its folders made when `make`. NULL: no cache. */
static char *entry_path(const cr_key *key, bool make) {
    cr_str path;
    char *out = NULL;
    cr_str_init(&path);
    find_folder(&path);
    if (path.n) {
        cr_str_addf(&path, "/%.2s", key->name);
        bool there = !path.failed && (!make || make_folders(path.at));
        cr_str_addf(&path, "/%s", key->name + 2);
        if (there && cr_str_take(&path, &out)) out = NULL;
    }
    cr_str_dispose(&path);
    return out;
}

/* ---- entries ---- */

static uint64_t limit_bytes(void) {
    const char *text = getenv("CRESSET_CACHE_MB");
    char *end;
    unsigned long long mb = text && *text ? strtoull(text, &end, 10) : DEFAULT_MB;
    return (text && *text && *end ? DEFAULT_MB : CR_MIN(mb, 1ull << 40)) << 20;
}

static void make_trailer(const void *data, uint64_t size, uint8_t out[TRAILER]) {
    cr_sha256 h;
    memcpy(out, magic, sizeof magic);
    memcpy(out + 8, &size, sizeof size);
    cr_sha256_init(&h);
    cr_sha256_add(&h, data, size);
    cr_sha256_end(&h, out + 16);
}

static bool read_whole(int fd, uint8_t *data, size_t size) {
    for (size_t done = 0; done < size;) {
        ssize_t got = read(fd, data + done, size - done);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        done += (size_t)got;
    }
    return true;
}

static bool is_whole(const uint8_t *data, size_t size) {
    uint8_t trailer[TRAILER];
    if (size < TRAILER) return false;
    make_trailer(data, size - TRAILER, trailer);
    return !memcmp(data + size - TRAILER, trailer, TRAILER);
}

static uint64_t found, missed; /* atomic */

void cr_cache_counts(uint64_t *hits, uint64_t *misses, bool *off) {
    const char *given = getenv("CRESSET_CACHE");
    *hits = __atomic_load_n(&found, __ATOMIC_RELAXED);
    *misses = __atomic_load_n(&missed, __ATOMIC_RELAXED);
    *off = given && !strcmp(given, "off");
}

static bool get(const cr_key *key, uint8_t **data, size_t *size) {
    const char *name = key->name + 2;
    struct stat st = { 0 };
    uint8_t *bytes = NULL;
    int folder = open_part_of(key);
    if (folder < 0) return false;
    /* O_NONBLOCK: opening a pipe does not wait for somebody to write to it */
    int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    bool there = fd >= 0 || errno == ELOOP;
    bool good = fd >= 0 && !fstat(fd, &st) && S_ISREG(st.st_mode) && is_ours(&st) &&
                (uint64_t)st.st_size <= limit_bytes() + TRAILER;
    good = good && (bytes = cr_alloc((size_t)st.st_size + 1)) && read_whole(fd, bytes, (size_t)st.st_size) &&
           is_whole(bytes, (size_t)st.st_size);
    if (good) futimens(fd, NULL);
    else if (there) unlinkat(folder, name, 0); /* the folder is ours, so is its tidiness */
    if (fd >= 0) close(fd);
    close(folder);
    if (good) *data = bytes, *size = (size_t)st.st_size - TRAILER;
    else cr_free(bytes);
    return good;
}

bool cr_cache_get(const cr_key *key, uint8_t **data, size_t *size) {
    const char *given = getenv("CRESSET_CACHE");
    if (given && !strcmp(given, "off")) return false;
    bool good = get(key, data, size);
    __atomic_add_fetch(good ? &found : &missed, 1, __ATOMIC_RELAXED);
    if (good) cr__cache_note(key);
    return good;
}

/* ---- eviction ---- */

typedef struct entry { char *path; uint64_t bytes; struct timespec used; } entry;
typedef CR_VEC(entry) entries;

static bool is_entry(const char *name) { return strlen(name) == 62 && strspn(name, "0123456789abcdef") == 62; }

/* What a killed process left behind. */
static bool is_leftover(const char *name, const struct stat *st) {
    return strstr(name, ".tmp.") && time(NULL) - st->st_mtime > STALE_SECONDS;
}

static void list_folder(const char *root, const char *digits, entries *all, uint64_t *total) {
    int fd = open_part(root, digits);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (!d) {
        if (fd >= 0) close(fd);
        return;
    }
    for (struct dirent *e; (e = readdir(d));) {
        struct stat st;
        cr_str path;
        entry found = { 0 };
        if (fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISREG(st.st_mode)) continue;
        if (is_leftover(e->d_name, &st)) unlinkat(dirfd(d), e->d_name, 0);
        if (!is_entry(e->d_name)) continue;
        cr_str_init(&path);
        cr_str_addf(&path, "%s/%s/%s", root, digits, e->d_name);
        if (!cr_str_take(&path, &found.path)) {
            found.bytes = (uint64_t)st.st_size, found.used = st.st_mtim;
            *total += found.bytes;
            if (cr_vec_push(all, found)) cr_free(found.path);
        }
        cr_str_dispose(&path);
    }
    closedir(d);
}

static int by_use(const void *a, const void *b) {
    const struct timespec *x = &((const entry *)a)->used, *y = &((const entry *)b)->used;
    if (x->tv_sec != y->tv_sec) return x->tv_sec < y->tv_sec ? -1 : 1;
    return (x->tv_nsec > y->tv_nsec) - (x->tv_nsec < y->tv_nsec);
}

/* Down to four fifths of the limit, so that not every later entry has to evict. */
static void evict(void) {
    cr_str folder;
    entries all = { 0 };
    uint64_t total = 0, limit = limit_bytes();
    cr_str_init(&folder);
    find_folder(&folder);
    for (int i = 0; folder.n && !folder.failed && i < 256; i++) {
        char digits[3];
        snprintf(digits, sizeof digits, "%02x", (unsigned)i);
        list_folder(cr_str_get(&folder), digits, &all, &total);
    }
    if (total > limit) {
        qsort(all.at, all.n, sizeof *all.at, by_use);
        for (size_t i = 0; i < all.n && total > limit / 5 * 4; i++)
            if (!unlink(all.at[i].path)) total -= all.at[i].bytes;
    }
    for (size_t i = 0; i < all.n; i++) cr_free(all.at[i].path);
    cr_vec_dispose(&all);
    cr_str_dispose(&folder);
}

void cr_cache_put(const cr_key *key, const void *data, size_t size) {
    if (size > limit_bytes()) return;
    char *path = entry_path(key, true);
    cr_file_writer *w = NULL;
    uint8_t trailer[TRAILER];
    make_trailer(data, size, trailer);
    int folder = path ? open_part_of(key) : -1;
    if (folder >= 0) close(folder);
    if (folder >= 0 && !cr_file_writer_create(path, &w)) {
        cr_file_writer_hurry(w);
        cr_file_writer_private(w);
        if (!cr_file_writer_write(w, data, size) && !cr_file_writer_write(w, trailer, sizeof trailer)) {
            if (!cr_file_writer_finish(w)) cr__cache_note(key), evict();
        } else cr_file_writer_abandon(w);
    }
    cr_free(path);
}
