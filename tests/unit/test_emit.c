/* Libraries appear whole or not at all, and the disk cache never changes what they are: every write that fails, damaged
 * and vanished entries, full and read-only caches. P4. */
#include "check.h"
#include "emit/cache.h"
#include "emit/elf.h"
#include "emit/emit.h"
#include "emit/sources.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char root[] = "/tmp/cresset-emit-XXXXXX", cache[64], out[64];
static cr_program *program;
static cr_lowered *lowered;

static void remove_tree(const char *path) {
    DIR *d = opendir(path);
    if (!d) return;
    for (struct dirent *e; (e = readdir(d));) {
        char inner[600];
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
        snprintf(inner, sizeof inner, "%s/%s", path, e->d_name);
        if (unlink(inner)) remove_tree(inner);
    }
    closedir(d);
    rmdir(path);
}

static int count_files(const char *path) {
    DIR *d = opendir(path);
    int n = 0;
    if (!d) return 0;
    for (struct dirent *e; (e = readdir(d));) {
        char inner[600];
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
        snprintf(inner, sizeof inner, "%s/%s", path, e->d_name);
        struct stat st;
        if (!stat(inner, &st)) n += S_ISDIR(st.st_mode) ? count_files(inner) : 1;
    }
    closedir(d);
    return n;
}

static cr_key key_of(const char *text) {
    cr_key key;
    cr_key_init(&key);
    cr_key_text(&key, text);
    cr_key_end(&key);
    return key;
}

static void entry_of(const cr_key *key, char path[200]) {
    snprintf(path, 200, "%s/%.2s/%s", cache, key->name, key->name + 2);
}

static bool holds(const cr_key *key, const char *want) {
    uint8_t *data = NULL;
    size_t size = 0;
    bool found = cr_cache_get(key, &data, &size), same = found && size == strlen(want) && !memcmp(data, want, size);
    cr_free(data);
    return same;
}

static void digests(void) {
    static const struct { const char *text, *digest; } known[] = {
        { "", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" },
        { "abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" },
        { "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167"
                                                                      "f6ecedd419db06c1" },
    };
    for (size_t i = 0; i < CR_COUNT(known); i++)
        for (size_t cut = 0; cut <= strlen(known[i].text); cut++) {
            cr_sha256 h;
            uint8_t bytes[32];
            char text[65];
            cr_sha256_init(&h);
            cr_sha256_add(&h, known[i].text, cut);
            cr_sha256_add(&h, known[i].text + cut, strlen(known[i].text) - cut);
            cr_sha256_end(&h, bytes);
            for (int k = 0; k < 32; k++) snprintf(text + 2 * k, 3, "%02x", bytes[k]);
            CHECK_STR(text, known[i].digest);
        }
    cr_key a = key_of("ab"), b = key_of("ab"), c;
    CHECK_STR(a.name, b.name);
    cr_key_init(&c);
    cr_key_text(&c, "a");
    cr_key_text(&c, "b");
    cr_key_end(&c);
    CHECK(strcmp(a.name, c.name) != 0);
}

static void entries_are_verified(void) {
    cr_key key = key_of("one");
    char path[200];
    entry_of(&key, path);
    CHECK(!holds(&key, "value"));
    cr_cache_put(&key, "value", 5);
    CHECK(holds(&key, "value"));
    for (int at = 0; at < 53; at += 4) { /* any damaged byte, also of the trailer */
        FILE *f = fopen(path, "r+");
        CHECK(f != NULL);
        if (!f) return;
        fseek(f, at, SEEK_SET);
        fputc('#', f);
        fclose(f);
        CHECK(!holds(&key, "value"));
        CHECK(access(path, F_OK) != 0);
        cr_cache_put(&key, "value", 5);
        CHECK(holds(&key, "value"));
    }
    CHECK_EQ(truncate(path, 20), 0);
    CHECK(!holds(&key, "value"));
    cr_cache_put(&key, "", 0);
    CHECK(holds(&key, ""));
}

/* Whoever may write an entry chooses the code that we run. */
static void others_are_not_trusted(void) {
    cr_key key = key_of("trust");
    char path[200], folder[200], elsewhere[200];
    struct stat st;
    entry_of(&key, path);
    snprintf(folder, sizeof folder, "%s/%.2s", cache, key.name);
    snprintf(elsewhere, sizeof elsewhere, "%s/elsewhere", root);
    mode_t before = umask(0);
    cr_cache_put(&key, "value", 5);
    umask(before);
    CHECK(holds(&key, "value"));
    CHECK(!stat(path, &st) && (st.st_mode & 0777) == 0600);
    CHECK_EQ(chmod(path, 0620), 0);
    CHECK(!holds(&key, "value"));
    CHECK(access(path, F_OK) != 0);
    cr_cache_put(&key, "value", 5);
    const char *const folders[] = { cache, folder };
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(chmod(folders[i], 0702), 0);
        CHECK(!holds(&key, "value"));
        cr_cache_put(&key, "other", 5);
        CHECK_EQ(chmod(folders[i], 0700), 0);
        CHECK(holds(&key, "value"));
    }
    CHECK_EQ(rename(path, elsewhere), 0);
    CHECK_EQ(symlink(elsewhere, path), 0);
    CHECK(!holds(&key, "value"));
    CHECK(lstat(path, &st) != 0);
    CHECK_EQ(mkfifo(path, 0600), 0); /* which nobody writes to: this must not wait */
    CHECK(!holds(&key, "value"));
    CHECK_EQ(rename(elsewhere, path), 0);
    CHECK(holds(&key, "value"));
    if (!geteuid()) {
        CHECK_EQ(chown(path, 12345, 12345), 0);
        CHECK(!holds(&key, "value"));
        CHECK(access(path, F_OK) != 0);
    }
    cr_cache_put(&key, "value", 5);
    setenv("CRESSET_CACHE_MB", "1", 1);
    CHECK_EQ(truncate(path, 2 << 20), 0);
    CHECK(!holds(&key, "value"));
    unsetenv("CRESSET_CACHE_MB");
    CHECK_EQ(rename(folder, elsewhere), 0); /* a folder that is a link */
    CHECK_EQ(symlink(elsewhere, folder), 0);
    cr_cache_put(&key, "value", 5);
    CHECK(!holds(&key, "value"));
    unlink(folder);
    CHECK_EQ(rename(elsewhere, folder), 0);
}

