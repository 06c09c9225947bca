/* k_ctc.c: connectionist temporal classification: the probability of a label sequence summed over all its alignments.
 *
 * With l' the labels with blanks around each (2S + 1 of them), alpha[t][s] is the logarithm of the probability of all
 * beginnings that reach l'[s] at time t, and beta[t][s] that of all ends from there. A state is reached from itself,
 * from its neighbour, and from the one before that when the two are different labels. Everything is computed in f64;
 * alpha is kept for the backward pass. Lengths come as numbers or as tensors. */
#include "runtime/kernels.h"

#include <math.h>

typedef struct ctc {
    const rt_view *probs, *targets; /* (T, B, C); (B, S) or all labels in a row */
    const rt_arg *input_lengths, *target_lengths;
    int64_t steps, batch, classes, blank;
} ctc;

static double load(const rt_view *v, int64_t at) {
    return v->dtype == RT_F64 ? ((const double *)v->p)[at] : (double)((const float *)v->p)[at];
}

static void store(const rt_view *v, int64_t at, double x) {
    if (v->dtype == RT_F64) ((double *)v->p)[at] = x;
    else ((float *)v->p)[at] = (float)x;
}

static int64_t length_at(const rt_arg *a, int64_t b) {
    if (a->kind == RT_ARG_INTS) return a->u.ints[b];
    int64_t value;
    const rt_view *v = a->u.view;
    if (v->dtype == RT_I64) return ((const int64_t *)v->p)[b * v->stride[0]];
    rt_convert(RT_I64, &value, 1, v->dtype, (const char *)v->p + b * v->stride[0] * rt_itemsize(v->dtype), 1, 1);
    return value;
}

/* exp(x), x <= 0: the largest of a sum's terms and those that nothing reaches are not worth a call. */
static double share(double x) { return x == 0 ? 1 : x == -INFINITY ? 0 : exp(x); }

/* log(exp(a) + exp(b) + exp(c)) */
static double log_sum(double a, double b, double c) {
    double most = fmax(a, fmax(b, c));
    if (most == -INFINITY) return most;
    double sum = share(a - most) + share(b - most) + share(c - most);
    return sum == 1 ? most : most + log(sum);
}

/* Element [i][j] of what follows l' for one sequence: labels start at `first` and are `apart`. */
typedef struct labels { const rt_view *v; int64_t first, apart, blank; } labels;
static int64_t label_at(const labels *l, int64_t s) {
    if (s % 2 == 0) return l->blank;
    int64_t at = l->first + l->apart * (s / 2);
    return l->v->dtype == RT_I32 ? ((const int32_t *)l->v->p)[at] : ((const int64_t *)l->v->p)[at];
}

static int64_t longest(const ctc *k) {
    int64_t most = 0;
    for (int64_t b = 0; b < k->batch; b++) {
        int64_t n = length_at(k->target_lengths, b);
        if (n > most) most = n;
    }
    return most;
}

static int ctc_read(const rt_ctx *ctx, const rt_call *c, int first, int blank, ctc *k) {
    const rt_view *p = rt_arg_view(c, first), *t = rt_arg_view(c, first + 1);
    *k = (ctc){
        p, t, &c->arg[first + 2], &c->arg[first + 3], p->size[0], p->size[1], p->size[2], rt_arg_int(c, blank)
    };
    if (p->dtype != RT_F32 && p->dtype != RT_F64)
        return rt_fail(ctx, RT_ENOTIMPL, "expected float32 or float64, not %s", rt_dtype_name(p->dtype));
    if (t->dtype != RT_I32 && t->dtype != RT_I64)
        return rt_fail(ctx, RT_ERUNTIME, "expected int32 or int64 targets, not %s", rt_dtype_name(t->dtype));
    if (k->blank < 0 || k->blank >= k->classes)
        return rt_fail(ctx, RT_ERUNTIME, "blank must be one of the %lld classes, got %lld", (long long)k->classes,
                       (long long)k->blank);
    int64_t total = 0;
    for (int64_t b = 0; b < k->batch; b++) {
        int64_t steps = length_at(k->input_lengths, b), n = length_at(k->target_lengths, b);
        if (steps < 0 || steps > k->steps)
            return rt_fail(ctx, RT_ERUNTIME, "input length %lld of sequence %lld is outside [0, %lld]",
                           (long long)steps, (long long)b, (long long)k->steps);
        if (n < 0 || n > t->size[t->rank - 1])
            return rt_fail(ctx, RT_ERUNTIME, "target length %lld of sequence %lld does not fit the targets",
                           (long long)n, (long long)b);
        total += n;
    }
    if (t->rank == 1 && total != t->size[0])
        return rt_fail(ctx, RT_ERUNTIME, "the target lengths sum to %lld, but there are %lld labels", (long long)total,
                       (long long)t->size[0]);
    return RT_OK;
}

