/* k_fft.c: discrete Fourier transforms along dimensions: complex to complex, real to complex, complex to real.
 *
 * Every kernel is a walk along one dimension after the other. Lines are gathered from memory of any strides,
 * transformed in scratch memory and scattered back (rt_fft.h): several side by side where neighbours lie closer than
 * the numbers of a line, else one by one. Lengths with a large prime factor are turned into a convolution of a power of
 * two (Bluestein). Every line is read before it is written, so a transform may be made in place. */
#include "runtime/kernels.h"
#include "runtime/rt_fft.h"

#include <math.h>
#include <string.h>

enum { LARGEST_RADIX = 64, BLOCK_BYTES = 1 << 19, SHORTEST_SPLIT = 8, LONG = 1 << 10, FEW_NUMBERS = 1 << 12 };
enum { WHOLE_BYTES = 1 << 13, LEAST_WIDTH = 16 }; /* of a matrix's columns, so that four parts stay in the cache */
enum { NORM_NONE, NORM_ROOT, NORM_FULL };

typedef struct fft_loops {
    rt_fft_lines_fn *lines;
    rt_fft_filter_fn *filter;
} fft_loops;

static fft_loops loops_of(int dtype) {
#define LOOPS(set)                                                                                                   \
    {                                                                                                                \
        { rt__fft_lines_f32_##set, rt__fft_filter_f32_##set }, { rt__fft_lines_f64_##set, rt__fft_filter_f64_##set } \
    }
    static const fft_loops loops[][2] = {
        LOOPS(base),
#if defined(__x86_64__)
        LOOPS(avx2),
        LOOPS(avx512),
#endif
    };
#undef LOOPS
    uint32_t has = (int)(sizeof loops / sizeof *loops) > 1 ? rt_cpu() : 0;
    return loops[has & RT_CPU_AVX512 ? 2 : has & RT_CPU_AVX2 ? 1 : 0][dtype == RT_F64];
}

/* ---- tables ---- */

static void put(int dtype, void *table, int64_t at, double x) {
    if (dtype == RT_F64) ((double *)table)[at] = x;
    else ((float *)table)[at] = (float)x;
}

/* Cosine and sine of 2 pi k / n, k < n: exact for quarters, whose zeros are positive. */
static void unit(int64_t k, int64_t n, double *c, double *s) {
    int64_t quarter = 4 * k / n;
    double angle = 1.57079632679489661923 * ((double)(4 * k - quarter * n) / (double)n), x = cos(angle), y = sin(angle);
    *c = quarter == 0 ? x : quarter == 1 ? 0 - y : quarter == 2 ? -x : y;
    *s = quarter == 0 ? y : quarter == 1 ? x : quarter == 2 ? 0 - y : -x;
}

/* Short transforms in f64 have exactly rounded tables; others are made of products of few angles, in double. */
static bool wants_exact(int dtype, int64_t n) { return dtype == RT_F64 && n <= LONG; }

/* Cosines of 2 pi k / n for k < count <= n at the table's begin, sines `apart` behind. */
static void put_angles(int dtype, void *table, int64_t apart, int64_t count, int64_t n) {
    enum { FEW = 32 };
    double c[FEW], s[FEW], x, y;
    for (int64_t k = 0; k < FEW && k < count; k++) unit(k, n, &c[k], &s[k]);
    for (int64_t k = 0; k < count; k += FEW) {
        unit(k, n, &x, &y);
        for (int64_t i = 0; i < FEW && k + i < count; i++) {
            if (wants_exact(dtype, n)) unit(k + i, n, &x, &y), c[0] = 1, s[0] = 0;
            int64_t by = wants_exact(dtype, n) ? 0 : i;
            put(dtype, table, k + i, x * c[by] - y * s[by]);
            put(dtype, table, apart + k + i, x * s[by] + y * c[by]);
        }
    }
}

/* Cosines of 2 pi i k / n, i < rows and k < columns, and then their sines, n = rows * columns: i k is so many columns,
 * whose angle is one of `rows`, and a rest. */
static bool put_turns(const rt_ctx *ctx, int dtype, void *table, int64_t rows, int64_t columns) {
    int64_t n = rows * columns;
    double *c = rt_scratch(ctx, (size_t)(2 * (rows + columns)) * sizeof *c), *s = c + rows, *few = s + rows;
    if (!c) return false;
    for (int64_t k = 0; k < rows; k++) unit(k, rows, &c[k], &s[k]);
    for (int64_t k = 0; k < columns; k++) unit(k, n, &few[2 * k], &few[2 * k + 1]);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t k = 0, whole = 0, rest = 0; k < columns; k++) {
            double x = c[whole], y = s[whole], u = few[2 * rest], v = few[2 * rest + 1], re = x * u - y * v,
                   im = x * v + y * u;
            if (wants_exact(dtype, n)) unit(i * k, n, &re, &im);
            put(dtype, table, i * columns + k, re);
            put(dtype, table, n + i * columns + k, im);
            rest += i;
            if (rest >= columns) rest -= columns, whole++;
        }
    rt_scratch_free(ctx, c);
    return true;
}

