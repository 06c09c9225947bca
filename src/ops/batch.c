/* batch.c: levels of vmap, tensors that they map, and how a call with such tensors is carried out. The classes of ops
 * are in batch_rules.c, batch_conv.c and batch_index.c. */
#include "ops/batch_internal.h"

#include "ops/custom.h"

/* ---- levels ---- */

void cr_vmap_begin(cr_vmap *v, cr_dim size, cr_randomness randomness) {
    static uint64_t last; /* atomic */
    cr_ambient *ambient = cr_ambient_get();
    *v = (cr_vmap){ __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED), size, randomness, ambient->vmap };
    ambient->vmap = v;
}

void cr_vmap_end(cr_vmap *v) { cr_ambient_get()->vmap = v->outer; }

bool cr_vmap_maps(const cr_vmap *v, const cr_tensor *t) {
    for (; t; t = t->mapped)
        if (t->mapped && t->level == v->id) return true;
    return false;
}

/* One example of t, which the caller gives away. */
static cr_status example_of(uint64_t level, cr_tensor *t, int dim, cr_tensor **out) {
    cr_meta m = t->meta;
    for (int d = dim; d + 1 < t->meta.rank; d++) m.size[d] = t->meta.size[d + 1], m.stride[d] = t->meta.stride[d + 1];
    m.rank--;
    m.flags &= (uint8_t)~CR_META_REQUIRES_GRAD; /* its value does */
    cr_status status = cr_tensor_shape(&m, out);
    if (status) {
        cr_tensor_release(t);
        return status;
    }
    if (t->env) cr_env_retain((*out)->env = t->env);
    (*out)->mapped = t;
    (*out)->level = level;
    (*out)->mapped_dim = (uint8_t)dim;
    return CR_OK;
}

cr_status cr_vmap_lower(const cr_vmap *v, cr_tensor *t, int dim, cr_tensor **out) {
    if (!t->mapped || t->level < v->id) {
        cr_tensor_retain(t);
        return example_of(v->id, t, dim, out);
    }
    cr_tensor *inner; /* the levels inside stay outermost */
    int at = dim < t->mapped_dim ? dim : dim + 1;
    CR_TRY(cr_vmap_lower(v, t->mapped, at, &inner));
    return example_of(t->level, inner, t->mapped_dim - (at < t->mapped_dim), out);
}

static cr_status moved(cr_tensor *t, int from, int to, cr_tensor **out) {
    if (from == to) return cr_tensor_retain(*out = t), CR_OK;
    return cr_call_1("aten::movedim.int", (cr_arg[]){ cr_arg_tensor(t), cr_arg_int(from), cr_arg_int(to) }, 3, out);
}

static cr_status repeated(const cr_vmap *v, cr_tensor *t, cr_tensor **out) {
    cr_arg sizes[CR_MAX_RANK + 1] = { cr_arg_int(v->size) };
    for (int d = 0; d < t->meta.rank; d++) sizes[d + 1] = cr_arg_int(t->meta.size[d]);
    cr_arg args[] = { cr_arg_tensor(t), cr_arg_list(sizes, t->meta.rank + 1u) };
    return cr_call_1("aten::expand", args, 2, out);
}

/* Views of values are taken outside of the level and of those inside. */
static cr_status lift(const cr_vmap *v, cr_tensor *t, int dim, cr_tensor **out) {
    cr_tensor *inner;
    if (t->mapped && t->level == v->id) return moved(t->mapped, t->mapped_dim, dim, out);
    if (t->mapped && t->level > v->id) { /* the levels inside stay outermost */
        int at = t->mapped_dim < dim ? dim + 1 : dim;
        CR_TRY(lift(v, t->mapped, at, &inner));
        return example_of(t->level, inner, t->mapped_dim + (at <= t->mapped_dim), out);
    }
    CR_TRY(repeated(v, t, &inner));
    cr_status status = moved(inner, 0, dim, out);
    cr_tensor_release(inner);
    return status;
}

cr_status cr_vmap_lift(const cr_vmap *v, cr_tensor *t, int dim, cr_tensor **out) {
    cr_ambient *ambient = cr_ambient_get();
    cr_vmap *before = ambient->vmap;
    ambient->vmap = v->outer;
    cr_status status = lift(v, t, dim, out);
    ambient->vmap = before;
    return status;
}

