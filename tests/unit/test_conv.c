/* The convolution kernels against the sum they are defined by: dtypes, 1 to 3 dimensions, strides, padding, dilation,
 * groups, transposed, strange layouts; forward and all gradients; equal bits for any number of threads. */
#include "check.h"
#include "every_isa.h"
#include "runtime/kernels.h"

#include <complex.h>

static char message[128];
static rt_ctx ctx;
static uint64_t seed = 3;

static int64_t draw(int64_t below) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((seed >> 33) % (uint64_t)below);
}

/* A tensor of rank 5 (n, c, 3 dimensions), as numbers and as memory of some dtype and layout. */
typedef struct tensor {
    rt_view v;
    int64_t elements; /* in memory */
    double complex *value;
} tensor;

static tensor tensor_new(int dtype, int rank, const int64_t *size, bool gaps) {
    tensor t = { .v = { .dtype = dtype, .rank = rank } };
    int64_t n = 1, stride = gaps ? 2 : 1;
    bool last_channels = rank > 2 && gaps && draw(2);
    for (int i = rank - 1; i >= 0; i--) {
        int d = last_channels ? (i == rank - 1 ? 1 : i == 0 ? 0 : i + 1) : i;
        t.v.size[d] = size[d];
        t.v.stride[d] = stride;
        stride *= size[d] + (gaps && draw(2));
        n *= size[d];
    }
    t.elements = stride + 1;
    t.v.p = malloc((size_t)(t.elements * rt_itemsize(dtype)));
    t.value = malloc((size_t)(n + 1) * sizeof *t.value);
    return t;
}

static void tensor_free(tensor *t) { free(t->v.p), free(t->value); }

static int64_t place(const rt_view *v, int64_t linear) {
    int64_t at = 0;
    for (int d = v->rank - 1; d >= 0; d--) at += linear % v->size[d] * v->stride[d], linear /= v->size[d];
    return at;
}

/* Small whole numbers, so that every dtype holds every sum exactly. */
static void tensor_draw(tensor *t) {
    for (int64_t i = 0; i < rt_numel(&t->v); i++) {
        t->value[i] = (double)(draw(7) - 3) + (rt_is_complex(t->v.dtype) ? (double)(draw(7) - 3) * I : 0);
        rt_convert(t->v.dtype, (char *)t->v.p + place(&t->v, i) * rt_itemsize(t->v.dtype), 1, RT_C128, &t->value[i], 1,
                   1);
    }
}

static bool tensor_is(const tensor *t) {
    for (int64_t i = 0; i < rt_numel(&t->v); i++) {
        double z[2];
        rt_convert(RT_C128, z, 1, t->v.dtype, (char *)t->v.p + place(&t->v, i) * rt_itemsize(t->v.dtype), 1, 1);
        if (z[0] != creal(t->value[i]) || z[1] != cimag(t->value[i])) return false;
    }
    return true;
}

typedef struct problem {
    int dtype, rank;
    bool transposed, bias, gaps;
    int64_t n, groups, in_per_group, out_per_group, size[3], kernel[3], stride[3], padding[3], dilation[3], extra[3];
} problem;

/* Calls visit(x index, w index, y index) for every term, x and y being the two sides of the plain convolution. */
typedef struct terms { const rt_view *x, *w, *y; const problem *q; } terms;

static void each_term(const terms *s, void (*visit)(void *, int64_t, int64_t, int64_t), void *arg) {
    const problem *q = s->q;
    int64_t dims[3][3] = { { 1, 1, 1 }, { 1, 1, 1 }, { 1, 1, 1 } }, step[3][3] = { { 1, 1, 1 }, { 0 }, { 1, 1, 1 } };
    for (int d = 0; d < q->rank; d++) {
        int at = 3 - q->rank + d;
        dims[0][at] = s->x->size[d + 2], dims[1][at] = s->w->size[d + 2], dims[2][at] = s->y->size[d + 2];
        step[0][at] = q->stride[d], step[1][at] = q->padding[d], step[2][at] = q->dilation[d];
    }
    int64_t c = s->x->size[1], o = s->y->size[1], cg = c / q->groups, og = o / q->groups;
    int64_t xs = dims[0][0] * dims[0][1] * dims[0][2], ys = dims[2][0] * dims[2][1] * dims[2][2];
    int64_t ks = dims[1][0] * dims[1][1] * dims[1][2];
    for (int64_t n = 0; n < q->n; n++)
        for (int64_t a = 0; a < o; a++)
            for (int64_t p = 0; p < ys; p++)
                for (int64_t b = 0; b < cg; b++)
                    for (int64_t t = 0; t < ks; t++) {
                        int64_t rest_p = p, rest_t = t, at = 0, unit = 1;
                        bool inside = true;
                        for (int d = 2; d >= 0; d--) {
                            int64_t u = rest_p % dims[2][d] * step[0][d] - step[1][d] +
                                        rest_t % dims[1][d] * step[2][d];
                            inside = inside && u >= 0 && u < dims[0][d];
                            at += u * unit;
                            unit *= dims[0][d];
                            rest_p /= dims[2][d], rest_t /= dims[1][d];
                        }
                        if (inside)
                            visit(arg, (n * c + a / og * cg + b) * xs + at, (a * cg + b) * ks + t,
                                  (n * o + a) * ys + p);
                    }
}

