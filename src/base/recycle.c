/* recycle.c: blocks that are kept when freed: large ones for the next request of the same class, small ones (at the
 * end) for the next of their thread.
 *
 * A model makes and drops the same few hundred tensors in every run. The system's allocator hands large blocks back at
 * once, and touching fresh pages is slower than most kernels; so up to CR_RECYCLED bytes stay here, the longest unused
 * go first. A block's capacity follows from the requested size alone (the next eighth of a power of two), so that
 * nothing has to be stored with it. Counts and injected failures are those of every other request; kept blocks count as
 * freed. */
#include "base/internal.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { ALIGNMENT = 64, SMALLEST = CR_LIMIT(64 << 10, 1 << 10), KEPT = CR_LIMIT(256, 1), HUGE_PAGE = 2 << 20 };

#if !defined(CR_TINY) && (defined(CR_OOM) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__))
#define RECYCLES 0
#else
#define RECYCLES 1
#endif

typedef struct kept { void *p; size_t capacity; } kept;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static kept blocks[KEPT]; /* the longest unused first */
static size_t count, bytes;

static bool recycles(size_t size) { return RECYCLES && size >= SMALLEST && size <= CR_RECYCLED / 4; }

static size_t capacity_of(size_t size) {
    size_t step = (size_t)1 << (60 - __builtin_clzll(size)); /* an eighth of the power of two below */
    return (size + step - 1) & ~(step - 1);
}

/* Removes entry i and gives its memory. Locked. */
static void *take_at(size_t i) {
    void *p = blocks[i].p;
    bytes -= blocks[i].capacity;
    memmove(&blocks[i], &blocks[i + 1], (--count - i) * sizeof *blocks);
    return p;
}

/* Never waits: a thread that finds the list in use (or locked for good, in the child of a fork) goes to the system. */
static void *take(size_t capacity) {
    void *p = NULL;
    if (pthread_mutex_trylock(&lock)) return NULL;
    for (size_t i = count; i-- && !p;)
        if (blocks[i].capacity == capacity) p = take_at(i);
    pthread_mutex_unlock(&lock);
    return p;
}

static bool keep(void *p, size_t capacity) {
    if (pthread_mutex_trylock(&lock)) return false;
    while (count && (count == KEPT || bytes + capacity > CR_RECYCLED)) free(take_at(0));
    blocks[count++] = (kept){ p, capacity };
    bytes += capacity;
    pthread_mutex_unlock(&lock);
    return true;
}

static size_t alignment_of(size_t size) { return size >= HUGE_PAGE ? HUGE_PAGE : ALIGNMENT; }

/* Touching fresh memory for the first time costs a fault for every page: few large pages where the system has them. */
static void *advised(void *p, size_t size) {
#ifdef MADV_HUGEPAGE
    /* a wish: a refusal changes nothing */
    if (p && size >= HUGE_PAGE) (void)madvise(p, size & ~(size_t)4095, MADV_HUGEPAGE);
#else
    (void)size;
#endif
    return p;
}

void *cr_block_alloc(size_t size) {
    if (!recycles(size)) return advised(cr_alloc_aligned(alignment_of(size), size), size);
    if (!cr__alloc_counts(size)) {
        cr__error_out_of_memory();
        return NULL;
    }
    size_t capacity = capacity_of(size);
    void *p = take(capacity);
    if (p) return p;
    if (!posix_memalign(&p, alignment_of(capacity), capacity)) return advised(p, capacity);
    cr_block_trim();
    if (!posix_memalign(&p, alignment_of(capacity), capacity)) return advised(p, capacity);
    cr__alloc_uncounts();
    cr__error_out_of_memory();
    return NULL;
}

void cr_block_free(void *p, size_t size) {
    if (!p) return;
    if (!recycles(size)) {
        cr_free(p);
        return;
    }
    cr__alloc_uncounts();
    if (!keep(p, capacity_of(size))) free(p);
}

void cr_block_trim(void) {
    if (pthread_mutex_trylock(&lock)) return; /* in use: nothing is unused for long then */
    while (count) free(take_at(count - 1));
    pthread_mutex_unlock(&lock);
}

/* ---- small blocks ---- */

enum { SMALL = 512, SMALL_KEPT = CR_LIMIT(256, 1) };
typedef struct small { struct small *next; } small;
typedef struct small_list { small *first; uint32_t n; bool ends; } small_list;
static _Thread_local small_list smalls; /* ends: the list goes when the thread does */
static pthread_key_t smalls_key;
static pthread_once_t smalls_once = PTHREAD_ONCE_INIT;
static bool smalls_key_made;

static void smalls_free(void *unused) {
    (void)unused;
    for (small *s; (s = smalls.first);) {
        smalls.first = s->next;
        free(s);
    }
    smalls = (small_list){ NULL, 0, false };
}

static void smalls_key_make(void) { smalls_key_made = pthread_key_create(&smalls_key, smalls_free) == 0; }

static bool smalls_end(small_list *list) {
    pthread_once(&smalls_once, smalls_key_make);
    return list->ends = smalls_key_made && !pthread_setspecific(smalls_key, list);
}

void *cr_small_alloc(size_t size) {
    if (!RECYCLES || size > SMALL) return cr_alloc(size);
    small_list *list = &smalls;
    small *s = list->first;
    if (s) {
        list->first = s->next;
        list->n--;
        return s;
    }
    void *p = cr_alloc(SMALL);
    if (p) cr__alloc_uncounts();
    return p;
}

void cr_small_free(void *p, size_t size) {
    if (!p) return;
    if (!RECYCLES || size > SMALL) {
        cr_free(p);
        return;
    }
    small_list *list = &smalls;
    if (list->n >= SMALL_KEPT || (!list->ends && !smalls_end(list))) {
        free(p);
        return;
    }
    *(small *)p = (small){ list->first };
    list->first = p;
    list->n++;
}
