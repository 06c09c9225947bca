/* rules_copy.c: results that repeat an argument's elements: conversions, copies, writes into a part, and views that
 * read the same bytes as another dtype. Conversions return the very argument when there is nothing to convert. */
#include "ops/rules.h"

static const char *op_name(const cr_rule *r) { return r->op->schema.name; }

static cr_status same_as_argument(cr_rule *r) {
    cr_out *out = cr_rule_add_view(r, 0);
    if (!out) return CR_ENOMEM;
    out->same = true;
    return CR_OK;
}

/* The format named by the argument, or `fallback` when it is absent or not given. */
static cr_memory_format format_arg(const cr_rule *r, cr_memory_format fallback) {
    int i = cr__rule_param(r, "memory_format");
    return i < 0 || r->arg[i].kind == CR_ARG_NONE ? fallback : (cr_memory_format)r->arg[i].u.i;
}

/* A fresh tensor of argument 0's sizes in this format. */
static cr_status add_fresh(cr_rule *r, int dtype, cr_device device, cr_memory_format format) {
    const cr_meta *m = cr_rule_meta(r, 0);
    cr_out *out = cr_rule_add(r);
    if (!out) return CR_ENOMEM;
    out->meta.dtype = (uint8_t)dtype;
    out->meta.device = device;
    if (format != CR_PRESERVE) return cr_meta_set_dense(r->env, &out->meta, m->rank, m->size, format);
    cr_layout_like(r->env, m, &out->meta);
    return CR_OK;
}

cr_status shape_clone(cr_rule *r) {
    const cr_meta *m = cr_rule_meta(r, 0);
    return add_fresh(r, m->dtype, m->device, format_arg(r, CR_PRESERVE));
}

cr_status shape_contiguous(cr_rule *r) {
    const cr_meta *m = cr_rule_meta(r, 0);
    cr_memory_format format = format_arg(r, CR_CONTIGUOUS);
    CR_TRY(cr_meta_assume_large(r->env, m, cr_meta_is_contiguous(r->env, m, format)));
    if (cr_meta_is_contiguous(r->env, m, format) == CR_YES) return same_as_argument(r);
    if (format == CR_PRESERVE)
        return CR_FAIL(CR_ERUNTIME, "contiguous: preserve_format is no layout to convert to; use clone");
    return add_fresh(r, m->dtype, m->device, format);
}

static bool same_device(cr_device a, cr_device b) {
    return a.type == b.type && (a.index == b.index || CR_MAX(a.index, b.index) <= 0); /* "cpu" and "cpu:0" are one */
}

/* Which dtype and device the arguments ask for: by name, or those of a tensor argument `other`. */
static void target_of(const cr_rule *r, int *dtype, cr_device *device) {
    const cr_meta *m = cr_rule_meta(r, 0);
    int other = cr__rule_param(r, "other"), d = cr__rule_param(r, "dtype"), v = cr__rule_param(r, "device");
    *dtype = m->dtype;
    *device = m->device;
    if (other >= 0) {
        *dtype = cr_rule_meta(r, other)->dtype;
        *device = cr_rule_meta(r, other)->device;
    }
    if (d >= 0 && cr_rule_has(r, d)) *dtype = (int)r->arg[d].u.i;
    if (v >= 0 && cr_rule_has(r, v)) *device = r->arg[v].u.device;
}

/* A tensor on 'meta' has no elements that could be moved to another device. */
static cr_status check_moves(const cr_rule *r, cr_device device) {
    if (cr_rule_meta(r, 0)->device.type != CR_META_DEVICE || device.type == CR_META_DEVICE) return CR_OK;
    return CR_FAIL(CR_ENOTIMPL,
                   "%s: Cannot copy out of meta tensor; no data! empty_like(..., device=) makes one with "
                   "memory, to_empty() those of a module",
                   r->op->schema.name);
}

cr_status shape_to_copy(cr_rule *r) {
    int dtype;
    cr_device device;
    target_of(r, &dtype, &device);
    CR_TRY(check_moves(r, device));
    return add_fresh(r, dtype, device, format_arg(r, CR_PRESERVE));
}

cr_status shape_to(cr_rule *r) {
    const cr_meta *m = cr_rule_meta(r, 0);
    int dtype, copy = cr__rule_param(r, "copy");
    cr_device device;
    cr_memory_format format = format_arg(r, CR_PRESERVE);
    target_of(r, &dtype, &device);
    bool forced = copy >= 0 && cr_rule_bool(r, copy);
    CR_TRY(check_moves(r, device));
    if (!forced && dtype == m->dtype && same_device(device, m->device) &&
        (format == CR_PRESERVE || cr_meta_suggest_format(r->env, m) == format))
        return same_as_argument(r);
    return add_fresh(r, dtype, device, format);
}

