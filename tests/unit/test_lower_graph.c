/* Graphs as they are, lowered with live weights and run in this process: what changes between runs is seen. */
#include "check.h"
#include "lower/lower.h"

static const char *const step = "graph(%x: f32[s0, 3], %w: f32[2, 3], %b: f32[2]) {\n"
                                "  symbol s0 in [0, inf] hint 4\n"
                                "  %y = aten.linear(%x, %w, %b)\n"
                                "  %z = aten.mul.Tensor(%y, 2)\n"
                                "  %c, %b1! = aten.add_.Scalar(%b, 1)\n"
                                "  return %z\n"
                                "}";

static cr_tensor *tensor(int rank, const int64_t *size, const float *data) {
    cr_tensor *t = NULL;
    CHECK_OK(cr_tensor_from(CR_F32, rank, size, data, &t));
    return t;
}

static float *data_of(cr_tensor *t) { return cr_tensor_view(t).p; }

/* One run on `rows` rows of ones; the first result. */
static void run(const cr_lowered *l, cresset_instance *m, int32_t method, int64_t rows, float *out) {
    static float ones[] = { 1, 1, 1, 1, 1, 1, 1, 1, 1 };
    int64_t size[] = { rows, 3 };
    char message[256] = "";
    cresset_value in[3] = { { .struct_size = sizeof *in, .kind = CRESSET_TENSOR, .dtype = CRESSET_F32, .rank = 2,
                              .data = ones, .size = size } };
    cresset_value result = { .struct_size = sizeof result };
    cr_lowered_bind(l, method, in);
    CHECK_EQ(l->library.api.run(m, method, in, 3, &result, 1, message, sizeof message), CRESSET_OK);
    CHECK_STR(message, "");
    CHECK_EQ(result.size[0], rows);
    memcpy(out, result.data, (size_t)rows * 2 * sizeof *out);
    l->library.api.release(m, &result);
}

static cr_graph *parsed(const char *text) {
    cr_graph *g = NULL;
    CHECK_OK(cr_graph_parse(NULL, text, &g));
    return g;
}

static cresset_instance *instance(cr_lowered *l, uint8_t **numbers) {
    cresset_instance *m = NULL;
    cresset_options o = { .struct_size = sizeof o };
    CHECK_OK(cr_lowered_weights(l, numbers));
    l->model.weights = *numbers;
    l->library.model = &l->model;
    CHECK(l->model.weight_bytes <= 8); /* a number of the graph, and nothing of the weights */
    CHECK_EQ(l->library.api.create(&l->library.api, &o, &m, NULL, 0), CRESSET_OK);
    return m;
}

static void weights_are_read_where_they_lie(void) {
    cr_graph *g = parsed(step);
    cr_tensor *w = tensor(2, (int64_t[]){ 2, 3 }, (float[]){ 1, 2, 3, 4, 5, 6 });
    cr_tensor *b = tensor(1, (int64_t[]){ 2 }, (float[]){ 0, 10 });
    uint8_t *numbers = NULL;
    cr_lowered *l = NULL;
    CHECK_OK(cr_lower_graphs(&(cr_lower_graph){ g, NULL, (cr_tensor *[]){ NULL, w, b } }, 1, NULL, &l));
    cr_graph_release(g);
    CHECK_STR(l->library.api.methods[0].name, "forward");
    CHECK_EQ(l->library.api.methods[0].ninputs, 3);
    CHECK_STR(l->library.api.methods[0].inputs[1].name, "w");
    cresset_instance *m = instance(l, &numbers);
    float out[6];
    run(l, m, 0, 1, out);
    CHECK(out[0] == 12 && out[1] == 50);              /* (6 + 0) * 2, (15 + 10) * 2 */
    CHECK(data_of(b)[0] == 1 && data_of(b)[1] == 11); /* written in place */
    data_of(w)[0] = 101;                              /* what trains it */
    run(l, m, 0, 2, out);
    CHECK(out[0] == 214 && out[2] == 214 && out[1] == 52 && out[3] == 52);
    run(l, m, 0, 0, out);
    CHECK(data_of(b)[0] == 3);
    l->library.api.destroy(m);
    cr_lowered_release(l);
    cr_free(numbers);
    CHECK(data_of(w)[0] == 101); /* the caller's own */
    cr_tensor_release(w);
    cr_tensor_release(b);
}

