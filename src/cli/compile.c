/* compile.c: `cresset compile`: exported programs to a shared library that needs nothing of ours. */
#include "cli/info.h"
#include "cli/verify.h"

#include <sys/stat.h>

/* The programs that become methods, and their names. */
typedef struct methods {
    model at[64];
    const char *names[64];
    size_t n;
    cr_arena arena;
} methods;

/* "models/decode.pt2" -> "decode" */
static const char *stem(cr_arena *arena, const char *path) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path, *dot = strrchr(name, '.');
    return cr_arena_strndup(arena, name, dot && dot > name ? (size_t)(dot - name) : strlen(name));
}

static cr_status add_method(methods *all, const char *path, const char *program, const char *name) {
    if (all->n == CR_COUNT(all->at)) return CR_FAIL(CR_EVALUE, "a library has at most %zu methods", CR_COUNT(all->at));
    CR_TRY(model_open(&all->at[all->n], path, program, 0));
    all->names[all->n++] = name;
    return name ? CR_OK : CR_ENOMEM;
}

/* An archive of several programs gives a method for each, one of a single program is a method of its own name. */
static cr_status add_archive(methods *all, const char *path, bool only) {
    const char *const *names = NULL;
    size_t n = 0;
    cr_zip *zip = NULL;
    cli_stage("reading %s", path);
    if (cr_library_is(path)) return CR_FAIL(CR_EVALUE, "%s is a compiled library already; give the archive", path);
    cr_status status = cr_zip_open(path, &zip);
    if (!status) status = cr_program_list(zip, &all->arena, &names, &n);
    cr_zip_release(zip);
    CR_TRY(status);
    for (size_t i = 0; i < n && n > 1 && !status; i++) status = add_method(all, path, names[i], names[i]);
    if (n > 1) return status;
    const char *name = n == 1 && strcmp(names[0], "model") ? names[0] : only ? "forward" : stem(&all->arena, path);
    return add_method(all, path, NULL, name);
}

static void methods_dispose(methods *all) {
    for (size_t i = 0; i < all->n; i++) model_dispose(&all->at[i]);
    cr_arena_dispose(&all->arena);
    cr_free(all);
}

static cr_status options_of(const cli_call *call, cr_emit_options *out) {
    const char *weights = cli_text(call, "weights");
    *out = (cr_emit_options){ .weights = CR_WEIGHTS_INSIDE,
                              .cc = cli_text(call, "cc"),
                              .target = cli_text(call, "target") };
    if (!weights || !strcmp(weights, "inside")) return CR_OK;
    if (strcmp(weights, "beside")) return cli_misuse("--weights is 'inside' or 'beside', not '%s'", weights);
    out->weights = CR_WEIGHTS_BESIDE;
    return CR_OK;
}

/* What a build came to. */
typedef struct outcome { int methods, steps; uint64_t weights, bytes; double seconds; } outcome;

static outcome outcome_of(const cr_lowered *l, const char *path, double seconds) {
    struct stat st;
    outcome o = { .methods = l->model.nmethods, .weights = l->model.weight_bytes, .seconds = seconds };
    for (int i = 0; i < l->model.nmethods; i++) o.steps += l->model.methods[i]->nsteps;
    if (!stat(path, &st)) o.bytes = (uint64_t)st.st_size;
    return o;
}

static void add_text(const outcome *o, const char *path, cr_str *out) {
    cr_str_addf(out, "%s: %d method%s, %d steps, weights ", path, o->methods, o->methods == 1 ? "" : "s", o->steps);
    cr_str_add_bytes(out, o->weights);
    if (o->bytes) {
        cr_str_add(out, ", file ");
        cr_str_add_bytes(out, o->bytes);
    }
    cr_str_addf(out, ", %.2f s\n", o->seconds);
}

/* `verified`: the lines of --verify, or NULL. */
static void add_json(const outcome *o, const char *path, const methods *all, const cr_str *verified, cr_str *out) {
    cr_json_writer writer, *w = &writer;
    cr_json_writer_init(w, out, 2);
    cr_json_open(w, '{');
    info_json_pair(w, "file", path);
    info_json_names(w, "methods", all->names, all->n);
    cr_json_key(w, "steps"), cr_json_int(w, o->steps);
    cr_json_key(w, "weight_bytes"), cr_json_int(w, (int64_t)o->weights);
    cr_json_key(w, "bytes"), cr_json_int(w, (int64_t)o->bytes);
    cr_json_key(w, "seconds"), cr_json_float(w, o->seconds);
    if (verified) info_json_pair(w, "verified", cr_str_get(verified));
    cr_json_close(w, '}');
    cr_str_addc(out, '\n');
}

