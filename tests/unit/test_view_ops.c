/* Views, copies and factories through the call path: memory safety, aliasing, failures, symbolic sizes. That values
 * equal PyTorch's is the business of tests/ops. */
#include "check.h"
#include "ops/view.h"

static cr_tensor *range(int64_t n) {
    cr_arg end = cr_arg_int(n);
    cr_tensor *t = NULL;
    CHECK_OK(cr_call_1("aten::arange", &end, 1, &t));
    return t;
}

static cr_arg ints(cr_arg *items, int n, const int64_t *values) {
    for (int i = 0; i < n; i++) items[i] = cr_arg_int(values[i]);
    return cr_arg_list(items, (size_t)n);
}
#define INTS(...)                                                                                                      \
    ints((cr_arg[16]){ { 0 } }, (int)(sizeof(int64_t[]){ __VA_ARGS__ } / sizeof(int64_t)), (int64_t[]){ __VA_ARGS__ })

/* Row-major elements as text; consumes the tensor. */
static void check_values(cr_tensor *t, const char *want) {
    if (!t) return;
    cr_str text;
    cr_str_init(&text);
    const cr_meta *m = &t->meta;
    int64_t index[CR_MAX_RANK] = { 0 }, n = cr_meta_numel(NULL, m);
    for (int64_t k = 0; k < n; k++) {
        rt_scalar s;
        CHECK_OK(cr_tensor_item(t, index, &s));
        cr_str_addf(&text, "%s%g", k ? " " : "", s.kind == RT_ARG_INT ? (double)s.i : s.f);
        for (int d = m->rank - 1; d >= 0 && ++index[d] == m->size[d]; d--) index[d] = 0;
    }
    CHECK_STR(cr_str_get(&text), want);
    cr_str_dispose(&text);
    cr_tensor_release(t);
}

static cr_tensor *call(const char *name, const cr_arg *args, size_t n) {
    cr_tensor *out = NULL;
    CHECK_OK(cr_call_1(name, args, n, &out));
    return out;
}
#define CALL(name, ...) call(name, (cr_arg[]){ __VA_ARGS__ }, sizeof((cr_arg[]){ __VA_ARGS__ }) / sizeof(cr_arg))
#define T(t) cr_arg_tensor(t)
#define I(i) cr_arg_int(i)

static void aliasing(void) {
    int64_t live = cr_alloc_live();
    cr_tensor *base = range(12), *a = CALL("aten::view", T(base), INTS(3, 4)),
              *b = CALL("aten::transpose.int", T(a), I(0), I(1));
    CHECK(a->storage == base->storage && b->storage == base->storage && b->base == base);
    cr_tensor *c = CALL("aten::reshape", T(b), INTS(12));
    CHECK(c->storage != base->storage);
    check_values(c, "0 4 8 1 5 9 2 6 10 3 7 11");
    cr_tensor *d = CALL("aten::contiguous", T(a));
    CHECK(d == a);
    cr_tensor_release(d);
    cr_tensor *row = CALL("aten::select.int", T(a), I(0), I(-1));
    cr_tensor_release(CALL("aten::zero_", T(row)));
    CHECK_EQ(cr_tensor_version(base), 1);
    cr_tensor_release(row);
    check_values(CALL("aten::slice.Tensor", T(a), I(1), I(1), I(4), I(2)), "1 3 5 7 0 0");
    cr_tensor_release(a);
    cr_tensor_release(b);
    cr_tensor_release(base);
    cr_error_release(cr_error_take());
    CHECK_EQ(cr_alloc_live(), live);
}

