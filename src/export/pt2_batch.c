/* pt2_batch.c: torch.vmap inside an archive, taken apart while its graph is read.
 *
 * PyTorch writes the body of a vmap as it is for one example, between calls that add and remove a batch dimension. Here
 * a value of the body is read as all examples at once: its batch dimensions, one a level, come first, the outermost
 * level leading. A call is rewritten by one of a few rules, for the op's kind; what no rule covers is called once for
 * each example, as long as these are few. Every result must have the dtype and rank that the archive says, plus the
 * batch dimensions. */
#include "export/pt2_batch.h"

#include "ops/expand.h"

#include <stdio.h>

enum { MOST_CALLS = 256 }; /* of an op that has no rule */

/* ---- levels ---- */

static int count_of(uint32_t levels) { return __builtin_popcount(levels); }
static uint32_t below(uint32_t levels, int level) { return levels & ((1u << level) - 1); }

uint32_t cr__batch_levels(const cr__batching *b, const cr_arg *a) {
    uint32_t found = 0;
    if (a->kind == CR_ARG_VALUE && (size_t)a->u.i < b->levels.n) found = b->levels.at[a->u.i];
    for (uint32_t i = 0; a->kind == CR_ARG_LIST && i < a->n; i++) found |= cr__batch_levels(b, &a->u.list[i]);
    return found;
}

cr_status cr__batch_mark(cr__batching *b, uint32_t value, uint32_t levels) {
    while (b->levels.n <= value) CR_TRY(cr_vec_push(&b->levels, 0));
    b->levels.at[value] = levels;
    return CR_OK;
}

void cr__batch_dispose(cr__batching *b) { cr_vec_dispose(&b->levels); }

static cr_status check_level(int64_t level) {
    return level > 0 && level < CR_BATCH_LEVELS ? CR_OK
                                                : CR_FAIL(CR_EFORMAT, "vmap: %lld is no level; 1 to %d are there",
                                                          (long long)level, CR_BATCH_LEVELS - 1);
}

cr_status cr__batch_enter(cr__batching *b, const cr_arg *size, const char *randomness) {
    if (b->depth + 1 >= CR_BATCH_LEVELS)
        return CR_FAIL(CR_EUNSUPPORTED, "vmap: more than %d levels inside each other", CR_BATCH_LEVELS - 1);
    b->depth++;
    b->size[b->depth] = size->kind == CR_ARG_INT ? size->u.i : -1;
    b->different[b->depth] = !strcmp(randomness, "different");
    return CR_OK;
}

cr_status cr__batch_leave(cr__batching *b) {
    if (!b->depth) return CR_FAIL(CR_EFORMAT, "vmap: a level is left that was not entered");
    b->depth--;
    return CR_OK;
}

bool cr__batch_draws_differently(const cr__batching *b) {
    for (int i = 1; i <= b->depth; i++)
        if (b->different[i]) return true;
    return false;
}

/* ---- shapes ---- */

/* n: batch dimensions of the results */
typedef struct batch_call { cr__batching *b; cr__run r; uint32_t levels; int n; } batch_call;

static int logical_rank(batch_call *c, const cr_arg *a) {
    return cr__run_meta(&c->r, a)->rank - count_of(cr__batch_levels(c->b, a));
}

/* With a dimension of size 1 for each level that it lacks; then `pad` more behind them. */
static cr_arg aligned(batch_call *c, cr_arg x, int pad) {
    uint32_t own = cr__batch_levels(c->b, &x);
    for (int level = 1, at = 0; level < CR_BATCH_LEVELS; level++) {
        if (!(c->levels >> level & 1)) continue;
        if (!(own >> level & 1)) x = CR_RUN(&c->r, "unsqueeze", x, cr_arg_int(at));
        at++;
    }
    for (int i = 0; i < pad; i++) x = CR_RUN(&c->r, "unsqueeze", x, cr_arg_int(c->n));
    return x;
}

/* The batch sizes of all levels, then `rest`. */
static int with_sizes(batch_call *c, const cr_arg *rest, int nrest, cr_arg *out) {
    int n = 0;
    for (int level = 1; level < CR_BATCH_LEVELS; level++)
        if (c->levels >> level & 1) out[n++] = cr_arg_int(c->b->size[level]);
    for (int i = 0; i < nrest; i++) out[n++] = rest[i];
    return n;
}

