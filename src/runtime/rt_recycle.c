/* rt_recycle.c: an allocator that keeps what was freed, for memory that comes and goes with every run.
 *
 * Touching fresh pages costs more than most kernels, and the runs of a model ask for the same few sizes again and
 * again: the frame, the arena, kernels' scratch, the results. Sizes are rounded up to an eighth of a power of two, and
 * each such class has a list of free blocks. What is kept never exceeds what was once in use at a time by more than 64
 * MB; the classes that were used longest ago go first, so that a model whose sizes change does not hold memory for all
 * of them.
 *
 * Nobody waits for the lock: a thread that cannot have it soon (or ever: in the child of a fork whose parent held it)
 * uses the allocator below. */
#include "runtime/rt_recycle.h"

#include <stdatomic.h>
#include <string.h>

enum { HEADER = 64, SMALLEST = 256, CLASSES = 64 * 8, TRIES = 1000 };
static const uint64_t always_kept = (uint64_t)64 << 20;
#if defined(__SANITIZE_ADDRESS__) /* which is to see every use after a block was freed */
enum { KEEPS = 0 };
#else
enum { KEEPS = 1 };
#endif

typedef struct block { size_t capacity; struct block *next; } block;
typedef struct class { block *free; uint64_t used; } class;

struct rt_recycler {
    void *(*alloc)(void *, size_t);
    void (*free)(void *, void *);
    void *user;
    atomic_flag lock;
    uint64_t clock, kept, in_use, most; /* bytes, under lock; blocks that missed the lock are not counted exactly */
    class of[CLASSES];
};

static bool try_lock(rt_recycler *r) {
    for (int i = 0; i < TRIES; i++)
        if (!atomic_flag_test_and_set_explicit(&r->lock, memory_order_acquire)) return true;
    return false;
}

static void unlock(rt_recycler *r) { atomic_flag_clear_explicit(&r->lock, memory_order_release); }

/* Rounds up to a multiple of an eighth of the power of two below; *which: the class. */
static size_t capacity_of(size_t size, int *which) {
    if (size < SMALLEST) size = SMALLEST;
    int power = 63 - __builtin_clzll(size);
    size_t step = (size_t)1 << (power - 3), capacity = (size + step - 1) & ~(step - 1);
    power = 63 - __builtin_clzll(capacity);
    *which = power * 8 + (int)((capacity >> (power - 3)) & 7);
    return capacity;
}

rt_recycler *rt_recycler_create(void *(*alloc)(void *, size_t), void (*give_back)(void *, void *), void *user) {
    rt_recycler *r = alloc(user, sizeof *r);
    if (!r) return NULL;
    memset(r, 0, sizeof *r);
    r->alloc = alloc;
    r->free = give_back;
    r->user = user;
    atomic_flag_clear(&r->lock);
    return r;
}

static void give_list(rt_recycler *r, block *list) {
    while (list) {
        block *next = list->next;
        r->free(r->user, list);
        list = next;
    }
}

void rt_recycler_release(rt_recycler *r) {
    if (!r) return;
    for (int i = 0; i < CLASSES; i++) give_list(r, r->of[i].free);
    r->free(r->user, r);
}

void *rt_recycler_alloc(void *recycler, size_t size) {
    rt_recycler *r = recycler;
    if (size > (size_t)PTRDIFF_MAX / 2) return NULL;
    int which;
    size_t capacity = capacity_of(size + HEADER, &which);
    block *b = NULL;
    if (try_lock(r)) {
        class *c = &r->of[which];
        if ((b = c->free)) {
            c->free = b->next;
            r->kept -= capacity;
        }
        c->used = ++r->clock;
        r->in_use += capacity;
        if (r->in_use > r->most) r->most = r->in_use;
        unlock(r);
    }
    if (!b) {
        b = r->alloc(r->user, capacity);
        if (!b) return NULL;
        b->capacity = capacity;
    }
    return (char *)b + HEADER;
}

/* Takes the free blocks of the class that was used longest ago off its list. Locked. */
static block *oldest(rt_recycler *r) {
    class *old = NULL;
    for (class *c = r->of; c < r->of + CLASSES; c++)
        if (c->free && (!old || c->used < old->used)) old = c;
    if (!old) return NULL;
    block *list = old->free;
    old->free = NULL;
    for (block *b = list; b; b = b->next) r->kept -= b->capacity;
    return list;
}

void rt_recycler_free(void *recycler, void *p) {
    if (!p) return;
    rt_recycler *r = recycler;
    block *b = (block *)(void *)((char *)p - HEADER), *drop = NULL;
    bool keep = false;
    if (try_lock(r)) {
        r->in_use -= r->in_use < b->capacity ? r->in_use : b->capacity;
        uint64_t limit = r->most + always_kept; /* blocks that are never in use together are kept beside each other */
        keep = KEEPS && b->capacity <= limit;
        if (keep) {
            if (r->kept + b->capacity > limit) drop = oldest(r);
            keep = r->kept + b->capacity <= limit;
        }
        if (keep) {
            int which;
            capacity_of(b->capacity, &which);
            b->next = r->of[which].free;
            r->of[which].free = b;
            r->kept += b->capacity;
        }
        unlock(r);
    }
    give_list(r, drop);
    if (!keep) r->free(r->user, b);
}
