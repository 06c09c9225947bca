/* Products on packed weights against a triple loop with each step of the epilogue written out: odd sizes, strides, no
 * rows, no terms, NaN; equal bits for any number of threads; the same for recurrent layers. */
#include "check.h"
#include "every_isa.h"
#include "runtime/gemm.h"
#include "runtime/kernels.h"
#include "runtime/rt_fmath.h"

static char message[128];
static uint64_t seed = 5;

static int64_t draw(int64_t below) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((seed >> 33) % (uint64_t)below);
}

static float *numbers(int64_t n) {
    float *x = malloc((size_t)(n + 1) * 4);
    for (int64_t i = 0; i <= n; i++) x[i] = (float)(draw(2001) - 1000) / 500;
    return x;
}

static float *packed(const float *w, int64_t n, int64_t k, bool transposed, int64_t groups, rt_view *out) {
    rt_view weight = rt_view_contiguous((void *)w, RT_F32, 2, transposed ? (int64_t[]){ k, n } : (int64_t[]){ n, k });
    int64_t size[3] = { groups * ((n / groups + 15) / 16), k, 16 };
    *out = rt_view_contiguous(NULL, RT_F32, 3, size);
    out->p = aligned_alloc(64, (size_t)(rt_numel(out) + 16) * 4);
    rt_arg args[3] = { { RT_ARG_VIEW, 0, { .view = &weight } },
                       { RT_ARG_INT, 0, { .i = transposed } },
                       { RT_ARG_INT, 0, { .i = groups } } };
    rt_call call = { .arg = args, .out = out, .nargs = 3, .nout = 1 };
    rt_ctx ctx = rt_ctx_plain(NULL, message, sizeof message);
    CHECK_EQ(rt_k_pack_panels(&ctx, &call), RT_OK);
    return out->p;
}

static float clamp6(float x) { return x < 0 ? 0 : x > 6 ? 6 : x; }

static float act_of(int act, float a) {
    switch (act) {
    case RT_ACT_relu: return a < 0 ? 0 : a;
    case RT_ACT_gelu: return a * 0.5f * (1 + rt_erf_f32(a * 0.70710678f));
    case RT_ACT_gelu_tanh: return 0.5f * a * (1 + rt_tanh_f32(0.79788456f * (a + 0.044715f * a * a * a)));
    case RT_ACT_silu: return a / (1 + rt_exp_f32(-a));
    case RT_ACT_sigmoid: return rt_sigmoid_f32(a);
    case RT_ACT_tanh: return rt_tanh_f32(a);
    case RT_ACT_hardswish: return a * clamp6(a + 3) / 6;
    case RT_ACT_hardsigmoid: return clamp6(a + 3) / 6;
    default: return a;
    }
}
static const char *const act_names[] = {
#define X(name, ...) #name,
    RT_ACTS(X)
#undef X
};

/* 1: a vector, 2: a matrix */
typedef struct problem { int64_t m, n, k; int act; bool bias, transposed, strided; int scale, residual; } problem;

