/* k_factory.c: kernels of tensors made from numbers, and of questions about elements. */
#include "runtime/kernels.h"

#include <complex.h>
#include <math.h>
#include <string.h>

/* ---- constants ---- */

static int fill_int(const rt_ctx *ctx, const rt_view *v, int64_t i) {
    return rt_fill(ctx, v, (rt_scalar){ RT_ARG_INT, i, (double)i, 0 });
}

RT_KERNEL(rt_k_zeros) { return fill_int(ctx, &c->out[0], 0); }
RT_KERNEL(rt_k_ones) { return fill_int(ctx, &c->out[0], 1); }
RT_KERNEL(rt_k_fill) { return rt_fill_number(ctx, &c->out[0], rt_arg_scalar(c, 1)); } /* full, full_like, fill.Scalar */
RT_KERNEL(rt_k_new_full) { return rt_fill_number(ctx, &c->out[0], rt_arg_scalar(c, 2)); }
RT_KERNEL(rt_k_scalar_tensor) { return rt_fill_number(ctx, &c->out[0], rt_arg_scalar(c, 0)); }
RT_KERNEL(rt_k_fill_tensor) { return rt_copy(ctx, &c->out[0], rt_arg_view(c, 1)); }

RT_KERNEL(rt_k_eye) {
    int code = fill_int(ctx, &c->out[0], 0);
    rt_view diagonal = c->out[0];
    diagonal.rank = 1;
    diagonal.stride[0] += diagonal.stride[1];
    if (diagonal.size[1] < diagonal.size[0]) diagonal.size[0] = diagonal.size[1];
    return code ? code : fill_int(ctx, &diagonal, 1);
}

/* The diagonal of all dimensions together. That of a tall matrix ends with the columns, or, where it wraps, begins anew
 * at the first of them, one row further down. */
RT_KERNEL(rt_k_fill_diagonal) { /* self, fill_value, wrap */
    const rt_view *v = &c->out[0];
    rt_view part = { .dtype = v->dtype, .rank = 1, .size = { v->size[0] } };
    bool wrap = rt_arg_int(c, 2) && v->rank == 2;
    for (int d = 0; d < v->rank; d++) {
        part.stride[0] += v->stride[d];
        if (v->size[d] < part.size[0]) part.size[0] = v->size[d];
    }
    int64_t rows = v->size[0], long_part = part.size[0], step = v->size[1] + 1;
    int code = RT_OK;
    for (int64_t row = 0; row < rows && long_part && !code; row += step) {
        part.p = (char *)v->p + row * v->stride[0] * rt_itemsize(v->dtype);
        part.size[0] = rows - row < long_part ? rows - row : long_part;
        code = rt_fill_number(ctx, &part, rt_arg_scalar(c, 1));
        if (!wrap) break;
    }
    return code;
}

/* ---- ranges: value(i) for a line of elements ---- */

enum { BLOCK = 256 };
typedef void block_fn(void *user, int64_t begin, int64_t n, void *values); /* BLOCK values of the wide dtype */
typedef struct line { const rt_view *out; block_fn *make; void *user; int wide; } line;

static int line_part(void *arg, int64_t begin, int64_t end) {
    const line *l = arg;
    const rt_view *v = l->out;
    double values[2 * BLOCK];
    for (int64_t i = begin; i < end; i += BLOCK) {
        int64_t n = end - i < BLOCK ? end - i : BLOCK;
        l->make(l->user, i, n, values);
        rt_convert(v->dtype, (char *)v->p + i * v->stride[0] * rt_itemsize(v->dtype), v->stride[0], l->wide, values, 1,
                   n);
    }
    return RT_OK;
}

static int fill_line(const rt_ctx *ctx, const rt_view *out, int wide, block_fn *make, void *user) {
    line l = { out, make, user, wide };
    return rt_parallel_for(ctx, out->size[0], 32768, line_part, &l);
}

typedef struct range { int64_t first, step; double f_first, f_step; } range;

static void range_ints(void *user, int64_t begin, int64_t n, void *values) {
    const range *r = user;
    for (int64_t k = 0; k < n; k++)
        ((int64_t *)values)[k] = (int64_t)((uint64_t)r->first + (uint64_t)r->step * (uint64_t)(begin + k));
}

static void range_floats(void *user, int64_t begin, int64_t n, void *values) {
    const range *r = user;
    for (int64_t k = 0; k < n; k++) ((double *)values)[k] = r->f_first + r->f_step * (double)(begin + k);
}

