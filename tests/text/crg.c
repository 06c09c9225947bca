/* crg.c: runs graph files: `crg [--update] FILE...`.
 *
 *     # run: run
 *     # input: f32[2] = [1.0, 2.0]
 *     graph(%x: f32[2]) { ... }
 *     # expect:
 *     f32[2] = [2.0, 4.0]
 *
 * The command of the `run:` line (see `commands`; else the name of a pass) makes a text from the graph; it must be what
 * stands below `expect:`. A failure of the library is a text, too: "error: CODE: message". Whatever the command, a
 * graph that parses must print to a text that parses to an equal graph, and its copy must be equal. `--update` writes
 * what comes out. */
#include "graph/internal.h"
#include "passes/passes.h"
#include "runtime/rt_random.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct test {
    const char *path;
    char *command, *words;  /* "verify", "metas core" */
    CR_VEC(const char *) inputs;
    /* the file up to `expect:`; its header is comments to the parser, so that positions are the file's */
    char *graph;
    cr_arena arena;
} test;

static cr_status add_error(cr_status status, cr_str *out) {
    if (status == CR_ENOMEM) return status;
    cr_str_addf(out, "error: %s: %s\n", cr_status_name(status) + 3, cr_error_message());
    return CR_OK;
}

/* ---- inputs ---- */

/* A tensor as constants are written, or an argument: the graph parser reads both. */
static cr_status read_input(cr_env *env, const char *text, cr_graph **holder, cr_arg *out) {
    cr_str wrapped;
    cr_str_init(&wrapped);
    bool tensor = strchr(text, '[') && strchr(text, '[') != text && strncmp(text, "device", 6);
    if (tensor) cr_str_addf(&wrapped, "graph() {\n constant \"input\": %s\n return\n}", text);
    else cr_str_addf(&wrapped, "graph() {\n return %s\n}", text);
    cr_status status = cr_graph_parse(env, cr_str_get(&wrapped), holder);
    if (!status)
        *out = tensor ? cr_arg_tensor(cr_graph_constant(*holder, "input"))
                      : cr_graph_node(*holder, cr_graph_output(*holder))->args[0];
    cr_str_dispose(&wrapped);
    return status;
}

/* ---- commands: graph and words in, text out ---- */

static cr_status do_parse(const test *t, cr_graph *g, cr_str *out) {
    (void)t;
    cr_graph_print(g, CR_PRINT_ORIGINS, out);
    return CR_OK;
}

static cr_status do_decompose(const test *t, cr_graph *g, cr_str *out) {
    bool core = strstr(t->words, "core");
    cr_graph *made = NULL;
    CR_TRY(cr_pass_decompose(g, core ? cr_stop_at_core : cr_stop_at_kernels, NULL, &made));
    cr_status status = cr_graph_verify(made, CR_VERIFY_METAS | (core ? CR_VERIFY_CORE : 0));
    if (!status) cr_graph_print(made, CR_PRINT_PLAIN, out);
    cr_graph_release(made);
    return status;
}

static cr_status do_asserts(const test *t, cr_graph *g, cr_str *out) {
    cr_asserts how = { .guards = strstr(t->words, "guards") };
    CR_TRY(cr_pass_asserts(g, &how));
    CR_TRY(cr_pass_asserts(g, &how)); /* the second time there is nothing left to do */
    CR_TRY(cr_graph_verify(g, CR_VERIFY_METAS));
    cr_graph_print(g, CR_PRINT_PLAIN, out);
    return CR_OK;
}

static cr_status do_verify(const test *t, cr_graph *g, cr_str *out) {
    uint32_t properties = CR_VERIFY_SHAPE;
    if (strstr(t->words, "metas")) properties |= CR_VERIFY_METAS;
    if (strstr(t->words, "functional")) properties |= CR_VERIFY_FUNCTIONAL;
    if (strstr(t->words, "core")) properties |= CR_VERIFY_CORE;
    CR_TRY(cr_graph_verify(g, properties));
    cr_str_add(out, "holds\n");
    return CR_OK;
}

static void print_result(cr_env *env, const cr_arg *a, cr_str *out) {
    if (a->kind == CR_ARG_TENSOR) {
        cr__print_tensor(a->u.t->env ? a->u.t->env : env, a->u.t, out);
    } else if (a->kind == CR_ARG_LIST) {
        cr_str_addc(out, '[');
        for (uint32_t i = 0; i < a->n; i++) {
            if (i) cr_str_add(out, ", ");
            print_result(env, &a->u.list[i], out);
        }
        cr_str_addc(out, ']');
    } else {
        cr_arg_print(env, a, out);
    }
}