static void old_entries_leave(void) {
    enum { SIZE = 300 << 10 };
    char *large = cr_calloc(1, SIZE), path[200];
    setenv("CRESSET_CACHE_MB", "1", 1);
    for (int i = 0; i < 8; i++) {
        char text[8];
        snprintf(text, sizeof text, "e%d", i);
        cr_key key = key_of(text);
        cr_cache_put(&key, large, SIZE);
        struct timespec times[2] = { { .tv_sec = 1000 + i }, { .tv_sec = 1000 + i } };
        entry_of(&key, path);
        if (i < 7) utimensat(AT_FDCWD, path, times, 0);
    }
    cr_key first = key_of("e0"), last = key_of("e7");
    entry_of(&first, path);
    CHECK(access(path, F_OK) != 0);
    entry_of(&last, path);
    CHECK(access(path, F_OK) == 0);
    CHECK(count_files(cache) <= 4);
    setenv("CRESSET_CACHE_MB", "0", 1);
    cr_key none = key_of("none");
    cr_cache_put(&none, large, SIZE);
    CHECK(!holds(&none, large));
    unsetenv("CRESSET_CACHE_MB");
    cr_free(large);
}

static void unusable_caches_cost_nothing(void) {
    cr_key key = key_of("x");
    setenv("CRESSET_CACHE", "/proc/no/such", 1);
    cr_cache_put(&key, "v", 1);
    CHECK(!holds(&key, "v"));
    setenv("CRESSET_CACHE", "off", 1);
    cr_cache_put(&key, "v", 1);
    CHECK(!holds(&key, "v"));
    setenv("CRESSET_CACHE", cache, 1);
}

static void many_processes_share_it(void) {
    for (int i = 0; i < 6; i++)
        if (!fork()) {
            bool ok = true;
            for (int n = 0; n < 60; n++) {
                char text[16];
                snprintf(text, sizeof text, "shared %d", n % 5);
                cr_key key = key_of(text);
                uint8_t *data = NULL;
                size_t size;
                if (cr_cache_get(&key, &data, &size)) ok = ok && size == strlen(text) && !memcmp(data, text, size);
                else cr_cache_put(&key, text, strlen(text));
                cr_free(data);
            }
            _exit(!ok);
        }
    for (int i = 0; i < 6; i++) {
        int status = -1;
        wait(&status);
        CHECK_EQ(status, 0);
    }
}

/* ---- libraries ---- */

static cr_status compile_to(const char *name, cr_weights_place weights) {
    cr_emit_options o = { .weights = weights };
    char path[100];
    snprintf(path, sizeof path, "%s/%s", out, name);
    return cr_emit(lowered, path, &o);
}

static cr_status compile(cr_weights_place weights) { return compile_to("lib.so", weights); }

