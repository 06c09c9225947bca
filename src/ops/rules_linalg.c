/* rules_linalg.c: results of matrix products. */
#include "ops/rules.h"

#include <stdio.h>

/* All tensor operands have one dtype; PyTorch's products do not promote. */
cr_status dtype_product(cr_rule *r) {
    const cr_meta *first = NULL;
    for (int i = 0; i < r->nargs; i++) {
        const cr_meta *m = cr_rule_meta(r, i);
        if (!m) continue;
        if (!first) first = m;
        if (m->dtype != first->dtype)
            return CR_FAIL(CR_ERUNTIME,
                           "%s: expected all operands to have the same dtype, but got %s and %s for '%s'; convert one "
                           "with .to(dtype)",
                           r->op->schema.name, cr_dtype_aten(first->dtype), cr_dtype_aten(m->dtype),
                           r->op->schema.params[i].name);
    }
    r->common = r->result = first->dtype;
    return CR_OK;
}

static cr_status require_rank(cr_rule *r, int i, int rank) {
    const cr_meta *m = cr_rule_meta(r, i);
    if (m->rank == rank) return CR_OK;
    return CR_FAIL(CR_ERUNTIME, "%s: argument '%s' must have %d dimension%s, not %d", r->op->schema.name,
                   r->op->schema.params[i].name, rank, rank == 1 ? "" : "s", m->rank);
}

static cr_status require_inner(cr_rule *r, cr_dim a, cr_dim b) {
    char what[96];
    snprintf(what, sizeof what, "%s: the inner sizes of the operands must be equal", r->op->schema.name);
    return cr_dim_require(r->env, a, CR_EQ, b, what);
}

/* `a` and `b`: positions of two matrices (or stacks of them, batch = 1). */
static cr_status product(cr_rule *r, int a, int b, int batch) {
    CR_TRY(require_rank(r, a, 2 + batch));
    CR_TRY(require_rank(r, b, 2 + batch));
    const cr_meta *x = cr_rule_meta(r, a), *y = cr_rule_meta(r, b);
    if (batch)
        CR_TRY(cr_dim_require(r->env, x->size[0], CR_EQ, y->size[0],
                              "the operands must have the same number of matrices"));
    CR_TRY(require_inner(r, x->size[1 + batch], y->size[batch]));
    cr_dim size[3] = { x->size[0], x->size[batch], y->size[1 + batch] };
    return cr_rule_add_dense(r, r->result, 2 + batch, batch ? size : size + 1);
}

cr_status shape_mm(cr_rule *r) { return product(r, 0, 1, 0); }
cr_status shape_bmm(cr_rule *r) { return product(r, 0, 1, 1); }

/* input [rows, k] and weight [groups, k, n]; offs [groups]: where each group of rows ends. */
cr_status shape_grouped_mm(cr_rule *r) {
    const cr_meta *input = cr_rule_meta(r, 0), *weight = cr_rule_meta(r, 1), *offs = cr_rule_meta(r, 2);
    for (int i = 0; i < 3; i++) CR_TRY(require_rank(r, i, i == 0 ? 2 : i == 1 ? 3 : 1));
    if (input->dtype != weight->dtype)
        return CR_FAIL(CR_ERUNTIME, "%s: input is %s and weight %s; convert one with .to(dtype)", r->op->schema.name,
                       cr_dtype_aten(input->dtype), cr_dtype_aten(weight->dtype));
    if (offs->dtype != CR_I32 && offs->dtype != CR_I64)
        return CR_FAIL(CR_ERUNTIME, "%s: offs must be int32 or int64, not %s", r->op->schema.name,
                       cr_dtype_aten(offs->dtype));
    CR_TRY(cr_dim_require(r->env, offs->size[0], CR_EQ, weight->size[0],
                          "offs must have one entry for each matrix of weight"));
    CR_TRY(require_inner(r, input->size[1], weight->size[1]));
    return cr_rule_add_dense(r, input->dtype, 2, (cr_dim[]){ input->size[0], weight->size[2] });
}

/* self and mat2 [(groups,) rows, columns]; what only one of them has no group of its own of is cut at offs: the rows of
 * self, the columns of mat2, or, where neither has, the inner size. */
