/* k_loss.c: losses that look at the values of their targets (and refuse some), which pointwise programs cannot.
 *
 * Sums are taken in f64 whatever the dtype, so a result differs from the exact one by a rounding or two. Targets are
 * read in place: only the elements they name are touched. */
#include "runtime/kernels.h"
#include "runtime/rt_fmath.h"

#include <math.h>

enum { REDUCE_NONE, REDUCE_MEAN, REDUCE_SUM };

static inline double load(const rt_view *v, int64_t at) {
    double x;
    switch (v->dtype) {
    case RT_F32: return ((const float *)v->p)[at];
    case RT_F64: return ((const double *)v->p)[at];
    case RT_BF16: return rt_bf16_to_f32(((const uint16_t *)v->p)[at]);
    default: rt_convert(RT_F64, &x, 1, v->dtype, (const char *)v->p + at * rt_itemsize(v->dtype), 1, 1); return x;
    }
}

static inline void store(const rt_view *v, int64_t at, double x) {
    if (v->dtype == RT_F32) ((float *)v->p)[at] = (float)x;
    else if (v->dtype == RT_F64) ((double *)v->p)[at] = x;
    else rt_convert(v->dtype, (char *)v->p + at * rt_itemsize(v->dtype), 1, RT_F64, &x, 1, 1);
}

static inline int64_t load_index(const rt_view *v, int64_t at) {
    return v->dtype == RT_U8 ? ((const uint8_t *)v->p)[at] : ((const int64_t *)v->p)[at];
}

/* ---- negative log likelihood: (N, C) or (C), and (N, C, H, W) ---- */

/* Sizes and strides of input and target with missing dims as 1. Without lines, places are one entry of the batch apart
 * (sw, tw). */
typedef struct nll {
    const rt_view *self, *target, *weight;
    int64_t n, classes, h, w;
    int64_t sn, sc, sh, sw, tn, th, tw;
    int64_t reduction, ignore;
} nll;

static int nll_read(const rt_ctx *ctx, const rt_call *c, int first, nll *k) {
    const rt_view *s = rt_arg_view(c, first), *t = rt_arg_view(c, first + 1);
    *k = (nll){ .self = s, .target = t, .weight = rt_arg_view(c, first + 2), .n = 1, .h = 1, .w = 1 };
    k->reduction = rt_arg_int(c, first + 3);
    k->ignore = rt_arg_int(c, first + 4);
    int class_dim = s->rank == 1 ? 0 : 1;
    k->classes = s->size[class_dim];
    k->sc = s->stride[class_dim];
    if (s->rank > 1) k->n = s->size[0], k->sn = k->sw = s->stride[0], k->tn = k->tw = t->stride[0];
    if (s->rank == 4) {
        k->h = s->size[2], k->sh = s->stride[2], k->th = t->stride[1];
        k->w = s->size[3], k->sw = s->stride[3], k->tw = t->stride[2];
    }
    if (t->dtype != RT_I64 && t->dtype != RT_U8)
        return rt_fail(ctx, RT_ERUNTIME, "expected int64 or uint8 targets, not %s", rt_dtype_name(t->dtype));
    if (k->weight && k->weight->dtype != s->dtype)
        return rt_fail(ctx, RT_ERUNTIME, "expected weights of %s as the input is, not %s", rt_dtype_name(s->dtype),
                       rt_dtype_name(k->weight->dtype));
    return RT_OK;
}

/* Places of one row, `width` of them; rows are shared by threads in parts whose sums are added in order. */
typedef struct nll_rows {
    const rt_ctx *ctx;
    nll k;
    double *weights;      /* of every class, or NULL: 1 */
    const rt_view *out;   /* elements' losses, or gradients; NULL: only sums */
    const rt_view *grad;  /* backward: the gradient of every place, or NULL: `same` for all */
    double same, *sums;   /* sums: two for every part, the losses and their weights */
    int64_t part;         /* rows of a part */
    bool backward;
} nll_rows;

enum { NLL_BLOCK = 256 };

