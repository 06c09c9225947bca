/* rules_conv.c: results of convolutions and attention. */
#include "ops/rules.h"

#include <stdio.h>

typedef struct conv {
    cr_dim stride[CR_MAX_RANK], padding[CR_MAX_RANK], dilation[CR_MAX_RANK], output_padding[CR_MAX_RANK], groups;
    bool transposed;
    int spatial;
} conv;

/* `at`: position of the stride argument; padding, dilation, transposed, output_padding and groups follow. */
static cr_status read_conv(cr_rule *r, const cr_meta *x, const cr_meta *w, int at, conv *c) {
    c->spatial = w->rank - 2;
    if (c->spatial < 1 || c->spatial > 3 || x->rank != w->rank)
        return CR_FAIL(CR_ERUNTIME, "%s: expected input and weight of equal rank from 3 to 5, got %d and %d",
                       r->op->schema.name, x->rank, w->rank);
    CR_TRY(cr_rule_ints(r, at, c->spatial, CR_MAX_RANK, c->stride, NULL));
    CR_TRY(cr_rule_ints(r, at + 1, c->spatial, CR_MAX_RANK, c->padding, NULL));
    CR_TRY(cr_rule_ints(r, at + 2, c->spatial, CR_MAX_RANK, c->dilation, NULL));
    c->transposed = cr_rule_bool(r, at + 3);
    CR_TRY(cr_rule_ints(r, at + 4, c->spatial, CR_MAX_RANK, c->output_padding, NULL));
    c->groups = cr_rule_int(r, at + 5);
    for (int i = 0; i < c->spatial; i++) {
        cr_dim most = cr_dim_max(r->env, c->stride[i], cr_dim_max(r->env, c->padding[i], c->dilation[i]));
        if (cr_dim_known(r->env, most, CR_GT, INT32_MAX) == CR_YES) /* kernels multiply them with sizes */
            return CR_FAIL(CR_ERUNTIME, "%s: stride, padding and dilation must be less than 2^31", r->op->schema.name);
        CR_TRY(cr_dim_require(r->env, c->stride[i], CR_GT, 0, "convolution: stride must be positive"));
        CR_TRY(cr_dim_require(r->env, c->dilation[i], CR_GT, 0, "convolution: dilation must be positive"));
        CR_TRY(cr_dim_require(r->env, c->padding[i], CR_GE, 0, "convolution: padding must not be negative"));
    }
    CR_TRY(cr_dim_require(r->env, c->groups, CR_GT, 0, "convolution: groups must be positive"));
    cr_dim channels = c->transposed ? w->size[0] : cr_dim_mul(r->env, w->size[1], c->groups);
    CR_TRY(cr_dim_require(r->env, x->size[1], CR_EQ, channels,
                          "convolution: the input's channels must match weight's (times groups)"));
    return cr_dim_require(r->env, cr_dim_mod(r->env, w->size[0], c->groups), CR_EQ, 0,
                          "convolution: weight's first size must be divisible by groups");
}

static cr_status conv_sizes(cr_rule *r, const cr_meta *x, const cr_meta *w, const conv *c, cr_dim *size) {
    cr_env *env = r->env;
    size[0] = x->size[0];
    size[1] = c->transposed ? cr_dim_mul(env, w->size[1], c->groups) : w->size[0];
    for (int i = 0; i < c->spatial; i++) {
        cr_dim n = x->size[2 + i], k = w->size[2 + i], pads = cr_dim_mul(env, 2, c->padding[i]);
        /* of the dilated kernel */
        cr_dim span = cr_dim_add(env, cr_dim_mul(env, c->dilation[i], cr_dim_sub(env, k, 1)), 1);
        if (c->transposed) {
            cr_dim full = cr_dim_add(env, cr_dim_mul(env, cr_dim_sub(env, n, 1), c->stride[i]), span);
            size[2 + i] = cr_dim_add(env, cr_dim_sub(env, full, pads), c->output_padding[i]);
            CR_TRY(cr_dim_require(env, size[2 + i], CR_GE, 0, "convolution: the result would have a negative size"));
        } else {
            cr_dim room = cr_dim_sub(env, cr_dim_add(env, n, pads), span);
            CR_TRY(cr_dim_require(env, room, CR_GE, 0,
                                  "convolution: the kernel must not be larger than the padded input"));
            size[2 + i] = cr_dim_add(env, cr_dim_floordiv(env, room, c->stride[i]), 1);
        }
    }
    return CR_OK;
}

