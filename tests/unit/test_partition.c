/* Joint graphs cut into a forward and a backward part: flows, what is saved, what is computed again, same numbers. */
#include "autograd/partition.h"
#include "check.h"
#include "passes/passes.h"

/* ---- flows ---- */

/* The smallest cut of a small network, by trying all of them. */
static int64_t smallest_cut(uint32_t n, const int64_t capacity[8][8]) {
    int64_t best = INT64_MAX;
    for (uint32_t side = 0; side < 1u << n; side++) { /* bit set: with the source, which is 0; the sink is n - 1 */
        int64_t sum = 0;
        if (!(side & 1) || side >> (n - 1)) continue;
        for (uint32_t i = 0; i < n; i++)
            for (uint32_t k = 0; k < n; k++)
                if (side >> i & 1 && !(side >> k & 1)) sum += capacity[i][k];
        best = CR_MIN(best, sum);
    }
    return best;
}

static void flow_is_smallest_cut(void) {
    uint64_t seed = 1;
    for (int turn = 0; turn < 300; turn++) {
        uint32_t n = 2 + (uint32_t)turn % 6;
        int64_t capacity[8][8] = { { 0 } }, crossing = 0;
        cr_flow f;
        CHECK_OK(cr_flow_init(&f, n));
        for (uint32_t i = 0; i < n; i++) {
            for (uint32_t k = 0; k < n; k++) {
                seed = seed * 6364136223846793005u + 1442695040888963407u;
                if (i == k || (seed >> 33) % 3 == 0) continue;
                capacity[i][k] = (int64_t)(seed >> 40) % 20;
                CHECK_OK(cr_flow_edge(&f, i, k, capacity[i][k]));
            }
        }
        int64_t found = cr_flow_run(&f, 0, n - 1);
        CHECK_EQ(found, smallest_cut(n, (const int64_t(*)[8])capacity));
        for (uint32_t i = 0; i < n; i++) /* the sides that it tells are such a cut */
            for (uint32_t k = 0; k < n; k++)
                if (!cr_flow_needs(&f, i) && cr_flow_needs(&f, k)) crossing += capacity[i][k];
        CHECK_EQ(crossing, found);
        CHECK(cr_flow_needs(&f, n - 1) && !cr_flow_needs(&f, 0));
        cr_flow_dispose(&f);
    }
}

/* ---- graphs ---- */

static cr_graph *parsed(const char *text) {
    cr_graph *g = NULL;
    CHECK_OK(cr_graph_parse(NULL, text, &g));
    return g;
}

static cr_tensor *numbers(int rank, const int64_t *size, int seed) {
    cr_tensor *t = NULL;
    float data[4096];
    int64_t n = 1;
    for (int d = 0; d < rank; d++) n *= size[d];
    for (int64_t i = 0; i < n; i++) data[i] = (float)((i * 37 + seed * 11) % 19) / 9 - 1;
    CHECK_OK(cr_tensor_from(CR_F32, rank, size, data, &t));
    return t;
}

static void check_equal(const cr_arg *a, const cr_arg *b) {
    cr_arg same = cr_arg_none(), args[] = { *a, *b };
    CHECK_EQ(a->kind, b->kind);
    if (a->kind != CR_ARG_TENSOR) return;
    CHECK_OK(cr_call(cr_op_find("aten::equal"), args, &same));
    CHECK_EQ(same.u.i, 1);
}

enum { MOST = 32 };

/* Do both parts, one after the other, compute what the joint graph does? Bits and all: the same kernels run. */
static void check_values(const cr_joint *joint, const cr_parts *parts, const cr_arg *inputs) {
    cr_arg want[MOST], mid[MOST], given[MOST], got[MOST];
    size_t n = cr_graph_result_count(joint->graph), nmid = cr_graph_result_count(parts->forward), k = 0;
    CHECK_EQ(nmid, parts->nresults + parts->nsaved + parts->nnumbers);
    CHECK_EQ(cr_graph_input_count(parts->backward), parts->nnumbers + parts->nsaved + joint->ntangents);
    CHECK_OK(cr_graph_verify(parts->forward, CR_VERIFY_METAS | CR_VERIFY_FUNCTIONAL));
    CHECK_OK(cr_graph_verify(parts->backward, CR_VERIFY_METAS | CR_VERIFY_FUNCTIONAL));
    CHECK_OK(cr_graph_run(joint->graph, inputs, joint->nprimals + joint->ntangents, want, n));
    CHECK_OK(cr_graph_run(parts->forward, inputs, joint->nprimals, mid, nmid));
    for (uint32_t i = 0; i < parts->nnumbers; i++) given[k++] = mid[parts->nresults + parts->nsaved + i];
    for (uint32_t i = 0; i < parts->nsaved; i++) given[k++] = mid[parts->nresults + i];
    for (uint32_t i = 0; i < joint->ntangents; i++) given[k++] = inputs[joint->nprimals + i];
    CHECK_OK(cr_graph_run(parts->backward, given, k, got, n - joint->nforward));
    for (uint32_t i = 0; i < joint->nforward; i++) check_equal(&mid[i], &want[i]);
    for (size_t i = joint->nforward; i < n; i++) check_equal(&got[i - joint->nforward], &want[i]);
    cr_results_release(want, n);
    cr_results_release(mid, nmid);
    cr_results_release(got, n - joint->nforward);
}

