/* view.c: `cresset view`: the graph of an archive as one HTML page. */
#include "cli/profile.h"

#include "cresset/page.h"
#include "cresset/process.h"


/* The archive's name with another ending, in the working folder. */
static void page_name(const char *path, cr_str *out) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path, *point = strrchr(name, '.');
    cr_str_addn(out, name, point && point > name ? (size_t)(point - name) : strlen(name));
    cr_str_add(out, ".html");
}

/* Native code of the program, run on the inputs that the archive holds. */
static cr_status measure(model *m, profile *out) {
    input_set inputs = { 0 };
    cr_library *library = NULL;
    cr_native *native = NULL;
    const char *kind = "";
    cr_status status = inputs_at_hand(m, &inputs, &kind);
    cli_stage("compiling");
    if (!status) status = cr_compile_load(&m->program, 1, NULL, &library);
    if (!status) status = cr_native_create(library, cr_num_threads(), NULL, &native);
    if (!status) status = profile_native(native, m, &inputs, out);
    if (status && !strcmp(kind, "random"))
        cli_hint("random numbers do not suit every program: save the archive with example inputs");
    cli_stage(NULL);
    cr_native_release(native);
    cr_library_release(library);
    input_set_dispose(&inputs);
    return status;
}

static cr_status write_page(const model *m, const char *title, const profile *p, const char *path) {
    cr_str page;
    cr_page_time *times = cr_calloc(p->steps.n + 1, sizeof *times);
    if (!times) return CR_ENOMEM;
    for (size_t i = 0; i < p->steps.n; i++)
        times[i] = (cr_page_time){ p->steps.at[i].origin, p->steps.at[i].seconds / (double)p->calls };
    cr_str_init(&page);
    cr_status status = cr_program_page(m->program, title, times, p->steps.n, &page);
    if (!status) status = cr_str_save(&page, path);
    cr_str_dispose(&page);
    cr_free(times);
    return status;
}

static cr_status run(const cli_call *call) {
    const char *input = cli_operand(call, 0), *slash = strrchr(input, '/'), *output = cli_text(call, "output");
    bool profiled = cli_flag(call, "profile");
    profile steps = { 0 };
    model m = { 0 };
    cr_str name, said;
    cr_str_init(&name);
    cr_str_init(&said);
    if (output) cr_str_add(&name, output);
    else page_name(input, &name);
    cr_status status = cli_load_ops(call);
    if (!status && cr_library_is(input)) {
        cli_hint("give the archive that it was compiled from");
        status = CR_FAIL(CR_EVALUE, "%s: a compiled library has no graph to show", input);
    }
    if (!status && cli_is_same_file(input, cr_str_get(&name))) {
        cli_hint("name another file with -o");
        status = CR_FAIL(CR_EVALUE, "%s: the page would replace the archive", input);
    }
    if (!status) status = model_open(&m, input, cli_text(call, "name"), profiled ? 0 : CR_LOAD_META);
    if (!status && profiled) status = measure(&m, &steps);
    if (!status) status = write_page(&m, slash ? slash + 1 : input, &steps, cr_str_get(&name));
    if (!status) cr_str_addf(&said, "%s\n", cr_str_get(&name));
    if (!status) status = cli_print(&said);
    profile_dispose(&steps);
    model_dispose(&m);
    cr_str_dispose(&name);
    cr_str_dispose(&said);
    return status;
}

static const cli_option options[] = {
    { "output", 'o', CLI_TEXT, "FILE", "html", "the page (default: the archive's name with .html, in this folder)" },
    { "profile", 0, CLI_FLAG, NULL, NULL, "compile the program, run it, and show the time of each node" },
    { "name", 0, CLI_TEXT, "NAME", NULL, "which program, where the archive holds several" },
    { "op-library", 0, CLI_TEXT, "FILE", "so", "a library of custom operators that the program calls" },
    { 0 },
};

const cli_command cli_view = {
    .name = "view",
    .summary = "writes the graph of a program as an HTML page",
    .operands = "FILE",
    .least = 1,
    .most = 1,
    .files = "pt2",
    .options = options,
    .text = "Writes one page that needs nothing else: the nodes of the graph by module, with shapes,\n"
            "dtypes, sizes of weights and the lines of the user's program; to be searched and folded, with\n"
            "the keyboard alone, too. Prints the page's path. Without --profile weights are not read.",
    .examples = "  cresset view model.pt2 -o model.html\n  cresset view model.pt2 --profile\n",
    .run = run,
};
