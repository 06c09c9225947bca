/* region.c: ops with subgraphs: cond, while_loop, map, scan, associative_scan, and regions that only mark their body.
 *
 * A region runs its bodies as plans, on real tensors or on fake ones; what a fake run cannot know (which branch, how
 * often) is settled by running each body once and merging what comes out. Results never share memory with operands or
 * with each other, whichever path was taken, except those of marking regions, which are their body's. */
#include "graph/host.h"
#include "graph/internal.h"

#include <pthread.h>

typedef struct body { cr_plan *plan; const char *name; size_t n; } body; /* n: results */
typedef CR_VEC(cr_arg) args;

static cr_status body_open(const cr_op *op, const cr_arg *graphs, int param, body *out) {
    const cr_arg *a = &graphs[param];
    if (a->kind != CR_ARG_GRAPH)
        return CR_FAIL(CR_ETYPE, "argument '%s' must be a graph", op->schema.params[param].name);
    out->name = op->schema.params[param].name;
    CR_TRY(cr__plan_of(a->u.graph, &out->plan));
    out->n = cr_plan_result_count(out->plan);
    return CR_OK;
}

static void body_close(body *b) { cr_plan_release(b->plan); }

static cr_env *env_of(const args *inputs, cr_env *otherwise) {
    for (size_t i = 0; i < inputs->n; i++)
        if (inputs->at[i].kind == CR_ARG_TENSOR && inputs->at[i].u.t->env) return inputs->at[i].u.t->env;
    return otherwise ? otherwise : cr_ambient_get()->mode.env;
}

static bool any_fake(const args *inputs) {
    for (size_t i = 0; i < inputs->n; i++)
        if (inputs->at[i].kind == CR_ARG_TENSOR && cr_tensor_is_fake(inputs->at[i].u.t)) return true;
    return cr_ambient_get()->mode.fake;
}

/* results: owned; a fresh list of b->n arguments, each a tensor, a number or none. */
static cr_status body_run(const body *b, const args *inputs, cr_arg *results) {
    cr_arg *list = cr_calloc(b->n + 1, sizeof *list);
    if (!list) return CR_ENOMEM;
    bool done = false;
    cr_env *env = any_fake(inputs) ? env_of(inputs, NULL) : NULL;
    cr_status status = env ? cr__body_infer(b->plan, env, inputs->at, inputs->n, list, &done) : CR_OK;
    if (!status && !done) status = cr_plan_run(b->plan, inputs->at, inputs->n, list, b->n);
    if (status) {
        cr_free(list);
        return cr_error_context(status, "%s", b->name);
    }
    *results = cr_arg_list(list, b->n);
    for (size_t i = 0; i < b->n; i++)
        if (list[i].kind == CR_ARG_LIST) {
            cr_results_release(results, 1);
            return CR_FAIL(CR_EVALUE, "result %zu of %s is a list; a body returns tensors and numbers side by side", i,
                           b->name);
        }
    return CR_OK;
}

static cr_status args_add(args *to, const cr_arg *list) {
    for (uint32_t i = 0; list->kind == CR_ARG_LIST && i < list->n; i++) CR_TRY(cr_vec_push(to, list->u.list[i]));
    return CR_OK;
}

/* ---- tensors ---- */

static cr_status make_tensor(cr_env *env, const cr_meta *meta, bool fake, cr_tensor **out) {
    return fake ? cr_tensor_create_fake(env, meta, out) : cr_tensor_create(meta, out);
}

static cr_status copy_data(cr_tensor *to, const cr_tensor *from) {
    char message[128] = "";
    rt_ctx ctx = cr_kernel_ctx(message, sizeof message);
    rt_view dst = cr_tensor_view(to), src = cr_tensor_view(from);
    int code = rt_copy(&ctx, &dst, &src);
    return !code               ? CR_OK
           : code == RT_ENOMEM ? CR_FAIL(CR_ENOMEM, "out of memory")
                               : CR_FAIL(CR_ERUNTIME, "copying a result: %s", message);
}

/* Would a call on the tensor be recorded by the tape? What a region does itself then goes by ops. */
static bool is_taped(const cr_tensor *t) {
    return cr_ambient_get()->grad && !cr_tensor_is_fake(t) && cr_tensor_requires_grad(t);
}

static cr_status clone(cr_tensor *t, cr_tensor **out) {
    cr_meta meta;
    if (is_taped(t)) return cr_call_1("aten::clone", (cr_arg[]){ cr_arg_tensor(t) }, 1, out);
    cr_meta_copy(&meta, &t->meta);
    meta.offset = 0;
    meta.flags &= CR_META_CONJ | CR_META_NEG; /* copied as they lie */
    cr_layout_like(t->env, &t->meta, &meta);
    CR_TRY(make_tensor(t->env, &meta, cr_tensor_is_fake(t), out));
    cr_status status = cr_tensor_is_fake(t) ? CR_OK : copy_data(*out, t);
    if (status) cr_tensor_release(*out);
    return status;
}

static bool shares(const cr_tensor *t, const cr_arg *list, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (list[i].kind == CR_ARG_TENSOR && list[i].u.t->storage == t->storage) return true;
    return false;
}

/* Clones results that share memory with an operand or an earlier result. */
static cr_status separate(cr_arg *results, const args *inputs) {
    cr_arg *list = (cr_arg *)results->u.list; /* owned */
    for (uint32_t i = 0; i < results->n; i++) {
        if (list[i].kind != CR_ARG_TENSOR) continue;
        if (!shares(list[i].u.t, inputs->at, inputs->n) && !shares(list[i].u.t, list, i)) continue;
        cr_tensor *copy = NULL;
        CR_TRY(clone(list[i].u.t, &copy));
        cr_tensor_release(list[i].u.t);
        list[i].u.t = copy;
    }
    return CR_OK;
}

