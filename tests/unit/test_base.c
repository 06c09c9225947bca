/* src/base: errors, memory, containers, text, files, and what is left when the Nth allocation fails. */
#define _GNU_SOURCE /* O_TMPFILE */
#include "base/base.h"
#include "check.h"

#include <locale.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <fcntl.h>
#include <signal.h>
#include <dirent.h>

static char folder[64];

static void *other_thread(void *error) {
    CHECK_EQ(cr_error_code(), CR_OK); /* errors are per thread */
    CHECK_EQ(cr_error_put(error), CR_EINDEX);
    CHECK_STR(cr_error_message(), "in row 2: index 5 is outside 0..3");
    (void)CR_FAIL(CR_EVALUE, "left behind for the thread's end to free");
    return NULL;
}

static void errors(void) {
    CHECK_EQ(cr_error_code(), CR_OK);
    CHECK_STR(cr_error_message(), "no error");
    CHECK(cr_error_take() == NULL);
    cr_status status = CR_FAIL(CR_EINDEX, "index %d is outside 0..%d", 5, 3);
    CHECK_EQ(status, CR_EINDEX);
    CHECK_EQ(cr_error_code(), CR_EINDEX);
    CHECK_CONTAINS(cr_error_where(), "test_base.c:");
    CHECK_EQ(cr_error_context(status, "in row %d", 2), CR_EINDEX);
    CHECK_STR(cr_error_message(), "in row 2: index 5 is outside 0..3");
    CHECK_CONTAINS(cr_error_where(), "test_base.c:");
    CHECK_EQ(cr_error_context(CR_OK, "nothing happened"), CR_OK);
    CHECK_STR(cr_error_message(), "in row 2: index 5 is outside 0..3");

    cr_error *moved = cr_error_take();
    CHECK(moved != NULL);
    CHECK_EQ(cr_error_code(), CR_OK);
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, other_thread, moved), 0);
    pthread_join(thread, NULL);
    CHECK_EQ(cr_error_code(), CR_OK);

    /* A message may be made from the one it replaces. */
    (void)CR_FAIL(CR_EVALUE, "inner");
    (void)CR_FAIL(CR_ETYPE, "outer <%s>", cr_error_message());
    CHECK_STR(cr_error_message(), "outer <inner>");

    /* Bytes of a file that are no text. */
    (void)CR_FAIL(CR_EVALUE, "name '%s' \xe2\x82\xac\n", "a\xff\xc3\x1b[31m\x7f\xc3\xa9");
    CHECK_STR(cr_error_message(), "name 'a???[31m?\xc3\xa9' \xe2\x82\xac\n");
    cr_error_release(cr_error_take());

    /* No memory for the record: the failure becomes out of memory, in code and text. */
    cr_alloc_fail_at(1);
    CHECK_EQ(CR_FAIL(CR_EVALUE, "lost"), CR_ENOMEM);
    CHECK_STR(cr_error_message(), "out of memory");
    CHECK(cr_error_take() == NULL);
    CHECK_EQ(cr_error_put(NULL), CR_ENOMEM);
    CHECK_EQ(cr_error_context(CR_ENOMEM, "ignored"), CR_ENOMEM);
    CHECK_STR(cr_error_message(), "out of memory");
    /* No memory for the context: the cause stays. */
    (void)CR_FAIL(CR_EVALUE, "cause");
    cr_alloc_fail_at(1);
    CHECK_EQ(cr_error_context(CR_EVALUE, "context"), CR_EVALUE);
    CHECK_STR(cr_error_message(), "cause");
    cr_error_release(cr_error_take());

    for (int code = 0; code < CR_STATUS_COUNT; code++) CHECK(strncmp(cr_status_name((cr_status)code), "CR_", 3) == 0);
    CHECK_STR(cr_status_name((cr_status)999), "unknown status");
}

