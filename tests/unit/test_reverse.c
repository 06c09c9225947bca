/* Derivatives of the op table's probe ops against finite differences in f64, first and second order. */
#include "check.h"
#include "ops/reverse.h"

#include <stdlib.h>

enum { MAX_TENSORS = 32, MAX_RESULTS = 4 };
static cr_tensor *tensors[MAX_TENSORS];
static int ntensors;

/* A tensor that lives until the case ends: numbers that are no special points of any function here. */
static cr_arg real(double from, double to, int rank, const int64_t *size) {
    static uint32_t state = 1;
    int64_t n = 1;
    for (int i = 0; i < rank; i++) n *= size[i];
    double data[512];
    for (int64_t i = 0; i < n; i++) {
        state = state * 1664525u + 1013904223u;
        data[i] = from + (to - from) * (double)(state >> 8) / (1 << 24);
    }
    cr_tensor *t = NULL;
    CHECK_OK(cr_tensor_from(CR_F64, rank, size, data, &t));
    tensors[ntensors++] = t;
    return cr_arg_tensor(t);
}
#define REAL(from, to, ...) \
    real(from, to, (int)CR_COUNT(((int64_t[]){ 0, __VA_ARGS__ })) - 1, (int64_t[]){ 0, __VA_ARGS__ } + 1)
static cr_arg integers(int64_t n, const int64_t *data) {
    cr_tensor *t = NULL;
    CHECK_OK(cr_tensor_from(CR_I64, 1, &n, data, &t));
    tensors[ntensors++] = t;
    return cr_arg_tensor(t);
}
static void end_case(void) {
    while (ntensors) cr_tensor_release(tensors[--ntensors]);
}

static int64_t count(const cr_tensor *t) { return cr_meta_numel(NULL, &t->meta); }
static double element(const cr_tensor *t, int64_t at) {
    int64_t index[CR_MAX_RANK];
    for (int d = t->meta.rank - 1; d >= 0; d--) {
        index[d] = at % t->meta.size[d];
        at /= t->meta.size[d];
    }
    rt_scalar s = { 0 };
    CHECK_OK(cr_tensor_item(t, index, &s));
    return s.kind == RT_ARG_FLOAT ? s.f : (double)s.i;
}
/* <a, b> over tensors and lists of tensors; NONE counts as zero. */
static double inner(const cr_arg *a, const cr_arg *b) {
    double sum = 0;
    if (a->kind == CR_ARG_LIST && b->kind == CR_ARG_LIST) {
        for (uint32_t i = 0; i < a->n; i++) sum += inner(&a->u.list[i], &b->u.list[i]);
        return sum;
    }
    if (a->kind != CR_ARG_TENSOR || b->kind != CR_ARG_TENSOR) return 0;
    CHECK_EQ(count(a->u.t), count(b->u.t));
    for (int64_t i = 0; i < count(a->u.t); i++) sum += element(a->u.t, i) * element(b->u.t, i);
    return sum;
}

/* Random weights of a value's shape; NONE for integers. Lists are kept in `room`. */
static cr_arg weights_like(const cr_arg *a, cr_arg *room) {
    if (a->kind == CR_ARG_LIST) {
        for (uint32_t i = 0; i < a->n; i++) room[i] = weights_like(&a->u.list[i], NULL);
        return cr_arg_list(room, a->n);
    }
    if (a->kind != CR_ARG_TENSOR || a->u.t->meta.dtype != CR_F64) return cr_arg_none();
    return real(0.5, 1.5, a->u.t->meta.rank, a->u.t->meta.size);
}

typedef struct problem {
    const cr_op *op;
    cr_arg args[CR_MAX_PARAMS], seeds[MAX_RESULTS], weights[CR_MAX_PARAMS];
    cr_arg seed_room[MAX_RESULTS][4], weight_room[CR_MAX_PARAMS][4];
    bool needs[CR_MAX_PARAMS];
} problem;

static double value_of(const problem *p) {
    cr_arg results[MAX_RESULTS];
    double sum = 0;
    cr_status status = cr_call(p->op, p->args, results);
    CHECK_OK(status);
    if (status) return NAN;
    for (int i = 0; i < p->op->schema.nreturns; i++) sum += inner(&results[i], &p->seeds[i]);
    cr_results_release(results, p->op->schema.nreturns);
    return sum;
}

