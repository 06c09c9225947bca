/* pt2.c: the container: which member is what, in both layouts.
 *
 * Since 2.7 an archive has one top folder, whatever its name, with models/NAME.json for each program and its tensors
 * below data/. Before, the members of the one program lay at the top. Which of the two it is shows in the members
 * alone. */
#include "export/internal.h"

#include <stdio.h>

enum { MAX_JSON = 1 << 30, MAX_DEFLATED_JSON = 16 << 20, SCHEMA_MAJOR = 8 };
static const char old_program[] = "serialized_exported_program.json";

/* ---- members ---- */

/* Length of the top folder with its slash: of the first member's name; 0: none. */
static size_t top_length(const cr_zip *zip) {
    if (!cr_zip_count(zip)) return 0;
    const char *name = cr_zip_at(zip, 0)->name, *slash = strchr(name, '/');
    return slash ? (size_t)(slash - name) + 1 : 0;
}

/* As cr_zip_find of both texts one after the other, without making one of them. */
static const cr_zip_member *find_joined(const cr_zip *zip, const char *top, size_t length, const char *path) {
    for (size_t i = 0; i < cr_zip_count(zip); i++) {
        const cr_zip_member *m = cr_zip_at(zip, i);
        if (!strncmp(m->name, top, length) && !strcmp(m->name + length, path)) return m;
    }
    return NULL;
}

const cr_zip_member *cr_pt2_find(const cr_zip *zip, const char *path) {
    char full[512];
    size_t top = top_length(zip), n = strlen(path);
    const cr_zip_member *m = NULL;
    if (top && top + n < sizeof full) {
        memcpy(full, cr_zip_at(zip, 0)->name, top);
        memcpy(full + top, path, n + 1);
        m = cr_zip_find(zip, full);
    } else if (top) {
        m = find_joined(zip, cr_zip_at(zip, 0)->name, top, path);
    }
    return m ? m : cr_zip_find(zip, path);
}

/* "m/models/NAME.json": where NAME begins and its length; NULL: another member. */
static const char *program_name(const cr_zip *zip, const cr_zip_member *m, size_t *n) {
    static const char folder[] = "models/", suffix[] = ".json";
    size_t top = top_length(zip), length = strlen(m->name);
    const char *name = length >= top && !strncmp(m->name, cr_zip_at(zip, 0)->name, top) ? m->name + top : m->name;
    length = strlen(name);
    if (length <= sizeof folder - 1 + sizeof suffix - 1 || strncmp(name, folder, sizeof folder - 1) ||
        strcmp(name + length - (sizeof suffix - 1), suffix))
        return NULL;
    *n = length - (sizeof folder - 1) - (sizeof suffix - 1);
    return name + sizeof folder - 1;
}

cr_status cr_program_list(cr_zip *zip, cr_arena *arena, const char *const **names, size_t *n) {
    size_t count = cr_zip_count(zip), found = 0, length;
    const char **list = cr_arena_alloc(arena, (count + 2) * sizeof *list);
    if (!list) return CR_ENOMEM;
    for (size_t i = 0; i < count; i++) {
        const char *name = program_name(zip, cr_zip_at(zip, i), &length);
        if (name && !(list[found++] = cr_arena_strndup(arena, name, length))) return CR_ENOMEM;
    }
    if (!found && cr_pt2_find(zip, old_program)) list[found++] = "model";
    *names = list;
    *n = found;
    return CR_OK;
}

static bool has_folder(const cr_zip *zip, const char *folder) {
    size_t top = top_length(zip), n = strlen(folder);
    for (size_t i = 0; i < cr_zip_count(zip); i++) {
        const char *name = cr_zip_at(zip, i)->name;
        if (strlen(name) >= top + n && !strncmp(name + top, folder, n)) return true;
    }
    return false;
}

/* A small text member, without the newline at its end. Empty when there is none. */
static cr_status small_text(cr__reader *r, const char *path, const char **out) {
    const cr_zip_member *m = cr_pt2_find(r->zip, path);
    char *text = NULL;
    *out = "";
    if (!m) return CR_OK;
    CR_TRY(cr_zip_read(r->zip, m, 4096, &text));
    char *copy = cr_arena_strndup(&r->scratch, text, strcspn(text, "\r\n"));
    cr_free(text);
    *out = copy;
    return copy ? CR_OK : CR_ENOMEM;
}

