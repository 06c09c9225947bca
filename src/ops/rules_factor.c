/* rules_factor.c: results of matrix factorisations and solutions. Matrices come out column by column, as LAPACK leaves
 * them, except where the system is solved from the right. */
#include "ops/rules.h"

#include <math.h>
#include <stdio.h>

static const char *op_name(const cr_rule *r) { return r->op->schema.name; }

static cr_status check_kind(cr_rule *r, int i) {
    const cr_meta *m = cr_rule_meta(r, i);
    if (m->rank < 2)
        return CR_FAIL(CR_ERUNTIME, "%s: %s must have at least two dimensions, got %d", op_name(r),
                       r->op->schema.params[i].name, m->rank);
    if (!rt_is_float(m->dtype) && !rt_is_complex(m->dtype))
        return CR_FAIL(CR_ERUNTIME, "%s: %s must be floating or complex, got %s", op_name(r),
                       r->op->schema.params[i].name, rt_dtype_name(m->dtype));
    return CR_OK;
}

static cr_status check_square(cr_rule *r, int i) {
    const cr_meta *m = cr_rule_meta(r, i);
    char what[96];
    CR_TRY(check_kind(r, i));
    snprintf(what, sizeof what, "%s: the matrices must be square", op_name(r));
    return cr_dim_require(r->env, m->size[m->rank - 2], CR_EQ, m->size[m->rank - 1], what);
}

static cr_status check_same(cr_rule *r, int a, int b) {
    const cr_meta *x = cr_rule_meta(r, a), *y = cr_rule_meta(r, b);
    if (x->dtype == y->dtype) return CR_OK;
    return CR_FAIL(CR_ERUNTIME, "%s: %s and %s must have the same dtype, got %s and %s", op_name(r),
                   r->op->schema.params[a].name, r->op->schema.params[b].name, rt_dtype_name(x->dtype),
                   rt_dtype_name(y->dtype));
}

static cr_status add_matrix(cr_rule *r, int dtype, int rank, const cr_dim *size, bool by_columns) {
    int order[CR_MAX_RANK];
    CR_TRY(cr_rule_add_dense(r, dtype, rank, size));
    if (!by_columns || rank < 2) return CR_OK;
    for (int d = 0; d < rank; d++) order[d] = d;
    order[rank - 2] = rank - 1;
    order[rank - 1] = rank - 2;
    cr_strides_permuted(r->env, rank, size, order, r->out[r->nout - 1].meta.stride);
    return CR_OK;
}

static cr_dim smaller(cr_rule *r, const cr_meta *m) {
    return cr_dim_min(r->env, m->size[m->rank - 2], m->size[m->rank - 1]);
}

/* One number per pivot, one per matrix. */
static cr_status add_pivots(cr_rule *r, const cr_meta *m) {
    cr_dim size[CR_MAX_RANK];
    memcpy(size, m->size, (size_t)m->rank * sizeof *size);
    size[m->rank - 2] = smaller(r, m);
    return cr_rule_add_dense(r, CR_I32, m->rank - 1, size);
}
static cr_status add_info(cr_rule *r, const cr_meta *m) { return cr_rule_add_dense(r, CR_I32, m->rank - 2, m->size); }

cr_status shape_lu_factor(cr_rule *r) { /* A, pivot, check_errors */
    const cr_meta *m = cr_rule_meta(r, 0);
    CR_TRY(check_kind(r, 0));
    if (!cr_rule_bool(r, 1))
        return CR_FAIL(CR_ERUNTIME, "%s: LU without pivoting is not implemented on the CPU", op_name(r));
    CR_TRY(add_matrix(r, r->result, m->rank, m->size, true));
    CR_TRY(add_pivots(r, m));
    return add_info(r, m);
}

cr_status shape_det(cr_rule *r) { /* A; with the logarithm when the op is slogdet */
    const cr_meta *m = cr_rule_meta(r, 0);
    CR_TRY(check_square(r, 0));
    CR_TRY(cr_rule_add_dense(r, r->result, m->rank - 2, m->size));
    if (strstr(op_name(r), "slogdet")) CR_TRY(cr_rule_add_dense(r, cr_dtype_to_real(r->result), m->rank - 2, m->size));
    CR_TRY(add_matrix(r, r->result, m->rank, m->size, true));
    return add_pivots(r, m);
}

