/* k_renorm.c: rows of an embedding that are named and too long are cut to a length. */
#include "runtime/kernels.h"

#include <complex.h>
#include <math.h>
#include <string.h>

typedef struct renorm {
    const rt_ctx *ctx;
    const rt_view *out;
    const int64_t *rows;
    double most, order;
} renorm;

enum { PART = 256 };

static double term(double size, double order) {
    return order == 2 ? size * size : order == 1 ? size : order == 0 ? size != 0 : pow(size, order);
}

static double add_term(double sum, double size, double order) {
    if (order == INFINITY) return sum != sum || sum > size ? sum : size;
    if (order == -INFINITY) return sum != sum || sum < size ? sum : size;
    return sum + term(size, order);
}

/* Parts of a row as doubles, or pairs of them. */
static double length_of(const renorm *w, const char *row) {
    const rt_view *v = w->out;
    bool pairs = rt_is_complex(v->dtype);
    double part[2 * PART], sum = w->order == -INFINITY ? INFINITY : 0, order = w->order;
    int64_t item = rt_itemsize(v->dtype), width = v->size[1];
    for (int64_t at = 0; at < width; at += PART) {
        int64_t n = width - at < PART ? width - at : PART;
        rt_convert(pairs ? RT_C128 : RT_F64, part, 1, v->dtype, row + at * v->stride[1] * item, v->stride[1], n);
        for (int64_t i = 0; pairs && i < n; i++) part[i] = hypot(part[2 * i], part[2 * i + 1]);
        if (order == 2)
            for (int64_t i = 0; i < n; i++) sum += part[i] * part[i];
        else
            for (int64_t i = 0; i < n; i++) sum = add_term(sum, fabs(part[i]), order);
    }
    bool rooted = order != 1 && order != 0 && !isinf(order);
    return order == 2 ? sqrt(sum) : rooted ? pow(sum, 1 / order) : sum;
}

/* Integers become what is left of them without fractions. */
static void scale_row(const rt_view *v, char *row, double by) {
    bool pairs = rt_is_complex(v->dtype), whole = !pairs && !rt_is_float(v->dtype);
    double part[2 * PART];
    int64_t cut[PART], item = rt_itemsize(v->dtype), width = v->size[1];
    for (int64_t at = 0; at < width; at += PART) {
        int64_t n = width - at < PART ? width - at : PART;
        char *p = row + at * v->stride[1] * item;
        rt_convert(pairs ? RT_C128 : RT_F64, part, 1, v->dtype, p, v->stride[1], n);
        for (int64_t i = 0; i < (pairs ? 2 * n : n); i++) part[i] *= by;
        if (whole) rt_convert(RT_I64, cut, 1, RT_F64, part, 1, n);
        if (whole) rt_convert(v->dtype, p, v->stride[1], RT_I64, cut, 1, n);
        else rt_convert(v->dtype, p, v->stride[1], pairs ? RT_C128 : RT_F64, part, 1, n);
    }
}

static int shorten(void *arg, int64_t begin, int64_t end) {
    const renorm *w = arg;
    int64_t bytes = w->out->stride[0] * rt_itemsize(w->out->dtype);
    for (int64_t i = begin; i < end; i++) {
        char *row = (char *)w->out->p + w->rows[i] * bytes;
        double length = length_of(w, row);
        if (length > w->most) scale_row(w->out, row, w->most / (length + 1e-7));
    }
    return RT_OK;
}

/* self (in out[0], which is changed), indices, max_norm, norm_type */
RT_KERNEL(rt_k_embedding_renorm) {
    const rt_view *out = &c->out[0];
    rt_view index = { 0 };
    void *scratch = NULL;
    int64_t n = rt_numel(rt_arg_view(c, 1)), many = 0, total = out->size[0];
    renorm w = { .ctx = ctx, .out = out, .most = rt_arg_float(c, 2), .order = rt_arg_float(c, 3) };
    int code = rt_contiguous(ctx, rt_arg_view(c, 1), RT_I64, &index, &scratch);
    int64_t *rows = rt_scratch(ctx, (size_t)total * (sizeof *rows + 1));
    if (!code && !rows) code = RT_ENOMEM;
    if (!code) {
        char *seen = (char *)(rows + total);
        memset(seen, 0, (size_t)total);
        for (int64_t i = 0; i < n && !code; i++) {
            int64_t at = ((const int64_t *)index.p)[i];
            if (at < 0 || at >= total)
                code = rt_fail(ctx, RT_EINDEX, "index %lld is out of range for %lld rows", (long long)at,
                               (long long)total);
            else if (!seen[at]) seen[at] = 1, rows[many++] = at;
        }
    }
    w.rows = rows;
    if (!code) code = rt_parallel_work(ctx, many, out->size[1], 4096, shorten, &w);
    rt_scratch_free(ctx, rows);
    rt_scratch_free(ctx, scratch);
    return code;
}
