/* From a recording to a program, without Python (features X2, X5, X8, X9): names, sizes in front, gradient-mode
 * regions, the builder's checks, running the result; and every allocation failing in turn. */
#include "check.h"
#include "export/internal.h"
#include "trace/trace.h"

static const char in_text[] = "[1, {\"type\": \"builtins.tuple\", \"context\": \"null\", \"children_spec\": "
                              "[{\"type\": \"builtins.tuple\", \"context\": \"null\", \"children_spec\": [{\"type\": "
                              "null, \"context\": null, \"children_spec\": []}]}, {\"type\": \"builtins.dict\", "
                              "\"context\": \"[]\", \"children_spec\": []}]}]";
static const char out_text[] = "[1, {\"type\": \"builtins.tuple\", \"context\": \"null\", \"children_spec\": "
                               "[{\"type\": null, \"context\": null, \"children_spec\": []}, {\"type\": null, "
                               "\"context\": null, \"children_spec\": []}]}]";
static const char root[] = "L__self__,,models.Model";

static cr_status origin(void *user, const cr_op *op, cr_origin *out) {
    (void)user, (void)op;
    *out = (cr_origin){ "File \"model.py\", line 1, in forward\n    code", root, "f_1;function.f", false, false, 0 };
    return CR_OK;
}

static cr_status call(const char *name, const cr_arg *args, size_t n, cr_tensor **out) {
    return cr_call_1(name, args, n, out);
}

typedef struct recording {
    cr_fakes fakes;
    cr_trace *trace;
    cr_graph *graph;
    cr_names *names;
    cr_tensor *x, *w, *sum, *size, *twice;
    uint32_t region;
} recording;

/* sum = x + w (f32[s0, 2]); under another gradient mode: twice = relu_(sum * 2); size = zeros([s0]) */
static cr_status record(recording *r, const cr_tensor *x, const cr_tensor *w) {
    CR_TRY(cr_fake_from(&r->fakes, x, 1, NULL, &r->x));
    CR_TRY(cr_fake_from(&r->fakes, w, 0, NULL, &r->w));
    CR_TRY(cr_trace_create(r->fakes.env, &r->trace));
    cr_trace_export(r->trace, &(cr_trace_hooks){ .origin = origin });
    CR_TRY(cr_trace_input(r->trace, "w", r->w));
    CR_TRY(cr_trace_input(r->trace, "x", r->x));
    cr_trace_begin(r->trace, true);
    cr_arg add[] = { cr_arg_tensor(r->x), cr_arg_tensor(r->w) };
    cr_status status = call("aten::add.Tensor", add, 2, &r->sum);
    r->region = 3;
    cr_tensor *product = NULL;
    cr_arg mul[] = { cr_arg_tensor(r->sum ? r->sum : r->x), cr_arg_int(2) };
    if (!status) status = call("aten::mul.Scalar", mul, 2, &product);
    if (!status) status = call("aten::relu_", (cr_arg[]){ cr_arg_tensor(product) }, 1, &r->twice);
    cr_tensor_release(product);
    cr_arg sizes = { .kind = CR_ARG_INT, .u.i = r->x->meta.size[0] };
    cr_arg zeros[] = { { .kind = CR_ARG_LIST, .n = 1, .u.list = &sizes } };
    if (!status) status = call("aten::zeros", zeros, 1, &r->size);
    cr_trace_end(r->trace);
    CR_TRY(status);
    cr_arg outputs[] = { cr_arg_tensor(r->twice), cr_arg_tensor(r->size) };
    return cr_trace_finish(r->trace, outputs, 2, &r->graph);
}

static void dispose(recording *r) {
    cr_tensor *all[] = { r->x, r->w, r->sum, r->size, r->twice };
    for (size_t i = 0; i < CR_COUNT(all); i++) cr_tensor_release(all[i]);
    cr_trace_release(r->trace);
    cr_graph_release(r->graph);
    cr_names_free(r->names);
    cr_fakes_dispose(&r->fakes);
}

