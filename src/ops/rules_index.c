/* rules_index.c: results of indexing, gathers, scatters and masks. */
#include "ops/rules.h"

static cr_status require_same_dtype(cr_rule *r, int a, int b) {
    const cr_meta *x = cr_rule_meta(r, a), *y = cr_rule_meta(r, b);
    if (!y || x->dtype == y->dtype) return CR_OK;
    return CR_FAIL(CR_ERUNTIME, "%s: '%s' is %s but '%s' is %s; they must have the same dtype", r->op->schema.name,
                   r->op->schema.params[a].name, cr_dtype_aten(x->dtype), r->op->schema.params[b].name,
                   cr_dtype_aten(y->dtype));
}

static cr_status require_index_dtype(cr_rule *r, int i, cr_status code) {
    const cr_meta *m = cr_rule_meta(r, i);
    if (m->dtype == CR_I64 || m->dtype == CR_I32) return CR_OK;
    return CR_FAIL(code, "%s: argument '%s' must be int64 or int32, not %s", r->op->schema.name,
                   r->op->schema.params[i].name, cr_dtype_aten(m->dtype));
}

static cr_status require_int64(cr_rule *r, int i) {
    const cr_meta *m = cr_rule_meta(r, i);
    if (m->dtype == CR_I64) return CR_OK;
    return CR_FAIL(CR_ERUNTIME, "%s: argument '%s' must be int64, not %s", r->op->schema.name,
                   r->op->schema.params[i].name, cr_dtype_aten(m->dtype));
}

/* ---- x[i, :, mask] ---- */

typedef struct indexed {
    bool used[CR_MAX_RANK];
    cr_meta index[CR_MAX_RANK]; /* per dimension of self */
    int dims;                   /* covered */
    int rank;                   /* of the index shape */
    cr_dim size[CR_MAX_RANK];
    int first;                  /* where the index shape goes in the result */
} indexed;

static bool is_mask(const cr_meta *m) { return m->dtype == CR_BOOL || m->dtype == CR_U8; }

/* How many elements of these sizes there can be at most: the bound of a count over them. */
static int64_t most(cr_rule *r, int rank, const cr_dim *size) {
    cr_dim n = 1;
    if (!r->env || r->count) return INT64_MAX;
    for (int i = 0; i < rank; i++) n = cr_dim_mul(r->env, n, size[i]);
    return cr_sym_range(r->env, cr_dim_sym(r->env, n)).hi;
}

static cr_status read_mask(cr_rule *r, const cr_meta *self, const cr_meta *m, int slot, int position, indexed *x) {
    if (x->dims + m->rank > self->rank)
        return CR_FAIL(CR_EINDEX, "%s: too many indices for a tensor of dimension %d", r->op->schema.name, self->rank);
    for (int k = 0; k < m->rank; k++) {
        bool same;
        CR_TRY(cr_dim_decide(r->env, m->size[k], CR_EQ, self->size[x->dims + k], &same));
        if (!same)
            return CR_FAIL(CR_EINDEX, "%s: the mask at position %d does not match the indexed tensor at dimension %d",
                           r->op->schema.name, position, x->dims + k);
    }
    cr_dim count = cr_rule_count(r, slot, most(r, m->rank, m->size));
    for (int k = 0; k < m->rank; k++) {
        cr_meta *index = &x->index[x->dims];
        cr_meta_init(index, CR_I64, m->device);
        index->rank = 1;
        index->size[0] = count;
        index->stride[0] = m->rank; /* columns of nonzero(mask) */
        x->used[x->dims++] = true;
    }
    return CR_OK;
}

