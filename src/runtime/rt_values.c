/* rt_values.c: what callers of abi.h hand over, looked at before anything runs.
 *
 * A caller's struct cannot be trusted further than it can be checked: a size times a stride that wraps around, an
 * address between two elements or a struct of another version would all end as reads outside of the caller's memory. */
#include "runtime/rt_model.h"

int rt_value_check_struct(const rt_ctx *ctx, const char *role, const char *name, const cresset_value *v) {
    if (v->struct_size == sizeof *v) return RT_OK;
    return rt_fail(ctx, RT_EVALUE, "%s '%s': struct_size is %zu, not sizeof(cresset_value), which is %zu", role, name,
                   v->struct_size, sizeof *v);
}

int rt_value_check_alignment(const rt_ctx *ctx, const char *role, const char *name, int dtype, const void *data) {
    int64_t unit = rt_itemsize(dtype) >> rt_is_complex(dtype); /* a power of two: nothing is divided for every input */
    if (!((uintptr_t)data & (uintptr_t)(unit - 1))) return RT_OK;
    return rt_fail(ctx, RT_EVALUE, "%s '%s': data must be aligned to %lld bytes, as %s is", role, name, (long long)unit,
                   rt_dtype_name(dtype));
}

bool rt_bytes_reached(int dtype, int rank, const int64_t *size, const int64_t *stride, int64_t *bytes) {
    int64_t item = rt_itemsize(dtype), count = item, last = 0, reach;
    bool empty = false;
    for (int d = rank; d--;) {
        int64_t n = size[d] ? size[d] : 1, step = stride ? stride[d] : count / item;
        if (__builtin_mul_overflow(n - 1, step, &reach) || __builtin_add_overflow(last, reach, &last) ||
            __builtin_mul_overflow(count, n, &count))
            return false;
        empty |= !size[d];
    }
    if (__builtin_add_overflow(last, 1, &last) || __builtin_mul_overflow(last, item, bytes)) return false;
    if (empty) *bytes = 0;
    return true;
}

int rt_value_check_memory(const rt_ctx *ctx, const char *name, const cresset_value *v) {
    int64_t bytes;
    if (v->rank && !v->size) return rt_fail(ctx, RT_EVALUE, "input '%s': size is NULL", name);
    for (int d = 0; d < v->rank; d++)
        if (v->size[d] < 0 || (v->stride && v->stride[d] < 0))
            return rt_fail(ctx, RT_EVALUE, "input '%s': dimension %d has a negative size or stride", name, d);
    if (!rt_bytes_reached(v->dtype, v->rank, v->size, v->stride, &bytes) ||
        (uint64_t)bytes > UINTPTR_MAX - (uintptr_t)v->data)
        return rt_fail(ctx, RT_EVALUE, "input '%s': its sizes and strides reach beyond the end of the address space",
                       name);
    if (!bytes) return RT_OK;
    if (!v->data) return rt_fail(ctx, RT_EVALUE, "input '%s': data is NULL", name);
    return rt_value_check_alignment(ctx, "input", name, v->dtype, v->data);
}