/* Batch sizes of a and b, then the sizes of b's matrix. */
static cr_status broadcast_batches(cr_rule *r, const cr_meta *a, const cr_meta *b, int dims, int *rank, cr_dim *size) {
    *rank = a->rank - 2;
    memcpy(size, a->size, (size_t)*rank * sizeof *size);
    CR_TRY(cr_broadcast(r->env, rank, size, b->rank - dims, b->size));
    for (int d = 0; d < dims; d++) size[(*rank)++] = b->size[b->rank - dims + d];
    return CR_OK;
}

static cr_status is_vector(cr_rule *r, const cr_meta *a, const cr_meta *b, bool *out) {
    *out = b->rank == 1;
    if (*out || a->rank - 1 != b->rank) return CR_OK;
    *out = true;
    for (int d = 0; d < b->rank && *out; d++) CR_TRY(cr_dim_decide(r->env, a->size[d], CR_EQ, b->size[d], out));
    return CR_OK;
}

static cr_status check_fits(cr_rule *r, const cr_meta *a, cr_dim n) {
    char what[96];
    snprintf(what, sizeof what, "%s: the sizes of the matrix and of the right-hand side do not fit", op_name(r));
    return cr_dim_require(r->env, a->size[a->rank - 1], CR_EQ, n, what);
}

cr_status shape_solve_ex(cr_rule *r) { /* A, B, left, check_errors */
    const cr_meta *a = cr_rule_meta(r, 0), *b = cr_rule_meta(r, 1);
    bool left = cr_rule_bool(r, 2), vector;
    cr_dim size[CR_MAX_RANK];
    int rank;
    CR_TRY(check_square(r, 0));
    CR_TRY(check_same(r, 0, 1));
    if (!b->rank) return CR_FAIL(CR_ERUNTIME, "%s: B must have at least one dimension", op_name(r));
    CR_TRY(is_vector(r, a, b, &vector));
    if (vector && !left) return CR_FAIL(CR_ERUNTIME, "%s: a vector can only be solved for from the left", op_name(r));
    CR_TRY(check_fits(r, a, vector || !left ? b->size[b->rank - 1] : b->size[b->rank - 2]));
    CR_TRY(broadcast_batches(r, a, b, vector ? 1 : 2, &rank, size));
    CR_TRY(add_matrix(r, r->result, rank, size, left));
    CR_TRY(add_matrix(r, r->result, a->rank, a->size, true));
    CR_TRY(add_pivots(r, a));
    return add_info(r, a);
}

cr_status shape_lu_solve(cr_rule *r) { /* LU, pivots, B, left, adjoint */
    const cr_meta *a = cr_rule_meta(r, 0), *p = cr_rule_meta(r, 1), *b = cr_rule_meta(r, 2);
    bool left = cr_rule_bool(r, 3);
    cr_dim size[CR_MAX_RANK];
    int rank;
    CR_TRY(check_square(r, 0));
    CR_TRY(check_kind(r, 2));
    CR_TRY(check_same(r, 0, 2));
    if (p->dtype != CR_I32)
        return CR_FAIL(CR_ERUNTIME, "%s: pivots must have dtype int32, got %s", op_name(r), rt_dtype_name(p->dtype));
    if (p->rank != a->rank - 1)
        return CR_FAIL(CR_ERUNTIME, "%s: pivots must have one dimension less than LU", op_name(r));
    for (int d = 0; d < p->rank; d++)
        CR_TRY(cr_dim_require(r->env, p->size[d], CR_EQ, a->size[d], "linalg_lu_solve: LU and pivots do not fit"));
    CR_TRY(check_fits(r, a, left ? b->size[b->rank - 2] : b->size[b->rank - 1]));
    CR_TRY(broadcast_batches(r, a, b, 2, &rank, size));
    return add_matrix(r, r->result, rank, size, left);
}

cr_status shape_inv_ex(cr_rule *r) { /* A, check_errors */
    const cr_meta *m = cr_rule_meta(r, 0);
    CR_TRY(check_square(r, 0));
    CR_TRY(add_matrix(r, r->result, m->rank, m->size, true));
    return add_info(r, m);
}
cr_status shape_cholesky_ex(cr_rule *r) { return shape_inv_ex(r); } /* self, upper, check_errors */

cr_status shape_cholesky_inverse(cr_rule *r) { /* self, upper */
    const cr_meta *m = cr_rule_meta(r, 0);
    CR_TRY(check_square(r, 0));
    return add_matrix(r, r->result, m->rank, m->size, true);
}

