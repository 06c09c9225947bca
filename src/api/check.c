/* check.c: is all of a file sound? */
#include "api/api.h"
#include "archive/npy.h"
#include "archive/safetensors.h"

enum { STEP = 16 << 20 }; /* between two looks at the progress */

typedef struct check {
    cr_check_options options;
    uint64_t done, total;
    size_t problems;
    cr_status status; /* CR_ENOMEM once a text could not be made */
} check;

static void tell(check *c, const char *what, const char *format, ...) CR_PRINTF(3, 4);
static void tell(check *c, const char *what, const char *format, ...) {
    va_list args;
    cr_str text;
    cr_str_init(&text);
    va_start(args, format);
    cr_str_addv(&text, format, args);
    va_end(args);
    if (!c->status) c->status = cr_str_status(&text);
    if (!c->status && c->options.tell) c->options.tell(c->options.user, CR_CHECK_FACT, what, cr_str_get(&text));
    cr_str_dispose(&text);
}

/* A failure to be told; out of memory ends the examination. */
static cr_status note(check *c, cr_status status) {
    if (status == CR_ENOMEM || !status) return status;
    c->problems++;
    if (c->options.tell) c->options.tell(c->options.user, CR_CHECK_PROBLEM, "", cr_error_message());
    return CR_OK;
}

/* A file that cannot be read ends it, too. */
static cr_status note_open(check *c, cr_status status) { return status == CR_EIO ? status : note(c, status); }

static void advance(check *c, uint64_t bytes) {
    c->done += bytes;
    if (c->options.progress) c->options.progress(c->options.user, c->done, c->total);
}

/* ---- members ---- */

static cr_status check_member(check *c, cr_zip *zip, const cr_zip_member *m) {
    uint8_t *data;
    if (m->size <= STEP || m->deflated) {
        advance(c, m->size);
        return cr_zip_check(zip, m);
    }
    CR_TRY(cr_zip_borrow(zip, m, &data));
    uint32_t crc = 0;
    for (uint64_t at = 0; at < m->size; at += STEP) {
        uint64_t n = CR_MIN(m->size - at, (uint64_t)STEP);
        crc = cr_crc32(crc, data + at, n);
        advance(c, n);
    }
    if (crc == m->crc) return CR_OK;
    return CR_FAIL(CR_EFORMAT, "member '%s': its checksum is %08x, expected %08x", m->name, crc, m->crc);
}

static cr_status check_members(check *c, cr_zip *zip) {
    size_t right = 0, n = cr_zip_count(zip);
    for (size_t i = 0; i < n; i++) c->total += cr_zip_at(zip, i)->size;
    for (size_t i = 0; i < n; i++) {
        cr_status status = check_member(c, zip, cr_zip_at(zip, i));
        right += !status;
        CR_TRY(note(c, status));
    }
    tell(c, "checksums", "%zu of %zu right", right, n);
    return CR_OK;
}

/* ---- programs ---- */

/* A fact about one program of the archive; its name is part of what is told, so that keys stay unique. */
static void tell_about(check *c, const char *what, const char *name, const char *text) {
    cr_str key;
    cr_str_init(&key);
    cr_str_addf(&key, "%s %s", what, name);
    if (!c->status) c->status = cr_str_status(&key);
    tell(c, cr_str_get(&key), "%s", text);
    cr_str_dispose(&key);
}

static void tell_unsupported(check *c, const char *name, const cr_program *p) {
    cr_str names;
    cr_str_init(&names);
    for (size_t i = 0; i < p->nunsupported; i++) cr_str_addf(&names, "%s%s", i ? ", " : "", p->unsupported[i]);
    if (names.n)
        cr_str_add(&names, " (such calls cannot be run here)"), tell_about(c, "unsupported", name, cr_str_get(&names));
    if (!c->status) c->status = cr_str_status(&names);
    cr_str_dispose(&names);
}

static void tell_sound(check *c, const char *name, const cr_program *p) {
    cr_str text;
    cr_str_init(&text);
    cr_str_addf(&text, "%u nodes, %zu parameters and buffers, %zu constants: sound%s", cr_graph_node_count(p->graph),
                p->nstate, p->nconstants, p->nunsupported ? "" : " and ready to run");
    if (!c->status) c->status = cr_str_status(&text);
    tell_about(c, "program", name, cr_str_get(&text));
    cr_str_dispose(&text);
}