/* Slice i of dimension 0; a view. */
static cr_status slice(cr_tensor *t, int64_t i, cr_tensor **out) {
    cr_meta meta;
    if (is_taped(t))
        return cr_call_1("aten::select.int", (cr_arg[]){ cr_arg_tensor(t), cr_arg_int(0), cr_arg_int(i) }, 3, out);
    cr_meta_copy(&meta, &t->meta);
    meta.rank--;
    memmove(meta.size, meta.size + 1, meta.rank * sizeof *meta.size);
    memmove(meta.stride, meta.stride + 1, meta.rank * sizeof *meta.stride);
    meta.offset = cr_dim_add(t->env, meta.offset, cr_dim_mul(t->env, i, t->meta.stride[0]));
    return cr_tensor_on(t->storage, &meta, t, t->env, out);
}

/* A dense tensor of n slices like `t`. */
static cr_status stack_for(cr_env *env, const cr_tensor *t, cr_dim n, cr_tensor **out) {
    cr_meta meta;
    cr_dim size[CR_MAX_RANK];
    if (t->meta.rank == CR_MAX_RANK) return CR_FAIL(CR_ERUNTIME, "a tensor has at most %d dimensions", CR_MAX_RANK);
    cr_meta_init(&meta, t->meta.dtype, t->meta.device);
    size[0] = n;
    memcpy(size + 1, t->meta.size, t->meta.rank * sizeof *size);
    CR_TRY(cr_meta_set_dense(env, &meta, t->meta.rank + 1, size, CR_CONTIGUOUS));
    return make_tensor(env, &meta, cr_tensor_is_fake(t), out);
}

/* ---- conditions ---- */

/* A condition as a number, a symbol or a tensor of one element. CR_UNKNOWN: only a run on data can tell. */
static cr_status truth_of(cr_env *env, const cr_arg *a, cr_tri *out) {
    if (a->kind == CR_ARG_SYM) return *out = cr_sym_truth(env, a->u.sym), CR_OK;
    if (a->kind == CR_ARG_INT && !cr_dim_is_plain(a->u.i)) return *out = cr_dim_known(env, a->u.i, CR_NE, 0), CR_OK;
    if (a->kind == CR_ARG_BOOL || a->kind == CR_ARG_INT) return *out = a->u.i ? CR_YES : CR_NO, CR_OK;
    if (a->kind != CR_ARG_TENSOR) return CR_FAIL(CR_ETYPE, "the condition must be a bool or a tensor of one element");
    const cr_tensor *t = a->u.t;
    cr_dim n = cr_meta_numel(t->env, &t->meta);
    if (cr_dim_known(t->env, n, CR_EQ, 1) == CR_NO)
        return CR_FAIL(CR_ERUNTIME, "the condition must have one element, not %lld", (long long)n);
    if (cr_tensor_is_fake(t)) return *out = CR_UNKNOWN, CR_OK;
    rt_scalar value;
    int64_t index[CR_MAX_RANK] = { 0 };
    CR_TRY(cr_tensor_item(t, index, &value));
    *out = (value.kind == RT_ARG_INT ? value.i != 0 : value.f != 0 || value.im != 0) ? CR_YES : CR_NO;
    return CR_OK;
}

/* ---- merging what two ways give ---- */

/* loop: sizes stay as they are */
typedef struct merge { cr_env *env; const char *first, *second; uint32_t result; bool loop; } merge;

static void describe(const merge *m, const cr_arg *a, cr_str *out) {
    if (a->kind == CR_ARG_TENSOR) cr_meta_print(m->env, &a->u.t->meta, out);
    else cr_arg_print(m->env, a, out);
}

static cr_status differ(const merge *m, const cr_arg *a, const cr_arg *b) {
    cr_str x, y;
    cr_str_init(&x);
    cr_str_init(&y);
    describe(m, a, &x);
    describe(m, b, &y);
    cr_status status = CR_FAIL(CR_ERUNTIME, "result %u is %s %s and %s %s; make them alike", m->result, cr_str_get(&x),
                               m->first, cr_str_get(&y), m->second);
    cr_str_dispose(&x);
    cr_str_dispose(&y);
    return status;
}

/* A number that is one of both ways': the one that stood there when a pass makes the call again, or a fresh one. */
static cr_dim either(cr_env *env, cr_dim a, cr_dim b) {
    cr_range x = cr_sym_range(env, cr_dim_sym(env, a)), y = cr_sym_range(env, cr_dim_sym(env, b));
    cr_sym known = cr__known_symbol(CR_TYPE_INT);
    return cr_dim_of(env, known ? known : cr_sym_unbacked(env, CR_MIN(x.lo, y.lo), CR_MAX(x.hi, y.hi)));
}

/* One size for both ways: the same, or a fresh unbacked one. */
static cr_status merge_dim(const merge *m, cr_dim a, cr_dim b, cr_dim *out, bool *alike) {
    *out = a;
    if (cr_dim_known(m->env, a, CR_EQ, b) == CR_YES) return CR_OK;
    *alike = !m->loop;
    if (!*alike) return CR_OK;
    *out = either(m->env, a, b);
    return *out == CR_DIM_OVERFLOW ? cr__env_status(m->env) : CR_OK;
}

