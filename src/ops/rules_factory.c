/* rules_factory.c: tensors made from nothing but numbers, questions about metas, and assertions. */
#include "ops/rules.h"

#include <math.h>

static const char *op_name(const cr_rule *r) { return r->op->schema.name; }

static const cr_arg *option(const cr_rule *r, const char *name) {
    static const cr_arg none = { .kind = CR_ARG_NONE };
    int i = cr__rule_param(r, name);
    return i < 0 ? &none : &r->arg[i];
}

/* The dtype option, or `fallback`. */
static int dtype_option(const cr_rule *r, int fallback) {
    const cr_arg *a = option(r, "dtype");
    return a->kind == CR_ARG_NONE ? fallback : (int)a->u.i;
}

/* Appends the result with the dtype and device options applied; sizes are up to the caller. */
static cr_status begin(cr_rule *r, int dtype, cr_out **out) {
    const cr_arg *device = option(r, "device");
    r->result = r->common = dtype_option(r, dtype);
    *out = cr_rule_add(r);
    if (!*out) return CR_ENOMEM;
    if (device->kind == CR_ARG_DEVICE) (*out)->meta.device = device->u.device;
    return CR_OK;
}

static cr_status add_dense(cr_rule *r, int dtype, int rank, const cr_dim *size) {
    cr_out *out;
    CR_TRY(begin(r, dtype, &out));
    return cr_meta_set_dense(r->env, &out->meta, rank, size, CR_CONTIGUOUS);
}

static cr_status add_sized(cr_rule *r, int at, int dtype) {
    cr_dim size[CR_MAX_RANK];
    int rank;
    CR_TRY(cr_rule_ints(r, at, 0, CR_MAX_RANK, size, &rank));
    return add_dense(r, dtype, rank, size);
}

/* dtype rules: the shape rules below settle dtypes, as these ops have no operand to compute with. */
cr_status dtype_none(cr_rule *r) {
    r->common = r->result = -1;
    return CR_OK;
}

static int number_dtype(const cr_arg *a) {
    switch (cr_arg_number_dtype(a)) {
    case CR_BOOL: return CR_BOOL;
    case CR_I64: return CR_I64;
    case CR_C128: return cr_dtype_to_complex(cr_default_dtype());
    default: return cr_default_dtype();
    }
}

cr_status shape_empty(cr_rule *r) {
    const cr_arg *format = option(r, "memory_format");
    cr_dim size[CR_MAX_RANK];
    cr_out *out;
    int rank;
    CR_TRY(cr_rule_ints(r, 0, 0, CR_MAX_RANK, size, &rank));
    CR_TRY(begin(r, cr_default_dtype(), &out));
    if (format->kind == CR_ARG_FORMAT && format->u.i == CR_PRESERVE)
        return CR_FAIL(CR_ERUNTIME, "%s: preserve_format needs a tensor to preserve; use empty_like", op_name(r));
    return cr_meta_set_dense(r->env, &out->meta, rank, size,
                             format->kind == CR_ARG_FORMAT ? (cr_memory_format)format->u.i : CR_CONTIGUOUS);
}

cr_status shape_zeros(cr_rule *r) { return add_sized(r, 0, cr_default_dtype()); }
cr_status shape_full(cr_rule *r) { return add_sized(r, 0, number_dtype(&r->arg[1])); }
cr_status shape_new(cr_rule *r) { return add_sized(r, 1, cr_rule_meta(r, 0)->dtype); }

static cr_status strided(cr_rule *r, int at, int dtype) {
    cr_dim size[CR_MAX_RANK];
    cr_out *out;
    int rank, n;
    CR_TRY(cr_rule_ints(r, at, 0, CR_MAX_RANK, size, &rank));
    CR_TRY(begin(r, dtype, &out));
    CR_TRY(cr_meta_set_dense(r->env, &out->meta, rank, size, CR_CONTIGUOUS));
    CR_TRY(cr_rule_ints(r, at + 1, 0, CR_MAX_RANK, out->meta.stride, &n));
    if (n != rank) return CR_FAIL(CR_ERUNTIME, "%s: %d sizes but %d strides", op_name(r), rank, n);
    for (int i = 0; i < rank; i++)
        if (cr_dim_known(r->env, out->meta.stride[i], CR_LT, 0) == CR_YES)
            return CR_FAIL(CR_ERUNTIME, "%s: strides must not be negative", op_name(r));
    return CR_OK;
}
cr_status shape_empty_strided(cr_rule *r) { return strided(r, 0, cr_default_dtype()); }
cr_status shape_new_empty_strided(cr_rule *r) { return strided(r, 1, cr_rule_meta(r, 0)->dtype); }