/* ---- --dump ---- */

/* One line for every pass; the graph below it where the letter was asked for. */
static cr_status dump_pass(void *user, const cr_pass *pass, const cr_graph *g, double seconds) {
    const char *letters = user;
    cr_str text;
    cr_str_init(&text);
    cr_str_addf(&text, "# %c %s: %u nodes, %.1f ms\n", pass->letter, pass->name, cr_graph_node_count(g), seconds * 1e3);
    if (strchr(letters, pass->letter)) cr_graph_print(g, CR_PRINT_PLAIN, &text);
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
            found |= cr_pass_at(i)->letter == *c;
            cr_str_addf(&known, "%s%c %s", i ? ", " : "", cr_pass_at(i)->letter, cr_pass_at(i)->name);
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
    cr_emit_options emit;
} work;

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
    return options_of(call, &w->emit);
}

/* While passes are printed, only they are; else the terminal sees their names. */
static cr_status watch_pass(void *user, const cr_pass *pass, const cr_graph *g, double seconds) {
    if (user) return dump_pass(user, pass, g, seconds);
    cli_stage("passes: %s done, %u nodes", pass->name, cr_graph_node_count(g));
    return CR_OK;
}

static cr_status verify(const work *w, methods *all, cr_str *text) {
    cr_status status = CR_OK;
    for (size_t i = 0; i < all->n && !status; i++) {
        if (all->n > 1) cr_str_addf(text, "%s ", all->names[i]);
        status = verify_method(&all->at[i], w->path, (int32_t)i, &w->emit, text);
        if (status && all->n > 1) status = cr_error_context(status, "method '%s'", all->names[i]);
    }
    return status;
}

static cr_status build(const work *w, methods *all, double start, outcome *out) {
    cr_lower_options lower = { .after = watch_pass, .user = (void *)w->letters, .names = all->names };
    cr_program *programs[CR_COUNT(all->at)];
    cr_lowered *lowered = NULL;
    for (size_t i = 0; i < all->n; i++) programs[i] = all->at[i].program;
    cr_status status = cr_build_lowering(w->emit.target, &lower);
    if (!status) status = cr_lower(programs, all->n, &lower, &lowered);
    if (!status && w->path) {
        cli_stage("writing %s", w->path);
        status = cr_emit(lowered, w->path, &w->emit);
    }
    if (!status && w->path) *out = outcome_of(lowered, w->path, cli_seconds() - start);
    cr_lowered_release(lowered);
    return status;
}

/* Lines of --verify are shown even when one of them is the failure. */
static cr_status build_and_tell(const work *w, methods *all, double start) {
    outcome o = { 0 };
    cr_str text, verified;
    cr_str_init(&text);
    cr_str_init(&verified);
    cr_status status = build(w, all, start, &o), printed = CR_OK;
    if (!status && w->path && !w->json) add_text(&o, w->path, &text);
    if (!status && w->verify) status = verify(w, all, &verified);
    cli_stage(NULL);
    if (w->json && !status) add_json(&o, w->path, all, w->verify ? &verified : NULL, &text);
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
    cr_arena_init(&all->arena);
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
    { "verify", 0, CLI_FLAG, NULL, NULL, "run it against the interpreter and show the largest error of each output" },
    { "json", 0, CLI_FLAG, NULL, NULL, "print JSON: file, methods, steps, bytes, seconds" },
    { "dump", 0, CLI_TEXT, "LETTERS", NULL,
      "print the graph after the passes of these letters (docs/passes.md), and the time of each pass" },
    { "op-library", 0, CLI_TEXT, "FILE", "so", "a library of custom operators that it calls (docs/custom-ops.md)" },
    { 0 },
};

const cli_command cli_compile = {
    "compile", "exported programs to a library that needs only libc", "FILE...", 1, 64, "pt2", options,
    "Several programs become methods of one library, named after their files. Weights are stored\n"
    "once, and buffers of one name that calls change (a KV cache) are shared. The library's one\n"
    "symbol and how to call it: include/cresset/abi.h. Custom operators that a program calls are\n"
    "named in the library; their functions are given when it is loaded.",
    "  cresset compile model.pt2 -o libmodel.so --verify\n  cresset compile prefill.pt2 decode.pt2 -o libgpt.so\n", run,
};
