/* batch_conv.c: convolutions under vmap. Examples join the batch of the input where the weights are the same for all,
 * else the groups: each example has channels of its own. */
#include "ops/batch_internal.h"

/* [examples, n, channels, ...] as [n, examples * channels, ...], or with n in front of all where it is the only one. */
static cr_arg to_channels(cr__batch *b, cr_arg x) {
    x = CR_RUN(&b->run, "movedim.int", x, cr_arg_int(0), cr_arg_int(1));
    return CR_RUN(&b->run, "flatten.using_ints", x, cr_arg_int(1), cr_arg_int(2));
}

static cr_arg to_first(cr__batch *b, cr_arg x) {
    return CR_RUN(&b->run, "flatten.using_ints", x, cr_arg_int(0), cr_arg_int(1));
}

/* The other way: dimension `dim` is examples times what one has there. */
static cr_arg split(cr__batch *b, cr_arg x, int dim, int64_t each) {
    cr_arg sizes[] = { cr_arg_int(b->v->size), cr_arg_int(each) };
    return CR_RUN(&b->run, "unflatten.int", x, cr_arg_int(dim), cr_arg_list(sizes, 2));
}

static cr_arg from_channels(cr__batch *b, cr_arg x, int64_t each) {
    return CR_RUN(&b->run, "movedim.int", split(b, x, 1, each), cr_arg_int(1), cr_arg_int(0));
}

enum { INPUT, WEIGHT, BIAS, TRANSPOSED = 6, GROUPS = 8, NPARAMS };

void cr__batch_convolution(cr__batch *b) {
    const cr_meta *in = cr_arg_meta(&b->args[INPUT]), *weight = cr_arg_meta(&b->args[WEIGHT]);
    bool single = in->rank < weight->rank; /* one image without a first dimension */
    cr_arg args[NPARAMS];
    memcpy(args, b->args, sizeof args);
    if (b->v->size == 0 || b->rule.nout != 1) {
        b->unfit = true;
        return;
    }
    cr_arg x = cr__batch_each(b, &args[INPUT], 0);
    if (!cr__is_mapped(b, &args[WEIGHT]) && !cr__is_mapped(b, &args[BIAS])) {
        args[INPUT] = single ? x : to_first(b, x);
        cr__batch_run(b, NULL, args);
        return;
    }
    int64_t n = cr__batch_count(b); /* groups are a number */
    if (n < 0) return;
    if (single) x = CR_RUN(&b->run, "unsqueeze", x, cr_arg_int(1));
    args[INPUT] = to_channels(b, x);
    args[WEIGHT] = to_first(b, cr__batch_each(b, &args[WEIGHT], 0));
    if (args[BIAS].kind == CR_ARG_TENSOR) args[BIAS] = to_first(b, cr__batch_each(b, &args[BIAS], 0));
    args[GROUPS].u.i *= n;
    cr__batch_run(b, NULL, args);
    if (b->run.status) return;
    b->made[0] = from_channels(b, b->made[0], b->rule.out[0].meta.size[single ? 0 : 1]);
}

/* grad_output, input, weight, bias_sizes, stride, padding, dilation, transposed, output_padding, groups, output_mask */
enum { GRAD, BACK_INPUT, BACK_WEIGHT, SIZES, BACK_GROUPS = 9, MASK, BACK_NPARAMS };

void cr__batch_convolution_backward(cr__batch *b) {
    cr_arg args[BACK_NPARAMS];
    const cr_meta *in = cr_arg_meta(&b->args[BACK_INPUT]), *weight = cr_arg_meta(&b->args[BACK_WEIGHT]);
    const cr_meta *grad = cr_arg_meta(&b->args[GRAD]);
    const cr_arg *mask = b->args[MASK].u.list;
    memcpy(args, b->args, sizeof args);
    bool shared = !cr__is_mapped(b, &args[BACK_WEIGHT]), single = in->rank < weight->rank;
    if (b->v->size == 0) {
        b->unfit = true;
        return;
    }
    cr_arg g = cr__batch_each(b, &args[GRAD], 0), x = cr__batch_each(b, &args[BACK_INPUT], 0);
    if (shared && mask[0].u.i && !mask[1].u.i && !mask[2].u.i) { /* the input's gradient alone */
        args[GRAD] = single ? g : to_first(b, g);
        args[BACK_INPUT] = single ? x : to_first(b, x);
        cr__batch_run(b, NULL, args);
        return;
    }
    int64_t n = cr__batch_count(b);
    if (n < 0) return;
    if (single) {
        g = CR_RUN(&b->run, "unsqueeze", g, cr_arg_int(1));
        x = CR_RUN(&b->run, "unsqueeze", x, cr_arg_int(1));
    }
    args[GRAD] = to_channels(b, g);
    args[BACK_INPUT] = to_channels(b, x);
    args[BACK_WEIGHT] = to_first(b, cr__batch_each(b, &args[BACK_WEIGHT], 0));
    cr_arg channels = cr_arg_int(cr_dim_mul(b->exec.env, grad->size[single ? 0 : 1], n));
    if (args[SIZES].kind == CR_ARG_LIST) args[SIZES] = cr_arg_list(&channels, 1);
    args[BACK_GROUPS].u.i *= n;
    cr__batch_run(b, NULL, args);
    if (b->run.status) return;
    if (mask[0].u.i) b->made[0] = from_channels(b, b->made[0], in->size[single ? 0 : 1]);
    if (mask[1].u.i) b->made[1] = split(b, b->made[1], 0, weight->size[0]);
    if (mask[2].u.i) b->made[2] = split(b, b->made[2], 0, grad->size[single ? 0 : 1]);
}