static uint32_t node_named(const cr_graph *g, const char *name) {
    return cr_graph_value(g, cr_graph_find(g, name))->node;
}

static bool has(const cr_graph *g, const char *name) { return cr_graph_find(g, name) != CR_NO_VALUE; }

/* y = gelu(x w'); gradients of x and w. */
static const char *const layer = "graph(%x: f32[8, 16], %w: f32[12, 16], %dy: f32[8, 12]) {\n"
                                 "  %h: f32[8, 12] = aten.linear(%x, %w)\n"
                                 "  %s: f32[8, 12] = aten.sigmoid(%h)\n"
                                 "  %y: f32[8, 12] = aten.mul.Tensor(%h, %s)\n"
                                 "  %a: f32[8, 12] = aten.mul.Tensor(%dy, %s)\n"
                                 "  %b: f32[8, 12] = aten.mul.Tensor(%dy, %y)\n"
                                 "  %dh: f32[8, 12] = aten.add.Tensor(%a, %b)\n"
                                 "  %dx: f32[8, 16] = aten.mm(%dh, %w)\n"
                                 "  %t: f32[12, 8](1, 12) of %dh = aten.t(%dh)\n"
                                 "  %dw: f32[12, 16] = aten.mm(%t, %x)\n"
                                 "  return %y, %dx, %dw, none\n"
                                 "}";

typedef struct layer_inputs {
    cr_arg at[3];
} layer_inputs;

static layer_inputs make_inputs(void) {
    return (layer_inputs){ { cr_arg_tensor(numbers(2, (int64_t[]){ 8, 16 }, 1)),
                             cr_arg_tensor(numbers(2, (int64_t[]){ 12, 16 }, 2)),
                             cr_arg_tensor(numbers(2, (int64_t[]){ 8, 12 }, 3)) } };
}

static void default_saves_what_is_read(void) {
    cr_joint joint = { .graph = parsed(layer), .nprimals = 2, .ntangents = 1, .nforward = 1 };
    layer_inputs in = make_inputs();
    cr_parts parts;
    CHECK_OK(cr_partition(&joint, &(cr_partition_options){ .kind = CR_PARTITION_DEFAULT, .budget = 1 }, &parts));
    CHECK_EQ(parts.saved_bytes, 2 * 8 * 12 * 4); /* the sigmoid and the result */
    CHECK_EQ(parts.recomputed.n, 0);
    CHECK(!has(parts.backward, "h") && has(parts.backward, "s") && has(parts.backward, "dy"));
    CHECK(!has(parts.forward, "dy") && !has(parts.forward, "dh"));
    check_values(&joint, &parts, in.at);
    cr_parts_dispose(&parts);
    cr_results_release(in.at, 3);
    cr_graph_release(joint.graph);
}

