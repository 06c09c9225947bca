/* Exported programs (features X2, X10, P1, P2): loading, running, mutation, messages, printing; memory and threads. Bad
 * archives: test_program_bad.c. */
#include "check.h"
#include "export/internal.h"
#include "program_archive.h"

#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static cr_tensor *rows(int64_t n, int dtype) {
    float data[200];
    cr_tensor *t = NULL;
    for (int i = 0; i < 200; i++) data[i] = (float)i;
    cr_tensor *f = NULL;
    CHECK_OK(cr_tensor_from(CR_F32, 2, (int64_t[]){ n, 2 }, data, &f));
    if (dtype == CR_F32) return f;
    CHECK_OK(cr_call_1("aten::to.dtype", (cr_arg[]){ cr_arg_tensor(f), cr_arg_dtype(dtype) }, 2, &t));
    cr_tensor_release(f);
    return t;
}

static cr_status run(cr_module *m, cr_arg x, cr_arg scale, cr_arg *results) {
    cr_arg inputs[] = { x, scale };
    return cr_module_run(m, inputs, 2, results, 4);
}

static float element(const cr_arg *a, int i) { return ((const float *)a->u.t->storage->data)[a->u.t->meta.offset + i]; }

/* ---- what is loaded ---- */

static void parts(void) {
    archive a = archive_make(NULL, NULL);
    cr_program *p = NULL;
    CHECK_OK(load(&a, CR_LOAD_CHECK, &p));
    if (!p) return;
    CHECK_EQ(p->ninputs, 6);
    CHECK_EQ(p->inputs[0].kind, CR_INPUT_PARAMETER);
    CHECK_STR(p->inputs[0].target, "w");
    CHECK_EQ(p->inputs[2].kind, CR_INPUT_BUFFER);
    CHECK(p->inputs[2].persistent);
    CHECK_EQ(p->inputs[3].kind, CR_INPUT_TENSOR_CONSTANT);
    CHECK_STR(p->inputs[4].name, "x");
    CHECK(p->inputs[5].is_constant && p->inputs[5].constant.kind == CR_ARG_FLOAT && p->inputs[5].constant.u.f == 2);
    CHECK_EQ(p->noutputs, 4);
    CHECK_STR(p->outputs[1].name, "sym_size_int");
    CHECK(p->outputs[2].name == NULL);
    CHECK_EQ(p->nstate, 3);
    CHECK_EQ(p->nconstants, 1);
    CHECK(p->state[0].is_parameter && p->state[0].persistent && !p->state[2].is_parameter &&
          !p->constants[0].persistent);
    CHECK(cr_program_tensor(p, "n") == p->state[2].tensor);
    CHECK(cr_program_tensor(p, "x") == NULL);
    CHECK_EQ(p->nranges, 1);
    CHECK_EQ(p->ranges[0].range.hi, 64);
    CHECK_STR(p->guards[0], "L['d']['x'].size()[0] != 7");
    CHECK_EQ(p->ncalls, 2);
    CHECK_STR(p->calls[1].fqn, "inner");
    CHECK_STR(p->calls[0].forward_arg_names[1], "scale");
    CHECK_STR(p->name, "model");
    CHECK_STR(p->torch_version, "2.13.0");
    CHECK_STR(p->dialect, "TRAINING");
    CHECK_EQ(p->schema_minor, 20);
    CHECK_EQ(p->opset, 10);
    CHECK_EQ(p->nunsupported, 0);
    CHECK_EQ(p->nexample, 0);
    CHECK_OK(cr_program_verify(p));
    cr_program_release(p);
    archive_free(&a);
}

