/* extents.h: ranges of bytes put in the order of a file. */
#ifndef CR_EXTENTS_H
#define CR_EXTENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct cr__extent { uint64_t begin, end; uint32_t index; } cr__extent;

static inline bool cr__extent_before(const cr__extent *a, const cr__extent *b) {
    if (a->begin != b->begin) return a->begin < b->begin;
    if (a->end != b->end) return a->end < b->end;
    return a->index < b->index;
}

static inline void cr__extents_sift(cr__extent *e, size_t at, size_t n) {
    for (size_t child; (child = at * 2 + 1) < n; at = child) {
        if (child + 1 < n && cr__extent_before(&e[child], &e[child + 1])) child++;
        if (!cr__extent_before(&e[at], &e[child])) return;
        cr__extent swap = e[at];
        e[at] = e[child];
        e[child] = swap;
    }
}

/* By begin, then end, then index. In place and without memory of its own, which the C library's sort may take; files as
 * writers make them are in order already. */
static inline void cr__extents_sort(cr__extent *e, size_t n) {
    size_t sorted = 1;
    while (sorted < n && cr__extent_before(&e[sorted - 1], &e[sorted])) sorted++;
    if (sorted >= n) return;
    for (size_t i = n / 2; i-- > 0;) cr__extents_sift(e, i, n);
    for (size_t i = n; i-- > 1;) {
        cr__extent largest = e[0];
        e[0] = e[i];
        e[i] = largest;
        cr__extents_sift(e, 0, i);
    }
}

#endif