typedef struct run { tensor input, weight, bias, out, grad, dx, dw, db; const problem *q; } run;

static void forward_term(void *arg, int64_t x, int64_t w, int64_t y) {
    run *r = arg;
    if (r->q->transposed) r->out.value[x] += r->input.value[y] * r->weight.value[w];
    else r->out.value[y] += r->input.value[x] * r->weight.value[w];
}

static void backward_term(void *arg, int64_t x, int64_t w, int64_t y) {
    run *r = arg;
    int64_t in = r->q->transposed ? y : x, out = r->q->transposed ? x : y;
    r->dx.value[in] += r->grad.value[out] * conj(r->weight.value[w]);
    r->dw.value[w] += r->grad.value[out] * conj(r->input.value[in]);
}

static int64_t out_size(const problem *q, int d) {
    int64_t span = q->dilation[d] * (q->kernel[d] - 1) + 1;
    if (q->transposed) return (q->size[d] - 1) * q->stride[d] - 2 * q->padding[d] + span + q->extra[d];
    int64_t room = q->size[d] + 2 * q->padding[d] - span;
    return room < 0 ? -1 : room / q->stride[d] + 1;
}

static void fill_bytes(tensor *t, int byte) { memset(t->v.p, byte, (size_t)(t->elements * rt_itemsize(t->v.dtype))); }

static void call_kernels(run *r, int threads) {
    const problem *q = r->q;
    rt_pool *pool = rt_pool_create(threads);
    ctx = rt_ctx_plain(pool, message, sizeof message);
    int64_t sizes[1] = { r->out.v.size[1] }, mask[3] = { 1, 1, 1 };
    rt_arg lists[4] = { { RT_ARG_INTS, (uint32_t)q->rank, { .ints = q->stride } },
                        { RT_ARG_INTS, (uint32_t)q->rank, { .ints = q->padding } },
                        { RT_ARG_INTS, (uint32_t)q->rank, { .ints = q->dilation } },
                        { RT_ARG_INTS, (uint32_t)q->rank, { .ints = q->extra } } };
    rt_arg transposed = { RT_ARG_INT, 0, { .i = q->transposed } }, groups = { RT_ARG_INT, 0, { .i = q->groups } };
    rt_arg bias = { q->bias ? RT_ARG_VIEW : RT_ARG_NONE, 0, { .view = &r->bias.v } };
    rt_arg forward[] = { { RT_ARG_VIEW, 0, { .view = &r->input.v } },
                         { RT_ARG_VIEW, 0, { .view = &r->weight.v } },
                         bias,
                         lists[0],
                         lists[1],
                         lists[2],
                         transposed,
                         lists[3],
                         groups };
    rt_arg backward[] = { { RT_ARG_VIEW, 0, { .view = &r->grad.v } }, forward[0], forward[1],
                          { RT_ARG_INTS, 1, { .ints = sizes } }, lists[0], lists[1], lists[2], transposed, lists[3],
                          groups, { RT_ARG_INTS, 3, { .ints = mask } } };
    fill_bytes(&r->out, 0xff), fill_bytes(&r->dx, 0xff), fill_bytes(&r->dw, 0xff), fill_bytes(&r->db, 0xff);
    rt_call call = { .arg = forward, .out = &r->out.v, .nargs = 9, .nout = 1 };
    CHECK_EQ(rt_k_convolution(&ctx, &call), RT_OK);
    rt_view outs[3] = { r->dx.v, r->dw.v, r->db.v };
    call = (rt_call){ .arg = backward, .out = outs, .nargs = 11, .nout = 3 };
    CHECK_EQ(rt_k_convolution_backward(&ctx, &call), RT_OK);
    rt_pool_release(pool);
}