cr_status shape_empty_permuted(cr_rule *r) {
    cr_dim size[CR_MAX_RANK];
    int rank, order[CR_MAX_RANK];
    const cr_arg *layout = &r->arg[1];
    uint32_t seen = 0;
    cr_out *out;
    CR_TRY(cr_rule_ints(r, 0, 0, CR_MAX_RANK, size, &rank));
    if ((int)layout->n != rank)
        return CR_FAIL(CR_ERUNTIME, "empty_permuted: %d sizes but %u dims of physical_layout", rank, layout->n);
    CR_TRY(begin(r, cr_default_dtype(), &out));
    CR_TRY(cr_meta_set_dense(r->env, &out->meta, rank, size, CR_CONTIGUOUS));
    for (int i = 0; i < rank; i++) {
        int64_t d = layout->u.list[i].u.i;
        if (d < 0 || d >= rank || (seen >> d & 1))
            return CR_FAIL(CR_ERUNTIME, "empty_permuted: physical_layout must name each of the dims 0 to %d once",
                           rank - 1);
        seen |= 1u << d;
        order[i] = (int)d;
    }
    cr_strides_permuted(r->env, rank, out->meta.size, order, out->meta.stride);
    /* Row-major strides treat an empty dimension as 1, so these do, too. */
    cr_dim next = 1;
    for (int i = rank - 1; i >= 0; i--) {
        out->meta.stride[order[i]] = next;
        cr_dim s = out->meta.size[order[i]];
        if (i)
            next = cr_dim_mul(r->env, next, cr_dim_known(r->env, s, CR_GE, 1) == CR_YES ? s : cr_dim_max(r->env, s, 1));
    }
    return CR_OK;
}

/* empty_like, zeros_like, ... */
cr_status shape_like_option(cr_rule *r) {
    const cr_meta *m = cr_rule_meta(r, 0);
    const cr_arg *format = option(r, "memory_format");
    cr_out *out;
    CR_TRY(begin(r, m->dtype, &out));
    if (format->kind == CR_ARG_FORMAT && format->u.i != CR_PRESERVE)
        return cr_meta_set_dense(r->env, &out->meta, m->rank, m->size, (cr_memory_format)format->u.i);
    cr_layout_like(r->env, m, &out->meta);
    return CR_OK;
}

cr_status shape_scalar_tensor(cr_rule *r) { return add_dense(r, cr_default_dtype(), 0, NULL); }

/* ---- ranges ---- */

static cr_status number_value(const cr_rule *r, const cr_arg *a, double *f, int64_t *i) {
    rt_scalar s = cr_arg_scalar(a);
    if (s.kind == RT_ARG_COMPLEX) return CR_FAIL(CR_ERUNTIME, "%s: complex bounds are not supported", op_name(r));
    *f = s.kind == RT_ARG_FLOAT ? s.f : (double)s.i;
    if (isfinite(*f) && fabs(*f) < 0x1p63) *i = s.kind == RT_ARG_FLOAT ? (int64_t)s.f : s.i;
    else if (isfinite(*f)) return CR_FAIL(CR_ERUNTIME, "%s: a bound is beyond 64 bits", op_name(r));
    else return CR_FAIL(CR_ERUNTIME, "%s: bounds must be finite", op_name(r));
    return CR_OK;
}

static cr_sym number_sym(cr_env *env, const cr_arg *a) {
    if (a->kind == CR_ARG_SYM) return a->u.sym;
    return a->kind == CR_ARG_FLOAT ? cr_sym_float(env, a->u.f) : cr_dim_sym(env, a->u.i);
}