static cr_status lower_all(const cr_vmap *v, cr_tensor *t, cr_tensor **out) {
    cr_tensor *outer, *value;
    if (!v) return cr_tensor_retain(*out = t), CR_OK;
    CR_TRY(lower_all(v->outer, t, &outer));
    if (cr_vmap_maps(v, outer)) return *out = outer, CR_OK;
    cr_status status = cr_vmap_lift(v, outer, 0, &value);
    cr_tensor_release(outer);
    if (status) return status;
    status = cr_vmap_lower(v, value, 0, out);
    cr_tensor_release(value);
    return status;
}

cr_status cr_vmap_lower_all(cr_tensor *t, cr_tensor **out) { return lower_all(cr_ambient_get()->vmap, t, out); }

/* ---- parts of rules ---- */

cr_arg *cr__batch_list(cr__batch *b, size_t n) {
    cr_arg *list = cr_arena_calloc(&b->arena, n + 1, sizeof *list);
    if (!list && !b->run.status) b->run.status = CR_ENOMEM;
    return list;
}

cr_arg cr__batch_sizes(cr__batch *b, bool first, const cr_meta *m) {
    cr_arg *list = cr__batch_list(b, m->rank + 1u);
    size_t n = 0;
    if (!list) return cr_arg_none();
    if (first) list[n++] = cr_arg_int(b->v->size);
    for (int d = 0; d < m->rank; d++) list[n++] = cr_arg_int(m->size[d]);
    return cr_arg_list(list, n);
}

int64_t cr__batch_count(cr__batch *b) {
    int64_t n;
    bool is = true;
    if (cr_dim_is_plain(b->v->size)) return b->v->size;
    if (b->run.status) return -1;
    if (!cr_dim_hint(b->exec.env, b->v->size, &n))
        b->run.status = CR_FAIL(CR_EDATADEP, "vmap: %s is done as often as there are examples, and how many there are "
                                             "depends on data", b->op->name);
    else b->run.status = cr_dim_decide(b->exec.env, b->v->size, CR_EQ, n, &is);
    return b->run.status || !is ? -1 : n;
}

cr_arg cr__batch_front(cr__batch *b, const cr_arg *a) {
    if (!cr__is_mapped(b, a)) return *a;
    cr_arg value = cr_arg_tensor(a->u.t->mapped);
    if (!a->u.t->mapped_dim) return value;
    return CR_RUN(&b->run, "movedim.int", value, cr_arg_int(a->u.t->mapped_dim), cr_arg_int(0));
}

cr_arg cr__batch_aligned(cr__batch *b, const cr_arg *a, int rank) {
    cr_arg x = cr__batch_front(b, a);
    for (int d = a->u.t->meta.rank; d < rank && cr__is_mapped(b, a); d++)
        x = CR_RUN(&b->run, "unsqueeze", x, cr_arg_int(1));
    return x;
}

cr_arg cr__batch_each(cr__batch *b, const cr_arg *a, int rank) {
    if (cr__is_mapped(b, a)) return cr__batch_aligned(b, a, rank);
    cr_arg x = *a;
    for (int d = a->u.t->meta.rank; d < rank; d++) x = CR_RUN(&b->run, "unsqueeze", x, cr_arg_int(0));
    const cr_meta *m = cr__run_meta(&b->run, &x);
    return CR_RUN(&b->run, "expand", x, cr__batch_sizes(b, true, m));
}

void cr__batch_run(cr__batch *b, const cr_op *op, const cr_arg *args) {
    if (!op) op = b->op;
    const cr_arg *made = cr__run_call(&b->run, op->name, op->schema.nparams, args);
    for (int i = 0; !b->run.status && i < op->schema.nreturns && i < CR__BATCH_RESULTS; i++) {
        b->made[i] = made[i];
        b->dim[i] = 0;
    }
}

/* ---- results ---- */

/* Is it what the rule says of one example, with the examples at `dim`? Where it `may` be, it becomes that if it has as
 * many elements, examples first, in other dimensions. */
