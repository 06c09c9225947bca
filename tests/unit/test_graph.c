/* Graphs: building, printing and parsing back, editing, verification, plans, regions, and memory that runs out. */
#include "graph/plan.h"
#include "ops/formula.h"
#include "trace/trace.h"

#include "check.h"

#include <pthread.h>

static cr_meta meta_of(int dtype, int rank, const int64_t *size) {
    cr_meta m;
    cr_meta_init(&m, dtype, (cr_device){ CR_CPU, -1 });
    CHECK_OK(cr_meta_set_dense(NULL, &m, rank, size, CR_CONTIGUOUS));
    return m;
}

static cr_arg value_arg(const cr_graph *g, uint32_t v) {
    return (cr_arg){ .kind = CR_ARG_VALUE, .given = 1, .type = cr_graph_value(g, v)->type, .u.i = v };
}

static void check_text(const cr_graph *g, const char *want) {
    cr_str text;
    cr_str_init(&text);
    cr_graph_print(g, CR_PRINT_PLAIN, &text);
    CHECK_STR(cr_str_get(&text), want);
    cr_str_dispose(&text);
}

static cr_status bind_call(cr_graph *g, const char *name, const cr_arg *args, size_t n, uint32_t *value) {
    cr_arena arena;
    cr_binding b;
    uint32_t node;
    cr_arena_init(&arena);
    cr_status status = cr_bind(cr_op_find(name), true, args, n, NULL, 0, &arena, &b);
    if (!status) status = cr_graph_call(g, b.op, b.args, &node);
    if (!status) *value = cr_graph_node(g, node)->first;
    cr_arena_dispose(&arena);
    return status;
}

static cr_tensor *tensor_of(int rank, const int64_t *size, const float *data) {
    cr_tensor *t = NULL;
    CHECK_OK(cr_tensor_from(CR_F32, rank, size, data, &t));
    return t;
}

static float first(const cr_arg *a) {
    rt_scalar s = { 0 };
    int64_t index[CR_MAX_RANK] = { 0 };
    CHECK_EQ(a->kind, CR_ARG_TENSOR);
    CHECK_OK(cr_tensor_item(a->u.t, index, &s));
    return (float)s.f;
}

/* relu(x) + w, w a constant */
static cr_status build(cr_graph **out, cr_tensor *w) {
    cr_graph *g = NULL;
    cr_status status = CR_OK;
    uint32_t x, y, c, z;
    cr_meta m = { 0 };
    cr_meta_init(&m, CR_F32, (cr_device){ CR_CPU, -1 });
    CR_TRY(cr_meta_set_dense(NULL, &m, 1, (int64_t[]){ 2 }, CR_CONTIGUOUS));
    CR_TRY_OUT(cr_graph_create(NULL, &g));
    CR_TRY_OUT(cr_graph_placeholder(g, "x", &m, &x));
    CR_TRY_OUT(cr_graph_add_constant(g, "w", w));
    cr_arg one[] = { value_arg(g, x) };
    CR_TRY_OUT(bind_call(g, "aten::relu", one, 1, &y));
    CR_TRY_OUT(cr_graph_get_attr(g, "w", &c));
    cr_arg two[] = { value_arg(g, y), value_arg(g, c) };
    CR_TRY_OUT(bind_call(g, "aten::add.Tensor", two, 2, &z));
    cr_arg result = value_arg(g, z);
    CR_TRY_OUT(cr_graph_set_output(g, &result, 1));
    *out = g;
    return CR_OK;
out:
    cr_graph_release(g);
    return status;
}

static void building(void) {
    cr_tensor *w = tensor_of(1, (int64_t[]){ 2 }, (float[]){ 10, 20 });
    cr_graph *g = NULL, *again = NULL;
    CHECK_OK(build(&g, w));
    check_text(g, "graph(%x: f32[2]) {\n"
                  "  constant \"w\": f32[2] = [10.0, 20.0]\n"
                  "  %relu: f32[2] = aten.relu(%x)\n"
                  "  %w: f32[2] = get_attr \"w\"\n"
                  "  %add: f32[2] = aten.add.Tensor(%relu, %w)\n"
                  "  return %add\n"
                  "}\n");
    CHECK_EQ(cr_graph_node_count(g), 5);
    CHECK_EQ(cr_graph_find(g, "nobody"), CR_NO_VALUE);
    CHECK_OK(cr_graph_verify(g, CR_VERIFY_METAS | CR_VERIFY_FUNCTIONAL | CR_VERIFY_CORE));
    cr_str text;
    cr_str_init(&text);
    cr_graph_print(g, CR_PRINT_PLAIN, &text);
    CHECK_OK(cr_graph_parse(NULL, cr_str_get(&text), &again));
    CHECK(cr_graph_equal(g, again, NULL));
    cr_str_dispose(&text);
    cr_graph_release(again);
    cr_graph_release(g);
    cr_tensor_release(w);
}