/* Targets of a block as classes, -1 for those ignored. */
static int nll_classes(const nll_rows *r, int64_t at, int64_t n, int64_t *classes) {
    const nll *k = &r->k;
    bool wrong = false;
    for (int64_t i = 0; i < n; i++) {
        int64_t t = load_index(k->target, at + i * k->tw);
        wrong |= (t != k->ignore) & ((uint64_t)t >= (uint64_t)k->classes);
        classes[i] = t == k->ignore ? -1 : t;
    }
    for (int64_t i = 0; i < n && wrong; i++)
        if (classes[i] >= k->classes || (classes[i] < 0 && load_index(k->target, at + i * k->tw) != k->ignore))
            return rt_fail(r->ctx, RT_EINDEX, "target %lld is out of bounds: there are %lld classes",
                           (long long)classes[i], (long long)k->classes);
    return RT_OK;
}

/* Sums of a block's f32 losses, all classes alike: no branches, and four sums that do not wait for each other. */
static void nll_sum_block(const nll *k, const int64_t *classes, int64_t n, int64_t self, double *sums) {
    const float *x = (const float *)k->self->p + self;
    int64_t by_class = k->sc, step = k->sw, seen = 0, i = 0;
    double lost[4] = { 0 };
#define LOSE(to, i)                                                               \
    {                                                                             \
        bool counts = classes[i] >= 0;                                            \
        double loss = (double)x[(counts ? classes[i] : 0) * by_class + (i)*step]; \
        (to) -= counts ? loss : 0;                                                \
        seen += counts;                                                           \
    }
    for (; i + 4 <= n; i += 4) { LOSE(lost[0], i) LOSE(lost[1], i + 1) LOSE(lost[2], i + 2) LOSE(lost[3], i + 3) }
    for (; i < n; i++) LOSE(lost[0], i)
#undef LOSE
    sums[0] += (lost[0] + lost[1]) + (lost[2] + lost[3]);
    sums[1] += (double)seen;
}

/* The row begins at `self` and `out` (or grad: at `from`), in elements. */
static void nll_block(const nll_rows *r, const int64_t *classes, int64_t n, int64_t self, int64_t out, int64_t from,
                      double *sums) {
    const nll *k = &r->k;
    bool image = k->self->rank == 4;
    int64_t step = r->out && k->self->rank > 1 ? r->out->stride[image ? r->out->rank - 1 : 0] : 0;
    int64_t by_class = r->backward ? r->out->stride[r->out->rank == 1 ? 0 : 1] : 0;
    int64_t grad_step = r->grad ? r->grad->stride[image ? 2 : 0] : 0;
    if (!r->out && !r->weights && k->self->dtype == RT_F32 && k->classes) {
        nll_sum_block(k, classes, n, self, sums);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        int64_t t = classes[i];
        double weight = t < 0 ? 0 : r->weights ? r->weights[t] : 1;
        if (r->backward) {
            double g = r->grad ? load(r->grad, from + i * grad_step) : r->same;
            if (t >= 0) store(r->out, out + t * by_class + i * step, -weight * g);
            continue;
        }
        double x = t < 0 ? 0 : -load(k->self, self + t * k->sc + i * k->sw) * weight;
        if (r->out) store(r->out, out + i * step, x);
        sums[0] += x;
        sums[1] += weight;
    }
}

/* The lines of rows [begin, end) of an image each, in blocks. */
static int nll_lines(const nll_rows *r, int64_t begin, int64_t end, double *sums) {
    const nll *k = &r->k;
    const rt_view *o = r->out, *g = r->grad;
    int64_t classes[NLL_BLOCK], line = r->backward ? 2 : 1; /* of the output's dimensions */
    for (int64_t row = begin; row < end; row++) {
        int64_t n = row / k->h, h = row % k->h;
        for (int64_t w = 0, count; w < k->w; w += count) {
            count = k->w - w < NLL_BLOCK ? k->w - w : NLL_BLOCK;
            int code = nll_classes(r, n * k->tn + h * k->th + w * k->tw, count, classes);
            if (code) return code;
            nll_block(r, classes, count, n * k->sn + h * k->sh + w * k->sw,
                      o ? n * o->stride[0] + h * o->stride[line] + w * o->stride[line + 1] : 0,
                      g ? n * g->stride[0] + h * g->stride[1] + w * g->stride[2] : 0, sums);
        }
    }
    return RT_OK;
}

/* Rows of one place each, a block of them at a time. */
static int nll_places(const nll_rows *r, int64_t begin, int64_t end, double *sums) {
    const nll *k = &r->k;
    int64_t classes[NLL_BLOCK], out = r->out && k->self->rank > 1 ? r->out->stride[0] : 0;
    for (int64_t n = begin, count; n < end; n += count) {
        count = end - n < NLL_BLOCK ? end - n : NLL_BLOCK;
        int code = nll_classes(r, n * k->tn, count, classes);
        if (code) return code;
        nll_block(r, classes, count, n * k->sn, n * out, r->grad ? n * r->grad->stride[0] : 0, sums);
    }
    return RT_OK;
}