static void parts(void) {
    cr_tensor *base = range(6), *m = CALL("aten::view", T(base), INTS(2, 3)), *ten = CALL("aten::full", INTS(2), I(10));
    check_values(CALL("aten::select_scatter", T(m), T(ten), I(1), I(2)), "0 1 10 3 4 10");
    check_values(CALL("aten::diagonal_scatter", T(m), T(ten)), "10 1 2 3 10 5");
    check_values(CALL("aten::slice_scatter", T(base), T(ten), I(0), I(1), I(5), I(2)), "0 10 2 10 4 5");
    check_values(CALL("aten::as_strided_scatter", T(base), T(ten), INTS(2), INTS(3), I(2)), "0 1 10 3 4 10");
    cr_tensor *windows = CALL("aten::unfold", T(base), I(0), I(3), I(1));
    check_values(CALL("aten::unfold_backward", T(windows), INTS(6), I(0), I(3), I(1)), "0 2 6 9 8 5");
    check_values(CALL("aten::select_backward", T(ten), INTS(2, 2), I(0), I(1)), "0 0 10 10");
    cr_tensor_release(windows);
    cr_tensor_release(ten);
    cr_tensor_release(m);
    cr_tensor_release(base);
}

static void factories(void) {
    check_values(CALL("aten::arange.start_step", I(7), I(0), I(-3)), "7 4 1");
    check_values(CALL("aten::linspace", I(0), I(1), I(5)), "0 0.25 0.5 0.75 1");
    check_values(CALL("aten::eye.m", I(2), I(3)), "1 0 0 0 1 0");
    check_values(CALL("aten::tril_indices", I(3), I(2), I(-1)), "1 2 2 0 0 1");
    check_values(CALL("aten::zeros", INTS(0, 3)), "");
    cr_tensor *t = NULL;
    cr_arg bad[] = { INTS(-1) };
    CHECK_ERROR(cr_call_1("aten::zeros", bad, 1, &t), CR_ERUNTIME, "negative");
    cr_arg huge[] = { INTS(INT64_C(1) << 40, INT64_C(1) << 40) };
    CHECK_ERROR(cr_call_1("aten::zeros", huge, 1, &t), CR_ERUNTIME, "bytes");
    cr_arg zero_step[] = { I(0), I(3), I(0) };
    CHECK_ERROR(cr_call_1("aten::arange.start_step", zero_step, 3, &t), CR_ERUNTIME, "step");
}

/* Shifting a tensor by one inside its own memory: dense parts that overlap are refused, strided ones read first. */
static void overlapping_copies(void) {
    cr_tensor *base = range(6), *out = NULL;
    cr_tensor *head = CALL("aten::slice.Tensor", T(base), I(0), I(0), I(5)),
              *tail = CALL("aten::slice.Tensor", T(base), I(0), I(1), I(6));
    cr_arg shift[] = { T(tail), T(head) };
    CHECK_ERROR(cr_call_1("aten::copy_", shift, 2, &out), CR_ERUNTIME, "single memory location");
    cr_tensor *even = CALL("aten::slice.Tensor", T(base), I(0), I(0), I(4), I(2)),
              *later = CALL("aten::slice.Tensor", T(base), I(0), I(2), I(6), I(2));
    cr_tensor_release(CALL("aten::copy_", T(later), T(even)));
    check_values(CALL("aten::clone", T(base)), "0 1 0 3 2 5");
    cr_tensor *wide = CALL("aten::expand", T(even), INTS(3, 2));
    cr_arg write[] = { T(wide), T(even) };
    CHECK_ERROR(cr_call_1("aten::copy_", write, 2, &out), CR_ERUNTIME, "expanded");
    cr_tensor_release(CALL("aten::fill_.Scalar", T(wide), I(9)));
    check_values(CALL("aten::clone", T(base)), "9 1 9 3 2 5");
    cr_tensor *all[] = { base, head, tail, even, later, wide };
    for (size_t i = 0; i < CR_COUNT(all); i++) cr_tensor_release(all[i]);
}

static void metadata(void) {
    cr_tensor *t = range(6);
    cr_tensor_release(CALL("aten::resize_", T(t), INTS(2, 2)));
    CHECK_EQ(t->meta.rank, 2);
    cr_tensor_release(CALL("aten::resize_", T(t), INTS(100)));
    CHECK(t->storage->bytes >= 800);
    CHECK_EQ(*(int64_t *)t->storage->data, 0);
    cr_tensor *other = range(4);
    cr_tensor_release(CALL("aten::set_.source_Tensor", T(t), T(other)));
    CHECK(t->storage == other->storage);
    cr_tensor *out = NULL;
    cr_arg beyond[] = { T(t), T(other), I(2), INTS(3) };
    CHECK_ERROR(cr_call_1("aten::set_.source_Tensor_storage_offset", beyond, 4, &out), CR_ERUNTIME, "storage of 32");
    cr_arg strided[] = { T(t), INTS(5), INTS(1) };
    CHECK_ERROR(cr_call_1("aten::as_strided", strided, 3, &out), CR_ERUNTIME, "storage of 32");
    cr_tensor_release(t);
    cr_tensor_release(other);
}

