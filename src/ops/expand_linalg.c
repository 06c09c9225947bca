/* expand_linalg.c: matrices put together, multiplied in chains and measured: what needs a loop over operands or a
 * choice that a formula cannot refuse. */
#include "ops/expand.h"
#include "ops/rules.h"

#include <math.h>

/* A block with the zeros beside it, joined. */
static cr_arg between_zeros(cr__run *r, cr_arg block, cr_dim rows, int dtype, const cr_arg pad[2]) {
    cr_arg left[2] = { cr_arg_int(rows), pad[0] }, right[2] = { cr_arg_int(rows), pad[1] };
    cr_arg parts[3] = { CR_RUN(r, "zeros", cr_arg_list(left, 2), cr_arg_dtype(dtype)), block,
                        CR_RUN(r, "zeros", cr_arg_list(right, 2), cr_arg_dtype(dtype)) };
    return CR_RUN(r, "cat", cr_arg_list(parts, 3), cr_arg_int(1));
}

/* Each matrix is padded to the whole width; the rows are then one below the other. Numbers and vectors are rows. */
static cr_status block_diag(cr_emitter *e, const cr_op *op, const cr_arg *args, bool core, cr_arg *results) {
    cr__run r = { .e = e };
    CR_VEC(cr_arg) blocks = { 0 };
    cr_dim width = 0, left = 0;
    for (uint32_t i = 0; i < args[0].n && !r.status; i++) {
        cr_arg t = cr__run_item(&r, &args[0], i);
        const cr_meta *m = cr__run_meta(&r, &t);
        if (m->rank > 2)
            r.status = CR_FAIL(CR_ERUNTIME, "%s: tensors[%u] has %d dims, expected at most 2", op->schema.name, i,
                               m->rank);
        cr_arg size[2] = { cr_arg_int(1), cr_arg_int(m->rank ? m->size[m->rank - 1] : 1) };
        if (m->rank < 2) t = CR_RUN(&r, "reshape", t, cr_arg_list(size, 2));
        width = cr_dim_add(e->env, width, m->rank ? m->size[m->rank - 1] : 1);
        if (!r.status) r.status = cr_vec_push(&blocks, t);
    }
    for (size_t i = 0; i < blocks.n && !r.status; i++) {
        cr_dim own = cr__run_meta(&r, &blocks.at[i])->size[1];
        cr_dim right = cr_dim_sub(e->env, cr_dim_sub(e->env, width, left), own);
        cr_arg pad[2] = { cr_arg_int(left), cr_arg_int(right) };
        const cr_meta *m = cr__run_meta(&r, &blocks.at[i]);
        if (!core) blocks.at[i] = CR_RUN(&r, "constant_pad_nd", blocks.at[i], cr_arg_list(pad, 2));
        else blocks.at[i] = between_zeros(&r, blocks.at[i], m->size[0], m->dtype, pad);
        left = cr_dim_add(e->env, left, own);
    }
    cr_arg none[2] = { cr_arg_int(1), cr_arg_int(0) }, rows = cr_arg_list(blocks.at, blocks.n);
    cr_arg y = blocks.n || r.status ? CR_RUN(&r, "cat", rows, cr_arg_int(0))
                                    : CR_RUN(&r, "zeros", cr_arg_list(none, 2));
    cr_vec_dispose(&blocks);
    return cr__run_finish(&r, 1, &y, results);
}

cr_status expand_block_diag(cr_emitter *e, const cr_op *op, const cr_arg *args, cr_arg *results) {
    return block_diag(e, op, args, false, results);
}
cr_status expand_block_diag_core(cr_emitter *e, const cr_op *op, const cr_arg *args, cr_arg *results) {
    return block_diag(e, op, args, true, results);
}

/* From the left to the right. The first may be a row and the last a column of numbers: matmul's vectors. */
cr_status expand_multi_dot(cr_emitter *e, const cr_op *op, const cr_arg *args, cr_arg *results) {
    cr__run r = { .e = e };
    uint32_t n = args[0].n;
    if (n < 2) return CR_FAIL(CR_ERUNTIME, "%s: at least 2 tensors are needed, got %u", op->schema.name, n);
    cr_arg y = cr_arg_none();
    int dtype = -1;
    for (uint32_t i = 0; i < n && !r.status; i++) {
        cr_arg t = cr__run_item(&r, &args[0], i);
        const cr_meta *m = cr__run_meta(&r, &t);
        bool end = i == 0 || i == n - 1;
        if (m->rank != 2 && !(end && m->rank == 1))
            r.status = CR_FAIL(CR_ERUNTIME, "%s: tensors[%u] has %d dims, expected %s", op->schema.name, i, m->rank,
                               end ? "1 or 2" : "2");
        else if (dtype >= 0 && m->dtype != dtype)
            r.status = CR_FAIL(CR_ERUNTIME, "%s: the tensors must have one dtype, got %s and %s", op->schema.name,
                               cr_dtype_name(dtype), cr_dtype_name(m->dtype));
        dtype = m->dtype;
        y = i == 0 ? t : CR_RUN(&r, "matmul", y, t);
    }
    return cr__run_finish(&r, 1, &y, results);
}

