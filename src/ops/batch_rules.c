/* batch_rules.c: the classes of ops under vmap that take the examples as one more dimension. */
#include "ops/batch_internal.h"

/* All arguments, to be changed. NULL: out of memory. */
static cr_arg *arguments(cr__batch *b) {
    cr_arg *args = cr__batch_list(b, b->op->schema.nparams);
    if (args) memcpy(args, b->args, b->op->schema.nparams * sizeof *args);
    return args;
}

/* The tensors of argument i, or of the list that it is, each through `one`. */
static void each_tensor(cr__batch *b, cr_arg *a, int rank, cr_arg (*one)(cr__batch *, const cr_arg *, int)) {
    if (a->kind == CR_ARG_TENSOR) *a = one(b, a, rank);
    if (a->kind != CR_ARG_LIST) return;
    cr_arg *list = cr__batch_list(b, a->n);
    for (uint32_t k = 0; list && k < a->n; k++)
        list[k] = a->u.list[k].kind == CR_ARG_TENSOR ? one(b, &a->u.list[k], rank) : a->u.list[k];
    if (list) a->u.list = list;
}

static int highest_rank(const cr__batch *b) {
    int rank = 0;
    for (uint16_t i = 0; i < b->op->schema.nparams; i++) {
        const cr_arg *a = &b->args[i];
        if (a->kind == CR_ARG_TENSOR) rank = CR_MAX(rank, a->u.t->meta.rank);
        for (uint32_t k = 0; a->kind == CR_ARG_LIST && k < a->n; k++)
            if (a->u.list[k].kind == CR_ARG_TENSOR) rank = CR_MAX(rank, a->u.list[k].u.t->meta.rank);
    }
    return rank;
}

/* ---- pointwise ---- */

/* A 0-d tensor counts less for the common dtype than one with dimensions, and loses that when it is mapped: what would
 * count otherwise is cast to what one example computes in. Conditions and masks stay. */
static bool is_cast(const cr__batch *b, const cr_arg *a) {
    if (a->kind != CR_ARG_TENSOR || b->rule.common < 0) return false;
    int dtype = a->u.t->meta.dtype;
    return dtype != b->rule.common && dtype != CR_BOOL && !a->u.t->meta.rank;
}

void cr__batch_pointwise(cr__batch *b) {
    cr_arg *args = arguments(b);
    int rank = highest_rank(b);
    if (!args) return;
    for (uint16_t i = 0; i < b->op->schema.nparams; i++) {
        bool cast = is_cast(b, &args[i]);
        each_tensor(b, &args[i], rank, cr__batch_aligned);
        if (cast) args[i] = CR_RUN(&b->run, "_to_copy", args[i], cr_arg_dtype(b->rule.common));
    }
    if (b->op->tags & CR_TAG_UPDATES) /* its first argument is what becomes the result */
        args[0] = cr__batch_each(b, &b->args[0], rank);
    cr__batch_run(b, NULL, args);
}

/* ---- dimensions by name ---- */

static bool is_one_of(const char *name, const char *const *names, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!strcmp(name, names[i])) return true;
    return false;
}

static bool names_dim(const cr_param *p) {
    static const char *const names[] = { "dim", "dim0", "dim1", "dim2", "dims", "dimension", "axis", "axis0", "axis1",
                                         "source", "destination" };
    return p->type == CR_T_INT && is_one_of(p->name, names, CR_COUNT(names));
}

/* From the front there is one more; from the back nothing has changed. */
static cr_arg shifted(const cr_arg *a) {
    return a->kind == CR_ARG_INT && cr_dim_is_plain(a->u.i) && a->u.i >= 0 ? cr_arg_int(a->u.i + 1) : *a;
}

static cr_arg shifted_list(cr__batch *b, const cr_arg *a, bool examples_first) {
    cr_arg *list = cr__batch_list(b, a->n + 1u);
    size_t n = 0;
    if (!list) return cr_arg_none();
    if (examples_first) list[n++] = cr_arg_int(0);
    for (uint32_t k = 0; k < a->n; k++) list[n++] = shifted(&a->u.list[k]);
    return cr_arg_list(list, n);
}

