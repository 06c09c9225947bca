/* rt_pool.c: one job at a time, cut into chunks that the caller and the workers share.
 *
 * Every thread of the pool has a seat, and seat i gets the i-th part of a job's chunks: neighbouring ones, and the same
 * from run to run, so that a core finds the weights it used last time in its own cache. Who is done with its part takes
 * chunks from the far end of others', so a thread that is late, slow or asleep holds nobody up. A seat's chunks are one
 * word, on a cache line of its own, changed by compare-and-swap: who takes a chunk owns it and, until it counts it in
 * `finished`, keeps the job's fields alive, because the caller reuses them only after all chunks are finished. A worker
 * that wakes late finds no chunk and touches nothing; the caller never waits for a worker, only for chunks.
 *
 * A job takes no more threads than its size is worth: calling one costs the caller about a tenth of a microsecond. The
 * ranges depend on n, grain and the thread count alone; which thread runs a range does not matter to the result.
 *
 * Idle workers spin for a while (an operator usually follows the last one within microseconds, and waking a sleeper
 * costs 10-60 us), longer inside rt_pool_enter/leave, offering their core to others meanwhile, then sleep. Sleepers
 * wake each other along a tree. rt_pool_enter wakes them early when the last such stretch had work for them. After fork
 * the child has no workers: it notices by the process id and starts its own.
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

enum { CHUNKS_PER_THREAD = 4, SPIN_NANOSECONDS = 100000, RUN_SPIN_NANOSECONDS = 2000000, SPINS_PER_CLOCK = 32 };
enum { YIELD_NANOSECONDS = 50000, JOIN_SPINS = 500 }; /* of spinning, after which the core is offered to others */
enum { CALLS_PER_GRAIN = 8 }; /* threads that can be called in the time that a grain takes */
enum { PID_STARTING = -1 };

/* Scratch memory between two uses. */
typedef struct kept {
    void *block;
    size_t size;
    void *(*alloc)(void *, size_t);
    void (*free)(void *, void *);
    void *user;
} kept;
enum { KEPT_MOST = RT_LIMIT(16, 1) };
static const size_t kept_bytes_most = (size_t)256 << 20;

/* One thread's place. Seat 0 is the caller's. */
typedef struct seat {
    _Alignas(64) atomic_ullong chunks; /* of the job, not taken yet: the first one, and in the high half the end */
    atomic_int asleep;
    _Alignas(64) pthread_mutex_t lock; /* of the sleep */
    pthread_cond_t wake;
    pthread_t thread;
    struct rt_pool *pool;
} seat;

struct rt_pool {
    _Alignas(64) atomic_llong finished;  /* chunks of the job that are done */
    _Alignas(64) atomic_int busy;        /* a job is running */
    atomic_int team;   /* seats that have a part of the job */
    atomic_int sleepers, stop;
    atomic_int runs;   /* callers between enter and leave */
    atomic_int wanted; /* a parallel loop ran since the last enter */
    atomic_uint alarm; /* grows with every early waking */
    atomic_long pid; /* process the workers live in */

    /* The job. Written by its caller before the seats' chunks are set, read by owners of a chunk. */
    _Alignas(64) int (*body)(void *arg, int64_t begin, int64_t end);
    void *arg;
    int64_t n, chunks;
    atomic_int code; /* first failure */
    _Atomic(const char *) error; /* message buffer of the job's context */
    atomic_flag claimed;         /* the message was written */

    atomic_flag kept_lock;
    size_t kept_bytes;
    kept kept[KEPT_MOST]; /* block NULL: free entry */

    int threads, seats, started; /* asked for; no more than there are cores; workers */
    seat seat[];
};

static _Thread_local int own_place;
int rt__pool_place(void) { return own_place; }

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

/* How a range is cut: into no more than `most` chunks, and what it costs in grains. */
typedef struct cut { int64_t most; double grains; } cut;