/* One symbolic run stands for all sizes: [s0, 12] -> flatten -> [12*s0] -> view -> [s0, 3, 4] -> transpose, without a
 * guard. */
static void symbolic(void) {
    cr_env *env;
    CHECK_OK(cr_env_create(&env));
    cr_sym s = cr_sym_symbol(env, "s0", CR_TYPE_INT, 2, INT64_MAX);
    CHECK_OK(cr_env_set_hint(env, s, 5));
    cr_dim s0 = cr_dim_of(env, s);
    cr_meta meta;
    cr_tensor *x = NULL;
    cr_meta_init(&meta, CR_F32, (cr_device){ CR_CPU, -1 });
    CHECK_OK(cr_meta_set_dense(env, &meta, 2, (cr_dim[]){ s0, 12 }, CR_CONTIGUOUS));
    CHECK_OK(cr_tensor_create_fake(env, &meta, &x));
    cr_tensor *flat = CALL("aten::flatten.using_ints", T(x));
    CHECK_EQ(flat->meta.size[0], cr_dim_mul(env, s0, 12));
    cr_tensor *cube = CALL("aten::view", T(flat), INTS(-1, 3, 4));
    CHECK_EQ(cube->meta.size[0], s0);
    cr_tensor *turned = CALL("aten::transpose.int", T(cube), I(0), I(2));
    CHECK_EQ(turned->meta.size[2], s0);
    CHECK(turned->storage == x->storage && turned->env == env);
    cr_tensor *copied = CALL("aten::clone", T(turned));
    CHECK_EQ(copied->meta.stride[2], 12);
    CHECK(copied->storage != x->storage);
    CHECK_EQ(cr_env_cond_count(env), 0);
    cr_tensor *all[] = { x, flat, cube, turned, copied };
    for (size_t i = 0; i < CR_COUNT(all); i++) cr_tensor_release(all[i]);
    cr_env_release(env);
}

static cr_status many_steps(void *arg) {
    const cr_op *split = cr_op_find("aten::split.Tensor");
    cr_tensor *flat = NULL, *copy = NULL;
    cr_arg parts[1] = { { 0 } };
    cr_arg turn[] = { T(arg), INTS(1, 0) }, dense[] = { cr_arg_none(), INTS(-1) };
    cr_tensor *turned = NULL;
    cr_status status;
    CR_TRY_OUT(cr_call_1("aten::permute", turn, 2, &turned));
    dense[0] = T(turned);
    CR_TRY_OUT(cr_call_1("aten::reshape", dense, 2, &flat));
    cr_arg cut[] = { T(flat), I(3), I(0) };
    CR_TRY_OUT(cr_call(split, cut, parts));
    cr_arg whole = T(turned);
    CR_TRY_OUT(cr_call_1("aten::clone", &whole, 1, &copy));
out:
    cr_results_release(parts, 1);
    cr_tensor_release(copy);
    cr_tensor_release(flat);
    cr_tensor_release(turned);
    return status;
}

/* ---- views as steps ---- */

typedef struct step_case { const char *op; uint32_t result; cr_arg more[4]; } step_case;

static cr_tensor *result_of(const cr_op *op, const cr_arg *args, uint32_t at) {
    cr_arg results[4] = { { 0 } };
    CHECK_OK(cr_call(op, args, results));
    cr_tensor *t = results[0].kind == CR_ARG_LIST ? results[0].u.list[at].u.t : results[0].u.t;
    cr_tensor_retain(t);
    cr_results_release(results, op->schema.nreturns);
    return t;
}