static bool fit(cr__batch *b, cr_arg *a, int dim, const cr_meta *want, bool may) {
    const cr_meta *m = cr__run_meta(&b->run, a);
    if (b->run.status || m->dtype != want->dtype) return false;
    bool same = m->rank == want->rank + 1 && dim < m->rank &&
                cr_dim_known(b->run.e->env, m->size[dim], CR_EQ, b->v->size) == CR_YES;
    for (int d = 0; same && d < want->rank; d++) {
        cr_dim have = m->size[d < dim ? d : d + 1];
        same = have == want->size[d] || cr_dim_known(b->run.e->env, have, CR_EQ, want->size[d]) == CR_YES;
    }
    if (same || dim || !may) return same;
    cr_env *env = b->run.e->env;
    cr_dim all = cr_dim_mul(env, b->v->size, cr_meta_numel(env, want));
    if (cr_dim_known(env, cr_meta_numel(env, m), CR_EQ, all) != CR_YES) return false;
    *a = CR_RUN(&b->run, "reshape", *a, cr__batch_sizes(b, true, want));
    return !b->run.status;
}

/* A result as a mapped tensor of the caller's: an argument itself where its value is one's. */
static cr_status wrap_result(const cr__batch *b, const cr_arg *a, int dim, cr_arg *out) {
    cr_tensor *t;
    if (a->kind != CR_ARG_TENSOR) return *out = *a, CR_OK;
    for (uint16_t i = 0; i < b->op->schema.nparams; i++)
        if (cr__is_mapped(b, &b->args[i]) && b->args[i].u.t->mapped == a->u.t && b->args[i].u.t->mapped_dim == dim) {
            cr_tensor_retain(b->args[i].u.t);
            return *out = b->args[i], CR_OK;
        }
    cr_tensor_retain(a->u.t);
    CR_TRY(example_of(b->v->id, a->u.t, dim, &t));
    return *out = cr_arg_tensor(t), CR_OK;
}

static cr_status wrap(const cr__batch *b, const cr_arg *a, int dim, cr_arg *out) {
    if (a->kind != CR_ARG_LIST) return wrap_result(b, a, dim, out);
    cr_arg *list = cr_alloc((a->n + 1) * sizeof *list);
    if (!list) return CR_ENOMEM;
    cr_status status = CR_OK;
    for (uint32_t k = 0; k < a->n; k++) {
        list[k] = cr_arg_none();
        if (!status) status = wrap_result(b, &a->u.list[k], dim, &list[k]);
    }
    *out = cr_arg_list(list, a->n);
    if (status) cr_results_release(out, 1);
    return status;
}

static cr_status wrap_all(const cr__batch *b, cr_arg *results) {
    uint16_t n = b->op->schema.nreturns;
    cr_status status = CR_OK;
    for (uint16_t i = 0; i < n; i++) results[i] = cr_arg_none();
    for (uint16_t i = 0; !status && i < n; i++) status = wrap(b, &b->made[i], b->dim[i], &results[i]);
    if (status) cr_results_release(results, n);
    return status;
}

/* All results against what the rule says. */
static bool fit_all(cr__batch *b) {
    int at = 0;
    for (uint16_t i = 0; i < b->op->schema.nreturns; i++) {
        bool list = b->made[i].kind == CR_ARG_LIST;
        for (uint32_t k = 0; k < (list ? b->made[i].n : 1); k++, at++) {
            cr_arg *a = list ? (cr_arg *)&b->made[i].u.list[k] : &b->made[i];
            if (at >= b->rule.nout) return false;
            const cr_out *want = &b->rule.out[at];
            if ((a->kind != CR_ARG_TENSOR) != want->none) return false;
            if (!want->none && !fit(b, a, b->dim[i], &want->meta, !list)) return false;
        }
    }
    return true;
}

/* ---- example after example ---- */

static cr_arg example(cr__batch *b, const cr_arg *a, int64_t i) {
    if (a->kind == CR_ARG_LIST) {
        cr_arg *list = cr__batch_list(b, a->n);
        for (uint32_t k = 0; list && k < a->n; k++) list[k] = example(b, &a->u.list[k], i);
        return list ? cr_arg_list(list, a->n) : cr_arg_none();
    }
    if (!cr__is_mapped(b, a)) return *a;
    return CR_RUN(&b->run, "select.int", cr_arg_tensor(a->u.t->mapped), cr_arg_int(a->u.t->mapped_dim), cr_arg_int(i));
}

