/* indexing.c: lowering of x[...] to ops.
 *
 * One walk over the items applies ints, slices and newaxes to the current value as view ops and gathers masks and index
 * tensors, each at the dimension it has then. If any were gathered, one index (or index_put_) follows. A bool is a
 * newaxis plus an index that keeps or drops it, so is a 0-d mask; a 0-d integer tensor is a number. */
#include "ops/indexing.h"

typedef struct lowering {
    cr_emitter *e;
    cr_arg now;       /* the value so far */
    bool owned;       /* now is ours to release (it is not the caller's tensor) */
    int rank;         /* of now */
    /* what `index` takes: an entry per dimension of now, one for all dimensions of a mask; NONE: all */
    cr_arg index[CR_MAX_INDEX];
    bool index_owned[CR_MAX_INDEX];
    int nindex, covered; /* covered: dimensions that masks take beyond their entry */
} lowering;

/* ---- emitting ---- */

static cr_status emit(cr_emitter *e, const char *name, const cr_arg *args, size_t n, const cr_keyword *keywords,
                      size_t nkeywords, cr_arg *result) {
    const cr_op *op = cr_op_find(name);
    if (!op) return CR_FAIL(CR_ENOTIMPL, "indexing needs the op '%s', which is not in the table", name);
    cr_arena arena;
    cr_arena_init(&arena);
    cr_binding binding;
    cr_status status = cr_bind(op, true, args, n, keywords, nkeywords, &arena, &binding);
    if (!status) status = e->call(e, op, binding.args, result);
    cr_arena_dispose(&arena);
    return status;
}

static void release(cr_emitter *e, cr_arg *a) {
    if (e->release) e->release(e, a, 1);
}

static void replace(lowering *w, cr_arg next) {
    if (w->owned) release(w->e, &w->now);
    w->now = next;
    w->owned = true;
}

static cr_status meta_of(lowering *w, const cr_arg *a, const cr_meta **out) {
    CR_TRY(w->e->meta(w->e, a, out));
    if (!*out) return CR_FAIL(CR_ETYPE, "only tensors can be indexed");
    return CR_OK;
}

/* The current value through one op of the form op(self, ...). */
static cr_status apply(lowering *w, const char *name, const cr_arg *rest, size_t n) {
    cr_arg args[8] = { w->now }, next;
    for (size_t i = 0; i < n; i++) args[i + 1] = rest[i];
    CR_TRY(emit(w->e, name, args, n + 1, NULL, 0, &next));
    replace(w, next);
    return CR_OK;
}

/* ---- items ---- */

static cr_status apply_int(lowering *w, int d, int original, const cr_index *item) {
    const cr_meta *m;
    CR_TRY(meta_of(w, &w->now, &m));
    if (!m->rank)
        return CR_FAIL(CR_EINDEX, "a 0-d tensor cannot be indexed with a number; use .item() to get its value");
    bool constant = item->value.kind == CR_ARG_NONE;
    if (constant && d < m->rank) {
        cr_dim size = m->size[d];
        bool low = cr_dim_known(w->e->env, item->start, CR_LT, cr_dim_neg(w->e->env, size)) == CR_YES;
        if (low || cr_dim_known(w->e->env, item->start, CR_GE, size) == CR_YES) {
            int64_t at = 0, n = 0;
            (void)(cr_dim_hint(w->e->env, item->start, &at) && cr_dim_hint(w->e->env, size, &n));
            return CR_FAIL(CR_EINDEX, "index %lld is out of bounds for dimension %d with size %lld", (long long)at,
                           original, (long long)n);
        }
    }
    cr_arg rest[] = { cr_arg_int(d), constant ? cr_arg_int(item->start) : item->value };
    CR_TRY(apply(w, "aten::select.int", rest, 2));
    w->rank--;
    return CR_OK;
}

/* A slice of everything is left out, except where it is the whole index: then it makes the new tensor. */
static cr_status apply_slice(lowering *w, int d, const cr_index *item, bool alone) {
    if (cr_dim_known(w->e->env, item->step, CR_LT, 1) == CR_YES)
        return CR_FAIL(CR_EVALUE, "the step of a slice must be greater than zero; use flip() for a reversed tensor");
    const cr_meta *m;
    CR_TRY(meta_of(w, &w->now, &m));
    if (!m->rank) return CR_FAIL(CR_EINDEX, "a 0-d tensor cannot be sliced; use .item() to get its value");
    cr_env *env = w->e->env;
    bool to_end = item->stop == INT64_MAX ||
                  (d < m->rank && cr_dim_known(env, m->size[d], CR_LE, item->stop) == CR_YES);
    bool all = to_end && cr_dim_known(env, item->start, CR_EQ, 0) == CR_YES &&
               cr_dim_known(env, item->step, CR_EQ, 1) == CR_YES;
    if (all && !alone) return CR_OK;
    cr_arg rest[] = { cr_arg_int(d), cr_arg_int(item->start), cr_arg_int(item->stop), cr_arg_int(item->step) };
    return apply(w, "aten::slice.Tensor", rest, 4);
}

