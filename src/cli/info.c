/* info.c: `cresset info`: what a program takes, gives and is made of, without touching its weights.
 *
 * The facts are gathered once (struct facts) and shown either as text or as JSON. What compiled libraries have in
 * common with archives is shown by info_parts.c; the rest of theirs is in info_library.c. */
#include "cli/info.h"

static const cli_option options[] = {
    { .name = "graph", .kind = CLI_FLAG, .help = "print the graph instead" },
    { .name = "json", .kind = CLI_FLAG, .help = "print JSON: inputs, outputs, dynamic, state, ops, unsupported, ..." },
    { .name = "name", .kind = CLI_TEXT, .value = "NAME", .help = "which program or method, where there are several" },
    { .name = "check", .kind = CLI_FLAG, .help = "verify every checksum, those of the weights too" },
    { .name = NULL },
};

/* ---- facts ---- */

typedef CLI_VEC(const char *) names;
typedef struct facts {
    const char *path;
    model m;
    cr_op_uses *ops;
    CLI_VEC(const cr_op_use *) unsupported;
    names programs, extra, aot, guards; /* borrowed */
    tally parameters, buffers, constants;
} facts;

static const cr_op_use *op_at(const facts *f, size_t i) { return cr_op_uses_at(f->ops, i); }

/* Ops that cannot be run here, in the order of their first calls. */
static cr_status list_unsupported(facts *f) {
    size_t n = cr_op_uses_count(f->ops);
    cr_status status = CR_OK;
    const cr_op_use **ordered = cr_calloc(n + 1, sizeof *ordered);
    if (!ordered) return CR_ENOMEM;
    for (size_t i = 0; i < n; i++) ordered[op_at(f, i)->order] = op_at(f, i);
    for (size_t i = 0; i < n && !status; i++)
        if (!ordered[i]->is_known) status = cli_push(&f->unsupported, ordered[i]);
    cr_free(ordered);
    return status;
}

static cr_status list(const char *(*name)(const cr_archive *a, size_t i), const cr_archive *a, names *out) {
    for (size_t i = 0; name(a, i); i++) CR_TRY(cli_push(out, name(a, i)));
    return CR_OK;
}

static void count_tensor(tally *t, const cr_tensor *tensor) {
    info_count(t, cr_tensor_dtype(tensor), cr_tensor_rank(tensor), cr_tensor_sizes(tensor));
}

static cr_status gather(facts *f) {
    const cr_program *p = f->m.program;
    const cr_named_tensor *t;
    CR_TRY(cr_program_ops(p, &f->ops));
    CR_TRY(list_unsupported(f));
    for (size_t i = 0; (t = cr_program_state(p, i)); i++)
        count_tensor(t->is_parameter ? &f->parameters : &f->buffers, t->tensor);
    for (size_t i = 0; (t = cr_program_constant(p, i)); i++) count_tensor(&f->constants, t->tensor);
    for (size_t i = 0; cr_program_guard(p, i); i++) CR_TRY(cli_push(&f->guards, cr_program_guard(p, i)));
    CR_TRY(list(cr_archive_program_name, f->m.archive, &f->programs));
    CR_TRY(list(cr_archive_extra_name, f->m.archive, &f->extra));
    return list(cr_archive_package_name, f->m.archive, &f->aot);
}

static void facts_dispose(facts *f) {
    cr_op_uses_free(f->ops);
    cli_vec_dispose(&f->unsupported);
    cli_vec_dispose(&f->programs);
    cli_vec_dispose(&f->extra);
    cli_vec_dispose(&f->aot);
    cli_vec_dispose(&f->guards);
    model_dispose(&f->m);
}

static const char *or_unknown(const char *text) { return text ? text : "?"; }

/* ---- text ---- */

static void add_unsupported(const facts *f, cr_str *out) {
    for (size_t i = 0; i < f->unsupported.n; i++) {
        const cr_op_use *u = f->unsupported.at[i];
        cr_str_addf(out, "%s  %s", i ? "" : "\nunsupported\n", u->name);
        if (u->count > 1) cr_str_addf(out, " (%zu times)", u->count);
        if (u->source) cr_str_addf(out, ", first at %s", u->source);
        cr_str_addc(out, '\n');
    }
}

static void print_text(const facts *f, cr_str *out) {
    const cr_program *p = f->m.program;
    size_t calls = 0, nops = cr_op_uses_count(f->ops);
    int major, minor;
    cr_program_schema_version(p, &major, &minor);
    for (size_t i = 0; i < nops; i++) calls += op_at(f, i)->count;
    cr_str_addf(out, "%s: ", f->path);
    cr_str_add_bytes(out, cr_archive_size(f->m.archive));
    cr_str_addf(out, ", PyTorch %s, schema %d.%d, dialect %s\n", or_unknown(cr_program_torch_version(p)), major, minor,
                or_unknown(cr_program_dialect(p)));
    cr_str_addf(out, "program '%s': %zu calls of %zu ops\n", cr_program_name(p), calls, nops);
    if (f->programs.n > 1) info_add_names("programs", f->programs.at, f->programs.n, out);
    info_add_interface(&f->m, out);
    info_add_tally("parameters", &f->parameters, out);
    info_add_tally("buffers", &f->buffers, out);
    info_add_tally("constants", &f->constants, out);
    info_add_names("extra files", f->extra.at, f->extra.n, out);
    info_add_names("AOTInductor", f->aot.at, f->aot.n, out);
    if (f->aot.n) cr_str_add(out, "            (compiled packages; they are not run here)\n");
    cr_str_add(out, "\nops\n");
    for (size_t i = 0; i < nops; i++) cr_str_addf(out, "  %5zu  %s\n", op_at(f, i)->count, op_at(f, i)->name);
    add_unsupported(f, out);
}