static bool solve(const problem *q) {
    run r = { .q = q };
    int64_t cin = q->groups * q->in_per_group, cout = q->groups * q->out_per_group;
    int64_t x[5] = { q->n, cin }, y[5] = { q->n, cout }, w[5] = { cout, q->in_per_group };
    if (q->transposed) w[0] = cin, w[1] = q->out_per_group;
    for (int d = 0; d < q->rank; d++) {
        x[d + 2] = q->size[d], w[d + 2] = q->kernel[d], y[d + 2] = out_size(q, d);
        if (y[d + 2] < 1) return false;
    }
    int rank = q->rank + 2;
    r.input = tensor_new(q->dtype, rank, x, q->gaps), r.weight = tensor_new(q->dtype, rank, w, q->gaps);
    r.bias = tensor_new(q->dtype, 1, &cout, q->gaps), r.out = tensor_new(q->dtype, rank, y, q->gaps);
    r.grad = tensor_new(q->dtype, rank, y, q->gaps), r.dx = tensor_new(q->dtype, rank, x, q->gaps);
    r.dw = tensor_new(q->dtype, rank, w, q->gaps), r.db = tensor_new(q->dtype, 1, &cout, false);
    tensor_draw(&r.input), tensor_draw(&r.weight), tensor_draw(&r.bias), tensor_draw(&r.grad);

    int64_t plane = rt_numel(&r.out.v) / (q->n * cout);
    memset(r.dx.value, 0, (size_t)rt_numel(&r.dx.v) * sizeof *r.dx.value);
    memset(r.dw.value, 0, (size_t)rt_numel(&r.dw.v) * sizeof *r.dw.value);
    memset(r.db.value, 0, (size_t)cout * sizeof *r.db.value);
    for (int64_t i = 0; i < rt_numel(&r.out.v); i++) {
        r.out.value[i] = q->bias ? r.bias.value[i / plane % cout] : 0;
        r.db.value[i / plane % cout] += r.grad.value[i];
    }
    terms s = { q->transposed ? &r.out.v : &r.input.v, &r.weight.v, q->transposed ? &r.input.v : &r.out.v, q };
    each_term(&s, forward_term, &r);
    each_term(&s, backward_term, &r);

    for (int threads = 1; threads <= 3; threads += 2) {
        call_kernels(&r, threads);
        bool y_right = tensor_is(&r.out), dx = tensor_is(&r.dx), dw = tensor_is(&r.dw), db = tensor_is(&r.db);
        if (!y_right || !dx || !dw || !db)
            CHECK_FAILED("dtype %d rank %d transposed %d n %d groups %d channels %d %d size %d %d %d kernel %d %d %d "
                         "stride %d %d %d padding %d %d %d dilation %d %d %d gaps %d threads %d: y %d dx %d dw %d db "
                         "%d",
                         q->dtype, q->rank, q->transposed, (int)q->n, (int)q->groups, (int)q->in_per_group,
                         (int)q->out_per_group, (int)q->size[0], (int)q->size[1], (int)q->size[2], (int)q->kernel[0],
                         (int)q->kernel[1], (int)q->kernel[2], (int)q->stride[0], (int)q->stride[1], (int)q->stride[2],
                         (int)q->padding[0], (int)q->padding[1], (int)q->padding[2], (int)q->dilation[0],
                         (int)q->dilation[1], (int)q->dilation[2], q->gaps, threads, y_right, dx, dw, db);
        else CHECK(true);
    }
    tensor *all[] = { &r.input, &r.weight, &r.bias, &r.out, &r.grad, &r.dx, &r.dw, &r.db };
    for (int i = 0; i < 8; i++) tensor_free(all[i]);
    return true;
}

static void random_problems(void) {
    static const int dtypes[] = { RT_F32, RT_F32, RT_F64, RT_BF16, RT_F16, RT_I32, RT_I64, RT_I8, RT_C64, RT_C128 };
    for (int done = 0; done < 250;) {
        problem q = { .dtype = dtypes[draw(10)], .rank = 1 + (int)draw(3), .transposed = draw(3) == 0, .bias = draw(2),
                      .gaps = draw(3) == 0, .n = 1 + draw(2), .groups = 1 + draw(3) };
        q.in_per_group = draw(2) ? 1 : 1 + draw(4), q.out_per_group = draw(2) ? 1 : 1 + draw(9);
        for (int d = 0; d < q.rank; d++) {
            q.size[d] = 1 + draw(q.rank == 1 ? 60 : q.rank == 2 ? 20 : 6);
            q.kernel[d] = 1 + draw(4), q.stride[d] = 1 + draw(3), q.padding[d] = draw(3), q.dilation[d] = 1 + draw(2);
            q.extra[d] = q.transposed ? draw(q.stride[d]) : 0;
        }
        /* Sums of up to 9 * terms stay exact in each dtype; narrow ones get few terms, or wrap. */
        if (q.dtype == RT_BF16 || q.dtype == RT_F16)
            q.in_per_group = q.out_per_group = q.n = 1, q.kernel[0] = 1, q.rank = 1, q.size[0] = 1 + draw(8);
        if (q.dtype == RT_I8)
            q.in_per_group = q.out_per_group = q.n = 1, q.rank = 1, q.kernel[0] = 1 + draw(2), q.size[0] = 1 + draw(5);
        done += solve(&q);
    }
}

