/* expand_norm.c: normalisations that leave something behind, which a formula cannot say. */
#include "ops/expand.h"
#include "ops/rules.h"

/* `t` once for each of n instances; none stays none. */
static cr_arg repeated(cr__run *r, const cr_arg *t, cr_dim n) {
    cr_arg times = cr_arg_int(n);
    if (t->kind == CR_ARG_NONE) return *t;
    return CR_RUN(r, "repeat", *t, cr_arg_list(&times, 1));
}

/* The statistics that the instances left in `own`, averaged into the layer's; in the core dialect, through an alias of
 * them. */
static void average(cr__run *r, const cr_arg *layers, cr_arg own, cr_dim n, cr_dim channels, bool core) {
    cr_arg shape[] = { cr_arg_int(n), cr_arg_int(channels) }, first = cr_arg_int(0);
    cr_arg rows = CR_RUN(r, "reshape", own, cr_arg_list(shape, 2));
    cr_arg to = core ? CR_RUN(r, "alias", *layers) : *layers;
    (void)CR_RUN(r, "copy_", to, CR_RUN(r, "mean.dim", rows, cr_arg_list(&first, 1)));
}

/* Every instance of every channel is a channel of its own in one batch of batch_norm. */
static cr_status instance_norm(cr_emitter *e, const cr_op *op, const cr_arg *args, bool core, cr_arg *results) {
    enum { INPUT, WEIGHT, BIAS, MEAN, VAR, USE_INPUT_STATS, MOMENTUM, EPS };
    cr__run r = { .e = e };
    const cr_meta *m = cr__run_meta(&r, &args[INPUT]);
    if (!r.status && m->rank < 2)
        return CR_FAIL(CR_ERUNTIME, "%s: the input needs a batch and a channel dimension", op->schema.name);
    cr_dim n = m->size[0], channels = m->size[1];
    cr_arg size[CR_MAX_RANK], folded[CR_MAX_RANK];
    int rank = m->rank;
    for (int d = 0; d < rank; d++) size[d] = folded[d] = cr_arg_int(m->size[d]);
    folded[0] = cr_arg_int(1);
    folded[1] = cr_arg_int(cr_dim_mul(e->env, n, channels));
    cr_arg x = CR_RUN(&r, "reshape", args[INPUT], cr_arg_list(folded, (size_t)rank));
    cr_arg mean = repeated(&r, &args[MEAN], n), var = repeated(&r, &args[VAR], n);
    cr_arg weight = repeated(&r, &args[WEIGHT], n), bias = repeated(&r, &args[BIAS], n);
    cr_arg y = CR_RUN(&r, "batch_norm", x, weight, bias, mean, var, args[USE_INPUT_STATS], args[MOMENTUM], args[EPS],
                      cr_arg_bool(false));
    bool updates = args[USE_INPUT_STATS].u.i != 0;
    if (updates && args[MEAN].kind != CR_ARG_NONE) average(&r, &args[MEAN], mean, n, channels, core);
    if (updates && args[VAR].kind != CR_ARG_NONE) average(&r, &args[VAR], var, n, channels, core);
    cr_arg result = CR_RUN(&r, "reshape", y, cr_arg_list(size, (size_t)rank));
    return cr__run_finish(&r, 1, &result, results);
}

cr_status expand_instance_norm(cr_emitter *e, const cr_op *op, const cr_arg *args, cr_arg *results) {
    return instance_norm(e, op, args, false, results);
}
cr_status expand_instance_norm_core(cr_emitter *e, const cr_op *op, const cr_arg *args, cr_arg *results) {
    return instance_norm(e, op, args, true, results);
}

cr_status check_batch_norm_stats(cr_rule *r) { /* input, running_mean, running_var, momentum */
    const cr_meta *m = cr_rule_meta(r, 0);
    if (m->rank < 2) return CR_FAIL(CR_EINDEX, "%s: there is no dimension of channels", r->op->schema.name);
    bool empty = false;
    CR_TRY(cr_dim_decide(r->env, cr_meta_numel(r->env, m), CR_EQ, 0, &empty));
    if (empty) return CR_FAIL(CR_ERUNTIME, "%s: the input must not be empty", r->op->schema.name);
    for (int i = 1; i < 3; i++) {
        const cr_meta *s = cr_rule_meta(r, i);
        bool mixed = (m->dtype == CR_F16 || m->dtype == CR_BF16) && s && s->dtype == CR_F32;
        if (!s) continue;
        if (s->dtype != m->dtype && !mixed)
            return CR_FAIL(CR_ERUNTIME,
                           "%s: %s must have the input's dtype %s, or float32 where that is a half, not %s",
                           r->op->schema.name, r->op->schema.params[i].name, rt_dtype_name(m->dtype),
                           rt_dtype_name(s->dtype));
        CR_TRY(cr_rule_require_sizes(r, i, 1, &m->size[1]));
    }
    return dtype_same(r);
}

/* running: momentum * found + (1 - momentum) * running, where there is one. */
static void mix(cr__run *r, const cr_arg *running, cr_arg found, double momentum, cr_arg wide) {
    if (running->kind == CR_ARG_NONE) return;
    cr_arg old = CR_RUN(r, "mul.Scalar", CR_RUN(r, "to.dtype", *running, wide), cr_arg_float(1 - momentum));
    cr_arg sum = CR_RUN(r, "add.Tensor", CR_RUN(r, "mul.Scalar", found, cr_arg_float(momentum)), old);
    (void)CR_RUN(r, "copy_", *running, sum);
}

/* input, running_mean, running_var, momentum -> mean and variance of the batch */
cr_status expand_batch_norm_stats(cr_emitter *e, const cr_op *op, const cr_arg *args, cr_arg *results) {
    cr__run r = { .e = e };
    const cr_meta *m = cr__run_meta(&r, &args[0]);
    int half = m->dtype == CR_F16 || m->dtype == CR_BF16, given = args[1].kind != CR_ARG_NONE   ? 1
                                                                  : args[2].kind != CR_ARG_NONE ? 2
                                                                                                : 0;
    cr_arg dims[CR_MAX_RANK], wide = cr_arg_dtype(half ? CR_F32 : m->dtype),
                              kind = cr_arg_dtype(cr__run_meta(&r, &args[given])->dtype);
    size_t n = 0;
    cr_dim count = 1;
    (void)op;
    for (int d = 0; d < m->rank; d++) {
        if (d == 1) continue;
        dims[n++] = cr_arg_int(d);
        count = cr_dim_mul(e->env, count, m->size[d]);
    }
    cr_arg x = CR_RUN(&r, "to.dtype", args[0], wide), call[] = { x, cr_arg_list(dims, n), cr_arg_int(0) };
    const cr_arg *found = cr__run_call(&r, "aten::var_mean.correction", 3, call);
    cr_arg var = found[0], mean = found[1], above = cr_arg_int(cr_dim_sub(e->env, count, 1));
    double momentum = args[3].u.f;
    mix(&r, &args[1], mean, momentum, wide);
    if (args[2].kind != CR_ARG_NONE)
        mix(&r, &args[2], CR_RUN(&r, "div.Scalar", CR_RUN(&r, "mul.Scalar", var, cr_arg_int(count)), above), momentum,
            wide);
    cr_arg made[2] = { CR_RUN(&r, "to.dtype", mean, kind), CR_RUN(&r, "to.dtype", var, kind) };
    return cr__run_finish(&r, 2, made, results);
}