/* sum over p of <gradient of p, weights of p> */
static double slope_of(const problem *p) {
    cr_arg results[MAX_RESULTS], grads[CR_MAX_PARAMS];
    double sum = 0;
    cr_status status = cr_call(p->op, p->args, results);
    CHECK_OK(status);
    if (status) return NAN;
    status = cr_reverse(p->op, p->args, results, p->seeds, p->needs, grads);
    CHECK_OK(status);
    for (int i = 0; !status && i < p->op->schema.nparams; i++) sum += inner(&grads[i], &p->weights[i]);
    if (!status) cr_results_release(grads, p->op->schema.nparams);
    cr_results_release(results, p->op->schema.nreturns);
    return status ? NAN : sum;
}

/* Moves every element of `at` and compares the change of `f` with `grad` (NONE: zero). */
static void differences(const problem *p, const char *what, double (*f)(const problem *), const cr_arg *at,
                        const cr_arg *grad) {
    if (at->kind == CR_ARG_LIST) {
        cr_arg none = cr_arg_none();
        for (uint32_t i = 0; i < at->n; i++)
            differences(p, what, f, &at->u.list[i], grad->kind == CR_ARG_LIST ? &grad->u.list[i] : &none);
        return;
    }
    if (at->kind != CR_ARG_TENSOR || at->u.t->meta.dtype != CR_F64) return;
    double *data = at->u.t->storage->data;
    if (grad->kind == CR_ARG_TENSOR) {
        CHECK_EQ(grad->u.t->meta.dtype, CR_F64);
        CHECK_EQ(grad->u.t->meta.rank, at->u.t->meta.rank);
    }
    for (int64_t i = 0; i < count(at->u.t); i++) {
        double keep = data[i], step = 1e-5;
        data[i] = keep + step;
        double above = f(p);
        data[i] = keep - step;
        double below = f(p);
        data[i] = keep;
        double numeric = (above - below) / (2 * step), got = grad->kind == CR_ARG_TENSOR ? element(grad->u.t, i) : 0;
        if (fabs(got - numeric) <= 1e-6 * (1 + fabs(numeric))) check_count(true);
        else
            CHECK_FAILED("%s %s[%" PRId64 "] is %.12g, finite differences give %.12g", p->op->name, what, i, got,
                         numeric);
    }
}

static void hold(const char *name, bool twice, const cr_arg *args, size_t n) {
    static problem p;
    memset(&p, 0, sizeof p);
    p.op = cr_op_find(name);
    if (!p.op) {
        CHECK_FAILED("there is no op %s", name);
        return;
    }
    cr_arena arena;
    cr_binding binding;
    cr_arena_init(&arena);
    cr_arg results[MAX_RESULTS], grads[CR_MAX_PARAMS], seeds[MAX_RESULTS];
    cr_status status = cr_bind(p.op, true, args, n, NULL, 0, &arena, &binding);
    CHECK_OK(status);
    if (status) goto out;
    memcpy(p.args, binding.args, sizeof p.args);
    for (int i = 0; i < p.op->schema.nparams; i++) {
        p.weights[i] = weights_like(&p.args[i], p.weight_room[i]);
        p.needs[i] = p.weights[i].kind != CR_ARG_NONE;
    }
    status = cr_call(p.op, p.args, results);
    CHECK_OK(status);
    if (status) goto out;
    for (int i = 0; i < p.op->schema.nreturns; i++) p.seeds[i] = weights_like(&results[i], p.seed_room[i]);
    CHECK_OK(status = cr_reverse(p.op, p.args, results, p.seeds, p.needs, grads));
    cr_results_release(results, p.op->schema.nreturns);
    if (status) goto out;
    for (int i = 0; i < p.op->schema.nparams; i++)
        if (p.needs[i]) differences(&p, p.op->schema.params[i].name, value_of, &p.args[i], &grads[i]);
    cr_results_release(grads, p.op->schema.nparams);
    if (!twice) goto out;
    CHECK_OK(status = cr_reverse_twice(p.op, p.args, p.seeds, p.needs, p.weights, grads, seeds));
    if (status) goto out;
    for (int i = 0; i < p.op->schema.nparams; i++)
        if (p.needs[i]) differences(&p, "second", slope_of, &p.args[i], &grads[i]);
    for (int i = 0; i < p.op->schema.nreturns; i++) differences(&p, "seed", slope_of, &p.seeds[i], &seeds[i]);
    cr_results_release(grads, p.op->schema.nparams);
    cr_results_release(seeds, p.op->schema.nreturns);
out:
    cr_arena_dispose(&arena);
    end_case();
}
#define HOLD(name, ...) hold(name, true, (cr_arg[]){ __VA_ARGS__ }, CR_COUNT(((cr_arg[]){ __VA_ARGS__ })))
#define INTS(...) cr_arg_list((cr_arg[]){ __VA_ARGS__ }, CR_COUNT(((cr_arg[]){ __VA_ARGS__ })))
#define I(n) cr_arg_int(n)

