/* info_library.c: `cresset info` of a library that `cresset compile` made. */
#include "cli/info.h"

#include <sys/stat.h>

typedef struct contents { tally weights, buffers; const char *methods[64]; size_t nmethods; uint64_t bytes; } contents;

static void gather(const cresset_api *api, const char *path, contents *c) {
    struct stat st;
    for (int32_t i = 0; i < api->nstate; i++) {
        const cresset_state_info *s = &api->state[i];
        info_count(s->is_mutable ? &c->buffers : &c->weights, s->dtype, s->rank, s->size);
    }
    for (int32_t i = 0; i < api->nmethods && c->nmethods < CR_COUNT(c->methods); i++) c->methods[c->nmethods++] = api->methods[i].name;
    c->bytes = stat(path, &st) ? 0 : (uint64_t)st.st_size;
}

static void print_text(const model *m, const cresset_api *api, const char *path, const contents *c, cr_str *out) {
    cr_str_addf(out, "%s: ", path);
    cli_add_bytes(out, c->bytes);
    cr_str_addf(out, ", compiled%s%s, interface %u.%u, id %s\n", api->target && *api->target ? " for " : "", api->target ? api->target : "", api->major, api->minor, api->id);
    cr_str_addf(out, "method '%s'\n", api->methods[m->method].name);
    if (c->nmethods > 1) info_add_names("methods", c->methods, c->nmethods, out);
    info_add_interface(m, out);
    info_add_tally("weights", &c->weights, out);
    info_add_tally("buffers", &c->buffers, out);
}

static void json_state(cr_json_writer *w, const cresset_api *api) {
    cr_json_key(w, "state");
    cr_json_open(w, '[');
    for (int32_t i = 0; i < api->nstate; i++) {
        const cresset_state_info *s = &api->state[i];
        cr_json_open(w, '{');
        info_json_pair(w, "name", s->name);
        info_json_pair(w, "kind", s->is_mutable ? "buffer" : "weight");
        info_json_pair(w, "dtype", cr_dtype_name(s->dtype));
        cr_json_key(w, "shape");
        info_json_sizes(w, NULL, s->rank, s->size);
        cr_json_close(w, '}');
    }
    cr_json_close(w, ']');
}

static void print_json(const model *m, const cresset_api *api, const char *path, const contents *c, cr_str *out) {
    cr_json_writer writer, *w = &writer;
    cr_json_writer_init(w, out, 2);
    cr_json_open(w, '{');
    info_json_pair(w, "file", path);
    cr_json_key(w, "bytes"), cr_json_int(w, (int64_t)c->bytes);
    info_json_pair(w, "program", api->methods[m->method].name);
    info_json_names(w, "programs", c->methods, c->nmethods);
    cr_json_key(w, "abi_version");
    cr_json_open(w, '[');
    cr_json_int(w, api->major);
    cr_json_int(w, api->minor);
    cr_json_close(w, ']');
    info_json_pair(w, "target", api->target);
    info_json_pair(w, "id", api->id);
    info_json_interface(w, m);
    info_json_tally(w, "weights", &c->weights);
    info_json_tally(w, "buffers", &c->buffers);
    json_state(w, api);
    cr_json_close(w, '}');
    cr_str_addc(out, '\n');
}

cr_status info_library(const model *m, const char *path, bool graph, bool json, bool check, cr_str *out) {
    const cresset_api *api = cr_library_api(m->library);
    contents c = { .nmethods = 0 };
    if (graph) {
        cli_hint("print that of the archive it was compiled from");
        return CR_FAIL(CR_EVALUE, "%s is a compiled library, which holds no graph", path);
    }
    if (check) {
        cr_native *instance;
        CR_TRY(cr_native_create(m->library, 1, NULL, &instance));
        cr_native_release(instance);
    }
    gather(api, path, &c);
    if (json) print_json(m, api, path, &c, out);
    else print_text(m, api, path, &c, out);
    return CR_OK;
}
