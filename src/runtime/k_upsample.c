/* k_upsample.c: resampling of 1-3 spatial dimensions: nearest, linear, cubic, and their adjoints.
 *
 * Every mode is separable: position i of an output dimension reads a few source positions ("taps") with weights. The
 * taps of each dimension are tabulated once; missing dimensions become one of size 1. The smooth modes (antialiasing)
 * widen the filter when the image shrinks, so that every source position counts. Positions and weights are computed in
 * the precision that PyTorch uses (f64 for f64 tensors and for the integer weights of bytes, else f32): which neighbour
 * is nearest hangs on the last bit. */
#include "runtime/kernels.h"
#include "runtime/rt_index.h"

#include <math.h>
#include <string.h>

enum { NEAREST, NEAREST_EXACT, LINEAR, CUBIC, LINEAR_SMOOTH, CUBIC_SMOOTH, SPATIAL = 3 };
enum { MIXED = 4096 }; /* the longest row of a source that is added up on the stack */
static const int taps_of[] = { 1, 1, 2, 4 };

typedef struct taps {
    int64_t *from;  /* [out][n] */
    double *weight; /* [out][n] */
    int64_t in, out;
    int n;
} taps;

/* Rounds to the precision that positions are computed in. */
static inline double r(bool wide, double x) { return wide ? x : (double)(float)x; }

/* How far the source moves per output position. `scale`: what the caller asked for, or 0. */
static double step_of(bool wide, int64_t in, int64_t out, bool align_corners, double scale) {
    if (align_corners) return out > 1 ? r(wide, r(wide, (double)(in - 1)) / r(wide, (double)(out - 1))) : 0;
    return scale > 0 ? r(wide, 1.0 / scale) : r(wide, r(wide, (double)in) / r(wide, (double)out));
}

/* Cut to an integer; scales may be anything, so what is beyond all tensors stays just that. */
static int64_t whole(double x) { return !(x > -4e18) ? -((int64_t)1 << 61) : x < 4e18 ? (int64_t)x : (int64_t)1 << 61; }

static int64_t clamp(int64_t i, int64_t n) { return i < 0 ? 0 : i >= n ? n - 1 : i; }

static double source_of(bool wide, double step, int64_t i, bool align_corners, bool may_be_negative) {
    if (align_corners) return r(wide, step * r(wide, (double)i));
    double at = r(wide, r(wide, step * r(wide, (double)i + 0.5)) - 0.5);
    return at < 0 && !may_be_negative ? 0 : at;
}

/* `direct`: the source of a nearest neighbour by its own formula; equal sizes and doubling ignore the scale there. */
static int64_t nearest(bool exact, bool direct, bool wide, int64_t i, int64_t in, int64_t out, double scale) {
    if (direct) {
        if (in == out && !exact) return i;
        if (out == 2 * in && !exact) return i >> 1;
        float step = scale > 0 ? (float)(1.0 / scale) : (float)in / (float)out;
        float at = exact ? (float)(((double)i + 0.5) * (double)step) : (float)i * step;
        return clamp(whole((double)floorf(at)), in);
    }
    double step = step_of(wide, in, out, false, scale);
    double at = exact ? r(wide, source_of(wide, step, i, false, false) + 0.5) : source_of(wide, step, i, true, false);
    return clamp(whole(floor(at)), in);
}

static double near_cubic(double x) { return ((-0.75 + 2) * x - (-0.75 + 3)) * x * x + 1; }
static double far_cubic(double x) { return ((-0.75 * x - 5 * -0.75) * x + 8 * -0.75) * x - 4 * -0.75; }

/* How far a smooth filter reaches from its middle, in source positions. */
static double reach_of(bool wide, int mode, double step) {
    double half = mode == LINEAR_SMOOTH ? 1 : 2;
    return step >= 1 ? r(wide, half * step) : half;
}

static int smooth_taps(bool wide, int mode, int64_t in, int64_t out, bool align_corners, double scale) {
    /* those beyond the source are not needed */
    double n = ceil(reach_of(wide, mode, step_of(wide, in, out, align_corners, scale))) * 2 + 1;
    return n < (double)in ? (int)n : in < INT32_MAX ? (int)in : INT32_MAX;
}