static cr_status check_container(cr__reader *r) {
    const char *order, *format, *version;
    CR_TRY(small_text(r, "byteorder", &order));
    CR_TRY(small_text(r, "archive_format", &format));
    CR_TRY(small_text(r, "archive_version", &version));
    if (*order && strcmp(order, "little"))
        return CR_FAIL(CR_EUNSUPPORTED, "byteorder: the archive is '%s'-endian; only 'little' is supported", order);
    if (*format && strcmp(format, "pt2"))
        return CR_FAIL(CR_EFORMAT, "archive_format: it is '%s', expected 'pt2'", format);
    if (*version && strcmp(version, "0"))
        return CR_FAIL(CR_EUNSUPPORTED, "archive_version: it is '%s'; only '0' is known here", version);
    return CR_OK;
}

/* ---- the program's JSON ---- */

static cr_status parse_member(cr__reader *r, const cr_zip_member *m, const cr_json **out) {
    char *text = NULL;
    /* PyTorch stores its texts. One that was deflated later may be large, but not out of all proportion to the file. */
    uint64_t limit = m->deflated ? CR_MAX((uint64_t)MAX_DEFLATED_JSON, CR_MIN(m->packed * 100, (uint64_t)MAX_JSON))
                                 : MAX_JSON;
    CR_TRY(cr_zip_read(r->zip, m, limit, &text));
    cr_status status = cr_json_parse(&r->scratch, text, m->size, out);
    cr_free(text);
    return status ? cr_error_context(status, "%s", m->name) : CR_OK;
}

static cr_status read_version(cr__reader *r, const cr_json *root) {
    const cr_json *version;
    int64_t major, minor;
    CR_TRY(cr_json_get(root, "schema_version", CR_JSON_OBJECT, &version));
    CR_TRY(cr_json_get_int(version, "major", &major));
    CR_TRY(cr_json_get_int(version, "minor", &minor));
    if (major != SCHEMA_MAJOR)
        return CR_FAIL(CR_EUNSUPPORTED,
                       "schema_version: the program has major version %lld, this reader knows %d; export it again with "
                       "PyTorch 2.7 or later",
                       (long long)major, SCHEMA_MAJOR);
    r->p->schema_major = (int)major;
    r->p->schema_minor = (int)CR_MIN(CR_MAX(minor, 0), INT32_MAX);
    return CR_OK;
}

static cr_status read_texts(cr__reader *r, const cr_json *root, const char *field, const char *const **out, size_t *n) {
    const cr_json *list = cr_json_find(root, field);
    if (!list || list->kind == CR_JSON_NULL) return CR_OK;
    CR_TRY(cr_json_get(root, field, CR_JSON_ARRAY, &list));
    const char **texts = cr_arena_calloc(&r->p->arena, list->n + 1u, sizeof *texts);
    if (!texts) return CR_ENOMEM;
    for (uint32_t i = 0; i < list->n; i++) {
        if (list->u.items[i].kind != CR_JSON_STRING)
            return CR_FAIL(CR_EFORMAT, "%s[%u] is %s, expected a string", field, i,
                           cr_json_kind_name(list->u.items[i].kind));
        CR_TRY(cr__keep_text(r, list->u.items[i].u.s, &texts[i]));
    }
    *out = texts;
    *n = list->n;
    return CR_OK;
}

static cr_status read_header(cr__reader *r, const cr_json *root) {
    const cr_json *version = cr_json_find(root, "torch_version"), *opset = cr_json_find(root, "opset_version");
    const char *const *verifiers = NULL;
    size_t n = 0;
    CR_TRY(read_version(r, root));
    r->p->torch_version = r->p->dialect = "";
    if (version && version->kind == CR_JSON_STRING) CR_TRY(cr__keep_text(r, version->u.s, &r->p->torch_version));
    if (opset) CR_TRY(cr_json_get_int_or(opset, "aten", 0, &r->p->opset));
    CR_TRY(read_texts(r, root, "verifiers", &verifiers, &n));
    if (n) r->p->dialect = verifiers[0];
    return read_texts(r, root, "guards_code", &r->p->guards, &r->p->nguards);
}

/* As one line of JSON. */
static cr_status keep_metadata(cr__reader *r, const cr_json *metadata) {
    cr_str text;
    cr_json_writer w;
    if (!metadata || metadata->kind != CR_JSON_OBJECT || !metadata->n) return CR_OK;
    cr_str_init(&text);
    cr_json_writer_init(&w, &text, 0);
    cr_json_value(&w, metadata);
    cr_status status = cr_str_status(&text);
    if (!status) status = cr__keep_text(r, cr_str_get(&text), &r->p->metadata);
    cr_str_dispose(&text);
    return status;
}

