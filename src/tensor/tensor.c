/* tensor.c: tensors over storages. */
#include "tensor/internal.h"

#if CR__HAS_SLAB
static cr_tensor tensors[CR__SLAB_COUNT];
static uint32_t next_free[CR__SLAB_COUNT];
static cr__slab slab = {
    .count = CR__SLAB_COUNT, .size = sizeof(cr_tensor), .blocks = (char *)tensors, .next = next_free
};
#endif

/* Takes over the caller's reference to `storage`, also when it fails. */
static cr_status tensor_new(cr_storage *storage, const cr_meta *meta, cr_tensor *base, cr_env *env, cr_tensor **out) {
    cr_tensor *t = NULL;
#if CR__HAS_SLAB
    t = cr__slab_take(&slab);
#endif
    if (!t) t = cr_alloc(sizeof *t);
    if (!t) {
        cr_storage_release(storage);
        return CR_ENOMEM;
    }
    t->refs = 1;
    cr_meta_copy(&t->meta, meta);
    t->meta.storage = storage->id;
    t->storage = storage;
    t->env = env;
    if (env) cr_env_retain(env);
    while (base && base->base) base = base->base;
    t->base = base;
    if (base) cr_tensor_retain(base);
    t->fn = t->autograd = t->python = NULL;
    t->lock = 0;
    t->mapped = NULL;
    t->trace = 0;
    t->version = NULL;
    t->view = 0;
    t->inference = t->watched = false;
    t->written = base ? cr_tensor_version(base) : 0;
    *out = t;
    return CR_OK;
}

static void version_release(cr_tensor_count *v) {
    if (v && !__atomic_sub_fetch(&v->refs, 1, __ATOMIC_ACQ_REL)) cr_free(v);
}