static void memory(void) {
    int64_t count = cr_alloc_count(), live = cr_alloc_live();
    void *a = cr_alloc(0), *b = cr_alloc(0);
    CHECK(a && b && a != b);
    a = cr_realloc(a, 100);
    char *zeroed = cr_calloc(3, 7);
    for (int i = 0; i < 21; i++) CHECK_EQ(zeroed[i], 0);
    void *aligned = cr_alloc_aligned(4096, 10);
    CHECK_EQ((uintptr_t)aligned % 4096, 0);
    CHECK_EQ(cr_alloc_count() - count, 5);
    CHECK_EQ(cr_alloc_live() - live, 4);
    cr_free(a), cr_free(b), cr_free(zeroed), cr_free(aligned), cr_free(NULL);
    CHECK_EQ(cr_alloc_live(), live);
    CHECK(cr_calloc(SIZE_MAX / 2, 3) == NULL);
    CHECK_EQ(cr_error_code(), CR_ENOMEM);

    cr_alloc_fail_at(2);
    a = cr_alloc(1);
    CHECK(a != NULL);
    CHECK(cr_realloc(a, 2) == NULL); /* a stays */
    char *copy = cr_strndup("abcdef", 3);
    CHECK_STR(copy, "abc");
    cr_free(copy), cr_free(a);

    cr_arena arena;
    cr_arena_init(&arena);
    char *pieces[300];
    for (int i = 0; i < 300; i++) {
        size_t size = i % 50 == 49 ? 5000 : (size_t)i;
        pieces[i] = cr_arena_alloc(&arena, size);
        CHECK(pieces[i] && (uintptr_t)pieces[i] % 16 == 0);
        memset(pieces[i], i, size);
    }
    for (int i = 1; i < 300; i++) CHECK_EQ((unsigned char)pieces[i][0], (unsigned char)i);
    CHECK_STR(cr_arena_printf(&arena, "%s-%d", "x", 7), "x-7");
    CHECK_STR(cr_arena_strndup(&arena, "hello", 2), "he");
    CHECK(cr_arena_calloc(&arena, SIZE_MAX / 2, 4) == NULL);
    cr_arena_dispose(&arena);
    CHECK_EQ(cr_alloc_live(), live);
}

static void vectors(void) {
    typedef struct { int x, y; } pair;
    CR_VEC(pair) v = {0};
    for (int i = 0; i < 1000; i++) {
        CHECK_OK(cr_vec_reserve(&v, v.n + 1));
        v.at[v.n].x = i, v.at[v.n++].y = -i;
    }
    CHECK_EQ(v.n, 1000);
    CHECK_EQ(v.at[999].y, -999);
    cr_vec_dispose(&v);
    CR_VEC(int) ints = {0};
    CHECK_OK(cr_vec_push(&ints, 3));
    while (ints.n < ints.cap) CHECK_OK(cr_vec_push(&ints, 4));
    size_t n = ints.n;
    cr_alloc_fail_at(1);
    CHECK_EQ(cr_vec_push(&ints, 5), CR_ENOMEM);
    CHECK_EQ(ints.n, n);
    CHECK_EQ(cr_vec_reserve(&ints, SIZE_MAX / 2), CR_ENOMEM);
    cr_vec_dispose(&ints);
}

/* Random puts and removes against a plain array. */
static void maps(void) {
    cr_map map;
    cr_map_init(&map);
    enum { KEYS = 500 };
    uint64_t want[KEYS] = {0}; /* 0 = absent */
    char key[64];
    srand(7);
    for (int step = 1; step < 20000; step++) {
        int k = rand() % KEYS;
        /* Half the keys are too long for the slot. */
        snprintf(key, sizeof key, k % 2 ? "%d" : "a rather long key, number %d", k);
        if (rand() % 3) {
            CHECK_OK(cr_map_put_str(&map, key, (uint64_t)step));
            want[k] = (uint64_t)step;
        } else {
            CHECK_EQ(cr_map_remove(&map, key, strlen(key)), want[k] != 0);
            want[k] = 0;
        }
    }
    size_t present = 0, seen = 0;
    for (int k = 0; k < KEYS; k++) {
        uint64_t value = 0;
        snprintf(key, sizeof key, k % 2 ? "%d" : "a rather long key, number %d", k);
        CHECK_EQ(cr_map_find_str(&map, key, &value), want[k] != 0);
        CHECK_EQ(value, want[k]);
        present += want[k] != 0;
    }
    CHECK_EQ(map.n, present);
    uint64_t value;
    for (size_t i = 0; cr_map_next(&map, &i, NULL, NULL, &value); seen++) CHECK(value != 0);
    CHECK_EQ(seen, present);
    cr_map_dispose(&map);
    CHECK(!cr_map_find_str(&map, "x", NULL));
    CHECK_OK(cr_map_put(&map, "a\0b", 3, 1)); /* bytes, not text */
    CHECK_OK(cr_map_put(&map, "a\0c", 3, 2));
    CHECK_OK(cr_map_put(&map, NULL, 0, 3));
    CHECK(cr_map_find(&map, "a\0b", 3, &value) && value == 1);
    CHECK(cr_map_find(&map, "", 0, &value) && value == 3);
    cr_map_dispose(&map);
    CHECK(cr_hash("a", 1, 0) != cr_hash("a\0", 2, 0));
    CHECK(cr_hash("a", 1, 0) != cr_hash("a", 1, 1));
}