/* Are the dimensions of both laid out in one order? What is not known counts as alike. */
static bool same_order(const merge *m, const cr_meta *x, const cr_meta *y) {
    for (int d = 0; d < x->rank; d++)
        for (int e = 0; e < d; e++) {
            if (cr_dim_known(m->env, x->size[d], CR_EQ, 1) == CR_YES ||
                cr_dim_known(m->env, x->size[e], CR_EQ, 1) == CR_YES)
                continue;
            if (cr_dim_known(m->env, y->size[d], CR_EQ, 1) == CR_YES ||
                cr_dim_known(m->env, y->size[e], CR_EQ, 1) == CR_YES)
                continue;
            bool before = cr_dim_known(m->env, x->stride[e], CR_GT, x->stride[d]) == CR_YES &&
                          cr_dim_known(m->env, y->stride[e], CR_LT, y->stride[d]) == CR_YES;
            bool after = cr_dim_known(m->env, x->stride[e], CR_LT, x->stride[d]) == CR_YES &&
                         cr_dim_known(m->env, y->stride[e], CR_GT, y->stride[d]) == CR_YES;
            if (before || after) return false;
        }
    return true;
}

/* Row-major, or in the order of x's strides where they are known. */
static void lay_out(const merge *m, const cr_meta *x, cr_meta *out) {
    int order[CR_MAX_RANK];
    for (int d = 0; d < x->rank; d++) {
        int at = d;
        while (at && cr_dim_known(m->env, x->stride[order[at - 1]], CR_LT, x->stride[d]) == CR_YES)
            order[at] = order[at - 1], at--;
        order[at] = d;
    }
    cr_strides_permuted(m->env, x->rank, out->size, order, out->stride);
}

static cr_status merge_tensors(const merge *m, const cr_arg *a, const cr_arg *b, cr_arg *out) {
    const cr_meta *x = &a->u.t->meta, *y = &b->u.t->meta;
    cr_meta meta;
    cr_dim size[CR_MAX_RANK];
    bool alike = x->dtype == y->dtype && x->rank == y->rank && x->device.type == y->device.type, strides = true;
    for (int d = 0; alike && d < x->rank; d++) CR_TRY(merge_dim(m, x->size[d], y->size[d], &size[d], &alike));
    if (!alike || !same_order(m, x, y)) return differ(m, a, b);
    for (int d = 0; d < x->rank; d++)
        strides &= size[d] == x->size[d] && cr_dim_known(m->env, x->stride[d], CR_EQ, y->stride[d]) == CR_YES;
    cr_meta_init(&meta, x->dtype, x->device);
    CR_TRY(cr_meta_set_dense(m->env, &meta, x->rank, size, CR_CONTIGUOUS));
    if (strides) memcpy(meta.stride, x->stride, x->rank * sizeof *meta.stride);
    else lay_out(m, x, &meta);
    cr_tensor *t = NULL;
    CR_TRY(cr_tensor_create_fake(m->env, &meta, &t));
    *out = cr_arg_tensor(t);
    return CR_OK;
}

static cr_status merge_numbers(const merge *m, const cr_arg *a, const cr_arg *b, cr_arg *out) {
    bool number = cr_arg_is_number(a) || a->kind == CR_ARG_SYM;
    if (!number || !(cr_arg_is_number(b) || b->kind == CR_ARG_SYM) || cr_arg_number_dtype(a) != cr_arg_number_dtype(b))
        return differ(m, a, b);
    if (cr__arg_equal(a, b) && !m->loop) return *out = *a, CR_OK;
    int dtype = cr_arg_number_dtype(a);
    if (dtype == CR_C128) return differ(m, a, b);
    if (dtype == CR_I64 && !m->loop) {
        *out = cr_arg_int(either(m->env, a->u.i, b->u.i));
        return out->u.i == CR_DIM_OVERFLOW ? cr__env_status(m->env) : CR_OK;
    }
    cr_sym fresh = cr_unknown_number(m->env, dtype == CR_I64 ? CR_T_INT : dtype == CR_BOOL ? CR_T_BOOL : CR_T_FLOAT);
    if (!fresh) return cr__env_status(m->env);
    *out = dtype == CR_I64 ? cr_arg_int(cr_dim_of(m->env, fresh))
                           : (cr_arg){ .kind = CR_ARG_SYM, .given = 1, .u.sym = fresh };
    return CR_OK;
}

/* results: a fresh list for `a` and `b`, both lists of results. */
static cr_status merge_results(merge *m, const cr_arg *a, const cr_arg *b, cr_arg *results) {
    if (a->n != b->n) return CR_FAIL(CR_ERUNTIME, "there are %u results %s and %u %s", a->n, m->first, b->n, m->second);
    cr_arg *list = cr_calloc(a->n + 1u, sizeof *list);
    if (!list) return CR_ENOMEM;
    *results = cr_arg_list(list, a->n);
    for (m->result = 0; m->result < a->n; m->result++) {
        const cr_arg *x = &a->u.list[m->result], *y = &b->u.list[m->result];
        cr_arg *out = &list[m->result];
        cr_status status = CR_OK;
        if (x->kind == CR_ARG_TENSOR && y->kind == CR_ARG_TENSOR) status = merge_tensors(m, x, y, out);
        else if (x->kind != CR_ARG_NONE || y->kind != CR_ARG_NONE) status = merge_numbers(m, x, y, out);
        if (status) return cr_results_release(results, 1), status;
    }
    return CR_OK;
}

/* ---- cond(pred, true_fn, false_fn, operands) ---- */

static cr_status run_both(cr_emitter *e, const cr_op *op, const cr_arg *given, const args *inputs, cr_arg *results) {
    body yes = { 0 }, no = { 0 };
    cr_arg a = cr_arg_none(), b = cr_arg_none();
    merge m = { env_of(inputs, e->env), "in the true branch", "in the false branch", 0, false };
    cr_status status = CR_OK;
    if (!m.env) return CR_FAIL(CR_EDATADEP, "the condition depends on data that a fake tensor does not have");
    CR_TRY_OUT(body_open(op, given, 1, &yes));
    CR_TRY_OUT(body_open(op, given, 2, &no));
    CR_TRY_OUT(body_run(&yes, inputs, &a));
    CR_TRY_OUT(body_run(&no, inputs, &b));
    CR_TRY_OUT(merge_results(&m, &a, &b, results));
out:
    cr_results_release(&a, 1);
    cr_results_release(&b, 1);
    body_close(&yes);
    body_close(&no);
    return status;
}

