/* Writing safetensors: the table of contents first, then the data in the same order, to a file or a sink.
 *
 * Sizes are known before the data are, so one pass does it, and no tensor has to be in memory before its turn comes. */
#include "archive/extents.h"
#include "archive/json.h"
#include "archive/safetensors.h"
#include "archive/safetensors_internal.h"
#include "base/utf8.h"

enum { ALIGN = 64, CHUNK = 1 << 24 };

/* ---- the header ---- */

static bool is_utf8(const char *text) {
    const uint8_t *p = (const uint8_t *)text, *end = p + strlen(text);
    for (size_t step; p < end; p += step)
        if (!(step = cr__utf8_step(p, end))) return false;
    return true;
}

static cr_status entry_check(const cr_safetensor *e, cr_map *names) {
    if (!cr__safetensors_type(e->dtype))
        return CR_FAIL(CR_EUNSUPPORTED, "safetensors has no %s", rt_dtype_name(e->dtype));
    uint64_t bytes = (uint64_t)rt_itemsize(e->dtype);
    for (int i = 0; i < e->rank; i++)
        if (e->size[i] < 0 || cr_mul_overflow(bytes, (uint64_t)e->size[i], &bytes))
            return CR_FAIL(CR_EVALUE, "its sizes have no product");
    if (bytes != e->bytes)
        return CR_FAIL(CR_EVALUE, "%llu bytes were given, dtype and sizes need %llu", (unsigned long long)e->bytes,
                       (unsigned long long)bytes);
    if (!strcmp(e->name, "__metadata__") || !is_utf8(e->name)) return CR_FAIL(CR_EVALUE, "the name cannot be used");
    if (cr_map_find_str(names, e->name, NULL)) return CR_FAIL(CR_EVALUE, "the name occurs twice");
    return cr_map_put_str(names, e->name, 0);
}

static void header_write(const cr_safetensor *entries, const cr__extent *order, size_t n, const char *const *metadata,
                         cr_str *out) {
    cr_json_writer w;
    uint64_t at = 0;
    cr_json_writer_init(&w, out, 0);
    cr_json_open(&w, '{');
    if (metadata) {
        cr_json_key(&w, "__metadata__");
        cr_json_open(&w, '{');
        for (; metadata[0]; metadata += 2) {
            cr_json_key(&w, metadata[0]);
            cr_json_string(&w, metadata[1], strlen(metadata[1]));
        }
        cr_json_close(&w, '}');
    }
    for (size_t i = 0; i < n; i++) {
        const cr_safetensor *e = &entries[order[i].index];
        cr_json_key(&w, e->name);
        cr_json_open(&w, '{');
        cr_json_key(&w, "dtype");
        cr_json_string(&w, cr__safetensors_type(e->dtype), strlen(cr__safetensors_type(e->dtype)));
        cr_json_key(&w, "shape");
        cr_json_open(&w, '[');
        for (int d = 0; d < e->rank; d++) cr_json_int(&w, e->size[d]);
        cr_json_close(&w, ']');
        cr_json_key(&w, "data_offsets");
        cr_json_open(&w, '[');
        cr_json_int(&w, (int64_t)at);
        cr_json_int(&w, (int64_t)(at += e->bytes));
        cr_json_close(&w, ']');
        cr_json_close(&w, '}');
    }
    cr_json_close(&w, '}');
    while ((8 + out->n) % ALIGN && !out->failed) cr_str_addc(out, ' ');
}

/* ---- the data ---- */

typedef struct writer {
    cr_file_writer *file; /* NULL: the sink */
    cr_sink sink;
    const cr_safetensors_source *source;
} writer;

static cr_status put(writer *w, const void *data, uint64_t size) {
    const uint8_t *at = data;
    for (uint64_t done = 0; done < size;) {
        size_t n = (size_t)CR_MIN(size - done, (uint64_t)CHUNK);
        CR_TRY(w->file ? cr_file_writer_write(w->file, at + done, n) : w->sink.write(w->sink.user, at + done, n));
        done += n;
        if (done >= CHUNK && w->source->step) CR_TRY(w->source->step(w->source->user));
    }
    return CR_OK;
}

static cr_status put_tensor(writer *w, const cr_safetensor *e, size_t i) {
    const void *data = e->data;
    if (e->bytes && !data) {
        if (!w->source->fill) return CR_FAIL(CR_EVALUE, "tensor '%.100s' has no data", e->name);
        CR_TRY(w->source->fill(w->source->user, i, &data));
    }
    return put(w, data, e->bytes);
}

static cr_status put_all(writer *w, const cr_str *header, const cr_safetensor *entries, const cr__extent *order,
                         size_t n) {
    uint8_t length[8];
    for (int i = 0; i < 8; i++) length[i] = (uint8_t)((uint64_t)header->n >> 8 * i);
    CR_TRY(put(w, length, sizeof length));
    CR_TRY(put(w, header->at, header->n));
    for (size_t i = 0; i < n; i++) CR_TRY(put_tensor(w, &entries[order[i].index], order[i].index));
    return CR_OK;
}

/* path NULL: to the sink. */
static cr_status write_all(const char *path, writer *w, const cr_safetensor *entries, size_t n,
                           const char *const *metadata) {
    cr_map names;
    cr_map_init(&names);
    cr_str header = {0};
    cr__extent *order = cr_alloc(n * sizeof *order);
    cr_status status = order ? CR_OK : CR_ENOMEM;
    uint64_t total = 0;
    for (size_t i = 0; i < n && !status; i++) {
        status = cr_error_context(entry_check(&entries[i], &names), "tensor '%.100s'", entries[i].name);
        if (!status && (cr_add_overflow(total, entries[i].bytes, &total) || total > INT64_MAX))
            status = CR_FAIL(CR_EVALUE, "the tensors are too large together");
        order[i] = (cr__extent){.begin = 16 - (uint64_t)rt_itemsize(entries[i].dtype), .index = (uint32_t)i};
    }
    if (status) goto out;
    cr__extents_sort(order, n);
    header_write(entries, order, n, metadata, &header);
    CR_TRY_OUT(cr_str_status(&header));
    if (header.n > CR__SAFETENSORS_HEADER) {
        status = CR_FAIL(CR_EVALUE, "a header of %zu bytes; the format allows 100 MB", header.n);
        goto out;
    }
    if (path) CR_TRY_OUT(cr_file_writer_create(path, &w->file));
    CR_TRY_OUT(put_all(w, &header, entries, order, n));
    if (path) status = cr_file_writer_finish(w->file);
    w->file = NULL;
out:
    cr_file_writer_abandon(w->file);
    cr_str_dispose(&header);
    cr_map_dispose(&names);
    cr_free(order);
    return status;
}

static const cr_safetensors_source plain;

cr_status cr_safetensors_write(const char *path, const cr_safetensor *entries, size_t n, const char *const *metadata) {
    return cr_safetensors_write_from(path, entries, n, metadata, &plain);
}

cr_status cr_safetensors_write_from(const char *path, const cr_safetensor *entries, size_t n,
                                    const char *const *metadata, const cr_safetensors_source *source) {
    writer w = {.source = source};
    return write_all(path, &w, entries, n, metadata);
}

cr_status cr_safetensors_write_to(cr_sink sink, const cr_safetensor *entries, size_t n, const char *const *metadata,
                                  const cr_safetensors_source *source) {
    writer w = {.sink = sink, .source = source};
    return write_all(NULL, &w, entries, n, metadata);
}