/* Half types step in single precision. */
static void range_singles(void *user, int64_t begin, int64_t n, void *values) {
    const range *r = user;
    float first = (float)r->f_first, step = (float)r->f_step;
    for (int64_t k = 0; k < n; k++) ((double *)values)[k] = first + step * (float)(begin + k);
}

static int fill_range(const rt_ctx *ctx, const rt_view *out, rt_scalar first, rt_scalar step) {
    range r = { first.kind == RT_ARG_INT ? first.i : (int64_t)first.f,
                step.kind == RT_ARG_INT ? step.i : (int64_t)step.f,
                first.kind == RT_ARG_INT ? (double)first.i : first.f,
                step.kind == RT_ARG_INT ? (double)step.i : step.f };
    if (!out->size[0]) return RT_OK;
    if (!rt_is_float(out->dtype)) return fill_line(ctx, out, RT_I64, range_ints, &r);
    return fill_line(ctx, out, RT_F64, rt_itemsize(out->dtype) < 4 ? range_singles : range_floats, &r);
}

static const rt_scalar zero = { .kind = RT_ARG_INT }, one = { .kind = RT_ARG_INT, .i = 1, .f = 1 };

RT_KERNEL(rt_k_arange) { return fill_range(ctx, &c->out[0], zero, one); }                                    /* (end) */
/* (start, end) */
RT_KERNEL(rt_k_arange_start) { return fill_range(ctx, &c->out[0], rt_arg_scalar(c, 0), one); }
/* (start, end, step) */
RT_KERNEL(rt_k_arange_step) { return fill_range(ctx, &c->out[0], rt_arg_scalar(c, 0), rt_arg_scalar(c, 2)); }

/* Evenly spaced from both ends to the middle, so that the last value is the given one. */
typedef struct spaced {
    double first, last, step;
    int64_t i_first, i_last, steps;
    float complex c_first, c_last, c_step;
    double complex z_first, z_last, z_step;
    int dtype;
    double base;
} spaced;

static double rounded(int dtype, double x) { /* to a half type, through single precision */
    float f = (float)x;
    return dtype == RT_F16 ? rt_f16_to_f32(rt_f32_to_f16(f)) : rt_bf16_to_f32(rt_f32_to_bf16(f));
}

static void spaced_values(void *user, int64_t begin, int64_t n, void *values) {
    const spaced *s = user;
    double *out = values;
    for (int64_t k = 0; k < n; k++) {
        int64_t i = begin + k, back = s->steps - 1 - i;
        bool low = i < s->steps / 2;
        double count = (double)(low ? i : back);
        switch (s->dtype) {
        case RT_F64: out[k] = low ? s->first + s->step * count : s->last - s->step * count; break;
        case RT_F32: {
            float step = (float)s->step * (float)count;
            out[k] = low ? (float)s->first + step : (float)s->last - step;
            break;
        }
        case RT_F16: case RT_BF16: {
            double step = rounded(s->dtype, s->step * rounded(s->dtype, count));
            out[k] = rounded(s->dtype, low ? s->first + step : s->last - step);
            break;
        }
        default: { /* integers: cut towards zero */
            double x = low ? (double)s->i_first + s->step * count : (double)s->i_last - s->step * count;
            out[k] = trunc(x);
        }
        }
    }
}

static void spaced_complex(void *user, int64_t begin, int64_t n, void *values) {
    const spaced *s = user;
    double *out = values;
    for (int64_t k = 0; k < n; k++) {
        int64_t i = begin + k, back = s->steps - 1 - i;
        bool low = i < s->steps / 2;
        double complex z;
        if (s->dtype == RT_C128) z = low ? s->z_first + s->z_step * (double)i : s->z_last - s->z_step * (double)back;
        else z = low ? s->c_first + s->c_step * (float)i : s->c_last - s->c_step * (float)back;
        if (s->base != 0) {
            z = s->dtype == RT_C128 ? cpow(s->base, z) : cpowf((float complex)s->base, (float complex)z);
        }
        out[2 * k] = creal(z);
        out[2 * k + 1] = cimag(z);
    }
}

static void powers(void *user, int64_t begin, int64_t n, void *values) {
    const spaced *s = user;
    double *out = values;
    for (int64_t k = 0; k < n; k++) {
        int64_t i = begin + k, back = s->steps - 1 - i;
        double x = i < s->steps / 2 ? s->first + s->step * (double)i : s->last - s->step * (double)back;
        out[k] = pow(s->base, x);
    }
}

