/* pt2_state.c: the tensors of an archive: weights, constants, example inputs.
 *
 * Bytes of stored members stay where they are mapped: a storage is a window of the zip and keeps the zip alive. Names
 * with one path share one storage, so tied weights stay tied. Only members that are deflated or badly aligned are
 * copied. With CR_LOAD_META tensors are fake and no byte of a weight is touched. */
#include "export/internal.h"

enum { ALIGNMENT = 8 }; /* what the widest element needs */

/* ---- storages ---- */

static void release_zip(void *user, void *data) {
    (void)data;
    cr_zip_release(user);
}

static cr_status copy_storage(const void *data, uint64_t size, cr_storage **out) {
    CR_TRY(cr_storage_create((int64_t)size, out));
    if (size) memcpy((*out)->data, data, size);
    return CR_OK;
}

static cr_status read_storage(cr_zip *zip, const cr_zip_member *m, cr_storage **out) {
    uint8_t *data = NULL;
    char *copy = NULL;
    if (m->size > INT64_MAX) return CR_FAIL(CR_EFORMAT, "member '%s' is too large", m->name);
    if (m->deflated) {
        CR_TRY(cr_zip_read(zip, m, m->size, &copy));
        cr_status status = copy_storage(copy, m->size, out);
        cr_free(copy);
        return status;
    }
    CR_TRY(cr_zip_borrow(zip, m, &data));
    if ((uintptr_t)data % ALIGNMENT || !m->size) return copy_storage(data, m->size, out);
    CR_TRY(cr_storage_wrap(data, (int64_t)m->size, release_zip, zip, out));
    cr_zip_retain(zip);
    return CR_OK;
}

static cr_status open_storage(cr__reader *r, cr_zip *zip, const cr_zip_member *m, cr_storage **out) {
    return r->flags & CR_LOAD_META ? cr_storage_fake(out) : read_storage(zip, m, out);
}

/* A tensor on a storage; what does not fit is the archive's fault. */
static cr_status put_on(cr_storage *storage, const cr_meta *meta, uint64_t bytes, cr_tensor **out) {
    int64_t need;
    cr_meta on = *meta;
    on.storage = storage->id;
    for (int d = 0; d < meta->rank; d++)
        if (!cr_dim_is_plain(meta->size[d]) || !cr_dim_is_plain(meta->stride[d]))
            return CR_FAIL(CR_EFORMAT, "dimension %d is symbolic; a stored tensor has plain sizes", d);
    cr_status status = cr_dim_is_plain(meta->offset) ? cr_meta_bytes(meta, &need) : CR_ERUNTIME;
    if (status == CR_ENOMEM) return status;
    if (status || (uint64_t)need > bytes)
        return CR_FAIL(CR_EFORMAT, "the tensor reaches beyond the %llu bytes that are stored",
                       (unsigned long long)bytes);
    return cr_tensor_on(storage, &on, NULL, NULL, out);
}

/* ---- torch.save files ---- */

/* storages: key -> cr_storage, held */
typedef struct torch_reader { cr__reader *r; cr_torch_file *file; cr_map storages; } torch_reader;

static cr_status torch_open(cr__reader *r, const cr_zip_member *m, torch_reader *t) {
    uint8_t *data;
    cr_zip *inner = NULL;
    *t = (torch_reader){ .r = r };
    cr_map_init(&t->storages);
    if (m->deflated)
        return CR_FAIL(CR_EUNSUPPORTED, "it is compressed; torch.save files inside an archive must be stored");
    CR_TRY(cr_zip_check(r->zip, m));
    CR_TRY(cr_zip_borrow(r->zip, m, &data));
    CR_TRY(cr_zip_open_memory(data, m->size, r->zip, &inner));
    cr_status status = cr_torch_open(inner, &t->file);
    cr_zip_release(inner);
    return status;
}