static void pointwise(void) {
    HOLD("aten::add.Tensor", REAL(-1, 1, 2, 3), REAL(-1, 1, 3));
    HOLD("aten::mul.Tensor", REAL(-1, 1, 2, 1), REAL(-1, 1, 3));
    HOLD("aten::mul.Tensor", REAL(-1, 1, 2, 3), cr_arg_float(2.5));
    HOLD("aten::div.Tensor", REAL(-1, 1, 2, 3), REAL(1, 2));
    HOLD("aten::exp", REAL(-1, 1, 3));
    HOLD("aten::sigmoid", REAL(-2, 2, 3));
    HOLD("aten::tanh", REAL(-2, 2, 3));
    HOLD("aten::silu", REAL(-2, 2, 3));
    HOLD("aten::gelu", REAL(-2, 2, 3));
    HOLD("aten::rsqrt", REAL(1, 2, 3));
    HOLD("aten::pow.Tensor_Scalar", REAL(0.5, 2, 3), cr_arg_float(2.5));
    HOLD("aten::clamp", REAL(-1, 1, 5), cr_arg_float(-0.4), cr_arg_none());
    HOLD("aten::clamp", REAL(-1, 1, 5), cr_arg_float(-0.4), cr_arg_float(0.4));
}

static void reductions(void) {
    HOLD("aten::sum.dim_IntList", REAL(-1, 1, 2, 3, 2), INTS(I(0), I(-1)), cr_arg_bool(false));
    HOLD("aten::sum.dim_IntList", REAL(-1, 1, 2, 3), INTS(I(1)), cr_arg_bool(true));
    HOLD("aten::mean.dim", REAL(-1, 1, 2, 3), INTS(I(1)), cr_arg_bool(false));
    HOLD("aten::max.dim", REAL(-1, 1, 2, 3), I(1), cr_arg_bool(false));
    HOLD("aten::_softmax", REAL(-1, 1, 2, 3), I(1), cr_arg_bool(false));
    HOLD("aten::cumprod", REAL(0.5, 1, 2, 3), I(1));
    HOLD("aten::cumsum", REAL(-1, 1, 2, 3), I(1));
    HOLD("aten::prod.dim_int", REAL(0.5, 1, 2, 3), I(1));
    HOLD("aten::amax", REAL(-1, 1, 2, 3), INTS(I(1)));
    HOLD("aten::logsumexp", REAL(-1, 1, 2, 3), INTS(I(1)));
    HOLD("aten::_log_softmax", REAL(-1, 1, 2, 3), I(1), cr_arg_bool(false));
    HOLD("aten::var.correction", REAL(-1, 1, 2, 4), INTS(I(1)));
}

static void movement(void) {
    HOLD("aten::split_with_sizes", REAL(-1, 1, 5, 2), INTS(I(2), I(3)), I(0));
    HOLD("aten::reshape", REAL(-1, 1, 3, 2), INTS(I(2), I(-1)));
    HOLD("aten::permute", REAL(-1, 1, 2, 3, 1), INTS(I(2), I(0), I(1)));
    HOLD("aten::expand", REAL(-1, 1, 2, 1), INTS(I(3), I(-1), I(2)));
    cr_arg pair[] = { REAL(-1, 1, 2, 2), REAL(-1, 1, 1, 2) };
    HOLD("aten::cat", cr_arg_list(pair, 2), I(0));
    int64_t places[] = { 3, 0 };
    cr_arg index = integers(2, places);
    HOLD("aten::index_put", REAL(-1, 1, 4, 2), cr_arg_list(&index, 1), REAL(-1, 1, 2, 2), cr_arg_bool(false));
    index = integers(2, places);
    HOLD("aten::index_put", REAL(-1, 1, 4, 2), cr_arg_list(&index, 1), REAL(-1, 1, 2), cr_arg_bool(true));
    index = integers(2, places);
    HOLD("aten::index.Tensor", REAL(-1, 1, 4, 2), cr_arg_list(&index, 1));
}

static void layers(void) {
    HOLD("aten::batch_norm", REAL(-1, 1, 3, 2, 2), REAL(0.5, 1, 2), REAL(-1, 1, 2), cr_arg_none(), cr_arg_none(),
         cr_arg_bool(true), cr_arg_float(0.1), cr_arg_float(1e-3), cr_arg_bool(false));
    HOLD("aten::_native_batch_norm_legit.no_stats", REAL(-1, 1, 3, 2), cr_arg_none(), cr_arg_none(), cr_arg_bool(true),
         cr_arg_float(0.1), cr_arg_float(1e-3));
    HOLD("aten::native_group_norm", REAL(-1, 1, 2, 4, 2), REAL(0.5, 1, 4), REAL(-1, 1, 4), I(2), I(4), I(2), I(2),
         cr_arg_float(1e-3));
    HOLD("aten::native_layer_norm", REAL(-1, 1, 2, 4), INTS(I(4)), REAL(0.5, 1, 4), REAL(-1, 1, 4), cr_arg_float(1e-3));
    HOLD("aten::native_layer_norm", REAL(-1, 1, 2, 4), INTS(I(4)), cr_arg_none(), cr_arg_none(), cr_arg_float(1e-3));
}