static cr_status apply_newaxis(lowering *w, int d) {
    cr_arg dim = cr_arg_int(d);
    CR_TRY(apply(w, "aten::unsqueeze", &dim, 1));
    w->rank++;
    return CR_OK;
}

static cr_status gather(lowering *w, int d, cr_arg tensor, bool owned) {
    int entry = d - w->covered;
    if (entry >= CR_MAX_INDEX) {
        if (owned) release(w->e, &tensor);
        return CR_FAIL(CR_EINDEX, "too many indices: at most %d are supported", CR_MAX_INDEX);
    }
    while (w->nindex <= entry) {
        w->index_owned[w->nindex] = false;
        w->index[w->nindex++] = cr_arg_none();
    }
    w->index[entry] = tensor;
    w->index_owned[entry] = owned;
    return CR_OK;
}

/* True keeps the new dimension of size 1 (index [0]), false empties it (index []). */
static cr_status apply_bool(lowering *w, int d, bool keep) {
    CR_TRY(apply_newaxis(w, d));
    const cr_meta *m;
    CR_TRY(meta_of(w, &w->now, &m));
    cr_arg one = cr_arg_int(keep ? 1 : 0), size = cr_arg_list(&one, 1), index;
    cr_keyword keywords[] = { { "dtype", cr_arg_dtype(CR_I64) },
                              { "device",
                                { .kind = CR_ARG_DEVICE, .given = CR_GIVEN_KEYWORD, .u.device = m->device } } };
    CR_TRY(emit(w->e, "aten::zeros", &size, 1, keywords, 2, &index));
    return gather(w, d, index, true);
}

/* A mask without dimensions keeps or drops a new one, as its only element says: nobody may know that yet. */
static cr_status apply_mask(lowering *w, int d, const cr_arg *mask) {
    cr_arg args[] = { *mask, cr_arg_int(0) }, index;
    CR_TRY(apply_newaxis(w, d));
    CR_TRY(emit(w->e, "aten::unsqueeze", args, 2, NULL, 0, &index));
    return gather(w, d, index, true);
}

/* The number in a 0-d tensor, for the emitter to find out. */
static cr_status number_of(lowering *w, const cr_arg *tensor, cr_arg *number) {
    return emit(w->e, "aten::item", tensor, 1, NULL, 0, number);
}

/* Dimensions of x that an item takes up: a mask takes as many as it has. */
static cr_status taken(lowering *w, const cr_index *item, int *out) {
    *out = item->kind == CR_INDEX_INT || item->kind == CR_INDEX_SLICE;
    if (item->kind != CR_INDEX_TENSOR) return CR_OK;
    const cr_meta *m;
    CR_TRY(meta_of(w, &item->value, &m));
    *out = m->dtype == CR_BOOL || m->dtype == CR_U8 ? m->rank : 1;
    return CR_OK;
}

/* A mask or index tensor at dimension *d of the current value; `original` counts dimensions of x, for messages. */
static cr_status apply_tensor(lowering *w, int *d, int *original, const cr_index *item) {
    const cr_meta *m;
    CR_TRY(meta_of(w, &item->value, &m));
    bool mask = m->dtype == CR_BOOL || m->dtype == CR_U8;
    bool each = item->value.kind == CR_ARG_TENSOR && item->value.u.t->mapped; /* a number for each example of a vmap */
    if (m->rank || !cr_dtype_is_integral(m->dtype) || (each && !mask)) {
        CR_TRY(gather(w, *d, item->value, false));
        int dims = mask ? m->rank : 1;
        w->covered += dims - 1;
        *d += dims;
        *original += dims;
        return CR_OK;
    }
    if (mask) return apply_mask(w, (*d)++, &item->value);
    cr_arg number;
    CR_TRY(number_of(w, &item->value, &number));
    cr_index at = cr_index_int(number.u.i);
    if (number.kind == CR_ARG_VALUE || number.kind == CR_ARG_SYM) at.value = number;
    cr_status status = apply_int(w, *d, *original, &at);
    release(w->e, &number);
    ++*original;
    return status;
}

static cr_status walk(lowering *w, const cr_index *items, size_t n) {
    const cr_meta *m;
    CR_TRY(meta_of(w, &w->now, &m));
    int rank = w->rank = m->rank, specified = 0;
    for (size_t i = 0; i < n; i++) {
        int k;
        CR_TRY(taken(w, &items[i], &k));
        specified += k;
    }
    bool alone = n == 1, better_message = alone && !rank && items[0].kind != CR_INDEX_TENSOR;
    if (specified > rank && !better_message)
        return CR_FAIL(CR_EINDEX, "too many indices for tensor of dimension %d", rank);
    int d = 0, original = 0;
    for (size_t i = 0; i < n; i++) {
        const cr_index *item = &items[i];
        switch ((cr_index_kind)item->kind) {
        case CR_INDEX_INT: CR_TRY(apply_int(w, d, original++, item)); break;
        case CR_INDEX_SLICE:
            CR_TRY(apply_slice(w, d++, item, alone));
            original++;
            break;
        case CR_INDEX_NEWAXIS: CR_TRY(apply_newaxis(w, d++)); break;
        case CR_INDEX_BOOL: CR_TRY(apply_bool(w, d++, item->start != 0)); break;
        case CR_INDEX_ELLIPSIS:
            d += rank - specified;
            original += rank - specified;
            break;
        case CR_INDEX_TENSOR: CR_TRY(apply_tensor(w, &d, &original, item)); break;
        }
    }
    return CR_OK;
}