static void solve(const problem *q) {
    int64_t a_row = q->strided ? 2 * q->k + 1 : q->k, a_col = q->strided ? 2 : 1, c_row = q->strided ? q->n + 3 : q->n;
    float *x = numbers(q->m * a_row), *w = numbers(q->n * q->k), *b = numbers(q->n), *s = numbers(q->m * q->n),
          *r = numbers(q->m * c_row);
    rt_view panels, in = rt_view_contiguous(x, RT_F32, 2, (int64_t[]){ q->m, q->k });
    in.stride[0] = a_row, in.stride[1] = a_col;
    float *packed_w = packed(w, q->n, q->k, q->transposed, 1, &panels);
    rt_view bias = rt_view_contiguous(b, RT_F32, 1, &q->n),
            scale = rt_view_contiguous(s, RT_F32, 2, (int64_t[]){ q->m, q->n });
    if (q->scale == 1) scale = rt_view_contiguous(s, RT_F32, 1, &q->n);
    rt_view residual = rt_view_contiguous(r, RT_F32, 2, (int64_t[]){ q->m, q->n });
    residual.stride[0] = c_row;
    if (q->residual == 1) residual = rt_view_contiguous(r, RT_F32, 2, (int64_t[]){ 1, q->n });
    rt_arg args[7] = { { RT_ARG_VIEW, 0, { .view = &in } },
                       { RT_ARG_VIEW, 0, { .view = &panels } },
                       { RT_ARG_INT, 0, { .i = q->n } } };
    if (q->bias) args[3] = (rt_arg){ RT_ARG_VIEW, 0, { .view = &bias } };
    args[4] = (rt_arg){ RT_ARG_STR, (uint32_t)strlen(act_names[q->act]), { .str = act_names[q->act] } };
    if (q->scale) args[5] = (rt_arg){ RT_ARG_VIEW, 0, { .view = &scale } };
    if (q->residual) args[6] = (rt_arg){ RT_ARG_VIEW, 0, { .view = &residual } };

    float *first = NULL;
    size_t bytes = (size_t)(q->m * c_row) * 4;
    for (int threads = 1; threads <= 3; threads++) {
        float *y = malloc(bytes + 4);
        memset(y, 0xff, bytes);
        rt_view out = rt_view_contiguous(y, RT_F32, 2, (int64_t[]){ q->m, q->n });
        out.stride[0] = c_row;
        rt_call call = { .arg = args, .out = &out, .nargs = 7, .nout = 1 };
        rt_pool *pool = rt_pool_create(threads);
        rt_ctx ctx = rt_ctx_plain(pool, message, sizeof message);
        CHECK_EQ(rt_k_linear_packed(&ctx, &call), RT_OK);
        rt_pool_release(pool);
        if (!first) first = y;
        else {
            CHECK(!memcmp(first, y, bytes));
            free(y);
        }
    }
    double worst = 0;
    for (int64_t i = 0; i < q->m; i++)
        for (int64_t j = 0; j < q->n; j++) {
            double sum = 0, size = 1;
            for (int64_t k = 0; k < q->k; k++) {
                double term = (double)x[i * a_row + k * a_col] * (double)w[q->transposed ? k * q->n + j : j * q->k + k];
                sum += term;
                size += fabs(term);
            }
            float y = (float)sum;
            if (q->bias) y += b[j];
            y = act_of(q->act, y);
            if (q->scale) y *= s[(q->scale == 2 ? i * q->n : 0) + j];
            if (q->residual) y += r[(q->residual == 2 ? i * c_row : 0) + j];
            double error = fabs((double)y - (double)first[i * c_row + j]) / size;
            if (!(error <= worst)) worst = error;
        }
    if (!(worst < 1e-5))
        CHECK_FAILED("m %d n %d k %d act %s: error %g", (int)q->m, (int)q->n, (int)q->k, act_names[q->act], worst);
    else CHECK(true);
    for (int64_t i = 0; q->strided && i < q->m; i++) /* between the rows nothing is written */
        for (int64_t j = q->n; j < c_row; j++) CHECK(isnan(first[i * c_row + j]));
    free(x), free(w), free(b), free(s), free(r), free(first), free(packed_w);
}

static void products(void) {
    static const int64_t sizes[][3] = { { 1, 16, 8 },   { 2, 17, 31 },     { 3, 48, 64 },   { 4, 100, 5 },
                                        { 7, 33, 19 },  { 9, 1, 77 },      { 64, 96, 300 }, { 197, 50, 33 },
                                        { 300, 7, 12 }, { 5, 40, 0 },      { 0, 40, 5 },    { 5, 0, 4 },
                                        { 33, 200, 1 }, { 130, 130, 2100 } };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int round = 0; round < 6; round++) {
            problem q = { sizes[i][0],  sizes[i][1],  sizes[i][2], (int)draw(RT_ACT_COUNT), draw(2), draw(2),
                          draw(3) == 0, (int)draw(3), (int)draw(3) };
            solve(&q);
        }
    for (int act = 0; act < RT_ACT_COUNT; act++) {
        problem q = { 20, 50, 10, act, true, false, false, 1, 2 };
        solve(&q);
    }
}