/* n times the product with itself, by squaring; a negative n is of the inverse. */
cr_status expand_matrix_power(cr_emitter *e, const cr_op *op, const cr_arg *args, cr_arg *results) {
    cr__run r = { .e = e };
    const cr_meta *m = cr__run_meta(&r, &args[0]);
    int64_t n = args[1].u.i;
    int rank = m->rank;
    if (rank < 2) return CR_FAIL(CR_ERUNTIME, "%s: self must have at least 2 dims, got %d", op->schema.name, rank);
    CR_TRY(cr_dim_require(e->env, m->size[rank - 2], CR_EQ, m->size[rank - 1],
                          "matrix_power: the matrices must be square"));
    if (n == 0) {
        cr_arg size[CR_MAX_RANK], side = cr_arg_int(m->size[rank - 1]), none = cr_arg_none();
        for (int d = 0; d < rank; d++) size[d] = cr_arg_int(m->size[d]);
        cr_arg eye = CR_RUN(&r, "eye", side, cr_arg_dtype(m->dtype), none,
                            (cr_arg){ .kind = CR_ARG_DEVICE, .given = 1, .u.device = m->device });
        cr_arg y = CR_RUN(&r, "clone", CR_RUN(&r, "expand", eye, cr_arg_list(size, (size_t)rank)));
        return cr__run_finish(&r, 1, &y, results);
    }
    if (n == 3) { /* as PyTorch multiplies it */
        cr_arg y = CR_RUN(&r, "matmul", CR_RUN(&r, "matmul", args[0], args[0]), args[0]);
        return cr__run_finish(&r, 1, &y, results);
    }
    cr_arg square = n < 0 ? CR_RUN(&r, "linalg_inv", args[0]) : args[0], y = cr_arg_none();
    for (uint64_t left = n < 0 ? 0 - (uint64_t)n : (uint64_t)n; left && !r.status; left >>= 1) {
        if (left & 1) y = y.kind == CR_ARG_NONE ? square : CR_RUN(&r, "matmul", y, square);
        if (left > 1) square = CR_RUN(&r, "matmul", square, square);
    }
    if (n == 1) y = CR_RUN(&r, "clone", y, (cr_arg){ .kind = CR_ARG_FORMAT, .given = 1, .u.i = CR_CONTIGUOUS });
    return cr__run_finish(&r, 1, &y, results);
}

/* The number that an argument is; of a symbolic one the example's, for which the program then is. */
static double number(cr__run *r, const cr_arg *a) {
    cr_arg plain = *a;
    cr_status status = cr_arg_settle(r->e->env, &plain);
    if (status && !r->status) r->status = status;
    return plain.kind == CR_ARG_FLOAT ? plain.u.f : (double)plain.u.i;
}

/* ---- norms of matrices ---- */

typedef struct matrices { const char *what; cr_arg x, dtype; int dim[2]; bool keep; } matrices; /* dim: rows, columns */

/* Checks self and dims (the last two where none are named). */
static cr_status open_matrices(cr__run *r, const cr_op *op, const cr_arg *self, const cr_arg *dims, const cr_arg *keep,
                               const cr_arg *dtype, matrices *out) {
    const cr_meta *m = cr__run_meta(r, self);
    bool named = dims->kind == CR_ARG_LIST;
    *out = (matrices){ .what = op->schema.name,
                       .x = *self,
                       .dtype = *dtype,
                       .dim = { m->rank - 2, m->rank - 1 },
                       .keep = keep->u.i != 0 };
    if (!cr_dtype_is_floating(m->dtype) && !cr_dtype_is_complex(m->dtype))
        return CR_FAIL(CR_ERUNTIME, "%s: norms of matrices are of floating or complex numbers, not %s", out->what,
                       cr_dtype_name(m->dtype));
    if (m->rank < 2)
        return CR_FAIL(CR_ERUNTIME, "%s: self must have at least two dimensions, got %d", out->what, m->rank);
    if (named && dims->n != 2) return CR_FAIL(CR_ERUNTIME, "%s: dim must name 2 dims, got %u", out->what, dims->n);
    for (int i = 0; named && i < 2; i++) CR_TRY(cr_wrap_dim(dims->u.list[i].u.i, m->rank, &out->dim[i]));
    if (out->dim[0] == out->dim[1]) return CR_FAIL(CR_ERUNTIME, "%s: dim names one dim twice", out->what);
    return CR_OK;
}