static void products(void) {
    HOLD("aten::mm", REAL(-1, 1, 2, 3), REAL(-1, 1, 3, 2));
    HOLD("aten::addmm", REAL(-1, 1, 2), REAL(-1, 1, 2, 3), REAL(-1, 1, 3, 2));
    HOLD("aten::linear", REAL(-1, 1, 2, 3), REAL(-1, 1, 2, 3), REAL(-1, 1, 2));
    cr_arg one = INTS(I(1), I(1)), zero = INTS(I(0), I(0));
    HOLD("aten::convolution", REAL(-1, 1, 1, 2, 3, 3), REAL(-1, 1, 2, 2, 2, 2), REAL(-1, 1, 2), one, one, one,
         cr_arg_bool(false), zero, I(1));
    HOLD("aten::convolution", REAL(-1, 1, 1, 2, 3, 3), REAL(-1, 1, 2, 1, 2, 2), cr_arg_none(), INTS(I(2), I(1)), one,
         one, cr_arg_bool(true), zero, I(2));
}

/* The same texts on fake tensors with symbolic sizes: gradients have their arguments' metas, and nothing is
 * computed. */
static void symbolic(void) {
    cr_env *env = NULL;
    CHECK_OK(cr_env_create(&env));
    cr_sym s = cr_sym_symbol(env, "s0", CR_TYPE_INT, 2, INT64_MAX),
           u = cr_sym_symbol(env, "s1", CR_TYPE_INT, 2, INT64_MAX);
    CHECK_OK(cr_env_set_hint(env, s, 5));
    CHECK_OK(cr_env_set_hint(env, u, 7));
    cr_dim a = cr_dim_of(env, s), b = cr_dim_of(env, u);
    static const struct {
        const char *name;
        int x, y;
    } shapes[] = { { "aten::mul.Tensor", 2, 1 }, { "aten::div.Tensor", 2, 2 }, { "aten::atan2", 1, 2 } };
    for (size_t i = 0; i < CR_COUNT(shapes); i++) {
        const cr_op *op = cr_op_find(shapes[i].name);
        cr_tensor *t[3] = { NULL };
        for (int k = 0; k < 3; k++) {
            int rank = k == 0 ? shapes[i].x : k == 1 ? shapes[i].y : 2;
            cr_meta meta;
            cr_meta_init(&meta, CR_F32, (cr_device){ CR_CPU, -1 });
            CHECK_OK(
                cr_meta_set_dense(env, &meta, rank, rank == 2 ? (cr_dim[]){ a, b } : (cr_dim[]){ b }, CR_CONTIGUOUS));
            CHECK_OK(cr_tensor_create_fake(env, &meta, &t[k]));
        }
        cr_arg args[] = { cr_arg_tensor(t[0]), cr_arg_tensor(t[1]) }, seed = cr_arg_tensor(t[2]), result, grads[2];
        CHECK_OK(cr_call(op, args, &result));
        cr_status status = cr_reverse(op, args, &result, &seed, (bool[]){ true, true }, grads);
        CHECK_OK(status);
        for (int k = 0; !status && k < 2; k++) {
            CHECK(cr_tensor_is_fake(grads[k].u.t));
            CHECK_EQ(grads[k].u.t->meta.rank, t[k]->meta.rank);
            for (int d = 0; d < t[k]->meta.rank; d++)
                CHECK_EQ(cr_dim_known(env, grads[k].u.t->meta.size[d], CR_EQ, t[k]->meta.size[d]), CR_YES);
        }
        if (!status) cr_results_release(grads, 2);
        cr_results_release(&result, 1);
        for (int k = 0; k < 3; k++) cr_tensor_release(t[k]);
    }
    CHECK_EQ(cr_env_cond_count(env), 0); /* no guard was needed */
    cr_env_release(env);
}

int main(void) {
    CHECK_OK(cr_ops_init());
    RUN(pointwise);
    RUN(reductions);
    RUN(movement);
    RUN(layers);
    RUN(products);
    RUN(symbolic);
    return check_summary();
}