/* `broadcasts`: the shape that the indices have together is wanted, too. */
static cr_status read_indices(cr_rule *r, indexed *x, bool broadcasts) {
    const cr_meta *self = cr_rule_meta(r, 0);
    const cr_arg *list = &r->arg[1];
    int masks = 0;
    memset(x->used, 0, sizeof x->used);
    x->dims = x->rank = 0;
    if ((int)list->n > self->rank)
        return CR_FAIL(CR_EINDEX, "%s: too many indices for a tensor of dimension %d (got %u)", r->op->schema.name,
                       self->rank, list->n);
    for (uint32_t i = 0; i < list->n; i++) {
        const cr_meta *m = cr_arg_meta(&list->u.list[i]);
        if (!m) {
            x->dims++;
            continue;
        }
        if (is_mask(m)) {
            CR_TRY(read_mask(r, self, m, masks++, (int)i, x));
            continue;
        }
        if (m->dtype != CR_I64 && m->dtype != CR_I32)
            return CR_FAIL(CR_EINDEX, "%s: tensors used as indices must be int64, int32, uint8 or bool, not %s",
                           r->op->schema.name, cr_dtype_aten(m->dtype));
        if (x->dims >= self->rank)
            return CR_FAIL(CR_EINDEX, "%s: too many indices for a tensor of dimension %d", r->op->schema.name,
                           self->rank);
        cr_meta_copy(&x->index[x->dims], m);
        x->used[x->dims++] = true;
    }
    if (x->dims > self->rank)
        return CR_FAIL(CR_EINDEX, "%s: too many indices for a tensor of dimension %d", r->op->schema.name, self->rank);
    int last = -1, gaps = 0;
    x->first = -1;
    for (int d = 0; d < x->dims; d++) {
        if (!x->used[d]) continue;
        if (x->first < 0) x->first = d;
        else if (d != last + 1) gaps++;
        last = d;
        if (broadcasts && cr_broadcast(r->env, &x->rank, x->size, x->index[d].rank, x->index[d].size))
            return CR_FAIL(CR_EINDEX, "%s: the index tensors cannot be broadcast together: %s", r->op->schema.name,
                           cr_error_message());
    }
    if (x->first < 0 || gaps) x->first = 0;
    return CR_OK;
}

/* The result's sizes, and operands as the pointwise layout rule sees them: self with its indexed dimensions still. */
static cr_status indexed_result(cr_rule *r, const indexed *x, cr_meta *out) {
    const cr_meta *self = cr_rule_meta(r, 0);
    cr_meta operand[CR_MAX_RANK + 1];
    const cr_meta *inputs[CR_MAX_RANK + 1];
    cr_meta *view = &operand[0];
    int rank = 0, n = 0;
    cr_meta_init(view, self->dtype, self->device);
    bool placed = false;
    for (int d = 0; d <= self->rank; d++) {
        bool kept = d < self->rank && !(d < x->dims && x->used[d]);
        bool here = !placed && rank == x->first;
        if (here) {
            placed = true;
            for (int k = 0; k < x->rank; k++) {
                if (rank == CR_MAX_RANK)
                    return CR_FAIL(CR_ERUNTIME, "%s: the result would have more than %d dimensions", r->op->schema.name,
                                   CR_MAX_RANK);
                out->size[rank] = x->size[k];
                view->stride[rank++] = 0;
            }
        }
        if (kept) {
            if (rank == CR_MAX_RANK)
                return CR_FAIL(CR_ERUNTIME, "%s: the result would have more than %d dimensions", r->op->schema.name,
                               CR_MAX_RANK);
            out->size[rank] = self->size[d];
            view->stride[rank++] = self->stride[d];
        }
    }
    out->rank = view->rank = (uint8_t)rank;
    memcpy(view->size, out->size, (size_t)rank * sizeof *view->size);
    inputs[n++] = view;
    for (int d = 0; d < x->dims; d++) {
        if (!x->used[d]) continue;
        cr_meta *m = &operand[n];
        cr_meta_init(m, CR_I64, self->device);
        m->rank = (uint8_t)rank;
        for (int k = 0; k < rank; k++) {
            int from = k - x->first - (x->rank - x->index[d].rank);
            bool inside = k >= x->first && k < x->first + x->rank && from >= 0;
            bool wide = inside && cr_dim_known(r->env, x->index[d].size[from], CR_EQ, 1) != CR_YES;
            m->size[k] = out->size[k];
            m->stride[k] = wide ? x->index[d].stride[from] : 0;
        }
        inputs[n++] = m;
    }
    cr_layout_pointwise(r->env, inputs, n, out);
    return CR_OK;
}

cr_status shape_index(cr_rule *r) {
    indexed x;
    CR_TRY(read_indices(r, &x, true));
    cr_out *out = cr_rule_add(r);
    if (!out) return CR_ENOMEM;
    return indexed_result(r, &x, &out->meta);
}

static bool is_symbolic(const cr_meta *m) {
    for (int d = 0; d < m->rank; d++)
        if (!cr_dim_is_plain(m->size[d])) return true;
    return false;
}