static cr_status run_graph(cr_graph *g, const cr_arg *inputs, size_t n, cr_str *out) {
    cr_arg results[64];
    cr_plan *plan = NULL;
    CR_TRY(cr_plan_create(g, &plan));
    size_t nresults = cr_plan_result_count(plan);
    cr_status status = nresults > CR_COUNT(results) ? CR_FAIL(CR_EVALUE, "more than %zu results", CR_COUNT(results))
                                                    : cr_plan_run(plan, inputs, n, results, nresults);
    if (!status) {
        for (size_t i = 0; i < nresults; i++) {
            print_result(cr_graph_env(g), &results[i], out);
            cr_str_addc(out, '\n');
        }
        cr_results_release(results, nresults);
    }
    cr_plan_release(plan);
    return status;
}

/* Runs on the inputs; those that the graph wrote to are printed afterwards. */
static cr_status do_run(const test *t, cr_graph *g, cr_str *out) {
    cr_arg inputs[32] = { { 0 } };
    cr_graph *holders[32] = { NULL };
    uint64_t versions[32] = { 0 };
    cr_status status = CR_OK;
    size_t n = t->inputs.n;
    if (n > CR_COUNT(inputs)) return CR_FAIL(CR_EVALUE, "more than %zu inputs", CR_COUNT(inputs));
    for (size_t i = 0; i < n; i++) {
        CR_TRY_OUT(read_input(cr_graph_env(g), t->inputs.at[i], &holders[i], &inputs[i]));
        if (inputs[i].kind == CR_ARG_TENSOR) versions[i] = inputs[i].u.t->storage->writes;
    }
    CR_TRY_OUT(run_graph(g, inputs, n, out));
    for (size_t i = 0; i < n; i++) {
        if (inputs[i].kind != CR_ARG_TENSOR || inputs[i].u.t->storage->writes == versions[i]) continue;
        cr_str_addf(out, "input %zu after: ", i);
        print_result(NULL, &inputs[i], out);
        cr_str_addc(out, '\n');
    }
out:
    for (size_t i = 0; i < n; i++) cr_graph_release(holders[i]);
    return status;
}

/* Runs on fake tensors of the placeholders' own types. */
static cr_status do_fake(const test *t, cr_graph *g, cr_str *out) {
    cr_arg inputs[32] = { { 0 } };
    cr_status status = CR_OK;
    size_t n = 0;
    (void)t;
    for (uint32_t id = cr_graph_first(g); id != CR_NO_NODE && cr_graph_node(g, id)->kind == CR_NODE_PLACEHOLDER;
         id = cr_graph_next(g, id)) {
        const cr_value *v = cr_graph_value(g, cr_graph_node(g, id)->first);
        cr_tensor *fake = NULL;
        if (n == CR_COUNT(inputs)) CR_TRY_OUT(CR_FAIL(CR_EVALUE, "more than %zu inputs", CR_COUNT(inputs)));
        if (v->meta) CR_TRY_OUT(cr_tensor_create_fake(cr_graph_env(g), v->meta, &fake));
        inputs[n++] = v->meta               ? cr_arg_tensor(fake)
                      : v->type == CR_T_INT ? cr_arg_int(cr_dim_of(cr_graph_env(g), v->expr))
                                            : (cr_arg){ .kind = CR_ARG_SYM, .u.sym = v->expr };
    }
    CR_TRY_OUT(run_graph(g, inputs, n, out));
out:
    for (size_t i = 0; i < n; i++)
        if (inputs[i].kind == CR_ARG_TENSOR) cr_tensor_release(inputs[i].u.t);
    return status;
}

/* ---- a pass changes no answer ---- */

enum { MOST = 32 };

