/* .npz: every member of a zip parsed as .npy when it is opened. Stored members stay mapped, deflated ones are
 * copies. */
#include "archive/npy.h"

#include <stdatomic.h>

typedef struct { const char *name; cr_npy array; char *copy; } npz_entry; /* copy: the inflated member, or NULL */
struct cr_npz {
    _Atomic int refs;
    cr_zip *zip;
    npz_entry *entries;
    size_t n;
    cr_arena names;
};

static cr_status entry_open(cr_npz *z, const cr_zip_member *m, npz_entry *e) {
    size_t n = strlen(m->name);
    if (n < 4 || strcmp(m->name + n - 4, ".npy")) return CR_FAIL(CR_EFORMAT, "it is no .npy file");
    e->name = cr_arena_strndup(&z->names, m->name, n - 4);
    if (!e->name) return CR_ENOMEM;
    const uint8_t *data;
    if (m->deflated) { /* its size is bounded by what deflate can make of its bytes */
        CR_TRY(cr_zip_read(z->zip, m, m->size, &e->copy));
        data = (const uint8_t *)e->copy;
    } else {
        uint8_t *mapped = NULL;
        CR_TRY(cr_zip_check(z->zip, m));
        CR_TRY(cr_zip_borrow(z->zip, m, &mapped));
        data = mapped;
    }
    return cr_npy_parse(data, (size_t)m->size, &e->array);
}

/* Consumes `zip`. */
static cr_status npz_create(cr_zip *zip, cr_npz **out) {
    cr_npz *z = cr_calloc(1, sizeof *z);
    if (!z) {
        cr_zip_release(zip);
        return CR_ENOMEM;
    }
    z->refs = 1;
    z->zip = zip;
    cr_status status = CR_OK;
    z->entries = cr_calloc(cr_zip_count(zip), sizeof *z->entries);
    CR_TRY_OUT(z->entries ? CR_OK : CR_ENOMEM);
    z->n = cr_zip_count(zip);
    for (size_t i = 0; i < z->n; i++) {
        const cr_zip_member *m = cr_zip_at(zip, i);
        status = entry_open(z, m, &z->entries[i]);
        if (!status) continue;
        /* The zip's own errors name the member already. */
        if (strncmp(cr_error_message(), "member '", 8)) status = cr_error_context(status, "member '%.100s'", m->name);
        goto out;
    }
    *out = z;
    z = NULL;
out:
    cr_npz_release(z);
    return status;
}

cr_status cr_npz_open(const char *path, cr_npz **out) {
    cr_zip *zip = NULL;
    CR_TRY(cr_zip_open(path, &zip));
    return cr_error_context(npz_create(zip, out), "%s", path);
}

cr_status cr_npz_open_memory(const void *data, size_t size, cr_npz **out) {
    cr_zip *zip = NULL;
    CR_TRY(cr_zip_open_memory(data, size, NULL, &zip));
    return npz_create(zip, out);
}

void cr_npz_retain(cr_npz *z) { atomic_fetch_add_explicit(&z->refs, 1, memory_order_relaxed); }

void cr_npz_release(cr_npz *z) {
    if (!z || atomic_fetch_sub(&z->refs, 1) != 1) return;
    for (size_t i = 0; i < z->n; i++) cr_free(z->entries[i].copy);
    cr_free(z->entries);
    cr_arena_dispose(&z->names);
    cr_zip_release(z->zip);
    cr_free(z);
}

size_t cr_npz_count(const cr_npz *z) { return z->n; }

const char *cr_npz_name(const cr_npz *z, size_t i) { return z->entries[i].name; }

const cr_npy *cr_npz_at(const cr_npz *z, size_t i) { return &z->entries[i].array; }

const cr_npy *cr_npz_find(const cr_npz *z, const char *name) {
    for (size_t i = 0; i < z->n; i++)
        if (!strcmp(z->entries[i].name, name)) return &z->entries[i].array;
    return NULL;
}
