/* The thread pool: every index once, deterministic ranges, errors with their own message, nesting, fork. */
#include "check.h"
#include "runtime/rt.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST = 1000 };

static char message[64];
static rt_ctx ctx;

typedef struct tally {
    atomic_int hits[MOST];
    atomic_long ranges; /* sum over chunks of (begin+1)*(end+7): equal splits give equal sums */
    int64_t fail_from;
    bool nested;
} tally;

static int count(void *arg, int64_t begin, int64_t end) {
    tally *t = arg;
    atomic_fetch_add(&t->ranges, (begin + 1) * (end + 7));
    for (int64_t i = begin; i < end; i++) {
        atomic_fetch_add(&t->hits[i], 1);
        if (i >= t->fail_from) return rt_fail(&ctx, 1 + (int)(i % 5), "%d", (int)(1 + i % 5));
    }
    if (t->nested) {
        tally *inner = calloc(1, sizeof *inner);
        inner->fail_from = MOST;
        CHECK_EQ(rt_parallel_for(&ctx, 77, 1, count, inner), RT_OK);
        int once = 0;
        for (int i = 0; i < 77; i++) once += inner->hits[i] == 1;
        CHECK_EQ(once, 77);
        free(inner);
    }
    return RT_OK;
}

static long run_once(int64_t n, int64_t grain, bool nested) {
    tally *t = calloc(1, sizeof *t);
    t->fail_from = MOST;
    t->nested = nested;
    CHECK_EQ(rt_parallel_for(&ctx, n, grain, count, t), RT_OK);
    int right = 0;
    for (int i = 0; i < MOST; i++) right += t->hits[i] == (i < n);
    CHECK_EQ(right, MOST);
    long ranges = t->ranges;
    free(t);
    return ranges;
}

static void every_index_once(void) {
    for (int64_t n = 0; n < MOST; n += 37)
        for (int64_t grain = 0; grain < 60; grain += 13) run_once(n, grain, grain == 13);
}

static void same_ranges_every_time(void) {
    for (int64_t n = 1; n < MOST; n += 101) {
        long first = run_once(n, 3, false);
        for (int i = 0; i < 20; i++) CHECK_EQ(run_once(n, 3, false), first);
    }
}

static void first_error_keeps_its_message(void) {
    for (int from = 0; from < 300; from++) {
        tally *t = calloc(1, sizeof *t);
        t->fail_from = from;
        int code = rt_parallel_for(&ctx, 500, 1, count, t);
        CHECK(code > 0);
        CHECK_EQ(atoi(message), code);
        free(t);
    }
    rt_fail(&ctx, RT_EVALUE, "after %s", "the run");
    CHECK_STR(message, "after the run");
}

static void *other_thread(void *arg) {
    every_index_once();
    return arg;
}

static void concurrent_callers(void) {
    pthread_t thread[3];
    for (int i = 0; i < 3; i++) pthread_create(&thread[i], NULL, other_thread, NULL);
    for (int i = 0; i < 3; i++) pthread_join(thread[i], NULL);
}

static void works_after_sleeping(void) {
    for (int i = 0; i < 5; i++) {
        usleep(3000);
        run_once(500, 1, false);
    }
}

/* ---- who is late holds nobody up ---- */

typedef struct race { atomic_int late, others, own, done_meanwhile; } race;

/* Who comes first stays in its first chunk until everything else is done, its own other chunks too. */
static int late_thread(void *arg, int64_t begin, int64_t end) {
    race *r = arg;
    if (atomic_fetch_add(&r->late, 1)) {
        atomic_fetch_add(&r->others, (int)(end - begin));
        return RT_OK;
    }
    atomic_store(&r->own, (int)(end - begin));
    for (int i = 0; i < 5000 && atomic_load(&r->others) + r->own < MOST; i++) usleep(1000);
    atomic_store(&r->done_meanwhile, atomic_load(&r->others));
    return RT_OK;
}

static void a_late_thread_holds_nobody_up(void) {
    for (int i = 0; i < 20; i++) {
        race r = { 0 };
        CHECK_EQ(rt_parallel_work(&ctx, MOST, 1000, 1, late_thread, &r), RT_OK);
        CHECK(r.own > 0 && r.own <= MOST / rt_pool_threads(ctx.pool) / 2);
        CHECK_EQ(r.done_meanwhile + r.own, MOST);
    }
}

/* ---- the number of chunks follows the work ---- */

static int count_calls(void *arg, int64_t begin, int64_t end) {
    (void)begin, (void)end;
    atomic_fetch_add((atomic_int *)arg, 1);
    return RT_OK;
}

static int calls_of(int64_t n, int64_t each, int64_t grain) {
    atomic_int calls = 0;
    CHECK_EQ(rt_parallel_work(&ctx, n, each, grain, count_calls, &calls), RT_OK);
    return calls;
}

