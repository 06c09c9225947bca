/* rt_pool.c: one job at a time, cut into chunks that the caller and the workers claim.
 *
 * A job is published by storing its chunk count in `unclaimed`. Whoever decrements it by compare-and-swap owns one chunk
 * and, until it counts that chunk in `finished`, keeps the job's fields alive: the caller reuses them only after all
 * chunks are finished. So a worker that wakes late finds nothing to claim and touches nothing, and the caller never
 * waits for a worker that has not started.
 *
 * The ranges depend on n, grain and the thread count alone; which thread runs a range does not matter to the result.
 * There are a few chunks per thread, so that a thread the system takes away does not hold up the rest.
 *
 * Idle workers spin for a while (an operator usually follows the last one within microseconds, and waking a sleeper
 * costs 10-60 us), longer inside rt_pool_enter/leave, then sleep; rt_pool_enter wakes them early when the last such
 * stretch had work for them. After fork the child has no workers: it notices by the process id and starts its own.
 *
 * The pool also keeps a few large blocks of scratch memory between calls (rt_scratch). */
#include "runtime/rt_pool.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { CHUNKS_PER_THREAD = 4, SPIN_NANOSECONDS = 100000, RUN_SPIN_NANOSECONDS = 2000000, SPINS_PER_CLOCK = 32 };
enum { PID_STARTING = -1 };

/* Scratch memory between two uses. */
typedef struct kept { void *block; size_t size; void *(*alloc)(void *, size_t); void (*free)(void *, void *); void *user; } kept;
enum { KEPT_MOST = 16 };
static const size_t kept_bytes_most = (size_t)256 << 20;

struct rt_pool {
    _Alignas(64) atomic_llong unclaimed; /* chunks of the job nobody has taken yet */
    _Alignas(64) atomic_llong finished;  /* chunks of the job that are done */
    _Alignas(64) atomic_int busy;        /* a job is running */
    atomic_int sleepers, stop;
    atomic_int runs;   /* callers between enter and leave */
    atomic_int wanted; /* a parallel loop ran since the last enter */
    atomic_uint alarm; /* grows with every early waking */
    atomic_long pid; /* process the workers live in */

    /* The job. Written by its caller before `unclaimed` is set, read by owners of a chunk. */
    int (*body)(void *arg, int64_t begin, int64_t end);
    void *arg;
    int64_t n, chunks;
    atomic_int code; /* first failure */
    _Atomic(const char *) error; /* message buffer of the job's context */
    atomic_flag claimed;         /* the message was written */

    atomic_flag kept_lock;
    size_t kept_bytes;
    kept kept[KEPT_MOST]; /* block NULL: free entry */

    pthread_mutex_t lock;
    pthread_cond_t wake;
    int threads, started;
    pthread_t worker[];
};

static inline void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static int64_t nanoseconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Chunk i of `chunks` covers [i*n/chunks, (i+1)*n/chunks), written without the product that could overflow. */
static int64_t chunk_begin(int64_t n, int64_t chunks, int64_t i) {
    int64_t each = n / chunks, extra = n % chunks;
    return i * each + (i < extra ? i : extra);
}

static int64_t chunk_count(int64_t n, int64_t grain, int threads) {
    int64_t most = n / (grain > 0 ? grain : 1), want = (int64_t)threads * CHUNKS_PER_THREAD;
    if (most < 1) most = 1;
    /* Below one chunk per thread there is no choice; above it, keep the counts of the threads equal. */
    if (most >= want) return want;
    return most > threads ? most / threads * threads : most;
}

/* Runs chunks of the current job until none is left. False when there was none. */
static bool run_chunks(rt_pool *p) {
    bool any = false;
    long long left = atomic_load_explicit(&p->unclaimed, memory_order_acquire);
    while (left > 0) {
        if (!atomic_compare_exchange_weak_explicit(&p->unclaimed, &left, left - 1, memory_order_acq_rel,
                                                   memory_order_acquire))
            continue;
        any = true;
        int64_t i = p->chunks - left;
        if (!atomic_load_explicit(&p->code, memory_order_relaxed)) {
            int code = p->body(p->arg, chunk_begin(p->n, p->chunks, i), chunk_begin(p->n, p->chunks, i + 1));
            int none = RT_OK;
            if (code) atomic_compare_exchange_strong(&p->code, &none, code);
        }
        atomic_fetch_add_explicit(&p->finished, 1, memory_order_release);
        left = atomic_load_explicit(&p->unclaimed, memory_order_acquire);
    }
    return any;
}

