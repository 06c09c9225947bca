/* bench.c: `cresset bench`: how long a call takes, interpreted, compiled and in other hands.
 *
 * Rounds go round: in each, everybody makes as many calls as fit into a tenth of a second (at least one), and the
 * median of the rounds counts. All run on the same inputs with the same number of threads; state begins anew with each
 * round. */
#include "cli/bench.h"
#include "cli/profile.h"

#include "cresset/process.h"

#include <stdlib.h>

typedef enum contender_kind { INTERPRETER, NATIVE, PEER } contender_kind;
typedef struct contender {
    const char *name;
    contender_kind kind;
    size_t peer;
    const char *missing; /* why it does not take part; NULL: it does */
    uint64_t calls;      /* a round */
    CLI_VEC(double) times;
    double median, best;
} contender;

typedef struct bench {
    const char *path;
    model m;
    input_set inputs;
    const char *inputs_name; /* "example" or "random" */
    cr_module *module;
    cr_native *native;
    cr_library *library;
    peers *peers;
    double compile_seconds; /* 0: it was a library already */
    int threads, rounds;
    bool profiled, json, stateful;
    CLI_VEC(contender) all;
    profile steps;
} bench;

/* ---- one call ---- */

static cr_status call_once(bench *b, contender_kind kind) {
    size_t n = cr_signature_output_count(b->m.signature);
    cr_arg local[16], *results = n <= CLI_COUNT(local) ? local : cr_calloc(n, sizeof *results);
    if (!results) return CR_ENOMEM;
    cr_status status = kind == NATIVE ? cr_native_run(b->native, b->m.method, b->inputs.args, b->inputs.n, results, n)
                                      : cr_module_run(b->module, b->inputs.args, b->inputs.n, results, n);
    if (!status) cr_results_release(results, n);
    if (results != local) cr_free(results);
    return status;
}

static cr_status time_calls(bench *b, const contender *c, uint64_t calls, double *seconds) {
    if (c->kind == PEER) return peers_time(b->peers, c->peer, calls, seconds);
    cr_status status = CR_OK;
    double begin = cli_seconds();
    for (uint64_t i = 0; i < calls && !status; i++) status = call_once(b, c->kind);
    *seconds = (cli_seconds() - begin) / (double)calls;
    return status;
}

/* ---- rounds ---- */

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static cr_status choose_calls(bench *b, contender *c) {
    double once;
    CR_TRY(time_calls(b, c, 1, &once)); /* the first touches fresh memory */
    CR_TRY(time_calls(b, c, 1, &once));
    c->calls = once > 0.1 ? 1 : (uint64_t)CLI_MIN(0.1 / CLI_MAX(once, 1e-7), 1e6) + 1;
    return CR_OK;
}

/* A program that keeps state begins every round as it was loaded: otherwise a cache grows full and later rounds measure
 * something else. The call that touches fresh memory is not timed. */
static cr_status renew(bench *b, const contender *c) {
    if (!b->stateful || c->kind == PEER) return CR_OK;
    if (c->kind == INTERPRETER) {
        cr_module_release(b->module);
        b->module = NULL;
        CR_TRY(cr_module_create(b->m.program, CR_MODULE_OWN_STATE, &b->module));
    } else {
        cr_native_release(b->native);
        b->native = NULL;
        CR_TRY(cr_native_create(b->library, b->threads, NULL, &b->native));
    }
    return call_once(b, c->kind);
}

static cr_status measure(bench *b) {
    for (size_t i = 0; i < b->all.n; i++)
        if (!b->all.at[i].missing) CR_TRY(choose_calls(b, &b->all.at[i]));
    for (int round = 0; round < b->rounds; round++) {
        cli_stage("round %d of %d", round + 1, b->rounds);
        for (size_t k = 0; k < b->all.n; k++) {
            contender *c = &b->all.at[round % 2 ? b->all.n - 1 - k : k];
            double seconds;
            if (c->missing) continue;
            CR_TRY(renew(b, c));
            CR_TRY(time_calls(b, c, c->calls, &seconds));
            CR_TRY(cli_push(&c->times, seconds));
        }
    }
    for (size_t i = 0; i < b->all.n; i++) {
        contender *c = &b->all.at[i];
        if (c->missing) continue;
        qsort(c->times.at, c->times.n, sizeof *c->times.at, by_value);
        c->median = c->times.at[c->times.n / 2];
        c->best = c->times.at[0];
    }
    return CR_OK;
}

/* ---- what is shown ---- */

static double native_median(const bench *b) {
    for (size_t i = 0; i < b->all.n; i++)
        if (b->all.at[i].kind == NATIVE && !b->all.at[i].missing) return b->all.at[i].median;
    return 0;
}