static void editing(void) {
    cr_tensor *w = tensor_of(1, (int64_t[]){ 2 }, (float[]){ 10, 20 });
    cr_graph *g = NULL, *copy = NULL;
    uint32_t neg, uses[16];
    CHECK_OK(build(&g, w));
    CHECK_OK(cr_graph_copy(g, &copy));
    uint32_t relu = cr_graph_find(g, "relu"), add = cr_graph_find(g, "add");
    cr_graph_count_uses(g, uses);
    CHECK_EQ(uses[relu], 1);
    CHECK_EQ(uses[add], 1);
    CHECK_ERROR(cr_graph_erase(g, cr_graph_value(g, relu)->node), CR_EVALUE, "'relu' is still used");
    cr_graph_insert_before(g, cr_graph_value(g, add)->node);
    cr_arg x = value_arg(g, cr_graph_find(g, "x"));
    CHECK_OK(bind_call(g, "aten::neg", &x, 1, &neg));
    CHECK_OK(cr_graph_replace(g, relu, value_arg(g, neg), CR_NO_NODE));
    CHECK_OK(cr_graph_erase(g, cr_graph_value(g, relu)->node));
    CHECK_EQ(cr_graph_find(g, "relu"), CR_NO_VALUE);
    CHECK_OK(cr_graph_rename(g, neg, "opposite"));
    check_text(g, "graph(%x: f32[2]) {\n"
                  "  constant \"w\": f32[2] = [10.0, 20.0]\n"
                  "  %w: f32[2] = get_attr \"w\"\n"
                  "  %opposite: f32[2] = aten.neg(%x)\n"
                  "  %add: f32[2] = aten.add.Tensor(%opposite, %w)\n"
                  "  return %add\n"
                  "}\n");
    CHECK_OK(cr_graph_verify(g, CR_VERIFY_METAS));
    cr_str where;
    cr_str_init(&where);
    CHECK(!cr_graph_equal(g, copy, &where));
    CHECK(where.n > 0);
    cr_str_dispose(&where);
    /* a copy of an edited graph keeps ids */
    cr_graph *second = NULL;
    CHECK_OK(cr_graph_copy(g, &second));
    CHECK(cr_graph_equal(g, second, NULL));
    CHECK_EQ(cr_graph_find(second, "opposite"), neg);
    cr_graph_release(second);
    cr_graph_release(copy);
    cr_graph_release(g);
    cr_tensor_release(w);
}

static void names(void) {
    cr_graph *g = NULL;
    cr_meta m = meta_of(CR_F32, 1, (int64_t[]){ 2 });
    uint32_t v;
    CHECK_OK(cr_graph_create(NULL, &g));
    const char *const wishes[] = { "x", "x", "x_1", "a.b c", "x" }, *const names[] = { "x", "x_1", "x_1_1", "a_b_c",
                                                                                       "x_2" };
    for (size_t i = 0; i < CR_COUNT(wishes); i++) {
        CHECK_OK(cr_graph_placeholder(g, wishes[i], &m, &v));
        CHECK_STR(cr_graph_value(g, v)->name, names[i]);
    }
    cr_graph_release(g);
}