static void torch_close(torch_reader *t) {
    uint64_t storage;
    for (size_t i = 0; cr_map_next(&t->storages, &i, &(const void *){ NULL }, &(size_t){ 0 }, &storage);)
        cr_storage_release((cr_storage *)(uintptr_t)storage);
    cr_map_dispose(&t->storages);
    cr_torch_release(t->file);
}

static cr_status torch_tensor(torch_reader *t, const cr_pickle_tensor *p, cr_tensor **out) {
    uint64_t found = 0;
    const cr_zip_member *m = cr_torch_member(t->file, p->storage);
    if (p->rank > CR_MAX_RANK)
        return CR_FAIL(CR_EUNSUPPORTED, "%d dimensions; at most %d are supported", p->rank, CR_MAX_RANK);
    if (!cr_map_find_str(&t->storages, p->storage->key, &found)) {
        cr_storage *s = NULL;
        CR_TRY(open_storage(t->r, cr_torch_zip(t->file), m, &s));
        found = (uint64_t)(uintptr_t)s;
        cr_status status = cr_map_put_str(&t->storages, p->storage->key, found);
        if (status) return cr_storage_release(s), status;
    }
    cr_meta meta;
    cr_meta_init(&meta, p->dtype, (cr_device){ CR_CPU, -1 });
    meta.rank = (uint8_t)p->rank;
    meta.offset = p->offset;
    for (int d = 0; d < p->rank; d++) {
        meta.size[d] = p->size[d];
        meta.stride[d] = p->stride[d];
    }
    meta.flags = (uint8_t)((p->requires_grad ? CR_META_REQUIRES_GRAD : 0) | (p->conj ? CR_META_CONJ : 0) |
                           (p->neg ? CR_META_NEG : 0));
    return put_on((cr_storage *)(uintptr_t)found, &meta, m->size, out);
}

cr_status cr__read_torch_dict(cr__reader *r, const cr_zip_member *m, const cr_named_tensor **out, size_t *n) {
    torch_reader t;
    cr_status status = CR_OK;
    CR_TRY_OUT(torch_open(r, m, &t));
    const cr_pickle *root = cr_torch_root(t.file);
    if (root->kind != CR_PICKLE_DICT && root->kind != CR_PICKLE_ORDERED_DICT)
        CR_TRY_OUT(CR_FAIL(CR_EFORMAT, "it holds no dict of tensors"));
    cr_named_tensor *list = cr_arena_calloc(&r->p->arena, root->n / 2 + 1u, sizeof *list);
    if (!list) CR_TRY_OUT(CR_ENOMEM);
    *out = list;
    for (uint32_t i = 0; i + 1 < root->n; i += 2) {
        const cr_pickle *key = root->u.items[i], *value = root->u.items[i + 1];
        if (key->kind != CR_PICKLE_STRING || value->kind != CR_PICKLE_TENSOR)
            CR_TRY_OUT(CR_FAIL(CR_EFORMAT, "entry %u is not a tensor with a name", i / 2));
        CR_TRY_OUT(cr__keep_text(r, key->u.s, &list[*n].name));
        status = torch_tensor(&t, value->u.tensor, &list[*n].tensor);
        if (status) {
            status = cr_error_context(status, "'%s'", key->u.s);
            goto out;
        }
        list[(*n)++].is_parameter = value->u.tensor->is_parameter;
    }
out:
    torch_close(&t);
    return status ? cr_error_context(status, "%s", m->name) : CR_OK;
}

/* ---- weights and constants by their config ---- */

typedef struct payload { cr__reader *r; const char *folder; cr_map storages; cr_map sizes; } payload;

static cr_status payload_member(payload *p, const char *path, const cr_zip_member **out) {
    const char *name = cr_arena_printf(&p->r->scratch, "data/%s/%s", p->folder, path);
    if (!name) return CR_ENOMEM;
    *out = cr_pt2_find(p->r->zip, name);
    return *out ? CR_OK : CR_FAIL(CR_EFORMAT, "member '%s' is missing", name);
}

