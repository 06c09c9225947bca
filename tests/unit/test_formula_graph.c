/* Formulas written into graphs, with symbolic sizes: the same texts that run on tensors. */
#include "check.h"
#include "graph/graph.h"
#include "ops/formula.h"

static cr_env *env;
static cr_graph *g;

static void begin(void) {
    CHECK_OK(cr_env_create(&env));
    CHECK_OK(cr_graph_create(env, &g));
    CHECK_OK(cr_region_ops_init());
}
static void end(void) {
    cr_graph_release(g);
    cr_env_release(env);
}
static cr_dim symbol(const char *name, int64_t hint) {
    cr_sym s = cr_sym_symbol(env, name, CR_TYPE_INT, 2, INT64_MAX);
    CHECK_OK(cr_env_set_hint(env, s, hint));
    return cr_dim_of(env, s);
}
static cr_arg placeholder(const char *name, int dtype, int rank, const cr_dim *size) {
    cr_meta meta;
    uint32_t value = 0;
    cr_meta_init(&meta, dtype, (cr_device){ CR_CPU, -1 });
    CHECK_OK(cr_meta_set_dense(env, &meta, rank, size, CR_CONTIGUOUS));
    CHECK_OK(cr_graph_placeholder(g, name, &meta, &value));
    return (cr_arg){ .kind = CR_ARG_VALUE, .given = 1, .type = CR_T_TENSOR, .u.i = value };
}
#define INPUT(name, dtype, ...) \
    placeholder(name, dtype, (int)CR_COUNT(((cr_dim[]){ 0, __VA_ARGS__ })) - 1, (cr_dim[]){ 0, __VA_ARGS__ } + 1)

static void gradients(const char *name, const cr_arg *args, const cr_arg *results, const cr_arg *grads,
                      const bool *needs, const char *want) {
    const cr_op *op = cr_op_find(name);
    cr_arg out[CR_MAX_PARAMS], flat[CR_MAX_PARAMS];
    CHECK(op != NULL);
    if (!op) return;
    cr_status status = cr_grad_expand(cr_graph_emitter(g), op, args, results, grads, needs, out);
    CHECK_OK(status);
    if (status) return;
    size_t n = 0;
    for (int i = 0; i < op->schema.nparams; i++)
        if (out[i].kind != CR_ARG_NONE) flat[n++] = out[i];
    CHECK_OK(cr_graph_set_output(g, flat, n));
    CHECK_OK(cr_graph_verify(g, CR_VERIFY_METAS | CR_VERIFY_FUNCTIONAL));
    cr_str text;
    cr_str_init(&text);
    cr_graph_print(g, CR_PRINT_PLAIN, &text);
    CHECK_STR(cr_str_get(&text), want);
    cr_str_dispose(&text);
    cr_results_release(out, op->schema.nparams);
}
#define NEEDS(...) ((const bool[CR_MAX_PARAMS]){ __VA_ARGS__ })

static void broadcasting(void) {
    begin();
    cr_dim s0 = symbol("s0", 5), s1 = symbol("s1", 7);
    cr_arg args[] = { INPUT("x", CR_F32, s0, s1), INPUT("y", CR_F32, s1) }, grad = INPUT("grad", CR_F32, s0, s1);
    gradients("aten::mul.Tensor", args, NULL, &grad, NEEDS(true, true),
              "graph(%x: f32[s0, s1], %y: f32[s1], %grad: f32[s0, s1]) {\n"
              "  symbol s0 in [2, inf] hint 5\n"
              "  symbol s1 in [2, inf] hint 7\n"
              "  %mul: f32[s0, s1] = aten.mul.Tensor(%grad, %y)\n"
              "  %mul_1: f32[s0, s1] = aten.mul.Tensor(%grad, %x)\n"
              "  %sum: f32[s1] = aten.sum.dim_IntList(%mul_1, [0], false)\n"
              "  return %mul, %sum\n"
              "}\n");
    end();
}

static void reduction(void) {
    begin();
    cr_dim s0 = symbol("s0", 5);
    cr_arg dim = cr_arg_int(0),
           args[] = { INPUT("x", CR_F32, s0, 3), cr_arg_list(&dim, 1), cr_arg_bool(false), cr_arg_none() },
           grad = INPUT("grad", CR_F32, 3);
    gradients("aten::mean.dim", args, NULL, &grad, NEEDS(true),
              "graph(%x: f32[s0, 3], %grad: f32[3]) {\n"
              "  symbol s0 in [2, inf] hint 5\n"
              "  %unsqueeze: f32[1, 3] of %grad = aten.unsqueeze(%grad, 0)\n"
              "  %sym_size: int{s0} = aten.sym_size.int(%x, 0)\n"
              "  %expand: f32[s0, 3](0, 1) of %grad = aten.expand(%unsqueeze, [%sym_size, 3])\n"
              "  %div: f32[s0, 3] = aten.div.Tensor(%expand, %sym_size)\n"
              "  return %div\n"
              "}\n");
    end();
}

int main(void) {
    CHECK_OK(cr_ops_init());
    RUN(broadcasting);
    RUN(reduction);
    return check_summary();
}