/* aligned, and repeated along the levels that it lacks. */
static cr_arg expanded(batch_call *c, cr_arg x) {
    int rank = logical_rank(c, &x);
    uint32_t own = cr__batch_levels(c->b, &x);
    x = aligned(c, x, 0);
    if (own == c->levels) return x;
    cr_arg rest[CR_MAX_RANK], size[2 * CR_MAX_RANK];
    for (int d = 0; d < rank; d++) rest[d] = cr_arg_int(-1);
    int n = with_sizes(c, rest, rank, size);
    return CR_RUN(&c->r, "expand", x, cr_arg_list(size, (size_t)n));
}

static bool is_tensor(batch_call *c, const cr_arg *a) {
    const cr_meta *m = NULL;
    return a->kind == CR_ARG_VALUE && !c->r.e->meta(c->r.e, a, &m) && m;
}

/* ---- rules: each changes `args` (a copy) and may change the op; false: it does not cover the call ---- */

typedef bool batch_rule(batch_call *c, const cr_op **op, cr_arg *args);

static bool only_first(batch_call *c, const cr_op *op, const cr_arg *args) {
    for (uint16_t k = 1; k < op->schema.nparams; k++)
        if (cr__batch_levels(c->b, &args[k])) return false;
    return op->schema.nparams && args[0].kind == CR_ARG_VALUE;
}

/* Element by element: batch dimensions lead, the others meet from the right. */
static bool pointwise(batch_call *c, const cr_op **op, cr_arg *args) {
    int rank = 0;
    for (uint16_t k = 0; k < (*op)->schema.nparams; k++) {
        if (args[k].kind == CR_ARG_LIST && cr__batch_levels(c->b, &args[k])) return false;
        if (is_tensor(c, &args[k]) && logical_rank(c, &args[k]) > rank) rank = logical_rank(c, &args[k]);
    }
    for (uint16_t k = 0; k < (*op)->schema.nparams; k++)
        if (is_tensor(c, &args[k]) && cr__batch_levels(c->b, &args[k]))
            args[k] = aligned(c, args[k], rank - logical_rank(c, &args[k]));
    return true;
}

/* Works on the last dimensions, or on all alike: those in front are a batch anyway. */
static bool leading(batch_call *c, const cr_op **op, cr_arg *args) { return only_first(c, *op, args); }
static bool looked_up(batch_call *c, const cr_op **op, cr_arg *args) { /* weight, indices, ... */
    (void)op;
    return !cr__batch_levels(c->b, &args[0]);
}
static bool turned(batch_call *c, const cr_op **op, cr_arg *args) { /* t */
    int rank = logical_rank(c, &args[0]);
    *op = cr_op_find(rank < 2 ? "aten::alias" : "aten::transpose.int");
    args[1] = cr_arg_int(-2);
    args[2] = cr_arg_int(-1);
    return *op != NULL;
}

static bool shift(int64_t *dim, int rank, int by) {
    if (*dim < -rank || *dim >= rank) return false;
    *dim = (*dim < 0 ? *dim + rank : *dim) + by;
    return true;
}

static bool is_dim(const cr_param *p) {
    static const char *const names[] = { "dim", "dims", "dim0", "dim1", "start_dim", "end_dim" };
    for (size_t i = 0; i < CR_COUNT(names); i++)
        if (!strcmp(p->name, names[i])) return p->type == CR_T_INT;
    return false;
}

/* Dimensions are counted from behind the batch ones; none named: all of the example's. */
static bool shift_dims(batch_call *c, const cr_op *op, cr_arg *args, int rank, cr_arg *room) {
    for (uint16_t k = 0; k < op->schema.nparams; k++) {
        if (!is_dim(&op->schema.params[k])) continue;
        cr_arg *a = &args[k];
        if (a->kind == CR_ARG_INT && !shift(&a->u.i, rank, c->n)) return false;
        if (a->kind == CR_ARG_INT) continue;
        if (!op->schema.params[k].list || (a->kind != CR_ARG_LIST && a->kind != CR_ARG_NONE)) return false;
        bool all = a->kind == CR_ARG_NONE || !a->n;
        int n = all ? rank : (int)a->n;
        if (!n || n > CR_MAX_RANK) return false;
        for (int i = 0; i < n; i++) {
            room[i] = all ? cr_arg_int(i) : a->u.list[i];
            if (room[i].kind != CR_ARG_INT || !shift(&room[i].u.i, rank, c->n)) return false;
        }
        *a = cr_arg_list(room, (size_t)n);
    }
    return true;
}