/* Numbers from -2 to 2, the same for the same index. */
static cr_status make_input(const cr_meta *meta, uint64_t index, cr_tensor **out) {
    int64_t bytes, n = 1;
    CR_TRY(cr_tensor_create(meta, out));
    CR_TRY(cr_meta_bytes(meta, &bytes));
    rt_view v = cr_tensor_view(*out);
    memset((*out)->storage->data, 0, (size_t)bytes);
    for (int d = 0; d < meta->rank; d++) n *= meta->size[d];
    for (int64_t i = 0; i < n; i++) {
        int64_t at = 0, rest = i;
        for (int d = meta->rank - 1; d >= 0; rest /= meta->size[d], d--) at += rest % meta->size[d] * v.stride[d];
        double x = (double)((uint64_t)(i + 1) * 2654435761u * (index + 7) % 4001) / 1000 - 2;
        if (meta->dtype == CR_F32) ((float *)v.p)[at] = (float)x;
        else if (meta->dtype == CR_F64) ((double *)v.p)[at] = x;
        else if (meta->dtype == CR_I64) ((int64_t *)v.p)[at] = (int64_t)x + 2;
        else if (meta->dtype == CR_BOOL) ((uint8_t *)v.p)[at] = x > 0;
        else if (meta->dtype == CR_BF16) ((uint16_t *)v.p)[at] = x > 0 ? 0x3fc0 : 0xbf00;
        else if (meta->dtype == CR_F16) ((uint16_t *)v.p)[at] = x > 0 ? 0x3e00 : 0xb800;
        else if (meta->dtype == CR_C64) ((float *)v.p)[2 * at] = (float)x, ((float *)v.p)[2 * at + 1] = 1;
        else return CR_FAIL(CR_EVALUE, "no inputs of dtype %s are made here", cr_dtype_name(meta->dtype));
    }
    return CR_OK;
}

static bool is_concrete(const cr_meta *m) {
    bool plain = m;
    for (int d = 0; plain && d < m->rank; d++) plain = cr_dim_is_plain(m->size[d]);
    return plain;
}

static cr_status compare(const cr_arg *a, const cr_arg *b, size_t at) {
    cr_arg yes = cr_arg_none(), args[] = { *a, *b, cr_arg_float(1e-4), cr_arg_float(1e-5), cr_arg_bool(true) };
    if (a->kind != b->kind) return CR_FAIL(CR_ERUNTIME, "result %zu is of another kind after the pass", at);
    if (a->kind != CR_ARG_TENSOR) return CR_OK;
    CR_TRY(cr_call(cr_op_find("aten::allclose"), args, &yes));
    return yes.u.i ? CR_OK : CR_FAIL(CR_ERUNTIME, "result %zu is another one after the pass", at);
}

/* One run on inputs made up for the placeholders of `first`. */
typedef struct made_up { cr_arg inputs[MOST], results[2 * MOST]; size_t ninputs, nresults; } made_up;

static void made_up_dispose(made_up *m) {
    cr_results_release(m->inputs, m->ninputs);
    cr_results_release(m->results, m->nresults);
}

/* `all`: placeholders that were frozen are there, and get their tensors. */
static cr_status run_made_up(made_up *m, cr_graph *g, const cr_graph *first, cr_tensor *const *frozen, bool all) {
    size_t index = 0;
    for (uint32_t id = cr_graph_first(first); id != CR_NO_NODE && cr_graph_node(first, id)->kind == CR_NODE_PLACEHOLDER;
         id = cr_graph_next(first, id), index++) {
        cr_tensor *made = NULL;
        if (frozen[index] && !all) continue;
        if (frozen[index]) cr_tensor_retain(made = frozen[index]);
        else CR_TRY(make_input(cr_graph_value(first, cr_graph_node(first, id)->first)->meta, index, &made));
        m->inputs[m->ninputs++] = cr_arg_tensor(made);
    }
    rt_generator_manual_seed(cr_default_generator(), 1);
    size_t n = cr_graph_node(g, cr_graph_output(g))->nargs;
    CR_TRY(cr_graph_run(g, m->inputs, m->ninputs, m->results, n));
    m->nresults = n;
    return CR_OK;
}

/* Results, and what was written to the inputs or came as a further output instead. */
static cr_status compare_runs(const made_up *a, const made_up *b, size_t n, const cr_functionalize_options *writes) {
    for (size_t i = 0; i < n; i++) CR_TRY(compare(&a->results[i], &b->results[i], i));
    for (size_t i = 0; i < a->ninputs && a->ninputs == b->ninputs; i++) {
        const cr_arg *after = &b->inputs[i];
        for (size_t k = 0; writes->mutated && k < writes->nmutated; k++)
            if (writes->mutated[k] == i) after = &b->results[n + k];
        cr_status status = compare(&a->inputs[i], after, i);
        if (status) return cr_error_context(status, "inputs after the run");
    }
    return CR_OK;
}

/* A graph that these inputs do not suit (a probability above 1) says nothing. `again`: the graph read anew, as runs may
 * write to constants. */
