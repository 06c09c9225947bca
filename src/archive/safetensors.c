/* safetensors: a table of contents in JSON, then all data without gaps.
 *
 * After opening, every entry's [data, data + bytes) lies inside the file and belongs to it alone, and bytes is the
 * product of its sizes and its width. */
#include "archive/safetensors.h"
#include "archive/extents.h"
#include "archive/json.h"
#include "archive/safetensors_internal.h"

#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

static const struct { const char *name; int dtype; } types[] = {
    { "BOOL", RT_BOOL },
    { "U8", RT_U8 },
    { "I8", RT_I8 },
    { "I16", RT_I16 },
    { "U16", RT_U16 },
    { "I32", RT_I32 },
    { "U32", RT_U32 },
    { "I64", RT_I64 },
    { "U64", RT_U64 },
    { "F16", RT_F16 },
    { "BF16", RT_BF16 },
    { "F32", RT_F32 },
    { "F64", RT_F64 },
    { "C64", RT_C64 },
    { "F8_E4M3", RT_F8E4M3FN },
    { "F8_E5M2", RT_F8E5M2 },
    { "F8_E4M3FNUZ", RT_F8E4M3FNUZ },
    { "F8_E5M2FNUZ", RT_F8E5M2FNUZ },
    { "F8_E8M0", RT_F8E8M0FNU },
};

typedef struct { const char *key, *value; } pair;
struct cr_safetensors {
    _Atomic int refs;
    cr_mapping mapping;
    const uint8_t *data;
    size_t size;
    cr_safetensor *entries;
    pair *metadata;
    size_t n, pairs;
    cr_map index; /* entry by name_key; of names that share one, the last */
    uint64_t seed;
    cr_arena texts;
};

/* ---- reading ---- */

/* Seeded, so that nobody can prepare a file whose names all collide. */
static uint64_t name_key(const cr_safetensors *s, const char *name) { return cr_hash(name, strlen(name), s->seed); }

static cr_status dtype_parse(const cr_json *info, int *dtype) {
    const char *name = NULL;
    CR_TRY(cr_json_get_string(info, "dtype", &name));
    for (size_t i = 0; i < CR_COUNT(types); i++) {
        if (strcmp(types[i].name, name)) continue;
        *dtype = types[i].dtype;
        return CR_OK;
    }
    return CR_FAIL(CR_EUNSUPPORTED, "dtype '%.40s' is not known here", name);
}

static cr_status shape_parse(const cr_json *info, cr_safetensor *t) {
    const cr_json *shape = NULL;
    CR_TRY(cr_json_get(info, "shape", CR_JSON_ARRAY, &shape));
    if (shape->n > RT_MAX_RANK)
        return CR_FAIL(CR_EUNSUPPORTED, "'shape' has %u dimensions; at most %d are supported", shape->n,
                       (int)RT_MAX_RANK);
    t->rank = (int)shape->n;
    int64_t bytes = rt_itemsize(t->dtype);
    bool empty = false;
    for (uint32_t i = 0; i < shape->n; i++) {
        const cr_json *size = &shape->u.items[i];
        if (size->kind != CR_JSON_INT || size->u.i < 0)
            return CR_FAIL(CR_EFORMAT, "'shape' holds something else than sizes");
        t->size[i] = size->u.i;
        empty |= size->u.i == 0;
        /* The sizes that are not 0 must have a product: who multiplies them later cannot overflow. */
        if (size->u.i && cr_mul_overflow(bytes, size->u.i, &bytes))
            return CR_FAIL(CR_EFORMAT, "'shape' is larger than any memory");
    }
    t->bytes = empty ? 0 : (uint64_t)bytes;
    return CR_OK;
}