/* The dimensions of one example, of which only those of one element where `ones` is set. */
static cr_arg all_dims(cr__batch *b, const cr_meta *m, int rank, bool ones) {
    cr_arg *list = cr__batch_list(b, (size_t)rank + 1);
    size_t n = 0;
    for (int d = 0; list && d < rank; d++)
        if (!ones || d >= m->rank || cr_dim_known(b->run.e->env, m->size[d], CR_EQ, 1) == CR_YES)
            list[n++] = cr_arg_int(d + 1);
    return list ? cr_arg_list(list, n) : cr_arg_none();
}

/* Sizes of a view or of a new tensor: what the rule says that one example has. */
static cr_arg sized(cr__batch *b, const cr_arg *given) {
    if (b->rule.nout == 1) return cr__batch_sizes(b, true, &b->rule.out[0].meta);
    cr_arg *list = cr__batch_list(b, given->n + 1u);
    if (!list) return cr_arg_none();
    list[0] = cr_arg_int(b->v->size);
    memcpy(list + 1, given->u.list, given->n * sizeof *list);
    return cr_arg_list(list, given->n + 1u);
}

static cr_arg led_by(cr__batch *b, const cr_arg *list, cr_arg first) {
    cr_arg *all = cr__batch_list(b, list->n + 1u);
    if (!all) return cr_arg_none();
    all[0] = first;
    memcpy(all + 1, list->u.list, list->n * sizeof *all);
    return cr_arg_list(all, list->n + 1u);
}

static bool has_dims(const cr_op *op) {
    for (uint16_t i = 0; i < op->schema.nparams; i++)
        if (names_dim(&op->schema.params[i])) return true;
    return false;
}

static void shift_argument(cr__batch *b, const cr_param *p, int rank, cr_arg *a) {
    static const char *const sizes[] = { "size", "input_sizes" };
    bool list = a->kind == CR_ARG_LIST, reduces = b->op->tags & CR_TAG_REDUCTION;
    const cr_meta *self = cr_arg_meta(&b->args[0]);
    if (names_dim(p) && p->list) {
        if ((!list || !a->n) && reduces) *a = all_dims(b, self, rank, false);
        else if (list) *a = shifted_list(b, a, cr_op_view(b->op) == CR_VIEW_PERMUTE && !strcmp(p->name, "dims"));
    } else if (names_dim(p)) {
        *a = shifted(a);
    } else if (list && is_one_of(p->name, sizes, CR_COUNT(sizes))) {
        *a = strcmp(p->name, "size") ? led_by(b, a, cr_arg_int(b->v->size)) : sized(b, a);
    } else if (list && !strcmp(p->name, "repeats")) {
        *a = led_by(b, a, cr_arg_int(1));
    } else if (a->kind == CR_ARG_FORMAT && (a->u.i == CR_CHANNELS_LAST || a->u.i == CR_CHANNELS_LAST_3D)) {
        a->u.i = CR_CONTIGUOUS; /* such formats are of a number of dimensions */
    }
}

/* The dimensions that the first tensor must have at least: as many as the list of sizes or repeats is long. */
static int wanted_rank(const cr__batch *b) {
    for (uint16_t i = 0; i < b->op->schema.nparams; i++) {
        const char *name = b->op->schema.params[i].name;
        bool counts = !strcmp(name, "repeats") || (!strcmp(name, "size") && cr_op_view(b->op) == CR_VIEW_EXPAND);
        if (counts && b->args[i].kind == CR_ARG_LIST) return (int)b->args[i].n;
    }
    return 0;
}

static bool has_index(const cr_op *op) {
    for (uint16_t i = 0; i < op->schema.nparams; i++)
        if (op->schema.params[i].type == CR_T_TENSOR && !strcmp(op->schema.params[i].name, "index")) return true;
    return false;
}

/* cat() leaves out vectors without elements, whatever the others are. */
static bool has_lists_of_ranks(const cr__batch *b) {
    for (uint16_t i = 0; i < b->op->schema.nparams; i++) {
        const cr_arg *list = &b->args[i];
        if (b->op->schema.params[i].type != CR_T_TENSOR || list->kind != CR_ARG_LIST) continue;
        for (size_t k = 1; k < list->n; k++) {
            const cr_meta *first = cr_arg_meta(&list->u.list[0]), *m = cr_arg_meta(&list->u.list[k]);
            if (first && m && first->rank != m->rank) return true;
        }
    }
    return false;
}

