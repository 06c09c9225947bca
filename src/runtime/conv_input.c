/* conv_input.c: the partial with respect to the input, which is also the transposed convolution:
 *
 *     x[c, i] = sum over o and t of w[o, c, t] * y[o, (i + padding - t * dilation) / stride]     where that is whole
 *
 * The positions i of one remainder by the stride (in each dimension) use the same taps, an evenly spaced subset; with
 * i = first + j * stride they read y at j + shift(t): a convolution of stride 1. So each remainder is one product over
 * a padded image of y, without a term too many and without adding into shared memory. The results of one remainder lie
 * `stride` apart in x; they are made dense and then copied there. */
#include "runtime/conv_image.h"

#include <string.h>

/* The taps and positions of one remainder, in one dimension. */
typedef struct lane {
    int64_t first, count;            /* positions i = first + j * stride, j < count */
    int64_t tap, taps, tap_step;     /* taps t = tap + q * tap_step */
    int64_t shift, shift_step;       /* shift of the first, and by how much less each next one has */
} lane;

typedef struct job {
    const rt_conv *v;
    conv_image image;
    int64_t origin[RT_CONV_DIMS]; /* image coordinate of y's first element */
    const lane *lane[RT_CONV_DIMS];
    int64_t grid[RT_CONV_DIMS];
    int64_t *tap;
    int64_t group;
    /* Weights of the group that are read where they lie: steps of o and c, and of the remainder's taps. */
    const float *weights;
    int64_t w_o, w_c, taps;
    int64_t *w_at;
    bool dense; /* w_at is 0, 1, 2 .. */
} job;

static int64_t remainder_of(int64_t a, int64_t b) { return (a % b + b) % b; }

static lane lane_of(const rt_conv *v, int d, int64_t first) {
    int64_t s = v->stride[d], in = v->in[d];
    lane l = { .first = first, .count = first < in ? (in - first + s - 1) / s : 0 };
    int64_t last = -1;
    for (int64_t t = 0; t < v->kernel[d]; t++) {
        if (remainder_of(first + v->padding[d] - t * v->dilation[d], s)) continue;
        if (!l.taps) {
            l.tap = t;
            l.shift = (first + v->padding[d] - t * v->dilation[d]) / s;
        } else if (l.taps == 1) {
            l.tap_step = t - last;
            l.shift_step = l.tap_step * v->dilation[d] / s;
        }
        l.taps++;
        last = t;
    }
    if (l.taps < 2) l.tap_step = 1;
    return l;
}

static void panels_pack(void *arg, int64_t batch, int64_t k0, int64_t k1, int64_t n0, int64_t n1, void *panels,
                        int64_t panel) {
    const job *s = arg;
    const conv_image *image = &s->image;
    int64_t channels = s->v->o / s->v->groups;
    const char *data = image->data + (batch * image->picture + s->group * channels * image->channel) * image->item;
    conv_image_pack(image, data, s->tap, s->grid, k0, k1, n0, n1, panels, panel);
}

/* Taps of the remainder, in the order (o, t0, t1, t2), in units of `unit` bytes an element. */
static int64_t taps_fill(job *s, int64_t unit) {
    const lane *a = s->lane[0], *b = s->lane[1], *c = s->lane[2];
    const conv_image *image = &s->image;
    int64_t n = 0;
    for (int64_t o = 0; o < s->v->o / s->v->groups; o++)
        for (int64_t z = 0; z < a->taps; z++)
            for (int64_t y = 0; y < b->taps; y++)
                for (int64_t x = 0; x < c->taps; x++) {
                    int64_t pz = s->origin[0] + a->shift - z * a->shift_step;
                    int64_t py = s->origin[1] + b->shift - y * b->shift_step;
                    int64_t px = s->origin[2] + c->shift - x * c->shift_step;
                    s->tap[n++] = (o * image->channel + (pz * image->extent[1] + py) * image->extent[2] + px) * unit;
                }
    return n;
}

/* w[o of the group, c, taps of the remainder] as [group, c, (o, t)], dense, for groups from s->group on. */
static int weights_fill(const rt_ctx *ctx, const job *s, const rt_view *w5, int64_t groups, rt_view *to) {
    const rt_conv *v = s->v;
    int64_t o = v->o / v->groups;
    int64_t size[6] = { groups, v->c / v->groups, o, s->lane[0]->taps, s->lane[1]->taps, s->lane[2]->taps };
    *to = rt_view_contiguous(to->p, w5->dtype, 6, size);
    rt_view from = *to;
    int64_t at = s->group * o * w5->stride[0];
    from.stride[0] = o * w5->stride[0];
    from.stride[1] = w5->stride[1];
    from.stride[2] = w5->stride[0];
    for (int d = 0; d < RT_CONV_DIMS; d++) {
        at += s->lane[d]->tap * w5->stride[d + 2];
        from.stride[d + 3] = s->lane[d]->tap_step * w5->stride[d + 2];
    }
    from.p = (char *)w5->p + at * rt_itemsize(w5->dtype);
    return rt_copy(ctx, to, &from);
}

