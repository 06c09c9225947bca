/* rt_view.c: facts about views. A view with no elements counts as contiguous, and the stride of a dimension of size 1
 * never matters: no address depends on it. */
#include "runtime/rt.h"

int64_t rt_numel(const rt_view *v) {
    int64_t n = 1;
    for (int d = 0; d < v->rank; d++) n *= v->size[d];
    return n;
}

bool rt_is_contiguous(const rt_view *v) {
    if (rt_numel(v) == 0) return true;
    int64_t expected = 1;
    for (int d = v->rank - 1; d >= 0; d--) {
        if (v->size[d] == 1) continue;
        if (v->stride[d] != expected) return false;
        expected *= v->size[d];
    }
    return true;
}

rt_view rt_view_contiguous(void *p, int dtype, int rank, const int64_t *size) {
    rt_view v = { .p = p, .rank = rank, .dtype = dtype };
    int64_t stride = 1;
    for (int d = rank - 1; d >= 0; d--) {
        v.size[d] = size[d];
        v.stride[d] = stride;
        stride *= size[d] > 0 ? size[d] : 1;
    }
    return v;
}
