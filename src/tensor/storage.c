/* storage.c: shared, versioned memory.
 *
 * A small storage keeps its bytes beside itself in one block, so that a small result costs no request to the heap.
 * Which of the two a storage is shows in `data` alone: it points into the block, or it was requested (or is
 * foreign). */
#include "tensor/internal.h"

enum { INLINE_BYTES = 256, ALIGNMENT = 64 };

typedef struct block {
    cr_storage storage;
    _Alignas(ALIGNMENT) char bytes[INLINE_BYTES];
} block;

#if CR__HAS_SLAB
static block blocks[CR__SLAB_COUNT];
static uint32_t next_free[CR__SLAB_COUNT];
static cr__slab slab = { .count = CR__SLAB_COUNT, .size = sizeof(block), .blocks = (char *)blocks, .next = next_free };
#endif

static bool is_inline(const cr_storage *s) { return s->data == ((const block *)s)->bytes; }

static cr_storage *storage_new(void) {
    static uint64_t ids;
    cr_storage *s = NULL;
#if CR__HAS_SLAB
    s = cr__slab_take(&slab);
#endif
    if (!s) s = cr_alloc_aligned(ALIGNMENT, sizeof(block));
    if (!s) return NULL;
    *s = (cr_storage){ .refs = 1, .id = __atomic_add_fetch(&ids, 1, __ATOMIC_RELAXED), .resizable = true };
    return s;
}

static void storage_delete(cr_storage *s) {
#if CR__HAS_SLAB
    if (cr__slab_give(&slab, s)) return;
#endif
    cr_free(s);
}

/* Memory of a storage that has none. */
static cr_status data_create(cr_storage *s, int64_t bytes, void **out) {
    *out = NULL;
    if (bytes < 0) return CR_FAIL(CR_ERUNTIME, "a storage cannot have %lld bytes", (long long)bytes);
    if (bytes == 0) return CR_OK;
#if CR__HAS_SLAB
    if (bytes <= INLINE_BYTES && !is_inline(s)) {
        *out = ((block *)s)->bytes;
        return CR_OK;
    }
#else
    (void)s;
#endif
    *out = cr_block_alloc((size_t)bytes);
    return *out ? CR_OK : CR_ENOMEM;
}

static void data_dispose(cr_storage *s, void *data) {
    if (s->dispose) s->dispose(s->user, data);
    else if (data != ((block *)s)->bytes) cr_block_free(data, (size_t)s->bytes);
}

cr_status cr_storage_create(int64_t bytes, cr_storage **out) {
    cr_storage *s = storage_new();
    if (!s) return CR_ENOMEM;
    cr_status status = data_create(s, bytes, &s->data);
    if (status) {
        storage_delete(s);
        return status;
    }
    s->bytes = bytes;
    *out = s;
    return CR_OK;
}

cr_status cr_storage_fake(cr_storage **out) {
    cr_storage *s = storage_new();
    if (!s) return CR_ENOMEM;
    s->fake = true;
    *out = s;
    return CR_OK;
}

cr_status cr_storage_wrap(void *data, int64_t bytes, void (*dispose)(void *, void *), void *user, cr_storage **out) {
    if (bytes < 0) return CR_FAIL(CR_ERUNTIME, "a storage cannot have %lld bytes", (long long)bytes);
    cr_storage *s = storage_new();
    if (!s) return CR_ENOMEM;
    s->data = data;
    s->bytes = bytes;
    s->dispose = dispose;
    s->user = user;
    s->resizable = false;
    *out = s;
    return CR_OK;
}

cr_status cr_storage_resize(cr_storage *s, int64_t bytes) {
    if (s->fake || bytes == s->bytes) return CR_OK;
    if (!s->resizable && s->bytes)
        return CR_FAIL(CR_ERUNTIME, "a storage of foreign memory cannot be resized from %lld to %lld bytes",
                       (long long)s->bytes, (long long)bytes);
    if (bytes >= 0 && is_inline(s) && bytes <= INLINE_BYTES) {
        if (!bytes) s->data = NULL;
        s->bytes = bytes;
        return CR_OK;
    }
    void *data;
    CR_TRY(data_create(s, bytes, &data));
    int64_t keep = CR_MIN(bytes, s->bytes);
    if (keep) memcpy(data, s->data, (size_t)keep);
    data_dispose(s, s->data);
    s->dispose = NULL; /* an empty foreign storage has become our own */
    s->resizable = true;
    s->data = data;
    s->bytes = bytes;
    return CR_OK;
}

void cr_storage_retain(cr_storage *s) { __atomic_add_fetch(&s->refs, 1, __ATOMIC_RELAXED); }

void cr_storage_release(cr_storage *s) {
    if (!s) return;
    if (__atomic_load_n(&s->refs, __ATOMIC_ACQUIRE) != 1 && __atomic_sub_fetch(&s->refs, 1, __ATOMIC_ACQ_REL)) return;
    data_dispose(s, s->data);
    storage_delete(s);
}
