/* test_passes.c: the pipeline as a whole. What single rules do is in tests/text/passes. */
#include "passes/passes.h"

#include "check.h"

/* Something for every pass: in-place ops, batch norm after a convolution, linear in pieces, attention in pieces,
 * constants. */
static const char *const text =
    "graph(%x: f32[1, 2, 4, 4], %w: f32[2, 2, 1, 1], %mean: f32[2], %var: f32[2], %m: f32[4, 4], %cache: f32[2, 4]) {\n"
    "  %c = aten.conv2d(%x, %w)\n"
    "  %y = aten.batch_norm(%c, none, none, %mean, %var, false, 0.1, 1.0, true)\n"
    "  %r, %y1! = aten.relu_(%y)\n"
    "  %s = aten.dropout(%r, 0.5, false)\n"
    "  %v = aten.view(%s, [8, 4])\n"
    "  %t = aten.t(%m)\n"
    "  %l = aten.mm(%v, %t)\n"
    "  %q = aten.view(%l, [2, 4, 4])\n"
    "  %k = aten.transpose.int(%q, 1, 2)\n"
    "  %d = aten.bmm(%q, %k)\n"
    "  %e = aten.mul.Scalar(%d, 0.5)\n"
    "  %p = aten.softmax.int(%e, -1)\n"
    "  %o = aten.bmm(%p, %q)\n"
    "  %row = aten.select.int(%cache, 0, 1)\n"
    "  %last = aten.select.int(%o, 0, 1)\n"
    "  %top = aten.select.int(%last, 0, 0)\n"
    "  %row1, %row2! = aten.copy_(%row, %top)\n"
    "  %sum = aten.sum(%cache)\n"
    "  return %o, %sum\n"
    "}";

typedef struct watch { char letters[64]; size_t n; size_t fail_at; } watch;

static cr_status note(void *user, const cr_pass *pass, const cr_graph *g, double seconds) {
    watch *w = user;
    CHECK(seconds >= 0 && cr_graph_node_count(g) > 0);
    if (w->n < sizeof w->letters - 1) w->letters[w->n] = pass->letter;
    w->n++;
    return w->n == w->fail_at ? CR_FAIL(CR_EVALUE, "enough") : CR_OK;
}

static cr_status make(const float *data, int rank, const int64_t *size, cr_tensor **out) {
    return cr_tensor_from(CR_F32, rank, size, data, out);
}

/* Parses the text and runs it through the pipeline, with the parameters frozen. */
static cr_status run_pipeline(watch *w, cr_graph **out) {
    static const float numbers[16] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16 };
    cr_tensor *frozen[6] = { NULL }, *made[5] = { NULL };
    const char *names[6] = { NULL, "conv.weight", "bn.mean", "bn.var", "linear.weight", "cache" };
    cr_graph *g = NULL;
    cr_status status = cr_graph_parse(NULL, text, &g);
    if (!status) status = make(numbers, 4, (int64_t[]){ 2, 2, 1, 1 }, &made[0]);
    if (!status) status = make(numbers, 1, (int64_t[]){ 2 }, &made[1]);
    if (!status) status = make(numbers + 4, 1, (int64_t[]){ 2 }, &made[2]);
    if (!status) status = make(numbers, 2, (int64_t[]){ 4, 4 }, &made[3]);
    if (!status) status = make(numbers, 2, (int64_t[]){ 2, 4 }, &made[4]);
    for (int i = 0; i < 5; i++) frozen[1 + i] = made[i];
    cr_freeze_options freeze = { .tensors = frozen, .names = names, .n = 6 };
    struct cr_pass_option told = { "freeze", &freeze };
    cr_pipeline_options o = { .options = &told, .noptions = 1, .verify = true, .after = w ? note : NULL, .user = w };
    if (!status) status = cr_pipeline_native(&o, g, out);
    if (!status) CHECK(!frozen[0] && frozen[1] && frozen[4] && !frozen[5]); /* the graph writes the cache */
    for (int i = 0; i < 5; i++) cr_tensor_release(made[i]);
    cr_graph_release(g);
    return status;
}

static size_t count(const cr_graph *g, const char *op) {
    size_t n = 0;
    for (uint32_t id = cr_graph_first(g); id != CR_NO_NODE; id = cr_graph_next(g, id))
        n += cr_graph_node(g, id)->op && !strcmp(cr_graph_node(g, id)->op->name, op);
    return n;
}

static void all_passes(void) {
    watch w = { .n = 0 };
    cr_graph *g = NULL;
    CHECK_OK(run_pipeline(&w, &g));
    size_t n = 0;
    while (cr_pass_at(n)) n++;
    CHECK_EQ(w.n, n);
    CHECK(strstr(w.letters, "dzf"));
    CHECK_OK(cr_graph_verify(g, CR_VERIFY_METAS));
    CHECK_EQ(count(g, "aten::scaled_dot_product_attention"), 1);
    CHECK_EQ(count(g, "aten::_native_batch_norm_legit_no_training") + count(g, "aten::mm") + count(g, "aten::dropout") +
                 count(g, "aten::relu_"),
             0);
    CHECK_EQ(count(g, "aten::copy_"), 1); /* in place: the caller sees it */
    cr_graph_release(g);
}