cr_status shape_lstsq(cr_rule *r) { /* self, b, rcond: batches are the same */
    const cr_meta *a = cr_rule_meta(r, 0), *b = cr_rule_meta(r, 1);
    cr_dim size[CR_MAX_RANK];
    CR_TRY(check_kind(r, 0));
    CR_TRY(check_same(r, 0, 1));
    if (b->rank != a->rank) return CR_FAIL(CR_ERUNTIME, "%s: self and b must have as many dimensions", op_name(r));
    memcpy(size, a->size, (size_t)a->rank * sizeof *size);
    size[a->rank - 1] = b->size[b->rank - 1];
    CR_TRY(cr_rule_require_sizes(r, 1, a->rank, size));
    size[a->rank - 2] = a->size[a->rank - 1];
    CR_TRY(cr_rule_add_dense(r, r->result, a->rank, size));
    return cr_rule_add_dense(r, CR_I64, a->rank - 2, size);
}

cr_status shape_solve_triangular(cr_rule *r) { /* self, B, upper, left, unitriangular */
    const cr_meta *a = cr_rule_meta(r, 0), *b = cr_rule_meta(r, 1);
    cr_dim size[CR_MAX_RANK];
    int rank;
    CR_TRY(check_same(r, 0, 1));
    CR_TRY(check_square(r, 0));
    CR_TRY(check_kind(r, 1));
    CR_TRY(check_fits(r, a, cr_rule_bool(r, 3) ? b->size[b->rank - 2] : b->size[b->rank - 1]));
    CR_TRY(broadcast_batches(r, a, b, 2, &rank, size));
    return add_matrix(r, r->result, rank, size, true);
}

cr_status shape_geqrf(cr_rule *r) { /* self */
    const cr_meta *m = cr_rule_meta(r, 0);
    CR_TRY(check_kind(r, 0));
    CR_TRY(add_matrix(r, r->result, m->rank, m->size, true));
    CR_TRY(add_pivots(r, m));
    r->out[1].meta.dtype = (uint8_t)r->result;
    return CR_OK;
}

static cr_status check_tau(cr_rule *r, const cr_meta *m, const cr_meta *t) {
    if (t->rank != m->rank - 1)
        return CR_FAIL(CR_ERUNTIME, "%s: tau must have %d dimensions, got %d", op_name(r), m->rank - 1, t->rank);
    for (int d = 0; d < t->rank - 1; d++)
        CR_TRY(cr_dim_require(r->env, m->size[d], CR_EQ, t->size[d],
                              "the reflectors and their factors tau must have the same batch sizes"));
    return CR_OK;
}

cr_status shape_householder_product(cr_rule *r) { /* input, tau */
    const cr_meta *m = cr_rule_meta(r, 0), *t = cr_rule_meta(r, 1);
    CR_TRY(check_kind(r, 0));
    CR_TRY(check_same(r, 0, 1));
    CR_TRY(check_tau(r, m, t));
    CR_TRY(cr_dim_require(r->env, m->size[m->rank - 2], CR_GE, m->size[m->rank - 1],
                          "householder_product: there must be at least as many rows as columns"));
    CR_TRY(cr_dim_require(r->env, m->size[m->rank - 1], CR_GE, t->size[t->rank - 1],
                          "householder_product: there must be at least as many columns as factors"));
    return add_matrix(r, r->result, m->rank, m->size, true);
}

cr_status shape_ormqr(cr_rule *r) { /* self, input2 (tau), input3 (other), left, transpose */
    const cr_meta *m = cr_rule_meta(r, 0), *t = cr_rule_meta(r, 1), *other = cr_rule_meta(r, 2);
    bool left = cr_rule_bool(r, 3);
    if (m->rank < 2 || other->rank != m->rank)
        return CR_FAIL(CR_ERUNTIME, "%s: input and other must have equally many dimensions, two or more, got %d and %d",
                       op_name(r), m->rank, other->rank);
    CR_TRY(check_same(r, 0, 1));
    CR_TRY(check_same(r, 0, 2));
    CR_TRY(check_tau(r, m, t));
    for (int d = 0; d < m->rank - 2; d++)
        CR_TRY(cr_dim_require(r->env, m->size[d], CR_EQ, other->size[d],
                              "ormqr: input and other must have the same batch sizes"));
    cr_dim rows = m->size[m->rank - 2], side = other->size[other->rank - (left ? 2 : 1)];
    CR_TRY(cr_dim_require(r->env, side, CR_EQ, rows,
                          "ormqr: other must have as many rows (left) or columns as input rows"));
    CR_TRY(cr_dim_require(r->env, t->size[t->rank - 1], CR_EQ, smaller(r, m),
                          "ormqr: tau must have as many factors as input rows or columns, whichever are fewer"));
    return add_matrix(r, r->result, other->rank, other->size, true);
}