/* One spatial dimension is seen as an image of height 1, as PyTorch does. */
static cr_memory_format suggest(cr_env *env, const cr_meta *m) {
    if (m->rank != 3) return cr_meta_suggest_format(env, m);
    cr_meta image;
    cr_meta_copy(&image, m);
    image.rank = 4;
    image.size[3] = m->size[2];
    image.stride[3] = m->stride[2];
    image.size[2] = 1;
    image.stride[2] = cr_dim_mul(env, m->size[2], m->stride[2]);
    return cr_meta_suggest_format(env, &image);
}

/* Channels-last as soon as input or weight is; in one dimension the weight alone, because PyTorch makes the input
 * contiguous; in three only where PyTorch's kernels keep it: for bf16, and for f32 unless the batch is a single image
 * in one group. */
static cr_memory_format conv_format(cr_env *env, const cr_meta *x, const cr_meta *w, const conv *c) {
    if (x->rank == 5 && x->dtype != CR_BF16) {
        if (c->transposed || x->dtype != CR_F32) return CR_CONTIGUOUS;
        if (cr_dim_known(env, c->groups, CR_EQ, 1) == CR_YES && cr_dim_known(env, x->size[0], CR_EQ, 1) == CR_YES)
            return CR_CONTIGUOUS;
    }
    cr_memory_format a = x->rank == 3 ? CR_CONTIGUOUS : suggest(env, x), b = suggest(env, w);
    return a != CR_CONTIGUOUS ? a : b;
}

static cr_status add_formatted(cr_rule *r, int rank, const cr_dim *size, cr_memory_format format) {
    cr_out *out = cr_rule_add(r);
    if (!out) return CR_ENOMEM;
    if (rank != 3 || format != CR_CHANNELS_LAST)
        return cr_meta_set_dense(r->env, &out->meta, rank, size, rank == 1 ? CR_CONTIGUOUS : format);
    CR_TRY(cr_meta_set_dense(r->env, &out->meta, rank, size, CR_CONTIGUOUS));
    cr_strides_permuted(r->env, rank, size, (const int[]){ 0, 2, 1 }, out->meta.stride);
    return CR_OK;
}

/* PyTorch's dilated and transposed kernels know one kind of integers. */
static cr_status check_integers(const cr_rule *r, const cr_meta *x, const conv *c) {
    bool plain = !c->transposed;
    for (int i = 0; plain && i < c->spatial; i++) plain = cr_dim_known(r->env, c->dilation[i], CR_EQ, 1) == CR_YES;
    bool other = x->dtype == CR_U8 || x->dtype == CR_I8 || x->dtype == CR_I16 || x->dtype == CR_I32;
    if (plain || !other || cr_dim_known(r->env, cr_meta_numel(r->env, x), CR_EQ, 0) == CR_YES) return CR_OK;
    return CR_FAIL(CR_ENOTIMPL,
                   "%s: dilated and transposed convolution of integers takes int64, not %s; convert with .to(dtype) "
                   "first",
                   r->op->schema.name, cr_dtype_name(x->dtype));
}

/* input, weight, bias, stride, padding, dilation, transposed, output_padding, groups */
cr_status shape_convolution(cr_rule *r) {
    const cr_meta *x = cr_rule_meta(r, 0), *w = cr_rule_meta(r, 1), *b = cr_rule_meta(r, 2);
    cr_dim size[CR_MAX_RANK];
    conv c;
    CR_TRY(read_conv(r, x, w, 3, &c));
    CR_TRY(conv_sizes(r, x, w, &c, size));
    if (b) {
        if (b->rank != 1)
            return CR_FAIL(CR_ERUNTIME, "%s: bias must be a vector, it has %d dimensions", r->op->schema.name, b->rank);
        CR_TRY(cr_dim_require(r->env, b->size[0], CR_EQ, size[1],
                              "convolution: bias must have one element an output channel"));
    }
    CR_TRY(check_integers(r, x, &c));
    return add_formatted(r, x->rank, size, conv_format(r->env, x, w, &c));
}

