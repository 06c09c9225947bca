/* pack_conv.c: convolutions with constant weights become cresset::conv_packed: weights packed now, activations
 * channels-last, and the activation and the addition that follow become part of the tile's last step.
 *
 * Each replacement gives the layout that was there before (a clone behind it), so that it is right on its own; which of
 * the clones are needed is for channels_last.c to find out. Convolutions of other dtypes, ranks, or weights known only
 * in a run stay with the general kernel, and so do transposed ones. */
#include "passes/internal.h"

enum { X, PACKED, BIAS, RESIDUAL, OUT_CHANNELS, KERNEL, STRIDE, PADDING, DILATION, GROUPS, ACT, CONV_ARGS };

static cr_status restore(cr_rewriter *w, const cr_node *node, cr_arg made) {
    cr_arg plain;
    bool same;
    CR_TRY(cr__layout_restore(w, made, cr_graph_value(cr_rewrite_source(w), node->first)->meta, &plain, &same));
    return cr_rewrite_result(w, node, 0, plain);
}

/* ---- the convolution itself ---- */

/* Two plain numbers of a list of one or two. */
static bool two_ints(const cr_arg *list, cr_arg *out) {
    if (list->kind != CR_ARG_LIST || list->n < 1 || list->n > 2) return false;
    for (uint32_t i = 0; i < 2; i++) {
        out[i] = list->u.list[i < list->n ? i : 0];
        if (out[i].kind != CR_ARG_INT || !cr_dim_is_plain(out[i].u.i)) return false;
    }
    return true;
}

static bool all_plain(const cr_meta *m) {
    for (int d = 0; d < m->rank; d++)
        if (!cr_dim_is_plain(m->size[d])) return false;
    return true;
}

static cr_status pack_weight(cr_rewriter *w, cr_tensor *weight, cr_arg groups, cr_arg *out) {
    cr_arg args[] = { cr_arg_tensor(weight), groups }, packed = cr_arg_none();
    CR_TRY(cr__evaluate(cr_op_find("cresset::pack_conv"), args, &packed));
    cr_status status = cr_rewrite_add_constant(w, "packed", packed.u.t, out);
    cr_results_release(&packed, 1);
    return status;
}

static cr_status pack(cr_rewriter *w, const cr_node *node, const cr_arg *args, bool *done) {
    const cr_meta *x = cr_rewrite_meta(w, &args[0]);
    cr_tensor *weight = cr_rewrite_constant(w, &args[1]);
    cr_arg stride[2], padding[2], dilation[2], kernel[2];
    if (!x || !weight || x->rank != 4 || x->dtype != CR_F32 || weight->meta.dtype != CR_F32 || weight->meta.rank != 4 ||
        !all_plain(&weight->meta))
        return CR_OK;
    if (args[6].u.i || !two_ints(&args[3], stride) || !two_ints(&args[4], padding) || !two_ints(&args[5], dilation))
        return CR_OK;
    if (args[8].kind != CR_ARG_INT || !cr_dim_is_plain(args[8].u.i) || weight->meta.size[0] == 0 ||
        weight->meta.size[1] == 0)
        return CR_OK;
    const cr_meta *was = cr_graph_value(cr_rewrite_source(w), node->first)->meta;
    if (!cr__layout_can_restore(cr_graph_env(cr_rewrite_graph(w)), was)) return CR_OK;
    cr_arg packed, made, all[CONV_ARGS];
    CR_TRY(pack_weight(w, weight, args[8], &packed));
    for (int i = 0; i < 2; i++) kernel[i] = cr_arg_int(weight->meta.size[2 + i]);
    all[X] = args[0];
    all[PACKED] = packed;
    all[BIAS] = args[2];
    all[RESIDUAL] = cr_arg_none();
    all[OUT_CHANNELS] = cr_arg_int(weight->meta.size[0]);
    all[KERNEL] = cr_arg_list(kernel, 2);
    all[STRIDE] = cr_arg_list(stride, 2);
    all[PADDING] = cr_arg_list(padding, 2);
    all[DILATION] = cr_arg_list(dilation, 2);
    all[GROUPS] = args[8];
    all[ACT] = cr_arg_str("none");
    CR_TRY(cr_rewrite_op(w, cr_op_find("cresset::conv_packed"), all, &made));
    *done = true;
    return restore(w, node, made);
}

/* ---- what follows it ---- */

static bool has_act(const cr_node *conv) { return strcmp(conv->args[ACT].u.s, "none") != 0; }

/* The packed convolution behind a value that nobody else uses, through what restores its layout. */
static const cr_node *conv_behind(cr_rewriter *w, const cr_arg *a) {
    const cr_node *maker = cr_rewrite_single(w, a) ? cr_rewrite_producer(w, a, NULL) : NULL;
    const cr_arg *from = maker ? cr__layout_restored(w, maker) : NULL;
    if (!from) from = a;
    return cr_rewrite_single(w, from) ? cr_rewrite_producer(w, from, "cresset::conv_packed") : NULL;
}

