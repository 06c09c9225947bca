/* The one door to the heap.
 *
 * Every request is counted, and one request can be made to fail, so that tests can walk the failure through all
 * places. The counters are relaxed atomics: they order nothing, they only have to add up. */
#include "base/base.h"
#include "base/internal.h"

#include <stdatomic.h>
#include <stdlib.h>

static _Atomic int64_t requests, live, fail_at;

void cr_alloc_fail_at(int64_t n) { atomic_store(&fail_at, n > 0 ? n : 0); }

int64_t cr_alloc_count(void) { return atomic_load(&requests); }

int64_t cr_alloc_live(void) { return atomic_load(&live); }

/* Counts a request; true = this is the one that has to fail, or it is larger than any object can be (checked here,
 * because the sanitizers' allocators end the process over it). */
static bool refused(size_t size) {
    atomic_fetch_add_explicit(&requests, 1, memory_order_relaxed);
    if (__builtin_expect(atomic_load_explicit(&fail_at, memory_order_relaxed) == 0, 1)) return size > PTRDIFF_MAX;
    /* Never steps below zero, so exactly one of several racing threads sees the step from 1 to 0. */
    int64_t left = atomic_load(&fail_at);
    while (left > 0 && !atomic_compare_exchange_weak(&fail_at, &left, left - 1)) {
    }
    return left == 1 || size > PTRDIFF_MAX;
}

static void *counted(void *p) {
    if (p) atomic_fetch_add_explicit(&live, 1, memory_order_relaxed);
    return p;
}

static void *or_error(void *p) {
    if (!p) cr__error_out_of_memory();
    return p;
}

void *cr__alloc_quiet(size_t size) { return refused(size) ? NULL : counted(malloc(size ? size : 1)); }

void *cr_alloc(size_t size) { return or_error(cr__alloc_quiet(size)); }

void *cr_calloc(size_t count, size_t size) {
    size_t total;
    if (cr_mul_overflow(count, size, &total)) total = SIZE_MAX;
    return or_error(refused(total) ? NULL : counted(calloc(total ? total : 1, 1)));
}

void *cr_realloc(void *p, size_t size) {
    if (!p) return cr_alloc(size);
    return or_error(refused(size) ? NULL : realloc(p, size ? size : 1));
}

void *cr_alloc_aligned(size_t alignment, size_t size) {
    void *p = NULL;
    if (alignment < sizeof(void *)) alignment = sizeof(void *);
    if (refused(size)) return or_error(NULL);
    if (posix_memalign(&p, alignment, size ? size : 1)) p = NULL;
    return or_error(counted(p));
}

bool cr__alloc_counts(size_t size) {
    if (refused(size)) return false;
    atomic_fetch_add_explicit(&live, 1, memory_order_relaxed);
    return true;
}

void cr__alloc_uncounts(void) { atomic_fetch_sub_explicit(&live, 1, memory_order_relaxed); }

void cr_free(void *p) {
    if (!p) return;
    cr__alloc_uncounts();
    free(p);
}

char *cr_strndup(const char *s, size_t n) {
    n = strnlen(s, n);
    char *copy = cr_alloc(n + 1);
    if (!copy) return NULL;
    memcpy(copy, s, n);
    copy[n] = 0;
    return copy;
}

char *cr_strdup(const char *s) { return cr_strndup(s, strlen(s)); }