static double smooth_weight(int mode, double x) {
    x = fabs(x);
    if (mode == LINEAR_SMOOTH) return x < 1 ? 1 - x : 0;
    return x < 1 ? (1.5 * x - 2.5) * x * x + 1 : x < 2 ? (((x - 5) * x + 8) * x - 4) * -0.5 : 0;
}

/* Weights add up to one; taps that are not needed have weight zero. */
static void fill_smooth(taps *t, int mode, bool wide, double step) {
    double reach = reach_of(wide, mode, step), narrow = step >= 1 ? r(wide, 1 / step) : 1;
    for (int64_t i = 0; i < t->out; i++) {
        int64_t *from = t->from + i * t->n;
        double *weight = t->weight + i * t->n, total = 0, middle = r(wide, step * r(wide, (double)i + 0.5));
        int64_t first = whole(r(wide, r(wide, middle - reach) + 0.5)),
                end = whole(r(wide, r(wide, middle + reach) + 0.5));
        if (first < 0) first = 0;
        if (end > t->in) end = t->in;
        for (int k = 0; k < t->n; k++) {
            bool used = first + k < end;
            from[k] = clamp(first + k, t->in);
            weight[k] = used ? r(wide,
                                 smooth_weight(mode,
                                               r(wide, r(wide, r(wide, (double)(first + k) - middle) + 0.5) * narrow)))
                             : 0;
            total = r(wide, total + weight[k]);
        }
        for (int k = 0; k < t->n; k++)
            if (total != 0) weight[k] = r(wide, weight[k] / total);
    }
}

static void fill_taps(taps *t, int mode, bool direct, bool wide, bool align_corners, double scale) {
    double step = step_of(wide, t->in, t->out, align_corners, scale);
    if (mode >= LINEAR_SMOOTH) {
        fill_smooth(t, mode, wide, step);
        return;
    }
    for (int64_t i = 0; i < t->out; i++) {
        int64_t *from = t->from + i * t->n;
        double *weight = t->weight + i * t->n;
        if (mode <= NEAREST_EXACT) {
            *from = nearest(mode == NEAREST_EXACT, direct, wide, i, t->in, t->out, scale);
            *weight = 1;
        } else if (mode == LINEAR) {
            if (t->in == t->out) {
                from[0] = from[1] = i;
                weight[0] = 1;
                weight[1] = 0;
                continue;
            }
            double at = source_of(wide, step, i, align_corners, false);
            from[0] = clamp(whole(at), t->in);
            from[1] = from[0] + (from[0] < t->in - 1);
            weight[1] = fmin(fmax(r(wide, at - (double)from[0]), 0), 1);
            weight[0] = r(wide, 1 - weight[1]);
        } else {
            double at = source_of(wide, step, i, align_corners, true), low = floor(at);
            double x = fmin(fmax(r(wide, at - low), 0), 1);
            for (int k = 0; k < 4; k++) from[k] = clamp(whole(low) - 1 + k, t->in);
            weight[0] = far_cubic(x + 1);
            weight[1] = near_cubic(x);
            weight[2] = near_cubic(1 - x);
            weight[3] = far_cubic(2 - x);
        }
    }
}

typedef struct plan {
    taps dim[SPATIAL]; /* outermost first */
    void *scratch;
    int64_t planes, in, out; /* in, out: elements of one plane */
    const void *source;
    void *result;
    bool wide;
} plan;

static double scale_at(const rt_call *c, int i) { return rt_arg_is_none(c, i) ? 0 : rt_arg_float(c, i); }