static void refusals(void) {
    cr_graph *g = NULL, *stranger = NULL;
    cr_meta m = meta_of(CR_F32, 1, (int64_t[]){ 2 });
    uint32_t x, y;
    CHECK_OK(cr_graph_create(NULL, &g));
    CHECK_OK(cr_graph_create(NULL, &stranger));
    CHECK_OK(cr_graph_placeholder(g, "x", &m, &x));
    CHECK_ERROR(cr_graph_verify(g, CR_VERIFY_SHAPE), CR_EVALUE, "it has no output");
    cr_arg bad = { .kind = CR_ARG_VALUE, .given = 1, .type = CR_T_TENSOR, .u.i = 99 };
    CHECK_ERROR(bind_call(g, "aten::relu", &bad, 1, &y), CR_EVALUE, "value 99");
    CHECK_ERROR(cr_graph_get_attr(g, "w", &y), CR_ENOTFOUND, "no constant 'w'");
    cr_arg operands[] = { value_arg(g, x) },
           region[] = { { .kind = CR_ARG_GRAPH, .given = 1, .u.graph = stranger }, cr_arg_list(operands, 1) };
    CHECK_ERROR(bind_call(g, "higher_order::wrap", region, 2, &y), CR_EVALUE, "not a subgraph");
    CHECK_EQ(cr_graph_node_count(g), 1);
    /* used before it is defined */
    CHECK_OK(bind_call(g, "aten::relu", operands, 1, &y));
    uint32_t z;
    cr_arg use = value_arg(g, y);
    CHECK_OK(bind_call(g, "aten::neg", &use, 1, &z));
    cr_arg result = value_arg(g, z);
    CHECK_OK(cr_graph_set_output(g, &result, 1));
    CHECK_OK(cr_graph_set_args(g, cr_graph_value(g, y)->node, &result, 1));
    CHECK_ERROR(cr_graph_verify(g, CR_VERIFY_SHAPE), CR_EVALUE, "%neg is used before it is defined");
    cr_graph_release(g);
    cr_graph_release(stranger);
}

static void symbolic_values(void) {
    cr_env *env = NULL;
    cr_graph *g = NULL;
    uint32_t x;
    cr_arg out;
    CHECK_OK(cr_env_create(&env));
    cr_sym s0 = cr_sym_symbol(env, "s0", CR_TYPE_INT, 2, INT64_MAX);
    CHECK_OK(cr_graph_create(env, &g));
    cr_meta m;
    cr_meta_init(&m, CR_F32, (cr_device){ CR_CPU, -1 });
    cr_dim size[] = { cr_dim_of(env, s0), 3 };
    CHECK_OK(cr_meta_set_dense(env, &m, 2, size, CR_CONTIGUOUS));
    CHECK_OK(cr_graph_placeholder(g, "x", &m, &x));
    cr_sym e = cr_sym_add(env, cr_sym_mul(env, cr_sym_int(env, 2), s0), cr_sym_int(env, 1));
    CHECK_OK(cr_graph_value_for(g, e, &out));
    CHECK_EQ(out.kind, CR_ARG_VALUE);
    uint32_t before = cr_graph_node_count(g);
    cr_arg second;
    CHECK_OK(cr_graph_value_for(g, e, &second)); /* found, not made again */
    CHECK_EQ(second.u.i, out.u.i);
    CHECK_EQ(cr_graph_node_count(g), before);
    CHECK_OK(cr_graph_value_for(g, cr_sym_int(env, 7), &second));
    CHECK_EQ(second.kind, CR_ARG_INT);
    CHECK_ERROR(cr_graph_value_for(g, cr_sym_symbol(env, "s9", CR_TYPE_INT, 0, 9), &second), CR_EVALUE,
                "no value in the graph gives s9");
    CHECK_OK(cr_graph_set_output(g, &out, 1));
    check_text(g, "graph(%x: f32[s0, 3]) {\n"
                  "  symbol s0 in [2, inf]\n"
                  "  %sym_size: int{s0} = aten.sym_size.int(%x, 0)\n"
                  "  %mul: int{2*s0} = _operator.mul(2, %sym_size)\n"
                  "  %add: int{2*s0 + 1} = _operator.add(%mul, 1)\n"
                  "  return %add\n"
                  "}\n");
    cr_tensor *t = tensor_of(2, (int64_t[]){ 5, 3 }, (float[15]){ 0 });
    cr_arg input = cr_arg_tensor(t), result;
    CHECK_OK(cr_graph_run(g, &input, 1, &result, 1));
    CHECK_EQ(result.kind, CR_ARG_INT);
    CHECK_EQ(result.u.i, 11);
    cr_tensor_release(t);
    cr_graph_release(g);
    cr_env_release(env);
}