static void cut_computes_cheap_things_again(void) {
    cr_joint joint = { .graph = parsed(layer), .nprimals = 2, .ntangents = 1, .nforward = 1 };
    layer_inputs in = make_inputs();
    cr_parts parts;
    cr_str text;
    cr_str_init(&text);
    CHECK_OK(cr_partition(&joint, NULL, &parts));
    CHECK_EQ(parts.saved_bytes, 8 * 12 * 4); /* the product */
    CHECK_EQ(parts.nsaved, 3);               /* and both primals, for nothing */
    CHECK_EQ(parts.recomputed.n, 2);
    CHECK_STR(parts.recomputed.at[0].op, "aten::sigmoid");
    CHECK_EQ(parts.forward_flops, 2 * 8 * 12 * 16);
    CHECK_EQ(parts.backward_flops, 2 * parts.forward_flops);
    CHECK_EQ(parts.recomputed_flops, 0);
    check_values(&joint, &parts, in.at);
    cr_parts_report(&parts, &text);
    CHECK(strstr(cr_str_get(&text), "saved: 384 bytes\n  %h  aten::linear  384 bytes\n"));
    CHECK(strstr(cr_str_get(&text), "  %s  aten::sigmoid  384 bytes, 0 FLOPs\n"));
    text.n = 0;
    cr_parts_report_json(&parts, &text);
    CHECK(strstr(cr_str_get(&text), "{\"saved_bytes\": 384, \"forward_flops\": 3072, \"backward_flops\": 6144, "));
    CHECK(strstr(cr_str_get(&text), "{\"name\": \"h\", \"op\": \"aten::linear\", \"bytes\": 384}"));
    cr_str_dispose(&text);
    cr_parts_dispose(&parts);
    cr_results_release(in.at, 3);
    cr_graph_release(joint.graph);
}

static void budget_zero_saves_nothing(void) {
    cr_joint joint = { .graph = parsed(layer), .nprimals = 2, .ntangents = 1, .nforward = 1 };
    layer_inputs in = make_inputs();
    cr_parts parts;
    CHECK_OK(cr_partition(&joint, &(cr_partition_options){ .budget = 0 }, &parts));
    CHECK_EQ(parts.saved_bytes, 0);
    CHECK_EQ(parts.recomputed_flops, parts.forward_flops);
    check_values(&joint, &parts, in.at);
    cr_parts_dispose(&parts);
    CHECK_EQ(cr_partition(&joint, &(cr_partition_options){ .budget = 1.5 }, &parts), CR_EVALUE);
    CHECK(strstr(cr_error_message(), "activation_memory_budget is 1.5"));
    cr_parts_dispose(&parts);
    cr_results_release(in.at, 3);
    cr_graph_release(joint.graph);
}

/* Checkpoint regions are computed again whatever it costs, and what a policy saves is not. */
static void policies_are_honoured(void) {
    cr_joint joint = { .graph = parsed(layer), .nprimals = 2, .ntangents = 1, .nforward = 1 };
    layer_inputs in = make_inputs();
    uint8_t policy[64] = { 0 };
    cr_parts parts;
    uint32_t h = node_named(joint.graph, "h"), s = node_named(joint.graph, "s");
    cr_checkpoint region = { h, h + 1 };
    joint.checkpoints.at = &region, joint.checkpoints.n = 1;
    CHECK_OK(cr_partition(&joint, NULL, &parts));
    CHECK_EQ(parts.saved_bytes, 0);
    CHECK(has(parts.backward, "h"));
    CHECK(parts.recomputed.n && !strcmp(parts.recomputed.at[0].op, "aten::linear"));
    check_values(&joint, &parts, in.at);
    cr_parts_dispose(&parts);
    policy[s] = CR_POLICY_SAVE;
    policy[h] = CR_POLICY_SAVE;
    CHECK_OK(cr_partition(&joint, &(cr_partition_options){ .budget = 0, .policy = policy }, &parts));
    CHECK_EQ(parts.recomputed_flops, 0);
    CHECK_EQ(parts.saved_bytes, 2 * 8 * 12 * 4);
    check_values(&joint, &parts, in.at);
    cr_parts_dispose(&parts);
    cr_results_release(in.at, 3);
    cr_graph_release(joint.graph);
}

/* What was drawn is saved, at any budget and in any checkpoint, where it takes less room than the generator's state. */
static void few_random_numbers_are_saved(void) {
    cr_joint joint = { .graph = parsed("graph(%x: f32[4, 8], %dy: f32[4, 8]) {\n"
                                       "  %u: f32[4, 8] = aten.rand_like(%x)\n"
                                       "  %m: b8[4, 8] = aten.gt.Scalar(%u, 0.5)\n"
                                       "  %y: f32[4, 8] = aten.mul.Tensor(%x, %m)\n"
                                       "  %dx: f32[4, 8] = aten.mul.Tensor(%dy, %m)\n"
                                       "  return %y, %dx\n"
                                       "}"),
                       .nprimals = 1,
                       .ntangents = 1,
                       .nforward = 1 };
    cr_checkpoint region = { 0, 64 };
    cr_parts parts;
    CHECK_OK(cr_partition(&joint, NULL, &parts));
    CHECK_EQ(parts.saved_bytes, 32); /* the mask, a byte each */
    CHECK(!has(parts.backward, "u") && has(parts.backward, "m"));
    cr_parts_dispose(&parts);
    joint.checkpoints.at = &region, joint.checkpoints.n = 1;
    CHECK_OK(cr_partition(&joint, &(cr_partition_options){ .budget = 0 }, &parts));
    CHECK_EQ(parts.saved_bytes, 128); /* what was drawn itself: the comparison belongs to the region */
    CHECK(!has(parts.forward, "dx") && has(parts.backward, "u"));
    CHECK_EQ(cr_graph_node(parts.backward, node_named(parts.backward, "u"))->kind, CR_NODE_PLACEHOLDER);
    cr_parts_dispose(&parts);
    cr_graph_release(joint.graph);
}

