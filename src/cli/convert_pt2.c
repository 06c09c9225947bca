/* convert_pt2.c: a PT2 archive written again from one that was read.
 *
 * New layout: member by member, in order, stored and aligned to 64 bytes as PyTorch does it; the members that hold weights
 * come from the program's tensors. Old layout: its JSON is a program of the same schema, its example inputs are the same
 * torch.save file; the state and the constants leave their pickle and become raw members with a config, one member a
 * storage, so that tied tensors stay tied. */
#include "cli/convert.h"

#include "archive/json.h"

#include <stdio.h>

/* PyTorch's numbers of dtypes and layouts in its schema. */
static const uint8_t schema_dtype[RT_DTYPE_COUNT] = {
    [RT_U8] = 1, [RT_I8] = 2, [RT_I16] = 3, [RT_I32] = 4, [RT_I64] = 5, [RT_F16] = 6, [RT_F32] = 7, [RT_F64] = 8, [RT_C32] = 9, [RT_C64] = 10,
    [RT_C128] = 11, [RT_BOOL] = 12, [RT_BF16] = 13, [RT_U16] = 28, [RT_F8E4M3FN] = 29, [RT_F8E5M2] = 30, [RT_F8E4M3FNUZ] = 31, [RT_F8E5M2FNUZ] = 32,
    [RT_F8E8M0FNU] = 33, [RT_U32] = 34, [RT_U64] = 35,
};
enum { SCHEMA_STRIDED = 7 };
static const char old_program[] = "serialized_exported_program.json";

bool pt2_is_old(const cr_zip *zip) { return cr_zip_find(zip, old_program) != NULL; }

/* ---- members ---- */

/* Borrowed when it is stored; else inflated into *copy, which the caller frees. */
static cr_status member_bytes(cr_zip *zip, const cr_zip_member *m, const void **data, char **copy) {
    *copy = NULL;
    if (!m->deflated) {
        uint8_t *at;
        CR_TRY(cr_zip_borrow(zip, m, &at));
        *data = at;
        return CR_OK;
    }
    CR_TRY(cr_zip_read(zip, m, m->size, copy));
    *data = *copy;
    return CR_OK;
}

static cr_status copy_member(cr_zip_writer *w, cr_zip *zip, const cr_zip_member *m, const char *name) {
    const void *data;
    char *copy;
    CR_TRY(member_bytes(zip, m, &data, &copy));
    cr_status status = cr_zip_writer_add(w, name, data, m->size);
    cr_free(copy);
    return status;
}

/* ---- new layout ---- */

/* Which member each tensor of the state lies in: path_name -> index in p->state + 1. */
static cr_status read_config(const cr_program *p, cr_map *owners) {
    char *text = NULL;
    cr_arena arena;
    cr_str path;
    cr_arena_init(&arena);
    cr_str_init(&path);
    cr_str_addf(&path, "data/weights/%s_weights_config.json", p->name);
    cr_status status = cr_str_status(&path);
    const cr_zip_member *m = status ? NULL : cr_pt2_find(p->archive, cr_str_get(&path));
    const cr_json *root, *config;
    if (status || !m) goto out; /* a program without state has none */
    CR_TRY_OUT(cr_zip_read(p->archive, m, m->size, &text));
    CR_TRY_OUT(cr_json_parse(&arena, text, m->size, &root));
    CR_TRY_OUT(cr_json_get(root, "config", CR_JSON_OBJECT, &config));
    for (size_t i = 0; i < p->nstate; i++) {
        const cr_json *entry;
        const char *name;
        bool pickled;
        CR_TRY_OUT(cr_json_get(config, p->state[i].name, CR_JSON_OBJECT, &entry));
        CR_TRY_OUT(cr_json_get_string(entry, "path_name", &name));
        CR_TRY_OUT(cr_json_get_bool_or(entry, "use_pickle", false, &pickled));
        if (pickled) {
            status = CR_FAIL(CR_EUNSUPPORTED, "tensor '%s' is kept as a pickle, which is not written here", p->state[i].name);
            goto out;
        }
        CR_TRY_OUT(cr_map_put_str(owners, name, i + 1));
    }
out:
    if (status && status != CR_ENOMEM) status = cr_error_context(status, "%s", cr_str_get(&path));
    cr_free(text);
    cr_str_dispose(&path);
    cr_arena_dispose(&arena);
    return status;
}

