/* conv.c: the kernels aten::convolution and aten::convolution_backward: arguments, bias gradient, complex numbers.
 *
 * A transposed convolution is the input partial of a plain one with x and y in exchanged roles, so its own derivatives
 * are the forward product and the weight partial with x and y exchanged. Complex dtypes are two real views of the same
 * memory, and a complex convolution four real ones. */
#include "runtime/conv.h"
#include "runtime/gemm.h"
#include "runtime/kernels.h"

/* The trilinear form's three partials, by the operand that is the result. */
typedef enum form { FORM_Y, FORM_X, FORM_W } form;
typedef struct operands { const rt_view *x, *w, *y, *bias; } operands;

static int run_real(const rt_ctx *ctx, const rt_conv *v, form f, operands t, rt_scalar alpha, rt_scalar beta) {
    switch (f) {
    case FORM_Y: return rt_conv_forward(ctx, v, t.x, t.w, t.bias, t.y, alpha, beta);
    case FORM_X: return rt_conv_input(ctx, v, t.y, t.w, t.bias, t.x, alpha, beta);
    default: return rt_conv_weight(ctx, v, t.y, t.x, t.w, alpha, beta);
    }
}

/* The real or imaginary part of a complex view; complex32 has been widened before. */
static rt_view part_of(const rt_view *z, int imaginary) {
    rt_view part = *z;
    part.dtype = z->dtype == RT_C128 ? RT_F64 : RT_F32;
    part.p = (char *)z->p + imaginary * rt_itemsize(part.dtype);
    for (int d = 0; d < part.rank; d++) part.stride[d] *= 2;
    return part;
}

/* Which factor of a gradient is conjugated: of a(y or x) * b(w or x), neither, the first or the second. */
typedef enum conjugate { CONJ_NONE, CONJ_FIRST, CONJ_SECOND } conjugate;

/* r = a * b: re = ar br - ai bi, im = ai br + ar bi, with the signs of a conjugate where asked. The bias is part of the
 * first product into each half. */
static int run_complex(const rt_ctx *ctx, const rt_conv *v, form f, operands t, conjugate which) {
    const rt_view *a = f == FORM_Y ? t.x : t.y, *b = f == FORM_W ? t.x : t.w;
    const rt_view *r = f == FORM_Y ? t.y : f == FORM_X ? t.x : t.w;
    int code = RT_OK;
    for (int half = 0; half < 2 && !code; half++) {
        for (int term = 0; term < 2 && !code; term++) {
            rt_view pa = part_of(a, half ^ term), pb = part_of(b, term), pr = part_of(r, half), bias;
            operands u;
            if (f == FORM_Y) u = (operands){ &pa, &pb, &pr, NULL };
            else if (f == FORM_X) u = (operands){ &pr, &pb, &pa, NULL };
            else u = (operands){ &pb, &pr, &pa, NULL };
            if (t.bias && !term) {
                bias = part_of(t.bias, half);
                u.bias = &bias;
            }
            bool minus = half ? which == (term ? CONJ_SECOND : CONJ_FIRST) : term && which == CONJ_NONE;
            rt_scalar alpha = { RT_ARG_INT, minus ? -1 : 1, minus ? -1 : 1, 0 };
            code = run_real(ctx, v, f, u, alpha, term ? rt_gemm_one : rt_gemm_zero);
        }
    }
    return code;
}

static int run(const rt_ctx *ctx, const rt_conv *v, form f, operands t, conjugate which) {
    const rt_view *r = f == FORM_Y ? t.y : f == FORM_X ? t.x : t.w;
    if (!rt_is_complex(r->dtype)) return run_real(ctx, v, f, t, rt_gemm_one, rt_gemm_zero);
    if (r->dtype == RT_C32)
        return rt_fail(ctx, RT_ENOTIMPL, "convolution has no kernel for complex32: use complex64");
    return run_complex(ctx, v, f, t, which);
}

/* convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups) */
RT_KERNEL(rt_k_convolution) {
    const rt_view *input = rt_arg_view(c, 0), *weight = rt_arg_view(c, 1), *out = &c->out[0];
    bool transposed = rt_arg_int(c, 6);
    operands t = { transposed ? out : input, weight, transposed ? input : out, rt_arg_view(c, 2) };
    rt_conv v = rt_conv_of(t.x, weight, t.y, &c->arg[3], &c->arg[4], &c->arg[5], rt_arg_int(c, 8));
    return run(ctx, &v, transposed ? FORM_X : FORM_Y, t, CONJ_NONE);
}

