/* The eager tape from C: gradients of leaves, saved sets, versions, views, hooks, walks and what is freed. */
#include "autograd/autograd.h"
#include "check.h"

static cr_tensor *leaf(const double *data, int64_t n) {
    cr_tensor *t = NULL;
    CHECK_OK(cr_tensor_from(CR_F64, 1, &n, data, &t));
    CHECK_OK(cr_autograd_require(t, true));
    return t;
}

static cr_tensor *call(const char *name, cr_arg a, cr_arg b, size_t n) {
    cr_tensor *out = NULL;
    CHECK_OK(cr_call_1(name, (cr_arg[]){ a, b }, n, &out));
    return out;
}
#define T(t) cr_arg_tensor(t)
#define UNARY(name, t) call("aten::" name, T(t), cr_arg_none(), 1)
#define BINARY(name, a, b) call("aten::" name, a, b, 2)

static double at(const cr_tensor *t, int64_t i) {
    rt_scalar x = { .kind = RT_ARG_INT };
    CHECK_OK(cr_tensor_item(t, &i, &x));
    return x.f;
}

static cr_status walk(cr_tensor *root, bool keep) {
    return cr_autograd_backward(&(cr_backward){ .roots = &root, .nroots = 1, .keep = keep });
}

static void gradients(void) {
    cr_tensor *x = leaf((double[]){ 1, 2, 3 }, 3), *y = BINARY("mul.Tensor", T(x), T(x)), *z = UNARY("sum", y);
    CHECK(cr_autograd_is_leaf(x) && !cr_autograd_is_leaf(z) && cr_tensor_requires_grad(z));
    CHECK_OK(walk(z, true));
    CHECK(at(cr_autograd_grad(x), 0) == 2 && at(cr_autograd_grad(x), 2) == 6);
    CHECK_OK(walk(z, false)); /* adds */
    CHECK(at(cr_autograd_grad(x), 1) == 8);
    CHECK_ERROR(walk(z, false), CR_ERUNTIME, "a second time: what aten::mul.Tensor saved");
    CHECK_ERROR(walk(y, false), CR_ERUNTIME, "only for scalar outputs");
    cr_tensor_release(z);
    cr_tensor_release(y);
    cr_ambient_get()->grad = false;
    y = BINARY("mul.Tensor", T(x), T(x));
    cr_ambient_get()->grad = true;
    CHECK(!cr_tensor_requires_grad(y));
    CHECK_ERROR(walk(y, false), CR_ERUNTIME, "does not require grad");
    cr_tensor_release(y);
    cr_tensor_release(x);
}

static void second_order(void) {
    cr_tensor *x = leaf((double[]){ 2 }, 1), *y = BINARY("pow.Tensor_Scalar", T(x), cr_arg_int(3)), *g, *h;
    g = h = NULL;
    CHECK_OK(cr_autograd_backward(
        &(cr_backward){ .roots = &y, .nroots = 1, .inputs = &x, .ninputs = 1, .found = &g, .graph = true }));
    CHECK(at(g, 0) == 12 && cr_tensor_requires_grad(g) && !cr_autograd_grad(x));
    CHECK_OK(cr_autograd_backward(&(cr_backward){ .roots = &g, .nroots = 1, .inputs = &x, .ninputs = 1, .found = &h }));
    CHECK(at(h, 0) == 12 && !cr_tensor_requires_grad(h));
    cr_tensor_release(g);
    cr_tensor_release(h);
    cr_tensor_release(y);
    cr_tensor_release(x);
}