/* `small`, `large`: the source and the resampled tensor, whichever is given and whichever is computed. */
static int open_plan(plan *p, const rt_ctx *ctx, const rt_call *c, int mode, bool direct, int scales_at,
                     const rt_view *small, const rt_view *large) {
    int spatial = small->rank - 2, lead = SPATIAL - spatial;
    int64_t total = 0;
    bool align_corners = mode >= LINEAR && rt_arg_int(c, scales_at - 1);
    *p = (plan){ .planes = small->size[0] * small->size[1],
                 .in = 1,
                 .out = 1,
                 .wide = small->dtype == RT_F64 || small->dtype == RT_U8 };
    for (int d = 0; d < SPATIAL; d++) {
        taps *t = &p->dim[d];
        *t = (taps){ .in = 1, .out = 1, .n = 1 };
        if (d >= lead) {
            *t = (taps){ .in = small->size[2 + d - lead], .out = large->size[2 + d - lead] };
            t->n = mode >= LINEAR_SMOOTH
                       ? smooth_taps(p->wide, mode, t->in, t->out, align_corners, scale_at(c, scales_at + d - lead))
                       : taps_of[mode];
        }
        p->in *= t->in;
        p->out *= t->out;
        total += t->out * t->n;
    }
    p->scratch = rt_scratch(ctx, (size_t)total * (sizeof(int64_t) + sizeof(double)));
    if (!p->scratch) return RT_ENOMEM;
    int64_t *from = p->scratch;
    double *weight = (double *)(from + total);
    for (int d = 0; d < SPATIAL; d++) {
        taps *t = &p->dim[d];
        t->from = from;
        t->weight = weight;
        from += t->out * t->n;
        weight += t->out * t->n;
        if (d < lead) t->from[0] = 0, t->weight[0] = 1;
        else fill_taps(t, mode, direct, p->wide, align_corners, scale_at(c, scales_at + d - lead));
    }
    return RT_OK;
}

/* Rows of the resampled tensor, either read from the source or added into it. */
#define DEFINE_RUNS(T)                                                                                           \
    static int read_##T(void *arg, int64_t begin, int64_t end) {                                                 \
        const plan *p = arg;                                                                                     \
        const taps *a = &p->dim[0], *b = &p->dim[1], *l = &p->dim[2];                                            \
        for (int64_t row = begin; row < end; row++) {                                                            \
            int64_t j = row % b->out, i = row / b->out % a->out, plane = row / b->out / a->out;                  \
            T *to = (T *)p->result + row * l->out;                                                               \
            for (int64_t x = 0; x < l->out; x++) to[x] = 0;                                                      \
            for (int ka = 0; ka < a->n; ka++)                                                                    \
                for (int kb = 0; kb < b->n; kb++) {                                                              \
                    T w = (T)(a->weight[i * a->n + ka] * b->weight[j * b->n + kb]);                              \
                    const T *from = (const T *)p->source + plane * p->in +                                       \
                                    (a->from[i * a->n + ka] * b->in + b->from[j * b->n + kb]) * l->in;           \
                    for (int64_t x = 0; x < l->out; x++)                                                         \
                        for (int k = 0; k < l->n; k++)                                                           \
                            to[x] += w * (T)l->weight[x * l->n + k] * from[l->from[x * l->n + k]];               \
                }                                                                                                \
        }                                                                                                        \
        return RT_OK;                                                                                            \
    }                                                                                                            \
    /* The same where a row of the source fits: rows are added up before positions of the sum are read. */       \
    static int mix_##T(void *arg, int64_t begin, int64_t end) {                                                  \
        const plan *p = arg;                                                                                     \
        const taps *a = &p->dim[0], *b = &p->dim[1], *l = &p->dim[2];                                            \
        T mixed[MIXED];                                                                                          \
        for (int64_t row = begin; row < end; row++) {                                                            \
            int64_t j = row % b->out, i = row / b->out % a->out, plane = row / b->out / a->out;                  \
            T *to = (T *)p->result + row * l->out;                                                               \
            memset(mixed, 0, (size_t)l->in * sizeof *mixed);                                                     \
            for (int ka = 0; ka < a->n; ka++)                                                                    \
                for (int kb = 0; kb < b->n; kb++) {                                                              \
                    T w = (T)(a->weight[i * a->n + ka] * b->weight[j * b->n + kb]);                              \
                    const T *from = (const T *)p->source + plane * p->in +                                       \
                                    (a->from[i * a->n + ka] * b->in + b->from[j * b->n + kb]) * l->in;           \
                    for (int64_t x = 0; x < l->in; x++) mixed[x] += w * from[x];                                 \
                }                                                                                                \
            for (int64_t x = 0; x < l->out; x++) {                                                               \
                T sum = 0;                                                                                       \
                for (int k = 0; k < l->n; k++)                                                                   \
                    sum += (T)l->weight[x * l->n + k] * mixed[l->from[x * l->n + k]];                            \
                to[x] = sum;                                                                                     \
            }                                                                                                    \
        }                                                                                                        \
        return RT_OK;                                                                                            \
    }                                                                                                            \
    static int add_##T(void *arg, int64_t begin, int64_t end) { /* whole planes, so that no element is shared */ \
        const plan *p = arg;                                                                                     \
        const taps *a = &p->dim[0], *b = &p->dim[1], *l = &p->dim[2];                                            \
        for (int64_t row = begin * a->out * b->out; row < end * a->out * b->out; row++) {                        \
            int64_t j = row % b->out, i = row / b->out % a->out, plane = row / b->out / a->out;                  \
            const T *from = (const T *)p->source + row * l->out;                                                 \
            for (int ka = 0; ka < a->n; ka++)                                                                    \
                for (int kb = 0; kb < b->n; kb++) {                                                              \
                    T w = (T)(a->weight[i * a->n + ka] * b->weight[j * b->n + kb]);                              \
                    T *to = (T *)p->result + plane * p->in +                                                     \
                            (a->from[i * a->n + ka] * b->in + b->from[j * b->n + kb]) * l->in;                   \
                    for (int64_t x = 0; x < l->out; x++)                                                         \
                        for (int k = 0; k < l->n; k++)                                                           \
                            to[l->from[x * l->n + k]] += w * (T)l->weight[x * l->n + k] * from[x];               \
                }                                                                                                \
        }                                                                                                        \
        return RT_OK;                                                                                            \
    }