static cr_status run_one(const cr_op *op, const cr_arg *given, int param, const args *inputs, bool apart,
                         cr_arg *results) {
    body b = { 0 };
    CR_TRY(body_open(op, given, param, &b));
    cr_status status = body_run(&b, inputs, results);
    body_close(&b);
    if (status || !apart) return status;
    status = separate(results, inputs);
    if (status) cr_results_release(results, 1);
    return status;
}

/* Under a fake mode real tensors count as fake: a condition that has data decides nothing there. */
static cr_status expand_cond(cr_emitter *e, const cr_op *op, const cr_arg *given, cr_arg *results) {
    args inputs = { 0 };
    cr_tri truth = CR_UNKNOWN;
    cr_status status = args_add(&inputs, &given[3]);
    if (!status && !(cr_ambient_get()->mode.fake && given[0].kind == CR_ARG_TENSOR))
        status = truth_of(env_of(&inputs, e->env), &given[0], &truth);
    if (!status)
        status = truth == CR_UNKNOWN ? run_both(e, op, given, &inputs, results)
                                     : run_one(op, given, truth == CR_YES ? 1 : 2, &inputs, true, results);
    cr_vec_dispose(&inputs);
    return status;
}

/* ---- while_loop(cond_fn, body_fn, carried_inputs, additional_inputs) ---- */

/* held: owns the carried values after the first step */
typedef struct loop { cr_env *env; body test, step; args inputs; size_t carried; cr_arg held; } loop;

static cr_status loop_test(const loop *l, cr_tri *out) {
    cr_arg results = cr_arg_none();
    CR_TRY(body_run(&l->test, &l->inputs, &results));
    cr_status status = results.n == 1 ? truth_of(l->env, &results.u.list[0], out)
                                      : CR_FAIL(CR_ERUNTIME, "cond_fn gives %u results, not one", results.n);
    cr_results_release(&results, 1);
    return status;
}

static cr_status loop_step(loop *l, cr_arg *results) {
    CR_TRY(body_run(&l->step, &l->inputs, results));
    if (results->n == l->carried) return CR_OK;
    cr_status status = CR_FAIL(CR_ERUNTIME, "body_fn gives %u results for %zu carried inputs", results->n, l->carried);
    cr_results_release(results, 1);
    return status;
}

static cr_status loop_real(loop *l, cr_arg *results, const cr_arg *given) {
    for (;;) {
        cr_tri again = CR_NO;
        CR_TRY(loop_test(l, &again));
        if (again == CR_UNKNOWN)
            return CR_FAIL(CR_EDATADEP, "the condition depends on data that a fake tensor does not have");
        if (again == CR_NO) break;
        cr_arg next = cr_arg_none();
        CR_TRY(loop_step(l, &next));
        cr_results_release(&l->held, 1);
        l->held = next;
        memcpy(l->inputs.at, next.u.list, l->carried * sizeof *l->inputs.at);
    }
    /* what is carried out is the program's: own copies of the list, apart from the operands */
    args operands = { 0 };
    cr_status status = args_add(&operands, &given[2]);
    if (!status) status = args_add(&operands, &given[3]);
    cr_arg *list = status ? NULL : cr_calloc(l->carried + 1, sizeof *list);
    if (!status && !list) status = CR_ENOMEM;
    if (!status) {
        *results = cr_arg_list(list, l->carried);
        for (size_t i = 0; i < l->carried; i++) {
            list[i] = l->inputs.at[i];
            if (list[i].kind == CR_ARG_TENSOR) cr_tensor_retain(list[i].u.t);
        }
        status = separate(results, &operands);
        if (status) cr_results_release(results, 1);
    }
    cr_vec_dispose(&operands);
    return status;
}

/* Numbers that are carried may be anything after some steps: what the body calls them, or fresh symbols. */
static cr_status forget_numbers(const loop *l) {
    for (size_t i = 0; i < l->carried; i++) {
        cr_arg *a = &l->inputs.at[i];
        if ((!cr_arg_is_number(a) && a->kind != CR_ARG_SYM) || a->kind == CR_ARG_COMPLEX) continue;
        int dtype = cr_arg_number_dtype(a);
        cr_sym e = cr__body_number(l->step.plan, l->env, i);
        if (!e) e = cr_unknown_number(l->env, dtype == CR_I64 ? CR_T_INT : dtype == CR_BOOL ? CR_T_BOOL : CR_T_FLOAT);
        if (!e) return cr__env_status(l->env);
        *a = cr_number_arg(l->env, e);
    }
    return CR_OK;
}

static cr_status loop_fake(loop *l, cr_arg *results) {
    cr_tri unused;
    cr_arg after = cr_arg_none();
    cr_env *env = l->env;
    if (!env) return CR_FAIL(CR_EDATADEP, "how often it runs depends on data that a fake tensor does not have");
    CR_TRY(forget_numbers(l));
    CR_TRY(loop_test(l, &unused));
    CR_TRY(loop_step(l, &after));
    merge m = { env, "after a step", "before it", 0, true };
    cr_arg before = cr_arg_list(l->inputs.at, l->carried);
    cr_status status = merge_results(&m, &after, &before, results);
    cr_results_release(&after, 1);
    return status;
}