/* The tensor of the state whose storage a member is, or NULL. */
static const cr_tensor *weight_of(const cr_program *p, const cr_map *owners, const cr_zip_member *m) {
    const char *below = strchr(m->name, '/'), *folder = "data/weights/";
    uint64_t at;
    if (!below || strncmp(below + 1, folder, strlen(folder))) return NULL;
    return cr_map_find_str(owners, below + 1 + strlen(folder), &at) ? p->state[at - 1].tensor : NULL;
}

static cr_status write_new(const cr_program *p, cr_zip_writer *w) {
    cr_map owners;
    cr_map_init(&owners);
    cr_status status = read_config(p, &owners);
    cli_progress progress;
    cli_progress_begin(&progress, "writing", cr_zip_size(p->archive));
    for (size_t i = 0; i < cr_zip_count(p->archive) && !status; i++) {
        const cr_zip_member *m = cr_zip_at(p->archive, i);
        const cr_tensor *weight = weight_of(p, &owners, m);
        if (m->name[0] && m->name[strlen(m->name) - 1] == '/') continue; /* a folder */
        if (weight && m->size && weight->storage->bytes < (int64_t)m->size)
            status = CR_FAIL(CR_EFORMAT, "member '%s' has %llu bytes, its tensors %lld", m->name, (unsigned long long)m->size, (long long)weight->storage->bytes);
        else if (weight && m->size) status = cr_zip_writer_add(w, m->name, weight->storage->data, m->size);
        else status = copy_member(w, p->archive, m, m->name);
        cli_progress_add(&progress, m->size);
    }
    cli_progress_end(&progress);
    cr_map_dispose(&owners);
    return status;
}

/* ---- old layout to new ---- */

typedef struct output { cr_zip_writer *w; char *top; uint64_t id[2]; } output; /* id: of what was written, for serialization_id */

static cr_status add(output *o, const void *data, size_t size, const char *format, ...) CR_PRINTF(4, 5);
static cr_status add(output *o, const void *data, size_t size, const char *format, ...) {
    cr_str name;
    cr_str_init(&name);
    cr_str_addf(&name, "%s/", o->top);
    va_list args;
    va_start(args, format);
    cr_str_addv(&name, format, args);
    va_end(args);
    cr_status status = cr_str_status(&name);
    if (!status) status = cr_zip_writer_add(o->w, cr_str_get(&name), data, size);
    if (!status) o->id[0] = cr_hash(name.at, name.n, o->id[0]), o->id[1] = cr_hash(&(uint32_t){ cr_crc32(0, data, size) }, 4, o->id[1]);
    cr_str_dispose(&name);
    return status;
}

static void add_sizes(cr_json_writer *j, const char *key, const cr_dim *at, int n) {
    cr_json_key(j, key);
    cr_json_open(j, '[');
    for (int i = 0; i < n; i++) {
        cr_json_open(j, '{');
        cr_json_key(j, "as_int"), cr_json_int(j, at[i]);
        cr_json_close(j, '}');
    }
    cr_json_close(j, ']');
}

static void add_entry(cr_json_writer *j, const cr_named_tensor *t, const char *path) {
    const cr_meta *m = &t->tensor->meta;
    cr_json_key(j, t->name);
    cr_json_open(j, '{');
    cr_json_key(j, "path_name"), cr_json_string(j, path, strlen(path));
    cr_json_key(j, "is_param"), cr_json_bool(j, t->is_parameter);
    cr_json_key(j, "use_pickle"), cr_json_bool(j, false);
    cr_json_key(j, "tensor_meta");
    cr_json_open(j, '{');
    cr_json_key(j, "dtype"), cr_json_int(j, schema_dtype[m->dtype]);
    add_sizes(j, "sizes", m->size, m->rank);
    cr_json_key(j, "requires_grad"), cr_json_bool(j, (m->flags & CR_META_REQUIRES_GRAD) != 0);
    cr_json_key(j, "device");
    cr_json_open(j, '{');
    cr_json_key(j, "type"), cr_json_string(j, "cpu", 3);
    cr_json_key(j, "index"), cr_json_null(j);
    cr_json_close(j, '}');
    add_sizes(j, "strides", m->stride, m->rank);
    cr_json_key(j, "storage_offset");
    cr_json_open(j, '{');
    cr_json_key(j, "as_int"), cr_json_int(j, m->offset);
    cr_json_close(j, '}');
    cr_json_key(j, "layout"), cr_json_int(j, SCHEMA_STRIDED);
    cr_json_close(j, '}');
    cr_json_close(j, '}');
}