static cr_status pickled_payload(payload *p, const cr_zip_member *m, cr_tensor **out) {
    torch_reader t;
    cr_status status = torch_open(p->r, m, &t);
    if (!status) {
        const cr_pickle *root = cr_torch_root(t.file);
        status = root->kind == CR_PICKLE_TENSOR ? torch_tensor(&t, root->u.tensor, out)
                                                : CR_FAIL(CR_EFORMAT, "it holds no tensor");
    }
    torch_close(&t);
    return status ? cr_error_context(status, "%s", m->name) : CR_OK;
}

static cr_status read_entry(payload *p, const cr_json *value, cr_named_tensor *out) {
    const char *path;
    bool pickled;
    const cr_json *meta_json;
    const cr_zip_member *m;
    uint64_t found = 0;
    cr_meta meta;
    if (value->kind != CR_JSON_OBJECT)
        return CR_FAIL(CR_EFORMAT, "an entry is %s, expected an object", cr_json_kind_name(value->kind));
    CR_TRY(cr_json_get_string(value, "path_name", &path));
    CR_TRY(cr_json_get_bool_or(value, "use_pickle", false, &pickled));
    CR_TRY(cr_json_get_bool_or(value, "is_param", false, &out->is_parameter));
    if (!strncmp(path, "custom_obj", 10))
        return CR_FAIL(CR_EUNSUPPORTED, "it is a script object; programs with such objects cannot run here");
    CR_TRY(payload_member(p, path, &m));
    if (pickled) return pickled_payload(p, m, &out->tensor);
    CR_TRY(cr_json_get(value, "tensor_meta", CR_JSON_OBJECT, &meta_json));
    CR_TRY(cr__read_tensor_meta(p->r, meta_json, &meta));
    meta.device = (cr_device){ CR_CPU, -1 }; /* wherever it was, it is in memory now */
    if (!cr_map_find_str(&p->storages, path, &found)) {
        cr_storage *s = NULL;
        CR_TRY(open_storage(p->r, p->r->zip, m, &s));
        found = (uint64_t)(uintptr_t)s;
        cr_status status = cr_map_put_str(&p->storages, path, found);
        if (status) return cr_storage_release(s), status;
    }
    return put_on((cr_storage *)(uintptr_t)found, &meta, m->size, &out->tensor);
}

cr_status cr__read_payload(cr__reader *r, const char *folder, const cr_json *json, const cr_named_tensor **out,
                           size_t *n) {
    payload p = { .r = r, .folder = folder };
    const cr_json *config;
    uint64_t storage;
    CR_TRY(cr_json_get(json, "config", CR_JSON_OBJECT, &config));
    cr_named_tensor *list = cr_arena_calloc(&r->p->arena, config->n + 1u, sizeof *list);
    if (!list) return CR_ENOMEM;
    cr_map_init(&p.storages);
    *out = list;
    cr_status status = CR_OK;
    for (uint32_t i = 0; i < config->n && !status; i++) {
        const cr_json_member *m = &config->u.members[i];
        status = cr__keep_text(r, m->key, &list[i].name);
        if (!status) status = read_entry(&p, &m->value, &list[i]);
        if (status) status = cr_error_context(status, "config['%s']", m->key);
        else *n = i + 1u;
    }
    for (size_t i = 0; cr_map_next(&p.storages, &i, &(const void *){ NULL }, &(size_t){ 0 }, &storage);)
        cr_storage_release((cr_storage *)(uintptr_t)storage);
    cr_map_dispose(&p.storages);
    return status;
}

/* ---- example inputs ---- */

static cr_status unfit(void) {
    return CR_FAIL(CR_EUNSUPPORTED, "the example inputs have another structure than the program's in_spec");
}

static bool same_key(const cr_tree_key *key, const cr_pickle *p) {
    if (key->kind == CR_KEY_STR) return p->kind == CR_PICKLE_STRING && !strcmp(key->s, p->u.s);
    if (key->kind == CR_KEY_INT) return p->kind == CR_PICKLE_INT && key->i == p->u.i;
    return key->kind == CR_KEY_BOOL && p->kind == CR_PICKLE_BOOL && (key->i != 0) == p->u.b;
}