static cr_status expand_while(cr_emitter *e, const cr_op *op, const cr_arg *given, cr_arg *results) {
    loop l = { .held = cr_arg_none(), .carried = given[2].kind == CR_ARG_LIST ? given[2].n : 0 };
    cr_status status = CR_OK;
    CR_TRY_OUT(args_add(&l.inputs, &given[2]));
    CR_TRY_OUT(args_add(&l.inputs, &given[3]));
    l.env = env_of(&l.inputs, e->env);
    CR_TRY_OUT(body_open(op, given, 0, &l.test));
    CR_TRY_OUT(body_open(op, given, 1, &l.step));
    CR_TRY_OUT(any_fake(&l.inputs) ? loop_fake(&l, results) : loop_real(&l, results, given));
out:
    cr_results_release(&l.held, 1);
    body_close(&l.test);
    body_close(&l.step);
    cr_vec_dispose(&l.inputs);
    return status;
}

/* ---- along dimension 0: map, scan, associative_scan ---- */

typedef struct sweep {
    cr_env *env;
    body step;
    const cr_arg *xs;
    args inputs;      /* carried, slices of xs, additional */
    size_t carried;   /* how many results of a step are carried to the next */
    cr_dim length;
    bool fake;
    cr_arg held;      /* results of the last step */
    CR_VEC(cr_tensor *) slices, stacks; /* owned; a stack is NULL where the result is none */
    bool taped;       /* some result has a history: stacks are made of `parts` at the end, by an op */
    CR_VEC(cr_arg) parts; /* owned; per step one per stack */
} sweep;

static cr_status sweep_open(sweep *s, cr_emitter *e, const cr_op *op, const cr_arg *given, const cr_arg *init,
                            const cr_arg *xs, const cr_arg *rest) {
    s->xs = xs;
    s->held = cr_arg_none();
    s->carried = init && init->kind == CR_ARG_LIST ? init->n : 0;
    if (xs->kind != CR_ARG_LIST || !xs->n) return CR_FAIL(CR_ERUNTIME, "'xs' must be one or more tensors");
    if (init) CR_TRY(args_add(&s->inputs, init));
    CR_TRY(args_add(&s->inputs, xs));
    if (rest) CR_TRY(args_add(&s->inputs, rest));
    s->env = env_of(&s->inputs, e->env);
    s->fake = any_fake(&s->inputs);
    for (size_t i = 0; i < s->inputs.n; i++)
        s->taped |= s->inputs.at[i].kind == CR_ARG_TENSOR && is_taped(s->inputs.at[i].u.t);
    s->taped &= !s->fake;
    for (uint32_t i = 0; i < xs->n; i++) {
        const cr_arg *x = &xs->u.list[i];
        if (x->kind != CR_ARG_TENSOR || !x->u.t->meta.rank)
            return CR_FAIL(CR_ERUNTIME, "entry %u of 'xs' must be a tensor with a dimension 0", i);
        if (!i) s->length = x->u.t->meta.size[0];
        CR_TRY(cr_dim_require(s->env, x->u.t->meta.size[0], CR_EQ, s->length, "the sizes of dimension 0 of 'xs'"));
    }
    return body_open(op, given, 0, &s->step);
}

static void sweep_close(sweep *s) {
    cr_results_release(&s->held, 1);
    for (size_t i = 0; i < s->slices.n; i++) cr_tensor_release(s->slices.at[i]);
    for (size_t i = 0; i < s->stacks.n; i++) cr_tensor_release(s->stacks.at[i]);
    cr_results_release(s->parts.at, s->parts.n);
    cr_vec_dispose(&s->parts);
    cr_vec_dispose(&s->slices);
    cr_vec_dispose(&s->stacks);
    cr_vec_dispose(&s->inputs);
    body_close(&s->step);
}

/* Puts slice i of every xs into the inputs, from position `at`. */
static cr_status sweep_slices(sweep *s, size_t at, int64_t i) {
    CR_TRY(cr_vec_reserve(&s->slices, s->xs->n));
    for (size_t k = 0; k < s->xs->n; k++) {
        cr_tensor *t = NULL;
        CR_TRY(slice(s->xs->u.list[k].u.t, i, &t));
        if (k < s->slices.n) cr_tensor_release(s->slices.at[k]);
        else s->slices.n++;
        s->slices.at[k] = t;
        s->inputs.at[at + k] = cr_arg_tensor(t);
    }
    return CR_OK;
}

/* Runs one step and keeps what it carries. */
static cr_status sweep_step(sweep *s) {
    cr_arg next = cr_arg_none();
    CR_TRY(body_run(&s->step, &s->inputs, &next));
    cr_results_release(&s->held, 1);
    s->held = next;
    if (next.n < s->carried)
        return CR_FAIL(CR_ERUNTIME, "the body gives %u results for %zu carried ones", next.n, s->carried);
    if (s->carried) memcpy(s->inputs.at, next.u.list, s->carried * sizeof *s->inputs.at);
    return CR_OK;
}

static cr_status keep_part(sweep *s, const cr_arg *a) {
    CR_TRY(cr_vec_push(&s->parts, *a));
    if (a->kind == CR_ARG_TENSOR) cr_tensor_retain(a->u.t);
    return CR_OK;
}

/* The parts of all steps, stacked so that the tape sees it. */
static cr_status stack_parts(sweep *s) {
    size_t n = s->stacks.n, steps = n ? s->parts.n / n : 0;
    cr_arg *list = cr_calloc(steps + 1, sizeof *list);
    cr_status status = list ? CR_OK : CR_ENOMEM;
    for (size_t k = 0; k < n && steps && !status; k++) {
        for (size_t i = 0; i < steps; i++) list[i] = s->parts.at[i * n + k];
        if (list[0].kind != CR_ARG_TENSOR) continue;
        cr_tensor_release(s->stacks.at[k]);
        s->stacks.at[k] = NULL;
        status = cr_call_1("aten::stack", (cr_arg[]){ cr_arg_list(list, steps), cr_arg_int(0) }, 2, &s->stacks.at[k]);
    }
    cr_free(list);
    return status;
}