/* ---- plans ---- */

/* Fewest passes for the twos, those of radix 8 last: the last pass is the cheapest. */
static int factorise(int64_t n, int *factor) {
    int count = 0, twos = 0;
    for (; n % 2 == 0; n /= 2) twos++;
    int passes = (twos + 2) / 3, eights = twos > 1 ? twos - 2 * passes : 0;
    for (int64_t r = 3; r <= LARGEST_RADIX && n > 1; r += 2)
        for (; n % r == 0; n /= r) factor[count++] = (int)r;
    for (int i = 0; i < passes; i++) factor[count++] = twos == 1 ? 2 : i < passes - eights ? 4 : 8;
    return n > 1 ? -1 : count;
}

static void plan_dispose(const rt_ctx *ctx, fft_plan *p) {
    if (!p) return;
    plan_dispose(ctx, p->inner);
    plan_dispose(ctx, p->first);
    plan_dispose(ctx, p->second);
    rt_scratch_free(ctx, p->chirp);
    rt_scratch_free(ctx, p->turns);
    rt_scratch_free(ctx, p->table);
    rt_scratch_free(ctx, p);
}

static fft_plan *plan_create(const rt_ctx *ctx, int dtype, int64_t n, bool single);

/* The power of two that a convolution of n numbers needs. */
static int64_t padded(int64_t n) {
    int64_t m = 1;
    while (m < 2 * n - 1) m *= 2;
    return m;
}

static bool plan_bluestein(const rt_ctx *ctx, int dtype, fft_plan *p, bool single) {
    int64_t n = p->n, m = padded(n), item = rt_itemsize(dtype);
    p->inner = plan_create(ctx, dtype, m, single);
    p->chirp = p->inner ? rt_scratch(ctx, (size_t)((2 * n + 2 * m + rt__fft_room(p->inner, 1)) * item)) : NULL;
    if (!p->chirp) return false;
    p->filter = (char *)p->chirp + 2 * n * item;
    memset(p->filter, 0, (size_t)(2 * m * item));
    for (int64_t k = 0; k < n; k++) {
        double c, s;
        unit((int64_t)((__int128)k * k % (2 * n)), 2 * n, &c, &s);
        put(dtype, p->chirp, k, c);
        put(dtype, p->chirp, n + k, -s);
        int64_t back = k ? m - k : 0;
        put(dtype, p->filter, k, c), put(dtype, p->filter, back, c);
        put(dtype, p->filter, m + k, s), put(dtype, p->filter, m + back, s);
    }
    loops_of(dtype).filter(p, (char *)p->filter + 2 * m * item);
    return true;
}

/* How much longer vectors make a loop of n steps, and what a matrix costs that is far from square. */
static double split_cost(int64_t rows, int64_t columns) {
    double row = (double)((rows + 15) / 16 * 16) / (double)rows,
           column = (double)((columns + 15) / 16 * 16) / (double)columns;
    return row * column + 0.05 * fabs(log2((double)rows / (double)columns));
}

/* The rows of the matrix that a line becomes, or 0. */
static int64_t split_rows(int64_t n) {
    int64_t best = 0;
    for (int64_t rows = SHORTEST_SPLIT; rows <= n / rows; rows++)
        if (n % rows == 0 && (!best || split_cost(rows, n / rows) < split_cost(best, n / best))) best = rows;
    return best;
}

static bool plan_split(const rt_ctx *ctx, int dtype, fft_plan *p, int64_t rows) {
    int64_t n = p->n, columns = n / rows;
    p->first = plan_create(ctx, dtype, rows, false);
    p->second = plan_create(ctx, dtype, columns, false);
    p->turns = rt_scratch(ctx, (size_t)(2 * n * rt_itemsize(dtype)));
    if (!p->first || !p->second || !p->turns || !put_turns(ctx, dtype, p->turns, rows, columns)) return false;
    if (n * rt_itemsize(dtype) > WHOLE_BYTES) {
        p->width = WHOLE_BYTES / rt_itemsize(dtype) / (rows > columns ? rows : columns);
        if (p->width < LEAST_WIDTH) p->width = LEAST_WIDTH;
    }
    return true;
}