/* Threads that a job is worth: each one more saves less than the one before, and costs a call. */
static int64_t team_size(const cut *c, int seats) {
    int64_t size = 1, limit = c->most < seats ? c->most : seats;
    if (c->grains > (double)seats * seats) return limit;
    while (size < limit && (double)(size * size) < CALLS_PER_GRAIN * c->grains) size++;
    return size;
}

static int64_t chunk_count(int64_t most, int64_t team) {
    int64_t want = team * CHUNKS_PER_THREAD;
    if (team <= 1) return 1;
    /* Below one chunk per thread there is no choice; above it, keep the counts of the threads equal. */
    if (most >= want) return want;
    return most > team ? most / team * team : most;
}

/* ---- taking chunks ---- */

static const unsigned long long one_less = 1ULL << 32; /* at the end */

static bool has_chunks(unsigned long long chunks) { return (uint32_t)chunks < (uint32_t)(chunks >> 32); }

static bool take_chunk(seat *s, bool own, int64_t *chunk) {
    unsigned long long is = atomic_load_explicit(&s->chunks, memory_order_acquire);
    while (has_chunks(is))
        if (atomic_compare_exchange_weak_explicit(&s->chunks, &is, own ? is + 1 : is - one_less, memory_order_acq_rel,
                                                  memory_order_acquire)) {
            *chunk = own ? (uint32_t)is : (uint32_t)(is >> 32) - 1;
            return true;
        }
    return false;
}

static void run_chunk(rt_pool *p, int64_t i) {
    if (atomic_load_explicit(&p->code, memory_order_relaxed)) return;
    int code = p->body(p->arg, chunk_begin(p->n, p->chunks, i), chunk_begin(p->n, p->chunks, i + 1));
    int none = RT_OK;
    if (code) atomic_compare_exchange_strong(&p->code, &none, code);
}

/* Runs the seat's own chunks, then others', until none is left. */
static void run_chunks(rt_pool *p, int place) {
    int64_t chunk, done = 0;
    while (take_chunk(&p->seat[place], true, &chunk)) {
        run_chunk(p, chunk);
        done++;
    }
    if (done) atomic_fetch_add_explicit(&p->finished, done, memory_order_release);
    int team = atomic_load_explicit(&p->team, memory_order_relaxed);
    for (int i = 1; i < team; i++)
        while (take_chunk(&p->seat[(place + i) % team], false, &chunk)) {
            run_chunk(p, chunk);
            atomic_fetch_add_explicit(&p->finished, 1, memory_order_release);
        }
}

/* ---- workers ---- */

static bool has_work(rt_pool *p, seat *own) { return has_chunks(atomic_load(&own->chunks)) || atomic_load(&p->stop); }

static void spin_for_work(rt_pool *p, seat *own) {
    int64_t start = nanoseconds(), waited;
    do {
        for (int i = 0; i < SPINS_PER_CLOCK; i++) {
            if (has_work(p, own)) return;
            relax();
        }
        waited = nanoseconds() - start;
        if (waited > YIELD_NANOSECONDS) sched_yield();
    } while (waited < SPIN_NANOSECONDS || (waited < RUN_SPIN_NANOSECONDS && atomic_load(&p->runs) > 0));
}

/* Wakes those that sleep among the first `most` seats below `place` in the tree; they wake those below them. */
static void wake_below(rt_pool *p, int place, int most) {
    for (int i = 2 * place + 1; i <= 2 * place + 2 && i < most; i++) {
        seat *s = &p->seat[i];
        if (!atomic_load(&s->asleep)) {
            wake_below(p, i, most);
            continue;
        }
        pthread_mutex_lock(&s->lock);
        pthread_cond_signal(&s->wake);
        pthread_mutex_unlock(&s->lock);
    }
}