/* Results of all examples, result by result: each[example * nreturns + result]. */
static cr_arg stacked(cr__batch *b, const cr_arg *each, int64_t n, uint16_t step) {
    if (each[0].kind != CR_ARG_TENSOR) return each[0];
    cr_arg *list = cr__batch_list(b, (size_t)n);
    for (int64_t i = 0; list && i < n; i++) list[i] = each[i * step];
    return list ? CR_RUN(&b->run, "stack", cr_arg_list(list, (size_t)n), cr_arg_int(0)) : cr_arg_none();
}

static cr_arg stacked_list(cr__batch *b, const cr_arg *each, int64_t n, uint16_t step) {
    cr_arg *made = cr__batch_list(b, each[0].n), *items = cr__batch_list(b, (size_t)n);
    if (!made || !items) return cr_arg_none();
    for (uint32_t k = 0; k < each[0].n; k++) {
        for (int64_t i = 0; i < n; i++) items[i] = each[i * step].u.list[k];
        made[k] = stacked(b, items, n, 1);
    }
    return cr_arg_list(made, each[0].n);
}

/* No example at all: the rule says what there would be. */
static void loop_over_none(cr__batch *b) {
    if (b->op->schema.nreturns != b->rule.nout || b->op->schema.returns[0].list) {
        b->run.status = CR_FAIL(CR_ENOTIMPL, "vmap: %s has no batching rule, and there is no example to run it on",
                                b->op->name);
        return;
    }
    for (int i = 0; i < b->rule.nout; i++) {
        const cr_meta *m = &b->rule.out[i].meta;
        b->made[i] = b->rule.out[i].none ? cr_arg_none()
                                         : CR_RUN(&b->run, "empty.memory_format", cr__batch_sizes(b, true, m),
                                                  cr_arg_dtype(m->dtype));
    }
}

static void loop(cr__batch *b) {
    cr_vmap_counts *counts = &cr_ambient_get()->looped;
    const cr_schema *s = &b->op->schema;
    int64_t n = cr__batch_count(b);
    counts->loops++, counts->last = b->op;
    for (uint16_t i = 0; i < s->nreturns; i++) b->dim[i] = 0;
    if (n <= 0) return n ? (void)0 : loop_over_none(b);
    cr_arg *each = cr__batch_list(b, (size_t)n * s->nreturns), *args = cr__batch_list(b, s->nparams);
    if (!each || !args) return;
    for (int64_t i = 0; i < n && !b->run.status; i++) {
        for (uint16_t p = 0; p < s->nparams; p++) args[p] = example(b, &b->args[p], i);
        const cr_arg *made = cr__run_call(&b->run, b->op->name, s->nparams, args);
        for (uint16_t r = 0; !b->run.status && r < s->nreturns; r++) each[i * s->nreturns + r] = made[r];
    }
    for (uint16_t r = 0; r < s->nreturns && !b->run.status; r++)
        b->made[r] = each[r].kind == CR_ARG_LIST ? stacked_list(b, each + r, n, s->nreturns)
                                                 : stacked(b, each + r, n, s->nreturns);
}

/* ---- random numbers ---- */

static cr_status refuse_random(const cr_op *op) {
    return CR_FAIL(CR_ERUNTIME,
                   "vmap: called random operation %s while in randomness error mode. Please either use the 'same' or "
                   "'different' randomness flags on vmap or perform the randomness operation out of vmap",
                   op->name);
}

/* Do the numbers drawn depend on the sizes of the tensor alone? */
static bool draws_by_shape(const cr_op *op) {
    const char *name = op->schema.name;
    size_t n = strlen(name);
    if (op->tags & CR_TAG_UPDATES) return strcmp(op->schema.overload, "Tensor") != 0;
    return n > 5 && !strcmp(name + n - 5, "_like") && op->schema.params[1].type != CR_T_TENSOR;
}

