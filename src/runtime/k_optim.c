/* k_optim.c: a step of an optimizer over lists of tensors: _fused_sgd_, _fused_adam_, _fused_adamw_, _fused_adagrad_.
 *
 * The elements of all parameters are one range that threads share, so that many small parameters cost as little as one
 * large one. Tensors of a parameter that lie in memory alike are walked as they lie; others through dense copies.
 * Halves are computed as floats, a block at a time. */
#include "runtime/kernels.h"
#include "runtime/rt_optim.h"

#include <math.h>
#include <string.h>

enum { BLOCK = 512, GRAIN = 2048 };
typedef enum rule { SGD, ADAM, ADAGRAD } rule;

typedef struct leaf {
    char *at[RT_OPTIM_TENSORS]; /* NULL: there is no such state */
    void *copy[RT_OPTIM_TENSORS];
    const rt_view *view[RT_OPTIM_TENSORS];
    rt_view dense[RT_OPTIM_TENSORS];
    int64_t begin, n; /* of the range */
    int32_t dtype;
    rt_optim o;
} leaf;

typedef struct work {
    leaf *leaves;
    int64_t n;
    rt_optim_fn *f32, *f64;
    const double *scale; /* of the gradients; NULL: none */
} work;

/* ---- where the elements are ---- */

/* Dense in some order of its dimensions, and `b` just the same. */
static bool lie_alike(const rt_view *a, const rt_view *b) {
    int64_t expected = 1;
    uint32_t seen = 0;
    for (int k = 0; k < a->rank; k++) {
        if (a->size[k] != 1 && a->stride[k] != b->stride[k]) return false;
        int d = 0;
        while (d < a->rank && ((seen >> d & 1) || (a->size[d] != 1 && a->stride[d] != expected))) d++;
        if (d == a->rank) return false;
        seen |= 1u << d;
        expected *= a->size[d];
    }
    return true;
}

static int place(const rt_ctx *ctx, leaf *f) {
    bool alike = true;
    for (int k = 0; k < RT_OPTIM_TENSORS; k++)
        if (f->view[k]) alike &= f->n == 0 || lie_alike(f->view[0], f->view[k]);
    int code = RT_OK;
    for (int k = 0; k < RT_OPTIM_TENSORS && !code; k++) {
        if (!f->view[k]) continue;
        if (alike) f->dense[k] = *f->view[k];
        else code = rt_contiguous(ctx, f->view[k], f->dtype, &f->dense[k], &f->copy[k]);
        f->at[k] = f->dense[k].p;
    }
    return code;
}

/* Puts what was changed in copies back where it belongs. */
static int put_back(const rt_ctx *ctx, const leaf *f, bool grads) {
    int code = RT_OK;
    for (int k = 0; k < RT_OPTIM_TENSORS && !code; k++)
        if (f->copy[k] && (k != 1 || grads)) code = rt_copy(ctx, f->view[k], &f->dense[k]);
    return code;
}

/* ---- the loop over all elements ---- */

static void unscale(int dtype, void *grad, double scale, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        if (dtype == RT_F64) ((double *)grad)[i] /= scale;
        else ((float *)grad)[i] /= (float)scale;
    }
}

static void step_halves(const work *w, const leaf *f, int64_t from, int64_t n) {
    float room[RT_OPTIM_TENSORS][BLOCK];
    void *t[RT_OPTIM_TENSORS];
    for (int k = 0; k < RT_OPTIM_TENSORS; k++) t[k] = f->at[k] ? room[k] : NULL;
    for (int64_t end = from + n; from < end; from += BLOCK) {
        int64_t m = end - from < BLOCK ? end - from : BLOCK;
        for (int k = 0; k < RT_OPTIM_TENSORS; k++)
            if (t[k]) rt_convert(RT_F32, t[k], 1, f->dtype, f->at[k] + 2 * from, 1, m);
        if (w->scale) unscale(RT_F32, t[1], *w->scale, m);
        w->f32(&f->o, t, m);
        for (int k = 0; k < RT_OPTIM_TENSORS; k++)
            if (t[k] && (k != 1 || w->scale)) rt_convert(f->dtype, f->at[k] + 2 * from, 1, RT_F32, t[k], 1, m);
    }
}

