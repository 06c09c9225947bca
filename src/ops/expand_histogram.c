/* expand_histogram.c: histograms: how much of a tensor lies between edges that are given, or that divide a range
 * evenly. */
#include "ops/expand.h"
#include "ops/rules.h"

#include <math.h>

static double number_of(const cr_arg *a) { return a->kind == CR_ARG_FLOAT ? a->u.f : (double)a->u.i; }

static cr_status check_range(const cr_arg *ends) {
    double low = number_of(&ends[0]), high = number_of(&ends[1]);
    if (!isfinite(low) || !isfinite(high))
        return CR_FAIL(CR_ERUNTIME, "histogram: the range [%g, %g] must be finite", low, high);
    if (low > high)
        return CR_FAIL(CR_ERUNTIME, "histogram: the range must not end (%g) before it begins (%g)", high, low);
    return CR_OK;
}

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
        CR_TRY(check_range(range->u.list));
    }
    return dtype_same(r);
}

cr_status shape_histogram(cr_rule *r) { /* self, bins, ... */
    cr_dim edges = cr_rule_meta(r, 1)->size[0], bins = cr_dim_sub(r->env, edges, 1);
    CR_TRY(cr_rule_add_dense(r, r->result, 1, &bins));
    return cr_rule_add_dense(r, r->result, 1, &edges);
}

/* The ends of the tensor's numbers, one half further out where both are one number. */
static void find_range(cr__run *r, cr_arg x, cr_arg *ends) {
    const cr_meta *m = cr__run_meta(r, &x);
    cr_arg none = cr_arg_list(&x, 0), dtype = cr_arg_dtype(m->dtype);
    bool empty = cr_dim_known(r->e->env, cr_meta_numel(r->e->env, m), CR_EQ, 0) == CR_YES;
    for (int i = 0; i < 2; i++) {
        if (empty) ends[i] = CR_RUN(r, "full", none, cr_arg_int(i), dtype);
        else ends[i] = i ? CR_RUN(r, "max", x) : CR_RUN(r, "min", x);
    }
    cr_arg check[] = { CR_RUN(r, "logical_and", CR_RUN(r, "isfinite", ends[0]), CR_RUN(r, "isfinite", ends[1])),
                       cr_arg_str("histogram: the range of the tensor's numbers must be finite; pass range") };
    cr__run_call(r, "aten::_assert_async.msg", 2, check);
    cr_arg point = CR_RUN(r, "eq.Tensor", ends[0], ends[1]), half = cr_arg_float(0.5);
    cr_arg out[2] = { CR_RUN(r, "sub.Scalar", ends[0], half), CR_RUN(r, "add.Scalar", ends[1], half) };
    for (int i = 0; i < 2; i++) ends[i] = CR_RUN(r, "where.self", point, out[i], ends[i]);
}

/* Edges of equal bins between the ends of `range`, two numbers, or where that is none of the tensor's own. */
static cr_arg find_edges(cr__run *r, cr_arg x, cr_arg bins, cr_arg range) {
    cr_arg ends[2] = { { 0 } }, dtype = cr_arg_dtype(cr__run_meta(r, &x)->dtype),
           count = cr_arg_int(cr_dim_add(r->e->env, bins.u.i, 1));
    if (range.kind == CR_ARG_LIST) {
        double low = number_of(&range.u.list[0]), high = number_of(&range.u.list[1]), more = low == high ? 0.5 : 0;
        return CR_RUN(r, "linspace", cr_arg_float(low - more), cr_arg_float(high + more), count, dtype);
    }
    find_range(r, x, ends);
    return CR_RUN(r, "linspace.Tensor_Tensor", ends[0], ends[1], count, dtype);
}

