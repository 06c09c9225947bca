/* fake.c: fakes of real tensors, with chosen dimensions symbolic.
 *
 * The strides of a fake must be the terms that rules would build for such a tensor, or nothing would be recognised as
 * contiguous: the common layouts are therefore made by the same function, others are products where the numbers say
 * so. */
#include "trace/trace.h"

#include <stdio.h>

void cr_fakes_init(cr_fakes *f, cr_env *env) {
    *f = (cr_fakes){ .env = env };
    cr_env_retain(env);
    cr_map_init(&f->storages);
    cr_map_init(&f->sizes);
}

void cr_fakes_dispose(cr_fakes *f) {
    const void *key;
    size_t length;
    uint64_t storage;
    for (size_t i = 0; cr_map_next(&f->storages, &i, &key, &length, &storage);)
        cr_storage_release((cr_storage *)(uintptr_t)storage);
    cr_map_dispose(&f->storages);
    cr_map_dispose(&f->sizes);
    cr_env_release(f->env);
    f->env = NULL;
}

static cr_status no_memory(cr_env *env) {
    cr_env_recover(env);
    return CR_FAIL(CR_ENOMEM, "out of memory");
}

static cr_status dynamic_size(cr_fakes *f, const char *name, int64_t size, cr_dim *out) {
    char fresh[24];
    bool unnamed = !name;
    uint64_t known;
    if (unnamed && f->zero_one && (size == 0 || size == 1)) return *out = size, CR_OK;
    if (unnamed && f->duck && cr_map_find(&f->sizes, &size, sizeof size, &known)) return *out = (cr_dim)known, CR_OK;
    for (; !name; f->next++) {
        snprintf(fresh, sizeof fresh, "s%d", f->next);
        if (!cr_sym_find_symbol(f->env, fresh)) name = fresh;
    }
    cr_sym symbol = cr_sym_find_symbol(f->env, name);
    int64_t hint;
    if (symbol) {
        if (cr_env_hint(f->env, symbol, &hint) && hint != size)
            return CR_FAIL(CR_EVALUE,
                           "dimension '%s' is %lld in one tensor and %lld in another; give them different names", name,
                           (long long)hint, (long long)size);
    } else if (!(symbol = cr_sym_symbol(f->env, name, CR_TYPE_INT, size < 2 ? 0 : 2, INT64_MAX))) {
        return no_memory(f->env);
    }
    CR_TRY(cr_env_set_hint(f->env, symbol, size));
    *out = cr_dim_of(f->env, symbol);
    if (*out == CR_DIM_OVERFLOW) return no_memory(f->env);
    return unnamed && f->duck ? cr_map_put(&f->sizes, &size, sizeof size, (uint64_t)*out) : CR_OK;
}

/* Strides of another layout: innermost first, each is what lies inside it where the numbers agree, else it stays. */
static void follow_strides(cr_env *env, const cr_meta *from, cr_meta *to) {
    int order[CR_MAX_RANK];
    for (int i = 0; i < from->rank; i++) {
        int at = i;
        for (; at > 0 && from->stride[order[at - 1]] > from->stride[i]; at--) order[at] = order[at - 1];
        order[at] = i;
    }
    for (int k = 0; k < from->rank; k++) {
        int i = order[k];
        to->stride[i] = from->stride[i];
        for (int j = 0; j < k && from->stride[i]; j++) {
            int inner = order[j];
            if (from->stride[inner] && from->stride[inner] * from->size[inner] == from->stride[i] &&
                from->size[inner] != 1)
                to->stride[i] = cr_dim_mul(env, to->stride[inner], to->size[inner]);
        }
    }
}

static cr_status fake_layout(cr_env *env, const cr_meta *from, cr_meta *to) {
    static const cr_memory_format formats[] = { CR_CONTIGUOUS, CR_CHANNELS_LAST, CR_CHANNELS_LAST_3D };
    for (size_t i = 0; i < CR_COUNT(formats); i++) {
        cr_meta dense;
        cr_meta_copy(&dense, from);
        if (formats[i] != CR_CONTIGUOUS && from->rank != (formats[i] == CR_CHANNELS_LAST ? 4 : 5)) continue;
        CR_TRY(cr_meta_set_dense(NULL, &dense, from->rank, from->size, formats[i]));
        /* size-1 dimensions count, too */
        if (memcmp(dense.stride, from->stride, from->rank * sizeof *dense.stride)) continue;
        cr_dim offset = to->offset;
        CR_TRY(cr_meta_set_dense(env, to, to->rank, to->size, formats[i]));
        to->offset = offset;
        return CR_OK;
    }
    follow_strides(env, from, to);
    return CR_OK;
}

static cr_status fake_storage(cr_fakes *f, uint64_t real, cr_storage **out) {
    uint64_t found;
    if (cr_map_find(&f->storages, &real, sizeof real, &found)) return *out = (cr_storage *)(uintptr_t)found, CR_OK;
    cr_storage *storage = NULL;
    CR_TRY(cr_storage_fake(&storage));
    cr_status status = cr_map_put(&f->storages, &real, sizeof real, (uintptr_t)storage);
    if (status) return cr_storage_release(storage), status;
    *out = storage;
    return CR_OK;
}

cr_status cr_fake_sized(cr_fakes *f, const cr_tensor *t, const cr_dim *size, cr_tensor **out) {
    cr_meta meta;
    cr_storage *storage = NULL;
    bool symbolic = false;
    cr_meta_copy(&meta, &t->meta);
    for (int d = 0; d < meta.rank; d++) {
        int64_t value;
        if (!cr_dim_is_plain(t->meta.size[d]))
            return CR_FAIL(CR_EVALUE, "a fake of a symbolic tensor; use that tensor itself");
        if (cr_dim_hint(f->env, size[d], &value) && value != t->meta.size[d])
            return CR_FAIL(CR_EVALUE, "dimension %d has %lld elements; the size given for it is %lld", d,
                           (long long)t->meta.size[d], (long long)value);
        meta.size[d] = size[d];
        symbolic |= !cr_dim_is_plain(size[d]);
    }
    if (symbolic) CR_TRY(fake_layout(f->env, &t->meta, &meta));
    if (cr_env_failed(f->env)) return no_memory(f->env);
    CR_TRY(fake_storage(f, t->storage->id, &storage));
    return cr_tensor_on(storage, &meta, NULL, f->env, out);
}

cr_status cr_fake_from(cr_fakes *f, const cr_tensor *t, uint32_t dynamic, const char *const *names, cr_tensor **out) {
    cr_dim size[CR_MAX_RANK];
    for (int d = 0; d < t->meta.rank; d++) {
        size[d] = t->meta.size[d];
        if (!cr_dim_is_plain(size[d])) return CR_FAIL(CR_EVALUE, "a fake of a symbolic tensor; use that tensor itself");
        if (dynamic & (1u << d)) CR_TRY(dynamic_size(f, names ? names[d] : NULL, size[d], &size[d]));
    }
    return cr_fake_sized(f, t, size, out);
}

cr_status cr_fake_dense(cr_env *env, int dtype, cr_device device, int rank, const cr_dim *size, cr_tensor **out) {
    cr_meta meta;
    cr_meta_init(&meta, dtype, device);
    CR_TRY(cr_meta_set_dense(env, &meta, rank, size, CR_CONTIGUOUS));
    if (cr_env_failed(env)) return no_memory(env);
    return cr_tensor_create_fake(env, &meta, out);
}
