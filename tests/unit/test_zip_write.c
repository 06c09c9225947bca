/* Zip writing: what comes out is read back here and is byte for byte what it was; failures leave nothing behind. */
#include "archive/zip.h"
#include "archive/zip_internal.h"
#include "check.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64];

static int folder_entries(void) {
    int n = 0;
    DIR *dir = opendir(folder);
    for (struct dirent *entry; dir && (entry = readdir(dir));) n += entry->d_name[0] != '.';
    closedir(dir);
    return n;
}

static char *in_folder(const char *name) {
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static cr_status write_members(const char *path, uint32_t alignment, int count) {
    cr_zip_writer *w = NULL;
    CR_TRY(cr_zip_writer_create(path, alignment, &w));
    cr_status status = CR_OK;
    for (int i = 0; i < count && !status; i++) {
        char name[64];
        snprintf(name, sizeof name, "top/member %d \xe2\x82\xac", i);
        status = cr_zip_writer_begin(w, name);
        for (int part = 0; part < i % 5 && !status; part++)
            status = cr_zip_writer_write(w, "0123456789", (size_t)(i % 11));
        if (!status) status = cr_zip_writer_end(w);
    }
    if (!status) status = cr_zip_writer_add(w, "large", folder, 0);
    if (!status) return cr_zip_writer_finish(w);
    cr_zip_writer_abandon(w);
    return status;
}

static void round_trip(void) {
    static const uint32_t alignments[] = {1, 2, 4, 64, 4096};
    char *path = in_folder("out.zip");
    for (size_t a = 0; a < CR_COUNT(alignments); a++) {
        CHECK_OK(write_members(path, alignments[a], 60));
        cr_zip *zip = NULL;
        CHECK_OK(cr_zip_open(path, &zip));
        if (!zip) continue;
        CHECK_EQ(cr_zip_count(zip), 61);
        for (int i = 0; i < 60; i++) {
            const cr_zip_member *m = cr_zip_at(zip, (size_t)i);
            CHECK_EQ(m->size, (i % 5) * (i % 11));
            CHECK_EQ(m->offset % alignments[a], 0);
            CHECK_OK(cr_zip_check(zip, m));
            char *text = NULL;
            CHECK_OK(cr_zip_read(zip, m, 100, &text));
            if (i % 11 && i % 5) CHECK(text && !memcmp(text, "0123456789", (size_t)(i % 11)));
            cr_free(text);
        }
        cr_zip_release(zip);
    }
    CHECK_EQ(folder_entries(), 1);
    struct stat info;
    CHECK(!stat(path, &info) && (info.st_mode & 0400));

    /* The same members, the same bytes. */
    char *one = NULL, *two = NULL;
    size_t n1 = 0, n2 = 0;
    CHECK_OK(cr_file_read(path, &one, &n1));
    CHECK_OK(write_members(path, 4096, 60));
    CHECK_OK(cr_file_read(path, &two, &n2));
    CHECK(n1 == n2 && !memcmp(one, two, n1));
    cr_free(one);
    cr_free(two);

    /* More than 65535 members need the zip64 end record; a member larger than the writer's buffer needs patching. */
    cr_zip_writer *w = NULL;
    CHECK_OK(cr_zip_writer_create(path, 1, &w));
    char name[32], *large = cr_calloc(1, 300000);
    CHECK_OK(cr_zip_writer_begin(w, "first"));
    CHECK_OK(cr_zip_writer_write(w, large, 300000));
    CHECK_OK(cr_zip_writer_write(w, "end", 3));
    CHECK_OK(cr_zip_writer_end(w));
    for (int i = 0; i < 66000; i++) {
        snprintf(name, sizeof name, "m%d", i);
        if (cr_zip_writer_add(w, name, name, 2)) CHECK(false);
    }
    CHECK_OK(cr_zip_writer_finish(w));
    cr_zip *zip = NULL;
    CHECK_OK(cr_zip_open(path, &zip));
    CHECK(zip && cr_zip_count(zip) == 66001);
    if (zip) CHECK_OK(cr_zip_check(zip, cr_zip_find(zip, "first")));
    if (zip) CHECK_OK(cr_zip_check(zip, cr_zip_find(zip, "m65999")));
    cr_zip_release(zip);
    cr_free(large);
    unlink(path);
}

/* 64-bit sizes and offsets, as members beyond 4 GiB have them. */
static void wide_numbers(void) {
    char *path = in_folder("wide.zip");
    char text[64] = "a member of 64 bytes";
    for (uint64_t from = 0; from < 400; from += 10) {
        cr_zip_writer *w = NULL;
        CHECK_OK(cr_zip_writer_create(path, 8, &w));
        cr__zip_writer_wide_from(w, from);
        CHECK_OK(cr_zip_writer_add(w, "small", "x", 1));
        CHECK_OK(cr_zip_writer_add(w, "large", text, sizeof text));
        CHECK_OK(cr_zip_writer_add(w, "after", "yz", 2));
        CHECK_OK(cr_zip_writer_finish(w));
        cr_zip *zip = NULL;
        CHECK_OK(cr_zip_open(path, &zip));
        if (!zip) continue;
        static const uint64_t sizes[] = {1, sizeof text, 2};
        CHECK_EQ(cr_zip_count(zip), 3);
        for (size_t i = 0; i < 3; i++) {
            CHECK_EQ(cr_zip_at(zip, i)->size, sizes[i]);
            CHECK_EQ(cr_zip_at(zip, i)->offset % 8, 0);
            CHECK_OK(cr_zip_check(zip, cr_zip_at(zip, i)));
        }
        cr_zip_release(zip);
    }
    unlink(path);
}

static void misuse(void) {
    char *path = in_folder("misuse.zip");
    cr_zip_writer *w = NULL;
    CHECK_ERROR(cr_zip_writer_create(path, 0, &w), CR_EVALUE, "alignment 0");
    CHECK_ERROR(cr_zip_writer_create(path, 48, &w), CR_EVALUE, "alignment 48");
    CHECK_ERROR(cr_zip_writer_create(path, 8192, &w), CR_EVALUE, "alignment 8192");
    static const struct { const char *name, *error; } names[] = {
        { "", "an empty name" },
        { "/a", "an absolute path" },
        { "a/../b", "'.' or '..'" },
        { "a\\b", "a backslash" },
        { "a/", "a folder" },
        { "a\xff", "not UTF-8" },
        { "same", "member 'same' is written twice" },
    };
    for (size_t i = 0; i < CR_COUNT(names); i++) {
        CHECK_OK(cr_zip_writer_create(path, 1, &w));
        CHECK_OK(cr_zip_writer_add(w, "same", "1", 1));
        CHECK_ERROR(cr_zip_writer_begin(w, names[i].name), CR_EVALUE, names[i].error);
        CHECK_ERROR(cr_zip_writer_finish(w), CR_EIO, "one of its members could not be written");
    }
    CHECK_OK(cr_zip_writer_create(path, 1, &w));
    CHECK_ERROR(cr_zip_writer_write(w, "x", 1), CR_EVALUE, "data without a member");
    cr_zip_writer_abandon(w);
    CHECK_OK(cr_zip_writer_create(path, 1, &w));
    CHECK_ERROR(cr_zip_writer_end(w), CR_EVALUE, "has not begun");
    cr_zip_writer_abandon(w);
    CHECK_OK(cr_zip_writer_create(path, 1, &w));
    CHECK_OK(cr_zip_writer_begin(w, "one"));
    CHECK_ERROR(cr_zip_writer_begin(w, "two"), CR_EVALUE, "member 'two' begins before 'one' has ended");
    cr_zip_writer_abandon(w);
    CHECK_OK(cr_zip_writer_create(path, 1, &w));
    CHECK_OK(cr_zip_writer_begin(w, "one"));
    CHECK_ERROR(cr_zip_writer_finish(w), CR_EVALUE, "the archive ends before its member 'one'");
    cr_zip_writer_abandon(NULL);
    CHECK_EQ(folder_entries(), 0);
}

static void failing_disks(void) {
    char *path = in_folder("full.zip");
    cr_zip_writer *w = NULL;
    CHECK_OK(cr_file_write_atomic(path, "old", 3));
    CHECK_ERROR(cr_zip_writer_create("/no/such/folder/x.zip", 1, &w), CR_EIO,
                "cannot write '/no/such/folder/x.zip': No such file");
    CHECK_ERROR(cr_zip_writer_create("/dev/null", 1, &w), CR_EIO, "cannot write '/dev/null': it is not a regular file");
    CHECK_ERROR(cr_zip_writer_create(folder, 1, &w), CR_EIO, "Is a directory");
    char closed[128];
    uid_t me = geteuid();
    snprintf(closed, sizeof closed, "%s/closed", folder);
    CHECK(!mkdir(closed, 0500));
    strcat(closed, "/x.zip");
    /* root may write anywhere: be somebody else for a moment */
    if (!me) CHECK(!chmod(folder, 0755) && !seteuid(65534));
    CHECK_ERROR(cr_zip_writer_create(closed, 1, &w), CR_EIO, "x.zip': Permission denied");
    if (!me) CHECK(!seteuid(0));
    *strrchr(closed, '/') = 0;
    rmdir(closed);
    /* The file-size limit acts as a full disk does: at the write, at the patch, at the directory. */
    struct rlimit before, small;
    getrlimit(RLIMIT_FSIZE, &before);
    signal(SIGXFSZ, SIG_IGN);
    char *large = cr_calloc(1, 200000);
    for (rlim_t limit = 0; limit < 300000; limit += 20000) {
        small = (struct rlimit){.rlim_cur = limit, .rlim_max = before.rlim_max};
        setrlimit(RLIMIT_FSIZE, &small);
        cr_status status = cr_zip_writer_create(path, 64, &w);
        if (!status) status = cr_zip_writer_add(w, "small", large, 1000);
        if (!status) status = cr_zip_writer_add(w, "large", large, 200000);
        if (status) cr_zip_writer_abandon(w);
        else status = cr_zip_writer_finish(w);
        setrlimit(RLIMIT_FSIZE, &before);
        if (limit < 202000) {
            CHECK_EQ(status, CR_EIO);
            CHECK_CONTAINS(cr_error_message(), path);
            CHECK_CONTAINS(cr_error_message(), "File too large");
            char *text = NULL;
            CHECK_OK(cr_file_read(path, &text, NULL));
            CHECK_STR(text, "old");
            cr_free(text);
        } else {
            CHECK_OK(status);
        }
        CHECK_EQ(folder_entries(), 1);
        w = NULL;
    }
    cr_free(large);
    unlink(path);
}

/* ---- sinks and copies ---- */

static cr_status gather(void *user, const void *data, size_t size) {
    cr_str_addn(user, data, size);
    return cr_str_status(user);
}

static cr_status count_steps(void *user) {
    return ++*(int *)user < 1000 ? CR_OK : CR_FAIL(CR_EVALUE, "too many steps");
}

static void sinks(void) {
    cr_zip_writer *w = NULL;
    cr_zip *zip = NULL;
    cr_str bytes = {0};
    int steps = 0;
    size_t n = 40 << 20;
    char *large = cr_calloc(1, n);
    large[n - 1] = 1;
    CHECK_OK(cr_zip_writer_create_on((cr_sink){gather, &bytes}, 64, &w));
    cr_zip_writer_set_step(w, count_steps, &steps);
    CHECK_OK(cr_zip_writer_add(w, "a", "one", 3));
    CHECK_OK(cr_zip_writer_add(w, "large", large, n));
    CHECK_EQ(cr_zip_writer_last_crc(w), cr_crc32(0, large, n));
    CHECK_OK(cr_zip_writer_add(w, "empty", "", 0));
    CHECK_OK(cr_zip_writer_finish(w));
    CHECK_EQ(steps, 2);
    CHECK_OK(cr_zip_open_memory(bytes.at, bytes.n, NULL, &zip));
    for (size_t i = 0; zip && i < 3; i++) {
        CHECK_EQ(cr_zip_at(zip, i)->offset % 64, 0);
        CHECK_OK(cr_zip_check(zip, cr_zip_at(zip, i)));
    }
    cr_zip_release(zip);
    CHECK_OK(cr_zip_writer_create_on((cr_sink){gather, &bytes}, 64, &w));
    CHECK_ERROR(cr_zip_writer_begin(w, "b"), CR_EVALUE, "needs members whose size is known");
    cr_zip_writer_abandon(w);
    cr_str_dispose(&bytes);
    cr_free(large);
}

/* Copies members of `from` to a file and to a sink, and looks at them there. */
static void check_copies(cr_zip *from, uint32_t alignment) {
    cr_str bytes = {0};
    for (int sink = 0; sink < 2; sink++) {
        char path[128];
        cr_zip_writer *w = NULL;
        cr_zip *to = NULL;
        snprintf(path, sizeof path, "%s/copy.zip", folder);
        CHECK_OK(sink ? cr_zip_writer_create_on((cr_sink){ gather, &bytes }, alignment, &w)
                      : cr_zip_writer_create(path, alignment, &w));
        for (size_t i = 0; i < cr_zip_count(from); i++)
            CHECK_OK(cr_zip_writer_copy(w, cr_zip_at(from, i)->name, from, cr_zip_at(from, i)));
        CHECK_OK(cr_zip_writer_finish(w));
        CHECK_OK(sink ? cr_zip_open_memory(bytes.at, bytes.n, NULL, &to) : cr_zip_open(path, &to));
        for (size_t i = 0; to && i < cr_zip_count(from); i++) {
            const cr_zip_member *a = cr_zip_at(from, i), *b = cr_zip_at(to, i);
            CHECK_EQ(a->size, b->size);
            CHECK_EQ(a->crc, b->crc);
            CHECK_EQ(b->offset % alignment, 0);
            CHECK_OK(cr_zip_check(to, b));
        }
        cr_zip_release(to);
        if (!sink) unlink(path);
    }
    cr_str_dispose(&bytes);
}

static void copies(void) {
    char *path = in_folder("from.zip");
    cr_zip *zip = NULL;
    const cr_zip *in = NULL;
    cr_zip_writer *w = NULL;
    char *large = cr_calloc(1, 3 << 20);
    for (size_t i = 0; i < 3 << 20; i++) large[i] = (char)(i * 31 >> 3);
    CHECK_OK(cr_zip_writer_create(path, 64, &w));
    CHECK_OK(cr_zip_writer_add(w, "a", large, 3 << 20));
    CHECK_OK(cr_zip_writer_add(w, "b", "small", 5));
    CHECK_OK(cr_zip_writer_add(w, "c", large, 1 << 20));
    CHECK_OK(cr_zip_writer_finish(w));
    CHECK_OK(cr_zip_open(path, &zip));
    if (!zip) return;
    check_copies(zip, 64);
    check_copies(zip, 1);

    /* What is mapped is the file's until it is written to. */
    uint8_t *a, *c;
    CHECK_OK(cr_zip_borrow(zip, cr_zip_at(zip, 0), &a));
    CHECK_OK(cr_zip_borrow(zip, cr_zip_at(zip, 2), &c));
    CHECK(cr_zip_find_unchanged(zip, a, 3 << 20, &in) == cr_zip_at(zip, 0) && in == zip);
    volatile uint8_t seen = a[1 << 20];
    (void)seen;
    CHECK(cr_zip_find_unchanged(zip, a, 3 << 20, &in) == cr_zip_at(zip, 0));
    CHECK(!cr_zip_find_unchanged(zip, a, 100, &in));
    CHECK(!cr_zip_find_unchanged(zip, a + 1, 3 << 20, &in));
    CHECK(!cr_zip_find_unchanged(zip, large, 3 << 20, &in));
    CHECK(!cr_zip_find_unchanged(NULL, a, 3 << 20, &in));
    a[2 << 20] ^= 1;
    CHECK(!cr_zip_find_unchanged(zip, a, 3 << 20, &in));
    CHECK(cr_zip_find_unchanged(zip, c, 1 << 20, &in) == cr_zip_at(zip, 2));
    cr_zip_release(zip);

    /* Damage travels with the checksum that shows it. */
    int fd = open(path, O_RDWR);
    CHECK_OK(cr_zip_open(path, &zip));
    uint64_t inside = cr_zip_at(zip, 0)->offset + 5;
    CHECK_EQ(pwrite(fd, "\xff\xff", 2, (off_t)inside), 2);
    close(fd);
    CHECK_OK(cr_zip_writer_create(in_folder("damaged.zip"), 64, &w));
    CHECK_OK(cr_zip_writer_copy(w, "a", zip, cr_zip_at(zip, 0)));
    CHECK_OK(cr_zip_writer_finish(w));
    cr_zip_release(zip);
    CHECK_OK(cr_zip_open(in_folder("damaged.zip"), &zip));
    CHECK_ERROR(cr_zip_check(zip, cr_zip_at(zip, 0)), CR_EFORMAT, "damaged");
    cr_zip_release(zip);
    unlink(in_folder("damaged.zip"));

    /* A file that became shorter is an error, not a hole. */
    CHECK_OK(cr_zip_open(in_folder("from.zip"), &zip));
    CHECK(!truncate(in_folder("from.zip"), 1000));
    CHECK_OK(cr_zip_writer_create(in_folder("short.zip"), 64, &w));
    CHECK_ERROR(cr_zip_writer_copy(w, "a", zip, cr_zip_at(zip, 0)), CR_EIO, "bytes too early");
    cr_zip_writer_abandon(w);
    cr_zip_release(zip);
    cr_free(large);
    unlink(in_folder("from.zip"));
    CHECK_EQ(folder_entries(), 0);
}

static cr_status write_once(void *path) { return write_members(path, 64, 12); }

static void out_of_memory(void) {
    char path[128];
    snprintf(path, sizeof path, "%s/oom.zip", folder);
    CHECK_OOM_SWEEP(write_once, path);
    CHECK_EQ(folder_entries(), 1);
    unlink(path);
}

int main(void) {
    strcpy(folder, "/tmp/cresset-zip-XXXXXX");
    if (!mkdtemp(folder)) return 1;
    RUN(round_trip);
    RUN(misuse);
    RUN(failing_disks);
    RUN(wide_numbers);
    RUN(sinks);
    RUN(copies);
    RUN(out_of_memory);
    CHECK_EQ(rmdir(folder), 0);
    return check_summary();
}