static bool is_equal(cr_tensor *a, cr_tensor *b) {
    cr_arg args[] = { T(a), T(b) }, result = cr_arg_none();
    CHECK_OK(cr_call(cr_op_find("aten::equal"), args, &result));
    return result.u.i;
}

/* Writing through a view, and putting back what was written, are the same: whatever kind of view, and both ways. */
static void undo_one(const step_case *c) {
    const cr_op *op = cr_op_find(c->op);
    cr_tensor *numbers = range(24), *base = CALL("aten::view", T(numbers), INTS(2, 3, 4));
    cr_tensor *whole = CALL("aten::clone", T(base));
    cr_arg args[CR_MAX_PARAMS] = { T(whole) };
    for (uint16_t i = 1; i < op->schema.nparams; i++) {
        bool given = i <= CR_COUNT(c->more) && c->more[i - 1].kind != CR_ARG_NONE;
        args[i] = given ? c->more[i - 1] : op->schema.params[i].fallback;
    }
    cr_tensor *view = result_of(op, args, c->result), *contents = CALL("aten::mul.Scalar", T(view), I(-1));
    cr_tensor *before[4] = { NULL };
    const cr_meta *parts[4];
    for (uint32_t i = 0; i < c->result; i++) parts[i] = &(before[i] = result_of(op, args, i))->meta;
    cr_view_step step = { op, args, &whole->meta, &view->meta, c->result, parts };
    cr_arg from = T(base), part = T(contents), out = cr_arg_none();
    cr_tensor_release(CALL("aten::copy_", T(view), T(contents)));
    CHECK(cr_view_can_undo(NULL, &step));
    for (int flags = 0; flags <= CR_UNDO_NAMED; flags++) {
        CHECK_OK(cr_view_undo(cr_exec_emitter(), &step, flags, &from, &part, &out));
        CHECK(is_equal(out.u.t, whole));
        if (out.u.t != contents) cr_tensor_release(out.u.t);
    }
    CHECK_OK(cr_view_take(cr_exec_emitter(), &step, &(cr_arg){ .kind = CR_ARG_TENSOR, .u.t = whole }, &out));
    CHECK(is_equal(out.u.t, contents));
    cr_tensor *all[] = { numbers, base, whole, view, contents, out.u.t, before[0], before[1], before[2], before[3] };
    for (size_t i = 0; i < CR_COUNT(all); i++) cr_tensor_release(all[i]);
}

static void views_are_undone(void) {
    const step_case cases[] = {
        { "aten::alias", 0, { { 0 } } }, { "aten::contiguous", 0, { { 0 } } },
        { "aten::view", 0, { INTS(6, 4) } }, { "aten::flatten.using_ints", 0, { I(1) } },
        { "aten::ravel", 0, { { 0 } } },
        { "aten::unsqueeze", 0, { I(1) } }, { "aten::squeeze.dim", 0, { I(1) } }, { "aten::atleast_3d", 0, { { 0 } } },
        { "aten::permute", 0, { INTS(2, 0, 1) } }, { "aten::transpose.int", 0, { I(0), I(-1) } },
        { "aten::mT", 0, { { 0 } } }, { "aten::numpy_T", 0, { { 0 } } }, { "aten::movedim.int", 0, { I(0), I(2) } },
        { "aten::swapaxes", 0, { I(1), I(2) } }, { "aten::slice.Tensor", 0, { I(2), I(1), I(4), I(2) } },
        { "aten::select.int", 0, { I(1), I(-1) } }, { "aten::diagonal", 0, { I(1), I(0), I(2) } },
        { "aten::split.Tensor", 1, { I(3), I(2) } }, { "aten::split_with_sizes", 2, { INTS(1, 1, 2), I(2) } },
        { "aten::tensor_split.sections", 1, { I(3), I(2) } }, { "aten::chunk", 1, { I(2), I(-1) } },
        { "aten::unbind.int", 2, { I(1) } }, { "aten::expand", 0, { INTS(2, 3, 4) } },
    };
    for (size_t i = 0; i < CR_COUNT(cases); i++) undo_one(&cases[i]); /* and programs that are made once */
    int64_t live = cr_alloc_live();
    for (size_t i = 0; i < CR_COUNT(cases); i++) undo_one(&cases[i]);
    CHECK_EQ(cr_alloc_live(), live);
}

