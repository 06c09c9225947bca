/* conv_weight.c: the partial with respect to the weights, one product per group:
 *
 *     w[o, (c, t)] = sum over (n, p) of y[o, (n, p)] * image[(n, p), (c, t)]
 *
 * over the same padded image as the forward product, read the other way round: a panel holds 16 taps, and its rows are
 * positions. y is brought to [o, (n, p)] in the compute type, so that a whole batch is one long sum; batches whose
 * image is too large go piece by piece into sums of the compute type, rounded once at the end; where w can hold them,
 * they are made there. */
#include "runtime/conv_image.h"
#include "runtime/gemm_transpose.h"

typedef struct job {
    const rt_conv *v;
    conv_image image;
    int64_t *tap; /* elements */
    int64_t positions, group;
} job;

/* rows by count <= 16 elements: out[r][j] = x[at[j] + r]. */
static void rows_fill4(uint32_t *out, const uint32_t *x, const int64_t *at, int64_t count, int64_t rows) {
    enum { WIDTH = RT_PANEL_BYTES / 4 };
    int64_t whole = rows / 4 * 4, j = 0;
    for (; j + 4 <= count; j += 4)
        for (int64_t r = 0; r < whole; r += 4)
            transpose4(out + r * WIDTH + j, WIDTH, x + at[j] + r, x + at[j + 1] + r, x + at[j + 2] + r,
                       x + at[j + 3] + r);
    for (int64_t q = 0; q < count; q++)
        for (int64_t r = q < j ? whole : 0; r < rows; r++) out[r * WIDTH + q] = x[at[q] + r];
}

static void rows_fill8(uint64_t *out, const uint64_t *x, const int64_t *at, int64_t count, int64_t rows) {
    for (int64_t j = 0; j < count; j++)
        for (int64_t r = 0; r < rows; r++) out[r * (RT_PANEL_BYTES / 8) + j] = x[at[j] + r];
}

static void rows_fill(char *out, int64_t item, const char *x, const int64_t *at, int64_t count, int64_t rows) {
    if (item == 4) rows_fill4((uint32_t *)(void *)out, (const uint32_t *)(const void *)x, at, count, rows);
    else rows_fill8((uint64_t *)(void *)out, (const uint64_t *)(const void *)x, at, count, rows);
}

static void panels_pack(void *arg, int64_t batch, int64_t k0, int64_t k1, int64_t n0, int64_t n1, void *panels,
                        int64_t panel) {
    (void)batch;
    const job *s = arg;
    const rt_conv *v = s->v;
    const conv_image *image = &s->image;
    int64_t item = image->item, width = RT_PANEL_BYTES / item;
    const char *data = image->data + s->group * (v->c / v->groups) * image->channel * item;
    /* Row by row of positions, so that the part of the image in use stays close. */
    for (int64_t k = k0; k < k1;) {
        int64_t picture = k / s->positions, p = k % s->positions, rows = v->out[2] - p % v->out[2];
        if (rows > k1 - k) rows = k1 - k;
        const char *x = data + (picture * image->picture + conv_image_at(image, v->out, p)) * item;
        for (int64_t n = n0; n < n1; n += width)
            rows_fill((char *)panels + ((n - n0) / width * panel + (k - k0) * width) * item, item, x, s->tap + n,
                      n1 - n < width ? n1 - n : width, rows);
        k += rows;
    }
}

/* y's pictures [first, first + count) as [o, (n, p)] of the compute type. */
static int rows_of(const rt_ctx *ctx, const rt_conv *v, const rt_view *y5, int compute, int64_t first, int64_t count,
                   void *to) {
    rt_view from = *y5;
    from.p = (char *)from.p + first * from.stride[0] * rt_itemsize(from.dtype);
    from.size[0] = v->o, from.stride[0] = y5->stride[1];
    from.size[1] = count, from.stride[1] = y5->stride[0];
    rt_view dense = rt_view_contiguous(to, compute, 5, from.size);
    /* same bits */
    if (rt_is_integer(from.dtype) && rt_itemsize(from.dtype) == rt_itemsize(compute)) from.dtype = compute;
    return rt_copy(ctx, &dense, &from);
}