static void sleep_for_work(rt_pool *p, seat *own) {
    pthread_mutex_lock(&own->lock);
    unsigned heard = atomic_load(&p->alarm);
    atomic_store(&own->asleep, 1);
    atomic_fetch_add(&p->sleepers, 1);
    while (!has_work(p, own) && atomic_load(&p->alarm) == heard) pthread_cond_wait(&own->wake, &own->lock);
    atomic_fetch_sub(&p->sleepers, 1);
    atomic_store(&own->asleep, 0);
    pthread_mutex_unlock(&own->lock);
    bool alarm = atomic_load(&p->alarm) != heard;
    if (atomic_load(&p->sleepers)) wake_below(p, own_place, alarm ? p->seats : atomic_load(&p->team));
}

static void *worker_main(void *arg) {
    seat *own = arg;
    rt_pool *p = own->pool;
    own_place = (int)(own - p->seat);
    while (!atomic_load(&p->stop)) {
        spin_for_work(p, own);
        if (has_work(p, own)) run_chunks(p, own_place);
        else sleep_for_work(p, own);
    }
    return NULL;
}

/* Starts as many workers as the system gives; the parts of others are taken by these. Signals stay with the threads of
 * the program. */
static void start_workers(rt_pool *p) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (p->started = 0; p->started < p->seats - 1; p->started++)
        if (pthread_create(&p->seat[p->started + 1].thread, NULL, worker_main, &p->seat[p->started + 1])) break;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void reset(rt_pool *p) {
    atomic_store(&p->finished, 0);
    atomic_store(&p->team, 1);
    atomic_store(&p->sleepers, 0);
    atomic_store(&p->stop, 0);
    atomic_store(&p->runs, 0);
    atomic_store(&p->wanted, 0);
    atomic_store(&p->error, NULL);
    atomic_store(&p->busy, 0);
    atomic_flag_clear(&p->kept_lock);
    for (int i = 0; i < p->seats; i++) {
        seat *s = &p->seat[i];
        atomic_store(&s->chunks, 0);
        atomic_store(&s->asleep, 0);
        pthread_mutex_init(&s->lock, NULL);
        pthread_cond_init(&s->wake, NULL);
        s->pool = p;
    }
}

rt_pool *rt_pool_create_within(int threads, int cores) {
    int seats = threads < cores ? threads : cores;
    if (seats <= 1 || threads > RT_POOL_MOST) return NULL;
    rt_pool *p = aligned_alloc(64, sizeof(rt_pool) + (size_t)seats * sizeof(seat));
    if (!p) return NULL;
    p->threads = threads;
    p->seats = seats;
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
    atomic_store(&p->pid, rt__process());
    return p;
}

rt_pool *rt_pool_create(int threads) { return rt_pool_create_within(threads, threads); }

void rt_pool_release(rt_pool *p) {
    if (!p) return;
    bool ours = p->started && atomic_load(&p->pid) == rt__process();
    if (ours) {
        atomic_store(&p->stop, 1);
        for (int i = 1; i <= p->started; i++) {
            pthread_mutex_lock(&p->seat[i].lock);
            pthread_cond_signal(&p->seat[i].wake);
            pthread_mutex_unlock(&p->seat[i].lock);
        }
        for (int i = 1; i <= p->started; i++) pthread_join(p->seat[i].thread, NULL);
        for (int i = 0; i < p->seats; i++) {
            pthread_cond_destroy(&p->seat[i].wake);
            pthread_mutex_destroy(&p->seat[i].lock);
        }
    }
    for (int i = 0; i < KEPT_MOST; i++)
        if (p->kept[i].block) p->kept[i].free(p->kept[i].user, p->kept[i].block);
    free(p);
}

int rt_pool_threads(const rt_pool *pool) { return pool ? pool->threads : 1; }
int rt__pool_seats(const rt_pool *pool) { return pool ? pool->seats : 1; }

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
        bool fits = k->block && k->size >= size && k->size / 8 <= size && k->alloc == ctx->alloc &&
                    k->user == ctx->user;
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

