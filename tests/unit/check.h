/* check.h: the whole test framework of the C unit tests.
 *
 *     static void addition(void) { CHECK_EQ(1 + 1, 2); }
 *     int main(void) { RUN(addition); return check_summary(); }
 *
 * A failed check prints where and what and the test goes on, so that one run shows every failure; check_summary prints
 * the counts and gives the exit code (a program without a single check fails, too). Checks are statements and may be
 * used from several threads. */
#ifndef CHECK_H
#define CHECK_H

#include "cresset/status.h"

#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static atomic_long check_passed, check_failed;
static const char *check_current = "main";

static inline void check_count(bool ok) { atomic_fetch_add(ok ? &check_passed : &check_failed, 1); }
#define CHECK_FAILED(...)                                                                                              \
    (check_count(false), fprintf(stderr, "%s:%d: %s: ", __FILE__, __LINE__, check_current),                           \
     fprintf(stderr, __VA_ARGS__), fputc('\n', stderr))

#define CHECK(cond)                                                                                                    \
    do {                                                                                                               \
        if (cond) check_count(true);                                                                                   \
        else CHECK_FAILED("not true: %s", #cond);                                                                      \
    } while (0)
/* Integers (and enums, bools, characters). */
#define CHECK_EQ(got, want)                                                                                            \
    do {                                                                                                               \
        int64_t check__got = (int64_t)(got), check__want = (int64_t)(want);                                            \
        if (check__got == check__want) check_count(true);                                                              \
        else CHECK_FAILED("%s is %" PRId64 ", expected %" PRId64, #got, check__got, check__want);                      \
    } while (0)
/* Floating-point numbers: equal, or both NaN. */
#define CHECK_FLOAT(got, want)                                                                                         \
    do {                                                                                                               \
        double check__got = (double)(got), check__want = (double)(want);                                               \
        if (check__got == check__want || (isnan(check__got) && isnan(check__want))) check_count(true);                 \
        else CHECK_FAILED("%s is %.17g, expected %.17g", #got, check__got, check__want);                               \
    } while (0)
/* |got - want| <= tolerance. */
#define CHECK_NEAR(got, want, tolerance)                                                                               \
    do {                                                                                                               \
        double check__got = (double)(got), check__want = (double)(want);                                               \
        if (fabs(check__got - check__want) <= (tolerance)) check_count(true);                                          \
        else                                                                                                           \
            CHECK_FAILED("%s is %.17g, expected %.17g within %g", #got, check__got, check__want, (double)(tolerance)); \
    } while (0)
/* Texts; NULL equals only NULL. */
#define CHECK_STR(got, want)                                                                                           \
    do {                                                                                                               \
        const char *check__got = (got), *check__want = (want);                                                         \
        if (check__got == check__want || (check__got && check__want && !strcmp(check__got, check__want)))              \
            check_count(true);                                                                                         \
        else                                                                                                           \
            CHECK_FAILED("%s is\n  \"%s\"\nexpected\n  \"%s\"", #got, check__got ? check__got : "(NULL)",              \
                         check__want ? check__want : "(NULL)");                                                        \
    } while (0)
/* `part` occurs in `text`. */
#define CHECK_CONTAINS(text, part)                                                                          \
    do {                                                                                                    \
        const char *check__text = (text), *check__part = (part);                                            \
        if (check__text && strstr(check__text, check__part)) check_count(true);                             \
        else                                                                                                \
            CHECK_FAILED("%s is\n  \"%s\"\nwithout\n  \"%s\"", #text, check__text ? check__text : "(NULL)", \
                         check__part);                                                                      \
    } while (0)
/* A cr_status that must be CR_OK; a failure shows the last error. */
#define CHECK_OK(status)                                                                                               \
    do {                                                                                                               \
        cr_status check__status = (status);                                                                            \
        if (check__status == CR_OK) check_count(true);                                                                 \
        else CHECK_FAILED("%s failed: %s (%s)", #status, cr_error_message(), cr_error_where());                        \
    } while (0)
/* A cr_status that must be the given failure, with `part` in the last error's message ("" when it does not matter). */
#define CHECK_ERROR(status, code, part)                                                   \
    do {                                                                                  \
        cr_status check__code = (status), check__expected = (code);                       \
        if (check__code != check__expected)                                               \
            CHECK_FAILED("%s gave %s, expected %s", #status, cr_status_name(check__code), \
                         cr_status_name(check__expected));                                \
        else CHECK_CONTAINS(cr_error_message(), part);                                    \
    } while (0)

/* Runs one test function under its own name. */
#define RUN(test) (check_current = #test, test(), check_current = "main")

/* The out-of-memory sweep: runs body(arg) with its 1st, 2nd, 3rd ... allocation failing until it gets through without
 * one. Each failed run must report CR_ENOMEM and leave no block behind. Every allocation is tried in the oom preset,
 * a growing sample of them elsewhere. (A macro, so that tests that do not use it need not link the allocator.) */
#define CHECK_OOM_SWEEP(body, arg)                                                                                \
    do {                                                                                                          \
        cr_error_release(cr_error_take()); /* a kept error is a live block */                                     \
        int64_t check__live = cr_alloc_live(), check__n = 1;                                                      \
        for (;; check__n += CHECK_OOM_STEP(check__n)) {                                                           \
            int64_t check__before = cr_alloc_count();                                                             \
            cr_alloc_fail_at(check__n);                                                                           \
            cr_status check__code = body(arg);                                                                    \
            cr_alloc_fail_at(0);                                                                                  \
            cr_error_release(cr_error_take());                                                                    \
            bool check__reached = cr_alloc_count() - check__before >= check__n;                                   \
            if (cr_alloc_live() != check__live) {                                                                 \
                CHECK_FAILED("%s leaves %" PRId64 " blocks when allocation %" PRId64 " fails", #body,             \
                             cr_alloc_live() - check__live, check__n);                                            \
                break;                                                                                            \
            }                                                                                                     \
            if (!check__reached) {                                                                                \
                CHECK(!check__code);                                                                              \
                break;                                                                                            \
            }                                                                                                     \
            if (check__code != CR_ENOMEM) {                                                                       \
                CHECK_FAILED("%s gave %s when allocation %" PRId64 " failed", #body, cr_status_name(check__code), \
                             check__n);                                                                           \
                break;                                                                                            \
            }                                                                                                     \
            check_count(true);                                                                                    \
        }                                                                                                         \
    } while (0)
#ifdef CR_OOM
#define CHECK_OOM_STEP(n) 1
#else
#define CHECK_OOM_STEP(n) (1 + (n) / 8)
#endif
/* As base/base.h declares them. */
CR_API void cr_alloc_fail_at(int64_t n);
CR_API int64_t cr_alloc_count(void);
CR_API int64_t cr_alloc_live(void);

/* Prints the counts; the exit code of main. */
static inline int check_summary(void) {
    long passed = atomic_load(&check_passed), failed = atomic_load(&check_failed);
    printf("%ld checks passed, %ld failed\n", passed, failed);
    return failed || !passed;
}

#endif
