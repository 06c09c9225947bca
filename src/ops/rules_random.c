/* rules_random.c: results that are drawn.
 *
 * Layout matters more here than elsewhere: numbers are drawn in the memory order of the result, so a rule that chose
 * other strides than PyTorch would give other numbers. Most results are row-major, whatever the strides of the
 * arguments. */
#include "ops/rules.h"
#include "runtime/rt_random.h"

static const char *op_name(const cr_rule *r) { return r->op->schema.name; }

/* The first tensor argument: the only one of normal(float, Tensor) comes second. */
static const cr_meta *first_tensor(const cr_rule *r) {
    for (int i = 0; i < r->nargs; i++)
        if (cr_rule_meta(r, i)) return cr_rule_meta(r, i);
    return NULL;
}

cr_status dtype_draw(cr_rule *r) {
    r->common = r->result = first_tensor(r)->dtype;
    return CR_OK;
}

/* A row-major result of the first tensor's sizes. */
cr_status shape_draw(cr_rule *r) {
    const cr_meta *m = first_tensor(r);
    return cr_rule_add_dense(r, r->result, m->rank, m->size);
}

/* bernoulli(self, p): the result has self's sizes, to which p must broadcast. */
cr_status shape_bernoulli(cr_rule *r) {
    const cr_meta *m = cr_rule_meta(r, 0), *other = cr_rule_meta(r, 1);
    int lead = m->rank - other->rank;
    if (lead < 0)
        return CR_FAIL(CR_ERUNTIME, "%s: '%s' has %d dims, which do not fit into the %d of '%s'", op_name(r),
                       r->op->schema.params[1].name, other->rank, m->rank, r->op->schema.params[0].name);
    for (int d = 0; d < other->rank; d++) {
        bool one;
        if (cr_dim_known(r->env, other->size[d], CR_EQ, m->size[lead + d]) == CR_YES) continue;
        CR_TRY(cr_dim_repeats(r->env, other->size[d], m->size[lead + d], &one));
        if (!one)
            CR_TRY(cr_dim_require(r->env, other->size[d], CR_EQ, m->size[lead + d], "size of the broadcast argument"));
    }
    return shape_like(r);
}

/* Two tensors: the broadcast sizes, row-major. */
cr_status shape_draw_both(cr_rule *r) {
    cr_dim size[CR_MAX_RANK];
    CR_TRY(shape_broadcast(r));
    cr_meta *m = &r->out[0].meta;
    int rank = m->rank;
    memcpy(size, m->size, (size_t)rank * sizeof *size);
    return cr_meta_set_dense(r->env, m, rank, size, CR_CONTIGUOUS);
}

cr_status shape_binomial(cr_rule *r) {
    for (int i = 0; i < 2; i++) {
        int dtype = cr_rule_meta(r, i)->dtype;
        if (!cr_dtype_is_floating(dtype))
            return CR_FAIL(CR_EVALUE, "binomial: '%s' must be floating point, not %s", r->op->schema.params[i].name,
                           cr_dtype_aten(dtype));
    }
    /* A result that prob makes larger than count is laid out like that of a pointwise op. */
    const cr_meta *count = cr_rule_meta(r, 0);
    CR_TRY(shape_broadcast(r));
    cr_meta *m = &r->out[0].meta;
    if (m->rank != count->rank) return CR_OK;
    for (int d = 0; d < m->rank; d++)
        if (cr_dim_known(r->env, m->size[d], CR_EQ, count->size[d]) == CR_NO) return CR_OK;
    cr_strides_contiguous(r->env, m->rank, m->size, m->stride);
    return CR_OK;
}

/* ---- from sizes alone ---- */

static cr_status add_made(cr_rule *r, int rank, const cr_dim *size) {
    int dtype = cr__rule_param(r, "dtype"), device = cr__rule_param(r, "device");
    r->common = r->result = cr_rule_has(r, dtype) ? (int)r->arg[dtype].u.i : cr_default_dtype();
    for (int i = 0; i < rank; i++)
        if (cr_dim_known(r->env, size[i], CR_LT, 0) == CR_YES)
            return CR_FAIL(CR_ERUNTIME, "%s: sizes must not be negative", op_name(r));
    CR_TRY(cr_rule_add_dense(r, r->result, rank, size));
    if (cr_rule_has(r, device)) r->out[0].meta.device = r->arg[device].u.device;
    return CR_OK;
}

cr_status shape_draw_sized(cr_rule *r) {
    cr_dim size[CR_MAX_RANK];
    int rank;
    CR_TRY(cr_rule_ints(r, cr__rule_param(r, "size"), 0, CR_MAX_RANK, size, &rank));
    return add_made(r, rank, size);
}

/* self's sizes, laid out as in memory of the given strides, without gaps. */
cr_status shape_draw_strided(cr_rule *r) {
    cr_meta as = *cr_rule_meta(r, 0);
    int n;
    CR_TRY(cr_rule_ints(r, 1, 0, CR_MAX_RANK, as.stride, &n));
    if (n != as.rank) return CR_FAIL(CR_ERUNTIME, "%s: %d sizes but %d strides", op_name(r), as.rank, n);
    cr_out *out = cr_rule_add(r);
    if (!out) return CR_ENOMEM;
    out->meta.dtype = as.dtype;
    cr_layout_like(r->env, &as, &out->meta);
    return CR_OK;
}