/* One draw for all: on any example. Dropout draws its mask on ones. */
static void draw_once(cr__batch *b) {
    cr_arg *args = cr__batch_list(b, b->op->schema.nparams);
    if (!args) return;
    memcpy(args, b->args, b->op->schema.nparams * sizeof *args);
    args[0] = example(b, &args[0], 0);
    if (strcmp(b->op->schema.name, "native_dropout")) {
        cr__batch_run(b, NULL, args);
        b->dim[0] = -1;
        return;
    }
    args[0] = CR_RUN(&b->run, "ones_like", args[0]);
    cr__batch_run(b, NULL, args);
    b->dim[1] = -1;
    b->made[0] = CR_RUN(&b->run, "mul.Tensor", cr__batch_front(b, &b->args[0]), b->made[0]);
}

/* Is the number of examples one more size, of a tensor or in a list? */
static bool takes_sizes(const cr_op *op) {
    for (uint16_t i = 0; i < op->schema.nparams; i++)
        if (op->schema.params[i].type == CR_T_TENSOR || !strcmp(op->schema.params[i].name, "size")) return true;
    return false;
}

static cr_status draw(cr__batch *b) {
    const cr_op *op = b->op;
    if (b->v->randomness == CR_RANDOM_ERROR) return refuse_random(op);
    if (b->v->randomness == CR_RANDOM_DIFFERENT) {
        if (takes_sizes(op)) cr__batch_dims(b);
        if (b->run.status == CR_ENOMEM || (takes_sizes(op) && !b->run.status && fit_all(b))) return b->run.status;
        b->run.status = CR_OK;
        return loop(b), b->run.status;
    }
    bool once = draws_by_shape(op) || !strcmp(op->schema.name, "native_dropout");
    for (uint16_t i = 1; i < op->schema.nparams; i++) once &= !cr__is_mapped(b, &b->args[i]);
    if (!once || !b->v->size)
        return CR_FAIL(CR_ERUNTIME,
                       "vmap: %s: randomness='same' does not serve numbers that are drawn by the values of a mapped "
                       "tensor; use randomness='different', or draw outside of vmap", op->name);
    return draw_once(b), b->run.status;
}

/* ---- one call ---- */

static cr_batch_kind kind_of(const cr_op *op) {
    const cr_row *row = op->row;
    if (row->batch.kind) return (cr_batch_kind)row->batch.kind;
    if (row->batch.as || (!row->kernel && !row->scalar && !(op->tags & CR_TAG_VIEW))) return CR_BATCH_NONE;
    if (op->tags & CR_TAG_POINTWISE) return CR_BATCH_POINTWISE;
    if (row->view == CR_VIEW_NONE && row->reduce.dim) return CR_BATCH_DIMS;
    if (row->view != CR_VIEW_NONE && row->view != CR_VIEW_STRIDED && !row->decomp && !row->decomp_fn)
        return CR_BATCH_DIMS;
    return row->product.left && !row->product.addend && !row->product.transposed ? CR_BATCH_PRODUCT : CR_BATCH_NONE;
}

static cr__batch_rule *const rules[CR_BATCH_KIND_COUNT] = {
    [CR_BATCH_POINTWISE] = cr__batch_pointwise,
    [CR_BATCH_DIMS] = cr__batch_dims,
    [CR_BATCH_LEADING] = cr__batch_leading,
    [CR_BATCH_FIRST] = cr__batch_first,
    [CR_BATCH_FOLD] = cr__batch_fold,
    [CR_BATCH_CHANNELS] = cr__batch_channels,
    [CR_BATCH_PRODUCT] = cr__batch_product,
    [CR_BATCH_STRIDED] = cr__batch_strided,
    [CR_BATCH_CONVOLUTION] = cr__batch_convolution,
    [CR_BATCH_CONVOLUTION_BACKWARD] = cr__batch_convolution_backward,
    [CR_BATCH_INDEX] = cr__batch_index,
    [CR_BATCH_INDEX_PUT] = cr__batch_index_put,
    [CR_BATCH_EMBEDDING] = cr__batch_embedding,
    [CR_BATCH_EMBEDDING_BACKWARD] = cr__batch_embedding_backward,
};

static bool is_primitive(const cr_op *op) { return op->row->kernel || op->row->scalar || (op->tags & CR_TAG_VIEW); }

static bool has_parts(const cr_op *op) {
    const cr_row *row = op->row;
    return row->batch.as || row->decomp || row->decomp_fn || row->core_fn || (row->core && strcmp(row->core, "keep"));
}