static void printed(void) {
    archive a = archive_make(NULL, NULL);
    cr_program *p = NULL;
    cr_str text;
    cr_str_init(&text);
    CHECK_OK(load(&a, CR_LOAD_META, &p));
    cr_program_print(p, &text);
    CHECK_STR(cr_str_get(&text),
              "ExportedProgram:\n"
              "    class GraphModule(torch.nn.Module):\n        def forward(self, p_w: \"f32[3, 2]\", p_b: \"f32[3]\", "
              "b_n: \"f32[3]\", c_k: \"f32[3]\", x: \"f32[s0, 2]\", scale):\n            # File: model.py:12 in "
              "forward, code: return sym_size_int\n            sym_size_int: \"Sym(s0)\" = "
              "torch.ops.aten.sym_size.int(x, 0)\n    \n            # File: model.py:12 in forward, code: return "
              "linear\n            linear: \"f32[s0, 3]\" = torch.ops.aten.linear.default(x, p_w, p_b);  x = p_w = p_b "
              "= None\n    \n            # File: model.py:12 in forward, code: return mul\n            mul: \"f32[s0, "
              "3]\" = torch.ops.aten.mul.Tensor(linear, 2.0);  linear = None\n    \n            # File: model.py:12 in "
              "forward, code: return add_\n            add_: \"f32[3]\" = torch.ops.aten.add_.Tensor(b_n, c_k);  c_k = "
              "add_ = None\n    \n            # File: model.py:12 in forward, code: return add\n            add: "
              "\"f32[s0, 3]\" = torch.ops.aten.add.Tensor(mul, b_n);  mul = b_n = None\n            return (add, "
              "sym_size_int, None, 3)\n    \nGraph signature: \n    # inputs\n    p_w: PARAMETER target='w'\n    p_b: "
              "PARAMETER target='b'\n    b_n: BUFFER target='n' persistent=True\n    c_k: CONSTANT_TENSOR target='k'\n "
              "   x: USER_INPUT\n    scale: USER_INPUT\n    \n    # outputs\n    add: USER_OUTPUT\n    sym_size_int: "
              "USER_OUTPUT\n    : USER_OUTPUT\n    : USER_OUTPUT\n    \nRange constraints: {s0: VR[2, 64]}\n");
    cr_module *m = NULL;
    CHECK_ERROR(cr_module_create(p, CR_MODULE_SHARED, &m), CR_EVALUE, "loaded without its weights");
    cr_str_dispose(&text);
    cr_program_release(p);
    archive_free(&a);
}

/* ---- running ---- */

/* Row r, column j of x @ w.T + b, for x counting up in rows of two. */
static float expected(int r, int j, float buffer) {
    float x0 = (float)(2 * r), x1 = x0 + 1;
    return (x0 * weight_data[2 * j] + x1 * weight_data[2 * j + 1] + bias_data[j]) * 2 + buffer;
}

static void check_run(cr_module *m, int64_t n, int times) {
    cr_arg results[4] = { { 0 } };
    cr_tensor *x = rows(n, CR_F32);
    CHECK_OK(run(m, cr_arg_tensor(x), cr_arg_float(2), results));
    CHECK_EQ(results[0].kind, CR_ARG_TENSOR);
    CHECK_EQ(results[0].u.t->meta.size[0], n);
    for (int i = 0; i < 3 * (int)n; i++)
        CHECK_FLOAT(element(&results[0], i), expected(i / 3, i % 3, (float)times * constant_data[i % 3]));
    CHECK(results[1].kind == CR_ARG_INT && results[1].u.i == n);
    CHECK_EQ(results[2].kind, CR_ARG_NONE);
    CHECK(results[3].kind == CR_ARG_INT && results[3].u.i == 3);
    cr_results_release(results, 4);
    cr_tensor_release(x);
}

