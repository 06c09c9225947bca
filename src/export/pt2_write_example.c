/* pt2_write_example.c: example inputs as the torch.save file that an archive holds: a zip in the zip, with a pickle of
 * (args, kwargs) and one member a storage.
 *
 * A program that was read has the file already, and it is copied: it may hold classes of the user's. One that was made
 * here gets a pickle of protocol 2, written in one walk over the call structure; objects of a class are made without
 * calling it and get their fields. Where a class cannot be named, or there are no examples, the member is empty, as
 * PyTorch has it. */
#include "export/pt2_write.h"

#include <stdio.h>

typedef struct pickler {
    const cr_program *p;
    const cr_save_options *options;
    cr_str out;
    size_t leaf;             /* of p->example, the next one */
    cr_map keys;             /* storage -> its number */
    CR_VEC(cr_storage *) storages;
    bool unfit;              /* some class has no name that Python could import */
    cr_status status;
} pickler;

/* ---- opcodes ---- */

static void put8(pickler *k, int byte) { cr_str_addc(&k->out, (char)byte); }
static void put32(pickler *k, uint32_t v) {
    for (int i = 0; i < 4; i++) put8(k, (int)(v >> 8 * i & 0xff));
}

static void put_text(pickler *k, const char *s, size_t n) {
    put8(k, 'X');
    put32(k, (uint32_t)n);
    cr_str_addn(&k->out, s, n);
}

static void put_int(pickler *k, int64_t v) {
    if (v >= 0 && v < 256) {
        put8(k, 'K'), put8(k, (int)v);
    } else if (v >= INT32_MIN && v <= INT32_MAX) {
        put8(k, 'J'), put32(k, (uint32_t)(int32_t)v);
    } else {
        put8(k, 0x8a), put8(k, 8); /* LONG1 of eight bytes */
        put32(k, (uint32_t)(uint64_t)v), put32(k, (uint32_t)((uint64_t)v >> 32));
    }
}

static void put_float(pickler *k, double v) { /* big-endian */
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    put8(k, 'G');
    for (int i = 7; i >= 0; i--) put8(k, (int)(bits >> 8 * i & 0xff));
}

static void put_bool(pickler *k, bool b) { put8(k, b ? 0x88 : 0x89); }
static void put_global(pickler *k, const char *module, size_t n, const char *name) {
    cr_str_addf(&k->out, "c%.*s\n%s\n", (int)n, module, name);
}
static void put_known(pickler *k, const char *module, const char *name) { put_global(k, module, strlen(module), name); }

/* ---- tensors ---- */

/* NULL: a dtype that came after the typed storages. */
static const char *storage_class(int dtype) {
    static const char *const names[CR_DTYPE_COUNT] = {
        [CR_U8] = "ByteStorage",          [CR_I8] = "CharStorage",
        [CR_I16] = "ShortStorage",        [CR_I32] = "IntStorage",
        [CR_I64] = "LongStorage",         [CR_F16] = "HalfStorage",
        [CR_F32] = "FloatStorage",        [CR_F64] = "DoubleStorage",
        [CR_C64] = "ComplexFloatStorage", [CR_C128] = "ComplexDoubleStorage",
        [CR_BOOL] = "BoolStorage",        [CR_BF16] = "BFloat16Storage",
    };
    return names[dtype];
}

static void put_storage(pickler *k, const cr_tensor *t) {
    uint64_t number;
    char key[24];
    const char *typed = storage_class(t->meta.dtype);
    if (!cr_map_find(&k->keys, &t->storage->id, sizeof t->storage->id, &number)) {
        number = k->storages.n;
        cr_status status = cr_map_put(&k->keys, &t->storage->id, sizeof t->storage->id, number);
        if (!status) status = cr_vec_push(&k->storages, t->storage);
        if (status && !k->status) k->status = status;
    }
    snprintf(key, sizeof key, "%llu", (unsigned long long)number);
    put8(k, '(');
    put_text(k, "storage", 7);
    if (typed) put_known(k, "torch", typed);
    else put_known(k, "torch.storage", "UntypedStorage");
    put_text(k, key, strlen(key));
    put_text(k, "cpu", 3);
    put_int(k, typed ? t->storage->bytes / rt_itemsize(t->meta.dtype) : t->storage->bytes);
    put8(k, 't');
    put8(k, 'Q');
}

static void put_sizes(pickler *k, const cr_dim *at, int n) {
    put8(k, '(');
    for (int i = 0; i < n; i++) put_int(k, at[i]);
    put8(k, 't');
}

static void put_tensor(pickler *k, const cr_tensor *t) {
    const cr_meta *m = &t->meta;
    bool typed = storage_class(m->dtype) != NULL;
    if (t->storage->fake) {
        if (!k->status) k->status = CR_FAIL(CR_EVALUE, "an example input has no data, only a shape");
        return;
    }
    put_known(k, "torch._utils", typed ? "_rebuild_tensor_v2" : "_rebuild_tensor_v3");
    put8(k, '(');
    put_storage(k, t);
    put_int(k, m->offset);
    put_sizes(k, m->size, m->rank);
    put_sizes(k, m->stride, m->rank);
    put_bool(k, m->flags & CR_META_REQUIRES_GRAD);
    put_known(k, "collections", "OrderedDict");
    put8(k, ')'), put8(k, 'R');
    if (!typed) put_known(k, "torch", cr_dtype_name(m->dtype));
    put8(k, 't'), put8(k, 'R');
}