static void step_part(const work *w, const leaf *f, int64_t from, int64_t n) {
    if (f->dtype == RT_F16 || f->dtype == RT_BF16) {
        step_halves(w, f, from, n);
        return;
    }
    void *t[RT_OPTIM_TENSORS];
    int64_t bytes = rt_itemsize(f->dtype);
    for (int k = 0; k < RT_OPTIM_TENSORS; k++) t[k] = f->at[k] ? f->at[k] + bytes * from : NULL;
    if (w->scale) unscale(f->dtype, t[1], *w->scale, n);
    (f->dtype == RT_F64 ? w->f64 : w->f32)(&f->o, t, n);
}

static int step_range(void *arg, int64_t begin, int64_t end) {
    const work *w = arg;
    int64_t low = 0, high = w->n; /* the last leaf that begins at or before `begin` */
    while (high - low > 1) {
        int64_t middle = (low + high) / 2;
        if (w->leaves[middle].begin <= begin) low = middle;
        else high = middle;
    }
    for (int64_t i = low; i < w->n && begin < end; i++) {
        const leaf *f = &w->leaves[i];
        int64_t from = begin - f->begin, n = (end < f->begin + f->n ? end : f->begin + f->n) - begin;
        if (n <= 0) continue;
        step_part(w, f, from, n);
        begin += n;
    }
    return RT_OK;
}

/* ---- the four ops ---- */

static double number_of(const rt_view *v) {
    double x;
    rt_convert(RT_F64, &x, 1, v->dtype, v->p, 1, 1);
    return x;
}

static rt_optim_fn *loop_of(rule rule, int dtype) {
    static rt_optim_fn *const loops[][2] = {
        { rt__optim_sgd_f32_base, rt__optim_sgd_f64_base },
        { rt__optim_adam_f32_base, rt__optim_adam_f64_base },
        { rt__optim_adagrad_f32_base, rt__optim_adagrad_f64_base },
#if defined(__x86_64__)
        { rt__optim_sgd_f32_avx2, rt__optim_sgd_f64_avx2 },
        { rt__optim_adam_f32_avx2, rt__optim_adam_f64_avx2 },
        { rt__optim_adagrad_f32_avx2, rt__optim_adagrad_f64_avx2 },
#endif
    };
    int set = (int)(sizeof loops / sizeof *loops) > 3 && (rt_cpu() & RT_CPU_AVX2) ? 3 : 0;
    return loops[set + rule][dtype == RT_F64];
}

/* The numbers of one parameter's step; `step`: which step it is, where the op is told. */
typedef void numbers(const rt_call *c, double step, rt_optim *o);

/* lists: how many of the first arguments are tensors of the parameters; one more has the steps if `counted`. */
static int run(const rt_ctx *ctx, const rt_call *c, rule rule, int lists, bool counted, numbers *fill) {
    const rt_view *scale = rt_arg_view(c, c->nargs - 2), *inf = rt_arg_view(c, c->nargs - 1);
    if (inf && number_of(inf) == 1) return RT_OK;
    double by = scale ? number_of(scale) : 1;
    work w = { .n = c->arg[0].n, .f32 = loop_of(rule, RT_F32), .f64 = loop_of(rule, RT_F64),
               .scale = scale ? &by : NULL };
    int64_t total = 0;
    w.leaves = rt_scratch(ctx, (size_t)w.n * sizeof *w.leaves);
    if (!w.leaves) return RT_ENOMEM;
    memset(w.leaves, 0, (size_t)w.n * sizeof *w.leaves);
    int code = RT_OK;
    for (int64_t i = 0; i < w.n && !code; i++) {
        leaf *f = &w.leaves[i];
        for (int k = 0; k < lists; k++) f->view[k] = c->arg[k].n ? c->arg[k].u.views[i] : NULL;
        f->dtype = f->view[0]->dtype;
        f->begin = total;
        f->n = rt_numel(f->view[0]);
        total += f->n;
        fill(c, counted ? number_of(c->arg[lists].u.views[i]) : 0, &f->o);
        code = place(ctx, f);
    }
    if (!code) code = rt_parallel_for(ctx, total, GRAIN, step_range, &w);
    for (int64_t i = 0; i < w.n; i++) {
        leaf *f = &w.leaves[i];
        if (!code) code = put_back(ctx, f, scale != NULL);
        for (int k = 0; k < RT_OPTIM_TENSORS; k++)
            if (f->copy[k]) rt_scratch_free(ctx, f->copy[k]);
    }
    rt_scratch_free(ctx, w.leaves);
    return code;
}