cr_status shape_groups(cr_rule *r) { /* self, mat2, offs */
    const cr_meta *a = cr_rule_meta(r, 0), *b = cr_rule_meta(r, 1), *offs = cr_rule_meta(r, 2);
    for (int i = 0; i < 2; i++)
        if (cr_rule_meta(r, i)->rank != 2) CR_TRY(require_rank(r, i, 3));
    if (a->dtype != b->dtype)
        return CR_FAIL(CR_ERUNTIME, "%s: '%s' is %s and '%s' %s; convert one with .to(dtype)", r->op->schema.name,
                       r->op->schema.params[0].name, cr_dtype_aten(a->dtype), r->op->schema.params[1].name,
                       cr_dtype_aten(b->dtype));
    bool both = a->rank == 3 && b->rank == 3;
    if (both == (offs != NULL))
        return CR_FAIL(CR_ERUNTIME, "%s: offs says where groups of a 2-d operand end: pass it with one, and only then",
                       r->op->schema.name);
    CR_TRY(require_inner(r, a->size[a->rank - 1], b->size[b->rank - 2]));
    cr_dim rows = a->size[a->rank - 2], columns = b->size[b->rank - 1];
    if (both) CR_TRY(cr_dim_require(r->env, a->size[0], CR_EQ, b->size[0], "both operands must have as many groups"));
    if (both) return cr_rule_add_dense(r, a->dtype, 3, (cr_dim[]){ a->size[0], rows, columns });
    CR_TRY(require_rank(r, 2, 1));
    if (offs->dtype != CR_I32 && offs->dtype != CR_I64)
        return CR_FAIL(CR_ERUNTIME, "%s: offs must be int32 or int64, not %s", r->op->schema.name,
                       cr_dtype_aten(offs->dtype));
    if (a->rank == b->rank) return cr_rule_add_dense(r, a->dtype, 3, (cr_dim[]){ offs->size[0], rows, columns });
    CR_TRY(cr_dim_require(r->env, offs->size[0], CR_EQ, (a->rank == 3 ? a : b)->size[0],
                          "offs must have one entry for each matrix"));
    return cr_rule_add_dense(r, a->dtype, 2, (cr_dim[]){ rows, columns });
}

cr_status check_grouped_mm(cr_rule *r) { /* self, mat2, offs, bias, out_dtype */
    const cr_meta *offs = cr_rule_meta(r, 2);
    for (int i = 0; i < 2; i++) {
        int dtype = cr_rule_meta(r, i)->dtype;
        if (dtype != CR_F32 && dtype != CR_F16 && dtype != CR_BF16)
            return CR_FAIL(CR_ERUNTIME, "%s: '%s' must be float32, float16 or bfloat16, not %s", r->op->schema.name,
                           r->op->schema.params[i].name, cr_dtype_aten(dtype));
    }
    if (offs && offs->dtype != CR_I32)
        return CR_FAIL(CR_ERUNTIME, "%s: offs must be int32, not %s; convert it with .to(torch.int32)",
                       r->op->schema.name, cr_dtype_aten(offs->dtype));
    if (cr_rule_has(r, 3))
        return CR_FAIL(CR_ERUNTIME, "%s: bias is not supported (nor by PyTorch); add it to the result",
                       r->op->schema.name);
    CR_TRY(dtype_same(r));
    if (cr_rule_has(r, 4) && r->arg[4].u.i != r->result)
        return CR_FAIL(CR_ERUNTIME, "%s: out_dtype must be the operands' dtype; convert the result with .to(dtype)",
                       r->op->schema.name);
    return CR_OK;
}

/* self broadcasts to the product. */
static cr_status require_broadcastable(cr_rule *r) {
    const cr_meta *self = cr_rule_meta(r, 0), *out = &r->out[0].meta;
    cr_dim size[CR_MAX_RANK];
    int rank = out->rank;
    memcpy(size, out->size, (size_t)rank * sizeof *size);
    CR_TRY(cr_broadcast(r->env, &rank, size, self->rank, self->size));
    if (rank != out->rank)
        return CR_FAIL(CR_ERUNTIME, "%s: 'self' has more dimensions than the product", r->op->schema.name);
    for (int d = 0; d < rank; d++)
        CR_TRY(
            cr_dim_require(r->env, size[d], CR_EQ, out->size[d], "'self' must broadcast to the shape of the product"));
    return CR_OK;
}

cr_status shape_addmm(cr_rule *r) {
    CR_TRY(product(r, 1, 2, 0));
    return require_broadcastable(r);
}
cr_status shape_baddbmm(cr_rule *r) {
    CR_TRY(product(r, 1, 2, 1));
    return require_broadcastable(r);
}

cr_status shape_mv(cr_rule *r) {
    CR_TRY(require_rank(r, 0, 2));
    CR_TRY(require_rank(r, 1, 1));
    CR_TRY(require_inner(r, cr_rule_meta(r, 0)->size[1], cr_rule_meta(r, 1)->size[0]));
    return cr_rule_add_dense(r, r->result, 1, cr_rule_meta(r, 0)->size);
}

