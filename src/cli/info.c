/* info.c: `cresset info`: what a program takes, gives and is made of, without touching its weights.
 *
 * The facts are gathered once (struct facts) and shown either as text or as JSON. What compiled libraries have in
 * common with archives is shown by info_parts.c; the rest of theirs is in info_library.c. */
#include "cli/info.h"

#include <stdlib.h>

static const cli_option options[] = {
    { .name = "graph", .kind = CLI_FLAG, .help = "print the graph instead" },
    { .name = "json", .kind = CLI_FLAG, .help = "print JSON: inputs, outputs, dynamic, state, ops, unsupported, ..." },
    { .name = "name", .kind = CLI_TEXT, .value = "NAME", .help = "which program or method, where there are several" },
    { .name = "check", .kind = CLI_FLAG, .help = "verify every checksum, those of the weights too" },
    { .name = NULL },
};

/* ---- facts ---- */

typedef struct op_count { const char *name; size_t count; } op_count;
typedef struct missing_op { const char *name, *source; size_t count; } missing_op; /* source: NULL when unknown */
typedef struct facts {
    const char *path;
    model m;
    const char *const *programs;
    size_t nprograms;
    cr_map op_index;               /* name -> index in ops */
    CR_VEC(op_count) ops;          /* most frequent first */
    CR_VEC(missing_op) unsupported;
    CR_VEC(const char *) extra, aot; /* paths below extra/, package names below data/aotinductor/ */
    tally parameters, buffers, constants;
} facts;

static bool is_unsupported(const cr_program *p, const char *name) {
    for (size_t i = 0; i < p->nunsupported; i++)
        if (!strcmp(p->unsupported[i], name)) return true;
    return false;
}

static cr_status count_missing(facts *f, const char *name, const cr_node *node) {
    for (size_t i = 0; i < f->unsupported.n; i++)
        if (!strcmp(f->unsupported.at[i].name, name)) return f->unsupported.at[i].count++, CR_OK;
    cr_str source;
    cr_str_init(&source);
    const char *kept = NULL;
    bool known = model_source(node, &source);
    cr_status status = cr_str_status(&source);
    if (known && !status && !(kept = cr_arena_strdup(&f->m.arena, cr_str_get(&source)))) status = CR_ENOMEM;
    cr_str_dispose(&source);
    CR_TRY(status);
    return cr_vec_push(&f->unsupported, (missing_op){ name, kept, 1 });
}

static cr_status count_ops(facts *f, const cr_graph *g) {
    for (uint32_t n = cr_graph_first(g); n != CR_NO_NODE; n = cr_graph_next(g, n)) {
        const cr_node *node = cr_graph_node(g, n);
        if (node->kind != CR_NODE_CALL) continue;
        const char *name = model_op_name(node);
        uint64_t at;
        if (cr_map_find_str(&f->op_index, name, &at)) {
            f->ops.at[at].count++;
        } else {
            CR_TRY(cr_map_put_str(&f->op_index, name, f->ops.n));
            CR_TRY(cr_vec_push(&f->ops, (op_count){ name, 1 }));
        }
        if (is_unsupported(f->m.program, name)) CR_TRY(count_missing(f, name, node));
    }
    for (size_t i = 0; i < cr_graph_subgraph_count(g); i++) CR_TRY(count_ops(f, cr_graph_subgraph(g, i)));
    return CR_OK;
}

static int by_count(const void *a, const void *b) {
    const op_count *x = a, *y = b;
    if (x->count != y->count) return x->count < y->count ? 1 : -1;
    return strcmp(x->name, y->name);
}

/* The archive's members that are no part of a program. A package is a folder below data/aotinductor. */
static cr_status list_members(facts *f) {
    cr_zip *zip = f->m.program->archive;
    for (size_t i = 0; zip && i < cr_zip_count(zip); i++) {
        const char *name = cr_zip_at(zip, i)->name, *slash = strchr(name, '/');
        const char *below = slash && strncmp(name, "extra_files/", 12) ? slash + 1 : name;
        if (!strncmp(below, "extra/", 6)) CR_TRY(cr_vec_push(&f->extra, below + 6));
        if (!strncmp(below, "extra_files/", 12)) CR_TRY(cr_vec_push(&f->extra, below + 12));
        if (strncmp(below, "data/aotinductor/", 17)) continue;
        size_t n = strcspn(below + 17, "/");
        char *package = cr_arena_strndup(&f->m.arena, below + 17, n);
        if (!package) return CR_ENOMEM;
        bool known = false;
        for (size_t k = 0; k < f->aot.n; k++) known |= !strcmp(f->aot.at[k], package);
        if (!known) CR_TRY(cr_vec_push(&f->aot, package));
    }
    return CR_OK;
}