static cr_status tensor_parse(const cr_json *info, uint64_t data_size, cr_safetensor *t, cr__extent *extent) {
    if (info->kind != CR_JSON_OBJECT)
        return CR_FAIL(CR_EFORMAT, "found %s, expected an object with dtype, shape and data_offsets",
                       cr_json_kind_name(info->kind));
    if (info->n != 3) {
        for (uint32_t i = 0; i < info->n; i++)
            if (strcmp(info->u.members[i].key, "dtype") && strcmp(info->u.members[i].key, "shape") &&
                strcmp(info->u.members[i].key, "data_offsets"))
                return CR_FAIL(CR_EFORMAT, "unknown field '%.40s'", info->u.members[i].key);
    }
    CR_TRY(dtype_parse(info, &t->dtype));
    CR_TRY(shape_parse(info, t));
    const cr_json *offsets = NULL;
    CR_TRY(cr_json_get(info, "data_offsets", CR_JSON_ARRAY, &offsets));
    const cr_json *at = offsets->u.items;
    if (offsets->n != 2 || at[0].kind != CR_JSON_INT || at[1].kind != CR_JSON_INT || at[0].u.i < 0 ||
        at[1].u.i < at[0].u.i)
        return CR_FAIL(CR_EFORMAT, "'data_offsets' is not a pair of ascending offsets");
    extent->begin = (uint64_t)at[0].u.i;
    extent->end = (uint64_t)at[1].u.i;
    if (extent->end > data_size)
        return CR_FAIL(CR_EFORMAT, "its data end at %llu, but there are %llu bytes", (unsigned long long)extent->end,
                       (unsigned long long)data_size);
    if (extent->end - extent->begin != t->bytes)
        return CR_FAIL(CR_EFORMAT, "its data have %llu bytes, dtype and shape need %llu",
                       (unsigned long long)(extent->end - extent->begin), (unsigned long long)t->bytes);
    return CR_OK;
}

static cr_status metadata_parse(cr_safetensors *s, const cr_json *metadata) {
    if (metadata->kind != CR_JSON_OBJECT)
        return CR_FAIL(CR_EFORMAT, "'__metadata__' is %s, expected an object", cr_json_kind_name(metadata->kind));
    s->metadata = cr_arena_calloc(&s->texts, metadata->n, sizeof *s->metadata);
    if (!s->metadata) return CR_ENOMEM;
    for (uint32_t i = 0; i < metadata->n; i++) {
        const char *key = metadata->u.members[i].key, *value = NULL;
        cr_status status = cr_json_get_string(metadata, key, &value);
        if (status) return cr_error_context(status, "'__metadata__'");
        s->metadata[i] = (pair){cr_arena_strdup(&s->texts, key), cr_arena_strdup(&s->texts, value)};
        if (!s->metadata[i].key || !s->metadata[i].value) return CR_ENOMEM;
        s->pairs++;
    }
    return CR_OK;
}

/* All entries, in the order of their data, which must be exactly one after another. */
static cr_status table_parse(cr_safetensors *s, const cr_json *table, const uint8_t *data, uint64_t data_size) {
    cr_safetensor *listed = cr_calloc(table->n, sizeof *listed); /* in the header's order */
    cr__extent *extents = cr_alloc(table->n * sizeof *extents);
    cr_status status = CR_OK;
    size_t n = 0;
    s->entries = cr_calloc(table->n, sizeof *s->entries);
    CR_TRY_OUT(listed && extents && s->entries ? CR_OK : CR_ENOMEM);
    for (uint32_t i = 0; i < table->n; i++) {
        const cr_json_member *m = &table->u.members[i];
        if (!strcmp(m->key, "__metadata__")) {
            CR_TRY_OUT(metadata_parse(s, &m->value));
            continue;
        }
        listed[n].name = cr_arena_strdup(&s->texts, m->key);
        CR_TRY_OUT(listed[n].name ? CR_OK : CR_ENOMEM);
        extents[n].index = (uint32_t)n;
        status = tensor_parse(&m->value, data_size, &listed[n], &extents[n]);
        if (status) {
            status = cr_error_context(status, "tensor '%.100s'", m->key);
            goto out;
        }
        n++;
    }
    cr__extents_sort(extents, n);
    uint64_t end = 0;
    for (size_t i = 0; i < n; i++) {
        cr_safetensor *t = &s->entries[i];
        *t = listed[extents[i].index];
        if (extents[i].begin != end) {
            status = CR_FAIL(CR_EFORMAT, "tensor '%.100s': its data begin at %llu, %s at %llu", t->name,
                             (unsigned long long)extents[i].begin,
                             extents[i].begin < end ? "inside those before, which end" : "after a gap",
                             (unsigned long long)end);
            goto out;
        }
        end = extents[i].end;
        t->data = (uint8_t *)(uintptr_t)(data + extents[i].begin);
        uint64_t key = name_key(s, t->name);
        CR_TRY_OUT(cr_map_put(&s->index, &key, sizeof key, i));
    }
    s->n = n;
    if (end != data_size)
        status = CR_FAIL(CR_EFORMAT, "%llu bytes at the end belong to no tensor",
                         (unsigned long long)(data_size - end));
out:
    cr_free(listed);
    cr_free(extents);
    return status;
}