static void small_work_stays_with_the_caller(void) {
    CHECK_EQ(calls_of(1, 1 << 20, 1), 1);
    CHECK_EQ(calls_of(100, 1, 1000), 1);
    CHECK_EQ(calls_of(100, 10, 1000), 1);
    CHECK(calls_of(1000, 10, 1000) > 1);
    CHECK_EQ(calls_of(2, INT64_MAX / 4, 1), 2);
    CHECK_EQ(calls_of(INT64_MAX / 2, 1, INT64_MAX), 1);
    CHECK_EQ(calls_of(0, 1, 1), 0);
    CHECK_EQ(calls_of(3, 0, 1), 3 <= rt_pool_threads(ctx.pool) ? 3 : 2);
}

/* More threads asked for than cores: the cut is the former's, the workers are the latter's. */
static void no_more_workers_than_cores(void) {
    CHECK(rt_pool_create_within(8, 1) == NULL);
    rt_pool *pool = rt_pool_create_within(8, 2), *before = ctx.pool;
    CHECK(pool != NULL);
    CHECK_EQ(rt_pool_threads(pool), 8);
    ctx.pool = pool;
    every_index_once();
    CHECK(calls_of(1000, 1000, 1) <= 2 * 4);
    ctx.pool = before;
    rt_pool_release(pool);
}

static void child_process_makes_its_own_workers(void) {
#if !defined(__SANITIZE_THREAD__) /* which refuses threads after a fork */
    pid_t pid = fork();
    if (!pid) {
        every_index_once();
        rt_pool_release(ctx.pool);
        _exit(atomic_load(&check_failed) ? 1 : 42);
    }
    int status = 0;
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status));
    CHECK_EQ(WEXITSTATUS(status), 42);
#endif
    every_index_once();
}

static void without_a_pool(void) {
    CHECK(rt_pool_create(1) == NULL);
    CHECK(rt_pool_create(0) == NULL);
    CHECK_EQ(rt_pool_threads(NULL), 1);
    rt_pool_release(NULL);
    rt_pool *pool = ctx.pool;
    ctx.pool = NULL;
    every_index_once();
    ctx.pool = pool;
}

static void scratch(void) {
    void *p = rt_scratch(&ctx, 0), *q = rt_scratch(&ctx, 100);
    CHECK(p && q && (uintptr_t)q % 64 == 0);
    CHECK(rt_scratch(&ctx, SIZE_MAX) == NULL);
    rt_scratch_free(&ctx, p);
    rt_scratch_free(&ctx, q);
    rt_scratch_free(&ctx, NULL);
    CHECK_EQ(rt_itemsize(RT_C128), 16);
    CHECK_EQ(rt_itemsize(-1), 0);
    CHECK_EQ(rt_itemsize(RT_DTYPE_COUNT), 0);
}

static int live;
static void *counting_alloc(void *user, size_t size) {
    (void)user;
    live++;
    return aligned_alloc(64, size);
}
static void counting_free(void *user, void *p) {
    (void)user;
    live--;
    free(p);
}

/* Large blocks come back from the pool, never while still in use, never to another allocator, and go with the pool. */
static void large_scratch_is_kept(void) {
    rt_pool *pool = rt_pool_create(2);
    rt_ctx counted = rt_ctx_plain(pool, message, sizeof message), plain = counted;
    counted.alloc = counting_alloc, counted.free = counting_free;
    enum { MANY = 40, BYTES = 1 << 20 };
    char *block[MANY];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < MANY; i++) {
            block[i] = rt_scratch(&counted, (size_t)(BYTES + i * 100000));
            CHECK(block[i] && (uintptr_t)block[i] % 64 == 0);
            memset(block[i], i, BYTES);
        }
        char *other = rt_scratch(&plain, BYTES);
        memset(other, 99, BYTES);
        int whole = 0;
        for (int i = 0; i < MANY; i++) whole += block[i][0] == i && block[i][BYTES - 1] == i;
        CHECK_EQ(whole, MANY);
        for (int i = 0; i < MANY; i++) rt_scratch_free(&counted, block[i]);
        rt_scratch_free(&plain, other);
#if !defined(__SANITIZE_ADDRESS__)
        CHECK(live > 0 && live <= 16);
#endif
    }
    rt_pool_release(pool);
    CHECK_EQ(live, 0);
}

int main(void) {
    for (int threads = 2; threads <= 5; threads += 3) {
        rt_pool *pool = rt_pool_create(threads);
        CHECK(pool != NULL);
        CHECK_EQ(rt_pool_threads(pool), threads);
        ctx = rt_ctx_plain(pool, message, sizeof message);
        RUN(every_index_once);
        RUN(same_ranges_every_time);
        RUN(first_error_keeps_its_message);
        RUN(concurrent_callers);
        RUN(works_after_sleeping);
        RUN(a_late_thread_holds_nobody_up);
        RUN(small_work_stays_with_the_caller);
        RUN(no_more_workers_than_cores);
        RUN(child_process_makes_its_own_workers);
        RUN(without_a_pool);
        RUN(scratch);
        RUN(large_scratch_is_kept);
        rt_pool_release(pool);
    }
    return check_summary();
}