static bool along_dims(batch_call *c, const cr_op **op, cr_arg *args) {
    int rank = logical_rank(c, &args[0]) + (!strcmp((*op)->schema.name, "unsqueeze") ? 1 : 0);
    return only_first(c, *op, args) && rank && shift_dims(c, *op, args, rank, c->b->room);
}

static bool gathered(batch_call *c, const cr_op **op, cr_arg *args) { /* self, dim, index */
    int rank = logical_rank(c, &args[0]);
    if (!rank || rank != logical_rank(c, &args[2])) return false;
    args[0] = expanded(c, args[0]);
    args[2] = expanded(c, args[2]);
    return shift_dims(c, *op, args, rank, c->b->room);
}

/* cat, stack: a list of tensors and a dim. */
static bool joined(batch_call *c, const cr_op **op, cr_arg *args) {
    bool stacks = !strcmp((*op)->schema.name, "stack");
    cr_arg *items = cr_graph_alloc(c->b->graph, args[0].n * sizeof *items);
    int rank = 0;
    if (!items || args[0].kind != CR_ARG_LIST) return false;
    for (uint32_t i = 0; i < args[0].n; i++) {
        int own = logical_rank(c, &args[0].u.list[i]);
        if (i && own != rank) return false; /* cat skips empty vectors among others */
        rank = own;
        items[i] = expanded(c, args[0].u.list[i]);
    }
    args[0].u.list = items;
    return shift_dims(c, *op, args, rank + stacks, c->b->room);
}

/* view, reshape, expand: the sizes are the example's. A view of what the batch dimension was moved in front of may need
 * a copy. */
static bool sized(batch_call *c, const cr_op **op, cr_arg *args) { /* self, size */
    if (!only_first(c, *op, args) || args[1].kind != CR_ARG_LIST || args[1].n + (uint32_t)c->n > CR_MAX_RANK)
        return false;
    bool expands = !strcmp((*op)->schema.name, "expand");
    int rank = logical_rank(c, &args[0]), n = (int)args[1].n;
    args[0] = aligned(c, args[0], expands ? n - rank : 0);
    int total = with_sizes(c, args[1].u.list, n, c->b->room);
    args[1] = cr_arg_list(c->b->room, (size_t)total);
    if (!expands) *op = cr_op_find("aten::reshape");
    return *op != NULL;
}

static bool permuted(batch_call *c, const cr_op **op, cr_arg *args) { /* self, dims */
    int rank = logical_rank(c, &args[0]), n = 0;
    if (!only_first(c, *op, args) || args[1].kind != CR_ARG_LIST || (int)args[1].n != rank) return false;
    for (; n < c->n; n++) c->b->room[n] = cr_arg_int(n);
    for (int i = 0; i < rank; i++) {
        c->b->room[n] = args[1].u.list[i];
        if (c->b->room[n].kind != CR_ARG_INT || !shift(&c->b->room[n].u.i, rank, c->n)) return false;
        n++;
    }
    args[1] = cr_arg_list(c->b->room, (size_t)n);
    return true;
}

/* A reduction of everything: of everything that is the example's. */
static bool reduced(batch_call *c, const cr_op **op, cr_arg *args) {
    static const char *const ways[][2] = {
        { "sum", "aten::sum.dim_IntList" }, { "mean", "aten::mean.dim" }, { "any", "aten::any.dims" },
        { "all", "aten::all.dims" },        { "max", "aten::amax" },      { "min", "aten::amin" }
    };
    if (!only_first(c, *op, args)) return false;
    int rank = logical_rank(c, &args[0]);
    cr_arg x = args[0], dtype = (*op)->schema.nparams > 1 ? args[1] : cr_arg_none();
    const char *name = (*op)->schema.name;
    if (!rank) x = CR_RUN(&c->r, "unsqueeze", x, cr_arg_int(c->n)), rank = 1;
    for (int i = 0; i < rank; i++) c->b->room[i] = cr_arg_int(c->n + i);
    *op = NULL;
    for (size_t i = 0; i < CR_COUNT(ways); i++)
        if (!strcmp(ways[i][0], name)) *op = cr_op_find(ways[i][1]);
    if (!*op) return false;
    cr_arg made[] = { x, cr_arg_list(c->b->room, (size_t)rank), cr_arg_bool(false), dtype };
    for (uint16_t k = 0; k < (*op)->schema.nparams; k++) args[k] = made[k];
    return true;
}

