/* info_library.c: `cresset info` of a library that `cresset compile` made. */
#include "cli/info.h"

#include <sys/stat.h>

/* `shown`: the methods that are told about, `methods`: the names of all. */
typedef struct contents {
    const char *path;
    const cresset_api *api;
    model *shown;
    const char **methods;
    size_t nshown, nmethods;
    tally weights, buffers;
    uint64_t bytes;
} contents;

static void gather(contents *c) {
    struct stat st;
    for (int32_t i = 0; i < c->api->nstate; i++) {
        const cresset_state_info *s = &c->api->state[i];
        info_count(s->is_mutable ? &c->buffers : &c->weights, s->dtype, s->rank, s->size);
    }
    for (size_t i = 0; i < c->nmethods; i++) c->methods[i] = c->api->methods[i].name;
    c->bytes = stat(c->path, &st) ? 0 : (uint64_t)st.st_size;
}

/* Custom operators that it calls; libraries of before 1.2 call none. */
static int32_t needs_of(const cresset_api *api) {
    return api->struct_size >= offsetof(cresset_api, nops) + sizeof api->nops ? api->nops : 0;
}

static void json_needs(cr_json_writer *w, const cresset_api *api) {
    cr_json_key(w, "custom_ops");
    cr_json_open(w, '[');
    for (int32_t i = 0; i < needs_of(api); i++) cr_json_string(w, api->ops[i].schema, strlen(api->ops[i].schema));
    cr_json_close(w, ']');
}

/* NULL: it does not train. */
static const cresset_train_info *training_of(const cresset_api *api) {
    return api->struct_size > offsetof(cresset_api, train) ? api->train : NULL;
}

static const char *method_name(const contents *c, size_t i) { return c->api->methods[c->shown[i].method].name; }

static void print_text(const contents *c, cr_str *out) {
    const cresset_api *api = c->api;
    cr_str_addf(out, "%s: ", c->path);
    cr_str_add_bytes(out, c->bytes);
    cr_str_addf(out, ", compiled%s%s, interface %u.%u, id %s\n", api->target && *api->target ? " for " : "",
                api->target ? api->target : "", api->major, api->minor, api->id);
    for (size_t i = 0; i < c->nshown; i++) {
        cr_str_addf(out, "%smethod '%s'\n", i ? "\n" : "", method_name(c, i));
        if (c->nshown < c->nmethods) info_add_names("methods", c->methods, c->nmethods, out);
        info_add_interface(&c->shown[i], out);
    }
    if (c->nshown > 1) cr_str_addc(out, '\n');
    const cresset_train_info *t = training_of(api);
    if (t) cr_str_addf(out, "training    %d parameters, trains with %s\n", t->nparameters, t->optimizer);
    info_add_tally("weights", &c->weights, out);
    info_add_tally("buffers", &c->buffers, out);
    for (int32_t i = 0; i < needs_of(api); i++)
        cr_str_addf(out, "%s%s\n", i ? "            " : "custom ops  ", api->ops[i].schema);
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
        info_json_sizes(w, s->rank, s->size);
        cr_json_close(w, '}');
    }
    cr_json_close(w, ']');
}

/* One method's interface stands at the top, several in a list. */
static void json_methods(cr_json_writer *w, const contents *c) {
    if (c->nshown == 1) {
        info_json_pair(w, "program", method_name(c, 0));
        info_json_interface(w, &c->shown[0]);
        return;
    }
    cr_json_key(w, "methods");
    cr_json_open(w, '[');
    for (size_t i = 0; i < c->nshown; i++) {
        cr_json_open(w, '{');
        info_json_pair(w, "program", method_name(c, i));
        info_json_interface(w, &c->shown[i]);
        cr_json_close(w, '}');
    }
    cr_json_close(w, ']');
}

static void print_json(const contents *c, cr_str *out) {
    cr_json_writer writer, *w = &writer;
    cr_json_writer_init(w, out, 2);
    cr_json_open(w, '{');
    info_json_pair(w, "file", c->path);
    cr_json_key(w, "bytes"), cr_json_int(w, (int64_t)c->bytes);
    info_json_names(w, "programs", c->methods, c->nmethods);
    cr_json_key(w, "abi_version");
    cr_json_open(w, '[');
    cr_json_int(w, c->api->major);
    cr_json_int(w, c->api->minor);
    cr_json_close(w, ']');
    info_json_pair(w, "target", c->api->target);
    info_json_pair(w, "id", c->api->id);
    json_methods(w, c);
    if (training_of(c->api)) info_json_pair(w, "optimizer", c->api->train->optimizer);
    info_json_tally(w, "weights", &c->weights);
    info_json_tally(w, "buffers", &c->buffers);
    json_state(w, c->api);
    json_needs(w, c->api);
    cr_json_close(w, '}');
    cr_str_addc(out, '\n');
}

static cr_status tell(contents *c, const char *name, bool json, bool check, cr_str *out) {
    cr_library *lib = c->shown[0].library;
    for (size_t i = 1; i < c->nmethods && !name; i++, c->nshown++)
        CR_TRY(model_open(&c->shown[i], c->path, c->api->methods[i].name, 0));
    if (check) {
        cr_native *instance;
        CR_TRY(cr_native_create(lib, 1, NULL, &instance));
        cr_native_release(instance);
    }
    gather(c);
    if (json) print_json(c, out);
    else print_text(c, out);
    return CR_OK;
}

cr_status info_library(const char *path, const char *name, bool graph, bool json, bool check, cr_str *out) {
    cr_library *lib;
    if (graph) {
        cli_hint("print that of the archive it was compiled from");
        return CR_FAIL(CR_EVALUE, "%s is a compiled library, which holds no graph", path);
    }
    CR_TRY(cr_library_open(path, &lib));
    contents c = { .path = path, .api = cr_library_api(lib) };
    c.nmethods = (size_t)c.api->nmethods;
    c.shown = cr_calloc(c.nmethods + 1, sizeof *c.shown);
    c.methods = cr_calloc(c.nmethods + 1, sizeof *c.methods);
    cr_status status = c.shown && c.methods ? CR_OK : CR_ENOMEM;
    if (!status) status = model_open(&c.shown[0], path, name ? name : c.nmethods ? c.api->methods[0].name : NULL, 0);
    if (!status) c.nshown = 1, status = tell(&c, name, json, check, out);
    for (size_t i = 0; c.shown && i <= c.nmethods; i++) model_dispose(&c.shown[i]);
    cr_free(c.shown);
    cr_free(c.methods);
    cr_library_release(lib);
    return status;
}
