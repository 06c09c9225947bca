/* run.c: `cresset run`: a program or a compiled library on arrays.
 *
 * All sets of inputs go through one instance in order, so that buffers that a call changes are seen by the next one. A
 * set is read, run and written before the next is read. */
#include "cli/arrays.h"
#include "cli/info.h"
#include "cresset/process.h"

#include <stdio.h>

static const cli_option options[] = {
    { .name = "input",
      .letter = 'i',
      .kind = CLI_LIST,
      .value = "NAME=FILE",
      .files = "npy",
      .help = "one input from a .npy file (or NAME=3 for a number); repeat" },
    { .name = "inputs",
      .kind = CLI_LIST,
      .value = "FILE",
      .files = "npz",
      .help = "all inputs from a .npz file; repeat: one call each, buffers kept" },
    { .name = "example", .kind = CLI_FLAG, .help = "the example inputs that the archive holds" },
    { .name = "random", .kind = CLI_FLAG, .help = "random inputs of the right dtypes and sizes" },
    { .name = "output",
      .letter = 'o',
      .kind = CLI_TEXT,
      .value = "FILE",
      .files = "npz npy",
      .help = "write out0, out1, ... to a .npz; %d in it: the call's number" },
    { .name = "seed",
      .kind = CLI_NUMBER,
      .value = "N",
      .help = "as torch.manual_seed(N) before each call; seeds --random too" },
    { .name = "threads", .kind = CLI_NUMBER, .value = "N", .help = "threads to compute with (default: all cores)" },
    { .name = "name", .kind = CLI_TEXT, .value = "NAME", .help = "which program or method, where there are several" },
    { .name = "op-library",
      .kind = CLI_TEXT,
      .value = "FILE",
      .files = "so",
      .help = "a library of custom operators that it calls (docs/custom-ops.md)" },
    { .name = "check", .kind = CLI_FLAG, .help = "verify every checksum first, those of the weights too" },
    { .name = "json", .kind = CLI_FLAG, .help = "print JSON: outputs, files and seconds of each call" },
    { .name = "time", .kind = CLI_FLAG, .help = "say on standard error how long loading and each call took" },
    { .name = NULL },
};

typedef struct work {
    const char *const *pairs, *const *files;
    size_t npairs, nfiles, sets;
    bool example, random, seeded, check, time, json;
    uint64_t seed, threads;
    const char *output;
    cr_json_writer *calls; /* --json: where each call is told */
} work;

/* The file of call i: %d stands for its number. */
static void add_output_path(const work *w, size_t i, cr_str *out) {
    const char *place = strstr(w->output, "%d");
    if (place) cr_str_addn(out, w->output, (size_t)(place - w->output)), cr_str_addf(out, "%zu%s", i, place + 2);
    else cr_str_add(out, w->output);
}

/* Results in the place of what they were computed from would be lost with it. */
static cr_status spare_inputs(const work *w, const char *path) {
    for (size_t i = 0; i < w->nfiles + w->npairs; i++) {
        const char *input = i < w->nfiles ? w->files[i] : strchr(w->pairs[i - w->nfiles], '=');
        if (i >= w->nfiles && input) input++;
        if (!input || !cli_is_same_file(input, path)) continue;
        cli_hint("name another file with -o");
        return CR_FAIL(CR_EVALUE, "%s: the results would replace the inputs", path);
    }
    return CR_OK;
}

static cr_status check_output(const work *w) {
    if (!cli_ends_with(w->output, ".npz") && !cli_ends_with(w->output, ".npy")) {
        cli_hint("end it with .npz, or with .npy where there is one result");
        return cli_misuse("cannot tell from '%s' what to write", w->output);
    }
    cr_status status = CR_OK;
    for (size_t i = 0; i < w->sets && !status; i++) {
        cr_str path;
        cr_str_init(&path);
        add_output_path(w, i, &path);
        status = cr_str_status(&path);
        if (!status) status = spare_inputs(w, cr_str_get(&path));
        cr_str_dispose(&path);
    }
    return status;
}

