/* Custom operators from C: cresset/library.h. */
#include "cresset/library.h"

#include "check.h"
#include "graph/graph.h"
#include "ops/custom.h"

/* y = x with `last` behind it, one longer; counts its calls. */
static int extended_shape(cresset_op_call *call) {
    const cresset_value *x = &call->args[0];
    if (x->rank != 1) {
        snprintf(call->message, call->room, "x has %d dims, expected 1", x->rank);
        return CRESSET_BAD_INPUT;
    }
    call->results[0].dtype = x->dtype;
    call->results[0].rank = 1;
    call->results[0].size[0] = call->add(call, x->size[0], 1);
    return CRESSET_OK;
}

static int extended_run(cresset_op_call *call) {
    const cresset_value *x = &call->args[0];
    const float *from = x->data;
    float *to = call->results[0].data;
    for (int64_t i = 0; i < x->size[0]; i++) to[i] = from[i * x->stride[0]];
    to[x->size[0]] = (float)call->args[1].number;
    ++*(int *)call->user;
    return CRESSET_OK;
}

static int increment_shape(cresset_op_call *call) { return call->nresults ? CRESSET_BAD_ARGUMENT : CRESSET_OK; }

static int increment_run(cresset_op_call *call) {
    float *x = call->args[0].data;
    for (int64_t i = 0; i < call->args[0].size[0]; i++) x[i * call->args[0].stride[0]] += 1;
    return CRESSET_OK;
}

static int calls;

static cr_tensor *row(const float *values, int64_t n) {
    cr_meta m;
    cr_tensor *t = NULL;
    cr_meta_init(&m, CR_F32, (cr_device){ CR_CPU, -1 });
    CHECK_OK(cr_meta_set_dense(NULL, &m, 1, &n, CR_CONTIGUOUS));
    CHECK_OK(cr_tensor_create(&m, &t));
    memcpy(cr_tensor_view(t).p, values, (size_t)n * sizeof *values);
    return t;
}

static const float *data(const cr_tensor *t) { return cr_tensor_view(t).p; }

static void test_registering(void) {
    char message[256];
    cresset_op_info op = { .struct_size = sizeof op,
                           .schema = "unit::extended(Tensor x, float last=7.) -> Tensor",
                           .shape = extended_shape,
                           .run = extended_run,
                           .user = &calls };
    CHECK(cresset_register_op(&op, message, sizeof message) == CRESSET_OK);
    CHECK(cresset_register_op(&op, message, sizeof message) == CRESSET_BAD_ARGUMENT);
    CHECK(strstr(message, "unit::extended"));
    op.schema = "aten::extended(Tensor x) -> Tensor";
    CHECK(cresset_register_op(&op, message, sizeof message) == CRESSET_BAD_ARGUMENT && strstr(message, "aten"));
    op.schema = "unit::bad(Tensor x";
    CHECK(cresset_register_op(&op, message, sizeof message) == CRESSET_BAD_ARGUMENT);
    op.schema = "unit::lists(Tensor[] xs) -> Tensor";
    CHECK(cresset_register_op(&op, message, sizeof message) == CRESSET_BAD_ARGUMENT && strstr(message, "xs"));
    op.run = NULL;
    CHECK(cresset_register_op(&op, message, sizeof message) == CRESSET_BAD_ARGUMENT && strstr(message, "run"));
    CHECK(cresset_register_op(NULL, message, 4) == CRESSET_BAD_ARGUMENT && strlen(message) == 3);
    cresset_op_info increment = { .struct_size = sizeof increment,
                                  .schema = "unit::increment(Tensor(a!) x) -> ()",
                                  .shape = increment_shape,
                                  .run = increment_run };
    CHECK(cresset_register_op(&increment, NULL, 0) == CRESSET_OK);
}

static void test_calls(void) {
    cr_tensor *x = row((float[]){ 1, 2, 3 }, 3), *y = NULL;
    CHECK_OK(cr_call_1("unit::extended", (cr_arg[]){ cr_arg_tensor(x), cr_arg_float(9) }, 2, &y));
    CHECK(calls == 1 && y->meta.rank == 1 && y->meta.size[0] == 4 && data(y)[0] == 1 && data(y)[3] == 9);
    cr_tensor_release(y);
    CHECK_OK(cr_call_1("unit::extended", (cr_arg[]){ cr_arg_tensor(x) }, 1, &y));
    CHECK(data(y)[3] == 7);
    cr_arg result = { 0 }, in = cr_arg_tensor(y);
    uint64_t before = cr_tensor_version(y);
    CHECK_OK(cr_call(cr_op_find("unit::increment"), &in, &result));
    CHECK(data(y)[0] == 2 && data(y)[3] == 8 && cr_tensor_version(y) != before);
    cr_tensor *wide = NULL;
    CHECK_OK(cr_call_1("aten::unsqueeze", (cr_arg[]){ cr_arg_tensor(y), cr_arg_int(0) }, 2, &wide));
    cr_tensor *none = NULL;
    CHECK(cr_call_1("unit::extended", (cr_arg[]){ cr_arg_tensor(wide) }, 1, &none) == CR_ERUNTIME);
    CHECK(strstr(cr_error_message(), "x has 2 dims"));
    cr_tensor_release(wide);
    cr_tensor_release(y);
    cr_tensor_release(x);
}

/* One node in a graph, with sizes that are not known; the interpreter calls back. */
static void test_graph(void) {
    cr_graph *g = NULL;
    CHECK_OK(cr_graph_parse(NULL,
                            "graph(%x: f32[s0]) {\n  %y: f32[s0 + 1] = unit.extended(%x, 5.0)\n  %z: f32[s0 + 1] = "
                            "aten.mul.Tensor(%y, 2)\n  return %z\n}\n",
                            &g));
    CHECK_OK(cr_graph_verify(g, CR_VERIFY_METAS | CR_VERIFY_CORE | CR_VERIFY_FUNCTIONAL));
    cr_tensor *x = row((float[]){ 1, 2 }, 2);
    cr_arg in = cr_arg_tensor(x), out = { 0 };
    CHECK_OK(cr_graph_run(g, &in, 1, &out, 1));
    CHECK(out.u.t->meta.size[0] == 3 && data(out.u.t)[0] == 2 && data(out.u.t)[2] == 10);
    cr_results_release(&out, 1);
    cr_tensor_release(x);
    cr_graph_release(g);
}

/* A call survives every allocation that fails, and leaves nothing behind. */
static void test_failing_allocations(void) {
    cr_tensor *x = row((float[]){ 1, 2, 3 }, 3);
    cr_error_release(cr_error_take());
    int64_t live = cr_alloc_live();
    for (int64_t n = 1;; n++) {
        cr_tensor *y = NULL;
        cr_alloc_fail_at(n);
        cr_status status = cr_call_1("unit::extended", (cr_arg[]){ cr_arg_tensor(x) }, 1, &y);
        cr_alloc_fail_at(0);
        cr_tensor_release(y);
        cr_error_release(cr_error_take());
        CHECK_EQ(cr_alloc_live(), live);
        if (!status) break;
        CHECK_EQ(status, CR_ENOMEM);
    }
    cr_tensor_release(x);
}

int main(void) {
    RUN(test_registering);
    RUN(test_calls);
    RUN(test_graph);
    RUN(test_failing_allocations);
    return check_summary();
}