static void runs(void) {
    archive a = archive_make(NULL, NULL);
    cr_program *p = NULL;
    cr_module *shared = NULL, *also = NULL, *own = NULL;
    CHECK_OK(load(&a, 0, &p));
    CHECK_OK(cr_module_create(p, CR_MODULE_SHARED, &shared));
    CHECK_OK(cr_module_create(p, CR_MODULE_SHARED, &also));
    CHECK_OK(cr_module_create(p, CR_MODULE_OWN_STATE, &own));
    CHECK_EQ(cr_module_input_count(shared), 2);
    CHECK_EQ(cr_module_result_count(shared), 4);
    CHECK(cr_module_program(shared) == p);
    check_run(shared, 4, 1);
    check_run(also, 2, 2); /* they write one buffer */
    check_run(shared, 64, 3);
    check_run(own, 5, 1); /* it was copied before they ran */
    check_run(own, 5, 2);
    CHECK_FLOAT(((const float *)cr_program_tensor(p, "n")->storage->data)[cr_program_tensor(p, "n")->meta.offset], 300);
    CHECK(cr_module_tensor(own, "n") != cr_program_tensor(p, "n"));
    CHECK(cr_module_tensor(own, "w") == cr_program_tensor(p, "w"));
    cr_module_release(also);
    cr_program_release(p); /* modules keep it */
    check_run(shared, 3, 4);
    cr_module_release(shared);
    cr_module_release(own);
    archive_free(&a);
}

/* The same in the functional dialect: the new buffer is an output. */
static void functional(void) {
    archive a = archive_make("aten.add_.Tensor", "aten.add.Tensor");
    char *text = program_json(), *steps[5] = { text };
    steps[1] = replaced(steps[0], "aten.add_.Tensor", "aten.add.Tensor");
    steps[2] = replaced(steps[1], "'outputs': [" T("add") ", {'as_sym",
                        "'outputs': [" T("add_") ", " T("add") ", {'as_sym");
    steps[3] = replaced(steps[2], "'output_specs': [",
                        "'output_specs': [{'buffer_mutation': {'arg': {'name': 'add_'}, 'buffer_name': 'n'}}, ");
    steps[4] = replaced(steps[3], IN("other", T("b_n")), IN("other", T("add_")));
    CHECK(steps[4] != NULL);
    archive_free(&a);
    a = archive_make(steps[0], steps[4]);
    cr_program *p = NULL;
    cr_module *m = NULL, *own = NULL;
    CHECK_OK(load(&a, 0, &p));
    CHECK_OK(cr_program_verify(p));
    CHECK_OK(cr_module_create(p, CR_MODULE_OWN_STATE, &own));
    CHECK_OK(cr_module_create(p, CR_MODULE_SHARED, &m));
    check_run(m, 4, 1);
    check_run(m, 4, 2);
    check_run(own, 4, 1);
    cr_module_release(m);
    cr_module_release(own);
    cr_program_release(p);
    for (int i = 0; i < 5; i++) free(steps[i]);
    archive_free(&a);
}

static void refused_inputs(void) {
    archive a = archive_make(NULL, NULL);
    cr_program *p = NULL;
    cr_module *m = NULL;
    cr_arg results[4] = { { 0 } }, two = cr_arg_float(2);
    cr_tensor *x = rows(4, CR_F32), *large = rows(65, CR_F32), *seven = rows(7, CR_F32), *wide = rows(4, CR_F64),
              *flat = NULL, *thin = NULL;
    CHECK_OK(cr_tensor_from(CR_F32, 1, (int64_t[]){ 4 }, weight_data, &flat));
    CHECK_OK(cr_tensor_from(CR_F32, 2, (int64_t[]){ 3, 1 }, weight_data, &thin));
    CHECK_OK(load(&a, 0, &p));
    CHECK_OK(cr_module_create(p, CR_MODULE_SHARED, &m));
    CHECK_ERROR(cr_module_run(m, &two, 1, results, 4), CR_ETYPE, "takes 2 inputs, not 1");
    CHECK_ERROR(cr_module_run(m, (cr_arg[]){ two, two }, 2, results, 1), CR_EVALUE, "gives 4 results, not 1");
    CHECK_ERROR(run(m, cr_arg_int(3), two, results), CR_ETYPE,
                "input 'x' (args[0]['x']): expected a tensor, not an int");
    CHECK_ERROR(run(m, cr_arg_none(), two, results), CR_ETYPE, "expected a tensor, not None");
    CHECK_ERROR(run(m, cr_arg_tensor(wide), two, results), CR_ERUNTIME,
                "input 'x' (args[0]['x']): dtype is float64, expected float32");
    CHECK_ERROR(run(m, cr_arg_tensor(flat), two, results), CR_ERUNTIME,
                "input 'x' (args[0]['x']): it has 1 dimensions, expected 2");
    CHECK_ERROR(run(m, cr_arg_tensor(thin), two, results), CR_EGUARD,
                "input 'x' (args[0]['x']): dimension 1 is 1, expected 2");
    CHECK_ERROR(run(m, cr_arg_tensor(large), two, results), CR_EGUARD, "dimension 0 is 65, expected s0 in [0, 64]");
    CHECK_ERROR(run(m, cr_arg_tensor(seven), two, results), CR_EGUARD, "L['d']['x'].size()[0] != 7");
    CHECK_ERROR(run(m, cr_arg_tensor(x), cr_arg_float(3), results), CR_EGUARD,
                "input 'scale' (kwargs['scale']): it is 3.0; the program was exported for 2.0 alone");
    CHECK_ERROR(run(m, cr_arg_tensor(x), cr_arg_tensor(x), results), CR_EGUARD, "it is a tensor");
    CHECK_ERROR(run(m, cr_arg_tensor(x), cr_arg_str("2"), results), CR_EGUARD, "kwargs['scale']");
    CHECK_OK(run(m, cr_arg_tensor(x), cr_arg_int(2), results)); /* 2 == 2.0, as in Python; nothing was written before */
    CHECK_FLOAT(element(&results[0], 0), expected(0, 0, 100));
    cr_results_release(results, 4);
    cr_tensor *all[] = { x, large, seven, wide, flat, thin };
    for (size_t i = 0; i < CR_COUNT(all); i++) cr_tensor_release(all[i]);
    cr_module_release(m);
    cr_program_release(p);
    archive_free(&a);
}