static int nll_parts(void *arg, int64_t begin, int64_t end) {
    const nll_rows *r = arg;
    int64_t rows = r->k.n * r->k.h;
    int code = RT_OK;
    for (int64_t part = begin; part < end && !code; part++) {
        double *sums = r->sums + 2 * part;
        int64_t first = part * r->part, last = rows - first < r->part ? rows : first + r->part;
        sums[0] = sums[1] = 0;
        code = (r->k.self->rank == 4 ? nll_lines : nll_places)(r, first, last, sums);
    }
    return code;
}

/* total: the sums of all parts. */
static int nll_run(const rt_ctx *ctx, nll_rows *r, double *total) {
    nll *k = &r->k;
    int64_t rows = k->n * k->h, each = k->w < 4096 ? 4096 / (k->w + 1) + 1 : 1, parts = (rows + each - 1) / each;
    int64_t classes = k->weight ? k->classes : 0;
    double *room = rt_scratch(ctx, (size_t)(classes + 2 * parts) * sizeof *room);
    if (!room) return RT_ENOMEM;
    for (int64_t i = 0; i < classes; i++) room[i] = load(k->weight, i * k->weight->stride[0]);
    r->ctx = ctx, r->weights = k->weight ? room : NULL, r->sums = room + classes, r->part = each;
    int code = rt_parallel_work(ctx, parts, each * k->w, 4096, nll_parts, r);
    total[0] = total[1] = 0;
    for (int64_t i = 0; i < parts && !code; i++) total[0] += r->sums[2 * i], total[1] += r->sums[2 * i + 1];
    rt_scratch_free(ctx, room);
    return code;
}

int rt_k_nll_loss(const rt_ctx *ctx, const rt_call *c) {
    const rt_view *out = &c->out[0], *total = &c->out[1];
    nll_rows r = { 0 };
    double sums[2];
    int code = nll_read(ctx, c, 0, &r.k);
    bool each = r.k.reduction == REDUCE_NONE && r.k.self->rank > 1;
    r.out = each ? out : NULL;
    if (!code) code = nll_run(ctx, &r, sums);
    if (code) return code;
    store(total, 0, each ? 0 : sums[1]);
    if (!each) store(out, 0, r.k.reduction == REDUCE_MEAN ? sums[0] / sums[1] : sums[0]);
    return RT_OK;
}

/* grad_output, self, target, weight, reduction, ignore_index, total_weight */
int rt_k_nll_loss_backward(const rt_ctx *ctx, const rt_call *c) {
    const rt_view *out = c->out, *grad = rt_arg_view(c, 0);
    nll_rows r = { .out = out, .backward = true };
    double sums[2];
    int code = nll_read(ctx, c, 1, &r.k);
    if (!code) code = rt_fill(ctx, out, (rt_scalar){ RT_ARG_INT, 0, 0, 0 });
    if (code || rt_numel(out) == 0) return code;
    bool each = r.k.reduction == REDUCE_NONE && r.k.self->rank > 1;
    r.grad = each ? grad : NULL;
    r.same = each ? 0 : load(grad, 0);
    if (r.k.reduction == REDUCE_MEAN) r.same /= load(rt_arg_view(c, 6), 0);
    return nll_run(ctx, &r, sums);
}

/* ---- binary cross entropy ---- */

enum { BCE_PART = 4096 }; /* elements that are summed before sums are added in order */
typedef struct bce {
    const rt_ctx *ctx;
    const void *x, *target, *weight; /* dense, in the dtype of the work; no weight: NULL */
    void *out;                       /* elements' losses, or NULL: only sums */
    double *sums;                    /* of every part */
    int64_t n;
} bce;