static void put_old(const char *name) {
    char path[100];
    snprintf(path, sizeof path, "%s/%s", out, name);
    CHECK_EQ(cr_file_write_atomic(path, "old", 3), CR_OK);
}

static bool is_old(const char *name) {
    char path[100], *text = NULL;
    snprintf(path, sizeof path, "%s/%s", out, name);
    bool same = !cr_file_read(path, &text, NULL) && !strcmp(text, "old");
    cr_free(text);
    return same;
}

static size_t size_of(const char *name) {
    char path[100], *text = NULL;
    size_t size = 0;
    snprintf(path, sizeof path, "%s/%s", out, name);
    if (cr_file_read(path, &text, &size)) size = 0;
    cr_free(text);
    return size;
}

/* From no cache and from a full one; weights inside, beside, and through the assembler. */
static void every_failing_write(void) {
    for (int variant = 0; variant < 4; variant++) {
        cr_weights_place place = variant & 1 ? CR_WEIGHTS_BESIDE : CR_WEIGHTS_INSIDE;
        if (variant == 2) setenv("CRESSET_LINKED_WEIGHTS", "1", 1);
        if (variant == 3) setenv("CRESSET_CACHE", "off", 1);
        CHECK_OK(compile(place));
        int64_t before = cr_write_count();
        CHECK_OK(compile(place));
        int64_t writes = cr_write_count() - before;
        CHECK(writes >= 2);
        for (int64_t n = 1; n <= writes; n++) {
            put_old("lib.so");
            put_old("lib.weights");
            cr_write_fail_at(n);
            cr_status status = compile(place);
            cr_write_fail_at(0);
            CHECK_EQ(status, CR_EIO);
            CHECK(is_old("lib.so") && is_old("lib.weights"));
            CHECK_EQ(count_files(out), 2);
        }
        unsetenv("CRESSET_LINKED_WEIGHTS");
        setenv("CRESSET_CACHE", cache, 1);
    }
    /* What fails while the cache is written only costs the caching. */
    for (int64_t n = 1, done = 0; !done && n < 40; n++) {
        remove_tree(cache);
        put_old("lib.so");
        int64_t before = cr_write_count();
        cr_write_fail_at(n);
        cr_status status = compile(CR_WEIGHTS_INSIDE);
        cr_write_fail_at(0);
        done = cr_write_count() - before < n;
        CHECK(status == CR_OK ? !is_old("lib.so") : is_old("lib.so"));
    }
}

/* The same for -o x.c and -o x.a: source or archive, header and weights. One of them may be new when another cannot be
 * given its name; a file is never half written, and nothing is left lying about. */
static void every_failing_write_of_sources_and_archives(void) {
    static const char *const names[] = { "lib.c", "lib.a" }, *const all[] = { "lib.c", "lib.a", "lib.h",
                                                                              "lib.weights" };
    size_t whole[4];
    for (int variant = 0; variant < 4; variant++) {
        cr_weights_place place = variant & 1 ? CR_WEIGHTS_BESIDE : CR_WEIGHTS_INSIDE;
        const char *name = names[variant / 2];
        remove_tree(out);
        CHECK_EQ(mkdir(out, 0700), 0);
        CHECK_OK(compile_to(name, place));
        CHECK_EQ(count_files(out), variant & 1 ? 3 : 2);
        for (int f = 0; f < 4; f++) whole[f] = size_of(all[f]);
        int64_t before = cr_write_count();
        CHECK_OK(compile_to(name, place));
        int64_t writes = cr_write_count() - before;
        CHECK(writes >= 2);
        for (int64_t n = 1; n <= writes; n++) {
            for (int f = 0; f < 4; f++)
                if (whole[f]) put_old(all[f]);
            int files = count_files(out);
            cr_write_fail_at(n);
            cr_status status = compile_to(name, place);
            cr_write_fail_at(0);
            CHECK_EQ(status, CR_EIO);
            CHECK(strstr(cr_error_message(), "cannot ") != NULL);
            CHECK_EQ(count_files(out), files);
            CHECK(is_old(name)); /* it comes last */
            for (int f = 0; f < 4; f++)
                if (whole[f]) CHECK(is_old(all[f]) || size_of(all[f]) == whole[f]);
        }
    }
    remove_tree(out);
    CHECK_EQ(mkdir(out, 0700), 0);
}