/* Products: vectors become matrices for a moment, and what lies in front of the matrices is a batch. */
static cr_arg product(batch_call *c, cr_arg a, cr_arg b) {
    int ranks[2] = { logical_rank(c, &a), logical_rank(c, &b) }, most = 2;
    bool row = ranks[0] == 1, column = ranks[1] == 1;
    cr_arg x[2] = { a, b };
    for (int i = 0; i < 2; i++)
        if (ranks[i] > most) most = ranks[i];
    for (int i = 0; i < 2; i++) {
        uint32_t own = cr__batch_levels(c->b, &x[i]);
        int pad = most - (ranks[i] < 2 ? 2 : ranks[i]);
        if (own) x[i] = aligned(c, x[i], 0);
        if (ranks[i] == 1) x[i] = CR_RUN(&c->r, "unsqueeze", x[i], cr_arg_int(i ? -1 : -2));
        for (int k = 0; own && k < pad; k++) x[i] = CR_RUN(&c->r, "unsqueeze", x[i], cr_arg_int(c->n));
    }
    cr_arg y = CR_RUN(&c->r, "matmul", x[0], x[1]);
    if (column) y = CR_RUN(&c->r, "squeeze.dim", y, cr_arg_int(-1));
    if (row) y = CR_RUN(&c->r, "squeeze.dim", y, cr_arg_int(column ? -1 : -2));
    return y;
}

static bool multiplied(batch_call *c, const cr_op **op, cr_arg *args) { /* mm, bmm, mv, dot, matmul */
    if (!logical_rank(c, &args[0]) || !logical_rank(c, &args[1])) return false;
    args[0] = product(c, args[0], args[1]);
    *op = cr_op_find("aten::alias");
    return *op != NULL;
}

static bool linear(batch_call *c, const cr_op **op, cr_arg *args) { /* input, weight, bias */
    if (logical_rank(c, &args[1]) != 2 || !logical_rank(c, &args[0])) return false;
    if (!cr__batch_levels(c->b, &args[1]) && !cr__batch_levels(c->b, &args[2])) return true;
    uint32_t of_weight = cr__batch_levels(c->b, &args[1]);
    int rank = logical_rank(c, &args[0]);
    cr_arg turned_weight = CR_RUN(&c->r, "transpose.int", args[1], cr_arg_int(-2), cr_arg_int(-1));
    if (c->r.status || cr__batch_mark(c->b, (uint32_t)turned_weight.u.i, of_weight)) return false;
    cr_arg y = product(c, args[0], turned_weight);
    bool biased = args[2].kind == CR_ARG_VALUE;
    if (biased) args[1] = cr__batch_levels(c->b, &args[2]) ? aligned(c, args[2], rank - 1) : args[2];
    args[0] = y;
    args[2] = cr_arg_int(1);
    *op = cr_op_find(biased ? "aten::add.Tensor" : "aten::alias");
    return *op != NULL;
}

typedef struct batch_row { const char *names; batch_rule *rule; } batch_row;
static const batch_row rows[] = {
    { " clone detach alias contiguous lift_fresh to.dtype to.dtype_layout _to_copy zeros_like ones_like full_like "
      "empty_like rand_like layer_norm native_layer_norm rms_norm tril triu mT mH linalg_inv linalg_inv_ex linalg_det "
      "linalg_eigh _linalg_eigh linalg_svd _linalg_svd linalg_cholesky linalg_cholesky_ex linalg_pinv.atol_rtol_float "
      "one_hot ",
      leading },
    { " embedding ", looked_up },
    { " t ", turned },
    { " sum.dim_IntList mean.dim amax amin argmax argmin any.dim all.dim any.dims all.dims prod.dim_int var.correction "
      "std.correction var.dim std.dim softmax.int log_softmax.int _softmax _log_softmax cumsum cumprod logsumexp "
      "select.int slice.Tensor transpose.int squeeze.dim squeeze.dims unsqueeze flip narrow sort sort.stable argsort "
      "topk max.dim min.dim median.dim linalg_vector_norm norm.ScalarOpt_dim unbind.int split.Tensor split_with_sizes "
      "chunk flatten.using_ints index_select cummax cummin ",
      along_dims },
    { " gather ", gathered },
    { " cat stack ", joined },
    { " view reshape _unsafe_view expand ", sized },
    { " permute ", permuted },
    { " sum mean any all max min ", reduced },
    { " mm bmm mv dot matmul ", multiplied },
    { " linear ", linear },
};

