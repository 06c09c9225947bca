/* pt2_write_state.c: the tensors of a program as members of an archive, one a storage.
 *
 * Names on one storage share its member, so tied weights and views stay what they are. A storage that still is the
 * mapped member of an archive, unchanged, is copied from file to file by the kernel and never enters this process's
 * memory; others are written from where they lie. */
#include "export/pt2_write.h"

/* ---- members ---- */

static cr_status member_name(const cr__archive *a, const char *format, va_list args, cr_str *out) {
    cr_str_init(out);
    cr_str_addf(out, "%s/", a->top);
    cr_str_addv(out, format, args);
    return cr_str_status(out);
}

/* Two numbers from names and checksums: the same content has the same id. */
static void note(cr__archive *a, const cr_str *name) {
    uint32_t crc = cr_zip_writer_last_crc(a->zip);
    a->id[0] = cr_hash(name->at, name->n, a->id[0]);
    a->id[1] = cr_hash(&crc, sizeof crc, a->id[1]);
}

cr_status cr__archive_add(cr__archive *a, const void *data, size_t size, const char *format, ...) {
    cr_str name;
    va_list args;
    va_start(args, format);
    cr_status status = member_name(a, format, args, &name);
    va_end(args);
    if (!status) status = cr_zip_writer_add(a->zip, cr_str_get(&name), data, size);
    if (!status) note(a, &name);
    cr_str_dispose(&name);
    return status;
}

cr_status cr__archive_copy(cr__archive *a, const cr_zip *zip, const cr_zip_member *m, const char *format, ...) {
    cr_str name;
    va_list args;
    va_start(args, format);
    cr_status status = member_name(a, format, args, &name);
    va_end(args);
    if (!status) status = cr_zip_writer_copy(a->zip, cr_str_get(&name), zip, m);
    if (!status) note(a, &name);
    cr_str_dispose(&name);
    return status;
}

/* ---- storages ---- */

static const cr_zip *archive_of(const cr_program *p) {
    while (p && !p->archive) p = p->base;
    return p ? p->archive : NULL;
}

static cr_status check_tensor(const cr_tensor *t) {
    if (t->storage->fake)
        return CR_FAIL(CR_EVALUE, "it has no data, only a shape: the program was loaded without its weights");
    if (t->meta.flags & (CR_META_CONJ | CR_META_NEG))
        return CR_FAIL(CR_EUNSUPPORTED, "it is a conjugated or negated view, which archives cannot hold: store its "
                                        "values (resolve_conj)");
    if (t->meta.device.type != CR_CPU) return CR_FAIL(CR_EUNSUPPORTED, "it is not in the CPU's memory");
    return CR_OK;
}

static cr_status write_storage(const cr_program *p, cr__archive *a, const cr_storage *s, const char *folder,
                               const char *stem, size_t number) {
    const cr_zip *in = NULL;
    const cr_zip_member *m = s->bytes ? cr_zip_find_unchanged(archive_of(p), s->data, (uint64_t)s->bytes, &in) : NULL;
    if (m) return cr__archive_copy(a, in, m, "data/%s/%s_%zu", folder, stem, number);
    return cr__archive_add(a, s->bytes ? s->data : "", (size_t)s->bytes, "data/%s/%s_%zu", folder, stem, number);
}

static void write_entry(cr__pt2_writer *w, const cr_named_tensor *t, const char *stem, uint64_t number) {
    cr_json_writer *j = &w->j;
    cr_str path;
    cr_str_init(&path);
    cr_str_addf(&path, "%s_%llu", stem, (unsigned long long)number);
    if (cr_str_status(&path)) cr__writer_fail(w, cr_str_status(&path));
    cr_json_key(j, t->name);
    cr_json_open(j, '{');
    cr__put_text(j, "path_name", cr_str_get(&path));
    cr__put_bool(j, "is_param", t->is_parameter);
    cr__put_bool(j, "use_pickle", false);
    cr_json_key(j, "tensor_meta");
    cr__write_meta(w, &t->tensor->meta);
    cr_json_close(j, '}');
    cr_str_dispose(&path);
}

static cr_status write_tensors(cr__pt2_writer *w, cr__archive *a, const char *folder, const char *stem,
                               const cr_named_tensor *list, size_t n, cr_map *numbers) {
    uint64_t count = 0;
    for (size_t i = 0; i < n; i++) {
        const cr_storage *s = list[i].tensor->storage;
        cr_status status = check_tensor(list[i].tensor);
        if (status) return cr_error_context(status, "tensor '%s'", list[i].name);
        if (cr_map_find(numbers, &s->id, sizeof s->id, NULL)) continue;
        CR_TRY(write_storage(w->p, a, s, folder, stem, (size_t)count));
        CR_TRY(cr_map_put(numbers, &s->id, sizeof s->id, count++));
    }
    return CR_OK;
}

cr_status cr__write_payload(cr__pt2_writer *w, cr__archive *a, const char *folder, const char *stem, const char *config,
                            const cr_named_tensor *list, size_t n) {
    cr_map numbers; /* storage -> number of its member */
    cr_map_init(&numbers);
    cr_status status = write_tensors(w, a, folder, stem, list, n, &numbers);
    if (!status) {
        cr__writer_begin(w);
        cr_json_open(&w->j, '{');
        cr_json_key(&w->j, "config");
        cr_json_open(&w->j, '{');
        for (size_t i = 0; i < n; i++) {
            uint64_t number = 0;
            cr_map_find(&numbers, &list[i].tensor->storage->id, sizeof(uint64_t), &number);
            write_entry(w, &list[i], stem, number);
        }
        cr_json_close(&w->j, '}');
        cr_json_close(&w->j, '}');
        status = cr__writer_status(w);
    }
    if (!status) status = cr__archive_add(a, cr_str_get(&w->text), w->text.n, "data/%s/%s", folder, config);
    cr_map_dispose(&numbers);
    return status;
}