static void check_double(double value, const char *want) {
    cr_str s = {0};
    cr_str_add_double(&s, value);
    CHECK_STR(cr_str_get(&s), want);
    cr_str_dispose(&s);
}

static void texts(void) {
    cr_str s = {0};
    CHECK_STR(cr_str_get(&s), "");
    for (int i = 0; i < 100; i++) cr_str_addf(&s, "%d,", i % 10);
    CHECK_EQ(s.n, 200);
    char *taken;
    CHECK_OK(cr_str_take(&s, &taken));
    CHECK_EQ(strlen(taken), 200);
    cr_free(taken);
    CHECK_OK(cr_str_take(&s, &taken));
    CHECK_STR(taken, "");
    cr_free(taken);

    cr_alloc_fail_at(1);
    cr_str_add(&s, "a");
    cr_str_add(&s, "b"); /* sticky */
    CHECK_STR(cr_str_get(&s), "");
    CHECK_EQ(cr_str_status(&s), CR_ENOMEM);
    CHECK_EQ(cr_str_take(&s, &taken), CR_ENOMEM);
    CHECK_OK(cr_str_status(&s));

    cr_str_add_quoted(&s, "a\"\\\n\t\x01\0\xc3\xa9", 9);
    CHECK_STR(cr_str_get(&s), "\"a\\\"\\\\\\n\\t\\u0001\\u0000\xc3\xa9\"");
    cr_str_dispose(&s);

    /* What Python's repr prints. */
    check_double(0.1, "0.1");
    check_double(1e-5, "1e-05");
    check_double(0.0001, "0.0001");
    check_double(-2.0, "-2.0");
    check_double(1e16, "1e+16");
    check_double(123456789012345680.0, "1.2345678901234568e+17");
    check_double(9999999999999998.0, "9999999999999998.0");
    check_double(1.0 / 3, "0.3333333333333333");
    check_double(5e-324, "5e-324");
    check_double(0x1p-44, "5.684341886080802e-14");
    check_double(1.7976931348623157e308, "1.7976931348623157e+308");
    check_double(2.2250738585072014e-308, "2.2250738585072014e-308");
    check_double(-0.0, "-0.0");
    check_double(1e300 * 1e300, "inf");
    check_double(-1e300 * 1e300, "-inf");
    check_double(0.0 * (1e300 * 1e300), "nan");
    for (int i = 0; i < 20000; i++) {
        uint64_t bits = cr_hash(&i, sizeof i, 3);
        double value, back;
        memcpy(&value, &bits, sizeof value);
        if (value != value) continue;
        cr_str_add_double(&s, value);
        back = cr_strtod(cr_str_get(&s), NULL);
        CHECK(memcmp(&value, &back, sizeof value) == 0);
        cr_str_dispose(&s);
    }

    int line, column;
    const char *text = "ab\ncde\n\nf";
    cr_text_position(text, text + 5, &line, &column);
    CHECK(line == 2 && column == 3);
    cr_text_position(text, text + 8, &line, &column);
    CHECK(line == 4 && column == 1);
}

static int folder_entries(const char *path) {
    int n = 0;
    DIR *dir = opendir(path);
    for (struct dirent *entry; dir && (entry = readdir(dir));) n += entry->d_name[0] != '.';
    closedir(dir);
    return n;
}

