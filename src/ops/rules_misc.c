/* rules_misc.c: results of sliding blocks (im2col and its adjoint) and histograms. */
#include "ops/rules.h"

#include <math.h>

/* kernel_size, dilation, padding and stride from argument `at` on; `count`: how many blocks fit per dimension. */
static cr_status block_counts(cr_rule *r, int at, const cr_dim *image, cr_dim *kernel, cr_dim *count) {
    cr_dim dilation[2], padding[2], stride[2];
    CR_TRY(cr_rule_exact_ints(r, at, 2, kernel));
    CR_TRY(cr_rule_exact_ints(r, at + 1, 2, dilation));
    CR_TRY(cr_rule_exact_ints(r, at + 2, 2, padding));
    CR_TRY(cr_rule_exact_ints(r, at + 3, 2, stride));
    for (int i = 0; i < 2; i++) {
        CR_TRY(cr_dim_require(r->env, kernel[i], CR_GT, 0, "sliding blocks: kernel_size must be positive"));
        CR_TRY(cr_dim_require(r->env, dilation[i], CR_GT, 0, "sliding blocks: dilation must be positive"));
        CR_TRY(cr_dim_require(r->env, padding[i], CR_GE, 0, "sliding blocks: padding must not be negative"));
        CR_TRY(cr_dim_require(r->env, stride[i], CR_GT, 0, "sliding blocks: stride must be positive"));
        cr_dim span = cr_dim_add(r->env, cr_dim_mul(r->env, dilation[i], cr_dim_sub(r->env, kernel[i], 1)), 1);
        cr_dim room = cr_dim_sub(r->env, cr_dim_add(r->env, image[i], cr_dim_mul(r->env, 2, padding[i])), span);
        CR_TRY(cr_dim_require(r->env, room, CR_GE, 0, "sliding blocks: the kernel must fit into the padded image"));
        count[i] = cr_dim_add(r->env, cr_dim_floordiv(r->env, room, stride[i]), 1);
    }
    return CR_OK;
}

cr_status shape_im2col(cr_rule *r) { /* self, kernel_size, dilation, padding, stride */
    const cr_meta *m = cr_rule_meta(r, 0);
    if (m->rank != 3 && m->rank != 4)
        return CR_FAIL(m->rank < 3 ? CR_EINDEX : CR_ERUNTIME, "%s: expected an image of 3 or 4 dimensions, got %d",
                       r->op->schema.name, m->rank);
    int c = m->rank - 3;
    cr_dim kernel[2], count[2], size[3];
    for (int d = c; d < m->rank; d++)
        CR_TRY(
            cr_dim_require(r->env, m->size[d], CR_GT, 0, "sliding blocks: all sizes but the batch must be positive"));
    CR_TRY(block_counts(r, 1, m->size + c + 1, kernel, count));
    size[0] = m->size[0];
    size[c] = cr_dim_mul(r->env, m->size[c], cr_dim_mul(r->env, kernel[0], kernel[1]));
    size[c + 1] = cr_dim_mul(r->env, count[0], count[1]);
    return cr_rule_add_dense(r, r->result, m->rank - 1, size);
}

cr_status shape_col2im(cr_rule *r) { /* self, output_size, kernel_size, dilation, padding, stride */
    const cr_meta *m = cr_rule_meta(r, 0);
    if (m->rank != 2 && m->rank != 3)
        return CR_FAIL(CR_ERUNTIME, "%s: expected blocks of 2 or 3 dimensions, got %d", r->op->schema.name, m->rank);
    int c = m->rank - 2;
    cr_dim kernel[2], count[2], size[4];
    CR_TRY(cr_rule_exact_ints(r, 1, 2, size + c + 1));
    CR_TRY(block_counts(r, 2, size + c + 1, kernel, count));
    cr_dim area = cr_dim_mul(r->env, kernel[0], kernel[1]);
    for (int d = c; d < m->rank; d++)
        CR_TRY(
            cr_dim_require(r->env, m->size[d], CR_GT, 0, "sliding blocks: all sizes but the batch must be positive"));
    CR_TRY(cr_dim_require(r->env, cr_dim_mod(r->env, m->size[c], area), CR_EQ, 0,
                          "col2im: the size of a block must be divisible by the kernel's area"));
    CR_TRY(cr_dim_require(r->env, m->size[c + 1], CR_EQ, cr_dim_mul(r->env, count[0], count[1]),
                          "col2im: the number of blocks must fit output_size"));
    size[0] = m->size[0];
    size[c] = cr_dim_floordiv(r->env, m->size[c], area);
    return cr_rule_add_dense(r, r->result, m->rank + 1, size);
}