/* ---- structure ---- */

static void put_leaf(pickler *k) {
    if (k->leaf >= k->p->nexample) {
        if (!k->status) k->status = CR_FAIL(CR_EVALUE, "there are fewer example inputs than the program has inputs");
        return;
    }
    const cr_arg *a = &k->p->example[k->leaf++];
    switch ((cr_arg_kind)a->kind) {
    case CR_ARG_NONE: put8(k, 'N'); break;
    case CR_ARG_TENSOR: put_tensor(k, a->u.t); break;
    case CR_ARG_INT: put_int(k, a->u.i); break;
    case CR_ARG_BOOL: put_bool(k, a->u.i != 0); break;
    case CR_ARG_FLOAT: put_float(k, a->u.f); break;
    case CR_ARG_STR: put_text(k, a->u.s, a->n); break;
    case CR_ARG_DTYPE: put_known(k, "torch", cr_dtype_name((int)a->u.i)); break;
    case CR_ARG_COMPLEX:
        put_known(k, "builtins", "complex");
        put_float(k, a->u.c[0]), put_float(k, a->u.c[1]);
        put8(k, 0x86), put8(k, 'R');
        break;
    default: k->unfit = true;
    }
}

static void put_node(pickler *k, const cr_tree_node *node);

static void put_children(pickler *k, const cr_tree_node *node) {
    put8(k, '(');
    for (uint32_t i = 0; i < node->nchildren; i++) put_node(k, &node->children[i]);
}

static void put_key(pickler *k, const cr_tree_key *key) {
    if (key->kind == CR_KEY_STR) put_text(k, key->s, strlen(key->s));
    else if (key->kind == CR_KEY_INT) put_int(k, key->i);
    else if (key->kind == CR_KEY_BOOL) put_bool(k, key->i != 0);
    else k->unfit = true;
}

static void put_items(pickler *k, const cr_tree_node *node) {
    put8(k, '(');
    for (uint32_t i = 0; i < node->nchildren && node->keys; i++) {
        put_key(k, &node->keys[i]);
        put_node(k, &node->children[i]);
    }
    put8(k, 'u');
}

/* Where Python finds the class that is registered under this name. */
static const char *path_of(const pickler *k, const char *name) {
    for (size_t i = 0; name && i < k->options->nclasses; i++)
        if (!strcmp(k->options->classes[i].name, name)) return k->options->classes[i].path;
    return name;
}

/* "package.module.Class" */
static bool put_class(pickler *k, const char *name) {
    const char *dot = name ? strrchr(name, '.') : NULL;
    if (!dot || strpbrk(name, "\n<>")) return k->unfit = true, false;
    put_global(k, name, (size_t)(dot - name), dot + 1);
    return true;
}

/* Fields that are None are no children; the context lists them: [["a"], ["b"]]. */
static void put_none_fields(pickler *k, const cr_tree_node *node) {
    cr_arena arena;
    const cr_json *context = NULL;
    cr_arena_init(&arena);
    cr_status status = node->context ? cr_json_parse(&arena, node->context, strlen(node->context), &context) : CR_OK;
    if (status == CR_ENOMEM && !k->status) k->status = status;
    const cr_json *none = !status && context && context->kind == CR_JSON_ARRAY && context->n == 2 ? &context->u.items[1]
                                                                                                  : NULL;
    for (uint32_t i = 0; none && none->kind == CR_JSON_ARRAY && i < none->n; i++) {
        if (none->u.items[i].kind != CR_JSON_STRING) continue;
        put_text(k, none->u.items[i].u.s, none->u.items[i].n);
        put8(k, 'N');
    }
    cr_arena_dispose(&arena);
}

/* An object of a class whose fields are known. */
static void put_object(pickler *k, const cr_tree_node *node) {
    if (!node->keys && node->nchildren) {
        k->unfit = true;
        return;
    }
    if (!put_class(k, path_of(k, node->name))) return;
    put8(k, ')'), put8(k, 0x81); /* NEWOBJ without arguments */
    put8(k, '}'), put8(k, '(');
    for (uint32_t i = 0; i < node->nchildren; i++) {
        put_key(k, &node->keys[i]);
        put_node(k, &node->children[i]);
    }
    put_none_fields(k, node);
    put8(k, 'u'), put8(k, 'b'); /* BUILD */
}