static void files(void) {
    char path[128], *text;
    size_t size;
    snprintf(path, sizeof path, "%s/file", folder);
    CHECK_OK(cr_file_write_atomic(path, "one\0two", 7));
    CHECK_OK(cr_file_read(path, &text, &size));
    CHECK(size == 7 && memcmp(text, "one\0two", 8) == 0);
    cr_free(text);
    cr_mapping mapping;
    CHECK_OK(cr_mapping_open(&mapping, path));
    CHECK_OK(cr_file_write_atomic(path, "", 0));
    CHECK(mapping.size == 7 && memcmp(mapping.data, "one\0two", 7) == 0); /* the old file lives on */
    cr_mapping_close(&mapping);
    CHECK_OK(cr_mapping_open(&mapping, path));
    CHECK(mapping.size == 0 && mapping.data != NULL);
    cr_mapping_close(&mapping);
    CHECK_OK(cr_file_read(path, &text, &size));
    CHECK_STR(text, "");
    cr_free(text);
    CHECK_EQ(folder_entries(folder), 1);
    CHECK_OK(cr_file_read("/proc/self/status", &text, &size)); /* states size 0 */
    CHECK(size > 0 && strlen(text) == size);
    cr_free(text);

    CHECK_EQ(cr_file_read("/no/such/file", &text, &size), CR_EIO);
    CHECK_STR(cr_error_message(), "cannot open '/no/such/file': No such file or directory");
    CHECK_EQ(cr_mapping_open(&mapping, folder), CR_EIO);
    CHECK_CONTAINS(cr_error_message(), "Is a directory");
    CHECK_EQ(cr_mapping_open(&mapping, "/dev/null"), CR_EIO);
    CHECK_EQ(cr_file_write_atomic("/no/such/file", "x", 1), CR_EIO);
    CHECK_CONTAINS(cr_error_message(), "'/no/such/file': No such file");

    /* A disk that fills up while writing: the file-size limit acts the same way. The old file stays, no temporary. */
    CHECK_OK(cr_file_write_atomic(path, "old", 3));
    struct rlimit before, small = {.rlim_cur = 4096, .rlim_max = RLIM_INFINITY};
    getrlimit(RLIMIT_FSIZE, &before);
    small.rlim_max = before.rlim_max;
    signal(SIGXFSZ, SIG_IGN);
    char *large = cr_calloc(1, 100000);
    setrlimit(RLIMIT_FSIZE, &small);
    cr_status status = cr_file_write_atomic(path, large, 100000);
    setrlimit(RLIMIT_FSIZE, &before);
    cr_free(large);
    CHECK_EQ(status, CR_EIO);
    CHECK_CONTAINS(cr_error_message(), path);
    CHECK_CONTAINS(cr_error_message(), "File too large");
    CHECK_EQ(folder_entries(folder), 1);
    CHECK_OK(cr_file_read(path, &text, NULL));
    CHECK_STR(text, "old");
    cr_free(text);

    /* A folder where nothing may be created. Root may write anywhere; /proc refuses even root. */
    char *locked = cr_strdup("/proc/cresset-test");
    if (geteuid() != 0) {
        cr_free(locked);
        locked = cr_strdup(path);
        chmod(folder, 0555);
    }
    CHECK_EQ(cr_file_write_atomic(locked, "x", 1), CR_EIO);
    CHECK_CONTAINS(cr_error_message(), locked);
    chmod(folder, 0755);
    cr_free(locked);
    /* Renaming onto a folder fails after the temporary was written. */
    CHECK_EQ(cr_file_write_atomic(folder, "x", 1), CR_EIO);
    CHECK_EQ(folder_entries(folder), 1);
    unlink(path);
}

static cr_status write_in_a_hurry(const char *path, const char *text) {
    cr_file_writer *w = NULL;
    CR_TRY(cr_file_writer_create(path, &w));
    cr_file_writer_hurry(w);
    cr_status status = cr_file_writer_write(w, text, strlen(text));
    if (!status) return cr_file_writer_finish(w);
    cr_file_writer_abandon(w);
    return status;
}

/* Without waiting for the disk: the same file in the end, whatever had the name before. */
static void files_in_a_hurry(void) {
    char path[128], link[128], *text;
    snprintf(path, sizeof path, "%s/file", folder);
    snprintf(link, sizeof link, "%s/link", folder);
    for (int i = 0; i < 2; i++) { /* a new name, then one that is taken */
        cr_mapping mapping = {0};
        if (i) CHECK_OK(cr_mapping_open(&mapping, path));
        CHECK_OK(write_in_a_hurry(path, i ? "two" : "one"));
        if (i) CHECK(mapping.size == 3 && !memcmp(mapping.data, "one", 3)); /* the old file lives on */
        cr_mapping_close(&mapping);
        CHECK_OK(cr_file_read(path, &text, NULL));
        CHECK_STR(text, i ? "two" : "one");
        cr_free(text);
        CHECK_EQ(folder_entries(folder), 1);
    }
    CHECK_EQ(symlink("file", link), 0);
    CHECK_OK(write_in_a_hurry(link, "three")); /* takes the link's place, not that of what it names */
    CHECK_OK(cr_file_read(path, &text, NULL));
    CHECK_STR(text, "two");
    cr_free(text);
    CHECK_OK(cr_file_read(link, &text, NULL));
    CHECK_STR(text, "three");
    cr_free(text);
    CHECK_EQ(write_in_a_hurry(folder, "x"), CR_EIO);
    CHECK_EQ(folder_entries(folder), 2);
    unlink(link);
    unlink(path);
}