DEFINE_RUNS(float)
DEFINE_RUNS(double)

static bool is_channels_last(const rt_view *v) {
    if (v->rank < 4) return false;
    int64_t step = v->size[1];
    if (v->size[1] > 1 && v->stride[1] != 1) return false;
    for (int d = v->rank - 1; d >= 2; d--) {
        if (v->size[d] > 1 && v->stride[d] != step) return false;
        step *= v->size[d];
    }
    return true;
}

/* PyTorch has two kernels for nearest neighbours, which differ for odd scales; the same one is chosen here. */
static bool is_direct(const rt_view *self, const rt_view *out) {
    bool by_channel = is_channels_last(self) && self->size[1] > 3;
    return by_channel || (out->rank == 4 && out->size[2] + out->size[3] <= 128);
}

static bool handles(int dtype) { return dtype == RT_F32 || dtype == RT_F64 || dtype == RT_F16 || dtype == RT_BF16; }
static int refuse(const rt_ctx *ctx, int dtype) {
    return rt_fail(ctx, RT_ENOTIMPL, "resampling is not implemented for %s; convert the tensor to a floating dtype",
                   rt_dtype_name(dtype));
}

/* Offsets in self of the positions of each dimension, and the rows of the result that read by them. */
typedef struct nearest_rows { const rt_view *self, *out; const int64_t *table[RT_MAX_RANK]; } nearest_rows;

static int read_nearest(void *arg, int64_t begin, int64_t end) {
    const nearest_rows *m = arg;
    const rt_view *out = m->out;
    int last = out->rank - 1;
    int64_t item = rt_itemsize(out->dtype);
    for (int64_t row = begin; row < end; row++) {
        int64_t rest = row, mine = 0, theirs = 0;
        for (int d = last - 1; d >= 0; rest /= out->size[d--]) {
            mine += rest % out->size[d] * out->stride[d];
            theirs += m->table[d][rest % out->size[d]];
        }
        rt_pick(item, (char *)out->p + mine * item, out->stride[last], (const char *)m->self->p + theirs * item, 0,
                m->table[last], out->size[last]);
    }
    return RT_OK;
}

/* Nearest neighbours are only moved, whatever the dtype. */
static int move_nearest(const rt_ctx *ctx, const rt_call *c, int mode) { /* self, output_size, scales ... */
    const rt_view *self = rt_arg_view(c, 0), *out = &c->out[0];
    if (!handles(out->dtype) && out->dtype != RT_U8) return refuse(ctx, out->dtype);
    int64_t total = 0, n = rt_numel(out);
    if (!n) return RT_OK;
    for (int d = 0; d < out->rank; d++) total += out->size[d];
    int64_t *table = rt_scratch(ctx, (size_t)total * sizeof *table), *next = table;
    if (!table) return RT_ENOMEM;
    nearest_rows rows = { .self = self, .out = out };
    bool direct = is_direct(self, out);
    for (int d = 0; d < out->rank; d++) {
        double scale = d < 2 || rt_arg_is_none(c, d) ? 0 : rt_arg_float(c, d);
        rows.table[d] = next;
        for (int64_t i = 0; i < out->size[d]; i++) {
            int64_t from = d < 2 ? i : nearest(mode == NEAREST_EXACT, direct, out->dtype == RT_F64, i, self->size[d],
                                               out->size[d], scale);
            *next++ = from * self->stride[d];
        }
    }
    int64_t width = out->size[out->rank - 1];
    int code = rt_parallel_work(ctx, n / width, width, 8192, read_nearest, &rows);
    rt_scratch_free(ctx, table);
    return code;
}