static cr_status same_answers(cr_graph *before, cr_graph *again, cr_graph *after, cr_tensor **frozen,
                              const cr_functionalize_options *writes) {
    made_up a = { .ninputs = 0 }, b = { .ninputs = 0 };
    for (uint32_t id = cr_graph_first(before);
         id != CR_NO_NODE && cr_graph_node(before, id)->kind == CR_NODE_PLACEHOLDER; id = cr_graph_next(before, id))
        if (!is_concrete(cr_graph_value(before, cr_graph_node(before, id)->first)->meta)) return CR_OK;
    cr_status status = run_made_up(&a, again, before, frozen, true);
    if (!status) {
        status = run_made_up(&b, after, before, frozen, false);
        if (!status) status = compare_runs(&a, &b, a.nresults, writes);
    } else if (status != CR_ENOMEM) {
        status = CR_OK;
    }
    made_up_dispose(&a);
    made_up_dispose(&b);
    return status;
}

/* The pass of that name, and what is dead afterwards removed. `run: freeze w b`: the placeholders that stand for the
 * inputs, in order; `run: functionalize outputs`: writes to placeholders become outputs. */
static cr_status do_pass(const test *t, cr_graph *g, cr_str *out) {
    const cr_pass *pass = cr_pass_find(t->command);
    cr_graph *made = NULL, *clean = NULL, *again = NULL, *holders[32] = { NULL };
    cr_tensor *frozen[32] = { NULL };
    size_t n = 0, used = 0;
    cr_status status = CR_OK;
    for (uint32_t id = cr_graph_first(g);
         id != CR_NO_NODE && cr_graph_node(g, id)->kind == CR_NODE_PLACEHOLDER && n < CR_COUNT(frozen);
         id = cr_graph_next(g, id), n++) {
        char word[64];
        snprintf(word, sizeof word, " %s ", cr_graph_node(g, id)->target);
        char *words = cr_arena_printf((cr_arena *)&t->arena, " %s ", t->words);
        cr_arg input;
        if (!words) CR_TRY_OUT(CR_ENOMEM);
        if (!strstr(words, word) || used >= t->inputs.n) continue;
        CR_TRY_OUT(read_input(cr_graph_env(g), t->inputs.at[used], &holders[used], &input));
        used++;
        frozen[n] = input.u.t;
    }
    uint32_t mutated[32];
    cr_freeze_options freeze = { .tensors = frozen, .n = n };
    cr_functionalize_options writes = { .mutated = strstr(t->words, "outputs") ? mutated : NULL };
    void *told = NULL;
    if (!strcmp(t->command, "freeze")) told = &freeze;
    if (!strcmp(t->command, "functionalize")) told = &writes;
    CR_TRY_OUT(cr_pass_apply_one(pass, g, told, &made));
    CR_TRY_OUT(cr_graph_verify(made, CR_VERIFY_METAS));
    CR_TRY_OUT(cr_contract_check(made, pass->gives));
    CR_TRY_OUT(cr_pass_dce(made, &clean));
    CR_TRY_OUT(cr_contract_check(clean, CR_HOLDS_LIVE));
    CR_TRY_OUT(cr_graph_verify(clean, CR_VERIFY_METAS));
    cr_graph_print(clean, CR_PRINT_PLAIN, out);
    CR_TRY_OUT(cr_graph_parse(NULL, t->graph, &again));
    CR_TRY_OUT(same_answers(g, again, clean, frozen, &writes));
out:
    cr_graph_release(made);
    cr_graph_release(clean);
    cr_graph_release(again);
    for (size_t i = 0; i < used; i++) cr_graph_release(holders[i]);
    return status;
}

static const struct { const char *name; cr_status (*run)(const test *t, cr_graph *g, cr_str *out); } commands[] = {
    { "parse", do_parse }, { "verify", do_verify },       { "run", do_run },
    { "fake", do_fake },   { "decompose", do_decompose }, { "asserts", do_asserts },
};

/* ---- what holds for every graph ---- */

