/* k_logsumexp.c: the logarithm of a sum of exponentials along dimensions.
 *
 * The reduced dimensions are brought to the end and each row's maximum is subtracted first, so nothing overflows. */
#include "runtime/gemm_isa.h"
#include "runtime/kernels.h"
#include "runtime/rt_reduce.h"

#include <complex.h>
#include <math.h>
#include <string.h>

typedef float _Complex c64;
typedef double _Complex c128;

typedef struct work {
    const char *rows;
    char *out;
    int64_t n, item;
    int compute;
} work;

/* The exponentials by the loops of the instruction set that softmax uses, a block at a time. */
static float f32_row(const float *x, int64_t n) {
    enum { BLOCK = 1024 };
    const gemm_kind *kind = gemm_kind_get(RT_F32);
    float block[BLOCK];
    double top = n ? kind->most(x, n) : -INFINITY, shift = isinf(top) ? 0 : top, sum = 0;
    if (top != top || top == INFINITY) return (float)top;
    for (int64_t i = 0; i < n; i += BLOCK) {
        int64_t count = n - i < BLOCK ? n - i : BLOCK;
        memcpy(block, x + i, (size_t)count * sizeof *block);
        sum += kind->exps(block, count, 1, shift);
    }
    return (float)(log(sum) + shift);
}

static double f64_row(const double *x, int64_t n) {
    double top = -INFINITY, s = 0;
    for (int64_t i = 0; i < n && top == top; i++) top = x[i] > top || x[i] != x[i] ? x[i] : top;
    double shift = isinf(top) ? 0 : top;
    for (int64_t i = 0; i < n; i++) s += exp(x[i] - shift);
    return log(s) + shift;
}

#define COMPLEX_ROW(name, T)                                                                                           \
    static T name(const T *x, int64_t n) {                                                                             \
        double top = -INFINITY;                                                                                        \
        for (int64_t i = 0; i < n; i++)                                                                                \
            if (__real__ x[i] > top) top = __real__ x[i];                                                              \
        double shift = isinf(top) ? 0 : top;                                                                           \
        c128 s = 0;                                                                                                    \
        for (int64_t i = 0; i < n; i++) s += cexp((c128)x[i] - shift);                                                 \
        return (T)(clog(s) + shift);                                                                                   \
    }
COMPLEX_ROW(c64_row, c64)
COMPLEX_ROW(c128_row, c128)

static int run_rows(void *arg, int64_t begin, int64_t end) {
    const work *w = arg;
    for (int64_t r = begin; r < end; r++) {
        const void *x = w->rows + r * w->n * w->item;
        void *out = w->out + r * w->item;
        switch (w->compute) {
        case RT_F32: *(float *)out = f32_row(x, w->n); break;
        case RT_F64: *(double *)out = f64_row(x, w->n); break;
        case RT_C64: *(c64 *)out = c64_row(x, w->n); break;
        default: *(c128 *)out = c128_row(x, w->n); break;
        }
    }
    return RT_OK;
}

int rt_k_logsumexp(const rt_ctx *ctx, const rt_call *c) { /* self, dim, keepdim */
    const rt_view *self = rt_arg_view(c, 0), *out = &c->out[0];
    uint32_t mask = rt_arg_dims(c, 1, self->rank);
    rt_view rows = *self, flat, results;
    void *scratch = NULL;
    int64_t count = rt_numel(out);
    if (!count) return RT_OK;
    work w = { .n = 1, .compute = rt_compute_dtype(out->dtype) };
    w.item = rt_itemsize(w.compute);
    int at = 0;
    for (unsigned reduced = 0; reduced < 2; reduced++)
        for (int d = 0; d < self->rank; d++) {
            if ((mask >> d & 1) != reduced) continue;
            rows.size[at] = self->size[d];
            rows.stride[at++] = self->stride[d];
            if (reduced) w.n *= self->size[d];
        }
    int code = rt_contiguous(ctx, &rows, w.compute, &flat, &scratch);
    if (code) return code;
    w.rows = flat.p;
    w.out = rt_scratch(ctx, (size_t)(count * w.item));
    code = w.out ? rt_parallel_work(ctx, count, w.n, 4096, run_rows, &w) : RT_ENOMEM;
    results = rt_view_contiguous(w.out, w.compute, out->rank, out->size);
    if (!code) code = rt_copy(ctx, out, &results);
    rt_scratch_free(ctx, w.out);
    rt_scratch_free(ctx, scratch);
    return code;
}
