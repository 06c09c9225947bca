/* Lowering of x[...]: which ops come out, in which order, on real and on symbolic tensors, and what happens when memory
 * runs out. */
#include "ops/indexing.h"

#include "check.h"

/* Carries calls out and writes down their names. */
typedef struct logger { cr_emitter emitter; cr_str text; } logger;

static cr_status log_call(cr_emitter *e, const cr_op *op, const cr_arg *args, cr_arg *results) {
    logger *l = (logger *)e;
    if (l->text.n) cr_str_addc(&l->text, ' ');
    cr_str_add(&l->text, op->schema.name);
    return cr_call(op, args, results);
}

static void logger_init(logger *l) {
    l->emitter = *cr_exec_emitter();
    l->emitter.call = log_call;
    cr_str_init(&l->text);
}

static cr_tensor *numbers(int rank, const int64_t *size, int dtype) {
    int64_t data[64];
    for (int i = 0; i < 64; i++) data[i] = dtype == CR_I64 ? i : 0;
    cr_tensor *t = NULL;
    CHECK_OK(cr_tensor_from(dtype, rank, size, data, &t));
    return t;
}

/* The ops of x[items], and the sizes of the result as text. */
static void check_get(cr_tensor *x, const cr_index *items, size_t n, const char *ops, const char *shape) {
    logger l;
    logger_init(&l);
    cr_arg self = cr_arg_tensor(x), result;
    cr_status status = cr_index_get(&l.emitter, &self, items, n, &result);
    CHECK_OK(status);
    CHECK_STR(cr_str_get(&l.text), ops);
    if (!status) {
        cr_str text;
        cr_str_init(&text);
        cr_shape_print(result.u.t->env, result.u.t->meta.rank, result.u.t->meta.size, &text);
        CHECK_STR(cr_str_get(&text), shape);
        cr_str_dispose(&text);
        CHECK(result.u.t != x);
        cr_results_release(&result, 1);
    }
    cr_str_dispose(&l.text);
}
#define GET(x, ops, shape, ...) \
    check_get(x, (cr_index[]){ __VA_ARGS__ }, sizeof((cr_index[]){ __VA_ARGS__ }) / sizeof(cr_index), ops, shape)
#define ALL cr_index_slice(0, INT64_MAX, 1)

static void views(void) {
    cr_tensor *x = numbers(3, (int64_t[]){ 2, 3, 4 }, CR_I64);
    GET(x, "select", "[3, 4]", cr_index_int(0));
    GET(x, "select select select", "[]", cr_index_int(-1), cr_index_int(2), cr_index_int(-4));
    GET(x, "slice", "[2, 3, 4]", ALL);
    GET(x, "select", "[2, 4]", ALL, cr_index_int(1));
    GET(x, "slice slice", "[1, 3, 2]", cr_index_slice(1, INT64_MAX, 1), ALL, cr_index_slice(0, INT64_MAX, 2));
    GET(x, "alias", "[2, 3, 4]", cr_index_ellipsis());
    GET(x, "alias", "[2, 3, 4]", ALL, ALL);
    GET(x, "unsqueeze", "[1, 2, 3, 4]", cr_index_newaxis());
    GET(x, "unsqueeze select", "[1, 2, 3]", cr_index_newaxis(), cr_index_ellipsis(), cr_index_int(0));
    check_get(x, NULL, 0, "alias", "[2, 3, 4]");
    cr_tensor_release(x);
}

static void tensors(void) {
    cr_tensor *x = numbers(3, (int64_t[]){ 2, 3, 4 }, CR_I64), *two = numbers(1, (int64_t[]){ 2 }, CR_I64),
              *one = numbers(0, NULL, CR_I64), *mask = numbers(2, (int64_t[]){ 2, 3 }, CR_BOOL),
              *yes = numbers(0, NULL, CR_BOOL);
    cr_index at = cr_index_tensor(cr_arg_tensor(two)), number = cr_index_tensor(cr_arg_tensor(one)),
             where = cr_index_tensor(cr_arg_tensor(mask)), truth = cr_index_tensor(cr_arg_tensor(yes));
    GET(x, "index", "[2, 3, 4]", at);
    GET(x, "item select index", "[3, 2]", number, ALL, at);
    GET(x, "item select", "[3, 4]", number);
    GET(x, "index", "[0, 4]", where);
    GET(x, "slice index", "[0, 2]", where, cr_index_slice(0, 2, 1)); /* the mask covers two dimensions */
    GET(x, "unsqueeze zeros index", "[1, 2, 3, 4]", cr_index_bool(true));
    GET(x, "unsqueeze zeros index", "[0, 2, 3, 4]", cr_index_bool(false));
    GET(x, "unsqueeze unsqueeze index", "[0, 2, 3, 4]", truth);
    cr_tensor_release(x);
    cr_tensor_release(two);
    cr_tensor_release(one);
    cr_tensor_release(mask);
    cr_tensor_release(yes);
}