static void another_device(void) {
    archive a = archive_make("'x': {'dtype': 7, 'sizes': [" S0 ", {'as_int': 2}], 'requires_grad': false, 'device': "
                                                               "{'type': 'cpu', 'index': null}",
                             "'x': {'dtype': 7, 'sizes': [" S0 ", {'as_int': 2}], 'requires_grad': false, 'device': "
                                                               "{'type': 'cuda', 'index': 0}");
    cr_program *p = NULL;
    cr_module *m = NULL;
    CHECK_OK(load(&a, 0, &p));
    CHECK_ERROR(cr_module_create(p, 0, &m), CR_EUNSUPPORTED, "'x' is on device 'cuda:0': programs run on the CPU here");
    cr_program_release(p);
    archive_free(&a);
}

static void missing_op(void) {
    archive a = archive_make("torch.ops.aten.mul.Tensor", "torch.ops.mylib.scale.default");
    cr_program *p = NULL;
    cr_module *m = NULL;
    cr_str text;
    cr_str_init(&text);
    CHECK_OK(load(&a, 0, &p));
    CHECK_EQ(p->nunsupported, 1);
    CHECK_STR(p->unsupported[0], "mylib::scale");
    CHECK(cr_program_origin(p, "mylib::scale") != NULL);
    CHECK_OK(cr_program_verify(p));
    cr_program_print(p, &text);
    CHECK_CONTAINS(cr_str_get(&text), "mul: \"f32[s0, 3]\" = torch.ops.mylib.scale.default(linear, 2.0);  linear = "
                                      "None\n");
    CHECK_ERROR(cr_module_create(p, 0, &m), CR_EUNSUPPORTED,
                "1 op that has no implementation here: mylib::scale (model.py:12: return mul)");
    cr_str_dispose(&text);
    cr_program_release(p);
    archive_free(&a);
}