cr_status check_triangular_solve(cr_rule *r) { /* self, A, upper, transpose, unitriangular */
    const cr_meta *b = cr_rule_meta(r, 0), *a = cr_rule_meta(r, 1);
    if (a->rank < 2 || b->rank < 2)
        return CR_FAIL(CR_ERUNTIME, "%s: self and A must have at least two dimensions", op_name(r));
    CR_TRY(check_same(r, 0, 1));
    CR_TRY(cr_dim_require(r->env, a->size[a->rank - 2], CR_EQ, a->size[a->rank - 1],
                          "triangular_solve: the matrices must be square"));
    CR_TRY(check_fits(r, a, b->size[b->rank - 2]));
    return dtype_same(r);
}

cr_status shape_ldl_factor(cr_rule *r) { /* self, hermitian, check_errors */
    const cr_meta *m = cr_rule_meta(r, 0);
    CR_TRY(check_square(r, 0));
    CR_TRY(add_matrix(r, r->result, m->rank, m->size, true));
    CR_TRY(add_pivots(r, m));
    return add_info(r, m);
}

cr_status shape_ldl_solve(cr_rule *r) { /* LD, pivots, B, hermitian */
    const cr_meta *a = cr_rule_meta(r, 0), *p = cr_rule_meta(r, 1), *b = cr_rule_meta(r, 2);
    cr_dim size[CR_MAX_RANK];
    int rank;
    CR_TRY(check_square(r, 0));
    if (b->rank < 2) return CR_FAIL(CR_EINDEX, "%s: B must have at least two dimensions, got %d", op_name(r), b->rank);
    CR_TRY(check_same(r, 0, 2));
    CR_TRY(check_fits(r, a, b->size[b->rank - 2]));
    if (!rt_is_integer(p->dtype))
        return CR_FAIL(CR_ERUNTIME, "%s: pivots must be integers, got %s", op_name(r), rt_dtype_name(p->dtype));
    if (p->rank != a->rank - 1)
        return CR_FAIL(CR_ERUNTIME, "%s: pivots must have one dimension less than LD", op_name(r));
    for (int d = 0; d < p->rank; d++)
        CR_TRY(cr_dim_require(r->env, p->size[d], CR_EQ, a->size[d], "linalg_ldl_solve: LD and pivots do not fit"));
    CR_TRY(broadcast_batches(r, a, b, 2, &rank, size));
    bool half = r->result == CR_F16 || r->result == CR_BF16 || r->result == CR_C32;
    cr_dim matrices = a->size[a->rank - 1]; /* other dtypes pass where there is nothing to solve with, as in PyTorch */
    for (int d = 0; d < rank - 2; d++) matrices = cr_dim_mul(r->env, matrices, size[d]);
    if (half && cr_dim_known(r->env, matrices, CR_EQ, 0) != CR_YES)
        return CR_FAIL(CR_ENOTIMPL, "%s: not implemented for %s; convert the tensors to float32", op_name(r),
                       rt_dtype_name(r->result));
    return add_matrix(r, r->result, rank, size, true);
}