static void errors(void) {
    cr_tensor *x = numbers(2, (int64_t[]){ 2, 3 }, CR_I64), *zero = numbers(0, NULL, CR_I64);
    cr_arg self = cr_arg_tensor(x), scalar = cr_arg_tensor(zero), result;
    cr_emitter *e = cr_exec_emitter();
    CHECK_ERROR(cr_index_get(e, &self, (cr_index[]){ cr_index_int(2) }, 1, &result), CR_EINDEX,
                "index 2 is out of bounds for dimension 0 with size 2");
    CHECK_ERROR(cr_index_get(e, &self, (cr_index[]){ cr_index_int(0), cr_index_int(-4) }, 2, &result), CR_EINDEX,
                "dimension 1 with size 3");
    CHECK_ERROR(cr_index_get(e, &self, (cr_index[]){ ALL, ALL, ALL }, 3, &result), CR_EINDEX,
                "too many indices for tensor of dimension 2");
    CHECK_ERROR(cr_index_get(e, &self, (cr_index[]){ cr_index_slice(0, 2, -1) }, 1, &result), CR_EVALUE,
                "greater than zero");
    CHECK_ERROR(cr_index_get(e, &scalar, (cr_index[]){ cr_index_int(0) }, 1, &result), CR_EINDEX, ".item()");
    CHECK_ERROR(cr_index_get(e, &scalar, (cr_index[]){ ALL }, 1, &result), CR_EINDEX, "0-d");
    cr_arg number = cr_arg_int(1);
    CHECK_ERROR(cr_index_get(e, &number, (cr_index[]){ ALL }, 1, &result), CR_ETYPE, "only tensors");
    cr_tensor_release(x);
    cr_tensor_release(zero);
}

static void check_set(cr_tensor *x, const cr_index *items, size_t n, cr_arg value, const char *ops) {
    logger l;
    logger_init(&l);
    cr_arg self = cr_arg_tensor(x);
    CHECK_OK(cr_index_set(&l.emitter, &self, items, n, &value));
    CHECK_STR(cr_str_get(&l.text), ops);
    cr_str_dispose(&l.text);
}

static void writes(void) {
    cr_tensor *x = numbers(2, (int64_t[]){ 2, 3 }, CR_I64), *row = numbers(2, (int64_t[]){ 1, 3 }, CR_I64),
              *one = numbers(0, NULL, CR_I64), *two = numbers(1, (int64_t[]){ 2 }, CR_I64);
    check_set(x, (cr_index[]){ cr_index_int(0) }, 1, cr_arg_int(7), "select fill_");
    check_set(x, (cr_index[]){ cr_index_int(1) }, 1, cr_arg_tensor(row), "select view copy_");
    check_set(x, (cr_index[]){ cr_index_ellipsis() }, 1, cr_arg_tensor(row), "copy_");
    check_set(x, (cr_index[]){ cr_index_int(1) }, 1, cr_arg_tensor(one), "select fill_");
    check_set(x, (cr_index[]){ cr_index_int(0), cr_index_int(2) }, 2, cr_arg_tensor(one), "select select copy_");
    check_set(x, (cr_index[]){ cr_index_tensor(cr_arg_tensor(two)) }, 1, cr_arg_int(5), "scalar_tensor index_put_");
    check_set(x, (cr_index[]){ cr_index_tensor(cr_arg_tensor(two)) }, 1, cr_arg_tensor(row), "view index_put_");
    rt_scalar s;
    CHECK_OK(cr_tensor_item(x, (int64_t[]){ 1, 2 }, &s));
    CHECK_EQ(s.i, 2);
    cr_tensor_release(x);
    cr_tensor_release(row);
    cr_tensor_release(one);
    cr_tensor_release(two);
}

static void symbolic(void) {
    cr_env *env = NULL;
    CHECK_OK(cr_env_create(&env));
    cr_meta m;
    cr_meta_init(&m, CR_F32, (cr_device){ CR_CPU, -1 });
    cr_dim size[] = { cr_dim_of(env, cr_sym_symbol(env, "s0", CR_TYPE_INT, 2, INT64_MAX)), 4 };
    CHECK_OK(cr_meta_set_dense(env, &m, 2, size, CR_CONTIGUOUS));
    cr_tensor *x = NULL, *mask = NULL;
    CHECK_OK(cr_tensor_create_fake(env, &m, &x));
    cr_ambient_get()->mode.env = env;
    GET(x, "select", "[4]", cr_index_int(1));
    GET(x, "slice", "[s0 - 1, 4]", cr_index_slice(1, INT64_MAX, 1));
    GET(x, "select", "[s0]", ALL, cr_index_int(0));
    GET(x, "unsqueeze", "[1, s0, 4]", cr_index_newaxis());
    m.dtype = CR_BOOL;
    CHECK_OK(cr_tensor_create_fake(env, &m, &mask));
    GET(x, "index", "[u0]", cr_index_tensor(cr_arg_tensor(mask)));
    cr_ambient_get()->mode.env = NULL;
    cr_tensor_release(x);
    cr_tensor_release(mask);
    cr_env_release(env);
}

static cr_status get_and_set(void *arg) {
    cr_tensor **t = arg;
    cr_arg self = cr_arg_tensor(t[0]), result, value = cr_arg_int(3);
    cr_index items[] = { cr_index_bool(true), cr_index_int(0), cr_index_tensor(cr_arg_tensor(t[1])) };
    CR_TRY(cr_index_get(cr_exec_emitter(), &self, items, 3, &result));
    cr_results_release(&result, 1);
    return cr_index_set(cr_exec_emitter(), &self, items, 3, &value);
}

static void memory_runs_out(void) {
    cr_tensor *t[] = { numbers(3, (int64_t[]){ 2, 3, 4 }, CR_I64), numbers(1, (int64_t[]){ 2 }, CR_I64) };
    CHECK_OK(get_and_set(t)); /* what is built on first use is built now */
    cr_error_release(cr_error_take());
    CHECK_OOM_SWEEP(get_and_set, t);
    cr_tensor_release(t[0]);
    cr_tensor_release(t[1]);
}

int main(void) {
    RUN(views);
    RUN(tensors);
    RUN(errors);
    RUN(writes);
    RUN(symbolic);
    RUN(memory_runs_out);
    return check_summary();
}