/* Two names of one storage: views of it, so a write to one shows in the other. */
static void tied(void) {
    char *text = program_json();
    archive a = archive_make(NULL, NULL);
    char *config = replaced(weights_text, "'b': {'path_name': 'weight_1'", "'b': {'path_name': 'weight_2'"),
         *json = as_json(config);
    maker_entry entries[] = {
        { member_names[0], a.texts[0], strlen(a.texts[0]), 0 },
        { member_names[1], json, strlen(json), 0 },
        { member_names[2], (const char *)weight_data, sizeof weight_data, 0 },
        { member_names[4], (const char *)bias_data, sizeof bias_data, 0 },
        { member_names[5], a.texts[2], strlen(a.texts[2]), 0 },
        { member_names[6], (const char *)constant_data, sizeof constant_data, 0 },
    };
    free(a.zip.at);
    a.zip = maker_build(entries, CR_COUNT(entries), false, "");
    cr_program *p = NULL;
    cr_module *own = NULL;
    CHECK_OK(load(&a, 0, &p));
    CHECK(cr_program_tensor(p, "b")->storage == cr_program_tensor(p, "n")->storage);
    CHECK_OK(cr_module_create(p, CR_MODULE_OWN_STATE, &own));
    CHECK(cr_module_tensor(own, "b")->storage == cr_module_tensor(own, "n")->storage); /* copied together */
    CHECK(cr_module_tensor(own, "b")->storage != cr_program_tensor(p, "n")->storage);
    cr_module_release(own);
    cr_program_release(p);
    free(config);
    free(json);
    free(text);
    archive_free(&a);
}

/* From a file, aligned: the weights stay mapped and the file stays as it is. */
static void mapped(void) {
    char path[] = "/tmp/cresset-program-XXXXXX";
    int fd = mkstemp(path);
    archive a = archive_make(NULL, NULL);
    cr_zip_writer *w = NULL;
    cr_program *p = NULL;
    cr_module *m = NULL;
    close(fd);
    CHECK_OK(cr_zip_writer_create(path, 64, &w));
    const void *data[] = { a.texts[0], a.texts[1], weight_data, bias_data, buffer_data, a.texts[2], constant_data };
    const size_t sizes[] = { strlen(a.texts[0]), strlen(a.texts[1]), sizeof weight_data,  sizeof bias_data,
                             sizeof buffer_data, strlen(a.texts[2]), sizeof constant_data };
    for (int i = 0; i < 7; i++) CHECK_OK(cr_zip_writer_add(w, member_names[i], data[i], sizes[i]));
    CHECK_OK(cr_zip_writer_finish(w));
    for (int round = 0; round < 2; round++) {
        CHECK_OK(cr_program_load(path, "model", CR_LOAD_CHECK, &p));
        CHECK(cr_program_tensor(p, "w")->storage->dispose != NULL); /* a window of the file */
        CHECK_OK(cr_module_create(p, CR_MODULE_SHARED, &m));
        check_run(m, 3, 1);
        cr_tensor *t = cr_program_tensor(p, "w");
        cr_tensor_retain(t);
        cr_module_release(m);
        cr_program_release(p);
        CHECK_FLOAT(((const float *)t->storage->data)[5], 6); /* a tensor keeps the mapping */
        cr_tensor_release(t);
    }
    CHECK_ERROR(cr_program_load(path, "other", 0, &p), CR_ENOTFOUND, "no program 'other'; it has 'model'");
    CHECK_ERROR(cr_program_load("/nonexistent/m.pt2", NULL, 0, &p), CR_EIO, "/nonexistent/m.pt2");
    unlink(path);
    archive_free(&a);
}

/* ---- programs that PyTorch wrote: the seeds of the fuzzer, as far as they need no weights ---- */

static cr_status load_seed(const char *name, cr_program **out) {
    char path[128], *text = NULL;
    size_t size = 0;
    snprintf(path, sizeof path, "tests/fuzz/corpus/program/%s.json", name);
    CR_TRY(cr_file_read(path, &text, &size));
    cr_status status = cr__program_from_json(text, size, out);
    cr_free(text);
    return status;
}

static void run_seed(const char *name, const cr_arg *inputs, size_t n, cr_arg *results, size_t nresults) {
    cr_program *p = NULL;
    cr_module *m = NULL;
    CHECK_OK(load_seed(name, &p));
    if (!p) return;
    CHECK_OK(cr_program_verify(p));
    CHECK_OK(cr_module_create(p, CR_MODULE_SHARED, &m));
    CHECK_OK(cr_module_run(m, inputs, n, results, nresults));
    cr_module_release(m);
    cr_program_release(p);
}