/* 0 * NaN and 0 * inf are NaN: nothing is skipped, and padding of a panel never reaches a column that counts. */
static void nan_passes(void) {
    enum { M = 3, N = 17, K = 4 };
    float x[M * K] = { 0 }, w[N * K] = { 0 };
    w[3 * K + 1] = NAN;
    w[16 * K + 2] = INFINITY;
    rt_view panels, in = rt_view_contiguous(x, RT_F32, 2, (int64_t[]){ M, K });
    float y[M * N], *p = packed(w, N, K, false, 1, &panels);
    rt_view out = rt_view_contiguous(y, RT_F32, 2, (int64_t[]){ M, N });
    for (int act = 0; act < RT_ACT_COUNT; act++) {
        rt_arg args[7] = { { RT_ARG_VIEW, 0, { .view = &in } },
                           { RT_ARG_VIEW, 0, { .view = &panels } },
                           { RT_ARG_INT, 0, { .i = N } } };
        args[4] = (rt_arg){ RT_ARG_STR, (uint32_t)strlen(act_names[act]), { .str = act_names[act] } };
        rt_call call = { .arg = args, .out = &out, .nargs = 7, .nout = 1 };
        rt_ctx ctx = rt_ctx_plain(NULL, message, sizeof message);
        CHECK_EQ(rt_k_linear_packed(&ctx, &call), RT_OK);
        for (int i = 0; i < M; i++)
            for (int j = 0; j < N; j++) CHECK(!isnan(y[i * N + j]) == !(j == 3 || j == 16));
    }
    free(p);
}

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

static void recurrence(int64_t steps, int64_t batch, int64_t size, int64_t hidden, bool gru, bool reverse,
                       bool batch_first, bool biases) {
    int64_t gates = gru ? 3 : 4;
    float *x = numbers(steps * batch * size), *h0 = numbers(batch * hidden), *c0 = numbers(batch * hidden),
          *w = numbers(gates * hidden * size);
    float *u = numbers(gates * hidden * hidden), *b = numbers(gates * hidden), *d = numbers(gates * hidden);
    rt_view wp, up,
        in = rt_view_contiguous(x, RT_F32, 3,
                                batch_first ? (int64_t[]){ batch, steps, size } : (int64_t[]){ steps, batch, size });
    void *memory[2] = { packed(w, gates * hidden, size, false, gates, &wp),
                        packed(u, gates * hidden, hidden, false, gates, &up) };
    int64_t state[2] = { batch, hidden }, rows = gates * hidden;
    rt_view h = rt_view_contiguous(h0, RT_F32, 2, state), c = rt_view_contiguous(c0, RT_F32, 2, state);
    rt_view bv = rt_view_contiguous(b, RT_F32, 1, &rows), dv = rt_view_contiguous(d, RT_F32, 1, &rows);
    rt_arg args[9];
    const rt_view *views[7] = { &in, &h, &c, &wp, &up, biases ? &bv : NULL, biases ? &dv : NULL };
    int n = 0;
    for (int i = 0; i < 7; i++)
        if (i != 2 || !gru) args[n++] = (rt_arg){ views[i] ? RT_ARG_VIEW : RT_ARG_NONE, 0, { .view = views[i] } };
    args[n++] = (rt_arg){ RT_ARG_INT, 0, { .i = reverse } };
    args[n++] = (rt_arg){ RT_ARG_INT, 0, { .i = batch_first } };
    float *first = NULL;
    int64_t all = steps * batch * hidden, total = all + 2 * batch * hidden;
    for (int threads = 1; threads <= 2; threads++) {
        float *y = calloc((size_t)total + 1, 4);
        rt_view out[3] = { rt_view_contiguous(y, RT_F32, 3,
                                              batch_first ? (int64_t[]){ batch, steps, hidden }
                                                          : (int64_t[]){ steps, batch, hidden }),
                           rt_view_contiguous(y + all, RT_F32, 2, state),
                           rt_view_contiguous(y + all + batch * hidden, RT_F32, 2, state) };
        rt_call call = { .arg = args, .out = out, .nargs = n, .nout = gru ? 2 : 3 };
        rt_pool *pool = rt_pool_create(threads);
        rt_ctx ctx = rt_ctx_plain(pool, message, sizeof message);
        CHECK_EQ((gru ? rt_k_gru_packed : rt_k_lstm_packed)(&ctx, &call), RT_OK);
        rt_pool_release(pool);
        if (!first) first = y;
        else {
            CHECK(!memcmp(first, y, (size_t)total * 4));
            free(y);
        }
    }
    double worst = 0, *hs = malloc((size_t)(2 * batch * hidden + 1) * 8),
           *cs = malloc((size_t)(batch * hidden + 1) * 8);
    for (int64_t i = 0; i < batch * hidden; i++) hs[i] = (double)h0[i], cs[i] = (double)c0[i];
    for (int64_t t = 0; t < steps; t++) {
        int64_t at = reverse ? steps - 1 - t : t;
        for (int64_t s = 0; s < batch; s++)
            for (int64_t j = 0; j < hidden; j++) {
                double from_x[4], from_h[4];
                int64_t row = batch_first ? s * steps + at : at * batch + s;
                for (int64_t q = 0; q < gates; q++) {
                    int64_t g = q * hidden + j;
                    from_x[q] = biases ? (double)b[g] : 0, from_h[q] = biases ? (double)d[g] : 0;
                    for (int64_t k = 0; k < size; k++) from_x[q] += (double)x[row * size + k] * (double)w[g * size + k];
                    for (int64_t k = 0; k < hidden; k++) from_h[q] += hs[s * hidden + k] * (double)u[g * hidden + k];
                }
                double *next = hs + batch * hidden + s * hidden + j, *cell = cs + s * hidden + j;
                if (gru) {
                    double fresh = tanh(from_x[2] + sigmoid(from_x[0] + from_h[0]) * from_h[2]),
                           update = sigmoid(from_x[1] + from_h[1]);
                    *next = fresh + update * (hs[s * hidden + j] - fresh);
                } else {
                    *cell = sigmoid(from_x[1] + from_h[1]) * *cell +
                            sigmoid(from_x[0] + from_h[0]) * tanh(from_x[2] + from_h[2]);
                    *next = sigmoid(from_x[3] + from_h[3]) * tanh(*cell);
                }
                worst = fmax(worst, fabs(*next - (double)first[row * hidden + j]));
            }
        memcpy(hs, hs + batch * hidden, (size_t)(batch * hidden) * 8);
    }
    for (int64_t i = 0; i < batch * hidden; i++) {
        worst = fmax(worst, fabs(hs[i] - (double)first[all + i]));
        if (!gru) worst = fmax(worst, fabs(cs[i] - (double)first[all + batch * hidden + i]));
    }
    if (!(worst < 2e-4))
        CHECK_FAILED("%s steps %d batch %d size %d hidden %d: error %g", gru ? "gru" : "lstm", (int)steps, (int)batch,
                     (int)size, (int)hidden, worst);
    else CHECK(true);
    free(x), free(h0), free(c0), free(w), free(u), free(b), free(d), free(first), free(hs), free(cs), free(memory[0]),
        free(memory[1]);
}

