/* rt_copy.c: moves elements between views of any strides and dtypes.
 *
 * A copy is first brought to a normal form: src broadcast to dst's shape, dimensions of size 1 dropped, the others in
 * the order dst lies in memory, neighbours merged where both sides step through them as one. What remains picks the
 * loop: rows of memcpy, rows of equal elements, rows read backwards, a tiled transpose when src's dense dimension is
 * another than dst's, or strided rows; rows of different dtypes go through rt_convert. Any range of the elements, in
 * that order, can be copied on its own, which is how threads share the work. */
#include "runtime/rt_box.h"

#include <math.h>

#include <string.h>

enum { PARALLEL_GRAIN_BYTES = 32 * 1024, TILE = 32, SHORT_BYTES = 64, SHORT = 16 };

typedef struct plan {
    char *dst;
    const char *src;
    int64_t size[RT_BOX_RANK], ds[RT_BOX_RANK], ss[RT_BOX_RANK]; /* strides in elements; those of src of any sign */
    int64_t dst_bytes, src_bytes;
    int rank, dst_dtype, src_dtype;
    int across; /* transpose: the dimension along which src is dense; -1: rows */
} plan;

/* dst and src of equal element size whose bits need no change. */
static bool same_bits(const plan *p) { return p->dst_dtype == p->src_dtype; }

/* One more dimension, at its place in the order of dst. */
static void plan_push(plan *p, int64_t size, int64_t to, int64_t from) {
    if (size == 1) return;
    int at = p->rank++;
    for (; at > 0 && p->ds[at - 1] < to; at--) {
        p->size[at] = p->size[at - 1];
        p->ds[at] = p->ds[at - 1];
        p->ss[at] = p->ss[at - 1];
    }
    p->size[at] = size;
    p->ds[at] = to;
    p->ss[at] = from;
}

static void plan_merge(plan *p) {
    int kept = 0;
    for (int d = 0; d < p->rank; d++) {
        if (kept && p->ds[kept - 1] == p->size[d] * p->ds[d] && p->ss[kept - 1] == p->size[d] * p->ss[d]) {
            p->size[kept - 1] *= p->size[d];
        } else {
            p->size[kept] = p->size[d];
            kept++;
        }
        p->ds[kept - 1] = p->ds[d];
        p->ss[kept - 1] = p->ss[d];
    }
    if (!kept) {
        p->size[0] = 1;
        p->ds[0] = p->ss[0] = 1;
        kept = 1;
    }
    p->rank = kept;
}

/* ---- rows ---- */

typedef struct { uint64_t half[2]; } item16;
typedef uint32_t u32x4 __attribute__((vector_size(16), aligned(4), may_alias));
#if defined(__clang__)
#define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
typedef uint32_t u32x4_index __attribute__((vector_size(16)));
#define SHUFFLE(a, b, ...) __builtin_shuffle(a, b, (u32x4_index){ __VA_ARGS__ })
#endif

/* `m` rows of `n` elements: strides dm and sm from row to row, ds and ss inside of them. */
#define STRIDED(T)                                                                                                     \
    for (int64_t r = 0; r < m; r++) {                                                                                  \
        T *y = (T *)(void *)dst + r * dm;                                                                              \
        const T *x = (const T *)(const void *)src + r * sm;                                                            \
        for (int64_t i = 0; i < n; i++) y[i * ds] = x[i * ss];                                                         \
    }                                                                                                                  \
    return;

static void strided_rows(int64_t bytes, char *dst, int64_t dm, int64_t ds, const char *src, int64_t sm, int64_t ss,
                         int64_t m, int64_t n) {
    switch (bytes) {
    case 1: STRIDED(uint8_t)
    case 2: STRIDED(uint16_t)
    case 4: STRIDED(uint32_t)
    case 8: STRIDED(uint64_t)
    default: STRIDED(item16)
    }
}

static bool is_zero(const char *p, int64_t bytes) {
    for (int64_t i = 0; i < bytes; i++)
        if (p[i]) return false;
    return true;
}

/* n elements that equal the one at src: a vector's worth of them again and again. */
static void repeat_row(char *dst, const char *src, int64_t n, int64_t bytes) {
    _Alignas(16) char vector[16];
    if (bytes == 1 || is_zero(src, bytes)) {
        memset(dst, *src, (size_t)(n * bytes));
        return;
    }
    for (int64_t i = 0; i < 16; i += bytes) memcpy(vector + i, src, (size_t)bytes);
    int64_t total = n * bytes, i = 0;
    for (; i + 16 <= total; i += 16) memcpy(dst + i, vector, 16);
    memcpy(dst + i, vector, (size_t)(total - i));
}