cr_status shape_histc(cr_rule *r) { /* self, bins, min, max */
    cr_dim bins = cr_rule_int(r, 1);
    double range[2];
    for (int i = 0; i < 2; i++) {
        cr_arg a = r->arg[2 + i];
        if (a.kind == CR_ARG_COMPLEX) return CR_FAIL(CR_ERUNTIME, "histc: min and max must be real numbers");
        CR_TRY(cr_arg_settle(r->env, &a));
        rt_scalar s = cr_arg_scalar(&a);
        range[i] = s.kind == RT_ARG_FLOAT ? s.f : (double)s.i;
    }
    CR_TRY(cr_dim_require(r->env, bins, CR_GT, 0, "histc: bins must be positive"));
    if (!isfinite(range[0]) || !isfinite(range[1]))
        return CR_FAIL(CR_ERUNTIME, "histc: the range of bins [%g, %g] must be finite", range[0], range[1]);
    if (range[0] > range[1])
        return CR_FAIL(CR_ERUNTIME, "histc: max (%g) must not be less than min (%g)", range[1], range[0]);
    return cr_rule_add_dense(r, r->result, 1, &bins);
}

cr_status shape_one_hot(cr_rule *r) { /* self, num_classes */
    const cr_meta *m = cr_rule_meta(r, 0);
    cr_dim size[CR_MAX_RANK], n = 1, classes = cr_rule_int(r, 1);
    bool empty = false, infer = false;
    if (m->dtype != CR_I64)
        return CR_FAIL(CR_ERUNTIME, "one_hot: expected class numbers of dtype int64, got %s; convert with .to(int64)",
                       rt_dtype_name(m->dtype));
    if (m->rank == CR_MAX_RANK)
        return CR_FAIL(CR_ERUNTIME, "one_hot: the result would have more than %d dimensions", CR_MAX_RANK);
    for (int d = 0; d < m->rank; d++) n = cr_dim_mul(r->env, n, size[d] = m->size[d]);
    CR_TRY(cr_dim_require(r->env, classes, CR_GE, -1, "one_hot: num_classes must be positive, or -1 to find it"));
    CR_TRY(cr_dim_decide(r->env, classes, CR_EQ, -1, &infer));
    if (infer) CR_TRY(cr_dim_assume(r->env, n, CR_EQ, 0, false, &empty));
    if (empty)
        return CR_FAIL(CR_ERUNTIME, "one_hot: an empty tensor does not tell the number of classes; pass num_classes");
    if (!infer)
        CR_TRY(cr_dim_require(r->env, classes, CR_GT, 0, "one_hot: num_classes must be positive, or -1 to find it"));
    size[m->rank] = infer ? cr_rule_count(r, 0, INT64_MAX) : classes;
    return cr_rule_add_dense(r, CR_I64, m->rank + 1, size);
}

cr_status shape_isin(cr_rule *r) { /* elements, test_elements: brought to one dtype */
    const cr_meta *m = cr_rule_meta(r, 0);
    CR_TRY(cr_rule_require_dtype(r, 1, m->dtype));
    if (cr_dtype_is_complex(m->dtype))
        return CR_FAIL(CR_ENOTIMPL, "%s: not implemented for complex numbers, which have no order", r->op->schema.name);
    return cr_rule_add_dense(r, CR_BOOL, m->rank, m->size);
}

