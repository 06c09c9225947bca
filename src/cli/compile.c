/* compile.c: `cresset compile`: exported programs to a shared library that needs nothing of ours. */
#include "cli/arrays.h"
#include "cli/info.h"

/* The programs that become methods, and their names. */
typedef struct methods {
    model at[64];
    char *names[64];
    size_t n;
} methods;

/* "models/decode.pt2" -> "decode" */
static char *stem(const char *path) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path, *dot = strrchr(name, '.');
    return cr_strndup(name, dot && dot > name ? (size_t)(dot - name) : strlen(name));
}

/* Takes the name over. */
static cr_status add_method(methods *all, const char *path, const char *program, char *name) {
    cr_status status = name ? CR_OK : CR_ENOMEM;
    if (!status && all->n == CLI_COUNT(all->at))
        status = CR_FAIL(CR_EVALUE, "a library has at most %zu methods", CLI_COUNT(all->at));
    if (!status) status = model_open(&all->at[all->n], path, program, 0);
    if (status) cr_free(name);
    else all->names[all->n++] = name;
    return status;
}

/* An archive of several programs gives a method for each, one of a single program is a method of its own name. */
static cr_status add_programs(methods *all, const cr_archive *a, const char *path, bool only) {
    size_t n = cr_archive_program_count(a);
    const char *first = cr_archive_program_name(a, 0);
    for (size_t i = 0; i < n && n > 1; i++) {
        const char *name = cr_archive_program_name(a, i);
        CR_TRY(add_method(all, path, name, cr_strdup(name)));
    }
    if (n > 1) return CR_OK;
    bool named = n == 1 && strcmp(first, "model");
    return add_method(all, path, NULL, named ? cr_strdup(first) : only ? cr_strdup("forward") : stem(path));
}

static cr_status add_archive(methods *all, const char *path, bool only) {
    cr_archive *a;
    cli_stage("reading %s", path);
    if (cr_library_is(path)) return CR_FAIL(CR_EVALUE, "%s is a compiled library already; give the archive", path);
    CR_TRY(cr_archive_open(path, &a));
    cr_status status = add_programs(all, a, path, only);
    cr_archive_release(a);
    return status;
}

static void methods_dispose(methods *all) {
    for (size_t i = 0; i < all->n; i++) model_dispose(&all->at[i]), cr_free(all->names[i]);
    cr_free(all);
}

static void add_text(const cr_compiled *o, const char *path, cr_str *out) {
    cr_str_addf(out, "%s: %d method%s, %d steps, weights ", path, o->methods, o->methods == 1 ? "" : "s", o->steps);
    cr_str_add_bytes(out, o->weight_bytes);
    if (o->file_bytes) {
        cr_str_add(out, ", file ");
        cr_str_add_bytes(out, o->file_bytes);
    }
    cr_str_addf(out, ", %.2f s\n", o->seconds);
}

/* Of the library: the first program of one that trains is three. */
static size_t method_names(const methods *all, bool trains, const char **out) {
    size_t n = 0;
    if (trains) out[n++] = "step", out[n++] = "backward", out[n++] = "update";
    for (size_t i = trains; i < all->n; i++) out[n++] = all->names[i];
    return n;
}

/* `verified`: the lines of --verify, or NULL. */
static void add_json(const cr_compiled *o, const char *path, const methods *all, bool trains, const cr_str *verified,
                     cr_str *out) {
    cr_json_writer writer, *w = &writer;
    cr_json_writer_init(w, out, 2);
    cr_json_open(w, '{');
    info_json_pair(w, "file", path);
    const char *names[CLI_COUNT(all->at) + 2];
    size_t n = method_names(all, trains, names);
    info_json_names(w, "methods", names, n);
    cr_json_key(w, "steps"), cr_json_int(w, o->steps);
    cr_json_key(w, "weight_bytes"), cr_json_int(w, (int64_t)o->weight_bytes);
    cr_json_key(w, "bytes"), cr_json_int(w, (int64_t)o->file_bytes);
    cr_json_key(w, "seconds"), cr_json_float(w, o->seconds);
    if (verified) info_json_pair(w, "verified", cr_str_get(verified));
    cr_json_close(w, '}');
    cr_str_addc(out, '\n');
}

/* ---- --dump ---- */

/* One line for every pass; the graph below it where the letter was asked for. */
static cr_status dump_pass(const char *letters, const cr_progress *p) {
    char letter = cr_pass_letter(p->pass);
    cr_str text;
    cr_str_init(&text);
    cr_str_addf(&text, "# %c %s: %u nodes, %.1f ms\n", letter, p->what, cr_graph_node_count(p->graph),
                p->seconds * 1e3);
    if (strchr(letters, letter)) cr_graph_print(p->graph, CR_PRINT_PLAIN, &text);
    cr_status status = cr_str_status(&text);
    if (!status) status = cli_print(&text);
    cr_str_dispose(&text);
    return status;
}