cr_status shape_same(cr_rule *r) { return same_as_argument(r); }

cr_status shape_alias(cr_rule *r) { return cr_rule_add_view(r, 0) ? CR_OK : CR_ENOMEM; }
/* The same elements; call.c sees by the rule that the result is no view of the argument. */
cr_status shape_detach(cr_rule *r) { return shape_alias(r); }

/* ---- results that start as argument 0: its own strides, gaps included, unless elements share memory ---- */

/* A dimension of an expanded tensor, also where its size is a symbol. */
static bool repeats_elements(cr_env *env, const cr_meta *m) {
    for (int d = 0; d < m->rank; d++)
        if (cr_dim_known(env, m->stride[d], CR_EQ, 0) == CR_YES && cr_dim_known(env, m->size[d], CR_LT, 2) != CR_YES)
            return true;
    return false;
}

static cr_status add_updated(cr_rule *r) {
    const cr_meta *m = cr_rule_meta(r, 0);
    cr_out *out = cr_rule_add(r);
    if (!out) return CR_ENOMEM;
    cr_layout_like(r->env, m, &out->meta);
    if (cr_meta_self_overlap(m) == CR_UNKNOWN && !repeats_elements(r->env, m))
        memcpy(out->meta.stride, m->stride, m->rank * sizeof *m->stride);
    return CR_OK;
}

static cr_status fail_pair(cr_rule *r, const char *text, int rank, const cr_dim *size, const cr_meta *m) {
    return cr_rule_fail_shapes(r, "a source of shape", rank, size, text, m);
}

cr_status shape_copy(cr_rule *r) {
    const cr_meta *m = cr_rule_meta(r, 0), *src = cr_rule_meta(r, 1);
    int lead = m->rank - src->rank;
    if (lead < 0) return fail_pair(r, "does not broadcast to the shape", src->rank, src->size, m);
    for (int i = 0; i < src->rank; i++) {
        cr_dim have = src->size[i], want = m->size[lead + i];
        bool one;
        if (cr_dim_known(r->env, have, CR_EQ, want) == CR_YES) continue;
        CR_TRY(cr_dim_repeats(r->env, have, want, &one));
        if (one) continue;
        if (cr_dim_known(r->env, have, CR_EQ, want) == CR_NO)
            return fail_pair(r, "does not broadcast to the shape", src->rank, src->size, m);
        CR_TRY(cr_dim_require(r->env, have, CR_EQ, want, "size of the source"));
    }
    return add_updated(r);
}

cr_status shape_fill_tensor(cr_rule *r) {
    const cr_meta *value = cr_rule_meta(r, 1);
    if (value->rank)
        return CR_FAIL(CR_ERUNTIME, "fill: the value must be a 0-d tensor, this one has %d dimensions", value->rank);
    return shape_like(r);
}

/* What a view rule takes of `whole`. The rule reads (self, arguments after it...); here a second argument, a source or
 * sizes, stands between them. */
static cr_status take_part(cr_rule *r, cr_arg whole, cr_rule_fn *part) {
    cr_arg args[8];
    const cr_arg *given = r->arg;
    args[0] = whole;
    for (int i = 2; i < r->nargs; i++) args[i - 1] = given[i];
    r->arg = args;
    cr_status status = part(r);
    r->arg = given;
    return status;
}

/* select_scatter and its kin: the source has the shape of the part that `part` takes of argument 0. */
static cr_status scatter_part(cr_rule *r, cr_rule_fn *part) {
    const cr_meta *src = cr_rule_meta(r, 1);
    CR_TRY(take_part(r, r->arg[0], part));
    cr_meta *o = &r->out[0].meta;
    bool fits = o->rank == src->rank;
    for (int i = 0; fits && i < o->rank; i++) {
        fits = cr_dim_known(r->env, src->size[i], CR_EQ, o->size[i]) != CR_NO;
        if (fits) CR_TRY(cr_dim_require(r->env, src->size[i], CR_EQ, o->size[i], "size of the source"));
    }
    if (!fits) return fail_pair(r, "does not fit the part to write, of shape", src->rank, src->size, o);
    r->nout = 0;
    return add_updated(r);
}
cr_status shape_select_scatter(cr_rule *r) { return scatter_part(r, shape_select); }
cr_status shape_slice_scatter(cr_rule *r) { return scatter_part(r, shape_slice); }
cr_status shape_diagonal_scatter(cr_rule *r) { return scatter_part(r, shape_diagonal); }

