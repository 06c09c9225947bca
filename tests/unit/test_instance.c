/* Instances of a compiled model, in the process that lowered it: memory that is kept between runs, many threads on many
 * instances, fork, counts of processors from control groups. P4. */
#include "check.h"
#include "lower/lower.h"
#include "runtime/rt_pool.h"
#include "runtime/rt_recycle.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

int rt__cgroup_cpus(const char *proc_file, const char *root);

enum { BATCH = 40, PIXELS = 64 };
static cr_program *program;
static cr_lowered *lowered;
static uint8_t *weights;
static float images[BATCH * PIXELS];
static int64_t expected[BATCH];

static const cresset_api *load_model(void) {
    cr_status status = cr_program_load("examples/digits/digits.pt2", NULL, 0, &program);
    if (!status) status = cr_lower(&program, 1, NULL, &lowered);
    if (!status) status = cr_lowered_weights(lowered, &weights);
    if (status) return NULL;
    lowered->model.weights = weights;
    lowered->library.model = &lowered->model;
    return &lowered->library.api;
}

static int run_digits(const cresset_api *api, cresset_instance *m, int64_t n, int64_t *digits, char *message) {
    int64_t size[] = { n, 8, 8 };
    cresset_value x = {
        .struct_size = sizeof x, .kind = CRESSET_TENSOR, .dtype = CRESSET_F32, .rank = 3, .size = size, .data = images
    };
    cresset_value out[2] = { { .struct_size = sizeof *out }, { .struct_size = sizeof *out } };
    int code = api->run(m, 0, &x, 1, out, 2, message, 256);
    if (code) return code;
    memcpy(digits, out[0].data, (size_t)n * sizeof *digits);
    api->release(m, &out[0]);
    api->release(m, &out[1]);
    return 0;
}

static bool right(const cresset_api *api, cresset_instance *m, int64_t n) {
    int64_t digits[BATCH];
    char message[256] = "";
    return !run_digits(api, m, n, digits, message) && !memcmp(digits, expected, (size_t)n * sizeof *digits);
}

static cresset_instance *instance(const cresset_api *api, int threads) {
    cresset_options o = { .struct_size = sizeof o, .threads = threads };
    cresset_instance *m = NULL;
    char message[256] = "";
    CHECK_EQ(api->create(api, &o, &m, message, sizeof message), CRESSET_OK);
    CHECK_STR(message, "");
    return m;
}

static const cresset_api *api;

/* ---- memory ---- */

typedef struct counted { atomic_long calls, live; } counted;

static void *counting_alloc(void *user, size_t size) {
    counted *c = user;
    void *p = NULL;
    atomic_fetch_add(&c->calls, 1);
    atomic_fetch_add(&c->live, 1);
    return posix_memalign(&p, 64, size) ? NULL : p;
}

static void counting_free(void *user, void *p) {
    counted *c = user;
    if (p) atomic_fetch_sub(&c->live, 1);
    free(p);
}

static void runs_ask_the_system_for_nothing(void) {
    for (int threads = 1; threads <= 2; threads++) {
        counted c = { 0 };
        cresset_options o = {
            .struct_size = sizeof o, .threads = threads, .alloc = counting_alloc, .free = counting_free, .user = &c
        };
        cresset_instance *m = NULL;
        CHECK_EQ(api->create(api, &o, &m, NULL, 0), CRESSET_OK);
        for (int i = 0; i < 5; i++) CHECK(right(api, m, BATCH));
        long before = c.calls, live = c.live;
        struct rusage first, last;
        getrusage(RUSAGE_SELF, &first);
        for (int i = 0; i < 200; i++) CHECK(right(api, m, BATCH));
        getrusage(RUSAGE_SELF, &last);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
        CHECK_EQ(c.calls - before, 0);
        CHECK(last.ru_minflt - first.ru_minflt < 20);
#else
        (void)before;
#endif
        CHECK_EQ(c.live, live);
        api->destroy(m);
        CHECK_EQ(c.live, 0);
    }
}

/* CRESSET_CALLS: how many calls; the long sweep says a million. */
static void many_calls_leak_nothing(void) {
    const char *text = getenv("CRESSET_CALLS");
    long calls = text ? strtol(text, NULL, 10) : 3000, wrong = 0;
    counted c = { 0 };
    cresset_options o = {
        .struct_size = sizeof o, .threads = 1, .alloc = counting_alloc, .free = counting_free, .user = &c
    };
    cresset_instance *m = NULL;
    CHECK_EQ(api->create(api, &o, &m, NULL, 0), CRESSET_OK);
    int64_t blocks = cr_alloc_live();
    for (int64_t n = 1; n <= 3; n++) wrong += !right(api, m, n);
    long live = c.live;
    for (long i = 0; i < calls; i++) wrong += !right(api, m, 1 + i % 3);
    CHECK_EQ(wrong, 0);
    CHECK_EQ(c.live, live);
    CHECK_EQ(cr_alloc_live(), blocks);
    api->destroy(m);
    CHECK_EQ(c.live, 0);
}