/* grad_output, input, weight, bias_sizes, stride, ..., groups, output_mask */
cr_status shape_convolution_backward(cr_rule *r) {
    const cr_meta *g = cr_rule_meta(r, 0), *x = cr_rule_meta(r, 1), *w = cr_rule_meta(r, 2);
    const cr_arg *mask = &r->arg[10];
    cr_dim size[CR_MAX_RANK];
    conv c;
    CR_TRY(read_conv(r, x, w, 4, &c));
    CR_TRY(conv_sizes(r, x, w, &c, size));
    if (g->rank != x->rank)
        return CR_FAIL(CR_ERUNTIME, "%s: grad_output has %d dimensions, the input %d", r->op->schema.name, g->rank,
                       x->rank);
    for (int d = 0; d < g->rank; d++)
        CR_TRY(cr_dim_require(r->env, g->size[d], CR_EQ, size[d],
                              "grad_output must have the shape of the convolution's result"));
    bool floats = cr_dtype_is_floating(x->dtype) || cr_dtype_is_complex(x->dtype);
    bool dilated = false; /* PyTorch's one kernel for the gradient of integers */
    for (int i = 0; i < c.spatial; i++) dilated |= cr_dim_known(r->env, c.dilation[i], CR_EQ, 1) != CR_YES;
    if (!floats && (c.transposed || !dilated) && cr_dim_known(r->env, cr_meta_numel(r->env, x), CR_EQ, 0) != CR_YES)
        return CR_FAIL(CR_ENOTIMPL, "%s: implemented for integers only if dilated and not transposed",
                       r->op->schema.name);
    cr_memory_format format = conv_format(r->env, x, w, &c);
    CR_TRY(add_formatted(r, x->rank, x->size, format));
    CR_TRY(add_formatted(r, w->rank, w->size, format));
    cr_dim channels = size[1];
    CR_TRY(add_formatted(r, 1, &channels, CR_CONTIGUOUS));
    for (int i = 0; i < 3; i++) r->out[i].none = !mask->u.list[i].u.i;
    return CR_OK;
}

/* ---- attention: (..., L, E), (..., S, E), (..., S, Ev) ---- */

/* The mask broadcasts to (..., L, S); the kernel reads it by the scores' indices. */
static cr_status require_mask(cr_rule *r, int i, int rank, const cr_dim *size) {
    const cr_meta *mask = cr_rule_meta(r, i);
    if (!mask) return CR_OK;
    CR_TRY(cr_rule_require_rank(r, i, 0, rank));
    for (int d = 0; d < mask->rank; d++) {
        bool one;
        cr_dim want = size[rank - mask->rank + d];
        if (cr_dim_known(r->env, mask->size[d], CR_EQ, want) == CR_YES) continue;
        CR_TRY(cr_dim_repeats(r->env, mask->size[d], want, &one));
        if (!one)
            CR_TRY(cr_dim_require(r->env, mask->size[d], CR_EQ, want,
                                  "attention: attn_mask must broadcast to the scores"));
    }
    return CR_OK;
}

/* enable_gqa: groups of query heads share a head of the keys and one of the values; the dimensions before are
 * repeated. */
static cr_status require_groups(cr_rule *r, int i, int rank, const cr_dim *size) {
    const cr_meta *m = cr_rule_meta(r, i);
    CR_TRY(cr_rule_require_rank(r, i, 3, rank + 2));
    for (int d = 0; d < m->rank - 2; d++) {
        bool one = false;
        cr_dim want = size[rank + 2 - m->rank + d];
        if (cr_dim_known(r->env, m->size[d], CR_EQ, want) == CR_YES) continue;
        if (d == m->rank - 3) {
            CR_TRY(cr_dim_require(r->env, m->size[d], CR_GT, 0, "attention: heads of key and value"));
            CR_TRY(cr_dim_require(r->env, cr_dim_mod(r->env, want, m->size[d]), CR_EQ, 0,
                                  "attention: heads of key and value must divide those of query"));
            continue;
        }
        CR_TRY(cr_dim_repeats(r->env, m->size[d], want, &one));
        if (!one) CR_TRY(cr_dim_require(r->env, m->size[d], CR_EQ, want, "attention: batch of query, key and value"));
    }
    return CR_OK;
}