cr_status shape_fill_diagonal(cr_rule *r) { /* self, fill_value, wrap */
    const cr_meta *m = cr_rule_meta(r, 0);
    if (m->rank < 2)
        return CR_FAIL(CR_ERUNTIME, "%s: there is no diagonal of %d dimensions; two or more are needed", op_name(r),
                       m->rank);
    for (int d = 1; m->rank > 2 && d < m->rank; d++)
        CR_TRY(cr_dim_require(r->env, m->size[d], CR_EQ, m->size[0],
                              "fill_diagonal_: more than two dimensions must all have the same size"));
    return shape_like(r);
}

cr_status shape_as_strided_scatter(cr_rule *r) {
    const cr_meta *m = cr_rule_meta(r, 0);
    if (cr_rule_has(r, 4) && cr_dim_known(r->env, m->offset, CR_EQ, 0) != CR_YES)
        return CR_FAIL(CR_ENOTIMPL, "as_strided_scatter: a storage offset for a tensor that has one itself; clone the "
                                    "tensor first");
    if (cr_meta_self_overlap(m) == CR_YES)
        return CR_FAIL(CR_ENOTIMPL, "as_strided_scatter: a tensor whose elements share memory (an expanded one); clone "
                                    "it first");
    CR_TRY(scatter_part(r, shape_as_strided));
    /* The kernel writes at computed places: they must lie inside of the result. */
    cr_meta part = r->out[0].meta;
    const cr_arg *size = &r->arg[2], *stride = &r->arg[3];
    bool plain = true;
    part.rank = (uint8_t)size->n;
    part.offset = cr_rule_has(r, 4) ? cr_rule_int(r, 4) : 0;
    for (uint32_t i = 0; i < size->n; i++) {
        part.size[i] = size->u.list[i].u.i;
        part.stride[i] = stride->u.list[i].u.i;
        plain = plain && cr_dim_is_plain(part.size[i]) && cr_dim_is_plain(part.stride[i]);
    }
    for (int i = 0; i < m->rank; i++)
        plain = plain && cr_dim_is_plain(m->size[i]) && cr_dim_is_plain(r->out[0].meta.stride[i]);
    if (!plain || !cr_dim_is_plain(part.offset)) return CR_OK;
    int64_t need, have;
    CR_TRY(cr_meta_bytes(&part, &need));
    CR_TRY(cr_meta_bytes(&r->out[0].meta, &have));
    if (need > have)
        return CR_FAIL(CR_ERUNTIME, "as_strided_scatter: the part reaches %lld bytes into a tensor of %lld",
                       (long long)need, (long long)have);
    return CR_OK;
}

/* select_backward and its kin: zeros of `input_sizes` with the gradient written into the part. */
static cr_status backward_of(cr_rule *r, cr_rule_fn *part) {
    const cr_meta *grad = cr_rule_meta(r, 0);
    cr_meta whole;
    cr_dim size[CR_MAX_RANK];
    int rank;
    CR_TRY(cr_rule_ints(r, 1, 0, CR_MAX_RANK, size, &rank));
    cr_meta_init(&whole, grad->dtype, grad->device);
    CR_TRY(cr_meta_set_dense(r->env, &whole, rank, size, CR_CONTIGUOUS));
    CR_TRY(take_part(r, (cr_arg){ .kind = CR_ARG_META, .u.meta = &whole }, part));
    cr_meta *o = &r->out[0].meta;
    if (o->rank != grad->rank)
        return fail_pair(r, "does not fit the part to write, of shape", grad->rank, grad->size, o);
    for (int i = 0; i < o->rank; i++)
        CR_TRY(cr_dim_require(r->env, grad->size[i], CR_EQ, o->size[i], "size of the gradient"));
    r->nout = 0;
    return cr_rule_add_dense(r, grad->dtype, rank, size);
}
cr_status shape_select_backward(cr_rule *r) { return backward_of(r, shape_select); }
cr_status shape_slice_backward(cr_rule *r) { return backward_of(r, shape_slice); }
cr_status shape_diagonal_backward(cr_rule *r) { return backward_of(r, shape_diagonal); }
cr_status shape_unfold_backward(cr_rule *r) { return backward_of(r, shape_unfold); }

/* ---- the same bytes as another dtype ---- */