cr_status check_isin(cr_rule *r) { /* element, test_elements */
    const cr_meta *m = cr_rule_meta(r, 1);
    if (rt_is_complex(m->dtype) || m->dtype == CR_BOOL)
        return CR_FAIL(CR_ERUNTIME, "isin: not supported for %s", rt_dtype_name(m->dtype));
    r->common = r->result = m->dtype;
    return CR_OK;
}

cr_status shape_bincount(cr_rule *r) { /* self, weights, minlength */
    const cr_meta *m = cr_rule_meta(r, 0), *w = cr_rule_meta(r, 1);
    bool empty = false;
    CR_TRY(cr_dim_require(r->env, cr_rule_int(r, 2), CR_GE, 0, "bincount: minlength must not be negative"));
    if (m->rank != 1) return CR_FAIL(CR_ERUNTIME, "bincount: expected numbers in one dimension, got %d", m->rank);
    if (!rt_is_integer(m->dtype))
        return CR_FAIL(CR_ENOTIMPL, "bincount: expected integers, got %s", rt_dtype_name(m->dtype));
    /* without numbers, weights decide nothing */
    if (w) CR_TRY(cr_dim_assume(r->env, m->size[0], CR_EQ, 0, false, &empty));
    if (w && w->rank != 1) return CR_FAIL(CR_ERUNTIME, "bincount: weights must have one dimension, got %d", w->rank);
    if (w)
        CR_TRY(
            cr_dim_require(r->env, w->size[0], CR_EQ, m->size[0], "bincount: there must be a weight for each number"));
    cr_dim bins = cr_rule_count(r, 0, INT64_MAX), least = cr_rule_int(r, 2);
    cr_sym counted = cr_dim_is_plain(bins) || !cr_dim_is_plain(least) ? NULL : cr_dim_sym(r->env, bins);
    if (counted && cr_sym_name(counted)) CR_TRY(cr_env_narrow(r->env, counted, least, INT64_MAX));
    return cr_rule_add_dense(r, !w || empty ? CR_I64 : w->dtype == CR_F32 ? CR_F32 : CR_F64, 1, &bins);
}

cr_status shape_repeat_interleave(cr_rule *r) { /* repeats, output_size */
    const cr_meta *m = cr_rule_meta(r, 0);
    if (m->rank != 1)
        return CR_FAIL(CR_ERUNTIME, "repeat_interleave: repeats must have one dimension, got %d", m->rank);
    if (m->dtype != CR_I32 && m->dtype != CR_I64)
        return CR_FAIL(CR_ENOTIMPL, "repeat_interleave: repeats must have dtype int32 or int64, got %s",
                       rt_dtype_name(m->dtype));
    cr_dim n = r->arg[1].kind == CR_ARG_NONE ? cr_rule_count(r, 0, INT64_MAX) : cr_rule_int(r, 1);
    return cr_rule_add_dense(r, m->dtype, 1, &n);
}

cr_status check_repeat_interleave(cr_rule *r) { /* self, repeats, dim, output_size */
    const cr_meta *m = cr_rule_meta(r, 0), *times = cr_rule_meta(r, 1);
    int d = 0;
    bool one = times->rank == 0;
    if (times->rank > 1)
        return CR_FAIL(CR_ERUNTIME, "repeat_interleave: repeats must have at most one dimension, got %d", times->rank);
    if (r->arg[2].kind != CR_ARG_NONE) CR_TRY(cr_wrap_dim(r->arg[2].u.i, m->rank, &d));
    cr_dim n = r->arg[2].kind == CR_ARG_NONE ? cr_meta_numel(r->env, m) : m->rank ? m->size[d] : 1;
    if (!one) CR_TRY(cr_dim_repeats(r->env, times->size[0], n, &one));
    if (!one)
        CR_TRY(cr_dim_require(r->env, times->size[0], CR_EQ, n,
                              "repeat_interleave: there must be one number of repeats, or one for each entry along "
                              "dim"));
    return dtype_same(r);
}

