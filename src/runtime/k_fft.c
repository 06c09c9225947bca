/* k_fft.c: discrete Fourier transforms along dimensions: complex to complex, real to complex, complex to real.
 *
 * Every kernel is a walk along one dimension after the other. A block of lines is gathered from memory of any strides,
 * transformed in scratch memory and scattered back, so the passes (rt_fft_passes.h) see dense f64 numbers only. Lengths
 * with a large prime factor are turned into a convolution of a power of two (Bluestein). Every block is read before it
 * is written, so a transform may be made in place. */
#include "runtime/kernels.h"
#include "runtime/rt_fft.h"

#include <math.h>
#include <string.h>

enum { MAX_FACTORS = 64, LARGEST_RADIX = 64, BLOCK = 16, BLOCK_NUMBERS = 1 << 14 };
enum { NORM_NONE, NORM_ROOT, NORM_FULL };

/* A length's factors (4 first: its pass is the cheapest per number) and tables. */
typedef struct plan {
    int64_t n;
    int factor[MAX_FACTORS], nfactors;
    double *table;    /* n cosines and n sines */
    /* Bluestein: a longer transform of the power of two `m`, the chirp and its transform. */
    struct plan *inner;
    int64_t m;
    double *chirp_re, *chirp_im, *filter_re, *filter_im;
} plan;

static int factorise(int64_t n, int *factor) {
    int count = 0;
    for (; n % 4 == 0; n /= 4) factor[count++] = 4;
    for (; n % 2 == 0; n /= 2) factor[count++] = 2;
    for (int64_t r = 3; r <= LARGEST_RADIX && n > 1; r += 2)
        for (; n % r == 0; n /= r) factor[count++] = (int)r;
    return n > 1 ? -1 : count;
}

/* n cosines of 2 pi k / n, then n sines. The first quarter turn gives the others where n has quarters. */
static void make_table(double *table, int64_t n) {
    double *c = table, *s = table + n;
    int64_t quarter = n % 4 ? n : n / 4;
    for (int64_t k = 0; k < quarter; k++) {
        double angle = 6.283185307179586476925286766559 * (double)k / (double)n;
        c[k] = cos(angle);
        s[k] = sin(angle);
    }
    for (int64_t k = quarter; k < n; k++) c[k] = -s[k - quarter], s[k] = c[k - quarter];
}

static void plan_dispose(const rt_ctx *ctx, plan *p) {
    if (!p) return;
    plan_dispose(ctx, p->inner);
    rt_scratch_free(ctx, p->chirp_re);
    rt_scratch_free(ctx, p->table);
    rt_scratch_free(ctx, p);
}

static plan *plan_create(const rt_ctx *ctx, int64_t n);

/* exp(-i pi k^2 / n) turns the transform into a convolution with its own conjugate. */
static bool plan_bluestein(const rt_ctx *ctx, plan *p) {
    int64_t n = p->n;
    for (p->m = 1; p->m < 2 * n - 1;) p->m *= 2;
    p->inner = plan_create(ctx, p->m);
    p->chirp_re = rt_scratch(ctx, (size_t)(2 * n + 4 * p->m) * sizeof(double));
    if (!p->inner || !p->chirp_re) return false;
    p->chirp_im = p->chirp_re + n;
    p->filter_re = p->chirp_im + n;
    p->filter_im = p->filter_re + p->m;
    double *work = p->filter_im + p->m;
    memset(p->filter_re, 0, (size_t)(2 * p->m) * sizeof(double));
    for (int64_t k = 0; k < n; k++) {
        double angle = 3.14159265358979323846 * (double)((int64_t)((__int128)k * k % (2 * n))) / (double)n;
        p->chirp_re[k] = cos(angle);
        p->chirp_im[k] = -sin(angle);
        int64_t back = k ? p->m - k : 0;
        p->filter_re[k] = p->filter_re[back] = cos(angle);
        p->filter_im[k] = p->filter_im[back] = sin(angle);
    }
    fft_lines x = { p->filter_re, p->filter_im }, y = { work, work + p->m };
    fft_lines made = rt__fft_transform(p->m, p->inner->nfactors, p->inner->factor, p->inner->table, 1, x, y);
    if (made.re != x.re) memcpy(x.re, made.re, (size_t)(2 * p->m) * sizeof(double));
    return true;
}

static plan *plan_create(const rt_ctx *ctx, int64_t n) {
    plan *p = rt_scratch(ctx, sizeof *p);
    if (!p) return NULL;
    *p = (plan){ .n = n };
    p->nfactors = factorise(n, p->factor);
    bool ok;
    if (p->nfactors < 0) {
        ok = plan_bluestein(ctx, p);
    } else {
        p->table = rt_scratch(ctx, (size_t)(2 * n) * sizeof(double));
        ok = p->table != NULL;
        if (ok) make_table(p->table, n);
    }
    if (ok) return p;
    plan_dispose(ctx, p);
    return NULL;
}

/* Numbers of each of the two work areas' parts, for one line. */
static int64_t plan_room(const plan *p) { return p->inner ? p->m : p->n; }