static cr_status check_loaded(check *c, const char *name, cr_program *p) {
    cr_module *module = NULL;
    size_t before = c->problems;
    cr_status status = cr_program_verify(p);
    CR_TRY(note(c, status ? cr_error_context(status, "program '%s'", name) : CR_OK));
    if (p->example_problem) tell_about(c, "examples", name, p->example_problem);
    if (!p->nunsupported && c->problems == before) {
        status = cr_module_create(p, CR_MODULE_SHARED, &module);
        cr_module_release(module);
        CR_TRY(note(c, status ? cr_error_context(status, "program '%s' cannot be run", name) : CR_OK));
    }
    if (c->problems == before) tell_sound(c, name, p);
    tell_unsupported(c, name, p);
    return CR_OK;
}

/* name: NULL where the archive lists none, which loading says why. */
static cr_status check_program(check *c, cr_zip *zip, const char *name) {
    cr_program *p = NULL;
    cr_status status = cr_program_load_zip(zip, name, 0, &p);
    if (status == CR_EUNSUPPORTED) {
        if (name) tell_about(c, "unsupported", name, cr_error_message());
        else tell(c, "unsupported", "%s", cr_error_message());
        return CR_OK;
    }
    if (status) return note(c, name ? cr_error_context(status, "program '%s'", name) : status);
    status = check_loaded(c, name, p);
    cr_program_release(p);
    return status;
}

static cr_status check_programs(check *c, cr_zip *zip) {
    cr_arena arena;
    const char *const *names;
    size_t n = 0;
    cr_arena_init(&arena);
    cr_status status = cr_program_list(zip, &arena, &names, &n);
    if (status) status = note(c, status), n = 0;
    else if (!n) status = check_program(c, zip, NULL);
    for (size_t i = 0; i < n && !status; i++) status = check_program(c, zip, names[i]);
    cr_arena_dispose(&arena);
    return status;
}

static cr_status check_archive(check *c, const char *path) {
    cr_zip *zip = NULL;
    cr_status status = cr_zip_open(path, &zip);
    if (status) return note_open(c, status);
    cr_str size;
    cr_str_init(&size);
    cr_str_add_bytes(&size, cr_zip_size(zip));
    tell(c, "archive", "%s, %zu members", cr_str_get(&size), cr_zip_count(zip));
    cr_str_dispose(&size);
    status = check_members(c, zip);
    if (!status) status = check_programs(c, zip);
    cr_zip_release(zip);
    return status;
}

/* ---- arrays ---- */

static cr_status check_npz(check *c, const char *path) {
    cr_npz *npz = NULL;
    cr_status status = cr_npz_open(path, &npz);
    if (status) return note_open(c, status);
    tell(c, "arrays", "%zu, sound", cr_npz_count(npz));
    cr_npz_release(npz);
    return CR_OK;
}

static cr_status check_npy(check *c, const char *path) {
    cr_mapping file;
    cr_npy array;
    CR_TRY(cr_mapping_open(&file, path));
    cr_status status = cr_npy_parse(file.data, file.size, &array);
    if (status) status = note(c, status);
    else tell(c, "arrays", "1, sound");
    cr_mapping_close(&file);
    return status;
}

static cr_status check_safetensors(check *c, const char *path) {
    cr_safetensors *file = NULL;
    cr_status status = cr_safetensors_open(path, &file);
    if (status) return note_open(c, status);
    tell(c, "tensors", "%zu, sound (the format has no checksums)", cr_safetensors_count(file));
    cr_safetensors_release(file);
    return CR_OK;
}

static const struct {
    const char *ending;
    cr_status (*run)(check *, const char *);
} kinds[] = {
    { ".npz", check_npz },
    { ".npy", check_npy },
    { ".safetensors", check_safetensors },
    { "", check_archive },
};

cr_status cr_check_file(const char *path, const cr_check_options *options) {
    check c = { .done = 0 };
    size_t n = strlen(path), i = 0;
    CR_TRY(cr_options_read("cr_check_options", options, &c.options, sizeof c.options));
    for (; i + 1 < CR_COUNT(kinds); i++) {
        size_t m = strlen(kinds[i].ending);
        if (n > m && !strcmp(path + n - m, kinds[i].ending)) break;
    }
    CR_TRY(kinds[i].run(&c, path));
    return c.status;
}