static labels labels_of(const ctc *k, int64_t b) {
    labels l = { .v = k->targets, .blank = k->blank };
    if (k->targets->rank == 2) {
        l.first = b * k->targets->stride[0];
        l.apart = k->targets->stride[1];
    } else {
        l.apart = k->targets->stride[0];
        for (int64_t i = 0; i < b; i++) l.first += length_at(k->target_lengths, i) * l.apart;
    }
    return l;
}

static int check_labels(const rt_ctx *ctx, const ctc *k, const labels *l, int64_t n) {
    for (int64_t s = 1; s < 2 * n; s += 2)
        if (label_at(l, s) < 0 || label_at(l, s) >= k->classes)
            return rt_fail(ctx, RT_ERUNTIME, "label %lld is outside of the %lld classes", (long long)label_at(l, s),
                           (long long)k->classes);
    return RT_OK;
}

static double prob_at(const ctc *k, int64_t t, int64_t b, int64_t class) {
    const rt_view *p = k->probs;
    return load(p, t * p->stride[0] + b * p->stride[1] + class * p->stride[2]);
}

/* Sequences are independent: threads share them. */
typedef struct ctc_work {
    const rt_ctx *ctx;
    ctc k;
    int64_t longest;
    const rt_view *loss, *alpha; /* forward: to write */
    const rt_view *grad, *out;   /* backward */
    bool zero_infinity;
} ctc_work;

static int ctc_forward(const ctc_work *w, int64_t b, double *row) {
    const ctc *k = &w->k;
    const rt_view *alpha = w->alpha;
    int64_t steps = length_at(k->input_lengths, b), n = length_at(k->target_lengths, b), states = 2 * n + 1;
    labels l = labels_of(k, b);
    double *now = row, *before = row + states;
    int code = check_labels(w->ctx, k, &l, n);
    for (int64_t t = 0; t < steps && !code; t++) {
        double *swap = before;
        before = now;
        now = swap;
        for (int64_t s = 0; s < states; s++) {
            double p = prob_at(k, t, b, label_at(&l, s)), reached = s < 2 ? 0 : -INFINITY; /* either start */
            if (t) {
                bool skips = s > 1 && label_at(&l, s) != label_at(&l, s - 2);
                reached = log_sum(before[s], s > 0 ? before[s - 1] : -INFINITY, skips ? before[s - 2] : -INFINITY);
            }
            now[s] = reached + p;
            store(alpha, b * alpha->stride[0] + t * alpha->stride[1] + s * alpha->stride[2], now[s]);
        }
    }
    double end = steps ? log_sum(now[states - 1], n ? now[states - 2] : -INFINITY, -INFINITY) : n ? -INFINITY : 0;
    store(w->loss, b * w->loss->stride[0], -end);
    return code;
}