static cr_status contents_parse(cr_safetensors *s) {
    if (s->size < 8) return CR_FAIL(CR_EFORMAT, "not a safetensors file: %zu bytes are too few", s->size);
    uint64_t length = 0;
    for (int i = 7; i >= 0; i--) length = length << 8 | s->data[i];
    if (length > CR__SAFETENSORS_HEADER)
        return CR_FAIL(CR_EFORMAT,
                       "not a safetensors file, or damaged: a header of %llu bytes; at most 100 MB are accepted",
                       (unsigned long long)length);
    if (length > s->size - 8)
        return CR_FAIL(CR_EFORMAT, "truncated: a header of %llu bytes, and %zu are there", (unsigned long long)length,
                       s->size - 8);
    const char *text = (const char *)s->data + 8;
    if (!length || text[0] != '{') return CR_FAIL(CR_EFORMAT, "not a safetensors file: its header is no JSON object");
    cr_arena arena;
    cr_arena_init(&arena);
    const cr_json *table = NULL;
    cr_status status = cr_error_context(cr_json_parse(&arena, text, (size_t)length, &table), "header");
    if (!status) status = table_parse(s, table, s->data + 8 + length, s->size - 8 - length);
    cr_arena_dispose(&arena);
    return status;
}

cr_status cr_safetensors_open_memory(const void *data, size_t size, cr_safetensors **out) {
    cr_safetensors *s = cr_calloc(1, sizeof *s);
    if (!s) return CR_ENOMEM;
    s->refs = 1;
    s->data = data;
    s->size = size;
    uintptr_t seeds[2] = {(uintptr_t)s, (uintptr_t)&seeds};
    s->seed = cr_hash(seeds, sizeof seeds, (uint64_t)getpid());
    cr_status status = contents_parse(s);
    if (status) cr_safetensors_release(s);
    else *out = s;
    return status;
}

cr_status cr_safetensors_open(const char *path, cr_safetensors **out) {
    cr_mapping mapping;
    int fd;
    CR_TRY(cr_mapping_open_private(&mapping, path, &fd));
    close(fd);
    cr_safetensors *s = NULL;
    cr_status status = cr_safetensors_open_memory(mapping.data, mapping.size, &s);
    if (status) {
        cr_mapping_close(&mapping);
        return cr_error_context(status, "%s", path);
    }
    s->mapping = mapping;
    *out = s;
    return CR_OK;
}

void cr_safetensors_retain(cr_safetensors *s) { atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed); }

void cr_safetensors_release(cr_safetensors *s) {
    if (!s || atomic_fetch_sub(&s->refs, 1) != 1) return;
    cr_mapping_close(&s->mapping);
    cr_map_dispose(&s->index);
    cr_arena_dispose(&s->texts);
    cr_free(s->entries);
    cr_free(s);
}

size_t cr_safetensors_count(const cr_safetensors *s) { return s->n; }

const cr_safetensor *cr_safetensors_at(const cr_safetensors *s, size_t i) { return &s->entries[i]; }

const cr_safetensor *cr_safetensors_find(const cr_safetensors *s, const char *name) {
    uint64_t key = name_key(s, name), found;
    if (!cr_map_find(&s->index, &key, sizeof key, &found)) return NULL;
    if (!strcmp(s->entries[found].name, name)) return &s->entries[found];
    for (size_t i = 0; i < s->n; i++)
        if (!strcmp(s->entries[i].name, name)) return &s->entries[i];
    return NULL;
}

size_t cr_safetensors_metadata_count(const cr_safetensors *s) { return s->pairs; }

void cr_safetensors_metadata(const cr_safetensors *s, size_t i, const char **key, const char **value) {
    *key = s->metadata[i].key;
    *value = s->metadata[i].value;
}

const char *cr__safetensors_type(int dtype) {
    for (size_t i = 0; i < CR_COUNT(types); i++)
        if (types[i].dtype == dtype) return types[i].name;
    return NULL;
}