/* Formulas write graphs through the graph's emitter; a count of symbolic sizes becomes arithmetic in the graph. */
static void emitting(void) {
    cr_graph *g = NULL;
    CHECK_OK(cr_graph_parse(NULL, "graph(%x: f32[s0, 3]) {\n  symbol s0 in [2, 99] hint 4\n  return %x\n}", &g));
    const cr_op *op = cr_op_find("aten::mean.dim");
    cr_arg dims[] = { cr_arg_int(0), cr_arg_int(1) }, result;
    cr_arg args[] = { value_arg(g, cr_graph_find(g, "x")), cr_arg_list(dims, 2), cr_arg_bool(false), cr_arg_none() };
    CHECK_OK(cr_decomp_expand(cr_graph_emitter(g), op, args, &result));
    CHECK_EQ(result.kind, CR_ARG_VALUE);
    CHECK_OK(cr_graph_set_output(g, &result, 1));
    check_text(g, "graph(%x: f32[s0, 3]) {\n"
                  "  symbol s0 in [2, 99] hint 4\n"
                  "  %sum: f32[] = aten.sum.dim_IntList(%x, [0, 1], false, dtype=none)\n"
                  "  %sym_size: int{s0} = aten.sym_size.int(%x, 0)\n"
                  "  %mul: int{3*s0} = _operator.mul(3, %sym_size)\n"
                  "  %div: f32[] = aten.div.Tensor(%sum, %mul)\n"
                  "  return %div\n"
                  "}\n");
    CHECK_OK(cr_graph_verify(g, CR_VERIFY_METAS));
    cr_tensor *x = tensor_of(2, (int64_t[]){ 2, 3 }, (float[]){ 1, 2, 3, 4, 5, 9 });
    cr_arg input = cr_arg_tensor(x), mean;
    CHECK_OK(cr_graph_run(g, &input, 1, &mean, 1));
    CHECK_FLOAT(first(&mean), 4);
    cr_results_release(&mean, 1);
    cr_tensor_release(x);
    cr_graph_release(g);
}

static void running(void) {
    cr_tensor *w = tensor_of(1, (int64_t[]){ 2 }, (float[]){ 10, 20 }),
              *x = tensor_of(1, (int64_t[]){ 2 }, (float[]){ -1, 2 });
    cr_graph *g = NULL;
    cr_plan *p = NULL;
    CHECK_OK(build(&g, w));
    CHECK_OK(cr_plan_create(g, &p));
    cr_graph_release(g);
    cr_arg input = cr_arg_tensor(x), result;
    for (int i = 0; i < 3; i++) {
        CHECK_OK(cr_plan_run(p, &input, 1, &result, 1));
        CHECK_FLOAT(first(&result), 10);
        cr_results_release(&result, 1);
    }
    CHECK_ERROR(cr_plan_run(p, NULL, 0, &result, 1), CR_ETYPE, "takes 1 inputs");
    cr_arg number = cr_arg_int(3);
    CHECK_ERROR(cr_plan_run(p, &number, 1, &result, 1), CR_ETYPE, "graph input 'x': expected a tensor");
    CHECK_EQ(x->refs, 1);
    cr_plan_release(p);
    cr_tensor_release(x);
    cr_tensor_release(w);
}

/* A value is let go after the step that uses it last, an unused one after its own. */
static void lifetimes(void) {
    cr_graph *g = NULL;
    cr_plan *p = NULL;
    CHECK_OK(cr_graph_parse(NULL,
                            "graph(%x: f32[4], %u: f32[4]) {\n %a = aten.relu(%x)\n %b = aten.neg(%a)\n %c = "
                            "aten.add.Tensor(%a, %b)\n %d = aten.neg(%c)\n return %d, %x\n}",
                            &g));
    CHECK_OK(cr_plan_create(g, &p));
    const char *const dies_after[][2] = { { "u", NULL }, { NULL, NULL }, { "a", "b" }, { "c", NULL } };
    CHECK_EQ(p->nsteps, CR_COUNT(dies_after));
    for (size_t i = 0, at = 0; i < p->nsteps && i < CR_COUNT(dies_after); i++)
        for (int k = 0; k < 2; k++) {
            if (dies_after[i][k] && at < p->steps[i].dead_end)
                CHECK_STR(cr_graph_value(g, p->dead[at++])->name, dies_after[i][k]);
            if (k) CHECK_EQ(p->steps[i].dead_end, at);
        }
    static float data[4];
    cr_tensor *x = tensor_of(1, (int64_t[]){ 4 }, data);
    cr_arg inputs[] = { cr_arg_tensor(x), cr_arg_tensor(x) }, results[2];
    CHECK_OK(cr_plan_run(p, inputs, 2, results, 2));
    cr_results_release(results, 2);
    CHECK_EQ(x->refs, 1);
    cr_tensor_release(x);
    cr_plan_release(p);
    cr_graph_release(g);
}