static bool is_number(const cr_arg *a, double value) {
    return (a->kind == CR_ARG_INT && (double)a->u.i == value) || (a->kind == CR_ARG_FLOAT && a->u.f == value);
}

/* What conv_isa.h calls the activation; NULL: it is none of them. */
static const char *act_of(const cr_op *op, const cr_arg *args) {
    const char *act = cr__activation(op, args);
    if (act || cr_op_facts(op)->role != CR_ROLE_CLAMP || !is_number(&args[1], 0)) return act;
    bool open = op->schema.nparams < 3 || args[2].kind == CR_ARG_NONE;
    return open ? "relu" : is_number(&args[2], 6) ? "relu6" : NULL;
}

static cr_status again_with(cr_rewriter *w, const cr_node *node, const cr_node *conv, const cr_arg *residual,
                            const char *act, bool *done) {
    cr_arg all[CONV_ARGS], made;
    const cr_meta *was = cr_graph_value(cr_rewrite_source(w), node->first)->meta;
    if (!cr__layout_can_restore(cr_graph_env(cr_rewrite_graph(w)), was)) return CR_OK;
    memcpy(all, conv->args, sizeof all);
    if (residual) all[RESIDUAL] = *residual;
    if (act) all[ACT] = cr_arg_str(act);
    CR_TRY(cr_rewrite_op(w, conv->op, all, &made));
    *done = true;
    return restore(w, node, made);
}

static cr_status fuse_act(cr_rewriter *w, const cr_node *node, const cr_arg *args, const char *act, bool *done) {
    const cr_node *conv = conv_behind(w, &args[0]);
    return conv && !has_act(conv) ? again_with(w, node, conv, NULL, act, done) : CR_OK;
}

static bool same_shape(cr_rewriter *w, const cr_arg *a, const cr_arg *b) {
    const cr_meta *x = cr_rewrite_meta(w, a), *y = cr_rewrite_meta(w, b);
    if (!x || !y || x->rank != y->rank || x->dtype != y->dtype) return false;
    for (int d = 0; d < x->rank; d++)
        if (cr_dim_known(cr_graph_env(cr_rewrite_graph(w)), x->size[d], CR_EQ, y->size[d]) != CR_YES) return false;
    return true;
}

static cr_status fuse_add(cr_rewriter *w, const cr_node *node, const cr_arg *args, bool *done) {
    if (!is_number(&args[2], 1) || !same_shape(w, &args[0], &args[1]) || (args[0].u.i == args[1].u.i)) return CR_OK;
    for (int i = 1; i >= 0 && !*done; i--) { /* usually what was computed last is the second convolution of a block */
        const cr_node *conv = conv_behind(w, &args[i]);
        if (conv && !has_act(conv) && conv->args[RESIDUAL].kind == CR_ARG_NONE)
            CR_TRY(again_with(w, node, conv, &args[1 - i], NULL, done));
    }
    return CR_OK;
}

/* ---- pooling whose indices nobody asks for ---- */

/* How often the values of the main graph are used. */
typedef struct used { const cr_graph *g; uint32_t *counts; } used;

static cr_status drop_indices(cr_rewriter *w, const cr_node *node, const cr_arg *args, bool *done) {
    const used *u = cr_rewrite_user(w);
    cr_arg made;
    if (cr_rewrite_source(w) != u->g || u->counts[node->first + 1]) return CR_OK;
    CR_TRY(cr_rewrite_op(w, cr_op_find("cresset::max_pool2d"), args, &made));
    *done = true;
    return cr_rewrite_result(w, node, 0, made);
}

static cr_status rule(cr_rewriter *w, const cr_node *node, const cr_arg *args, bool *done) {
    const char *act;
    if (cr_op_facts(node->op)->role == CR_ROLE_CONVOLUTION) return pack(w, node, args, done);
    if (cr_op_facts(node->op)->role == CR_ROLE_ADD) return fuse_add(w, node, args, done);
    if (cr_op_is(node->op, "aten::max_pool2d_with_indices")) return drop_indices(w, node, args, done);
    if ((act = act_of(node->op, args))) return fuse_act(w, node, args, act, done);
    return CR_OK;
}

cr_status cr_pass_pack_conv(const cr_graph *g, cr_graph **out) {
    used u = { g, cr_alloc(cr_graph_value_count(g) * sizeof(uint32_t) + 1) };
    if (!u.counts) return CR_ENOMEM;
    cr_graph_count_uses(g, u.counts);
    cr_graph *packed = NULL;
    cr_status status = cr_rewrite(g, rule, &u, &packed);
    cr_free(u.counts);
    /* without what was on the way to the last form of a convolution */
    if (!status) status = cr_pass_dce(packed, out);
    cr_graph_release(packed);
    return status;
}
