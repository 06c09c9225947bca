/* rt_process.c: the id of this process, which tells the child of a fork that it is one.
 *
 * Every run asks several times, and the system takes longer to answer than a small graph takes to run: so the answer is
 * kept, on a page that the system clears in the child of a fork. Where there are no such pages it is asked. The page is
 * part of the library: nothing has to be given back, also while threads still ask at the end of the process. */
#define _GNU_SOURCE
#include "runtime/rt_pool.h"

#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(MADV_WIPEONFORK)
enum { LARGEST_PAGE = 1 << 16 };
static char room[2 * LARGEST_PAGE]; /* a whole page of it is nobody else's */
static _Atomic(atomic_long *) kept; /* NULL: not asked yet */
static atomic_long nothing;         /* in place of the page, where there is none: stays 0 */

static atomic_long *find_page(void) {
    long size = sysconf(_SC_PAGESIZE);
    if (size <= 0 || size > LARGEST_PAGE) return &nothing;
    uintptr_t behind = (uintptr_t)room % (uintptr_t)size;
    char *page = behind ? room + ((uintptr_t)size - behind) : room;
    return madvise(page, (size_t)size, MADV_WIPEONFORK) ? &nothing : (atomic_long *)(void *)page;
}

__attribute__((cold)) static long ask(void) {
    long pid = (long)getpid();
    atomic_long *page = atomic_load(&kept);
    if (!page) atomic_store(&kept, page = find_page()); /* all threads find the same */
    if (page != &nothing) atomic_store(page, pid);
    return pid;
}

long rt__process(void) {
    atomic_long *page = atomic_load_explicit(&kept, memory_order_acquire);
    long pid = page ? atomic_load_explicit(page, memory_order_relaxed) : 0;
    return pid ? pid : ask();
}
#else
long rt__process(void) { return (long)getpid(); }
#endif