/* The same, as rows of the product's left factor while it is computed: what a single picture needs of the weights is
 * then turned near the processor and never written. rt_gemm_rows_fn. */
enum { AHEAD = 3, /* of o, whose weights are asked for before they are read */
       NINE = 9,  /* taps, the usual number */
       TURN_LEAST = 512 * 1024 }; /* weights: fewer are turned once, in the cache */
static void weights_turn(void *arg, int64_t batch, int64_t i0, int64_t i1, int64_t k0, int64_t k1, void *to,
                         int64_t row) {
    (void)batch;
    const job *s = arg;
    for (int64_t k = k0; k < k1;) {
        int64_t o = k / s->taps, first = k % s->taps, n = s->taps - first < k1 - k ? s->taps - first : k1 - k;
        const float *from = s->weights + o * s->w_o + i0 * s->w_c;
        float *out = (float *)to + (k - k0);
        if (n == NINE && s->dense) {
            for (int64_t i = i0; i < i1; i++, from += s->w_c, out += row) {
                __builtin_prefetch(from + AHEAD * s->w_o);
                memcpy(out, from, NINE * sizeof *out);
            }
        } else {
            for (int64_t i = i0; i < i1; i++, from += s->w_c, out += row)
                for (int64_t q = 0; q < n; q++) out[q] = from[s->w_at[first + q]];
        }
        k += n;
    }
}

static void weights_place(job *s, const rt_view *w5) {
    const lane *a = s->lane[0], *b = s->lane[1], *c = s->lane[2];
    s->weights = (const float *)w5->p + s->group * (s->v->o / s->v->groups) * w5->stride[0];
    s->w_o = w5->stride[0];
    s->w_c = w5->stride[1];
    s->taps = 0;
    s->dense = true;
    for (int64_t z = 0; z < a->taps; z++)
        for (int64_t y = 0; y < b->taps; y++)
            for (int64_t x = 0; x < c->taps; x++) {
                s->w_at[s->taps] = (a->tap + z * a->tap_step) * w5->stride[2] +
                                   (b->tap + y * b->tap_step) * w5->stride[3] +
                                   (c->tap + x * c->tap_step) * w5->stride[4];
                s->dense = s->dense && s->w_at[s->taps] == s->taps;
                s->taps++;
            }
}

typedef struct target {
    const rt_view *x5, *bias;
    rt_scalar alpha, beta;
    int64_t first, count;
    void *weights, *result;
} target;

/* One remainder for `groups` groups from s->group on, which is one unless each has a single channel, and for pictures
 * [first, first + count). */