/* self, bins, range, weight, density */
cr_status expand_histogram(cr_emitter *e, const cr_op *op, const cr_arg *args, cr_arg *results) {
    cr__run r = { .e = e };
    (void)op;
    cr_arg made[2] = { { 0 } }, call[] = { args[0], find_edges(&r, args[0], args[1], args[2]), args[3], args[4] };
    const cr_arg *found = cr__run_call(&r, "aten::histogram.bins_tensor", 4, call);
    if (!r.status) made[0] = found[0], made[1] = found[1];
    return cr__run_finish(&r, 2, made, results);
}

/* ---- of points with several coordinates ---- */

static cr_status check_ranges(cr_rule *r, const cr_meta *m, int64_t dims) { /* self, bins, range, ... */
    const cr_arg *range = &r->arg[2];
    if (range->kind == CR_ARG_NONE) {
        bool empty = false;
        CR_TRY(cr_dim_decide(r->env, cr_meta_numel(r->env, m), CR_EQ, 0, &empty));
        if (empty || m->dtype == CR_F32 || m->dtype == CR_F64) return CR_OK;
        return CR_FAIL(CR_ENOTIMPL, "histogramdd: no range is found of %s; pass range, or convert to float32",
                       rt_dtype_name(m->dtype));
    }
    if (range->n != 2 * dims)
        return CR_FAIL(CR_ERUNTIME, "histogramdd: range must hold two numbers for each of %lld dimensions, got %u",
                       (long long)dims, range->n);
    for (uint32_t i = 0; i < range->n; i++) {
        double end = number_of(&range->u.list[i]);
        if (i % 2 == 0) CR_TRY(check_range(&range->u.list[i]));
        if ((m->dtype == CR_U8 && (end < 0 || end > UINT8_MAX)) || (m->dtype == CR_I8 && fabs(end) > INT8_MAX))
            return CR_FAIL(CR_ERUNTIME, "histogramdd: edges at %g do not fit into %s", end, rt_dtype_name(m->dtype));
    }
    return CR_OK;
}

static cr_status check_edges(cr_rule *r, const cr_meta *m) { /* self, bins, ... */
    const cr_arg *bins = &r->arg[1];
    for (uint32_t i = 0; i < bins->n; i++) {
        const cr_meta *edges = cr_arg_meta(&bins->u.list[i]);
        if (edges->rank != 1)
            return CR_FAIL(CR_ERUNTIME,
                           "histogramdd: bins must be vectors of edges, the one for dimension %u has %d "
                           "dimensions",
                           i, edges->rank);
        if (edges->dtype != m->dtype)
            return CR_FAIL(CR_ERUNTIME, "histogramdd: bins must have the tensor's dtype %s, not %s",
                           rt_dtype_name(m->dtype), rt_dtype_name(edges->dtype));
        CR_TRY(cr_dim_require(r->env, edges->size[0], CR_GT, 1, "histogramdd: there must be at least two edges"));
    }
    return CR_OK;
}

cr_status check_histogram_edges(cr_rule *r) { /* self, bins, (range,) ...; bins: lists of edges or their numbers */
    const cr_meta *m = cr_rule_meta(r, 0);
    uint32_t dims = r->arg[1].n;
    bool edges = r->op->schema.params[1].type == CR_T_TENSOR;
    if (m->rank < 2) return CR_FAIL(CR_ERUNTIME, "histogramdd: the tensor must have at least two dimensions");
    CR_TRY(cr_dim_require(r->env, m->size[m->rank - 1], CR_EQ, dims,
                          "histogramdd: there must be bins for every element of the tensor's last dimension"));
    if (dims > CR_MAX_RANK)
        return CR_FAIL(CR_ERUNTIME, "histogramdd: at most %d dimensions, got %u", CR_MAX_RANK, dims);
    CR_TRY(edges ? check_edges(r, m) : check_ranges(r, m, dims));
    return dtype_same(r);
}