static double real_of(rt_scalar s) { return s.kind == RT_ARG_INT ? (double)s.i : s.f; }
static double complex complex_of(rt_scalar s) { return real_of(s) + (s.kind == RT_ARG_COMPLEX ? s.im * I : 0); }
static int64_t int_of(rt_scalar s) { return s.kind == RT_ARG_INT ? s.i : (int64_t)s.f; }

/* base 0: linspace. */
static int fill_spaced(const rt_ctx *ctx, const rt_view *out, rt_scalar first, rt_scalar last, double base) {
    spaced s = { .dtype = out->dtype, .steps = out->size[0], .base = base };
    int64_t gaps = s.steps - 1;
    if (!s.steps) return RT_OK;
    if (s.steps == 1) {
        rt_scalar only = first;
        if (base != 0 && rt_is_complex(out->dtype)) {
            double complex z = cpow(base, complex_of(first));
            only = (rt_scalar){ RT_ARG_COMPLEX, 0, creal(z), cimag(z) };
        } else if (base != 0) {
            only = (rt_scalar){ RT_ARG_FLOAT, 0, pow(base, real_of(first)), 0 };
        }
        return rt_fill(ctx, out, only);
    }
    if (rt_is_complex(out->dtype)) {
        s.z_first = complex_of(first), s.z_last = complex_of(last);
        s.c_first = (float complex)s.z_first, s.c_last = (float complex)s.z_last;
        s.z_step = (s.z_last - s.z_first) / (double)gaps;
        s.c_step = (s.c_last - s.c_first) / (float)gaps;
        return fill_line(ctx, out, RT_C128, spaced_complex, &s);
    }
    s.first = real_of(first), s.last = real_of(last);
    s.i_first = int_of(first), s.i_last = int_of(last);
    bool half = out->dtype == RT_F16 || out->dtype == RT_BF16;
    if (!rt_is_float(out->dtype)) s.first = (double)s.i_first, s.last = (double)s.i_last;
    else if (out->dtype == RT_F32) s.first = (float)s.first, s.last = (float)s.last;
    else if (half) s.first = rounded(s.dtype, s.first), s.last = rounded(s.dtype, s.last);
    if (base != 0) {
        double range = out->dtype == RT_F32 ? (float)s.last - (float)s.first
                       : half               ? rounded(s.dtype, s.last - s.first)
                                            : s.last - s.first;
        s.step = range / (double)gaps;
        return fill_line(ctx, out, RT_F64, powers, &s);
    }
    if (out->dtype == RT_F32) s.step = ((float)s.last - (float)s.first) / (float)gaps;
    else if (half) s.step = rounded(s.dtype, rounded(s.dtype, s.last - s.first) / rounded(s.dtype, (double)gaps));
    else s.step = (s.last - s.first) / (double)gaps;
    return fill_line(ctx, out, RT_F64, spaced_values, &s);
}

RT_KERNEL(rt_k_linspace) { return fill_spaced(ctx, &c->out[0], rt_arg_scalar(c, 0), rt_arg_scalar(c, 1), 0); }
RT_KERNEL(rt_k_logspace) {
    double base = rt_arg_float(c, 3);
    if (base == 0) return rt_fail(ctx, RT_EVALUE, "a base of 0 has no powers to space");
    return fill_spaced(ctx, &c->out[0], rt_arg_scalar(c, 0), rt_arg_scalar(c, 1), base);
}

/* ---- index pairs of a triangle: row by row ---- */

static int fill_pairs(const rt_call *c, bool lower) {
    const rt_view *out = &c->out[0];
    int64_t rows = rt_arg_int(c, 0), columns = rt_arg_int(c, 1), offset = rt_arg_int(c, 2), at = 0,
            item = rt_itemsize(out->dtype);
    offset = offset < -rows ? -rows : offset > columns ? columns : offset;
    for (int64_t i = lower && offset < 0 ? -offset : 0; i < rows && at < out->size[1]; i++) {
        int64_t from = lower ? 0 : i + offset, to = lower ? i + offset + 1 : columns;
        if (from < 0) from = 0;
        if (to > columns) to = columns;
        for (int64_t j = from; j < to; j++, at++) {
            char *p = (char *)out->p + at * out->stride[1] * item;
            rt_convert(out->dtype, p, 1, RT_I64, &i, 1, 1);
            rt_convert(out->dtype, p + out->stride[0] * item, 1, RT_I64, &j, 1, 1);
        }
    }
    return RT_OK;
}

RT_KERNEL(rt_k_tril_indices) {
    (void)ctx;
    return fill_pairs(c, true);
}
RT_KERNEL(rt_k_triu_indices) {
    (void)ctx;
    return fill_pairs(c, false);
}

/* ---- questions about elements ---- */