/* ceil((end - start) / step) of floats, as the plain case computes it; the direction is decided. */
static cr_status symbolic_length(cr_rule *r, const cr_arg *start, const cr_arg *end, const cr_arg *step, cr_dim *out) {
    cr_env *env = r->env;
    bool up, down, fits;
    if (start->kind == CR_ARG_COMPLEX || end->kind == CR_ARG_COMPLEX || step->kind == CR_ARG_COMPLEX)
        return CR_FAIL(CR_ERUNTIME, "%s: complex bounds are not supported", op_name(r));
    cr_sym by = cr_sym_make(env, CR_SYM_TOFLOAT, number_sym(env, step), NULL, NULL), zero = cr_sym_float(env, 0);
    cr_sym last = cr_sym_make(env, CR_SYM_TOFLOAT, number_sym(env, end), NULL, NULL);
    cr_sym first = cr_sym_make(env, CR_SYM_TOFLOAT, number_sym(env, start), NULL, NULL);
    CR_TRY(cr_sym_decide(env, cr_sym_compare(env, by, CR_GT, zero), &up));
    CR_TRY(cr_sym_decide(env, cr_sym_compare(env, by, CR_LT, zero), &down));
    if (!up && !down) return CR_FAIL(CR_ERUNTIME, "%s: step must not be zero", op_name(r));
    cr_sym span = cr_sym_sub(env, last, first);
    CR_TRY(cr_sym_decide(env, cr_sym_compare(env, span, up ? CR_GE : CR_LE, zero), &fits));
    if (!fits) return CR_FAIL(CR_ERUNTIME, "%s: end lies on the other side of start than step points to", op_name(r));
    cr_sym steps = cr_sym_make(env, CR_SYM_TRUEDIV, span, by, NULL);
    *out = cr_dim_of(env, cr_sym_make(env, CR_SYM_CEIL, steps, NULL, NULL));
    return *out == CR_DIM_OVERFLOW ? CR_FAIL(CR_ENOMEM, "out of memory") : CR_OK;
}

static cr_status range_length(cr_rule *r, const cr_arg *start, const cr_arg *end, const cr_arg *step, int dtype,
                              cr_dim *out) {
    if (cr_arg_is_symbolic(r->env, start) || cr_arg_is_symbolic(r->env, end) || cr_arg_is_symbolic(r->env, step)) {
        bool up;
        if (start->kind != CR_ARG_INT || end->kind != CR_ARG_INT || step->kind != CR_ARG_INT)
            return symbolic_length(r, start, end, step, out);
        CR_TRY(cr_dim_decide(r->env, step->u.i, CR_GT, 0, &up));
        cr_dim span = cr_dim_sub(r->env, end->u.i, start->u.i);
        CR_TRY(cr_dim_require(r->env, span, up ? CR_GE : CR_LE, 0, "end - start"));
        *out = cr_dim_ceildiv(r->env, span, step->u.i);
        return CR_OK;
    }
    double first, last, by, length;
    int64_t i0, i1, istep, span;
    CR_TRY(number_value(r, start, &first, &i0));
    CR_TRY(number_value(r, end, &last, &i1));
    CR_TRY(number_value(r, step, &by, &istep));
    if (by == 0) return CR_FAIL(CR_ERUNTIME, "%s: step must not be zero", op_name(r));
    if ((by > 0 && first > last) || (by < 0 && first < last))
        return CR_FAIL(CR_ERUNTIME, "%s: end lies on the other side of start than step points to", op_name(r));
    if (dtype == CR_I64) { /* bounds are integers then, and so is the count */
        if (!istep) return CR_FAIL(CR_ERUNTIME, "%s: step must not be zero", op_name(r));
        if (cr_sub_overflow(i1, i0, &span) || span == INT64_MIN)
            return CR_FAIL(CR_ERUNTIME, "%s: the range is beyond 64 bits", op_name(r));
        *out = span / istep + (span % istep != 0);
        return CR_OK;
    }
    length = ceil((last - first) / by);
    if (!(length >= 0 && length < 0x1p62))
        return CR_FAIL(CR_ERUNTIME, "%s: the range has too many elements", op_name(r));
    *out = (cr_dim)length;
    return CR_OK;
}

static bool is_integral_number(const cr_arg *a) { return a->kind == CR_ARG_INT || a->kind == CR_ARG_BOOL; }

cr_status shape_arange(cr_rule *r) {
    static const cr_arg zero = { .kind = CR_ARG_INT, .u.i = 0 }, one = { .kind = CR_ARG_INT, .u.i = 1 };
    bool short_form = cr__rule_param(r, "start") < 0;
    const cr_arg *start = short_form ? &zero : &r->arg[0], *end = option(r, "end"), *step = option(r, "step");
    if (step->kind == CR_ARG_NONE) step = &one;
    bool integral = is_integral_number(start) && is_integral_number(end) && is_integral_number(step);
    int dtype = dtype_option(r, integral ? CR_I64 : cr_default_dtype());
    cr_dim length;
    CR_TRY(range_length(r, start, end, step, dtype, &length));
    return add_dense(r, dtype, 1, &length);
}

