/* pt2_again.c: a PT2 archive written again from one that was read.
 *
 * New layout: member by member, in order, stored and aligned to 64 bytes as PyTorch does it; the members that hold
 * weights come from the program's tensors, and whatever else is there stays. Old layout: the program is saved. */
#include "archive/json.h"
#include "export/program.h"

static bool is_old(const cr_zip *zip) { return cr_zip_find(zip, "serialized_exported_program.json") != NULL; }

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

static cr_status read_owner(const cr_json *config, const char *tensor, size_t i, cr_map *owners) {
    const cr_json *entry;
    const char *name;
    bool pickled;
    CR_TRY(cr_json_get(config, tensor, CR_JSON_OBJECT, &entry));
    CR_TRY(cr_json_get_string(entry, "path_name", &name));
    CR_TRY(cr_json_get_bool_or(entry, "use_pickle", false, &pickled));
    if (pickled) return CR_FAIL(CR_EUNSUPPORTED, "tensor '%s' is kept as a pickle, which is not written here", tensor);
    return cr_map_put_str(owners, name, i + 1);
}

/* Which member each tensor of the state lies in: path_name -> index in p->state + 1. */
static cr_status read_config(const cr_program *p, cr_map *owners) {
    char *text = NULL;
    cr_arena arena;
    cr_arena_init(&arena);
    cr_status status = CR_OK;
    const char *path = cr_arena_printf(&arena, "data/weights/%s_weights_config.json", p->name);
    const cr_zip_member *m = path ? cr_pt2_find(p->archive, path) : NULL;
    const cr_json *root, *config;
    if (!path) status = CR_ENOMEM;
    if (!m) goto out; /* a program without state has none */
    CR_TRY_OUT(cr_zip_read(p->archive, m, m->size, &text));
    CR_TRY_OUT(cr_json_parse(&arena, text, m->size, &root));
    CR_TRY_OUT(cr_json_get(root, "config", CR_JSON_OBJECT, &config));
    for (size_t i = 0; i < p->nstate; i++) CR_TRY_OUT(read_owner(config, p->state[i].name, i, owners));
out:
    if (status && status != CR_ENOMEM) status = cr_error_context(status, "%s", path);
    cr_free(text);
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

static cr_status write_member(const cr_program *p, const cr_map *owners, const cr_zip_member *m, cr_zip_writer *w) {
    const cr_tensor *weight = weight_of(p, owners, m);
    if (m->name[0] && m->name[strlen(m->name) - 1] == '/') return CR_OK; /* a folder */
    if (!weight || !m->size) return copy_member(w, p->archive, m, m->name);
    if (weight->storage->bytes < (int64_t)m->size)
        return CR_FAIL(CR_EFORMAT, "member '%s' has %llu bytes, its tensors %lld", m->name, (unsigned long long)m->size,
                       (long long)weight->storage->bytes);
    return cr_zip_writer_add(w, m->name, weight->storage->data, m->size);
}

static cr_status write_new(const cr_program *p, cr_zip_writer *w, cr_status (*step)(void *user, uint64_t bytes),
                           void *user) {
    cr_map owners;
    cr_map_init(&owners);
    cr_status status = read_config(p, &owners);
    for (size_t i = 0; i < cr_zip_count(p->archive) && !status; i++) {
        const cr_zip_member *m = cr_zip_at(p->archive, i);
        status = write_member(p, &owners, m, w);
        if (!status && step) status = step(user, m->size);
    }
    cr_map_dispose(&owners);
    return status;
}

/* ---- old layout to new ---- */

/* The members extra_files/NAME as extra files; *copies are the inflated ones, to be freed. */
static cr_status find_extra(cr_zip *zip, struct cr_extra_file *extra, char **copies, size_t *n) {
    static const char extra_folder[] = "extra_files/";
    for (size_t i = 0; i < cr_zip_count(zip); i++) {
        const cr_zip_member *m = cr_zip_at(zip, i);
        const char *name = m->name + sizeof extra_folder - 1;
        if (strncmp(m->name, extra_folder, sizeof extra_folder - 1) || !*name || name[strlen(name) - 1] == '/')
            continue;
        extra[*n] = (struct cr_extra_file){ .name = name, .size = m->size };
        CR_TRY(member_bytes(zip, m, &extra[*n].data, &copies[*n]));
        ++*n;
    }
    return CR_OK;
}

static cr_status write_old(const cr_program *p, const char *path) {
    size_t count = cr_zip_count(p->archive) + 1, n = 0;
    struct cr_extra_file *extra = cr_calloc(count, sizeof *extra);
    char **copies = cr_calloc(count, sizeof *copies);
    cr_status status = extra && copies ? find_extra(p->archive, extra, copies, &n) : CR_ENOMEM;
    cr_save_options options = { .struct_size = sizeof options, .name = p->name, .extra = extra, .nextra = n };
    if (!status) status = cr_program_save(p, path, &options);
    for (size_t i = 0; copies && i < n; i++) cr_free(copies[i]);
    cr_free(copies);
    cr_free(extra);
    return status;
}

cr_status cr_program_save_again(const cr_program *p, const char *path, cr_status (*step)(void *user, uint64_t bytes),
                                void *user) {
    cr_zip_writer *w = NULL;
    if (!p->archive) return CR_FAIL(CR_EVALUE, "the program was not loaded from an archive; use cr_program_save");
    if (is_old(p->archive)) return write_old(p, path);
    CR_TRY(cr_zip_writer_create(path, 64, &w));
    cr_status status = write_new(p, w, step, user);
    if (!status) return cr_zip_writer_finish(w);
    cr_zip_writer_abandon(w);
    return status;
}