/* The elements of a vector turned around: its words, then the halves of each, then the bytes of each half. */
static inline u32x4 turn_around(u32x4 v, int64_t bytes) {
    if (bytes == 8) return SHUFFLE(v, v, 2, 3, 0, 1);
    v = SHUFFLE(v, v, 3, 2, 1, 0);
    if (bytes <= 2) v = v << 16 | v >> 16;
    if (bytes == 1) v = (v & 0x00ff00ff) << 8 | (v >> 8 & 0x00ff00ff);
    return v;
}

/* y[i] = x[-i] */
static void copy_backwards(char *y, const char *x, int64_t n, int64_t bytes) {
    int64_t per = 16 / bytes, i = 0;
    for (; bytes <= 8 && i + per <= n; i += per) {
        u32x4 v;
        memcpy(&v, x - (i + per - 1) * bytes, 16);
        v = turn_around(v, bytes);
        memcpy(y + i * bytes, &v, 16);
    }
    strided_rows(bytes, y + i * bytes, 0, 1, x - i * bytes, 0, -1, 1, n - i);
}

/* `m` whole rows, or a part of one. */
static void copy_rows(const plan *p, char *dst, const char *src, int64_t m, int64_t n) {
    int last = p->rank - 1;
    int64_t ds = p->ds[last], ss = p->ss[last], bytes = p->dst_bytes;
    int64_t dm = last ? p->ds[last - 1] : 0, sm = last ? p->ss[last - 1] : 0;
    bool dense = ds == 1 && ss >= -1 && ss <= 1 && n * bytes >= SHORT_BYTES;
    if (same_bits(p) && !dense) {
        strided_rows(bytes, dst, dm, ds, src, sm, ss, m, n);
        return;
    }
    for (int64_t r = 0; r < m; r++, dst += dm * bytes, src += sm * p->src_bytes) {
        if (!same_bits(p)) rt_convert(p->dst_dtype, dst, ds, p->src_dtype, src, ss, n);
        else if (ss == 1) memcpy(dst, src, (size_t)(n * bytes));
        else if (ss == 0) repeat_row(dst, src, n, bytes);
        else copy_backwards(dst, src, n, bytes);
    }
}

/* Elements [begin, end) in the plan's order. */
static int copy_range(void *arg, int64_t begin, int64_t end) {
    const plan *p = arg;
    int64_t index[RT_BOX_RANK], rest = begin;
    char *dst = p->dst;
    const char *src = p->src;
    int last = p->rank - 1;
    for (int d = last; d >= 0; d--) {
        index[d] = rest % p->size[d];
        rest /= p->size[d];
        dst += index[d] * p->ds[d] * p->dst_bytes;
        src += index[d] * p->ss[d] * p->src_bytes;
    }
    for (int64_t at = begin; at < end;) {
        int64_t n = p->size[last] - index[last], rows = 1;
        if (n > end - at) n = end - at;
        if (last && n == p->size[last]) {
            rows = p->size[last - 1] - index[last - 1];
            if (rows > (end - at) / n) rows = (end - at) / n;
        }
        copy_rows(p, dst, src, rows, n);
        at += rows * n;
        if (at >= end || !last) break;
        /* To the start of the next row. */
        dst += (rows * p->ds[last - 1] - index[last] * p->ds[last]) * p->dst_bytes;
        src += (rows * p->ss[last - 1] - index[last] * p->ss[last]) * p->src_bytes;
        index[last] = 0;
        index[last - 1] += rows;
        for (int d = last - 1; index[d] == p->size[d] && d > 0; d--) {
            dst += (p->ds[d - 1] - p->size[d] * p->ds[d]) * p->dst_bytes;
            src += (p->ss[d - 1] - p->size[d] * p->ss[d]) * p->src_bytes;
            index[d] = 0;
            index[d - 1]++;
        }
    }
    return RT_OK;
}

/* ---- transpose: dst dense along the last dimension, src dense along `across` ---- */

static void transpose_4x4(uint32_t *y, int64_t ds, const uint32_t *x, int64_t ss) {
    u32x4 a = *(const u32x4 *)x, b = *(const u32x4 *)(x + ss);
    u32x4 c = *(const u32x4 *)(x + 2 * ss), d = *(const u32x4 *)(x + 3 * ss);
    u32x4 ab = SHUFFLE(a, b, 0, 4, 1, 5), cd = SHUFFLE(c, d, 0, 4, 1, 5);
    *(u32x4 *)y = SHUFFLE(ab, cd, 0, 1, 4, 5);
    *(u32x4 *)(y + ds) = SHUFFLE(ab, cd, 2, 3, 6, 7);
    ab = SHUFFLE(a, b, 2, 6, 3, 7), cd = SHUFFLE(c, d, 2, 6, 3, 7);
    *(u32x4 *)(y + 2 * ds) = SHUFFLE(ab, cd, 0, 1, 4, 5);
    *(u32x4 *)(y + 3 * ds) = SHUFFLE(ab, cd, 2, 3, 6, 7);
}