static int ctc_backward(const ctc_work *w, int64_t b, double *row) {
    const ctc *k = &w->k;
    const rt_view *alpha = w->alpha, *out = w->out;
    int64_t steps = length_at(k->input_lengths, b), n = length_at(k->target_lengths, b), states = 2 * n + 1;
    double nll = load(w->loss, b * w->loss->stride[0]), g = load(w->grad, w->grad->rank ? b * w->grad->stride[0] : 0);
    labels l = labels_of(k, b);
    double *now = row, *after = row + states, *sum = row + 2 * states;
    int code = check_labels(w->ctx, k, &l, n);
    if (w->zero_infinity && nll == INFINITY) return code;
    for (int64_t t = steps - 1; t >= 0 && !code; t--) {
        double *swap = after;
        after = now;
        now = swap;
        for (int64_t i = 0; i < k->classes; i++) sum[i] = -INFINITY;
        for (int64_t s = 0; s < states; s++) {
            int64_t class = label_at(&l, s);
            double rest = s >= states - 2 ? 0 : -INFINITY; /* either end */
            if (t < steps - 1) {
                bool skips = s < states - 2 && class != label_at(&l, s + 2);
                rest = log_sum(after[s], s < states - 1 ? after[s + 1] : -INFINITY, skips ? after[s + 2] : -INFINITY);
            }
            now[s] = rest + prob_at(k, t, b, class);
            double through = load(alpha, b * alpha->stride[0] + t * alpha->stride[1] + s * alpha->stride[2]) + now[s];
            sum[class] = log_sum(sum[class], through, -INFINITY);
        }
        for (int64_t i = 0; i < k->classes; i++) {
            double p = prob_at(k, t, b, i);
            store(out, t * out->stride[0] + b * out->stride[1] + i * out->stride[2],
                  (exp(p) - exp(sum[i] + nll - p)) * g);
        }
    }
    return code;
}

static int ctc_sequences(void *arg, int64_t begin, int64_t end) {
    const ctc_work *w = arg;
    int64_t room = 2 * (2 * w->longest + 1) + (w->out ? w->k.classes : 0);
    double *row = rt_scratch(w->ctx, (size_t)room * sizeof *row);
    if (!row) return rt_fail(w->ctx, RT_ENOMEM, "no memory for %lld labels", (long long)w->longest);
    int code = RT_OK;
    for (int64_t b = begin; b < end && !code; b++) code = (w->out ? ctc_backward : ctc_forward)(w, b, row);
    rt_scratch_free(w->ctx, row);
    return code;
}

static int ctc_run(ctc_work *w) {
    int64_t each = w->k.steps * (2 * w->longest + 1 + (w->out ? w->k.classes : 0));
    return rt_parallel_work(w->ctx, w->k.batch, each, 64, ctc_sequences, w);
}

/* log_probs, targets, input_lengths, target_lengths, blank, zero_infinity; out: (B), (B, T, 2S + 1) */
int rt_k_ctc_loss(const rt_ctx *ctx, const rt_call *c) {
    ctc_work w = { .ctx = ctx };
    int code = ctc_read(ctx, c, 0, 4, &w.k);
    if (code) return code;
    w.longest = longest(&w.k);
    if (c->phase == RT_COUNT) {
        c->count[0] = w.longest;
        return RT_OK;
    }
    w.loss = &c->out[0], w.alpha = &c->out[1];
    code = rt_fill(ctx, w.alpha, (rt_scalar){ RT_ARG_FLOAT, 0, -INFINITY, 0 });
    return code ? code : ctc_run(&w);
}

/* grad, log_probs, targets, input_lengths, target_lengths, neg_log_likelihood, log_alpha, blank, zero_infinity */
int rt_k_ctc_loss_backward(const rt_ctx *ctx, const rt_call *c) {
    ctc_work w = { .ctx = ctx,
                   .grad = rt_arg_view(c, 0),
                   .loss = rt_arg_view(c, 5),
                   .alpha = rt_arg_view(c, 6),
                   .out = c->out,
                   .zero_infinity = rt_arg_int(c, 8) != 0 };
    int code = ctc_read(ctx, c, 1, 7, &w.k);
    if (!code) w.longest = longest(&w.k);
    if (!code && w.alpha->size[2] < 2 * w.longest + 1)
        code = rt_fail(ctx, RT_ERUNTIME, "log_alpha has %lld states, a target of %lld labels needs %lld",
                       (long long)w.alpha->size[2], (long long)w.longest, (long long)(2 * w.longest + 1));
    if (!code) code = rt_fill(ctx, w.out, (rt_scalar){ RT_ARG_INT, 0, 0, 0 });
    return code ? code : ctc_run(&w);
}