cr_status shape_is_nonzero(cr_rule *r) { /* self */
    CR_TRY(cr_dim_require(r->env, cr_meta_numel(r->env, cr_rule_meta(r, 0)), CR_EQ, 1,
                          "is_nonzero: the truth of a tensor is that of its only element; use any() or all()"));
    return cr_rule_add_data(r, CR_ARG_BOOL);
}

cr_status check_sum_to_size(cr_rule *r) { /* self, size */
    const cr_meta *m = cr_rule_meta(r, 0);
    cr_dim size[CR_MAX_RANK];
    int n;
    CR_TRY(cr_rule_ints(r, 1, 0, CR_MAX_RANK, size, &n));
    if (n > m->rank) return CR_FAIL(CR_ERUNTIME, "sum_to_size: %d sizes for a tensor of %d dimensions", n, m->rank);
    for (int d = 0; d < n; d++) {
        bool one;
        CR_TRY(cr_dim_decide(r->env, size[d], CR_EQ, 1, &one));
        if (!one)
            CR_TRY(cr_dim_require(r->env, size[d], CR_EQ, m->size[m->rank - n + d],
                                  "sum_to_size: a size must be 1 or the tensor's own"));
    }
    return dtype_same(r);
}

cr_status check_sparse_gradient(cr_rule *r) { /* ..., sparse */
    if (cr_rule_bool(r, 5))
        return CR_FAIL(CR_ENOTIMPL, "%s: sparse gradients are not supported; pass sparse=False", r->op->schema.name);
    return dtype_same(r);
}

/* ---- slopes, choices ---- */

/* How many dimensions a call of gradient asks about; each of them must be there, once. */
static cr_status check_slope_dims(cr_rule *r, int *count) {
    const cr_meta *m = cr_rule_meta(r, 0);
    const cr_arg *dim = &r->arg[cr__rule_param(r, "dim")];
    int64_t order = r->arg[cr__rule_param(r, "edge_order")].u.i;
    uint32_t mask = 0;
    if (dim->kind == CR_ARG_NONE) mask = (uint32_t)((1u << m->rank) - 1);
    for (uint32_t i = 0; i < (dim->kind == CR_ARG_LIST ? dim->n : dim->kind == CR_ARG_NONE ? 0 : 1); i++) {
        int d;
        int64_t given = dim->kind == CR_ARG_LIST ? dim->u.list[i].u.i : dim->u.i;
        if (!m->rank)
            return CR_FAIL(CR_EINDEX, "gradient: a tensor without dimensions has no dimension %lld", (long long)given);
        CR_TRY(cr_wrap_dim(given, m->rank, &d));
        if (mask >> d & 1) return CR_FAIL(CR_ERUNTIME, "gradient: dimension %d appears twice in dim", d);
        mask |= 1u << d;
    }
    *count = 0;
    for (int d = 0; d < m->rank; d++) {
        if (!(mask >> d & 1)) continue;
        ++*count;
        CR_TRY(cr_dim_require(r->env, m->size[d], CR_GT, order,
                              "gradient: each dimension must have more elements than edge_order"));
    }
    return CR_OK;
}