static int lane_run(const rt_ctx *ctx, job *s, const rt_view *w5, int64_t groups, const target *t) {
    const rt_conv *v = s->v;
    bool planes = groups > 1;
    int64_t m = v->c / v->groups, item = rt_itemsize(t->x5->dtype);
    for (int d = 0; d < RT_CONV_DIMS; d++) s->grid[d] = s->lane[d]->count;
    int64_t n = s->grid[0] * s->grid[1] * s->grid[2], k = taps_fill(s, planes ? 1 : s->image.item);
    rt_view weights = { .p = t->weights };
    bool turned = !planes && t->count == 1 && w5->dtype == RT_F32 && rt_numel(w5) >= TURN_LEAST;
    int code = RT_OK;
    if (turned) weights_place(s, w5);
    else code = weights_fill(ctx, s, w5, groups, &weights);
    if (code) return code;

    rt_view part = *t->x5; /* where the results belong */
    int64_t at = t->first * part.stride[0] + s->group * m * part.stride[1];
    part.size[0] = t->count;
    part.size[1] = groups * m;
    for (int d = 0; d < RT_CONV_DIMS; d++) {
        at += s->lane[d]->first * part.stride[d + 2];
        part.size[d + 2] = s->grid[d];
        part.stride[d + 2] *= v->stride[d];
    }
    part.p = (char *)part.p + at * item;
    rt_view dense = rt_view_contiguous(t->result, part.dtype, 5, part.size);
    int64_t step = 1;
    bool direct = conv_folds(&part, &step);
    const rt_view *to = direct ? &part : &dense;
    if (!direct && !gemm_is_zero(t->beta)) code = rt_copy(ctx, &dense, &part);
    if (code) return code;

    rt_gemm_args g = rt_gemm_plain(part.dtype, m, n, k, t->weights, NULL, to->p);
    g.batch = t->count;
    g.c_row = to->stride[1];
    g.c_col = direct ? step : 1;
    g.c_batch = to->stride[0];
    g.pack_b = panels_pack;
    g.pack_arg = s;
    if (turned) g.rows_a = weights_turn, g.rows_arg = s;
    g.alpha = t->alpha;
    g.beta = t->beta;
    if (t->bias) {
        g.d = (const char *)t->bias->p + s->group * m * t->bias->stride[0] * item;
        g.d_row = t->bias->stride[0];
        g.beta = rt_gemm_one;
    }
    if (planes) {
        conv_planes c = { &s->image, s->tap, s->grid, &weights, k, groups, 1, v->o / v->groups, t->count, g };
        code = conv_planes_run(ctx, &c);
    } else {
        code = rt_gemm(ctx, &g);
    }
    return code || direct ? code : rt_copy(ctx, &part, &dense);
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

int rt_conv_input(const rt_ctx *ctx, const rt_conv *v, const rt_view *y, const rt_view *w, const rt_view *bias,
                  const rt_view *x, rt_scalar alpha, rt_scalar beta) {
    if (rt_numel(x) == 0) return RT_OK;
    int compute = rt_gemm_compute_dtype(x->dtype);
    if (compute < 0) return rt_fail(ctx, RT_EDTYPE, "convolution: no product of dtype number %d", (int)x->dtype);
    rt_view x5 = conv_view5(x), w5 = conv_view5(w);
    job s = { .v = v, .image = { .compute = compute, .item = rt_itemsize(compute), .plane = 1 } };
    int64_t taps = v->kernel[0] * v->kernel[1] * v->kernel[2], o = v->o / v->groups, m = v->c / v->groups;
    int64_t remainders = least(v->stride[0], v->in[0]) + least(v->stride[1], v->in[1]) + least(v->stride[2], v->in[2]);
    int64_t item = rt_itemsize(x->dtype), together = m == 1 ? v->groups : 1;

    lane *lanes = rt_scratch(ctx, (size_t)remainders * sizeof(lane) + 3 * 8);
    char *weights = rt_scratch(ctx, (size_t)(together * m * o * taps * item));
    s.tap = rt_scratch(ctx, (size_t)((o + 1) * taps * 8));
    target t = { &x5, bias, alpha, beta, 0, 0, weights, NULL };
    int code = RT_OK;
    if (!lanes || !weights || !s.tap) goto no_memory;

    s.w_at = s.tap + o * taps;
    /* The remainders of each dimension, and an image of y with room for every shift. */
    lane *next = lanes;
    int64_t *starts = (int64_t *)(void *)(lanes + remainders), largest = 1;
    for (int d = 0; d < RT_CONV_DIMS; d++) {
        int64_t low = 0, high = 0, longest = 0;
        s.lane[d] = next;
        for (int64_t first = 0; first < least(v->stride[d], v->in[d]); first++, next++) {
            *next = lane_of(v, d, first);
            longest = next->count > longest ? next->count : longest;
            if (!next->taps) continue;
            int64_t lowest = next->shift - (next->taps - 1) * next->shift_step;
            low = least(low, lowest);
            high = next->shift > high ? next->shift : high;
        }
        s.origin[d] = -low;
        s.image.extent[d] = longest + high - low;
        s.image.step[d] = 1;
        s.image.phases[d] = 1;
        s.image.start[d] = &starts[d];
        starts[d] = low;
        s.image.plane *= s.image.extent[d];
        largest *= longest;
    }
    s.image.channel = s.image.plane;
    code = conv_image_alloc(ctx, &s.image, v->o, v->n);
    if (code) goto out;
    t.result = rt_scratch(ctx, (size_t)(s.image.pictures * together * m * largest * item));
    if (!t.result) goto no_memory;

    const lane *base[RT_CONV_DIMS] = { s.lane[0], s.lane[1], s.lane[2] };
    for (t.first = 0; t.first < v->n && !code; t.first += t.count) {
        t.count = least(v->n - t.first, s.image.pictures);
        code = conv_image_fill(ctx, &s.image, y, t.first, t.count);
        for (int64_t a = 0; a < least(v->stride[0], v->in[0]); a++)
            for (int64_t b = 0; b < least(v->stride[1], v->in[1]); b++)
                for (int64_t c = 0; c < least(v->stride[2], v->in[2]); c++) {
                    s.lane[0] = base[0] + a, s.lane[1] = base[1] + b, s.lane[2] = base[2] + c;
                    for (s.group = 0; s.group < v->groups && !code; s.group += together)
                        code = lane_run(ctx, &s, &w5, together, &t);
                }
    }
out:
    rt_scratch_free(ctx, t.result);
    rt_scratch_free(ctx, s.image.data);
    rt_scratch_free(ctx, s.tap);
    rt_scratch_free(ctx, weights);
    rt_scratch_free(ctx, lanes);
    return code;
no_memory:
    code = rt_fail(ctx, RT_ENOMEM, "out of memory for the input side of a convolution");
    goto out;
}