static void deep_sums(void) {
    problem q = { .dtype = RT_F32, .rank = 2, .n = 1, .groups = 1, .in_per_group = 160, .out_per_group = 33,
                  .size = { 7, 7 }, .kernel = { 3, 3 }, .stride = { 1, 1 }, .padding = { 1, 1 }, .dilation = { 1, 1 } };
    CHECK(solve(&q));
    q.stride[0] = q.stride[1] = 2;
    CHECK(solve(&q));
}

/* So many weights that the input's gradient turns them while it multiplies. */
static void many_weights(void) {
    problem q = { .dtype = RT_F32, .rank = 2, .n = 1, .groups = 1, .in_per_group = 229, .out_per_group = 256,
                  .size = { 4, 3 }, .kernel = { 3, 3 }, .stride = { 1, 1 }, .padding = { 1, 1 }, .dilation = { 1, 1 } };
    CHECK(solve(&q));
    q.stride[0] = q.stride[1] = 2;
    CHECK(solve(&q));
    q.gaps = true;
    CHECK(solve(&q));
    q.gaps = false, q.transposed = true;
    CHECK(solve(&q));
}

static void *limited_alloc(void *user, size_t size) {
    int *left = user;
    return (*left)-- > 0 ? aligned_alloc(64, size) : NULL;
}
static void plain_free(void *user, void *p) {
    (void)user;
    free(p);
}

static void out_of_memory(void) {
    static float x[2 * 4 * 9 * 9], w[6 * 4 * 3 * 3], y[2 * 6 * 5 * 5], dx[2 * 4 * 9 * 9], dw[6 * 4 * 3 * 3], db[6];
    int64_t two[2] = { 2, 2 }, one[2] = { 1, 1 }, none[2] = { 0, 0 }, mask[3] = { 1, 1, 1 };
    rt_view vx = rt_view_contiguous(x, RT_F32, 4, (int64_t[]){ 2, 4, 9, 9 });
    rt_view vw = rt_view_contiguous(w, RT_F32, 4, (int64_t[]){ 6, 4, 3, 3 });
    rt_view vy = rt_view_contiguous(y, RT_F32, 4, (int64_t[]){ 2, 6, 5, 5 });
    rt_view outs[3] = { vx, vw, rt_view_contiguous(db, RT_F32, 1, (int64_t[]){ 6 }) };
    outs[0].p = dx, outs[1].p = dw;
    rt_arg lists[] = { { RT_ARG_INTS, 2, { .ints = two } },
                       { RT_ARG_INTS, 2, { .ints = one } },
                       { RT_ARG_INTS, 2, { .ints = none } } };
    rt_arg no = { RT_ARG_INT, 0, { .i = 0 } }, group = { RT_ARG_INT, 0, { .i = 1 } };
    rt_arg views[] = { { RT_ARG_VIEW, 0, { .view = &vy } },
                       { RT_ARG_VIEW, 0, { .view = &vx } },
                       { RT_ARG_VIEW, 0, { .view = &vw } } };
    rt_arg forward[] = { views[1], views[2], { 0 }, lists[0], lists[1], lists[1], no, lists[2], group };
    rt_arg backward[] = { views[0], views[1], views[2], { 0 }, lists[0], lists[1], lists[1], no, lists[2], group,
                          { RT_ARG_INTS, 3, { .ints = mask } } };
    for (int kernel = 0; kernel < 2; kernel++) {
        int code = RT_ENOMEM, tries = 0;
        for (; code == RT_ENOMEM && tries < 100; tries++) {
            int left = tries;
            ctx = rt_ctx_plain(NULL, message, sizeof message);
            ctx.alloc = limited_alloc, ctx.free = plain_free, ctx.user = &left;
            rt_call call = { .arg = kernel ? backward : forward, .out = kernel ? outs : &vy, .nargs = kernel ? 11 : 9 };
            code = kernel ? rt_k_convolution_backward(&ctx, &call) : rt_k_convolution(&ctx, &call);
        }
        CHECK_EQ(code, RT_OK);
        CHECK(tries > 4);
    }
}

int main(int argc, char **argv) {
    (void)argc;
    if (every_isa(argv)) return every_isa_result();
    RUN(random_problems);
    RUN(deep_sums);
    RUN(many_weights);
    RUN(out_of_memory);
    return check_summary();
}