/* Whether indices and values fit is known when their sizes and the masks are: the kernel then repeats them, or
 * refuses. */
static bool fits_later(const cr_rule *r) {
    const cr_arg *list = &r->arg[1];
    for (uint32_t i = 0; i < list->n; i++) {
        const cr_meta *m = cr_arg_meta(&list->u.list[i]);
        if (m && (is_mask(m) || is_symbolic(m))) return true;
    }
    return is_symbolic(cr_rule_meta(r, 0)) || is_symbolic(cr_rule_meta(r, 2));
}

cr_status shape_index_put(cr_rule *r) { /* self, indices, values, accumulate */
    static const int64_t ones[CR_MAX_RANK] = { 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 };
    indexed x;
    cr_meta shape;
    bool later = fits_later(r);
    CR_TRY(require_same_dtype(r, 0, 2));
    r->count = later ? ones : NULL; /* the result has self's shape; masks need not be counted */
    cr_status status = read_indices(r, &x, !later);
    r->count = NULL;
    CR_TRY(status);
    if (later) return shape_like(r);
    cr_meta_init(&shape, CR_F32, (cr_device){ CR_CPU, -1 });
    CR_TRY(indexed_result(r, &x, &shape));
    const cr_meta *values = cr_rule_meta(r, 2);
    for (int d = 0; d < values->rank; d++) { /* values broadcast to the indexed shape */
        int to = d - (values->rank - shape.rank);
        if (cr_dim_known(r->env, values->size[d], CR_EQ, 1) == CR_YES) continue;
        if (to < 0)
            return CR_FAIL(CR_ERUNTIME, "%s: values have more dimensions than what is indexed", r->op->schema.name);
        CR_TRY(cr_dim_require(r->env, values->size[d], CR_EQ, shape.size[to],
                              "index_put: values must broadcast to the shape of what is indexed"));
    }
    return shape_like(r);
}

/* ---- one dimension ---- */

static cr_status read_dim(cr_rule *r, int *dim) {
    return cr_wrap_dim(cr_rule_int(r, 1), cr_rule_meta(r, 0)->rank, dim);
}

/* index_select, index_add, ...: a vector (or 0-d) of positions along dim. */
static cr_status read_vector(cr_rule *r, int *dim, cr_dim *count) {
    const cr_meta *index = cr_rule_meta(r, 2);
    CR_TRY(read_dim(r, dim));
    if (index->rank > 1)
        return CR_FAIL(CR_EINDEX, "%s: the index must be a vector, it has %d dimensions", r->op->schema.name,
                       index->rank);
    *count = index->rank ? index->size[0] : 1;
    return CR_OK;
}

cr_status shape_index_select(cr_rule *r) {
    const cr_meta *self = cr_rule_meta(r, 0);
    cr_dim size[CR_MAX_RANK], count;
    int dim;
    CR_TRY(read_vector(r, &dim, &count));
    CR_TRY(require_index_dtype(r, 2, CR_ERUNTIME));
    memcpy(size, self->size, self->rank * sizeof *size);
    if (self->rank) size[dim] = count;
    else CR_TRY(cr_dim_require(r->env, count, CR_EQ, 1, "index_select: a 0-d tensor has one element to select"));
    return cr_rule_add_dense(r, r->result, self->rank, size);
}

static cr_status check_source(cr_rule *r, int dim, cr_dim count) {
    const cr_meta *self = cr_rule_meta(r, 0), *source = cr_rule_meta(r, 3);
    CR_TRY(require_same_dtype(r, 0, 3));
    cr_dim along = source->rank ? source->size[dim < source->rank ? dim : 0] : 1;
    if (source->rank != self->rank && source->rank && self->rank)
        return CR_FAIL(CR_EINDEX, "%s: source has %d dimensions, self %d; they must be equal", r->op->schema.name,
                       source->rank, self->rank);
    bool same;
    CR_TRY(cr_dim_decide(r->env, along, CR_EQ, count, &same));
    if (!same)
        return CR_FAIL(CR_EINDEX, "%s: the number of indices must equal source's size at the indexed dimension",
                       r->op->schema.name);
    for (int d = 0; d < self->rank && d < source->rank; d++) {
        if (d == dim) continue;
        CR_TRY(cr_dim_decide(r->env, self->size[d], CR_EQ, source->size[d], &same));
        if (!same)
            return CR_FAIL(CR_ERUNTIME, "%s: source must have self's sizes except at the indexed dimension",
                           r->op->schema.name);
    }
    return CR_OK;
}

