/* history.c: what sizes and numbers were in earlier captures of a place, so that those that change are left open. */
#include "capture/evaluate.h"

#include <string.h>

void cr_history_init(cr_history *h) {
    *h = (cr_history){ 0 };
    cr_map_init(&h->known);
}

void cr_history_dispose(cr_history *h) {
    cr_map_dispose(&h->known);
    cr_vec_dispose(&h->seen);
    cr_vec_dispose(&h->numbers);
}

/* Bits of what differs. */
static uint32_t differing(const int64_t *a, const int64_t *b, int n) {
    uint32_t bits = 0;
    for (int i = 0; i < n; i++) bits |= (uint32_t)(a[i] != b[i]) << i;
    return bits;
}

cr_seen *cr_note_seen(cr_capture *c, int32_t source, int kind, int rank, const int64_t *numbers) {
    struct { uint64_t path; int32_t at, kind; } id = { c->guards.paths.at[source], c->at, kind };
    cr_history *h = c->history;
    uint64_t known;
    int count = kind == CR_SEEN_TENSOR ? 2 * rank : 1;
    if (cr_map_find(&h->known, &id, sizeof id, &known)) {
        cr_seen *seen = &h->seen.at[known];
        const int64_t *before = h->numbers.at + seen->first;
        if (seen->rank != rank) { /* another kind of tensor: nothing of it is settled */
            seen->sizes = UINT32_MAX;
        } else {
            seen->sizes |= differing(before, numbers, kind == CR_SEEN_TENSOR ? rank : 1);
            if (kind == CR_SEEN_TENSOR) seen->strides |= differing(before + rank, numbers + rank, rank);
        }
        return seen;
    }
    cr_seen made = { .first = h->numbers.n, .rank = rank };
    if (cr_vec_reserve(&h->numbers, h->numbers.n + (size_t)count) || cr_vec_push(&h->seen, made) ||
        cr_map_put(&h->known, &id, sizeof id, h->seen.n - 1))
        return (cr_seen *)PyErr_NoMemory();
    memcpy(h->numbers.at + h->numbers.n, numbers, (size_t)count * sizeof *numbers);
    h->numbers.n += (size_t)count;
    return &h->seen.at[h->seen.n - 1];
}