/* The results from `first` on become slice i of their stacks, which the first step makes. */
static cr_status sweep_store(sweep *s, size_t first, int64_t i) {
    for (size_t k = first; k < s->held.n; k++) {
        const cr_arg *r = &s->held.u.list[k];
        if (r->kind != CR_ARG_TENSOR && r->kind != CR_ARG_NONE)
            return CR_FAIL(CR_ERUNTIME, "result %zu of the body is no tensor, so it cannot be stacked", k);
        if (k - first == s->stacks.n) {
            CR_TRY(cr_vec_reserve(&s->stacks, s->stacks.n + 1));
            cr_tensor *stack = NULL;
            if (r->kind == CR_ARG_TENSOR) CR_TRY(stack_for(s->env, r->u.t, s->length, &stack));
            s->stacks.at[s->stacks.n++] = stack;
        }
        if (s->taped) CR_TRY(keep_part(s, r));
        if (r->kind == CR_ARG_NONE || s->fake || s->taped) continue;
        cr_tensor *part = NULL, *stack = s->stacks.at[k - first];
        CR_TRY(slice(stack, i, &part));
        merge m = { NULL, "in one step", "in another", (uint32_t)k, true };
        cr_arg first_step = cr_arg_tensor(part);
        bool same = part->meta.rank == r->u.t->meta.rank && part->meta.dtype == r->u.t->meta.dtype;
        for (int d = 0; same && d < part->meta.rank; d++) same = part->meta.size[d] == r->u.t->meta.size[d];
        cr_status status = same ? copy_data(part, r->u.t) : differ(&m, r, &first_step);
        cr_tensor_release(part);
        CR_TRY(status);
    }
    return CR_OK;
}

/* The carried values, then the stacks. */
static cr_status sweep_results(sweep *s, const args *operands, cr_arg *results) {
    if (s->taped) CR_TRY(stack_parts(s));
    cr_arg *list = cr_calloc(s->carried + s->stacks.n + 1, sizeof *list);
    if (!list) return CR_ENOMEM;
    for (size_t i = 0; i < s->carried; i++) {
        list[i] = s->inputs.at[i];
        if (list[i].kind == CR_ARG_TENSOR) cr_tensor_retain(list[i].u.t);
    }
    for (size_t i = 0; i < s->stacks.n; i++) {
        list[s->carried + i] = cr_arg_tensor(s->stacks.at[i]);
        s->stacks.at[i] = NULL;
    }
    *results = cr_arg_list(list, s->carried + s->stacks.n);
    cr_status status = separate(results, operands);
    if (status) cr_results_release(results, 1);
    return status;
}

/* No slices: the shapes come from a fake step on slices that do not exist. */
static cr_status sweep_nothing(sweep *s) {
    cr_env *env = NULL;
    cr_call_mode *mode = &cr_ambient_get()->mode, saved = *mode;
    CR_TRY(cr_env_create(&env));
    mode->fake = true;
    mode->env = env;
    mode->depth++;
    cr_status status = CR_OK;
    for (size_t k = 0; k < s->xs->n && !status; k++) {
        cr_meta meta;
        const cr_meta *m = &s->xs->u.list[k].u.t->meta;
        cr_tensor *t = NULL;
        cr_meta_copy(&meta, m);
        meta.rank--;
        memmove(meta.size, m->size + 1, meta.rank * sizeof *meta.size);
        memmove(meta.stride, m->stride + 1, meta.rank * sizeof *meta.stride);
        status = cr_vec_reserve(&s->slices, s->xs->n);
        if (!status) status = cr_tensor_create_fake(env, &meta, &t);
        if (status) break;
        s->slices.at[s->slices.n++] = t;
        s->inputs.at[s->carried + k] = cr_arg_tensor(t);
    }
    cr_arg after = cr_arg_none();
    if (!status) status = body_run(&s->step, &s->inputs, &after);
    *mode = saved;
    for (size_t k = s->carried; k < after.n && !status; k++) {
        cr_tensor *stack = NULL;
        cr_meta meta;
        const cr_arg *r = &after.u.list[k];
        status = cr_vec_reserve(&s->stacks, s->stacks.n + 1);
        if (!status && r->kind == CR_ARG_TENSOR) {
            cr_dim size[CR_MAX_RANK] = { 0 };
            memcpy(size + 1, r->u.t->meta.size, r->u.t->meta.rank * sizeof *size);
            for (int d = 1; d <= r->u.t->meta.rank; d++)
                if (!cr_dim_is_plain(size[d]))
                    status = CR_FAIL(CR_EDATADEP, "with no slices the size of result %zu cannot be known", k);
            cr_meta_init(&meta, r->u.t->meta.dtype, r->u.t->meta.device);
            if (!status) status = cr_meta_set_dense(NULL, &meta, r->u.t->meta.rank + 1, size, CR_CONTIGUOUS);
            if (!status) status = cr_tensor_create(&meta, &stack);
        }
        if (!status) s->stacks.at[s->stacks.n++] = stack;
    }
    cr_results_release(&after, 1);
    cr_env_release(env);
    return status;
}