static void a_watcher_may_stop_it(void) {
    watch w = { .fail_at = 3 };
    cr_graph *g = NULL;
    CHECK_EQ(run_pipeline(&w, &g), CR_EVALUE);
    CHECK_EQ(w.n, 3);
    CHECK(!g && strstr(cr_error_message(), "enough"));
}

static void letters_and_names(void) {
    for (size_t i = 0; cr_pass_at(i); i++) {
        CHECK(cr_pass_find(cr_pass_at(i)->name) != NULL);
        for (size_t k = 0; k < i; k++)
            CHECK_EQ(cr_pass_at(k)->letter == cr_pass_at(i)->letter, !strcmp(cr_pass_at(k)->name, cr_pass_at(i)->name));
    }
    CHECK(!cr_pass_find("no such pass"));
}

/* ---- contracts ---- */

static cr_graph *parsed(const char *body) {
    cr_graph *g = NULL;
    CHECK_OK(cr_graph_parse(NULL, body, &g));
    return g;
}

static cr_status same_graph(const cr_graph *g, cr_graph **out) { return cr_graph_retain(*out = (cr_graph *)g), CR_OK; }

/* A graph that breaks each bit, and one that keeps it. */
static const struct { uint32_t bit; const char *name, *broken, *kept;
} bits[] = {
    { CR_HOLDS_KERNELS, "kernels", "graph(%x: f32[2]) {\n  %y = aten.dist(%x, %x)\n  return %y\n}",
      "graph(%x: f32[2]) {\n  %y = aten.relu(%x)\n  return %y\n}" },
    { CR_HOLDS_CORE, "core", "graph(%x: f32[2]) {\n  %y = aten.dist(%x, %x)\n  return %y\n}",
      "graph(%x: f32[2]) {\n  %y = aten.relu(%x)\n  return %y\n}" },
    { CR_HOLDS_FUNCTIONAL, "functional", "graph(%x: f32[2]) {\n  %y, %x1! = aten.relu_(%x)\n  return %y\n}",
      "graph(%x: f32[2]) {\n  %y = aten.relu(%x)\n  return %y\n}" },
    { CR_HOLDS_SETTLED, "settled",
      "graph(%x: f32[2]) {\n  %a = aten.neg(%x)\n  %y, %a1! = aten.relu_(%a)\n  return %y\n}",
      "graph(%x: f32[2]) {\n  %y, %x1! = aten.relu_(%x)\n  return %y\n}" },
    { CR_HOLDS_LIVE, "live", "graph(%x: f32[2]) {\n  %a = aten.neg(%x)\n  %y = aten.relu(%x)\n  return %y\n}",
      "graph(%x: f32[2]) {\n  %a, %x1! = aten.neg_(%x)\n  return %x1\n}" },
    { CR_HOLDS_PANELS, "panels",
      "graph() {\n  constant \"w\": f32[2, 1] = [1.0, 2.0]\n  %w = get_attr \"w\"\n"
      "  %p = cresset.pack_panels(%w)\n  return %p\n}",
      "graph(%w: f32[2, 1]) {\n  %p = cresset.pack_panels(%w)\n  return %p\n}" },
};

static const char *const two_axes = "graph rows(%x: f32[4, 4], %y: f32[4, 4]) {\n  %a = aten.sum.dim_IntList(%x, [0])\n"
                                    "  %b = aten.sum.dim_IntList(%y, [1])\n  return %a, %b\n}";

/* A pass whose row promises the bit and whose graph does not have it. */
static void a_broken_promise_is_caught(void) {
    for (size_t i = 0; i < CR_COUNT(bits); i++) {
        cr_pass liar = { '?', "liar", 0, bits[i].bit, 0, .plain = same_graph };
        cr_graph *broken = parsed(bits[i].broken), *kept = parsed(bits[i].kept);
        cr_graphs out = { 0 };
        CHECK_EQ(cr_pipeline_run(&liar, 1, &(cr_pipeline_options){ .verify = true }, broken, &out), CR_EVALUE);
        CHECK(strstr(cr_error_message(), "liar") && strstr(cr_error_message(), bits[i].name) && !out.n);
        CHECK_OK(cr_pipeline_run(&liar, 1, &(cr_pipeline_options){ .verify = true }, kept, &out));
        CHECK_EQ(out.n, 1);
        cr_graphs_dispose(&out);
        cr_graph_release(broken);
        cr_graph_release(kept);
    }
}