void cr__batch_dims(cr__batch *b) {
    const cr_schema *s = &b->op->schema;
    const cr_meta *self = cr_arg_meta(&b->args[0]);
    cr_arg *args = arguments(b);
    if ((b->unfit = has_lists_of_ranks(b)) || !args) return;
    /* along a dimension of one number there is one */
    cr_view_kind view = cr_op_view(b->op);
    bool lone = highest_rank(b) == 0 && has_dims(b->op) && view != CR_VIEW_ONES && view != CR_VIEW_PERMUTE;
    b->unfit = lone && (b->op->tags & CR_TAG_COPIES_0D);
    lone |= has_index(b->op); /* gather, scatter: 0-d ones are as good as vectors */
    bool draws = (b->op->tags & CR_TAG_RANDOM) && !has_dims(b->op); /* operands are broadcast */
    for (uint16_t i = 0; i < s->nparams; i++) {
        int rank = lone ? 1 : draws ? highest_rank(b) : i ? 0 : wanted_rank(b);
        if (s->params[i].type == CR_T_TENSOR) each_tensor(b, &args[i], rank, cr__batch_each);
    }
    int rank = self ? CR_MAX(self->rank, lone) : 0;
    for (uint16_t i = 0; i < s->nparams; i++) shift_argument(b, &s->params[i], rank, &args[i]);
    if (cr_op_view(b->op) == CR_VIEW_ONES && !self->rank && !b->rule.out[0].meta.rank) { /* nothing to squeeze */
        cr__batch_run(b, cr_op_find("aten::alias"), args);
        return;
    }
    if (cr_op_view(b->op) == CR_VIEW_ONES && s->nparams == 1) { /* squeeze() would take a single example, too */
        cr_arg ones[] = { args[0], all_dims(b, self, self->rank, true) };
        cr__batch_run(b, cr_op_find("aten::squeeze.dims"), ones);
        return;
    }
    for (uint16_t i = 0; i < s->nparams; i++) /* argmax(): of all elements */
        if (names_dim(&s->params[i]) && !s->params[i].list && args[i].kind == CR_ARG_NONE) {
            args[0] = CR_RUN(&b->run, "reshape", args[0], cr_arg_list((cr_arg[]){ cr_arg_int(b->v->size),
                                                                                  cr_arg_int(-1) }, 2));
            b->unfit |= b->v->size == 0 || s->nreturns != 1;
            args[i] = cr_arg_int(1);
        }
    cr__batch_run(b, NULL, args);
}

/* ---- more dimensions in front ---- */

void cr__batch_leading(cr__batch *b) {
    cr_arg *args = arguments(b);
    int rank = highest_rank(b);
    for (uint16_t i = 0; args && i < b->op->schema.nparams; i++) {
        const cr_meta *m = cr_arg_meta(&args[i]);
        bool counts = b->op->row->batch.rank && m && !(b->op->row->batch.rank > 1 && rt_is_integer(m->dtype));
        b->unfit |= counts && m->rank != rank; /* leading dimensions would be broadcast against the examples */
        if (b->op->schema.params[i].type == CR_T_TENSOR) each_tensor(b, &args[i], 0, cr__batch_each);
    }
    if (args && !b->unfit) cr__batch_run(b, NULL, args);
}

static bool is_mapped_inside(const cr__batch *b, const cr_arg *a) {
    if (a->kind != CR_ARG_LIST) return cr__is_mapped(b, a);
    for (uint32_t k = 0; k < a->n; k++)
        if (cr__is_mapped(b, &a->u.list[k])) return true;
    return false;
}

void cr__batch_first(cr__batch *b) {
    cr_arg *args = arguments(b);
    for (uint16_t i = 1; i < b->op->schema.nparams; i++) b->unfit |= is_mapped_inside(b, &b->args[i]);
    if (!args || b->unfit) return;
    for (uint16_t i = 0; i < b->op->schema.nparams; i++) /* fake_quantize along an axis */
        if (names_dim(&b->op->schema.params[i])) args[i] = shifted(&args[i]);
    args[0] = cr__batch_front(b, &args[0]);
    cr__batch_run(b, NULL, args);
}

/* ---- examples join another dimension ---- */