/* Products in bfloat16, losses in float32, joins in the widest dtype. */
static void mixed_precision(void) {
    cr_tensor *x = NULL, *w = NULL;
    cr_arg results[3] = { { 0 } };
    const float ones[9] = { 1, 1, 1, 1, 1, 1, 1, 1, 1 };
    CHECK_OK(cr_tensor_from(CR_F32, 2, (int64_t[]){ 2, 3 }, weight_data, &x));
    CHECK_OK(cr_tensor_from(CR_F32, 2, (int64_t[]){ 3, 3 }, ones, &w));
    run_seed("mixed_precision.training", (cr_arg[]){ cr_arg_tensor(x), cr_arg_tensor(w) }, 2, results, 3);
    for (int i = 0; i < 3; i++) CHECK_EQ(results[i].kind, CR_ARG_TENSOR);
    CHECK_EQ(results[0].u.t->meta.dtype, CR_BF16);
    CHECK_EQ(results[1].u.t->meta.dtype, CR_F32);
    CHECK_EQ(results[2].u.t->meta.dtype, CR_F32);
    CHECK_FLOAT(element(&results[1], 0), 1);
    CHECK_FLOAT(element(&results[2], 0), 6); /* 1 + 2 + 3 */
    CHECK_FLOAT(element(&results[2], 6), 1); /* x itself */
    cr_results_release(results, 3);
    cr_tensor_release(x);
    cr_tensor_release(w);
}

static void loops(void) {
    cr_program *p = NULL;
    CHECK_OK(load_seed("while_loop.training", &p));
    CHECK_OK(cr_program_verify(p));
    CHECK_EQ(cr_graph_subgraph_count(p->graph), 2);
    cr_program_release(p);
}

/* Every seed loads, and verifies as far as its ops have rows. */
static void seeds(void) {
    static const char *const names[] = { "linear.training",
                                         "linear.core",
                                         "batch_norm1d_train.training",
                                         "batch_norm1d_train.core",
                                         "key_value_cache.training",
                                         "tensor_lists.training",
                                         "plain_arguments.training",
                                         "none_argument.training",
                                         "tied_by_use.training",
                                         "cond_on_size.training",
                                         "nonzero_size.training",
                                         "derived_dim.training",
                                         "nested_dict.training",
                                         "in_place_chain.training",
                                         "item_as_size.training",
                                         "symbolic_arithmetic.training",
                                         "scan_over_rows.training",
                                         "no_grad_region.training",
                                         "namedtuple_argument.training",
                                         "buffer_not_saved.training",
                                         "input_mutation.training",
                                         "input_mutation.core",
                                         "constant_outputs.core",
                                         "dropout_train.core",
                                         "map_over_rows.core" };
    for (size_t i = 0; i < CR_COUNT(names); i++) {
        cr_program *p = NULL;
        CHECK_OK(load_seed(names[i], &p));
        if (!p) continue;
        CHECK_OK(cr_graph_verify(p->graph, CR_VERIFY_SIZES));
        CHECK_EQ(p->nunsupported, 0);
        cr_program_release(p);
    }
}

/* ---- memory, threads ---- */

static cr_status load_and_run(const archive *a) {
    cr_program *p = NULL;
    cr_module *m = NULL;
    cr_tensor *x = NULL;
    cr_arg results[4] = { { 0 } };
    cr_str text;
    cr_str_init(&text);
    cr_status status = load(a, 0, &p);
    if (!status) status = cr_program_verify(p);
    if (!status) {
        cr_program_print(p, &text);
        status = cr_str_status(&text);
    }
    if (!status) status = cr_module_create(p, CR_MODULE_OWN_STATE, &m);
    if (!status) status = cr_tensor_from(CR_F32, 2, (int64_t[]){ 3, 2 }, weight_data, &x);
    if (!status) status = run(m, cr_arg_tensor(x), cr_arg_float(2), results);
    if (!status) cr_results_release(results, 4);
    cr_tensor_release(x);
    cr_module_release(m);
    cr_program_release(p);
    cr_str_dispose(&text);
    return status;
}