/* single: lines come one by one. */
static fft_plan *plan_create(const rt_ctx *ctx, int dtype, int64_t n, bool single) {
    fft_plan *p = rt_scratch(ctx, sizeof *p);
    if (!p) return NULL;
    *p = (fft_plan){ .n = n, .dtype = dtype };
    p->nfactors = factorise(n, p->factor);
    int64_t rows = single && p->nfactors > 0 ? split_rows(n) : 0;
    bool ok;
    if (p->nfactors < 0) {
        ok = plan_bluestein(ctx, dtype, p, single);
    } else if (rows) {
        ok = plan_split(ctx, dtype, p, rows);
    } else {
        p->table = rt_scratch(ctx, (size_t)(2 * n * rt_itemsize(dtype)));
        ok = p->table != NULL;
        if (ok) put_angles(dtype, p->table, n, n, n);
    }
    if (ok) return p;
    plan_dispose(ctx, p);
    return NULL;
}

/* ---- one dimension ---- */

static int axis_blocks(void *arg, int64_t begin, int64_t end) {
    const fft_axis *a = arg;
    int dtype = a->plan->dtype;
    rt_fft_lines_fn *lines = loops_of(dtype).lines;
    void *memory = rt_scratch(a->ctx, (size_t)(rt__fft_room(a->plan, a->block) * rt_itemsize(dtype)));
    if (!memory) return rt_fail(a->ctx, RT_ENOMEM, "no memory for a transform of length %lld", (long long)a->n);
    for (int64_t i = begin; i < end; i++) {
        int64_t first = i * a->block, count = a->lines - first < a->block ? a->lines - first : a->block;
        lines(a, memory, first, count);
    }
    rt_scratch_free(a->ctx, memory);
    return RT_OK;
}

/* Transforms all lines of `in` along `dim` into `out`; other sizes are equal. */
static int transform_axis(const rt_ctx *ctx, fft_axis a) {
    a.ctx = ctx;
    a.lines = 1;
    int64_t closest = INT64_MAX;
    for (int d = 0; d < a.out->rank; d++) {
        if (d == a.dim) continue;
        a.lines *= a.out->size[d];
        if (a.out->size[d] > 1 && a.in->stride[d] < closest) closest = a.in->stride[d];
        int at = a.norder++;
        for (; at && a.in->stride[a.order[at - 1]] < a.in->stride[d]; at--) a.order[at] = a.order[at - 1];
        a.order[at] = d;
    }
    a.out_n = a.out->size[a.dim];
    if (!a.lines || !a.out_n) return RT_OK;
    int dtype = a.in->dtype == RT_F64 || a.in->dtype == RT_C128 ? RT_F64 : RT_F32;
    a.paired = (a.from_real || a.to_real) && a.n % 2 == 0;
    int64_t n = a.paired ? a.n / 2 : a.n;
    int factor[FFT_MOST_FACTORS];
    bool single = closest >= a.in->stride[a.dim] && split_rows(factorise(n, factor) < 0 ? padded(n) : n);
    fft_plan *p = plan_create(ctx, dtype, n, single);
    void *ends = p && a.paired ? rt_scratch(ctx, (size_t)(2 * n * rt_itemsize(dtype))) : NULL;
    int code = RT_OK;
    if (!p || (a.paired && !ends)) {
        code = rt_fail(ctx, RT_ENOMEM, "no memory for the tables of length %lld", (long long)a.n);
    } else {
        if (ends) put_angles(dtype, ends, n, n, a.n);
        a.plan = p;
        a.ends = ends;
        a.block = single ? 1 : BLOCK_BYTES / (4 * rt__fft_part(p, 1) * rt_itemsize(dtype));
        if (a.block > FFT_BLOCK) a.block = FFT_BLOCK;
        if (a.block < 1) a.block = 1;
        if (a.block > a.lines) a.block = a.lines;
        code = rt_parallel_work(ctx, (a.lines + a.block - 1) / a.block, a.n * a.block, 4096, axis_blocks, &a);
    }
    rt_scratch_free(ctx, ends);
    plan_dispose(ctx, p);
    return code;
}

static double scale_of(int64_t norm, double signal) {
    return norm == NORM_ROOT ? 1 / sqrt(signal) : norm == NORM_FULL ? 1 / signal : 1;
}

static int dims_of(const rt_call *c, int rank, int *dims) {
    int n = (int)c->arg[1].n;
    for (int i = 0; i < n; i++)
        dims[i] = (int)(c->arg[1].u.ints[i] < 0 ? c->arg[1].u.ints[i] + rank : c->arg[1].u.ints[i]);
    return n;
}

