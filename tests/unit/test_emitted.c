/* The C text of models stays what it was: a digest for each target of every small archive in the tree (emitted.txt).
 * A change of src/passes, src/lower or src/emit that is meant to alter the text says so by `test_emitted --update`. */
#include "check.h"
#include "emit/emit.h"

#include <glob.h>
#include <stdlib.h>

static const char expected_path[] = "tests/unit/emitted.txt";
static const char *const archives[] = { "examples/digits/*.pt2", "tests/data/cli/*.pt2", "tests/data/gpt/*.pt2",
                                        "tests/interop/recorded/*.pt2" };
/* "source": what `-o model.c` begins with. */
static const char *const targets[] = { "x86_64-linux-gnu", "aarch64-linux-gnu", "source" };

static void add_digest(const cr_lowered *l, const char *name, cr_str *out) {
    cr_build build;
    cr_str text, kernels;
    cr_sha256 h;
    uint8_t bytes[32];
    bool source = !strcmp(name, "source");
    cr_str_init(&text);
    cr_str_init(&kernels);
    if (source) cr_build_source(&build);
    else CHECK_OK(cr_build_parse(name, &build));
    CHECK_OK(cr_emit_c(l, &(cr_emit_options){ 0 }, &build, &text, source ? NULL : &kernels));
    cr_sha256_init(&h);
    cr_sha256_add(&h, cr_str_get(&text), text.n);
    cr_sha256_add(&h, cr_str_get(&kernels), kernels.n);
    cr_sha256_end(&h, bytes);
    for (int i = 0; i < 32; i++) cr_str_addf(out, "%02x", bytes[i]);
    cr_str_dispose(&text);
    cr_str_dispose(&kernels);
}

static void add_archive(const char *path, cr_str *out) {
    cr_program *program = NULL;
    cr_lowered *lowered = NULL;
    cr_status status = cr_program_load(path, NULL, 0, &program);
    if (!status) status = cr_lower(&program, 1, NULL, &lowered);
    if (status) cr_str_addf(out, "%s: %s\n", path, cr_error_message());
    else {
        for (size_t i = 0; i < CR_COUNT(targets); i++) {
            cr_str_addf(out, "%s %s: ", path, targets[i]);
            add_digest(lowered, targets[i], out);
            cr_str_addc(out, '\n');
        }
    }
    cr_lowered_release(lowered);
    cr_program_release(program);
}

/* Line by line, so that a failure names the archive and the target. */
static void compare(const char *got, const char *want) {
    while (*got || *want) {
        int n = (int)strcspn(got, "\n"), m = (int)strcspn(want, "\n");
        if (n == m && !strncmp(got, want, (size_t)n)) check_count(true);
        else
            CHECK_FAILED("emitted C has changed (tests/unit/test_emitted.c says what to do):\n  %.*s\nwas\n  %.*s", n,
                         got, m, want);
        got += n + (got[n] == '\n');
        want += m + (want[m] == '\n');
    }
}

static void triples(void) {
    static const struct { const char *triple; const cr_target *target; int nisas; } known[] = {
        { "x86_64-linux-gnu", &cr_target_x86, 3 },
        { "aarch64-linux-gnu", &cr_target_arm64, 1 },
        { "riscv64-linux-gnu", &cr_target_riscv, 1 },
        { "vax-dec-ultrix", &cr_target_other, 1 },
    };
    cr_lower_options lower = { 0 };
    cr_build b;
    for (size_t i = 0; i < CR_COUNT(known); i++) {
        CHECK_OK(cr_build_parse(known[i].triple, &b));
        CHECK(b.target == known[i].target);
        CHECK_EQ(b.nisas, known[i].nisas);
        CHECK_STR(b.name, known[i].triple);
        CHECK_OK(cr_build_lowering(known[i].triple, &lower));
        CHECK(lower.fuse == known[i].target->fuse);
    }
    CHECK_OK(cr_build_parse("native", &b));
    CHECK(b.target == cr_target_here() && b.nisas == 1 && b.needs == b.isas[0]->needs && !(b.needs & ~rt_cpu()));
    CHECK_EQ(cr_build_parse("vax", &b), CR_EVALUE);
    CHECK(cr__isa_of_file("gemm_avx512.c") && !cr__target_has(&cr_target_arm64, cr__isa_of_file("gemm_avx512.c")));
    CHECK(!cr__isa_of_file("gemm_portable.c"));
}

int main(int argc, char **argv) {
    cr_str all;
    char *want = NULL;
    cr_str_init(&all);
    RUN(triples);
    for (size_t i = 0; i < CR_COUNT(archives); i++) {
        glob_t found;
        CHECK_EQ(glob(archives[i], 0, NULL, &found), 0);
        for (size_t k = 0; k < found.gl_pathc; k++) add_archive(found.gl_pathv[k], &all);
        globfree(&found);
    }
    if (argc > 1 && !strcmp(argv[1], "--update")) CHECK_OK(cr_file_write_atomic(expected_path, all.at, all.n));
    CHECK_OK(cr_file_read(expected_path, &want, NULL));
    if (want) compare(cr_str_get(&all), want);
    cr_free(want);
    cr_str_dispose(&all);
    return check_summary();
}