static void every_failing_allocation(void) {
    CHECK_OK(compile(CR_WEIGHTS_BESIDE));
    cr_error_release(cr_error_take()); /* a record of the last failure is live, too */
    int64_t live = cr_alloc_live(), before = cr_alloc_count();
    CHECK_OK(compile(CR_WEIGHTS_BESIDE));
    int64_t requests = cr_alloc_count() - before, step = requests / 60 + 1;
#ifdef CR_OOM
    step = 1;
#endif
    for (int64_t n = 1; n <= requests; n += step) {
        put_old("lib.so");
        cr_alloc_fail_at(n);
        cr_status status = compile(CR_WEIGHTS_BESIDE);
        cr_alloc_fail_at(0);
        CHECK(status == CR_OK ? !is_old("lib.so") : status == CR_ENOMEM && is_old("lib.so"));
        cr_error_release(cr_error_take());
        CHECK_EQ(cr_alloc_live(), live);
    }
}

static void elf_of_any_bytes(void) {
    char path[100], *text = NULL;
    size_t size = 0;
    cr_elf_spot spot;
    CHECK_OK(compile(CR_WEIGHTS_INSIDE));
    snprintf(path, sizeof path, "%s/lib.so", out);
    CHECK_OK(cr_file_read(path, &text, &size));
    uint8_t *bytes = (uint8_t *)text;
    CHECK(cr_elf_find(bytes, size, &spot) && spot.size == 64 + lowered->model.weight_bytes &&
          !memcmp(bytes + spot.bytes, "CRSTWGT1", 8));
    for (size_t n = 0; n < size; n = n * 9 / 8 + 1) (void)cr_elf_find(bytes, n, &spot);
    uint32_t random = 1;
    for (int i = 0; i < 3000; i++) {
        size_t at = (random = random * 1664525 + 1013904223) % 1000;
        uint8_t old = bytes[at];
        bytes[at] = (uint8_t)(random >> 24);
        if (cr_elf_find(bytes, size, &spot))
            CHECK(spot.bytes + spot.size <= size && spot.section + 64 <= size && spot.segment + 56 <= size);
        bytes[at] = old;
    }
    cr_free(text);
}

/* ---- flags ---- */

static bool has_flag(const char *const *flags, size_t n, const char *flag) {
    for (size_t i = 0; i < n; i++)
        if (!strcmp(flags[i], flag)) return true;
    return false;
}

/* Row kernels and the runtime's files of an instruction set are compiled for the same one. */
static void instruction_sets_have_the_flags_of_their_files(void) {
    const char *flags[CR_SOURCE_FLAGS];
    int sets = 0;
    for (const cr_isa *const *isa = cr_target_x86.isas; *isa; isa++) {
        if (!(*isa)->files) continue;
        size_t n = cr__source_flags((*isa)->files, true, flags);
        for (const char *const *flag = (*isa)->flags; *flag; flag++) CHECK(has_flag(flags, n, *flag));
        sets++;
    }
    CHECK_EQ(sets, 2);
}

static void files_have_the_flags_of_their_rows(void) {
    const char *flags[CR_SOURCE_FLAGS];
    size_t n = cr__source_flags("rt_block_base.c", true, flags);
    CHECK(has_flag(flags, n, "-O3") && has_flag(flags, n, "-fno-thread-jumps") &&
          has_flag(flags, n, "-fno-math-errno"));
    n = cr__source_flags("rt_block_base.c", false, flags);
    CHECK(has_flag(flags, n, "-O3") && !has_flag(flags, n, "-fno-thread-jumps"));
    CHECK(cr__source_is_fused("conv.c") && cr__source_is_fused("gemm_thin.c") && !cr__source_is_fused("rt_convert.c"));
}

int main(void) {
    CHECK(mkdtemp(root) != NULL);
    snprintf(cache, sizeof cache, "%s/cache", root);
    snprintf(out, sizeof out, "%s/out", root);
    CHECK_EQ(mkdir(out, 0700), 0);
    setenv("CRESSET_CACHE", cache, 1);
    CHECK_OK(cr_program_load("examples/digits/digits.pt2", NULL, 0, &program));
    CHECK_OK(cr_lower(&program, 1, NULL, &lowered));
    RUN(digests);
    RUN(entries_are_verified);
    RUN(others_are_not_trusted);
    RUN(old_entries_leave);
    RUN(unusable_caches_cost_nothing);
    RUN(many_processes_share_it);
    RUN(instruction_sets_have_the_flags_of_their_files);
    RUN(files_have_the_flags_of_their_rows);
    if (lowered) {
        RUN(every_failing_write);
        RUN(every_failing_write_of_sources_and_archives);
        RUN(every_failing_allocation);
        RUN(elf_of_any_bytes);
    }
    cr_lowered_release(lowered);
    cr_program_release(program);
    remove_tree(root);
    return check_summary();
}