cr_status shape_lu_unpack(cr_rule *r) { /* LU_data, LU_pivots, unpack_data, unpack_pivots -> P, L, U */
    const cr_meta *m = cr_rule_meta(r, 0), *p = cr_rule_meta(r, 1);
    bool data = cr_rule_bool(r, 2), pivots = cr_rule_bool(r, 3);
    cr_dim size[CR_MAX_RANK], none = 0, rows, columns, k;
    if (m->rank < 2)
        return CR_FAIL(CR_ERUNTIME, "%s: LU_data must have at least two dimensions, got %d", op_name(r), m->rank);
    if (pivots && p->dtype != CR_I32)
        return CR_FAIL(CR_ERUNTIME, "%s: LU_pivots must have dtype int32, got %s", op_name(r), rt_dtype_name(p->dtype));
    memcpy(size, m->size, (size_t)m->rank * sizeof *size);
    rows = size[m->rank - 2], columns = size[m->rank - 1], k = smaller(r, m);
    if (pivots) {
        if (p->rank != m->rank - 1)
            return CR_FAIL(CR_ERUNTIME, "%s: LU_pivots must have one dimension less than LU_data", op_name(r));
        size[m->rank - 2] = k; /* a pivot for each row or column, whichever are fewer */
        CR_TRY(cr_rule_require_sizes(r, 1, p->rank, size));
        size[m->rank - 2] = rows;
    }
    size[m->rank - 1] = rows;
    CR_TRY(pivots ? cr_rule_add_dense(r, r->result, m->rank, size) : cr_rule_add_dense(r, r->result, 1, &none));
    size[m->rank - 1] = k;
    CR_TRY(data ? cr_rule_add_dense(r, r->result, m->rank, size) : cr_rule_add_dense(r, r->result, 1, &none));
    size[m->rank - 2] = k;
    size[m->rank - 1] = columns;
    return data ? cr_rule_add_dense(r, r->result, m->rank, size) : cr_rule_add_dense(r, r->result, 1, &none);
}
cr_status check_qr(cr_rule *r) { /* A, mode */
    const char *mode = r->arg[1].u.s;
    CR_TRY(check_kind(r, 0));
    if (strcmp(mode, "reduced") && strcmp(mode, "complete") && strcmp(mode, "r"))
        return CR_FAIL(CR_ERUNTIME, "linalg_qr: mode must be 'reduced', 'complete' or 'r', got '%s'", mode);
    return dtype_same(r);
}
cr_status check_matrices(cr_rule *r) {
    CR_TRY(check_kind(r, 0));
    return dtype_same(r);
}
cr_status check_squares(cr_rule *r) {
    CR_TRY(check_square(r, 0));
    return dtype_same(r);
}
cr_status shape_check_errors(cr_rule *r) { /* info, api_name, is_matrix */
    (void)r;
    return CR_OK;
}

/* The sizes from dimension `at` on must have the product of those before it. */
static cr_status check_halves(cr_rule *r, const cr_dim *size, int rank, int at) {
    cr_dim front = 1, back = 1;
    char what[128];
    for (int d = 0; d < rank; d++) {
        cr_dim *of = d < at ? &front : &back;
        *of = cr_dim_mul(r->env, *of, size[d]);
    }
    snprintf(what, sizeof what, "%s: the first %d sizes of self must have the product of the others", op_name(r), at);
    return cr_dim_require(r->env, front, CR_EQ, back, what);
}
cr_status check_tensorinv(cr_rule *r) { /* self, ind */
    const cr_meta *m = cr_rule_meta(r, 0);
    int64_t at = r->arg[1].u.i;
    if (at <= 0) return CR_FAIL(CR_ERUNTIME, "%s: ind must be positive, got %lld", op_name(r), (long long)at);
    CR_TRY(check_halves(r, m->size, m->rank, at > m->rank ? m->rank : (int)at));
    return dtype_same(r);
}
cr_status check_tensorsolve(cr_rule *r) { /* self, other, dims */
    if (cr_rule_meta(r, 1)->rank > cr_rule_meta(r, 0)->rank)
        return CR_FAIL(CR_ERUNTIME, "%s: other has more dimensions than self", op_name(r));
    return dtype_same(r);
}

cr_status shape_eig(cr_rule *r) { /* self -> values (, vectors) */
    const cr_meta *m = cr_rule_meta(r, 0);
    int dtype = cr_dtype_to_complex(m->dtype);
    CR_TRY(check_square(r, 0));
    CR_TRY(cr_rule_add_dense(r, dtype, m->rank - 1, m->size));
    return r->op->schema.nreturns > 1 ? add_matrix(r, dtype, m->rank, m->size, true) : CR_OK;
}
cr_status dtype_phaseless(cr_rule *r) { /* self */
    CR_TRY(dtype_same(r));
    if (!cr_dtype_is_complex(r->result)) return CR_FAIL(CR_ERUNTIME, "%s: self must be complex", op_name(r));
    r->result = cr_dtype_to_real(r->result);
    return CR_OK;
}