static void put_node(pickler *k, const cr_tree_node *node) {
    if (k->unfit || k->status) return;
    switch ((cr_tree_kind)node->kind) {
    case CR_TREE_LEAF: put_leaf(k); break;
    case CR_TREE_NONE: put8(k, 'N'); break;
    case CR_TREE_TUPLE: put_children(k, node), put8(k, 't'); break;
    case CR_TREE_LIST: put8(k, ']'), put_children(k, node), put8(k, 'e'); break;
    case CR_TREE_DICT: put8(k, '}'), put_items(k, node); break;
    case CR_TREE_ORDERED_DICT:
        put_known(k, "collections", "OrderedDict");
        put8(k, ')'), put8(k, 'R');
        put_items(k, node);
        break;
    case CR_TREE_DEFAULT_DICT:
        put_known(k, "collections", "defaultdict");
        if (node->factory && !put_class(k, node->factory)) return;
        if (!node->factory) put8(k, 'N');
        put8(k, 0x85), put8(k, 'R');
        put_items(k, node);
        break;
    case CR_TREE_NAMEDTUPLE:
        if (!put_class(k, path_of(k, node->name))) return;
        put_children(k, node), put8(k, 't');
        put8(k, 0x81); /* NEWOBJ */
        break;
    case CR_TREE_DEQUE:
        put_known(k, "collections", "deque");
        put8(k, ')');
        if (node->maxlen >= 0) put_int(k, node->maxlen), put8(k, 0x86);
        else put8(k, 0x85);
        put8(k, 'R');
        put_children(k, node), put8(k, 'e');
        break;
    case CR_TREE_OTHER: put_object(k, node); break;
    }
}

static void pickle_example(pickler *k) {
    put8(k, 0x80), put8(k, 2);
    put_node(k, cr_tree_root(k->p->in_spec));
    put8(k, '.');
}

/* ---- the file ---- */

static cr_status gather(void *user, const void *data, size_t size) {
    cr_str_addn(user, data, size);
    return cr_str_status(user);
}

static cr_status write_members(const pickler *k, cr_zip_writer *zip) {
    char text[64];
    uint64_t id[2] = { 0, 0 };
    cr__archive inner = { .zip = zip, .top = "archive" };
    CR_TRY(cr__archive_add(&inner, k->out.at, k->out.n, "data.pkl"));
    CR_TRY(cr__archive_add(&inner, "1", 1, ".format_version"));
    CR_TRY(cr__archive_add(&inner, "64", 2, ".storage_alignment"));
    CR_TRY(cr__archive_add(&inner, "little", 6, "byteorder"));
    for (size_t i = 0; i < k->storages.n; i++) {
        const cr_storage *s = k->storages.at[i];
        CR_TRY(cr__archive_add(&inner, s->bytes ? s->data : "", (size_t)s->bytes, "data/%zu", i));
    }
    CR_TRY(cr__archive_add(&inner, "3\n", 2, "version"));
    memcpy(id, inner.id, sizeof id);
    snprintf(text, sizeof text, "%020llu%020llu", (unsigned long long)id[0], (unsigned long long)id[1]);
    return cr__archive_add(&inner, text, strlen(text), ".data/serialization_id");
}

static cr_status write_file(const pickler *k, cr__archive *a, const char *name) {
    cr_str file;
    cr_zip_writer *zip = NULL;
    cr_str_init(&file);
    cr_status status = cr_zip_writer_create_on((cr_sink){ gather, &file }, 64, &zip);
    if (!status) {
        status = write_members(k, zip);
        if (status) cr_zip_writer_abandon(zip);
        else status = cr_zip_writer_finish(zip);
    }
    if (!status) status = cr__archive_add(a, file.at, file.n, "data/sample_inputs/%s.pt", name);
    cr_str_dispose(&file);
    return status;
}

static cr_status write_none(cr__archive *a, const char *name) {
    return cr__archive_add(a, "", 0, "data/sample_inputs/%s.pt", name);
}

static cr_status write_made(const cr_program *p, const cr_save_options *options, cr__archive *a, const char *name) {
    pickler k = { .p = p, .options = options };
    cr_str_init(&k.out);
    cr_map_init(&k.keys);
    pickle_example(&k);
    cr_status status = k.status ? k.status : cr_str_status(&k.out);
    if (!status) status = k.unfit ? write_none(a, name) : write_file(&k, a, name);
    cr_str_dispose(&k.out);
    cr_map_dispose(&k.keys);
    cr_vec_dispose(&k.storages);
    return status;
}

/* The file that the program was read with; NULL: it was made here, or has none. */
static const cr_zip_member *read_member(const cr_program *p) {
    char path[600];
    if (!p->archive) return NULL;
    snprintf(path, sizeof path, "data/sample_inputs/%.512s.pt", p->name);
    const cr_zip_member *m = cr_pt2_find(p->archive, path);
    return m ? m : cr_pt2_find(p->archive, "serialized_example_inputs.pt");
}

cr_status cr__write_example(const cr_program *p, const cr_save_options *options, cr__archive *a, const char *name) {
    while (p->base) p = p->base;
    const cr_zip_member *m = read_member(p);
    if (m && !m->deflated) return cr__archive_copy(a, p->archive, m, "data/sample_inputs/%s.pt", name);
    bool known = p->in_spec && (p->nexample || !cr_tree_root(p->in_spec)->nleaves);
    return known ? write_made(p, options, a, name) : write_none(a, name);
}