static fft_lines run_bluestein(const plan *p, int64_t batch, fft_lines x, fft_lines y) {
    for (int64_t k = 0; k < p->n; k++) {
        double c = p->chirp_re[k], d = p->chirp_im[k];
        for (int64_t q = k * batch; q < (k + 1) * batch; q++) {
            double t = x.re[q];
            x.re[q] = t * c - x.im[q] * d;
            x.im[q] = t * d + x.im[q] * c;
        }
    }
    memset(x.re + p->n * batch, 0, (size_t)((p->m - p->n) * batch) * sizeof(double));
    memset(x.im + p->n * batch, 0, (size_t)((p->m - p->n) * batch) * sizeof(double));
    fft_lines z = rt__fft_transform(p->m, p->inner->nfactors, p->inner->factor, p->inner->table, batch, x, y);
    for (int64_t k = 0; k < p->m; k++) { /* times the filter; parts exchanged for the way back */
        double c = p->filter_re[k], d = p->filter_im[k];
        for (int64_t q = k * batch; q < (k + 1) * batch; q++) {
            double t = z.re[q];
            z.re[q] = t * d + z.im[q] * c;
            z.im[q] = t * c - z.im[q] * d;
        }
    }
    fft_lines back = rt__fft_transform(p->m, p->inner->nfactors, p->inner->factor, p->inner->table, batch, z,
                                       z.re == x.re ? y : x);
    double scale = 1 / (double)p->m;
    for (int64_t k = 0; k < p->n; k++) {
        double c = p->chirp_re[k] * scale, d = p->chirp_im[k] * scale;
        for (int64_t q = k * batch; q < (k + 1) * batch; q++) {
            double t = back.im[q];
            back.im[q] = t * d + back.re[q] * c;
            back.re[q] = t * c - back.re[q] * d;
        }
    }
    return back;
}

/* ---- one dimension ---- */

typedef struct axis {
    const rt_ctx *ctx;
    const rt_view *in, *out;
    const plan *plan;
    int dim, rank;
    int64_t n, in_n, out_n;    /* length, and how many numbers are read and written of it */
    bool inverse, hermitian;   /* hermitian: the other half of the input is the conjugate */
    double scale;
    int64_t lines, block;
    int order[RT_MAX_RANK], norder; /* the other dims, closest in memory last */
} axis;

static int64_t line_offset(const axis *a, const rt_view *v, int64_t line) {
    int64_t at = 0;
    for (int i = a->norder - 1; i >= 0; i--) {
        int d = a->order[i];
        at += line % a->out->size[d] * v->stride[d];
        line /= a->out->size[d];
    }
    return at;
}

/* Lines of any strides into the columns of [n][batch] and back, a few rows at a time: both sides stay in cache. */
enum { TILE = 8 };
#define GATHER(T)                                                                                                      \
    for (int64_t k0 = 0; k0 < a->in_n; k0 += TILE) {                                                                   \
        int64_t k1 = k0 + TILE < a->in_n ? k0 + TILE : a->in_n, stride = a->in->stride[a->dim] * parts;                \
        for (int64_t b = 0; b < batch; b++) {                                                                          \
            const T *from = (const T *)a->in->p + offset[b] * parts;                                                   \
            for (int64_t k = k0; k < k1; k++) {                                                                        \
                re[k * batch + b] = from[k * stride];                                                                  \
                im[k * batch + b] = parts == 2 ? from[k * stride + 1] : 0;                                             \
            }                                                                                                          \
        }                                                                                                              \
    }

#define SCATTER(T)                                                                                                     \
    for (int64_t k0 = 0; k0 < a->out_n; k0 += TILE) {                                                                  \
        int64_t k1 = k0 + TILE < a->out_n ? k0 + TILE : a->out_n, stride = a->out->stride[a->dim] * parts;             \
        for (int64_t b = 0; b < batch; b++) {                                                                          \
            T *to = (T *)a->out->p + offset[b] * parts;                                                                \
            for (int64_t k = k0; k < k1; k++) {                                                                        \
                to[k * stride] = (T)(re[k * batch + b] * a->scale);                                                    \
                if (parts == 2) to[k * stride + 1] = (T)(im[k * batch + b] * a->scale);                                \
            }                                                                                                          \
        }                                                                                                              \
    }

/* The half of the input that is not stored. Inverse: real parts lie in x.im. */
static void mirror(const axis *a, fft_lines x, int64_t batch, int64_t b) {
    x.re[b] = 0;
    if (a->n % 2 == 0) x.re[a->n / 2 * batch + b] = 0;
    for (int64_t k = a->n / 2 + 1; k < a->n; k++) {
        x.re[k * batch + b] = -x.re[(a->n - k) * batch + b];
        x.im[k * batch + b] = x.im[(a->n - k) * batch + b];
    }
}

static bool is_wide(int dtype) { return dtype == RT_F64 || dtype == RT_C128; }