cr_status shape_random_state(cr_rule *r) {
    cr_dim bytes = RT_GENERATOR_STATE_BYTES;
    const cr_meta *given = cr_rule_meta(r, 0);
    if (given && (given->rank != 1 || given->dtype != CR_U8 ||
                  cr_dim_known(r->env, given->size[0], CR_EQ, bytes) == CR_NO))
        return CR_FAIL(CR_ERUNTIME, "%s: a state is a tensor of %d bytes (uint8), as an earlier call gave it",
                       op_name(r), RT_GENERATOR_STATE_BYTES);
    if (given) CR_TRY(cr_dim_require(r->env, given->size[0], CR_EQ, bytes, "size of a generator's state"));
    return cr_rule_add_dense(r, CR_U8, 1, &bytes);
}

cr_status shape_randperm(cr_rule *r) {
    cr_dim n = cr_rule_int(r, 0);
    return add_made(r, 1, &n);
}

/* ---- choices ---- */

cr_status shape_multinomial(cr_rule *r) {
    const cr_meta *m = cr_rule_meta(r, 0);
    cr_dim samples = cr_rule_int(r, 1);
    if (m->rank < 1 || m->rank > 2)
        return CR_FAIL(CR_ERUNTIME, "multinomial: the probabilities must have 1 or 2 dims, not %d", m->rank);
    if (!cr_dtype_is_floating(m->dtype))
        return CR_FAIL(CR_ERUNTIME, "multinomial: the probabilities must be floating point, not %s",
                       cr_dtype_aten(m->dtype));
    if (cr_dim_known(r->env, samples, CR_LE, 0) == CR_YES)
        return CR_FAIL(CR_ERUNTIME, "multinomial: at least 1 sample must be drawn, not %lld", (long long)samples);
    CR_TRY(cr_dim_require(r->env, samples, CR_GT, 0, "num_samples"));
    if (!cr_rule_bool(r, 2))
        CR_TRY(cr_dim_require(r->env, samples, CR_LE, m->size[m->rank - 1], "num_samples without replacement"));
    cr_dim size[2] = { m->size[0], samples };
    return m->rank == 1 ? cr_rule_add_dense(r, CR_I64, 1, &samples) : cr_rule_add_dense(r, CR_I64, 2, size);
}

/* ---- dropouts ---- */

static cr_status check_probability(const cr_rule *r) {
    double p = r->arg[1].u.f;
    if (p >= 0 && p <= 1) return CR_OK;
    return CR_FAIL(CR_ERUNTIME, "%s: the probability must be between 0 and 1, got %g", op_name(r), p);
}

static bool is_empty(const cr_rule *r, const cr_meta *m) {
    return cr_dim_known(r->env, cr_meta_numel(r->env, m), CR_EQ, 0) == CR_YES;
}

static bool is_inactive(const cr_rule *r) {
    return r->arg[1].u.f == 0 || !cr_rule_bool(r, 2) || is_empty(r, cr_rule_meta(r, 0));
}

/* What drops nothing gives back its input. */
cr_status shape_dropout(cr_rule *r) {
    CR_TRY(check_probability(r));
    if (!is_inactive(r)) return shape_like(r);
    cr_out *out = cr_rule_add_view(r, 0);
    if (!out) return CR_ENOMEM;
    out->same = true;
    return CR_OK;
}

cr_status shape_feature_dropout(cr_rule *r) {
    CR_TRY(check_probability(r));
    int rank = cr_rule_meta(r, 0)->rank;
    if (!is_inactive(r) && r->arg[1].u.f != 1 && rank < 2)
        return CR_FAIL(CR_ERUNTIME, "%s: expected a batch of features (2 dims or more), got %d dims", op_name(r), rank);
    return shape_dropout(r);
}

/* (result, mask). Of an empty input: the input itself, and a mask of its dtype, as PyTorch has it. */
cr_status shape_native_dropout(cr_rule *r) {
    const cr_meta *m = cr_rule_meta(r, 0);
    bool empty = is_empty(r, m), training = !cr_rule_has(r, 2) || cr_rule_bool(r, 2);
    if (training && !empty) CR_TRY(check_probability(r));
    if (empty) {
        cr_out *out = cr_rule_add_view(r, 0);
        if (!out) return CR_ENOMEM;
        out->same = true;
    } else {
        CR_TRY(shape_like(r));
    }
    CR_TRY(shape_like(r));
    if (!empty) r->out[1].meta.dtype = CR_BOOL;
    return CR_OK;
}

cr_status shape_rrelu(cr_rule *r) { /* self, noise, ... */
    const cr_meta *self = cr_rule_meta(r, 0);
    CR_TRY(cr_rule_require_dtype(r, 1, self->dtype));
    CR_TRY(cr_rule_require_sizes(r, 1, self->rank, self->size));
    return shape_draw(r);
}

/* (result, noise_out) */
cr_status shape_rrelu_functional(cr_rule *r) {
    const cr_meta *noise = cr_rule_meta(r, 1);
    CR_TRY(shape_rrelu(r));
    cr_out *out = cr_rule_add(r);
    if (!out) return CR_ENOMEM;
    out->meta.dtype = noise->dtype;
    out->meta.rank = noise->rank;
    memcpy(out->meta.size, noise->size, noise->rank * sizeof *noise->size);
    cr_layout_like(r->env, noise, &out->meta);
    return CR_OK;
}
