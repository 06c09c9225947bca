/* arrays.c: files of named arrays.
 *
 * NumPy has no bfloat16, float8 or complex32: in its files those are float32 (complex64), which holds their values
 * exactly. */
#include "api/api.h"
#include "archive/npy.h"
#include "archive/safetensors.h"

#include <stdio.h>

struct cr_arrays {
    int64_t refs; /* atomic */
    cr_npz *npz; /* one of these, or a .npy: */
    cr_safetensors *safetensors;
    cr_mapping mapping;
    cr_npy npy;
};

typedef enum format {
    UNKNOWN = CR_ARRAYS_BY_NAME,
    NPY = CR_ARRAYS_NPY,
    NPZ = CR_ARRAYS_NPZ,
    SAFETENSORS = CR_ARRAYS_SAFETENSORS,
} format;

static format format_of(const char *path) {
    static const struct {
        const char *ending;
        format format;
    } formats[] = {
        { ".npy", NPY },
        { ".npz", NPZ },
        { ".safetensors", SAFETENSORS },
    };
    size_t n = strlen(path);
    for (size_t i = 0; i < CR_COUNT(formats); i++) {
        size_t m = strlen(formats[i].ending);
        if (n >= m && !strcmp(path + n - m, formats[i].ending)) return formats[i].format;
    }
    return UNKNOWN;
}

static cr_status unknown_format(const char *path) {
    return CR_FAIL(CR_EVALUE, "%s: cannot tell which format that is; end the name in .npy, .npz or .safetensors", path);
}

/* ---- reading ---- */

static cr_status open_npy(cr_arrays *a, const char *path) {
    CR_TRY(cr_mapping_open(&a->mapping, path));
    cr_status status = cr_npy_parse(a->mapping.data, a->mapping.size, &a->npy);
    return status ? cr_error_context(status, "%s", path) : CR_OK;
}

cr_status cr_arrays_open(const char *path, cr_arrays **out) {
    format f = format_of(path);
    if (f == UNKNOWN) return unknown_format(path);
    cr_arrays *a = cr_calloc(1, sizeof *a);
    if (!a) return CR_ENOMEM;
    a->refs = 1;
    cr_status status = f == NPY   ? open_npy(a, path)
                       : f == NPZ ? cr_npz_open(path, &a->npz)
                                  : cr_safetensors_open(path, &a->safetensors);
    if (status) cr_arrays_release(a);
    else *out = a;
    return status;
}

void cr_arrays_retain(cr_arrays *a) { __atomic_add_fetch(&a->refs, 1, __ATOMIC_RELAXED); }

void cr_arrays_release(cr_arrays *a) {
    if (!a || __atomic_sub_fetch(&a->refs, 1, __ATOMIC_ACQ_REL)) return;
    cr_npz_release(a->npz);
    cr_safetensors_release(a->safetensors);
    cr_mapping_close(&a->mapping);
    cr_free(a);
}

size_t cr_arrays_count(const cr_arrays *a) {
    return a->npz ? cr_npz_count(a->npz) : a->safetensors ? cr_safetensors_count(a->safetensors) : 1;
}

const char *cr_arrays_name(const cr_arrays *a, size_t i) {
    if (i >= cr_arrays_count(a)) return NULL;
    return a->npz ? cr_npz_name(a->npz, i) : a->safetensors ? cr_safetensors_at(a->safetensors, i)->name : "";
}

bool cr_arrays_find(const cr_arrays *a, const char *name, size_t *out) {
    for (size_t i = 0; i < cr_arrays_count(a); i++)
        if (!strcmp(cr_arrays_name(a, i), name)) return *out = i, true;
    return false;
}

cr_status cr_arrays_get(const cr_arrays *a, size_t i, cr_tensor **out) {
    if (i >= cr_arrays_count(a))
        return CR_FAIL(CR_EINDEX, "the file has %zu arrays, and none of number %zu", cr_arrays_count(a), i);
    if (a->safetensors) {
        const cr_safetensor *t = cr_safetensors_at(a->safetensors, i);
        return cr_tensor_from(t->dtype, t->rank, t->size, t->data, out);
    }
    const cr_npy *npy = a->npz ? cr_npz_at(a->npz, i) : &a->npy;
    if (npy->dtype >= RT_DTYPE_COUNT)
        return CR_FAIL(CR_EUNSUPPORTED, "array '%s' holds raw elements of %d bytes, which have no dtype",
                       cr_arrays_name(a, i), npy->width);
    cr_tensor *t;
    CR_TRY(cr_tensor_empty(npy->dtype, npy->rank, npy->size, &t));
    if (npy->bytes) cr_npy_copy(npy, t->storage->data);
    *out = t;
    return CR_OK;
}

/* ---- writing ---- */

static int written_as(int dtype, format f) {
    if (f == SAFETENSORS) return dtype;
    if (dtype == RT_BF16 || (dtype >= RT_F8E4M3FN && dtype <= RT_F8E8M0FNU)) return RT_F32;
    return dtype == RT_C32 ? RT_C64 : dtype;
}

/* A value as dense elements of a dtype that the format has. `scratch` is freed with cr_free. */
typedef struct dense {
    int dtype, rank;
    int64_t size[RT_MAX_RANK];
    const void *data;
    size_t bytes;
    void *scratch;
    double number[2];
} dense;

static void dense_number(dense *d, int dtype, const void *value) {
    *d = (dense){ .dtype = dtype, .bytes = (size_t)rt_itemsize(dtype) };
    memcpy(d->number, value, d->bytes);
    d->data = d->number;
}