static bool is_complex_bound(const cr_arg *a) {
    const cr_meta *m = cr_arg_meta(a);
    return m ? cr_dtype_is_complex(m->dtype) : a->kind == CR_ARG_COMPLEX;
}

cr_status shape_linspace(cr_rule *r) {
    int64_t steps = r->arg[2].u.i;
    bool complex = is_complex_bound(&r->arg[0]) || is_complex_bound(&r->arg[1]);
    if (steps < 0)
        return CR_FAIL(CR_ERUNTIME, "%s: the number of steps must not be negative, got %lld", op_name(r),
                       (long long)steps);
    int dtype = complex ? cr_dtype_to_complex(cr_default_dtype()) : cr_default_dtype();
    if (complex && !cr_dtype_is_complex(dtype_option(r, dtype)))
        return CR_FAIL(CR_ERUNTIME, "%s: complex bounds need a complex dtype, got %s", op_name(r),
                       cr_dtype_name(dtype_option(r, dtype)));
    return add_dense(r, dtype, 1, &(cr_dim){ steps });
}

cr_status shape_eye(cr_rule *r) {
    cr_dim n = cr_rule_int(r, 0), m = cr__rule_param(r, "m") < 0 ? n : cr_rule_int(r, 1);
    return add_dense(r, cr_default_dtype(), 2, (cr_dim[]){ n, m });
}

static int64_t clamp(int64_t x, int64_t lo, int64_t hi) { return x < lo ? lo : x > hi ? hi : x; }

/* How many (i, j) of a row x col matrix have j <= i + offset: nothing in the first rows, then i + offset + 1 in row i,
 * then full rows. */
static int64_t lower_count(int64_t row, int64_t col, int64_t offset) {
    int64_t some = clamp(-offset, 0, row), full = clamp(col - offset, some, row), n = full - some;
    return n * (offset + 1) + (some + full - 1) * n / 2 + (row - full) * col;
}

static cr_status triangle(cr_rule *r, bool lower) {
    int64_t row = r->arg[0].u.i, col = r->arg[1].u.i, offset = r->arg[2].u.i;
    if (row < 0 || col < 0) return CR_FAIL(CR_ERUNTIME, "%s: row and col must not be negative", op_name(r));
    if (row > INT32_MAX || col > INT32_MAX || offset > INT32_MAX || offset < -INT32_MAX)
        return CR_FAIL(CR_ERUNTIME, "%s: row, col and offset must fit in 32 bits", op_name(r));
    int64_t n = lower ? lower_count(row, col, offset) : row * col - lower_count(row, col, offset - 1);
    return add_dense(r, CR_I64, 2, (cr_dim[]){ 2, n });
}
cr_status shape_tril_indices(cr_rule *r) { return triangle(r, true); }
cr_status shape_triu_indices(cr_rule *r) { return triangle(r, false); }

/* ---- questions ---- */

cr_status shape_sym_size(cr_rule *r) {
    const cr_meta *m = cr_rule_meta(r, 0);
    int dim;
    if (!m->rank) return CR_FAIL(CR_EINDEX, "%s: a 0-d tensor has no dimensions", op_name(r));
    CR_TRY(cr_wrap_dim(cr_rule_int(r, 1), m->rank, &dim));
    return cr_rule_add_number(r, CR_ARG_INT, strstr(op_name(r), "stride") ? m->stride[dim] : m->size[dim]);
}
cr_status shape_sym_numel(cr_rule *r) {
    return cr_rule_add_number(r, CR_ARG_INT, cr_meta_numel(r->env, cr_rule_meta(r, 0)));
}
cr_status shape_sym_offset(cr_rule *r) { return cr_rule_add_number(r, CR_ARG_INT, cr_rule_meta(r, 0)->offset); }
cr_status shape_dim(cr_rule *r) { return cr_rule_add_number(r, CR_ARG_INT, cr_rule_meta(r, 0)->rank); }
cr_status shape_is_float(cr_rule *r) {
    return cr_rule_add_number(r, CR_ARG_BOOL, cr_dtype_is_floating(cr_rule_meta(r, 0)->dtype));
}
cr_status shape_is_complex(cr_rule *r) {
    return cr_rule_add_number(r, CR_ARG_BOOL, cr_dtype_is_complex(cr_rule_meta(r, 0)->dtype));
}