static void a_region_that_is_no_kernel_is_caught(void) {
    cr_graph *g = NULL, *body = parsed(two_axes);
    cr_arg operands[2], args[2] = { { .kind = CR_ARG_GRAPH, .given = 1, .u.graph = body }, cr_arg_list(operands, 2) };
    CHECK_OK(cr_region_ops_init());
    CHECK_OK(cr_graph_parse(cr_graph_env(body), "graph(%x: f32[4, 4], %y: f32[4, 4]) {\n  return %x, %y\n}", &g));
    for (uint32_t i = 0; i < 2; i++) operands[i] = (cr_arg){ .kind = CR_ARG_VALUE, .given = 1, .u.i = i };
    uint32_t made;
    CHECK_OK(cr_graph_add_subgraph(g, body));
    cr_graph_insert_before(g, cr_graph_output(g));
    CHECK_OK(cr_graph_call(g, cr_op_find("cresset::rows"), args, &made));
    CHECK_EQ(cr_contract_check(g, CR_HOLDS_FUSED), CR_EVALUE);
    CHECK(strstr(cr_error_message(), "fused"));
    cr_graph_release(g);
    cr_graph_release(body);
}

static void passes_stand_where_they_find_what_they_need(void) {
    const cr_pass wrong[] = { *cr_pass_find("decompose"), *cr_pass_find("pack_conv") };
    cr_graph *g = parsed(text);
    cr_graphs out = { 0 };
    CHECK_EQ(cr_pipeline_run(wrong, 2, &(cr_pipeline_options){ 0 }, g, &out), CR_EVALUE);
    CHECK(strstr(cr_error_message(), "pack_conv needs") && strstr(cr_error_message(), "settled, live"));
    uint32_t has = CR_HOLDS_SETTLED | CR_HOLDS_LIVE; /* decompose ends LIVE */
    CHECK_EQ(cr_pipeline_run(wrong, 2, &(cr_pipeline_options){ .holds = has }, g, &out), CR_EVALUE);
    cr_graph *plain = parsed("graph(%x: f32[2]) {\n  %y = aten.relu(%x)\n  return %y\n}");
    CHECK_OK(cr_pipeline_run(wrong + 1, 1, &(cr_pipeline_options){ .holds = has | CR_HOLDS_KERNELS }, plain, &out));
    cr_graphs_dispose(&out);
    cr_graph_release(plain);
    cr_graph_release(g);
}

/* ---- several graphs ---- */

typedef struct twice { int calls; } twice; /* options of a pass */

static cr_status give_two(const cr_graph *g, void *options, cr_graphs *out) {
    ((twice *)options)->calls++;
    for (int i = 0; i < 2; i++) {
        cr_graph *copy = NULL;
        CR_TRY(cr_pass_dce(g, &copy));
        CR_TRY(cr_vec_push(out, copy));
    }
    return CR_OK;
}

static void a_pass_may_give_several_graphs(void) {
    const cr_pass cut = { '2', "twice", 0, 0, 0, .run = give_two }, all[] = { cut, *cr_pass_find("dce"), cut };
    twice told = { 0 };
    struct cr_pass_option option = { "twice", &told };
    watch w = { .n = 0 };
    cr_pipeline_options o = { .options = &option, .noptions = 1, .verify = true, .after = note, .user = &w };
    cr_graph *g = parsed(text), *single = NULL;
    cr_graphs out = { 0 };
    CHECK_OK(cr_pipeline_run(all, 3, &o, g, &out));
    CHECK_EQ(out.n, 4);
    CHECK_EQ(told.calls, 3); /* once, then for each of two */
    CHECK_STR(w.letters, "22xx2222");
    CHECK_EQ(cr_pass_apply_one(&all[0], g, &told, &single), CR_EVALUE);
    CHECK(!single && strstr(cr_error_message(), "gives 2 graphs"));
    cr_graphs_dispose(&out);
    cr_graph_release(g);
}

static void every_failing_allocation(void) {
    cr_graph *g = NULL;
    CHECK_OK(run_pipeline(NULL, &g)); /* tables that are made once */
    cr_graph_release(g);
    cr_error_release(cr_error_take());
    int64_t live = cr_alloc_live(), before = cr_alloc_count();
    CHECK_OK(run_pipeline(NULL, &g));
    cr_graph_release(g);
    int64_t requests = cr_alloc_count() - before, step = requests / 300 + 1;
#ifdef CR_OOM
    step = 1;
#endif
    for (int64_t n = 1; n <= requests; n += step) {
        g = NULL;
        cr_alloc_fail_at(n);
        cr_status status = run_pipeline(NULL, &g);
        cr_alloc_fail_at(0);
        CHECK(status == CR_OK || (status == CR_ENOMEM && !g));
        cr_graph_release(g);
        cr_error_release(cr_error_take());
        CHECK_EQ(cr_alloc_live(), live);
    }
}

int main(void) {
    RUN(all_passes);
    RUN(a_watcher_may_stop_it);
    RUN(letters_and_names);
    RUN(a_broken_promise_is_caught);
    RUN(a_region_that_is_no_kernel_is_caught);
    RUN(passes_stand_where_they_find_what_they_need);
    RUN(a_pass_may_give_several_graphs);
    RUN(every_failing_allocation);
    return check_summary();
}