/* w = alpha * sums + beta * w */
static int store(const rt_ctx *ctx, const rt_view *w, void *sums, int compute, rt_scalar alpha, rt_scalar beta) {
    rt_view dense = rt_view_contiguous(sums, compute, w->rank, w->size);
    if (gemm_is_zero(beta) && gemm_is_one(alpha)) return rt_copy(ctx, w, &dense);
    void *memory;
    rt_view old;
    int code = rt_contiguous(ctx, w, w->dtype, &old, &memory);
    if (code) return code;
    rt_gemm_args g = { .dtype = w->dtype, .c = old.p, .c_col = 1, .alpha = alpha, .beta = beta };
    gemm_finish(&g, gemm_kind_get(compute), compute, sums, 0, false, 0, 0, 1, 0, rt_numel(w));
    if (memory) code = rt_copy(ctx, w, &old);
    rt_scratch_free(ctx, memory);
    return code;
}

int rt_conv_weight(const rt_ctx *ctx, const rt_conv *v, const rt_view *y, const rt_view *x, const rt_view *w,
                   rt_scalar alpha, rt_scalar beta) {
    if (rt_numel(w) == 0) return RT_OK;
    int compute = rt_gemm_compute_dtype(w->dtype);
    if (compute < 0) return rt_fail(ctx, RT_EDTYPE, "convolution: no product of dtype number %d", (int)w->dtype);
    job s = { .v = v, .positions = v->out[0] * v->out[1] * v->out[2] };
    int64_t item = rt_itemsize(compute), m = v->o / v->groups;
    int64_t n = v->c / v->groups * v->kernel[0] * v->kernel[1] * v->kernel[2];
    rt_view y5 = conv_view5(y);
    void *memory = NULL;
    char *rows = NULL, *sums = NULL;
    bool direct = w->dtype == compute && rt_is_contiguous(w) && gemm_is_one(alpha) && gemm_is_zero(beta);
    int code = conv_image_plan(ctx, v, compute, &s.image, &s.tap, &memory);
    if (!code) code = conv_image_alloc(ctx, &s.image, v->c, v->n);
    if (code) goto out;
    rows = rt_scratch(ctx, (size_t)(s.image.pictures * v->o * s.positions * item));
    sums = direct ? w->p : rt_scratch(ctx, (size_t)(v->o * n * item));
    if (!rows || !sums) {
        code = rt_fail(ctx, RT_ENOMEM, "out of memory for the weight gradient of a convolution");
        goto out;
    }
    for (int64_t first = 0; (first < v->n || first == 0) && !code; first += s.image.pictures) {
        int64_t count = v->n - first < s.image.pictures ? v->n - first : s.image.pictures, k = count * s.positions;
        code = conv_image_fill(ctx, &s.image, x, first, count);
        if (!code) code = rows_of(ctx, v, &y5, compute, first, count, rows);
        for (s.group = 0; s.group < v->groups && !code; s.group++) {
            int64_t o = s.group * m;
            rt_gemm_args g = rt_gemm_plain(compute, m, n, k, rows + o * k * item, NULL, sums + o * n * item);
            g.pack_b = panels_pack;
            g.pack_arg = &s;
            g.beta = first ? rt_gemm_one : rt_gemm_zero;
            code = rt_gemm(ctx, &g);
        }
    }
    if (!code && !direct) code = store(ctx, w, sums, compute, alpha, beta);
out:
    if (!direct) rt_scratch_free(ctx, sums);
    rt_scratch_free(ctx, rows);
    rt_scratch_free(ctx, s.image.data);
    rt_scratch_free(ctx, memory);
    return code;
}