typedef struct failing { long at, calls; counted c; } failing;

static void *failing_alloc(void *user, size_t size) {
    failing *f = user;
    return ++f->calls == f->at ? NULL : counting_alloc(&f->c, size);
}

static void failing_free(void *user, void *p) { counting_free(&((failing *)user)->c, p); }

static void failing_allocations_are_reported(void) {
    bool done = false;
    for (long at = 1; !done && at < 1000; at++) {
        failing f = { .at = at };
        cresset_options o = {
            .struct_size = sizeof o, .threads = 1, .alloc = failing_alloc, .free = failing_free, .user = &f
        };
        cresset_instance *m = NULL;
        char message[256] = "";
        int code = api->create(api, &o, &m, message, sizeof message);
        if (!code) {
            int64_t digits[BATCH];
            code = run_digits(api, m, 7, digits, message);
            done = f.calls < at;
            CHECK_EQ(code, f.calls >= at && code ? CRESSET_OUT_OF_MEMORY : CRESSET_OK);
            f.at = 0; /* where nothing is kept (ASan), the next run asks again */
            CHECK(right(api, m, 7));
        } else CHECK_EQ(code, CRESSET_OUT_OF_MEMORY);
        if (code) CHECK(strstr(message, "out of memory") != NULL);
        api->destroy(m);
        CHECK_EQ(f.c.live, 0);
    }
    CHECK(done);
}

static void kept_memory_is_bounded(void) {
    counted c = { 0 };
    rt_recycler *r = rt_recycler_create(counting_alloc, counting_free, &c);
    CHECK(r != NULL);
    for (size_t size = 1; size < ((size_t)1 << 27); size = size * 5 / 4 + 1) {
        char *p = rt_recycler_alloc(r, size);
        CHECK(p && !((uintptr_t)p & 63));
        p[0] = p[size - 1] = 1;
        rt_recycler_free(r, p);
    }
    char *all[40];
    for (int i = 0; i < 40; i++) all[i] = rt_recycler_alloc(r, 1 << 20);
    for (int i = 0; i < 40; i++) rt_recycler_free(r, all[i]);
    long before = c.calls;
    char *again = rt_recycler_alloc(r, 1 << 20);
#if !defined(__SANITIZE_ADDRESS__)
    CHECK_EQ(c.calls, before);
#else
    (void)before;
#endif
    rt_recycler_free(r, again);
    CHECK(rt_recycler_alloc(r, SIZE_MAX - 100) == NULL);
    rt_recycler_release(r);
    CHECK_EQ(c.live, 0);
}

/* ---- threads ---- */

typedef struct job { cresset_instance **of; int first; atomic_int wrong; } job;

static void *run_all(void *arg) {
    job *j = arg;
    for (int i = 0; i < 40; i++)
        if (!right(api, j->of[(j->first + i) % 4], 1 + (j->first * 31 + i * 7) % BATCH)) atomic_fetch_add(&j->wrong, 1);
    return NULL;
}

static void eight_threads_on_four_instances(void) {
    cresset_instance *of[4];
    pthread_t thread[8];
    job jobs[8];
    for (int i = 0; i < 4; i++) of[i] = instance(api, i == 3 ? 3 : 2);
    for (int i = 0; i < 8; i++) {
        jobs[i] = (job){ .of = of, .first = i };
        CHECK_EQ(pthread_create(&thread[i], NULL, run_all, &jobs[i]), 0);
    }
    for (int i = 0; i < 8; i++) {
        pthread_join(thread[i], NULL);
        CHECK_EQ(jobs[i].wrong, 0);
    }
    for (int i = 0; i < 4; i++) api->destroy(of[i]);
}

static void *make_and_drop(void *arg) {
    job *j = arg;
    for (int i = 0; i < 20; i++) {
        cresset_instance *m = instance(api, 1 + (i + j->first) % 3);
        if (!right(api, m, 30)) atomic_fetch_add(&j->wrong, 1);
        api->destroy(m);
    }
    return NULL;
}