/* Few numbers of f32 are transformed in f64: that costs nothing then, and only many must take PyTorch's rounding. */
static bool are_few(const rt_view *v) {
    return rt_numel(v) <= FEW_NUMBERS && rt_itemsize(v->dtype) == (rt_is_complex(v->dtype) ? 8 : 4);
}
static int in_f64(const rt_ctx *ctx, const rt_call *c, rt_kernel *kernel) {
    const rt_view *self = rt_arg_view(c, 0), *out = c->out;
    int from = rt_is_complex(self->dtype) ? RT_C128 : RT_F64, to = rt_is_complex(out->dtype) ? RT_C128 : RT_F64;
    int64_t first = rt_numel(self) * rt_itemsize(from);
    char *memory = rt_scratch(ctx, (size_t)(first + rt_numel(out) * rt_itemsize(to)));
    if (!memory) return RT_ENOMEM;
    rt_view wide = rt_view_contiguous(memory, from, self->rank, self->size),
            made = rt_view_contiguous(memory + first, to, out->rank, out->size);
    rt_arg arg[4] = { { .kind = RT_ARG_VIEW, .u.view = &wide }, c->arg[1], c->arg[2], c->arg[3] };
    rt_call call = *c;
    call.arg = arg;
    call.out = &made;
    int code = rt_copy(ctx, &wide, self);
    if (!code) code = kernel(ctx, &call);
    if (!code) code = rt_copy(ctx, out, &made);
    rt_scratch_free(ctx, memory);
    return code;
}

/* self, dim, normalization, forward */
int rt_k_fft_c2c(const rt_ctx *ctx, const rt_call *c) {
    const rt_view *self = rt_arg_view(c, 0), *out = c->out;
    if (are_few(self)) return in_f64(ctx, c, rt_k_fft_c2c);
    int dims[RT_MAX_RANK], n = dims_of(c, self->rank, dims);
    double signal = 1;
    for (int i = 0; i < n; i++) signal *= (double)self->size[dims[i]];
    if (!n) return rt_copy(ctx, out, self);
    for (int i = n - 1; i >= 0; i--) {
        fft_axis a = { .in = i == n - 1 ? self : out,
                       .out = out,
                       .dim = dims[i],
                       .n = self->size[dims[i]],
                       .inverse = !rt_arg_int(c, 3),
                       .scale = i ? 1 : scale_of(rt_arg_int(c, 2), signal) };
        int code = transform_axis(ctx, a);
        if (code) return code;
    }
    return RT_OK;
}

/* self, dim, normalization, onesided: the last of the dims first, from real numbers; the others complex. */
int rt_k_fft_r2c(const rt_ctx *ctx, const rt_call *c) {
    const rt_view *self = rt_arg_view(c, 0), *out = c->out;
    if (are_few(self)) return in_f64(ctx, c, rt_k_fft_r2c);
    int dims[RT_MAX_RANK], n = dims_of(c, self->rank, dims);
    double signal = 1;
    for (int i = 0; i < n; i++) signal *= (double)self->size[dims[i]];
    for (int i = n - 1; i >= 0; i--) {
        fft_axis a = { .in = i == n - 1 ? self : out,
                       .out = out,
                       .dim = dims[i],
                       .n = self->size[dims[i]],
                       .from_real = i == n - 1,
                       .scale = i ? 1 : scale_of(rt_arg_int(c, 2), signal) };
        int code = transform_axis(ctx, a);
        if (code) return code;
    }
    return RT_OK;
}

/* self, dim, normalization, last_dim_size: the other dims first, complex, in scratch memory. */
int rt_k_fft_c2r(const rt_ctx *ctx, const rt_call *c) {
    const rt_view *self = rt_arg_view(c, 0), *out = c->out;
    if (are_few(self)) return in_f64(ctx, c, rt_k_fft_c2r);
    int dims[RT_MAX_RANK] = { 0 }, n = dims_of(c, self->rank, dims), last = dims[n - 1], code = RT_OK;
    int64_t size = rt_arg_int(c, 3);
    double signal = (double)size;
    for (int i = 0; i < n - 1; i++) signal *= (double)self->size[dims[i]];
    rt_view between = *self;
    void *memory = NULL;
    if (n > 1) {
        memory = rt_scratch(ctx, (size_t)(rt_numel(self) * rt_itemsize(self->dtype)));
        if (!memory) return rt_fail(ctx, RT_ENOMEM, "no memory for %lld numbers", (long long)rt_numel(self));
        between = rt_view_contiguous(memory, self->dtype, self->rank, self->size);
    }
    for (int i = n - 2; i >= 0 && !code; i--) {
        fft_axis a = { .in = i == n - 2 ? self : &between,
                       .out = &between,
                       .dim = dims[i],
                       .n = self->size[dims[i]],
                       .inverse = true,
                       .scale = 1 };
        code = transform_axis(ctx, a);
    }
    fft_axis a = { .in = &between,
                   .out = out,
                   .dim = last,
                   .n = size,
                   .inverse = true,
                   .to_real = true,
                   .scale = scale_of(rt_arg_int(c, 2), signal) };
    if (!code) code = transform_axis(ctx, a);
    rt_scratch_free(ctx, memory);
    return code;
}