/* dst[r][c] = src[c][r], r < rows, c < cols; ds and ss step one row of dst and one row of src. */
static void transpose_tile(int64_t bytes, char *dst, int64_t ds, const char *src, int64_t ss, int64_t rows,
                           int64_t cols) {
    if (bytes == 4) {
        uint32_t *y = (uint32_t *)(void *)dst;
        const uint32_t *x = (const uint32_t *)(const void *)src;
        int64_t r = 0;
        for (; r + 4 <= rows; r += 4) {
            int64_t c = 0;
            for (; c + 4 <= cols; c += 4) transpose_4x4(y + r * ds + c, ds, x + c * ss + r, ss);
            for (; c < cols; c++)
                for (int64_t k = r; k < r + 4; k++) y[k * ds + c] = x[c * ss + k];
        }
        for (; r < rows; r++)
            for (int64_t c = 0; c < cols; c++) y[r * ds + c] = x[c * ss + r];
    } else {
        strided_rows(bytes, dst, ds, 1, src, 1, ss, rows, cols);
    }
}

/* Chooses the transpose for copies worth it. */
static int across_dim(const plan *p) {
    int last = p->rank - 1;
    if (!same_bits(p) || p->ds[last] != 1 || p->ss[last] <= 1 || p->size[last] < 4) return -1;
    for (int d = 0; d < last; d++)
        if (p->ss[d] == 1 && p->size[d] >= 4) return d;
    return -1;
}

/* One unit of work is one tile-high strip: TILE steps of `across`, all of the last dimension. */
static int64_t transpose_strips(const plan *p) {
    int64_t n = (p->size[p->across] + TILE - 1) / TILE;
    for (int d = 0; d < p->rank - 1; d++)
        if (d != p->across) n *= p->size[d];
    return n;
}

static int transpose_range(void *arg, int64_t begin, int64_t end) {
    const plan *p = arg;
    int last = p->rank - 1;
    int64_t strips = (p->size[p->across] + TILE - 1) / TILE, width = p->size[last];
    for (int64_t unit = begin; unit < end; unit++) {
        int64_t row = unit % strips * TILE, rest = unit / strips;
        char *dst = p->dst + row * p->ds[p->across] * p->dst_bytes;
        const char *src = p->src + row * p->src_bytes;
        for (int d = last - 1; d >= 0; d--) {
            if (d == p->across) continue;
            dst += rest % p->size[d] * p->ds[d] * p->dst_bytes;
            src += rest % p->size[d] * p->ss[d] * p->src_bytes;
            rest /= p->size[d];
        }
        int64_t rows = p->size[p->across] - row < TILE ? p->size[p->across] - row : TILE;
        for (int64_t c = 0; c < width; c += TILE)
            transpose_tile(p->dst_bytes, dst + c * p->dst_bytes, p->ds[p->across], src + c * p->ss[last] * p->src_bytes,
                           p->ss[last], rows, width - c < TILE ? width - c : TILE);
    }
    return RT_OK;
}

static int run_plan(const rt_ctx *ctx, plan *p, int64_t n) {
    p->dst_bytes = rt_itemsize(p->dst_dtype);
    p->src_bytes = rt_itemsize(p->src_dtype);
    plan_merge(p);
    if (n <= SHORT && p->rank == 1 && same_bits(p) && p->ds[0] == 1 && p->ss[0] == 1) /* nothing to share */
        return memmove(p->dst, p->src, (size_t)(n * p->dst_bytes)), RT_OK;
    p->across = across_dim(p);
    if (p->across >= 0) {
        int64_t strips = transpose_strips(p), bytes = n / strips * p->dst_bytes;
        return rt_parallel_work(ctx, strips, bytes, PARALLEL_GRAIN_BYTES, transpose_range, p);
    }
    int64_t widest = p->dst_bytes > p->src_bytes ? p->dst_bytes : p->src_bytes;
    return rt_parallel_for(ctx, n, PARALLEL_GRAIN_BYTES / widest, copy_range, p);
}

/* Is one the other's bytes in the same order? */
static bool is_block(const rt_view *dst, const rt_view *src) {
    bool same = dst->rank == src->rank && dst->dtype == src->dtype;
    int64_t step = 1;
    for (int d = dst->rank; same && d--;) {
        int64_t n = dst->size[d];
        same = n == src->size[d] && (n == 1 || (dst->stride[d] == step && src->stride[d] == step));
        step *= n;
    }
    return same;
}

