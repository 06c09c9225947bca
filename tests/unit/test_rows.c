/* Loop IR of fused regions: which stage computes what, what is kept, along which axis the lanes run; the walk of
 * rt_rows.c over domains of odd shapes; out of memory at every allocation. P4. */
#include "check.h"
#include "lower/rows.h"
#include "passes/passes.h"

#include <stdlib.h>

static cr_graph *parse(const char *text) {
    cr_graph *g = NULL;
    CHECK_OK(cr_graph_parse(NULL, text, &g));
    return g;
}

static cr_status loops(cr_graph *g, cr_str *out) {
    cr_graph *fused = NULL;
    cr_arena arena;
    CR_TRY(cr_pass_fuse(g, NULL, &fused));
    cr_arena_init(&arena);
    cr_status status = CR_OK;
    for (size_t i = 0; i < cr_graph_subgraph_count(fused) && !status; i++) {
        cr_row_kernel *k = NULL;
        status = cr_row_build(cr_graph_subgraph(fused, i), &arena, &k);
        if (!status) cr_row_print(k, out);
    }
    if (!status) status = cr_str_status(out);
    cr_arena_dispose(&arena);
    cr_graph_release(fused);
    return status;
}

static void check_loops(const char *text, const char *want) {
    cr_graph *g = parse(text);
    cr_str out;
    cr_str_init(&out);
    CHECK_OK(loops(g, &out));
    CHECK_STR(cr_str_get(&out), want);
    cr_str_dispose(&out);
    cr_graph_release(g);
}

static const char norm[] = "graph(%x: f32[s0, 64], %y: f32[s0, 64]) {\n"
                           "  %a = aten.add.Tensor(%x, %y)\n"
                           "  %n, %m, %r = aten.native_layer_norm(%a, [64], none, none, 1e-5)\n"
                           "  %t = aten.tanh(%y)\n"
                           "  %z = aten.mul.Tensor(%n, %t)\n"
                           "  return %z\n}\n";

/* The sum is kept, two cheap operations are done again, and tanh waits for the loop that needs it. */
static void a_norm_has_three_stages(void) {
    check_loops(norm, "row kernel add_layer_norm_tanh_mul: 2 axes, 1 of the row, 3 stages, 4 bytes of scratch\n"
                      "  %0: f32 = load p0 float32 unit  [stage 0]\n"
                      "  %1: f32 = load p1 float32 unit  [stage 0]\n"
                      "  %2: f32 = add %0 %1  [stage 0, kept]\n"
                      "  %3: f32 = sum %2  [before stage 1]\n"
                      "  %4: f32 = count\n"
                      "  %5: f32 = div %3 %4  [before stage 1]\n"
                      "  %6: f32 = sub %2 %5  [stage 1]\n"
                      "  %7: f32 = mul %6 %6  [stage 1]\n"
                      "  %8: f32 = sum %7  [before stage 2]\n"
                      "  %9: f32 = div %8 %4  [before stage 2]\n"
                      "  %10: f32 = 9.99999975e-06\n"
                      "  %11: f32 = add %9 %10  [before stage 2]\n"
                      "  %12: f32 = rsqrt %11  [before stage 2]\n"
                      "  %13: f32 = mul %6 %12  [stage 2]\n"
                      "  %14: f32 = tanh %1  [stage 2]\n"
                      "  %15: f32 = mul %13 %14  [stage 2]\n"
                      "  store p2 float32 unit = %15\n");
}

/* The pixels of a channels-last image are summed with the channels in the lanes. */
static void lanes_run_where_elements_are_neighbours(void) {
    check_loops("graph(%x: f32[2, 32, 7, 7](1568, 1, 224, 32)) {\n  %r = aten.relu(%x)\n  %m = aten.mean.dim(%r, [2, "
                "3])\n  return %m\n}\n",
                "column kernel relu_mean: 4 axes, 2 of the row, 2 stages, 0 bytes of scratch\n"
                "  %0: f32 = load p0 float32 unit  [stage 0]\n"
                "  %1: f32 = 0\n"
                "  %2: f32 = max %1 %0  [stage 0]\n"
                "  %3: f32 = sum %2  [before stage 1]\n"
                "  %4: f32 = count\n"
                "  %5: f32 = div %3 %4  [before stage 1]\n"
                "  store p1 float32 unit = %5\n");
}

static void out_of_memory(void) {
    cr_graph *g = parse(norm);
    cr_status status = CR_ENOMEM;
    for (long n = 1; status == CR_ENOMEM && n < 5000; n++) {
        cr_str out;
        cr_str_init(&out);
        cr_alloc_fail_at(n);
        status = loops(g, &out);
        cr_alloc_fail_at(0);
        cr_str_dispose(&out);
    }
    CHECK_OK(status);
    cr_graph_release(g);
}

/* ---- the walk ---- */