static cr_status build(recording *r, cr_tensor *w, bool region, cr_program **out) {
    cr_tree *in = NULL, *results = NULL;
    CR_TRY(cr_names_create(r->graph, &r->names));
    if (region) {
        cr_grad_mark marks[] = { { r->region, false }, { r->region + 2, true } };
        CR_TRY(cr_program_wrap_grad_modes(r->graph, r->names, marks, 2, true, root));
    }
    CR_TRY(cr_program_arrange(r->graph, r->names, root, true, false));
    cr_status status = cr_tree_parse(in_text, sizeof in_text - 1, &in);
    if (!status) status = cr_tree_parse(out_text, sizeof out_text - 1, &results);
    cr_input_spec inputs[] = { { .kind = CR_INPUT_PARAMETER, .name = "p_w", .target = "w" },
                               { .kind = CR_INPUT_USER, .name = "add" } };
    cr_output_spec outputs[2] = { { .kind = CR_OUTPUT_USER }, { .kind = CR_OUTPUT_USER } };
    cr_named_tensor state[] = { { "w", w, true, true } };
    cr_module_call calls[] = { { .fqn = "", .in_spec = in, .out_spec = results } };
    cr_symbol_range ranges[] = { { "s0", { 2, INT64_MAX } } };
    cr_program_parts parts = { .graph = r->graph,
                               .inputs = inputs,
                               .ninputs = 2,
                               .outputs = outputs,
                               .noutputs = 2,
                               .state = state,
                               .nstate = 1,
                               .calls = calls,
                               .ncalls = 1,
                               .ranges = ranges,
                               .nranges = 1,
                               .names = r->names };
    if (!status) status = cr_program_build(&parts, out);
    cr_tree_release(in);
    cr_tree_release(results);
    return status;
}

static cr_status make(bool region, cr_program **out) {
    static const float data[] = { 1, -2, 3, -4, 5, -6 }, weight[] = { 10, 20 };
    cr_tensor *x = NULL, *w = NULL;
    cr_env *env = NULL;
    recording r = { 0 };
    CR_TRY(cr_region_ops_init());
    cr_status status = cr_tensor_from(CR_F32, 2, (int64_t[]){ 3, 2 }, data, &x);
    if (!status) status = cr_tensor_from(CR_F32, 1, (int64_t[]){ 2 }, weight, &w);
    if (!status) status = cr_env_create(&env);
    if (!status) {
        cr_fakes_init(&r.fakes, env);
        status = record(&r, x, w);
        if (!status) status = build(&r, w, region, out);
        dispose(&r);
    }
    cr_env_release(env);
    cr_tensor_release(x);
    cr_tensor_release(w);
    return status;
}

static const char *name_at(const cr_graph *g, int i) {
    uint32_t n = cr_graph_first(g);
    for (; i > 0 && n != CR_NO_NODE; i--) n = cr_graph_next(g, n);
    const cr_node *node = cr_graph_node(g, n);
    return node->target && node->kind == CR_NODE_CALL ? node->target : cr_graph_value(g, node->first)->name;
}

static void names_give_way_to_inputs(void) {
    cr_program *p = NULL;
    CHECK_EQ(make(false, &p), CR_OK);
    if (!p) return;
    static const char *const names[] = { "p_w", "add", "sym_size_int_1", "add_1", "mul", "relu_", "zeros" };
    for (int i = 0; i < (int)CR_COUNT(names); i++) CHECK_STR(name_at(p->graph, i), names[i]);
    CHECK_STR(p->outputs[0].name, "relu_");
    CHECK_EQ(cr_program_check(p), CR_OK);
    cr_program_release(p);
}

static void a_region_is_a_body(void) {
    cr_program *p = NULL;
    CHECK_EQ(make(true, &p), CR_OK);
    if (!p) return;
    CHECK_EQ(cr_graph_subgraph_count(p->graph), 1);
    CHECK_STR(cr_graph_name(cr_graph_subgraph(p->graph, 0)), "submod_1");
    CHECK_STR(name_at(p->graph, 4), "relu_");
    CHECK_STR(p->outputs[0].name, "getitem");
    CHECK_EQ(cr_program_check(p), CR_OK);
    cr_program_release(p);
}

