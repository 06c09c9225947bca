/* rules_reduce.c: results of reductions along dimensions.
 *
 * One shape rule serves all: it finds the parameters named "dim" and "keepdim" in the schema. Outputs are dense. */
#include "ops/rules.h"

int cr__rule_param(const cr_rule *r, const char *name) {
    for (int i = 0; i < r->nargs; i++)
        if (!strcmp(r->op->schema.params[i].name, name)) return i;
    return -1;
}

/* ---- dtypes ---- */

static int given_dtype(const cr_rule *r) {
    int i = cr__rule_param(r, "dtype");
    return i >= 0 && cr_rule_has(r, i) ? (int)r->arg[i].u.i : -1;
}

static cr_status input_dtype(cr_rule *r, int *dtype) {
    const cr_meta *m = cr_rule_meta(r, 0);
    *dtype = m->dtype;
    return CR_OK;
}

/* sum, prod, cumsum: small integers and bool widen to i64; dtype= wins. */
cr_status dtype_sum(cr_rule *r) {
    int dtype, given = given_dtype(r);
    CR_TRY(input_dtype(r, &dtype));
    r->result = given >= 0 ? given : cr_dtype_is_integral(dtype) ? CR_I64 : dtype;
    r->common = r->result;
    return CR_OK;
}

/* mean: floating or complex only, or dtype= says which. */
cr_status dtype_mean(cr_rule *r) {
    int dtype, given = given_dtype(r);
    CR_TRY(input_dtype(r, &dtype));
    r->common = r->result = given >= 0 ? given : dtype;
    if (cr_dtype_is_floating(r->result) || cr_dtype_is_complex(r->result)) return CR_OK;
    if (given >= 0)
        return CR_FAIL(CR_ERUNTIME, "%s: dtype must be floating point or complex, not %s", r->op->schema.name,
                       cr_dtype_aten(given));
    return CR_FAIL(CR_ERUNTIME,
                   "%s: the input is %s; convert it to a floating dtype or pass dtype=", r->op->schema.name,
                   cr_dtype_aten(dtype));
}

/* any, all: bool, except that uint8 stays uint8. */
cr_status dtype_truth(cr_rule *r) {
    CR_TRY(input_dtype(r, &r->common));
    r->result = r->common == CR_U8 ? CR_U8 : CR_BOOL;
    return CR_OK;
}

cr_status dtype_index(cr_rule *r) {
    CR_TRY(input_dtype(r, &r->common));
    r->result = CR_I64;
    return CR_OK;
}

/* var, std: the real counterpart of a floating or complex input. */
cr_status dtype_variance(cr_rule *r) {
    CR_TRY(input_dtype(r, &r->common));
    if (!cr_dtype_is_floating(r->common) && !cr_dtype_is_complex(r->common))
        return CR_FAIL(CR_ERUNTIME,
                       "%s: only floating point and complex inputs have a variance, not %s; convert with .to(dtype)",
                       r->op->schema.name, cr_dtype_aten(r->common));
    r->result = cr_dtype_to_real(r->common);
    return CR_OK;
}

/* linalg_vector_norm: dtype= may only widen. */
cr_status dtype_norm(cr_rule *r) {
    int dtype, given = given_dtype(r);
    CR_TRY(input_dtype(r, &dtype));
    if (!cr_dtype_is_floating(dtype) && !cr_dtype_is_complex(dtype))
        return CR_FAIL(CR_ERUNTIME, "%s: expected a floating point or complex tensor, got %s", r->op->schema.name,
                       cr_dtype_aten(dtype));
    if (given >= 0) {
        if (!cr_dtype_is_floating(given) && !cr_dtype_is_complex(given))
            return CR_FAIL(CR_ERUNTIME, "%s: dtype must be floating point or complex, not %s", r->op->schema.name,
                           cr_dtype_aten(given));
        if (cr_dtype_is_complex(given) != cr_dtype_is_complex(dtype))
            return CR_FAIL(CR_ERUNTIME, "%s: dtype must be %s as the input is, not %s", r->op->schema.name,
                           cr_dtype_is_complex(dtype) ? "complex" : "real", cr_dtype_aten(given));
        if (cr_promote_types(given, dtype) != given)
            return CR_FAIL(CR_ERUNTIME, "%s: dtype %s would narrow the input's %s", r->op->schema.name,
                           cr_dtype_aten(given), cr_dtype_aten(dtype));
        dtype = given;
    }
    r->common = dtype;
    r->result = cr_dtype_to_real(dtype);
    return CR_OK;
}

/* Integers become the default floating dtype (logsumexp). */
cr_status dtype_floating(cr_rule *r) {
    int dtype;
    CR_TRY(input_dtype(r, &dtype));
    r->common = r->result = cr_dtype_is_integral(dtype) ? cr_default_dtype() : dtype;
    return CR_OK;
}

/* ---- shapes ---- */