/* out = in + 1 along a row; what a kernel for one lane would do. */
static int plus_one(const rt_rows_call *c) {
    for (int64_t r = 0; r < c->rows; r++)
        for (int64_t j = 0; j < c->n[0]; j++)
            *(float *)(void *)(c->p[1] + r * c->step[1] + j * c->stride[0][1]) =
                *(float *)(void *)(c->p[0] + r * c->step[0] + j * c->stride[0][0]) + 1;
    return RT_OK;
}

/* out = sum over both row axes. */
static int total(const rt_rows_call *c) {
    for (int64_t r = 0; r < c->rows; r++) {
        float sum = 0;
        for (int64_t i = 0; i < c->n[0]; i++)
            for (int64_t j = 0; j < c->n[1]; j++)
                sum += *(float *)(void *)(c->p[0] + r * c->step[0] + i * c->stride[0][0] + j * c->stride[1][0]);
        *(float *)(void *)(c->p[1] + r * c->step[1]) = sum;
    }
    return RT_OK;
}

enum { A = 3, B = 5, C = 4097 };

static void elements_are_visited_once(void) {
    static const struct { int64_t in[3], out[3]; } strides[] = {
        { { B * C, C, 1 }, { B * C, C, 1 } }, { { B * C, 0, 1 }, { B * C, C, 1 } },
        { { 1, A, A * B }, { B * C, C, 1 } }, { { 0, 0, 0 }, { C * B, C, 1 } },
        { { C, A * C, 1 }, { B * C, C, 1 } },
    };
    float *in = calloc(A * B * C, sizeof *in), *out = calloc(A * B * C, sizeof *out);
    char message[64];
    rt_pool *pool = rt_pool_create(2);
    rt_ctx ctx = rt_ctx_plain(pool, message, sizeof message);
    for (int64_t i = 0; in && i < A * B * C; i++) in[i] = (float)i;
    rt_rows rows = { .fn = { plus_one }, .nports = 2, .naxes = 3, .nrow = 1, .cost = 50 };
    for (size_t k = 0; in && out && k < sizeof strides / sizeof *strides; k++) {
        rt_view port[2] = { { .p = in, .size = { A, B, C }, .rank = 3, .dtype = RT_F32 },
                            { .p = out, .size = { A, B, C }, .rank = 3, .dtype = RT_F32 } };
        memcpy(port[0].stride, strides[k].in, sizeof strides[k].in);
        memcpy(port[1].stride, strides[k].out, sizeof strides[k].out);
        memset(out, 0, A * B * C * sizeof *out);
        CHECK_EQ(rt_rows_run(&ctx, &rows, port), RT_OK);
        int64_t wrong = 0;
        for (int64_t a = 0; a < A; a++)
            for (int64_t b = 0; b < B; b++)
                for (int64_t c = 0; c < C; c++)
                    wrong += out[a * B * C + b * C + c] !=
                             in[a * strides[k].in[0] + b * strides[k].in[1] + c * strides[k].in[2]] + 1;
        CHECK_EQ(wrong, 0);
    }
    rt_pool_release(pool);
    free(in);
    free(out);
}

static void rows_of_two_axes(void) {
    float in[2 * 3 * 4] = { 0 }, out[3] = { 0 };
    char message[64];
    rt_ctx ctx = rt_ctx_plain(NULL, message, sizeof message);
    for (int i = 0; i < 24; i++) in[i] = (float)i;
    rt_rows rows = { .fn = { total }, .nports = 2, .naxes = 3, .nrow = 2, .reduces = true };
    /* sums over the first and last axis of [2, 3, 4]; then the same with no element to sum */
    rt_view port[2] = { { .p = in, .size = { 3, 2, 4 }, .stride = { 4, 12, 1 }, .rank = 3, .dtype = RT_F32 },
                        { .p = out, .size = { 3, 2, 4 }, .stride = { 1, 0, 0 }, .rank = 3, .dtype = RT_F32 } };
    CHECK_EQ(rt_rows_run(&ctx, &rows, port), RT_OK);
    CHECK_FLOAT(out[0], 60);
    CHECK_FLOAT(out[1], 92);
    CHECK_FLOAT(out[2], 124);
    port[0].size[1] = port[1].size[1] = 0;
    CHECK_EQ(rt_rows_run(&ctx, &rows, port), RT_OK);
    CHECK_FLOAT(out[1], 0);
}

/* ---- text of strangers ---- */

static void comments_stay_comments(void) {
    cr_str out;
    cr_str_init(&out);
    cr__comment_text(&out, "a */ int x; /* \\\n \"b\" ?\?/ %s \xc3\xa9");
    CHECK_STR(cr_str_get(&out), "a _/ int x_ /_ __ _b_ __/ %s __");
    cr_str_dispose(&out);
}

int main(void) {
    RUN(a_norm_has_three_stages);
    RUN(lanes_run_where_elements_are_neighbours);
    RUN(out_of_memory);
    RUN(elements_are_visited_once);
    RUN(rows_of_two_axes);
    RUN(comments_stay_comments);
    return check_summary();
}