static void recurrences(void) {
    for (int round = 0; round < 24; round++)
        recurrence(draw(4) + (round != 5), 1 + draw(11), 1 + draw(40), 1 + draw(70), round & 1, draw(2), draw(2),
                   round % 5 != 0);
    recurrence(2, 3, 5, 150, false, false, true, true);
}

static void *no_alloc(void *user, size_t size) {
    int *left = user;
    return (*left)-- > 0 ? aligned_alloc(64, size) : NULL;
}
static void plain_free(void *user, void *p) {
    (void)user;
    free(p);
}

static void out_of_memory(void) {
    enum { N = 20, K = 6, M = 4 };
    float *w = numbers(N * K), *x = numbers(M * K * 2), *y = numbers(2 * M * N);
    rt_view panels, in = rt_view_contiguous(x, RT_F32, 2, (int64_t[]){ M, K }),
                    out = rt_view_contiguous(y, RT_F32, 2, (int64_t[]){ M, N });
    float *p = packed(w, N, K, false, 1, &panels);
    in.stride[0] = 1, in.stride[1] = M;
    out.stride[0] = 2 * N, out.stride[1] = 2;
    rt_arg args[7] = { { RT_ARG_VIEW, 0, { .view = &in } },
                       { RT_ARG_VIEW, 0, { .view = &panels } },
                       { RT_ARG_INT, 0, { .i = N } } };
    args[4] = (rt_arg){ RT_ARG_STR, 4, { .str = "gelu" } };
    rt_call call = { .arg = args, .out = &out, .nargs = 7, .nout = 1 };
    int code = RT_ENOMEM, tries = 0;
    for (; code == RT_ENOMEM && tries < 20; tries++) {
        int left = tries;
        rt_ctx ctx = rt_ctx_plain(NULL, message, sizeof message);
        ctx.alloc = no_alloc, ctx.free = plain_free, ctx.user = &left;
        code = rt_k_linear_packed(&ctx, &call);
    }
    CHECK_EQ(code, RT_OK);
    CHECK(tries > 2);
    free(w), free(x), free(y), free(p);
}

int main(int argc, char **argv) {
    (void)argc;
    if (every_isa(argv)) return every_isa_result();
    printf("%s: ", rt_gemm_isa_name());
    RUN(products);
    RUN(nan_passes);
    RUN(recurrences);
    RUN(out_of_memory);
    return check_summary();
}