cr_status shape_eigh(cr_rule *r) { /* A, UPLO, compute_v */
    const cr_meta *m = cr_rule_meta(r, 0);
    const char *side = r->arg[1].u.s;
    cr_dim none = 0;
    CR_TRY(check_square(r, 0));
    if (strlen(side) != 1 || !strchr("LUlu", side[0]))
        return CR_FAIL(CR_ERUNTIME, "%s: UPLO must be 'L' or 'U', got '%s'", op_name(r), side);
    CR_TRY(cr_rule_add_dense(r, cr_dtype_to_real(r->result), m->rank - 1, m->size));
    return cr_rule_bool(r, 2) ? add_matrix(r, r->result, m->rank, m->size, true)
                              : cr_rule_add_dense(r, r->result, 1, &none);
}

/* The driver is a choice of cuSOLVER's algorithms: on the CPU there is none. */
static cr_status check_driver(cr_rule *r, int i) {
    if (!cr_rule_has(r, i)) return CR_OK;
    return CR_FAIL(CR_ERUNTIME, "%s: driver is for CUDA only; leave it out", op_name(r));
}
cr_status check_svd_driver(cr_rule *r) { /* A, ..., driver */
    CR_TRY(check_kind(r, 0));
    CR_TRY(check_driver(r, cr__rule_param(r, "driver")));
    return dtype_same(r);
}

cr_status shape_svd(cr_rule *r) { /* A, full_matrices, compute_uv, driver -> U, S, Vh */
    const cr_meta *m = cr_rule_meta(r, 0);
    bool full = cr_rule_bool(r, 1), vectors = cr_rule_bool(r, 2);
    cr_dim size[CR_MAX_RANK], none = 0, rows, columns, k;
    CR_TRY(check_kind(r, 0));
    CR_TRY(check_driver(r, 3));
    memcpy(size, m->size, (size_t)m->rank * sizeof *size);
    rows = size[m->rank - 2], columns = size[m->rank - 1], k = smaller(r, m);
    size[m->rank - 1] = full ? rows : k;
    CR_TRY(vectors ? add_matrix(r, r->result, m->rank, size, true) : cr_rule_add_dense(r, r->result, 1, &none));
    size[m->rank - 2] = k;
    CR_TRY(cr_rule_add_dense(r, cr_dtype_to_real(r->result), m->rank - 1, size));
    size[m->rank - 2] = full ? columns : k;
    size[m->rank - 1] = columns;
    return vectors ? add_matrix(r, r->result, m->rank, size, true) : cr_rule_add_dense(r, r->result, 1, &none);
}

cr_status check_pinv(cr_rule *r) { /* self, ..., hermitian last */
    CR_TRY(cr_rule_bool(r, r->nargs - 1) ? check_square(r, 0) : check_kind(r, 0));
    for (int i = 1; i < r->nargs - 1; i++) {
        const cr_meta *m = cr_rule_meta(r, i);
        if (m && cr_dtype_is_complex(m->dtype))
            return CR_FAIL(CR_ERUNTIME, "%s: %s must be real", op_name(r), r->op->schema.params[i].name);
    }
    return dtype_same(r);
}

cr_status shape_matrix_exp(cr_rule *r) { /* self */
    const cr_meta *m = cr_rule_meta(r, 0);
    CR_TRY(check_square(r, 0));
    return cr_rule_add_dense(r, r->result, m->rank, m->size);
}

/* Singular values serve for matrices of all sizes, other norms need the inverse. */
cr_status check_cond(cr_rule *r) { /* self, p */
    cr_arg p = r->arg[1];
    CR_TRY(cr_arg_settle(r->env, &p));
    double ord = p.kind == CR_ARG_FLOAT ? p.u.f : p.kind == CR_ARG_INT ? (double)p.u.i : 2;
    bool named = p.kind == CR_ARG_STR;
    if (named && strcmp(p.u.s, "fro") && strcmp(p.u.s, "nuc"))
        return CR_FAIL(CR_ERUNTIME, "linalg_cond: '%s' is no norm; 'fro' and 'nuc' are", p.u.s);
    if (!named && ord != 1 && ord != -1 && ord != 2 && ord != -2 && !isinf(ord))
        return CR_FAIL(CR_ERUNTIME,
                       "linalg_cond: order %g is no norm of matrices; 1, -1, 2, -2, inf, -inf, 'fro' and 'nuc' are",
                       ord);
    CR_TRY(!named && (ord == 2 || ord == -2) ? check_kind(r, 0) : check_square(r, 0));
    return dtype_same(r);
}