void cr__batch_fold(cr__batch *b) {
    const cr_schema *s = &b->op->schema;
    int rank = b->op->row->batch.rank;
    cr_arg *args = arguments(b);
    const cr_meta *self = cr_arg_meta(&b->args[0]);
    bool joins = self->rank == rank;
    if (!args) return;
    for (uint16_t i = 0; i < s->nparams; i++) {
        const cr_meta *m = cr_arg_meta(&b->args[i]);
        if (s->params[i].type == CR_T_TENSOR && m) {
            bool odd = m->rank != self->rank;
            b->unfit |= odd && is_mapped_inside(b, &b->args[i]);
            if (odd) continue;
            args[i] = cr__batch_each(b, &b->args[i], 0);
            if (joins) args[i] = CR_RUN(&b->run, "flatten.using_ints", args[i], cr_arg_int(0), cr_arg_int(1));
        } else if (!strcmp(s->params[i].name, "input_size") && args[i].n) {
            cr_arg *sizes = cr__batch_list(b, args[i].n);
            if (!sizes) return;
            memcpy(sizes, args[i].u.list, args[i].n * sizeof *sizes);
            sizes[0].u.i = cr_dim_mul(b->run.e->env, sizes[0].u.i, b->v->size);
            args[i].u.list = sizes;
        }
    }
    if (!b->unfit) cr__batch_run(b, NULL, args);
}

/* [examples, n, channels, ...] as [n, examples * channels, ...]; [examples, channels] as one dimension. */
static cr_arg join_channels(cr__batch *b, const cr_arg *a, int unused) {
    (void)unused;
    cr_arg x = cr__batch_each(b, a, 0);
    int at = a->u.t->meta.rank > 1;
    if (at) x = CR_RUN(&b->run, "movedim.int", x, cr_arg_int(0), cr_arg_int(1));
    return CR_RUN(&b->run, "flatten.using_ints", x, cr_arg_int(at), cr_arg_int(at + 1));
}

void cr__batch_channels(cr__batch *b) {
    cr_arg *args = arguments(b);
    const cr_meta *self = cr_arg_meta(&b->args[0]);
    b->unfit = self->rank < 2 || cr_dim_known(b->run.e->env, cr_meta_numel(b->run.e->env, self), CR_EQ, 0) != CR_NO;
    for (uint16_t i = 0; args && i < b->op->schema.nparams && !b->unfit; i++)
        if (b->op->schema.params[i].type == CR_T_TENSOR) each_tensor(b, &args[i], 0, join_channels);
    if (!args || b->unfit) return;
    cr__batch_run(b, NULL, args);
    for (uint16_t i = 0; i < b->op->schema.nreturns && i < b->rule.nout && !b->run.status; i++) {
        const cr_meta *m = &b->rule.out[i].meta;
        if (b->rule.out[i].none || m->rank < 2) continue;
        cr_arg *sizes = cr__batch_list(b, m->rank + 1u);
        if (!sizes) return;
        for (int d = 0; d <= m->rank; d++) sizes[d] = cr_arg_int(d == 1 ? b->v->size : m->size[d ? d - 1 : 0]);
        b->made[i] = CR_RUN(&b->run, "reshape", b->made[i], cr_arg_list(sizes, m->rank + 1u));
        b->dim[i] = 1;
    }
}

/* ---- products ---- */

void cr__batch_product(cr__batch *b) {
    const cr_product *p = &b->op->row->product;
    cr_arg operands[] = { cr__batch_front(b, &b->args[p->left - 1]), cr__batch_front(b, &b->args[p->right - 1]) };
    cr__batch_run(b, cr_op_find("aten::matmul"), operands);
}

/* ---- as_strided ---- */

/* Strides and offset are of the value's memory, in which the examples are a stride apart. */
void cr__batch_strided(cr__batch *b) {
    cr_arg *args = arguments(b);
    if (!args) return;
    args[0] = cr__batch_front(b, &b->args[0]);
    const cr_meta *m = cr__run_meta(&b->run, &args[0]);
    args[1] = led_by(b, &args[1], cr_arg_int(b->v->size));
    args[2] = led_by(b, &args[2], cr_arg_int(m->stride[0]));
    cr__batch_run(b, NULL, args);
}