static void *run_many(void *arg) {
    cr_plan *p = arg;
    cr_tensor *x = tensor_of(1, (int64_t[]){ 2 }, (float[]){ 3, 4 });
    for (int i = 0; i < 50; i++) {
        cr_arg input = cr_arg_tensor(x), result;
        CHECK_OK(cr_plan_run(p, &input, 1, &result, 1));
        CHECK_FLOAT(first(&result), 96);
        cr_results_release(&result, 1);
    }
    cr_tensor_release(x);
    return NULL;
}

static void threads(void) {
    cr_graph *g = NULL;
    cr_plan *p = NULL;
    CHECK_OK(cr_graph_parse(NULL,
                            "graph(%x: f32[s0]) {\n"
                            "  graph test(%i: int, %a: f32[s0]) {\n %r = _operator.lt(%i, 5)\n return %r\n}\n  graph "
                            "body(%i: int, %a: f32[s0]) {\n %n = _operator.add(%i, 1)\n %r = aten.add.Tensor(%a, %a)\n "
                            "return %n, %r\n}\n  %i, %y = higher_order.while_loop(@test, @body, [0, %x])\n  return "
                            "%y\n}",
                            &g));
    CHECK_OK(cr_plan_create(g, &p));
    pthread_t thread[4];
    for (int i = 0; i < 4; i++) CHECK_EQ(pthread_create(&thread[i], NULL, run_many, p), 0);
    for (int i = 0; i < 4; i++) pthread_join(thread[i], NULL);
    cr_plan_release(p);
    cr_graph_release(g);
}

static cr_status call_tensor(const char *name, cr_tensor *a, cr_tensor *b, cr_tensor **out) {
    cr_arg args[] = { cr_arg_tensor(a), cr_arg_tensor(b) };
    return cr_call_1(name, args, b ? 2 : 1, out);
}