static cr_status check_round_trip(cr_graph *g) {
    cr_str text, again, where;
    cr_graph *parsed = NULL, *copy = NULL;
    cr_str_init(&text);
    cr_str_init(&again);
    cr_str_init(&where);
    cr_status status = CR_OK;
    cr_graph_print(g, CR_PRINT_ORIGINS, &text);
    CR_TRY_OUT(cr_str_status(&text));
    CR_TRY_OUT(cr_graph_parse(NULL, cr_str_get(&text), &parsed));
    cr_graph_print(parsed, CR_PRINT_ORIGINS, &again);
    if (!cr_graph_equal(g, parsed, &where))
        CR_TRY_OUT(CR_FAIL(CR_ERUNTIME, "the printed graph parses to another one: %s\n%s", cr_str_get(&where),
                           cr_str_get(&text)));
    if (strcmp(cr_str_get(&text), cr_str_get(&again)))
        CR_TRY_OUT(CR_FAIL(CR_ERUNTIME, "printing, parsing and printing gives\n%s\nand not\n%s", cr_str_get(&again),
                           cr_str_get(&text)));
    CR_TRY_OUT(cr_graph_copy(g, &copy));
    if (!cr_graph_equal(g, copy, &where)) CR_TRY_OUT(CR_FAIL(CR_ERUNTIME, "the copy differs: %s", cr_str_get(&where)));
out:
    cr_graph_release(parsed);
    cr_graph_release(copy);
    cr_str_dispose(&text);
    cr_str_dispose(&again);
    cr_str_dispose(&where);
    return status;
}

static cr_status run_test(const test *t, cr_str *out) {
    cr_graph *g = NULL;
    size_t i = 0;
    while (i < CR_COUNT(commands) && strcmp(commands[i].name, t->command)) i++;
    if (i == CR_COUNT(commands) && !cr_pass_find(t->command))
        return CR_FAIL(CR_EVALUE, "there is no command or pass '%s'", t->command);
    cr_status status = cr_graph_parse(NULL, t->graph, &g);
    if (status) return add_error(status, out);
    status = check_round_trip(g);
    if (!status) {
        status = i < CR_COUNT(commands) ? commands[i].run(t, g, out) : do_pass(t, g, out);
        if (status) status = add_error(status, out);
    }
    cr_graph_release(g);
    return status ? status : cr_str_status(out);
}

/* ---- files ---- */

static char *header_value(test *t, const char *line, const char *key) {
    size_t n = strlen(key);
    if (strncmp(line, key, n)) return NULL;
    line += n;
    line += strspn(line, " ");
    return cr_arena_strndup(&t->arena, line, strcspn(line, "\n"));
}

static cr_status read_header(test *t, char *text) {
    char *line = text;
    for (; *line == '#' || *line == '\n'; line += strcspn(line, "\n"), line += *line == '\n') {
        char *value;
        if ((value = header_value(t, line, "# run:"))) {
            t->command = value;
            t->words = value + strcspn(value, " ");
            if (*t->words) *t->words++ = 0;
        } else if ((value = header_value(t, line, "# input:"))) {
            CR_TRY(cr_vec_push(&t->inputs, value));
        }
    }
    t->graph = text;
    return t->command ? CR_OK : CR_FAIL(CR_EFORMAT, "no '# run:' line");
}

static bool run_file(const char *path, bool update) {
    static const char mark[] = "# expect:\n";
    test t = { .path = path };
    char *text = NULL;
    size_t size;
    cr_str out;
    cr_str_init(&out);
    cr_arena_init(&t.arena);
    bool ok = false;
    cr_status status = cr_file_read(path, &text, &size);
    char *expect = status ? NULL : strstr(text, mark);
    if (!status && !expect) status = CR_FAIL(CR_EFORMAT, "no '# expect:' line");
    if (!status) {
        *expect = 0;
        status = read_header(&t, text);
    }
    if (!status) status = run_test(&t, &out);
    if (status) {
        fprintf(stderr, "%s: %s\n", path, cr_error_message());
    } else if (!strcmp(cr_str_get(&out), expect + strlen(mark))) {
        ok = true;
    } else if (update) {
        cr_str whole;
        cr_str_init(&whole);
        cr_str_addf(&whole, "%s%s%s", text, mark, cr_str_get(&out));
        ok = !cr_str_status(&whole) && !cr_file_write_atomic(path, whole.at, whole.n);
        printf("%s %s\n", ok ? "updated" : "could not write", path);
        cr_str_dispose(&whole);
    } else {
        fprintf(stderr, "%s: expected\n%s\ngot\n%s\n", path, expect + strlen(mark), cr_str_get(&out));
    }
    cr_str_dispose(&out);
    cr_vec_dispose(&t.inputs);
    cr_arena_dispose(&t.arena);
    cr_free(text);
    return ok;
}

int main(int argc, char **argv) {
    bool update = argc > 1 && !strcmp(argv[1], "--update");
    int failed = 0, run = 0;
    for (int i = 1 + update; i < argc; i++, run++) failed += !run_file(argv[i], update);
    printf("%d passed, %d failed\n", run - failed, failed);
    return failed || !run;
}
