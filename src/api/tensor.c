/* tensor.c: tensors for programs that see no more of them than a pointer. */
#include "tensor/tensor.h"

int64_t cr_dtype_size(int dtype) { return dtype >= 0 && dtype < CR_DTYPE_COUNT ? rt_itemsize(dtype) : 0; }

int cr_dtype_kind(int dtype) {
    if (dtype < 0 || dtype >= CR_DTYPE_COUNT) return -1;
    if (dtype == CR_BOOL) return CR_KIND_BOOL;
    return rt_is_complex(dtype) ? CR_KIND_COMPLEX : rt_is_float(dtype) ? CR_KIND_FLOAT : CR_KIND_INTEGER;
}

/* ---- making them ---- */

cr_status cr_tensor_empty(int dtype, int rank, const int64_t *size, cr_tensor **out) {
    cr_meta meta;
    CR_TRY(cr_meta_dense(dtype, rank, size, &meta));
    return cr_tensor_create(&meta, out);
}

cr_status cr_tensor_fake(int dtype, int rank, const int64_t *size, cr_tensor **out) {
    cr_meta meta;
    CR_TRY(cr_meta_dense(dtype, rank, size, &meta));
    return cr_tensor_create_fake(NULL, &meta, out);
}

static void keep(void *user, void *data) { (void)user, (void)data; }

cr_status cr_tensor_wrap(int dtype, int rank, const int64_t *size, const int64_t *stride, void *data,
                         void (*dispose)(void *user, void *data), void *user, cr_tensor **out) {
    cr_meta meta;
    cr_storage *storage;
    int64_t bytes;
    CR_TRY(cr_meta_dense(dtype, rank, size, &meta));
    for (int i = 0; stride && i < rank; i++) {
        if (stride[i] < 0)
            return CR_FAIL(CR_ERUNTIME, "stride %d is %lld; strides are not negative", i, (long long)stride[i]);
        meta.stride[i] = stride[i];
    }
    CR_TRY(cr_meta_bytes(&meta, &bytes));
    if (!data && bytes) return CR_FAIL(CR_EVALUE, "a tensor of %lld bytes needs memory, found NULL", (long long)bytes);
    CR_TRY(cr_storage_wrap(data, bytes, keep, NULL, &storage));
    meta.storage = storage->id;
    cr_status status = cr_tensor_on(storage, &meta, NULL, NULL, out);
    if (!status && dispose) storage->dispose = dispose, storage->user = user; /* from here on it is the tensor's */
    cr_storage_release(storage);
    return status;
}

/* ---- looking at them ---- */

int cr_tensor_dtype(const cr_tensor *t) { return t->meta.dtype; }

int cr_tensor_rank(const cr_tensor *t) { return t->meta.rank; }

const int64_t *cr_tensor_sizes(const cr_tensor *t) { return t->meta.size; }

const int64_t *cr_tensor_strides(const cr_tensor *t) { return t->meta.stride; }

cr_device cr_tensor_device(const cr_tensor *t) { return t->meta.device; }

bool cr_tensor_has_data(const cr_tensor *t) { return !cr_tensor_is_fake(t); }

int64_t cr_tensor_numel(const cr_tensor *t) {
    cr_dim n = cr_meta_numel(t->env, &t->meta);
    return cr_dim_is_plain(n) ? n : -1;
}

bool cr_tensor_is_contiguous(const cr_tensor *t) {
    return cr_meta_is_contiguous(t->env, &t->meta, CR_CONTIGUOUS) == CR_YES;
}

void *cr_tensor_edit(cr_tensor *t) {
    if (cr_tensor_is_fake(t) || !cr_tensor_numel(t)) return NULL;
    cr_tensor_bump(t);
    return cr_tensor_view(t).p;
}

const void *cr_tensor_data(const cr_tensor *t) {
    return cr_tensor_is_fake(t) || !cr_tensor_numel(t) ? NULL : cr_tensor_view(t).p;
}

void cr_tensor_describe(const cr_tensor *t, cr_str *out) {
    cr_str_addf(out, "%s ", cr_dtype_name(t->meta.dtype));
    cr_shape_print(t->env, t->meta.rank, t->meta.size, out);
}

/* ---- elements ---- */

static cr_status copy_views(const rt_view *to, const rt_view *from) {
    char error[256] = "";
    rt_ctx ctx = cr_kernel_ctx(error, sizeof error);
    if (rt_copy(&ctx, to, from) == RT_OK) return CR_OK;
    return error[0] ? CR_FAIL(CR_ERUNTIME, "%s", error) : CR_FAIL(CR_ENOMEM, "copying a tensor");
}

/* The plain memory that all elements fill as `dtype`. CR_EVALUE: it has not the bytes for it. */
static cr_status memory_of(const cr_tensor *t, int dtype, const void *data, size_t bytes, bool exactly, rt_view *out) {
    if (cr_tensor_is_fake(t)) return CR_FAIL(CR_ERUNTIME, "a fake tensor has no elements");
    if (dtype < 0 || dtype >= CR_DTYPE_COUNT) return CR_FAIL(CR_ETYPE, "there is no dtype of number %d", dtype);
    int64_t need;
    if (cr_mul_overflow(cr_tensor_numel(t), rt_itemsize(dtype), &need) || (uint64_t)need > bytes ||
        (exactly && (uint64_t)need != bytes))
        return CR_FAIL(CR_EVALUE, "%lld elements of %s take %lld bytes, found %zu", (long long)cr_tensor_numel(t),
                       cr_dtype_name(dtype), (long long)need, bytes);
    *out = rt_view_contiguous((void *)(uintptr_t)data, dtype, t->meta.rank, t->meta.size);
    return CR_OK;
}

cr_status cr_tensor_read(const cr_tensor *t, int dtype, void *data, size_t room) {
    rt_view to, from;
    CR_TRY(memory_of(t, dtype, data, room, false, &to));
    from = cr_tensor_view(t);
    return cr_tensor_numel(t) ? copy_views(&to, &from) : CR_OK;
}

cr_status cr_tensor_write(cr_tensor *t, int dtype, const void *data, size_t bytes) {
    rt_view to, from;
    CR_TRY(memory_of(t, dtype, data, bytes, true, &from));
    to = cr_tensor_view(t);
    if (!cr_tensor_numel(t)) return CR_OK;
    cr_tensor_bump(t);
    return copy_views(&to, &from);
}

cr_status cr_tensor_copy(cr_tensor *to, const cr_tensor *from) {
    if (cr_tensor_is_fake(to) || cr_tensor_is_fake(from)) return CR_FAIL(CR_ERUNTIME, "a fake tensor has no elements");
    bool same = to->meta.rank == from->meta.rank;
    for (int i = 0; same && i < to->meta.rank; i++) same = to->meta.size[i] == from->meta.size[i];
    if (!same) {
        cr_str sizes;
        cr_str_init(&sizes);
        cr_shape_print(NULL, to->meta.rank, to->meta.size, &sizes);
        cr_str_add(&sizes, ", found ");
        cr_shape_print(NULL, from->meta.rank, from->meta.size, &sizes);
        cr_status status = CR_FAIL(CR_EVALUE, "copying a tensor: expected sizes %s", cr_str_get(&sizes));
        cr_str_dispose(&sizes);
        return status;
    }
    rt_view a = cr_tensor_view(to), b = cr_tensor_view(from);
    if (!cr_tensor_numel(to)) return CR_OK;
    cr_tensor_bump(to);
    return copy_views(&a, &b);
}