cr_status check_slopes(cr_rule *r) { /* self, (spacing,) (dim,) edge_order */
    const cr_meta *m = cr_rule_meta(r, 0);
    int at = cr__rule_param(r, "spacing"), count = 0;
    int64_t order = r->arg[cr__rule_param(r, "edge_order")].u.i;
    const cr_arg *spacing = at >= 0 ? &r->arg[at] : NULL;
    if (m->dtype == CR_U8) return CR_FAIL(CR_ERUNTIME, "gradient: not of uint8; convert the tensor to a signed dtype");
    if (order != 1 && order != 2)
        return CR_FAIL(CR_ERUNTIME, "gradient: edge_order must be 1 or 2, got %lld", (long long)order);
    CR_TRY(check_slope_dims(r, &count));
    if (spacing && spacing->kind == CR_ARG_LIST && (int64_t)spacing->n != count)
        return CR_FAIL(CR_ERUNTIME,
                       "gradient: spacing must be one number or a list of %d, one for each dimension, got %u", count,
                       spacing->n);
    for (uint32_t i = 0; spacing && spacing->kind == CR_ARG_LIST && i < spacing->n; i++) {
        const cr_meta *points = cr_arg_meta(&spacing->u.list[i]);
        if (points && points->rank != 1)
            return CR_FAIL(CR_ERUNTIME, "gradient: spacing must be numbers or vectors, got a tensor of %d dimensions",
                           points->rank);
    }
    return dtype_same(r);
}

cr_status check_outer(cr_rule *r) { /* self, vec2 */
    for (int i = 0; i < 2; i++)
        if (cr_rule_meta(r, i)->rank != 1)
            return CR_FAIL(CR_ERUNTIME,
                           "%s: Expected 1-D argument %s, but got %d-D; use unsqueeze() and a product for "
                           "others",
                           r->op->schema.name, i ? "vec2" : "self", cr_rule_meta(r, i)->rank);
    return dtype_promote(r);
}

cr_status check_pad(cr_rule *r) { /* self, pad, mode, value */
    static const char *const modes[] = { "constant", "reflect", "replicate", "circular" };
    const char *mode = r->arg[2].u.s;
    size_t at = 0;
    while (at < CR_COUNT(modes) && strcmp(mode, modes[at])) at++;
    if (at == CR_COUNT(modes))
        return CR_FAIL(CR_ENOTIMPL,
                       "pad: Unrecognised padding mode %s; there are constant, reflect, replicate and "
                       "circular",
                       mode);
    if (!at) return dtype_same(r);
    if (r->arg[3].kind == CR_ARG_FLOAT && r->arg[3].u.f != 0)
        return CR_FAIL(CR_ERUNTIME, "pad: Padding mode \"%s\" doesn't take in value argument; leave it out", mode);
    int rank = cr_rule_meta(r, 0)->rank, n = (int)r->arg[1].n;
    if (n % 2 || n > 2 * rank)
        return CR_FAIL(CR_ERUNTIME, "pad: there must be two numbers for each of at most %d dimensions, got %d", rank,
                       n);
    if (n < 2 || n > 6 || (rank != n / 2 + 1 && rank != n / 2 + 2))
        return CR_FAIL(CR_ENOTIMPL,
                       "pad: %d numbers are not supported for an input of %d dimensions in mode %s, which "
                       "takes 2 for two or three dimensions, 4 for three or four, 6 for four or five",
                       n, rank, mode);
    return dtype_same(r);
}

cr_status check_softshrink(cr_rule *r) { /* self, lambd */
    double lambd = r->arg[1].kind == CR_ARG_FLOAT ? r->arg[1].u.f
                   : r->arg[1].kind == CR_ARG_INT ? (double)r->arg[1].u.i
                                                  : 0;
    if (lambd < 0)
        return CR_FAIL(CR_ERUNTIME, "softshrink: lambda must be greater or equal to 0, but found to be %g", lambd);
    return dtype_promote(r);
}

cr_status check_combinations(cr_rule *r) { /* self, r, with_replacement */
    const cr_meta *m = cr_rule_meta(r, 0);
    if (m->rank != 1) return CR_FAIL(CR_ERUNTIME, "combinations: self must be a vector, it has %d dimensions", m->rank);
    if (r->arg[1].u.i < 0)
        return CR_FAIL(CR_ERUNTIME, "combinations: r must not be negative, got %lld", (long long)r->arg[1].u.i);
    return dtype_same(r);
}