static cr_status read_command(const cli_call *call, work *w) {
    bool threads;
    w->npairs = cli_list(call, "input", &w->pairs);
    w->nfiles = cli_list(call, "inputs", &w->files);
    w->example = cli_flag(call, "example");
    w->random = cli_flag(call, "random");
    w->check = cli_flag(call, "check");
    w->time = cli_flag(call, "time");
    w->json = cli_flag(call, "json");
    w->output = cli_text(call, "output");
    w->sets = CLI_MAX(w->nfiles, (size_t)1);
    CR_TRY(cli_number(call, "seed", INT64_MIN, UINT64_MAX, &w->seeded, &w->seed));
    CR_TRY(cli_number(call, "threads", 1, 1024, &threads, &w->threads));
    if ((w->npairs > 0) + (w->nfiles > 0) + w->example + w->random > 1) {
        cli_hint("'cresset run --help' explains them");
        return cli_misuse("choose one of --input, --inputs, --example and --random");
    }
    if (w->output && w->sets > 1 && !strstr(w->output, "%d")) {
        cli_hint("write -o out_%%d.npz");
        return cli_misuse("%zu sets of inputs need a file each, and '%s' has no %%d", w->sets, w->output);
    }
    if (w->output && strstr(w->output, "%d") && strstr(strstr(w->output, "%d") + 2, "%d"))
        return cli_misuse("'%s' has more than one %%d", w->output);
    if (w->output) CR_TRY(check_output(w));
    return threads ? cr_set_num_threads((int)w->threads) : CR_OK;
}

static cr_status read_inputs(model *m, const work *w, size_t i, input_set *out) {
    if (w->nfiles) return inputs_from_npz(m, w->files[i], out);
    if (w->example) return inputs_example(m, out);
    if (w->random) return inputs_random(m, w->seed, out);
    return inputs_from_pairs(m, w->pairs, w->npairs, out);
}

static cr_status tell_call(const model *m, const work *w, size_t i, const cr_arg *results, size_t n, const char *path,
                           double seconds) {
    cr_json_writer *j = w->calls;
    cr_json_open(j, '{');
    if (w->nfiles) info_json_pair(j, "inputs", w->files[i]);
    if (path) info_json_pair(j, "file", path);
    cr_json_key(j, "seconds"), cr_json_float(j, seconds);
    cr_json_key(j, "outputs");
    CR_TRY(outputs_json(m, results, n, j));
    cr_json_close(j, '}');
    return CR_OK;
}

static cr_status write_results(const model *m, const work *w, size_t i, const cr_arg *results, size_t n,
                               double seconds) {
    cr_str text, path;
    cr_str_init(&text);
    cr_str_init(&path);
    cr_status status = CR_OK;
    if (w->output) {
        add_output_path(w, i, &path);
        status = cr_str_status(&path);
        if (!status) status = outputs_write(results, n, cr_str_get(&path));
    }
    if (!status && w->json) {
        status = tell_call(m, w, i, results, n, w->output ? cr_str_get(&path) : NULL, seconds);
    } else if (!status && !w->output) {
        if (w->sets > 1) cr_str_addf(&text, "%s%s\n", i ? "\n" : "", w->files[i]);
        status = outputs_summary(m, results, n, &text);
        if (!status) status = cli_print(&text);
    }
    cr_str_dispose(&text);
    cr_str_dispose(&path);
    return status;
}

static void tell_time(const work *w, const char *what, double begin) {
    if (w->time) cli_warn("%s took %.3f ms", what, (cli_seconds() - begin) * 1e3);
}

/* What runs: the interpreter, or the code of a library. */
typedef struct runner { cr_module *module; cr_native *native; int32_t method; } runner;

static cr_status runner_init(runner *r, const model *m, const work *w) {
    *r = (runner){ .method = m->method };
    if (m->library) return cr_native_create(m->library, (int)w->threads, NULL, &r->native);
    return cr_module_create(m->program, CR_MODULE_SHARED, &r->module);
}