static void transform_block(const axis *a, double *memory, int64_t first, int64_t batch) {
    int64_t room = plan_room(a->plan) * a->block, offset[BLOCK];
    const plan *p = a->plan;
    fft_lines x = { memory, memory + room }, y = { memory + 2 * room, memory + 3 * room };
    double *re = a->inverse ? x.im : x.re, *im = a->inverse ? x.re : x.im;
    int parts = rt_is_complex(a->in->dtype) ? 2 : 1;
    for (int64_t b = 0; b < batch; b++) offset[b] = line_offset(a, a->in, first + b);
    if (is_wide(a->in->dtype)) GATHER(double)
    else GATHER(float)
    for (int64_t b = 0; b < batch && a->hermitian; b++) mirror(a, x, batch, b);
    fft_lines z = p->inner ? run_bluestein(p, batch, x, y)
                           : rt__fft_transform(a->n, p->nfactors, p->factor, p->table, batch, x, y);
    re = a->inverse ? z.im : z.re, im = a->inverse ? z.re : z.im;
    parts = rt_is_complex(a->out->dtype) ? 2 : 1;
    for (int64_t b = 0; b < batch; b++) offset[b] = line_offset(a, a->out, first + b);
    if (is_wide(a->out->dtype)) SCATTER(double)
    else SCATTER(float)
}

static int axis_blocks(void *arg, int64_t begin, int64_t end) {
    const axis *a = arg;
    double *memory = rt_scratch(a->ctx, (size_t)(4 * plan_room(a->plan) * a->block) * sizeof *memory);
    if (!memory) return rt_fail(a->ctx, RT_ENOMEM, "no memory for a transform of length %lld", (long long)a->n);
    for (int64_t i = begin; i < end; i++) {
        int64_t first = i * a->block, batch = a->lines - first < a->block ? a->lines - first : a->block;
        transform_block(a, memory, first, batch);
    }
    rt_scratch_free(a->ctx, memory);
    return RT_OK;
}

/* Transforms all lines of `in` along `dim` into `out`; other sizes are equal. */
static int transform_axis(const rt_ctx *ctx, axis a) {
    a.ctx = ctx;
    a.rank = a.out->rank;
    a.lines = 1;
    for (int d = 0; d < a.rank; d++) {
        if (d == a.dim) continue;
        a.lines *= a.out->size[d];
        int at = a.norder++;
        for (; at && a.in->stride[a.order[at - 1]] < a.in->stride[d]; at--) a.order[at] = a.order[at - 1];
        a.order[at] = d;
    }
    a.out_n = a.out->size[a.dim];
    if (!a.in_n) a.in_n = a.in->size[a.dim];
    if (!a.lines || !a.out_n) return RT_OK;
    plan *p = plan_create(ctx, a.n);
    if (!p) return rt_fail(ctx, RT_ENOMEM, "no memory for the tables of length %lld", (long long)a.n);
    a.plan = p;
    a.block = BLOCK_NUMBERS / plan_room(p);
    if (a.block > BLOCK) a.block = BLOCK;
    if (a.block < 1) a.block = 1;
    if (a.block > a.lines) a.block = a.lines;
    int code = rt_parallel_work(ctx, (a.lines + a.block - 1) / a.block, a.n * a.block, 4096, axis_blocks, &a);
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

/* self, dim, normalization, forward */
int rt_k_fft_c2c(const rt_ctx *ctx, const rt_call *c) {
    const rt_view *self = rt_arg_view(c, 0), *out = c->out;
    int dims[RT_MAX_RANK], n = dims_of(c, self->rank, dims);
    double signal = 1;
    for (int i = 0; i < n; i++) signal *= (double)self->size[dims[i]];
    if (!n) return rt_copy(ctx, out, self);
    for (int i = n - 1; i >= 0; i--) {
        axis a = { .in = i == n - 1 ? self : out,
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
    int dims[RT_MAX_RANK], n = dims_of(c, self->rank, dims);
    double signal = 1;
    for (int i = 0; i < n; i++) signal *= (double)self->size[dims[i]];
    for (int i = n - 1; i >= 0; i--) {
        axis a = { .in = i == n - 1 ? self : out, .out = out, .dim = dims[i], .n = self->size[dims[i]],
                   .scale = i ? 1 : scale_of(rt_arg_int(c, 2), signal) };
        int code = transform_axis(ctx, a);
        if (code) return code;
    }
    return RT_OK;
}

/* self, dim, normalization, last_dim_size: the other dims first, complex, in scratch memory. */
int rt_k_fft_c2r(const rt_ctx *ctx, const rt_call *c) {
    const rt_view *self = rt_arg_view(c, 0), *out = c->out;
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
        axis a = { .in = i == n - 2 ? self : &between,
                   .out = &between,
                   .dim = dims[i],
                   .n = self->size[dims[i]],
                   .inverse = true,
                   .scale = 1 };
        code = transform_axis(ctx, a);
    }
    axis a = { .in = &between,
               .out = out,
               .dim = last,
               .n = size,
               .in_n = size / 2 + 1,
               .inverse = true,
               .hermitian = true,
               .scale = scale_of(rt_arg_int(c, 2), signal) };
    if (!code) code = transform_axis(ctx, a);
    rt_scratch_free(ctx, memory);
    return code;
}
