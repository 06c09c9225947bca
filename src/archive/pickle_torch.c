/* torch.save files: a zip with one folder that holds data.pkl, the storages as data/KEY, and a few words about both.
 *
 * Opening reads the pickle and looks up every storage that it mentions, so that whoever holds an open file can take
 * bytes from it without checking again. The bytes themselves are not touched. */
#include "archive/pickle_internal.h"

#include <stdatomic.h>

struct cr_torch_file {
    atomic_long refs;
    cr_arena arena;
    cr_zip *zip;
    const cr_pickle *root;
    const cr_zip_member **members; /* by the storages' index */
    size_t nmembers;
};

/* The member data.pkl and the length of the folder's name before it, slash included. */
static cr_status find_pickle(const cr_zip *zip, const cr_zip_member **out, size_t *prefix) {
    const cr_zip_member *found = NULL;
    for (size_t i = 0; i < cr_zip_count(zip); i++) {
        const cr_zip_member *m = cr_zip_at(zip, i);
        const char *slash = strchr(m->name, '/'), *name = slash ? slash + 1 : m->name;
        if (!strcmp(name, "constants.pkl"))
            return CR_FAIL(CR_EUNSUPPORTED,
                           "'%s': this is a TorchScript archive, not a torch.save file; export the model with "
                           "torch.export.save",
                           m->name);
        if (strcmp(name, "data.pkl")) continue;
        if (found)
            return CR_FAIL(CR_EFORMAT, "two pickles, '%s' and '%s'; a torch.save file has one", found->name, m->name);
        found = m;
        *prefix = (size_t)(name - m->name);
    }
    if (!found) return CR_FAIL(CR_EFORMAT, "the zip has no data.pkl: this is not a torch.save file");
    *out = found;
    return CR_OK;
}

/* The member `folder/name`, or NULL; `folder` are the first `prefix` bytes of `pickle`'s name. */
static cr_status find_beside(const cr_zip *zip, const cr_zip_member *pickle, size_t prefix, const char *name,
                             const cr_zip_member **out) {
    cr_str path = {0};
    cr_str_addn(&path, pickle->name, prefix);
    cr_str_add(&path, name);
    cr_status status = cr_str_status(&path);
    if (!status) *out = cr_zip_find(zip, cr_str_get(&path));
    cr_str_dispose(&path);
    return status;
}

/* A short text member; *out stays "" when it is absent. */
static cr_status read_word(cr_zip *zip, const cr_zip_member *pickle, size_t prefix, const char *name, char *out,
                           size_t room) {
    const cr_zip_member *m;
    char *text;
    *out = 0;
    CR_TRY(find_beside(zip, pickle, prefix, name, &m));
    if (!m) return CR_OK;
    CR_TRY(cr_zip_read(zip, m, 64, &text));
    size_t n = strcspn(text, " \t\r\n");
    if (n >= room) n = room - 1;
    memcpy(out, text, n);
    out[n] = 0;
    cr_free(text);
    return CR_OK;
}

static cr_status check_words(cr_zip *zip, const cr_zip_member *pickle, size_t prefix) {
    char word[32];
    CR_TRY(read_word(zip, pickle, prefix, "byteorder", word, sizeof word));
    if (!strcmp(word, "big"))
        return CR_FAIL(CR_EUNSUPPORTED, "'byteorder' is 'big'; only little-endian files are read: load it with PyTorch "
                                        "and save it again");
    if (*word && strcmp(word, "little")) return CR_FAIL(CR_EFORMAT, "'byteorder' is '%s', expected 'little'", word);
    CR_TRY(read_word(zip, pickle, prefix, "version", word, sizeof word));
    if (!*word) return CR_OK; /* not written by every version */
    int version = 0;
    for (const char *p = word; *p; p++) {
        if (*p < '0' || *p > '9' || version > 1000)
            return CR_FAIL(CR_EFORMAT, "'version' is '%s', expected a small number", word);
        version = 10 * version + *p - '0';
    }
    if (version < 1 || version > 10)
        return CR_FAIL(CR_EUNSUPPORTED, "torch.save format version %d; 1 to 10 are read", version);
    return CR_OK;
}

/* Which member each storage is. */
static cr_status find_storages(cr_torch_file *f, const cr_zip_member *pickle, size_t prefix,
                               const cr_pickle_storage *const *storages, size_t n) {
    cr_str name = {0};
    cr_status status = CR_OK;
    f->members = cr_arena_calloc(&f->arena, n, sizeof *f->members);
    if (!f->members) return CR_ENOMEM;
    f->nmembers = n;
    for (size_t i = 0; i < n; i++) {
        const cr_pickle_storage *s = storages[i];
        name.n = 0;
        cr_str_addf(&name, "data/%s", s->key);
        CR_TRY_OUT(cr_str_status(&name));
        CR_TRY_OUT(find_beside(f->zip, pickle, prefix, cr_str_get(&name), &f->members[i]));
        if (!f->members[i])
            CR_TRY_OUT(CR_FAIL(CR_EFORMAT, "the zip has no member '%s' for storage '%s'", cr_str_get(&name), s->key));
        if (f->members[i]->size < (uint64_t)s->bytes)
            CR_TRY_OUT(CR_FAIL(CR_EFORMAT, "member '%s' has %llu bytes, its storage needs %lld", f->members[i]->name,
                               (unsigned long long)f->members[i]->size, (long long)s->bytes));
    }
out:
    cr_str_dispose(&name);
    return status;
}