/* Weights of bytes are integers with as many bits behind the point as 16 bits allow. What lies beyond the border adds
 * to the weight of the last position before it is rounded. */
static int byte_weights(const taps *t, int32_t *weight) {
    double top = 0;
    int bits = 0;
    for (int64_t i = 0; i < t->out * t->n; i += t->n)
        for (int k = 1, first = 0; k < t->n; k++) {
            if (t->from[i + k] != t->from[i + first]) {
                first = k;
                continue;
            }
            t->weight[i + first] += t->weight[i + k];
            t->weight[i + k] = 0;
        }
    for (int64_t i = 0; i < t->out * t->n; i++) top = fmax(top, t->weight[i]);
    while (bits < 22 && (int)(0.5 + top * (double)(1 << (bits + 1))) < 1 << 15) bits++;
    for (int64_t i = 0; i < t->out * t->n; i++) {
        double w = t->weight[i] * (double)(1 << bits);
        weight[i] = (int32_t)(w < 0 ? w - 0.5 : w + 0.5);
    }
    return bits;
}

/* Bytes are resampled along x, rounded, then along y: each pass gives bytes. Elements of a row of `line` positions are
 * `gap` apart. */
static void byte_pass(const taps *t, const int32_t *weight, int bits, const uint8_t *source, uint8_t *result,
                      int64_t lines, int64_t line_in, int64_t line_out, int64_t gap) {
    for (int64_t l = 0; l < lines; l++)
        for (int64_t i = 0; i < t->out; i++) {
            int32_t sum = bits ? 1 << (bits - 1) : 0;
            for (int k = 0; k < t->n; k++)
                sum += weight[i * t->n + k] * source[l * line_in + t->from[i * t->n + k] * gap];
            sum >>= bits;
            result[l * line_out + i * gap] = (uint8_t)(sum < 0 ? 0 : sum > 255 ? 255 : sum);
        }
}

static int resample_bytes(const rt_ctx *ctx, const rt_call *c, int mode) {
    const rt_view *given = rt_arg_view(c, 0), *out = &c->out[0];
    plan p;
    rt_view source;
    void *source_scratch = NULL, *room = NULL;
    int code = open_plan(&p, ctx, c, mode, false, 3, given, out);
    const taps *y = &p.dim[1], *x = &p.dim[2];
    if (!code) code = rt_contiguous(ctx, given, RT_U8, &source, &source_scratch);
    if (!code) {
        int64_t middle = y->in * x->out, weights = y->out * y->n + x->out * x->n;
        int32_t *weight = room = rt_scratch(ctx,
                                            (size_t)weights * sizeof *weight + (size_t)(middle + p.planes * p.out));
        if (!weight) code = RT_ENOMEM;
        else {
            uint8_t *rows = (uint8_t *)(weight + weights), *result = rows + middle;
            int x_bits = byte_weights(x, weight), y_bits = byte_weights(y, weight + x->out * x->n);
            for (int64_t plane = 0; plane < p.planes; plane++) {
                const uint8_t *from = (const uint8_t *)source.p + plane * p.in;
                if (x->in != x->out) byte_pass(x, weight, x_bits, from, rows, y->in, x->in, x->out, 1);
                else memcpy(rows, from, (size_t)p.in);
                if (y->in != y->out)
                    byte_pass(y, weight + x->out * x->n, y_bits, rows, result + plane * p.out, x->out, 1, 1, x->out);
                else memcpy(result + plane * p.out, rows, (size_t)p.out);
            }
            rt_view done = rt_view_contiguous(result, RT_U8, out->rank, out->size);
            code = rt_copy(ctx, out, &done);
        }
    }
    rt_scratch_free(ctx, room);
    rt_scratch_free(ctx, source_scratch);
    rt_scratch_free(ctx, p.scratch);
    return code;
}