static void recording(void) {
    cr_env *env = NULL;
    cr_trace *trace = NULL;
    cr_fakes fakes;
    cr_graph *g = NULL;
    cr_tensor *real = tensor_of(2, (int64_t[]){ 4, 3 }, (float[12]){ 0 }),
              *w = tensor_of(1, (int64_t[]){ 3 }, (float[]){ 1, 2, 3 });
    cr_tensor *x = NULL, *y = NULL, *z = NULL, *r = NULL;
    CHECK_OK(cr_env_create(&env));
    cr_fakes_init(&fakes, env);
    CHECK_OK(cr_fake_from(&fakes, real, 1, NULL, &x));
    CHECK_OK(cr_trace_create(env, &trace));
    CHECK_OK(cr_trace_input(trace, "x", x));
    CHECK_ERROR(cr_trace_input(trace, "again", x), CR_EVALUE, "known as %x already");
    cr_trace_begin(trace, true);
    CHECK_OK(call_tensor("aten::relu", x, NULL, &y));
    CHECK_OK(call_tensor("aten::add.Tensor", y, w, &z));
    CHECK_OK(call_tensor("aten::add_.Tensor", z, w, &r));
    CHECK(r == z);
    cr_trace_end(trace);
    cr_arg outputs[] = { cr_arg_tensor(z), cr_arg_int(x->meta.size[0]) };
    CHECK_OK(cr_trace_finish(trace, outputs, 2, &g));
    check_text(g, "graph(%x: f32[s0, 3]) {\n"
                  "  symbol s0 in [2, inf] hint 4\n"
                  "  constant \"_tensor_constant0\": f32[3] = [1.0, 2.0, 3.0]\n"
                  "  %relu: f32[s0, 3] = aten.relu(%x)\n"
                  "  %_tensor_constant0: f32[3] = get_attr \"_tensor_constant0\"\n"
                  "  %add: f32[s0, 3] = aten.add.Tensor(%relu, %_tensor_constant0)\n  %add_: f32[s0, 3] of %add, "
                  "%add_1!: f32[s0, 3] of %add = aten.add_.Tensor(%add, %_tensor_constant0)\n  %sym_size: int{s0} = "
                  "aten.sym_size.int(%x, 0)\n  return %add_1, %sym_size\n}\n");
    CHECK_OK(cr_graph_verify(g, CR_VERIFY_METAS));
    cr_arg input = cr_arg_tensor(real), results[2];
    CHECK_OK(cr_graph_run(g, &input, 1, results, 2));
    CHECK_FLOAT(first(&results[0]), 2);
    CHECK_EQ(results[1].u.i, 4);
    cr_results_release(results, 2);
    /* a fake from outside */
    cr_tensor *stranger = NULL, *bad = NULL;
    CHECK_OK(cr_fake_from(&fakes, w, 0, NULL, &stranger));
    cr_trace_begin(trace, true);
    CHECK_ERROR(call_tensor("aten::relu", stranger, NULL, &bad), CR_EVALUE,
                "neither an input of the trace nor a result");
    cr_trace_end(trace);
    cr_tensor_release(stranger);
    cr_tensor_release(r);
    cr_tensor_release(z);
    cr_tensor_release(y);
    cr_tensor_release(x);
    cr_tensor_release(w);
    cr_tensor_release(real);
    cr_graph_release(g);
    cr_trace_release(trace);
    cr_fakes_dispose(&fakes);
    cr_env_release(env);
}

static void fake_views(void) {
    cr_env *env = NULL;
    cr_fakes fakes;
    cr_tensor *base = tensor_of(2, (int64_t[]){ 4, 3 }, (float[12]){ 0 }), *turned = NULL, *a = NULL, *b = NULL;
    cr_meta m;
    cr_meta_copy(&m, &base->meta);
    m.size[0] = 3, m.size[1] = 4, m.stride[0] = 1, m.stride[1] = 3;
    CHECK_OK(cr_tensor_on(base->storage, &m, base, NULL, &turned));
    CHECK_OK(cr_env_create(&env));
    cr_fakes_init(&fakes, env);
    const char *const first_names[] = { "rows", "columns" }, *const second_names[] = { "columns", "rows" };
    CHECK_OK(cr_fake_from(&fakes, base, 3, first_names, &a));
    CHECK_OK(cr_fake_from(&fakes, turned, 3, second_names, &b));
    CHECK(a->storage == b->storage);
    cr_str text;
    cr_str_init(&text);
    cr_meta_print(env, &b->meta, &text);
    CHECK_STR(cr_str_get(&text), "f32[columns, rows](1, columns)@cpu");
    cr_str_dispose(&text);
    cr_tensor *bad = NULL;
    CHECK_ERROR(cr_fake_from(&fakes, base, 3, second_names, &bad), CR_EVALUE,
                "dimension 'columns' is 3 in one tensor and 4 in another");
    cr_tensor_release(a);
    cr_tensor_release(b);
    cr_tensor_release(turned);
    cr_tensor_release(base);
    cr_fakes_dispose(&fakes);
    cr_env_release(env);
}

/* ---- memory that runs out ---- */

static cr_status whole_life(void *arg) {
    cr_graph *g = NULL, *copy = NULL, *parsed = NULL;
    cr_str text;
    cr_str_init(&text);
    cr_status status = CR_OK;
    cr_arg result = cr_arg_none(), input = cr_arg_tensor(arg);
    CR_TRY_OUT(build(&g, arg));
    CR_TRY_OUT(cr_graph_copy(g, &copy));
    cr_graph_print(copy, CR_PRINT_ORIGINS, &text);
    CR_TRY_OUT(cr_str_status(&text));
    CR_TRY_OUT(cr_graph_parse(NULL, cr_str_get(&text), &parsed));
    CR_TRY_OUT(cr_graph_verify(parsed, CR_VERIFY_METAS));
    CR_TRY_OUT(cr_graph_run(parsed, &input, 1, &result, 1));
out:
    cr_results_release(&result, 1);
    cr_str_dispose(&text);
    cr_graph_release(g);
    cr_graph_release(copy);
    cr_graph_release(parsed);
    return status;
}