static bool has_work(rt_pool *p) { return atomic_load(&p->unclaimed) > 0 || atomic_load(&p->stop); }

static void spin_for_work(rt_pool *p) {
    int64_t start = nanoseconds(), waited;
    do {
        for (int i = 0; i < SPINS_PER_CLOCK; i++) {
            if (has_work(p)) return;
            relax();
        }
        waited = nanoseconds() - start;
    } while (waited < SPIN_NANOSECONDS || (waited < RUN_SPIN_NANOSECONDS && atomic_load(&p->runs) > 0));
}

static void *worker_main(void *arg) {
    rt_pool *p = arg;
    while (!atomic_load(&p->stop)) {
        if (run_chunks(p)) continue;
        spin_for_work(p);
        if (has_work(p)) continue;
        pthread_mutex_lock(&p->lock);
        atomic_fetch_add(&p->sleepers, 1);
        unsigned heard = atomic_load(&p->alarm);
        while (!has_work(p) && atomic_load(&p->alarm) == heard) pthread_cond_wait(&p->wake, &p->lock);
        atomic_fetch_sub(&p->sleepers, 1);
        pthread_mutex_unlock(&p->lock);
    }
    return NULL;
}

/* Starts as many workers as the system gives. Signals stay with the threads of the program. */
static void start_workers(rt_pool *p) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (p->started = 0; p->started < p->threads - 1; p->started++)
        if (pthread_create(&p->worker[p->started], NULL, worker_main, p)) break;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void reset(rt_pool *p) {
    atomic_store(&p->unclaimed, 0);
    atomic_store(&p->finished, 0);
    atomic_store(&p->sleepers, 0);
    atomic_store(&p->stop, 0);
    atomic_store(&p->runs, 0);
    atomic_store(&p->wanted, 0);
    atomic_store(&p->error, NULL);
    atomic_store(&p->busy, 0);
    atomic_flag_clear(&p->kept_lock);
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->wake, NULL);
}

rt_pool *rt_pool_create(int threads) {
    if (threads <= 1 || threads > RT_POOL_MOST) return NULL;
    size_t size = sizeof(rt_pool) + (size_t)(threads - 1) * sizeof(pthread_t);
    rt_pool *p = aligned_alloc(64, (size + 63) & ~(size_t)63);
    if (!p) return NULL;
    p->threads = threads;
    p->kept_bytes = 0;
    memset(p->kept, 0, sizeof p->kept);
    atomic_init(&p->code, 0);
    atomic_init(&p->alarm, 0);
    atomic_flag_clear(&p->claimed);
    reset(p);
    start_workers(p);
    if (!p->started) {
        rt_pool_release(p);
        return NULL;
    }
    atomic_store(&p->pid, (long)getpid());
    return p;
}

void rt_pool_release(rt_pool *p) {
    if (!p) return;
    bool ours = p->started && atomic_load(&p->pid) == (long)getpid();
    if (ours) {
        pthread_mutex_lock(&p->lock);
        atomic_store(&p->stop, 1);
        pthread_cond_broadcast(&p->wake);
        pthread_mutex_unlock(&p->lock);
        for (int i = 0; i < p->started; i++) pthread_join(p->worker[i], NULL);
        pthread_cond_destroy(&p->wake);
        pthread_mutex_destroy(&p->lock);
    }
    for (int i = 0; i < KEPT_MOST; i++)
        if (p->kept[i].block) p->kept[i].free(p->kept[i].user, p->kept[i].block);
    free(p);
}

int rt_pool_threads(const rt_pool *pool) { return pool ? pool->threads : 1; }

bool rt__pool_claims_failure(rt_pool *p, const char *error, int code) {
    if (!p || !error || !atomic_load(&p->busy) || atomic_load(&p->error) != error) return true;
    if (atomic_flag_test_and_set(&p->claimed)) return false;
    atomic_store(&p->code, code);
    return true;
}

/* Not waited for long: the memory can also come from the allocator (and after fork nobody may hold the lock). */
static bool kept_try_lock(rt_pool *p) {
    for (int i = 0; i < 1000; i++) {
        if (!atomic_flag_test_and_set_explicit(&p->kept_lock, memory_order_acquire)) return true;
        relax();
    }
    return false;
}