cr_status shape_index_add(cr_rule *r) {
    int dim;
    cr_dim count;
    CR_TRY(read_vector(r, &dim, &count));
    CR_TRY(require_index_dtype(r, 2, CR_ERUNTIME));
    CR_TRY(check_source(r, dim, count));
    const cr_meta *m = cr_rule_meta(r, 0);
    return cr_rule_add_dense(r, r->result, m->rank, m->size);
}

cr_status shape_index_copy(cr_rule *r) {
    int dim;
    cr_dim count;
    CR_TRY(read_vector(r, &dim, &count));
    CR_TRY(require_int64(r, 2));
    CR_TRY(check_source(r, dim, count));
    const cr_meta *m = cr_rule_meta(r, 0);
    return cr_rule_add_dense(r, r->result, m->rank, m->size);
}

cr_status shape_index_fill(cr_rule *r) {
    int dim;
    CR_TRY(read_dim(r, &dim));
    const cr_meta *index = cr_rule_meta(r, 2), *value = cr_rule_meta(r, 3);
    if (index->dtype != CR_I64)
        return CR_FAIL(CR_EINDEX, "%s: the index must be int64, not %s", r->op->schema.name,
                       cr_dtype_aten(index->dtype));
    if (index->rank > 1)
        return CR_FAIL(CR_ERUNTIME, "%s: the index must be a vector, it has %d dimensions", r->op->schema.name,
                       index->rank);
    if (value && value->rank)
        return CR_FAIL(CR_ERUNTIME, "%s: the value must be a 0-d tensor, it has %d dimensions", r->op->schema.name,
                       value->rank);
    if (cr_arg_is_number(&r->arg[3]) && r->arg[3].kind == CR_ARG_COMPLEX && !cr_dtype_is_complex(r->result))
        return CR_FAIL(CR_ERUNTIME, "%s: a real tensor cannot be filled with a complex number", r->op->schema.name);
    return shape_like(r);
}

/* gather and scatter: an index of self's rank. */
static cr_status check_gather(cr_rule *r, int *dim, bool fits_self) {
    const cr_meta *self = cr_rule_meta(r, 0), *index = cr_rule_meta(r, 2);
    CR_TRY(read_dim(r, dim));
    cr_dim n = cr_meta_numel(r->env, index);
    if (cr_dim_known(r->env, n, CR_EQ, 0) == CR_YES) return CR_OK;
    CR_TRY(require_index_dtype(r, 2, CR_ERUNTIME));
    int a = self->rank ? self->rank : 1, b = index->rank ? index->rank : 1;
    if (a != b)
        return CR_FAIL(CR_ERUNTIME, "%s: index has %d dimensions, self %d; they must be equal", r->op->schema.name,
                       index->rank, self->rank);
    for (int d = 0; fits_self && d < self->rank && d < index->rank; d++)
        if (d != *dim)
            CR_TRY(cr_dim_require(r->env, index->size[d], CR_LE, self->size[d],
                                  "the index must not be larger than self outside the indexed dimension"));
    return CR_OK;
}

cr_status shape_gather(cr_rule *r) {
    int dim;
    CR_TRY(check_gather(r, &dim, true));
    const cr_meta *index = cr_rule_meta(r, 2);
    return cr_rule_add_dense(r, r->result, index->rank, index->size);
}

static cr_status check_reduce_name(cr_rule *r, int i, const char *const *names, int n) {
    for (int k = 0; k < n; k++)
        if (!strcmp(r->arg[i].u.s, names[k])) return CR_OK;
    return CR_FAIL(CR_ERUNTIME,
                   "%s: reduce must be one of add, multiply (scatter) or sum, prod, mean, amax, amin (scatter_reduce), "
                   "not '%s'",
                   r->op->schema.name, r->arg[i].u.s);
}