static cr_status load_and_print(const char *name) {
    cr_program *p = NULL;
    cr_str text;
    cr_str_init(&text);
    CR_TRY(load_seed(name, &p));
    cr_program_print(p, &text);
    cr_status status = cr_str_status(&text);
    cr_str_dispose(&text);
    cr_program_release(p);
    return status;
}

static void out_of_memory(void) {
    archive a = archive_make(NULL, NULL), b = archive_make("torch.ops.aten.mul.Tensor", "torch.ops.aten.nosuch."
                                                                                        "default");
    cr_program *p = NULL;
    CHECK_OK(load(&b, 0, &p)); /* the tables are made before the blocks are counted */
    cr_program_release(p);
    CHECK_OK(load_and_run(&a));
    CHECK_OOM_SWEEP(load_and_run, &a);
    static const char *const names[] = {
        "mixed_precision.training", "scan_over_rows.training", "cond_on_size.training",
        "in_place_chain.training",  "linear_systems.core",     "derived_dim.training"
    };
    for (size_t i = 0; i < CR_COUNT(names); i++) {
        CHECK_OK(load_and_print(names[i]));
        CHECK_OOM_SWEEP(load_and_print, names[i]);
    }
    archive_free(&a);
    archive_free(&b);
}

static void *hammer(void *arg) {
    cr_module *m = arg;
    for (int i = 0; i < 50; i++) {
        cr_arg results[4] = { { 0 } };
        cr_tensor *x = rows(2 + i % 5, CR_F32);
        CHECK_OK(run(m, cr_arg_tensor(x), cr_arg_float(2), results));
        cr_results_release(results, 4);
        cr_tensor_release(x);
    }
    return NULL;
}

/* Opening, verifying, preparing and running one program from many threads. */
static void *use_program(void *arg) {
    cr_program *p = arg;
    for (int i = 0; i < 10; i++) {
        cr_module *m = NULL;
        cr_str text;
        cr_str_init(&text);
        CHECK_OK(cr_program_verify(p));
        cr_program_print(p, &text);
        CHECK_OK(cr_module_create(p, CR_MODULE_OWN_STATE, &m));
        if (m) hammer(m);
        cr_module_release(m);
        cr_str_dispose(&text);
    }
    return NULL;
}

static void shared_program(void) {
    archive a = archive_make(NULL, NULL);
    cr_program *p = NULL;
    pthread_t t[3];
    CHECK_OK(load(&a, 0, &p));
    for (int i = 0; i < 3; i++) pthread_create(&t[i], NULL, use_program, p);
    for (int i = 0; i < 3; i++) pthread_join(t[i], NULL);
    CHECK_FLOAT(((const float *)cr_program_tensor(p, "n")->storage->data)[0], 0); /* each wrote its own */
    cr_program_release(p);
    archive_free(&a);
}

static void threads(void) {
    archive a = archive_make(NULL, NULL);
    cr_program *p = NULL;
    cr_module *m[2] = { NULL, NULL };
    pthread_t t[4];
    CHECK_OK(load(&a, 0, &p));
    for (int i = 0; i < 2; i++) CHECK_OK(cr_module_create(p, CR_MODULE_SHARED, &m[i]));
    for (int i = 0; i < 4; i++) pthread_create(&t[i], NULL, hammer, m[i % 2]);
    for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
    /* no addition was lost */
    CHECK_FLOAT(((const float *)cr_program_tensor(p, "n")->storage->data)[0], 200 * constant_data[0]);
    for (int i = 0; i < 2; i++) cr_module_release(m[i]);
    cr_program_release(p);
    archive_free(&a);
}

int main(void) {
    RUN(parts);
    RUN(printed);
    RUN(runs);
    RUN(functional);
    RUN(refused_inputs);
    RUN(another_device);
    RUN(missing_op);
    RUN(tied);
    RUN(mapped);
    RUN(mixed_precision);
    RUN(loops);
    RUN(seeds);
    RUN(out_of_memory);
    RUN(threads);
    RUN(shared_program);
    return check_summary();
}