static void init(cr__batch *b, const cr_vmap *v, const cr_op *op, const cr_arg *args) {
    *b = (cr__batch){ .v = v, .op = op, .args = args, .exec = *cr_exec_emitter() };
    b->run.e = &b->exec;
    b->rule.out = b->rule.inline_out;
    cr_arena_init(&b->arena);
    b->exec.env = cr_ambient_get()->mode.env;
    cr_args_have_fake(args, op->schema.nparams, &b->exec.env);
}

static cr_status begin(cr__batch *b, const cr_vmap *v, const cr_op *op, const cr_arg *args) {
    init(b, v, op, args);
    return is_primitive(op) ? cr_rule_run(&b->rule, op, b->exec.env, args, NULL) : CR_OK;
}

static void finish(cr__batch *b) {
    for (size_t i = b->run.made.n; i-- > 0;) cr_results_release(&b->run.made.at[i], 1);
    cr_vec_dispose(&b->run.made);
    cr_rule_dispose(&b->rule);
    cr_arena_dispose(&b->arena);
}

/* Numbers and sizes that depend on data have no one answer for all examples. */
static cr_status refuse_data(const cr_op *op) {
    const char *name = op->schema.name;
    if (!strcmp(name, "_local_scalar_dense") || !strcmp(name, "item"))
        return CR_FAIL(CR_ERUNTIME, "vmap: It looks like you're calling .item() on a Tensor. There is one number for "
                                    "each example; compute with the tensor instead, or return it");
    if (!strcmp(name, "is_nonzero") || !strcmp(name, "equal"))
        return CR_FAIL(CR_ERUNTIME, "vmap: It looks like you're attempting to use a Tensor in some data-dependent "
                                    "control flow (%s). The examples may disagree; compute both ways and choose by "
                                    "where()", name);
    return CR_FAIL(CR_ERUNTIME, "vmap: %s: the size of the result depends on the values, so that examples may differ "
                                "in it (dynamic shape); use a mask and where() instead", op->name);
}

static cr_status numbers(const cr__batch *b, cr_arg *results) {
    for (int i = 0; i < b->rule.nout; i++) {
        if (b->rule.out[i].data) return refuse_data(b->op);
        results[i] = (cr_arg){ .kind = b->rule.out[i].scalar, .given = 1, .u.i = b->rule.out[i].number };
    }
    return CR_OK;
}

/* By the class, else example after example; CR_ENOTFOUND: by parts. Values are called outside of the level. */
static cr_status on_values(cr__batch *b, cr_batch_kind kind) {
    cr_vmap_counts *counts = &cr_ambient_get()->looped;
    if (kind && kind != CR_BATCH_LOOP) {
        rules[kind](b);
        bool fits = !b->unfit && !b->run.status && fit_all(b);
        if (fits || b->run.status == CR_ENOMEM) return b->run.status;
        if (b->refused || (!b->unfit && !b->run.status && (b->op->tags & CR_TAG_DATA_DEPENDENT)))
            return refuse_data(b->op);
        if (has_parts(b->op) && b->unfit) return CR_ENOTFOUND;
        if (!b->unfit) counts->misfits++;
        b->run.status = CR_OK;
    } else if (has_parts(b->op) && kind != CR_BATCH_LOOP) {
        return CR_ENOTFOUND;
    }
    loop(b);
    return b->run.status;
}

/* Results that one draw is for all examples of are not mapped. */
static cr_status wrap_drawn(cr__batch *b, cr_arg *results) {
    for (uint16_t i = 0; i < b->op->schema.nreturns; i++) results[i] = cr_arg_none();
    for (uint16_t i = 0; i < b->op->schema.nreturns; i++) {
        cr_status status = CR_OK;
        if (b->dim[i] >= 0) status = wrap(b, &b->made[i], b->dim[i], &results[i]);
        else cr_tensor_retain((results[i] = b->made[i]).u.t);
        if (!status) continue;
        cr_results_release(results, b->op->schema.nreturns);
        return status;
    }
    return CR_OK;
}

