/* pt2_write.c: a program as a PT2 archive, with the members in the order in which PyTorch 2.13 writes them.
 *
 * Nothing is visible under the path before everything has been written (zip.h). The JSON texts are the only thing that
 * is built in memory; weights go from where they are to the file. */
#include "export/pt2_write.h"
#include "export/source.h"

#include <stdio.h>

enum { ALIGNMENT = 64 };

/* ---- texts ---- */

void cr__writer_begin(cr__pt2_writer *w) {
    cr_str_dispose(&w->text);
    cr_str_init(&w->text);
    cr_json_writer_init(&w->j, &w->text, 0);
}

cr_status cr__writer_status(const cr__pt2_writer *w) { return w->status ? w->status : cr_str_status(&w->text); }

static void write_bound(cr_json_writer *j, const char *key, int64_t value, int64_t none) {
    cr_json_key(j, key);
    if (value == none) cr_json_null(j);
    else cr_json_int(j, value);
}

static void write_ranges(cr__pt2_writer *w) {
    cr_json_writer *j = &w->j;
    cr_json_open(j, '{');
    for (size_t i = 0; i < w->p->nranges; i++) {
        cr_json_key(j, w->p->ranges[i].symbol);
        cr_json_open(j, '{');
        write_bound(j, "min_val", w->p->ranges[i].range.lo, INT64_MIN);
        write_bound(j, "max_val", w->p->ranges[i].range.hi, INT64_MAX);
        cr_json_close(j, '}');
    }
    cr_json_close(j, '}');
}

static void write_opset(cr__pt2_writer *w, const cr_save_options *o) {
    bool aten = false;
    cr_json_open(&w->j, '{');
    for (size_t i = 0; i < o->nopset; i++) {
        cr__put_int(&w->j, o->opset[i].domain, o->opset[i].version);
        aten |= !strcmp(o->opset[i].domain, "aten");
    }
    if (!aten) cr__put_int(&w->j, "aten", w->p->opset ? w->p->opset : CR__ATEN_OPSET);
    cr_json_close(&w->j, '}');
}

static void write_texts(cr_json_writer *j, const char *const *texts, size_t n) {
    cr_json_open(j, '[');
    for (size_t i = 0; i < n; i++) cr_json_string(j, texts[i], strlen(texts[i]));
    cr_json_close(j, ']');
}

static void write_module(cr__pt2_writer *w) {
    cr_json_writer *j = &w->j;
    cr_json_open(j, '{');
    cr_json_key(j, "graph");
    cr__write_graph(w, w->p->graph, true);
    if (w->status) return; /* the rest reads the graph's output, which may be missing */
    cr_json_key(j, "signature");
    cr__write_signature(w);
    cr_json_key(j, "module_call_graph");
    cr__write_calls(w);
    cr_json_key(j, "metadata");
    cr_json_open(j, '{');
    if (w->p->metadata) cr_json_members(j, w->p->metadata);
    cr_json_close(j, '}');
    cr_json_key(j, "treespec_namedtuple_fields");
    cr__write_tuple_fields(w);
    cr_json_close(j, '}');
}

static void write_program(cr__pt2_writer *w, const cr_save_options *o) {
    const cr_program *p = w->p;
    cr_json_writer *j = &w->j;
    const char *const verifiers[] = { p->dialect && *p->dialect ? p->dialect : "TRAINING" };
    cr_json_open(j, '{');
    cr_json_key(j, "graph_module");
    write_module(w);
    if (w->status) return;
    cr_json_key(j, "opset_version");
    write_opset(w, o);
    cr_json_key(j, "range_constraints");
    write_ranges(w);
    cr_json_key(j, "schema_version");
    cr_json_open(j, '{');
    cr__put_int(j, "major", CR__SCHEMA_MAJOR);
    cr__put_int(j, "minor", CR__SCHEMA_MINOR);
    cr_json_close(j, '}');
    cr_json_key(j, "verifiers");
    write_texts(j, verifiers, 1);
    cr__put_text(j, "torch_version", p->torch_version && *p->torch_version ? p->torch_version : "2.13.0");
    cr_json_key(j, "guards_code");
    write_texts(j, p->guards, p->nguards);
    cr_json_close(j, '}');
}

cr_status cr_program_print_json(const cr_program *p, const cr_save_options *options, cr_str *out) {
    static const cr_save_options plain;
    char folder[4096];
    cr__working_folder(folder);
    /* what an archive said is kept: saved again it is the same */
    cr__pt2_writer w = { .p = p,
                         .env = cr_graph_env(p->graph),
                         .folder = p->archive || (options && options->absolute_paths) ? NULL : folder };
    pthread_mutex_t *lock = cr_program_lock(p); /* hints and sizes are looked up in the graph's environment */
    cr__writer_begin(&w);
    pthread_mutex_lock(lock);
    write_program(&w, options ? options : &plain);
    pthread_mutex_unlock(lock);
    cr_status status = w.status ? cr_error_put(w.error) : cr__writer_status(&w);
    if (!status) {
        cr_str_addn(out, w.text.at, w.text.n);
        status = cr_str_status(out);
    }
    cr_str_dispose(&w.text);
    return status;
}