/* Everything above in small, as one function that may fail anywhere. */
static cr_status everything(const char *folder) {
    cr_status status = CR_OK;
    cr_arena arena;
    cr_map map;
    cr_str s = {0};
    CR_VEC(int) v = {0};
    char path[128], *text = NULL, *taken = NULL;
    cr_arena_init(&arena);
    cr_map_init(&map);
    for (int i = 0; i < 20; i++) {
        char *name = cr_arena_printf(&arena, "a name longer than sixteen bytes %d", i);
        if (!name) {
            status = CR_ENOMEM;
            goto out;
        }
        CR_TRY_OUT(cr_map_put_str(&map, name, (uint64_t)i));
        CR_TRY_OUT(cr_vec_push(&v, i));
        cr_str_add(&s, name);
    }
    snprintf(path, sizeof path, "%s/oom", folder);
    CR_TRY_OUT(cr_file_write_atomic(path, "text", 4));
    CR_TRY_OUT(cr_file_read(path, &text, NULL));
    CR_TRY_OUT(cr_str_take(&s, &taken));
out:
    unlink(path);
    cr_free(text), cr_free(taken);
    cr_str_dispose(&s);
    cr_vec_dispose(&v);
    cr_map_dispose(&map);
    cr_arena_dispose(&arena);
    return status;
}

/* What a signal handler does to unfinished files: noted ones go, dropped ones stay. */
static void temporaries(void) {
    char paths[3][4200];
    int notes[3], fds[3];
    for (int i = 0; i < 3; i++) {
        snprintf(paths[i], sizeof paths[i], "%s/unfinished-%d", folder, i);
        notes[i] = cr_temporary_add(paths[i]);
        CHECK(notes[i] >= 0);
        fds[i] = open(paths[i], O_CREAT | O_WRONLY, 0600);
        CHECK(fds[i] >= 0);
        close(fds[i]);
    }
    cr_temporary_drop(notes[1]);
    cr_temporary_drop(-1);
    cr_temporaries_remove();
    CHECK_EQ(access(paths[0], F_OK), -1);
    CHECK_EQ(access(paths[1], F_OK), 0);
    CHECK_EQ(access(paths[2], F_OK), -1);
    unlink(paths[1]);
    cr_temporary_drop(notes[0]);
    cr_temporary_drop(notes[2]);
    memset(paths[0], 'x', sizeof paths[0] - 1);
    paths[0][sizeof paths[0] - 1] = 0;
    CHECK_EQ(cr_temporary_add(paths[0]), -1); /* too long to note */
    int many[40], taken = 0;
    for (int i = 0; i < 40; i++) taken += (many[i] = cr_temporary_add(paths[1])) >= 0;
    CHECK(taken > 0 && taken < 40); /* one too many is not noted, and no failure */
    for (int i = 0; i < 40; i++) cr_temporary_drop(many[i]);
    CHECK(cr_temporary_add(paths[1]) == many[0]);
    cr_temporary_drop(many[0]);
}

/* Unfinished, and then killed: nothing is left where the file system has files without names (the usual ones do). */
static void killed_while_writing(void) {
    char path[4200];
    snprintf(path, sizeof path, "%s/killed", folder);
    int probe = open(folder, O_WRONLY | O_TMPFILE, 0600);
    if (probe < 0) return;
    close(probe);
    for (int exists = 0; exists < 2; exists++) {
        if (exists) CHECK_OK(cr_file_write_atomic(path, "old", 3));
        pid_t child = fork();
        if (!child) {
            cr_file_writer *w = NULL;
            if (!cr_file_writer_create(path, &w) && !cr_file_writer_write(w, path, sizeof path))
                kill(getpid(), SIGKILL);
            _exit(1);
        }
        int status = 0;
        waitpid(child, &status, 0);
        CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        CHECK_EQ(folder_entries(folder), exists);
    }
    CHECK_OK(cr_file_write_atomic(path, "new", 3)); /* over the older one */
    CHECK_EQ(folder_entries(folder), 1);
    unlink(path);
}