cr_status shape_sdpa(cr_rule *r) { /* query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa */
    const cr_meta *q = cr_rule_meta(r, 0), *k = cr_rule_meta(r, 1), *v = cr_rule_meta(r, 2), *mask = cr_rule_meta(r, 3);
    const char *name = r->op->schema.name;
    if (q->rank < 2 || k->rank < 2 || v->rank < 2)
        return CR_FAIL(CR_ERUNTIME, "%s: query, key and value need at least two dimensions", name);
    if (q->dtype != k->dtype || q->dtype != v->dtype)
        return CR_FAIL(CR_ERUNTIME, "%s: query, key and value must have one dtype, got %s, %s and %s", name,
                       cr_dtype_aten(q->dtype), cr_dtype_aten(k->dtype), cr_dtype_aten(v->dtype));
    if (!cr_dtype_is_floating(q->dtype) && !cr_dtype_is_complex(q->dtype))
        return CR_FAIL(CR_ERUNTIME, "%s: query, key and value must be floating-point tensors, not %s", name,
                       cr_dtype_aten(q->dtype));
    if (mask && mask->dtype != CR_BOOL && mask->dtype != q->dtype && mask->dtype != CR_F32)
        return CR_FAIL(CR_ERUNTIME, "%s: attn_mask must be bool, float32 or query's dtype, not %s", name,
                       cr_dtype_aten(mask->dtype));
    CR_TRY(cr_dim_require(r->env, q->size[q->rank - 1], CR_EQ, k->size[k->rank - 1],
                          "attention: query and key must have the same last size"));
    CR_TRY(cr_dim_require(r->env, k->size[k->rank - 2], CR_EQ, v->size[v->rank - 2],
                          "attention: key and value must have the same length"));
    cr_dim size[CR_MAX_RANK];
    int rank = q->rank - 2;
    memcpy(size, q->size, (size_t)rank * sizeof *size);
    if (cr_rule_bool(r, 7)) {
        CR_TRY(require_groups(r, 1, rank, size));
        CR_TRY(require_groups(r, 2, rank, size));
    } else { /* batch dimensions broadcast */
        CR_TRY(cr_broadcast(r->env, &rank, size, k->rank - 2, k->size));
        CR_TRY(cr_broadcast(r->env, &rank, size, v->rank - 2, v->size));
    }
    size[rank] = q->size[q->rank - 2];
    size[rank + 1] = k->size[k->rank - 2];
    CR_TRY(require_mask(r, 3, rank + 2, size));
    size[rank + 1] = v->size[v->rank - 1];
    cr_out *out = cr_rule_add(r);
    if (!out) return CR_ENOMEM;
    CR_TRY(cr_meta_set_dense(r->env, &out->meta, rank + 2, size, CR_CONTIGUOUS));
    bool blocked = rank + 2 == q->rank && rank == 2; /* PyTorch's blocked kernel: writes in query's layout ... */
    const cr_meta *operands[] = { q, k, v };
    for (int i = 0; i < 3; i++)
        blocked = blocked && cr_dim_known(r->env, operands[i]->stride[operands[i]->rank - 1], CR_EQ, 1) == CR_YES;
    for (int d = 0; blocked && d < q->rank; d++) blocked = cr_dim_known(r->env, size[d], CR_EQ, q->size[d]) == CR_YES;
    if (blocked && r->arg[4].u.f == 0) cr_layout_like(r->env, q, &out->meta);
    blocked = blocked && r->arg[4].u.f == 0 && !cr_rule_bool(r, 7); /* ... and alone takes a mask that is causal, too */
    if (mask && cr_rule_bool(r, 5) && !blocked)
        return CR_FAIL(CR_ERUNTIME,
                       "%s: attn_mask and is_causal exclude each other here (dropout, shared heads, other than four "
                       "dimensions, or a strided last one)",
                       name);
    return CR_OK;
}