/* ---- the archive ---- */

static cr_status write_state(cr__pt2_writer *w, cr__archive *a, const char *name) {
    const cr_program *p = w->p;
    char config[600];
    snprintf(config, sizeof config, "%.512s_weights_config.json", name);
    CR_TRY(cr__write_payload(w, a, "weights", "weight", config, p->state, p->nstate));
    snprintf(config, sizeof config, "%.512s_constants_config.json", name);
    return cr__write_payload(w, a, "constants", "tensor", config, p->constants, p->nconstants);
}

static cr_status write_json(const cr_program *p, const cr_save_options *o, cr__archive *a, const char *name) {
    cr_str text;
    cr_str_init(&text);
    cr_status status = cr_program_print_json(p, o, &text);
    if (!status) status = cr__archive_add(a, text.at, text.n, "models/%s.json", name);
    cr_str_dispose(&text);
    return status;
}

static cr_status write_extra(const cr_save_options *o, cr__archive *a) {
    for (size_t i = 0; i < o->nextra; i++)
        CR_TRY(cr__archive_add(a, o->extra[i].data, o->extra[i].size, "extra/%s", o->extra[i].name));
    return CR_OK;
}

static cr_status write_tail(cr__archive *a) {
    char id[48];
    CR_TRY(cr__archive_add(a, "pt2", 3, "archive_format"));
    CR_TRY(cr__archive_add(a, "0", 1, "archive_version"));
    CR_TRY(cr__archive_add(a, "6\n", 2, ".data/version"));
    CR_TRY(cr__archive_add(a, "little", 6, "byteorder"));
    snprintf(id, sizeof id, "%020llu%020llu", (unsigned long long)a->id[0], (unsigned long long)a->id[1]);
    return cr__archive_add(a, id, strlen(id), ".data/serialization_id");
}

static cr_status write_archive(const cr_program *p, const cr_save_options *o, cr__archive *a) {
    cr__pt2_writer w = { .p = p, .env = cr_graph_env(p->graph) };
    const char *name = o->name ? o->name : "model";
    cr_status status = write_state(&w, a, name);
    if (!status) status = write_json(p, o, a, name);
    if (!status) status = cr__write_example(p, o, a, name);
    if (!status) status = write_extra(o, a);
    if (!status) status = write_tail(a);
    cr_str_dispose(&w.text);
    cr_error_release(w.error);
    return status;
}

/* The top folder is named like the file without its ending. */
static cr_status top_folder(const char *path, cr_str *out) {
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path, *dot = strrchr(base, '.');
    size_t n = dot && dot != base ? (size_t)(dot - base) : strlen(base);
    cr_str_init(out);
    cr_str_addn(out, n ? base : "archive", n ? n : 7);
    for (size_t i = 0; i < out->n && !out->failed; i++)
        if ((uint8_t)out->at[i] < 0x20 || out->at[i] == '\\' || out->at[i] == ':' || (uint8_t)out->at[i] >= 0x7f)
            out->at[i] = '_';
    if (!out->failed && (!strcmp(cr_str_get(out), ".") || !strcmp(cr_str_get(out), ".."))) cr_str_add(out, "_");
    return cr_str_status(out);
}

static cr_status save(const cr_program *p, const cr_save_options *o, cr_zip_writer *zip, const char *top) {
    cr__archive a = { .zip = zip, .top = top };
    if (o->step) cr_zip_writer_set_step(zip, o->step, o->user);
    cr_status status = write_archive(p, o, &a);
    if (!status) return cr_zip_writer_finish(zip);
    cr_zip_writer_abandon(zip);
    return status;
}

cr_status cr_program_save(const cr_program *p, const char *path, const cr_save_options *options) {
    cr_save_options o;
    cr_zip_writer *zip = NULL;
    cr_str top;
    CR_TRY(cr_options_read("cr_save_options", options, &o, sizeof o));
    cr_status status = top_folder(path, &top);
    if (!status) status = cr_zip_writer_create(path, ALIGNMENT, &zip);
    if (!status) status = save(p, &o, zip, cr_str_get(&top));
    cr_str_dispose(&top);
    return status;
}

cr_status cr_program_save_to(const cr_program *p, cr_sink sink, const cr_save_options *options) {
    cr_save_options o;
    cr_zip_writer *zip = NULL;
    CR_TRY(cr_options_read("cr_save_options", options, &o, sizeof o));
    CR_TRY(cr_zip_writer_create_on(sink, ALIGNMENT, &zip));
    return save(p, &o, zip, "archive");
}