cr_status shape_scatter(cr_rule *r) { /* self, dim, index, src or value, reduce? */
    static const char *const old[] = { "add", "multiply" }, *const all[] = { "sum", "prod", "mean", "amax", "amin" };
    const cr_meta *self = cr_rule_meta(r, 0), *index = cr_rule_meta(r, 2), *src = cr_rule_meta(r, 3);
    int dim, reduce = cr__rule_param(r, "reduce");
    CR_TRY(check_gather(r, &dim, true));
    if (src && cr_dim_known(r->env, cr_meta_numel(r->env, index), CR_EQ, 0) != CR_YES) {
        CR_TRY(require_same_dtype(r, 0, 3));
        int a = index->rank ? index->rank : 1, b = src->rank ? src->rank : 1;
        if (a != b)
            return CR_FAIL(CR_ERUNTIME, "%s: index has %d dimensions, src %d; they must be equal", r->op->schema.name,
                           index->rank, src->rank);
        for (int d = 0; d < index->rank && d < src->rank; d++)
            CR_TRY(
                cr_dim_require(r->env, index->size[d], CR_LE, src->size[d], "the index must not be larger than src"));
    }
    if (reduce >= 0 && self->dtype == CR_BOOL && !strcmp(r->arg[reduce].u.s, "mean"))
        return CR_FAIL(CR_ENOTIMPL, "%s: the mean of bools is not implemented; convert to an integer dtype first",
                       r->op->schema.name);
    if (reduce >= 0)
        CR_TRY(cr__rule_param(r, "include_self") >= 0 ? check_reduce_name(r, reduce, all, 5)
                                                      : check_reduce_name(r, reduce, old, 2));
    return cr_rule_add_dense(r, r->result, self->rank, self->size);
}

cr_status shape_index_reduce(cr_rule *r) { /* self, dim, index, source, reduce, include_self */
    static const char *const names[] = { "prod", "mean", "amax", "amin" };
    const cr_meta *self = cr_rule_meta(r, 0);
    int dim;
    cr_dim count;
    bool known = false;
    CR_TRY(read_vector(r, &dim, &count));
    CR_TRY(require_index_dtype(r, 2, CR_ERUNTIME));
    if (cr_rule_meta(r, 3)->rank != self->rank)
        return CR_FAIL(CR_ERUNTIME, "index_reduce: source has %d dimensions, self %d; they must be equal",
                       cr_rule_meta(r, 3)->rank, self->rank);
    const cr_meta *source = cr_rule_meta(r, 3);
    CR_TRY(cr_dim_require(r->env, count, CR_EQ, source->rank ? source->size[dim] : 1,
                          "index_reduce: there must be an index for each slice of source"));
    CR_TRY(check_source(r, dim, count));
    for (int i = 0; i < 4; i++) known |= !strcmp(r->arg[4].u.s, names[i]);
    if (!known)
        return CR_FAIL(CR_ERUNTIME, "index_reduce: reduce must be prod, mean, amax or amin, not '%s'", r->arg[4].u.s);
    bool pairs = cr_dtype_is_complex(self->dtype),
         wide = self->dtype == CR_U16 || self->dtype == CR_U32 || self->dtype == CR_U64;
    bool few = pairs || wide || self->dtype == CR_BOOL, mean = r->arg[4].u.s[0] == 'm',
         ordered = r->arg[4].u.s[0] == 'a';
    if ((few && (!cr_rule_bool(r, 5) || !self->rank)) || ((pairs || wide) && ordered) ||
        (few && mean && (!pairs || self->dtype == CR_C32)))
        return CR_FAIL(CR_ENOTIMPL, "index_reduce: '%s'%s is not implemented for %s%s; convert to another dtype first",
                       r->arg[4].u.s, cr_rule_bool(r, 5) ? "" : " without self", rt_dtype_name(self->dtype),
                       self->rank ? "" : " and 0-d tensors");
    return cr_rule_add_dense(r, r->result, self->rank, self->size);
}

/* ---- segments ---- */

