/* rules_pool.c: results of pooling. The number of pooled dimensions is that of the kernel or output size in the
 * schema. */
#include "ops/rules.h"

static int spatial_dims(const cr_rule *r, int param) { return r->op->schema.params[param].list_size; }

/* (N?, C, spatial...): every dimension but the batch must have elements, or (PyTorch's averages of images) but batch
 * and channels. */
static cr_status check_input(cr_rule *r, const cr_meta *m, int spatial, bool channels) {
    if (m->rank != spatial + 1 && m->rank != spatial + 2)
        return CR_FAIL(CR_ERUNTIME, "%s: expected an input of %d or %d dimensions, got %d", r->op->schema.name,
                       spatial + 1, spatial + 2, m->rank);
    for (int d = m->rank - spatial - (channels ? 1 : 0); d < m->rank; d++) {
        bool empty;
        CR_TRY(cr_dim_assume(r->env, m->size[d], CR_EQ, 0, false, &empty));
        if (empty)
            return CR_FAIL(CR_ERUNTIME, "%s: every dimension but the batch must have elements; dimension %d has none",
                           r->op->schema.name, d);
    }
    return CR_OK;
}

typedef struct window { cr_dim kernel[3], stride[3], padding[3], dilation[3]; bool ceil; } window;

/* kernel at `at`, stride and padding after it; `dilation` < 0: none; `ceil`: position of ceil_mode. */
static cr_status read_window(cr_rule *r, int at, int dilation, int ceil, int n, window *w) {
    CR_TRY(cr_rule_ints(r, at, n, 3, w->kernel, NULL));
    bool own = r->arg[at + 1].kind == CR_ARG_LIST && r->arg[at + 1].n;
    if (own) CR_TRY(cr_rule_ints(r, at + 1, n, 3, w->stride, NULL));
    else memcpy(w->stride, w->kernel, sizeof w->stride);
    CR_TRY(cr_rule_ints(r, at + 2, n, 3, w->padding, NULL));
    for (int i = 0; i < 3; i++) w->dilation[i] = 1;
    if (dilation >= 0) CR_TRY(cr_rule_ints(r, dilation, n, 3, w->dilation, NULL));
    w->ceil = cr_rule_bool(r, ceil);
    for (int i = 0; i < n; i++) {
        CR_TRY(cr_dim_require(r->env, w->kernel[i], CR_GT, 0, "pooling: kernel_size must be positive"));
        CR_TRY(cr_dim_require(r->env, w->stride[i], CR_GT, 0, "pooling: stride must be positive"));
        CR_TRY(cr_dim_require(r->env, w->dilation[i], CR_GT, 0, "pooling: dilation must be positive"));
        CR_TRY(cr_dim_require(r->env, w->padding[i], CR_GE, 0, "pooling: padding must not be negative"));
        CR_TRY(cr_dim_require(r->env, cr_dim_mul(r->env, 2, w->padding[i]), CR_LE,
                              cr_dim_add(r->env,
                                         cr_dim_mul(r->env, cr_dim_sub(r->env, w->kernel[i], 1), w->dilation[i]), 1),
                              "pooling: padding must be at most half of the kernel"));
    }
    return CR_OK;
}

static cr_status pooled_size(cr_rule *r, const window *w, int i, cr_dim n, cr_dim *out) {
    cr_env *env = r->env;
    cr_dim span = cr_dim_mul(env, w->dilation[i], cr_dim_sub(env, w->kernel[i], 1));
    cr_dim room = cr_dim_sub(env, cr_dim_sub(env, cr_dim_add(env, n, cr_dim_mul(env, 2, w->padding[i])), span), 1);
    cr_dim steps = w->ceil ? cr_dim_ceildiv(env, room, w->stride[i]) : cr_dim_floordiv(env, room, w->stride[i]);
    if (w->ceil) { /* the last window must start inside the input or its left padding */
        bool beyond;
        CR_TRY(cr_dim_assume(env, cr_dim_mul(env, steps, w->stride[i]), CR_GE, cr_dim_add(env, n, w->padding[i]), false,
                             &beyond));
        if (beyond) steps = cr_dim_sub(env, steps, 1);
    }
    *out = cr_dim_add(env, steps, 1);
    return cr_dim_require(env, *out, CR_GE, 1,
                          "pooling: the result would be empty; the kernel is larger than the padded input");
}