static cr_status sweep_run(sweep *s, cr_arg *results) {
    args operands = { 0 };
    cr_status status = CR_OK;
    for (size_t i = 0; i < s->inputs.n; i++) CR_TRY_OUT(cr_vec_push(&operands, s->inputs.at[i]));
    if (s->fake) {
        merge m = { s->env, "after a step", "before it", 0, true };
        CR_TRY_OUT(sweep_slices(s, s->carried, 0));
        CR_TRY_OUT(sweep_step(s));
        CR_TRY_OUT(sweep_store(s, s->carried, 0));
        cr_arg before = cr_arg_list(operands.at, s->carried), after = cr_arg_list(s->inputs.at, s->carried),
               merged = cr_arg_none();
        CR_TRY_OUT(merge_results(&m, &after, &before, &merged));
        if (s->carried) memcpy(s->inputs.at, merged.u.list, s->carried * sizeof *s->inputs.at);
        status = sweep_results(s, &operands, results);
        cr_results_release(&merged, 1);
        goto out;
    }
    if (!s->length) CR_TRY_OUT(sweep_nothing(s));
    for (int64_t i = 0; i < s->length; i++) {
        CR_TRY_OUT(sweep_slices(s, s->carried, i));
        CR_TRY_OUT(sweep_step(s));
        CR_TRY_OUT(sweep_store(s, s->carried, i));
    }
    CR_TRY_OUT(sweep_results(s, &operands, results));
out:
    cr_vec_dispose(&operands);
    return status;
}

static cr_status expand_map(cr_emitter *e, const cr_op *op, const cr_arg *given, cr_arg *results) {
    sweep s = { 0 };
    cr_status status = sweep_open(&s, e, op, given, NULL, &given[1], &given[2]);
    if (!status) status = sweep_run(&s, results);
    sweep_close(&s);
    return status;
}

static cr_status expand_scan(cr_emitter *e, const cr_op *op, const cr_arg *given, cr_arg *results) {
    sweep s = { 0 };
    cr_status status = sweep_open(&s, e, op, given, &given[1], &given[2], &given[3]);
    if (!status) status = sweep_run(&s, results);
    sweep_close(&s);
    return status;
}

/* Slice 0 is carried into combine(carried, slice 1, ...), and so on; each carried value is a slice of the result. */
static cr_status expand_associative_scan(cr_emitter *e, const cr_op *op, const cr_arg *given, cr_arg *results) {
    sweep s = { 0 };
    cr_status status = CR_OK;
    CR_TRY_OUT(sweep_open(&s, e, op, given, &given[1], &given[1], &given[2]));
    args operands = { 0 };
    for (uint32_t k = 0; k < given[1].n; k++) { /* the results are like xs, dense */
        CR_TRY_OUT(cr_vec_reserve(&s.stacks, s.stacks.n + 1));
        cr_tensor *part = NULL, *stack = NULL;
        CR_TRY_OUT(slice(given[1].u.list[k].u.t, 0, &part));
        status = stack_for(s.env, part, s.length, &stack);
        cr_tensor_release(part);
        if (status) goto out;
        s.stacks.at[s.stacks.n++] = stack;
    }
    for (int64_t i = 0; i < (s.fake ? 2 : s.length); i++) {
        CR_TRY_OUT(sweep_slices(&s, i ? s.carried : 0, i));
        if (!i) { /* held: the first slices, as the results of a step */
            cr_arg *list = cr_calloc(s.carried + 1, sizeof *list);
            if (!list) CR_TRY_OUT(CR_ENOMEM);
            for (size_t k = 0; k < s.carried; k++) {
                list[k] = s.inputs.at[k];
                cr_tensor_retain(list[k].u.t);
            }
            s.held = cr_arg_list(list, s.carried);
        } else {
            CR_TRY_OUT(sweep_step(&s));
            if (s.held.n != s.carried)
                CR_TRY_OUT(CR_FAIL(CR_ERUNTIME, "combine_fn gives %u results for %zu 'xs'", s.held.n, s.carried));
        }
        CR_TRY_OUT(sweep_store(&s, 0, i));
    }
    s.carried = 0;
    CR_TRY_OUT(sweep_results(&s, &operands, results));
out:
    sweep_close(&s);
    return status;
}

/* ---- regions that mark their body: its last two parameters are the graph and its arguments ---- */

static cr_status expand_marked(cr_emitter *e, const cr_op *op, const cr_arg *given, cr_arg *results) {
    args inputs = { 0 };
    int graph = 0;
    (void)e;
    while (op->schema.params[graph].type != CR_T_GRAPH) graph++;
    cr_status status = args_add(&inputs, &given[op->schema.nparams - 1]);
    bool *grad = &cr_ambient_get()->grad, before = *grad;
    if (!strcmp(op->schema.params[0].name, "enable_grad")) *grad = given[0].u.i != 0;
    if (!status) status = run_one(op, given, graph, &inputs, false, results);
    *grad = before;
    cr_vec_dispose(&inputs);
    return status;
}

/* ---- a group that native code runs as one kernel: rows(body, operands) ---- */

static cr_status expand_rows(cr_emitter *e, const cr_op *op, const cr_arg *given, cr_arg *results) {
    args inputs = { 0 };
    (void)e;
    cr_status status = args_add(&inputs, &given[1]);
    if (!status) status = run_one(op, given, 0, &inputs, true, results);
    cr_vec_dispose(&inputs);
    return status;
}

/* ---- a function with a backward of its own: function(backward, inputs, results, operands) ---- */

/* The results, as tensors of their own: only a derivative asks for the rest. */
static cr_status expand_function(cr_emitter *e, const cr_op *op, const cr_arg *given, cr_arg *results) {
    const cr_arg *made = &given[2];
    cr_arg *list = cr_calloc(made->n + 1u, sizeof *list);
    cr_status status = list ? CR_OK : CR_ENOMEM;
    (void)e, (void)op;
    if (!list) return status;
    *results = cr_arg_list(list, made->n);
    for (uint32_t i = 0; i < made->n && !status; i++) {
        cr_tensor *copy = NULL;
        if (made->u.list[i].kind != CR_ARG_TENSOR) continue;
        status = clone(made->u.list[i].u.t, &copy);
        if (!status) list[i] = cr_arg_tensor(copy);
    }
    if (status) cr_results_release(results, 1);
    return status;
}

