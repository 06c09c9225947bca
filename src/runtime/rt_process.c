/* rt_process.c: the id of this process, which tells the child of a fork that it is one.
 *
 * Every run asks several times, and the system takes longer to answer than a small graph takes to run: so the answer is
 * kept, on a page that the system clears in the child of a fork. Where there are no such pages it is asked. */
#define _GNU_SOURCE
#include "runtime/rt_pool.h"

#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(MADV_WIPEONFORK)
static _Atomic(atomic_long *) kept; /* NULL: not asked yet */
static atomic_long nothing;         /* in place of the page, where there is none: stays 0 */

static void *page_new(size_t size) {
    void *page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) return NULL;
    if (!madvise(page, size, MADV_WIPEONFORK)) return page;
    munmap(page, size);
    return NULL;
}

static size_t page_size(void) {
    long size = sysconf(_SC_PAGESIZE);
    return size > 0 ? (size_t)size : 4096;
}

__attribute__((cold)) static long ask(void) {
    long pid = (long)getpid();
    atomic_long *page = atomic_load(&kept);
    if (!page) {
        atomic_long *made = page_new(page_size()), *other = NULL;
        if (atomic_compare_exchange_strong(&kept, &other, made ? made : &nothing)) page = made ? made : &nothing;
        else if (made) munmap(made, page_size());
        if (other) page = other;
    }
    if (page != &nothing) atomic_store(page, pid);
    return pid;
}

long rt__process(void) {
    atomic_long *page = atomic_load_explicit(&kept, memory_order_acquire);
    long pid = page ? atomic_load_explicit(page, memory_order_relaxed) : 0;
    return pid ? pid : ask();
}

__attribute__((destructor)) static void drop(void) { /* the library that this is part of may be closed */
    atomic_long *page = atomic_exchange(&kept, &nothing);
    if (page && page != &nothing) munmap(page, page_size());
}
#else
long rt__process(void) { return (long)getpid(); }
#endif
