/* context.c: what kernels of this process share: scratch through cr_alloc, the thread pool, the default generator.
 *
 * A kernel of another thread may be running on a pool when the number of threads changes, so pools are never dropped:
 * one is kept for each number that was ever asked for (idle workers sleep), and the setting only selects. */
#include "runtime/rt_random.h"
#include "tensor/tensor.h"

#include <pthread.h>
#include <stdlib.h>

enum { MOST_THREADS = 1024 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static rt_pool *pools[MOST_THREADS + 1]; /* under lock */
static rt_pool *current;                 /* atomic; valid once `threads` is set */
static int threads;                      /* atomic; 0: not chosen yet */

/* What CRESSET_NUM_THREADS says: 0 when it says nothing, -1 when it is no number of threads. */
static int threads_wanted(void) {
    const char *text = getenv("CRESSET_NUM_THREADS");
    if (!text || !*text) return 0;
    char *end;
    long n = strtol(text, &end, 10);
    return *end || n < 1 || n > MOST_THREADS ? -1 : (int)n;
}

cr_status cr_environment_check(void) {
    if (threads_wanted() < 0)
        return CR_FAIL(CR_EVALUE,
                       "the environment's CRESSET_NUM_THREADS is '%s'; set it to a number from 1 to %d, or unset it",
                       getenv("CRESSET_NUM_THREADS"), MOST_THREADS);
    if (!rt_cpu_limit_is_known())
        return CR_FAIL(CR_EVALUE,
                       "the environment's CRESSET_ISA is '%s'; set it to portable, avx2 or avx512, or unset it",
                       getenv("CRESSET_ISA"));
    return CR_OK;
}

static int default_threads(void) {
    int wanted = threads_wanted();
    return wanted > 0 ? wanted : CR_MIN(rt_usable_threads(), MOST_THREADS);
}

/* Under lock. A pool that cannot be started leaves everything on the caller's thread. */
static void select_threads(int n) {
    if (n > 1 && !pools[n]) pools[n] = rt_pool_create_within(n, rt_usable_threads());
    __atomic_store_n(&current, n > 1 ? pools[n] : NULL, __ATOMIC_RELEASE);
    __atomic_store_n(&threads, n, __ATOMIC_RELEASE);
}

int cr_num_threads(void) {
    int n = __atomic_load_n(&threads, __ATOMIC_ACQUIRE);
    if (n) return n;
    pthread_mutex_lock(&lock);
    if (!threads) select_threads(default_threads());
    n = threads;
    pthread_mutex_unlock(&lock);
    return n;
}

cr_status cr_set_num_threads(int n) {
    if (n < 1 || n > MOST_THREADS)
        return CR_FAIL(CR_EVALUE, "the number of threads must be between 1 and %d, not %d", MOST_THREADS, n);
    pthread_mutex_lock(&lock);
    select_threads(n);
    pthread_mutex_unlock(&lock);
    return CR_OK;
}

static void *scratch_alloc(void *user, size_t size) {
    (void)user;
    return cr_alloc_aligned(64, size);
}

static void scratch_free(void *user, void *p) {
    (void)user;
    cr_free(p);
}

rt_ctx cr_kernel_ctx(char *error, size_t error_size) {
    cr_num_threads();
    return (rt_ctx){
        .alloc = scratch_alloc,
        .free = scratch_free,
        .pool = __atomic_load_n(&current, __ATOMIC_ACQUIRE),
        .error = error,
        .error_size = error_size,
    };
}

rt_generator *cr_default_generator(void) { return rt_generator_default(); }