static void count_tensor(tally *t, const cr_tensor *tensor) {
    info_count(t, tensor->meta.dtype, tensor->meta.rank, tensor->meta.size);
}

static cr_status gather(facts *f) {
    const cr_program *p = f->m.program;
    CR_TRY(count_ops(f, p->graph));
    if (f->ops.n) qsort(f->ops.at, f->ops.n, sizeof *f->ops.at, by_count);
    for (size_t i = 0; i < p->nstate; i++)
        count_tensor(p->state[i].is_parameter ? &f->parameters : &f->buffers, p->state[i].tensor);
    for (size_t i = 0; i < p->nconstants; i++) count_tensor(&f->constants, p->constants[i].tensor);
    if (p->archive) CR_TRY(cr_program_list(p->archive, &f->m.arena, &f->programs, &f->nprograms));
    return list_members(f);
}

/* ---- text ---- */

static void print_text(const facts *f, cr_str *out) {
    const cr_program *p = f->m.program;
    size_t calls = 0;
    for (size_t i = 0; i < f->ops.n; i++) calls += f->ops.at[i].count;
    cr_str_addf(out, "%s: ", f->path);
    if (p->archive) cr_str_add_bytes(out, cr_zip_size(p->archive)), cr_str_add(out, ", ");
    cr_str_addf(out, "PyTorch %s, schema %d.%d, dialect %s\n", p->torch_version ? p->torch_version : "?",
                p->schema_major, p->schema_minor, p->dialect ? p->dialect : "?");
    cr_str_addf(out, "program '%s': %zu calls of %zu ops\n", p->name, calls, f->ops.n);
    if (f->nprograms > 1) info_add_names("programs", f->programs, f->nprograms, out);
    info_add_interface(&f->m, out);
    info_add_tally("parameters", &f->parameters, out);
    info_add_tally("buffers", &f->buffers, out);
    info_add_tally("constants", &f->constants, out);
    info_add_names("extra files", f->extra.at, f->extra.n, out);
    if (f->aot.n)
        info_add_names("AOTInductor", f->aot.at, f->aot.n, out), cr_str_add(out, "            (compiled packages; they "
                                                                                 "are not run here)\n");
    cr_str_add(out, "\nops\n");
    for (size_t i = 0; i < f->ops.n; i++) cr_str_addf(out, "  %5zu  %s\n", f->ops.at[i].count, f->ops.at[i].name);
    if (f->unsupported.n) cr_str_add(out, "\nunsupported\n");
    for (size_t i = 0; i < f->unsupported.n; i++) {
        const missing_op *u = &f->unsupported.at[i];
        cr_str_addf(out, "  %s", u->name);
        if (u->count > 1) cr_str_addf(out, " (%zu times)", u->count);
        if (u->source) cr_str_addf(out, ", first at %s", u->source);
        cr_str_addc(out, '\n');
    }
}

/* ---- JSON ---- */

static void json_state(cr_json_writer *w, const facts *f) {
    const cr_program *p = f->m.program;
    cr_json_key(w, "state");
    cr_json_open(w, '[');
    for (size_t i = 0; i < p->nstate + p->nconstants; i++) {
        const cr_named_tensor *t = i < p->nstate ? &p->state[i] : &p->constants[i - p->nstate];
        cr_json_open(w, '{');
        info_json_pair(w, "name", t->name);
        info_json_pair(w, "kind", t->is_parameter ? "parameter" : i < p->nstate ? "buffer" : "constant");
        info_json_pair(w, "dtype", cr_dtype_name(t->tensor->meta.dtype));
        cr_json_key(w, "shape");
        info_json_sizes(w, NULL, t->tensor->meta.rank, t->tensor->meta.size);
        cr_json_close(w, '}');
    }
    cr_json_close(w, ']');
}