/* A member a storage, then the config that says which tensor is where. */
static cr_status write_tensors(output *o, const char *folder, const char *prefix, const char *program, const cr_named_tensor *at, size_t n) {
    cr_map members;
    cr_str text;
    cr_json_writer j;
    cr_map_init(&members);
    cr_str_init(&text);
    cr_json_writer_init(&j, &text, 0);
    cr_json_open(&j, '{');
    cr_json_key(&j, "config");
    cr_json_open(&j, '{');
    cr_status status = CR_OK;
    for (size_t i = 0; i < n && !status; i++) {
        char path[40];
        uint64_t number = members.n;
        const cr_storage *s = at[i].tensor->storage;
        bool there = cr_map_find(&members, &s->id, sizeof s->id, &number);
        snprintf(path, sizeof path, "%s%llu", prefix, (unsigned long long)number);
        add_entry(&j, &at[i], path);
        if (there) continue;
        status = cr_map_put(&members, &s->id, sizeof s->id, number);
        if (!status) status = add(o, s->bytes ? s->data : "", (size_t)s->bytes, "data/%s/%s", folder, path);
    }
    cr_json_close(&j, '}');
    cr_json_close(&j, '}');
    if (!status) status = cr_str_status(&text);
    if (!status) status = add(o, text.at, text.n, "data/%s/%s_%s_config.json", folder, program, folder);
    cr_str_dispose(&text);
    cr_map_dispose(&members);
    return status;
}

static cr_status add_copy(output *o, cr_zip *zip, const cr_zip_member *m, const char *name) {
    const void *data;
    char *copy;
    CR_TRY(member_bytes(zip, m, &data, &copy));
    cr_status status = add(o, data, m->size, "%s", name);
    cr_free(copy);
    return status;
}

static cr_status write_old(const cr_program *p, output *o) {
    cr_zip *zip = p->archive;
    char name[256], id[64];
    const cr_zip_member *example = cr_zip_find(zip, "serialized_example_inputs.pt");
    CR_TRY(write_tensors(o, "weights", "weight_", p->name, p->state, p->nstate));
    CR_TRY(write_tensors(o, "constants", "tensor_", p->name, p->constants, p->nconstants));
    snprintf(name, sizeof name, "models/%s.json", p->name);
    CR_TRY(add_copy(o, zip, cr_zip_find(zip, old_program), name));
    snprintf(name, sizeof name, "data/sample_inputs/%s.pt", p->name);
    if (example && example->size) CR_TRY(add_copy(o, zip, example, name));
    for (size_t i = 0; i < cr_zip_count(zip); i++) {
        const cr_zip_member *m = cr_zip_at(zip, i);
        if (strncmp(m->name, "extra_files/", 12) || !m->name[12]) continue;
        cr_str path;
        cr_str_init(&path);
        cr_str_addf(&path, "extra/%s", m->name + 12);
        cr_status status = cr_str_status(&path);
        if (!status) status = add_copy(o, zip, m, cr_str_get(&path));
        cr_str_dispose(&path);
        CR_TRY(status);
    }
    CR_TRY(add(o, "pt2", 3, "archive_format"));
    CR_TRY(add(o, "0", 1, "archive_version"));
    CR_TRY(add(o, "6\n", 2, ".data/version"));
    CR_TRY(add(o, "little", 6, "byteorder"));
    snprintf(id, sizeof id, "%020llu%020llu", (unsigned long long)o->id[0], (unsigned long long)o->id[1]);
    return add(o, id, 40, ".data/serialization_id");
}

/* "dir/new.pt2" -> "new": the top folder's name. */
static char *stem_of(const char *path) {
    const char *slash = strrchr(path, '/'), *begin = slash ? slash + 1 : path, *dot = strrchr(begin, '.');
    return dot > begin ? cr_strndup(begin, (size_t)(dot - begin)) : cr_strdup("archive");
}

cr_status pt2_write_again(const cr_program *p, const char *path) {
    output o = { .top = stem_of(path) };
    if (!o.top) return CR_ENOMEM;
    cr_status status = cr_zip_writer_create(path, 64, &o.w);
    if (!status) {
        status = pt2_is_old(p->archive) ? write_old(p, &o) : write_new(p, o.w);
        if (status) cr_zip_writer_abandon(o.w);
        else status = cr_zip_writer_finish(o.w);
    }
    cr_free(o.top);
    return status;
}