/* A number, or a tensor of one element. */
static double rate_of(const rt_call *c, int i) {
    const rt_view *v = rt_arg_view(c, i);
    return v ? number_of(v) : rt_arg_float(c, i);
}

static void decay_gradient(rt_optim *o, double decay, bool maximize) {
    o->sign = maximize ? -1 : 1;
    o->decay = decay != 0 ? RT_DECAY_GRADIENT : RT_DECAY_NONE;
    o->weight = decay;
}

/* self, grads, momentum_buffer_list, weight_decay, momentum, lr, dampening, nesterov, maximize, is_first_step, ... */
static void fill_sgd(const rt_call *c, double step, rt_optim *o) {
    (void)step;
    decay_gradient(o, rt_arg_float(c, 3), rt_arg_int(c, 8));
    o->momentum = rt_arg_float(c, 4);
    o->has_momentum = c->arg[2].n;
    o->rate = -rate_of(c, 5);
    o->undamped = 1 - rt_arg_float(c, 6);
    o->nesterov = rt_arg_int(c, 7);
    o->is_first = rt_arg_int(c, 9);
}

/* self, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps, lr, beta1, beta2, weight_decay, eps, amsgrad,
 * maximize, ... */
static void fill_adam(const rt_call *c, double step, rt_optim *o) {
    double lr = rate_of(c, 6), beta1 = rt_arg_float(c, 7), beta2 = rt_arg_float(c, 8);
    decay_gradient(o, rt_arg_float(c, 9), rt_arg_int(c, 12));
    o->mean = 1 - beta1;
    o->square = beta2;
    o->rate = -(lr / (1 - pow(beta1, step)));
    o->root = pow(1 - pow(beta2, step), 0.5);
    o->eps = rt_arg_float(c, 10);
    o->amsgrad = rt_arg_int(c, 11);
}

static void fill_adamw(const rt_call *c, double step, rt_optim *o) {
    fill_adam(c, step, o);
    if (!o->decay) return;
    o->decay = RT_DECAY_WEIGHT;
    o->weight = 1 - rate_of(c, 6) * o->weight;
}

/* self, grads, state_sums, state_steps, lr, lr_decay, weight_decay, eps, maximize, ... */
static void fill_adagrad(const rt_call *c, double step, rt_optim *o) {
    decay_gradient(o, rt_arg_float(c, 6), rt_arg_int(c, 8));
    o->rate = -(rate_of(c, 4) / (1 + (step - 1) * rt_arg_float(c, 5)));
    o->eps = rt_arg_float(c, 7);
}

int rt_k_fused_sgd(const rt_ctx *ctx, const rt_call *c) { return run(ctx, c, SGD, 3, false, fill_sgd); }
int rt_k_fused_adam(const rt_ctx *ctx, const rt_call *c) { return run(ctx, c, ADAM, 5, true, fill_adam); }
int rt_k_fused_adamw(const rt_ctx *ctx, const rt_call *c) { return run(ctx, c, ADAM, 5, true, fill_adamw); }
int rt_k_fused_adagrad(const rt_ctx *ctx, const rt_call *c) { return run(ctx, c, ADAGRAD, 3, true, fill_adagrad); }