static cr_status scale_strides(cr_rule *r, cr_meta *o, int dims, int64_t by) {
    for (int i = 0; i < dims; i++) o->stride[i] = cr_dim_mul(r->env, o->stride[i], by);
    o->offset = cr_dim_mul(r->env, o->offset, by);
    return CR_OK;
}

static cr_status divide_strides(cr_rule *r, cr_meta *o, int dims, int64_t by) {
    for (int i = 0; i <= dims; i++) {
        cr_dim *d = i == dims ? &o->offset : &o->stride[i];
        cr_dim rest = cr_dim_mod(r->env, *d, by);
        if (cr_dim_known(r->env, rest, CR_EQ, 0) == CR_NO)
            return CR_FAIL(CR_ERUNTIME,
                           "%s: every stride but the last and the storage offset must be divisible by %lld", op_name(r),
                           (long long)by);
        CR_TRY(cr_dim_require(r->env, rest, CR_EQ, 0, "stride"));
        *d = cr_dim_floordiv(r->env, *d, by);
    }
    return CR_OK;
}

static cr_status need_last_stride_one(cr_rule *r, const cr_meta *m) {
    if (cr_dim_known(r->env, m->stride[m->rank - 1], CR_EQ, 1) == CR_NO)
        return CR_FAIL(CR_ERUNTIME, "%s: the last dimension must have stride 1", op_name(r));
    return cr_dim_require(r->env, m->stride[m->rank - 1], CR_EQ, 1, "stride of the last dimension");
}

cr_status shape_view_dtype(cr_rule *r) {
    cr_out *out = cr_rule_add_view(r, 0);
    if (!out) return CR_ENOMEM;
    cr_meta *o = &out->meta;
    int dtype = (int)r->arg[1].u.i;
    int64_t from = rt_itemsize(o->dtype), to = rt_itemsize(dtype);
    int last = o->rank - 1;
    o->dtype = (uint8_t)dtype;
    if (from == to) return CR_OK;
    if (!o->rank) return CR_FAIL(CR_ERUNTIME, "view: a 0-d tensor can only be viewed as a dtype of the same size");
    CR_TRY(need_last_stride_one(r, o));
    if (from > to) {
        CR_TRY(scale_strides(r, o, last, from / to));
        o->size[last] = cr_dim_mul(r->env, o->size[last], from / to);
        return CR_OK;
    }
    cr_dim rest = cr_dim_mod(r->env, o->size[last], to / from);
    if (cr_dim_known(r->env, rest, CR_EQ, 0) == CR_NO)
        return CR_FAIL(CR_ERUNTIME, "view: the last size must be divisible by %lld", (long long)(to / from));
    CR_TRY(cr_dim_require(r->env, rest, CR_EQ, 0, "last size"));
    CR_TRY(divide_strides(r, o, last, to / from));
    o->size[last] = cr_dim_floordiv(r->env, o->size[last], to / from);
    return CR_OK;
}

static cr_status as_real(cr_rule *r, cr_out **out) {
    *out = cr_rule_add_view(r, 0);
    if (!*out) return CR_ENOMEM;
    cr_meta *o = &(*out)->meta;
    if (!cr_dtype_is_complex(o->dtype))
        return CR_FAIL(CR_ERUNTIME, "%s: expected a complex tensor, got %s", op_name(r), cr_dtype_name(o->dtype));
    o->dtype = (uint8_t)cr_dtype_to_real(o->dtype);
    return scale_strides(r, o, o->rank, 2);
}

cr_status shape_view_as_real(cr_rule *r) {
    cr_out *out;
    if (cr_rule_meta(r, 0)->rank == CR_MAX_RANK)
        return CR_FAIL(CR_ERUNTIME, "view_as_real: a tensor has at most %d dimensions", CR_MAX_RANK);
    CR_TRY(as_real(r, &out));
    out->meta.size[out->meta.rank] = 2;
    out->meta.stride[out->meta.rank++] = 1;
    return CR_OK;
}

cr_status shape_view_as_complex(cr_rule *r) {
    const cr_meta *m = cr_rule_meta(r, 0);
    int dtype = cr_dtype_to_complex(m->dtype), last = m->rank - 1;
    if (m->dtype != CR_F16 && m->dtype != CR_F32 && m->dtype != CR_F64)
        return CR_FAIL(CR_ERUNTIME, "view_as_complex: expected float16, float32 or float64, got %s",
                       cr_dtype_name(m->dtype));
    if (!m->rank || cr_dim_known(r->env, m->size[last], CR_EQ, 2) == CR_NO)
        return CR_FAIL(CR_ERUNTIME, "view_as_complex: the last dimension must have size 2");
    CR_TRY(cr_dim_require(r->env, m->size[last], CR_EQ, 2, "last size"));
    CR_TRY(need_last_stride_one(r, m));
    cr_out *out = cr_rule_add_view(r, 0);
    if (!out) return CR_ENOMEM;
    CR_TRY(divide_strides(r, &out->meta, last, 2));
    out->meta.rank--;
    out->meta.dtype = (uint8_t)dtype;
    return CR_OK;
}