/* The sizes left when the dims in `mask` are reduced. */
static int reduced_sizes(const cr_meta *m, uint32_t mask, bool keepdim, cr_dim *size) {
    int rank = 0;
    for (int d = 0; d < m->rank; d++) {
        bool reduced = mask >> d & 1;
        if (reduced && !keepdim) continue;
        size[rank++] = reduced ? 1 : m->size[d];
    }
    return rank;
}

static cr_status read_dims(cr_rule *r, uint32_t *mask, bool *keepdim) {
    const cr_meta *m = cr_rule_meta(r, 0);
    int dim = cr__rule_param(r, "dim"), keep = cr__rule_param(r, "keepdim");
    *keepdim = keep >= 0 && cr_rule_bool(r, keep);
    if (dim >= 0) return cr_rule_dims(r, dim, m->rank, true, mask);
    *mask = m->rank ? (uint32_t)((1ull << m->rank) - 1) : 1u;
    return CR_OK;
}

cr_status shape_reduce(cr_rule *r) {
    const cr_meta *m = cr_rule_meta(r, 0);
    uint32_t mask;
    bool keepdim;
    cr_dim size[CR_MAX_RANK];
    CR_TRY(read_dims(r, &mask, &keepdim));
    return cr_rule_add_dense(r, r->result, reduced_sizes(m, mask, keepdim, size), size);
}

/* An extreme of nothing does not exist: the reduced dims must have elements, unless no result is asked for. */
static cr_status require_elements(cr_rule *r, uint32_t mask) {
    const cr_meta *m = cr_rule_meta(r, 0);
    int dim = cr__rule_param(r, "dim");
    bool all = dim < 0 || !cr_rule_has(r, dim) || (r->arg[dim].kind == CR_ARG_LIST && !r->arg[dim].n);
    for (int d = 0; d < m->rank; d++) {
        bool empty;
        if (!(mask >> d & 1)) continue;
        CR_TRY(cr_dim_assume(r->env, m->size[d], CR_EQ, 0, false, &empty));
        if (!empty) continue;
        if (all)
            return CR_FAIL(r->op->row->dtype == dtype_index ? CR_EINDEX : CR_ERUNTIME,
                           "%s: the input has no elements, so there is no extreme; pass a dim that has some",
                           r->op->schema.name);
        return CR_FAIL(CR_EINDEX, "%s: expected reduction dim %d to have non-zero size", r->op->schema.name, d);
    }
    return CR_OK;
}

cr_status shape_extreme(cr_rule *r) {
    uint32_t mask;
    bool keepdim;
    CR_TRY(read_dims(r, &mask, &keepdim));
    CR_TRY(require_elements(r, mask));
    return shape_reduce(r);
}

/* values and indices, or min and max */
static cr_status two_results(cr_rule *r, int second) {
    const cr_meta *m = cr_rule_meta(r, 0);
    uint32_t mask;
    bool keepdim;
    cr_dim size[CR_MAX_RANK];
    CR_TRY(read_dims(r, &mask, &keepdim));
    int rank = reduced_sizes(m, mask, keepdim, size);
    CR_TRY(cr_rule_add_dense(r, r->result, rank, size));
    return cr_rule_add_dense(r, second, rank, size);
}

cr_status shape_extreme_index(cr_rule *r) {
    uint32_t mask;
    bool keepdim;
    CR_TRY(read_dims(r, &mask, &keepdim));
    CR_TRY(require_elements(r, mask));
    return two_results(r, CR_I64);
}

cr_status shape_minmax(cr_rule *r) {
    uint32_t mask;
    bool keepdim;
    CR_TRY(read_dims(r, &mask, &keepdim));
    CR_TRY(require_elements(r, mask));
    return two_results(r, r->result);
}

/* (var, mean): the mean keeps the input's dtype. */
cr_status shape_variance_mean(cr_rule *r) { return two_results(r, cr_rule_meta(r, 0)->dtype); }

/* linalg_vector_norm: negative and infinite orders have no identity, so their dims must have elements. */
cr_status shape_norm(cr_rule *r) {
    const cr_arg *ord = &r->arg[1];
    double order = ord->kind == CR_ARG_FLOAT ? ord->u.f : (double)ord->u.i;
    if (order < 0 || order > 1e300) {
        const cr_meta *m = cr_rule_meta(r, 0);
        uint32_t mask;
        bool keepdim, empty;
        CR_TRY(read_dims(r, &mask, &keepdim));
        for (int d = 0; d < m->rank; d++) {
            if (!(mask >> d & 1)) continue;
            CR_TRY(cr_dim_assume(r->env, m->size[d], CR_EQ, 0, false, &empty));
            if (empty)
                return CR_FAIL(CR_ERUNTIME,
                               "%s: order %g has no value over dim %d of size 0; reduce over dims that have elements",
                               r->op->schema.name, order, d);
        }
    }
    return shape_reduce(r);
}