static void writes(void) {
    cr_tensor *x = leaf((double[]){ 1, 2, 3 }, 3), *y = BINARY("mul.Tensor", T(x), cr_arg_int(2)), *out = NULL;
    CHECK_ERROR(cr_call_1("aten::add_.Tensor", (cr_arg[]){ T(x), cr_arg_int(1) }, 2, &out), CR_ERUNTIME,
                "a leaf Variable");
    cr_tensor *s = UNARY("sin", y), *total = UNARY("sum", s);
    cr_tensor *view = NULL;
    CHECK_OK(cr_call_1("aten::select.int", (cr_arg[]){ T(y), cr_arg_int(0), cr_arg_int(1) }, 3, &view));
    cr_tensor_release(BINARY("pow_.Scalar", T(view), cr_arg_int(2)));
    CHECK_ERROR(walk(total, false), CR_ERUNTIME, "is at version 1; expected version 0");
    cr_tensor_release(total);
    total = UNARY("sum", y); /* 2 x0 + (2 x1)^2 + 2 x2 */
    CHECK_OK(walk(total, false));
    CHECK(at(cr_autograd_grad(x), 0) == 2 && at(cr_autograd_grad(x), 1) == 16 && at(cr_autograd_grad(x), 2) == 2);
    cr_tensor_release(total);
    cr_tensor_release(view);
    cr_tensor_release(s);
    cr_tensor_release(y);
    cr_tensor_release(x);
}

static int released;
static cr_status twice(void *user, cr_tensor *grad, cr_tensor **out) {
    (void)user;
    return cr_call_1("aten::mul.Scalar", (cr_arg[]){ T(grad), cr_arg_int(2) }, 2, out);
}
static void release(void *user) { released += user == &released; }

static void hooks(void) {
    cr_tensor *x = leaf((double[]){ 1 }, 1), *y = BINARY("mul.Tensor", T(x), cr_arg_int(5));
    cr_grad_node *node, *none;
    cr_grad_hook hook = { twice, release, &released, 1, NULL };
    released = 0;
    CHECK_OK(cr_autograd_hook(y, &hook, &node));
    CHECK_OK(cr_autograd_hook(x, &hook, &none));
    CHECK(node && !none && cr_grad_node_edges(node) == 1);
    CHECK_OK(cr_autograd_retain_grad(y));
    CHECK_OK(walk(y, true));
    CHECK(at(cr_autograd_grad(x), 0) == 20 && at(cr_autograd_grad(y), 0) == 2);
    cr_autograd_unhook(NULL, node, 1);
    CHECK_OK(walk(y, false));
    CHECK(at(cr_autograd_grad(x), 0) == 30 && released == 1);
    cr_grad_node_release(node);
    cr_tensor_release(y);
    cr_tensor_release(x);
    CHECK_EQ(released, 2);
    cr_tensor *plain = NULL;
    CHECK_OK(cr_tensor_from(CR_F64, 0, NULL, (double[]){ 1 }, &plain));
    CHECK_ERROR(cr_autograd_hook(plain, &hook, &none), CR_ERUNTIME, "doesn't require grad");
    CHECK_EQ(released, 3);
    cr_tensor_release(plain);
}

/* ---- functions with a backward of their own ---- */

typedef struct scaled { int64_t factor; int calls, forgotten, released; } scaled;
static const char *scaled_name(const void *user) { return (void)user, "Scaled"; }
static cr_status scaled_call(void *user, cr_tensor *const *grads, cr_tensor **out) {
    scaled *s = user;
    s->calls++;
    return cr_call_1("aten::mul.Scalar", (cr_arg[]){ T(grads[0]), cr_arg_int(s->factor) }, 2, &out[0]);
}
static void scaled_forget(void *user) { ((scaled *)user)->forgotten++; }
static void scaled_release(void *user) { ((scaled *)user)->released++; }
static const cr_node_vtable scaled_table = { scaled_name, scaled_call, scaled_forget, scaled_release, NULL };

static cr_tensor *apply(scaled *s, cr_tensor *x) {
    cr_grad_node *node = NULL;
    CHECK_OK(cr_autograd_function(&scaled_table, s, &x, 1, &node));
    cr_ambient_get()->grad = false;
    cr_tensor *y = BINARY("mul.Scalar", T(x), cr_arg_int(s->factor));
    cr_ambient_get()->grad = true;
    if (!node) return y;
    CHECK_OK(cr_autograd_results(node, 1));
    CHECK_OK(cr_autograd_result(node, 0, y, false));
    cr_grad_node_release(node);
    return y;
}