static cr_status regions_life(void *arg) {
    static const char text[] =
        "graph(%p: b8[], %x: f32[s0]) {\n"
        "  symbol s0 in [2, 9] hint 2\n"
        "  graph yes(%a: f32[s0]) {\n %r = aten.neg(%a)\n return %r\n}\n"
        "  graph no(%a: f32[s0]) {\n return %a\n}\n"
        "  graph test(%i: int, %a: f32[s0]) {\n %r = _operator.lt(%i, 2)\n return %r\n}\n"
        "  graph body(%i: int, %a: f32[s0]) {\n %n = _operator.add(%i, 1)\n %r = aten.neg(%a)\n return %n, %r\n}\n"
        "  %y = higher_order.cond(%p, @yes, @no, [%x])\n"
        "  %i, %z = higher_order.while_loop(@test, @body, [0, %y])\n"
        "  %w, %z1! = aten.add_.Tensor(%z, %x)\n"
        "  return [%z1, %i], %y\n}";
    cr_graph *g = NULL;
    cr_arg results[2] = { { 0 }, { 0 } }, inputs[2];
    cr_tensor *truth = NULL;
    cr_status status = CR_OK;
    CR_TRY_OUT(cr_tensor_scalar(CR_BOOL, (rt_scalar){ .kind = RT_ARG_INT, .i = 0 }, &truth));
    CR_TRY_OUT(cr_graph_parse(NULL, text, &g));
    inputs[0] = cr_arg_tensor(truth);
    inputs[1] = cr_arg_tensor(arg);
    CR_TRY_OUT(cr_graph_run(g, inputs, 2, results, 2));
out:
    cr_results_release(results, 2);
    cr_tensor_release(truth);
    cr_graph_release(g);
    return status;
}

static cr_status trace_life(void *arg) {
    cr_env *env = NULL;
    cr_trace *trace = NULL;
    cr_fakes fakes = { 0 };
    cr_graph *g = NULL;
    cr_tensor *x = NULL, *y = NULL;
    cr_status status = CR_OK;
    CR_TRY(cr_env_create(&env));
    cr_fakes_init(&fakes, env);
    CR_TRY_OUT(cr_fake_from(&fakes, arg, 1, NULL, &x));
    CR_TRY_OUT(cr_trace_create(env, &trace));
    CR_TRY_OUT(cr_trace_input(trace, "x", x));
    cr_trace_begin(trace, true);
    status = call_tensor("aten::add.Tensor", x, arg, &y);
    cr_trace_end(trace);
    if (status) goto out;
    cr_arg outputs[] = { cr_arg_tensor(y), cr_arg_int(x->meta.size[0]) };
    CR_TRY_OUT(cr_trace_finish(trace, outputs, 2, &g));
out:
    cr_graph_release(g);
    cr_tensor_release(y);
    cr_tensor_release(x);
    cr_trace_release(trace);
    cr_fakes_dispose(&fakes);
    cr_env_release(env);
    return status;
}

static void out_of_memory(void) {
    cr_tensor *w = tensor_of(1, (int64_t[]){ 2 }, (float[]){ 10, 20 });
    CHECK_OK(whole_life(w)); /* what is made once for the process is made */
    CHECK_OK(regions_life(w));
    CHECK_OK(trace_life(w));
    cr_error_release(cr_error_take()); /* the record of an earlier failure is no leak of these */
    CHECK_OOM_SWEEP(whole_life, w);
    CHECK_OOM_SWEEP(regions_life, w);
    CHECK_OOM_SWEEP(trace_life, w);
    cr_tensor_release(w);
}

int main(void) {
    if (cr_region_ops_init()) return fprintf(stderr, "%s\n", cr_error_message()), 1;
    RUN(building);
    RUN(editing);
    RUN(names);
    RUN(refusals);
    RUN(symbolic_values);
    RUN(emitting);
    RUN(running);
    RUN(lifetimes);
    RUN(threads);
    RUN(recording);
    RUN(fake_views);
    RUN(out_of_memory);
    return check_summary();
}
