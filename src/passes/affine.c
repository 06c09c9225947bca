/* affine.c: what scales and shifts the channels of a convolution or linear with constant weights becomes part of them.
 *
 *     batch_norm(conv(x, w, b)) = conv(x, w * s, (b - mean) * s + beta)     s = gamma / sqrt(var + eps)
 *     conv(x, w, b) * c         = conv(x, w * c, b * c)                     c one number, or one for each channel
 *     conv(x, w, b) + c         = conv(x, w, b + c)
 *
 * Computed in f64 and rounded once, so that the result is as near to the exact one as what it replaces. Only where
 * nobody else uses the product, and where all numbers are finite. */
#include "passes/internal.h"

#include <math.h>

/* y = x * scale[c] + shift[c] after a product with `channels` output channels. */
typedef struct affine {
    cr_rewriter *w;
    const cr_node *product; /* convolution or linear, of the new graph */
    cr_tensor *weight, *bias;
    int64_t channels, groups;
    bool transposed;
    double *scale, *shift;  /* graph memory */
} affine;

static bool is_float(const cr_tensor *t) { return t->meta.dtype == CR_F32 || t->meta.dtype == CR_F64; }

static bool is_linear(const cr_op *op) { return cr_op_facts(op)->product.transposed; }

/* The product whose channels are dimension `axis` of the value (-1: the last), if its weights may change. */
static bool find_product(affine *a, const cr_arg *value, bool last) {
    const cr_node *node = cr_rewrite_producer(a->w, value, NULL);
    if (!node || !cr_rewrite_single(a->w, value)) return false;
    bool conv = cr_op_facts(node->op)->role == CR_ROLE_CONVOLUTION;
    if (!conv && !is_linear(node->op)) return false;
    const cr_meta *meta = cr_rewrite_meta(a->w, value);
    /* channels are dimension 1 of a convolution, the last of a linear */
    if (conv == last && meta->rank != 2) return false;
    a->product = node;
    a->weight = cr_rewrite_constant(a->w, &node->args[1]);
    a->bias = cr_rewrite_constant(a->w, &node->args[2]);
    if (!a->weight || !is_float(a->weight) || (node->args[2].kind != CR_ARG_NONE && !a->bias)) return false;
    if (a->weight->meta.dtype != meta->dtype || a->weight->meta.rank < 2 || (a->bias && !is_float(a->bias)))
        return false;
    a->groups = 1;
    if (conv) {
        if (node->args[6].kind != CR_ARG_BOOL || node->args[8].kind != CR_ARG_INT ||
            !cr_dim_is_plain(node->args[8].u.i))
            return false;
        a->transposed = node->args[6].u.i != 0;
        a->groups = node->args[8].u.i;
    }
    if (a->groups < 1 || a->weight->meta.size[0] % a->groups) return false;
    a->channels = a->transposed ? a->weight->meta.size[1] * a->groups : a->weight->meta.size[0];
    if (a->bias && (a->bias->meta.rank != 1 || a->bias->meta.size[0] != a->channels)) return false;
    return a->channels > 0;
}

static cr_status make_room(affine *a) {
    a->scale = cr_graph_alloc(cr_rewrite_graph(a->w), (size_t)a->channels * sizeof *a->scale);
    a->shift = cr_graph_alloc(cr_rewrite_graph(a->w), (size_t)a->channels * sizeof *a->shift);
    if (!a->scale || !a->shift) return CR_ENOMEM;
    for (int64_t c = 0; c < a->channels; c++) a->scale[c] = 1, a->shift[c] = 0;
    return CR_OK;
}

/* Element c of a vector of one number per channel. */
static double element(const cr_tensor *t, int64_t c, double otherwise) {
    rt_scalar s = { .kind = RT_ARG_FLOAT, .f = otherwise };
    if (t && cr_tensor_item(t, &c, &s)) return NAN;
    return s.kind == RT_ARG_FLOAT ? s.f : NAN;
}

static bool all_finite(const affine *a) {
    for (int64_t c = 0; c < a->channels; c++)
        if (!isfinite(a->scale[c]) || !isfinite(a->shift[c])) return false;
    return true;
}

/* ---- new weights ---- */