/* By other calls on one example; example after example where those depend on values (where to cut, how many steps). */
static cr_status call_parts(const cr_vmap *v, const cr_op *op, const cr_arg *args, cr_arg *results) {
    cr_status status = cr_batch_expand(cr_exec_emitter(), op, args, results);
    if (status != CR_EDATADEP || !v->size) return status;
    cr_ambient *ambient = cr_ambient_get();
    cr_vmap *before = ambient->vmap;
    cr__batch b;
    init(&b, v, op, args);
    ambient->vmap = v->outer;
    loop(&b);
    ambient->vmap = before;
    status = b.run.status ? b.run.status : wrap_all(&b, results);
    finish(&b);
    return status;
}

static cr_status call_functional(const cr_vmap *v, const cr_op *op, const cr_arg *args, cr_arg *results) {
    cr_ambient *ambient = cr_ambient_get();
    if ((op->tags & CR_TAG_HIGHER_ORDER))
        return CR_FAIL(CR_ENOTIMPL, "vmap: %s over mapped tensors is not supported; call it outside of vmap, or write "
                                    "it with where()", op->name);
    cr_batch_kind kind = kind_of(op);
    bool random = op->tags & CR_TAG_RANDOM;
    if (!kind && (!is_primitive(op) || (random && (op->tags & CR_TAG_COMPOSITE))))
        return call_parts(v, op, args, results);
    if ((op->tags & CR_TAG_DATA_DEPENDENT) && !kind && !op->row->batch.as) return refuse_data(op);
    cr__batch b;
    cr_vmap *before = ambient->vmap;
    cr_status status = begin(&b, v, op, args);
    if (!status && b.rule.nout && b.rule.out[0].scalar) {
        status = numbers(&b, results);
    } else if (!status) {
        ambient->vmap = v->outer;
        status = random ? draw(&b) : on_values(&b, kind);
        ambient->vmap = before;
        if (status == CR_ENOTFOUND && !random) status = call_parts(v, op, args, results);
        else if (!status) status = random ? wrap_drawn(&b, results) : wrap_all(&b, results);
    }
    finish(&b);
    return status;
}

/* ---- calls that write ---- */

static cr_status refuse_write(const cr_op *op, const char *what) {
    return CR_FAIL(CR_ERUNTIME,
                   "vmap: %s(self, *extra_args) is not possible because there exists a Tensor in extra_args that has "
                   "more elements than `%s`: it is mapped over by vmap, but `%s` is not. Use the out-of-place "
                   "operator, or make it from a mapped tensor (x.new_zeros(...) for torch.zeros(...))",
                   op->name, what, what);
}

/* The target's examples become the result's: cast and sizes are those of one example. */
static cr_status write_back(const cr_vmap *v, const cr_op *op, const cr_arg *target, const cr_arg *from) {
    const cr_meta *to = &target->u.t->meta, *m = &from->u.t->meta;
    if (!(op->base->tags & CR_TAG_ANY_CAST) && !cr_can_cast(m->dtype, to->dtype))
        return CR_FAIL(CR_ERUNTIME, "%s: result type %s can't be cast to the desired output type %s", op->schema.name,
                       cr_dtype_aten(m->dtype), cr_dtype_aten(to->dtype));
    bool same = m->rank == to->rank;
    for (int d = 0; same && d < m->rank; d++) same = m->size[d] == to->size[d];
    if (!same)
        return CR_FAIL(CR_ERUNTIME, "%s: the result has other sizes than the tensor that is written to",
                       op->schema.name);
    cr_tensor *source, *written = NULL;
    CR_TRY(cr_vmap_lift(v, from->u.t, 0, &source));
    cr_ambient *ambient = cr_ambient_get();
    cr_vmap *before = ambient->vmap;
    ambient->vmap = v->outer;
    cr_tensor *front = NULL;
    cr_status status = moved(target->u.t->mapped, target->u.t->mapped_dim, 0, &front);
    if (!status)
        status = cr_call_1("aten::copy_", (cr_arg[]){ cr_arg_tensor(front), cr_arg_tensor(source) }, 2, &written);
    ambient->vmap = before;
    cr_tensor_release(written);
    cr_tensor_release(front);
    cr_tensor_release(source);
    return status;
}

/* t_(), squeeze_(): the tensor shows another view of its value. */
static void become(cr_tensor *t, cr_tensor *other) {
    cr_tensor *value = other->mapped;
    other->mapped = t->mapped;
    t->mapped = value;
    t->mapped_dim = other->mapped_dim;
    cr_meta_copy(&t->meta, &other->meta);
    cr_tensor_changed(t);
}

