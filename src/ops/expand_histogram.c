/* expand_histogram.c: histograms: how much of a tensor lies between edges that are given, or that divide a range
 * evenly. */
#include "ops/expand.h"
#include "ops/rules.h"

#include <math.h>

cr_status check_histogram(cr_rule *r) { /* self, bins, (range,) weight, density; bins: edges or their number */
    const cr_meta *m = cr_rule_meta(r, 0), *edges = cr_rule_meta(r, 1),
                  *weight = cr_rule_meta(r, cr__rule_param(r, "weight"));
    bool half = m->dtype == CR_F16 || m->dtype == CR_BF16, ranged = edges || cr_rule_has(r, 2), empty = false;
    CR_TRY(cr_dim_decide(r->env, cr_meta_numel(r->env, m), CR_EQ, 0, &empty));
    if (m->dtype != CR_F32 && m->dtype != CR_F64 && !(half && (ranged || empty)))
        return CR_FAIL(CR_ENOTIMPL, "histogram: not implemented for %s; convert the tensor to float32 or float64",
                       rt_dtype_name(m->dtype));
    if (edges && edges->rank != 1)
        return CR_FAIL(CR_ERUNTIME, "histogram: bins must be a vector of edges, it has %d dimensions", edges->rank);
    if (edges && edges->dtype != m->dtype)
        return CR_FAIL(CR_ERUNTIME, "histogram: bins must have the tensor's dtype %s, not %s", rt_dtype_name(m->dtype),
                       rt_dtype_name(edges->dtype));
    if (edges) CR_TRY(cr_dim_require(r->env, edges->size[0], CR_GT, 1, "histogram: there must be at least two edges"));
    else CR_TRY(cr_dim_require(r->env, cr_rule_int(r, 1), CR_GT, 0, "histogram: the number of bins must be positive"));
    if (weight && weight->dtype != m->dtype)
        return CR_FAIL(CR_ERUNTIME, "histogram: weight must have the tensor's dtype %s, not %s",
                       rt_dtype_name(m->dtype), rt_dtype_name(weight->dtype));
    if (weight && weight->rank != m->rank)
        return CR_FAIL(CR_ERUNTIME, "histogram: weight must have the tensor's sizes");
    for (int d = 0; weight && d < m->rank; d++)
        CR_TRY(cr_dim_require(r->env, weight->size[d], CR_EQ, m->size[d],
                              "histogram: weight must have the tensor's sizes"));
    if (!edges && cr_rule_has(r, 2)) {
        const cr_arg *range = &r->arg[2];
        if (range->n != 2) return CR_FAIL(CR_ERUNTIME, "histogram: range must hold two numbers, got %u", range->n);
        double low = range->u.list[0].kind == CR_ARG_FLOAT ? range->u.list[0].u.f : (double)range->u.list[0].u.i;
        double high = range->u.list[1].kind == CR_ARG_FLOAT ? range->u.list[1].u.f : (double)range->u.list[1].u.i;
        if (!isfinite(low) || !isfinite(high))
            return CR_FAIL(CR_ERUNTIME, "histogram: the range [%g, %g] must be finite", low, high);
        if (low > high)
            return CR_FAIL(CR_ERUNTIME, "histogram: the range must not end (%g) before it begins (%g)", high, low);
    }
    return dtype_same(r);
}

cr_status shape_histogram(cr_rule *r) { /* self, bins, ... */
    cr_dim edges = cr_rule_meta(r, 1)->size[0], bins = cr_dim_sub(r->env, edges, 1);
    CR_TRY(cr_rule_add_dense(r, r->result, 1, &bins));
    return cr_rule_add_dense(r, r->result, 1, &edges);
}

/* An end of the range: given, or the tensor's own; one half further out where both ends are one number. */
static void find_range(cr__run *r, const cr_arg *args, cr_arg *ends) {
    const cr_meta *m = cr__run_meta(r, &args[0]);
    cr_arg none = cr_arg_list(&args[0], 0), dtype = cr_arg_dtype(m->dtype);
    bool given = args[2].kind == CR_ARG_LIST,
         empty = cr_dim_known(r->e->env, cr_meta_numel(r->e->env, m), CR_EQ, 0) == CR_YES;
    for (int i = 0; i < 2; i++) {
        if (given || empty) ends[i] = CR_RUN(r, "full", none, given ? args[2].u.list[i] : cr_arg_int(i), dtype);
        else ends[i] = i ? CR_RUN(r, "max", args[0]) : CR_RUN(r, "min", args[0]);
    }
    cr_arg check[] = { CR_RUN(r, "logical_and", CR_RUN(r, "isfinite", ends[0]), CR_RUN(r, "isfinite", ends[1])),
                       cr_arg_str("histogram: the range of the tensor's numbers must be finite; pass range") };
    if (!given) cr__run_call(r, "aten::_assert_async.msg", 2, check);
    cr_arg point = CR_RUN(r, "eq.Tensor", ends[0], ends[1]), half = cr_arg_float(0.5);
    cr_arg out[2] = { CR_RUN(r, "sub.Scalar", ends[0], half), CR_RUN(r, "add.Scalar", ends[1], half) };
    for (int i = 0; i < 2; i++) ends[i] = CR_RUN(r, "where.self", point, out[i], ends[i]);
}

/* self, bins, range, weight, density */
cr_status expand_histogram(cr_emitter *e, const cr_op *op, const cr_arg *args, cr_arg *results) {
    cr__run r = { .e = e };
    (void)op;
    cr_arg ends[2] = { { 0 } }, made[2] = { { 0 } };
    int dtype = cr__run_meta(&r, &args[0])->dtype;
    find_range(&r, args, ends);
    cr_arg edges = CR_RUN(&r, "linspace.Tensor_Tensor", ends[0], ends[1],
                          cr_arg_int(cr_dim_add(e->env, args[1].u.i, 1)), cr_arg_dtype(dtype));
    cr_arg call[] = { args[0], edges, args[3], args[4] };
    const cr_arg *found = cr__run_call(&r, "aten::histogram.bins_tensor", 4, call);
    if (!r.status) made[0] = found[0], made[1] = found[1];
    return cr__run_finish(&r, 2, made, results);
}