static cr_status dense_tensor(dense *d, const cr_tensor *t, format f) {
    int dtype = written_as(t->meta.dtype, f);
    *d = (dense){ .dtype = dtype, .rank = t->meta.rank, .data = cr_tensor_data(t) };
    if (!cr_tensor_has_data(t)) return CR_FAIL(CR_EUNSUPPORTED, "a fake tensor cannot be written: it has no elements");
    d->bytes = (size_t)(cr_tensor_numel(t) * rt_itemsize(dtype));
    memcpy(d->size, t->meta.size, t->meta.rank * sizeof *d->size);
    if (!d->bytes) return d->data = "", CR_OK;
    if (dtype == t->meta.dtype && cr_tensor_is_contiguous(t) && !(t->meta.flags & (CR_META_CONJ | CR_META_NEG)))
        return CR_OK;
    d->data = d->scratch = cr_alloc(d->bytes);
    if (!d->scratch) return CR_ENOMEM;
    cr_status status = cr_tensor_read(t, dtype, d->scratch, d->bytes);
    if (status) cr_free(d->scratch), d->scratch = NULL;
    return status;
}

static cr_status dense_init(dense *d, const cr_arg *a, format f) {
    switch (a->kind) {
    case CR_ARG_INT: return dense_number(d, RT_I64, &a->u.i), CR_OK;
    case CR_ARG_FLOAT: return dense_number(d, RT_F64, &a->u.f), CR_OK;
    case CR_ARG_BOOL: return dense_number(d, RT_BOOL, &(uint8_t){ a->u.i != 0 }), CR_OK;
    case CR_ARG_COMPLEX: return dense_number(d, RT_C128, a->u.c), CR_OK;
    case CR_ARG_TENSOR: return dense_tensor(d, a->u.t, f);
    default: return CR_FAIL(CR_EUNSUPPORTED, "a value of argument kind %d cannot be written as an array", a->kind);
    }
}

static cr_status write_npy(const cr_arg *a, const char *path) {
    dense d = { 0 };
    cr_str header;
    cr_file_writer *w = NULL;
    cr_str_init(&header);
    cr_status status = dense_init(&d, a, NPY);
    if (!status) status = cr_npy_header(d.dtype, d.rank, d.size, &header);
    if (!status) status = cr_str_status(&header);
    if (!status) status = cr_file_writer_create(path, &w);
    if (!status) status = cr_file_writer_write(w, header.at, header.n);
    if (!status && d.bytes) status = cr_file_writer_write(w, d.data, d.bytes);
    if (!status) status = cr_file_writer_finish(w);
    else cr_file_writer_abandon(w);
    cr_str_dispose(&header);
    cr_free(d.scratch);
    return status;
}

static cr_status add_member(cr_zip_writer *w, const char *key, const cr_arg *a) {
    dense d = { 0 };
    cr_str header, name;
    cr_str_init(&header);
    cr_str_init(&name);
    cr_str_addf(&name, "%s.npy", key);
    cr_status status = cr_str_status(&name);
    if (!status) status = dense_init(&d, a, NPZ);
    if (!status) status = cr_npy_header(d.dtype, d.rank, d.size, &header);
    if (!status) status = cr_zip_writer_begin(w, cr_str_get(&name));
    if (!status) status = cr_zip_writer_write(w, cr_str_get(&header), header.n);
    if (!status && d.bytes) status = cr_zip_writer_write(w, d.data, d.bytes);
    if (!status) status = cr_zip_writer_end(w);
    cr_str_dispose(&header);
    cr_str_dispose(&name);
    cr_free(d.scratch);
    return status;
}

static cr_status write_npz(const char *path, const char *const *names, const cr_arg *values, size_t n) {
    cr_zip_writer *w;
    CR_TRY(cr_zip_writer_create(path, 64, &w));
    for (size_t i = 0; i < n; i++) {
        cr_status status = add_member(w, names[i], &values[i]);
        if (!status) continue;
        cr_zip_writer_abandon(w);
        return status;
    }
    return cr_zip_writer_finish(w);
}

static cr_status write_safetensors(const char *path, const char *const *names, const cr_arg *values, size_t n) {
    dense *all = cr_calloc(n + 1, sizeof *all);
    cr_safetensor *entries = cr_calloc(n + 1, sizeof *entries);
    cr_status status = all && entries ? CR_OK : CR_ENOMEM;
    for (size_t i = 0; i < n && !status; i++) {
        status = dense_init(&all[i], &values[i], SAFETENSORS);
        entries[i] = (cr_safetensor){ .name = names[i],
                                      .dtype = all[i].dtype,
                                      .rank = all[i].rank,
                                      .data = (uint8_t *)(uintptr_t)all[i].data,
                                      .bytes = all[i].bytes };
        memcpy(entries[i].size, all[i].size, sizeof entries[i].size);
    }
    if (!status) status = cr_safetensors_write(path, entries, n, NULL);
    for (size_t i = 0; all && i < n; i++) cr_free(all[i].scratch);
    cr_free(all);
    cr_free(entries);
    return status;
}

cr_status cr_arrays_write(const char *path, int format, const char *const *names, const cr_arg *values, size_t n) {
    switch (format == CR_ARRAYS_BY_NAME ? (int)format_of(path) : format) {
    case NPY:
        if (n == 1) return write_npy(values, path);
        return CR_FAIL(CR_EVALUE, "a .npy file holds one array, and %zu are given; name it .npz", n);
    case NPZ: return write_npz(path, names, values, n);
    case SAFETENSORS: return write_safetensors(path, names, values, n);
    default: return unknown_format(path);
    }
}