static void the_program_runs(void) {
    static const float data[] = { -1, 1, -2, 2, -30, 3, 4, 4 }, want[] = { 18, 42, 16, 44, 0, 46, 28, 48 };
    for (int region = 0; region < 2; region++) {
        cr_program *p = NULL;
        cr_module *m = NULL;
        cr_tensor *x = NULL;
        CHECK_EQ(make(region, &p), CR_OK);
        if (!p) continue;
        CHECK_EQ(cr_module_create(p, CR_MODULE_SHARED, &m), CR_OK);
        CHECK_EQ(cr_tensor_from(CR_F32, 2, (int64_t[]){ 4, 2 }, data, &x), CR_OK);
        cr_arg in = cr_arg_tensor(x), out[2] = { { 0 } };
        CHECK_EQ(cr_module_run(m, &in, 1, out, 2), CR_OK);
        for (int i = 0; i < 8; i++) CHECK_FLOAT(((const float *)out[0].u.t->storage->data)[i], want[i]);
        CHECK_EQ(out[1].u.t->meta.size[0], 4);
        cr_results_release(out, 2);
        cr_tensor_release(x);
        cr_module_release(m);
        cr_program_release(p);
    }
}

static void parts_must_fit(void) {
    cr_graph *g = NULL;
    cr_program *p = NULL;
    CHECK_EQ(cr_graph_parse(NULL, "graph(%x: f32[2]) {\n  %y: f32[2] = aten.relu(%x)\n  return %y\n}\n", &g), CR_OK);
    cr_input_spec inputs[] = { { .kind = CR_INPUT_USER, .name = "x" }, { .kind = CR_INPUT_USER, .name = "y" } };
    cr_output_spec outputs[] = { { .kind = CR_OUTPUT_USER } };
    cr_program_parts parts = { .graph = g, .inputs = inputs, .ninputs = 2, .outputs = outputs, .noutputs = 1 };
    CHECK_EQ(cr_program_build(&parts, &p), CR_EVALUE);
    CHECK(strstr(cr_error_message(), "2 inputs"));
    parts.ninputs = 1, parts.noutputs = 0;
    CHECK_EQ(cr_program_build(&parts, &p), CR_EVALUE);
    CHECK(strstr(cr_error_message(), "0 outputs"));
    parts.noutputs = 1;
    CHECK_EQ(cr_program_build(&parts, &p), CR_EFORMAT); /* no call structure */
    cr_graph_release(g);
}

static void failing_memory(void) {
    cr_program *p = NULL;
    CHECK_EQ(make(true, &p), CR_OK); /* what is kept for ever is made */
    cr_program_release(p);
    cr_alloc_fail_at(1); /* the error of this thread is among what is kept */
    CHECK_EQ(make(true, &p), CR_ENOMEM);
    cr_alloc_fail_at(0);
    cr_error_release(cr_error_take());
    int64_t live = cr_alloc_live();
    int failures = 0;
    for (int64_t n = 1; n < 20000; n++) {
        p = NULL;
        cr_alloc_fail_at(n);
        cr_status status = make(true, &p);
        cr_alloc_fail_at(0);
        if (!status) {
            cr_program_release(p);
            break;
        }
        failures++;
        CHECK_EQ(status, CR_ENOMEM);
        cr_error_release(cr_error_take());
        CHECK_EQ(cr_alloc_live(), live);
        if (cr_alloc_live() != live || status != CR_ENOMEM) {
            fprintf(stderr, "allocation %lld: %s\n", (long long)n, cr_error_message());
            break;
        }
    }
    CHECK(failures > 50);
}

int main(void) {
    RUN(names_give_way_to_inputs);
    RUN(a_region_is_a_body);
    RUN(the_program_runs);
    RUN(parts_must_fit);
    RUN(failing_memory);
    return check_summary();
}