static const cr_row region_rows[] = {
    { .schema = "cresset::opaque(str target, str[] names, Any[] args) -> ...",
      .tags = CR_TAG_HIGHER_ORDER | CR_TAG_ASSERT,
      .decomp_fn = cr__expand_opaque },
    { .schema = "cresset::function(Graph backward, Any[] inputs, Any[] results, Any[] operands=[]) -> ...",
      .tags = CR_TAG_HIGHER_ORDER,
      .decomp_fn = expand_function,
      .region = { CR_REGION_FUNCTION, .ngraphs = 1, .lists = 1 } },
    { .schema = "cresset::rows(Graph body, Any[] operands=[]) -> ...",
      .tags = CR_TAG_HIGHER_ORDER,
      .decomp_fn = expand_rows,
      .region = { CR_REGION_ROWS, .ngraphs = 1, .lists = 1 } },
    { .schema = "higher_order::cond(Any pred, Graph true_fn, Graph false_fn, Any[] operands=[]) -> ...",
      .tags = CR_TAG_HIGHER_ORDER,
      .decomp_fn = expand_cond,
      .region = { CR_REGION_COND, .graphs = 1, .ngraphs = 2, .condition = true, .lists = 3 } },
    { .schema = "higher_order::while_loop(Graph cond_fn, Graph body_fn, Any[] carried_inputs, Any[] "
                "additional_inputs=[]) -> ...",
      .tags = CR_TAG_HIGHER_ORDER,
      .decomp_fn = expand_while,
      .region = { CR_REGION_WHILE, .ngraphs = 2, .lists = 2 } },
    { .schema = "higher_order::map_impl(Graph f, Any[] xs, Any[] pos_args=[]) -> ...",
      .tags = CR_TAG_HIGHER_ORDER,
      .decomp_fn = expand_map,
      .region = { CR_REGION_SCAN, .ngraphs = 1, .lists = 1 } },
    { .schema = "higher_order::scan(Graph combine_fn, Any[] init, Any[] xs, Any[] additional_inputs=[]) -> ...",
      .tags = CR_TAG_HIGHER_ORDER,
      .decomp_fn = expand_scan,
      .region = { CR_REGION_SCAN, .ngraphs = 1, .carried = true, .lists = 1 } },
    { .schema = "higher_order::associative_scan(Graph combine_fn, Any[] xs, Any[] additional_inputs=[]) -> ...",
      .tags = CR_TAG_HIGHER_ORDER,
      .decomp_fn = expand_associative_scan,
      .region = { CR_REGION_FOLD, .ngraphs = 1, .lists = 1 } },
    { .schema = "higher_order::wrap(Graph wrapped_func, Any[] args=[]) -> ...",
      .tags = CR_TAG_HIGHER_ORDER,
      .decomp_fn = expand_marked,
      .region = { CR_REGION_MARKS } },
    { .schema = "higher_order::wrap_with_set_grad_enabled(bool enable_grad, Graph wrapped_func, Any[] args=[]) -> ...",
      .tags = CR_TAG_HIGHER_ORDER,
      .decomp_fn = expand_marked,
      .region = { CR_REGION_MARKS, .mark = CR_MARK_GRAD } },
    { .schema = "higher_order::wrap_with_autocast(str device_type, ScalarType? dtype, bool enabled, bool? "
                "cache_enabled, Graph wrapped_func, Any[] args=[]) -> ...",
      .tags = CR_TAG_HIGHER_ORDER,
      .decomp_fn = expand_marked,
      .region = { CR_REGION_MARKS } },
    { .schema = "higher_order::tag_activation_checkpoint(Graph wrapped_func, Any[] args=[]) -> ...",
      .tags = CR_TAG_HIGHER_ORDER,
      .decomp_fn = expand_marked,
      .region = { CR_REGION_MARKS, .mark = CR_MARK_CHECKPOINT } },
    { .schema = "higher_order::wrap_activation_checkpoint(Graph wrapped_func, Any[] args=[]) -> ...",
      .tags = CR_TAG_HIGHER_ORDER,
      .decomp_fn = expand_marked,
      .region = { CR_REGION_MARKS, .mark = CR_MARK_CHECKPOINT } },
    { .schema = "higher_order::invoke_subgraph(Graph subgraph, str? identifier, Any[] operands=[]) -> ...",
      .tags = CR_TAG_HIGHER_ORDER,
      .decomp_fn = expand_marked,
      .region = { CR_REGION_MARKS } },
    { .schema = "higher_order::strict_mode(Graph callable, Any[] operands=[]) -> ...",
      .tags = CR_TAG_HIGHER_ORDER,
      .decomp_fn = expand_marked,
      .region = { CR_REGION_MARKS } },
};

cr_status cr__register_rows(const cr_row *rows, size_t n) {
    for (size_t i = 0; i < n; i++) {
        char name[128];
        size_t length = strcspn(rows[i].schema, "(");
        memcpy(name, rows[i].schema, length);
        name[length] = 0;
        if (!cr_op_find(name)) CR_TRY(cr_op_register(&rows[i], NULL));
    }
    return CR_OK;
}

cr_status cr_region_ops_init(void) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static bool ready;
    if (__atomic_load_n(&ready, __ATOMIC_ACQUIRE)) return CR_OK;
    CR_TRY(cr_ops_init());
    pthread_mutex_lock(&lock);
    cr_status status = ready ? CR_OK : cr__number_ops_init();
    if (!status && !ready) status = cr__register_rows(region_rows, CR_COUNT(region_rows));
    if (!status) __atomic_store_n(&ready, true, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&lock);
    return status;
}