/* Sums of columns (1) or rows (inf), the largest or, negative, the smallest of them. */
static cr_arg norm_by_sums(cr__run *r, const matrices *a, double ord) {
    bool columns = fabs(ord) == 1;
    int inner = columns ? a->dim[0] : a->dim[1], outer = columns ? a->dim[1] : a->dim[0];
    cr_arg first = cr_arg_int(inner), second = cr_arg_int(outer > inner && !a->keep ? outer - 1 : outer),
           keep = cr_arg_bool(a->keep);
    cr_arg sums = CR_RUN(r, "sum.dim_IntList", CR_RUN(r, "abs", a->x), cr_arg_list(&first, 1), keep, a->dtype);
    cr_arg over = cr_arg_list(&second, 1);
    return ord > 0 ? CR_RUN(r, "amax", sums, over, keep) : CR_RUN(r, "amin", sums, over, keep);
}

/* The largest (2) or smallest (-2) singular value, or (0) their sum. */
static cr_arg norm_by_values(cr__run *r, const matrices *a, int ord) {
    cr_arg x = a->dtype.kind == CR_ARG_DTYPE ? CR_RUN(r, "to.dtype", a->x, a->dtype) : a->x, last = cr_arg_int(-1),
           over = cr_arg_list(&last, 1), y;
    cr_arg from[2] = { cr_arg_int(a->dim[0]), cr_arg_int(a->dim[1]) }, to[2] = { cr_arg_int(-2), cr_arg_int(-1) };
    int dtype = cr__run_meta(r, &x)->dtype;
    if (!r->status && (dtype == CR_F16 || dtype == CR_BF16 || dtype == CR_C32))
        r->status = CR_FAIL(CR_ERUNTIME, "%s: singular values of %s are not computed; pass dtype=float32", a->what,
                            cr_dtype_name(dtype));
    cr_arg s = CR_RUN(r, "linalg_svdvals", CR_RUN(r, "movedim.intlist", x, cr_arg_list(from, 2), cr_arg_list(to, 2)));
    const cr_meta *m = cr__run_meta(r, &s);
    /* the norm of nothing is 0 */
    bool none = m->rank && cr_dim_known(r->e->env, m->size[m->rank - 1], CR_EQ, 0) == CR_YES;
    if (!ord || none) y = CR_RUN(r, "sum.dim_IntList", s, over);
    else y = ord > 0 ? CR_RUN(r, "amax", s, over) : CR_RUN(r, "amin", s, over);
    for (int i = 0; i < 2 && a->keep; i++) {
        int d = (a->dim[0] < a->dim[1]) == !i ? a->dim[0] : a->dim[1];
        y = CR_RUN(r, "unsqueeze", y, cr_arg_int(d));
    }
    return y;
}

static cr_arg matrix_norm(cr__run *r, const matrices *a, double ord) {
    if (fabs(ord) == 2) return norm_by_values(r, a, (int)ord);
    if (fabs(ord) == 1 || isinf(ord)) return norm_by_sums(r, a, ord);
    if (!r->status)
        r->status = CR_FAIL(CR_ERUNTIME,
                            "%s: order %g is no norm of matrices; 1, -1, 2, -2, inf, -inf, 'fro' and 'nuc' are",
                            a->what, ord);
    return cr_arg_none();
}

static cr_arg named_norm(cr__run *r, const matrices *a, const char *ord) {
    cr_arg dims[2] = { cr_arg_int(a->dim[0]), cr_arg_int(a->dim[1]) };
    if (!strcmp(ord, "nuc")) return norm_by_values(r, a, 0);
    if (!strcmp(ord, "fro"))
        return CR_RUN(r, "linalg_vector_norm", a->x, cr_arg_int(2), cr_arg_list(dims, 2), cr_arg_bool(a->keep),
                      a->dtype);
    if (!r->status)
        r->status = CR_FAIL(CR_ERUNTIME, "%s: '%s' is no norm of matrices; 'fro' and 'nuc' are", a->what, ord);
    return cr_arg_none();
}

/* linalg_matrix_norm(self, ord, dim, keepdim, *, dtype): ord is a number or a name. */
cr_status expand_matrix_norm(cr_emitter *e, const cr_op *op, const cr_arg *args, cr_arg *results) {
    cr__run r = { .e = e };
    matrices a;
    CR_TRY(open_matrices(&r, op, &args[0], &args[2], &args[3], &args[4], &a));
    cr_arg y = args[1].kind == CR_ARG_STR ? named_norm(&r, &a, args[1].u.s) : matrix_norm(&r, &a, number(&r, &args[1]));
    return cr__run_finish(&r, 1, &y, results);
}