/* ---- bias: the sum of grad over pictures and positions ---- */

typedef struct summing { const rt_view *grad, *out; } summing;

enum { SUM_BLOCK = 256 };

static int channels_sum(void *arg, int64_t begin, int64_t end) {
    const summing *s = arg;
    const rt_view *g = s->grad;
    int64_t item = rt_itemsize(g->dtype), inner = g->rank > 2 ? g->size[g->rank - 1] : 1, outer = 1;
    int64_t inner_stride = g->rank > 2 ? g->stride[g->rank - 1] : 0;
    for (int d = 2; d < g->rank - 1; d++) outer *= g->size[d];
    bool whole = rt_is_integer(g->dtype), complex = rt_is_complex(g->dtype);
    int held = whole ? RT_I64 : complex ? RT_C128 : RT_F64;
    union { uint64_t i[SUM_BLOCK]; double f[2 * SUM_BLOCK]; } block;
    for (int64_t o = begin; o < end; o++) {
        uint64_t count = 0;
        double re = 0, im = 0;
        for (int64_t n = 0; n < g->size[0]; n++)
            for (int64_t q = 0; q < outer; q++) {
                int64_t at = n * g->stride[0] + o * g->stride[1], rest = q;
                for (int d = g->rank - 2; d >= 2; d--) at += rest % g->size[d] * g->stride[d], rest /= g->size[d];
                for (int64_t j = 0; j < inner; j += SUM_BLOCK) {
                    int64_t m = inner - j < SUM_BLOCK ? inner - j : SUM_BLOCK;
                    rt_convert(held, &block, 1, g->dtype, (const char *)g->p + (at + j * inner_stride) * item,
                               inner_stride, m);
                    if (whole) for (int64_t i = 0; i < m; i++) count += block.i[i];
                    else if (complex) for (int64_t i = 0; i < m; i++) re += block.f[2 * i], im += block.f[2 * i + 1];
                    else for (int64_t i = 0; i < m; i++) re += block.f[i];
                }
            }
        double z[2] = { re, im };
        void *to = (char *)s->out->p + o * s->out->stride[0] * rt_itemsize(s->out->dtype);
        if (whole) rt_convert(s->out->dtype, to, 1, RT_U64, &count, 1, 1);
        else rt_convert(s->out->dtype, to, 1, RT_C128, z, 1, 1);
    }
    return RT_OK;
}

/* convolution_backward(grad_output, input, weight, bias_sizes, stride, padding, dilation, transposed, output_padding,
 * groups, output_mask) -> (grad_input, grad_weight, grad_bias); those not in the mask are not touched. */
RT_KERNEL(rt_k_convolution_backward) {
    const rt_view *grad = rt_arg_view(c, 0), *input = rt_arg_view(c, 1), *weight = rt_arg_view(c, 2);
    bool transposed = rt_arg_int(c, 7);
    const rt_arg *mask = &c->arg[10];
    rt_conv v = rt_conv_of(transposed ? grad : input, weight, transposed ? input : grad, &c->arg[4], &c->arg[5],
                           &c->arg[6], rt_arg_int(c, 9));
    int code = RT_OK;
    if (mask->u.ints[0]) {
        operands t = { transposed ? grad : &c->out[0], weight, transposed ? &c->out[0] : grad, NULL };
        code = run(ctx, &v, transposed ? FORM_Y : FORM_X, t, CONJ_SECOND);
    }
    if (!code && mask->u.ints[1]) {
        operands t = { transposed ? grad : input, &c->out[1], transposed ? input : grad, NULL };
        code = run(ctx, &v, FORM_W, t, transposed ? CONJ_FIRST : CONJ_SECOND); /* the input */
    }
    if (!code && mask->u.ints[2]) {
        summing s = { grad, &c->out[2] };
        int64_t each = grad->size[1] ? rt_numel(grad) / grad->size[1] : 0;
        code = rt_parallel_work(ctx, grad->size[1], each, 16 * 1024, channels_sum, &s);
    }
    return code;
}