/* A view is saved as the memory that it shows, once, and taken again. */
static void views_are_saved_as_their_memory(void) {
    cr_joint joint = { .graph = parsed("graph(%x: f32[6, 4], %w: f32[4, 8], %dy: f32[8, 6]) {\n"
                                       "  %h: f32[6, 8] = aten.mm(%x, %w)\n"
                                       "  %a: f32[8, 6](1, 8) of %h = aten.t(%h)\n"
                                       "  %v: f32[48] of %h = aten.view(%h, [48])\n"
                                       "  %y: f32[8, 6](1, 8) = aten.mul.Tensor(%a, %a)\n"
                                       "  %p: f32[8, 6] = aten.mul.Tensor(%dy, %a)\n"
                                       "  %q: f32[48] = aten.exp(%v)\n"
                                       "  %r: f32[8, 6] = aten.view(%q, [8, 6])\n"
                                       "  %g: f32[8, 6] = aten.mul.Tensor(%p, %r)\n"
                                       "  return %y, %g, none\n"
                                       "}"),
                       .nprimals = 2,
                       .ntangents = 1,
                       .nforward = 1 };
    cr_arg in[] = { cr_arg_tensor(numbers(2, (int64_t[]){ 6, 4 }, 1)),
                    cr_arg_tensor(numbers(2, (int64_t[]){ 4, 8 }, 2)),
                    cr_arg_tensor(numbers(2, (int64_t[]){ 8, 6 }, 3)) };
    for (int kind = 0; kind < 2; kind++) {
        cr_parts parts;
        CHECK_OK(cr_partition(&joint, &(cr_partition_options){ .kind = (cr_partitioner)kind, .budget = 1 }, &parts));
        CHECK_EQ(parts.saved_bytes, 48 * 4);
        CHECK_EQ(parts.nsaved, 1);
        check_values(&joint, &parts, in);
        cr_parts_dispose(&parts);
    }
    cr_results_release(in, 3);
    cr_graph_release(joint.graph);
}

/* Numbers go over as numbers; symbols that no input of the backward part shows do, too. */
static void sizes_go_over_as_numbers(void) {
    cr_joint joint = { .graph = parsed("graph(%x: f32[s0, 3], %dy: f32[3]) {\n"
                                       "  symbol s0 in [2, inf] hint 5\n"
                                       "  %y: f32[3] = aten.sum.dim_IntList(%x, [0])\n"
                                       "  %n = aten.sym_size.int(%x, 0)\n"
                                       "  %dx: f32[s0, 3](0, 1) of %dy = aten.expand(%dy, [%n, 3])\n"
                                       "  return %y, %dx\n"
                                       "}"),
                       .nprimals = 1,
                       .ntangents = 1,
                       .nforward = 1 };
    cr_arg in[] = { cr_arg_tensor(numbers(2, (int64_t[]){ 7, 3 }, 1)), cr_arg_tensor(numbers(1, (int64_t[]){ 3 }, 2)) };
    for (int kind = 0; kind < 2; kind++) {
        cr_parts parts;
        uint8_t policy[32] = { 0 };
        policy[node_named(joint.graph, "n")] = kind ? CR_POLICY_SAVE : CR_POLICY_FREE;
        CHECK_OK(cr_partition(&joint, &(cr_partition_options){ .budget = 1, .policy = policy }, &parts));
        CHECK_EQ(parts.nnumbers, kind);
        CHECK_EQ(parts.nsaved, !kind); /* x itself, which costs nothing */
        CHECK_EQ(parts.saved_bytes, 8 * kind);
        check_values(&joint, &parts, in);
        cr_parts_dispose(&parts);
    }
    cr_results_release(in, 2);
    cr_graph_release(joint.graph);
}