static void print_table(const bench *b, cr_str *out) {
    double native = native_median(b);
    cr_str_addf(out, "%s: %s inputs, %d thread%s, medians of %d rounds", b->path, b->inputs_name, b->threads,
                b->threads == 1 ? "" : "s", b->rounds);
    if (b->compile_seconds > 0) cr_str_addf(out, ", compiled in %.2f s", b->compile_seconds);
    cr_str_addf(out, "\n\n%-14s%12s%12s%12s\n", "", "ms a call", "least", "native is");
    for (size_t i = 0; i < b->all.n; i++) {
        const contender *c = &b->all.at[i];
        if (c->missing) cr_str_addf(out, "%-14s   not there: %s\n", c->name, c->missing);
        else
            cr_str_addf(out, "%-14s%12.4g%12.4g%11.2fx\n", c->name, c->median * 1e3, c->best * 1e3, c->median / native);
    }
    if (!b->profiled) return;
    double total = profile_total(&b->steps);
    size_t shown = CLI_MIN(b->steps.steps.n, (size_t)40);
    cr_str_addf(out, "\n%12s%8s%7s  %s\n", "ms a call", "share", "steps", "op -> node (source)");
    for (size_t i = 0; i < shown; i++) {
        const step_time *s = &b->steps.steps.at[i];
        cr_str_addf(out, "%12.4g%7.1f%%%7llu  %s\n", s->seconds * 1e3 / (double)b->steps.calls,
                    s->seconds / total * 100, (unsigned long long)(s->count / b->steps.calls), s->origin);
    }
    if (shown < b->steps.steps.n)
        cr_str_addf(out, "%27s  and %zu more (--json has all)\n", "", b->steps.steps.n - shown);
}

static void json_text(cr_json_writer *w, const char *key, const char *text) {
    cr_json_key(w, key);
    cr_json_string(w, text, strlen(text));
}

static void json_number(cr_json_writer *w, const char *key, double value) {
    cr_json_key(w, key);
    cr_json_float(w, value);
}

static void print_json(const bench *b, cr_str *out) {
    cr_json_writer writer, *w = &writer;
    cr_json_writer_init(w, out, 2);
    cr_json_open(w, '{');
    json_text(w, "file", b->path);
    json_text(w, "inputs", b->inputs_name);
    cr_json_key(w, "threads"), cr_json_int(w, b->threads);
    cr_json_key(w, "rounds"), cr_json_int(w, b->rounds);
    if (b->compile_seconds > 0) json_number(w, "compile_seconds", b->compile_seconds);
    cr_json_key(w, "rows");
    cr_json_open(w, '[');
    for (size_t i = 0; i < b->all.n; i++) {
        const contender *c = &b->all.at[i];
        cr_json_open(w, '{');
        json_text(w, "name", c->name);
        if (c->missing) json_text(w, "missing", c->missing);
        else json_number(w, "seconds", c->median), json_number(w, "least", c->best);
        cr_json_close(w, '}');
    }
    cr_json_close(w, ']');
    if (b->profiled) {
        cr_json_key(w, "profile");
        cr_json_open(w, '[');
        for (size_t i = 0; i < b->steps.steps.n; i++) {
            const step_time *s = &b->steps.steps.at[i];
            cr_json_open(w, '{');
            json_text(w, "origin", s->origin);
            json_number(w, "seconds", s->seconds / (double)b->steps.calls);
            cr_json_key(w, "steps"), cr_json_int(w, (int64_t)(s->count / b->steps.calls));
            cr_json_close(w, '}');
        }
        cr_json_close(w, ']');
    }
    cr_json_close(w, '}');
    cr_str_addc(out, '\n');
}

/* ---- the command ---- */

typedef struct wish { const char *names[16]; size_t n; } wish;

static cr_status unknown_peer(const char *text, size_t n) {
    char *name = cr_strndup(text, n);
    if (!name) return CR_ENOMEM;
    const char *near = cli_nearest(name, peer_names);
    if (near) cli_hint("did you mean '%s'?", near);
    else cli_hint("there are torch, torch.compile, aotinductor, onnxruntime, openvino");
    cr_status status = cli_misuse("--against does not know '%s'", name);
    cr_free(name);
    return status;
}

/* "torch,openvino" */
static cr_status read_peers(const char *text, wish *out) {
    while (text && *text) {
        size_t n = strcspn(text, ",");
        const char *const *known = peer_names;
        while (*known && (strncmp(*known, text, n) || (*known)[n])) known++;
        if (!*known) return unknown_peer(text, n);
        if (out->n == CLI_COUNT(out->names)) return cli_misuse("--against names too many");
        out->names[out->n++] = *known;
        text += n + (text[n] == ',');
    }
    return CR_OK;
}