static cr_status count_node(void *user, cr_tensor **made, uint32_t nmade, cr_tensor **grads, uint32_t ngrads) {
    (void)grads;
    *(int *)user += made ? (int)nmade : 10 * (int)ngrads;
    return CR_OK;
}
static void keep(void *user) { (void)user; }

static void functions(void) {
    scaled s = { .factor = 3 };
    cr_tensor *x = leaf((double[]){ 1, 2 }, 2), *y = apply(&s, x), *z = UNARY("sum", y);
    cr_grad_edge e;
    int seen = 0;
    void *user;
    CHECK_OK(cr_autograd_edge(y, &e));
    CHECK(cr_grad_node_table(e.node, &user) == &scaled_table && user == &s && !cr_grad_node_op(e.node));
    CHECK_OK(cr_grad_node_hook(e.node, true, &(cr_node_hook){ count_node, keep, &seen, 7, NULL }));
    CHECK_OK(cr_grad_node_hook(e.node, false, &(cr_node_hook){ count_node, keep, &seen, 8, NULL }));
    CHECK_OK(walk(z, false));
    CHECK(at(cr_autograd_grad(x), 1) == 3 && s.calls == 1 && s.forgotten == 1 && seen == 11);
    cr_autograd_unhook(NULL, e.node, 7);
    cr_tensor *one = NULL, *found = NULL; /* from the edge, without its tensor, and to it */
    CHECK_OK(cr_tensor_from(CR_F64, 1, (int64_t[]){ 2 }, (double[]){ 1, 1 }, &one));
    cr_tensor *none = NULL;
    CHECK_OK(cr_autograd_backward(&(cr_backward){
        .roots = &none, .from = &e, .grads = &one, .nroots = 1, .inputs = &x, .ninputs = 1, .found = &found }));
    CHECK(at(found, 0) == 3 && seen == 12);
    cr_tensor_release(found);
    CHECK_OK(cr_autograd_backward(&(cr_backward){
        .roots = &z, .nroots = 1, .inputs = &none, .to = &e, .ninputs = 1, .found = &found, .keep = true }));
    CHECK(at(found, 0) == 1 && s.calls == 2);
    cr_tensor_release(found);
    cr_tensor_release(one);
    cr_grad_node_release(e.node);
    cr_tensor_release(z);
    cr_tensor_release(y);
    CHECK_EQ(s.released, 1);
    cr_tensor *plain = NULL;
    CHECK_OK(cr_tensor_from(CR_F64, 0, NULL, (double[]){ 1 }, &plain));
    y = apply(&s, plain);
    CHECK(!cr_tensor_requires_grad(y) && s.released == 1);
    cr_tensor_release(y);
    cr_tensor_release(plain);
    cr_tensor_release(x);
}

/* Nothing recurses: a chain as long as a program may run. */
static void long_chain(void) {
    cr_tensor *x = leaf((double[]){ 1 }, 1), *y = x;
    cr_tensor_retain(y);
    for (int i = 0; i < 100000; i++) {
        cr_tensor *next = BINARY("add.Scalar", T(y), cr_arg_int(1));
        cr_tensor_release(y);
        y = next;
    }
    CHECK_OK(walk(y, false));
    CHECK(at(cr_autograd_grad(x), 0) == 1 && at(y, 0) == 100001);
    cr_tensor_release(y);
    cr_tensor_release(x);
}

int main(void) {
    CHECK_OK(cr_ops_init());
    CHECK_OK(cr_autograd_init());
    RUN(gradients);
    RUN(writes);
    int64_t live = cr_alloc_live(); /* the table keeps the formulas that it has read */
    RUN(gradients);
    RUN(writes);
    CHECK_EQ(cr_alloc_live(), live);
    RUN(second_order);
    RUN(hooks);
    RUN(functions);
    RUN(long_chain);
    return check_summary();
}