static cr_status check_letters(const char *letters) {
    for (const char *c = letters; *c; c++) {
        cr_str known;
        cr_str_init(&known);
        bool found = false;
        for (size_t i = 0; cr_pass_at(i); i++) {
            char letter = cr_pass_letter(cr_pass_at(i));
            found |= letter == *c;
            cr_str_addf(&known, "%s%c %s", i ? ", " : "", letter, cr_pass_name(cr_pass_at(i)));
        }
        cr_status status = found ? CR_OK
                                 : cli_misuse("--dump: there is no pass '%c'; the passes: %s", *c, cr_str_get(&known));
        cr_str_dispose(&known);
        CR_TRY(status);
    }
    return CR_OK;
}

/* ---- the work ---- */

typedef struct work {
    const char *path, *letters;
    bool verify, json;
    cr_compile_options compile;
} work;

/* While passes are printed, only they are; else the terminal sees what is done. */
static cr_status watch(void *user, const cr_progress *p) {
    const work *w = user;
    switch (p->stage) {
    case CR_STAGE_PASS:
        if (w->letters) return dump_pass(w->letters, p);
        cli_stage("passes: %s done, %u nodes", p->what, cr_graph_node_count(p->graph));
        break;
    case CR_STAGE_WRITE: cli_stage("writing %s", p->what); break;
    case CR_STAGE_COMPARE: cli_stage("comparing with the interpreter"); break;
    default: cli_stage("looking for the first node that differs: %zu of %zu left", p->left, p->total);
    }
    return CR_OK;
}

static cr_status read_options(const cli_call *call, work *w) {
    const char *weights = cli_text(call, "weights"), *optimizer = cli_text(call, "optimizer");
    bool trains = cli_flag(call, "train");
    if (optimizer && !trains) return cli_misuse("--optimizer says how a library trains: it needs --train");
    if (trains && w->verify) return cli_misuse("--verify runs the program, which does not train: leave it out");
    w->compile = (cr_compile_options){ .struct_size = sizeof w->compile,
                                       .train = !trains     ? NULL
                                                : optimizer ? optimizer
                                                            : "adamw",
                                       .cc = cli_text(call, "cc"),
                                       .target = cli_text(call, "target"),
                                       .progress = watch,
                                       .user = w };
    if (!weights || !strcmp(weights, "inside")) return CR_OK;
    if (strcmp(weights, "beside")) return cli_misuse("--weights is 'inside' or 'beside', not '%s'", weights);
    w->compile.weights = CR_WEIGHTS_BESIDE;
    return CR_OK;
}

static cr_status read_command(const cli_call *call, work *w) {
    *w = (work){ .path = cli_text(call, "output"),
                 .letters = cli_text(call, "dump"),
                 .verify = cli_flag(call, "verify") };
    const char *target = cli_text(call, "target");
    cr_emit_kind kind = w->path ? cr_emit_kind_of(w->path) : CR_EMIT_UNKNOWN;
    bool library = kind == CR_EMIT_LIBRARY, here = !target || !strcmp(target, "multi") || !strcmp(target, "native");
    w->json = cli_flag(call, "json");
    if (w->letters) CR_TRY(check_letters(w->letters));
    if (!w->path && !w->letters)
        return cli_misuse("compile needs -o FILE: a library (.so), a static archive (.a) or C source (.c)");
    if (w->path && kind == CR_EMIT_UNKNOWN)
        return cli_misuse("-o %s: end the name in .so (shared library), .a (static archive) or .c (C source)", w->path);
    if (w->json && !w->path) return cli_misuse("--json tells what was written: it needs -o FILE");
    if (w->json && w->letters) return cli_misuse("--json and --dump exclude each other");
    if (w->verify && !library) return cli_misuse("--verify runs the library: it needs -o FILE.so");
    if (w->verify && !here) return cli_misuse("--verify runs the library, which one for '%s' cannot here", target);
    return read_options(call, w);
}

/* Appends to `text`; the library's methods are the programs, in order. */
static cr_status verify_methods(const work *w, const methods *all, cr_library *library, cr_str *text) {
    for (size_t i = 0; i < all->n; i++) {
        cr_program *p = all->at[i].program;
        if (all->n > 1) cr_str_addf(text, "%s ", all->names[i]);
        size_t before = text->n;
        cr_status status = cr_compile_verify(p, library, (int32_t)i, &w->compile, text);
        if (status && text->n == before && !cr_program_has_example(p))
            cli_hint("random numbers do not suit every program: save the archive with example inputs");
        if (status) return all->n > 1 ? cr_error_context(status, "method '%s'", all->names[i]) : status;
    }
    return CR_OK;
}