static cr_status leaf_value(torch_reader *t, const cr_pickle *p, cr_arg *out) {
    switch ((cr_pickle_kind)p->kind) {
    case CR_PICKLE_NONE: *out = cr_arg_none(); return CR_OK;
    case CR_PICKLE_BOOL: *out = cr_arg_bool(p->u.b); return CR_OK;
    case CR_PICKLE_INT:
        if (!cr_dim_is_plain(p->u.i)) return unfit();
        *out = cr_arg_int(p->u.i);
        return CR_OK;
    case CR_PICKLE_FLOAT: *out = cr_arg_float(p->u.f); return CR_OK;
    case CR_PICKLE_COMPLEX: {
        double *c = cr_arena_copy(&t->r->p->arena, p->u.c, sizeof p->u.c);
        *out = (cr_arg){ .kind = CR_ARG_COMPLEX, .given = 1, .u.c = c };
        return c ? CR_OK : CR_ENOMEM;
    }
    case CR_PICKLE_STRING: {
        char *s = cr_arena_strndup(&t->r->p->arena, p->u.s, p->n);
        *out = (cr_arg){ .kind = CR_ARG_STR, .given = 1, .n = p->n, .u.s = s };
        return s ? CR_OK : CR_ENOMEM;
    }
    case CR_PICKLE_TENSOR: {
        cr_tensor *tensor = NULL;
        CR_TRY(torch_tensor(t, p->u.tensor, &tensor));
        *out = cr_arg_tensor(tensor);
        return CR_OK;
    }
    default: return unfit();
    }
}

static cr_status flatten(torch_reader *t, const cr_tree_node *node, const cr_pickle *p, cr_arg *list) {
    cr_program *program = t->r->p;
    bool dict = cr_pickle_is_dict(p->kind);
    bool sequence = p->kind == CR_PICKLE_TUPLE || p->kind == CR_PICKLE_LIST || p->kind == CR_PICKLE_SIZE ||
                    p->kind == CR_PICKLE_DEQUE;
    if (node->kind == CR_TREE_LEAF) {
        CR_TRY(leaf_value(t, p, &list[program->nexample]));
        program->nexample++;
        return CR_OK;
    }
    if (node->kind == CR_TREE_NONE) return p->kind == CR_PICKLE_NONE ? CR_OK : unfit();
    if (!dict && (!sequence || p->n != node->nchildren)) return unfit();
    if (dict && (!node->keys || p->n != 2 * node->nchildren)) return unfit();
    for (uint32_t i = 0; i < node->nchildren; i++) {
        const cr_pickle *child = dict ? NULL : p->u.items[i];
        for (uint32_t k = 0; dict && !child && k < p->n; k += 2)
            if (same_key(&node->keys[i], p->u.items[k])) child = p->u.items[k + 1];
        if (!child) return unfit();
        CR_TRY(flatten(t, &node->children[i], child, list));
    }
    return CR_OK;
}

static void drop_example(cr_program *p) {
    cr_results_release((cr_arg *)p->example, p->nexample); /* the arena's own array */
    p->nexample = 0;
}

/* An example that cannot be read (a class of the user's) leaves the program without one; a damaged one is an error. */
cr_status cr__read_example(cr__reader *r, const cr_zip_member *m) {
    torch_reader t;
    const cr_tree_node *root = cr_tree_root(r->p->in_spec);
    cr_arg *list = cr_arena_calloc(&r->p->arena, root->nleaves + 1u, sizeof *list);
    if (!list) return CR_ENOMEM;
    r->p->example = list;
    cr_status status = torch_open(r, m, &t);
    if (!status) status = flatten(&t, root, cr_torch_root(t.file), list);
    torch_close(&t);
    if (!status) return CR_OK;
    drop_example(r->p);
    if (status != CR_EUNSUPPORTED) return cr_error_context(status, "%s", m->name);
    return cr__keep_text(r, cr_error_message(), &r->p->example_problem);
}
