/* Graphs in the core dialect: what they consist of, what they return, and that every failing allocation is survived. */
#include "check.h"

#include "export/program.h"
#include "passes/passes.h"

static const char text[] = "graph(%b: f32[4, 3], %x: f32[s0, 3], %w: f32[5, 3], %v: f32[5]) {\n"
                           "  %l: f32[s0, 5] = aten.linear(%x, %w, %v)\n"
                           "  %row: f32[3] of %b = aten.select.int(%b, 0, 1)\n"
                           "  %added: f32[3] of %b, %row_1!: f32[3] of %b = aten.add_.Tensor(%row, 1)\n"
                           "  %h: f32[s0, 5] = aten.hardswish(%l)\n"
                           "  %r: f32[3] = aten.mul.Tensor(%added, 2)\n"
                           "  return %h, %r\n"
                           "}\n";

static cr_status decompose(uint32_t *mutated, size_t *n, cr_graph **out) {
    cr_graph *g = NULL;
    cr_functionalize_options writes = { .mutated = mutated, .replay = true };
    CR_TRY(cr_graph_parse(NULL, text, &g));
    cr_status status = cr_pass_core(g, &(cr_decomposition){ .stop = cr_stop_at_core, .core = true }, &writes, out);
    cr_graph_release(g);
    *n = writes.nmutated;
    return status;
}

static bool calls(const cr_graph *g, const char *op) {
    for (uint32_t n = cr_graph_first(g); n != CR_NO_NODE; n = cr_graph_next(g, n))
        if (cr_graph_node(g, n)->kind == CR_NODE_CALL && !strcmp(cr_graph_node(g, n)->op->name, op)) return true;
    return false;
}

static void writes_become_outputs(void) {
    uint32_t mutated[4] = { 9, 9, 9, 9 };
    size_t n = 0;
    cr_graph *g = NULL;
    CHECK_OK(decompose(mutated, &n, &g));
    CHECK_EQ(n, 1);
    CHECK_EQ(mutated[0], 0);
    CHECK_EQ(cr_graph_node(g, cr_graph_output(g))->nargs, 3);
    CHECK_OK(cr_graph_verify(g, CR_VERIFY_FUNCTIONAL | CR_VERIFY_CORE | CR_VERIFY_METAS));
    CHECK(calls(g, "aten::addmm") && calls(g, "aten::where.self") && !calls(g, "aten::linear") &&
          !calls(g, "aten::hardswish") && !calls(g, "aten::select_scatter"));
    cr_graph_release(g);
}

static bool stop_at_all(const cr_op *op, void *user) {
    (void)op, (void)user;
    return true;
}

static void an_empty_table_only_makes_it_functional(void) {
    uint32_t mutated[4];
    cr_graph *g = NULL, *out = NULL;
    cr_functionalize_options writes = { .mutated = mutated, .replay = true };
    CHECK_OK(cr_graph_parse(NULL, text, &g));
    CHECK_OK(cr_pass_core(g, &(cr_decomposition){ .stop = stop_at_all, .core = true }, &writes, &out));
    CHECK_OK(cr_graph_verify(out, CR_VERIFY_FUNCTIONAL));
    CHECK(calls(out, "aten::linear") && calls(out, "aten::hardswish") && calls(out, "aten::select_scatter") &&
          !calls(out, "aten::addmm"));
    cr_graph_release(out);
    cr_graph_release(g);
}

/* A body of the caller's own: relu as a maximum with zero. */
static cr_status own_body(void *user, const cr_op *op, const cr_graph *g, const cr_arg *args, cr_graph **out) {
    (void)g, (void)args;
    ++*(int *)user;
    return strcmp(op->name, "aten::hardswish")
               ? CR_OK
               : cr_graph_parse(cr_graph_env(g),
                                "graph(%x: f32[s0, 5]) {\n  %y: f32[s0, 5] = aten.neg(%x)\n  return %y\n}\n", out);
}

static void a_body_takes_the_place_of_an_op(void) {
    uint32_t mutated[4];
    int asked = 0;
    cr_graph *g = NULL, *out = NULL;
    cr_functionalize_options writes = { .mutated = mutated, .replay = true };
    CHECK_OK(cr_graph_parse(NULL, text, &g));
    cr_decomposition how = { .stop = cr_stop_at_core, .user = &asked, .core = true, .body = own_body };
    CHECK_OK(cr_pass_core(g, &how, &writes, &out));
    CHECK(asked > 0 && calls(out, "aten::neg") && !calls(out, "aten::clamp"));
    cr_graph_release(out);
    cr_graph_release(g);
}

static void every_failing_allocation(void) {
    uint32_t mutated[4];
    size_t n;
    cr_graph *g = NULL;
    CHECK_OK(decompose(mutated, &n, &g)); /* tables that are made once */
    cr_graph_release(g);
    cr_error_release(cr_error_take());
    int64_t live = cr_alloc_live(), before = cr_alloc_count();
    CHECK_OK(decompose(mutated, &n, &g));
    cr_graph_release(g);
    int64_t requests = cr_alloc_count() - before, step = requests / 300 + 1;
#ifdef CR_OOM
    step = 1;
#endif
    for (int64_t k = 1; k <= requests; k += step) {
        g = NULL;
        cr_alloc_fail_at(k);
        cr_status status = decompose(mutated, &n, &g);
        cr_alloc_fail_at(0);
        CHECK(status == CR_OK || (status == CR_ENOMEM && !g));
        cr_graph_release(g);
        cr_error_release(cr_error_take());
        CHECK_EQ(cr_alloc_live(), live);
    }
}

int main(void) {
    RUN(writes_become_outputs);
    RUN(an_empty_table_only_makes_it_functional);
    RUN(a_body_takes_the_place_of_an_op);
    RUN(every_failing_allocation);
    return check_summary();
}