static batch_rule *rule_of(const cr_op *op) {
    if (op->row->scalar) return pointwise;
    if (strcmp(op->schema.ns, "aten")) return NULL;
    char name[80];
    int n = snprintf(name, sizeof name, " %s ", op->name + strlen("aten::"));
    for (size_t i = 0; n < (int)sizeof name && i < CR_COUNT(rows); i++)
        if (strstr(rows[i].names, name)) return rows[i].rule;
    return NULL;
}

/* ---- example by example ---- */

static cr_arg example(batch_call *c, cr_arg a, int64_t index) {
    if (a.kind == CR_ARG_LIST && cr__batch_levels(c->b, &a)) {
        cr_arg *items = cr_graph_alloc(c->b->graph, a.n * sizeof *items);
        if (!items) return c->r.status = CR_ENOMEM, a;
        for (uint32_t i = 0; i < a.n; i++) items[i] = example(c, a.u.list[i], index);
        a.u.list = items;
        return a;
    }
    uint32_t own = cr__batch_levels(c->b, &a);
    int64_t rest = index;
    for (int level = CR_BATCH_LEVELS - 1; level > 0 && own; level--) { /* the innermost changes fastest */
        if (!(c->levels >> level & 1)) continue;
        int64_t at = rest % c->b->size[level];
        rest /= c->b->size[level];
        if (own >> level & 1)
            a = CR_RUN(&c->r, "select.int", a, cr_arg_int(count_of(below(own, level))), cr_arg_int(at));
    }
    return a;
}

static cr_status one_by_one(batch_call *c, const cr_op *op, const cr_arg *args, cr_arg *results) {
    int64_t calls = 1;
    for (int level = 1; level < CR_BATCH_LEVELS; level++) {
        if (!(c->levels >> level & 1)) continue;
        cr_dim size = c->b->size[level];
        if (!cr_dim_is_plain(size) || size < 1 || (calls *= size) > MOST_CALLS)
            return CR_FAIL(CR_EUNSUPPORTED,
                           "vmap over %s: there is no rule for this op, and the batch is not known to be of 1 to %d "
                           "examples",
                           op->name, MOST_CALLS);
    }
    uint16_t n = op->schema.nreturns;
    for (uint16_t i = 0; i < n; i++)
        if (op->schema.returns[i].list || op->schema.returns[i].type != CR_T_TENSOR || op->schema.varargs_returns)
            return CR_FAIL(CR_EUNSUPPORTED, "vmap over %s: there is no rule for this op", op->name);
    cr_arg *made = cr_graph_alloc(c->b->graph, (size_t)(calls * n) * sizeof *made), given[CR_MAX_PARAMS];
    if (!made) return CR_ENOMEM;
    for (int64_t i = 0; i < calls && !c->r.status; i++) {
        for (uint16_t k = 0; k < op->schema.nparams; k++) given[k] = example(c, args[k], i);
        const cr_arg *got = cr__run_call(&c->r, op->name, op->schema.nparams, given);
        for (uint16_t k = 0; k < n && !c->r.status; k++) made[k * calls + i] = got[k];
    }
    for (uint16_t k = 0; k < n && !c->r.status; k++) {
        cr_arg all = CR_RUN(&c->r, "stack", cr_arg_list(made + k * calls, (size_t)calls), cr_arg_int(0)),
               size[2 * CR_MAX_RANK], rest[CR_MAX_RANK];
        const cr_meta *m = cr__run_meta(&c->r, &all);
        for (int d = 1; d < m->rank; d++) rest[d - 1] = cr_arg_int(m->size[d]);
        int total = with_sizes(c, rest, m->rank ? m->rank - 1 : 0, size);
        results[k] = c->n == 1 ? all : CR_RUN(&c->r, "reshape", all, cr_arg_list(size, (size_t)total));
    }
    return c->r.status;
}