/* ---- JSON ---- */

static void json_tensor(cr_json_writer *w, const cr_named_tensor *t, const char *kind) {
    cr_json_open(w, '{');
    info_json_pair(w, "name", t->name);
    info_json_pair(w, "kind", t->is_parameter ? "parameter" : kind);
    info_json_pair(w, "dtype", cr_dtype_name(cr_tensor_dtype(t->tensor)));
    cr_json_key(w, "shape");
    info_json_sizes(w, cr_tensor_rank(t->tensor), cr_tensor_sizes(t->tensor));
    cr_json_close(w, '}');
}

static void json_state(cr_json_writer *w, const cr_program *p) {
    const cr_named_tensor *t;
    cr_json_key(w, "state");
    cr_json_open(w, '[');
    for (size_t i = 0; (t = cr_program_state(p, i)); i++) json_tensor(w, t, "buffer");
    for (size_t i = 0; (t = cr_program_constant(p, i)); i++) json_tensor(w, t, "constant");
    cr_json_close(w, ']');
}

static void json_ops(cr_json_writer *w, const facts *f) {
    const cr_op_use *u;
    cr_json_key(w, "ops");
    cr_json_open(w, '{');
    for (size_t i = 0; (u = op_at(f, i)); i++) cr_json_key(w, u->name), cr_json_int(w, (int64_t)u->count);
    cr_json_close(w, '}');
    cr_json_key(w, "unsupported");
    cr_json_open(w, '[');
    for (size_t i = 0; i < f->unsupported.n; i++) {
        u = f->unsupported.at[i];
        cr_json_open(w, '{');
        info_json_pair(w, "name", u->name);
        cr_json_key(w, "count"), cr_json_int(w, (int64_t)u->count);
        info_json_pair(w, "source", u->source);
        cr_json_close(w, '}');
    }
    cr_json_close(w, ']');
}

static void print_json(const facts *f, cr_str *out) {
    const cr_program *p = f->m.program;
    cr_json_writer writer, *w = &writer;
    int major, minor;
    cr_program_schema_version(p, &major, &minor);
    cr_json_writer_init(w, out, 2);
    cr_json_open(w, '{');
    info_json_pair(w, "file", f->path);
    cr_json_key(w, "bytes"), cr_json_int(w, (int64_t)cr_archive_size(f->m.archive));
    info_json_pair(w, "program", cr_program_name(p));
    info_json_names(w, "programs", f->programs.at, f->programs.n);
    info_json_pair(w, "torch_version", cr_program_torch_version(p));
    cr_json_key(w, "schema_version");
    info_json_sizes(w, 2, (const int64_t[]){ major, minor });
    info_json_pair(w, "dialect", cr_program_dialect(p));
    info_json_interface(w, &f->m);
    info_json_names(w, "guards", f->guards.at, f->guards.n);
    info_json_tally(w, "parameters", &f->parameters);
    info_json_tally(w, "buffers", &f->buffers);
    info_json_tally(w, "constants", &f->constants);
    json_state(w, p);
    json_ops(w, f);
    info_json_names(w, "extra_files", f->extra.at, f->extra.n);
    info_json_names(w, "aotinductor", f->aot.at, f->aot.n);
    cr_json_close(w, '}');
    cr_str_addc(out, '\n');
}

/* ---- the command ---- */

static cr_status run(const cli_call *call) {
    facts f = { .path = cli_operand(call, 0) };
    const char *name = cli_text(call, "name");
    bool graph = cli_flag(call, "graph"), json = cli_flag(call, "json"), check = cli_flag(call, "check");
    cr_str out;
    cr_str_init(&out);
    if (graph && json) return cli_misuse("--graph and --json exclude each other");
    cr_status status = CR_OK;
    if (cr_library_is(f.path)) {
        CR_TRY_OUT(info_library(f.path, name, graph, json, check, &out));
        status = cli_print(&out);
        goto out;
    }
    CR_TRY_OUT(model_open(&f.m, f.path, name, CR_LOAD_META | (check ? CR_LOAD_CHECK : 0)));
    CR_TRY_OUT(gather(&f));
    if (graph) cr_graph_print(cr_program_graph(f.m.program), CR_PRINT_PLAIN, &out);
    else if (json) print_json(&f, &out);
    else print_text(&f, &out);
    status = cli_print(&out);
out:
    cr_str_dispose(&out);
    facts_dispose(&f);
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