static void finish(lowering *w) {
    for (int i = 0; i < w->nindex; i++)
        if (w->index_owned[i]) release(w->e, &w->index[i]);
    if (w->owned) release(w->e, &w->now);
}

/* ---- reading and writing ---- */

cr_status cr_index_get(cr_emitter *e, const cr_arg *self, const cr_index *items, size_t n, cr_arg *result) {
    lowering w = { .e = e, .now = *self };
    cr_status status = CR_OK;
    CR_TRY_OUT(walk(&w, items, n));
    if (w.nindex) {
        cr_arg list = cr_arg_list(w.index, (size_t)w.nindex);
        CR_TRY_OUT(apply(&w, "aten::index.Tensor", &list, 1));
    } else if (!w.owned) {
        CR_TRY_OUT(apply(&w, "aten::alias", NULL, 0)); /* x[...] is a new tensor, too */
    }
    *result = w.now;
    w.owned = false;
out:
    finish(&w);
    return status;
}

/* A value may have more dimensions than the `rank` of what it is written to, as long as the extra ones in front are
 * 1. */
static cr_status drop_leading_ones(lowering *w, const cr_arg *value, int rank, cr_arg *out, bool *owned) {
    const cr_meta *m;
    CR_TRY(meta_of(w, value, &m));
    int drop = 0;
    while (drop < m->rank && m->rank - drop > rank && cr_dim_known(w->e->env, m->size[drop], CR_EQ, 1) == CR_YES)
        drop++;
    *out = *value;
    *owned = false;
    if (!drop) return CR_OK;
    cr_arg sizes[CR_MAX_RANK];
    for (int d = drop; d < m->rank; d++) sizes[d - drop] = cr_arg_int(m->size[d]);
    cr_arg args[] = { *value, cr_arg_list(sizes, (size_t)(m->rank - drop)) };
    CR_TRY(emit(w->e, "aten::view", args, 2, NULL, 0, out));
    *owned = true;
    return CR_OK;
}

static cr_status number_tensor(lowering *w, const cr_arg *number, cr_arg *out) {
    const cr_meta *m;
    CR_TRY(meta_of(w, &w->now, &m));
    cr_keyword keywords[] = { { "dtype", cr_arg_dtype(m->dtype) },
                              { "device",
                                { .kind = CR_ARG_DEVICE, .given = CR_GIVEN_KEYWORD, .u.device = m->device } } };
    return emit(w->e, "aten::scalar_tensor", number, 1, keywords, 2, out);
}

static cr_status write_indexed(lowering *w, const cr_arg *value, bool is_tensor) {
    cr_arg source, done;
    bool owned = true;
    if (is_tensor) CR_TRY(drop_leading_ones(w, value, 0, &source, &owned));
    else CR_TRY(number_tensor(w, value, &source));
    cr_arg args[] = { w->now, cr_arg_list(w->index, (size_t)w->nindex), source };
    cr_status status = emit(w->e, "aten::index_put_", args, 3, NULL, 0, &done);
    if (!status) release(w->e, &done);
    if (owned) release(w->e, &source);
    return status;
}

static cr_status write_plain(lowering *w, const cr_arg *value, bool is_tensor) {
    cr_arg source = *value, done;
    bool owned = false;
    const cr_meta *to, *from = NULL;
    CR_TRY(meta_of(w, &w->now, &to));
    if (is_tensor) CR_TRY(meta_of(w, value, &from));
    const char *op = !is_tensor ? "aten::fill_.Scalar" : from->rank || !to->rank ? "aten::copy_" : "aten::fill_.Tensor";
    if (is_tensor && from->rank) CR_TRY(drop_leading_ones(w, value, to->rank, &source, &owned));
    cr_arg args[] = { w->now, source };
    cr_status status = emit(w->e, op, args, 2, NULL, 0, &done);
    if (!status) release(w->e, &done);
    if (owned) release(w->e, &source);
    return status;
}

cr_status cr_index_set(cr_emitter *e, const cr_arg *self, const cr_index *items, size_t n, const cr_arg *value) {
    lowering w = { .e = e, .now = *self };
    cr_status status = CR_OK;
    const cr_meta *m;
    CR_TRY_OUT(e->meta(e, value, &m));
    CR_TRY_OUT(walk(&w, items, n));
    CR_TRY_OUT(w.nindex ? write_indexed(&w, value, m != NULL) : write_plain(&w, value, m != NULL));
out:
    finish(&w);
    return status;
}