static void scale_f32(const float *from, float *to, int64_t n, double s) {
    for (int64_t i = 0; i < n; i++) to[i] = (float)(from[i] * s);
}
static void scale_f64(const double *from, double *to, int64_t n, double s) {
    for (int64_t i = 0; i < n; i++) to[i] = from[i] * s;
}

static cr_status scaled_weight(const affine *a, cr_tensor **out) {
    cr_arg dense = cr_arg_none(),
           args[] = { cr_arg_tensor(a->weight), { .kind = CR_ARG_FORMAT, .given = 2, .u.i = CR_CONTIGUOUS } };
    CR_TRY(cr__evaluate(cr_op_find("aten::contiguous"), args, &dense));
    const cr_meta *m = &dense.u.t->meta;
    cr_status status = cr_tensor_create(m, out);
    if (!status) {
        rt_view from = cr_tensor_view(dense.u.t), to = cr_tensor_view(*out);
        int64_t inner = 1, n1 = a->transposed ? m->size[1] : 1;
        for (int d = a->transposed ? 2 : 1; d < m->rank; d++) inner *= m->size[d];
        for (int64_t i = 0; i < m->size[0]; i++)
            for (int64_t j = 0; j < n1; j++) {
                int64_t c = a->transposed ? i / (m->size[0] / a->groups) * n1 + j : i, at = (i * n1 + j) * inner;
                if (m->dtype == CR_F32) scale_f32((const float *)from.p + at, (float *)to.p + at, inner, a->scale[c]);
                else scale_f64((const double *)from.p + at, (double *)to.p + at, inner, a->scale[c]);
            }
    }
    cr_results_release(&dense, 1);
    return status;
}

static cr_status shifted_bias(const affine *a, cr_tensor **out) {
    cr_meta meta;
    cr_meta_init(&meta, a->weight->meta.dtype, a->weight->meta.device);
    cr_dim size = a->channels;
    CR_TRY(cr_meta_set_dense(NULL, &meta, 1, &size, CR_CONTIGUOUS));
    CR_TRY(cr_tensor_create(&meta, out));
    rt_view to = cr_tensor_view(*out);
    for (int64_t c = 0; c < a->channels; c++) {
        double b = element(a->bias, c, 0) * a->scale[c] + a->shift[c];
        if (meta.dtype == CR_F32) ((float *)to.p)[c] = (float)b;
        else ((double *)to.p)[c] = b;
    }
    return CR_OK;
}

static const char *constant_name(const affine *a, const cr_arg *arg, const char *otherwise) {
    const cr_graph *g = cr_rewrite_graph(a->w);
    return arg->kind == CR_ARG_VALUE ? cr_graph_node(g, cr_graph_value(g, (uint32_t)arg->u.i)->node)->target
                                     : otherwise;
}

/* The product again, with weights that do what came after it. Whether it has a bias does not depend on numbers. */
static cr_status rewrite_product(affine *a, const cr_node *node, bool scales, bool shifts) {
    cr_arg args[CR_MAX_PARAMS], results[4] = { { 0 } };
    cr_tensor *weight = NULL, *bias = NULL;
    cr_status status = CR_OK;
    for (uint16_t i = 0; i < a->product->nargs; i++) args[i] = a->product->args[i];
    const cr_op *op = a->product->op;
    if (scales) {
        CR_TRY_OUT(scaled_weight(a, &weight));
        CR_TRY_OUT(cr_rewrite_add_constant(a->w, constant_name(a, &args[1], "weight"), weight, &args[1]));
    }
    if (shifts || a->bias) {
        CR_TRY_OUT(shifted_bias(a, &bias));
        CR_TRY_OUT(cr_rewrite_add_constant(a->w, constant_name(a, &args[2], "bias"), bias, &args[2]));
    }
    args[2].given = CR_GIVEN_POSITIONAL;
    CR_TRY_OUT(cr_rewrite_op(a->w, op, args, results));
    CR_TRY_OUT(cr_rewrite_result(a->w, node, 0, results[0]));
out:
    cr_tensor_release(weight);
    cr_tensor_release(bias);
    return status;
}

/* ---- what comes after ---- */

static bool per_channel(const affine *a, const cr_tensor *t) {
    return t && is_float(t) && t->meta.rank == 1 && t->meta.size[0] == a->channels;
}