static cr_status prepare_ours(bench *b) {
    if (b->m.library) {
        cr_library_retain(b->library = b->m.library);
    } else {
        CR_TRY(cr_module_create(b->m.program, CR_MODULE_OWN_STATE, &b->module));
        CR_TRY(cli_push(&b->all, (contender){ .name = "interpreter", .kind = INTERPRETER }));
        cli_stage("compiling");
        double begin = cli_seconds();
        CR_TRY(cr_compile_load(&b->m.program, 1, NULL, &b->library));
        b->compile_seconds = cli_seconds() - begin;
    }
    const cresset_api *api = cr_library_api(b->library);
    for (int32_t i = 0; i < api->nstate; i++) b->stateful |= api->state[i].is_mutable;
    CR_TRY(cr_native_create(b->library, b->threads, NULL, &b->native));
    return cli_push(&b->all, (contender){ .name = "native", .kind = NATIVE });
}

static cr_status prepare_peers(bench *b, const wish *w) {
    if (!w->n) return CR_OK;
    CR_TRY(peers_start(b->path, w->names, w->n, b->threads, &b->peers));
    for (size_t i = 0; i < w->n; i++) {
        contender c = { .name = w->names[i], .kind = PEER, .peer = i };
        cli_stage("preparing %s", c.name);
        CR_TRY(peers_prepare(b->peers, i, &c.missing));
        CR_TRY(cli_push(&b->all, c));
    }
    return CR_OK;
}

static cr_status work(bench *b, const wish *w) {
    cr_str text;
    cr_str_init(&text);
    cr_status status = inputs_at_hand(&b->m, &b->inputs, &b->inputs_name);
    if (!status) status = prepare_ours(b);
    if (!status) status = prepare_peers(b, w);
    if (!status) {
        status = measure(b);
        if (status && !strcmp(b->inputs_name, "random"))
            cli_hint("random numbers do not suit every program: save the archive with example inputs");
    }
    if (!status && b->profiled)
        status = profile_native(b->native, &b->m, &b->inputs, &b->steps);
    cli_stage(NULL);
    if (!status) {
        if (b->json) print_json(b, &text);
        else print_table(b, &text);
        status = cli_print(&text);
    }
    cr_str_dispose(&text);
    return status;
}

static void bench_dispose(bench *b) {
    peers_stop(b->peers);
    for (size_t i = 0; i < b->all.n; i++) cli_vec_dispose(&b->all.at[i].times);
    cli_vec_dispose(&b->all);
    profile_dispose(&b->steps);
    input_set_dispose(&b->inputs);
    cr_native_release(b->native);
    cr_library_release(b->library);
    cr_module_release(b->module);
    model_dispose(&b->m);
}

static cr_status run(const cli_call *call) {
    bench b = {
        .path = cli_operand(call, 0), .profiled = cli_flag(call, "profile"), .json = cli_flag(call, "json"), .rounds = 9
    };
    wish w = { .n = 0 };
    bool given;
    uint64_t threads, rounds;
    CR_TRY(cli_number(call, "threads", 1, 1024, &given, &threads));
    if (given) CR_TRY(cr_set_num_threads((int)threads));
    b.threads = cr_num_threads();
    CR_TRY(cli_number(call, "rounds", 1, 1000, &given, &rounds));
    if (given) b.rounds = (int)rounds;
    cr_status status = read_peers(cli_text(call, "against"), &w);
    if (!status) status = model_open(&b.m, b.path, cli_text(call, "name"), 0);
    if (!status && w.n && b.m.library) {
        cli_hint("give the archive");
        status = CR_FAIL(CR_EVALUE, "--against: the peers cannot take a compiled library");
    }
    if (!status) status = work(&b, &w);
    cli_stage(NULL);
    bench_dispose(&b);
    return status;
}

static const cli_option options[] = {
    { "against", 0, CLI_TEXT, "PEERS", "|torch torch.compile aotinductor onnxruntime openvino",
      "peers, with commas between: torch, torch.compile, aotinductor, onnxruntime, openvino" },
    { "profile", 0, CLI_FLAG, NULL, NULL, "the time of each step of the native code, with graph node and source line" },
    { "threads", 0, CLI_NUMBER, "N", NULL, "threads to compute with, on all sides (default: all cores)" },
    { "rounds", 0, CLI_NUMBER, "N", NULL, "how many (default: 9)" },
    { "name", 0, CLI_TEXT, "NAME", NULL, "which program or method, where there are several" },
    { "json", 0, CLI_FLAG, NULL, NULL, "print JSON: rows with name and seconds, profile" },
    { 0 },
};

const cli_command cli_bench = {
    .name = "bench",
    .summary = "measures a program interpreted, compiled and in other hands",
    .operands = "FILE",
    .least = 1,
    .most = 1,
    .files = "pt2 so",
    .options = options,
    .text = "Measures calls on the archive's example inputs (random ones where it has none): medians of\n"
            "rounds in which everybody takes turns. Peers run in the Python that CRESSET_PYTHON names, else\n"
            "python3; one that is not installed there is said, and is no failure.",
    .examples = "  cresset bench model.pt2 --against torch,onnxruntime\n  cresset bench libmodel.so --profile\n",
    .run = run,
};