static void instances_come_and_go(void) {
    pthread_t thread[4];
    job jobs[4];
    for (int i = 0; i < 4; i++) {
        jobs[i] = (job){ .first = i };
        CHECK_EQ(pthread_create(&thread[i], NULL, make_and_drop, &jobs[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(thread[i], NULL);
        CHECK_EQ(jobs[i].wrong, 0);
    }
}

/* The parent's other threads hold locks and the pool at the moment of the fork. Not under TSan, which refuses it, nor
 * under ASan: the locks of its allocator stay locked in the child when another thread holds one (seen with gcc 12). */
static void child_of_a_fork_runs(void) {
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
    cresset_instance *of[4];
    for (int i = 0; i < 4; i++) of[i] = instance(api, 2);
    for (int round = 0; round < 5; round++) {
        pthread_t thread[2];
        job jobs[2] = { { .of = of, .first = 0 }, { .of = of, .first = 1 } };
        for (int i = 0; i < 2; i++) CHECK_EQ(pthread_create(&thread[i], NULL, run_all, &jobs[i]), 0);
        usleep(500);
        pid_t child = fork();
        if (!child) {
            alarm(60);
            bool ok = true;
            for (int i = 0; i < 4; i++) ok = right(api, of[i], BATCH) && ok;
            for (int i = 0; i < 4; i++) api->destroy(of[i]);
            cresset_instance *fresh = instance(api, 2);
            ok = right(api, fresh, BATCH) && ok;
            api->destroy(fresh);
            _exit(ok ? 0 : 1);
        }
        int status = -1;
        waitpid(child, &status, 0);
        CHECK_EQ(status, 0);
        for (int i = 0; i < 2; i++) {
            pthread_join(thread[i], NULL);
            CHECK_EQ(jobs[i].wrong, 0);
        }
    }
    for (int i = 0; i < 4; i++) api->destroy(of[i]);
#endif
}

/* The id is kept, and forgotten by a fork: a child that took itself for its parent would wait for threads that it does
 * not have. */
static void processes_know_themselves(void) {
    for (int i = 0; i < 2; i++) CHECK_EQ(rt__process(), (long)getpid());
    pid_t child = fork();
    if (!child) {
        bool ok = rt__process() == (long)getpid();
        pid_t second = fork();
        if (!second) _exit(rt__process() == (long)getpid() ? 0 : 1);
        int status = -1;
        waitpid(second, &status, 0);
        _exit(ok && !status && rt__process() == (long)getpid() ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    CHECK_EQ(status, 0);
    CHECK_EQ(rt__process(), (long)getpid());
}

/* ---- processors ---- */

static void put(const char *path, const char *text) {
    FILE *f = fopen(path, "w");
    CHECK(f != NULL);
    if (f) fputs(text, f), fclose(f);
}

static void quotas_of_control_groups(void) {
    char root[] = "/tmp/cresset-cpus-XXXXXX", path[5][128];
    CHECK(mkdtemp(root) != NULL);
    static const char *const names[] = { "proc", "a", "a/cpu.max", "a/b", "a/b/cpu.max" };
    for (int i = 0; i < 5; i++) snprintf(path[i], sizeof path[i], "%s/%s", root, names[i]);
    put(path[0], "0::/a/b\n");
    CHECK_EQ(rt__cgroup_cpus(path[0], root), INT32_MAX);
    CHECK_EQ(mkdir(path[1], 0700), 0);
    CHECK_EQ(mkdir(path[3], 0700), 0);
    put(path[2], "250000 100000\n");
    CHECK_EQ(rt__cgroup_cpus(path[0], root), 3);
    put(path[4], "max 100000\n");
    CHECK_EQ(rt__cgroup_cpus(path[0], root), 3);
    put(path[4], "10000 100000\n");
    CHECK_EQ(rt__cgroup_cpus(path[0], root), 1);
    put(path[0], "junk\n:\n\n5:memory:/x\n0::/a\n");
    CHECK_EQ(rt__cgroup_cpus(path[0], root), 3);
    unlink(path[2]);
    unlink(path[4]);
    rmdir(path[3]);
    rmdir(path[1]);
    /* version 1 */
    snprintf(path[1], sizeof path[1], "%s/cpu", root);
    snprintf(path[2], sizeof path[2], "%s/cpu/cpu.cfs_quota_us", root);
    snprintf(path[3], sizeof path[3], "%s/cpu/cpu.cfs_period_us", root);
    CHECK_EQ(mkdir(path[1], 0700), 0);
    put(path[0], "4:memory:/a\n3:cpu,cpuacct:/\n");
    put(path[2], "-1\n");
    put(path[3], "100000\n");
    CHECK_EQ(rt__cgroup_cpus(path[0], root), INT32_MAX);
    put(path[2], "150000\n");
    CHECK_EQ(rt__cgroup_cpus(path[0], root), 2);
    for (int i = 2; i < 4; i++) unlink(path[i]);
    rmdir(path[1]);
    unlink(path[0]);
    rmdir(root);
    CHECK(rt_usable_threads() >= 1);
}

int main(void) {
    api = load_model();
    CHECK(api != NULL);
    if (!api) return check_summary();
    char message[256] = "";
    for (int i = 0; i < BATCH * PIXELS; i++) images[i] = (float)((i * 2654435761u >> 20) % 17);
    cresset_instance *m = instance(api, 1);
    CHECK_EQ(run_digits(api, m, BATCH, expected, message), CRESSET_OK);
    CHECK_STR(message, "");
    api->destroy(m);
    RUN(runs_ask_the_system_for_nothing);
    RUN(many_calls_leak_nothing);
    RUN(failing_allocations_are_reported);
    RUN(kept_memory_is_bounded);
    RUN(eight_threads_on_four_instances);
    RUN(instances_come_and_go);
    RUN(child_of_a_fork_runs);
    RUN(processes_know_themselves);
    RUN(quotas_of_control_groups);
    cr_free(weights);
    cr_lowered_release(lowered);
    cr_program_release(program);
    return check_summary();
}