static void out_of_memory(void) {
    cr_error_release(cr_error_take()); /* a pending record is a live block */
    CHECK_OOM_SWEEP(everything, folder);
    CHECK_EQ(folder_entries(folder), 0);
}

enum { SMALLS = 600 };
static void *smalls[SMALLS];
static const size_t small_sizes[] = { 1, 64, 511, 512, 513, 4000 };

static void *make_smalls(void *unused) {
    (void)unused;
    for (int i = 0; i < SMALLS; i++) {
        size_t size = small_sizes[(size_t)i % CR_COUNT(small_sizes)];
        if ((smalls[i] = cr_small_alloc(size))) memset(smalls[i], i & 0xff, size);
    }
    return NULL;
}

static void free_smalls(void) {
    for (int i = 0; i < SMALLS; i++) cr_small_free(smalls[i], small_sizes[(size_t)i % CR_COUNT(small_sizes)]);
}

/* Blocks that a thread keeps: apart from each other while in use, also when another thread frees them or ends. */
static void small_blocks(void) {
    int64_t live = cr_alloc_live();
    pthread_t thread;
    for (int round = 0; round < 3; round++) {
        if (round != 1) CHECK_EQ(pthread_create(&thread, NULL, make_smalls, NULL), 0);
        if (round != 1) pthread_join(thread, NULL);
        else make_smalls(NULL);
        for (int i = 0; i < SMALLS; i++) {
            size_t size = small_sizes[(size_t)i % CR_COUNT(small_sizes)];
            const unsigned char *p = smalls[i];
            CHECK(p && p[0] == (i & 0xff) && p[size - 1] == (i & 0xff));
        }
        free_smalls();
        CHECK_EQ(cr_alloc_live(), live);
    }
    cr_alloc_fail_at(1);
    CHECK(cr_small_alloc(100000) == NULL);
    cr_alloc_fail_at(0);
}

/* Large blocks are kept for the next request of their class; counts, failures and contents are as for any other. */
static void blocks(void) {
    int64_t live = cr_alloc_live();
    static const size_t sizes[] = { 1, 65535, 65536, 65537, 100000, 1 << 20, (1 << 20) + 1, 3 << 20 };
    for (int round = 0; round < 3; round++) {
        char *p[CR_COUNT(sizes)];
        for (size_t i = 0; i < CR_COUNT(sizes); i++) {
            p[i] = cr_block_alloc(sizes[i]);
            CHECK(p[i] && !((uintptr_t)p[i] % 64));
            memset(p[i], (int)i, sizes[i]);
        }
        CHECK_EQ(cr_alloc_live(), live + (int64_t)CR_COUNT(sizes));
        for (size_t i = 0; i < CR_COUNT(sizes); i++) CHECK(p[i][0] == (char)i && p[i][sizes[i] - 1] == (char)i);
        for (size_t i = 0; i < CR_COUNT(sizes); i++) cr_block_free(p[i], sizes[i]);
        CHECK_EQ(cr_alloc_live(), live);
    }
    cr_alloc_fail_at(1); /* also where a kept block would do */
    CHECK(!cr_block_alloc(100000));
    CHECK_EQ(cr_error_code(), CR_ENOMEM);
    cr_block_trim();
    char *p = cr_block_alloc(100000);
    CHECK(p);
    cr_block_free(p, 100000);
    cr_block_free(NULL, 100000);
    CHECK(!cr_block_alloc(SIZE_MAX / 2 + 9));
    CHECK_EQ(cr_alloc_live(), live);
}

int main(void) {
    snprintf(folder, sizeof folder, "/tmp/cresset-base-XXXXXX");
    if (!mkdtemp(folder)) return perror("mkdtemp"), 1;
    RUN(errors);
    RUN(memory);
    RUN(blocks);
    RUN(small_blocks);
    RUN(vectors);
    RUN(maps);
    RUN(texts);
    if (setlocale(LC_ALL, "de_DE.UTF-8")) RUN(texts); /* where it is installed, a decimal comma must change nothing */
    RUN(files);
    RUN(files_in_a_hurry);
    RUN(temporaries);
    RUN(killed_while_writing);
    RUN(out_of_memory);
    CHECK_EQ(rmdir(folder), 0);
    return check_summary();
}