#define BCE(T, LOG1P, LOG)                                                                                             \
    static int bce_parts_##T(void *arg, int64_t begin, int64_t end) {                                                  \
        const bce *k = arg;                                                                                            \
        const T *x = k->x, *target = k->target, *weight = k->weight;                                                   \
        T loss[BCE_PART];                                                                                              \
        for (int64_t part = begin; part < end; part++) {                                                               \
            int64_t at = part * BCE_PART, n = k->n - at < BCE_PART ? k->n - at : BCE_PART;                             \
            T *to = k->out ? (T *)k->out + at : loss;                                                                  \
            for (int64_t i = 0; i < n; i++)                                                                            \
                if (!(x[at + i] >= 0 && x[at + i] <= 1))                                                               \
                    return rt_fail(k->ctx, RT_ERUNTIME,                                                                \
                                   "all elements of the input must be between 0 and 1, found %g", (double)x[at + i]);  \
            for (int64_t i = 0; i < n; i++) {                                                                          \
                T no = LOG1P(-x[at + i]), yes = LOG(x[at + i]), t = target[at + i];                                    \
                to[i] = (t - 1) * (no < -100 ? -100 : no) - t * (yes < -100 ? -100 : yes);                             \
            }                                                                                                          \
            for (int64_t i = 0; weight && i < n; i++) to[i] *= weight[at + i];                                         \
            double sum = 0;                                                                                            \
            for (int64_t i = 0; i < n; i++) sum += to[i];                                                              \
            k->sums[part] = sum;                                                                                       \
        }                                                                                                              \
        return RT_OK;                                                                                                  \
    }
BCE(float, rt_log1p_f32, rt_log_f32)
BCE(double, log1p, log)

/* `v`, broadcast to the sizes of `shape`, dense and in `dtype`. */
static int broadcast_dense(const rt_ctx *ctx, const rt_view *v, const rt_view *shape, int dtype, const void **p,
                           void **scratch) {
    rt_view wide = *shape, dense;
    wide.p = v->p, wide.dtype = v->dtype;
    for (int d = 0; d < shape->rank; d++) {
        int at = d - (shape->rank - v->rank);
        wide.stride[d] = at < 0 || v->size[at] == 1 ? 0 : v->stride[at];
    }
    int code = rt_contiguous(ctx, &wide, dtype, &dense, scratch);
    *p = dense.p;
    return code;
}

int rt_k_binary_cross_entropy(const rt_ctx *ctx, const rt_call *c) {
    const rt_view *self = rt_arg_view(c, 0), *weight = rt_arg_view(c, 2), *out = c->out;
    int64_t reduction = rt_arg_int(c, 3), n = rt_numel(self), parts = (n + BCE_PART - 1) / BCE_PART;
    int dtype = self->dtype == RT_F64 ? RT_F64 : RT_F32;
    bool stores = reduction == REDUCE_NONE, direct = stores && out->dtype == dtype && rt_is_contiguous(out);
    void *scratch[5] = { NULL };
    bce k = { .ctx = ctx, .n = n, .sums = scratch[0] = rt_scratch(ctx, (size_t)parts * sizeof(double)) };
    if (stores && !direct) scratch[1] = rt_scratch(ctx, (size_t)(n * rt_itemsize(dtype)));
    k.out = direct ? out->p : scratch[1];
    int code = !k.sums || (stores && !k.out && n) ? RT_ENOMEM : RT_OK;
    if (!code) code = broadcast_dense(ctx, self, self, dtype, &k.x, &scratch[2]);
    if (!code) code = broadcast_dense(ctx, rt_arg_view(c, 1), self, dtype, &k.target, &scratch[3]);
    if (!code && weight) code = broadcast_dense(ctx, weight, self, dtype, &k.weight, &scratch[4]);
    if (!code)
        code = rt_parallel_work(ctx, parts, BCE_PART, 4096, dtype == RT_F64 ? bce_parts_double : bce_parts_float, &k);
    if (!code && !stores) {
        double sum = 0;
        for (int64_t i = 0; i < parts; i++) sum += k.sums[i];
        store(out, 0, reduction == REDUCE_MEAN ? sum / (double)n : sum);
    } else if (!code && !direct) {
        rt_view losses = rt_view_contiguous(k.out, dtype, self->rank, self->size);
        code = rt_copy(ctx, out, &losses);
    }
    for (int i = 0; i < 5; i++) rt_scratch_free(ctx, scratch[i]);
    return code;
}

/* ---- multi-label margin: the targets of a row end at the first negative one ---- */

typedef struct labels { const rt_view *self, *target; int64_t n, classes, sn, sc, tn, tc; } labels;

static labels labels_of(const rt_view *self, const rt_view *target) {
    labels k = { .self = self, .target = target, .n = 1, .classes = 1 };
    int last = self->rank - 1;
    if (self->rank) k.classes = self->size[last], k.sc = self->stride[last], k.tc = target->stride[last];
    if (self->rank == 2) k.n = self->size[0], k.sn = self->stride[0], k.tn = target->stride[0];
    return k;
}

