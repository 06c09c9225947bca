/* Programs compiled with their gradients: what only the inside of one can tell. The rest is tests/py/test_aot.py. */
#include "autograd/aot_internal.h"
#include "check.h"

enum { RESULTS = 6, SETS = (1 << RESULTS) - 1 };

static const char *text = "graph(%x: f32[2]) {\n"
                          "  %a: f32[2] = aten.mul.Scalar(%x, 2)\n"
                          "  %b: f32[2] = aten.mul.Scalar(%x, 3)\n"
                          "  %c: f32[2] = aten.mul.Scalar(%x, 4)\n"
                          "  %d: f32[2] = aten.mul.Scalar(%x, 5)\n"
                          "  %e: f32[2] = aten.mul.Scalar(%x, 6)\n"
                          "  %f: f32[2] = aten.mul.Scalar(%x, 7)\n"
                          "  return %a, %b, %c, %d, %e, %f\n"
                          "}";

/* A walk runs the part that it was given without a lock, while other threads, or walks inside of it, have others made:
 * every part stays where it is. */
static void parts_stay(void) {
    cr_graph *g = NULL;
    cr_tensor *x = NULL;
    cr_aot *a = NULL;
    cr__backward *parts[SETS + 1], *again;
    const float data[2] = { 1, 2 };
    CHECK_OK(cr_graph_parse(NULL, text, &g));
    CHECK_OK(cr_tensor_from(CR_F32, 1, (const int64_t[]){ 2 }, data, &x));
    CHECK_OK(cr_autograd_require(x, true));
    cr_recorded recorded = { .graph = g, .inputs = (cr_tensor *const[]){ x },
                             .is_input = (const int32_t[]){ -1, -1, -1, -1, -1, -1 } };
    CHECK_OK(cr_aot_create(&recorded, &(cr_aot_compiler){ .partition = { .kind = CR_PARTITION_DEFAULT } }, &a));
    CHECK_EQ(a->joint.ntangents, RESULTS);
    for (unsigned set = 1; set <= SETS; set++) {
        bool defined[RESULTS];
        for (unsigned i = 0; i < RESULTS; i++) defined[i] = set >> i & 1;
        CHECK_OK(cr__aot_backward(a, defined, false, &parts[set]));
    }
    for (unsigned set = 1; set <= SETS; set++) {
        bool defined[RESULTS];
        for (unsigned i = 0; i < RESULTS; i++) defined[i] = set >> i & 1;
        CHECK_OK(cr__aot_backward(a, defined, false, &again));
        CHECK(again == parts[set]);
    }
    CHECK_EQ(a->backwards.n, SETS);
    cr_aot_release(a);
    cr_tensor_release(x);
    cr_graph_release(g);
}

int main(void) {
    CHECK_OK(cr_ops_init());
    CHECK_OK(cr_region_ops_init());
    CHECK_OK(cr_autograd_init());
    RUN(parts_stay);
    return check_summary();
}