static cr_status verify(const work *w, const methods *all, cr_str *text) {
    cr_library *library;
    CR_TRY(cr_library_open(w->path, &library));
    cr_status status = verify_methods(w, all, library, text);
    cr_library_release(library);
    return status;
}

static cr_status build(const work *w, const methods *all, double start, cr_compiled *out) {
    cr_compile_options options = w->compile;
    cr_program *programs[CLI_COUNT(all->at)];
    for (size_t i = 0; i < all->n; i++) programs[i] = all->at[i].program;
    options.methods = (const char *const *)all->names;
    CR_TRY(cr_compile(programs, all->n, w->path, &options, out));
    out->seconds = cli_seconds() - start; /* reading included */
    return CR_OK;
}

/* Lines of --verify are shown even when one of them is the failure. */
static cr_status build_and_tell(const work *w, const methods *all, double start) {
    cr_compiled o = { .struct_size = sizeof o };
    cr_str text, verified;
    cr_str_init(&text);
    cr_str_init(&verified);
    cr_status status = build(w, all, start, &o), printed = CR_OK;
    if (!status && w->path && !w->json) add_text(&o, w->path, &text);
    if (!status && w->verify) status = verify(w, all, &verified);
    cli_stage(NULL);
    if (w->json && !status) add_json(&o, w->path, all, w->compile.train, w->verify ? &verified : NULL, &text);
    else if (!w->json) cr_str_add(&text, cr_str_get(&verified));
    text.failed |= verified.failed;
    if (text.n) printed = cli_print(&text);
    cr_str_dispose(&text);
    cr_str_dispose(&verified);
    return status ? status : printed;
}

static cr_status run(const cli_call *call) {
    work w;
    double start = cli_seconds();
    cr_status status = CR_OK;
    CR_TRY(read_command(call, &w));
    CR_TRY(cli_load_ops(call));
    methods *all = cr_calloc(1, sizeof *all);
    if (!all) return CR_ENOMEM;
    for (size_t i = 0; i < call->operands.n && !status; i++)
        status = add_archive(all, cli_operand(call, i), call->operands.n == 1);
    if (!status) status = build_and_tell(&w, all, start);
    cli_stage(NULL);
    methods_dispose(all);
    return status;
}

static const cli_option options[] = {
    { "output", 'o', CLI_TEXT, "FILE", "so a c",
      "where to write: libmodel.so, libmodel.a (and .h) or model.c (and .h)" },
    { "target", 0, CLI_TEXT, "WHAT", "|multi native",
      "processors it runs on: multi (default, any of this kind), native (like this one), or a triple" },
    { "weights", 0, CLI_TEXT, "PLACE", "|inside beside", "in the library (default) or in a file beside it" },
    { "cc", 0, CLI_TEXT, "PROGRAM", "*", "the C compiler (default: CRESSET_CC, cc, gcc, clang)" },
    { "train", 0, CLI_FLAG, NULL, NULL,
      "the first program gives a loss: the library trains it, with step, backward and update" },
    { "optimizer", 0, CLI_TEXT, "WHAT", "|sgd adam adamw adagrad",
      "with --train: sgd, adam, adamw (default) or adagrad, and options: adamw,weight_decay=0.1,clip_norm=1" },
    { "verify", 0, CLI_FLAG, NULL, NULL, "run it against the interpreter and show the largest error of each output" },
    { "json", 0, CLI_FLAG, NULL, NULL, "print JSON: file, methods, steps, bytes, seconds" },
    { "dump", 0, CLI_TEXT, "LETTERS", NULL,
      "print the graph after the passes of these letters (docs/passes.md), and the time of each pass" },
    { "op-library", 0, CLI_TEXT, "FILE", "so", "a library of custom operators that it calls (docs/custom-ops.md)" },
    { 0 },
};

const cli_command cli_compile = {
    .name = "compile",
    .summary = "exported programs to a library that needs only libc",
    .operands = "FILE...",
    .least = 1,
    .most = 64,
    .files = "pt2",
    .options = options,
    .text = "Several programs become methods of one library, named after their files. Weights are stored\n"
            "once, and buffers of one name that calls change (a KV cache) are shared. The library's one\n"
            "symbol and how to call it: include/cresset/abi.h. Custom operators that a program calls are\n"
            "named in the library; their functions are given when it is loaded. With --train the first\n"
            "program is one that returns a loss; the others share its parameters (docs/training.md).",
    .examples = "  cresset compile model.pt2 -o libmodel.so --verify\n"
                "  cresset compile prefill.pt2 decode.pt2 -o libgpt.so\n"
                "  cresset compile --train loss.pt2 forward.pt2 --optimizer adamw,weight_decay=0.1 -o libtrain.so\n",
    .run = run,
};