/* The sizes of the results: the data's, with the runs in the axis's place. */
static cr_status segment_sizes(cr_rule *r, int data, int lengths, int offsets, int axis_arg, cr_dim *size) {
    static const char *const names[] = { "sum", "mean", "max", "min", "amax", "amin", "prod" };
    const cr_meta *m = cr_rule_meta(r, data);
    int axis, of = cr_rule_has(r, offsets) ? offsets : lengths, reduce = cr__rule_param(r, "reduce");
    bool known = false;
    for (size_t i = 0; i < CR_COUNT(names); i++) known |= !strcmp(r->arg[reduce].u.s, names[i]);
    if (!known)
        return CR_FAIL(CR_ERUNTIME, "%s: reduce must be sum, mean, max, min, amax, amin or prod, not '%s'",
                       r->op->schema.name, r->arg[reduce].u.s);
    if (!cr_rule_has(r, of))
        return CR_FAIL(CR_ERUNTIME, "%s: lengths or offsets say where the runs are; give one of them",
                       r->op->schema.name);
    const cr_meta *runs = cr_rule_meta(r, of);
    CR_TRY(cr_wrap_dim(cr_rule_int(r, axis_arg), m->rank, &axis));
    if (!m->rank || runs->rank != axis + 1)
        return CR_FAIL(CR_ERUNTIME, "%s: axis %d must be the last dimension of %s, which has %d dimensions",
                       r->op->schema.name, axis, of == offsets ? "offsets" : "lengths", runs->rank);
    if (!cr_dtype_is_floating(m->dtype) || rt_itemsize(m->dtype) < 2)
        return CR_FAIL(CR_ENOTIMPL, "%s: not implemented for %s; convert the data to a floating dtype",
                       r->op->schema.name, cr_dtype_aten(m->dtype));
    if (runs->dtype != CR_I64 && runs->dtype != CR_I32)
        return CR_FAIL(CR_ENOTIMPL, "%s: %s must be int64 or int32, not %s", r->op->schema.name,
                       of == offsets ? "offsets" : "lengths", cr_dtype_aten(runs->dtype));
    for (int d = 0; d < m->rank; d++) size[d] = m->size[d];
    for (int d = 0; d < axis; d++)
        CR_TRY(cr_dim_require(r->env, runs->size[d], CR_EQ, m->size[d], "segment_reduce: a row of runs for each row"));
    size[axis] = runs->size[axis];
    if (of != offsets) return CR_OK;
    CR_TRY(cr_dim_require(r->env, size[axis], CR_GE, 1, "segment_reduce: offsets end with where the last run ends"));
    size[axis] = cr_dim_sub(r->env, size[axis], 1);
    return CR_OK;
}

cr_status shape_segment_reduce(cr_rule *r) { /* data, reduce, lengths, indices, offsets, axis, unsafe, initial */
    cr_dim size[CR_MAX_RANK];
    if (cr_rule_has(r, 3))
        return CR_FAIL(CR_ERUNTIME, "segment_reduce: runs are given by lengths or offsets, not by indices");
    CR_TRY(segment_sizes(r, 0, 2, 4, 5, size));
    return cr_rule_add_dense(r, r->result, cr_rule_meta(r, 0)->rank, size);
}

/* grad, output, data, reduce, lengths, offsets, axis, initial */
cr_status shape_segment_reduce_backward(cr_rule *r) {
    const cr_meta *data = cr_rule_meta(r, 2);
    cr_dim size[CR_MAX_RANK];
    CR_TRY(segment_sizes(r, 2, 4, 5, 6, size));
    for (int i = 0; i < 2; i++) {
        CR_TRY(cr_rule_require_dtype(r, i, data->dtype));
        CR_TRY(cr_rule_require_sizes(r, i, data->rank, size));
    }
    return cr_rule_add_dense(r, data->dtype, data->rank, data->size);
}

/* ---- masks and flat indices ---- */

cr_status shape_nonzero(cr_rule *r) {
    const cr_meta *m = cr_rule_meta(r, 0);
    cr_dim size[] = { cr_rule_count(r, 0, most(r, m->rank, m->size)), m->rank };
    CR_TRY(cr_rule_add_dense(r, CR_I64, 2, size));
    r->out[0].meta.stride[0] = 1; /* PyTorch's nonzero is laid out by columns */
    r->out[0].meta.stride[1] = cr_dim_max(r->env, size[0], 1);
    return CR_OK;
}

cr_status shape_nonzero_static(cr_rule *r) {
    const cr_meta *m = cr_rule_meta(r, 0);
    cr_dim size[] = { cr_rule_int(r, 1), m->rank };
    CR_TRY(cr_dim_require(r->env, size[0], CR_GE, 0, "nonzero_static: size must not be negative"));
    return cr_rule_add_dense(r, CR_I64, 2, size);
}