static cr_status check_flash(cr_rule *r, const cr_meta *q, const cr_meta *k, const cr_meta *v, int dropout) {
    const char *name = r->op->schema.name;
    if (q->rank != 4 || k->rank != 4 || v->rank != 4)
        return CR_FAIL(CR_ERUNTIME, "%s: query, key and value must have four dimensions (batch, heads, length, width)",
                       name);
    if (r->arg[dropout].u.f > 0)
        return CR_FAIL(CR_ERUNTIME, "%s: dropout is not supported here; use scaled_dot_product_attention", name);
    if (q->dtype != k->dtype || q->dtype != v->dtype)
        return CR_FAIL(CR_ERUNTIME, "%s: query, key and value must have one dtype", name);
    for (int d = 0; d < 2; d++) {
        CR_TRY(cr_dim_require(r->env, k->size[d], CR_EQ, q->size[d],
                              "attention: query and key must have the same batch and heads"));
        CR_TRY(cr_dim_require(r->env, v->size[d], CR_EQ, q->size[d],
                              "attention: query and value must have the same batch and heads"));
    }
    CR_TRY(cr_dim_require(r->env, q->size[3], CR_EQ, v->size[3],
                          "attention: query and value must have the same last size"));
    CR_TRY(
        cr_dim_require(r->env, q->size[3], CR_EQ, k->size[3], "attention: query and key must have the same last size"));
    return cr_dim_require(r->env, k->size[2], CR_EQ, v->size[2], "attention: key and value must have the same length");
}

cr_status shape_flash(cr_rule *r) { /* query, key, value, dropout_p, is_causal, attn_mask, scale -> output, logsumexp */
    const cr_meta *q = cr_rule_meta(r, 0);
    CR_TRY(check_flash(r, q, cr_rule_meta(r, 1), cr_rule_meta(r, 2), 3));
    CR_TRY(require_mask(r, 5, 4, (cr_dim[]){ q->size[0], q->size[1], q->size[2], cr_rule_meta(r, 1)->size[2] }));
    CR_TRY(shape_like(r));
    CR_TRY(cr_rule_add_dense(r, q->dtype == CR_F64 ? CR_F64 : CR_F32, 3, q->size));
    /* stored by (batch, length, heads) */
    cr_strides_permuted(r->env, 3, q->size, (const int[]){ 0, 2, 1 }, r->out[1].meta.stride);
    return CR_OK;
}

/* grad_out, query, key, value, out, logsumexp, dropout_p, ... -> one gradient each */
cr_status shape_flash_backward(cr_rule *r) {
    CR_TRY(check_flash(r, cr_rule_meta(r, 1), cr_rule_meta(r, 2), cr_rule_meta(r, 3), 6));
    for (int i = 1; i < 4; i++) {
        const cr_meta *m = cr_rule_meta(r, i);
        CR_TRY(cr_rule_add_dense(r, m->dtype, 4, m->size));
        cr_strides_permuted(r->env, 4, m->size, (const int[]){ 0, 2, 1, 3 }, r->out[i - 1].meta.stride);
    }
    return CR_OK;
}

/* x [time, batch, in], weight [taps, in, out], bias [out] */
static cr_status check_tbc(cr_rule *r, int x, int weight) {
    const int rank[] = { 3, 3, 1 }, at[] = { x, weight, weight + 1 };
    for (int i = 0; i < 3; i++)
        if (cr_rule_meta(r, at[i])->rank != rank[i])
            return CR_FAIL(CR_ERUNTIME, "%s: '%s' must have %d dimension%s, not %d", r->op->schema.name,
                           r->op->schema.params[at[i]].name, rank[i], rank[i] == 1 ? "" : "s",
                           cr_rule_meta(r, at[i])->rank);
    const cr_meta *w = cr_rule_meta(r, weight);
    CR_TRY(cr_dim_require(r->env, cr_rule_meta(r, x)->size[2], CR_EQ, w->size[1],
                          "conv_tbc: the last size of the input must be the weight's channels in"));
    CR_TRY(cr_dim_require(r->env, cr_rule_meta(r, weight + 1)->size[0], CR_EQ, w->size[2],
                          "conv_tbc: bias must have a number for each of the weight's channels out"));
    CR_TRY(cr_dim_require(r->env, w->size[0], CR_GE, 1, "conv_tbc: the weight must have a tap"));
    return dtype_same(r);
}
cr_status check_conv_tbc(cr_rule *r) { return check_tbc(r, 0, 1); } /* self, weight, bias, pad */
cr_status check_conv_tbc_backward(cr_rule *r) {                     /* self (the gradient), input, weight, bias, pad */
    if (cr_rule_meta(r, 0)->rank != 3)
        return CR_FAIL(CR_ERUNTIME, "conv_tbc_backward: 'self' must have 3 dimensions, not %d",
                       cr_rule_meta(r, 0)->rank);
    return check_tbc(r, 1, 2);
}