static void runner_dispose(runner *r) {
    cr_module_release(r->module);
    cr_native_release(r->native);
}

static void runner_seed(const runner *r, uint64_t seed) {
    if (r->native) cr_native_seed(r->native, seed);
    else cr_manual_seed(seed);
}

static cr_status runner_run(const runner *r, const input_set *set, cr_arg *results, size_t n) {
    return r->native ? cr_native_run(r->native, r->method, set->args, set->n, results, n)
                     : cr_module_run(r->module, set->args, set->n, results, n);
}

static cr_status run_set(model *m, const runner *r, const work *w, size_t i) {
    input_set set = { 0 };
    size_t n = cr_signature_output_count(m->signature);
    cr_arg *results = cr_calloc(n + 1, sizeof *results);
    if (!results) return CR_ENOMEM;
    double begin = cli_seconds();
    cr_status status = read_inputs(m, w, i, &set);
    if (status) goto out;
    tell_time(w, "reading the inputs", begin);
    if (w->seeded) runner_seed(r, w->seed);
    begin = cli_seconds();
    status = runner_run(r, &set, results, n);
    if (status) {
        if (w->nfiles > 1) status = cr_error_context(status, "%s", w->files[i]);
        if (w->random) cli_hint("random numbers do not suit every program: try --example or --inputs");
        goto out;
    }
    tell_time(w, "the call", begin);
    double seconds = cli_seconds() - begin;
    begin = cli_seconds();
    status = write_results(m, w, i, results, n, seconds);
    if (!status) tell_time(w, "writing the outputs", begin);
out:
    cr_results_release(results, n);
    cr_free(results);
    input_set_dispose(&set);
    return status;
}

static cr_status run(const cli_call *call) {
    work w = { 0 };
    model m;
    runner r = { 0 };
    cr_str text;
    cr_json_writer calls;
    cr_str_init(&text);
    double begin = cli_seconds();
    CR_TRY(read_command(call, &w));
    CR_TRY(cli_load_ops(call));
    CR_TRY(model_open(&m, cli_operand(call, 0), cli_text(call, "name"), w.check ? CR_LOAD_CHECK : 0));
    cr_status status = runner_init(&r, &m, &w);
    if (status == CR_EUNSUPPORTED && m.program) cli_hint("'cresset info %s' lists them", cli_operand(call, 0));
    if (status) goto out;
    tell_time(&w, "loading", begin);
    if (w.json) {
        w.calls = &calls;
        cr_json_writer_init(&calls, &text, 2);
        cr_json_open(&calls, '{');
        info_json_pair(&calls, "model", cli_operand(call, 0));
        cr_json_key(&calls, "calls");
        cr_json_open(&calls, '[');
    }
    for (size_t i = 0; i < w.sets && !status; i++) status = run_set(&m, &r, &w, i);
    if (w.json && !status) {
        cr_json_close(&calls, ']');
        cr_json_close(&calls, '}');
        cr_str_addc(&text, '\n');
        status = cli_print(&text);
    }
out:
    cr_str_dispose(&text);
    runner_dispose(&r);
    model_dispose(&m);
    return status;
}

const cli_command cli_run = {
    .name = "run",
    .summary = "runs a program or a compiled library on .npy and .npz arrays",
    .operands = "FILE",
    .least = 1,
    .most = 1,
    .files = "pt2 so",
    .options = options,
    .text = "Runs a program, or a library that 'cresset compile' made of one. Inputs go by the names\n"
            "that 'cresset info' shows; outputs are out0, out1, ... in order. Without -o a line about\n"
            "each output is printed.",
    .examples = "  cresset run model.pt2 --input x=x.npy -o out.npz\n"
                "  cresset run libmodel.so --random --time\n"
                "  cresset run model.pt2 --inputs a.npz --inputs b.npz -o out_%d.npz\n",
    .run = run,
};