static rt_scalar load(const rt_view *v) {
    rt_scalar s = { .kind = RT_ARG_INT };
    double z[2];
    if (rt_is_complex(v->dtype)) {
        rt_convert(RT_C128, z, 1, v->dtype, v->p, 1, 1);
        s = (rt_scalar){ RT_ARG_COMPLEX, 0, z[0], z[1] };
    } else if (rt_is_float(v->dtype)) {
        s.kind = RT_ARG_FLOAT;
        rt_convert(RT_F64, &s.f, 1, v->dtype, v->p, 1, 1);
    } else {
        rt_convert(RT_I64, &s.i, 1, v->dtype, v->p, 1, 1);
        s.f = (double)s.i;
    }
    return s;
}

RT_KERNEL(rt_k_item) {
    const rt_view *v = rt_arg_view(c, 0);
    if (rt_numel(v) != 1)
        return rt_fail(ctx, RT_ERUNTIME, "expected a tensor with one element, got %lld", (long long)rt_numel(v));
    *c->result = load(v);
    return RT_OK;
}

RT_KERNEL(rt_k_assert_async) {
    const rt_view *v = rt_arg_view(c, 0);
    if (rt_numel(v) != 1)
        return rt_fail(ctx, RT_ERUNTIME, "expected a tensor with one element, got %lld", (long long)rt_numel(v));
    rt_scalar s = load(v);
    if (s.kind == RT_ARG_INT ? s.i != 0 : s.f != 0 || s.im != 0) return RT_OK;
    const char *message = c->nargs > 1 && c->arg[1].kind == RT_ARG_STR ? c->arg[1].u.str
                                                                       : "expected a tensor with a single nonzero "
                                                                         "value";
    return rt_fail(ctx, RT_ERUNTIME, "%s", message);
}

/* Elements compare as numbers: 0.0 equals -0.0 and NaN nothing. Two contiguous tensors of one dtype. */
static bool same_elements(const rt_view *a, const rt_view *b, int64_t n) {
    switch (a->dtype) {
#define FLOATS(ID, T, per)                                                                                             \
    case RT_##ID:                                                                                                      \
        for (int64_t i = 0; i < n * (per); i++)                                                                        \
            if (!(((const T *)a->p)[i] == ((const T *)b->p)[i])) return false;                                         \
        return true;
        FLOATS(F32, float, 1) FLOATS(F64, double, 1) FLOATS(C64, float, 2) FLOATS(C128, double, 2)
#undef FLOATS
    default: break;
    }
    if (!rt_is_float(a->dtype) && !rt_is_complex(a->dtype))
        return !memcmp(a->p, b->p, (size_t)(n * rt_itemsize(a->dtype)));
    int64_t per = rt_is_complex(a->dtype) ? 2 : 1, item = rt_itemsize(a->dtype) / per;
    int dtype = rt_is_complex(a->dtype) ? RT_F16 : a->dtype;
    for (int64_t i = 0; i < n * per; i++) {
        double x, y;
        rt_convert(RT_F64, &x, 1, dtype, (const char *)a->p + i * item, 1, 1);
        rt_convert(RT_F64, &y, 1, dtype, (const char *)b->p + i * item, 1, 1);
        if (!(x == y)) return false;
    }
    return true;
}

RT_KERNEL(rt_k_is_nonzero) { /* self */
    (void)ctx;
    rt_scalar s = load(rt_arg_view(c, 0));
    *c->result = (rt_scalar){ .kind = RT_ARG_INT, .i = s.kind == RT_ARG_INT ? s.i != 0 : s.f != 0 || s.im != 0 };
    return RT_OK;
}

RT_KERNEL(rt_k_equal) {
    const rt_view *a = rt_arg_view(c, 0), *b = rt_arg_view(c, 1);
    *c->result = (rt_scalar){ .kind = RT_ARG_INT };
    if (a->rank != b->rank) return RT_OK;
    for (int i = 0; i < a->rank; i++)
        if (a->size[i] != b->size[i]) return RT_OK;
    int64_t n = rt_numel(a);
    bool same = true;
    if (n) {
        rt_view x, y;
        void *sx = NULL, *sy = NULL;
        int code = rt_contiguous(ctx, a, a->dtype, &x, &sx);
        if (!code) code = rt_contiguous(ctx, b, b->dtype, &y, &sy);
        if (!code) same = same_elements(&x, &y, n);
        rt_scratch_free(ctx, sx);
        rt_scratch_free(ctx, sy);
        if (code) return code;
    }
    c->result->i = same;
    c->result->f = same;
    return RT_OK;
}