static cr_status batch_norm(affine *a, const cr_node *node, const cr_arg *args, bool *done) {
    if (cr_rewrite_used(a->w, node, 1) || cr_rewrite_used(a->w, node, 2) || !find_product(a, &args[0], false))
        return CR_OK;
    cr_tensor *at[4];
    for (int i = 0; i < 4; i++) {
        at[i] = cr_rewrite_constant(a->w, &args[1 + i]);
        if (i < 2 && args[1 + i].kind == CR_ARG_NONE) continue;
        if (!per_channel(a, at[i])) return CR_OK;
    }
    if (args[6].kind != CR_ARG_FLOAT || !cr_rewrite_single(a->w, &a->product->args[1])) return CR_OK;
    CR_TRY(make_room(a));
    for (int64_t c = 0; c < a->channels; c++) {
        a->scale[c] = element(at[0], c, 1) / sqrt(element(at[3], c, 1) + args[6].u.f);
        a->shift[c] = element(at[1], c, 0) - element(at[2], c, 0) * a->scale[c];
    }
    if (!all_finite(a)) return CR_OK;
    *done = true;
    return rewrite_product(a, node, true, true);
}

/* A number, or a constant that differs between channels only, as one number per channel. */
static bool read_channels(const affine *a, const cr_arg *arg, int rank, int axis, double *out) {
    const cr_tensor *t = cr_rewrite_constant(a->w, arg);
    rt_scalar s;
    int64_t index[CR_MAX_RANK] = { 0 };
    if (arg->kind == CR_ARG_FLOAT || arg->kind == CR_ARG_INT) {
        if (arg->kind == CR_ARG_INT && !cr_dim_is_plain(arg->u.i)) return false;
        for (int64_t c = 0; c < a->channels; c++) out[c] = arg->kind == CR_ARG_FLOAT ? arg->u.f : (double)arg->u.i;
        return true;
    }
    if (!t || !is_float(t) || t->meta.rank > rank) return false;
    int at = axis - (rank - t->meta.rank); /* dimensions are matched from the right */
    for (int d = 0; d < t->meta.rank; d++)
        if (t->meta.size[d] != 1 && (d != at || t->meta.size[d] != a->channels)) return false;
    for (int64_t c = 0; c < a->channels; c++) {
        if (at >= 0 && t->meta.size[at] != 1) index[at] = c;
        if (cr_tensor_item(t, index, &s) || s.kind != RT_ARG_FLOAT) return false;
        out[c] = s.f;
    }
    return true;
}

static cr_status scale_or_shift(affine *a, const cr_node *node, const cr_arg *args, bool *done) {
    bool scale = cr_op_facts(node->op)->role == CR_ROLE_MUL;
    if (!scale && !(args[2].kind == CR_ARG_INT && args[2].u.i == 1)) return CR_OK; /* add with alpha */
    const cr_meta *result = cr_graph_value(cr_rewrite_source(a->w), node->first)->meta;
    for (int i = 0; i < 2 && !*done; i++) {
        const cr_meta *meta = cr_rewrite_meta(a->w, &args[i]);
        if (!meta || !result || meta->rank != result->rank || meta->dtype != result->dtype) continue;
        const cr_node *made = cr_rewrite_producer(a->w, &args[i], NULL);
        bool linear = made && is_linear(made->op);
        /* tied weights stay one */
        if (!find_product(a, &args[i], linear) || (scale && !cr_rewrite_single(a->w, &a->product->args[1]))) continue;
        CR_TRY(make_room(a));
        if (!read_channels(a, &args[1 - i], meta->rank, linear ? meta->rank - 1 : 1, scale ? a->scale : a->shift) ||
            !all_finite(a))
            continue;
        *done = true;
        CR_TRY(rewrite_product(a, node, scale, !scale));
    }
    return CR_OK;
}

static cr_status rule(cr_rewriter *w, const cr_node *node, const cr_arg *args, bool *done) {
    affine a = { .w = w };
    if (cr_op_is(node->op, "aten::_native_batch_norm_legit_no_training")) return batch_norm(&a, node, args, done);
    cr_role role = (cr_role)cr_op_facts(node->op)->role;
    return role == CR_ROLE_MUL || role == CR_ROLE_ADD ? scale_or_shift(&a, node, args, done) : CR_OK;
}

cr_status cr_pass_affine(const cr_graph *g, cr_graph **out) {
    return cr_rewrite(g, rule, NULL, out);
}