static int resample(const rt_ctx *ctx, const rt_call *c, int mode, bool backward) {
    const rt_view *given = rt_arg_view(c, 0), *out = &c->out[0];
    const rt_view *small = backward ? out : given, *large = backward ? given : out;
    int scales_at = 2 + backward + (mode >= LINEAR), work = out->dtype == RT_F64 ? RT_F64 : RT_F32;
    bool unchanged = mode == CUBIC && backward; /* then a copy, whatever the scales and the dtype */
    for (int d = 2; d < out->rank; d++) unchanged = unchanged && small->size[d] == large->size[d];
    if (unchanged) return rt_copy(ctx, out, given);
    if (out->dtype == RT_U8 && out->rank == 4 && !backward) return resample_bytes(ctx, c, mode);
    if (!handles(out->dtype)) return refuse(ctx, out->dtype);
    plan p;
    rt_view source;
    void *source_scratch = NULL, *result_scratch = NULL;
    int code = open_plan(&p, ctx, c, mode, backward, scales_at, small, large);
    if (!code) code = rt_contiguous(ctx, given, work, &source, &source_scratch);
    if (!code) {
        size_t bytes = (size_t)(rt_numel(out) * rt_itemsize(work));
        bool in_place = out->dtype == work && rt_is_contiguous(out);
        p.source = source.p;
        p.result = in_place ? out->p : (result_scratch = rt_scratch(ctx, bytes));
        if (!p.result && bytes) {
            code = RT_ENOMEM;
        } else if (backward) {
            if (bytes) memset(p.result, 0, bytes);
            code = rt_parallel_work(ctx, p.planes, p.out, 4096, p.wide ? add_double : add_float, &p);
        } else {
            const taps *l = &p.dim[2];
            bool mix = l->in <= MIXED && l->in <= l->out * l->n;
            int64_t each = mix ? l->in * p.dim[0].n * p.dim[1].n / 4 + l->out * l->n : l->out;
            code = rt_parallel_work(ctx, p.planes * p.dim[0].out * p.dim[1].out, each, 4096,
                                    mix ? (p.wide ? mix_double : mix_float) : p.wide ? read_double : read_float, &p);
        }
        if (!code && !in_place) {
            rt_view result = rt_view_contiguous(p.result, work, out->rank, out->size);
            code = rt_copy(ctx, out, &result);
        }
    }
    rt_scratch_free(ctx, result_scratch);
    rt_scratch_free(ctx, source_scratch);
    rt_scratch_free(ctx, p.scratch);
    return code;
}

int rt_k_upsample_nearest(const rt_ctx *ctx, const rt_call *c) { return move_nearest(ctx, c, NEAREST); }
int rt_k_upsample_nearest_exact(const rt_ctx *ctx, const rt_call *c) { return move_nearest(ctx, c, NEAREST_EXACT); }
int rt_k_upsample_linear(const rt_ctx *ctx, const rt_call *c) { return resample(ctx, c, LINEAR, false); }
int rt_k_upsample_cubic(const rt_ctx *ctx, const rt_call *c) { return resample(ctx, c, CUBIC, false); }
int rt_k_upsample_nearest_backward(const rt_ctx *ctx, const rt_call *c) { return resample(ctx, c, NEAREST, true); }
int rt_k_upsample_nearest_exact_backward(const rt_ctx *ctx, const rt_call *c) {
    return resample(ctx, c, NEAREST_EXACT, true);
}
int rt_k_upsample_linear_backward(const rt_ctx *ctx, const rt_call *c) { return resample(ctx, c, LINEAR, true); }
int rt_k_upsample_cubic_backward(const rt_ctx *ctx, const rt_call *c) { return resample(ctx, c, CUBIC, true); }
int rt_k_upsample_linear_smooth(const rt_ctx *ctx, const rt_call *c) { return resample(ctx, c, LINEAR_SMOOTH, false); }
int rt_k_upsample_cubic_smooth(const rt_ctx *ctx, const rt_call *c) { return resample(ctx, c, CUBIC_SMOOTH, false); }
int rt_k_upsample_linear_smooth_backward(const rt_ctx *ctx, const rt_call *c) {
    return resample(ctx, c, LINEAR_SMOOTH, true);
}
int rt_k_upsample_cubic_smooth_backward(const rt_ctx *ctx, const rt_call *c) {
    return resample(ctx, c, CUBIC_SMOOTH, true);
}