cr_status shape_real(cr_rule *r) {
    cr_out *out;
    return cr_dtype_is_complex(cr_rule_meta(r, 0)->dtype) ? as_real(r, &out) : same_as_argument(r);
}

cr_status shape_imag(cr_rule *r) {
    cr_out *out;
    CR_TRY(as_real(r, &out));
    out->meta.offset = cr_dim_add(r->env, out->meta.offset, 1);
    return CR_OK;
}

/* ---- changing a tensor's own meta ---- */

static cr_status resize(cr_rule *r, int rank, const cr_dim *size, cr_memory_format format) {
    cr_out *out = cr_rule_add_view(r, 0);
    if (!out) return CR_ENOMEM;
    cr_meta *o = &out->meta;
    bool same = o->rank == rank, restride = cr_rule_has(r, 2);
    for (int i = 0; same && i < rank; i++) CR_TRY(cr_dim_decide(r->env, o->size[i], CR_EQ, size[i], &same));
    if (same && !restride) return CR_OK;
    if (format == CR_PRESERVE) return CR_FAIL(CR_ERUNTIME, "%s: preserve_format is no layout to resize to", op_name(r));
    cr_dim offset = o->offset;
    CR_TRY(cr_meta_set_dense(r->env, o, rank, size, format));
    o->offset = offset;
    return CR_OK;
}

cr_status shape_resize(cr_rule *r) {
    cr_dim size[CR_MAX_RANK];
    int rank;
    CR_TRY(cr_rule_ints(r, 1, 0, CR_MAX_RANK, size, &rank));
    return resize(r, rank, size, format_arg(r, CR_CONTIGUOUS));
}

cr_status shape_resize_as(cr_rule *r) { /* self, the_template, memory_format: the template's own to preserve it */
    const cr_meta *t = cr_rule_meta(r, 1);
    cr_memory_format format = format_arg(r, CR_CONTIGUOUS);
    return resize(r, t->rank, t->size, format == CR_PRESERVE ? cr_meta_suggest_format(r->env, t) : format);
}

/* set_: the first argument becomes another name for the second's memory, read as the first's dtype. */
cr_status shape_set(cr_rule *r) {
    const cr_meta *m = cr_rule_meta(r, 0), *source = cr_rule_meta(r, 1);
    cr_out *out = cr_rule_add_view(r, 1);
    if (!out) return CR_ENOMEM;
    cr_meta *o = &out->meta;
    o->dtype = m->dtype;
    if (r->nargs == 2 && source->dtype != m->dtype)
        return CR_FAIL(CR_ERUNTIME, "set_: a %s tensor cannot show the memory of a %s tensor; use view(dtype) for that",
                       cr_dtype_name(m->dtype), cr_dtype_name(source->dtype));
    if (r->nargs > 2) {
        int rank, n;
        if (cr_meta_is_contiguous(r->env, source, CR_CONTIGUOUS) != CR_YES)
            return CR_FAIL(CR_ERUNTIME, "set_: a tensor that stands for a storage must be contiguous");
        o->offset = cr_rule_int(r, 2);
        CR_TRY(cr_rule_ints(r, 3, 0, CR_MAX_RANK, o->size, &rank));
        CR_TRY(cr_rule_ints(r, 4, 0, CR_MAX_RANK, o->stride, &n));
        o->rank = (uint8_t)rank;
        if (!n) cr_strides_contiguous(r->env, rank, o->size, o->stride);
        else if (n != rank) return CR_FAIL(CR_ERUNTIME, "set_: %d sizes but %d strides", rank, n);
    }
    if (r->arg[1].kind != CR_ARG_TENSOR || cr_tensor_is_fake(r->arg[1].u.t)) return CR_OK;
    int64_t need, have = r->arg[1].u.t->storage->bytes;
    CR_TRY(cr_meta_bytes(o, &need));
    if (need > have)
        return CR_FAIL(CR_ERUNTIME, "set_: the tensor would reach %lld bytes into a storage of %lld", (long long)need,
                       (long long)have);
    return CR_OK;
}