cr_status shape_addmv(cr_rule *r) {
    CR_TRY(require_rank(r, 1, 2));
    CR_TRY(require_rank(r, 2, 1));
    CR_TRY(require_inner(r, cr_rule_meta(r, 1)->size[1], cr_rule_meta(r, 2)->size[0]));
    CR_TRY(cr_rule_add_dense(r, r->result, 1, cr_rule_meta(r, 1)->size));
    return require_broadcastable(r);
}

cr_status shape_dot(cr_rule *r) {
    CR_TRY(require_rank(r, 0, 1));
    CR_TRY(require_rank(r, 1, 1));
    CR_TRY(require_inner(r, cr_rule_meta(r, 0)->size[0], cr_rule_meta(r, 1)->size[0]));
    return cr_rule_add_dense(r, r->result, 0, NULL);
}

cr_status shape_linear(cr_rule *r) { /* input, weight, bias */
    const cr_meta *x = cr_rule_meta(r, 0), *w = cr_rule_meta(r, 1), *b = cr_rule_meta(r, 2);
    cr_dim size[CR_MAX_RANK];
    if (w->rank != 1 && w->rank != 2)
        return CR_FAIL(CR_ERUNTIME, "%s: weight must have one or two dimensions, not %d", r->op->schema.name, w->rank);
    if (!x->rank) return CR_FAIL(CR_ERUNTIME, "%s: the input must have at least one dimension", r->op->schema.name);
    CR_TRY(require_inner(r, x->size[x->rank - 1], w->size[w->rank - 1]));
    int rank = x->rank - 1;
    memcpy(size, x->size, (size_t)rank * sizeof *size);
    if (w->rank == 2) size[rank++] = w->size[0];
    if (b && b->rank == 1 && w->rank == 2) {
        bool one;
        CR_TRY(cr_dim_repeats(r->env, b->size[0], w->size[0], &one));
        if (!one)
            CR_TRY(cr_dim_require(r->env, b->size[0], CR_EQ, w->size[0],
                                  "linear: bias must have as many elements as weight has rows"));
    } else if (b && b->rank > 1) {
        return CR_FAIL(CR_ERUNTIME, "%s: bias must be a vector, it has %d dimensions", r->op->schema.name, b->rank);
    }
    return cr_rule_add_dense(r, r->result, rank, size);
}

cr_status check_trilinear(cr_rule *r) { /* i1, i2, i3, expand1, expand2, expand3, sumdim, unroll_dim */
    int rank = cr_rule_meta(r, 0)->rank + (int)r->arg[3].n;
    CR_TRY(dtype_product(r));
    for (int i = 0; i < 3; i++) {
        int own = cr_rule_meta(r, i)->rank + (int)r->arg[3 + i].n;
        uint32_t mask;
        CR_TRY(cr_rule_dims(r, 3 + i, own, false, &mask));
        if (own > CR_MAX_RANK || own != rank)
            return CR_FAIL(CR_EINDEX,
                           "_trilinear: the operands must have the same number of dimensions once expanded, got %d and "
                           "%d",
                           rank, own);
    }
    int64_t unroll = r->arg[7].u.i;
    if (unroll < 0 || unroll >= rank)
        return CR_FAIL(CR_ERUNTIME, "_trilinear: unroll_dim must be in [0, %d], got %lld", rank - 1, (long long)unroll);
    return CR_OK;
}

cr_status check_bilinear(cr_rule *r) { /* input1, input2, weight, bias */
    const cr_meta *x = cr_rule_meta(r, 0), *y = cr_rule_meta(r, 1), *w = cr_rule_meta(r, 2), *b = cr_rule_meta(r, 3);
    if (x->rank != y->rank || !x->rank)
        return CR_FAIL(CR_ERUNTIME,
                       "bilinear: the inputs must have the same number of dimensions, at least one, got %d and %d",
                       x->rank, y->rank);
    if (w->rank != 3)
        return CR_FAIL(CR_ERUNTIME, "bilinear: the weight must have 3 dimensions (result, first, second input), got %d",
                       w->rank);
    for (int d = 0; d + 1 < x->rank; d++)
        CR_TRY(cr_dim_require(r->env, x->size[d], CR_EQ, y->size[d],
                              "bilinear: the inputs must have the same batch sizes"));
    CR_TRY(cr_dim_require(r->env, x->size[x->rank - 1], CR_EQ, w->size[1],
                          "bilinear: the last size of input1 must be the weight's second"));
    CR_TRY(cr_dim_require(r->env, y->size[y->rank - 1], CR_EQ, w->size[2],
                          "bilinear: the last size of input2 must be the weight's third"));
    if (b && b->rank)
        CR_TRY(cr_dim_require(r->env, b->size[0], CR_EQ, w->size[0],
                              "bilinear: bias must have as many elements as there are results"));
    return dtype_same(r);
}