/* Images keep channels-last; everything else is dense. */
static cr_status add_result(cr_rule *r, const cr_meta *m, int dtype, const cr_dim *size, int spatial) {
    if (m->rank != spatial + 2) return cr_rule_add_dense(r, dtype, m->rank, size);
    CR_TRY(cr__rule_add_format(r, m, m->rank, size));
    r->out[r->nout - 1].meta.dtype = (uint8_t)dtype;
    return CR_OK;
}

static cr_status pool_sizes(cr_rule *r, const cr_meta *m, const window *w, int n, cr_dim *size) {
    CR_TRY(check_input(r, m, n, true));
    memcpy(size, m->size, m->rank * sizeof *size);
    for (int i = 0; i < n; i++) CR_TRY(pooled_size(r, w, i, m->size[m->rank - n + i], &size[m->rank - n + i]));
    return CR_OK;
}

cr_status shape_max_pool(cr_rule *r) { /* self, kernel, stride, padding, dilation, ceil_mode -> values, indices */
    const cr_meta *m = cr_rule_meta(r, 0);
    int n = spatial_dims(r, 1);
    cr_dim size[CR_MAX_RANK];
    window w;
    CR_TRY(read_window(r, 1, 4, 5, n, &w));
    CR_TRY(pool_sizes(r, m, &w, n, size));
    if (n == 3 && cr_meta_suggest_format(r->env, m) == CR_CHANNELS_LAST)
        return CR_FAIL(CR_ERUNTIME,
                       "%s: the input must be contiguous or channels-last in three dimensions; call .contiguous()",
                       r->op->schema.name);
    CR_TRY(add_result(r, m, r->result, size, n));
    return r->op->schema.nreturns > 1 ? add_result(r, m, CR_I64, size, n) : CR_OK;
}

static cr_status require_divisor(cr_rule *r, int i) {
    return cr_dim_require(r->env, cr_rule_int(r, i), CR_NE, 0, "avg_pool: divisor_override must not be zero");
}

/* self, kernel, stride, padding, ceil_mode, count_include_pad, divisor_override */
cr_status shape_avg_pool(cr_rule *r) {
    const cr_meta *m = cr_rule_meta(r, 0);
    int n = spatial_dims(r, 1);
    cr_dim size[CR_MAX_RANK];
    window w;
    CR_TRY(read_window(r, 1, -1, 4, n, &w));
    if (r->nargs > 6 && cr_rule_has(r, 6)) CR_TRY(require_divisor(r, 6));
    CR_TRY(pool_sizes(r, m, &w, n, size));
    return n == 3 ? cr_rule_add_dense(r, r->result, m->rank, size) : add_result(r, m, r->result, size, n);
}

static cr_status adaptive_sizes(cr_rule *r, const cr_meta *m, bool channels, cr_dim *size) {
    int n = spatial_dims(r, 1);
    cr_dim want[3];
    CR_TRY(cr_rule_ints(r, 1, n, 3, want, NULL));
    CR_TRY(check_input(r, m, n, channels));
    memcpy(size, m->size, m->rank * sizeof *size);
    for (int i = 0; i < n; i++) {
        CR_TRY(cr_dim_require(r->env, want[i], CR_GE, 0, "adaptive pooling: output_size must not be negative"));
        size[m->rank - n + i] = want[i];
    }
    return CR_OK;
}

cr_status shape_adaptive_avg_pool(cr_rule *r) {
    const cr_meta *m = cr_rule_meta(r, 0);
    cr_dim size[CR_MAX_RANK];
    CR_TRY(adaptive_sizes(r, m, spatial_dims(r, 1) != 2, size));
    return spatial_dims(r, 1) == 2 ? add_result(r, m, r->result, size, 2)
                                   : cr_rule_add_dense(r, r->result, m->rank, size);
}

