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