static cr_status read_json(cr__reader *r, const cr_json *root) {
    const cr_json *module, *signature, *graph, *ranges;
    if (root->kind != CR_JSON_OBJECT)
        return CR_FAIL(CR_EFORMAT, "the program is %s, expected an object", cr_json_kind_name(root->kind));
    CR_TRY(read_header(r, root));
    CR_TRY(cr_json_get(root, "graph_module", CR_JSON_OBJECT, &module));
    CR_TRY(cr_json_get(root, "range_constraints", CR_JSON_OBJECT, &ranges));
    CR_TRY(cr__read_ranges(r, ranges));
    CR_TRY(cr_json_get(module, "signature", CR_JSON_OBJECT, &signature));
    CR_TRY(cr__read_signature(r, signature));
    CR_TRY(cr_json_get(module, "graph", CR_JSON_OBJECT, &graph));
    cr_status status = cr__read_graph(r, graph, r->p->graph);
    if (!status) status = cr__check_signature(r->p);
    if (!status) status = cr__read_calls(r, module);
    if (!status) status = keep_metadata(r, cr_json_find(module, "metadata"));
    if (status) return cr_error_context(status, "graph_module");
    CR_TRY(cr__open_sizes(r->p));
    const char **missing = cr_arena_copy(&r->p->arena, r->missing.at, r->missing.n * sizeof *missing);
    if (!missing) return CR_ENOMEM;
    r->p->unsupported = missing;
    r->p->nunsupported = r->missing.n;
    return CR_OK;
}

/* ---- state ---- */

static cr_status read_config(cr__reader *r, const char *folder, const char *suffix, const cr_named_tensor **out,
                             size_t *n) {
    const char *path = cr_arena_printf(&r->scratch, "data/%s/%s_%s_config.json", folder, r->name, suffix);
    const cr_json *json;
    if (!path) return CR_ENOMEM;
    const cr_zip_member *m = cr_pt2_find(r->zip, path);
    if (!m) return CR_OK; /* what is missing then is said by name */
    CR_TRY(parse_member(r, m, &json));
    cr_status status = cr__read_payload(r, folder, json, out, n);
    return status ? cr_error_context(status, "%s", m->name) : CR_OK;
}

/* Before it was called .pt, the same file was called .json. */
static cr_status read_old_dict(cr__reader *r, const char *stem, const cr_named_tensor **out, size_t *n) {
    static const char *const suffixes[] = { "pt", "json" };
    char path[64];
    for (size_t i = 0; i < CR_COUNT(suffixes); i++) {
        snprintf(path, sizeof path, "%s.%s", stem, suffixes[i]);
        const cr_zip_member *m = cr_pt2_find(r->zip, path);
        if (m && m->size > 2) return cr__read_torch_dict(r, m, out, n);
    }
    return CR_OK;
}

static cr_status index_tensors(cr_program *p, const cr_named_tensor *list, size_t n, bool persistent) {
    for (size_t i = 0; i < n; i++) {
        ((cr_named_tensor *)list)[i].persistent = persistent; /* the arena's own array */
        if (cr_map_find_str(&p->names, list[i].name, NULL))
            return CR_FAIL(CR_EFORMAT, "'%s' is both a weight and a constant", list[i].name);
        CR_TRY(cr_map_put_str(&p->names, list[i].name, (uint64_t)(uintptr_t)&list[i]));
    }
    return CR_OK;
}

static cr_status read_example_member(cr__reader *r, bool old) {
    const char *path = old ? "serialized_example_inputs.pt"
                           : cr_arena_printf(&r->scratch, "data/sample_inputs/%s.pt", r->name);
    if (!path) return CR_ENOMEM;
    const cr_zip_member *m = cr_pt2_find(r->zip, path);
    return m && m->size ? cr__read_example(r, m) : CR_OK;
}

static cr_status read_state(cr__reader *r, bool old) {
    cr_program *p = r->p;
    if (old) {
        CR_TRY(read_old_dict(r, "serialized_state_dict", &p->state, &p->nstate));
        CR_TRY(read_old_dict(r, "serialized_constants", &p->constants, &p->nconstants));
    } else {
        CR_TRY(read_config(r, "weights", "weights", &p->state, &p->nstate));
        CR_TRY(read_config(r, "constants", "constants", &p->constants, &p->nconstants));
    }
    CR_TRY(index_tensors(p, p->state, p->nstate, true));
    CR_TRY(index_tensors(p, p->constants, p->nconstants, false));
    CR_TRY(cr__check_state(p));
    return read_example_member(r, old);
}

/* ---- which program ---- */