cr_status shape_adaptive_max_pool(cr_rule *r) {
    const cr_meta *m = cr_rule_meta(r, 0);
    cr_dim size[CR_MAX_RANK];
    CR_TRY(adaptive_sizes(r, m, true, size));
    for (int i = 0; i < 2; i++) {
        int dtype = i ? CR_I64 : r->result;
        CR_TRY(spatial_dims(r, 1) == 2 ? add_result(r, m, dtype, size, 2) : cr_rule_add_dense(r, dtype, m->rank, size));
    }
    return CR_OK;
}

/* The gradient has the sizes of the pooled result, and so have the indices. */
static cr_status check_gradient(cr_rule *r, const cr_meta *m, int n, int indices) {
    cr_dim size[CR_MAX_RANK];
    if (r->nargs > 2) {
        window w;
        CR_TRY(read_window(r, 2, indices >= 0 ? 5 : -1, indices >= 0 ? 6 : 5, n, &w));
        CR_TRY(pool_sizes(r, m, &w, n, size));
        if (indices < 0 && cr_rule_has(r, 7)) CR_TRY(require_divisor(r, 7));
    } else { /* adaptive: any number of windows */
        CR_TRY(check_input(r, m, n, true));
        CR_TRY(cr_rule_require_rank(r, 0, m->rank, m->rank));
        memcpy(size, cr_rule_meta(r, 0)->size, m->rank * sizeof *size);
        memcpy(size, m->size, (size_t)(m->rank - n) * sizeof *size);
    }
    CR_TRY(cr_rule_require_sizes(r, 0, m->rank, size));
    if (indices < 0) return CR_OK;
    CR_TRY(cr_rule_require_dtype(r, indices, CR_I64));
    return cr_rule_require_sizes(r, indices, m->rank, size);
}

/* A gradient of self's shape. */
cr_status shape_pool_backward(cr_rule *r) { /* grad_output, self, ... */
    const cr_meta *m = cr_rule_meta(r, 1);
    int indices = cr__rule_param(r, "indices");
    bool images = strstr(r->op->schema.name, "3d") == NULL;
    CR_TRY(cr_rule_require_dtype(r, 0, m->dtype));
    CR_TRY(check_gradient(r, m, images ? 2 : 3, indices));
    if (indices >= 0 && !images && cr_meta_suggest_format(r->env, m) == CR_CHANNELS_LAST)
        return CR_FAIL(CR_ERUNTIME,
                       "%s: the input must be contiguous or channels-last in three dimensions; call .contiguous()",
                       r->op->schema.name);
    return images || indices >= 0 ? add_result(r, m, r->result, m->size, images ? 2 : 3)
                                  : cr_rule_add_dense(r, r->result, m->rank, m->size);
}

/* Of adaptive and fractional pools: grad_output, self, (kernel_size, output_size,) indices. There may be any number of
 * windows; the gradient has one element for each index. */
cr_status shape_picked_backward(cr_rule *r) {
    const cr_meta *m = cr_rule_meta(r, 1), *grad = cr_rule_meta(r, 0);
    bool images = strstr(r->op->schema.name, "3d") == NULL, adaptive = r->nargs == 3;
    int n = images ? 2 : 3, indices = cr__rule_param(r, "indices");
    cr_dim size[CR_MAX_RANK], windows[3];
    CR_TRY(check_input(r, m, n, true));
    CR_TRY(cr_rule_require_rank(r, 0, m->rank, m->rank));
    memcpy(size, grad->size, m->rank * sizeof *size);
    memcpy(size, m->size, (size_t)(m->rank - n) * sizeof *size);
    if (!adaptive) {
        CR_TRY(cr_rule_exact_ints(r, 3, n, windows));
        memcpy(size + m->rank - n, windows, (size_t)n * sizeof *size);
    }
    CR_TRY(cr_rule_require_sizes(r, 0, m->rank, size));
    CR_TRY(cr_rule_require_dtype(r, indices, CR_I64));
    CR_TRY(cr_rule_require_sizes(r, indices, m->rank, size));
    return images && adaptive ? add_result(r, m, r->result, m->size, n)
                              : cr_rule_add_dense(r, r->result, m->rank, m->size);
}