void *rt__pool_take_block(const rt_ctx *ctx, size_t size) {
    rt_pool *p = ctx->pool;
    if (!p || !kept_try_lock(p)) return NULL;
    kept *best = NULL;
    for (kept *k = p->kept; k < p->kept + KEPT_MOST; k++) {
        bool fits = k->block && k->size >= size && k->size / 8 <= size && k->alloc == ctx->alloc && k->user == ctx->user;
        if (fits && (!best || k->size < best->size)) best = k;
    }
    void *block = NULL;
    if (best) {
        block = best->block;
        best->block = NULL;
        p->kept_bytes -= best->size;
    }
    atomic_flag_clear_explicit(&p->kept_lock, memory_order_release);
    return block;
}

bool rt__pool_keep_block(const rt_ctx *ctx, void *block, size_t size) {
    rt_pool *p = ctx->pool;
#if defined(__SANITIZE_ADDRESS__)
    p = NULL; /* which is to see every use after this */
#endif
    if (!p || size > kept_bytes_most || !kept_try_lock(p)) return false;
    /* Room, or that of a smaller block, which then goes instead. */
    kept *to = NULL, old = { 0 };
    for (kept *k = p->kept; k < p->kept + KEPT_MOST; k++)
        if (!to || !k->block || (to->block && k->size < to->size)) to = k;
    bool keep = !to->block || to->size < size;
    size_t after = p->kept_bytes + size - (to->block ? to->size : 0);
    keep = keep && after <= kept_bytes_most;
    if (keep) {
        old = *to;
        *to = (kept){ block, size, ctx->alloc, ctx->free, ctx->user };
        p->kept_bytes = after;
    }
    atomic_flag_clear_explicit(&p->kept_lock, memory_order_release);
    if (old.block) old.free(old.user, old.block);
    return keep;
}

/* Takes the pool for one job. After fork the workers are gone and the locks may be held by nobody: start over. */
static bool pool_acquire(rt_pool *p) {
    long pid = (long)getpid(), known = atomic_load(&p->pid);
    if (known != pid) {
        if (known == PID_STARTING || !atomic_compare_exchange_strong(&p->pid, &known, PID_STARTING)) return false;
        reset(p);
        start_workers(p);
        atomic_store(&p->pid, pid);
    }
    return p->started && !atomic_exchange(&p->busy, 1);
}

static void wake_sleepers(rt_pool *p) {
    if (!atomic_load(&p->sleepers)) return;
    pthread_mutex_lock(&p->lock);
    pthread_cond_broadcast(&p->wake);
    pthread_mutex_unlock(&p->lock);
}

void rt_pool_enter(rt_pool *p) {
    if (!p || atomic_load(&p->pid) != (long)getpid()) return;
    atomic_fetch_add(&p->runs, 1);
    if (!atomic_exchange(&p->wanted, 0)) return;
    atomic_fetch_add(&p->alarm, 1);
    wake_sleepers(p);
}

/* Never below 0: after fork the count may have started over in between. */
void rt_pool_leave(rt_pool *p) {
    if (!p) return;
    for (int runs = atomic_load(&p->runs); runs > 0 && !atomic_compare_exchange_weak(&p->runs, &runs, runs - 1);) {
    }
}

static int run_inline(int64_t n, int64_t chunks, int (*body)(void *, int64_t, int64_t), void *arg) {
    for (int64_t i = 0; i < chunks; i++) {
        int code = body(arg, chunk_begin(n, chunks, i), chunk_begin(n, chunks, i + 1));
        if (code) return code;
    }
    return RT_OK;
}

int rt_parallel_for(const rt_ctx *ctx, int64_t n, int64_t grain, int (*body)(void *, int64_t, int64_t), void *arg) {
    if (n <= 0) return RT_OK;
    rt_pool *p = ctx->pool;
    int64_t chunks = p ? chunk_count(n, grain, p->threads) : 1;
    if (chunks == 1) return body(arg, 0, n);
    if (!pool_acquire(p)) return run_inline(n, chunks, body, arg);

    p->body = body;
    p->arg = arg;
    p->n = n;
    p->chunks = chunks;
    atomic_store(&p->code, RT_OK);
    atomic_store(&p->error, ctx->error);
    atomic_flag_clear(&p->claimed);
    atomic_store(&p->finished, 0);
    atomic_store(&p->unclaimed, chunks);
    if (!atomic_load_explicit(&p->wanted, memory_order_relaxed)) atomic_store(&p->wanted, 1);
    wake_sleepers(p);
    run_chunks(p);
    for (int64_t spins = 0; atomic_load_explicit(&p->finished, memory_order_acquire) < chunks; spins++) {
        if (spins < 2000) relax();
        else sched_yield();
    }
    int code = atomic_load(&p->code);
    atomic_store(&p->error, NULL);
    atomic_store(&p->busy, 0);
    return code;
}