static cr_status require_mask(cr_rule *r, int i) {
    const cr_meta *m = cr_rule_meta(r, i);
    if (m->dtype == CR_BOOL) return CR_OK;
    return CR_FAIL(CR_ERUNTIME, "%s: the mask must be bool, not %s", r->op->schema.name, cr_dtype_aten(m->dtype));
}

cr_status shape_masked_select(cr_rule *r) {
    const cr_meta *self = cr_rule_meta(r, 0), *mask = cr_rule_meta(r, 1);
    cr_dim size[CR_MAX_RANK], count;
    int rank = self->rank;
    CR_TRY(require_mask(r, 1));
    memcpy(size, self->size, self->rank * sizeof *size);
    CR_TRY(cr_broadcast(r->env, &rank, size, mask->rank, mask->size));
    count = cr_rule_count(r, 0, most(r, rank, size));
    return cr_rule_add_dense(r, r->result, 1, &count);
}

cr_status shape_masked_scatter(cr_rule *r) {
    const cr_meta *self = cr_rule_meta(r, 0), *mask = cr_rule_meta(r, 1);
    cr_dim size[CR_MAX_RANK];
    int rank = self->rank;
    CR_TRY(require_same_dtype(r, 0, 2));
    CR_TRY(require_mask(r, 1));
    memcpy(size, self->size, self->rank * sizeof *size);
    CR_TRY(cr_broadcast(r->env, &rank, size, mask->rank, mask->size));
    if (rank != self->rank)
        return CR_FAIL(CR_ERUNTIME, "%s: the mask has more dimensions than self", r->op->schema.name);
    return cr_rule_add_dense(r, r->result, self->rank, self->size);
}

cr_status shape_take(cr_rule *r) {
    const cr_meta *index = cr_rule_meta(r, 1);
    CR_TRY(require_int64(r, 1));
    return cr_rule_add_dense(r, r->result, index->rank, index->size);
}

cr_status shape_put(cr_rule *r) {
    const cr_meta *index = cr_rule_meta(r, 1), *source = cr_rule_meta(r, 2);
    CR_TRY(require_int64(r, 1));
    CR_TRY(require_same_dtype(r, 0, 2));
    bool same;
    CR_TRY(cr_dim_decide(r->env, cr_meta_numel(r->env, index), CR_EQ, cr_meta_numel(r->env, source), &same));
    if (!same) return CR_FAIL(CR_EINDEX, "%s: source must have as many elements as index", r->op->schema.name);
    return shape_like(r);
}

cr_status shape_embedding(cr_rule *r) {
    const cr_meta *weight = cr_rule_meta(r, 0), *indices = cr_rule_meta(r, 1);
    cr_dim size[CR_MAX_RANK];
    if (weight->rank != 2)
        return CR_FAIL(CR_ERUNTIME, "%s: weight must have two dimensions, not %d", r->op->schema.name, weight->rank);
    CR_TRY(require_index_dtype(r, 1, CR_ERUNTIME));
    if (indices->rank + 1 > CR_MAX_RANK)
        return CR_FAIL(CR_ERUNTIME, "%s: indices have too many dimensions", r->op->schema.name);
    memcpy(size, indices->size, indices->rank * sizeof *size);
    size[indices->rank] = weight->size[1];
    return cr_rule_add_dense(r, r->result, indices->rank + 1, size);
}

cr_status shape_embedding_backward(cr_rule *r) { /* grad_output, indices, num_weights, ... */
    const cr_meta *grad = cr_rule_meta(r, 0);
    if (!grad->rank)
        return CR_FAIL(CR_ERUNTIME, "%s: grad_output must have at least one dimension", r->op->schema.name);
    cr_dim size[] = { cr_rule_int(r, 2), grad->size[grad->rank - 1] },
           wanted = cr_dim_mul(r->env, cr_meta_numel(r->env, cr_rule_meta(r, 1)), size[1]);
    CR_TRY(require_index_dtype(r, 1, CR_ERUNTIME));
    CR_TRY(cr_dim_require(r->env, size[0], CR_GE, 0, "embedding_dense_backward: num_weights"));
    CR_TRY(cr_dim_require(r->env, cr_meta_numel(r->env, grad), CR_EQ, wanted,
                          "embedding_dense_backward: the gradient must have a row for each index"));
    return cr_rule_add_dense(r, r->result, 2, size);
}