static void views_that_stay(void) {
    cr_tensor *base = range(12), *windows = CALL("aten::unfold", T(base), I(0), I(3), I(1));
    cr_tensor *wide = CALL("aten::expand", T(base), INTS(2, 12));
    cr_view_step overlapping = { .op = cr_op_find("aten::unfold"), .from = &base->meta, .to = &windows->meta };
    cr_view_step repeated = { .op = cr_op_find("aten::expand"), .from = &base->meta, .to = &wide->meta };
    CHECK(!cr_view_can_undo(NULL, &overlapping) && !cr_view_can_undo(NULL, &repeated));
    cr_tensor_release(base);
    cr_tensor_release(windows);
    cr_tensor_release(wide);
}

/* What one column of a row says must fit the others. */
static void rows_say_one_thing(void) {
    int views = 0;
    for (size_t i = 0; i < cr_op_count(); i++) {
        const cr_op *op = cr_op_at(i);
        if (op->variant != CR_FUNCTIONAL) CHECK_EQ(cr_op_view(op), CR_VIEW_NONE);
        if (op->variant != CR_FUNCTIONAL || !op->row->view) continue;
        views++;
        bool shares = (op->tags & (CR_TAG_VIEW | CR_TAG_SHARES)) || op->schema.returns[0].alias;
        CHECK(shares && op->schema.params[0].type == CR_T_TENSOR);
        if (op->row->undo) CHECK(cr_op_find(op->row->undo) != NULL);
        if (op->tags & CR_TAG_PLAIN_VIEW) CHECK(op->tags & CR_TAG_VIEW);
    }
    CHECK(views > 40);
}

/* Positions that a row names are those of arguments of the right type. */
static void rows_name_their_arguments(void) {
    int reductions = 0, products = 0;
    for (size_t i = 0; i < cr_op_count(); i++) {
        const cr_op *op = cr_op_at(i);
        const cr_row *f = cr_op_facts(op);
        const cr_param *p = op->schema.params;
        if (f->reduce.dim) CHECK(f->reduce.dim < op->schema.nparams && p[f->reduce.dim].type == CR_T_INT);
        if (f->reduce.keepdim) CHECK(!strcmp(p[f->reduce.keepdim].name, "keepdim"));
        if (f->fill >= CR_FILL_FROM) CHECK_EQ(p[f->fill - CR_FILL_FROM].type, CR_T_SCALAR);
        if (f->functional) {
            const cr_op *other = cr_op_find(f->functional);
            CHECK(other && other->schema.nreturns > op->schema.nreturns && other->schema.nparams == op->schema.nparams);
        }
        if (f->check) CHECK((op->tags & CR_TAG_ASSERT) && !op->schema.nreturns);
        if (f->act) CHECK(f->scalar != NULL);
        reductions += f->reduce.kind != CR_REDUCE_NONE;
        if (!f->product.left) continue;
        products++;
        CHECK(p[f->product.left - 1].type == CR_T_TENSOR && p[f->product.right - 1].type == CR_T_TENSOR);
        if (f->product.beta) CHECK_STR(p[f->product.beta - 1].name, "beta");
        if (f->product.beta) CHECK_STR(p[f->product.beta].name, "alpha");
    }
    CHECK(reductions >= 12 && products >= 5);
}

static void out_of_memory(void) {
    cr_tensor *t = CALL("aten::zeros", INTS(60, 10));
    cr_error_release(cr_error_take());
    CHECK_OOM_SWEEP(many_steps, t);
    cr_tensor_release(t);
}

int main(void) {
    CHECK_OK(cr_ops_init());
    RUN(aliasing);
    RUN(parts);
    RUN(factories);
    RUN(overlapping_copies);
    RUN(metadata);
    RUN(symbolic);
    RUN(views_are_undone);
    RUN(views_that_stay);
    RUN(rows_say_one_thing);
    RUN(rows_name_their_arguments);
    RUN(out_of_memory);
    return check_summary();
}