static void print_json(const facts *f, cr_str *out) {
    const cr_program *p = f->m.program;
    cr_json_writer writer, *w = &writer;
    cr_json_writer_init(w, out, 2);
    cr_json_open(w, '{');
    info_json_pair(w, "file", f->path);
    if (p->archive) cr_json_key(w, "bytes"), cr_json_int(w, (int64_t)cr_zip_size(p->archive));
    info_json_pair(w, "program", p->name);
    info_json_names(w, "programs", f->programs, f->nprograms);
    info_json_pair(w, "torch_version", p->torch_version);
    cr_json_key(w, "schema_version");
    cr_json_open(w, '[');
    cr_json_int(w, p->schema_major);
    cr_json_int(w, p->schema_minor);
    cr_json_close(w, ']');
    info_json_pair(w, "dialect", p->dialect);
    info_json_interface(w, &f->m);
    info_json_names(w, "guards", p->guards, p->nguards);
    info_json_tally(w, "parameters", &f->parameters);
    info_json_tally(w, "buffers", &f->buffers);
    info_json_tally(w, "constants", &f->constants);
    json_state(w, f);
    cr_json_key(w, "ops");
    cr_json_open(w, '{');
    for (size_t i = 0; i < f->ops.n; i++)
        cr_json_key(w, f->ops.at[i].name), cr_json_int(w, (int64_t)f->ops.at[i].count);
    cr_json_close(w, '}');
    cr_json_key(w, "unsupported");
    cr_json_open(w, '[');
    for (size_t i = 0; i < f->unsupported.n; i++) {
        cr_json_open(w, '{');
        info_json_pair(w, "name", f->unsupported.at[i].name);
        cr_json_key(w, "count"), cr_json_int(w, (int64_t)f->unsupported.at[i].count);
        info_json_pair(w, "source", f->unsupported.at[i].source);
        cr_json_close(w, '}');
    }
    cr_json_close(w, ']');
    info_json_names(w, "extra_files", f->extra.at, f->extra.n);
    info_json_names(w, "aotinductor", f->aot.at, f->aot.n);
    cr_json_close(w, '}');
    cr_str_addc(out, '\n');
}

/* ---- the command ---- */

static cr_status run(const cli_call *call) {
    facts f = { .path = cli_operand(call, 0) };
    cr_str out;
    cr_str_init(&out);
    cr_map_init(&f.op_index);
    bool graph = cli_flag(call, "graph"), json = cli_flag(call, "json");
    if (graph && json) return cli_misuse("--graph and --json exclude each other");
    cr_status status = CR_OK;
    if (cr_library_is(f.path)) {
        CR_TRY_OUT(info_library(f.path, cli_text(call, "name"), graph, json, cli_flag(call, "check"), &out));
        status = cli_print(&out);
        goto out;
    }
    CR_TRY_OUT(
        model_open(&f.m, f.path, cli_text(call, "name"), CR_LOAD_META | (cli_flag(call, "check") ? CR_LOAD_CHECK : 0)));
    CR_TRY_OUT(gather(&f));
    if (graph) cr_graph_print(f.m.program->graph, CR_PRINT_PLAIN, &out);
    else if (json) print_json(&f, &out);
    else print_text(&f, &out);
    status = cli_print(&out);
out:
    cr_str_dispose(&out);
    cr_map_dispose(&f.op_index);
    cr_vec_dispose(&f.ops);
    cr_vec_dispose(&f.unsupported);
    cr_vec_dispose(&f.extra);
    cr_vec_dispose(&f.aot);
    model_dispose(&f.m);
    return status;
}

const cli_command cli_info = {
    .name = "info",
    .summary = "shows inputs, outputs, sizes and ops of a program or library",
    .operands = "FILE",
    .least = 1,
    .most = 1,
    .files = "pt2 so",
    .options = options,
    .text = "Shows what a program takes and gives, its dynamic sizes and their ranges, how large its\n"
            "weights are, which ops it calls how often, and which of them cannot be run here.\n"
            "Weights are not read: a large archive takes no longer than a small one. Of a library that\n"
            "'cresset compile' made: methods, inputs, outputs, state.",
    .examples = "  cresset info model.pt2\n  cresset info model.pt2 --json | jq .inputs\n",
    .run = run,
};