/* After fork the workers are gone and the locks may be held by nobody: start over. False while another thread does. */
static bool pool_lives(rt_pool *p) {
    long pid = rt__process(), known = atomic_load(&p->pid);
    if (known == pid) return true;
    if (known == PID_STARTING || !atomic_compare_exchange_strong(&p->pid, &known, PID_STARTING)) return false;
    reset(p);
    start_workers(p);
    atomic_store(&p->pid, pid);
    return true;
}

void rt_pool_enter(rt_pool *p) {
    if (!p || !pool_lives(p)) return;
    atomic_fetch_add(&p->runs, 1);
    if (!atomic_exchange(&p->wanted, 0)) return;
    atomic_fetch_add(&p->alarm, 1);
    if (atomic_load(&p->sleepers)) wake_below(p, 0, p->seats);
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

/* Gives every seat its part. The caller's comes last, ordered before the look at who sleeps. */
static void deal(rt_pool *p, int64_t chunks, int team) {
    atomic_store_explicit(&p->team, team, memory_order_relaxed);
    for (int i = team - 1; i >= 0; i--) {
        unsigned long long first = (unsigned long long)chunk_begin(chunks, team, i);
        unsigned long long end = (unsigned long long)chunk_begin(chunks, team, i + 1);
        if (i) atomic_store_explicit(&p->seat[i].chunks, end << 32 | first, memory_order_release);
        else atomic_exchange(&p->seat[i].chunks, end << 32 | first);
    }
    if (atomic_load(&p->sleepers)) wake_below(p, 0, team);
}

static int run_job(const rt_ctx *ctx, int64_t n, cut c, int (*body)(void *, int64_t, int64_t), void *arg) {
    if (n <= 0) return RT_OK;
    rt_pool *p = ctx->pool;
    int64_t team = p ? team_size(&c, p->seats) : 1, chunks = chunk_count(c.most, team);
    if (chunks == 1) return body(arg, 0, n);
    /* Between enter and leave the process is the workers'; no lock is taken unless one sleeps. */
    bool known = atomic_load_explicit(&p->runs, memory_order_relaxed) > 0 &&
                 !atomic_load_explicit(&p->sleepers, memory_order_relaxed);
    if ((!known && !pool_lives(p)) || atomic_exchange(&p->busy, 1)) return run_inline(n, chunks, body, arg);

    p->body = body;
    p->arg = arg;
    p->n = n;
    p->chunks = chunks;
    atomic_store_explicit(&p->code, RT_OK, memory_order_relaxed);
    atomic_store_explicit(&p->error, ctx->error, memory_order_relaxed);
    atomic_flag_clear_explicit(&p->claimed, memory_order_relaxed);
    atomic_store_explicit(&p->finished, 0, memory_order_relaxed);
    if (!atomic_load_explicit(&p->wanted, memory_order_relaxed)) atomic_store(&p->wanted, 1);
    deal(p, chunks, (int)team);
    run_chunks(p, 0);
    for (int64_t spins = 0; atomic_load_explicit(&p->finished, memory_order_acquire) < chunks; spins++) {
        if (spins < JOIN_SPINS) relax();
        else sched_yield();
    }
    int code = atomic_load(&p->code);
    atomic_store(&p->error, NULL);
    atomic_store_explicit(&p->busy, 0, memory_order_release);
    return code;
}

int rt_parallel_for(const rt_ctx *ctx, int64_t n, int64_t grain, int (*body)(void *, int64_t, int64_t), void *arg) {
    int64_t grains = n / (grain > 0 ? RT_LIMIT(grain, 1) : 1);
    return run_job(ctx, n, (cut){ grains, (double)grains }, body, arg);
}

int rt_parallel_work(const rt_ctx *ctx, int64_t n, int64_t each, int64_t grain, int (*body)(void *, int64_t, int64_t),
                     void *arg) {
    if (each < 1) each = 1;
    return run_job(ctx, n, (cut){ n / ((grain - 1) / each + 1), (double)n * (double)each / (double)grain }, body, arg);
}