static int check_labels(const rt_ctx *ctx, const labels *k) {
    for (int64_t n = 0; n < k->n; n++) {
        for (int64_t i = 0; i < k->classes; i++) {
            int64_t t = load_index(k->target, n * k->tn + i * k->tc);
            if (t < -1 || t >= k->classes)
                return rt_fail(ctx, RT_ERUNTIME, "target %lld is out of range: it must be -1 or one of %lld classes",
                               (long long)t, (long long)k->classes);
        }
    }
    return RT_OK;
}

static inline int64_t row_at(const rt_view *v, int64_t n, int64_t i) {
    return v->rank == 2 ? n * v->stride[0] + i * v->stride[1] : v->rank == 1 ? i * v->stride[0] : 0;
}

int rt_k_multilabel_margin_loss(const rt_ctx *ctx, const rt_call *c) {
    const rt_view *out = &c->out[0], *flags = &c->out[1];
    labels k = labels_of(rt_arg_view(c, 0), rt_arg_view(c, 1));
    int64_t reduction = rt_arg_int(c, 2);
    bool each = reduction == REDUCE_NONE && k.self->rank == 2;
    double total = 0;
    int code = check_labels(ctx, &k);
    if (!code) code = rt_fill(ctx, flags, (rt_scalar){ RT_ARG_INT, 0, 0, 0 });
    if (code) return code;
    for (int64_t n = 0; n < k.n; n++) {
        double sum = 0;
        for (int64_t i = 0; i < k.classes; i++) {
            int64_t t = load_index(k.target, n * k.tn + i * k.tc);
            if (t < 0) break;
            store(flags, row_at(flags, n, t), 1);
        }
        for (int64_t i = 0; i < k.classes; i++) {
            int64_t t = load_index(k.target, n * k.tn + i * k.tc);
            if (t < 0) break;
            double x = load(k.self, n * k.sn + t * k.sc);
            for (int64_t d = 0; d < k.classes; d++) {
                if (load(flags, row_at(flags, n, d)) != 0) continue;
                double z = 1 - x + load(k.self, n * k.sn + d * k.sc);
                if (z > 0) sum += z;
            }
        }
        sum /= (double)k.classes;
        if (each) store(out, n * out->stride[0], sum);
        total += sum;
    }
    if (!each) store(out, 0, reduction == REDUCE_MEAN && rt_numel(k.self) ? total / (double)k.n : total);
    return RT_OK;
}

/* grad_output, self, target, reduction, is_target */
int rt_k_multilabel_margin_loss_backward(const rt_ctx *ctx, const rt_call *c) {
    const rt_view *grad = rt_arg_view(c, 0), *flags = rt_arg_view(c, 4), *out = c->out;
    labels k = labels_of(rt_arg_view(c, 1), rt_arg_view(c, 2));
    int64_t reduction = rt_arg_int(c, 3);
    int code = check_labels(ctx, &k);
    if (!code) code = rt_fill(ctx, out, (rt_scalar){ RT_ARG_INT, 0, 0, 0 });
    if (code || rt_numel(out) == 0) return code;
    double *row = rt_scratch(ctx, (size_t)k.classes * sizeof *row);
    if (!row) return rt_fail(ctx, RT_ENOMEM, "no memory for %lld classes", (long long)k.classes);
    double unit = 1 / ((double)k.classes * (double)(reduction == REDUCE_MEAN ? k.n : 1));
    for (int64_t n = 0; n < k.n; n++) {
        for (int64_t d = 0; d < k.classes; d++) row[d] = 0;
        for (int64_t i = 0; i < k.classes; i++) {
            int64_t t = load_index(k.target, n * k.tn + i * k.tc);
            if (t < 0) break;
            double x = load(k.self, n * k.sn + t * k.sc);
            for (int64_t d = 0; d < k.classes; d++) {
                if (load(flags, row_at(flags, n, d)) != 0) continue;
                if (1 - x + load(k.self, n * k.sn + d * k.sc) > 0) row[t] -= unit, row[d] += unit;
            }
        }
        double g = load(grad, reduction == REDUCE_NONE && grad->rank ? n * grad->stride[0] : 0);
        for (int64_t d = 0; d < k.classes; d++) store(out, row_at(out, n, d), row[d] * g);
    }
    rt_scratch_free(ctx, row);
    return RT_OK;
}