static cr_status call_inplace(const cr_vmap *v, const cr_op *op, const cr_arg *args, cr_arg *results) {
    cr_tensor *self = args[0].u.t;
    if (!self->mapped || self->level != v->id) {
        if (op->tags & CR_TAG_RANDOM)
            return v->randomness == CR_RANDOM_ERROR
                       ? refuse_random(op)
                       : CR_FAIL(CR_ERUNTIME, "vmap: %s: an in-place random operation on a tensor that is not mapped "
                                              "cannot differ between examples; use randomness='same', or make it from "
                                              "a mapped tensor", op->name);
        return refuse_write(op, op->schema.params[0].name);
    }
    cr_arg made[CR__BATCH_RESULTS];
    CR_TRY(cr__vmap_call(op->base, args, made, &(bool){ false }));
    cr_status status = CR_OK;
    bool geometry = op->base->tags & CR_TAG_INPLACE_VIEW;
    if (geometry && made[0].u.t != self && made[0].u.t->mapped) become(self, made[0].u.t);
    else if (!geometry) status = write_back(v, op, &args[0], &made[0]);
    cr_results_release(made, op->base->schema.nreturns);
    if (status) return status;
    cr_tensor_retain(self);
    results[0] = cr_arg_tensor(self);
    return CR_OK;
}

static bool any_mapped(const cr_vmap *v, const cr_arg *a) {
    if (a->kind == CR_ARG_TENSOR) return a->u.t->mapped && a->u.t->level == v->id;
    for (uint32_t i = 0; a->kind == CR_ARG_LIST && i < a->n; i++)
        if (any_mapped(v, &a->u.list[i])) return true;
    return false;
}

/* An op that writes arguments besides its results: by the one that gives their new values. */
static cr_status call_writing(const cr_vmap *v, const cr_op *op, const cr_arg *args, cr_arg *results) {
    const cr_op *functional = op->row->functional ? cr_op_find(op->row->functional) : NULL;
    const cr_schema *s = &op->schema;
    if (!functional)
        return CR_FAIL(CR_ERUNTIME, "vmap: %s writes to its arguments, which is not supported for mapped tensors; call "
                                    "it outside of vmap", op->name);
    for (uint16_t i = 0; i < s->nparams; i++)
        if (s->params[i].writes && args[i].kind == CR_ARG_TENSOR && !any_mapped(v, &args[i]))
            return refuse_write(op, s->params[i].name);
    cr_arg made[CR__BATCH_RESULTS];
    CR_TRY(cr__vmap_call(functional, args, made, &(bool){ false }));
    cr_status status = CR_OK;
    uint16_t at = s->nreturns;
    for (uint16_t i = 0; i < s->nparams && !status; i++)
        if (s->params[i].writes && args[i].kind == CR_ARG_TENSOR) status = write_back(v, op, &args[i], &made[at++]);
    for (uint16_t i = 0; i < s->nreturns && !status; i++) results[i] = made[i], made[i] = cr_arg_none();
    cr_results_release(made, functional->schema.nreturns);
    return status;
}

static bool concerns(const cr_vmap *v, const cr_op *op, const cr_arg *args) {
    for (uint16_t i = 0; i < op->schema.nparams; i++)
        if (any_mapped(v, &args[i])) return true;
    return (op->tags & CR_TAG_RANDOM) && v->randomness != CR_RANDOM_SAME;
}

cr_status cr__vmap_call(const cr_op *op, const cr_arg *args, cr_arg *results, bool *done) {
    const cr_vmap *v = cr_ambient_get()->vmap;
    while (v && !concerns(v, op, args)) v = v->outer;
    *done = v != NULL;
    if (!v) return CR_OK;
    if (op->variant == CR_OUT)
        return CR_FAIL(CR_ERUNTIME, "vmap: %s: functions with out= are not supported for mapped tensors; use the "
                                    "function without it", op->name);
    if (op->variant == CR_INPLACE) return call_inplace(v, op, args, results);
    for (uint16_t i = 0; i < op->schema.nparams; i++)
        if (op->schema.params[i].writes && args[i].kind != CR_ARG_NONE) return call_writing(v, op, args, results);
    return call_functional(v, op, args, results);
}
