/* overlap.c: may a write through one tensor be seen through another, or through itself?
 *
 * Exact answers would need number theory over strides; like PyTorch's checks these answer the cases that occur and say
 * "too hard" otherwise, which callers let pass. Symbolic metas are always too hard. */
#include "tensor/tensor.h"

static bool all_plain(const cr_meta *m) {
    bool plain = cr_dim_is_plain(m->offset);
    for (int i = 0; i < m->rank; i++) plain = plain && cr_dim_is_plain(m->size[i]) && cr_dim_is_plain(m->stride[i]);
    return plain;
}

cr_tri cr_meta_self_overlap(const cr_meta *m) {
    if (!all_plain(m)) return CR_UNKNOWN;
    if (cr_meta_is_dense(NULL, m) == CR_YES) return CR_NO;
    for (int i = 0; i < m->rank; i++)
        if (m->stride[i] == 0 && m->size[i] > 1) return CR_YES;
    return CR_UNKNOWN;
}

cr_overlap cr_meta_overlap(const cr_meta *a, const cr_meta *b) {
    if (a == b) return CR_OVERLAP_FULL;
    if (!all_plain(a) || !all_plain(b)) return CR_OVERLAP_TOO_HARD;
    int64_t na = cr_meta_numel(NULL, a), nb = cr_meta_numel(NULL, b);
    if (na == 0 || nb == 0) return CR_OVERLAP_NONE;
    if (!a->storage || a->storage != b->storage) return CR_OVERLAP_NONE;
    if (cr_meta_is_dense(NULL, a) != CR_YES || cr_meta_is_dense(NULL, b) != CR_YES) return CR_OVERLAP_TOO_HARD;
    int64_t abegin = a->offset * rt_itemsize(a->dtype), aend = abegin + na * rt_itemsize(a->dtype);
    int64_t bbegin = b->offset * rt_itemsize(b->dtype), bend = bbegin + nb * rt_itemsize(b->dtype);
    if (abegin == bbegin && aend == bend) {
        bool same = a->rank == b->rank && !memcmp(a->stride, b->stride, a->rank * sizeof(cr_dim));
        return same ? CR_OVERLAP_FULL : CR_OVERLAP_PARTIAL;
    }
    return abegin < bend && bbegin < aend ? CR_OVERLAP_PARTIAL : CR_OVERLAP_NONE;
}
