/* doctor_file.c: is all of a file sound?
 *
 * Checksums first, member by member, so that one damaged weight does not hide another; then each program is loaded and
 * verified as a whole: graph against its schemas and metas, signature against the graph, state against both. Ops that
 * cannot be run here are reported, but nothing is wrong with the file for that. */
#include "archive/npy.h"
#include "archive/safetensors.h"
#include "cli/doctor.h"
#include "cli/model.h"

enum { STEP = 16 << 20 }; /* between two looks at the progress */

/* A failure to be reported; out of memory ends the examination. */
static cr_status note(doctor *d, cr_status status) {
    if (status == CR_ENOMEM) return status;
    if (status) doctor_problem(d, "%s", cr_error_message());
    return CR_OK;
}

static cr_status check_member(cr_zip *zip, const cr_zip_member *m, cli_progress *progress) {
    uint8_t *data;
    if (m->size <= STEP || m->deflated) {
        cli_progress_add(progress, m->size);
        return cr_zip_check(zip, m);
    }
    CR_TRY(cr_zip_borrow(zip, m, &data));
    uint32_t crc = 0;
    for (uint64_t at = 0; at < m->size; at += STEP) {
        uint64_t n = CR_MIN(m->size - at, (uint64_t)STEP);
        crc = cr_crc32(crc, data + at, n);
        cli_progress_add(progress, n);
    }
    if (crc == m->crc) return CR_OK;
    return CR_FAIL(CR_EFORMAT, "member '%s': its checksum is %08x, expected %08x", m->name, crc, m->crc);
}

static cr_status check_members(doctor *d, cr_zip *zip, const char *what) {
    cli_progress progress;
    uint64_t bytes = 0;
    size_t right = 0, n = cr_zip_count(zip);
    for (size_t i = 0; i < n; i++) bytes += cr_zip_at(zip, i)->size;
    cli_progress_begin(&progress, what, bytes);
    cr_status status = CR_OK;
    for (size_t i = 0; i < n && !status; i++) {
        status = check_member(zip, cr_zip_at(zip, i), &progress);
        right += !status;
        status = note(d, status);
    }
    cli_progress_end(&progress);
    if (!status) doctor_add(d, "checksums", "%zu of %zu right", right, n);
    return status;
}

/* ---- programs ---- */

/* A line about one program of the archive; its name is part of the key, so that keys stay unique. */
static void add_about(doctor *d, const char *what, const char *name, const char *text) {
    cr_str key;
    cr_str_init(&key);
    cr_str_addf(&key, "%s %s", what, name);
    doctor_add(d, cr_str_get(&key), "%s%s", key.n < 14 ? "" : " ", text);
    cli_str_done(&key, &d->out);
}

static void report_unsupported(doctor *d, const char *name, const cr_program *p) {
    cr_str names;
    cr_str_init(&names);
    for (size_t i = 0; i < p->nunsupported; i++) cr_str_addf(&names, "%s%s", i ? ", " : "", p->unsupported[i]);
    if (names.n)
        cr_str_add(&names, " (such calls cannot be run here)"), add_about(d, "unsupported", name, cr_str_get(&names));
    cli_str_done(&names, &d->out);
}

static cr_status check_program(doctor *d, cr_zip *zip, const char *name) {
    cr_program *p = NULL;
    cr_module *module = NULL;
    cr_status status = cr_program_load_zip(zip, name, 0, &p);
    if (status == CR_EUNSUPPORTED) {
        add_about(d, "unsupported", name, cr_error_message());
        return CR_OK;
    }
    if (status) return note(d, status == CR_ENOMEM ? status : cr_error_context(status, "program '%s'", name));
    size_t before = d->problems;
    status = cr_program_verify(p);
    if (status && status != CR_ENOMEM) status = cr_error_context(status, "program '%s'", name);
    status = note(d, status);
    if (p->example_problem) add_about(d, "examples", name, p->example_problem);
    if (!status && !p->nunsupported && d->problems == before) {
        status = cr_module_create(p, CR_MODULE_SHARED, &module);
        if (status && status != CR_ENOMEM) status = cr_error_context(status, "program '%s' cannot be run", name);
        status = note(d, status);
    }
    if (!status && d->problems == before) {
        cr_str text;
        cr_str_init(&text);
        cr_str_addf(&text, "%u nodes, %zu parameters and buffers, %zu constants: sound%s",
                    cr_graph_node_count(p->graph), p->nstate, p->nconstants,
                    p->nunsupported ? "" : " and ready to run");
        add_about(d, "program", name, cr_str_get(&text));
        cli_str_done(&text, &d->out);
    }
    if (!status) report_unsupported(d, name, p);
    cr_module_release(module);
    cr_program_release(p);
    return status;
}

static cr_status check_archive(doctor *d, const char *path) {
    cr_zip *zip = NULL;
    cr_arena arena;
    const char *const *names;
    size_t n = 0;
    cr_status status = cr_zip_open(path, &zip);
    if (status) return status == CR_EIO ? status : note(d, status);
    cr_arena_init(&arena);
    cr_str text;
    cr_str_init(&text);
    cr_str_add_bytes(&text, cr_zip_size(zip));
    doctor_add(d, "archive", "%s, %zu members", cr_str_get(&text), cr_zip_count(zip));
    cli_str_done(&text, &d->out);
    CR_TRY_OUT(check_members(d, zip, path));
    status = cr_program_list(zip, &arena, &names, &n);
    if (status) {
        n = 0;
        CR_TRY_OUT(note(d, status));
    }
    if (!status && !n) doctor_add(d, "program", "none");
    for (size_t i = 0; i < n; i++) CR_TRY_OUT(check_program(d, zip, names[i]));
out:
    cr_arena_dispose(&arena);
    cr_zip_release(zip);
    return status;
}

/* ---- arrays ---- */

static cr_status check_npz(doctor *d, const char *path) {
    cr_npz *npz = NULL;
    cr_status status = cr_npz_open(path, &npz);
    if (status) return status == CR_EIO ? status : note(d, status);
    doctor_add(d, "arrays", "%zu, sound", cr_npz_count(npz));
    cr_npz_release(npz);
    return CR_OK;
}

static cr_status check_npy(doctor *d, const char *path) {
    cr_mapping file;
    cr_npy array;
    CR_TRY(cr_mapping_open(&file, path));
    cr_status status = note(d, cr_npy_parse(file.data, file.size, &array));
    if (!status && !d->problems) doctor_add(d, "arrays", "1, sound");
    cr_mapping_close(&file);
    return status;
}

static cr_status check_safetensors(doctor *d, const char *path) {
    cr_safetensors *file = NULL;
    cr_status status = cr_safetensors_open(path, &file);
    if (status) return status == CR_EIO ? status : note(d, status);
    doctor_add(d, "tensors", "%zu, sound (the format has no checksums)", cr_safetensors_count(file));
    cr_safetensors_release(file);
    return CR_OK;
}

static const struct { const char *ending; cr_status (*check)(doctor *, const char *); } kinds[] = {
    { ".npz", check_npz },
    { ".npy", check_npy },
    { ".safetensors", check_safetensors },
};

cr_status doctor_file(doctor *d, const char *path) {
    size_t n = strlen(path);
    for (size_t i = 0; i < CR_COUNT(kinds); i++) {
        size_t m = strlen(kinds[i].ending);
        if (n > m && !strcmp(path + n - m, kinds[i].ending)) return kinds[i].check(d, path);
    }
    return check_archive(d, path);
}