static cr_status read_pickle(cr_torch_file *f, const cr_zip_member *pickle, const cr_pickle_storage *const **storages,
                             size_t *n) {
    char *data;
    CR_TRY(cr_zip_read(f->zip, pickle, CR_PICKLE_LIMIT, &data)); /* a copy: checksum verified, deflated or not */
    cr_status status = cr__pickle_parse(&f->arena, data, (size_t)pickle->size, &f->root, storages, n);
    cr_free(data);
    return status ? cr_error_context(status, "%s", pickle->name) : CR_OK;
}

cr_status cr_torch_open(cr_zip *zip, cr_torch_file **out) {
    const cr_zip_member *pickle = NULL;
    const cr_pickle_storage *const *storages = NULL;
    size_t prefix = 0, n = 0;
    CR_TRY(find_pickle(zip, &pickle, &prefix));
    CR_TRY(check_words(zip, pickle, prefix));
    cr_torch_file *f = cr_calloc(1, sizeof *f);
    if (!f) return CR_ENOMEM;
    atomic_init(&f->refs, 1);
    cr_arena_init(&f->arena);
    cr_zip_retain(zip);
    f->zip = zip;
    cr_status status = read_pickle(f, pickle, &storages, &n);
    if (!status) status = find_storages(f, pickle, prefix, storages, n);
    if (status) {
        cr_torch_release(f);
        return status;
    }
    *out = f;
    return CR_OK;
}

/* PyTorch before 1.6 wrote several pickles one after another, the first of them this number; before 0.1.10 a tar. */
static cr_status check_legacy(const uint8_t *data, size_t size) {
    static const uint8_t magic[] = {0x80, 2, 0x8a, 10, 0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19};
    const uint8_t *number = size > 1 && data[0] == 0x80 ? data + 2 : data;
    bool pickled = size >= sizeof magic && !memcmp(number, magic + 2, sizeof magic - 2);
    bool tar = size >= 262 && !memcmp(data + 257, "ustar", 5);
    if (!pickled && !tar) return CR_OK;
    return CR_FAIL(CR_EUNSUPPORTED,
                   "this is torch.save's format before PyTorch 1.6 (%s, no zip): load it with PyTorch and torch.save "
                   "it again",
                   tar ? "a tar" : "bare pickles");
}

/* The torch file retains the zip; the caller's reference goes either way. */
static cr_status open_and_drop(cr_zip *zip, cr_torch_file **out) {
    cr_status status = cr_torch_open(zip, out);
    cr_zip_release(zip);
    return status;
}

cr_status cr_torch_open_memory(const void *data, size_t size, cr_zip *owner, cr_torch_file **out) {
    cr_zip *zip;
    CR_TRY(check_legacy(data, size));
    CR_TRY(cr_zip_open_memory(data, size, owner, &zip));
    return open_and_drop(zip, out);
}

cr_status cr_torch_open_path(const char *path, cr_torch_file **out) {
    cr_zip *zip = NULL;
    cr_mapping start;
    CR_TRY(cr_mapping_open(&start, path));
    cr_status status = check_legacy(start.data, start.size);
    cr_mapping_close(&start);
    if (!status) status = cr_zip_open(path, &zip);
    if (!status) status = open_and_drop(zip, out);
    return status ? cr_error_context(status, "%s", path) : CR_OK;
}

void cr_torch_retain(cr_torch_file *f) { atomic_fetch_add_explicit(&f->refs, 1, memory_order_relaxed); }

void cr_torch_release(cr_torch_file *f) {
    if (!f || atomic_fetch_sub_explicit(&f->refs, 1, memory_order_acq_rel) != 1) return;
    cr_arena_dispose(&f->arena);
    cr_zip_release(f->zip);
    cr_free(f);
}

const cr_pickle *cr_torch_root(const cr_torch_file *f) { return f->root; }
cr_zip *cr_torch_zip(const cr_torch_file *f) { return f->zip; }
size_t cr_torch_storage_count(const cr_torch_file *f) { return f->nmembers; }
const cr_zip_member *cr_torch_member(const cr_torch_file *f, const cr_pickle_storage *s) {
    return f->members[s->index];
}