/* nuclear_norm(self, keepdim), nuclear_norm.dim(self, dim, keepdim) */
cr_status expand_nuclear_norm(cr_emitter *e, const cr_op *op, const cr_arg *args, cr_arg *results) {
    cr__run r = { .e = e };
    matrices a;
    bool named = op->schema.nparams == 3;
    cr_arg none = cr_arg_none();
    if (!named && cr__run_meta(&r, &args[0])->rank != 2)
        return CR_FAIL(CR_ERUNTIME, "nuclear_norm: self must be a matrix; name its dims otherwise");
    CR_TRY(open_matrices(&r, op, &args[0], named ? &args[1] : &none, &args[named ? 2 : 1], &none, &a));
    cr_arg y = norm_by_values(&r, &a, 0);
    return cr__run_finish(&r, 1, &y, results);
}

/* linalg_norm(self, ord, dim, keepdim, *, dtype): of vectors, unless an order is given with two dims, or its name. */
cr_status expand_linalg_norm(cr_emitter *e, const cr_op *op, const cr_arg *args, cr_arg *results) {
    cr__run r = { .e = e };
    const cr_meta *m = cr__run_meta(&r, &args[0]);
    bool ordered = args[1].kind != CR_ARG_NONE, chosen = args[2].kind == CR_ARG_LIST,
         named = args[1].kind == CR_ARG_STR;
    uint32_t n = chosen ? args[2].n : (uint32_t)m->rank;
    if (chosen && n != 1 && n != 2)
        return CR_FAIL(CR_ERUNTIME, "%s: dim must name 1 or 2 dims, got %u", op->schema.name, n);
    if (!chosen && ordered && n != 1 && n != 2)
        return CR_FAIL(CR_ERUNTIME, "%s: with ord and without dim, self must have 1 or 2 dims, got %u", op->schema.name,
                       n);
    if (named && n != 2)
        return CR_FAIL(CR_ERUNTIME, "%s: '%s' is a norm of matrices: 2 dims are needed, got %u", op->schema.name,
                       args[1].u.s, n);
    matrices a;
    cr_arg y;
    if (ordered && n == 2) {
        CR_TRY(open_matrices(&r, op, &args[0], &args[2], &args[3], &args[4], &a));
        y = named ? named_norm(&r, &a, args[1].u.s) : matrix_norm(&r, &a, number(&r, &args[1]));
    } else {
        y = CR_RUN(&r, "linalg_vector_norm", args[0], ordered ? args[1] : cr_arg_int(2), args[2], args[3], args[4]);
    }
    return cr__run_finish(&r, 1, &y, results);
}

/* (a1 b2 - a2 b1, a2 b0 - a0 b2, a0 b1 - a1 b0): both turned by one and by two places. */
cr_status expand_cross(cr_emitter *e, const cr_op *op, const cr_arg *args, cr_arg *results) {
    cr__run r = { .e = e };
    const cr_meta *a = cr__run_meta(&r, &args[0]), *b = cr__run_meta(&r, &args[1]);
    int dim;
    if (a->rank != b->rank)
        return CR_FAIL(CR_ERUNTIME, "%s: self and other must have the same number of dims, got %d and %d",
                       op->schema.name, a->rank, b->rank);
    CR_TRY(cr_wrap_dim(args[2].u.i, a->rank, &dim));
    CR_TRY(cr_dim_require(e->env, a->size[dim], CR_EQ, 3, "cross: the size of self along dim must be 3"));
    CR_TRY(cr_dim_require(e->env, b->size[dim], CR_EQ, 3, "cross: the size of other along dim must be 3"));
    cr_arg at = cr_arg_int(dim), one = cr_arg_int(-1), two = cr_arg_int(-2), dims = cr_arg_list(&at, 1),
           by1 = cr_arg_list(&one, 1), by2 = cr_arg_list(&two, 1);
    cr_arg plus = CR_RUN(&r, "mul.Tensor", CR_RUN(&r, "roll", args[0], by1, dims),
                         CR_RUN(&r, "roll", args[1], by2, dims));
    cr_arg minus = CR_RUN(&r, "mul.Tensor", CR_RUN(&r, "roll", args[0], by2, dims),
                          CR_RUN(&r, "roll", args[1], by1, dims));
    cr_arg y = CR_RUN(&r, "sub.Tensor", plus, minus);
    return cr__run_finish(&r, 1, &y, results);
}