/* The shared count of a root, made when it is first asked for. */
static cr_tensor_count *version_of(cr_tensor *root) {
    cr_tensor_count *known = __atomic_load_n(&root->version, __ATOMIC_ACQUIRE);
    if (known) return known;
    cr_tensor_count *made = cr_alloc(sizeof *made);
    if (!made) return NULL;
    *made = (cr_tensor_count){ .refs = 1, .count = __atomic_load_n(&root->written, __ATOMIC_RELAXED) };
    if (__atomic_compare_exchange_n(&root->version, &known, made, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        return made;
    cr_free(made); /* another thread was faster */
    return known;
}

cr_status cr_tensor_share_version(cr_tensor *t, const cr_tensor *of) {
    cr_tensor_count *shared = version_of(of->base ? of->base : (cr_tensor *)of);
    if (!shared) return CR_ENOMEM;
    __atomic_add_fetch(&shared->refs, 1, __ATOMIC_RELAXED);
    version_release(t->version);
    t->version = shared;
    return CR_OK;
}

uint64_t cr_tensor_epoch;
void (*cr__autograd_dispose)(cr_tensor *t);

void cr_tensor_retain(cr_tensor *t) { __atomic_add_fetch(&t->refs, 1, __ATOMIC_RELAXED); }

static void tensor_delete(cr_tensor *t) {
    cr_tensor *base = t->base, *mapped = t->mapped;
    cr_tensor_changed(t);
    if (t->fn || t->autograd) cr__autograd_dispose(t);
    cr_storage_release(t->storage);
    version_release(t->version);
    if (t->env) cr_env_release(t->env);
#if CR__HAS_SLAB
    if (!cr__slab_give(&slab, t))
#endif
        cr_free(t);
    cr_tensor_release(base); /* a root: this goes one level deep */
    cr_tensor_release(mapped); /* as deep as vmaps nest */
}

void cr_tensor_release(cr_tensor *t) {
    if (!t) return;
    /* the only one who holds it need not tell others: most tensors go this way */
    if (__atomic_load_n(&t->refs, __ATOMIC_ACQUIRE) != 1 && __atomic_sub_fetch(&t->refs, 1, __ATOMIC_ACQ_REL)) return;
    tensor_delete(t);
}

int64_t cr_tensor_release_end(cr_tensor *t) {
    int64_t left = __atomic_sub_fetch(&t->refs, CR_TENSOR_END, __ATOMIC_ACQ_REL);
    if (!left) tensor_delete(t);
    return left / CR_TENSOR_END;
}

cr_status cr_tensor_create(const cr_meta *meta, cr_tensor **out) {
    cr_storage *storage;
    int64_t bytes;
    CR_TRY(cr_meta_bytes(meta, &bytes));
    if (meta->device.type == CR_CUDA)
        return CR_FAIL(CR_ERUNTIME, "memory on a cuda device cannot be allocated: this library computes on cpu "
                                    "tensors");
    CR_TRY(meta->device.type == CR_META_DEVICE ? cr_storage_fake(&storage) : cr_storage_create(bytes, &storage));
    return tensor_new(storage, meta, NULL, NULL, out);
}

cr_status cr_tensor_create_fake(cr_env *env, const cr_meta *meta, cr_tensor **out) {
    for (int i = 0; i <= meta->rank; i++) {
        bool bad = i == meta->rank ? meta->offset == CR_DIM_OVERFLOW
                                   : meta->size[i] == CR_DIM_OVERFLOW || meta->stride[i] == CR_DIM_OVERFLOW;
        if (bad) return CR_FAIL(CR_ERUNTIME, "a size or stride of the tensor is beyond 64 bits");
    }
    cr_storage *storage;
    CR_TRY(cr_storage_fake(&storage));
    return tensor_new(storage, meta, NULL, env, out);
}

cr_status cr_tensor_on(cr_storage *storage, const cr_meta *meta, cr_tensor *base, cr_env *env, cr_tensor **out) {
    if (!storage->fake) {
        int64_t bytes;
        CR_TRY(cr_meta_bytes(meta, &bytes));
        if (bytes > storage->bytes) {
            cr_str text;
            cr_str_init(&text);
            cr_meta_print(NULL, meta, &text);
            cr_status s = CR_FAIL(CR_ERUNTIME, "%s reaches %lld bytes into a storage of %lld", cr_str_get(&text),
                                  (long long)bytes, (long long)storage->bytes);
            cr_str_dispose(&text);
            return s;
        }
    }
    cr_storage_retain(storage);
    return tensor_new(storage, meta, base, env, out);
}

cr_status cr_tensor_shape(const cr_meta *meta, cr_tensor **out) {
    static cr_storage nothing = { .refs = 1, .id = UINT64_MAX, .fake = true };
    cr_storage_retain(&nothing); /* never the last one */
    return tensor_new(&nothing, meta, NULL, NULL, out);
}

cr_status cr_tensor_alias(cr_tensor *t, cr_tensor **out) {
    cr_storage_retain(t->storage);
    CR_TRY(tensor_new(t->storage, &t->meta, NULL, t->env, out));
    (*out)->meta.flags &= (uint8_t)~CR_META_REQUIRES_GRAD;
    cr_status status = cr_tensor_share_version(*out, t);
    if (status) cr_tensor_release(*out);
    return status;
}

cr_status cr_tensor_apart(const cr_tensor *t, cr_tensor **out) {
    CR_TRY(cr_tensor_on(t->storage, &t->meta, NULL, t->env, out));
    (*out)->meta.flags &= (uint8_t)~CR_META_REQUIRES_GRAD;
    (*out)->inference = t->inference;
    return CR_OK;
}

cr_status cr_tensor_from(int dtype, int rank, const int64_t *size, const void *data, cr_tensor **out) {
    cr_meta meta;
    cr_tensor *t;
    CR_TRY(cr_meta_dense(dtype, rank, size, &meta));
    CR_TRY(cr_tensor_create(&meta, &t));
    if (t->storage->bytes) memcpy(t->storage->data, data, (size_t)t->storage->bytes);
    *out = t;
    return CR_OK;
}

void cr_tensor_show(const cr_tensor *t, rt_view *out) {
    const cr_meta *m = &t->meta;
    out->rank = m->rank;
    out->dtype = m->dtype;
    out->p = t->storage->data ? (char *)t->storage->data + m->offset * rt_itemsize(m->dtype) : NULL;
    for (int d = 0; d < m->rank; d++) {
        out->size[d] = m->size[d];
        out->stride[d] = m->stride[d];
    }
}

rt_view cr_tensor_view(const cr_tensor *t) {
    rt_view v;
    cr_tensor_show(t, &v);
    return v;
}

cr_status cr_tensor_scalar(int dtype, rt_scalar value, cr_tensor **out) {
    cr_meta meta;
    cr_tensor *t;
    char error[256] = "";
    cr_meta_init(&meta, dtype, (cr_device){ CR_CPU, -1 });
    CR_TRY(cr_tensor_create(&meta, &t));
    rt_ctx ctx = cr_kernel_ctx(error, sizeof error);
    rt_view v = cr_tensor_view(t);
    if (rt_fill(&ctx, &v, value)) {
        cr_tensor_release(t);
        return CR_FAIL(CR_ERUNTIME, "%s", error);
    }
    *out = t;
    return CR_OK;
}

cr_status cr_tensor_item(const cr_tensor *t, const int64_t *index, rt_scalar *out) {
    const cr_meta *m = &t->meta;
    if (t->storage->fake) return CR_FAIL(CR_EDATADEP, "a fake tensor has no elements to read");
    int64_t at = m->offset;
    for (int i = 0; i < m->rank; i++) {
        if (index[i] < 0 || index[i] >= m->size[i])
            return CR_FAIL(CR_EINDEX, "index %lld is out of range for dimension %d of size %lld", (long long)index[i],
                           i, (long long)m->size[i]);
        at += index[i] * m->stride[i];
    }
    const char *p = (const char *)t->storage->data + at * rt_itemsize(m->dtype);
    *out = (rt_scalar){ .kind = RT_ARG_INT };
    if (rt_is_complex(m->dtype)) {
        double z[2];
        rt_convert(RT_C128, z, 1, m->dtype, p, 1, 1);
        *out = (rt_scalar){ .kind = RT_ARG_COMPLEX, .f = z[0], .im = z[1] };
    } else if (rt_is_float(m->dtype)) {
        out->kind = RT_ARG_FLOAT;
        rt_convert(RT_F64, &out->f, 1, m->dtype, p, 1, 1);
    } else {
        rt_convert(RT_I64, &out->i, 1, m->dtype, p, 1, 1);
        out->f = (double)out->i;
    }
    if (m->flags & CR_META_CONJ) out->im = -out->im;
    if (m->flags & CR_META_NEG) out->f = -out->f, out->im = -out->im, out->i = (int64_t)(0 - (uint64_t)out->i);
    return CR_OK;
}
