/* slab.c: see internal.h. The free blocks are a stack; its top carries a count that every change raises, so that a
 * thread that was interrupted between reading the top and replacing it cannot mistake a recycled top for the old
 * one. */
#include "tensor/internal.h"

void *cr__slab_take(cr__slab *s) {
    uint64_t top = __atomic_load_n(&s->top, __ATOMIC_ACQUIRE);
    while ((uint32_t)top) {
        uint32_t i = (uint32_t)top - 1;
        uint64_t below = __atomic_load_n(&s->next[i], __ATOMIC_RELAXED);
        uint64_t want = ((top >> 32) + 1) << 32 | below;
        if (__atomic_compare_exchange_n(&s->top, &top, want, true, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
            return s->blocks + (size_t)i * s->size;
    }
    if (__atomic_load_n(&s->fresh, __ATOMIC_RELAXED) >= s->count) return NULL;
    uint32_t i = __atomic_fetch_add(&s->fresh, 1, __ATOMIC_RELAXED);
    if (i < s->count) return s->blocks + (size_t)i * s->size;
    __atomic_store_n(&s->fresh, s->count, __ATOMIC_RELAXED); /* several threads ran past the end */
    return NULL;
}

bool cr__slab_give(cr__slab *s, void *p) {
    uintptr_t begin = (uintptr_t)s->blocks, at = (uintptr_t)p;
    if (at < begin || at >= begin + (uintptr_t)s->count * s->size) return false;
    uint32_t i = (uint32_t)((at - begin) / s->size);
    uint64_t top = __atomic_load_n(&s->top, __ATOMIC_RELAXED), want;
    do {
        __atomic_store_n(&s->next[i], (uint32_t)top, __ATOMIC_RELAXED);
        want = ((top >> 32) + 1) << 32 | (i + 1);
    } while (!__atomic_compare_exchange_n(&s->top, &top, want, true, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED));
    return true;
}
