/* rules_packed_conv.c: results of convolutions with packed weights. They are channels-last whatever the input is. */
#include "ops/rules.h"

enum { LANES = 16 }; /* output channels of a panel: runtime/conv_packed.h */

cr_status dtype_packed_conv(cr_rule *r) {
    for (int i = 0; i < r->nargs; i++) {
        const cr_meta *m = cr_rule_meta(r, i);
        if (m && m->dtype != CR_F32)
            return CR_FAIL(CR_ENOTIMPL, "%s: packed convolutions are float32, '%s' is %s", r->op->schema.name,
                           r->op->schema.params[i].name, cr_dtype_aten(m->dtype));
    }
    r->common = r->result = CR_F32;
    return CR_OK;
}

static cr_dim blocks(cr_env *env, cr_dim channels) { return cr_dim_ceildiv(env, channels, LANES); }

/* The layout of the weights depends on it, so it is decided where sizes are symbols. */
static cr_status is_depthwise(cr_env *env, cr_dim channels, cr_dim outs, cr_dim groups, bool *yes) {
    CR_TRY(cr_dim_decide(env, groups, CR_GT, 1, yes));
    if (*yes) CR_TRY(cr_dim_decide(env, outs, CR_EQ, groups, yes));
    return *yes ? cr_dim_decide(env, channels, CR_EQ, 1, yes) : CR_OK;
}

/* [groups, panels, taps * channels, 16]; one channel in and out a group: [1, blocks, taps, 16]. `channels`: of a
 * group. */
static cr_status packed_sizes(cr_env *env, cr_dim outs, cr_dim channels, cr_dim taps, cr_dim groups, cr_dim *size) {
    bool depthwise;
    CR_TRY(is_depthwise(env, channels, outs, groups, &depthwise));
    size[0] = depthwise ? 1 : groups;
    size[1] = blocks(env, depthwise ? outs : cr_dim_floordiv(env, outs, groups));
    size[2] = cr_dim_mul(env, taps, channels);
    size[3] = LANES;
    return CR_OK;
}

cr_status shape_pack_conv(cr_rule *r) { /* weight, groups */
    const cr_meta *w = cr_rule_meta(r, 0);
    cr_dim size[4], groups = cr_rule_int(r, 1);
    if (w->rank != 4)
        return CR_FAIL(CR_ERUNTIME, "%s: expected a weight of four dimensions, got %d", r->op->schema.name, w->rank);
    CR_TRY(cr_dim_require(r->env, groups, CR_GT, 0, "pack_conv: groups must be positive"));
    CR_TRY(cr_dim_require(r->env, cr_dim_mod(r->env, w->size[0], groups), CR_EQ, 0,
                          "pack_conv: the weight's first size must be divisible by groups"));
    cr_dim taps = cr_dim_mul(r->env, w->size[2], w->size[3]);
    CR_TRY(packed_sizes(r->env, w->size[0], w->size[1], taps, groups, size));
    return cr_rule_add_dense(r, CR_F32, 4, size);
}

/* input, packed, bias, residual, out_channels, kernel_size, stride, padding, dilation, groups, act */
cr_status shape_conv_packed(cr_rule *r) {
    const cr_meta *x = cr_rule_meta(r, 0), *packed = cr_rule_meta(r, 1), *bias = cr_rule_meta(r, 2),
                  *residual = cr_rule_meta(r, 3);
    const char *name = r->op->schema.name;
    cr_env *env = r->env;
    cr_dim kernel[2], stride[2], padding[2], dilation[2], size[4], expected[4], outs = cr_rule_int(r, 4),
                                                                                groups = cr_rule_int(r, 9);
    if (x->rank != 4 || packed->rank != 4)
        return CR_FAIL(CR_ERUNTIME, "%s: expected an input and packed weights of four dimensions, got %d and %d", name,
                       x->rank, packed->rank);
    CR_TRY(cr_rule_exact_ints(r, 5, 2, kernel));
    CR_TRY(cr_rule_exact_ints(r, 6, 2, stride));
    CR_TRY(cr_rule_exact_ints(r, 7, 2, padding));
    CR_TRY(cr_rule_exact_ints(r, 8, 2, dilation));
    CR_TRY(cr_dim_require(env, groups, CR_GT, 0, "conv_packed: groups must be positive"));
    CR_TRY(cr_dim_require(env, outs, CR_GT, 0, "conv_packed: there must be output channels"));
    size[0] = x->size[0];
    size[1] = outs;
    for (int i = 0; i < 2; i++) {
        CR_TRY(cr_dim_require(env, kernel[i], CR_GT, 0, "conv_packed: kernel_size must be positive"));
        CR_TRY(cr_dim_require(env, stride[i], CR_GT, 0, "conv_packed: stride must be positive"));
        CR_TRY(cr_dim_require(env, dilation[i], CR_GT, 0, "conv_packed: dilation must be positive"));
        CR_TRY(cr_dim_require(env, padding[i], CR_GE, 0, "conv_packed: padding must not be negative"));
        cr_dim span = cr_dim_add(env, cr_dim_mul(env, dilation[i], cr_dim_sub(env, kernel[i], 1)), 1);
        cr_dim room = cr_dim_sub(env, cr_dim_add(env, x->size[2 + i], cr_dim_mul(env, 2, padding[i])), span);
        CR_TRY(cr_dim_require(env, room, CR_GE, 0, "convolution: the kernel must not be larger than the padded input"));
        size[2 + i] = cr_dim_add(env, cr_dim_floordiv(env, room, stride[i]), 1);
    }
    cr_dim taps = cr_dim_mul(env, kernel[0], kernel[1]), channels = cr_dim_floordiv(env, x->size[1], groups);
    CR_TRY(packed_sizes(env, outs, channels, taps, groups, expected));
    for (int i = 0; i < 4; i++)
        CR_TRY(cr_dim_require(env, packed->size[i], CR_EQ, expected[i],
                              "conv_packed: the weights were packed for another convolution"));
    for (int i = 0; residual && i < 4; i++) {
        if (residual->rank != 4)
            return CR_FAIL(CR_ERUNTIME, "%s: expected a residual of four dimensions, got %d", name, residual->rank);
        CR_TRY(cr_dim_require(env, residual->size[i], CR_EQ, size[i],
                              "conv_packed: the residual must have the result's shape"));
    }
    if (bias) {
        if (bias->rank != 1)
            return CR_FAIL(CR_ERUNTIME, "%s: bias must be a vector, it has %d dimensions", name, bias->rank);
        CR_TRY(cr_dim_require(env, bias->size[0], CR_EQ, outs,
                              "conv_packed: bias must have one element an output channel"));
    }
    cr_out *out = cr_rule_add(r);
    return out ? cr_meta_set_dense(env, &out->meta, 4, size, CR_CHANNELS_LAST) : CR_ENOMEM;
}