/* ---- calls ---- */

static batch_call begin(cr__batching *b, cr_graph *g, uint32_t levels) {
    b->graph = g;
    return (batch_call){ .b = b, .r = { .e = cr_graph_emitter(g) }, .levels = levels, .n = count_of(levels) };
}

static cr_status finish(batch_call *c, cr_status status) {
    if (!status) status = c->r.status;
    cr_vec_dispose(&c->r.made); /* values belong to the graph */
    return status;
}

cr_status cr__batch_call(cr__batching *b, cr_graph *g, const cr_op *op, const cr_arg *args, cr_arg *results) {
    uint32_t levels = 0;
    cr_arg given[CR_MAX_PARAMS];
    for (uint16_t k = 0; k < op->schema.nparams; k++) levels |= cr__batch_levels(b, &args[k]);
    if (op->variant != CR_FUNCTIONAL)
        return CR_FAIL(CR_EUNSUPPORTED,
                       "vmap over %s: ops that write to a tensor are not taken apart; write the functional form",
                       op->name);
    if ((op->tags & CR_TAG_HIGHER_ORDER) || cr_op_draws(op, args))
        return CR_FAIL(CR_EUNSUPPORTED, "vmap over %s is not supported", op->name);
    batch_call c = begin(b, g, levels);
    batch_rule *rule = rule_of(op);
    const cr_op *called = op;
    memcpy(given, args, op->schema.nparams * sizeof *given);
    bool covered = rule && rule(&c, &called, given);
    if (c.r.status) return finish(&c, c.r.status);
    if (covered) return finish(&c, c.r.e->call(c.r.e, called, given, results));
    return finish(&c, one_by_one(&c, op, args, results));
}

/* The dimension of the level goes behind those of the levels around it. */
cr_status cr__batch_add(cr__batching *b, cr_graph *g, const cr_arg *x, int64_t dim, int64_t level, cr_arg *out) {
    uint32_t own = cr__batch_levels(b, x);
    batch_call c = begin(b, g, own);
    CR_TRY(check_level(level));
    const cr_meta *m = cr__run_meta(&c.r, x);
    int rank = m->rank - c.n, before = count_of(below(own, (int)level));
    if (own >> level & 1) return CR_FAIL(CR_EFORMAT, "vmap: level %lld is added twice", (long long)level);
    if (!shift(&dim, rank, c.n)) return CR_FAIL(CR_EFORMAT, "vmap: there is no dimension %lld", (long long)dim);
    b->size[level] = m->size[dim];
    *out = CR_RUN(&c.r, "movedim.int", *x, cr_arg_int(dim), cr_arg_int(before));
    return finish(&c, CR_OK);
}

cr_status cr__batch_remove(cr__batching *b, cr_graph *g, const cr_arg *x, int64_t level, const cr_arg *size,
                           int64_t dim, cr_arg *out, uint32_t *left) {
    uint32_t own = cr__batch_levels(b, x);
    batch_call c = begin(b, g, own);
    CR_TRY(check_level(level));
    *left = own & ~(1u << level);
    int rank = cr__run_meta(&c.r, x)->rank - c.n + 1, around = count_of(*left);
    if (!shift(&dim, rank, around))
        return CR_FAIL(CR_EFORMAT, "vmap: there is no place %lld for the batch dimension", (long long)dim);
    if (own >> level & 1) {
        *out = CR_RUN(&c.r, "movedim.int", *x, cr_arg_int(count_of(below(own, (int)level))), cr_arg_int(dim));
        return finish(&c, CR_OK);
    }
    cr_arg y = CR_RUN(&c.r, "unsqueeze", *x, cr_arg_int(dim)), sizes[CR_MAX_RANK]; /* the same for every example */
    for (int d = 0; d < rank + around && d < CR_MAX_RANK; d++) sizes[d] = d == dim ? *size : cr_arg_int(-1);
    *out = CR_RUN(&c.r, "expand", y, cr_arg_list(sizes, (size_t)(rank + around)));
    return finish(&c, CR_OK);
}