/* Twelve layers: fewer bytes and more work, step by step, as the budget falls. */
static void budgets_are_monotone(void) {
    cr_str text;
    cr_str_init(&text);
    cr_str_add(&text, "graph(%h0: f32[8, 16]");
    for (int i = 0; i < 12; i++) cr_str_addf(&text, ", %%w%d: f32[16, 16]", i);
    cr_str_add(&text, ", %g12: f32[8, 16]) {\n");
    for (int i = 0; i < 12; i++)
        cr_str_addf(&text, "  %%z%d: f32[8, 16] = aten.mm(%%h%d, %%w%d)\n  %%h%d: f32[8, 16] = aten.tanh(%%z%d)\n", i,
                    i, i, i + 1, i);
    for (int i = 11; i >= 0; i--)
        cr_str_addf(&text,
                    "  %%d%d: f32[8, 16] = aten.tanh_backward(%%g%d, %%h%d)\n  %%t%d: f32[16, 8](1, 16) of %%h%d = "
                    "aten.t(%%h%d)\n  %%dw%d: f32[16, 16] = aten.mm(%%t%d, %%d%d)\n  %%s%d: f32[16, 16](1, 16) of "
                    "%%w%d = "
                    "aten.t(%%w%d)\n  %%g%d: f32[8, 16] = aten.mm(%%d%d, %%s%d)\n",
                    i, i + 1, i + 1, i, i, i, i, i, i, i, i, i, i, i, i);
    cr_str_add(&text, "  return %h12, %g0");
    for (int i = 0; i < 12; i++) cr_str_addf(&text, ", %%dw%d", i);
    cr_str_add(&text, "\n}");
    cr_joint joint = { .graph = parsed(cr_str_get(&text)), .nprimals = 13, .ntangents = 1, .nforward = 1 };
    cr_arg in[14];
    for (int i = 0; i < 14; i++) in[i] = cr_arg_tensor(numbers(2, (int64_t[]){ i == 0 || i == 13 ? 8 : 16, 16 }, i));
    int64_t bytes = INT64_MAX, flops = -1, all = 0;
    int steps = 0;
    for (int b = 20; b >= 0; b--) {
        cr_parts parts;
        CHECK_OK(cr_partition(&joint, &(cr_partition_options){ .budget = b / 20.0 }, &parts));
        if (b == 20) all = parts.saved_bytes;
        CHECK(parts.saved_bytes <= bytes && parts.recomputed_flops >= flops);
        CHECK((double)parts.saved_bytes <= b / 20.0 * (double)all);
        steps += parts.saved_bytes < bytes;
        bytes = parts.saved_bytes, flops = parts.recomputed_flops;
        check_values(&joint, &parts, in);
        cr_parts_dispose(&parts);
    }
    CHECK_EQ(all, 12 * 8 * 16 * 4);
    CHECK_EQ(bytes, 0);
    CHECK(steps >= 12); /* layers that are alike go one by one */
    cr_results_release(in, 14);
    cr_str_dispose(&text);
    cr_graph_release(joint.graph);
}

static void results_must_not_read_tangents(void) {
    cr_joint joint = { .graph = parsed("graph(%x: f32[2], %dy: f32[2]) {\n"
                                       "  %y: f32[2] = aten.add.Tensor(%x, %dy)\n  return %y, %dy\n}"),
                       .nprimals = 1,
                       .ntangents = 1,
                       .nforward = 1 };
    cr_parts parts;
    CHECK_EQ(cr_partition(&joint, NULL, &parts), CR_EVALUE);
    CHECK(strstr(cr_error_message(), "depends on a tangent"));
    CHECK(!parts.forward && !parts.backward);
    cr_parts_dispose(&parts);
    cr_graph_release(joint.graph);
}

static void nothing_is_left_behind(void) {
    int64_t live = cr_alloc_live();
    cut_computes_cheap_things_again();
    budget_zero_saves_nothing();
    views_are_saved_as_their_memory();
    results_must_not_read_tangents();
    CHECK_EQ(cr_alloc_live(), live);
}

int main(void) {
    CHECK_OK(cr_ops_init());
    CHECK_OK(cr_region_ops_init());
    RUN(flow_is_smallest_cut);
    RUN(default_saves_what_is_read);
    RUN(cut_computes_cheap_things_again);
    RUN(budget_zero_saves_nothing);
    RUN(policies_are_honoured);
    RUN(few_random_numbers_are_saved);
    RUN(views_are_saved_as_their_memory);
    RUN(sizes_go_over_as_numbers);
    RUN(budgets_are_monotone);
    RUN(results_must_not_read_tangents);
    RUN(nothing_is_left_behind);
    return check_summary();
}