cr_status shape_is_same_size(cr_rule *r) {
    const cr_meta *a = cr_rule_meta(r, 0), *b = cr_rule_meta(r, 1);
    bool same = a->rank == b->rank;
    for (int i = 0; same && i < a->rank; i++) CR_TRY(cr_dim_decide(r->env, a->size[i], CR_EQ, b->size[i], &same));
    return cr_rule_add_number(r, CR_ARG_BOOL, same);
}

cr_status shape_is_set_to(cr_rule *r) { /* the same elements of the same memory */
    const cr_meta *a = cr_rule_meta(r, 0), *b = cr_rule_meta(r, 1);
    bool same = a->rank == b->rank && a->storage == b->storage;
    if (same) CR_TRY(cr_dim_decide(r->env, a->offset, CR_EQ, b->offset, &same));
    for (int i = 0; same && i < a->rank; i++) {
        CR_TRY(cr_dim_decide(r->env, a->size[i], CR_EQ, b->size[i], &same));
        if (same) CR_TRY(cr_dim_decide(r->env, a->stride[i], CR_EQ, b->stride[i], &same));
    }
    return cr_rule_add_number(r, CR_ARG_BOOL, same);
}

/* One element as a number: a fresh symbol where the data is not there. */
cr_status shape_item(cr_rule *r) {
    const cr_meta *m = cr_rule_meta(r, 0);
    cr_dim n = cr_meta_numel(r->env, m);
    if (cr_dim_known(r->env, n, CR_EQ, 1) == CR_NO) {
        cr_str shape;
        cr_str_init(&shape);
        cr_shape_print(r->env, m->rank, m->size, &shape);
        cr_status s = CR_FAIL(CR_ERUNTIME, "%s: a tensor of shape %s is not one number", op_name(r),
                              cr_str_get(&shape));
        cr_str_dispose(&shape);
        return s;
    }
    CR_TRY(cr_dim_require(r->env, n, CR_EQ, 1, "number of elements"));
    cr_arg_kind kind = m->dtype == CR_BOOL              ? CR_ARG_BOOL
                       : cr_dtype_is_complex(m->dtype)  ? CR_ARG_COMPLEX
                       : cr_dtype_is_floating(m->dtype) ? CR_ARG_FLOAT
                                                        : CR_ARG_INT;
    return cr_rule_add_data(r, kind);
}

cr_status shape_equal(cr_rule *r) {
    const cr_meta *a = cr_rule_meta(r, 0), *b = cr_rule_meta(r, 1);
    if (a->dtype != b->dtype)
        return CR_FAIL(CR_ERUNTIME, "equal: expected two tensors of one dtype, got %s and %s", cr_dtype_name(a->dtype),
                       cr_dtype_name(b->dtype));
    return cr_rule_add_data(r, CR_ARG_BOOL);
}

/* ---- assertions: no results ---- */

cr_status shape_assert_scalar(cr_rule *r) {
    const cr_arg *a = &r->arg[0];
    const char *message = r->arg[1].u.s;
    if (a->kind == CR_ARG_SYM || (r->env && a->kind == CR_ARG_INT && !cr_dim_is_plain(a->u.i))) {
        cr_sym condition = a->kind == CR_ARG_SYM
                               ? a->u.sym
                               : cr_sym_compare(r->env, cr_dim_sym(r->env, a->u.i), CR_NE, cr_sym_int(r->env, 0));
        if (!condition) return CR_FAIL(CR_ENOMEM, "out of memory");
        cr_tri known = cr_sym_truth(r->env, condition);
        if (known == CR_NO) return CR_FAIL(CR_ERUNTIME, "%s", message);
        return known == CR_YES ? CR_OK : cr_env_add_cond(r->env, CR_COND_ASSERT, condition, message);
    }
    rt_scalar s = cr_arg_scalar(a);
    if (s.kind == RT_ARG_INT ? !s.i : s.f == 0 && s.im == 0) return CR_FAIL(CR_ERUNTIME, "%s", message);
    return CR_OK;
}