int rt_copy(const rt_ctx *ctx, const rt_view *dst, const rt_view *src) {
    int64_t n = rt_numel(dst);
    if (n == 0) return RT_OK;
    if (n <= SHORT && is_block(dst, src)) /* less than a plan takes */
        return memmove(dst->p, src->p, (size_t)(n * rt_itemsize(dst->dtype))), RT_OK;
    plan p; /* dimensions are written as they come */
    p.dst = dst->p, p.src = src->p, p.dst_dtype = dst->dtype, p.src_dtype = src->dtype, p.rank = 0;
    for (int d = 0; d < dst->rank; d++) {
        int from = d - (dst->rank - src->rank);
        plan_push(&p, dst->size[d], dst->stride[d], from >= 0 && src->size[from] != 1 ? src->stride[from] : 0);
    }
    return run_plan(ctx, &p, n);
}

int rt_box_copy(const rt_ctx *ctx, const rt_box *box) {
    int64_t n = 1;
    for (int d = 0; d < box->rank; d++) n *= box->size[d];
    if (n == 0) return RT_OK;
    plan p;
    p.dst = box->dst, p.src = box->src, p.dst_dtype = p.src_dtype = box->dtype, p.rank = 0;
    for (int d = 0; d < box->rank; d++) plan_push(&p, box->size[d], box->to[d], box->from[d]);
    return run_plan(ctx, &p, n);
}

int rt_fill(const rt_ctx *ctx, const rt_view *dst, rt_scalar value) {
    _Alignas(16) char item[16];
    double complex_value[2] = { value.f, value.im };
    if (value.kind == RT_ARG_INT) rt_convert(dst->dtype, item, 1, RT_I64, &value.i, 1, 1);
    else if (value.kind == RT_ARG_COMPLEX) rt_convert(dst->dtype, item, 1, RT_C128, complex_value, 1, 1);
    else rt_convert(dst->dtype, item, 1, RT_F64, &value.f, 1, 1);
    rt_view one = { .p = item, .dtype = dst->dtype };
    return rt_copy(ctx, dst, &one);
}

int rt_contiguous(const rt_ctx *ctx, const rt_view *v, int dtype, rt_view *out, void **scratch) {
    *scratch = NULL;
    if (v->dtype == dtype && rt_is_contiguous(v)) {
        *out = rt_view_contiguous(v->p, dtype, v->rank, v->size);
        return RT_OK;
    }
    void *p = rt_scratch(ctx, (size_t)(rt_numel(v) * rt_itemsize(dtype)));
    if (!p) return rt_fail(ctx, RT_ENOMEM, "out of memory for a contiguous copy");
    *out = rt_view_contiguous(p, dtype, v->rank, v->size);
    int code = rt_copy(ctx, out, v);
    if (code) rt_scratch_free(ctx, p);
    else *scratch = p;
    return code;
}

/* Negative numbers wrap into unsigned dtypes; infinities and NaN are numbers of every floating dtype. */
static bool number_fits(int dtype, rt_scalar v) {
    if (dtype == RT_BOOL) return true;
    if (v.kind == RT_ARG_COMPLEX && v.im != 0 && !rt_is_complex(dtype)) return false;
    double x = v.kind == RT_ARG_INT ? (double)v.i : v.f;
    if (rt_is_integer(dtype)) {
        if (v.kind == RT_ARG_INT && dtype == RT_I64) return true;
        double limit = ldexp(1, 8 * (int)rt_itemsize(dtype) - (rt_is_unsigned(dtype) ? 0 : 1));
        return x < limit && (rt_is_unsigned(dtype) ? x > -limit : x >= -limit);
    }
    static const double largest[RT_DTYPE_COUNT] = {
        [RT_F16] = 65504, [RT_C32] = 65504, [RT_F32] = 0x1.fffffep127, [RT_C64] = 0x1.fffffep127, [RT_BF16] = 0x1.fep127
    };
    double limit = largest[dtype];
    return limit == 0 ||
           ((isinf(x) || !(fabs(x) > limit)) && (isinf(v.im) || v.kind != RT_ARG_COMPLEX || !(fabs(v.im) > limit)));
}

int rt_fill_number(const rt_ctx *ctx, const rt_view *dst, rt_scalar value) {
    if (!number_fits(dst->dtype, value))
        return rt_fail(ctx, RT_ERUNTIME, "the value cannot be converted to the tensor's dtype without overflow");
    return rt_fill(ctx, dst, value);
}