static cr_status choose(cr__reader *r, const char *wanted, const cr_zip_member **out, bool *old) {
    const char *const *names;
    size_t n, at = 0;
    CR_TRY(cr_program_list(r->zip, &r->scratch, &names, &n));
    if (!n && has_folder(r->zip, "data/aotinductor/"))
        return CR_FAIL(CR_EUNSUPPORTED, "the archive holds a compiled AOTInductor package and no exported program");
    if (!n)
        return CR_FAIL(CR_EFORMAT, "the archive holds no exported program: neither models/NAME.json nor %s",
                       old_program);
    const char *name = wanted ? wanted : n == 1 ? names[0] : "model";
    while (at < n && strcmp(names[at], name)) at++;
    if (at == n) {
        cr_str text;
        cr_str_init(&text);
        for (size_t i = 0; i < n; i++) cr_str_addf(&text, "%s'%s'", i ? ", " : "", names[i]);
        cr_status status = CR_FAIL(CR_ENOTFOUND, "the archive has no program '%s'; it has %s", name, cr_str_get(&text));
        cr_str_dispose(&text);
        return status;
    }
    const char *path = cr_arena_printf(&r->scratch, "models/%s.json", name);
    if (!path) return CR_ENOMEM;
    *out = cr_pt2_find(r->zip, path);
    *old = !*out;
    if (*old) *out = cr_pt2_find(r->zip, old_program);
    CR_TRY(cr__keep_text(r, name, &r->p->name));
    r->name = r->p->name;
    return *out ? CR_OK : CR_FAIL(CR_ENOMEM, "out of memory");
}

static cr_status check_members(cr_zip *zip) {
    for (size_t i = 0; i < cr_zip_count(zip); i++) CR_TRY(cr_zip_check(zip, cr_zip_at(zip, i)));
    return CR_OK;
}

static cr_status load(cr__reader *r, const char *wanted) {
    const cr_zip_member *m;
    const cr_json *root;
    bool old;
    if (r->flags & CR_LOAD_CHECK) CR_TRY(check_members(r->zip));
    CR_TRY(check_container(r));
    CR_TRY(choose(r, wanted, &m, &old));
    CR_TRY(parse_member(r, m, &root));
    cr_status status = read_json(r, root);
    if (status) return cr_error_context(status, "%s", m->name);
    return read_state(r, old);
}

static void reader_dispose(cr__reader *r) {
    cr_arena_dispose(&r->scratch);
    cr_map_dispose(&r->exprs);
    cr_map_dispose(&r->unsupported);
    cr_vec_dispose(&r->missing);
}

static cr_status reader_init(cr__reader *r) {
    cr_arena_init(&r->scratch);
    cr_map_init(&r->exprs);
    cr_map_init(&r->unsupported);
    CR_TRY(cr__program_create(&r->p));
    r->env = cr_graph_env(r->p->graph);
    return CR_OK;
}

static cr_status finish(cr__reader *r, cr_status status, cr_program **out) {
    reader_dispose(r);
    if (status) cr_program_release(r->p);
    else *out = r->p;
    return status;
}

cr_status cr_program_load_zip(cr_zip *zip, const char *name, int flags, cr_program **out) {
    cr__reader r = { .zip = zip, .flags = flags };
    cr_status status = reader_init(&r);
    if (!status) {
        cr_zip_retain(r.p->archive = zip);
        status = load(&r, name);
    }
    return finish(&r, status, out);
}

cr_status cr_program_load(const char *path, const char *name, int flags, cr_program **out) {
    cr_zip *zip = NULL;
    CR_TRY(cr_zip_open(path, &zip));
    cr_status status = cr_program_load_zip(zip, name, flags, out);
    cr_zip_release(zip);
    return status ? cr_error_context(status, "%s", path) : CR_OK;
}

cr_status cr__program_from_json(const char *text, size_t size, cr_program **out) {
    cr__reader r = { .name = "model" };
    const cr_json *root;
    cr_status status = reader_init(&r);
    if (!status) {
        r.p->name = "model";
        status = cr_json_parse(&r.scratch, text, size, &root);
    }
    if (!status) status = read_json(&r, root);
    return finish(&r, status, out);
}

static cr_status read_graph_alone(cr__reader *r, const cr_json *root) {
    const cr_json *ranges, *graph;
    CR_TRY(cr_json_get(root, "range_constraints", CR_JSON_OBJECT, &ranges));
    CR_TRY(cr_json_get(root, "graph", CR_JSON_OBJECT, &graph));
    CR_TRY(cr__read_ranges(r, ranges));
    CR_TRY(cr__read_graph(r, graph, r->p->graph));
    return r->missing.n ? CR_FAIL(CR_EUNSUPPORTED, "%s has no row in the op table", r->missing.at[0]) : CR_OK;
}

cr_status cr_graph_from_json(const char *text, size_t size, cr_graph **out) {
    cr__reader r = { .name = "graph" };
    const cr_json *root;
    cr_program *p = NULL;
    cr_status status = reader_init(&r);
    if (!status) status = cr_json_parse(&r.scratch, text, size, &root);
    if (!status) status = read_graph_alone(&r, root);
    CR_TRY(finish(&r, status, &p));
    cr_graph_retain(*out = p->graph);
    cr_program_release(p);
    return CR_OK;
}