cr_status shape_assert_async(cr_rule *r) {
    const cr_meta *m = cr_rule_meta(r, 0);
    cr_dim n = cr_meta_numel(r->env, m);
    if (cr_dim_known(r->env, n, CR_EQ, 1) == CR_NO)
        return CR_FAIL(CR_ERUNTIME, "%s: expected a tensor with one element", op_name(r));
    return cr_dim_require(r->env, n, CR_EQ, 1, "number of elements");
}

static cr_status check_dims(cr_rule *r, const char *what, const cr_arg *want, int rank, const cr_dim *have) {
    if (want->kind == CR_ARG_NONE) return CR_OK;
    bool same = (int)want->n == rank;
    for (int i = 0; same && i < rank; i++) {
        same = cr_dim_known(r->env, have[i], CR_EQ, want->u.list[i].u.i) != CR_NO;
        if (same) CR_TRY(cr_dim_require(r->env, have[i], CR_EQ, want->u.list[i].u.i, what));
    }
    if (same) return CR_OK;
    cr_str text;
    cr_str_init(&text);
    cr_shape_print(r->env, rank, have, &text);
    cr_status s = CR_FAIL(CR_ERUNTIME, "%s: the tensor's %s is %s, another was asserted", op_name(r), what,
                          cr_str_get(&text));
    cr_str_dispose(&text);
    return s;
}

cr_status shape_assert_metadata(cr_rule *r) {
    const cr_meta *m = cr_rule_meta(r, 0);
    const cr_arg *dtype = option(r, "dtype"), *device = option(r, "device");
    CR_TRY(check_dims(r, "size", option(r, "size"), m->rank, m->size));
    CR_TRY(check_dims(r, "stride", option(r, "stride"), m->rank, m->stride));
    if (dtype->kind != CR_ARG_NONE && dtype->u.i != m->dtype)
        return CR_FAIL(CR_ERUNTIME, "%s: the tensor is %s, %s was asserted", op_name(r), cr_dtype_name(m->dtype),
                       cr_dtype_name((int)dtype->u.i));
    if (device->kind != CR_ARG_NONE &&
        (device->u.device.type != m->device.type || CR_MAX(device->u.device.index, 0) != CR_MAX(m->device.index, 0)))
        return CR_FAIL(CR_ERUNTIME, "%s: the tensor is on another device than was asserted", op_name(r));
    return CR_OK;
}

/* sym_constrain_range: a promise about a number, which becomes a fact of the environment when it is symbolic. */
static cr_status constrain(cr_rule *r, int64_t lo) {
    const cr_arg *value = &r->arg[0], *min = option(r, "min"), *max = option(r, "max");
    if (value->kind != CR_ARG_INT && value->kind != CR_ARG_BOOL)
        return CR_FAIL(CR_ERUNTIME, "%s: expected an integer", op_name(r));
    if (min->kind != CR_ARG_NONE) lo = min->u.i;
    int64_t hi = max->kind == CR_ARG_NONE ? INT64_MAX : max->u.i;
    if (lo > hi)
        return CR_FAIL(CR_ERUNTIME, "%s: the range [%lld, %lld] is empty", op_name(r), (long long)lo, (long long)hi);
    if (lo != INT64_MIN) {
        if (cr_dim_known(r->env, value->u.i, CR_LT, lo) == CR_YES) goto outside;
        CR_TRY(cr_dim_require(r->env, value->u.i, CR_GE, lo, "value"));
    }
    if (hi != INT64_MAX) {
        if (cr_dim_known(r->env, value->u.i, CR_GT, hi) == CR_YES) goto outside;
        CR_TRY(cr_dim_require(r->env, value->u.i, CR_LE, hi, "value"));
    }
    return CR_OK;
outside:;
    cr_str text;
    cr_str_init(&text);
    cr_dim_print(r->env, value->u.i, &text);
    cr_status s = CR_FAIL(CR_ERUNTIME, "%s: %s is outside of [%lld, %lld]", op_name(r), cr_str_get(&text),
                          (long long)lo, (long long)hi);
    cr_str_dispose(&text);
    return s;
}
cr_status shape_constrain_range(cr_rule *r) { return constrain(r, INT64_MIN); }
cr_status shape_constrain_size(cr_rule *r) { return constrain(r, 0); }