/* A weight that lies otherwise than the graph says is copied in, and back where it is written; methods share it. */
static void strides_and_methods(void) {
    static const char *const twice = "graph(%x: f32[2, 3], %w: f32[2, 3], %b: f32[2]) {\n"
                                     "  %y = aten.linear(%x, %w, %b)\n  %v, %w1! = aten.neg_(%w)\n  return %y\n}";
    cr_graph *g = parsed(step), *h = parsed(twice);
    cr_tensor *wide = tensor(2, (int64_t[]){ 3, 2 }, (float[]){ 1, 4, 2, 5, 3, 6 }), *w = NULL;
    cr_tensor *b = tensor(1, (int64_t[]){ 2 }, (float[]){ 0, 0 });
    CHECK_OK(cr_call_1("aten::t", (cr_arg[]){ cr_arg_tensor(wide) }, 1, &w));
    cr_tensor *weights[] = { NULL, w, b };
    uint8_t *numbers = NULL;
    cr_lower_graph graphs[] = { { g, "step", weights }, { h, "negate", weights } };
    cr_lowered *l = NULL;
    CHECK_OK(cr_lower_graphs(graphs, 2, NULL, &l));
    cresset_instance *m = instance(l, &numbers);
    float out[6];
    run(l, m, 0, 1, out);
    CHECK(out[0] == 12 && out[1] == 30);
    run(l, m, 1, 2, out);
    CHECK(out[0] == 7 && out[3] == 16); /* bias 1 by now */
    CHECK(data_of(wide)[0] == -1 && data_of(wide)[1] == -4);
    run(l, m, 0, 1, out);
    CHECK(out[0] == -10 && out[1] == -28);
    l->library.api.destroy(m);
    cr_lowered_release(l);
    cr_free(numbers);
    cr_tensor *all[] = { wide, w, b };
    for (size_t i = 0; i < CR_COUNT(all); i++) cr_tensor_release(all[i]);
    cr_graph_release(g);
    cr_graph_release(h);
}

static void nothing_is_left_behind(void) { /* after the first time, which made tables for the process */
    int64_t live = cr_alloc_live();
    weights_are_read_where_they_lie();
    strides_and_methods();
    CHECK_EQ(cr_alloc_live(), live);
}

static void what_does_not_fit_is_refused(void) {
    cr_graph *g = parsed(step);
    cr_tensor *w = tensor(2, (int64_t[]){ 3, 3 }, (float[9]){ 0 });
    cr_lowered *l = NULL;
    CHECK_EQ(cr_lower_graphs(&(cr_lower_graph){ g, NULL, (cr_tensor *[]){ NULL, w, NULL } }, 1, NULL, &l), CR_EVALUE);
    CHECK(!l && strstr(cr_error_message(), "'w'"));
    cr_lower_graph same[] = { { g, "a", NULL }, { g, "a", NULL } };
    CHECK_EQ(cr_lower_graphs(same, 2, NULL, &l), CR_EVALUE);
    CHECK(strstr(cr_error_message(), "two methods are called 'a'"));
    CHECK_EQ(cr_lower_graphs(NULL, 0, NULL, &l), CR_EVALUE);
    cr_tensor_release(w);
    cr_graph_release(g);
}

int main(void) {
    CHECK_OK(cr_ops_init());
    RUN(weights_are_read_where_they_lie);
    RUN(strides_and_methods);
    RUN(nothing_is_left_behind);
    RUN(what_does_not_fit_is_refused);
    return check_summary();
}