cr_status check_unpool(cr_rule *r) { /* self, indices, output_size, ... */
    const cr_meta *self = cr_rule_meta(r, 0), *indices = cr_rule_meta(r, 1);
    int spatial = spatial_dims(r, 2);
    if (indices->dtype != CR_I64)
        return CR_FAIL(CR_ERUNTIME, "%s: indices must have dtype int64, got %s", r->op->schema.name,
                       rt_dtype_name(indices->dtype));
    cr_dim size[3];
    CR_TRY(cr_rule_exact_ints(r, 2, spatial, size));
    CR_TRY(check_input(r, self, spatial, true));
    if (self->rank != indices->rank)
        return CR_FAIL(CR_ERUNTIME, "%s: indices must have the shape of the input", r->op->schema.name);
    for (int d = 0; d < self->rank; d++)
        CR_TRY(cr_dim_require(r->env, self->size[d], CR_EQ, indices->size[d],
                              "max_unpool: indices must have the shape of the input"));
    return dtype_same(r);
}

cr_status check_fractional_pool(cr_rule *r) { /* self, kernel_size, output_size, random_samples */
    const cr_meta *self = cr_rule_meta(r, 0), *u = cr_rule_meta(r, 3);
    int spatial = spatial_dims(r, 1);
    cr_dim kernel[3], output[3];
    CR_TRY(check_input(r, self, spatial, true));
    CR_TRY(cr_rule_exact_ints(r, 1, spatial, kernel));
    CR_TRY(cr_rule_exact_ints(r, 2, spatial, output));
    int batch = self->rank - spatial - 1;
    for (int d = 0; d < spatial; d++) {
        CR_TRY(cr_dim_require(r->env, kernel[d], CR_GE, 0, "fractional pooling: kernel_size must not be negative"));
        CR_TRY(cr_dim_require(r->env, cr_dim_sub(r->env, cr_dim_add(r->env, output[d], kernel[d]), 1), CR_LE,
                              self->size[batch + 1 + d], "fractional pooling: the windows must fit into the input"));
    }
    if (u->dtype != self->dtype)
        return CR_FAIL(CR_ERUNTIME, "%s: random_samples must have the input's dtype %s, got %s", r->op->schema.name,
                       rt_dtype_name(self->dtype), rt_dtype_name(u->dtype));
    if (u->rank != 3)
        return CR_FAIL(CR_ERUNTIME, "%s: random_samples must have 3 dimensions (batch, channels, %d), got %d",
                       r->op->schema.name, spatial, u->rank);
    CR_TRY(cr_dim_require(r->env, u->size[0], CR_GE, batch ? self->size[0] : 1,
                          "fractional pooling: there must be random samples for each image"));
    CR_TRY(cr_dim_require(r->env, u->size[1], CR_EQ, self->size[batch],
                          "fractional pooling: there must be random samples for each channel"));
    CR_TRY(cr_dim_require(r->env, u->size[2], CR_EQ, spatial,
                          "fractional pooling: there must be a random sample for each spatial dimension"));
    return dtype_same(r);
}

cr_status shape_fractional_pool(cr_rule *r) { /* self, kernel_size, output_size, random_samples -> values, indices */
    const cr_meta *m = cr_rule_meta(r, 0);
    int spatial = spatial_dims(r, 1);
    cr_dim size[CR_MAX_RANK], output[3];
    CR_TRY(cr_rule_exact_ints(r, 2, spatial, output));
    for (int d = 0; d < spatial; d++)
        CR_TRY(cr_dim_require(r->env, output[d], CR_GE, 0, "fractional pooling: output_size must not be negative"));
    memcpy(size, m->size, m->rank * sizeof *size);
    memcpy(size + m->rank - spatial, output, (size_t)spatial * sizeof *size);
    CR_TRY(cr_rule_add_dense(r, r->result, m->rank, size));
    return cr_rule_add_dense(r, CR_I64, m->rank, size);
}