cr_status check_histogramdd(cr_rule *r) { /* self, bins, (range,) weight, density */
    const cr_meta *m = cr_rule_meta(r, 0), *weight = cr_rule_meta(r, cr__rule_param(r, "weight"));
    const cr_arg *bins = &r->arg[1];
    CR_TRY(check_histogram_edges(r));
    for (uint32_t i = 0; i < bins->n; i++)
        if (bins->u.list[i].kind == CR_ARG_INT)
            CR_TRY(cr_dim_require(r->env, bins->u.list[i].u.i, CR_GT, 0,
                                  "histogramdd: the number of bins must be positive"));
    if (weight && weight->dtype != m->dtype)
        return CR_FAIL(CR_ERUNTIME, "histogramdd: weight must have the tensor's dtype %s, not %s",
                       rt_dtype_name(m->dtype), rt_dtype_name(weight->dtype));
    if (weight && weight->rank != m->rank - 1)
        return CR_FAIL(CR_ERUNTIME, "histogramdd: weight must have the tensor's sizes but the last");
    for (int d = 0; weight && d < weight->rank; d++)
        CR_TRY(cr_dim_require(r->env, weight->size[d], CR_EQ, m->size[d],
                              "histogramdd: weight must have the tensor's sizes but the last"));
    return dtype_same(r);
}

cr_status shape_histogramdd(cr_rule *r) { /* self, bins, ... */
    const cr_arg *bins = &r->arg[1];
    cr_dim size[CR_MAX_RANK];
    for (uint32_t i = 0; i < bins->n; i++) size[i] = cr_dim_sub(r->env, cr_arg_meta(&bins->u.list[i])->size[0], 1);
    return cr_rule_add_dense(r, r->result, (int)bins->n, size);
}

/* self, bins, range, ...: a list of edges for each coordinate */
cr_status expand_histogram_edges(cr_emitter *e, const cr_op *op, const cr_arg *args, cr_arg *results) {
    uint32_t n = args[1].n;
    cr_arg *made = cr_alloc((n + 1) * sizeof *made);
    cr_status status = made ? CR_OK : CR_ENOMEM;
    uint32_t done = 0;
    (void)op;
    for (; done < n && !status; done++) {
        cr__run r = { .e = e };
        cr_arg column = CR_RUN(&r, "select.int", args[0], cr_arg_int(-1), cr_arg_int(done));
        cr_arg range = args[2].kind == CR_ARG_LIST ? cr_arg_list(&args[2].u.list[2 * done], 2) : args[2];
        cr_arg edges = find_edges(&r, column, args[1].u.list[done], range);
        status = cr__run_finish(&r, 1, &edges, &made[done]);
    }
    if (!status) results[0] = cr_arg_list(made, n);
    else if (made) e->release(e, made, done - 1), cr_free(made);
    return status;
}

/* self, bins, range, weight, density: as many bins for each coordinate, of which there must be a plain number */
cr_status expand_histogramdd(cr_emitter *e, const cr_op *op, const cr_arg *args, cr_arg *results) {
    cr__run r = { .e = e };
    const cr_meta *m = cr__run_meta(&r, &args[0]);
    cr_arg dims = cr_arg_int(m->rank ? m->size[m->rank - 1] : 0), bins[CR_MAX_RANK], made[2] = { { 0 } };
    if (!r.status && !m->rank)
        r.status = CR_FAIL(CR_EINDEX, "%s: the tensor must have at least two dimensions", op->schema.name);
    if (!r.status) r.status = cr_arg_settle(e->env, &dims);
    if (!r.status && dims.u.i > CR_MAX_RANK)
        r.status = CR_FAIL(CR_ERUNTIME, "%s: at most %d dimensions, got %lld", op->schema.name, CR_MAX_RANK,
                           (long long)dims.u.i);
    for (int64_t i = 0; !r.status && i < dims.u.i; i++) bins[i] = args[1];
    cr_arg call[] = { args[0], cr_arg_list(bins, (size_t)dims.u.i), args[2], args[3], args[4] };
    const cr_arg *found = cr__run_call(&r, "aten::histogramdd", 5, call);
    if (!r.status) made[0] = found[0], made[1] = found[1];
    return cr__run_finish(&r, 2, made, results);
}
